//! Words, containers in all their forms, equality, sizes.

use super::*;
use crate::document::Document;
use crate::text::{parse, to_text};

fn value(text: &str) -> Value {
    parse(text.as_bytes(), None).unwrap()
}

fn text(value: &Value) -> String {
    String::from_utf8(to_text(Node::Value(value))).unwrap()
}

#[test]
fn a_value_is_one_word() {
    assert_eq!(size_of::<Value>(), 8);
    assert_eq!(size_of::<Option<Value>>(), 8);
    for (text, blocks) in [
        ("null", 0),
        ("true", 0),
        ("[]", 0),
        ("{}", 0),
        ("\"\"", 0),
        ("\"seven b\"", 0),
        ("\"eight by\"", 24),
        ("1152921504606846975", 0),
        ("-1152921504606846976", 0),
        ("1152921504606846976", 24),
        ("9223372036854775808", 24),
        ("1.5", 0),
        ("-0.0", 0),
        ("[1]", 24),
        ("{\"a\":1}", 32),
    ] {
        let value = value(text);
        assert_eq!(value.heap_bytes(), blocks, "{text}");
        assert_eq!(self::text(&value), text);
    }
}

#[test]
fn doubles_keep_every_bit() {
    let mut bits = 1u64;
    for _ in 0..10_000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for bits in [bits, bits & !7] {
            let Some(number) = Number::from_f64(f64::from_bits(bits)) else { continue };
            let back = Value::number(number).as_number().unwrap();
            assert_eq!(back.as_f64().to_bits(), bits);
            assert_eq!(value(&number.to_string()).as_number().unwrap().as_f64().to_bits(), bits);
        }
    }
}

