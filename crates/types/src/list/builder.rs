//! A list as it is built from its head to its tail: the elements are gathered until they fill a chunk, which
//! is then made in one piece and as large as they need.

use super::chunk::{CHUNK_MAX_LEN, Chunk, LARGE_BYTES, PAGE_MAX_BYTES, SLOT_BYTES};
use super::chunked::Chunked;
use super::{List, PACKED_MAX_BYTES, PACKED_MAX_LEN};
use crate::element::Element;
use crate::packed::encoding::{Encoded, decode_at};
use crate::packed::listpack::entry_bytes;
use crate::packed::{HEADER_BYTES, Packed};
use crate::tagged::TaggedBox;
use martlet_base::copy;

/// Elements of a list to come; see the module's description.
pub struct ListBuilder {
    chunked: Chunked,
    gathered: Gathered,
}

/// Encoded elements, one after another, few enough for one chunk, none of them large.
#[derive(Default)]
pub(super) struct Gathered {
    pub bytes: Vec<u8>,
    /// Where each begins.
    pub places: Vec<u16>,
    /// Bytes that they would take in a listpack, its header apart.
    pub listpack_bytes: usize,
}

impl Gathered {
    #[inline]
    fn has_room(&self, size: usize) -> bool {
        self.places.len() < CHUNK_MAX_LEN
            && self.bytes.len() + size + (self.places.len() + 1) * SLOT_BYTES <= PAGE_MAX_BYTES
    }

    /// Notes an element of `size` bytes that is about to be appended, and begins with this one.
    #[inline]
    fn note(&mut self, size: usize, tag: u8) {
        self.places.push(self.bytes.len() as u16);
        self.listpack_bytes += entry_bytes(size, tag);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.listpack_bytes = 0;
    }
}

impl ListBuilder {
    /// For a list that has no elements yet.
    pub fn new() -> ListBuilder {
        ListBuilder { chunked: Chunked::new(), gathered: Gathered::default() }
    }

    /// Adds an element behind the others.
    #[inline]
    pub fn push<'e>(&mut self, element: impl Into<Element<'e>>) {
        let code = Encoded::new(element.into());
        if code.size() > LARGE_BYTES {
            self.end_chunk();
            return self.chunked.push_chunk(Chunk::of(&code, 0));
        }
        self.make_room(code.size());
        self.gathered.note(code.size(), code.head()[0]);
        self.gathered.bytes.extend_from_slice(code.head());
        copy::extend(&mut self.gathered.bytes, code.body);
    }

    /// Adds a short element behind the others: the first `size` bytes of `packed`, which are as they lie both
    /// here and in a listpack.
    #[inline(always)]
    pub fn push_packed(&mut self, packed: &[u8], size: usize) {
        debug_assert!(Encoded::new(decode_at(packed, 0).0).is_at(&packed[..size]));
        self.make_room(size);
        self.gathered.note(size, packed[0]);
        copy::extend_prefix(&mut self.gathered.bytes, packed, size);
    }

    #[inline]
    fn make_room(&mut self, size: usize) {
        if !self.gathered.has_room(size) {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        if !self.gathered.places.is_empty() {
            let Gathered { bytes, places, listpack_bytes } = &self.gathered;
            self.chunked.push_chunk(Chunk::of_encoded(bytes, places, *listpack_bytes));
            self.gathered.clear();
        }
    }

    /// The list.
    pub fn finish(mut self) -> List {
        let Gathered { bytes, places, .. } = &self.gathered;
        let is_small = places.len() <= PACKED_MAX_LEN && HEADER_BYTES + bytes.len() <= PACKED_MAX_BYTES;
        if self.chunked.len() == 0 && is_small {
            return List { form: Packed::of_encoded(bytes, places.len()).into() };
        }
        self.end_chunk();
        List { form: TaggedBox::new(self.chunked).into() }
    }
}

impl Default for ListBuilder {
    fn default() -> ListBuilder {
        ListBuilder::new()
    }
}

impl<'e, E: Into<Element<'e>>> Extend<E> for ListBuilder {
    fn extend<I: IntoIterator<Item = E>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}
