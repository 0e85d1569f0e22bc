//! The commands about suggestions by the fixture: replies of both protocols, errors, records.

use crate::testing::Fixture;

/// Requests with their replies, one after the other.
fn all(t: &mut Fixture, cases: &[(&str, &str)]) {
    for (line, reply) in cases {
        assert_eq!(t.run(line), *reply, "{line}");
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn suggestions_are_added_found_and_deleted() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("FT.SUGADD k Hello 1", ":1"),
            ("FT.SUGADD k hellothere 2 PAYLOAD p1", ":2"),
            ("FT.SUGGET k hel", "[\"hellothere\" \"Hello\"]"),
            (
                "FT.SUGGET k hel WITHSCORES WITHPAYLOADS",
                "[\"hellothere\" \"0.7071067690849304\" \"p1\" \"Hello\" \"0.5773502588272095\" nil]",
            ),
            ("FT.SUGADD k hellothere 3 INCR", ":2"),
            (
                "FT.SUGGET k hel withpayloads max 1 withscores",
                "[\"hellothere\" \"1.7677669525146484\" \"p1\"]",
            ),
            ("FT.SUGGET k help", "[]"),
            ("FT.SUGGET k help FUZZY MAX 1", "[\"hellothere\"]"),
            ("FT.SUGLEN k", ":2"),
            ("TYPE k", "+trietype0"),
            ("OBJECT ENCODING k", "\"raw\""),
            ("FT.SUGDEL k Hello", ":1"),
            ("FT.SUGDEL k Hello", ":0"),
            ("FT.SUGDEL k hellothere", ":1"),
            ("FT.SUGLEN k", ":0"),
            ("EXISTS k", ":1"),
            ("FT.SUGGET none a", "nil"),
            ("FT.SUGLEN none", ":0"),
            ("FT.SUGDEL none a", ":0"),
        ],
    );
    t.resp3 = true;
    all(
        &mut t,
        &[
            ("FT.SUGADD k abc 1.5", ":1"),
            ("FT.SUGGET k ab WITHSCORES WITHPAYLOADS", "[\"abc\" ,1.0606601238250732 nil]"),
            ("FT.SUGGET none a", "nil"),
        ],
    );
}

#[test]
fn unlikely_suggestions_are_trimmed() {
    let mut t = Fixture::new();
    for line in ["FT.SUGADD k aaa 20", "FT.SUGADD k aab 2.1", "FT.SUGADD k aac 1.9", "FT.SUGADD low aaa -1"] {
        t.run(line);
    }
    all(
        &mut t,
        &[
            ("FT.SUGGET k a TRIM", "[\"aaa\" \"aab\"]"),
            ("FT.SUGGET k a OPTIMIZE", "[\"aaa\" \"aab\" \"aac\"]"),
            ("FT.SUGGET low a TRIM", "[\"aaa\"]"),
        ],
    );
}

#[test]
fn arguments_are_refused_in_redisearchs_words() {
    let mut t = Fixture::new();
    t.run("SET s 1");
    t.run("FT.SUGADD k a inf");
    let none = "Expected an argument, but none provided";
    let (range, number) =
        ("Value is outside acceptable bounds", "Could not convert argument to expected type");
    let cases = [
        ("FT.SUGADD k b".to_owned(), "ERR wrong number of arguments for 'ft.sugadd' command".to_owned()),
        (
            "FT.SUGADD k b 1 INCR INCR INCR INCR".into(),
            "ERR wrong number of arguments for 'ft.sugadd' command".into(),
        ),
        ("FT.SUGADD k b x".into(), "ERR invalid score".into()),
        ("FT.SUGADD k b nan".into(), "ERR invalid score".into()),
        ("FT.SUGADD k b 1e400".into(), "ERR invalid score".into()),
        ("FT.SUGADD k a -inf INCR".into(), "ERR resulting score is not a number (NaN)".into()),
        ("FT.SUGADD s b x FOO".into(), "Unknown argument `FOO`".into()),
        ("FT.SUGADD k b 1 PAYLOAD".into(), format!("Invalid payload: {none}")),
        ("FT.SUGADD s b x".into(), WRONG_TYPE[1..].into()),
        ("FT.SUGDEL s b".into(), WRONG_TYPE[1..].into()),
        ("FT.SUGLEN s".into(), WRONG_TYPE[1..].into()),
        ("FT.SUGGET s b".into(), WRONG_TYPE[1..].into()),
        ("FT.SUGGET k b FOO".into(), "Unrecognized argument: FOO".into()),
        ("FT.SUGGET k b MAX".into(), format!("MAX: {none}")),
        ("FT.SUGGET k b MAX 0".into(), format!("MAX: {range}")),
        ("FT.SUGGET k b MAX -1".into(), format!("MAX: {range}")),
        ("FT.SUGGET k b MAX 4294967296".into(), format!("MAX: {range}")),
        ("FT.SUGGET k b MAX 1e30".into(), format!("MAX: {range}")),
        ("FT.SUGGET k b MAX 0.5".into(), format!("MAX: {number}")),
        ("FT.SUGGET k b MAX x".into(), format!("MAX: {number}")),
        (
            "FT.SUGGET k b FUZZY FUZZY FUZZY FUZZY FUZZY FUZZY FUZZY FUZZY".into(),
            "ERR wrong number of arguments for 'ft.sugget' command".into(),
        ),
        (format!("FT.SUGGET k {}", "x".repeat(100)), "Invalid query".into()),
        (format!("FT.SUGGET none {}", "x".repeat(200)), "Invalid query length".into()),
    ];
    for (line, error) in cases {
        assert_eq!(t.run(&line), format!("-{error}"), "{line}");
        assert!(t.effects().is_empty() && t.dirty == 0, "{line}");
    }
    all(
        &mut t,
        &[
            ("FT.SUGLEN k", ":1"),
            ("FT.SUGGET k a MAX 1.9 WITHSCORES", "[\"a\" \"2147483648\"]"),
            ("FT.SUGGET k a MAX 4294967295", "[\"a\"]"),
        ],
    );
}

#[test]
fn only_changes_are_recorded() {
    let mut t = Fixture::new();
    // RediSearch creates the key for a text that it does not take, too.
    for line in ["FT.SUGADD k a 0", "FT.SUGADD k a 1 INCR PAYLOAD p", "FT.SUGDEL k a"] {
        t.run(line);
        assert_eq!(t.effects(), [line]);
        assert_eq!(t.dirty, 1);
    }
    for line in ["FT.SUGADD k a 0", "FT.SUGDEL k a", "FT.SUGDEL none a", "FT.SUGGET k a", "FT.SUGLEN k"] {
        t.run(line);
        assert!(t.effects().is_empty() && t.dirty == 0, "{line}");
    }
}
