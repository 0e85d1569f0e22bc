//! Shapes beside what RediSearch answers, and beside sets of unit squares.

use std::collections::BTreeSet;

use martlet_base::random::Random;

use super::space::{Flat, Space, Spherical};
use super::*;
use crate::query::ast::Relation;
use crate::schema::Coordinates;

fn shape(text: &str, coordinates: Coordinates) -> Shape {
    Shape::parse(text.as_bytes(), coordinates).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str, coordinates: Coordinates) -> String {
    Shape::parse(text.as_bytes(), coordinates).expect_err(text).text().to_owned()
}

/// Whether a document's shape stands to a query's in this way, by steps of the least work.
fn relates(document: &Shape, query: &Shape, coordinates: Coordinates, relation: Relation) -> bool {
    let subject = Subject::new(query, coordinates, relation);
    let mut relating = Relating::new(&subject, document, coordinates);
    let by_steps = (0..1_000_000).find_map(|_| relating.step(&subject, &mut 1)).expect("an end");
    let at_once = Relating::new(&subject, document, coordinates).step(&subject, &mut { usize::MAX });
    assert_eq!(at_once, Some(by_steps));
    by_steps
}

/// WITHIN, CONTAINS, INTERSECTS, as letters.
fn relations(document: &str, query: &str, coordinates: Coordinates) -> String {
    let (document, query) = (shape(document, coordinates), shape(query, coordinates));
    let is = |relation| relates(&document, &query, coordinates, relation);
    assert_ne!(is(Relation::Intersects), is(Relation::Disjoint));
    let all = [(Relation::Within, 'w'), (Relation::Contains, 'c'), (Relation::Intersects, 'i')];
    all.into_iter().filter(|&(relation, _)| is(relation)).map(|(_, letter)| letter).collect()
}

const SQUARE: &str = "POLYGON((0 0, 0 10, 10 10, 10 0, 0 0))";
const HOLED: &str = "POLYGON((0 0, 0 10, 10 10, 10 0, 0 0),(4 4, 6 4, 6 6, 4 6, 4 4))";

#[test]
fn points_and_polygons_stand_to_each_other_as_in_redisearch() {
    for coordinates in [Coordinates::Flat, Coordinates::Spherical] {
        for (document, query, wanted) in [
            ("POINT(5 5)", "POINT(5 5)", "i"),
            ("POINT(5 5)", "POINT(5 6)", ""),
            ("POINT(5 5)", SQUARE, "wi"),
            (SQUARE, "POINT(5 5)", "ci"),
            ("POINT(0 5)", SQUARE, "i"),
            ("POINT(0 0)", SQUARE, "i"),
            ("POINT(11 5)", SQUARE, ""),
            ("POINT(5 5)", HOLED, ""),
            ("POINT(4 5)", HOLED, "i"),
            ("POINT(3 5)", HOLED, "wi"),
            (SQUARE, SQUARE, "wci"),
            (HOLED, SQUARE, "wi"),
            (SQUARE, HOLED, "ci"),
            // The hole's own square touches the border from within the hole.
            ("POLYGON((4 4, 6 4, 6 6, 4 6))", HOLED, "i"),
            ("POLYGON((4.5 4.5, 5 4.5, 5 5))", HOLED, ""),
            ("POLYGON((3 3, 7 3, 7 7, 3 7))", HOLED, "i"),
            ("POLYGON((1 1, 3 1, 3 3, 1 3))", HOLED, "wi"),
            ("POLYGON((0 0, 3 1, 3 3, 1 3))", HOLED, "wi"),
            ("POLYGON((10 0, 20 0, 20 10, 10 10))", SQUARE, "i"),
            ("POLYGON((10 10, 20 10, 20 20, 10 20))", SQUARE, "i"),
            ("POLYGON((5 5, 20 5, 20 20, 5 20))", SQUARE, "i"),
            ("POLYGON((20 20, 30 20, 30 30))", SQUARE, ""),
        ] {
            assert_eq!(relations(document, query, coordinates), wanted, "{document} {query} {coordinates:?}");
        }
    }
}

