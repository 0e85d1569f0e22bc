//! The rings of a polygon as an index keeps them.

use super::boxes::Cuboid;
use crate::Error;

/// The rings of a polygon, the outer one first. The polygon is on the left of each; no vertex is repeated at
/// the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Rings {
    pub(super) vertices: Box<[[f64; 2]]>,
    /// Where each ring ends.
    pub(super) ends: Box<[u32]>,
    pub(super) bounds: Cuboid,
}

impl Rings {
    /// Each ring's vertices.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[[f64; 2]]> {
        let mut begin = 0;
        self.ends.iter().filter_map(move |&end| {
            let range = begin..end as usize;
            begin = end as usize;
            self.vertices.get(range)
        })
    }
}

pub(super) fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::new(format!("invalid geometry: {reason}"))
}
