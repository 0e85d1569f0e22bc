//! BF.SCANDUMP and BF.LOADCHUNK: a header, then the links' tables one after the other in pieces.
//!
//! The header is RedisBloom's packed structure, little-endian: size (8 bytes), number of links (4), options
//! (4), growth (4); for each link bytes (8), bits (8), size (8), error (8), bits per entry (8), hashes (4),
//! capacity (8) and log2 of the bits (1). Positions start at 1; the position that a client gets with a piece
//! is the one after it.

use super::link::{Header, Link};
use super::{Bloom, BloomError, LINKS_MAX};
use crate::packed::{Chunk, Packed, copy_range};
use crate::pages::Pages;
use crate::{CHUNK_MAX_BYTES, TABLE_MAX_BYTES};

const HEADER_BYTES: usize = 20;
const LINK_BYTES: usize = 53;

impl Bloom {
    /// The piece of the filter at a position; the header at 0.
    pub fn scan_dump(&self, position: i64) -> Chunk {
        if position == 0 {
            return Chunk { next: 1, bytes: self.header() };
        }
        let Some((link, offset)) = self.locate(position) else { return Chunk { next: 0, bytes: Vec::new() } };
        let table = &self.links[link].table;
        let count = (table.len() - offset).min(CHUNK_MAX_BYTES);
        Chunk { next: position + count as i64, bytes: copy_range(table, offset, count) }
    }

    /// The link that has the byte at a position, and where in its table.
    fn locate(&self, position: i64) -> Option<(usize, u64)> {
        let mut offset = u64::try_from(position.checked_sub(1)?).ok()?;
        for (at, link) in self.links.iter().enumerate() {
            if offset < link.table.len() {
                return Some((at, offset));
            }
            offset -= link.table.len();
        }
        None
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + LINK_BYTES * self.links.len());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend((self.links.len() as u32).to_le_bytes());
        bytes.extend(self.options.to_le_bytes());
        bytes.extend(self.growth.to_le_bytes());
        for link in &self.links {
            bytes.extend(link.table.len().to_le_bytes());
            bytes.extend(link.header.bits.to_le_bytes());
            bytes.extend(link.header.size.to_le_bytes());
            bytes.extend(link.header.error.to_le_bytes());
            bytes.extend(link.header.bits_per_entry.to_le_bytes());
            bytes.extend(link.header.hashes.to_le_bytes());
            bytes.extend(link.header.entries.to_le_bytes());
            bytes.push(link.header.log2_bits);
        }
        bytes
    }

    /// A filter without bits from the first piece of a dump: LOADCHUNK at position 1 of a key that does not
    /// exist.
    ///
    /// # Errors
    /// [`BloomError::BadData`].
    pub fn from_header(bytes: &[u8]) -> Result<Bloom, BloomError> {
        let mut packed = Packed(bytes);
        let size = packed.u64();
        let links = packed.u32() as usize;
        let (options, growth) = (packed.u32(), packed.u32());
        if !(1..=LINKS_MAX).contains(&links) || bytes.len() != HEADER_BYTES + LINK_BYTES * links {
            return Err(BloomError::BadData);
        }
        let mut bloom = Bloom { size, options, growth, links: Vec::with_capacity(links) };
        let mut room = TABLE_MAX_BYTES;
        for _ in 0..links {
            let (table_bytes, bits, size) = (packed.u64(), packed.u64(), packed.u64());
            let (error, bits_per_entry) = (packed.f64(), packed.f64());
            let (hashes, entries) = (packed.u32(), packed.u64());
            let [log2_bits] = packed.take();
            let header = Header { entries, error, bits_per_entry, hashes, log2_bits, bits, size };
            if !header.is_sound(table_bytes) || bits != table_bytes * 8 {
                return Err(BloomError::BadData);
            }
            room = room.checked_sub(table_bytes).ok_or(BloomError::BadData)?;
            bloom.links.push(Link::with_table(header, Pages::zeroed(table_bytes)));
        }
        bloom.check().map_err(|_| BloomError::BadData)
    }

    /// Puts a piece of a dump into the filter. `position` is the one that SCANDUMP gave with it: the one
    /// after it.
    ///
    /// # Errors
    /// [`BloomError::BadData`], [`BloomError::NoLink`] or [`BloomError::ChunkTooBig`]; nothing has changed
    /// then.
    pub fn load_chunk(&mut self, position: i64, bytes: &[u8]) -> Result<(), BloomError> {
        if position <= 0 || (position as u64) < bytes.len() as u64 {
            return Err(BloomError::BadData);
        }
        let (link, offset) = self.locate(position - bytes.len() as i64).ok_or(BloomError::NoLink)?;
        let table = &mut self.links[link].table;
        if bytes.len() as u64 > table.len() - offset {
            return Err(BloomError::ChunkTooBig);
        }
        table.write(offset, bytes);
        Ok(())
    }
}
