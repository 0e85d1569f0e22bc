//! The shapes of a field: by document, and by their boxes in an R-tree.

use std::sync::Arc;

use hashbrown::HashMap;
use rstar::{AABB, RTree, RTreeObject};

use super::DocId;
use crate::geometry::{Cuboid, Shape};
use crate::query::ast::Relation;
use crate::schema::Coordinates;

/// How far apart boxes of neighbouring ids are in a dimension of their own, so that one of many equal boxes
/// is found without passing over the others. The extent there is 1: insertion goes by space.
const ID_STEP: f64 = 1e-12;

/// Bytes of a leaf in its node.
const NODE_BYTES: usize = size_of::<AABB<[f64; 4]>>() + size_of::<Vec<()>>();

/// A shape's box.
#[derive(Clone, Debug, PartialEq)]
struct Leaf {
    bounds: Cuboid,
    id: DocId,
}

impl RTreeObject for Leaf {
    type Envelope = AABB<[f64; 4]>;

    fn envelope(&self) -> AABB<[f64; 4]> {
        let place = self.id as f64 * ID_STEP;
        envelope(&self.bounds, [place, place + 1.0])
    }
}

fn envelope(bounds: &Cuboid, [low, high]: [f64; 2]) -> AABB<[f64; 4]> {
    let ([x, y, z], [to_x, to_y, to_z]) = (bounds.min, bounds.max);
    AABB::from_corners([x, y, z, low], [to_x, to_y, to_z, high])
}

/// See the [module docs](self).
#[derive(Debug)]
pub struct Shapes {
    coordinates: Coordinates,
    tree: RTree<Leaf>,
    by_id: HashMap<DocId, Arc<Shape>>,
    /// Bytes of the shapes themselves.
    shape_bytes: usize,
}

fn bytes_of(shape: &Shape) -> usize {
    // An `Arc` has two counters.
    size_of::<Shape>() + 2 * size_of::<usize>() + shape.heap_bytes()
}

impl Shapes {
    /// No shapes.
    pub fn new(coordinates: Coordinates) -> Shapes {
        Shapes { coordinates, tree: RTree::new(), by_id: HashMap::new(), shape_bytes: 0 }
    }

    /// How many documents have one.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no document has one.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        // Nodes are three quarters full, and one in five is an inner one.
        self.tree.size() * NODE_BYTES * 8 / 5
            + self.by_id.capacity() * (size_of::<(DocId, Arc<Shape>)>() + 1)
            + self.shape_bytes
    }

    /// Adds a document's shape.
    pub fn add(&mut self, id: DocId, shape: &Arc<Shape>) {
        if self.by_id.insert(id, Arc::clone(shape)).is_none() {
            self.shape_bytes += bytes_of(shape);
            self.tree.insert(Leaf { bounds: shape.bounds(self.coordinates), id });
        }
    }

    /// Takes a document's shape out.
    pub fn remove(&mut self, id: DocId) {
        if let Some(shape) = self.by_id.remove(&id) {
            self.shape_bytes -= bytes_of(&shape);
            self.tree.remove(&Leaf { bounds: shape.bounds(self.coordinates), id });
        }
    }

    /// A document's shape.
    pub fn get(&self, id: DocId) -> Option<&Arc<Shape>> {
        self.by_id.get(&id)
    }

    /// The documents whose boxes alone say that they are found, and those whose shapes must be looked at.
    pub fn candidates(&self, bounds: &Cuboid, relation: Relation) -> (Vec<DocId>, Vec<DocId>) {
        let everywhere = [f64::NEG_INFINITY, f64::INFINITY];
        let touching = self.tree.locate_in_envelope_intersecting(envelope(bounds, everywhere));
        let is_flat = self.coordinates == Coordinates::Flat;
        let contains = |outer: &Cuboid, inner: &Cuboid| !is_flat || outer.surrounds(inner);
        let is_candidate = |leaf: &&Leaf| match relation {
            Relation::Within => contains(bounds, &leaf.bounds),
            Relation::Contains => contains(&leaf.bounds, bounds),
            Relation::Intersects | Relation::Disjoint => true,
        };
        let mut unsure: Vec<DocId> = touching.filter(is_candidate).map(|leaf| leaf.id).collect();
        unsure.sort_unstable();
        if relation != Relation::Disjoint {
            return (Vec::new(), unsure);
        }
        let mut apart: Vec<DocId> =
            self.by_id.keys().filter(|id| unsure.binary_search(id).is_err()).copied().collect();
        apart.sort_unstable();
        (apart, unsure)
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    #[test]
    fn boxes_find_what_a_scan_finds() {
        let seed = Random::from_entropy().next_u64();
        let mut random = Random::seeded(seed);
        for coordinates in [Coordinates::Flat, Coordinates::Spherical] {
            let mut shapes = Shapes::new(coordinates);
            let mut model = std::collections::BTreeMap::new();
            let shape = |random: &mut Random| {
                let (x, y, side) = (random.below(30), random.below(30), 1 + random.below(9));
                let text = match random.below(3) {
                    0 => "POINT(1 1)".to_owned(),
                    1 => format!("POINT({x} {y})"),
                    _ => format!("POLYGON(({x} {y},{x} {0},{1} {0},{1} {y}))", y + side, x + side),
                };
                Arc::new(Shape::parse(text.as_bytes(), coordinates).unwrap())
            };
            for id in 0..600 {
                let new = shape(&mut random);
                shapes.add(id, &new);
                model.insert(id, new.bounds(coordinates));
                if random.below(3) == 0 {
                    let gone = random.below(id + 1);
                    shapes.remove(gone);
                    model.remove(&gone);
                }
                assert_eq!((shapes.len(), shapes.tree.size()), (model.len(), model.len()), "seed {seed}");
            }
            for _ in 0..50 {
                let bounds = shape(&mut random).bounds(coordinates);
                let meets = |other: &Cuboid| {
                    (0..3).all(|at| bounds.min[at] <= other.max[at] && other.min[at] <= bounds.max[at])
                };
                let (near, far): (Vec<DocId>, Vec<DocId>) = model.keys().partition(|id| meets(&model[*id]));
                assert_eq!(
                    shapes.candidates(&bounds, Relation::Intersects),
                    (vec![], near.clone()),
                    "seed {seed}"
                );
                assert_eq!(shapes.candidates(&bounds, Relation::Disjoint), (far, near), "seed {seed}");
            }
            let bytes = shapes.heap_bytes();
            for id in 0..600 {
                shapes.remove(id);
            }
            assert!(
                shapes.is_empty() && shapes.shape_bytes == 0 && shapes.heap_bytes() < bytes,
                "seed {seed}"
            );
        }
    }
}
