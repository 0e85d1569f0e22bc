//! The nodes of [`Suggestions`](super::Suggestions).
//!
//! Invariant: `best` is the highest score of the node's subtree, minus infinity without any; children are in
//! order of their first characters, each of which occurs once.

use triomphe::Arc;

use super::Suggestion;
use super::character::{Characters, common_len};

/// A text's score and payload.
#[derive(Clone)]
pub(super) struct Entry {
    pub score: f32,
    pub payload: Option<Arc<[u8]>>,
}

impl Entry {
    pub fn with_text<'a>(&'a self, text: &'a [u8]) -> Suggestion<'a> {
        Suggestion { text, score: self.score, payload: self.payload.as_deref() }
    }
}

/// A child with the first character of its label, so that a search reads one node for each step.
#[derive(Clone)]
struct Child {
    first: u32,
    node: Arc<Node>,
}

/// See [`Suggestions`](super::Suggestions).
pub(super) struct Node {
    /// The characters that lead here from the parent.
    label: Box<[u8]>,
    entry: Option<Entry>,
    children: Vec<Child>,
    best: f32,
}

/// Bytes of a reference count.
const COUNT_BYTES: usize = size_of::<usize>();

/// Allocated bytes of a payload.
fn payload_bytes(payload: &[u8]) -> usize {
    (COUNT_BYTES + payload.len()).next_multiple_of(COUNT_BYTES)
}

impl Node {
    pub fn new(label: &[u8], entry: Option<Entry>) -> Node {
        let best = entry.as_ref().map_or(f32::NEG_INFINITY, |entry| entry.score);
        Node { label: label.into(), entry, children: Vec::new(), best }
    }

    /// Bytes that the node has asked the allocator for, without its children.
    pub fn own_bytes(&self) -> usize {
        let payload = self.entry.as_ref().and_then(|entry| entry.payload.as_deref());
        COUNT_BYTES
            + size_of::<Node>()
            + self.label.len()
            + self.children.capacity() * size_of::<Child>()
            + payload.map_or(0, payload_bytes)
    }

    pub fn label(&self) -> &[u8] {
        &self.label
    }

    pub fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    pub fn best(&self) -> f32 {
        self.best
    }

    pub fn children(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.children.iter().map(|child| &*child.node)
    }

    pub fn child(&self, first: u32) -> Option<&Node> {
        let at = self.child_index(first).ok()?;
        self.children.get(at).map(|child| &*child.node)
    }

    fn child_index(&self, first: u32) -> Result<usize, usize> {
        self.children.binary_search_by_key(&first, |child| child.first)
    }

    /// Does `change` to the node itself and brings `bytes` up to date with it.
    fn altered<R>(&mut self, bytes: &mut usize, change: impl FnOnce(&mut Node) -> R) -> R {
        let before = self.own_bytes();
        let outcome = change(self);
        *bytes = *bytes + self.own_bytes() - before;
        outcome
    }

    /// Brings the highest score up to date with a part of the subtree whose highest score has changed.
    fn refresh_best(&mut self, before: f32, after: f32) {
        if after >= self.best {
            self.best = after;
        } else if before == self.best {
            let own = self.entry.as_ref().map_or(f32::NEG_INFINITY, |entry| entry.score);
            self.best = self.children.iter().fold(own, |best, child| best.max(child.node.best));
        }
    }

    /// Puts an entry at the end of `rest` below this node; whether there was none. An entry without a payload
    /// leaves that of the one before it.
    pub fn put(&mut self, rest: &[u8], entry: Entry, bytes: &mut usize) -> bool {
        let Some(first) = Characters(rest).next() else {
            return self.put_here(entry, bytes);
        };
        let at = match self.child_index(first) {
            Ok(at) => at,
            Err(at) => {
                let leaf = Node::new(rest, Some(entry));
                *bytes += leaf.own_bytes();
                let after = leaf.best;
                self.put_child(at, Child { first, node: Arc::new(leaf) }, bytes);
                self.refresh_best(f32::NEG_INFINITY, after);
                return true;
            }
        };
        let node = Arc::make_mut(&mut self.children[at].node);
        let before = node.best;
        let common = common_len(&node.label, rest);
        if common < node.label.len() {
            node.split(common, bytes);
        }
        let is_new = node.put(rest.get(common..).unwrap_or(&[]), entry, bytes);
        let after = node.best;
        self.refresh_best(before, after);
        is_new
    }

