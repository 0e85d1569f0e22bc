//! Replies, effects and events of the string commands.

use martlet_engine::{Deletion, Deletions};
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

#[test]
fn digests() {
    let mut t = Fixture::new();
    let long = "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd";
    for (value, digest) in [
        ("hello", "9555e8555c62dcfd"),
        ("", "2d06800538d394c2"),
        ("123", "404a763b3f4c8c9a"),
        ("v8", "0cc76dbb41381419"),
        ("Hello world", "b6acb9d84a38ff74"),
        (long, "00006c38adf31777"),
    ] {
        t.run_args(&["SET", "k", value]);
        assert_eq!(t.run("DIGEST k"), format!("\"{digest}\""), "{value}");
        assert_eq!(t.run(&format!("DELEX k IFDNE {digest}")), ":0");
        assert_eq!(t.run(&format!("DELEX k IFDEQ {}", digest.to_uppercase())), ":1");
    }
    t.run("RPUSH l a");
    check(
        &mut t,
        &[
            ("DIGEST none", "nil"),
            ("DIGEST l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("DIGEST", "-ERR wrong number of arguments for 'digest' command"),
        ],
    );
}

#[test]
fn set_compares() {
    let mut t = Fixture::new();
    let hello = "9555e8555c62dcfd";
    t.run("RPUSH l a");
    for (condition, on_hello, on_none) in [
        ("IFEQ hello".to_owned(), "+OK", "nil"),
        ("IFEQ other".to_owned(), "nil", "nil"),
        ("IFNE hello".to_owned(), "nil", "+OK"),
        ("IFNE other".to_owned(), "+OK", "+OK"),
        (format!("IFDEQ {hello}"), "+OK", "nil"),
        (format!("ifdne {hello}"), "nil", "+OK"),
        ("IFDNE 0000000000000000".to_owned(), "+OK", "+OK"),
    ] {
        t.run("SET k hello");
        assert_eq!(t.run(&format!("SET k new {condition}")), on_hello, "{condition}");
        let effects: &[&str] = if on_hello == "+OK" { &["SET k new"] } else { &[] };
        assert_eq!(t.effects(), effects, "{condition}");
        t.run("SET k hello");
        assert_eq!(t.run(&format!("SET k new {condition} GET KEEPTTL")), "\"hello\"", "{condition}");
        t.run("DEL k");
        assert_eq!(t.run(&format!("SET k new {condition}")), on_none, "{condition}");
        assert!(t.run(&format!("SET l new {condition}")).starts_with("-WRONGTYPE"), "{condition}");
    }
    let malformed = "-ERR must be exactly 16 hexadecimal characters";
    check(
        &mut t,
        &[
            ("DEL k", ":1"),
            ("SET k v IFDEQ short", "nil"),
            ("SET k v IFDNE short", "+OK"),
            ("SET k v IFDEQ short", malformed),
            ("SET k v IFDNE 00000000000000000 GET", malformed),
            ("SET l v IFDEQ short", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("SET k v IFEQ a IFNE b", "-ERR syntax error"),
            ("SET k v XX IFNE b", "-ERR syntax error"),
            ("SET k v IFNE", "-ERR syntax error"),
            ("SET k v IFDEQ zzzzzzzzzzzzzzzz", "nil"),
        ],
    );
}

#[test]
fn conditional_deletions() {
    let mut t = Fixture::new();
    let no_string = "-ERR Key should be of string type if conditions are specified";
    check(
        &mut t,
        &[
            ("MSET k 12345 m v", "+OK"),
            ("RPUSH l a", ":1"),
            ("DELEX k IFEQ", "-ERR wrong number of arguments for 'delex' command"),
            ("DELEX none IFEQ a b", "-ERR wrong number of arguments for 'delex' command"),
            ("DELEX none FOO a", ":0"),
            ("DELEX l FOO a", no_string),
            ("DELEX l IFNE a", no_string),
            ("DELEX k FOO a", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
            ("DELEX k IFDEQ 1", "-ERR must be exactly 16 hexadecimal characters"),
            ("DELEX k IFNE 12345", ":0"),
            ("DELEX l", ":1"),
            ("DELEX l", ":0"),
            ("DELIFEQ m w", ":0"),
            ("DELIFEQ none w", ":0"),
        ],
    );
    for deletion in ["DELEX k ifeq 12345", "DELEX k IFNE other", "DELEX k", "DELIFEQ k 12345"] {
        t.run("SET k 12345");
        assert_eq!(t.run(deletion), ":1");
        assert_eq!(
            (t.effects(), t.events(), t.dirty),
            (&["DEL k".to_owned()][..], &["del k".to_owned()][..], 1)
        );
    }
    t.run("RPUSH l a");
    assert!(t.run("DELIFEQ l a").starts_with("-WRONGTYPE"));
}

/// What a client deletes is recorded as DEL whatever the settings; what gets a time in the past as what
/// expires.
#[test]
fn deletions_are_recorded_by_their_cause() {
    let lazy = |expiry, removal, past_times_expire| Deletions {
        expiry: Deletion::new(expiry),
        removal: Deletion::new(removal),
        past_times_expire,
        ..Deletions::default()
    };
    for (deletions, past) in [
        (lazy(false, true, false), "DEL"),
        (lazy(true, false, false), "UNLINK"),
        (lazy(true, true, true), "UNLINK"),
    ] {
        let mut t = Fixture::new();
        t.keys.effects.deletions = deletions;
        for request in ["GETDEL k", "DELEX k", "DELEX k IFEQ 1", "DELIFEQ k 1"] {
            t.run("SET k 1");
            t.run(request);
            assert_eq!((t.effects(), t.events()), (&["DEL k".to_owned()][..], &["del k".to_owned()][..]));
        }
        let event = if deletions.past_times_expire { "expired k" } else { "del k" };
        for request in
            ["EXPIRE k -1", "GETEX k PXAT 1", "SET k v EXAT 1", "MSETEX 1 k v PXAT 1", "INCREX k PXAT 1"]
        {
            t.run("SET k 1");
            let before = t.keys.counters().expired_keys.get();
            t.run(request);
            assert_eq!(
                (t.effects(), t.events()),
                (&[format!("{past} k")][..], &[event.to_owned()][..]),
                "{request}"
            );
            let expired = t.keys.counters().expired_keys.get() - before;
            assert_eq!(expired, u64::from(deletions.past_times_expire), "{request}");
        }
    }
}

#[test]
fn msetex() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("MSETEX 1 k", "-ERR wrong number of arguments for 'msetex' command"),
            ("MSETEX k v EX 10", "-ERR invalid numkeys value"),
            ("MSETEX 0 k v", "-ERR invalid numkeys value"),
            ("MSETEX 2147483648 k v", "-ERR invalid numkeys value"),
            ("MSETEX 2147483647 k v", "-ERR wrong number of key-value pairs"),
            ("MSETEX 2 k v l", "-ERR wrong number of key-value pairs"),
            ("MSETEX 1 k v PERSIST", "-ERR syntax error"),
            ("MSETEX 1 k v NX XX", "-ERR syntax error"),
            ("MSETEX 1 k v IFEQ v", "-ERR syntax error"),
            ("MSETEX 1 k v EX 10 PX 10", "-ERR syntax error"),
            ("MSETEX 1 k v KEEPTTL PX 10", "-ERR syntax error"),
            ("MSETEX 1 k v EX 0", "-ERR invalid expire time in 'msetex' command"),
            ("MSETEX 1 k v EX x", "-ERR value is not an integer or out of range"),
            ("MSETEX 2 k v l w XX", ":0"),
            ("MSETEX 2 k v l w NX EX 10", ":1"),
            ("MSETEX 2 l w m x NX", ":0"),
            ("MSETEX 2 l w m x XX", ":0"),
            ("EXISTS m", ":0"),
            ("MSETEX 2 k 1 k 2 KEEPTTL", ":1"),
            ("MGET k l m", "[\"2\" \"w\" nil]"),
            ("TTL k", ":10"),
            ("MSETEX 1 k v", ":1"),
            ("TTL k", ":-1"),
        ],
    );
    t.run("MSETEX 2 ex 1 px 2 EX 10 XX");
    assert!(t.effects().is_empty());
    t.run("MSETEX 2 k 1 px 2 PX 10");
    assert_eq!(t.effects(), [format!("MSETEX 2 k 1 px 2 PXAT {}", START_MS + 10)]);
    assert_eq!(t.events(), ["overwritten k", "set k", "expire k", "new px", "set px", "expire px"]);
    t.run("MSETEX 1 k 1 NX");
    assert!(t.effects().is_empty());
    t.run("MSETEX 2 k 1 none 2 EXAT 1");
    assert_eq!((t.effects(), t.events()), (&["DEL k".to_owned()][..], &["del k".to_owned()][..]));
    assert_eq!(t.run("EXISTS k none"), ":0");
}

