//! `Tree`: the chunks of a long list, in a counted B+-tree of reference-counted nodes.
//!
//! A node has up to [`FANOUT`] children, and beside each the number of elements up to its end, so the chunk
//! of an index is found by one binary search a level. Nodes and chunks are shared with clones; a change
//! copies the nodes on the path to the chunk that it touches, where they are shared, and nothing else.
//!
//! Invariant: all chunks are at the same depth, none is empty, no node is empty, and each node's
//! counts are the running sums of its children's elements. Nodes may be sparse: neighbours are merged when
//! both are small.

use super::chunk::Chunk;
use std::ops::ControlFlow;
use triomphe::Arc;

/// Most children of a node. With its counts and reference count a node fills a block of 512 bytes.
const FANOUT: usize = 30;
/// Children of an average node, where memory is estimated.
pub(super) const TYPICAL_FANOUT: usize = 24;
/// Bytes of a node, as allocated.
pub(super) const NODE_BYTES: usize = 512;

/// Children of one kind, with running sums of their elements.
#[derive(Clone)]
pub(super) struct Branch<C> {
    len: usize,
    ends: [u64; FANOUT],
    children: [Option<C>; FANOUT],
}

/// A node: the lowest level holds chunks.
#[derive(Clone)]
pub(super) enum Node {
    Leaf(Branch<Chunk>),
    Inner(Branch<Arc<Node>>),
}

/// A subtree or a chunk taken out of the tree.
pub(super) enum Part {
    Node(Arc<Node>),
    Chunk(Chunk),
}

/// A sequence of chunks; never without one.
#[derive(Clone)]
pub(super) struct Tree {
    root: Arc<Node>,
}

/// Which end of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The left end, index 0.
    Head,
    /// The right end.
    Tail,
}

pub(super) trait Child: Clone {
    fn elements(&self) -> u64;
    /// Takes the neighbour's children in if both are small; whether it did.
    fn merge(&mut self, right: &Self) -> bool;
    fn into_part(self) -> Part;
}

impl Child for Chunk {
    fn elements(&self) -> u64 {
        self.len() as u64
    }

    fn merge(&mut self, right: &Chunk) -> bool {
        self.try_merge(right)
    }

    fn into_part(self) -> Part {
        Part::Chunk(self)
    }
}

impl Child for Arc<Node> {
    fn elements(&self) -> u64 {
        match &**self {
            Node::Leaf(branch) => branch.elements(),
            Node::Inner(branch) => branch.elements(),
        }
    }

    fn merge(&mut self, right: &Arc<Node>) -> bool {
        if self.width() + right.width() > FANOUT / 2 {
            return false;
        }
        match (Arc::make_mut(self), &**right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.append(right),
            (Node::Inner(left), Node::Inner(right)) => left.append(right),
            _ => unreachable!("neighbours are of one height"),
        }
        true
    }

    fn into_part(self) -> Part {
        Part::Node(self)
    }
}

impl<C: Child> Branch<C> {
    fn new(child: C) -> Branch<C> {
        let mut branch = Branch { len: 0, ends: [0; FANOUT], children: [const { None }; FANOUT] };
        branch.insert(0, child);
        branch
    }

