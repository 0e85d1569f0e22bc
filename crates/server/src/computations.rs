//! Threads that compute replies which take long and need no key any more: the client waits meanwhile, and no
//! other client of its thread does.
//!
//! Invariant: the threads start with the first such reply, and there are as many as cores, up to a limit.
//! Each client has one computation at most, so that the queue needs no limit.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};

use martlet_base::sync::lock;

use crate::process::guard_thread;

/// Computes a reply and sends it.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads, at most.
const THREADS_MAX: usize = 16;

/// See the [module docs](self).
#[derive(Debug, Default)]
pub struct Computations(OnceLock<Mutex<Sender<Job>>>);

impl Computations {
    /// Leaves a job to one of the threads.
    pub fn run(&self, job: Job) {
        let queue = lock(self.0.get_or_init(|| Mutex::new(start())));
        if let Err(left) = queue.send(job) {
            // No thread could be started.
            drop(queue);
            (left.0)();
        }
    }
}

fn start() -> Sender<Job> {
    let (queue, jobs) = channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    for number in 0..threads {
        let jobs = Arc::clone(&jobs);
        let body = move || {
            guard_thread();
            while let Some(job) = next(&jobs) {
                job();
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
