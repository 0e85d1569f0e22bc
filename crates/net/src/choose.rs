//! Choice of the backend: the requested one, and the abilities of this kernel, in this container.
//!
//! io_uring may be missing, forbidden by a system setting or by a seccomp filter, or lack a needed operation.
//! A list of feature bits would not show all of it, so the probe runs the backend on a pair of sockets and
//! looks at the result.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::{Backend, Buffer, Epoll, Sink, Tls, Token, Uring};

/// How long one step of the probe may take; each takes microseconds.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// More than a socket takes at once, so that the probe sees a send that is cut short.
const LONG_SEND_BYTES: usize = 4 << 20;
/// Polls after which a send that does not end is given up.
const LONG_SEND_POLLS: usize = 10_000;

/// The requested backend (`io-backend`).
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum Choice {
    /// io_uring where it works, else epoll.
    Auto,
    /// io_uring, or fail.
    Uring,
    /// epoll.
    Epoll,
}

/// A kind of backend that works here.
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum Kind {
    /// [`Uring`].
    Uring,
    /// [`Epoll`].
    Epoll,
}

impl Kind {
    /// `io_uring` or `epoll`, as [`Backend::name`] says.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Uring => "io_uring",
            Kind::Epoll => "epoll",
        }
    }

    /// A backend of this kind, which can speak TLS. It may be sent to the thread that will use it.
    ///
    /// # Errors
    /// The kernel's: out of descriptors or memory, say.
    pub fn open(self) -> io::Result<Box<dyn Backend + Send>> {
        Ok(match self {
            Kind::Uring => Box::new(Tls::new(Uring::new()?)),
            Kind::Epoll => Box::new(Tls::new(Epoll::new()?)),
        })
    }
}

/// The kind to use, and why it is not io_uring when [`Choice::Auto`] fell back: a sentence for the log.
///
/// # Errors
/// `Unsupported`, with the reason, when io_uring was asked for and does not work.
pub fn choose(choice: Choice) -> io::Result<(Kind, Option<String>)> {
    match (choice, if choice == Choice::Epoll { Ok(()) } else { probe() }) {
        (Choice::Epoll, _) => Ok((Kind::Epoll, None)),
        (_, Ok(())) => Ok((Kind::Uring, None)),
        (Choice::Auto, Err(reason)) => Ok((Kind::Epoll, Some(reason))),
        (Choice::Uring, Err(reason)) => Err(io::Error::new(io::ErrorKind::Unsupported, reason)),
    }
}

/// Whether the io_uring backend works here, tried out on a pair of sockets; takes about a millisecond.
///
/// # Errors
/// Why not, as a sentence.
pub fn probe() -> Result<(), String> {
    let mut backend = Uring::new().map_err(|error| explain(&error))?;
    try_out(&mut backend).map_err(|error| explain(&error))
}

fn explain(error: &io::Error) -> String {
    let cause = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => "the kernel has no io_uring, or a seccomp filter forbids it".into(),
        Some(Errno::PERM | Errno::ACCESS) => {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(value) if value.trim() != "0" => format!("kernel.io_uring_disabled is {}", value.trim()),
                _ => "a seccomp filter or a security module forbids it".into(),
            }
        }
        Some(Errno::NOMEM) => "out of memory, or over the limit of locked memory (ulimit -l)".into(),
        Some(Errno::INVAL) => "the kernel is older than Linux 6.1".into(),
        _ => "the trial failed".to_string(),
    };
    format!("io_uring does not work here: {cause} ({error})")
}

#[derive(Default)]
struct Probe {
    received: Vec<u8>,
    sent: Vec<usize>,
    failure: Option<io::Error>,
    woken: bool,
}

impl Sink for Probe {
    fn accepted(&mut self, _tag: u32, _socket: OwnedFd) {}

    fn received(&mut self, _token: Token, data: &[u8]) -> bool {
        self.received.extend_from_slice(data);
        true
    }

    fn sent(&mut self, _token: Token, buffer: Buffer, result: io::Result<()>) {
        self.sent.push(buffer.len());
        self.failure = result.err().or(self.failure.take());
    }

    fn closed(&mut self, _token: Token, reason: Option<io::Error>) {
        self.failure = reason.or(self.failure.take());
    }

    fn woken(&mut self) {
        self.woken = true;
    }
}

/// Receives, wakes, and sends both a small buffer and one that does not fit at once.
fn try_out(backend: &mut dyn Backend) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, peer) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let token = Token::new(0, 1);
    let mut probe = Probe::default();
    backend.adopt(ours, token)?;

    backend.send(token, b"reply".to_vec().into());
    backend.poll(Some(Duration::ZERO), &mut probe)?;
    check(probe.sent == [5] && drain(&peer) == 5, "a short send did not end at once")?;

    rustix::io::write(&peer, b"request")?;
    backend.poll(Some(STEP_TIMEOUT), &mut probe)?;
    check(probe.received == b"request", "the bytes sent to it did not arrive")?;

    backend.waker().wake();
    backend.poll(Some(STEP_TIMEOUT), &mut probe)?;
    check(probe.woken, "it was not woken")?;

    backend.send(token, vec![0; LONG_SEND_BYTES].into());
    backend.poll(Some(Duration::ZERO), &mut probe)?;
    check(probe.sent == [5], "a send longer than the socket's buffer was reported as written")?;
    let mut count = 0;
    for _ in 0..LONG_SEND_POLLS {
        count += drain(&peer);
        if probe.sent.len() == 2 {
            break;
        }
        // Without sleep: no other thread makes room.
        backend.poll(Some(Duration::ZERO), &mut probe)?;
    }
    count += drain(&peer);
    backend.close(token);
    backend.poll(Some(Duration::ZERO), &mut probe)?;
    match probe.failure {
        Some(failure) => Err(failure),
        None => check(count == LONG_SEND_BYTES, "a send that was cut short lost bytes"),
    }
}

fn check(holds: bool, otherwise: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(otherwise)) }
}

/// Reads the available bytes; returns their number.
fn drain(socket: &OwnedFd) -> usize {
    let mut buffer = vec![0; 64 << 10];
    let mut count = 0;
    while let Ok((_, received)) = rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        if received == 0 {
            break;
        }
        count += received;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_agrees_with_both_backends() {
        try_out(&mut Epoll::new().unwrap()).unwrap();
        match (probe(), choose(Choice::Auto).unwrap()) {
            (Ok(()), chosen) => assert_eq!(chosen, (Kind::Uring, None)),
            (Err(reason), chosen) => assert_eq!(chosen, (Kind::Epoll, Some(reason))),
        }
        assert_eq!(choose(Choice::Epoll).unwrap(), (Kind::Epoll, None));
    }
}
