//! Iteration over a set in any encoding.

use super::{Member, STEP};
use crate::element::Element;
use crate::table::{Entry, Members};
use crate::timed::time_of;
use crate::{intset, packed, table};

/// All members, expired ones included.
pub enum Iter<'a> {
    /// Of an intset.
    Intset(intset::Iter<'a>),
    /// Of a listpack.
    Packed(packed::Iter<'a>),
    /// Of a hashtable.
    Table(table::Iter<'a, Members>),
    /// Of a listpackex.
    Timed(packed::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Member<'a>;

    #[inline]
    fn next(&mut self) -> Option<Member<'a>> {
        match self {
            Iter::Intset(ints) => ints.next().map(|int| Member::lasting(Element::Int(int))),
            Iter::Packed(members) => members.next().map(Member::lasting),
            Iter::Table(entries) => entries.next().map(Member::from),
            Iter::Timed(elements) => {
                let (element, time) = (elements.next()?, elements.next()?);
                Some(Member { element, expire_at_ms: time_of(time) })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Intset(ints) => ints.size_hint(),
            Iter::Packed(members) => members.size_hint(),
            Iter::Table(entries) => entries.size_hint(),
            Iter::Timed(elements) => (elements.len() / STEP, Some(elements.len() / STEP)),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> From<Entry<'a>> for Member<'a> {
    #[inline]
    fn from(entry: Entry<'a>) -> Member<'a> {
        Member { element: Element::Bytes(entry.field), expire_at_ms: entry.expire_at_ms }
    }
}
