//! The table of one database within one shard: extendible hashing over [`Segment`]s.
//!
//! Of a key's 64-bit hash, the top 16 bits are its tag, the bits below them choose the segment (most significant bit
//! first), and the lowest bits chose the shard already. A segment grows in steps to 128 slots and then splits in two,
//! so no insert pays for more than 128 entries. (Keys whose hashes
//! agree in more bits than chance would have it, which somebody may have sought out, do not drive the directory: see
//! [`Table::may_split`].) When a segment's depth is less than the directory's, only the first
//! of its directory places holds it; the others hold just its depth.

use crate::entry::RawEntry;
use crate::segment::{Place, Segment};

/// The lowest bit of the tag.
const TAG_SHIFT: u32 = 48;
/// Bits of a directory position in a scan cursor; more segments than this a shard cannot have. With them a cursor stays
/// below 2^53: some clients keep cursors in doubles.
pub(crate) const DIRECTORY_BITS: u32 = 26;

/// Places that a directory may have whatever the number of entries.
const SMALL_DIRECTORY: usize = 64;
/// Slots of the largest segment but those of colliding keys.
const USUAL_SLOTS: usize = 128;

pub(crate) struct Table {
    directory: Vec<Segment>,
    depth: u8,
    len: usize,
}

/// Where a key is in its table. Valid until the table is changed.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Spot {
    segment: u32,
    place: Place,
}

/// Every [`order`] is below.
pub const ORDERS: u64 = 1 << DIRECTORY_BITS;

/// By what segments are ordered: a hash's directory bits. Segments cover ranges of it that do not overlap, however the table grows.
#[inline]
pub(crate) fn order(hash: u64) -> u64 {
    (hash << 16) >> (64 - DIRECTORY_BITS)
}

#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> TAG_SHIFT) as u16
}

