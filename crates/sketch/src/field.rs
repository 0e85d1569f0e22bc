//! The saved form of a module's value: a sequence of typed fields, as Redis' `RedisModule_Save…` calls make
//! it.
//!
//! The RDB file and DUMP carry the fields; this crate says which. A decoder takes nothing on trust: a count
//! that lies ends at the field that is missing, a size is compared with the bytes that came.

use std::borrow::Cow;

use crate::pages::{Pages, Run};

/// A module type: nine characters and the version of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleType {
    /// The type's name, which TYPE answers.
    pub name: &'static str,
    /// The version that is written; older ones are read, newer ones refused.
    pub version: u16,
}

impl ModuleType {
    /// Name and version as RDB has them: six bits for each character, then ten for the version
    /// (Redis: `moduleTypeEncodeId`).
    pub fn id(self) -> u64 {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let digit = |byte: u8| ALPHABET.iter().position(|known| *known == byte).unwrap_or(0) as u64;
        let name = self.name.bytes().fold(0, |id, byte| id << 6 | digit(byte));
        name << 10 | u64::from(self.version)
    }
}

/// Why a saved value was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The fields end too early.
    #[error("the saved value ends too early")]
    Truncated,
    /// A field is not of the type that is due.
    #[error("a field has the wrong type")]
    WrongType,
    /// The fields are of a version that is not known.
    #[error("the saved value's version is not known")]
    Version,
    /// Two fields contradict each other, or one is out of its range.
    #[error("a field is out of range: {0}")]
    Range(&'static str),
}

/// Where a value's fields go.
pub trait FieldSink {
    /// `RedisModule_SaveUnsigned`.
    fn unsigned(&mut self, value: u64);
    /// `RedisModule_SaveSigned`, which saves an unsigned integer of the same bits: RDB's opcode for signed
    /// ones has no user.
    fn signed(&mut self, value: i64) {
        self.unsigned(value as u64);
    }
    /// `RedisModule_SaveDouble`.
    fn double(&mut self, value: f64);
    /// `RedisModule_SaveFloat`.
    fn float(&mut self, value: f32);
    /// `RedisModule_SaveStringBuffer`: `len` bytes, which come in pieces.
    fn string(&mut self, len: u64, pieces: &mut dyn Iterator<Item = Cow<'_, [u8]>>);
}

/// Where a value's fields come from. Each call takes the next field, or fails if it is of another type.
pub trait FieldSource {
    /// The next field, which is unsigned.
    fn unsigned(&mut self) -> Result<u64, DecodeError>;
    /// The next field, which is signed: see [`FieldSink::signed`].
    fn signed(&mut self) -> Result<i64, DecodeError> {
        self.unsigned().map(|value| value as i64)
    }
    /// The next field, which is a double.
    fn double(&mut self) -> Result<f64, DecodeError>;
    /// The next field, which is a float.
    fn float(&mut self) -> Result<f32, DecodeError>;
    /// The next field, which is a string.
    fn string(&mut self) -> Result<Cow<'_, [u8]>, DecodeError>;
}

/// A field on its own; a `Vec` of them is a sink, and [`Fields`] a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// An unsigned integer, or a signed one of the same bits.
    Unsigned(u64),
    /// A double.
    Double(f64),
    /// A float.
    Float(f32),
    /// A string.
    String(Vec<u8>),
}

impl FieldSink for Vec<Field> {
    fn unsigned(&mut self, value: u64) {
        self.push(Field::Unsigned(value));
    }

    fn double(&mut self, value: f64) {
        self.push(Field::Double(value));
    }

    fn float(&mut self, value: f32) {
        self.push(Field::Float(value));
    }

    fn string(&mut self, _: u64, pieces: &mut dyn Iterator<Item = Cow<'_, [u8]>>) {
        let mut bytes = Vec::new();
        pieces.for_each(|piece| bytes.extend_from_slice(&piece));
        self.push(Field::String(bytes));
    }
}

/// Fields in memory, taken one after the other.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [Field],
}

impl<'a> Fields<'a> {
    /// All of these.
    pub fn new(fields: &'a [Field]) -> Fields<'a> {
        Fields { rest: fields }
    }

    /// Fields that nothing has taken.
    pub fn rest(&self) -> &'a [Field] {
        self.rest
    }

    fn next(&mut self) -> Result<&'a Field, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(first)
    }
}

impl FieldSource for Fields<'_> {
    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        match self.next()? {
            Field::Unsigned(value) => Ok(*value),
            _ => Err(DecodeError::WrongType),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.next()? {
            Field::Double(value) => Ok(*value),
            _ => Err(DecodeError::WrongType),
        }
    }

    fn float(&mut self) -> Result<f32, DecodeError> {
        match self.next()? {
            Field::Float(value) => Ok(*value),
            _ => Err(DecodeError::WrongType),
        }
    }

    fn string(&mut self) -> Result<Cow<'_, [u8]>, DecodeError> {
        match self.next()? {
            Field::String(bytes) => Ok(Cow::Borrowed(bytes)),
            _ => Err(DecodeError::WrongType),
        }
    }
}

/// Bytes that stand for slots that are zero.
static ZEROS: [u8; 4096] = [0; 4096];

/// `count` zeros, in pieces.
fn zeros<'a>(count: usize) -> Vec<Cow<'a, [u8]>> {
    (0..count).step_by(ZEROS.len()).map(|at| Cow::Borrowed(&ZEROS[..ZEROS.len().min(count - at)])).collect()
}

/// Saves an array of bytes as a string.
pub(crate) fn save_bytes<const N: usize>(sink: &mut dyn FieldSink, bytes: &Pages<u8, N>) {
    let mut pieces = bytes.runs(0..bytes.len()).flat_map(|run| match run {
        Run::Zeros(count) => zeros(count),
        Run::Slots(slots) => vec![Cow::Borrowed(slots)],
    });
    sink.string(bytes.len(), &mut pieces);
}

/// Saves an array of slots as a string, `W` bytes for each.
pub(crate) fn save_slots<T: Clone + Default + PartialEq, const N: usize, const W: usize>(
    sink: &mut dyn FieldSink,
    slots: &Pages<T, N>,
    encode: impl Fn(&T) -> [u8; W] + Copy,
) {
    let mut pieces = slots.runs(0..slots.len()).flat_map(|run| match run {
        Run::Zeros(count) => zeros(count * W),
        Run::Slots(run) => vec![Cow::Owned(run.iter().flat_map(encode).collect())],
    });
    sink.string(slots.len() * W as u64, &mut pieces);
}

/// Reads a string as an array of `len` slots of `W` bytes.
pub(crate) fn load_slots<T: Clone + Default + PartialEq, const N: usize, const W: usize>(
    bytes: &[u8],
    len: u64,
    decode: impl Fn([u8; W]) -> T,
) -> Result<Pages<T, N>, DecodeError> {
    let (chunks, tail) = bytes.as_chunks::<W>();
    if chunks.len() as u64 != len || !tail.is_empty() {
        return Err(DecodeError::Range("a table's length"));
    }
    let mut pages = Pages::zeroed(len);
    let mut piece = Vec::with_capacity(N.min(chunks.len()));
    for (at, chunk) in chunks.chunks(N).enumerate() {
        piece.clear();
        piece.extend(chunk.iter().map(|slot| decode(*slot)));
        pages.write((at * N) as u64, &piece);
    }
    Ok(pages)
}

/// A number from a field that must fit a smaller type.
pub(crate) fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str) -> Result<T, DecodeError> {
    T::try_from(value).map_err(|_| DecodeError::Range(what))
}
