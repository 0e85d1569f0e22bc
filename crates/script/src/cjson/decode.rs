//! JSON as Lua values.

use std::ffi::c_int;

use super::{array, settings};
use crate::api::step;
use crate::json::JsonSettings;
use crate::output::Held;
use crate::stack::{Raise, Results, Stack};

/// `cjson.decode`
pub fn decode(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let settings = settings::get(stack);
    // SAFETY: the only argument stays where it is: values are pushed and taken above it.
    let text = unsafe { stack.anchored_argument(1)? };
    if matches!(text, [0, _, ..] | [_, 0, ..]) {
        return Err(Raise::error("JSON parser does not support UTF-16 or UTF-32"));
    }
    // A token is no longer than the text.
    let _token = Held::new(stack, text.len())?;
    let mut parser = Parser { text, at: 0, begin: 0, open: Vec::new(), settings };
    parser.push_document(stack)?;
    match parser.next() {
        Token::End => Ok(1),
        token => Err(parser.unexpected("the end", &token)),
    }
}

/// A token; its content is pushed, if it is part of a value.
#[derive(Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    /// Where the last token begins, or is wrong.
    begin: usize,
    /// Arrays and objects that have not ended, the innermost last.
    open: Vec<Open>,
    settings: JsonSettings,
}

/// An array, with its next element, or an object that has not ended.
enum Open {
    Array(c_int),
    Object,
}

