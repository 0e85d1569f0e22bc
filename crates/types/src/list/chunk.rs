//! `Chunk`: up to a few kilobytes of neighbouring list elements in one reference-counted block.
//!
//! A slotted page. Offsets of the elements stand at the page's start in list order, two bytes each; the
//! elements themselves (in the format of [`crate::packed`]) fill the page from its end downwards, in any
//! order:
//!
//! ```text
//! | count, data_start, live, listpack_bytes | slot 0 | slot 1 | … | free | element | element | … |
//! ```
//!
//! So the element at an index is found through one slot; an insertion moves slots only, never elements; a
//! removal leaves a hole that is reclaimed when the page is repacked. An element above [`LARGE_BYTES`] has a
//! separate page that is nothing but its bytes.
//!
//! A chunk that is full and no end of its list any more is sealed: its elements lie in list order, only each
//! [`SEALED_STRIDE`]th has a slot, and there is no free room. The first change makes it a slotted page again.
//!
//! Invariant: slots 0 to `count` are below `data_start`, each is the offset of a well-formed element at or
//! above it, and `live` is the sum of their sizes; of a sealed page `data_start` is [`SEALED`]. A page shared
//! with a snapshot is copied before it is changed.

use crate::element::Element;
use crate::packed::encoding::{Encoded, decode_at, size_at};
use crate::packed::listpack::{entry_bytes, put_entry, put_entry_at};
use crate::size_class::{allocated_bytes, class_bytes, class_of};
use martlet_base::prefetch::{PrefetchQueue, ProbeStep, Progress};
use std::ops::Range;
use triomphe::ThinArc;

/// Most elements of one chunk.
pub(super) const CHUNK_MAX_LEN: usize = 256;
/// An element whose encoding is larger than this many bytes has a separate chunk.
pub(super) const LARGE_BYTES: usize = 4096;

/// Reference count, header and length that stand before the page.
const OVERHEAD_BYTES: usize = 24;
/// Largest page: with its overhead, a block of eight kilobytes.
pub(super) const PAGE_MAX_BYTES: usize = 8192 - OVERHEAD_BYTES;
const PAGE_MIN_BYTES: usize = 256 - OVERHEAD_BYTES;
pub(super) const SLOT_BYTES: usize = 2;
/// In a sealed page one element of this many has a slot; the others are found by walking from it.
const SEALED_STRIDE: usize = 4;
/// `data_start` of a sealed page: below the end of any other page's first slot.
const SEALED: u16 = 1;

static ZEROS: [u8; PAGE_MAX_BYTES] = [0; PAGE_MAX_BYTES];

#[derive(Clone, Copy, Debug)]
struct Header {
    /// Elements.
    count: u16,
    /// Lowest offset of an element; 0 only in a page that is one large element, [`SEALED`] in a sealed one.
    data_start: u16,
    /// Bytes of all elements.
    live: u16,
    /// Bytes that the elements would take in Redis' listpack.
    listpack_bytes: u16,
}

/// Neighbouring elements of a list; clones share the page until one of them is changed.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    page: ThinArc<Header, u8>,
}

/// A page under change: header and bytes of a page that nothing else refers to.
struct PageMut<'a> {
    header: &'a mut Header,
    bytes: &'a mut [u8],
}

impl Chunk {
    /// An empty chunk with a page of about `capacity` bytes, within the limits.
    pub fn with_capacity(capacity: usize) -> Chunk {
        let wanted = capacity.clamp(PAGE_MIN_BYTES, PAGE_MAX_BYTES);
        let page_bytes = class_bytes(class_of(wanted + OVERHEAD_BYTES)) - OVERHEAD_BYTES;
        let header = Header { count: 0, data_start: page_bytes as u16, live: 0, listpack_bytes: 0 };
        Chunk { page: ThinArc::from_header_and_slice(header, &ZEROS[..page_bytes]) }
    }

    /// A chunk of one element that is larger than [`LARGE_BYTES`].
    fn large(bytes: &[u8]) -> Chunk {
        let header = Header { count: 1, data_start: 0, live: 0, listpack_bytes: 0 };
        Chunk { page: ThinArc::from_header_and_slice(header, bytes) }
    }

    /// A chunk of one element; room for `capacity` bytes unless the element is large.
    pub fn of(code: &Encoded<'_>, capacity: usize) -> Chunk {
        if code.size() > LARGE_BYTES {
            return Chunk::large(code.body);
        }
        let mut chunk = Chunk::with_capacity(capacity.max(code.size() + SLOT_BYTES));
        let inserted = chunk.insert(0, code);
        debug_assert!(inserted);
        chunk
    }

