//! Bytes as RedisJSON's encoder makes them, and damaged ones.

use super::*;
use crate::text::{parse, to_text};
use crate::value::FloatKind;

fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode(Node::Value(&parse(text.as_bytes(), None).unwrap()), &mut out);
    out
}

#[track_caller]
fn goes_round(value: &Value) {
    let mut out = Vec::new();
    encode(Node::Value(value), &mut out);
    let back = decode(&out).unwrap();
    assert_eq!(&back, value);
    assert_eq!(to_text(Node::Value(&back)), to_text(Node::Value(value)));
}

#[test]
fn scalars_take_their_shortest_form() {
    // Examples of RFC 8949, appendix A.
    let cases: [(&str, &[u8]); 14] = [
        ("0", &[0x00]),
        ("23", &[0x17]),
        ("24", &[0x18, 0x18]),
        ("1000", &[0x19, 0x03, 0xe8]),
        ("1000000", &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
        ("18446744073709551615", &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("-1", &[0x20]),
        ("-1000", &[0x39, 0x03, 0xe7]),
        ("1.5", &[0xf9, 0x3e, 0x00]),
        ("100000.0", &[0xfa, 0x47, 0xc3, 0x50, 0x00]),
        ("1.1", &[0xfb, 0x3f, 0xf1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a]),
        ("null", &[0xf6]),
        ("true", &[0xf5]),
        ("\"IETF\"", &[0x64, 0x49, 0x45, 0x54, 0x46]),
    ];
    for (text, expected) in cases {
        assert_eq!(bytes(text), expected, "{text}");
    }
    assert_eq!(bytes(r#"{"a":1,"b":[2,3]}"#), [0xa2, 0x61, 0x61, 0x01, 0x61, 0x62, 0x82, 0x02, 0x03]);
}

#[test]
fn values_go_round() {
    for text in [
        "[]",
        "{}",
        "-9223372036854775808",
        "-0.0",
        "1e300",
        r#"{"a":{"b":[null,true,false,"é",1.5,18446744073709551615]}}"#,
        "[1,2,3,4,5,6,7,8,9]",
        "[1,2,3,4,5,6,7,8,900]",
        "[1,2,3,4,5,6,7,8,90000]",
        "[1,2,3,4,5,6,7,8,9000000000]",
        "[0.5,1.5,2.5,3.5,4.5,5.5,6.5,7.25]",
    ] {
        goes_round(&parse(text.as_bytes(), None).unwrap());
    }
    for kind in [FloatKind::Bf16, FloatKind::Fp16, FloatKind::Fp32, FloatKind::Fp64] {
        goes_round(&parse(b"[0.3,0.1,-2.5,100]", Some(kind)).unwrap());
    }
}

#[test]
fn typed_arrays_are_tagged_byte_strings() {
    let mut out = Vec::new();
    encode(Node::Value(&parse(b"[1.5,2.5]", Some(FloatKind::Fp32)).unwrap()), &mut out);
    assert_eq!(out, [0xd8, 85, 0x48, 0, 0, 0xc0, 0x3f, 0, 0, 0x20, 0x40]);
    out.clear();
    encode(Node::Value(&parse(b"[1.0]", Some(FloatKind::Bf16)).unwrap()), &mut out);
    assert_eq!(out, [0xda, 0, 1, 0, 0, 0x42, 0x80, 0x3f]);
}

#[test]
fn other_forms_are_read() {
    // Indefinite lengths, long forms, unsigned arrays, undefined, infinity.
    let cases: [(&[u8], &str); 6] = [
        (&[0x9f, 0x01, 0x18, 0x01, 0xff], "[1,1]"),
        (&[0xbf, 0x61, 0x61, 0x7f, 0x61, 0x62, 0x61, 0x63, 0xff, 0xff], r#"{"a":"bc"}"#),
        (&[0xd8, 64, 0x43, 1, 200, 255], "[1,200,255]"),
        (&[0xd8, 69, 0x42, 0xff, 0xff], "[65535]"),
        (&[0xf7], "null"),
        (&[0xf9, 0x7c, 0x00], "null"),
    ];
    for (bytes, text) in cases {
        assert_eq!(to_text(Node::Value(&decode(bytes).unwrap())), text.as_bytes());
    }
}

#[test]
fn damaged_bytes_are_refused() {
    let cases: [&[u8]; 12] = [
        &[],
        &[0x00, 0x00],
        &[0x18],
        &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x41, 0x00],
        &[0xa1, 0x01, 0x01],
        &[0x61, 0xff],
        &[0xd8, 78, 0x43, 0, 0, 0],
        &[0xd8, 86, 0x48, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f],
        &[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x1c],
    ];
    for bytes in cases {
        assert!(matches!(decode(bytes), Err(Error::Damaged(_))), "{bytes:x?}");
    }
    let nested = [vec![0x81; DEPTH_LIMIT - 1], vec![0x80]].concat();
    assert_eq!(decode(&nested), Err(Error::TooDeep));
    let nested = [vec![0x81; DEPTH_LIMIT - 2], vec![0x80]].concat();
    assert_eq!(decode(&nested).unwrap().depth(), DEPTH_LIMIT - 1);
}
