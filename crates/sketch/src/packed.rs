//! Shared by the two SCANDUMP formats: pieces of a table, and the fields of RedisBloom's packed structures.

use crate::pages::{PAGE_BYTES, Pages, Run};

/// A piece of a filter: bytes, and the position behind them. The last has position 0 and no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The position for the next call of SCANDUMP, and the one to pass to LOADCHUNK with the bytes.
    pub next: i64,
    /// The piece.
    pub bytes: Vec<u8>,
}

/// The bytes of a range of a table.
pub(crate) fn copy_range(table: &Pages<u8, PAGE_BYTES>, start: u64, count: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count as usize);
    for run in table.runs(start..start + count) {
        match run {
            Run::Zeros(count) => bytes.resize(bytes.len() + count, 0),
            Run::Slots(slots) => bytes.extend_from_slice(slots),
        }
    }
    bytes
}

/// Reads a packed structure field by field. The caller has checked the length; missing bytes read as zero.
pub(crate) struct Packed<'a>(pub &'a [u8]);

impl Packed<'_> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) =
            self.0.split_first_chunk::<N>().map_or(([0; N], &[][..]), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub fn f64(&mut self) -> f64 {
        f64::from_le_bytes(self.take())
    }
}
