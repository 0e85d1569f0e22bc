//! Applying with all I/O threads, when more of the stream waits than one of them keeps up with.
//!
//! The applying thread calls the others, closes the gate and admits them
//! ([`Gate::admit`](martlet_engine::Gate)). Behind it the next commands, up to the first that is more than a
//! write to one key, are dealt out by the shards of their keys: each *partition* has the commands of its
//! shards in the stream's order, and each thread that has come takes partitions until none is left. The gate
//! opens once all are done and their bytes are in the journal, so that clients always see the data as it was
//! at some place of the stream. A thread that comes too late, or was in the middle of something, finds
//! nothing left to do and is not waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use martlet_base::sync::{lock, wait_while};
use martlet_command::Flags;
use martlet_engine::{Alone, Beside};
use martlet_keyspace::shard_of;
use martlet_protocol::request::{Args, Parsed, Partial, RequestLimits, Span, parse};

use super::runner::{Runner, Runners};
use crate::registry::{Entry, Registry};
use crate::runtime::{Shared, Worker};
use crate::slots::{Kept, Place};

/// Partitions for each thread: one whose commands cost more than others' holds up less.
const PARTITIONS_PER_THREAD: usize = 4;
/// Commands of a partition whose keys are fetched into the caches before the first of them runs.
const PREFETCH_BATCH: usize = 32;

/// Calls threads to a stream's work. One per server.
#[derive(Default)]
pub struct ParallelApply {
    call: Mutex<Option<Arc<Call>>>,
}

/// The call's work.
struct Call {
    runners: Arc<Runners>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

enum Stage {
    /// The gate is being closed.
    Closing,
    Work(Arc<Work>),
    Over,
}

/// Ends a call when it is dropped.
pub(super) struct ApplySession {
    shared: &'static Shared,
    call: Arc<Call>,
}

impl Kept for ParallelApply {
    const PLACE: Place = Place::ParallelApply;
}

impl ApplySession {
    /// Calls all other threads, each of which has its runner.
    pub fn begin(shared: &'static Shared, runners: &Arc<Runners>) -> ApplySession {
        let call = Arc::new(Call {
            runners: runners.clone(),
            stage: Mutex::new(Stage::Closing),
            changed: Condvar::new(),
        });
        *lock(&shared.slots.of::<ParallelApply>().call) = Some(call.clone());
        shared.replication.replica.calls_all.store(true, Ordering::Release);
        shared.wake_all();
        ApplySession { shared, call }
    }

    /// Hands out `work` and takes part in it; returns when all of it is done and the calling thread is alone
    /// again.
    pub fn share(&self, alone: &mut Alone, worker: &mut Worker, work: &Arc<Work>) {
        self.shared.engine.gate.admit(alone, |beside| {
            *lock(&self.call.stage) = Stage::Work(work.clone());
            self.call.changed.notify_all();
            work.run_share(beside, worker, &self.call.runners);
            work.wait();
        });
    }
}

impl Drop for ApplySession {
    fn drop(&mut self) {
        self.shared.replication.replica.calls_all.store(false, Ordering::Release);
        *lock(&self.shared.slots.of::<ParallelApply>().call) = None;
        *lock(&self.call.stage) = Stage::Over;
        self.call.changed.notify_all();
    }
}

impl Worker {
    /// Takes part in what threads are called to, and passes the gate again. To be called between commands.
    #[cold]
    pub(crate) fn join_parallel_apply(&mut self) {
        self.leave();
        self.refresh_time();
        self.turn.begin(self.mark);
        self.join_session();
        self.enter();
        self.serve_ready_after_session();
    }

    fn join_session(&mut self) {
        let Some(call) = lock(&self.shared.slots.of::<ParallelApply>().call).clone() else { return };
        let stage = lock(&call.stage);
        let closing = |stage: &mut Stage| matches!(stage, Stage::Closing);
        let stage = wait_while(&call.changed, stage, closing);
        let Stage::Work(work) = &*stage else { return };
        let work = work.clone();
        drop(stage);
        let gate = &self.shared.engine.gate;
        // If it is too late, all of the work is done.
        gate.join(|beside| {
            self.stats().begin();
            self.keys.effects.recording = self.shared.engine.journal.is_on();
            work.run_share(beside, self, &call.runners);
            self.stats().rest();
        });
    }

