//! Inner nodes and the tagged pointers that join the tree.
//!
//! A node covers the hashes of one prefix and looks at the next `bits` (1 to 8) of them: `1 << bits` slots. A
//! leaf whose prefix is shorter fills a run of slots, aligned to its length, which together hold one
//! reference. Nodes grow by doubling up to 256 slots, then a slot's leaf gives way to a node one level down;
//! such a child fills one slot.
//!
//! ```text
//! | header: 16 bytes | slots: 8 bytes each | earliest expiry at or below each slot: 8 bytes each, if any has one |
//! ```
//!
//! The expiry times are lower bounds; a run's is at its first slot, the others hold [`NO_EXPIRY`]. What
//! always holds: a node without them has no timed entry below it; slots change only while the node has one
//! reference. As in [`super::leaf`], handles are bare and the tree keeps the rules that make the safe methods
//! safe.

use super::leaf::{BLOCK_ALIGN, Leaf};
use super::{Kind, NO_EXPIRY};
use crate::size_class::{class_bytes, class_of};
use martlet_base::prefetch::PrefetchQueue;
use martlet_base::sync::RefCount;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Most hash bits that one node looks at.
pub(super) const NODE_MAX_BITS: u32 = 8;

#[repr(C)]
struct Header {
    references: RefCount,
    bits: u32,
    has_expiries: bool,
}

const HEADER_BYTES: usize = 16;
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// A pointer to a leaf or a node, its kind and shape in the four low bits:
/// bit 0 says node; bits 1 to 3 hold a leaf's `log_groups` or a node's `bits - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(*mut u8);

/// The target of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Empty,
    Leaf(Leaf),
    Node(Node),
}

const TAG_MASK: usize = BLOCK_ALIGN - 1;
const NODE_TAG: usize = 1;

impl Slot {
    /// The root slot of an empty table.
    pub const EMPTY: Slot = Slot(std::ptr::null_mut());

    /// The block behind the pointer.
    #[inline(always)]
    pub fn child(self) -> Child {
        let tag = self.0.addr() & TAG_MASK;
        let Some(base) = NonNull::new(self.0.map_addr(|address| address & !TAG_MASK)) else {
            return Child::Empty;
        };
        if tag & NODE_TAG != 0 {
            Child::Node(Node { base, bits: (tag >> 1) as u32 + 1 })
        } else {
            // SAFETY: slots are made from live leaves and own a reference.
            Child::Leaf(unsafe { Leaf::from_raw(base, (tag >> 1) as u32) })
        }
    }

    /// Takes one more reference.
    pub fn retain(self) {
        match self.child() {
            Child::Empty => {}
            Child::Leaf(leaf) => leaf.retain(),
            Child::Node(node) => node.retain(),
        }
    }

    /// Earliest expiry recorded at or below.
    pub fn earliest_expiry<K: Kind>(self) -> i64 {
        match self.child() {
            Child::Empty => NO_EXPIRY,
            Child::Leaf(leaf) => leaf.earliest_expiry::<K>(),
            Child::Node(node) => node.earliest_expiry(),
        }
    }

    /// Gives up a reference and frees the blocks that were held only by it.
    pub fn release<K: Kind>(self) {
        match self.child() {
            Child::Empty => {}
            Child::Leaf(leaf) => leaf.release::<K>(),
            Child::Node(node) => node.release_into(|child| child.release::<K>()),
        }
    }
}

impl From<Leaf> for Slot {
    #[inline(always)]
    fn from(leaf: Leaf) -> Slot {
        let (base, log_groups) = leaf.to_raw();
        Slot(base.as_ptr().map_addr(|address| address | (log_groups as usize) << 1))
    }
}

impl From<Node> for Slot {
    #[inline(always)]
    fn from(node: Node) -> Slot {
        Slot(node.base.as_ptr().map_addr(|address| address | ((node.bits - 1) as usize) << 1 | NODE_TAG))
    }
}

