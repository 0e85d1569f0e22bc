//! The family against the fixture: replies in both protocols, effects, events, errors, links, the index.

use crate::testing::{Fixture, START_MS};
use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_values::time_series::SeriesIndex;

fn check(t: &mut Fixture, cases: &[(&str, &str)]) {
    for (request, reply) in cases {
        assert_eq!(t.run(request), *reply, "{request}");
    }
}

/// Series in the index of each database's shards.
fn indexed(t: &mut Fixture, db: usize) -> usize {
    let of_shard = |shard: usize, t: &mut Fixture| {
        t.keys.with_shard(shard, |keys| {
            keys.shard(shard).keys.db(db).index::<SeriesIndex>().map_or(0, SeriesIndex::len)
        })
    };
    (0..SHARD_COUNT).map(|shard| of_shard(shard, t)).sum()
}

#[test]
fn samples_are_added_and_read() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("TS.CREATE k RETENTION 0 LABELS a 1 b 2", "+OK"),
            ("TS.ADD k 1 1.5", ":1"),
            ("TS.ADD k 5 0.1", ":5"),
            ("TS.GET k", "[:5 +1E-1]"),
            ("TS.RANGE k - +", "[[:1 +1.5] [:5 +1E-1]]"),
            ("TS.REVRANGE k - + COUNT 1", "[[:5 +1E-1]]"),
            ("TS.RANGE k - + AGGREGATION sum 10", "[[:0 +1.6]]"),
            ("TS.RANGE k - + AGGREGATION sum,count 10", "[[:0 +1.6 +2]]"),
            (
                "TS.MADD k 6 1 k 6 2 none 1 1 k x 1",
                "[:6 -ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode, or either current or new value is NaN and DUPLICATE_POLICY is MAX/MIN/SUM -ERR TSDB: the key is not a TSDB key -ERR TSDB: invalid timestamp]",
            ),
            ("TS.ADD k 6 7 ON_DUPLICATE LAST", ":6"),
            ("TS.INCRBY k 3 TIMESTAMP 7", ":7"),
            ("TS.DECRBY k 1 TIMESTAMP 7", ":7"),
            ("TS.GET k", "[:7 +9]"),
            ("TS.DEL k 1 5", ":2"),
            ("TS.RANGE k - +", "[[:6 +7] [:7 +9]]"),
            ("TYPE k", "+TSDB-TYPE"),
            ("OBJECT ENCODING k", "\"raw\""),
            ("SORT k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
    t.resp3 = true;
    check(&mut t, &[("TS.GET k", "[:7 ,9]"), ("TS.QUERYINDEX a=1", "~[\"k\"]")]);
}

#[test]
fn followers_get_definite_times() {
    let mut t = Fixture::new();
    t.run("TS.ADD k * 5 LABELS a b");
    assert_eq!(t.effects(), [format!("TS.ADD k {START_MS} 5 LABELS a b")]);
    assert_eq!(t.events(), ["new k", "ts.add k"]);
    t.run("TS.INCRBY k 1");
    assert_eq!(t.effects(), [format!("TS.INCRBY k 1 TIMESTAMP {START_MS}")]);
    t.run("TS.INCRBY k 1 TIMESTAMP *");
    assert_eq!(t.effects(), [format!("TS.INCRBY k 1 TIMESTAMP {START_MS}")]);
    t.run("TS.INCRBY n 1 LABELS x y");
    assert_eq!(t.effects(), [format!("TS.INCRBY n 1 TIMESTAMP {START_MS} LABELS x y")]);
    t.advance_ms(5);
    t.run("TS.MADD k * 1 none 5 5");
    assert_eq!(t.effects(), [format!("TS.MADD k {} 1", START_MS + 5)]);
    t.run("TS.MADD k 1 x none 5 5");
    assert_eq!((t.effects().len(), t.dirty), (0, 0));
    t.run("TS.ADD k 7 1");
    assert_eq!(t.effects(), ["TS.ADD k 7 1"]);
    t.run("TS.DEL k 3 4");
    assert_eq!((t.effects().len(), t.dirty), (0, 0));
}

