//! CRC-64 as Redis uses it: Jones' polynomial, reflected, starting at 0 and not inverted.
//!
//! Where the processor multiplies without carries, long pieces are folded into 16 bytes of the same checksum
//! first; the tables do the rest.

/// Jones' polynomial 0xad93d23594c935a9, bits reversed.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// `TABLES[n][b]`: the checksum of byte `b` followed by `n` zero bytes.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[n - 1][byte];
            tables[n][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        n += 1;
    }
    tables
}

/// The checksum of what `crc` is the checksum of, followed by `bytes`; start with 0.
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= folding::MIN_BYTES && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has the instruction.
        let (folded, rest) = unsafe { folding::fold(crc, bytes) };
        return by_tables(by_tables(0, &folded), rest);
    }
    by_tables(crc, bytes)
}

/// Eight bytes a step.
fn by_tables(mut crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        crc = mixed.iter().zip(TABLES.iter().rev()).fold(0, |sum, (byte, table)| sum ^ table[*byte as usize]);
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][((crc as u8) ^ byte) as usize];
    }
    crc
}

/// The product of two polynomials, the highest bit of each the constant, modulo Jones'.
const fn product(left: u64, right: u64) -> u64 {
    let (mut left, mut right, mut sum) = (left, right, 0);
    while left != 0 {
        if left >> 63 == 1 {
            sum ^= right;
        }
        left <<= 1;
        right = (right >> 1) ^ if right & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    sum
}

/// `POWERS[n]`: what `2^n` zero bytes multiply a checksum by.
static POWERS: [u64; 64] = {
    let mut powers = [1 << (63 - 8); 64];
    let mut n = 1;
    while n < 64 {
        powers[n] = product(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
};

/// The checksum of the bytes behind `crc` followed by `zeros` zero bytes. Since a checksum is linear, that of
/// two pieces one after the other is that of the first, followed by as many zeros as the second is long, xor
/// that of the second.
pub fn followed_by_zeros(crc: u64, mut zeros: u64) -> u64 {
    let mut sum = crc;
    for power in &POWERS {
        if zeros == 0 {
            break;
        }
        if zeros & 1 == 1 {
            sum = product(*power, sum);
        }
        zeros >>= 1;
    }
    sum
}

/// A message may be replaced by any that leaves the same remainder: a block that `n` bits follow, by its two
/// halves, multiplied by the powers of x that they stand before, which are taken modulo the polynomial, added
/// to a block that is `n` bits later.
#[cfg(target_arch = "x86_64")]
mod folding {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_loadu_si128, _mm_set_epi64x, _mm_storeu_si128,
        _mm_xor_si128,
    };

    use super::product;

    /// Blocks that are folded side by side: one multiplication need not wait for another.
    const LANES: usize = 4;
    const BLOCK_BYTES: usize = 16;
    /// Shorter input is left to the tables.
    pub const MIN_BYTES: usize = 2 * LANES * BLOCK_BYTES;

    /// x to the power of `n`, the highest bit the constant.
    const fn power(n: u64) -> u64 {
        let (mut result, mut square, mut left) = (1 << 63, 1 << 62, n);
        while left > 0 {
            if left & 1 == 1 {
                result = product(result, square);
            }
            square = product(square, square);
            left >>= 1;
        }
        result
    }

    /// Factors for the lower and the upper half of a block that moves by `bytes` bytes. (The product of two
    /// numbers with the constant at the top has it one bit further down, hence one power less.)
    const fn factors(bytes: usize) -> [i64; 2] {
        let bits = bytes as u64 * 8;
        [power(bits + 63).cast_signed(), power(bits - 1).cast_signed()]
    }

    const FAR: [i64; 2] = factors(LANES * BLOCK_BYTES);
    const NEAR: [i64; 2] = factors(BLOCK_BYTES);

    /// Sixteen bytes with the checksum, from 0, of all but the rest of `bytes`, which follow what `crc` is
    /// the checksum of; and that rest. There are at least [`MIN_BYTES`].
    #[target_feature(enable = "pclmulqdq")]
    pub fn fold(crc: u64, bytes: &[u8]) -> ([u8; BLOCK_BYTES], &[u8]) {
        let (far, near) = (_mm_set_epi64x(FAR[1], FAR[0]), _mm_set_epi64x(NEAR[1], NEAR[0]));
        let (strides, rest) = bytes.as_chunks::<{ LANES * BLOCK_BYTES }>();
        let mut lanes = [_mm_cvtsi64_si128(crc.cast_signed()), zero(), zero(), zero()];
        for (i, stride) in strides.iter().enumerate() {
            let (blocks, _) = stride.as_chunks::<BLOCK_BYTES>();
            for (lane, block) in lanes.iter_mut().zip(blocks) {
                // The checksum of the bytes before the first stride is in the block that is added to it.
                let moved = if i == 0 { *lane } else { advance(*lane, far) };
                *lane = _mm_xor_si128(moved, load(block));
            }
        }
        let [first, others @ ..] = lanes;
        let mut sum = others.into_iter().fold(first, |sum, lane| _mm_xor_si128(advance(sum, near), lane));
        let (blocks, rest) = rest.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            sum = _mm_xor_si128(advance(sum, near), load(block));
        }
        let mut folded = [0; BLOCK_BYTES];
        // SAFETY: the array has 16 bytes.
        unsafe { _mm_storeu_si128(folded.as_mut_ptr().cast(), sum) };
        (folded, rest)
    }

    #[target_feature(enable = "pclmulqdq")]
    fn zero() -> __m128i {
        _mm_cvtsi64_si128(0)
    }

    #[target_feature(enable = "pclmulqdq")]
    fn load(block: &[u8; BLOCK_BYTES]) -> __m128i {
        // SAFETY: the array has 16 bytes.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }

    #[target_feature(enable = "pclmulqdq")]
    fn advance(block: __m128i, factors: __m128i) -> __m128i {
        let lower = _mm_clmulepi64_si128::<0x00>(block, factors);
        let upper = _mm_clmulepi64_si128::<0x11>(block, factors);
        _mm_xor_si128(lower, upper)
    }
}

#[cfg(test)]
mod tests {
    use super::{by_tables, crc64, followed_by_zeros};
    use proptest::prelude::*;

    #[test]
    fn the_known_value() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    proptest! {
        #[test]
        fn folding_agrees_with_the_tables(bytes in prop::collection::vec(any::<u8>(), 0..700), crc: u64) {
            prop_assert_eq!(crc64(crc, &bytes), by_tables(crc, &bytes));
        }

        #[test]
        fn pieces_give_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let (left, right) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc64(crc64(0, left), right), crc64(0, &bytes));
            let joined = followed_by_zeros(crc64(0, left), right.len() as u64) ^ crc64(0, right);
            prop_assert_eq!(joined, crc64(0, &bytes));
        }
    }
}
