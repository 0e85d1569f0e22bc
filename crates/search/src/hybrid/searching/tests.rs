//! Both searches over an index of several partitions, beside a look at each document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use martlet_base::hash::hash_bytes;
use martlet_base::random::Random;

use super::*;
use crate::analysis::{Analysis, Document, Value};
use crate::definition::{Context, create};
use crate::hybrid::{Combine, Method};
use crate::request::Limits;

struct Fields(Vec<(&'static str, Vec<u8>)>);

impl Document for Fields {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(Value::Missing, |(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

fn bytes(vector: [f32; 2]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

fn index(metric: &str) -> Arc<Index> {
    let text = format!(
        "i SCHEMA t TEXT n NUMERIC v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC {metric} \
         h VECTOR HNSW 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC {metric}"
    );
    let arguments: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
    let context = Context { memory_bytes: 1 << 30, is_path: |_| true };
    Arc::new(Index::new(create(&arguments, context).unwrap(), 4))
}

fn put(index: &Index, key: &str, fields: Vec<(&'static str, Vec<u8>)>) {
    let rules = index.rules();
    let mut analysis = Analysis::default();
    let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), &Fields(fields)).unwrap();
    index.put(hash_bytes(key.as_bytes()), content).unwrap();
}

fn find(index: &Arc<Index>, text: &str, vector: [f32; 2]) -> Result<Vec<HybridHit>, Error> {
    let vector = bytes(vector);
    let mut words: Vec<&[u8]> = text.split('|').map(str::as_bytes).collect();
    words.extend([&b"PARAMS"[..], b"2", b"b", &vector]);
    let request = Hybrid::parse(&words, &Limits::default())?;
    let mut searching =
        HybridSearching::new(Arc::clone(index), request, &crate::searching::Context::default())?;
    while !searching.step() {}
    Ok(searching.into_hits())
}

fn keys(hits: &[HybridHit]) -> Vec<String> {
    hits.iter().map(|one| String::from_utf8_lossy(&one.hit.key).into_owned()).collect()
}

/// The example of RediSearch's own tests.
#[test]
fn shoes_by_text_and_by_vector() {
    let index = index("L2");
    for (key, text, vector) in [
        ("doc:1", "red shoes", [0.0, 0.0]),
        ("doc:2", "red running shoes", [1.0, 0.0]),
        ("doc:3", "running gear", [0.0, 1.0]),
        ("doc:4", "blue shoes", [1.0, 1.0]),
    ] {
        put(&index, key, vec![("t", text.into()), ("v", bytes(vector))]);
    }
    let query = [1.2, 0.2];
    let hits = find(&index, "SEARCH|red|VSIM|@v|$b", query).unwrap();
    assert_eq!(keys(&hits), ["doc:2", "doc:1", "doc:4", "doc:3"]);
    let of = |key: &str| hits.iter().find(|one| *one.hit.key == *key.as_bytes()).unwrap();
    // By text doc:1 is first, which is shorter; by vector third.
    assert_eq!(of("doc:1").scores.score, 1.0 / 61.0 + 1.0 / 63.0);
    assert_eq!(of("doc:2").scores.score, 1.0 / 62.0 + 1.0 / 61.0);
    assert_eq!((of("doc:4").scores.search, of("doc:4").scores.score), (None, 1.0 / 62.0));
    let alike = of("doc:2").scores.vector.unwrap();
    assert!((alike - 1.0 / 1.08).abs() < 1e-6, "{alike}");

    let linear = "SEARCH|red|VSIM|@v|$b|KNN|2|K|1|COMBINE|LINEAR|4|ALPHA|0|BETA|1";
    let hits = find(&index, linear, query).unwrap();
    assert_eq!(keys(&hits), ["doc:2", "doc:1"]);
    assert_eq!((hits[0].scores.score, hits[1].scores.score), (hits[0].scores.vector.unwrap(), 0.0));
    let range = "SEARCH|nothing|VSIM|@v|$b|RANGE|2|RADIUS|0.7|FILTER|@t:shoes";
    assert_eq!(keys(&find(&index, range, query).unwrap()), ["doc:2", "doc:4"]);
    let window = "SEARCH|shoes|VSIM|@v|$b|COMBINE|RRF|2|WINDOW|1";
    assert_eq!(find(&index, window, query).unwrap().len(), 2);
}

#[test]
fn what_is_refused() {
    let index = index("COSINE");
    for (text, wanted) in [
        ("SEARCH|a|VSIM|@t|$b", "Unknown field `t`"),
        ("SEARCH|a|VSIM|@x|$b", "Unknown field `x`"),
        ("SEARCH|a|VSIM|@v|$c", "No such parameter `c`"),
        ("SEARCH|*=>[KNN 2 @v $b]|VSIM|@v|$b", "Vector expressions are not allowed in FT.HYBRID SEARCH"),
        (
            "SEARCH|a|VSIM|@v|$b|FILTER|@v:[VECTOR_RANGE 1 $b]",
            "Vector expressions are not allowed in FT.HYBRID VSIM FILTER",
        ),
        (
            "SEARCH|a|VSIM|@v|$b|FILTER|(red)=>{$weight:2}",
            "Weight attributes are not allowed in FT.HYBRID VSIM FILTER",
        ),
        ("SEARCH|a|SCORER|x|VSIM|@v|$b", "No such scorer x"),
        (
            "SEARCH|a|VSIM|@v|$b|KNN|4|K|2|EF_RUNTIME|3",
            "Error parsing vector similarity parameters: Invalid option",
        ),
    ] {
        assert_eq!(find(&index, text, [1.0, 0.0]).expect_err(text).text(), wanted);
    }
    find(&index, "SEARCH|a|VSIM|@h|$b|KNN|4|K|2|EF_RUNTIME|3", [1.0, 0.0]).expect("a graph");
    let words: Vec<&[u8]> = vec![b"SEARCH", b"a", b"VSIM", b"@v", b"$b", b"PARAMS", b"2", b"b", b"short"];
    let request = Hybrid::parse(&words, &Limits::default()).unwrap();
    let error = HybridSearching::new(index, request, &crate::searching::Context::default())
        .expect_err("a short vector");
    assert!(error.text().contains("query vector blob size (5) does not match"), "{error}");
}

#[test]
fn both_lists_are_what_a_look_at_each_document_gives() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    let index = index("L2");
    let mut model = BTreeMap::new();
    for at in 0..300 {
        let key = format!("d{at}");
        let vector = [random.unit_f64() as f32, random.unit_f64() as f32];
        let (word, number) = (["red", "blue"][random.below(2) as usize], random.below(10));
        let text = format!("{word} {}", "filler ".repeat(random.below(40) as usize));
        let fields = vec![("t", text.into_bytes()), ("n", number.to_string().into()), ("v", bytes(vector))];
        put(&index, &key, fields);
        model.insert(key, (word, number, vector));
    }
    for _ in 0..40 {
        let query = [random.unit_f64() as f32, random.unit_f64() as f32];
        let (k, window, number) =
            (1 + random.below(30) as usize, 1 + random.below(30) as usize, random.below(10));
        let text = format!(
            "SEARCH|red|VSIM|@v|$b|KNN|2|K|{k}|FILTER|@n:[{number} 9]|COMBINE|LINEAR|6|ALPHA|0|BETA|1|WINDOW|{window}"
        );
        let hits = find(&index, &text, query).unwrap();
        let far = |v: &[f32; 2]| (v[0] - query[0]).powi(2) + (v[1] - query[1]).powi(2);
        let rows = model.iter().filter(|(_, (_, n, _))| *n >= number);
        let mut near: Vec<(f32, String)> = rows.map(|(key, (_, _, v))| (far(v), key.clone())).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(k.min(window));
        let with_vector: Vec<String> = keys(&hits)
            .into_iter()
            .zip(&hits)
            .filter(|(_, hit)| hit.scores.vector.is_some())
            .map(|one| one.0)
            .collect();
        assert_eq!(with_vector, near.into_iter().map(|one| one.1).collect::<Vec<_>>(), "seed {seed} {text}");
        let found = hits.iter().filter(|hit| hit.scores.search.is_some());
        let red = model.values().filter(|row| row.0 == "red").count();
        assert_eq!(found.clone().count(), red.min(window), "seed {seed}");
        assert!(
            found.clone().all(|hit| model[&*String::from_utf8_lossy(&hit.hit.key)].0 == "red"),
            "seed {seed}"
        );
        assert!(hits.is_sorted_by(|a, b| a.scores.score >= b.scores.score), "seed {seed}");
    }
    assert_eq!(Combine::default().method, Method::Rrf { constant: 60.0 });
}
