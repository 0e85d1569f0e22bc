//! The sleep/wake protocol: one word between the sleeping owner and any number of wakers.
//!
//! Writers of the word:
//! - the owner, before it sleeps: `AWAKE → ASLEEP`; when it finds `NOTIFIED` it does not sleep;
//! - the owner, after its sleep: anything `→ AWAKE`; when it finds `NOTIFIED` it was woken;
//! - a waker: anything `→ NOTIFIED`, and the one that finds `ASLEEP` signals.
//!
//! So a wake is never lost, and a sleep is signalled at most once.

use super::atomic::{AtomicU32, Ordering};

/// The owner runs; it looks at the word before it sleeps.
const AWAKE: u32 = 0;
/// The owner sleeps, or is about to: a waker must signal.
const ASLEEP: u32 = 1;
/// The owner was woken and has not seen it yet.
const NOTIFIED: u32 = 2;

/// The word.
#[derive(Debug)]
pub struct State(AtomicU32);

impl State {
    /// The owner is awake and not notified.
    pub fn new() -> State {
        State(AtomicU32::new(AWAKE))
    }

    /// The owner wants to sleep. False: it was notified, and must not.
    pub fn fall_asleep(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The owner runs again. True: it was notified since it last called this.
    pub fn wake_up(&self) -> bool {
        // The plain load keeps the cache line shared in the usual case that no waker notified an owner that
        // did not sleep.
        self.0.load(Ordering::Relaxed) != AWAKE && self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// Leaves a notification. True: the owner sleeps, and the caller must signal it.
    pub fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }
}
