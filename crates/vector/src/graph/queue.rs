//! The state of a walk over the graph: the slots that it has seen, and its candidates by distance. A
//! distance and a slot are packed into one number that sorts by distance first. Of equal distances the
//! higher slot is first: among many equal vectors a walk then ends at the latest ones, which have room for
//! links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A slot at a distance; ordered by distance, then by slot, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate(u64);

/// In the lowest bit of the slot's half: whether the walk has been there. Slots have 31 bits.
const EXPANDED: u64 = 1;
/// Slots that a graph can have.
pub(super) const SLOTS_MAX: usize = 1 << 31;

impl Candidate {
    #[inline]
    pub(super) fn new(slot: u32, distance: f32) -> Candidate {
        let bits = distance.to_bits();
        // The order of floats as integers: all bits of a negative number turn, the sign of others does.
        let key = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
        Candidate(u64::from(key) << 32 | u64::from(!slot) << 1 & u64::from(u32::MAX))
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        !((self.0 as u32) >> 1) & (SLOTS_MAX as u32 - 1)
    }

    #[inline]
    pub(super) fn distance(self) -> f32 {
        let key = (self.0 >> 32) as u32;
        f32::from_bits(if key >> 31 == 1 { key & 0x7fff_ffff } else { !key })
    }
}

/// The slots that a walk has seen: one word of bits per page, and a list of those that are set.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    seen: Vec<u32>,
}

impl Visited {
    /// Forgets all, and makes room for the slots of `pages` pages.
    pub(super) fn reset(&mut self, pages: usize) {
        for slot in self.seen.drain(..) {
            if let Some(word) = self.words.get_mut(slot as usize / 64) {
                *word = 0;
            }
        }
        if self.words.len() < pages {
            self.words.resize(pages, 0);
        }
    }

    /// Notes slots, and returns those that are seen for the first time. Slots beyond the table count as seen.
    ///
    /// Whether a slot is new is as good as random: it is written in any case, and kept by moving the end.
    #[inline]
    pub(super) fn insert_new(&mut self, slots: impl ExactSizeIterator<Item = u32>) -> &[u32] {
        let start = self.seen.len();
        self.seen.resize(start + slots.len(), 0);
        let mut end = start;
        for slot in slots {
            let Some(word) = self.words.get_mut(slot as usize / 64) else { continue };
            let bit = 1u64 << (slot % 64);
            if let Some(place) = self.seen.get_mut(end) {
                *place = slot;
            }
            end += usize::from(*word & bit == 0);
            *word |= bit;
        }
        self.seen.truncate(end);
        &self.seen[start..]
    }
}

/// The nearest candidates of a walk without a filter, sorted; a walk goes to each of them once. A candidate
/// that falls out behind the last is farther than `limit` others, and would not have been visited.
#[derive(Debug, Default)]
pub(super) struct Pool {
    sorted: Vec<Candidate>,
    limit: usize,
    /// Candidates before this one are expanded.
    next: usize,
    near: Vec<Candidate>,
}

impl Pool {
    pub(super) fn reset(&mut self, limit: usize) {
        self.sorted.clear();
        self.limit = limit.max(1);
        self.next = 0;
    }

    /// Adds candidates. Most are too far, at random: they are sorted out without a branch first.
    #[inline]
    pub(super) fn extend(&mut self, slots: &[u32], distances: &[f32]) {
        let is_full = self.sorted.len() == self.limit;
        let worst = self.sorted.last().filter(|_| is_full).map_or(Candidate(u64::MAX), |worst| *worst);
        self.near.resize(slots.len(), worst);
        let mut end = 0;
        for (slot, distance) in slots.iter().zip(distances) {
            let candidate = Candidate::new(*slot, *distance);
            if let Some(place) = self.near.get_mut(end) {
                *place = candidate;
            }
            end += usize::from(candidate < worst);
        }
        for index in 0..end {
            self.push(self.near[index]);
        }
    }

    /// Adds a candidate, if it is among the nearest.
    #[inline]
    fn push(&mut self, candidate: Candidate) {
        if self.sorted.len() == self.limit {
            match self.sorted.last() {
                Some(worst) if candidate < *worst => self.sorted.pop(),
                _ => return,
            };
        }
        let at = self.sorted.partition_point(|other| *other < candidate);
        self.sorted.insert(at, candidate);
        self.next = self.next.min(at);
    }

