//! The documents of a window: one bit for each of `WINDOW` ids in a row. Queries are evaluated a window at a
//! time.

use super::DocId;

/// Ids of a window.
pub const WINDOW: usize = 1 << 14;
const WORDS: usize = WINDOW / 64;

/// A set of the ids from `base` on, `base` being a multiple of [`WINDOW`].
#[derive(Clone, Debug)]
pub struct Bits {
    base: DocId,
    words: Box<[u64; WORDS]>,
}

impl Bits {
    /// No ids of the window that begins at `base`.
    pub fn empty(base: DocId) -> Bits {
        Bits { base, words: Box::new([0; WORDS]) }
    }

    /// All ids of the window that begins at `base`.
    pub fn full(base: DocId) -> Bits {
        Bits { base, words: Box::new([u64::MAX; WORDS]) }
    }

    /// The bits, 64 in a word.
    pub fn words(&self) -> &[u64] {
        &*self.words
    }

    /// Takes all ids out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The first id of the window.
    pub fn base(&self) -> DocId {
        self.base
    }

    /// The first id behind the window.
    pub fn end(&self) -> DocId {
        self.base.saturating_add(WINDOW as u64)
    }

    /// Whether `id` lies in the window.
    pub fn covers(&self, id: DocId) -> bool {
        id.wrapping_sub(self.base) < WINDOW as u64
    }

