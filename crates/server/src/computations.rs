//! Threads for work that takes long: replies that are computed while their client waits, scans of keys for
//! indexes. No client of an I/O thread waits for them but the one that asked.
//!
//! Invariant: the threads start with the first work, and there are as many as cores, up to a limit. Each
//! client has one computation at most, and each index one scan, so that the queue needs no limit.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_command::Computing;
use martlet_engine::{Engine, Keys};

use crate::process::guard_thread;

/// A piece of work.
pub type Job = Box<dyn FnOnce(&mut Computing) + Send>;

/// Threads, at most.
pub const THREADS_MAX: usize = 16;

/// See the [module docs](self).
pub struct Computations {
    engine: &'static Engine,
    /// The threads' first number at the gate.
    first: usize,
    queue: OnceLock<Mutex<Sender<Job>>>,
    /// The means of jobs that no thread takes.
    inline: Mutex<Option<Computing>>,
}

/// How many threads there are.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

impl Computations {
    /// Threads over an engine's keys, with numbers at the gate from `first` on.
    pub fn new(engine: &'static Engine, first: usize) -> Computations {
        Computations { engine, first, queue: OnceLock::new(), inline: Mutex::default() }
    }

    /// Leaves a job to one of the threads.
    pub fn run(&self, job: Job) {
        let queue = lock(self.queue.get_or_init(|| Mutex::new(start(self.engine, self.first))));
        if let Err(left) = queue.send(job) {
            // No thread could be started.
            drop(queue);
            let mut inline = lock(&self.inline);
            let computing = inline.get_or_insert_with(|| computing(self.engine, self.first));
            computing.outside = None;
            (left.0)(computing);
        }
    }
}

fn computing(engine: &'static Engine, thread: usize) -> Computing {
    Computing { keys: Keys::new(engine, thread, Random::from_entropy()), outside: Some(thread) }
}

fn start(engine: &'static Engine, first: usize) -> Sender<Job> {
    let (queue, jobs) = channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    for number in 0..threads() {
        let jobs = Arc::clone(&jobs);
        let body = move || {
            guard_thread();
            let mut computing = computing(engine, first + number);
            while let Some(job) = next(&jobs) {
                job(&mut computing);
            }
        };
        let started = std::thread::Builder::new().name(format!("compute-{number}")).spawn(body);
        if let Err(error) = started {
            tracing::warn!("No thread for long searches: {error}");
        }
    }
    queue
}

/// Waits for a job; one thread waits for the queue, the others for that thread.
fn next(jobs: &Mutex<Receiver<Job>>) -> Option<Job> {
    lock(jobs).recv().ok()
}
