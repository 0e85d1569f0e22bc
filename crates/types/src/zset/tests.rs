//! The sorted set against a naive model, in small leaves, nodes and chunks.

use super::index::collisions::HASH;
use super::model::{Model, check, list};
use super::*;
use proptest::prelude::*;

const SMALL: ZSetLimits = ZSetLimits { listpack_max_entries: 12, listpack_max_value_bytes: 20 };
const NEVER: ZSetLimits = ZSetLimits { listpack_max_entries: 0, listpack_max_value_bytes: 0 };

#[derive(Clone, Debug)]
enum Step {
    Add(Vec<u8>, f64, AddOptions),
    Remove(Vec<u8>),
    RemoveRange(usize, usize),
    Pop(bool),
    Pin,
    Check(Vec<u8>, f64, f64),
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..400u32).prop_map(|n| format!("m{n}").into_bytes()),
        2 => (0..50i64).prop_map(|n| n.to_string().into_bytes()),
        1 => (0..9u8, prop_oneof![Just(7usize), Just(8), Just(62), Just(63), Just(64), Just(200)])
            .prop_map(|(n, len)| vec![n; len]),
        1 => Just(Vec::new()),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-9..10i32).prop_map(f64::from),
        2 => (0..100_000i32).prop_map(f64::from),
        2 => (-1000..1000i32).prop_map(|n| f64::from(n) / 64.0),
        1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(1e300), Just(5e-324)],
    ]
}

fn options() -> impl Strategy<Value = AddOptions> {
    let any_option = any::<[bool; 5]>().prop_map(|[nx, xx, gt, lt, incr]| AddOptions {
        nx: nx && !gt && !lt,
        xx: xx && !nx,
        gt,
        lt: lt && !gt,
        incr,
    });
    prop_oneof![4 => Just(AddOptions::default()), 1 => any_option]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (member(), score(), options()).prop_map(|(m, s, o)| Step::Add(m, s, o)),
        9 => member().prop_map(Step::Remove),
        1 => (0..300usize, 0..200usize).prop_map(|(start, len)| Step::RemoveRange(start, start + len)),
        1 => any::<bool>().prop_map(Step::Pop),
        1 => Just(Step::Pin),
        1 => (member(), score(), score()).prop_map(|(m, a, b)| Step::Check(m, a, b)),
    ]
}

fn run(steps: Vec<Step>, limits: ZSetLimits) {
    let (mut set, mut model) = (ZSet::new(), Model::default());
    let mut pins: Vec<(ZSet, Model)> = Vec::new();
    for step in steps {
        match step {
            Step::Add(member, score, options) => {
                assert_eq!(set.add(&member, score, options, limits), model.add(&member, score, options));
            }
            Step::Remove(member) => assert_eq!(set.remove(&member), model.remove(&member)),
            Step::RemoveRange(start, end) => {
                let all = model.list();
                let expected = &all[start.min(all.len())..end.min(all.len())];
                let mut seen = Vec::new();
                let count =
                    set.remove_range(start..end, |entry| seen.push((entry.member.to_vec(), entry.score)));
                assert_eq!((count, &seen[..]), (expected.len(), expected));
                for (member, _) in expected {
                    model.remove(member);
                }
            }
            Step::Pop(last) => {
                let rank = if last { set.len().saturating_sub(1) } else { 0 };
                let popped = model.list().get(rank).cloned();
                set.remove_range(rank..rank + 1, |_| ());
                if let Some((member, _)) = &popped {
                    model.remove(member);
                }
            }
            Step::Pin => pins.push((set.clone(), model.clone())),
            Step::Check(member, a, b) => check(&set, &model, &member, a.min(b), a.max(b)),
        }
        assert_eq!(set.len(), model.scores.len());
    }
    pins.push((set, model));
    for (mut set, model) in pins {
        check(&set, &model, b"m1", -3.0, 100.0);
        while !set.free_some(3) {}
        assert!(set.is_empty());
    }
}

