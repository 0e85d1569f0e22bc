//! A simulated client: its pending request, its requests so far, and the replies that reach it.

/// A client's request.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub client: usize,
    pub server: usize,
    pub server_life: u64,
    pub key: u64,
    /// The number of the write; absent for a read.
    pub write: Option<usize>,
    pub asked_ms: i64,
}

/// A reply to a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Ok { found: Option<usize>, is_covered: bool },
    Refused,
}

/// A client.
#[derive(Default)]
pub(super) struct Client {
    pub waits_for: Option<usize>,
    pub server: usize,
}
