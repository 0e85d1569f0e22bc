//! Locking the shards of a command's keys, and unlocking them once its effects are recorded.
//!
//! Invariant: shards are locked in ascending order, and nothing else is waited for with one locked.

use martlet_base::limits::SHARD_COUNT;

use super::Keys;
use crate::shards::{LockedShards, ShardSet};

/// A shard that a busy script has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardBusy;

impl Keys {
    /// Locks one shard. Nothing may be locked.
    #[inline]
    pub fn lock_shard(&mut self, shard: usize) {
        debug_assert!(matches!(self.locked, LockedShards::None));
        self.engine.lock(shard);
        // Nothing is locked, so there is nothing to drop.
        std::mem::forget(std::mem::replace(&mut self.locked, LockedShards::One(shard)));
    }

    /// As [`Keys::lock_shard`], unless it would have to wait while a script is busy; whether it is locked.
    #[inline]
    #[must_use]
    pub fn lock_shard_unless_busy(&mut self, shard: usize) -> bool {
        debug_assert!(matches!(self.locked, LockedShards::None));
        let is_locked = self.engine.lock_unless_busy(shard);
        if is_locked {
            // As in `lock_shard`.
            std::mem::forget(std::mem::replace(&mut self.locked, LockedShards::One(shard)));
        }
        is_locked
    }

    /// As [`Keys::lock_shards`] with [`Keys::lock_shard_unless_busy`]: all of them or none.
    #[must_use]
    pub fn lock_shards_unless_busy(&mut self, shards: Vec<usize>) -> bool {
        match shards.as_slice() {
            [] => return true,
            [shard] => return self.lock_shard_unless_busy(*shard),
            _ => {}
        }
        debug_assert!(matches!(self.locked, LockedShards::None));
        let shards: Box<ShardSet> = Box::new(shards.into_iter().collect());
        if let Some(busy) = shards.iter().find(|shard| !self.engine.lock_unless_busy(*shard)) {
            shards.iter().take_while(|shard| *shard != busy).for_each(|shard| self.engine.unlock(shard));
            return false;
        }
        self.locked = LockedShards::Many(shards);
        true
    }

    /// Locks these shards, in any order and with repetitions. Nothing may be locked.
    #[inline]
    pub fn lock_shards(&mut self, shards: Vec<usize>) {
        match shards.as_slice() {
            [] => {}
            [shard] => self.lock_shard(*shard),
            _ => self.lock_many(shards),
        }
    }

    fn lock_many(&mut self, shards: Vec<usize>) {
        debug_assert!(matches!(self.locked, LockedShards::None));
        let shards: Box<ShardSet> = Box::new(shards.into_iter().collect());
        shards.iter().for_each(|shard| self.engine.lock(shard));
        self.locked = LockedShards::Many(shards);
    }

    /// Unlocks the locked shards, after their changes have been recorded.
    #[inline]
    pub fn release(&mut self) {
        if !self.effects.pending().is_empty() {
            self.record();
        }
        if self.change.is_some() {
            self.end_change();
        }
        if !self.followed.is_empty() {
            self.report_followed();
        }
        if !self.net_changes.is_empty() {
            self.net_changes.publish_to(&self.counters.keys);
        }
        self.engine.release(&mut self.locked);
    }

    /// Unlocks the shards of a request that panicked before it changed anything, and drops its records.
    pub fn abandon(&mut self) {
        self.effects.pending().clear();
        self.effects.abandon();
        (self.dirty, self.gave_up) = (0, false);
        self.change = None;
        self.followed.clear();
        self.net_changes.publish_to(&self.counters.keys);
        self.engine.release(&mut self.locked);
    }

    /// Appends the effects so far to the journal now, rather than when the shards are released.
    pub fn record_pending(&mut self) {
        if !self.effects.pending().is_empty() {
            self.record();
        }
    }

    /// Appends the effects to the journal, while all of their shards are locked.
    fn record(&mut self) {
        let (journal, pending) = (&self.engine.journal, self.effects.pending());
        match pending.record() {
            // It has no reader.
            None => pending.clear(),
            Some((tag, payload)) if journal.is_on() => {
                self.recorded = journal.append(tag, payload);
                pending.clear();
            }
            Some(_) => {}
        }
    }

    /// Whether no shard is locked.
    pub fn has_no_shards(&self) -> bool {
        matches!(self.locked, LockedShards::None)
    }

