//! CBOR (RFC 8949) as RedisJSON writes it in version 4 of its RDB encoding.
//!
//! Lengths are definite, integers and doubles take their shortest exact form, and an array of one type of
//! numbers is a byte string under its tag of RFC 8746, little-endian (`bf16`, which has none there, under
//! 65,536). The decoder also takes what RedisJSON's does: indefinite lengths, longer forms than needed,
//! `undefined` and numbers that are not finite as `null`. It trusts no length, and recurses no deeper than
//! [`DEPTH_LIMIT`].

use crate::error::{Error, Result};
use crate::limits::DEPTH_LIMIT;
use crate::value::{Array, Member, Node, Number, Typed, Value, View};
use half::{bf16, f16};

const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

const BREAK: u8 = 0xFF;

/// Tags of arrays of one type of numbers.
mod tag {
    pub const U8: u64 = 64;
    pub const U16: u64 = 69;
    pub const U32: u64 = 70;
    pub const U64: u64 = 71;
    pub const I8: u64 = 72;
    pub const I16: u64 = 77;
    pub const I32: u64 = 78;
    pub const I64: u64 = 79;
    pub const F16: u64 = 84;
    pub const F32: u64 = 85;
    pub const F64: u64 = 86;
    pub const BF16: u64 = 0x1_0000;
}

/// Appends a value.
pub fn encode(node: Node<'_>, out: &mut Vec<u8>) {
    match node.view() {
        View::Null => out.push(SIMPLE << 5 | 22),
        View::Bool(value) => out.push(SIMPLE << 5 | if value { 21 } else { 20 }),
        View::Number(Number::Int(value)) => match u64::try_from(value) {
            Ok(value) => head(UNSIGNED, value, out),
            Err(_) => head(NEGATIVE, !value as u64, out),
        },
        View::Number(Number::UInt(value)) => head(UNSIGNED, value, out),
        View::Number(Number::Float(value)) => float(value, out),
        View::Text(text) => {
            head(TEXT, text.len() as u64, out);
            out.extend(text.as_bytes());
        }
        View::Array(Array::Typed(typed)) => encode_typed(typed, out),
        View::Array(array) => {
            head(ARRAY, array.len() as u64, out);
            array.iter().for_each(|node| encode(node, out));
        }
        View::Object(object) => {
            head(MAP, object.len() as u64, out);
            for member in object.members() {
                encode(Node::Value(member.name_value()), out);
                encode(Node::Value(member.value()), out);
            }
        }
    }
}

fn head(major: u8, value: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    if let Ok(short) = u8::try_from(value) {
        match short {
            0..24 => out.push(major | short),
            _ => out.extend([major | 24, short]),
        }
    } else if let Ok(short) = u16::try_from(value) {
        out.push(major | 25);
        out.extend(short.to_be_bytes());
    } else if let Ok(short) = u32::try_from(value) {
        out.push(major | 26);
        out.extend(short.to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend(value.to_be_bytes());
    }
}

fn float(value: f64, out: &mut Vec<u8>) {
    let is_same = |other: f64| other.to_bits() == value.to_bits();
    if is_same(f16::from_f64(value).to_f64()) {
        out.push(SIMPLE << 5 | 25);
        out.extend(f16::from_f64(value).to_be_bytes());
    } else if is_same(f64::from(value as f32)) {
        out.push(SIMPLE << 5 | 26);
        out.extend((value as f32).to_be_bytes());
    } else {
        out.push(SIMPLE << 5 | 27);
        out.extend(value.to_be_bytes());
    }
}

fn encode_typed(typed: &Typed, out: &mut Vec<u8>) {
    fn put<T: Copy, const N: usize>(tag: u64, items: &[T], bytes: fn(T) -> [u8; N], out: &mut Vec<u8>) {
        head(TAG, tag, out);
        head(BYTES, (items.len() * N) as u64, out);
        items.iter().for_each(|item| out.extend(bytes(*item)));
    }
    match typed {
        Typed::I8(items) => put(tag::I8, items, i8::to_le_bytes, out),
        Typed::I16(items) => put(tag::I16, items, i16::to_le_bytes, out),
        Typed::I32(items) => put(tag::I32, items, i32::to_le_bytes, out),
        Typed::I64(items) => put(tag::I64, items, i64::to_le_bytes, out),
        Typed::F16(items) => put(tag::F16, items, f16::to_le_bytes, out),
        Typed::Bf16(items) => put(tag::BF16, items, bf16::to_le_bytes, out),
        Typed::F32(items) => put(tag::F32, items, f32::to_le_bytes, out),
        Typed::F64(items) => put(tag::F64, items, f64::to_le_bytes, out),
    }
}

/// Decodes one value; bytes behind it are an error.
///
/// # Errors
/// The bytes are no value of JSON in CBOR, or nest too deeply.
pub fn decode(bytes: &[u8]) -> Result<Value> {
    let mut decoder = Decoder { rest: bytes };
    let value = decoder.value(0)?;
    if decoder.rest.is_empty() { Ok(value) } else { Err(Error::Damaged("bytes behind the value")) }
}

struct Decoder<'a> {
    rest: &'a [u8],
}

