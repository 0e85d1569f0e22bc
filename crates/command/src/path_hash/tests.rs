//! Path hashes' changes, records and events, and the answers that Valkey's own suite for them asks for
//! (`tests/unit/type/path_hash.tcl`). Further answers are in `tests/wire/path_hash.case`.

use crate::testing::Fixture;

#[test]
fn requests_are_recorded_as_they_came() {
    let mut t = Fixture::new();
    assert_eq!(t.run("PHSET k p FIELDS 2 f1 v1 f2 v2"), "+OK");
    assert_eq!((t.dirty, t.effects()), (2, &["PHSET k p FIELDS 2 f1 v1 f2 v2".to_string()][..]));
    assert_eq!(t.events(), ["new k", "phset k"]);
    assert_eq!(t.run("PHSET k p FNX FIELDS 2 f1 x f3 x"), "nil");
    assert!(t.dirty == 0 && t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("PHMSET k p FIELDS 1 f1 w b:a FIELDS 1 f one b:b FIELDS 1 f two"), "+OK");
    assert_eq!((t.dirty, t.events()), (3, &["phmset k".to_string()][..]));
    assert_eq!(t.run("PHDEL k p f1 none f1 f2"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, &["PHDEL k p f1 none f1 f2".to_string()][..]));
    assert_eq!(t.events(), ["phdel k"]);
    assert_eq!(t.run("PHDELPREFIX k b:"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, &["PHDELPREFIX k b:".to_string()][..]));
    assert_eq!(t.events(), ["phdelprefix k"]);
    assert_eq!(t.run("PHDELPREFIX k b:"), ":0");
    assert!(t.dirty == 0 && t.effects().is_empty() && t.events().is_empty());
}

#[test]
fn a_path_hash_outlives_its_last_path() {
    let mut t = Fixture::new();
    t.run("PHSET k p FIELDS 1 f v");
    assert_eq!(t.run("PHDEL k p"), ":1");
    assert_eq!((t.run("TYPE k"), t.run("PHCARD k")), ("+pathhash".into(), ":0".into()));
    assert_eq!(t.run("PHSCAN k 0"), "[\"0\" []]");
    t.run("PHMSET k a FIELDS 1 f v b FIELDS 1 f v");
    assert_eq!(t.run_args(&["PHDELPREFIX", "k", ""]), b":2\r\n");
    assert_eq!((t.run("EXISTS k"), t.run("PHCARD k")), (":1".into(), ":0".into()));
    assert_eq!(t.run("COPY k copy"), ":1");
    assert_eq!((t.run("TYPE copy"), t.run("PHCARD copy")), ("+pathhash".into(), ":0".into()));
    assert_eq!((t.run("PHDEL none p"), t.run("EXISTS none")), (":0".into(), ":0".into()));
}

#[test]
fn conditions_are_those_of_all_fields() {
    let mut t = Fixture::new();
    assert_eq!((t.run("PHSET k p FXX FIELDS 1 f v"), t.run("EXISTS k")), ("nil".into(), ":0".into()));
    assert_eq!(t.run("PHSET k p fnx fields 2 f v g w"), "+OK");
    assert_eq!(t.run("PHSET k p FNX FIELDS 2 f x new y"), "nil");
    assert_eq!(t.run("PHSET k p FXX FIELDS 2 f x new y"), "nil");
    assert_eq!(t.run("PHGET k p f new"), "[\"v\" nil]");
    assert_eq!(t.run("PHSET k p FXX FIELDS 2 f x g y"), "+OK");
    assert_eq!(t.run("PHSET k other FNX FIELDS 1 f z"), "+OK");
    assert_eq!(t.run("PHSET k p FIELDS 2 twice 1 twice 2"), "+OK");
    assert_eq!(t.run("PHMGET k p FIELDS 3 twice f g other FIELDS 1 f none FIELDS 1 f"), {
        "[\"2\" \"x\" \"y\" \"z\" nil]"
    });
}

#[test]
fn prefixes_are_found_and_limited() {
    let mut t = Fixture::new();
    for path in ["", "a", "ab", "abc", "abcd"] {
        assert_eq!(t.run_args(&["PHSET", "k", path, "FIELDS", "1", "f", path]), b"+OK\r\n");
    }
    assert_eq!(t.run("PHPREFIXES k abcde LENGTHS"), "[:0 :1 :2 :3 :4]");
    assert_eq!(t.run("PHPREFIXES k abcde LENGTHS COUNT 2 MAXPATHLEN 3"), "[:2 :3]");
    assert_eq!(t.run("PHPREFIXES k abcde FIELDS 2 f x COUNT 1"), "[[\"abcd\" [\"abcd\" nil]]]");
    assert_eq!(t.run("PHPREFIXES k zzz MAXPATHLEN 0"), "[\"\"]");
    assert_eq!(t.run("PHPREFIXES k abc LENGTHS COUNT 9223372036854775807"), "[:0 :1 :2 :3]");
    assert_eq!((t.run("PHLONGEST k abx"), t.run("PHLONGEST k abx LENGTH")), ("\"ab\"".into(), ":2".into()));
    assert_eq!(t.run("PHLONGEST k abx LENGTH FIELDS 2 f x"), "[:2 [\"ab\" nil]]");
    t.run_args(&["PHDEL", "k", ""]);
    assert_eq!((t.run("PHLONGEST k z"), t.run("PHPREFIXES k z")), ("nil".into(), "[]".into()));
}

