//! The thread that frees large values, so that no thread with a locked shard waits for it, and that gives
//! freed memory back.

use martlet_base::alloc;
use martlet_base::clock::monotonic;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SendError, Sender, channel};
use std::time::Duration;

/// How often the idle thread gives memory that was freed back to the system.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);

/// The thread's jobs, in their order.
enum Job {
    /// Drop this, which counts as this many objects.
    Drop(usize, Box<dyn Any + Send>),
    /// Call this once earlier jobs are done.
    Tell(Box<dyn FnOnce() + Send>),
    /// Give freed memory back to the system.
    Purge,
}

/// A queue of things to drop, drained by one background thread that ends with the last handle.
#[derive(Clone, Debug)]
pub struct LazyFree {
    queue: Sender<Job>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    pending: AtomicU64,
    freed: AtomicU64,
    /// [`alloc::large_freed_bytes`] when the youngest freed memory was freed that was given back, or is to
    /// be.
    purged_at_bytes: AtomicU64,
}

impl LazyFree {
    /// Freeing a value that takes more steps than this is left to the thread (Redis: `LAZYFREE_THRESHOLD`).
    pub const EFFORT: usize = 64;

    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start() -> std::io::Result<LazyFree> {
        let (queue, jobs) = channel::<Job>();
        let counts = Arc::new(Counts::default());
        let shared = counts.clone();
        std::thread::Builder::new().name("lazyfree".into()).spawn(move || {
            martlet_base::thread::use_batch_scheduling();
            let mut next_purge = monotonic() + PURGE_INTERVAL;
            let mut freed_before_bytes = alloc::large_freed_bytes();
            loop {
                match jobs.recv_timeout(next_purge.saturating_duration_since(monotonic())) {
                    Ok(Job::Drop(objects, it)) => {
                        drop(it);
                        shared.pending.fetch_sub(objects as u64, Ordering::Relaxed);
                        shared.freed.fetch_add(objects as u64, Ordering::Relaxed);
                    }
                    Ok(Job::Tell(tell)) => tell(),
                    Ok(Job::Purge) => alloc::purge(),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if monotonic() >= next_purge {
                    alloc::purge_old();
                    // It gives back what was freed when the thread last came here.
                    shared.purged_at_bytes.fetch_max(freed_before_bytes, Ordering::Relaxed);
                    freed_before_bytes = alloc::large_freed_bytes();
                    next_purge = monotonic() + PURGE_INTERVAL;
                }
            }
        })?;
        Ok(LazyFree { queue, counts })
    }

    /// Leaves something to the thread; it counts as `objects` objects in INFO.
    pub fn free(&self, objects: usize, it: Box<dyn Any + Send>) {
        self.counts.pending.fetch_add(objects as u64, Ordering::Relaxed);
        if self.queue.send(Job::Drop(objects, it)).is_err() {
            // The thread is gone (it panicked while dropping): it was dropped here instead.
            self.counts.pending.fetch_sub(objects as u64, Ordering::Relaxed);
        }
    }

    /// Has the thread give freed memory back once large blocks of more than `beyond_bytes` have been freed
    /// since it last did. Its cost otherwise is a load or two.
    pub fn purge_beyond(&self, beyond_bytes: u64) {
        let purged_at = &self.counts.purged_at_bytes;
        let (freed, before) = (alloc::large_freed_bytes(), purged_at.load(Ordering::Relaxed));
        if freed.wrapping_sub(before) > beyond_bytes
            && purged_at.compare_exchange(before, freed, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            // Without the thread nothing is given back before the allocator looks itself.
            let _ = self.queue.send(Job::Purge);
        }
    }

    /// The most that large blocks which were freed may have left resident.
    pub fn unpurged_bytes(&self) -> u64 {
        let purged_at_bytes = self.counts.purged_at_bytes.load(Ordering::Relaxed);
        alloc::large_freed_bytes().saturating_sub(purged_at_bytes)
    }

    /// Calls `tell`, on the thread, once everything that was left to it before is freed.
    pub fn when_freed(&self, tell: Box<dyn FnOnce() + Send>) {
        if let Err(SendError(Job::Tell(tell))) = self.queue.send(Job::Tell(tell)) {
            tell();
        }
    }

    /// Waits until everything that was left to the thread before is freed. For tests, in which it would be
    /// taken for a leak.
    pub fn wait(&self) {
        let (freed, wait) = channel::<()>();
        self.when_freed(Box::new(move || drop(freed)));
        let _ = wait.recv();
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::LazyFree;

    #[test]
    fn who_waits_is_told_after_all_that_was_left_before() {
        let lazy = LazyFree::start().unwrap();
        let (told, wait) = channel();
        for round in 1..=3 {
            lazy.free(1000, Box::new(vec![vec![7u8; 100]; 1000]));
            lazy.free(0, Box::new([7u8; 100]));
            let (told, seen) = (told.clone(), lazy.clone());
            lazy.when_freed(Box::new(move || told.send((seen.freed(), seen.pending())).unwrap()));
            assert_eq!(wait.recv(), Ok((1000 * round, 0)));
        }
        lazy.reset_freed();
        assert_eq!(lazy.freed(), 0);
    }
}