    /// A chunk of encoded elements that lie one after another in `bytes` and begin at `places`; they take
    /// `listpack_bytes` in a listpack, its header apart.
    pub fn of_encoded(bytes: &[u8], places: &[u16], listpack_bytes: usize) -> Chunk {
        let mut chunk = Chunk::with_capacity(bytes.len() + places.len() * SLOT_BYTES);
        chunk.with_page(|page| {
            let start = page.bytes.len() - bytes.len();
            page.bytes[start..].copy_from_slice(bytes);
            for (slot, place) in page.bytes.as_chunks_mut::<SLOT_BYTES>().0.iter_mut().zip(places) {
                *slot = (start as u16 + place).to_le_bytes();
            }
            *page.header = Header {
                count: places.len() as u16,
                data_start: start as u16,
                live: bytes.len() as u16,
                listpack_bytes: listpack_bytes as u16,
            };
        });
        chunk
    }

    #[inline(always)]
    fn header(&self) -> Header {
        self.page.header.header
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.page.slice
    }

    #[inline(always)]
    fn is_large(&self) -> bool {
        self.header().data_start == 0
    }

    #[inline(always)]
    fn is_sealed(&self) -> bool {
        self.header().data_start == SEALED
    }

    /// Where the element at `index` begins, in a page that is not large.
    #[inline(always)]
    fn place(&self, index: usize) -> usize {
        let bytes = self.bytes();
        if self.is_sealed() { sealed_place(bytes, index) } else { slot(bytes, index) }
    }

    /// Gives back free room and slots, if that makes the block smaller.
    pub fn seal(&mut self) {
        if self.is_large() || self.is_sealed() || self.len() == 0 {
            return;
        }
        let count = self.len();
        let slots_bytes = count.div_ceil(SEALED_STRIDE) * SLOT_BYTES;
        let bytes = slots_bytes + self.live_bytes();
        if allocated_bytes(OVERHEAD_BYTES + bytes) >= self.heap_bytes() {
            return;
        }
        let header = Header { data_start: SEALED, ..self.header() };
        let mut sealed = ThinArc::from_header_and_slice(header, &ZEROS[..bytes]);
        let from = self.bytes();
        sealed.with_arc_mut(|page| {
            let Some(page) = triomphe::Arc::get_mut(page) else { unreachable!("the page is not shared") };
            let page = page.slice_mut();
            let mut at = slots_bytes;
            for index in 0..count {
                let place = slot(from, index);
                let size = size_at(from, place);
                if index.is_multiple_of(SEALED_STRIDE) {
                    let slot_at = index / SEALED_STRIDE * SLOT_BYTES;
                    page[slot_at..slot_at + SLOT_BYTES].copy_from_slice(&(at as u16).to_le_bytes());
                }
                page[at..at + size].copy_from_slice(&from[place..place + size]);
                at += size;
            }
        });
        self.page = sealed;
    }

    /// Makes a sealed page one that can be changed.
    #[inline(always)]
    fn unseal(&mut self) {
        if self.is_sealed() {
            *self = self.repacked(0..self.len(), self.packed_bytes());
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.header().count)
    }

    /// Bytes that the elements would take in a listpack, its header apart.
    pub fn listpack_bytes(&self) -> usize {
        if self.is_large() {
            let code = Encoded::new(Element::Bytes(self.bytes()));
            entry_bytes(code.size(), code.head()[0])
        } else {
            usize::from(self.header().listpack_bytes)
        }
    }

    /// Appends the elements to `out` as the entries of Redis' listpack.
    pub fn write_listpack(&self, out: &mut Vec<u8>) {
        let bytes = self.bytes();
        if self.is_large() {
            return put_entry(out, Element::Bytes(bytes));
        }
        out.reserve(self.listpack_bytes());
        if self.is_sealed() {
            let mut at = sealed_place(bytes, 0);
            for _ in 0..self.len() {
                at += put_entry_at(out, bytes, at);
            }
            return;
        }
        for index in 0..self.len() {
            put_entry_at(out, bytes, slot(bytes, index));
        }
    }

    /// Bytes of all encoded elements.
    pub fn live_bytes(&self) -> usize {
        if self.is_large() { self.bytes().len() } else { usize::from(self.header().live) }
    }

    /// Bytes that the page would take without holes and free room.
    pub fn packed_bytes(&self) -> usize {
        self.live_bytes() + self.len() * SLOT_BYTES
    }

