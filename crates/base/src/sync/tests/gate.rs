//! The gate under loom, which tries the interleavings of small scenes, and with real threads, where turns are
//! counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};

use super::modelled_gate as modelled;
use crate::sync::Gate;
use crate::thread::cpu_ns;

/// Threads that pass in and out, and one that closes: none is inside in that time, and no wake is lost, which
/// loom would report as a deadlock.
fn explore(passing: usize, closings: u32, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let scene = loom::sync::Arc::new((modelled::Gate::new(passing), loom::cell::UnsafeCell::new(0_u32)));
        let threads: Vec<_> = (0..passing)
            .map(|thread| {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.0.enter(thread);
                    // SAFETY: no thread writes while one is inside, which loom checks.
                    scene.1.with(|count| unsafe { *count });
                    scene.0.leave(thread);
                })
            })
            .collect();
        for _ in 0..closings {
            // SAFETY: every thread is outside, which loom checks.
            scene.0.closed(|_| scene.1.with_mut(|count| unsafe { *count += 1 }));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(scene.0.waiters(), (0, 0));
    });
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_of_one_thread_and_closings_goes_wrong() {
    explore(1, 2, 4);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_of_two_threads_and_a_closing_goes_wrong() {
    explore(2, 1, 3);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_of_two_closers_goes_wrong() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let scene = loom::sync::Arc::new((modelled::Gate::new(1), loom::cell::UnsafeCell::new(0_u32)));
        let close = |(gate, count): &(modelled::Gate, loom::cell::UnsafeCell<u32>)| {
            // SAFETY: no other thread is behind the gate, which loom checks.
            gate.closed(|_| count.with_mut(|count| unsafe { *count += 1 }));
        };
        let other = scene.clone();
        let closer = loom::thread::spawn(move || close(&other));
        close(&scene);
        scene.0.enter(0);
        scene.0.leave(0);
        closer.join().unwrap();
        assert_eq!(scene.0.waiters(), (0, 0));
    });
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_with_those_who_give_up_goes_wrong() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let scene = loom::sync::Arc::new((modelled::Gate::new(1), loom::cell::UnsafeCell::new(0_u32)));
        // SAFETY: no other thread is behind the gate, which loom checks.
        let count = |count: &loom::cell::UnsafeCell<u32>| count.with_mut(|count| unsafe { *count += 1 });
        let other = scene.clone();
        let closer = loom::thread::spawn(move || other.0.closed(|_| count(&other.1)));
        let other = scene.clone();
        let hasty = loom::thread::spawn(move || other.0.closed_unless(|| true, |_| count(&other.1)));
        if scene.0.enter_unless(0, || true) {
            // SAFETY: no thread writes while one is inside, which loom checks.
            scene.1.with(|count| unsafe { *count });
            scene.0.leave(0);
        }
        closer.join().unwrap();
        hasty.join().unwrap();
        assert_eq!(scene.0.waiters(), (0, 0));
    });
}

/// A closer that admits a thread, beside one that passes: the joining thread's changes come before those that
/// the closer makes alone again, no thread is inside in that time, and no wake is lost.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn no_interleaving_of_threads_that_join_the_closer_goes_wrong() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        type Scene = (modelled::Gate, [loom::cell::UnsafeCell<u32>; 2]);
        let scene: loom::sync::Arc<Scene> =
            loom::sync::Arc::new((modelled::Gate::new(1), std::array::from_fn(|_| Default::default())));
        let add = |cell: &loom::cell::UnsafeCell<u32>, by: u32| {
            // SAFETY: a cell belongs to one thread beside the closer, or to the closer alone, which loom
            // checks.
            cell.with_mut(|cell| unsafe { *cell += by });
        };
        let other = scene.clone();
        let guest = loom::thread::spawn(move || other.0.join(|_| add(&other.1[1], 1)).is_some());
        let other = scene.clone();
        let passing = loom::thread::spawn(move || {
            other.0.enter(0);
            // SAFETY: no thread writes while one is inside, which loom checks.
            let sum: u32 = other.1.iter().map(|cell| cell.with(|cell| unsafe { *cell })).sum();
            assert!(sum == 0 || sum >= 13, "{sum}");
            other.0.leave(0);
        });
        let in_party = scene.0.closed(|alone| {
            scene.1.iter().for_each(|cell| add(cell, 2));
            scene.0.admit(alone, |_| add(&scene.1[0], 1));
            scene.1.iter().for_each(|cell| add(cell, 4));
            // SAFETY: every other thread is outside again, which loom checks.
            scene.1[1].with(|cell| unsafe { *cell }) == 7
        });
        assert_eq!(guest.join().unwrap(), in_party);
        passing.join().unwrap();
        assert_eq!(scene.0.waiters(), (0, 0));
    });
}

#[test]
fn threads_join_only_while_the_closer_admits_them() {
    let gate = Gate::new(1);
    assert!(gate.join(|_| ()).is_none());
    let (joined, has_joined) = mpsc::channel();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        gate.closed(|alone| {
            scope.spawn(|| assert!(gate.join(|_| ()).is_none())).join().unwrap();
            gate.admit(alone, |_| {
                let (gate, is_done) = (&gate, &is_done);
                scope.spawn(move || {
                    gate.join(|_| {
                        joined.send(()).unwrap();
                        // Long enough for the closer to sleep.
                        (0..100).for_each(|_| std::thread::yield_now());
                        is_done.store(true, Ordering::Relaxed);
                    })
                });
                has_joined.recv().unwrap();
            });
            assert!(is_done.load(Ordering::Relaxed));
            scope.spawn(|| assert!(gate.join(|_| ()).is_none())).join().unwrap();
        });
    });
    assert!(gate.join(|_| ()).is_none());
}

