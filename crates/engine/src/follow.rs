//! A follower of the keys, as the catalogue of indexes is: each change is reported to it before the
//! change's shards are unlocked.
//!
//! Invariant: a key that a thread notes here changes only under the locks that it is reported under.

use std::sync::OnceLock;

use martlet_keyspace::{Entry, Key};

/// Keeps something in step with the keys. Its methods run with the shards locked; they take leaves of the
/// order of locks only, and wait for nothing else.
pub trait Follower: Send + Sync {
    /// Whether changes of this key are to be reported. Asked before each change of a key.
    fn wants(&self, db: usize, name: &[u8]) -> bool;

    /// A key may have changed: what it holds now, `None` if it is not there. One report stands for all
    /// changes of a key since its shard was locked.
    fn changed(&self, db: usize, key: &Key<'_>, entry: Option<Entry<'_>>, now_ms: i64);

    /// A database, or with `None` each one, was emptied as a whole. All shards are locked.
    fn emptied(&self, db: Option<usize>);

    /// Two databases were exchanged. All shards are locked.
    fn swapped(&self, a: usize, b: usize);

    /// All databases have other keys, which were not reported. All shards are locked.
    fn replaced(&self);
}

/// The engine's follower, if there is one.
#[derive(Default)]
pub(crate) struct Followers(OnceLock<&'static dyn Follower>);

impl Followers {
    /// The follower.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static dyn Follower> {
        self.0.get().copied()
    }

    /// Sets it; false if there is one already.
    pub(crate) fn set(&self, follower: &'static dyn Follower) -> bool {
        self.0.set(follower).is_ok()
    }
}

/// Names longer than this together give their memory back once they are reported.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// A key that has changed.
struct ChangedKey {
    db: usize,
    hash: u64,
    /// Where its name ends in the text of all.
    end: usize,
}

/// Keys that a thread has changed since it locked their shards.
#[derive(Default)]
pub(crate) struct ChangedKeys {
    names: Vec<u8>,
    keys: Vec<ChangedKey>,
}

impl ChangedKeys {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Notes a key.
    pub(crate) fn note(&mut self, db: usize, key: &Key<'_>) {
        let is_last = self.keys.last().is_some_and(|last| {
            let begin = self.keys.len().checked_sub(2).map_or(0, |before| self.keys[before].end);
            (last.db, last.hash) == (db, key.hash) && &self.names[begin..last.end] == key.bytes
        });
        if !is_last {
            self.names.extend_from_slice(key.bytes);
            self.keys.push(ChangedKey { db, hash: key.hash, end: self.names.len() });
        }
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.names.clear();
        if self.names.capacity() > KEPT_BYTES_MAX {
            *self = ChangedKeys::default();
        }
    }

    /// Calls `each` with each key once, in the order in which they first changed: its database and itself.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize, Key<'_>)) {
        let mut begin = 0;
        let all = self.keys.iter().map(|key| {
            let bytes = &self.names[begin..key.end];
            begin = key.end;
            (key.db, key.hash, bytes)
        });
        if self.keys.len() == 1 {
            all.for_each(|(db, hash, bytes)| each(db, Key { bytes, hash }));
            return;
        }
        let mut all: Vec<_> = (0..self.keys.len()).zip(all).map(|(place, key)| (key, place)).collect();
        all.sort_unstable();
        all.dedup_by_key(|(key, _)| *key);
        all.sort_unstable_by_key(|(_, place)| *place);
        all.into_iter().for_each(|((db, hash, bytes), _)| each(db, Key { bytes, hash }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_once_in_the_order_of_their_first_changes() {
        let mut changed = ChangedKeys::default();
        for name in ["d", "b", "d", "a", "a", "c", "b"] {
            changed.note(0, &Key::new(name.as_bytes()));
        }
        changed.note(1, &Key::new(b"d"));
        let mut all = Vec::new();
        changed.for_each(|db, key| all.push((db, String::from_utf8_lossy(key.bytes).into_owned())));
        assert_eq!(
            all,
            [(0, "d"), (0, "b"), (0, "a"), (0, "c"), (1, "d")].map(|(db, name)| (db, name.into()))
        );
    }
}
