//! The B+-tree of a sorted set: inner nodes over leaves, with the number of entries below each child.
//!
//! An inner node keeps for each child a separating score, not a separating member: an entry's score decides
//! almost always, and where it equals the separator, the first entry of the child is looked up by the id of
//! the child's first leaf.
//!
//! What always holds, for child `i` of a node: `counts[i]` is the number of entries below it and is not zero,
//! `first_leaf[i]` its first leaf; `scores[i]` is no larger than the score of any entry below it, and no
//! smaller than that of any entry before. The first child's score is not read: it takes what is before the
//! others' too. Leaves keep their id for life, and of two that are joined the left
//! one stays, so a first leaf changes only where it is removed as a whole.

use super::index::{ID_LIMIT, Index, Place, member_hash};
use super::leaf::{LEAF_MAX, Leaf};
use super::slots::Slots;
use std::cmp::Ordering;
use std::ops::Range;
use triomphe::Arc;

/// Children of an inner node at most.
const FAN: usize = LEAF_MAX;

/// A node with fewer children or entries is joined with a neighbour, or takes some of its.
const FEW: usize = FAN / 4;

/// Two nodes are joined if they have at most this many children or entries together.
const JOINED_MAX: usize = FAN * 3 / 4;

/// The leaves of a tree by id, and the index that names them.
#[derive(Clone)]
pub(super) struct Store {
    pub leaves: Slots<Leaf>,
    pub index: Index,
    pub leaf_bytes: usize,
    /// Of inner nodes below the root, and of all nodes' child pointers.
    pub node_bytes: usize,
}

/// A node over leaves (height 1) or over nodes.
#[derive(Clone)]
pub(super) struct Inner {
    len: u8,
    height: u8,
    scores: [f64; FAN],
    counts: [u32; FAN],
    first_leaf: [u32; FAN],
    nodes: Option<Box<[Option<Arc<Inner>>; FAN]>>,
}

/// Bytes of a node below the root with its reference count, and of the pointers to its children, if they are
/// nodes.
const NODE_BYTES: usize = size_of::<Inner>() + 8;
const POINTERS_BYTES: usize = FAN * 8;

/// A child of an inner node, taken out or about to be put in.
struct Child {
    score: f64,
    count: u32,
    first_leaf: u32,
    node: Option<Arc<Inner>>,
}

/// Which entry to remove: by rank, or by score, member and slot.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Rank(u64),
    Entry(f64, &'a [u8], usize),
}

impl Store {
    #[inline]
    pub fn leaf(&self, id: u32) -> &Leaf {
        match self.leaves.get(id) {
            Some(leaf) => leaf,
            None => unreachable!("a leaf that the tree names"),
        }
    }

    /// Changes a leaf and accounts for its size.
    pub fn edit_leaf<R>(&mut self, id: u32, f: impl FnOnce(&mut Leaf) -> R) -> R {
        let Some(leaf) = self.leaves.get_mut(id) else { unreachable!("a leaf that the tree names") };
        self.leaf_bytes -= leaf.heap_bytes();
        let result = f(leaf);
        self.leaf_bytes += leaf.heap_bytes();
        result
    }

    /// Gives an entry another score that leaves its rank as it is.
    pub fn set_score(&mut self, id: u32, slot: usize, score: f64) {
        if let Some(leaf) = self.leaves.get_mut(id) {
            leaf.set_score(slot, score);
        }
    }

    pub fn add_leaf(&mut self, leaf: Leaf) -> u32 {
        self.leaf_bytes += leaf.heap_bytes();
        let id = self.leaves.insert(leaf);
        // As for the number of members: see `Full::insert`.
        assert!(id < ID_LIMIT, "a sorted set has no more leaves than an index entry can name");
        id
    }

    fn drop_leaf(&mut self, id: u32) {
        if let Some(leaf) = self.leaves.remove(id) {
            self.leaf_bytes -= leaf.heap_bytes();
        }
    }

