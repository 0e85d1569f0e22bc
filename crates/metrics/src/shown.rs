//! Bytes as text for people.
//!
//! Invariant: [`word`] is unambiguous: two different keys are never shown alike.

use martlet_protocol::quote::{append_quoted, split};

/// Text of messages and of INFO; bytes that are no UTF-8 are replaced.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A key or an element: unchanged if it is readable on one line, else in quotes with redis-cli's escapes.
pub(crate) fn word(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && !text.starts_with('"') && !text.contains(char::is_control) => {
            text.into()
        }
        _ => quoted(bytes),
    }
}

/// A text of several lines: unchanged if it is readable, else in quotes with redis-cli's escapes.
pub(crate) fn text(bytes: &[u8]) -> String {
    readable(bytes).map_or_else(|| quoted(bytes), Into::into)
}

/// The text, unless it has control characters other than line breaks and tabs.
pub(crate) fn readable(bytes: &[u8]) -> Option<&str> {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains(is_odd))
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    append_quoted(&mut out, bytes);
    lossy(&out)
}

/// The bytes that [`word`] shows so; any other text stands for itself.
pub(crate) fn unquoted(shown: &str) -> Vec<u8> {
    let words = Some(shown).filter(|shown| shown.starts_with('"')).and_then(|shown| split(shown.as_bytes()));
    match words.as_deref() {
        Some([word]) => word.clone(),
        _ => shown.into(),
    }
}

/// At most `max` bytes from the start; a character of UTF-8 that would be cut is left out.
pub(crate) fn beginning(bytes: &[u8], max: usize) -> &[u8] {
    let cut = bytes.get(..max).unwrap_or(bytes);
    match std::str::from_utf8(cut) {
        // Without a length the error is that the text ends within a character.
        Err(error) if error.error_len().is_none() => cut.get(..error.valid_up_to()).unwrap_or(cut),
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_bytes_are_quoted_and_found_again() {
        for (bytes, shown) in [
            (&b"user:1"[..], "user:1"),
            ("grüße".as_bytes(), "grüße"),
            (b"a b", "a b"),
            (b"a\nb", "\"a\\nb\""),
            (b"\xff\x00\x01", "\"\\xff\\x00\\x01\""),
            (b"\"quoted\"", "\"\\\"quoted\\\"\""),
            (b"", "\"\""),
        ] {
            assert_eq!(word(bytes), shown);
            assert_eq!(unquoted(shown), bytes, "{shown}");
        }
        assert_eq!((text(b"a\n\tb"), text(b"a\x07")), ("a\n\tb".into(), "\"a\\a\"".into()));
        assert_eq!(unquoted("\"no end"), b"\"no end");
        assert_eq!(unquoted("\"two\" words"), b"\"two\" words");
    }

    #[test]
    fn a_character_is_not_cut() {
        assert_eq!(beginning("aé".as_bytes(), 2), b"a");
        assert_eq!(beginning("aé".as_bytes(), 3), "aé".as_bytes());
        assert_eq!(beginning(b"a\xff\xfe", 2), b"a\xff");
        assert_eq!(beginning(b"ab", 9), b"ab");
    }
}
