//! The table of pages, as readers see it (`View`) and as writers change it (`Writer`). What always holds: a
//! page that is in the table, or was at any time since the graph was last locked exclusively, is not freed.

use martlet_base::prefetch::{CACHE_LINE_BYTES, prefetch};
use martlet_base::sync::lock;

use super::layer::Layer;
use super::page::{FREE, NodePage, PAGE_SLOTS, Spill, VectorAddress, VectorPage, room};
use super::shape::{Operand, Shape, StoredVector};
use crate::quantise::Encoding;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// One page of the table. Its pointers change under its lock only.
pub(super) struct Entry<T> {
    nodes: AtomicPtr<NodePage<T>>,
    vectors: AtomicPtr<u8>,
    lock: Mutex<()>,
    owns: PhantomData<Arc<NodePage<T>>>,
}

impl<T> Entry<T> {
    /// A page that has not been made yet.
    pub(super) fn empty() -> Entry<T> {
        Entry {
            nodes: AtomicPtr::new(std::ptr::null_mut()),
            vectors: AtomicPtr::new(std::ptr::null_mut()),
            lock: Mutex::new(()),
            owns: PhantomData,
        }
    }

    /// The node page.
    #[inline]
    pub(super) fn page(&self) -> Option<&NodePage<T>> {
        // SAFETY: a page that leaves the table is retired, and freed when the table can be borrowed
        // mutably: not while this entry is borrowed.
        unsafe { self.nodes.load(Ordering::Acquire).as_ref() }
    }

    /// Another entry with the same pages.
    pub(super) fn share(&self) -> Entry<T> {
        let shared = Entry::empty();
        let nodes = self.nodes.load(Ordering::Acquire);
        if !nodes.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`, and this entry has a reference.
            unsafe { Arc::increment_strong_count(nodes) };
            shared.nodes.store(nodes, Ordering::Release);
        }
        if let Some(vectors) = self.vectors_owned() {
            shared.vectors.store(vectors.clone().into_raw(), Ordering::Release);
            // The reference is still this entry's.
            std::mem::forget(vectors);
        }
        shared
    }

    /// The entry's own reference to its vectors, which it keeps: forget it, or put another one in its place.
    fn vectors_owned(&self) -> Option<VectorPage> {
        // SAFETY: the address came from `into_raw`; callers leave the entry with exactly one reference.
        unsafe { VectorPage::from_raw(self.vectors.load(Ordering::Acquire)) }
    }
}

impl<T> Drop for Entry<T> {
    fn drop(&mut self) {
        let nodes = *self.nodes.get_mut();
        if !nodes.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`, and the entry's reference ends here.
            drop(unsafe { Arc::from_raw(nodes) });
        }
        // SAFETY: the address came from `into_raw`, and the entry's reference ends here.
        drop(unsafe { VectorPage::from_raw(*self.vectors.get_mut()) });
    }
}

/// Read access to a table.
pub(super) struct View<'a, T> {
    pub(super) shape: &'a Shape,
    pub(super) table: &'a [Entry<T>],
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

/// The page of a slot, and its place there.
#[inline]
pub(super) fn place(slot: u32) -> (usize, usize) {
    (slot as usize / PAGE_SLOTS, slot as usize % PAGE_SLOTS)
}

impl<'a, T> View<'a, T> {
    /// The slot's page and its place there.
    #[inline]
    pub(super) fn page(self, slot: u32) -> Option<(&'a NodePage<T>, usize)> {
        let (page, index) = place(slot);
        Some((self.table.get(page)?.page()?, index))
    }

    /// The level of the slot's node; `None` when there is no node.
    pub(super) fn level(self, slot: u32) -> Option<u32> {
        let (page, index) = self.page(slot)?;
        Some(page.level(index)).filter(|level| *level != FREE)
    }

    /// The id of the slot's node.
    pub(super) fn id(self, slot: u32) -> Option<u64> {
        let (page, index) = self.page(slot)?;
        self.level(slot).map(|_| page.id(index))
    }

