//! Whether a polygon is one: the checks of Boost.Geometry, in their order and words.
//!
//! A ring neither crosses nor touches itself; rings touch in points at most, and such touches do not cut
//! the polygon in two; holes lie in the outer ring and not in each other.

use super::polygon::{Heading, Polygon, Scratch, heading};
use super::rings::invalid;
use super::space::Space;
use crate::Error;
use martlet_base::number::{NumberBuffer, format_f64_significant};

/// The most pairs of edges that are compared: shapes of which most edges overlap most others are refused.
const PAIRS_MAX: usize = 1 << 20;

/// A place as Boost.Geometry writes it.
fn show<S: Space>(vertex: S::Vertex) -> String {
    let [x, y] = S::coordinates(vertex).map(|coordinate| {
        let mut buffer = NumberBuffer::new();
        String::from_utf8_lossy(format_f64_significant(coordinate, 6, &mut buffer)).into_owned()
    });
    format!("({x}, {y})")
}

/// Checks that a ring, of which no two neighbours are equal, does not turn back on itself.
///
/// # Errors
/// It does.
pub(super) fn check_ring<S: Space>(ring: &[[f64; 2]]) -> Result<(), Error> {
    let vertex = |at: usize| S::vertex(ring[at % ring.len()]);
    for at in 1..=ring.len() {
        let (before, here, next) = (vertex(at + ring.len() - 1), vertex(at), vertex(at + 1));
        let is_back = before == next || S::is_within(here, before, next) || S::is_within(here, next, before);
        if S::side(before, here, next) == 0 && is_back {
            let here = show::<S>(here);
            return Err(invalid(format_args!(
                "Geometry has spikes. A spike point was found with apex at {here}"
            )));
        }
    }
    Ok(())
}

fn crossing<S: Space>(at: S::Vertex) -> Error {
    let at = show::<S>(at);
    invalid(format_args!(
        "Geometry has invalid self-intersections. A self-intersection point was found at {at}"
    ))
}

/// Checks how the rings of a polygon stand to themselves and to each other.
///
/// # Errors
/// The polygon is not valid.
pub(super) fn check_polygon<S: Space>(polygon: &Polygon<S>) -> Result<(), Error> {
    let mut touches = Vec::new();
    let mut scratch = Scratch::default();
    let mut pairs = 0;
    for edge in 0..polygon.len() {
        scratch.work += polygon.boxes.touching(&polygon.boxes.get(edge), &mut scratch.found);
        pairs += scratch.found.len();
        if pairs.max(scratch.work / 16) > PAIRS_MAX {
            return Err(invalid("Geometry has too many edges near each other"));
        }
        let (a, b) = polygon.edge(edge);
        let from = scratch.found.partition_point(|&other| other <= edge);
        for &other in &scratch.found[from..] {
            if polygon.next[edge] as usize == other || polygon.next[other] as usize == edge {
                continue;
            }
            if let Some(at) = check_pair(polygon, (edge, a, b), other)? {
                touches.push((polygon.ring_of(edge), polygon.ring_of(other), at));
            }
        }
    }
    if polygon.rings.len() > 1 {
        check_touches(polygon, &touches)?;
        check_holes(polygon, &mut scratch)?;
        check_connected::<S>(polygon.rings.len(), &touches)?;
    }
    Ok(())
}

/// Where two edges that are no neighbours touch.
///
/// # Errors
/// They cross or overlap, or touch and are of one ring.
fn check_pair<S: Space>(
    polygon: &Polygon<S>,
    (edge, a, b): (usize, S::Vertex, S::Vertex),
    other: usize,
) -> Result<Option<S::Vertex>, Error> {
    let (c, d) = polygon.edge(other);
    let (to_c, to_d) = (S::side(a, b, c), S::side(a, b, d));
    if to_c * to_d > 0 {
        return Ok(None);
    }
    let (to_a, to_b) = (S::side(c, d, a), S::side(c, d, b));
    if to_c * to_d < 0 && to_a * to_b < 0 {
        return if to_c == to_b { Err(crossing::<S>(S::middle(a, b))) } else { Ok(None) };
    }
    let ends = [(c, to_c, (a, b)), (d, to_d, (a, b)), (a, to_a, (c, d)), (b, to_b, (c, d))];
    let mut touch = None;
    for (end, side, (from, to)) in ends {
        if side != 0 || !S::is_within(from, to, end) {
            continue;
        }
        match touch {
            Some(at) if at != end => return Err(crossing::<S>(end)),
            _ => touch = Some(end),
        }
    }
    match touch {
        Some(at) if polygon.ring_of(edge) == polygon.ring_of(other) => Err(crossing::<S>(at)),
        touch => Ok(touch),
    }
}

