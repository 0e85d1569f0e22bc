//! A socket that does not wait, plain or with TLS over it.
//!
//! Invariants: output is encrypted only as the socket takes it, a record at a time, and not before the
//! handshake is over; a caller with output here that waits for the socket watches for room.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use martlet_tls::TlsSession;

/// Bytes that are enciphered at once: a record of TLS at its largest.
const RECORD_BYTES: usize = 16 * 1024;

struct Tls {
    session: TlsSession,
    /// Enciphered bytes that the socket has not taken yet.
    sealed: Vec<u8>,
}

/// See the [module docs](self).
pub(super) struct Transport {
    stream: TcpStream,
    tls: Option<Box<Tls>>,
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Transport {
    pub fn new(stream: TcpStream, session: Option<TlsSession>) -> Transport {
        let tls = session.map(|session| Box::new(Tls { session, sealed: Vec::new() }));
        Transport { stream, tls }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether TLS' handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.is_handshaking())
    }

    /// Whether bytes would be sent now if the socket had room, `out` being those that wait outside.
    pub fn has_to_send(&self, out: &[u8]) -> bool {
        match &self.tls {
            None => !out.is_empty(),
            Some(tls) => {
                let is_handshaking = tls.session.is_handshaking();
                !tls.sealed.is_empty() || tls.session.wants_write() || !is_handshaking && !out.is_empty()
            }
        }
    }

    /// Receives `chunk_bytes` at most, and appends the plain bytes to `input`; returns their number. If there
    /// is more, the poller reports it again.
    ///
    /// # Errors
    /// The socket's and TLS' own; an end of input is one.
    pub fn receive(&mut self, input: &mut Vec<u8>, chunk: &mut [u8]) -> io::Result<usize> {
        let count = match self.stream.read(chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let received = chunk.get(..count).unwrap_or_default();
        let Some(tls) = &mut self.tls else {
            input.extend_from_slice(received);
            return Ok(count);
        };
        let before = input.len();
        let result = tls.session.receive(received, input);
        // The peer receives an alert about an error, too.
        let answered = tls.session.transmit(&[], &mut tls.sealed).and_then(|()| self.send_sealed());
        result.and(answered)?;
        Ok(input.len() - before)
    }

    /// Sends as much of `out` as the socket takes, which is removed from it.
    ///
    /// # Errors
    /// The socket's and TLS' own.
    pub fn send(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.tls.is_none() {
            return write_from(&mut self.stream, out);
        }
        loop {
            self.send_sealed()?;
            let Some(tls) = &mut self.tls else { return Ok(()) };
            if !tls.sealed.is_empty() || !tls.session.wants_write() && out.is_empty() {
                return Ok(());
            }
            let taken = if tls.session.is_handshaking() { 0 } else { out.len().min(RECORD_BYTES) };
            tls.session.transmit(out.get(..taken).unwrap_or_default(), &mut tls.sealed)?;
            if taken == 0 && tls.sealed.is_empty() {
                return Ok(());
            }
            out.drain(..taken);
        }
    }

    fn send_sealed(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => write_from(&mut self.stream, &mut tls.sealed),
            None => Ok(()),
        }
    }
}

fn write_from(stream: &mut TcpStream, out: &mut Vec<u8>) -> io::Result<()> {
    while !out.is_empty() {
        match stream.write(out) {
            Ok(count) => {
                out.drain(..count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