    fn elements(&self) -> u64 {
        self.len.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    fn start(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// The child that has the element at `index`, and the element's index in it.
    #[inline]
    fn locate(&self, index: u64) -> (usize, u64) {
        let at = self.ends[..self.len].partition_point(|&end| end <= index);
        assert!(at < self.len, "element {index} of {}", self.elements());
        (at, index - self.start(at))
    }

    #[inline]
    fn child(&self, at: usize) -> &C {
        match &self.children[at] {
            Some(child) => child,
            None => unreachable!("children below the length are there"),
        }
    }

    fn child_mut(&mut self, at: usize) -> &mut C {
        match &mut self.children[at] {
            Some(child) => child,
            None => unreachable!("children below the length are there"),
        }
    }

    fn insert(&mut self, at: usize, child: C) {
        assert!(self.len < FANOUT && at <= self.len);
        let elements = child.elements();
        let start = self.start(at);
        self.children[at..=self.len].rotate_right(1);
        self.ends.copy_within(at..self.len, at + 1);
        self.children[at] = Some(child);
        self.ends[at] = start + elements;
        self.len += 1;
        self.ends[at + 1..self.len].iter_mut().for_each(|end| *end += elements);
    }

    /// Inserts one or two children; where there is no room, a right part becomes another branch, which is
    /// returned.
    fn insert_or_split(
        &mut self,
        at: usize,
        children: impl ExactSizeIterator<Item = C>,
    ) -> Option<Branch<C>> {
        let count = children.len();
        if self.len + count <= FANOUT {
            children.enumerate().for_each(|(index, child)| self.insert(at + index, child));
            return None;
        }
        // Beyond an end, the full branch stays full: a list built by pushing has no half-empty nodes.
        let keep = if at == self.len || at == 0 { at } else { FANOUT / 2 };
        let mut right = self.split_off(keep);
        for (index, child) in children.enumerate() {
            if at < keep || at == 0 {
                self.insert(at + index, child);
            } else {
                right.insert(at - keep + index, child);
            }
        }
        Some(right)
    }

    fn split_off(&mut self, keep: usize) -> Branch<C> {
        let start = self.start(keep);
        let mut right =
            Branch { len: self.len - keep, ends: [0; FANOUT], children: [const { None }; FANOUT] };
        for at in keep..self.len {
            right.children[at - keep] = self.children[at].take();
            right.ends[at - keep] = self.ends[at] - start;
        }
        self.len = keep;
        right
    }

    fn append(&mut self, right: &Branch<C>) {
        for at in 0..right.len {
            self.insert(self.len, right.child(at).clone());
        }
    }

    fn remove(&mut self, at: usize) -> C {
        let elements = self.ends[at] - self.start(at);
        let Some(child) = self.children[at].take() else {
            unreachable!("children below the length are there")
        };
        self.children[at..self.len].rotate_left(1);
        self.ends.copy_within(at + 1..self.len, at);
        self.len -= 1;
        self.ends[at..self.len].iter_mut().for_each(|end| *end -= elements);
        child
    }

    /// After a change of the child at `at`: its count, and those after it.
    fn recount(&mut self, at: usize) {
        let elements = self.child(at).elements();
        let before = self.ends[at] - self.start(at);
        self.ends[at..self.len]
            .iter_mut()
            .for_each(|end| *end = end.wrapping_add(elements.wrapping_sub(before)));
    }

    /// After a child shrank: removes it if empty, or merges it with a neighbour if both are small.
    fn tidy(&mut self, at: usize) {
        if self.child(at).elements() == 0 {
            self.remove(at);
            return;
        }
        for left in [at.wrapping_sub(1), at] {
            if left.wrapping_add(1) >= self.len || left >= self.len {
                continue;
            }
            let (head, tail) = self.children.split_at_mut(left + 1);
            if let (Some(one), Some(two)) = (&mut head[left], &tail[0])
                && one.merge(two)
            {
                self.ends[left] = self.ends[left + 1];
                self.remove(left + 1);
                return;
            }
        }
    }

    /// Removes the first (or last) `count` elements; parts that leave whole go to `out`.
    fn cut(
        &mut self,
        end: End,
        count: u64,
        out: &mut Vec<Part>,
        cut_child: fn(&mut C, End, u64, &mut Vec<Part>),
    ) {
        let mut left = count;
        while left > 0 {
            let at = if end == End::Head { 0 } else { self.len - 1 };
            let elements = self.ends[at] - self.start(at);
            if elements <= left {
                left -= elements;
                out.push(self.remove(at).into_part());
            } else {
                cut_child(self.child_mut(at), end, left, out);
                self.recount(at);
                left = 0;
            }
        }
    }
}

impl Node {
    fn width(&self) -> usize {
        match self {
            Node::Leaf(branch) => branch.len,
            Node::Inner(branch) => branch.len,
        }
    }

    /// Adds a chunk at an end; a node that did not fit beside the others here.
    fn push(&mut self, end: End, chunk: Chunk) -> Option<Node> {
        match self {
            Node::Leaf(branch) => {
                let at = if end == End::Head { 0 } else { branch.len };
                branch.insert_or_split(at, [chunk].into_iter()).map(Node::Leaf)
            }
            Node::Inner(branch) => {
                let at = if end == End::Head { 0 } else { branch.len - 1 };
                let extra = Arc::make_mut(branch.child_mut(at)).push(end, chunk);
                branch.recount(at);
                branch.insert_or_split(at + 1, [Arc::new(extra?)].into_iter()).map(Node::Inner)
            }
        }
    }

    /// Takes the chunk at an end.
    fn pop(&mut self, end: End) -> Chunk {
        match self {
            Node::Leaf(branch) => branch.remove(if end == End::Head { 0 } else { branch.len - 1 }),
            Node::Inner(branch) => {
                let at = if end == End::Head { 0 } else { branch.len - 1 };
                let chunk = Arc::make_mut(branch.child_mut(at)).pop(end);
                branch.recount(at);
                if branch.child(at).width() == 0 {
                    branch.remove(at);
                }
                chunk
            }
        }
    }

    /// Runs `change` on the chunk of the element at `index`, given the element's index in it. Chunks that it
    /// returns follow the changed one. A node that did not fit beside the others here.
    fn edit(&mut self, index: u64, change: &mut dyn FnMut(&mut Chunk, usize) -> Vec<Chunk>) -> Option<Node> {
        match self {
            Node::Leaf(branch) => {
                let (at, within) = branch.locate(index);
                let extra = change(branch.child_mut(at), within as usize);
                branch.recount(at);
                if extra.is_empty() {
                    branch.tidy(at);
                }
                branch.insert_or_split(at + 1, extra.into_iter()).map(Node::Leaf)
            }
            Node::Inner(branch) => {
                let (at, within) = branch.locate(index);
                let extra = Arc::make_mut(branch.child_mut(at)).edit(within, change);
                branch.recount(at);
                match extra {
                    Some(node) => {
                        branch.insert_or_split(at + 1, [Arc::new(node)].into_iter()).map(Node::Inner)
                    }
                    None => {
                        branch.tidy(at);
                        None
                    }
                }
            }
        }
    }

    fn cut(&mut self, end: End, count: u64, out: &mut Vec<Part>) {
        match self {
            Node::Leaf(branch) => branch.cut(end, count, out, |chunk, end, count, _| {
                let (len, count) = (chunk.len(), count as usize);
                chunk.remove(if end == End::Head { 0..count } else { len - count..len });
            }),
            Node::Inner(branch) => {
                branch.cut(end, count, out, |node, end, count, out| Arc::make_mut(node).cut(end, count, out));
            }
        }
    }

    /// Checks the counts; the height.
    #[cfg(test)]
    fn check(&self) -> usize {
        fn sums<C: Child>(branch: &Branch<C>) {
            let mut sum = 0;
            for at in 0..branch.len {
                sum += branch.child(at).elements();
                assert_eq!(branch.ends[at], sum);
            }
            assert!(branch.len > 0 && branch.children[branch.len..].iter().all(Option::is_none));
        }
        match self {
            Node::Leaf(branch) => {
                sums(branch);
                1
            }
            Node::Inner(branch) => {
                sums(branch);
                let heights: Vec<usize> = (0..branch.len).map(|at| branch.child(at).check()).collect();
                assert!(heights.iter().all(|&height| height == heights[0]));
                heights[0] + 1
            }
        }
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Chunk) -> ControlFlow<()>) -> ControlFlow<()> {
        match self {
            Node::Leaf(branch) => (0..branch.len).try_for_each(|at| visitor(branch.child(at))),
            Node::Inner(branch) => (0..branch.len).try_for_each(|at| branch.child(at).visit(visitor)),
        }
    }
}

impl Tree {
    /// A tree of one chunk, which is not empty.
    pub fn new(chunk: Chunk) -> Tree {
        Tree { root: Arc::new(Node::Leaf(Branch::new(chunk))) }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.root.elements()
    }

