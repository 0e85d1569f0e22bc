//! The tokens of an expression.
//!
//! The scanner takes the longest token, as RediSearch's does. A punctuation mark that begins no token is
//! skipped like a blank; outside strings and names a byte beyond ASCII ends the expression.

use crate::number::is_blank;

/// An operator of two operands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of operators")]
pub enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

impl Operator {
    /// How tightly it binds; all are left-associative. Those of one group bind equally, as RediSearch has it:
    /// `||` and `&&`, and `^` and `*`, too.
    pub fn precedence(self) -> u8 {
        match self {
            Operator::Or | Operator::And => 1,
            Operator::Equal
            | Operator::NotEqual
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => 2,
            Operator::Add | Operator::Subtract => 3,
            Operator::Multiply | Operator::Divide | Operator::Modulo | Operator::Power => 4,
        }
    }
}

/// The kind of a token.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number.
    Number(f64),
    /// `@` and a name.
    Property,
    /// A word: a function's name or NULL.
    Symbol,
    /// A string between quotes.
    String,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `!`
    Not,
    /// An operator.
    Operator(Operator),
    /// The end, again and again.
    End,
}

/// The scanner; its `position` and `text` are those that RediSearch shows in errors.
#[derive(Clone)]
pub struct Tokens<'a> {
    input: &'a [u8],
    at: usize,
    /// Where the token begins; at the end, where the last one began.
    pub position: usize,
    /// The text of the last token that was a number, a property (without `@`), a symbol or a string.
    pub text: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// The tokens of `input`.
    pub fn new(input: &'a [u8]) -> Self {
        Tokens { input, at: 0, position: 0, text: b"" }
    }

    /// The next token.
    pub fn next(&mut self) -> Kind {
        loop {
            let Some(rest) = self.input.get(self.at..).filter(|rest| !rest.is_empty()) else {
                return Kind::End;
            };
            match longest(rest) {
                Some((kind, len)) => {
                    self.position = self.at;
                    let text = rest.get(..len).unwrap_or_default();
                    match kind {
                        Kind::Property => self.text = text.get(1..).unwrap_or_default(),
                        Kind::Number(_) | Kind::Symbol | Kind::String => self.text = text,
                        _ => {}
                    }
                    self.at += len;
                    return kind;
                }
                None if rest.first().is_some_and(u8::is_ascii) => self.at += 1,
                None => self.at = self.input.len(),
            }
        }
    }
}

/// The longest token that `rest` begins with, and its length.
fn longest(rest: &[u8]) -> Option<(Kind, usize)> {
    match rest {
        [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => Some(number(rest)),
        [b'-', b'i', b'n', b'f', ..] => Some((Kind::Number(f64::NEG_INFINITY), 4)),
        [b'+', b'i', b'n', b'f', ..] => Some((Kind::Number(f64::INFINITY), 4)),
        [b'a'..=b'z' | b'A'..=b'Z', ..] => {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            Some((Kind::Symbol, rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len())))
        }
        [b'@', name @ ..] => match name_len(name) {
            0 => None,
            len => Some((Kind::Property, len + 1)),
        },
        [b'"' | b'\'', ..] => match (string_len(rest), rest) {
            (Some(len), _) => Some((Kind::String, len)),
            (None, [b'\'', b'i', b'n', b'f', ..]) => Some((Kind::Number(f64::INFINITY), 4)),
            (None, _) => None,
        },
        _ => operator(rest),
    }
}

fn operator(rest: &[u8]) -> Option<(Kind, usize)> {
    let (operator, len) = match rest {
        [b'(', ..] => return Some((Kind::Open, 1)),
        [b')', ..] => return Some((Kind::Close, 1)),
        [b',', ..] => return Some((Kind::Comma, 1)),
        [b'=', b'=', ..] => (Operator::Equal, 2),
        [b'!', b'=', ..] => (Operator::NotEqual, 2),
        [b'!', ..] => return Some((Kind::Not, 1)),
        [b'<', b'=', ..] => (Operator::LessOrEqual, 2),
        [b'<', ..] => (Operator::Less, 1),
        [b'>', b'=', ..] => (Operator::GreaterOrEqual, 2),
        [b'>', ..] => (Operator::Greater, 1),
        [b'&', b'&', ..] => (Operator::And, 2),
        [b'|', b'|', ..] => (Operator::Or, 2),
        [b'+', ..] => (Operator::Add, 1),
        [b'-', ..] => (Operator::Subtract, 1),
        [b'*', ..] => (Operator::Multiply, 1),
        [b'/', ..] => (Operator::Divide, 1),
        [b'%', ..] => (Operator::Modulo, 1),
        [b'^', ..] => (Operator::Power, 1),
        _ => return None,
    };
    Some((Kind::Operator(operator), len))
}

