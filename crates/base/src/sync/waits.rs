//! How often threads found locks and the gate closed, how often they slept there, and for how long. A
//! sleeping thread pays for two looks at the clock; one that finds them open pays nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::monotonic;

/// Sleeps of one kind, of the whole process.
#[derive(Debug)]
pub struct Waits {
    failed_tries: AtomicU64,
    count: AtomicU64,
    ns: AtomicU64,
}

/// At the lock of a shard.
pub static LOCKS: Waits = Waits::new();
/// At the gate.
pub static GATE: Waits = Waits::new();

impl Waits {
    const fn new() -> Waits {
        Waits { failed_tries: AtomicU64::new(0), count: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    /// Counts a first try that has failed, after which the thread spins or sleeps.
    pub(super) fn count_failed_try(&self) {
        self.failed_tries.fetch_add(1, Ordering::Relaxed);
    }

    /// How many first tries have failed.
    pub fn failed_tries(&self) -> u64 {
        self.failed_tries.load(Ordering::Relaxed)
    }

    /// Calls `sleep`, which says whether it slept, and counts it if it did.
    pub(super) fn count(&self, sleep: impl FnOnce() -> bool) -> bool {
        let begun = monotonic();
        let has_slept = sleep();
        if has_slept {
            let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.count.fetch_add(1, Ordering::Relaxed);
            self.ns.fetch_add(ns, Ordering::Relaxed);
        }
        has_slept
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sleeps_are_counted() {
        let waits = Waits::new();
        assert!(!waits.count(|| false));
        assert_eq!((waits.total(), waits.ns()), (0, 0));
        let begun = monotonic();
        assert!(waits.count(|| {
            while begun.elapsed().as_micros() == 0 {}
            true
        }));
        assert_eq!(waits.total(), 1);
        assert!(waits.ns() > 0);
    }
}
