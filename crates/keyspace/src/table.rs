//! The table of one database within one shard: extendible hashing over [`Segment`]s.
//!
//! Of a key's 64-bit hash, the top 16 bits are its tag, the bits below them choose the segment (most
//! significant bit first), and the lowest bits chose the shard already. A segment grows in steps to 128 slots
//! and then splits in two, so no insert pays for more than 128 entries. (Keys whose hashes agree in more bits
//! than chance would have it, which somebody may have sought out, do not drive the directory: see
//! [`Table::may_split`].) Two that became small are joined, and the directory is halved when none needs its
//! last bit.
//!
//! When a segment's depth is less than the directory's, only the first
//! of its directory places holds it; the others hold just its depth.

use martlet_base::hash::{has_slots, spread};
use martlet_base::prefetch::PrefetchQueue;

use crate::entry::RawEntry;
use crate::segment::{Place, Segment};

/// The lowest bit of the tag.
const TAG_SHIFT: u32 = 48;
/// Bits of a directory position in a scan cursor; more segments than this a shard cannot have. With them a
/// cursor stays below 2^53: some clients keep cursors in doubles.
pub(crate) const DIRECTORY_BITS: u32 = 26;

/// Bits of the largest directory: one is left for the mark in a [`Position`].
const DEPTH_MAX: u32 = DIRECTORY_BITS - 1;

/// Places that a directory may have whatever the number of entries.
const SMALL_DIRECTORY: usize = 64;
/// Two segments that together have no more entries than this are joined. Far below what a split leaves, so
/// that a segment does not go back and forth.
const JOIN_LEN: usize = 40;
/// Slots of the largest segment but those of colliding keys.
const USUAL_SLOTS: usize = 128;

pub(crate) struct Table {
    directory: Vec<Segment>,
    depth: u8,
    /// Segments of the directory's depth.
    deepest: u32,
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

/// A hash's directory bits, the first of them highest. Uneven ([`spread`]), so that segments of all sizes
/// exist at any time.
#[inline]
fn path(hash: u64) -> u64 {
    spread(hash << (64 - TAG_SHIFT))
}

/// By what segments are ordered: a hash's directory bits. Segments cover ranges of it that do not overlap,
/// however the table grows.
#[inline]
pub(crate) fn order(hash: u64) -> u64 {
    path(hash) >> (64 - DIRECTORY_BITS)
}

#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> TAG_SHIFT) as u16
}

/// A place in traversal order, from where on a scan goes: the lowest [`order`] of a segment, and a tag in it.
/// With the tag 0 nothing of the segment has been visited. Else the bit below those that all its keys share
/// is set as well: which tells afterwards whether the segment has been joined with another, of which the tags
/// below have not been visited.
struct Position {
    start: u64,
    tag: u16,
    /// The segment's depth then; 0 with the tag 0.
    depth: u8,
}

impl Position {
    fn decode(position: u64) -> Position {
        let (tag, bits) = (position as u16, position >> 16);
        if tag == 0 || bits == 0 {
            return Position { start: bits, tag: 0, depth: 0 };
        }
        let depth = (DIRECTORY_BITS - 1).saturating_sub(bits.trailing_zeros());
        Position { start: bits & (bits - 1), tag, depth: depth as u8 }
    }

    fn encode(&self) -> u64 {
        let mark = if self.tag == 0 { 0 } else { 1 << (DIRECTORY_BITS - 1 - u32::from(self.depth)) };
        (self.start | mark) << 16 | u64::from(self.tag)
    }
}

/// The segments that a table of so many keys will come to have, made out ahead: by depth and keys, in order.
#[derive(Clone, Debug)]
pub struct Plan(Vec<(u8, usize)>);

impl Plan {
    /// For a table of about `keys`, whose hashes are as chance has them.
    pub fn new(keys: usize) -> Plan {
        let mut plan = Plan(Vec::new());
        plan.divide(0, 0, keys);
        plan
    }

