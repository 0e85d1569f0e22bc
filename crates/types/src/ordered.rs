//! `OrderedMap`: a map in order of its keys, a B+-tree that is copied on write.
//!
//! Invariant: all leaves are at one depth, no node but the root's is empty, and the key beside a child is not
//! above any key in it, and above every key in the child before it. A clone shares all nodes and costs the
//! same for any size; a write copies the nodes on its path.
//!
//! Nodes that keys are appended to are left full, since most maps here are appended to. A removal joins two
//! neighbours that together leave a quarter of a node free.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::fmt;

use triomphe::Arc;

/// Most keys, or children, of a node.
const NODE_MAX: usize = if cfg!(test) { 8 } else { 64 };
/// A node with fewer is joined with a neighbour if both fit into [`JOINED_MAX`].
const NODE_MIN: usize = NODE_MAX / 4;
const JOINED_MAX: usize = NODE_MAX / 4 * 3;

/// See the [module docs](self).
#[derive(Clone)]
pub struct OrderedMap<K, V> {
    root: Option<Arc<Node<K, V>>>,
    len: usize,
}

type Child<K, V> = (K, Arc<Node<K, V>>);

#[derive(Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<Child<K, V>>),
}

/// Where a range begins or ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Side {
    /// At a key.
    With,
    /// Beside it.
    Without,
}

/// The child in which a key is, if it is in any.
fn child_of<K: Borrow<Q>, Q: Ord + ?Sized, V>(children: &[Child<K, V>], key: &Q) -> usize {
    children.partition_point(|(lowest, _)| lowest.borrow() <= key).saturating_sub(1)
}

impl<K: Ord + Clone, V: Clone> OrderedMap<K, V> {
    /// An empty map; it allocates nothing.
    pub const fn new() -> OrderedMap<K, V> {
        OrderedMap { root: None, len: 0 }
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children[child_of(children, key)].1,
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
                    return Some(&entries[at].1);
                }
            }
        }
    }

    /// The value at a key, to be changed. A key that is not there copies nothing.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let mut node = Arc::make_mut(self.root.as_mut()?);
        loop {
            match node {
                Node::Inner(children) => {
                    let at = child_of(children, key);
                    node = Arc::make_mut(&mut children[at].1);
                }
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
                    return Some(&mut entries[at].1);
                }
            }
        }
    }

    /// The lowest key and its value.
    pub fn first(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children.first()?.1,
                Node::Leaf(entries) => return entries.first().map(|(key, value)| (key, value)),
            }
        }
    }

    /// The highest key and its value.
    pub fn last(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => node = &children.last()?.1,
                Node::Leaf(entries) => return entries.last().map(|(key, value)| (key, value)),
            }
        }
    }

    /// The value at the highest key, to be changed.
    pub fn last_mut(&mut self) -> Option<&mut V> {
        let mut node = Arc::make_mut(self.root.as_mut()?);
        loop {
            match node {
                Node::Inner(children) => node = Arc::make_mut(&mut children.last_mut()?.1),
                Node::Leaf(entries) => return entries.last_mut().map(|(_, value)| value),
            }
        }
    }

    /// Puts a value at a key; the one that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Node::Leaf(vec![(key, value)])));
            self.len = 1;
            return None;
        };
        let (before, split) = Arc::make_mut(root).insert(key, value);
        if let Some(right) = split
            && let Some(left) = self.root.take()
        {
            let lowest = left.lowest().clone();
            self.root = Some(Arc::new(Node::Inner(vec![(lowest, left), right])));
        }
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes a key out. One that is not there copies nothing.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let root = Arc::make_mut(self.root.as_mut()?);
        let removed = root.remove(key);
        self.len -= usize::from(removed.is_some());
        while let Some(Node::Inner(children)) = self.root.as_deref()
            && let [(_, only)] = children.as_slice()
        {
            self.root = Some(only.clone());
        }
        if self.len == 0 {
            self.root = None;
        }
        removed
    }

    /// The highest key that is not above `key`, and its value.
    pub fn at_or_before(&self, key: &K) -> Option<(&K, &V)> {
        let entries = self.root.as_deref()?.leaf_before(key, Side::With);
        entries.last().map(|(key, value)| (key, value))
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let rest = self.root.as_deref().map_or(&[][..], Node::first_leaf);
        Iter { map: self, rest: rest.iter(), last: None }
    }

    /// The keys from this one on, and their values, in order.
    pub fn iter_from(&self, key: &K) -> Iter<'_, K, V> {
        let rest = self.root.as_deref().map_or(&[][..], |root| root.leaf_after(key, Side::With));
        Iter { map: self, rest: rest.iter(), last: None }
    }

    /// The keys down from this one, and their values, from the highest on.
    pub fn iter_back_from(&self, key: &K) -> IterBack<'_, K, V> {
        let rest = self.root.as_deref().map_or(&[][..], |root| root.leaf_before(key, Side::With));
        IterBack { map: self, rest: rest.iter(), last: None }
    }

    /// Bytes that the nodes take, without what keys and values have allocated: an estimate, for nodes that
    /// are mostly full.
    pub fn heap_bytes(&self) -> usize {
        self.len * (size_of::<(K, V)>() + size_of::<Child<K, V>>().div_ceil(NODE_MAX))
    }
}

