//! Geography: positions as 52-bit scores, distances, and which scores an area on the globe has.
//!
//! A score interleaves 26 bits of latitude (the even bits) and longitude (the odd bits), each a fraction of
//! its range, so that a square of a grid of 2^step × 2^step is a range of scores. Areas are searched in the
//! square of their centre and its eight neighbours, on the finest grid whose squares are large enough.
//!
//! Every operation is done on the same numbers in the same order as in Redis, so that its figures come out to
//! the last digit, and its results in the same order.

#[cfg(test)]
mod tests;

use std::ops::{Range, RangeInclusive};

/// The longitudes that there are, degrees.
pub const LONGITUDES: RangeInclusive<f64> = -180.0..=180.0;
/// The latitudes that have a score, degrees: those of Web Mercator, without the poles.
pub const LATITUDES: RangeInclusive<f64> = -85.051_128_78..=85.051_128_78;
/// The latitudes of geohashes as text, degrees.
const TEXT_LATITUDES: RangeInclusive<f64> = -90.0..=90.0;
/// Bits of each coordinate in a score.
const STEPS_MAX: u32 = 26;
/// The Earth's quadratic mean radius in WGS 84.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half of the equator in Web Mercator.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
/// Characters of a geohash as text.
const TEXT_LEN: usize = 11;
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// How much further than computed a point may be taken for, relatively and in metres, before its distance is
/// computed.
const MARGIN: f64 = 1e-9;
const MARGIN_M: f64 = 1e-6;

/// A position, degrees.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Point {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

impl Point {
    /// The position, if it has a score.
    pub fn new(longitude: f64, latitude: f64) -> Option<Point> {
        let is_inside = LONGITUDES.contains(&longitude) && LATITUDES.contains(&latitude);
        is_inside.then_some(Point { longitude, latitude })
    }

    /// The centre of the smallest square around the position of a score. Any number is taken for a score.
    #[inline]
    pub fn from_score(score: f64) -> Point {
        Square { bits: to_bits(score), step: STEPS_MAX }.extent().centre()
    }

    /// The score.
    pub fn score(self) -> u64 {
        Square::around(self, STEPS_MAX, &LATITUDES).bits
    }

    /// The geohash as text, of which the last character is always `0`: there are but 52 bits.
    pub fn geohash(self) -> [u8; TEXT_LEN] {
        let bits = Square::around(self, STEPS_MAX, &TEXT_LATITUDES).bits;
        std::array::from_fn(|at| match at {
            0..10 => ALPHABET[(bits >> (47 - at * 5)) as usize & 31],
            _ => b'0',
        })
    }

    /// The distance by the haversine formula, metres.
    pub fn distance_m(self, other: Point) -> f64 {
        Centre::new(self).distance_m(other)
    }
}

/// The 64 bits that a score is taken for, as a conversion on x86-64 gives them.
#[inline]
fn to_bits(score: f64) -> u64 {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if score < TWO_TO_63 {
        score as i64 as u64
    } else if score < 2.0 * TWO_TO_63 {
        score as u64
    } else {
        0
    }
}

/// The bits of `x` at the even places.
fn spread(x: u32) -> u64 {
    let mut x = u64::from(x);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN),
    ] {
        x = (x | x << shift) & mask;
    }
    x
}

/// The inverse of [`spread`]; the odd places do not matter.
#[inline]
fn gather(x: u64) -> u32 {
    let mut x = x & EVEN;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0xffff_ffff),
    ] {
        x = (x | x >> shift) & mask;
    }
    x as u32
}

/// The places of latitude.
const EVEN: u64 = 0x5555_5555_5555_5555;
/// The places of longitude.
const ODD: u64 = EVEN << 1;

/// A square of the grid of 2^step × 2^step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Square {
    bits: u64,
    step: u32,
}

/// The extent of a square, degrees.
struct Extent {
    longitude: Range<f64>,
    latitude: Range<f64>,
}

impl Extent {
    #[inline]
    fn centre(&self) -> Point {
        let middle = |range: &Range<f64>| (range.start + range.end) / 2.0;
        Point {
            longitude: middle(&self.longitude).clamp(*LONGITUDES.start(), *LONGITUDES.end()),
            latitude: middle(&self.latitude).clamp(*LATITUDES.start(), *LATITUDES.end()),
        }
    }
}

impl Square {
    fn around(point: Point, step: u32, latitudes: &RangeInclusive<f64>) -> Square {
        let side = (1_u64 << step) as f64;
        let place = |coordinate: f64, range: &RangeInclusive<f64>| {
            ((coordinate - range.start()) / (range.end() - range.start()) * side) as u32
        };
        let bits =
            spread(place(point.latitude, latitudes)) | spread(place(point.longitude, &LONGITUDES)) << 1;
        Square { bits, step }
    }

