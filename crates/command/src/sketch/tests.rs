//! The sketches' commands by the fixture: replies of both protocols, errors, records, watched changes.

use martlet_sketch::{bloom, cuckoo};

use crate::testing::Fixture;

/// Requests with their replies, one after the other.
fn all(t: &mut Fixture, cases: &[(&str, &str)]) {
    for (line, reply) in cases {
        assert_eq!(t.run(line), *reply, "{line}");
    }
}

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn bloom_filters_add_and_find() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("BF.EXISTS k a", ":0"),
            ("BF.MEXISTS k a b", "[:0 :0]"),
            ("BF.CARD k", ":0"),
            ("BF.ADD k a", ":1"),
            ("BF.ADD k a", ":0"),
            ("BF.MADD k a b c", "[:0 :1 :1]"),
            ("BF.MEXISTS k a b x", "[:1 :1 :0]"),
            ("BF.CARD k", ":3"),
            (
                "BF.INFO k",
                "[+Capacity :100 +Size :240 +Number of filters :1 +Number of items inserted :3 +Expansion rate \
                 :2]",
            ),
            ("BF.INFO k items", "[:3]"),
            ("BF.INFO k foo", "-Invalid information value"),
            ("BF.INFO k items x", "-ERR wrong number of arguments for 'bf.info' command"),
            ("TYPE k", "+MBbloom--"),
            ("OBJECT ENCODING k", "\"raw\""),
            (
                "BF.DEBUG k",
                "[\"size:3\" \"bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:3 ratio:0.005\"]",
            ),
        ],
    );
    t.resp3 = true;
    all(
        &mut t,
        &[
            ("BF.ADD k d", "#t"),
            ("BF.MADD k a e", "[#f #t]"),
            ("BF.EXISTS k a", "#t"),
            ("BF.INFO k capacity", "{+Capacity :100}"),
        ],
    );
}

#[test]
fn bloom_filters_are_reserved_and_full() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("BF.RESERVE k x 10", "-ERR bad error rate"),
            ("BF.RESERVE k 1 10", "-ERR error rate must be in the range (0.000000, 1.000000)"),
            ("BF.RESERVE k 0.01 x", "-ERR bad capacity"),
            ("BF.RESERVE k 0.01 0", "-ERR capacity must be in the range [1, 1073741824]"),
            ("BF.RESERVE k 0.01 1073741825", "-ERR capacity must be in the range [1, 1073741824]"),
            ("BF.RESERVE k 0.01 10 EXPANSION", "-ERR no expansion"),
            ("BF.RESERVE k 0.01 10 EXPANSION x", "-ERR bad expansion"),
            ("BF.RESERVE k 0.01 10 EXPANSION 32769", "-ERR expansion must be in the range [0, 32768]"),
            ("BF.RESERVE k 0.01 10 NONSCALING EXPANSION 2", "-Nonscaling filters cannot expand"),
            ("BF.RESERVE k 1e-300 1073741824", "-ERR Insufficient memory to create filter"),
            ("EXISTS k", ":0"),
            ("BF.RESERVE k 0.01 2 NONSCALING", "+OK"),
            ("BF.RESERVE k 0.01 2", "-ERR item exists"),
            ("BF.INSERT k ITEMS a b c d", "[:1 :1 -ERR non scaling filter is full]"),
            ("BF.ADD k e", "-ERR non scaling filter is full"),
            ("BF.INFO k EXPANSION", "[nil]"),
            ("BF.INSERT n NOCREATE ITEMS a", "-ERR not found"),
            ("BF.INSERT n CAPACITY 0 ITEMS a", "-Bad capacity"),
            ("BF.INSERT n ERROR 2 ITEMS a", "-Bad error rate"),
            ("BF.INSERT n EXPANSION -1 ITEMS a", "-Bad expansion"),
            ("BF.INSERT n foo ITEMS a", "-Unknown argument received"),
            ("BF.INSERT n CAPACITY 5 ITEMS", "-ERR wrong number of arguments for 'bf.insert' command"),
            ("BF.INSERT n ITEMS CAPACITY", "[:1]"),
            ("SET s 1", "+OK"),
            ("BF.ADD s a", WRONG_TYPE),
            ("BF.RESERVE s 0.01 2", WRONG_TYPE),
            ("BF.EXISTS s a", ":0"),
            ("BF.INFO none", "-ERR not found"),
        ],
    );
}