type Touch<V> = (usize, usize, V);

/// The edges of one ring that begin or end in a place, or go through it.
fn branches_of<S: Space>(polygon: &Polygon<S>, ring: usize, at: S::Vertex) -> Vec<(S::Vertex, bool)> {
    let (mut found, mut branches) = (Vec::new(), Vec::new());
    polygon.boxes.touching(&S::edge_box(at, at), &mut found);
    let range = polygon.rings.get(ring).cloned().unwrap_or_default();
    found.retain(|edge| range.contains(edge));
    polygon.branches(&found, at, &mut branches);
    branches
}

/// Checks that no ring goes through another where they touch.
fn check_touches<S: Space>(polygon: &Polygon<S>, touches: &[Touch<S::Vertex>]) -> Result<(), Error> {
    for &(ring, other, at) in touches {
        let here = branches_of(polygon, ring, at);
        let there = branches_of(polygon, other, at);
        let mut sides = there.iter().map(|&(towards, _)| heading::<S>(at, towards, &here));
        let first = sides.next();
        if sides.any(|side| Some(side) != first) || matches!(first, Some(Heading::Along { .. })) {
            return Err(crossing::<S>(at));
        }
    }
    Ok(())
}

/// Checks that holes lie inside the outer ring, and in no other hole.
fn check_holes<S: Space>(polygon: &Polygon<S>, scratch: &mut Scratch) -> Result<(), Error> {
    for (hole, range) in polygon.rings.iter().enumerate().skip(1) {
        // A vertex that no other ring touches; failing this, the middle of an edge.
        let around = range.clone().find_map(|at| rings_around(polygon, hole, polygon.vertices[at], scratch));
        let around = around.or_else(|| {
            let (a, b) = polygon.edge(range.start);
            rings_around(polygon, hole, S::middle(a, b), scratch)
        });
        let Some(around) = around else { continue };
        if !around.contains(&0) {
            return Err(invalid("Geometry has interior rings defined outside the outer boundary"));
        }
        if around.len() > 1 {
            return Err(invalid("Geometry has nested interior rings"));
        }
    }
    Ok(())
}

/// The rings other than `own` that a vertex is in; none if it is on one of them.
fn rings_around<S: Space>(
    polygon: &Polygon<S>,
    own: usize,
    vertex: S::Vertex,
    scratch: &mut Scratch,
) -> Option<Vec<usize>> {
    use super::space::Ray;

    polygon.boxes.touching(&S::ray_box(vertex), &mut scratch.found);
    let mut met: Vec<usize> = Vec::new();
    for &edge in &scratch.found {
        let ring = polygon.ring_of(edge);
        let (a, b) = polygon.edge(edge);
        match S::ray(vertex, a, b) {
            Ray::Crosses => met.push(ring),
            Ray::Begins if ring != own => return None,
            _ => {}
        }
    }
    met.extend(polygon.ends.iter().enumerate().filter(|(_, is_in)| **is_in).map(|(ring, _)| ring));
    let jumps = polygon.jumps.iter().filter(|&&(_, from, length)| S::meets_jump(vertex, from, length));
    met.extend(jumps.map(|&(ring, ..)| ring));
    met.retain(|&ring| ring != own);
    met.sort_unstable();
    let odd = met.chunk_by(|a, b| a == b).filter(|run| run.len() % 2 == 1);
    Some(odd.filter_map(|run| run.first().copied()).collect())
}

/// Checks that touches do not cut the polygon in two: rings and touched places form no circle.
fn check_connected<S: Space>(rings: usize, touches: &[Touch<S::Vertex>]) -> Result<(), Error> {
    let mut ties: Vec<([u64; 2], usize)> = Vec::with_capacity(touches.len() * 2);
    for &(ring, other, at) in touches {
        let place = S::coordinates(at).map(f64::to_bits);
        ties.extend([(place, ring), (place, other)]);
    }
    ties.sort_unstable();
    ties.dedup();
    let mut parents: Vec<usize> = (0..rings).collect();
    for place in ties.chunk_by(|a, b| a.0 == b.0) {
        parents.push(parents.len());
        let place_node = parents.len() - 1;
        for &(_, ring) in place {
            let (one, other) = (root(&mut parents, ring), root(&mut parents, place_node));
            if one == other {
                return Err(invalid("Geometry has disconnected interior"));
            }
            parents[one] = other;
        }
    }
    Ok(())
}

fn root(parents: &mut [usize], mut node: usize) -> usize {
    while parents[node] != node {
        parents[node] = parents[parents[node]];
        node = parents[node];
    }
    node
}
