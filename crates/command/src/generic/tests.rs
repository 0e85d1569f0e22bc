//! Replies, effects and events of the generic commands.

use std::collections::BTreeSet;

use martlet_engine::{Expired, View};

use super::walk::parse_cursor;
use crate::testing::{Fixture, START_MS};

fn check(t: &mut Fixture, cases: &[(&str, &str)]) {
    for (request, reply) in cases {
        assert_eq!(t.run(request), *reply, "{request}");
    }
}

#[test]
fn presence() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("MSET a 1 b 2", "+OK"),
            ("EXISTS a a b c", ":3"),
            ("TOUCH a c", ":1"),
            ("TYPE a", "+string"),
            ("TYPE c", "+none"),
            ("RPUSH l x", ":1"),
            ("TYPE l", "+list"),
            ("DEL a a c", ":1"),
            ("UNLINK b l", ":2"),
            ("DBSIZE", ":0"),
        ],
    );
    t.run("MSET a 1 b 2");
    t.run("DEL a b c");
    assert_eq!((t.dirty, t.effects()), (2, &["DEL a b c".to_string()][..]));
    assert_eq!(t.events(), ["del a", "del b"]);
    t.run("DEL a");
    assert!(t.effects().is_empty());
    t.run("SET a 1 PX 5");
    t.advance_ms(5);
    assert_eq!(t.run("DEL a"), ":0");
    assert_eq!(t.effects(), ["DEL a"]);
}

#[test]
fn seconds_are_told_rounded() {
    let mut t = Fixture::new();
    for (ms, seconds) in [(499, 0), (500, 1), (1499, 1), (1500, 2), (100_000, 100)] {
        t.run(&format!("SET k v PX {ms}"));
        assert_eq!(t.run("TTL k"), format!(":{seconds}"), "{ms} ms");
        let at_ms = START_MS + ms;
        t.run(&format!("PEXPIREAT k {at_ms}"));
        assert_eq!(t.run("EXPIRETIME k"), format!(":{}", (at_ms + 500) / 1000), "{at_ms} ms");
    }
}

#[test]
fn expiry() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("EXPIRE none 10", ":0"),
            ("SET k v", "+OK"),
            ("TTL k", ":-1"),
            ("TTL none", ":-2"),
            ("PERSIST k", ":0"),
            ("EXPIRE k 10 XX", ":0"),
            ("EXPIRE k 10 GT", ":0"),
            ("EXPIRE k 10 LT", ":1"),
            ("EXPIRE k 10 NX", ":0"),
            ("EXPIRE k 5 GT", ":0"),
            ("EXPIRE k 15 xx gt", ":1"),
            ("EXPIRE k 20 LT", ":0"),
            ("TTL k", ":15"),
            ("PTTL k", ":15000"),
            ("EXPIRETIME k", ":1700000015"),
            ("PEXPIRETIME k", ":1700000015000"),
            ("PEXPIRE k 1499", ":1"),
            ("TTL k", ":1"),
            ("PERSIST k", ":1"),
            ("TTL k", ":-1"),
            ("EXPIRE k 10 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
            ("EXPIRE k 10 GT LT", "-ERR GT and LT options at the same time are not compatible"),
            ("EXPIRE k 10 AB", "-ERR Unsupported option AB"),
            ("EXPIRE k x AB", "-ERR Unsupported option AB"),
            ("EXPIRE k x", "-ERR value is not an integer or out of range"),
            ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
            ("EXPIREAT k -9223372036854775808", "-ERR invalid expire time in 'expireat' command"),
            ("PEXPIREAT k 9223372036854775807", ":1"),
            ("EXPIRE k -1", ":1"),
            ("EXISTS k", ":0"),
        ],
    );
}

#[test]
fn expiry_effects() {
    let mut t = Fixture::new();
    t.run("SET k v");
    t.run("EXPIRE k 1");
    assert_eq!(t.effects(), [format!("PEXPIREAT k {}", START_MS + 1000)]);
    assert_eq!(t.events(), ["expire k"]);
    t.run("EXPIREAT k 1 NX");
    assert!(t.effects().is_empty());
    t.run("EXPIREAT k 1");
    assert_eq!((t.effects(), t.events()), (&["DEL k".to_string()][..], &["del k".to_string()][..]));
    t.run("SET k v PX 1");
    t.advance_ms(1);
    t.expire_due();
    assert_eq!(t.run("DBSIZE"), ":0");
    assert_eq!(t.effects(), ["DEL k"]);
}

