//! The only lock of the data path: a one-word lock whose release is a plain store.
//!
//! A waiter spins briefly, then sleeps in short steps, so that more threads than cores make progress. It
//! never yields: that lets whoever else runs on its core use up a time slice, which need not be the holder,
//! and costs the waiter its own turn. Shards are held for microseconds, hence no queue of waiters: an
//! uncontended acquire and release costs one locked instruction in all, half of what a parking lock needs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Some microseconds.
const SPINS: u32 = 200;
/// As long as it is for threads that [`crate::thread::minimise_timer_slack`], some 50 µs more for others.
const NAP: Duration = Duration::from_micros(20);

/// The word: 0 free, 1 held.
#[derive(Debug, Default)]
pub struct RawLock(AtomicU32);

impl RawLock {
    /// A free lock.
    pub const fn new() -> RawLock {
        RawLock(AtomicU32::new(0))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, waiting as long as it takes.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    /// Releases the lock. The caller must hold it.
    #[inline]
    pub fn unlock(&self) {
        debug_assert_eq!(self.0.load(Ordering::Relaxed), 1, "unlock of a free lock");
        self.0.store(0, Ordering::Release);
    }

    #[cold]
    fn lock_slow(&self) {
        let mut attempts = 0u32;
        loop {
            if self.0.load(Ordering::Relaxed) == 0 && self.try_lock() {
                return;
            }
            attempts += 1;
            if attempts < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
}

/// Count of the references to a block that is copied when written while shared.
///
/// Only the holder of a block's single reference may write it; whoever sees one reference, and holds it,
/// knows that nobody else can take another.
#[repr(transparent)]
#[derive(Debug)]
pub struct RefCount(AtomicU32);

impl RefCount {
    /// Far more references than there can be; reached only by leaking them.
    const MAX: u32 = u32::MAX / 2;

    /// One reference.
    pub const fn one() -> RefCount {
        RefCount(AtomicU32::new(1))
    }

    /// Whether there is one reference. A plain load.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        // Acquire: what former holders did happened before.
        self.0.load(Ordering::Acquire) == 1
    }

    /// Takes one more reference.
    #[inline]
    pub fn retain(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) > RefCount::MAX {
            std::process::abort();
        }
    }

    /// Gives a reference up; returns whether it was the last, so that the caller frees the block.
    #[inline]
    pub fn release(&self) -> bool {
        // The holder of the only reference needs no locked instruction.
        self.is_one() || {
            let last = self.0.fetch_sub(1, Ordering::Release) == 1;
            if last {
                std::sync::atomic::fence(Ordering::Acquire);
            }
            last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_counted() {
        let count = RefCount::one();
        assert!(count.is_one());
        count.retain();
        assert!(!count.is_one());
        assert!(!count.release());
        assert!(count.is_one());
        assert!(count.release());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn excludes_with_more_threads_than_cores() {
        let lock = RawLock::new();
        let counter = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        lock.lock();
                        // A lost update would show if two threads were inside.
                        let seen = counter.load(Ordering::Relaxed);
                        counter.store(seen + 1, Ordering::Relaxed);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(counter.load(Ordering::Relaxed), 160_000);
        assert!(lock.try_lock());
        assert!(!lock.try_lock());
    }
}
