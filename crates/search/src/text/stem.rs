//! Stems of words, by Snowball's algorithms.
//!
//! A stem is written with `+` before it: the index holds it beside the word, and a query finds both. A thread
//! keeps the stems of the words it met last in a table of fixed size, since most words of a text are common.

use crate::schema::Language;
use martlet_base::hash::hash_bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The byte before a stem.
pub const STEM_PREFIX: u8 = b'+';
/// A shorter word has no stem (RediSearch: `MINSTEMLEN`).
pub const STEM_MIN_BYTES: usize = 4;
/// A longer word has no stem: tokens are never longer.
const STEM_MAX_BYTES: usize = 256;
/// Slots of a thread's table for one language: 256 KB.
const SLOTS: usize = 4096;
/// Bytes of a slot for a word and its stem.
const SLOT_BYTES: usize = 61;

/// A stemmer of one of the two crates. They differ where Snowball's algorithms have changed.
enum Stemmer {
    /// As RediSearch 2.10 has them.
    Earlier(rust_stemmers::Algorithm),
    /// Languages that the other crate lacks, or of which nothing has changed since.
    Later(snowball_stemmers_rs::Algorithm),
}

/// The stemmer of a language for a word. `None` for Chinese, whose words do not change.
fn stemmer(language: Language, word: &str) -> Option<Stemmer> {
    use rust_stemmers::Algorithm as Earlier;
    use snowball_stemmers_rs::Algorithm as Later;
    Some(match language {
        Language::English => Stemmer::Earlier(Earlier::English),
        // Of French, the earlier crate lacks the rule for letters with a diaeresis only.
        Language::French if word.contains(['ë', 'ï']) => Stemmer::Later(Later::French),
        Language::French => Stemmer::Earlier(Earlier::French),
        Language::German => Stemmer::Earlier(Earlier::German),
        Language::Norwegian => Stemmer::Earlier(Earlier::Norwegian),
        Language::Romanian => Stemmer::Earlier(Earlier::Romanian),
        Language::Spanish => Stemmer::Earlier(Earlier::Spanish),
        Language::Swedish => Stemmer::Earlier(Earlier::Swedish),
        Language::Arabic => Stemmer::Later(Later::Arabic),
        Language::Armenian => Stemmer::Later(Later::Armenian),
        Language::Basque => Stemmer::Later(Later::Basque),
        Language::Catalan => Stemmer::Later(Later::Catalan),
        Language::Danish => Stemmer::Later(Later::Danish),
        Language::Dutch => Stemmer::Later(Later::DutchPorter),
        Language::Finnish => Stemmer::Later(Later::Finnish),
        Language::Greek => Stemmer::Later(Later::Greek),
        Language::Hindi => Stemmer::Later(Later::Hindi),
        Language::Hungarian => Stemmer::Later(Later::Hungarian),
        Language::Indonesian => Stemmer::Later(Later::Indonesian),
        Language::Irish => Stemmer::Later(Later::Irish),
        Language::Italian => Stemmer::Later(Later::Italian),
        Language::Lithuanian => Stemmer::Later(Later::Lithuanian),
        Language::Nepali => Stemmer::Later(Later::Nepali),
        Language::Portuguese => Stemmer::Later(Later::Portuguese),
        Language::Russian => Stemmer::Later(Later::Russian),
        Language::Serbian => Stemmer::Later(Later::Serbian),
        Language::Tamil => Stemmer::Later(Later::Tamil),
        Language::Turkish => Stemmer::Later(Later::Turkish),
        Language::Yiddish => Stemmer::Later(Later::Yiddish),
        Language::Chinese => return None,
    })
}

/// Snowball's stem of a normalised word, without a prefix. `None`: the language has no stemmer, or the word
/// is no UTF-8.
pub fn stem_of(language: Language, word: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(word).ok().filter(|text| text.len() <= STEM_MAX_BYTES)?;
    let stemmer = stemmer(language, text)?;
    // The algorithms are generated code over slices of text that comes from clients: after a panic in them
    // the word has no stem.
    let stem = catch_unwind(AssertUnwindSafe(|| match stemmer {
        Stemmer::Earlier(algorithm) => rust_stemmers::Stemmer::create(algorithm).stem(text).into_owned(),
        Stemmer::Later(algorithm) => snowball_stemmers_rs::Stemmer::create(algorithm).stem(text).into_owned(),
    }));
    stem.ok().map(String::into_bytes)
}

