//! What all I/O threads share: the engine, the configuration, the client list, mailboxes, and the rarer
//! state.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};

use crossbeam_utils::CachePadded;
use martlet_base::clock::Clock;
use martlet_base::sync::lock;
use martlet_engine::{Engine, Waiter};
use martlet_journal::Position;
use martlet_net::{Token, Waker};

use crate::access::AccessControl;
use crate::clients::{ClientInfo, Clients, Disconnects};
use crate::cluster::node::ClusterNode;
use crate::commandlog::CommandLog;
use crate::computations::{self, Computations};
use crate::config::ConfigStore;
use crate::connection::Connection;
use crate::hotkeys::HotKeys;
use crate::logging::Log;
use crate::migration::state::Migrations;
use crate::persistence::settings::LastSettings;
use crate::pubsub::hub::{Delivery, Hub};
use crate::registry::{Entry, Registry};
use crate::replication::offset;
use crate::replication::state::Replication;
use crate::replication::state::random_id;
use crate::scripting::cache::ScriptCache;
use crate::scripting::libraries::Libraries;
use crate::search::cursors::Cursors;
use crate::shutdown::pending::PendingShutdown;
use crate::slots::Slots;
use crate::slow_path::{SlowPathReason, SlowPathReasons};
use crate::stats::{ServerStats, ThreadStats};
use crate::thread_scaling::ThreadScaling;
use crate::tracking::table::{Notice, Tracking};
use crate::waits::WaitEnd;
use martlet_indexes::Catalogue;
use martlet_persistence::{NUMBERS_PER_THREAD, Persistence};
use martlet_protocol::request::Args;

/// A message from one thread to another.
pub enum Mail<W> {
    /// Take over this accepted socket.
    Adopt {
        /// The socket.
        socket: OwnedFd,
        /// The listener that it came from.
        listener: u32,
    },
    /// Take over this connection, which its thread has given up, and its socket.
    Move {
        /// The connection.
        connection: Box<Connection>,
        /// The socket.
        socket: OwnedFd,
    },
    /// Show a command to a client that monitors, unless it wants no replies.
    Monitored {
        /// The client's connection.
        token: Token,
        /// Its id, to be sure.
        client: u64,
        /// The line, as it is sent.
        line: Vec<u8>,
    },
    /// Close a client's connection.
    Kill {
        /// The connection.
        token: Token,
        /// Its client's id.
        client: u64,
    },
    /// A blocked client has been served: this is its reply.
    Served {
        /// Its waiter.
        waiter: Arc<Waiter>,
        /// The reply.
        reply: Vec<u8>,
        /// How long its request ran, in nanoseconds.
        ns: u64,
    },
    /// End a blocked client's wait without service.
    Unblock {
        /// Its waiter, which has been cancelled, or claimed and ended.
        waiter: Arc<Waiter>,
        /// How it ends.
        end: WaitEnd,
    },
    /// A blocked client's request is to be run again at a time.
    RunAgain {
        /// Its waiter.
        waiter: Arc<Waiter>,
        /// Unix milliseconds.
        at_ms: i64,
    },
    /// A notice for a client that caches keys.
    Notice {
        /// The connection.
        token: Token,
        /// Its client's id.
        client: u64,
        /// The notice.
        notice: Notice,
    },
    /// A message for subscribers.
    Message(Delivery),
    /// CLIENT PAUSE has ended, or the listeners have changed: look again.
    Recheck,
    /// Run this on the thread's worker (configuration changes that concern sockets).
    Run(Box<dyn FnOnce(&mut W) + Send>),
}

/// A thread makes publishers wait while the messages in its mailbox cost it more than this to deliver: about
/// as much time as a slice has.
const FLOOD_BYTES: usize = 2 * 1024 * 1024;

struct Mailbox<W> {
    mails: Mutex<Vec<Mail<W>>>,
    /// Messages that have been taken out.
    received: AtomicU64,
    /// There is mail: the owner checks this before it takes more input.
    waits: AtomicBool,
    /// Cost of delivering its unread messages; see [`Delivery::cost_bytes`].
    undelivered_bytes: AtomicUsize,
    waker: OnceLock<Waker>,
    /// The thread wants to be woken when the disk, or replicas, have come further.
    waits_for_copies: AtomicBool,
    /// It wants to be woken when there is more for replicas.
    waits_for_stream: AtomicBool,
}

