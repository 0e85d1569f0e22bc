//! Hand-made histories, whole and torn. Times are small numbers instead of nanoseconds.

use super::super::Digests;
use super::*;

const A: Elements = 1;
const B: Elements = 2;
/// A group of three keys.
const TRIO: Elements = 4;
const C: Elements = 8;

fn elements() -> Vec<Element> {
    vec![Element::single("a"), Element::single("b"), Element::group("trio", 3), Element::single("c")]
}

fn span(began_ns: u64, ended_ns: u64) -> Span {
    Span { began_ns, ended_ns }
}

/// A writer in database 0: its first state, and the spans and states of its requests.
fn writer(begin: Elements, writes: &[(u64, u64, Elements)]) -> Writer {
    let in_first = |elements| State([elements, 0]);
    let write = |&(began, ended, after): &(u64, u64, Elements)| Write {
        span: span(began, ended),
        request: format!("to {after:b}"),
        after: in_first(after),
    };
    Writer { begin: in_first(begin), writes: writes.iter().map(write).collect() }
}

fn read(began: u64, ended: u64, seen: Seen) -> Read {
    Read { span: span(began, ended), request: "?".to_owned(), seen }
}

fn names(elements: Elements) -> Seen {
    Seen::Names { db: 0, asked: Elements::MAX, whole: elements, some: elements }
}

fn violations(writers: &[Writer], reads: &[Read]) -> Vec<String> {
    let history =
        History { elements: elements(), writers: writers.to_vec(), reads: reads.to_vec(), digests: None };
    check(&history).iter().map(ToString::to_string).collect()
}

/// Whether a single read of some writers is right.
#[track_caller]
fn expect(is_right: bool, writers: &[Writer], (began, ended): (u64, u64), seen: Seen) {
    let found = violations(writers, &[read(began, ended, seen.clone())]);
    assert_eq!(found.is_empty(), is_right, "{seen:?}: {found:?}");
}

/// a is renamed to b from 10 to 20, and back from 30 to 40.
fn ring() -> [Writer; 1] {
    [writer(A, &[(10, 20, B), (30, 40, A)])]
}

#[test]
fn a_renamed_key_is_there_once() {
    for at in [(0, 5), (12, 18), (0, 50), (22, 28), (32, 38)] {
        expect(true, &ring(), at, Seen::Count(0, 1));
        for torn in [0, 2] {
            expect(false, &ring(), at, Seen::Count(0, torn));
        }
        expect(false, &ring(), at, names(0));
        expect(false, &ring(), at, names(A | B));
        expect(false, &ring(), at, Seen::Random(0, None));
        expect(false, &ring(), at, Seen::Counts([0, 0]));
        expect(false, &ring(), at, Seen::Total(2));
        expect(false, &ring(), at, Seen::Among(0, A | B));
    }
}

#[test]
fn a_state_is_seen_only_while_it_may_be() {
    for (elements, at, is_right) in [
        (A, (0, 5), true),
        (B, (0, 5), false),
        // It may have been sent before the request ran, and after it.
        (A, (12, 18), true),
        (B, (12, 18), true),
        (A, (21, 29), false),
        (B, (21, 29), true),
        (A, (25, 31), true),
        (B, (41, 50), false),
        (A, (41, 50), true),
    ] {
        expect(is_right, &ring(), at, names(elements));
        expect(is_right, &ring(), at, Seen::Random(0, Some(elements)));
        expect(is_right, &ring(), at, Seen::Among(0, elements));
    }
}

#[test]
fn half_of_a_request_is_seen_at_no_time() {
    let writers = [writer(0, &[(10, 20, TRIO), (30, 40, 0)])];
    for at in [(0, 50), (12, 18), (22, 28)] {
        let half = Seen::Names { db: 0, asked: Elements::MAX, whole: 0, some: TRIO };
        expect(false, &writers, at, half);
        for keys in [1, 2] {
            expect(false, &writers, at, Seen::Count(0, keys));
            expect(false, &writers, at, Seen::Counts([keys, 0]));
        }
    }
    expect(true, &writers, (12, 18), Seen::Count(0, 3));
    expect(true, &writers, (12, 18), Seen::Count(0, 0));
    expect(false, &writers, (22, 28), Seen::Count(0, 0));
}

/// The walk met one key before it was deleted, and the other after it was made, later.
#[test]
fn keys_that_were_never_there_together_are_not_seen_together() {
    let writers = [writer(A, &[(10, 20, 0), (30, 40, B)])];
    expect(false, &writers, (5, 45), names(A | B));
    expect(false, &writers, (5, 45), Seen::Count(0, 2));
    expect(true, &writers, (5, 45), Seen::Count(0, 0));
    // And the other way around: it came to b's place too early, and to a's too late.
    let writers = [writer(A, &[(10, 20, A | B), (30, 40, B)])];
    expect(false, &writers, (5, 45), names(0));
    expect(false, &writers, (5, 45), Seen::Random(0, None));
}

/// Each writer's keys are as they were at some time, but not at the same.
#[test]
fn writers_are_seen_at_one_moment() {
    let writers = [writer(A, &[(10, 20, 0)]), writer(0, &[(30, 40, B)])];
    expect(false, &writers, (5, 45), names(A | B));
    expect(true, &writers, (5, 45), names(A));
    expect(true, &writers, (5, 45), names(0));
    expect(true, &writers, (5, 45), names(B));
    // Beside each other they may have been in any order.
    let writers = [writer(A, &[(10, 20, 0)]), writer(0, &[(15, 40, B)])];
    expect(true, &writers, (5, 45), names(A | B));
}