#[test]
fn increx_counts_between_bounds() {
    let mut t = Fixture::new();
    let (max, min) = (i64::MAX, i64::MIN);
    let shown = |new: i64, added: i64| format!("[:{new} :{added}]");
    assert_eq!(t.run("INCREX k"), shown(1, 1));
    for (old, options, new, added) in [
        (100, "BYINT 5".to_owned(), 105, 5),
        (95, "byint 0".to_owned(), 95, 0),
        (50, "BYINT 100 UBOUND 80".to_owned(), 50, 0),
        (50, "SATURATE BYINT 100 UBOUND 80".to_owned(), 80, 30),
        (10, "LBOUND 0 BYINT -100 SATURATE".to_owned(), 0, -10),
        (5, "LBOUND 0 UBOUND 10".to_owned(), 6, 1),
        (50, "BYINT 5 UBOUND 30 SATURATE".to_owned(), 30, -20),
        (50, "BYINT -25 UBOUND 30".to_owned(), 25, -25),
        (max - 7, format!("BYINT {max}"), max - 7, 0),
        (max - 7, format!("BYINT {max} SATURATE"), max, 7),
        (min + 8, format!("BYINT {min} SATURATE"), min, -8),
        (5, "BYINT 5 UBOUND 10".to_owned(), 10, 5),
    ] {
        t.run(&format!("SET k {old}"));
        assert_eq!(t.run(&format!("INCREX k {options}")), shown(new, added), "{old} {options}");
        assert_eq!(t.run("GET k"), format!("\"{new}\""));
    }
    t.run(&format!("SET k {max}"));
    let overflow = format!("INCREX k SATURATE UBOUND {min}");
    assert_eq!(t.run(&overflow), "-ERR applied increment would overflow");
    assert_eq!(t.run("INCREX none BYINT 5 LBOUND 10"), shown(0, 0));
    assert_eq!((t.dirty, t.effects().len(), t.run("EXISTS none").as_str()), (0, 0, ":0"));
    assert_eq!(t.run("INCREX none UBOUND 0 SATURATE"), shown(0, 0));
    assert_eq!((t.run("GET none").as_str(), t.run("OBJECT ENCODING none").as_str()), ("\"0\"", "\"int\""));
}

