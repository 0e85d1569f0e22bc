//! The set against a sorted map from byte strings to expiry times, its encoding against Redis' rules, clones
//! that must not change.

use super::*;
use martlet_base::random::Random;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SMALL: SetLimits =
    SetLimits { intset_max_entries: 12, listpack_max_entries: 8, listpack_max_value_bytes: 10 };

type Model = BTreeMap<Vec<u8>, i64>;

#[derive(Clone, Debug)]
enum Op {
    Add(Vec<u8>),
    Insert(Vec<u8>, i64),
    AddMany(u16, u16),
    Remove(Vec<u8>),
    SetExpiry(Vec<u8>, Option<u8>),
    Collect(usize),
    Wait(u8),
    Pop,
    PopMany(usize),
    Clone,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (-300i64..300).prop_map(|int| int.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|int| int.to_string().into_bytes()),
        2 => "[a-e]{0,3}".prop_map(String::into_bytes),
        1 => "0[0-9]{1,2}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..500),
    ]
}

fn lasting_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => member().prop_map(Op::Add),
        1 => (any::<u16>(), 0u16..300).prop_map(|(first, len)| Op::AddMany(first, len)),
        4 => member().prop_map(Op::Remove),
        1 => Just(Op::Pop),
        1 => (0usize..400).prop_map(Op::PopMany),
        1 => Just(Op::Clone),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => lasting_op(),
        3 => (member(), 1i64..300).prop_map(|(member, at_ms)| Op::Insert(member, at_ms)),
        3 => (member(), prop::option::weighted(0.8, any::<u8>())).prop_map(|(member, t)| Op::SetExpiry(member, t)),
        1 => (1usize..20).prop_map(Op::Collect),
        1 => (0u8..30).prop_map(Op::Wait),
    ]
}

fn live(model: &Model, now_ms: i64) -> BTreeSet<Vec<u8>> {
    model.iter().filter(|(_, at_ms)| **at_ms > now_ms).map(|(member, _)| member.clone()).collect()
}

/// Constant facts, whatever the encoding.
fn check(set: &Set, model: &Model, now_ms: i64, random: &mut Random) {
    let all: Model = set.iter().map(|member| (member.element.to_vec(), member.expire_at_ms)).collect();
    assert_eq!((set.len(), &all), (model.len(), model));
    let live = live(model, now_ms);
    assert_eq!(set.live_len(now_ms), live.len());
    assert_eq!(set.live(now_ms).map(|member| member.to_vec()).collect::<BTreeSet<_>>(), live);
    for (member, at_ms) in model {
        let member = Element::Bytes(member);
        assert_eq!(set.contains(member, now_ms), *at_ms > now_ms);
        assert_eq!(set.expiry(member, now_ms), Some(*at_ms).filter(|at_ms| *at_ms > now_ms));
    }
    assert!(model.values().all(|at_ms| *at_ms >= set.next_expiry_ms()));
    assert_eq!(set.next_expiry_ms() == NO_EXPIRY, model.values().all(|at_ms| *at_ms == NO_EXPIRY));
    let mut scanned = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, now_ms, |member| assert!(scanned.insert(member.to_vec())));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, live);
    for count in [0, 1, live.len() / 4, live.len() / 2, live.len(), live.len() + 1] {
        let mut sample = BTreeSet::new();
        set.sample(count, now_ms, random, |member| assert!(sample.insert(member.to_vec())));
        assert_eq!(sample.len(), count.min(live.len()));
        assert!(sample.is_subset(&live));
    }
    assert_eq!(set.random(now_ms, random).is_some(), !live.is_empty());
    assert!(set.random(now_ms, random).is_none_or(|member| live.contains(&member.to_vec())));
}

/// As [`Set::insert`], for the model.
fn insert(model: &mut Model, member: &[u8], expire_at_ms: i64, now_ms: i64) -> bool {
    let is_new = model.get(member).is_none_or(|at_ms| *at_ms <= now_ms);
    if is_new {
        model.insert(member.to_vec(), expire_at_ms);
    }
    is_new
}

