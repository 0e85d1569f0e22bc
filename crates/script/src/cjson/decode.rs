//! JSON as Lua values.

use crate::context::Context;
use crate::json::JsonSettings;
use crate::stack::{Raise, Results, Stack};

/// However deep a script allows values to be nested: Rust's stack has an end.
const NESTED_MAX: i64 = 5000;

/// `cjson.decode`
pub fn decode(stack: &mut Stack<'_>) -> Results {
    if stack.top() != 1 {
        return Err(Raise::Argument(1, "expected 1 argument".into()));
    }
    let settings = Context::of(stack).json.get();
    let text = stack.bytes_argument(1)?.to_vec();
    if matches!(text.as_slice(), [0, _, ..] | [_, 0, ..]) {
        return Err(Raise::error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser = Parser { text: &text, at: 0, begin: 0, depth: 0, settings };
    let token = parser.next();
    parser.push_value(stack, token)?;
    match parser.next() {
        Token::End => Ok(1),
        token => Err(parser.unexpected("the end", &token)),
    }
}

/// A token; what it holds is pushed, if it is part of a value.
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
    depth: i64,
    settings: JsonSettings,
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

    fn push_value(&mut self, stack: &mut Stack<'_>, token: Token) -> Result<(), Raise> {
        match token {
            Token::String(bytes) => stack.push_bytes(&bytes),
            Token::Number(number) => stack.push_number(number),
            Token::Boolean(value) => stack.push_bool(value),
            Token::Null => stack.push_address(std::ptr::null_mut()),
            Token::ObjectBegin => self.push_object(stack)?,
            Token::ArrayBegin => self.push_array(stack)?,
            other => return Err(self.unexpected("value", &other)),
        }
        Ok(())
    }

    fn descend(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        self.depth += 1;
        if self.depth > self.settings.decode_max_depth.min(NESTED_MAX) || !stack.reserve(4) {
            let (depth, at) = (self.depth, self.at);
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(Raise::error(text));
        }
        Ok(())
    }

    fn push_object(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        self.descend(stack)?;
        stack.push_table(0, 0);
        let mut token = self.next();
        while token != Token::ObjectEnd {
            let Token::String(key) = token else { return Err(self.unexpected("object key string", &token)) };
            stack.push_bytes(&key);
            match self.next() {
                Token::Colon => {}
                token => return Err(self.unexpected("colon", &token)),
            }
            let value = self.next();
            self.push_value(stack, value)?;
            stack.set(-3);
            match self.next() {
                Token::ObjectEnd => break,
                Token::Comma => token = self.next(),
                token => return Err(self.unexpected("comma or object end", &token)),
            }
            if token == Token::ObjectEnd {
                return Err(self.unexpected("object key string", &token));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn push_array(&mut self, stack: &mut Stack<'_>) -> Result<(), Raise> {
        self.descend(stack)?;
        stack.push_table(0, 0);
        let mut token = self.next();
        if token != Token::ArrayEnd {
            for element in 1.. {
                self.push_value(stack, token)?;
                stack.set_element(-2, element);
                match self.next() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next(),
                    token => return Err(self.unexpected("comma or array end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
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
        let mut out = Vec::new();
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

/// What follows `0x`, at least one digit; the length counts the prefix.
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
