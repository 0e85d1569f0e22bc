//! Iteration over a set in any encoding.

use crate::element::Element;
use crate::table::Members;
use crate::{intset, packed, table};

/// All members.
pub enum Iter<'a> {
    /// Of an intset.
    Intset(intset::Iter<'a>),
    /// Of a listpack.
    Packed(packed::Iter<'a>),
    /// Of a hashtable.
    Table(table::Iter<'a, Members>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        match self {
            Iter::Intset(ints) => ints.next().map(Element::Int),
            Iter::Packed(members) => members.next(),
            Iter::Table(entries) => entries.next().map(|entry| Element::Bytes(entry.field)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Intset(ints) => ints.size_hint(),
            Iter::Packed(members) => members.size_hint(),
            Iter::Table(entries) => entries.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}
