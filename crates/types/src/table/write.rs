//! Insertion and removal: descent, copying of shared blocks, splits and merges.
//!
//! Each operation first descends read-only and notes whether a block on the way is shared. Only when there is
//! something to change are shared blocks copied, so a write that changes nothing copies nothing.

use super::entry::NewEntry;
use super::leaf::{LEAF_MAX_BYTES, Lack, Leaf};
use super::node::{Child, NODE_MAX_BITS, Node, Slot};
use super::{DEPTH_MAX, Kind, NO_EXPIRY, Table};

/// A leaf this small is merged with its sibling, if both together have at most [`MERGED_MAX_ENTRIES`].
const SMALL_LEAF_ENTRIES: usize = 16;
const MERGED_MAX_ENTRIES: usize = 30;
const MERGED_MAX_BYTES: usize = LEAF_MAX_BYTES / 2;

/// A leaf and the way to it.
pub(super) struct Spot {
    pub leaf: Leaf,
    /// The node above the leaf and the index of its slot; none if the leaf is the root.
    pub parent: Option<(Node, usize)>,
    /// The node above the parent.
    pub grandparent: Option<(Node, usize)>,
    /// Hash bits consumed above the parent.
    pub depth: u32,
    /// Whether some node on the way has other references.
    pub shared: bool,
}

impl Spot {
    fn is_writable(&self) -> bool {
        !self.shared && self.leaf.is_unique()
    }
}

impl<K: Kind> Table<K> {
    #[inline]
    pub(super) fn spot(&self, hash: u64) -> Option<Spot> {
        let mut slot = self.root;
        let (mut parent, mut grandparent) = (None, None);
        let (mut depth, mut above) = (0, 0);
        let mut shared = false;
        loop {
            match slot.child() {
                Child::Empty => return None,
                Child::Leaf(leaf) => return Some(Spot { leaf, parent, grandparent, depth: above, shared }),
                Child::Node(node) => {
                    shared |= !node.is_unique();
                    let index = node.index(hash << depth);
                    (grandparent, parent) = (parent, Some((node, index)));
                    (above, depth) = (depth, depth + node.bits());
                    slot = node.slot(index);
                }
            }
        }
    }

    /// Adds an entry. In a hash, an entry of the same field is overwritten; in a set, it stays as it is, its
    /// time too, and values are left out. Returns whether the field is new.
    pub fn insert(&mut self, hash: u64, field: &[u8], value: &[u8], expire_at_ms: i64) -> bool {
        let value = if K::HAS_VALUES { value } else { &[] };
        let new = NewEntry { field, value, expire_at_ms };
        if self.excess.is_some() && self.replace_in_excess(hash, &new) {
            return false;
        }
        let size = new.size::<K>();
        let is_new = loop {
            let Some(mut spot) = self.spot(hash) else {
                let leaf = Leaf::allocate(0, size);
                self.heap_bytes += leaf.allocated_bytes();
                self.root = leaf.into();
                continue;
            };
            if let Some(place) = spot.leaf.find(hash, field) {
                if !K::HAS_VALUES {
                    return false;
                }
                if spot.is_writable() {
                    let old = spot.leaf.entry::<K>(place);
                    let (old_blobs, old_timed) = (old.blob_bytes(), old.expire_at_ms != NO_EXPIRY);
                    if spot.leaf.replace::<K>(place, &new, size) {
                        self.heap_bytes -= old_blobs;
                        self.timed -= usize::from(old_timed);
                        break false;
                    }
                }
                if !self.make_room(spot, hash, false, size) {
                    self.remove(hash, field);
                    self.insert_in_excess(hash, &new);
                    return false;
                }
            } else {
                if spot.is_writable() && spot.leaf.lack(true, size) == Lack::Nothing {
                    spot.leaf.push::<K>(hash, &new, size);
                    self.len += 1;
                    break true;
                }
                if !self.make_room(spot, hash, true, size) {
                    self.insert_in_excess(hash, &new);
                    return true;
                }
            }
        };
        self.heap_bytes += new.blob_bytes();
        if new.expire_at_ms != NO_EXPIRY {
            self.timed += 1;
            self.note_expiry(hash, expire_at_ms);
        }
        is_new
    }

    /// Removes the entry of `field`; returns whether there was one.
    pub fn remove(&mut self, hash: u64, field: &[u8]) -> bool {
        loop {
            let Some(mut spot) = self.spot(hash) else { return false };
            let Some(place) = spot.leaf.find(hash, field) else {
                return self.excess.is_some() && self.remove_from_excess(hash, field);
            };
            if !spot.is_writable() {
                self.make_writable(spot, hash);
                continue;
            }
            let old = spot.leaf.entry::<K>(place);
            self.heap_bytes -= old.blob_bytes();
            self.timed -= usize::from(old.expire_at_ms != NO_EXPIRY);
            self.len -= 1;
            spot.leaf.erase::<K>(hash, place);
            self.shrink(hash);
            return true;
        }
    }