fn run(ops: Vec<Op>, limits: SetLimits) {
    let mut random = Random::seeded(1);
    let (mut set, mut model, mut now_ms) = (Set::new(), Model::new(), 1);
    let mut pinned = Vec::new();
    for op in ops {
        step(op, (&mut set, &mut model), limits, &mut now_ms, &mut random, &mut pinned);
        match set.encoding() {
            "intset" => assert!(set.len() <= limits.intset_max_entries),
            "listpack" | "listpackex" => assert!(set.len() <= limits.listpack_max_entries),
            _ => {}
        }
    }
    pinned.push((set, model));
    pinned.iter().for_each(|(set, model)| check(set, model, now_ms, &mut random));
}

fn step(
    op: Op,
    (set, model): (&mut Set, &mut Model),
    limits: SetLimits,
    now: &mut i64,
    random: &mut Random,
    pinned: &mut Vec<(Set, Model)>,
) {
    let now_ms = *now;
    match op {
        Op::Add(member) => {
            if model.is_empty() {
                *set = Set::new();
                set.prepare(&member, 1, limits);
            }
            let is_new = set.add(Element::Bytes(&member), limits, now_ms);
            assert_eq!(is_new, insert(model, &member, NO_EXPIRY, now_ms));
            assert!(set.contains(Element::Bytes(&member), now_ms));
            assert!(set.contains(Element::parse(&member), now_ms));
        }
        Op::Insert(member, at_ms) => {
            let is_new = set.insert(Element::Bytes(&member), at_ms, limits, now_ms);
            assert_eq!(is_new, insert(model, &member, at_ms, now_ms));
        }
        Op::AddMany(first, len) => {
            for i in 0..len {
                let member = first.wrapping_add(i).to_string().into_bytes();
                let is_new = set.add(Element::parse(&member), limits, now_ms);
                assert_eq!(is_new, insert(model, &member, NO_EXPIRY, now_ms));
            }
        }
        Op::Remove(member) => {
            let is_live = model.get(&member).is_some_and(|at_ms| *at_ms > now_ms);
            assert_eq!(set.remove(Element::Bytes(&member), now_ms), is_live);
            assert_eq!(
                set.remove_expired(Element::Bytes(&member), now_ms),
                model.remove(&member).is_some() && !is_live
            );
            assert!(!set.contains(Element::Bytes(&member), i64::MIN));
        }
        Op::SetExpiry(member, delay) => {
            let at_ms = delay.map_or(NO_EXPIRY, |delay| now_ms + i64::from(delay));
            let known = model.get_mut(&member).map(|old_ms| *old_ms = at_ms).is_some();
            assert_eq!(set.set_expiry(Element::Bytes(&member), at_ms, limits), known);
        }
        Op::Collect(limit) => {
            let due = model.len() - live(model, now_ms).len();
            let collected = set.collect_expired(now_ms, limit, |member| {
                assert_eq!(model.remove(&member.element.to_vec()), Some(member.expire_at_ms));
                assert!(member.expire_at_ms <= now_ms);
            });
            assert_eq!(collected, due.min(limit));
            assert!(collected == limit || set.next_expiry_ms() > now_ms);
        }
        Op::Wait(ms) => *now += i64::from(ms),
        Op::Pop => {
            let popped = set.pop(now_ms, random, |member| member.to_vec());
            assert_eq!(popped.is_some(), !live(model, now_ms).is_empty());
            let at_ms = popped.map(|member| model.remove(&member).expect("a member of the model"));
            assert!(at_ms.is_none_or(|at_ms| at_ms > now_ms));
        }
        Op::PopMany(count) => {
            let count = count.min(live(model, now_ms).len());
            let mut popped = 0;
            set.pop_many(count, now_ms, limits, random, |member| {
                assert!(model.remove(&member.to_vec()).is_some_and(|at_ms| at_ms > now_ms));
                popped += 1;
            });
            assert_eq!(popped, count);
        }
        Op::Clone => pinned.push((set.clone(), model.clone())),
    }
}