    /// Which shards are locked.
    pub(crate) fn locked_mut(&mut self) -> &mut LockedShards {
        &mut self.locked
    }

    /// Whether a shard is locked.
    #[inline]
    pub fn covers(&self, shard: usize) -> bool {
        self.locked.covers(shard)
    }

    /// The locked shards, ascending.
    pub fn locked_shards(&self) -> Vec<usize> {
        match &self.locked {
            LockedShards::None => Vec::new(),
            LockedShards::One(shard) => vec![*shard],
            LockedShards::Many(shards) => shards.iter().collect(),
            LockedShards::Every | LockedShards::All => (0..SHARD_COUNT).collect(),
        }
    }

    /// Notes that this thread has locked more shards.
    pub(crate) fn add_locked(&mut self, shards: &[usize]) {
        let all = self.locked_shards().into_iter().chain(shards.iter().copied());
        self.locked = LockedShards::Many(Box::new(all.collect()));
    }

    /// Runs `work` on one shard, which is locked for it unless it is already. If it is not, nothing else may
    /// be.
    pub fn with_shard<R>(&mut self, shard: usize, work: impl FnOnce(&mut Self) -> R) -> R {
        if self.locked.covers(shard) {
            return work(self);
        }
        self.lock_shard(shard);
        let result = work(self);
        self.release();
        result
    }

    /// As [`Keys::with_shard`] for a command that walks shards: `None`, and [`Keys::gave_up`], if it would
    /// have to wait while a script is busy.
    pub fn visit_shard<R>(&mut self, shard: usize, work: impl FnOnce(&mut Self) -> R) -> Option<R> {
        if self.locked.covers(shard) {
            return Some(work(self));
        }
        if !self.lock_shard_unless_busy(shard) {
            self.gave_up = true;
            return None;
        }
        let result = work(self);
        self.release();
        Some(result)
    }

    /// Locks the shards of keys that the data of a request's keys names, before the request changes anything.
    /// If one of them is not free, they are noted as wanted: false, and [`Keys::relock_wanted`] is next.
    #[must_use]
    pub fn lock_linked(&mut self, shards: &[usize]) -> bool {
        let is_locked = self.try_lock_more(shards);
        if !is_locked {
            self.wanted_shards.extend_from_slice(shards);
        }
        is_locked
    }

    /// Gives up the locked shards, and locks them again with those that are wanted; without those, and false,
    /// if a busy script has one of them. The request that wanted them has changed nothing; it is the only one
    /// that was to run under these locks.
    #[must_use]
    pub fn relock_wanted(&mut self) -> bool {
        let before = self.locked_shards();
        let mut shards = before.clone();
        shards.append(&mut self.wanted_shards);
        self.release();
        let is_locked = self.lock_shards_unless_busy(shards);
        if !is_locked {
            self.lock_shards(before);
        }
        is_locked
    }

    /// Unlocks the locked shard, runs `work`, and locks the shard again: for a request that needs no key for
    /// a while and has changed none. Other threads may change the keys in between. Returns `None`, without a
    /// call of `work`, unless exactly one shard is locked and there are no effects to record.
    ///
    /// # Errors
    /// [`ShardBusy`]; then no shard is locked any more.
    pub fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> Result<Option<R>, ShardBusy> {
        let LockedShards::One(shard) = self.locked else { return Ok(None) };
        if self.change.is_some() || self.effects.has_news() || !self.effects.pending().is_empty() {
            return Ok(None);
        }
        self.release();
        let result = work();
        if self.lock_shard_unless_busy(shard) { Ok(Some(result)) } else { Err(ShardBusy) }
    }

    /// Locks more shards besides the locked ones; false, and nothing has changed, if one of them is not free
    /// and might never be: its holder may wait for one of these.
    pub fn try_lock_more(&mut self, shards: &[usize]) -> bool {
        let mut missing: Vec<usize> = shards.iter().copied().filter(|shard| !self.covers(*shard)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return true;
        }
        let highest = self.locked_shards().last().copied();
        for (at, &shard) in missing.iter().enumerate() {
            // A thread that locks in ascending order may wait.
            let may_wait = highest.is_none_or(|highest| highest < shard);
            let engine = self.engine();
            let is_locked = if may_wait { engine.lock_unless_busy(shard) } else { engine.try_lock(shard) };
            if !is_locked {
                missing[..at].iter().for_each(|&shard| self.engine().unlock(shard));
                return false;
            }
        }
        self.add_locked(&missing);
        true
    }
}
