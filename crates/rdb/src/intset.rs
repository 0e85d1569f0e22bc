//! Intsets, as they lie in encoded values: width in bytes and count, 4 bytes each, then the integers,
//! ascending, all little-endian.

use crate::Error;
use crate::input::InputExt;
use crate::listpack::signed_le;

const BAD: Error = Error::Corrupt("Intset integrity check failed.");

/// The integers, which are strictly ascending.
pub fn read(mut bytes: &[u8]) -> Result<Vec<i64>, Error> {
    let width = u32::from_le_bytes(bytes.array().map_err(|_| BAD)?) as usize;
    let count = u32::from_le_bytes(bytes.array().map_err(|_| BAD)?) as usize;
    if !matches!(width, 2 | 4 | 8) || count == 0 || width.checked_mul(count) != Some(bytes.len()) {
        return Err(BAD);
    }
    let ints: Vec<i64> = bytes.chunks_exact(width).map(signed_le).collect();
    if ints.is_sorted_by(|left, right| left < right) { Ok(ints) } else { Err(BAD) }
}

/// The encoding of integers that ascend; the narrowest width that holds them.
pub fn write(ints: &[i64]) -> Vec<u8> {
    let fits = |bits: u32| {
        let ends = [ints.first(), ints.last()].into_iter().flatten();
        ends.into_iter().all(|int| *int >> (bits - 1) == 0 || *int >> (bits - 1) == -1)
    };
    let width = if fits(16) {
        2
    } else if fits(32) {
        4
    } else {
        8
    };
    let mut out = Vec::with_capacity(8 + width * ints.len());
    out.extend((width as u32).to_le_bytes());
    out.extend((ints.len() as u32).to_le_bytes());
    for int in ints {
        out.extend(int.to_le_bytes().iter().take(width));
    }
    out
}