    /// Keys of the segment that `path` and its `depth` highest bits stand for: as many as are expected, or
    /// half of them in each of two.
    fn divide(&mut self, path: u64, depth: u8, keys: usize) {
        // Somewhat more than the mean: most segments then need no step more.
        let wanted = keys + keys.isqrt();
        if wanted * 8 < USUAL_SLOTS * 7 || u32::from(depth) == DEPTH_MAX {
            return self.0.push((depth, wanted));
        }
        let half = path | 1 << (63 - depth);
        let (from, to) =
            (unspread(path), unspread(path | u64::MAX.checked_shr(u32::from(depth)).unwrap_or(0)));
        let left = keys as f64 * (unspread(half) - from) as f64 / (to - from).max(1) as f64;
        self.divide(path, depth + 1, left as usize);
        self.divide(half, depth + 1, keys - left as usize);
    }

    /// Bits of the directory.
    fn depth(&self) -> u8 {
        self.0.iter().map(|(depth, _)| *depth).max().unwrap_or(0)
    }
}

/// The lowest number that [`spread`] takes to `image` or above.
fn unspread(image: u64) -> u64 {
    (0..64)
        .rev()
        .fold(0, |low, bit| if spread(low | ((1 << bit) - 1)) < image { low | 1 << bit } else { low })
}

impl Table {
    /// Makes room for the keys of a plan, if the table has had none yet.
    pub(crate) fn reserve(&mut self, plan: &Plan) {
        if self.len > 0 || self.depth > 0 {
            return;
        }
        self.depth = plan.depth();
        self.directory.iter_mut().for_each(Segment::free_buckets);
        self.directory.clear();
        self.directory.reserve(1 << self.depth);
        for &(depth, keys) in &plan.0 {
            self.directory.push(Segment::with_room(depth, keys));
            let places = self.directory.len() - 1 + (1 << (self.depth - depth));
            self.directory.resize(places, Segment::empty(depth));
        }
        self.deepest = self.count_deepest();
    }

