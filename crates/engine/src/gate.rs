//! The gate: threads pass in and out once per batch of requests; closing it gives one thread the whole store.
//!
//! Each thread has a flag on a cache line of its own, so passing costs one exchange on an uncontended line.
//! The closer raises `closed` and waits for all flags to fall; a thread that finds the gate closed takes its
//! flag back and waits. Both sides write their own word, then read the other's, all sequentially consistent:
//! one of them sees the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_utils::CachePadded;

const SPINS: u32 = 200;
const YIELDS: u32 = 50;

/// See the module's page.
#[derive(Debug)]
pub struct Gate {
    inside: Box<[CachePadded<AtomicBool>]>,
    closed: AtomicBool,
    /// Held by the thread for which the gate is closed.
    closer: Mutex<()>,
    /// Guards nothing; pairs with `opened`.
    waiting: Mutex<()>,
    opened: Condvar,
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    // A panic elsewhere leaves no half-changed state behind these mutexes: they guard none.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// A gate for threads numbered `0..threads`.
    pub fn new(threads: usize) -> Gate {
        Gate {
            inside: (0..threads).map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
            closed: AtomicBool::new(false),
            closer: Mutex::new(()),
            waiting: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// Passes in, waiting while the gate is closed. Each thread number belongs to one thread.
    #[inline]
    pub fn enter(&self, thread: usize) {
        loop {
            self.inside[thread].store(true, Ordering::SeqCst);
            if !self.closed.load(Ordering::SeqCst) {
                return;
            }
            self.inside[thread].store(false, Ordering::SeqCst);
            self.wait_until_open();
        }
    }

    /// Passes out.
    #[inline]
    pub fn leave(&self, thread: usize) {
        self.inside[thread].store(false, Ordering::Release);
    }

    #[cold]
    fn wait_until_open(&self) {
        for _ in 0..SPINS {
            if !self.closed.load(Ordering::SeqCst) {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.waiting);
        while self.closed.load(Ordering::SeqCst) {
            guard = self.opened.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs `alone` with every thread outside. The calling thread must be outside too.
    pub fn closed<R>(&self, alone: impl FnOnce() -> R) -> R {
        let closer = lock(&self.closer);
        self.closed.store(true, Ordering::SeqCst);
        let _open = Reopen(self);
        for flag in &self.inside {
            let mut attempts = 0u32;
            while flag.load(Ordering::SeqCst) {
                attempts += 1;
                if attempts < SPINS {
                    std::hint::spin_loop();
                } else if attempts < SPINS + YIELDS {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
        }
        let result = alone();
        drop(_open);
        drop(closer);
        result
    }
}

/// Opens the gate again, also when the work behind it panics.
struct Reopen<'g>(&'g Gate);

impl Drop for Reopen<'_> {
    fn drop(&mut self) {
        let guard = lock(&self.0.waiting);
        self.0.closed.store(false, Ordering::SeqCst);
        drop(guard);
        self.0.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_is_inside_while_it_is_closed() {
        let gate = Gate::new(4);
        let inside = AtomicU64::new(0);
        let total = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (gate, inside, total) = (&gate, &inside, &total);
                scope.spawn(move || {
                    for round in 0..2_000 {
                        if round % 50 == thread {
                            gate.closed(|| {
                                assert_eq!(inside.load(Ordering::SeqCst), 0);
                                total.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        gate.enter(thread);
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave(thread);
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 160);
    }

    #[test]
    fn reopens_after_a_panic() {
        let gate = Gate::new(1);
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gate.closed(|| panic!("inside"))));
        assert!(caught.is_err());
        gate.enter(0);
        gate.leave(0);
        gate.closed(|| ());
    }
}
