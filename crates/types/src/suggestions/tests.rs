//! Dictionaries of suggestions beside a sorted map that is searched text by text.

use std::collections::BTreeMap;

use martlet_base::random::Random;
use proptest::prelude::*;

use super::character::{Characters, common_len, fold};
use super::node::Node;
use super::{Added, NotANumber, Query, ScoreChange, Suggestions, TEXT_MAX_BYTES};

type Model = BTreeMap<Vec<u8>, (f32, Vec<u8>)>;

/// Checks the invariants of every node, and the totals.
fn check(dictionary: &Suggestions) {
    /// Entries, bytes, the highest score, and characters from the node's end to the nearest entry.
    fn walk(node: &Node, is_root: bool) -> (usize, usize, f32, usize) {
        let children = node.children().len();
        assert!(is_root || !node.label().is_empty());
        assert!(is_root || node.entry().is_some() || children > 1);
        let firsts: Vec<_> = node.children().map(|child| Characters(child.label()).next().unwrap()).collect();
        assert!(firsts.windows(2).all(|pair| pair[0] < pair[1]), "{firsts:?}");
        let mut all = (0, node.own_bytes(), f32::NEG_INFINITY, usize::from(u16::MAX));
        if let Some(entry) = node.entry() {
            (all.0, all.2, all.3) = (1, entry.score(), 0);
        }
        for child in node.children() {
            let of = walk(child, false);
            let nearest = of.3 + Characters(child.label()).count();
            all = (all.0 + of.0, all.1 + of.1, all.2.max(of.2), all.3.min(nearest));
        }
        let outlook = node.outlook();
        assert_eq!((outlook.best, usize::from(outlook.shortest)), (all.2, all.3));
        all
    }
    let (len, bytes, ..) = walk(&dictionary.root, true);
    assert_eq!((dictionary.len(), dictionary.heap_bytes()), (len, bytes));
}

fn same(dictionary: &Suggestions, model: &Model) {
    check(dictionary);
    let mut all = Model::new();
    dictionary.each(|suggestion| {
        let payload = suggestion.payload.unwrap_or_default().to_vec();
        assert!(all.insert(suggestion.text.to_vec(), (suggestion.score, payload)).is_none());
    });
    assert_eq!(&all, model);
    for (text, (score, payload)) in model {
        let found = dictionary.get(text).unwrap();
        assert_eq!((found.score, found.payload.unwrap_or_default()), (*score, &payload[..]));
    }
}

/// Edits between two texts, by the whole table.
fn distance(one: &[u32], other: &[u32]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (end, right) in other.iter().enumerate() {
            let edits = (diagonal + usize::from(left != right)).min(row[end] + 1).min(row[end + 1] + 1);
            diagonal = std::mem::replace(&mut row[end + 1], edits);
        }
    }
    row[other.len()]
}

/// FT.SUGGET by its documentation, text by text.
fn found_in(model: &Model, query: Query<'_>) -> Vec<(Vec<u8>, f32, Vec<u8>)> {
    let prefix: Vec<u32> = Characters(query.prefix).map(fold).collect();
    let mut found = Vec::new();
    for (text, (own, payload)) in model {
        let characters: Vec<u32> = Characters(text).collect();
        let folded: Vec<u32> = characters.iter().map(|character| fold(*character)).collect();
        let edits = (0..=folded.len()).map(|end| distance(&folded[..end], &prefix)).min().unwrap();
        let edits = if query.is_fuzzy && prefix.is_empty() { 1 } else { edits };
        if edits > usize::from(query.is_fuzzy) {
            continue;
        }
        let mut score = if characters == prefix { i32::MAX as f32 } else { *own };
        if query.is_fuzzy {
            score = (f64::from(score) * (-2.0 * edits as f64).exp()) as f32;
        }
        let apart = characters.len().abs_diff(query.prefix.len());
        score = (f64::from(score) / (1.0 + apart as f64).sqrt()) as f32;
        found.push((text.clone(), score, payload.clone()));
    }
    found.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    found.truncate(query.max);
    found
}

