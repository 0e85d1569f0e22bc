//! The lock of a shard: spin briefly, then park. Taking and releasing it costs one locked instruction in all.
//!
//! | word | bits | is | written by |
//! |---|---|---|---|
//! | `word` | all | [`FREE`] or [`HELD`] | the thread that takes or releases the lock |
//! | `queue` | 0 to 14 | waiters: threads that sleep, or are about to | each waiter for itself |
//! | | 15 to 29 | how many of them are starving: woken `PATIENCE` times in vain | each waiter for itself |
//! | | 30 | [`WOKEN`]: a waiter was woken and has not looked since | a releaser sets, any waiter clears it |
//! | | 31 | [`HANDED_OVER`]: it is held, for a starving waiter | a releaser sets, the taker clears it |
//!
//! **No wake is lost.** A releaser frees the word, then looks at the queue; a waiter joins the queue, then
//! looks at the word. The waiter that finds the queue empty pays for both barriers; later ones rely on that
//! one, which takes the lock, or sleeps and is woken, before it leaves the queue. While [`WOKEN`] is set no
//! other is woken: a waiter is awake that clears it first and looks at the word after that.
//!
//! **Every thread gets a turn.** A thread that comes while the lock is free takes it, whatever waits: a lock
//! that is kept for a sleeper would idle for as long as it takes to wake up. But no releaser frees the lock
//! while a waiter starves; it leaves the word as it is and hands the lock over, to the starving waiter that
//! has slept longest.
//!
//! **A waiter that may give up** leaves the queue in one step with a look at whether the lock has been handed
//! over, and a releaser hands it over in one step with a look at whether any waiter still starves.
//!
//! Invariant: while there is a waiter and the word is free, some waiter is awake and has yet to look at the
//! word.

use std::num::NonZeroU32;

use super::atomic::{AtomicU32, Ordering, PATIENCE, SPINS, fence, park, waits};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// One waiter, and all of them.
const WAITER: u32 = 1;
const WAITERS: u32 = (1 << 15) - 1;
/// One starving waiter, and all of them.
const STARVING: u32 = 1 << 15;
const ANY_STARVING: u32 = WAITERS << 15;
const WOKEN: u32 = 1 << 30;
const HANDED_OVER: u32 = 1 << 31;

/// Classes of sleepers.
const PATIENT_CLASS: NonZeroU32 = NonZeroU32::MIN;
const STARVING_CLASS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// See the [module docs](self). It must outlive its releases: they end with a look at the queue.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RawLock {
    word: AtomicU32,
    queue: AtomicU32,
}

impl RawLock {
    /// A free lock.
    pub fn new() -> RawLock {
        RawLock { word: AtomicU32::new(FREE), queue: AtomicU32::new(0) }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, waiting as long as it takes.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow(None);
        }
    }

    /// As [`RawLock::lock`], but the wait ends within some milliseconds once `gives_up` says so; whether the
    /// lock was taken.
    #[inline]
    pub fn lock_unless(&self, gives_up: impl Fn() -> bool) -> bool {
        self.try_lock() || self.lock_slow(Some(&gives_up))
    }

    /// Releases the lock. The caller must hold it.
    #[inline]
    pub fn unlock(&self) {
        debug_assert_eq!(self.word.load(Ordering::Relaxed), HELD, "unlock of a free lock");
        if self.queue.load(Ordering::Relaxed) & ANY_STARVING != 0 && self.hand_over() {
            return;
        }
        self.word.store(FREE, Ordering::Release);
        park::light_barrier();
        if self.queue.load(Ordering::Relaxed) != 0 {
            self.wake_waiter();
        }
    }

    /// Hands the lock over to a starving waiter, unless the last one has given up.
    #[cold]
    fn hand_over(&self) -> bool {
        // From here on a starving waiter leaves the queue with the lock only.
        let is_theirs = self.update_queue(|queue| (queue & ANY_STARVING != 0).then_some(queue | HANDED_OVER));
        if is_theirs {
            park::wake_one(&self.queue, STARVING_CLASS);
        }
        is_theirs
    }

    #[cold]
    fn wake_waiter(&self) {
        // Against a waiter that clears `WOKEN`, then looks at the word.
        fence(Ordering::SeqCst);
        if self.update_queue(|queue| (queue & WAITERS != 0 && queue & WOKEN == 0).then_some(queue | WOKEN)) {
            park::wake_one(&self.queue, park::ALL);
        }
    }

    #[cold]
    fn lock_slow(&self, gives_up: Option<&dyn Fn() -> bool>) -> bool {
        waits::LOCKS.count_failed_try();
        for _ in 0..SPINS {
            if self.word.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return true;
            }
            std::hint::spin_loop();
        }
        if self.queue.fetch_add(WAITER, Ordering::AcqRel) == 0 {
            park::heavy_barrier();
        }
        let mut place = WAITER;
        let mut wakes = 0;
        loop {
            let queue = self.queue.fetch_and(!WOKEN, Ordering::AcqRel) & !WOKEN;
            fence(Ordering::SeqCst);
            if self.take(place) {
                return true;
            }
            if gives_up.is_some_and(|gives_up| gives_up()) && self.leave_queue(place) {
                return false;
            }
            let class = if place == WAITER { PATIENT_CLASS } else { STARVING_CLASS };
            let wait = if gives_up.is_some() { park::wait_briefly } else { park::wait };
            // A thread that wakes a waiter, or hands the lock over, changes the queue before.
            if !waits::LOCKS.count(|| wait(&self.queue, queue, class)) {
                continue;
            }
            wakes += 1;
            if wakes == PATIENCE {
                place += STARVING;
                self.queue.fetch_add(STARVING, Ordering::AcqRel);
            }
            // As long as `WOKEN` is set, threads that release the lock need not wake any waiter.
            for _ in 0..SPINS {
                if self.take(place) {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Takes the lock for a waiter that counts as `place` in the queue; returns whether it could. The waiter
    /// leaves the queue in one step with [`WOKEN`]: no other may be left to clear that.
    fn take(&self, place: u32) -> bool {
        if self.word.load(Ordering::Relaxed) == FREE && self.try_lock() {
            return self.update_queue(|queue| Some((queue - place) & !WOKEN));
        }
        let is_starving = place != WAITER;
        is_starving
            && self.update_queue(|queue| {
                (queue & HANDED_OVER != 0).then_some((queue - place) & !(WOKEN | HANDED_OVER))
            })
    }

    /// Takes a waiter that gives up out of the queue, unless the lock may have been handed over to it. A wake
    /// that was meant for it finds the remaining ones: until the word is free again they are awake, or one of
    /// them is woken then.
    fn leave_queue(&self, place: u32) -> bool {
        let is_starving = place != WAITER;
        self.update_queue(|queue| {
            let left = queue - place;
            let may_leave = !is_starving || queue & HANDED_OVER == 0;
            may_leave.then_some(if left & WAITERS == 0 { left & !WOKEN } else { left })
        })
    }

    /// Changes the queue unless `change` is against it; whether it was changed.
    fn update_queue(&self, change: impl FnMut(u32) -> Option<u32>) -> bool {
        self.queue.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change).is_ok()
    }
}

#[cfg(test)]
impl RawLock {
    /// The queue as it is: waiters, starving ones, and whether one of them was woken and has not looked yet.
    pub(super) fn queue(&self) -> (u32, u32, bool) {
        let queue = self.queue.load(Ordering::Relaxed);
        (queue & WAITERS, (queue & ANY_STARVING) / STARVING, queue & WOKEN != 0)
    }
}
