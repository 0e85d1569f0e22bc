//! Fields of results; the answers are RediSearch's.

use martlet_json::{document, text};
use martlet_keyspace::{Db, Key, Object};
use martlet_search::request::Limits;
use martlet_types::hash::{FieldExpiry, HashLimits};

use super::*;
use crate::testing::definition;

const JSON: &str = r#"{"t":"hello w","n":1.50,"a":["q","r"],"o":{"x":5},"s":"Up Per","z":null,"b":true}"#;
const WHOLE: &str = r#"{"t":"hello w","n":1.5,"a":["q","r"],"o":{"x":5},"s":"Up Per","z":null,"b":true}"#;

fn hash() -> Hash {
    let mut hash = Hash::new();
    let fields = [("t", "hello"), ("s", "Up Per"), ("n", "5.00"), ("m", "6.0"), ("other", "1")];
    for (name, value) in fields {
        let value = Element::parse(value.as_bytes());
        hash.set(name.as_bytes(), value, FieldExpiry::Keep, HashLimits::default(), 1);
    }
    hash
}

fn db(schema: &str) -> Db {
    let value = match schema.contains("JSON") {
        false => hash().into_value(),
        true => {
            Json(document::Document::new(text::parse(JSON.as_bytes(), None).unwrap()).unwrap()).into_value()
        }
    };
    let mut db = Db::default();
    db.set_value(&Key::new(b"k"), value, None, 0);
    db
}

fn hit() -> Hit {
    Hit {
        key: b"k".as_slice().into(),
        partition: 0,
        id: 0,
        sequence: 0,
        score: 0.0,
        explanation: None,
        distances: [None, Some(2.5)].into_iter().collect(),
        sortable: None,
        payload: None,
    }
}

/// The names and values of a result, those that are no text in brackets.
fn loaded(schema: &str, options: &str, distance_field: Option<&str>) -> String {
    let definition = definition(&format!("i {schema}"));
    let arguments: Vec<&[u8]> =
        "* ".split(' ').take(1).chain(options.split_whitespace()).map(str::as_bytes).collect();
    let request = Search::parse(&arguments, &Limits::default()).unwrap();
    let field = |name: &str| DistanceField { name: name.as_bytes().into(), place: 1 };
    let fields: Vec<DistanceField> = distance_field.map(field).into_iter().collect();
    let loader = Loader::new(&definition, &request, &fields);
    let db = db(schema);
    let fields = loader.load(&hit(), &db.get(&Key::new(b"k")).unwrap(), 1).unwrap();
    let texts = fields.into_iter().map(|Read { name, value, .. }| {
        let value = match value {
            Loaded::Text(text) => String::from_utf8(text).unwrap(),
            Loaded::Null => "(null)".into(),
            Loaded::Expanded(values) => {
                let texts: Vec<_> = values.iter().map(|value| to_text(Node::Value(value))).collect();
                format!("({})", String::from_utf8(texts.join(&b';')).unwrap())
            }
        };
        format!("{}={value}", String::from_utf8_lossy(&name))
    });
    texts.collect::<Vec<_>>().join(" | ")
}

#[test]
fn results_of_hashes() {
    const SCHEMA: &str = "SCHEMA t TEXT s TEXT SORTABLE n NUMERIC SORTABLE m NUMERIC";
    for (options, distance, wanted) in [
        ("", None, "t=hello | s=Up Per | n=5.00 | m=6.0 | other=1"),
        ("RETURN 3 s m n", None, "s=Up Per | m=6 | n=5"),
        ("RETURN 2 other nope", None, "other=1"),
        ("RETURN 4 s AS z t", None, "z=Up Per | t=hello"),
        ("RETURN 2 t t", None, "t=hello"),
        ("SORTBY s", None, "s=Up Per | t=hello | n=5.00 | m=6.0 | other=1"),
        ("SORTBY m", None, "m=6.0 | t=hello | s=Up Per | n=5.00 | other=1"),
        ("SORTBY n RETURN 2 t n", None, "n=5 | t=hello"),
        ("SORTBY s RETURN 1 t", None, "t=hello"),
        ("RETURN 1 t", Some("d"), "t=hello"),
        ("RETURN 2 t d", Some("d"), "d=2.5 | t=hello"),
        ("SORTBY d", Some("d"), "d=2.5 | t=hello | s=Up Per | n=5.00 | m=6.0 | other=1"),
        ("SORTBY n", Some("d"), "d=2.5 | n=5.00 | t=hello | s=Up Per | m=6.0 | other=1"),
    ] {
        assert_eq!(loaded(SCHEMA, options, distance), wanted, "{options}");
    }
}

