//! A segment: tagged entry pointers in cache-line buckets, up to 128 of them unless their hashes are too
//! alike to be split. All raw slot access lives in this file.
//!
//! A slot is a u64: 16 bits of the key's hash (the tag) above the entry's 48-bit address; 0 is empty. A
//! bucket is one cache line of 8 slots, filled from the front, so that a bucket is full exactly if its last
//! slot is. A key's home bucket is `tag * buckets / 65536`; it lies in the first bucket from there on,
//! cyclically, that had room. Hence: every bucket between a key's home and its place is full. Because home is
//! monotone in the tag, the order of tags is an order of traversal that survives growth.

mod directory;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use martlet_base::prefetch::{CACHE_LINE_BYTES, PrefetchQueue, prefetch};

use crate::entry::RawEntry;
pub(crate) use directory::Level;

/// Slots in a bucket: one cache line.
pub(crate) const BUCKET_SLOTS: usize = 8;
const BUCKET_BYTES: usize = 64;
const ADDRESS: u64 = (1 << 48) - 1;

/// A bucket's slots, as a cache line.
#[repr(align(64))]
struct Bucket([u64; BUCKET_SLOTS]);

/// One bit for each slot whose upper 16 bits are `tag`; for tag 0 that includes the empty ones.
#[cfg(target_arch = "x86_64")]
#[inline]
fn slots_with_tag(bucket: &Bucket, tag: u16) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_load_si128, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_ps, _mm_srli_epi32,
    };
    let at = bucket.0.as_ptr().cast::<__m128i>();
    // SAFETY: SSE2 is part of x86-64; a bucket is four aligned 16-byte words.
    unsafe {
        // The upper halves of two slots each, gathered from two words; then the upper halves of those.
        let upper = |first: usize| {
            let (a, b) = (_mm_load_si128(at.add(first)), _mm_load_si128(at.add(first + 1)));
            let halves = _mm_shuffle_ps::<0b11_01_11_01>(_mm_castsi128_ps(a), _mm_castsi128_ps(b));
            _mm_srli_epi32::<16>(_mm_castps_si128(halves))
        };
        let wanted = _mm_set1_epi32(i32::from(tag));
        let equal = _mm_packs_epi32(_mm_cmpeq_epi32(upper(0), wanted), _mm_cmpeq_epi32(upper(2), wanted));
        _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
    }
}

/// The slots of a bucket with a tag, as bits.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn slots_with_tag(bucket: &Bucket, tag: u16) -> u32 {
    slots_with_tag_by_slot(bucket, tag)
}

/// What [`slots_with_tag`] answers, slot by slot.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn slots_with_tag_by_slot(bucket: &Bucket, tag: u16) -> u32 {
    let bit = |(i, slot): (usize, &u64)| u32::from(slot >> 48 == u64::from(tag)) << i;
    bucket.0.iter().enumerate().map(bit).sum()
}

/// Of a slot's entry the line that it begins in and the next, where the value of most short strings ends.
#[inline]
fn lines(slot: u64) -> [*const u8; 2] {
    let entry = (slot & ADDRESS) as *const u8;
    [entry, entry.wrapping_add(CACHE_LINE_BYTES)]
}

/// Bucket counts that segments grow through; each size is one of the allocator's, so nothing is lost to
/// rounding.
const SIZES: [u16; 12] = [0, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16];
/// The last of them: a larger segment should be split.
const LARGEST: u16 = SIZES[SIZES.len() - 1];

/// The size after this one. Beyond [`LARGEST`] are segments that a split would not help.
fn next_size(bucket_count: u16) -> u16 {
    let next = SIZES.iter().find(|&&size| size > bucket_count).copied();
    next.unwrap_or(bucket_count.saturating_add(bucket_count / 2))
}

/// A segment's place, size and fill in one word's worth of space each; the directory holds them by value. Or
/// a level of the directory in its place, without entries: it looks empty, and crowded.
#[derive(Copy, Clone)]
pub(crate) struct Segment {
    /// Buckets, or the level.
    buckets: *mut u64,
    len: u32,
    bucket_count: u16,
    /// Bits of the directory that are the same for all keys of the segment.
    pub(crate) depth: u8,
    is_level: bool,
}

const _: () = assert!(size_of::<Segment>() == 16);

// SAFETY: a segment owns its slots' entries; it is moved with the table that holds it.
unsafe impl Send for Segment {}

/// Where a key is within its segment.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Place(u32);

impl Segment {
    pub(crate) fn empty(depth: u8) -> Segment {
        Segment { buckets: std::ptr::null_mut(), bucket_count: 0, depth, len: 0, is_level: false }
    }

