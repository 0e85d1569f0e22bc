//! A connection that is used by one thread, one request after the other or pipelined by hand.
//! It waits at most its read timeout for a reply, so that no test can hang on a silent server.

use crate::resp::{self, Reply};
use martlet_tls::{TlsSession, TlsSettings};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a reply may take unless `set_timeout` says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long opening the connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes asked of the socket at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A blocking connection to a server.
pub struct Client {
    stream: TcpStream,
    tls: Option<Box<TlsSession>>,
    received: Vec<u8>,
    timeout: Duration,
    reply_max_bytes: usize,
}

impl Client {
    /// Connects; the address is anything that resolves, such as `("127.0.0.1", 6379)`.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        Client::open(address, CONNECT_TIMEOUT)
    }

    /// As [`Client::connect`], where neither connecting nor any later step of sending or receiving may take
    /// longer than `timeout`, which is not zero.
    pub fn connect_within(address: impl ToSocketAddrs, timeout: Duration) -> io::Result<Self> {
        let mut client = Client::open(address, timeout)?;
        client.limit_steps(timeout)?;
        Ok(client)
    }

    /// Limits how long each step of sending and `read_reply` may take; `timeout` is not zero.
    pub fn limit_steps(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        self.stream.set_write_timeout(Some(timeout))
    }

    fn open(address: impl ToSocketAddrs, timeout: Duration) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the address names no host");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let (timeout, reply_max_bytes) = (DEFAULT_TIMEOUT, usize::MAX);
                    return Ok(Self { stream, tls: None, received: Vec::new(), timeout, reply_max_bytes });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Negotiates TLS, before anything else is sent; it takes no longer than a reply may.
    pub fn secure(&mut self, settings: &TlsSettings) -> io::Result<()> {
        let deadline = Instant::now() + self.timeout;
        self.tls = Some(Box::new(settings.session()?));
        self.send_raw(b"")?;
        while self.tls.as_ref().is_some_and(|session| session.is_handshaking()) {
            self.receive(deadline)?;
        }
        Ok(())
    }

    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Limits how long `read_reply` waits.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Limits what `read_reply` keeps of a reply that has no end yet.
    pub fn limit_replies(&mut self, max_bytes: usize) {
        self.reply_max_bytes = max_bytes;
    }

    /// Sends one request and waits for one reply.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Reply> {
        self.send(arguments)?;
        self.read_reply()
    }

    /// Sends one request without waiting.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<()> {
        let mut request = Vec::new();
        resp::encode_request(arguments, &mut request);
        self.send_raw(&request)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.tls else { return self.stream.write_all(bytes) };
        let mut enciphered = Vec::new();
        session.transmit(bytes, &mut enciphered)?;
        self.stream.write_all(&enciphered)
    }

    /// The next reply. `UnexpectedEof` when the server closed the connection, `TimedOut` when it stays
    /// silent, `InvalidData` when the bytes are not RESP, or longer than `limit_replies` allows.
    pub fn read_reply(&mut self) -> io::Result<Reply> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match resp::decode(&self.received) {
                Ok(Some((reply, length))) => {
                    self.received.drain(..length);
                    return Ok(reply);
                }
                Ok(None) if self.received.len() > self.reply_max_bytes => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply beyond the limit"));
                }
                Ok(None) => self.receive(deadline)?,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }

    /// Exactly `count` bytes as the server sent them.
    pub fn read_raw(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        while self.received.len() < count {
            self.receive(deadline)?;
        }
        Ok(self.received.drain(..count).collect())
    }

    /// Waits until the server closes the connection and returns the bytes sent until then.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.receive(deadline) {
                Ok(()) => {}
                Err(error) if is_closed(&error) => return Ok(std::mem::take(&mut self.received)),
                Err(error) => return Err(error),
            }
        }
    }

    /// The socket below, for what this type does not offer (half-closing, options).
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no reply within the timeout"));
        }
        self.stream.set_read_timeout(Some(left))?;
        let start = self.received.len();
        self.received.resize(start + READ_CHUNK_BYTES, 0);
        let result = self.stream.read(&mut self.received[start..]);
        let end = start + result.as_ref().copied().unwrap_or(0);
        self.received.truncate(end);
        self.decipher(start)?;
        match result {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "no reply within the timeout"))
            }
            Err(error) => Err(error),
        }
    }

    /// Decrypts the received bytes from this offset on.
    fn decipher(&mut self, start: usize) -> io::Result<()> {
        let Some(session) = &mut self.tls else { return Ok(()) };
        let enciphered = self.received.split_off(start);
        session.receive(&enciphered, &mut self.received)?;
        if session.wants_write() { self.send_raw(b"") } else { Ok(()) }
    }
}

/// Whether the error says that the peer is gone.
pub fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted)
}
