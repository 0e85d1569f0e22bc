//! `Intset`: a sorted set of integers in one heap block, the encoding of small sets whose members are all
//! integers.
//!
//! The value is one pointer. The block holds an eight-byte header and then the integers in ascending order,
//! each as wide as the widest that was ever added (2, 4 or 8 bytes, native byte order):
//!
//! ```text
//! | count: 4 bytes | class: 1 byte | width: 1 byte | 0: 2 bytes | integer | integer | … | slack |
//! ```
//!
//! Invariant: `count` integers of `width` bytes follow the header, strictly ascending, and the block
//! is of its size class. Removal never narrows the integers, as in Redis.

#[cfg(test)]
mod tests;

use crate::size_class::{allocate, class_bytes, class_of, release};
use crate::tagged::{Tagged, tag, untag};
use std::fmt;
use std::ptr::NonNull;

const HEADER_BYTES: usize = 8;

#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    count: u32,
    class: u8,
    width: u8,
    spare: u16,
}

/// A sorted set of integers in one block; see the module's description.
#[repr(transparent)]
pub struct Intset {
    /// The block, tagged.
    word: NonNull<u8>,
}

// SAFETY: an `Intset` owns its block alone, and the block is plain integers.
unsafe impl Send for Intset {}
// SAFETY: the same holds; shared access only reads.
unsafe impl Sync for Intset {}

// SAFETY: the word is a block's address, aligned to eight, with this tag.
unsafe impl Tagged for Intset {
    const TAG: usize = 1;
}

/// The integers at their width.
#[derive(Clone, Copy)]
enum Slice<'a> {
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
}

/// Bytes that `int` needs: 2, 4 or 8.
fn width_of(int: i64) -> u8 {
    if i16::try_from(int).is_ok() {
        2
    } else if i32::try_from(int).is_ok() {
        4
    } else {
        8
    }
}

impl Intset {
    /// Most members.
    pub const MAX_LEN: usize = u32::MAX as usize;

    /// An empty set.
    pub fn new() -> Intset {
        Intset::with_capacity(0, 2)
    }

    /// Room for `members` of `width` bytes each.
    fn with_capacity(members: usize, width: u8) -> Intset {
        let class = class_of(HEADER_BYTES + members * usize::from(width));
        let mut set = Intset { word: tag(allocate(class), Intset::TAG) };
        set.set_header(Header { count: 0, class, width, spare: 0 });
        set
    }

