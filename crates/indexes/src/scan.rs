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

/// An index whose scan is to be made.
#[derive(Clone, Debug)]
struct Ordered {
    index: Arc<KeyIndex>,
    scan: Arc<Scan>,
}

/// The scans that are to be made.
#[derive(Default)]
pub(crate) struct Scans {
    queue: Mutex<VecDeque<Ordered>>,
    waker: OnceLock<Waker>,
}

/// Has threads call [`Catalogue::work`](crate::Catalogue::work); called with shards locked at times.
pub type Waker = Box<dyn Fn() + Send + Sync>;

impl Scans {
    /// Orders a scan for an index, in place of one that is under way.
    pub(crate) fn order(&self, index: &Arc<KeyIndex>) {
        let scan = Arc::new(Scan::default());
        index.set_scan(Some(Arc::clone(&scan)));
        lock(&self.queue).push_back(Ordered { index: Arc::clone(index), scan });
        self.wake();
    }

    /// Has threads call [`Catalogue::work`](crate::Catalogue::work).
    pub(crate) fn wake(&self) {
        self.waker.get().into_iter().for_each(|wake| wake());
    }

    /// The scan to work at, with a shard.
    fn next(&self) -> Option<(Ordered, usize)> {
        let mut queue = lock(&self.queue);
        while let Some(ordered) = queue.front() {
            if let Some(shard) = ordered.scan.take_shard() {
                return Some((ordered.clone(), shard));
            }
            queue.pop_front();
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
