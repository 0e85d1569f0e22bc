//! The protocol under loom, which tries every interleaving of a small scene, and the real waker's counting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Waker;

/// What `modelled` is built on.
mod atomic {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
}

#[allow(clippy::duplicate_mod)]
#[path = "state.rs"]
mod modelled;

/// Two wakers publish a message each and wake; the owner takes messages until it has both, and sleeps
/// between. Loom reports a lost wake as a deadlock, and a missing happens-before as a failed assertion.
#[test]
fn no_interleaving_loses_a_wake() {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    struct Scene {
        state: modelled::State,
        messages: AtomicU32,
        /// How often the sleeper was signalled and has not consumed it: the eventfd.
        signals: Mutex<u32>,
        signalled: Condvar,
    }

    let mut model = loom::model::Builder::new();
    // Three preemptions per execution find the known kinds of lost wakes and keep the search short.
    model.preemption_bound = Some(3);
    model.check(|| {
        let scene = loom::sync::Arc::new(Scene {
            state: modelled::State::new(),
            messages: AtomicU32::new(0),
            signals: Mutex::new(0),
            signalled: Condvar::new(),
        });
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let scene = scene.clone();
                loom::thread::spawn(move || {
                    scene.messages.fetch_add(1, Ordering::Relaxed);
                    if scene.state.notify() {
                        *scene.signals.lock().unwrap() += 1;
                        scene.signalled.notify_one();
                    }
                })
            })
            .collect();
        let (mut seen, mut sleeps, mut signals) = (0, 0, 0);
        while seen < 2 {
            if scene.state.fall_asleep() {
                sleeps += 1;
                let mut pending = scene.signals.lock().unwrap();
                while *pending == 0 {
                    pending = scene.signalled.wait(pending).unwrap();
                }
                signals += *pending;
                *pending = 0;
            }
            assert!(scene.state.wake_up(), "the only end of a sleep is a wake");
            seen = scene.messages.load(Ordering::Relaxed);
        }
        for waker in wakers {
            waker.join().unwrap();
        }
        assert!(signals + *scene.signals.lock().unwrap() <= sleeps, "more signals than sleeps");
    });
}

#[test]
fn one_signal_per_sleep_and_none_while_awake() {
    let signals = Arc::new(AtomicU32::new(0));
    let counter = signals.clone();
    let waker = Waker::from_fn(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    waker.wake();
    waker.wake();
    assert_eq!(signals.load(Ordering::Relaxed), 0, "the owner is awake");
    assert!(!waker.fall_asleep());
    assert!(waker.wake_up());
    assert!(!waker.wake_up());
    assert!(waker.fall_asleep());
    waker.wake();
    waker.clone().wake();
    assert_eq!(signals.load(Ordering::Relaxed), 1);
    assert!(waker.wake_up());
}