/// RediSearch 2.10.5's words; the errors about crossings end with their place here.
#[test]
fn shapes_that_are_not_valid_are_refused() {
    let crossing = "Geometry has invalid self-intersections. A self-intersection point was found at ";
    for (text, wanted) in [
        ("POINT(nan 1)", "Geometry has point(s) with invalid coordinate(s)"),
        ("POINT(1 -inf)", "Geometry has point(s) with invalid coordinate(s)"),
        ("POINT EMPTY", "Geometry has point(s) with invalid coordinate(s)"),
        ("POLYGON EMPTY", "Geometry has too few points"),
        ("POLYGON(())", "Geometry has too few points"),
        ("POLYGON((0 0, 1 1))", "Geometry has too few points"),
        ("POLYGON((0 0, 1 1, 0 0))", "Geometry has too few points"),
        ("POLYGON((0 0, 0, 1 1, 0 0))", "Geometry has wrong topological dimension"),
        ("POLYGON((0 0, 10 10, 0 10, 20 0))", crossing),
        ("POLYGON((0 0, 4 4, 0 8, 8 8, 4 4, 8 0))", crossing),
        ("POLYGON((0 0, 0 8, 4 4, 8 8, 8 0, 4 4))", crossing),
        ("POLYGON((0 0, 0 10, 10 10, 10 0),(0 1, 0 2, 2 2, 2 1))", crossing),
        ("POLYGON((0 0, 0 10, 10 10, 10 0),(-1 1, 0 2, 2 2, 2 1))", crossing),
        ("POLYGON((0 0, 0 10, 10 10, 10 0),(0 0, 0 10, 10 10, 10 0))", crossing),
        ("POLYGON((0 0, 0 10, 10 10, 10 0),(1 1, 1 3, 3 3, 3 1),(3 1, 3 3, 4 4))", crossing),
        (
            "POLYGON((0 0, 0 10, 10 10, 10 0),(20 20, 20 21, 21 21))",
            "Geometry has interior rings defined outside the outer boundary",
        ),
        (
            "POLYGON((0 0, 0 10, 10 10, 10 0),(1 1, 1 8, 8 8, 8 1),(2 2, 2 3, 3 3))",
            "Geometry has nested interior rings",
        ),
        ("POLYGON((0 0, 0 1, 0 2, 0 3))", "Geometry has spikes. A spike point was found with apex at (0, 3)"),
    ] {
        for coordinates in [Coordinates::Flat, Coordinates::Spherical] {
            let error = refused(text, coordinates);
            let wanted = format!("invalid geometry: {wanted}");
            assert!(error.starts_with(&wanted), "{text} {coordinates:?}: {error}");
        }
    }
    for (text, wanted) in [
        ("POLYGON((0 0, 10 10, 0 10, 10 0))", "Geometry has wrong orientation"),
        (
            "POLYGON((0 0, 0 10, 10 10, 10 0, 5 0, 5 5, 5 0))",
            "Geometry has spikes. A spike point was found with apex at (5, 5)",
        ),
        ("POLYGON((0 0, 0 10, 10 10, 10 0),(0 5, 5 10, 5 5))", "Geometry has disconnected interior"),
    ] {
        assert_eq!(refused(text, Coordinates::Flat), format!("invalid geometry: {wanted}"));
    }
    let latitude = refused("POINT(0 91)", Coordinates::Spherical);
    assert_eq!(latitude, "invalid geometry: Geometry has point(s) with invalid coordinate(s)");
}

