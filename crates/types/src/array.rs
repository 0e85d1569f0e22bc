//! `Array`: a sparse array with 64-bit indexes, and the cursor at which elements are appended.
//!
//! Elements lie in [pages](page) of 32 indexes, which a map in order of indexes finds, so an empty stretch
//! takes nothing however long it is. A clone shares all pages and costs the same for any size; a write copies
//! one page and the map's nodes above it. [`layout`] keeps the figures that Redis would report of its own
//! slices.
//!
//! Invariant: no page is empty; `count` counts the elements; no index is `u64::MAX`.

mod iter;
mod layout;
mod number;
mod page;
#[cfg(test)]
mod tests;

use std::fmt;

use triomphe::Arc;

pub use iter::{Range, RangeBack};
pub use layout::{ArrayLimits, Info, SliceTotals};
pub use number::{float_text, inline_float};

use crate::element::Element;
use crate::ordered::OrderedMap;
use iter::slots_between;
use layout::Layout;
use page::{Page, SLOT_BITS, SLOTS};

/// The highest index.
pub const INDEX_MAX: u64 = u64::MAX - 1;

/// See the [module docs](self).
#[derive(Clone)]
pub struct Array {
    inner: Arc<Inner>,
}

type Pages = OrderedMap<u64, Arc<Page>>;

#[derive(Clone)]
struct Inner {
    pages: Pages,
    layout: Layout,
    count: u64,
    /// The index that was last appended.
    cursor: Option<u64>,
    /// Bytes of all pages.
    page_bytes: usize,
}

fn slot_of(index: u64) -> u32 {
    index as u32 & (SLOTS - 1)
}

impl Array {
    /// An array without elements.
    pub fn new() -> Array {
        let inner = Inner {
            pages: OrderedMap::new(),
            layout: Layout::new(ArrayLimits::default().slice_size),
            count: 0,
            cursor: None,
            page_bytes: 0,
        };
        Array { inner: Arc::new(inner) }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.inner.count as usize
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inner.count == 0
    }

    /// The highest index that has an element, plus one; 0 without elements.
    pub fn extent(&self) -> u64 {
        let last = self.inner.pages.last();
        last.map_or(0, |(id, page)| (id << SLOT_BITS) + u64::from(SLOTS - page.present().leading_zeros()))
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        "sliced-array"
    }

    /// Bytes that the allocator gave for the array, about.
    pub fn heap_bytes(&self) -> usize {
        let Inner { pages, layout, page_bytes, .. } = &*self.inner;
        size_of::<usize>() + size_of::<Inner>() + pages.heap_bytes() + layout.heap_bytes() + page_bytes
    }

    /// The element at an index.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Element<'_>> {
        self.inner.pages.get(&(index >> SLOT_BITS))?.get(slot_of(index))
    }

    /// The index that was last appended, or `None` if none was or the cursor was set to the start.
    pub fn cursor(&self) -> Option<u64> {
        self.inner.cursor
    }

    /// See [`Array::cursor`].
    pub fn set_cursor(&mut self, cursor: Option<u64>) {
        Arc::make_mut(&mut self.inner).cursor = cursor;
    }

    /// The index at which the next element is appended; `u64::MAX`, which none can have, behind the last.
    pub fn next_index(&self) -> u64 {
        self.inner.cursor.map_or(0, |cursor| cursor + 1)
    }

    /// Facts about the array as a whole.
    pub fn info(&self) -> Info {
        self.inner.layout.info()
    }

    /// Facts about all slices together, in a time that grows with their number.
    pub fn slice_totals(&self) -> SliceTotals {
        self.inner.layout.totals()
    }

    /// The elements from one index to another.
    pub fn range(&self, low: u64, high: u64) -> Range<'_> {
        range_of(&self.inner.pages, low, high)
    }

    /// The elements from one index to another, from the highest on.
    pub fn range_back(&self, low: u64, high: u64) -> RangeBack<'_> {
        let pages = self.inner.pages.iter_back_from(&(high >> SLOT_BITS));
        RangeBack { pages, low, high, page: None, places: Vec::new() }
    }

    /// All elements.
    pub fn iter(&self) -> Range<'_> {
        self.range(0, INDEX_MAX)
    }

    /// Whether all elements are between two indexes.
    pub fn lies_within(&self, low: u64, high: u64) -> bool {
        self.extent() <= high.saturating_add(1) && self.iter().next().is_none_or(|(first, _)| first >= low)
    }

    /// Puts an element at an index up to [`INDEX_MAX`]; whether it was empty.
    pub fn set(&mut self, index: u64, element: Element<'_>, limits: ArrayLimits) -> bool {
        debug_assert!(index <= INDEX_MAX, "index {index}");
        Arc::make_mut(&mut self.inner).set(index, element, limits)
    }

    /// Puts `count` elements at an index and those after it; how many of these were empty.
    pub fn set_run<'a>(
        &mut self,
        start: u64,
        count: u64,
        elements: impl Iterator<Item = Element<'a>>,
        limits: ArrayLimits,
    ) -> u64 {
        let inner = Arc::make_mut(&mut self.inner);
        let before = inner.count;
        if count > 1 {
            inner.prepare(start, start + (count - 1), limits);
        }
        for (offset, element) in elements.enumerate() {
            inner.set(start + offset as u64, element, limits);
        }
        inner.count - before
    }

    /// Takes out the element at an index; whether there was one.
    pub fn remove(&mut self, index: u64, limits: ArrayLimits) -> bool {
        self.get(index).is_some() && {
            let inner = Arc::make_mut(&mut self.inner);
            inner.remove_slots(index >> SLOT_BITS, 1 << slot_of(index));
            inner.layout.remove(inner.layout.slice_of(index), 1, limits);
            true
        }
    }

    /// Takes out all elements from one index to another; how many there were. The time that takes grows with
    /// their number, not with the range.
    pub fn remove_range(&mut self, low: u64, high: u64, limits: ArrayLimits) -> u64 {
        if self.is_empty() || low > high {
            return 0;
        }
        let inner = Arc::make_mut(&mut self.inner);
        let before = inner.count;
        let mut next = Some(low >> SLOT_BITS);
        while let Some(from) = next {
            let Some((&id, page)) = inner.pages.iter_from(&from).next() else { break };
            if id > high >> SLOT_BITS {
                break;
            }
            let slots = page.present() & slots_between(id, low, high);
            if slots != 0 {
                inner.remove_slots(id, slots);
                inner.layout.remove(inner.layout.slice_of(id << SLOT_BITS), slots.count_ones(), limits);
            }
            next = id.checked_add(1);
        }
        for index in [low, high] {
            inner.layout.end_of_removal(inner.layout.slice_of(index), limits);
        }
        before - inner.count
    }

    /// The preparation before elements are appended to a ring of `size` indexes: if the ring is smaller than
    /// the held part, or has wrapped before it and grows, the latest elements move to its start.
    ///
    /// Those are the ones up to the last appended, backwards to the first empty one. Returns the earlier
    /// state, if it has changed.
    pub fn reshape_ring(&mut self, size: u64, limits: ArrayLimits) -> Option<Array> {
        let extent = self.extent();
        let has_wrapped = self.inner.cursor.is_some_and(|cursor| cursor + 1 < extent);
        if extent == 0 || size == extent || (size > extent && !has_wrapped) {
            return None;
        }
        let (last, most) = (self.inner.cursor.map_or(extent - 1, |cursor| cursor % extent), size.min(extent));
        let mut kept = Vec::new();
        for index in self.latest(last, extent).take(usize::try_from(most).unwrap_or(usize::MAX)) {
            match self.get(index) {
                Some(element) => kept.push(element),
                None => break,
            }
        }
        let mut reshaped = Array::new();
        for (index, element) in kept.into_iter().rev().enumerate() {
            reshaped.set(index as u64, element, limits);
            reshaped.set_cursor(Some(index as u64));
        }
        if reshaped.is_empty() {
            Arc::make_mut(&mut reshaped.inner).layout = Layout::new(limits.slice_size);
        }
        Some(std::mem::replace(self, reshaped))
    }

    /// The indexes from `last` down, and after 0 from the highest on, each once.
    fn latest(&self, last: u64, extent: u64) -> impl Iterator<Item = u64> + use<> {
        (0..=last).rev().chain((last + 1..extent).rev())
    }
}

