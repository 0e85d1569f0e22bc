//! A leaf: the entries whose hashes begin with one prefix, in one block.
//!
//! ```text
//! | group × 1, 2 or 4: 64 bytes each | header: 16 bytes | arena: entries, holes, room |
//! ```
//!
//! A member's hash chooses a group, whose full neighbours follow it in a ring; see [`super::group`]. New
//! entries go to the arena's end. Invariant: `count` slots are in use, each points to one whole
//! entry, `dead` bytes of the arena before `used` belong to none, the block is of its size class, and slots
//! and entries change only while the leaf has one reference.
//!
//! [`Leaf`] is a bare handle that the tree's slots own; copying it copies no reference. The tree in this
//! module's parent keeps the rule that makes the safe methods here safe: a handle is used only while its
//! block is alive, and the methods that change a leaf only on a leaf of one reference ([`Leaf::is_unique`]).

use super::entry::{self, Entry, NewEntry, TIMED_BYTES};
use super::group::{GROUP_BYTES, GROUP_SLOTS, Group, tag_of};
use super::{Kind, NO_EXPIRY};
use crate::size_class::{class_bytes, class_of};
use martlet_base::prefetch::{CACHE_LINE_BYTES, PrefetchQueue, prefetch};
use martlet_base::sync::RefCount;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// A leaf above this many bytes is split rather than grown.
pub(super) const LEAF_MAX_BYTES: usize = 16 * 1024;
/// A leaf has at most four groups.
pub(super) const MAX_LOG_GROUPS: u32 = 2;
/// Blocks are aligned so that four low bits of their address are free.
pub(super) const BLOCK_ALIGN: usize = 16;
const HEADER_BYTES: usize = size_of::<Header>();

#[repr(C)]
struct Header {
    references: RefCount,
    class: u8,
    log_groups: u8,
    count: u8,
    /// Entries with an expiry time.
    timed: u8,
    /// End of the last entry, counted from the block's start.
    used: u16,
    dead: u16,
    /// Texts that live outside.
    blobs: u8,
}

const _: () = assert!(HEADER_BYTES == 16);

/// Most entries of a leaf with `1 << log_groups` groups: all slots of one, nine tenths of several.
#[inline(always)]
const fn entries_max(log_groups: u32) -> usize {
    if log_groups == 0 { GROUP_SLOTS } else { (GROUP_SLOTS - 2) << log_groups }
}

const fn arena_start(log_groups: u32) -> usize {
    (GROUP_BYTES << log_groups) + HEADER_BYTES
}

/// Groups for `count` entries that are likely to become more.
const fn log_groups_for(count: usize) -> u32 {
    match count {
        0..=15 => 0,
        16..=27 => 1,
        _ => 2,
    }
}

/// Handle of a leaf; see the module's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    base: NonNull<u8>,
    log_groups: u32,
}

/// The slot of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    group: usize,
    slot: usize,
}

/// A leaf's lack for one more entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Nothing,
    Slots,
    Bytes,
}

/// An entry on its way from one leaf to another.
#[derive(Clone, Copy)]
struct Move {
    hash: u64,
    offset: usize,
    size: usize,
    blobs: u8,
    timed: bool,
}

impl Move {
    const NONE: Move = Move { hash: 0, offset: 0, size: 0, blobs: 0, timed: false };

    /// The hash's bit, counted from the highest.
    #[inline(always)]
    fn side(&self, bit: u32) -> usize {
        (self.hash >> (63 - bit)) as usize & 1
    }
}

fn layout(class: u8) -> Layout {
    Layout::from_size_align(class_bytes(class), BLOCK_ALIGN).unwrap_or_else(|_| panic!("leaf class {class}"))
}

