//! Both dialects beside answers of ReJSON and of RedisJSON's documentation; limits.

use super::*;
use crate::limits::{FILTER_NESTING_MAX, PATH_BYTES_MAX, PATH_NESTING_MAX};
use crate::text::{parse, to_text};

const STORE: &str = r#"{"store":{"book":[
    {"category":"reference","title":"Sayings","price":8.95,"isbn":"0-1","tags":["a","b"]},
    {"category":"fiction","title":"Sword","price":12,"tags":[]},
    {"category":"fiction","title":"Moby","price":8.99,"isbn":"0-3"}],
    "bicycle":{"color":"red","price":19.95}},"limit":10,"names":["Sword","Moby"],"n":[1,2,3,4.5]}"#;

#[track_caller]
fn read(path: &str) -> String {
    let root = parse(STORE.as_bytes(), None).unwrap();
    let path = Path::parse(path.as_bytes()).unwrap();
    let values = match path.read(Node::Value(&root)).unwrap() {
        Found::Nodes(nodes) => nodes.into_iter().map(Node::to_value).collect(),
        Found::Computed(values) => values,
    };
    let texts = values.iter().map(|value| String::from_utf8(to_text(Node::Value(value))).unwrap());
    texts.collect::<Vec<_>>().join(" ")
}

#[test]
fn steps() {
    for (path, expected) in [
        ("$.limit", "10"),
        ("limit", "10"),
        (".limit", "10"),
        ("$.store.book[0].title", "\"Sayings\""),
        ("$.store.book[-1].title", "\"Moby\""),
        ("$.store.book[0,2].price", "8.95 8.99"),
        ("$.store.book[1:].price", "12 8.99"),
        ("$.store.book[::2].price", "8.95 8.99"),
        ("$..price", "8.95 12 8.99 19.95"),
        ("$.store.*.color", "\"red\""),
        ("$[\"limit\",'names']", "10 [\"Sword\",\"Moby\"]"),
        ("$.store..[\"isbn\"]", "\"0-1\" \"0-3\""),
        ("$..book.[0].category", "\"reference\""),
        ("$.n[*]", "1 2 3 4.5"),
        ("$.nope", ""),
        ("$.n[7]", ""),
        ("$.n[99999999999999999999]", ""),
        ("$.n[0:99999999999999999999:99999999999999999999]", "1"),
    ] {
        assert_eq!(read(path), expected, "{path}");
    }
}

#[test]
fn filters() {
    for (path, titles) in [
        ("@.isbn", "Sayings Moby"),
        ("!@.isbn", "Sword"),
        ("@.price < 10", "Sayings Moby"),
        ("@.price >= 12 || @.title == \"Moby\"", "Sword Moby"),
        ("@.price < 10 && !(@.title == 'Moby')", "Sayings"),
        ("@.price < $.limit", "Sayings Moby"),
        ("@.title in $.names", "Sword Moby"),
        ("@.title nin [\"Sword\"]", "Sayings Moby"),
        ("@.title =~ \"^S\"", "Sayings Sword"),
        ("@.title =~ \"(?i)MOBY\"", "Moby"),
        ("@.title =~ \"(\"", ""),
        ("@.title =~ @.title", "Sayings Sword Moby"),
        ("match(@.title, \"S.*\")", "Sayings Sword"),
        ("search(@.title, \"o\")", "Sword Moby"),
        ("@.tags empty true", "Sword"),
        ("@.tags size 2", "Sayings"),
        ("@.tags subsetof [\"a\",\"b\",\"c\"]", "Sayings Sword"),
        ("@.tags anyof [\"a\"]", "Sayings"),
        ("@.tags noneof [\"a\"]", "Sword Moby"),
        ("@.price * 2 > 20", "Sword"),
        ("(@.price + 1) * 2 == 26", "Sword"),
        ("length(@.title) == 4", "Moby"),
        ("@.title.length() > 5", "Sayings"),
        ("@[?(@ == \"fiction\")]", "Sword Moby"),
        ("@.price == 12.0", "Sword"),
        ("@.nope != 1", "Sayings Sword Moby"),
        ("@.nope == null", ""),
        ("count(@.tags[*]) == 2", "Sayings"),
    ] {
        let titles = titles.split(' ').filter(|title| !title.is_empty()).map(|title| format!("\"{title}\""));
        let expected = titles.collect::<Vec<_>>().join(" ");
        assert_eq!(read(&format!("$.store.book[?({path})].title")), expected, "{path}");
    }
    assert_eq!(read("$.store.book[?@.price>10].title"), "\"Sword\"");
    assert_eq!(read("$.limit[?(@)]"), "", "a scalar has nothing to select");
}