    /// Bytes that the allocator gave for this chunk, shared or not.
    pub fn heap_bytes(&self) -> usize {
        allocated_bytes(OVERHEAD_BYTES + self.bytes().len())
    }

    /// Queues the header and the slot of an index; or if these should be there by now the element.
    #[inline]
    pub fn queue_probe(&self, index: usize, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        let block = self.page.heap_ptr().cast::<u8>();
        if probe.step == 0 {
            // Most pages are sealed.
            queue.add(block);
            queue.add(block.wrapping_add(OVERHEAD_BYTES + index / SEALED_STRIDE * SLOT_BYTES));
            return Progress::More;
        }
        if !self.is_large() && index < self.len() {
            let slot_index = if self.is_sealed() { index / SEALED_STRIDE } else { index };
            queue.add(self.bytes().as_ptr().wrapping_add(slot(self.bytes(), slot_index)));
        }
        Progress::Done
    }

    /// The element at `index`, which is below the length.
    #[inline]
    pub fn get(&self, index: usize) -> Element<'_> {
        assert!(index < self.len(), "element {index} of {}", self.len());
        if self.is_large() {
            return Element::Bytes(self.bytes());
        }
        decode_at(self.bytes(), self.place(index)).0
    }

    /// The first index in `range` whose element is `code`.
    pub fn find(&self, code: &Encoded<'_>, mut range: Range<usize>) -> Option<usize> {
        range.find(|&index| self.is_at(code, index))
    }

    /// The last index in `range` whose element is `code`.
    pub fn rfind(&self, code: &Encoded<'_>, mut range: Range<usize>) -> Option<usize> {
        range.rfind(|&index| self.is_at(code, index))
    }

    #[inline(always)]
    fn is_at(&self, code: &Encoded<'_>, index: usize) -> bool {
        if self.is_large() {
            return code.body == self.bytes();
        }
        code.is_at(&self.bytes()[self.place(index)..])
    }

    /// Inserts an element so that it has `index`; whether it fitted. A chunk without room is unchanged.
    #[inline]
    pub fn insert(&mut self, index: usize, code: &Encoded<'_>) -> bool {
        let Header { count, data_start, .. } = self.header();
        let count = usize::from(count);
        let need = code.size() + SLOT_BYTES;
        assert!(index <= count, "element {index} of {count}");
        if count * SLOT_BYTES + need > usize::from(data_start) || count >= CHUNK_MAX_LEN {
            return self.insert_slow(index, code);
        }
        self.with_page(|page| page.insert(index, code));
        true
    }

    /// As [`Chunk::insert`] where the free room does not do: repacks or grows, or refuses.
    #[cold]
    fn insert_slow(&mut self, index: usize, code: &Encoded<'_>) -> bool {
        let need = self.packed_bytes() + code.size() + SLOT_BYTES;
        if self.is_large()
            || self.len() >= CHUNK_MAX_LEN
            || need > PAGE_MAX_BYTES
            || code.size() > LARGE_BYTES
        {
            return false;
        }
        // Repacking frees at least a quarter of the page, or the page grows by half.
        let capacity = if self.is_sealed() { self.packed_bytes() } else { self.bytes().len() };
        let wanted = if need > capacity - capacity / 4 { capacity + capacity / 2 } else { capacity };
        *self = self.repacked(0..self.len(), wanted.max(need));
        self.with_page(|page| page.insert(index, code));
        true
    }

    /// Puts another element in the place of the one at `index`; whether it fitted.
    pub fn replace(&mut self, index: usize, code: &Encoded<'_>) -> bool {
        if self.is_large() || code.size() > LARGE_BYTES {
            return false;
        }
        self.unseal();
        let old_size = size_at(self.bytes(), slot(self.bytes(), index));
        if code.size() <= old_size {
            self.with_page(|page| page.overwrite(index, code));
            return true;
        }
        if self.packed_bytes() - old_size + code.size() > PAGE_MAX_BYTES {
            return false;
        }
        self.remove(index..index + 1);
        let fitted = self.insert(index, code);
        assert!(fitted, "a page with room refused an element");
        true
    }

    /// Removes the elements of `range`.
    #[inline]
    pub fn remove(&mut self, range: Range<usize>) {
        let count = self.len();
        assert!(range.start <= range.end && range.end <= count, "elements {range:?} of {count}");
        if self.is_large() {
            if !range.is_empty() {
                *self = Chunk::with_capacity(0);
            }
            return;
        }
        self.unseal();
        self.with_page(|page| page.remove(range));
    }

    /// Removes up to `most` elements equal to `code` among those in `range`, the first ones or the last ones;
    /// how many.
    pub fn remove_matches(
        &mut self,
        code: &Encoded<'_>,
        range: Range<usize>,
        most: usize,
        backwards: bool,
    ) -> usize {
        let mut left = range;
        let mut removed = 0;
        while removed < most {
            let found =
                if backwards { self.rfind(code, left.clone()) } else { self.find(code, left.clone()) };
            let Some(index) = found else { break };
            self.remove(index..index + 1);
            removed += 1;
            left = if backwards { left.start..index } else { index..left.end - 1 };
        }
        removed
    }

    /// A chunk of the elements in `range` alone, with at least `capacity` bytes of page.
    fn repacked(&self, range: Range<usize>, capacity: usize) -> Chunk {
        let mut copy = Chunk::with_capacity(capacity);
        copy.append(self, range);
        copy
    }

    /// Appends elements of another chunk, for which there is room.
    fn append(&mut self, from: &Chunk, range: Range<usize>) {
        let bytes = from.bytes();
        self.with_page(|page| {
            for index in range {
                let at = from.place(index);
                page.insert_bytes(usize::from(page.header.count), &bytes[at..at + size_at(bytes, at)]);
            }
        });
    }

    /// Bytes that a page of the elements in `range` would take without holes and free room.
    fn packed_bytes_of(&self, range: Range<usize>) -> usize {
        range.map(|index| size_at(self.bytes(), self.place(index)) + SLOT_BYTES).sum()
    }

    /// Whether `code` would fit into a chunk of the elements in `range`.
    pub fn has_room_in(&self, range: Range<usize>, code: &Encoded<'_>) -> bool {
        if self.is_large() || code.size() > LARGE_BYTES || range.len() >= CHUNK_MAX_LEN {
            return false;
        }
        let taken = self.packed_bytes_of(range);
        taken + code.size() + SLOT_BYTES <= PAGE_MAX_BYTES
    }

    /// Moves the elements from `index` on to a new chunk.
    pub fn split_off(&mut self, index: usize) -> Chunk {
        let count = self.len();
        assert!(index <= count && !self.is_large());
        let right = self.repacked(index..count, self.packed_bytes_of(index..count));
        self.remove(index..count);
        right
    }

    /// Appends the elements of `right` if both together are small; whether it did.
    pub fn try_merge(&mut self, right: &Chunk) -> bool {
        let packed = self.packed_bytes() + right.packed_bytes();
        if self.is_large()
            || right.is_large()
            || packed > PAGE_MAX_BYTES / 2
            || self.len() + right.len() > CHUNK_MAX_LEN / 2
        {
            return false;
        }
        let mut merged = Chunk::with_capacity(packed);
        merged.append(self, 0..self.len());
        merged.append(right, 0..right.len());
        *self = merged;
        true
    }

    /// Gives back room if more than an eighth of the page is holes or free.
    pub fn shrink_to_fit(&mut self) {
        if !self.is_large() && !self.is_sealed() && self.packed_bytes() < self.bytes().len() / 8 * 7 {
            *self = self.repacked(0..self.len(), self.packed_bytes());
        }
    }

    /// Whether at least three quarters of the page are holes or free.
    pub fn is_sparse(&self) -> bool {
        !self.is_large()
            && !self.is_sealed()
            && self.bytes().len() > PAGE_MIN_BYTES
            && self.packed_bytes() < self.bytes().len() / 4
    }

    /// Where the page is: the same for chunks that share it.
    #[cfg(test)]
    pub fn page_address(&self) -> *const u8 {
        self.bytes().as_ptr()
    }

    /// Panics unless the header agrees with the elements.
    #[cfg(test)]
    pub fn check(&self) {
        if self.is_large() {
            assert!(self.len() == 1 && self.bytes().len() + 5 > LARGE_BYTES);
            return;
        }
        let (header, bytes) = (self.header(), self.bytes());
        let places: Vec<usize> = (0..self.len()).map(|index| self.place(index)).collect();
        let sizes: Vec<usize> = places.iter().map(|&at| size_at(bytes, at)).collect();
        if self.is_sealed() {
            let mut at = self.len().div_ceil(SEALED_STRIDE) * SLOT_BYTES;
            for (&place, size) in places.iter().zip(&sizes) {
                assert_eq!(place, at);
                at += size;
            }
            assert_eq!(at, bytes.len());
        } else {
            assert!(places.iter().all(|&at| at >= usize::from(header.data_start)));
            assert!(self.len() * SLOT_BYTES <= usize::from(header.data_start));
        }
        assert_eq!(sizes.iter().sum::<usize>(), usize::from(header.live));
        let listpack = places.iter().zip(&sizes).map(|(&at, &size)| entry_bytes(size, bytes[at]));
        assert_eq!(listpack.sum::<usize>(), usize::from(header.listpack_bytes));
        assert!(bytes.len() <= PAGE_MAX_BYTES && self.len() <= CHUNK_MAX_LEN);
    }

    /// Runs `change` on the page, copied first if something else refers to it.
    #[inline(always)]
    fn with_page<R>(&mut self, change: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        if ThinArc::strong_count(&self.page) != 1 {
            self.page = ThinArc::from_header_and_slice(self.header(), self.bytes());
        }
        self.page.with_arc_mut(|page| {
            let Some(page) = triomphe::Arc::get_mut(page) else { unreachable!("the page is not shared") };
            let mut header = *page.header();
            let result = change(&mut PageMut { header: &mut header, bytes: page.slice_mut() });
            *page.header_mut() = header;
            result
        })
    }
}