impl Leaf {
    /// A leaf without entries, of one reference, with room for `arena_bytes`.
    pub fn allocate(log_groups: u32, arena_bytes: usize) -> Leaf {
        let class = class_of(arena_start(log_groups) + arena_bytes);
        assert!(class_bytes(class) <= usize::from(u16::MAX), "leaf of {arena_bytes} bytes");
        // SAFETY: the size is not zero.
        let block = unsafe { alloc(layout(class)) };
        let Some(base) = NonNull::new(block) else { handle_alloc_error(layout(class)) };
        let leaf = Leaf { base, log_groups };
        let header = Header {
            references: RefCount::one(),
            class,
            log_groups: log_groups as u8,
            count: 0,
            timed: 0,
            used: arena_start(log_groups) as u16,
            dead: 0,
            blobs: 0,
        };
        // SAFETY: groups and header are inside the block, which nothing else refers to.
        unsafe {
            base.write_bytes(0, GROUP_BYTES << log_groups);
            leaf.header().write(header);
        }
        leaf
    }

    /// The leaf at `base`.
    ///
    /// # Safety
    /// `base` and `log_groups` are those of a live leaf.
    #[inline(always)]
    pub unsafe fn from_raw(base: NonNull<u8>, log_groups: u32) -> Leaf {
        Leaf { base, log_groups }
    }

    /// The block's address and the number of groups, as a slot holds them.
    #[inline(always)]
    pub fn to_raw(self) -> (NonNull<u8>, u32) {
        (self.base, self.log_groups)
    }

    #[inline(always)]
    fn header(self) -> *mut Header {
        // SAFETY: the header follows the groups.
        unsafe { self.base.as_ptr().add(GROUP_BYTES << self.log_groups).cast() }
    }

    #[inline(always)]
    fn group(&self, index: usize) -> &Group {
        debug_assert!(index < 1 << self.log_groups);
        // SAFETY: `index` is below the number of groups, and a live leaf's groups are initialised.
        unsafe { &*self.base.as_ptr().cast::<Group>().add(index) }
    }

    #[inline(always)]
    fn group_mut(&mut self, index: usize) -> &mut Group {
        debug_assert!(index < 1 << self.log_groups && self.is_unique());
        // SAFETY: as `group`; only this handle is in use, on the only reference.
        unsafe { &mut *self.base.as_ptr().cast::<Group>().add(index) }
    }

    #[inline(always)]
    fn address(self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.allocated_bytes());
        // SAFETY: offsets lie inside the block.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Number of entries.
    #[inline(always)]
    pub fn count(self) -> usize {
        // SAFETY: a live leaf's header is initialised.
        usize::from(unsafe { (*self.header()).count })
    }

    /// Number of entries with an expiry time.
    #[inline(always)]
    pub fn timed(self) -> usize {
        // SAFETY: as `count`.
        usize::from(unsafe { (*self.header()).timed })
    }

    #[inline(always)]
    fn blobs(self) -> usize {
        // SAFETY: as `count`.
        usize::from(unsafe { (*self.header()).blobs })
    }

    #[inline(always)]
    fn used(self) -> usize {
        // SAFETY: as `count`.
        usize::from(unsafe { (*self.header()).used })
    }

    #[inline(always)]
    fn dead(self) -> usize {
        // SAFETY: as `count`.
        usize::from(unsafe { (*self.header()).dead })
    }

    /// Bytes of the block.
    #[inline(always)]
    pub fn allocated_bytes(self) -> usize {
        // SAFETY: as `count`.
        class_bytes(unsafe { (*self.header()).class })
    }

    /// Bytes of the entries.
    #[inline]
    pub fn live_bytes(self) -> usize {
        self.used() - self.dead() - arena_start(self.log_groups)
    }

    /// Whether the caller's is the only reference.
    #[inline(always)]
    pub fn is_unique(self) -> bool {
        // SAFETY: as `count`.
        unsafe { (*self.header()).references.is_one() }
    }

    /// Takes one more reference.
    pub fn retain(self) {
        // SAFETY: as `count`.
        unsafe { (*self.header()).references.retain() }
    }

    /// Gives up a reference; frees the leaf and its entries with the last one.
    pub fn release<K: Kind>(self) {
        // SAFETY: as `count`; the last reference is ours alone.
        unsafe {
            if (*self.header()).references.release() {
                if self.blobs() > 0 {
                    self.each_offset(|offset| entry::release_blobs::<K>(self.address(offset)));
                }
                self.deallocate();
            }
        }
    }

    /// Frees the block of a leaf whose entries have moved elsewhere.
    fn deallocate(self) {
        // SAFETY: the block has this class, and no slot refers to it any more.
        unsafe { dealloc(self.base.as_ptr(), layout((*self.header()).class)) }
    }