    /// Informs the index that the entries of `parts`, each an old leaf and ranks in it, are now in slots 0,
    /// 1, 2… of the leaf `id`.
    fn reindex(&mut self, id: u32, parts: &[Part<'_>]) {
        let mut slot = 0;
        for (old_id, old, ranks) in parts {
            for rank in ranks.clone() {
                let old_slot = old.slot(rank);
                if (*old_id, old_slot) != (id, usize::from(slot)) {
                    let from = Place { leaf: *old_id, slot: old_slot as u8 };
                    self.index.relocate(member_hash(old.member(old_slot)), from, Place { leaf: id, slot });
                }
                slot += 1;
            }
        }
    }

    fn replace_leaf(&mut self, id: u32, leaf: Leaf) {
        self.edit_leaf(id, |place| *place = leaf);
    }

    /// Splits a full leaf in two halves and puts an entry into one. The place of the entry, and the right
    /// half.
    fn split_leaf(&mut self, id: u32, rank: usize, score: f64, member: &[u8]) -> (Place, Child) {
        const HALF: usize = LEAF_MAX / 2;
        let old = self.leaf(id).clone();
        let left = [(id, &old, 0..HALF)];
        let right = [(id, &old, HALF..old.len())];
        let right_id = self.add_leaf(collect(&right));
        self.replace_leaf(id, collect(&left));
        self.reindex(id, &left);
        self.reindex(right_id, &right);
        let count = (old.len() - HALF) as u32;
        let mut child = Child { score: old.entry(HALF).0, count, first_leaf: right_id, node: None };
        let (leaf, rank) = if rank <= HALF { (id, rank) } else { (right_id, rank - HALF) };
        child.count += u32::from(leaf == right_id);
        let slot = self.edit_leaf(leaf, |leaf| leaf.insert(rank, score, member)) as u8;
        (Place { leaf, slot }, child)
    }
}

/// Some entries of a leaf: its id, the leaf, their ranks.
type Part<'a> = (u32, &'a Leaf, Range<usize>);