/// `-1.5e-3`; there are digits.
fn number(rest: &[u8]) -> (Kind, usize) {
    let digits = |from: usize| {
        let tail = rest.get(from..).unwrap_or_default();
        from + tail.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(tail.len())
    };
    let mut len = digits(usize::from(rest.first() == Some(&b'-')));
    if rest.get(len) == Some(&b'.') && digits(len + 1) > len + 1 {
        len = digits(len + 1);
    }
    if matches!(rest.get(len), Some(b'e' | b'E')) {
        let from = len + 1 + usize::from(rest.get(len + 1) == Some(&b'-'));
        if digits(from) > from {
            len = digits(from);
        }
    }
    let text = rest.get(..len).and_then(|text| std::str::from_utf8(text).ok());
    (Kind::Number(text.and_then(|text| text.parse().ok()).unwrap_or(0.0)), len)
}

/// Whether a backslash before it escapes it.
pub(super) fn is_escapable(byte: u8) -> bool {
    byte.is_ascii_punctuation() || is_blank(byte)
}

/// The length of a property's name.
fn name_len(name: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match name.get(at..).unwrap_or_default() {
            [b'\\', next, ..] if is_escapable(*next) => 2,
            [b'_', ..] => 1,
            [byte, ..] if !byte.is_ascii() || byte.is_ascii_alphanumeric() => 1,
            _ => return at,
        };
    }
}

/// The length of the string that begins with this quote. Since a backslash may be a character as well as an
/// escape, a quote behind one ends the string only if no other does.
fn string_len(rest: &[u8]) -> Option<usize> {
    let (&quote, content) = rest.split_first()?;
    let (mut found, mut is_escaped) = (None, false);
    for (at, &byte) in content.iter().enumerate() {
        if byte == quote {
            found = Some(at + 2);
        }
        if (byte == quote || byte == b'\n') && !is_escaped {
            break;
        }
        is_escaped = byte == b'\\';
    }
    found
}

/// The content of a string literal, without quotes and escapes.
pub(super) fn unquote(text: &[u8]) -> Vec<u8> {
    let content = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let is_kept = |(at, byte): (usize, &u8)| {
        let is_escape = *byte == b'\\' && content.get(at + 1).is_some_and(|next| is_escapable(*next));
        (!is_escape).then_some(*byte)
    };
    content.iter().enumerate().filter_map(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(input: &str) -> Vec<Kind> {
        let mut tokens = Tokens::new(input.as_bytes());
        std::iter::from_fn(|| Some(tokens.next()).filter(|kind| *kind != Kind::End)).collect()
    }

    #[test]
    fn a_sign_before_a_digit_belongs_to_the_number() {
        assert_eq!(kinds("3-2"), [Kind::Number(3.0), Kind::Number(-2.0)]);
        assert_eq!(kinds("3 - 2")[1], Kind::Operator(Operator::Subtract));
        assert_eq!(kinds("1.5e-3x"), [Kind::Number(0.0015), Kind::Symbol]);
        assert_eq!(kinds("1e 1."), [Kind::Number(1.0), Kind::Symbol, Kind::Number(1.0)]);
        assert_eq!(
            kinds("+inf -inf inf"),
            [Kind::Number(f64::INFINITY), Kind::Number(f64::NEG_INFINITY), Kind::Symbol]
        );
    }

    #[test]
    fn marks_that_begin_no_token_are_skipped() {
        assert_eq!(kinds("#1 ; &"), [Kind::Number(1.0)]);
        assert_eq!(kinds("1 \u{e9} 2"), [Kind::Number(1.0)]);
        assert_eq!(kinds("&&&"), [Kind::Operator(Operator::And)]);
        assert_eq!(kinds("@ \"a"), [Kind::Symbol]);
    }

    #[test]
    fn strings_end_at_the_last_quote_that_may_end_them() {
        let mut tokens = Tokens::new(br#" "a\"b" 'c\' "#);
        assert_eq!((tokens.next(), tokens.text, tokens.position), (Kind::String, &br#""a\"b""#[..], 1));
        assert_eq!((tokens.next(), tokens.text), (Kind::String, &br"'c\'"[..]));
        assert_eq!(tokens.next(), Kind::End);
        assert_eq!(unquote(br#""a\"b\n\\c""#), br#"a"b\n\c"#);
        assert_eq!(string_len(b"'\n'"), None);
    }

    #[test]
    fn names_of_properties_may_have_escapes() {
        let mut tokens = Tokens::new("@a\\.b_\u{e9}.c".as_bytes());
        assert_eq!((tokens.next(), tokens.text), (Kind::Property, "a\\.b_\u{e9}".as_bytes()));
        assert_eq!((tokens.next(), tokens.text), (Kind::Symbol, &b"c"[..]));
    }
}
