//! `Packed`: a sequence of byte strings in one heap block, the encoding of small lists, hashes, sets and
//! sorted sets.
//!
//! The value is one pointer. The block holds a six-byte header and then the elements, one after another, in
//! the format of [`encoding`]:
//!
//! ```text
//! | used: 3 bytes | class: 1 byte | count: 2 bytes | element | element | … | slack |
//! ```
//!
//! `used` is the length of all elements in bytes, `class` the block's size class. Invariant: `used`
//! bytes after the header are exactly `count` well-formed elements in their shortest form, and the block is
//! of its class. The block grows to the next size class that fits and shrinks once it is two classes and a
//! quarter too large, so an element pushed and popped at an edge does not allocate each time.
//!
//! Limits: [`Packed::MAX_BYTES`] of elements and [`Packed::MAX_LEN`] elements. Callers ask
//! [`Packed::has_room`] and leave this encoding when it says no; insertions past a limit panic.

pub(crate) mod encoding;
pub mod listpack;
#[cfg(test)]
mod tests;

use crate::element::Element;
use crate::size_class::{allocate, class_bytes, class_of, release};
use crate::tagged::Tagged;
use encoding::{Encoded, decode_at, size_at};
use listpack::put_entry_at;
use std::fmt;
use std::ptr::NonNull;

pub(crate) const HEADER_BYTES: usize = 6;
const USED_MASK: u32 = 0x00FF_FFFF;

/// Place of an element: valid until the sequence is next changed, and in the sequence that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos(u32);

/// A sequence of byte strings in one block; see the module's description.
#[repr(transparent)]
pub struct Packed {
    block: NonNull<u8>,
}

// SAFETY: a `Packed` owns its block alone, and the block is plain bytes.
unsafe impl Send for Packed {}
// SAFETY: the same holds; shared access only reads.
unsafe impl Sync for Packed {}

// SAFETY: a block is aligned to eight.
unsafe impl Tagged for Packed {
    const TAG: usize = 0;
}

impl Packed {
    /// Most bytes that all elements may take, their own one to five header bytes included.
    pub const MAX_BYTES: usize = USED_MASK as usize;
    /// Most elements.
    pub const MAX_LEN: usize = u16::MAX as usize;

    /// An empty sequence, in the smallest block.
    pub fn new() -> Packed {
        Packed::with_capacity(0)
    }

    /// An empty sequence with room for `bytes` of encoded elements.
    pub fn with_capacity(bytes: usize) -> Packed {
        Packed::with_class(class_of(HEADER_BYTES + bytes.min(Packed::MAX_BYTES)))
    }

    /// Of `count` elements that lie in `bytes` as they will here, within the limits.
    pub(crate) fn of_encoded(bytes: &[u8], count: usize) -> Packed {
        let mut packed = Packed::with_capacity(bytes.len());
        packed.append(bytes, bytes.len(), count);
        packed
    }

    /// Appends a short element: the first `size` bytes of `packed`, which are as they lie here.
    #[inline]
    pub fn push_encoded(&mut self, packed: &[u8], size: usize) {
        debug_assert!(Encoded::new(decode_at(packed, 0).0).is_at(&packed[..size]));
        if HEADER_BYTES + self.used() + size <= class_bytes(self.class()) {
            self.append(packed, size, 1);
        } else {
            self.push_back(decode_at(packed, 0).0);
        }
    }

    /// Copies `size` bytes of whole elements behind the others; the block has room for them.
    #[inline]
    fn append(&mut self, encoded: &[u8], size: usize, count: usize) {
        let (used, class, len) = (self.used(), self.class(), self.len());
        assert!(HEADER_BYTES + used + size <= class_bytes(class) && len + count <= Packed::MAX_LEN);
        let encoded = &encoded[..size];
        // SAFETY: the block has `class_bytes` bytes, is owned by `self`, and nothing else points into it.
        unsafe {
            let end = self.block.as_ptr().add(HEADER_BYTES + used);
            std::ptr::copy_nonoverlapping(encoded.as_ptr(), end, size);
        }
        self.set_header(used + size, class, len + count);
    }

    fn with_class(class: u8) -> Packed {
        let mut packed = Packed { block: allocate(class) };
        packed.set_header(0, class, 0);
        packed
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: the header is initialised and the block aligned to eight.
        usize::from(unsafe { self.block.cast::<u16>().add(2).read() })
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `elements` more, of `text_bytes` in all, are within the limits. Each costs at most five bytes
    /// more than its text.
    #[inline]
    pub fn has_room(&self, elements: usize, text_bytes: usize) -> bool {
        let (used, count) = (self.used(), self.len());
        elements <= Packed::MAX_LEN - count
            && text_bytes.saturating_add(elements * 5) <= Packed::MAX_BYTES - used
    }

    /// Bytes of header and elements, without the block's slack.
    #[inline]
    pub fn bytes_used(&self) -> usize {
        HEADER_BYTES + self.used()
    }

    /// Bytes that the allocator gave: what this sequence costs.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        class_bytes(self.class())
    }