fn same_found(dictionary: &Suggestions, model: &Model, query: Query<'_>) {
    let found = dictionary.search(query).unwrap().into_iter();
    let found: Vec<_> =
        found.map(|found| (found.text, found.score, found.payload.unwrap_or_default().to_vec())).collect();
    assert_eq!(found, found_in(model, query), "{query:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u8>, i8, bool, u8),
    Remove(Vec<u8>),
    Clone,
}

/// Texts of letters that fold, of several bytes, and of bytes that are no UTF-8.
fn text(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec!["a", "A", "b", "é", "É", "ß", "\u{1f600}", "\u{e2}", "\0"]);
    let piece = prop_oneof![
        8 => piece.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::sample::select(vec![vec![0xc3], vec![0xa9], vec![0xe2, 0x82], vec![0xff]]),
    ];
    prop::collection::vec(piece, 0..max).prop_map(|pieces| pieces.concat())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (text(6), -3..9i8, any::<bool>(), 0..3u8)
            .prop_map(|(text, score, adds, payload)| Step::Add(text, score, adds, payload)),
        3 => text(6).prop_map(Step::Remove),
        1 => Just(Step::Clone),
    ]
}

fn run(dictionary: &mut Suggestions, model: &mut Model, step: Step) {
    match step {
        Step::Add(text, score, is_increment, payload) => {
            let payload = vec![payload; usize::from(payload)];
            let change = if is_increment { ScoreChange::Increment } else { ScoreChange::Replace };
            let added = dictionary.add(&text, f64::from(score), change, &payload).unwrap();
            if text.is_empty() || score == 0 {
                assert_eq!(added, Added::Ignored);
                return;
            }
            let is_new = !model.contains_key(&text);
            assert_eq!(added, if is_new { Added::New } else { Added::Updated });
            let known = model.entry(text).or_default();
            known.0 = f32::from(score) + if is_increment { known.0 } else { 0.0 };
            if !payload.is_empty() {
                known.1 = payload;
            }
        }
        Step::Remove(text) => assert_eq!(dictionary.remove(&text), model.remove(&text).is_some()),
        Step::Clone => {}
    }
}

proptest! {
    #[test]
    fn it_is_a_map_that_finds_by_prefixes(
        steps in prop::collection::vec(step(), 0..60),
        queries in prop::collection::vec((text(4), any::<bool>(), 0..8usize), 1..8),
    ) {
        let (mut dictionary, mut model) = (Suggestions::new(), Model::new());
        let mut clones: Vec<(Suggestions, Model)> = Vec::new();
        for step in steps {
            if matches!(step, Step::Clone) {
                clones.push((dictionary.clone(), model.clone()));
            }
            run(&mut dictionary, &mut model, step);
            check(&dictionary);
        }
        same(&dictionary, &model);
        for (prefix, is_fuzzy, max) in &queries {
            same_found(&dictionary, &model, Query { prefix, is_fuzzy: *is_fuzzy, max: *max });
            same_found(&dictionary, &model, Query { prefix, is_fuzzy: *is_fuzzy, max: usize::MAX });
        }
        for (clone, model) in clones {
            same(&clone, &model);
        }
    }
}

/// Many words with many scores: subtrees are left out, and nothing that belongs to the answer is.
#[test]
fn the_best_of_many_are_found() {
    let seed = 41;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let (mut dictionary, mut model) = (Suggestions::new(), Model::new());
    for _ in 0..4_000 {
        let text: Vec<u8> = (0..2 + random.below(7)).map(|_| b"abcA-"[random.below(5) as usize]).collect();
        let score = (random.below(2_000) as f32 - 100.0) / 8.0;
        if score != 0.0 {
            dictionary.add(&text, f64::from(score), ScoreChange::Replace, b"").unwrap();
            model.insert(text, (score, Vec::new()));
        }
    }
    check(&dictionary);
    for _ in 0..300 {
        let prefix: Vec<u8> = (0..random.below(6)).map(|_| b"abcd"[random.below(4) as usize]).collect();
        let (is_fuzzy, max) = (random.below(2) == 0, 1 + random.below(9) as usize);
        same_found(&dictionary, &model, Query { prefix: &prefix, is_fuzzy, max });
    }
}