/// Most steps of a random test.
const STEPS: usize = if cfg!(miri) { 60 } else { 900 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 48 }))]

    #[test]
    fn behaves_as_the_model(steps in prop::collection::vec(step(), 1..STEPS)) {
        run(steps, SMALL);
    }

    #[test]
    fn behaves_as_the_model_when_never_packed(steps in prop::collection::vec(step(), 1..STEPS)) {
        run(steps, NEVER);
    }

    #[test]
    fn members_of_one_hash_behave_as_the_model(steps in prop::collection::vec(step(), 1..STEPS)) {
        HASH.set(Some(|_| 0x1234_5678_9abc_def0));
        run(steps, NEVER);
    }

    /// Four hashes in the bits that the index keeps, and different ones in the others.
    #[test]
    fn members_of_few_hashes_behave_as_the_model(steps in prop::collection::vec(step(), 1..STEPS)) {
        HASH.set(Some(|member| {
            let hash = martlet_base::hash::hash_bytes(member);
            [0, 1 << 34, 1 << 63, u64::MAX << 34][hash as usize & 3] | hash >> 30
        }));
        run(steps, NEVER);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn ranges_by_member(
        members in prop::collection::btree_set("[ab]{0,6}", 0..120),
        low in "[ab]{0,3}", high in "[ab]{0,3}", low_kind in 0..4, high_kind in 0..4, limits in prop_oneof![Just(SMALL), Just(NEVER)],
    ) {
        let mut set = ZSet::new();
        for member in members.iter().rev() {
            set.insert(member.as_bytes(), 0.0, limits);
        }
        let bound = |kind, text: &'static str| match kind {
            0 => LexBound::Min,
            1 => LexBound::Max,
            2 => LexBound::Inclusive(text.as_bytes()),
            _ => LexBound::Exclusive(text.as_bytes()),
        };
        let (low, high) = (low.leak(), high.leak());
        let above = |member: &str| match low_kind { 0 => true, 1 => false, 2 => member >= &*low, _ => member > &*low };
        let below = |member: &str| match high_kind { 0 => false, 1 => true, 2 => member <= &*high, _ => member < &*high };
        let expected: Vec<_> = members.iter().filter(|m| above(m) && below(m)).map(|m| (m.clone().into_bytes(), 0.0)).collect();
        let range = set.ranks_by_lex(bound(low_kind, low), bound(high_kind, high));
        prop_assert_eq!(list(set.range(range, false)), expected);
    }

    /// An entry that is there from the first call of a scan to the last is returned, whatever else comes and
    /// goes.
    #[test]
    fn scan_returns_what_stays(stay in 1..200u32, come in prop::collection::vec((0..600u32, any::<bool>()), 0..900), count in 1..30usize) {
        let mut set = ZSet::with_hint(1000, 1, NEVER);
        for n in 0..stay {
            set.insert(format!("stay{n}").as_bytes(), f64::from(n), NEVER);
        }
        let (mut seen, mut cursor, mut come) = (std::collections::HashSet::new(), 0, come.into_iter());
        loop {
            cursor = set.scan(cursor, count, |entry| { seen.insert(entry.member.to_vec()); });
            if cursor == 0 {
                break;
            }
            for (n, add) in come.by_ref().take(40) {
                let member = format!("come{n}");
                if add {
                    set.insert(member.as_bytes(), f64::from(n), NEVER);
                } else {
                    set.remove(member.as_bytes());
                }
            }
        }
        for n in 0..stay {
            let member = format!("stay{n}");
            prop_assert!(seen.contains(member.as_bytes()));
        }
    }
}

#[test]
fn encodings_change_at_the_limits() {
    let limits = ZSetLimits { listpack_max_entries: 3, listpack_max_value_bytes: 5 };
    let mut set = ZSet::new();
    for member in ["a", "b", "c"] {
        set.insert(member.as_bytes(), 1.5, limits);
    }
    assert_eq!(set.encoding(), "listpack");
    set.insert(b"c", 2.5, limits);
    assert_eq!(set.encoding(), "listpack");
    set.insert(b"d", 0.5, limits);
    assert_eq!(set.encoding(), "skiplist");
    set.remove(b"d");
    assert_eq!(set.encoding(), "skiplist");
    set.pack_if_small(limits);
    assert_eq!((set.encoding(), set.len()), ("listpack", 3));
    set.insert(b"longer", 0.5, limits);
    assert_eq!(set.encoding(), "skiplist");
    set.remove(b"a");
    set.pack_if_small(limits);
    assert_eq!(set.encoding(), "skiplist");
    assert_eq!(ZSet::with_hint(4, 1, limits).encoding(), "skiplist");
    assert_eq!(ZSet::with_hint(3, 6, limits).encoding(), "skiplist");
    assert_eq!(ZSet::with_hint(3, 5, limits).encoding(), "listpack");
}

#[test]
fn sizes_are_as_promised() {
    assert_eq!(size_of::<ZSet>(), 8);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn random_gives_every_entry() {
    for limits in [SMALL, NEVER] {
        let mut set = ZSet::new();
        assert_eq!(set.random(&mut Random::seeded(1)), None);
        for n in 0..10 {
            set.insert(&[n], f64::from(n), limits);
        }
        let mut random = Random::seeded(1);
        let mut seen = [0; 10];
        for _ in 0..1000 {
            let entry = set.random(&mut random).expect("a set that is not empty");
            seen[entry.score as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_freed_set_leaves_its_clone_alone() {
    let mut set = ZSet::new();
    for n in 0..5000u32 {
        set.insert(format!("{n}").as_bytes(), f64::from(n % 77), NEVER);
    }
    let copy = set.clone();
    assert!(set.free_some(1), "a shared set is freed at once");
    let mut other = copy.clone();
    other.insert(b"one more", 3.0, NEVER);
    while !other.free_some(10) {}
    assert_eq!(copy.len(), 5000);
    assert_eq!(copy.iter().count(), 5000);
    assert_eq!(copy.rank(b"4999").map(|(_, score)| score), Some(f64::from(4999 % 77)));
}

/// Each member of the same hash is a word in one chunk: memory stays in proportion, and a scan gives them
/// all.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn many_members_of_one_hash_take_memory_in_proportion() {
    HASH.set(Some(|_| u64::MAX));
    let member = |i: u32| format!("{i:010}").into_bytes();
    let mut set = ZSet::new();
    for i in 0..3000 {
        set.insert(&member(i), f64::from(i % 100), NEVER);
    }
    assert!(set.heap_bytes() < 3000 * 120, "{} bytes", set.heap_bytes());
    let mut seen = std::collections::HashSet::new();
    assert_eq!(set.scan(0, 10, |entry| assert!(seen.insert(entry.member.to_vec()))), 0);
    assert_eq!(seen.len(), 3000);
    assert!(
        (0..3000)
            .all(|i| set.score(&member(i)) == Some(f64::from(i % 100)) && set.remove(&member(i)).is_some())
    );
    assert_eq!(set.len(), 0);
}
