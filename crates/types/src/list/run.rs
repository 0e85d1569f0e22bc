//! Neighbouring elements of a list that lie in one block, to be written as they lie there.

use super::chunk::Chunk;
use crate::element::Element;
use crate::packed::Packed;
use crate::packed::encoding::Encoded;
use crate::packed::listpack::entry_bytes;

/// Neighbouring elements; see [`super::List::runs`].
#[derive(Clone, Copy)]
pub struct Run<'a>(Block<'a>);

#[derive(Clone, Copy)]
enum Block<'a> {
    Packed(&'a Packed),
    Chunk(&'a Chunk),
}

impl<'a> Run<'a> {
    pub(super) fn of_packed(packed: &'a Packed) -> Run<'a> {
        Run(Block::Packed(packed))
    }

    pub(super) fn of_chunk(chunk: &'a Chunk) -> Run<'a> {
        Run(Block::Chunk(chunk))
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty, reason = "a run of a list that has elements is never empty")]
    pub fn len(&self) -> usize {
        match self.0 {
            Block::Packed(packed) => packed.len(),
            Block::Chunk(chunk) => chunk.len(),
        }
    }

    /// The first element.
    pub fn first(&self) -> Option<Element<'a>> {
        match self.0 {
            Block::Packed(packed) => packed.get(0),
            Block::Chunk(chunk) => (chunk.len() > 0).then(|| chunk.get(0)),
        }
    }

    /// Bytes of the elements as entries of Redis' listpack.
    pub fn listpack_bytes(&self) -> usize {
        match self.0 {
            Block::Chunk(chunk) => chunk.listpack_bytes(),
            Block::Packed(packed) => {
                let entry = |element| {
                    let code = Encoded::new(element);
                    entry_bytes(code.size(), code.head()[0])
                };
                packed.iter().map(entry).sum()
            }
        }
    }

    /// Appends those entries to `out`.
    pub fn write_listpack(&self, out: &mut Vec<u8>) {
        match self.0 {
            Block::Packed(packed) => packed.write_listpack(out),
            Block::Chunk(chunk) => chunk.write_listpack(out),
        }
    }
}
