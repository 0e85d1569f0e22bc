//! Runs beside a look at each document alone; scores as RediSearch gives them.

use martlet_base::random::Random;

use super::*;
use crate::index::content::Content;
use crate::index::partition::tests::{Model, WORDS, definition, fill as fill_content, model};
use crate::index::statistics::Statistics;
use crate::query::ast::Side;
use crate::query::pattern::{Affix, Fuzzy, TermPattern, Wildcard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

fn word(random: &mut Random) -> Box<[u8]> {
    WORDS[random.below(WORDS.len() as u64) as usize].as_bytes().into()
}

fn expansion(random: &mut Random) -> Expansion {
    let text = [b'a' + random.below(5) as u8];
    let pattern = match random.below(5) {
        0 => TermPattern::Affix(Box::new(Affix::new(&text, Side::Prefix))),
        1 => TermPattern::Affix(Box::new(Affix::new(&text, Side::Suffix))),
        2 => TermPattern::Affix(Box::new(Affix::new(&text, Side::Infix))),
        3 => TermPattern::Wildcard(Wildcard::new(b"?o*")),
        _ => TermPattern::Fuzzy(Box::new(Fuzzy::new(b"cog", 1))),
    };
    Expansion { number: 0, pattern, max: 200 }
}

fn plan(random: &mut Random, depth: u64) -> Plan {
    let mask = u128::MAX;
    match random.below(if depth == 0 { 8 } else { 13 }) {
        0 | 1 => Plan::Term { name: word(random), mask, weight: 1.0 },
        2 => Plan::Terms { which: expansion(random), mask, weight: 1.0 },
        3 => Plan::Tag { field: 1, name: word(random), weight: 1.0 },
        4 => Plan::Tags { field: 1, which: expansion(random), weight: 1.0 },
        5 => {
            let min = random.below(20) as f64;
            let range =
                Range { min: Bound::Included(min), max: Bound::Excluded(min + random.below(20) as f64) };
            Plan::Numbers { field: 2, range, weight: 1.0 }
        }
        6 => Plan::Missing { field: 2 },
        7 => match random.below(3) {
            0 => Plan::All,
            1 => Plan::Nothing,
            _ => Plan::Keys((0..20).map(|_| format!("k{}", random.below(900)).into_bytes().into()).collect()),
        },
        8 => Plan::Not(Box::new(plan(random, depth - 1))),
        9 => Plan::Optional(Box::new(plan(random, depth - 1))),
        10 => Plan::Or { children: (0..3).map(|_| plan(random, depth - 1)).collect(), weight: 1.0 },
        11 => Plan::And {
            children: (0..2).map(|_| plan(random, depth - 1)).collect(),
            order: None,
            weight: 1.0,
        },
        _ => {
            let children = (0..2 + random.below(2))
                .map(|_| Plan::Term { name: word(random), mask, weight: 1.0 })
                .collect();
            let slop = if random.below(4) == 0 { None } else { Some(random.below(3) as u32) };
            let order = Order { slop, in_order: random.below(2) == 0 };
            Plan::And { children, order: Some(order), weight: 1.0 }
        }
    }
}

/// Numbers the expansions.
fn number(plan: &mut Plan, next: &mut usize) {
    match plan {
        Plan::Terms { which, .. } | Plan::Tags { which, .. } => {
            which.number = *next;
            *next += 1;
        }
        Plan::Not(child) | Plan::Optional(child) => number(child, next),
        Plan::And { children, .. } | Plan::Or { children, .. } => {
            children.iter_mut().for_each(|child| number(child, next));
        }
        _ => {}
    }
}

fn means(which: &Expansion, name: &str) -> bool {
    match &which.pattern {
        TermPattern::Affix(affix) => affix.matches(name.as_bytes()),
        TermPattern::Wildcard(wildcard) => wildcard.matches(name.as_bytes()),
        TermPattern::Fuzzy(fuzzy) => fuzzy.clone().matches(name.as_bytes()),
    }
}

/// Whether a document is found, by looking at it alone.
fn finds(plan: &Plan, key: &str, model: &Model) -> bool {
    match plan {
        Plan::All | Plan::Optional(_) => true,
        Plan::Nothing | Plan::Points { .. } | Plan::Near { .. } | Plan::Shapes { .. } => false,
        Plan::Term { name, .. } => model.words.iter().any(|word| word.as_bytes() == &**name),
        Plan::Terms { which, .. } => model.words.iter().any(|word| means(which, word)),
        Plan::Tag { name, .. } => model.tags.iter().any(|tag| tag.as_bytes() == &**name),
        Plan::Tags { which, .. } => model.tags.iter().any(|tag| means(which, tag)),
        Plan::Numbers { range, .. } => model.number.is_some_and(|number| range.has(number)),
        Plan::Missing { .. } => model.number.is_none(),
        Plan::Keys(keys) => keys.iter().any(|one| &**one == key.as_bytes()),
        Plan::Not(child) => !finds(child, key, model),
        Plan::Or { children, .. } => children.iter().any(|child| finds(child, key, model)),
        Plan::And { children, order, .. } => {
            let lists: Vec<Vec<u32>> = children.iter().map(|child| places(child, model)).collect();
            children.iter().all(|child| finds(child, key, model))
                && order.is_none_or(|order| is_near(&lists, order))
        }
    }
}

fn places(plan: &Plan, model: &Model) -> Vec<u32> {
    let Plan::Term { name, .. } = plan else { return Vec::new() };
    let is_it = |word: &&str| word.as_bytes() == &**name;
    (1..).zip(&model.words).filter(|(_, word)| is_it(word)).map(|(at, _)| at).collect()
}

#[test]
fn a_run_finds_what_looking_at_each_document_finds() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    let mut partition = Partition::new(&definition());
    let mut models = BTreeMap::<String, Model>::new();
    let mut content = Content::default();
    for round in 0..40_000u64 {
        let key = format!("k{}", random.below(900));
        if random.below(6) == 0 {
            partition.remove(key.as_bytes());
            models.remove(&key);
            continue;
        }
        let model = model(&mut random);
        fill_content(&mut content, &key, &model, round);
        partition.put(&mut content, Vec::new(), || round);
        models.insert(key, model);
    }
    for round in 0..600 {
        let mut plan = plan(&mut random, 3);
        number(&mut plan, &mut 0);
        let plan = Arc::new(plan);
        let prepared = Prepared::of_all(&plan, &[&partition]);
        let scores = round % 2 == 0;
        let mut run = Run::new(plan.clone(), Arc::new(prepared), &partition, 0, scores);
        let mut found = BTreeSet::new();
        let key = |id| String::from_utf8(partition.documents().get(id).unwrap().key.to_vec()).unwrap();
        if scores {
            let statistics = Statistics { documents: models.len() as u64, average_length: 3.0 };
            let scoring = Scoring { statistics, ..Scoring::default() };
            while run.scores(&partition, &scoring, |id, rank, score, _| {
                // Without a word a document has no norm: its score is infinite.
                assert!(score >= 0.0 && rank == partition.documents().rank(id));
                assert!(found.insert(key(id)), "found twice");
            }) {}
        } else {
            while let Some(window) = run.window(&partition) {
                found.extend(window.iter().map(key));
            }
        }
        let wanted: BTreeSet<String> = models
            .iter()
            .filter(|(key, model)| finds(&plan, key, model))
            .map(|(key, _)| key.clone())
            .collect();
        assert_eq!(found, wanted, "seed {seed}, round {round}: {plan:?}");
        assert!(run.estimate(&partition) + 2_000 >= found.len());
    }
}