impl<W> Default for Mailbox<W> {
    fn default() -> Mailbox<W> {
        Mailbox {
            mails: Mutex::default(),
            received: AtomicU64::new(0),
            waits: AtomicBool::default(),
            undelivered_bytes: AtomicUsize::default(),
            waker: OnceLock::new(),
            waits_for_copies: AtomicBool::default(),
            waits_for_stream: AtomicBool::default(),
        }
    }
}

/// CLIENT PAUSE.
#[derive(Debug, Default)]
pub struct Pause {
    /// Until when, Unix milliseconds; 0 for not paused.
    pub until_ms: AtomicI64,
    /// All commands, not only those that write.
    pub all: AtomicBool,
    /// Held during its begin and end. Readers take the present value.
    change: Mutex<()>,
}

impl Pause {
    /// See [`Shared::begin_pause`]. It is held as a reason until it has been ended.
    fn begin(&self, reasons: &SlowPathReasons, until_ms: i64, all: bool, now_ms: i64) {
        let _changing = lock(&self.change);
        let under_way = self.until_ms.load(Ordering::Acquire);
        if under_way > now_ms {
            if all {
                self.all.store(true, Ordering::Release);
            }
            self.until_ms.store(until_ms.max(under_way), Ordering::Release);
            return;
        }
        self.all.store(all, Ordering::Release);
        self.until_ms.store(until_ms, Ordering::Release);
        if under_way == 0 {
            reasons.hold(SlowPathReason::Paused);
        }
    }

    /// Whether it has not been ended. An end that this does not see finds whatever was stored before the
    /// call.
    fn is_on(&self) -> bool {
        let _changing = lock(&self.change);
        self.until_ms.load(Ordering::Acquire) != 0
    }

    /// See [`Shared::end_pause`]; whether there was anything to end.
    fn end(&self, reasons: &SlowPathReasons, due_ms: Option<i64>) -> bool {
        let _changing = lock(&self.change);
        let until_ms = self.until_ms.load(Ordering::Acquire);
        if until_ms == 0 || due_ms.is_some_and(|due_ms| until_ms > due_ms) {
            return false;
        }
        self.until_ms.store(0, Ordering::Release);
        reasons.release(SlowPathReason::Paused);
        true
    }
}

/// See the [module docs](self). One per process, never freed.
pub struct Shared<W> {
    /// The keyspace.
    pub engine: &'static Engine,
    /// The command table.
    pub registry: &'static Registry,
    /// The configuration.
    pub config: Arc<ConfigStore>,
    /// Time.
    pub clock: Clock,
    /// Connected clients.
    pub clients: Clients,
    /// Users and their rights.
    pub access: AccessControl,
    /// How many threads serve clients.
    pub scaling: ThreadScaling,
    /// Counters of the I/O threads.
    pub threads: Box<[CachePadded<ThreadStats>]>,
    /// Counters of the whole server.
    pub stats: ServerStats,
    /// Commands that took long or were large.
    pub command_log: CommandLog,
    /// Which keys cost most.
    pub hotkeys: HotKeys,
    /// Latency events.
    pub latency: crate::latency::LatencyMonitor,
    /// Subscriptions.
    pub hub: Hub,
    /// Clients that cache keys.
    pub tracking: Tracking,
    /// MIGRATE.
    pub migrations: Migrations,
    /// Scripts.
    pub scripts: ScriptCache,
    /// Libraries of functions.
    pub libraries: Libraries,
    /// Locked by the thread that chooses clients to disconnect for `maxmemory-clients`.
    pub client_eviction: Mutex<()>,
    /// Clients that MONITOR: thread, connection, id.
    pub monitors: Mutex<Vec<(usize, Token, u64)>>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Failovers and shutdowns that writes wait for.
    write_holds: AtomicUsize,
    /// A shutdown that waits for replicas.
    pub pending_shutdown: PendingShutdown,
    /// Periodic work and signals wait (DEBUG PAUSE-CRON).
    pub is_cron_paused: AtomicBool,
    /// Blocked clients.
    pub blocked_clients: AtomicU64,
    /// Threads that compute replies for some of them.
    pub computations: Computations,
    /// The indexes over the keys.
    pub indexes: &'static Catalogue,
    /// Aggregations that clients read on with FT.CURSOR.
    pub cursors: Arc<Cursors>,
    /// Raised for the end: threads leave their loops.
    pub stopping: AtomicBool,
    /// Copies of the listening sockets, with their tags: none accepts once the server ends.
    listening: Mutex<Vec<(u32, OwnedFd)>>,
    /// A signal has asked for the end, and that has not failed.
    pub is_asked_to_stop: AtomicBool,
    /// What requires checks of every request.
    pub slow_path_reasons: SlowPathReasons,
    /// 40 hexadecimal digits, drawn at each start.
    pub run_id: String,
    /// Start, Unix milliseconds.
    pub started_ms: i64,
    /// Primaries and replicas.
    pub replication: Replication,
    /// State of subsystems whose types are above this one.
    pub slots: Slots,
    /// See [`Shared::cluster`].
    pub(crate) cluster: OnceLock<ClusterNode>,
    /// Bytes in use when the server was ready.
    pub memory_at_start: AtomicU64,
    /// The configuration file, absolute, if there is one.
    pub config_file: Option<std::path::PathBuf>,
    /// Where lines are logged.
    pub log: OnceLock<Arc<Log>>,
    /// The kernel's score of the process, which depends on its role.
    pub(crate) oom_score: OnceLock<Arc<martlet_process::OomScore>>,
    /// Name of the I/O backend.
    pub backend: OnceLock<&'static str>,
    /// What supervises the process.
    pub supervisor: OnceLock<&'static str>,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: AtomicBool,
    /// Listening sockets' TCP port, as it is now.
    pub port: AtomicU32,
    /// What TLS connections are made with.
    pub tls: crate::tls::Tls,
    /// The data set on disk.
    pub persistence: Persistence,
    pub(crate) last_settings: LastSettings,
    mailboxes: Box<[CachePadded<Mailbox<W>>]>,
}