    /// This segment's place, with a level in it that has this segment only.
    pub(crate) fn lowered(self) -> Segment {
        let level = Box::new(Level::new(Segment { depth: 0, ..self }));
        Segment { buckets: Box::into_raw(level).cast(), is_level: true, ..Segment::empty(self.depth) }
    }

    /// Turns [`Segment::lowered`] back: the only segment of the level takes its place.
    pub(crate) fn raised(mut self) -> Segment {
        let only = self.take_level().and_then(|mut level| level.places.pop());
        only.map_or(self, |segment| Segment { depth: self.depth, ..segment })
    }

    #[inline]
    pub(crate) fn is_level(&self) -> bool {
        self.is_level
    }

    #[inline]
    pub(crate) fn level(&self) -> Option<&Level> {
        // SAFETY: from `lowered`, and there until `take_level`.
        self.is_level.then(|| unsafe { &*self.buckets.cast::<Level>() })
    }

    /// As [`Segment::level`], for changes.
    ///
    /// # Panics
    /// Without a level.
    #[inline]
    pub(crate) fn level_mut(&mut self) -> &mut Level {
        assert!(self.is_level, "a segment has no level below");
        // SAFETY: `buckets` points to a level here; one place has it.
        unsafe { &mut *self.buckets.cast::<Level>() }
    }

