//! A rewritten document is as one that was parsed, in every form, and shares nothing with a clone.

use super::*;
use crate::document::Document;
use crate::text::{parse, to_text};
use martlet_base::random::Random;

fn document(text: &str) -> Document {
    Document::new(parse(text.as_bytes(), None).unwrap()).unwrap()
}

/// That a document whose text was `old` is as one of `new` after its rewriting, and a clone as before;
/// whether it was rewritten.
fn check(old: &str, new: &str) -> bool {
    for keeps_clone in [false, true] {
        let mut rewritten = document(old);
        let clone = keeps_clone.then(|| rewritten.clone());
        let expected = parse(new.as_bytes(), None);
        let is_rewritten = rewritten.rewrite(new.as_bytes());
        let expected = match expected {
            Ok(value) if is_rewritten => value,
            _ => parse(old.as_bytes(), None).unwrap(),
        };
        let texts = (to_text(rewritten.root()), to_text(crate::value::Node::Value(&expected)));
        assert_eq!(texts.0, texts.1, "{old} {new}");
        assert_eq!(rewritten.heap_bytes(), rewritten.value().heap_bytes(), "{old} {new}");
        assert_eq!(rewritten.heap_bytes(), expected.heap_bytes(), "the same forms: {old} {new}");
        if let Some(clone) = clone {
            assert_eq!(to_text(clone.root()), to_text(document(old).root()), "{old} {new}");
        }
    }
    document(old).rewrite(new.as_bytes())
}

#[test]
fn blocks_of_the_same_shape_are_kept() {
    let mut document =
        document(r#"{"id":1,"name":"of ten by.","list":["a longer text",0.1],"o":{"x":1.25}}"#);
    let blocks = |document: &Document| {
        let mut blocks = Vec::new();
        let mut open = vec![document.value().clone()];
        while let Some(value) = open.pop() {
            blocks.extend(value.block());
            match value.view() {
                crate::value::View::Array(array) => {
                    open.extend(array.iter().map(crate::value::Node::to_value))
                }
                crate::value::View::Object(object) => {
                    open.extend(object.members().iter().map(|member| member.value().clone()));
                }
                _ => {}
            }
        }
        blocks
    };
    let before = blocks(&document);
    assert!(document.rewrite(br#"{"id":7,"name":"other text","list":["a longer word",0.2],"o":{"x":"s"}}"#));
    assert_eq!(before, blocks(&document));
    let expected = br#"{"id":7,"name":"other text","list":["a longer word",0.2],"o":{"x":"s"}}"#;
    assert_eq!(to_text(document.root()), expected);
}

#[test]
fn other_shapes_are_made_anew() {
    let texts = [
        r#"{"a":1,"b":[1,2,3],"c":"a text of some length"}"#,
        r#"{"a":1,"c":[1,2,3],"b":"a text of some length"}"#,
        r#"{"a":"\n","b":[1,2,3,4],"c":"another length"}"#,
        r#"{"a":{},"b":[],"c":null}"#,
        r#"{"a":1,"a":2,"b":3}"#,
        r#"{"a":1,"b":[1,2,3,4,5,6,7,8,9],"c":0.1}"#,
        r#"{"a":1,"b":[1,2,3,4,5,6,7,8,"9"],"c":18446744073709551615}"#,
        r#"[{"a":1},{"a":"\u00e9\u00e9\u00e9\u00e9\u00e9"},true]"#,
        r#"[{"a":1},{"a":"ééééé"},false]"#,
        r#""a string of its own""#,
        "12345678901234567890",
        "0.1",
        "{}",
    ];
    for old in texts {
        for new in texts {
            assert!(check(old, new), "{old} {new}");
        }
        for wrong in ["", "{", r#"{"a":1,"b":[1,2,3],"c":"a text"#, "[1,2] 3", "1e999", "nul", "\u{1}"] {
            assert!(!check(old, wrong), "{old} {wrong}");
        }
        assert!(!document(old).rewrite(&[b'"', 0xFF, b'"']));
        assert!(!check(old, &format!("\"{}\"", "x".repeat(TEXT_BYTES_MAX))));
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check(old, &nested(crate::limits::DEPTH_LIMIT - 1)));
        assert!(!check(old, &nested(crate::limits::DEPTH_LIMIT)));
    }
}

/// A text of a random value.
fn random_text(random: &mut Random, depth: usize, out: &mut String) {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => out.push_str(["null", "true", "false", "[]", "{}"][random.below(5) as usize]),
        1 => out.push_str(&random.below(100).to_string()),
        2 => out.push_str(&(random.unit_f64() * 10.0).to_string()),
        3 | 4 => {
            let text =
                ["short", "eight by", "nine byte", "another9", "esc\\\"aped"][random.below(5) as usize];
            out.push_str(&format!("\"{text}\""));
        }
        5 => {
            out.push('[');
            for at in 0..1 + random.below(10) {
                out.push_str(if at > 0 { "," } else { "" });
                random_text(random, depth - 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for at in 0..1 + random.below(4) {
                out.push_str(if at > 0 { "," } else { "" });
                let name = ["a", "b", "a longer name", "c", "\\u0061"][random.below(5) as usize];
                out.push_str(&format!("\"{name}\":"));
                random_text(random, depth - 1, out);
            }
            out.push('}');
        }
    }
}

#[test]
fn random_documents_are_as_if_parsed() {
    let seed = 0x7265_7772;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    for _ in 0..3000 {
        let (mut old, mut new) = (String::new(), String::new());
        random_text(&mut random, 4, &mut old);
        random_text(&mut random, 4, &mut new);
        assert!(check(&old, &new));
    }
}
