//! The plane and the globe: on which side of a line a point lies, and what else depends on the kind of line.
//!
//! On the globe a line is a great circle through two vertices that are less than half of it apart. Vertices
//! are degrees as clients gave them; where these alone decide (both ends on one meridian, or on the equator),
//! they are compared as such, and elsewhere unit vectors are. `super::shape` sees to it that no edge is half
//! a circle long, and that every edge over a pole has the pole as a vertex.

use std::cmp::Ordering;
use std::fmt::Debug;

use super::boxes::Cuboid;
use super::rings::invalid;
use crate::Error;

/// How the ray from a point to where nothing is meets an edge.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Ray {
    Misses,
    Crosses,
    /// The point is on the edge.
    Begins,
}

/// The operations that differ between a plane and the globe.
pub(super) trait Space {
    /// A place.
    type Vertex: Copy + Debug + PartialEq;

    /// The vertex of two coordinates.
    fn vertex(coordinates: [f64; 2]) -> Self::Vertex;
    /// Its coordinates.
    fn coordinates(vertex: Self::Vertex) -> [f64; 2];
    /// On which side of the line from `a` to `b` a vertex is: 1 left, -1 right, 0 on it.
    fn side(a: Self::Vertex, b: Self::Vertex, c: Self::Vertex) -> i8;
    /// Whether `c`, which is on the line through `a` and `b`, is not outside the edge.
    fn is_within(a: Self::Vertex, b: Self::Vertex, c: Self::Vertex) -> bool;
    /// The order in which an edge from `a` to `b` has two of its points.
    fn along(a: Self::Vertex, b: Self::Vertex, p: Self::Vertex, q: Self::Vertex) -> Ordering;
    /// How the ray from a point meets an edge.
    fn ray(from: Self::Vertex, a: Self::Vertex, b: Self::Vertex) -> Ray;
    /// A box around the ray from a point.
    fn ray_box(from: Self::Vertex) -> Cuboid;
    /// A box around an edge.
    fn edge_box(a: Self::Vertex, b: Self::Vertex) -> Cuboid;
    /// Roughly the middle of an edge.
    fn middle(a: Self::Vertex, b: Self::Vertex) -> Self::Vertex;
    /// The properties of a ring as a whole.
    fn ring(vertices: &[Self::Vertex]) -> Ring;
    /// The vertex that an edge between two points needs on its way.
    ///
    /// # Errors
    /// There is no edge between them.
    fn halfway(a: [f64; 2], b: [f64; 2]) -> Result<Option<[f64; 2]>, Error>;
    /// Whether the ray from a vertex ends in a part of the end of all rays.
    fn meets_jump(from: Self::Vertex, begin: f64, length: f64) -> bool;
    /// Widens the box around a polygon's edges to what lies between them.
    fn bulge(edges: Cuboid, has: &dyn Fn(Self::Vertex) -> bool) -> Cuboid;
}

/// The properties of a ring as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ring {
    /// Whether the ring's inner side is on the left of its edges; without an inner side nothing.
    pub is_left: Option<bool>,
    /// Whether the end of all rays is inside.
    pub has_end: bool,
    /// The parts of the end of all rays that belong to the ring: begin and signed length.
    pub jumps: Vec<(f64, f64)>,
}

pub(super) fn sign(number: f64) -> i8 {
    i8::from(number > 0.0) - i8::from(number < 0.0)
}

/// The plane.
#[derive(Debug)]
pub(super) struct Flat;

/// A coordinate as boxes have it: in the same order, and never so large that an R-tree's areas overflow.
fn flattened(coordinate: f64) -> f64 {
    coordinate.asinh()
}

/// More than the error of `flattened`.
const FLAT_MARGIN: f64 = 1e-9;

impl Flat {
    fn place(vertex: [f64; 2]) -> [f64; 3] {
        // The third dimension has an extent, so that boxes have volumes.
        [flattened(vertex[0]), flattened(vertex[1]), 0.0]
    }

    fn deep(mut cuboid: Cuboid) -> Cuboid {
        cuboid.max[2] = 1.0;
        cuboid
    }
}

impl Space for Flat {
    type Vertex = [f64; 2];

    fn vertex(coordinates: [f64; 2]) -> [f64; 2] {
        coordinates
    }

    fn coordinates(vertex: [f64; 2]) -> [f64; 2] {
        vertex
    }

