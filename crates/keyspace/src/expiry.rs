//! The index of one database's expiring keys within a shard, ordered by time.
//!
//! A pair is a time and a mark, 24 bits of the key's hash, which together find the key in the table. Pairs
//! lie in chunks, seven bytes each: the time as milliseconds above the chunk's base, 32 bits, then the mark.
//! A chunk's block is as long as its pairs need, to 64 bytes.
//!
//! Invariant: the pairs ascend within a chunk and from one chunk to the next, and no chunk is empty or holds
//! more than [`CHUNK_PAIRS`]. So the due pairs are a prefix, a pair is found by two binary searches, and one
//! can be drawn at random with the same chance for each. Pairs that are equal are each there.

/// When a key expires, in Unix milliseconds, and the mark that stands for the key.
pub(crate) type Pair = (i64, Mark);

/// The part of a key's hash that stands for the key, 24 bits; see [`mark`].
pub(crate) type Mark = u32;

/// A hash's bits below those that a mark has.
pub(crate) const MARK_SHIFT: u32 = 40;
const MARK_BITS: u32 = 64 - MARK_SHIFT;

/// Most pairs of a chunk: one insertion moves no more, 1.8 KB.
const CHUNK_PAIRS: usize = 256;
const PAIR_BYTES: usize = 7;
/// The largest distance of a time from its chunk's base.
const SPAN_MAX_MS: u64 = u32::MAX as u64;

/// The upper bits of a hash: the table's tag, and the first bits that choose a segment.
#[inline]
pub(crate) fn mark(hash: u64) -> Mark {
    (hash >> MARK_SHIFT) as Mark
}

/// Pairs of time (Unix milliseconds) and mark, ordered; the due ones are a prefix.
#[derive(Debug, Default)]
pub(crate) struct ExpiryIndex {
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    /// Not above any time of the chunk, and at most [`SPAN_MAX_MS`] below each.
    base_ms: i64,
    /// [`PAIR_BYTES`] for each pair.
    pairs: Vec<u8>,
}

/// The base of a chunk with these times, so that there is as much room below as above them.
fn base_for(first_ms: i64, last_ms: i64) -> Option<i64> {
    let free = SPAN_MAX_MS.checked_sub(last_ms.abs_diff(first_ms))?;
    Some(first_ms.saturating_sub_unsigned(free / 2))
}

impl Chunk {
    /// A chunk of one pair.
    fn new((at_ms, mark): Pair) -> Chunk {
        let mut chunk = Chunk { base_ms: at_ms.saturating_sub_unsigned(SPAN_MAX_MS / 2), pairs: Vec::new() };
        chunk.put(0, (at_ms, mark));
        chunk
    }

    #[inline]
    fn len(&self) -> usize {
        self.pairs.len() / PAIR_BYTES
    }