impl PageMut<'_> {
    /// Makes room for an element of `size` bytes at the slot `index`; its place.
    #[inline(always)]
    fn open(&mut self, index: usize, size: usize) -> &mut [u8] {
        let count = usize::from(self.header.count);
        let at = usize::from(self.header.data_start) - size;
        debug_assert!((count + 1) * SLOT_BYTES <= at);
        let from = index * SLOT_BYTES;
        self.bytes.copy_within(from..count * SLOT_BYTES, from + SLOT_BYTES);
        self.bytes[from..from + SLOT_BYTES].copy_from_slice(&(at as u16).to_le_bytes());
        self.header.count += 1;
        self.header.data_start = at as u16;
        self.header.live += size as u16;
        &mut self.bytes[at..at + size]
    }

    #[inline]
    fn insert(&mut self, index: usize, code: &Encoded<'_>) {
        let (head, body) = self.open(index, code.size()).split_at_mut(code.head().len());
        head.copy_from_slice(code.head());
        body.copy_from_slice(code.body);
        self.header.listpack_bytes += entry_bytes(code.size(), code.head()[0]) as u16;
    }

    /// Writes an element over the one at `index`, which is not smaller; the rest of that becomes a hole.
    fn overwrite(&mut self, index: usize, code: &Encoded<'_>) {
        let at = slot(self.bytes, index);
        let old_size = size_at(self.bytes, at);
        self.header.listpack_bytes -= entry_bytes(old_size, self.bytes[at]) as u16;
        self.header.listpack_bytes += entry_bytes(code.size(), code.head()[0]) as u16;
        self.header.live -= (old_size - code.size()) as u16;
        let (head, body) = self.bytes[at..at + code.size()].split_at_mut(code.head().len());
        head.copy_from_slice(code.head());
        body.copy_from_slice(code.body);
    }

    fn insert_bytes(&mut self, index: usize, encoded: &[u8]) {
        self.open(index, encoded.len()).copy_from_slice(encoded);
        self.header.listpack_bytes += entry_bytes(encoded.len(), encoded[0]) as u16;
    }

    #[inline]
    fn remove(&mut self, range: Range<usize>) {
        let count = usize::from(self.header.count);
        for index in range.clone() {
            let at = slot(self.bytes, index);
            let size = size_at(self.bytes, at);
            self.header.live -= size as u16;
            self.header.listpack_bytes -= entry_bytes(size, self.bytes[at]) as u16;
            if at == usize::from(self.header.data_start) {
                self.header.data_start += size as u16;
            }
        }
        let after = range.end * SLOT_BYTES..count * SLOT_BYTES;
        self.bytes.copy_within(after, range.start * SLOT_BYTES);
        self.header.count -= range.len() as u16;
        if self.header.count == 0 {
            self.header.data_start = self.bytes.len() as u16;
        }
    }
}

/// The offset in slot `index`.
#[inline(always)]
fn slot(bytes: &[u8], index: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[index * SLOT_BYTES], bytes[index * SLOT_BYTES + 1]]))
}

/// Where the element at `index` of a sealed page begins.
#[inline(always)]
fn sealed_place(bytes: &[u8], index: usize) -> usize {
    let mut at = slot(bytes, index / SEALED_STRIDE);
    for _ in 0..index % SEALED_STRIDE {
        at += size_at(bytes, at);
    }
    at
}