    fn side(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> i8 {
        if a == b || b == c || c == a {
            return 0;
        }
        // Products of differences stay finite; the sign is that of the same figure, smaller.
        let largest = a.iter().chain(&b).chain(&c).fold(0.0, |max: f64, one| max.max(one.abs()));
        let scale = match largest {
            1e100.. => 1e-200,
            ..1e-100 => 1e200,
            _ => 1.0,
        };
        let scaled = |[x, y]: [f64; 2]| robust::Coord { x: x * scale, y: y * scale };
        sign(robust::orient2d(scaled(a), scaled(b), scaled(c)))
    }

    fn is_within(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> bool {
        (0..2).all(|at| a[at].min(b[at]) <= c[at] && c[at] <= a[at].max(b[at]))
    }

    fn along(a: [f64; 2], b: [f64; 2], p: [f64; 2], q: [f64; 2]) -> Ordering {
        let at = usize::from((b[0] / 2.0 - a[0] / 2.0).abs() < (b[1] / 2.0 - a[1] / 2.0).abs());
        let order = p[at].total_cmp(&q[at]);
        if a[at] <= b[at] { order } else { order.reverse() }
    }

    fn ray(from: [f64; 2], a: [f64; 2], b: [f64; 2]) -> Ray {
        if from == a {
            return Ray::Begins;
        }
        if (a[1] <= from[1]) == (b[1] <= from[1]) {
            let is_on = a[1] == b[1] && a[1] == from[1] && Self::is_within(a, b, from);
            return if is_on { Ray::Begins } else { Ray::Misses };
        }
        let (low, high) = if a[1] < b[1] { (a, b) } else { (b, a) };
        match Self::side(low, high, from) {
            1 => Ray::Crosses,
            0 => Ray::Begins,
            _ => Ray::Misses,
        }
    }

    fn ray_box(from: [f64; 2]) -> Cuboid {
        let mut cuboid = Self::edge_box(from, from);
        cuboid.max[0] = f64::INFINITY;
        cuboid
    }

    fn edge_box(a: [f64; 2], b: [f64; 2]) -> Cuboid {
        Self::deep(Cuboid::around(Self::place(a), Self::place(b), FLAT_MARGIN))
    }

    fn middle(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        [a[0] / 2.0 + b[0] / 2.0, a[1] / 2.0 + b[1] / 2.0]
    }

    fn ring(vertices: &[[f64; 2]]) -> Ring {
        let least = (0..vertices.len()).min_by(|&i, &j| {
            let (a, b) = (vertices[i], vertices[j]);
            a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1]))
        });
        let [x, y] = vertices.first().copied().unwrap_or_default();
        let pairs = vertices.iter().zip(vertices.iter().cycle().skip(1));
        let area: f64 = pairs.map(|(a, b)| (a[0] - x) * (b[1] - y) - (b[0] - x) * (a[1] - y)).sum();
        let is_left = least.filter(|_| area != 0.0).and_then(|at| turn::<Flat>(vertices, at));
        Ring { is_left, ..Ring::default() }
    }

    fn halfway(_: [f64; 2], _: [f64; 2]) -> Result<Option<[f64; 2]>, Error> {
        Ok(None)
    }

    fn meets_jump(_: [f64; 2], _: f64, _: f64) -> bool {
        false
    }

    fn bulge(edges: Cuboid, _: &dyn Fn([f64; 2]) -> bool) -> Cuboid {
        edges
    }
}

/// Whether a ring turns left at its outermost vertex, which it does if its inner side is on the left.
fn turn<S: Space>(vertices: &[S::Vertex], at: usize) -> Option<bool> {
    let before = vertices.get(at.checked_sub(1).unwrap_or(vertices.len().checked_sub(1)?))?;
    let after = vertices.get((at + 1) % vertices.len())?;
    match S::side(*before, *vertices.get(at)?, *after) {
        0 => None,
        side => Some(side > 0),
    }
}

/// The globe.
#[derive(Debug)]
pub(super) struct Spherical;

/// A place on the globe: degrees, and the same as a vector from the centre.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    longitude: f64,
    latitude: f64,
    vector: [f64; 3],
}

impl Place {
    pub fn is_pole(&self) -> bool {
        self.latitude.abs() == 90.0
    }

    fn is_on_equator(&self) -> bool {
        self.latitude == 0.0
    }

    fn has_meridian_of(&self, other: &Place) -> bool {
        self.is_pole() || other.is_pole() || self.longitude == other.longitude
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.latitude == other.latitude && (self.longitude == other.longitude || self.is_pole())
    }
}

/// Longitude into [-180, 180).
pub(super) fn wrapped(longitude: f64) -> f64 {
    if (-180.0..180.0).contains(&longitude) {
        return longitude;
    }
    let wrapped = (longitude + 180.0).rem_euclid(360.0) - 180.0;
    if wrapped >= 180.0 { -180.0 } else { wrapped }
}

/// How far east of one longitude another is, in (-180, 180].
pub(super) fn eastward(from: f64, to: f64) -> f64 {
    let difference = to - from;
    if difference > 180.0 {
        difference - 360.0
    } else if difference <= -180.0 {
        difference + 360.0
    } else {
        difference
    }
}

