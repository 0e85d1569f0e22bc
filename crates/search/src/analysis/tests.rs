//! Documents as RediSearch 2.10.5 indexes them.

use super::*;
use crate::definition::{Context, create};
use std::collections::HashMap;

struct Fields(HashMap<&'static [u8], Value<'static>>);

impl Document for Fields {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        self.0.get(identifier).cloned().unwrap_or(Value::Missing)
    }
}

fn text(text: &'static str) -> Value<'static> {
    Value::Text(Cow::Borrowed(text.as_bytes()))
}

fn definition(arguments: &str) -> Definition {
    let arguments: Vec<&[u8]> = arguments.split(' ').map(str::as_bytes).collect();
    create(&arguments, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap()
}

/// What becomes of a document: its parts on lines, or the error.
fn analysed(definition: &Definition, fields: &[(&'static str, Value<'static>)]) -> String {
    let document = Fields(fields.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect());
    let mut analysis = Analysis::default();
    let stopwords = Stopwords::of(definition.stopwords.as_deref());
    let content = match analysis.of(definition, &stopwords, b"k", &document) {
        Ok(content) => content,
        Err(failure) => return format!("{:?} {}", failure.field, failure.error),
    };
    let mut out = String::new();
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    content.terms.each(|term| {
        out += &format!("{} {}×{} {:?}\n", show(term.name), term.mask, term.frequency, term.positions);
    });
    for (field, tag) in &content.tags {
        out += &format!("{field} {{{}}}\n", show(tag));
    }
    for (field, number) in &content.numbers {
        out += &format!("{field} {number}\n");
    }
    for (field, vector) in &content.vectors {
        out += &format!("{field} {vector:?}\n");
    }
    for field in &content.missing {
        out += &format!("{field} missing\n");
    }
    out
}

#[test]
fn weights_round_and_positions_go_on_from_field_to_field() {
    let definition = definition("i SCHEMA t TEXT WEIGHT 2.7 b TEXT WEIGHT 0.5");
    assert_eq!(
        analysed(&definition, &[("t", text("hello worlds")), ("b", text("the hello"))]),
        "hello 3×4 [1, 3]\nworlds 1×3 [2]\n+world 1×1 [2]\n"
    );
}

#[test]
fn values_of_hashes() {
    let definition = definition(
        "i SCHEMA g TAG SEPARATOR ; n NUMERIC l GEO v VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2",
    );
    assert_eq!(analysed(&definition, &[("g", text("Red ; Blue;;"))]), "0 {red}\n0 {blue}\n");
    let empty = self::definition("i SCHEMA t TEXT INDEXEMPTY u TEXT");
    assert_eq!(analysed(&empty, &[("u", text(""))]), "");
    assert_ne!(analysed(&empty, &[("t", text(""))]), "", "the empty text is a term");
    for (number, shown) in [("12", "1 12\n"), ("-inf", "1 -inf\n"), ("0x10", "1 16\n"), ("+5", "1 5\n")] {
        assert_eq!(analysed(&definition, &[("n", text(number))]), shown);
    }
    for number in ["", "12 ", "12x", "nan", "1e400"] {
        let error = format!("Some(1) Invalid numeric value: '{number}'");
        assert_eq!(analysed(&definition, &[("n", text(number))]), error);
    }
    for point in ["1", "1,2,3", ""] {
        assert_eq!(analysed(&definition, &[("l", text(point))]), "Some(2) Invalid geo string");
    }
    let error = "Some(2) Invalid geo coordinates: 1.000000, 200.000000";
    assert_eq!(analysed(&definition, &[("l", text("1,200"))]), error);
    let error = "Some(3) Could not add vector with blob size 3 (expected size 4)";
    assert_eq!(analysed(&definition, &[("v", text("abc"))]), error);
}

#[test]
fn values_of_json() {
    let definition = definition(
        "i ON JSON SCHEMA $.t AS t TEXT $.g AS g TAG INDEXMISSING $.n AS n NUMERIC $.v AS v VECTOR FLAT 6 TYPE \
         FLOAT32 DIM 2 DISTANCE_METRIC L2",
    );
    let several = |values: &[Value<'static>]| Value::Several(values.to_vec());
    let strings = several(&[text("hello"), Value::Missing, text("world")]);
    assert_eq!(analysed(&definition, &[("$.t", strings)]), "hello 1×1 [1]\nworld 1×1 [102]\n1 missing\n");
    let tags = several(&[text("a,b"), Value::Bool(true)]);
    assert_eq!(analysed(&definition, &[("$.g", tags)]), "1 {a,b}\n1 {true}\n");
    let numbers = several(&[Value::Number(1.0), Value::Missing, Value::Number(2.5)]);
    assert_eq!(
        analysed(&definition, &[("$.n", numbers.clone()), ("$.g", Value::Bool(false))]),
        "1 {false}\n2 1\n2 2.5\n"
    );
    let vector = several(&[Value::Number(1.0), Value::Number(2.5)]);
    assert_eq!(analysed(&definition, &[("$.v", vector), ("$.g", text("x"))]), "1 {x}\n3 [1.0, 2.5]\n");
    for (field, value) in [
        ("$.t", Value::Number(5.0)),
        ("$.t", Value::Object),
        ("$.t", several(&[Value::Number(1.0)])),
        ("$.g", Value::Number(5.0)),
        ("$.n", text("5")),
        ("$.v", numbers),
        ("$.v", several(&[Value::Number(1.0)])),
    ] {
        assert!(analysed(&definition, &[(field, value.clone())]).starts_with("Some("), "{field} {value:?}");
    }
}

#[test]
fn a_fingerprint_is_of_what_is_indexed() {
    let definition = definition("i SCORE_FIELD s SCHEMA t TEXT");
    let stopwords = Stopwords::of(None);
    let of = |fields: &[(&'static str, Value<'static>)]| {
        let document = Fields(fields.iter().map(|(name, value)| (name.as_bytes(), value.clone())).collect());
        Analysis::default().of(&definition, &stopwords, b"k", &document).unwrap().fingerprint
    };
    let one = of(&[("t", text("a"))]);
    assert_eq!(one, of(&[("t", text("a")), ("other", text("b"))]));
    assert_ne!(one, of(&[("t", text("b"))]));
    assert_ne!(one, of(&[("t", text("a")), ("s", text("0.5"))]));
}