    /// Makes progress towards a writable leaf: copies the shared nodes on the way, or the leaf below them.
    pub(super) fn make_writable(&mut self, spot: Spot, hash: u64) {
        if spot.shared {
            self.copy_shared_nodes(hash);
        } else if !spot.leaf.is_unique() {
            self.replace_leaf(&spot, |leaf| leaf.resized::<K>(0));
        }
    }

    /// Makes progress towards a leaf with room for an entry of `size`: one step, after which the caller looks
    /// again. False if there cannot be room, since the hash has no bits left to split the leaf by.
    fn make_room(&mut self, spot: Spot, hash: u64, new_slot: bool, size: usize) -> bool {
        if spot.shared {
            self.copy_shared_nodes(hash);
            return true;
        }
        let leaf = spot.leaf;
        match leaf.lack(new_slot, size) {
            Lack::Slots if leaf.can_regroup() => self.replace_leaf(&spot, |leaf| leaf.regrouped::<K>(size)),
            Lack::Slots => return self.split(&spot),
            Lack::Bytes if leaf.live_bytes() + size > LEAF_MAX_BYTES => return self.split(&spot),
            // Some room beyond the need, lest holes of the same few bytes be compacted again and again.
            _ => self.replace_leaf(&spot, |leaf| leaf.resized::<K>(size + leaf.live_bytes() / 32)),
        }
        true
    }

    /// Gives every node on the way to `hash` one reference.
    fn copy_shared_nodes(&mut self, hash: u64) {
        let mut slot = self.root;
        let mut above: Option<(Node, usize)> = None;
        let mut rest = hash;
        while let Child::Node(mut node) = slot.child() {
            if !node.is_unique() {
                node = node.copy();
                self.put(above, node.into());
                slot.release::<K>();
            }
            let index = node.index(rest);
            rest <<= node.bits();
            above = Some((node, index));
            slot = node.slot(index);
        }
    }

    /// Stores the pointer to a node or the root's leaf where its parent, of one reference, keeps it.
    fn put(&mut self, above: Option<(Node, usize)>, slot: Slot) {
        match above {
            Some((node, index)) => node.fill(index, 1, slot),
            None => self.root = slot,
        }
    }

    fn replace_leaf(&mut self, spot: &Spot, f: impl FnOnce(Leaf) -> Leaf) {
        self.heap_bytes -= spot.leaf.allocated_bytes();
        let (leaf, run) = (spot.leaf, spot.parent.map(|(node, index)| (node, node.run(index))));
        let leaf = f(leaf);
        self.heap_bytes += leaf.allocated_bytes();
        match run {
            Some((node, (start, len))) => node.fill(start, len, leaf.into()),
            None => self.root = leaf.into(),
        }
    }

    /// Splits a leaf by the next bit of the hash, if there is one. The nodes above have one reference.
    fn split(&mut self, spot: &Spot) -> bool {
        let bit = spot.depth + spot.parent.map_or(0, |(node, index)| node.local_bits(index));
        if bit >= DEPTH_MAX {
            return false;
        }
        self.heap_bytes -= spot.leaf.allocated_bytes();
        let run = spot.parent.map(|(node, index)| node.run(index));
        let (clear, set) = spot.leaf.split::<K>(bit);
        self.heap_bytes += clear.allocated_bytes() + set.allocated_bytes();
        let halves = [clear, set];
        let expiries = halves.map(|leaf| leaf.earliest_expiry::<K>());
        let pair = |has_expiries| Node::build(1, has_expiries, |i| (halves[i].into(), expiries[i]));
        match (spot.parent, run) {
            (Some((node, _)), Some((start, len))) if len > 1 => {
                fill_halves(node, start, len, halves, expiries)
            }
            (Some((node, _)), Some((start, _))) if node.bits() < NODE_MAX_BITS => {
                self.heap_bytes -= node.allocated_bytes();
                let node = node.doubled();
                self.heap_bytes += node.allocated_bytes();
                self.put(spot.grandparent, node.into());
                fill_halves(node, start * 2, 2, halves, expiries);
            }
            (parent, _) => {
                // A leaf that is the root, or the only slot of a node that is as wide as nodes get.
                let child = pair(parent.map_or(self.timed > 0, |(node, _)| node.has_expiries()));
                self.heap_bytes += child.allocated_bytes();
                self.put(parent, child.into());
            }
        }
        true
    }

