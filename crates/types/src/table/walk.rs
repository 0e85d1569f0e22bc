//! Reading many entries: iteration, scanning by cursor, random choice.

use super::excess::{Entries, Excess};
use super::leaf::Leaf;
use super::node::{Child, Node, Slot};
use super::{CURSOR_SHIFT, Entry, Kind, Table};
use martlet_base::hash::spread;
use martlet_base::random::Random;
use std::collections::HashSet;
use std::marker::PhantomData;

/// Leaves that [`Table::random`] tries before it counts entries instead: half of the tries end it, unless a
/// client has brought members together whose hashes are not as chance would have them.
const TRIES: usize = 64;
/// If more than one in this many entries is to be sampled, all are passed. Redis:
/// `SRANDMEMBER_SUB_STRATEGY_MUL`, `HRANDFIELD_SUB_STRATEGY_MUL`.
const SAMPLE_WALK_FACTOR: usize = 3;

impl<K: Kind> Table<K> {
    /// All entries in the order of their hashes' prefixes.
    pub fn iter(&self) -> Iter<'_, K> {
        Iter {
            way: Vec::new(),
            next: Some(self.root),
            leaf: None,
            from: 0,
            left: self.len(),
            excess: self.excess.as_deref().map(Excess::iter),
            table: PhantomData,
        }
    }

    /// The leaf of `hash` and the number of leading hash bits that choose it.
    fn leaf_and_depth(&self, hash: u64) -> Option<(Leaf, u32)> {
        let spot = self.spot(hash)?;
        let local = spot.parent.map_or(0, |(node, index)| node.local_bits(index));
        Some((spot.leaf, spot.depth + local))
    }

    /// Passes at least `count` entries to `f` if there are as many from the cursor on, whole leaves at a
    /// time, and returns the next cursor; 0 at the end, as at the start. Cursors are below 2^48.
    ///
    /// An entry that is in the table from the first to the last call of a full walk is passed at least once.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Entry<'_>)) -> u64 {
        let mut position = cursor << CURSOR_SHIFT;
        let mut seen = 0;
        while let Some((leaf, depth)) = self.leaf_and_depth(position) {
            each_entry::<K>(leaf, &mut f);
            seen += leaf.count();
            if let Some(excess) = &self.excess {
                let last = position | u64::MAX.checked_shr(depth).unwrap_or(0);
                seen += excess.each_in(position >> CURSOR_SHIFT, last >> CURSOR_SHIFT, &mut f);
            }
            if depth == 0 {
                break;
            }
            // The end of the leaf's range; behind the last leaf this is 2^64.
            position = (position | u64::MAX >> depth).wrapping_add(1);
            if position == 0 || seen >= count {
                return position >> CURSOR_SHIFT;
            }
        }
        0
    }

    /// Hands `count` distinct entries to `f`; each combination is equally likely. False, and none was handed
    /// over, if there are so few others that the caller had better pass all entries.
    pub fn sample<'a>(&'a self, count: usize, random: &mut Random, mut f: impl FnMut(Entry<'a>)) -> bool {
        if count.saturating_mul(SAMPLE_WALK_FACTOR) > self.len() {
            return false;
        }
        let mut chosen = HashSet::with_capacity(count);
        while chosen.len() < count {
            let Some(entry) = self.random(random) else { break };
            if chosen.insert(entry.field.as_ptr()) {
                f(entry);
            }
        }
        true
    }

    /// An entry chosen uniformly; none if the table is empty.
    ///
    /// A random hash chooses a leaf as often as hashes fall there; accepting it with a probability in
    /// proportion to its count over that share makes up for leaves of many or few. Two tries are expected
    /// whatever the tree's shape, as long as hashes are even; after [`TRIES`] of them, or where the tree does
    /// not have all entries, leaves are passed until the one with the n-th entry, O(n).
    pub fn random(&self, random: &mut Random) -> Option<Entry<'_>> {
        if self.is_empty() {
            return None;
        }
        let tries = if self.excess.is_none() { TRIES } else { 0 };
        for _ in 0..tries {
            let hash = spread(random.next_u64());
            let (leaf, depth) = self.leaf_and_depth(hash)?;
            if depth > 0 {
                let expected = share(hash, depth) * self.len() as f64;
                if random.unit_f64() * 2.0 * expected >= leaf.count() as f64 {
                    continue;
                }
            }
            let nth = random.below(leaf.count() as u64) as usize;
            return leaf.nth_place(nth).map(|place| leaf.entry::<K>(place));
        }
        self.iter().nth(random.below(self.len() as u64) as usize)
    }

    /// Removes an entry chosen uniformly and puts its field in `field`. Returns whether there was one.
    pub fn pop_random(&mut self, random: &mut Random, field: &mut Vec<u8>) -> bool {
        field.clear();
        match self.random(random) {
            Some(entry) => field.extend_from_slice(entry.field),
            None => return false,
        }
        self.remove(K::hash(field), field)
    }
}

