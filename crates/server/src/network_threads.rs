//! Threads that wait for other servers on behalf of clients: MIGRATE's exchanges, searches in a cluster.
//!
//! They know no keys, hold no lock of the keyspace and are not inside the gate. However long another server
//! takes, only the clients that need its answer wait.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use martlet_base::sync::{lock, wait_while_at_most};

/// As many tasks are under way at a time; more wait for their turn.
const THREADS_MAX: usize = 64;
/// How long a thread waits for another task before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Task = Box<dyn FnOnce(bool) + Send>;

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
}

/// See the [module docs](self). The threads start as they are needed, and end when they are not.
#[derive(Default)]
pub struct NetworkThreads {
    queue: Mutex<Queue>,
    added: Condvar,
}

impl NetworkThreads {
    /// Runs a task on one of the threads, which gets `true`; if there is no thread and none can be had, it is
    /// called at once with `false`, and must not wait. A new thread gets this name.
    pub fn run(&'static self, name: &str, task: impl FnOnce(bool) + Send + 'static) {
        let mut queue = lock(&self.queue);
        if queue.idle <= queue.tasks.len() && queue.threads < THREADS_MAX {
            match std::thread::Builder::new().name(name.into()).spawn(move || self.serve()) {
                Ok(_) => queue.threads += 1,
                Err(error) => tracing::warn!("No thread for {name}: {error}"),
            }
        }
        if queue.threads == 0 {
            drop(queue);
            return task(false);
        }
        queue.tasks.push_back(Box::new(task));
        self.added.notify_one();
    }

    fn serve(&self) {
        crate::process::guard_thread();
        let mut queue = lock(&self.queue);
        loop {
            while let Some(task) = queue.tasks.pop_front() {
                drop(queue);
                task(true);
                queue = lock(&self.queue);
            }
            queue.idle += 1;
            queue = wait_while_at_most(&self.added, queue, IDLE, |queue| queue.tasks.is_empty());
            queue.idle -= 1;
            if queue.tasks.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}
