//! The thread that frees large values, so that nobody who holds a shard waits for it, and that gives freed memory back.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often the idle thread gives memory that was freed back to the system.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);

/// A queue of things to drop, drained by one background thread that ends with the last handle.
#[derive(Clone, Debug)]
pub struct LazyFree {
    queue: Sender<(usize, Box<dyn Any + Send>)>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    pending: AtomicU64,
    freed: AtomicU64,
}

impl LazyFree {
    /// Freeing a value that takes more steps than this is left to the thread (Redis: `LAZYFREE_THRESHOLD`).
    pub const EFFORT: usize = 64;

    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start() -> std::io::Result<LazyFree> {
        let (queue, jobs) = channel::<(usize, Box<dyn Any + Send>)>();
        let counts = Arc::new(Counts::default());
        let shared = counts.clone();
        std::thread::Builder::new().name("lazyfree".into()).spawn(move || {
            martlet_base::thread::give_way();
            loop {
                match jobs.recv_timeout(PURGE_INTERVAL) {
                    Ok((objects, job)) => {
                        drop(job);
                        shared.pending.fetch_sub(objects as u64, Ordering::Relaxed);
                        shared.freed.fetch_add(objects as u64, Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => martlet_base::alloc::purge_old(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        })?;
        Ok(LazyFree { queue, counts })
    }

    /// Leaves something to the thread; it counts as `objects` objects in INFO.
    pub fn free(&self, objects: usize, job: Box<dyn Any + Send>) {
        self.counts.pending.fetch_add(objects as u64, Ordering::Relaxed);
        if self.queue.send((objects, job)).is_err() {
            // The thread is gone (it panicked while dropping): the job was dropped here instead.
            self.counts.pending.fetch_sub(objects as u64, Ordering::Relaxed);
        }
    }

    /// Objects not freed yet.
    pub fn pending(&self) -> u64 {
        self.counts.pending.load(Ordering::Relaxed)
    }

    /// Objects freed since the start or the last reset.
    pub fn freed(&self) -> u64 {
        self.counts.freed.load(Ordering::Relaxed)
    }

    /// Forgets how many were freed (CONFIG RESETSTAT).
    pub fn reset_freed(&self) {
        self.counts.freed.store(0, Ordering::Relaxed);
    }
}
