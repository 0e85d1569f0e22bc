//! The entries of a stream: nodes in order of ids, and facts about deleted entries.

use std::fmt;

use triomphe::Arc;

use super::node::{Entries, Entry, Fate, Node};
use crate::element::Element;
use crate::ordered::{self, OrderedMap};
use crate::stream::Id;

/// When a node is full.
#[derive(Copy, Clone, Debug)]
pub struct StreamLimits {
    /// Bytes, as a listpack; 0 is no limit (`stream-node-max-bytes`).
    pub node_max_bytes: usize,
    /// Entries, those that were removed included; 0 is no limit (`stream-node-max-entries`).
    pub node_max_entries: u64,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits { node_max_bytes: 4096, node_max_entries: 100 }
    }
}

/// Most bytes of a node and of an entry. Redis: `STREAM_LISTPACK_MAX_SIZE`.
pub const NODE_BYTES_MAX: usize = 1 << 30;

/// Which entries are kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Trim {
    /// This number.
    MaxLen(u64),
    /// Those from this id on.
    MinId(Id),
}

/// See the [module docs](self).
#[derive(Clone, Default)]
pub struct Log {
    nodes: OrderedMap<Id, Arc<Node>>,
    len: u64,
    last_id: Id,
    max_deleted_id: Id,
    entries_added: u64,
    /// The nodes' allocated bytes.
    node_bytes: usize,
}

impl Log {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The highest id that there has been, or that was set; no entry may be added at or before it.
    #[inline]
    pub fn last_id(&self) -> Id {
        self.last_id
    }

    /// Sets the last id; the caller has seen that no entry has a higher one.
    pub fn set_last_id(&mut self, id: Id) {
        self.last_id = id;
    }

    /// The first entry's id; 0-0 without one.
    pub fn first_id(&self) -> Id {
        let first = self.nodes.first().and_then(|(_, node)| node.entries().next());
        first.map_or(Id::MIN, |entry| entry.id)
    }

