//! Listpacks, as they lie in encoded values.
//!
//! ```text
//! total bytes: 4 | elements: 2, 65535 if more | element … | FF        numbers little-endian
//! element: encoding, its length, 7 bits a byte, to be read from its end
//!   0xxxxxxx                   integer 0 to 127
//!   10LLLLLL + bytes           string of up to 63 bytes
//!   110xxxxx xxxxxxxx          integer of 13 bits, signed
//!   1110LLLL LLLLLLLL + bytes  string of up to 4,095 bytes
//!   F0 + 4 + bytes             longer string
//!   F1 + 2, F2 + 3, F3 + 4, F4 + 8   integer, signed, little-endian
//! ```

use martlet_types::element::Element;
use martlet_types::packed::listpack::{BACK_LENGTH_BYTE_MAX, put_back_length, put_entry};

use crate::Error;
use crate::input::InputExt;

const HEADER_BYTES: usize = 6;
/// Bytes of a listpack without elements.
pub const EMPTY_BYTES: usize = HEADER_BYTES + 1;
const END: u8 = 0xff;
const BAD: Error = Error::Corrupt("Listpack integrity check failed.");

/// A listpack being written.
pub struct Writer {
    bytes: Vec<u8>,
    count: usize,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer::new()
    }
}

impl Writer {
    /// Begins a listpack.
    pub fn new() -> Writer {
        Writer { bytes: vec![0; HEADER_BYTES], count: 0 }
    }

    /// Adds an element, of less than 4 GB.
    pub fn push(&mut self, element: Element<'_>) {
        self.extend(1, |out| put_entry(out, element));
    }

    /// Adds `count` elements, whose entries `write` appends.
    pub fn extend(&mut self, count: usize, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.count += count;
    }

    /// Whether it has no elements yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Shows the whole listpack and begins another one.
    pub fn finish<R>(&mut self, show: impl FnOnce(&[u8]) -> R) -> R {
        self.bytes.push(END);
        let total = self.bytes.len() as u32;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let header = total.to_le_bytes().into_iter().chain(count.to_le_bytes());
        self.bytes.iter_mut().zip(header).for_each(|(place, byte)| *place = byte);
        let result = show(&self.bytes);
        self.bytes.truncate(HEADER_BYTES);
        self.count = 0;
        result
    }
}

/// The elements of a listpack, each checked when it is met.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The header's count; `None` if there may be more than it can hold.
    announced: Option<usize>,
    count: usize,
    failed: bool,
}

/// Checks the header.
pub fn read(listpack: &[u8]) -> Result<Reader<'_>, Error> {
    let mut rest = listpack;
    let total = u32::from_le_bytes(rest.array().map_err(|_| BAD)?);
    let count = u16::from_le_bytes(rest.array().map_err(|_| BAD)?);
    if total as usize != listpack.len() {
        return Err(BAD);
    }
    let announced = (count != u16::MAX).then_some(usize::from(count));
    Ok(Reader { rest, announced, count: 0, failed: false })
}

