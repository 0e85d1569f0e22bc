//! Values of a running script, and the texts that they name.
//!
//! Invariant: a [`Text`] stays valid until its run ends, since texts are only ever appended.

use crate::library::{Builtin, Library};

/// Where a text's bytes are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Among the program's constants.
    Constant,
    /// A whole input: `start` is its index in `KEYS`.
    Key,
    /// A whole input: `start` is its index in `ARGV`.
    Argument,
    /// In the arena: replies, and the script's own strings.
    Arena,
}

/// A string's place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub source: Source,
    pub start: u32,
    pub len: u32,
}

/// A value of Lua's.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) enum Value {
    #[default]
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Text),
    /// Its number among the run's tables.
    Table(u32),
    /// Its number among the run's closures.
    Closure(u32),
    Function(Builtin),
    Library(Library),
    /// `cjson.null`
    Null,
}

impl Value {
    /// Neither `nil` nor `false`.
    #[inline]
    pub fn is_true(self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }

    #[inline]
    pub fn is_nil(self) -> bool {
        matches!(self, Value::Nil)
    }

    /// What `type` says.
    pub fn type_name(self) -> &'static [u8] {
        match self {
            Value::Nil => b"nil",
            Value::Boolean(_) => b"boolean",
            Value::Number(_) => b"number",
            Value::Text(_) => b"string",
            Value::Table(_) | Value::Library(_) => b"table",
            Value::Closure(_) | Value::Function(_) => b"function",
            Value::Null => b"userdata",
        }
    }
}

/// The texts of a run.
pub(crate) struct Texts<'r> {
    pub constants: &'r [u8],
    pub keys: &'r [&'r [u8]],
    pub args: &'r [&'r [u8]],
    pub arena: Vec<u8>,
}

impl Texts<'_> {
    #[inline]
    pub fn bytes(&self, text: Text) -> &[u8] {
        let (start, len) = (text.start as usize, text.len as usize);
        match text.source {
            Source::Constant => &self.constants[start..start + len],
            Source::Key => self.keys[start],
            Source::Argument => self.args[start],
            Source::Arena => &self.arena[start..start + len],
        }
    }

    /// The text of an input.
    #[inline]
    pub fn input(&self, source: Source, index: usize) -> Option<Text> {
        let inputs = if source == Source::Key { self.keys } else { self.args };
        let len = inputs.get(index)?.len();
        Some(Text { source, start: index as u32, len: len as u32 })
    }

    /// The text from this place of the arena to its end.
    #[inline]
    pub fn since(&self, start: usize) -> Text {
        Text { source: Source::Arena, start: start as u32, len: (self.arena.len() - start) as u32 }
    }

    /// Puts bytes into the arena.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Text {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        self.since(start)
    }

    /// Appends a part of a text to the arena.
    #[inline]
    pub fn append_part(&mut self, text: Text, from: usize, to: usize) {
        let (start, len) = (text.start as usize, text.len as usize);
        match text.source {
            Source::Constant => self.arena.extend_from_slice(&self.constants[start..start + len][from..to]),
            Source::Key => self.arena.extend_from_slice(&self.keys[start][from..to]),
            Source::Argument => self.arena.extend_from_slice(&self.args[start][from..to]),
            Source::Arena => self.arena.extend_from_within(start + from..start + to),
        }
    }

    /// Appends a text to the arena.
    #[inline]
    pub fn append(&mut self, text: Text) {
        self.append_part(text, 0, text.len as usize);
    }

    /// A part of a text.
    pub fn part(&mut self, text: Text, from: usize, to: usize) -> Text {
        match text.source {
            Source::Constant | Source::Arena => {
                Text { start: text.start + from as u32, len: (to - from) as u32, ..text }
            }
            Source::Key | Source::Argument if to - from == text.len as usize => text,
            Source::Key | Source::Argument => {
                let start = self.arena.len();
                self.append_part(text, from, to);
                self.since(start)
            }
        }
    }

    #[inline]
    pub fn are_equal(&self, one: Text, other: Text) -> bool {
        one.len == other.len && (one == other || self.bytes(one) == self.bytes(other))
    }

    /// Whether two values are the same without metatables, as scripts' are.
    #[inline]
    pub fn are_same(&self, one: Value, other: Value) -> bool {
        match (one, other) {
            (Value::Nil, Value::Nil) | (Value::Null, Value::Null) => true,
            (Value::Boolean(one), Value::Boolean(other)) => one == other,
            (Value::Number(one), Value::Number(other)) => one == other,
            (Value::Text(one), Value::Text(other)) => self.are_equal(one, other),
            (Value::Table(one), Value::Table(other)) | (Value::Closure(one), Value::Closure(other)) => {
                one == other
            }
            (Value::Function(one), Value::Function(other)) => one == other,
            (Value::Library(one), Value::Library(other)) => one == other,
            _ => false,
        }
    }
}

/// Lua's hash of a string, which decides about its place in tables. Strings of more than 31 bytes have the
/// hash of the `lstring.c` in `crates/lua`.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    const SHORT_MAX: usize = 31;
    if bytes.len() > SHORT_MAX {
        return hash_long(bytes);
    }
    bytes.iter().rev().fold(bytes.len() as u32, |hash, &byte| {
        let mixed = (hash << 5).wrapping_add(hash >> 2).wrapping_add(u32::from(byte));
        hash ^ mixed
    })
}

fn hash_long(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = (bytes.len() as u64).wrapping_mul(FACTOR);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        hash = (hash ^ word).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    (hash ^ (hash >> 32)) as u32
}
