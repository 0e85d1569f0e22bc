//! The saved form against DUMPs of Redis 8.2.3 and 8.6.2, and against itself (`tests/fixtures/sets.txt`).

use super::*;
use crate::graph::{Hit, SearchOptions, VectorError};
use crate::quantise;
use std::collections::HashMap;

const SETS: &str = include_str!("../../tests/fixtures/sets.txt");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A cursor over the fields of a DUMP payload: RDB's lengths and strings, as far as these payloads have them.
struct Payload(Vec<u8>, usize);

impl Payload {
    fn take(&mut self, count: usize) -> Vec<u8> {
        self.1 += count;
        self.0[self.1 - count..self.1].to_vec()
    }

    /// A length; true if it is a special encoding instead.
    fn length(&mut self) -> (u64, bool) {
        let first = self.take(1)[0];
        match first >> 6 {
            0 => (u64::from(first & 63), false),
            1 => (u64::from(first & 63) << 8 | u64::from(self.take(1)[0]), false),
            2 if first == 0x80 => (u64::from(u32::from_be_bytes(self.take(4).try_into().unwrap())), false),
            2 => (u64::from_be_bytes(self.take(8).try_into().unwrap()), false),
            _ => (u64::from(first & 63), true),
        }
    }

    fn string(&mut self) -> Vec<u8> {
        match self.length() {
            (length, false) => self.take(length as usize),
            (0, true) => i64::from(self.take(1)[0] as i8).to_string().into_bytes(),
            (3, true) => {
                let (packed, _) = self.length();
                let (length, _) = self.length();
                let out = unpack_lzf(&self.take(packed as usize));
                assert_eq!(out.len() as u64, length);
                out
            }
            other => panic!("{other:?}"),
        }
    }

    fn fields(&mut self) -> Vec<Field<'static>> {
        // The type of a module's value, and the module type's name with its version in 64 bits.
        assert_eq!(self.take(1), [7]);
        let (module, _) = self.length();
        assert_eq!(module & 0x3ff, ENCODING_VERSION);
        let name: String = (0..9).rev().map(|at| letter(module >> (10 + 6 * at) & 63)).collect();
        assert_eq!(name, TYPE_NAME);
        let mut fields = Vec::new();
        loop {
            match self.length().0 {
                0 => return fields,
                2 => fields.push(Field::Unsigned(self.length().0)),
                5 => fields.push(Field::String(self.string().into())),
                other => panic!("opcode {other}"),
            }
        }
    }
}

fn letter(code: u64) -> char {
    char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[code as usize])
}

fn unpack_lzf(packed: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < packed.len() {
        let control = usize::from(packed[at]);
        at += 1;
        if control < 32 {
            out.extend_from_slice(&packed[at..=at + control]);
            at += control + 1;
            continue;
        }
        let mut length = control >> 5;
        if length == 7 {
            length += usize::from(packed[at]);
            at += 1;
        }
        let from = out.len() - ((control & 31) << 8) - usize::from(packed[at]) - 1;
        at += 1;
        (from..from + length + 2).for_each(|index| out.push(out[index]));
    }
    out
}

fn read(fields: &[Field<'static>]) -> Result<Saved, SavedError> {
    let mut fields = fields.iter().cloned();
    decode(1, || fields.next())
}

fn write(saved: &Saved) -> Vec<Field<'static>> {
    let mut fields = Vec::new();
    encode(&saved.graph.snapshot(), saved.projection.as_ref(), |field| {
        fields.push(match field {
            Field::String(text) => Field::String(text.into_owned().into()),
            Field::Unsigned(value) => Field::Unsigned(value),
            Field::Double(value) => Field::Double(value),
        });
    });
    fields
}

/// Server and name, fields, and the words of the lines of answers.
type Recorded = (String, Vec<Field<'static>>, Vec<Vec<&'static str>>);

/// The recorded sets.
fn sets() -> Vec<Recorded> {
    let mut sets: Vec<Recorded> = Vec::new();
    for line in SETS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match &words[..] {
            ["set", server, name, dump] => {
                let fields = Payload(bytes(dump), 0).fields();
                sets.push((format!("{server} {name}"), fields, Vec::new()));
            }
            _ => sets.last_mut().unwrap().2.push(words),
        }
    }
    assert_eq!(sets.len(), 10);
    sets
}

fn slots(saved: &Saved) -> HashMap<String, u32> {
    let snapshot = saved.graph.snapshot();
    let name = |slot: u32| String::from_utf8(snapshot.payload(slot).unwrap().name.to_vec()).unwrap();
    snapshot.order().into_iter().map(|slot| (name(slot), slot)).collect()
}

fn scores(words: &[&str]) -> Vec<(String, f64)> {
    let pairs = words.iter().filter(|word| **word != "-").map(|word| word.split_once('=').unwrap());
    pairs.map(|(name, score)| (name.to_owned(), score.parse().unwrap())).collect()
}

