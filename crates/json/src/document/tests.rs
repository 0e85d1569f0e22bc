//! Copy-on-write along a path, and depth.

use super::*;
use crate::limits::DEPTH_LIMIT;
use crate::ops;
use crate::path::Path;
use crate::text::{parse, to_text};

fn document(text: &str) -> Document {
    Document::new(parse(text.as_bytes(), None).unwrap()).unwrap()
}

#[test]
fn a_write_copies_only_its_path() {
    let mut written = document(r#"{"left":{"leaf":["a long text",1.1]},"right":{"leaf":[1,2]}}"#);
    let kept = written.clone();
    let path = Path::parse(b"$.right.leaf[0]").unwrap();
    ops::set(&mut written, &path, Value::bool(true), ops::Condition::Always).unwrap();
    assert_eq!(to_text(kept.root()), br#"{"left":{"leaf":["a long text",1.1]},"right":{"leaf":[1,2]}}"#);
    assert_eq!(
        to_text(written.root()),
        br#"{"left":{"leaf":["a long text",1.1]},"right":{"leaf":[true,2]}}"#
    );
    let child = |document: &Document, path: &str| {
        Path::parse(path.as_bytes()).unwrap().nodes(document.root()).unwrap()[0].to_value()
    };
    assert!(child(&written, "$.left").is_same(&child(&kept, "$.left")), "the other side is shared");
    assert!(!child(&written, "$.right").is_same(&child(&kept, "$.right")));
}

#[test]
fn a_copied_object_counts_its_own_buffer() {
    let members: Vec<String> = (0..40).map(|n| format!("\"member {n}\":{n}")).collect();
    let mut written = document(&format!("{{{}}}", members.join(",")));
    let set = |document: &mut Document, path: &str| {
        let path = Path::parse(path.as_bytes()).unwrap();
        ops::set(document, &path, Value::NULL, ops::Condition::Always).unwrap();
        assert_eq!(document.heap_bytes(), document.value().heap_bytes());
    };
    // Adding a member leaves slack, which a copy does not have.
    set(&mut written, "$.new");
    let kept = written.clone();
    set(&mut written, "$.new");
    assert_eq!(kept.heap_bytes(), kept.value().heap_bytes());
}

#[test]
fn no_write_nests_too_deeply() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = format!("${}", "[0]".repeat(DEPTH_LIMIT - 2));
    let mut deep = document(&nested(DEPTH_LIMIT - 1));
    let before = to_text(deep.root());
    let path = Path::parse(deepest.as_bytes()).unwrap();
    let inner = parse(b"[]", None).unwrap();
    assert_eq!(ops::arr_append(&mut deep, &path, std::slice::from_ref(&inner)), Err(Error::TooDeep));
    assert_eq!(ops::arr_insert(&mut deep, &path, 0, std::slice::from_ref(&inner)), Err(Error::TooDeep));
    let patch = parse(b"[[]]", None).unwrap();
    assert_eq!(ops::merge(&mut deep, &path, &patch), Err(Error::TooDeep));
    assert_eq!(ops::set(&mut deep, &path, patch, ops::Condition::Always), Err(Error::TooDeep));
    assert_eq!(to_text(deep.root()), before);
    assert_eq!(ops::arr_append(&mut deep, &path, &[Value::NULL]), Ok(ops::Answer::Paths(vec![Some(1)])));
}
