//! Replication's state of the server, as a primary and as a replica.

use std::sync::{Mutex, MutexGuard};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_replication::history::History;

use super::failover_state::Failover;
use super::pause::Pause;
use super::primary::Primary;
use super::replica::state::Replica;
use super::sync_replicas::SyncReplicas;

/// 40 random hexadecimal digits.
pub fn random_id(random: &mut martlet_base::random::Random) -> String {
    (0..40).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize])).collect()
}

/// See the [module docs](self). One per server.
pub struct Replication {
    history: Mutex<History>,
    /// The server's replicas.
    pub primary: Primary,
    /// Replies that wait for replicas.
    pub sync_replicas: SyncReplicas,
    /// A failover that the user has asked for.
    pub failover: Failover,
    /// The replica's side.
    pub replica: Replica,
    /// DEBUG REPL-PAUSE.
    pub pause: Pause,
}

impl Replication {
    /// A primary, which no other server knows yet.
    pub fn new(random: &mut Random) -> Replication {
        Replication {
            history: Mutex::new(History::new(random_id(random))),
            primary: Primary::default(),
            sync_replicas: SyncReplicas::default(),
            failover: Failover::default(),
            replica: Replica::default(),
            pause: Pause::default(),
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
