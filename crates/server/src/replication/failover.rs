//! A failover that the user asks for (FAILOVER): writes wait, a replica catches up, and the two change roles.
//!
//! Invariant: that of [`martlet_replication::failover`], whose steps are taken here behind the closed gate.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_journal::{Follower, REPLICAS};
use martlet_replication::failover::Step;

use super::failover_state::{GETACK, Request, State};
use super::primary::Replica;
use crate::config::Primary;
use crate::runtime::{Mail, Shared, Worker};

impl Shared {
    /// Ends a failover, however: writes resume. Returns its state, and its request.
    pub fn end_failover(&self) -> (State, Request) {
        let ended = self.replication.failover.end();
        if ended.0 != State::None {
            self.release_writes();
        }
        ended
    }
}

impl Worker {
    /// Has writes wait, and replicas say how far they are.
    pub(crate) fn begin_failover(&mut self, request: Request) -> bool {
        let shared = self.shared;
        if !shared.replication.failover.begin(request) {
            return false;
        }
        shared.hold_writes();
        if shared.engine.journal.is_followed_by(Follower::Replicas) {
            shared.engine.journal.append(REPLICAS, GETACK);
        }
        true
    }

    /// Checks whether a failover can continue, on the first thread: replicas have acknowledged, or time has
    /// passed.
    pub(crate) fn follow_failover(&mut self) {
        let shared = self.shared;
        if !shared.replication.failover.is_on() {
            return;
        }
        let step = shared.replication.failover.under_way().step(self.now_ms);
        match step {
            Step::Nothing => {}
            Step::Abort => {
                self.alone(|worker| worker.abort_failover("Replica never caught up before timeout"));
            }
            Step::Force(target) => {
                let Primary { host, port } = &target;
                tracing::info!("FAILOVER to {host}:{port} time out exceeded, failing over.");
                self.alone(|worker| worker.ask_to_take_over(&target));
            }
            // Commands that were under way when writes began to wait have ended once the gate is closed.
            Step::Await => self.alone(|worker| {
                if let Some(target) = worker.synced_target() {
                    let Primary { host, port } = &target;
                    tracing::info!("Failover target {host}:{port} is synced, failing over.");
                    worker.ask_to_take_over(&target);
                }
            }),
        }
    }

    /// Asks a replica to take over.
    fn ask_to_take_over(&mut self, target: &Primary) {
        let proceeds = self.shared.replication.failover.under_way().proceed(target.clone());
        if proceeds {
            self.follow_primary(Some(target.clone()));
        }
    }

    /// A replica that may take over and has all there is.
    fn synced_target(&self) -> Option<Primary> {
        let (end, replication) = (self.shared.replication_offset(), &self.shared.replication);
        let replicas = replication.primary.replicas();
        let under_way = replication.failover.under_way();
        let is_wanted =
            |replica: &&Arc<Replica>| under_way.accepts(|target| replica.is_at(&target.host, target.port));
        let found = replicas.iter().filter(is_wanted).find(|replica| replica.ack().has(end))?;
        Some(Primary { host: found.host(), port: u16::try_from(found.port.load(Ordering::Relaxed)).ok()? })
    }

    /// Ends a failover that does not come about, and is a primary again if need be. All shards are locked.
    pub(crate) fn abort_failover(&mut self, why: &str) {
        let (state, request) = self.shared.end_failover();
        if state == State::None {
            return;
        }
        match &request.target {
            Some(Primary { host, port }) => tracing::info!("FAILOVER to {host}:{port} aborted: {why}"),
            None => tracing::info!("FAILOVER to any replica aborted: {why}"),
        }
        if state == State::InProgress {
            self.follow_primary(None);
        }
    }

    /// A replica has acknowledged: a failover or a shutdown may continue.
    pub(crate) fn note_ack(&self) {
        let shared = self.shared;
        if shared.replication.failover.is_on() || shared.pending_shutdown.is_on() {
            let go_on = |worker: &mut Worker| {
                worker.follow_failover();
                worker.follow_shutdown();
            };
            shared.send(0, Mail::Run(Box::new(go_on)));
        }
    }
}