#[test]
fn rules_fill_their_destinations() {
    let mut t = Fixture::new();
    for request in ["TS.CREATE s", "TS.CREATE d", "TS.CREATERULE s d AGGREGATION avg 10"] {
        assert_eq!(t.run(request), "+OK", "{request}");
    }
    assert_eq!(t.events(), ["ts.createrule:src s", "ts.createrule:dest d"]);
    t.run("TS.MADD s 1 1 s 2 3");
    check(
        &mut t,
        &[("TS.GET d", "[]"), ("TS.GET d LATEST", "[:0 +2]"), ("TS.RANGE d - + LATEST", "[[:0 +2]]")],
    );
    t.run("TS.ADD s 11 5");
    assert_eq!(t.events(), ["ts.add:dest d", "ts.add s"]);
    assert_eq!(t.effects(), ["TS.ADD s 11 5"]);
    check(
        &mut t,
        &[
            ("TS.GET d", "[:0 +2]"),
            ("TS.ADD s 3 5", ":3"),
            ("TS.GET d", "[:0 +3]"),
            ("TS.DEL s 3 3", ":1"),
            ("TS.GET d", "[:0 +2]"),
            ("TS.CREATERULE s d AGGREGATION avg 10", "-ERR TSDB: the destination key already has a src rule"),
            ("TS.CREATERULE d s AGGREGATION avg 10", "-ERR TSDB: the source key already has a source rule"),
            (
                "TS.CREATERULE s s AGGREGATION avg 10",
                "-ERR TSDB: the source key and destination key should be different",
            ),
            ("TS.DELETERULE s d", "+OK"),
            ("TS.DELETERULE s d", "-ERR TSDB: compaction rule does not exist"),
        ],
    );
}

#[test]
fn ties_follow_names_and_end_with_either_key() {
    let mut t = Fixture::new();
    for request in
        ["TS.CREATE s", "TS.CREATE d", "TS.CREATERULE s d AGGREGATION sum 10", "RENAME s s2", "RENAME d d2"]
    {
        assert_eq!(t.run(request), "+OK", "{request}");
    }
    t.run("TS.MADD s2 1 1 s2 11 1");
    assert_eq!(t.run("TS.GET d2"), "[:0 +1]");
    let rules = |t: &mut Fixture, key: &str| {
        let info = t.run(&format!("TS.INFO {key}"));
        let end = info.find(" +ignoreMaxTimeDiff").expect("a field");
        info[info.find("+sourceKey").expect("a field")..end].to_owned()
    };
    assert_eq!(rules(&mut t, "s2"), "+sourceKey nil +rules [[\"d2\" :10 +SUM :0]]");
    assert_eq!(rules(&mut t, "d2"), "+sourceKey \"s2\" +rules []");
    // A copy has no ties.
    check(&mut t, &[("COPY s2 c", ":1"), ("COPY d2 e", ":1")]);
    assert_eq!(rules(&mut t, "c"), "+sourceKey nil +rules []");
    assert_eq!(rules(&mut t, "e"), "+sourceKey nil +rules []");
    t.run("DEL d2");
    assert_eq!(rules(&mut t, "s2"), "+sourceKey nil +rules []");
    check(&mut t, &[("TS.CREATE d2", "+OK"), ("TS.ADD s2 25 1", ":25"), ("TS.GET d2", "[]")]);
    check(&mut t, &[("TS.CREATERULE s2 d2 AGGREGATION sum 10", "+OK"), ("DEL s2", ":1")]);
    assert_eq!(rules(&mut t, "d2"), "+sourceKey nil +rules []");
    check(&mut t, &[("TS.CREATE s", "+OK"), ("TS.CREATERULE d2 s AGGREGATION sum 10", "+OK")]);
}