impl<W> Shared<W> {
    /// The shared state of `threads` I/O threads.
    ///
    /// # Errors
    /// When the operating system refuses a background thread.
    pub fn new(
        config: Arc<ConfigStore>,
        registry: &'static Registry,
        threads: usize,
        config_file: Option<std::path::PathBuf>,
    ) -> std::io::Result<Shared<W>> {
        let clock = Clock::real();
        let presentation = crate::settings::presentation(&config.snapshot());
        let engine: &'static Engine =
            Box::leak(Box::new(Engine::new(threads * NUMBERS_PER_THREAD + computations::threads())?));
        let indexes: &'static Catalogue =
            Box::leak(Box::new(Catalogue::new(engine, threads.next_power_of_two())));
        engine.set_follower(indexes);
        let mut random = martlet_base::random::Random::from_entropy();
        let run_id = random_id(&mut random);
        let replication = Replication::new(&mut random);
        let commands = registry.entries().len();
        Ok(Shared {
            engine,
            registry,
            access: AccessControl::new(registry, &config.snapshot()),
            scaling: ThreadScaling::new(threads, config.snapshot().active_threads),
            config,
            clients: Clients::new(threads),
            threads: (0..threads).map(|_| CachePadded::new(ThreadStats::new(commands))).collect(),
            stats: ServerStats::default(),
            command_log: CommandLog::default(),
            hotkeys: HotKeys::new(threads, &mut random),
            latency: crate::latency::LatencyMonitor::default(),
            hub: Hub::default(),
            tracking: Tracking::default(),
            migrations: Migrations::default(),
            scripts: ScriptCache::new(threads),
            libraries: Libraries::new(clock.clone(), presentation),
            client_eviction: Mutex::default(),
            monitors: Mutex::default(),
            pause: Pause::default(),
            write_holds: AtomicUsize::new(0),
            pending_shutdown: PendingShutdown::default(),
            is_cron_paused: AtomicBool::new(false),
            blocked_clients: AtomicU64::new(0),
            cursors: Arc::default(),
            computations: Computations::new(engine, threads * NUMBERS_PER_THREAD),
            indexes,
            stopping: AtomicBool::new(false),
            listening: Mutex::default(),
            is_asked_to_stop: AtomicBool::new(false),
            slow_path_reasons: SlowPathReasons::default(),
            run_id,
            replication,
            slots: Slots::default(),
            cluster: OnceLock::new(),
            memory_at_start: AtomicU64::new(0),
            started_ms: clock.unix_ms(),
            config_file,
            log: OnceLock::new(),
            oom_score: OnceLock::new(),
            backend: OnceLock::new(),
            supervisor: OnceLock::new(),
            active_expire: AtomicBool::new(true),
            port: AtomicU32::new(0),
            tls: crate::tls::Tls::default(),
            persistence: Persistence::new(clock.clone(), threads),
            last_settings: LastSettings::default(),
            mailboxes: (0..threads).map(|_| CachePadded::default()).collect(),
            clock,
        })
    }