    fn put_here(&mut self, mut entry: Entry, bytes: &mut usize) -> bool {
        let after = entry.score;
        let known = self.altered(bytes, |node| {
            let known = node.entry.take();
            if entry.payload.is_none() {
                entry.payload = known.as_ref().and_then(|known| known.payload.clone());
            }
            node.entry = Some(entry);
            known
        });
        self.refresh_best(known.as_ref().map_or(f32::NEG_INFINITY, |known| known.score), after);
        known.is_none()
    }

    fn put_child(&mut self, at: usize, child: Child, bytes: &mut usize) {
        self.altered(bytes, |node| {
            // Most nodes have one child or two.
            if node.children.len() == node.children.capacity() {
                node.children.reserve_exact(1 + node.children.len() / 2);
            }
            node.children.insert(at, child);
        });
    }

    /// Leaves the first bytes of the label to this node, and moves all else into a child.
    fn split(&mut self, common: usize, bytes: &mut usize) {
        let (above, below) = self.label.split_at(common);
        let Some(first) = Characters(below).next() else { return };
        let (above, mut lower) = (above.into(), Node::new(below, None));
        self.altered(bytes, |node| {
            lower.best = node.best;
            lower.entry = node.entry.take();
            lower.children = std::mem::take(&mut node.children);
            node.label = above;
        });
        *bytes += lower.own_bytes();
        self.put_child(0, Child { first, node: Arc::new(lower) }, bytes);
    }

    /// Takes out the entry at the end of `rest`, which is there, and the nodes that nothing needs then.
    pub fn remove(&mut self, rest: &[u8], bytes: &mut usize) {
        let Some(first) = Characters(rest).next() else {
            let known = self.altered(bytes, |node| node.entry.take());
            if let Some(known) = known {
                self.refresh_best(known.score, f32::NEG_INFINITY);
            }
            return;
        };
        let Ok(at) = self.child_index(first) else { return };
        let node = Arc::make_mut(&mut self.children[at].node);
        let before = node.best;
        node.remove(rest.get(node.label.len()..).unwrap_or(&[]), bytes);
        let after = node.best;
        match (node.entry.is_some(), node.children.len()) {
            (true, _) => {}
            (false, 0) => {
                *bytes -= node.own_bytes();
                self.altered(bytes, |parent| {
                    parent.children.remove(at);
                    if parent.children.capacity() > 4 * parent.children.len() {
                        parent.children.shrink_to_fit();
                    }
                });
            }
            (false, 1) => node.join_only_child(bytes),
            (false, _) => {}
        }
        self.refresh_best(before, after);
    }

    /// Takes the place of the only child, whose label continues this one's.
    fn join_only_child(&mut self, bytes: &mut usize) {
        let Some(mut child) = self.children.pop() else { return };
        let child = Arc::make_mut(&mut child.node);
        *bytes -= child.own_bytes();
        self.altered(bytes, |node| {
            node.label = [&*node.label, &*child.label].concat().into();
            node.entry = child.entry.take();
            node.children = std::mem::take(&mut child.children);
        });
    }

    /// Visits the entries of the subtree; `path` leads to this node's parent, and does so again afterwards.
    pub fn each(&self, path: &mut Vec<u8>, visit: &mut impl FnMut(Suggestion<'_>)) {
        path.extend_from_slice(&self.label);
        if let Some(entry) = &self.entry {
            visit(entry.with_text(path));
        }
        for child in &self.children {
            child.node.each(path, visit);
        }
        path.truncate(path.len() - self.label.len());
    }
}

impl Clone for Node {
    /// The copy takes the same bytes, which the total counts.
    fn clone(&self) -> Node {
        let mut children = Vec::with_capacity(self.children.capacity());
        children.extend_from_slice(&self.children);
        Node { label: self.label.clone(), entry: self.entry.clone(), children, best: self.best }
    }
}
