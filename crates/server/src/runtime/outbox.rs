//! A thread's operations for its backend: connections with output, other work on sockets, and empty buffers
//! for more.
//!
//! Invariant: a connection is in `dirty` exactly if its own flag is set, once.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use martlet_net::Token;

use super::output::UnconfirmedOutput;
use crate::connection::Connection;

/// Larger buffers are not kept for the next reply.
const POOLED_MAX_BYTES: usize = 64 * 1024;
/// No more than this many are.
const POOLED_MAX: usize = 64;

/// What to do with the backend once the poll has returned.
pub(super) enum Action {
    Adopt(OwnedFd, Token),
    AdoptTls(OwnedFd, Token, Arc<martlet_net::rustls::ServerConfig>),
    Close(Token),
    Release(Token),
    Pause(Token),
    Resume(Token),
    Listen(OwnedFd, u32),
    Unlisten(u32),
}

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct Outbox {
    /// Connections with output to hand over.
    pub dirty: Vec<Token>,
    /// Output that waits for the disk, by ascending position.
    pub awaiting_fsync: VecDeque<UnconfirmedOutput>,
    /// Output that the disk has, if it must, and that waits for replicas.
    pub awaiting_replicas: VecDeque<UnconfirmedOutput>,
    pub(super) actions: Vec<Action>,
    /// Empty buffers.
    pool: Vec<Vec<u8>>,
    /// A connection waits for its last bytes to leave.
    pub has_closing: bool,
    /// A connection's output has left in several pieces, of which the backend sends one after the other.
    pub has_pieces: bool,
    /// A connection may be above its soft output limit.
    pub has_soft_limited: bool,
}

impl Outbox {
    /// Whether the next poll must not sleep.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.has_closing || self.has_pieces
    }

    /// Whether output waits for copies.
    pub fn has_held(&self) -> bool {
        !self.awaiting_fsync.is_empty() || !self.awaiting_replicas.is_empty()
    }

    /// Notes that a connection has output, unless it is noted.
    #[inline]
    pub fn note(&mut self, connection: &mut Connection) {
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(connection.token);
        }
    }

    /// An empty buffer, with room if there is one that was used.
    #[inline]
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.pop().unwrap_or_default()
    }

    /// Keeps an empty buffer for the next reply, unless there are enough or it is large.
    #[inline]
    pub fn keep_buffer(&mut self, buffer: Vec<u8>) {
        if (1..=POOLED_MAX_BYTES).contains(&buffer.capacity()) && self.pool.len() < POOLED_MAX {
            self.pool.push(buffer);
        }
    }
}