    #[inline]
    fn extent(self) -> Extent {
        let side = (1_u64 << self.step) as f64;
        let range = |place: u32, range: &RangeInclusive<f64>| {
            let scale = range.end() - range.start();
            let edge = |place: u32| range.start() + (f64::from(place) / side) * scale;
            edge(place)..edge(place.wrapping_add(1))
        };
        Extent {
            longitude: range(gather(self.bits >> 1), &LONGITUDES),
            latitude: range(gather(self.bits), &LATITUDES),
        }
    }

    /// The square that lies this many steps east and north of this one, -1 to 1 of each; around the edge if
    /// need be.
    fn neighbour(self, east: i32, north: i32) -> Square {
        let used = u64::MAX >> (64 - self.step * 2);
        let moved = |own: u64, others: u64, by: i32| {
            let (place, gaps) = (self.bits & own, others & used);
            let moved = match by {
                0 => place,
                1.. => place.wrapping_add(gaps + 1),
                _ => (place | gaps).wrapping_sub(gaps + 1),
            };
            moved & own & used
        };
        // Without a move a square keeps even the bits of an edge that are beyond its grid.
        let longitude = if east == 0 { self.bits & ODD } else { moved(ODD, EVEN, east) };
        let latitude = if north == 0 { self.bits & EVEN } else { moved(EVEN, ODD, north) };
        Square { bits: longitude | latitude, step: self.step }
    }

    /// The scores of the positions in the square.
    fn scores(self) -> Range<u64> {
        let shift = (STEPS_MAX - self.step) * 2;
        self.bits << shift..(self.bits + 1) << shift
    }
}

/// A position from which many distances are computed.
#[derive(Copy, Clone, Debug)]
struct Centre {
    point: Point,
    latitude_rad: f64,
    longitude_rad: f64,
    cos_latitude: f64,
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

impl Centre {
    fn new(point: Point) -> Centre {
        let latitude_rad = radians(point.latitude);
        Centre {
            point,
            latitude_rad,
            longitude_rad: radians(point.longitude),
            cos_latitude: latitude_rad.cos(),
        }
    }

    /// The distance of the circles of latitude, metres.
    #[inline]
    fn latitude_distance_m(&self, latitude_rad: f64) -> f64 {
        EARTH_RADIUS_M * (latitude_rad - self.latitude_rad).abs()
    }

    /// The square of half the chord on a sphere of radius 1.
    #[inline]
    fn haversine(&self, latitude_rad: f64, v: f64) -> f64 {
        let u = ((latitude_rad - self.latitude_rad) / 2.0).sin();
        u * u + self.cos_latitude * latitude_rad.cos() * v * v
    }

    #[inline]
    fn distance_m(&self, point: Point) -> f64 {
        let latitude_rad = radians(point.latitude);
        let v = ((radians(point.longitude) - self.longitude_rad) / 2.0).sin();
        if v == 0.0 {
            return self.latitude_distance_m(latitude_rad);
        }
        arc_m(self.haversine(latitude_rad, v))
    }
}

/// The distance on the globe of points whose [`Centre::haversine`] is this, metres.
#[inline]
fn arc_m(haversine: f64) -> f64 {
    // Rounding may have taken antipodes beyond 1.
    2.0 * EARTH_RADIUS_M * haversine.sqrt().min(1.0).asin()
}

/// A shape; lengths are in the unit of its [`Area`].
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// All within a distance.
    Circle {
        /// The distance.
        radius: f64,
    },
    /// All within half the width east and west, and half the height north and south.
    Rectangle {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
    /// All inside a polygon, as if longitudes and latitudes were a plane: see [`Area::of_polygon`].
    Polygon {
        /// Its corners, in order.
        vertices: Vec<Point>,
    },
}

/// A part of the globe around a position.
#[derive(Clone, Debug)]
pub struct Area {
    centre: Centre,
    shape: Shape,
    unit_m: f64,
    /// A [`Centre::haversine`] above this is outside a circle.
    haversine_max: f64,
    /// A distance of the circles of latitude above this is outside a circle.
    latitude_distance_max_m: f64,
}

impl Area {
    /// `unit_m` is the shape's unit in metres. Lengths are not negative.
    pub fn new(centre: Point, shape: Shape, unit_m: f64) -> Area {
        let radius_m = match shape {
            Shape::Circle { radius } => radius * unit_m,
            Shape::Rectangle { .. } | Shape::Polygon { .. } => f64::INFINITY,
        };
        let half_angle = (radius_m * (1.0 + MARGIN) + MARGIN_M) / (2.0 * EARTH_RADIUS_M);
        let is_all = half_angle >= std::f64::consts::FRAC_PI_2;
        Area {
            centre: Centre::new(centre),
            shape,
            unit_m,
            haversine_max: if is_all { f64::INFINITY } else { half_angle.sin().powi(2) },
            latitude_distance_max_m: radius_m * (1.0 + MARGIN) + MARGIN_M,
        }
    }