#[test]
fn only_changes_are_recorded() {
    let mut t = Fixture::new();
    for line in ["BF.ADD k a", "BF.MADD k a b", "CF.ADD c a", "CF.DEL c a", "CF.ADDNX c b"] {
        t.run(line);
        assert_eq!(t.effects(), [line]);
        assert_eq!(t.dirty, 1);
    }
    for line in ["BF.ADD k a", "BF.MADD k a b", "CF.DEL c x", "CF.ADDNX c b", "BF.EXISTS k a"] {
        t.run(line);
        assert!(t.effects().is_empty() && t.dirty == 0, "{line}");
    }
    // No key events but those of any key.
    t.run("BF.ADD fresh a");
    assert_eq!(t.events(), ["new fresh"]);
    t.run("BF.ADD fresh b");
    assert!(t.events().is_empty());
}

#[test]
fn filters_of_this_servers_parameters_are_recorded_with_them() {
    let mut t = Fixture::new();
    t.settings.sketch.bloom =
        bloom::Options { error_rate: 0.1, capacity: 7, expansion: 0, is_scaling: false };
    t.settings.sketch.cuckoo = cuckoo::Options { capacity: 50, bucket_size: 4, ..Default::default() };
    t.run("BF.ADD k a");
    assert_eq!(t.effects(), ["BF.RESERVE k 0.1 7 EXPANSION 0", "BF.ADD k a"]);
    t.run("BF.ADD k b");
    assert_eq!(t.effects(), ["BF.ADD k b"]);
    assert_eq!(t.run("BF.RESERVE r 0.1 7 EXPANSION 2"), "-Nonscaling filters cannot expand");
    t.run("CF.INSERT c CAPACITY 60 ITEMS a");
    let reserve = "CF.RESERVE c 60 BUCKETSIZE 4 MAXITERATIONS 20 EXPANSION 1";
    assert_eq!(t.effects(), [reserve, "CF.INSERT c CAPACITY 60 ITEMS a"]);
    let mut replica = Fixture::new();
    for line in ["BF.RESERVE k 0.1 7 EXPANSION 0", "BF.ADD k a", "BF.ADD k b", reserve, "CF.ADD c a"] {
        replica.run(line);
    }
    for key in ["k", "c"] {
        assert_eq!(t.run(&format!("DUMP {key}")), replica.run(&format!("DUMP {key}")));
    }
}