/// RediSearch 2.10.5's scores and explanations of three documents.
#[test]
fn scores_are_those_of_redisearch() {
    let mut partition = Partition::new(&definition());
    let mut content = Content::default();
    let documents = [
        ("a", vec!["hello", "world", "hello"], vec!["red", "blue"], 1.0),
        ("b", vec!["hello", "you"], vec!["red"], 2.0),
        ("c", vec!["big", "world", "hello"], vec!["green"], 3.0),
    ];
    for (at, (key, words, tags, number)) in documents.into_iter().enumerate() {
        let model = Model { words, tags, number: Some(number) };
        fill_content(&mut content, key, &model, at as u64);
        partition.put(&mut content, Vec::new(), || at as u64);
    }
    let term = |name: &str, weight| Plan::Term { name: name.as_bytes().into(), mask: u128::MAX, weight };
    let tag = |name: &str| Plan::Tag { field: 1, name: name.as_bytes().into(), weight: 1.0 };
    let and = |children| Plan::And { children, order: None, weight: 1.0 };
    let or = |children, weight| Plan::Or { children, weight };
    let up_to_two = Range { min: Bound::Included(1.0), max: Bound::Included(2.0) };
    let scores = |plan: Plan| {
        let plan = Arc::new(plan);
        let prepared = Prepared::of_all(&plan, &[&partition]);
        let mut run = Run::new(plan, Arc::new(prepared), &partition, 0, true);
        let statistics = Statistics { documents: 3, average_length: 8.0 / 3.0 };
        let mut scores = Vec::new();
        let scoring = Scoring { statistics, explain: true, ..Scoring::default() };
        while run.scores(&partition, &scoring, |id, _, score, notes| {
            let key = partition.documents().get(id).unwrap().key.to_vec();
            scores.push((String::from_utf8(key).unwrap(), score, notes.explanation.unwrap()));
        }) {}
        scores
    };
    let plain = |plan| -> Vec<(String, f64)> {
        scores(plan).into_iter().map(|(key, score, _)| (key, score)).collect()
    };
    let of = |pairs: &[(&str, f64)]| -> Vec<(String, f64)> {
        pairs.iter().map(|&(key, score)| (key.to_owned(), score)).collect()
    };
    assert_eq!(plain(tag("red")), of(&[("a", 0.5), ("b", 1.0)]));
    assert_eq!(plain(or(vec![tag("red"), tag("blue")], 1.0)), of(&[("a", 1.5), ("b", 1.0)]));
    let tags = or(vec![tag("red"), tag("blue")], 1.0);
    assert_eq!(plain(and(vec![term("hello", 1.0), tags])), of(&[("a", 1.25), ("b", 1.0)]));
    let without = and(vec![term("hello", 1.0), Plan::Not(Box::new(tag("blue")))]);
    assert_eq!(plain(without), of(&[("b", 1.0), ("c", 1.0)]));
    let maybe = Plan::Optional(Box::new(tag("blue")));
    assert_eq!(plain(and(vec![term("hello", 1.0), maybe])), of(&[("a", 2.0), ("b", 1.0), ("c", 1.0)]));
    let both = or(vec![term("world", 1.0), term("you", 1.0)], 0.5);
    let weighted = and(vec![term("hello", 3.0), both]);
    assert_eq!(plain(weighted), of(&[("a", 3.25), ("b", 4.0), ("c", 3.5)]));
    let phrase = Plan::And {
        children: vec![term("hello", 1.0), term("world", 1.0)],
        order: Some(Order::PHRASE),
        weight: 1.0,
    };
    assert_eq!(plain(phrase), of(&[("a", 1.5)]));
    let numbers = and(vec![term("hello", 1.0), Plan::Numbers { field: 2, range: up_to_two, weight: 1.0 }]);
    let explained = scores(numbers);
    assert_eq!(explained[0].1, 1.5);
    let text = &explained[0].2.text;
    assert_eq!(text, "Final TFIDF : words TFIDF 3.00 * document score 1.00 / norm 2 / slop 1");
    assert_eq!(explained[0].2.parts[0].text, "(Weight 1.00 * total children TFIDF 3.00)");
}
