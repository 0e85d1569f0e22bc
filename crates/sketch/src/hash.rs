//! MurmurHash2 in the two widths that Redis' sketches hash items with.
//!
//! Both are Austin Appleby's public domain functions as they run on a little-endian machine; every saved
//! sketch depends on them to the bit. The length enters the hash as a C `int`: its low 32 bits.

const M32: u32 = 0x5bd1_e995;
const M64: u64 = 0xc6a4_a793_5bd1_e995;

/// MurmurHash2 of 32 bits.
#[inline]
pub fn murmur2_32(item: &[u8], seed: u32) -> u32 {
    let mut hash = seed ^ item.len() as u32;
    let (words, tail) = item.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M32);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M32) ^ k.wrapping_mul(M32);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M32);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M32);
    hash ^ hash >> 15
}

/// Rows whose hashes are computed together.
const LANES: usize = 8;

/// [`murmur2_32`] with eight seeds from this one on: each word is mixed once for all of them.
#[inline]
fn murmur2_32_lanes(item: &[u8], seed: u32) -> [u32; LANES] {
    let mut hashes: [u32; LANES] =
        std::array::from_fn(|lane| seed.wrapping_add(lane as u32) ^ item.len() as u32);
    let (words, tail) = item.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M32);
        k ^= k >> 24;
        k = k.wrapping_mul(M32);
        hashes = hashes.map(|hash| hash.wrapping_mul(M32) ^ k);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        let last = u32::from_le_bytes(last);
        hashes = hashes.map(|hash| (hash ^ last).wrapping_mul(M32));
    }
    hashes.map(|hash| {
        let hash = (hash ^ hash >> 13).wrapping_mul(M32);
        hash ^ hash >> 15
    })
}

/// Calls `visit` with each row below `depth` and the item's [`murmur2_32`] with the low 32 bits of the row as
/// seed.
#[inline]
pub fn each_row(item: &[u8], depth: u64, mut visit: impl FnMut(u64, u32)) {
    for first in (0..depth).step_by(LANES) {
        let hashes = murmur2_32_lanes(item, first as u32);
        (first..depth).zip(hashes).for_each(|(row, hash)| visit(row, hash));
    }
}

/// MurmurHash64A.
#[inline]
pub fn murmur2_64(item: &[u8], seed: u64) -> u64 {
    let mut hash = seed ^ (item.len() as u32 as i32 as u64).wrapping_mul(M64);
    let (words, tail) = item.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M64);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M64)).wrapping_mul(M64);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M64);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M64);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with the reference implementation in C.
    #[test]
    fn hashes_are_the_reference() {
        let item = b"0123456789abcdef";
        let small: Vec<u32> = [0, 1, 3, 4, 7, 16].map(|len| murmur2_32(&item[..len], 1919)).to_vec();
        let large: Vec<u64> = [0, 1, 7, 8, 13, 16].map(|len| murmur2_64(&item[..len], M64)).to_vec();
        assert_eq!(small, SMALL);
        assert_eq!(large, LARGE);
    }

    #[test]
    fn rows_are_hashed_with_their_numbers() {
        for len in 0..20 {
            let item = &b"0123456789abcdefghijkl"[..len];
            let mut rows = Vec::new();
            each_row(item, 19, |row, hash| rows.push((row, hash)));
            assert!(rows.into_iter().eq((0..19).map(|row| (row, murmur2_32(item, row as u32)))));
        }
    }

    const SMALL: [u32; 6] = [0x4a85_66e0, 0x8080_3531, 0xe90e_275d, 0xdfba_8e75, 0xf141_2e39, 0x44f2_fb3e];
    const LARGE: [u64; 6] = [
        0x1ab1_1ea5_a7b2_c56e,
        0xd9d9_bcaf_40fd_aad5,
        0x963b_2387_8f55_2090,
        0x677c_12f9_5271_5538,
        0x0000_6045_9860_c03d,
        0x7339_7e4f_b095_abef,
    ];
}
