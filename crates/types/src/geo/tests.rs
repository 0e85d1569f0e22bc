//! Scores and distances as in redis-server, and areas against a look at every position.

use super::*;
use proptest::prelude::*;

fn point(longitude: f64, latitude: f64) -> Point {
    Point::new(longitude, latitude).unwrap()
}

fn any_point() -> impl Strategy<Value = Point> {
    let latitudes = prop_oneof![-85.051_128_78..85.051_128_78, 65.0..67.0, 79.0..85.0, Just(-85.051_128_78)];
    let longitudes = prop_oneof![-180.0..180.0, 179.0..180.0, Just(-180.0), Just(180.0), Just(0.0)];
    (longitudes, latitudes).prop_map(|(longitude, latitude)| point(longitude, latitude))
}

#[test]
fn scores_and_texts_are_those_of_redis() {
    let palermo = point(13.361389, 38.115556);
    let catania = point(15.087269, 37.502669);
    assert_eq!((palermo.score(), catania.score()), (3_479_099_956_230_698, 3_479_447_370_796_909));
    let (palermo, catania) =
        (Point::from_score(3_479_099_956_230_698.0), Point::from_score(3_479_447_370_796_909.0));
    assert_eq!((&palermo.geohash(), &catania.geohash()), (b"sqc8b49rny0", b"sqdtr74hyu0"));
    assert_eq!(palermo.distance_m(catania), 166_274.151_569_600_33);
}

#[test]
fn positions_outside_the_map_have_no_score() {
    for (longitude, latitude) in
        [(180.000_01, 0.0), (0.0, 85.051_128_79), (f64::NAN, 0.0), (0.0, f64::NEG_INFINITY)]
    {
        assert_eq!(Point::new(longitude, latitude), None, "{longitude} {latitude}");
    }
}

#[test]
fn any_number_is_taken_for_a_score() {
    for score in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e19, 1e300, f64::MIN_POSITIVE] {
        let point = Point::from_score(score);
        assert!(LONGITUDES.contains(&point.longitude) && LATITUDES.contains(&point.latitude), "{score}");
    }
}

/// All of `points` that are within the shape, by their distances alone.
fn inside(points: &[Point], centre: Point, shape: Shape) -> Vec<u64> {
    let is_inside = |point: &Point| match shape {
        Shape::Circle { radius } => centre.distance_m(*point) <= radius,
        Shape::Polygon { .. } => unreachable!("it has tests of its own"),
        Shape::Rectangle { width, height } => {
            let level = Point { longitude: centre.longitude, latitude: point.latitude };
            centre.distance_m(level) <= height / 2.0 && point.distance_m(level) <= width / 2.0
        }
    };
    let mut scores: Vec<u64> = points
        .iter()
        .map(|point| point.score())
        .filter(|&score| is_inside(&Point::from_score(score as f64)))
        .collect();
    scores.sort_unstable();
    scores
}

fn found(points: &[Point], area: &Area) -> Vec<u64> {
    let ranges = area.score_ranges();
    let mut scores: Vec<u64> = points
        .iter()
        .map(|point| point.score())
        .filter(|score| ranges.iter().any(|range| range.contains(score)))
        .filter(|&score| area.find(score as f64).is_some())
        .collect();
    scores.sort_unstable();
    scores
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn a_score_tells_the_position_to_a_metre(original in any_point()) {
        let decoded = Point::from_score(original.score() as f64);
        prop_assert!(original.distance_m(decoded) < 1.0, "{original:?} {decoded:?}");
    }

    #[test]
    fn bits_spread_and_gather(x: u32, noise: u64) {
        prop_assert_eq!(gather(spread(x) | noise & ODD), x);
    }

    #[test]
    fn areas_away_from_the_edges_have_all_that_is_inside(
        longitude in -60.0..60.0,
        latitude in -60.0..60.0,
        offsets in proptest::collection::vec((-8.0..8.0, -8.0..8.0), 1..100),
        radius in 1.0..700_000.0,
        height in prop::option::of(1.0..900_000.0),
    ) {
        let centre = point(longitude, latitude);
        let points: Vec<Point> = offsets.iter().map(|(x, y)| point(longitude + x, latitude + y)).collect();
        let shape = match height {
            Some(height) => Shape::Rectangle { width: radius, height },
            None => Shape::Circle { radius },
        };
        let area = Area::new(centre, shape.clone(), 1.0);
        prop_assert_eq!(found(&points, &area), inside(&points, centre, shape));
    }

    #[test]
    fn ranges_are_apart_and_what_is_found_is_inside(
        centre in any_point(),
        points in proptest::collection::vec(any_point(), 1..50),
        magnitude in 0.0..8.0,
    ) {
        let shape = Shape::Circle { radius: 10.0_f64.powf(magnitude) };
        let area = Area::new(centre, shape.clone(), 1.0);
        let mut ranges = area.score_ranges();
        ranges.sort_unstable_by_key(|range| range.start);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
        let inside = inside(&points, centre, shape);
        prop_assert!(found(&points, &area).iter().all(|score| inside.contains(score)));
    }
}

fn polygon(corners: &[(f64, f64)]) -> Area {
    Area::of_polygon(corners.iter().map(|&(x, y)| Point::new(x, y).unwrap()).collect())
}

#[test]
fn polygons_are_told_from_their_surroundings() {
    let notched = polygon(&[(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (5.0, 2.0), (0.0, 10.0)]);
    for (longitude, latitude, is_inside) in
        [(1.0, 5.0, true), (9.0, 5.0, true), (5.0, 5.0, false), (5.0, 1.0, true), (11.0, 5.0, false)]
    {
        let score = Point::new(longitude, latitude).unwrap().score() as f64;
        assert_eq!(notched.find(score).is_some(), is_inside, "{longitude} {latitude}");
    }
    // The middle of its corners lies beyond all squares.
    let polar = polygon(&[(-180.0, 80.0), (-90.0, 80.0), (0.0, 80.0), (90.0, 85.0)]);
    let ranges = polar.score_ranges();
    assert!(ranges.len() == 1 && ranges.iter().all(|all| (all.start, all.end) == (0, 1 << 52)));
    assert!(polygon(&[(1.0, 1.0); 3]).find(Point::new(1.0, 1.0).unwrap().score() as f64).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// Whatever lies inside a polygon is in one of the ranges that are searched.
    #[test]
    fn nothing_inside_a_polygon_is_missed(
        corners in prop::collection::vec((-20.0..20.0_f64, -20.0..20.0_f64), 3..8),
        points in prop::collection::vec((-20.0..20.0_f64, -20.0..20.0_f64), 1..50),
        (east, north) in (-150.0..150.0_f64, -60.0..60.0_f64),
        size in 0.0001..1.0_f64,
    ) {
        let place = |&(x, y): &(f64, f64)| Point::new(east + x * size, north + y * size).unwrap();
        let area = Area::of_polygon(corners.iter().map(place).collect());
        let ranges = area.score_ranges();
        for point in &points {
            let score = place(point).score();
            let is_searched = ranges.iter().any(|range| range.contains(&score));
            prop_assert!(area.find(score as f64).is_none() || is_searched);
        }
    }
}
