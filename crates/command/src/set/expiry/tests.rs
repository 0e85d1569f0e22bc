//! Members that expire: the commands of their times, and every other command that meets them.

use crate::FAMILIES;
use crate::set::tests::{sorted, with};
use crate::testing::{Fixture, START_MS};
use martlet_engine::{Expired, View};
use martlet_keyspace::Key;
use martlet_protocol::request::OwnedArgs;
use martlet_types::set::Set;

#[test]
fn times_of_members() {
    let mut t = with(&["SADD s a b c"]);
    assert_eq!(t.run("SPEXPIRE s 100 MEMBERS 2 a z"), "[:1 :-2]");
    assert_eq!(t.effects(), [format!("SPEXPIREAT s {} MEMBERS 1 a", START_MS + 100)]);
    assert_eq!((t.dirty, t.events()), (1, ["sexpire s".to_string()].as_slice()));
    assert_eq!(t.run("OBJECT ENCODING s"), "\"listpackex\"");
    assert_eq!(t.run("SEXPIRE s 10 NX MEMBERS 2 a b"), "[:0 :1]");
    assert_eq!(t.effects(), [format!("SPEXPIREAT s {} NX MEMBERS 1 b", START_MS + 10_000)]);
    assert_eq!(t.run("SEXPIRE s 10 MEMBERS 2 a c XX"), "[:1 :0]");
    assert_eq!(t.effects(), [format!("SPEXPIREAT s {} XX MEMBERS 1 a", START_MS + 10_000)]);
    assert_eq!(t.run("SEXPIRE s 10 GT MEMBERS 2 a c"), "[:0 :0]");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("SEXPIRE s 20 gt members 1 a"), "[:1]");
    assert_eq!(t.run("SEXPIRE s 30 LT MEMBERS 2 a c"), "[:0 :1]");
    assert_eq!(t.run("STTL s MEMBERS 4 a b c z"), "[:20 :10 :30 :-2]");
    assert_eq!(t.run("SPTTL s MEMBERS 1 a"), "[:20000]");
    assert_eq!(t.run("SEXPIRETIME s MEMBERS 1 a"), format!("[:{}]", START_MS / 1000 + 20));
    assert_eq!(t.run("SPEXPIRETIME s MEMBERS 1 a"), format!("[:{}]", START_MS + 20_000));
    assert_eq!(t.run("STTL none MEMBERS 2 a b"), "[:-2 :-2]");
    assert_eq!(t.run("SEXPIRE none 1 MEMBERS 2 a b"), "[:-2 :-2]");
    assert_eq!(t.run("SPERSIST s MEMBERS 3 a z a"), "[:1 :-2 :-1]");
    assert_eq!(t.effects(), ["SPERSIST s MEMBERS 3 a z a"]);
    assert_eq!((t.dirty, t.events()), (1, ["spersist s".to_string()].as_slice()));
    assert_eq!(t.run("SPERSIST s MEMBERS 1 a"), "[:-1]");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("SPERSIST none MEMBERS 1 a"), "[:-2]");
    assert_eq!(t.run("SPEXPIREAT s 1 MEMBERS 3 a z b"), "[:2 :-2 :2]");
    assert_eq!(t.effects(), ["SREM s a", "SREM s b"]);
    assert_eq!((t.dirty, t.events()), (2, ["srem s".to_string()].as_slice()));
    assert_eq!(t.run("SEXPIREAT s 1 MEMBERS 1 c"), "[:2]");
    assert_eq!(t.events(), ["srem s", "del s"]);
    assert_eq!(t.run("EXISTS s"), ":0");
}

