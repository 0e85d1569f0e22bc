//! `Index`: from a member's hash to the place of its entry, copied on write, chunk by chunk.
//!
//! An entry is one word: 30 bits of hash, the leaf's id (28 bits) and the slot in it (6 bits). The member
//! itself is not here: a look-up compares it in the leaf. Of the hash, 21 bits lead through a trie of 64
//! slots a node to a chunk of up to some 200 entries, and the other 9 to the entry's home in it. A chunk that
//! is full splits in two by its next bit, so no insertion ever moves more than one chunk. In a node, a chunk
//! lies at the first slot of those that it serves, and the others are empty.
//!
//! In a chunk, entries ascend: each is at its home or as little behind as that allows. The number of homes
//! follows from the tag of the pointer to the chunk, so finding an entry reads one line of it in most cases.
//!
//! A scan follows the order of those 21 bits and then of the 9. Its cursor is all 30 of the next hash: an
//! entry that is there throughout is found, whatever splits in that time.
//!
//! Members that agree in all 30 bits stay in one chunk, however many there are, and are distinguished in
//! their leaves: each is a step more for a search. As clients cannot predict the hash, a thousand such
//! members cost 2^40 trials.
//!
//! Invariant: words of a chunk other than [`EMPTY`] ascend, none is before its home, and between an entry's
//! home and the entry no word is empty.

use super::chunk::{Chunk, EMPTY, HOME_BITS, MERGE_LEN, PATH_BITS, REF_BITS, SLOT_BITS};
use martlet_base::hash::hash_bytes;
use martlet_base::prefetch::PrefetchQueue;
use std::ops::ControlFlow;
use triomphe::Arc;

/// Bits of the hash that an entry keeps.
const KEY_BITS: u32 = HOME_BITS + PATH_BITS;

/// Leaf ids are below this.
pub(super) const ID_LIMIT: u32 = (1 << (REF_BITS - SLOT_BITS)) - 1;

const FAN: usize = 64;
const LEVEL_BITS: u32 = 6;

/// Bytes of a node and its reference count.
const NODE_BYTES: usize = size_of::<Node>() + 8;

/// Where a member's entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub leaf: u32,
    pub slot: u8,
}

impl Place {
    #[inline]
    fn bits(self) -> u64 {
        u64::from(self.leaf) << SLOT_BITS | u64::from(self.slot)
    }

    #[inline]
    fn of(word: u64) -> Place {
        Place { leaf: (word >> SLOT_BITS) as u32 & ID_LIMIT, slot: word as u8 & (FAN as u8 - 1) }
    }
}

/// The hash by which the index finds a member.
#[inline]
pub(super) fn member_hash(member: &[u8]) -> u64 {
    #[cfg(test)]
    if let Some(hash) = collisions::HASH.get() {
        return hash(member);
    }
    hash_bytes(member)
}

/// Another hash in its place, for tests of members that collide.
#[cfg(test)]
pub(super) mod collisions {
    use std::cell::Cell;

    type Hash = fn(&[u8]) -> u64;

    thread_local! {
        /// This thread's, while it has one.
        pub static HASH: Cell<Option<Hash>> = const { Cell::new(None) };
    }
}

/// The bits of a hash that the index keeps.
#[inline]
fn key_of(hash: u64) -> u64 {
    hash >> (64 - KEY_BITS)
}

/// The path's bits of a key.
#[inline]
fn path_of(key: u64) -> u64 {
    key & ((1 << PATH_BITS) - 1)
}

/// An entry's key as a scan orders it: path, then home.
fn scan_key(word: u64) -> u64 {
    let key = word >> REF_BITS;
    path_of(key) << HOME_BITS | key >> PATH_BITS
}

/// See the module's description.
#[derive(Clone)]
pub(super) struct Index {
    root: Node,
    /// Of chunks, and of nodes below the root.
    heap_bytes: usize,
}

#[derive(Clone)]
enum Node {
    Nodes([Option<Arc<Node>>; FAN]),
    Chunks([Option<Chunk>; FAN]),
}