#[test]
fn the_index_has_exactly_the_series_with_labels() {
    let mut t = Fixture::new();
    for request in
        ["TS.CREATE a LABELS x 1", "TS.CREATE b LABELS x 1 y 2", "TS.CREATE c", "TS.ALTER c LABELS x 1"]
    {
        assert_eq!(t.run(request), "+OK", "{request}");
    }
    let find = |t: &mut Fixture, expected: &str, count: usize| {
        assert_eq!(t.run("TS.QUERYINDEX x=1"), expected);
        assert_eq!(indexed(t, 0), count);
    };
    find(&mut t, "[\"a\" \"b\" \"c\"]", 3);
    t.run("DEL a");
    find(&mut t, "[\"b\" \"c\"]", 2);
    t.run("RENAME b bb");
    find(&mut t, "[\"bb\" \"c\"]", 2);
    t.run("COPY bb a");
    find(&mut t, "[\"a\" \"bb\" \"c\"]", 3);
    t.run("SET a text");
    find(&mut t, "[\"bb\" \"c\"]", 2);
    t.run("TS.ALTER c LABELS");
    find(&mut t, "[\"bb\"]", 1);
    t.run("TS.ADD bb 1 1");
    t.run("PEXPIRE bb 10");
    t.advance_ms(20);
    assert_eq!(t.run("TS.QUERYINDEX x=1"), "[]");
    t.expire_due();
    find(&mut t, "[]", 0);
    t.run("TS.CREATE a1 LABELS x 1");
    t.run("MOVE a1 3");
    find(&mut t, "[]", 0);
    assert_eq!(indexed(&mut t, 3), 1);
    t.run("SWAPDB 0 3");
    find(&mut t, "[\"a1\"]", 1);
    let payload = t.run_args(&["DUMP", "a1"]);
    let at = payload.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    let payload = payload[at..payload.len() - 2].to_vec();
    let restore = |name: &[u8]| [b"RESTORE".to_vec(), name.to_vec(), b"0".to_vec(), payload.clone()];
    assert_eq!(t.run_args(&restore(b"back")), b"+OK\r\n");
    find(&mut t, "[\"a1\" \"back\"]", 2);
    t.run("FLUSHALL");
    find(&mut t, "[]", 0);
}

#[test]
fn policies_create_destinations() {
    let mut t = Fixture::new();
    t.settings.series.compactions = martlet_tseries::policy::parse("max:10m:1h;avg:20m:0:5m").unwrap();
    check(
        &mut t,
        &[
            ("TS.ADD k 1 1 LABELS l v", ":1"),
            ("TS.QUERYINDEX l=v", "[\"k\" \"k_AVG_20_5\" \"k_MAX_10\"]"),
            ("TS.QUERYINDEX l=v aggregation=MAX time_bucket=10", "[\"k_MAX_10\"]"),
            ("TS.MADD k 12 1 k 26 1", "[:12 :26]"),
            ("TS.GET k_MAX_10", "[:10 +1]"),
            ("TS.CREATE other", "+OK"),
            ("EXISTS other_MAX_10", ":0"),
            ("TS.INCRBY i 1", &format!(":{START_MS}")),
            ("EXISTS i_MAX_10", ":1"),
        ],
    );
}