#[test]
fn rings_that_touch_in_points_are_valid() {
    for text in [
        "POLYGON((0 0, 0 5, 0 10, 10 10, 10 0))",
        "POLYGON((0 0, 0 0, 0 10, 10 10, 10 0))",
        "POLYGON((0 0, 0 10, 10 10, 10 0),(0 0, 1 2, 2 2, 2 1))",
        "POLYGON((0 0, 0 10, 10 10, 10 0),(0 1, 1 2, 2 2, 2 1))",
        "POLYGON((0 0, 0 10, 10 10, 10 0),(1 1, 1 3, 3 3, 3 1),(3 3, 3 4, 4 4))",
    ] {
        shape(text, Coordinates::Flat);
        shape(text, Coordinates::Spherical);
    }
    shape("POLYGON((1e308 0, 0 1e308, -1e308 0, 0 -1e308))", Coordinates::Flat);
}

/// Unit squares that hang together, as a set and as a polygon.
struct Squares {
    cells: BTreeSet<(i32, i32)>,
    text: String,
}

/// A polygon around the cells, if that is a valid one.
fn around(cells: BTreeSet<(i32, i32)>) -> Option<(Squares, Shape)> {
    // Edges of cells without a neighbour, with the cell on their left.
    let mut edges: BTreeSet<((i32, i32), (i32, i32))> = BTreeSet::new();
    for &(x, y) in &cells {
        let corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)];
        for (at, neighbour) in [(x, y - 1), (x + 1, y), (x, y + 1), (x - 1, y)].into_iter().enumerate() {
            if !cells.contains(&neighbour) {
                edges.insert((corners[at], corners[(at + 1) % 4]));
            }
        }
    }
    let mut rings: Vec<Vec<(i32, i32)>> = Vec::new();
    while let Some(&(first, mut here)) = edges.first() {
        edges.remove(&(first, here));
        let mut ring = vec![first];
        while here != first {
            ring.push(here);
            let next = *edges.range((here, (i32::MIN, i32::MIN))..).next()?;
            edges.remove(&next);
            here = next.1;
        }
        rings.push(ring);
    }
    // The first edge was the least, which is the outer ring's.
    let ring = |ring: &Vec<(i32, i32)>| {
        let points: Vec<String> = ring.iter().map(|(x, y)| format!("{x} {y}")).collect();
        format!("({})", points.join(", "))
    };
    let text = format!("POLYGON({})", rings.iter().map(ring).collect::<Vec<_>>().join(", "));
    let shape = Shape::parse(text.as_bytes(), Coordinates::Flat).ok()?;
    Some((Squares { cells, text }, shape))
}

fn grown(random: &mut Random) -> BTreeSet<(i32, i32)> {
    let mut cells = BTreeSet::from([(random.below(6) as i32, random.below(6) as i32)]);
    for _ in 0..random.below(25) {
        let &(x, y) = cells.iter().nth(random.below(cells.len() as u64) as usize).expect("a cell");
        let (dx, dy) = [(1, 0), (-1, 0), (0, 1), (0, -1)][random.below(4) as usize];
        cells.insert((x + dx, y + dy));
    }
    cells
}

#[test]
fn polygons_stand_to_each_other_as_their_squares_do() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    let mut compared = [0; 4];
    for _ in 0..4_000 {
        let (Some((one, shape)), Some((other, query))) =
            (around(grown(&mut random)), around(grown(&mut random)))
        else {
            continue;
        };
        let corners = |squares: &Squares| -> BTreeSet<(i32, i32)> {
            let of = |&(x, y): &(i32, i32)| [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)];
            squares.cells.iter().flat_map(of).collect()
        };
        let is_within = one.cells.is_subset(&other.cells);
        let contains = other.cells.is_subset(&one.cells);
        let touches = !corners(&one).is_disjoint(&corners(&other));
        for (place, (relation, wanted)) in [
            (Relation::Within, is_within),
            (Relation::Contains, contains),
            (Relation::Intersects, touches),
            (Relation::Disjoint, !touches),
        ]
        .into_iter()
        .enumerate()
        {
            let found = relates(&shape, &query, Coordinates::Flat, relation);
            assert_eq!(found, wanted, "seed {seed} {relation:?} {} {}", one.text, other.text);
            compared[place] += usize::from(wanted);
        }
        for _ in 0..5 {
            let (x, y) = (random.below(9) as i32 - 1, random.below(9) as i32 - 1);
            let is_in = one.cells.contains(&(x, y));
            let point = Shape::Point([f64::from(x) + 0.5, f64::from(y) + 0.25]);
            let found = relates(&point, &shape, Coordinates::Flat, Relation::Within);
            assert_eq!(found, is_in, "seed {seed} {x} {y} {}", one.text);
        }
    }
    assert!(compared.iter().all(|&count| count > 20), "seed {seed} {compared:?}");
}

