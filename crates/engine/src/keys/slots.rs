//! A hash slot's keys, where keys' hashes carry their slots: they are one range of a shard.

use martlet_base::hash::shard_of_slot;
use martlet_keyspace::Key;

use super::Keys;

use crate::effects::{Deletion, EventClass};

impl Keys {
    /// Number of a slot's keys in all databases. The slot's shard is locked.
    pub fn count_slot(&self, slot: u16) -> usize {
        let keys = &self.shard(shard_of_slot(slot)).keys;
        keys.used().map(|db| keys.db(db).count_slot(slot)).sum()
    }

    /// Up to `most` names of a slot's keys in the current database. The slot's shard is locked.
    pub fn names_in_slot(&self, slot: u16, most: usize) -> Vec<Vec<u8>> {
        let db = self.shard(shard_of_slot(slot)).keys.db(self.db);
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

    /// Deletes a slot's keys in all databases, as the server's own doing; how many there were. The slot's
    /// shard is locked.
    pub fn delete_slot(&mut self, slot: u16) -> usize {
        const AT_ONCE: usize = 1024;
        let shard = shard_of_slot(slot);
        let databases: Vec<usize> = self.shard(shard).keys.used().collect();
        let mut deleted = 0;
        for db in databases {
            self.in_db(db, |keys| {
                loop {
                    let names = keys.names_in_slot(slot, AT_ONCE);
                    if names.is_empty() {
                        return;
                    }
                    deleted += names.len();
                    for name in &names {
                        let key = Key::new(name);
                        keys.delete(&key);
                        keys.effects.event(EventClass::GENERIC, "del", db, name);
                        keys.effects.deleted_by_server(db, name, Deletion::Del);
                        keys.signal_by_server(&key);
                    }
                    keys.record_pending();
                }
            });
            self.shard_mut(shard).keys.db_mut(db).free_if_empty();
        }
        deleted
    }
}
