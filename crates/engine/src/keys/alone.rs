//! Operations of a thread that has the whole store to itself.
//!
//! Invariant: all shards are locked only where the gate is closed.

use martlet_base::limits::SHARD_COUNT;
use martlet_base::sync::{Alone, Outside};

use martlet_keyspace::{Entry, Key};

use super::Keys;
use crate::hooks::Watcher;
use crate::shards::LockedShards;

impl Keys {
    /// Runs `work` alone: behind the closed gate, with all shards locked. The calling thread must be outside.
    pub fn alone<R>(&mut self, work: impl FnOnce(&mut Keys) -> R) -> R {
        self.engine.gate.closed(|alone| {
            self.lock_all_shards(alone);
            let result = work(self);
            self.release();
            result
        })
    }

    /// Takes all shards, behind the closed gate. Ends with [`Keys::release`], before the gate opens.
    pub fn lock_all_shards(&mut self, _: &Alone) {
        debug_assert!(matches!(self.locked, LockedShards::None));
        self.locked = LockedShards::All;
    }

    /// Lets this thread, which has all shards, wait for the disk while everything stands still: only for
    /// commands that ask for just that. `./x tidy` lists the files that may call it.
    pub fn standstill(&self) -> Outside {
        assert!(self.has_all_shards(), "a standstill beside others");
        Outside::of_standstill()
    }

    /// Whether this thread has all shards.
    pub fn has_all_shards(&self) -> bool {
        matches!(self.locked, LockedShards::All)
    }

    /// Replaces all databases by those of another engine, whose shards `other` has all: the old content is
    /// freed in the background, and that engine is left empty. Watchers and waiters see the same as after a
    /// flush and writes.
    pub fn replace_all(&mut self, other: &mut Keys, counted: bool) {
        assert!(self.has_all_shards() && other.has_all_shards(), "keys replaced beside others");
        self.flush(None, counted);
        for shard in 0..SHARD_COUNT {
            let theirs = &mut other.shard_mut(shard).keys;
            std::mem::swap(&mut self.shard_mut(shard).keys, theirs);
            let keys = &self.engine.state(&self.locked, shard).keys;
            for db in keys.used() {
                self.net_changes.note(db, 0, keys.db(db).len());
                other.net_changes.note(db, keys.db(db).len(), 0);
            }
            self.engine.set_due(shard, other.engine.due_ms(shard));
            other.engine.set_due(shard, i64::MAX);
            let (state, _) = self.engine.state_and_part(&mut self.locked, shard);
            for db in state.keys.used() {
                for (key, watchers) in state.hooks.watched(db) {
                    let is_there = state.keys.db(db).get(&Key::new(key)).is_some();
                    watchers.filter(|_| is_there).for_each(Watcher::created);
                }
                state.hooks.blocked_keys(db).for_each(|key| self.ready.note(db, key));
            }
        }
        if let Some(follower) = self.follower() {
            follower.replaced();
        }
    }

    /// Copies an entry of another engine's keys into a database of this one, whose shard is locked.
    pub fn copy_in(&mut self, db: usize, entry: &Entry<'_>) {
        let key = Key::new(entry.key());
        self.in_db(db, |keys| {
            keys.change_db(&key, |db| db.set_value(&key, entry.value(), entry.expiry_ms(), entry.lru()))
        });
    }

    /// Begins a snapshot: this instant is the cut. All shards are locked, and no snapshot is under way.
    pub fn cut_snapshot(&self) {
        assert!(self.has_all_shards(), "a cut beside others");
        self.engine.snapshot.cut(None);
    }

    /// The same of some shards' keys only; some of the others' may come, too.
    pub fn cut_snapshot_of(&self, shards: impl IntoIterator<Item = usize>) {
        assert!(self.has_all_shards(), "a cut beside others");
        self.engine.snapshot.cut(Some(shards.into_iter().collect()));
    }
}
