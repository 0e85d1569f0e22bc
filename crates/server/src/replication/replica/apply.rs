//! Applying the primary's stream: bytes to commands and transactions, run by one I/O thread.
//!
//! Invariant: the applied data and the replication offset belong together whenever the gate is closed. The
//! applied bytes are appended to the journal, for replicas of this one, before the thread leaves the gate; a
//! transaction's bytes count once all of it has run.
//!
//! Nothing expires by this server's own clock in that time: the primary deletes keys.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::sync::Alone;
use martlet_base::sync::lock;
use martlet_command::Control;
use martlet_command::transaction::{Assembler, OutOfPlace, Queue, Step};
use martlet_journal::{Position, REPLICAS};
use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, parse};

use super::gathered::Gathered;
use super::incoming::Incoming;
use super::parallel_apply::{ApplySession, Plan, Work};
use super::runner::{Runner, Runners, report_propagation_error};
use crate::connection::Connection;
use crate::outgoing::is_readable;
use crate::registry::Entry;
use crate::runtime::transaction::NESTED;
use crate::runtime::{Mail, Shared, Worker};
use crate::slots::{Kept, Place};
use crate::slow_path::SlowPathReason;

/// Bytes that one turn applies; other clients of the thread have theirs after it.
const TURN_BYTES: usize = 64 * 1024;
/// The same, of all threads together.
const CREW_TURN_BYTES: usize = 128 * 1024;
/// With more waiting, all threads apply.
const LAG_BYTES: usize = 256 * 1024;
/// With fewer commands that can be dealt out, one thread applies them.
const PARALLEL_COMMANDS_MIN: usize = 256;
/// With more waiting, nothing is received.
const WAITING_MAX_BYTES: usize = 1024 * 1024;
/// How often a stream is tried that the link is using.
const READ_TRIES: usize = 1000;
/// Bytes of a request or transaction that is not complete: offsets of arguments are 32 bits wide.
const UNIT_MAX_BYTES: usize = u32::MAX as usize - (1 << 24);
/// Limits of the primary's requests.
const LIMITS: RequestLimits =
    RequestLimits { bulk_max_bytes: UNIT_MAX_BYTES as i64, ..RequestLimits::DEFAULT };
/// Places kept to tell how much of the stream is on disk.
const PLACES_MAX: usize = 1024;

/// Received bytes that wait to be applied.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The first bytes of these that were taken.
    taken: usize,
    /// Later bytes, received during the full sync. There are none if no bytes wait.
    gathered: Option<Gathered>,
    /// A thread has been asked to apply it.
    is_asked: bool,
    /// Why nothing more will be applied.
    failure: Option<String>,
}

impl Waiting {
    /// Number of waiting bytes, but for gathered ones.
    fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Adds received bytes.
    fn push(&mut self, bytes: &[u8]) {
        match &mut self.gathered {
            Some(gathered) => gathered.push(bytes),
            None => self.bytes.extend_from_slice(bytes),
        }
    }

    /// Takes up to `most` bytes. Those behind them move only once as many were taken before: not each time.
    fn take(&mut self, most: usize) -> Vec<u8> {
        let end = self.taken + self.len().min(most);
        let taken = self.bytes[self.taken..end].to_vec();
        self.taken = end;
        if self.len() <= self.taken {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.refill();
        taken
    }

    /// Takes some of the gathered bytes.
    fn refill(&mut self) {
        while self.len() < LAG_BYTES
            && let Some(gathered) = &mut self.gathered
        {
            gathered.pop().into_iter().for_each(|block| self.bytes.extend(block));
            if gathered.is_empty() {
                self.gathered = None;
            }
        }
    }
}

/// The stream that is applied, while the link is up. One per server.
#[derive(Default)]
pub struct AppliedStream {
    pub(super) queue: Mutex<Option<Arc<ApplyQueue>>>,
}

impl Kept for AppliedStream {
    const PLACE: Place = Place::AppliedStream;
}

/// Between the link, which receives, and the thread that applies.
pub struct ApplyQueue {
    shared: &'static Shared,
    /// The I/O thread.
    thread: usize,
    generation: u64,
    /// The source of the stream. A reader adds the read bytes while this is locked.
    stream: Arc<Mutex<Incoming>>,
    waiting: Mutex<Waiting>,
    /// Bytes received, applied or not.
    received_bytes: AtomicU64,
    is_closed: AtomicBool,
    /// The applying thread has this locked, and is inside the gate.
    applier: Mutex<Applier>,
    /// A thread applies.
    is_applying: AtomicBool,
    /// What each thread runs commands with when all apply.
    runners: Arc<Runners>,
}

impl ApplyQueue {
    /// A queue for the stream that continues after the applied offset, in the replica's database, in the name
    /// of `connection`, and of those that `another` gives where all threads apply. The stream's beginning may
    /// have been `gathered` before.
    pub fn new(
        shared: &'static Shared,
        generation: u64,
        mut connection: Box<Connection>,
        another: impl Fn() -> Box<Connection>,
        stream: Arc<Mutex<Incoming>>,
        gathered: Option<Gathered>,
    ) -> Arc<ApplyQueue> {
        let received = gathered.as_ref().map_or(0, Gathered::len);
        let mut waiting = Waiting { gathered, ..Waiting::default() };
        waiting.refill();
        let runners = Arc::new(Runners::new(shared.thread_count(), another));
        connection.session.db = shared.replication.replica.db();
        Arc::new(ApplyQueue {
            shared,
            thread: shared.thread_count() - 1,
            generation,
            stream,
            waiting: Mutex::new(waiting),
            received_bytes: AtomicU64::new(received),
            is_closed: AtomicBool::new(false),
            applier: Mutex::new(Applier {
                runner: Runner::new(connection),
                transactions: Assembler::default(),
                input: Vec::new(),
                parsed: 0,
                applied: 0,
                relayed: 0,
                partial: Partial::default(),
                is_serial: false,
                places: VecDeque::new(),
                on_disk: None,
            }),
            is_applying: AtomicBool::new(false),
            runners,
        })
    }

