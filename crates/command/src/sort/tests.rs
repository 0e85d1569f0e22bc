//! SORT through the table.

use crate::testing::Fixture;
use martlet_keyspace::{ExpiryChange, Key, Value};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};
use martlet_types::set::{Set, SetLimits};

fn with(lines: &[&str]) -> Fixture {
    let mut t = Fixture::new();
    for line in lines {
        let reply = t.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    t
}

fn set(t: &mut Fixture, pairs: &[(&str, &str)]) {
    t.keys.engine().gate.closed(|alone| t.keys.lock_all_shards(alone));
    for (key, value) in pairs {
        t.keys.set_str(&Key::new(key.as_bytes()), value.as_bytes(), ExpiryChange::Keep);
    }
    t.keys.release();
}

#[test]
fn by_the_elements() {
    let mut t = with(&["RPUSH l 10 9 2 -1 3.5", "RPUSH w b a C 10 9"]);
    assert_eq!(t.run("SORT l"), r#"["-1" "2" "3.5" "9" "10"]"#);
    assert!(t.effects().is_empty());
    assert_eq!(t.run("SORT l DESC LIMIT 1 2"), r#"["9" "3.5"]"#);
    assert_eq!(t.run("SORT l ALPHA"), r#"["-1" "10" "2" "3.5" "9"]"#);
    assert_eq!(t.run("SORT_RO w ALPHA DESC"), r#"["b" "a" "C" "9" "10"]"#);
    assert_eq!(t.run("SORT w"), "-ERR One or more scores can't be converted into double");
    assert_eq!(t.run("SORT none"), "[]");
    for (limit, expected) in [("0 -1", 5), ("-3 2", 2), ("4 9", 1), ("5 1", 0), ("0 0", 0), ("9 -1", 0)] {
        let reply = t.run(&format!("SORT l LIMIT {limit}"));
        assert_eq!(reply.matches(' ').count() + usize::from(reply != "[]"), expected, "{limit}: {reply}");
    }
}

#[test]
fn options_are_checked() {
    let mut t = with(&["RPUSH l 1"]);
    for options in ["FOO", "LIMIT 1", "BY", "GET", "STORE"] {
        assert_eq!(t.run(&format!("SORT l {options}")), "-ERR syntax error", "{options}");
    }
    assert_eq!(t.run("SORT_RO l STORE d"), "-ERR syntax error");
    assert_eq!(t.run("SORT l LIMIT a 1"), "-ERR value is not an integer or out of range");
    set(&mut t, &[("s", "text")]);
    assert_eq!(t.run("SORT s"), "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn by_other_keys() {
    let mut t = with(&["RPUSH l a b c"]);
    set(&mut t, &[("w_a", "3"), ("w_b", "1"), ("n_a", "x"), ("n_c", "y"), ("bad_a", "z")]);
    // An absent weight is 0, an absent text comes first.
    assert_eq!(t.run("SORT l BY w_*"), r#"["c" "b" "a"]"#);
    assert_eq!(t.run("SORT l BY n_* ALPHA"), r#"["b" "a" "c"]"#);
    assert_eq!(t.run("SORT l BY n_* ALPHA DESC GET # GET n_*"), r#"["c" "y" "a" "x" "b" nil]"#);
    assert_eq!(t.run("SORT l BY nosort GET w_* LIMIT 1 2"), r#"["1" nil]"#);
    assert_eq!(t.run("SORT l BY nosort DESC"), r#"["c" "b" "a"]"#);
    assert_eq!(t.run("SORT l BY nosort DESC LIMIT 1 1"), r#"["b"]"#);
    assert_eq!(t.run("SORT l BY nosort GET constant"), "[nil nil nil]");
    assert_eq!(t.run("SORT l BY bad_*"), "-ERR One or more scores can't be converted into double");
    assert_eq!(t.run("SORT l BY w_*->f"), r#"["a" "b" "c"]"#);
    assert_eq!(t.run("SORT l BY l GET w_*->"), "[nil nil nil]");
}

#[test]
fn storing() {
    let mut t = with(&["RPUSH l 3 1 2", "RPUSH old x"]);
    assert_eq!(t.run("SORT l STORE d"), ":3");
    assert_eq!(t.effects(), ["SORT l STORE d"]);
    assert_eq!((t.dirty, t.events()), (3, &["new d".to_string(), "sortstore d".to_string()][..]));
    assert_eq!(t.run("LRANGE d 0 -1"), r#"["1" "2" "3"]"#);
    assert_eq!(t.run("SORT l BY nosort STORE other STORE l"), ":3");
    assert_eq!(t.run("LRANGE l 0 -1"), r#"["3" "1" "2"]"#);
    assert_eq!(t.run("SORT l BY store STORE d GET w_*"), ":3");
    assert_eq!(t.run("LRANGE d 0 -1"), r#"["" "" ""]"#);
    assert_eq!(t.run("SORT none STORE old"), ":0");
    assert_eq!(t.events(), ["keymiss none", "del old"]);
    assert_eq!(t.run("SORT none STORE old"), ":0");
    assert!(t.effects().is_empty());
}

#[test]
fn weights_are_read_as_c_reads_them() {
    let mut t = with(&["RPUSH l a b c"]);
    set(&mut t, &[("w_a", "inf"), ("w_b", ""), ("w_c", "-1e3")]);
    assert_eq!(t.run("SORT l BY w_*"), r#"["c" "b" "a"]"#);
    set(&mut t, &[("w_b", "5\0x")]);
    assert_eq!(t.run("SORT l BY w_*"), r#"["c" "b" "a"]"#);
    set(&mut t, &[("w_b", "nan")]);
    assert_eq!(t.run("SORT l BY w_*"), "-ERR One or more scores can't be converted into double");
}

/// Puts a value under a key.
fn put(t: &mut Fixture, key: &str, value: Value) {
    t.keys.engine().gate.closed(|alone| t.keys.lock_all_shards(alone));
    t.keys.set_value(&Key::new(key.as_bytes()), value, None);
    t.keys.release();
}

#[test]
fn sets_are_sorted_where_the_order_is_stored() {
    let mut t = Fixture::new();
    let mut members = Set::new();
    for member in [&b"b"[..], b"10", b"a", b"9"] {
        members.add(Element::parse(member), SetLimits::default(), 0);
    }
    put(&mut t, "s", Value::Set(members));
    assert_eq!(t.run("SORT s ALPHA"), r#"["10" "9" "a" "b"]"#);
    assert_eq!(t.run("SORT s BY nosort LIMIT 0 -1").len(), r#"["10" "9" "a" "b"]"#.len());
    assert_eq!(t.run("SORT s BY nosort DESC STORE d"), ":4");
    assert_eq!(t.run("LRANGE d 0 -1"), r#"["b" "a" "9" "10"]"#);
}

#[test]
fn by_fields_of_hashes() {
    let mut t = with(&["RPUSH l 1 2 3"]);
    for (key, weight) in [("h1", "7"), ("h2", "5")] {
        let mut hash = Hash::new();
        let limits = HashLimits::default();
        hash.set(b"w->x", Element::parse(weight.as_bytes()), FieldExpiry::Clear, limits, 0);
        put(&mut t, key, Value::Hash(hash));
    }
    assert_eq!(t.run("SORT l BY h*->w->x GET # GET h*->w->x"), r#"["3" nil "2" "5" "1" "7"]"#);
    // Without a field's name after the arrow, the arrow is part of the key's.
    set(&mut t, &[("h1->", "x")]);
    assert_eq!(t.run("SORT l GET h*->"), r#"["x" nil nil]"#);
}

#[test]
fn a_field_whose_time_has_come_is_deleted_where_a_pattern_meets_it() {
    let mut t =
        with(&["RPUSH ids 1 2", "HSET u:1 score 5 name a", "HSETEX u:2 PX 10 FIELDS 2 score 1 name b"]);
    t.advance_ms(20);
    assert_eq!(t.run("SORT ids BY u:*->score GET u:*->name"), r#"[nil "a"]"#);
    assert_eq!(t.effects(), ["HDEL u:2 score", "HDEL u:2 name"]);
    assert_eq!(t.run("EXISTS u:1 u:2"), ":1");
}
