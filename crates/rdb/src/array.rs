//! Arrays: version 14's form.
//!
//! ```text
//! count | 0, or 1 and the index last appended | (index | tag | value)…     lengths; indexes ascend
//! tag 0: a string   1: an integer of 8 bytes   2: a double   3: a string of up to 7 bytes
//! ```

use martlet_types::array::{Array, ArrayLimits, INDEX_MAX, float_text, inline_float};
use martlet_types::element::Element;

use crate::Error;
use crate::input::Input;
use crate::sink::Sink;
use crate::string::{read_bytes, read_count, read_plain_length, write_bytes, write_element, write_length};

const STRING: u64 = 0;
pub(crate) const INTEGER: u64 = 1;
pub(crate) const DOUBLE: u64 = 2;
const SHORT_STRING: u64 = 3;

/// Redis holds integers of 62 bits as such, longer ones as text.
const INTEGERS: std::ops::Range<i64> = -(1 << 61)..1 << 61;
/// Longest text that Redis holds in a pointer's place.
const SHORT_MAX_BYTES: usize = 7;

pub(crate) fn write(out: &mut impl Sink, array: &Array, compress: bool) {
    write_length(out, array.len() as u64);
    match array.cursor() {
        Some(cursor) => {
            write_length(out, 1);
            write_length(out, cursor);
        }
        None => write_length(out, 0),
    }
    for (index, element) in array.iter() {
        write_length(out, index);
        match element {
            Element::Int(int) if INTEGERS.contains(&int) => {
                write_length(out, INTEGER);
                out.put(&int.to_le_bytes());
            }
            Element::Int(_) => {
                write_length(out, STRING);
                write_element(out, element, compress);
            }
            Element::Bytes(text) => match inline_float(text) {
                Some(value) => {
                    write_length(out, DOUBLE);
                    out.put(&value.to_le_bytes());
                }
                None => {
                    write_length(out, if text.len() <= SHORT_MAX_BYTES { SHORT_STRING } else { STRING });
                    write_bytes(out, text, compress);
                }
            },
        }
    }
}

pub(crate) fn read(input: &mut impl Input, limits: ArrayLimits) -> Result<Array, Error> {
    let mut array = Array::new();
    let count = read_count(input)?;
    let cursor = match read_plain_length(input)? {
        0 => None,
        1 => Some(read_plain_length(input)?),
        _ => return Err(Error::Corrupt("array cursor")),
    };
    if cursor.is_some_and(|cursor| cursor > INDEX_MAX) {
        return Err(Error::Corrupt("array cursor"));
    }
    let mut scratch = Vec::new();
    let mut least = 0;
    for _ in 0..count {
        let index = read_plain_length(input)?;
        if index < least || index > INDEX_MAX {
            return Err(Error::Corrupt("array index"));
        }
        least = index + 1;
        match read_plain_length(input)? {
            INTEGER => {
                let int = i64::from_le_bytes(input.array()?);
                array.set(index, Element::Int(int), limits);
            }
            DOUBLE => {
                let value = f64::from_le_bytes(input.array()?);
                array.set(index, Element::parse(&float_text(value)), limits);
            }
            STRING | SHORT_STRING => {
                let text = read_bytes(input, &mut scratch)?;
                array.set(index, Element::parse(text), limits);
            }
            _ => return Err(Error::Corrupt("array element")),
        }
    }
    if array.is_empty() {
        return Err(Error::Empty("array"));
    }
    array.set_cursor(cursor);
    Ok(array)
}
