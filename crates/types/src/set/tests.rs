//! The set against a sorted set of byte strings, its encoding against Redis' rules, clones that must not
//! change.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SMALL: SetLimits =
    SetLimits { intset_max_entries: 12, listpack_max_entries: 8, listpack_max_value_bytes: 10 };

#[derive(Clone, Debug)]
enum Op {
    Add(Vec<u8>),
    AddMany(u16, u16),
    Remove(Vec<u8>),
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

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => member().prop_map(Op::Add),
        1 => (any::<u16>(), 0u16..300).prop_map(|(first, len)| Op::AddMany(first, len)),
        4 => member().prop_map(Op::Remove),
        1 => Just(Op::Pop),
        1 => (0usize..400).prop_map(Op::PopMany),
        1 => Just(Op::Clone),
    ]
}

fn members(set: &Set) -> BTreeSet<Vec<u8>> {
    set.iter().map(|member| member.to_vec()).collect()
}

/// Constant facts, whatever the encoding.
fn check(set: &Set, model: &BTreeSet<Vec<u8>>, random: &mut Random) {
    assert_eq!((set.len(), &members(set)), (model.len(), model));
    let mut scanned = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 10, |member| assert!(scanned.insert(member.to_vec())));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&scanned, model);
    for count in [0, 1, model.len() / 4, model.len() / 2, model.len(), model.len() + 1] {
        let mut sample = BTreeSet::new();
        set.sample(count, random, |member| assert!(sample.insert(member.to_vec())));
        assert_eq!(sample.len(), count.min(model.len()));
        assert!(sample.is_subset(model));
    }
    assert_eq!(set.random(random).is_some(), !model.is_empty());
    assert!(set.random(random).is_none_or(|member| set.contains(member)));
}

fn run(ops: Vec<Op>, limits: SetLimits) {
    let mut random = Random::seeded(1);
    let mut set = Set::new();
    let mut model = BTreeSet::new();
    let mut pinned = Vec::new();
    for op in ops {
        match op {
            Op::Add(member) => {
                if model.is_empty() {
                    set = Set::new();
                    set.prepare(&member, 1, limits);
                }
                assert_eq!(set.add(Element::Bytes(&member), limits), model.insert(member.clone()));
                assert!(set.contains(Element::Bytes(&member)) && set.contains(Element::parse(&member)));
            }
            Op::AddMany(first, len) => {
                for i in 0..len {
                    let member = first.wrapping_add(i).to_string().into_bytes();
                    assert_eq!(set.add(Element::parse(&member), limits), model.insert(member));
                }
            }
            Op::Remove(member) => {
                assert_eq!(set.remove(Element::Bytes(&member)), model.remove(&member));
                assert!(!set.contains(Element::Bytes(&member)));
            }
            Op::Pop => {
                let popped = set.pop(&mut random, |member| member.to_vec());
                assert_eq!(popped.is_some(), !model.is_empty());
                assert!(popped.is_none_or(|member| model.remove(&member)));
            }
            Op::PopMany(count) => {
                let count = count.min(model.len());
                let mut popped = 0;
                set.pop_many(count, limits, &mut random, |member| {
                    assert!(model.remove(&member.to_vec()));
                    popped += 1;
                });
                assert_eq!(popped, count);
            }
            Op::Clone => pinned.push((set.clone(), model.clone())),
        }
        match set.encoding() {
            "intset" => assert!(set.len() <= limits.intset_max_entries),
            "listpack" => assert!(set.len() <= limits.listpack_max_entries),
            _ => {}
        }
    }
    pinned.push((set, model));
    pinned.iter().for_each(|(set, model)| check(set, model, &mut random));
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
    fn agrees_with_model_at_small_limits(ops in prop::collection::vec(op(), 1..STEPS)) {
        run(ops, SMALL);
    }
}

fn built(texts: &[&str], limits: SetLimits) -> Set {
    let mut set = Set::new();
    if let Some(first) = texts.first() {
        set.prepare(first.as_bytes(), texts.len(), limits);
    }
    for text in texts {
        set.add(Element::Bytes(text.as_bytes()), limits);
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
        (0..len).for_each(|i| assert!(set.add(Element::Int(i), limits)));
        assert!(set.add(Element::Bytes(b"x"), limits));
        set.encoding()
    };
    assert_eq!(with_text(127), "listpack");
    assert_eq!(with_text(128), "hashtable");
    // One by one past the limit.
    let mut set = Set::new();
    (0..512).for_each(|i| assert!(set.add(Element::Int(i), limits)));
    assert_eq!(set.encoding(), "intset");
    assert!(set.add(Element::Int(600), limits));
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
        set.add(Element::Int(int), limits);
    }
    set.convert_to_intset_if_all_ints(limits);
    assert_eq!(set.encoding(), "intset");
    assert!(set.iter().eq([-1, 3, 200_000].map(Element::Int)));
    let mut set = built(&["a", "1"], limits);
    set.convert_to_intset_if_all_ints(limits);
    assert_eq!(set.encoding(), "listpack");
}

#[test]
fn popping_most_of_a_table_leaves_a_listpack() {
    let limits = SetLimits::default();
    let mut set = Set::new_hashtable();
    (0..1000).for_each(|i: i64| assert!(set.add(Element::Int(i), limits)));
    let mut popped = 0;
    set.pop_many(990, limits, &mut Random::seeded(5), |_| popped += 1);
    assert_eq!((popped, set.len(), set.encoding()), (990, 10, "listpack"));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn combinations_are_equally_likely() {
    for set in [built(&["1", "2", "3", "4"], SetLimits::default()), {
        let mut set = Set::new_hashtable();
        (1..5).for_each(|i| assert!(set.add(Element::Int(i), SetLimits::default())));
        set
    }] {
        let mut random = Random::seeded(9);
        let mut counts: BTreeMap<Vec<Vec<u8>>, u32> = BTreeMap::new();
        for _ in 0..6_000 {
            let mut sample = Vec::new();
            set.sample(2, &mut random, |member| sample.push(member.to_vec()));
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
