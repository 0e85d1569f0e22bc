//! The map against a `BTreeMap`, with clones that must not change.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

/// The depth, after the invariant was looked at; keys are from `low` on and below `high`.
fn check(node: &Node<u16, u32>, low: Option<u16>, high: Option<u16>) -> usize {
    let within = |key: u16| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high);
    assert!((1..=NODE_MAX).contains(&node.len()));
    match node {
        Node::Leaf(entries) => {
            assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
            assert!(entries.iter().all(|&(key, _)| within(key)));
            0
        }
        Node::Inner(children) => {
            let depths = children.iter().enumerate().map(|(at, (lowest, child))| {
                let next = children.get(at + 1).map(|(next, _)| *next);
                assert!(within(*lowest) && next.is_none_or(|next| *lowest < next));
                check(child, Some(*lowest), next.or(high))
            });
            let depths: Vec<usize> = depths.collect();
            assert!(depths.iter().all(|&depth| depth == depths[0]));
            depths[0] + 1
        }
    }
}

fn same(map: &OrderedMap<u16, u32>, model: &BTreeMap<u16, u32>) {
    assert_eq!(map.len(), model.len());
    if let Some(root) = &map.root {
        check(root, None, None);
    }
    assert!(map.iter().eq(model.iter()));
    assert_eq!((map.first(), map.last()), (model.first_key_value(), model.last_key_value()));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    Append(u16),
    Remove(u16),
    RemoveFirst(u16),
    Change(u16),
    Clone,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..400_u16;
    let step = prop_oneof![
        4 => key().prop_map(Step::Insert),
        2 => (1..40_u16).prop_map(Step::Append),
        4 => key().prop_map(Step::Remove),
        1 => (1..40_u16).prop_map(Step::RemoveFirst),
        1 => key().prop_map(Step::Change),
        1 => Just(Step::Clone),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 20 } else { 150 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn as_a_btree_map(steps in steps(), probes in prop::collection::vec(0..500_u16, 8)) {
        let (mut map, mut model) = (OrderedMap::new(), BTreeMap::new());
        let mut clones = Vec::new();
        for (time, step) in (0_u32..).zip(steps) {
            match step {
                Step::Insert(key) => prop_assert_eq!(map.insert(key, time), model.insert(key, time)),
                Step::Append(count) => {
                    let from = model.last_key_value().map_or(0, |(key, _)| key + 1);
                    for key in from..from.saturating_add(count) {
                        map.insert(key, time);
                        model.insert(key, time);
                    }
                }
                Step::Remove(key) => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                Step::RemoveFirst(count) => {
                    for _ in 0..count {
                        let Some((first, _)) = model.pop_first() else { break };
                        prop_assert!(map.remove(&first).is_some());
                    }
                }
                Step::Change(key) => {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    if let Some(value) = map.get_mut(&key) {
                        *value = time;
                        model.insert(key, time);
                    }
                    if let Some(value) = map.last_mut() {
                        *value = time + 1;
                        model.last_entry().unwrap().insert(time + 1);
                    }
                }
                Step::Clone => clones.push((map.clone(), model.clone())),
            }
            same(&map, &model);
        }
        for key in probes {
            prop_assert!(map.iter_from(&key).eq(model.range(key..)));
            prop_assert!(map.iter_back_from(&key).eq(model.range(..=key).rev()));
            prop_assert_eq!(map.at_or_before(&key), model.range(..=key).next_back());
        }
        for (clone, model) in clones {
            same(&clone, &model);
        }
    }
}

#[test]
fn appended_nodes_are_full() {
    let mut map = OrderedMap::new();
    for key in 0..1000_u16 {
        map.insert(key, 0_u32);
    }
    fn leaves(node: &Node<u16, u32>) -> usize {
        match node {
            Node::Leaf(_) => 1,
            Node::Inner(children) => children.iter().map(|(_, child)| leaves(child)).sum(),
        }
    }
    assert_eq!(leaves(map.root.as_ref().unwrap()), 1000_usize.div_ceil(NODE_MAX));
}