#[test]
fn expressions() {
    for (path, expected) in [
        ("$.limit + 1", "11"),
        ("-$.limit", "-10"),
        ("($.limit - 1) / 2", "4.5"),
        ("$.limit % 4", "2"),
        ("$.limit / 0", ""),
        ("$.names.length()", "2"),
        ("length($.names)", "2"),
        ("sum($.n)", "10.5"),
        ("$.n.avg()", "2.625"),
        ("min($.n[*])", "1.0"),
        ("$.n.max()", "4.5"),
        ("stddev($.names)", ""),
        ("$.n.first()", "1"),
        ("$.n.last()", "4.5"),
        ("$.n.index(-2)", "3"),
        ("$.n.index(9)", ""),
        ("ceiling($.store.bicycle.price)", "20"),
        ("floor($.store.bicycle.price)", "19"),
        ("abs(-3)", "3"),
        ("concat($.names[0], \"-\", $.names[1])", "\"Sword-Moby\""),
        ("$.store.bicycle.keys()", "\"color\" \"price\""),
        ("$.store~", "\"book\" \"bicycle\""),
        ("$.names.append(\"x\")", "\"Sword\" \"Moby\" \"x\""),
        ("nothing($.limit)", ""),
        ("($..price)", "8.95 12 8.99 19.95"),
    ] {
        assert_eq!(read(path), expected, "{path}");
    }
    let path = Path::parse(b"$.limit + 1").unwrap();
    assert!(path.is_expression());
    assert!(matches!(path.places(Node::Value(&Value::NULL)), Err(Error::Expression)));
}

#[test]
fn dialects() {
    for (path, is_legacy) in [
        ("$", false),
        ("$.a", false),
        ("$[0]", false),
        ("$a", true),
        (".", true),
        ("", true),
        ("a(", false),
        ("-a", true),
        ("- $.a", false),
        ("-$x", true),
        ("(", false),
    ] {
        assert_eq!(!parse::is_jsonpath(path), is_legacy, "{path}");
    }
    assert!(Path::parse(b".").unwrap().is_root());
    assert!(Path::parse(b"$").unwrap().is_root());
    assert_eq!(Path::parse(b"a.b").unwrap().text(), "$.a.b");
}

#[test]
fn errors_say_where() {
    for (path, expected) in [
        ("$.a[", "Error occurred on position 4, \"$.a[ <<<<----\", expected one of the following: "),
        (
            "$.a b",
            "Error occurred on position 4, \"$.a  ---->>>> b\", expected one of the following: EOI, '..'.",
        ),
        ("", "Error occurred on position 2, \"$. <<<<----\", expected one of the following: <string>, '*'."),
        ("$.a[\"x]", "Error occurred on position 4, "),
        ("$.a[01]", "Error occurred on position 4, "),
        ("$.é", "Error occurred on position 2, \"$. ---->>>> é\""),
        ("$[?(@.a==1)+1]", "Error occurred on position "),
        ("$[?(@.a == (@.b && 1))]", "Error occurred on position "),
        ("@", "ERR"),
    ] {
        let text =
            Path::parse(path.as_bytes()).map(|path| format!("{path:?}")).unwrap_or_else(|e| e.to_string());
        if path == "@" {
            assert!(text.starts_with("Error occurred on position 2, "), "{text}");
        } else {
            assert!(text.starts_with(expected), "{path}: {text}");
        }
    }
    assert_eq!(Path::parse(b"$.\xff").unwrap_err(), Error::NotUtf8);
}

#[test]
fn limits_of_paths() {
    let refused = |path: String| matches!(Path::parse(path.as_bytes()), Err(Error::PathLimit(_)));
    assert!(refused("a".repeat(PATH_BYTES_MAX + 1)));
    assert!(refused(format!("$[?{}@{}]", "(".repeat(PATH_NESTING_MAX), ")".repeat(PATH_NESTING_MAX))));
    assert!(refused(format!("$[?({}@.a)]", "!".repeat(PATH_NESTING_MAX + 1))));
    assert!(refused(format!("$[?(1{})]", "+1".repeat(PATH_NESTING_MAX + 1))));
    assert!(refused(format!("$.a{}", ".abs()".repeat(PATH_NESTING_MAX + 1))));
    assert!(refused(format!(
        "{}@{}",
        "$[?(".repeat(FILTER_NESTING_MAX + 1),
        ")]".repeat(FILTER_NESTING_MAX + 1)
    )));
    assert!(refused(format!("$[?(@ in {}1{})]", "[".repeat(PATH_NESTING_MAX), "]".repeat(PATH_NESTING_MAX))));
    // Parentheses are parsed once each, not once per way to read them.
    let nested = format!("$[?{}@.a == 1{}]", "(".repeat(60), ")".repeat(60));
    assert!(Path::parse(nested.as_bytes()).is_ok());
}

#[test]
fn evaluation_ends_at_its_limit() {
    let wide = format!("[{}]", vec!["[1,2,3,4,5,6,7,\"x\"]"; 2000].join(","));
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let (wide, deep) = (parse(wide.as_bytes(), None).unwrap(), parse(deep.as_bytes(), None).unwrap());
    for path in ["$..[?($..[?(@ == $.nope)])]", "$[?($..* in $..*)]"] {
        let path = Path::parse(path.as_bytes()).unwrap();
        assert!(matches!(path.nodes(Node::Value(&wide)), Err(Error::TooMuchWork)));
    }
    let path = Path::parse(b"$..*..*..*..*..*..*..*..*").unwrap();
    assert!(matches!(path.nodes(Node::Value(&deep)), Err(Error::TooMuchWork)));
    let path = Path::parse(b"$..*").unwrap();
    assert_eq!(path.nodes(Node::Value(&deep)).unwrap().len(), 125);
}
