//! Backslashes in a query: before punctuation and spaces they take the sign's meaning, elsewhere they stay.

use crate::number::is_blank;

/// Whether a backslash takes this byte's meaning.
pub(super) fn is_escapable(byte: u8) -> bool {
    byte.is_ascii_punctuation() || is_blank(byte)
}

/// Without the backslashes that take a byte's meaning. A backslash that such a one stands before does so
/// itself.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let takes = |at: usize| text[at] == b'\\' && text.get(at + 1).is_some_and(|next| is_escapable(*next));
    (0..text.len()).filter(|at| !takes(*at)).map(|at| text[at]).collect()
}

/// [`unescaped`], in lower case.
pub(super) fn folded(text: &[u8]) -> Vec<u8> {
    let mut text = unescaped(text);
    text.make_ascii_lowercase();
    text
}
