//! Replication: what the server knows of itself as a primary and as a replica.
//!
//! Invariant: a replication id and an offset name one state of the data set. Whoever changes the data set
//! otherwise than by the stream takes a new id first.

mod cron;
pub mod failover;
mod feed;
pub mod link;
pub mod primary;
pub mod replica;
mod sync;
pub mod sync_replicas;

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use martlet_base::random::Random;
use martlet_journal::Follower;
use martlet_persistence::load::StreamPlace;

use crate::shared::{Shared, lock, random_id};
use primary::Primary;

/// The names of the stream of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The replication id, 40 hexadecimal digits.
    pub id: String,
    /// The id that the stream had before, when the server was a replica or was started anew, and the offset
    /// from which on it has not been that stream.
    pub second: Option<(String, u64)>,
}

/// Goes on with the stream where the file was that has been loaded: a replica asks for what follows, and a
/// primary lets its replicas go on that have come just as far. The gate is closed.
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
    if is_replica {
        replication.set_ids(Ids { id: place.id.clone(), second: None });
        replication.replica.resume(place.db as usize);
    } else {
        let ids = replication.ids();
        replication.set_ids(Ids { second: Some((place.id.clone(), place.offset + 1)), ..ids });
        replication.primary.alone_since_ms.store(shared.clock.unix_ms(), Ordering::Relaxed);
    }
    replication.primary.is_active.store(true, Ordering::Release);
}

/// See the [module docs](self). One per server.
pub struct Replication {
    ids: Mutex<Ids>,
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
    /// A primary, of which nobody knows yet.
    pub fn new(random: &mut Random) -> Replication {
        let ids = Ids { id: random_id(random), second: None };
        Replication {
            ids: Mutex::new(ids),
            primary: Primary::default(),
            sync_replicas: sync_replicas::SyncReplicas::default(),
            failover: failover::Failover::default(),
            replica: replica::Replica::default(),
        }
    }

    /// The names of the stream.
    pub fn ids(&self) -> Ids {
        lock(&self.ids).clone()
    }

    /// Takes these names.
    pub fn set_ids(&self, ids: Ids) {
        *lock(&self.ids) = ids;
    }

    /// Begins a stream that has nothing to do with the one before it.
    pub fn change_id(&self, random: &mut Random) {
        self.set_ids(Ids { id: random_id(random), second: None });
    }

    /// Begins a stream of its own where it has followed another server's up to `offset`: who knows the old
    /// name and is not further than that may go on.
    pub fn shift_id(&self, random: &mut Random, offset: u64) {
        let mut ids = lock(&self.ids);
        let old = std::mem::replace(&mut ids.id, random_id(random));
        ids.second = Some((old, offset + 1));
    }
}
