//! The table of one database within one shard: extendible hashing over [`Segment`]s.
//!
//! Of a key's 64-bit hash, the top 16 bits are its tag, the bits below them choose the segment (most
//! significant bit first), and the lowest bits chose the shard already. A segment grows in steps to 128 slots
//! and then splits in two, so no insert pays for more than 128 entries. (Keys whose hashes agree in more bits
//! than chance would have it, which an attacker may have sought out, do not drive the directory: see
//! [`Level`].) Two that became small are joined, and the directory is halved when none needs its last bit.
//!
//! The directory is one [`Level`] up to 2^12 places, as all keys of a shard seldom need more. Beyond, a place
//! whose keys need more bits gets a separate level: so where a cluster's node has many keys with one hash
//! tag, no insert doubles a directory of millions of places, most of which hold nothing.

use martlet_base::hash::{has_slots, spread};
use martlet_base::prefetch::PrefetchQueue;

use crate::entry::RawEntry;
use crate::expiry::{MARK_SHIFT, Mark};
use crate::segment::{Level, Place, Segment};

/// The lowest bit of the tag.
const TAG_SHIFT: u32 = 48;
/// Bits of a directory position in a scan cursor; more segments than this a shard cannot have. With them a
/// cursor stays below 2^53: some clients keep cursors in doubles.
pub(crate) const DIRECTORY_BITS: u32 = 26;

/// Bits of the root's largest directory.
const ROOT_DEPTH: u8 = 12;
/// Bits of the largest directory below: one is left for the mark in a [`Position`].
const LOWER_DEPTH: u8 = (DIRECTORY_BITS - 1) as u8 - ROOT_DEPTH;

/// Slots of the largest segment but those of colliding keys.
const USUAL_SLOTS: usize = 128;

pub(crate) struct Table {
    root: Level,
}

/// A segment, as one of those that divide all orders.
struct Reach<'a> {
    segment: &'a Segment,
    /// Bits that all its keys share.
    depth: u8,
    /// The lowest order of it.
    begins: u64,
    /// The order up to which it goes.
    next: u64,
}

/// Which segment: its place in the root and, above [`ROOT_DEPTH`] bits, that in the level below.
#[derive(Copy, Clone, Debug)]
struct At(u32);

impl At {
    fn new(upper: usize, lower: usize) -> At {
        At((lower << ROOT_DEPTH | upper) as u32)
    }

    fn upper(self) -> usize {
        self.0 as usize & ((1 << ROOT_DEPTH) - 1)
    }

    fn lower(self) -> usize {
        (self.0 >> ROOT_DEPTH) as usize
    }
}

/// Where a key is in its table. Valid until the table is changed.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Spot {
    segment: At,
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

/// A place in traversal order, from which a scan continues: the lowest [`order`] of a segment, and a tag in
/// it. With the tag 0 nothing of the segment has been visited. Else the bit below those that all its keys
/// share is set as well: which shows afterwards whether the segment has been joined with another, of which
/// the tags below have not been visited.
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

