//! What the commands change and record. Their answers are in `tests/wire/stream.case`.

use crate::testing::Fixture;

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