impl<K: Ord + Clone, V: Clone> Node<K, V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// The lowest key, or one below it. Nodes are not empty.
    fn lowest(&self) -> &K {
        match self {
            Node::Leaf(entries) => &entries[0].0,
            Node::Inner(children) => &children[0].0,
        }
    }

    fn first_leaf(&self) -> &[(K, V)] {
        match self {
            Node::Leaf(entries) => entries,
            Node::Inner(children) => children.first().map_or(&[], |(_, child)| child.first_leaf()),
        }
    }

    fn last_leaf(&self) -> &[(K, V)] {
        match self {
            Node::Leaf(entries) => entries,
            Node::Inner(children) => children.last().map_or(&[], |(_, child)| child.last_leaf()),
        }
    }

    /// The next keys after `key`, as many as lie together; empty at the end.
    fn leaf_after(&self, key: &K, side: Side) -> &[(K, V)] {
        match self {
            Node::Leaf(entries) => {
                let at = entries.partition_point(|(other, _)| match side {
                    Side::With => other < key,
                    Side::Without => other <= key,
                });
                &entries[at..]
            }
            Node::Inner(children) => {
                let at = child_of(children, key);
                match (children[at].1.leaf_after(key, side), children.get(at + 1)) {
                    ([], Some((_, next))) => next.first_leaf(),
                    (found, _) => found,
                }
            }
        }
    }

    /// The last keys before `key`, as many as lie together; empty at the begin.
    fn leaf_before(&self, key: &K, side: Side) -> &[(K, V)] {
        match self {
            Node::Leaf(entries) => {
                let at = entries.partition_point(|(other, _)| match side {
                    Side::With => other <= key,
                    Side::Without => other < key,
                });
                &entries[..at]
            }
            Node::Inner(children) => {
                let at = child_of(children, key);
                match (children[at].1.leaf_before(key, side), at.checked_sub(1)) {
                    ([], Some(before)) => children[before].1.last_leaf(),
                    (found, _) => found,
                }
            }
        }
    }

    /// Puts a value at a key; returns the former one, and the part that was split off to the right.
    fn insert(&mut self, key: K, value: V) -> (Option<V>, Option<Child<K, V>>) {
        match self {
            Node::Leaf(entries) => match entries.binary_search_by(|(other, _)| other.cmp(&key)) {
                Ok(at) => (Some(std::mem::replace(&mut entries[at].1, value)), None),
                Err(at) => (
                    None,
                    insert_at(entries, at, (key, value))
                        .map(|right| (right[0].0.clone(), Arc::new(Node::Leaf(right)))),
                ),
            },
            Node::Inner(children) => {
                let at = child_of(children, &key);
                let (lowest, child) = &mut children[at];
                if key < *lowest {
                    *lowest = key.clone();
                }
                let (before, split) = Arc::make_mut(child).insert(key, value);
                let right = split.and_then(|right| insert_at(children, at + 1, right));
                (before, right.map(|right| (right[0].0.clone(), Arc::new(Node::Inner(right)))))
            }
        }
    }

    /// Takes out a key that is there.
    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Node::Leaf(entries) => {
                let at = entries.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
                Some(entries.remove(at).1)
            }
            Node::Inner(children) => {
                let at = child_of(children, key);
                let child = Arc::make_mut(&mut children[at].1);
                let removed = child.remove(key);
                let len = child.len();
                if len == 0 {
                    children.remove(at);
                } else if len < NODE_MIN {
                    join_around(children, at);
                }
                removed
            }
        }
    }

    /// Appends a node of the same depth with higher keys.
    fn append(&mut self, other: Node<K, V>) {
        match (self, other) {
            (Node::Leaf(entries), Node::Leaf(more)) => entries.extend(more),
            (Node::Inner(children), Node::Inner(more)) => children.extend(more),
            _ => unreachable!("neighbours of one depth"),
        }
    }
}

