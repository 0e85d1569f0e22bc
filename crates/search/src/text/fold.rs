//! Texts without their case: those that differ in it alone become equal.

use std::borrow::Cow;

/// A text in lower case, as far as it is UTF-8; of other bytes the letters of ASCII. A text that has no
/// capitals is borrowed.
pub fn folded(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        let has_capital = text.iter().any(u8::is_ascii_uppercase);
        return if has_capital { text.to_ascii_lowercase().into() } else { text.into() };
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.chars().all(|one| one.to_lowercase().eq([one])) => text.as_bytes().into(),
        Ok(text) => text.to_lowercase().into_bytes().into(),
        Err(_) => text.to_ascii_lowercase().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_capitals_are_copied() {
        for (text, expected, is_borrowed) in [
            (&b"abc 1"[..], &b"abc 1"[..], true),
            (b"aBc", b"abc", false),
            ("\u{e4}x".as_bytes(), "\u{e4}x".as_bytes(), true),
            ("\u{c4}X".as_bytes(), "\u{e4}x".as_bytes(), false),
            (b"\xffA", b"\xffa", false),
        ] {
            let found = folded(text);
            assert_eq!(*found, *expected);
            assert_eq!(matches!(found, Cow::Borrowed(_)), is_borrowed, "{expected:?}");
        }
    }
}