/// An item's first byte and number.
struct Head {
    major: u8,
    /// The five lower bits of the first byte.
    form: u8,
    /// None for an indefinite length.
    number: Option<u64>,
}

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(Error::Damaged("it ends within a value"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn head(&mut self) -> Result<Head> {
        let first = self.take(1)?.first().copied().unwrap_or_default();
        let (major, form) = (first >> 5, first & 31);
        let number = match form {
            0..24 => Some(u64::from(form)),
            24..28 => {
                let bytes = self.take(1 << (form - 24))?;
                Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            }
            31 => None,
            _ => return Err(Error::Damaged("a length of no form")),
        };
        Ok(Head { major, form, number })
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        let head = self.head()?;
        if matches!(head.major, ARRAY | MAP | TAG) && depth + 1 >= DEPTH_LIMIT {
            return Err(Error::TooDeep);
        }
        match (head.major, head.number) {
            (UNSIGNED, Some(number)) => Ok(Value::number(Number::from_u64(number))),
            (NEGATIVE, Some(number)) => {
                let number =
                    i64::try_from(number).map_err(|_| Error::Damaged("an integer beyond 64 bits"))?;
                Ok(Value::number(Number::Int(!number)))
            }
            (TEXT, length) => self.text(length),
            (ARRAY, length) => self.array(length, depth),
            (MAP, length) => self.object(length, depth),
            (TAG, Some(tag)) => self.typed(tag),
            (SIMPLE, Some(number)) => simple(head.form, number),
            _ => Err(Error::Damaged("an item that is no JSON")),
        }
    }

    /// Whether another item of a container follows; `left` counts down if the length is definite.
    fn has_next(&mut self, left: &mut Option<u64>) -> bool {
        match left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => match self.rest.split_first() {
                Some((&BREAK, rest)) => {
                    self.rest = rest;
                    false
                }
                _ => true,
            },
        }
    }

    fn string(&mut self, major: u8, length: Option<u64>) -> Result<Vec<u8>> {
        let take = |decoder: &mut Self, length: u64| {
            decoder.take(usize::try_from(length).unwrap_or(usize::MAX)).map(<[u8]>::to_vec)
        };
        if let Some(length) = length {
            return take(self, length);
        }
        let mut bytes = Vec::new();
        while self.has_next(&mut None) {
            match self.head()? {
                Head { major: inner, number: Some(length), .. } if inner == major => {
                    bytes.extend(take(self, length)?)
                }
                _ => return Err(Error::Damaged("a string's part of another type")),
            }
        }
        Ok(bytes)
    }

    fn text(&mut self, length: Option<u64>) -> Result<Value> {
        let bytes = self.string(TEXT, length)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Error::Damaged("a text that is not UTF-8"))?;
        Ok(Value::text(text))
    }

    fn array(&mut self, mut left: Option<u64>, depth: usize) -> Result<Value> {
        let mut values = Vec::new();
        while self.has_next(&mut left) {
            values.push(self.value(depth + 1)?);
        }
        Ok(Value::array(values.into_iter()))
    }

    fn object(&mut self, mut left: Option<u64>, depth: usize) -> Result<Value> {
        let mut members = Vec::new();
        while self.has_next(&mut left) {
            let name = match self.head()? {
                Head { major: TEXT, number, .. } => self.text(number)?,
                _ => return Err(Error::Damaged("a member's name that is no text")),
            };
            members.push(Member::new(name, self.value(depth + 1)?));
        }
        Ok(Value::object(members.into_iter()))
    }

    fn typed(&mut self, tag: u64) -> Result<Value> {
        let bytes = match self.head()? {
            Head { major: BYTES, number, .. } => self.string(BYTES, number)?,
            _ => return Err(Error::Damaged("a tag of another thing than bytes")),
        };
        let typed = match tag {
            tag::I8 => Typed::I8(items(&bytes, i8::from_le_bytes)?),
            tag::I16 => Typed::I16(items(&bytes, i16::from_le_bytes)?),
            tag::I32 => Typed::I32(items(&bytes, i32::from_le_bytes)?),
            tag::I64 => Typed::I64(items(&bytes, i64::from_le_bytes)?),
            tag::U8 => Typed::I16(items(&bytes, |item| i16::from(u8::from_le_bytes(item)))?),
            tag::U16 => Typed::I32(items(&bytes, |item| i32::from(u16::from_le_bytes(item)))?),
            tag::U32 => Typed::I64(items(&bytes, |item| i64::from(u32::from_le_bytes(item)))?),
            tag::U64 => {
                let numbers = items(&bytes, |item| Number::from_u64(u64::from_le_bytes(item)))?;
                return Ok(Value::array(numbers.into_iter().map(Value::number)));
            }
            tag::F16 => Typed::F16(items(&bytes, f16::from_le_bytes)?),
            tag::BF16 => Typed::Bf16(items(&bytes, bf16::from_le_bytes)?),
            tag::F32 => Typed::F32(items(&bytes, f32::from_le_bytes)?),
            tag::F64 => Typed::F64(items(&bytes, f64::from_le_bytes)?),
            _ => return Err(Error::Damaged("an unknown tag")),
        };
        if !typed.is_finite() {
            return Err(Error::Damaged("an element that is not finite"));
        }
        Ok(Value::typed(typed))
    }
}

fn items<T, const N: usize>(bytes: &[u8], item: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(Error::Damaged("an array of half an element"));
    }
    Ok(chunks.iter().map(|chunk| item(*chunk)).collect())
}

fn simple(form: u8, number: u64) -> Result<Value> {
    let float = match form {
        20 => return Ok(Value::bool(false)),
        21 => return Ok(Value::bool(true)),
        22 | 23 => return Ok(Value::NULL),
        25 => f16::from_bits(number as u16).to_f64(),
        26 => f64::from(f32::from_bits(number as u32)),
        27 => f64::from_bits(number),
        _ => return Err(Error::Damaged("an item that is no JSON")),
    };
    Ok(Number::from_f64(float).map_or(Value::NULL, Value::number))
}

#[cfg(test)]
mod tests;
