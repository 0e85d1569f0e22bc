//! Reads one field of a JSON object's text as a filter's value: the text is walked, and nothing but an
//! escaped string is copied.
//!
//! As in Redis the reader is lenient: values that are passed over are not checked closely, `\u` escapes are
//! copied as they stand, and objects below the field are no values.

use super::number::{self, is_blank};
use std::borrow::Cow;

/// Levels of arrays within a field; deeper ones are no values.
pub(super) const DEPTH_MAX: usize = 32;

/// A value that a field or an expression has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A number, or a boolean as 0 or 1.
    Number(f64),
    /// A string.
    Text(Cow<'a, [u8]>),
    /// The text behind an array's opening bracket; all of its elements are values.
    Array(&'a [u8]),
    /// A tuple of the expression: from which literal to which.
    Tuple(usize, usize),
    /// JSON's null.
    Null,
}

/// The value of the top-level field `name`; `None` for a missing field, or one that no filter can use.
pub(super) fn field<'a>(json: &'a [u8], name: &[u8]) -> Option<Value<'a>> {
    let mut reader = Reader { text: json, at: 0 };
    reader.skip_blanks();
    reader.expect(b'{')?;
    loop {
        reader.skip_blanks();
        let key = reader.skip_string()?;
        reader.skip_blanks();
        reader.expect(b':')?;
        reader.skip_blanks();
        if key == name {
            return reader.value(0);
        }
        reader.skip_value()?;
        reader.skip_blanks();
        reader.expect(b',')?;
    }
}

/// The elements of an array's text.
pub(super) fn elements(text: &[u8]) -> impl Iterator<Item = Value<'_>> {
    let mut reader = Reader { text, at: 0 };
    std::iter::from_fn(move || {
        reader.skip_blanks();
        if reader.peek() == Some(b',') {
            reader.at += 1;
        }
        reader.skip_blanks();
        // The array's nesting was checked when it was made; an element lies one level deeper.
        if reader.peek() == Some(b']') { None } else { reader.value(0) }
    })
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().iter().take_while(|byte| is_blank(**byte)).count();
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Passes a string over; its text between the quotes, escapes as they stand.
    fn skip_string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'\\' => self.at += 2,
                b'"' => break,
                _ => self.at += 1,
            }
        }
        let text = self.text.get(start..self.at)?;
        self.at += 1;
        Some(text)
    }

    /// Passes an array or object over: only its own kind of bracket counts.
    fn skip_brackets(&mut self, open: u8, close: u8) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                byte if byte == open => depth += 1,
                byte if byte == close => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string().map(|_| ()),
            b'{' => self.skip_brackets(b'{', b'}'),
            b'[' => self.skip_brackets(b'[', b']'),
            b't' => self.skip_word(b"true"),
            b'f' => self.skip_word(b"false"),
            b'n' => self.skip_word(b"null"),
            _ => {
                let length = self.rest().iter().take_while(|byte| is_number_byte(**byte)).count();
                self.at += length;
                (length > 0).then_some(())
            }
        }
    }

    fn skip_word(&mut self, word: &[u8]) -> Option<()> {
        self.rest().starts_with(word).then(|| self.at += word.len())
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        self.skip_blanks();
        match self.peek()? {
            b'"' => self.skip_string().map(|text| Value::Text(unescape(text))),
            b'[' => self.array(depth),
            b't' => self.word(b"true", Value::Number(1.0)),
            b'f' => self.word(b"false", Value::Number(0.0)),
            b'n' => self.word(b"null", Value::Null),
            b'0'..=b'9' | b'-' | b'+' => self.number(),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let digits = self.rest().iter().take(number::TEXT_MAX_BYTES);
        let length = digits.take_while(|byte| is_number_byte(**byte)).count();
        let value = number::parse(&self.rest()[..length])?;
        self.at += length;
        Some(Value::Number(value))
    }

    /// A word that no other letter follows.
    fn word(&mut self, word: &[u8], value: Value<'a>) -> Option<Value<'a>> {
        self.skip_word(word)?;
        match self.peek() {
            Some(next) if !is_blank(next) && !matches!(next, b',' | b']' | b'}') => None,
            _ => Some(value),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth == DEPTH_MAX {
            return None;
        }
        self.at += 1;
        let text = self.rest();
        self.skip_blanks();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(Value::Array(text));
        }
        loop {
            self.value(depth + 1)?;
            self.skip_blanks();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(Value::Array(text))
    }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// A string without its backslashes. Escapes beside `\n`, `\r` and `\t` stand for the byte behind the
/// backslash.
fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let escaped = if *byte == b'\\' { bytes.next() } else { None };
        out.push(match escaped {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(other) => *other,
            None => *byte,
        });
    }
    Cow::Owned(out)
}
