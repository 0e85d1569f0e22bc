//! A failover that the user asks for (FAILOVER): writes wait, a replica catches up, and the two change roles.
//!
//! ```text
//! None ── FAILOVER ──▶ WaitForSync ── the target has all ──▶ InProgress ── PSYNC … FAILOVER is answered ──▶ None
//!                          └── time is up: abort, or go on by force      └── refused, or ABORT: a primary again
//! ```
//!
//! Invariant: writes wait from FAILOVER's answer until the state is `None` again, so that the target has all
//! that was acknowledged, unless force was asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use martlet_journal::{Follower, REPLICAS};

use super::primary::{Phase, Replica};
use crate::config::Primary;
use crate::shared::{Mail, Shared, lock};
use crate::worker::Worker;

/// What a replica is asked with to say how far it is.
pub const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// How far a failover is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is none.
    #[default]
    None,
    /// A replica catches up.
    WaitForSync,
    /// The target is asked to take over.
    InProgress,
}

impl State {
    /// As INFO names it.
    pub fn name(self) -> &'static str {
        match self {
            State::None => "no-failover",
            State::WaitForSync => "waiting-for-sync",
            State::InProgress => "failover-in-progress",
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Who is to take over; the first replica that has all, if nobody is named.
    pub target: Option<Primary>,
    /// Until when it may take to catch up, Unix milliseconds.
    pub until_ms: Option<i64>,
    /// It takes over then even so.
    pub force: bool,
}

/// See the [module docs](self). One per server.
#[derive(Default)]
pub struct Failover {
    under_way: Mutex<(State, Request)>,
    /// It is not [`State::None`].
    is_on: AtomicBool,
}

impl Failover {
    /// How far it is.
    pub fn state(&self) -> State {
        if self.is_on.load(Ordering::Acquire) { lock(&self.under_way).0 } else { State::None }
    }

    /// Begins one; whether there was none.
    pub fn begin(&self, request: Request) -> bool {
        let mut under_way = lock(&self.under_way);
        if under_way.0 != State::None {
            return false;
        }
        *under_way = (State::WaitForSync, request);
        self.is_on.store(true, Ordering::Release);
        true
    }

    /// The target is asked from now on; `None` unless one catches up.
    fn proceed(&self, target: &Primary) -> bool {
        let mut under_way = lock(&self.under_way);
        if under_way.0 != State::WaitForSync {
            return false;
        }
        under_way.0 = State::InProgress;
        under_way.1.target = Some(target.clone());
        true
    }

    /// What has been asked for, if a replica catches up.
    fn awaited(&self) -> Option<Request> {
        let under_way = lock(&self.under_way);
        (under_way.0 == State::WaitForSync).then(|| under_way.1.clone())
    }

    /// Ends it, however; how far it was, and what was asked for.
    fn end(&self) -> (State, Request) {
        self.is_on.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.under_way))
    }
}

impl Shared {
    /// Ends a failover, however: writes go on. How far it was, and what was asked for.
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

    /// Looks whether a failover can go on, on the first thread: replicas have said how far they are, or time
    /// has passed.
    pub(crate) fn follow_failover(&mut self) {
        let shared = self.shared;
        if !shared.replication.failover.is_on.load(Ordering::Acquire) {
            return;
        }
        let Some(request) = shared.replication.failover.awaited() else { return };
        if request.until_ms.is_some_and(|until_ms| until_ms <= self.now_ms) {
            let Some(target) = request.target.filter(|_| request.force) else {
                return self.alone(|worker| worker.abort_failover("Replica never caught up before timeout"));
            };
            tracing::info!("FAILOVER to {}:{} time out exceeded, failing over.", target.host, target.port);
            return self.alone(|worker| worker.ask_to_take_over(&target));
        }
        // Commands that were under way when writes began to wait have ended once the gate is closed.
        self.alone(|worker| {
            if let Some(target) = worker.synced_target(&request) {
                tracing::info!("Failover target {}:{} is synced, failing over.", target.host, target.port);
                worker.ask_to_take_over(&target);
            }
        });
    }

    /// Asks a replica to take over.
    fn ask_to_take_over(&mut self, target: &Primary) {
        if self.shared.replication.failover.proceed(target) {
            self.follow_primary(Some(target.clone()));
        }
    }

    /// A replica that may take over and has all there is.
    fn synced_target(&self, request: &Request) -> Option<Primary> {
        let end = self.shared.replication_offset();
        let replicas = self.shared.replication.primary.replicas();
        let has_all = |replica: &&Arc<Replica>| {
            replica.phase() == Phase::Online && replica.acked.load(Ordering::Acquire) >= end
        };
        let is_wanted = |replica: &&Arc<Replica>| {
            request.target.as_ref().is_none_or(|target| replica.is_at(&target.host, target.port))
        };
        let found = replicas.iter().filter(is_wanted).find(has_all)?;
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

    /// A replica has said how far it is: a failover or a shutdown may go on.
    pub(crate) fn note_ack(&self) {
        let shared = self.shared;
        if shared.replication.failover.is_on.load(Ordering::Acquire) || shared.pending_shutdown.is_on() {
            let go_on = |worker: &mut Worker| {
                worker.follow_failover();
                worker.follow_shutdown();
            };
            shared.send(0, Mail::Run(Box::new(go_on)));
        }
    }
}
