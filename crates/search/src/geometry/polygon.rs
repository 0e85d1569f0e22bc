//! A polygon made ready to be compared: its edges with a tree of boxes around them.

use std::ops::Range;

use super::boxes::{BoxTree, Cuboid};
use super::rings::Rings;
use super::space::{Ray, Space};

/// Where a vertex is in relation to a polygon.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Inside,
    Border,
    Outside,
}

/// See the [module docs](self). An edge has the number of the vertex that it begins at.
#[derive(Debug)]
pub(super) struct Polygon<S: Space> {
    pub vertices: Vec<S::Vertex>,
    /// The vertex before each, and the one behind it.
    pub before: Vec<u32>,
    pub next: Vec<u32>,
    pub rings: Vec<Range<usize>>,
    pub boxes: BoxTree,
    /// Whether the end of all rays is inside, by ring.
    pub ends: Vec<bool>,
    /// The parts of the end of all rays that are edges: ring, begin, length.
    pub jumps: Vec<(usize, f64, f64)>,
}

/// A line from a vertex along the border, and whether the border goes that way, too.
pub(super) type Branch<V> = (V, bool);

impl<S: Space> Polygon<S> {
    pub fn new(rings: &Rings) -> Polygon<S> {
        let vertices: Vec<S::Vertex> = rings.vertices.iter().map(|&vertex| S::vertex(vertex)).collect();
        let (mut before, mut next) = (Vec::with_capacity(vertices.len()), Vec::with_capacity(vertices.len()));
        let (mut ranges, mut ends, mut jumps) = (Vec::new(), Vec::new(), Vec::new());
        let mut begin = 0;
        for ring in rings.iter() {
            let range = begin..begin + ring.len();
            for at in range.clone() {
                before.push(if at == range.start { range.end - 1 } else { at - 1 } as u32);
                next.push(if at + 1 == range.end { range.start } else { at + 1 } as u32);
            }
            let known = S::ring(vertices.get(range.clone()).unwrap_or_default());
            ends.push(known.has_end);
            jumps.extend(known.jumps.iter().map(|&(from, length)| (ranges.len(), from, length)));
            begin = range.end;
            ranges.push(range);
        }
        let edge_box = |(at, &next): (usize, &u32)| S::edge_box(vertices[at], vertices[next as usize]);
        let boxes = BoxTree::new(next.iter().enumerate().map(edge_box).collect());
        Polygon { vertices, before, next, rings: ranges, boxes, ends, jumps }
    }

    /// How many edges there are.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Both ends of an edge.
    pub fn edge(&self, at: usize) -> (S::Vertex, S::Vertex) {
        (self.vertices[at], self.vertices[self.next[at] as usize])
    }

    /// The ring that an edge belongs to.
    pub fn ring_of(&self, edge: usize) -> usize {
        self.rings.partition_point(|ring| ring.end <= edge)
    }

    /// The box around the polygon.
    pub fn bounds(&self) -> Cuboid {
        let has = |vertex| self.locate(vertex, &mut Scratch::default()) != Location::Outside;
        S::bulge(self.boxes.all(), &has)
    }

    /// Where a vertex is.
    pub fn locate(&self, vertex: S::Vertex, scratch: &mut Scratch) -> Location {
        scratch.work += self.boxes.touching(&S::ray_box(vertex), &mut scratch.found);
        let mut is_inside = self.ends.iter().fold(false, |inside, &end| inside ^ end);
        for &edge in &scratch.found {
            let (a, b) = self.edge(edge);
            match S::ray(vertex, a, b) {
                Ray::Begins => return Location::Border,
                Ray::Crosses => is_inside = !is_inside,
                Ray::Misses => {}
            }
        }
        for &(_, from, length) in &self.jumps {
            is_inside ^= S::meets_jump(vertex, from, length);
        }
        if is_inside { Location::Inside } else { Location::Outside }
    }

    /// Adds the branches of the border at `vertex` that the edges `found` have.
    pub fn branches(&self, found: &[usize], vertex: S::Vertex, branches: &mut Vec<Branch<S::Vertex>>) {
        for &edge in found {
            let (a, b) = self.edge(edge);
            if a == vertex {
                branches.push((b, true));
                branches.push((self.vertices[self.before[edge] as usize], false));
            } else if b != vertex && S::side(a, b, vertex) == 0 && S::is_within(a, b, vertex) {
                branches.push((b, true));
                branches.push((a, false));
            }
        }
    }
}

/// Means of a comparison, and how much it has looked at.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub found: Vec<usize>,
    pub work: usize,
}

/// Where the line from a vertex on the border towards another goes first.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Heading {
    Inside,
    Outside,
    /// Along the border, in its direction or against it.
    Along {
        forward: bool,
    },
}

/// Where a line from `vertex`, which has these branches of the border, goes.
pub(super) fn heading<S: Space>(
    vertex: S::Vertex,
    towards: S::Vertex,
    branches: &[Branch<S::Vertex>],
) -> Heading {
    let mut along = None;
    // The branch that is met first if the line turns to the right. The polygon is on the left of its border.
    let mut first: Option<(u8, Branch<S::Vertex>)> = None;
    for &(branch, forward) in branches {
        let half = match S::side(vertex, towards, branch) {
            -1 => 0,
            0 if S::is_within(vertex, towards, branch) || S::is_within(vertex, branch, towards) => {
                along = Some(along.unwrap_or(false) || forward);
                continue;
            }
            0 => 1,
            _ => 2,
        };
        let is_first = first.is_none_or(|(other_half, (other, _))| {
            half < other_half || half == other_half && S::side(vertex, branch, other) < 0
        });
        if is_first {
            first = Some((half, (branch, forward)));
        }
    }
    match (along, first) {
        (Some(forward), _) => Heading::Along { forward },
        (None, Some((_, (_, true)))) => Heading::Inside,
        (None, _) => Heading::Outside,
    }
}
