//! Queries over several partitions, from their text to the matches.

use std::borrow::Cow;
use std::collections::BTreeMap;

use martlet_base::hash::hash_bytes;
use martlet_base::random::Random;

use super::*;
use crate::analysis::{self, Analysis, Value};
use crate::definition::{Context, create};
use crate::exec::{Bounds, Planner};
use crate::query::{self, Options, Params};
use crate::schema::Definition;

fn definition(arguments: &str) -> Definition {
    let arguments: Vec<&[u8]> = arguments.split(' ').map(str::as_bytes).collect();
    create(&arguments, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap()
}

/// A hash.
#[derive(Clone, Default)]
struct Fields(Vec<(&'static str, Vec<u8>)>);

impl analysis::Document for Fields {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(Value::Missing, |(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

fn put(index: &Index, key: &str, fields: &Fields) {
    let rules = index.rules();
    let mut analysis = Analysis::default();
    let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), fields).unwrap();
    index.put(hash_bytes(key.as_bytes()), content).unwrap();
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The keys of the matches, with their distances, in the order in which they come.
fn matches(index: &Arc<Index>, text: &str, vector: &[f32], scores: bool) -> Vec<(String, f64, Option<f32>)> {
    find(index, text, &bytes(vector), scores).unwrap()
}

fn try_matches(index: &Arc<Index>, text: &str, parameter: &[u8]) -> Result<Vec<String>, Error> {
    Ok(find(index, text, parameter, false)?.into_iter().map(|one| one.0).collect())
}

/// The matches of a query whose parameter is `v`.
fn find(
    index: &Arc<Index>,
    text: &str,
    parameter: &[u8],
    scores: bool,
) -> Result<Vec<(String, f64, Option<f32>)>, Error> {
    let rules = index.rules();
    let mut params = Params::default();
    params.insert(b"v", parameter).unwrap();
    let options = Options { dialect: 2, ..Options::new(&rules.definition, &rules.stopwords, &params) };
    let root = query::parse(text.as_bytes(), &options)?;
    let planned = Planner::new(&rules.definition, Bounds::default(), None, false).plan(&root)?;
    let scores = scores.then(Scores::default);
    let mut evaluation = Evaluation::new(Arc::clone(index), planned, scores)?;
    let mut found = Vec::new();
    while !evaluation.is_done() {
        evaluation.step(&mut |one| {
            let key = String::from_utf8(one.document().unwrap().key.to_vec()).unwrap();
            found.push((key, one.score, one.distances.first().copied().flatten()));
        });
    }
    Ok(found)
}

fn keys_with(index: &Arc<Index>, text: &str, parameter: &[u8]) -> Vec<String> {
    try_matches(index, text, parameter).unwrap()
}

fn keys(index: &Arc<Index>, text: &str) -> Vec<String> {
    let mut keys: Vec<String> = matches(index, text, &[0.0; 2], false).into_iter().map(|m| m.0).collect();
    keys.sort();
    keys
}

#[test]
fn words_tags_numbers_and_points() {
    let index = Arc::new(Index::new(definition("i SCHEMA t TEXT g TAG n NUMERIC l GEO"), 4));
    let rows = [
        ("a", "running foxes", "red,blue", "1", "2,41"),
        ("b", "a fox runs", "red", "2", "2.001,41"),
        ("c", "the quick house", "green", "3", "10,41"),
    ];
    for (key, t, g, n, l) in rows {
        let fields = [("t", t), ("g", g), ("n", n), ("l", l)].map(|(name, value)| (name, value.into()));
        put(&index, key, &Fields(fields.to_vec()));
    }
    for (query, wanted) in [
        ("fox", "a b"),
        ("run", "a b"),
        ("\"fox runs\"", "b"),
        ("quick|foxes", "a b c"),
        ("-fox", "a c"),
        ("@g:{red} @n:[2 +inf]", "b"),
        ("@g:{re*|green}", "a b c"),
        ("@t:qui*", "c"),
        ("*", "a b c"),
        ("@l:[2 41 10 km]", "a b"),
        ("@n:[(1 (3]", "b"),
        ("nothing", ""),
    ] {
        assert_eq!(keys(&index, query).join(" "), wanted, "{query}");
    }
    let scored = matches(&index, "fox", &[], true);
    assert!(scored.iter().all(|one| one.1 > 0.0), "{scored:?}");
    assert!(index.remove(hash_bytes(b"a"), b"a"));
    assert_eq!(keys(&index, "fox").join(" "), "b");
}

#[test]
fn neighbours_among_the_documents_of_a_filter() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    for algorithm in ["FLAT 6", "HNSW 8 EF_RUNTIME 400"] {
        let vector = format!("VECTOR {algorithm} TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2");
        let index = Arc::new(Index::new(definition(&format!("i SCHEMA n NUMERIC v {vector}")), 4));
        let mut model = BTreeMap::new();
        for at in 0..400u32 {
            let key = format!("k{at}");
            let vector = [random.unit_f64() as f32, random.unit_f64() as f32];
            let number = random.below(10);
            let fields = vec![("n", number.to_string().into_bytes()), ("v", bytes(&vector))];
            put(&index, &key, &Fields(fields));
            model.insert(key, (vector, number));
        }
        let query = [0.5, 0.5];
        let near = |filter: &dyn Fn(u64) -> bool| -> Vec<(f32, String)> {
            let distance = |v: &[f32; 2]| (v[0] - query[0]).powi(2) + (v[1] - query[1]).powi(2);
            let rows = model.iter().filter(|(_, (_, number))| filter(*number));
            let mut all: Vec<(f32, String)> = rows.map(|(key, (v, _))| (distance(v), key.clone())).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            all
        };
        for (text, filter) in [
            ("*=>[KNN 7 @v $v]", &(|_| true) as &dyn Fn(u64) -> bool),
            ("(@n:[3 6])=>[KNN 7 @v $v]", &|n| (3..=6).contains(&n)),
            ("(@n:[3 3])=>[KNN 7 @v $v]", &|n| n == 3),
            ("(-@n:[3 3])=>[KNN 7 @v $v AS d]", &|n| n != 3),
        ] {
            let found: Vec<String> = matches(&index, text, &query, false).into_iter().map(|m| m.0).collect();
            let wanted: Vec<String> = near(filter).into_iter().take(7).map(|one| one.1).collect();
            assert_eq!(found, wanted, "seed {seed}, {algorithm} {text}");
        }
        let mut found: Vec<String> = matches(&index, "@v:[VECTOR_RANGE 0.04 $v] @n:[0 5]", &query, false)
            .into_iter()
            .map(|m| m.0)
            .collect();
        found.sort();
        let mut wanted: Vec<String> =
            near(&|n| n <= 5).into_iter().take_while(|one| one.0 <= 0.04).map(|one| one.1).collect();
        wanted.sort();
        assert_eq!(found, wanted, "seed {seed}");
    }
}

fn remove(index: &Index, key: &str) {
    index.remove(hash_bytes(key.as_bytes()), key.as_bytes());
}

/// Well-known text of a shape somewhere between 0 and 100, now and then none.
fn shape_text(random: &mut Random) -> String {
    let (x, y, size) = (random.below(60), random.below(60), 1 + random.below(40));
    match random.below(10) {
        0..3 => format!("POINT({x} {y})"),
        3 => "POLYGON((0 0, 10 10, 0 10, 10 0))".to_owned(),
        4 => format!("POLYGON(({x} {y}, {} {y}, {x} {}))", x + size, (y + 2 * size).min(89)),
        5 => format!(
            "POLYGON(({x} {y}, {0} {y}, {0} {1}, {x} {1}),({x}.5 {y}.5, {x}.5 {y}.9, {x}.9 {y}.5))",
            x + size,
            (y + size).min(89)
        ),
        _ => format!("POLYGON(({x} {y}, {0} {y}, {0} {1}, {x} {1}, {x} {y}))", x + size, (y + size).min(89)),
    }
}

#[test]
fn shapes_are_found_as_by_looking_at_each_document() {
    use crate::geometry::{Relating, Shape, Subject};
    use crate::query::ast::Relation;
    use crate::schema::Coordinates;

    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    for (system, coordinates) in [("FLAT", Coordinates::Flat), ("SPHERICAL", Coordinates::Spherical)] {
        let index = Arc::new(Index::new(definition("i SCHEMA n NUMERIC"), 4));
        let mut model = BTreeMap::new();
        for at in 0..600 {
            if at == 100 {
                // FT.ALTER, after which the documents are indexed again when they are next written.
                index.extend(definition(&format!("i SCHEMA n NUMERIC s GEOSHAPE {system} INDEXMISSING")));
                model.clear();
                for key in 0..300 {
                    remove(&index, &key.to_string());
                }
            }
            let key = random.below(300).to_string();
            if random.below(5) == 0 {
                remove(&index, &key);
                model.remove(&key);
                continue;
            }
            let (text, number) = (shape_text(&mut random), random.below(4));
            let mut fields = Fields(vec![("n", number.to_string().into_bytes())]);
            if random.below(8) > 0 {
                fields.0.push(("s", text.clone().into_bytes()));
                model.insert(key.clone(), (number, Some(Shape::parse(text.as_bytes(), coordinates).ok())));
            } else {
                model.insert(key.clone(), (number, None));
            }
            put(&index, &key, &fields);
        }
        for _ in 0..60 {
            let text = shape_text(&mut random);
            let Ok(query) = Shape::parse(text.as_bytes(), coordinates) else { continue };
            for (name, relation) in [
                ("WITHIN", Relation::Within),
                ("contains", Relation::Contains),
                ("INTERSECTS", Relation::Intersects),
                ("DISJOINT", Relation::Disjoint),
            ] {
                let subject = Subject::new(&query, coordinates, relation);
                let is_found = |shape: &Option<Option<Shape>>| {
                    shape.iter().flatten().any(|shape| {
                        Relating::new(&subject, shape, coordinates).step(&subject, &mut { usize::MAX })
                            == Some(true)
                    })
                };
                for (query, filter) in [
                    (format!("@s:[{name} $v]"), (|_, is_found| is_found) as fn(u64, bool) -> bool),
                    (format!("-@s:[{name} $v]"), |_, is_found| !is_found),
                    (format!("@n:[1 2] @s:[{name} $v]"), |n, is_found| (1..=2).contains(&n) && is_found),
                    (format!("@n:[3 3] | @s:[{name} $v]"), |n, is_found| n == 3 || is_found),
                ] {
                    let mut wanted: Vec<&String> = model
                        .iter()
                        .filter(|(_, (n, shape))| filter(*n, is_found(shape)))
                        .map(|one| one.0)
                        .collect();
                    wanted.sort();
                    let mut found = keys_with(&index, &query, text.as_bytes());
                    found.sort();
                    assert!(found.iter().eq(wanted), "seed {seed} {system} {query} {text}");
                }
            }
        }
        let without = model.values().filter(|(_, shape)| shape.is_none()).count();
        assert_eq!(keys_with(&index, "ismissing(@s)", b"").len(), without, "seed {seed}");
        let refused = index.failures().1[1].count;
        assert!(refused > 0 && index.failures().0.count == refused, "seed {seed}");
        let (bytes, all) = (index.shape_bytes(), index.heap_bytes());
        assert!(0 < bytes && bytes < all, "seed {seed} {bytes} {all}");
        model.keys().for_each(|key| remove(&index, key));
        assert!(index.shape_bytes() < bytes / 2, "seed {seed} {bytes} {}", index.shape_bytes());
    }
}

#[test]
fn what_is_no_shape_is_refused_or_left_out() {
    let index = Arc::new(Index::new(definition("i SCHEMA t TEXT s GEOSHAPE FLAT v GEOSHAPE NOINDEX"), 2));
    let fields = [("t", "word"), ("s", "LINESTRING(0 0, 1 1)"), ("v", "garbage")];
    put(&index, "a", &Fields(fields.map(|(name, value)| (name, value.into())).to_vec()));
    assert_eq!(keys_with(&index, "word", b""), ["a"]);
    let (all, fields) = index.failures();
    let (error, key) = all.last.expect("the refused shape");
    assert_eq!((error.text(), &*key), ("Error indexing geoshape: unknown geometry type", &b"a"[..]));
    assert_eq!((all.count, fields[1].count, fields[2].count), (1, 1, 0));
    let wrong =
        |text: &str, shape: &[u8]| try_matches(&index, text, shape).expect_err(text).text().to_owned();
    assert_eq!(wrong("@s:[WITHIN $v]", b"word"), "Error querying geoshape index: unknown geometry type");
    assert_eq!(keys_with(&index, "@none:[WITHIN $v]", b"word"), [""; 0]);
    assert_eq!(keys_with(&index, "@t:[WITHIN $v]", b"word"), [""; 0]);
    assert_eq!(keys_with(&index, "@v:[DISJOINT $v]", b"POINT(1 1)"), [""; 0]);
}