impl Spherical {
    /// The side of a line along a meridian.
    fn side_of_meridian(a: &Place, b: &Place, c: &Place) -> i8 {
        let meridian = if a.is_pole() { b.longitude } else { a.longitude };
        let east = eastward(meridian, c.longitude);
        if c.is_pole() || east == 180.0 {
            return 0;
        }
        -sign(b.latitude - a.latitude) * sign(east)
    }

    fn side_of_equator(a: &Place, b: &Place, c: &Place) -> i8 {
        sign(eastward(a.longitude, b.longitude)) * sign(c.latitude)
    }

    /// How far east of a vertex another is; poles have every longitude.
    fn step(from: &Place, to: &Place) -> f64 {
        if from.is_pole() || to.is_pole() { 0.0 } else { eastward(from.longitude, to.longitude) }
    }
}

/// The pole over which the arc between two points goes, if it goes over one.
///
/// # Errors
/// The points are the poles: no arc is the shortest.
fn pole_between(a: [f64; 2], b: [f64; 2]) -> Result<Option<[f64; 2]>, Error> {
    let is_pole = |point: [f64; 2]| point[1].abs() == 90.0;
    match (is_pole(a), is_pole(b)) {
        (true, true) => Err(invalid("Geometry has point(s) with invalid coordinate(s)")),
        (false, false) if eastward(a[0], b[0]).abs() == 180.0 => {
            Ok(Some([0.0, if a[1] + b[1] >= 0.0 { 90.0 } else { -90.0 }]))
        }
        _ => Ok(None),
    }
}

/// The area between an edge and the equator, positive if the edge goes east north of it. The radius is 1.
fn area_below(a: &Place, b: &Place) -> f64 {
    let half = (Spherical::step(a, b).to_radians() / 2.0).tan();
    let (a, b) = ((a.latitude.to_radians() / 2.0).tan(), (b.latitude.to_radians() / 2.0).tan());
    2.0 * (half * (a + b)).atan2(1.0 + a * b)
}

impl Space for Spherical {
    type Vertex = Place;

    fn vertex([longitude, latitude]: [f64; 2]) -> Place {
        let ((sin, cos), (z, flat)) = (longitude.to_radians().sin_cos(), latitude.to_radians().sin_cos());
        let vector = match latitude.abs() {
            90.0 => [0.0, 0.0, latitude.signum()],
            _ => [flat * cos, flat * sin, z],
        };
        Place { longitude, latitude, vector }
    }

    fn coordinates(vertex: Place) -> [f64; 2] {
        [vertex.longitude, vertex.latitude]
    }

    fn side(a: Place, b: Place, c: Place) -> i8 {
        if a == b || b == c || c == a {
            return 0;
        }
        for (a, b, c) in [(&a, &b, &c), (&b, &c, &a), (&c, &a, &b)] {
            if a.has_meridian_of(b) {
                return Self::side_of_meridian(a, b, c);
            }
        }
        for (a, b, c) in [(&a, &b, &c), (&b, &c, &a), (&c, &a, &b)] {
            if a.is_on_equator() && b.is_on_equator() {
                return Self::side_of_equator(a, b, c);
            }
        }
        let coord = |[x, y, z]: [f64; 3]| robust::Coord3D { x, y, z };
        let centre = coord([0.0; 3]);
        sign(robust::orient3d(coord(a.vector), coord(b.vector), coord(c.vector), centre))
    }

    fn is_within(a: Place, b: Place, c: Place) -> bool {
        if a == c || b == c {
            return true;
        }
        if a.has_meridian_of(&b) {
            let meridian = if a.is_pole() { b.longitude } else { a.longitude };
            let latitudes = a.latitude.min(b.latitude)..=a.latitude.max(b.latitude);
            return (c.is_pole() || c.longitude == meridian) && latitudes.contains(&c.latitude);
        }
        let (all, part) = (eastward(a.longitude, b.longitude), eastward(a.longitude, c.longitude));
        !c.is_pole() && sign(all) == sign(part) && part.abs() <= all.abs()
    }

    fn along(a: Place, b: Place, p: Place, q: Place) -> Ordering {
        if a.has_meridian_of(&b) {
            let order = p.latitude.total_cmp(&q.latitude);
            return if a.latitude <= b.latitude { order } else { order.reverse() };
        }
        let far = |place: Place| eastward(a.longitude, place.longitude).abs();
        far(p).total_cmp(&far(q))
    }

    /// Rays go along meridians to the North Pole.
    fn ray(from: Place, a: Place, b: Place) -> Ray {
        if from == a {
            return Ray::Begins;
        }
        if a.has_meridian_of(&b) {
            return if Self::is_within(a, b, from) { Ray::Begins } else { Ray::Misses };
        }
        let (to_a, to_b) = (eastward(from.longitude, a.longitude), eastward(from.longitude, b.longitude));
        if (to_a <= 0.0) == (to_b <= 0.0) || (to_a - to_b).abs() > 180.0 {
            return Ray::Misses;
        }
        let (west, east) = if to_a <= 0.0 { (a, b) } else { (b, a) };
        match Self::side(west, east, from) {
            -1 => Ray::Crosses,
            0 => Ray::Begins,
            _ => Ray::Misses,
        }
    }

