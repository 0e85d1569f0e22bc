//! The hash commands through the table.

use crate::testing::{Fixture, START_MS};
use martlet_types::hash::HashLimits;

fn with(lines: &[&str]) -> Fixture {
    let mut t = Fixture::new();
    for line in lines {
        let reply = t.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    t
}

/// The words of an array reply, sorted.
fn sorted(reply: &str) -> Vec<String> {
    let inner = reply.trim_matches(|c| "[]{}".contains(c));
    let mut words: Vec<String> = inner.split_whitespace().map(|word| word.trim_matches('"').into()).collect();
    words.sort();
    words
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn setting_and_reading() {
    let mut t = with(&[]);
    assert_eq!(t.run("HSET h a 1 b x a 2"), ":2");
    assert_eq!((t.dirty, t.effects()), (3, ["HSET h a 1 b x a 2".to_string()].as_slice()));
    assert_eq!(t.events(), ["new h", "hset h"]);
    assert_eq!(t.run("HSET h a 3 c 4"), ":1");
    assert_eq!(t.run("HSET h a"), "-ERR wrong number of arguments for 'hset' command");
    assert_eq!(t.run("HSET h a 1 b"), "-ERR wrong number of arguments for 'hset' command");
    assert_eq!(t.run("HMSET h a 1 b"), "-ERR wrong number of arguments for 'hmset' command");
    assert_eq!(t.run("HMSET h b y"), "+OK");
    assert_eq!(t.run("HGET h a"), "\"3\"");
    assert_eq!(t.run("HGET h z"), "nil");
    assert_eq!(t.run("HGET none z"), "nil");
    assert_eq!(t.run("HMGET h a z b"), r#"["3" nil "y"]"#);
    assert_eq!(t.run("HMGET none a b"), "[nil nil]");
    assert_eq!(t.run("HSETNX h a 9"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("HSETNX h d 9"), ":1");
    assert_eq!(t.events(), ["hset h"]);
    assert_eq!(t.run("HSETNX new d 9"), ":1");
    assert_eq!(t.run("HLEN h"), ":4");
    assert_eq!(t.run("HLEN none"), ":0");
    assert_eq!(t.run("HSTRLEN h b"), ":1");
    t.run("HSET h n -123");
    assert_eq!(t.run("HSTRLEN h n"), ":4");
    assert_eq!(t.run("HSTRLEN h z"), ":0");
    assert_eq!(t.run("HEXISTS h a"), ":1");
    assert_eq!(t.run("HEXISTS h z"), ":0");
    assert_eq!(t.run("HEXISTS none z"), ":0");
    assert_eq!(t.run("HGETALL new"), r#"["d" "9"]"#);
    assert_eq!(t.run("HKEYS new"), r#"["d"]"#);
    assert_eq!(t.run("HVALS new"), r#"["9"]"#);
    assert_eq!(t.run("HGETALL none"), "[]");
    t.resp3 = true;
    assert_eq!(t.run("HGETALL new"), r#"{"d" "9"}"#);
    assert_eq!(t.run("HGETALL none"), "{}");
    assert_eq!(t.run("HKEYS none"), "[]");
}

#[test]
fn deleting() {
    let mut t = with(&["HSET h a 1 b 2 c 3"]);
    assert_eq!(t.run("HDEL h x y"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("HDEL h a a x"), ":1");
    assert_eq!((t.dirty, t.events()), (1, ["hdel h".to_string()].as_slice()));
    assert_eq!(t.run("HDEL h b c"), ":2");
    assert_eq!(t.events(), ["hdel h", "del h"]);
    assert_eq!(t.run("EXISTS h"), ":0");
    assert_eq!(t.run("HDEL none b"), ":0");
}

#[test]
fn wrong_types() {
    let mut t = with(&["SET k v"]);
    for line in [
        "HSET k a 1",
        "HMSET k a 1",
        "HSETNX k a 1",
        "HGET k a",
        "HMGET k a",
        "HDEL k a",
        "HLEN k",
        "HSTRLEN k a",
        "HEXISTS k a",
        "HGETALL k",
        "HKEYS k",
        "HVALS k",
        "HINCRBY k a 1",
        "HINCRBYFLOAT k a 1",
        "HSCAN k 0",
        "HRANDFIELD k",
        "HRANDFIELD k 2",
        "HEXPIRE k x y z 1",
        "HPEXPIRE k 1 FIELDS 1 a",
        "HTTL k bad 1 a",
        "HPERSIST k FIELDS 1 a",
        "HGETDEL k bad 1 a",
        "HGETEX k bad 1 a",
        "HSETEX k FIELDS 1 a 1",
        "HSETEX k FXX FIELDS 1 a 1",
    ] {
        let words = line.split(' ').count();
        let line = if line.starts_with("HEXPIRE") && words < 6 { format!("{line} a") } else { line.into() };
        assert_eq!(t.run(&line), WRONG_TYPE, "{line}");
        assert!(t.effects().is_empty());
    }
}

#[test]
fn seconds_are_told_rounded_up() {
    let mut t = with(&["HSET h f 1"]);
    for (ms, seconds) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (100_000, 100)] {
        t.run(&format!("HPEXPIRE h {ms} FIELDS 1 f"));
        assert_eq!(t.run("HTTL h FIELDS 1 f"), format!("[:{seconds}]"), "{ms} ms");
    }
}

#[test]
fn encodings() {
    let mut t = with(&["HSET s a 1"]);
    assert_eq!(t.run("OBJECT ENCODING s"), "\"listpack\"");
    t.run_args(&[b"HSET".as_slice(), b"s", b"b", &[b'x'; 65]]);
    assert_eq!(t.run("OBJECT ENCODING s"), "\"hashtable\"");
    t.settings.hash_limits = HashLimits { listpack_max_entries: 2, ..HashLimits::default() };
    assert_eq!(t.run("HSET l a 1 b 2"), ":2");
    assert_eq!(t.run("OBJECT ENCODING l"), "\"listpack\"");
    t.run("HEXPIRE l 10 FIELDS 1 a");
    assert_eq!(t.run("OBJECT ENCODING l"), "\"listpackex\"");
    t.run("HSET l c 3");
    assert_eq!(t.run("OBJECT ENCODING l"), "\"hashtable\"");
    assert_eq!(t.run("HTTL l FIELDS 3 a b c"), "[:10 :-1 :-1]");
}

#[test]
fn counting() {
    let mut t = with(&["HSET h n 5 s x f 10.5 max 9223372036854775807"]);
    assert_eq!(t.run("HINCRBY h n 3"), ":8");
    assert_eq!((t.dirty, t.effects()), (1, ["HINCRBY h n 3".to_string()].as_slice()));
    assert_eq!(t.events(), ["hincrby h"]);
    assert_eq!(t.run("HINCRBY h new -3"), ":-3");
    assert_eq!(t.run("HINCRBY fresh a 1"), ":1");
    assert_eq!(t.run("HINCRBY h s 1"), "-ERR hash value is not an integer");
    assert_eq!(t.run("HINCRBY h f 1"), "-ERR hash value is not an integer");
    assert_eq!(t.run("HINCRBY h max 1"), "-ERR increment or decrement would overflow");
    assert_eq!(t.run("HINCRBY h n x"), "-ERR value is not an integer or out of range");
    assert_eq!(t.run("HINCRBY bad n 1.5"), "-ERR value is not an integer or out of range");
    assert_eq!(t.run("EXISTS bad"), ":0");
    assert_eq!(t.run("HINCRBYFLOAT h f 0.1"), "\"10.6\"");
    assert_eq!(t.effects(), ["HSET h f 10.6"]);
    assert_eq!(t.events(), ["hincrbyfloat h"]);
    assert_eq!(t.run("HINCRBYFLOAT h n 1"), "\"9\"");
    assert_eq!(t.run("HINCRBYFLOAT h none 1e2"), "\"100\"");
    assert_eq!(t.run("HINCRBYFLOAT h s 1"), "-ERR hash value is not a float");
    assert_eq!(t.run("HINCRBYFLOAT h f x"), "-ERR value is not a valid float");
    assert_eq!(t.run("HINCRBYFLOAT h f inf"), "-ERR value is NaN or Infinity");
    t.run("HPEXPIRE h 100 FIELDS 1 f");
    assert_eq!(t.run("HINCRBYFLOAT h f 1"), "\"11.6\"");
    assert_eq!(t.effects(), ["HSETEX h KEEPTTL FIELDS 1 f 11.6"]);
    assert_eq!(t.run("HPTTL h FIELDS 1 f"), "[:100]");
    assert_eq!(t.run("HPEXPIRE h 100 FIELDS 1 n"), "[:1]");
    t.run("HINCRBY h n 1");
    assert_eq!(t.run("HPTTL h FIELDS 1 n"), "[:100]");
    t.run("HSET h n 1");
    assert_eq!(t.run("HPTTL h FIELDS 1 n"), "[:-1]");
}

#[test]
fn random_fields() {
    let mut t = with(&["HSET h a 1 b 2 c 3"]);
    assert_eq!(t.run("HRANDFIELD none"), "nil");
    assert_eq!(t.run("HRANDFIELD none 3"), "[]");
    assert_eq!(t.run("HRANDFIELD h 0"), "[]");
    assert_eq!(sorted(&t.run("HRANDFIELD h 10")), ["a", "b", "c"]);
    assert_eq!(sorted(&t.run("HRANDFIELD h 10 WITHVALUES")), ["1", "2", "3", "a", "b", "c"]);
    assert_eq!(sorted(&t.run("HRANDFIELD h -10 withvalues")).len(), 20);
    assert_eq!(sorted(&t.run("HRANDFIELD h 2")).len(), 2);
    assert_eq!(t.run("HRANDFIELD h x"), "-ERR value is not an integer or out of range");
    assert_eq!(t.run("HRANDFIELD h 1 VALUES"), "-ERR syntax error");
    assert_eq!(t.run("HRANDFIELD h 1 WITHVALUES x"), "-ERR syntax error");
    assert_eq!(t.run("HRANDFIELD h -9223372036854770000 WITHVALUES"), "-ERR value is out of range");
    assert_eq!(
        t.run("HRANDFIELD h -9223372036854775808"),
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
    );
    t.resp3 = true;
    t.run("HSET one f v");
    assert_eq!(t.run("HRANDFIELD one 2 WITHVALUES"), r#"[["f" "v"]]"#);
    assert_eq!(t.run("HRANDFIELD one -2"), r#"["f" "f"]"#);
}

#[test]
fn scanning() {
    let mut t = with(&["HSET h a 1 ab 2 b 3"]);
    assert_eq!(t.run("HSCAN h 0"), r#"["0" ["a" "1" "ab" "2" "b" "3"]]"#);
    assert_eq!(t.run("HSCAN h 0 MATCH a* NOVALUES COUNT 1"), r#"["0" ["a" "ab"]]"#);
    assert_eq!(t.run("HSCAN none 0"), r#"["0" []]"#);
    assert_eq!(t.run("HSCAN h x"), "-ERR invalid cursor");
    assert_eq!(t.run("HSCAN h 0 COUNT"), "-ERR syntax error");
    t.run("HPEXPIRE h 5 FIELDS 2 a b");
    t.advance_ms(5);
    assert_eq!(t.run("HSCAN h 0"), r#"["0" ["ab" "2"]]"#);
    assert_eq!(t.run("HLEN h"), ":3");
}

#[test]
fn expiry_of_fields() {
    let mut t = with(&["HSET h a 1 b 2 c 3"]);
    assert_eq!(t.run("HPEXPIRE h 100 FIELDS 2 a z"), "[:1 :-2]");
    assert_eq!(t.effects(), [format!("HPEXPIREAT h {} FIELDS 1 a", START_MS + 100)]);
    assert_eq!((t.dirty, t.events()), (1, ["hexpire h".to_string()].as_slice()));
    assert_eq!(t.run("HEXPIRE h 10 NX FIELDS 2 a b"), "[:0 :1]");
    assert_eq!(t.effects(), [format!("HPEXPIREAT h {} NX FIELDS 1 b", START_MS + 10_000)]);
    assert_eq!(t.run("HEXPIRE h 10 XX FIELDS 2 a c"), "[:1 :0]");
    assert_eq!(t.run("HEXPIRE h 10 GT FIELDS 2 a c"), "[:0 :0]");
    assert_eq!(t.run("HEXPIRE h 20 gt FIELDS 1 a"), "[:1]");
    assert_eq!(t.run("HEXPIRE h 30 LT FIELDS 2 a c"), "[:0 :1]");
    assert_eq!(t.run("HTTL h FIELDS 4 a b c z"), "[:20 :10 :30 :-2]");
    assert_eq!(t.run("HPTTL h FIELDS 1 a"), "[:20000]");
    assert_eq!(t.run("HEXPIRETIME h FIELDS 1 a"), format!("[:{}]", START_MS / 1000 + 20));
    assert_eq!(t.run("HPEXPIRETIME h FIELDS 1 a"), format!("[:{}]", START_MS + 20_000));
    assert_eq!(t.run("HTTL none FIELDS 2 a b"), "[:-2 :-2]");
    assert_eq!(t.run("HEXPIRE none 1 FIELDS 2 a b"), "[:-2 :-2]");
    assert_eq!(t.run("HPERSIST h FIELDS 3 a z a"), "[:1 :-2 :-1]");
    assert_eq!((t.dirty, t.events()), (1, ["hpersist h".to_string()].as_slice()));
    assert_eq!(t.run("HPERSIST h FIELDS 1 a"), "[:-1]");
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("HPERSIST none FIELDS 1 a"), "[:-2]");
    assert_eq!(t.run("HPEXPIREAT h 1 FIELDS 3 a z b"), "[:2 :-2 :2]");
    assert_eq!(t.effects(), ["HDEL h a", "HDEL h b"]);
    assert_eq!((t.dirty, t.events()), (2, ["hdel h".to_string()].as_slice()));
    assert_eq!(t.run("HEXPIRE h 0 FIELDS 1 c"), "[:2]");
    assert_eq!(t.events(), ["hdel h", "del h"]);
    assert_eq!(t.run("EXISTS h"), ":0");
}

#[test]
fn bad_expiry_arguments() {
    let mut t = with(&["HSET h a 1"]);
    let negative = "-ERR invalid expire time, must be >= 0";
    assert_eq!(t.run("HEXPIRE h -1 FIELDS 1 a"), negative);
    assert_eq!(t.run("HEXPIRE h x FIELDS 1 a"), "-ERR value is not an integer or out of range");
    for (command, time) in [
        ("hexpire", 281_474_976_710_i64),
        ("hexpireat", 281_474_976_710),
        ("hpexpire", 1 << 46),
        ("hpexpireat", 1 << 46),
        ("hexpire", i64::MAX),
        ("hpexpire", i64::MAX),
    ] {
        let error = format!("-ERR invalid expire time in '{command}' command");
        assert_eq!(t.run(&format!("{command} h {time} FIELDS 1 a")), error);
    }
    assert_eq!(t.run("HPEXPIREAT h 70368744177663 FIELDS 1 a"), "[:1]");
    let missing = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    assert_eq!(t.run("HEXPIRE h 1 FIELD 1 a"), missing);
    assert_eq!(t.run("HEXPIRE h 1 NX NX 1 a"), missing);
    assert_eq!(t.run("HTTL h FIELD 1 a"), missing);
    assert_eq!(t.run("HEXPIRE h 1 FIELDS 0 a"), "-ERR Parameter `numFields` should be greater than 0");
    assert_eq!(t.run("HTTL h FIELDS x a"), "-ERR Number of fields must be a positive integer");
    let count = "-ERR The `numfields` parameter must match the number of arguments";
    assert_eq!(t.run("HEXPIRE h 1 FIELDS 2 a"), count);
    assert_eq!(t.run("HEXPIRE h 1 NX FIELDS 1"), count);
    assert_eq!(t.run("HTTL h FIELDS 1 a b"), count);
    assert_eq!(t.run("HPERSIST h FIELDS 2 a"), count);
    assert_eq!(t.run("HEXPIRE h 1 FIELDS 1"), "-ERR wrong number of arguments for 'hexpire' command");
}

#[test]
fn fields_met_after_their_time_are_deleted() {
    for limits in [HashLimits::default(), HashLimits { listpack_max_entries: 0, ..HashLimits::default() }] {
        let mut t = Fixture::new();
        t.settings.hash_limits = limits;
        t.run("HSET h a 1 b 2 c 3 d 4 e 5 f 6");
        assert_eq!(t.run("HPEXPIRE h 5 FIELDS 5 a b c d e"), "[:1 :1 :1 :1 :1]");
        t.advance_ms(5);
        assert_eq!((t.run("EXISTS h"), t.run("HLEN h")), (":1".into(), ":6".into()));
        assert_eq!(sorted(&t.run("HGETALL h")), ["6", "f"]);
        assert_eq!(t.run("HLEN h"), ":6");
        assert_eq!(t.run("HGET h a"), "nil");
        assert_eq!(
            (t.effects(), t.events()),
            (["HDEL h a"].map(String::from).as_slice(), ["hexpired h"].map(String::from).as_slice())
        );
        assert_eq!((t.dirty, t.run("HLEN h")), (0, ":5".into()));
        assert_eq!(t.run("HINCRBY h b 1"), ":1");
        assert_eq!(t.effects(), ["HDEL h b", "HINCRBY h b 1"]);
        assert_eq!(t.run("HTTL h FIELDS 2 b c"), "[:-1 :-2]");
        assert_eq!(t.run("HMGET h c f"), r#"[nil "6"]"#);
        assert_eq!(t.effects(), ["HDEL h c"]);
        assert_eq!(t.run("HEXPIRE h 10 FIELDS 1 d"), "[:-2]");
        assert_eq!(t.run("HDEL h d"), ":1");
        assert_eq!(sorted(&t.run("HRANDFIELD h 9")), ["b", "f"]);
        assert_eq!(t.effects(), ["HDEL h e"]);
        assert_eq!(t.run("HLEN h"), ":2");
        // The last fields take the key with them.
        assert_eq!(t.run("HPEXPIRE h 5 FIELDS 2 b f"), "[:1 :1]");
        t.advance_ms(5);
        assert_eq!(t.run("HMGET h b f"), "[nil nil]");
        assert_eq!(t.events(), ["hexpired h", "del h"]);
        assert_eq!(t.run("EXISTS h"), ":0");
    }
}

#[test]
fn due_fields_are_collected() {
    let mut t = with(&["HSET h a 1 b 2", "HSET k a 1", "HPEXPIRE h 5 FIELDS 1 a", "HPEXPIRE k 6 FIELDS 1 a"]);
    t.run("HPEXPIRE h 3 FIELDS 1 a");
    t.advance_ms(4);
    t.expire_due();
    assert_eq!((t.run("HLEN h"), t.run("HLEN k")), (":1".into(), ":1".into()));
    t.advance_ms(4);
    t.expire_due();
    assert_eq!((t.run("HLEN h"), t.run("EXISTS k")), (":1".into(), ":0".into()));
    // Moved and copied hashes are still looked after.
    t.run("HPEXPIRE h 5 FIELDS 1 b");
    assert_eq!(t.run("COPY h copy"), ":1");
    assert_eq!(t.run("RENAME h moved"), "+OK");
    assert_eq!(t.run("MOVE copy 1"), ":1");
    t.advance_ms(5);
    t.expire_due();
    assert_eq!(t.run("EXISTS moved"), ":0");
    t.keys.see(martlet_engine::View { db: 1, ..t.keys.view() });
    assert_eq!(t.run("EXISTS copy"), ":0");
    t.keys.see(martlet_engine::View { db: 0, ..t.keys.view() });
    // Deleted, overwritten and persisted ones are not.
    t.run("HSET a f v");
    t.run("HPEXPIRE a 5 FIELDS 1 f");
    t.run("DEL a");
    t.run("HSET b f v");
    t.run("HPEXPIRE b 5 FIELDS 1 f");
    t.run("SET b v");
    t.run("HSET c f v");
    t.run("HPEXPIRE c 5 FIELDS 1 f");
    t.run("HPERSIST c FIELDS 1 f");
    t.run("HSET a f new");
    t.advance_ms(10);
    t.expire_due();
    assert_eq!(t.run("HGET a f"), "\"new\"");
    assert_eq!(t.run("GET b"), "\"v\"");
    assert_eq!(t.run("HGET c f"), "\"v\"");
}

#[test]
fn getting_and_deleting() {
    let mut t = with(&["HSET h a 1 b 2 c 3"]);
    assert_eq!(t.run("HGETDEL h FIELDS 3 a z a"), r#"["1" nil nil]"#);
    assert_eq!((t.dirty, t.effects()), (1, ["HDEL h a".to_string()].as_slice()));
    assert_eq!(t.events(), ["hdel h"]);
    assert_eq!(t.run("HGETDEL h FIELDS 2 b c"), r#"["2" "3"]"#);
    assert_eq!(t.events(), ["hdel h", "del h"]);
    assert_eq!(t.run("HGETDEL h FIELDS 1 b"), "[nil]");
    assert!(t.effects().is_empty());
    let missing = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    assert_eq!(t.run("HGETDEL h FIELD 1 b"), missing);
    assert_eq!(t.run("HGETDEL h FIELDS 0 b"), "-ERR Number of fields must be a positive integer");
    let count = "-ERR The `numfields` parameter must match the number of arguments";
    assert_eq!(t.run("HGETDEL h FIELDS 2 b"), count);
    assert_eq!(t.run("HGETDEL h FIELDS 1"), "-ERR wrong number of arguments for 'hgetdel' command");
    t.run("HSET h a 1 b 2");
    t.run("HPEXPIRE h 5 FIELDS 1 a");
    t.advance_ms(5);
    assert_eq!(t.run("HGETDEL h FIELDS 2 a b"), r#"[nil "2"]"#);
    assert_eq!(t.effects(), ["HDEL h a", "HDEL h b"]);
    assert_eq!(t.events(), ["hexpired h", "hdel h", "del h"]);
}

#[test]
fn getting_and_expiring() {
    let mut t = with(&["HSET h a 1 b 2"]);
    assert_eq!(t.run("HGETEX h FIELDS 2 a z"), r#"["1" nil]"#);
    assert!(t.effects().is_empty());
    assert_eq!(t.run("HGETEX h PX 100 FIELDS 2 a z"), r#"["1" nil]"#);
    assert_eq!(t.effects(), [format!("HPEXPIREAT h {} FIELDS 1 a", START_MS + 100)]);
    assert_eq!(t.events(), ["hexpire h"]);
    assert_eq!(t.run("HGETEX h EX 10 FIELDS 1 b"), r#"["2"]"#);
    assert_eq!(t.run("HPTTL h FIELDS 2 a b"), "[:100 :10000]");
    assert_eq!(t.run("HGETEX h PERSIST FIELDS 2 a z"), r#"["1" nil]"#);
    assert_eq!(t.effects(), ["HPERSIST h FIELDS 2 a z"]);
    assert_eq!(t.events(), ["hpersist h"]);
    assert_eq!(t.run("HGETEX h PERSIST FIELDS 1 a"), r#"["1"]"#);
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("HGETEX h EXAT 1 FIELDS 1 a"), r#"["1"]"#);
    assert_eq!(t.effects(), ["HDEL h a"]);
    assert_eq!(t.events(), ["hdel h"]);
    assert_eq!(t.run("HGETEX h PXAT 1 FIELDS 1 b"), r#"["2"]"#);
    assert_eq!(t.events(), ["hdel h", "del h"]);
    assert_eq!(t.run("HGETEX h PX 1 FIELDS 2 a b"), "[nil nil]");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("HGETEX h PX -1 FIELDS 1 a"), "-ERR invalid expire time, must be >= 0");
    assert_eq!(t.run("HGETEX h PX x FIELDS 1 a"), "-ERR value is not an integer or out of range");
    let too_late = "-ERR invalid expire time in 'hgetex' command";
    assert_eq!(t.run("HGETEX h EX 9223372036854775807 FIELDS 1 a"), too_late);
    let missing = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    assert_eq!(t.run("HGETEX h PX 1 PX 1 FIELDS 1 a"), missing);
    assert_eq!(t.run("HGETEX h KEEPTTL FIELDS 1 a"), missing);
}

#[test]
fn setting_with_expiry() {
    let mut t = with(&[]);
    assert_eq!(t.run("HSETEX h FIELDS 2 a 1 b 2"), ":1");
    assert_eq!((t.dirty, t.effects()), (2, ["HSETEX h FIELDS 2 a 1 b 2".to_string()].as_slice()));
    assert_eq!(t.events(), ["new h", "hset h"]);
    assert_eq!(t.run("HSETEX h EX 10 FIELDS 1 a 3"), ":1");
    assert_eq!(t.effects(), [format!("HSETEX h PXAT {} FIELDS 1 a 3", START_MS + 10_000)]);
    assert_eq!(t.events(), ["hset h", "hexpire h"]);
    assert_eq!(t.run("HSETEX h KEEPTTL FIELDS 2 a 4 b 5"), ":1");
    assert_eq!(t.run("HTTL h FIELDS 2 a b"), "[:10 :-1]");
    assert_eq!(t.run("HSETEX h FIELDS 1 a 5"), ":1");
    assert_eq!(t.run("HTTL h FIELDS 1 a"), "[:-1]");
    assert_eq!(t.run("HSETEX h FNX FIELDS 2 z 1 a 2"), ":0");
    assert_eq!(t.run("HSETEX h FXX FIELDS 2 z 1 a 2"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("HSETEX none FXX FIELDS 1 z 1"), ":0");
    assert_eq!(t.run("EXISTS none"), ":0");
    assert_eq!(t.run("HSETEX h FXX PX 50 FIELDS 2 a 6 b 7"), ":1");
    assert_eq!(t.effects(), [format!("HSETEX h FXX PXAT {} FIELDS 2 a 6 b 7", START_MS + 50)]);
    assert_eq!(t.run("HSETEX h FNX FIELDS 1 c 8"), ":1");
    t.advance_ms(50);
    assert_eq!(t.run("HSETEX h FNX FIELDS 2 a 1 b 2"), ":1");
    assert_eq!(t.effects(), ["HDEL h a", "HDEL h b", "HSETEX h FNX FIELDS 2 a 1 b 2"]);
    assert_eq!(t.run("HSETEX h PXAT 1 FIELDS 2 a 1 new 2"), ":1");
    assert_eq!(t.effects(), ["HDEL h a", "HDEL h new"]);
    assert_eq!(t.events(), ["hset h", "hdel h"]);
    assert_eq!(t.run("HSETEX h EX 0 FIELDS 2 b 1 c 2"), ":1");
    assert_eq!(t.events(), ["hset h", "hdel h", "del h"]);
    assert_eq!(t.run("EXISTS h"), ":0");
}

#[test]
fn bad_arguments_for_setting_with_expiry() {
    let mut t = with(&[]);
    let arity = "-ERR wrong number of arguments for 'hsetex' command";
    for (line, error) in [
        ("HSETEX h FIELDS 1 a", arity),
        ("HSETEX h FIELDS 2 a 1", arity),
        ("HSETEX h FIELDS 1 a 1 b", arity),
        ("HSETEX h EX 10 FIELDS 1", arity),
        ("HSETEX h FIELDS 0 a 1", "-ERR invalid number of fields"),
        ("HSETEX h FIELDS x a 1", "-ERR invalid number of fields"),
        ("HSETEX h FXX FNX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
        (
            "HSETEX h EX 1 KEEPTTL FIELDS 1 a 1",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HSETEX h FNX KEEPTTL x EX", "-ERR unknown argument: x"),
        (
            "HSETEX h FNX EX 1 PX 1",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HSETEX h FNX nonsense 1 a 1", "-ERR unknown argument: nonsense"),
        ("HSETEX h EX -1 FIELDS 1 a 1", "-ERR invalid expire time, must be >= 0"),
        ("HSETEX h EX x FIELDS 1 a 1", "-ERR value is not an integer or out of range"),
        ("HSETEX h PX 70368744177664 FIELDS 1 a 1", "-ERR invalid expire time in 'hsetex' command"),
    ] {
        assert_eq!(t.run(line), error, "{line}");
        assert_eq!(t.run("EXISTS h"), ":0");
    }
}

#[test]
fn importing() {
    let mut t = Fixture::new();
    let no_set = "-ERR no such fieldset";
    for (request, reply) in [
        ("HIMPORT SET k f 1 2 3", no_set),
        ("HIMPORT PREPARE f bb a ccc", "+OK"),
        ("HIMPORT SET k f 2 1 3", "+OK"),
        ("HGETALL k", r#"["a" "1" "bb" "2" "ccc" "3"]"#),
        ("HIMPORT SET k f 2 1", "-ERR value count does not match fieldset field count"),
        ("HIMPORT SET k f 2 1 3 4", "-ERR value count does not match fieldset field count"),
        ("HIMPORT PREPARE f x y x", "-ERR duplicate field name in fieldset"),
        ("HIMPORT SET k f 4 5 6", "+OK"),
        ("HGET k a", "\"5\""),
        ("SET s v", "+OK"),
        ("HIMPORT SET s missing 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HIMPORT PREPARE f x", "+OK"),
        ("HIMPORT PREPARE g x y", "+OK"),
        ("HIMPORT SET k f 1", "+OK"),
        ("HGETALL k", r#"["x" "1"]"#),
        ("HIMPORT DISCARD f", ":1"),
        ("HIMPORT DISCARD f", ":0"),
        ("HIMPORT SET k f 1", no_set),
        ("HIMPORT PREPARE h x y", "+OK"),
        ("HIMPORT DISCARDALL", ":2"),
        ("HIMPORT DISCARDALL", ":0"),
        ("HGETALL k", r#"["x" "1"]"#),
    ] {
        assert_eq!(t.run(request), reply, "{request}");
    }
    assert_eq!(t.fieldsets.bytes(), 0);
}

#[test]
fn imported_hashes_are_journalled_whole() {
    let mut t = Fixture::new();
    t.run("HIMPORT PREPARE f a b");
    assert!(t.effects().is_empty() && t.fieldsets.bytes() > 0);
    t.run("HSET k old field");
    t.run("PEXPIRE k 1000");
    assert_eq!(t.run_args(&["HIMPORT", "SET", "k", "f", "1", "x\r\n"]), b"+OK\r\n");
    assert_eq!((t.events(), t.dirty), (&["overwritten k".to_owned(), "hset k".to_owned()][..], 1));
    let effect = &t.effects()[0];
    assert!(effect.starts_with("RESTORE k 0 ") && effect.ends_with(" REPLACE"), "{effect}");
    assert_eq!(t.run("PTTL k"), ":-1");
    // The journal's records make the same hash.
    let dump = t.run_args(&["DUMP", "k"]);
    let start = dump.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(t.run_args(&[b"RESTORE", &b"l"[..], b"0", &dump[start..dump.len() - 2]]), b"+OK\r\n");
    assert_eq!(t.run_args(&["HGETALL", "l"]), t.run_args(&["HGETALL", "k"]));
    // Large ones are hashtables at once.
    let fields: Vec<String> = (0..600).map(|i| format!("field:{i}")).collect();
    let mut request = vec!["HIMPORT".to_owned(), "PREPARE".to_owned(), "large".to_owned()];
    request.extend(fields.iter().cloned());
    assert_eq!(t.run_args(&request), b"+OK\r\n");
    let mut request = ["HIMPORT", "SET", "m", "large"].map(str::to_owned).to_vec();
    request.extend((0..600).map(|i| i.to_string()));
    assert_eq!(t.run_args(&request), b"+OK\r\n");
    assert_eq!(t.run("OBJECT ENCODING m"), "\"hashtable\"");
    assert_eq!((t.run("HLEN m").as_str(), t.run("HGET m field:123").as_str()), (":600", "\"123\""));
}

#[test]
fn setting_by_whether_the_key_exists() {
    let mut t = Fixture::new();
    t.run("SET s v");
    for (request, reply, effects) in [
        ("HSETEX h XX FIELDS 1 a 1", ":0", &[][..]),
        ("HSETEX h NX EX 10 FIELDS 1 a 1", ":1", &["HSETEX h PXAT 1700000010000 FIELDS 1 a 1"]),
        ("HSETEX h NX FNX FIELDS 1 b 1", ":0", &[]),
        ("HSETEX h XX FNX FIELDS 1 a 2", ":0", &[]),
        ("HSETEX h FXX XX KEEPTTL FIELDS 1 a 2", ":1", &["HSETEX h FXX KEEPTTL FIELDS 1 a 2"]),
        ("HSETEX h XX FIELDS 2 b 3 c 4", ":1", &["HSETEX h FIELDS 2 b 3 c 4"]),
        ("HTTL h FIELDS 2 a b", "[:10 :-1]", &[]),
        ("HSETEX h NX NX FIELDS 1 a 1", ":0", &[]),
        ("HSETEX h NX XX FIELDS 1 a 1", "-ERR syntax error", &[]),
        (
            "HSETEX s NX FIELDS 1 a 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            &[],
        ),
    ] {
        assert_eq!(t.run(request), reply, "{request}");
        assert_eq!(t.effects(), effects, "{request}");
    }
}

/// As Valkey a field that is given a time in the past has expired.
#[test]
fn fields_with_times_in_the_past_expire_or_are_deleted() {
    for past_times_expire in [false, true] {
        let mut t = Fixture::new();
        t.keys.effects.deletions.past_times_expire = past_times_expire;
        let event = if past_times_expire { "hexpired h" } else { "hdel h" };
        for request in ["HEXPIRE h 0 FIELDS 1 a", "HGETEX h PXAT 1 FIELDS 1 a"] {
            t.run("HSET h a 1");
            t.run(request);
            assert_eq!(
                (t.effects(), t.events()),
                (&["HDEL h a".to_owned()][..], &[event, "del h"].map(String::from)[..])
            );
        }
        t.run("HSETEX h EXAT 1 FIELDS 1 a 1");
        let of_set: &[&str] =
            if past_times_expire { &["new h", "hset h", "hexpire h"] } else { &["new h", "hset h"] };
        assert_eq!(t.events(), [of_set, &[event, "del h"]].concat());
    }
}

/// A field that has expired is deleted for followers, too, before another one takes its name: they would keep
/// its time.
#[test]
fn keepttl_keeps_no_time_that_has_passed() {
    let mut t = Fixture::new();
    t.run("HSET h a 1 b 1");
    t.run("HPEXPIRE h 5 FIELDS 1 a");
    t.advance_ms(5);
    assert_eq!(t.run("HSETEX h KEEPTTL FIELDS 2 a 2 b 2"), ":1");
    assert_eq!(t.effects(), ["HDEL h a", "HSETEX h KEEPTTL FIELDS 2 a 2 b 2"]);
    assert_eq!(t.run("HPTTL h FIELDS 2 a b"), "[:-1 :-1]");
    t.run("HPEXPIRE h 5 FIELDS 2 a b");
    t.advance_ms(5);
    assert_eq!(t.run("HSETEX h KEEPTTL FIELDS 1 c 3"), ":1");
    assert_eq!(t.run("HSETEX h KEEPTTL FIELDS 2 a 3 b 3"), ":1");
    assert_eq!(t.run("HMGET h a b c"), r#"["3" "3" "3"]"#);
}
