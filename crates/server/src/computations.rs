//! Threads for work that takes long: replies that are computed while their client waits, scans of keys for
//! indexes. No client of an I/O thread waits for them but the one that asked.
//!
//! Invariant: there are as many threads as cores, up to a limit, from the server's start to its end. Each
//! client has one computation at most, and there are as many turns of scans as threads at most, so that the
//! queue needs no limit.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

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
    queue: Mutex<Sender<Job>>,
    /// For the threads; each waits in its turn.
    jobs: Mutex<Receiver<Job>>,
}

/// How many threads there are.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

impl Computations {
    /// Threads over an engine's keys, with numbers at the gate from `first` on; they have not been started.
    pub fn new(engine: &'static Engine, first: usize) -> Computations {
        let (queue, jobs) = channel();
        Computations { engine, first, queue: Mutex::new(queue), jobs: Mutex::new(jobs) }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system refuses one.
    pub fn start(&'static self) -> io::Result<()> {
        for number in 0..threads() {
            let body = move || {
                guard_thread();
                martlet_base::thread::use_batch_scheduling();
                let thread = self.first + number;
                let keys = Keys::new(self.engine, thread, Random::from_entropy());
                let mut computing = Computing { keys, outside: Some(thread) };
                while let Some(job) = self.next() {
                    // The panic's hook has reported it; other jobs have their thread still.
                    let _ = catch_unwind(AssertUnwindSafe(|| job(&mut computing)));
                }
            };
            std::thread::Builder::new().name(format!("compute-{number}")).spawn(body)?;
        }
        Ok(())
    }

    /// Leaves a job to one of the threads.
    pub fn run(&self, job: Job) {
        // The other end of the queue is beside this one.
        let _ = lock(&self.queue).send(job);
    }

    /// Waits for a job; one thread waits for the queue, the others for that thread.
    fn next(&self) -> Option<Job> {
        lock(&self.jobs).recv().ok()
    }
}