impl Inner {
    fn prepare(&mut self, low: u64, high: u64, limits: ArrayLimits) {
        self.adopt(limits);
        let Inner { pages, layout, .. } = self;
        let count_between = |low, high| range_of(pages, low, high).count() as u32;
        layout.prepare(low, high, limits, &|first, last| bounds_of(pages, first, last), count_between);
    }

    /// An array gets its slices' size with its first element.
    fn adopt(&mut self, limits: ArrayLimits) {
        if self.count == 0 && self.layout.slice_size() != limits.slice_size {
            self.layout = Layout::new(limits.slice_size);
        }
    }

    fn set(&mut self, index: u64, element: Element<'_>, limits: ArrayLimits) -> bool {
        let (id, slot) = (index >> SLOT_BITS, slot_of(index));
        let is_new = self.pages.get(&id).is_none_or(|page| page.present() >> slot & 1 == 0);
        if is_new {
            self.adopt(limits);
            let Inner { pages, layout, .. } = self;
            layout.add(index, limits, &|first, last| bounds_of(pages, first, last));
            self.count += 1;
        }
        match self.pages.get_mut(&id) {
            Some(page) => {
                let before = page.heap_bytes();
                Arc::make_mut(page).put(slot, element);
                self.page_bytes = self.page_bytes + page.heap_bytes() - before;
            }
            None => {
                let mut page = Page::default();
                page.put(slot, element);
                self.page_bytes += page.heap_bytes();
                self.pages.insert(id, Arc::new(page));
            }
        }
        is_new
    }

    /// Empties slots of a page, all of which hold elements.
    fn remove_slots(&mut self, id: u64, slots: u32) {
        let Some(page) = self.pages.get(&id) else { return };
        self.count -= u64::from(slots.count_ones());
        self.page_bytes -= page.heap_bytes();
        if page.present() == slots {
            self.pages.remove(&id);
        } else if let Some(page) = self.pages.get_mut(&id) {
            Arc::make_mut(page).remove(slots);
            self.page_bytes += page.heap_bytes();
        }
    }
}

fn range_of(pages: &Pages, low: u64, high: u64) -> Range<'_> {
    Range { pages: pages.iter_from(&(low >> SLOT_BITS)), low, high, page: None }
}

/// The first and the last index between two that have elements.
fn bounds_of(pages: &Pages, low: u64, high: u64) -> (u64, u64) {
    let first = range_of(pages, low, high).next();
    let pages_back = pages.iter_back_from(&(high >> SLOT_BITS));
    let last = RangeBack { pages: pages_back, low, high, page: None, places: Vec::new() }.next();
    (first.map_or(low, |(index, _)| index), last.map_or(low, |(index, _)| index))
}

impl Default for Array {
    fn default() -> Array {
        Array::new()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements: Vec<(u64, Element<'_>)> = self.iter().collect();
        f.debug_struct("Array").field("cursor", &self.cursor()).field("elements", &elements).finish()
    }
}