    /// Queues the cache line that a search of `hash` reads first, and the header if an addition may follow.
    #[inline(always)]
    pub fn queue_group(self, hash: u64, is_write: bool, queue: &mut PrefetchQueue) {
        queue.add(self.base.as_ptr().wrapping_add(self.home(hash) * GROUP_BYTES));
        if is_write {
            queue.add(self.header().cast());
        }
    }

    /// Queues the entries that may be the one with `hash`, and if an addition may follow the arena's end.
    #[inline]
    pub fn queue_entry<K: Kind>(
        self,
        hash: u64,
        field_len: usize,
        is_write: bool,
        queue: &mut PrefetchQueue,
    ) {
        // With a value of some length, since it is not known yet.
        let len = 1 + field_len + if K::HAS_VALUES { CACHE_LINE_BYTES } else { 0 };
        let group = self.group(self.home(hash));
        let mut candidates = group.matching(tag_of(hash));
        while candidates != 0 {
            queue.add_lines(self.address(group.offset(candidates.trailing_zeros() as usize)), len);
            candidates &= candidates - 1;
        }
        if is_write {
            queue.add_lines(self.address(self.used()), len);
        }
    }

    /// Asks for the line of a reference count about to change.
    pub fn prefetch_header(self) {
        prefetch(self.header().cast());
    }

    #[inline(always)]
    fn home(self, hash: u64) -> usize {
        (hash >> 8) as usize & self.ring()
    }

    #[inline(always)]
    fn ring(self) -> usize {
        (1 << self.log_groups) - 1
    }

    /// Where the entry of `field` is.
    #[inline(always)]
    pub fn find(self, hash: u64, field: &[u8]) -> Option<Place> {
        let tag = tag_of(hash);
        let mut index = self.home(hash);
        for _ in 0..=self.ring() {
            let group = self.group(index);
            let mut candidates = group.matching(tag);
            while candidates != 0 {
                let slot = candidates.trailing_zeros() as usize;
                // SAFETY: a slot in use points to an entry.
                if unsafe { entry::field_is(self.address(group.offset(slot)), field) } {
                    return Some(Place { group: index, slot });
                }
                candidates &= candidates - 1;
            }
            if group.overflow == 0 {
                return None;
            }
            index = (index + 1) & self.ring();
        }
        None
    }

    #[inline(always)]
    fn address_of(self, place: Place) -> *mut u8 {
        self.address(self.group(place.group).offset(place.slot))
    }

    /// The entry at a place. The caller bounds the lifetime by that of the leaf.
    #[inline(always)]
    pub fn entry<'a, K: Kind>(self, place: Place) -> Entry<'a> {
        // SAFETY: a slot in use points to an entry.
        unsafe { entry::read::<K>(self.address_of(place)).0 }
    }

    /// The place of the `nth` entry in slot order.
    pub fn nth_place(self, mut nth: usize) -> Option<Place> {
        for group in 0..=self.ring() {
            let mut live = self.group(group).live();
            let count = live.count_ones() as usize;
            if nth < count {
                for _ in 0..nth {
                    live &= live - 1;
                }
                return Some(Place { group, slot: live.trailing_zeros() as usize });
            }
            nth -= count;
        }
        None
    }

    /// The first place in use at or after the slot numbered `from` (group × 32 + slot), and the number after
    /// it.
    #[inline]
    pub fn next_place(self, from: usize) -> Option<(Place, usize)> {
        let mut group = from / 32;
        let mut skip = from % 32;
        while group <= self.ring() {
            let live = self.group(group).live() >> skip;
            if live != 0 {
                let slot = skip + live.trailing_zeros() as usize;
                return Some((Place { group, slot }, group * 32 + slot + 1));
            }
            group += 1;
            skip = 0;
        }
        None
    }

    fn each_offset(self, mut f: impl FnMut(usize)) {
        let mut from = 0;
        while let Some((place, next)) = self.next_place(from) {
            f(self.group(place.group).offset(place.slot));
            from = next;
        }
    }

