//! A directory of segments by the next bits of a path, which doubles where one of them needs a bit more and
//! is halved when none needs its last.
//!
//! When a segment's depth is less than the directory's, only the first of its places holds it; the others
//! hold just its depth.

use super::Segment;
use crate::entry::RawEntry;

/// Places that a directory may have whatever the number of entries.
const SMALL_DIRECTORY: usize = 64;
/// Two segments that together have no more entries than this are joined. Far below a split's remainder, so
/// that a segment does not go back and forth.
const JOIN_LEN: usize = 40;

/// A directory: of a path's bits, the highest choose the place.
pub(crate) struct Level {
    pub(crate) places: Vec<Segment>,
    /// Entries, those of levels below included.
    pub(crate) len: usize,
    /// Segments of the directory's depth, and levels below.
    deepest: u32,
    depth: u8,
    /// Bits of the deepest level below.
    pub(crate) lower_depth: u8,
}

impl Level {
    /// One segment, of depth 0.
    pub(crate) fn new(segment: Segment) -> Level {
        debug_assert_eq!(segment.depth, 0);
        Level { places: vec![segment], len: segment.len(), depth: 0, deepest: 1, lower_depth: 0 }
    }

    /// Empty segments, by depth, with room for the given number of keys each.
    pub(crate) fn planned(depth: u8, segments: &[(u8, usize)]) -> Level {
        let mut places = Vec::with_capacity(1 << depth);
        for &(segment_depth, keys) in segments {
            places.push(Segment::with_room(segment_depth, keys));
            let next = places.len() - 1 + (1 << (depth - segment_depth));
            places.resize(next, Segment::empty(segment_depth));
        }
        let mut level = Level { places, depth, ..Level::new(Segment::empty(0)) };
        level.deepest = level.count_deepest();
        level
    }

    #[inline]
    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    #[inline]
    pub(crate) fn place_of(&self, path: u64) -> usize {
        // Most tables of small databases are one segment.
        if self.depth == 0 { 0 } else { (path >> (64 - self.depth)) as usize }
    }

    /// The place that holds the segment of a path.
    #[inline]
    pub(crate) fn index(&self, path: u64) -> usize {
        let at = self.place_of(path);
        let spare = self.depth - self.places[at].depth;
        at >> spare << spare
    }

    /// The place of a path's segment, which has room for one entry more then, or has its own level.
    ///
    /// A full segment is split rather than grown beyond its usual size: always while the directory stays
    /// unchanged; and when it doubles, if it then has no more places than `bound`. Hashes drawn at random
    /// never come near that, so only keys chosen to collide make a long segment, and pay for it with their
    /// own lookups. For one that has `most` bits already `or_else` makes a level.
    pub(crate) fn make_room(
        &mut self,
        path: u64,
        (most, or_else): (u8, impl Fn(&mut Segment)),
        bound: usize,
        path_of: &impl Fn(RawEntry) -> u64,
    ) -> usize {
        loop {
            let index = self.index(path);
            let doubled = self.places.len() * 2;
            let segment = &mut self.places[index];
            if segment.is_level() || !segment.is_crowded() {
                return index;
            }
            if !segment.is_large() {
                segment.grow();
            } else if segment.depth == most {
                or_else(segment);
            } else if segment.depth < self.depth || doubled <= SMALL_DIRECTORY + bound || segment.is_largest()
            {
                self.split(index, path_of);
            } else {
                segment.grow();
            }
        }
    }

    fn split(&mut self, index: usize, path_of: &impl Fn(RawEntry) -> u64) {
        let mut index = index;
        let depth = self.places[index].depth;
        if depth == self.depth {
            let halves = |&segment: &Segment| [segment, Segment::empty(segment.depth)];
            self.places = self.places.iter().flat_map(halves).collect();
            self.depth += 1;
            self.deepest = 0;
            index *= 2;
        }
        self.deepest += if depth + 1 == self.depth { 2 } else { 0 };
        let bit = 63 - u32::from(depth);
        let (left, right) = self.places[index].split(|entry| path_of(entry) >> bit & 1 == 1);
        let half = 1usize << (self.depth - depth - 1);
        self.places[index..index + 2 * half].fill(Segment::empty(depth + 1));
        self.places[index] = left;
        self.places[index + half] = right;
    }

    /// Joins the segment at `index` with the one beside it as long as both are small, and halves the
    /// directory when no segment needs its last bit any more.
    pub(crate) fn join_small(&mut self, mut index: usize) {
        loop {
            let Segment { depth, .. } = self.places[index];
            if depth == 0 || self.places[index].len() > JOIN_LEN {
                return;
            }
            let places = 1usize << (self.depth - depth);
            let (left, right) = (index & !places, index | places);
            let (one, other) = (self.places[left], self.places[right]);
            let are_segments = one.depth == other.depth && !one.is_level() && !other.is_level();
            if !are_segments || one.len() + other.len() > JOIN_LEN {
                return;
            }
            self.deepest -= if depth == self.depth { 2 } else { 0 };
            self.places[left..right + places].fill(Segment::empty(depth - 1));
            self.places[left] = one.join(other);
            index = left;
            while self.deepest == 0 {
                self.places = self.places.iter().step_by(2).copied().collect();
                self.depth -= 1;
                self.deepest = self.count_deepest();
                index /= 2;
            }
        }
    }

    /// Segments of the directory's depth. (Places that hold no segment know the depth of the one that covers
    /// them, which is less.)
    fn count_deepest(&self) -> u32 {
        self.places.iter().filter(|segment| segment.depth == self.depth).count() as u32
    }

    /// Levels below.
    pub(crate) fn lower(&self) -> impl Iterator<Item = &Level> {
        self.places.iter().filter_map(Segment::level)
    }

    /// Bytes of directories and segments, without the one place that a table begins with.
    pub(crate) fn heap_bytes(&self) -> usize {
        let below: usize = self
            .lower()
            .map(|level| level.heap_bytes() + size_of_val(&level.places[0]) + size_of::<Level>())
            .sum();
        (self.places.capacity() - 1) * size_of::<Segment>()
            + self.places.iter().map(Segment::heap_bytes).sum::<usize>()
            + below
    }

    /// Panics unless counts and depths are right.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert_eq!(self.deepest, self.count_deepest());
        assert_eq!(self.places.len(), 1 << self.depth);
        let below: usize = self.lower().map(|level| level.len).sum();
        assert_eq!(self.len, self.places.iter().map(Segment::len).sum::<usize>() + below);
        assert_eq!(self.lower_depth, self.lower().map(Level::depth).max().unwrap_or(0));
        self.lower().for_each(Level::check);
    }
}

impl Drop for Level {
    /// Frees the segments, with their entries, and the levels below.
    fn drop(&mut self) {
        for segment in &mut self.places {
            segment.iter().for_each(|(_, entry)| entry.drop_entry());
            segment.free_buckets();
            drop(segment.take_level());
        }
    }
}