fn assert_scores(
    found: &[Hit<Element>],
    expected: &[(String, f64)],
    score_of: impl Fn(&Hit<Element>) -> f64,
    tolerance: f64,
    at: &str,
) {
    assert_eq!(found.len(), expected.len(), "{at}");
    for (hit, (name, score)) in found.iter().zip(expected) {
        assert!((score_of(hit) - score).abs() <= tolerance, "{at} {name}: {} {score}", score_of(hit));
        // Equal scores have no order that could be compared.
        let is_tied = expected.iter().filter(|(_, other)| (other - score).abs() < 1e-6).count() > 1;
        assert!(is_tied || *hit.payload.name == *name.as_bytes(), "{at}: {:?} {name}", hit.payload);
    }
}

#[test]
fn sets_of_the_oracles_answer_as_there() {
    for (name, fields, answers) in sets() {
        let saved = read(&fields).unwrap();
        let slots = slots(&saved);
        // Sums of floats have an order of their own in each kernel; sums of integers have one value.
        let tolerance = if name.contains("NOQUANT") { 1e-6 } else { 0.0 };
        for words in &answers {
            match words[0] {
                "emb" => {
                    let components = saved.graph.components(slots[words[1]]).unwrap();
                    let expected: Vec<f64> = words[2..].iter().map(|word| word.parse().unwrap()).collect();
                    let widened: Vec<f64> = components.iter().map(|value| f64::from(*value)).collect();
                    assert_eq!(widened, expected, "{name} {}", words[1]);
                }
                "raw" => {
                    let (stored, range, length) = saved.graph.stored(slots[words[1]]).unwrap();
                    assert_eq!(stored, bytes(words[2]), "{name} {}", words[1]);
                    assert_eq!(f64::from(length), words[3].parse().unwrap(), "{name}");
                    if let Some(expected) = words.get(4) {
                        assert_eq!(f64::from(range), expected.parse().unwrap(), "{name}");
                    }
                }
                "links" => {
                    let layers = saved.graph.links(slots[words[1]]).unwrap();
                    assert_eq!(layers.len(), words.len() - 2, "{name} {}", words[1]);
                    for (layer, expected) in layers.iter().rev().zip(&words[2..]) {
                        let expected = scores(&expected.split(',').collect::<Vec<_>>());
                        let at = format!("{name} {}", words[1]);
                        assert_scores(layer, &expected, Hit::link_score, tolerance, &at);
                    }
                }
                _ => {
                    let query: Vec<f32> = words[1].split(',').map(|word| word.parse().unwrap()).collect();
                    let query = match &saved.projection {
                        Some(projection) => projection.apply(&query).unwrap(),
                        None => query,
                    };
                    let query = saved.graph.encode(&query).unwrap();
                    let all = SearchOptions { is_exact: true, ..SearchOptions::nearest(100, 100) };
                    let found = saved.graph.search(&query, &all);
                    assert_scores(&found, &scores(&words[2..]), Hit::score, tolerance, &name);
                }
            }
        }
    }
}

#[test]
fn sets_of_the_oracles_are_written_as_they_were() {
    for (name, fields, _) in sets() {
        let saved = read(&fields).unwrap();
        assert_eq!(write(&saved), fields, "{name}");
    }
}

#[test]
fn loaded_sets_can_be_changed() {
    for (name, fields, _) in sets() {
        let saved = read(&fields).unwrap();
        let mut slots: Vec<u32> = slots(&saved).into_values().collect();
        slots.sort_unstable();
        let dimension = saved.graph.config().dimension;
        saved.graph.insert(&vec![0.25; dimension], Element::new(b"new", Some(b"{}")), 200).unwrap();
        slots.iter().step_by(2).for_each(|slot| assert!(saved.graph.remove(*slot).is_some()));
        let again = read(&write(&saved)).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(again.graph.len(), saved.graph.len());
        assert_eq!(again.graph.last_id(), saved.graph.last_id());
        assert_eq!(write(&again), write(&saved), "{name}");
    }
}

#[test]
fn nodes_of_version_0_are_read() {
    let (_, fields, _) = sets().swap_remove(0);
    let expected = read(&fields).unwrap();
    // The same set without the words about the most distant links.
    let mut old = Vec::new();
    let mut rest = fields.iter().cloned();
    (0..4).for_each(|_| old.push(rest.next().unwrap()));
    let unsigned = |field: Field<'static>| match field {
        Field::Unsigned(value) => value,
        other => panic!("{other:?}"),
    };
    while let Some(name) = rest.next() {
        old.extend([name, rest.next().unwrap()]);
        let count = unsigned(rest.next().unwrap());
        let parameters: Vec<u64> = (0..count).map(|_| unsigned(rest.next().unwrap())).collect();
        let (id, layers, tail) = decode_parameters(&parameters).unwrap();
        let mut kept = vec![id, layers.len() as u64 - 1];
        for layer in &layers {
            kept.extend([layer.links.len() as u64, layer.capacity as u64]);
            kept.extend(&layer.links);
        }
        kept.push(tail);
        old.push(Field::Unsigned(kept.len() as u64));
        old.extend(kept.into_iter().map(Field::Unsigned));
    }
    let fields_of = |saved: &Saved| write(saved);
    assert_eq!(
        fields_of(&read(&old).unwrap()),
        fields_of(&expected),
        "the most distant links are found again"
    );
}