/// The slot in a node at `level` for a path. At the last level three of the six bits are left, and zeros
/// follow.
#[inline]
fn digit(path: u64, level: u32) -> usize {
    (path << 3 >> (PATH_BITS + 3 - LEVEL_BITS * (level + 1))) as usize % FAN
}

/// The slot of the chunk that serves `slot`: at it, or before it with fewer low bits.
#[inline]
fn owner(chunks: &[Option<Chunk>; FAN], mut slot: usize) -> usize {
    while slot != 0 && chunks[slot].is_none() {
        slot &= slot - 1;
    }
    slot
}

/// Splits the chunk at `at`, which serves several slots, in two.
fn split(chunks: &mut [Option<Chunk>; FAN], at: usize, bytes: &mut usize) {
    let Some(chunk) = &chunks[at] else { return };
    *bytes -= chunk.heap_bytes();
    let half = FAN >> (chunk.depth() + 1);
    let (low, high) = chunk.split();
    *bytes += low.heap_bytes() + high.heap_bytes();
    chunks[at] = Some(low);
    chunks[at + half] = Some(high);
}

/// Joins the chunk at `at` with its other half as long as both together are small.
fn merge(chunks: &mut [Option<Chunk>; FAN], mut at: usize, bytes: &mut usize) {
    loop {
        let Some(chunk) = &chunks[at] else { return };
        if chunk.depth() == 0 {
            return;
        }
        let half = FAN >> chunk.depth();
        let (low, high) = (at & !half, at | half);
        let (Some(first), Some(second)) = (&chunks[low], &chunks[high]) else { return };
        if first.depth() != second.depth() || first.len() + second.len() >= MERGE_LEN {
            return;
        }
        *bytes -= first.heap_bytes() + second.heap_bytes();
        let joined = first.joined(second);
        *bytes += joined.heap_bytes();
        chunks[low] = Some(joined);
        chunks[high] = None;
        at = low;
    }
}

impl Index {
    pub fn new() -> Index {
        let mut chunks = [const { None }; FAN];
        let first = Chunk::with_room(1, PATH_BITS, 0);
        let heap_bytes = first.heap_bytes();
        chunks[0] = Some(first);
        Index { root: Node::Chunks(chunks), heap_bytes }
    }

