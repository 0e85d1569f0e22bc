//! An element of a compact encoding: a byte string, or the integer that such a string spells.
//!
//! A string that is the canonical text of an `i64` is always held as the integer, so two elements are equal
//! exactly when their encodings are.

use martlet_base::number::parse_i64;
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
        match parse_i64(bytes) {
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
            Element::Bytes(bytes) => parse_i64(bytes),
        }
    }

    /// Whether the byte string equals `other`.
    #[inline]
    pub fn eq_bytes(&self, other: &[u8]) -> bool {
        match *self {
            Element::Int(int) => parse_i64(other) == Some(int),
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

/// Length in bytes of the decimal text of `int`.
#[inline]
pub fn int_text_len(int: i64) -> usize {
    let digits = int.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(int < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_length_of_integers() {
        for int in [0, 1, -1, 9, 10, 99, 100, -10, i64::MAX, i64::MIN] {
            assert_eq!(int_text_len(int), int.to_string().len());
        }
    }

    #[test]
    fn bytes_spelling_an_integer_equal_it() {
        assert_eq!(Element::Bytes(b"12"), Element::Int(12));
        assert_ne!(Element::Bytes(b"012"), Element::Int(12));
        assert_eq!(Element::Int(9).cmp(&Element::Int(10)), Ordering::Greater);
    }
}