#[test]
fn sides_on_the_globe() {
    let vertex = |longitude: f64, latitude: f64| Spherical::vertex([longitude, latitude]);
    for (a, b, c, wanted) in [
        ((0.0, 0.0), (10.0, 0.0), (5.0, 1.0), 1),
        ((0.0, 0.0), (10.0, 0.0), (50.0, 0.0), 0),
        ((0.0, 0.0), (0.0, 10.0), (-1.0, 5.0), 1),
        ((0.0, 0.0), (0.0, 10.0), (0.0, -80.0), 0),
        ((170.0, 10.0), (-170.0, 10.0), (-180.0, 10.0), -1),
        ((170.0, 10.0), (-170.0, 10.0), (-180.0, 10.2), 1),
        ((10.0, 20.0), (30.0, 40.0), (10.0, 30.0), 1),
        ((10.0, 20.0), (0.0, 90.0), (11.0, 30.0), -1),
    ] {
        let (a, b, c) = (vertex(a.0, a.1), vertex(b.0, b.1), vertex(c.0, c.1));
        assert_eq!(Spherical::side(a, b, c), wanted, "{a:?} {b:?} {c:?}");
        assert_eq!(Spherical::side(b, c, a), wanted, "{a:?} {b:?} {c:?}");
        assert_eq!(Spherical::side(b, a, c), -wanted, "{a:?} {b:?} {c:?}");
    }
    let far = [1e308, -1e308];
    assert_eq!(Flat::side(far, [-1e308, 1e308], [0.0, 0.0]), 0);
    assert_eq!(Flat::side(far, [-1e308, 1e308], [1e300, 0.0]), -1);
}

/// The antimeridian, poles, and edges longer than a quarter of the globe.
#[test]
fn polygons_anywhere_on_the_globe() {
    let cap = "POLYGON((0 80, 90 80, -180 80, -90 80))";
    let south = "POLYGON((0 -80, 90 -80, -180 -80, -90 -80))";
    let across = "POLYGON((170 -10, -170 -10, -170 10, 170 10))";
    let sector = "POLYGON((0 90, 0 60, 30 60))";
    let octant = "POLYGON((0 0, 90 0, 0 90))";
    for (document, query, wanted) in [
        ("POINT(0 90)", cap, "wi"),
        ("POINT(123 90)", cap, "wi"),
        ("POINT(45 85)", cap, "wi"),
        // The edges of the cap are great circles, which go north of latitude 80.
        ("POINT(45 81)", cap, ""),
        ("POINT(0 -90)", cap, ""),
        ("POINT(0 0)", cap, ""),
        ("POINT(0 -90)", south, "wi"),
        ("POINT(45 -85)", south, "wi"),
        ("POINT(0 0)", south, ""),
        (cap, south, ""),
        ("POINT(180 0)", across, "wi"),
        ("POINT(-175 5)", across, "wi"),
        ("POINT(185 5)", across, "wi"),
        ("POINT(0 0)", across, ""),
        ("POINT(165 0)", across, ""),
        ("POLYGON((179 0, -179 0, -179 1, 179 1))", across, "wi"),
        ("POLYGON((160 0, -160 0, -160 1, 160 1))", across, "i"),
        ("POINT(10 80)", sector, "wi"),
        ("POINT(31 80)", sector, ""),
        ("POINT(0 90)", sector, "i"),
        (sector, cap, "i"),
        (sector, octant, "wi"),
        ("POINT(45 45)", octant, "wi"),
        ("POINT(-45 45)", octant, ""),
        ("POLYGON((1 1, 89 1, 1 89))", octant, "wi"),
        ("POLYGON((0 1, 0 89, 50 10))", octant, "wi"),
        // An edge over the pole.
        ("POINT(90 89)", "POLYGON((0 80, 180 80, 90 80))", "wi"),
        ("POINT(-90 89)", "POLYGON((0 80, 180 80, 90 80))", ""),
    ] {
        assert_eq!(relations(document, query, Coordinates::Spherical), wanted, "{document} {query}");
    }
}

