//! Undoing a script's changes, and locking more shards while it runs.
//!
//! Invariant: a key's old value is kept before its first change, so that a script which cannot continue
//! leaves nothing but expirations. Long strings and collections are shared until they are changed.

use std::hash::RandomState;

use hashbrown::HashMap;
use martlet_journal::Mark;
use martlet_keyspace::{Key, Shard, Value};

use crate::keys::Keys;

/// A key's old value.
struct Old {
    value: Value,
    expiry_ms: Option<i64>,
    lru: u32,
}

/// A table that has had room for more keys is not kept for the next script: emptying it takes as long as it
/// is large.
const KEPT_KEYS_MAX: usize = 1024;

/// What changed keys of one database held, `None` where there was no key.
type OldKeys = HashMap<Vec<u8>, Option<Old>, RandomState>;

/// See the [module docs](self). Off unless a script runs that may have to be undone.
#[derive(Default)]
pub(crate) struct Undo {
    begin: Option<Begin>,
    old: Vec<(usize, OldKeys)>,
}

/// What there was when the script began.
#[derive(Copy, Clone)]
struct Begin {
    effects: Mark,
    dirty: u64,
}

impl Undo {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.begin.is_some()
    }

    /// Before a change of a key of a locked shard.
    pub(crate) fn keep(&mut self, shard: &Shard, db: usize, key: &Key<'_>) {
        let at = self.old.iter().position(|(of, _)| *of == db).unwrap_or_else(|| {
            self.old.push((db, OldKeys::default()));
            self.old.len() - 1
        });
        self.old[at].1.entry_ref(key.bytes).or_insert_with(|| {
            let entry = shard.db(db).get(key)?;
            Some(Old { value: entry.value(), expiry_ms: entry.expiry_ms(), lru: entry.lru() })
        });
    }
}

impl Keys {
    /// Begins to keep what changes undo. [`Keys::undo`] or [`Keys::end_undo`] must follow.
    pub fn begin_undo(&mut self) {
        debug_assert!(!self.undo.is_on());
        self.undo.begin = Some(Begin { effects: self.effects.pending().mark(), dirty: self.dirty });
    }

    /// Lets the changes stand.
    pub fn end_undo(&mut self) {
        self.undo.begin = None;
        self.undo.old.retain_mut(|(_, old)| {
            old.clear();
            old.capacity() <= KEPT_KEYS_MAX
        });
    }

    /// Undoes the changes since [`Keys::begin_undo`], with their records and events. Keys that have expired
    /// since stay so. The shards are still locked.
    pub fn undo(&mut self) {
        let Some(begin) = self.undo.begin.take() else { return };
        for (db, old) in std::mem::take(&mut self.undo.old) {
            for (name, old) in old {
                self.in_db(db, |keys| keys.restore(&Key::new(&name), old));
            }
        }
        self.effects.pending().undo_to(begin.effects);
        self.effects.drop_events();
        self.dirty = begin.dirty;
    }

    fn restore(&mut self, key: &Key<'_>, old: Option<Old>) {
        let replaced = match old {
            Some(Old { value, expiry_ms, lru }) => {
                self.note_value_due(key, &value, expiry_ms);
                self.db_of_mut(key).set_value(key, value, expiry_ms, lru)
            }
            None => self.db_of_mut(key).remove(key),
        };
        self.discard(replaced);
    }

    /// Locks more shards besides the locked ones; false, and nothing has changed, if one of them is not free
    /// and might never be: its holder may wait for one of these.
    pub fn try_lock_more(&mut self, shards: &[usize]) -> bool {
        let mut missing: Vec<usize> = shards.iter().copied().filter(|shard| !self.covers(*shard)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return true;
        }
        let highest = self.locked_shards().last().copied();
        for (at, &shard) in missing.iter().enumerate() {
            // A thread that locks in ascending order may wait.
            let may_wait = highest.is_none_or(|highest| highest < shard);
            let engine = self.engine();
            let is_locked = if may_wait { engine.lock_unless_busy(shard) } else { engine.try_lock(shard) };
            if !is_locked {
                missing[..at].iter().for_each(|&shard| self.engine().unlock(shard));
                return false;
            }
        }
        self.add_locked(&missing);
        true
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;
    use martlet_keyspace::ExpiryChange;
    use martlet_types::list::{End, List};

    use super::*;
    use crate::effects::EventClass;
    use crate::engine::Engine;

    fn keys(engine: &'static Engine, thread: usize) -> Keys {
        Keys::new(engine, thread, Random::from_entropy())
    }

    fn engine() -> &'static Engine {
        Box::leak(Box::new(Engine::new(2).unwrap()))
    }