#[test]
fn filters_go_round_in_pieces() {
    let mut t = Fixture::new();
    for (family, load) in [("BF", "BF.LOADCHUNK"), ("CF", "CF.LOADCHUNK")] {
        for item in 0..300 {
            t.run(&format!("{family}.ADD k{family} {item}"));
        }
        let mut position = 0;
        loop {
            let reply =
                t.run_args(&[&format!("{family}.SCANDUMP"), &format!("k{family}"), &position.to_string()]);
            let text = String::from_utf8_lossy(&reply).into_owned();
            position =
                text.strip_prefix("*2\r\n:").unwrap().split('\r').next().unwrap().parse::<i64>().unwrap();
            if position == 0 {
                break;
            }
            let start = reply.iter().position(|byte| *byte == b'$').unwrap();
            let body = start + reply[start..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let piece = &reply[body..reply.len() - 2];
            let position = position.to_string();
            let copy = format!("copy{family}");
            let loaded = t.run_args(&[load.as_bytes(), copy.as_bytes(), position.as_bytes(), piece]);
            assert_eq!(loaded, b"+OK\r\n");
        }
        assert_eq!(t.run(&format!("DUMP k{family}")), t.run(&format!("DUMP copy{family}")));
    }
    all(
        &mut t,
        &[
            ("BF.SCANDUMP none x", "-ERR not found"),
            ("BF.SCANDUMP kBF x", "-Second argument must be numeric"),
            ("BF.LOADCHUNK none x y", "-ERR Second argument must be numeric"),
            ("BF.LOADCHUNK none 1 y", "-ERR received bad data"),
            ("BF.LOADCHUNK none 2 y", "-ERR not found"),
            ("CF.SCANDUMP none -1", "-Invalid position"),
            ("CF.SCANDUMP none 0", "-ERR not found"),
            ("CF.LOADCHUNK none 0 y", "-Invalid position"),
            ("CF.LOADCHUNK none 1 y", "-Invalid header"),
            ("CF.LOADCHUNK none 2 y", "-ERR not found"),
            ("CF.LOADCHUNK kCF 1 y", "-ERR item exists"),
            ("CF.LOADCHUNK kCF 99999999 y", "-Couldn't load chunk!"),
            ("CF.RESERVE empty 100", "+OK"),
            ("CF.SCANDUMP empty 0", "[:0 nil]"),
        ],
    );
}

#[test]
fn cuckoo_filters_add_count_and_delete() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("CF.RESERVE k x", "-Bad capacity"),
            ("CF.RESERVE k 10 BUCKETSIZE", "-ERR wrong number of arguments for 'cf.reserve' command"),
            ("CF.RESERVE k 10 X BUCKETSIZE", "-ERR wrong number of arguments for 'cf.reserve' command"),
            ("CF.RESERVE k 10 BUCKETSIZE x", "-Couldn't parse BUCKETSIZE"),
            ("CF.RESERVE k 10 BUCKETSIZE 256", "-BUCKETSIZE: value must be in the range [1, 255]"),
            ("CF.RESERVE k 10 MAXITERATIONS 0", "-MAXITERATIONS: value must be in the range [1, 65535]"),
            ("CF.RESERVE k 10 EXPANSION -1", "-EXPANSION: value must be in the range [0, 32768]"),
            ("CF.RESERVE k 3", "-Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"),
            ("CF.RESERVE k 100", "+OK"),
            ("CF.RESERVE k 100", "-ERR item exists"),
            ("CF.ADD k x", ":1"),
            ("CF.ADDNX k x", ":0"),
            ("CF.INSERT k ITEMS x y", "[:1 :1]"),
            ("CF.INSERTNX k ITEMS x y z", "[:0 :0 :1]"),
            ("CF.EXISTS k x", ":1"),
            ("CF.MEXISTS k x q", "[:1 :0]"),
            ("CF.COUNT k x", ":2"),
            ("CF.DEL k x", ":1"),
            ("CF.COUNT k x", ":1"),
            (
                "CF.INFO k",
                "[+Size :184 +Number of buckets :64 +Number of filters :1 +Number of items inserted :3 \
                 +Number of items deleted :1 +Bucket size :2 +Expansion rate :1 +Max iterations :20]",
            ),
            (
                "CF.DEBUG k",
                "\"bktsize:2 buckets:64 items:3 deletes:1 filters:1 max_iterations:20 expansion:1\"",
            ),
            ("CF.COMPACT k", "+OK"),
            ("CF.COMPACT none", "-Cuckoo filter was not found"),
            ("CF.DEL none x", "-Not found"),
            ("CF.INFO none", "-ERR not found"),
            ("CF.INSERT n NOCREATE ITEMS a", "-ERR not found"),
            ("CF.INSERT n CAPACITY x ITEMS a", "-Bad capacity"),
            (
                "CF.INSERT n CAPACITY 3 ITEMS a",
                "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]",
            ),
            ("CF.INSERT n what ITEMS a", "-Unknown argument received"),
            ("CF.INSERT n NOCREATE a", "-Unknown argument received"),
            ("CF.RESERVE full 4 EXPANSION 0 BUCKETSIZE 2", "+OK"),
            ("CF.INSERT full ITEMS a a a a a a", "[:1 :1 :-1 :-1 :-1 :-1]"),
            ("CF.ADD full a", "-Filter is full"),
        ],
    );
    t.settings.sketch.cuckoo_max_expansions = 1;
    assert_eq!(t.run("CF.ADD k x"), "-Maximum expansions reached");
    assert_eq!(t.run("CF.ADD fresh x"), "-Maximum expansions reached");
    assert_eq!(t.run("EXISTS fresh"), ":0");
    t.settings.sketch.cuckoo_max_expansions = 32;
    t.resp3 = true;
    all(
        &mut t,
        &[
            ("CF.ADD k x", "#t"),
            ("CF.INSERT k ITEMS a", "[#t]"),
            ("CF.INSERTNX k ITEMS a", "[:0]"),
            ("CF.INSERT full ITEMS a", "[#f]"),
            ("CF.INSERTNX full ITEMS b", "[:-1]"),
        ],
    );
}