impl Parser<'_> {
    /// The byte so far ahead; a zero behind the end.
    fn ahead(&self, by: usize) -> u8 {
        self.text.get(self.at + by).copied().unwrap_or(0)
    }

    fn unexpected(&self, expected: &str, found: &Token) -> Raise {
        let (found, place) = (found.name(), self.begin + 1);
        Raise::error(format!("Expected {expected} but found {found} at character {place}"))
    }

    /// Pushes a value. It is a loop, as the C stack is smaller than Lua's: the open tables are on Lua's
    /// stack, an object's key above its table.
    fn push_document(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        let mut steps = 0;
        let mut token = self.next();
        loop {
            step(stack, &mut steps)?;
            let next = match token {
                Token::ObjectBegin => self.begin_object(stack)?,
                Token::ArrayBegin => self.begin_array(stack)?,
                other => {
                    self.push_scalar(stack, other)?;
                    None
                }
            };
            token = match next {
                Some(token) => token,
                None => match self.end_value(stack)? {
                    Some(token) => token,
                    None => return Ok(()),
                },
            };
        }
    }

    fn push_scalar(&mut self, stack: &mut Stack<'_>, token: Token) -> Result<(), Raise> {
        match token {
            Token::String(bytes) => stack.try_push_bytes(&bytes)?,
            Token::Number(number) => stack.push_number(number),
            Token::Boolean(value) => stack.push_bool(value),
            Token::Null => stack.push_address(std::ptr::null_mut()),
            other => return Err(self.unexpected("value", &other)),
        }
        Ok(())
    }

    /// Puts the value on top into the open table, and ends the tables that end with it; returns the token
    /// that begins the next value, or none after the last.
    fn end_value(&mut self, stack: &mut Stack<'_>) -> Result<Option<Token>, Raise> {
        loop {
            let Some(innermost) = self.open.last_mut() else { return Ok(None) };
            let is_object = matches!(innermost, Open::Object);
            match innermost {
                Open::Array(element) => {
                    stack.try_set_element(-2, *element)?;
                    *element += 1;
                }
                Open::Object => stack.try_set(-3)?,
            }
            match self.next() {
                Token::ArrayEnd if !is_object => drop(self.open.pop()),
                Token::ObjectEnd if is_object => drop(self.open.pop()),
                Token::Comma if is_object => {
                    let key = self.next();
                    self.push_key(stack, key)?;
                    return Ok(Some(self.next()));
                }
                Token::Comma => return Ok(Some(self.next())),
                token if is_object => return Err(self.unexpected("comma or object end", &token)),
                token => return Err(self.unexpected("comma or array end", &token)),
            }
        }
    }

    fn descend(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        let depth = self.open.len() as i64 + 1;
        if depth > self.settings.decode_max_depth || !stack.reserve(4) {
            let at = self.at;
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(Raise::error(text));
        }
        stack.try_push_table(0, 0)
    }

    /// Pushes an object's table, and its first key; the token of that key's value, if it is not empty.
    fn begin_object(&mut self, stack: &mut Stack<'_>) -> Result<Option<Token>, Raise> {
        self.descend(stack)?;
        let key = self.next();
        if key == Token::ObjectEnd {
            return Ok(None);
        }
        self.open.push(Open::Object);
        self.push_key(stack, key)?;
        Ok(Some(self.next()))
    }

    fn push_key(&mut self, stack: &mut Stack<'_>, token: Token) -> Result<(), Raise> {
        let Token::String(key) = token else { return Err(self.unexpected("object key string", &token)) };
        stack.try_push_bytes(&key)?;
        match self.next() {
            Token::Colon => Ok(()),
            token => Err(self.unexpected("colon", &token)),
        }
    }

    /// Pushes an array's table; the token of its first value, if it is not empty.
    fn begin_array(&mut self, stack: &mut Stack<'_>) -> Result<Option<Token>, Raise> {
        self.descend(stack)?;
        if self.settings.marks_arrays {
            array::mark(stack);
        }
        let token = self.next();
        if token == Token::ArrayEnd {
            return Ok(None);
        }
        self.open.push(Open::Array(1));
        Ok(Some(token))
    }

    /// Takes the next token.
    fn next(&mut self) -> Token {
        while matches!(self.ahead(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.begin = self.at;
        let single = match self.ahead(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            // A zero ends the text wherever it stands, as in C.
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.word(),
        };
        self.at += 1;
        single
    }

    fn error(&mut self, text: &'static str) -> Token {
        self.begin = self.at;
        Token::Error(text)
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let words = [
            (b"true".as_slice(), Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        let may_be_number = matches!(rest.first(), Some(b'i' | b'I' | b'n' | b'N' | b'+'));
        if may_be_number && self.settings.decode_invalid && self.is_beyond_json() {
            return self.number();
        }
        self.error("invalid token")
    }

    /// Whether a number is one that C reads and JSON does not have.
    fn is_beyond_json(&self) -> bool {
        let rest = &self.text[self.at..];
        let rest = match rest {
            [b'+', ..] => return true,
            [b'-', rest @ ..] | rest => rest,
        };
        match rest {
            [b'0', next, ..] => next.eq_ignore_ascii_case(&b'x') || next.is_ascii_digit(),
            [b'0'..=b'9', ..] => false,
            _ => rest
                .get(..3)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
        }
    }

    fn number(&mut self) -> Token {
        if !self.settings.decode_invalid && self.is_beyond_json() {
            return self.error("invalid number");
        }
        match scan_number(&self.text[self.at..]) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let rest = &self.text[self.at..];
        // As far as the first quote; an escaped one is not the end, but the further text does not change the
        // result.
        let len = rest.iter().position(|&byte| byte == b'"').unwrap_or(rest.len());
        let mut out = Vec::with_capacity(len);
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.ahead(0) {
                b'"' => break,
                b'\\' => {}
                _ => return self.error("unexpected end of string"),
            }
            let escaped = match self.ahead(1) {
                b'"' => b'"',
                b'\\' => b'\\',
                b'/' => b'/',
                b'b' => 0x08,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 0x0c,
                b'r' => b'\r',
                b'u' => match self.unicode() {
                    Some((character, len)) => {
                        out.extend_from_slice(&character);
                        self.at += len;
                        continue;
                    }
                    None => return self.error("invalid unicode escape code"),
                },
                _ => return self.error("invalid escape code"),
            };
            out.push(escaped);
            self.at += 2;
        }
        self.at += 1;
        Token::String(out)
    }

    /// Four hexadecimal digits so far ahead.
    fn hexadecimal(&self, by: usize) -> Option<u32> {
        let digits = self.text.get(self.at + by..self.at + by + 4)?;
        digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | char::from(digit).to_digit(16)?))
    }

    /// The UTF-8 of the escape at this place, and the escape's length.
    fn unicode(&self) -> Option<(Vec<u8>, usize)> {
        let first = self.hexadecimal(2)?;
        let (code, len) = match first {
            0xdc00..=0xdfff => return None,
            0xd800..=0xdbff => {
                let second =
                    self.hexadecimal(8).filter(|_| (self.ahead(6), self.ahead(7)) == (b'\\', b'u'))?;
                let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                (((first & 0x3ff) << 10 | low) + 0x10000, 12)
            }
            _ => (first, 6),
        };
        let mut buffer = [0; 4];
        char::from_u32(code).map(|character| (character.encode_utf8(&mut buffer).as_bytes().to_vec(), len))
    }
}