    /// The elements in order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter { data: self.data(), at: 0, left: self.len() }
    }

    /// Appends the elements to `out` as the entries of Redis' listpack.
    pub fn write_listpack(&self, out: &mut Vec<u8>) {
        let data = self.data();
        // The size behind each, nearly always in one byte, is the difference to this form.
        out.reserve(data.len() + self.len());
        let mut at = 0;
        while at < data.len() {
            at += put_entry_at(out, data, at);
        }
    }

    /// The elements from `pos` to the end.
    #[inline]
    pub fn iter_from(&self, pos: Pos) -> Cursor<'_> {
        Cursor { data: self.data(), at: pos.0 as usize }
    }

    /// The elements from last to first. Positions are collected first: elements carry no length at their end.
    pub fn iter_rev(&self) -> impl ExactSizeIterator<Item = Element<'_>> {
        let data = self.data();
        self.positions().into_iter().rev().map(move |pos| decode_at(data, pos.0 as usize).0)
    }

    /// The place of each element, in order.
    pub fn positions(&self) -> Vec<Pos> {
        let data = self.data();
        let mut positions = Vec::with_capacity(self.len());
        let mut at = 0;
        while at < data.len() {
            positions.push(Pos(at as u32));
            at += size_at(data, at);
        }
        positions
    }

    /// The element at `index`, counted from 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        self.seek(index).map(|pos| self.at(pos))
    }

    /// The place of the first element.
    #[inline]
    pub fn first(&self) -> Option<Pos> {
        self.seek(0)
    }

    /// The place after the last element, where an insertion appends.
    #[inline]
    pub fn end(&self) -> Pos {
        Pos(self.used() as u32)
    }

    /// The place of the element at `index`.
    #[inline]
    pub fn seek(&self, index: usize) -> Option<Pos> {
        if index >= self.len() {
            return None;
        }
        Some(self.walk(Pos(0), index))
    }

    /// The place of the element after the one at `pos`.
    #[inline]
    pub fn next(&self, pos: Pos) -> Option<Pos> {
        let after = self.walk(pos, 1);
        (after < self.end()).then_some(after)
    }

    /// The element at `pos`. Panics at the end.
    #[inline]
    pub fn at(&self, pos: Pos) -> Element<'_> {
        decode_at(self.data(), pos.0 as usize).0
    }

    /// The index of the first element equal to `needle` among those at indexes 0, `step`, 2 × `step`…
    /// Step 2 looks at the fields of a hash or the members of a sorted set only.
    pub fn find<'n>(&self, needle: impl Into<Element<'n>>, step: usize) -> Option<usize> {
        let pos = self.find_pos(needle, step)?;
        let (data, mut at, mut index) = (self.data(), 0, 0);
        while at < pos.0 as usize {
            at += size_at(data, at);
            index += 1;
        }
        Some(index)
    }

    /// As [`Packed::find`], but the place. Panics unless `step` is 1 or 2.
    #[inline]
    pub fn find_pos<'n>(&self, needle: impl Into<Element<'n>>, step: usize) -> Option<Pos> {
        let (data, code) = (self.data(), Encoded::new(needle.into()));
        match step {
            1 => find_stepping::<1>(data, &code),
            2 => find_stepping::<2>(data, &code),
            3 => find_stepping::<3>(data, &code),
            _ => panic!("step {step}"),
        }
    }

    /// Appends an element.
    #[inline]
    pub fn push_back<'e>(&mut self, element: impl Into<Element<'e>>) {
        let code = Encoded::new(element.into());
        self.replace_bytes(self.used(), 0, 1, &[code]);
    }

    /// Puts an element before all others.
    #[inline]
    pub fn push_front<'e>(&mut self, element: impl Into<Element<'e>>) {
        self.insert_at(Pos(0), element);
    }

    /// Inserts an element so that it has `index`, at most the length. Panics past it.
    pub fn insert<'e>(&mut self, index: usize, element: impl Into<Element<'e>>) {
        let pos = self.seek_or_end(index);
        self.insert_at(pos, element);
    }

    /// Inserts an element before the one at `pos`, which may be the end.
    #[inline]
    pub fn insert_at<'e>(&mut self, pos: Pos, element: impl Into<Element<'e>>) {
        let code = Encoded::new(element.into());
        self.replace_bytes(pos.0 as usize, 0, 1, &[code]);
    }

    /// Inserts two elements (field and value, member and score) before the one at `pos`, which may be the
    /// end.
    pub fn insert_pair_at<'a, 'b>(
        &mut self,
        pos: Pos,
        first: impl Into<Element<'a>>,
        second: impl Into<Element<'b>>,
    ) {
        let pair = [Encoded::new(first.into()), Encoded::new(second.into())];
        self.replace_bytes(pos.0 as usize, 0, 2, &pair);
    }

    /// Puts another element in the place of the one at `index`. Panics past the end.
    pub fn replace<'e>(&mut self, index: usize, element: impl Into<Element<'e>>) {
        let pos = self.seek(index).unwrap_or_else(|| panic!("index {index} of {}", self.len()));
        self.replace_at(pos, element);
    }

    /// Puts another element in the place of the one at `pos`. Panics at the end.
    #[inline]
    pub fn replace_at<'e>(&mut self, pos: Pos, element: impl Into<Element<'e>>) {
        let code = Encoded::new(element.into());
        let at = pos.0 as usize;
        let old_bytes = size_at(self.data(), at);
        self.replace_bytes(at, old_bytes, 0, &[code]);
    }

    /// Removes the element at `index`. Panics past the end.
    pub fn remove(&mut self, index: usize) {
        self.remove_range(index, 1);
    }

    /// Removes `count` elements from `index` on, fewer where the sequence ends. Panics if `index` is past the
    /// end.
    pub fn remove_range(&mut self, index: usize, count: usize) {
        let pos = self.seek_or_end(index);
        self.remove_at(pos, count.min(self.len() - index));
    }

    /// Removes `count` elements from the one at `pos` on. Panics if there are fewer.
    pub fn remove_at(&mut self, pos: Pos, count: usize) {
        let after = self.walk(pos, count).0 as usize;
        let at = pos.0 as usize;
        self.replace_bytes(at, after - at, -(count as isize), &[]);
    }

    /// Removes everything and gives the room back.
    pub fn clear(&mut self) {
        *self = Packed::new();
    }

    /// Gives back the room that a smaller size class does not need.
    pub fn shrink_to_fit(&mut self) {
        let class = class_of(self.bytes_used());
        if class < self.class() {
            self.reallocate(class, self.used(), 0, 0);
        }
    }

    #[inline(always)]
    fn used_and_class(&self) -> u32 {
        // SAFETY: the header is initialised and the block aligned to eight.
        unsafe { self.block.cast::<u32>().read() }
    }

    #[inline(always)]
    fn used(&self) -> usize {
        (self.used_and_class() & USED_MASK) as usize
    }

    #[inline(always)]
    fn class(&self) -> u8 {
        (self.used_and_class() >> 24) as u8
    }

    #[inline(always)]
    fn set_header(&mut self, used: usize, class: u8, count: usize) {
        debug_assert!(used <= Packed::MAX_BYTES && count <= Packed::MAX_LEN);
        debug_assert!(HEADER_BYTES + used <= class_bytes(class));
        // SAFETY: every block is at least eight bytes, aligned to eight, and owned by `self`.
        unsafe {
            self.block.cast::<u32>().write(used as u32 | u32::from(class) << 24);
            self.block.cast::<u16>().add(2).write(count as u16);
        }
    }

    #[inline(always)]
    fn data(&self) -> &[u8] {
        // SAFETY: `used` bytes after the header are inside the block and initialised.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().add(HEADER_BYTES), self.used()) }
    }

    #[inline(always)]
    fn walk(&self, pos: Pos, steps: usize) -> Pos {
        let data = self.data();
        let mut at = pos.0 as usize;
        for _ in 0..steps {
            at += size_at(data, at);
        }
        Pos(at as u32)
    }

    fn seek_or_end(&self, index: usize) -> Pos {
        assert!(index <= self.len(), "index {index} of {}", self.len());
        self.walk(Pos(0), index)
    }

    /// Writes `codes` over the `old_bytes` at `at`, moving the rest; the length changes by `count_change`.
    #[inline(always)]
    fn replace_bytes(&mut self, at: usize, old_bytes: usize, count_change: isize, codes: &[Encoded<'_>]) {
        let (used, class, count) = (self.used(), self.class(), self.len());
        assert!(at <= used && old_bytes <= used - at, "{old_bytes} bytes at {at} of {used}");
        let new_bytes = codes.iter().map(Encoded::size).sum::<usize>();
        let new_used = used - old_bytes + new_bytes;
        let new_count = count.wrapping_add_signed(count_change);
        assert!(
            new_used <= Packed::MAX_BYTES && new_count <= Packed::MAX_LEN,
            "{new_used} bytes, {new_count} elements"
        );
        let need = class_of(HEADER_BYTES + new_used);
        let is_too_large = need + 1 < class && class_bytes(need) * 4 <= class_bytes(class) * 3;
        if need > class || is_too_large {
            self.reallocate(need, at, old_bytes, new_bytes);
        } else if at + old_bytes < used && old_bytes != new_bytes {
            // SAFETY: both ranges are inside the block: `used` bytes are, and `new_used` fit its class.
            unsafe {
                let hole = self.block.as_ptr().add(HEADER_BYTES + at);
                std::ptr::copy(hole.add(old_bytes), hole.add(new_bytes), used - at - old_bytes);
            }
        }
        // SAFETY: the hole of `new_bytes` at `at` is inside the block, and no borrowed text can be of this
        // block, which `self` borrows mutably.
        unsafe {
            let mut hole = self.block.as_ptr().add(HEADER_BYTES + at);
            for code in codes {
                code.write(hole);
                hole = hole.add(code.size());
            }
        }
        self.set_header(new_used, self.class(), new_count);
    }

    /// Moves to a block of `class`, leaving `new_bytes` at `at` in the place of `old_bytes`.
    #[cold]
    fn reallocate(&mut self, class: u8, at: usize, old_bytes: usize, new_bytes: usize) {
        let (used, count) = (self.used(), self.len());
        let mut bigger = Packed::with_class(class);
        // SAFETY: the blocks are distinct; the old one holds `used` bytes, the new one `used - old + new`, as
        // its class was chosen for them.
        unsafe {
            let from = self.block.as_ptr().add(HEADER_BYTES);
            let to = bigger.block.as_ptr().add(HEADER_BYTES);
            std::ptr::copy_nonoverlapping(from, to, at);
            let tail = used - at - old_bytes;
            std::ptr::copy_nonoverlapping(from.add(at + old_bytes), to.add(at + new_bytes), tail);
        }
        bigger.set_header(used - old_bytes + new_bytes, class, count);
        *self = bigger;
    }
}

