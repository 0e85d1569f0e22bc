//! The encoding of large sorted sets: a B+-tree of leaves ordered by score and member, and an index by
//! member.
//!
//! Everything is reached through reference-counted nodes, so a clone costs three small nodes whatever the
//! size, and a write after it copies the touched path. Invariant: each entry is in exactly one leaf,
//! and the index names its place.

use super::index::{Index, Place, member_hash};
use super::leaf::{LEAF_MAX, Leaf};
use super::slots::Slots;
use super::tree::{Inner, Store, Target};
use martlet_base::prefetch::{Name, PrefetchQueue, ProbeStep, Progress};
use std::ops::Range;

/// See the module's description.
#[derive(Clone)]
pub(super) struct Full {
    len: u64,
    root: Inner,
    store: Store,
}

/// A member that was found.
#[derive(Clone, Copy)]
pub(super) struct Found {
    hash: u64,
    place: Place,
    pub score: f64,
}

impl Full {
    pub fn new() -> Full {
        let mut store = Store { leaves: Slots::new(), index: Index::new(), leaf_bytes: 0, node_bytes: 0 };
        let first = store.add_leaf(Leaf::empty());
        Full { len: 0, root: Inner::over(first), store }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn heap_bytes(&self) -> usize {
        let Store { leaves, index, leaf_bytes, node_bytes } = &self.store;
        size_of::<Full>() + 8 + leaves.node_bytes() + index.heap_bytes() + leaf_bytes + node_bytes
    }

    /// Finds a member, or says with which hash to insert it.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Result<Found, u64> {
        self.find_hashed(member_hash(member), member)
    }

