//! The shards, their locks, and taking and releasing them.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::prefetch::PrefetchQueue;
use martlet_base::sync::{Gate, RawLock};
use martlet_journal::Journal;
use martlet_keyspace::{Db, DueClock, Shard, shard_of};

use crate::counters::Counters;
use crate::follow::{Beginnings, Follower, Followers};
use crate::hidden::HiddenSlots;
use crate::hooks::Hooks;
use crate::lazyfree::LazyFree;
use crate::names::NameCuts;
use crate::shards::LockedShards;
use crate::snapshot::{Observer, Part, Snapshot};

/// The data under a shard's lock.
#[derive(Default)]
#[repr(C)]
pub struct ShardState {
    /// The clients that wait for them.
    pub hooks: Hooks,
    /// The keys.
    pub keys: Shard,
}

// The parts that a command on the first database needs lie in the first of the two cache lines: lock, hooks
// and table.
#[repr(C, align(128))]
struct Cell {
    lock: RawLock,
    state: UnsafeCell<ShardState>,
}

const _: () = assert!(size_of::<Cell>() == 128);

impl Cell {
    /// # Safety
    /// The caller holds the lock for as long as it uses the keys.
    #[inline(always)]
    unsafe fn keys(&self) -> &Shard {
        // SAFETY: the lock is held.
        &unsafe { &*self.state.get() }.keys
    }
}

/// Shards that are peeked at together: as many looks as a processor works on at a time, and no thread waits
/// long for one of them.
const PEEKS_TOGETHER: usize = 4;

/// How often a shard is asked for that must not be waited for: some microseconds, which most commands take
/// less than.
const TRY_SPINS: u32 = 200;

// SAFETY: `state` is only reached through a held lock or behind the closed gate (see `LockedShards`).
unsafe impl Sync for Cell {}

/// The keyspace and what guards it. One per server.
pub struct Engine {
    cells: Box<[Cell]>,
    /// Per shard, no later than its next expiry, Unix milliseconds; written under the shard's lock.
    due: Box<[DueClock]>,
    /// See [`Gate`]. Thread numbers are those of `counters`.
    pub gate: Gate,
    /// One set of counters per thread.
    pub counters: Box<[CachePadded<Counters>]>,
    /// Where large values go to be freed.
    pub lazy_free: LazyFree,
    /// Busy scripts, for which no client's request waits any more: neither for their shards nor for the gate.
    pub busy_scripts: AtomicUsize,
    /// How much clients' caches are known to hold.
    pub tracking: TrackingTotals,
    /// The keys' effects, in order.
    pub journal: Journal,
    /// The snapshot under way, if there is one.
    pub snapshot: CachePadded<Snapshot>,
    /// The cut of names under way, if there is one.
    pub(crate) names: NameCuts,
    parts: Box<[PartCell]>,
    pub(crate) followers: Followers,
    /// How the names begin that the follower may want.
    pub(crate) beginnings: Beginnings,
    /// Slots whose keys are on their way here.
    pub hidden: HiddenSlots,
    /// The clock of [`Lrfu`](crate::Lrfu); the evicting thread advances it, once in a tick.
    eviction_clock: AtomicU64,
}

/// A shard's part of the snapshot; the shard's lock guards it.
#[derive(Default)]
struct PartCell(UnsafeCell<Part>);

// SAFETY: as for `Cell`.
unsafe impl Sync for PartCell {}

/// Sizes of the tables for clients that cache keys; changed only where a client does.
#[derive(Debug, Default)]
pub struct TrackingTotals {
    /// Keys.
    pub keys: AtomicUsize,
    /// Pairs of key and client.
    pub items: AtomicUsize,
}

impl TrackingTotals {
    pub(crate) fn removed(&self, keys: usize, items: usize) {
        self.keys.fetch_sub(keys, Ordering::Relaxed);
        self.items.fetch_sub(items, Ordering::Relaxed);
    }
}

impl Engine {
    /// An empty keyspace for `threads` threads that may enter the gate.
    ///
    /// # Errors
    /// When the operating system refuses the background thread.
    pub fn new(threads: usize) -> std::io::Result<Engine> {
        martlet_base::sync::park::prepare();
        let cell = || Cell { lock: RawLock::new(), state: UnsafeCell::new(ShardState::default()) };
        Ok(Engine {
            cells: (0..SHARD_COUNT).map(|_| cell()).collect(),
            due: (0..SHARD_COUNT).map(|_| DueClock::default()).collect(),
            gate: Gate::new(threads),
            counters: (0..threads).map(|_| CachePadded::new(Counters::default())).collect(),
            lazy_free: LazyFree::start()?,
            busy_scripts: AtomicUsize::new(0),
            tracking: TrackingTotals::default(),
            journal: Journal::default(),
            snapshot: CachePadded::new(Snapshot::new(threads)),
            names: NameCuts::default(),
            parts: (0..SHARD_COUNT).map(|_| PartCell::default()).collect(),
            followers: Followers::default(),
            beginnings: Beginnings::default(),
            hidden: HiddenSlots::default(),
            eviction_clock: AtomicU64::new(0),
        })
    }