#[test]
fn several_series_in_one_answer() {
    let mut t = Fixture::new();
    for request in ["TS.CREATE l1 LABELS a b n 1", "TS.CREATE l2 LABELS a b n 2"] {
        t.run(request);
    }
    t.run("TS.MADD l1 1 1 l2 1 2 l1 2 2 l2 5 5");
    check(
        &mut t,
        &[
            (
                "TS.MGET SELECTED_LABELS N zz FILTER a=b",
                "[[\"l1\" [[\"n\" \"1\"] [\"zz\" nil]] [:2 +2]] [\"l2\" [[\"n\" \"2\"] [\"zz\" nil]] [:5 +5]]]",
            ),
            ("TS.MRANGE - + FILTER a=b n=2", "[[\"l2\" [] [[:1 +2] [:5 +5]]]]"),
            (
                "TS.MRANGE - + WITHLABELS FILTER a=b GROUPBY a REDUCE max",
                "[[\"a=b\" [[\"a\" \"b\"] [\"__reducer__\" \"max\"] [\"__source__\" \"l1,l2\"]] [[:1 +2] [:2 +2] [:5 +5]]]]",
            ),
            ("TS.MREVRANGE - + COUNT 1 FILTER a=b GROUPBY a REDUCE max", "[[\"a=b\" [] [[:5 +5]]]]"),
            ("TS.MRANGE 3 + FILTER a=b", "[[\"l1\" [] []] [\"l2\" [] [[:5 +5]]]]"),
            ("TS.MRANGE 3 + EXCLUDEEMPTY FILTER a=b", "[[\"l2\" [] [[:5 +5]]]]"),
            ("TS.NRANGE 2 l1 l2 - +", "[[:1 [+1 +2]] [:2 [+2 +NaN]] [:5 [+NaN +5]]]"),
            ("TS.NREVRANGE 2 l1 l2 - + COUNT 1", "[[:5 [+NaN +5]]]"),
            ("TS.NRANGE 2 l1 l2 - + AGGREGATION sum max,min 10", "[[:0 [+3 +5 +2]]]"),
            (
                "TS.NRANGE 2 l1 l2 - + AGGREGATION sum 10",
                "-ERR TSDB: the number of AGGREGATION arguments must be equal to numkeys",
            ),
            ("TS.QUERYLABELS LABELS", "[\"a\" \"n\"]"),
            ("TS.QUERYLABELS VALUES n", "[\"1\" \"2\"]"),
            ("TS.QUERYLABELS VALUES n FILTER n=(2,3)", "[\"2\"]"),
        ],
    );
    t.resp3 = true;
    check(
        &mut t,
        &[
            ("TS.MGET FILTER a=b n=1", "{\"l1\" [{} [:2 ,2]]}"),
            (
                "TS.MRANGE - + WITHLABELS AGGREGATION avg 10 FILTER n=1 a=b",
                "{\"l1\" [{\"a\" \"b\" \"n\" \"1\"} {\"aggregators\" [\"avg\"]} [[:0 ,1.5]]]}",
            ),
            (
                "TS.MRANGE - + WITHLABELS FILTER a=b GROUPBY a REDUCE max",
                "{\"a=b\" [{\"a\" \"b\"} {\"reducers\" [\"max\"]} {\"sources\" [\"l1\" \"l2\"]} [[:1 ,2] [:2 ,2] [:5 ,5]]]}",
            ),
        ],
    );
}

#[test]
fn reading_waits_for_samples() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("TS.ADD k 5 1", ":5"),
            ("TS.READ k -", "[[:5 +1]]"),
            ("TS.READ k $", "[]"),
            ("TS.READ none -", "[]"),
        ],
    );
    assert_eq!(t.run("TS.READ k $ BLOCK 100 2"), "");
    let block = t.block.take().expect("it waits");
    assert_eq!(block.again_ms, Some(START_MS + 100));
    assert_eq!(block.resolved[0], (2, b"6".to_vec()));
    let again: Vec<Vec<u8>> = vec![
        b"TS.READ".to_vec(),
        b"k".to_vec(),
        b"6".to_vec(),
        b"BLOCK".to_vec(),
        block.resolved[1].1.clone(),
        b"2".to_vec(),
    ];
    t.run("TS.ADD k 6 1");
    assert_eq!(t.run_args(&again), b"");
    assert!(t.block.is_some());
    t.advance_ms(100);
    assert_eq!(t.run_args(&again), b"*1\r\n*2\r\n:6\r\n+1\r\n");
    t.run("DEL k");
    assert_eq!(t.run_args(&again), b"*0\r\n");
    t.deny_blocking = true;
    assert!(t.run("TS.READ k $ BLOCK 0 1").starts_with("-TSDB: blocking TS.READ"));
    check(
        &mut t,
        &[
            ("TS.READ k x", "-TSDB: invalid timestamp"),
            ("TS.READ k - BLOCK -1 1", "-TSDB: BLOCK milliseconds must be a non-negative integer"),
            ("TS.READ k - BLOCK 1 0", "-TSDB: BLOCK min_count must be a positive integer"),
            ("TS.READ k - MAX_COUNT 0", "-TSDB: MAX_COUNT must be a positive integer"),
            ("TS.READ k - BLOCK 1 5 MAX_COUNT 2", "-TSDB: BLOCK min_count must be <= MAX_COUNT"),
            ("TS.READ k - MAX_COUNT", "-ERR wrong number of arguments for 'ts.read' command"),
        ],
    );
}