    /// Takes in bytes of the stream.
    pub fn push(self: &Arc<Self>, bytes: &[u8]) {
        self.add(bytes);
        self.ask();
    }

    fn add(&self, bytes: &[u8]) {
        lock(&self.waiting).push(bytes);
        self.received_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }

    /// Bytes that have been received.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Receives the kernel's bytes of the stream, without waiting for anything. Bytes to be decrypted may
    /// need an answer, and are left.
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
        let may_read = |stream: &Incoming| stream.has_frame() || !stream.is_secure() && is_readable(stream);
        while bytes.len() < WAITING_MAX_BYTES && may_read(&stream) {
            if !stream.read_some(&mut bytes).is_ok_and(|count| count > 0) {
                break;
            }
        }
        self.add(&bytes);
    }

    /// Has waiting bytes applied, unless a thread was asked before.
    pub fn ask(self: &Arc<Self>) {
        let mut waiting = lock(&self.waiting);
        if waiting.is_asked || waiting.len() == 0 || waiting.failure.is_some() {
            return;
        }
        waiting.is_asked = true;
        let queue = self.clone();
        self.shared.send(self.thread, Mail::Run(Box::new(move |worker| queue.turn(worker))));
    }

    /// Whether so much waits that nothing more should be received.
    pub fn is_full(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.len() >= WAITING_MAX_BYTES || waiting.gathered.is_some()
    }

    /// Whether everything complete has been applied.
    pub fn has_nothing_waiting(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.len() == 0 && !waiting.is_asked
    }

    /// Why nothing more will be applied, if that is so.
    pub fn failure(&self) -> Option<String> {
        lock(&self.waiting).failure.clone()
    }

    /// The offset up to which the append-only file is on disk, if there is one.
    pub fn offset_on_disk(&self) -> Option<u64> {
        lock(&self.applier).offset_on_disk(self.shared)
    }