#[test]
fn results_of_json() {
    const SCHEMA: &str = "ON JSON SCHEMA $.t AS t TEXT $.n AS n NUMERIC $.a[*] AS a TAG $.o.x AS x NUMERIC SORTABLE \
                          $.s AS s TEXT SORTABLE";
    let whole = |before: &str, open: &str, close: &str| format!("{before}$={open}{WHOLE}{close}");
    for (options, wanted) in [
        ("", whole("", "", "")),
        ("RETURN 3 t n x", "t=hello w | n=1.5 | x=5".into()),
        ("RETURN 1 a", "a=q".into()),
        ("RETURN 1 $.a[*]", "$.a[*]=q".into()),
        ("RETURN 1 $.a", r#"$.a=["q","r"]"#.into()),
        ("RETURN 2 $.b $.z", "$.b=1 | $.z=(null)".into()),
        ("RETURN 2 $..x nope", "$..x=5".into()),
        ("RETURN 1 nope[", String::new()),
        ("SORTBY s", whole("s=Up Per | ", "", "")),
        ("DIALECT 3 RETURN 4 t a n s", r#"t=["hello w"] | a=["q","r"] | n=[1.5] | s=Up Per"#.into()),
        ("DIALECT 3 RETURN 4 x $.z $.b $.a", r#"x=5 | $.z=[null] | $.b=[true] | $.a=[["q","r"]]"#.into()),
        ("DIALECT 3 SORTBY s", whole("s=Up Per | ", "[", "]")),
        ("FORMAT EXPAND RETURN 2 a $.z", r#"a=("q";"r") | $.z=(null)"#.into()),
    ] {
        assert_eq!(loaded(SCHEMA, options, None), wanted, "{options}");
    }
}

#[test]
fn a_key_that_holds_another_type_has_no_fields() {
    let definition = definition("i SCHEMA t TEXT");
    let request = Search::parse(&[b"*"], &Limits::default()).unwrap();
    let loader = Loader::new(&definition, &request, &[]);
    let db = db("JSON");
    assert_eq!(loader.load(&hit(), &db.get(&Key::new(b"k")).unwrap(), 1), None);
}

#[test]
fn values_that_order_results() {
    let read = |schema: &str, name: &str| {
        let definition = definition(&format!("i {schema}"));
        let field = definition.fields.iter().find(|field| *field.name == *name.as_bytes()).unwrap();
        SortReader::new(field).read(&db(schema).get(&Key::new(b"k")).unwrap(), 1)
    };
    let text = |text: &str| Sortable::Text(text.as_bytes().into());
    let hash = "SCHEMA t TEXT n NUMERIC m TAG none TEXT";
    assert_eq!(read(hash, "t"), text("hello"));
    assert_eq!(read(hash, "n"), Sortable::Number(5.0));
    assert_eq!(read(hash, "m"), text("6.0"));
    assert_eq!(read(hash, "none"), Sortable::Missing);
    let json = "ON JSON SCHEMA $.t AS t TEXT $.n AS n NUMERIC $.z AS z TAG $.b AS b TAG $.o AS o TAG";
    assert_eq!(read(json, "t"), text("hello w"));
    assert_eq!(read(json, "n"), Sortable::Number(1.5));
    assert_eq!(read(json, "b"), Sortable::Number(1.0));
    assert_eq!([read(json, "z"), read(json, "o")], [Sortable::Missing, Sortable::Missing]);
}
