//! Bytes of one packed element.
//!
//! | first byte | then | element |
//! |---|---|---|
//! | `0xxxxxxx` | | integer 0 to 127 |
//! | `10xxxxxx` | bytes | string of 0 to 63 bytes |
//! | `110xxxxx` | 1 byte | integer of 13 bits, signed |
//! | `1110xxxx` | 1 byte, bytes | string of up to 4,095 bytes, length big-endian |
//! | `0xF0` | 4 bytes, bytes | longer string, length little-endian |
//! | `0xF1` to `0xF7` | 2 to 8 bytes | integer, two's complement, little-endian |
//!
//! The shortest form is the only one, so equal elements have equal bytes. No element carries its length at
//! its end: a walk goes forwards only.

use crate::element::Element;
use martlet_base::number::parse_i64;

const SHORT_STRING: u8 = 0x80;
const INT_13: u8 = 0xC0;
const MEDIUM_STRING: u8 = 0xE0;
const LONG_STRING: u8 = 0xF0;
const INT_16: u8 = 0xF1;

const SHORT_STRING_MAX: usize = 63;
const MEDIUM_STRING_MAX: usize = 4095;

/// An element's encoding: the head (all of an integer, or a string's tag and length) and the string's own
/// bytes.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a> {
    head: [u8; 9],
    head_len: u8,
    pub body: &'a [u8],
}

impl<'a> Encoded<'a> {
    #[inline]
    pub fn new(element: Element<'a>) -> Encoded<'a> {
        match element {
            Element::Int(int) => Encoded::int(int),
            Element::Bytes(bytes) => match parse_i64(bytes) {
                Some(int) => Encoded::int(int),
                None => Encoded::string(bytes),
            },
        }
    }

    #[inline]
    fn string(body: &'a [u8]) -> Encoded<'a> {
        let mut head = [0; 9];
        let len = body.len();
        let head_len = if len <= SHORT_STRING_MAX {
            head[0] = SHORT_STRING | len as u8;
            1
        } else if len <= MEDIUM_STRING_MAX {
            head[0] = MEDIUM_STRING | (len >> 8) as u8;
            head[1] = len as u8;
            2
        } else {
            // Requests and files bring nothing longer: `limits::ELEMENT_MAX_BYTES`.
            assert!(len <= u32::MAX as usize, "packed string of {len} bytes");
            head[0] = LONG_STRING;
            head[1..5].copy_from_slice(&(len as u32).to_le_bytes());
            5
        };
        Encoded { head, head_len, body }
    }

    #[inline]
    fn int(int: i64) -> Encoded<'a> {
        let mut head = [0; 9];
        let head_len = if (0..=127).contains(&int) {
            head[0] = int as u8;
            1
        } else if (-4096..=4095).contains(&int) {
            head[0] = INT_13 | (((int >> 8) & 0x1F) as u8);
            head[1] = int as u8;
            2
        } else {
            // Bits that differ from the sign, plus the sign, in whole bytes.
            let magnitude_bits = 64 - (int ^ (int >> 63)).leading_zeros();
            let width = (magnitude_bits / 8 + 1) as u8;
            head[0] = INT_16 + width - 2;
            head[1..].copy_from_slice(&int.to_le_bytes());
            width + 1
        };
        Encoded { head, head_len, body: &[] }
    }

    /// Tag, length and integer bytes: everything before the body.
    #[inline]
    pub fn head(&self) -> &[u8] {
        &self.head[..self.head_len as usize]
    }

    /// Bytes of the whole encoding.
    #[inline]
    pub fn size(&self) -> usize {
        self.head_len as usize + self.body.len()
    }

    /// Writes the encoding to `out`.
    ///
    /// # Safety
    /// [`Encoded::size`] bytes from `out` on may be written, and are not those of the body.
    #[inline]
    pub unsafe fn write(&self, out: *mut u8) {
        let head_len = self.head_len as usize;
        // SAFETY: head and body are distinct from `out`, which has room for both, by the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(self.head.as_ptr(), out, head_len);
            martlet_base::copy::copy(self.body.as_ptr(), out.add(head_len), self.body.len());
        }
    }

    /// Whether the element encoded at the start of `data` is this one.
    #[inline(always)]
    pub fn is_at(&self, data: &[u8]) -> bool {
        let head_len = self.head_len as usize;
        if data[0] != self.head[0] {
            return false;
        }
        if head_len == 1 {
            return data.get(1..1 + self.body.len()).is_some_and(|found| same_bytes(found, self.body));
        }
        data.starts_with(self.head()) && data[head_len..].starts_with(self.body)
    }
}

