//! One I/O thread's state: its connections, its view of the keys, its buffers. `dispatch` runs requests on
//! it.
//!
//! A worker touches its backend only between polls; during one it is the backend's sink and notes what to do.

mod access;
pub(crate) mod batch;
pub(crate) mod blocking;
mod busy;
pub mod call;
pub(crate) mod checks;
mod client_memory;
mod command_cache;
mod connections;
mod cron;
pub(crate) mod dispatch;
mod eviction;
pub mod hooks;
mod input;
mod mail;
mod monitor;
mod outbox;
mod output;
pub(crate) mod outside;
pub(crate) mod parsed;
mod prefetch;
pub(crate) mod route;
mod saving;
mod sink;
mod slot_use;
mod timers;
pub(crate) mod transaction;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use martlet_acl::Users;
use martlet_base::publish::Follower;
use martlet_base::random::Random;
use martlet_base::sync::Alone;
use martlet_command::Settings;
use martlet_engine::{Deletion, Deletions, Keys, Touch};
use martlet_journal::Position;
use martlet_net::{Backend, Token};
use martlet_persistence::EmptyFile;

use crate::cluster::node::ClusterNode;
use crate::cluster::routes::Routes;
use crate::cluster::usage::RequestUse;
use crate::commandlog::LogLimits;
use crate::config::{Config, ConfigReader};
use crate::connection::Connection;
use crate::migration::exchange::Answers;
use crate::migration::state::Migration;
use crate::pubsub::hub::HeldMessage;
use crate::scripting::compiled::Scripting;
use crate::scripting::loaded::Functions;
use crate::shared;
use crate::stats::ThreadStats;
use crate::waits::CopyWaiter;

use batch::Batch;
use busy::{BackendPlace, Postponed, ScriptClient};
use command_cache::CommandCache;
use connections::Connections;
use hooks::Hooks;
use outbox::{Action, Outbox};
use outside::Unanswered;
use parsed::{Announced, SpareRequests};
use timers::Timers;

/// The state that all threads share, with mail to workers.
pub type Shared = shared::Shared<Worker>;
/// Mail to workers.
pub type Mail = shared::Mail<Worker>;

/// Listener tags: TCP sockets, the unix socket, TCP sockets with TLS.
pub const TCP: u32 = 0;
/// See [`TCP`].
pub const UNIX: u32 = 1;
/// See [`TCP`].
pub const TLS: u32 = 2;

/// Where a thread stands with the gate.
enum GateState {
    Outside,
    Inside,
    /// A script is busy: the thread serves clients without having passed in. See [`busy`].
    Excluded,
}

/// Counters of a worker outside the I/O threads; they are in no total.
#[cold]
fn uncounted(shared: &Shared) -> &'static ThreadStats {
    Box::leak(Box::new(ThreadStats::new(shared.registry.entries().len())))
}

