//! A follower of the keys, as the catalogue of indexes is: each change is reported to it before the
//! change's shards are unlocked.
//!
//! Invariant: a key that a thread notes here changes only under the locks that it is reported under.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Words of the set of beginnings: a bit for every two bytes.
const BEGINNING_WORDS: usize = (1 << 16) / 64;

/// The first two bytes of the names that the follower may want. Names that begin otherwise cost no more than
/// without a follower.
pub(crate) struct Beginnings(Box<[AtomicU64]>);

impl Default for Beginnings {
    fn default() -> Beginnings {
        Beginnings((0..BEGINNING_WORDS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Beginnings {
    /// Whether the follower may want a name. Shorter names than two bytes it is asked for.
    #[inline]
    pub(crate) fn may_have(&self, name: &[u8]) -> bool {
        let [first, second, ..] = *name else { return true };
        let at = usize::from(u16::from_be_bytes([first, second]));
        self.0.get(at / 64).is_none_or(|word| word.load(Ordering::Relaxed) >> (at % 64) & 1 == 1)
    }

    /// The names that begin with one of these prefixes may be wanted, and no others. In between no name is
    /// left out that was wanted and still is.
    pub(crate) fn cover<'a>(&self, prefixes: impl Iterator<Item = &'a [u8]>) {
        let mut words = vec![0_u64; BEGINNING_WORDS];
        for prefix in prefixes {
            match *prefix {
                [] => words = vec![u64::MAX; BEGINNING_WORDS],
                [first] => {
                    let at = usize::from(first) * 4;
                    let of_first = words.get_mut(at..at + 4).into_iter().flatten();
                    of_first.for_each(|word| *word = u64::MAX);
                }
                [first, second, ..] => {
                    let at = usize::from(u16::from_be_bytes([first, second]));
                    words.get_mut(at / 64).into_iter().for_each(|word| *word |= 1 << (at % 64));
                }
            }
        }
        self.0.iter().zip(words).for_each(|(own, word)| own.store(word, Ordering::Relaxed));
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
    fn a_name_may_be_wanted_by_its_first_two_bytes() {
        let beginnings = Beginnings::default();
        let may = |name: &str| beginnings.may_have(name.as_bytes());
        assert!(!may("ab") && may("a") && may(""), "nothing is wanted, but short names are asked for");
        for (prefixes, wanted, unwanted) in [
            (&["user:", "p"][..], &["us", "user:1", "p", "p1", "pz"][..], &["ua", "xs", "q1", "key"][..]),
            (&["", "user:"], &["us", "ua", "\u{ff}x"], &[]),
            (&[], &[], &["us", "p1"]),
        ] {
            beginnings.cover(prefixes.iter().map(|prefix| prefix.as_bytes()));
            assert!(wanted.iter().all(|name| may(name)), "{prefixes:?}");
            assert!(!unwanted.iter().any(|name| may(name)), "{prefixes:?}");
        }
    }

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