    /// The set of `members`, which are strictly ascending: costs one copy. Panics if they are not.
    pub fn from_sorted(members: &[i64]) -> Intset {
        assert!(members.is_sorted_by(|left, right| left < right), "members not strictly ascending");
        assert!(members.len() <= Intset::MAX_LEN);
        let widest = members.first().into_iter().chain(members.last()).map(|&int| width_of(int)).max();
        let mut set = Intset::with_capacity(members.len(), widest.unwrap_or(2));
        for (index, &member) in members.iter().enumerate() {
            // SAFETY: the block has room for all members.
            unsafe { set.write(index, member) };
        }
        set.set_header(Header { count: members.len() as u32, ..set.header() });
        set
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.header().count as usize
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes per member: 2, 4 or 8.
    pub fn width_bytes(&self) -> usize {
        usize::from(self.header().width)
    }

    /// Bytes of header and members, without the block's slack.
    pub fn bytes_used(&self) -> usize {
        HEADER_BYTES + self.len() * self.width_bytes()
    }

    /// Bytes that the allocator gave: what this set costs.
    pub fn heap_bytes(&self) -> usize {
        class_bytes(self.header().class)
    }

    /// Whether `member` is in the set.
    #[inline]
    pub fn contains(&self, member: i64) -> bool {
        self.search(member).is_ok()
    }

    /// The rank of `member`, or the rank that it would have.
    #[inline]
    pub fn search(&self, member: i64) -> Result<usize, usize> {
        fn search<T: Ord + Copy + TryFrom<i64>>(members: &[T], member: i64) -> Result<usize, usize> {
            match T::try_from(member) {
                Ok(member) => members.binary_search(&member),
                Err(_) => Err(if member < 0 { 0 } else { members.len() }),
            }
        }
        match self.slice() {
            Slice::I16(members) => search(members, member),
            Slice::I32(members) => search(members, member),
            Slice::I64(members) => search(members, member),
        }
    }

    /// The member of rank `index`, counted from the smallest. A random index gives a uniformly random member.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        match self.slice() {
            Slice::I16(members) => members.get(index).copied().map(i64::from),
            Slice::I32(members) => members.get(index).copied().map(i64::from),
            Slice::I64(members) => members.get(index).copied(),
        }
    }

    /// The smallest member.
    pub fn first(&self) -> Option<i64> {
        self.get(0)
    }

    /// The largest member.
    pub fn last(&self) -> Option<i64> {
        self.len().checked_sub(1).and_then(|index| self.get(index))
    }

    /// The members in ascending order.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter { slice: self.slice(), front: 0, back: self.len() }
    }

    /// Adds a member; whether it was absent. Panics at [`Intset::MAX_LEN`].
    pub fn add(&mut self, member: i64) -> bool {
        let Err(index) = self.search(member) else { return false };
        let header = self.header();
        let count = self.len();
        assert!(count < Intset::MAX_LEN, "intset is full");
        let width = header.width.max(width_of(member));
        let need = class_of(HEADER_BYTES + (count + 1) * usize::from(width));
        if width > header.width {
            self.widen(width, need);
        } else if need > header.class {
            self.reallocate(need);
        }
        self.open_gap(index);
        // SAFETY: the block now has room for one member more, and its width holds this one.
        unsafe { self.write(index, member) };
        self.set_header(Header { count: header.count + 1, ..self.header() });
        true
    }

    /// Removes a member; whether it was present.
    pub fn remove(&mut self, member: i64) -> bool {
        let Ok(index) = self.search(member) else { return false };
        self.remove_index(index);
        true
    }

    /// Removes the member of rank `index`. Panics if there is no such member.
    pub fn remove_index(&mut self, index: usize) {
        let header = self.header();
        let (count, width) = (self.len(), self.width_bytes());
        assert!(index < count, "index {index} of {count}");
        // SAFETY: both ranges are among the `count` members.
        unsafe {
            let hole = self.block().as_ptr().add(HEADER_BYTES + index * width);
            std::ptr::copy(hole.add(width), hole, (count - index - 1) * width);
        }
        self.set_header(Header { count: header.count - 1, ..header });
        let need = class_of(self.bytes_used());
        if need + 1 < header.class {
            self.reallocate(need);
        }
    }

    #[inline(always)]
    fn block(&self) -> NonNull<u8> {
        untag(self.word, Intset::TAG)
    }

    #[inline(always)]
    fn header(&self) -> Header {
        // SAFETY: the header is initialised and the block aligned to eight.
        unsafe { self.block().cast::<Header>().read() }
    }

    #[inline(always)]
    fn set_header(&mut self, header: Header) {
        debug_assert!(
            HEADER_BYTES + header.count as usize * usize::from(header.width) <= class_bytes(header.class)
        );
        // SAFETY: every block is at least eight bytes, aligned to eight, and owned by `self`.
        unsafe { self.block().cast::<Header>().write(header) }
    }

    #[inline(always)]
    fn slice(&self) -> Slice<'_> {
        let Header { count, width, .. } = self.header();
        let count = count as usize;
        // SAFETY: `count` members of `width` bytes follow the header, at an address that is a multiple of
        // eight.
        unsafe {
            let members = self.block().as_ptr().add(HEADER_BYTES);
            match width {
                2 => Slice::I16(std::slice::from_raw_parts(members.cast(), count)),
                4 => Slice::I32(std::slice::from_raw_parts(members.cast(), count)),
                _ => Slice::I64(std::slice::from_raw_parts(members.cast(), count)),
            }
        }
    }

    /// Writes the member of rank `index` at the set's width.
    ///
    /// # Safety
    /// The block has room for `index + 1` members; the width holds `member`.
    unsafe fn write(&mut self, index: usize, member: i64) {
        let width = self.header().width;
        // SAFETY: in the block and aligned, by the caller's promise.
        unsafe {
            let members = self.block().as_ptr().add(HEADER_BYTES);
            match width {
                2 => members.cast::<i16>().add(index).write(member as i16),
                4 => members.cast::<i32>().add(index).write(member as i32),
                _ => members.cast::<i64>().add(index).write(member),
            }
        }
    }

    /// Moves the members from `index` on up by one place, for which the block has room.
    fn open_gap(&mut self, index: usize) {
        let (count, width) = (self.len(), self.width_bytes());
        assert!(HEADER_BYTES + (count + 1) * width <= self.heap_bytes());
        // SAFETY: both ranges are in the block, by the assertion.
        unsafe {
            let gap = self.block().as_ptr().add(HEADER_BYTES + index * width);
            std::ptr::copy(gap, gap.add(width), (count - index) * width);
        }
    }

    /// Moves to a block of `class`, which holds all members.
    #[cold]
    fn reallocate(&mut self, class: u8) {
        assert!(self.bytes_used() <= class_bytes(class));
        let mut moved = Intset { word: tag(allocate(class), Intset::TAG) };
        // SAFETY: the blocks are distinct and both hold the bytes used.
        unsafe {
            std::ptr::copy_nonoverlapping(self.block().as_ptr(), moved.block().as_ptr(), self.bytes_used());
        }
        moved.set_header(Header { class, ..self.header() });
        *self = moved;
    }

    /// Moves to a block of `class` with members of `width` bytes.
    #[cold]
    fn widen(&mut self, width: u8, class: u8) {
        let mut wide = Intset { word: tag(allocate(class), Intset::TAG) };
        wide.set_header(Header { count: 0, class, width, spare: 0 });
        assert!(HEADER_BYTES + self.len() * usize::from(width) <= class_bytes(class));
        for (index, member) in self.iter().enumerate() {
            // SAFETY: there is room for all members, by the assertion, and the width grew.
            unsafe { wide.write(index, member) };
        }
        wide.set_header(Header { count: self.header().count, ..wide.header() });
        *self = wide;
    }
}

