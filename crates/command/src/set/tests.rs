//! The set commands through the table.

use crate::testing::Fixture;
use martlet_types::set::SetLimits;

pub(super) fn with(lines: &[&str]) -> Fixture {
    let mut t = Fixture::new();
    for line in lines {
        let reply = t.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    t
}

/// The words of an array or set reply, sorted.
pub(super) fn sorted(reply: &str) -> Vec<String> {
    let inner = reply.trim_start_matches('~').trim_start_matches('[').trim_end_matches(']');
    let mut words: Vec<String> = inner.split_whitespace().map(|word| word.trim_matches('"').into()).collect();
    words.sort();
    words
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn adding_and_removing() {
    let mut t = with(&[]);
    assert_eq!(t.run("SADD s a b a"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, ["SADD s a b a".to_string()].as_slice()));
    assert_eq!(t.events(), ["new s", "sadd s"]);
    assert_eq!(t.run("SADD s a"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("SISMEMBER s a"), ":1");
    assert_eq!(t.run("SISMEMBER s c"), ":0");
    assert_eq!(t.run("SISMEMBER none c"), ":0");
    assert_eq!(t.run("SMISMEMBER s c a b"), "[:0 :1 :1]");
    assert_eq!(t.run("SMISMEMBER none c a"), "[:0 :0]");
    assert_eq!(t.run("SCARD s"), ":2");
    assert_eq!(t.run("SCARD none"), ":0");
    assert_eq!(sorted(&t.run("SMEMBERS s")), ["a", "b"]);
    assert_eq!(t.run("SMEMBERS none"), "[]");
    assert_eq!(t.run("SREM s x y"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("SREM s a x"), ":1");
    assert_eq!(t.events(), ["srem s"]);
    assert_eq!(t.run("SREM s b"), ":1");
    assert_eq!(t.events(), ["srem s", "del s"]);
    assert_eq!(t.run("EXISTS s"), ":0");
    t.resp3 = true;
    t.run("SADD s 1 2");
    assert_eq!(t.run("SMEMBERS s"), r#"~["1" "2"]"#);
    assert_eq!(t.run("SMEMBERS none"), "~[]");
}

#[test]
fn wrong_types() {
    let mut t = with(&["SET k v", "SADD s a"]);
    for line in [
        "SADD k a",
        "SREM k a",
        "SMEMBERS k",
        "SISMEMBER k a",
        "SMISMEMBER k a",
        "SCARD k",
        "SMOVE k s a",
        "SMOVE s k a",
        "SPOP k",
        "SPOP k 2",
        "SRANDMEMBER k",
        "SRANDMEMBER k 2",
        "SSCAN k 0",
        "SINTER s k",
        "SINTER none k",
        "SINTERCARD 2 s k",
        "SINTERSTORE d s k",
        "SUNION s k",
        "SUNIONSTORE d k",
        "SDIFF s k",
        "SDIFFSTORE d s k",
    ] {
        assert_eq!(t.run(line), WRONG_TYPE, "{line}");
        assert!(t.effects().is_empty());
    }
    assert_eq!(t.run("SUNIONSTORE k s"), ":1");
    assert_eq!(t.run("TYPE k"), "+set");
}

#[test]
fn encodings() {
    let mut t = with(&["SADD i 1 2 3", "SADD l 1 a", "SADD h 1"]);
    t.run_args(&[b"SADD".as_slice(), b"h", &[b'x'; 65]]);
    assert_eq!(t.run("OBJECT ENCODING i"), "\"intset\"");
    assert_eq!(t.run("OBJECT ENCODING l"), "\"listpack\"");
    assert_eq!(t.run("OBJECT ENCODING h"), "\"hashtable\"");
    t.settings.set_limits = SetLimits { intset_max_entries: 3, ..SetLimits::default() };
    t.run("SADD i 4");
    assert_eq!(t.run("OBJECT ENCODING i"), "\"hashtable\"");
    t.run("SADD n 1 2 3 4");
    assert_eq!(t.run("OBJECT ENCODING n"), "\"listpack\"");
}

#[test]
fn moving() {
    let mut t = with(&["SADD a 1 x", "SADD b 2 3"]);
    assert_eq!(t.run("SMOVE a b y"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("SMOVE a b x"), ":1");
    assert_eq!((t.dirty, t.events()), (2, ["srem a", "sadd b"].map(String::from).as_slice()));
    assert_eq!(t.run("SMOVE a a 1"), ":1");
    assert_eq!(t.run("SMOVE a a 9"), ":0");
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("SMOVE a new 1"), ":1");
    assert_eq!(t.events(), ["srem a", "del a", "new new", "sadd new"]);
    assert_eq!(t.run("OBJECT ENCODING new"), "\"intset\"");
    assert_eq!(t.run("SMOVE none b 1"), ":0");
    assert_eq!(t.run("SADD c 2"), ":1");
    assert_eq!(t.run("SMOVE c b 2"), ":1");
    assert_eq!((t.dirty, t.events()), (1, ["srem c", "del c"].map(String::from).as_slice()));
    assert_eq!(sorted(&t.run("SMEMBERS b")), ["2", "3", "x"]);
}

#[test]
fn popping() {
    let mut t = with(&["SADD s a"]);
    assert_eq!(t.run("SPOP none"), "nil");
    assert_eq!(t.run("SPOP none 3"), "[]");
    assert_eq!(t.run("SPOP s 0"), "[]");
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("SPOP s"), "\"a\"");
    assert_eq!(t.effects(), ["SREM s a"]);
    assert_eq!(t.events(), ["spop s", "del s"]);
    assert_eq!(t.run("EXISTS s"), ":0");
    for bad in ["-1", "x", "1.5"] {
        assert_eq!(t.run(&format!("SPOP s {bad}")), "-ERR value is out of range, must be positive");
    }
    assert_eq!(t.run("SPOP s 1 2"), "-ERR syntax error");
    let members: Vec<String> = (0..3000).map(|i| format!("m{i}")).collect();
    t.run(&format!("SADD s {}", members.join(" ")));
    let popped = sorted(&t.run("SPOP s 1500"));
    assert_eq!((popped.len(), t.dirty), (1500, 1500));
    assert!(popped.windows(2).all(|pair| pair[0] != pair[1]));
    let journalled: Vec<usize> = t.effects().iter().map(|line| line.split(' ').count() - 2).collect();
    assert_eq!(journalled, [1024, 476]);
    assert!(t.effects().iter().all(|line| line.starts_with("SREM s ")));
    assert_eq!(t.events(), ["spop s"]);
    let rest = t.run("SPOP s 99999");
    assert_eq!((sorted(&rest).len(), t.dirty), (1500, 1500));
    assert_eq!(t.effects(), ["DEL s"]);
    assert_eq!(t.events(), ["spop s", "del s"]);
    t.resp3 = true;
    t.run("SADD s 1 2 3");
    assert!(t.run("SPOP s 2").starts_with("~["));
}

#[test]
fn random_members() {
    let mut t = with(&["SADD s a b c"]);
    assert_eq!(t.run("SRANDMEMBER none"), "nil");
    assert_eq!(t.run("SRANDMEMBER none 3"), "[]");
    assert_eq!(t.run("SRANDMEMBER s 0"), "[]");
    assert_eq!(sorted(&t.run("SRANDMEMBER s 10")), ["a", "b", "c"]);
    assert_eq!(sorted(&t.run("SRANDMEMBER s -10")).len(), 10);
    assert_eq!(sorted(&t.run("SRANDMEMBER s 2")).len(), 2);
    assert!(["\"a\"", "\"b\"", "\"c\""].contains(&t.run("SRANDMEMBER s").as_str()));
    assert_eq!(t.run("SRANDMEMBER s x"), "-ERR value is not an integer or out of range");
    assert_eq!(
        t.run("SRANDMEMBER s -9223372036854775808"),
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
    );
    assert_eq!(t.run("SRANDMEMBER s -9223372036854775807"), "-ERR value is out of range");
    assert_eq!(t.run("SRANDMEMBER s 1 2"), "-ERR syntax error");
    assert_eq!(t.dirty, 0);
}

#[test]
fn algebra() {
    let mut t = with(&["SADD a 1 2 3 x", "SADD b 2 3 4 x", "SADD c 3 x y"]);
    assert_eq!(sorted(&t.run("SINTER a b c")), ["3", "x"]);
    assert_eq!(sorted(&t.run("SINTER a a")), ["1", "2", "3", "x"]);
    assert_eq!(t.run("SINTER a none"), "[]");
    assert_eq!(sorted(&t.run("SUNION a b c none")), ["1", "2", "3", "4", "x", "y"]);
    assert_eq!(t.run("SUNION none"), "[]");
    assert_eq!(sorted(&t.run("SDIFF a b")), ["1"]);
    assert_eq!(sorted(&t.run("SDIFF a none c")), ["1", "2"]);
    assert_eq!(t.run("SDIFF a b a"), "[]");
    assert_eq!(t.run("SDIFF none a"), "[]");
    assert_eq!(t.run("SINTERCARD 3 a b c"), ":2");
    assert_eq!(t.run("SINTERCARD 2 a b LIMIT 1"), ":1");
    assert_eq!(t.run("SINTERCARD 2 a b limit 0"), ":3");
    assert_eq!(t.run("SINTERCARD 2 a b LIMIT 0 LIMIT 2"), ":2");
    assert_eq!(t.run("SINTERCARD 0 a b"), "-ERR numkeys should be greater than 0");
    assert_eq!(t.run("SINTERCARD x a b"), "-ERR numkeys should be greater than 0");
    assert_eq!(t.run("SINTERCARD 3 a b"), "-ERR Number of keys can't be greater than number of args");
    assert_eq!(t.run("SINTERCARD 2 a b LIMIT -1"), "-ERR LIMIT can't be negative");
    assert_eq!(t.run("SINTERCARD 2 a b LIMIT"), "-ERR syntax error");
    assert_eq!(t.run("SINTERCARD 1 a b"), "-ERR syntax error");
    t.resp3 = true;
    assert!(t.run("SDIFF a b").starts_with("~["));
}

#[test]
fn storing() {
    let mut t = with(&["SADD a 1 2 3", "SADD b 2 3 4", "SADD c x 2", "SET d v EX 100"]);
    assert_eq!(t.run("SINTERSTORE d a b"), ":2");
    assert_eq!((t.dirty, t.effects()), (1, ["SINTERSTORE d a b".to_string()].as_slice()));
    assert_eq!(t.events(), ["overwritten d", "type_changed d", "sinterstore d"]);
    assert_eq!(t.run("OBJECT ENCODING d"), "\"intset\"");
    assert_eq!(t.run("TTL d"), ":-1");
    assert_eq!(t.run("SUNIONSTORE d a c"), ":4");
    assert_eq!(t.run("OBJECT ENCODING d"), "\"listpack\"");
    assert_eq!(t.run("SDIFFSTORE d a c"), ":2");
    assert_eq!(t.events(), ["overwritten d", "sdiffstore d"]);
    assert_eq!(t.run("SINTERSTORE d a none"), ":0");
    assert_eq!((t.dirty, t.events()), (1, ["keymiss none", "del d"].map(String::from).as_slice()));
    assert_eq!(t.run("EXISTS d"), ":0");
    assert_eq!(t.run("SDIFFSTORE d a a"), ":0");
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("SUNIONSTORE a a b"), ":4");
    assert_eq!(sorted(&t.run("SMEMBERS a")), ["1", "2", "3", "4"]);
    assert_eq!(t.run("SINTERSTORE e c a"), ":1");
    assert_eq!(t.run("OBJECT ENCODING e"), "\"intset\"");
}

#[test]
fn large_algebra() {
    let mut t = with(&[]);
    let words = |from: u32, to: u32| (from..to).map(|i| format!("m{i}")).collect::<Vec<_>>().join(" ");
    t.run(&format!("SADD a {}", words(0, 2000)));
    t.run(&format!("SADD b {}", words(1000, 1200)));
    t.run(&format!("SADD c {}", words(1100, 5000)));
    assert_eq!(t.run("SINTERCARD 3 a b c"), ":100");
    assert_eq!(t.run("SUNIONSTORE d a b c"), ":5000");
    assert_eq!(t.run("SDIFFSTORE d a b"), ":1800");
    assert_eq!(t.run("SDIFFSTORE d a b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b"), ":1800");
    assert_eq!(t.run("SDIFFSTORE d b a c"), ":0");
    assert_eq!(sorted(&t.run("SDIFF b c")).len(), 100);
    assert_eq!(t.run("SCARD a"), ":2000");
}

#[test]
fn scanning() {
    let mut t = with(&["SADD i 1 2 13", "SADD l a ab"]);
    assert_eq!(t.run("SSCAN i 0"), r#"["0" ["1" "2" "13"]]"#);
    assert_eq!(t.run("SSCAN i 0 MATCH 1* COUNT 1"), r#"["0" ["1" "13"]]"#);
    assert_eq!(t.run("SSCAN none 0"), r#"["0" []]"#);
    assert_eq!(t.run("SSCAN none 0 BAD"), r#"["0" []]"#);
    assert_eq!(t.run("SSCAN l x"), "-ERR invalid cursor");
    assert_eq!(t.run("SSCAN l 0 COUNT 0"), "-ERR syntax error");
    assert_eq!(t.run("SSCAN l 0 COUNT x"), "-ERR value is not an integer or out of range");
    assert_eq!(t.run("SSCAN l 0 MATCH"), "-ERR syntax error");
    assert_eq!(t.run("SSCAN l 0 NOVALUES"), "-ERR NOVALUES option can only be used in HSCAN");
    assert_eq!(t.run("SSCAN l 0 TYPE set"), "-ERR syntax error");
    let members: Vec<String> = (0..1000).map(|i| format!("m{i}")).collect();
    t.run(&format!("SADD h {}", members.join(" ")));
    let mut seen = Vec::new();
    let mut cursor = "0".to_string();
    loop {
        let reply = t.run(&format!("SSCAN h {cursor} COUNT 20"));
        let (next, found) = reply[1..].split_once(' ').expect("two elements");
        seen.extend(sorted(found.trim_end_matches(']')));
        cursor = next.trim_matches('"').to_string();
        if cursor == "0" {
            break;
        }
    }
    seen.sort();
    let mut members = members;
    members.sort();
    assert_eq!(seen, members);
}

#[test]
fn cardinalities() {
    let mut t = with(&["SADD a 1 2 3 4", "SADD b 3 4 x", "SADD c 1", "SET s v"]);
    for (request, reply) in [
        ("SUNIONCARD 2 a b", ":5"),
        ("SUNIONCARD 3 a b none", ":5"),
        ("SUNIONCARD 1 a", ":4"),
        ("SUNIONCARD 2 a a", ":4"),
        ("SUNIONCARD 1 none", ":0"),
        ("SUNIONCARD 2 a b LIMIT 3", ":3"),
        ("SUNIONCARD 2 a b LIMIT 0", ":5"),
        ("SUNIONCARD 2 a b limit 9", ":5"),
        ("SUNIONCARD 2 a b APPROX", ":5"),
        ("SUNIONCARD 2 a b LIMIT 3 APPROX", ":3"),
        ("SUNIONCARD 2 a b approx limit 9", ":5"),
        ("SUNIONCARD 1 none APPROX", ":0"),
        ("SDIFFCARD 2 a b", ":2"),
        ("SDIFFCARD 3 a b c", ":1"),
        ("SDIFFCARD 1 a", ":4"),
        ("SDIFFCARD 2 a a", ":0"),
        ("SDIFFCARD 2 none a", ":0"),
        ("SDIFFCARD 2 a none", ":4"),
        ("SDIFFCARD 1 a LIMIT 3", ":3"),
        ("SDIFFCARD 2 a b LIMIT 1", ":1"),
        ("SUNIONCARD 2 a s", WRONG_TYPE),
        ("SDIFFCARD 2 none s", WRONG_TYPE),
        ("SDIFFCARD 1 a APPROX", "-ERR syntax error"),
        ("SUNIONCARD 1 a LIMIT", "-ERR syntax error"),
        ("SUNIONCARD 1 a b", "-ERR syntax error"),
        ("SUNIONCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
        ("SUNIONCARD 1 a LIMIT x", "-ERR LIMIT can't be negative"),
        ("SDIFFCARD 0 a", "-ERR numkeys should be greater than 0"),
        ("SDIFFCARD x a", "-ERR numkeys should be greater than 0"),
        ("SUNIONCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
        ("SUNIONCARD 1", "-ERR wrong number of arguments for 'sunioncard' command"),
    ] {
        assert_eq!(t.run(request), reply, "{request}");
    }
}

#[test]
fn an_approximate_union_is_near() {
    let mut t = Fixture::new();
    for set in ["a", "b", "c"] {
        let offset = usize::from(set.as_bytes()[0]) * 4000;
        let members: Vec<String> = (0..10_000).map(|i| format!("member:{}", offset + i)).collect();
        let mut request = vec!["SADD".to_owned(), set.to_owned()];
        request.extend(members);
        t.run_args(&request);
        request[0] = "PFADD".to_owned();
        request[1] = "hll".to_owned();
        t.run_args(&request);
    }
    assert_eq!(t.run("SUNIONCARD 3 a b c"), ":18000");
    let approximate = t.run("SUNIONCARD 3 a b c APPROX");
    assert_eq!(approximate, t.run("PFCOUNT hll"));
    let number: f64 = approximate[1..].parse().unwrap();
    assert!((number / 18_000.0 - 1.0).abs() < 0.03, "{number}");
    assert_eq!(t.run("SUNIONCARD 3 a b c APPROX LIMIT 17"), ":17");
}
