//! An element of a compact encoding: a byte string, or the integer that such a string spells.
//!
//! A string that is the canonical text of an `i64` is always held as the integer, so two elements are equal exactly
//! when their encodings are.

use std::cmp::Ordering;

pub use itoa::Buffer as IntBuffer;

/// A byte string by value or by the integer that it spells.
#[derive(Clone, Copy, Debug)]
pub enum Element<'a> {
    /// The canonical decimal text of this integer.
    Int(i64),
    /// Any other byte string. Text of an integer is accepted here too, and treated as [`Element::Int`].
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The element for `bytes`: an integer if they are its canonical text.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Element<'a> {
        match parse_canonical(bytes) {
            Some(int) => Element::Int(int),
            None => Element::Bytes(bytes),
        }
    }

    /// The byte string; an integer is written to `buffer` first.
    #[inline]
    pub fn as_bytes<'b>(&self, buffer: &'b mut IntBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Element::Int(int) => buffer.format(int).as_bytes(),
            Element::Bytes(bytes) => bytes,
        }
    }

    /// Appends the byte string to `out`.
    #[inline]
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes(&mut IntBuffer::new()));
    }

    /// The byte string as an owned vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.as_bytes(&mut IntBuffer::new()).to_vec()
    }

    /// Length of the byte string in bytes.
    #[inline]
    pub fn byte_len(&self) -> usize {
        match *self {
            Element::Int(int) => int_text_len(int),
            Element::Bytes(bytes) => bytes.len(),
        }
    }

    /// The integer that the string spells canonically, if any.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match *self {
            Element::Int(int) => Some(int),
            Element::Bytes(bytes) => parse_canonical(bytes),
        }
    }

    /// Whether the byte string equals `other`.
    #[inline]
    pub fn eq_bytes(&self, other: &[u8]) -> bool {
        match *self {
            Element::Int(int) => parse_canonical(other) == Some(int),
            Element::Bytes(bytes) => bytes == other,
        }
    }

    /// Order of the byte strings, as `memcmp` and then the shorter first.
    pub fn cmp_bytes(&self, other: &[u8]) -> Ordering {
        self.as_bytes(&mut IntBuffer::new()).cmp(other)
    }
}

impl<'a> From<&'a [u8]> for Element<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Element<'a> {
        Element::parse(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Element<'a> {
    fn from(bytes: &'a [u8; N]) -> Element<'a> {
        Element::parse(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Element<'a> {
    fn from(bytes: &'a Vec<u8>) -> Element<'a> {
        Element::parse(bytes)
    }
}

impl From<i64> for Element<'_> {
    #[inline]
    fn from(int: i64) -> Self {
        Element::Int(int)
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Element<'_>) -> bool {
        match (*self, *other) {
            (Element::Int(left), Element::Int(right)) => left == right,
            (left, Element::Bytes(right)) => left.eq_bytes(right),
            (Element::Bytes(left), right) => right.eq_bytes(left),
        }
    }
}

impl Eq for Element<'_> {}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Element<'_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Element<'_>) -> Ordering {
        self.cmp_bytes(other.as_bytes(&mut IntBuffer::new()))
    }
}

/// The integer whose canonical decimal text `bytes` are: no sign but a leading minus, no leading zero, no `-0`.
#[inline]
pub fn parse_canonical(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    match digits {
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        [b'0'] if !negative => return Some(0),
        _ => return None,
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        // Nineteen digits stay below 10^19, which a u64 holds.
        magnitude = magnitude * 10 + u64::from(value);
    }
    if negative {
        (magnitude <= i64::MIN.unsigned_abs()).then(|| (magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Length in bytes of the decimal text of `int`.
#[inline]
pub fn int_text_len(int: i64) -> usize {
    let digits = int.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(int < 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_text_only() {
        for text in
            ["", "-", "+1", "01", "-0", "00", " 1", "1 ", "1a", "9223372036854775808", "-9223372036854775809"]
        {
            assert_eq!(parse_canonical(text.as_bytes()), None, "{text:?}");
        }
        for int in [0, 1, -1, 9, 10, 127, 128, i64::MAX, i64::MIN, i64::MIN + 1] {
            let text = int.to_string();
            assert_eq!(parse_canonical(text.as_bytes()), Some(int));
            assert_eq!(int_text_len(int), text.len());
        }
        assert_eq!(parse_canonical(b"99999999999999999999"), None);
    }

    #[test]
    fn bytes_spelling_an_integer_equal_it() {
        assert_eq!(Element::Bytes(b"12"), Element::Int(12));
        assert_ne!(Element::Bytes(b"012"), Element::Int(12));
        assert_eq!(Element::Int(9).cmp(&Element::Int(10)), Ordering::Greater);
    }

    proptest! {
        #[test]
        fn parse_agrees_with_std(text in "-?[0-9]{0,20}") {
            let std = text.parse::<i64>().ok().filter(|int| int.to_string() == text);
            prop_assert_eq!(parse_canonical(text.as_bytes()), std);
        }
    }
}