#[test]
fn bad_input_is_refused_in_redis_words() {
    let mut t = Fixture::new();
    check(
        &mut t,
        &[
            ("TS.CREATE x RETENTION -1", "-TSDB: Couldn't parse RETENTION"),
            ("TS.CREATE x RETENTION", "-ERR TSDB: Couldn't parse RETENTION"),
            ("TS.CREATE x LABELS a \"\"", "-ERR TSDB: Couldn't parse LABELS"),
            (
                "TS.CREATE x CHUNK_SIZE 5",
                "-ERR TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]",
            ),
            ("TS.CREATE x ENCODING", "-ERR wrong number of arguments for 'ts.create' command"),
            ("TS.CREATE x ENCODING z", "-ERR TSDB: unknown ENCODING parameter"),
            ("TS.CREATE x DUPLICATE_POLICY z", "-ERR TSDB: Unknown DUPLICATE_POLICY"),
            ("TS.CREATE x IGNORE 1", "-ERR TSDB: Couldn't parse IGNORE"),
            ("TS.CREATE x IGNORE -1 1", "-ERR TSDB: IGNORE arguments cannot be negative"),
            ("EXISTS x", ":0"),
            ("TS.CREATE x", "+OK"),
            ("TS.CREATE x", "-ERR TSDB: key already exists"),
            ("SET str 1", "+OK"),
            ("TS.ADD str 1 1", "-ERR TSDB: the key is not a TSDB key"),
            ("TS.GET str", "-ERR WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("TS.GET none", "-ERR TSDB: the key does not exist"),
            ("TS.GET x z", "-ERR TSDB: wrong 3rd argument"),
            ("TS.ADD x -5 1", "-ERR TSDB: invalid timestamp, must be a nonnegative integer"),
            ("TS.ADD x 1 1x", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 inf", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 01", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 .5", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 5.", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 +1", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 1e400", "-ERR TSDB: invalid value"),
            ("TS.ADD x 1 1e-400", ":1"),
            ("TS.ADD x 2 -0", ":2"),
            ("TS.ADD x 3 NaN", ":3"),
            ("TS.GET x", "[:3 +NaN]"),
            ("TS.INCRBY x 1", "-ERR TSDB: cannot increment/decrement NaN value"),
            ("TS.RANGE x - + COUNT 0", "-ERR TSDB: Invalid COUNT value"),
            ("TS.RANGE x - + ALIGN 5", "-ERR TSDB: ALIGN parameter can only be used with AGGREGATION"),
            ("TS.RANGE x - + AGGREGATION avg 0", "-ERR TSDB: bucketDuration must be greater than zero"),
            ("TS.RANGE x - + AGGREGATION avg", "-ERR TSDB: Couldn't parse AGGREGATION"),
            ("TS.MRANGE - +", "-ERR wrong number of arguments for 'ts.mrange' command"),
            ("TS.MRANGE - + x FILTER", "-ERR TSDB: missing labels for filter argument"),
            ("TS.MRANGE - + FILTER a=b GROUPBY a REDUCE zz", "-ERR TSDB: Invalid reducer type"),
            ("TS.MGET FILTER a=", "-ERR TSDB: please provide at least one matcher"),
            ("TS.NRANGE 0 x - +", "-ERR TSDB: numkeys must be a positive integer"),
            ("TS.NRANGE 9 x - +", "-ERR wrong number of arguments for 'ts.nrange' command"),
            ("TS.QUERYLABELS x", "-ERR TSDB: unknown subtype, must be one of LABELS|VALUES"),
            ("TS.MADD x 1", "-ERR wrong number of arguments for 'ts.madd' command"),
        ],
    );
}

/// Payloads of series of several forms.
fn payloads(t: &mut Fixture) -> Vec<Vec<u8>> {
    for request in [
        "TS.CREATE p1 CHUNK_SIZE 48 RETENTION 500 LABELS x 1",
        "TS.CREATE p2 ENCODING UNCOMPRESSED CHUNK_SIZE 64 DUPLICATE_POLICY SUM",
        "TS.CREATE p3 IGNORE 1 1",
        "TS.CREATE p4",
        "TS.CREATERULE p3 p4 AGGREGATION twa 7",
    ] {
        assert_eq!(t.run(request), "+OK", "{request}");
    }
    for time in 0..60 {
        for key in ["p1", "p2", "p3"] {
            t.run(&format!("TS.ADD {key} {} {}.{}", time * 3, time % 9, time % 4));
        }
    }
    let mut payloads = Vec::new();
    for key in ["p1", "p2", "p3", "p4"] {
        let owner = martlet_values::Owner { key: key.as_bytes(), has_links: true };
        let key = martlet_keyspace::Key::new(key.as_bytes());
        payloads.push(t.keys.with_shard(key.shard(), |keys| {
            let entry = keys.get(&key).expect("the key is there");
            martlet_values::payload::dump_of(owner, entry.view(), false)
        }));
    }
    payloads
}

#[test]
fn damaged_payloads_harm_no_command() {
    const COMMANDS: [&str; 24] = [
        "TS.INFO k DEBUG",
        "TS.GET k LATEST",
        "TS.RANGE k - + LATEST",
        "TS.REVRANGE k - + AGGREGATION avg,twa 1000000000000000 EMPTY",
        "TS.MRANGE - + LATEST FILTER x=1 GROUPBY x REDUCE sum",
        "TS.NRANGE 2 k p2 - +",
        "TS.READ k -",
        "TS.MGET FILTER x=1",
        "TS.QUERYLABELS LABELS",
        "TS.ADD k 31 5 ON_DUPLICATE MAX",
        "TS.ADD k 400 5",
        "TS.MADD k 500 1 k 1 1",
        "TS.INCRBY k 3 TIMESTAMP 900",
        "TS.DEL k 3 90",
        "TS.ALTER k LABELS y 2 RETENTION 9",
        "TS.CREATERULE k p2 AGGREGATION sum 5",
        "TS.ADD k 1000 1",
        "TS.DELETERULE k p2",
        "COPY k copy REPLACE",
        "RENAME k kk",
        "TS.ADD kk 2000 1",
        "DUMP kk",
        "TS.DEL kk - +",
        "DEL kk",
    ];
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut t = Fixture::new();
    let payloads = payloads(&mut t);
    let mut restored = 0;
    for _ in 0..1500 {
        let mut payload = payloads[random.below(payloads.len() as u64) as usize].clone();
        let body = payload.len() - 10;
        for _ in 0..1 + random.below(3) {
            let at = 11 + random.below((body - 11) as u64) as usize;
            payload[at] = random.next_u64() as u8;
        }
        // No checksum.
        payload[body + 2..].fill(0);
        let words = [b"RESTORE".to_vec(), b"k".to_vec(), b"0".to_vec(), payload, b"REPLACE".to_vec()];
        if t.run_args(&words) == b"+OK\r\n" {
            restored += 1;
            COMMANDS.iter().for_each(|request| {
                t.run(request);
            });
        }
    }
    assert!(restored > 100, "{restored} were taken");
}

#[test]
fn payloads_are_written_as_redis_reads_them() {
    let mut t = Fixture::new();
    let payloads = payloads(&mut t);
    for (number, payload) in payloads.into_iter().enumerate() {
        let name = format!("p{}", number + 1);
        let words = [b"RESTORE".to_vec(), b"back".to_vec(), b"0".to_vec(), payload, b"REPLACE".to_vec()];
        assert_eq!(t.run_args(&words), b"+OK\r\n");
        let all = |t: &mut Fixture, key: &str| t.run(&format!("TS.RANGE {key} - +"));
        assert_eq!(all(&mut t, "back"), all(&mut t, &name));
    }
}