    /// The first place for which `is_it` is true among those of entries with the hash.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(Place) -> bool) -> Option<Place> {
        let key = key_of(hash);
        let chunk = self.chunk(key)?;
        for word in chunk.words_from_home(key) {
            // An empty word has the largest key of all.
            if word >> REF_BITS >= key {
                if word >> REF_BITS > key || word == EMPTY {
                    return None;
                }
                let place = Place::of(word);
                if is_it(place) {
                    return Some(place);
                }
            }
        }
        None
    }

    #[inline]
    fn chunk(&self, key: u64) -> Option<&Chunk> {
        let (mut node, mut level) = (&self.root, 0);
        loop {
            match node {
                Node::Nodes(nodes) => node = nodes[digit(path_of(key), level)].as_deref()?,
                Node::Chunks(chunks) => return chunks[owner(chunks, digit(path_of(key), level))].as_ref(),
            }
            level += 1;
        }
    }

    /// Asks the processor for the line in which the entry with this hash is most likely.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(chunk) = self.chunk(key_of(hash)) {
            chunk.prefetch(key_of(hash));
        }
    }

    /// As [`Index::prefetch`], to be asked for later.
    #[inline]
    pub fn queue_home(&self, hash: u64, queue: &mut PrefetchQueue) {
        if let Some(chunk) = self.chunk(key_of(hash)) {
            queue.add(chunk.home_address(key_of(hash)));
        }
    }

    /// Adds an entry.
    pub fn insert(&mut self, hash: u64, place: Place) {
        let word = key_of(hash) << REF_BITS | place.bits();
        debug_assert!(place.leaf < ID_LIMIT);
        self.root.insert(word, 0, &mut self.heap_bytes);
    }

    /// Removes the entry with this hash and place.
    pub fn remove(&mut self, hash: u64, place: Place) {
        let word = key_of(hash) << REF_BITS | place.bits();
        self.root.remove(word, 0, &mut self.heap_bytes);
    }

    /// Gives the entry with this hash another place.
    pub fn relocate(&mut self, hash: u64, from: Place, to: Place) {
        let key = key_of(hash) << REF_BITS;
        self.edit_chunk(key, |chunk| chunk.replace(key | from.bits(), key | to.bits()));
    }

    fn edit_chunk(&mut self, word: u64, f: impl FnOnce(&mut Chunk)) {
        let key = word >> REF_BITS;
        let (mut node, mut level) = (&mut self.root, 0);
        loop {
            match node {
                Node::Nodes(nodes) => match &mut nodes[digit(path_of(key), level)] {
                    Some(child) => node = Arc::make_mut(child),
                    None => return,
                },
                Node::Chunks(chunks) => {
                    if let Some(chunk) = &mut chunks[owner(chunks, digit(path_of(key), level))] {
                        f(chunk);
                    }
                    return;
                }
            }
            level += 1;
        }
    }

    /// Calls `f` with the places of entries in order of hash, from `cursor` on, until at least `count` were
    /// passed, and returns the next cursor, which is 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(Place)) -> u64 {
        if cursor >> KEY_BITS != 0 {
            return 0;
        }
        let (mut given, mut last) = (0, None);
        let flow = self.root.visit(cursor, 0, &mut |key, place| {
            // Entries that agree in all bits are given together, since no cursor lies between them.
            if given >= count && last != Some(key) {
                return ControlFlow::Break(key);
            }
            f(place);
            given += 1;
            last = Some(key);
            ControlFlow::Continue(())
        });
        match flow {
            ControlFlow::Break(key) => key,
            ControlFlow::Continue(()) => 0,
        }
    }

    /// Bytes of chunks and of nodes below the root.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Drops up to `budget` chunks; whether none is left. Nothing may be asked of the index afterwards.
    pub fn free_some(&mut self, budget: &mut usize) -> bool {
        self.root.free_some(budget)
    }
}

impl Node {
    fn insert(&mut self, word: u64, level: u32, bytes: &mut usize) {
        let slot = digit(path_of(word >> REF_BITS), level);
        let chunks = match self {
            Node::Nodes(nodes) => {
                if let Some(child) = &mut nodes[slot] {
                    Arc::make_mut(child).insert(word, level + 1, bytes);
                }
                return;
            }
            Node::Chunks(chunks) => chunks,
        };
        let at = owner(chunks, slot);
        let Some(chunk) = &mut chunks[at] else { return };
        if chunk.insert(word) {
            return;
        }
        *bytes -= chunk.heap_bytes();
        if chunk.rest_bits() == 0 || !chunk.is_largest() {
            *chunk = chunk.larger();
            *bytes += chunk.heap_bytes();
        } else {
            *bytes += chunk.heap_bytes();
            if u32::from(chunk.depth()) < LEVEL_BITS {
                split(chunks, at, bytes);
            } else {
                self.deepen(bytes);
            }
        }
        self.insert(word, level, bytes);
    }

    /// Puts a separate node under each slot, when the first of its chunks serves one slot only and is full.
    /// The others are about to be, since hashes are even, and are split until each serves one slot.
    fn deepen(&mut self, bytes: &mut usize) {
        let Node::Chunks(chunks) = self else { return };
        for at in 0..FAN {
            while chunks[at].as_ref().is_some_and(|chunk| u32::from(chunk.depth()) < LEVEL_BITS) {
                split(chunks, at, bytes);
            }
        }
        let nodes = chunks.each_mut().map(|chunk| {
            chunk.take().map(|mut chunk| {
                chunk.set_depth(0);
                let mut below = [const { None }; FAN];
                below[0] = Some(chunk);
                Arc::new(Node::Chunks(below))
            })
        });
        *self = Node::Nodes(nodes);
        *bytes += FAN * NODE_BYTES;
    }