#[test]
fn a_scan_shows_paths_in_order_and_ends_with_the_last() {
    let mut t = Fixture::new();
    let paths = ["", "b", "aa", "a", "ab", "c"];
    for path in paths {
        t.run_args(&["PHSET", "k", path, "FIELDS", "1", "f", "v"]);
    }
    assert_eq!(t.run("PHSCAN k 0 COUNT 2"), "[\"1:61\" [\"\" \"a\"]]");
    assert_eq!(t.run("PHSCAN k 1:61 COUNT 2"), "[\"1:6162\" [\"aa\" \"ab\"]]");
    assert_eq!(t.run("PHSCAN k 1:6162 COUNT 2"), "[\"0\" [\"b\" \"c\"]]");
    assert_eq!(t.run("PHSCAN k 0 PREFIX a COUNT 2"), "[\"1:6161\" [\"a\" \"aa\"]]");
    assert_eq!(t.run("PHSCAN k 1:6161 PREFIX a"), "[\"0\" [\"ab\"]]");
    assert_eq!(t.run("PHSCAN k 1:6162 PREFIX b"), "-ERR cursor does not belong to the requested prefix");
    for cursor in ["invalid", "1", "1:6", "1:6g", "2:61", "00"] {
        assert_eq!(t.run(&format!("PHSCAN k {cursor}")), "-ERR invalid cursor", "{cursor}");
    }
    // A cursor is a place, whether the path is still there or not.
    t.run("PHDEL k aa");
    assert_eq!(t.run("PHSCAN k 1:6161 COUNT 1"), "[\"1:6162\" [\"ab\"]]");
}

#[test]
fn refusals_leave_no_key() {
    let mut t = Fixture::new();
    let syntax = "-ERR syntax error";
    let range = "-ERR value is out of range, value must between 1 and 9223372036854775807";
    for (request, error) in [
        ("PHSET k p FNX FXX FIELDS 1 f v", syntax),
        ("PHSET k p FNX FNX FIELDS 1 f v", syntax),
        ("PHSET k p FIELDS 2 f v", syntax),
        ("PHSET k p FIELDS 1 f v extra", syntax),
        ("PHSET k p FIELDS 0 f v", range),
        ("PHSET k p FIELDS x f v", "-ERR value is not an integer or out of range"),
        ("PHMSET k p f v", "-ERR wrong number of arguments for 'phmset' command"),
        ("PHMSET k p FIELDS 0 f v", range),
        ("PHMSET k p FIELDS 2 f v", syntax),
        ("PHMSET k p FIELDS 1 f v broken", syntax),
        ("PHMGET k p f", "-ERR wrong number of arguments for 'phmget' command"),
        ("PHMGET k p FIELDS 2 f", syntax),
        ("PHMGET k p FIELDS 1 f broken", syntax),
        ("PHLONGEST k p WITHVALUES FIELDS 1 f", syntax),
        ("PHLONGEST k p LENGTHS", syntax),
        ("PHLONGEST k p FIELDS 0", range),
        ("PHPREFIXES k p LENGTH", syntax),
        ("PHPREFIXES k p COUNT 0", range),
        ("PHPREFIXES k p COUNT 1 COUNT 2", syntax),
        ("PHPREFIXES k p MAXPATHLEN -1", &range.replace("between 1", "between 0")),
        ("PHPREFIXES k p MAXPATHLEN 1.5", "-ERR value is not an integer or out of range"),
        ("PHPREFIXES k p FIELDS 2 only-one", syntax),
        ("PHSCAN k 0 COUNT 1 COUNT 2", syntax),
        ("PHSCAN k 0 COUNT 0", range),
    ] {
        assert_eq!(t.run(request), error, "{request}");
        assert_eq!(t.run("EXISTS k"), ":0", "{request}");
    }
    t.run("SET s text");
    for request in [
        "PHSET s p FIELDS 1 f v",
        "PHSET s p FNX FIELDS 1 f v",
        "PHMSET s p FIELDS 1 f v",
        "PHGET s p f",
        "PHMGET s p FIELDS 1 f",
        "PHGETALL s p",
        "PHEXISTS s p",
        "PHDEL s p",
        "PHLONGEST s p",
        "PHPREFIXES s p",
        "PHDELPREFIX s p",
        "PHSCAN s 0",
        "PHCARD s",
    ] {
        assert!(t.run(request).starts_with("-WRONGTYPE"), "{request}");
    }
}
