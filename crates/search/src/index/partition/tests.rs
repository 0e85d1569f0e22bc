//! A partition beside a map of documents.

use martlet_base::random::Random;

use super::*;
use crate::index::bits::{Bits, WINDOW};
use crate::index::numbers::Range;
use crate::schema::{Options, Source, Tag, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

fn field(name: &str, kind: FieldKind) -> Field {
    Field {
        identifier: name.as_bytes().into(),
        name: name.as_bytes().into(),
        kind,
        sortable: false,
        unf: false,
        no_index: false,
        index_empty: false,
        index_missing: true,
    }
}

/// A text, a tag and a number.
pub(crate) fn definition() -> Definition {
    Definition {
        name: b"i".as_slice().into(),
        source: Source::Hash,
        prefixes: vec![Box::default()],
        filter: None,
        language: None,
        language_field: None,
        score: 1.0,
        score_field: None,
        payload_field: None,
        options: Options::default(),
        stopwords: None,
        fields: vec![
            field(
                "t",
                FieldKind::Text(Text { weight: 1.0, no_stem: false, phonetic: None, suffixes: false }),
            ),
            field("g", FieldKind::Tag(Tag { separator: Some(b','), case_sensitive: false, suffixes: false })),
            field("n", FieldKind::Numeric),
        ],
    }
}

#[derive(Clone, Default)]
pub(crate) struct Model {
    pub words: Vec<&'static str>,
    pub tags: Vec<&'static str>,
    pub number: Option<f64>,
}

pub(crate) const WORDS: &[&str] = &["a", "b", "c", "dog", "cat", "house"];

pub(crate) fn model(random: &mut Random) -> Model {
    let mut some = |most| -> Vec<&'static str> {
        (0..random.below(most)).map(|_| WORDS[random.below(6) as usize]).collect()
    };
    let (words, tags) = (some(6), some(3));
    Model { words, tags, number: (random.below(3) > 0).then(|| random.below(20) as f64) }
}

pub(crate) fn fill(content: &mut Content, key: &str, model: &Model, fingerprint: u64) {
    content.clear();
    content.key.extend_from_slice(key.as_bytes());
    content.fingerprint = fingerprint;
    for (at, word) in model.words.iter().enumerate() {
        content.terms.add(word.as_bytes(), 0, at as u32 + 1, 1, true);
    }
    content.tags.extend(model.tags.iter().map(|tag| (1, tag.as_bytes().into())));
    content.numbers.extend(model.number.map(|number| (2, number)));
    if model.number.is_none() {
        content.missing.push(2);
    }
}

/// The keys of the live documents that `fill` finds.
fn keys(partition: &Partition, fill: impl Fn(&mut Bits)) -> BTreeSet<String> {
    let documents = partition.documents();
    (0..documents.next_id())
        .step_by(WINDOW)
        .flat_map(|base| {
            let (mut window, mut live) = (Bits::empty(base), Bits::empty(base));
            fill(&mut window);
            documents.live(&mut live);
            window.and(&live);
            window.iter().collect::<Vec<_>>()
        })
        .map(|id| String::from_utf8(documents.get(id).unwrap().key.to_vec()).unwrap())
        .collect()
}

fn check(partition: &Partition, models: &BTreeMap<String, Model>, seed: u64) {
    let with = |has: &dyn Fn(&Model) -> bool| -> BTreeSet<String> {
        models.iter().filter(|(_, model)| has(model)).map(|(key, _)| key.clone()).collect()
    };
    for word in WORDS {
        let found = keys(partition, |window| {
            if let Some(postings) = partition.terms().get(word.as_bytes()) {
                postings.fill(partition.layout(), u128::MAX, None, window);
            }
        });
        assert_eq!(found, with(&|model| model.words.contains(word)), "seed {seed}");
        let found = keys(partition, |window| {
            if let Some(postings) = partition.tags(1).unwrap().get(word.as_bytes()) {
                postings.fill(Layout::IDS, u128::MAX, None, window);
            }
        });
        assert_eq!(found, with(&|model| model.tags.contains(word)), "seed {seed}");
    }
    let range = Range { min: Bound::Included(3.0), max: Bound::Excluded(9.0) };
    let found = keys(partition, |window| {
        partition.numbers(2).unwrap().fill(&range, &Bits::full(window.base()), window)
    });
    assert_eq!(found, with(&|model| model.number.is_some_and(|number| range.has(number))), "seed {seed}");
    let found = keys(partition, |window| {
        partition.missing(2).unwrap().fill(Layout::IDS, u128::MAX, None, window);
    });
    assert_eq!(found, with(&|model| model.number.is_none()), "seed {seed}");
}

#[test]
fn it_has_the_documents_that_were_put_last() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    let mut partition = Partition::new(&definition());
    let mut models = BTreeMap::new();
    let mut content = Content::default();
    let mut sequence = 0;
    let mut collections = 0;
    for round in 0..30_000u64 {
        let key = format!("k{}", random.below(2_000));
        if random.below(5) == 0 {
            assert_eq!(partition.remove(key.as_bytes()).is_some(), models.remove(&key).is_some());
        } else {
            let model = model(&mut random);
            fill(&mut content, &key, &model, round);
            assert!(!partition.is_same(key.as_bytes(), round));
            let old = partition.put(&mut content, Vec::new(), || {
                sequence += 1;
                sequence
            });
            assert_eq!(old.is_some(), models.contains_key(&key));
            assert!(partition.is_same(key.as_bytes(), round));
            models.insert(key, model);
        }
        if partition.wants_collection() {
            collections += u64::from(partition.collect(3));
        }
        let scattered = if round % 64 == 0 { partition.documents().scattered(8) } else { Vec::new() };
        for key in scattered {
            let key = String::from_utf8(key.into()).unwrap();
            fill(&mut content, &key, &models[&key], round);
            partition.move_up(&mut content);
        }
        if round % 7_000 == 0 {
            check(&partition, &models, seed);
        }
    }
    check(&partition, &models, seed);
    assert!(collections > 3);
    for key in models.keys() {
        assert!(partition.remove(key.as_bytes()).is_some());
    }
    partition.dead = usize::MAX;
    while !partition.collect(100) {}
    assert!(partition.terms().is_empty() && partition.tags(1).unwrap().is_empty());
    assert!(partition.numbers(2).unwrap().is_empty() && partition.missing(2).unwrap().is_empty());
    assert!(partition.heap_bytes() < 100_000, "{}", partition.heap_bytes());
}

#[test]
fn a_document_keeps_its_number() {
    let mut partition = Partition::new(&definition());
    let mut content = Content::default();
    let model = Model { words: vec!["a"], ..Model::default() };
    fill(&mut content, "k", &model, 7);
    assert!(partition.put(&mut content, Vec::new(), || 1).is_none());
    fill(&mut content, "k", &model, 8);
    assert!(partition.put(&mut content, Vec::new(), || panic!("the key has a number")).is_some());
    let documents = partition.documents();
    let sequences: Vec<u64> = documents.iter().map(|(id, _)| documents.rank(id).sequence).collect();
    assert_eq!(sequences, [1]);
}
