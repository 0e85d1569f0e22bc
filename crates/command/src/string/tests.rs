//! Replies, effects and events of the string commands.

use proptest::prelude::*;

use crate::testing::{Fixture, START_MS};

/// Runs requests and compares their replies.
fn check(t: &mut Fixture, cases: &[(&str, &str)]) {
    for (request, reply) in cases {
        assert_eq!(t.run(request), *reply, "{request}");
    }
}

#[test]
fn set_options() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("SET k v NX XX", "-ERR syntax error"),
            ("SET k v XX", "nil"),
            ("SET k v NX", "+OK"),
            ("SET k w NX", "nil"),
            ("SET k w NX GET", "\"v\""),
            ("SET k w GET", "\"v\""),
            ("SET k x ifeq v", "nil"),
            ("SET k x IFEQ w get", "\"w\""),
            ("SET k x IFEQ x NX", "-ERR syntax error"),
            ("SET none x IFEQ x", "nil"),
            ("SET k v EX", "-ERR syntax error"),
            ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET k v PX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET k v EX x", "-ERR value is not an integer or out of range"),
            ("SET k v EX 10 PX 10", "-ERR syntax error"),
            ("SET k v KEEPTTL EX 10", "-ERR syntax error"),
            ("SET k v EX 10 EX 20", "+OK"),
            ("TTL k", ":20"),
            ("SET k w KEEPTTL", "+OK"),
            ("TTL k", ":20"),
            ("SET k w", "+OK"),
            ("TTL k", ":-1"),
            ("SET k w PXAT 1", "+OK"),
            ("EXISTS k", ":0"),
            ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
            ("PSETEX k 1500 v", "+OK"),
            ("PTTL k", ":1500"),
        ],
    );
}

#[test]
fn set_effects() {
    let mut t = Fixture::new();
    let at = |ms: i64| format!("SET k v PXAT {}", START_MS + ms);
    t.run("SET k v EX 10");
    assert_eq!(t.effects(), [at(10_000)]);
    assert_eq!(t.events(), ["new k", "set k", "expire k"]);
    t.run("PSETEX k 5 v");
    assert_eq!(t.effects(), [at(5)]);
    t.run("SET k v GET KEEPTTL");
    assert_eq!(t.effects(), ["SET k v KEEPTTL"]);
    t.run("GETEX k PX 100");
    assert_eq!(t.effects(), [format!("PEXPIREAT k {}", START_MS + 100)]);
    t.run("GETEX k PERSIST");
    assert_eq!(t.effects(), ["PERSIST k"]);
    t.run("GETEX k PERSIST");
    assert!(t.effects().is_empty() && t.dirty == 0);
    t.run("GETEX k PXAT 5");
    assert_eq!((t.effects(), t.events()), (&["DEL k".to_string()][..], &["del k".to_string()][..]));
    t.run("SET k 10.5");
    t.run("INCRBYFLOAT k 0.1");
    assert_eq!(t.effects(), ["SET k 10.6 KEEPTTL"]);
    t.run("GETSET k z");
    assert_eq!(t.effects(), ["SET k z"]);
    t.run("GETDEL k");
    assert_eq!(t.effects(), ["DEL k"]);
    t.run("SET k v PXAT 1");
    assert!(t.effects().is_empty());
    t.run("SET k v PX 10");
    t.advance_ms(10);
    assert_eq!(t.run("GET k"), "nil");
    assert_eq!(t.effects(), ["DEL k"]);
}

#[test]
fn getex_and_getdel() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("GETEX k", "nil"),
            ("SET k v", "+OK"),
            ("GETEX k EX 10 PERSIST", "-ERR syntax error"),
            ("GETEX k KEEPTTL", "-ERR syntax error"),
            ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command"),
            ("GETEX none EX 0", "nil"),
            ("GETEX k EX 10", "\"v\""),
            ("TTL k", ":10"),
            ("GETEX k", "\"v\""),
            ("TTL k", ":10"),
            ("GETDEL k", "\"v\""),
            ("GETDEL k", "nil"),
        ],
    );
}

#[test]
fn several_keys() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
            ("MSET a 1 b 2", "+OK"),
            ("MSETNX c 3 a 4", ":0"),
            ("MGET a b c", "[\"1\" \"2\" nil]"),
            ("MSETNX c 3 c 4", ":1"),
            ("GET c", "\"4\""),
        ],
    );
    t.run("MSET x 1 y 2");
    assert_eq!((t.dirty, t.effects()), (2, &["MSET x 1 y 2".to_string()][..]));
}

