//! What a thread does that has the whole store to itself.
//!
//! Invariant: all shards are locked only where the gate is closed.

use martlet_base::sync::Alone;

use super::Keys;
use crate::engine::LockedShards;

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

    /// Whether this thread has all shards.
    pub fn has_all_shards(&self) -> bool {
        matches!(self.locked, LockedShards::All)
    }

    /// Begins a snapshot: this instant is the cut. All shards are locked, and no snapshot is under way.
    pub fn cut_snapshot(&self) {
        assert!(self.has_all_shards(), "a cut beside others");
        self.engine.snapshot.cut();
    }
}