#[inline(always)]
fn find_stepping<const STEP: usize>(data: &[u8], code: &Encoded<'_>) -> Option<Pos> {
    let mut at = 0;
    while at < data.len() {
        if code.is_at(&data[at..]) {
            return Some(Pos(at as u32));
        }
        at += size_at(data, at);
        for _ in 1..STEP {
            if at < data.len() {
                at += size_at(data, at);
            }
        }
    }
    None
}

impl Drop for Packed {
    fn drop(&mut self) {
        // SAFETY: the block is of its class, owned by `self`, and not used after this.
        unsafe { release(self.block, self.class()) }
    }
}

impl Clone for Packed {
    fn clone(&self) -> Packed {
        let mut copy = Packed::with_capacity(self.used());
        // SAFETY: the copy's block has room for `used` bytes, and the two are distinct.
        unsafe {
            let to = copy.block.as_ptr().add(HEADER_BYTES);
            std::ptr::copy_nonoverlapping(self.data().as_ptr(), to, self.used());
        }
        copy.set_header(self.used(), copy.class(), self.len());
        copy
    }
}

impl Default for Packed {
    fn default() -> Packed {
        Packed::new()
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Packed) -> bool {
        self.data() == other.data()
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'e, E: Into<Element<'e>>> Extend<E> for Packed {
    fn extend<I: IntoIterator<Item = E>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push_back(element));
    }
}

impl<'e, E: Into<Element<'e>>> FromIterator<E> for Packed {
    fn from_iter<I: IntoIterator<Item = E>>(elements: I) -> Packed {
        let mut packed = Packed::new();
        packed.extend(elements);
        packed
    }
}

impl<'a> IntoIterator for &'a Packed {
    type Item = Element<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Elements in order, their number known.
#[derive(Clone)]
pub struct Iter<'a> {
    data: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.at >= self.data.len() {
            return None;
        }
        let (element, size) = decode_at(self.data, self.at);
        self.at += size;
        self.left -= 1;
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Elements in order from some place on.
#[derive(Clone)]
pub struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// The place of the element that `next` will give, or the end.
    pub fn pos(&self) -> Pos {
        Pos(self.at as u32)
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        if self.at >= self.data.len() {
            return None;
        }
        let (element, size) = decode_at(self.data, self.at);
        self.at += size;
        Some(element)
    }
}