#[test]
fn both_databases_are_seen_at_one_moment() {
    let state = |first, second| State([first, second]);
    let swap = Write { span: span(10, 20), request: "SWAPDB".to_owned(), after: state(0, TRIO | A) };
    let writers = [Writer { begin: state(TRIO | A, 0), writes: vec![swap] }];
    for (counts, is_right) in [([4, 0], true), ([0, 4], true), ([0, 0], false), ([4, 4], false)] {
        expect(is_right, &writers, (12, 18), Seen::Counts(counts));
        expect(counts[0] + counts[1] == 4, &writers, (12, 18), Seen::Total(counts[0] + counts[1]));
    }
    let other = Seen::Names { db: 1, asked: Elements::MAX, whole: A, some: A };
    expect(false, &writers, (12, 18), other);
}

#[test]
fn a_pattern_hides_what_it_does_not_match() {
    let asked = Seen::Names { db: 0, asked: B | TRIO, whole: B, some: B };
    expect(true, &[writer(A | B, &[])], (0, 1), asked.clone());
    expect(false, &[writer(A | B | TRIO, &[])], (0, 1), asked);
}

#[test]
fn a_later_read_does_not_see_an_earlier_state() {
    // While the request is under way, each of the two states may be seen, but not the older one last.
    let [before, after] = [names(A), names(B)];
    let reads = |first: &Seen, second: &Seen| [read(12, 13, first.clone()), read(15, 16, second.clone())];
    assert_eq!(violations(&ring(), &reads(&before, &after)), [""; 0]);
    let found = violations(&ring(), &reads(&after, &before));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("an earlier reply had a later state"), "{}", found[0]);
    // Two reads beside each other have no order.
    let beside = [read(12, 15, after), read(13, 16, before)];
    assert_eq!(violations(&ring(), &beside), [""; 0]);
}

#[test]
fn an_iteration_has_what_was_there_throughout_and_nothing_that_never_was() {
    let iteration = |whole, some| Seen::Iteration { db: 0, whole, some };
    let stays = [writer(TRIO, &[]), writer(A, &[(10, 20, B), (30, 40, A)])];
    for other in [0, A, B, A | B] {
        expect(true, &stays, (5, 25), iteration(TRIO | other, TRIO | other));
        expect(false, &stays, (5, 25), iteration(other, other));
        expect(false, &stays, (5, 25), iteration(other, TRIO | other));
        expect(false, &stays, (5, 25), iteration(TRIO | other, TRIO | other | C));
    }
    // Nothing was changed in this time.
    expect(false, &stays, (22, 28), iteration(TRIO, TRIO));
    expect(false, &stays, (22, 28), iteration(TRIO | A | B, TRIO | A | B));
    expect(true, &stays, (22, 28), iteration(TRIO | B, TRIO | B));
}

#[test]
fn a_digest_is_that_of_a_state() {
    let digit = |value: u32| char::from_digit(value, 16).unwrap().to_string().repeat(40);
    // The start value is 1; the keys add 2, 4, 8 and 6.
    let alone = [2, 4, 8, 6].map(|key: u32| digit(1 ^ key));
    let digests = Digests::new(&alone, &digit(1 ^ 2 ^ 4)).unwrap();
    let of = |elements: Elements| digests.of(State([elements, 0]));
    assert_eq!([0, A, TRIO, A | TRIO | C].map(of), [0, 1 ^ 2, 1 ^ 8, 1 ^ 2 ^ 8 ^ 6].map(digit));
    let history = |seen: u32| History {
        elements: elements(),
        writers: ring().to_vec(),
        reads: vec![read(5, 25, Seen::Digest(digit(seen)))],
        digests: Some(digests.clone()),
    };
    let torn = |seen| !check(&history(seen)).is_empty();
    assert!(!torn(1 ^ 2) && !torn(1 ^ 4));
    assert!(torn(0) && torn(1 ^ 2 ^ 4), "none of the two, and both");
    assert!(Digests::new(&alone, "no digest").is_none() && Digests::new(&alone[..1], &digit(0)).is_none());
}

#[test]
fn a_violation_is_a_short_history() {
    let many: Vec<(u64, u64, Elements)> =
        (0..20).map(|n| (10 * n, 10 * n + 5, [A, B][n as usize % 2])).collect();
    let found = violations(&[writer(TRIO, &[]), writer(B, &many)], &[read(22, 31, names(A | B | TRIO))]);
    assert_eq!(
        found,
        ["22..31 ? → a b trio: no moment has that
  writer 0: db0 trio, db1 nothing
  writer 1: db0 b, db1 nothing
    20..25 to 1 → db0 a, db1 nothing
    30..35 to 10 → db0 b, db1 nothing"]
    );
    let long = violations(&[writer(B, &many)], &[read(0, 500, names(C))]);
    assert!(long[0].ends_with("and 12 more"), "{}", long[0]);
    let told = violations(&ring(), &[read(0, 1, Seen::Impossible("a key twice".to_owned()))]);
    assert!(told[0].starts_with("0..1 ? → a key twice: no state at all has that"), "{}", told[0]);
}
