//! `Chunked`: a list too long for one packed block, as chunks.
//!
//! The chunks at the two ends are held directly, so pushes and pops touch one page and nothing else; those
//! between are in a [`Tree`]. A chunk that is full when its end grows moves into the tree, and one is taken
//! out of it when an end has none left to pop from.
//!
//! Invariant: no chunk is empty, `len` is the sum of all chunks' elements, `end_lens` those of the
//! chunks at the ends. Where there is one chunk only, it may be at either end.

use super::chunk::Chunk;
use super::tree::{End, Part, Tree};
use crate::element::Element;
use crate::packed::encoding::Encoded;
use crate::size_class::allocated_bytes;
use std::ops::{ControlFlow, Range};

/// Page size of the first chunk, unless its first element needs more.
const FIRST_PAGE_BYTES: usize = 1000;

/// A list as chunks; see the module's description.
#[derive(Clone)]
pub(super) struct Chunked {
    len: u64,
    /// By [`End`].
    ends: [Option<Chunk>; 2],
    end_lens: [u32; 2],
    tree: Option<Tree>,
    /// Whether OBJECT ENCODING answers `listpack`, as Redis would for this list's history.
    pub is_listpack: bool,
}

/// Where an index is.
enum Place {
    End(End),
    Tree,
}

impl Chunked {
    pub fn new() -> Chunked {
        Chunked { len: 0, ends: [None, None], end_lens: [0; 2], tree: None, is_listpack: true }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    fn tree_len(&self) -> u64 {
        self.len - u64::from(self.end_lens[0]) - u64::from(self.end_lens[1])
    }

    /// The place of `index`, and the index in it.
    #[inline]
    fn place(&self, index: u64) -> (Place, u64) {
        // Whatever calls this has compared a request's index with the length (`List::get`, or its command).
        assert!(index < self.len, "element {index} of {}", self.len);
        let Some(after_head) = index.checked_sub(u64::from(self.end_lens[0])) else {
            return (Place::End(End::Head), index);
        };
        match after_head.checked_sub(self.tree_len()) {
            None => (Place::Tree, after_head),
            Some(in_tail) => (Place::End(End::Tail), in_tail),
        }
    }

    /// The chunk of the element at `index`, and the element's index in it. Panics past the end.
    #[inline]
    pub fn locate(&self, index: u64) -> (&Chunk, usize) {
        match self.place(index) {
            (Place::End(end), within) => match &self.ends[end as usize] {
                Some(chunk) => (chunk, within as usize),
                None => unreachable!("an end without a chunk has no elements"),
            },
            (Place::Tree, within) => match &self.tree {
                Some(tree) => tree.locate(within),
                None => unreachable!("no tree has no elements"),
            },
        }
    }

    #[inline]
    pub fn get(&self, index: u64) -> Element<'_> {
        let (chunk, within) = self.locate(index);
        chunk.get(within)
    }

    #[inline]
    pub fn push(&mut self, end: End, code: &Encoded<'_>) {
        let which = end as usize;
        if let Some(chunk) = &mut self.ends[which] {
            let at = if end == End::Head { 0 } else { chunk.len() };
            if chunk.insert(at, code) {
                self.end_lens[which] += 1;
                self.len += 1;
                return;
            }
        }
        self.push_slow(end, code);
    }

    #[cold]
    fn push_slow(&mut self, end: End, code: &Encoded<'_>) {
        let (which, other) = (end as usize, 1 - end as usize);
        self.len += 1;
        if self.ends[which].is_none()
            && self.tree.is_none()
            && let Some(lone) = &mut self.ends[other]
            && lone.insert(if end == End::Head { 0 } else { lone.len() }, code)
        {
            self.end_lens[other] += 1;
            return;
        }
        let full = self.ends[which].as_mut();
        let capacity = full.as_ref().map_or(FIRST_PAGE_BYTES, |full| full.packed_bytes());
        self.put_outermost(end, Chunk::of(code, capacity));
    }