    /// Shrinks what removals have left too large around `hash`. The nodes on the way have one reference.
    pub(super) fn shrink(&mut self, hash: u64) {
        let Some(spot) = self.spot(hash) else { return };
        let (count, live) = (spot.leaf.count(), spot.leaf.live_bytes());
        if count <= SMALL_LEAF_ENTRIES && count % 4 == 0 {
            self.merge(hash);
        } else if live * 2 + 512 < spot.leaf.allocated_bytes() {
            self.replace_leaf(&spot, |leaf| leaf.resized::<K>(live / 8));
        }
    }

    /// Merges the leaf of `hash` with its sibling, and the result with its own, while they are small.
    /// The nodes on the way have one reference.
    fn merge(&mut self, hash: u64) {
        while let Some(spot) = self.spot(hash) {
            let Some((node, index)) = spot.parent else {
                return self.free_empty_root();
            };
            if !self.merge_at(&spot, node, index) {
                return;
            }
        }
    }

    /// Frees the root's leaf, which a table without entries has no use for.
    pub(super) fn free_empty_root(&mut self) {
        if self.len == 0
            && let Child::Leaf(leaf) = self.root.child()
        {
            self.heap_bytes -= leaf.allocated_bytes();
            leaf.release::<K>();
            self.root = Slot::EMPTY;
        }
    }

    /// One step of [`Table::merge`]; returns whether leaves were merged.
    fn merge_at(&mut self, spot: &Spot, node: Node, index: usize) -> bool {
        let (start, len) = node.run(index);
        let sibling_start = start ^ len;
        let Child::Leaf(sibling) = node.slot(sibling_start).child() else { return false };
        let fits = node.run(sibling_start).1 == len
            && spot.leaf.count() + sibling.count() <= MERGED_MAX_ENTRIES
            && spot.leaf.live_bytes() + sibling.live_bytes() <= MERGED_MAX_BYTES;
        if !fits {
            return false;
        }
        let start = start.min(sibling_start);
        let earliest = node.expiry(start).min(node.expiry(start + len));
        self.heap_bytes -= spot.leaf.allocated_bytes() + sibling.allocated_bytes();
        let merged = spot.leaf.merged::<K>(sibling);
        self.heap_bytes += merged.allocated_bytes();
        if len * 2 == node.len() {
            // The node's only child takes its place; the times recorded above the node cover the leaf too.
            self.heap_bytes -= node.allocated_bytes();
            self.put(spot.grandparent, merged.into());
            node.deallocate();
            return true;
        }
        node.fill(start, len * 2, merged.into());
        if node.has_expiries() {
            node.set_expiry(start, earliest);
            node.set_expiry(start + len, NO_EXPIRY);
        }
        if node.can_halve() {
            self.heap_bytes -= node.allocated_bytes();
            let node = node.halved();
            self.heap_bytes += node.allocated_bytes();
            self.put(spot.grandparent, node.into());
        }
        true
    }

    /// Changes the expiry time of `field`'s entry ([`NO_EXPIRY`] for none); returns whether there is such an
    /// entry.
    pub fn set_expiry(&mut self, hash: u64, field: &[u8], expire_at_ms: i64) -> bool {
        loop {
            let Some(mut spot) = self.spot(hash) else { return false };
            let Some(place) = spot.leaf.find(hash, field) else {
                return self.excess.is_some() && self.set_expiry_in_excess(hash, field, expire_at_ms);
            };
            let old = spot.leaf.entry::<K>(place);
            if old.expire_at_ms == expire_at_ms {
                return true;
            }
            let size = NewEntry { expire_at_ms, ..old.as_new() }.size::<K>();
            let was_timed = old.expire_at_ms != NO_EXPIRY;
            if spot.is_writable() && spot.leaf.set_expiry::<K>(place, expire_at_ms) {
                self.timed -= usize::from(was_timed);
                if expire_at_ms != NO_EXPIRY {
                    self.timed += 1;
                    self.note_expiry(hash, expire_at_ms);
                }
                return true;
            }
            if !self.make_room(spot, hash, false, size) {
                let value = old.value.to_vec();
                self.remove(hash, field);
                self.insert_in_excess(hash, &NewEntry { field, value: &value, expire_at_ms });
                return true;
            }
        }
    }

    /// Gives the node above, of one reference, an array of expiry times if it has none.
    pub(super) fn with_expiries(&mut self, above: Option<(Node, usize)>, node: Node) -> Node {
        if node.has_expiries() {
            return node;
        }
        self.heap_bytes -= node.allocated_bytes();
        let wider = node.rebuilt(true);
        node.deallocate();
        self.heap_bytes += wider.allocated_bytes();
        self.put(above, wider.into());
        wider
    }
}

fn fill_halves(node: Node, start: usize, len: usize, halves: [Leaf; 2], expiries: [i64; 2]) {
    for (i, leaf) in halves.into_iter().enumerate() {
        let first = start + i * len / 2;
        node.fill(first, len / 2, leaf.into());
        node.set_expiry(first, expiries[i]);
    }
}
