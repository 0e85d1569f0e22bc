//! The lock under loom, which tries the interleavings of small scenes, and with real threads; `gate.rs` has
//! the same of the gate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::RawLock;
use crate::thread::cpu_ns;

/// The base of `modelled`: fences in place of the asymmetric barriers, and a kernel without spurious wakes.
mod atomic {
    pub use crate::sync::waits;
    pub use loom::sync::atomic::{AtomicU32, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex, MutexGuard};

    pub fn put(word: &AtomicU32, value: u32) {
        word.store(value, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub const SPINS: u32 = 1;
    pub const PATIENCE: u32 = 1;

    pub mod park {
        use std::num::NonZeroU32;

        use loom::sync::atomic::{AtomicU32, Ordering, fence};
        use loom::sync::{Condvar, Mutex, MutexGuard};

        pub const ALL: NonZeroU32 = NonZeroU32::MAX;

        struct Sleeper {
            number: u32,
            word: usize,
            classes: u32,
        }

        /// Sleeping threads, in their order, and how many ever have.
        struct Kernel {
            sleepers: Mutex<(u32, Vec<Sleeper>)>,
            woken: Condvar,
        }

        loom::lazy_static! {
            static ref KERNEL: Kernel =
                Kernel { sleepers: Mutex::new((0, Vec::new())), woken: Condvar::new() };
        }

        pub fn light_barrier() {
            fence(Ordering::SeqCst);
        }

        pub fn heavy_barrier() {
            fence(Ordering::SeqCst);
        }

        pub fn wait(word: &AtomicU32, expected: u32, classes: NonZeroU32) -> bool {
            let mut guard = KERNEL.sleepers.lock().unwrap();
            // The kernel's look at the word is not older than its lock.
            fence(Ordering::SeqCst);
            if word.load(Ordering::SeqCst) != expected {
                return false;
            }
            let number = guard.0;
            guard.0 += 1;
            guard.1.push(Sleeper { number, word: address(word), classes: classes.get() });
            while guard.1.iter().any(|sleeper| sleeper.number == number) {
                guard = KERNEL.woken.wait(guard).unwrap();
            }
            true
        }

        /// No time is ever up: a thread that is to give up is woken.
        pub fn wait_briefly(word: &AtomicU32, expected: u32, classes: NonZeroU32) -> bool {
            wait(word, expected, classes)
        }

        pub fn wait_briefly_on<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            condition.wait(guard).unwrap()
        }

        pub fn wake_one(word: &AtomicU32, classes: NonZeroU32) {
            fence(Ordering::SeqCst);
            let mut guard = KERNEL.sleepers.lock().unwrap();
            let is_woken =
                |sleeper: &Sleeper| sleeper.word == address(word) && sleeper.classes & classes.get() != 0;
            if let Some(at) = guard.1.iter().position(is_woken) {
                guard.1.remove(at);
                KERNEL.woken.notify_all();
            }
        }

        pub fn wake_all(word: &AtomicU32) {
            fence(Ordering::SeqCst);
            let mut guard = KERNEL.sleepers.lock().unwrap();
            guard.1.retain(|sleeper| sleeper.word != address(word));
            KERNEL.woken.notify_all();
        }

        fn address(word: &AtomicU32) -> usize {
            std::ptr::from_ref(word).addr()
        }
    }
}

mod gate;

#[allow(clippy::duplicate_mod)]
#[path = "lock.rs"]
mod modelled;

// What has nothing to do with other threads is not modelled.
#[allow(clippy::duplicate_mod, dead_code)]
#[path = "gate.rs"]
mod modelled_gate;

/// A queue without waiters.
const EMPTY: (u32, u32, bool) = (0, 0, false);

/// Each of `threads` takes the lock `turns` times. Loom reports a lost wake as a deadlock, and two threads
/// inside as a race for the counter.
fn explore(threads: u32, turns: u32, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let scene = loom::sync::Arc::new((modelled::RawLock::new(), loom::cell::UnsafeCell::new(0)));
        let take_turns = move |(lock, count): &(modelled::RawLock, loom::cell::UnsafeCell<u32>)| {
            for _ in 0..turns {
                lock.lock();
                // SAFETY: the lock is held, which loom checks.
                count.with_mut(|count| unsafe { *count += 1 });
                lock.unlock();
            }
        };
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let scene = scene.clone();
                loom::thread::spawn(move || take_turns(&scene))
            })
            .collect();
        take_turns(&scene);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: the other threads have ended.
        assert_eq!(scene.1.with(|count| unsafe { *count }), threads * turns);
        assert!(scene.0.try_lock() && scene.0.queue() == EMPTY, "it is left as it was made");
    });
}

