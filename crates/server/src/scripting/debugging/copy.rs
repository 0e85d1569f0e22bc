//! The keys that a script sees which is debugged without effect: copies of those that it names, taken when it
//! first does, or of all of them once it looks at the whole store.
//!
//! Invariant: what the script changes is here only. Values are shared with the server's until one of both is
//! changed; the copies are of an engine of their own, which no client watches and no file records.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Mutex;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_engine::{Engine, Keys};
use martlet_keyspace::{Entry, Key};

use crate::slots::{Kept, Place};

/// Sessions of a server at a time: each has a thread, a Lua state and an engine.
const COPIES_MAX: usize = 8;
/// Keys of a copy.
pub const KEYS_MAX: usize = 1_000_000;

/// Engines for copies; a new one is made when none is free, and used again.
#[derive(Default)]
pub struct Copies(Mutex<State>);

#[derive(Default)]
struct State {
    /// Empty ones, whose shards their `Keys` have.
    free: Vec<Keys>,
    /// How many there are.
    count: usize,
}

impl Kept for Copies {
    const PLACE: Place = Place::DebugCopies;
}

/// See the [module docs](self).
pub struct Copy {
    /// The copies; `None` once they are given back.
    keys: Option<Keys>,
    names: HashSet<Vec<u8>>,
    is_whole: bool,
    copies: &'static Copies,
}

impl Copies {
    /// An empty copy; `None` if there are too many, or the system has no thread for another one.
    pub fn begin(&'static self) -> Option<Copy> {
        let mut state = lock(&self.0);
        let keys = match state.free.pop() {
            Some(keys) => keys,
            None if state.count < COPIES_MAX => {
                let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).ok()?));
                state.count += 1;
                let mut keys = Keys::new(engine, 0, Random::from_entropy());
                // Nothing else ever has them.
                engine.gate.closed(|alone| keys.lock_all_shards(alone));
                keys
            }
            None => return None,
        };
        Some(Copy { keys: Some(keys), names: HashSet::new(), is_whole: false, copies: self })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Some(mut keys) = self.keys.take() {
            keys.flush(None, false);
            Copy::forget_effects(&mut keys);
            lock(&self.copies.0).free.push(keys);
        }
    }
}

impl Copy {
    /// Whether all keys are here.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How many keys are here, or would be.
    pub fn key_count(&self) -> usize {
        self.names.len()
    }

    /// Copies a key of a locked shard, in each database, unless it has been.
    pub fn add(&mut self, live: &Keys, key: &Key<'_>) {
        if self.is_whole || self.names.contains(key.bytes) {
            return;
        }
        self.names.insert(key.bytes.to_vec());
        let shard = &live.shard(key.shard()).keys;
        for db in shard.used() {
            if let Some(entry) = shard.db(db).get(key) {
                self.put(db, &entry);
            }
        }
    }

    /// Copies the keys of these shards that are not here, locking one at a time; false if a busy script has
    /// one of them. The last shards come last.
    pub fn add_shards(&mut self, live: &mut Keys, shards: Range<usize>) -> bool {
        let mut each = shards.clone();
        let is_copied =
            each.all(|shard| live.visit_shard(shard, |live| self.add_shard(live, shard)).is_some());
        self.is_whole |= is_copied && shards.end == SHARD_COUNT;
        is_copied
    }

    fn add_shard(&mut self, live: &Keys, shard: usize) {
        let keys = &live.shard(shard).keys;
        for db in keys.used() {
            for entry in keys.db(db).iter() {
                if !self.names.contains(entry.key()) {
                    self.put(db, &entry);
                }
            }
        }
    }

    fn put(&mut self, db: usize, entry: &Entry<'_>) {
        if let Some(copies) = self.keys.as_mut() {
            copies.copy_in(db, entry);
        }
    }

    /// Runs `work` with `keys` exchanged for the copies; what the run would have recorded, published or woken
    /// is dropped.
    pub fn swapped<H: AsMut<Keys> + ?Sized, R>(
        &mut self,
        holder: &mut H,
        work: impl FnOnce(&mut H) -> R,
    ) -> R {
        let mut swap = |holder: &mut H| {
            if let Some(copies) = self.keys.as_mut() {
                std::mem::swap(holder.as_mut(), copies);
            }
        };
        swap(holder);
        let result = work(holder);
        swap(holder);
        if let Some(copies) = self.keys.as_mut() {
            Copy::forget_effects(copies);
        }
        result
    }

    fn forget_effects(keys: &mut Keys) {
        keys.effects.pending().clear();
        keys.effects.take_news();
        keys.effects.take_warnings();
        keys.ready = martlet_engine::ReadyKeys::default();
        (keys.dirty, keys.recorded, keys.flushed_all, keys.gave_up) = (0, 0, false, false);
    }
}