/// See the [module docs](self).
pub struct Worker {
    /// What all threads share.
    pub shared: &'static Shared,
    /// What subsystems do with it.
    pub hooks: &'static Hooks,
    /// This thread's number.
    pub thread: usize,
    /// This thread's counters.
    stats: &'static ThreadStats,
    /// This thread's view of the keys.
    pub keys: Keys,
    /// The configuration as of this loop.
    pub config: ConfigReader,
    /// The users as of this loop.
    pub users: Follower<Users>,
    /// What handlers need of it.
    pub settings: Arc<Settings>,
    /// Now, Unix milliseconds, as of this batch.
    pub now_ms: i64,
    /// A raw reading of the clock: when the command that runs now began.
    pub mark: u64,
    /// The wall clock, Unix microseconds, and the raw reading at the same instant, as of this loop's first
    /// work.
    anchor: (i64, u64),
    /// TIME's value in the running transaction or script, Unix microseconds.
    pub(crate) frozen_us: i64,
    /// When this turn of the loop began: a raw reading, once it did something.
    pub(crate) turn_began: Option<u64>,
    /// Limits of the command log.
    pub log_limits: LogLimits,
    /// Commands slower than this go to the latency monitor, in nanoseconds.
    pub latency_ns: u64,
    /// The lower of the limits on a command's time; 0 as well while HOTKEYS counts, or slots' use is counted.
    pub(crate) noted_ns: u64,
    /// Counters for slots, and the facts of the present request.
    pub(crate) slot_use: RequestUse,
    /// So much output may wait whatever the client's class.
    output_free_bytes: u64,
    /// Whether commands' times are kept as histograms.
    pub tracks_latency: bool,
    /// This thread's connections.
    pub(crate) connections: Connections,
    /// Pending socket operations.
    outbox: Outbox,
    /// When it has to do what.
    pub(crate) timers: Timers,
    /// Clients that WAIT or WAITAOF.
    pub(crate) copy_waiters: Vec<CopyWaiter>,
    /// Replicas' connections.
    pub(crate) replicas: Vec<Token>,
    /// The end of the journal when this thread last had others look at it for replicas.
    pub(crate) stream_seen: Position,
    /// Connections with input left to process.
    ready: VecDeque<Token>,
    /// Connections whose request is to run again: see [`Worker::postpone`].
    pub(crate) paused: Vec<Token>,
    /// Migrated keys whose deletion waits for CLIENT PAUSE to end.
    pub(crate) paused_migrations: Vec<(Box<Migration>, Answers)>,
    /// `None` while it is in use.
    batch: Option<Box<Batch>>,
    /// What the backend has announced, parsed.
    announced: Option<Box<Announced>>,
    spare_requests: SpareRequests,
    /// How often a request was parsed, whole or not.
    #[cfg(test)]
    parse_count: usize,
    command_cache: CommandCache,
    gate_state: GateState,
    /// Messages taken out of the mailbox that are not handled yet.
    mail: VecDeque<Mail>,
    /// The mailbox is to be read.
    pub(crate) has_mail: bool,
    /// The tracking client whose request runs; 0 if none does.
    pub(crate) origin: u64,
    /// Changed keys that are broadcast at the end of the loop, each with its `origin`, or 0 if that was not
    /// always the same.
    pub(crate) broadcasts: BTreeMap<Vec<u8>, u64>,
    /// What this thread has for scripts, once one has run; taken out while one does.
    pub(crate) scripting: Option<Box<Scripting>>,
    /// The same for functions.
    pub(crate) functions: Option<Box<Functions>>,
    /// Messages of the script that runs.
    pub(crate) held_messages: Option<Vec<HeldMessage>>,
    /// What the present request has left to be done outside the gate.
    pub(crate) unanswered: Vec<Unanswered>,
    /// The data set was emptied behind the gate: its file.
    pub(crate) empty_file: Option<EmptyFile>,
    /// A message published now waits in a mailbox that has too much.
    pub(crate) is_flooding: bool,
    /// Which node answers for which slot, as of this loop, if the server is one.
    pub(crate) routes: Option<Follower<Routes>>,
    /// The limit on memory, as this thread sees it.
    pub(crate) memory: eviction::Memory,
    backend: BackendPlace,
    /// The client whose script is busy.
    script_client: Option<Box<ScriptClient>>,
    /// Work that waits for the end of busy scripts.
    postponed: Postponed,
}

impl Worker {
    /// The worker of thread `thread`.
    pub fn new(shared: &'static Shared, thread: usize, hooks: &'static Hooks) -> Worker {
        let config = shared.config.reader();
        let mut worker = Worker {
            shared,
            hooks,
            thread,
            stats: shared.threads.get(thread).map_or_else(|| uncounted(shared), |stats| &**stats),
            keys: Keys::new(shared.engine, thread, Random::from_entropy()),
            settings: Arc::default(),
            users: shared.access.follow(),
            config,
            now_ms: shared.clock.unix_ms(),
            mark: shared.clock.raw(),
            anchor: (0, 0),
            frozen_us: 0,
            turn_began: None,
            log_limits: LogLimits::NONE,
            latency_ns: u64::MAX,
            noted_ns: u64::MAX,
            slot_use: RequestUse::default(),
            output_free_bytes: 0,
            tracks_latency: true,
            connections: Connections::default(),
            outbox: Outbox::default(),
            timers: Timers::default(),
            copy_waiters: Vec::new(),
            replicas: Vec::new(),
            stream_seen: 0,
            ready: VecDeque::new(),
            paused: Vec::new(),
            paused_migrations: Vec::new(),
            batch: None,
            announced: None,
            spare_requests: SpareRequests::default(),
            #[cfg(test)]
            parse_count: 0,
            command_cache: CommandCache::default(),
            gate_state: GateState::Outside,
            mail: VecDeque::new(),
            has_mail: false,
            origin: 0,
            broadcasts: BTreeMap::new(),
            scripting: None,
            functions: None,
            held_messages: None,
            unanswered: Vec::new(),
            empty_file: None,
            is_flooding: false,
            routes: shared.cluster().map(ClusterNode::follow),
            memory: eviction::Memory::new(),
            backend: BackendPlace::None,
            script_client: None,
            postponed: Postponed::default(),
        };
        worker.apply_config();
        worker
    }