    /// The pair at a place as a number; numbers of one chunk are ordered as its pairs.
    #[inline]
    fn number(&self, place: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..PAIR_BYTES].copy_from_slice(&self.pairs[place * PAIR_BYTES..][..PAIR_BYTES]);
        u64::from_le_bytes(bytes)
    }

    #[inline]
    fn pair(&self, place: usize) -> Pair {
        let number = self.number(place);
        // The sum is the time that was put there.
        (self.base_ms.wrapping_add_unsigned(number >> MARK_BITS), number as u32 & ((1 << MARK_BITS) - 1))
    }

    fn last(&self) -> Pair {
        self.pair(self.len() - 1)
    }

    /// The pair as this chunk's number; `None` if its time is too far from the base.
    #[inline]
    fn number_of(&self, (at_ms, mark): Pair) -> Option<u64> {
        let distance = at_ms.abs_diff(self.base_ms);
        (at_ms >= self.base_ms && distance <= SPAN_MAX_MS).then_some(distance << MARK_BITS | u64::from(mark))
    }

    /// The first place whose pair is not below `number`.
    fn place_of(&self, number: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.number(middle) < number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Gives the block room for `pairs` pairs, and at most 64 bytes more.
    fn resize(&mut self, pairs: usize) {
        let needed = pairs * PAIR_BYTES;
        let step = if needed <= 64 { 16 } else { 64 };
        let capacity = needed.next_multiple_of(step);
        if self.pairs.capacity() > capacity + step {
            self.pairs.shrink_to(capacity);
        } else if self.pairs.capacity() < needed {
            self.pairs.reserve_exact(capacity - self.pairs.len());
        }
    }

    /// Puts a pair that has a number here at a place.
    fn put(&mut self, place: usize, pair: Pair) {
        let Some(number) = self.number_of(pair) else { return debug_assert!(false, "{pair:?}") };
        self.resize(self.len() + 1);
        let (from, end) = (place * PAIR_BYTES, self.pairs.len());
        self.pairs.extend_from_slice(&[0; PAIR_BYTES]);
        self.pairs.copy_within(from..end, from + PAIR_BYTES);
        self.pairs[from..from + PAIR_BYTES].copy_from_slice(&number.to_le_bytes()[..PAIR_BYTES]);
    }

    fn take(&mut self, place: usize) {
        let from = place * PAIR_BYTES;
        self.pairs.drain(from..from + PAIR_BYTES);
        self.resize(self.len());
    }

    /// Makes the times count from another base, which is in reach of all of them.
    fn rebase(&mut self, base_ms: i64) {
        if base_ms != self.base_ms {
            let pairs: Vec<Pair> = (0..self.len()).map(|place| self.pair(place)).collect();
            (self.base_ms, self.pairs) = (base_ms, Vec::new());
            self.resize(pairs.len());
            pairs.into_iter().enumerate().for_each(|(place, pair)| self.put(place, pair));
        }
    }

    /// Whether the chunk can have a time, perhaps with another base; then it has that base.
    fn reach(&mut self, at_ms: i64) -> bool {
        if self.number_of((at_ms, 0)).is_some() {
            return true;
        }
        let (first_ms, last_ms) = (self.pair(0).0.min(at_ms), self.last().0.max(at_ms));
        let Some(base_ms) = base_for(first_ms, last_ms) else { return false };
        self.rebase(base_ms);
        true
    }

    /// Takes the pairs from a place on into another chunk.
    fn split_off(&mut self, place: usize) -> Chunk {
        let mut upper = Chunk { base_ms: self.base_ms, pairs: Vec::new() };
        upper.resize(self.len() - place);
        upper.pairs.extend_from_slice(&self.pairs[place * PAIR_BYTES..]);
        self.pairs.truncate(place * PAIR_BYTES);
        self.resize(place);
        upper
    }
}

impl ExpiryIndex {
    /// The chunk that a pair is in, or belongs into.
    fn chunk_of(&self, pair: Pair) -> usize {
        self.chunks.partition_point(|chunk| chunk.pair(0) <= pair).saturating_sub(1)
    }

    pub(crate) fn insert(&mut self, at_ms: i64, mark: Mark) {
        let pair = (at_ms, mark);
        if self.chunks.is_empty() {
            self.chunks = vec![Chunk::new(pair)];
            return;
        }
        let mut index = self.chunk_of(pair);
        if !self.chunks[index].reach(at_ms) {
            let is_first = pair < self.chunks[index].pair(0);
            self.chunks.insert(index + usize::from(!is_first), Chunk::new(pair));
            return;
        }
        if self.chunks[index].len() == CHUNK_PAIRS {
            if index + 1 == self.chunks.len() && self.chunks[index].last() <= pair {
                // Times mostly ascend: at the end of all, the full chunk stays full.
                self.chunks.push(Chunk::new(pair));
                return;
            }
            let upper = self.chunks[index].split_off(CHUNK_PAIRS / 2);
            index += usize::from(upper.pair(0) <= pair);
            let at = index + usize::from(upper.pair(0) > pair);
            self.chunks.insert(at, upper);
        }
        let chunk = &mut self.chunks[index];
        if let Some(number) = chunk.number_of(pair) {
            let place = chunk.place_of(number);
            chunk.put(place, pair);
        }
    }