    /// The nearest candidate that the walk has not been to.
    #[inline]
    pub(super) fn pop_nearest(&mut self) -> Option<Candidate> {
        while let Some(candidate) = self.sorted.get_mut(self.next) {
            self.next += 1;
            if candidate.0 & EXPANDED == 0 {
                candidate.0 |= EXPANDED;
                return Some(*candidate);
            }
        }
        None
    }

    /// The next result of [`Pool::pop_nearest`] if nothing nearer comes.
    #[inline]
    pub(super) fn peek_nearest(&self) -> Option<Candidate> {
        self.sorted.get(self.next).copied()
    }

    /// All candidates, the nearest first.
    pub(super) fn sorted(&self) -> &[Candidate] {
        &self.sorted
    }
}

/// The nearest of many, by a heap: for filtered walks, large numbers of results, and exact scans.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    heap: BinaryHeap<Candidate>,
    limit: usize,
}

impl Nearest {
    pub(super) fn reset(&mut self, limit: usize) {
        self.heap.clear();
        self.limit = limit.max(1);
    }

    pub(super) fn is_full(&self) -> bool {
        self.heap.len() >= self.limit
    }

    /// Whether a candidate at this distance would be kept.
    #[inline]
    pub(super) fn accepts(&self, candidate: Candidate) -> bool {
        !self.is_full() || self.heap.peek().is_some_and(|worst| candidate < *worst)
    }

    #[inline]
    pub(super) fn push(&mut self, candidate: Candidate) {
        if !self.is_full() {
            self.heap.push(candidate);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && candidate < *worst
        {
            *worst = candidate;
        }
    }

    /// Takes all of them, the nearest first.
    pub(super) fn drain_sorted(&mut self, out: &mut Vec<Candidate>) {
        out.clear();
        out.extend(self.heap.drain());
        out.sort_unstable();
    }
}

/// Candidates of a filtered walk, the nearest first.
pub(super) type Frontier = BinaryHeap<Reverse<Candidate>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_sort_by_distance() {
        let distances = [-3.5f32, -0.0, 0.0, 1e-30, 0.5, 2.0, f32::MAX, f32::INFINITY];
        for pair in distances.windows(2) {
            assert!(Candidate::new(9, pair[0]) < Candidate::new(1, pair[1]), "{pair:?}");
        }
        let candidate = Candidate::new(0x7fff_ffff, -1.25);
        assert_eq!((candidate.slot(), candidate.distance()), (0x7fff_ffff, -1.25));
        assert!(Candidate::new(0, f32::NAN) > Candidate::new(0, f32::INFINITY));
    }

    #[test]
    fn a_pool_keeps_the_nearest_and_visits_each_once() {
        let mut pool = Pool::default();
        pool.reset(3);
        pool.extend(&[1, 2, 3, 4], &[0.5, 0.1, 0.9, 0.3]);
        let slots = |pool: &Pool| pool.sorted().iter().map(|found| found.slot()).collect::<Vec<_>>();
        assert_eq!(slots(&pool), [2, 4, 1]);
        assert_eq!(pool.pop_nearest().map(Candidate::slot), Some(2));
        pool.extend(&[5], &[0.05]);
        assert_eq!(pool.pop_nearest().map(Candidate::slot), Some(5));
        assert_eq!(pool.pop_nearest().map(Candidate::slot), Some(4));
        assert_eq!(pool.pop_nearest(), None, "the third fell out");
        pool.extend(&[6], &[0.4]);
        assert_eq!(slots(&pool), [5, 2, 4]);
    }

    #[test]
    fn slots_are_new_once() {
        let mut visited = Visited::default();
        visited.reset(2);
        assert_eq!(visited.insert_new([5, 64, 5, 127, 128].into_iter()), [5, 64, 127]);
        assert_eq!(visited.insert_new([6, 64].into_iter()), [6]);
        visited.reset(3);
        assert_eq!(visited.insert_new([5, 64, 128].into_iter()), [5, 64, 128]);
    }
}