#[test]
fn count_min_sketches_count_and_merge() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("CMS.INITBYDIM k x 5", "-CMS: invalid width"),
            ("CMS.INITBYDIM k 5 0", "-CMS: invalid depth"),
            ("CMS.INITBYDIM k 9223372036854775807 2", "-CMS: invalid init arguments"),
            ("CMS.INITBYDIM k 4611686018427387903 2", "-CMS: Insufficient memory to create the key"),
            ("CMS.INITBYPROB k 2 0.1", "-CMS: invalid overestimation value"),
            ("CMS.INITBYPROB k 0.1 x", "-CMS: invalid prob value"),
            ("CMS.QUERY k a", "-CMS: key does not exist"),
            ("CMS.INITBYPROB p 0.001 0.01", "+OK"),
            ("CMS.INFO p", "[+width :2000 +depth :7 +count :0]"),
            ("CMS.INITBYDIM k 100 5", "+OK"),
            ("CMS.INITBYDIM k 1 1", "-CMS: key already exists"),
            ("CMS.INCRBY k a 5 b 3", "[:5 :3]"),
            ("CMS.INCRBY k a 1", "[:6]"),
            ("CMS.INCRBY k a -1", "-CMS: Number cannot be negative"),
            ("CMS.INCRBY k a 1 b x", "-CMS: Cannot parse number"),
            ("CMS.INCRBY k a 1 b", "-ERR wrong number of arguments for 'cms.incrby' command"),
            ("CMS.QUERY k a b c", "[:6 :3 :0]"),
            ("CMS.INITBYDIM m 100 5", "+OK"),
            ("CMS.MERGE m 2 k k WEIGHTS 2 3", "+OK"),
            ("CMS.QUERY m a", "[:30]"),
            ("CMS.MERGE m 2 k m", "+OK"),
            ("CMS.QUERY m a", "[:36]"),
            ("CMS.MERGE m 1 p", "-CMS: width/depth is not equal"),
            ("CMS.MERGE m 1 none", "-CMS: key does not exist"),
            ("CMS.MERGE none 1 k", "-CMS: key does not exist"),
            ("CMS.MERGE m x k", "-CMS: invalid numkeys"),
            ("CMS.MERGE m 0 k", "-CMS: Number of keys must be positive"),
            ("CMS.MERGE m 2 k", "-CMS: wrong number of keys"),
            ("CMS.MERGE m 1 k WEIGHTS", "-CMS: wrong number of keys/weights"),
            ("CMS.MERGE m 1 k WEIGHTS x", "-CMS: invalid weight value"),
            ("CMS.MERGE m 1 k WEIGHTS -1", "-CMS: MERGE overflow"),
            ("CMS.INCRBY k z 4294967295", "[-CMS: INCRBY overflow]"),
            ("SET s 1", "+OK"),
            ("CMS.INCRBY s a 1", WRONG_TYPE),
        ],
    );
}

