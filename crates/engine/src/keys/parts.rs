//! Fields of hashes and members of sets whose time has come: deleted when a command meets them, or by the
//! thread that looks after the shard.

use martlet_keyspace::{Key, Object};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::Hash;
use martlet_types::set::Set;

use super::Keys;
use martlet_spec::EventClass;

/// A collection whose parts, fields or members, may expire one by one.
pub trait TimedParts: Object {
    /// The class of its key events.
    const CLASS: EventClass;
    /// The event of parts that have expired.
    const EXPIRED: &'static str;
    /// The command that removes parts, by which replicas and the append-only file do so.
    const REMOVAL: &'static [u8];

    /// Removes the part of this name if it has expired by `due_ms`; whether it did.
    fn remove_expired_part(&mut self, name: &[u8], due_ms: i64) -> bool;

    /// Removes parts that have expired by `due_ms`, at most `limit`, and hands the name and the time of each
    /// to `f` before. Returns how many.
    fn collect_expired_parts(&mut self, due_ms: i64, limit: usize, f: impl FnMut(&[u8], i64)) -> usize;
}

impl TimedParts for Hash {
    const CLASS: EventClass = EventClass::HASH;
    const EXPIRED: &'static str = "hexpired";
    const REMOVAL: &'static [u8] = b"HDEL";

    fn remove_expired_part(&mut self, name: &[u8], due_ms: i64) -> bool {
        self.remove_expired(name, due_ms)
    }

    fn collect_expired_parts(&mut self, due_ms: i64, limit: usize, mut f: impl FnMut(&[u8], i64)) -> usize {
        self.collect_expired(due_ms, limit, |field| {
            f(field.name.as_bytes(&mut IntBuffer::new()), field.expire_at_ms);
        })
    }
}

impl TimedParts for Set {
    const CLASS: EventClass = EventClass::SET;
    const EXPIRED: &'static str = "sexpired";
    const REMOVAL: &'static [u8] = b"SREM";

    fn remove_expired_part(&mut self, name: &[u8], due_ms: i64) -> bool {
        self.remove_expired(Element::Bytes(name), due_ms)
    }

    fn collect_expired_parts(&mut self, due_ms: i64, limit: usize, mut f: impl FnMut(&[u8], i64)) -> usize {
        self.collect_expired(due_ms, limit, |member| {
            f(member.element.as_bytes(&mut IntBuffer::new()), member.expire_at_ms);
        })
    }
}

/// Parts of one collection that have expired.
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
    fn for_news<T: TimedParts>(keys: &Keys) -> Expired {
        Expired { is_named: keys.effects.wants_subkeys(T::CLASS), names: Vec::new(), count: 0 }
    }
}

impl Keys {
    /// Deletes those of the parts that have expired (unless expired data is to be kept), and the key with
    /// the last part. Returns how many.
    pub fn expire_parts<'n, T: TimedParts>(
        &mut self,
        key: &Key<'_>,
        names: impl IntoIterator<Item = &'n [u8]>,
    ) -> usize {
        let expired = self.expire_parts_only::<T>(key, names);
        if expired > 0 {
            self.delete_without_parts::<T>(key);
        }
        expired
    }

    /// As [`Keys::expire_parts`], but leaves a collection without parts to the caller, which puts some into
    /// it or calls [`Keys::delete_without_parts`].
    pub fn expire_parts_only<'n, T: TimedParts>(
        &mut self,
        key: &Key<'_>,
        names: impl IntoIterator<Item = &'n [u8]>,
    ) -> usize {
        if self.keeps_expired() {
            return 0;
        }
        let (db, due_ms) = (self.view.db, self.due_ms);
        let mut expired = Expired::for_news::<T>(self);
        for name in names {
            let Some(mut parts) = self.db_of_mut(key).object_mut::<T>(key) else { break };
            let removed = parts.remove_expired_part(name, due_ms);
            drop(parts);
            if removed {
                expired.count += 1;
                expired.names.extend(expired.is_named.then(|| name.to_vec()));
                self.effects.expired_part(db, T::REMOVAL, key.bytes, name);
            }
        }
        let count = expired.count;
        self.after_parts_expired::<T>(key, expired);
        count
    }

    /// Deletes the key if its collection has no parts left.
    pub fn delete_without_parts<T: TimedParts>(&mut self, key: &Key<'_>) {
        if self.delete_if_empty::<T>(key) {
            self.effects.event(EventClass::GENERIC, "del", self.view.db, key.bytes);
        }
    }

    /// Deletes all parts that have expired (unless expired data is to be kept), and the key with the last
    /// one.
    pub fn expire_all_parts<T: TimedParts>(&mut self, key: &Key<'_>) {
        if !self.keeps_expired() {
            self.collect_parts::<T>(key, usize::MAX, |_| ());
        }
    }

    /// Deletes parts of a collection that have expired, at most `limit`, handing the time of each to `seen`.
    pub(super) fn collect_parts<T: TimedParts>(
        &mut self,
        key: &Key<'_>,
        limit: usize,
        mut seen: impl FnMut(i64),
    ) -> usize {
        let (db, due_ms) = (self.view.db, self.due_ms);
        let mut expired = Expired::for_news::<T>(self);
        self.counters.change.set();
        let state = self.engine.state_mut(&mut self.locked, key.shard());
        let Some(mut parts) = state.keys.db_mut(db).object_mut::<T>(key) else { return 0 };
        let effects = &mut self.effects;
        let (is_named, names) = (expired.is_named, &mut expired.names);
        let count = parts.collect_expired_parts(due_ms, limit, |name, expire_at_ms| {
            seen(expire_at_ms);
            names.extend(is_named.then(|| name.to_vec()));
            effects.expired_part(db, T::REMOVAL, key.bytes, name);
        });
        drop(parts);
        expired.count = count;
        self.counters.expired_fields_unmet.add(count as u64);
        self.after_parts_expired::<T>(key, expired);
        if count > 0 {
            self.delete_without_parts::<T>(key);
        }
        count
    }

    /// Publishes `expired` parts if there are any.
    fn after_parts_expired<T: TimedParts>(&mut self, key: &Key<'_>, expired: Expired) {
        self.note_fresh_due(key);
        if expired.count == 0 {
            return;
        }
        self.note_followed(key);
        self.counters.expired_fields.add(expired.count as u64);
        self.effects.event_of_subkeys(T::CLASS, T::EXPIRED, self.view.db, key.bytes, expired.names);
        self.signal_by_server(key);
    }
}
