//! How often threads slept at what the others had, and for how long. Whoever sleeps pays for two looks at the
//! clock; nobody else pays anything.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::monotonic;

/// Sleeps of one kind, of the whole process.
#[derive(Debug)]
pub struct Waits {
    count: AtomicU64,
    ns: AtomicU64,
}

/// At the lock of a shard.
pub static LOCKS: Waits = Waits::new();
/// At the gate.
pub static GATE: Waits = Waits::new();

impl Waits {
    const fn new() -> Waits {
        Waits { count: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    /// Counts one, which is over when `sleep` returns.
    pub(super) fn count<R>(&self, sleep: impl FnOnce() -> R) -> R {
        let begun = monotonic();
        let result = sleep();
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(ns, Ordering::Relaxed);
        result
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Nanoseconds of all of them, of all threads.
    pub fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }
}