#[test]
fn top_k_lists_and_decays_equally_on_a_replica() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("TOPK.RESERVE k 0", "-TopK: invalid k"),
            ("TOPK.RESERVE k 3 x 1 1", "-TopK: invalid width"),
            ("TOPK.RESERVE k 3 1 0 1", "-TopK: invalid depth"),
            ("TOPK.RESERVE k 3 1 1 2", "-TopK: invalid decay value. must be '<= 1' & '> 0'"),
            ("TOPK.RESERVE k 3 1", "-ERR wrong number of arguments for 'topk.reserve' command"),
            (
                "TOPK.RESERVE k 4294967295 4294967295 9 1",
                "-ERR Insufficient memory to create topk data structure",
            ),
            ("TOPK.RESERVE k 2 100 5 1", "+OK"),
            ("TOPK.RESERVE k 2", "-TopK: key already exists"),
            ("TOPK.ADD k a b", "[nil nil]"),
            ("TOPK.ADD k a", "[nil]"),
            ("TOPK.INCRBY k c 9", "[\"b\"]"),
            ("TOPK.LIST k", "[\"c\" \"a\"]"),
            ("TOPK.LIST k w", "[\"c\" :9 \"a\" :2]"),
            ("TOPK.LIST k withcount", "[\"c\" :9 \"a\" :2]"),
            ("TOPK.LIST k foo", "-WITHCOUNT keyword expected"),
            ("TOPK.QUERY k a b", "[:1 :0]"),
            ("TOPK.COUNT k a c z", "[:2 :9 :0]"),
            ("TOPK.INFO k", "[+k :2 +width :100 +depth :5 +decay \"1\"]"),
            ("TOPK.ADD none a", "-TopK: key does not exist"),
        ],
    );
    let before = t.run("DUMP k");
    let refused = t.run("TOPK.INCRBY k a 1 b 100001");
    assert!(refused.starts_with("-TopK: increment must be an integer greater or equal to 0"), "{refused}");
    assert_eq!(t.run("DUMP k"), before);

    let mut replica = Fixture::new();
    t.run("TOPK.RESERVE chance 5 8 3 0.8");
    replica.run("TOPK.RESERVE chance 5 8 3 0.8");
    for number in 0..2000 {
        let line = format!("TOPK.INCRBY chance {} {} {} 3", number % 97, number % 4, number % 31);
        assert_eq!(t.run(&line), replica.run(&line));
        assert_eq!(t.effects(), [line]);
    }
    assert_eq!(t.run("DUMP chance"), replica.run("DUMP chance"));
}