    /// Adds a chunk, which is not empty, behind all others.
    pub fn push_chunk(&mut self, chunk: Chunk) {
        self.len += chunk.len() as u64;
        self.put_outermost(End::Tail, chunk);
    }

    /// Makes a chunk the outermost, whose elements are counted already.
    fn put_outermost(&mut self, end: End, chunk: Chunk) {
        let (which, other) = (end as usize, 1 - end as usize);
        self.end_lens[which] = chunk.len() as u32;
        let Some(mut before) = self.ends[which].replace(chunk) else { return };
        if self.tree.is_none() && self.ends[other].is_none() {
            before.shrink_to_fit();
            self.end_lens[other] = before.len() as u32;
            self.ends[other] = Some(before);
        } else {
            self.push_to_tree(end, before);
        }
    }

    fn push_to_tree(&mut self, end: End, mut chunk: Chunk) {
        chunk.seal();
        match &mut self.tree {
            Some(tree) => tree.push(end, chunk),
            None => self.tree = Some(Tree::new(chunk)),
        }
    }

    /// Which end's chunk has the list's first (or last) element; takes one out of the tree if need be. The
    /// list is not empty.
    #[inline]
    fn settle_end(&mut self, end: End) -> usize {
        let which = end as usize;
        if self.ends[which].is_some() {
            return which;
        }
        let Some(tree) = self.tree.take() else { return 1 - which };
        let (chunk, rest) = tree.pop(end);
        self.tree = rest;
        self.end_lens[which] = chunk.len() as u32;
        self.ends[which] = Some(chunk);
        which
    }

