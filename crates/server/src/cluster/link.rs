//! A connection of the bus: packets in and out, without waiting.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use martlet_cluster::packet::Frames;

use super::Waiting;

/// So much is received of one connection before others get their turn.
const TURN_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// See the [module docs](self).
pub(super) struct Link {
    stream: TcpStream,
    /// It is not known yet whether the other end answers.
    pub is_connecting: bool,
    /// What was received.
    pub frames: Frames,
    queue: VecDeque<Arc<[u8]>>,
    /// Bytes of the first packet that have been sent.
    sent_bytes: usize,
    /// Bytes of all that have not.
    pub waiting_bytes: usize,
}

impl Link {
    /// A connection that somebody has made.
    pub fn accepted(stream: TcpStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Link::new(stream, false))
    }

    /// Begins to connect.
    pub fn connect(host: &str, port: u16) -> io::Result<Link> {
        let host: IpAddr = host.parse().map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        let socket = martlet_net::begin_connect(SocketAddr::new(host, port))?;
        Ok(Link::new(TcpStream::from(socket), true))
    }

    fn new(stream: TcpStream, is_connecting: bool) -> Link {
        let (frames, queue) = (Frames::default(), VecDeque::new());
        Link { stream, is_connecting, frames, queue, sent_bytes: 0, waiting_bytes: 0 }
    }

    /// The socket, to wait for it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether there is something to be sent, or the end of connecting to be waited for.
    pub fn wants_to_write(&self) -> bool {
        self.is_connecting || !self.queue.is_empty()
    }

    /// Ends connecting, which has come to something.
    pub fn finish_connecting(&mut self) -> io::Result<()> {
        self.is_connecting = false;
        match self.stream.take_error()? {
            Some(error) => Err(error),
            None => self.stream.set_nodelay(true),
        }
    }

    /// The addresses of the other end and of this one; empty if they are not known.
    pub fn ends(&self) -> (String, String) {
        let text = |address: io::Result<SocketAddr>| address.map_or(String::new(), |of| of.ip().to_string());
        (text(self.stream.peer_addr()), text(self.stream.local_addr()))
    }

    /// What waits to be sent.
    pub fn waiting(&self) -> Waiting {
        Waiting { used: self.waiting_bytes, allocated: self.queue.iter().map(|packet| packet.len()).sum() }
    }

    /// Has a packet sent after those that wait.
    pub fn send(&mut self, packet: Arc<[u8]>) {
        self.waiting_bytes += packet.len();
        self.queue.push_back(packet);
    }

    /// Sends as much as the kernel takes.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(packet) = self.queue.front() {
            let rest = packet.get(self.sent_bytes..).unwrap_or_default();
            let sent = match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.waiting_bytes -= sent;
            self.sent_bytes += sent;
            if self.sent_bytes == packet.len() {
                self.queue.pop_front();
                self.sent_bytes = 0;
            }
        }
        Ok(())
    }

    /// Takes in what has arrived; false at the end of the stream.
    pub fn receive(&mut self) -> io::Result<bool> {
        let (mut bytes, mut left) = ([0; READ_BYTES], TURN_BYTES);
        while left > 0 {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.frames.push(bytes.get(..count).unwrap_or_default());
                    left = left.saturating_sub(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