#[test]
fn digests_answer_quantiles_and_ranks() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            (
                "TDIGEST.CREATE d COMPRESSION 0",
                "-ERR T-Digest: compression parameter needs to be a positive integer",
            ),
            ("TDIGEST.CREATE d COMPRESSION x", "-ERR T-Digest: error parsing compression parameter"),
            ("TDIGEST.CREATE d FOO 10", "-ERR T-Digest: wrong keyword"),
            ("TDIGEST.CREATE d COMPRESSION", "-ERR wrong number of arguments for 'tdigest.create' command"),
            ("TDIGEST.CREATE d COMPRESSION 9223372036854775807", "-ERR T-Digest: allocation failed"),
            ("TDIGEST.MIN d", "-ERR T-Digest: key does not exist"),
            ("TDIGEST.CREATE d", "+OK"),
            ("TDIGEST.CREATE d", "-ERR T-Digest: key already exists"),
            ("TDIGEST.MIN d", "\"nan\""),
            ("TDIGEST.QUANTILE d 0.5", "[\"nan\"]"),
            ("TDIGEST.RANK d 1", "[:-2]"),
            ("TDIGEST.ADD d 1 2 3", "+OK"),
            ("TDIGEST.ADD d 1 x", "-ERR T-Digest: error parsing val parameter"),
            ("TDIGEST.ADD d 1 inf", "-ERR T-Digest: val parameter needs to be a finite number"),
            ("TDIGEST.MAX d", "\"3\""),
            ("TDIGEST.QUANTILE d 0.5 0.1", "[\"2\" \"1\"]"),
            ("TDIGEST.QUANTILE d x", "-ERR T-Digest: error parsing quantile"),
            ("TDIGEST.QUANTILE d 1.1", "-ERR T-Digest: quantile should be in [0,1]"),
            ("TDIGEST.CDF d 1 2", "[\"0.16666666666666666\" \"0.5\"]"),
            ("TDIGEST.CDF d x", "-ERR T-Digest: error parsing cdf"),
            ("TDIGEST.RANK d 0 1 2 9", "[:-1 :0 :1 :3]"),
            ("TDIGEST.REVRANK d 0 9", "[:3 :-1]"),
            ("TDIGEST.RANK d x", "-ERR T-Digest: error parsing value"),
            ("TDIGEST.BYRANK d 0 1 10", "[\"1\" \"2\" \"inf\"]"),
            ("TDIGEST.BYREVRANK d 0 10", "[\"3\" \"-inf\"]"),
            ("TDIGEST.BYRANK d x", "-ERR T-Digest: error parsing rank"),
            ("TDIGEST.BYRANK d -1", "-ERR T-Digest: rank needs to be non negative"),
            ("TDIGEST.TRIMMED_MEAN d 0.1 0.9", "\"2\""),
            ("TDIGEST.TRIMMED_MEAN d x 0.9", "-ERR T-Digest: error parsing low_cut_percentile"),
            (
                "TDIGEST.TRIMMED_MEAN d 0.9 0.1",
                "-ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile",
            ),
            (
                "TDIGEST.INFO d",
                "[+Compression :100 +Capacity :610 +Merged nodes :3 +Unmerged nodes :0 +Merged weight :3 \
                 +Unmerged weight :0 +Observations :3 +Total compressions :1 +Memory usage :9840]",
            ),
            ("SET s 1", "+OK"),
            ("TDIGEST.CREATE s", WRONG_TYPE),
            ("TDIGEST.QUANTILE s x", WRONG_TYPE),
        ],
    );
    t.run("TDIGEST.ADD d 5");
    t.run("TDIGEST.QUANTILE d 0.5");
    assert!(t.effects().is_empty() && t.dirty == 0);
    assert!(t.run("TDIGEST.INFO d").contains("Unmerged nodes :0"));
}

#[test]
fn digests_merge() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("TDIGEST.CREATE a COMPRESSION 50", "+OK"),
            ("TDIGEST.CREATE b COMPRESSION 70", "+OK"),
            ("TDIGEST.ADD a 1 2 3", "+OK"),
            ("TDIGEST.ADD b 10 20", "+OK"),
            ("TDIGEST.MERGE m x a", "-ERR T-Digest: error parsing numkeys"),
            ("TDIGEST.MERGE m 0 a", "-ERR T-Digest: numkeys needs to be a positive integer"),
            ("TDIGEST.MERGE m 3 a", "-ERR wrong number of arguments for 'tdigest.merge' command"),
            ("TDIGEST.MERGE m 1 a FOO", "-ERR T-Digest: wrong keyword"),
            ("TDIGEST.MERGE m 1 a COMPRESSION", "-ERR wrong number of arguments for 'tdigest.merge' command"),
            (
                "TDIGEST.MERGE m 1 a COMPRESSION 0",
                "-ERR T-Digest: compression parameter needs to be a positive integer",
            ),
            (
                "TDIGEST.MERGE m 1 a COMPRESSION 9223372036854775807",
                "-ERR T-Digest: allocation of destination digest failed",
            ),
            ("TDIGEST.MERGE m 1 none", "-ERR T-Digest: key does not exist"),
            ("TDIGEST.MERGE m 1 m", "-ERR T-Digest: key does not exist"),
            ("EXISTS m", ":0"),
            ("TDIGEST.MERGE m 2 a b", "+OK"),
            ("TDIGEST.MAX m", "\"20\""),
            ("TDIGEST.BYRANK m 2", "[\"3\"]"),
            ("PEXPIRE m 100000", ":1"),
            ("TDIGEST.MERGE m 1 m", "+OK"),
            ("PTTL m", ":-1"),
            ("TDIGEST.MERGE m 1 a OVERRIDE", "+OK"),
            ("TDIGEST.MAX m", "\"3\""),
        ],
    );
    assert!(t.run("TDIGEST.INFO m").contains("+Compression :50 "));
    t.run("TDIGEST.MERGE m 2 a b COMPRESSION 33");
    assert!(t.run("TDIGEST.INFO m").contains("+Compression :33 "));
    assert_eq!(t.run("TDIGEST.RESET m"), "+OK");
    assert_eq!(t.run("TDIGEST.MIN m"), "\"nan\"");
}