fn collect(parts: &[Part<'_>]) -> Leaf {
    let parts: Vec<_> = parts.iter().map(|(_, leaf, ranks)| (*leaf, ranks.clone())).collect();
    Leaf::collect(&parts)
}

impl Inner {
    /// A node over one leaf without entries.
    pub fn over(leaf: u32) -> Inner {
        let mut root = Inner::empty(1);
        root.insert_child(0, Child { score: f64::NEG_INFINITY, count: 0, first_leaf: leaf, node: None });
        root
    }

    fn empty(height: u8) -> Inner {
        Inner {
            len: 0,
            height,
            scores: [0.0; FAN],
            counts: [0; FAN],
            first_leaf: [0; FAN],
            nodes: (height > 1).then(|| Box::new([const { None }; FAN])),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.len)
    }

    #[inline]
    fn node(&self, at: usize) -> Option<&Inner> {
        self.nodes.as_ref().and_then(|nodes| nodes[at].as_deref())
    }

    /// How many entries are below.
    pub fn total(&self) -> u64 {
        self.counts[..self.len()].iter().map(|&count| u64::from(count)).sum()
    }

    /// How many children have a separator that is below `score`, and how many one that is at most `score`;
    /// the first child, which has what is before all others, is among both.
    #[inline]
    fn count_scores(&self, score: f64) -> (usize, usize) {
        let (mut below, mut at_most) = (1u64, 1u64);
        for &other in self.scores.get(1..self.len()).unwrap_or_default() {
            below += u64::from(other < score);
            at_most += u64::from(other <= score);
        }
        (below as usize, at_most as usize)
    }

    /// The child in which (`score`, `member`) is, or belongs.
    #[inline]
    fn child_for(&self, store: &Store, score: f64, member: &[u8]) -> usize {
        let (below, at_most) = self.count_scores(score);
        // An entry before the first child's first one belongs to it all the same.
        let equal = below..at_most;
        let not_after = self.first_leaf[equal.clone()]
            .partition_point(|&id| store.leaf(id).compare(0, score, member) != Ordering::Greater);
        equal.start + not_after - 1
    }

    /// The place of the entry at `rank`: the leaf's id and the rank in it.
    pub fn at_rank(&self, mut rank: u64) -> (u32, usize) {
        let mut node = self;
        loop {
            let at = node.child_at_rank(&mut rank);
            match node.node(at) {
                Some(child) => node = child,
                None => return (node.first_leaf[at], rank as usize),
            }
        }
    }

    /// The child with the entry at `rank`, which becomes the rank in that child.
    #[inline]
    fn child_at_rank(&self, rank: &mut u64) -> usize {
        let counts = &self.counts[..self.len()];
        for (at, &count) in counts.iter().enumerate() {
            if *rank < u64::from(count) {
                return at;
            }
            *rank -= u64::from(count);
        }
        unreachable!("a rank below the number of entries")
    }

    /// Asks the processor for what an insertion at `score` will read of its leaf.
    #[inline]
    pub fn prefetch(&self, store: &Store, score: f64) {
        let (_, leaf) = self.descend(|node| node.count_scores(score).1 - 1);
        store.leaf(leaf).prefetch_scores();
    }

    /// How many entries are before the one in `slot` of the leaf that holds (`score`, `member`).
    pub fn rank_of(&self, store: &Store, score: f64, member: &[u8], slot: usize) -> u64 {
        let (before, leaf) = self.descend(|node| node.child_for(store, score, member));
        before + store.leaf(leaf).rank_of(slot) as u64
    }

    /// How many entries have a score below `score`; with `or_equal` also those at it.
    pub fn rank_of_score(&self, store: &Store, score: f64, or_equal: bool) -> u64 {
        let (before, leaf) = self.descend(|node| {
            let (below, at_most) = node.count_scores(score);
            let not_after = if or_equal { at_most } else { below };
            not_after - 1
        });
        let (less, equal) = store.leaf(leaf).count_scores(score);
        before + (less + if or_equal { equal } else { 0 }) as u64
    }

    /// How many entries have a member of which `is_before` is true, where all scores are equal.
    pub fn rank_of_member(&self, store: &Store, mut is_before: impl FnMut(&[u8]) -> bool) -> u64 {
        let (before, leaf) = self.descend(|node| {
            node.first_leaf[1..node.len()].partition_point(|&id| is_before(store.leaf(id).entry(0).1))
        });
        let leaf = store.leaf(leaf);
        before + leaf.partition_members(0..leaf.len(), is_before) as u64
    }

    /// Goes down to a leaf by `choose`: how many entries are before it, and its id.
    #[inline]
    fn descend(&self, mut choose: impl FnMut(&Inner) -> usize) -> (u64, u32) {
        let (mut node, mut before) = (self, 0);
        loop {
            let at = choose(node);
            before += node.counts[..at].iter().map(|&count| u64::from(count)).sum::<u64>();
            match node.node(at) {
                Some(child) => node = child,
                None => return (before, node.first_leaf[at]),
            }
        }
    }

    /// Puts an entry in. Returns its place, and the part that does not fit this node: the caller puts it
    /// behind this one.
    fn insert_below(
        &mut self,
        store: &mut Store,
        score: f64,
        member: &[u8],
        rightmost: bool,
    ) -> (Place, Option<Child>) {
        let at = self.child_for(store, score, member);
        let rightmost = rightmost && at + 1 == self.len();
        let (place, split) = match self.nodes.as_mut().and_then(|nodes| nodes[at].as_mut()) {
            Some(child) => Arc::make_mut(child).insert_below(store, score, member, rightmost),
            None => insert_in_leaf(store, self.first_leaf[at], score, member, rightmost),
        };
        self.counts[at] += 1;
        let Some(child) = split else { return (place, None) };
        self.counts[at] -= child.count;
        (place, self.insert_or_split(store, at + 1, child, rightmost))
    }

    /// Puts an entry into the tree of which this is the root.
    pub fn insert(&mut self, store: &mut Store, score: f64, member: &[u8]) -> Place {
        let (place, split) = self.insert_below(store, score, member, true);
        if let Some(right) = split {
            let above = Inner::empty(self.height + 1);
            store.node_bytes += NODE_BYTES + POINTERS_BYTES;
            let left = std::mem::replace(self, above);
            let (count, first_leaf) = (left.total() as u32, left.first_leaf[0]);
            let score = left.scores[0];
            self.insert_child(0, Child { score, count, first_leaf, node: Some(Arc::new(left)) });
            self.insert_child(1, right);
        }
        place
    }

    fn insert_or_split(
        &mut self,
        store: &mut Store,
        at: usize,
        child: Child,
        rightmost: bool,
    ) -> Option<Child> {
        if self.len() < FAN {
            self.insert_child(at, child);
            return None;
        }
        // Ascending scores leave three quarters behind instead of half.
        let kept = if rightmost && at == FAN { FAN * 3 / 4 } else { FAN / 2 };
        let mut right = Inner::empty(self.height);
        store.node_bytes += right.own_bytes();
        for from in kept..FAN {
            right.insert_child(from - kept, self.child(from));
        }
        self.truncate(kept);
        if at <= kept {
            self.insert_child(at, child);
        } else {
            right.insert_child(at - kept, child);
        }
        let (score, first_leaf) = (right.scores[0], right.first_leaf[0]);
        Some(Child { score, count: right.total() as u32, first_leaf, node: Some(Arc::new(right)) })
    }

    fn remove_below(&mut self, store: &mut Store, target: Target<'_>) {
        let (at, target) = match target {
            Target::Rank(mut rank) => (self.child_at_rank(&mut rank), Target::Rank(rank)),
            Target::Entry(score, member, _) => (self.child_for(store, score, member), target),
        };
        self.counts[at] -= 1;
        let left = match self.nodes.as_mut().and_then(|nodes| nodes[at].as_mut()) {
            Some(child) => {
                let child = Arc::make_mut(child);
                child.remove_below(store, target);
                child.len()
            }
            None => store.edit_leaf(self.first_leaf[at], |leaf| {
                leaf.remove(match target {
                    Target::Rank(rank) => rank as usize,
                    Target::Entry(_, _, slot) => leaf.rank_of(slot),
                });
                leaf.len()
            }),
        };
        if left < FEW && self.len() > 1 {
            let left_one = if at + 1 < self.len() { at } else { at - 1 };
            if self.height == 1 {
                self.refill_leaf(store, left_one);
            } else {
                self.refill_node(store, left_one);
            }
        }
    }

    /// Removes an entry from the tree of which this is the root; the index is the caller's concern.
    pub fn remove(&mut self, store: &mut Store, target: Target<'_>) {
        self.remove_below(store, target);
        self.lower(store);
    }

    /// Removes the leaf with the entry at `rank` from the tree of which this is the root, with all of its
    /// entries; there are more leaves. The index is the caller's concern.
    pub fn remove_leaf(&mut self, store: &mut Store, rank: u64) {
        self.remove_leaf_below(store, rank);
        self.lower(store);
    }

    /// Returns how many entries the leaf had. The node may be empty afterwards, which its parent removes.
    fn remove_leaf_below(&mut self, store: &mut Store, mut rank: u64) -> u32 {
        let at = self.child_at_rank(&mut rank);
        let Some(child) = self.nodes.as_mut().and_then(|nodes| nodes[at].as_mut()) else {
            let Child { count, first_leaf, .. } = self.remove_child(at);
            store.drop_leaf(first_leaf);
            return count;
        };
        let child = Arc::make_mut(child);
        let removed = child.remove_leaf_below(store, rank);
        let (left, first_leaf, own_bytes) = (child.len(), child.first_leaf[0], child.own_bytes());
        if left == 0 {
            store.node_bytes -= own_bytes;
            self.remove_child(at);
            return removed;
        }
        self.counts[at] -= removed;
        self.first_leaf[at] = first_leaf;
        if left < FEW && self.len() > 1 {
            self.refill_node(store, if at + 1 < self.len() { at } else { at - 1 });
        }
        removed
    }

    /// Puts the only child in this root's place, as long as there is only one.
    fn lower(&mut self, store: &mut Store) {
        while self.len() == 1
            && let Some(child) = self.nodes.as_mut().and_then(|nodes| nodes[0].take())
        {
            store.node_bytes -= NODE_BYTES + POINTERS_BYTES;
            *self = Arc::unwrap_or_clone(child);
        }
    }

    /// Joins the leaves of two neighbouring children, or shares their entries out evenly.
    fn refill_leaf(&mut self, store: &mut Store, at: usize) {
        let ids = [self.first_leaf[at], self.first_leaf[at + 1]];
        let [left, right] = ids.map(|id| store.leaf(id).clone());
        let (left_len, right_len) = (left.len(), right.len());
        let total = left_len + right_len;
        if total <= JOINED_MAX {
            let parts = [(ids[0], &left, 0..left_len), (ids[1], &right, 0..right_len)];
            store.replace_leaf(ids[0], collect(&parts));
            store.reindex(ids[0], &parts);
            store.drop_leaf(ids[1]);
            self.remove_child(at + 1);
            self.counts[at] = total as u32;
            return;
        }
        let half = total / 2;
        let (from_left, from_right) = (half.min(left_len), half.saturating_sub(left_len));
        let low = [(ids[0], &left, 0..from_left), (ids[1], &right, 0..from_right)];
        let high = [(ids[0], &left, from_left..left_len), (ids[1], &right, from_right..right_len)];
        let upper = collect(&high);
        self.scores[at + 1] = upper.entry(0).0;
        self.counts[at] = half as u32;
        self.counts[at + 1] = (total - half) as u32;
        store.replace_leaf(ids[0], collect(&low));
        store.replace_leaf(ids[1], upper);
        store.reindex(ids[0], &low);
        store.reindex(ids[1], &high);
    }

    /// Joins two neighbouring nodes, or shares their children out evenly.
    fn refill_node(&mut self, store: &mut Store, at: usize) {
        let mut right_child = self.remove_child(at + 1);
        let Some(nodes) = &mut self.nodes else { return };
        let (Some(left), Some(right)) = (&mut nodes[at], &mut right_child.node) else { return };
        let (left, right) = (Arc::make_mut(left), Arc::make_mut(right));
        right.scores[0] = right_child.score;
        let total = left.len() + right.len();
        let joined = total <= JOINED_MAX;
        let goal = if joined { total } else { total / 2 };
        while left.len() < goal {
            let child = right.remove_child(0);
            left.insert_child(left.len(), child);
        }
        while left.len() > goal {
            let child = left.remove_child(left.len() - 1);
            right.insert_child(0, child);
        }
        self.counts[at] = left.total() as u32;
        if joined {
            store.node_bytes -= right.own_bytes();
        } else {
            let (score, count, first_leaf) = (right.scores[0], right.total() as u32, right.first_leaf[0]);
            self.insert_child(at + 1, Child { score, count, first_leaf, node: right_child.node });
        }
    }

    /// Takes out what `insert_child` put in; the caller removes the place.
    fn child(&mut self, at: usize) -> Child {
        Child {
            score: self.scores[at],
            count: self.counts[at],
            first_leaf: self.first_leaf[at],
            node: self.nodes.as_mut().and_then(|nodes| nodes[at].take()),
        }
    }

    fn truncate(&mut self, len: usize) {
        self.len = len as u8;
    }

    fn insert_child(&mut self, at: usize, child: Child) {
        let len = self.len();
        self.scores.copy_within(at..len, at + 1);
        self.scores[at] = child.score;
        self.counts.copy_within(at..len, at + 1);
        self.counts[at] = child.count;
        self.first_leaf.copy_within(at..len, at + 1);
        self.first_leaf[at] = child.first_leaf;
        if let Some(nodes) = &mut self.nodes {
            nodes[at..=len].rotate_right(1);
            nodes[at] = child.node;
        }
        self.len += 1;
    }

    fn remove_child(&mut self, at: usize) -> Child {
        let (len, child) = (self.len(), self.child(at));
        self.scores.copy_within(at + 1..len, at);
        self.counts.copy_within(at + 1..len, at);
        self.first_leaf.copy_within(at + 1..len, at);
        if let Some(nodes) = &mut self.nodes {
            nodes[at..len].rotate_left(1);
        }
        self.len -= 1;
        child
    }

    /// Bytes of this node, below the root.
    fn own_bytes(&self) -> usize {
        NODE_BYTES + if self.nodes.is_some() { POINTERS_BYTES } else { 0 }
    }

    /// Drops up to `budget` nodes; whether none is left below this one.
    pub fn free_some(&mut self, budget: &mut usize) -> bool {
        let Some(nodes) = &mut self.nodes else { return true };
        for slot in nodes.iter_mut() {
            let Some(child) = slot else { continue };
            if *budget == 0 || Arc::get_mut(child).is_some_and(|child| !child.free_some(budget)) {
                return false;
            }
            *budget = budget.saturating_sub(1);
            *slot = None;
        }
        true
    }
}

fn insert_in_leaf(
    store: &mut Store,
    id: u32,
    score: f64,
    member: &[u8],
    rightmost: bool,
) -> (Place, Option<Child>) {
    let leaf = store.leaf(id);
    let (rank, len) = (leaf.lower_bound(score, member), leaf.len());
    if len < LEAF_MAX {
        let slot = store.edit_leaf(id, |leaf| leaf.insert(rank, score, member)) as u8;
        return (Place { leaf: id, slot }, None);
    }
    if rightmost && rank == len {
        // Ascending scores leave full leaves behind.
        let first_leaf = store.add_leaf(Leaf::single(score, member));
        return (
            Place { leaf: first_leaf, slot: 0 },
            Some(Child { score, count: 1, first_leaf, node: None }),
        );
    }
    let (place, child) = store.split_leaf(id, rank, score, member);
    (place, Some(child))
}
