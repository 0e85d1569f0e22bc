//! Becoming a replica, a replica of another primary, or a primary again.
//!
//! Invariant: it happens behind the closed gate, so that no write falls between two roles, and the data set
//! keeps the name and the offset of the stream that it is of.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;

use super::apply::AppliedStream;
use super::state::LinkState;
use crate::config::{Primary, ReplicaOf};
use crate::replication::state::random_id;
use crate::runtime::Worker;
use crate::runtime::{Mail, Shared};
use crate::slow_path::SlowPathReason;
use crate::waits::WaitEnd;

/// Applies the configuration when the server starts, before it accepts clients.
pub fn prepare(shared: &Shared) {
    let config = shared.config.snapshot();
    let primary = config.replicaof.0.clone();
    shared.slow_path_reasons.switch(SlowPathReason::Importing, config.import_mode);
    shared.slow_path_reasons.switch(SlowPathReason::Replica, primary.is_some());
    shared.replication.replica.update(|status| status.primary = primary);
}

impl Worker {
    /// Copies this primary from now on, or is one itself. All shards are locked.
    pub(crate) fn follow_primary(&mut self, primary: Option<Primary>) {
        self.follow(primary, true);
    }

    /// Copies this primary from now on, to whose history the data here is unrelated: it counts for nothing in
    /// an election, and is not a place to continue from. All shards are locked.
    pub(crate) fn follow_other_history(&mut self, primary: Primary) {
        self.follow(Some(primary), false);
    }

    fn follow(&mut self, primary: Option<Primary>, keeps_place: bool) {
        let shared = self.shared;
        let (replication, journal) = (&shared.replication, &shared.engine.journal);
        let replica = &replication.replica;
        // The transaction's earlier writes belong to the stream that ends here.
        self.keys.record_pending();
        journal.pump(journal.end());
        let received = lock(&shared.slots.of::<AppliedStream>().queue).clone();
        received.into_iter().for_each(|queue| queue.drain(self));
        let generation = replica.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let before = replica.status();
        match (&primary, &before.primary) {
            (Some(_), None) => {
                journal.relay(true, None);
                tracing::info!(
                    "Before turning into a replica, using my own master parameters to synthesize a cached master: I may be able to synchronize with the new master with just a partial transfer."
                );
            }
            (None, Some(_)) => {
                journal.relay(false, None);
                // Its former siblings get time to continue here.
                replication.primary.alone_since_ms.store(shared.clock.unix_ms(), Ordering::Relaxed);
                let id = random_id(&mut self.keys.random);
                replication.history().promote(id, journal.stream_end().offset);
            }
            _ => {}
        }
        journal.pump(journal.end());
        self.keys.effects.recording = journal.is_on();
        let mut config = Arc::unwrap_or_clone(shared.config.snapshot());
        config.replicaof = ReplicaOf(primary.clone());
        shared.config.publish(config);
        self.follow_config();
        let is_replica = primary.is_some();
        if is_replica {
            replication.history().follow(before.primary.is_none(), keeps_place);
        }
        replica.update(|status| {
            status.primary = primary;
            status.generation = generation;
            status.unloadable = super::state::Unloadable::default();
            status.state = LinkState::Connect;
            status.down_since_s = None;
        });
        if !is_replica {
            // They may continue by the stream's new id. Those of a replica hear of another id, or get another
            // data set, once that is so.
            replication.primary.disconnect_all(shared);
        }
        replica.own_keys.clear();
        replica.changed.notify_all();
        replica.link.wake();
        shared.slow_path_reasons.switch(SlowPathReason::Replica, is_replica);
        shared.log.get().into_iter().for_each(|log| log.set_replica(is_replica));
        // A failure is logged; the role changes all the same.
        let _ = shared.oom_score.get().map(|score| score.apply(&shared.config.snapshot()));
        if is_replica {
            self.end_waits();
            (self.hooks.copy_primary)(shared);
        }
    }

    /// Ends all clients' waits: the writes that they wait for are not allowed here any more.
    fn end_waits(&mut self) {
        for client in self.shared.clients.all() {
            let waiter = lock(&client.waiter).clone();
            if let Some(waiter) = waiter.filter(|waiter| waiter.cancel()) {
                self.shared.send(waiter.thread, Mail::Unblock { waiter, end: WaitEnd::RoleChanged });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::ClientDetails;
    use crate::clients::ClientInfo;
    use crate::config::{Config, ConfigStore};
    use crate::connection::{Connection, Session};

    fn connection(shared: &'static Shared) -> Connection {
        let token = martlet_net::Token::new(1, 0);
        let names = (String::new(), String::new(), false);
        let info = Arc::new(ClientInfo::new(1, 0, token, names, -1, 0, ClientDetails::default()));
        Connection::new(token, info, Session::new(&shared.access.follow()))
    }

    #[test]
    fn what_waits_to_run_alone_does_not_run_on_a_replica() {
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(Config::default()), registry, 2, None).unwrap();
        let shared: &'static Shared = Box::leak(Box::new(shared));
        let mut worker = Worker::new(shared, 0, &crate::wiring::HOOKS);
        let mut client = connection(shared);
        let (closed, is_closed) = std::sync::mpsc::channel();
        let turns = || shared.threads[0].turns.load(Ordering::Relaxed);
        worker.enter();
        worker.leave();
        let at_rest = turns();
        let mut runs = 0;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut other = Worker::new(shared, 1, &crate::wiring::HOOKS);
                shared.engine.gate.closed(|alone| {
                    closed.send(()).unwrap();
                    // Until the first worker waits for the gate.
                    while turns() == at_rest {
                        std::thread::yield_now();
                    }
                    other.keys.lock_all_shards(alone);
                    other.follow_primary(Some(Primary { host: "127.0.0.1".into(), port: 1 }));
                    other.keys.release();
                });
            });
            is_closed.recv().unwrap();
            assert!(worker.alone_for(&mut client, |_, _| runs += 1));
        });
        assert!(runs == 0 && client.closing);
        // Later requests were checked by the new role.
        client.closing = false;
        assert!(worker.alone_for(&mut client, |_, _| runs += 1));
        assert!(runs == 1 && !client.closing);
        shared.stop();
    }
}