    /// The earliest expiry time of an entry.
    pub fn earliest_expiry<K: Kind>(self) -> i64 {
        let mut earliest = NO_EXPIRY;
        if self.timed() > 0 {
            self.each_offset(|at| {
                // SAFETY: a slot in use points to an entry.
                earliest = earliest.min(unsafe { entry::read::<K>(self.address(at)).0.expire_at_ms })
            });
        }
        earliest
    }

    /// The obstacle to an entry of `bytes` more, in a fresh slot if `new_slot`.
    #[inline(always)]
    pub fn lack(self, new_slot: bool, bytes: usize) -> Lack {
        if new_slot && self.count() >= entries_max(self.log_groups) {
            Lack::Slots
        } else if self.used() + bytes > self.allocated_bytes() {
            Lack::Bytes
        } else {
            Lack::Nothing
        }
    }

    /// Adds an entry of `size` encoded bytes whose field is not here yet. Nothing must lack.
    #[inline]
    pub fn push<K: Kind>(&mut self, hash: u64, new: &NewEntry<'_>, size: usize) {
        debug_assert!(self.lack(true, size) == Lack::Nothing);
        let offset = self.used();
        // SAFETY: nothing lacks, so `size` bytes from `used` are free.
        unsafe { new.write::<K>(self.address(offset)) };
        self.adopt(hash, offset, size, new.blobs(), new.expire_at_ms != NO_EXPIRY);
    }

    /// Points a slot to the entry that has just been written at `offset`, the arena's end.
    #[inline(always)]
    fn adopt(&mut self, hash: u64, offset: usize, size: usize, blobs: u8, timed: bool) {
        let mut index = self.home(hash);
        let ring = self.ring();
        let slot = loop {
            let group = self.group_mut(index);
            if let Some(slot) = group.vacancy() {
                break slot;
            }
            group.overflow += 1;
            index = (index + 1) & ring;
        };
        self.group_mut(index).set(slot, tag_of(hash), offset);
        // SAFETY: the header is initialised, and the reference ours alone.
        unsafe {
            let header = self.header();
            (*header).count += 1;
            (*header).used += size as u16;
            (*header).blobs += blobs;
            (*header).timed += u8::from(timed);
        }
    }

    /// Takes the entry at a place away, with its blobs.
    pub fn erase<K: Kind>(&mut self, hash: u64, place: Place) {
        self.erase_bytes::<K>(place);
        let ring = self.ring();
        let mut index = self.home(hash);
        while index != place.group {
            self.group_mut(index).overflow -= 1;
            index = (index + 1) & ring;
        }
        self.group_mut(place.group).clear(place.slot);
        // SAFETY: as in `adopt`.
        unsafe { (*self.header()).count -= 1 }
    }

    /// Gives up the bytes and blobs of the entry at a place, whose slot is then cleared or pointed elsewhere.
    fn erase_bytes<K: Kind>(&mut self, place: Place) {
        let at = self.address_of(place);
        let end = self.used();
        let offset = self.group(place.group).offset(place.slot);
        // SAFETY: a slot in use points to an entry, which is not read after its blobs are released.
        unsafe {
            let (old, size) = entry::read::<K>(at);
            let header = self.header();
            (*header).timed -= u8::from(old.expire_at_ms != NO_EXPIRY);
            let blobs = old.as_new().blobs();
            if blobs > 0 {
                (*header).blobs -= blobs;
                entry::release_blobs::<K>(at);
            }
            if offset + size == end {
                (*header).used -= size as u16;
            } else {
                (*header).dead += size as u16;
            }
        }
    }

    /// Writes `new` over the entry at a place, which has the same field. Returns whether there was room.
    pub fn replace<K: Kind>(&mut self, place: Place, new: &NewEntry<'_>, size: usize) -> bool {
        let at = self.address_of(place);
        // SAFETY: a slot in use points to an entry.
        let (old, old_size) = unsafe { entry::read::<K>(at) };
        let timed = new.expire_at_ms != NO_EXPIRY;
        let plain = old.as_new().blobs() == 0 && new.blobs() == 0 && timed == (old.expire_at_ms != NO_EXPIRY);
        if plain && size <= old_size {
            // SAFETY: `size` bytes fit the old entry's; nothing else refers to them.
            unsafe {
                new.write::<K>(at);
                (*self.header()).dead += (old_size - size) as u16;
            }
            return true;
        }
        if self.lack(false, size) != Lack::Nothing {
            return false;
        }
        // The old entry goes first: if it is the last, its room is used again. The new texts are not borrowed
        // from it, since the caller borrows the table mutably.
        self.erase_bytes::<K>(place);
        let offset = self.used();
        // SAFETY: `size` bytes from `used` are free.
        unsafe {
            new.write::<K>(self.address(offset));
            let header = self.header();
            (*header).used += size as u16;
            (*header).blobs += new.blobs();
            (*header).timed += u8::from(timed);
        }
        self.group_mut(place.group).set_offset(place.slot, offset);
        true
    }

