//! Lengths and strings.
//!
//! ```text
//! 00LLLLLL                     length of 6 bits
//! 01LLLLLL LLLLLLLL            of 14 bits, big-endian
//! 10000000 + 4 bytes           of 32 bits, big-endian
//! 10000001 + 8 bytes           of 64 bits, big-endian
//! 11000000 + 1, 11000001 + 2, 11000010 + 4 bytes   integer, little-endian, as a string
//! 11000011 + packed length + length + bytes        string compressed by LZF
//! ```

use martlet_base::limits::ELEMENT_MAX_BYTES;
use martlet_types::element::{Element, IntBuffer};

use crate::input::{Input, InputExt};
use crate::sink::Sink;
use crate::{Error, lzf};

/// The content in the place of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A length.
    Plain(u64),
    /// Another encoding of a string, by its number.
    Special(u8),
}

/// Reads a length or a special encoding's number.
///
/// # Errors
/// [`Error`], for ends and for prefixes that are not in use.
#[inline]
pub fn read_length(input: &mut (impl Input + ?Sized)) -> Result<Length, Error> {
    let first = input.byte()?;
    Ok(Length::Plain(match (first >> 6, first & 0x3f) {
        (0, low) => u64::from(low),
        (1, low) => u64::from(low) << 8 | u64::from(input.byte()?),
        (2, 0) => u64::from(u32::from_be_bytes(input.array()?)),
        (2, 1) => u64::from_be_bytes(input.array()?),
        (3, number) => return Ok(Length::Special(number)),
        _ => return Err(Error::Corrupt("unknown length encoding")),
    }))
}

/// Reads a length.
///
/// # Errors
/// [`Error`]; also where a special encoding stands.
pub fn read_plain_length(input: &mut (impl Input + ?Sized)) -> Result<u64, Error> {
    match read_length(input)? {
        Length::Plain(length) => Ok(length),
        Length::Special(_) => Err(Error::Corrupt("string encoding in place of a length")),
    }
}

/// Reads a number of things that take at least one byte each.
pub fn read_count(input: &mut (impl Input + ?Sized)) -> Result<usize, Error> {
    let count = read_plain_length(input)?;
    input.count(count)
}

/// Reads a string, into `scratch` unless it lies in the input as it is.
///
/// # Errors
/// [`Error`]; the string is never longer than a fixed multiple of its input.
pub fn read_bytes<'a>(
    input: &'a mut (impl Input + ?Sized),
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], Error> {
    let mut int = |int: i64| {
        scratch.clear();
        Element::Int(int).write_to(scratch);
    };
    match read_length(input)? {
        Length::Plain(length) => {
            let length = input.count(bounded(length)?)?;
            return input.take(length);
        }
        Length::Special(0) => int(i64::from(i8::from_le_bytes(input.array()?))),
        Length::Special(1) => int(i64::from(i16::from_le_bytes(input.array()?))),
        Length::Special(2) => int(i64::from(i32::from_le_bytes(input.array()?))),
        Length::Special(3) => {
            let packed = read_plain_length(input)?;
            let length = bounded(read_plain_length(input)?)?;
            let length = usize::try_from(length).map_err(|_| Error::Truncated)?;
            let packed = input.count(packed)?;
            lzf::decompress(input.take(packed)?, length, scratch)?;
        }
        Length::Special(_) => return Err(Error::Corrupt("unknown string encoding")),
    }
    Ok(scratch)
}

/// The length of a string that an element can have.
#[inline]
fn bounded(length: u64) -> Result<u64, Error> {
    if length > ELEMENT_MAX_BYTES { Err(Error::Corrupt("a string of more than 4 GB")) } else { Ok(length) }
}

/// As [`read_bytes`], for what lasts beyond the next one.
#[inline]
pub fn take_bytes<'s, 'a: 's>(rest: &mut &'a [u8], scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Error> {
    let mut behind = *rest;
    match read_length(&mut behind) {
        Ok(Length::Plain(length)) => {
            *rest = behind;
            let length = rest.count(length)?;
            rest.split_off(..length).ok_or(Error::Truncated)
        }
        _ => {
            read_bytes(rest, scratch)?;
            Ok(scratch)
        }
    }
}

/// Passes over a string.
///
/// # Errors
/// [`Error`]; [`Error::Truncated`] if the slice ends within it.
#[inline]
pub fn skip_bytes(input: &mut &[u8]) -> Result<(), Error> {
    let len = match read_length(input)? {
        Length::Plain(len) => len,
        Length::Special(0) => 1,
        Length::Special(1) => 2,
        Length::Special(2) => 4,
        Length::Special(3) => {
            let packed = read_plain_length(input)?;
            read_plain_length(input)?;
            packed
        }
        Length::Special(_) => return Err(Error::Corrupt("unknown string encoding")),
    };
    let len = input.count(len)?;
    input.take(len).map(|_| ())
}

/// Writes a length.
pub fn write_length(out: &mut (impl Sink + ?Sized), length: u64) {
    match length {
        0..=0x3f => out.put(&[length as u8]),
        0x40..=0x3fff => out.put(&(0x4000 | length as u16).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                out.put(&[0x80]);
                out.put(&length.to_be_bytes());
            }
            Err(_) => {
                out.put(&[0x81]);
                out.put(&length.to_be_bytes());
            }
        },
    }
}

/// Strings up to this length are not compressed. Redis: the same.
const UNCOMPRESSED_MAX_BYTES: usize = 20;
/// Longest text of an integer that is written as one.
const INT_MAX_BYTES: usize = 11;

/// Writes a string: as an integer if it spells one of up to 32 bits, compressed if that is wanted and pays.
pub fn write_bytes(out: &mut (impl Sink + ?Sized), bytes: &[u8], compress: bool) {
    if bytes.len() <= INT_MAX_BYTES
        && let Some(int) = Element::Bytes(bytes).as_int().and_then(|int| i32::try_from(int).ok())
    {
        return write_int(out, int);
    }
    if compress
        && bytes.len() > UNCOMPRESSED_MAX_BYTES
        && let Some(packed) = lzf::compress(bytes)
    {
        out.put(&[0xc3]);
        write_length(out, packed.len() as u64);
        write_length(out, bytes.len() as u64);
        return out.put(&packed);
    }
    write_length(out, bytes.len() as u64);
    out.put(bytes);
}

/// Writes an element as a string.
pub fn write_element(out: &mut (impl Sink + ?Sized), element: Element<'_>, compress: bool) {
    match element {
        Element::Int(int) => match i32::try_from(int) {
            Ok(int) => write_int(out, int),
            Err(_) => {
                let mut buffer = IntBuffer::new();
                let text = element.as_bytes(&mut buffer);
                write_length(out, text.len() as u64);
                out.put(text);
            }
        },
        Element::Bytes(bytes) => write_bytes(out, bytes, compress),
    }
}

fn write_int(out: &mut (impl Sink + ?Sized), int: i32) {
    if let Ok(int) = i8::try_from(int) {
        out.put(&[0xc0, int as u8]);
    } else if let Ok(int) = i16::try_from(int) {
        out.put(&[0xc1]);
        out.put(&int.to_le_bytes());
    } else {
        out.put(&[0xc2]);
        out.put(&int.to_le_bytes());
    }
}
