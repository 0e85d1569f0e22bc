//! Lines on their way to the log: one thread writes them, so that no other waits for the disk, whatever it
//! has locked.
//!
//! Invariants: lines are written in the order in which they were queued; those that wait have at most
//! [`LOG_WAITING_MAX_BYTES`], and the log says how many more there were.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use martlet_base::limits::LOG_WAITING_MAX_BYTES;
use martlet_base::sync::{lock, wait_while, wait_while_at_most};

/// Lines that are written by one call.
#[derive(Debug)]
pub(super) struct Entry {
    /// For the file or standard output, with the ends of its lines.
    pub text: String,
    /// For the system's log: priority and text.
    pub message: Option<(i32, String)>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.text.len() + self.message.as_ref().map_or(0, |(_, text)| text.len()) + size_of::<Entry>()
    }
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Something was queued, or all is written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// There is a thread that writes; without, each thread writes for itself.
    has_writer: bool,
    /// It writes entries that are not here any more.
    is_writing: bool,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Entries that found no room since the last batch.
    dropped: u64,
}

impl Waiting {
    /// Nothing is to be written.
    fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.dropped == 0
    }
}

/// The next entries to be written.
pub(super) struct Batch {
    /// In their order.
    pub entries: VecDeque<Entry>,
    /// How many are missing behind them.
    pub dropped: u64,
}

impl Queue {
    /// From here on entries are queued, for the thread that calls [`Queue::next`].
    pub fn begin(&self) {
        lock(&self.waiting).has_writer = true;
    }

    /// Queues an entry, or gives it back to a thread that has to write it itself.
    pub fn push(&self, entry: Entry) -> Option<Entry> {
        let mut waiting = lock(&self.waiting);
        if !waiting.has_writer {
            return Some(entry);
        }
        if waiting.bytes + entry.bytes() > LOG_WAITING_MAX_BYTES {
            waiting.dropped += 1;
            return None;
        }
        waiting.bytes += entry.bytes();
        waiting.entries.push_back(entry);
        drop(waiting);
        self.changed.notify_all();
        None
    }

    /// Waits for entries; those before are written. `None` once there is no writer any more.
    pub fn next(&self) -> Option<Batch> {
        let mut waiting = lock(&self.waiting);
        waiting.is_writing = false;
        if waiting.is_idle() {
            self.changed.notify_all();
            waiting = wait_while(&self.changed, waiting, |waiting| waiting.is_idle() && waiting.has_writer);
            if waiting.is_idle() {
                return None;
            }
        }
        waiting.is_writing = true;
        waiting.bytes = 0;
        Some(Batch {
            entries: std::mem::take(&mut waiting.entries),
            dropped: std::mem::take(&mut waiting.dropped),
        })
    }

    /// Waits until all entries are written, for no longer than `limit`. From then on each thread writes for
    /// itself.
    pub fn end(&self, limit: Duration) {
        let mut waiting = wait_while_at_most(&self.changed, lock(&self.waiting), limit, |waiting| {
            waiting.has_writer && (waiting.is_writing || !waiting.entries.is_empty())
        });
        waiting.has_writer = false;
        drop(waiting);
        self.changed.notify_all();
    }
}
