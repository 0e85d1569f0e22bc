//! Applying the primary's stream: bytes to commands and transactions, run by one I/O thread.
//!
//! Invariant: what has been applied and the replication offset belong together whenever the gate is closed.
//! The bytes of what was applied are appended to the journal, for replicas of this one, before the thread
//! leaves the gate; a transaction's bytes count once all of it has run.
//!
//! Nothing expires by this server's own clock meanwhile: a key goes when the primary says so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_client::stream::Stream;
use martlet_command::{Control, Flags};
use martlet_journal::{Position, REPLICAS};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, OwnedArgs, Parsed, Partial, RequestLimits, parse};

use super::link::is_readable;
use crate::config::PropagationErrorBehavior;
use crate::connection::Connection;
use crate::registry::{Entry, Run};
use crate::shared::{Mail, Shared, lock};
use crate::slow_path::SlowPathReason;
use crate::worker::Worker;

/// Bytes that one turn applies; other clients of the thread have theirs after it.
const TURN_BYTES: usize = 64 * 1024;
/// With more waiting, nothing is received.
const WAITING_MAX_BYTES: usize = 1024 * 1024;
/// How often a stream is tried that the link is using.
const READ_TRIES: usize = 1000;
/// Bytes of a request or transaction that is not complete: offsets of arguments are 32 bits wide.
const UNIT_MAX_BYTES: usize = u32::MAX as usize - (1 << 24);
/// Between two lines in the log that say that the disk refuses.
const DISK_LOG_PERIOD_MS: i64 = 10_000;
/// Places kept to tell how much of the stream is on disk.
const PLACES_MAX: usize = 1024;

/// What has been received and waits to be applied.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// A thread has been asked to apply it.
    is_asked: bool,
    /// Why nothing more will be applied.
    failure: Option<String>,
}

/// Between the link, which receives, and the thread that applies.
pub struct ApplyQueue {
    shared: &'static Shared,
    /// The I/O thread.
    thread: usize,
    generation: u64,
    /// Where the stream comes from. Whoever reads adds what was read while this is locked.
    stream: Arc<Mutex<Stream>>,
    waiting: Mutex<Waiting>,
    /// Bytes received, applied or not.
    received_bytes: AtomicU64,
    is_closed: AtomicBool,
    /// Who applies has this locked, and is inside the gate.
    applier: Mutex<Applier>,
    /// Somebody applies.
    is_applying: AtomicBool,
}

impl ApplyQueue {
    /// A queue for the stream that goes on after the applied offset, in the replica's database, in the name
    /// of `connection`.
    pub fn new(
        shared: &'static Shared,
        generation: u64,
        mut connection: Box<Connection>,
        stream: Arc<Mutex<Stream>>,
    ) -> Arc<ApplyQueue> {
        connection.session.db = shared.replication.replica.db();
        Arc::new(ApplyQueue {
            shared,
            thread: shared.thread_count() - 1,
            generation,
            stream,
            waiting: Mutex::default(),
            received_bytes: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            applier: Mutex::new(Applier {
                connection,
                transaction: None,
                input: Vec::new(),
                parsed: 0,
                applied: 0,
                relayed: 0,
                partial: Partial::default(),
                reply: Vec::new(),
                places: VecDeque::new(),
                on_disk: None,
                disk_logged_ms: 0,
            }),
            is_applying: AtomicBool::new(false),
        })
    }

    /// Takes in bytes of the stream.
    pub fn push(self: &Arc<Self>, bytes: &[u8]) {
        self.add(bytes);
        self.ask();
    }

    fn add(&self, bytes: &[u8]) {
        lock(&self.waiting).bytes.extend_from_slice(bytes);
        self.received_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }

    /// Bytes that have been received.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Receives what the kernel has of the stream, without waiting for anything. What has to be deciphered
    /// may take an answer, and is left.
    pub fn receive_rest(&self) {
        let mut tries = 0..READ_TRIES;
        let mut stream = loop {
            match self.stream.try_lock() {
                Ok(stream) => break stream,
                // The link reads what there is, or sends some bytes.
                Err(_) if tries.next().is_some() => std::thread::yield_now(),
                Err(_) => return,
            }
        };
        let mut bytes = Vec::new();
        while !stream.is_secure() && bytes.len() < WAITING_MAX_BYTES && is_readable(&*stream) {
            if !stream.read_some(&mut bytes).is_ok_and(|count| count > 0) {
                break;
            }
        }
        self.add(&bytes);
    }

    /// Has what waits applied, unless somebody was asked before.
    pub fn ask(self: &Arc<Self>) {
        let mut waiting = lock(&self.waiting);
        if waiting.is_asked || waiting.bytes.is_empty() || waiting.failure.is_some() {
            return;
        }
        waiting.is_asked = true;
        let queue = self.clone();
        self.shared.send(self.thread, Mail::Run(Box::new(move |worker| queue.turn(worker))));
    }