#[test]
fn increx_adds_long_doubles() {
    let mut t = Fixture::new();
    let largest = {
        t.run("SET k 1e4932");
        t.run("INCREX k BYFLOAT 0")
    };
    let largest = largest.split('"').nth(1).unwrap().to_owned();
    for (old, options, reply) in [
        ("1.5", "BYFLOAT 0.25", "[\"1.75\" \"0.25\"]"),
        ("10.5", "BYFLOAT 0.1", "[\"10.6\" \"0.1\"]"),
        ("10", "BYFLOAT 100 UBOUND 42.5", "[\"10\" \"0\"]"),
        ("10", "BYFLOAT 100 UBOUND 42.5 SATURATE", "[\"42.5\" \"32.5\"]"),
        ("0", "BYFLOAT -100 LBOUND -5.5 SATURATE", "[\"-5.5\" \"-5.5\"]"),
        ("50.5", "BYFLOAT 5.5 UBOUND 30 SATURATE", "[\"30\" \"-20.5\"]"),
        ("5", "BYFLOAT -10 LBOUND 0", "[\"5\" \"0\"]"),
        ("10", "BYFLOAT 1 UBOUND inf", "[\"11\" \"1\"]"),
        ("10", "BYFLOAT 1 LBOUND inf UBOUND inf", "[\"10\" \"0\"]"),
        ("10", "BYFLOAT 1 LBOUND -inf UBOUND -inf SATURATE", "-ERR applied increment would be Infinity"),
        ("10", "BYFLOAT +inf", "-ERR BYFLOAT increment cannot be Infinity"),
        ("10", "BYFLOAT 1e99999", "-ERR Increment is not a valid float"),
        ("inf", "BYFLOAT 1", "-ERR value cannot be Infinity"),
        ("1.5", "BYINT 1", "-ERR value is not an integer or out of range"),
        ("x", "BYFLOAT 1", "-ERR value is not a valid float"),
    ] {
        t.run(&format!("SET k {old}"));
        assert_eq!(t.run(&format!("INCREX k {options}")), reply, "{old} {options}");
    }
    t.run(&format!("SET k {largest}"));
    assert_eq!(t.run(&format!("INCREX k BYFLOAT {largest}")), format!("[\"{largest}\" \"0\"]"));
    t.run(&format!("SET k -{largest}"));
    assert_eq!(t.run(&format!("INCREX k BYFLOAT -{largest} EX 10")), format!("[\"-{largest}\" \"0\"]"));
    assert_eq!(t.run("TTL k"), ":-1");
    t.resp3 = true;
    t.run("SET k 1");
    assert_eq!(t.run_args(&["INCREX", "k", "BYFLOAT", "2.5"]), b"*2\r\n,3.5\r\n,2.5\r\n");
}

