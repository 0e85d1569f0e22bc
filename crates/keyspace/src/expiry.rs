//! The index of one database's expiring keys within a shard, ordered by time.

use std::collections::BTreeSet;

/// Pairs of time (Unix milliseconds) and key hash, ordered; what is due is a prefix.
///
/// Hashes stand for keys: who takes a due pair out looks the key up by its hash and time, so two keys with
/// one hash are both found.
#[derive(Debug, Default)]
pub(crate) struct ExpiryIndex {
    due: BTreeSet<(i64, u64)>,
}

impl ExpiryIndex {
    pub(crate) fn insert(&mut self, at_ms: i64, hash: u64) {
        self.due.insert((at_ms, hash));
    }

    pub(crate) fn remove(&mut self, at_ms: i64, hash: u64) {
        self.due.remove(&(at_ms, hash));
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// The earliest time, if anything expires at all.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        self.due.first().map(|&(at_ms, _)| at_ms)
    }

    /// Takes out the earliest pair that is due by `now_ms`.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<(i64, u64)> {
        let first = *self.due.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        self.due.remove(&first);
        Some(first)
    }

    /// Sum over the next `sample` times of milliseconds left, 0 for those that have passed, and how many
    /// times those are.
    pub(crate) fn ttl_sum_ms(&self, now_ms: i64, sample: usize) -> (u128, usize) {
        let mut sum = 0u128;
        let mut count = 0;
        for (at_ms, _) in self.due.iter().take(sample) {
            sum += at_ms.saturating_sub(now_ms).max(0) as u128;
            count += 1;
        }
        (sum, count)
    }
}