    /// The level, which is the caller's now; `None` without one.
    pub(crate) fn take_level(&mut self) -> Option<Box<Level>> {
        let place = std::mem::replace(self, Segment::empty(self.depth));
        // SAFETY: `buckets` points to a level here, which was made by `Box::into_raw`.
        place.is_level.then(|| unsafe { Box::from_raw(place.buckets.cast::<Level>()) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn slots(&self) -> usize {
        usize::from(self.bucket_count) * BUCKET_SLOTS
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        usize::from(self.bucket_count) * BUCKET_BYTES
    }

    fn layout(bucket_count: u16) -> Layout {
        // SAFETY: at most 65,535 * 64 bytes; 64 is a power of two.
        unsafe { Layout::from_size_align_unchecked(usize::from(bucket_count) * BUCKET_BYTES, BUCKET_BYTES) }
    }

    #[inline]
    fn home(&self, tag: u16) -> usize {
        (usize::from(tag) * usize::from(self.bucket_count)) >> 16
    }

    #[inline]
    fn slot(&self, at: usize) -> u64 {
        debug_assert!(at < self.slots());
        // SAFETY: callers pass indexes below `slots()`.
        unsafe { *self.buckets.add(at) }
    }

    #[inline]
    fn bucket(&self, index: usize) -> &Bucket {
        debug_assert!(index < usize::from(self.bucket_count));
        // SAFETY: buckets are allocated with this alignment, and callers pass indexes below their number.
        unsafe { &*self.buckets.add(index * BUCKET_SLOTS).cast() }
    }

    #[inline]
    fn set_slot(&mut self, at: usize, value: u64) {
        debug_assert!(at < self.slots());
        // SAFETY: as in `slot`.
        unsafe { *self.buckets.add(at) = value }
    }

    /// Queues the home bucket of a tag.
    #[inline]
    pub(crate) fn queue_bucket(&self, tag: u16, queue: &mut PrefetchQueue) {
        if self.bucket_count != 0 {
            queue.add(self.buckets.wrapping_add(self.home(tag) * BUCKET_SLOTS).cast());
        }
    }

    /// Queues the entries that may be the key's.
    #[inline]
    pub(crate) fn queue_entry(&self, tag: u16, queue: &mut PrefetchQueue) {
        if self.bucket_count == 0 {
            return;
        }
        let bucket = self.bucket(self.home(tag));
        let mut candidates = slots_with_tag(bucket, tag);
        while candidates != 0 {
            lines(bucket.0[candidates.trailing_zeros() as usize])
                .into_iter()
                .for_each(|line| queue.add(line));
            candidates &= candidates - 1;
        }
    }

    /// The place of the entry with this tag for which `is` holds.
    #[inline]
    pub(crate) fn find(&self, tag: u16, is: impl Fn(RawEntry) -> bool) -> Option<Place> {
        if self.bucket_count == 0 {
            return None;
        }
        let mut bucket = self.home(tag);
        for _ in 0..self.bucket_count {
            let from = bucket * BUCKET_SLOTS;
            let mut candidates = slots_with_tag(self.bucket(bucket), tag);
            while candidates != 0 {
                let at = from + candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                let slot = self.slot(at);
                // An empty slot looks like tag 0.
                if slot != 0 {
                    // SAFETY: a slot that is not 0 points to an entry that the segment owns.
                    let entry = unsafe { RawEntry::from_bits(slot & ADDRESS) };
                    if is(entry) {
                        return Some(Place(at as u32));
                    }
                }
            }
            if self.slot(from + BUCKET_SLOTS - 1) == 0 {
                return None;
            }
            bucket += 1;
            if bucket == usize::from(self.bucket_count) {
                bucket = 0;
            }
        }
        None
    }

    /// The entry at a place.
    #[inline]
    pub(crate) fn entry(&self, place: Place) -> RawEntry {
        // SAFETY: places come from `find` or `nth` and stay valid until the segment changes.
        unsafe { RawEntry::from_bits(self.slot(place.0 as usize) & ADDRESS) }
    }

    /// Puts another entry with the same key where one is; the old one is the caller's now.
    #[inline]
    pub(crate) fn replace(&mut self, place: Place, entry: RawEntry) {
        let at = place.0 as usize;
        self.set_slot(at, (self.slot(at) & !ADDRESS) | entry.to_bits());
    }

    /// Whether one more entry wants a larger segment first (load factor 7/8).
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.len() * 8 >= self.slots() * 7
    }

    /// Whether the segment has reached the size at which it should be split.
    pub(crate) fn is_large(&self) -> bool {
        self.bucket_count >= LARGEST
    }

    /// Whether the segment cannot grow any further.
    pub(crate) fn is_largest(&self) -> bool {
        self.bucket_count == u16::MAX
    }

    /// Adds an entry whose key is not in the segment; there is room (see [`Segment::is_crowded`]).
    #[inline]
    pub(crate) fn insert(&mut self, tag: u16, entry: RawEntry) {
        debug_assert!(self.len() < self.slots());
        self.place((u64::from(tag) << 48) | entry.to_bits());
        self.len += 1;
    }

    fn place(&mut self, slot: u64) {
        let mut bucket = self.home((slot >> 48) as u16);
        loop {
            let from = bucket * BUCKET_SLOTS;
            for at in from..from + BUCKET_SLOTS {
                if self.slot(at) == 0 {
                    self.set_slot(at, slot);
                    return;
                }
            }
            bucket = (bucket + 1) % usize::from(self.bucket_count);
        }
    }

    /// Takes an entry out; it is the caller's now.
    pub(crate) fn remove(&mut self, place: Place) -> RawEntry {
        let entry = self.entry(place);
        self.len -= 1;
        let mut hole_bucket = place.0 as usize / BUCKET_SLOTS;
        let mut was_full = self.close_hole(place.0 as usize);
        // An entry displaced past a full bucket must move up when that bucket gets room.
        let count = usize::from(self.bucket_count);
        let mut bucket = hole_bucket;
        while was_full {
            bucket = (bucket + 1) % count;
            if bucket == hole_bucket {
                break;
            }
            let from = bucket * BUCKET_SLOTS;
            let full = self.slot(from + BUCKET_SLOTS - 1) != 0;
            let displaced = (from..from + BUCKET_SLOTS).find(|&at| {
                let slot = self.slot(at);
                if slot == 0 {
                    return false;
                }
                let home = self.home((slot >> 48) as u16);
                (bucket + count - home) % count >= (bucket + count - hole_bucket) % count
            });
            match displaced {
                Some(at) => {
                    let slot = self.slot(at);
                    self.set_slot(hole_bucket * BUCKET_SLOTS + BUCKET_SLOTS - 1, slot);
                    was_full = self.close_hole(at);
                    hole_bucket = bucket;
                }
                None if !full => break,
                None => {}
            }
        }
        if self.len == 0 {
            self.resize(0);
        } else if self.bucket_count > 2 && self.len() * 3 <= self.slots() {
            self.resize(self.size_for(self.len() * 4 / 3));
        }
        entry
    }

    /// Moves the bucket's last slot into the hole at `at`; whether the bucket was full.
    fn close_hole(&mut self, at: usize) -> bool {
        let from = at - at % BUCKET_SLOTS;
        let last = (from..from + BUCKET_SLOTS).rev().find(|&i| self.slot(i) != 0).unwrap_or(at);
        let moved = self.slot(last);
        self.set_slot(at, moved);
        self.set_slot(last, 0);
        last == from + BUCKET_SLOTS - 1
    }

    fn size_for(&self, len: usize) -> u16 {
        let mut size = 0;
        while len * 8 >= usize::from(size) * BUCKET_SLOTS * 7 && size < u16::MAX {
            size = next_size(size);
        }
        size
    }

    /// Grows by one step; the segment is not the largest possible.
    pub(crate) fn grow(&mut self) {
        self.resize(next_size(self.bucket_count));
    }

    /// An empty segment with room for this many entries.
    pub(crate) fn with_room(depth: u8, len: usize) -> Segment {
        let mut segment = Segment::empty(depth);
        segment.resize(segment.size_for(len));
        segment
    }

    /// Moves all slots to fresh buckets.
    fn resize(&mut self, bucket_count: u16) {
        let mut old = *self;
        self.buckets = if bucket_count == 0 {
            std::ptr::null_mut()
        } else {
            let layout = Segment::layout(bucket_count);
            // SAFETY: the layout is not empty.
            match NonNull::new(unsafe { alloc_zeroed(layout) }) {
                Some(block) => block.as_ptr().cast(),
                None => handle_alloc_error(layout),
            }
        };
        self.bucket_count = bucket_count;
        for at in 0..old.slots() {
            let slot = old.slot(at);
            if slot != 0 {
                self.place(slot);
            }
        }
        old.free_buckets();
    }

    /// Has the beginnings of all entries fetched, before each is looked at.
    pub(crate) fn prefetch_entries(&self) {
        self.entry_lines().for_each(prefetch);
    }

    /// Splits into two of one more bit of depth: `goes_right` decides for each entry.
    pub(crate) fn split(mut self, goes_right: impl Fn(RawEntry) -> bool) -> (Segment, Segment) {
        let mut halves: [Vec<u64>; 2] = [Vec::with_capacity(self.len()), Vec::with_capacity(self.len())];
        self.prefetch_entries();
        for at in 0..self.slots() {
            let slot = self.slot(at);
            if slot != 0 {
                // SAFETY: as in `find`.
                let entry = unsafe { RawEntry::from_bits(slot & ADDRESS) };
                halves[usize::from(goes_right(entry))].push(slot);
            }
        }
        self.free_buckets();
        let [left, right] = halves.map(|slots| {
            let mut half = Segment::empty(self.depth + 1);
            half.resize(half.size_for(slots.len() + 1));
            for slot in &slots {
                half.place(*slot);
            }
            half.len = slots.len() as u32;
            half
        });
        (left, right)
    }

    /// The lines of all entries, which are about to be visited in turn.
    pub(crate) fn entry_lines(&self) -> impl Iterator<Item = *const u8> {
        (0..self.slots()).map(|at| self.slot(at)).filter(|&slot| slot != 0).flat_map(lines)
    }

    /// Queues all buckets.
    pub(crate) fn queue_buckets(&self, queue: &mut PrefetchQueue) {
        for bucket in 0..self.slots() / BUCKET_SLOTS {
            queue.add(self.buckets.cast::<u8>().wrapping_add(bucket * BUCKET_BYTES).cast_const());
        }
    }

    /// One segment of this one and the one beside it.
    pub(crate) fn join(mut self, mut other: Segment) -> Segment {
        let mut joined = Segment::empty(self.depth - 1);
        let len = self.len() + other.len();
        if len > 0 {
            joined.resize(joined.size_for(len + 1));
        }
        for half in [&mut self, &mut other] {
            (0..half.slots())
                .map(|at| half.slot(at))
                .filter(|&slot| slot != 0)
                .for_each(|slot| joined.place(slot));
            half.free_buckets();
        }
        joined.len = len as u32;
        joined
    }

    /// The entries with their tags, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, RawEntry)> + '_ {
        (0..self.slots()).map(|at| self.slot(at)).filter(|&slot| slot != 0).map(|slot| {
            // SAFETY: as in `find`.
            ((slot >> 48) as u16, unsafe { RawEntry::from_bits(slot & ADDRESS) })
        })
    }

    /// The entry in slot `at`, if any; for random choice.
    pub(crate) fn nth_slot(&self, at: usize) -> Option<RawEntry> {
        let slot = self.slot(at);
        // SAFETY: as in `find`.
        (slot != 0).then(|| unsafe { RawEntry::from_bits(slot & ADDRESS) })
    }

    /// Frees the buckets, not the entries.
    pub(crate) fn free_buckets(&mut self) {
        if self.bucket_count != 0 {
            // SAFETY: allocated in `resize` with this layout; not used after.
            unsafe { dealloc(self.buckets.cast(), Segment::layout(self.bucket_count)) };
            self.bucket_count = 0;
            self.buckets = std::ptr::null_mut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn tags_are_found_as_slot_by_slot() {
        let mut random = martlet_base::random::Random::seeded(3);
        for _ in 0..20_000 {
            let tags = [0u64, 1, 0x7fff, 0x8000, 0xffff];
            let slots = std::array::from_fn(|_| {
                tags[random.below(5) as usize] << 48
                    | random.next_u64() >> 16 & [0, u64::MAX][random.below(2) as usize]
            });
            let bucket = Bucket(slots);
            for tag in tags {
                let tag = tag as u16;
                assert_eq!(
                    slots_with_tag(&bucket, tag),
                    slots_with_tag_by_slot(&bucket, tag),
                    "{slots:x?} {tag:x}"
                );
            }
        }
    }
}