/// Turning a ring round, or beginning it elsewhere, changes no answer; nor does moving all longitudes.
#[test]
fn answers_do_not_depend_on_how_a_ring_is_written() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    let star = |random: &mut Random, points: usize, (x, y): (f64, f64), size: f64| -> Vec<[f64; 2]> {
        (0..points)
            .map(|at| {
                let angle = at as f64 / points as f64 * std::f64::consts::TAU;
                let far = size * (0.2 + random.below(1_000) as f64 / 1_000.0);
                [x + far * angle.cos(), y + far * angle.sin()]
            })
            .collect()
    };
    let text = |ring: &[[f64; 2]]| {
        let points: Vec<String> = ring.iter().map(|[x, y]| format!("{x} {y}")).collect();
        format!("POLYGON(({}))", points.join(","))
    };
    for round in 0..400 {
        let points = 3 + random.below(if round % 50 == 0 { 3_000 } else { 20 }) as usize;
        let centre = |random: &mut Random| (random.below(40) as f64, random.below(40) as f64);
        let (one_centre, other_centre) = (centre(&mut random), centre(&mut random));
        let one = star(&mut random, points, one_centre, 15.0);
        let other = star(&mut random, 3 + points / 2, other_centre, 30.0);
        for coordinates in [Coordinates::Flat, Coordinates::Spherical] {
            let (Ok(document), Ok(query)) = (
                Shape::parse(text(&one).as_bytes(), coordinates),
                Shape::parse(text(&other).as_bytes(), coordinates),
            ) else {
                continue;
            };
            let mut turned = one.clone();
            turned.reverse();
            turned.rotate_left(random.below(points as u64) as usize);
            let turned = shape(&text(&turned), coordinates);
            for relation in [Relation::Within, Relation::Contains, Relation::Intersects] {
                let is = relates(&document, &query, coordinates, relation);
                assert_eq!(relates(&turned, &query, coordinates, relation), is, "seed {seed} round {round}");
                let back = match relation {
                    Relation::Within => Relation::Contains,
                    Relation::Contains => Relation::Within,
                    other => other,
                };
                assert_eq!(relates(&query, &document, coordinates, back), is, "seed {seed} round {round}");
                let bounds = (document.bounds(coordinates), query.bounds(coordinates));
                assert!(!is || bounds.0.touches(&bounds.1), "seed {seed} round {round}");
            }
        }
    }
}

/// Edges that all lie near each other would have to be compared pair by pair.
#[test]
fn checks_end() {
    let zigzag: Vec<String> = (0..8_000)
        .map(|at| if at % 2 == 0 { format!("{at} 0") } else { format!("{} 1000000", at + 900_000) })
        .collect();
    let text = format!("POLYGON(({}, 9000000 -1))", zigzag.join(","));
    let error = refused(&text, Coordinates::Flat);
    assert_eq!(error, "invalid geometry: Geometry has too many edges near each other");
}
