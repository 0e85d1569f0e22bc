//! Words that are neither indexed nor searched for.
//!
//! All of a list's words are in lower case, as normalised tokens are.

use hashbrown::HashSet;
use std::sync::LazyLock;

/// Most words of a list; RediSearch passes over the rest.
pub const STOPWORDS_MAX: usize = 1024;

/// RediSearch's own list.
const DEFAULT: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// A list of stopwords.
#[derive(Clone, Debug, Default)]
pub struct Stopwords {
    words: HashSet<Box<[u8]>>,
    /// A bit for each length of a word below 64, so that most lookups end before the table.
    lengths: u64,
}

impl Stopwords {
    /// The list of an index: `words`, or RediSearch's own list.
    pub fn of(words: Option<&[Box<[u8]>]>) -> Stopwords {
        static OWN: LazyLock<Stopwords> =
            LazyLock::new(|| Stopwords::new(DEFAULT.iter().map(|word| word.as_bytes())));
        words.map_or_else(|| OWN.clone(), |words| Stopwords::new(words.iter().map(|word| &**word)))
    }

    /// A list of these words, in any case of ASCII.
    pub fn new<'w>(words: impl Iterator<Item = &'w [u8]>) -> Stopwords {
        let words: HashSet<Box<[u8]>> =
            words.take(STOPWORDS_MAX).map(|word| word.to_ascii_lowercase().into_boxed_slice()).collect();
        let lengths = words.iter().fold(0, |bits, word| bits | length_bit(word.len()));
        Stopwords { words, lengths }
    }

    /// Whether a word is in the list; the word is in lower case.
    pub fn contains(&self, word: &[u8]) -> bool {
        self.lengths & length_bit(word.len()) != 0 && self.words.contains(word)
    }

    /// Whether a word is in the list, in any case of ASCII.
    pub fn contains_any_case(&self, word: &[u8]) -> bool {
        self.lengths & length_bit(word.len()) != 0 && self.contains(&word.to_ascii_lowercase())
    }
}

fn length_bit(len: usize) -> u64 {
    1 << len.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_list_is_used_unless_another_is_given() {
        let own = Stopwords::of(None);
        assert!(own.contains(b"the") && own.contains_any_case(b"The") && !own.contains(b"hello"));
        let long = "w".repeat(100);
        let given = Stopwords::of(Some(&[b"Foo"[..].into(), long.as_bytes().into()]));
        assert!(given.contains(b"foo") && !given.contains(b"the") && given.contains(long.as_bytes()));
        assert!(!given.contains(&long.as_bytes()[1..]));
        assert!(!Stopwords::of(Some(&[])).contains(b"a"));
    }

    #[test]
    fn a_list_has_a_limit() {
        let words: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
        let list = Stopwords::new(words.iter().map(|word| word.as_bytes()));
        assert!(list.contains(b"1023") && !list.contains(b"1024"));
    }
}
