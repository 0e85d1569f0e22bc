//! A hash slot's keys, where keys' hashes carry their slots: they are one range of a shard.

use martlet_base::hash::shard_of_slot;
use martlet_keyspace::{Key, PLACE_BYTES};

use super::Keys;

use martlet_spec::EventClass;

use crate::effects::Deletion;

/// A place in the walk over a slot's keys.
#[derive(Copy, Clone, Debug, Default)]
pub struct SlotPlace {
    db: usize,
    order: Option<u64>,
}

impl Keys {
    /// Number of a slot's keys in all databases. The slot's shard is locked.
    pub fn count_slot(&self, slot: u16) -> usize {
        let keys = &self.shard(shard_of_slot(slot)).keys;
        keys.used().map(|db| keys.db(db).count_slot(slot)).sum()
    }

    /// The same of one database.
    pub fn count_slot_in(&self, db: usize, slot: u16) -> usize {
        self.shard(shard_of_slot(slot)).keys.db(db).count_slot(slot)
    }

    /// How many keys of a locked shard's database are hidden, and how many of them expire.
    pub fn hidden_len(&self, shard: usize, db: usize) -> (usize, usize) {
        let (mut len, mut expiring) = (0, 0);
        for slot in self.engine().hidden.in_shard(shard) {
            let (db, mut from) = (self.shard(shard).keys.db(db), None);
            loop {
                from = db.walk_slot(slot, from, |entry| {
                    len += 1;
                    expiring += usize::from(entry.expiry_ms().is_some());
                });
                if from.is_none() {
                    break;
                }
            }
        }
        (len, expiring)
    }

    /// How many keys of a locked shard's database are not hidden.
    pub fn visible_len(&self, shard: usize, db: usize) -> usize {
        let len = self.shard(shard).keys.db(db).len();
        if self.engine().hidden.is_any() { len - self.hidden_len(shard, db).0 } else { len }
    }

    /// Up to `most` names of a slot's keys in the current database. The slot's shard is locked.
    pub fn names_in_slot(&self, slot: u16, most: usize) -> Vec<Vec<u8>> {
        let db = self.shard(shard_of_slot(slot)).keys.db(self.view.db);
        let (mut names, mut from) = (Vec::new(), None);
        while names.len() < most {
            from = db.walk_slot(slot, from, |entry| names.push(entry.key().to_vec()));
            if from.is_none() {
                break;
            }
        }
        names.truncate(most);
        names
    }

    /// Bytes of some keys of a slot, all databases together, from where another call ended; and the next
    /// call's begin. The slot's shard is locked.
    pub fn bytes_in_slot(&self, slot: u16, from: Option<SlotPlace>) -> (usize, Option<SlotPlace>) {
        const AT_ONCE: usize = 1024;
        let keys = &self.shard(shard_of_slot(slot)).keys;
        let (mut bytes, mut visited) = (0, 0);
        let SlotPlace { db: first, order: mut next } = from.unwrap_or_default();
        for db in keys.used().filter(|db| *db >= first) {
            loop {
                next = keys.db(db).walk_slot(slot, next, |entry| {
                    bytes += entry.heap_bytes() + PLACE_BYTES;
                    visited += 1;
                });
                match next {
                    None => break,
                    Some(_) if visited >= AT_ONCE => return (bytes, Some(SlotPlace { db, order: next })),
                    Some(_) => {}
                }
            }
        }
        (bytes, None)
    }

    /// Deletes a slot's keys in all databases, as the server's own doing; how many there were. The slot's
    /// shard is locked.
    pub fn delete_slot(&mut self, slot: u16) -> usize {
        let shard = shard_of_slot(slot);
        let databases: Vec<usize> = self.shard(shard).keys.used().collect();
        let (mut names, mut ends) = (Vec::new(), Vec::new());
        let mut deleted = 0;
        for db in databases {
            self.in_db(db, |keys| {
                let mut from = None;
                loop {
                    from = keys.shard(shard).keys.db(db).walk_slot(slot, from, |entry| {
                        names.extend_from_slice(entry.key());
                        ends.push(names.len());
                    });
                    deleted += ends.len();
                    let mut begin = 0;
                    for end in ends.drain(..) {
                        let name = &names[begin..end];
                        let key = Key::new(name);
                        keys.delete(&key);
                        keys.effects.event(EventClass::GENERIC, "del", db, name);
                        keys.effects.deleted_by_server(db, name, Deletion::Del);
                        keys.signal_by_server(&key);
                        begin = end;
                    }
                    names.clear();
                    keys.record_pending();
                    if from.is_none() {
                        return;
                    }
                }
            });
            self.shard_mut(shard).keys.db_mut(db).free_if_empty();
        }
        deleted
    }
}
