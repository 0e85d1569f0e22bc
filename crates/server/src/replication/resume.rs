//! Continuing the stream at the place of the loaded file.

use std::sync::atomic::Ordering;

use martlet_journal::{Follower, REPLICAS};
use martlet_persistence::StreamPlace;

use super::failover_state::GETACK;
use crate::shared::Shared;

/// Continues the stream at the place of the loaded file: a replica asks for the rest, and a primary lets its
/// replicas continue that are at the same place. The gate is closed.
pub fn resume<W>(shared: &Shared<W>, place: &StreamPlace) {
    let (journal, replication) = (&shared.engine.journal, &shared.replication);
    if let Err(error) = journal.open() {
        tracing::error!("No memory for the replication stream: {error}");
        return;
    }
    let is_replica = shared.is_replica();
    journal.set_backlog(shared.config.snapshot().repl_backlog_size_bytes);
    journal.follow(Follower::Replicas, true);
    journal.relay(is_replica, Some(place.offset));
    journal.pump(journal.end());
    replication.history().resume(place.id.clone(), place.offset, is_replica);
    if is_replica {
        replication.replica.resume(place.db as usize);
    } else {
        shared.have_confirmed();
        replication.primary.alone_since_ms.store(shared.clock.unix_ms(), Ordering::Relaxed);
    }
    replication.primary.is_active.store(true, Ordering::Release);
}

impl<W> Shared<W> {
    /// Present data is confirmed once replicas have it, as later records are. The stream has just begun, and
    /// no thread records.
    pub(super) fn have_confirmed(&self) {
        if self.config.snapshot().sync_replicas > 0 {
            self.engine.journal.append(REPLICAS, GETACK);
        }
    }
}