/// The share of all hashes that agree with this one in the first `depth` bits: the inverse of [`spread`],
/// which is 2 - sqrt(4 - 3 x), at both ends.
fn share(hash: u64, depth: u32) -> f64 {
    let mask = u64::MAX >> depth;
    let root = |x: u64| (4.0 - 3.0 * (x as f64 / 2f64.powi(64))).sqrt();
    root(hash & !mask) - root(hash | mask)
}

/// Calls `f` with each entry of a leaf.
fn each_entry<K: Kind>(leaf: Leaf, f: &mut impl FnMut(Entry<'_>)) {
    let mut from = 0;
    while let Some((place, next)) = leaf.next_place(from) {
        f(leaf.entry::<K>(place));
        from = next;
    }
}

/// Iterator over all entries.
pub struct Iter<'a, K: Kind> {
    /// Nodes above the leaf, each with the index after the run that is being walked.
    way: Vec<(Node, usize)>,
    /// The slot to descend into.
    next: Option<Slot>,
    leaf: Option<Leaf>,
    from: usize,
    left: usize,
    /// The entries after the tree's.
    excess: Option<Entries<'a>>,
    table: PhantomData<&'a Table<K>>,
}

impl<K: Kind> Iter<'_, K> {
    /// Moves on to the next leaf; returns whether there is one.
    fn advance(&mut self) -> bool {
        loop {
            let slot = match (self.next.take(), self.way.last_mut()) {
                (Some(slot), _) => slot,
                (None, None) => return false,
                (None, Some((node, index))) if *index == node.len() => {
                    self.way.pop();
                    continue;
                }
                (None, Some((node, index))) => {
                    let slot = node.slot(*index);
                    *index += node.run(*index).1;
                    slot
                }
            };
            match slot.child() {
                Child::Empty => return false,
                Child::Node(node) => self.way.push((node, 0)),
                Child::Leaf(leaf) => {
                    (self.leaf, self.from) = (Some(leaf), 0);
                    return true;
                }
            }
        }
    }
}

impl<'a, K: Kind> Iterator for Iter<'a, K> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if let Some(leaf) = self.leaf
                && let Some((place, from)) = leaf.next_place(self.from)
            {
                self.from = from;
                self.left -= 1;
                return Some(leaf.entry::<K>(place));
            }
            if !self.advance() {
                let entry = self.excess.as_mut()?.next()?;
                self.left -= 1;
                return Some(entry);
            }
        }
    }

    /// Passes whole leaves.
    fn nth(&mut self, mut n: usize) -> Option<Entry<'a>> {
        if self.leaf.is_none() {
            while self.advance() {
                match self.leaf {
                    Some(leaf) if leaf.count() <= n => {
                        n -= leaf.count();
                        self.left -= leaf.count();
                    }
                    _ => break,
                }
                self.leaf = None;
            }
        }
        for _ in 0..n {
            self.next()?;
        }
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K: Kind> ExactSizeIterator for Iter<'_, K> {}