    /// Sets what follows the keys; false if there is a follower already. [`Engine::follow`] begins.
    pub fn set_follower(&self, follower: &'static dyn Follower) -> bool {
        self.followers.set(follower)
    }

    /// Begins or ends asking the follower about the keys that change, of which those with other beginnings
    /// than these prefixes' are left out. A shard that is locked after the begin holds what was changed
    /// before, and reports what is changed afterwards.
    pub fn follow<'a>(&self, begins: bool, prefixes: impl Iterator<Item = &'a [u8]>) {
        self.beginnings.cover(prefixes);
        self.snapshot.observe(Observer::Follower, begins && self.followers.get().is_some());
    }

    /// The clock of evictions, in ticks.
    pub fn eviction_tick(&self) -> u16 {
        self.eviction_clock.load(Ordering::Relaxed) as u16
    }

    /// Moves the clock of evictions on.
    pub(crate) fn pass_eviction_ticks(&self, ticks: u64) {
        self.eviction_clock.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Locks one shard.
    #[inline]
    pub(crate) fn lock(&self, shard: usize) {
        self.cells[shard].lock.lock();
    }

    /// Whether there are [`Engine::busy_scripts`].
    #[inline]
    pub fn has_busy_script(&self) -> bool {
        self.busy_scripts.load(Ordering::Relaxed) != 0
    }

    /// Locks one shard, unless it would have to wait while a script is busy.
    #[inline]
    pub(crate) fn lock_unless_busy(&self, shard: usize) -> bool {
        self.cells[shard].lock.try_lock() || self.wait_unless_busy(shard)
    }

    #[cold]
    #[inline(never)]
    fn wait_unless_busy(&self, shard: usize) -> bool {
        self.cells[shard].lock.lock_unless(|| self.has_busy_script())
    }

    /// Locks one shard if its holder unlocks it at once.
    pub(crate) fn try_lock(&self, shard: usize) -> bool {
        (0..TRY_SPINS).any(|_| {
            let locked = self.cells[shard].lock.try_lock();
            if !locked {
                std::hint::spin_loop();
            }
            locked
        })
    }

    #[inline]
    pub(crate) fn unlock(&self, shard: usize) {
        self.cells[shard].lock.unlock();
    }

    /// Unlocks them, which leaves none.
    #[inline]
    pub(crate) fn release(&self, locked: &mut LockedShards) {
        match locked {
            LockedShards::One(shard) => {
                self.unlock(*shard);
                // One shard owns nothing: there is nothing to drop.
                std::mem::forget(std::mem::replace(locked, LockedShards::None));
            }
            LockedShards::None => {}
            _ => self.release_many(locked),
        }
    }

    #[inline(never)]
    fn release_many(&self, locked: &mut LockedShards) {
        match std::mem::replace(locked, LockedShards::None) {
            LockedShards::Many(shards) => shards.iter().for_each(|shard| self.unlock(shard)),
            LockedShards::Every => (0..SHARD_COUNT).for_each(|shard| self.unlock(shard)),
            LockedShards::None | LockedShards::One(_) | LockedShards::All => {}
        }
    }

    /// The state of a shard that `locked` covers.
    #[inline]
    pub(crate) fn state<'a>(&self, locked: &'a LockedShards, shard: usize) -> &'a ShardState
    where
        Self: 'a,
    {
        assert!(
            locked.covers(shard),
            "shard {shard} is not locked: a key is missing from the command's key spec"
        );
        // SAFETY: `locked` covers the shard, so no other thread touches it, and borrows through `locked` are
        // shared.
        unsafe { &*self.cells[shard].state.get() }
    }

    /// As [`Engine::state`], for changes.
    #[inline]
    pub(crate) fn state_mut<'a>(&self, locked: &'a mut LockedShards, shard: usize) -> &'a mut ShardState
    where
        Self: 'a,
    {
        assert!(
            locked.covers(shard),
            "shard {shard} is not locked: a key is missing from the command's key spec"
        );
        // SAFETY: `locked` covers the shard, so no other thread touches it, and the borrow of `locked` is
        // exclusive.
        unsafe { &mut *self.cells[shard].state.get() }
    }

    /// As [`Engine::state_mut`], with the shard's part of the snapshot.
    pub(crate) fn state_and_part<'a>(
        &self,
        locked: &'a mut LockedShards,
        shard: usize,
    ) -> (&'a mut ShardState, &'a mut Part)
    where
        Self: 'a,
    {
        let state = self.state_mut(locked, shard);
        // SAFETY: `state_mut` has seen that the shard is held, and the borrow of `locked` is exclusive.
        (state, unsafe { &mut *self.parts[shard].0.get() })
    }

    /// Notes that something in a locked shard expires at this time.
    #[inline]
    pub(crate) fn note_due(&self, shard: usize, at_ms: i64) {
        self.due[shard].note(at_ms);
    }

    /// What notes that.
    #[inline]
    pub(crate) fn due_clock(&self, shard: usize) -> &DueClock {
        &self.due[shard]
    }

    pub(crate) fn set_due(&self, shard: usize, at_ms: i64) {
        self.due[shard].set(at_ms);
    }

    /// When something in the shard may be due at the earliest, Unix milliseconds; `i64::MAX` if nothing is.
    #[inline]
    pub fn due_ms(&self, shard: usize) -> i64 {
        self.due[shard].at_ms()
    }

    #[inline(always)]
    fn cell_of(&self, hash: u64) -> &Cell {
        &self.cells[shard_of(hash)]
    }

    /// Asks the processor for a shard's header.
    #[inline]
    pub fn prefetch_shard(&self, hash: u64) {
        let cell = self.cell_of(hash);
        Shard::prefetch_header(cell.state.get().cast::<Shard>());
    }

    /// Looks into a shard if it is free at this instant: for optional work, such as prefetching.
    #[inline]
    pub fn peek<R>(&self, hash: u64, look: impl FnOnce(&Shard) -> R) -> Option<R> {
        let cell = self.cell_of(hash);
        cell.lock.try_lock().then(|| {
            // SAFETY: the lock is held.
            let result = look(unsafe { cell.keys() });
            cell.lock.unlock();
            result
        })
    }

    /// As [`Engine::peek`] at the shards of many hashes, in order; items whose shards others hold are passed
    /// over.
    ///
    /// Several shards are locked before the first of them is looked at: a locked instruction waits for all
    /// that was read before it, so that looks with one between them would not overlap.
    #[inline]
    pub fn peek_each<T: Copy>(
        &self,
        items: impl IntoIterator<Item = T>,
        hash: impl Fn(T) -> u64,
        mut look: impl FnMut(&Shard, T),
    ) {
        let mut items = items.into_iter().fuse();
        loop {
            let mut peeks: [Option<(&Cell, T)>; PEEKS_TOGETHER] = [None; PEEKS_TOGETHER];
            let mut locked = [false; PEEKS_TOGETHER];
            let mut len = 0;
            while len < PEEKS_TOGETHER
                && let Some(item) = items.next()
            {
                let cell = self.cell_of(hash(item));
                locked[len] = cell.lock.try_lock();
                if locked[len] || peeks[..len].iter().flatten().any(|(other, _)| std::ptr::eq(*other, cell)) {
                    peeks[len] = Some((cell, item));
                    len += 1;
                }
            }
            if len == 0 {
                return;
            }
            for &(cell, item) in peeks.iter().flatten() {
                // SAFETY: the lock is held, by this peek or by one before it.
                look(unsafe { cell.keys() }, item);
            }
            for (&(cell, _), locked) in peeks.iter().flatten().zip(locked) {
                if locked {
                    cell.lock.unlock();
                }
            }
        }
    }

    /// Lets the cache misses of storing many keys in a database overlap: their shards, places in the
    /// directories, buckets.
    pub fn prefetch_places(&self, db: usize, hashes: &[u64], queue: &mut PrefetchQueue) {
        hashes.iter().for_each(|&hash| self.prefetch_shard(hash));
        for queue_step in [Db::queue_place, Db::queue_bucket] {
            self.peek_each(
                hashes.iter().copied(),
                |hash| hash,
                |shard, hash| queue_step(shard.db(db), hash, queue),
            );
            queue.issue();
        }
    }

    /// Counters of one kind summed over the threads.
    pub fn sum(&self, counter: impl Fn(&Counters) -> u64) -> u64 {
        self.counters.iter().map(|c| counter(c)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_peeked_at_once_but_in_shards_that_others_hold() {
        let engine = Engine::new(1).unwrap();
        // Some shards more than once, in one group and in several.
        let hashes: Vec<u64> = (0..100).map(|number| number * number % 37).collect();
        let is_held = |hash: &u64| hash.is_multiple_of(5);
        hashes.iter().filter(|hash| is_held(hash)).for_each(|&hash| {
            engine.cell_of(hash).lock.try_lock();
        });
        let mut seen = Vec::new();
        engine.peek_each(0..hashes.len(), |at| hashes[at], |_, at| seen.push(hashes[at]));
        let free: Vec<u64> = hashes.iter().copied().filter(|hash| !is_held(hash)).collect();
        assert_eq!(seen, free);
        for hash in free {
            assert!(engine.peek(hash, |_| ()).is_some(), "shard {hash} is still locked");
        }
    }
}
