//! Where the tokens of a text are, and their normal form.
//!
//! A token is a longest run without an unescaped separator; the separators are ASCII's space, tab and
//! punctuation but `_` and the backslash, which takes from the next byte its meaning. A token's normal form
//! has no backslashes, no control bytes and no capitals of ASCII; other bytes stay as they are, whether they
//! are UTF-8 or not (RediSearch 2.10's tokeniser works by bytes).

use std::ops::Range;

/// Bytes of a token that take part in its normal form; the bytes behind them are passed over.
pub const TOKEN_MAX_BYTES: usize = 128;

/// The tokeniser's classes of bytes.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Class {
    Plain,
    Separator,
    /// Is left out of normal forms.
    Control,
    Capital,
    Backslash,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Plain; 256];
    let mut byte = 0;
    while byte < 128 {
        let code = byte as u8;
        classes[byte] = match code {
            b'\\' => Class::Backslash,
            b'_' => Class::Plain,
            // The end of a text in RediSearch, whose strings are C's; two words here.
            0 | b' ' | b'\t' => Class::Separator,
            _ if code.is_ascii_punctuation() => Class::Separator,
            _ if code.is_ascii_control() => Class::Control,
            _ if code.is_ascii_uppercase() => Class::Capital,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
};

/// Whether a byte ends a token where it is not escaped.
pub fn is_separator(byte: u8) -> bool {
    CLASSES[byte as usize] == Class::Separator
}

/// Walks the tokens of a text.
pub struct Tokens<'t> {
    text: &'t [u8],
    next: usize,
}

/// A token as it stands in the text.
pub struct RawToken<'t> {
    /// Its bytes.
    pub raw: &'t [u8],
    /// Where it stands, in bytes of the text.
    pub range: Range<usize>,
    /// Whether the normal form differs from it.
    is_modified: bool,
}

impl<'t> Tokens<'t> {
    /// The tokens of `text`.
    pub fn new(text: &'t [u8]) -> Self {
        Tokens { text, next: 0 }
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = RawToken<'t>;

    fn next(&mut self) -> Option<RawToken<'t>> {
        loop {
            let rest = self.text.get(self.next..).filter(|rest| !rest.is_empty())?;
            let (len, is_modified) = token_len(rest);
            let start = self.next;
            self.next += len + 1;
            if len > 0 {
                let is_modified = is_modified || len > TOKEN_MAX_BYTES;
                return Some(RawToken { raw: &rest[..len], range: start..start + len, is_modified });
            }
        }
    }
}

/// Bytes before the first separator that is not escaped, and whether any of them is not plain.
fn token_len(text: &[u8]) -> (usize, bool) {
    let mut is_modified = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match CLASSES[byte as usize] {
            Class::Plain => {}
            Class::Separator => break,
            Class::Capital | Class::Control => is_modified = true,
            Class::Backslash => {
                is_modified = true;
                at += 1;
            }
        }
        at += 1;
    }
    (at.min(text.len()), is_modified)
}

impl<'t> RawToken<'t> {
    /// The normal form, which may be empty. `buffer` is room for it where it is not the token itself.
    pub fn normalised<'b>(&self, buffer: &'b mut [u8; TOKEN_MAX_BYTES]) -> &'b [u8]
    where
        't: 'b,
    {
        if !self.is_modified {
            return self.raw;
        }
        let mut len = 0;
        let mut is_escaped = false;
        for &byte in self.raw.iter().take(TOKEN_MAX_BYTES) {
            let class = CLASSES[byte as usize];
            if class == Class::Backslash && !is_escaped {
                is_escaped = true;
                continue;
            }
            is_escaped = false;
            if class != Class::Control && !byte.is_ascii_control() {
                buffer[len] = byte.to_ascii_lowercase();
                len += 1;
            }
        }
        &buffer[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &[u8]) -> Vec<Vec<u8>> {
        let mut buffer = [0; TOKEN_MAX_BYTES];
        Tokens::new(text)
            .map(|token| token.normalised(&mut buffer).to_vec())
            .filter(|t| !t.is_empty())
            .collect()
    }

    fn words(text: &str) -> Vec<String> {
        tokens(text.as_bytes()).into_iter().map(|token| String::from_utf8(token).expect("UTF-8")).collect()
    }

    #[test]
    fn tokens_are_those_of_redisearch() {
        // FT.DEBUG DUMP_TERMS of RediSearch 2.10.5.
        assert_eq!(words(r"a\-b c\ d e\\f g\h"), ["a-b", "c d", r"e\f", "gh"]);
        assert_eq!(words("don't it's $dollar under_score"), ["don", "t", "it", "s", "dollar", "under_score"]);
        assert_eq!(words("foo\nbar baz\x01qux t\tt q\rr"), ["foobar", "bazqux", "t", "t", "qr"]);
        assert_eq!(words("123 45.6 -7 1e5"), ["123", "45", "6", "7", "1e5"]);
        assert_eq!(words("Äpfel naïve ЁЖИК HELLO"), ["Äpfel", "naïve", "ЁЖИК", "hello"]);
        assert_eq!(words("hello\u{a0}world"), ["hello\u{a0}world"]);
        assert_eq!(words(r"th\e end\"), ["the", "end"]);
        assert_eq!(words("  ,;\n ."), [""; 0]);
        assert_eq!(tokens(b"\xe9\xffabc DEF"), [&b"\xe9\xffabc"[..], b"def"]);
    }

    #[test]
    fn long_tokens_are_cut() {
        let text = format!("{}\\-zzz", "y".repeat(125));
        assert_eq!(words(&text), [format!("{}-z", "y".repeat(125))]);
        assert_eq!(words(&"x".repeat(300)), ["x".repeat(TOKEN_MAX_BYTES)]);
    }

    #[test]
    fn ranges_are_those_of_the_raw_tokens() {
        let ranges: Vec<_> = Tokens::new(br" Ab, c\-d\").map(|token| token.range).collect();
        assert_eq!(ranges, [1..3, 5..10]);
    }
}