#[test]
fn sketches_are_no_other_type_and_stay_without_items() {
    let mut t = Fixture::new();
    all(
        &mut t,
        &[
            ("BF.ADD b x", ":1"),
            ("CF.ADD c x", ":1"),
            ("CMS.INITBYDIM m 5 5", "+OK"),
            ("TOPK.RESERVE k 5", "+OK"),
            ("TDIGEST.CREATE d", "+OK"),
            ("CF.DEL c x", ":1"),
            ("EXISTS b c m k d", ":5"),
            ("TYPE c", "+MBbloomCF"),
            ("TYPE m", "+CMSk-TYPE"),
            ("TYPE k", "+TopK-TYPE"),
            ("TYPE d", "+TDIS-TYPE"),
            ("CF.ADD b x", WRONG_TYPE),
            ("CMS.QUERY b x", WRONG_TYPE),
            ("TOPK.LIST m", WRONG_TYPE),
            ("TDIGEST.MIN k", WRONG_TYPE),
            ("SORT d", WRONG_TYPE),
            ("GET b", WRONG_TYPE),
            ("COPY b b2", ":1"),
            ("BF.ADD b2 y", ":1"),
            ("BF.EXISTS b y", ":0"),
            ("RENAME b2 b3", "+OK"),
            ("BF.EXISTS b3 y", ":1"),
            ("DEL b3", ":1"),
        ],
    );
}

/// As RedisBloom 2.8.2 answers.
#[test]
fn a_source_that_is_named_twice_is_merged_twice() {
    let mut t = Fixture::new();
    let nodes = |t: &mut Fixture, key: &str| {
        let info = t.run(&format!("TDIGEST.INFO {key}"));
        let (_, behind) = info.split_once("+Merged nodes ").unwrap();
        behind.split(" +Memory usage").next().unwrap().replace('+', "")
    };
    all(
        &mut t,
        &[
            ("TDIGEST.CREATE s COMPRESSION 10", "+OK"),
            ("TDIGEST.ADD s 1 2 3 4 5 6 7 8 9 50", "+OK"),
            ("TDIGEST.MERGE d 2 s s", "+OK"),
        ],
    );
    let counts =
        ":7 Unmerged nodes :7 Merged weight :10 Unmerged weight :10 Observations :20 Total compressions :1";
    assert_eq!(nodes(&mut t, "d"), counts);
    let counts =
        ":7 Unmerged nodes :0 Merged weight :10 Unmerged weight :0 Observations :10 Total compressions :1";
    assert_eq!(nodes(&mut t, "s"), counts, "the source has its own values merged");
    all(
        &mut t,
        &[
            ("TDIGEST.QUANTILE d 0.1 0.5 0.9", "[\"1\" \"5.525974025974026\" \"50\"]"),
            ("TDIGEST.RANK d 3 50", "[:5 :19]"),
            ("TDIGEST.MERGE d 3 s s d", "+OK"),
            ("TDIGEST.QUANTILE d 0.1 0.5 0.9", "[\"1.4375\" \"5.61431805319751\" \"30.92592592592593\"]"),
        ],
    );
    let counts =
        ":10 Unmerged nodes :0 Merged weight :60 Unmerged weight :0 Observations :60 Total compressions :4";
    assert_eq!(nodes(&mut t, "d"), counts, "the destination counts, and as a source again");
    all(&mut t, &[("TDIGEST.MERGE d 2 d d COMPRESSION 20 OVERRIDE", "+OK")]);
    let counts = ":10 Unmerged nodes :10 Merged weight :60 Unmerged weight :60 Observations :120 Total compressions :1";
    assert_eq!(nodes(&mut t, "d"), counts);
    all(&mut t, &[("TDIGEST.RANK d 3 50", "[:32 :115]")]);
}