#[test]
fn bad_arguments() {
    let mut t = with(&["SADD s a b c", "SET k v"]);
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let mandatory = "-ERR Mandatory argument MEMBERS is missing or not at the right position";
    let one_time = "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    let count = "-ERR Parameter `numMembers` should be greater than 0";
    for (line, error) in [
        ("SEXPIRE s -1 MEMBERS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("SEXPIRE s x MEMBERS 1 a", "-ERR value is not an integer or out of range"),
        ("SEXPIRE s 281474976710 MEMBERS 1 a", "-ERR invalid expire time in 'sexpire' command"),
        ("SPEXPIREAT s 70368744177664 MEMBERS 1 a", "-ERR invalid expire time in 'spexpireat' command"),
        ("SEXPIRE s 1 MEMBERS 1", "-ERR wrong number of arguments for 'sexpire' command"),
        ("SEXPIRE s 1 NX NX NX", "-ERR missing MEMBERS argument"),
        ("SEXPIRE s 1 a b c d", "-ERR unknown argument: a"),
        ("SEXPIRE s 1 MEMBERS 0 a", count),
        ("SEXPIRE s 1 MEMBERS -1 a", count),
        ("SEXPIRE s 1 MEMBERS x a", count),
        ("SEXPIRE s 1 MEMBERS 2147483648 a", count),
        ("SEXPIRE s 1 MEMBERS 3 a b", "-ERR wrong number of arguments"),
        ("SEXPIRE s 1 MEMBERS 1 a c", "-ERR unknown argument: c"),
        ("SEXPIRE s 1 NX NX MEMBERS 1", "-ERR MEMBERS requires at least nummembers and one member argument"),
        ("SEXPIRE s 1 MEMBERS 1 a MEMBERS 1 b", "-ERR MEMBERS keyword specified multiple times"),
        ("SEXPIRE s 1 NX XX MEMBERS 1 a", "-ERR Multiple condition flags specified"),
        ("SEXPIRE s 1 GT MEMBERS 1 a LT", "-ERR Multiple condition flags specified"),
        ("SEXPIRE k x MEMBERS 1 a", wrong_type),
        ("STTL s a 1 a", mandatory),
        ("STTL s MEMBERS 0 a", "-ERR Number of members must be a positive integer"),
        ("SPERSIST s MEMBERS x a", "-ERR Number of members must be a positive integer"),
        ("SPTTL s MEMBERS 2 a", "-ERR The `nummembers` parameter must match the number of arguments"),
        ("SEXPIRETIME s MEMBERS 1 a b", "-ERR The `nummembers` parameter must match the number of arguments"),
        ("SPERSIST k MEMBERS 0 a", wrong_type),
        ("SPEXPIRETIME k x 0 a", wrong_type),
        ("SADDEX s EX 100 MXX", "-ERR missing MEMBERS argument"),
        ("SADDEX s MEMBERS 0 a", "-ERR invalid number of members"),
        ("SADDEX s MEMBERS 3 a b", "-ERR wrong number of arguments"),
        ("SADDEX s MXX MNX MEMBERS", "-ERR Only one of MXX or MNX arguments can be specified"),
        ("SADDEX s MXX KEEPTTL MEMBERS", "-ERR wrong number of arguments for 'saddex' command"),
        ("SADDEX s MEMBERS 1 a MEMBERS 1 b", "-ERR MEMBERS keyword specified multiple times"),
        ("SADDEX s BAD MEMBERS 1 a", "-ERR unknown argument: BAD"),
        ("SADDEX s FNX MEMBERS 1 a", "-ERR unknown argument: FNX"),
        ("SADDEX s EX 100 PX 100 MEMBERS 1 a", one_time),
        ("SADDEX s EX 100 KEEPTTL MEMBERS 1 a", one_time),
        ("SADDEX s MEMBERS 1 a EX", "-ERR missing expire time"),
        ("SADDEX s EX -1 MEMBERS 1 a", "-ERR invalid expire time, must be >= 0"),
        ("SADDEX s PX 281474976710656 MEMBERS 1 a", "-ERR invalid expire time in 'saddex' command"),
        ("SADDEX s EX x MEMBERS 1 a", "-ERR value is not an integer or out of range"),
        ("SADDEX k MEMBERS 1 a", wrong_type),
    ] {
        assert_eq!(t.run(line), error, "{line}");
        assert!(t.effects().is_empty() && t.events().is_empty(), "{line}");
    }
    assert_eq!(t.run("OBJECT ENCODING s"), "\"listpack\"");
}

#[test]
fn adding_with_a_time() {
    let mut t = with(&[]);
    assert_eq!(t.run("SADDEX s MXX MEMBERS 1 a"), ":0");
    assert_eq!(t.run("EXISTS s"), ":0");
    assert_eq!(t.run("SADDEX s MEMBERS 2 a b"), ":1");
    assert_eq!((t.dirty, t.effects()), (2, ["SADDEX s MEMBERS 2 a b".to_string()].as_slice()));
    assert_eq!(t.events(), ["new s", "sadd s"]);
    assert_eq!(t.run("OBJECT ENCODING s"), "\"listpack\"");
    assert_eq!(t.run("SADDEX s MEMBERS 1 a EX 10 MXX"), ":1");
    assert_eq!(t.effects(), [format!("SADDEX s MEMBERS 1 a PXAT {} MXX", START_MS + 10_000)]);
    assert_eq!(t.events(), ["sadd s", "sexpire s"]);
    assert_eq!(t.run("SADDEX s KEEPTTL MEMBERS 2 a c"), ":1");
    assert_eq!(t.run("STTL s MEMBERS 3 a b c"), "[:10 :-1 :-1]");
    assert_eq!(t.run("SADD s a"), ":0");
    assert_eq!(t.run("STTL s MEMBERS 1 a"), "[:10]");
    assert_eq!(t.run("SADDEX s MEMBERS 1 a"), ":1");
    assert_eq!(t.run("STTL s MEMBERS 1 a"), "[:-1]");
    assert_eq!(t.run("SADDEX s MNX EX 5 MEMBERS 2 z a"), ":0");
    assert_eq!(t.run("SADDEX s MXX EX 5 MEMBERS 2 z a"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    let at_ms = START_MS + 50;
    assert_eq!(t.run(&format!("SADDEX s MNX pxat {at_ms} MEMBERS 2 x y")), ":1");
    assert_eq!(t.effects(), [format!("SADDEX s MNX pxat {at_ms} MEMBERS 2 x y")]);
    t.advance_ms(50);
    assert_eq!(t.run("SADDEX s MXX EX 9 MEMBERS 2 x b"), ":0");
    assert_eq!(t.effects(), ["SREM s x"]);
    assert_eq!(t.run("SADDEX s MNX MEMBERS 2 x y"), ":1");
    assert_eq!(t.effects(), ["SREM s y", "SADDEX s MNX MEMBERS 2 x y"]);
    assert_eq!(t.events(), ["sexpired s", "sadd s"]);
    assert_eq!(t.run("SADDEX s PXAT 1 MEMBERS 3 a new a"), ":1");
    assert_eq!(t.effects(), ["SREM s a"]);
    assert_eq!((t.dirty, t.events()), (1, ["srem s".to_string()].as_slice()));
    assert_eq!(sorted(&t.run("SMEMBERS s")), ["b", "c", "x", "y"]);
    assert_eq!(t.run("SADDEX s EXAT 1 MEMBERS 4 b c x y"), ":1");
    assert_eq!(t.events(), ["srem s", "del s"]);
    assert_eq!(t.run("SADDEX s EXAT 1 MEMBERS 1 b"), ":1");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("EXISTS s"), ":0");
    assert_eq!(t.run("SADDEX i EX 9 MEMBERS 2 1 2"), ":1");
    assert_eq!(t.run("OBJECT ENCODING i"), "\"listpackex\"");
    let many: Vec<String> = (0..129).map(|i| i.to_string()).collect();
    assert_eq!(t.run(&format!("SADDEX i KEEPTTL MEMBERS 129 {}", many.join(" "))), ":1");
    assert_eq!(t.run("OBJECT ENCODING i"), "\"hashtable\"");
    assert_eq!(t.run("STTL i MEMBERS 3 1 2 3"), "[:9 :9 :-1]");
}

/// Small and large sets of which `dead` has expired, and `live`, `other` have not.
fn with_dead_members() -> [Fixture; 2] {
    let many: Vec<String> = (0..600).map(|i| format!("dead{i}")).collect();
    let large = format!("SADDEX s PX 50 MEMBERS 600 {}", many.join(" "));
    [None, Some(large)].map(|more| {
        let mut t = with(&[
            "SADD s live other dead",
            "SPEXPIRE s 50 MEMBERS 1 dead",
            "SEXPIRE s 100 MEMBERS 1 other",
        ]);
        more.into_iter().for_each(|line| assert_eq!(t.run(&line), ":1"));
        t.run("SADD two dead live third");
        t.advance_ms(50);
        t
    })
}

#[test]
fn expired_members_are_absent() {
    for t in with_dead_members() {
        let mut t = t;
        assert_eq!(sorted(&t.run("SMEMBERS s")), ["live", "other"]);
        assert_eq!(t.run("SMOVE s two dead"), ":0");
        assert_eq!(t.run("SINTER s two"), "[\"live\"]");
        assert_eq!(t.run("SINTERCARD 2 s two"), ":1");
        assert_eq!(sorted(&t.run("SUNION s two")), ["dead", "live", "other", "third"]);
        assert_eq!(t.run("SUNIONCARD 2 s two"), ":4");
        assert_eq!(t.run("SUNIONCARD 1 s APPROX"), ":2");
        assert_eq!(sorted(&t.run("SDIFF two s")), ["dead", "third"]);
        assert_eq!(sorted(&t.run("SDIFF s two")), ["other"]);
        assert_eq!(t.run("SDIFFCARD 1 s"), ":2");
        assert_eq!(sorted(&t.run("ZUNION 1 s")), ["live", "other"]);
        assert_eq!(t.run("ZINTERCARD 2 s two"), ":1");
        assert_eq!(t.run("SORT s ALPHA"), r#"["live" "other"]"#);
        let scanned = t.run("SSCAN s 0 COUNT 10000");
        assert_eq!(sorted(scanned.trim_start_matches("[\"0\" ")), ["live", "other"]);
        assert!(t.effects().is_empty());
        assert_eq!(t.run("STTL s MEMBERS 3 dead live other"), "[:-2 :-1 :100]");
        assert_eq!(t.run("SEXPIRE s 9 MEMBERS 1 dead"), "[:-2]");
        assert!(t.effects().is_empty());
        assert_eq!(t.run("SMISMEMBER s dead live"), "[:0 :1]");
        assert_eq!(t.effects(), ["SREM s dead"]);
        assert_eq!(t.events(), ["sexpired s"]);
        assert_eq!(t.run("COPY s copy"), ":1");
        assert_eq!(sorted(&t.run("SMEMBERS copy")), ["live", "other"]);
        assert_eq!(t.run("STTL copy MEMBERS 1 other"), "[:100]");
        t.run("RENAME s renamed");
        assert_eq!(t.run("SPTTL renamed MEMBERS 1 other"), "[:99950]");
    }
}

#[test]
fn an_expired_member_that_is_removed_or_kept_is_gone() {
    for line in ["SREM s dead live", "SPERSIST s MEMBERS 2 dead other"] {
        for t in with_dead_members() {
            let mut t = t;
            let reply = t.run(line);
            assert!(reply == ":1" || reply == "[:-2 :1]", "{line}: {reply}");
            assert_eq!(t.effects(), ["SREM s dead", line]);
        }
    }
}

#[test]
fn an_expired_member_can_be_added_again() {
    for t in with_dead_members() {
        let mut t = t;
        assert_eq!(t.run("SADD s dead live"), ":1");
        assert_eq!(t.effects(), ["SREM s dead", "SADD s dead live"]);
        assert_eq!(t.events(), ["sexpired s", "sadd s"]);
        assert_eq!(t.run("STTL s MEMBERS 2 dead live"), "[:-1 :-1]");
        t.run("SPEXPIRE s 10 MEMBERS 1 dead");
        t.advance_ms(10);
        assert_eq!(t.run("SMOVE two s dead"), ":1");
        assert_eq!(t.effects(), ["SREM s dead", "SMOVE two s dead"]);
        assert_eq!(t.run("STTL s MEMBERS 1 dead"), "[:-1]");
        assert_eq!(t.run("SMOVE s two other"), ":1");
        assert_eq!(t.run("STTL two MEMBERS 1 other"), "[:-1]");
    }
}

#[test]
fn stored_results_have_no_expired_members_and_no_times() {
    for (line, size) in [
        ("SUNIONSTORE d s", ":2"),
        ("SINTERSTORE d s s", ":2"),
        ("SDIFFSTORE d s none", ":2"),
        ("ZUNIONSTORE d 1 s", ":2"),
        ("SORT s ALPHA STORE d", ":2"),
    ] {
        for t in with_dead_members() {
            let mut t = t;
            assert_eq!(t.run(line), size, "{line}");
            let (last, removals) = t.effects().split_last().expect("effects");
            assert_eq!(last, line);
            assert!(!removals.is_empty() && removals.iter().all(|line| line.starts_with("SREM s dead")));
            if t.run("TYPE d") == "+set" {
                assert_eq!(t.run("STTL d MEMBERS 1 other"), "[:-1]");
            }
        }
    }
}

#[test]
fn random_choice_leaves_expired_members_out() {
    for t in with_dead_members() {
        let mut t = t;
        assert_eq!(sorted(&t.run("SRANDMEMBER s 9")), ["live", "other"]);
        assert!(t.effects().iter().all(|line| line.starts_with("SREM s dead")));
        assert!(["\"live\"", "\"other\""].contains(&t.run("SRANDMEMBER s").as_str()));
    }
    for t in with_dead_members() {
        let mut t = t;
        assert!(["[\"live\"]", "[\"other\"]"].contains(&t.run("SPOP s 1").as_str()));
        t.advance_ms(200_000);
        let left = t.run("SPOP s");
        assert!(["nil", "\"live\""].contains(&left.as_str()), "{left}");
        assert_eq!(t.run("EXISTS s"), ":0");
        assert_eq!(t.run("SRANDMEMBER s -3"), "[]");
    }
}

#[test]
fn members_are_deleted_when_they_are_due() {
    for t in with_dead_members() {
        let mut t = t;
        t.expire_due();
        assert_eq!(t.run("OBJECT ENCODING two"), "\"listpack\"");
        assert!(t.effects().contains(&"SREM s dead".to_string()), "{:?}", t.effects());
        assert_eq!(t.run("SCARD s"), ":2");
        t.run("SREM s live");
        t.advance_ms(100_000);
        t.expire_due();
        assert_eq!(t.run("EXISTS s"), ":0");
    }
}

/// Where expired data is to stay, no command sees such members, and none deletes them.
#[test]
fn expired_members_may_have_to_stay() {
    for t in with_dead_members() {
        let mut t = t;
        t.keys.see(View { expired: Expired::Keep, ..t.keys.view() });
        assert_eq!(t.run("SMISMEMBER s dead live"), "[:0 :1]");
        assert_eq!(sorted(&t.run("SRANDMEMBER s 9")), ["live", "other"]);
        assert!(t.effects().is_empty());
        assert!(["\"live\"", "\"other\""].contains(&t.run("SPOP s").as_str()));
        assert!(["[\"live\"]", "[\"other\"]"].contains(&t.run("SPOP s 1").as_str()));
        assert_eq!((t.run("SRANDMEMBER s"), t.run("SRANDMEMBER s -2")), ("nil".into(), "[]".into()));
        assert_eq!((t.run("SPOP s"), t.run("SCARD s")), ("nil".into(), ":0".into()));
    }
}

/// All members of a key with their times, expired ones included.
fn members(t: &mut Fixture, name: &str) -> Option<Vec<(Vec<u8>, i64)>> {
    let key = Key::new(name.as_bytes());
    t.keys.with_shard(key.shard(), |keys| {
        let set = keys.shard(key.shard()).keys.db(0).get(&key)?.object::<Set>()?;
        let mut members: Vec<_> =
            set.iter().map(|member| (member.element.to_vec(), member.expire_at_ms)).collect();
        members.sort();
        Some(members)
    })
}

/// A replica decides of no member that it has expired, and has the same members with the same times after
/// every command all the same.
#[test]
fn what_is_recorded_makes_the_same_sets() {
    let seed = u64::from(std::process::id());
    let mut random = martlet_base::random::Random::seeded(seed);
    let (mut primary, mut replica) = (Fixture::new(), Fixture::new());
    replica.keys.see(View { expired: Expired::See, ..replica.keys.view() });
    let names = ["a", "b", "c"];
    for step in 0..3_000 {
        let mut below = |n: u64| random.below(n);
        let member = |n: u64| if n < 4 { n.to_string() } else { format!("m{n}") };
        let (key, other) = (names[below(3) as usize], names[below(3) as usize]);
        let (one, two) = (member(below(12)), member(below(12)));
        let (ms, unit) = (below(40), ["PX", "EX", "KEEPTTL"][below(3) as usize]);
        let time = if unit == "KEEPTTL" { unit.into() } else { format!("{unit} {ms}") };
        let condition = ["", "NX ", "XX ", "GT ", "LT "][below(5) as usize];
        let line = match below(16) {
            0 | 1 => format!("SADD {key} {one} {two}"),
            2 => format!("SREM {key} {one} {two}"),
            3 | 4 => format!("SPEXPIRE {key} {ms} {condition}MEMBERS 2 {one} {two}"),
            5 => format!("SADDEX {key} {time} MEMBERS 2 {one} {two}"),
            6 => format!("SADDEX {key} MNX {time} MEMBERS 1 {one}"),
            7 => format!("SADDEX {key} MEMBERS 2 {one} {two} MXX PX {ms}"),
            8 => format!("SPERSIST {key} MEMBERS 2 {one} {two}"),
            9 => format!("SMOVE {key} {other} {one}"),
            10 => format!("SPOP {key} {}", below(3)),
            11 => format!("SUNIONSTORE {key} {other} a"),
            12 => format!("SDIFFSTORE {key} {other} c"),
            13 => format!("SMISMEMBER {key} {one} {two}"),
            14 => format!("COPY {key} {other} REPLACE"),
            _ => format!("SRANDMEMBER {key} 2"),
        };
        let reply = primary.run(&line);
        let is_same = reply.contains("source and destination objects are the same");
        assert!(!reply.starts_with('-') || is_same, "seed {seed}, step {step}: {line}: {reply}");
        for effect in primary.effects().to_vec() {
            replica.run(&effect);
        }
        for name in names {
            let (left, right) = (members(&mut primary, name), members(&mut replica, name));
            assert_eq!(left, right, "seed {seed}, step {step}: {line}: {name}");
        }
        for fixture in [&mut primary, &mut replica] {
            fixture.advance_ms(ms as i64 / 4);
        }
        if step % 16 == 0 {
            primary.expire_due();
        }
    }
}

/// A time relative to now is one of the options, no matter what keys, values, fields and members are called.
#[test]
fn only_options_make_a_time_relative() {
    for (line, is_relative) in [
        ("SADDEX ex EX 9 MEMBERS 1 a", true),
        ("SADDEX s MEMBERS 1 a MXX px 9", true),
        ("SADDEX s PXAT 9 MEMBERS 2 ex px", false),
        ("SADDEX s MEMBERS 2 ex px PXAT 9", false),
        ("SADDEX s MEMBERS x ex", false),
        ("HSETEX h PXAT 9 FIELDS 1 px ex", false),
        ("HSETEX h PX 9 FIELDS 1 f v", true),
        ("HGETEX h EXAT 9 FIELDS 2 ex px", false),
        ("HGETEX h EX 9 FIELDS 1 f", true),
        ("SET ex px PXAT 9", false),
        ("SET k v PX 9", true),
    ] {
        let args = OwnedArgs::from_slices(line.split(' ').map(str::as_bytes));
        let all = FAMILIES.iter().flat_map(|family| family.iter());
        let name = line.split(' ').next().map(str::to_lowercase);
        let command = all.copied().find(|command| Some(command.spec.name) == name.as_deref()).expect(line);
        let is = command.spec.relative_time.expect(line);
        assert_eq!(is(&args.view()), is_relative, "{line}");
    }
}