    /// Takes one such pair out, if there is any.
    pub(crate) fn remove(&mut self, at_ms: i64, mark: Mark) {
        let pair = (at_ms, mark);
        let index = self.chunk_of(pair);
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        let Some(number) = chunk.number_of(pair) else { return };
        let place = chunk.place_of(number);
        if place < chunk.len() && chunk.number(place) == number {
            chunk.take(place);
            self.shrink(index);
        }
    }

    /// Joins a chunk that has become small with the next one, so that there are few chunks for few pairs.
    fn shrink(&mut self, index: usize) {
        let len = self.chunks[index].len();
        if len == 0 {
            self.chunks.remove(index);
        } else if len <= CHUNK_PAIRS / 4
            && let [chunk, next, ..] = &mut self.chunks[index..]
            && len + next.len() <= CHUNK_PAIRS / 2
            && let Some(base_ms) = base_for(chunk.pair(0).0, next.last().0)
        {
            chunk.rebase(base_ms);
            next.rebase(base_ms);
            chunk.resize(len + next.len());
            chunk.pairs.append(&mut next.pairs);
            self.chunks.remove(index + 1);
        }
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
    }

    fn iter(&self) -> impl Iterator<Item = Pair> {
        self.chunks.iter().flat_map(|chunk| (0..chunk.len()).map(|place| chunk.pair(place)))
    }

