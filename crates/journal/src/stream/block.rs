//! Blocks of bytes to which one writer appends while other threads read the earlier part.
//!
//! Invariant: bytes below the writer's length never change, and a [`Chunk`] is always below it. So readers
//! need no lock, and a chunk may be kept for any time.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;

use martlet_base::copy;

struct Block {
    bytes: Box<[UnsafeCell<MaybeUninit<u8>>]>,
}

// SAFETY: bytes are written by the one `BlockWriter`, before a chunk with them exists; a chunk is handed from
// thread to thread as any other value, which orders the write before the read.
unsafe impl Sync for Block {}

/// Appends to a block.
pub(super) struct BlockWriter {
    block: Arc<Block>,
    len: usize,
}

impl BlockWriter {
    /// An empty block with room for `capacity` bytes.
    pub(super) fn new(capacity: usize) -> BlockWriter {
        let bytes = Box::new_uninit_slice(capacity);
        // SAFETY: a cell of possibly uninitialised bytes needs no initialisation.
        let bytes = unsafe { bytes.assume_init() };
        BlockWriter { block: Arc::new(Block { bytes }), len: 0 }
    }

    /// The block of a chunk, empty, if no other chunk refers to it.
    pub(super) fn reuse(chunk: Chunk) -> Option<BlockWriter> {
        let block = Arc::into_inner(chunk.block)?;
        Some(BlockWriter { block: Arc::new(block), len: 0 })
    }

    /// Empties the block if no chunk refers to it.
    pub(super) fn restart(&mut self) {
        if Arc::get_mut(&mut self.block).is_some() {
            self.len = 0;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.block.bytes.len()
    }

    /// Appends as many of `bytes` as there is room for; how many.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) -> usize {
        let room = &self.block.bytes[self.len..];
        let len = bytes.len().min(room.len());
        // SAFETY: `room` has at least `len` bytes, which lie above all chunks, and `&mut self` is the only
        // writer. What `UnsafeCell` contains may be written through a shared reference.
        unsafe { copy::copy(bytes.as_ptr(), UnsafeCell::raw_get(room.as_ptr()).cast(), len) };
        self.len += len;
        len
    }

    /// A part of the appended bytes.
    pub(super) fn chunk(&self, begin: usize, end: usize) -> Chunk {
        // Offsets that replicas ask for are no such places: `Log::attach` compares them with what there is.
        assert!(begin <= end && end <= self.len);
        Chunk { block: self.block.clone(), begin, end }
    }
}

/// Bytes of a block, which stays as long as there are chunks of it.
#[derive(Clone)]
pub struct Chunk {
    block: Arc<Block>,
    begin: usize,
    end: usize,
}

impl Chunk {
    /// The part of it from `begin` on, at most `len` bytes.
    #[must_use]
    pub fn part(&self, begin: usize, len: usize) -> Chunk {
        let begin = self.end.min(self.begin + begin);
        Chunk { block: self.block.clone(), begin, end: self.end.min(begin.saturating_add(len)) }
    }

    /// Where in its block it begins.
    pub(super) fn begin(&self) -> usize {
        self.begin
    }

    /// Bytes of memory that its block takes.
    pub(super) fn block_bytes(&self) -> usize {
        self.block.bytes.len()
    }

    /// Whether both are of one block.
    #[cfg(test)]
    pub(super) fn shares_block(&self, other: &Chunk) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
    }

    /// Takes the bytes appended from `begin` on in that writer's block; returns whether the chunk ends just
    /// there.
    #[inline]
    pub(super) fn extend(&mut self, writer: &BlockWriter, begin: usize) -> bool {
        let follows = Arc::ptr_eq(&self.block, &writer.block) && self.end == begin;
        if follows {
            self.end = writer.len;
        }
        follows
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes = &self.block.bytes[self.begin..self.end];
        // SAFETY: a chunk's bytes have been written, and no thread writes them again.
        unsafe { std::slice::from_raw_parts(UnsafeCell::raw_get(bytes.as_ptr()).cast(), bytes.len()) }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Chunk").field(&(self.end - self.begin)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_stays_while_others_append() {
        let mut writer = BlockWriter::new(8);
        assert_eq!(writer.append(b"abc"), 3);
        let mut chunk = writer.chunk(0, 3);
        let reader = std::thread::spawn({
            let chunk = chunk.clone();
            move || assert_eq!(&*chunk, b"abc")
        });
        assert_eq!(writer.append(b"defghi"), 5);
        reader.join().unwrap();
        assert!(
            !chunk.extend(&writer, 4) && chunk.extend(&writer, 3) && !chunk.extend(&BlockWriter::new(0), 8)
        );
        assert_eq!(
            (&*chunk.part(2, 3), &*chunk.part(7, 9), &*chunk.part(9, 1)),
            (&b"cde"[..], &b"h"[..], &b""[..])
        );
        assert_eq!((writer.append(b"x"), writer.append(b"")), (0, 0));
        assert!(BlockWriter::reuse(chunk.clone()).is_none());
        writer.restart();
        assert_eq!(writer.len(), 8);
        drop(writer);
        assert_eq!(&*chunk, b"abcdefgh");
        let mut again = BlockWriter::reuse(chunk).unwrap();
        assert_eq!((again.append(b"ijk"), &*again.chunk(1, 3)), (3, &b"jk"[..]));
        again.restart();
        assert_eq!((again.append(b"lm"), &*again.chunk(0, 2)), (2, &b"lm"[..]));
    }
}