    pub(crate) fn new() -> Table {
        Table { directory: vec![Segment::empty(0)], depth: 0, deepest: 1, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The directory place that holds the segment of a hash.
    #[inline]
    fn index(&self, hash: u64) -> usize {
        self.first_place(self.place_of(hash))
    }

    #[inline]
    fn place_of(&self, hash: u64) -> usize {
        // Most tables of small databases are one segment.
        if self.depth == 0 { 0 } else { (path(hash) >> (64 - self.depth)) as usize }
    }

    #[inline]
    fn first_place(&self, at: usize) -> usize {
        let spare = self.depth - self.directory[at].depth;
        at >> spare << spare
    }

    /// Asks for the directory place of a hash, without looking at it.
    #[inline]
    pub(crate) fn queue_place(&self, hash: u64, queue: &mut PrefetchQueue) {
        let at = self.place_of(hash);
        queue.add(self.directory.as_ptr().wrapping_add(at).cast());
    }

    #[inline]
    pub(crate) fn queue_bucket(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.directory[self.index(hash)].queue_bucket(tag(hash), queue);
    }

    #[inline]
    pub(crate) fn queue_entry(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.directory[self.index(hash)].queue_entry(tag(hash), queue);
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

    /// Whether a full segment is split rather than grown beyond its usual size: always while the directory
    /// stays as it is; and when it doubles, if that is in proportion to the entries. Hashes drawn at random
    /// never come near the bound, so only keys chosen to collide make a long segment, and pay for it with
    /// their own lookups.
    fn may_split(&self, index: usize) -> bool {
        let segment = &self.directory[index];
        // Where hashes carry slots, all keys may be of one slot, and below a sixteenth of the directory.
        let places = if has_slots() { self.len } else { self.len / 4 };
        let in_proportion = self.directory.len() * 2 <= SMALL_DIRECTORY + places;
        segment.depth < self.depth
            || (u32::from(self.depth) < DEPTH_MAX && (in_proportion || segment.is_largest()))
    }

    fn split(&mut self, index: usize, hash_of: &impl Fn(&[u8]) -> u64) {
        let mut index = index;
        let depth = self.directory[index].depth;
        if depth == self.depth {
            self.directory =
                self.directory.iter().flat_map(|&segment| [segment, Segment::empty(segment.depth)]).collect();
            self.depth += 1;
            self.deepest = 0;
            index *= 2;
        }
        self.deepest += if depth + 1 == self.depth { 2 } else { 0 };
        let bit = 63 - u32::from(depth);
        let (left, right) = self.directory[index].split(|entry| path(hash_of(entry.key())) >> bit & 1 == 1);
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
        self.join_small(spot.segment as usize);
        entry
    }

    /// Joins the segment at `index` with the one beside it as long as both are small, and halves the
    /// directory when no segment needs its last bit any more.
    fn join_small(&mut self, mut index: usize) {
        loop {
            let Segment { depth, .. } = self.directory[index];
            if depth == 0 || self.directory[index].len() > JOIN_LEN {
                return;
            }
            let places = 1usize << (self.depth - depth);
            let (left, right) = (index & !places, index | places);
            let (one, other) = (self.directory[left], self.directory[right]);
            if one.depth != other.depth || one.len() + other.len() > JOIN_LEN {
                return;
            }
            self.deepest -= if depth == self.depth { 2 } else { 0 };
            self.directory[left..right + places].fill(Segment::empty(depth - 1));
            self.directory[left] = one.join(other);
            index = left;
            while self.deepest == 0 {
                self.directory = self.directory.iter().step_by(2).copied().collect();
                self.depth -= 1;
                self.deepest = self.count_deepest();
                index /= 2;
            }
        }
    }

    /// Segments of the directory's depth. (Places that hold no segment know the depth of the one that covers
    /// them, which is less.)
    fn count_deepest(&self) -> u32 {
        self.directory.iter().filter(|segment| segment.depth == self.depth).count() as u32
    }

    /// Calls `visit` for at least `want` entries at or after `position` in traversal order, if there are as
    /// many; `None` when the end was reached, else where to go on. Of the whole order it visits the range
    /// only, and of that what `is` accepts, for those whose orders are others' as well at both ends. A
    /// position is that of an encoded [`Position`], 0 the begin of any range. An entry that is in the table
    /// throughout a traversal from 0 is visited: positions order keys by hash bits that growth, shrinking
    /// and splits of segments do not change; and of a segment that has been joined since, all is visited
    /// that is not before the position's. Positions only rise, so a traversal ends however the table changes.
    pub(crate) fn scan(
        &self,
        position: u64,
        want: usize,
        (first, last): (u64, u64),
        is: &impl Fn(&[u8]) -> bool,
        hash_of: &impl Fn(&[u8]) -> u64,
        visit: &mut impl FnMut(RawEntry),
    ) -> Option<u64> {
        let place_bits = DIRECTORY_BITS - u32::from(self.depth);
        let Position { mut start, mut tag, mut depth } = Position::decode(position);
        let range_begins = self.segment_at(first).0;
        if start < range_begins {
            (start, tag, depth) = (range_begins, 0, 0);
        }
        let end = (last >> place_bits) as usize;
        let mut at = (start >> place_bits) as usize;
        let mut visited = 0;
        while at <= end {
            let index = self.first_place(at);
            let segment = &self.directory[index];
            let begins = (index as u64) << place_bits;
            let was_joined = begins < start || segment.depth < depth;
            let is_due = |other: u16, entry: RawEntry| {
                let is_after = if was_joined { order(hash_of(entry.key())) >= start } else { other >= tag };
                is_after && is(entry.key())
            };
            let mut found: Vec<(u16, RawEntry)> =
                segment.iter().filter(|&(other, entry)| is_due(other, entry)).collect();
            if visited + found.len() > want {
                found.sort_unstable_by_key(|(tag, _)| *tag);
            }
            for (i, &(tag, entry)) in found.iter().enumerate() {
                if visited >= want && i > 0 && tag != found[i - 1].0 && !was_joined {
                    return Some(Position { start: begins, tag, depth: segment.depth }.encode());
                }
                visit(entry);
                visited += 1;
            }
            at = index + (1usize << (self.depth - segment.depth));
            (tag, depth) = (0, 0);
            if visited >= want && at <= end {
                return Some(Position { start: (at as u64) << place_bits, tag: 0, depth: 0 }.encode());
            }
        }
        None
    }

    /// The segment that an order falls into: the lowest order of it, itself, and the order up to which it
    /// goes.
    fn segment_at(&self, order: u64) -> (u64, &Segment, u64) {
        let place_bits = DIRECTORY_BITS - u32::from(self.depth);
        let index = self.first_place((order >> place_bits) as usize);
        let segment = &self.directory[index];
        let next = index as u64 + (1 << (self.depth - segment.depth));
        ((index as u64) << place_bits, segment, next << place_bits)
    }

    /// Calls `visit` for the entries of one segment whose order ([`order`]) is `from` or above: that of the
    /// segment which `from` falls into. Returns the order up to which that was all; [`ORDERS`] at the end.
    pub(crate) fn walk_segment(
        &self,
        from: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
        visit: &mut impl FnMut(RawEntry),
    ) -> u64 {
        let (begins, segment, next) = self.segment_at(from);
        // Segments may have been joined since the walk came by.
        let is_whole = begins >= from;
        segment.prefetch_entries();
        for (_, entry) in segment.iter() {
            if is_whole || order(hash_of(entry.key())) >= from {
                visit(entry);
            }
        }
        next
    }

    /// Number of entries whose keys `is` accepts, which all have orders from `first` to `last`, as nobody
    /// else has but at both ends.
    pub(crate) fn count_range(&self, (first, last): (u64, u64), is: &impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut count) = (first, 0);
        while from <= last && from < ORDERS {
            let (begins, segment, next) = self.segment_at(from);
            count += match begins > first && next <= last {
                true => segment.len(),
                false => segment.iter().filter(|(_, entry)| is(entry.key())).count(),
            };
            from = next;
        }
        count
    }

    /// Notes the buckets of the segment that `from` falls into, and of the one after it.
    pub(crate) fn queue_buckets(&self, mut from: u64, queue: &mut PrefetchQueue) {
        for _ in 0..2 {
            if from < ORDERS {
                let (_, segment, next) = self.segment_at(from);
                segment.queue_buckets(queue);
                from = next;
            }
        }
    }

    /// Notes the entries of the segment that `from` falls into; returns the order up to which it goes.
    pub(crate) fn queue_segment(&self, from: u64, queue: &mut PrefetchQueue) -> u64 {
        let (_, segment, next) = self.segment_at(from);
        segment.entry_lines().for_each(|line| queue.add(line));
        next
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawEntry> + '_ {
        self.directory.iter().flat_map(|segment| segment.iter().map(|(_, entry)| entry))
    }

    /// An entry chosen with `pick(bound)` in `0..bound`; `None` if the table is empty.
    pub(crate) fn random(&self, pick: impl FnMut(usize) -> usize) -> Option<RawEntry> {
        let (index, slot) = self.random_slot(pick)?;
        self.directory[index].nth_slot(slot)
    }

    /// Directory index and slot of a random entry; `None` if the table is empty.
    fn random_slot(&self, mut pick: impl FnMut(usize) -> usize) -> Option<(usize, usize)> {
        if self.len == 0 {
            return None;
        }
        loop {
            // The first of a segment's places stands for it, the others look empty: so each segment has the
            // same chance, and each slot of the usual largest size has it too.
            let index = pick(self.directory.len());
            let segment = &self.directory[index];
            if segment.len() == 0 {
                continue;
            }
            let slot = pick(segment.slots().max(USUAL_SLOTS));
            if slot < segment.slots() && segment.nth_slot(slot).is_some() {
                return Some((index, slot));
            }
        }
    }

    /// Visits `most` entries, or all if there are fewer: a random one and those in the slots after it. Unlike
    /// as many random ones they are prefetched together.
    pub(crate) fn sample(
        &self,
        pick: impl FnMut(usize) -> usize,
        most: usize,
        visit: &mut impl FnMut(RawEntry),
    ) {
        let Some((first, slot)) = self.random_slot(pick) else { return };
        let (segment, before, after) =
            (&self.directory[first], &self.directory[..first], &self.directory[first + 1..]);
        let entries = (slot..segment.slots())
            .filter_map(|at| segment.nth_slot(at))
            .chain(after.iter().chain(before).flat_map(|segment| segment.iter().map(|(_, entry)| entry)))
            .chain((0..slot).filter_map(|at| segment.nth_slot(at)));
        let sampled: Vec<RawEntry> = entries.take(most).inspect(|entry| entry.prefetch()).collect();
        sampled.into_iter().for_each(visit);
    }

    /// Bytes of directory and segments, without the one place that a table begins with.
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.directory.capacity() - 1) * size_of::<Segment>()
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
    use super::{ORDERS, Plan, Position, Table, spread, unspread};
    use crate::entry::{NewStr, RawEntry};
    use martlet_base::prefetch::PrefetchQueue;
    use std::collections::HashSet;

    /// The hash of a key that is a number, for keys chosen to collide: all bits but the tag and one are
    /// alike.
    fn colliding(key: &[u8]) -> u64 {
        let number = key.iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
        number << 48 | 0x5555_5555_5400 | (number & 1)
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
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
            position = table.scan(at, 10, (0, ORDERS - 1), &|_| true, &colliding, &mut |entry| {
                seen.insert(entry.key().to_vec());
            });
        }
        assert_eq!(seen.len(), keys.len());
        let mut random = martlet_base::random::Random::seeded(1);
        for most in [0, 1, 7, keys.len(), keys.len() + 1] {
            let mut sampled = Vec::new();
            table.sample(|bound| random.below(bound as u64) as usize, most, &mut |entry| {
                sampled.push(entry.key().to_vec());
            });
            let distinct: HashSet<&Vec<u8>> = sampled.iter().collect();
            assert_eq!((sampled.len(), distinct.len()), (most.min(keys.len()), most.min(keys.len())));
        }
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

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_table_that_shrinks_gives_its_directory_back() {
        let hash = crate::key_hash;
        let mut table = Table::new();
        let keys: Vec<String> = (0..20_000).map(|i| i.to_string()).collect();
        for (i, key) in keys.iter().enumerate() {
            let entry = RawEntry::new_str(key.as_bytes(), NewStr::encode(b"v"), 0, None);
            table.insert(hash(key.as_bytes()), entry, &hash);
            if i.is_multiple_of(1000) {
                assert_eq!(table.deepest, table.count_deepest());
            }
        }
        let full = table.directory.len();
        assert!(full >= 256, "{full} places");
        for (left, key) in (0..keys.len()).rev().zip(&keys) {
            let spot = table.find(hash(key.as_bytes()), |entry| entry.key() == key.as_bytes());
            let Some(spot) = spot else { panic!("{key} is lost") };
            table.remove(spot).drop_entry();
            if left.is_multiple_of(100) {
                assert_eq!(table.iter().count(), left);
                assert_eq!(table.deepest, table.count_deepest());
                assert!(table.directory.len() <= 8 + left / 4, "{} places for {left}", table.directory.len());
            }
        }
        assert_eq!((table.directory.len(), table.depth), (1, 0));
    }

    #[test]
    fn what_is_asked_for_ahead_of_a_walk_is_what_it_visits() {
        let hash = crate::key_hash;
        let mut table = Table::new();
        for i in 0..5000 {
            let key = i.to_string();
            let entry = RawEntry::new_str(key.as_bytes(), NewStr::encode(b"v"), 0, None);
            table.insert(hash(key.as_bytes()), entry, &hash);
        }
        let (mut from, mut visited) = (0, 0);
        while from < ORDERS {
            let mut queue = PrefetchQueue::default();
            let next = table.queue_segment(from, &mut queue);
            let mut count = 0;
            assert_eq!(table.walk_segment(from, &hash, &mut |_| count += 1), next);
            // Two lines of each.
            assert_eq!(queue.len(), 2 * count);
            (from, visited) = (next, visited + count);
        }
        assert_eq!(visited, 5000);
        // A segment, with the one after it while there is one.
        let of = |from: u64| {
            let mut queue = PrefetchQueue::default();
            table.queue_buckets(from, &mut queue);
            queue.len()
        };
        assert!(of(0) > of(ORDERS - 1) && of(ORDERS - 1) > 0);
        assert_eq!(of(ORDERS), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn unspread_turns_spread_back() {
        for i in 0..10_000u64 {
            let hash = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let image = spread(hash);
            let back = unspread(image);
            assert!(back <= hash && spread(back) == image);
        }
        assert_eq!((unspread(0), spread(unspread(u64::MAX))), (0, u64::MAX));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_table_made_out_ahead_is_what_it_comes_to() {
        use crate::key_hash;
        let late = Plan::new(1_000_000);
        for keys in [1usize, 100, 111, 1000, 4000, 50_000] {
            let names: Vec<String> = (0..keys).map(|i| format!("key:{i}")).collect();
            let fill = |table: &mut Table| {
                for name in &names {
                    let entry = RawEntry::new_str(name.as_bytes(), NewStr::encode(b"v"), 0, None);
                    table.insert(key_hash(name.as_bytes()), entry, &|key| key_hash(key));
                }
            };
            let (mut grown, mut planned) = (Table::new(), Table::new());
            fill(&mut grown);
            planned.reserve(&Plan::new(keys));
            let (before, depth) = (planned.heap_bytes(), planned.depth);
            fill(&mut planned);
            assert!(
                planned.heap_bytes() <= before + before / 8,
                "{keys}: {before}, {}",
                planned.heap_bytes()
            );
            assert!(planned.heap_bytes() <= grown.heap_bytes() * 5 / 4 + 1024, "{keys}");
            assert!(planned.depth <= depth + 1 && planned.len() == keys);
            assert_eq!(planned.deepest, planned.count_deepest());
            for name in &names {
                let hash = key_hash(name.as_bytes());
                let spot = planned.find(hash, |entry| entry.key() == name.as_bytes()).expect("it was stored");
                // It is too late for a plan now.
                planned.reserve(&late);
                planned.remove(spot).drop_entry();
            }
            assert_eq!((planned.len(), planned.deepest), (0, planned.count_deepest()));
        }
    }

    #[test]
    fn positions_come_back_as_they_went() {
        for depth in 0..=super::DEPTH_MAX as u8 {
            for (start, tag) in [(0, 1), (0, 0xffff), (1, 7), ((1 << depth) - 1, 3)] {
                let start = (start % (1u64 << depth)) << (super::DIRECTORY_BITS - u32::from(depth));
                let position = Position { start, tag, depth }.encode();
                assert!(position < 1 << (super::DIRECTORY_BITS + 16));
                let back = Position::decode(position);
                assert_eq!((back.start, back.tag, back.depth), (start, tag, depth));
            }
        }
        assert_eq!(Position::decode(5).tag, 0, "a cursor that nobody was given");
    }
}