/// Handle of a node; see the module's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    base: NonNull<u8>,
    bits: u32,
}

fn class_for(bits: u32, has_expiries: bool) -> u8 {
    class_of(HEADER_BYTES + ((8 << bits) << u32::from(has_expiries)))
}

fn layout(class: u8) -> Layout {
    Layout::from_size_align(class_bytes(class), BLOCK_ALIGN).unwrap_or_else(|_| panic!("node class {class}"))
}

impl Node {
    /// A node of one reference; `content` gives the slot and the earliest expiry for each index in order.
    pub fn build(bits: u32, has_expiries: bool, mut content: impl FnMut(usize) -> (Slot, i64)) -> Node {
        let layout = layout(class_for(bits, has_expiries));
        // SAFETY: the size is not zero.
        let Some(base) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let node = Node { base, bits };
        // SAFETY: the block has room for the header and all slots, and nothing else refers to it.
        unsafe { node.header().write(Header { references: RefCount::one(), bits, has_expiries }) };
        for index in 0..node.len() {
            let (slot, earliest) = content(index);
            // SAFETY: the pointer is that of a live block.
            unsafe {
                node.slot_at(index).write(slot);
                if has_expiries {
                    node.expiry_at(index).write(earliest);
                }
            }
        }
        node
    }

    #[inline(always)]
    fn header(self) -> *mut Header {
        self.base.as_ptr().cast()
    }

    #[inline(always)]
    fn slot_at(self, index: usize) -> *mut Slot {
        debug_assert!(index < self.len());
        // SAFETY: the slots follow the header.
        unsafe { self.base.as_ptr().add(HEADER_BYTES).cast::<Slot>().add(index) }
    }

    #[inline(always)]
    fn expiry_at(self, index: usize) -> *mut i64 {
        debug_assert!(index < self.len() && self.has_expiries());
        // SAFETY: where there are expiry times, they follow the slots.
        unsafe { self.base.as_ptr().add(HEADER_BYTES).cast::<i64>().add(self.len() + index) }
    }

    /// Hash bits that the node looks at.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Number of slots.
    #[inline(always)]
    pub fn len(self) -> usize {
        1 << self.bits
    }

    /// Bytes of the block.
    pub fn allocated_bytes(self) -> usize {
        class_bytes(class_for(self.bits, self.has_expiries()))
    }

    /// Whether the node records expiry times.
    #[inline]
    pub fn has_expiries(self) -> bool {
        // SAFETY: a live node's header is initialised.
        unsafe { (*self.header()).has_expiries }
    }

    /// Whether the caller's is the only reference.
    #[inline(always)]
    pub fn is_unique(self) -> bool {
        // SAFETY: the pointer is that of a live block.
        unsafe { (*self.header()).references.is_one() }
    }

    fn retain(self) {
        // SAFETY: the pointer is that of a live block.
        unsafe { (*self.header()).references.retain() }
    }

    /// Gives up a reference; with the last one, hands each child to `f`, which owns it from then on.
    pub fn release_into(self, mut f: impl FnMut(Slot)) {
        // SAFETY: the pointer is that of a live block; the last reference is exclusive.
        unsafe {
            if (*self.header()).references.release() {
                self.each_run(|_, slot| f(slot));
                self.deallocate();
            }
        }
    }

    /// Frees the block of a node whose children have moved elsewhere.
    pub fn deallocate(self) {
        // SAFETY: the block has this class, and no slot refers to it any more.
        unsafe { dealloc(self.base.as_ptr(), layout(class_for(self.bits, self.has_expiries()))) }
    }

