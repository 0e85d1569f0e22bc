//! Iteration over a range of ranks, in either direction.

use super::compact::{self, Pairs};
use super::full::Full;
use super::leaf::Leaf;
use super::{Entry, Form, ZSet};
use crate::element::Element;
use crate::packed::{Packed, Pos};
use std::ops::Range;

/// Entries of a range of ranks, in ascending or descending order; made by [`ZSet::range`].
pub struct Entries<'a> {
    source: Source<'a>,
    left: usize,
}

enum Source<'a> {
    Forward(Pairs<'a>),
    /// The places of the entries that are left, those to be given first last.
    Backward(&'a Packed, Vec<Pos>),
    Full(Walk<'a>),
}

/// A walk along the leaves: the next leaf is looked up by rank, so nothing but the current one is kept.
struct Walk<'a> {
    full: &'a Full,
    leaf: Option<&'a Leaf>,
    /// Rank in the leaf of the next entry; past its end, or wrapped below zero, when another leaf comes next.
    at: usize,
    /// Rank in the set of the next entry.
    rank: usize,
    /// The range's ends.
    start: usize,
    end: usize,
    reverse: bool,
}

impl<'a> Walk<'a> {
    #[inline]
    fn next(&mut self) -> Entry<'a> {
        let leaf = match self.leaf {
            Some(leaf) if self.at < leaf.len() => leaf,
            _ => {
                let (leaf, at) = self.full.at_rank(self.rank);
                (self.leaf, self.at) = (Some(leaf), at);
                self.fetch_next(leaf);
                leaf
            }
        };
        let (score, member) = leaf.entry(self.at);
        let step = if self.reverse { usize::MAX } else { 1 };
        self.at = self.at.wrapping_add(step);
        self.rank = self.rank.wrapping_add(step);
        Entry { member: Element::Bytes(member), score }
    }
}

impl Walk<'_> {
    /// Has the leaf fetched that comes after this one, while this one is read.
    #[inline]
    fn fetch_next(&self, leaf: &Leaf) {
        let next = if self.reverse {
            self.rank.checked_sub(self.at + 1)
        } else {
            Some(self.rank + leaf.len() - self.at).filter(|&rank| rank < self.end)
        };
        if let Some(rank) = next.filter(|&rank| rank >= self.start) {
            self.full.at_rank(rank).0.prefetch_all();
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Source::Forward(pairs) => pairs.next(),
            Source::Backward(packed, positions) => {
                let score = compact::score_of(packed.at(positions.pop()?));
                Some(Entry { member: packed.at(positions.pop()?), score })
            }
            Source::Full(walk) => Some(walk.next()),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Entries<'_> {}

impl ZSet {
    /// The entries at `ranks`, cut off at the length, from the lowest on, or with `reverse` from the highest.
    pub fn range(&self, ranks: Range<usize>, reverse: bool) -> Entries<'_> {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        let source = match self.form.get() {
            Form::Packed(packed) if reverse => {
                let mut positions = packed.positions();
                positions.truncate(end * 2);
                positions.drain(..start * 2);
                Source::Backward(packed, positions)
            }
            Form::Packed(packed) => {
                let mut elements = packed.iter();
                elements.by_ref().take(start * 2).for_each(drop);
                Source::Forward(Pairs(elements))
            }
            Form::Full(full) => {
                let rank = if reverse { end.wrapping_sub(1) } else { start };
                Source::Full(Walk { full, leaf: None, at: 0, rank, start, end, reverse })
            }
        };
        Entries { source, left: end - start }
    }

    /// All entries in order.
    pub fn iter(&self) -> Entries<'_> {
        self.range(0..usize::MAX, false)
    }
}

impl<'a> IntoIterator for &'a ZSet {
    type Item = Entry<'a>;
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}
