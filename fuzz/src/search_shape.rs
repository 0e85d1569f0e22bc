//! Shapes as text, of any bytes: what is read equals itself, and two shapes stand to each other in one way,
//! seen from either side.

use martlet_search::geometry::{Relating, Shape, Subject};
use martlet_search::query::ast::Relation;
use martlet_search::schema::Coordinates;

fn stands(document: &Shape, query: &Shape, coordinates: Coordinates, relation: Relation) -> bool {
    let subject = Subject::new(query, coordinates, relation);
    let mut work = usize::MAX;
    let answer = Relating::new(&subject, document, coordinates).step(&subject, &mut work);
    answer.expect("an answer, since there is no bound")
}

/// Two texts, with a line's end between them.
pub fn check(data: &[u8]) {
    let (one, other) = match data.iter().position(|&byte| byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b"POLYGON((0 0, 0 10, 10 10, 10 0))"[..]),
    };
    for coordinates in [Coordinates::Flat, Coordinates::Spherical] {
        let (one, other) = (Shape::parse(one, coordinates), Shape::parse(other, coordinates));
        for shape in [&one, &other].into_iter().flatten() {
            assert!(stands(shape, shape, coordinates, Relation::Intersects));
            assert!(!shape.is_empty());
        }
        let (Ok(one), Ok(other)) = (one, other) else { continue };
        let is_common = stands(&one, &other, coordinates, Relation::Intersects);
        assert_eq!(stands(&other, &one, coordinates, Relation::Intersects), is_common);
        assert_eq!(stands(&one, &other, coordinates, Relation::Disjoint), !is_common);
        let is_within = stands(&one, &other, coordinates, Relation::Within);
        assert_eq!(stands(&other, &one, coordinates, Relation::Contains), is_within);
    }
}

/// Shapes of every kind, right and wrong.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "POINT(1 2)\nPOINT(1 2)",
        "POINT (5 5)",
        "POINT(nan 1e400)",
        "POLYGON((0 0, 0 10, 10 10, 10 0, 0 0),(4 4, 6 4, 6 6, 4 6))\nPOLYGON((1 1, 2 1, 2 2))",
        "POLYGON((0 0, 10 10, 0 10, 10 0))",
        "POLYGON((170 -10, -170 -10, -170 10, 170 10))\nPOINT(180 0)",
        "POLYGON((0 80, 90 80, 180 80, 270 80))\nPOINT(0 90)",
        "POLYGON((0 90, 0 60, 30 60))\nPOLYGON((0 0, 180 10, 90 -10))",
        "POLYGON((1e308 0, 0 1e308, -1e308 0, 0 -1e308))",
        "POLYGON(())",
        "LINESTRING(0 0, 1 1)",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
