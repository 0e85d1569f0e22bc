//! Random operations beside a naive model: a `serde_json::Value`, and an evaluator of paths that lists
//! places. After each step the document's text, its count of heap bytes and its clones from before are
//! compared. proptest prints the seed of a failure.

use martlet_json::document::Document;
use martlet_json::ops::{self, Answer, Condition, Deleted, NumberOperation};
use martlet_json::path::Path;
use martlet_json::serialised::{VERSION_CBOR, VERSION_TEXT, decode, encode_cbor, encode_text};
use martlet_json::text::{parse, to_text};
use martlet_json::value::Node;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Steps of one run.
const STEPS: usize = 40;

#[derive(Clone, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
}

/// A step of a generated path.
enum Selector {
    Name(&'static str),
    Index(i64),
    Slice(i64, i64),
    All,
    DescendTo(&'static str),
    AtLeast(i64),
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn name(&mut self) -> &'static str {
        ["a", "b", "c", "a name above a word", "1"][self.below(5)]
    }

    fn index(&mut self) -> i64 {
        self.below(9) as i64 - 4
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(100_000) as i64 - 50),
            3 => json!(self.below(1000) as f64 / 8.0 + 0.1),
            4 => json!("x".repeat(self.below(20))),
            5 => json!(i64::MAX - self.below(3) as i64),
            6 => Value::Array((0..self.below(50)).map(|_| json!(self.below(300))).collect()),
            7 => Value::Array((0..self.below(5)).map(|_| self.value(depth - 1)).collect()),
            8 => {
                let count = self.below(50);
                Value::Object((0..count).map(|n| (format!("key {n}"), self.value(0))).collect())
            }
            _ => {
                let count = self.below(5);
                Value::Object((0..count).map(|_| (self.name().to_owned(), self.value(depth - 1))).collect())
            }
        }
    }

    fn path(&mut self) -> Vec<Selector> {
        (0..self.below(4))
            .map(|_| match self.below(8) {
                0..=2 => Selector::Name(self.name()),
                3 | 4 => Selector::Index(self.index()),
                5 => match self.below(2) {
                    0 => Selector::Slice(self.index(), self.index()),
                    _ => Selector::AtLeast(self.index()),
                },
                6 => Selector::All,
                _ => Selector::DescendTo(self.name()),
            })
            .collect()
    }
}

fn path_text(path: &[Selector]) -> String {
    let steps = path.iter().map(|selector| match selector {
        Selector::Name(name) => format!("[\"{name}\"]"),
        Selector::Index(index) => format!("[{index}]"),
        Selector::Slice(start, end) => format!("[{start}:{end}]"),
        Selector::All => "[*]".to_owned(),
        Selector::DescendTo(name) => format!("..[\"{name}\"]"),
        Selector::AtLeast(number) => format!("[?(@ >= {number})]"),
    });
    format!("${}", steps.collect::<String>())
}

fn children(value: &Value) -> Vec<(Step, &Value)> {
    match value {
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (Step::Index(at), item)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, item)| (Step::Name(name.clone()), item)).collect()
        }
        _ => Vec::new(),
    }
}

fn absolute(index: i64, length: usize) -> usize {
    if index < 0 { (length as i64 + index).max(0) as usize } else { (index as usize).min(length) }
}

/// The places at a path, from the document inwards.
fn places(root: &Value, path: &[Selector]) -> Vec<Vec<Step>> {
    let mut found: Vec<(Vec<Step>, &Value)> = vec![(Vec::new(), root)];
    for selector in path {
        let mut next = Vec::new();
        for (place, value) in found {
            let mut add = |step: Step, child| next.push(([place.clone(), vec![step]].concat(), child));
            match selector {
                Selector::Name(name) => {
                    if let Some(child) = value.as_object().and_then(|members| members.get(*name)) {
                        add(Step::Name((*name).to_owned()), child);
                    }
                }
                Selector::Index(index) => {
                    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    let at = absolute(*index, items.len());
                    if let Some(child) = items.get(at) {
                        add(Step::Index(at), child);
                    }
                }
                Selector::Slice(start, end) => {
                    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    let (start, end) = (absolute(*start, items.len()), absolute(*end, items.len()));
                    for (at, item) in items.iter().enumerate().take(end).skip(start) {
                        add(Step::Index(at), item);
                    }
                }
                Selector::All => children(value).into_iter().for_each(|(step, child)| add(step, child)),
                Selector::AtLeast(number) => children(value)
                    .into_iter()
                    .filter(|(_, child)| child.as_f64().is_some_and(|value| value >= *number as f64))
                    .for_each(|(step, child)| add(step, child)),
                Selector::DescendTo(name) => {
                    let mut open = vec![(place.clone(), value)];
                    while let Some((place, value)) = open.pop() {
                        if let Some(child) = value.as_object().and_then(|members| members.get(*name)) {
                            next.push((
                                [place.clone(), vec![Step::Name((*name).to_owned())]].concat(),
                                child,
                            ));
                        }
                        for (step, child) in children(value) {
                            open.push(([place.clone(), vec![step]].concat(), child));
                        }
                    }
                }
            }
        }
        found = next;
    }
    found.into_iter().map(|(place, _)| place).collect()
}

