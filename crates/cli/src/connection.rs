//! One connection: requests out, replies in as parts.
//!
//! Invariant: a reply is read to its end before the next one begins; bytes beyond it wait.

use crate::interrupt;
use crate::settings::Settings;
use martlet_client::address::Address;
use martlet_client::parts::{Aggregate, Part, PartReader, PartsError, ReplyBuilder};
use martlet_client::resp::{self, Reply};
use martlet_client::stream::Stream;
use martlet_tls::TlsSettings;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};

/// Why there is no reply.
#[derive(Debug)]
pub enum Lost {
    /// The server ended the connection.
    Closed,
    /// The system says why.
    Io(io::Error),
    /// The received bytes are not RESP.
    Protocol(PartsError),
}

impl Lost {
    /// A signal ended the wait; nothing is lost.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Lost::Io(error) if error.kind() == io::ErrorKind::Interrupted)
    }

    /// The server has ended the connection, maybe long ago.
    pub fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self {
            Lost::Closed => true,
            Lost::Io(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
            Lost::Protocol(_) => false,
        }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost::Io(error)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Closed => f.write_str("Server closed the connection"),
            Lost::Io(error) => f.write_str(&plain(error)),
            Lost::Protocol(error) => error.fmt(f),
        }
    }
}

/// An error's text as C programs give it.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    text.split(" (os error").next().unwrap_or(text).to_string()
}

/// A connection to a server.
pub struct Connection {
    stream: Stream,
    reader: PartReader,
    received: Vec<u8>,
    /// How much of `received` has been read.
    read_bytes: usize,
    /// Open attributes, which are not shown.
    attributes: usize,
    /// Ctrl-C ends a wait.
    is_interruptible: bool,
}

/// The addresses of a host, those of the preferred family first.
pub fn addresses(settings: &Settings, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    found.sort_by_key(|address| address.is_ipv4() == settings.prefers_ipv6);
    Ok(found)
}

fn open(settings: &Settings, host: &str, port: u16) -> io::Result<Stream> {
    let mut last = io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
    for address in addresses(settings, host, port)? {
        match Stream::connect(&Address::Tcp(address), settings.connect_timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Connection {
    /// Connects; says nothing to the server yet. `socket` goes before `host` and `port`.
    pub fn open(
        settings: &Settings,
        socket: Option<&std::path::Path>,
        host: &str,
        port: u16,
    ) -> Result<Connection, String> {
        let opened = match socket {
            Some(path) => Stream::connect(&Address::Unix(path.into()), None),
            None => open(settings, host, port),
        };
        let named = || socket.map_or_else(|| format!("{host}:{port}"), |path| path.display().to_string());
        let failed =
            |error: io::Error| format!("Could not connect to Redis at {}: {}", named(), plain(&error));
        let mut stream = opened.map_err(failed)?;
        stream.keep_alive().map_err(failed)?;
        if settings.tls {
            let negotiated =
                TlsSettings::new(&settings.tls_options, host).and_then(|tls| stream.secure(&tls));
            negotiated.map_err(|error| format!("Could not negotiate a TLS connection: {}", plain(&error)))?;
        }
        let (reader, received) = (PartReader::default(), Vec::new());
        Ok(Connection { stream, reader, received, read_bytes: 0, attributes: 0, is_interruptible: false })
    }

    /// Ctrl-C, once it is caught, ends a wait from now on.
    pub fn let_interrupts_end_waits(&mut self) {
        self.is_interruptible = true;
    }

    /// Sends a request.
    pub fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Result<(), Lost> {
        let mut request = Vec::new();
        resp::encode_request(arguments, &mut request);
        self.send_raw(&request)
    }

    /// Sends requests that are RESP already.
    pub fn send_raw(&mut self, requests: &[u8]) -> Result<(), Lost> {
        Ok(self.stream.send(requests)?)
    }

    /// Calls return `WouldBlock` from now on instead of waiting.
    pub fn set_nonblocking(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }

    /// Sends part of the output; returns how many bytes were taken.
    pub fn send_some(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        match self.stream.send_some(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// Some of the received bytes, `max` at most, read as they are and not as RESP.
    pub fn raw_bytes(&mut self, max: usize) -> Result<&[u8], Lost> {
        self.receive()?;
        let waiting = self.received.get(self.read_bytes..).unwrap_or_default();
        let taken = waiting.get(..max).unwrap_or(waiting);
        self.read_bytes += taken.len();
        Ok(taken)
    }

    /// A line that comes, without its end.
    pub fn raw_line(&mut self, max_bytes: usize) -> Result<Vec<u8>, Lost> {
        let mut line = Vec::new();
        while line.len() < max_bytes {
            match self.raw_bytes(1)? {
                [b'\n'] => break,
                byte => line.extend_from_slice(byte),
            }
        }
        if line.ends_with(b"\r") {
            line.pop();
        }
        Ok(line)
    }

    /// Waits for bytes, unless some are there.
    fn receive(&mut self) -> Result<(), Lost> {
        if !self.has_received() {
            self.received.clear();
            self.read_bytes = 0;
            if self.is_interruptible {
                interrupt::wait_readable(&self.stream)?;
            }
            if self.stream.read_some(&mut self.received)? == 0 {
                return Err(Lost::Closed);
            }
        }
        Ok(())
    }

    /// Whether a reply, or some of one, has arrived and was not read yet.
    pub fn has_received(&self) -> bool {
        self.read_bytes < self.received.len()
    }

    /// Reads some more of a reply, waiting if nothing is there; returns whether it is complete.
    pub fn read_some(&mut self, sink: &mut dyn FnMut(Part)) -> Result<bool, Lost> {
        self.receive()?;
        let (data, attributes) = (self.received.get(self.read_bytes..), &mut self.attributes);
        let fed = self
            .reader
            .feed(data.unwrap_or_default(), |part| match part {
                Part::Open(Aggregate::Attribute, _) => *attributes += 1,
                Part::Close(Aggregate::Attribute) => *attributes -= 1,
                part if *attributes == 0 => sink(part),
                _ => {}
            })
            .map_err(Lost::Protocol)?;
        self.read_bytes += fed.used_bytes;
        Ok(fed.is_whole)
    }

    /// Waits for a whole reply.
    pub fn reply(&mut self) -> Result<Reply, Lost> {
        let mut builder = ReplyBuilder::default();
        while !self.read_some(&mut |part| builder.add(part))? {}
        builder.finish().ok_or(Lost::Closed)
    }

    /// Waits for a whole reply, also while signals come.
    pub fn whole_reply(&mut self) -> Result<Reply, Lost> {
        let mut builder = ReplyBuilder::default();
        loop {
            match self.read_some(&mut |part| builder.add(part)) {
                Ok(true) => return builder.finish().ok_or(Lost::Closed),
                Err(lost) if !lost.is_interrupt() => return Err(lost),
                _ => {}
            }
        }
    }

    /// Sends a request and waits for its reply; pushes that come before it are dropped.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Result<Reply, Lost> {
        self.send(arguments)?;
        loop {
            match self.reply()? {
                Reply::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