    /// Number of I/O threads.
    pub fn thread_count(&self) -> usize {
        self.mailboxes.len()
    }

    /// Says how to wake a thread.
    pub fn set_waker(&self, thread: usize, waker: Waker) {
        // A thread sets its waker once, before anyone sends to it.
        let _ = self.mailboxes[thread].waker.set(waker);
    }

    /// Sends to a thread and wakes it.
    pub fn send(&self, thread: usize, mail: Mail<W>) {
        self.leave(thread, mail);
        if let Some(waker) = self.mailboxes[thread].waker.get() {
            waker.wake();
        }
    }

    /// Sends to a thread without waking it: the thread itself does, which reads its mail before it sleeps.
    pub fn leave(&self, thread: usize, mail: Mail<W>) {
        let mailbox = &self.mailboxes[thread];
        if let Mail::Message(delivery) = &mail {
            mailbox.undelivered_bytes.fetch_add(delivery.cost_bytes(), Ordering::Relaxed);
        }
        let mut mails = lock(&mailbox.mails);
        mails.push(mail);
        mailbox.waits.store(true, Ordering::Release);
    }

    /// Sends a client to a thread, before all mail of those who find it there.
    pub fn send_client(&self, thread: usize, client: &ClientInfo, mail: Mail<W>) {
        let mailbox = &self.mailboxes[thread];
        let mut mails = lock(&mailbox.mails);
        client.leave_for(thread);
        mails.push(mail);
        mailbox.waits.store(true, Ordering::Release);
        drop(mails);
        if let Some(waker) = mailbox.waker.get() {
            waker.wake();
        }
    }

    /// Messages between threads so far.
    pub fn message_count(&self) -> u64 {
        self.mailboxes.iter().map(|mailbox| mailbox.received.load(Ordering::Relaxed)).sum()
    }

    /// Whether a thread has mail.
    #[inline]
    pub fn has_mail(&self, thread: usize) -> bool {
        self.mailboxes[thread].waits.load(Ordering::Acquire)
    }

    /// Whether so many messages wait for a thread that publishers should wait.
    pub fn is_flooded(&self, thread: usize) -> bool {
        self.mailboxes[thread].undelivered_bytes.load(Ordering::Relaxed) > FLOOD_BYTES
    }

    /// Whether that is so for any thread.
    pub fn is_any_flooded(&self) -> bool {
        (0..self.thread_count()).any(|thread| self.is_flooded(thread))
    }

    /// A thread wants to be woken when the disk, or replicas, have come further than it finds after this.
    pub fn wait_for_copies(&self, thread: usize) {
        self.mailboxes[thread].waits_for_copies.store(true, Ordering::SeqCst);
    }

    /// A thread does not care any more.
    pub fn cancel_copy_wakeup(&self, thread: usize) {
        self.mailboxes[thread].waits_for_copies.store(false, Ordering::Relaxed);
    }

    /// Wakes the threads that wait for the disk, or for replicas, which have come further.
    pub fn wake_unconfirmed_output(&self) {
        for mailbox in self.mailboxes.iter() {
            if mailbox.waits_for_copies.swap(false, Ordering::SeqCst)
                && let Some(waker) = mailbox.waker.get()
            {
                waker.wake();
            }
        }
    }

    /// A thread wants to be woken when there is more for replicas than it finds after this.
    pub fn wait_for_stream(&self, thread: usize) {
        self.mailboxes[thread].waits_for_stream.store(true, Ordering::SeqCst);
    }

    /// Wakes the threads that wait for more for replicas, which there is.
    pub fn wake_feeders(&self) {
        self.cluster().into_iter().for_each(|node| node.migrations.wake_exports());
        for mailbox in self.mailboxes.iter() {
            if mailbox.waits_for_stream.swap(false, Ordering::SeqCst)
                && let Some(waker) = mailbox.waker.get()
            {
                waker.wake();
            }
        }
    }

    /// The replication offset now: all that was recorded before is counted.
    pub fn replication_offset(&self) -> u64 {
        let journal = &self.engine.journal;
        journal.pump(journal.end());
        journal.stream_end().offset
    }

    /// This node, if the server is one of a cluster.
    #[inline]
    pub fn cluster(&self) -> Option<&ClusterNode> {
        self.cluster.get()
    }

    /// Whether this server copies another one.
    pub fn is_replica(&self) -> bool {
        self.replication.replica.has_primary()
    }

