//! How text becomes terms.
//!
//! Analysis depends on the bytes and the rules only: two threads find the same tokens in a text. Any bytes
//! are a text; nothing here fails.

pub mod chinese;
pub mod fold;
pub mod phonetic;
pub mod stem;
pub mod stopwords;
pub mod token;

use crate::schema::{Language, Text};
use phonetic::{PHONETIC_MIN_BYTES, code_of};
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
    /// Whether sounds are wanted.
    pub sounds: bool,
}

impl<'r> Rules<'r> {
    /// The rules by which the texts of a field are analysed.
    pub fn of_field(field: &Text, language: Language, stopwords: &'r Stopwords) -> Rules<'r> {
        Rules { language, stopwords, stems: !field.no_stem, sounds: field.phonetic.is_some() }
    }
}

/// A word of a text, as it is indexed. All bytes are borrowed for the duration of the call that reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The normalised word.
    pub term: &'a [u8],
    /// Its stem with `+` before it, where it is another word.
    pub stem: Option<&'a [u8]>,
    /// Its sound with `<` before it, if sounds are wanted and it has one.
    pub sound: Option<&'a [u8]>,
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
        let is_chinese = rules.language == Language::Chinese;
        let mut stems = (rules.stems && !is_chinese).then(|| self.stem_cache(rules.language));
        let mut position = before;
        let mut add = |term: &[u8], range: Range<usize>| {
            if term.is_empty() || rules.stopwords.contains(term) {
                return;
            }
            position = position.saturating_add(1);
            let stem = stems.as_mut().and_then(|stems| stems.stem(term));
            let is_long = rules.sounds && term.len() >= PHONETIC_MIN_BYTES;
            let sound = if is_long { code_of(term) } else { None };
            report(&Token { term, stem, sound: sound.as_deref(), position, range });
        };
        for raw in Tokens::new(text) {
            if !is_chinese {
                add(raw.normalised(&mut buffer), raw.range.clone());
                continue;
            }
            // A run of ideographs is no word, and is not cut as a long one.
            for (at, word) in chinese::words(raw.raw) {
                let start = raw.range.start + at;
                for part in Tokens::new(word) {
                    let range = start + part.range.start..start + part.range.end;
                    add(part.normalised(&mut buffer), range);
                }
            }
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
        let rules = Rules { language: Language::English, stopwords: &stopwords, stems, sounds: false };
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
            let rules = Rules { language, stopwords: &stopwords, stems: true, sounds: false };
            let mut found = Vec::new();
            analyser
                .analyse(b"running", rules, 0, |token| found.extend_from_slice(token.stem.unwrap_or(b"")));
            assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }

    #[test]
    fn sounds_and_ideographs_are_reported() {
        let stopwords = Stopwords::of(None);
        let found = |language, text: &str| {
            let rules = Rules { language, stopwords: &stopwords, stems: true, sounds: true };
            let mut found = Vec::new();
            Analyser::new().analyse(text.as_bytes(), rules, 0, |token| {
                let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let sound = token.sound.map_or("-".into(), show);
                found.push(format!("{} {} {sound} {:?}", token.position, show(token.term), token.range));
            });
            found
        };
        assert_eq!(
            found(Language::English, "Hello ab 12"),
            ["1 hello <HL 0..5", "2 ab - 6..8", "3 12 - 9..11"]
        );
        assert_eq!(
            found(Language::Chinese, "中华 The ABC人"),
            ["1 中 - 0..3", "2 华 - 3..6", "3 abc <APK 11..14", "4 人 - 14..17"]
        );
    }
}