/// One thread waits for the lock as long as it takes, another gives up once the first has had it, and this
/// one at once.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_with_one_that_gives_up_loses_a_wake() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let lock = loom::sync::Arc::new(modelled::RawLock::new());
        let is_over = loom::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let (patient, over) = (lock.clone(), is_over.clone());
        let patient = loom::thread::spawn(move || {
            patient.lock();
            over.store(true, Ordering::Relaxed);
            patient.unlock();
        });
        let hasty = |lock: &modelled::RawLock, gives_up: &dyn Fn() -> bool| {
            if lock.lock_unless(gives_up) {
                lock.unlock();
            }
        };
        let other = lock.clone();
        let other = loom::thread::spawn(move || hasty(&other, &|| is_over.load(Ordering::Relaxed)));
        hasty(&lock, &|| true);
        patient.join().unwrap();
        other.join().unwrap();
        assert!(lock.try_lock() && lock.queue() == EMPTY, "it is left as it was made");
    });
}

#[test]
fn a_wait_for_a_lock_that_is_kept_is_given_up() {
    let (lock, is_over) = (RawLock::new(), AtomicBool::new(false));
    lock.lock();
    std::thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..3).map(|_| scope.spawn(|| lock.lock_unless(|| is_over.load(Ordering::Relaxed)))).collect();
        while lock.queue().0 < 3 {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(waiters.into_iter().all(|waiter| !waiter.join().unwrap()));
        assert_eq!(lock.queue(), EMPTY);
    });
    lock.unlock();
    assert!(lock.lock_unless(|| true));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_of_two_threads_loses_a_wake() {
    explore(2, 3, 3);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_of_three_threads_loses_a_wake() {
    explore(3, 1, 3);
}

#[test]
fn excludes_with_more_threads_than_cores() {
    const THREADS: u64 = 8;
    let turns: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let (lock, counter) = (RawLock::new(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for turn in 0..turns {
                    lock.lock();
                    // A lost update would show if two threads were inside.
                    let seen = counter.load(Ordering::Relaxed);
                    if turn % 64 == 0 {
                        // Long enough for the others to park.
                        std::thread::yield_now();
                    }
                    counter.store(seen + 1, Ordering::Relaxed);
                    lock.unlock();
                }
            });
        }
    });
    assert_eq!(counter.load(Ordering::Relaxed), THREADS * turns);
    assert!(lock.try_lock() && lock.queue() == EMPTY);
    assert!(!lock.try_lock());
}

/// Waits until this number of threads waits for the lock.
fn await_waiters(lock: &RawLock, count: u32) {
    while lock.queue().0 < count {
        std::thread::yield_now();
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no processor time")]
fn waiters_behind_a_long_hold_use_no_processor_time() {
    const WAITERS: u32 = 16;
    const HOLD_NS: u64 = 200_000_000;
    let (lock, waiting_ns) = (RawLock::new(), AtomicU64::new(0));
    lock.lock();
    std::thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let began = cpu_ns();
                lock.lock();
                waiting_ns.fetch_add(cpu_ns() - began, Ordering::Relaxed);
                lock.unlock();
            });
        }
        await_waiters(&lock, WAITERS);
        // Processor time of this thread, so that whatever else the machine does counts for neither side.
        let began = cpu_ns();
        while cpu_ns() - began < HOLD_NS {}
        lock.unlock();
    });
    let all_ns = waiting_ns.into_inner();
    assert!(all_ns < HOLD_NS / 10, "{WAITERS} waiters used {all_ns} ns during a hold of {HOLD_NS} ns");
}

/// A thread that takes the lock again as soon as it has released it, beside three that want it, too. Once one
/// of them starves, the next release is its turn.
#[test]
fn a_starving_waiter_has_the_next_turn() {
    const HANDOVERS: u64 = 5;
    let (lock, turns, is_over) = (RawLock::new(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    lock.lock();
                    turns.fetch_add(1, Ordering::Relaxed);
                    lock.unlock();
                }
            });
        }
        let mut handovers = 0;
        while handovers < HANDOVERS {
            lock.lock();
            // A woken thread finds the lock held, and is about to sleep again.
            while matches!(lock.queue(), (0, ..) | (.., true)) {
                std::thread::yield_now();
            }
            let (is_due, before) = (lock.queue().1 > 0, turns.load(Ordering::Relaxed));
            lock.unlock();
            if is_due {
                lock.lock();
                assert!(turns.load(Ordering::Relaxed) > before, "somebody starves, and had no turn");
                lock.unlock();
                handovers += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
