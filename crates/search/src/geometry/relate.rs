//! How two shapes stand to each other, in steps.
//!
//! A polygon is within another if every piece of its border runs inside that, or along its border in the same
//! direction, and no piece of the other's border runs inside it. Pieces end where a vertex of the other lies
//! on them: elsewhere the borders do not meet, since an edge that crosses another decides the question.

use super::polygon::{Branch, Heading, Location, Polygon, Scratch, heading};
use super::shape::Shape;
use super::space::{Flat, Space, Spherical};
use crate::query::ast::Relation;
use crate::schema::Coordinates;

/// A shape made ready to be compared with others.
#[derive(Debug)]
enum Ready<S: Space> {
    Point(S::Vertex),
    Polygon(Polygon<S>),
}

impl<S: Space> Ready<S> {
    fn new(shape: &Shape) -> Self {
        match shape {
            Shape::Point(point) => Ready::Point(S::vertex(*point)),
            Shape::Polygon(rings) => Ready::Polygon(Polygon::new(rings)),
        }
    }
}

/// The shape of a query.
#[derive(Debug)]
pub struct Subject {
    shape: SubjectShape,
    relation: Relation,
}

/// A shape that is ready, by its coordinates.
#[derive(Debug)]
pub struct SubjectShape(Either<Ready<Flat>, Ready<Spherical>>);

#[derive(Debug)]
enum Either<A, B> {
    Flat(A),
    Spherical(B),
}

impl SubjectShape {
    fn new(shape: &Shape, coordinates: Coordinates) -> Self {
        SubjectShape(match coordinates {
            Coordinates::Flat => Either::Flat(Ready::new(shape)),
            Coordinates::Spherical => Either::Spherical(Ready::new(shape)),
        })
    }
}

impl Subject {
    /// A query's shape and how documents' shapes stand to it.
    pub fn new(shape: &Shape, coordinates: Coordinates, relation: Relation) -> Subject {
        Subject { shape: SubjectShape::new(shape, coordinates), relation }
    }
}

/// A document's shape, while it is compared with a query's.
#[derive(Debug)]
pub struct Relating {
    shape: SubjectShape,
    relation: Relation,
    stage: Stage,
}

/// How far a comparison has come: the next edge.
#[derive(Copy, Clone, Debug)]
enum Stage {
    /// An edge of the document's shape (of the query's, if that must be within it).
    Inner(usize, Location),
    /// An edge of the other shape.
    Outer(usize, Location),
}

impl Relating {
    /// A comparison that has not begun.
    pub fn new(subject: &Subject, shape: &Shape, coordinates: Coordinates) -> Relating {
        Relating {
            shape: SubjectShape::new(shape, coordinates),
            relation: subject.relation,
            stage: Stage::Inner(0, Location::Outside),
        }
    }

    /// Compares until the answer is known or `work`, in boxes looked at, is used up; then there is no answer
    /// yet.
    pub fn step(&mut self, subject: &Subject, work: &mut usize) -> Option<bool> {
        match (&self.shape.0, &subject.shape.0) {
            (Either::Flat(one), Either::Flat(other)) => {
                step(&mut self.stage, self.relation, one, other, work)
            }
            (Either::Spherical(one), Either::Spherical(other)) => {
                step(&mut self.stage, self.relation, one, other, work)
            }
            _ => Some(false),
        }
    }
}

fn step<S: Space>(
    stage: &mut Stage,
    relation: Relation,
    document: &Ready<S>,
    query: &Ready<S>,
    work: &mut usize,
) -> Option<bool> {
    match relation {
        Relation::Within => within(stage, document, query, work),
        Relation::Contains => within(stage, query, document, work),
        Relation::Intersects => intersects(stage, document, query, work),
        Relation::Disjoint => intersects(stage, document, query, work).map(|intersects| !intersects),
    }
}

/// Nothing is within a point, and a point on a border is not within the polygon.
fn within<S: Space>(stage: &mut Stage, inner: &Ready<S>, outer: &Ready<S>, work: &mut usize) -> Option<bool> {
    let mut scratch = Scratch::default();
    match (inner, outer) {
        (_, Ready::Point(_)) => Some(false),
        (Ready::Point(point), Ready::Polygon(outer)) => {
            let location = outer.locate(*point, &mut scratch);
            *work = work.saturating_sub(scratch.work + 1);
            Some(location == Location::Inside)
        }
        (Ready::Polygon(inner), Ready::Polygon(outer)) => {
            if let Stage::Inner(at, location) = *stage {
                let mut walk = Walk { walker: inner, other: outer, at, location, scratch };
                match walk
                    .go(work, |piece| !matches!(piece, Heading::Inside | Heading::Along { forward: true }))
                {
                    End::Paused => {
                        *stage = Stage::Inner(walk.at, walk.location);
                        return None;
                    }
                    End::Refuted => return Some(false),
                    End::Over => *stage = Stage::Outer(0, Location::Outside),
                }
                scratch = walk.scratch;
            }
            let Stage::Outer(at, location) = *stage else { return Some(false) };
            let mut walk = Walk { walker: outer, other: inner, at, location, scratch };
            match walk.go(work, |piece| piece == Heading::Inside) {
                End::Paused => {
                    *stage = Stage::Outer(walk.at, walk.location);
                    None
                }
                End::Refuted => Some(false),
                End::Over => Some(true),
            }
        }
    }
}

