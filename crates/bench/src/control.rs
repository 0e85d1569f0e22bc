//! One blocking connection to the server under test, for the questions of a run beside its load:
//! configuration, INFO, cluster nodes. It speaks TLS and unix sockets as the load does.

use crate::interrupt::interruption;
use martlet_client::address::Address;
use martlet_client::resp::{self, Reply};
use martlet_client::stream::Stream;
use martlet_tls::TlsSettings;
use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How long the server may take to accept a connection, and to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the resolver may take to find a name; it gives up by itself.
const RESOLVER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may take after Ctrl-C: a report's last question still has its answer if the server is well.
const TIMEOUT_INTERRUPTED: Duration = Duration::from_millis(300);
/// How often a wait looks for Ctrl-C: the signal may have gone to another thread.
const SLICE: Duration = Duration::from_millis(50);

/// How long a wait has lasted.
struct Patience {
    since: Instant,
    limit: Duration,
}

impl Patience {
    fn new(limit: Duration) -> Patience {
        Patience { since: Instant::now(), limit }
    }

    /// An error once the wait is over.
    fn check(&self) -> io::Result<()> {
        let waited = self.since.elapsed();
        if let Some(reason) = interruption().filter(|_| waited > TIMEOUT_INTERRUPTED) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        }
        if waited > self.limit { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Repeats a call that has waited for a slice of time, or that a signal has interrupted, for example the
    /// kernel's work on an io_uring that has just been closed.
    fn repeat<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    self.check()?;
                }
                result => return result,
            }
        }
    }
}

/// Runs work whose wait, in a library or the kernel, cannot be cut short. A thread of its own does it, which
/// Ctrl-C leaves behind.
pub fn interruptible<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("waiting".into()).spawn(move || done.send(work()))?;
    Patience::new(limit).repeat(|| match outcome.recv_timeout(SLICE) {
        // An error of the work itself ends the wait, whichever it is.
        Ok(result) => Ok(result),
        Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::WouldBlock.into()),
        Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::ConnectionAborted.into()),
    })?
}

/// Opens a stream.
fn open(address: &Address, tls: Option<&TlsSettings>) -> io::Result<Stream> {
    let (address, tls) = (address.clone(), tls.cloned());
    interruptible(TIMEOUT, move || {
        let mut stream = loop {
            match Stream::connect(&address, Some(TIMEOUT)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        stream.set_read_timeout(Some(TIMEOUT))?;
        if let Some(tls) = &tls {
            stream.secure(tls)?;
        }
        Ok(stream)
    })
}

/// The address of a name, which a resolver may take its time to find.
pub fn resolve(host: &str, port: u16) -> io::Result<Address> {
    let name = host.to_string();
    interruptible(RESOLVER_TIMEOUT, move || Address::resolve(&name, port))
}

/// The connection.
pub struct Control {
    address: Address,
    stream: Stream,
    received: Vec<u8>,
    /// Bytes that have come in, encrypted ones where TLS is on.
    pub received_bytes: u64,
}

impl Control {
    /// Connects; with `tls`, negotiates.
    pub fn connect(address: &Address, tls: Option<&TlsSettings>) -> io::Result<Control> {
        let stream = open(address, tls)?;
        stream.set_read_timeout(Some(SLICE))?;
        stream.set_write_timeout(Some(SLICE))?;
        Ok(Control { address: address.clone(), stream, received: Vec::new(), received_bytes: 0 })
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = Patience::new(TIMEOUT).repeat(|| self.stream.send_some(rest))?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Patience::new(TIMEOUT).repeat(|| self.stream.flush())
    }

    fn read_some(&mut self) -> io::Result<()> {
        match Patience::new(TIMEOUT).repeat(|| self.stream.read_some(&mut self.received))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.received_bytes += count as u64;
                Ok(())
            }
        }
    }

    /// Waits for one reply.
    pub fn read_reply(&mut self) -> io::Result<Reply> {
        loop {
            let decoded = resp::decode(&self.received)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if let Some((reply, used)) = decoded {
                self.received.drain(..used);
                return Ok(reply);
            }
            self.read_some()?;
        }
    }

    /// Sends one request and waits for its reply. An error names the server.
    pub fn command<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Reply> {
        let mut request = Vec::new();
        resp::encode_request(arguments, &mut request);
        self.write(&request).and_then(|()| self.read_reply()).map_err(|error| {
            let text = match error.kind() {
                io::ErrorKind::UnexpectedEof => "Server closed the connection".to_string(),
                _ => plain_error(&error),
            };
            io::Error::new(error.kind(), format!("Error: {text} ({})", self.address))
        })
    }

    /// A command whose reply is text; `None` when it is not, as with an error.
    pub fn text<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Option<String>> {
        let reply = self.command(arguments)?;
        if reply.is_error() {
            return Ok(None);
        }
        Ok(reply.text().map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    /// The value of a configuration parameter.
    pub fn config(&mut self, name: &str) -> io::Result<Result<String, Reply>> {
        let reply = self.command(&["CONFIG", "GET", name])?;
        let value = match &reply {
            Reply::Map(pairs) => pairs.first().map(|(_, value)| value),
            other => other.items().and_then(|items| items.get(1)),
        };
        let value = value.and_then(Reply::text);
        Ok(match value {
            Some(value) => Ok(String::from_utf8_lossy(value).into_owned()),
            None => Err(reply),
        })
    }
}

/// The message without Rust's " (os error N)"; where a limit of the system is behind it, with that limit's
/// name.
pub fn plain_error(error: &io::Error) -> String {
    // The error of a read or a connect that waits too long; ETIMEDOUT is the kernel's own patience.
    let waited = error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none();
    if waited || error.kind() == io::ErrorKind::WouldBlock {
        return format!("no answer within {} s", TIMEOUT.as_secs());
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let limit = match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => {
            ": the source address is not of this machine, or none of its ports is left \
             (net.ipv4.ip_local_port_range; --source names more addresses)"
        }
        Some(libc::EMFILE) => " (ulimit -n)",
        Some(libc::ENFILE) => " (fs.file-max)",
        _ => "",
    };
    format!("{text}{limit}")
}

/// A reply as a message shows it: an error's or a string's text.
pub fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        _ => match reply.text() {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => format!("{reply:?}"),
        },
    }
}

/// A field of INFO's text.
pub fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_and_errors_are_shown_as_text() {
        assert_eq!(reply_text(&Reply::Error(b"ERR no".to_vec())), "ERR no");
        assert_eq!(reply_text(&Reply::Bulk(b"a".to_vec())), "a");
        assert_eq!(reply_text(&Reply::NullBulk), "NullBulk");
        assert_eq!(plain_error(&io::Error::from_raw_os_error(libc::ECONNREFUSED)), "Connection refused");
        let silent = plain_error(&io::ErrorKind::WouldBlock.into());
        assert_eq!(silent, "no answer within 10 s");
        let full = plain_error(&io::Error::from_raw_os_error(libc::ENFILE));
        assert_eq!(full, "Too many open files in system (fs.file-max)");
    }
}
