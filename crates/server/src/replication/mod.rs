//! Replication: the server's state as a primary and as a replica.
//!
//! The rules are `martlet_replication`'s, which knows no thread and no socket; here they meet both.
//!
//! Invariant: a replication id and an offset name one state of the data set. A change of the data set other
//! than by the stream takes a new id first.

mod cron;
pub mod failover;
pub(crate) mod feed;
pub mod link;
pub mod primary;
pub mod replica;
mod sync;
pub mod sync_replicas;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_journal::Follower;
use martlet_persistence::load::StreamPlace;
use martlet_replication::history::History;

use crate::shared::{Shared, random_id};
use primary::Primary;

/// Continues the stream at the place of the loaded file: a replica asks for the rest, and a primary lets its
/// replicas continue that are at the same place. The gate is closed.
pub fn resume(shared: &Shared, place: &StreamPlace) {
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

/// See the [module docs](self). One per server.
pub struct Replication {
    history: Mutex<History>,
    /// The server's replicas.
    pub primary: Primary,
    /// Replies that wait for replicas.
    pub sync_replicas: sync_replicas::SyncReplicas,
    /// A failover that the user has asked for.
    pub failover: failover::Failover,
    /// The replica's side.
    pub replica: replica::Replica,
}

impl Replication {
    /// A primary, which no other server knows yet.
    pub fn new(random: &mut Random) -> Replication {
        Replication {
            history: Mutex::new(History::new(random_id(random))),
            primary: Primary::default(),
            sync_replicas: sync_replicas::SyncReplicas::default(),
            failover: failover::Failover::default(),
            replica: replica::Replica::default(),
        }
    }

    /// The ids of the stream. They change behind the closed gate, and at the start.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    /// Begins a stream that has nothing to do with the one before it.
    pub fn change_id(&self, random: &mut Random) {
        self.history().begin_anew(random_id(random));
    }
}
