//! `Table`: the full encoding of sets and hashes, a chunked copy-on-write hash table.
//!
//! A radix tree over the bits of the members' hashes, highest first. Inner nodes ([`node`]) are 2 to 256
//! slots wide; leaves ([`leaf`]) hold up to 72 entries inline in one block, indexed by cache lines of tags
//! and offsets ([`group`]). A search touches the root's header and slot, which stay in cache, then one line
//! of the leaf's index, then the entry.
//!
//! - Growth splits one leaf; no insertion pays for more than that and for the widening of one node.
//! - Every block is reference-counted. A clone shares the root and costs O(1); a write copies the blocks
//!   between root and entry that are still shared, and nothing else. Reference counts are exact: a block is
//!   written only with one.
//! - Iteration and [`Table::scan`] follow the order of the hash, so a cursor is a position in hash space that
//!   splits and merges between two calls do not move.
//! - Expiry times live in the entries that have one; nodes above such entries record the earliest below each
//!   slot.
//! - Of entries that agree in all [`DEPTH_MAX`] bits that the tree distinguishes, those that do not fit into
//!   one leaf are in a map beside the tree ([`excess`]).
//!
//! Invariant: a leaf or node at depth d contains exactly the entries whose hashes begin with its d-bit
//! prefix; no node has a leaf as its only child; `len` and `timed` are the numbers of entries and of those
//! with an expiry time.

mod entry;
mod excess;
mod expiry;
mod group;
mod leaf;
mod node;
mod reclaim;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub use entry::Entry;
pub use reclaim::Reclaim;
pub use walk::Iter;

use excess::Excess;
use leaf::Leaf;
use martlet_base::hash::{hash_bytes, spread};
use martlet_base::prefetch::{Name, PrefetchQueue, ProbeStep, Progress};
use node::{Child, Slot};
use std::marker::PhantomData;

/// The expiry time of an entry that does not expire.
pub const NO_EXPIRY: i64 = i64::MAX;

/// Hash bits that the tree may tell apart; the others choose a leaf's group and tag.
const DEPTH_MAX: u32 = 48;
/// Hash bits that a cursor leaves out: leaves begin and end at multiples of them.
const CURSOR_SHIFT: u32 = 64 - DEPTH_MAX;

/// The kind of a table's entries.
pub trait Kind: 'static {
    /// Whether entries have values.
    const HAS_VALUES: bool;

    /// The hash of a member or field.
    #[inline(always)]
    fn hash(field: &[u8]) -> u64 {
        hash_field(field)
    }
}

/// The hash by which tables find a member or field.
#[inline(always)]
pub fn hash_field(field: &[u8]) -> u64 {
    spread(hash_bytes(field))
}

/// Members of a set.
#[derive(Debug)]
pub enum Members {}

/// Fields of a hash with their values.
#[derive(Debug)]
pub enum Fields {}

impl Kind for Members {
    const HAS_VALUES: bool = false;
}

impl Kind for Fields {
    const HAS_VALUES: bool = true;
}

/// A hash table of members or of fields with values; see the module's description.
///
/// Methods that take a `hash` expect [`Kind::hash`] of the field beside it.
pub struct Table<K: Kind> {
    root: Slot,
    len: usize,
    /// Entries with an expiry time.
    timed: usize,
    /// No entry expires earlier.
    earliest_expiry_ms: i64,
    heap_bytes: usize,
    /// Entries for which the tree has no room, if there are any.
    excess: Option<Box<Excess>>,
    kind: PhantomData<K>,
}

// SAFETY: a table owns references to its blocks; shared blocks are only read, and their counts are atomic.
unsafe impl<K: Kind> Send for Table<K> {}
// SAFETY: the same holds; a shared reference only reads.
unsafe impl<K: Kind> Sync for Table<K> {}

impl<K: Kind> Table<K> {
    /// A table without entries; it allocates nothing.
    pub fn new() -> Table<K> {
        Table {
            root: Slot::EMPTY,
            len: 0,
            timed: 0,
            earliest_expiry_ms: NO_EXPIRY,
            heap_bytes: 0,
            excess: None,
            kind: PhantomData,
        }
    }

    /// Number of entries, expired ones that were not collected included.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the table is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the allocator gave for the table's blocks. Blocks shared with a clone are counted in both.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// The leaf where `hash` belongs.
    #[inline(always)]
    fn leaf(&self, hash: u64) -> Option<Leaf> {
        let mut slot = self.root;
        let mut rest = hash;
        loop {
            match slot.child() {
                Child::Empty => return None,
                Child::Leaf(leaf) => return Some(leaf),
                Child::Node(node) => {
                    slot = node.slot(node.index(rest));
                    rest <<= node.bits();
                }
            }
        }
    }

    /// Whether there is an entry for `field`.
    #[inline]
    pub fn contains(&self, hash: u64, field: &[u8]) -> bool {
        self.leaf(hash).is_some_and(|leaf| leaf.find(hash, field).is_some())
            || self.excess_entry(hash, field).is_some()
    }

    /// The entry for `field`, expired or not.
    #[inline]
    pub fn get(&self, hash: u64, field: &[u8]) -> Option<Entry<'_>> {
        let leaf = self.leaf(hash)?;
        match leaf.find(hash, field) {
            Some(place) => Some(leaf.entry::<K>(place)),
            None => self.excess_entry(hash, field),
        }
    }

    /// One probe step for an entry by its field: for the slots on the way to its leaf, one after the other,
    /// then for the leaf's group, then for the entry. The first node is passed at once: its slots are few
    /// enough to be at hand.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        let Name::Text { hash, len } = probe.name else { return Progress::Done };
        let hash = spread(hash);
        let (mut slot, mut rest, mut step) = (self.root, hash, probe.step);
        if let Child::Node(node) = slot.child() {
            slot = node.slot(node.index(rest));
            rest <<= node.bits();
        }
        loop {
            match (slot.child(), step) {
                (Child::Empty, _) => return Progress::Done,
                (Child::Leaf(leaf), 0) => {
                    leaf.queue_group(hash, probe.is_write, queue);
                    return Progress::More;
                }
                (Child::Leaf(leaf), _) => {
                    leaf.queue_entry::<K>(hash, len, probe.is_write, queue);
                    return Progress::Done;
                }
                (Child::Node(node), 0) => {
                    node.queue_slot(node.index(rest), queue);
                    return Progress::More;
                }
                (Child::Node(node), _) => {
                    slot = node.slot(node.index(rest));
                    rest <<= node.bits();
                    step -= 1;
                }
            }
        }
    }
}

impl<K: Kind> Default for Table<K> {
    fn default() -> Table<K> {
        Table::new()
    }
}

impl<K: Kind> Clone for Table<K> {
    /// O(1): the clone shares all blocks until one side writes.
    fn clone(&self) -> Table<K> {
        self.root.retain();
        Table {
            root: self.root,
            len: self.len,
            timed: self.timed,
            earliest_expiry_ms: self.earliest_expiry_ms,
            heap_bytes: self.heap_bytes,
            excess: self.excess.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Drop for Table<K> {
    fn drop(&mut self) {
        self.root.release::<K>();
    }
}

impl<K: Kind> std::fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