    /// The last entry.
    pub fn last_entry(&self) -> Option<Entry<'_>> {
        self.nodes.last().and_then(|(_, node)| node.entries().last())
    }

    /// The highest id of an entry that was deleted by its id.
    pub fn max_deleted_id(&self) -> Id {
        self.max_deleted_id
    }

    /// Sets [`Log::max_deleted_id`].
    pub fn set_max_deleted_id(&mut self, id: Id) {
        self.max_deleted_id = id;
    }

    /// Number of entries that were ever added.
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// Sets [`Log::entries_added`].
    pub fn set_entries_added(&mut self, count: u64) {
        self.entries_added = count;
    }

    /// About the bytes allocated.
    pub fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.node_bytes
    }

    #[cfg(test)]
    pub(super) fn node_map_bytes(&self) -> usize {
        self.nodes.heap_bytes()
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Adds an entry, whose id is above the last one. `fields` is not empty, and of at most
    /// [`NODE_BYTES_MAX`] bytes.
    pub fn append<'a, F>(&mut self, id: Id, fields: F, limits: StreamLimits)
    where
        F: ExactSizeIterator<Item = (Element<'a>, Element<'a>)> + Clone,
    {
        debug_assert!(id > self.last_id);
        let bytes = fields.clone().map(|(name, value)| name.byte_len() + value.byte_len()).sum();
        if self.nodes.last().is_none_or(|(_, node)| is_full(node, bytes, limits)) {
            self.start_node(id, fields.clone().map(|(name, _)| name));
        }
        self.push(id, fields);
        self.last_id = id;
        self.entries_added += 1;
    }

    /// Begins a node with these names, into which [`Log::push`] puts entries.
    pub fn start_node<'a>(&mut self, master: Id, names: impl ExactSizeIterator<Item = Element<'a>>) {
        self.change_last(Node::shrink);
        let node = Node::new(master, names);
        self.node_bytes += node.heap_bytes();
        self.nodes.insert(master, Arc::new(node));
    }

    /// Puts an entry into the last node, which exists. The caller keeps ids ascending, and the stream's facts
    /// in step.
    pub fn push<'a, F>(&mut self, id: Id, fields: F)
    where
        F: ExactSizeIterator<Item = (Element<'a>, Element<'a>)> + Clone,
    {
        self.change_last(|node| node.push(id, fields));
        self.len += 1;
    }

    /// Sets the number of removed entries of the last node.
    pub fn set_deleted(&mut self, count: u32) {
        self.change_last(|node| node.deleted = count);
    }

    fn change_last(&mut self, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.last_mut() {
            change_node(node, &mut self.node_bytes, change);
        }
    }

    /// Whether there is an entry with this id.
    pub fn contains(&self, id: Id) -> bool {
        self.nodes.at_or_before(&id).is_some_and(|(_, node)| node.contains(id))
    }

    /// Deletes an entry; whether there was one.
    pub fn delete(&mut self, id: Id) -> bool {
        let Some((&master, node)) = self.nodes.at_or_before(&id) else { return false };
        if !node.contains(id) {
            return false;
        }
        if node.count == 1 {
            self.remove_node(master);
        } else if let Some(node) = self.nodes.get_mut(&master) {
            change_node(node, &mut self.node_bytes, |node| node.remove(id));
            self.len -= 1;
        }
        self.max_deleted_id = self.max_deleted_id.max(id);
        true
    }

    /// Takes out a node with all of its entries.
    fn remove_node(&mut self, master: Id) {
        if let Some(node) = self.nodes.remove(&master) {
            self.node_bytes -= node.heap_bytes();
            self.len -= u64::from(node.count);
        }
    }

    /// Removes the first entries; how many. If `approximate`, only whole nodes go; no node goes with which
    /// more than `limit` entries would, if that is not 0.
    pub fn trim(&mut self, trim: Trim, approximate: bool, limit: u64) -> u64 {
        let before = self.len;
        while let Some((&master, node)) = self.nodes.first() {
            let (count, last) = (u64::from(node.count), node.last);
            let gone = before - self.len;
            if matches!(trim, Trim::MaxLen(max) if self.len <= max) || (limit > 0 && gone + count > limit) {
                break;
            }
            let is_whole = match trim {
                Trim::MaxLen(max) => self.len - count >= max,
                Trim::MinId(min) => last < min,
            };
            if is_whole {
                self.remove_node(master);
                continue;
            }
            if !approximate {
                self.trim_node(master, trim);
            }
            break;
        }
        before - self.len
    }

    /// Removes the first entries of the first node.
    fn trim_node(&mut self, master: Id, trim: Trim) {
        let surplus = match trim {
            Trim::MaxLen(max) => self.len - max,
            Trim::MinId(_) => 0,
        };
        let min = if let Trim::MinId(min) = trim { min } else { Id::MIN };
        if matches!(trim, Trim::MinId(min) if self.first_id() >= min) {
            // Nothing is copied where nothing changes.
            return;
        }
        if let Some(node) = self.nodes.get_mut(&master) {
            let fate = |removed, id| {
                let is_meant = u64::from(removed) < surplus || id < min;
                if is_meant { Fate::Removed } else { Fate::KeptWithAllAfter }
            };
            let removed = change_node(node, &mut self.node_bytes, |node| node.remove_where(fate));
            self.len -= u64::from(removed);
            if node.count == 0 {
                self.remove_node(master);
            }
        }
    }

    /// Removes those of the first entries that may go, which `may_go` is asked about; how many, and the
    /// lowest id that none of the entries looked at has. Goes through all nodes that [`Log::trim`] would
    /// remove as a whole, and through the entries of the next one.
    pub(super) fn trim_some(
        &mut self,
        trim: Trim,
        limit: u64,
        mut may_go: impl FnMut(Id) -> bool,
    ) -> (u64, Id) {
        let (before, mut from, mut looked_at) = (self.len, Id::MIN, None);
        while let Some((&master, node)) = self.nodes.iter_from(&from).next() {
            let (count, last) = (u64::from(node.count), node.last);
            let gone = before - self.len;
            if limit > 0 && gone + count > limit {
                break;
            }
            let (surplus, is_whole) = match trim {
                Trim::MaxLen(max) if self.len <= max => break,
                Trim::MaxLen(max) => (self.len - max, self.len - count >= max),
                Trim::MinId(min) => (u64::MAX, last < min),
            };
            let mut fate = |removed, id| {
                if u64::from(removed) >= surplus || matches!(trim, Trim::MinId(min) if id >= min) {
                    return Fate::KeptWithAllAfter;
                }
                looked_at = Some(id);
                if may_go(id) { Fate::Removed } else { Fate::Kept }
            };
            // Nothing is copied where nothing changes.
            let mut fates = node.entries().map(|entry| fate(0, entry.id));
            let is_meant = matches!(fates.find(|fate| !matches!(fate, Fate::Kept)), Some(Fate::Removed));
            drop(fates);
            if let Some(node) = self.nodes.get_mut(&master).filter(|_| is_meant) {
                let removed = change_node(node, &mut self.node_bytes, |node| node.remove_where(fate));
                self.len -= u64::from(removed);
                if node.count == 0 {
                    self.remove_node(master);
                }
            }
            match master.next().filter(|_| is_whole) {
                Some(next) => from = next,
                None => break,
            }
        }
        (before - self.len, looked_at.map_or(Id::MIN, |id| id.next().unwrap_or(Id::MAX)))
    }

    /// The entries from `start` to `end`, both included.
    pub fn range(&self, start: Id, end: Id) -> Range<'_> {
        let from = self.nodes.at_or_before(&start).map_or(start, |(master, _)| *master);
        let mut nodes = self.nodes.iter_from(&from);
        let entries = nodes.next().map(|(_, node)| node.entries());
        Range { nodes, entries, start, end }
    }

    /// The entries from `end` down to `start`, both included.
    pub fn range_back(&self, start: Id, end: Id) -> RangeBack<'_> {
        RangeBack { nodes: self.nodes.iter_back_from(&end), node: None, places: Vec::new(), start, end }
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.nodes.iter().map(|(_, node)| NodeView(node))
    }

    /// How many entries have been added up to `id`, itself included, where that is known.
    pub fn entries_up_to(&self, id: Id) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id != Id::MIN && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            // What will have been added up to a future id is unknown.
            return (id == self.last_id).then_some(self.entries_added);
        }
        let first = self.first_id();
        if self.max_deleted_id != Id::MIN && self.max_deleted_id >= first {
            return None;
        }
        let before_first = self.entries_added.saturating_sub(self.len);
        match id.cmp(&first) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Whether all entries that were added from this id on are there: none has been trimmed, and none deleted
    /// by its id.
    pub fn is_whole_from(&self, start: Id) -> bool {
        self.is_empty() || (start > self.max_deleted_id && start >= self.first_id())
    }
}