#[test]
fn renaming() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("RENAME none none", "-ERR no such key"),
            ("SET a 1 EX 10", "+OK"),
            ("RENAME a a", "+OK"),
            ("RENAMENX a a", ":0"),
            ("SET b 2", "+OK"),
            ("RENAMENX a b", ":0"),
            ("RENAME a b", "+OK"),
            ("GET b", "\"1\""),
            ("TTL b", ":10"),
            ("EXISTS a", ":0"),
            ("RENAMENX b a", ":1"),
        ],
    );
    assert_eq!((t.dirty, t.events()), (1, &["new a", "rename_from b", "rename_to a"].map(String::from)[..]));
}

#[test]
fn copying_and_moving() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("SET a 1 EX 10", "+OK"),
            ("COPY a a", "-ERR source and destination objects are the same"),
            ("COPY a b DB 16", "-ERR DB index is out of range"),
            ("COPY a b DB x", "-ERR value is not an integer or out of range"),
            (
                "COPY a b DB 2147483648",
                "-ERR value is out of range, value must between -2147483648 and 2147483647",
            ),
            ("COPY a b DB", "-ERR syntax error"),
            ("COPY none b", ":0"),
            ("COPY a b", ":1"),
            ("TTL b", ":10"),
            ("COPY a b", ":0"),
            ("SET a 2", "+OK"),
            ("COPY a b REPLACE", ":1"),
            ("TTL b", ":-1"),
            ("COPY a a DB 3", ":1"),
            ("MOVE a 0", "-ERR source and destination objects are the same"),
            ("MOVE a 3", ":0"),
            ("MOVE b 3", ":1"),
            ("MOVE b 3", ":0"),
        ],
    );
    t.keys.see(martlet_engine::View { db: 3, ..t.keys.view() });
    check(&mut t, &[("GET a", "\"2\""), ("GET b", "\"2\""), ("DBSIZE", ":2")]);
    t.run("RPUSH l 1 2");
    t.run("COPY l m");
    t.run("RPUSH m 3");
    check(&mut t, &[("LLEN l", ":2"), ("LLEN m", ":3")]);
}

#[test]
fn long_strings_are_shared_until_changed() {
    let mut t = Fixture::new();
    let text = "x".repeat(5000);
    t.run(&format!("SET a {text}"));
    t.run("COPY a b");
    t.run("SETRANGE b 0 y");
    t.run("APPEND a z");
    assert_eq!(t.run("GET a"), format!("\"{text}z\""));
    assert_eq!(t.run("GET b"), format!("\"y{}\"", &text[1..]));
}

/// Cursor and names of one reply of SCAN.
fn page(reply: &str) -> (String, Vec<String>) {
    let (cursor, names) = reply.split_once(' ').expect("a cursor and an array");
    let word = |text: &str| text.trim_matches(['[', ']', '"']).to_string();
    (word(cursor), names.split(' ').map(word).filter(|name| !name.is_empty()).collect())
}

/// All names that a whole SCAN returns, and how many calls it took.
fn scan_all(t: &mut Fixture, options: &str) -> (Vec<String>, usize) {
    let (mut names, mut cursor, mut calls) = (Vec::new(), "0".to_string(), 0);
    loop {
        let reply = t.run(&format!("SCAN {cursor} {options}"));
        let (head, found) = page(&reply);
        names.extend(found);
        cursor = head;
        calls += 1;
        if cursor == "0" {
            return (names, calls);
        }
        assert!(cursor.parse::<u64>().expect("a cursor") < 1 << 53);
    }
}