    /// The slot that the highest bits of `hash` choose.
    #[inline(always)]
    pub fn index(self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    /// Queues where the slot at an index is.
    #[inline(always)]
    pub fn queue_slot(self, index: usize, queue: &mut PrefetchQueue) {
        queue.add(self.slot_at(index).cast());
    }

    /// The slot at an index.
    #[inline(always)]
    pub fn slot(self, index: usize) -> Slot {
        // SAFETY: a live node's slots are initialised.
        unsafe { self.slot_at(index).read() }
    }

    /// Earliest expiry recorded at an index.
    #[inline]
    pub fn expiry(self, index: usize) -> i64 {
        // SAFETY: where there are expiry times, all are initialised.
        if self.has_expiries() { unsafe { self.expiry_at(index).read() } } else { NO_EXPIRY }
    }

    /// Earliest expiry recorded at all.
    pub fn earliest_expiry(self) -> i64 {
        if !self.has_expiries() {
            return NO_EXPIRY;
        }
        (0..self.len()).map(|index| self.expiry(index)).min().unwrap_or(NO_EXPIRY)
    }

    /// Bits of the node that the child at `index` distinguishes: 0 if it fills the node, `bits` if it has one
    /// slot.
    #[inline]
    pub fn local_bits(self, index: usize) -> u32 {
        let child = self.slot(index);
        let mut bits = self.bits;
        while bits > 0 && self.slot(index ^ (1 << (self.bits - bits))) == child {
            bits -= 1;
        }
        bits
    }

    /// First index and length of the run of the child at `index`.
    #[inline]
    pub fn run(self, index: usize) -> (usize, usize) {
        let len = 1 << (self.bits - self.local_bits(index));
        (index & !(len - 1), len)
    }

    /// Calls `f` with the first index of each run and its slot.
    pub fn each_run(self, mut f: impl FnMut(usize, Slot)) {
        let mut index = 0;
        while index < self.len() {
            let slot = self.slot(index);
            f(index, slot);
            index += self.run(index).1;
        }
    }

    /// Stores a slot over a run. The node must have one reference.
    #[inline]
    pub fn fill(self, start: usize, len: usize, slot: Slot) {
        debug_assert!(self.is_unique());
        for index in start..start + len {
            // SAFETY: the slot is inside the block, whose only reference the caller has.
            unsafe { self.slot_at(index).write(slot) };
        }
    }

    /// Records the earliest expiry of the run that begins at `start`. The node must have one reference.
    pub fn set_expiry(self, start: usize, earliest: i64) {
        debug_assert!(self.is_unique());
        if self.has_expiries() {
            // SAFETY: as `fill`.
            unsafe { self.expiry_at(start).write(earliest) };
        } else {
            debug_assert!(earliest == NO_EXPIRY);
        }
    }

    /// A copy of one reference, whose children each get one more.
    pub fn copy(self) -> Node {
        // Each count is a cache miss: they are asked for together, then changed.
        self.each_run(|_, slot| {
            if let Child::Leaf(leaf) = slot.child() {
                leaf.prefetch_header();
            }
        });
        self.each_run(|_, slot| slot.retain());
        self.rebuilt(self.has_expiries())
    }

    /// A node of one reference with the same children, whose references move to it, with or without expiry
    /// times.
    pub fn rebuilt(self, has_expiries: bool) -> Node {
        Node::build(self.bits, has_expiries, |index| (self.slot(index), self.expiry(index)))
    }

    /// A node with each slot twice. The children move to it; `self` is freed.
    pub fn doubled(self) -> Node {
        let node = Node::build(self.bits + 1, self.has_expiries(), |index| {
            (self.slot(index / 2), if index % 2 == 0 { self.expiry(index / 2) } else { NO_EXPIRY })
        });
        self.deallocate();
        node
    }

    /// Whether no child needs the last bit.
    pub fn can_halve(self) -> bool {
        self.bits > 1 && (0..self.len()).step_by(2).all(|index| self.slot(index) == self.slot(index + 1))
    }

    /// A node with half the slots. The children move to it; `self` is freed.
    pub fn halved(self) -> Node {
        let node = Node::build(self.bits - 1, self.has_expiries(), |index| {
            (self.slot(index * 2), self.expiry(index * 2).min(self.expiry(index * 2 + 1)))
        });
        self.deallocate();
        node
    }
}