    /// Whether the link to the primary is up, if there is one.
    pub fn is_linked(&self) -> bool {
        self.replication.replica.is_linked()
    }

    /// The data set's offset in the primary's stream; 0 if it does not belong to that stream.
    pub fn replica_offset(&self) -> u64 {
        if self.replication.history().has_place() { self.applied_offset() } else { 0 }
    }

    /// How far the primary's stream has been applied.
    pub fn applied_offset(&self) -> u64 {
        self.engine.journal.stream_end().offset
    }

    /// The replication offset behind the records up to `position`, or a little more; `None` as long as the
    /// append-only file's disk is so far behind that it is unknown.
    pub fn offset_of(&self, position: Position) -> Option<u64> {
        offset::offset_of(&self.engine.journal, position)
    }

    /// Wakes all threads.
    pub fn wake_all(&self) {
        for mailbox in self.mailboxes.iter() {
            if let Some(waker) = mailbox.waker.get() {
                waker.wake();
            }
        }
    }

    /// Takes the messages sent to a thread.
    pub fn receive(&self, thread: usize) -> Vec<Mail<W>> {
        let mailbox = &self.mailboxes[thread];
        let mut mails = lock(&mailbox.mails);
        mailbox.waits.store(false, Ordering::Relaxed);
        mailbox.undelivered_bytes.store(0, Ordering::Relaxed);
        mailbox.received.fetch_add(mails.len() as u64, Ordering::Relaxed);
        std::mem::take(&mut *mails)
    }

    /// Ends the server: every thread leaves its loop. No request runs any more once the gate has been closed
    /// and opened.
    pub fn stop(&self) {
        if !self.stopping.swap(true, Ordering::SeqCst) {
            self.slow_path_reasons.hold(SlowPathReason::Stopping);
        }
        // Before clients hear of it: a client that finds its connection closed cannot connect again.
        lock(&self.listening).drain(..).for_each(|(_, socket)| end_listening(&socket));
        self.wake_all();
    }

    /// Keeps a copy of a listening socket that has this tag.
    pub fn note_listening(&self, tag: u32, socket: &OwnedFd) {
        match socket.try_clone() {
            Ok(copy) => lock(&self.listening).push((tag, copy)),
            Err(error) => {
                tracing::warn!("Cannot duplicate the listening socket; it stays open until exit: {error}");
            }
        }
    }

    /// Copies of the listening sockets that have this tag.
    pub fn listening(&self, tag: u32) -> Vec<OwnedFd> {
        let listening = lock(&self.listening);
        let sockets = listening.iter().filter(|(of, _)| *of == tag);
        sockets.filter_map(|(_, socket)| socket.try_clone().ok()).collect()
    }

    /// From now on, none of the sockets that have this tag accepts.
    pub fn end_listening(&self, tag: u32) {
        lock(&self.listening).extract_if(.., |(of, _)| *of == tag).for_each(|(_, socket)| {
            end_listening(&socket);
        });
    }

    /// Begins or prolongs CLIENT PAUSE: a later end and the stricter mode win over the present ones.
    pub fn begin_pause(&self, until_ms: i64, all: bool, now_ms: i64) {
        self.pause.begin(&self.slow_path_reasons, until_ms, all, now_ms);
    }

    /// Says whether commands that may grow memory must be refused.
    pub fn set_memory_full(&self, is_full: bool) {
        self.slow_path_reasons.switch(SlowPathReason::MemoryFull, is_full);
    }

    /// Says that a script has run for longer than `busy-reply-threshold`, or that it has ended.
    pub fn set_script_busy(&self, engine: martlet_script::Engine, is_busy: bool) {
        self.scripts.set_busy(engine, is_busy);
        self.slow_path_reasons.set(SlowPathReason::ScriptBusy, is_busy);
        let busy = &self.engine.busy_scripts;
        if is_busy {
            busy.fetch_add(1, Ordering::SeqCst);
        } else {
            busy.fetch_sub(1, Ordering::SeqCst);
            // They may have postponed something.
            self.wake_all();
        }
    }

    /// Bytes of memory that all clients hold.
    pub fn client_bytes(&self) -> u64 {
        self.threads.iter().fold(0u64, |sum, thread| sum.wrapping_add(thread.client_bytes.get()))
    }

    /// Has commands that write wait until [`Shared::release_writes`]: a failover or a shutdown is under way.
    pub fn hold_writes(&self) {
        self.write_holds.fetch_add(1, Ordering::SeqCst);
        self.slow_path_reasons.hold(SlowPathReason::Paused);
    }

