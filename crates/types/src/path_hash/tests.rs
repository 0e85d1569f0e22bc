//! Path hashes beside a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::PathHash;
use super::node::Node;
use crate::element::Element;
use crate::hash::{FieldExpiry, Hash, HashLimits};

type Model = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

fn set(tree: &mut PathHash, path: &[u8], field: &[u8], value: &[u8]) {
    tree.create(path, |hash| put(hash, field, value));
}

fn put(hash: &mut Hash, field: &[u8], value: &[u8]) {
    hash.set(field, Element::parse(value), FieldExpiry::Clear, HashLimits::default(), 0);
}

fn content(hash: &Hash) -> BTreeMap<Vec<u8>, Vec<u8>> {
    hash.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

fn all(mut paths: super::Paths<'_>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((path, _)) = paths.next() {
        found.push(path.to_vec());
    }
    found
}

/// Checks the invariants of every node, and the totals of all.
fn check(tree: &PathHash) {
    fn walk(node: &Node, is_root: bool) -> (usize, usize) {
        assert!(is_root || !node.label().is_empty());
        assert!(is_root || node.hash().is_some() || node.children() > 1);
        assert!(node.hash().is_none_or(|hash| !hash.is_empty()));
        let below: Vec<_> = (0..node.children()).map(|at| node.child_at(at).unwrap()).collect();
        assert!(below.windows(2).all(|pair| pair[0].label()[0] < pair[1].label()[0]));
        let totals = below.iter().map(|child| walk(child, false));
        let (paths, bytes) = totals.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        assert_eq!(node.paths(), paths + usize::from(node.hash().is_some()));
        assert_eq!(node.bytes(), bytes + node.own_bytes_for_tests());
        (node.paths(), node.bytes())
    }
    walk(&tree.root, true);
}

fn same(tree: &PathHash, model: &Model) {
    check(tree);
    assert_eq!(tree.len(), model.len());
    assert_eq!(all(tree.paths()), model.keys().cloned().collect::<Vec<_>>());
    for (path, fields) in model {
        assert_eq!(tree.get(path).map(content).as_ref(), Some(fields));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u8>, u8),
    Unset(Vec<u8>, u8),
    Remove(Vec<u8>),
    RemovePrefix(Vec<u8>),
    Clone,
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, b'a', b'b', 255]), 0..6)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (path(), 0..3u8).prop_map(|(path, field)| Step::Set(path, field)),
        3 => (path(), 0..3u8).prop_map(|(path, field)| Step::Unset(path, field)),
        2 => path().prop_map(Step::Remove),
        1 => path().prop_map(Step::RemovePrefix),
        1 => Just(Step::Clone),
    ]
}

fn run(tree: &mut PathHash, model: &mut Model, step: Step) {
    match step {
        Step::Set(path, field) => {
            set(tree, &path, &[field], &path);
            model.entry(path.clone()).or_default().insert(vec![field], path);
        }
        Step::Unset(path, field) => {
            let removed = tree.change(&path, |hash| hash.remove(&[field], 0));
            let theirs = model.get_mut(&path).map(|fields| fields.remove([field].as_slice()).is_some());
            assert_eq!(removed, theirs);
            model.retain(|_, fields| !fields.is_empty());
        }
        Step::Remove(path) => {
            let removed = tree.remove(&path).map(|hash| content(&hash));
            assert_eq!(removed, model.remove(&path));
        }
        Step::RemovePrefix(prefix) => {
            let removed = tree.remove_prefix(&prefix);
            let before = model.len();
            model.retain(|path, _| !path.starts_with(&prefix));
            assert_eq!(removed.len(), before - model.len());
        }
        Step::Clone => {}
    }
}

proptest! {
    #[test]
    fn it_is_a_sorted_map(steps in prop::collection::vec(step(), 0..60), bound in path(), query in path()) {
        let (mut tree, mut model) = (PathHash::new(), Model::new());
        let mut clones: Vec<(PathHash, Model)> = Vec::new();
        for step in steps {
            if matches!(step, Step::Clone) {
                clones.push((tree.clone(), model.clone()));
            }
            run(&mut tree, &mut model, step);
            same(&tree, &model);
        }
        let from = |is_after: bool| -> Vec<Vec<u8>> {
            model.keys().filter(|path| **path > bound || !is_after && **path == bound).cloned().collect()
        };
        prop_assert_eq!(all(tree.paths_from(&bound)), from(false));
        prop_assert_eq!(all(tree.paths_after(&bound)), from(true));
        let mut prefixes = Vec::new();
        tree.each_prefix(&query, |len, _| { prefixes.push(len); true });
        let theirs: Vec<usize> = model.keys().filter(|path| query.starts_with(path)).map(Vec::len).collect();
        prop_assert_eq!(tree.longest_prefix(&query).map(|(len, _)| len), theirs.last().copied());
        prop_assert_eq!(prefixes, theirs);
        for (clone, model) in clones {
            same(&clone, &model);
        }
    }
}

/// Every byte of a long path has a node of its own: neither changing nor dropping it recurses.
#[test]
fn a_tree_as_deep_as_its_paths_is_changed_and_dropped() {
    const DEPTH: usize = 6_000;
    let run = || {
        let long = vec![b'x'; DEPTH];
        let mut tree = PathHash::new();
        // From the longest to the shortest, each insertion splits the first node below the root.
        for len in (1..=DEPTH).rev() {
            set(&mut tree, &long[..len], b"f", b"v");
        }
        assert_eq!(tree.len(), DEPTH);
        assert_eq!(tree.longest_prefix(&long).map(|(len, _)| len), Some(DEPTH));
        let clone = tree.clone();
        let mut paths = tree.paths_after(&long[..DEPTH - 2]);
        assert_eq!(paths.next().map(|(path, _)| path.len()), Some(DEPTH - 1));
        set(&mut tree, &long, b"f", b"w");
        assert_eq!(tree.remove_prefix(&long[..2]).len(), DEPTH - 1);
        assert_eq!((tree.len(), clone.len()), (1, DEPTH));
    };
    let thread = std::thread::Builder::new().stack_size(160 << 10).spawn(run).unwrap();
    thread.join().unwrap();
}