    /// Number of pairs, in time that grows with the number of chunks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum()
    }

    /// As [`ExpiryIndex::len`], but `most` if there are more.
    pub(crate) fn len_up_to(&self, most: usize) -> usize {
        let mut len = 0;
        for chunk in &self.chunks {
            len += chunk.len();
            if len >= most {
                return most;
            }
        }
        len
    }

    /// The earliest time, if anything expires at all.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        self.first().map(|(at_ms, _)| at_ms)
    }

    /// The earliest pair.
    pub(crate) fn first(&self) -> Option<Pair> {
        self.chunks.first().map(|chunk| chunk.pair(0))
    }

    /// Takes out the earliest pair that is due by `now_ms`.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<Pair> {
        let first = self.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        self.chunks[0].take(0);
        self.shrink(0);
        Some(first)
    }

    /// A pair, each with the same chance. `pick` gives a random number below its argument.
    pub(crate) fn random(&self, mut pick: impl FnMut(usize) -> usize) -> Option<Pair> {
        if self.chunks.is_empty() {
            return None;
        }
        loop {
            // Places that are not taken are drawn as often as others, and drawn again.
            let chunk = &self.chunks[pick(self.chunks.len())];
            let place = pick(CHUNK_PAIRS);
            if place < chunk.len() {
                return Some(chunk.pair(place));
            }
        }
    }

    /// Sum over the next `sample` times of milliseconds left, 0 for those that have passed, and how many
    /// times those are.
    pub(crate) fn ttl_sum_ms(&self, now_ms: i64, sample: usize) -> (u128, usize) {
        let mut sum = 0u128;
        let mut count = 0;
        for (at_ms, _) in self.iter().take(sample) {
            sum += at_ms.saturating_sub(now_ms).max(0) as u128;
            count += 1;
        }
        (sum, count)
    }

    /// Bytes of its blocks.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        let blocks: usize = self.chunks.iter().map(|chunk| chunk.pairs.capacity()).sum();
        self.chunks.capacity() * size_of::<Chunk>() + blocks
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_PAIRS, ExpiryIndex, Mark};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// How often each pair is there.
    type Model = BTreeMap<(i64, Mark), usize>;

    fn check(index: &ExpiryIndex, model: &Model) {
        assert!(index.chunks.iter().all(|chunk| (1..=CHUNK_PAIRS).contains(&chunk.len())));
        let pairs = model.iter().flat_map(|(pair, count)| std::iter::repeat_n(*pair, *count));
        assert!(index.iter().eq(pairs));
        let len = model.values().sum();
        assert_eq!((index.len(), index.first()), (len, model.keys().next().copied()));
        for most in [0, 1, 200] {
            assert_eq!(index.len_up_to(most), len.min(most));
        }
        assert_eq!(index.next_ms(), model.keys().next().map(|(at_ms, _)| *at_ms));
    }

    fn take(model: &mut Model, pair: (i64, Mark)) {
        if let Some(count) = model.get_mut(&pair) {
            *count -= 1;
            if *count == 0 {
                model.remove(&pair);
            }
        }
    }

    fn run(steps: Vec<(u8, i64, Mark)>, time_of: impl Fn(usize, i64) -> i64) {
        let (mut index, mut model) = (ExpiryIndex::default(), Model::new());
        for (number, (step, at_ms, mark)) in steps.into_iter().enumerate() {
            let at_ms = time_of(number, at_ms);
            match step {
                0 | 1 => {
                    index.insert(at_ms, mark);
                    *model.entry((at_ms, mark)).or_default() += 1;
                }
                2 => {
                    index.remove(at_ms, mark);
                    take(&mut model, (at_ms, mark));
                }
                _ => {
                    let due = model.keys().next().copied().filter(|pair| pair.0 <= at_ms);
                    assert_eq!(index.pop_due(at_ms), due);
                    due.into_iter().for_each(|pair| take(&mut model, pair));
                }
            }
        }
        check(&index, &model);
        while let Some(pair) = model.keys().next_back().copied() {
            index.remove(pair.0, pair.1);
            take(&mut model, pair);
        }
        check(&index, &model);
        assert!(index.chunks.is_empty());
    }

    fn steps() -> impl Strategy<Value = Vec<(u8, i64, Mark)>> {
        prop::collection::vec((0..4u8, 0..50i64, 0..20u32), 1..3_000)
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_collection(steps in steps()) {
            run(steps, |_, at_ms| at_ms);
        }

        #[test]
        fn it_is_one_when_times_ascend(steps in steps()) {
            run(steps, |number, _| number as i64 / 3);
        }

        #[test]
        fn it_is_one_when_times_are_ages_apart(steps in steps(), exponent in 28..58u32) {
            // 2^32 ms, 50 days, is what a chunk spans.
            run(steps, |_, at_ms| (at_ms - 25) << exponent);
        }
    }

    #[test]
    fn times_at_both_ends_of_the_range_are_held() {
        let times = [i64::MIN, i64::MIN + 1, -1, 0, 1, 1 << 32, i64::MAX - 1, i64::MAX];
        run(times.iter().flat_map(|at_ms| [(0, *at_ms, 7), (0, *at_ms, 0xff_ffff)]).collect(), |_, at_ms| {
            at_ms
        });
    }

    #[test]
    fn a_pair_takes_seven_bytes_and_little_more() {
        let mut random = martlet_base::random::Random::seeded(3);
        for span_ms in [1, 3_600_000, 30 * 86_400_000] {
            let mut index = ExpiryIndex::default();
            for number in 0..10_000 {
                let at_ms = 1_800_000_000_000 + random.below(span_ms) as i64;
                index.insert(at_ms, number * 7);
            }
            let bytes = index.heap_bytes() as f64 / 10_000.0;
            assert!(bytes < 7.8, "{bytes}");
        }
    }

    #[test]
    fn every_pair_is_drawn_as_often_as_any_other() {
        let mut index = ExpiryIndex::default();
        let mut random = martlet_base::random::Random::seeded(7);
        assert_eq!(index.random(|below| random.below(below as u64) as usize), None);
        (0..500).for_each(|number: i64| index.insert(number * number % 1_000_003, number as u32));
        let mut drawn = [0u32; 500];
        for _ in 0..200_000 {
            let pair = index.random(|below| random.below(below as u64) as usize).unwrap();
            drawn[pair.1 as usize] += 1;
        }
        // 400 expected, with a deviation of 20.
        assert!(drawn.iter().all(|count| (280..520).contains(count)), "{drawn:?}");
    }
}
