//! The nodes of a [`PathHash`](super::PathHash).
//!
//! Invariant: `paths` and `bytes` are those of the node's whole subtree as its children's totals have them;
//! children are in order of their first bytes, each of which occurs once.

use triomphe::Arc;

use crate::hash::Hash;

/// A child with the first byte of its label, so that a search reads one node for each step.
#[derive(Clone)]
struct Child {
    first: u8,
    node: Arc<Node>,
}

/// See [`PathHash`](super::PathHash).
pub(super) struct Node {
    /// The bytes that lead here from the parent.
    label: Box<[u8]>,
    hash: Option<Arc<Hash>>,
    children: Vec<Child>,
    /// Paths in the subtree.
    paths: usize,
    /// Allocated bytes of the subtree.
    bytes: usize,
}

/// A subtree's totals, or a difference of them that wraps around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    paths: usize,
    bytes: usize,
}

impl Totals {
    pub fn minus(self, other: Totals) -> Totals {
        Totals { paths: self.paths.wrapping_sub(other.paths), bytes: self.bytes.wrapping_sub(other.bytes) }
    }
}

/// Bytes of a reference count.
const COUNT_BYTES: usize = size_of::<usize>();

/// Bytes that a hash takes behind its reference count.
fn hash_bytes(hash: &Hash) -> usize {
    COUNT_BYTES + size_of::<Hash>() + hash.heap_bytes()
}

impl Node {
    pub fn new(label: &[u8], hash: Option<Arc<Hash>>) -> Node {
        let mut node = Node { label: label.into(), paths: 0, bytes: 0, children: Vec::new(), hash };
        node.paths = usize::from(node.hash.is_some());
        node.bytes = node.own_bytes();
        node
    }

    /// A root with this node alone below it.
    pub fn above(child: Arc<Node>) -> Node {
        let mut root = Node::new(&[], None);
        root.put_child(child);
        root
    }

    /// Bytes that the node has asked the allocator for, without its children.
    fn own_bytes(&self) -> usize {
        COUNT_BYTES
            + size_of::<Node>()
            + self.label.len()
            + self.children.capacity() * size_of::<Child>()
            + self.hash.as_deref().map_or(0, hash_bytes)
    }

    #[cfg(test)]
    pub fn own_bytes_for_tests(&self) -> usize {
        self.own_bytes()
    }

    pub fn label(&self) -> &[u8] {
        &self.label
    }

    pub fn hash(&self) -> Option<&Hash> {
        self.hash.as_deref()
    }

    /// Number of children.
    pub fn children(&self) -> usize {
        self.children.len()
    }

