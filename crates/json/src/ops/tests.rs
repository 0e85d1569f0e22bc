//! Cases beside the recorded table and the model: orders, atomicity, FPHA's arrays, Redis 8's answers.

use super::*;
use crate::text::{Layout, parse};
use crate::value::{FloatKind, Number, Value};

fn document(text: &str) -> Document {
    Document::new(parse(text.as_bytes(), None).unwrap()).unwrap()
}

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

fn text(document: &Document) -> String {
    String::from_utf8(get(document, &Path::root(), Layout::default()).unwrap()).unwrap()
}

#[test]
fn a_failure_in_the_middle_changes_nothing() {
    let start = r#"{"a":[1,2,3],"b":[1],"n":1,"m":9223372036854775807}"#;
    let mut document = document(start);
    assert_eq!(arr_insert(&mut document, &path("$.*"), 2, &[Value::NULL]), Err(Error::IndexOutOfBounds));
    let operation = NumberOperation::Increment;
    assert_eq!(number_operation(&mut document, &path("$.*"), operation, b"1"), Err(Error::NumericOverflow));
    assert_eq!(text(&document), start);
    assert_eq!(document.heap_bytes(), document.value().heap_bytes());
}

#[test]
fn places_within_places_are_set_and_merged_once() {
    let mut document = document(r#"{"a":{"a":{"a":1}}}"#);
    let outcome = set(&mut document, &path("$..a"), Value::NULL, Condition::Always).unwrap();
    assert_eq!(
        (outcome, text(&document).as_str()),
        (Outcome { changed: true, complete: true }, r#"{"a":null}"#)
    );
    let mut document = self::document(r#"{"a":{"a":{"a":1}}}"#);
    assert!(merge(&mut document, &path("$..a"), &parse(b"{\"b\":1}", None).unwrap()).unwrap());
    assert_eq!(text(&document), r#"{"a":{"a":{"a":{"b":1},"b":1},"b":1}}"#);
}

#[test]
fn a_place_that_occurs_twice_is_deleted_once() {
    let mut document = document("[0,1,2,3]");
    assert_eq!(delete(&mut document, &path("$[0,0,-4]")), Ok(Deleted::Values(1)));
    assert_eq!(text(&document), "[1,2,3]");
    assert_eq!(delete(&mut document, &path("$")), Ok(Deleted::Document));
}

#[test]
fn pops_and_trims_go_from_the_inside() {
    let mut document = document(r#"{"a":[[1,2,3],[4,5,6]]}"#);
    let Answer::Paths(popped) = arr_pop(&mut document, &path("$..*"), -1).unwrap() else { panic!("paths") };
    assert_eq!(text(&document), r#"{"a":[[1,2]]}"#);
    assert_eq!(popped.iter().flatten().count(), 3);
    assert_eq!(arr_trim(&mut document, &path("$..*"), 0, 0).map(|answer| answer.has_result()), Ok(true));
    assert_eq!(text(&document), r#"{"a":[[1]]}"#);
}

#[test]
fn elements_of_fpha_arrays_stay_in_their_type_while_they_fit() {
    let value = parse(b"[0.5,1,2]", Some(FloatKind::Fp16)).unwrap();
    let mut document = Document::new(value).unwrap();
    let bytes = document.heap_bytes();
    let operation = NumberOperation::Increment;
    let result = number_operation(&mut document, &path("$[0]"), operation, b"0.1");
    // 0.6 is 0.60009765625 in 16 bits, and reads as the shortest decimal of it.
    assert_eq!(result, Ok(Answer::Paths(vec![Number::from_f64(0.6)])));
    assert_eq!((text(&document).as_str(), document.heap_bytes()), ("[0.6,1.0,2.0]", bytes));
    let result = number_operation(&mut document, &path("$[1]"), NumberOperation::Multiply, b"1e5");
    assert_eq!(result, Ok(Answer::Paths(vec![Number::from_f64(100_000.0)])));
    assert_eq!(text(&document), "[0.6,100000.0,2.0]");
    assert_eq!(document.heap_bytes(), document.value().heap_bytes());
    set(&mut document, &path("$[2]"), parse(b"{\"a\":1}", None).unwrap(), Condition::Always).unwrap();
    assert_eq!(text(&document), "[0.6,100000.0,{\"a\":1}]");
    assert_eq!(document.heap_bytes(), document.value().heap_bytes());
}

#[test]
fn powers() {
    let mut document = document(r#"{"a":3,"b":0.5,"c":-8}"#);
    let mut power = |at: &str, operand: &[u8]| {
        number_operation(&mut document, &path(at), NumberOperation::Power, operand)
    };
    assert_eq!(power("$.a", b"4"), Ok(Answer::Paths(vec![Some(Number::Int(81))])));
    assert_eq!(power(".b", b"2"), Ok(Answer::Legacy(Number::Float(0.25))));
    assert_eq!(power("$.a", b"99"), Err(Error::NumericOverflow));
    assert_eq!(power("$.c", b"0.5"), Err(Error::ResultNotANumber));
}

#[test]
fn get_with_several_paths_answers_an_object() {
    let document = document(r#"{"a":1,"b":{"a":2}}"#);
    let get = |paths: &[&str]| {
        let paths: Vec<Path> = paths.iter().map(|text| path(text)).collect();
        let text = match &paths[..] {
            [path] => get(&document, path, Layout::default()),
            paths => get_several(&document, paths, paths.iter().all(Path::is_legacy), Layout::default()),
        };
        text.map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(get(&[".a", ".b"]).unwrap(), r#"{".a":1,".b":{"a":2}}"#);
    assert_eq!(get(&["$..a", ".b", "$..a"]).unwrap(), r#"{"$..a":[1,2],".b":[{"a":2}]}"#);
    assert_eq!(get(&[".a", ".nope"]), Err(Error::NoPath(".nope".to_owned())));
    assert_eq!(get(&["$.a + 1", ".b"]).unwrap(), r#"{"$.a + 1":[2],".b":[{"a":2}]}"#);
}

#[test]
fn only_reads_take_expressions() {
    let mut document = document("{\"a\":1}");
    let expression = path("$.a + 1");
    assert_eq!(set(&mut document, &expression, Value::NULL, Condition::Missing), Err(Error::Expression));
    assert_eq!(merge(&mut document, &expression, &Value::NULL), Err(Error::Expression));
    assert_eq!(delete(&mut document, &expression), Err(Error::Expression));
    assert_eq!(clear(&mut document, &expression), Err(Error::Expression));
    assert_eq!(toggle(&mut document, &expression), Err(Error::Expression));
    assert_eq!(kind(&document, &expression), Err(Error::Expression));
    assert!(resp(&document, &expression).is_ok());
}

#[test]
fn memory_counts_the_word_and_what_is_below() {
    let document = document(r#"{"a":"short","b":"longer than a word"}"#);
    let Ok(Answer::Paths(bytes)) = memory_bytes(&document, &path("$.*")) else { panic!("paths") };
    // A string of 18 bytes has a count of references and a length of 8 bytes each before it.
    assert_eq!(bytes, [Some(8), Some(8 + 40)]);
    assert_eq!(memory_bytes(&document, &path(".")), Ok(Answer::Legacy(8 + 48 + 40)));
    assert_eq!(memory_bytes(&document, &path(".x")), Err(Error::NoPath("$.x".to_owned())));
}
