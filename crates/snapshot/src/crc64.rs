//! CRC-64 as Redis uses it: Jones' polynomial, reflected, starting at 0 and not inverted.

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

/// The checksum of what `crc` is the checksum of, followed by `bytes`; start with 0. Eight bytes a step.
pub fn crc64(mut crc: u64, bytes: &[u8]) -> u64 {
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

/// The checksum of what `crc` is the checksum of, followed by so many zero bytes. Since a checksum is linear, that of two pieces one
/// after the other is that of the first, followed by as many zeros as the second is long, xor that of the second.
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

#[cfg(test)]
mod tests {
    use super::{crc64, followed_by_zeros};
    use proptest::prelude::*;

    #[test]
    fn the_known_value() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    proptest! {
        #[test]
        fn pieces_give_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let (left, right) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc64(crc64(0, left), right), crc64(0, &bytes));
            let joined = followed_by_zeros(crc64(0, left), right.len() as u64) ^ crc64(0, right);
            prop_assert_eq!(joined, crc64(0, &bytes));
        }
    }
}