    /// Changes the expiry time of the entry at a place, without touching its texts. Returns whether there was
    /// room.
    pub fn set_expiry<K: Kind>(&mut self, place: Place, expire_at_ms: i64) -> bool {
        let at = self.address_of(place);
        let offset = self.group(place.group).offset(place.slot);
        // SAFETY: a slot in use points to an entry; the write lies inside it, or in free bytes at the end.
        unsafe {
            let header = self.header();
            match (entry::is_timed(at), expire_at_ms != NO_EXPIRY) {
                (false, false) => {}
                (true, true) => entry::write_expiry(at, expire_at_ms),
                (true, false) => {
                    self.group_mut(place.group).set_offset(place.slot, offset + TIMED_BYTES);
                    (*header).dead += TIMED_BYTES as u16;
                    (*header).timed -= 1;
                }
                (false, true) => {
                    let size = entry::read::<K>(at).1;
                    if self.lack(false, size + TIMED_BYTES) != Lack::Nothing {
                        return false;
                    }
                    let end = self.used();
                    entry::write_expiry(self.address(end), expire_at_ms);
                    at.copy_to_nonoverlapping(self.address(end + TIMED_BYTES), size);
                    self.group_mut(place.group).set_offset(place.slot, end);
                    (*header).used += (size + TIMED_BYTES) as u16;
                    (*header).dead += size as u16;
                    (*header).timed += 1;
                }
            }
        }
        true
    }

    /// A leaf of one reference with the same entries and room for `room` bytes more; gives up the reference
    /// to `self`.
    pub fn resized<K: Kind>(self, room: usize) -> Leaf {
        let mut copy = Leaf::allocate(self.log_groups, self.live_bytes() + room);
        // SAFETY: groups of equally many, in distinct blocks; each live entry's bytes fit the copy's arena.
        unsafe {
            self.base.copy_to_nonoverlapping(copy.base, GROUP_BYTES << self.log_groups);
            let (from, to) = (self.header(), copy.header());
            (*to).count = (*from).count;
            (*to).timed = (*from).timed;
            (*to).blobs = (*from).blobs;
            let start = arena_start(self.log_groups);
            if self.dead() == 0 {
                self.address(start).copy_to_nonoverlapping(copy.address(start), self.used() - start);
                (*to).used = (*from).used;
            } else {
                copy.compact_from::<K>(self);
            }
        }
        self.moved::<K>();
        copy
    }

    /// Copies the live entries of `from`, whose groups `self` has copied, without the holes.
    fn compact_from<K: Kind>(&mut self, from: Leaf) {
        let mut end = self.used();
        let mut number = 0;
        while let Some((place, next)) = from.next_place(number) {
            let source = from.address_of(place);
            // SAFETY: a whole entry of the other block; all live ones fit here.
            unsafe {
                let size = entry::read::<K>(source).1;
                source.copy_to_nonoverlapping(self.address(end), size);
                self.group_mut(place.group).set_offset(place.slot, end);
                end += size;
            }
            number = next;
        }
        // SAFETY: as in `adopt`.
        unsafe { (*self.header()).used = end as u16 }
    }

    /// Gives up the reference to a leaf whose entries have been copied byte by byte to another: the blobs'
    /// references go with them, or are doubled where others still hold the leaf.
    fn moved<K: Kind>(self) {
        if self.is_unique() {
            return self.deallocate();
        }
        if self.blobs() > 0 {
            // SAFETY: slots in use point to entries.
            self.each_offset(|offset| unsafe { entry::retain_blobs::<K>(self.address(offset)) });
        }
        self.release::<K>();
    }

