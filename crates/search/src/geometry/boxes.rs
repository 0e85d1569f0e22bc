//! Boxes around shapes, and around runs of edges. Shapes whose boxes are apart are apart.

use std::ops::Range;

/// Neighbours that a box of the next level covers.
const FAN: usize = 8;

/// More than the error of a coordinate in a plane.
const SLACK: f64 = 1e-9;

/// A box in three dimensions. Both ends belong to it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Cuboid {
    /// The lower end of each dimension.
    pub min: [f64; 3],
    /// The upper end of each dimension.
    pub max: [f64; 3],
}

impl Cuboid {
    /// A box without points.
    pub const EMPTY: Cuboid = Cuboid { min: [f64::INFINITY; 3], max: [f64::NEG_INFINITY; 3] };

    /// The smallest box around both points, grown by `margin` on all sides.
    pub(super) fn around(a: [f64; 3], b: [f64; 3], margin: f64) -> Cuboid {
        let min = std::array::from_fn(|at| a[at].min(b[at]) - margin);
        Cuboid { min, max: std::array::from_fn(|at| a[at].max(b[at]) + margin) }
    }

    /// The smallest box around both.
    pub(super) fn union(self, other: Cuboid) -> Cuboid {
        let min = std::array::from_fn(|at| self.min[at].min(other.min[at]));
        Cuboid { min, max: std::array::from_fn(|at| self.max[at].max(other.max[at])) }
    }

    /// Whether the boxes of two shapes in a plane allow the second to be within the first. On the globe boxes
    /// are wider than shapes, by different amounts, and say nothing of that.
    pub fn surrounds(&self, inner: &Cuboid) -> bool {
        (0..2).all(|at| self.min[at] - SLACK <= inner.min[at] && inner.max[at] <= self.max[at] + SLACK)
    }

    /// Whether they have a point in common.
    pub(super) fn touches(&self, other: &Cuboid) -> bool {
        (0..3).all(|at| self.min[at] <= other.max[at] && other.min[at] <= self.max[at])
    }
}

/// The boxes of edges in the order of their rings. Neighbours are near each other, so that boxes of eight, of
/// 64 and so on are small; nothing is sorted.
#[derive(Debug)]
pub(super) struct BoxTree {
    /// The lowest level has a box for each edge, each other one for eight of the level below.
    levels: Vec<Vec<Cuboid>>,
}

impl BoxTree {
    pub fn new(boxes: Vec<Cuboid>) -> BoxTree {
        let mut levels = vec![boxes];
        while let Some(last) = levels.last().filter(|last| last.len() > FAN) {
            let next = last.chunks(FAN).map(|few| few.iter().fold(Cuboid::EMPTY, |all, one| all.union(*one)));
            levels.push(next.collect());
        }
        BoxTree { levels }
    }

    /// The box of one edge.
    pub fn get(&self, edge: usize) -> Cuboid {
        self.levels.first().and_then(|boxes| boxes.get(edge)).copied().unwrap_or(Cuboid::EMPTY)
    }

    /// The box around all.
    pub fn all(&self) -> Cuboid {
        self.levels.last().into_iter().flatten().fold(Cuboid::EMPTY, |all, one| all.union(*one))
    }

    /// Puts the edges whose boxes touch one into `found`, ascending; the number of boxes that were looked at.
    pub fn touching(&self, with: &Cuboid, found: &mut Vec<usize>) -> usize {
        found.clear();
        let top = self.levels.len().saturating_sub(1);
        self.descend(top, 0..self.levels.get(top).map_or(0, Vec::len), with, found)
    }

    /// The depth is that of the tree: at most 5 for [`super::POINTS_MAX`] edges.
    fn descend(&self, level: usize, range: Range<usize>, with: &Cuboid, found: &mut Vec<usize>) -> usize {
        let Some(boxes) = self.levels.get(level) else { return 0 };
        let range = range.start..range.end.min(boxes.len());
        let mut looked_at = range.len();
        for at in range {
            if !boxes.get(at).is_some_and(|one| one.touches(with)) {
                continue;
            }
            match level.checked_sub(1) {
                None => found.push(at),
                Some(below) => looked_at += self.descend(below, at * FAN..(at + 1) * FAN, with, found),
            }
        }
        looked_at
    }
}
