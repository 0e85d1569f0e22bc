//! A thread's buffers and caches of parsing: its batch, the backend's announcement, the last commands' names.

use super::command_cache::CommandCache;
use super::parsed::{Announced, SpareRequests};
use crate::batch::Batch;

/// See the [module docs](self).
#[derive(Default)]
pub(super) struct Intake {
    /// `None` while it is in use.
    pub(super) batch: Option<Box<Batch>>,
    /// Requests of bytes that the backend has announced.
    pub(super) announced: Option<Box<Announced>>,
    pub(super) spare_requests: SpareRequests,
    /// How often a request was parsed, whole or not.
    #[cfg(test)]
    pub(super) parse_count: usize,
    pub(super) command_cache: CommandCache,
}