    /// The payload of the slot's node.
    pub(super) fn payload(self, slot: u32) -> Option<&'a Arc<T>> {
        let (page, index) = self.page(slot)?;
        self.level(slot)?;
        // SAFETY: a payload is written before the level is published, or while the graph is locked
        // exclusively: not while the table is borrowed.
        unsafe { page.payload(index) }
    }

    /// The links of a node that was published.
    #[inline]
    pub(super) fn layer(self, slot: u32, level: usize) -> Layer<'a> {
        self.page(slot).map_or(Layer::new(&[]), |(page, index)| page.layer(index, level))
    }

    #[inline]
    fn address(self, slot: u32) -> Option<VectorAddress> {
        let (page, index) = place(slot);
        let block = self.table.get(page)?.vectors.load(Ordering::Acquire);
        (!block.is_null()).then(|| VectorAddress::new(block, index))
    }

    /// The vector of a node that was published.
    #[inline]
    pub(super) fn operand(self, slot: u32) -> Operand<'a> {
        let Some(address) = self.address(slot) else { return Operand { bytes: &[], range: 0.0 } };
        // SAFETY: the vector lies within its page, which is not freed while the table is borrowed; it was
        // written before the node was published, and is not written again before the node is removed, which
        // takes the graph's exclusive lock.
        unsafe {
            let vector = address.vector(self.shape);
            let bytes = std::slice::from_raw_parts(vector, self.shape.stored_bytes());
            Operand { bytes, range: *address.range() }
        }
    }

    /// The length that a published vector had before it was normalised.
    pub(super) fn length(self, slot: u32) -> f32 {
        // SAFETY: as for `operand`.
        self.address(slot).map_or(1.0, |address| unsafe { *address.length() })
    }

    /// Asks the processor for the links that a walk will read next.
    #[inline]
    pub(super) fn prefetch_links(self, slot: u32, level: usize) {
        if let Some((page, index)) = self.page(slot)
            && level == 0
        {
            page.inline(index).prefetch();
        }
    }

    /// The distances of a vector from published nodes, in their order, into `batch.distances`.
    #[inline]
    pub(super) fn distances(self, query: Operand<'_>, slots: &[u32], batch: &mut Batch) {
        let Batch { distances, vectors, ranges } = batch;
        let lines = Lines::of(self.shape);
        vectors.clear();
        vectors.extend(slots.iter().map(|slot| match self.address(*slot) {
            Some(address) => {
                lines.prefetch(address, self.shape);
                address.vector(self.shape).cast_const()
            }
            // There is no such node; the query is as long as a vector.
            None => query.bytes.as_ptr(),
        }));
        ranges.clear();
        if lines.has_ranges {
            ranges.extend(slots.iter().map(|slot| {
                // SAFETY: as for `operand`.
                self.address(*slot).map_or(0.0, |address| unsafe { *address.range() })
            }));
        }
        // SAFETY: the rows are vectors of this shape, which are not freed while the table is borrowed, and
        // not written since their nodes were published (see `operand`).
        unsafe { self.shape.distances(query, vectors, ranges, distances) };
    }

    /// The distance of two nodes.
    #[inline]
    pub(super) fn distance(self, a: u32, b: u32) -> f32 {
        self.shape.distance(self.operand(a), self.operand(b))
    }

    /// The slots that have a node, in ascending order.
    pub(super) fn slots(self) -> impl Iterator<Item = u32> + 'a {
        let pages = self.table.iter().enumerate();
        pages.filter_map(|(number, entry)| entry.page().map(|page| (number, page))).flat_map(
            |(number, page)| {
                let live = (0..PAGE_SLOTS).filter(|index| page.level(*index) != FREE);
                live.map(move |index| (number * PAGE_SLOTS + index) as u32)
            },
        )
    }
}