    fn text(keys: &mut Keys, name: &[u8]) -> Option<Vec<u8>> {
        keys.get(&Key::new(name)).and_then(|entry| entry.str().map(|s| s.to_vec()))
    }

    #[test]
    fn what_was_changed_is_as_before() {
        let mut keys = keys(engine(), 0);
        keys.engine().gate.closed(|alone| keys.lock_all_shards(alone));
        keys.effects.recording = true;
        let [a, b, list, absent] = [b"a".as_slice(), b"b", b"l", b"x"].map(Key::new);
        keys.set_time(1000);
        keys.set_str(&a, b"1", ExpiryChange::At(5000));
        keys.set_str(&b, b"two", ExpiryChange::Clear);
        let push = |keys: &mut Keys, value: &[u8]| {
            keys.create::<List>(&list).unwrap().push(End::Tail, value);
        };
        (0..1000).for_each(|_| push(&mut keys, b"element"));
        keys.begin_undo();
        keys.set_str(&a, b"2", ExpiryChange::Clear);
        keys.in_db(3, |keys| keys.set_str(&a, b"elsewhere", ExpiryChange::Clear));
        keys.update_str(&b, 0..4, |bytes| bytes.extend_from_slice(b"!"));
        assert!(keys.delete(&a));
        push(&mut keys, b"more");
        keys.set_str(&absent, b"new", ExpiryChange::Clear);
        keys.changed(&absent, EventClass::STRING, "set");
        keys.effects.replace(0, || [b"SET".as_slice()]);
        keys.effects.deleted_by_server(0, b"due", crate::Deletion::Del);
        keys.undo();
        assert_eq!((text(&mut keys, b"a"), keys.expiry_ms(&a)), (Some(b"1".to_vec()), Some(5000)));
        assert_eq!(text(&mut keys, b"b"), Some(b"two".to_vec()));
        assert_eq!((text(&mut keys, b"x"), keys.in_db(3, |keys| text(keys, b"a"))), (None, None));
        assert_eq!(keys.read::<List>(&list).unwrap().unwrap().len(), 1000);
        assert_eq!(keys.dirty, 0);
        let (tag, command) = keys.effects.pending().record().unwrap();
        assert_eq!((tag, command), (0, b"*2\r\n$3\r\nDEL\r\n$3\r\ndue\r\n".as_slice()));
    }

    #[test]
    fn what_stands_is_forgotten() {
        let mut keys = keys(engine(), 0);
        keys.engine().gate.closed(|alone| keys.lock_all_shards(alone));
        let a = Key::new(b"a");
        keys.begin_undo();
        keys.set_str(&a, b"1", ExpiryChange::Clear);
        keys.end_undo();
        keys.begin_undo();
        keys.set_str(&a, b"2", ExpiryChange::Clear);
        keys.undo();
        assert_eq!(text(&mut keys, b"a"), Some(b"1".to_vec()));
    }

    #[test]
    fn a_script_with_many_keys_costs_the_next_ones_nothing() {
        let mut keys = keys(engine(), 0);
        keys.engine().gate.closed(|alone| keys.lock_all_shards(alone));
        let mut change = |count: usize| {
            keys.begin_undo();
            for number in 0..count {
                keys.set_str(&Key::new(&number.to_le_bytes()), b"v", ExpiryChange::Clear);
            }
            keys.end_undo();
            keys.undo.old.iter().map(|(_, old)| old.capacity()).sum::<usize>()
        };
        assert!(change(10) >= 10);
        assert_eq!(change(2 * KEPT_KEYS_MAX), 0);
    }

    #[test]
    fn more_shards_are_locked_all_or_none() {
        let engine = engine();
        let (mut one, mut other) = (keys(engine, 0), keys(engine, 1));
        one.lock_shards(vec![5, 9]);
        other.lock_shard(3);
        assert!(!one.try_lock_more(&[4, 3, 9]));
        assert_eq!(one.locked_shards(), [5, 9]);
        assert!(other.try_lock_more(&[4, 700]) && !other.try_lock_more(&[5]));
        assert_eq!(other.locked_shards(), [3, 4, 700]);
        other.release();
        assert!(one.try_lock_more(&[4, 3, 9]) && one.try_lock_more(&[]));
        assert_eq!(one.locked_shards(), [3, 4, 5, 9]);
        one.release();
        assert!(one.try_lock_more(&[7]));
        assert_eq!(one.locked_shards(), [7]);
        one.release();
    }
}