    pub fn paths(&self) -> usize {
        self.paths
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn totals(&self) -> Totals {
        Totals { paths: self.paths, bytes: self.bytes }
    }

    pub fn add(&mut self, difference: Totals) {
        self.paths = self.paths.wrapping_add(difference.paths);
        self.bytes = self.bytes.wrapping_add(difference.bytes);
    }

    /// Where the child with this first byte is.
    pub fn child_index(&self, first: u8) -> Option<usize> {
        self.children.binary_search_by_key(&first, |child| child.first).ok()
    }

    /// How many children have a lower first byte.
    pub fn children_below(&self, first: u8) -> usize {
        self.children.partition_point(|child| child.first < first)
    }

    pub fn child_at(&self, at: usize) -> Option<&Node> {
        self.children.get(at).map(|child| &*child.node)
    }

    pub fn child(&self, first: u8) -> Option<&Node> {
        self.child_index(first).and_then(|at| self.child_at(at))
    }

    /// The node at the end of a route from `root`, which is one of the tree's.
    pub fn look<'a>(root: &'a Arc<Node>, route: &[usize]) -> &'a Node {
        route.iter().fold(&**root, |node, at| &node.children[*at].node)
    }

    /// The same for changes; nodes on the way that are shared are copied. Each of them, and the one at the
    /// end, is shown to `visit`.
    pub fn follow<'a>(
        root: &'a mut Arc<Node>,
        route: &[usize],
        mut visit: impl FnMut(&mut Node),
    ) -> &'a mut Node {
        let mut node = Arc::make_mut(root);
        visit(node);
        for at in route {
            node = Arc::make_mut(&mut node.children[*at].node);
            visit(node);
        }
        node
    }

    /// Does `change` and brings the totals up to date with what it does to the node itself.
    fn altered<R>(&mut self, change: impl FnOnce(&mut Node) -> R) -> R {
        let (bytes, paths) = (self.own_bytes(), usize::from(self.hash.is_some()));
        let outcome = change(self);
        self.bytes = self.bytes + self.own_bytes() - bytes;
        self.paths = self.paths + usize::from(self.hash.is_some()) - paths;
        outcome
    }

    /// Puts a node below this one, which has no child with that first byte.
    fn put_child(&mut self, node: Arc<Node>) {
        let Some(&first) = node.label.first() else { return };
        let totals = node.totals();
        self.altered(|parent| {
            let at = parent.children_below(first);
            // Most nodes have one child or two.
            if parent.children.len() == parent.children.capacity() {
                parent.children.reserve_exact(1 + parent.children.len() / 2);
            }
            parent.children.insert(at, Child { first, node });
        });
        self.add(totals);
    }

    /// Takes out the child at an index that is one.
    pub fn take_child(&mut self, at: usize) -> Arc<Node> {
        let child = self.altered(|parent| {
            let child = parent.children.remove(at);
            if parent.children.capacity() > 4 * parent.children.len() {
                parent.children.shrink_to_fit();
            }
            child.node
        });
        self.add(Totals { paths: 0, bytes: 0 }.minus(child.totals()));
        child
    }

    pub fn take_hash(&mut self) -> Option<Hash> {
        let hash = self.altered(|node| node.hash.take())?;
        Some(Arc::try_unwrap(hash).unwrap_or_else(|shared| Hash::clone(&shared)))
    }

    /// Takes the place of the only child, whose label continues this one's.
    pub fn join_only_child(&mut self) {
        let mut child = self.take_child(0);
        let child = Arc::make_mut(&mut child);
        let before = child.own_bytes();
        let below =
            Totals { paths: child.paths - usize::from(child.hash.is_some()), bytes: child.bytes - before };
        self.altered(|node| {
            node.label = [&*node.label, &*child.label].concat().into();
            node.hash = child.hash.take();
            node.children = std::mem::take(&mut child.children);
        });
        self.add(below);
    }

    /// Changes the hash at the end of `rest` below this node: a new one where there is none. No child's label
    /// begins `rest`.
    pub fn change_behind<R>(&mut self, rest: &[u8], change: impl FnOnce(&mut Hash) -> R) -> R {
        let Some(&first) = rest.first() else {
            return self.altered(|node| change(Arc::make_mut(node.hash.get_or_insert_with(new_hash))));
        };
        let mut hash = Hash::new();
        let outcome = change(&mut hash);
        let hash = Some(Arc::new(hash));
        let Some(at) = self.child_index(first) else {
            self.put_child(Arc::new(Node::new(rest, hash)));
            return outcome;
        };
        // The child's label and the rest part within it.
        let mut child = self.take_child(at);
        let common = child.label.iter().zip(rest).take_while(|(one, other)| one == other).count();
        let (shared, behind) = rest.split_at(common);
        let (of_middle, of_leaf) = if behind.is_empty() { (hash, None) } else { (None, hash) };
        let mut middle = Node::new(shared, of_middle);
        Arc::make_mut(&mut child).altered(|child| child.label = child.label[common..].into());
        middle.put_child(child);
        if of_leaf.is_some() {
            middle.put_child(Arc::new(Node::new(behind, of_leaf)));
        }
        self.put_child(Arc::new(middle));
        outcome
    }
}

impl Clone for Node {
    /// The copy takes the same bytes, which the totals above it count.
    fn clone(&self) -> Node {
        let mut children = Vec::with_capacity(self.children.capacity());
        children.extend_from_slice(&self.children);
        let Node { label, hash, paths, bytes, .. } = self;
        Node { label: label.clone(), hash: hash.clone(), children, paths: *paths, bytes: *bytes }
    }
}

fn new_hash() -> Arc<Hash> {
    Arc::new(Hash::new())
}

impl Drop for Node {
    /// A subtree can be as deep as a path is long, which a drop of one node by another would not stand.
    fn drop(&mut self) {
        let mut dropped = std::mem::take(&mut self.children);
        while let Some(child) = dropped.pop() {
            if let Ok(mut node) = Arc::try_unwrap(child.node) {
                dropped.append(&mut node.children);
            }
        }
    }
}