/// Changes a node, after it was copied if it is shared; `bytes` is what all nodes have allocated.
fn change_node<R>(node: &mut Arc<Node>, bytes: &mut usize, change: impl FnOnce(&mut Node) -> R) -> R {
    *bytes -= node.heap_bytes();
    let node = Arc::make_mut(node);
    let result = change(node);
    *bytes += node.heap_bytes();
    result
}

/// Whether an entry of this many bytes begins another node.
fn is_full(node: &Node, bytes: usize, limits: StreamLimits) -> bool {
    let max_bytes = match limits.node_max_bytes {
        0 => NODE_BYTES_MAX,
        max => max.min(NODE_BYTES_MAX),
    };
    let ever = u64::from(node.count) + u64::from(node.deleted);
    node.listpack_bytes() + bytes >= max_bytes
        || (limits.node_max_entries > 0 && ever >= limits.node_max_entries)
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.range(Id::MIN, Id::MAX).map(|entry| (entry.id, entry.fields.collect::<Vec<_>>()));
        f.debug_map().entries(entries).finish()
    }
}

/// A node, to be written as a listpack.
pub struct NodeView<'a>(&'a Node);

impl<'a> NodeView<'a> {
    /// The id that entries' ids are relative to.
    pub fn master(&self) -> Id {
        self.0.master
    }

    /// Number of entries.
    pub fn count(&self) -> u32 {
        self.0.count
    }

    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    /// The names that most entries have.
    pub fn names(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        self.0.master_names()
    }

    /// How many those are.
    pub fn name_count(&self) -> usize {
        self.0.master_name_count()
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.0.entries()
    }
}

/// Entries in order.
pub struct Range<'a> {
    nodes: ordered::Iter<'a, Id, Arc<Node>>,
    entries: Option<Entries<'a>>,
    start: Id,
    end: Id,
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            match self.entries.as_mut()?.next() {
                Some(entry) if entry.id < self.start => {}
                Some(entry) => return (entry.id <= self.end).then_some(entry),
                None => self.entries = self.nodes.next().map(|(_, node)| node.entries()),
            }
        }
    }
}

/// Entries from the last on.
pub struct RangeBack<'a> {
    nodes: ordered::IterBack<'a, Id, Arc<Node>>,
    node: Option<&'a Node>,
    /// Where the entries of the node are that are left.
    places: Vec<usize>,
    start: Id,
    end: Id,
}

impl<'a> RangeBack<'a> {
    /// Proceeds to the node before.
    fn enter_node(&mut self) -> Option<()> {
        let (_, node) = self.nodes.next()?;
        let mut entries = node.entries();
        loop {
            let at = entries.at;
            match entries.next() {
                Some(entry) if entry.id <= self.end => self.places.push(at),
                _ => break,
            }
        }
        self.node = Some(node);
        Some(())
    }
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        while self.places.is_empty() {
            self.enter_node()?;
        }
        let entry = self.node?.entry_at(self.places.pop()?)?;
        (entry.id >= self.start).then_some(entry)
    }
}