    /// This thread's counters.
    #[inline]
    pub fn stats(&self) -> &'static ThreadStats {
        self.stats
    }

    /// The configuration as of this loop.
    #[inline]
    pub fn config(&self) -> &Arc<Config> {
        self.config.current()
    }

    /// Takes up a changed configuration.
    pub fn apply_config(&mut self) {
        let config = self.config.current().clone();
        self.settings = Arc::new(crate::settings::from_config(&config));
        self.log_limits = LogLimits::of(&config);
        self.latency_ns = match config.latency_monitor_threshold_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.slot_use.configure(&config);
        self.reset_noted_time();
        self.tracks_latency = config.latency_tracking;
        let limits = config.client_output_buffer_limits.iter().flat_map(|of| [of.soft_bytes, of.hard_bytes]);
        self.output_free_bytes = limits.filter(|bytes| *bytes > 0).min().unwrap_or(u64::MAX);
        self.memory.configure(&config);
        self.shared.storage().note_disk_state();
        (self.hooks.configured)(self);
        self.keys.effects.wanted_events = crate::settings::wanted_events(&config);
        self.keys.effects.deletions = Deletions {
            expiry: Deletion::new(config.lazyfree_lazy_expire),
            eviction: Deletion::new(config.lazyfree_lazy_eviction),
            removal: Deletion::new(config.lazyfree_lazy_server_del),
        };
        self.keys.set_view(self.view_at_rest());
        self.refresh_time();
    }

    /// Records commands from the configured time on, and no others, unless all are counted for their slots.
    pub(crate) fn reset_noted_time(&mut self) {
        self.noted_ns = match self.slot_use.is_counted() {
            true => 0,
            false => self.latency_ns.min(self.log_limits.slow_ns),
        };
    }

    /// Takes up the newest configuration and users, if they changed.
    #[inline]
    pub fn follow_config(&mut self) {
        if self.config.refresh() {
            self.apply_config();
        }
        self.shared.access.refresh(&mut self.users);
        self.refresh_routes();
    }

    /// Reads the clocks.
    pub fn refresh_time(&mut self) {
        let now_us = self.shared.clock.unix_us();
        self.now_ms = now_us / 1_000;
        self.mark = self.shared.clock.raw();
        self.anchor = (now_us, self.mark);
        self.keys.set_time(self.now_ms);
        self.keys.touch = self.touch_policy();
    }

    /// Sets the time to the end of the last command, without reading a clock.
    #[inline]
    pub(crate) fn advance_time(&mut self) {
        self.now_ms = self.marked_us() / 1_000;
        self.keys.set_time(self.now_ms);
    }

    /// When the last command ended, Unix microseconds, without reading a clock.
    fn marked_us(&self) -> i64 {
        let (wall_us, raw) = self.anchor;
        wall_us + (self.shared.clock.elapsed_ns(raw, self.mark) / 1_000) as i64
    }

    /// Lets the time stand still for a transaction or a script that begins: TIME and expiry go by it.
    pub(crate) fn freeze_time(&mut self) {
        self.frozen_us = self.marked_us();
        self.now_ms = self.frozen_us / 1_000;
        self.keys.set_time(self.now_ms);
    }

    /// How accesses to keys are noted under the configured policy.
    pub fn touch_policy(&self) -> Touch {
        crate::settings::touch(self.config.current(), self.now_ms, self.shared.engine)
    }

    /// Passes the gate, if this loop has not yet. If it stays closed because of a busy script, the thread is
    /// excluded from everything behind it instead.
    #[inline]
    pub fn enter(&mut self) {
        if let GateState::Outside = self.gate_state {
            // Nothing of this turn has begun.
            if self.turn_began.is_none() && self.shared.replication.replica.calls_all() {
                return (self.hooks.apply_together)(self);
            }
            let engine = self.shared.engine;
            self.gate_state = match engine.gate.enter_unless(self.thread, || engine.has_busy_script()) {
                true => GateState::Inside,
                false => self.exclude_from_gate(),
            };
            self.stats().begin();
            self.timers.has_worked = true;
            self.refresh_time();
            self.turn_began.get_or_insert(self.mark);
            self.keys.effects.recording = self.shared.engine.journal.is_on();
            // What arrives after a CONFIG SET was answered, on whichever thread, runs under the new
            // configuration.
            self.follow_config();
        }
    }

    /// Passes out of the gate.
    #[inline]
    pub fn leave(&mut self) {
        match self.gate_state {
            GateState::Outside => return,
            GateState::Inside => self.shared.engine.gate.leave(self.thread),
            GateState::Excluded => self.return_to_gate(),
        }
        self.stats().rest();
        self.gate_state = GateState::Outside;
    }

    /// Runs `work` alone: behind the closed gate, with all shards held. While a busy script is waited for,
    /// the thread's clients are served as far as may be.
    pub fn alone<R>(&mut self, work: impl FnOnce(&mut Worker) -> R) -> R {
        let mut work = work;
        loop {
            match self.try_alone(work) {
                Ok(result) => return result,
                Err(undone) => work = undone,
            }
            if !self.wait_for_script() {
                break;
            }
        }
        self.leave();
        self.stats().begin();
        let result = self.shared.engine.gate.closed(|alone| self.run_alone(alone, work));
        self.enter_after_closing();
        result
    }

    /// Passes in after the gate was closed by this thread, and does before what had to wait until it is open.
    fn enter_after_closing(&mut self) {
        let file = self.empty_file.take();
        self.write_empty_file(file);
        self.enter();
    }

    /// As [`Worker::alone`], unless it would have to wait for a busy script.
    ///
    /// # Errors
    /// The work, which has not been done.
    pub fn try_alone<R, W: FnOnce(&mut Worker) -> R>(&mut self, work: W) -> Result<R, W> {
        self.leave();
        self.stats().begin();
        let engine = self.shared.engine;
        let mut work = Some(work);
        let result = engine.gate.closed_unless(
            || engine.has_busy_script(),
            |alone| work.take().map(|work| self.run_alone(alone, work)),
        );
        self.enter_after_closing();
        match work {
            Some(undone) => Err(undone),
            None => Ok(result.flatten().expect("what was taken has been done")),
        }
    }

    fn run_alone<R>(&mut self, alone: &Alone, work: impl FnOnce(&mut Worker) -> R) -> R {
        self.keys.lock_all_shards(alone);
        // It may have been switched on or off while this thread waited.
        self.keys.effects.recording = self.shared.engine.journal.is_on();
        self.refresh_routes();
        let result = work(self);
        if std::mem::take(&mut self.keys.flushed_all) {
            self.begin_saving_nothing();
        }
        self.release_keys();
        result
    }

    /// As [`Worker::alone`] for a client's request. If the server has ended or become a replica while this
    /// thread waited, it is not run, and the client not answered: what ran now would be missing from the file
    /// that was saved last, or from the primary. False, and nothing is run, if it would have to wait for a
    /// busy script.
    #[must_use]
    pub(crate) fn alone_for(
        &mut self,
        connection: &mut Connection,
        work: impl FnOnce(&mut Worker, &mut Connection),
    ) -> bool {
        let shared = self.shared;
        let role = shared.replication.replica.generation();
        let outcome = self.try_alone(|worker| {
            let is_demoted = shared.replication.replica.generation() != role && shared.is_replica();
            if is_demoted || shared.stopping.load(std::sync::atomic::Ordering::Relaxed) {
                connection.closing = true;
            } else {
                work(worker, connection);
            }
        });
        let is_done = outcome.is_ok();
        // Its user may have changed before the gate was closed.
        self.follow_user(connection);
        is_done
    }

    /// The connection at `token`, taken out to be worked on; it is put back by [`Worker::put`].
    pub(crate) fn take(&mut self, token: Token) -> Option<Box<Connection>> {
        self.connections.take(token)
    }

    /// See [`Worker::take`].
    pub(crate) fn put(&mut self, connection: Box<Connection>) {
        self.connections.put(connection);
    }

    /// How long the next poll may sleep.
    fn sleep(&self) -> Duration {
        let has_work = !self.ready.is_empty() || self.outbox.has_work() || self.has_mail;
        if has_work || self.memory.is_unfinished { Duration::ZERO } else { self.timers.sleep() }
    }

    /// The thread's loop, until the server stops.
    ///
    /// # Errors
    /// When the backend breaks.
    pub fn run_loop(&mut self, backend: Box<dyn Backend + Send>) -> std::io::Result<()> {
        self.backend = BackendPlace::AtHand(backend);
        martlet_base::thread::minimise_timer_slack();
        self.stats().kernel_id.store(crate::process::this_thread(), std::sync::atomic::Ordering::Relaxed);
        while !self.shared.stopping.load(std::sync::atomic::Ordering::Relaxed) {
            let timeout = self.sleep();
            self.leave();
            let commands = self.stats().total_commands.get();
            self.turn_began = None;
            self.with_backend(|worker, backend| backend.poll(Some(timeout), worker)).transpose()?;
            let began = self.turn_began.unwrap_or_else(|| self.shared.clock.raw());
            self.follow_config();
            if self.shared.replication.replica.calls_all() {
                (self.hooks.apply_together)(self);
            }
            self.read_mail();
            self.process_ready();
            self.do_postponed();
            self.tick();
            if self.memory.is_unfinished {
                self.enter();
                if !self.is_excluded() {
                    self.make_room();
                }
            }
            self.limit_clients();
            if !self.copy_waiters.is_empty() {
                self.serve_copy_waiters();
            }
            if !self.broadcasts.is_empty() {
                // Before the replies to the changing requests: a client that has such a reply finds the
                // notice.
                (self.hooks.turn_ended)(self);
                self.read_mail();
            }
            self.with_backend(Worker::send_all);
            let clock = &self.shared.clock;
            let (ns, stats) = (clock.elapsed_ns(began, clock.raw()), self.stats());
            // CONFIG RESETSTAT may have been among them.
            stats.record_loop(ns, stats.total_commands.get().saturating_sub(commands));
        }
        self.leave();
        // The last output (SHUTDOWN's error replies, say) still leaves.
        let result = self.with_backend(|worker, backend| {
            worker.flush(backend);
            backend.poll(Some(Duration::ZERO), worker)
        });
        // Input that came with it made the thread pass in: a thread that closes the gate now must not wait
        // for it.
        self.leave();
        result.unwrap_or(Ok(()))
    }

    fn send_all(&mut self, backend: &mut dyn Backend) {
        self.act(backend);
        self.flush(backend);
        if self.shared.replication.primary.is_active.load(std::sync::atomic::Ordering::Relaxed) {
            (self.hooks.feed_replicas)(self, backend);
        }
        self.act(backend);
    }

    /// Carries out the operations recorded for the backend.
    fn act(&mut self, backend: &mut dyn Backend) {
        for action in std::mem::take(&mut self.outbox.actions) {
            match action {
                Action::Adopt(socket, token) => self.adopted(token, backend.adopt(socket, token)),
                Action::AdoptTls(socket, token, config) => {
                    self.adopted(token, backend.adopt_tls(socket, token, &config));
                }
                Action::Close(token) => backend.close(token),
                Action::Pause(token) => backend.pause(token),
                Action::Resume(token) => backend.resume(token),
                Action::Listen(socket, tag) => {
                    if let Err(error) = backend.listen(socket, tag) {
                        tracing::warn!("Cannot accept connections: {error}");
                    }
                }
                Action::Unlisten(tag) => backend.unlisten(tag),
            }
        }
    }

    fn adopted(&mut self, token: Token, result: std::io::Result<()>) {
        if let Err(error) = result {
            tracing::warn!("Error registering fd event for the new client: {error}");
            self.forget(token);
        }
    }

    /// Accepts from this socket from now on.
    pub fn listen(&mut self, socket: OwnedFd, tag: u32) {
        self.outbox.actions.push(Action::Listen(socket, tag));
    }

    /// Closes all listeners of this tag.
    pub fn unlisten(&mut self, tag: u32) {
        self.outbox.actions.push(Action::Unlisten(tag));
    }
}
