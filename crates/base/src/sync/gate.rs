//! The gate: threads pass in and out once per batch of requests; closing it gives one thread the whole store.
//!
//! | verb | token | rights of its holder |
//! |---|---|---|
//! | [`Gate::enter`], [`Gate::leave`] | none: the thread's flag | lock shards, one by one |
//! | [`Gate::closed`] | [`Alone`] | everything at once, without a lock |
//! | [`Gate::admit`], [`Gate::join`] | [`Beside`] | lock shards beside the closer, on its behalf |
//! | [`Gate::outside`] | [`Outside`] | wait for the disk; touch no shard |
//!
//! //! Each thread has a flag on a separate cache line, so passing costs one exchange on an uncontended line.
//! The closer raises `state`, then waits for all flags to fall; a thread that finds the gate closed takes its
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
//! **Work that one thread is too slow for.** A closer admits other threads: they have called for it, are
//! outside, and join it behind the gate, which stays closed. The closer is not alone in that time, and is
//! again when the last of them has left; a thread that comes too late is not let in.
//!
//! Invariant: the gate is closed from the first closer's turn to the end of the last one's, no flag is up
//! while a closer runs, and no thread is beside it but while it admits threads.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::PoisonError;

use super::atomic::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, SPINS, fence, park, put, waits};

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

const OUTSIDE: u32 = 0;
const INSIDE: u32 = 1;

/// In `party`: threads may join. The other bits count those that have.
const ADMITS: u32 = 1 << 31;

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
    /// Threads beside the closer, and [`ADMITS`].
    party: AtomicU32,
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

/// Proof that the thread is behind the closed gate beside its closer, or is the closer and not alone: shards
/// are locked one by one. Only [`Gate::admit`] and [`Gate::join`] make one. The closer's [`Alone`] is
/// borrowed in that time:
///
/// ```compile_fail
/// let gate = martlet_base::sync::Gate::new(1);
/// let needs_alone = |_: &martlet_base::sync::Alone| ();
/// gate.closed(|alone| gate.admit(alone, |_| needs_alone(alone)));
/// ```
#[derive(Debug)]
pub struct Beside(());

/// Proof that the thread stands outside the gate with nothing locked: it may wait for the disk. What reads or
/// changes files takes one, so that a thread that is inside, or has the gate closed, cannot call it.
///
/// An I/O thread gets one by leaving the gate ([`Gate::outside`]), for as long as it stays outside:
///
/// ```compile_fail
/// let gate = martlet_base::sync::Gate::new(1);
/// let kept = gate.outside(0, |outside| outside);
/// ```
///
/// No other thread can be handed it:
///
/// ```compile_fail
/// let gate = martlet_base::sync::Gate::new(1);
/// gate.outside(0, |outside| std::thread::scope(|scope| scope.spawn(|| { outside; }).join()));
/// ```
#[derive(Debug)]
pub struct Outside(PhantomData<*const ()>);

impl Outside {
    /// For a thread that is no I/O thread, and is outside whenever it uses this: those of files, links and
    /// the bus, and the one that starts the server. `./x tidy` lists the files that may call it.
    pub fn of_background_thread() -> Outside {
        debug_assert_eq!(BEHIND.get(), 0, "the thread is behind the gate");
        Outside(PhantomData)
    }

    /// For a closer that stops the server for the disk's sake, as its client asks for: SAVE, SHUTDOWN, DEBUG
    /// RELOAD and DEBUG LOADAOF. `./x tidy` lists the files that may call it.
    pub fn of_standstill() -> Outside {
        Outside(PhantomData)
    }
}

thread_local! {
    /// How often the thread is behind a gate, as its closer or beside that.
    static BEHIND: Cell<u32> = const { Cell::new(0) };
}

