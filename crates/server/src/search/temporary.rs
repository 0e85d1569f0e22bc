//! Temporary indexes: dropped with their documents, as in RediSearch, once they were not used for some time.
//! Only a primary drops them, and its records say so.

use martlet_engine::{EventClass, Keys, in_view};
use martlet_indexes::KeyIndex;
use martlet_keyspace::Key;

use crate::runtime::Worker;
use crate::slow_path::SlowPathReason;

impl Worker {
    /// Drops temporary indexes that were not used for as long as they stay; some of them, if there are many.
    pub(crate) fn end_temporary_indexes(&mut self) {
        let shared = self.shared;
        // A primary's clients do not use its replica: the time begins when the replica becomes a primary.
        let holds = shared.is_replica()
            || shared.slow_path_reasons.has(SlowPathReason::Replica)
            || shared.persistence.is_loading();
        let overdue = shared.indexes.overdue(self.now_ms, holds);
        let refuses_writes = &shared.persistence.log.refuses_writes;
        if overdue.is_empty()
            || shared.postpones(self.now_ms).is_some()
            || refuses_writes.load(std::sync::atomic::Ordering::Relaxed)
        {
            return;
        }
        for index in overdue {
            let is_dropped = self.try_alone(|worker| worker.drop_overdue(&index)).unwrap_or(false);
            if is_dropped {
                let name = String::from_utf8_lossy(index.name());
                tracing::info!("The temporary index {name} was not used for its time, and is dropped.");
            }
        }
    }

    /// Drops an index unless it was used or dropped meanwhile; whether it has. All shards are locked.
    fn drop_overdue(&mut self, index: &KeyIndex) -> bool {
        let (shared, now_ms) = (self.shared, self.now_ms);
        let is_there = shared.indexes.find(index.name()).is_some_and(|known| std::ptr::eq(&*known, index));
        let is_dropped = is_there
            && !shared.is_replica()
            && index.is_overdue(now_ms, false)
            && shared.indexes.drop_index(index.name()).is_ok();
        if is_dropped {
            in_view(&mut self.keys, self.base_view, |keys| {
                keys.in_db(0, |keys| {
                    delete_documents(keys, index, |keys, key| {
                        keys.effects.commanded_by_server(0, &[b"DEL", key.bytes]);
                        keys.record_pending();
                    });
                });
                keys.effects.commanded_by_server(0, &[b"FT.DROPINDEX", index.name()]);
                keys.dirty += 1;
            });
            // It is no client's own write.
            self.keys.recorded = 0;
        }
        is_dropped
    }
}

/// Deletes the documents of an index that has been dropped, and calls `record` for each. All shards are
/// locked.
pub fn delete_documents(keys: &mut Keys, index: &KeyIndex, mut record: impl FnMut(&mut Keys, &Key<'_>)) {
    let index = index.index();
    for partition in (0..index.partitions()).filter_map(|number| index.partition(number)) {
        for (_, document) in partition.documents().iter() {
            let key = Key::new(&document.key);
            if keys.delete(&key) {
                keys.changed(&key, EventClass::GENERIC, "del");
                record(keys, &key);
            }
        }
    }
}
