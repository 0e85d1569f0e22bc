//! Arrays: version 14's form.
//!
//! ```text
//! count | 0, or 1 and the index last appended | (index | tag | value)…     lengths; indexes ascend
//! tag 0: a string   1: an integer of 8 bytes   2: a double   3: a string of up to 7 bytes
//! ```

use martlet_rdb::input::{Input, InputExt};
use martlet_rdb::{Error, Sink, Writer, read_bytes, read_count, read_plain_length, skip_bytes};
use martlet_rdb::{write_bytes, write_element, write_length};
use martlet_spec::data_type::{self, TypeView};
use martlet_types::array::{Array, ArrayLimits, INDEX_MAX, float_text, inline_float};
use martlet_types::element::Element;

use crate::commands::{Commands, number, text};
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType, Requirement};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::VERSION_ARRAYS;

const ARRAY: u8 = 28;
const STRING: u64 = 0;
const INTEGER: u64 = 1;
const DOUBLE: u64 = 2;
const SHORT_STRING: u64 = 3;

/// Redis holds integers of 62 bits as such, longer ones as text.
const INTEGERS: std::ops::Range<i64> = -(1 << 61)..1 << 61;
/// Longest text that Redis holds in a pointer's place.
const SHORT_MAX_BYTES: usize = 7;

pub(crate) static DESCRIPTOR: Descriptor = Descriptor::of::<Array>();

impl DataType for Array {
    const RDB_TYPES: &'static [RdbType] = &[RdbType { byte: ARRAY, since: VERSION_ARRAYS }];
    const REQUIREMENTS: &'static [Requirement] =
        &[Requirement { version: VERSION_ARRAYS, in_valkey: false, values: "arrays" }];
    const KEYSIZES: Option<&'static str> = Some("distrib_arrays_items");
    const VIEW: Option<&'static TypeView> = Some(&data_type::ARRAY);

    fn rdb_type(&self, _version: u16) -> u8 {
        ARRAY
    }

    fn write(&self, out: &mut Writer<'_>, _byte: u8, compress: bool) {
        write(out, self, compress);
    }

    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Array, Error> {
        read(input, encoded.limits.array)
    }

    fn skip(input: &mut &[u8], _byte: u8, _version: u16) -> Result<(), Error> {
        let count = read_count(input)?;
        if read_plain_length(input)? != 0 {
            read_plain_length(input)?;
        }
        for _ in 0..count {
            read_plain_length(input)?;
            match read_plain_length(input)? {
                INTEGER | DOUBLE => {
                    input.take(8)?;
                }
                _ => skip_bytes(input)?,
            }
        }
        Ok(())
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        out.elements(b"ARMSET", key, self.iter().map(|(index, element)| [number(index), text(element)]));
        if self.cursor().is_some() {
            out.put(&[b"ARSEEK", key, &number(self.next_index())]);
        }
    }

    fn digest(&self, digest: &mut Digest) {
        for (index, element) in self.iter() {
            digest.mix(&number(index));
            digest.mix_element(element);
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for (index, element) in self.iter() {
                out.array(|out| {
                    out.int(index);
                    out.element(element);
                });
            }
        });
    }
}

fn write(out: &mut Writer<'_>, array: &Array, compress: bool) {
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

fn read(input: &mut (impl Input + ?Sized), limits: ArrayLimits) -> Result<Array, Error> {
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
