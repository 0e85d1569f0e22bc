//! A blocking stream of bytes to a server: TCP or a unix socket, with TLS or without.
//!
//! Invariant: a call that a signal interrupts says so (`Interrupted`) and may be made again; nothing is lost.

use crate::address::{Address, set_option};
use martlet_tls::{TlsSession, TlsSettings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes asked of the socket at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// Seconds after which the kernel asks an idle peer whether it is still there, between two questions, and how
/// many it may leave unanswered.
const KEEP_ALIVE: [(libc::c_int, libc::c_int); 3] =
    [(libc::TCP_KEEPIDLE, 15), (libc::TCP_KEEPINTVL, 5), (libc::TCP_KEEPCNT, 3)];

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected stream.
pub struct Stream {
    socket: Socket,
    tls: Option<Box<TlsSession>>,
    chunk: Vec<u8>,
    /// Encrypted bytes that the socket has not taken yet.
    unsent: Vec<u8>,
}

impl Stream {
    /// Connects to `address`, at most within `timeout`.
    pub fn connect(address: &Address, timeout: Option<Duration>) -> io::Result<Stream> {
        let socket = match (address, timeout) {
            (Address::Tcp(address), Some(timeout)) => {
                Socket::Tcp(TcpStream::connect_timeout(address, timeout)?)
            }
            (Address::Tcp(address), None) => Socket::Tcp(TcpStream::connect(address)?),
            (Address::Unix(path), _) => Socket::Unix(UnixStream::connect(path)?),
        };
        if let Socket::Tcp(stream) = &socket {
            stream.set_nodelay(true)?;
        }
        Ok(Stream::plain(socket))
    }

    /// A stream over a unix socket that is connected.
    pub fn from_unix(socket: UnixStream) -> Stream {
        Stream::plain(Socket::Unix(socket))
    }

    fn plain(socket: Socket) -> Stream {
        Stream { socket, tls: None, chunk: vec![0; READ_CHUNK_BYTES], unsent: Vec::new() }
    }

    /// As [`Stream::connect`] to a TCP address, from a local one; from any if that cannot be had, as Redis.
    pub fn connect_from(source: IpAddr, target: SocketAddr, timeout: Duration) -> io::Result<Stream> {
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        let _ = net::bind(&socket, &SocketAddr::new(source, 0));
        match net::connect(&socket, &target) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                let deadline = Instant::now() + timeout;
                let mut waits = [PollFd::new(&socket, PollFlags::OUT)];
                loop {
                    let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now()))
                        .map_err(|_| io::ErrorKind::InvalidInput)?;
                    match poll(&mut waits, Some(&left)) {
                        Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                        Ok(_) => break,
                        Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                net::sockopt::socket_error(&socket)??;
            }
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Stream::plain(Socket::Tcp(stream)))
    }

    /// Negotiates TLS.
    pub fn secure(&mut self, settings: &TlsSettings) -> io::Result<()> {
        let mut session = settings.session()?;
        let mut nothing = Vec::new();
        loop {
            session.transmit(b"", &mut self.unsent)?;
            self.flush()?;
            if !session.is_handshaking() {
                break;
            }
            let count = match self.socket.read(&mut self.chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                result => result?,
            };
            session.receive(self.chunk.get(..count).unwrap_or_default(), &mut nothing)?;
        }
        self.tls = Some(Box::new(session));
        Ok(())
    }

    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Lets the kernel find out that the peer is gone, also while nothing is sent.
    pub fn keep_alive(&self) -> io::Result<()> {
        let Socket::Tcp(stream) = &self.socket else { return Ok(()) };
        set_option(stream, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        KEEP_ALIVE.iter().try_for_each(|(name, value)| set_option(stream, libc::IPPROTO_TCP, *name, *value))
    }

    /// How long a read waits; `None` for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(stream) => stream.set_read_timeout(timeout),
            Socket::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// How long sending waits; `None` for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(stream) => stream.set_write_timeout(timeout),
            Socket::Unix(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// Whether calls return `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Socket::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// Waits for bytes and appends them to `received`; gives how many came over the wire, 0 at the end.
    pub fn read_some(&mut self, received: &mut Vec<u8>) -> io::Result<usize> {
        let count = self.socket.read(&mut self.chunk)?;
        let data = self.chunk.get(..count).unwrap_or_default();
        let Some(session) = &mut self.tls else {
            received.extend_from_slice(data);
            return Ok(count);
        };
        session.receive(data, received)?;
        if session.wants_write() {
            session.transmit(b"", &mut self.unsent)?;
            self.flush()?;
        }
        Ok(count)
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(session) => {
                session.transmit(bytes, &mut self.unsent)?;
                self.flush()
            }
        }
    }

    /// Sends part of `bytes` and returns how many it has taken; those are sent, or will be by the next call
    /// or [`Stream::flush`].
    pub fn send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let Some(session) = &mut self.tls else { return self.socket.write(bytes) };
        session.transmit(bytes, &mut self.unsent)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(bytes.len()),
        }
    }

    /// Sends encrypted bytes that are still unsent.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = self.socket.write(&self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.write_all(bytes),
            Socket::Unix(stream) => stream.write_all(bytes),
        }
    }
}
