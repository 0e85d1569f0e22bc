//! How often threads slept at locks and the gate, and for how long. A sleeping thread pays for two looks at
//! the clock; others pay nothing.

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
