//! The characters of texts that need not be UTF-8, and their case folding.
//!
//! Invariant: a text's characters are its bytes cut into pieces. Each valid sequence of UTF-8 is one
//! character, each other byte one by itself, so that any run of whole characters is cut in the same way
//! alone.

/// The number of a byte that begins no valid sequence, behind those of Unicode.
const BYTES: u32 = 0x11_0000;

/// The characters of a text, from the front.
#[derive(Clone, Copy)]
pub(super) struct Characters<'a>(pub &'a [u8]);

impl Characters<'_> {
    /// Length of the first character in bytes, and its number.
    #[inline]
    fn first(&self) -> Option<(usize, u32)> {
        let &first = self.0.first()?;
        if first < 0x80 {
            return Some((1, u32::from(first)));
        }
        let len = match first {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let sequence = self.0.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok());
        match sequence.and_then(|sequence| sequence.chars().next()) {
            Some(character) => Some((len, u32::from(character))),
            None => Some((1, BYTES + u32::from(first))),
        }
    }
}

impl Iterator for Characters<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let (len, character) = self.first()?;
        self.0 = self.0.get(len..).unwrap_or(&[]);
        Some(character)
    }
}

/// Bytes of the characters that both texts begin with.
pub(super) fn common_len(one: &[u8], other: &[u8]) -> usize {
    let (mut one_rest, mut other_rest) = (Characters(one), Characters(other));
    loop {
        let common = one.len() - one_rest.0.len();
        match (one_rest.next(), other_rest.next()) {
            (Some(left), Some(right)) if left == right => {}
            _ => return common,
        }
    }
}

/// A character without the difference of cases: the first one of its full case folding, as in RediSearch.
#[inline]
pub(super) fn fold(character: u32) -> u32 {
    if character < 0x80 {
        let byte = character as u8;
        return u32::from(byte.to_ascii_lowercase());
    }
    char::from_u32(character).map_or(character, |character| u32::from(fold_beyond_ascii(character)))
}

/// Unicode's folding maps all letters that share an upper case onto one, but for the dotless i.
fn fold_beyond_ascii(character: char) -> char {
    if character == 'ı' {
        return character;
    }
    let lower = |character: char| character.to_lowercase().next().unwrap_or(character);
    let upper = |character: char| character.to_uppercase().next().unwrap_or(character);
    lower(upper(lower(character)))
}
