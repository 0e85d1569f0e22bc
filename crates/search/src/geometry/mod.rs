//! Shapes, and how they stand to each other: points and polygons in a plane or on the globe.
//!
//! Every question is answered from the signs of determinants (on which side of a line does a point lie?),
//! which are exact for the numbers that are compared. No crossing point is computed, so that rounding
//! never moves a vertex to the other side of an edge. [`Space`] has what differs between the plane and the
//! globe.

mod boxes;
mod polygon;
mod relate;
mod rings;
mod shape;
mod space;
mod validity;
mod wkt;

pub use boxes::Cuboid;
pub use relate::{Relating, Subject, SubjectShape};
pub use rings::Rings;
pub use shape::Shape;
pub use wkt::{POINTS_MAX, TEXT_MAX};

#[cfg(test)]
mod tests;