/// Most steps of a random test.
const STEPS: usize = if cfg!(miri) { 10 } else { 80 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]

    #[test]
    fn agrees_with_model(ops in prop::collection::vec(op(), 1..STEPS)) {
        run(ops, SetLimits::default());
    }

    #[test]
    fn agrees_with_model_without_times(ops in prop::collection::vec(lasting_op(), 1..STEPS)) {
        run(ops, SMALL);
    }

    #[test]
    fn agrees_with_model_at_small_limits(ops in prop::collection::vec(op(), 1..STEPS)) {
        run(ops, SMALL);
    }
}

/// A time at which nothing has expired.
const NOW_MS: i64 = i64::MIN;

fn built(texts: &[&str], limits: SetLimits) -> Set {
    let mut set = Set::new();
    if let Some(first) = texts.first() {
        set.prepare(first.as_bytes(), texts.len(), limits);
    }
    for text in texts {
        set.add(Element::Bytes(text.as_bytes()), limits, NOW_MS);
    }
    set
}

/// The cases of Redis' own suite, at its limits and around them.
#[test]
fn encodings_are_those_of_redis() {
    let ints = |len: i64| (0..len).map(|i| i.to_string()).collect::<Vec<_>>();
    let encoding = |texts: &[String], limits| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        built(&texts, limits).encoding()
    };
    let limits = SetLimits::default();
    assert_eq!(encoding(&ints(512), limits), "intset");
    // All at once, Redis sizes the set for the number of arguments: neither intset nor listpack will do.
    assert_eq!(encoding(&ints(513), limits), "hashtable");
    assert_eq!(built(&["1", "a"], limits).encoding(), "listpack");
    assert_eq!(built(&["a", "1"], limits).encoding(), "listpack");
    assert_eq!(built(&["1", &"x".repeat(64)], limits).encoding(), "listpack");
    assert_eq!(built(&["1", &"x".repeat(65)], limits).encoding(), "hashtable");
    let with_text = |len: i64| {
        let mut set = Set::new();
        (0..len).for_each(|i| assert!(set.add(Element::Int(i), limits, NOW_MS)));
        assert!(set.add(Element::Bytes(b"x"), limits, NOW_MS));
        set.encoding()
    };
    assert_eq!(with_text(127), "listpack");
    assert_eq!(with_text(128), "hashtable");
    // One by one past the limit.
    let mut set = Set::new();
    (0..512).for_each(|i| assert!(set.add(Element::Int(i), limits, NOW_MS)));
    assert_eq!(set.encoding(), "intset");
    assert!(set.add(Element::Int(600), limits, NOW_MS));
    assert_eq!(set.encoding(), "hashtable");
    // Integers longer than a listpack's values.
    let tight = SetLimits { listpack_max_value_bytes: 4, ..limits };
    assert_eq!(built(&["12345", "ab"], tight).encoding(), "hashtable");
    assert_eq!(built(&["1234", "ab"], tight).encoding(), "listpack");
}

#[test]
fn a_prepared_set_converts_ahead() {
    let limits = SetLimits::default();
    let mut set = built(&["a", "b"], limits);
    set.prepare(b"c", 128, limits);
    assert_eq!(set.encoding(), "listpack");
    set.prepare(b"c", 129, limits);
    assert_eq!(set.encoding(), "hashtable");
    let mut set = built(&["1", "2"], limits);
    set.prepare(b"3", 513, limits);
    assert_eq!((set.encoding(), set.len()), ("hashtable", 2));
}

