//! `PathHash`: binary-safe paths in a radix tree, each with a hash of fields and values, as Valkey 9.2 has
//! it.
//!
//! ```text
//! root ─"a"─▶ hash of "a" ─"bc"─▶ hash of "abc" ─"x"─▶ …
//!                          └"bd"─▶ …
//! ```
//!
//! A node has the bytes that lead to it, the hash of the path that ends there, and its children in order of
//! their first bytes. Nodes and hashes are shared by reference count: a clone raises one count, and a write
//! copies the nodes on its path.
//!
//! Invariant: no node but the root is without bytes; one without a hash has at least two children, unless it
//! is the root; no hash is empty, and none has fields that expire. Each node knows the number of paths in its
//! subtree and their bytes. A path hash may be without paths: it stays then, as a stream does.
//!
//! Paths can be as deep as they are long, so nothing here recurses, not even the drop of a node.

mod node;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;

use triomphe::Arc;

use crate::hash::Hash;
use node::Node;
pub use walk::Paths;

/// See the [module docs](self).
#[derive(Clone)]
pub struct PathHash {
    root: Arc<Node>,
}

/// The place of a path in the tree.
struct Place {
    /// Indexes of children, from the root to the last node that the path passes or ends at.
    route: Vec<usize>,
    /// How many bytes of the path lead to that node.
    matched: usize,
}

impl PathHash {
    /// A path hash without paths.
    pub fn new() -> PathHash {
        PathHash { root: Arc::new(Node::new(&[], None)) }
    }

    /// Number of paths.
    #[inline]
    pub fn len(&self) -> usize {
        self.root.paths()
    }