    /// The chunk of the element at `index`, and the element's index in it. Panics past the end.
    #[inline]
    pub fn locate(&self, index: u64) -> (&Chunk, usize) {
        let mut node = &self.root;
        let mut index = index;
        loop {
            match &**node {
                Node::Leaf(branch) => {
                    let (at, within) = branch.locate(index);
                    return (branch.child(at), within as usize);
                }
                Node::Inner(branch) => {
                    let (at, within) = branch.locate(index);
                    node = branch.child(at);
                    index = within;
                }
            }
        }
    }

    /// Adds a chunk, which is not empty, at an end.
    pub fn push(&mut self, end: End, chunk: Chunk) {
        let extra = Arc::make_mut(&mut self.root).push(end, chunk);
        self.grow(extra);
    }

    /// Takes the chunk at an end; the tree, unless that was its last one.
    pub fn pop(mut self, end: End) -> (Chunk, Option<Tree>) {
        let chunk = Arc::make_mut(&mut self.root).pop(end);
        (chunk, self.shrink())
    }

    /// Runs `change` on the chunk of the element at `index`, given the element's index in it. Up to two
    /// chunks that it returns follow the changed one, which may be empty then only if it returns none.
    pub fn edit(
        mut self,
        index: u64,
        change: &mut dyn FnMut(&mut Chunk, usize) -> Vec<Chunk>,
    ) -> Option<Tree> {
        let extra = Arc::make_mut(&mut self.root).edit(index, change);
        self.grow(extra);
        self.shrink()
    }

