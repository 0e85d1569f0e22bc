//! Counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::key_counts::KeyCounts;

/// A number that only its owning thread changes: adding is a plain load and store, no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value, from any thread.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the value; only the owning thread may call this, or one that runs alone behind the gate.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Whether the running request of a thread has begun to change something, so that a panic may leave it half
/// changed. Only the thread itself writes and reads it; it is atomic since the panic hook reads it beside the
/// borrow of [`Keys`].
///
/// [`Keys`]: crate::Keys
#[derive(Debug, Default)]
pub struct ChangeMark(AtomicBool);

impl ChangeMark {
    /// Nothing has been changed yet: a request begins.
    #[inline]
    pub fn begin_request(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Something is about to be changed. It stays so until the next request begins.
    #[inline]
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The keyspace's counters, per thread.
#[derive(Debug, Default)]
pub struct Counters {
    /// Whether the thread's request has begun to change something.
    pub change: ChangeMark,
    /// Reads that found their key.
    pub keyspace_hits: Counter,
    /// Reads that did not.
    pub keyspace_misses: Counter,
    /// Keys deleted because their time had come.
    pub expired_keys: Counter,
    /// Fields and members deleted because their time had come.
    pub expired_fields: Counter,
    /// Of these, the ones that no request met.
    pub expired_fields_unmet: Counter,
    /// Keys deleted because their time had come, which no request met.
    pub expired_keys_unmet: Counter,
    /// Keys deleted to stay below maxmemory.
    pub evicted_keys: Counter,
    /// Operations that a cluster could not run.
    pub incompatible: Counter,
    /// Changes of the data set.
    pub dirty: Counter,
    /// The thread's part of the numbers of keys.
    pub keys: KeyCounts,
}

impl Counters {
    /// Sets all to 0 but `dirty` and `keys`; for CONFIG RESETSTAT, behind the gate.
    pub fn reset(&self) {
        for counter in [
            &self.keyspace_hits,
            &self.keyspace_misses,
            &self.expired_keys,
            &self.expired_fields,
            &self.expired_fields_unmet,
            &self.expired_keys_unmet,
            &self.evicted_keys,
            &self.incompatible,
        ] {
            counter.set(0);
        }
    }
}
