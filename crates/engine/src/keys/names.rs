//! Cuts of names: making one, and walking it.
//!
//! Invariant: a cut ends with its [`NameCut`], also when its owner panics or gives up, and leaves no names
//! behind but in shards that a busy script has locked.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use martlet_base::limits::SHARD_COUNT;
use martlet_keyspace::ORDERS;

use super::Keys;
use crate::engine::Engine;
use crate::names::{NamedKey, visit_noted};
use crate::shards::LockedShards;
use crate::snapshot::Observer;

/// Keys that are visited under one hold of a shard's lock, about.
const SLICE_KEYS: usize = 256;

/// A cut, for the thread that has made it; it ends when this is dropped.
pub struct NameCut {
    engine: &'static Engine,
    epoch: u64,
    db: usize,
    /// Shards below have been visited to their ends.
    next_shard: Cell<usize>,
}

impl Drop for NameCut {
    fn drop(&mut self) {
        self.engine.snapshot.observe(Observer::Names, false);
        for shard in self.next_shard.get()..SHARD_COUNT {
            // Of a shard that a busy script has locked, the names go with the next cut.
            if self.engine.try_lock(shard) {
                let mut locked = LockedShards::One(shard);
                let (_, part) = self.engine.state_and_part(&mut locked, shard);
                let names = std::mem::take(&mut part.names.changed);
                self.engine.release(&mut locked);
                drop(names);
            }
        }
        self.engine.names.turn.unlock();
    }
}

impl Keys {
    /// Makes a cut of the current database's names in this shard and those above, once this thread may
    /// have one; nothing is locked. `None`, and [`Keys::gave_up`], if it would have to wait while a script
    /// is busy.
    pub fn cut_names(&mut self, first_shard: usize) -> Option<NameCut> {
        let engine = self.engine();
        if !engine.names.turn.lock_unless(|| engine.has_busy_script()) {
            self.gave_up = true;
            return None;
        }
        let epoch = engine.names.epoch.load(Ordering::Relaxed) + 1;
        let cut = NameCut { engine, epoch, db: self.db(), next_shard: Cell::new(first_shard) };
        self.at_one_moment(|keys| {
            // The shards' locks order this before all changes that follow.
            engine.names.epoch.store(epoch, Ordering::Relaxed);
            engine.names.db.store(keys.db(), Ordering::Relaxed);
            engine.names.first_shard.store(first_shard, Ordering::Relaxed);
            engine.snapshot.observe(Observer::Names, true);
        })?;
        Some(cut)
    }

    /// Visits some keys of the cut in one shard, from an order on: the one that the last call for this
    /// shard returned, or any in the first call. The last call also visits the shard's keys that other
    /// threads have changed since the cut. Returns the next order, [`ORDERS`] at the shard's end; `None`,
    /// and [`Keys::gave_up`], if it would have to wait while a script is busy.
    pub fn visit_names(
        &mut self,
        cut: &NameCut,
        (shard, from): (usize, u64),
        mut visit: impl FnMut(NamedKey<'_>),
    ) -> Option<u64> {
        let (engine, mut visited) = (self.engine(), 0);
        self.visit_shard(shard, |keys| {
            let (state, part) = engine.state_and_part(keys.locked_mut(), shard);
            let part = &mut part.names;
            part.follow(cut.epoch);
            let (db, changed) = (state.keys.db(cut.db), &part.changed);
            let mut next = from;
            while next < ORDERS && visited < SLICE_KEYS {
                next = db.walk(next, |entry| {
                    visited += 1;
                    if changed.is_empty() || !changed.contains_key(entry.key()) {
                        visit(NamedKey::of(&entry));
                    }
                });
            }
            part.from = next;
            if next == ORDERS {
                cut.next_shard.set(shard + 1);
                visit_noted(part, visit);
            }
            next
        })
    }

    /// Visits the keys of the cut in a shard that have been changed before they were reached, for a walk
    /// that ends within the shard.
    pub fn visit_changed_names(&mut self, cut: &NameCut, shard: usize, visit: impl FnMut(NamedKey<'_>)) {
        let engine = self.engine();
        self.visit_shard(shard, |keys| {
            let (_, part) = engine.state_and_part(keys.locked_mut(), shard);
            part.names.follow(cut.epoch);
            visit_noted(&mut part.names, visit);
        });
    }
}

#[cfg(test)]
mod tests;