impl Table {
    pub(crate) fn new() -> Table {
        Table { directory: vec![Segment::empty(0)], depth: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The directory place that holds the segment of a hash.
    #[inline]
    fn index(&self, hash: u64) -> usize {
        // The directory's bits are those just below the tag; shifting by 64 is avoided for depth 0.
        let at = ((hash << 16) >> 1 >> (63 - self.depth)) as usize;
        self.first_place(at)
    }

    #[inline]
    fn first_place(&self, at: usize) -> usize {
        let spare = self.depth - self.directory[at].depth;
        at >> spare << spare
    }

    /// Asks for the directory place of a hash, without looking at it.
    #[inline]
    pub(crate) fn prefetch_place(&self, hash: u64) {
        let at = ((hash << 16) >> 1 >> (63 - self.depth)) as usize;
        martlet_base::prefetch::prefetch(self.directory.as_ptr().wrapping_add(at).cast());
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.directory[self.index(hash)].prefetch(tag(hash));
    }

    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        self.directory[self.index(hash)].prefetch_entry(tag(hash));
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(RawEntry) -> bool) -> Option<Spot> {
        let index = self.index(hash);
        let place = self.directory[index].find(tag(hash), is)?;
        Some(Spot { segment: index as u32, place })
    }

    #[inline]
    pub(crate) fn entry(&self, spot: Spot) -> RawEntry {
        self.directory[spot.segment as usize].entry(spot.place)
    }

    #[inline]
    pub(crate) fn replace(&mut self, spot: Spot, entry: RawEntry) {
        self.directory[spot.segment as usize].replace(spot.place, entry);
    }

    /// Adds an entry whose key is not in the table. `hash_of` gives any entry's hash (a split needs it).
    pub(crate) fn insert(&mut self, hash: u64, entry: RawEntry, hash_of: &impl Fn(&[u8]) -> u64) {
        let mut index = self.index(hash);
        while self.directory[index].is_crowded() {
            if self.directory[index].is_large() && self.may_split(index) {
                self.split(index, hash_of);
                index = self.index(hash);
            } else {
                self.directory[index].grow();
            }
        }
        self.directory[index].insert(tag(hash), entry);
        self.len += 1;
    }

    /// Whether a full segment is split rather than grown beyond its usual size: always while the directory stays as it is;
    /// and when it doubles, if that is in proportion to the entries. Hashes drawn at random never come near the bound, so only
    /// keys chosen to collide make a long segment, and pay for it with their own lookups.
    fn may_split(&self, index: usize) -> bool {
        let segment = &self.directory[index];
        let in_proportion = self.directory.len() * 2 <= SMALL_DIRECTORY + self.len / 4;
        segment.depth < self.depth
            || (u32::from(self.depth) < DIRECTORY_BITS && (in_proportion || segment.is_largest()))
    }

    fn split(&mut self, index: usize, hash_of: &impl Fn(&[u8]) -> u64) {
        let mut index = index;
        let depth = self.directory[index].depth;
        if depth == self.depth {
            self.directory =
                self.directory.iter().flat_map(|&segment| [segment, Segment::empty(segment.depth)]).collect();
            self.depth += 1;
            index *= 2;
        }
        let bit = TAG_SHIFT - 1 - u32::from(depth);
        let (left, right) = self.directory[index].split(|entry| hash_of(entry.key()) >> bit & 1 == 1);
        let half = 1usize << (self.depth - depth - 1);
        for at in index..index + 2 * half {
            self.directory[at] = Segment::empty(depth + 1);
        }
        self.directory[index] = left;
        self.directory[index + half] = right;
    }

    /// Takes an entry out; it is the caller's now.
    pub(crate) fn remove(&mut self, spot: Spot) -> RawEntry {
        let entry = self.directory[spot.segment as usize].remove(spot.place);
        self.len -= 1;
        if self.len == 0 {
            *self = Table::new();
        }
        entry
    }

    /// Calls `visit` for at least `want` entries at or after `position` in traversal order, if there are as many;
    /// `None` when the end was reached, else where to go on. A position is `directory bits << 16 | tag`. An entry that
    /// is in the table throughout a traversal from 0 is visited: positions order keys by hash bits that growth,
    /// shrinking and splits of segments do not change.
    pub(crate) fn scan(&self, position: u64, want: usize, visit: &mut impl FnMut(RawEntry)) -> Option<u64> {
        let mut position = position;
        let mut visited = 0;
        loop {
            let at = (position >> 16 >> (DIRECTORY_BITS - u32::from(self.depth))) as usize;
            if at >= self.directory.len() {
                return None;
            }
            let index = self.first_place(at);
            let segment = &self.directory[index];
            let next_segment = (index + (1usize << (self.depth - segment.depth))) as u64;
            let next = next_segment << (DIRECTORY_BITS - u32::from(self.depth)) << 16;
            let from = (position & 0xffff) as u16;
            let mut found: Vec<(u16, RawEntry)> = segment.iter().filter(|(tag, _)| *tag >= from).collect();
            if visited + found.len() > want {
                found.sort_unstable_by_key(|(tag, _)| *tag);
            }
            for (i, (tag, entry)) in found.iter().enumerate() {
                if visited >= want && i > 0 && *tag != found[i - 1].0 {
                    return Some((position & !0xffff) | u64::from(*tag));
                }
                visit(*entry);
                visited += 1;
            }
            position = next;
            if visited >= want {
                return (next_segment < self.directory.len() as u64).then_some(next);
            }
        }
    }

    /// Calls `visit` for the entries of one segment whose order ([`order`]) is `from` or above: that of the segment which `from` falls
    /// into. Returns the order up to which that was all; [`ORDERS`] at the end.
    pub(crate) fn walk_segment(
        &self,
        from: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
        visit: &mut impl FnMut(RawEntry),
    ) -> u64 {
        let place_bits = DIRECTORY_BITS - u32::from(self.depth);
        let index = self.first_place((from >> place_bits) as usize);
        let segment = &self.directory[index];
        // Segments may have been joined since the walk came by, as when the table was emptied.
        let is_whole = (index as u64) << place_bits >= from;
        segment.prefetch_entries();
        for (_, entry) in segment.iter() {
            if is_whole || order(hash_of(entry.key())) >= from {
                visit(entry);
            }
        }
        (index as u64 + (1 << (self.depth - segment.depth))) << place_bits
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawEntry> + '_ {
        self.directory.iter().flat_map(|segment| segment.iter().map(|(_, entry)| entry))
    }

    /// An entry chosen with `pick(bound)` in `0..bound`; `None` if the table is empty.
    pub(crate) fn random(&self, mut pick: impl FnMut(usize) -> usize) -> Option<RawEntry> {
        if self.len == 0 {
            return None;
        }
        loop {
            // The first of a segment's places stands for it, the others look empty: so each segment has the same chance,
            // and each slot of the usual largest size has it too.
            let segment = &self.directory[pick(self.directory.len())];
            if segment.len() == 0 {
                continue;
            }
            let slot = pick(segment.slots().max(USUAL_SLOTS));
            if slot < segment.slots()
                && let Some(entry) = segment.nth_slot(slot)
            {
                return Some(entry);
            }
        }
    }

    /// Bytes of directory and segments.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.directory.capacity() * size_of::<Segment>()
            + self.directory.iter().map(Segment::heap_bytes).sum::<usize>()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for segment in &mut self.directory {
            for (_, entry) in segment.iter() {
                entry.drop_entry();
            }
            segment.free_buckets();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::entry::{NewStr, RawEntry};
    use std::collections::HashSet;

    /// The hash of a key that is a number, for keys chosen to collide: all bits but the tag and one are alike.
    fn colliding(key: &[u8]) -> u64 {
        let number = key.iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
        number << 48 | 0x5555_5555_5400 | (number & 1)
    }

    #[test]
    fn keys_that_collide_do_not_grow_the_directory_and_are_all_found() {
        let mut table = Table::new();
        let keys: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
        for key in &keys {
            let entry = RawEntry::new_str(key.as_bytes(), NewStr::encode(b"v"), 0, None);
            table.insert(colliding(key.as_bytes()), entry, &colliding);
        }
        assert!(table.directory.len() <= 1024, "{} places", table.directory.len());
        let mut seen = HashSet::new();
        let mut position = Some(0);
        while let Some(at) = position {
            position = table.scan(at, 10, &mut |entry| {
                seen.insert(entry.key().to_vec());
            });
        }
        assert_eq!(seen.len(), keys.len());
        let mut random = martlet_base::random::Random::seeded(1);
        let mut picked = HashSet::new();
        for _ in 0..50_000 {
            let entry = table.random(|bound| random.below(bound as u64) as usize);
            picked.extend(entry.map(|entry| entry.key().to_vec()));
        }
        assert!(picked.len() > keys.len() / 2, "{} of {} ever picked", picked.len(), keys.len());
        for key in &keys {
            let spot = table.find(colliding(key.as_bytes()), |entry| entry.key() == key.as_bytes());
            let Some(spot) = spot else { panic!("{key} is lost") };
            table.remove(spot).drop_entry();
        }
        assert_eq!(table.len(), 0);
        assert_eq!(table.directory.len(), 1);
    }
}
