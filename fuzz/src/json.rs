//! JSON's parsers and decoder on any bytes: no panic, and what is accepted goes round.

use martlet_json::document::Document;
use martlet_json::limits::DEPTH_LIMIT;
use martlet_json::ops::{self, Condition};
use martlet_json::path::Path;
use martlet_json::serialised::{VERSION_CBOR, VERSION_TEXT, decode, encode_cbor, encode_text};
use martlet_json::text::parse;
use martlet_json::value::{FloatKind, Value};

/// The input is JSON text; also under FPHA.
pub fn check_text(data: &[u8]) {
    if let Ok(document) = decode(VERSION_TEXT, data) {
        check_document(&document);
    }
    for kind in [FloatKind::Bf16, FloatKind::Fp16, FloatKind::Fp32, FloatKind::Fp64] {
        if let Ok(value) = parse(data, Some(kind)) {
            check_document(&Document::new(value).expect("the parser limits depth"));
        }
    }
}

/// The input is a value in CBOR.
pub fn check_cbor(data: &[u8]) {
    if let Ok(document) = decode(VERSION_CBOR, data) {
        check_document(&document);
    }
}

/// A document is read back as the same value from its text, and as the same text from its CBOR.
fn check_document(document: &Document) {
    assert!(document.value().depth() < DEPTH_LIMIT);
    assert_eq!(document.heap_bytes(), document.value().heap_bytes());
    let text = encode_text(document);
    // Not the same text: an array of `f32` writes 0.00000185, where a double is 1.85e-6.
    let back = decode(VERSION_TEXT, &text).expect("what was written is read");
    assert_eq!(back.value(), document.value());
    let back = decode(VERSION_CBOR, &encode_cbor(document)).expect("what was encoded is decoded");
    assert_eq!(encode_text(&back), text);
}

/// The input is a path; what it leads to in a document is where it says, and writes to it keep the document
/// whole.
pub fn check_path(data: &[u8]) {
    let Ok(path) = Path::parse(data) else { return };
    let text =
        br#"{"a":[1,2.5,"x",null,{"a":{"b":[1,2,3,4,5,6,7,8]}}],"b":{"c":true,"a":"text"},"n":[[],{}]}"#;
    let start = Document::new(parse(text, None).expect("JSON")).expect("a document");
    let _ = ops::get(&start, &path, Default::default());
    if let Ok(places) = path.places(start.root()) {
        for (node, place) in places {
            assert!(start.get(&place).is_some_and(|found| found.equals(node)));
        }
    }
    let writes: [fn(&mut Document, &Path); 6] = [
        |document, path| drop(ops::set(document, path, Value::bool(true), Condition::Always)),
        |document, path| {
            drop(ops::merge(document, path, &parse(b"{\"z\":1,\"a\":null}", None).expect("JSON")))
        },
        |document, path| drop(ops::delete(document, path)),
        |document, path| drop(ops::clear(document, path)),
        |document, path| drop(ops::arr_pop(document, path, 0)),
        |document, path| drop(ops::arr_append(document, path, &[Value::NULL])),
    ];
    for write in writes {
        let mut document = start.clone();
        write(&mut document, &path);
        check_document(&document);
    }
    assert_eq!(encode_text(&start), text);
}

/// Texts of each kind of value, and errors near to them.
pub fn text_seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 8] = [
        br#"{"a":[1,-2,3.5e-7,18446744073709551615],"b":{"c":null,"d":[true,false,"x\u00e9\ud83d\ude00"]}}"#,
        b"[0.3,0.1,-2.5,100,65504]",
        b"[1,2,3,4,5,6,7,8,9,300,70000,5000000000]",
        br#"{"a":1,"a":2,"b":3}"#,
        b" [ ] ",
        b"\"\\ud800\"",
        b"1e400",
        b"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
    ];
    texts.map(<[u8]>::to_vec).to_vec()
}

/// The texts' values in CBOR, and forms that our encoder does not write.
pub fn cbor_seeds() -> Vec<Vec<u8>> {
    let encoded = text_seeds().into_iter().filter_map(|text| decode(VERSION_TEXT, &text).ok());
    let mut seeds: Vec<Vec<u8>> = encoded.map(|document| encode_cbor(&document)).collect();
    seeds.push(vec![0xbf, 0x61, 0x61, 0x9f, 0x7f, 0x61, 0x62, 0xff, 0xff, 0xff]);
    seeds.push(vec![0xda, 0, 1, 0, 0, 0x44, 0x80, 0x3f, 0, 0x40]);
    seeds.push(vec![0xd8, 86, 0x48, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    seeds
}

/// Paths of both dialects, filters and expressions.
pub fn path_seeds() -> Vec<Vec<u8>> {
    let paths = [
        ".a[0]",
        "b.c",
        "$..a[?(@.b[0] == 1 && (@.c != \"x\" || !@.d))]",
        "$.a[-1,0]['a',\"b\"][1:-1:2]",
        "$..*[*]",
        "$.b[?(@ =~ \"^t.*(x|y)$\")]",
        "$.a[?(@ in [1,2.5,{\"a\":null}] || @.a empty false)]",
        "($.a[0] + 2) * -$.a.length() / sum($.a[4].a.b) % 7",
        "concat($.b.a, \"x\").length()",
        "$.b~",
    ];
    paths.map(|path| path.as_bytes().to_vec()).to_vec()
}
