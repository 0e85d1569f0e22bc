//! Searches for shapes beside RediSearch: which shapes are valid, and how they stand to each other.
//!
//! With `MARTLET_SEARCH_ORACLE=HOST:PORT`, a server that may be flushed, generated shapes are compared, also
//! degenerate, huge, long ones, and such as cross the antimeridian. Without it there is nothing to compare.

mod support;

use std::collections::BTreeSet;
use std::f64::consts::TAU;

use martlet_base::random::Random;
use martlet_search::geometry::{Relating, Shape, Subject};
use martlet_search::query::ast::Relation;
use martlet_search::schema::Coordinates;
use support::client::Client;

const RELATIONS: [(&str, Relation); 4] = [
    ("WITHIN", Relation::Within),
    ("CONTAINS", Relation::Contains),
    ("INTERSECTS", Relation::Intersects),
    ("DISJOINT", Relation::Disjoint),
];

/// Where generated shapes are, and how large.
struct Kind {
    coordinates: Coordinates,
    /// The middle of all, and how far shapes are from it.
    centre: (f64, f64),
    spread: f64,
    size: f64,
    /// Whether answers may differ where a vertex is near an edge: RediSearch's edges are geodesics on an
    /// ellipsoid, and those of some 30 degrees are up to 0.001 degrees from great circles.
    is_rough: bool,
    /// Whether coordinates are rounded, so that vertices and edges meet.
    is_grid: bool,
}

fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low + random.unit_f64() * (high - low)
}

fn ring(random: &mut Random, kind: &Kind, (x, y): (f64, f64), size: f64) -> String {
    let count = [3, 4, 5, 8, 14][random.below(5) as usize];
    let least = if random.below(2) == 0 { 0.3 } else { 1.0 };
    let points: Vec<String> = (0..count)
        .map(|at| {
            let (angle, far) = (f64::from(at) / f64::from(count) * TAU, size * between(random, least, 1.0));
            let (x, y) = (x + far * angle.cos(), y + far * angle.sin());
            if kind.is_grid {
                format!("{} {}", x.round() + 0.0, y.round() + 0.0)
            } else {
                format!("{x:?} {y:?}")
            }
        })
        .collect();
    format!("({})", points.join(","))
}

fn shape(random: &mut Random, kind: &Kind) -> String {
    let mut place = || {
        let (x, y) = kind.centre;
        let (x, y) =
            (x + between(random, -kind.spread, kind.spread), y + between(random, -kind.spread, kind.spread));
        if kind.is_grid { (x.round() + 0.0, y.round() + 0.0) } else { (x, y) }
    };
    let (at, other) = (place(), place());
    let size = between(random, kind.size / 10.0, kind.size);
    match random.below(10) {
        0 | 1 => format!("POINT({:?} {:?})", at.0, at.1),
        2 | 3 => format!("POLYGON({},{})", ring(random, kind, at, size), ring(random, kind, at, size / 3.0)),
        4 => format!("POLYGON(({:?} {:?},{:?} {:?},{:?} {:?}))", at.0, at.1, other.0, other.1, at.0, other.1),
        _ => format!("POLYGON({})", ring(random, kind, at, size)),
    }
}

/// What precedes the place of a crossing.
fn beginning(error: &str) -> &str {
    error.split(" was found at").next().unwrap_or(error)
}

