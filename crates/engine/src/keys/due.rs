//! Parts of values whose time has come: fields of hashes, members of sets, records of streams, what modules'
//! types have.

use martlet_keyspace::{Key, Kind, ModuleValue};
use martlet_types::hash::Hash;
use martlet_types::set::Set;
use martlet_types::stream::Stream;

use super::Keys;

impl Keys {
    /// Notes when a part of the key's value is due, if a change has made that earlier.
    #[inline]
    pub(crate) fn note_fresh_due(&mut self, key: &Key<'_>) {
        let db = self.view.db;
        let table = self.engine.state_mut(&mut self.locked, key.shard()).keys.db_mut(db);
        if let Some(at_ms) = table.take_fresh_due_ms() {
            self.engine.note_due(key.shard(), at_ms);
        }
    }

    /// Removes parts of a locked shard's values that are due, at most `limit`, calling `lag` with how late
    /// each field or member is. Returns how many.
    pub(super) fn expire_due_parts(
        &mut self,
        shard: usize,
        limit: usize,
        lag: &mut impl FnMut(i64),
    ) -> usize {
        let (db, now_ms) = (self.view.db, self.view.now_ms);
        let mut expired = 0;
        while expired < limit {
            let table = self.engine.state_mut(&mut self.locked, shard).keys.db_mut(db);
            let Some((kind, name)) = table.next_due(now_ms) else { break };
            let (key, left) = (Key::new(&name), limit - expired);
            let removed = match kind {
                Kind::Hash => self.collect_parts::<Hash>(&key, left, |at_ms| lag(now_ms - at_ms)),
                Kind::Set => self.collect_parts::<Set>(&key, left, |at_ms| lag(now_ms - at_ms)),
                Kind::Stream => self.forget_records(&key, left),
                _ => self.remove_due_parts(&key, left),
            };
            // A value that is due and has nothing that is would be met again at once.
            expired += removed.max(1);
        }
        expired
    }

    /// Forgets records of a stream, at most `limit`. They are not replicated data: no command reports them,
    /// and each server drops them by itself.
    fn forget_records(&mut self, key: &Key<'_>, limit: usize) -> usize {
        let now_ms = self.view.now_ms;
        self.preserve(key);
        let Some(mut stream) = self.db_of_mut(key).object_mut::<Stream>(key) else { return 0 };
        let Some(until_ms) = stream.records_expired_until(now_ms) else { return 0 };
        stream.idempotency_mut().expire(until_ms, limit)
    }

    /// Removes parts of a module's value, at most `limit`.
    fn remove_due_parts(&mut self, key: &Key<'_>, limit: usize) -> usize {
        let now_ms = self.view.now_ms;
        self.preserve(key);
        let value = self.db_of_mut(key).object_mut::<ModuleValue>(key);
        value.map_or(0, |mut value| value.object_mut().remove_due(now_ms, limit))
    }
}
