//! One I/O thread's state: its connections, its view of the keys, its buffers. `dispatch` runs requests on
//! it.
//!
//! A worker touches its backend only between polls; during one it is the backend's sink and notes what to do.

mod access;
pub(crate) mod blocking;
mod busy;
pub mod call;
pub(crate) mod checks;
mod client_memory;
mod command_cache;
pub(crate) mod compatibility;
mod connections;
mod cron;
pub(crate) mod demands;
pub(crate) mod dispatch;
mod eviction;
mod feeder;
pub mod hooks;
mod input;
mod intake;
mod mail;
mod meter;
mod monitor;
mod outbox;
mod output;
pub(crate) mod outside;
mod parsed;
mod prefetch;
mod pushes;
mod relocation;
pub(crate) mod request_flags;
pub(crate) mod route;
mod saving;
mod scripts;
mod sink;
mod slot_use;
mod timers;
pub(crate) mod transaction;
mod turn_clock;
mod wait_list;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use martlet_acl::Users;
use martlet_base::publish::Follower;
use martlet_base::random::Random;
use martlet_base::sync::Alone;
use martlet_command::{Presentation, Settings};
use martlet_engine::{Deletion, Deletions, Expired, Keys, Touch, View};
use martlet_net::{Backend, Token};

use crate::cluster::node::ClusterNode;
use crate::cluster::routes::Routes;
use crate::config::{Config, ConfigReader};
use crate::connection::Connection;
use crate::shared;
use crate::stats::ThreadStats;

use busy::{BackendPlace, Postponed, ScriptClient};
use connections::Connections;
use feeder::ReplicaFeeder;
use hooks::Hooks;
use intake::Intake;
use mail::Inbox;
use meter::CostMeter;
use outbox::{Action, Outbox};
use outside::LeftOutside;
use pushes::PushState;
use relocation::Relocation;
use scripts::ScriptRuntime;
use timers::Timers;
use turn_clock::TurnClock;
use wait_list::WaitList;

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
    pub(crate) shared: &'static Shared,
    /// The subsystems' functions.
    pub(crate) hooks: &'static Hooks,
    /// This thread's number.
    pub(crate) thread: usize,
    /// This thread's counters.
    stats: &'static ThreadStats,
    /// This thread's view of the keys.
    pub(crate) keys: Keys,
    /// How keys are seen at this time by all that is no client's command; a command's view is made from it.
    pub(crate) base_view: View,
    /// The configuration as of this loop.
    pub(crate) config: ConfigReader,
    /// The users as of this loop.
    pub(crate) users: Follower<Users>,
    /// What handlers need of it.
    pub(crate) settings: Arc<Settings>,
    /// Now, Unix milliseconds, as of this batch.
    pub(crate) now_ms: i64,
    /// A raw reading of the clock: when the command that runs now began.
    pub(crate) mark: u64,
    /// The clocks of this turn.
    pub(crate) turn: TurnClock,
    /// The measure of commands' costs.
    pub(crate) meter: CostMeter,
    /// So much output may wait whatever the client's class.
    output_free_bytes: u64,
    /// This thread's connections.
    pub(crate) connections: Connections,
    /// Pending socket operations.
    outbox: Outbox,
    /// When it has to do what.
    pub(crate) timers: Timers,
    /// Clients that wait, but for those in keys' queues.
    pub(crate) waits: WaitList,
    /// Replicas' connections.
    pub(crate) feeder: ReplicaFeeder,
    /// Connections with input left to process.
    ready: VecDeque<Token>,
    /// Buffers and caches of parsing.
    intake: Intake,
    gate_state: GateState,
    /// Mail that is not handled yet.
    pub(crate) inbox: Inbox,
    /// State of pushes to clients.
    pub(crate) pushes: PushState,
    /// Connections that leave for other threads.
    relocation: Relocation,
    /// Interpreters, and a script's messages.
    pub(crate) scripts: ScriptRuntime,
    /// Work for outside the gate.
    pub(crate) left: LeftOutside,
    /// Which node answers for which slot, as of this loop, if the server is one.
    pub(crate) routes: Option<Follower<Routes>>,
    /// The limit on memory, as this thread sees it.
    pub(crate) memory: eviction::Memory,
    backend: BackendPlace,
    /// Why the backend is broken, once it is.
    backend_failure: Option<std::io::Error>,
    /// The client whose script is busy.
    script_client: Option<Box<ScriptClient>>,
    /// Work that waits for the end of busy scripts.
    postponed: Postponed,
}

