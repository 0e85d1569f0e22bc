//! Pages of 64 slots, the unit of locking and of copying on write: node pages (links, ids, payloads) and
//! vector pages (components, range, former length). They are apart so that a change of links copies no
//! vectors.
//!
//! A page carries the generation of the graph that made it. A graph writes only to pages of its own
//! generation, and takes a fresh generation with every snapshot: pages that a snapshot can see never
//! change. The first page begins with room for a few slots and is copied when it needs more, so that a small
//! graph is small.

use super::layer::{self, HEADER_WORDS, Layer};
use super::shape::Shape;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Slots of a page.
pub(super) const PAGE_SLOTS: usize = 64;
/// Slots for which the first page has room at first.
const ROOM_MIN: usize = 4;

/// The slots for which page `number` has room if `index` is one of them.
#[inline]
pub(super) fn room(number: usize, index: usize) -> usize {
    if number > 0 { PAGE_SLOTS } else { (index + 1).next_power_of_two().clamp(ROOM_MIN, PAGE_SLOTS) }
}
/// The level of a slot without a node.
pub(super) const FREE: u32 = u32::MAX;

/// The links of a node that its page has no room for: the upper layers, and layer 0 once it has outgrown
/// the page.
#[derive(Debug)]
pub(super) struct Spill {
    pub(super) base: Option<Box<[AtomicU32]>>,
    /// Layers 1, 2, and so on.
    pub(super) upper: Box<[Box<[AtomicU32]>]>,
}

impl Spill {
    /// Empty layers above layer 0 for a node of `level`.
    pub(super) fn new(level: u32, capacity: usize) -> Spill {
        Spill { base: None, upper: (0..level).map(|_| layer::new_words(capacity)).collect() }
    }

    fn layers(&self) -> impl Iterator<Item = &[AtomicU32]> {
        self.base.iter().chain(&self.upper).map(|words| &**words)
    }

    /// Bytes on the heap, its own box included.
    pub(super) fn heap_bytes(&self) -> usize {
        let words: usize = self.layers().map(size_of_val).sum();
        size_of::<Spill>() + size_of_val(&*self.upper) + words
    }

    /// A copy in which the layer `level` has room for `capacity` links, `base_words` being layer 0 if it is
    /// inline.
    pub(super) fn grown(&self, base_words: Layer<'_>, level: usize, capacity: usize) -> Spill {
        let copy = |words: Layer<'_>, capacity: usize| {
            let copied = layer::new_words(capacity);
            Layer::new(&copied).copy_from(words);
            copied
        };
        let base = match &self.base {
            None if level > 0 => None,
            None => Some(copy(base_words, capacity)),
            Some(words) => {
                let old = Layer::new(words);
                Some(copy(old, if level == 0 { capacity } else { old.capacity() }))
            }
        };
        let upper = self.upper.iter().enumerate().map(|(index, words)| {
            let old = Layer::new(words);
            copy(old, if level == index + 1 { capacity } else { old.capacity() })
        });
        Spill { base, upper: upper.collect() }
    }
}

impl Clone for Spill {
    fn clone(&self) -> Spill {
        let copy = |words: &[AtomicU32]| -> Box<[AtomicU32]> {
            words.iter().map(|word| AtomicU32::new(word.load(Ordering::Acquire))).collect()
        };
        Spill {
            base: self.base.as_deref().map(copy),
            upper: self.upper.iter().map(|words| copy(words)).collect(),
        }
    }
}

/// A node's fields beside its links. The payload is written while no other thread can reach the slot, or
/// while the graph is locked exclusively.
struct Node<T> {
    id: AtomicU64,
    level: AtomicU32,
    spill: AtomicPtr<Spill>,
    payload: UnsafeCell<Option<Arc<T>>>,
}

impl<T> Node<T> {
    /// A slot without a node.
    fn free() -> Node<T> {
        Node {
            id: AtomicU64::new(0),
            level: AtomicU32::new(FREE),
            spill: AtomicPtr::new(std::ptr::null_mut()),
            payload: UnsafeCell::new(None),
        }
    }
}

/// Links, ids and payloads of up to 64 slots. Slots beyond them are free.
pub(super) struct NodePage<T> {
    pub(super) generation: u64,
    nodes: Box<[Node<T>]>,
    links: Box<[AtomicU32]>,
    /// Words from a node's links to the next one's.
    stride: usize,
}

// SAFETY: payloads are the only cells; they are written only while no other thread reaches their slot (see
// `Node`), so that sharing a page shares `Arc<T>`s.
unsafe impl<T: Send + Sync> Send for NodePage<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for NodePage<T> {}

impl<T> NodePage<T> {
    /// A page of `room` free slots.
    pub(super) fn new(generation: u64, shape: &Shape, room: usize) -> NodePage<T> {
        let stride = shape.links_stride();
        NodePage {
            generation,
            nodes: (0..room).map(|_| Node::free()).collect(),
            links: (0..room * stride).map(|_| AtomicU32::new(0)).collect(),
            stride,
        }
    }

