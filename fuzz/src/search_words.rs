//! Dictionaries, synonyms and spell checking under any arguments: a line is a command, its words lie between
//! blanks. Synonyms and dictionaries that are made again are the same, and a check ends with words near those
//! of its query, in their order.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use martlet_base::hash::hash_bytes;
use martlet_search::analysis::{Analysis, Document, Value};
use martlet_search::definition::{self, Context};
use martlet_search::dictionaries::Dictionaries;
use martlet_search::index::whole::Index;
use martlet_search::spelling::{Check, Request};
use martlet_search::synonyms::{Synonyms, Update};

struct Text<'a>(&'a str);

impl Document for Text<'_> {
    fn value(&self, _: &[u8]) -> Value<'_> {
        Value::Text(Cow::Borrowed(self.0.as_bytes()))
    }
}

static INDEX: LazyLock<Arc<Index>> = LazyLock::new(|| {
    let words: Vec<&[u8]> = b"i SCHEMA t TEXT u TEXT NOSTEM".split(|byte| *byte == b' ').collect();
    let context = Context { memory_bytes: 1 << 30, is_path: |_| false };
    let index = Index::new(definition::create(&words, context).expect("a definition"), 2);
    let rules = index.rules();
    for (key, text) in [("a", "hello world"), ("b", "Hell held worlds"), ("c", "\u{e4}pfel wor\u{df} a1")] {
        let mut analysis = Analysis::default();
        let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), &Text(text));
        index.put(hash_bytes(key.as_bytes()), content.expect("a document")).expect("it is indexed");
    }
    Arc::new(index)
});

/// Runs the commands, and compares the words with those made again.
pub fn check(data: &[u8]) {
    let (mut dictionaries, mut synonyms) = (Dictionaries::default(), Synonyms::default());
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        match words.as_slice() {
            [b"DICTADD", name, terms @ ..] => {
                assert!(dictionaries.add(name, terms).is_ok_and(|added| added <= terms.len()));
            }
            [b"DICTDEL", name, terms @ ..] => assert!(dictionaries.delete(name, terms) <= terms.len()),
            [b"SYNUPDATE", arguments @ ..] => {
                if let Ok(update) = Update::parse(arguments) {
                    let before = synonyms.fingerprint();
                    let is_new = synonyms.add(update.group, update.terms).expect("there is room");
                    assert!(is_new || synonyms.fingerprint() == before);
                }
            }
            arguments => spell_check(arguments, &dictionaries),
        }
    }
    compare(&dictionaries, &synonyms);
}

/// The same dictionaries and synonyms are made from what these say of themselves.
fn compare(dictionaries: &Dictionaries, synonyms: &Synonyms) {
    let mut same = Dictionaries::default();
    for (name, dictionary) in dictionaries.iter() {
        let terms = dictionary.terms();
        assert_eq!(terms.len(), dictionary.len());
        assert!(terms.is_sorted());
        assert_eq!(same.add(name, &terms), Ok(terms.len()));
    }
    assert_eq!(same.heap_bytes(), dictionaries.heap_bytes());
    assert!(same.iter().eq(dictionaries.iter()));
    let mut same = Synonyms::default();
    for (group, terms) in synonyms.updates() {
        assert_eq!(same.add(group, &terms), Ok(true));
    }
    assert_eq!(same.dump(), synonyms.dump());
    assert_eq!((same.fingerprint(), same.heap_bytes()), (synonyms.fingerprint(), synonyms.heap_bytes()));
}

fn spell_check(arguments: &[&[u8]], dictionaries: &Dictionaries) {
    let Ok(request) = Request::parse(arguments, 1) else { return };
    let Ok(mut check) = Check::new(Arc::clone(&INDEX), &request, dictionaries) else { return };
    let mut steps = 0;
    while check.step() {
        steps += 1;
        assert!(steps < 1_000_000, "a check ends");
    }
    let found = check.into_found();
    assert_eq!(found.documents, 3);
    for word in &found.words {
        assert!(request.has_full_scores || !word.is_known);
        assert!(!word.is_known || word.suggestions.is_empty());
        assert!(word.suggestions.is_sorted_by(|a, b| (b.documents, &a.text) < (a.documents, &b.text)));
        let score = |one| found.score(one);
        assert!(word.suggestions.iter().all(|one| score(one) >= 0.0 && score(one).is_finite()));
    }
}

/// Commands of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "DICTADD d helo Wrld wrld  \u{c4}pfel\nDICTDEL d wrld none\ni helo TERMS INCLUDE d DISTANCE 2\ni Apfel DISTANCE 1",
        "DICTADD x hello\ni @t:helo|-@u:(wrld) TERMS EXCLUDE x FULLSCOREINFO DIALECT 2\ni hello FULLSCOREINFO",
        "SYNUPDATE i g Boy child\nSYNUPDATE i h SKIPINITIALSCAN child skipinitialscan\nSYNUPDATE i g baby \ni boy",
        "i \"helo_wrld\" DISTANCE 4 TERMS INCLUDE none\ni * DISTANCE 5\ni hel* DIALECT 9\ni helo TERMS FOO d",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