impl<'a> Reader<'a> {
    /// Takes whatever elements there are: the header's count is not compared.
    pub fn recounting(self) -> Reader<'a> {
        Reader { announced: None, ..self }
    }

    /// About the bytes that the elements take without their lengths.
    pub fn element_bytes(&self) -> usize {
        self.rest.len().saturating_sub(1 + self.announced.unwrap_or(0))
    }

    /// The next entry with all bytes from it on, and its size without its length back, if it is a text of up
    /// to 63 bytes that cannot be an integer: then it is well-formed, and passed.
    #[inline(always)]
    pub fn short_text(&mut self) -> Option<(&'a [u8], usize)> {
        let [head @ 0x80..0xc0, first, ..] = *self.rest else { return None };
        let size = 1 + usize::from(head & 0x3f);
        // Of an empty text, it is the length back.
        if matches!(first, b'0'..=b'9' | b'-') || usize::from(*self.rest.get(size)?) != size {
            return None;
        }
        let entry = self.rest;
        self.rest = &entry[size + 1..];
        self.count += 1;
        Some((entry, size))
    }

    /// As [`Reader::short_text`], if it is an integer of up to four bytes in its shortest form; with its
    /// value.
    #[inline(always)]
    pub fn short_int(&mut self) -> Option<(&'a [u8], usize, i64)> {
        let (size, value, shorter) = match *self.rest {
            [head @ ..0x80, ..] => (1, i64::from(head), 0..0),
            [head @ 0xc0..0xe0, low, ..] => (2, thirteen_bits(head, low), 0..0x80),
            [0xf1, low, high, ..] => (3, i64::from(i16::from_le_bytes([low, high])), -0x1000..0x1000),
            [0xf2, low, middle, high, ..] => {
                (4, i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8), -0x8000..0x8000)
            }
            [0xf3, a, b, c, d, ..] => (5, i64::from(i32::from_le_bytes([a, b, c, d])), -0x80_0000..0x80_0000),
            _ => return None,
        };
        if shorter.contains(&value) || usize::from(*self.rest.get(size)?) != size {
            return None;
        }
        let entry = self.rest;
        self.rest = &entry[size + 1..];
        self.count += 1;
        Some((entry, size, value))
    }

    /// The next entry with all bytes from it on, and its size without its length back, if it lies in a list's
    /// chunk and in a packed collection as it does here, and is short: then it is well-formed, and passed.
    #[inline(always)]
    pub fn short_entry(&mut self) -> Option<(&'a [u8], usize)> {
        self.short_text().or_else(|| self.short_int().map(|(entry, size, _)| (entry, size)))
    }

    /// Whether all elements have been passed, and are as many as the header says.
    pub fn is_at_end(&self) -> bool {
        self.rest == [END] && self.announced.is_none_or(|count| count == self.count)
    }

    /// The next element, `None` at the end.
    #[inline]
    fn step(&mut self) -> Result<Option<Element<'a>>, Error> {
        let start = self.rest;
        let [first, ..] = *start else { return Err(BAD) };
        if first == END {
            let whole = start.len() == 1 && self.announced.is_none_or(|count| count == self.count);
            return if whole { Ok(None) } else { Err(BAD) };
        }
        let mut rest = start;
        let element = read_element(&mut rest)?;
        let len = start.len() - rest.len();
        self.rest = match rest.split_first() {
            Some((&back, rest)) if len <= BACK_LENGTH_BYTE_MAX && usize::from(back) == len => rest,
            _ => skip_back_length(rest, len)?,
        };
        self.count += 1;
        Ok(Some(element))
    }
}

/// The bytes behind the length of an element of `len` bytes.
#[cold]
fn skip_back_length(rest: &[u8], len: usize) -> Result<&[u8], Error> {
    let mut expected = Vec::new();
    put_back_length(&mut expected, len);
    rest.strip_prefix(expected.as_slice()).ok_or(BAD)
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Element<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.step().transpose();
        self.failed = !matches!(next, Some(Ok(_)));
        next
    }
}

/// An integer of thirteen bits: the sign moved to the top and back.
#[inline(always)]
fn thirteen_bits(high: u8, low: u8) -> i64 {
    let bits = (u16::from(high) << 8 | u16::from(low)) << 3;
    i64::from(bits as i16 >> 3)
}

#[inline]
fn read_element<'a>(rest: &mut &'a [u8]) -> Result<Element<'a>, Error> {
    let mut next = |len: usize| rest.split_off(..len).ok_or(BAD);
    let [first] = *next(1)? else { return Err(BAD) };
    let text_len = match first {
        0..0x80 => return Ok(Element::Int(i64::from(first))),
        0x80..0xc0 => usize::from(first & 0x3f),
        0xc0..0xe0 => {
            let [low] = *next(1)? else { return Err(BAD) };
            return Ok(Element::Int(thirteen_bits(first, low)));
        }
        0xe0..0xf0 => {
            let [low] = *next(1)? else { return Err(BAD) };
            usize::from(first & 0xf) << 8 | usize::from(low)
        }
        0xf0 => {
            let bytes = next(4)?.first_chunk::<4>().ok_or(BAD)?;
            u32::from_le_bytes(*bytes) as usize
        }
        0xf1 => return Ok(Element::Int(signed_le(next(2)?))),
        0xf2 => return Ok(Element::Int(signed_le(next(3)?))),
        0xf3 => return Ok(Element::Int(signed_le(next(4)?))),
        0xf4 => return Ok(Element::Int(signed_le(next(8)?))),
        _ => return Err(BAD),
    };
    Ok(Element::parse(next(text_len)?))
}

/// A little-endian two's complement integer of up to eight bytes.
pub fn signed_le(bytes: &[u8]) -> i64 {
    let fill = if bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [fill; 8];
    wide.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    i64::from_le_bytes(wide)
}