/// Nodes whose distances from one vector are wanted; the buffers are used again.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) distances: Vec<f32>,
    vectors: Vec<*const u8>,
    ranges: Vec<f32>,
}

/// The cache lines of a vector that will be read soon.
#[derive(Clone, Copy)]
struct Lines {
    count: usize,
    has_ranges: bool,
}

impl Lines {
    #[inline]
    fn of(shape: &Shape) -> Lines {
        // The processor notices longer vectors by itself.
        let count = shape.vector_stride().div_ceil(CACHE_LINE_BYTES).min(4);
        Lines { count, has_ranges: shape.config.encoding == Encoding::Q8 }
    }

    /// Asks the processor for a vector and its range.
    #[inline]
    fn prefetch(self, address: VectorAddress, shape: &Shape) {
        let first = address.vector(shape);
        for line in 0..self.count {
            prefetch(first.wrapping_add(line * CACHE_LINE_BYTES));
        }
        if self.has_ranges {
            prefetch(address.range().cast());
        }
    }
}

/// Parts that have left the table while readers may still look at them.
pub(super) enum Retired<T> {
    Nodes(#[expect(dead_code, reason = "kept for its destructor")] Arc<NodePage<T>>),
    Vectors(#[expect(dead_code, reason = "kept for its destructor")] VectorPage),
    Spill(#[expect(dead_code, reason = "kept for its destructor")] Box<Spill>),
}

/// Write access to single pages of a table that others read and write at the same time.
pub(super) struct Writer<'a, T> {
    pub(super) view: View<'a, T>,
    pub(super) generation: u64,
    pub(super) retired: &'a Mutex<Vec<Retired<T>>>,
    /// The graph's count of bytes on the heap.
    pub(super) bytes: &'a AtomicUsize,
}

/// The locks of up to three pages; their node pages are of the writer's generation.
pub(super) struct Locked<'a> {
    _guards: [Option<MutexGuard<'a, ()>>; 3],
}

impl<'a, T> Writer<'a, T> {
    /// Locks the slots' pages in ascending order, and makes them this generation's own.
    pub(super) fn lock<const N: usize>(&self, slots: [u32; N]) -> Locked<'a> {
        const { assert!(N <= 3) };
        let mut slots = slots;
        slots.sort_unstable();
        let mut guards = [const { None }; 3];
        let mut last = None;
        for (guard, slot) in guards.iter_mut().zip(slots) {
            let (page, index) = place(slot);
            if last != Some(page)
                && let Some(entry) = self.view.table.get(page)
            {
                *guard = Some(lock(&entry.lock));
                self.own_nodes(entry, room(page, index));
            }
            last = Some(page);
        }
        Locked { _guards: guards }
    }

    /// Makes the node page writable, with room for as many slots. The page is locked.
    fn own_nodes(&self, entry: &Entry<T>, room: usize) {
        let before = entry.page().map_or(0, NodePage::room);
        let page = match entry.page() {
            Some(page) if page.generation == self.generation && before >= room => return,
            // SAFETY: payloads are written under the page's lock, which this thread has.
            Some(page) => unsafe { page.copy(self.generation, room) },
            None => NodePage::new(self.generation, self.view.shape, room),
        };
        let bytes =
            |room: usize| if room == 0 { 0 } else { NodePage::<T>::page_bytes(self.view.shape, room) };
        self.bytes.fetch_add(bytes(page.room()) - bytes(before), Ordering::Relaxed);
        let new = Arc::into_raw(Arc::new(page)).cast_mut();
        let old = entry.nodes.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`, and the swap took the entry's reference out.
            self.retire(Retired::Nodes(unsafe { Arc::from_raw(old) }));
        }
    }

    /// Makes the vector page writable, with room for as many slots. The page is locked.
    fn own_vectors(&self, entry: &Entry<T>, room: usize) {
        let shape = self.view.shape;
        let Some(old) = entry.vectors_owned() else {
            self.bytes.fetch_add(VectorPage::page_bytes(shape, room), Ordering::Relaxed);
            let new = VectorPage::new(self.generation, shape, room);
            entry.vectors.store(new.into_raw(), Ordering::Release);
            return;
        };
        if old.generation() == self.generation && old.room() >= room {
            std::mem::forget(old);
            return;
        }
        // SAFETY: vectors are written under the page's lock, which this thread has.
        let new = unsafe { old.copy(self.generation, shape, room) };
        let added = VectorPage::page_bytes(shape, new.room()) - VectorPage::page_bytes(shape, old.room());
        self.bytes.fetch_add(added, Ordering::Relaxed);
        entry.vectors.store(new.into_raw(), Ordering::Release);
        self.retire(Retired::Vectors(old));
    }

    fn retire(&self, retired: Retired<T>) {
        lock(self.retired).push(retired);
    }

    /// Fills a free slot, all but its links, and publishes it.
    pub(super) fn fill(&self, slot: u32, id: u64, level: u32, vector: &StoredVector, payload: Arc<T>) {
        let locked = self.lock([slot]);
        let (number, index) = place(slot);
        let Some(entry) = self.view.table.get(number) else { return };
        self.own_vectors(entry, room(number, index));
        let (Some(address), Some(page)) = (self.view.address(slot), entry.page()) else { return };
        let shape = self.view.shape;
        let length = vector.as_bytes().len().min(shape.stored_bytes());
        // SAFETY: the slot is free, so that no other thread reads or writes its part of the page, which is
        // this generation's own; all addresses lie within it.
        unsafe {
            vector.as_bytes().as_ptr().copy_to_nonoverlapping(address.vector(shape), length);
            *address.range() = vector.range;
            *address.length() = vector.length;
            page.set_payload(index, Some(payload));
        }
        let spill = (level > 0).then(|| Box::new(Spill::new(level, shape.capacity(1))));
        self.bytes.fetch_add(spill.as_ref().map_or(0, |spill| spill.heap_bytes()), Ordering::Relaxed);
        page.set_spill(index, spill);
        page.inline(index).clear();
        page.set_id(index, id);
        page.set_level(index, level);
        drop(locked);
    }

    /// Empties a slot whose node has no links to it left, and returns the payload.
    ///
    /// # Safety
    /// The graph is locked exclusively.
    pub(super) unsafe fn clear(&self, slot: u32) -> Option<Arc<T>> {
        let _locked = self.lock([slot]);
        let (page, index) = self.view.page(slot)?;
        page.set_level(index, FREE);
        let spill = page.set_spill(index, None);
        self.bytes.fetch_sub(spill.map_or(0, |spill| spill.heap_bytes()), Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { page.set_payload(index, None) }
    }

    /// Replaces the payload of a node.
    ///
    /// # Safety
    /// The graph is locked exclusively.
    pub(super) unsafe fn set_payload(&self, slot: u32, payload: Arc<T>) -> Option<Arc<T>> {
        let _locked = self.lock([slot]);
        let (page, index) = self.view.page(slot)?;
        self.view.level(slot)?;
        // SAFETY: as the caller says.
        unsafe { page.set_payload(index, Some(payload)) }
    }

    /// Gives a layer more room. The slot's page is locked.
    pub(super) fn grow(&self, slot: u32, level: usize, capacity: usize) {
        let Some((page, index)) = self.view.page(slot) else { return };
        let none = Spill { base: None, upper: Box::default() };
        let old = page.spill(index);
        let grown = old.unwrap_or(&none).grown(page.inline(index), level, capacity);
        let added = grown.heap_bytes() - old.map_or(0, Spill::heap_bytes);
        self.bytes.fetch_add(added, Ordering::Relaxed);
        let old = page.set_spill(index, Some(Box::new(grown)));
        if level == 0 {
            page.inline(index).mark_spilled();
        }
        if let Some(old) = old {
            self.retire(Retired::Spill(old));
        }
    }
}