    /// Queues the index' line for a member, or if that is known the line of its leaf.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        let Name::Text { hash, .. } = probe.name else { return Progress::Done };
        if probe.step > 0 {
            let place = self.store.index.find(hash, |_| true);
            place
                .into_iter()
                .for_each(|place| self.store.leaf(place.leaf).queue_cell(usize::from(place.slot), queue));
            Progress::Done
        } else {
            self.store.index.queue_home(hash, queue);
            Progress::More
        }
    }

    /// As [`Full::find`], where an addition at `score` may follow: the memory for it is prefetched.
    #[inline]
    pub fn find_to_add(&self, member: &[u8], score: f64) -> Result<Found, u64> {
        let hash = member_hash(member);
        self.store.index.prefetch(hash);
        self.root.prefetch(&self.store, score);
        let found = self.find_hashed(hash, member);
        if let Ok(found) = &found {
            self.store.leaf(found.place.leaf).prefetch_scores();
        }
        found
    }

    #[inline]
    fn find_hashed(&self, hash: u64, member: &[u8]) -> Result<Found, u64> {
        let mut score = 0.0;
        let place = self.store.index.find(hash, |place| {
            let leaf = self.store.leaf(place.leaf);
            // SAFETY: the index names places of entries only.
            let (found, name) = unsafe { leaf.entry_in_use(usize::from(place.slot)) };
            score = found;
            name == member
        });
        match place {
            Some(place) => Ok(Found { hash, place, score }),
            None => Err(hash),
        }
    }

    /// Adds a member that is not there; `hash` comes from [`Full::find`].
    pub fn insert(&mut self, hash: u64, member: &[u8], score: f64) {
        // They would take more than 100 GB in this one key: a limit, and no error that a command could give.
        assert!(self.len < u64::from(u32::MAX), "a sorted set has at most 2^32 - 1 members");
        let place = self.root.insert(&mut self.store, score, member);
        self.store.index.insert(hash, place);
        self.len += 1;
    }

    /// Gives a member that was just found another score.
    pub fn update(&mut self, found: Found, member: &[u8], score: f64) {
        let Place { leaf: id, slot } = found.place;
        let leaf = self.store.leaf(id);
        let rank = leaf.rank_of(usize::from(slot));
        // Between two neighbours in the leaf nothing moves. At an edge only the tree knows the neighbour.
        let stays = rank > 0
            && rank + 1 < leaf.len()
            && leaf.compare(rank - 1, score, member).is_lt()
            && leaf.compare(rank + 1, score, member).is_gt();
        if stays {
            self.store.set_score(id, usize::from(slot), score);
            return;
        }
        self.root.remove(&mut self.store, Target::Entry(found.score, member, usize::from(slot)));
        let place = self.root.insert(&mut self.store, score, member);
        self.store.index.relocate(found.hash, found.place, place);
    }

    /// Removes a member that was just found.
    pub fn remove(&mut self, found: Found, member: &[u8]) {
        self.store.index.remove(found.hash, found.place);
        self.root.remove(&mut self.store, Target::Entry(found.score, member, usize::from(found.place.slot)));
        self.len -= 1;
    }

    /// Removes the entries at `ranks`, which are below the length, after `f` has seen each: leaves that lie
    /// within them as a whole.
    pub fn remove_range(&mut self, ranks: Range<usize>, f: &mut dyn FnMut(&[u8], f64)) {
        let mut left = ranks.len();
        while left > 0 {
            let (id, in_leaf) = self.root.at_rank(ranks.start as u64);
            // A reference, so that leaf and index can be changed.
            let leaf = self.store.leaf(id).clone();
            let count = left.min(leaf.len() - in_leaf);
            self.remove_from_index(id, &leaf, in_leaf..in_leaf + count, f);
            let is_whole = count == leaf.len() && self.len > count as u64;
            drop(leaf);
            if is_whole {
                self.root.remove_leaf(&mut self.store, ranks.start as u64);
            } else {
                (0..count).for_each(|_| self.root.remove(&mut self.store, Target::Rank(ranks.start as u64)));
            }
            self.len -= count as u64;
            left -= count;
        }
    }

    /// Removes entries of a leaf from the index, after `f` has seen each.
    fn remove_from_index(
        &mut self,
        id: u32,
        leaf: &Leaf,
        ranks: Range<usize>,
        f: &mut dyn FnMut(&[u8], f64),
    ) {
        let mut hashes = [0; LEAF_MAX];
        for (hash, rank) in hashes.iter_mut().zip(ranks.clone()) {
            *hash = member_hash(leaf.entry(rank).1);
            self.store.index.prefetch(*hash);
        }
        for (hash, rank) in hashes.iter().zip(ranks) {
            let slot = leaf.slot(rank);
            f(leaf.member(slot), leaf.score(slot));
            self.store.index.remove(*hash, Place { leaf: id, slot: slot as u8 });
        }
    }

    /// The rank of a member that was just found.
    pub fn rank(&self, found: Found, member: &[u8]) -> usize {
        self.root.rank_of(&self.store, found.score, member, usize::from(found.place.slot)) as usize
    }

    /// How many entries have a score below `score`; with `or_equal` also those at it.
    pub fn rank_of_score(&self, score: f64, or_equal: bool) -> usize {
        self.root.rank_of_score(&self.store, score, or_equal) as usize
    }

    /// How many entries have a member of which `is_before` is true, where all scores are equal.
    pub fn rank_of_member(&self, is_before: impl FnMut(&[u8]) -> bool) -> usize {
        self.root.rank_of_member(&self.store, is_before) as usize
    }

    /// The leaf with the entry at `rank`, which is below the length, and the rank in it.
    #[inline]
    pub fn at_rank(&self, rank: usize) -> (&Leaf, usize) {
        let (id, in_leaf) = self.root.at_rank(rank as u64);
        (self.store.leaf(id), in_leaf)
    }

    /// See [`Index::scan`].
    pub fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(&[u8], f64)) -> u64 {
        self.store.index.scan(cursor, count, &mut |place| {
            let (leaf, slot) = (self.store.leaf(place.leaf), usize::from(place.slot));
            f(leaf.member(slot), leaf.score(slot));
        })
    }

    /// Drops up to about `budget` allocations; whether all but this one are gone. Nothing else may be asked
    /// afterwards.
    pub fn free_some(&mut self, mut budget: usize) -> bool {
        self.store.leaves.free_some(&mut budget)
            && self.store.index.free_some(&mut budget)
            && self.root.free_some(&mut budget)
    }
}
