//! The sorted set commands through the table. Expected replies are those of redis-server 7.0.15 and Valkey 8.

use crate::Wait;
use crate::testing::Fixture;
use martlet_types::zset::{ZSet, ZSetLimits};

fn with(lines: &[&str]) -> Fixture {
    let mut t = Fixture::new();
    for line in lines {
        let reply = t.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    t
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "-ERR syntax error";

#[test]
fn adding() {
    let mut t = with(&[]);
    assert_eq!(t.run("ZADD z 1 a 2 b 1 a"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, ["ZADD z 1 a 2 b 1 a".to_string()].as_slice()));
    assert_eq!(t.events(), ["new z", "zadd z"]);
    assert_eq!(t.run("ZADD z 1 a"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("ZADD z 3 a 4 c"), ":1");
    assert_eq!(t.dirty, 2);
    assert_eq!(t.run("ZADD z ch 5 a 6 d 2 b"), ":2");
    assert_eq!(t.run("ZADD z nx 7 a 7 e"), ":1");
    assert_eq!(t.run("ZADD z xx 8 a 8 f"), ":0");
    assert_eq!(t.run("ZADD z xx ch gt 7 a 9 b"), ":1");
    assert_eq!(t.run("ZADD z ch lt 7 a 9 b"), ":1");
    assert_eq!(t.run("ZRANGE z 0 -1 withscores"), r#"["c" "4" "d" "6" "a" "7" "e" "7" "b" "9"]"#);
    assert_eq!(t.run("ZADD none xx 1 a"), ":0");
    assert_eq!(t.run("ZADD none xx incr 1 a"), "nil");
    assert_eq!(t.run("EXISTS none"), ":0");
}

#[test]
fn adding_to_scores() {
    let mut t = with(&["ZADD z 1 a inf i"]);
    assert_eq!(t.run("ZINCRBY z 1.5 a"), r#""2.5""#);
    assert_eq!((t.events(), t.dirty), (["zincr z".to_string()].as_slice(), 1));
    assert_eq!(t.run("ZINCRBY z 0.1 new"), r#""0.1""#);
    assert_eq!(t.run("ZADD z incr 1 a"), r#""3.5""#);
    assert_eq!(t.run("ZADD z nx incr 1 a"), "nil");
    assert_eq!(t.run("ZADD z gt incr -1 a"), "nil");
    assert_eq!(t.run("ZINCRBY z 0 a"), r#""3.5""#);
    assert!(t.effects().is_empty());
    assert_eq!(t.run("ZINCRBY z -inf i"), "-ERR resulting score is not a number (NaN)");
    assert_eq!(t.run("ZINCRBY z x i"), "-ERR value is not a valid float");
    assert_eq!(t.run("ZINCRBY z nan i"), "-ERR value is not a valid float");
    t.resp3 = true;
    assert_eq!(t.run("ZINCRBY z 1 a"), ",4.5");
    assert_eq!(t.run("ZADD z xx incr 1 b"), "nil");
}

#[test]
fn wrong_arguments_change_nothing() {
    let mut t = with(&["SET s v", "ZADD z 1 a"]);
    for (line, error) in [
        ("ZADD z 1", "-ERR wrong number of arguments for 'zadd' command"),
        ("ZADD z 1 a 2", SYNTAX),
        ("ZADD z nx xx", SYNTAX),
        ("ZADD z nx xx 1 a", "-ERR XX and NX options at the same time are not compatible"),
        ("ZADD z gt lt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
        ("ZADD z nx gt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
        ("ZADD z incr 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
        ("ZADD z 2 b x c", "-ERR value is not a valid float"),
        ("ZADD s 2 b", WRONG_TYPE),
        ("ZADD s x b", "-ERR value is not a valid float"),
        ("ZRANGE z 0", "-ERR wrong number of arguments for 'zrange' command"),
        ("ZRANGE z a 1", "-ERR value is not an integer or out of range"),
        (
            "ZRANGE z 0 1 LIMIT 0 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ),
        (
            "ZRANGE z - + BYLEX WITHSCORES",
            "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ),
        ("ZRANGE z 0 1 BYSCORE BYLEX", SYNTAX),
        ("ZRANGE z 0 1 REV REV", SYNTAX),
        ("ZRANGE z 0 1 BYSCORE LIMIT 1", SYNTAX),
        ("ZRANGE z 0 x BYSCORE", "-ERR min or max is not a float"),
        ("ZRANGE z 0 [x BYLEX", "-ERR min or max not valid string range item"),
        ("ZREVRANGE z 0 1 REV", SYNTAX),
        ("ZRANGESTORE d z 0 1 WITHSCORES", SYNTAX),
        ("ZRANGESTORE d s 0 1", WRONG_TYPE),
        ("ZCOUNT z (x 1", "-ERR min or max is not a float"),
        ("ZCOUNT z 0x1 2", "-ERR min or max is not a float"),
        ("ZRANGEBYSCORE z -0X1 2", "-ERR min or max is not a float"),
        ("ZRANGE z 0 (0x1 BYSCORE", "-ERR min or max is not a float"),
        ("ZLEXCOUNT z a b", "-ERR min or max not valid string range item"),
        ("ZRANK z a foo", SYNTAX),
        ("ZRANK z a withscore b", "-ERR wrong number of arguments for 'zrank' command"),
        ("ZPOPMIN z 1 2", SYNTAX),
        ("ZPOPMIN z -1", "-ERR value is out of range, must be positive"),
        ("ZPOPMAX z x", "-ERR value is out of range, must be positive"),
        ("ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0"),
        ("ZMPOP 1 z UP", SYNTAX),
        ("ZMPOP 2 z MIN", SYNTAX),
        ("ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0"),
        ("ZMPOP 1 s MIN", WRONG_TYPE),
        ("BZPOPMIN z x", "-ERR timeout is not a float or out of range"),
        ("BZPOPMIN z -1", "-ERR timeout is negative"),
        ("BZPOPMAX s 0", WRONG_TYPE),
        ("ZRANDMEMBER z x", "-ERR value is not an integer or out of range"),
        ("ZRANDMEMBER z 1 foo", SYNTAX),
        ("ZRANDMEMBER z 9223372036854775807 withscores", "-ERR value is out of range"),
        ("ZUNION 0 z", "-ERR at least 1 input key is needed for 'zunion' command"),
        ("ZUNION x z", "-ERR value is not an integer or out of range"),
        ("ZUNION 2 z", SYNTAX),
        ("ZUNION 2 z s foo", WRONG_TYPE),
        ("ZUNION 1 z weights x", "-ERR weight value is not a float"),
        ("ZUNION 1 z aggregate avg", SYNTAX),
        ("ZUNIONSTORE d 1 z withscores", SYNTAX),
        ("ZDIFF 1 z weights 1", SYNTAX),
        ("ZINTERCARD 1 z limit -1", "-ERR LIMIT can't be negative"),
        ("ZINTERCARD 1 z withscores", SYNTAX),
        ("ZREMRANGEBYRANK z 0 x", "-ERR value is not an integer or out of range"),
        ("ZSCAN z x", "-ERR invalid cursor"),
        ("ZSCAN z 0 novalues", "-ERR NOVALUES option can only be used in HSCAN"),
        ("ZSCORE s a", WRONG_TYPE),
        ("ZMSCORE s a", WRONG_TYPE),
        ("ZCARD s", WRONG_TYPE),
        ("ZREM s a", WRONG_TYPE),
    ] {
        assert_eq!(t.run(line), error, "{line}");
        assert!(t.effects().is_empty(), "{line}");
    }
    assert_eq!(t.run("ZRANGE z 0 -1 withscores"), r#"["a" "1"]"#);
    assert_eq!(t.run("EXISTS d"), ":0");
}

#[test]
fn asking_for_members() {
    let mut t = with(&["ZADD z 1 a 2.5 b inf c"]);
    assert_eq!(t.run("ZSCORE z b"), r#""2.5""#);
    assert_eq!(t.run("ZSCORE z x"), "nil");
    assert_eq!(t.run("ZMSCORE z a x c"), r#"["1" nil "inf"]"#);
    assert_eq!(t.run("ZMSCORE none a"), "[nil]");
    assert_eq!(t.run("ZCARD z"), ":3");
    assert_eq!(t.run("ZRANK z b"), ":1");
    assert_eq!(t.run("ZREVRANK z a"), ":2");
    assert_eq!(t.run("ZREVRANK z a withscore"), r#"[:2 "1"]"#);
    assert_eq!(t.run("ZRANK z x"), "nil");
    assert_eq!(t.run("ZRANK z x withscore"), "nil-array");
    assert_eq!(t.run("ZCOUNT z 1 2.5"), ":2");
    assert_eq!(t.run("ZCOUNT z (1 (inf"), ":1");
    assert_eq!(t.run("ZCOUNT z 3 1"), ":0");
    assert_eq!(t.run("ZCOUNT none 0 1"), ":0");
    t.resp3 = true;
    assert_eq!(t.run("ZSCORE z b"), ",2.5");
    assert_eq!(t.run("ZMSCORE z a x"), "[,1 nil]");
    assert_eq!(t.run("ZRANK z a withscore"), "[:0 ,1]");
    assert_eq!(t.run("ZRANK z x withscore"), "nil");
}

#[test]
fn ranges() {
    let mut t = with(&["ZADD z 1 a 2 b 3 c 4 d 5 e", "ZADD lex 0 a 0 b 0 c 0 d"]);
    for (line, reply) in [
        ("ZRANGE z 1 2", r#"["b" "c"]"#),
        ("ZRANGE z -2 -1", r#"["d" "e"]"#),
        ("ZRANGE z 5 9", "[]"),
        ("ZRANGE z 0 1 REV", r#"["e" "d"]"#),
        ("ZREVRANGE z 1 2 WITHSCORES", r#"["d" "4" "c" "3"]"#),
        ("ZRANGE z (1 3 BYSCORE", r#"["b" "c"]"#),
        ("ZRANGE z 4 (2 BYSCORE REV", r#"["d" "c"]"#),
        ("ZRANGE z -inf +inf BYSCORE LIMIT 1 2", r#"["b" "c"]"#),
        ("ZRANGE z -inf +inf BYSCORE LIMIT 3 -1", r#"["d" "e"]"#),
        ("ZRANGE z -inf +inf BYSCORE LIMIT -1 2", "[]"),
        ("ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2", r#"["d" "c"]"#),
        ("ZRANGEBYSCORE z 2 3 WITHSCORES", r#"["b" "2" "c" "3"]"#),
        ("ZREVRANGEBYSCORE z 3 2 LIMIT 0 1", r#"["c"]"#),
        ("ZRANGEBYSCORE z 3 2", "[]"),
        ("ZRANGE lex [b (d BYLEX", r#"["b" "c"]"#),
        ("ZRANGE lex + - BYLEX REV LIMIT 1 2", r#"["c" "b"]"#),
        ("ZRANGEBYLEX lex - (c", r#"["a" "b"]"#),
        ("ZREVRANGEBYLEX lex + [c", r#"["d" "c"]"#),
        ("ZLEXCOUNT lex (a +", ":3"),
        ("ZRANGE none 0 -1", "[]"),
    ] {
        assert_eq!(t.run(line), reply, "{line}");
    }
    t.resp3 = true;
    assert_eq!(t.run("ZRANGE z 0 1 WITHSCORES"), r#"[["a" ,1] ["b" ,2]]"#);
    assert_eq!(t.run("ZRANGE z 0 0"), r#"["a"]"#);
}

#[test]
fn storing_ranges() {
    let mut t = with(&["ZADD z 1 a 2 b 3 c", "SET d v EX 10"]);
    assert_eq!(t.run("ZRANGESTORE d z 0 1"), ":2");
    assert_eq!(t.events(), ["overwritten d", "type_changed d", "zrangestore d"]);
    assert_eq!(t.run("ZRANGE d 0 -1 withscores"), r#"["a" "1" "b" "2"]"#);
    assert_eq!(t.run("TTL d"), ":-1");
    assert_eq!(t.run("ZRANGESTORE d z (1 inf BYSCORE LIMIT 0 1"), ":1");
    assert_eq!(t.run("ZRANGE d 0 -1"), r#"["b"]"#);
    assert_eq!(t.run("ZRANGESTORE z z 0 0 REV"), ":1");
    assert_eq!(t.run("ZRANGE z 0 -1"), r#"["c"]"#);
    assert_eq!(t.run("ZRANGESTORE d none 0 -1"), ":0");
    assert_eq!((t.events(), t.dirty), (["keymiss none".to_string(), "del d".to_string()].as_slice(), 1));
    assert_eq!(t.run("ZRANGESTORE d none 0 -1"), ":0");
    assert_eq!(t.dirty, 0);
}

#[test]
fn removing() {
    let mut t = with(&["ZADD z 1 a 2 b 3 c 4 d 5 e 6 f"]);
    assert_eq!(t.run("ZREM z a x"), ":1");
    assert_eq!((t.events(), t.dirty), (["zrem z".to_string()].as_slice(), 1));
    assert_eq!(t.run("ZREMRANGEBYRANK z -1 -1"), ":1");
    assert_eq!(t.events(), ["zremrangebyrank z"]);
    assert_eq!(t.run("ZREMRANGEBYSCORE z (2 3"), ":1");
    assert_eq!(t.run("ZREMRANGEBYSCORE z 7 8"), ":0");
    assert!(t.events().is_empty());
    assert_eq!(t.run("ZREMRANGEBYLEX z [b [b"), ":1");
    assert_eq!(t.run("ZREMRANGEBYRANK z 0 -1"), ":2");
    assert_eq!((t.events(), t.dirty), (["zremrangebyrank z".to_string(), "del z".to_string()].as_slice(), 2));
    assert_eq!(t.run("EXISTS z"), ":0");
    assert_eq!(t.run("ZREMRANGEBYRANK z 0 -1"), ":0");
    t.run("ZADD z 1 a");
    assert_eq!(t.run("ZREM z a"), ":1");
    assert_eq!(t.events(), ["zrem z", "del z"]);
}

#[test]
fn popping() {
    let mut t = with(&["ZADD z 1 a 2 b 3 c 4 d 5 e 6 f"]);
    assert_eq!(t.run("ZPOPMIN z"), r#"["a" "1"]"#);
    assert_eq!(t.events(), ["zpopmin z"]);
    assert_eq!(t.run("ZPOPMAX z 2"), r#"["f" "6" "e" "5"]"#);
    assert_eq!(t.run("ZPOPMAX z 0"), "[]");
    assert_eq!(t.run("ZPOPMAX none"), "[]");
    assert_eq!(t.run("ZMPOP 2 none z MAX COUNT 2"), r#"["z" [["d" "4"] ["c" "3"]]]"#);
    assert_eq!(t.effects(), ["ZPOPMAX z 2"]);
    assert_eq!(t.run("ZMPOP 2 none z MIN COUNT 2"), r#"["z" [["b" "2"]]]"#);
    assert_eq!(
        (t.effects(), t.events()),
        (["ZPOPMIN z 1".to_string()].as_slice(), ["zpopmin z".to_string(), "del z".to_string()].as_slice())
    );
    assert_eq!(t.run("ZMPOP 2 none z MIN"), "nil-array");
    t.resp3 = true;
    t.run("ZADD z 1 a 2 b");
    assert_eq!(t.run("ZPOPMIN z"), r#"["a" ,1]"#);
    assert_eq!(t.run("ZPOPMIN z 2"), r#"[["b" ,2]]"#);
}

#[test]
fn waiting_to_pop() {
    let mut t = with(&["ZADD z 1 a 2 b 3 c"]);
    assert_eq!(t.run("BZPOPMIN none z 0"), r#"["z" "a" "1"]"#);
    assert_eq!(t.effects(), ["ZPOPMIN z"]);
    assert_eq!(t.run("BZPOPMAX none z 0"), r#"["z" "c" "3"]"#);
    assert_eq!(t.run("BZMPOP 0 1 z MAX COUNT 5"), r#"["z" [["b" "2"]]]"#);
    assert_eq!(t.effects(), ["ZPOPMAX z 1"]);
    assert_eq!(t.run("BZPOPMIN none z 0.5"), "");
    let block = t.block.take().expect("nothing to pop");
    assert_eq!((block.wait, block.deadline_ms), (Wait::value::<ZSet>([1, 2]), Some(t.keys.now_ms() + 500)));
    assert_eq!(t.run("BZMPOP 0 2 none z MIN"), "");
    assert_eq!(
        t.block.take().map(|block| (block.wait, block.deadline_ms)),
        Some((Wait::value::<ZSet>([3, 4]), None))
    );
    t.deny_blocking = true;
    assert_eq!(t.run("BZPOPMIN none z 0"), "nil-array");
    assert_eq!(t.run("BZMPOP 0 1 z MIN"), "nil-array");
}

#[test]
fn random_members() {
    let mut t = with(&["ZADD z 1 a 2 b 3 c"]);
    assert_eq!(t.run("ZRANDMEMBER none"), "nil");
    assert_eq!(t.run("ZRANDMEMBER none 3"), "[]");
    assert_eq!(t.run("ZRANDMEMBER z 0"), "[]");
    assert_eq!(t.run("ZRANDMEMBER z 9"), r#"["a" "b" "c"]"#);
    assert_eq!(t.run("ZRANDMEMBER z 9 withscores"), r#"["a" "1" "b" "2" "c" "3"]"#);
    assert_eq!(t.run("ZRANDMEMBER z -5").matches('"').count(), 10);
    assert!(["\"a\"", "\"b\"", "\"c\""].contains(&&*t.run("ZRANDMEMBER z")));
    for number in 0..200 {
        t.run(&format!("ZADD big {number} m{number}"));
    }
    for count in [1, 5, 150, 199] {
        let reply = t.run(&format!("ZRANDMEMBER big {count}"));
        let members: std::collections::HashSet<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
        assert_eq!(members.len(), count, "{reply}");
    }
    t.resp3 = true;
    assert_eq!(t.run("ZRANDMEMBER z 9 withscores"), r#"[["a" ,1] ["b" ,2] ["c" ,3]]"#);
}

#[test]
fn algebra() {
    let mut t = with(&["ZADD x 1 a 2 b 3 c", "ZADD y 10 b 20 c 30 d", "SADD s b 7"]);
    for (line, reply) in [
        ("ZUNION 2 x y withscores", r#"["a" "1" "b" "12" "c" "23" "d" "30"]"#),
        ("ZUNION 2 x y", r#"["a" "b" "c" "d"]"#),
        ("ZUNION 2 x y weights 2 -1 withscores", r#"["d" "-30" "c" "-14" "b" "-6" "a" "2"]"#),
        ("ZUNION 2 x y aggregate max withscores", r#"["a" "1" "b" "10" "c" "20" "d" "30"]"#),
        ("ZUNION 2 x s withscores", r#"["7" "1" "a" "1" "b" "3" "c" "3"]"#),
        ("ZINTER 2 x y withscores", r#"["b" "12" "c" "23"]"#),
        ("ZINTER 2 x y aggregate min withscores", r#"["b" "2" "c" "3"]"#),
        ("ZINTER 2 x s withscores", r#"["b" "3"]"#),
        ("ZINTER 2 x x withscores", r#"["a" "2" "b" "4" "c" "6"]"#),
        ("ZINTER 2 x none", "[]"),
        ("ZDIFF 2 x y withscores", r#"["a" "1"]"#),
        ("ZDIFF 2 x none", r#"["a" "b" "c"]"#),
        ("ZDIFF 2 x x", "[]"),
        ("ZDIFF 3 x none s", r#"["a" "c"]"#),
        ("ZDIFF 2 none x", "[]"),
        ("ZINTERCARD 2 x y", ":2"),
        ("ZINTERCARD 2 x y limit 1", ":1"),
        ("ZINTERCARD 2 x y limit 0", ":2"),
    ] {
        assert_eq!(t.run(line), reply, "{line}");
    }
    assert_eq!(t.run("ZUNIONSTORE d 2 x y"), ":4");
    assert_eq!(t.events(), ["new d", "zunionstore d"]);
    assert_eq!(t.run("ZINTERSTORE x 2 x y weights 0 1"), ":2");
    assert_eq!(t.run("ZRANGE x 0 -1 withscores"), r#"["b" "10" "c" "20"]"#);
    assert_eq!(t.run("ZDIFFSTORE d 2 x x"), ":0");
    assert_eq!(t.events(), ["del d"]);
    assert_eq!(t.run("EXISTS d"), ":0");
    t.run("ZADD inf inf a");
    t.run("ZADD minus -inf a");
    assert_eq!(t.run("ZUNION 2 inf minus withscores"), r#"["a" "0"]"#);
    assert_eq!(t.run("ZUNION 1 inf weights 0 withscores"), r#"["a" "0"]"#);
    t.resp3 = true;
    assert_eq!(t.run("ZUNION 1 y withscores"), r#"[["b" ,10] ["c" ,20] ["d" ,30]]"#);
}

#[test]
fn scanning() {
    let mut t = with(&["ZADD z 0.1 a 2 b"]);
    assert_eq!(t.run("ZSCAN z 0"), r#"["0" ["a" "0.1" "b" "2"]]"#);
    assert_eq!(t.run("ZSCAN z 0 match b"), r#"["0" ["b" "2"]]"#);
    assert_eq!(t.run("ZSCAN none 0"), r#"["0" []]"#);
    for number in 0..500 {
        t.run(&format!("ZADD big 0.1 m{number}"));
    }
    let (mut cursor, mut seen, mut calls) = ("0".to_string(), std::collections::HashSet::new(), 0);
    loop {
        let reply = t.run(&format!("ZSCAN big {cursor} count 20"));
        let words: Vec<&str> = reply
            .trim_matches(['[', ']'])
            .split([' ', '[', ']'])
            .map(|word| word.trim_matches('"'))
            .filter(|word| !word.is_empty())
            .collect();
        cursor = words[0].to_string();
        for pair in words[1..].chunks(2) {
            assert_eq!(pair[1], "0.10000000000000001");
            seen.insert(pair[0].to_string());
        }
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((seen.len(), calls), (500, 25));
}

#[test]
fn encodings() {
    let mut t = with(&[]);
    t.settings.zset_limits = ZSetLimits { listpack_max_entries: 4, listpack_max_value_bytes: 5 };
    t.run("ZADD z 1 a 2 b 3 c 4 d");
    assert_eq!(t.run("OBJECT ENCODING z"), r#""listpack""#);
    t.run("ZADD z 1 e");
    assert_eq!(t.run("OBJECT ENCODING z"), r#""skiplist""#);
    t.run("ZADD long 1 abcdef");
    assert_eq!(t.run("OBJECT ENCODING long"), r#""skiplist""#);
    t.run("ZADD five 1 a 1 a 1 a 1 a 1 a");
    assert_eq!(t.run("OBJECT ENCODING five"), r#""skiplist""#);
    t.run("ZREM z e");
    assert_eq!(t.run("OBJECT ENCODING z"), r#""skiplist""#);
    t.run("ZUNIONSTORE u 1 z");
    assert_eq!(t.run("OBJECT ENCODING u"), r#""listpack""#);
    t.run("ZUNIONSTORE u 2 z long");
    assert_eq!(t.run("OBJECT ENCODING u"), r#""skiplist""#);
    t.run("ZRANGESTORE r z 0 1");
    assert_eq!(t.run("OBJECT ENCODING r"), r#""listpack""#);
}

#[test]
fn counting_sets_that_have_a_member() {
    let mut t = Fixture::new();
    t.run("ZADD a 10 x 20 y inf z");
    t.run("ZADD b -5 y -inf z");
    t.run("SADD c y");
    for (request, reply) in [
        ("ZUNION 3 a b c AGGREGATE COUNT WITHSCORES", r#"["x" "1" "z" "2" "y" "3"]"#),
        ("ZINTER 3 a b c AGGREGATE count WITHSCORES", r#"["y" "3"]"#),
        ("ZINTER 2 a b WEIGHTS 2 -0.5 AGGREGATE COUNT WITHSCORES", r#"["y" "1.5" "z" "1.5"]"#),
        ("ZUNION 2 a a WEIGHTS inf -inf AGGREGATE COUNT WITHSCORES", r#"["x" "0" "y" "0" "z" "0"]"#),
        ("ZUNION 2 a b AGGREGATE NUMBER", "-ERR syntax error"),
        ("ZDIFF 2 a b AGGREGATE COUNT", "-ERR syntax error"),
        ("ZUNIONSTORE d 2 a b AGGREGATE COUNT WEIGHTS 0 3", ":3"),
        ("ZRANGE d 0 -1 WITHSCORES", r#"["x" "0" "y" "3" "z" "3"]"#),
        ("ZINTERSTORE d 2 a c AGGREGATE COUNT", ":1"),
        ("ZSCORE d y", "\"2\""),
    ] {
        assert_eq!(t.run(request), reply, "{request}");
    }
}

#[test]
fn scanning_without_scores() {
    let mut t = Fixture::new();
    t.run("ZADD z 1 a 2 b");
    for (request, reply) in [
        ("ZSCAN z 0 NOSCORES", r#"["0" ["a" "b"]]"#),
        ("ZSCAN z 0 MATCH b noscores COUNT 5", r#"["0" ["b"]]"#),
        ("ZSCAN z 0", r#"["0" ["a" "1" "b" "2"]]"#),
        ("ZSCAN none 0 NOSCORES", r#"["0" []]"#),
    ] {
        assert_eq!(t.run(request), reply, "{request}");
    }
}
