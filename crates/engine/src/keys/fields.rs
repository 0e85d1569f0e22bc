//! Hash fields whose time has come: deleted when a command meets them, or by the thread that looks after the
//! shard.

use martlet_keyspace::Key;
use martlet_types::hash::Hash;

use super::Keys;
use martlet_spec::EventClass;

/// Fields of one hash that have expired.
struct Expired {
    /// A subscriber wants their names.
    is_named: bool,
    /// Their names then.
    names: Vec<Vec<u8>>,
    /// How many there are.
    count: usize,
}

impl Expired {
    /// None yet.
    fn for_news(keys: &Keys) -> Expired {
        let is_named = keys.effects.wants_subkeys(EventClass::HASH);
        Expired { is_named, names: Vec::new(), count: 0 }
    }
}

impl Keys {
    /// Deletes those of the fields that have expired (unless expired data is to be kept), and the key with
    /// the last field. Returns how many.
    pub fn expire_fields<'n>(&mut self, key: &Key<'_>, names: impl IntoIterator<Item = &'n [u8]>) -> usize {
        let expired = self.expire_fields_only(key, names);
        if expired > 0 {
            self.delete_without_fields(key);
        }
        expired
    }

    /// As [`Keys::expire_fields`], but leaves a hash without fields to the caller, which puts some into it or
    /// calls [`Keys::delete_without_fields`].
    pub fn expire_fields_only<'n>(
        &mut self,
        key: &Key<'_>,
        names: impl IntoIterator<Item = &'n [u8]>,
    ) -> usize {
        if self.keeps_expired() {
            return 0;
        }
        let (db, due_ms) = (self.view.db, self.due_ms);
        let mut expired = Expired::for_news(self);
        for name in names {
            let Some(mut hash) = self.db_of_mut(key).object_mut::<Hash>(key) else { break };
            let removed = hash.remove_expired(name, due_ms);
            drop(hash);
            if removed {
                expired.count += 1;
                expired.names.extend(expired.is_named.then(|| name.to_vec()));
                self.effects.expired_field(db, key.bytes, name);
            }
        }
        let count = expired.count;
        self.after_fields_expired(key, expired);
        count
    }

    /// Deletes the key if its hash has no fields left.
    pub fn delete_without_fields(&mut self, key: &Key<'_>) {
        if self.delete_if_empty::<Hash>(key) {
            self.effects.event(EventClass::GENERIC, "del", self.view.db, key.bytes);
        }
    }

    /// Deletes all fields that have expired (unless expired data is to be kept), and the key with the last
    /// field.
    pub fn expire_all_fields(&mut self, key: &Key<'_>) {
        if !self.keeps_expired() {
            self.collect_fields(key, usize::MAX, |_| ());
        }
    }

    /// Deletes fields of a hash that have expired, at most `limit`, handing the time of each to `seen`.
    pub(super) fn collect_fields(&mut self, key: &Key<'_>, limit: usize, mut seen: impl FnMut(i64)) -> usize {
        let (db, due_ms) = (self.view.db, self.due_ms);
        let mut expired = Expired::for_news(self);
        self.counters.change.set();
        let state = self.engine.state_mut(&mut self.locked, key.shard());
        let Some(mut hash) = state.keys.db_mut(db).object_mut::<Hash>(key) else { return 0 };
        let effects = &mut self.effects;
        let (is_named, names) = (expired.is_named, &mut expired.names);
        let count = hash.collect_expired(due_ms, limit, |field| {
            seen(field.expire_at_ms);
            names.extend(is_named.then(|| field.name.to_vec()));
            if effects.recording {
                effects.expired_field(db, key.bytes, &field.name.to_vec());
            }
        });
        drop(hash);
        expired.count = count;
        self.after_fields_expired(key, expired);
        if count > 0 {
            self.delete_without_fields(key);
        }
        count
    }

    /// Publishes `expired` fields if there are any.
    fn after_fields_expired(&mut self, key: &Key<'_>, expired: Expired) {
        self.note_fresh_due(key);
        if expired.count == 0 {
            return;
        }
        self.counters.expired_fields.add(expired.count as u64);
        self.effects.event_of_subkeys(EventClass::HASH, "hexpired", self.view.db, key.bytes, expired.names);
        self.signal_by_server(key);
    }
}
