//! `Intset` against a B-tree set.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn check(set: &Intset, model: &BTreeSet<i64>) {
    assert_eq!(set.len(), model.len());
    assert!(set.iter().eq(model.iter().copied()));
    assert!(set.iter().rev().eq(model.iter().rev().copied()));
    assert_eq!(set.first(), model.first().copied());
    assert_eq!(set.last(), model.last().copied());
    assert_eq!(set.get(model.len()), None);
    for (rank, &member) in model.iter().enumerate() {
        assert_eq!(set.search(member), Ok(rank));
        assert_eq!(set.get(rank), Some(member));
    }
    assert!(set.heap_bytes() <= class_bytes(class_of(set.bytes_used()) + 1));
}

fn member() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => -8i64..8,
        2 => (any::<i64>(), 0u32..64).prop_map(|(int, shift)| int >> shift),
        1 => prop::sample::select(vec![
            i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX), 32767, 32768, -32768, -32769,
        ]),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_sorted_set(ops in prop::collection::vec((0u8..8, member()), 0..200)) {
        let (mut set, mut model) = (Intset::new(), BTreeSet::new());
        for (op, member) in ops {
            match op {
                0..4 => assert_eq!(set.add(member), model.insert(member)),
                4..6 => assert_eq!(set.remove(member), model.remove(&member)),
                6 => assert_eq!(set.contains(member), model.contains(&member)),
                _ => {
                    let copy = set.clone();
                    assert_eq!(copy, set);
                    set = copy;
                }
            }
            check(&set, &model);
        }
        prop_assert_eq!(model.iter().copied().collect::<Intset>(), set);
    }
}

#[test]
fn width_follows_the_widest_member() {
    let mut set = Intset::new();
    for (member, width) in [(1, 2), (-32768, 2), (32768, 4), (i64::from(i32::MIN) - 1, 8)] {
        assert!(set.add(member));
        assert_eq!(set.width_bytes(), width);
    }
    set.remove(i64::from(i32::MIN) - 1);
    assert_eq!(set.width_bytes(), 8);
}

#[test]
fn is_one_pointer() {
    assert_eq!(size_of::<Intset>(), 8);
    assert_eq!(size_of::<Option<Intset>>(), 8);
    assert_eq!(Intset::new().heap_bytes(), 8);
}

#[test]
#[should_panic(expected = "not strictly ascending")]
fn sorted_input_is_checked() {
    Intset::from_sorted(&[1, 1]);
}