impl Drop for Intset {
    fn drop(&mut self) {
        // SAFETY: the block is of its class, owned by `self`, and not used after this.
        unsafe { release(self.block(), self.header().class) }
    }
}

impl Clone for Intset {
    fn clone(&self) -> Intset {
        let mut copy = Intset::with_capacity(self.len(), self.header().width);
        let class = copy.header().class;
        // SAFETY: the blocks are distinct and both hold the bytes used.
        unsafe {
            std::ptr::copy_nonoverlapping(self.block().as_ptr(), copy.block().as_ptr(), self.bytes_used());
        }
        copy.set_header(Header { class, ..self.header() });
        copy
    }
}

impl Default for Intset {
    fn default() -> Intset {
        Intset::new()
    }
}

impl PartialEq for Intset {
    fn eq(&self, other: &Intset) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Intset {}

impl fmt::Debug for Intset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<i64> for Intset {
    fn from_iter<I: IntoIterator<Item = i64>>(members: I) -> Intset {
        let mut sorted: Vec<i64> = members.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Intset::from_sorted(&sorted)
    }
}

impl<'a> IntoIterator for &'a Intset {
    type Item = i64;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Members in ascending order.
#[derive(Clone)]
pub struct Iter<'a> {
    slice: Slice<'a>,
    front: usize,
    back: usize,
}

impl Iter<'_> {
    fn get(&self, index: usize) -> i64 {
        match self.slice {
            Slice::I16(members) => i64::from(members[index]),
            Slice::I32(members) => i64::from(members[index]),
            Slice::I64(members) => members[index],
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        if self.front == self.back {
            return None;
        }
        self.front += 1;
        Some(self.get(self.front - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.back - self.front, Some(self.back - self.front))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<i64> {
        if self.front == self.back {
            return None;
        }
        self.back -= 1;
        Some(self.get(self.back))
    }
}

impl ExactSizeIterator for Iter<'_> {}