    /// Bytes of a page, spills and payloads apart, as the heap has them.
    pub(super) fn page_bytes(shape: &Shape, room: usize) -> usize {
        let slot = size_of::<Node<T>>() + shape.links_stride() * 4;
        size_of::<NodePage<T>>() + 2 * size_of::<usize>() + room * slot
    }

    /// The number of slots.
    pub(super) fn room(&self) -> usize {
        self.nodes.len()
    }

    /// A copy that `generation` may write to, with room for at least `room` slots.
    ///
    /// # Safety
    /// No thread writes a payload of this page during the call.
    pub(super) unsafe fn copy(&self, generation: u64, room: usize) -> NodePage<T> {
        let room = room.max(self.room());
        let node = |index: usize| {
            let Some(from) = self.nodes.get(index) else { return Node::free() };
            // SAFETY: the caller guarantees that no payload is written.
            let payload = unsafe { (*from.payload.get()).clone() };
            let spill = self
                .spill(index)
                .map_or(std::ptr::null_mut(), |spill| Box::into_raw(Box::new(spill.clone())));
            Node {
                id: AtomicU64::new(from.id.load(Ordering::Relaxed)),
                level: AtomicU32::new(from.level.load(Ordering::Acquire)),
                spill: AtomicPtr::new(spill),
                payload: UnsafeCell::new(payload),
            }
        };
        let copied = self.links.iter().map(|word| word.load(Ordering::Acquire));
        let links = copied.chain(std::iter::repeat(0)).take(room * self.stride).map(AtomicU32::new);
        NodePage {
            generation,
            nodes: (0..room).map(node).collect(),
            links: links.collect(),
            stride: self.stride,
        }
    }

    /// The node's level; `FREE` when the slot has none.
    pub(super) fn level(&self, index: usize) -> u32 {
        self.nodes.get(index).map_or(FREE, |node| node.level.load(Ordering::Acquire))
    }

    /// Publishes the level, and with it all that was written to the slot before.
    pub(super) fn set_level(&self, index: usize, level: u32) {
        self.nodes[index].level.store(level, Ordering::Release);
    }

    /// The node's id.
    pub(super) fn id(&self, index: usize) -> u64 {
        self.nodes[index].id.load(Ordering::Relaxed)
    }

    /// Sets the id, before the level is published.
    pub(super) fn set_id(&self, index: usize, id: u64) {
        self.nodes[index].id.store(id, Ordering::Relaxed);
    }

    /// The payload of a published node.
    ///
    /// # Safety
    /// No thread writes this payload while the reference is used.
    pub(super) unsafe fn payload(&self, index: usize) -> Option<&Arc<T>> {
        // SAFETY: as the caller says.
        unsafe { (*self.nodes[index].payload.get()).as_ref() }
    }

    /// Sets the payload, and returns the former one.
    ///
    /// # Safety
    /// No other thread can read or write this payload during the call.
    pub(super) unsafe fn set_payload(&self, index: usize, payload: Option<Arc<T>>) -> Option<Arc<T>> {
        // SAFETY: as the caller says.
        unsafe { std::mem::replace(&mut *self.nodes[index].payload.get(), payload) }
    }

    /// The node's spilled layers.
    #[inline]
    pub(super) fn spill(&self, index: usize) -> Option<&Spill> {
        // SAFETY: a spill is freed only with its page, or by way of the graph's retired list, which is
        // emptied while no thread reads.
        unsafe { self.nodes[index].spill.load(Ordering::Acquire).as_ref() }
    }

    /// Replaces the spill; the former one has to outlive every reader of this moment.
    pub(super) fn set_spill(&self, index: usize, spill: Option<Box<Spill>>) -> Option<Box<Spill>> {
        let new = spill.map_or(std::ptr::null_mut(), Box::into_raw);
        let old = self.nodes[index].spill.swap(new, Ordering::AcqRel);
        // SAFETY: the pointer came from `Box::into_raw`, and the swap took it out.
        NonNull::new(old).map(|old| unsafe { Box::from_raw(old.as_ptr()) })
    }

    /// The inline words of layer 0.
    #[inline]
    pub(super) fn inline(&self, index: usize) -> Layer<'_> {
        let words = self.links.get(index * self.stride..(index + 1) * self.stride);
        Layer::new(words.unwrap_or_default())
    }

    /// The links on `level`; an empty layer when the node has none there.
    #[inline]
    pub(super) fn layer(&self, index: usize, level: usize) -> Layer<'_> {
        if level == 0 {
            let inline = self.inline(index);
            if !inline.is_spilled() {
                return inline;
            }
        }
        let words = self.spill(index).and_then(|spill| match level {
            0 => spill.base.as_deref(),
            _ => spill.upper.get(level - 1).map(|words| &**words),
        });
        Layer::new(words.unwrap_or_default())
    }
}

impl<T> Drop for NodePage<T> {
    fn drop(&mut self) {
        for index in 0..self.room() {
            drop(self.set_spill(index, None));
        }
    }
}

/// Words of a vector page before its vectors.
struct VectorHeader {
    references: AtomicUsize,
    generation: u64,
    bytes: usize,
    room: usize,
}

