//! The same matching for long patterns and texts.
//!
//! Of the elements between two stars, plain bytes are found as any text is, in linear time; other elements
//! side by side, 64 of them in one step (Baeza-Yates and Gonnet's shift-and). Invariant: the answer is
//! [`super::matches_short`]'s.

use memchr::memmem;

use super::{Item, STARS_MAX, each_of_class, match_one};

/// Elements that one pass over the text looks for: their table takes 128 KB.
const PASS_ELEMENTS: usize = 4096;

/// A part between two stars, or at an end.
struct Piece<'a> {
    pattern: &'a [u8],
    /// Number of elements, which is that of the bytes that it matches.
    len: usize,
    nocase: bool,
    /// Whether every element is a byte that stands for itself.
    is_plain: bool,
}

impl<'a> Piece<'a> {
    /// The piece with which `pattern` begins, and the rest: a star, or nothing.
    fn parse(pattern: &'a [u8], nocase: bool) -> (Piece<'a>, &'a [u8]) {
        let (mut at, mut len, mut is_plain) = (0, 0, !nocase);
        while let Some(&first) = pattern.get(at)
            && first != b'*'
        {
            is_plain &= !matches!(first, b'?' | b'[' | b'\\');
            at = end_of_element(pattern, at);
            len += 1;
        }
        let (pattern, rest) = pattern.split_at(at);
        (Piece { pattern, len, nocase, is_plain }, rest)
    }

    /// Where each element begins.
    fn elements(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(0), |at| Some(end_of_element(self.pattern, *at))).take(self.len)
    }

    /// Whether the text is the piece, byte by byte.
    fn is(&self, text: &[u8]) -> bool {
        let mut pairs = self.elements().zip(text);
        text.len() == self.len
            && pairs.all(|(element, &byte)| match_one(self.pattern, element, byte, self.nocase).is_some())
    }

    /// Where the text, which is not shorter, has the piece first.
    fn find(&self, text: &[u8]) -> Option<usize> {
        if self.is_plain {
            return memmem::find(text, self.pattern);
        }
        let places = text.len() - self.len + 1;
        let mut starts = vec![u64::MAX; places.div_ceil(64)];
        let (mut elements, mut further) = (self.elements(), 0);
        while further < self.len {
            let pass = PASS_ELEMENTS.min(self.len - further);
            let table = Table::new(self, elements.by_ref().take(pass), pass);
            table.keep_starts(text.get(further..)?, &mut starts);
            further += pass;
        }
        let first = starts.iter().position(|&word| word != 0)?;
        let at = first * 64 + starts[first].trailing_zeros() as usize;
        (at < places).then_some(at)
    }
}

/// For each byte, one bit for each of some elements that matches it.
struct Table {
    bits: Vec<u64>,
    len: usize,
}

impl Table {
    fn new(piece: &Piece<'_>, elements: impl Iterator<Item = usize>, len: usize) -> Table {
        let mut table = Table { bits: vec![0; 256 * len.div_ceil(64)], len };
        for (number, element) in elements.enumerate() {
            match piece.pattern.get(element) {
                Some(b'?') => (0..=u8::MAX).for_each(|byte| table.set(byte, number)),
                Some(b'[') => {
                    let class = class_bytes(piece.pattern, element + 1, piece.nocase);
                    (0..=u8::MAX)
                        .filter(|&byte| class[usize::from(byte)])
                        .for_each(|byte| table.set(byte, number));
                }
                _ => (0..=u8::MAX)
                    .filter(|&byte| match_one(piece.pattern, element, byte, piece.nocase).is_some())
                    .for_each(|byte| table.set(byte, number)),
            }
        }
        table
    }

    fn words(&self) -> usize {
        self.len.div_ceil(64)
    }

    fn set(&mut self, byte: u8, number: usize) {
        let word = usize::from(byte) * self.words() + number / 64;
        self.bits[word] |= 1 << (number % 64);
    }

    /// Of the places in the text that `starts` has, one bit each, keeps those where the elements are.
    fn keep_starts(&self, text: &[u8], starts: &mut [u64]) {
        let (words, last) = (self.words(), self.len - 1);
        let mut found = vec![0_u64; starts.len()];
        // One bit for each element up to which the elements stand before the byte at hand.
        let mut state = vec![0_u64; words];
        for (at, &byte) in text.iter().enumerate() {
            let mut carry = 1;
            let row = &self.bits[usize::from(byte) * words..][..words];
            for (word, mask) in state.iter_mut().zip(row) {
                let next = (*word << 1 | carry) & mask;
                carry = *word >> 63;
                *word = next;
            }
            if state[last / 64] >> (last % 64) & 1 == 1
                && let Some(word) = found.get_mut((at - last) / 64)
            {
                *word |= 1 << ((at - last) % 64);
            }
        }
        starts.iter_mut().zip(found).for_each(|(start, found)| *start &= found);
    }
}

/// Which bytes a class has whose content begins at `at`: in one pass, as it may be long.
fn class_bytes(pattern: &[u8], at: usize, nocase: bool) -> [bool; 256] {
    let fold = |byte: u8| usize::from(if nocase { byte.to_ascii_lowercase() } else { byte });
    let mut exact = [false; 256];
    // By how much more ranges begin at a byte than have ended before it.
    let mut begun = [0_i64; 257];
    let (negated, _) = each_of_class(pattern, at, |item| match item {
        Item::Exact(byte) => exact[usize::from(byte)] = true,
        Item::Byte(byte) => {
            begun[fold(byte)] += 1;
            begun[fold(byte) + 1] -= 1;
        }
        Item::Range(one, other) => {
            begun[fold(one).min(fold(other))] += 1;
            begun[fold(one).max(fold(other)) + 1] -= 1;
        }
    });
    let mut open = 0;
    let folded: [bool; 256] = std::array::from_fn(|byte| {
        open += begun[byte];
        open > 0
    });
    std::array::from_fn(|byte| (exact[byte] || folded[fold(byte as u8)]) != negated)
}

/// Where the element after the one at `at` begins.
fn end_of_element(pattern: &[u8], at: usize) -> usize {
    match pattern.get(at) {
        Some(b'\\') if at + 1 < pattern.len() => at + 2,
        Some(b'[') => each_of_class(pattern, at + 1, |_| ()).1,
        _ => at + 1,
    }
}

/// See [`super::matches`].
pub(super) fn matches(pattern: &[u8], mut text: &[u8], nocase: bool) -> bool {
    let (head, mut pattern) = Piece::parse(pattern, nocase);
    match text.split_at_checked(head.len) {
        Some((begin, _)) if !head.is(begin) => return false,
        Some((_, rest)) => text = rest,
        None => return false,
    }
    if pattern.is_empty() {
        return text.is_empty();
    }
    for stars in 0..=STARS_MAX {
        let stars_len = pattern.iter().take_while(|&&byte| byte == b'*').count();
        let (piece, rest) = Piece::parse(&pattern[stars_len..], nocase);
        if piece.len == 0 {
            return true;
        }
        if stars == STARS_MAX || text.len() < piece.len {
            return false;
        }
        if rest.is_empty() {
            return piece.is(&text[text.len() - piece.len..]);
        }
        let Some(at) = piece.find(text) else { return false };
        (text, pattern) = (&text[at + piece.len..], rest);
    }
    false
}
