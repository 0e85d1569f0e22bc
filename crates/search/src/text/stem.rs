//! Stems of words, by Snowball's algorithms.
//!
//! A stem is written with `+` before it: the index holds it beside the word, and a query finds both. A thread
//! keeps the stems of the words it met last in a table of fixed size, since most words of a text are common.

use crate::schema::Language;
use martlet_base::hash::hash_bytes;
use snowball_stemmers_rs::{Algorithm, Stemmer};
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

/// The algorithm of a language; none for Chinese, whose words do not change.
fn algorithm(language: Language) -> Option<Algorithm> {
    Some(match language {
        Language::Arabic => Algorithm::Arabic,
        Language::Armenian => Algorithm::Armenian,
        Language::Basque => Algorithm::Basque,
        Language::Catalan => Algorithm::Catalan,
        Language::Danish => Algorithm::Danish,
        Language::Dutch => Algorithm::DutchPorter,
        Language::English => Algorithm::English,
        Language::Finnish => Algorithm::Finnish,
        Language::French => Algorithm::French,
        Language::German => Algorithm::German,
        Language::Greek => Algorithm::Greek,
        Language::Hindi => Algorithm::Hindi,
        Language::Hungarian => Algorithm::Hungarian,
        Language::Indonesian => Algorithm::Indonesian,
        Language::Irish => Algorithm::Irish,
        Language::Italian => Algorithm::Italian,
        Language::Lithuanian => Algorithm::Lithuanian,
        Language::Nepali => Algorithm::Nepali,
        Language::Norwegian => Algorithm::Norwegian,
        Language::Portuguese => Algorithm::Portuguese,
        Language::Romanian => Algorithm::Romanian,
        Language::Russian => Algorithm::Russian,
        Language::Serbian => Algorithm::Serbian,
        Language::Spanish => Algorithm::Spanish,
        Language::Swedish => Algorithm::Swedish,
        Language::Tamil => Algorithm::Tamil,
        Language::Turkish => Algorithm::Turkish,
        Language::Yiddish => Algorithm::Yiddish,
        Language::Chinese => return None,
    })
}

/// What Snowball makes of a normalised word, without a prefix. `None`: the language has no stemmer, or the
/// word is no UTF-8.
pub fn stem_of(language: Language, word: &[u8]) -> Option<Vec<u8>> {
    let algorithm = algorithm(language)?;
    let text = std::str::from_utf8(word).ok().filter(|text| text.len() <= STEM_MAX_BYTES)?;
    // The algorithms are generated code over slices of text that comes from clients: after a panic in them
    // the word has no stem.
    catch_unwind(AssertUnwindSafe(|| Stemmer::create(algorithm).stem(text).into_owned().into_bytes())).ok()
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