    /// Whether so much waits that nothing more should be received.
    pub fn is_full(&self) -> bool {
        lock(&self.waiting).bytes.len() >= WAITING_MAX_BYTES
    }

    /// Whether everything complete has been applied.
    pub fn has_nothing_waiting(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.bytes.is_empty() && !waiting.is_asked
    }

    /// Why nothing more will be applied, if that is so.
    pub fn failure(&self) -> Option<String> {
        lock(&self.waiting).failure.clone()
    }

    /// The offset up to which the append-only file is on disk, if there is one.
    pub fn offset_on_disk(&self) -> Option<u64> {
        lock(&self.applier).offset_on_disk(self.shared)
    }

    /// Ends it: what has not been applied by now never is.
    pub fn close(&self) {
        // Whoever applies holds this lock.
        let _applier = lock(&self.applier);
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Applies everything complete that has been received, before this server gets another role. All shards
    /// are locked: nobody else applies.
    pub fn drain(&self, worker: &mut Worker) {
        // The primary itself may have sent the command that changes the role.
        let is_possible = self.is_current()
            && !self.is_applying.load(Ordering::Relaxed)
            && self.shared.postpones(worker.now_ms).is_none();
        if !is_possible || self.failure().is_some() {
            return;
        }
        self.receive_rest();
        let bytes = std::mem::take(&mut lock(&self.waiting).bytes);
        let recorded = worker.keys.recorded;
        if let Err(why) = lock(&self.applier).apply(self, worker, &bytes) {
            tracing::warn!("{why}");
        }
        worker.keys.recorded = recorded;
    }

    /// Whether the primary is the one that was configured when this began.
    fn is_of_generation(&self) -> bool {
        self.shared.replication.replica.generation() == self.generation
    }

    /// Whether it is for the primary that is configured now.
    fn is_current(&self) -> bool {
        !self.is_closed.load(Ordering::SeqCst)
            && self.is_of_generation()
            && !self.shared.stopping.load(Ordering::Relaxed)
    }

    /// Applies some of what waits, on the thread that was asked to.
    fn turn(self: Arc<Self>, worker: &mut Worker) {
        let mut applier = lock(&self.applier);
        // Writes that wait for the disk, or for CLIENT PAUSE, go on later; the link asks again.
        let may_run = self.is_current() && self.shared.postpones(worker.now_ms).is_none();
        let bytes: Vec<u8> = {
            let mut waiting = lock(&self.waiting);
            if !may_run {
                waiting.is_asked = false;
                return;
            }
            let count = waiting.bytes.len().min(TURN_BYTES);
            waiting.bytes.drain(..count).collect()
        };
        let mut outcome = applier.apply(&self, worker, &bytes);
        drop(applier);
        if let Ok(Progress::NeedsAll) = outcome {
            // The applier is not kept meanwhile: who has the gate before may be changing the role.
            outcome = worker.alone(|worker| lock(&self.applier).apply(&self, worker, &[]));
            worker.count_changes();
            worker.serve_ready();
        }
        worker.refresh_time();
        let mut waiting = lock(&self.waiting);
        waiting.is_asked = false;
        waiting.failure = outcome.err();
        let was_full = waiting.bytes.len() + bytes.len() >= WAITING_MAX_BYTES;
        let wakes = was_full || waiting.failure.is_some();
        drop(waiting);
        if wakes {
            self.shared.replication.replica.link.wake();
        }
        self.ask();
    }
}

/// How far applying has come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// What is left is no whole command, or the primary is another.
    Done,
    /// What is next needs all shards, which this thread has not locked. Nothing of it was done.
    NeedsAll,
}

