//! Filters against recorded answers of Redis (`tests/fixtures/filter.txt`), and limits.

use super::*;
use proptest::prelude::*;

const ANSWERS: &str = include_str!("../../tests/fixtures/filter.txt");

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chars = text.bytes();
    while let Some(byte) = chars.next() {
        out.push(match byte {
            b'\\' => match chars.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                other => other.unwrap(),
            },
            other => other,
        });
    }
    out
}

fn answer(expression: &[u8], attribute: &[u8]) -> String {
    match Filter::compile(expression) {
        Ok(filter) => i32::from(filter.matches(attribute)).to_string(),
        Err(error) => {
            let message = String::from_utf8(error.message(expression)).unwrap();
            let near = message.strip_prefix("syntax error in FILTER expression near: ").unwrap();
            format!("error {near}")
        }
    }
}

#[test]
fn answers_equal_the_oracles() {
    // Redis refuses these before 8.8, which reads two prefix operators in a row.
    let newer = ["!!1", "not not 1", "! ! 0"];
    let mut attribute = Vec::new();
    let mut compared = 0;
    for line in ANSWERS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<Vec<u8>> = line.split('\t').map(unescape).collect();
        let (expression, on, expected) = match &fields[..] {
            [kind, text] if kind == b"attribute" => {
                attribute = text.clone();
                continue;
            }
            [kind, expression, expected] if kind == b"expr" => (expression, &attribute, expected),
            [kind, on, expression, expected] if kind == b"attr" => (expression, on, expected),
            other => panic!("{other:?}"),
        };
        if newer.iter().any(|text| text.as_bytes() == expression) {
            continue;
        }
        assert_eq!(answer(expression, on).as_bytes(), expected, "{}", line.escape_debug());
        compared += 1;
    }
    assert!(compared > 450, "{compared}");
}

#[test]
fn prefix_operators_can_follow_each_other() {
    let on = br#"{"active": true, "n": 5}"#;
    for (expression, expected) in [
        ("!!.active", "1"),
        ("not not .active", "1"),
        ("!!!.active", "0"),
        ("!!.n == 1", "1"),
        ("!.active or !!.active", "1"),
    ] {
        assert_eq!(answer(expression.as_bytes(), on), expected, "{expression}");
    }
}

#[test]
fn limits_are_errors() {
    let long = vec![b' '; FILTER_BYTES_MAX + 1];
    assert!(Filter::compile(&long).is_err());
    let sums = |count: usize| ["1"; 5000][..count].join("+");
    assert!(Filter::compile(sums(FILTER_INSTRUCTIONS_MAX / 2).as_bytes()).is_ok());
    assert!(Filter::compile(sums(FILTER_INSTRUCTIONS_MAX / 2 + 1).as_bytes()).is_err());
    let nested = "(".repeat(2000) + "1" + &")".repeat(2000);
    assert!(Filter::compile(nested.as_bytes()).unwrap().matches(b"{}"));
    let right = "2**".repeat(1000) + "1";
    assert!(Filter::compile(right.as_bytes()).unwrap().matches(b"{}"));
    let array = |depth: usize| format!(r#"{{"x":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let filter = Filter::compile(b".x").unwrap();
    assert!(filter.matches(array(json::DEPTH_MAX).as_bytes()));
    assert!(!filter.matches(array(json::DEPTH_MAX + 1).as_bytes()));
    assert!(!filter.matches(array(1_000_000).as_bytes()));
}

#[test]
fn an_expression_ends_at_a_zero_byte() {
    assert_eq!(answer(b"1 == 1\0garbage(", b"{}"), "1");
    assert_eq!(answer(b"(1\0)", b"{}"), "error (1");
}

proptest! {
    #[test]
    fn any_text_is_compiled_or_refused(
        expression in r#"([.]?[xs]|[0-9]|'a'|"b"|null|in|not|and|or|[-+*/%!<>=&|()\[\], .]){0,25}"#,
        attribute in r#"\{("[xs]":(["0-9ax\[\]{}:,\\ -]|true|null){0,8},?){0,3}\}?"#,
    ) {
        match Filter::compile(expression.as_bytes()) {
            Ok(filter) => { filter.matches(attribute.as_bytes()); }
            Err(error) => prop_assert!(error.offset <= expression.len()),
        }
    }
}
