//! Elements of a list in order, from any index in either direction.

use super::chunk::Chunk;
use super::{Form, List};
use crate::element::Element;
use crate::packed::{Cursor, Packed, Pos};

/// Elements of a list; see [`List::iter_from`] and [`List::iter_back_from`].
pub struct Iter<'a> {
    source: Source<'a>,
    left: usize,
}

enum Source<'a> {
    Packed(Cursor<'a>),
    /// Places are collected for the way back: packed elements can only be walked forwards.
    PackedBack(&'a Packed, Vec<Pos>),
    Chunked {
        list: &'a super::Chunked,
        /// The chunk of the element that was given last, if any, and that element's index in it.
        chunk: Option<(&'a Chunk, usize)>,
        next: u64,
        backwards: bool,
    },
}

impl<'a> Iter<'a> {
    pub(super) fn forward(list: &'a List, start: usize) -> Iter<'a> {
        let source = match list.form.get() {
            Form::Packed(packed) => {
                Source::Packed(packed.iter_from(packed.seek(start).unwrap_or(packed.end())))
            }
            Form::Chunked(chunked) => {
                Source::Chunked { list: chunked, chunk: None, next: start as u64, backwards: false }
            }
        };
        Iter { source, left: list.len().saturating_sub(start) }
    }

    pub(super) fn backward(list: &'a List, start: usize) -> Iter<'a> {
        let left = start.saturating_add(1).min(list.len());
        let source = match list.form.get() {
            Form::Packed(packed) => {
                let mut places = packed.positions();
                places.truncate(left);
                Source::PackedBack(packed, places)
            }
            Form::Chunked(chunked) => Source::Chunked {
                list: chunked,
                chunk: None,
                next: left.wrapping_sub(1) as u64,
                backwards: true,
            },
        };
        Iter { source, left }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Source::Packed(cursor) => cursor.next(),
            Source::PackedBack(packed, places) => places.pop().map(|pos| packed.at(pos)),
            Source::Chunked { list, chunk, next, backwards } => {
                let here = match *chunk {
                    Some((page, at)) if !*backwards && at + 1 < page.len() => (page, at + 1),
                    Some((page, at)) if *backwards && at > 0 => (page, at - 1),
                    _ => list.locate(*next),
                };
                *chunk = Some(here);
                *next = if *backwards { next.wrapping_sub(1) } else { *next + 1 };
                Some(here.0.get(here.1))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