fn intersects<S: Space>(
    stage: &mut Stage,
    one: &Ready<S>,
    other: &Ready<S>,
    work: &mut usize,
) -> Option<bool> {
    let mut scratch = Scratch::default();
    match (one, other) {
        (Ready::Point(one), Ready::Point(other)) => Some(one == other),
        (Ready::Point(point), Ready::Polygon(polygon)) | (Ready::Polygon(polygon), Ready::Point(point)) => {
            let location = polygon.locate(*point, &mut scratch);
            *work = work.saturating_sub(scratch.work + 1);
            Some(location != Location::Outside)
        }
        (Ready::Polygon(one), Ready::Polygon(other)) => {
            let Stage::Inner(mut at, location) = *stage else { return Some(false) };
            while at < one.len() {
                if *work == 0 {
                    *stage = Stage::Inner(at, location);
                    return None;
                }
                let looked_at = other.boxes.touching(&one.boxes.get(at), &mut scratch.found);
                *work = work.saturating_sub(1 + looked_at + scratch.found.len());
                let edge = one.edge(at);
                if scratch.found.iter().any(|&found| meets::<S>(edge, other.edge(found))) {
                    return Some(true);
                }
                at += 1;
            }
            let first = |of: &Polygon<S>, within: &Polygon<S>, scratch: &mut Scratch| {
                let vertex = of.vertices.first();
                vertex.is_some_and(|&vertex| within.locate(vertex, scratch) != Location::Outside)
            };
            Some(first(one, other, &mut scratch) || first(other, one, &mut scratch))
        }
    }
}

/// Whether two edges have a point in common.
fn meets<S: Space>((a, b): (S::Vertex, S::Vertex), (c, d): (S::Vertex, S::Vertex)) -> bool {
    let (to_c, to_d) = (S::side(a, b, c), S::side(a, b, d));
    if to_c * to_d > 0 {
        return false;
    }
    let (to_a, to_b) = (S::side(c, d, a), S::side(c, d, b));
    crosses((to_c, to_d), (to_a, to_b))
        || to_c == 0 && S::is_within(a, b, c)
        || to_d == 0 && S::is_within(a, b, d)
        || to_a == 0 && S::is_within(c, d, a)
        || to_b == 0 && S::is_within(c, d, b)
}

/// Whether edges cross between their ends. On a globe lines cross again on the far side, where the sides are
/// the other way round.
fn crosses((to_c, to_d): (i8, i8), (to_a, to_b): (i8, i8)) -> bool {
    to_c != 0 && to_c == -to_d && to_a == -to_b && to_c == to_b
}

enum End {
    Paused,
    /// A piece decides, or edges cross.
    Refuted,
    Over,
}

/// A walk along the border of one polygon through another.
struct Walk<'a, S: Space> {
    walker: &'a Polygon<S>,
    other: &'a Polygon<S>,
    /// The next edge, and where it begins if not on the other's border.
    at: usize,
    location: Location,
    scratch: Scratch,
}

impl<S: Space> Walk<'_, S> {
    /// Walks until `refutes` is true of a piece, or the work is used up.
    fn go(&mut self, work: &mut usize, refutes: impl Fn(Heading) -> bool) -> End {
        let mut stops = Vec::new();
        let mut branches: Vec<Branch<S::Vertex>> = Vec::new();
        while self.at < self.walker.len() {
            if *work == 0 {
                return End::Paused;
            }
            let (a, b) = self.walker.edge(self.at);
            if self.walker.rings.get(self.walker.ring_of(self.at)).is_some_and(|ring| ring.start == self.at) {
                self.location = self.other.locate(a, &mut self.scratch);
            }
            let boxes = self.walker.boxes.get(self.at);
            self.scratch.work += self.other.boxes.touching(&boxes, &mut self.scratch.found);
            if self.find_stops((a, b), &mut stops) {
                return End::Refuted;
            }
            *work =
                work.saturating_sub(1 + std::mem::take(&mut self.scratch.work) + self.scratch.found.len());
            for &stop in &stops {
                branches.clear();
                self.other.branches(&self.scratch.found, stop, &mut branches);
                let piece = match (branches.is_empty(), self.location) {
                    (false, _) => heading::<S>(stop, b, &branches),
                    (true, Location::Inside) => Heading::Inside,
                    (true, _) => Heading::Outside,
                };
                if refutes(piece) {
                    return End::Refuted;
                }
                self.location = if piece == Heading::Inside { Location::Inside } else { Location::Outside };
            }
            self.at += 1;
        }
        End::Over
    }

    /// Where pieces of an edge begin, in order; whether it crosses another edge.
    fn find_stops(&self, (a, b): (S::Vertex, S::Vertex), stops: &mut Vec<S::Vertex>) -> bool {
        stops.clear();
        stops.push(a);
        for &found in &self.scratch.found {
            let (c, d) = self.other.edge(found);
            let (to_c, to_d) = (S::side(a, b, c), S::side(a, b, d));
            if to_c * to_d > 0 {
                continue;
            }
            if crosses((to_c, to_d), (S::side(c, d, a), S::side(c, d, b))) {
                return true;
            }
            if to_c == 0 && c != a && c != b && S::is_within(a, b, c) {
                stops.push(c);
            }
        }
        stops.sort_by(|p, q| S::along(a, b, *p, *q));
        stops.dedup();
        false
    }
}