#[test]
fn numbers_are_written_as_redisjson_writes_them() {
    for (given, written) in [
        ("-0", "-0.0"),
        ("1E400", ""),
        ("100000000000000000000", "1e20"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e16"),
        ("0.00001", "0.00001"),
        ("0.000001", "1e-6"),
        ("123456789.125", "123456789.125"),
        ("5e-324", "5e-324"),
        ("18446744073709551616", "1.8446744073709552e19"),
    ] {
        match parse(given.as_bytes(), None) {
            Ok(value) => assert_eq!(text(&value), written, "{given}"),
            Err(_) => assert_eq!(written, "", "{given}"),
        }
    }
}

#[test]
fn kinds_have_redis_names() {
    let names: Vec<&str> = ["null", "false", "1", "18446744073709551615", "1.0", "\"\"", "[]", "{}"]
        .map(|text| value(text).kind().name())
        .to_vec();
    assert_eq!(names, ["null", "boolean", "integer", "integer", "number", "string", "array", "object"]);
}

#[test]
fn equality_tells_integers_from_doubles_and_ignores_order() {
    assert_eq!(value(r#"{"a":1,"b":[1,2]}"#), value(r#"{"b":[1,2],"a":1}"#));
    assert_ne!(value("[1]"), value("[1.0]"));
    assert_ne!(value(r#"{"a":1}"#), value(r#"{"a":1,"b":2}"#));
    // A typed array equals one with the same elements.
    let mut mixed = value("[1,2,3,4,5,6,7,8]");
    let typed = mixed.clone();
    mixed.insert_elements(8, vec![Value::NULL]);
    mixed.remove_element(8);
    assert!(matches!(
        (typed.view(), mixed.view()),
        (View::Array(Array::Typed(_)), View::Array(Array::Values(_)))
    ));
    assert_eq!(typed, mixed);
}

#[test]
fn large_objects_keep_order_and_find_members() {
    let members: Vec<String> = (0..1000).map(|n| format!("\"member {n}\":{n}")).collect();
    let mut object = value(&format!("{{{}}}", members.join(",")));
    let View::Object(view) = object.view() else { panic!("an object") };
    assert!(
        (0..1000)
            .all(|n| view.get(&format!("member {n}")).and_then(Value::as_number) == Some(Number::Int(n)))
    );
    assert!(view.get("member 1000").is_none());
    let clone = object.clone();
    // The last member takes the place of the one that goes, also across the change of forms.
    let mut model: Vec<u64> = (0..1000).collect();
    let mut at = 7;
    while model.len() > 1 {
        at = (at * 31 + 11) % model.len();
        let removed = object.remove_member(&format!("member {}", model[at])).unwrap();
        assert_eq!(removed.name(), format!("member {}", model.swap_remove(at)));
        let View::Object(view) = object.view() else { panic!("an object") };
        let order =
            view.members().iter().map(|member| member.name().trim_start_matches("member ").parse().unwrap());
        assert_eq!(order.collect::<Vec<u64>>(), model);
    }
    assert_eq!(text(&clone).matches("member").count(), 1000);
}

#[test]
fn of_two_members_of_one_name_the_last_stays_at_the_first_place() {
    assert_eq!(text(&value(r#"{"a":1,"b":2,"a":3}"#)), r#"{"a":3,"b":2}"#);
    let members: Vec<String> = (0..100).map(|n| format!("\"{}\":{n}", n % 50)).collect();
    let object = value(&format!("{{{}}}", members.join(",")));
    let View::Object(view) = object.view() else { panic!("an object") };
    assert_eq!(view.len(), 50);
    assert_eq!(view.members()[3].value().as_number(), Some(Number::Int(53)));
}

#[test]
fn fpha_rounds_and_reads_back_short() {
    for kind in [FloatKind::Bf16, FloatKind::Fp16, FloatKind::Fp32, FloatKind::Fp64] {
        let array = parse(b"[0.3,-0.1,0.7,1,2.5,-100.0]", Some(kind)).unwrap();
        assert_eq!(text(&array), "[0.3,-0.1,0.7,1.0,2.5,-100.0]", "{kind:?}");
        let View::Array(view) = array.view() else { panic!("an array") };
        assert!(matches!(view, Array::Typed(_)));
        assert_eq!(text(&view.get(0).unwrap().to_value()), "0.3");
        // Arrays of other things are as without FPHA, their inner arrays apart.
        let nested = parse(b"[[1.5],\"x\",{\"e\":[2.5]}]", Some(kind)).unwrap();
        assert_eq!(text(&nested), "[[1.5],\"x\",{\"e\":[2.5]}]");
    }
    for (out_of_range, kind) in
        [("1e5", FloatKind::Fp16), ("1e39", FloatKind::Bf16), ("1e39", FloatKind::Fp32)]
    {
        let text = format!("[0.5,{out_of_range}]");
        assert_eq!(parse(text.as_bytes(), Some(kind)), Err(crate::error::Error::OutOfRange));
    }
    assert_eq!(FloatKind::parse(b"fp32"), Some(FloatKind::Fp32));
    assert_eq!(FloatKind::parse(b"FP8"), None);
}

#[test]
fn narrow_arrays_are_small() {
    let numbers = |start: i64| (start..start + 1000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let bytes = |start: i64| value(&format!("[{}]", numbers(start))).heap_bytes();
    assert!(bytes(0) < 2200, "{}", bytes(0));
    assert!(bytes(100_000) < 4300, "{}", bytes(100_000));
    let embedding = format!("[{}]", vec!["0.123"; 1000].join(","));
    assert!(parse(embedding.as_bytes(), Some(FloatKind::Fp16)).unwrap().heap_bytes() < 2200);
}

#[test]
fn the_sample_document_takes_less_than_300_bytes() {
    // 110 bytes of text; Redis Stack takes 664 with its key. An entry of a key takes up to 48 more.
    let sample = r#"{"id":1042,"name":"Alice Example","email":"alice@example.org","tags":["red","blue"],"score":9.5,"active":true}"#;
    assert_eq!(sample.len(), 110);
    let document = Document::new(value(sample)).unwrap();
    assert!(document.heap_bytes() + 48 <= 300, "{}", document.heap_bytes());
}

#[test]
fn debris_is_freed_in_slices() {
    let part = format!("[{}]", vec!["{\"a\":[\"a long text\",1.1]}"; 100].join(","));
    let document = Document::new(value(&format!("[{}]", vec![part; 50].join(",")))).unwrap();
    let kept = document.clone();
    let mut debris = document.into_debris();
    assert!(debris.free_slice(1000), "a shared root is one reference");
    let mut debris = kept.into_debris();
    let mut slices = 0;
    while !debris.free_slice(100) {
        slices += 1;
    }
    assert!(slices > 100, "{slices}");
}