/// Inserts into a node; returns the part that was split off to the right if it was full.
fn insert_at<T>(items: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if items.len() < NODE_MAX {
        items.insert(at, item);
        return None;
    }
    if at == items.len() {
        let mut right = Vec::with_capacity(NODE_MAX);
        right.push(item);
        return Some(right);
    }
    let middle = NODE_MAX / 2;
    let mut right = items.split_off(middle);
    if at <= middle {
        items.insert(at, item);
    } else {
        right.insert(at - middle, item);
    }
    Some(right)
}

/// Joins a child with a neighbour, if both fit into one node.
fn join_around<K: Ord + Clone, V: Clone>(children: &mut Vec<Child<K, V>>, at: usize) {
    let fits = |left: usize| {
        children.get(left + 1).is_some_and(|(_, right)| children[left].1.len() + right.len() <= JOINED_MAX)
    };
    let Some(left) = [at.checked_sub(1), Some(at)].into_iter().flatten().find(|&left| fits(left)) else {
        return;
    };
    let (_, right) = children.remove(left + 1);
    let right = Arc::try_unwrap(right).unwrap_or_else(|shared| Node::clone(&shared));
    Arc::make_mut(&mut children[left].1).append(right);
}

impl<K: Ord + Clone, V: Clone> Default for OrderedMap<K, V> {
    fn default() -> Self {
        OrderedMap::new()
    }
}

impl<K: Ord + Clone + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for OrderedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Keys and values in order.
pub struct Iter<'a, K, V> {
    map: &'a OrderedMap<K, V>,
    rest: std::slice::Iter<'a, (K, V)>,
    last: Option<&'a K>,
}

impl<'a, K: Ord + Clone, V: Clone> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.as_slice().is_empty() {
            let (root, last) = (self.map.root.as_deref()?, self.last?);
            self.rest = root.leaf_after(last, Side::Without).iter();
        }
        let (key, value) = self.rest.next()?;
        self.last = Some(key);
        Some((key, value))
    }
}

/// Keys and values from the highest on.
pub struct IterBack<'a, K, V> {
    map: &'a OrderedMap<K, V>,
    rest: std::slice::Iter<'a, (K, V)>,
    last: Option<&'a K>,
}

impl<'a, K: Ord + Clone, V: Clone> Iterator for IterBack<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.as_slice().is_empty() {
            let (root, last) = (self.map.root.as_deref()?, self.last?);
            self.rest = root.leaf_before(last, Side::Without).iter();
        }
        let (key, value) = self.rest.next_back()?;
        self.last = Some(key);
        Some((key, value))
    }
}
