//! The commands' changes and records. Their answers are in `tests/wire/array.case`.

use crate::testing::Fixture;

#[test]
fn requests_are_recorded_as_they_came() {
    let mut t = Fixture::new();
    assert_eq!(t.run("ARSET k 5 a b"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, &["ARSET k 5 a b".to_string()][..]));
    assert_eq!(t.events(), ["new k", "arset k"]);
    assert_eq!(t.run("ARMSET k 5 c 9 d"), ":1");
    assert_eq!((t.dirty, t.events()), (2, &["armset k".to_string()][..]));
    assert_eq!(t.run("ARINSERT k x y z"), ":2");
    assert_eq!((t.dirty, t.effects()), (3, &["ARINSERT k x y z".to_string()][..]));
    assert_eq!(t.events(), ["arinsert k"]);
    assert_eq!(t.run("ARSEEK k 20"), ":1");
    assert_eq!((t.dirty, t.effects()), (1, &["ARSEEK k 20".to_string()][..]));
    assert_eq!(t.events(), ["arseek k"]);
    assert_eq!(t.run("ARRING k 3 p q"), ":2");
    assert_eq!((t.dirty, t.effects()), (2, &["ARRING k 3 p q".to_string()][..]));
    assert_eq!(t.events(), ["arring k"]);
}

#[test]
fn removals_count_elements_and_end_with_the_key() {
    let mut t = Fixture::new();
    t.run("ARSET k 0 a b c d e");
    t.events();
    assert_eq!(t.run("ARDEL k 0 0 9"), ":1");
    assert_eq!((t.dirty, t.events()), (1, &["ardel k".to_string()][..]));
    assert_eq!(t.run("ARDEL k 0"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    assert_eq!(t.run("ARDELRANGE k 2 1 7 9"), ":2");
    assert_eq!((t.dirty, t.events()), (2, &["ardelrange k".to_string()][..]));
    assert_eq!(t.run("ARDELRANGE k 9 0 0 5"), ":2");
    assert_eq!(t.events(), ["ardelrange k", "del k"]);
    assert_eq!(t.effects(), ["ARDELRANGE k 9 0 0 5"]);
    t.run("ARSET k 3 a");
    t.events();
    assert_eq!(t.run("ARDEL k 3"), ":1");
    assert_eq!(t.events(), ["ardel k", "del k"]);
    assert_eq!(t.run("EXISTS k"), ":0");
}

#[test]
fn refusals_leave_no_key() {
    let mut t = Fixture::new();
    for request in [
        "ARSET k x a",
        "ARSET k -1 a",
        "ARSET k 01 a",
        "ARSET k 18446744073709551615 a",
        "ARSET k 18446744073709551614 a b",
        "ARMSET k 0 a x b",
        "ARMSET k 0 a 1",
        "ARRING k 0 a",
        "ARRING k x a",
    ] {
        assert!(t.run(request).starts_with("-ERR"), "{request}");
        assert_eq!(t.run("EXISTS k"), ":0");
    }
    assert_eq!(t.run("ARSEEK k 5"), ":0");
    assert_eq!(t.run("ARDEL k 5"), ":0");
    assert!(t.effects().is_empty() && t.events().is_empty());
    t.run("ARINSERT k a");
    t.run("ARSEEK k 18446744073709551614");
    assert_eq!(t.run("ARINSERT k a b"), "-ERR insert index overflow");
    assert_eq!(t.run("ARINSERT k a"), ":18446744073709551614");
    assert_eq!(t.run("ARINSERT k a"), "-ERR insert index overflow");
    assert_eq!(t.run("ARNEXT k"), "nil");
}

#[test]
fn a_new_array_has_the_slices_that_are_configured() {
    let mut t = Fixture::new();
    t.settings.array_limits.slice_size = 256;
    t.run("ARSET k 1000 a");
    t.settings.array_limits.slice_size = 4096;
    t.run("ARSET k 0 a");
    let info = t.run("ARINFO k");
    assert!(
        info.contains(r#""slices" :2 "directory-size" :4 "super-dir-entries" :0 "slice-size" :256"#),
        "{info}"
    );
}

/// A request's expressions share the limits of programs and of steps; a range that is small enough is
/// searched.
#[test]
fn expressions_that_would_take_long_are_refused() {
    let mut t = Fixture::new();
    let long = "a".repeat(100_000);
    t.run(&format!("ARSET k 0 xab {long} b"));
    let error =
        "-ERR regular expression takes too many steps, search fewer elements at a time or simplify it";
    assert_eq!(t.run("ARGREP k - + RE (a{1,255}){1,90}b"), error);
    assert_eq!(t.run("ARGREP k - + EXACT b RE (a{1,255}){1,90}b WITHVALUES"), error);
    assert_eq!(t.run("ARGREP k 0 0 RE (a{1,255}){1,90}b"), "[:0]");
    assert_eq!(t.run("ARGREP k - + RE a+c RE ^b$ NOCASE"), "[:2]");
    let two = "ARGREP k 0 0 RE (a{1,255}){1,60} RE (a{1,255}){1,60}";
    assert_eq!(t.run(two), "-ERR invalid regular expression: Out of memory");
}

/// Compared at every place, these would take 10^10 steps each.
#[test]
fn texts_and_patterns_are_found_without_trying_every_place() {
    let mut t = Fixture::new();
    let (long, part) = ("a".repeat(400_000), "a".repeat(200_000));
    t.run(&format!("ARSET k 0 {long} {long}b"));
    assert_eq!(t.run(&format!("ARGREP k - + MATCH {part}b")), "[:1]");
    assert_eq!(t.run(&format!("ARGREP k - + MATCH {part}B NOCASE")), "[:1]");
    assert_eq!(t.run(&format!("ARGREP k - + MATCH {part}B")), "[]");
    assert_eq!(t.run(&format!("ARGREP k - + GLOB *{part}b*")), "[:1]");
}