    fn ray_box(from: Place) -> Cuboid {
        // The meridian in three parts: each is short enough for a box around its chord.
        let [longitude, latitude] = Self::coordinates(from);
        let part = |at: f64| Self::vertex([longitude, latitude + (90.0 - latitude) * at / 3.0]);
        let parts = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)];
        parts.iter().fold(Cuboid::EMPTY, |all, &(a, b)| all.union(Self::edge_box(part(a), part(b))))
    }

    fn edge_box(a: Place, b: Place) -> Cuboid {
        // An arc leaves its chord by at most 1 - cos(angle / 2), and half the chord is sin(angle / 2).
        let chord: f64 = a.vector.iter().zip(&b.vector).map(|(a, b)| (a - b) * (a - b)).sum();
        let quarter = (chord / 4.0).min(1.0);
        let dot: f64 = a.vector.iter().zip(&b.vector).map(|(a, b)| a * b).sum();
        let sagitta = if dot < -0.99 { 1.0 } else { quarter / (1.0 + (1.0 - quarter).sqrt()) };
        Cuboid::around(a.vector, b.vector, sagitta + 1e-12)
    }

    fn middle(a: Place, b: Place) -> Place {
        let [x, y, z]: [f64; 3] = std::array::from_fn(|at| a.vector[at] + b.vector[at]);
        Self::vertex([wrapped(y.atan2(x).to_degrees()), z.atan2(x.hypot(y)).to_degrees()])
    }

    fn ring(vertices: &[Place]) -> Ring {
        let count = vertices.len();
        let next = |at: usize| vertices[(at + 1) % count];
        let before = |at: usize| vertices[(at + count - 1) % count];
        let turned: f64 = (0..count).map(|at| Self::step(&vertices[at], &next(at))).sum();
        let poles: Vec<usize> = (0..count).filter(|&at| vertices[at].is_pole()).collect();
        // With one pole on it the ring comes back there to where it began.
        let jump = |at: usize| match poles.len() {
            1 => -turned,
            _ => eastward(before(at).longitude, next(at).longitude),
        };
        let north = poles.iter().filter(|&&at| vertices[at].latitude > 0.0);
        let jumps = north.map(|&at| (before(at).longitude, jump(at))).collect();
        if poles.is_empty() && turned.abs() > 180.0 {
            // A ring around the axis: its inner side is the smaller one.
            let above_equator: f64 = (0..count).map(|at| area_below(&vertices[at], &next(at))).sum();
            let has_end = turned.signum() * above_equator >= 0.0;
            return Ring { is_left: Some((turned > 0.0) == has_end), has_end, jumps };
        }
        // Longitudes without a gap; the westernmost vertex is outermost.
        let mut unrolled = Vec::with_capacity(count);
        let mut longitude = 0.0;
        for (at, vertex) in vertices.iter().enumerate() {
            unrolled.push((longitude, vertex.latitude, at));
            longitude += if vertex.is_pole() { jump(at) } else { Self::step(vertex, &next(at)) };
        }
        // Sums are not exact, but of the corners on one meridian any will do.
        let turns = unrolled.iter().filter_map(|&(east, north, at)| {
            turn::<Spherical>(vertices, at).map(|is_left| (east, north, is_left))
        });
        let least = turns.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Ring { is_left: least.map(|(_, _, is_left)| is_left), has_end: false, jumps }
    }

    fn halfway(a: [f64; 2], b: [f64; 2]) -> Result<Option<[f64; 2]>, Error> {
        pole_between(a, b)
    }

    fn meets_jump(from: Place, begin: f64, length: f64) -> bool {
        let first = eastward(from.longitude, begin);
        let second = eastward(from.longitude, wrapped(begin + length));
        let second = second + 360.0 * ((first + length - second) / 360.0).round();
        let turns = (first / 360.0).ceil() - (second / 360.0).ceil();
        turns.rem_euclid(2.0) == 1.0
    }

    fn bulge(edges: Cuboid, has: &dyn Fn(Place) -> bool) -> Cuboid {
        // A coordinate is largest on an edge, or where its axis leaves the globe.
        let axes = [[0.0, 0.0], [-180.0, 0.0], [90.0, 0.0], [-90.0, 0.0], [0.0, 90.0], [0.0, -90.0]];
        axes.into_iter()
            .map(Self::vertex)
            .filter(|axis| has(*axis))
            .fold(edges, |all, axis| all.union(Cuboid::around(axis.vector, axis.vector, 1e-12)))
    }
}