/// A set of two elements that link to each other.
fn pair() -> Vec<Field<'static>> {
    let saved = Saved {
        graph: Graph::new(Config {
            dimension: 2,
            encoding: Encoding::Q8,
            metric: Metric::Cosine,
            m: 16,
            // Both nodes are on layer 0 only.
            seed: 1,
        })
        .unwrap(),
        projection: None,
    };
    saved.graph.insert(&[1.0, 0.0], Element::new(b"a", None), 10).unwrap();
    saved.graph.insert(&[0.0, 1.0], Element::new(b"b", None), 10).unwrap();
    write(&saved)
}

#[test]
fn lies_are_refused() {
    let good = pair();
    // Head of four; b: name, vector, count, id, level, links, room, link, worst, tail at 4 to 13; a from 14
    // on.
    assert_eq!(good.len(), 24);
    assert!(read(&good).is_ok());
    let links = SavedError::Graph(RestoreError::Links);
    let unreciprocal = SavedError::Graph(RestoreError::NotReciprocal);
    let cases: &[(usize, u64, SavedError)] = &[
        (0, 0, SavedError::Head),
        (0, quantise::DIMENSION_MAX as u64 + 1, SavedError::Head),
        (0, 3, SavedError::Graph(RestoreError::Vector)),
        (1, 0, SavedError::Head),
        (1, 3, SavedError::Field),
        (1, u64::MAX, SavedError::Field),
        (1, 1, unreciprocal),
        (2, 3, SavedError::Head),
        (3, 1, SavedError::Field),
        (3, 2, SavedError::Field),
        (6, 6, SavedError::Parameters),
        (6, u64::MAX, SavedError::Parameters),
        (7, 0, SavedError::Graph(RestoreError::Id)),
        (7, 1, links),
        (7, 9, unreciprocal),
        (8, 17 | 1 << 24, SavedError::Graph(RestoreError::Level)),
        (8, 2 << 24, SavedError::Parameters),
        (8, 1 | 1 << 24, SavedError::Parameters),
        (9, 33, links),
        (9, u64::MAX, links),
        (9, 0, SavedError::Parameters),
        (10, 0, links),
        (10, 1 << 20, links),
        (11, 2, links),
        (11, 0, links),
        (11, 77, unreciprocal),
        (12, 5, links),
        (17, 2, SavedError::Graph(RestoreError::Id)),
    ];
    for (at, value, error) in cases {
        let mut bad = good.clone();
        assert!(matches!(bad[*at], Field::Unsigned(_)), "field {at}");
        bad[*at] = Field::Unsigned(*value);
        assert_eq!(read(&bad).err(), Some(*error), "field {at} as {value}");
    }
    let mut same_name = good.clone();
    same_name[14] = good[4].clone();
    assert_eq!(read(&same_name).err(), Some(SavedError::Name));
    for at in 0..good.len() {
        assert!(read(&good[..at]).is_err(), "cut at {at}");
        let mut bad = good.clone();
        bad[at] = Field::Double(1.0);
        assert_eq!(read(&bad).err(), Some(SavedError::Field));
    }
}

#[test]
fn room_that_a_file_asks_for_is_not_kept() {
    let mut fields = pair();
    let before = read(&fields).unwrap().graph.heap_bytes();
    fields[10] = Field::Unsigned(16384);
    assert!(read(&fields).unwrap().graph.heap_bytes() < before + 4096);
}

#[test]
fn sets_without_elements_have_no_saved_form() {
    let head = [2u64, 0, 1, 0].map(Field::Unsigned);
    assert_eq!(read(&head).err(), Some(SavedError::Head));
}

#[test]
fn elements_that_do_not_fit_are_refused() {
    let saved = read(&pair()).unwrap();
    let element = || Element::new(b"c", None);
    assert_eq!(saved.graph.insert(&[1.0], element(), 10), Err(VectorError::NotAVector));
    let other = read(&sets()[1].1).unwrap();
    let vector = other.graph.encode(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(saved.graph.insert_encoded(&vector, element(), 10, None), Err(VectorError::NotAVector));
    assert!(saved.graph.search(&vector, &SearchOptions::nearest(1, 10)).is_empty());
}
