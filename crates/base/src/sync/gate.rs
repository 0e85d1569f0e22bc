//! The gate: threads pass in and out once per batch of requests; closing it gives one thread the whole store.
//!
//! Each thread has a flag on a separate cache line, so passing costs one exchange on an uncontended line. The
//! closer raises `state`, then waits for all flags to fall; a thread that finds the gate closed takes its
//! flag back and waits. Both sides write their own word, then read the other's, with a full barrier between:
//! one of them sees the other.
//!
//! **Every thread gets a turn.** Closers take turns by ticket. Those that wait when the first of a closing is
//! done run under the same closing, then the gate opens. It does not close again before each thread that
//! waited at it has passed in; and since a closing waits for those inside, each has run its batch. So neither
//! commands for the whole store nor others can keep the other kind out, however many are sent.
//!
//! **A thread that may give up** a wait leaves no trace: a ticket is passed over, a gate that was closed in
//! vain opens.
//!
//! Invariant: the gate is closed from the first closer's turn to the end of the last one's, and no flag is up
//! while a closer runs.

use std::sync::PoisonError;

use super::atomic::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, SPINS, fence, park, put, waits};

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

const OUTSIDE: u32 = 0;
const INSIDE: u32 = 1;

/// In `news`: a closer sleeps, or is about to.
const SLEEPS: u32 = 1;
/// One thing that a closer may wait for: a flag fell, or the last waiter passed in.
const ONE_NEWS: u32 = 2;

/// A flag, alone on its cache line and the one that the processor fetches with it.
#[derive(Debug)]
#[repr(align(128))]
struct Flag(AtomicU32);

/// Whose turn behind the gate it is, by ticket.
#[derive(Debug)]
struct Turns {
    /// Tickets that have been given out.
    given: u64,
    /// The ticket whose turn it is.
    now: u64,
    /// Tickets below run under the closing that there is.
    closed_until: u64,
    /// Tickets whose turn will not be taken.
    given_up: Vec<u64>,
}

impl Turns {
    /// Advances to the next ticket that still has a holder.
    fn pass(&mut self) {
        self.now += 1;
        while let Some(at) = self.given_up.iter().position(|ticket| *ticket == self.now) {
            self.given_up.swap_remove(at);
            self.now += 1;
        }
    }
}

/// Whether to wait no longer.
type GivesUp<'a> = Option<&'a dyn Fn() -> bool>;

/// See the [module docs](self).
#[derive(Debug)]
pub struct Gate {
    inside: Box<[Flag]>,
    /// [`OPEN`] or [`CLOSED`]; threads that wait at the gate sleep on it.
    state: AtomicU32,
    /// Threads that wait at the gate, from when they find it closed until they are inside.
    waiting: AtomicU32,
    /// The closer whose turn it is sleeps on it.
    news: AtomicU32,
    turns: Mutex<Turns>,
    turn_ended: Condvar,
}

/// Proof that the gate is closed: its holder is the closer, or works on its behalf. Only [`Gate::closed`]
/// makes one, and it does not outlive the closing:
///
/// ```compile_fail
/// let gate = martlet_base::sync::Gate::new(1);
/// let kept = gate.closed(|alone| alone);
/// ```
///
/// ```compile_fail
/// let alone = martlet_base::sync::Alone(());
/// ```
#[derive(Debug)]
pub struct Alone(());

impl Gate {
    /// A gate for threads numbered `0..threads`.
    pub fn new(threads: usize) -> Gate {
        Gate {
            inside: (0..threads).map(|_| Flag(AtomicU32::new(OUTSIDE))).collect(),
            state: AtomicU32::new(OPEN),
            waiting: AtomicU32::new(0),
            news: AtomicU32::new(0),
            turns: Mutex::new(Turns { given: 0, now: 0, closed_until: 0, given_up: Vec::new() }),
            turn_ended: Condvar::new(),
        }
    }

    /// Passes in, waiting while the gate is closed. Each thread number belongs to one thread.
    #[inline]
    pub fn enter(&self, thread: usize) {
        if !self.try_enter(thread) {
            self.enter_slow(thread, None);
        }
    }

    /// As [`Gate::enter`], but the wait ends within some milliseconds once `gives_up` says so; whether the
    /// thread is inside.
    #[inline]
    pub fn enter_unless(&self, thread: usize, gives_up: impl Fn() -> bool) -> bool {
        self.try_enter(thread) || self.enter_slow(thread, Some(&gives_up))
    }

    /// Passes out.
    #[inline]
    pub fn leave(&self, thread: usize) {
        self.inside[thread].0.store(OUTSIDE, Ordering::Release);
        // The closer that may miss the flag makes up for the barrier before it sleeps.
        park::light_barrier();
        if self.state.load(Ordering::Relaxed) == CLOSED {
            self.tell_closer();
        }
    }

    /// Runs `work` with every thread outside. The calling thread must be outside too.
    pub fn closed<R>(&self, work: impl FnOnce(&Alone) -> R) -> R {
        self.take_turn(None);
        let _turn = Turn(self);
        work(&Alone(()))
    }

