//! How large the keys of a database are: how many of each type have how many bytes or elements, by powers of
//! two.
//!
//! Invariant: [`Sizes`] counts each entry of the table once, under the size that it has; while an
//! [`ObjectMut`](crate::ObjectMut) lives, its collection counts under the size that it had before.

use crate::entry::RawEntry;
use crate::value::Kind;
use crate::view::Entry;

/// Size classes: 0, then from 2^(i-1) up to the next power of two; no memory holds more than the last.
pub const SIZE_BINS: usize = 48;
/// Numbers of types, one of which does not occur here (rate limits).
const KINDS: usize = 10;

/// Number of keys by type and size; INFO's `keysizes`. Types of which there has been no key take no room: of
/// each database there is one of these per shard.
#[derive(Debug, Default)]
pub struct Sizes([Option<Box<Counts>>; KINDS]);

/// Number of keys by size.
#[derive(Debug)]
struct Counts {
    /// Bins above have never had a key: a walk over many databases leaves them out.
    used: usize,
    bins: [u32; SIZE_BINS],
}

/// The bin that a size belongs to.
#[inline]
pub(crate) fn bin(size: usize) -> usize {
    (usize::BITS - size.leading_zeros()) as usize
}

impl Sizes {
    /// Number of keys of this type by size, below 1, 2, 4, 8 and so on, up to the largest size that there has
    /// been; `None` if there has been no such key.
    pub fn of(&self, kind: Kind) -> Option<&[u32]> {
        self.0[kind as usize].as_deref().map(|counts| &counts.bins[..counts.used])
    }

    fn counts(&self, kind: usize) -> &[u32; SIZE_BINS] {
        self.0[kind].as_deref().map_or(&[0; SIZE_BINS], |counts| &counts.bins)
    }

    #[inline]
    fn add(&mut self, kind: Kind, size: usize, change: i32) {
        let counts =
            self.0[kind as usize].get_or_insert_with(|| Box::new(Counts { used: 0, bins: [0; SIZE_BINS] }));
        let at = bin(size);
        counts.used = counts.used.max(at + 1);
        let count = &mut counts.bins[at];
        debug_assert!(change > 0 || *count > 0, "no {kind:?} of size {size} is there");
        *count = count.wrapping_add_signed(change);
    }

    /// An entry comes into the table.
    #[inline]
    pub(crate) fn enter(&mut self, entry: RawEntry) {
        self.add(entry.kind(), entry.size(), 1);
    }

    /// An entry leaves the table.
    #[inline]
    pub(crate) fn leave(&mut self, entry: RawEntry) {
        self.add(entry.kind(), entry.size(), -1);
    }

    /// An entry of this type has another size.
    pub(crate) fn resize(&mut self, kind: Kind, old: usize, new: usize) {
        self.add(kind, old, -1);
        self.add(kind, new, 1);
    }
}

impl PartialEq for Sizes {
    fn eq(&self, other: &Sizes) -> bool {
        (0..KINDS).all(|kind| self.counts(kind) == other.counts(kind))
    }
}

/// Counts entries from scratch, as a check.
impl<'a> FromIterator<Entry<'a>> for Sizes {
    fn from_iter<I: IntoIterator<Item = Entry<'a>>>(entries: I) -> Self {
        let mut sizes = Sizes::default();
        entries.into_iter().for_each(|entry| sizes.add(entry.kind(), entry.size(), 1));
        sizes
    }
}