    /// Ends it: bytes that have not been applied yet never are.
    pub fn close(&self) {
        // The applying thread holds this lock.
        let _applier = lock(&self.applier);
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Applies every complete received command, before this server gets another role. All shards are locked:
    /// no other thread applies.
    pub fn drain(&self, worker: &mut Worker) {
        // The primary itself may have sent the command that changes the role.
        let is_possible = self.is_current()
            && !self.is_applying.load(Ordering::Relaxed)
            && self.shared.postpones(worker.now_ms).is_none();
        if !is_possible || self.failure().is_some() {
            return;
        }
        self.receive_rest();
        let recorded = worker.keys.recorded;
        loop {
            let bytes = lock(&self.waiting).take(usize::MAX);
            if let Err(why) = lock(&self.applier).apply(self, worker, &bytes) {
                tracing::warn!("{why}");
                break;
            }
            if lock(&self.waiting).len() == 0 {
                break;
            }
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

    /// Applies some waiting bytes, on the thread that was asked to.
    fn turn(self: Arc<Self>, worker: &mut Worker) {
        let is_parallel = self.should_be_parallel(worker);
        let applied = if is_parallel { self.apply_by_all(worker) } else { self.apply_some(worker) };
        let Some((count, mut outcome)) = applied else {
            // Writes that wait for the disk, or for CLIENT PAUSE, continue later; the link asks again.
            lock(&self.waiting).is_asked = false;
            return;
        };
        if let Ok(Progress::NeedsAll) = outcome {
            // The applier is not locked in that time: a thread that has the gate before may be changing the
            // role.
            outcome = worker.alone(|worker| lock(&self.applier).apply(&self, worker, &[]));
            worker.count_changes();
            worker.serve_ready();
        }
        worker.refresh_time();
        let mut waiting = lock(&self.waiting);
        waiting.is_asked = false;
        waiting.failure = outcome.err();
        let was_full = waiting.len() + count >= WAITING_MAX_BYTES || waiting.gathered.is_some();
        let wakes = was_full || waiting.failure.is_some();
        drop(waiting);
        if wakes {
            self.shared.replication.replica.link.wake();
        }
        self.ask();
    }

    /// Takes up to `most` waiting bytes, unless nothing may be applied now.
    fn take(&self, worker: &Worker, most: usize) -> Option<Vec<u8>> {
        let may_run = self.is_current() && self.shared.postpones(worker.now_ms).is_none();
        may_run.then(|| lock(&self.waiting).take(most))
    }

    /// Applies a turn's bytes; how many that were, `None` if nothing may be applied now.
    fn apply_some(&self, worker: &mut Worker) -> Option<Applied> {
        let mut applier = lock(&self.applier);
        let bytes = self.take(worker, TURN_BYTES)?;
        applier.is_serial = false;
        Some((bytes.len(), applier.apply(self, worker, &bytes)))
    }

    /// Whether so much waits that all threads should apply. A client that watches sees the stream's order.
    fn should_be_parallel(&self, worker: &Worker) -> bool {
        self.shared.thread_count() > 1
            && lock(&self.waiting).len() >= LAG_BYTES
            && worker.keys.effects.wanted_events == 0
            && !self.shared.slow_path_reasons.has(SlowPathReason::Monitored)
            && !lock(&self.applier).is_serial
    }

    /// As [`ApplyQueue::apply_some`], with all threads.
    fn apply_by_all(self: &Arc<Self>, worker: &mut Worker) -> Option<Applied> {
        let engine = self.shared.engine;
        let session = ApplySession::begin(self.shared, &self.runners);
        worker.leave();
        worker.stats().begin();
        let work = |alone: &mut Alone| {
            let session = session;
            let mut applier = lock(&self.applier);
            let bytes = self.take(worker, CREW_TURN_BYTES)?;
            worker.keys.effects.recording = engine.journal.is_on();
            Some((bytes.len(), applier.apply_by_all(self, worker, (&session, alone), &bytes)))
        };
        let applied = engine.gate.closed_unless(|| engine.has_busy_script(), work).flatten();
        worker.enter();
        worker.serve_ready_after_session();
        applied
    }
}

/// Number of taken bytes, and the outcome.
type Applied = (usize, Result<Progress, String>);

/// How far applying has come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// The rest is not a whole command, or the primary is another.
    Done,
    /// The next command needs all shards, which this thread has not locked. Nothing of it was done.
    NeedsAll,
}

/// The stream's state.
struct Applier {
    runner: Runner,
    transactions: Assembler<&'static Entry>,
    /// Bytes from the first that is not in the journal on.
    input: Vec<u8>,
    /// The number of these bytes that were parsed, were applied as whole units, are in the journal.
    parsed: usize,
    applied: usize,
    relayed: usize,
    partial: Partial,
    /// The next command cannot be dealt out to threads.
    is_serial: bool,
    /// Ends of records, with the offset there, as far as the disk has not come.
    places: VecDeque<(Position, u64)>,
    on_disk: Option<u64>,
}

impl Applier {
    /// Applies the commands that `bytes` complete, and those that were left before them.
    ///
    /// # Errors
    /// They are not a stream of commands; a line for the log.
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
        queue.is_applying.store(false, Ordering::Relaxed);
        outcome
    }

    /// Takes `bytes`, and has all threads apply the part of the taken bytes that can be dealt out.
    fn apply_by_all(
        &mut self,
        queue: &ApplyQueue,
        worker: &mut Worker,
        (session, alone): (&ApplySession, &mut Alone),
        bytes: &[u8],
    ) -> Result<Progress, String> {
        self.input.extend_from_slice(bytes);
        let shared = queue.shared;
        let plan = Plan::read(shared.registry, &self.input, self.parsed, &LIMITS);
        let count = plan.len();
        self.is_serial = self.transactions.is_inside() || count < PARALLEL_COMMANDS_MIN;
        if self.is_serial {
            return Ok(Progress::Done);
        }
        queue.is_applying.store(true, Ordering::Relaxed);
        let (end, db) = (plan.end, self.runner.connection.session.db);
        let work = Arc::new(Work::new(std::mem::take(&mut self.input), plan, db, shared.thread_count()));
        session.share(alone, worker, &work);
        (self.parsed, self.applied, self.partial) = (end, end, Partial::default());
        self.relay(queue, worker, &work.input);
        shared.replication.replica.answer();
        shared.replication.replica.applied_by_all.fetch_add(count as u64, Ordering::Relaxed);
        self.input.extend_from_slice(&work.input[end..]);
        (self.parsed, self.applied, self.relayed) = (0, 0, 0);
        queue.is_applying.store(false, Ordering::Relaxed);
        Ok(Progress::Done)
    }

    fn apply_units(
        &mut self,
        queue: &ApplyQueue,
        worker: &mut Worker,
        input: &[u8],
    ) -> Result<Progress, String> {
        let mut spans = Vec::new();
        while self.parsed < input.len() && queue.is_current() {
            spans.clear();
            match parse(input, self.parsed, &LIMITS, &mut self.partial, &mut spans) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Complete(end)) => {
                    if self.request(queue, worker, &Args::new(input, &spans)) == Progress::NeedsAll {
                        return Ok(Progress::NeedsAll);
                    }
                    self.parsed = end;
                    if !self.transactions.is_inside() {
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
            report_propagation_error(worker, &martlet_command::Error::unknown_command(args).to_bytes(), args);
            return Progress::Done;
        };
        match self.transactions.take(entry, args) {
            Ok(Step::Alone) => return self.run_one(worker, entry, args),
            Ok(Step::Nothing) => {}
            Ok(Step::Whole(queue)) => {
                let progress = self.run_unit(worker, &queue);
                if progress == Progress::NeedsAll {
                    self.transactions.put_back(queue);
                }
                return progress;
            }
            Err(OutOfPlace::Nested) => report_propagation_error(worker, &NESTED.to_bytes(), args),
            Err(OutOfPlace::Outside) => {}
        }
        Progress::Done
    }

    /// Runs a command that stands alone.
    fn run_one(&mut self, worker: &mut Worker, entry: &'static Entry, args: &Args<'_>) -> Progress {
        if entry.spec.control == Control::SelectDatabase {
            self.runner.select(worker, args);
            return Progress::Done;
        }
        let run = |applier: &mut Applier, worker: &mut Worker| {
            applier.runner.execute(worker, entry, args, None, false)
        };
        let progress = self.run_locked(worker, martlet_command::shards(entry.spec, args), run);
        if progress == Progress::Done {
            self.runner.after(worker, entry, args);
        }
        progress
    }

    /// Runs a transaction, with all its keys locked.
    fn run_unit(&mut self, worker: &mut Worker, queue: &Queue<&'static Entry>) -> Progress {
        let run = |applier: &mut Applier, worker: &mut Worker| {
            for (entry, args) in queue.iter() {
                if entry.spec.control == Control::SelectDatabase {
                    applier.runner.select(worker, &args);
                } else {
                    applier.runner.execute(worker, entry, &args, None, true);
                }
            }
        };
        let shards = queue.shards().filter(|shards| !self.reaches_beyond(worker, queue, shards));
        let progress = self.run_locked(worker, shards, run);
        if progress == Progress::Done {
            for (entry, args) in queue.iter() {
                self.runner.after(worker, entry, &args);
            }
        }
        progress
    }

    /// Whether commands of a transaction may need further shards than those of its keys.
    fn reaches_beyond(&self, worker: &mut Worker, queue: &Queue<&'static Entry>, shards: &[usize]) -> bool {
        let follows = |entry: &Entry| entry.spec.follows_links.is_some();
        if worker.keys.has_all_shards() || !queue.iter().any(|(entry, _)| follows(entry)) {
            return false;
        }
        let selects = |entry: &Entry| entry.spec.control == Control::SelectDatabase;
        let db = self.runner.connection.session.db;
        worker.keys.lock_shards(shards.to_vec());
        let reaches = queue
            .iter()
            .any(|(entry, args)| selects(entry) || follows(entry) && worker.reaches_beyond(db, entry, &args));
        worker.release_keys();
        reaches
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
                worker.publish_changes();
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

    /// Appends the applied bytes to the journal, for replicas and the backlog.
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
        replica.db.store(self.runner.connection.session.db, Ordering::Relaxed);
        let session = &self.runner.connection;
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