impl AsMut<Keys> for Worker {
    fn as_mut(&mut self) -> &mut Keys {
        &mut self.keys
    }
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
            base_view: View::default(),
            settings: Arc::default(),
            users: shared.access.follow(),
            config,
            now_ms: shared.clock.unix_ms(),
            mark: shared.clock.raw(),
            turn: TurnClock::default(),
            meter: CostMeter::new(),
            output_free_bytes: 0,
            connections: Connections::default(),
            outbox: Outbox::default(),
            timers: Timers::default(),
            waits: WaitList::default(),
            feeder: ReplicaFeeder::default(),
            ready: VecDeque::new(),
            intake: Intake::default(),
            gate_state: GateState::Outside,
            inbox: Inbox::default(),
            pushes: PushState::default(),
            relocation: Relocation::default(),
            scripts: ScriptRuntime::default(),
            left: LeftOutside::default(),
            routes: shared.cluster().map(ClusterNode::follow),
            memory: eviction::Memory::new(),
            backend: BackendPlace::None,
            backend_failure: None,
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

    /// The product that the server presents itself as.
    #[inline]
    pub fn presentation(&self) -> Presentation {
        self.settings.presentation
    }

    /// Takes up a changed configuration.
    pub fn apply_config(&mut self) {
        let config = self.config.current().clone();
        self.settings = Arc::new(crate::settings::from_config(&config));
        self.meter.configure(&config);
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
            past_times_expire: self.presentation().is_valkey(),
        };
        let (is_replica, imports) = (config.replicaof.0.is_some(), config.import_mode);
        self.base_view.expired = if is_replica || imports { Expired::Keep } else { Expired::Hide };
        self.base_view.sets_past_times = imports && !is_replica;
        self.refresh_time();
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
        self.turn.set_anchor((now_us, self.mark));
        self.base_view.now_ms = self.now_ms;
        self.base_view.touch = self.touch_policy();
    }

    /// Sets the time to the end of the last command, without reading a clock.
    #[inline]
    pub(crate) fn advance_time(&mut self) {
        self.now_ms = self.marked_us() / 1_000;
        self.base_view.now_ms = self.now_ms;
    }

    /// When the last command ended, Unix microseconds, without reading a clock.
    fn marked_us(&self) -> i64 {
        self.turn.us_at(&self.shared.clock, self.mark)
    }

    /// Lets the time stand still for a transaction or a script that begins: TIME and expiry go by it. Returns
    /// the view in which it runs.
    #[must_use]
    pub(crate) fn freeze_time(&mut self) -> View {
        let now_us = self.marked_us();
        self.turn.freeze_at(now_us);
        self.now_ms = now_us / 1_000;
        self.base_view.now_ms = self.now_ms;
        View { now_ms: self.now_ms, ..self.keys.view() }
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
            if self.turn.began().is_none() && self.shared.replication.replica.calls_all() {
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
            self.turn.begin(self.mark);
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
        let file = self.left.take_empty_file();
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
        let has_work = !self.ready.is_empty() || self.outbox.has_work() || self.inbox.is_due();
        if has_work || self.memory.is_unfinished { Duration::ZERO } else { self.timers.sleep() }
    }

    /// The thread's loop, until the server stops.
    ///
    /// # Errors
    /// When the backend breaks.
    pub fn run_loop(&mut self, backend: Box<dyn Backend + Send>) -> std::io::Result<()> {
        self.backend = BackendPlace::AtHand(backend);
        martlet_base::thread::minimise_timer_slack();
        self.shared.scaling.begin_thread(self.thread);
        self.stats().kernel_id.store(crate::process::this_thread(), std::sync::atomic::Ordering::Relaxed);
        while !self.shared.stopping.load(std::sync::atomic::Ordering::Relaxed) {
            let timeout = self.sleep();
            self.leave();
            let commands = self.stats().total_commands.get();
            self.turn.end();
            self.with_backend(|worker, backend| backend.poll(Some(timeout), worker)).transpose()?;
            let began = self.turn.began().unwrap_or_else(|| self.shared.clock.raw());
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
            if self.waits.awaits_copies() {
                self.serve_copy_waiters();
            }
            if self.pushes.has_broadcasts() {
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
        match self.backend_failure.take() {
            Some(failure) => Err(failure),
            None => result.unwrap_or(Ok(())),
        }
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
                Action::Release(token) => backend.release(token),
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