    /// Ends one of these waits. Clients that wait for CLIENT PAUSE as well are left alone, as in Redis: a
    /// look at a request that still waits would answer it if it is refused by now.
    pub fn release_writes(&self) {
        let is_held = self.write_holds.fetch_sub(1, Ordering::SeqCst) > 1;
        self.slow_path_reasons.release(SlowPathReason::Paused);
        if !is_held && !self.pause.is_on() {
            self.recheck_postponed();
        }
    }

    /// Ends CLIENT PAUSE, or only if its time was up at `due_ms`.
    pub fn end_pause(&self, due_ms: Option<i64>) {
        if self.pause.end(&self.slow_path_reasons, due_ms) {
            self.recheck_postponed();
        }
    }

    /// Has every thread look again at clients that were postponed.
    fn recheck_postponed(&self) {
        for thread in 0..self.thread_count() {
            self.send(thread, Mail::Recheck);
        }
    }

    /// Has commands that write wait before they lock anything, as long as the journal is full. The thread
    /// that fills it calls it, too, with shards locked.
    pub fn note_journal(&self, is_full: bool) {
        self.slow_path_reasons.set(SlowPathReason::JournalFull, is_full);
        if !is_full {
            self.recheck_postponed();
        }
    }

    /// Whether a request that may change its keys has to wait because one of them is under way to another
    /// server. If so, the thread is noted for a wake-up.
    pub fn is_migrating(&self, thread: usize, db: usize, entry: &Entry, args: &Args<'_>) -> bool {
        let marks = &self.migrations.marks;
        let mut indexes = Vec::new();
        marks.is_any()
            && entry.spec.data_keys(args, &mut indexes)
            && marks.is_any_of(thread, db, indexes.into_iter().map(|index| args.at(index)))
    }

    /// The keys of a MIGRATE are not under way any more.
    pub fn clear_marks<'k>(&self, db: usize, keys: impl Iterator<Item = &'k [u8]>) {
        for thread in self.migrations.marks.clear(db, keys) {
            self.send(thread, Mail::Recheck);
        }
    }

    /// Whether commands have to wait at `now_ms`: all (`true`), or those that write. CLIENT PAUSE, a
    /// failover or a shutdown lasts, or the disk is behind.
    pub fn postpones(&self, now_ms: i64) -> Option<bool> {
        let until_ms = self.pause.until_ms.load(Ordering::Acquire);
        if until_ms > now_ms {
            return Some(self.pause.all.load(Ordering::Acquire));
        }
        let holds = self.write_holds.load(Ordering::Acquire) > 0;
        (holds || self.engine.journal.is_full()).then_some(false)
    }
}

fn end_listening(socket: &OwnedFd) {
    // It may have been closed since.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

impl<W> Disconnects for Shared<W> {
    fn disconnect(&self, client: &ClientInfo) {
        self.clients.remove(client.id);
        if let Some(waiter) = lock(&client.waiter).clone() {
            waiter.cancel();
        }
        // A client that moves is marked before its place is read, or found to be once it has arrived.
        fence(Ordering::SeqCst);
        let (thread, token) = (client.thread(), client.token());
        self.send(thread, Mail::Kill { token, client: client.id });
    }
}

#[cfg(test)]
mod tests {
    use super::Pause;
    use crate::slow_path::{SlowPathReason, SlowPathReasons};

    #[test]
    fn pauses_begun_and_ended_by_several_threads_leave_nothing_behind() {
        let (pause, reasons) = (Pause::default(), SlowPathReasons::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for now_ms in 1..20_000 {
                        pause.begin(&reasons, now_ms + 1, false, now_ms);
                        pause.end(&reasons, None);
                    }
                });
            }
        });
        pause.end(&reasons, None);
        assert!(reasons.is_empty());
    }

    #[test]
    fn the_end_of_an_old_pause_leaves_a_longer_one_on() {
        let (pause, reasons) = (Pause::default(), SlowPathReasons::default());
        pause.begin(&reasons, 100, true, 0);
        pause.begin(&reasons, 500, false, 50);
        assert!(!pause.end(&reasons, Some(100)));
        assert!(reasons.has(SlowPathReason::Paused));
        assert!(pause.end(&reasons, Some(500)) && !pause.end(&reasons, Some(500)));
        assert!(reasons.is_empty());
    }
}