    /// A leaf of one reference with the same entries, more groups, and room for `room` bytes more.
    pub fn regrouped<K: Kind>(self, room: usize) -> Leaf {
        let mut copy = Leaf::allocate((self.log_groups + 1).min(MAX_LOG_GROUPS), self.live_bytes() + room);
        copy.take_entries::<K>(self);
        self.moved::<K>();
        copy
    }

    /// Whether there can be more groups.
    pub fn can_regroup(self) -> bool {
        self.log_groups < MAX_LOG_GROUPS
    }

    /// Two leaves, of the entries whose hash has bit `bit` (counted from the highest) clear and set.
    pub fn split<K: Kind>(self, bit: u32) -> (Leaf, Leaf) {
        // Hashing is most of a split: each entry is read once.
        let mut moves = [Move::NONE; entries_max(MAX_LOG_GROUPS)];
        let (mut count, mut counts, mut bytes) = (0, [0; 2], [0; 2]);
        self.each_offset(|offset| {
            let entry = self.entry_to_move::<K>(offset);
            let side = entry.side(bit);
            bytes[side] += entry.size;
            counts[side] += 1;
            moves[count] = entry;
            count += 1;
        });
        let mut halves = [0, 1].map(|side| Leaf::allocate(log_groups_for(counts[side]), bytes[side]));
        for entry in &moves[..count] {
            halves[entry.side(bit)].take_entry(self, entry);
        }
        self.moved::<K>();
        halves.into()
    }

    /// One leaf of the entries of two.
    pub fn merged<K: Kind>(self, other: Leaf) -> Leaf {
        let groups = log_groups_for(self.count() + other.count());
        let mut both = Leaf::allocate(groups, self.live_bytes() + other.live_bytes());
        both.take_entries::<K>(self);
        both.take_entries::<K>(other);
        self.moved::<K>();
        other.moved::<K>();
        both
    }

    /// Copies the entries of `from` byte by byte. Room and slots must suffice.
    fn take_entries<K: Kind>(&mut self, from: Leaf) {
        from.each_offset(|offset| self.take_entry(from, &from.entry_to_move::<K>(offset)));
    }

    #[inline(always)]
    fn entry_to_move<K: Kind>(self, offset: usize) -> Move {
        // SAFETY: a slot in use points to an entry.
        let (entry, size) = unsafe { entry::read::<K>(self.address(offset)) };
        let timed = entry.expire_at_ms != NO_EXPIRY;
        Move { hash: K::hash(entry.field), offset, size, blobs: entry.as_new().blobs(), timed }
    }

    #[inline(always)]
    fn take_entry(&mut self, from: Leaf, entry: &Move) {
        let end = self.used();
        assert!(self.lack(true, entry.size) == Lack::Nothing, "leaf without room");
        // SAFETY: `size` bytes from `used` are free, and the blocks are distinct.
        unsafe { from.address(entry.offset).copy_to_nonoverlapping(self.address(end), entry.size) };
        self.adopt(entry.hash, end, entry.size, entry.blobs, entry.timed);
    }

    /// Panics where the module's invariants do not hold.
    #[cfg(test)]
    pub fn validate<K: Kind>(self, prefix: u64, depth: u32) {
        let (mut count, mut timed, mut blobs, mut bytes) = (0, 0, 0, 0);
        self.each_offset(|offset| {
            // SAFETY: the entry under test.
            let (entry, size) = unsafe { entry::read::<K>(self.address(offset)) };
            count += 1;
            timed += usize::from(entry.expire_at_ms != NO_EXPIRY);
            blobs += usize::from(entry.as_new().blobs());
            bytes += size;
            let hash = K::hash(entry.field);
            assert!(depth == 0 || (hash ^ prefix) >> (64 - depth) == 0, "entry in the wrong leaf");
            assert!(self.find(hash, entry.field).is_some(), "entry not found");
        });
        assert_eq!((count, timed, blobs), (self.count(), self.timed(), self.blobs()));
        assert_eq!(bytes, self.live_bytes());
        assert!(self.used() <= self.allocated_bytes());
    }
}
