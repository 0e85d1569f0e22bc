//! Scans: a new index takes up the keys that are there already, beside the threads that change keys.
//!
//! Each shard is walked once. A key that changes in that time is reported to the index by its writer, and
//! found unchanged by the scan, or found first and reported then: the index has its last value in either
//! case.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use martlet_base::clock::monotonic;
use martlet_base::sync::lock;
use martlet_keyspace::{Key, ORDERS};

use crate::access::Access;
use crate::index::KeyIndex;
use crate::progress::Scan;

/// How long a shard is held, about, unless one document takes longer.
const HOLD: Duration = Duration::from_micros(50);

/// Fewer scans are not searched for cancelled ones.
const SWEEPS_MIN: usize = 64;

/// An index whose scan is to be made.
#[derive(Clone, Debug)]
struct Ordered {
    index: Arc<KeyIndex>,
    scan: Arc<Scan>,
}

/// Scans in their order; those that were cancelled are dropped once they may be half of them.
#[derive(Default)]
struct Queue {
    ordered: VecDeque<Ordered>,
    /// The length at which they are dropped next.
    sweeps_at: usize,
}

impl Queue {
    fn push(&mut self, ordered: Ordered) {
        if self.ordered.len() >= self.sweeps_at {
            self.ordered.retain(|other| !other.scan.is_cancelled());
            self.sweeps_at = 2 * self.ordered.len() + SWEEPS_MIN;
        }
        self.ordered.push_back(ordered);
    }
}

/// The scans that are to be made.
#[derive(Default)]
pub(crate) struct Scans {
    queue: Mutex<Queue>,
    waker: OnceLock<Waker>,
}

/// Has threads call [`Catalogue::work`](crate::Catalogue::work); called with shards locked at times.
pub type Waker = Box<dyn Fn() + Send + Sync>;

impl Scans {
    /// Orders a scan for an index, in place of one that is under way.
    pub(crate) fn order(&self, index: &Arc<KeyIndex>) {
        let scan = Arc::new(Scan::default());
        index.set_scan(Some(Arc::clone(&scan)));
        lock(&self.queue).push(Ordered { index: Arc::clone(index), scan });
        self.wake();
    }

    /// Has threads call [`Catalogue::work`](crate::Catalogue::work).
    pub(crate) fn wake(&self) {
        self.waker.get().into_iter().for_each(|wake| wake());
    }

    /// The scan to work at, with a shard.
    fn next(&self) -> Option<(Ordered, usize)> {
        let mut queue = lock(&self.queue);
        while let Some(ordered) = queue.ordered.front() {
            if let Some(shard) = ordered.scan.take_shard() {
                return Some((ordered.clone(), shard));
            }
            queue.ordered.pop_front();
        }
        None
    }

    /// Sets the callback of each scan; the first one stays.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Scans a shard for an index that waits for it; false if no index waits.
    pub(crate) fn work(&self, access: &mut Access<'_>, now_ms: &dyn Fn() -> i64) -> bool {
        let Some((ordered, shard)) = self.next() else { return false };
        let mut from = 0;
        while from < ORDERS && !ordered.scan.is_cancelled() {
            let (names, next) = names(access, &ordered.index, shard, from);
            take_up(access, &ordered, shard, &names, now_ms);
            from = next;
        }
        ordered.scan.end_shard();
        true
    }
}

/// The names of some keys of a shard that may be documents, and where the next ones begin.
fn names(access: &mut Access<'_>, index: &KeyIndex, shard: usize, from: u64) -> (Vec<Vec<u8>>, u64) {
    let mut names = Vec::new();
    let next = access.with_shard(shard, |db| {
        db.walk(from, |entry| {
            if index.prefixes().covers(entry.key()) {
                names.push(entry.key().to_vec());
            }
        })
    });
    // A thread that scans is outside, and does not give up.
    (names, next.unwrap_or(ORDERS))
}

/// Indexes keys of a shard, a few under each hold of its lock.
fn take_up(
    access: &mut Access<'_>,
    ordered: &Ordered,
    shard: usize,
    names: &[Vec<u8>],
    now_ms: &dyn Fn() -> i64,
) {
    let mut names = names.iter().peekable();
    while names.peek().is_some() {
        let now_ms = now_ms();
        access.with_shard(shard, |db| {
            // An index that was altered takes up each key after that, which must not be undone.
            if ordered.scan.is_cancelled() {
                names.by_ref().for_each(drop);
                return;
            }
            let began = monotonic();
            for name in names.by_ref() {
                let key = Key::new(name);
                // The writer that deleted a key has reported it.
                if let Some(entry) = db.get(&key) {
                    ordered.index.follow(&key, Some(&entry), now_ms);
                }
                if began.elapsed() >= HOLD {
                    break;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::definition;

    #[test]
    fn scans_that_others_have_replaced_do_not_pile_up() {
        let scans = Scans::default();
        let [one, other] = ["i", "j"].map(|name| {
            Arc::new(KeyIndex::new(definition(&format!("{name} SCHEMA t TEXT")), 1).expect("an index"))
        });
        scans.order(&one);
        for _ in 0..10_000 {
            scans.order(&other);
        }
        assert!(lock(&scans.queue).ordered.len() <= SWEEPS_MIN + 4);
        let next =
            |scans: &Scans| scans.next().map(|(ordered, shard)| (ordered.index.name().to_vec(), shard));
        assert_eq!(next(&scans), Some((b"i".to_vec(), 0)));
        one.set_scan(None);
        assert_eq!(next(&scans), Some((b"j".to_vec(), 0)));
    }
}
