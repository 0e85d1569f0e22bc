//! `Slots`: a map from small ids to values that is copied on write, node by node.
//!
//! A radix tree of 64 slots a node; ids are given out lowest first and used again. Invariant: every
//! node but the root has a value below it, and a node's bits say which slots are taken and which have no free
//! id below them. The root lies in the structure itself, which saves a cache miss on small sets.

use triomphe::Arc;

const FAN: usize = 64;
const BITS: u32 = 6;

/// See the module's description.
#[derive(Clone)]
pub(super) struct Slots<T> {
    root: Node<T>,
    /// How many nodes there are below the root.
    nodes: usize,
}

#[derive(Clone)]
struct Node<T> {
    present: u64,
    full: u64,
    children: Children<T>,
}

/// Both are arrays of pointers in what this is used for, and meant to lie in the node.
#[allow(clippy::large_enum_variant)]
#[derive(Clone)]
enum Children<T> {
    Nodes { shift: u32, nodes: [Option<Arc<Node<T>>>; FAN] },
    Values([Option<T>; FAN]),
}

fn digit(id: u32, shift: u32) -> usize {
    (id >> shift) as usize % FAN
}

impl<T: Clone> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots { root: Node::values(), nodes: 0 }
    }

    /// The value under an id that [`Slots::insert`] has given out.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        let mut node = &self.root;
        loop {
            match &node.children {
                Children::Values(values) => return values[digit(id, 0)].as_ref(),
                Children::Nodes { shift, nodes } => node = nodes[digit(id, *shift)].as_deref()?,
            }
        }
    }

    /// The value, on a path that no other map shares.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let mut node = &mut self.root;
        loop {
            match &mut node.children {
                Children::Values(values) => return values[digit(id, 0)].as_mut(),
                Children::Nodes { shift, nodes } => {
                    node = Arc::make_mut(nodes[digit(id, *shift)].as_mut()?);
                }
            }
        }
    }

    /// Keeps a value under the lowest free id.
    pub fn insert(&mut self, value: T) -> u32 {
        if self.root.full == u64::MAX {
            let shift = self.root.shift() + BITS;
            let mut nodes = [const { None }; FAN];
            let old = std::mem::replace(&mut self.root, Node::values());
            nodes[0] = Some(Arc::new(old));
            self.nodes += 1;
            self.root = Node { present: 1, full: 1, children: Children::Nodes { shift, nodes } };
        }
        self.root.insert(value, &mut self.nodes)
    }

    /// Takes a value out; its id is free again.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        self.root.remove(id, &mut self.nodes)
    }

    /// Drops up to `budget` values; whether none is left. What another map shares counts as one value.
    pub fn free_some(&mut self, budget: &mut usize) -> bool {
        self.root.free_some(budget)
    }

    /// Bytes of all nodes below the root.
    pub fn node_bytes(&self) -> usize {
        self.nodes * (size_of::<Node<T>>() + 8)
    }
}

impl<T: Clone> Node<T> {
    fn values() -> Node<T> {
        Node { present: 0, full: 0, children: Children::Values([const { None }; FAN]) }
    }

    /// An empty node whose slots each cover `1 << shift` ids.
    fn empty(shift: u32) -> Node<T> {
        if shift == 0 {
            return Node::values();
        }
        Node { present: 0, full: 0, children: Children::Nodes { shift, nodes: [const { None }; FAN] } }
    }

    fn shift(&self) -> u32 {
        match &self.children {
            Children::Nodes { shift, .. } => *shift,
            Children::Values(_) => 0,
        }
    }

    fn insert(&mut self, value: T, count: &mut usize) -> u32 {
        let slot = self.full.trailing_ones() as usize;
        let bit = 1 << slot;
        self.present |= bit;
        match &mut self.children {
            Children::Values(values) => {
                values[slot] = Some(value);
                self.full |= bit;
                slot as u32
            }
            Children::Nodes { shift, nodes } => {
                let child = nodes[slot].get_or_insert_with(|| {
                    *count += 1;
                    Arc::new(Node::empty(*shift - BITS))
                });
                let child = Arc::make_mut(child);
                let below = child.insert(value, count);
                if child.full == u64::MAX {
                    self.full |= bit;
                }
                (slot as u32) << *shift | below
            }
        }
    }

    fn remove(&mut self, id: u32, count: &mut usize) -> Option<T> {
        let slot = digit(id, self.shift());
        let bit = 1 << slot;
        let value = match &mut self.children {
            Children::Values(values) => values[slot].take(),
            Children::Nodes { nodes, .. } => {
                let child = Arc::make_mut(nodes[slot].as_mut()?);
                let value = child.remove(id, count);
                if child.present != 0 {
                    self.full &= !bit;
                    return value;
                }
                nodes[slot] = None;
                *count -= 1;
                value
            }
        };
        self.present &= !bit;
        self.full &= !bit;
        value
    }

    fn free_some(&mut self, budget: &mut usize) -> bool {
        while self.present != 0 && *budget > 0 {
            let slot = self.present.trailing_zeros() as usize;
            let done = match &mut self.children {
                Children::Values(values) => {
                    *budget -= 1;
                    values[slot] = None;
                    true
                }
                Children::Nodes { nodes, .. } => {
                    let child = nodes[slot].as_mut().and_then(Arc::get_mut);
                    let done = child.is_none_or(|child| child.free_some(budget));
                    if done {
                        *budget = budget.saturating_sub(1);
                        nodes[slot] = None;
                    }
                    done
                }
            };
            if done {
                self.present &= self.present - 1;
                self.full &= self.present;
            }
        }
        self.present == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_map_with_lowest_ids_first(
            steps in prop::collection::vec((0..10u32, any::<u32>()), 1..if cfg!(miri) { 40 } else { 600 }),
            pin_at in 0..600usize,
        ) {
            let mut slots = Slots::new();
            let mut model = BTreeMap::new();
            let mut pinned = None;
            let mut given = 0;
            for (at, (kind, number)) in steps.into_iter().enumerate() {
                if at == pin_at {
                    pinned = Some((slots.clone(), model.clone(), given));
                }
                if kind < 7 {
                    let id = (0..).find(|id| !model.contains_key(id)).unwrap_or(0);
                    prop_assert_eq!(slots.insert(number), id);
                    model.insert(id, number);
                    given = given.max(id + 1);
                } else if given > 0 {
                    let id = number % given;
                    prop_assert_eq!(slots.remove(id), model.remove(&id));
                }
            }
            for (slots, model, given) in pinned.iter().chain([&(slots.clone(), model.clone(), given)]) {
                for id in 0..*given {
                    prop_assert_eq!(slots.get(id), model.get(&id));
                }
            }
            let mut budget = 50;
            while !slots.free_some(&mut budget) {
                budget = 50;
            }
            for id in 0..given {
                prop_assert_eq!(slots.get(id), None);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn grows_by_levels() {
        let mut slots = Slots::new();
        for id in 0..10_000u32 {
            assert_eq!(slots.insert(id * 3), id);
        }
        let copy = slots.clone();
        for id in 0..10_000u32 {
            if let Some(value) = slots.get_mut(id) {
                *value += 1;
            }
        }
        for id in 0..10_000u32 {
            assert_eq!((copy.get(id), slots.get(id)), (Some(&(id * 3)), Some(&(id * 3 + 1))));
        }
    }
}
