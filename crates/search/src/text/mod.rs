//! How text becomes terms.
//!
//! Analysis depends on the bytes and the rules only: two threads find the same tokens in a text. Any bytes
//! are a text; nothing here fails.

pub mod phonetic;
pub mod stem;
pub mod stopwords;
pub mod token;

use crate::schema::Language;
use std::ops::Range;
use stem::StemCache;
use stopwords::Stopwords;
use token::{TOKEN_MAX_BYTES, Tokens};

/// How a text is analysed.
#[derive(Copy, Clone)]
pub struct Rules<'r> {
    /// The language of its stems.
    pub language: Language,
    /// Words that are passed over.
    pub stopwords: &'r Stopwords,
    /// Whether stems are wanted.
    pub stems: bool,
}

/// A word of a text, as it is indexed. All bytes are borrowed for the duration of the call that reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The normalised word.
    pub term: &'a [u8],
    /// Its stem with `+` before it, where it is another word.
    pub stem: Option<&'a [u8]>,
    /// Its place among the text's tokens; the first one is 1. Stopwords have none.
    pub position: u32,
    /// Where it stands in the text, in bytes.
    pub range: Range<usize>,
}

/// A thread's means to analyse texts: its buffers, and the stems of the words that it met last.
#[derive(Default)]
pub struct Analyser {
    /// One for each language that the thread met.
    stems: Vec<(Language, StemCache)>,
}

impl Analyser {
    /// An analyser that knows no words yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports each token of a text in order, and returns their count. `before` is the count of tokens in
    /// earlier texts of the same field; positions continue from it.
    pub fn analyse(
        &mut self,
        text: &[u8],
        rules: Rules<'_>,
        before: u32,
        mut report: impl FnMut(&Token<'_>),
    ) -> u32 {
        let mut buffer = [0; TOKEN_MAX_BYTES];
        let mut stems = rules.stems.then(|| self.stem_cache(rules.language));
        let mut position = before;
        for raw in Tokens::new(text) {
            let term = raw.normalised(&mut buffer);
            if term.is_empty() || rules.stopwords.contains(term) {
                continue;
            }
            position = position.saturating_add(1);
            let stem = stems.as_mut().and_then(|stems| stems.stem(term));
            report(&Token { term, stem, position, range: raw.range.clone() });
        }
        position - before
    }

    fn stem_cache(&mut self, language: Language) -> &mut StemCache {
        let place = match self.stems.iter().position(|(known, _)| *known == language) {
            Some(place) => place,
            None => {
                self.stems.push((language, StemCache::new(language)));
                self.stems.len() - 1
            }
        };
        &mut self.stems[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, a line each.
    fn analysed(text: &str, stems: bool) -> Vec<String> {
        let stopwords = Stopwords::of(None);
        let rules = Rules { language: Language::English, stopwords: &stopwords, stems };
        let mut found = Vec::new();
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let count = Analyser::new().analyse(text.as_bytes(), rules, 10, |token| {
            let stem = token.stem.map_or_else(String::new, |stem| format!(" {}", show(stem)));
            found.push(format!("{} {}{stem} {:?}", token.position, show(token.term), token.range));
        });
        assert_eq!(count as usize, found.len());
        found
    }

    #[test]
    fn stopwords_take_no_position() {
        assert_eq!(
            analysed("The Running of THE foxes, to\\-day", true),
            ["11 running +run 4..11", "12 foxes +fox 19..24", "13 to-day 26..33"]
        );
        assert_eq!(analysed("Running foxes", false), ["11 running 0..7", "12 foxes 8..13"]);
        assert_eq!(analysed("", true), [""; 0]);
    }

    #[test]
    fn languages_do_not_share_stems() {
        let stopwords = Stopwords::of(None);
        let mut analyser = Analyser::new();
        for (language, expected) in
            [(Language::English, "+run"), (Language::Spanish, ""), (Language::English, "+run")]
        {
            let rules = Rules { language, stopwords: &stopwords, stems: true };
            let mut found = Vec::new();
            analyser
                .analyse(b"running", rules, 0, |token| found.extend_from_slice(token.stem.unwrap_or(b"")));
            assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }
}
