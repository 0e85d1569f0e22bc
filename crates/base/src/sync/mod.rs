//! What threads share without a mutex: the shards' lock, parking, counts of references.
//!
//! Invariant: whoever has to wait parks in the kernel after some microseconds, and whoever ends a wait that
//! nobody waits in does so without a system call.

mod lock;
pub mod park;
mod ref_count;
#[cfg(test)]
mod tests;

/// What `lock` is built on; its tests build it on loom's instead.
mod atomic {
    pub use super::park::{self, SPINS};
    pub use std::sync::atomic::{AtomicU32, Ordering, fence};

    /// How often a waiter is woken in vain before the lock is handed over to it.
    pub const PATIENCE: u32 = 4;
}

pub use lock::RawLock;
pub use ref_count::RefCount;
