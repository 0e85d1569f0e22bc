//! Keys that are under way to another server: a client that would change one waits.
//!
//! Invariant: a key has one mark at most, which is set with the key's shard locked.
use martlet_base::sync::lock;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
struct Inner {
    /// By database.
    keys: HashMap<usize, HashSet<Vec<u8>>>,
    /// Threads with clients that wait for the end of a mark.
    waiting: BTreeSet<usize>,
}

/// See the [module docs](self).
#[derive(Default)]
pub struct Marks {
    inner: Mutex<Inner>,
    count: AtomicUsize,
}

impl Marks {
    /// Marks keys of a database, whose shards are locked. If one of them is marked already, does nothing and
    /// returns false; [`Marks::clear`] then names the thread.
    pub fn set(&self, thread: usize, db: usize, keys: &[Vec<u8>]) -> bool {
        let mut inner = lock(&self.inner);
        let marked = inner.keys.entry(db).or_default();
        if keys.iter().any(|key| marked.contains(key)) {
            inner.waiting.insert(thread);
            return false;
        }
        let before = marked.len();
        marked.extend(keys.iter().cloned());
        self.count.fetch_add(marked.len() - before, Ordering::Relaxed);
        true
    }

    /// Ends the marks of these keys; the threads with clients that may have waited for that.
    pub fn clear<'k>(&self, db: usize, keys: impl Iterator<Item = &'k [u8]>) -> BTreeSet<usize> {
        let mut inner = lock(&self.inner);
        let marked = inner.keys.entry(db).or_default();
        let before = marked.len();
        keys.for_each(|key| {
            marked.remove(key);
        });
        self.count.fetch_sub(before - marked.len(), Ordering::Relaxed);
        std::mem::take(&mut inner.waiting)
    }

    /// Whether any key is marked.
    pub fn is_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether one of these keys is marked. If so, [`Marks::clear`] names the thread.
    pub fn is_any_of<'k>(&self, thread: usize, db: usize, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let mut inner = lock(&self.inner);
        let found = inner.keys.get(&db).is_some_and(|marked| keys.any(|key| marked.contains(key)));
        if found {
            inner.waiting.insert(thread);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn the_end_of_a_mark_is_told_to_the_threads_that_met_one() {
        let marks = Marks::default();
        let set = |db, keys: &[&str]| {
            marks.set(9, db, &keys.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>())
        };
        assert!(set(0, &["a", "b", "a"]));
        assert!(!set(0, &["c", "b"]), "it is marked");
        assert!(set(1, &["b"]), "it is another database's");
        let met = |thread, db, key: &'static str| marks.is_any_of(thread, db, [key.as_bytes()].into_iter());
        assert!(met(3, 0, "a") && met(5, 1, "b") && met(3, 0, "b"));
        assert!(!met(7, 0, "c") && !met(7, 2, "a"));
        assert!(marks.clear(0, [b"a".as_slice()].into_iter()).into_iter().eq([3, 5, 9]));
        assert!(marks.clear(0, [b"a".as_slice(), b"b"].into_iter()).is_empty());
        assert!(marks.is_any());
        marks.clear(1, [b"b".as_slice()].into_iter());
        assert!(!marks.is_any() && !met(1, 1, "b"));
    }
}