#[test]
fn scanning() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("SCAN x", "-ERR invalid cursor"),
            ("SCAN -1", "-ERR invalid cursor"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("SCAN 0 MATCH", "-ERR syntax error"),
            ("SCAN 0 TYPE none", "[\"0\" []]"),
            ("SCAN 0 TYPE stream", "[\"0\" []]"),
            ("SCAN 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
            ("SCAN 0", "[\"0\" []]"),
            ("SCAN 18446744073709551615", "[\"0\" []]"),
        ],
    );
    let expected: BTreeSet<String> = (0..3000).map(|i| format!("key:{i}")).collect();
    expected.iter().for_each(|name| assert_eq!(t.run(&format!("SET {name} v")), "+OK"));
    t.run("RPUSH list v");
    for count in [1, 10, 700, 100_000] {
        let (names, calls) = scan_all(&mut t, &format!("COUNT {count} TYPE string"));
        assert_eq!(names.len(), expected.len());
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected);
        assert!(calls <= 3001 / count + 1, "{calls} calls of {count}");
    }
    assert_eq!(scan_all(&mut t, "TYPE LIST COUNT 100").0, ["list"]);
    assert_eq!(scan_all(&mut t, "MATCH key:299? COUNT 1000").0.len(), 10);
    assert_eq!(t.run("KEYS key:299?").split(' ').count(), 10);
    assert_eq!(t.run("KEYS *").split(' ').count(), 3001);
    assert_eq!(t.run("DBSIZE"), ":3001");
}

#[test]
fn scanning_while_keys_come_and_go() {
    let mut t = Fixture::new();
    (0..2000).for_each(|i| assert_eq!(t.run(&format!("SET stay:{i} v")), "+OK"));
    let (mut names, mut cursor, mut round) = (BTreeSet::new(), "0".to_string(), 0);
    loop {
        let reply = t.run(&format!("SCAN {cursor} COUNT 20 MATCH stay:*"));
        let (head, found) = page(&reply);
        names.extend(found);
        cursor = head;
        if cursor == "0" {
            break;
        }
        // The tables grow fourfold and shrink again in this time.
        for i in 0..200 {
            t.run(&format!("SET go:{round}:{i} v"));
            if round > 40 {
                t.run(&format!("DEL go:{}:{i}", round - 40));
            }
        }
        round += 1;
    }
    let stayed = (0..2000).filter(|i| names.contains(&format!("stay:{i}"))).count();
    assert_eq!(stayed, 2000);
}

#[test]
fn walks_hide_and_delete_expired_keys() {
    let mut t = Fixture::new();
    t.run("SET a 1 PX 10");
    t.run("SET b 1");
    t.advance_ms(10);
    assert_eq!(t.run("DBSIZE"), ":2");
    assert_eq!(t.run("SCAN 0 MATCH b"), "[\"0\" [\"b\"]]");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("SCAN 0 TYPE list"), "[\"0\" []]");
    assert_eq!(t.effects(), ["DEL a"]);
    assert_eq!(t.run("DBSIZE"), ":1");
    t.run("SET a 1 PX 10");
    t.advance_ms(10);
    assert_eq!(t.run("RANDOMKEY"), "\"b\"");
    t.run("DEL b");
    assert_eq!(t.run("RANDOMKEY"), "nil");
    t.run("SET a 1 PX 10");
    t.advance_ms(10);
    let before = t.keys.view();
    t.keys.see(View { expired: Expired::Keep, ..before });
    assert_eq!(t.run("RANDOMKEY"), "\"a\"");
    t.keys.see(before);
    assert_eq!(t.run("RANDOMKEY"), "nil");
}

#[test]
fn random_keys_are_chosen_evenly() {
    let mut t = Fixture::new();
    let mut counts = [0u32; 20];
    (0..20).for_each(|i| assert_eq!(t.run(&format!("SET {i} v")), "+OK"));
    for _ in 0..2000 {
        counts[t.run("RANDOMKEY").trim_matches('"').parse::<usize>().expect("a key")] += 1;
    }
    assert!(counts.iter().all(|n| (50..160).contains(n)), "{counts:?}");
}