    /// Whether there is no path.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        "pathhash"
    }

    /// Bytes that were asked of the allocator, about.
    pub fn heap_bytes(&self) -> usize {
        self.root.bytes()
    }

    /// How many allocations freeing it takes, roughly.
    pub fn free_effort(&self) -> usize {
        /// Of a field with its value in a hash table.
        const FIELD_BYTES: usize = 64;
        self.len() + self.heap_bytes() / FIELD_BYTES
    }

    /// The hash of exactly this path.
    pub fn get(&self, path: &[u8]) -> Option<&Hash> {
        let (mut node, mut rest) = (&*self.root, path);
        while !rest.is_empty() {
            let child = node.child(*rest.first()?)?;
            rest = rest.strip_prefix(child.label())?;
            node = child;
        }
        node.hash()
    }

    /// Hands out each path that `query` begins with, the shortest first, as its length and its hash, until
    /// `found` returns false.
    pub fn each_prefix<'a>(&'a self, query: &[u8], mut found: impl FnMut(usize, &'a Hash) -> bool) {
        let (mut node, mut rest) = (&*self.root, query);
        loop {
            if let Some(hash) = node.hash()
                && !found(query.len() - rest.len(), hash)
            {
                return;
            }
            let child = rest.first().and_then(|first| node.child(*first));
            let Some((child, behind)) =
                child.and_then(|child| rest.strip_prefix(child.label()).map(|behind| (child, behind)))
            else {
                return;
            };
            (node, rest) = (child, behind);
        }
    }

    /// The longest path that `query` begins with, as its length and its hash.
    pub fn longest_prefix(&self, query: &[u8]) -> Option<(usize, &Hash)> {
        let mut longest = None;
        self.each_prefix(query, |len, hash| {
            longest = Some((len, hash));
            true
        });
        longest
    }

    /// All paths, in order of their bytes.
    pub fn paths(&self) -> Paths<'_> {
        Paths::from(&self.root, &[])
    }

    /// The paths from this one on.
    pub fn paths_from(&self, path: &[u8]) -> Paths<'_> {
        Paths::from(&self.root, path)
    }

    /// The paths behind this one.
    pub fn paths_after(&self, path: &[u8]) -> Paths<'_> {
        Paths::after(&self.root, path)
    }

    /// Changes the hash of a path, which is an empty one if the path is not there. `change` leaves at least
    /// one field in it.
    pub fn create<R>(&mut self, path: &[u8], change: impl FnOnce(&mut Hash) -> R) -> R {
        let place = self.place(path);
        let rest = path.get(place.matched..).unwrap_or(&[]);
        self.at(&place.route, |node| node.change_behind(rest, change))
    }

    /// Changes the hash of a path that is there; the path goes with its last field.
    pub fn change<R>(&mut self, path: &[u8], change: impl FnOnce(&mut Hash) -> R) -> Option<R> {
        self.get(path)?;
        let place = self.place(path);
        let (outcome, is_empty) = self.at(&place.route, |node| {
            let outcome = node.change_behind(&[], change);
            (outcome, node.hash().is_none_or(Hash::is_empty))
        });
        if is_empty {
            self.take(&place.route);
        }
        Some(outcome)
    }

    /// Takes a path out.
    pub fn remove(&mut self, path: &[u8]) -> Option<Hash> {
        self.get(path)?;
        let place = self.place(path);
        self.take(&place.route)
    }

    /// Takes out all paths that begin with `prefix`, in a time that does not depend on how many there are.
    pub fn remove_prefix(&mut self, prefix: &[u8]) -> PathHash {
        let (mut node, mut route, mut rest) = (&*self.root, Vec::new(), prefix);
        while let Some(first) = rest.first() {
            let Some(at) = node.child_index(*first) else { return PathHash::new() };
            let Some(child) = node.child_at(at) else { return PathHash::new() };
            let label = child.label();
            rest = match rest.strip_prefix(label) {
                Some(rest) => rest,
                None if label.starts_with(rest) => &[],
                None => return PathHash::new(),
            };
            route.push(at);
            node = child;
        }
        let Some(last) = route.pop() else { return std::mem::take(self) };
        let subtree = self.at(&route, |parent| parent.take_child(last));
        self.join(&mut route);
        // The bytes to it do not matter: a root has none.
        PathHash { root: Arc::new(Node::above(subtree)) }
    }

    /// How far the tree has this path.
    fn place(&self, path: &[u8]) -> Place {
        let (mut node, mut route, mut rest) = (&*self.root, Vec::new(), path);
        while let Some(at) = rest.first().and_then(|first| node.child_index(*first))
            && let Some(child) = node.child_at(at)
            && let Some(behind) = rest.strip_prefix(child.label())
        {
            route.push(at);
            (node, rest) = (child, behind);
        }
        Place { route, matched: path.len() - rest.len() }
    }

    /// Changes the node at the end of a route, and the totals of those above it.
    fn at<R>(&mut self, route: &[usize], change: impl FnOnce(&mut Node) -> R) -> R {
        let node = Node::follow(&mut self.root, route, |_| {});
        let before = node.totals();
        let outcome = change(node);
        let difference = node.totals().minus(before);
        if let [above @ .., _] = route {
            Node::follow(&mut self.root, above, |node| node.add(difference));
        }
        outcome
    }

    /// Takes the hash out of a node, and the node out of the tree if nothing needs it.
    fn take(&mut self, route: &[usize]) -> Option<Hash> {
        let mut route = route.to_vec();
        let hash = self.at(&route, Node::take_hash);
        self.join(&mut route);
        hash
    }

    /// Restores the invariant at the end of a route: a node without a hash goes if it has no child, and is
    /// joined with its child if it has one.
    fn join(&mut self, route: &mut Vec<usize>) {
        loop {
            let Some(&last) = route.last() else { return };
            let node = Node::look(&self.root, route);
            match (node.hash().is_some(), node.children()) {
                (true, _) => return,
                (false, 0) => {
                    route.pop();
                    self.at(route, |parent| drop(parent.take_child(last)));
                }
                (false, 1) => return self.at(route, Node::join_only_child),
                (false, _) => return,
            }
        }
    }
}

impl Default for PathHash {
    fn default() -> PathHash {
        PathHash::new()
    }
}

impl fmt::Debug for PathHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathHash of {} paths", self.len())
    }
}