fn compare(oracle: &mut Client, random: &mut Random, kind: &Kind, seed: u64) {
    let system = if kind.coordinates == Coordinates::Flat { "FLAT" } else { "SPHERICAL" };
    oracle.call(&["FLUSHALL"]);
    assert_eq!(oracle.call(&["FT.CREATE", "i", "SCHEMA", "s", "GEOSHAPE", system]), b"OK");
    let documents: Vec<String> = (0..120).map(|_| shape(random, kind)).collect();
    for (at, text) in documents.iter().enumerate() {
        oracle.call(&["HSET", &at.to_string(), "s", text]);
    }
    let parsed: Vec<Option<Shape>> =
        documents.iter().map(|text| Shape::parse(text.as_bytes(), kind.coordinates).ok()).collect();
    let (mut compared, mut different) = (0, 0);
    for _ in 0..60 {
        let text = shape(random, kind);
        let query = Shape::parse(text.as_bytes(), kind.coordinates);
        for (name, relation) in RELATIONS {
            let search = format!("@s:[{name} $q]");
            let theirs = oracle.call(&[
                "FT.SEARCH",
                "i",
                &search,
                "NOCONTENT",
                "LIMIT",
                "0",
                "1000",
                "PARAMS",
                "2",
                "q",
                &text,
                "DIALECT",
                "2",
            ]);
            let theirs = String::from_utf8_lossy(&theirs).into_owned();
            let query = match &query {
                Ok(query) => query,
                Err(error) => {
                    let ours = format!("-Error querying geoshape index: {}", error.text());
                    let is_equal = beginning(theirs.trim_end()) == beginning(&ours);
                    assert!(is_equal, "seed {seed} {text}: {theirs} instead of {ours}");
                    continue;
                }
            };
            let theirs: BTreeSet<usize> =
                theirs.lines().skip(1).map(|key| key.parse().expect(&theirs)).collect();
            let subject = Subject::new(query, kind.coordinates, relation);
            let is_found = |shape: &Shape| {
                let mut relating = Relating::new(&subject, shape, kind.coordinates);
                relating.step(&subject, &mut { usize::MAX }) == Some(true)
            };
            let ours = parsed.iter().enumerate().filter(|(_, shape)| shape.as_ref().is_some_and(is_found));
            let ours: BTreeSet<usize> = ours.map(|one| one.0).collect();
            let apart: Vec<&String> = ours.symmetric_difference(&theirs).map(|&at| &documents[at]).collect();
            assert!(kind.is_rough || apart.is_empty(), "seed {seed} {name} {text}: {apart:?}");
            (compared, different) = (compared + documents.len(), different + apart.len());
        }
    }
    println!("{system} around {:?}: {compared} comparisons, {different} differ", kind.centre);
    assert!(different <= compared / 1_000, "seed {seed}");
}

#[test]
fn shapes_stand_to_each_other_as_in_redisearch() {
    let Ok(address) = std::env::var("MARTLET_SEARCH_ORACLE") else { return };
    let seed = std::env::var("MARTLET_SEARCH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| Random::from_entropy().next_u64());
    println!("MARTLET_SEARCH_SEED={seed}");
    let mut random = Random::seeded(seed);
    let mut oracle = Client::connect(&address);
    let (flat, spherical) = (Coordinates::Flat, Coordinates::Spherical);
    let kind = |coordinates, centre, spread, size| {
        let is_rough = coordinates == spherical && size > 1.0;
        Kind { coordinates, centre, spread, size, is_rough, is_grid: false }
    };
    for kind in [
        Kind { is_grid: true, ..kind(flat, (0.0, 0.0), 6.0, 7.0) },
        kind(flat, (0.0, 0.0), 20.0, 20.0),
        kind(flat, (1e90, -1e90), 1e89, 1e89),
        kind(spherical, (34.95, 29.75), 0.05, 0.05),
        kind(spherical, (0.0, 20.0), 20.0, 20.0),
        kind(spherical, (180.0, 0.0), 20.0, 20.0),
        kind(spherical, (90.0, 75.0), 6.0, 8.0),
    ] {
        compare(&mut oracle, &mut random, &kind, seed);
    }
    for coordinates in [flat, spherical] {
        let centre = (10.0, 10.0);
        let long = |random: &mut Random, size: f64| {
            let points = (0..10_000).map(|at| {
                let (angle, far) = (f64::from(at) / 1e4 * TAU, size * between(random, 0.999, 1.0));
                format!("{} {}", centre.0 + far * angle.cos(), centre.1 + far * angle.sin())
            });
            format!("POLYGON(({}))", points.collect::<Vec<_>>().join(","))
        };
        let (small, large) = (long(&mut random, 5.0), long(&mut random, 6.0));
        let [small, large] = [small, large].map(|text| Shape::parse(text.as_bytes(), coordinates).unwrap());
        let subject = Subject::new(&large, coordinates, Relation::Within);
        assert_eq!(
            Relating::new(&subject, &small, coordinates).step(&subject, &mut { usize::MAX }),
            Some(true)
        );
        assert_eq!(
            Relating::new(&subject, &large, coordinates).step(&subject, &mut { usize::MAX }),
            Some(true)
        );
    }
}
