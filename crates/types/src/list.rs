//! `List`: a Redis list, packed in one block while it is small and in chunks above.
//!
//! OBJECT ENCODING's answer, `listpack` or `quicklist`, follows Redis' rules for when a list converts, which
//! depend on `list-max-listpack-size` and the bytes that a listpack would take ([`List::before_growth`],
//! [`List::after_shrink`]). The real encoding of the list follows from its size alone: up to
//! [`PACKED_MAX_LEN`] elements and [`PACKED_MAX_BYTES`] in a [`Packed`], where finding an index or the last
//! element walks all before it, and above that in chunks, where no operation does.
//!
//! Invariant: a packed list counts as `listpack`. A clone shares the chunks and costs the same for any
//! length; writes to either copy copy the touched parts.

mod builder;
mod chunk;
mod chunked;
mod debris;
mod iter;
mod run;
#[cfg(test)]
mod tests;
mod tree;

use crate::element::Element;
use crate::packed::encoding::Encoded;
use crate::packed::{Packed, Pos};
use crate::tagged::{TaggedBox, one_word};
pub use builder::ListBuilder;
use chunked::Chunked;
pub use debris::Debris;
pub use iter::Iter;
use martlet_base::prefetch::{Name, PrefetchQueue, ProbeStep, Progress};
pub use run::Run;
use std::fmt;
use std::ops::ControlFlow;
pub use tree::End;

/// Most elements of a list held in one packed block.
const PACKED_MAX_LEN: usize = 64;
/// Most bytes of a list held in one packed block, its header included.
const PACKED_MAX_BYTES: usize = 1024;
/// A list in chunks returns to a packed block when it has at most this many elements…
const UNCHUNK_MAX_LEN: usize = 32;
/// …of this many bytes.
const UNCHUNK_MAX_BYTES: usize = 512;
/// Bytes of a listpack without elements.
const LISTPACK_EMPTY_BYTES: usize = 7;

/// `list-max-listpack-size`: until which size a list counts as a listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLimit {
    /// Bytes of the listpack.
    Bytes(u32),
    /// Elements, in a listpack of at most 8,192 bytes.
    Count(u32),
}

impl ListLimit {
    /// The limit that the directive's value means: -1 to -5 are 4 to 64 kilobytes, others a count of at least
    /// one.
    pub const fn from_directive(value: i32) -> ListLimit {
        match value {
            ..=-5 => ListLimit::Bytes(65_536),
            -4..=-1 => ListLimit::Bytes(2048 << value.unsigned_abs()),
            0 => ListLimit::Count(1),
            _ => ListLimit::Count(value.unsigned_abs()),
        }
    }
}

impl Default for ListLimit {
    /// Redis' default, -2.
    fn default() -> ListLimit {
        ListLimit::from_directive(-2)
    }
}

/// A list; see the module's description.
#[derive(Clone)]
pub struct List {
    form: Word,
}

one_word! {
    Word, Form, FormMut {
        Packed(Packed),
        Chunked(TaggedBox<Chunked, 1>),
    }
}

impl List {
    /// An empty list.
    pub fn new() -> List {
        List { form: Packed::new().into() }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self.form.get() {
            Form::Packed(packed) => packed.len(),
            Form::Chunked(chunked) => chunked.len() as usize,
        }
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        if self.counts_as_listpack() { "listpack" } else { "quicklist" }
    }

    fn counts_as_listpack(&self) -> bool {
        match self.form.get() {
            Form::Packed(_) => true,
            Form::Chunked(chunked) => chunked.is_listpack,
        }
    }

    /// Bytes that the allocator gave for the list, estimated from a sample where it is long.
    pub fn heap_bytes(&self) -> usize {
        match self.form.get() {
            Form::Packed(packed) => packed.heap_bytes(),
            Form::Chunked(chunked) => chunked.heap_bytes(),
        }
    }