#[test]
fn increx_options() {
    let mut t = Fixture::new();
    t.run("SET k 5");
    t.run("RPUSH l a");
    let syntax = "-ERR syntax error";
    check(
        &mut t,
        &[
            ("INCREX", "-ERR wrong number of arguments for 'increx' command"),
            ("INCREX k FOO", syntax),
            ("INCREX k BYINT", syntax),
            ("INCREX k BYINT 1 BYFLOAT 1", syntax),
            ("INCREX k BYINT 1 BYINT 1", syntax),
            ("INCREX k LBOUND 0 LBOUND 0", syntax),
            ("INCREX k SATURATE SATURATE", syntax),
            ("INCREX k EX 10 EX 10", syntax),
            ("INCREX k EX 10 PERSIST", syntax),
            ("INCREX k PERSIST PX 10", syntax),
            ("INCREX k PERSIST ENX", syntax),
            ("INCREX k ENX PERSIST", syntax),
            ("INCREX k EX 1 ENX ENX", syntax),
            ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
            ("INCREX k BYINT 1.5", "-ERR Increment is not an integer or out of range"),
            ("INCREX k BYFLOAT x", "-ERR Increment is not a valid float"),
            ("INCREX k LBOUND 1.5", "-ERR LBOUND is not an integer or out of range"),
            ("INCREX k UBOUND inf", "-ERR UBOUND is not an integer or out of range"),
            ("INCREX k BYFLOAT 1 LBOUND x", "-ERR LBOUND is not a valid float"),
            ("INCREX k BYFLOAT 1 UBOUND x", "-ERR UBOUND is not a valid float"),
            ("INCREX k LBOUND 10 UBOUND 5", "-ERR LBOUND can't be greater than UBOUND"),
            ("INCREX k BYFLOAT 1 LBOUND 10.5 UBOUND 1", "-ERR LBOUND can't be greater than UBOUND"),
            ("INCREX k EX 0", "-ERR invalid expire time in 'increx' command"),
            ("INCREX l EXAT 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("INCREX k UBOUND 5 EX 10", "[:5 :0]"),
            ("TTL k", ":-1"),
            ("INCREX k ENX EX 100", "[:6 :1]"),
            ("INCREX k ENX EXAT 1", "[:7 :1]"),
            ("TTL k", ":100"),
            ("INCREX k", "[:8 :1]"),
            ("TTL k", ":100"),
            ("INCREX none EXAT 1", "[:1 :1]"),
            ("EXISTS none", ":0"),
        ],
    );
    let expiring = format!("SET k 10 PXAT {}", START_MS + 5);
    for (request, effect, events) in [
        ("INCREX k", "SET k 9 KEEPTTL", vec!["incrby k"]),
        ("INCREX k PX 5", &expiring, vec!["incrby k", "expire k"]),
        ("INCREX k BYFLOAT 0.5 PERSIST", "SET k 10.5", vec!["incrbyfloat k", "persist k"]),
        ("INCREX k BYFLOAT 0.5 PERSIST", "SET k 11", vec!["incrbyfloat k"]),
        ("INCREX k EXAT 1", "DEL k", vec!["del k"]),
    ] {
        t.run(request);
        assert_eq!(t.effects(), [effect], "{request}");
        assert_eq!(t.events(), events, "{request}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn increx_is_a_clamped_sum(
        old in number(), increment in number(), a in number(), b in number(), saturate: bool,
    ) {
        let (lower, upper) = (a.min(b), a.max(b));
        let sum = i128::from(old) + i128::from(increment);
        let clamped = sum.max(lower.into()).min(upper.into());
        let expected = if sum == clamped || saturate {
            match i64::try_from(clamped - i128::from(old)) {
                Ok(added) => format!("[:{clamped} :{added}]"),
                Err(_) => "-ERR applied increment would overflow".to_owned(),
            }
        } else {
            format!("[:{old} :0]")
        };
        let mut t = Fixture::new();
        t.run(&format!("SET k {old}"));
        let word = if saturate { "SATURATE" } else { "" };
        let request = format!("INCREX k BYINT {increment} LBOUND {lower} UBOUND {upper} {word}");
        prop_assert_eq!(t.run(&request), expected.clone());
        if !expected.starts_with('-') && (sum == clamped || saturate) {
            prop_assert_eq!(t.run("GET k"), format!("\"{clamped}\""));
        } else {
            prop_assert_eq!(t.run("GET k"), format!("\"{old}\""));
        }
    }
}

/// Numbers at which sums overflow, and between.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -20i64..20, (i64::MAX - 20)..=i64::MAX, i64::MIN..(i64::MIN + 20)]
}