fn at<'v>(root: &'v mut Value, place: &[Step]) -> Option<&'v mut Value> {
    place.iter().try_fold(root, |value, step| match step {
        Step::Name(name) => value.get_mut(name.as_str()),
        Step::Index(index) => value.get_mut(*index),
    })
}

/// The outermost of the places, from the back, so that a removal moves none of the others.
fn outermost(places: Vec<Vec<Step>>) -> Vec<Vec<Step>> {
    let mut kept: Vec<Vec<Step>> = Vec::new();
    for place in &places {
        let is_inner = places.iter().any(|other| other.len() < place.len() && place.starts_with(other));
        if !is_inner && !kept.contains(place) {
            kept.push(place.clone());
        }
    }
    let index = |place: &Vec<Step>| match place.last() {
        Some(Step::Index(index)) => *index,
        _ => 0,
    };
    kept.sort_by_key(|place| std::cmp::Reverse(index(place)));
    kept
}

fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(members) = value else { return };
    for (name, patch) in patch {
        if patch.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), patch);
        }
    }
}

/// Deepest first, so that a change at one place keeps the places around it valid.
fn deepest_first(mut places: Vec<Vec<Step>>) -> Vec<Vec<Step>> {
    places.sort_by_key(|place| std::cmp::Reverse(place.len()));
    places
}

/// Runs one random operation on both, and returns its description.
fn step(random: &mut Random, document: &mut Document, model: &mut Value) -> String {
    let selectors = random.path();
    let text = path_text(&selectors);
    let path = Path::parse(text.as_bytes()).expect("a path");
    let found = places(model, &selectors);
    let value = random.value(2);
    let ours = parse(value.to_string().as_bytes(), None).expect("JSON");
    let operation = random.below(9);
    let inner = found.iter().any(Vec::is_empty);
    let has_nested = found.iter().any(|a| found.iter().any(|b| a.len() > b.len() && a.starts_with(b)));
    match operation {
        0 if !inner => {
            let outcome = ops::set(document, &path, ours, Condition::Present).expect("a set");
            let targets = outermost(found);
            assert_eq!(outcome.complete, !targets.is_empty(), "{text}");
            targets.iter().for_each(|place| *at(model, place).expect("the place") = value.clone());
        }
        1 if !inner => {
            let targets = outermost(found);
            assert_eq!(
                ops::delete(document, &path).expect("a deletion"),
                Deleted::Values(targets.len()),
                "{text}"
            );
            for place in &targets {
                let (last, parent) = place.split_last().expect("a place below the root");
                match (at(model, parent), last) {
                    (Some(Value::Array(items)), Step::Index(index)) => drop(items.remove(*index)),
                    (Some(Value::Object(members)), Step::Name(name)) => drop(members.remove(name)),
                    _ => panic!("a place that is none"),
                }
            }
        }
        2 => {
            let patch = parse(value.to_string().as_bytes(), None).expect("JSON");
            if !has_nested && !found.is_empty() {
                assert!(ops::merge(document, &path, &patch).expect("a merge"));
                found.iter().for_each(|place| merge(at(model, place).expect("the place"), &value));
            }
        }
        3 => {
            let answer = ops::arr_append(document, &path, std::slice::from_ref(&ours)).expect("an append");
            let mut lengths = 0;
            for place in deepest_first(found) {
                if let Some(Value::Array(items)) = at(model, &place) {
                    items.push(value.clone());
                    lengths += 1;
                }
            }
            let Answer::Paths(results) = answer else { panic!("a JSONPath's answer") };
            assert_eq!(results.iter().flatten().count(), lengths);
        }
        4 => {
            let index = random.index();
            ops::arr_pop(document, &path, index).expect("a pop");
            for place in deepest_first(found) {
                if let Some(Value::Array(items)) = at(model, &place)
                    && !items.is_empty()
                {
                    let at = absolute(index, items.len()).min(items.len() - 1);
                    items.remove(at);
                }
            }
        }
        5 => {
            ops::arr_insert(document, &path, 0, &[ours.clone(), ours]).expect("an insertion");
            for place in deepest_first(found) {
                if let Some(Value::Array(items)) = at(model, &place) {
                    items.splice(0..0, [value.clone(), value.clone()]);
                }
            }
        }
        6 => {
            let (start, stop) = (random.below(8), random.below(40));
            ops::arr_trim(document, &path, start as i64, stop as i64).expect("a trim");
            for place in deepest_first(found) {
                if let Some(Value::Array(items)) = at(model, &place) {
                    *items = items.iter().take(stop + 1).skip(start).cloned().collect();
                }
            }
        }
        7 => {
            ops::clear(document, &path).expect("a clearing");
            for place in deepest_first(found) {
                match at(model, &place) {
                    Some(Value::Array(items)) => items.clear(),
                    Some(Value::Object(members)) => members.clear(),
                    Some(number @ Value::Number(_)) if number.as_f64() != Some(0.0) => *number = json!(0),
                    _ => {}
                }
            }
        }
        _ => {
            let done = ops::number_operation(document, &path, NumberOperation::Increment, b"3");
            let numbers: Vec<Vec<Step>> = found
                .into_iter()
                .filter(|place| at(model, place).is_some_and(|value| value.is_number()))
                .collect();
            let overflows = |value: Option<&mut Value>| {
                value.and_then(|value| value.as_i64()).is_some_and(|value| value.checked_add(6).is_none())
            };
            if numbers.iter().any(|place| overflows(at(model, place))) {
                // Too near to the limit for the model to tell; the document must be as it was, or all be
                // done.
                if done.is_ok() {
                    *model = serde_json::from_slice(&to_text(document.root())).expect("JSON");
                }
            } else {
                done.expect("an increment");
                for place in numbers {
                    let number = at(model, &place).expect("the place");
                    *number = match number.as_i64() {
                        Some(value) => json!(value + 3),
                        None => json!(number.as_f64().expect("a number") + 3.0),
                    };
                }
            }
        }
    }
    format!("{operation} {text}")
}

