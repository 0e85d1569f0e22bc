//! The commands' answers, changes and records. Bytes of redis-server are in `tests/wire/hyperloglog.case`.

use crate::testing::Fixture;

#[test]
fn adding_answers_whether_registers_changed() {
    let mut t = Fixture::new();
    assert_eq!(t.run("PFADD k"), ":1");
    assert_eq!((t.dirty, t.effects()), (1, &["PFADD k".to_string()][..]));
    assert_eq!(t.events(), ["new k", "pfadd k"]);
    assert_eq!(t.run("PFADD k"), ":0");
    assert_eq!(t.run("PFADD k a b c"), ":1");
    assert_eq!(t.dirty, 3);
    assert_eq!(t.events(), ["pfadd k"]);
    assert_eq!(t.run("PFADD k a b c"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("PFCOUNT k"), ":3");
    assert_eq!(t.run("TYPE k"), "+string");
}

#[test]
fn a_new_count_is_kept_and_recorded() {
    let mut t = Fixture::new();
    t.run("PFADD k a b c");
    assert_eq!(t.run("PFCOUNT k"), ":3");
    assert_eq!((t.dirty, t.effects()), (1, &["PFCOUNT k".to_string()][..]));
    assert_eq!(t.run("PFCOUNT k"), ":3");
    assert_eq!(t.dirty, 0);
    assert_eq!(t.run("GETRANGE k 8 15"), r#""\x03\x00\x00\x00\x00\x00\x00\x00""#);
    t.run("PFADD k d");
    assert_eq!(t.run("GETRANGE k 15 15"), r#""\x80""#);
    assert_eq!(t.run("PFCOUNT k missing"), ":4");
    assert_eq!(t.dirty, 0);
}

#[test]
fn merging_keeps_the_destination_and_its_time_to_live() {
    let mut t = Fixture::new();
    t.run("PFADD a 1 2 3");
    t.run("PFADD b 3 4 5");
    t.run("PFADD d 6");
    t.run("EXPIRE d 100");
    assert_eq!(t.run("PFMERGE d a b missing"), "+OK");
    assert_eq!(t.effects(), ["PFMERGE d a b missing"]);
    assert_eq!(t.events(), ["keymiss missing", "pfadd d"]);
    assert_eq!(t.run("PFCOUNT d"), ":6");
    assert_eq!(t.run("TTL d"), ":100");
    assert_eq!(t.run("PFCOUNT a b"), ":5");
    assert_eq!(t.run("PFDEBUG SIMD on"), "+disabled");
    assert_eq!(t.run("PFDEBUG SIMD maybe"), "-ERR Argument must be ON or OFF");
    assert_eq!(t.run("PFDEBUG TODENSE b"), ":1");
    assert_eq!(t.run("PFDEBUG TODENSE b"), ":0");
    assert_eq!(t.run("PFDEBUG GETREG a").matches(':').count(), 16_384);
    assert_eq!(t.run("PFDEBUG ENCODING a"), "+dense");
    assert_eq!(t.run("PFMERGE e a b"), "+OK");
    assert_eq!(t.run("PFDEBUG ENCODING e"), "+dense");
    assert_eq!(t.run("PFCOUNT e"), ":5");
    assert_eq!(t.run("PFMERGE new"), "+OK");
    assert_eq!(t.run("PFCOUNT new"), ":0");
}

#[test]
fn a_corrupt_one_is_refused_and_stays() {
    let mut t = Fixture::new();
    for command in ["SET n 12", "SET s abc", "PFADD k a", "APPEND k hello"] {
        t.run(command);
    }
    for command in ["PFADD n a", "PFCOUNT s", "PFCOUNT missing n", "PFMERGE d n", "PFDEBUG GETREG s"] {
        assert_eq!(t.run(command), "-WRONGTYPE Key is not a valid HyperLogLog string value.", "{command}");
    }
    let before = t.run("DUMP k");
    for command in
        ["PFADD k b c", "PFCOUNT k", "PFCOUNT k k", "PFMERGE d k", "PFDEBUG TODENSE k", "PFDEBUG GETREG k"]
    {
        assert_eq!(t.run(command), "-INVALIDOBJ Corrupted HLL object detected", "{command}");
    }
    assert_eq!(t.run("DUMP k"), before);
    assert_eq!(t.run("EXISTS d"), ":0");
    t.run("RPUSH list a");
    assert_eq!(t.run("PFADD list a"), "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn the_limit_of_sparse_ones_is_the_settings() {
    let mut t = Fixture::new();
    t.settings.hll_sparse_max_bytes = 30;
    t.run("PFADD k a b c");
    assert_eq!(t.run("PFDEBUG ENCODING k"), "+sparse");
    t.run("PFADD k d e f g h");
    assert_eq!(t.run("PFDEBUG ENCODING k"), "+dense");
    assert_eq!(t.run("STRLEN k"), ":12304");
    assert_eq!(t.run("PFDEBUG DECODE k"), "-ERR HLL encoding is not sparse");
    assert_eq!(t.run("PFADD k a h"), ":0");
    assert_eq!(t.run("PFADD k i"), ":1");
    assert_eq!(t.run("PFCOUNT k"), ":9");
}

#[test]
fn it_passes_its_own_test() {
    assert_eq!(Fixture::new().run("PFSELFTEST"), "+OK");
}
