//! Iteration over a hash in any encoding.

use super::{Field, NO_EXPIRY, timed};
use crate::element::Element;
use crate::table::{Entry, Fields};
use crate::{packed, table};

/// All fields, expired ones included.
pub enum Iter<'a> {
    /// Of a listpack.
    Packed(packed::Iter<'a>),
    /// Of a listpackex.
    Timed(timed::Iter<'a>),
    /// Of a hashtable.
    Table(table::Iter<'a, Fields>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        match self {
            Iter::Packed(elements) => {
                let (name, value) = (elements.next()?, elements.next()?);
                Some(Field { name, value, expire_at_ms: NO_EXPIRY })
            }
            Iter::Timed(fields) => fields.next(),
            Iter::Table(entries) => entries.next().map(Field::from),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Packed(elements) => (elements.len() / 2, Some(elements.len() / 2)),
            Iter::Timed(fields) => fields.size_hint(),
            Iter::Table(entries) => entries.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> From<Entry<'a>> for Field<'a> {
    #[inline]
    fn from(entry: Entry<'a>) -> Field<'a> {
        Field {
            name: Element::Bytes(entry.field),
            value: Element::Bytes(entry.value),
            expire_at_ms: entry.expire_at_ms,
        }
    }
}
