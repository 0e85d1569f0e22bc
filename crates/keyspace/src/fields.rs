//! The index of hashes whose fields expire, ordered by the time of the next field that does.
//!
//! Invariant: between commands the index holds exactly the pairs (time, key's hash) under which the hashes
//! record that they are indexed ([`Hash::indexed_expiry_ms`]), and a hash with expiring fields is in it under
//! a time that is not later than the first of them. A change of a hash that may change that time is followed
//! by [`Db::index_fields`].

use martlet_types::hash::{Hash, NO_EXPIRY};

use crate::db::{Db, Key, key_hash};
use crate::entry::RawEntry;

impl Db {
    /// When the next hash field expires.
    pub fn next_field_expiry_ms(&self) -> Option<i64> {
        self.field_expiries.next_ms()
    }

    /// Number of hashes that have fields with an expiry.
    pub fn field_expiring_len(&self) -> usize {
        self.field_expiries.len()
    }

    /// Puts the key's hash in the index under the time that it has now; gives that time.
    pub fn index_fields(&mut self, key: &Key<'_>) -> Option<i64> {
        let entry = self.table.entry(self.spot(key)?);
        let hash = entry.object::<Hash>()?;
        let (old_ms, new_ms) = (hash.indexed_expiry_ms(), hash.next_expiry_ms());
        if old_ms != new_ms {
            self.field_expiries.remove(old_ms, key.hash);
            hash.set_indexed_expiry_ms(new_ms);
            if new_ms != NO_EXPIRY {
                self.field_expiries.insert(new_ms, key.hash);
            }
        }
        (new_ms != NO_EXPIRY).then_some(new_ms)
    }

    /// A key whose hash has fields that are due by `now_ms`, as far as the index knows. It stays in the index
    /// until [`Db::index_fields`] is called.
    pub fn next_due_hash(&mut self, now_ms: i64) -> Option<Vec<u8>> {
        while let Some((at_ms, hash)) = self.field_expiries.pop_due(now_ms) {
            let due = |entry: RawEntry| {
                entry.object::<Hash>().is_some_and(|object| object.indexed_expiry_ms() == at_ms)
                    && key_hash(entry.key()) == hash
            };
            if let Some(spot) = self.table.find(hash, due) {
                self.field_expiries.insert(at_ms, hash);
                return Some(self.table.entry(spot).key().to_vec());
            }
        }
        None
    }

    /// Puts an entry that comes into the table in the index if it is a hash with expiring fields.
    #[inline]
    pub(crate) fn note_field_expiry(&mut self, key_hash: u64, entry: RawEntry) {
        if let Some(hash) = entry.object::<Hash>() {
            let at_ms = hash.next_expiry_ms();
            if at_ms != NO_EXPIRY {
                self.field_expiries.insert(at_ms, key_hash);
            }
            if hash.indexed_expiry_ms() != at_ms {
                hash.set_indexed_expiry_ms(at_ms);
            }
        }
    }

    /// Takes an entry that leaves the table out of the index.
    #[inline]
    pub(crate) fn forget_field_expiry(&mut self, key_hash: u64, entry: RawEntry) {
        if let Some(hash) = entry.object::<Hash>()
            && hash.indexed_expiry_ms() != NO_EXPIRY
        {
            self.field_expiries.remove(hash.indexed_expiry_ms(), key_hash);
            hash.set_indexed_expiry_ms(NO_EXPIRY);
        }
    }
}