    /// Around the middle of a polygon's corners, in metres.
    pub fn of_polygon(vertices: Vec<Point>) -> Area {
        let centre = middle(&vertices);
        Area::new(centre, Shape::Polygon { vertices }, 1.0)
    }

    /// A distance in the area's unit.
    pub fn in_unit(&self, distance_m: f64) -> f64 {
        distance_m / self.unit_m
    }

    /// The position and its distance from the centre, metres, if it is inside.
    #[inline]
    pub fn find(&self, score: f64) -> Option<(Point, f64)> {
        let point = Point::from_score(score);
        let distance_m = match &self.shape {
            Shape::Circle { radius } => self.within_circle(point, radius * self.unit_m),
            Shape::Rectangle { width, height } => {
                self.within_rectangle(point, width * self.unit_m, height * self.unit_m)
            }
            Shape::Polygon { vertices } => self.within_polygon(point, vertices),
        };
        Some((point, distance_m?))
    }

    #[inline]
    fn within_circle(&self, point: Point, radius_m: f64) -> Option<f64> {
        let latitude_rad = radians(point.latitude);
        // Most positions outside are found by half the work.
        let latitude_distance_m = self.centre.latitude_distance_m(latitude_rad);
        if latitude_distance_m > self.latitude_distance_max_m {
            return None;
        }
        let v = ((radians(point.longitude) - self.centre.longitude_rad) / 2.0).sin();
        let distance_m = if v == 0.0 {
            latitude_distance_m
        } else {
            let haversine = self.centre.haversine(latitude_rad, v);
            if haversine > self.haversine_max {
                return None;
            }
            arc_m(haversine)
        };
        (distance_m <= radius_m).then_some(distance_m)
    }

    fn within_rectangle(&self, point: Point, width_m: f64, height_m: f64) -> Option<f64> {
        if self.centre.latitude_distance_m(radians(point.latitude)) > height_m / 2.0 {
            return None;
        }
        let abeam = Point { longitude: self.centre.point.longitude, latitude: point.latitude };
        if point.distance_m(abeam) > width_m / 2.0 {
            return None;
        }
        Some(self.centre.distance_m(point))
    }

    fn within_polygon(&self, point: Point, vertices: &[Point]) -> Option<f64> {
        /// Of a smaller sine, Valkey takes the longitudes for the same.
        const SAME: f64 = 1e-15;
        if !encloses(vertices, point) {
            return None;
        }
        let v = ((radians(point.longitude) - self.centre.longitude_rad) / 2.0).sin();
        let latitude_rad = radians(point.latitude);
        Some(match v.abs() <= SAME {
            true => self.centre.latitude_distance_m(latitude_rad),
            false => arc_m(self.centre.haversine(latitude_rad, v)),
        })
    }

