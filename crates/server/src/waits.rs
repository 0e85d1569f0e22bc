//! Waits of blocked clients: their ends, and the clients that wait for copies.

use std::sync::Arc;

use martlet_acl::Denial;
use martlet_command::Copies;
use martlet_engine::Waiter;
use martlet_journal::Position;

use crate::cluster::routes::Redirect;
use crate::refusal::Refusal;

/// A client that waits for copies.
pub(crate) struct CopyWaiter {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) copies: Copies,
    /// Its request is run again then; else their number answers it.
    pub(crate) runs_again: bool,
    /// The end of the records to be copied.
    pub(crate) recorded: Position,
}

/// How a wait ends without service.
#[derive(Copy, Clone, Debug)]
pub enum WaitEnd {
    /// Its time is up, or CLIENT UNBLOCK has said so.
    Timeout,
    /// CLIENT UNBLOCK, with an error.
    Unblocked,
    /// The server has become a replica; the client is disconnected.
    RoleChanged,
    /// The server does not end.
    ShutdownFailed,
    /// The user may not run the request any more.
    Denied(Denial),
    /// The state of the server keeps the request from running.
    Refused(Refusal),
    /// The keys are another node's of the cluster.
    Redirected(Redirect),
    /// The request panicked when it ran again; the client is disconnected.
    Panicked,
}

/// The answer to WAITAOF that waits for this server's disk, also if the file is switched off in that time.
pub(crate) const WITHOUT_LOG: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
