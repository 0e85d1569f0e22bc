//! How many of the I/O threads serve clients: as many as the load needs.
//!
//! With every further thread each wake serves fewer requests, so that a request costs more; threads that are
//! not needed had better sleep. The first [`ThreadScaling::active`] threads get new connections and keep
//! theirs; the others give away those whose clients are active (`runtime/relocation.rs`). Ten times a second
//! one of the threads that work looks at the processor time of all.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use martlet_base::thread::CpuClock;

/// How often the load is looked at.
const INTERVAL_MS: i64 = 100;
/// The part of the active threads' time that may be used before more are made active.
const FULL: f64 = 0.8;
/// The part of it that is to be used after a change.
const AIM: f64 = 0.6;
/// Looks in a row by which fewer threads must have been enough before fewer are active.
const PATIENCE: u32 = 5;

/// The decision, from one look to the next.
#[derive(Debug)]
struct Rule {
    active: usize,
    /// Looks in a row by which fewer are enough, and the most threads that one of them found needed.
    low_looks: u32,
    needed: usize,
}

impl Rule {
    fn new(active: usize) -> Rule {
        Rule { active, low_looks: 0, needed: 1 }
    }

    /// Sets the number from outside.
    fn set(&mut self, active: usize) {
        *self = Rule::new(active);
    }

    /// Learns that all threads together have used this many processors since the last look. Returns the
    /// number of threads, of `threads`, that are to be active.
    fn look(&mut self, load: f64, threads: usize) -> usize {
        let needed = ((load / AIM).ceil() as usize).clamp(1, threads);
        if load > FULL * self.active as f64 {
            self.set(needed.max(self.active + 1).min(threads));
        } else if needed < self.active {
            self.needed = self.needed.max(needed);
            self.low_looks += 1;
            if self.low_looks == PATIENCE {
                self.set(self.needed);
            }
        } else {
            self.set(self.active);
        }
        self.active
    }
}

/// The state of the looks, used by one thread at a time.
#[derive(Debug)]
struct Looks {
    rule: Rule,
    /// When the last one was, and the threads' processor time then, in nanoseconds.
    last: Option<(Instant, u64)>,
}

/// See the [module docs](self).
pub struct ThreadScaling {
    /// Read by each thread in each turn, written when it changes.
    active: CachePadded<AtomicUsize>,
    next_look_ms: CachePadded<AtomicI64>,
    looks: Mutex<Looks>,
    clocks: Box<[OnceLock<Option<CpuClock>>]>,
}

impl ThreadScaling {
    /// For `threads` threads, of which `fixed` are to be active, or (0) as many as are needed.
    pub fn new(threads: usize, fixed: usize) -> ThreadScaling {
        let active = if fixed == 0 { 1 } else { fixed.min(threads) };
        ThreadScaling {
            active: CachePadded::new(AtomicUsize::new(active)),
            next_look_ms: CachePadded::new(AtomicI64::new(0)),
            looks: Mutex::new(Looks { rule: Rule::new(active), last: None }),
            clocks: (0..threads).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The first threads, as many, serve clients.
    #[inline]
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Notes the calling thread's clock.
    pub fn begin_thread(&self, thread: usize) {
        if let Some(clock) = self.clocks.get(thread) {
            clock.get_or_init(CpuClock::of_this_thread);
        }
    }

    /// Looks at the load if that is due at `now_ms`; `fixed` as in [`ThreadScaling::new`]. Returns whether
    /// the number of active threads has changed.
    pub fn look_if_due(&self, now_ms: i64, fixed: usize) -> bool {
        let next_ms = self.next_look_ms.load(Ordering::Relaxed);
        // One that is further off was reckoned before the clock was set back.
        if now_ms < next_ms && next_ms <= now_ms + INTERVAL_MS {
            return false;
        }
        let mut looks = match self.looks.try_lock() {
            Ok(looks) => looks,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.next_look_ms.store(now_ms + INTERVAL_MS, Ordering::Relaxed);
        let threads = self.clocks.len();
        let active = if fixed > 0 || threads == 1 {
            looks.last = None;
            looks.rule.set(fixed.clamp(1, threads));
            looks.rule.active
        } else {
            let now = martlet_base::clock::monotonic();
            let used_ns = self.clocks.iter().filter_map(|clock| clock.get()?.map(CpuClock::ns)).sum::<u64>();
            let Some((last, last_used_ns)) = looks.last.replace((now, used_ns)) else { return false };
            let passed_ns = now.duration_since(last).as_nanos().max(1) as f64;
            looks.rule.look(used_ns.saturating_sub(last_used_ns) as f64 / passed_ns, threads)
        };
        self.active.swap(active, Ordering::Relaxed) != active
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Looks at a load until the number of threads stays as it is; the number, and after how many looks.
    fn settle(rule: &mut Rule, threads: usize, load_of: impl Fn(usize) -> f64) -> (usize, u32) {
        let (mut at, mut changed) = (rule.active, 0);
        for look in 1..=100 {
            let active = rule.look(load_of(rule.active).min(rule.active as f64), threads);
            if active != at {
                (at, changed) = (active, look);
            }
        }
        (at, changed)
    }

    #[test]
    fn a_load_finds_its_threads_within_a_second_both_ways() {
        for threads in [2, 8, 64] {
            let mut rule = Rule::new(1);
            let (most, looks) = settle(&mut rule, threads, |_| 1000.0);
            assert_eq!(most, threads);
            assert!(looks <= 9, "{looks} looks for {threads} threads");
            let (least, looks) = settle(&mut rule, threads, |_| 0.2);
            assert_eq!((least, looks), (1, PATIENCE));
        }
        assert_eq!(settle(&mut Rule::new(1), 8, |_| 0.75), (1, 0));
        assert_eq!(settle(&mut Rule::new(1), 8, |_| 1.5).0, 2);
    }

    #[test]
    fn a_short_pause_changes_nothing() {
        let mut rule = Rule::new(4);
        for look in 0..100 {
            let load = if look % 4 == 0 { 2.4 } else { 0.0 };
            assert_eq!(rule.look(load, 8), 4);
        }
    }

    proptest! {
        /// Requests cost up to half as much again with more threads. The number settles, is enough, and is no
        /// more than a few above what is.
        #[test]
        fn a_steady_load_settles(work in 0.0f64..10.0, dearer in 0.0f64..0.5, begin in 1usize..17) {
            let mut rule = Rule::new(begin);
            let load_of = |active: usize| work * (1.0 + dearer * (1.0 - 1.0 / active as f64));
            let (active, looks) = settle(&mut rule, 16, load_of);
            prop_assert!(looks <= 30, "{looks} looks");
            prop_assert!(active == 16 || load_of(active) <= FULL * active as f64);
            prop_assert!(load_of(active) > AIM * (active as f64 - 1.0) - 1e-9 || active == 1);
        }
    }
}
