//! Elements as entries of Redis' listpack, which are those of [`super::encoding`] but for two things:
//! integers of five to seven bytes take eight, and the entry's size stands behind it, seven bits a byte, to
//! be read from its end.

use super::encoding::{Encoded, decode_at, size_at};
use crate::element::Element;
use martlet_base::copy;

/// The highest first byte that means the same in both.
const SAME_TAG_MAX: u8 = 0xF3;
/// A listpack's integer of eight bytes.
const INT_64: u8 = 0xF4;
/// The largest size of an entry whose back length takes one byte.
pub const BACK_LENGTH_BYTE_MAX: usize = 127;

/// Bytes that an element takes, given its size and first byte here. What OBJECT ENCODING answers for a list
/// depends on them.
#[inline]
pub(crate) fn entry_bytes(size: usize, tag: u8) -> usize {
    let size = if tag > SAME_TAG_MAX { 9 } else { size };
    size + back_length_bytes(size)
}

/// Bytes of an entry's back length. The bounds, one lower than seems right, are Redis'.
#[inline]
fn back_length_bytes(size: usize) -> usize {
    match size {
        0..=BACK_LENGTH_BYTE_MAX => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Appends an entry's size. All bytes but the first have the high bit: a reader from the end learns that
/// there are more.
pub fn put_back_length(out: &mut Vec<u8>, size: usize) {
    for place in (0..back_length_bytes(size)).rev() {
        let more = if place == back_length_bytes(size) - 1 { 0 } else { 0x80 };
        out.push((size >> (7 * place)) as u8 & 0x7f | more);
    }
}

/// Appends an element's entry, for less than 4 GB.
pub fn put_entry(out: &mut Vec<u8>, element: Element<'_>) {
    let code = Encoded::new(element);
    let start = out.len();
    match element.as_int() {
        Some(int) if code.head()[0] > SAME_TAG_MAX => {
            out.push(INT_64);
            out.extend_from_slice(&int.to_le_bytes());
        }
        _ => {
            out.extend_from_slice(code.head());
            out.extend_from_slice(code.body);
        }
    }
    put_back_length(out, out.len() - start);
}

/// Appends the entry of the element encoded at `at`; its size there.
#[inline(always)]
pub(crate) fn put_entry_at(out: &mut Vec<u8>, data: &[u8], at: usize) -> usize {
    let size = size_at(data, at);
    if data[at] > SAME_TAG_MAX || size > BACK_LENGTH_BYTE_MAX {
        put_entry(out, decode_at(data, at).0);
    } else {
        copy::extend_prefix(out, &data[at..], size);
        out.push(size as u8);
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::Packed;

    #[test]
    fn sizes_are_those_that_are_written() {
        let texts = [0, 1, 63, 64, 125, 126, 4095, 4096, 20_000].map(|len| "x".repeat(len));
        let ints = [0, 127, 128, -1, 4096, 1 << 20, 1 << 31, 1 << 39, -(1 << 47), i64::MAX];
        let texts = texts.iter().map(|text| Element::Bytes(text.as_bytes()));
        for element in texts.chain(ints.map(Element::Int)) {
            let (mut alone, mut packed) = (Vec::new(), Vec::new());
            put_entry(&mut alone, element);
            [element].into_iter().collect::<Packed>().write_listpack(&mut packed);
            assert_eq!(alone, packed);
            let code = Encoded::new(element);
            assert_eq!(alone.len(), entry_bytes(code.size(), code.head()[0]), "{element:?}");
        }
    }
}