    fn remove(&mut self, word: u64, level: u32, bytes: &mut usize) {
        let slot = digit(path_of(word >> REF_BITS), level);
        match self {
            Node::Nodes(nodes) => {
                let Some(child) = &mut nodes[slot] else { return };
                let child = Arc::make_mut(child);
                child.remove(word, level + 1, bytes);
                if child.is_one_small_chunk() {
                    self.flatten(bytes);
                }
            }
            Node::Chunks(chunks) => {
                let at = owner(chunks, slot);
                let Some(chunk) = &mut chunks[at] else { return };
                chunk.remove(word);
                if chunk.is_sparse() {
                    *bytes -= chunk.heap_bytes();
                    *chunk = chunk.rebuilt(chunk.len() * 3 / 2 + 4);
                    *bytes += chunk.heap_bytes();
                    merge(chunks, at, bytes);
                }
            }
        }
    }

    /// Whether this node could be a single chunk in the node above.
    fn is_one_small_chunk(&self) -> bool {
        match self {
            Node::Chunks(chunks) => {
                chunks[0].as_ref().is_some_and(|chunk| chunk.depth() == 0 && chunk.len() < MERGE_LEN)
            }
            Node::Nodes(_) => false,
        }
    }

    /// The reverse of [`Node::deepen`], where every child is one small chunk.
    fn flatten(&mut self, bytes: &mut usize) {
        let Node::Nodes(nodes) = self else { return };
        if !nodes.iter().all(|child| child.as_ref().is_some_and(|child| child.is_one_small_chunk())) {
            return;
        }
        let chunks = nodes.each_mut().map(|child| {
            let mut chunk = match Arc::make_mut(child.as_mut()?) {
                Node::Chunks(chunks) => chunks[0].take()?,
                Node::Nodes(_) => return None,
            };
            chunk.set_depth(LEVEL_BITS as u8);
            Some(chunk)
        });
        *self = Node::Chunks(chunks);
        *bytes -= FAN * NODE_BYTES;
    }

    /// Calls `f` with the scan keys, from `from` on and ascending, and places of entries.
    fn visit(&self, from: u64, level: u32, f: &mut Visitor<'_>) -> ControlFlow<u64> {
        let first = digit(from >> HOME_BITS, level);
        match self {
            Node::Nodes(nodes) => {
                for (slot, child) in nodes.iter().enumerate().skip(first) {
                    if let Some(child) = child {
                        child.visit(if slot == first { from } else { 0 }, level + 1, f)?;
                    }
                }
            }
            Node::Chunks(chunks) => {
                let mut entries = Vec::new();
                for chunk in chunks[owner(chunks, first)..].iter().flatten() {
                    entries.clear();
                    entries.extend(chunk.entries().map(|word| (scan_key(word), word)));
                    entries.retain(|&(key, _)| key >= from);
                    entries.sort_unstable();
                    for &(key, word) in &entries {
                        f(key, Place::of(word))?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn free_some(&mut self, budget: &mut usize) -> bool {
        match self {
            Node::Chunks(chunks) => {
                for chunk in chunks.iter_mut().filter(|chunk| chunk.is_some()) {
                    if *budget == 0 {
                        return false;
                    }
                    *budget -= 1;
                    *chunk = None;
                }
            }
            Node::Nodes(nodes) => {
                for slot in nodes.iter_mut() {
                    let Some(child) = slot else { continue };
                    if *budget == 0 || Arc::get_mut(child).is_some_and(|child| !child.free_some(budget)) {
                        return false;
                    }
                    *budget = budget.saturating_sub(1);
                    *slot = None;
                }
            }
        }
        true
    }
}

/// The callback of a walk through the index, with scan keys and places; it breaks with the next key.
type Visitor<'a> = dyn FnMut(u64, Place) -> ControlFlow<u64> + 'a;