#[test]
fn cursors() {
    let good = [("0", 0), (" 12", 12), ("+7", 7), ("007", 7), ("18446744073709551615", u64::MAX)];
    for (text, number) in good {
        assert_eq!(parse_cursor(text.as_bytes()), Some(number), "{text}");
    }
    for text in ["", " ", "-1", "1 ", "18446744073709551616", "+", "0x1"] {
        assert_eq!(parse_cursor(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn whole_databases() {
    let mut t = Fixture::new();
    t.run("MSET a 1 b 2");
    t.keys.see(martlet_engine::View { db: 1, ..t.keys.view() });
    t.run("SET c 3");
    check(
        &mut t,
        &[
            ("FLUSHDB NOW", "-ERR syntax error"),
            ("SWAPDB x 1", "-ERR invalid first DB index"),
            ("SWAPDB 1 x", "-ERR invalid second DB index"),
            ("SWAPDB 1 16", "-ERR DB index is out of range"),
            ("SWAPDB 0 1", "+OK"),
            ("DBSIZE", ":2"),
            ("FLUSHDB ASYNC", "+OK"),
            ("DBSIZE", ":0"),
        ],
    );
    assert_eq!(
        (t.run("FLUSHDB"), t.block.take().map(|block| block.wait)),
        (String::new(), Some(crate::Wait::Freed))
    );
    assert_eq!(t.effects(), ["FLUSHDB"]);
    t.keys.see(martlet_engine::View { db: 0, ..t.keys.view() });
    assert_eq!(t.run("GET c"), "\"3\"");
    assert_eq!((t.run("FLUSHALL SYNC"), t.block.take().is_some()), (String::new(), true));
    assert_eq!(t.run("DBSIZE"), ":0");
    t.deny_blocking = true;
    assert_eq!(t.run("FLUSHALL SYNC"), "+OK");
    t.deny_blocking = false;
    t.settings.lazy_user_flush = true;
    assert_eq!((t.run("FLUSHALL"), t.block.take()), ("+OK".into(), None));
}

#[test]
fn objects() {
    use martlet_engine::Touch;
    let mut t = Fixture::new();
    t.keys.see(martlet_engine::View {
        touch: Touch::Lru((START_MS / 1000) as u32 & 0xff_ffff),
        ..t.keys.view()
    });
    check(
        &mut t,
        &[
            ("OBJECT", "-ERR wrong number of arguments for 'object' command"),
            ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command"),
            ("OBJECT ENCODING none", "nil"),
            ("MSET i 12345 e short", "+OK"),
            ("SET r xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "+OK"),
            ("OBJECT ENCODING i", "\"int\""),
            ("OBJECT ENCODING e", "\"embstr\""),
            ("OBJECT ENCODING r", "\"raw\""),
            ("OBJECT REFCOUNT i", ":1"),
            ("SET s 9999", "+OK"),
            ("OBJECT REFCOUNT s", ":2147483647"),
            ("OBJECT IDLETIME i", ":0"),
        ],
    );
    t.advance_ms(5000);
    assert_eq!(t.run("OBJECT IDLETIME i"), ":5");
    assert!(t.run("OBJECT FREQ i").starts_with("-ERR An LFU maxmemory policy is not selected"));
    t.keys.see(martlet_engine::View {
        touch: Touch::Lfu { minutes: 1, log_factor: 0, decay_minutes: 1 },
        ..t.keys.view()
    });
    t.run("SET f v");
    check(&mut t, &[("OBJECT FREQ f", ":5"), ("GET f", "\"v\""), ("OBJECT FREQ f", ":6")]);
    // Overwriting and renaming keep the count.
    check(&mut t, &[("SET f w", "+OK"), ("OBJECT FREQ f", ":7"), ("RENAME f g", "+OK")]);
    assert!(matches!(t.run("OBJECT FREQ g").as_str(), ":7" | ":8"));
    assert!(t.run("OBJECT IDLETIME i").starts_with("-ERR An LFU maxmemory policy is selected"));
    assert!(t.run("OBJECT HELP").contains("OBJECT <subcommand>"));
}

#[test]
fn use_by_recency_and_frequency() {
    use martlet_engine::{Lrfu, Touch};
    let mut t = Fixture::new();
    let now = |tick| Touch::Lrfu(Lrfu { tick });
    t.keys.see(martlet_engine::View { touch: now(100), ..t.keys.view() });
    t.run("SET k v");
    assert_eq!(t.run("OBJECT FREQ k"), ":1");
    for _ in 0..15 {
        t.run("GET k");
    }
    assert!(matches!(t.run("OBJECT FREQ k").as_str(), ":14" | ":15" | ":16" | ":17" | ":18"));
    // Overwriting keeps the count.
    t.run("SET k w");
    t.keys.see(martlet_engine::View { touch: now(100 + 2 * 256), ..t.keys.view() });
    assert!(matches!(t.run("OBJECT FREQ k").as_str(), ":3" | ":4" | ":5"));
    assert!(t.run("OBJECT IDLETIME k").starts_with("-ERR An LFU maxmemory policy is selected"));
    let payload = dump(&mut t, "k");
    assert_eq!(restore(&mut t, "r", "0", &payload, &["FREQ", "64"]), "+OK");
    assert_eq!(t.run("OBJECT FREQ r"), ":64");
}

#[test]
fn idle_since_the_last_change() {
    use martlet_engine::Touch;
    let mut t = Fixture::new();
    let pass = |t: &mut Fixture, seconds: i64| {
        t.advance_ms(seconds * 1000);
        t.keys.see(martlet_engine::View {
            touch: Touch::Lrm((t.keys.now_ms() / 1000) as u32 & 0xff_ffff),
            ..t.keys.view()
        });
    };
    pass(&mut t, 0);
    t.run("SET k v");
    t.run("SADD s member");
    pass(&mut t, 5);
    check(&mut t, &[("GET k", "\"v\""), ("SADD s member", ":0"), ("OBJECT IDLETIME k", ":5")]);
    assert_eq!(t.run("OBJECT IDLETIME s"), ":5");
    check(&mut t, &[("APPEND k w", ":2"), ("SADD s other", ":1"), ("OBJECT IDLETIME k", ":0")]);
    assert_eq!(t.run("OBJECT IDLETIME s"), ":0");
    pass(&mut t, 5);
    check(&mut t, &[("EXPIRE k 100", ":1"), ("OBJECT IDLETIME k", ":0"), ("SET k w", "+OK")]);
    assert!(t.run("OBJECT FREQ k").starts_with("-ERR An LFU maxmemory policy is not selected"));
    let payload = dump(&mut t, "k");
    assert_eq!(restore(&mut t, "r", "0", &payload, &["IDLETIME", "500"]), "+OK");
    assert_eq!(t.run("OBJECT IDLETIME r"), ":500");
}

/// The value of `key` as DUMP answers it.
fn dump(t: &mut Fixture, key: &str) -> Vec<u8> {
    let reply = t.run_args(&["DUMP", key]);
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a bulk string") + 1;
    reply[start..reply.len() - 2].to_vec()
}

fn restore(t: &mut Fixture, key: &str, ttl: &str, payload: &[u8], options: &[&str]) -> String {
    let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
    words.extend(options.iter().map(|word| word.as_bytes()));
    crate::testing::show(&t.run_args(&words))
}

#[test]
fn dump_and_restore() {
    let mut t = Fixture::new();
    assert_eq!(t.run("DUMP missing"), "nil");
    t.run("RPUSH l a 2 c");
    let list = dump(&mut t, "l");
    assert_eq!(restore(&mut t, "l", "0", &list, &[]), "-BUSYKEY Target key name already exists.");
    assert_eq!(restore(&mut t, "m", "0", &list, &[]), "+OK");
    assert_eq!(t.events(), ["new m", "restore m"]);
    assert_eq!(t.run("LRANGE m 0 -1"), r#"["a" "2" "c"]"#);
    assert_eq!(restore(&mut t, "m", "-1", &list, &["REPLACE"]), "-ERR Invalid TTL value, must be >= 0");
    assert_eq!(restore(&mut t, "n", "0", &list[1..], &[]), "-ERR DUMP payload version or checksum are wrong");
    assert_eq!(restore(&mut t, "n", "0", &list, &["IDLETIME", "1", "FREQ", "1"]), "-ERR syntax error");
    assert_eq!(restore(&mut t, "n", "500", &list, &["IDLETIME", "7"]), "+OK");
    assert!(t.effects()[0].ends_with(" IDLETIME 7 ABSTTL"));
    assert!(t.effects()[0].starts_with(&format!("RESTORE n {} ", START_MS + 500)));
    assert_eq!(t.run("PTTL n"), ":500");
    assert_eq!(t.run("OBJECT IDLETIME n"), ":7");
    // A time that has passed: the old value is removed, no other comes.
    assert_eq!(restore(&mut t, "n", "1", &list, &["ABSTTL", "REPLACE"]), "+OK");
    assert_eq!(t.effects(), ["DEL n"]);
    assert_eq!(t.run("EXISTS n"), ":0");
}

#[test]
fn restored_hash_fields_expire() {
    let mut t = Fixture::new();
    t.run("HSET h f v g w");
    t.run("HPEXPIRE h 100 FIELDS 1 f");
    let hash = dump(&mut t, "h");
    assert_eq!(restore(&mut t, "copy", "0", &hash, &[]), "+OK");
    t.advance_ms(100);
    t.expire_due();
    assert_eq!(t.run("HGETALL copy"), r#"["g" "w"]"#);
}
