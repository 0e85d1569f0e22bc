//! Numbers of keys, without a look at the shards: each thread counts how many keys it has added to a database
//! and removed from it, and the sum over the threads is the database's number.
//!
//! Invariant: the keys of an unlocked shard are counted. A thread publishes the net effect of a request in
//! one step, before it unlocks the request's shards.
//!
//! A thread writes its own [`KeyCounts`] only, without a locked instruction. A reader reads those of all
//! threads, and begins again if one has changed in between ([`total`]).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

/// Databases with such counters; the shards of other databases are walked.
pub(crate) const COUNTED_DATABASES: usize = 16;
/// How often a reader begins again before it asks the shards.
const ATTEMPTS: usize = 256;

/// A thread's part of the numbers.
#[derive(Debug, Default)]
pub struct KeyCounts {
    /// Odd while the thread publishes.
    version: AtomicU64,
    /// Keys added by the thread minus keys removed, by database.
    nets: [AtomicI64; COUNTED_DATABASES],
}

impl KeyCounts {
    /// Adds the net effect of a request; only the owning thread may call this.
    pub(crate) fn publish(&self, changes: &[(usize, i64)]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // A reader that sees one of the numbers below sees the odd version, too.
        fence(Ordering::Release);
        for (db, change) in changes {
            if let Some(net) = self.nets.get(*db) {
                net.store(net.load(Ordering::Relaxed).wrapping_add(*change), Ordering::Relaxed);
            }
        }
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

/// The number of keys of a database at one moment within the call; `None` if the database has no counters, or
/// if the threads published without a pause.
pub(crate) fn total<'a>(counts: impl Iterator<Item = &'a KeyCounts> + Clone, db: usize) -> Option<usize> {
    if db >= COUNTED_DATABASES {
        return None;
    }
    (0..ATTEMPTS).find_map(|_| {
        // Versions only grow: if their sum is the same twice, each is.
        let mut before = 0_u64;
        for thread in counts.clone() {
            let version = thread.version.load(Ordering::Acquire);
            if version % 2 == 1 {
                std::hint::spin_loop();
                return None;
            }
            before = before.wrapping_add(version);
        }
        let sum = counts.clone().map(|thread| thread.nets[db].load(Ordering::Relaxed)).sum::<i64>();
        fence(Ordering::Acquire);
        let versions = counts.clone().map(|thread| thread.version.load(Ordering::Relaxed));
        (versions.fold(0_u64, u64::wrapping_add) == before).then(|| usize::try_from(sum).unwrap_or(0))
    })
}

/// The net effect of the request under way, by database.
#[derive(Debug, Default)]
pub(crate) struct NetChanges(Vec<(usize, i64)>);

impl NetChanges {
    /// A database that had `before` keys has `after`.
    #[inline]
    pub fn note(&mut self, db: usize, before: usize, after: usize) {
        if before != after {
            self.add(db, after as i64 - before as i64);
        }
    }

    /// A database has more keys by this number.
    pub fn add(&mut self, db: usize, change: i64) {
        match self.0.iter_mut().find(|(of, _)| *of == db) {
            Some((_, sum)) => *sum += change,
            None => self.0.push((db, change)),
        }
    }

    /// Whether all changes are published.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The unpublished change of a database.
    pub fn of(&self, db: usize) -> i64 {
        self.0.iter().filter(|(of, _)| *of == db).map(|(_, change)| *change).sum()
    }

    /// Publishes all of it; nothing if databases have as many keys as before.
    #[cold]
    #[inline(never)]
    pub fn publish_to(&mut self, counts: &KeyCounts) {
        if self.0.iter().any(|(_, change)| *change != 0) {
            counts.publish(&self.0);
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_sum_is_that_of_one_moment() {
        // Each thread moves a key between databases, or makes two and deletes them: at no moment are there
        // other numbers than these.
        let counts: Vec<KeyCounts> = (0..3).map(|_| KeyCounts::default()).collect();
        counts[0].publish(&[(0, 100), (1, 100)]);
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for own in &counts[1..] {
                let ends = &ends;
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        own.publish(&[(0, 2), (1, -2)]);
                        own.publish(&[(0, -2), (1, 2)]);
                    }
                });
            }
            let mut read = 0;
            while read < 20_000 {
                if let Some(sum) = total(counts.iter(), 0) {
                    assert!([100, 102, 104].contains(&sum), "{sum}");
                    read += 1;
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert_eq!((total(counts.iter(), 0), total(counts.iter(), 1)), (Some(100), Some(100)));
        assert_eq!(total(counts.iter(), COUNTED_DATABASES), None);
    }

    #[test]
    fn a_net_effect_of_nothing_is_not_published() {
        let (counts, mut changes) = (KeyCounts::default(), NetChanges::default());
        changes.note(3, 5, 6);
        changes.note(3, 6, 5);
        changes.note(4, 7, 7);
        assert!(!changes.is_empty() && changes.of(3) == 0);
        changes.publish_to(&counts);
        assert!(changes.is_empty() && counts.version.load(Ordering::Relaxed) == 0);
        changes.add(20, 9);
        changes.add(2, -1);
        changes.publish_to(&counts);
        assert_eq!(counts.nets[2].load(Ordering::Relaxed), -1);
    }
}