/// Equality of two strings of the same length; short ones without a call.
#[inline(always)]
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    #[inline(always)]
    fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        let mut word = [0; N];
        word.copy_from_slice(&bytes[at..at + N]);
        word
    }
    let len = left.len();
    debug_assert_eq!(len, right.len());
    match len {
        0 => true,
        1..4 => left[0] == right[0] && left[len / 2] == right[len / 2] && left[len - 1] == right[len - 1],
        4..8 => word::<4>(left, 0) == word(right, 0) && word::<4>(left, len - 4) == word(right, len - 4),
        8..=16 => word::<8>(left, len - 8) == word(right, len - 8) && word::<8>(left, 0) == word(right, 0),
        _ => word::<8>(left, len - 8) == word(right, len - 8) && left == right,
    }
}

/// Size of the element encoded at `at`.
#[inline(always)]
pub(crate) fn size_at(data: &[u8], at: usize) -> usize {
    let tag = data[at];
    if tag < SHORT_STRING {
        1
    } else if tag < INT_13 {
        1 + (tag & 0x3F) as usize
    } else {
        long_size_at(data, at)
    }
}

fn long_size_at(data: &[u8], at: usize) -> usize {
    match data[at] {
        INT_13..MEDIUM_STRING => 2,
        tag @ MEDIUM_STRING..LONG_STRING => 2 + ((tag as usize & 0x0F) << 8 | data[at + 1] as usize),
        LONG_STRING => 5 + long_string_len(data, at),
        tag => 1 + (tag - INT_16) as usize + 2,
    }
}

fn long_string_len(data: &[u8], at: usize) -> usize {
    u32::from_le_bytes([data[at + 1], data[at + 2], data[at + 3], data[at + 4]]) as usize
}

/// The element encoded at `at`, and its size.
#[inline(always)]
pub(crate) fn decode_at(data: &[u8], at: usize) -> (Element<'_>, usize) {
    let tag = data[at];
    if tag < SHORT_STRING {
        (Element::Int(i64::from(tag)), 1)
    } else if tag < INT_13 {
        let size = 1 + (tag & 0x3F) as usize;
        (Element::Bytes(&data[at + 1..at + size]), size)
    } else {
        decode_long_at(data, at)
    }
}

fn decode_long_at(data: &[u8], at: usize) -> (Element<'_>, usize) {
    let size = long_size_at(data, at);
    let element = match data[at] {
        tag @ INT_13..MEDIUM_STRING => {
            let bits = (i16::from(tag & 0x1F) << 8) | i16::from(data[at + 1]);
            // Thirteen bits, the highest of them the sign.
            Element::Int(i64::from((bits << 3) >> 3))
        }
        MEDIUM_STRING..LONG_STRING => Element::Bytes(&data[at + 2..at + size]),
        LONG_STRING => Element::Bytes(&data[at + 5..at + size]),
        _ => {
            let width = size - 1;
            let mut bytes = [0; 8];
            bytes[8 - width..].copy_from_slice(&data[at + 1..at + size]);
            Element::Int(i64::from_le_bytes(bytes) >> (64 - 8 * width))
        }
    };
    (element, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(element: Element<'_>) -> usize {
        let code = Encoded::new(element);
        let mut bytes = vec![0xAA; code.size() + 3];
        // SAFETY: three bytes more than needed.
        unsafe { code.write(bytes.as_mut_ptr()) };
        assert_eq!(decode_at(&bytes, 0), (element, code.size()));
        assert_eq!(size_at(&bytes, 0), code.size());
        assert!(code.is_at(&bytes));
        code.size()
    }

    #[test]
    fn sizes_at_the_edges() {
        let sizes = [
            (0, 1),
            (127, 1),
            (128, 2),
            (-1, 2),
            (4095, 2),
            (-4096, 2),
            (4096, 3),
            (-4097, 3),
            (32767, 3),
            (32768, 4),
            (-32769, 4),
            (1 << 23, 5),
            (-(1 << 23), 4),
            (1 << 31, 6),
            (1 << 39, 7),
            (1 << 47, 8),
            (1 << 55, 9),
            (i64::MAX, 9),
            (i64::MIN, 9),
        ];
        for (int, size) in sizes {
            assert_eq!(round_trip(Element::Int(int)), size, "{int}");
        }
        for (len, size) in [(0, 1), (63, 64), (64, 66), (4095, 4097), (4096, 4101), (70_000, 70_005)] {
            assert_eq!(round_trip(Element::Bytes(&vec![b'x'; len])), size, "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_integer_returns(int in any::<i64>(), shift in 0u32..64) {
            round_trip(Element::Int(int >> shift));
        }

        #[test]
        fn equal_exactly_when_bytes_are(left in "[ab1]{0,20}", right in "[ab1]{0,20}") {
            let mut bytes = vec![0; 32];
            // SAFETY: at most 21 bytes.
            unsafe { Encoded::new(Element::parse(left.as_bytes())).write(bytes.as_mut_ptr()) };
            let found = Encoded::new(Element::parse(right.as_bytes())).is_at(&bytes);
            prop_assert_eq!(found, left == right);
            prop_assert!(Encoded::new(Element::parse(left.as_bytes())).is_at(&bytes));
        }
    }
}
