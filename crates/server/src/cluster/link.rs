//! A connection of the bus: packets in and out, without waiting, over TLS or not.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use martlet_cluster::packet::Frames;
use martlet_tls::TlsSession;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::node::Waiting;

/// So much is received of one connection before others get their turn.
const TURN_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// See the [module docs](self).
pub(super) struct Link {
    stream: TcpStream,
    /// The events that epoll waits for.
    watched: Option<EventFlags>,
    tls: Option<Box<TlsSession>>,
    /// It is not known yet whether the other end answers.
    pub is_connecting: bool,
    /// This node has made it, and the machine has not heard of its success yet.
    is_awaited: bool,
    /// Received bytes.
    pub frames: Frames,
    queue: VecDeque<Arc<[u8]>>,
    /// Bytes of the first packet that have been sent.
    sent_bytes: usize,
    /// Bytes of all that have not.
    waiting_bytes: usize,
    /// With TLS, encrypted bytes of earlier packets, and of the handshake.
    enciphered: Vec<u8>,
}

impl Link {
    /// An accepted connection.
    pub fn accepted(stream: TcpStream, tls: Option<TlsSession>) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Link::new(stream, tls, false))
    }

    /// A connection that has begun to be made.
    pub fn begun((stream, tls): (TcpStream, Option<TlsSession>)) -> Link {
        Link::new(stream, tls, true)
    }

    fn new(stream: TcpStream, tls: Option<TlsSession>, is_mine: bool) -> Link {
        Link {
            stream,
            watched: None,
            tls: tls.map(Box::new),
            is_connecting: is_mine,
            is_awaited: is_mine,
            frames: Frames::default(),
            queue: VecDeque::new(),
            sent_bytes: 0,
            waiting_bytes: 0,
            enciphered: Vec::new(),
        }
    }

    /// Has epoll wait for the events that it needs now, and report them by this number.
    ///
    /// # Errors
    /// The kernel's: it has no memory for it.
    pub fn watch(&mut self, epoll: &OwnedFd, number: u64) -> io::Result<()> {
        let wanted = if self.wants_to_write() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(number);
        match self.watched {
            Some(watched) if watched == wanted => return Ok(()),
            Some(_) => epoll::modify(epoll, &self.stream, data, wanted)?,
            None => epoll::add(epoll, &self.stream, data, wanted)?,
        }
        self.watched = Some(wanted);
        Ok(())
    }

    /// Whether it has TLS, and hands are not shaken yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// Whether there is something to be sent, or the end of connecting to be waited for.
    pub fn wants_to_write(&self) -> bool {
        let has_packets = !self.queue.is_empty() && !self.is_handshaking();
        self.is_connecting || has_packets || !self.enciphered.is_empty()
    }

    /// Ends connecting, which has come to something; with TLS the handshake begins.
    pub fn finish_connecting(&mut self) -> io::Result<()> {
        self.is_connecting = false;
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        self.stream.set_nodelay(true)?;
        self.shake_hands()
    }

    /// Whether it has become one that packets go through since this was last asked; of those that this node
    /// has made.
    pub fn is_there_now(&mut self) -> bool {
        let is_there = !self.is_connecting && !self.is_handshaking();
        is_there && std::mem::take(&mut self.is_awaited)
    }

    /// The addresses of the other end and of this one; empty if they are not known.
    pub fn ends(&self) -> (String, String) {
        let text = |address: io::Result<SocketAddr>| address.map_or(String::new(), |of| of.ip().to_string());
        (text(self.stream.peer_addr()), text(self.stream.local_addr()))
    }

    /// The unsent bytes.
    pub fn waiting(&self) -> Waiting {
        let packets: usize = self.queue.iter().map(|packet| packet.len()).sum();
        Waiting {
            used: self.waiting_bytes + self.enciphered.len(),
            allocated: packets + self.enciphered.capacity(),
        }
    }

    /// Has a packet sent after those that wait.
    pub fn send(&mut self, packet: Arc<[u8]>) {
        self.waiting_bytes += packet.len();
        self.queue.push_back(packet);
    }

    /// Sends as much as the kernel takes.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.tls.is_some() {
            return self.flush_enciphered();
        }
        while let Some(packet) = self.queue.front() {
            let rest = packet.get(self.sent_bytes..).unwrap_or_default();
            let Some(sent) = write_some(&mut self.stream, rest)? else { return Ok(()) };
            self.waiting_bytes -= sent;
            self.sent_bytes += sent;
            if self.sent_bytes == packet.len() {
                self.queue.pop_front();
                self.sent_bytes = 0;
            }
        }
        Ok(())
    }

    /// The same with TLS: packets follow the handshake.
    fn flush_enciphered(&mut self) -> io::Result<()> {
        loop {
            while !self.enciphered.is_empty() {
                let Some(sent) = write_some(&mut self.stream, &self.enciphered)? else { return Ok(()) };
                self.enciphered.drain(..sent);
            }
            let Some(session) = self.tls.as_mut().filter(|session| !session.is_handshaking()) else {
                return Ok(());
            };
            let Some(packet) = self.queue.pop_front() else { return Ok(()) };
            self.waiting_bytes -= packet.len();
            session.transmit(&packet, &mut self.enciphered)?;
        }
    }

    /// Sends what TLS itself has to say.
    fn shake_hands(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.tls else { return Ok(()) };
        session.transmit(b"", &mut self.enciphered)?;
        self.flush_enciphered()
    }

    /// Receives bytes; false at the end of the stream.
    pub fn receive(&mut self) -> io::Result<bool> {
        let (mut bytes, mut left) = ([0; READ_BYTES], TURN_BYTES);
        while left > 0 {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.take_in(bytes.get(..count).unwrap_or_default())?;
                    left = left.saturating_sub(count);
                    // The kernel has no more; epoll reports when it does.
                    if count < READ_BYTES {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn take_in(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.tls else {
            self.frames.push(bytes);
            return Ok(());
        };
        let mut plain = Vec::new();
        session.receive(bytes, &mut plain)?;
        self.frames.push(&plain);
        self.shake_hands()
    }
}

/// Writes some bytes; `None` if the kernel takes none now.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => return Ok(Some(sent)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