/// Bytes before the ranges: a cache line.
const RANGES_OFFSET: usize = 64;
/// Bytes before the former lengths.
const LENGTHS_OFFSET: usize = RANGES_OFFSET + PAGE_SLOTS * size_of::<f32>();
/// Bytes before the vectors.
const VECTORS_OFFSET: usize = LENGTHS_OFFSET + PAGE_SLOTS * size_of::<f32>();

const _: () = assert!(size_of::<VectorHeader>() <= RANGES_OFFSET && VECTORS_OFFSET.is_multiple_of(64));
const _: () = assert!(HEADER_WORDS == 2);

/// A shared reference to the vectors of up to 64 slots: one allocation, aligned to a cache line. Before the
/// vectors stand their ranges and their former lengths, 64 f32 each.
pub(super) struct VectorPage {
    block: NonNull<u8>,
}

// SAFETY: the block is plain numbers with an atomic count; the graph's generations rule its writers.
unsafe impl Send for VectorPage {}
// SAFETY: as for `Send`.
unsafe impl Sync for VectorPage {}

impl VectorPage {
    /// Zeroed vectors.
    pub(super) fn new(generation: u64, shape: &Shape, room: usize) -> VectorPage {
        let bytes = Self::page_bytes(shape, room);
        let layout = Self::layout(bytes);
        // SAFETY: the size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let header = VectorHeader { references: AtomicUsize::new(1), generation, bytes, room };
        // SAFETY: the block is ours, aligned to 64, and larger than the header.
        unsafe { block.cast::<VectorHeader>().write(header) };
        VectorPage { block }
    }

    /// Bytes of a page on the heap.
    pub(super) fn page_bytes(shape: &Shape, room: usize) -> usize {
        VECTORS_OFFSET + room * shape.vector_stride()
    }

    /// The number of slots.
    pub(super) fn room(&self) -> usize {
        self.header().room
    }

    fn layout(bytes: usize) -> Layout {
        // The alignment is a power of two, and no page is near the limit of a layout: 64 vectors of 128 KB.
        Layout::from_size_align(bytes, 64).unwrap_or(Layout::new::<u64>())
    }

    fn header(&self) -> &VectorHeader {
        // SAFETY: `new` wrote it, and the block lives as long as a reference does.
        unsafe { self.block.cast::<VectorHeader>().as_ref() }
    }

    /// The graph generation that may write to the page.
    pub(super) fn generation(&self) -> u64 {
        self.header().generation
    }

    /// A copy that `generation` may write to, with room for at least `room` slots.
    ///
    /// # Safety
    /// No thread writes to this page during the call.
    pub(super) unsafe fn copy(&self, generation: u64, shape: &Shape, room: usize) -> VectorPage {
        let copied = VectorPage::new(generation, shape, room.max(self.room()));
        let bytes = self.header().bytes.min(copied.header().bytes) - RANGES_OFFSET;
        // SAFETY: both blocks have that many bytes behind the header, and are different allocations.
        unsafe {
            let from = self.block.as_ptr().add(RANGES_OFFSET);
            from.copy_to_nonoverlapping(copied.block.as_ptr().add(RANGES_OFFSET), bytes);
        }
        copied
    }

    /// Gives the reference up as an address, for `from_raw`.
    pub(super) fn into_raw(self) -> *mut u8 {
        let block = self.block.as_ptr();
        std::mem::forget(self);
        block
    }

    /// The reference that `into_raw` gave up.
    ///
    /// # Safety
    /// The address is of `into_raw`, and each is taken back once.
    pub(super) unsafe fn from_raw(block: *mut u8) -> Option<VectorPage> {
        NonNull::new(block).map(|block| VectorPage { block })
    }
}

impl Clone for VectorPage {
    fn clone(&self) -> VectorPage {
        self.header().references.fetch_add(1, Ordering::Relaxed);
        VectorPage { block: self.block }
    }
}

impl Drop for VectorPage {
    fn drop(&mut self) {
        if self.header().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        let layout = Self::layout(self.header().bytes);
        // SAFETY: this was the last reference, and the layout is that of the allocation.
        unsafe { dealloc(self.block.as_ptr(), layout) };
    }
}

/// Addresses within a vector page, for readers that have the page's address only.
#[derive(Clone, Copy)]
pub(super) struct VectorAddress {
    block: *mut u8,
    index: usize,
}

impl VectorAddress {
    /// The slot `index` of the page at `block`.
    #[inline]
    pub(super) fn new(block: *mut u8, index: usize) -> VectorAddress {
        VectorAddress { block, index }
    }

    /// The first component's address.
    #[inline]
    pub(super) fn vector(self, shape: &Shape) -> *mut u8 {
        self.block.wrapping_add(VECTORS_OFFSET + self.index * shape.vector_stride())
    }

    /// The address of the range.
    #[inline]
    pub(super) fn range(self) -> *mut f32 {
        self.block.wrapping_add(RANGES_OFFSET).cast::<f32>().wrapping_add(self.index)
    }

    /// The address of the former length.
    #[inline]
    pub(super) fn length(self) -> *mut f32 {
        self.block.wrapping_add(LENGTHS_OFFSET).cast::<f32>().wrapping_add(self.index)
    }
}