#[test]
fn scores_are_those_of_redisearch() {
    let mut dictionary = Suggestions::new();
    for (text, score) in [("Hello World", 1.0), ("hello there", 2.0), ("Éa", 1.0), ("éa", 0.5)] {
        dictionary.add(text.as_bytes(), score, ScoreChange::Replace, b"").unwrap();
    }
    let scores = |prefix: &str, is_fuzzy| -> Vec<f32> {
        let found = dictionary.search(Query { prefix: prefix.as_bytes(), is_fuzzy, max: 2 }).unwrap();
        found.into_iter().map(|found| found.score).collect()
    };
    assert_eq!(scores("hel", false), [0.666_666_7, 0.333_333_34]);
    assert_eq!(scores("hello there", false), [2_147_483_648.0]);
    // The prefix has three bytes, the texts two characters.
    assert_eq!(scores("éa", false), [1_518_500_224.0, 0.707_106_77]);
    assert_eq!(scores("hxl", true), [0.090_223_52, 0.045_111_76]);
}

#[test]
fn limits_are_those_of_redisearch() {
    let mut dictionary = Suggestions::new();
    let mut add = |text: &[u8], score| dictionary.add(text, score, ScoreChange::Replace, b"").unwrap();
    assert_eq!(add(&[b'x'; 255], 1.0), Added::New);
    assert_eq!(add(&[b'x'; 256], 1.0), Added::Ignored);
    assert_eq!(add("é".repeat(255).as_bytes(), 1.0), Added::New);
    assert_eq!(add("\u{20ac}".repeat(171).as_bytes(), 1.0), Added::Ignored);
    assert_eq!(add(&vec![b'x'; TEXT_MAX_BYTES + 1], 1.0), Added::Ignored);
    assert_eq!(add(b"", 1.0), Added::Ignored);
    assert_eq!(add(b"small", 1e-50), Added::Ignored);
    assert_eq!(dictionary.len(), 2);
    let query = |prefix| Query { prefix, is_fuzzy: false, max: 5 };
    assert_eq!(dictionary.search(query(&[b'x'; 99])).map(|found| found.len()), Some(1));
    assert_eq!(dictionary.search(query(&[b'x'; 100])), None);
}

#[test]
fn no_score_is_nan() {
    let mut dictionary = Suggestions::new();
    dictionary.add(b"a", f64::INFINITY, ScoreChange::Increment, b"p").unwrap();
    let before = dictionary.clone();
    let refused = dictionary.add(b"a", f64::NEG_INFINITY, ScoreChange::Increment, b"q");
    assert_eq!(refused, Err(NotANumber));
    assert_eq!(dictionary.load(b"a", f64::NAN, b""), Err(NotANumber));
    assert_eq!(dictionary.get(b"a"), before.get(b"a"));
    // An increment may end at 0, which is kept then, also in a file.
    dictionary.add(b"z", 2.0, ScoreChange::Replace, b"").unwrap();
    dictionary.add(b"z", -2.0, ScoreChange::Increment, b"").unwrap();
    assert_eq!(dictionary.get(b"z").map(|found| found.score), Some(0.0));
    assert_eq!(dictionary.load(b"y", 0.0, b""), Ok(Added::New));
}

#[test]
fn characters_are_cut_alike_alone_and_in_their_text() {
    let text = b"a\xc3\xa9\xc3b\xe2\x82\xe2\x82\xac\xff\xf0\x9f\x98\x80\xf0\x9f";
    let all: Vec<u32> = Characters(text).collect();
    assert_eq!(all.len(), 11);
    for cut in 0..=all.len() {
        let mut rest = Characters(text);
        rest.by_ref().take(cut).for_each(drop);
        let (above, below) = text.split_at(text.len() - rest.0.len());
        let parts: Vec<u32> = Characters(above).chain(Characters(below)).collect();
        assert_eq!(parts, all);
        assert_eq!(common_len(above, text), above.len());
    }
    assert_eq!(common_len("é".as_bytes(), "è".as_bytes()), 0);
    let folded = |one: char, other: char| assert_eq!(fold(one.into()), fold(other.into()), "{one} {other}");
    for (one, other) in [('A', 'a'), ('É', 'é'), ('ς', 'Σ'), ('ß', 's'), ('ẞ', 'S'), ('ſ', 's'), ('Ж', 'ж')]
    {
        folded(one, other);
    }
    assert_ne!(fold('ı'.into()), fold('i'.into()));
}
