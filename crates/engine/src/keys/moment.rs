//! The whole keyspace, or some shards of it, at one moment, beside the other threads.
//!
//! A command that reports on many shards locks all of them before it looks at the first one, so its reply
//! is the state at the moment of the last lock. Shards are locked in ascending order. A thread that finds
//! a shard locked releases its own, waits for that one alone and begins again, so a long command holds up
//! only those that want its shards; after [`PATIENCE`] attempts it waits with its locks.

use martlet_base::limits::SHARD_COUNT;
use martlet_keyspace::{Db, Key};

use super::Keys;
use crate::engine::ShardState;
use crate::key_counts;
use crate::shards::LockedShards;

/// How often a thread begins again before it waits with shards locked.
const PATIENCE: usize = 8;

/// This shard was not free; to be passed on to [`Keys::holding`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Contended(usize);

impl Keys {
    /// Runs `work` with every shard locked, beside the other threads: for what takes some microseconds.
    /// Nothing else may be locked, unless all are. `None`, and [`Keys::gave_up`], if it would have to wait
    /// while a script is busy.
    pub fn at_one_moment<R>(&mut self, work: impl FnOnce(&mut Keys) -> R) -> Option<R> {
        let mut work = Some(work);
        self.holding(|keys| {
            keys.lock_every_shard(|_| ())?;
            Ok(work.take().map(|work| work(keys)))
        })
        .flatten()
    }

    /// Runs `work`, which locks shards by [`Keys::lock_also`]; they stay locked until its end. If one of
    /// them is not free, all are unlocked, and `work` is run again. Nothing else may be locked, unless all
    /// are. `None`, and [`Keys::gave_up`], if it would have to wait while a script is busy.
    pub fn holding<R>(&mut self, mut work: impl FnMut(&mut Keys) -> Result<R, Contended>) -> Option<R> {
        if self.has_all_shards() || matches!(self.locked, LockedShards::Every) {
            return work(self).ok();
        }
        debug_assert!(matches!(self.locked, LockedShards::None));
        for attempt in 0.. {
            self.waits_locked = attempt >= PATIENCE;
            let result = work(self);
            self.release();
            match result {
                Ok(result) => return Some(result),
                Err(Contended(shard)) if self.engine.lock_unless_busy(shard) => self.engine.unlock(shard),
                Err(_) => break,
            }
        }
        self.gave_up = true;
        None
    }

    /// Locks one shard more, inside [`Keys::holding`]: one that is locked already, or is above all of those.
    ///
    /// # Errors
    /// It is not free.
    pub fn lock_also(&mut self, shard: usize) -> Result<(), Contended> {
        if self.locked.covers(shard) {
            return Ok(());
        }
        self.take_lock(shard)?;
        self.locked.add(shard);
        Ok(())
    }

    /// Locks all shards, and hands each to `visit` as soon as it is locked: while the processor has it at
    /// hand.
    fn lock_every_shard(&mut self, mut visit: impl FnMut(&ShardState)) -> Result<(), Contended> {
        if !self.has_no_shards() {
            (0..SHARD_COUNT).for_each(|shard| visit(self.shard(shard)));
            return Ok(());
        }
        for shard in 0..SHARD_COUNT {
            if let Err(contended) = self.take_lock(shard) {
                (0..shard).for_each(|shard| self.engine.unlock(shard));
                return Err(contended);
            }
            visit(self.engine.state(&LockedShards::One(shard), shard));
        }
        self.locked = LockedShards::Every;
        Ok(())
    }

    fn take_lock(&mut self, shard: usize) -> Result<(), Contended> {
        let is_locked = match self.waits_locked {
            true => self.engine.lock_unless_busy(shard),
            false => self.engine.try_lock(shard),
        };
        if is_locked { Ok(()) } else { Err(Contended(shard)) }
    }

    /// Number of keys in a database that are not hidden, at one moment.
    pub fn count(&mut self, db: usize) -> usize {
        if self.engine.hidden.is_any() {
            let visible = |keys: &mut Keys| (0..SHARD_COUNT).map(|shard| keys.visible_len(shard, db)).sum();
            return self.at_one_moment(visible).unwrap_or(0);
        }
        self.counted(db).unwrap_or_else(|| self.count_shards(db))
    }

    /// Runs a change of the key's database, and notes by how many keys it grows or shrinks.
    #[inline]
    pub(crate) fn change_db<R>(&mut self, key: &Key<'_>, change: impl FnOnce(&mut Db) -> R) -> R {
        let db = self.db_of_mut(key);
        let before = db.len();
        let result = change(db);
        let after = db.len();
        self.net_changes.note(self.view.db, before, after);
        result
    }

    /// Whether each database has as many keys as are counted, hidden ones too; all shards are locked.
    pub fn is_counted_right(&mut self) -> bool {
        (0..key_counts::COUNTED_DATABASES).all(|db| {
            let is = (0..SHARD_COUNT).map(|shard| self.shard(shard).keys.db(db).len()).sum::<usize>();
            self.counted(db).is_none_or(|counted| counted == is)
        })
    }

    /// The number of keys of a database by the counters and by this thread's unpublished changes.
    fn counted(&self, db: usize) -> Option<usize> {
        let published = key_counts::total(self.engine.counters.iter().map(|counters| &counters.keys), db)?;
        Some(published.saturating_add_signed(self.net_changes.of(db) as isize))
    }

    /// As [`Keys::count`] from the shards themselves, hidden keys too.
    pub fn count_shards(&mut self, db: usize) -> usize {
        let count = self.holding(|keys| {
            let mut count = 0;
            keys.lock_every_shard(|state| count += state.keys.db(db).len())?;
            Ok(count)
        });
        count.unwrap_or(0)
    }

    /// Whether no database has a key that is not hidden.
    pub fn is_empty(&mut self) -> bool {
        self.at_one_moment(|keys| {
            (0..SHARD_COUNT).all(|shard| {
                let used = keys.shard(shard).keys.used();
                used.into_iter().all(|db| keys.visible_len(shard, db) == 0)
            })
        })
        .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
