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

use crate::Error;
use crate::input::Input;

const HEADER_BYTES: usize = 6;
const END: u8 = 0xff;
const BAD: Error = Error::Corrupt("listpack integrity check failed");

/// A listpack being written.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    count: usize,
}

impl Writer {
    pub fn new() -> Writer {
        Writer { bytes: vec![0; HEADER_BYTES], count: 0 }
    }

    /// Adds an element, of less than 4 GB.
    pub fn push(&mut self, element: Element<'_>) {
        let from = self.bytes.len();
        match (element.as_int(), element) {
            (Some(int), _) => self.put_int(int),
            (None, Element::Bytes(bytes)) => self.put_bytes(bytes),
            (None, Element::Int(_)) => {}
        }
        let len = self.bytes.len() - from;
        put_back_length(&mut self.bytes, len);
        self.count += 1;
    }

    fn put_int(&mut self, int: i64) {
        let le = int.to_le_bytes();
        let [a, b, c, d, ..] = le;
        match int {
            0..=127 => self.bytes.push(a),
            -4096..=4095 => self.bytes.extend([0xc0 | (b & 0x1f), a]),
            -0x8000..=0x7fff => self.bytes.extend([0xf1, a, b]),
            -0x80_0000..=0x7f_ffff => self.bytes.extend([0xf2, a, b, c]),
            -0x8000_0000..=0x7fff_ffff => self.bytes.extend([0xf3, a, b, c, d]),
            _ => {
                self.bytes.push(0xf4);
                self.bytes.extend(le);
            }
        }
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        match bytes.len() {
            len @ 0..64 => self.bytes.push(0x80 | len as u8),
            len @ 64..4096 => self.bytes.extend((0xe000 | len as u16).to_be_bytes()),
            len => {
                self.bytes.push(0xf0);
                self.bytes.extend((len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The whole listpack.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let total = self.bytes.len() as u32;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let header = total.to_le_bytes().into_iter().chain(count.to_le_bytes());
        self.bytes.iter_mut().zip(header).for_each(|(place, byte)| *place = byte);
        self.bytes
    }
}

/// Bytes that an element's length takes behind it. The bounds, one lower than seems right, are Redis'.
fn back_length_bytes(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// All bytes but the first have the high bit: it says, to who comes from the end, that there are more.
fn put_back_length(out: &mut Vec<u8>, len: usize) {
    for place in (0..back_length_bytes(len)).rev() {
        let more = if place == back_length_bytes(len) - 1 { 0 } else { 0x80 };
        out.push((len >> (7 * place)) as u8 & 0x7f | more);
    }
}

/// The elements of a listpack, each checked when it is met.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// As the header tells; `None` if there may be more than it can tell.
    announced: Option<usize>,
    count: usize,
    failed: bool,
}

/// Checks the header.
pub(crate) fn read(listpack: &[u8]) -> Result<Reader<'_>, Error> {
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
    /// The next element, `None` at the end.
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
        let mut expected = Vec::with_capacity(5);
        put_back_length(&mut expected, len);
        self.rest = rest.strip_prefix(expected.as_slice()).ok_or(BAD)?;
        self.count += 1;
        Ok(Some(element))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Element<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.step().transpose();
        self.failed = !matches!(next, Some(Ok(_)));
        next
    }
}

fn read_element<'a>(rest: &mut &'a [u8]) -> Result<Element<'a>, Error> {
    let mut next = |len: usize| rest.split_off(..len).ok_or(BAD);
    let [first] = *next(1)? else { return Err(BAD) };
    let text_len = match first {
        0..0x80 => return Ok(Element::Int(i64::from(first))),
        0x80..0xc0 => usize::from(first & 0x3f),
        0xc0..0xe0 => {
            let [low] = *next(1)? else { return Err(BAD) };
            // Thirteen bits, the sign moved to the top and back.
            let bits = (u16::from(first) << 8 | u16::from(low)) << 3;
            return Ok(Element::Int(i64::from(bits as i16 >> 3)));
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
pub(crate) fn signed_le(bytes: &[u8]) -> i64 {
    let fill = if bytes.last().is_some_and(|top| top & 0x80 != 0) { 0xff } else { 0 };
    let mut wide = [fill; 8];
    wide.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    i64::from_le_bytes(wide)
}