    /// Serves clients that wait for keys that partitions have changed: not behind the closed gate, as a
    /// served command may want to close it.
    pub(super) fn serve_ready_after_session(&mut self) {
        if !self.keys.ready.is_empty() && !self.is_excluded() {
            self.serve_ready();
        }
    }
}

/// One command of a piece of the stream.
struct Planned {
    entry: &'static Entry,
    /// Its arguments among the spans.
    first: usize,
    count: usize,
    /// The argument that is its key, and the key's hash.
    key: (usize, u64),
}

/// Writes to one key each, which stand together in the stream.
pub(super) struct Plan {
    spans: Vec<Span>,
    commands: Vec<Planned>,
    /// Where they end.
    pub end: usize,
}

impl Plan {
    /// Reads the commands that begin at `at`, as long as they can be dealt out. Everything else, damaged
    /// input too, is left.
    pub fn read(registry: &'static Registry, input: &[u8], at: usize, limits: &RequestLimits) -> Plan {
        let mut plan = Plan { spans: Vec::new(), commands: Vec::new(), end: at };
        let mut spans = Vec::new();
        while plan.end < input.len() {
            spans.clear();
            let Ok(Parsed::Complete(end)) =
                parse(input, plan.end, limits, &mut Partial::default(), &mut spans)
            else {
                break;
            };
            let args = Args::new(input, &spans);
            let entry = (!args.is_empty()).then(|| registry.resolve(&args)).flatten();
            let Some((entry, key)) = entry.and_then(|entry| Some((entry, entry.plain_key?))) else { break };
            // It may change keys that only its data names.
            if entry.spec.follows_links.is_some() {
                break;
            }
            if !entry.spec.flags.has(Flags::WRITE) || !entry.spec.takes(args.len()) || key >= args.len() {
                break;
            }
            let hash = martlet_keyspace::key_hash(args.at(key));
            let first = plan.spans.len();
            plan.commands.push(Planned { entry, first, count: spans.len(), key: (key, hash) });
            plan.spans.extend_from_slice(&spans);
            plan.end = end;
        }
        plan
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.commands.len()
    }
}

/// A plan that is carried out.
pub(super) struct Work {
    /// The stream's bytes that it was made of.
    pub input: Vec<u8>,
    plan: Plan,
    db: usize,
    /// Places among the commands.
    partitions: Vec<Vec<u32>>,
    /// The partition that is taken next.
    next: AtomicUsize,
    /// Lanes that are not done.
    left: Mutex<usize>,
    done: Condvar,
}

impl Work {
    /// Deals out the commands, whose keys are in this database.
    pub fn new(input: Vec<u8>, plan: Plan, db: usize, threads: usize) -> Work {
        let count = threads * PARTITIONS_PER_THREAD;
        let mut partitions = vec![Vec::new(); count];
        for (at, command) in plan.commands.iter().enumerate() {
            partitions[shard_of(command.key.1) % count].push(at as u32);
        }
        let left = Mutex::new(count);
        Work { input, plan, db, partitions, next: AtomicUsize::new(0), left, done: Condvar::new() }
    }

    /// Takes partitions as long as there are any.
    fn run_share(&self, beside: &Beside, worker: &mut Worker, runners: &Runners) {
        let runner = &mut *runners.of(worker.thread);
        runner.connection.session.db = self.db;
        while let Some(partition) = self.partitions.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            for batch in partition.chunks(PREFETCH_BATCH) {
                let commands = || batch.iter().map(|&at| &self.plan.commands[at as usize]);
                let mut hashes = [0; PREFETCH_BATCH];
                hashes.iter_mut().zip(commands()).for_each(|(hash, command)| *hash = command.key.1);
                worker.prefetch_many(self.db, &hashes[..batch.len()]);
                commands().for_each(|command| self.run(beside, worker, runner, command));
            }
            let mut left = lock(&self.left);
            *left -= 1;
            if *left == 0 {
                self.done.notify_all();
            }
        }
    }

    fn run(&self, _: &Beside, worker: &mut Worker, runner: &mut Runner, command: &Planned) {
        let args = Args::new(&self.input, &self.plan.spans[command.first..command.first + command.count]);
        worker.keys.lock_shard(shard_of(command.key.1));
        runner.execute(worker, command.entry, &args, Some(command.key), false);
        worker.release_keys();
        worker.count_changes();
        worker.keys.recorded = 0;
    }

    fn wait(&self) {
        let left = lock(&self.left);
        drop(wait_while(&self.done, left, |left| *left > 0));
    }
}
