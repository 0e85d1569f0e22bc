//! Idempotency records of streams whose time has come. They are not replicated data: no command reports them,
//! and each server drops them by itself.

use martlet_keyspace::Key;
use martlet_types::stream::Stream;

use super::Keys;

impl Keys {
    /// To be called after a change of the indexed facts of the key's stream: its idempotency records, or
    /// whether entries are pending without a consumer.
    pub fn index_stream(&mut self, key: &Key<'_>) {
        if let Some(at_ms) = self.db_of_mut(key).index_stream(key) {
            self.engine.note_due(key.shard(), at_ms);
        }
    }

    /// The same where entries that were pending without a consumer may have got one, or may have gone.
    pub fn index_released(&mut self, key: &Key<'_>) {
        let stream = self.get(key).and_then(|entry| entry.object::<Stream>());
        if stream.is_some_and(|stream| stream.indexed().has_released) {
            self.index_stream(key);
        }
    }

    /// Forgets records of a locked shard's streams that are due, at most `limit`. Returns how many.
    pub(super) fn expire_due_records(&mut self, shard: usize, limit: usize) -> usize {
        let now_ms = self.now_ms;
        let mut expired = 0;
        while expired < limit {
            let (db, state) = (self.db, self.engine.state_mut(&mut self.locked, shard));
            let Some(name) = state.keys.db_mut(db).next_due_stream(now_ms) else { break };
            let key = Key::new(&name);
            self.preserve(&key);
            if let Some(mut stream) = self.db_of_mut(&key).object_mut::<Stream>(&key)
                && let Some(until_ms) = stream.records_expired_until(now_ms)
            {
                expired += stream.idempotency_mut().expire(until_ms, limit - expired);
            }
            self.index_stream(&key);
        }
        expired
    }
}