/// One command of a transaction.
type Queued = (&'static Entry, OwnedArgs);

/// The stream's state.
struct Applier {
    /// In whose name commands run.
    connection: Box<Connection>,
    /// The commands since MULTI.
    transaction: Option<Vec<Queued>>,
    /// Bytes from the first that is not in the journal on.
    input: Vec<u8>,
    /// Of those, so many were parsed, were applied as whole units, are in the journal.
    parsed: usize,
    applied: usize,
    relayed: usize,
    partial: Partial,
    reply: Vec<u8>,
    /// Ends of what was recorded, with the offset there, as far as the disk has not come.
    places: VecDeque<(Position, u64)>,
    on_disk: Option<u64>,
    /// When it was last logged that the disk refuses, Unix milliseconds.
    disk_logged_ms: i64,
}

impl Applier {
    /// Applies what `bytes` complete, and what was left before them.
    ///
    /// # Errors
    /// They are no stream of commands; a line for the log.
    fn apply(&mut self, queue: &ApplyQueue, worker: &mut Worker, bytes: &[u8]) -> Result<Progress, String> {
        queue.is_applying.store(true, Ordering::Relaxed);
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut outcome = self.apply_units(queue, worker, &input);
        if queue.is_of_generation() {
            self.relay(queue, worker, &input);
        }
        queue.shared.replication.replica.answer();
        input.drain(..self.relayed);
        self.parsed -= self.relayed;
        self.applied -= self.relayed;
        self.relayed = 0;
        if input.len() > UNIT_MAX_BYTES {
            outcome = Err("The master's stream has a command or transaction that is too long.".into());
        }
        self.input = input;
        self.reply.clear();
        queue.is_applying.store(false, Ordering::Relaxed);
        outcome
    }

    fn apply_units(
        &mut self,
        queue: &ApplyQueue,
        worker: &mut Worker,
        input: &[u8],
    ) -> Result<Progress, String> {
        let limits = RequestLimits { bulk_max_bytes: UNIT_MAX_BYTES as i64, ..RequestLimits::default() };
        let mut spans = Vec::new();
        while self.parsed < input.len() && queue.is_current() {
            spans.clear();
            match parse(input, self.parsed, &limits, &mut self.partial, &mut spans) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Complete(end)) => {
                    if self.request(queue, worker, &Args::new(input, &spans)) == Progress::NeedsAll {
                        return Ok(Progress::NeedsAll);
                    }
                    self.parsed = end;
                    if self.transaction.is_none() {
                        self.applied = end;
                    }
                }
                Err(error) => return Err(format!("The master's stream of commands is damaged: {error}")),
            }
        }
        Ok(Progress::Done)
    }

    /// Takes up one request.
    fn request(&mut self, queue: &ApplyQueue, worker: &mut Worker, args: &Args<'_>) -> Progress {
        if args.is_empty() {
            return Progress::Done;
        }
        let Some(entry) = queue.shared.registry.resolve(args).filter(|entry| entry.spec.takes(args.len()))
        else {
            complain(worker, &crate::checks::unknown_command(args).to_bytes(), args);
            return Progress::Done;
        };
        match (entry.spec.control, &mut self.transaction) {
            (Control::BeginTransaction, _) => self.transaction = Some(Vec::new()),
            (Control::ExecuteTransaction, _) => {
                let commands = self.transaction.take().unwrap_or_default();
                let progress = self.run_unit(worker, &commands);
                if progress == Progress::NeedsAll {
                    self.transaction = Some(commands);
                }
                return progress;
            }
            (Control::DiscardTransaction, _) => self.transaction = None,
            (_, Some(commands)) => commands.push((entry, args.to_owned())),
            _ => return self.run_one(worker, entry, args),
        }
        Progress::Done
    }

    /// Runs a command that stands alone.
    fn run_one(&mut self, worker: &mut Worker, entry: &'static Entry, args: &Args<'_>) -> Progress {
        if entry.spec.control == Control::SelectDatabase {
            self.select(worker, args);
            return Progress::Done;
        }
        let run = |applier: &mut Applier, worker: &mut Worker| applier.execute(worker, entry, args, false);
        let progress = self.run_locked(worker, entry.spec.shards(args), run);
        if progress == Progress::Done {
            self.after(worker, entry, args);
        }
        progress
    }

    /// Runs a transaction, with all its keys locked.
    fn run_unit(&mut self, worker: &mut Worker, commands: &[Queued]) -> Progress {
        let mut shards = Some(Vec::new());
        for (entry, args) in commands {
            let is_known = !entry.spec.flags.has(Flags::WALK);
            let more = if is_known { entry.spec.shards(&args.view()) } else { None };
            shards = shards.zip(more).map(|(all, more)| [all, more].concat());
        }
        let run = |applier: &mut Applier, worker: &mut Worker| {
            for (entry, args) in commands {
                if entry.spec.control == Control::SelectDatabase {
                    applier.select(worker, &args.view());
                } else {
                    applier.execute(worker, entry, &args.view(), true);
                }
            }
        };
        let progress = self.run_locked(worker, shards, run);
        if progress == Progress::Done {
            for (entry, args) in commands {
                self.after(worker, entry, &args.view());
            }
        }
        progress
    }

    /// Runs `work` with these shards locked, or with all if they are anyhow.
    fn run_locked(
        &mut self,
        worker: &mut Worker,
        shards: Option<Vec<usize>>,
        work: impl FnOnce(&mut Applier, &mut Worker),
    ) -> Progress {
        if worker.keys.has_all_shards() {
            work(self, worker);
            if worker.keys.effects.has_news() {
                worker.tell_news();
            }
            worker.keys.record_pending();
            return Progress::Done;
        }
        let Some(shards) = shards else { return Progress::NeedsAll };
        worker.keys.lock_shards(shards);
        work(self, worker);
        worker.release_keys();
        Progress::Done
    }

    fn select(&mut self, worker: &Worker, args: &Args<'_>) {
        let db = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse().ok());
        match db.filter(|&db: &usize| db < worker.settings.databases) {
            Some(db) => self.connection.session.db = db,
            None => complain(worker, b"ERR DB index is out of range", args),
        }
    }

    /// Runs one command whose keys are locked.
    fn execute(&mut self, worker: &mut Worker, entry: &'static Entry, args: &Args<'_>, nested: bool) {
        if entry.spec.flags.has(Flags::WRITE) {
            self.look_after_disk(worker);
        }
        let mut reply = Reply::new(std::mem::take(&mut self.reply), false);
        let now_ms = worker.keys.now_ms;
        let is_data = matches!(entry.run, Run::Data(_));
        if is_data && !entry.spec.relative_time.is_some_and(|is_relative| is_relative(args)) {
            // Only what is told relative to now needs the time.
            worker.keys.set_time(0);
        }
        if is_data {
            // What is due is the primary's to delete.
            worker.keys.see_expired();
        }
        worker.keys.db = self.connection.session.db;
        if nested {
            worker.run_nested(&mut self.connection, &mut reply, entry, args, None);
        } else {
            worker.run(&mut self.connection, &mut reply, entry, args, None, true);
        }
        worker.keys.set_time(now_ms);
        if reply.as_bytes().first() == Some(&b'-') {
            complain(worker, reply.as_bytes().trim_ascii().get(1..).unwrap_or_default(), args);
        }
        self.reply = reply.into_bytes();
        self.reply.clear();
    }

    /// Ends the process if a write cannot be kept, as the disk refuses (`replica-ignore-disk-write-errors`):
    /// a replica may not refuse it.
    fn look_after_disk(&mut self, worker: &Worker) {
        let reasons = &worker.shared.slow_path_reasons;
        if !reasons.has(SlowPathReason::SaveFailed) && !reasons.has(SlowPathReason::LogRefused) {
            return;
        }
        assert!(
            worker.config().replica_ignore_disk_write_errors,
            "Replica was unable to write command to disk."
        );
        if worker.now_ms > self.disk_logged_ms + DISK_LOG_PERIOD_MS {
            self.disk_logged_ms = worker.now_ms;
            tracing::warn!("Replica is applying a command even though it is unable to write to disk.");
        }
    }

    /// What follows a command once its keys are not locked. Who waits for keys is served when nothing is.
    fn after(&mut self, worker: &mut Worker, entry: &'static Entry, args: &Args<'_>) {
        worker.feed_monitors(&self.connection, entry, args);
        if !worker.keys.has_all_shards() {
            worker.after_command(&mut self.connection, entry);
        }
    }

    /// Appends the bytes of what has been applied to the journal, for replicas and the backlog.
    fn relay(&mut self, queue: &ApplyQueue, worker: &mut Worker, input: &[u8]) {
        let Some(bytes) = input.get(self.relayed..self.applied).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        let journal = &queue.shared.engine.journal;
        let end = journal.append(REPLICAS, bytes);
        journal.pump(end);
        self.relayed = self.applied;
        worker.keys.recorded = 0;
        let replica = &queue.shared.replication.replica;
        replica.db.store(self.connection.session.db, Ordering::Relaxed);
        let session = &self.connection;
        session.info.db.store(session.session.db, Ordering::Relaxed);
        if self.places.len() == PLACES_MAX {
            self.places.pop_back();
        }
        self.places.push_back((end, journal.stream_end().offset));
    }

    fn offset_on_disk(&mut self, shared: &Shared) -> Option<u64> {
        use martlet_persistence::aof::Phase;
        if shared.persistence.log.facts().phase != Phase::On {
            return None;
        }
        let durable = shared.engine.journal.durable();
        while let Some((_, offset)) = self.places.pop_front_if(|(position, _)| *position <= durable) {
            self.on_disk = Some(offset);
        }
        self.on_disk
    }
}

/// Logs that the primary has sent what cannot be done here, or ends the process for it.
fn complain(worker: &Worker, error: &[u8], args: &Args<'_>) {
    let (error, name) = (String::from_utf8_lossy(error), String::from_utf8_lossy(args.at(0)).into_owned());
    let name = name.escape_default();
    tracing::warn!(
        "== CRITICAL == This replica is sending an error to its master: '{error}' after processing the command '{name}'"
    );
    worker.shared.stats.unexpected_errors.fetch_add(1, Ordering::Relaxed);
    let config = worker.config();
    let panics = config.propagation_error_behavior != PropagationErrorBehavior::Ignore;
    assert!(
        !(panics && config.replica_read_only),
        "This replica panicked sending an error to its master after processing the command '{name}'"
    );
}
