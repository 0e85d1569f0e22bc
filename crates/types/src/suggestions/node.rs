//! The nodes of [`Suggestions`](super::Suggestions).
//!
//! Invariant: `best` is the highest score of the node's subtree, minus infinity without any, and `shortest`
//! the number of characters to its nearest entry; children are in order of their first characters, each of
//! which occurs once.

use std::num::NonZeroU32;

use triomphe::{Arc, ThinArc};

use super::Suggestion;
use super::character::{Characters, common_len};

/// A text's score and payload, in 16 bytes also where there is none.
#[derive(Clone)]
pub(super) struct Entry {
    /// The score's bits with those of [`NAN_BITS`] flipped: no score is NaN, so they are not zero.
    score: NonZeroU32,
    payload: Option<ThinArc<(), u8>>,
}

/// The bits of a NaN.
const NAN_BITS: u32 = 0x7fc0_0000;

impl Entry {
    /// An entry; `None` if the score is NaN.
    pub fn new(score: f32, payload: &[u8]) -> Option<Entry> {
        let bits = Some(score).filter(|score| !score.is_nan())?.to_bits() ^ NAN_BITS;
        let payload = (!payload.is_empty()).then(|| ThinArc::from_header_and_slice((), payload));
        Some(Entry { score: NonZeroU32::new(bits)?, payload })
    }

    #[inline]
    pub fn score(&self) -> f32 {
        f32::from_bits(self.score.get() ^ NAN_BITS)
    }

    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_ref().map(|payload| &payload.slice)
    }

    pub fn with_text<'a>(&'a self, text: &'a [u8]) -> Suggestion<'a> {
        Suggestion { text, score: self.score(), payload: self.payload() }
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
    /// Characters behind the label to the nearest entry; [`u16::MAX`] without any.
    shortest: u16,
}

// Most nodes are leaves: with the reference count each takes 72 bytes, and its label.
const _: () = assert!(size_of::<Option<Entry>>() == 16 && size_of::<Node>() == 64);

/// What a search reads of a subtree before it enters it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// Its highest score.
    pub best: f32,
    /// Characters to its nearest entry, from where the subtree is looked at.
    pub shortest: u16,
}

impl Outlook {
    const NOTHING: Outlook = Outlook { best: f32::NEG_INFINITY, shortest: u16::MAX };

    fn of(entry: Option<&Entry>) -> Outlook {
        entry.map_or(Outlook::NOTHING, |entry| Outlook { best: entry.score(), shortest: 0 })
    }

    fn or(self, other: Outlook) -> Outlook {
        Outlook { best: self.best.max(other.best), shortest: self.shortest.min(other.shortest) }
    }
}

/// Bytes of a reference count.
const COUNT_BYTES: usize = size_of::<usize>();

/// Allocated bytes of a payload.
fn payload_bytes(payload: &[u8]) -> usize {
    // Behind the count, the length.
    (2 * COUNT_BYTES + payload.len()).next_multiple_of(COUNT_BYTES)
}

impl Node {
    pub fn new(label: &[u8], entry: Option<Entry>) -> Node {
        let Outlook { best, shortest } = Outlook::of(entry.as_ref());
        Node { label: label.into(), entry, children: Vec::new(), best, shortest }
    }

    /// Bytes that the node has asked the allocator for, without its children.
    pub fn own_bytes(&self) -> usize {
        let payload = self.entry.as_ref().and_then(Entry::payload);
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

    /// The subtree from the node's end.
    pub fn outlook(&self) -> Outlook {
        Outlook { best: self.best, shortest: self.shortest }
    }

    /// The subtree from the parent's end.
    fn outlook_from_above(&self) -> Outlook {
        let label = Characters(&self.label).count() as u16;
        Outlook { shortest: self.shortest.saturating_add(label), ..self.outlook() }
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

    /// Brings the outlook up to date with a change of an entry or a child.
    fn refresh(&mut self, before: Outlook, after: Outlook) {
        let known = self.outlook();
        let is_settled = (after.best >= known.best || before.best < known.best)
            && (after.shortest <= known.shortest || before.shortest > known.shortest);
        let outlook = if is_settled {
            known.or(after)
        } else {
            let own = Outlook::of(self.entry.as_ref());
            self.children.iter().fold(own, |all, child| all.or(child.node.outlook_from_above()))
        };
        (self.best, self.shortest) = (outlook.best, outlook.shortest);
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
                let after = leaf.outlook_from_above();
                self.put_child(at, Child { first, node: Arc::new(leaf) }, bytes);
                self.refresh(Outlook::NOTHING, after);
                return true;
            }
        };
        let node = Arc::make_mut(&mut self.children[at].node);
        let before = node.outlook_from_above();
        let common = common_len(&node.label, rest);
        if common < node.label.len() {
            node.split(common, bytes);
        }
        let is_new = node.put(rest.get(common..).unwrap_or(&[]), entry, bytes);
        let after = node.outlook_from_above();
        self.refresh(before, after);
        is_new
    }

    fn put_here(&mut self, mut entry: Entry, bytes: &mut usize) -> bool {
        let after = Outlook::of(Some(&entry));
        let known = self.altered(bytes, |node| {
            let known = node.entry.take();
            if entry.payload.is_none() {
                entry.payload = known.as_ref().and_then(|known| known.payload.clone());
            }
            node.entry = Some(entry);
            known
        });
        self.refresh(Outlook::of(known.as_ref()), after);
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
            (lower.best, lower.shortest) = (node.best, node.shortest);
            lower.entry = node.entry.take();
            lower.children = std::mem::take(&mut node.children);
            node.label = above;
        });
        *bytes += lower.own_bytes();
        self.shortest = lower.outlook_from_above().shortest;
        self.put_child(0, Child { first, node: Arc::new(lower) }, bytes);
    }

    /// Takes out the entry at the end of `rest`, which is there, and the nodes that nothing needs then.
    pub fn remove(&mut self, rest: &[u8], bytes: &mut usize) {
        let Some(first) = Characters(rest).next() else {
            let known = self.altered(bytes, |node| node.entry.take());
            return self.refresh(Outlook::of(known.as_ref()), Outlook::NOTHING);
        };
        let Ok(at) = self.child_index(first) else { return };
        let node = Arc::make_mut(&mut self.children[at].node);
        let before = node.outlook_from_above();
        node.remove(rest.get(node.label.len()..).unwrap_or(&[]), bytes);
        let after = node.outlook_from_above();
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
        self.refresh(before, after);
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
            node.shortest = child.shortest;
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
        let Node { label, entry, best, shortest, .. } = self;
        Node { label: label.clone(), entry: entry.clone(), children, best: *best, shortest: *shortest }
    }
}