/// One word and its stem.
#[derive(Copy, Clone)]
struct Slot {
    word_len: u8,
    /// With its prefix; zero: the word is its own stem.
    stem_len: u8,
    bytes: [u8; SLOT_BYTES],
}

const EMPTY: Slot = Slot { word_len: 0, stem_len: 0, bytes: [0; SLOT_BYTES] };

impl Slot {
    fn stem(&self) -> Option<&[u8]> {
        let start = self.word_len as usize;
        self.bytes.get(start..start + self.stem_len as usize).filter(|stem| !stem.is_empty())
    }
}

/// The stems of one language, as one thread uses them.
pub struct StemCache {
    language: Language,
    slots: Box<[Slot]>,
    /// The stem of a word that is too long for a slot.
    long: Vec<u8>,
}

impl StemCache {
    /// An empty table for a language.
    pub fn new(language: Language) -> Self {
        StemCache { language, slots: vec![EMPTY; SLOTS].into_boxed_slice(), long: Vec::new() }
    }

    /// The stem of a normalised word, with its prefix, if it differs from the word and the word is long
    /// enough to have one.
    pub fn stem(&mut self, word: &[u8]) -> Option<&[u8]> {
        if word.len() < STEM_MIN_BYTES {
            return None;
        }
        let place = hash_bytes(word) as usize % SLOTS;
        let slot = &self.slots[place];
        if slot.word_len as usize == word.len() && slot.bytes[..word.len()] == *word {
            return self.slots[place].stem();
        }
        self.insert(place, word)
    }

    fn insert(&mut self, place: usize, word: &[u8]) -> Option<&[u8]> {
        let stem = stem_of(self.language, word).filter(|stem| !stem.eq_ignore_ascii_case(word));
        self.long.clear();
        if let Some(stem) = stem {
            self.long.push(STEM_PREFIX);
            self.long.extend_from_slice(&stem);
        }
        if word.len() + self.long.len() <= SLOT_BYTES {
            let slot = &mut self.slots[place];
            slot.word_len = word.len() as u8;
            slot.stem_len = self.long.len() as u8;
            slot.bytes[..word.len()].copy_from_slice(word);
            slot.bytes[word.len()..word.len() + self.long.len()].copy_from_slice(&self.long);
        }
        Some(&*self.long).filter(|stem| !stem.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem(language: Language, word: &str) -> Option<String> {
        let mut cache = StemCache::new(language);
        let first = cache.stem(word.as_bytes()).map(<[u8]>::to_vec);
        assert_eq!(cache.stem(word.as_bytes()), first.as_deref(), "{word} again");
        first.map(|stem| String::from_utf8(stem).expect("UTF-8"))
    }

    #[test]
    fn words_have_stems_that_differ_from_them() {
        for (word, expected) in [
            ("running", Some("+run")),
            ("hopefully", Some("+hope")),
            ("naïve", Some("+naïv")),
            ("under_score", Some("+under_scor")),
            ("kayak", None),
            ("was", None),
            ("бегущие", None),
        ] {
            assert_eq!(stem(Language::English, word).as_deref(), expected, "{word}");
        }
        assert_eq!(stem(Language::Russian, "бегущие").as_deref(), Some("+бегущ"));
        assert_eq!(stem(Language::Chinese, "running"), None);
    }

    #[test]
    fn long_words_and_odd_bytes_have_stems_or_none() {
        let word = format!("ya{}ing", "z".repeat(123));
        assert_eq!(stem(Language::English, &word), Some(format!("+ya{}", "z".repeat(123))));
        let mut cache = StemCache::new(Language::English);
        assert_eq!(cache.stem(b"\xffrunning"), None);
        assert_eq!(cache.stem(&[0; 128]), None);
    }

    #[test]
    fn more_words_than_slots_do_not_mix() {
        let mut cache = StemCache::new(Language::English);
        for round in 0..2 {
            for number in 0..3 * SLOTS {
                let word = format!("walk{number}xing");
                let expected = format!("+walk{number}x");
                assert_eq!(cache.stem(word.as_bytes()), Some(expected.as_bytes()), "{round}");
            }
        }
    }
}