/// The expected segments of a table with this many keys, computed ahead: by depth and keys, in order.
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
        let (wanted, most) = (keys + keys.isqrt(), USUAL_SLOTS * 7 / 8 - 1);
        if wanted <= most || depth == ROOT_DEPTH {
            return self.0.push((depth, wanted.min(most)));
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
        if self.len() == 0 && self.root.depth() == 0 {
            self.root = Level::planned(plan.depth(), &plan.0);
        }
    }

    pub(crate) fn new() -> Table {
        Table { root: Level::new(Segment::empty(0)) }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.root.len
    }

    /// The segment of a hash.
    #[inline]
    fn segment_of(&self, hash: u64) -> (At, &Segment) {
        self.segment_on(path(hash))
    }

    #[inline]
    fn segment_on(&self, path: u64) -> (At, &Segment) {
        let upper = self.root.index(path);
        let segment = &self.root.places[upper];
        match segment.level() {
            None => (At::new(upper, 0), segment),
            Some(level) => {
                let lower = level.index(path << ROOT_DEPTH);
                (At::new(upper, lower), &level.places[lower])
            }
        }
    }

    #[inline]
    fn segment(&self, at: At) -> &Segment {
        let segment = &self.root.places[at.upper()];
        match segment.level() {
            None => segment,
            Some(level) => &level.places[at.lower()],
        }
    }

    #[inline]
    fn segment_mut(&mut self, at: At) -> &mut Segment {
        let segment = &mut self.root.places[at.upper()];
        match segment.is_level() {
            false => segment,
            true => &mut segment.level_mut().places[at.lower()],
        }
    }

    /// Asks for the directory place of a hash, without looking at it.
    #[inline]
    pub(crate) fn queue_place(&self, hash: u64, queue: &mut PrefetchQueue) {
        let at = self.root.place_of(path(hash));
        queue.add(self.root.places.as_ptr().wrapping_add(at).cast());
    }

    #[inline]
    pub(crate) fn queue_bucket(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.segment_of(hash).1.queue_bucket(tag(hash), queue);
    }

    #[inline]
    pub(crate) fn queue_entry(&self, hash: u64, queue: &mut PrefetchQueue) {
        self.segment_of(hash).1.queue_entry(tag(hash), queue);
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(RawEntry) -> bool) -> Option<Spot> {
        let (at, segment) = self.segment_of(hash);
        let place = segment.find(tag(hash), is)?;
        Some(Spot { segment: at, place })
    }

    /// As [`Table::find`], where of the hash only the mark is known: in each of the segments that such a hash
    /// may be in, which are few.
    pub(crate) fn find_marked(&self, mark: Mark, is: impl Fn(RawEntry) -> bool) -> Option<Spot> {
        let first = u64::from(mark) << MARK_SHIFT;
        let (mut from, last) = (order(first), order(first | ((1 << MARK_SHIFT) - 1)));
        while from <= last {
            let (at, segment) = self.segment_on(from << (64 - DIRECTORY_BITS));
            if let Some(place) = segment.find(tag(first), &is) {
                return Some(Spot { segment: at, place });
            }
            from = self.segment_at(from).next;
        }
        None
    }

    #[inline]
    pub(crate) fn entry(&self, spot: Spot) -> RawEntry {
        self.segment(spot.segment).entry(spot.place)
    }

    #[inline]
    pub(crate) fn replace(&mut self, spot: Spot, entry: RawEntry) {
        self.segment_mut(spot.segment).replace(spot.place, entry);
    }

    /// Adds an entry whose key is not in the table. `hash_of` gives any entry's hash (a split needs it).
    pub(crate) fn insert(&mut self, hash: u64, entry: RawEntry, hash_of: &impl Fn(&[u8]) -> u64) {
        let index = self.root.index(path(hash));
        // A place with a separate level looks crowded.
        let segment = match self.root.places[index].is_crowded() {
            false => &mut self.root.places[index],
            true => self.with_room(hash, hash_of),
        };
        segment.insert(tag(hash), entry);
        self.root.len += 1;
    }

    /// The segment of a hash, which has room for one entry more; its level has counted that.
    fn with_room(&mut self, hash: u64, hash_of: &impl Fn(&[u8]) -> u64) -> &mut Segment {
        let path_of = |entry: RawEntry| path(hash_of(entry.key()));
        // Where hashes carry slots, all keys may be of one slot, and below a sixteenth of the directory.
        let bound = |entries: usize| if has_slots() { entries } else { entries / 4 };
        let lower = |segment: &mut Segment| *segment = segment.lowered();
        let (path, entries) = (path(hash), bound(self.len()));
        let upper = self.root.make_room(path, (ROOT_DEPTH, lower), entries, &path_of);
        if !self.root.places[upper].is_level() {
            return &mut self.root.places[upper];
        }
        let level = self.root.places[upper].level_mut();
        let path_below = |entry: RawEntry| path_of(entry) << ROOT_DEPTH;
        let entries = bound(level.len);
        let lower = level.make_room(path << ROOT_DEPTH, (LOWER_DEPTH, Segment::grow), entries, &path_below);
        level.len += 1;
        self.root.lower_depth = self.root.lower_depth.max(level.depth());
        &mut level.places[lower]
    }

    /// Takes an entry out; it is the caller's now.
    pub(crate) fn remove(&mut self, Spot { segment, place }: Spot) -> RawEntry {
        let entry = self.segment_mut(segment).remove(place);
        self.root.len -= 1;
        let upper = segment.upper();
        if self.root.places[upper].is_level() {
            self.shrink_level(segment);
        }
        self.root.join_small(upper);
        entry
    }

    /// After an entry left the level below.
    #[cold]
    fn shrink_level(&mut self, at: At) {
        let place = &mut self.root.places[at.upper()];
        let level = place.level_mut();
        let depth = level.depth();
        level.len -= 1;
        level.join_small(at.lower());
        let is_halved = level.depth() < depth;
        if level.depth() == 0 {
            *place = place.raised();
        }
        if is_halved && depth == self.root.lower_depth {
            self.root.lower_depth = self.root.lower().map(Level::depth).max().unwrap_or(0);
        }
    }

    /// Calls `visit` for at least `want` entries at or after `position` in traversal order, if there are as
    /// many; `None` when the end was reached, else the next position. Of the whole order it visits the range
    /// only, and in it the entries that `is` accepts, since at both ends other keys may share an order. A
    /// position is that of an encoded [`Position`], 0 the begin of any range. An entry that is in the table
    /// throughout a traversal from 0 is visited: positions order keys by hash bits that growth, shrinking and
    /// splits of segments do not change; and of a segment that has been joined since, all entries are visited
    /// that are not before the position's. Positions only rise, so a traversal ends however the table
    /// changes.
    pub(crate) fn scan(
        &self,
        position: u64,
        want: usize,
        (first, last): (u64, u64),
        is: &impl Fn(&[u8]) -> bool,
        hash_of: &impl Fn(&[u8]) -> u64,
        visit: &mut impl FnMut(RawEntry),
    ) -> Option<u64> {
        let Position { mut start, mut tag, mut depth } = Position::decode(position);
        let range_begins = self.segment_at(first).begins;
        if start < range_begins {
            (start, tag, depth) = (range_begins, 0, 0);
        }
        let mut at = start;
        let mut visited = 0;
        while at <= last {
            let Reach { begins, depth: depth_now, segment, next } = self.segment_at(at);
            let was_joined = begins < start || depth_now < depth;
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
                    return Some(Position { start: begins, tag, depth: depth_now }.encode());
                }
                visit(entry);
                visited += 1;
            }
            at = next;
            (tag, depth) = (0, 0);
            if visited >= want && at <= last {
                return Some(Position { start: at, tag: 0, depth: 0 }.encode());
            }
        }
        None
    }

    /// The segment that an order falls into.
    fn segment_at(&self, order: u64) -> Reach<'_> {
        let path = order << (64 - DIRECTORY_BITS);
        let reach = |segment, depth: u8, begins: u64| Reach {
            segment,
            depth,
            begins,
            next: begins + (1 << (DIRECTORY_BITS - u32::from(depth))),
        };
        let upper = self.root.index(path);
        let segment = &self.root.places[upper];
        let begins = (upper as u64) << (DIRECTORY_BITS - u32::from(self.root.depth()));
        let Some(level) = segment.level() else { return reach(segment, segment.depth, begins) };
        let lower = level.index(path << ROOT_DEPTH);
        let segment = &level.places[lower];
        let depth = u32::from(ROOT_DEPTH + level.depth());
        reach(segment, ROOT_DEPTH + segment.depth, begins + ((lower as u64) << (DIRECTORY_BITS - depth)))
    }

    /// Calls `visit` for the entries of one segment whose order ([`order`]) is `from` or above: that of the
    /// segment which `from` falls into. Returns the order up to which that was all; [`ORDERS`] at the end.
    pub(crate) fn walk_segment(
        &self,
        from: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
        visit: &mut impl FnMut(RawEntry),
    ) -> u64 {
        let Reach { begins, segment, next, .. } = self.segment_at(from);
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

    /// Number of entries whose keys `is` accepts, which all have orders from `first` to `last`, as no other
    /// keys have but at both ends.
    pub(crate) fn count_range(&self, (first, last): (u64, u64), is: &impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut count) = (first, 0);
        while from <= last && from < ORDERS {
            let Reach { begins, segment, next, .. } = self.segment_at(from);
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
                let Reach { segment, next, .. } = self.segment_at(from);
                segment.queue_buckets(queue);
                from = next;
            }
        }
    }

    /// Notes the entries of the segment that `from` falls into; returns the order up to which it goes.
    pub(crate) fn queue_segment(&self, from: u64, queue: &mut PrefetchQueue) -> u64 {
        let Reach { segment, next, .. } = self.segment_at(from);
        segment.entry_lines().for_each(|line| queue.add(line));
        next
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawEntry> + '_ {
        segments(&self.root.places).flat_map(|segment| segment.iter().map(|(_, entry)| entry))
    }

    /// An entry chosen with `pick(bound)` in `0..bound`; `None` if the table is empty.
    pub(crate) fn random(&self, pick: impl FnMut(usize) -> usize) -> Option<RawEntry> {
        let (at, slot) = self.random_slot(pick)?;
        self.segment(at).nth_slot(slot)
    }

    /// Segment and slot of a random entry; `None` if the table is empty.
    fn random_slot(&self, mut pick: impl FnMut(usize) -> usize) -> Option<(At, usize)> {
        if self.len() == 0 {
            return None;
        }
        loop {
            // The first of a segment's places stands for it, the others look empty: so each segment has the
            // same chance, and each slot of the usual largest size has it too.
            let upper = pick(self.root.places.len());
            let lower = if self.root.lower_depth == 0 { 0 } else { pick(1 << self.root.lower_depth) };
            let places = match self.root.places[upper].level() {
                None => std::slice::from_ref(&self.root.places[upper]),
                Some(level) => &level.places,
            };
            let Some(segment) = places.get(lower).filter(|segment| segment.len() > 0) else { continue };
            let slot = pick(segment.slots().max(USUAL_SLOTS));
            if slot < segment.slots() && segment.nth_slot(slot).is_some() {
                return Some((At::new(upper, lower), slot));
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
        let segment = self.segment(first);
        let (before, after) = self.root.places.split_at(first.upper());
        let beside = after[0].level().map_or(&[][..], |level| &level.places);
        let others = beside
            .iter()
            .skip(first.lower() + 1)
            .chain(segments(&after[1..]))
            .chain(segments(before))
            .chain(beside.iter().take(first.lower()));
        let entries = (slot..segment.slots())
            .filter_map(|at| segment.nth_slot(at))
            .chain(others.flat_map(|segment| segment.iter().map(|(_, entry)| entry)))
            .chain((0..slot).filter_map(|at| segment.nth_slot(at)));
        let sampled: Vec<RawEntry> = entries.take(most).inspect(|entry| entry.prefetch()).collect();
        sampled.into_iter().for_each(visit);
    }

    /// Bytes of directory and segments, without the one place that a table begins with.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.root.heap_bytes()
    }
}