#[test]
fn results_become_intsets_where_they_can() {
    let limits = SetLimits::default();
    let mut set = Set::new_listpack();
    for int in [3, -1, 200_000] {
        set.add(Element::Int(int), limits, NOW_MS);
    }
    set.convert_to_intset_if_all_ints(limits);
    assert_eq!(set.encoding(), "intset");
    assert!(set.live(NOW_MS).eq([-1, 3, 200_000].map(Element::Int)));
    let mut set = built(&["a", "1"], limits);
    set.convert_to_intset_if_all_ints(limits);
    assert_eq!(set.encoding(), "listpack");
}

#[test]
fn popping_most_of_a_table_leaves_a_listpack() {
    let limits = SetLimits::default();
    let mut set = Set::new_hashtable();
    (0..1000).for_each(|i: i64| assert!(set.add(Element::Int(i), limits, NOW_MS)));
    let mut popped = 0;
    set.pop_many(990, NOW_MS, limits, &mut Random::seeded(5), |_| popped += 1);
    assert_eq!((popped, set.len(), set.encoding()), (990, 10, "listpack"));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn combinations_are_equally_likely() {
    for set in [built(&["1", "2", "3", "4"], SetLimits::default()), {
        let mut set = Set::new_hashtable();
        (1..5).for_each(|i| assert!(set.add(Element::Int(i), SetLimits::default(), NOW_MS)));
        set
    }] {
        let mut random = Random::seeded(9);
        let mut counts: BTreeMap<Vec<Vec<u8>>, u32> = BTreeMap::new();
        for _ in 0..6_000 {
            let mut sample = Vec::new();
            set.sample(2, NOW_MS, &mut random, |member| sample.push(member.to_vec()));
            sample.sort();
            *counts.entry(sample).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}

#[test]
fn a_set_is_small() {
    assert!(size_of::<Set>() == 8);
    let limits = SetLimits::default();
    assert!(built(&["a", "b", "c"], limits).heap_bytes() <= 32);
    assert!(built(&["1", "2", "3"], limits).heap_bytes() <= 16);
}

/// Redis 8.12's encodings, by `t_set_expire.c` and the tests of the commands.
#[test]
fn a_time_makes_a_listpackex_of_a_small_set() {
    let limits = SetLimits::default();
    for texts in [["a", "b", "c"], ["1", "2", "3"]] {
        let mut set = built(&texts, limits);
        let (first, other) = (Element::Bytes(texts[0].as_bytes()), Element::Bytes(b"x"));
        let before = set.encoding();
        assert!(!set.set_expiry(other, 9, limits) && set.set_expiry(first, NO_EXPIRY, limits));
        assert_eq!(set.encoding(), before);
        assert!(set.set_expiry(first, 9, limits));
        assert_eq!((set.encoding(), set.len(), set.next_expiry_ms()), ("listpackex", 3, 9));
        assert!(set.set_expiry(first, NO_EXPIRY, limits));
        assert_eq!((set.encoding(), set.next_expiry_ms()), ("listpackex", NO_EXPIRY));
        set.set_expiry(first, 9, limits);
        set.set_indexed_expiry_ms(7);
        (0..126).for_each(|i: i64| assert!(set.add(Element::Int(1000 + i), limits, NOW_MS)));
        assert_eq!((set.encoding(), set.len()), ("hashtable", 129));
        assert_eq!((set.next_expiry_ms(), set.indexed_expiry_ms()), (9, 7));
        assert_eq!(set.expiry(first, NOW_MS), Some(9));
        set.set_indexed_expiry_ms(NO_EXPIRY);
    }
    let mut ints = built(&["1", "2"], limits);
    ints.prepare_expiry(SetLimits { listpack_max_value_bytes: 19, ..limits });
    assert_eq!(ints.encoding(), "hashtable");
    let mut few = built(&["a", "b"], limits);
    few.prepare_expiry(SetLimits { listpack_max_entries: 1, ..limits });
    assert_eq!(few.encoding(), "hashtable");
}
