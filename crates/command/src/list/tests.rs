//! The list commands through the table.

use crate::testing::Fixture;
use crate::testing::START_MS;
use crate::{Block, TimeoutReply, Wait};
use martlet_types::list::{List, ListLimit};

fn with(lines: &[&str]) -> Fixture {
    let mut t = Fixture::new();
    for line in lines {
        let reply = t.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    t
}

#[test]
fn pushing() {
    let mut t = with(&[]);
    assert_eq!(t.run("LPUSH l a b"), ":2");
    assert_eq!(t.effects(), ["LPUSH l a b"]);
    assert_eq!(t.dirty, 2);
    assert_eq!(t.events(), ["new l", "lpush l"]);
    assert_eq!(t.run("RPUSH l 1 c"), ":4");
    assert_eq!(t.events(), ["rpush l"]);
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["b" "a" "1" "c"]"#);
    assert_eq!(t.run("LPUSHX l x"), ":5");
    assert_eq!(t.run("RPUSHX l y"), ":6");
    assert_eq!(t.run("RPUSHX none y"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("LLEN l"), ":6");
    assert_eq!(t.run("LLEN none"), ":0");
    assert_eq!(t.run("LPUSH l"), "-ERR wrong number of arguments for 'lpush' command");
}

#[test]
fn popping() {
    let mut t = with(&["RPUSH l a b c d e"]);
    assert_eq!(t.run("LPOP l"), "\"a\"");
    assert_eq!(t.events(), ["lpop l"]);
    assert_eq!(t.run("RPOP l 2"), r#"["e" "d"]"#);
    assert_eq!(t.dirty, 2);
    assert_eq!(t.run("LPOP l 0"), "[]");
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("LPOP l -1"), "-ERR value is out of range, must be positive");
    assert_eq!(t.run("LPOP l x"), "-ERR value is out of range, must be positive");
    assert_eq!(t.run("LPOP l 1 2"), "-ERR wrong number of arguments for 'lpop' command");
    assert_eq!(t.run("LPOP l 10"), r#"["b" "c"]"#);
    assert_eq!(t.events(), ["lpop l", "del l"]);
    assert_eq!(t.effects(), ["LPOP l 10"]);
    assert_eq!(t.run("LPOP l"), "nil");
    assert_eq!(t.run("RPOP l 1"), "nil-array");
}

#[test]
fn indexes() {
    let mut t = with(&["RPUSH l a b c"]);
    let mut replies = ["0", "2", "3", "-1", "-3", "-4", "9223372036854775807", "-9223372036854775808"]
        .map(|index| t.run(&format!("LINDEX l {index}")));
    assert_eq!(replies, ["\"a\"", "\"c\"", "nil", "\"c\"", "\"a\"", "nil", "nil", "nil"]);
    assert_eq!(t.run("LINDEX none x"), "nil");
    assert_eq!(t.run("LINDEX l x"), "-ERR value is not an integer or out of range");
    assert_eq!(t.run("LSET l -1 z"), "+OK");
    assert_eq!(t.events(), ["lset l"]);
    assert_eq!(t.run("LSET l 3 z"), "-ERR index out of range");
    assert_eq!(t.run("LSET none x z"), "-ERR no such key");
    assert_eq!(t.run("LSET l x z"), "-ERR value is not an integer or out of range");
    replies = ["0 -1", "1 1", "-2 9", "5 9", "2 1", "-9 -9", "-9 0", "0 -9223372036854775808"]
        .map(|range| t.run(&format!("LRANGE l {range}")));
    let expected = [r#"["a" "b" "z"]"#, r#"["b"]"#, r#"["b" "z"]"#, "[]", "[]", "[]", r#"["a"]"#, "[]"];
    assert_eq!(replies, expected);
    assert_eq!(t.run("LRANGE none 0 -1"), "[]");
    assert_eq!(t.run("LRANGE l 0 x"), "-ERR value is not an integer or out of range");
}

#[test]
fn trimming() {
    let mut t = with(&["RPUSH l a b c d e"]);
    assert_eq!(t.run("LTRIM l 1 -2"), "+OK");
    assert_eq!(t.dirty, 2);
    assert_eq!(t.run("LTRIM l 0 -1"), "+OK");
    assert_eq!((t.dirty, t.events()), (0, &["ltrim l".to_string()][..]));
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["b" "c" "d"]"#);
    assert_eq!(t.run("LTRIM l 2 1"), "+OK");
    assert_eq!(t.events(), ["ltrim l", "del l"]);
    assert_eq!(t.run("LTRIM none 2 1"), "+OK");
    assert!(t.events().is_empty());
}

#[test]
fn removing_values() {
    let mut t = with(&["RPUSH l a b a 1 a 1"]);
    assert_eq!(t.run("LREM l -2 a"), ":2");
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["a" "b" "1" "1"]"#);
    assert_eq!(t.run("LREM l 1 1"), ":1");
    assert_eq!(t.run("LREM l 0 x"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("LREM none 0 x"), ":0");
    assert_eq!(t.run("LREM l x a"), "-ERR value is not an integer or out of range");
    assert_eq!(
        t.run("LREM l -9223372036854775808 a"),
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
    );
    for value in ["a", "b"] {
        assert_eq!(t.run(&format!("LREM l 0 {value}")), ":1");
        assert_eq!(t.events(), ["lrem l"]);
    }
    assert_eq!(t.run("LREM l 5 1"), ":1");
    assert_eq!(t.events(), ["lrem l", "del l"]);
}

#[test]
fn inserting() {
    let mut t = with(&["RPUSH l a c 5"]);
    assert_eq!(t.run("LINSERT l BEFORE c b"), ":4");
    assert_eq!(t.run("LINSERT l after 5 6"), ":5");
    assert_eq!(t.events(), ["linsert l"]);
    assert_eq!(t.run("LINSERT l BEFORE x b"), ":-1");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("LINSERT none BEFORE x b"), ":0");
    assert_eq!(t.run("LINSERT none BESIDE x b"), "-ERR syntax error");
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["a" "b" "c" "5" "6"]"#);
}

#[test]
fn positions() {
    let mut t = with(&["RPUSH l a b c 1 2 3 c c"]);
    let mut ask = |options: &str| t.run(&format!("LPOS l {options}"));
    assert_eq!(ask("a"), ":0");
    assert_eq!(ask("c RANK 2"), ":6");
    assert_eq!(ask("c RANK 4"), "nil");
    assert_eq!(ask("c RANK -1"), ":7");
    assert_eq!(ask("c RANK -2 COUNT 0"), "[:6 :2]");
    assert_eq!(ask("c COUNT 2"), "[:2 :6]");
    assert_eq!(ask("c COUNT 0 MAXLEN 7"), "[:2 :6]");
    assert_eq!(ask("c COUNT 0 MAXLEN 1 RANK -1"), "[:7]");
    assert_eq!(ask("c MAXLEN 2"), "nil");
    assert_eq!(ask("z COUNT 1"), "[]");
    assert_eq!(
        ask("c RANK 0"),
        "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
         or use negative to start from the end of the list"
    );
    assert_eq!(ask("c RANK x"), "-ERR value is not an integer or out of range");
    assert_eq!(ask("c COUNT -1"), "-ERR COUNT can't be negative");
    assert_eq!(ask("c MAXLEN -1"), "-ERR MAXLEN can't be negative");
    assert_eq!(ask("c COUNT"), "-ERR syntax error");
    assert_eq!(t.run("LPOS none c"), "nil");
    assert_eq!(t.run("LPOS none c COUNT 1"), "[]");
}

#[test]
fn moving() {
    let mut t = with(&["RPUSH a 1 2 3"]);
    assert_eq!(t.run("LMOVE a b LEFT RIGHT"), "\"1\"");
    assert_eq!(t.dirty, 1);
    assert_eq!(t.events(), ["new b", "rpush b", "lpop a"]);
    assert_eq!(t.run("RPOPLPUSH a b"), "\"3\"");
    assert_eq!(t.effects(), ["RPOPLPUSH a b"]);
    assert_eq!(t.run("LRANGE b 0 -1"), r#"["3" "1"]"#);
    assert_eq!(t.run("LMOVE b b LEFT RIGHT"), "\"3\"");
    assert_eq!(t.run("LRANGE b 0 -1"), r#"["1" "3"]"#);
    assert_eq!(t.run("RPOPLPUSH a a"), "\"2\"");
    assert_eq!(t.events(), ["lpush a", "rpop a"]);
    assert_eq!(t.run("BLMOVE a b LEFT LEFT 0"), "\"2\"");
    assert_eq!(t.events(), ["lpush b", "lpop a", "del a"]);
    assert_eq!(t.effects(), ["LMOVE a b LEFT LEFT"]);
    assert_eq!(t.run("BRPOPLPUSH b a 0"), "\"3\"");
    assert_eq!(t.effects(), ["RPOPLPUSH b a"]);
    assert_eq!(t.run("LMOVE none b LEFT RIGHT"), "nil");
    assert_eq!(t.run("LMOVE a b UP RIGHT"), "-ERR syntax error");
}

#[test]
fn popping_from_several() {
    let mut t = with(&["RPUSH b 1 2 3"]);
    assert_eq!(t.run("LMPOP 2 a b LEFT"), r#"["b" ["1"]]"#);
    assert_eq!(t.effects(), ["LPOP b 1"]);
    assert_eq!(t.run("LMPOP 2 a b RIGHT COUNT 10"), r#"["b" ["3" "2"]]"#);
    assert_eq!(t.effects(), ["RPOP b 2"]);
    assert_eq!(t.events(), ["rpop b", "del b"]);
    assert_eq!(t.run("LMPOP 2 a b LEFT"), "nil-array");
    for (args, error) in [
        ("0 a LEFT", "ERR numkeys should be greater than 0"),
        ("x a LEFT", "ERR numkeys should be greater than 0"),
        ("2 a LEFT", "ERR syntax error"),
        ("9223372036854775807 a LEFT", "ERR syntax error"),
        ("1 a UP", "ERR syntax error"),
        ("1 a LEFT COUNT 0", "ERR count should be greater than 0"),
        ("1 a LEFT COUNT", "ERR syntax error"),
        ("1 a LEFT COUNT 1 COUNT 2", "ERR syntax error"),
    ] {
        assert_eq!(t.run(&format!("LMPOP {args}")), format!("-{error}"));
        assert_eq!(t.run(&format!("BLMPOP 1 {args}")), format!("-{error}"));
    }
}

#[test]
fn blocking() {
    let mut t = with(&["RPUSH b 1 2 3 4"]);
    assert_eq!(t.run("BLPOP a b 0"), r#"["b" "1"]"#);
    assert_eq!(t.effects(), ["LPOP b"]);
    assert_eq!(t.run("BRPOP a b 0"), r#"["b" "4"]"#);
    assert_eq!(t.run("BLMPOP 0 2 a b LEFT COUNT 5"), r#"["b" ["2" "3"]]"#);
    assert_eq!(t.effects(), ["LPOP b 2"]);
    assert_eq!(t.run("BLPOP a b 1.5"), "");
    let block = t.block.take().expect("nothing to pop");
    assert_eq!(block.wait, Wait::value::<List>([1, 2]));
    assert_eq!(block.deadline_ms, Some(crate::testing::START_MS + 1500));
    assert_eq!(t.run("BLMPOP 0 1 a RIGHT"), "");
    assert_eq!(t.block.take().map(|block| block.wait), Some(Wait::value::<List>([3])));
    assert_eq!(t.run("BLMOVE a b LEFT LEFT 0"), "");
    assert_eq!(t.block.take().map(|block| block.wait), Some(Wait::value::<List>([1])));
    t.deny_blocking = true;
    assert_eq!(t.run("BLPOP a 0"), "nil-array");
    assert_eq!(t.run("BRPOPLPUSH a b 0"), "nil");
    assert_eq!(t.run("BLPOP a x"), "-ERR timeout is not a float or out of range");
    assert_eq!(t.run("BLPOP a -1"), "-ERR timeout is negative");
    // Where Redis' `long double` reads what a double does not.
    assert_eq!(t.run("BLPOP a 1e400"), "-ERR timeout is out of range");
    assert_eq!(t.run("BLPOP a -1e400"), "-ERR timeout is negative");
    assert_eq!(t.run("BLPOP a 1e5000"), "-ERR timeout is not a float or out of range");
    assert_eq!(t.run("BLMPOP 1e-400 1 a LEFT"), "nil-array");
    assert_eq!(t.run("BLMOVE a b LEFT LEFT 9223372036854775807"), "-ERR timeout is out of range");
}

#[test]
fn other_types_are_refused() {
    let mut t = Fixture::new();
    let key = martlet_keyspace::Key::new(b"s");
    t.keys.engine().gate.closed(|alone| t.keys.lock_all_shards(alone));
    t.keys.set_str(&key, b"text", martlet_keyspace::ExpiryChange::Keep);
    t.keys.release();
    t.run("RPUSH l a");
    for line in [
        "LPUSH s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 1",
        "LLEN s",
        "LINDEX s 0",
        "LSET s 0 a",
        "LRANGE s 0 1",
        "LTRIM s 0 1",
        "LREM s 0 a",
        "LINSERT s BEFORE a b",
        "LPOS s a",
        "LMOVE s l LEFT LEFT",
        "LMOVE l s LEFT LEFT",
        "BLMOVE l s LEFT LEFT 0",
        "LMPOP 2 s l LEFT",
        "BLPOP s l 0",
    ] {
        assert_eq!(
            t.run(line),
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "{line}"
        );
    }
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["a"]"#);
}

#[test]
fn long_lists_are_trimmed_in_the_background() {
    let mut t = Fixture::new();
    for start in (0..20_000).step_by(1000) {
        let numbers: Vec<String> = (start..start + 1000).map(|number| number.to_string()).collect();
        t.run(&format!("RPUSH l {}", numbers.join(" ")));
    }
    assert_eq!(t.run("LINDEX l 12345"), "\"12345\"");
    assert_eq!(t.run("LTRIM l 9998 -9998"), "+OK");
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["9998" "9999" "10000" "10001" "10002"]"#);
    assert_eq!(t.run("LPOP l 9"), r#"["9998" "9999" "10000" "10001" "10002"]"#);
}

#[test]
fn the_limit_is_the_setting() {
    let mut t = Fixture::new();
    t.settings.list_limit = ListLimit::from_directive(2);
    let encoding = |t: &mut Fixture| {
        let key = martlet_keyspace::Key::new(b"l");
        t.keys.engine().gate.closed(|alone| t.keys.lock_all_shards(alone));
        let encoding =
            t.keys.read::<martlet_types::list::List>(&key).map(|list| list.map(|list| list.encoding()));
        t.keys.release();
        encoding.expect("a list")
    };
    for (line, expected) in [
        ("RPUSH l a b", "listpack"),
        ("RPUSH l c", "quicklist"),
        ("RPOP l", "quicklist"),
        ("RPOP l", "listpack"),
        ("RPUSH l b", "listpack"),
        ("LINSERT l BEFORE x y", "quicklist"),
    ] {
        t.run(line);
        assert_eq!(encoding(&mut t), Some(expected), "{line}");
    }
}

#[test]
fn batches_move() {
    let mut t = Fixture::new();
    // From, to and order; the reply; the source and the destination then.
    for (how, reply, source, destination) in [
        ("LEFT LEFT COUNT 2 OBO", "b a", "c d", "b a x y"),
        ("LEFT LEFT COUNT 2 BULK", "a b", "c d", "a b x y"),
        ("LEFT RIGHT COUNT 2 OBO", "a b", "c d", "x y a b"),
        ("LEFT RIGHT EXACTLY 2 BULK", "a b", "c d", "x y a b"),
        ("RIGHT LEFT EXACTLY 2 OBO", "c d", "a b", "c d x y"),
        ("right left count 2 bulk", "c d", "a b", "c d x y"),
        ("RIGHT RIGHT COUNT 2 OBO", "d c", "a b", "x y d c"),
        ("RIGHT RIGHT COUNT 2 BULK", "c d", "a b", "x y c d"),
        ("LEFT RIGHT", "a", "b c d", "x y a"),
        ("RIGHT LEFT", "d", "a b c", "d x y"),
        ("LEFT RIGHT COUNT 9 BULK", "a b c d", "", "x y a b c d"),
        ("LEFT RIGHT EXACTLY 4 BULK", "a b c d", "", "x y a b c d"),
    ] {
        let shown = |words: &str| {
            let quoted: Vec<String> = words.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            format!("[{}]", quoted.join(" "))
        };
        t.run("DEL s d");
        t.run("RPUSH s a b c d");
        t.run("RPUSH d x y");
        let request = format!("LMOVEM s d {how}");
        assert_eq!(t.run(&request), shown(reply), "{how}");
        assert_eq!(t.effects(), [request]);
        let moved = reply.split_whitespace().count() as u64;
        let mut ends = how.split(' ').map(|word| if word.eq_ignore_ascii_case("LEFT") { "l" } else { "r" });
        let (popped, pushed) = (ends.next().unwrap(), ends.next().unwrap());
        let mut events = vec![format!("{pushed}push d"), format!("{popped}pop s")];
        events.extend(source.is_empty().then(|| "del s".to_owned()));
        assert_eq!((t.events(), t.dirty), (events.as_slice(), moved), "{how}");
        assert_eq!(t.run("LRANGE s 0 -1"), shown(source), "{how}");
        assert_eq!(t.run("LRANGE d 0 -1"), shown(destination), "{how}");
    }
}

#[test]
fn batches_move_within_a_list() {
    let mut t = Fixture::new();
    for (how, reply, list) in [
        ("LEFT RIGHT COUNT 2 BULK", "[\"a\" \"b\"]", "[\"c\" \"a\" \"b\"]"),
        ("LEFT LEFT COUNT 2 BULK", "[\"a\" \"b\"]", "[\"a\" \"b\" \"c\"]"),
        ("LEFT LEFT COUNT 2 OBO", "[\"b\" \"a\"]", "[\"b\" \"a\" \"c\"]"),
        ("RIGHT RIGHT EXACTLY 3 OBO", "[\"c\" \"b\" \"a\"]", "[\"c\" \"b\" \"a\"]"),
        ("LEFT RIGHT", "[\"a\"]", "[\"b\" \"c\" \"a\"]"),
    ] {
        t.run("DEL k");
        t.run("RPUSH k a b c");
        t.run("PEXPIRE k 1000");
        assert_eq!(t.run(&format!("LMOVEM k k {how}")), reply, "{how}");
        assert_eq!((t.run("LRANGE k 0 -1").as_str(), t.run("PTTL k").as_str()), (list, ":1000"), "{how}");
    }
}

#[test]
fn batches_that_do_not_move() {
    let mut t = Fixture::new();
    t.run("RPUSH s a b");
    t.run("SET t v");
    let (syntax, few) = ("-ERR syntax error", "-ERR count should be greater than 0");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for (request, reply) in [
        ("LMOVEM s d LEFT", "-ERR wrong number of arguments for 'lmovem' command"),
        ("LMOVEM s d LEFT UP", syntax),
        ("LMOVEM s d UP LEFT COUNT 2 OBO", syntax),
        ("LMOVEM s d LEFT RIGHT COUNT 2", syntax),
        ("LMOVEM s d LEFT RIGHT COUNT 0", syntax),
        ("LMOVEM s d LEFT RIGHT COUNT 2 OBO x", syntax),
        ("LMOVEM s d LEFT RIGHT BAD 2 OBO", syntax),
        ("LMOVEM s d LEFT RIGHT COUNT 2 BAD", syntax),
        ("LMOVEM s d LEFT RIGHT COUNT 0 BAD", few),
        ("LMOVEM s d LEFT RIGHT EXACTLY -1 BULK", few),
        ("LMOVEM s d LEFT RIGHT COUNT x BULK", few),
        ("LMOVEM s d LEFT RIGHT EXACTLY 3 BULK", "nil-array"),
        ("LMOVEM s t LEFT RIGHT EXACTLY 3 BULK", "nil-array"),
        ("LMOVEM s t LEFT RIGHT EXACTLY 2 BULK", wrong_type),
        ("LMOVEM t s LEFT RIGHT", wrong_type),
        ("LMOVEM none s LEFT RIGHT", "nil-array"),
        ("LMOVEM none s LEFT RIGHT COUNT 2 OBO", "nil-array"),
        ("BLMOVEM s d LEFT RIGHT", "-ERR wrong number of arguments for 'blmovem' command"),
        ("BLMOVEM s d LEFT RIGHT x COUNT 2 OBO", "-ERR timeout is not a float or out of range"),
        ("BLMOVEM s d LEFT RIGHT 0 COUNT 2", syntax),
        ("LRANGE s 0 -1", "[\"a\" \"b\"]"),
        ("EXISTS d", ":0"),
    ] {
        assert_eq!(t.run(request), reply, "{request}");
        assert!(t.effects().is_empty(), "{request}");
    }
    assert_eq!(t.run_args(&["LMOVEM", "none", "d", "LEFT", "LEFT"]), b"*-1\r\n");
}

#[test]
fn batches_wait() {
    let mut t = Fixture::new();
    t.run("RPUSH s a b");
    t.run("BLMOVEM s d LEFT RIGHT 0.5 EXACTLY 3 OBO");
    let block = t.block.clone().expect("too few elements");
    assert_eq!(block, Block::new(Wait::value::<List>([1]), Some(START_MS + 500), TimeoutReply::NullArray));
    assert!(t.effects().is_empty());
    assert_eq!(t.run("BLMOVEM s d LEFT LEFT 0 COUNT 3 OBO"), "[\"b\" \"a\"]");
    assert_eq!(
        (t.effects(), t.block.is_none()),
        (&["LMOVEM s d LEFT LEFT EXACTLY 2 OBO".to_owned()][..], true)
    );
    t.run("BLMOVEM d s RIGHT LEFT 0");
    assert_eq!(t.effects(), ["LMOVEM d s RIGHT LEFT EXACTLY 1 BULK"]);
    t.deny_blocking = true;
    assert_eq!(t.run_args(&["BLMOVEM", "none", "d", "LEFT", "LEFT", "0"]), b"*-1\r\n");
}
