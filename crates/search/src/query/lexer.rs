//! A query's text as tokens.
//!
//! At each byte the longest token wins; among equals the order of [`Lexer::word`] decides. Bytes that begin
//! no token are passed over. Each token knows what an error that it causes shows: its own text, or for signs
//! the text of the word before it, as RediSearch's errors have it.

use super::escape::is_escapable;
use crate::number::is_blank;

/// The kinds of tokens.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    Term,
    /// A stopword; in dialect 1 only.
    Stopword,
    /// Text in quotes; from dialect 2 on.
    Exact,
    /// Digits only; from dialect 2 on.
    Size,
    Number,
    Modifier,
    Attribute,
    Arrow,
    As,
    IsMissing,
    Prefix,
    Suffix,
    Infix,
    Verbatim,
    Wildcard,
    Quote,
    Or,
    Minus,
    Tilde,
    Star,
    Percent,
    Colon,
    Semicolon,
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    NotEqual,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// A token.
#[derive(Copy, Clone, Debug)]
pub(super) struct Token<'q> {
    pub kind: Kind,
    /// Where it begins.
    pub offset: usize,
    /// Its text without its signs; what an error shows.
    pub text: &'q [u8],
    /// The value of a number.
    pub number: f64,
    /// Whether a word is the name of a parameter.
    pub is_parameter: bool,
    /// Whether a parameter has a minus before it.
    pub is_negative: bool,
}

/// Splits a query's text.
pub(super) struct Lexer<'q> {
    query: &'q [u8],
    at: usize,
    /// What an error of a sign shows.
    last: &'q [u8],
    last_offset: usize,
    is_first_dialect: bool,
    /// Tokens of a comparison that follow its field, in reverse.
    queue: Vec<Token<'q>>,
}

/// Bytes that the words of a query are made of.
fn is_word(byte: u8) -> bool {
    byte == b'_' || !(byte.is_ascii_punctuation() || byte.is_ascii_control() || byte == b' ')
}

/// Bytes of the word at the beginning of a text.
fn word_len(text: &[u8]) -> usize {
    let mut len = 0;
    while let Some(&byte) = text.get(len) {
        if is_word(byte) {
            len += 1;
        } else if byte == b'\\' && text.get(len + 1).is_some_and(|next| is_escapable(*next)) {
            len += 2;
        } else {
            break;
        }
    }
    len
}

fn digits_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn spaces_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_blank(**byte)).count()
}

/// Bytes of the text in quotes at the beginning of `text`, both quotes included, or zero. An escaped quote
/// ends it only where no other quote follows.
fn quoted_len(text: &[u8]) -> usize {
    let mut found = 0;
    if text.first() != Some(&b'"') {
        return 0;
    }
    for at in 1..text.len() {
        if text[at] == b'"' {
            if at > 1 {
                found = at + 1;
            }
            if at == 1 || text[at - 1] != b'\\' {
                break;
            }
        }
    }
    found
}

/// Bytes of the text in single quotes at the beginning of `text`, both quotes included.
fn verbatim_len(text: &[u8]) -> usize {
    if text.first() != Some(&b'\'') {
        return 0;
    }
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\'' => return if at > 1 { at + 1 } else { 0 },
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    0
}

