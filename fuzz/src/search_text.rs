//! The analyser of texts on any bytes: tokens stand in order inside the text, and stems and sounds have their
//! prefixes.

use martlet_search::schema::Language;
use martlet_search::text::phonetic::PHONETIC_PREFIX;
use martlet_search::text::stem::STEM_PREFIX;
use martlet_search::text::stopwords::Stopwords;
use martlet_search::text::token::TOKEN_MAX_BYTES;
use martlet_search::text::{Analyser, Rules};

const LANGUAGES: [&str; 29] = [
    "arabic",
    "armenian",
    "basque",
    "catalan",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "yiddish",
    "chinese",
];

/// The first byte chooses the language, the rest is the text.
pub fn check(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else { return };
    let name = LANGUAGES[usize::from(choice) % LANGUAGES.len()];
    let language = Language::parse(name.as_bytes()).expect("a language");
    let stopwords = Stopwords::of(None);
    let rules = Rules { language, stopwords: &stopwords, stems: true, sounds: true };
    let (mut position, mut end) = (0, 0);
    let count = Analyser::new().analyse(text, rules, 0, |token| {
        assert_eq!(token.position, position + 1);
        assert!(token.range.start >= end && token.range.end <= text.len() && !token.range.is_empty());
        assert!(!token.term.is_empty() && token.term.len() <= TOKEN_MAX_BYTES);
        assert!(token.stem.is_none_or(|stem| stem[0] == STEM_PREFIX));
        assert!(token.sound.is_none_or(|sound| sound[0] == PHONETIC_PREFIX && sound.len() <= 5));
        (position, end) = (token.position, token.range.end);
    });
    assert_eq!(count, position);
}

/// Words of several languages.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        (6, "The running foxes' naive re\\-entry, under_score 3.5"),
        (8, "h\u{e9}ro\u{ef}que japonaises \u{e9}cossaise"),
        (9, "H\u{e4}user laufend aedeln stra\u{df}e"),
        (20, "abilit\u{103}\u{21b}ii duser\u{103}ivi"),
        (
            21,
            "\u{431}\u{435}\u{433}\u{443}\u{449}\u{438}\u{435} \u{43a}\u{43d}\u{438}\u{433}\u{430}\u{43c}\u{438}",
        ),
        (0, "\u{627}\u{644}\u{643}\u{62a}\u{627}\u{628}"),
        (10, "\u{3c5}\u{3ca}\u{3b5}\u{3c4}\u{3b5}"),
        (28, "\u{4e2d}\u{534e}abc\u{4eba}\u{6c11}"),
        (25, "\u{ba4}\u{bae}\u{bbf}\u{bb4}\u{bcd}"),
        (26, "evlerimizden \u{131}\u{15f}\u{131}k"),
    ];
    texts.iter().map(|(language, text)| [&[*language][..], text.as_bytes()].concat()).collect()
}
