//! The index of one database's expiring keys within a shard, ordered by time.
//!
//! Invariant: the pairs ascend within a chunk and from one chunk to the next, and no chunk is empty or holds
//! more than [`CHUNK_PAIRS`]. So the due pairs are a prefix, a pair is found by two binary searches, and one
//! can be drawn at random with the same chance for each.

/// When a key expires, in Unix milliseconds, and the hash that stands for the key.
type Pair = (i64, u64);

/// Most pairs of a chunk: one insertion moves no more, 2 KB.
const CHUNK_PAIRS: usize = 128;

/// Pairs of time (Unix milliseconds) and key hash, ordered; the due ones are a prefix.
///
/// Hashes stand for keys: a caller that takes a due pair out looks the key up by its hash and time, so two
/// keys with one hash are both found.
#[derive(Debug, Default)]
pub(crate) struct ExpiryIndex {
    chunks: Vec<Vec<Pair>>,
}

impl ExpiryIndex {
    /// The chunk that a pair is in, or belongs into.
    fn chunk_of(&self, pair: Pair) -> usize {
        self.chunks.partition_point(|chunk| chunk[0] <= pair).saturating_sub(1)
    }

    pub(crate) fn insert(&mut self, at_ms: i64, hash: u64) {
        let pair = (at_ms, hash);
        if self.chunks.is_empty() {
            self.chunks.push(vec![pair]);
            return;
        }
        let mut index = self.chunk_of(pair);
        let Err(mut place) = self.chunks[index].binary_search(&pair) else { return };
        if self.chunks[index].len() == CHUNK_PAIRS {
            // Times mostly ascend: at the end of all, the full chunk stays full.
            let is_last = index + 1 == self.chunks.len() && place == CHUNK_PAIRS;
            let keep = if is_last { CHUNK_PAIRS } else { CHUNK_PAIRS / 2 };
            let upper = self.chunks[index].split_off(keep);
            self.chunks.insert(index + 1, upper);
            if place > keep || is_last {
                (index, place) = (index + 1, place - keep);
            }
        }
        self.chunks[index].insert(place, pair);
    }

    pub(crate) fn remove(&mut self, at_ms: i64, hash: u64) {
        let pair = (at_ms, hash);
        let index = self.chunk_of(pair);
        let Some(chunk) = self.chunks.get_mut(index) else { return };
        let Ok(place) = chunk.binary_search(&pair) else { return };
        chunk.remove(place);
        self.shrink(index);
    }

    /// Joins a chunk that has become small with the next one, so that there are few chunks for few pairs.
    fn shrink(&mut self, index: usize) {
        let len = self.chunks[index].len();
        if len == 0 {
            self.chunks.remove(index);
        } else if len <= CHUNK_PAIRS / 4
            && self.chunks.get(index + 1).is_some_and(|next| len + next.len() <= CHUNK_PAIRS / 2)
        {
            let mut next = self.chunks.remove(index + 1);
            self.chunks[index].append(&mut next);
        }
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
    }

    /// Number of pairs, in time that grows with the number of chunks.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
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
        self.chunks.first().map(|chunk| chunk[0].0)
    }

    /// The earliest pair.
    pub(crate) fn first(&self) -> Option<(i64, u64)> {
        self.chunks.first().map(|chunk| chunk[0])
    }

    /// Takes out the earliest pair that is due by `now_ms`.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<(i64, u64)> {
        let first = self.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        self.chunks[0].remove(0);
        self.shrink(0);
        Some(first)
    }

    /// A pair, each with the same chance. `pick` gives a random number below its argument.
    pub(crate) fn random(&self, mut pick: impl FnMut(usize) -> usize) -> Option<(i64, u64)> {
        if self.chunks.is_empty() {
            return None;
        }
        loop {
            // Places that are not taken are drawn as often as others, and drawn again.
            let chunk = &self.chunks[pick(self.chunks.len())];
            if let Some(pair) = chunk.get(pick(CHUNK_PAIRS)) {
                return Some(*pair);
            }
        }
    }

    /// Sum over the next `sample` times of milliseconds left, 0 for those that have passed, and how many
    /// times those are.
    pub(crate) fn ttl_sum_ms(&self, now_ms: i64, sample: usize) -> (u128, usize) {
        let mut sum = 0u128;
        let mut count = 0;
        for (at_ms, _) in self.chunks.iter().flatten().take(sample) {
            sum += at_ms.saturating_sub(now_ms).max(0) as u128;
            count += 1;
        }
        (sum, count)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_PAIRS, ExpiryIndex};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(index: &ExpiryIndex, model: &BTreeSet<(i64, u64)>) {
        assert!(index.chunks.iter().all(|chunk| (1..=CHUNK_PAIRS).contains(&chunk.len())));
        assert!(index.chunks.iter().flatten().eq(model.iter()));
        assert_eq!((index.len(), index.first()), (model.len(), model.first().copied()));
        for most in [0, 1, 200] {
            assert_eq!(index.len_up_to(most), model.len().min(most));
        }
        assert_eq!(index.next_ms(), model.first().map(|(at_ms, _)| *at_ms));
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_set(
            steps in prop::collection::vec((0..4u8, 0..50i64, 0..20u64), 1..3_000),
            ascending in any::<bool>(),
        ) {
            let (mut index, mut model) = (ExpiryIndex::default(), BTreeSet::new());
            for (number, (step, at_ms, hash)) in steps.into_iter().enumerate() {
                let at_ms = if ascending { number as i64 / 3 } else { at_ms };
                match step {
                    0 | 1 => {
                        index.insert(at_ms, hash);
                        model.insert((at_ms, hash));
                    }
                    2 => {
                        index.remove(at_ms, hash);
                        model.remove(&(at_ms, hash));
                    }
                    _ => {
                        let due = model.first().copied().filter(|pair| pair.0 <= at_ms);
                        assert_eq!(index.pop_due(at_ms), due);
                        due.map(|pair| model.remove(&pair));
                    }
                }
            }
            check(&index, &model);
            for pair in model.clone() {
                index.remove(pair.0, pair.1);
                model.remove(&pair);
            }
            check(&index, &model);
            assert!(index.chunks.is_empty());
        }
    }

    #[test]
    fn every_pair_is_drawn_as_often_as_any_other() {
        let mut index = ExpiryIndex::default();
        let mut random = martlet_base::random::Random::seeded(7);
        assert_eq!(index.random(|below| random.below(below as u64) as usize), None);
        (0..500).for_each(|number: i64| index.insert(number * number % 1_000_003, number as u64));
        let mut drawn = [0u32; 500];
        for _ in 0..200_000 {
            let pair = index.random(|below| random.below(below as u64) as usize).unwrap();
            drawn[pair.1 as usize] += 1;
        }
        // 400 expected, with a deviation of 20.
        assert!(drawn.iter().all(|count| (280..520).contains(count)), "{drawn:?}");
    }
}