impl Gate {
    /// A gate for threads numbered `0..threads`.
    pub fn new(threads: usize) -> Gate {
        Gate {
            inside: (0..threads).map(|_| Flag(AtomicU32::new(OUTSIDE))).collect(),
            state: AtomicU32::new(OPEN),
            waiting: AtomicU32::new(0),
            news: AtomicU32::new(0),
            party: AtomicU32::new(0),
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

    /// Passes out, if the thread is inside, and runs `work`, which may wait for the disk. The thread has
    /// nothing locked, has not closed the gate, and is outside afterwards.
    pub fn outside<R>(&self, thread: usize, work: impl FnOnce(&Outside) -> R) -> R {
        debug_assert_eq!(BEHIND.get(), 0, "the thread is behind the gate");
        self.leave(thread);
        work(&Outside(PhantomData))
    }

    /// Runs `work` with every thread outside. The calling thread must be outside too.
    pub fn closed<R>(&self, work: impl FnOnce(&mut Alone) -> R) -> R {
        self.take_turn(None);
        let _turn = Turn::begin(self);
        work(&mut Alone(()))
    }

    /// As [`Gate::closed`], but the wait ends within some milliseconds once `gives_up` says so; then nothing
    /// has been done.
    pub fn closed_unless<R>(
        &self,
        gives_up: impl Fn() -> bool,
        work: impl FnOnce(&mut Alone) -> R,
    ) -> Option<R> {
        self.take_turn(Some(&gives_up)).then(|| {
            let _turn = Turn::begin(self);
            work(&mut Alone(()))
        })
    }

    /// Lets other threads join while `work` runs, and waits until those that have are gone. Of the gate that
    /// the calling thread has closed.
    pub fn admit<R>(&self, _: &mut Alone, work: impl FnOnce(&Beside) -> R) -> R {
        let admission = Admission::begin(self);
        let result = work(&Beside(()));
        drop(admission);
        result
    }

    /// Runs `work` beside the closer, if that admits threads now. The calling thread must be outside, with
    /// nothing locked; the closer waits for it.
    pub fn join<R>(&self, work: impl FnOnce(&Beside) -> R) -> Option<R> {
        let mut party = self.party.load(Ordering::Relaxed);
        while party & ADMITS != 0 {
            match self.party.compare_exchange_weak(party, party + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let _guest = Guest::begin(self);
                    return Some(work(&Beside(())));
                }
                Err(newer) => party = newer,
            }
        }
        None
    }

    #[inline]
    fn try_enter(&self, thread: usize) -> bool {
        put(&self.inside[thread].0, INSIDE);
        self.state.load(Ordering::SeqCst) == OPEN
    }

    #[cold]
    fn enter_slow(&self, thread: usize, gives_up: GivesUp<'_>) -> bool {
        waits::GATE.count_failed_try();
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

impl Turn<'_> {
    fn begin(gate: &Gate) -> Turn<'_> {
        BEHIND.set(BEHIND.get() + 1);
        Turn(gate)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        BEHIND.set(BEHIND.get() - 1);
        self.0.end_turn();
    }
}

/// The time in which threads may join the closer; its end waits for them, also when the work panics.
struct Admission<'g>(&'g Gate);

impl Admission<'_> {
    fn begin(gate: &Gate) -> Admission<'_> {
        // Release: a thread that joins sees the closer's changes.
        gate.party.fetch_or(ADMITS, Ordering::Release);
        Admission(gate)
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.0.party.fetch_and(!ADMITS, Ordering::AcqRel);
        self.0.wait_for(|| self.0.party.load(Ordering::Acquire) == 0, None);
    }
}

/// A thread beside the closer.
struct Guest<'g>(&'g Gate);

impl Guest<'_> {
    fn begin(gate: &Gate) -> Guest<'_> {
        BEHIND.set(BEHIND.get() + 1);
        Guest(gate)
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        BEHIND.set(BEHIND.get() - 1);
        // Release: the closer sees this thread's changes.
        if self.0.party.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.tell_closer();
        }
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
