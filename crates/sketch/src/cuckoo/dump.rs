//! CF.SCANDUMP and CF.LOADCHUNK: a header, then the filters' tables one after the other in pieces.
//!
//! The header is RedisBloom's packed structure, little-endian: items, buckets, deletions and number of
//! filters (8 bytes each), bucket size, iterations and expansion (2 each). Positions start at 1; the position
//! that a client gets with a piece is the one after it.

use super::filter::Filter;
use super::{Cuckoo, CuckooError, FILTERS_MAX};
use crate::field::narrow;
use crate::packed::{Chunk, Packed, copy_range};
use crate::{CHUNK_MAX_BYTES, TABLE_MAX_BYTES};

const HEADER_BYTES: usize = 38;

impl Cuckoo {
    /// The piece of the filter at a position; the header at 0. `None` where there is no more, or nothing was
    /// added: Redis answers position 0 and a null.
    pub fn scan_dump(&self, position: i64) -> Option<Chunk> {
        if self.items == 0 {
            return None;
        }
        if position == 0 {
            return Some(Chunk { next: 1, bytes: self.header() });
        }
        let (filter, offset) = self.locate(position.checked_sub(1)?)?;
        let table = &self.filters[filter].table;
        // A table that fits into a piece is given whole, wherever in it the position is.
        let (offset, count) = match table.len() <= CHUNK_MAX_BYTES {
            true => (0, table.len()),
            false => (offset, (table.len() - offset).min(CHUNK_MAX_BYTES)),
        };
        Some(Chunk { next: position.wrapping_add(count as i64), bytes: copy_range(table, offset, count) })
    }

    /// The filter that has the byte at an offset, and where in its table.
    fn locate(&self, offset: i64) -> Option<(usize, u64)> {
        let mut offset = u64::try_from(offset).ok()?;
        for (at, filter) in self.filters.iter().enumerate() {
            if offset < filter.table.len() {
                return Some((at, offset));
            }
            offset -= filter.table.len();
        }
        None
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(self.items.to_le_bytes());
        bytes.extend(self.buckets.to_le_bytes());
        bytes.extend(self.deletes.to_le_bytes());
        bytes.extend((self.filters.len() as u64).to_le_bytes());
        bytes.extend(u16::from(self.bucket_size).to_le_bytes());
        bytes.extend(self.max_iterations.to_le_bytes());
        bytes.extend(self.expansion.to_le_bytes());
        bytes
    }

    /// A filter without fingerprints from the first piece of a dump: LOADCHUNK at position 1 of a key that
    /// does not exist.
    ///
    /// # Errors
    /// [`CuckooError::HeaderLength`] or [`CuckooError::Header`].
    pub fn from_header(bytes: &[u8]) -> Result<Cuckoo, CuckooError> {
        if bytes.len() != HEADER_BYTES {
            return Err(CuckooError::HeaderLength);
        }
        let mut packed = Packed(bytes);
        let (items, buckets, deletes, filters) = (packed.u64(), packed.u64(), packed.u64(), packed.u64());
        let (bucket_size, max_iterations, expansion) = (packed.u16(), packed.u16(), packed.u16());
        let bucket_size =
            narrow(u64::from(bucket_size), "the bucket size").map_err(|_| CuckooError::Header)?;
        let mut cuckoo =
            Cuckoo { buckets, items, deletes, bucket_size, max_iterations, expansion, filters: Vec::new() };
        let is_sound = cuckoo.has_sound_options() && (1..=FILTERS_MAX as u64).contains(&filters);
        if !is_sound || (expansion == 0 && filters > 1) {
            return Err(CuckooError::Header);
        }
        let sizes: Option<Vec<u64>> = (0..filters as usize).map(|filter| cuckoo.buckets_of(filter)).collect();
        let sizes = sizes.ok_or(CuckooError::Header)?;
        let slots = |buckets: &u64| u128::from(*buckets) * u128::from(bucket_size);
        if sizes.iter().map(slots).sum::<u128>() > u128::from(TABLE_MAX_BYTES) {
            return Err(CuckooError::Header);
        }
        cuckoo.filters = sizes.into_iter().map(|buckets| Filter::new(buckets, bucket_size)).collect();
        Ok(cuckoo)
    }

    /// Puts a piece of a dump into the filter. `position` is the one that SCANDUMP gave with it: the one
    /// after it.
    ///
    /// # Errors
    /// [`CuckooError::Chunk`]; nothing has changed then.
    pub fn load_chunk(&mut self, position: i64, bytes: &[u8]) -> Result<(), CuckooError> {
        let start = position.checked_sub(1).and_then(|end| end.checked_sub(bytes.len() as i64));
        let place = start.filter(|_| !bytes.is_empty()).and_then(|start| self.locate(start));
        let (filter, offset) = place.ok_or(CuckooError::Chunk)?;
        let table = &mut self.filters[filter].table;
        if bytes.len() as u64 > table.len() - offset {
            return Err(CuckooError::Chunk);
        }
        table.write(offset, bytes);
        Ok(())
    }
}