    /// Removes `count` elements at an end, fewer than all; what leaves whole goes to `out`.
    pub fn cut(mut self, end: End, count: u64, out: &mut Vec<Part>) -> Option<Tree> {
        Arc::make_mut(&mut self.root).cut(end, count, out);
        self.shrink()
    }

    /// The whole tree as a part.
    pub fn into_part(self) -> Part {
        Part::Node(self.root)
    }

    /// Shows the chunks in order until the visitor breaks.
    pub fn visit(&self, visitor: &mut dyn FnMut(&Chunk) -> ControlFlow<()>) -> ControlFlow<()> {
        self.root.visit(visitor)
    }

    /// Panics unless counts and depths are as they must be.
    #[cfg(test)]
    pub fn check(&self) {
        assert!(size_of::<Node>() + 8 <= NODE_BYTES);
        self.root.check();
    }

    fn grow(&mut self, extra: Option<Node>) {
        if let Some(right) = extra {
            let mut branch = Branch::new(self.root.clone());
            branch.insert(1, Arc::new(right));
            self.root = Arc::new(Node::Inner(branch));
        }
    }

    /// Drops levels of a single child; `None` if nothing is left.
    fn shrink(mut self) -> Option<Tree> {
        loop {
            let child = match &*self.root {
                Node::Inner(branch) if branch.len == 1 => branch.child(0).clone(),
                node if node.width() == 0 => return None,
                _ => return Some(self),
            };
            self.root = child;
        }
    }
}

impl Part {
    /// Frees this part or, where it is a node that nothing else refers to, pushes its children to `out`
    /// instead.
    pub fn dismantle(self, out: &mut Vec<Part>) {
        let node = match self {
            Part::Chunk(chunk) => return drop(chunk),
            Part::Node(node) => node,
        };
        // A shared node stays with its other owners.
        let Ok(node) = Arc::try_unwrap(node) else { return };
        match node {
            Node::Leaf(branch) => out.extend(branch.children.into_iter().flatten().map(Child::into_part)),
            Node::Inner(branch) => out.extend(branch.children.into_iter().flatten().map(Child::into_part)),
        }
    }
}
