//! Vector sets by their commands; the replies are those of Redis 8.6.2.

use crate::testing::Fixture;

/// Elements at 0, 30, 60 and 90 degrees.
fn quarter() -> Fixture {
    let mut t = Fixture::new();
    for (name, x, y) in [("a", "1", "0"), ("b", "0.866", "0.5"), ("c", "0.5", "0.866"), ("d", "0", "1")] {
        assert_eq!(t.run(&format!("VADD k VALUES 2 {x} {y} {name} NOQUANT")), ":1");
    }
    t
}

#[test]
fn elements_are_added_replaced_and_removed() {
    let mut t = Fixture::new();
    assert_eq!(t.run("VADD k VALUES 3 1 2 3 a"), ":1");
    assert_eq!(t.effects(), ["VADD k VALUES 3 1 2 3 a"]);
    assert_eq!(t.dirty, 1);
    assert_eq!(t.events(), ["new k"]);
    assert_eq!(t.run("VADD k VALUES 3 3 2 1 a SETATTR '{\"x\":1}' CAS EF 10"), ":0");
    assert_eq!(t.run("VADD k VALUES 3 3 2 1 a"), ":0");
    assert_eq!(t.run("VGETATTR k a"), r#""{\"x\":1}""#);
    assert_eq!(t.run("VADD k VALUES 3 3 2 1 a SETATTR ''"), ":0");
    assert_eq!(t.run("VGETATTR k a"), "nil");
    assert_eq!(t.run("VCARD k"), ":1");
    assert_eq!(t.run("VISMEMBER k a"), ":1");
    assert_eq!(t.run("TYPE k"), "+vectorset");
    assert_eq!(t.run("VREM k b"), ":0");
    assert!(t.effects().is_empty());
    assert_eq!(t.run("VREM k a"), ":1");
    assert_eq!(t.effects(), ["VREM k a"]);
    assert_eq!(t.run("EXISTS k"), ":0");
    assert_eq!(t.run("VREM k a"), ":0");
    assert_eq!(t.run("VCARD k"), ":0");
    assert_eq!(t.run("VISMEMBER k a"), ":0");
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut t = Fixture::new();
    t.run("VADD k VALUES 3 1 2 3 a");
    t.run("VADD p REDUCE 2 VALUES 3 1 2 3 a");
    t.run("SET s x");
    let vector = "-ERR invalid vector specification";
    let cases = [
        ("VADD k VALUES 2 1 2 b", "-ERR Vector dimension mismatch - got 2 but set has 3"),
        ("VADD k VALUES 3 1 x 3 b", vector),
        ("VADD k VALUES 3 1 2 b", vector),
        ("VADD k VALUES 0 1 2 b", vector),
        ("VADD k VALUES -1 1 2 b", vector),
        ("VADD k VALUES x 1 2 b", vector),
        ("VADD k VALUES 3 nan 1 2 b", vector),
        ("VADD k VALUES 3 inf 1 2 b", vector),
        ("VADD k VALUES 3 1e300 1 2 b", vector),
        ("VADD k FP32 abcde b NOQUANT", vector),
        ("VADD k OTHER 1 1 b", vector),
        ("VADD n REDUCE 0 VALUES 1 1 b", vector),
        ("VADD n REDUCE 40000 VALUES 1 1 b", vector),
        ("VADD k VALUES 3 1 2 3 b NOQUANT", "-ERR asked quantization mismatch with existing vector set"),
        ("VADD k VALUES 3 1 2 3 b M 20", "-ERR asked M value mismatch with existing vector set"),
        ("VADD k VALUES 3 1 2 3 b M 3", "-ERR invalid M"),
        ("VADD k VALUES 3 1 2 3 b M 4097", "-ERR invalid M"),
        ("VADD k VALUES 3 1 2 3 b EF 0", "-ERR invalid EF"),
        ("VADD k VALUES 3 1 2 3 b EF 1000001", "-ERR invalid EF"),
        ("VADD k VALUES 3 1 2 3 b EF", "-ERR invalid option after element"),
        ("VADD k VALUES 3 1 2 3 b OTHER", "-ERR invalid option after element"),
        ("VADD k REDUCE 2 VALUES 3 1 2 3 b", "-ERR cannot add projection to existing set without projection"),
        ("VADD k REDUCE 2 VALUES 2 1 2 b", "-ERR Vector dimension mismatch - got 2 but set has 3"),
        ("VADD p VALUES 2 1 2 b", "-ERR Vector dimension mismatch - got 2 but set has 2"),
        ("VADD p REDUCE 1 VALUES 3 1 2 3 b", "-ERR Vector dimension mismatch - got 3 but set has 2"),
        (
            "VADD p REDUCE 2 VALUES 4 1 2 3 4 b",
            "-ERR Input dimension mismatch for projection - got 4 but projection expects 3",
        ),
        ("VADD s VALUES 1 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("VADD s VALUES 1 x a", vector),
        ("VSIM s ELE a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("VDIM n", "-ERR key does not exist"),
        ("VEMB k a OTHER", "-ERR invalid option"),
        ("VLINKS k a OTHER", "-ERR wrong number of arguments for 'vlinks' command"),
        ("VRANDMEMBER k x", "-ERR COUNT value is not an integer"),
        ("VRANGE k a +", "-ERR invalid start range format"),
        ("VRANGE k - a", "-ERR invalid end range format"),
        ("VRANGE k + -", "-ERR '-' can only be used as first argument, '+' only as second"),
        ("VRANGE k - + x", "-ERR invalid COUNT value"),
        ("VSIM k ELE b", "-ERR element not found in set"),
        ("VSIM k VALUES 2 1 2", "-ERR Vector dimension mismatch - got 2 but set has 3"),
        (
            "VSIM p VALUES 4 1 2 3 4",
            "-ERR Input dimension mismatch for projection - got 4 but projection expects 3",
        ),
        ("VSIM k ELE a COUNT 0", "-ERR invalid COUNT"),
        ("VSIM k ELE a EPSILON 0", "-ERR invalid EPSILON"),
        ("VSIM k ELE a EF x", "-ERR invalid EF"),
        ("VSIM k ELE a FILTER-EF 0", "-ERR invalid FILTER-EF"),
        ("VSIM k ELE a FILTER (", "-ERR syntax error in FILTER expression near: ("),
        ("VSIM k ELE a OTHER", "-ERR syntax error in VSIM command"),
    ];
    for (request, error) in cases {
        assert_eq!(t.run(request), error, "{request}");
        assert_eq!(t.dirty, 0, "{request}");
    }
    assert_eq!(t.run("EXISTS n"), ":0");
    assert_eq!(
        t.run("VINFO k"),
        "[+quant-type +int8 +hnsw-m :16 +vector-dim :3 +projection-input-dim :0 +size :1 \
         +max-level :0 +attributes-count :0 +vset-uid :UID +hnsw-max-node-uid :1]"
            .replace("UID", &uid(&mut t))
            .replace("+max-level :0", &level(&mut t))
    );
}

fn field(t: &mut Fixture, name: &str) -> String {
    let info = t.run("VINFO k");
    let (_, rest) = info.split_once(name).unwrap();
    rest.trim_start_matches(" :").split([' ', ']']).next().unwrap().into()
}

fn uid(t: &mut Fixture) -> String {
    field(t, "+vset-uid")
}

fn level(t: &mut Fixture) -> String {
    format!("+max-level :{}", field(t, "+max-level"))
}

#[test]
fn the_nearest_come_first_with_their_scores() {
    let mut t = quarter();
    assert_eq!(t.run("VSIM k VALUES 2 1 0"), r#"["a" "b" "c" "d"]"#);
    assert_eq!(t.run("VSIM k ELE d COUNT 2 TRUTH NOTHREAD"), r#"["d" "c"]"#);
    assert_eq!(t.run("VSIM k ELE a COUNT 1 WITHSCORES"), r#"["a" "1"]"#);
    assert_eq!(t.run("VSIM k ELE a EPSILON 0.2 EF 10"), r#"["a" "b"]"#);
    assert_eq!(t.run("VSIM none OTHER x y"), "[]");
    t.run("VSETATTR k b '{\"n\":1}'");
    t.run("VSETATTR k c '{\"n\":2}'");
    assert_eq!(t.run("VSIM k ELE a FILTER .n>1"), r#"["c"]"#);
    assert_eq!(
        t.run("VSIM k ELE a FILTER .n>0 FILTER-EF 100 WITHATTRIBS"),
        r#"["b" "{\"n\":1}" "c" "{\"n\":2}"]"#
    );
    assert_eq!(t.run("VSIM k ELE a COUNT 1 WITHSCORES WITHATTRIBS"), r#"["a" "1" nil]"#);
    t.resp3 = true;
    assert_eq!(
        t.run_args(&["VSIM", "k", "ELE", "a", "COUNT", "1", "WITHSCORES"]),
        b"%1\r\n$1\r\na\r\n,1\r\n"
    );
    let both = t.run_args(&["VSIM", "k", "ELE", "a", "COUNT", "1", "WITHSCORES", "WITHATTRIBS"]);
    assert_eq!(both, b"%1\r\n$1\r\na\r\n*2\r\n,1\r\n_\r\n");
}

#[test]
fn elements_are_described() {
    let mut t = quarter();
    assert_eq!(t.run("VDIM k"), ":2");
    assert_eq!(t.run("VEMB k a"), r#"["1" "0"]"#);
    assert_eq!(t.run("VEMB k none"), "nil");
    assert_eq!(t.run("VLINKS none a"), "nil");
    assert!(t.run("VLINKS k a").contains('b'));
    assert_eq!(t.run("VRANGE k - +"), r#"["a" "b" "c" "d"]"#);
    assert_eq!(t.run("VRANGE k (a [c"), r#"["b" "c"]"#);
    assert_eq!(t.run("VRANGE k - + 1"), r#"["a"]"#);
    assert_eq!(t.run("VRANGE k - + 0"), "[]");
    assert_eq!(t.run("VRANGE none - +"), "[]");
    assert_eq!(t.run("VRANDMEMBER none"), "nil");
    assert_eq!(t.run("VRANDMEMBER none 2"), "[]");
    for count in [1, 2, 3, 4, 9] {
        let reply = t.run(&format!("VRANDMEMBER k {count}"));
        let mut names: Vec<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count.min(4), "{reply}");
    }
    assert_eq!(t.run("VRANDMEMBER k -7").split(' ').count(), 7);
    t.run("VADD q VALUES 3 1 -2 3 x BIN");
    assert_eq!(t.run("VEMB q x"), r#"["1" "-1" "1"]"#);
    assert!(t.run("VEMB q x RAW").starts_with("[+bin "));
    t.run("VADD r REDUCE 2 VALUES 3 1 2 3 x");
    assert_eq!(t.run("VEMB r x RAW").split(' ').next(), Some("[+int8"));
    assert_eq!(t.run("VEMB r x"), r#"["3.464101552963257" "1.1456083059310913"]"#);
}

#[test]
fn a_copy_is_left_alone() {
    let mut t = quarter();
    assert_eq!(t.run("COPY k other"), ":1");
    assert_eq!(t.run("VREM k a"), ":1");
    assert_eq!(t.run("VADD other VALUES 2 1 1 e NOQUANT"), ":1");
    assert_eq!(t.run("VRANGE k - +"), r#"["b" "c" "d"]"#);
    assert_eq!(t.run("VRANGE other - +"), r#"["a" "b" "c" "d" "e"]"#);
    assert_eq!(t.run("VSIM other VALUES 2 1 0 COUNT 2"), r#"["a" "b"]"#);
    assert_eq!(t.run("VSIM k VALUES 2 1 0 COUNT 2"), r#"["b" "c"]"#);
}