#[test]
fn ranges() {
    let mut t = Fixture::new();
    t.settings.string_max_bytes = 100;
    check(
        &mut t,
        &[
            ("SETRANGE k 3 \"\"", ":0"),
            ("EXISTS k", ":0"),
            ("SETRANGE k -1 x", "-ERR offset is out of range"),
            ("SETRANGE k 100 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
            (
                "SETRANGE k 9223372036854775807 x",
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            ),
            ("SETRANGE k 3 abc", ":6"),
            ("GET k", "\"\\x00\\x00\\x00abc\""),
            ("SET k Hello", "+OK"),
            ("SETRANGE k 1 E", ":5"),
            ("OBJECT ENCODING k", "\"raw\""),
            ("SETRANGE k 4 OOO", ":7"),
            ("GETRANGE k 0 -1", "\"HEllOOO\""),
            ("GETRANGE k 1 3", "\"Ell\""),
            ("GETRANGE k -3 100", "\"OOO\""),
            ("GETRANGE k -100 0", "\"H\""),
            ("GETRANGE k -100 -50", "\"H\""),
            ("GETRANGE k -50 -100", "\"\""),
            ("GETRANGE k 5 3", "\"\""),
            ("SUBSTR k 0 1", "\"HE\""),
            ("GETRANGE none 0 -1", "\"\""),
            ("APPEND n 12", ":2"),
            ("OBJECT ENCODING n", "\"int\""),
            ("APPEND n 3", ":3"),
            ("OBJECT ENCODING n", "\"raw\""),
            ("INCR n", ":124"),
            ("SETRANGE n 1 5", ":3"),
            ("GET n", "\"154\""),
            ("STRLEN n", ":3"),
            ("STRLEN none", ":0"),
        ],
    );
    t.run(&format!("APPEND n {}", "x".repeat(97)));
    assert_eq!(t.run("APPEND n x"), "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    assert_eq!(t.run("APPEND n \"\""), ":100");
}

#[test]
fn numbers() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("INCR n", ":1"),
            ("DECRBY n 3", ":-2"),
            ("INCRBY n x", "-ERR value is not an integer or out of range"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("SET n -9223372036854775808", "+OK"),
            ("DECR n", "-ERR increment or decrement would overflow"),
            ("SET n \" 1\"", "+OK"),
            ("INCR n", "-ERR value is not an integer or out of range"),
            ("INCRBYFLOAT n 1", "-ERR value is not a valid float"),
            ("INCRBYFLOAT f 3.0e3", "\"3000\""),
            ("OBJECT ENCODING f", "\"embstr\""),
            ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
            ("INCRBYFLOAT f nan", "-ERR value is not a valid float"),
            ("INCRBYFLOAT f -200.5", "\"2799.5\""),
            ("SET e 5 EX 10", "+OK"),
            ("INCR e", ":6"),
            ("TTL e", ":10"),
        ],
    );
}

#[test]
fn lcs() {
    let mut t = Fixture::new();
    t.run("MSET a ohmytext b mynewtext");
    let matches = "[\"matches\" [[[:4 :7] [:5 :8]] [[:2 :3] [:0 :1]]] \"len\" :6]";
    check(
        &mut t,
        &[
            ("LCS a b", "\"mytext\""),
            ("LCS a b LEN", ":6"),
            ("LCS a b IDX", matches),
            ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "[\"matches\" [[[:4 :7] [:5 :8] :4]] \"len\" :6]"),
            ("LCS a none", "\"\""),
            ("LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX."),
            ("LCS a b MINMATCHLEN", "-ERR syntax error"),
        ],
    );
    t.resp3 = true;
    assert!(t.run("LCS a b IDX").starts_with("{\"matches\""));
    t.settings.string_max_bytes = 100;
    let text = "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    assert_eq!(t.run("LCS a b"), text);
}

/// The length by definition, exponential time.
fn lcs_length(a: &[u8], b: &[u8]) -> usize {
    match (a, b) {
        ([x, a @ ..], [y, b @ ..]) if x == y => 1 + lcs_length(a, b),
        ([_, a_rest @ ..], [_, b_rest @ ..]) => lcs_length(a_rest, b).max(lcs_length(a, b_rest)),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn lcs_is_longest_and_common(a in "[abc]{0,8}", b in "[abc]{0,8}") {
        let mut t = Fixture::new();
        t.run_args(&["MSET", "a", &a, "b", &b]);
        let common = t.run("LCS a b");
        let common = common.trim_matches('"').as_bytes();
        prop_assert_eq!(common.len(), lcs_length(a.as_bytes(), b.as_bytes()));
        for text in [&a, &b] {
            let mut rest = text.bytes();
            prop_assert!(common.iter().all(|c| rest.any(|byte| byte == *c)), "{:?} is not in {}", common, text);
        }
        prop_assert_eq!(t.run("LCS a b LEN"), format!(":{}", common.len()));
    }
}
