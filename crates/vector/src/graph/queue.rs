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
    /// The seen slots, and room for more.
    seen: Vec<u32>,
    count: usize,
    /// Where the list of [`Visited::news`] begins.
    start: usize,
}

impl Visited {
    /// Forgets all, and makes room for the slots of `pages` pages.
    pub(super) fn reset(&mut self, pages: usize) {
        let seen = self.seen.get(..self.count).unwrap_or_default();
        // To clear all words in a row is quicker than a few of them, at random.
        if self.words.len() / 8 < seen.len() {
            self.words.fill(0);
        } else {
            for slot in seen {
                if let Some(word) = self.words.get_mut(*slot as usize / 64) {
                    *word = 0;
                }
            }
        }
        self.count = 0;
        if self.words.len() < pages {
            self.words.resize(pages, 0);
        }
    }

    /// Begins a list of slots that are seen for the first time.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.start = self.count;
    }

    /// The slots that were seen for the first time since [`Visited::begin`].
    #[inline]
    pub(super) fn news(&self) -> &[u32] {
        self.seen.get(self.start..self.count).unwrap_or_default()
    }

    /// Notes slots. Slots beyond the table count as seen.
    ///
    /// Whether a slot is new is as good as random: it is written in any case, and kept by moving the end.
    #[inline]
    pub(super) fn insert(&mut self, slots: impl ExactSizeIterator<Item = u32>) {
        let end = self.count + slots.len();
        if self.seen.len() < end {
            self.seen.resize(end.next_power_of_two(), 0);
        }
        let (room, words) = (&mut self.seen[self.count..end], &mut self.words[..]);
        let mut count = 0;
        for slot in slots {
            let Some(word) = words.get_mut(slot as usize / 64) else { continue };
            let bit = 1u64 << (slot % 64);
            if let Some(place) = room.get_mut(count) {
                *place = slot;
            }
            count += usize::from(*word & bit == 0);
            *word |= bit;
        }
        self.count += count;
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
    /// The places of `near` among `sorted`.
    places: Vec<usize>,
}

/// Candidates up to which their order is found by comparing all pairs, without a branch.
const PAIRS_MAX: usize = 8;

/// Sorts different candidates.
#[inline]
fn sort(candidates: &mut [Candidate]) {
    let count = candidates.len();
    if count > PAIRS_MAX {
        return candidates.sort_unstable();
    }
    let mut sorted = [Candidate(0); PAIRS_MAX];
    for candidate in &*candidates {
        let rank: usize = candidates.iter().map(|other| usize::from(other < candidate)).sum();
        if let Some(place) = sorted.get_mut(rank) {
            *place = *candidate;
        }
    }
    candidates.copy_from_slice(&sorted[..count]);
}

impl Pool {
    pub(super) fn reset(&mut self, limit: usize) {
        self.sorted.clear();
        self.limit = limit.max(1);
        self.next = 0;
    }

    /// Adds candidates, each at most once in the pool's life. Most are too far, at random: they are sorted
    /// out without a branch first.
    #[inline]
    pub(super) fn extend(&mut self, slots: &[u32], distances: &[f32]) {
        let is_full = self.sorted.len() == self.limit;
        let worst = self.sorted.last().filter(|_| is_full).map_or(Candidate(u64::MAX), |worst| *worst);
        if self.near.len() < slots.len() {
            self.near.resize(slots.len(), worst);
        }
        let mut end = 0;
        for (slot, distance) in slots.iter().zip(distances) {
            let candidate = Candidate::new(*slot, *distance);
            if let Some(place) = self.near.get_mut(end) {
                *place = candidate;
            }
            end += usize::from(candidate < worst);
        }
        let mut near = std::mem::take(&mut self.near);
        self.merge(&mut near[..end]);
        self.near = near;
    }

    /// Merges candidates into the sorted ones. The searches for their places come first: they are
    /// independent, so that the processor overlaps them. Then each part between two places moves once.
    #[inline]
    fn merge(&mut self, near: &mut [Candidate]) {
        sort(near);
        let before = self.sorted.len();
        self.places.clear();
        let sorted = &self.sorted;
        self.places.extend(near.iter().map(|new| sorted.partition_point(|other| *other < *new)));
        self.sorted.resize(before + near.len(), Candidate(u64::MAX));
        let mut end = before;
        for (index, (new, place)) in near.iter().zip(&self.places).enumerate().rev() {
            self.sorted.copy_within(*place..end, *place + index + 1);
            self.sorted[*place + index] = *new;
            end = *place;
        }
        self.next = self.next.min(end);
        self.sorted.truncate(self.limit);
    }

