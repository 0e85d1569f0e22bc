//! The commands' changes and records. Their answers are in `tests/wire/stream.case`.

use crate::Wait;
use crate::testing::Fixture;
use martlet_engine::Awaited;
use martlet_keyspace::Kind;

#[test]
fn ids_that_the_server_chose_are_recorded() {
    let mut t = Fixture::new();
    assert_eq!(t.run("XADD k * a 1"), r#""1700000000000-0""#);
    assert_eq!(t.effects(), ["XADD k 1700000000000-0 a 1"]);
    assert_eq!(t.events(), ["new k", "xadd k"]);
    assert_eq!(t.run("XADD k * a 1"), r#""1700000000000-1""#);
    t.advance_ms(5);
    assert_eq!(t.run("XADD k * a 1"), r#""1700000000005-0""#);
    t.run("XADD k 1700000000005-* a 1");
    assert_eq!(t.effects(), ["XADD k 1700000000005-1 a 1"]);
    t.run("XADD k NOMKSTREAM 1800000000000-7 a 1");
    assert_eq!(t.effects(), ["XADD k NOMKSTREAM 1800000000000-7 a 1"]);
    assert_eq!((t.dirty, t.events()), (1, &["xadd k".to_string()][..]));
}

#[test]
fn approximate_trimming_is_recorded_by_its_outcome() {
    let mut t = Fixture::new();
    t.settings.stream_limits.node_max_entries = 2;
    for seq in 1..8 {
        t.run(&format!("XADD k 1-{seq} a 1"));
    }
    t.events();
    assert_eq!(t.run("XADD k MAXLEN ~ 5 LIMIT 100 1-8 a 1"), r#""1-8""#);
    assert_eq!(t.effects(), ["XADD k MAXLEN = 6 1-8 a 1"]);
    assert_eq!(t.events(), ["xadd k", "xtrim k"]);
    assert_eq!(t.run("XTRIM k MINID ~ 1-6"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, &["XTRIM k MINID = 1-5".to_string()][..]));
    assert_eq!(t.run("XTRIM k MAXLEN ~ 3"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("XTRIM k MINID ~ 9"), ":4");
    assert_eq!(t.effects(), ["XTRIM k MINID = 18446744073709551615-18446744073709551615"]);
    assert_eq!(t.run("EXISTS k"), ":1");
}

#[test]
fn a_refused_entry_leaves_no_key() {
    let mut t = Fixture::new();
    for request in ["XADD k 0-0 a b", "XADD k x a b", "XADD k * a", "XADD k MAXLEN -1 * a b"] {
        assert!(t.run(request).starts_with("-ERR"), "{request}");
        assert_eq!(t.run("EXISTS k"), ":0");
    }
    assert_eq!(t.run("XADD k NOMKSTREAM * a b"), "nil");
    assert!(t.effects().is_empty() && t.events().is_empty());
}

#[test]
fn deletions_count_each() {
    let mut t = Fixture::new();
    t.run("XADD k 1-1 a 1");
    t.run("XADD k 1-2 a 1");
    t.events();
    assert_eq!(t.run("XDEL k 1-1 1-2 1-3 1-1"), ":2");
    assert_eq!((t.dirty, t.events()), (2, &["xdel k".to_string()][..]));
    assert_eq!(t.effects(), ["XDEL k 1-1 1-2 1-3 1-1"]);
    assert_eq!(t.run("XDEL k 1-1"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("XSETID k 5-5"), "+OK");
    assert_eq!(t.events(), ["xsetid k"]);
}

/// A stream of three entries with a group that has read none.
fn with_group() -> Fixture {
    let mut t = Fixture::new();
    for seq in 1..4 {
        t.run(&format!("XADD k 1-{seq} a {seq}"));
    }
    t.run("XGROUP CREATE k g 0");
    t.events();
    t
}

#[test]
fn deliveries_are_recorded_as_claims() {
    let mut t = with_group();
    let reply = t.run("XREADGROUP GROUP g c COUNT 2 STREAMS k >");
    assert_eq!(reply, r#"[["k" [["1-1" ["a" "1"]] ["1-2" ["a" "2"]]]]]"#);
    let claim =
        |id: &str| format!("XCLAIM k g c 0 {id} TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID {id}");
    let progress = "XGROUP SETID k g 1-2 ENTRIESREAD 2".to_string();
    assert_eq!(
        t.effects(),
        ["XGROUP CREATECONSUMER k g c".to_string(), claim("1-1"), claim("1-2"), progress]
    );
    assert_eq!(t.events(), ["xgroup-createconsumer k"]);
    t.run("XREADGROUP GROUP g c NOACK STREAMS k >");
    assert_eq!(t.effects(), ["XGROUP SETID k g 1-3 ENTRIESREAD 3"]);
    t.run("XREADGROUP GROUP g c STREAMS k 0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("XACK k g 1-1 1-2 1-3"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, &["XACK k g 1-1 1-2 1-3".to_string()][..]));
}

#[test]
fn replayed_effects_give_the_same_groups() {
    let mut t = with_group();
    let mut records = Vec::new();
    for request in [
        "XREADGROUP GROUP g c COUNT 2 STREAMS k >",
        "XREADGROUP GROUP g d STREAMS k >",
        "XCLAIM k g d 0 1-1",
        "XDEL k 1-2",
        "XCLAIM k g d 0 1-2 1-3 LASTID 5-5",
        "XAUTOCLAIM k g e 0 - COUNT 1",
        "XACK k g 1-3",
        "XGROUP DELCONSUMER k g c",
    ] {
        t.run(request);
        records.extend(t.effects().to_vec());
    }
    let mut other = with_group();
    for record in records {
        assert!(!other.run(&record).starts_with('-'), "{record}");
    }
    assert_eq!(other.run("XPENDING k g - + 9"), t.run("XPENDING k g - + 9"));
    assert_eq!(other.run("XINFO GROUPS k"), t.run("XINFO GROUPS k"));
    assert_eq!(t.run("XPENDING k g"), r#"[:1 "1-1" "1-1" [["e" "1"]]]"#);
}

#[test]
fn a_read_that_finds_nothing_waits() {
    let mut t = with_group();
    t.run("XREAD BLOCK 500 STREAMS k other $ 7");
    let block = t.block.clone().unwrap();
    let waits = |indexes: &[usize], until_removed| {
        Wait::Keys(indexes.to_vec(), Awaited { kind: Kind::Stream, until_removed })
    };
    assert_eq!((block.wait, block.deadline_ms), (waits(&[4, 5], false), Some(1_700_000_000_500)));
    assert_eq!(block.resolved, [(6, b"1-3".to_vec())]);
    t.run("XREADGROUP GROUP g c STREAMS k >");
    t.run("XREADGROUP GROUP g c BLOCK 0 STREAMS k >");
    let block = t.block.clone().unwrap();
    assert_eq!((block.wait, block.deadline_ms), (waits(&[7], true), None));
    t.deny_blocking = true;
    assert_eq!(t.run("XREAD BLOCK 500 STREAMS k $"), "nil-array");
}

#[test]
fn changes_of_groups_are_told() {
    let mut t = with_group();
    for (request, reply, event) in [
        ("XGROUP CREATECONSUMER k g c", ":1", "xgroup-createconsumer k"),
        ("XGROUP DELCONSUMER k g c", ":0", "xgroup-delconsumer k"),
        ("XGROUP SETID k g 1-1 ENTRIESREAD 1", "+OK", "xgroup-setid k"),
        ("XGROUP DESTROY k g", ":1", "xgroup-destroy k"),
        ("XGROUP CREATE k g $ MKSTREAM", "+OK", "xgroup-create k"),
    ] {
        assert_eq!(t.run(request), reply);
        assert_eq!((t.dirty, t.events()), (1, &[event.to_string()][..]), "{request}");
        assert_eq!(t.effects(), [request]);
    }
    assert_eq!(t.run("XGROUP CREATE new g $ MKSTREAM"), "+OK");
    assert_eq!((t.dirty, t.events()), (1, &["new new".to_string(), "xgroup-create new".to_string()][..]));
    for request in ["XGROUP DESTROY k x", "XGROUP CREATE k g 0", "XGROUP DELCONSUMER k g nobody"] {
        t.run(request);
        assert!(t.dirty == 0 && t.effects().is_empty() && t.events().is_empty(), "{request}");
    }
}

/// A stream of four entries, of which a group has got three and acknowledged the first.
fn with_references() -> Fixture {
    let mut t = with_group();
    t.run("XADD k 1-4 a 4");
    t.run("XREADGROUP GROUP g c COUNT 3 STREAMS k >");
    t.run("XACK k g 1-1");
    t.events();
    t
}

#[test]
fn entries_go_with_or_without_their_references() {
    let mut t = with_references();
    assert_eq!(t.run("XDELEX k ACKED IDS 3 1-1 1-2 1-4"), "[:1 :2 :2]");
    assert_eq!((t.dirty, t.events()), (1, &["xdel k".to_string()][..]));
    assert_eq!(t.effects(), ["XDELEX k ACKED IDS 3 1-1 1-2 1-4"]);
    assert_eq!(t.run("XDELEX k DELREF IDS 2 1-2 9-9"), "[:1 :-1]");
    assert_eq!(t.run("XPENDING k g"), r#"[:1 "1-3" "1-3" [["c" "1"]]]"#);
    // What only references know of is forgotten as well, which is recorded though no entry goes.
    t.run("XDEL k 1-3");
    assert_eq!(t.run("XDELEX k DELREF IDS 1 1-3"), "[:-1]");
    assert_eq!((t.dirty, t.effects()), (1, &["XDELEX k DELREF IDS 1 1-3".to_string()][..]));
    assert!(t.events().is_empty());
    assert_eq!(t.run("XDELEX k IDS 1 1-3"), "[:-1]");
    assert!(t.effects().is_empty() && t.events().is_empty());
}

#[test]
fn acknowledged_entries_go_at_once() {
    let mut t = with_references();
    t.run("XGROUP CREATE k h 0");
    assert_eq!(t.run("XACKDEL k g ACKED IDS 2 1-1 1-2"), "[:-1 :2]");
    assert_eq!((t.dirty, t.effects()), (1, &["XACKDEL k g ACKED IDS 2 1-1 1-2".to_string()][..]));
    assert!(t.events().is_empty());
    assert_eq!(t.run("XACKDEL k g IDS 1 1-3"), "[:1]");
    assert_eq!((t.dirty, t.events()), (1, &["xdel k".to_string()][..]));
    assert_eq!((t.run("XPENDING k g"), t.run("XLEN k")), ("[:0 nil nil nil-array]".into(), ":3".into()));
}

#[test]
fn trimming_by_references_is_recorded_by_where_it_ended() {
    for (request, effect, left) in [
        ("XTRIM k MAXLEN 0 ACKED", "XTRIM k MINID 1-5 ACKED", ":3"),
        ("XTRIM k DELREF MAXLEN 1", "XTRIM k DELREF MINID 1-4", ":1"),
        ("XTRIM k MINID ~ 1-3 LIMIT 5 ACKED", "XTRIM k MINID = 1-3 ACKED", ":3"),
        ("XADD k ACKED MAXLEN = 4 1-5 a 5", "XADD k ACKED MINID = 1-2 1-5 a 5", ":4"),
    ] {
        let mut t = with_references();
        t.settings.stream_limits.node_max_entries = 2;
        t.run(request);
        let effects = t.effects().to_vec();
        assert_eq!(effects, [effect]);
        assert_eq!(t.run("XLEN k"), left, "{request}");
        let mut other = with_references();
        other.run(&effects[0]);
        for question in ["XRANGE k - +", "XPENDING k g - + 9", "XINFO GROUPS k"] {
            assert_eq!(other.run(question), t.run(question), "{request}");
        }
    }
}

#[test]
fn claiming_while_reading() {
    let mut t = Fixture::new();
    for id in ["1-1", "1-2", "1-3"] {
        t.run(&format!("XADD s {id} f v"));
    }
    t.run("XGROUP CREATE s g 0");
    t.run("XREADGROUP GROUP g a COUNT 2 STREAMS s >");
    t.advance_ms(100);
    let both = t.run("XREADGROUP GROUP g b CLAIM 100 STREAMS s >");
    assert_eq!(
        both,
        r#"[["s" [["1-1" ["f" "v"] :100 :1] ["1-2" ["f" "v"] :100 :1] ["1-3" ["f" "v"] :0 :0]]]]"#
    );
    assert_eq!(t.run("XPENDING s g - + 10"), r#"[["1-1" "b" :0 :2] ["1-2" "b" :0 :2] ["1-3" "b" :0 :1]]"#);
    assert_eq!(t.run("XREADGROUP GROUP g a CLAIM 1 STREAMS s >"), "nil-array");
    // A reader of history claims nothing, and gets it as ever.
    assert_eq!(t.run("XREADGROUP GROUP g a CLAIM 0 STREAMS s 0"), r#"[["s" []]]"#);
    assert_eq!(
        t.run("XREADGROUP GROUP g a COUNT 1 CLAIM 0 STREAMS s >"),
        r#"[["s" [["1-1" ["f" "v"] :0 :2]]]]"#
    );
}

#[test]
fn a_wait_says_when_there_will_be_something_to_claim() {
    let mut t = Fixture::new();
    t.run("XGROUP CREATE s g 0 MKSTREAM");
    let now_ms = t.keys.now_ms();
    t.run("XREADGROUP GROUP g a BLOCK 0 CLAIM 500 STREAMS s >");
    assert_eq!(t.block.take().unwrap().again_ms, Some(now_ms + 500));
    t.run("XADD s 1-1 f v");
    t.run("XREADGROUP GROUP g a STREAMS s >");
    t.advance_ms(200);
    t.run("XREADGROUP GROUP g b BLOCK 0 CLAIM 500 STREAMS s >");
    assert_eq!(t.block.take().unwrap().again_ms, Some(now_ms + 500));
    t.run("XREADGROUP GROUP g b BLOCK 0 STREAMS s >");
    assert_eq!(t.block.take().unwrap().again_ms, None);
}

#[test]
fn released_entries_are_nobodys_and_come_first() {
    let mut t = Fixture::new();
    for id in ["1-1", "1-2", "1-3", "1-4"] {
        t.run(&format!("XADD s {id} f v"));
    }
    t.run("XGROUP CREATE s g 0");
    t.run("XREADGROUP GROUP g a COUNT 3 STREAMS s >");
    assert_eq!(t.run("XNACK s g FAIL IDS 3 1-3 1-1 9-9"), ":2");
    assert_eq!(t.effects().last().unwrap(), "XNACK s g FAIL IDS 3 1-3 1-1 9-9");
    assert_eq!(t.run("XPENDING s g - + 10"), r#"[["1-1" "" :-1 :1] ["1-2" "a" :0 :1] ["1-3" "" :-1 :1]]"#);
    assert_eq!(t.run("XPENDING s g IDLE 1000 - + 10"), r#"[["1-1" "" :-1 :1] ["1-3" "" :-1 :1]]"#);
    assert_eq!(t.run("XPENDING s g"), r#"[:3 "1-1" "1-3" [["a" "1"]]]"#);
    assert_eq!(t.run("XNACK s g SILENT IDS 1 1-2"), ":1");
    assert_eq!(t.run("XNACK s g FATAL IDS 1 1-3"), ":1");
    assert_eq!(t.run("XNACK s g FAIL IDS 1 1-4 FORCE RETRYCOUNT 7"), ":1");
    assert_eq!(t.run("XNACK s g FAIL IDS 1 9-9 FORCE"), ":0");
    let counts = t.run("XPENDING s g - + 10");
    assert_eq!(
        counts,
        r#"[["1-1" "" :-1 :1] ["1-2" "" :-1 :0] ["1-3" "" :-1 :9223372036854775807] ["1-4" "" :-1 :7]]"#
    );
    assert!(t.run("XINFO STREAM s FULL").contains(r#""nacked-count" :4"#));
    // In the order in which they were released, and the count stays where it is highest.
    let claimed = t.run("XREADGROUP GROUP g b COUNT 3 CLAIM 1000 STREAMS s >");
    let order: Vec<usize> = ["1-1", "1-2", "1-3"].iter().map(|id| claimed.find(id).unwrap()).collect();
    assert!(order.is_sorted(), "{claimed}");
    assert!(t.run("XPENDING s g - + 10").contains(r#"["1-3" "b" :0 :9223372036854775807]"#));
    // A deleted one is reported as acknowledged.
    t.run("XDEL s 1-4");
    t.effects();
    t.run("XAUTOCLAIM s g b 0 1-4");
    assert_eq!(t.effects(), ["XACK s g 1-4"]);
}

#[test]
fn reads_end_at_their_limits() {
    let mut t = Fixture::new();
    for key in ["s", "t"] {
        for id in ["1-1", "1-2", "1-3"] {
            t.run(&format!("XADD {key} {id} f v"));
        }
        t.run(&format!("XGROUP CREATE {key} g 0"));
    }
    let ids = |reply: &str| reply.matches("1-").count();
    assert_eq!(ids(&t.run("XREAD MAXCOUNT 4 STREAMS s t 0 0")), 4);
    assert_eq!(ids(&t.run("XREAD COUNT 1 MAXCOUNT 2 STREAMS s t 0 0")), 2);
    assert_eq!(ids(&t.run("XREAD MAXSIZE 1 STREAMS s t 0 0")), 1);
    assert_eq!(ids(&t.run("XREADGROUP GROUP g c MAXCOUNT 4 STREAMS s t > >")), 4);
    assert_eq!(t.run("XPENDING t g"), r#"[:1 "1-1" "1-1" [["c" "1"]]]"#);
    assert_eq!(ids(&t.run("XREADGROUP GROUP g c MAXCOUNT 2 STREAMS s t 0 0")), 2);
    assert_eq!(t.run("XREAD MAXCOUNT 0 STREAMS s 0"), "-ERR MAXCOUNT must be a positive integer");
    assert_eq!(
        t.run("XREAD COUNT 3 MAXCOUNT 2 STREAMS s 0"),
        "-ERR MAXCOUNT must be greater than or equal to COUNT"
    );
}

#[test]
fn a_primary_may_say_a_limit_of_exact_trimming() {
    let mut t = Fixture::new();
    t.run("XADD s 1-1 f v");
    let refused = t.run("XADD s MAXLEN = 1 LIMIT 10 1-2 f v");
    assert_eq!(refused, "-ERR syntax error, LIMIT cannot be used without the special ~ option");
    t.keys.see(martlet_engine::View { now_ms: 0, ..t.keys.view() });
    assert_eq!(t.run("XADD s MAXLEN = 1 LIMIT 10 1-2 f v"), r#""1-2""#);
    assert_eq!(t.run("XLEN s"), ":1");
}