    /// The ranges of scores among which everything inside is, in the order in which they are searched: the
    /// centre's square, then north, south, east, west, and between these. None is there twice.
    pub fn score_ranges(&self) -> Vec<Range<u64>> {
        const DIRECTIONS: [(i32, i32); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        if !LATITUDES.contains(&self.centre.point.latitude) {
            // The middle of a polygon around a pole lies in no square.
            return vec![Square { bits: 0, step: 0 }.scores()];
        }
        let bounds = self.bounds();
        let mut step = self.estimated_step();
        let mut square = Square::around(self.centre.point, step, &LATITUDES);
        if step > 1 && !covers_with_neighbours(square, &bounds) {
            step -= 1;
            square = Square::around(self.centre.point, step, &LATITUDES);
        }
        let own = square.extent();
        let is_needed = |(east, north): (i32, i32)| {
            // The coarsest grid is so small that neighbours on both sides are one.
            let reaches = |by: i32, own: &Range<f64>, bounds: &Range<f64>| match by {
                0 => true,
                1.. => own.end <= bounds.end,
                _ => own.start >= bounds.start,
            };
            step < 2
                || (reaches(east, &own.longitude, &bounds.longitude)
                    && reaches(north, &own.latitude, &bounds.latitude))
        };
        let mut squares: Vec<Square> = Vec::with_capacity(DIRECTIONS.len());
        for (east, north) in DIRECTIONS.into_iter().filter(|&direction| is_needed(direction)) {
            let neighbour = square.neighbour(east, north);
            if !squares.contains(&neighbour) {
                squares.push(neighbour);
            }
        }
        squares.into_iter().map(Square::scores).collect()
    }

    /// The outermost longitudes and latitudes, degrees; they may be beyond what there is.
    fn bounds(&self) -> Extent {
        let (width, height) = match &self.shape {
            Shape::Circle { radius } => (*radius, *radius),
            Shape::Rectangle { width, height } => (width / 2.0, height / 2.0),
            Shape::Polygon { vertices } => return bounds_of(vertices),
        };
        let (width_m, height_m) = (self.unit_m * width, self.unit_m * height);
        let Point { longitude, latitude } = self.centre.point;
        let latitude_delta = degrees(height_m / EARTH_RADIUS_M);
        // Meridians are closest at the edge that is nearer to a pole.
        let edge = if latitude < 0.0 { latitude - latitude_delta } else { latitude + latitude_delta };
        let longitude_delta = degrees(width_m / EARTH_RADIUS_M / radians(edge).cos());
        Extent {
            longitude: longitude - longitude_delta..longitude + longitude_delta,
            latitude: latitude - latitude_delta..latitude + latitude_delta,
        }
    }

    /// The step of a grid whose squares are about as large as the area, from its size and distance to the
    /// poles.
    fn estimated_step(&self) -> u32 {
        let radius = match &self.shape {
            Shape::Circle { radius } => *radius,
            Shape::Rectangle { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
            Shape::Polygon { vertices } => {
                let Extent { longitude, latitude } = bounds_of(vertices);
                let corners = [longitude.start, longitude.end].map(|longitude| {
                    [latitude.start, latitude.end].map(|latitude| Point { longitude, latitude })
                });
                corners.iter().flatten().map(|corner| self.centre.distance_m(*corner)).fold(0.0, f64::max)
            }
        };
        let mut radius_m = radius * self.unit_m;
        if radius_m == 0.0 {
            return STEPS_MAX;
        }
        let mut step = -1;
        while radius_m < MERCATOR_MAX_M {
            radius_m *= 2.0;
            step += 1;
        }
        let from_equator = self.centre.point.latitude.abs();
        step -= i32::from(from_equator > 66.0) + i32::from(from_equator > 80.0);
        step.clamp(1, STEPS_MAX as i32) as u32
    }
}

/// The outermost longitudes and latitudes of points, degrees.
fn bounds_of(points: &[Point]) -> Extent {
    let outermost = |of: fn(&Point) -> f64, all: &RangeInclusive<f64>| {
        let (first, last) = (points.iter().map(of), points.iter().map(of));
        first.fold(*all.end(), f64::min)..last.fold(*all.start(), f64::max)
    };
    Extent {
        longitude: outermost(|point| point.longitude, &LONGITUDES),
        latitude: outermost(|point| point.latitude, &LATITUDES),
    }
}

/// Where the sum of the vectors from the Earth's centre to these points shows.
fn middle(points: &[Point]) -> Point {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for point in points {
        let (longitude, latitude) = (radians(point.longitude), radians(point.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    let latitude = z.atan2((x * x + y * y).sqrt());
    Point { longitude: degrees(y.atan2(x)), latitude: degrees(latitude) }
}

/// Whether a ray from the point crosses a polygon's edge an odd number of times (W. R. Franklin's PNPOLY).
fn encloses(vertices: &[Point], point: Point) -> bool {
    let before = vertices.iter().cycle().skip(vertices.len().saturating_sub(1));
    let crosses = |(a, b): &(&Point, &Point)| {
        (a.latitude > point.latitude) != (b.latitude > point.latitude)
            && point.longitude
                < (b.longitude - a.longitude) * (point.latitude - a.latitude) / (b.latitude - a.latitude)
                    + a.longitude
    };
    vertices.iter().zip(before).filter(crosses).count() % 2 == 1
}

/// Whether a square and the eight around it reach as far as these bounds.
fn covers_with_neighbours(square: Square, bounds: &Extent) -> bool {
    let neighbour = |east, north| square.neighbour(east, north).extent();
    neighbour(0, 1).latitude.end >= bounds.latitude.end
        && neighbour(0, -1).latitude.start <= bounds.latitude.start
        && neighbour(1, 0).longitude.end >= bounds.longitude.end
        && neighbour(-1, 0).longitude.start <= bounds.longitude.start
}
