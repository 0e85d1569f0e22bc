//! Waits of threads: the shards' lock, the gate, parking; and counts of references.
//!
//! Invariant: a thread that has to wait parks in the kernel after some microseconds, and a thread that ends a
//! wait without waiters does so without a system call.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod gate;
mod lock;
pub mod park;
mod ref_count;
#[cfg(test)]
mod tests;
pub mod waits;

/// What `lock` and `gate` are built on; their tests build them on loom's instead.
mod atomic {
    pub use super::park::{self, SPINS};
    pub use super::waits;
    pub use std::sync::atomic::{AtomicU32, Ordering, fence};
    pub use std::sync::{Condvar, Mutex, MutexGuard};

    /// Stores, with a full barrier before later accesses.
    #[inline(always)]
    pub fn put(word: &AtomicU32, value: u32) {
        word.swap(value, Ordering::SeqCst);
    }

    /// How often a waiter is woken in vain before the lock is handed over to it.
    pub const PATIENCE: u32 = 4;
}

pub use gate::{Alone, Beside, Gate, Outside};
pub use lock::RawLock;
pub use ref_count::RefCount;

/// Waits while `holds` is true of the data, whatever panicked while it was locked. A thread that changes the
/// data notifies.
pub fn wait_while<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    holds: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    condition.wait_while(guard, holds).unwrap_or_else(PoisonError::into_inner)
}

/// As [`wait_while`] for at most this time: `holds` may still be true of the data then.
pub fn wait_while_at_most<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    most: Duration,
    holds: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    condition.wait_timeout_while(guard, most, holds).unwrap_or_else(PoisonError::into_inner).0
}

/// Locks a mutex whose data is valid at every moment, whatever panicked while it was held.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
