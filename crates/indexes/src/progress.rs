//! How far a scan of the keys has come.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use martlet_base::limits::SHARD_COUNT;

/// A scan's way through the shards, which several threads may share.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    next_shard: AtomicUsize,
    done_shards: AtomicUsize,
    is_cancelled: AtomicBool,
}

/// How far a scan has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The part of the keys that was scanned, between 0 and 1.
    pub done: f64,
}

impl Progress {
    pub(crate) const DONE: Progress = Progress { done: 1.0 };

    /// Whether all keys were scanned.
    pub fn is_done(self) -> bool {
        self.done >= 1.0
    }
}

impl Scan {
    pub(crate) fn progress(&self) -> Progress {
        Progress { done: self.done_shards.load(Ordering::Acquire) as f64 / SHARD_COUNT as f64 }
    }

    /// Ends the scan: no document is indexed under any later hold of a shard.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The next shard to scan, if there is any.
    pub(crate) fn take_shard(&self) -> Option<usize> {
        let shard = self.next_shard.fetch_add(1, Ordering::Relaxed);
        (shard < SHARD_COUNT && !self.is_cancelled()).then_some(shard)
    }

    /// Counts a shard that was scanned.
    pub(crate) fn end_shard(&self) {
        // Release: a thread that sees the end sees the documents.
        self.done_shards.fetch_add(1, Ordering::Release);
    }
}
