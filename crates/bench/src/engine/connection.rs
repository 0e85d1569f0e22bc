//! One connection's state in the engine.

use crate::template::MAX_VARIABLES;
use martlet_client::scan::ReplyScanner;
use martlet_tls::TlsSession;
use std::collections::VecDeque;

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Not open.
    Closed,
    /// Connecting, or in the TLS handshake.
    Opening,
    /// Its prelude is under way; this number of replies is missing.
    Prelude(u32),
    /// Requests can be sent.
    Ready,
}

/// A request in flight.
#[derive(Clone, Copy)]
pub(super) struct InFlight {
    /// When its latency began, in nanoseconds of the run.
    pub since_ns: u64,
    /// Its command.
    pub command: u16,
}

pub(super) struct Connection {
    pub phase: Phase,
    pub scanner: ReplyScanner,
    /// Requests without a reply.
    pub outstanding: u32,
    /// When the batch was sent; all its requests have this instant in the simple case.
    pub since_ns: u64,
    /// When its last reply came.
    pub answered_ns: u64,
    /// Since when it has had room for one more request.
    pub free_ns: u64,
    /// The requests in flight, where they differ.
    pub in_flight: VecDeque<InFlight>,
    /// Their bytes, in cluster mode: a reply may point elsewhere.
    pub requests: VecDeque<Vec<u8>>,
    /// The session that is being walked: unit and next step.
    pub session: Option<(usize, usize)>,
    pub variables: [u64; MAX_VARIABLES],
    /// The pipeline is rendered in the output buffer and can be patched.
    pub rendered: bool,
    /// The output buffer is with the kernel.
    pub sending: bool,
    /// It is in the list of connections that can take a request.
    pub listed: bool,
    /// Requests appended since the last send.
    pub dirty: bool,
    /// Replies since the connection was opened.
    pub served: u64,
    pub tls: Option<Box<TlsSession>>,
    /// With TLS, the requests before encryption.
    pub plain: Vec<u8>,
}

impl Connection {
    pub fn new() -> Connection {
        Connection {
            phase: Phase::Closed,
            scanner: ReplyScanner::default(),
            outstanding: 0,
            since_ns: 0,
            answered_ns: 0,
            free_ns: 0,
            in_flight: VecDeque::new(),
            requests: VecDeque::new(),
            session: None,
            variables: [0; MAX_VARIABLES],
            rendered: false,
            sending: false,
            listed: false,
            dirty: false,
            served: 0,
            tls: None,
            plain: Vec::new(),
        }
    }

    /// Forgets everything of the connection that ended; gives the number of requests that had no reply.
    pub fn reset(&mut self) -> u32 {
        self.phase = Phase::Closed;
        self.scanner.reset();
        self.in_flight.clear();
        self.requests.clear();
        self.session = None;
        (self.rendered, self.sending, self.listed, self.dirty) = (false, false, false, false);
        self.served = 0;
        self.tls = None;
        self.plain.clear();
        std::mem::take(&mut self.outstanding)
    }
}
