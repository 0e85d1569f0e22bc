//! A thread's buffers and caches of parsing: its batch, the backend's announcement, the last commands' names.

use super::command_cache::CommandCache;
use super::parsed::{Announced, SpareRequests};
use crate::batch::Batch;

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct Intake {
    /// `None` while it is in use.
    pub batch: Option<Box<Batch>>,
    /// Requests of bytes that the backend has announced.
    pub announced: Option<Box<Announced>>,
    pub spare_requests: SpareRequests,
    /// How often a request was parsed, whole or not.
    #[cfg(test)]
    pub parse_count: usize,
    pub command_cache: CommandCache,
}
