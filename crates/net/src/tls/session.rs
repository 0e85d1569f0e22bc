//! One connection's TLS: the records that it receives, and which plain buffers end in which records.

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use crate::{Buffer, Sink, Token};

/// Records are handed over in buffers of about this many bytes.
const FLIGHT_BYTES: usize = 64 << 10;
/// The most plain bytes of a record.
const RECORD_BYTES: usize = 16 << 10;

/// Records that the backend below has.
struct Flight {
    /// How many plain buffers end in them.
    ends: usize,
    bytes: usize,
}

/// See the [module docs](self).
pub struct Session {
    pub token: Token,
    connection: ServerConnection,
    is_handshaking: bool,
    /// Plain buffers that are not encrypted whole; `encrypted_bytes` of the first are.
    waiting: VecDeque<Buffer>,
    encrypted_bytes: usize,
    /// Plain buffers that are encrypted, until their records have left.
    leaving: VecDeque<Buffer>,
    flights: VecDeque<Flight>,
    pub in_flight_bytes: usize,
    pub is_dirty: bool,
    /// Had more to send than may be encrypted ahead.
    pub is_long: bool,
    /// Nothing more is received; the sink knows.
    pub has_ended: bool,
    /// Nothing more can be sent.
    pub has_failed: bool,
    alert: Option<Vec<u8>>,
}

impl Session {
    pub fn new(token: Token, config: &Arc<ServerConfig>) -> io::Result<Session> {
        let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(Session {
            token,
            connection,
            is_handshaking: true,
            waiting: VecDeque::new(),
            encrypted_bytes: 0,
            leaving: VecDeque::new(),
            flights: VecDeque::new(),
            in_flight_bytes: 0,
            is_dirty: false,
            is_long: false,
            has_ended: false,
            has_failed: false,
            alert: None,
        })
    }

    /// Whether the handshake is still under way.
    pub fn is_under_way(&self) -> bool {
        self.is_handshaking && !self.has_ended
    }

    pub fn push(&mut self, buffer: Buffer) {
        self.waiting.push_back(buffer);
    }

    /// Whether plain bytes wait to be encrypted.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether [`Session::encrypt`] would give something.
    pub fn has_output(&self) -> bool {
        !self.has_failed && (self.connection.wants_write() || self.has_waiting() && !self.is_handshaking)
    }

    pub fn take_alert(&mut self) -> Option<Vec<u8>> {
        self.alert.take()
    }

    /// Takes records; the sink gets their content.
    pub fn receive(&mut self, mut data: &[u8], sink: &mut dyn Sink) -> bool {
        let mut is_worked_on = self.is_handshaking;
        while !data.is_empty() && !self.has_ended {
            match self.connection.read_tls(&mut data) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    self.fail(error, sink);
                    break;
                }
            }
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    self.fail(io::Error::new(io::ErrorKind::InvalidData, error), sink);
                    break;
                }
            };
            if self.is_handshaking && !self.connection.is_handshaking() {
                self.is_handshaking = false;
                let certificate = self.connection.peer_certificates().and_then(<[_]>::first);
                sink.secured(self.token, certificate.map(|certificate| &**certificate));
            }
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = self.connection.reader();
                let Ok(plain @ [_, ..]) = reader.fill_buf() else { break };
                let count = plain.len();
                is_worked_on |= sink.received(self.token, plain);
                reader.consume(count);
                left -= count;
            }
            if state.peer_has_closed() {
                self.has_ended = true;
                sink.closed(self.token, None);
            }
        }
        is_worked_on
    }

    /// The peer's bytes are not valid TLS: it gets an alert, if that is possible.
    fn fail(&mut self, error: io::Error, sink: &mut dyn Sink) {
        let mut alert = Vec::new();
        while self.connection.wants_write() && self.connection.write_tls(&mut alert).is_ok() {}
        self.alert = (self.flights.is_empty() && !alert.is_empty()).then_some(alert);
        self.has_ended = true;
        self.has_failed = true;
        sink.closed(self.token, Some(error));
    }

    /// The next records to send, if there are any.
    pub fn encrypt(&mut self, pool: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
        if !self.has_output() {
            return None;
        }
        let mut records = pool.pop().unwrap_or_default();
        self.take_records(&mut records);
        let mut ends = 0;
        while !self.is_handshaking
            && records.len() < FLIGHT_BYTES
            && let Some(buffer) = self.waiting.front()
        {
            let rest = buffer.get(self.encrypted_bytes..).unwrap_or_default();
            let piece = rest.get(..RECORD_BYTES).unwrap_or(rest);
            let Ok(taken @ 1..) = self.connection.writer().write(piece) else { break };
            self.encrypted_bytes += taken;
            if taken == rest.len() {
                self.encrypted_bytes = 0;
                self.leaving.extend(self.waiting.pop_front());
                ends += 1;
            }
            self.take_records(&mut records);
        }
        if records.is_empty() {
            return None;
        }
        self.in_flight_bytes += records.len();
        self.flights.push_back(Flight { ends, bytes: records.len() });
        Some(records)
    }

    fn take_records(&mut self, records: &mut Vec<u8>) {
        // Writing to memory does not fail.
        while self.connection.wants_write() && self.connection.write_tls(records).is_ok() {}
    }

    /// The oldest records have left, or have failed: the plain buffers that end in them come back.
    pub fn sent(&mut self, result: io::Result<()>, sink: &mut dyn Sink) {
        let Some(flight) = self.flights.pop_front() else { return };
        self.in_flight_bytes -= flight.bytes;
        let Err(error) = result else {
            for buffer in self.leaving.drain(..flight.ends.min(self.leaving.len())) {
                sink.sent(self.token, buffer, Ok(()));
            }
            return;
        };
        self.has_failed = true;
        self.encrypted_bytes = 0;
        let kind = error.kind();
        let mut buffers = self.leaving.drain(..).chain(self.waiting.drain(..));
        match buffers.next() {
            Some(buffer) => sink.sent(self.token, buffer, Err(error)),
            None if !self.has_ended => {
                self.has_ended = true;
                sink.closed(self.token, Some(error));
            }
            None => {}
        }
        for buffer in buffers {
            sink.sent(self.token, buffer, Err(kind.into()));
        }
    }

    /// The stream below has ended. One that ends without the TLS alert is taken as any other end: a request
    /// that is cut short is never run.
    pub fn closed(&mut self, reason: Option<io::Error>, sink: &mut dyn Sink) {
        if self.has_ended {
            return;
        }
        let is_torn = reason.is_none() && self.is_handshaking;
        self.has_ended = true;
        let torn = || io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected eof while reading");
        sink.closed(self.token, reason.or_else(|| is_torn.then(torn)));
    }

    /// The alert that nothing more follows, unless earlier records have not left.
    pub fn close_notify(&mut self) -> Option<Vec<u8>> {
        if self.has_failed || self.is_handshaking || !self.flights.is_empty() || self.has_waiting() {
            return None;
        }
        self.connection.send_close_notify();
        let mut notify = Vec::new();
        self.take_records(&mut notify);
        (!notify.is_empty()).then_some(notify)
    }
}
