//! Sleeping until a word changes, and the asymmetric barrier that lets threads that never sleep do without a
//! fence.
//!
//! The pattern is Dekker's: a waiter announces itself, then looks at the awaited word; the other side changes
//! that, then looks for announced waiters. Each side needs a full barrier between its two steps, or both may
//! miss the other. [`heavy_barrier`] has the kernel do the barrier on all threads of the process at once
//! (`membarrier`), so that [`light_barrier`], on the side that runs a million times a second, only keeps the
//! compiler from exchanging the steps.
//!
//! Invariant: where the kernel refuses `membarrier`, a wake may be missed, and a sleep is over after
//! [`SLEEP_BOUND`] in any case.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, futex, membarrier};
use rustix::time::{ClockId, clock_gettime};

/// Looks of a waiter before it sleeps: some microseconds, about the cost of a sleep.
pub const SPINS: u32 = 200;

/// The longest sleep where a wake may be missed.
const SLEEP_BOUND: Duration = Duration::from_millis(1);

/// Sleep of a waiter that may give up before it asks again whether to.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The kernel has refused a barrier.
static MAY_MISS_WAKES: AtomicBool = AtomicBool::new(false);

/// Which sleepers a wake is for: those that share a bit with it.
pub type Classes = NonZeroU32;

/// All sleepers.
pub const ALL: Classes = NonZeroU32::MAX;

/// Registers the process for [`heavy_barrier`]. Cheapest before the first thread is started.
pub fn prepare() {
    if !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_err() {
        MAY_MISS_WAKES.store(true, Ordering::Relaxed);
    }
}

/// Between the two steps of the side that does not wait.
#[inline(always)]
pub fn light_barrier() {
    match cfg!(miri) {
        true => std::sync::atomic::fence(Ordering::SeqCst),
        false => std::sync::atomic::compiler_fence(Ordering::SeqCst),
    }
}

/// Between the two steps of the side that is about to wait: a full barrier on every thread of the process. A
/// system call, which interrupts the cores that run one of them.
pub fn heavy_barrier() {
    std::sync::atomic::fence(Ordering::SeqCst);
    if !cfg!(miri) && membarrier(MembarrierCommand::PrivateExpedited).is_err() {
        // An unregistered thread is refused.
        prepare();
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            MAY_MISS_WAKES.store(true, Ordering::Relaxed);
        }
    }
}

/// Sleeps while `word` is `expected`, until a wake for one of `classes`; whether it slept. It may wake for no
/// reason.
pub fn wait(word: &AtomicU32, expected: u32, classes: Classes) -> bool {
    sleep(word, expected, classes, None)
}

/// As [`wait`], for some milliseconds at most.
pub fn wait_briefly(word: &AtomicU32, expected: u32, classes: Classes) -> bool {
    sleep(word, expected, classes, Some(ASK_AGAIN))
}

/// As [`wait_briefly`], for a change that a condition variable signals.
pub fn wait_briefly_on<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, ASK_AGAIN).unwrap_or_else(PoisonError::into_inner).0
}

fn sleep(word: &AtomicU32, expected: u32, classes: Classes, bound: Option<Duration>) -> bool {
    let may_miss = MAY_MISS_WAKES.load(Ordering::Relaxed).then_some(SLEEP_BOUND);
    let until = may_miss.or(bound).map(|bound| {
        let bound = bound.try_into().unwrap_or_default();
        clock_gettime(ClockId::Monotonic) + bound
    });
    let slept = futex::wait_bitset(word, futex::Flags::PRIVATE, expected, until.as_ref(), classes);
    slept != Err(rustix::io::Errno::AGAIN)
}

/// Wakes the thread of `classes` that has slept longest on `word`.
pub fn wake_one(word: &AtomicU32, classes: Classes) {
    wake(word, 1, classes);
}

/// Wakes all threads that sleep on `word`.
pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX as u32, ALL);
}

fn wake(word: &AtomicU32, most: u32, classes: Classes) {
    // It fails for words that are no memory only.
    let _ = futex::wake_bitset(word, futex::Flags::PRIVATE, most, classes);
}