fn model_of(document: &Document) -> Value {
    serde_json::from_slice(&to_text(document.root())).expect("what is written is JSON")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn operations_are_the_models(seed in 1u64..) {
        let mut random = Random(seed);
        let mut model = random.value(4);
        let mut document = Document::new(parse(model.to_string().as_bytes(), None).unwrap()).unwrap();
        let mut clones: Vec<(Document, Vec<u8>)> = Vec::new();
        for _ in 0..STEPS {
            if random.below(3) == 0 {
                clones.push((document.clone(), to_text(document.root())));
            }
            let what = step(&mut random, &mut document, &mut model);
            prop_assert_eq!(&model_of(&document), &model, "{}", what);
            prop_assert_eq!(document.heap_bytes(), document.value().heap_bytes(), "{}", what);
            for (clone, text) in &clones {
                prop_assert_eq!(&to_text(clone.root()), text, "{}", what);
            }
            if clones.len() > 3 {
                clones.remove(0);
            }
        }
    }

    #[test]
    fn paths_lead_where_the_models_do(seed in 1u64..) {
        let mut random = Random(seed);
        let mut model = random.value(5);
        let document = Document::new(parse(model.to_string().as_bytes(), None).unwrap()).unwrap();
        for _ in 0..STEPS {
            let selectors = random.path();
            let path = Path::parse(path_text(&selectors).as_bytes()).unwrap();
            let found = path.places(document.root()).unwrap();
            for (node, place) in &found {
                prop_assert!(document.get(place).is_some_and(|other| other.equals(*node)));
            }
            let mut ours: Vec<String> =
                found.iter().map(|(node, _)| String::from_utf8(to_text(*node)).unwrap()).collect();
            let expected = places(&model, &selectors);
            let mut theirs: Vec<String> =
                expected.iter().map(|place| {
                    let value = at(&mut model, place).unwrap().to_string();
                    String::from_utf8(to_text(Node::Value(&parse(value.as_bytes(), None).unwrap()))).unwrap()
                }).collect();
            ours.sort();
            theirs.sort();
            prop_assert_eq!(ours, theirs, "{}", path.text());
        }
    }

    #[test]
    fn values_survive_their_encodings(seed in 1u64..) {
        let model = Random(seed).value(5);
        let document = Document::new(parse(model.to_string().as_bytes(), None).unwrap()).unwrap();
        prop_assert_eq!(&model_of(&document), &model);
        let decoded = [
            decode(VERSION_TEXT, &encode_text(&document)).unwrap(),
            decode(VERSION_CBOR, &encode_cbor(&document)).unwrap(),
        ];
        for other in decoded {
            prop_assert_eq!(other.value(), document.value());
            prop_assert_eq!(to_text(other.root()), to_text(document.root()));
            prop_assert_eq!(other.heap_bytes(), document.heap_bytes());
        }
    }
}