    /// Removes the element at an end, showing it to `show` first. Panics if the list is empty.
    #[inline]
    pub fn pop<R>(&mut self, end: End, show: impl FnOnce(Element<'_>) -> R) -> R {
        let which = self.settle_end(end);
        let Some(chunk) = &mut self.ends[which] else { panic!("pop from an empty list") };
        let len = chunk.len();
        let at = if end == End::Head { 0 } else { len - 1 };
        let result = show(chunk.get(at));
        self.len -= 1;
        self.end_lens[which] -= 1;
        if len == 1 {
            self.ends[which] = None;
        } else {
            chunk.remove(at..at + 1);
        }
        result
    }

    /// Runs `change` on the chunk of the element at `index`, given the element's index in it. Chunks that it
    /// returns follow the changed one, which is not empty then.
    fn edit(&mut self, index: u64, mut change: impl FnMut(&mut Chunk, usize) -> Vec<Chunk>) {
        let (place, within) = self.place(index);
        let Place::End(end) = place else {
            let Some(tree) = self.tree.take() else { unreachable!("no tree has no elements") };
            let before = tree.elements();
            self.tree = tree.edit(within, &mut change);
            self.len = self.len - before + self.tree.as_ref().map_or(0, Tree::elements);
            return;
        };
        let which = end as usize;
        let Some(mut chunk) = self.ends[which].take() else { unreachable!("the place has a chunk") };
        let extra = change(&mut chunk, within as usize);
        self.len -= u64::from(self.end_lens[which]);
        self.len += chunk.len() as u64 + extra.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        // The outermost chunk stays at the end, the others go to the tree.
        let mut all: Vec<Chunk> =
            std::iter::once(chunk).chain(extra).filter(|chunk| chunk.len() > 0).collect();
        let outermost = match end {
            End::Head => (!all.is_empty()).then(|| all.remove(0)),
            End::Tail => all.pop(),
        };
        self.end_lens[which] = outermost.as_ref().map_or(0, |chunk| chunk.len() as u32);
        self.ends[which] = outermost;
        match end {
            End::Head => all.into_iter().rev().for_each(|chunk| self.push_to_tree(end, chunk)),
            End::Tail => all.into_iter().for_each(|chunk| self.push_to_tree(end, chunk)),
        }
    }

    /// Inserts an element so that it has `index`, at most the length.
    pub fn insert(&mut self, index: u64, code: &Encoded<'_>) {
        if index == 0 {
            self.push(End::Head, code);
        } else if index == self.len {
            self.push(End::Tail, code);
        } else {
            self.edit(index, |chunk, within| insert_splitting(chunk, within, code));
        }
    }

    /// Puts another element in the place of the one at `index`.
    pub fn set(&mut self, index: u64, code: &Encoded<'_>) {
        self.edit(index, |chunk, within| {
            if chunk.replace(within, code) {
                return Vec::new();
            }
            if chunk.len() == 1 {
                *chunk = Chunk::of(code, 0);
                return Vec::new();
            }
            chunk.remove(within..within + 1);
            insert_splitting(chunk, within, code)
        });
    }

    /// The first index in `range` whose element is `code`.
    pub fn find(&self, code: &Encoded<'_>, mut range: Range<u64>) -> Option<u64> {
        while range.start < range.end {
            let (chunk, within) = self.locate(range.start);
            let base = range.start - within as u64;
            let until = (chunk.len() as u64).min(range.end - base) as usize;
            if let Some(found) = chunk.find(code, within..until) {
                return Some(base + found as u64);
            }
            range.start = base + until as u64;
        }
        None
    }

    /// The last index in `range` whose element is `code`.
    pub fn rfind(&self, code: &Encoded<'_>, mut range: Range<u64>) -> Option<u64> {
        while range.start < range.end {
            let (chunk, within) = self.locate(range.end - 1);
            let base = range.end - 1 - within as u64;
            let from = range.start.saturating_sub(base) as usize;
            if let Some(found) = chunk.rfind(code, from..within + 1) {
                return Some(base + found as u64);
            }
            range.end = base;
        }
        None
    }

    /// Removes up to `most` elements equal to `code`, from the head on or from the tail on; how many.
    pub fn remove_matches(&mut self, code: &Encoded<'_>, most: u64, from: End) -> u64 {
        let mut removed = 0;
        let mut range = 0..self.len;
        while removed < most {
            let found = match from {
                End::Head => self.find(code, range.clone()),
                End::Tail => self.rfind(code, range.clone()),
            };
            let Some(index) = found else { break };
            let left = usize::try_from(most - removed).unwrap_or(usize::MAX);
            let mut here = 0;
            self.edit(index, |chunk, within| {
                let base = index - within as u64;
                let (scope, backwards) = match from {
                    End::Head => (within..chunk.len(), false),
                    End::Tail => (0..within + 1, true),
                };
                here = chunk.remove_matches(code, scope, left, backwards) as u64;
                // The visited part of this chunk is not visited again.
                match from {
                    End::Head => range.start = base + chunk.len() as u64,
                    End::Tail => range.end = base,
                }
                if chunk.is_sparse() {
                    chunk.shrink_to_fit();
                }
                Vec::new()
            });
            if from == End::Head {
                range.end -= here;
            }
            removed += here;
        }
        removed
    }

    /// Removes `count` elements at an end, at most all; what leaves whole goes to `out`.
    pub fn cut(&mut self, end: End, count: u64, out: &mut Vec<Part>) {
        assert!(count <= self.len);
        let mut left = count;
        self.cut_end(end as usize, end, &mut left, out);
        let in_tree = self.tree_len();
        if left >= in_tree {
            left -= in_tree;
            self.len -= in_tree;
            out.extend(self.tree.take().map(Tree::into_part));
        } else if left > 0 {
            self.tree = self.tree.take().and_then(|tree| tree.cut(end, left, out));
            self.len -= left;
            left = 0;
        }
        self.cut_end(1 - end as usize, end, &mut left, out);
    }

    /// Removes up to `left` elements of one end's chunk.
    fn cut_end(&mut self, which: usize, end: End, left: &mut u64, out: &mut Vec<Part>) {
        let Some(chunk) = &mut self.ends[which] else { return };
        let len = chunk.len();
        let count = len.min(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= count as u64;
        self.len -= count as u64;
        self.end_lens[which] -= count as u32;
        if count == len {
            out.extend(self.ends[which].take().map(Part::Chunk));
        } else {
            chunk.remove(if end == End::Head { 0..count } else { len - count..len });
        }
    }

    /// Shows the chunks in order until the visitor breaks.
    pub fn visit(&self, visitor: &mut dyn FnMut(&Chunk) -> ControlFlow<()>) -> ControlFlow<()> {
        if let Some(chunk) = &self.ends[0] {
            visitor(chunk)?;
        }
        if let Some(tree) = &self.tree {
            tree.visit(visitor)?;
        }
        self.ends[1].as_ref().map_or(ControlFlow::Continue(()), visitor)
    }

    /// Whether the elements would take more than `bytes` in a listpack, its header apart. Stops once it
    /// knows.
    pub fn listpack_bytes_exceed(&self, bytes: usize) -> bool {
        let mut sum = 0;
        self.visit(&mut |chunk| {
            sum += chunk.listpack_bytes();
            if sum > bytes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .is_break()
    }

    /// Bytes that the allocator gave, estimated from a sample of the chunks.
    pub fn heap_bytes(&self) -> usize {
        const SAMPLE: usize = 16;
        let (mut chunks, mut bytes, mut elements) = (0, 0, 0);
        let _ = self.visit(&mut |chunk| {
            chunks += 1;
            bytes += chunk.heap_bytes();
            elements += chunk.len() as u64;
            if chunks == SAMPLE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let scale =
            |sample: usize| (sample as u128 * u128::from(self.len) / u128::from(elements.max(1))) as usize;
        let nodes = self.tree.as_ref().map_or(0, |_| scale(chunks) / super::tree::TYPICAL_FANOUT + 1);
        allocated_bytes(size_of::<Chunked>()) + scale(bytes) + nodes * super::tree::NODE_BYTES
    }

    /// All parts, to be freed one after another.
    pub fn into_parts(self) -> Vec<Part> {
        let ends = self.ends.into_iter().flatten().map(Part::Chunk);
        ends.chain(self.tree.map(Tree::into_part)).collect()
    }

    /// Panics unless every count agrees with the chunks.
    #[cfg(test)]
    pub fn check(&self) {
        let mut sum = 0;
        let _ = self.visit(&mut |chunk| {
            assert!(chunk.len() > 0);
            chunk.check();
            sum += chunk.len() as u64;
            ControlFlow::Continue(())
        });
        assert_eq!(sum, self.len);
        for which in 0..2 {
            assert_eq!(self.ends[which].as_ref().map_or(0, Chunk::len), self.end_lens[which] as usize);
        }
        assert_eq!(self.tree.as_ref().map_or(0, Tree::elements), self.tree_len());
        if let Some(tree) = &self.tree {
            tree.check();
        }
    }
}

/// Inserts an element into a chunk, which is split if it has no room: the chunk keeps the left part, and one
/// or two that follow it are returned.
fn insert_splitting(chunk: &mut Chunk, within: usize, code: &Encoded<'_>) -> Vec<Chunk> {
    if chunk.insert(within, code) {
        return Vec::new();
    }
    let (len, half) = (chunk.len(), chunk.len() / 2);
    // In halves if that does: insertions at one place then leave no trail of small chunks.
    if chunk.has_room_in(if within <= half { 0..half } else { half..len }, code) {
        let mut right = chunk.split_off(half);
        let fitted =
            if within <= half { chunk.insert(within, code) } else { right.insert(within - half, code) };
        assert!(fitted, "half a chunk refused an element");
        return vec![right];
    }
    let alone = Chunk::of(code, 0);
    if within == 0 {
        return vec![std::mem::replace(chunk, alone)];
    }
    if within == len {
        return vec![alone];
    }
    let right = chunk.split_off(within);
    vec![alone, right]
}