    /// As [`Gate::closed`], but the wait ends within some milliseconds once `gives_up` says so; then nothing
    /// has been done.
    pub fn closed_unless<R>(&self, gives_up: impl Fn() -> bool, work: impl FnOnce(&Alone) -> R) -> Option<R> {
        self.take_turn(Some(&gives_up)).then(|| {
            let _turn = Turn(self);
            work(&Alone(()))
        })
    }

    #[inline]
    fn try_enter(&self, thread: usize) -> bool {
        put(&self.inside[thread].0, INSIDE);
        self.state.load(Ordering::SeqCst) == OPEN
    }

    #[cold]
    fn enter_slow(&self, thread: usize, gives_up: GivesUp<'_>) -> bool {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let is_inside = loop {
            self.leave(thread);
            if !self.wait_until_open(gives_up) {
                break false;
            }
            if self.try_enter(thread) {
                break true;
            }
        };
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell_closer();
        }
        is_inside
    }

    fn wait_until_open(&self, gives_up: GivesUp<'_>) -> bool {
        for _ in 0..SPINS {
            if self.state.load(Ordering::Acquire) == OPEN {
                return true;
            }
            std::hint::spin_loop();
        }
        // The thread that opens it looks after that for waiting threads.
        fence(Ordering::SeqCst);
        let wait = if gives_up.is_some() { park::wait_briefly } else { park::wait };
        while self.state.load(Ordering::Acquire) == CLOSED {
            if gives_up.is_some_and(|gives_up| gives_up()) {
                return false;
            }
            waits::GATE.count(|| wait(&self.state, CLOSED, park::ALL));
        }
        true
    }

    #[cold]
    fn tell_closer(&self) {
        if self.news.fetch_add(ONE_NEWS, Ordering::AcqRel) & SLEEPS != 0 {
            park::wake_one(&self.news, park::ALL);
        }
    }

    /// Waits for the calling thread's turn, and closes the gate unless it still is; false if it has given up.
    fn take_turn(&self, gives_up: GivesUp<'_>) -> bool {
        let mut turns = lock(&self.turns);
        let ticket = turns.given;
        turns.given += 1;
        while turns.now != ticket {
            turns = match gives_up {
                Some(gives_up) if gives_up() => {
                    turns.given_up.push(ticket);
                    return false;
                }
                Some(_) => park::wait_briefly_on(&self.turn_ended, turns),
                None => self.turn_ended.wait(turns).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let is_closed = ticket < turns.closed_until;
        drop(turns);
        is_closed || self.close(gives_up)
    }

    /// Closes the gate, in the calling thread's turn, which ends if that is given up.
    fn close(&self, gives_up: GivesUp<'_>) -> bool {
        let nobody_waits = || self.waiting.load(Ordering::Acquire) == 0;
        if !self.wait_for(nobody_waits, gives_up) {
            self.give_turn_up(false);
            return false;
        }
        put(&self.state, CLOSED);
        let all_are_outside = || self.inside.iter().all(|flag| flag.0.load(Ordering::SeqCst) == OUTSIDE);
        if !self.wait_for(all_are_outside, gives_up) {
            self.give_turn_up(true);
            return false;
        }
        true
    }

    /// Ends the turn of a closer that gives up. Those behind it close the gate for themselves.
    fn give_turn_up(&self, opens: bool) {
        let mut turns = lock(&self.turns);
        turns.pass();
        if opens {
            self.open();
        }
        drop(turns);
        self.turn_ended.notify_all();
    }

    fn open(&self) {
        self.state.store(OPEN, Ordering::SeqCst);
        // A waiting thread looks at the state after that.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            park::wake_all(&self.state);
        }
    }

    fn wait_for(&self, is_so: impl Fn() -> bool, gives_up: GivesUp<'_>) -> bool {
        for _ in 0..SPINS {
            if is_so() {
                return true;
            }
            std::hint::spin_loop();
        }
        park::heavy_barrier();
        let wait = if gives_up.is_some() { park::wait_briefly } else { park::wait };
        let came_true = loop {
            let news = self.news.fetch_or(SLEEPS, Ordering::AcqRel) | SLEEPS;
            if is_so() {
                break true;
            }
            if gives_up.is_some_and(|gives_up| gives_up()) {
                break false;
            }
            // A thread with news changes the word before.
            wait(&self.news, news, park::ALL);
        };
        self.news.fetch_and(!SLEEPS, Ordering::AcqRel);
        came_true
    }

    fn end_turn(&self) {
        let mut turns = lock(&self.turns);
        let ticket = turns.now;
        if ticket >= turns.closed_until {
            // The first of its closing.
            turns.closed_until = turns.given;
        }
        turns.pass();
        if turns.now >= turns.closed_until {
            self.open();
        }
        drop(turns);
        self.turn_ended.notify_all();
    }
}

fn lock(turns: &Mutex<Turns>) -> MutexGuard<'_, Turns> {
    // Nothing panics while it is locked.
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A turn behind the gate; it ends also when the work panics.
struct Turn<'g>(&'g Gate);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end_turn();
    }
}

#[cfg(test)]
impl Gate {
    /// Threads that wait at the gate, and closers that have not had their turn.
    pub(super) fn waiters(&self) -> (u32, u64) {
        let turns = lock(&self.turns);
        (self.waiting.load(Ordering::SeqCst), turns.given - turns.now)
    }
}