/// The number that a token's text is, as C's `strtod` reads it: its longest prefix that is a number.
fn number_value(text: &[u8]) -> f64 {
    let text = text.iter().position(|byte| *byte == b'\'').map_or(text, |at| &text[..at]);
    let text = text.strip_suffix(b"e").or(text.strip_suffix(b"E")).unwrap_or(text);
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

impl<'q> Lexer<'q> {
    pub(super) fn new(query: &'q [u8], is_first_dialect: bool) -> Self {
        Lexer { query, at: 0, last: b"", last_offset: 0, is_first_dialect, queue: Vec::new() }
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Token<'q> {
        if let Some(token) = self.queue.pop() {
            return token;
        }
        while let Some(&byte) = self.query.get(self.at) {
            if let Some(token) = self.token_at(byte) {
                return token;
            }
            self.at += 1;
        }
        self.token(Kind::End, self.last_offset, self.last)
    }

    fn token(&self, kind: Kind, offset: usize, text: &'q [u8]) -> Token<'q> {
        Token { kind, offset, text, number: 0.0, is_parameter: false, is_negative: false }
    }

    /// The rest of the query from `ahead` bytes further on.
    fn rest(&self, ahead: usize) -> &'q [u8] {
        self.query.get(self.at + ahead..).unwrap_or_default()
    }

    /// A token of `len` bytes whose text is `from..to` of them.
    fn take(&mut self, kind: Kind, len: usize, from: usize, to: usize) -> Token<'q> {
        let text = self.rest(0);
        self.last = text.get(from..to.min(text.len())).unwrap_or_default();
        self.last_offset = self.at;
        self.at += len;
        self.token(kind, self.last_offset, self.last)
    }

    fn sign(&mut self, kind: Kind) -> Token<'q> {
        self.last_offset = self.at;
        self.at += 1;
        self.token(kind, self.last_offset, self.last)
    }

    fn token_at(&mut self, byte: u8) -> Option<Token<'q>> {
        let rest = self.rest(0);
        match byte {
            b'@' => self.modifier(),
            b'$' => self.attribute(),
            b'*' => Some(self.star()),
            b'"' => Some(self.quote()),
            b'\'' => self.single_quote(),
            b'=' if rest.get(1) == Some(&b'>') => {
                // An error shows the byte behind it, too.
                Some(self.take(Kind::Arrow, 2, 1, 3))
            }
            b'-' | b'+' => self.signed(byte),
            b'|' => Some(self.sign(Kind::Or)),
            b'(' => Some(self.sign(Kind::LeftParen)),
            b')' => Some(self.sign(Kind::RightParen)),
            b'{' => Some(self.sign(Kind::LeftBrace)),
            b'}' => Some(self.sign(Kind::RightBrace)),
            b'[' => Some(self.sign(Kind::LeftBracket)),
            b']' => Some(self.sign(Kind::RightBracket)),
            b':' => Some(self.sign(Kind::Colon)),
            b';' => Some(self.sign(Kind::Semicolon)),
            b'~' => Some(self.sign(Kind::Tilde)),
            b'%' => Some(self.sign(Kind::Percent)),
            _ => self.word(),
        }
    }

    /// Bytes of the number at the beginning of a text.
    fn number_len(&self, text: &[u8]) -> usize {
        let has_sign = match text.first() {
            Some(b'-') => true,
            Some(b'+') => !self.is_first_dialect,
            _ => false,
        };
        let mut len = usize::from(has_sign);
        let digits = digits_len(&text[len..]);
        if digits == 0 {
            return 0;
        }
        len += digits;
        if text.get(len) == Some(&b'.') && digits_len(&text[len + 1..]) > 0 {
            len += 1 + digits_len(&text[len + 1..]);
        }
        if matches!(text.get(len), Some(b'e' | b'E')) {
            let is_sign = match text.get(len + 1) {
                Some(b'-') => true,
                Some(b'+' | b'\'') => !self.is_first_dialect,
                _ => false,
            };
            let start = len + 1 + usize::from(is_sign);
            let digits = digits_len(text.get(start..).unwrap_or_default());
            if digits > 0 {
                len = start + digits;
            }
        }
        len
    }

    /// Bytes of an infinite number at the beginning of a text.
    fn infinity_len(&self, text: &[u8]) -> usize {
        let has_sign = match text.first() {
            Some(b'+' | b'-') => true,
            Some(b'\'') => self.is_first_dialect,
            _ => false,
        };
        let start = usize::from(has_sign);
        let is_infinity = text.get(start..start + 3).is_some_and(|word| match self.is_first_dialect {
            true => word == b"inf",
            false => word.eq_ignore_ascii_case(b"inf"),
        });
        if is_infinity { start + 3 } else { 0 }
    }

    fn number(&mut self, kind: Kind, len: usize) -> Token<'q> {
        let mut token = self.take(kind, len, 0, len);
        token.number = number_value(token.text);
        token
    }

    fn infinity(&mut self, len: usize) -> Token<'q> {
        let mut token = self.take(Kind::Number, len, 0, len);
        token.number = if token.text.first() == Some(&b'-') { f64::NEG_INFINITY } else { f64::INFINITY };
        token
    }

    /// A number behind a sign, or the minus alone. A plus alone is nothing.
    fn signed(&mut self, byte: u8) -> Option<Token<'q>> {
        let rest = self.rest(0);
        let (number, infinity) = (self.number_len(rest), self.infinity_len(rest));
        if number > 0 {
            if rest.get(number) == Some(&b'*') {
                return Some(self.take(Kind::Prefix, number + 1, 0, number));
            }
            return Some(self.number(Kind::Number, number));
        }
        if infinity > 0 {
            return Some(self.infinity(infinity));
        }
        (byte == b'-').then(|| self.sign(Kind::Minus))
    }

    fn single_quote(&mut self) -> Option<Token<'q>> {
        let rest = self.rest(0);
        if self.is_first_dialect {
            let infinity = self.infinity_len(rest);
            return (infinity > 0).then(|| self.infinity(infinity));
        }
        if rest.get(1) == Some(&b'\'') {
            return Some(self.take(Kind::Term, 2, 0, 0));
        }
        let len = verbatim_len(rest);
        (len > 0).then(|| self.verbatim(Kind::Verbatim, len, 1))
    }

    /// Text in single quotes of which `before` bytes stand before the text.
    fn verbatim(&mut self, kind: Kind, len: usize, before: usize) -> Token<'q> {
        let is_parameter = kind == Kind::Wildcard && self.rest(before).first() == Some(&b'$');
        let mut token = self.take(kind, len, before + usize::from(is_parameter), len - 1);
        token.is_parameter = is_parameter;
        token
    }

    fn quote(&mut self) -> Token<'q> {
        let rest = self.rest(0);
        if self.is_first_dialect {
            return self.sign(Kind::Quote);
        }
        if rest.get(1) == Some(&b'"') {
            return self.take(Kind::Term, 2, 0, 0);
        }
        match quoted_len(rest) {
            0 => self.sign(Kind::Quote),
            len if rest.get(len) == Some(&b'*') => self.take(Kind::Prefix, len + 1, 1, len - 1),
            len => self.take(Kind::Exact, len, 1, len - 1),
        }
    }

    /// A suffix, an infix, or the star alone.
    fn star(&mut self) -> Token<'q> {
        let rest = self.rest(1);
        let quoted = if self.is_first_dialect { 0 } else { quoted_len(rest) };
        if quoted > 0 {
            return match rest.get(quoted) {
                Some(b'*') => self.take(Kind::Infix, quoted + 2, 2, quoted),
                _ => self.take(Kind::Suffix, quoted + 1, 2, quoted),
            };
        }
        let is_parameter = !self.is_first_dialect && rest.first() == Some(&b'$') && word_len(&rest[1..]) > 0;
        let before = usize::from(is_parameter);
        let word = before + word_len(&rest[before..]);
        let number = if is_parameter { 0 } else { self.number_len(rest) };
        let ends = |len: usize| len > 0 && rest.get(len) == Some(&b'*');
        let mut token = match (word, number) {
            (0, 0) => return self.sign(Kind::Star),
            (word, number) if ends(word.max(number)) => {
                let len = word.max(number);
                self.take(Kind::Infix, len + 2, 1 + before, len + 1)
            }
            (word, number) => {
                let len = word.max(number);
                self.take(Kind::Suffix, len + 1, 1 + before, len + 1)
            }
        };
        token.is_parameter = is_parameter;
        token
    }

    fn attribute(&mut self) -> Option<Token<'q>> {
        let rest = self.rest(1);
        let len = word_len(rest);
        if len == 0 {
            return None;
        }
        if !self.is_first_dialect && rest.get(len) == Some(&b'*') {
            let mut token = self.take(Kind::Prefix, len + 2, 1, len + 1);
            token.is_parameter = true;
            return Some(token);
        }
        let mut token = self.take(Kind::Attribute, len + 1, 1, len + 1);
        token.is_parameter = true;
        Some(token)
    }

    fn modifier(&mut self) -> Option<Token<'q>> {
        let len = word_len(self.rest(1));
        if len == 0 {
            return None;
        }
        if !self.is_first_dialect
            && let Some(token) = self.comparison(len)
        {
            return Some(token);
        }
        Some(self.take(Kind::Modifier, len + 1, 1, len + 1))
    }

    /// A field, an operator and a number: three tokens, none of which shows in errors of later ones.
    fn comparison(&mut self, name_len: usize) -> Option<Token<'q>> {
        let rest = self.rest(0);
        let operator_at = 1 + name_len + spaces_len(&rest[1 + name_len..]);
        let (kind, operator_len) = match rest.get(operator_at..)? {
            [b'!', b'=', ..] => (Kind::NotEqual, 2),
            [b'=', b'=', ..] => (Kind::Equal, 2),
            [b'>', b'=', ..] => (Kind::GreaterEqual, 2),
            [b'<', b'=', ..] => (Kind::LessEqual, 2),
            [b'>', ..] => (Kind::Greater, 1),
            [b'<', ..] => (Kind::Less, 1),
            _ => return None,
        };
        let value_at = operator_at + operator_len;
        let value_at = value_at + spaces_len(&rest[value_at..]);
        let value = &rest[value_at..];
        let sign_len = usize::from(matches!(value.first(), Some(b'+' | b'-')));
        let unsigned = &value[sign_len..];
        let parameter_len = if unsigned.first() == Some(&b'$') { word_len(&unsigned[1..]) } else { 0 };
        let (mut token, end) = if parameter_len > 0 {
            let mut token = self.token(Kind::Attribute, self.at, &unsigned[1..=parameter_len]);
            token.is_parameter = true;
            token.is_negative = value.first() == Some(&b'-');
            (token, value_at + sign_len + 1 + parameter_len)
        } else {
            let (number, infinity) = (self.number_len(value), self.infinity_len(value));
            let len = number.max(infinity);
            if len == 0 {
                return None;
            }
            let mut token = self.token(Kind::Number, self.at, &value[..len]);
            token.number = match infinity {
                0 => number_value(token.text),
                _ if value.first() == Some(&b'-') => f64::NEG_INFINITY,
                _ => f64::INFINITY,
            };
            (token, value_at + len)
        };
        token.offset = self.at;
        self.queue.push(token);
        self.queue.push(self.token(kind, self.at, &rest[operator_at..operator_at + operator_len]));
        let field = self.token(Kind::Modifier, self.at, &rest[1..=name_len]);
        self.at += end;
        Some(field)
    }

    /// A word, a number, a prefix, or a pattern.
    fn word(&mut self) -> Option<Token<'q>> {
        let rest = self.rest(0);
        if !self.is_first_dialect && rest.first() == Some(&b'w') {
            let len = verbatim_len(&rest[1..]);
            if len > 0 {
                let mut token = self.verbatim(Kind::Wildcard, len + 1, 2);
                token.offset += 2;
                self.last_offset = token.offset;
                return Some(token);
            }
        }
        let word = word_len(rest);
        if word == 0 {
            return None;
        }
        let (number, infinity) = (self.number_len(rest), self.infinity_len(rest));
        if number > 0 && rest.get(number) == Some(&b'*') && number >= word {
            return Some(self.take(Kind::Prefix, number + 1, 0, number));
        }
        if rest.get(word) == Some(&b'*') {
            return Some(self.take(Kind::Prefix, word + 1, 0, word));
        }
        if number >= word {
            let is_size = !self.is_first_dialect && number == digits_len(rest);
            return Some(self.number(if is_size { Kind::Size } else { Kind::Number }, number));
        }
        if infinity == word {
            return Some(self.infinity(infinity));
        }
        let kind = match &rest[..word] {
            text if self.is_first_dialect || text.len() < 2 => Kind::Term,
            text if text.eq_ignore_ascii_case(b"as") => Kind::As,
            text if text.eq_ignore_ascii_case(b"ismissing") => Kind::IsMissing,
            _ => Kind::Term,
        };
        Some(self.take(kind, word, 0, word))
    }
}
