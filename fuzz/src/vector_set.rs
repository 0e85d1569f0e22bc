//! A vector set's saved form and FILTER expressions from any source: they are refused, or the value is
//! written the same way twice, can be searched and changed, and keeps its links in both directions.

use martlet_vector::element::Element;
use martlet_vector::filter::Filter;
use martlet_vector::graph::{Graph, SearchOptions};
use martlet_vector::saved::{Field, Saved, decode, encode};
use std::borrow::Cow;

/// Fields as bytes: a tag, then a number of 8 bytes or a length of one byte and that many bytes.
pub fn encode_fields(saved: &Saved) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&saved.graph.snapshot(), saved.projection.as_ref(), |field| match field {
        Field::Unsigned(value) => {
            out.push(0);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Field::Double(value) => {
            out.push(1);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Field::String(text) => {
            out.extend_from_slice(&[2, text.len() as u8]);
            out.extend_from_slice(&text);
        }
    });
    out
}

fn take<'a>(data: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = data.split_at_checked(count)?;
    *data = rest;
    Some(taken)
}

fn next_field<'a>(data: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = take(data, 1)?[0] % 3;
    if tag == 2 {
        let length = take(data, 1)?[0];
        return take(data, usize::from(length)).map(|text| Field::String(Cow::Borrowed(text)));
    }
    let word = u64::from_le_bytes(take(data, 8)?.try_into().ok()?);
    Some(if tag == 0 { Field::Unsigned(word) } else { Field::Double(f64::from_bits(word)) })
}

fn read(mut data: &[u8]) -> Option<Saved> {
    decode(1, || next_field(&mut data)).ok()
}

/// The input is a set's fields behind a first byte that is even, or else an expression and an attribute
/// behind it.
pub fn check(data: &[u8]) {
    match data.split_first() {
        Some((first, rest)) if first % 2 == 1 => check_filter(rest),
        Some((_, rest)) => check_saved(rest),
        None => {}
    }
}

fn check_filter(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (expression, attribute) = data.split_at(end);
    match Filter::compile(expression) {
        Ok(filter) => {
            let attribute = attribute.get(1..).unwrap_or_default();
            assert_eq!(filter.matches(attribute), filter.matches(attribute));
        }
        Err(error) => {
            assert!(error.message(expression).starts_with(b"syntax error in FILTER expression near: "))
        }
    }
}

fn check_links(graph: &Graph<Element>) {
    let snapshot = graph.snapshot();
    for slot in snapshot.order() {
        for (level, layer) in graph.links(slot).expect("the node is there").iter().enumerate() {
            for hit in layer {
                let back = graph.links(hit.slot).expect("links lead to nodes");
                let links_back =
                    back.get(level).is_some_and(|layer| layer.iter().any(|hit| hit.slot == slot));
                assert!(links_back, "links are reciprocal");
            }
        }
    }
}

fn check_saved(data: &[u8]) {
    let Some(saved) = read(data) else { return };
    let written = encode_fields(&saved);
    // Strings of more than 255 bytes have no form here.
    if let Some(again) = read(&written) {
        assert_eq!(encode_fields(&again), written);
    }
    check_links(&saved.graph);
    let query = saved.graph.encode(&vec![0.5; saved.graph.config().dimension]).expect("the vector fits");
    let all = saved.graph.len();
    for is_exact in [false, true] {
        let options = SearchOptions { is_exact, ..SearchOptions::nearest(10, 50) };
        assert!(saved.graph.search(&query, &options).len() <= all.min(10));
    }
    let slots = saved.graph.snapshot().order();
    saved.graph.insert_encoded(&query, Element::new(b"new", None), 20, None).expect("there is room");
    for slot in slots.iter().step_by(2) {
        assert!(saved.graph.remove(*slot).is_some());
    }
    check_links(&saved.graph);
}
