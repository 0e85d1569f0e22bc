//! Limits, and the tree itself: the comparison with RediSearch shows neither.

use super::ast::{Intersect, Kind, Node, Side};
use super::{CLAUSES_MAX, DEPTH_MAX, Options, Params, explain, parse};
use crate::Error;
use crate::schema::{Definition, Field, FieldKind, Language, Source, Tag, Text};
use crate::text::stopwords::Stopwords;

fn definition() -> Definition {
    let field = |name: &str, kind| Field {
        identifier: name.as_bytes().into(),
        name: name.as_bytes().into(),
        kind,
        sortable: false,
        unf: false,
        no_index: false,
        index_empty: false,
        index_missing: false,
    };
    let text = Text { weight: 1.0, no_stem: false, phonetic: None, suffixes: false };
    let tag = |case_sensitive| Tag { separator: None, case_sensitive, suffixes: false };
    Definition {
        name: b"i"[..].into(),
        source: Source::Hash,
        prefixes: vec![[].into()],
        filter: None,
        language: None,
        language_field: None,
        score: 1.0,
        score_field: None,
        payload_field: None,
        options: crate::schema::Options::default(),
        stopwords: None,
        fields: vec![
            field("g", FieldKind::Tag(tag(false))),
            field("t", FieldKind::Text(text)),
            field("c", FieldKind::Tag(tag(true))),
            field("u", FieldKind::Text(text)),
        ],
    }
}