    /// Adds an element at an end.
    #[inline]
    pub fn push<'e>(&mut self, end: End, element: impl Into<Element<'e>>) {
        let element = element.into();
        let code = Encoded::new(element);
        loop {
            match self.form.get_mut() {
                FormMut::Chunked(chunked) => return chunked.push(end, &code),
                FormMut::Packed(packed) if fits_packed(packed, code.size()) => {
                    return match end {
                        End::Head => packed.push_front(element),
                        End::Tail => packed.push_back(element),
                    };
                }
                FormMut::Packed(_) => self.chunk(),
            }
        }
    }

    /// The element at an end.
    #[inline]
    pub fn peek(&self, end: End) -> Option<Element<'_>> {
        match end {
            End::Head => self.get(0),
            End::Tail => self.get(self.len().checked_sub(1)?),
        }
    }

    /// Removes the element at an end and returns what `show` made of it.
    #[inline]
    pub fn pop_with<R>(&mut self, end: End, show: impl FnOnce(Element<'_>) -> R) -> Option<R> {
        match self.form.get_mut() {
            FormMut::Packed(packed) => {
                let pos = match end {
                    End::Head => packed.first()?,
                    End::Tail => packed.seek(packed.len().checked_sub(1)?)?,
                };
                let result = show(packed.at(pos));
                packed.remove_at(pos, 1);
                Some(result)
            }
            FormMut::Chunked(chunked) if chunked.len() > 0 => Some(chunked.pop(end, show)),
            FormMut::Chunked(_) => None,
        }
    }

    /// Removes the element at an end and returns its bytes.
    pub fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        self.pop_with(end, |element| element.to_vec())
    }

    /// One probe step for an element by its index; worthwhile for long lists only.
    #[inline]
    pub fn queue_probe(&self, probe: ProbeStep, queue: &mut PrefetchQueue) -> Progress {
        let Name::Index(index) = probe.name else { return Progress::Done };
        let index = if index < 0 { index.saturating_add(self.len() as i64) } else { index };
        let Ok(index) = usize::try_from(index) else { return Progress::Done };
        match self.form.get() {
            Form::Chunked(chunked) if (index as u64) < chunked.len() => {
                let (chunk, within) = chunked.locate(index as u64);
                chunk.queue_probe(within, probe, queue)
            }
            _ => Progress::Done,
        }
    }

    /// The element at `index`, counted from the head.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Element<'_>> {
        match self.form.get() {
            Form::Packed(packed) => packed.get(index),
            Form::Chunked(chunked) => ((index as u64) < chunked.len()).then(|| chunked.get(index as u64)),
        }
    }

    /// Puts another element in the place of the one at `index`. Panics past the end.
    pub fn set<'e>(&mut self, index: usize, element: impl Into<Element<'e>>) {
        assert!(index < self.len(), "element {index} of {}", self.len());
        let element = element.into();
        let code = Encoded::new(element);
        if let FormMut::Packed(packed) = self.form.get_mut() {
            if packed.bytes_used() + code.size() <= PACKED_MAX_BYTES {
                return packed.replace(index, element);
            }
            self.chunk();
        }
        if let FormMut::Chunked(chunked) = self.form.get_mut() {
            chunked.set(index as u64, &code);
        }
    }

    /// Inserts an element so that it has `index`, at most the length. Panics past it.
    pub fn insert<'e>(&mut self, index: usize, element: impl Into<Element<'e>>) {
        assert!(index <= self.len(), "element {index} of {}", self.len());
        let element = element.into();
        let code = Encoded::new(element);
        if let FormMut::Packed(packed) = self.form.get_mut() {
            if fits_packed(packed, code.size()) {
                return packed.insert(index, element);
            }
            self.chunk();
        }
        if let FormMut::Chunked(chunked) = self.form.get_mut() {
            chunked.insert(index as u64, &code);
        }
    }

    /// The index of the first element equal to `needle` among those in `range`.
    pub fn find(&self, needle: &[u8], range: std::ops::Range<usize>) -> Option<usize> {
        match self.form.get() {
            Form::Packed(packed) => {
                let mut found = packed.iter().enumerate().skip(range.start).take(range.len());
                found.find(|(_, element)| element.eq_bytes(needle)).map(|(index, _)| index)
            }
            Form::Chunked(chunked) => {
                let code = Encoded::new(Element::parse(needle));
                chunked.find(&code, range.start as u64..self.bounded(range.end)).map(|index| index as usize)
            }
        }
    }

    /// The index of the last element equal to `needle` among those in `range`.
    pub fn rfind(&self, needle: &[u8], range: std::ops::Range<usize>) -> Option<usize> {
        match self.form.get() {
            Form::Packed(packed) => {
                let found = packed.iter().enumerate().skip(range.start).take(range.len());
                found.filter(|(_, element)| element.eq_bytes(needle)).last().map(|(index, _)| index)
            }
            Form::Chunked(chunked) => {
                let code = Encoded::new(Element::parse(needle));
                chunked.rfind(&code, range.start as u64..self.bounded(range.end)).map(|index| index as usize)
            }
        }
    }

    fn bounded(&self, index: usize) -> u64 {
        index.min(self.len()) as u64
    }

    /// Removes up to `most` elements equal to `needle`, from the head on or from the tail on; how many.
    pub fn remove_matches(&mut self, needle: &[u8], most: usize, from: End) -> usize {
        match self.form.get_mut() {
            FormMut::Chunked(chunked) => {
                let code = Encoded::new(Element::parse(needle));
                chunked.remove_matches(&code, most as u64, from) as usize
            }
            FormMut::Packed(packed) => {
                let mut matching: Vec<Pos> = packed.positions();
                matching.retain(|&pos| packed.at(pos).eq_bytes(needle));
                match from {
                    End::Head => matching.truncate(most),
                    End::Tail => {
                        matching.drain(..matching.len().saturating_sub(most));
                    }
                }
                // From the last on, so that the places before stay valid.
                matching.iter().rev().for_each(|&pos| packed.remove_at(pos, 1));
                matching.len()
            }
        }
    }

    /// Removes up to `count` elements at an end. A part that is too large to free at once is returned, to be
    /// freed in slices.
    pub fn cut(&mut self, end: End, count: usize) -> Option<Debris> {
        let len = self.len();
        let count = count.min(len);
        match self.form.get_mut() {
            FormMut::Packed(packed) => {
                packed.remove_range(if end == End::Head { 0 } else { len - count }, count);
                None
            }
            FormMut::Chunked(chunked) => {
                let mut parts = Vec::new();
                chunked.cut(end, count as u64, &mut parts);
                Debris::unless_small(parts)
            }
        }
    }

    /// Keeps `count` elements from `start` on, fewer where the list ends; else as [`List::cut`].
    pub fn trim(&mut self, start: usize, count: usize) -> Option<Debris> {
        let len = self.len();
        let start = start.min(len);
        let after = len - start.saturating_add(count).min(len);
        let tail = self.cut(End::Tail, after);
        let head = self.cut(End::Head, start);
        Debris::join(tail, head)
    }

    /// The elements from `start` on, towards the tail.
    pub fn iter_from(&self, start: usize) -> Iter<'_> {
        Iter::forward(self, start)
    }

    /// The elements from `start` on, towards the head.
    pub fn iter_back_from(&self, start: usize) -> Iter<'_> {
        Iter::backward(self, start)
    }

    /// All elements, head first.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(0)
    }

    /// Shows all elements, head first, in runs.
    pub fn runs(&self, mut show: impl FnMut(Run<'_>)) {
        match self.form.get() {
            Form::Packed(packed) => show(Run::of_packed(packed)),
            Form::Chunked(chunked) => {
                let _ = chunked.visit(&mut |chunk| {
                    show(Run::of_chunk(chunk));
                    ControlFlow::Continue(())
                });
            }
        }
    }

    /// To be called before `elements` of `bytes` in all are added or put in place of others: the list stops
    /// being a listpack if with them it would be above the limit, as in Redis.
    #[inline]
    pub fn before_growth(&mut self, limit: ListLimit, elements: usize, bytes: usize) {
        if self.counts_as_listpack() && self.exceeds(limit, elements, bytes) {
            self.chunk();
            if let FormMut::Chunked(chunked) = self.form.get_mut() {
                chunked.is_listpack = false;
            }
        }
    }

    /// To be called after elements were removed or replaced: the list becomes a listpack again if it is below
    /// half the limit, as in Redis, and returns to one block if it is small.
    #[inline]
    pub fn after_shrink(&mut self, limit: ListLimit) {
        if let Form::Chunked(chunked) = self.form.get() {
            let is_listpack = chunked.is_listpack || !self.exceeds_half(limit);
            self.settle(is_listpack);
        }
    }

    /// To be called on a list just built: a listpack if it is within the limit, as in Redis.
    pub fn after_building(&mut self, limit: ListLimit) {
        let is_listpack = !self.exceeds(limit, 0, 0);
        if !is_listpack {
            self.chunk();
        }
        self.settle(is_listpack);
    }

    /// Frees the list in slices; see [`Debris`]. A list that is one block is freed at once.
    pub fn into_debris(mut self) -> Option<Debris> {
        match self.form.get_mut() {
            FormMut::Packed(_) => None,
            FormMut::Chunked(chunked) => {
                Debris::unless_small(std::mem::replace(&mut **chunked, Chunked::new()).into_parts())
            }
        }
    }

    /// Whether a listpack of this list and `elements` more of `bytes` in all is above the limit.
    fn exceeds(&self, limit: ListLimit, elements: usize, bytes: usize) -> bool {
        let (most_bytes, most_elements) = match limit {
            ListLimit::Bytes(bytes) => (bytes as usize, usize::MAX),
            ListLimit::Count(count) => (8192, count as usize),
        };
        let bytes = bytes.saturating_add(LISTPACK_EMPTY_BYTES);
        self.len().saturating_add(elements) > most_elements
            || most_bytes.checked_sub(bytes).is_none_or(|room| self.listpack_bytes_exceed(room))
    }

    /// Whether this list is above half the limit, which keeps a quicklist one.
    fn exceeds_half(&self, limit: ListLimit) -> bool {
        match limit {
            ListLimit::Count(count) => self.len() > count as usize / 2,
            ListLimit::Bytes(bytes) => {
                let room = (bytes as usize / 2).saturating_sub(LISTPACK_EMPTY_BYTES);
                // No entry of a listpack takes less than two bytes.
                self.len() > room / 2 || self.listpack_bytes_exceed(room)
            }
        }
    }

    fn listpack_bytes_exceed(&self, bytes: usize) -> bool {
        match self.form.get() {
            Form::Chunked(chunked) => chunked.listpack_bytes_exceed(bytes),
            Form::Packed(packed) => {
                // An entry takes up to four bytes more there than here: five-byte integers and the
                // back-length.
                packed.bytes_used() + 4 * packed.len() > bytes
                    && Run::of_packed(packed).listpack_bytes() > bytes
            }
        }
    }

    /// Goes from one block to chunks.
    #[cold]
    fn chunk(&mut self) {
        let Form::Packed(packed) = self.form.get() else { return };
        let mut chunked = Chunked::new();
        packed.iter().for_each(|element| chunked.push(End::Tail, &Encoded::new(element)));
        self.form = TaggedBox::new(chunked).into();
    }

    /// Notes whether the list counts as a listpack, and goes back to one block if it is small.
    fn settle(&mut self, is_listpack: bool) {
        let FormMut::Chunked(chunked) = self.form.get_mut() else { return };
        chunked.is_listpack = is_listpack;
        if !is_listpack || chunked.len() > UNCHUNK_MAX_LEN as u64 {
            return;
        }
        if !chunked.listpack_bytes_exceed(UNCHUNK_MAX_BYTES) {
            self.form = self.iter().collect::<Packed>().into();
        }
    }
}

/// Whether one more element of `size` bytes keeps a packed list within its bounds.
#[inline]
fn fits_packed(packed: &Packed, size: usize) -> bool {
    packed.len() < PACKED_MAX_LEN && packed.bytes_used() + size <= PACKED_MAX_BYTES
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'e, E: Into<Element<'e>>> FromIterator<E> for List {
    fn from_iter<I: IntoIterator<Item = E>>(elements: I) -> List {
        let mut builder = ListBuilder::new();
        builder.extend(elements);
        builder.finish()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = Element<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