#[test]
fn a_thread_that_waits_outside_keeps_no_closer_waiting() {
    let gate = Gate::new(1);
    gate.enter(0);
    std::thread::scope(|scope| {
        gate.outside(0, |_| scope.spawn(|| gate.closed(|_| ())).join().unwrap());
    });
    gate.closed(|_| ());
}

#[test]
fn waits_behind_work_without_end_are_given_up() {
    let (gate, is_over) = (Gate::new(2), AtomicBool::new(false));
    let gives_up = || is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        gate.closed(|_| {
            let closer = scope.spawn(|| gate.closed_unless(gives_up, |_| ()));
            let passing = scope.spawn(|| gate.enter_unless(0, gives_up));
            await_waiters(&gate, 1, 2);
            is_over.store(true, Ordering::Relaxed);
            assert!(closer.join().unwrap().is_none() && !passing.join().unwrap());
        });
        assert!(gate.enter_unless(0, || true));
        is_over.store(false, Ordering::Relaxed);
        // One that has closed it for a thread that does not leave opens it again.
        let closer = scope.spawn(|| gate.closed_unless(gives_up, |_| ()));
        await_waiters(&gate, 0, 1);
        is_over.store(true, Ordering::Relaxed);
        assert!(closer.join().unwrap().is_none());
        assert!(gate.enter_unless(1, || true));
        gate.leave(0);
        gate.leave(1);
        assert_eq!(gate.closed_unless(|| true, |_| 7), Some(7));
    });
}

#[test]
fn nobody_is_inside_while_it_is_closed() {
    let rounds: u64 = if cfg!(miri) { 50 } else { 2_000 };
    let gate = Gate::new(4);
    let (inside, closings) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (gate, inside, closings) = (&gate, &inside, &closings);
            scope.spawn(move || {
                for round in 0..rounds {
                    if round % 50 == thread as u64 {
                        gate.closed(|_| {
                            assert_eq!(inside.load(Ordering::SeqCst), 0);
                            closings.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    gate.enter(thread);
                    inside.fetch_add(1, Ordering::SeqCst);
                    if round % 64 == 0 {
                        // Long enough for a closer to sleep.
                        std::thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    gate.leave(thread);
                }
            });
        }
    });
    assert_eq!(closings.load(Ordering::Relaxed), 4 * rounds / 50);
    assert_eq!(gate.waiters(), (0, 0));
}

fn await_waiters(gate: &Gate, threads: u32, closers: u64) {
    while gate.waiters() != (threads, closers) {
        std::thread::yield_now();
    }
}

#[test]
fn who_waited_at_it_runs_a_batch_before_it_closes_again() {
    const THREADS: usize = 3;
    let gate = Gate::new(THREADS);
    let batches = AtomicU64::new(0);
    for closing in 0..20 {
        std::thread::scope(|scope| {
            gate.closed(|_| {
                for thread in 0..THREADS {
                    let (gate, batches) = (&gate, &batches);
                    scope.spawn(move || {
                        gate.enter(thread);
                        batches.fetch_add(1, Ordering::Relaxed);
                        gate.leave(thread);
                    });
                }
                await_waiters(&gate, THREADS as u32, 1);
            });
            // The same thread, at once, as a pipeline of commands for the whole store does.
            gate.closed(|_| assert_eq!(batches.load(Ordering::Relaxed), (closing + 1) * THREADS as u64));
        });
    }
}

#[test]
fn closers_that_wait_share_a_closing_and_go_before_those_that_come_back() {
    let gate = Gate::new(1);
    let order = Mutex::new(Vec::new());
    let note = |what: &'static str| order.lock().unwrap().push(what);
    std::thread::scope(|scope| {
        gate.closed(|_| {
            for (closers, name) in [(2, "second"), (3, "third")] {
                let (gate, note) = (&gate, &note);
                scope.spawn(move || gate.closed(|_| note(name)));
                await_waiters(gate, 0, closers);
            }
            let (gate, note) = (&gate, &note);
            scope.spawn(move || {
                gate.enter(0);
                note("batch");
                gate.leave(0);
            });
            await_waiters(gate, 1, 3);
            note("first");
        });
        gate.closed(|_| note("first again"));
    });
    assert_eq!(*order.lock().unwrap(), ["first", "second", "third", "batch", "first again"]);
}

#[test]
fn closers_that_never_stop_do_not_keep_threads_out() {
    const BATCHES: u64 = if cfg!(miri) { 3 } else { 100 };
    let (gate, is_over) = (Gate::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    gate.closed(|_| std::hint::spin_loop());
                }
            });
        }
        for _ in 0..BATCHES {
            gate.enter(0);
            gate.leave(0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no processor time")]
fn a_closer_that_waits_for_a_long_batch_uses_no_processor_time() {
    const BATCH_NS: u64 = 100_000_000;
    let gate = Gate::new(1);
    gate.enter(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let closer = &gate;
        scope.spawn(move || {
            let began = cpu_ns();
            closer.closed(|_| ());
            sender.send(cpu_ns() - began).unwrap();
        });
        await_waiters(&gate, 0, 1);
        // Processor time of this thread, so that whatever else the machine does counts for neither side.
        let began = cpu_ns();
        while cpu_ns() - began < BATCH_NS {}
        gate.leave(0);
        let waited_ns = receiver.recv().unwrap();
        assert!(waited_ns < BATCH_NS / 10, "the closer used {waited_ns} ns in a batch of {BATCH_NS} ns");
    });
}

#[test]
fn it_opens_again_after_a_panic() {
    let gate = Gate::new(1);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gate.closed(|_| panic!("inside"))));
    assert!(caught.is_err());
    gate.enter(0);
    gate.leave(0);
    gate.closed(|_| ());
}
