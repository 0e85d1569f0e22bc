//! A shape as an index keeps it.

use super::boxes::Cuboid;
use super::polygon::Polygon;
use super::rings::{Rings, invalid};
use super::space::{Flat, Space, Spherical, wrapped};
use super::validity;
use super::wkt::{self, Parsed};
use crate::Error;
use crate::schema::Coordinates;

/// A valid shape: finite coordinates, and of a polygon rings that neither cross nor touch themselves.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A point.
    Point([f64; 2]),
    /// A polygon.
    Polygon(Box<Rings>),
}

impl Shape {
    /// Reads well-known text. Rings are closed and oriented, and lose repeated vertices;
    /// longitudes come to lie in [-180, 180).
    ///
    /// # Errors
    /// Boost.Geometry's words: the text cannot be read, or the shape is not valid.
    pub fn parse(text: &[u8], coordinates: Coordinates) -> Result<Shape, Error> {
        match (wkt::parse(text)?, coordinates) {
            (Parsed::Point(point), Coordinates::Flat) => finite(point).map(Shape::Point),
            (Parsed::Point(point), Coordinates::Spherical) => on_globe(point).map(Shape::Point),
            (Parsed::Polygon(rings), Coordinates::Flat) => polygon::<Flat>(rings, finite),
            (Parsed::Polygon(rings), Coordinates::Spherical) => polygon::<Spherical>(rings, on_globe),
        }
    }

    /// The box around it: shapes whose boxes have no common point have none either.
    pub fn bounds(&self, coordinates: Coordinates) -> Cuboid {
        match (self, coordinates) {
            (Shape::Polygon(rings), _) => rings.bounds,
            (Shape::Point(point), Coordinates::Flat) => Flat::edge_box(*point, *point),
            (Shape::Point(point), Coordinates::Spherical) => {
                let vertex = Spherical::vertex(*point);
                Spherical::edge_box(vertex, vertex)
            }
        }
    }

    /// How many vertices it has.
    pub fn len(&self) -> usize {
        match self {
            Shape::Point(_) => 1,
            Shape::Polygon(rings) => rings.vertices.len(),
        }
    }

    /// Never true: every shape has a vertex.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Shape::Point(_) => 0,
            Shape::Polygon(rings) => {
                size_of::<Rings>() + size_of_val(&*rings.vertices) + size_of_val(&*rings.ends)
            }
        }
    }
}

fn finite(point: [f64; 2]) -> Result<[f64; 2], Error> {
    if point.iter().all(|coordinate| coordinate.is_finite()) {
        // -0 is 0.
        return Ok(point.map(|coordinate| coordinate + 0.0));
    }
    Err(invalid("Geometry has point(s) with invalid coordinate(s)"))
}

fn on_globe(point: [f64; 2]) -> Result<[f64; 2], Error> {
    let [longitude, latitude] = finite(point)?;
    match latitude.abs() {
        90.0 => Ok([0.0, latitude]),
        0.0..90.0 => Ok([wrapped(longitude), latitude]),
        _ => Err(invalid("Geometry has point(s) with invalid coordinate(s)")),
    }
}

fn polygon<S: Space>(
    rings: Vec<Vec<[f64; 2]>>,
    check: fn([f64; 2]) -> Result<[f64; 2], Error>,
) -> Result<Shape, Error> {
    let few = || invalid("Geometry has too few points");
    if rings.is_empty() {
        return Err(few());
    }
    let mut vertices = Vec::new();
    let mut ends = Vec::with_capacity(rings.len());
    for (number, points) in rings.into_iter().enumerate() {
        let mut points = points.into_iter().map(check).collect::<Result<Vec<_>, Error>>()?;
        if points.len() > 1 && points.first() == points.last() {
            points.pop();
        }
        if points.len() < 3 {
            return Err(few());
        }
        let mut ring = over_poles::<S>(points)?;
        validity::check_ring::<S>(&ring)?;
        let places: Vec<S::Vertex> = ring.iter().map(|&point| S::vertex(point)).collect();
        let Some(is_left) = S::ring(&places).is_left else {
            return Err(invalid("Geometry has wrong orientation"));
        };
        // Holes lie on the other side.
        if is_left != (number == 0) {
            ring.reverse();
        }
        vertices.append(&mut ring);
        ends.push(u32::try_from(vertices.len()).unwrap_or(u32::MAX));
    }
    let mut rings = Rings { vertices: vertices.into(), ends: ends.into(), bounds: Cuboid::EMPTY };
    let polygon = Polygon::<S>::new(&rings);
    validity::check_polygon(&polygon)?;
    rings.bounds = polygon.bounds();
    Ok(Shape::Polygon(Box::new(rings)))
}

/// A ring without repetitions, in which every edge that goes over a pole stops there.
fn over_poles<S: Space>(mut points: Vec<[f64; 2]>) -> Result<Vec<[f64; 2]>, Error> {
    points.dedup();
    if points.first() == points.last() {
        points.pop();
    }
    if points.len() < 3 {
        return Err(invalid("Geometry has wrong topological dimension"));
    }
    let mut ring = Vec::with_capacity(points.len());
    for (at, &point) in points.iter().enumerate() {
        let next = points[(at + 1) % points.len()];
        ring.push(point);
        ring.extend(S::halfway(point, next)?);
    }
    Ok(ring)
}
