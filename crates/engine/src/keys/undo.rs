//! Undoing a script's changes.

use martlet_keyspace::Key;

use super::Keys;
use crate::undo::{Begin, Old, OldKey};

impl Keys {
    /// Begins to keep what changes undo. [`Keys::undo`] or [`Keys::end_undo`] must follow.
    pub fn begin_undo(&mut self) {
        self.undo.begin(Begin { effects: self.effects.pending().mark(), dirty: self.dirty });
    }

    /// Lets the changes stand.
    pub fn end_undo(&mut self) {
        self.undo.end();
    }

    /// Undoes the changes since [`Keys::begin_undo`], with their records and events. Keys that have expired
    /// since stay so. The shards are still locked.
    pub fn undo(&mut self) {
        let Some((begin, kept)) = self.undo.take() else { return };
        for (db, old) in kept {
            for OldKey { name, old, .. } in old {
                self.in_db(db, |keys| keys.restore(&Key::new(&name), old));
            }
        }
        self.effects.pending().undo_to(begin.effects);
        self.effects.drop_events();
        self.dirty = begin.dirty;
    }

    fn restore(&mut self, key: &Key<'_>, old: Option<Old>) {
        self.note_followed(key);
        let replaced = match old {
            Some(Old { value, expiry_ms, lru }) => {
                let replaced = self.change_db(key, |db| db.set_value(key, value, expiry_ms, lru));
                self.note_value_due(key, expiry_ms);
                replaced
            }
            None => self.change_db(key, |db| db.remove(key)),
        };
        self.discard(replaced);
    }
}

#[cfg(test)]
mod tests {
    use crate::keys::ShardBusy;
    use martlet_base::random::Random;
    use martlet_keyspace::ExpiryChange;
    use martlet_types::list::{End, List};

    use super::*;
    use crate::engine::Engine;
    use crate::undo::KEPT_KEYS_MAX;
    use martlet_spec::EventClass;

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
        keys.see(crate::View { now_ms: 1000, ..keys.view() });
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
    fn wanted_shards_are_locked_once_they_are_free() {
        let engine = engine();
        let (mut one, mut other) = (keys(engine, 0), keys(engine, 1));
        one.lock_shards(vec![9]);
        other.lock_shard(3);
        assert!(one.lock_linked(&[700]) && !one.lock_linked(&[3, 5]));
        assert_eq!(one.locked_shards(), [9, 700]);
        other.release();
        assert!(one.relock_wanted());
        assert_eq!(one.locked_shards(), [3, 5, 9, 700]);
        one.release();
    }

    #[test]
    fn a_shard_is_unlocked_for_a_while() {
        let engine = engine();
        let (mut one, mut other) = (keys(engine, 0), keys(engine, 1));
        one.lock_shard(9);
        let mut use_it = || {
            other.lock_shard(9);
            other.release();
            7
        };
        assert_eq!(one.unlocked(&mut use_it), Ok(Some(7)));
        assert_eq!(one.locked_shards(), [9]);
        one.release();
        // Not beside other shards.
        one.lock_shards(vec![3, 9]);
        assert_eq!(one.unlocked(|| 7), Ok(None));
        assert_eq!(one.locked_shards(), [3, 9]);
        one.release();
        assert_eq!(one.unlocked(|| 7), Ok(None));
        // A busy script locks it in between.
        one.lock_shard(9);
        let steal = || {
            other.lock_shard(9);
            engine.busy_scripts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        assert_eq!(one.unlocked(steal), Err(ShardBusy));
        assert!(one.has_no_shards());
        other.release();
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