/// The order that a traversal's position stands in: all before it has been visited.
pub fn order_at(position: u64) -> u64 {
    Position::decode(position).start
}

/// The position from which a traversal visits all keys from an order on.
pub fn position_at(order: u64) -> u64 {
    Position { start: order, tag: 0, depth: 0 }.encode()
}

/// The segments at some of the root's places and below.
fn segments(places: &[Segment]) -> impl Iterator<Item = &Segment> {
    places.iter().flat_map(|place| match place.level() {
        None => std::slice::from_ref(place),
        Some(level) => &level.places,
    })
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
        check_colliding(colliding);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn keys_of_one_hash_are_all_found() {
        check_colliding(|_| 0x1234_5678_9abc_def0);
        check_colliding(|_| u64::MAX);
    }

    fn check_colliding(colliding: fn(&[u8]) -> u64) {
        let mut table = Table::new();
        let keys: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
        for key in &keys {
            let entry = RawEntry::new_str(key.as_bytes(), NewStr::encode(b"v"), 0, None);
            table.insert(colliding(key.as_bytes()), entry, &colliding);
        }
        assert!(table.root.places.len() <= 1024, "{} places", table.root.places.len());
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
        assert_eq!(table.root.places.len(), 1);
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
                table.root.check();
            }
        }
        let full = table.root.places.len();
        assert!(full >= 256, "{full} places");
        for (left, key) in (0..keys.len()).rev().zip(&keys) {
            let spot = table.find(hash(key.as_bytes()), |entry| entry.key() == key.as_bytes());
            let Some(spot) = spot else { panic!("{key} is lost") };
            table.remove(spot).drop_entry();
            if left.is_multiple_of(100) {
                assert_eq!(table.iter().count(), left);
                table.root.check();
                assert!(
                    table.root.places.len() <= 8 + left / 4,
                    "{} places for {left}",
                    table.root.places.len()
                );
            }
        }
        assert_eq!((table.root.places.len(), table.root.depth()), (1, 0));
    }

    /// Hashes of which the first eight directory bits are alike.
    fn crowded(key: &[u8]) -> u64 {
        crate::key_hash(key) & !(0xff << 40) | 0x5b << 40
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn places_with_many_keys_get_levels_of_their_own_and_give_them_back() {
        let mut random = martlet_base::random::Random::seeded(7);
        let mut table = Table::new();
        let names: Vec<String> = (0..60_000).map(|i| i.to_string()).collect();
        for (i, name) in names.iter().enumerate() {
            let entry = RawEntry::new_str(name.as_bytes(), NewStr::encode(b"v"), 0, None);
            table.insert(crowded(name.as_bytes()), entry, &crowded);
            if i.is_multiple_of(5000) {
                table.root.check();
            }
        }
        table.root.check();
        assert_eq!(table.root.depth(), super::ROOT_DEPTH);
        assert!(table.root.lower_depth > 2 && table.root.lower().count() > 4);

        // All that there is, however it is visited; and each key has about the same chance.
        let (mut from, mut walked, mut picked) = (0, Vec::new(), HashSet::new());
        while from < ORDERS {
            from = table.walk_segment(from, &crowded, &mut |entry| walked.push(entry.key().to_vec()));
        }
        let distinct: HashSet<&Vec<u8>> = walked.iter().collect();
        assert_eq!((walked.len(), distinct.len(), table.iter().count()), (60_000, 60_000, 60_000));
        assert_eq!(table.count_range((0, ORDERS - 1), &|_| true), 60_000);
        for _ in 0..60_000 {
            let entry = table.random(|bound| random.below(bound as u64) as usize);
            picked.extend(entry.map(|entry| entry.key().to_vec()));
        }
        // 1 - 1/e of them; those of long segments are drawn less often.
        assert!((30_000..40_000).contains(&picked.len()), "{} of 60000 picked", picked.len());
        for most in [1, 1000, 60_001] {
            let mut sampled = HashSet::new();
            table.sample(|bound| random.below(bound as u64) as usize, most, &mut |entry| {
                assert!(sampled.insert(entry.key().to_vec()));
            });
            assert_eq!(sampled.len(), most.min(60_000));
        }

        // A scan continues while levels go; the last 500 keys stay until it has ended.
        let (mut position, mut seen) = (Some(0), HashSet::new());
        let (most, last) = names.split_at(names.len() - 500);
        for (gone, name) in most.iter().chain(last).enumerate() {
            if gone == most.len() {
                assert_eq!(position, None);
                assert!(last.iter().all(|name| seen.contains(name.as_bytes())));
            }
            if let Some(from) = position.filter(|_| gone.is_multiple_of(100)) {
                position = table.scan(from, 150, (0, ORDERS - 1), &|_| true, &crowded, &mut |entry| {
                    seen.insert(entry.key().to_vec());
                });
            }
            let spot = table.find(crowded(name.as_bytes()), |entry| entry.key() == name.as_bytes());
            let Some(spot) = spot else { panic!("{name} is lost") };
            table.remove(spot).drop_entry();
            if gone.is_multiple_of(1000) {
                table.root.check();
            }
        }
        assert_eq!((table.len(), table.root.depth(), table.root.lower().count()), (0, 0, 0));
        table.root.check();
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
            let (before, depth) = (planned.heap_bytes(), planned.root.depth());
            fill(&mut planned);
            assert!(
                planned.heap_bytes() <= before + before / 8,
                "{keys}: {before}, {}",
                planned.heap_bytes()
            );
            assert!(planned.heap_bytes() <= grown.heap_bytes() * 5 / 4 + 1024, "{keys}");
            assert!(planned.root.depth() <= depth + 1 && planned.len() == keys);
            planned.root.check();
            for name in &names {
                let hash = key_hash(name.as_bytes());
                let spot = planned.find(hash, |entry| entry.key() == name.as_bytes()).expect("it was stored");
                // It is too late for a plan now.
                planned.reserve(&late);
                planned.remove(spot).drop_entry();
            }
            assert_eq!(planned.len(), 0);
            planned.root.check();
        }
    }

    #[test]
    fn positions_come_back_as_they_went() {
        for depth in 0..super::DIRECTORY_BITS as u8 {
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