fn parsed(query: &[u8], change: impl FnOnce(&mut Options<'_>)) -> Result<Node, Error> {
    let (definition, stopwords, params) = (definition(), Stopwords::of(None), Params::new());
    let mut options = Options::new(&definition, &stopwords, &params);
    options.dialect = 2;
    options.verbatim = true;
    change(&mut options);
    parse(query, &options)
}

fn error(query: &[u8]) -> String {
    parsed(query, |_| ()).expect_err("an error").text().to_owned()
}

fn depth(node: &Node) -> usize {
    1 + node.children().iter().map(depth).max().unwrap_or(0)
}

#[test]
fn deep_queries_are_refused() {
    const OVERFLOW: &str = "Parser stack overflow. Try moving nested parentheses more to the left";
    for (before, after) in [("(", ")"), ("-", ""), ("~(", ")"), ("@t:(", ")"), ("y|(z ", ")"), ("12 ", "")] {
        for dialect in [1, 2] {
            let query = [before.repeat(100_000), "x".into(), after.repeat(100_000)].concat();
            let found = parsed(query.as_bytes(), |options| options.dialect = dialect);
            match found {
                Err(found) if before == "@t:(" && dialect == 2 => assert!(found.text().starts_with("Syntax")),
                Err(found) => assert_eq!(found.text(), OVERFLOW, "{before} {dialect}"),
                // A list of one level.
                Ok(node) => assert!(depth(&node) < 10, "{before} {dialect}"),
            }
            for levels in [50, 100, 200, 240] {
                let query = [before.repeat(levels), "x".into(), after.repeat(levels)].concat();
                if let Ok(node) = parsed(query.as_bytes(), |options| options.dialect = dialect) {
                    assert!(depth(&node) <= DEPTH_MAX, "{before} {levels} {dialect}: {}", depth(&node));
                }
            }
        }
    }
}

#[test]
fn long_queries_are_refused_in_time() {
    for (part, is_refused) in [("x ", false), ("x|", false), ("x ", true), ("x|", true), ("-x ", true)] {
        let count = if is_refused { 1_000_000 } else { CLAUSES_MAX / 4 };
        let query = format!("{}x", part.repeat(count));
        match parsed(query.as_bytes(), |_| ()) {
            Ok(node) => {
                assert!(!is_refused, "{part}");
                assert_eq!(node.children().len(), count + 1);
            }
            Err(error) => {
                assert!(is_refused, "{part}");
                assert_eq!(error.text(), format!("The query has more than {CLAUSES_MAX} clauses"));
            }
        }
    }
    let tags = format!("@g:{{{}x}}", "y|".repeat(1_000_000));
    assert_eq!(error(tags.as_bytes()), format!("The query has more than {CLAUSES_MAX} clauses"));
}

#[test]
fn odd_bytes_are_words_or_nothing() {
    for query in
        [&b"\xff\xfe \x80"[..], b"@\xff:\x00", b"\\", b"a\\", b"\"a", b"w'", b"%", b"$", b"@", b"'a b"]
    {
        for dialect in 1..=4 {
            let found = parsed(query, |options| options.dialect = dialect);
            assert!(found.is_ok() || found.is_err_and(|error| error.text().starts_with("Syntax error")));
        }
    }
    assert_eq!(parsed(b"x\\", |_| ()), Ok(Node::term(&b"x"[..])));
}

#[test]
fn tags_have_the_form_of_their_field() {
    let texts = |query: &[u8]| {
        let node = parsed(query, |_| ()).expect("a tree");
        let Kind::Tag(tag) = node.kind else { panic!("no tag") };
        tag.children.into_iter().map(|child| child.kind).collect::<Vec<_>>()
    };
    let phrase = |words: [&str; 2]| {
        let children = words.map(|word| Node::term(word.as_bytes())).into();
        Kind::Intersect(Intersect { children, exact: false })
    };
    assert_eq!(texts(br"@g:{Foo\-Bar|A B}"), [Node::term(&b"foo-bar"[..]).kind, phrase(["a", "b"])]);
    assert_eq!(texts(br"@c:{Foo\-Bar|A B}"), [Node::term(&b"Foo-Bar"[..]).kind, phrase(["A", "B"])]);
    let Kind::Affix(affix) = &texts(b"@g:{Fo*}")[0] else { panic!("no prefix") };
    assert_eq!((&*affix.text, affix.side), (&b"fo"[..], Side::Prefix));
}

#[test]
fn fields_are_masks_of_text_fields() {
    let mask = |query: &[u8]| parsed(query, |_| ()).expect("a tree").fields;
    assert_eq!(mask(b"@t:x"), 1);
    assert_eq!(mask(b"@u:x"), 2);
    assert_eq!(mask(b"@t|u:x"), 3);
    assert_eq!(mask(b"@g:x"), 0);
    assert_eq!(mask(b"x"), u128::MAX);
}

#[test]
fn a_parameter_directly_before_a_sign_is_one() {
    let (definition, stopwords) = (definition(), Stopwords::of(None));
    let mut params = Params::new();
    params.insert(b"p", b"5").expect("a name");
    let mut options = Options::new(&definition, &stopwords, &params);
    options.dialect = 2;
    let node = parse(b"(@n==$p)|(@n<-$p)", &options).expect("a tree");
    let lines = explain(&node, &definition);
    assert_eq!(
        String::from_utf8_lossy(&lines),
        "UNION {\n  NUMERIC {5.000000 <= @n <= 5.000000}\n  NUMERIC {-inf <= @n < -5.000000}\n}\n"
    );
}

#[test]
fn stopwords_leave_the_alternatives_beside_them() {
    // RediSearch 2.10.5 loses them here, or crashes.
    for (query, words) in [("a1|the|c1|d1", 3), ("the|the|a1|b1", 2), ("the|a1", 0)] {
        let node = parsed(query.as_bytes(), |_| ()).expect("a tree");
        assert_eq!(node.children().len(), words, "{query}");
    }
}

#[test]
fn terms_are_expanded_in_their_language() {
    let expanded = |language, query: &[u8]| {
        let node = parsed(query, |options| {
            options.verbatim = false;
            options.language = language;
        });
        node.expect("a tree").children().len()
    };
    assert_eq!(expanded(Language::English, b"running"), 3);
    assert_eq!(expanded(Language::English, b"run"), 2);
    assert_eq!(expanded(Language::German, b"laufen"), 3);
    assert_eq!(expanded(Language::English, b"-running"), 1);
    assert_eq!(expanded(Language::English, b"12"), 0);
}

#[test]
fn a_token_of_chinese_is_a_phrase() {
    let node = parsed("@t:中华".as_bytes(), |options| {
        options.verbatim = false;
        options.language = Language::Chinese;
    });
    let lines = explain(&node.expect("a tree"), &definition());
    assert_eq!(String::from_utf8_lossy(&lines), "@t:EXACT {\n  @t:中(expanded)\n  @t:华(expanded)\n}\n");
}