    /// The nearest candidates that the walk has not been to, at most as many; they count as expanded.
    #[inline]
    pub(super) fn pop_nearest(&mut self, count: usize) -> impl Iterator<Item = Candidate> {
        let mut popped = 0;
        std::iter::from_fn(move || {
            while popped < count
                && let Some(candidate) = self.sorted.get_mut(self.next)
            {
                self.next += 1;
                if candidate.0 & EXPANDED == 0 {
                    candidate.0 |= EXPANDED;
                    popped += 1;
                    return Some(*candidate);
                }
            }
            None
        })
    }

    /// The next results of [`Pool::pop_nearest`] if nothing nearer comes.
    #[inline]
    pub(super) fn peek_nearest(&self, count: usize) -> impl Iterator<Item = Candidate> {
        let left = self.sorted.get(self.next..).unwrap_or_default().iter();
        left.filter(|candidate| candidate.0 & EXPANDED == 0).take(count).copied()
    }

    /// Whether the walk has been to all candidates.
    #[inline]
    pub(super) fn is_expanded(&self) -> bool {
        self.peek_nearest(1).next().is_none()
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
        let pop = |pool: &mut Pool| pool.pop_nearest(1).next().map(Candidate::slot);
        assert_eq!(slots(&pool), [2, 4, 1]);
        assert_eq!(pop(&mut pool), Some(2));
        pool.extend(&[5], &[0.05]);
        assert_eq!(pop(&mut pool), Some(5));
        assert_eq!(pop(&mut pool), Some(4));
        assert_eq!(pop(&mut pool), None, "the third fell out");
        pool.extend(&[6], &[0.4]);
        assert_eq!(slots(&pool), [5, 2, 4]);
    }

    #[test]
    fn a_pool_keeps_the_nearest_of_any_batches() {
        let mut random = martlet_base::random::Random::seeded(5);
        let mut pool = Pool::default();
        for limit in [1, 7, 100] {
            pool.reset(limit);
            let (mut all, mut visited) = (Vec::new(), Vec::new());
            for _ in 0..40 {
                let batch: Vec<u32> = (0..random.below(30) as u32).map(|at| all.len() as u32 + at).collect();
                let distances: Vec<f32> = batch.iter().map(|_| random.below(50) as f32).collect();
                pool.extend(&batch, &distances);
                all.extend(batch.iter().zip(&distances).map(|(slot, far)| Candidate::new(*slot, *far)));
                let mut nearest = all.clone();
                nearest.sort_unstable();
                nearest.truncate(limit);
                let found = pool.sorted().iter().map(|found| Candidate(found.0 & !EXPANDED));
                assert_eq!(found.collect::<Vec<_>>(), nearest);
                let unseen = nearest.iter().map(|found| found.slot()).filter(|slot| !visited.contains(slot));
                let expected: Vec<u32> = unseen.take(4).collect();
                assert_eq!(pool.peek_nearest(4).map(Candidate::slot).collect::<Vec<_>>(), expected);
                assert_eq!(pool.pop_nearest(4).map(Candidate::slot).collect::<Vec<_>>(), expected);
                visited.extend(expected);
            }
        }
    }

    #[test]
    fn slots_are_new_once() {
        let mut visited = Visited::default();
        visited.reset(2);
        let news = |visited: &mut Visited, slots: &[u32]| {
            visited.begin();
            visited.insert(slots.iter().copied());
            visited.news().to_vec()
        };
        assert_eq!(news(&mut visited, &[5, 64, 5, 127, 128]), [5, 64, 127]);
        assert_eq!(news(&mut visited, &[6, 64]), [6]);
        visited.reset(3);
        assert_eq!(news(&mut visited, &[5, 64, 128]), [5, 64, 128]);
        visited.reset(1000);
        assert_eq!(news(&mut visited, &[5, 64000 - 1]), [5, 63999]);
        visited.reset(1000);
        assert_eq!(news(&mut visited, &[5, 64000 - 1]), [5, 63999], "few slots of many are forgotten, too");
    }
}
