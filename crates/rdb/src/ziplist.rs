//! Ziplists and zipmaps, which Redis wrote before listpacks. They are only read.
//!
//! ```text
//! ziplist: total bytes: 4 | offset of the last element: 4 | elements: 2 | element … | FF      little-endian
//! element: length of the one before (1, or FE and 4) | encoding
//!   00LLLLLL, 01LLLLLL L, 10000000 LLLL   string, length big-endian
//!   C0 + 2, D0 + 4, E0 + 8, F0 + 3, FE + 1   integer, little-endian
//!   F1 … FD                               integer 0 to 12
//! zipmap: count | (length, field, length, unused bytes, value, unused) … | FF     length: 1, or FE and 4
//! ```

use martlet_types::element::Element;

use crate::Error;
use crate::input::InputExt;
use crate::listpack::signed_le;

const BAD: Error = Error::Corrupt("Ziplist integrity check failed.");
const BAD_MAP: Error = Error::Corrupt("Zipmap integrity check failed.");
const HEADER_BYTES: usize = 10;
const END: u8 = 0xff;
const WIDE: u8 = 0xfe;

/// The elements of a ziplist; `damage` is the text of any error.
pub fn read<'a>(ziplist: &'a [u8], damage: &'static str) -> Result<Vec<Element<'a>>, Error> {
    read_checked(ziplist).map_err(|_| Error::Corrupt(damage))
}

fn read_checked(ziplist: &[u8]) -> Result<Vec<Element<'_>>, Error> {
    let mut rest = ziplist;
    let total = u32::from_le_bytes(rest.array()?) as usize;
    let tail = u32::from_le_bytes(rest.array()?) as usize;
    let announced = u16::from_le_bytes(rest.array()?);
    if total != ziplist.len() {
        return Err(BAD);
    }
    let mut elements = Vec::new();
    let mut before_len = 0;
    let mut last = HEADER_BYTES;
    while *rest != [END] {
        let start = rest;
        let before = match rest.byte()? {
            WIDE => u32::from_le_bytes(rest.array()?) as usize,
            END => return Err(BAD),
            short => usize::from(short),
        };
        if before != before_len {
            return Err(BAD);
        }
        elements.push(read_element(&mut rest)?);
        last = ziplist.len() - start.len();
        before_len = start.len() - rest.len();
    }
    let counted = announced == u16::MAX || usize::from(announced) == elements.len();
    if counted && tail == last { Ok(elements) } else { Err(BAD) }
}

fn read_element<'a>(rest: &mut &'a [u8]) -> Result<Element<'a>, Error> {
    let mut next = |len: usize| rest.split_off(..len).ok_or(BAD);
    let [first] = *next(1)? else { return Err(BAD) };
    let len = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => {
            let [low] = *next(1)? else { return Err(BAD) };
            usize::from(first & 0x3f) << 8 | usize::from(low)
        }
        0x80 => u32::from_be_bytes(*next(4)?.first_chunk::<4>().ok_or(BAD)?) as usize,
        0xc0 => return Ok(Element::Int(signed_le(next(2)?))),
        0xd0 => return Ok(Element::Int(signed_le(next(4)?))),
        0xe0 => return Ok(Element::Int(signed_le(next(8)?))),
        0xf0 => return Ok(Element::Int(signed_le(next(3)?))),
        0xfe => return Ok(Element::Int(signed_le(next(1)?))),
        0xf1..=0xfd => return Ok(Element::Int(i64::from(first & 0xf) - 1)),
        _ => return Err(BAD),
    };
    Ok(Element::parse(next(len)?))
}

/// The fields and values of a zipmap, one after another.
pub fn read_zipmap(zipmap: &[u8]) -> Result<Vec<Element<'_>>, Error> {
    let mut rest = zipmap;
    let announced = usize::from(rest.byte().map_err(|_| BAD_MAP)?);
    let mut elements = Vec::new();
    while *rest != [END] {
        let len = zipmap_length(&mut rest)?;
        elements.push(Element::parse(rest.split_off(..len).ok_or(BAD_MAP)?));
        let len = zipmap_length(&mut rest)?;
        let unused = usize::from(rest.byte().map_err(|_| BAD_MAP)?);
        elements.push(Element::parse(rest.split_off(..len).ok_or(BAD_MAP)?));
        rest.split_off(..unused).ok_or(BAD_MAP)?;
    }
    let counted = announced >= usize::from(WIDE) || announced == elements.len() / 2;
    if counted { Ok(elements) } else { Err(BAD_MAP) }
}

fn zipmap_length(rest: &mut &[u8]) -> Result<usize, Error> {
    match rest.byte().map_err(|_| BAD_MAP)? {
        WIDE => {
            let len = u32::from_le_bytes(rest.array().map_err(|_| BAD_MAP)?) as usize;
            // A length that fits one byte is written in one: Redis derives the next field's place from the
            // length alone.
            if len < usize::from(WIDE) { Err(BAD_MAP) } else { Ok(len) }
        }
        END => Err(BAD_MAP),
        short => Ok(usize::from(short)),
    }
}