/// The longest prefix that C's `strtod` takes for a number, and its length.
fn scan_number(text: &[u8]) -> Option<(f64, usize)> {
    let (sign, sign_len) = match text.first()? {
        b'-' => (-1.0, 1),
        b'+' => (1.0, 1),
        _ => (1.0, 0),
    };
    let rest = &text[sign_len..];
    let starts = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let (value, len) = if starts(b"infinity") {
        (f64::INFINITY, 8)
    } else if starts(b"inf") {
        (f64::INFINITY, 3)
    } else if starts(b"nan") {
        (f64::NAN, 3)
    } else if starts(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        scan_hexadecimal(&rest[2..])
    } else {
        scan_decimal(rest)?
    };
    Some((sign * value, sign_len + len))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn scan_decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = digits(text);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        let fraction = digits(&text[len + 1..]);
        if whole + fraction > 0 {
            len += 1 + fraction;
        }
    }
    if len == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(text.get(len + 1 + sign..).unwrap_or_default());
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let value = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((value, len))
}

/// The digits behind `0x`, at least one; the length counts the prefix.
fn scan_hexadecimal(text: &[u8]) -> (f64, usize) {
    let (mut value, mut scale, mut at, mut is_fraction) = (0f64, 0i32, 0, false);
    while let Some(&byte) = text.get(at) {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                scale -= if is_fraction { 4 } else { 0 };
            }
            None if byte == b'.' && !is_fraction => is_fraction = true,
            None => break,
        }
        at += 1;
    }
    if matches!(text.get(at), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let rest = text.get(at + 1 + sign..).unwrap_or_default();
        let count = digits(rest);
        let exponent = std::str::from_utf8(&rest[..count]).ok().and_then(|text| text.parse::<i32>().ok());
        if count > 0 {
            let exponent = exponent.unwrap_or(i32::MAX / 2);
            scale = scale.saturating_add(if text.get(at + 1) == Some(&b'-') { -exponent } else { exponent });
            at += 1 + sign + count;
        }
    }
    (value * 2f64.powi(scale), 2 + at)
}

#[cfg(test)]
mod tests {
    use super::scan_number;

    #[test]
    fn numbers_are_read_as_far_as_c_reads_them() {
        let cases = [
            ("12", 12.0, 2),
            ("-1.5e3x", -1500.0, 6),
            ("1.", 1.0, 2),
            (".5", 0.5, 2),
            ("1e", 1.0, 1),
            ("1e+", 1.0, 1),
            ("0x1F", 31.0, 4),
            ("0x1.8p1", 3.0, 7),
            ("0x", 0.0, 1),
            ("infinity", f64::INFINITY, 8),
            ("-INFx", f64::NEG_INFINITY, 4),
            ("007", 7.0, 3),
        ];
        for (text, value, len) in cases {
            assert_eq!(scan_number(text.as_bytes()), Some((value, len)), "{text}");
        }
        for text in ["", "-", "x", ".", "e5"] {
            assert_eq!(scan_number(text.as_bytes()), None, "{text}");
        }
    }
}