    /// Adds `id`, which the window covers.
    #[inline(always)]
    pub fn insert(&mut self, id: DocId) {
        let at = id.wrapping_sub(self.base) as usize % WINDOW;
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// Takes out the ids from `end` on.
    pub fn truncate(&mut self, end: DocId) {
        let end = end.saturating_sub(self.base).min(WINDOW as u64) as usize;
        if let Some(word) = self.words.get_mut(end / 64) {
            *word &= (1 << (end % 64)) - 1;
            self.words[end / 64 + 1..].fill(0);
        }
    }

    /// Takes `id` out, which the window covers.
    #[inline(always)]
    pub fn remove(&mut self, id: DocId) {
        let at = id.wrapping_sub(self.base) as usize % WINDOW;
        self.words[at / 64] &= !(1 << (at % 64));
    }

    /// Whether `id` is there.
    #[inline(always)]
    pub fn contains(&self, id: DocId) -> bool {
        let at = id.wrapping_sub(self.base);
        at < WINDOW as u64 && self.words[at as usize / 64] >> (at % 64) & 1 == 1
    }

    /// Adds the ids of a run of words, the first of which begins at `base + 64 * word`.
    pub fn insert_words(&mut self, word: usize, source: &[u64]) {
        for (to, from) in self.words.iter_mut().skip(word).zip(source) {
            *to |= from;
        }
    }

    /// Keeps what `other`, of the same window, has.
    pub fn and(&mut self, other: &Bits) {
        for (to, from) in self.words.iter_mut().zip(other.words.iter()) {
            *to &= from;
        }
    }

    /// Takes out what `other`, of the same window, has.
    pub fn and_not(&mut self, other: &Bits) {
        for (to, from) in self.words.iter_mut().zip(other.words.iter()) {
            *to &= !from;
        }
    }

    /// Adds what `other`, of the same window, has.
    pub fn or(&mut self, other: &Bits) {
        for (to, from) in self.words.iter_mut().zip(other.words.iter()) {
            *to |= from;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The words with ids between `low` and `high`, both included: the number of each, and its bits among
    /// these.
    #[inline]
    fn words_between(&self, low: DocId, high: DocId) -> impl Iterator<Item = (usize, u64)> + '_ {
        let low = low.saturating_sub(self.base) as usize;
        let high = high.saturating_sub(self.base);
        let (first, last) = (low / 64, (high / 64).min(WORDS as u64 - 1) as usize);
        let own = self.words.get(first..=last).unwrap_or_default();
        own.iter().enumerate().map(move |(at, &word)| {
            let from = if at == 0 { u64::MAX << (low % 64) } else { u64::MAX };
            let to = if (first + at) as u64 == high / 64 { u64::MAX >> (63 - high % 64) } else { u64::MAX };
            (first + at, word & from & to)
        })
    }

    /// How many ids between `low` and `high`, both included, there are.
    #[inline]
    pub fn count_between(&self, low: DocId, high: DocId) -> u32 {
        self.words_between(low, high).map(|(_, word)| word.count_ones()).sum()
    }

    /// The ids between `low` and `high`, both included, ascending.
    #[inline]
    pub fn between(&self, low: DocId, high: DocId) -> impl Iterator<Item = DocId> + '_ {
        self.words_between(low, high).flat_map(move |(at, word)| {
            let base = self.base + at as u64 * 64;
            std::iter::successors((word != 0).then_some(word), |&rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| base + u64::from(rest.trailing_zeros()))
        })
    }

    /// The smallest id, and the largest.
    pub fn bounds(&self) -> Option<(DocId, DocId)> {
        let first = self.words.iter().position(|&word| word != 0)?;
        let last = self.words.iter().rposition(|&word| word != 0)?;
        let low = first * 64 + self.words[first].trailing_zeros() as usize;
        let high = last * 64 + 63 - self.words[last].leading_zeros() as usize;
        Some((self.base + low as u64, self.base + high as u64))
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = DocId> + '_ {
        self.words.iter().enumerate().flat_map(move |(at, &word)| {
            let base = self.base + at as u64 * 64;
            std::iter::successors((word != 0).then_some(word), |&rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| base + u64::from(rest.trailing_zeros()))
        })
    }

    /// Keeps the ids of which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(DocId) -> bool) {
        for (at, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest & rest.wrapping_neg();
                if !keep(self.base + at as u64 * 64 + u64::from(bit.trailing_zeros())) {
                    *word &= !bit;
                }
                rest &= rest - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_a_window() {
        let base = 5 * WINDOW as u64;
        let mut a = Bits::empty(base);
        assert!(a.is_empty() && a.bounds().is_none() && a.iter().next().is_none());
        for id in [base, base + 63, base + 64, base + WINDOW as u64 - 1] {
            a.insert(id);
            assert!(a.contains(id));
        }
        assert!(!a.contains(base + 1) && !a.contains(base - 1) && !a.contains(a.end()));
        assert_eq!(a.count(), 4);
        assert_eq!(a.bounds(), Some((base, base + WINDOW as u64 - 1)));
        assert_eq!(a.iter().collect::<Vec<_>>(), [base, base + 63, base + 64, base + WINDOW as u64 - 1]);

        let mut b = Bits::full(base);
        b.remove(base + 63);
        let mut both = a.clone();
        both.and(&b);
        assert_eq!(both.count(), 3);
        let mut only = a.clone();
        only.and_not(&b);
        assert_eq!(only.iter().collect::<Vec<_>>(), [base + 63]);
        only.or(&both);
        assert_eq!(only.count(), 4);
        only.retain(|id| id % 2 == 0);
        assert_eq!(only.iter().collect::<Vec<_>>(), [base, base + 64]);
        for low in [base - 9, base, base + 1, base + 62, base + 64, base + 200] {
            for high in [base, base + 63, base + 127, base + 300, base + 2 * WINDOW as u64] {
                let between: Vec<DocId> = a.iter().filter(|&id| low <= id && id <= high).collect();
                assert_eq!(a.count_between(low, high) as usize, between.len(), "{low} {high}");
                assert!(a.between(low, high).eq(between), "{low} {high}");
            }
        }
        for end in
            [base - 1, base, base + 1, base + 63, base + 64, base + 65, base + 128, a.end(), a.end() + 9]
        {
            let mut cut = Bits::full(base);
            cut.truncate(end);
            assert!(cut.iter().eq(base..end.clamp(base, a.end())));
        }
        only.insert_words(1, &[0b11]);
        assert_eq!(only.iter().collect::<Vec<_>>(), [base, base + 64, base + 65]);
    }
}
