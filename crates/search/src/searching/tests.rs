//! Requests with their options. The answers are RediSearch's, where the documents have no vectors: with a
//! vector, its TFIDF divides by one more.

use std::borrow::Cow;

use martlet_base::hash::hash_bytes;

use super::*;
use crate::analysis::{self, Analysis, Value};
use crate::definition::{self, create};
use crate::request::Limits;

struct Fields(Vec<(&'static str, Vec<u8>)>);

impl analysis::Document for Fields {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(Value::Missing, |(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

const SCHEMA: &str = "i SCHEMA t TEXT b TEXT n NUMERIC g TAG v VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC \
                      L2 s TEXT SORTABLE ns NUMERIC SORTABLE none NUMERIC SORTABLE";

fn fields(at: usize) -> Fields {
    let text = |text: &str| text.as_bytes().to_vec();
    let vector = |x: f32| x.to_le_bytes().to_vec();
    let (t, n, g, v, s, ns) = [
        ("hello world", "5", "a", 1.0, "Bb", "3"),
        ("hello", "3", "b", 2.0, "aa", "10"),
        ("hello x", "9", "c", 0.0, "Cc", "1"),
    ][at];
    let mut all = vec![("t", text(t)), ("n", text(n)), ("g", text(g)), ("v", vector(v))];
    all.extend([("s", text(s)), ("ns", text(ns))]);
    all.extend((at == 1).then(|| ("b", text("hello"))));
    Fields(all)
}

fn index() -> Arc<Index> {
    let arguments: Vec<&[u8]> = SCHEMA.split_whitespace().map(str::as_bytes).collect();
    let context = definition::Context { memory_bytes: 1 << 30, is_path: |_| true };
    let index = Index::new(create(&arguments, context).unwrap(), 2);
    let rules = index.rules();
    for (at, key) in [b"d1", b"d2", b"d3"].iter().enumerate() {
        let mut analysis = Analysis::default();
        let content = analysis.of(&rules.definition, &rules.stopwords, *key, &fields(at)).unwrap();
        index.put(hash_bytes(*key), content).unwrap();
    }
    Arc::new(index)
}

fn search(index: &Arc<Index>, query: &str, options: &str) -> Result<Found, Error> {
    let mut arguments: Vec<&[u8]> = vec![query.as_bytes()];
    arguments.extend(options.split_whitespace().map(str::as_bytes));
    if query.contains("$q") {
        arguments.extend([b"PARAMS".as_slice(), b"2", b"q", &[0; 4], b"DIALECT", b"2"]);
    }
    let request = Search::parse(&arguments, &Limits::default())?;
    let context = Context { results_max: 1_000_000, ..Context::default() };
    let mut searching = Searching::new(Arc::clone(index), &request, context)?;
    while !searching.step() {}
    let key = searching.loaded_key().map(|key| key.field);
    for hit in searching.take_unordered() {
        let at = usize::from(hit.key[1] - b'1');
        let field = &index.rules().definition.fields[key.unwrap()];
        let value = match analysis::Document::value(&fields(at), &field.identifier) {
            Value::Text(text) if matches!(field.kind, FieldKind::Numeric) => {
                Sortable::Number(std::str::from_utf8(&text).unwrap().parse().unwrap())
            }
            Value::Text(text) => Sortable::Text(text.as_ref().into()),
            _ => Sortable::Missing,
        };
        searching.offer(hit, value);
    }
    Ok(searching.into_found())
}

/// The number of results, and their keys.
fn keys(found: &Found) -> String {
    let keys = found.hits.iter().map(|hit| String::from_utf8_lossy(&hit.key).into_owned());
    std::iter::once(found.total.to_string()).chain(keys).collect::<Vec<_>>().join(" ")
}

#[test]
fn options_narrow_and_order_the_results() {
    let index = index();
    const NEAREST: &str = "*=>[KNN 3 @v $q]";
    for (query, options, wanted) in [
        (NEAREST, "", "3 d1 d2 d3"),
        (NEAREST, "SORTBY __v_score", "3 d3 d1 d2"),
        (NEAREST, "SORTBY __v_score DESC", "3 d2 d1 d3"),
        ("@n:[4 10]=>[KNN 3 @v $q as dist]", "FILTER n 0 6", "1 d1"),
        ("hello", "SORTBY n", "3 d2 d1 d3"),
        ("hello", "SORTBY t", "3 d2 d1 d3"),
        ("hello", "SORTBY s", "3 d2 d1 d3"),
        ("hello", "SORTBY ns", "3 d3 d1 d2"),
        ("hello", "SORTBY g DESC", "3 d3 d2 d1"),
        // Without a value for the field all are equal.
        ("hello", "SORTBY none", "3 d1 d2 d3"),
        ("hello", "SORTBY none DESC", "3 d3 d2 d1"),
        ("hello", "SORTBY none DESC LIMIT 0 1", "3 d3"),
        ("hello", "SORTBY g LIMIT 1 1", "3 d2"),
        ("hello", "FILTER nope 0 1", "0"),
        ("hello", "FILTER t 0 1", "0"),
        ("hello", "FILTER n 4 6", "1 d1"),
        ("hello", "FILTER n (5 9", "1 d3"),
        ("hello", "FILTER n 4 9 FILTER n 0 5", "1 d1"),
        ("hello", "GEOFILTER n 1 1 1 km", "0"),
        ("hello", "INKEYS 2 d1 d3", "2 d1 d3"),
        ("hello", "INKEYS 1 nope", "0"),
        ("hello", "INKEYS 0", "0"),
        ("hello", "INFIELDS 1 b", "1 d2"),
        ("hello", "INFIELDS 1 nope", "0"),
        ("hello", "INFIELDS 1 n", "0"),
        ("hello", "LIMIT 0 0", "3"),
        ("hello", "LIMIT 1 1", "3 d1"),
        ("hello", "SCORER BM25STD", "3 d2 d1 d3"),
        ("hello", "SCORER BM25STD.NORM", "3 d2 d1 d3"),
        ("hello", "", "3 d2 d1 d3"),
    ] {
        let found = search(&index, query, options);
        assert_eq!(found.as_ref().map(keys), Ok(wanted.into()), "{query} {options}");
    }
    let nearest = search(&index, NEAREST, "").unwrap();
    assert_eq!(nearest.distance_fields, [DistanceField { name: (*b"__v_score").into(), place: 0 }]);
    let distances: Vec<_> = nearest.hits.iter().map(Hit::distance).collect();
    assert_eq!(distances, [Some(1.0), Some(4.0), Some(0.0)]);
}

/// The answers are RediSearch's: the nearest first, then ranges as the query has them, each for its own
/// documents; documents without the distance that orders come last.
#[test]
fn each_vector_clause_yields_its_own_distance() {
    let index = index();
    let near = "@v:[VECTOR_RANGE 1 $q]=>{$YIELD_DISTANCE_AS: near}";
    let any = format!("{near} | @v:[VECTOR_RANGE 9 $q]=>{{$YIELD_DISTANCE_AS: any}}");
    let distances = |query: &str, options: &str| {
        let found = search(&index, query, options).unwrap();
        let name = |field: &DistanceField| String::from_utf8_lossy(&field.name).into_owned();
        let names: Vec<_> = found.distance_fields.iter().map(name).collect();
        let row = |hit: &Hit| (String::from_utf8_lossy(&hit.key).into_owned(), hit.distances.to_vec());
        (names.join(" "), found.hits.iter().map(row).collect::<Vec<_>>())
    };
    let row = |key: &str, distances: &[Option<f32>]| (key.to_owned(), distances.to_vec());
    let (d1, d2, d3) = (
        row("d1", &[Some(1.0), Some(1.0)]),
        row("d2", &[None, Some(4.0)]),
        row("d3", &[Some(0.0), Some(0.0)]),
    );
    let names = || "near any".to_owned();
    assert_eq!(distances(&any, "SORTBY any DESC"), (names(), vec![d2.clone(), d1.clone(), d3.clone()]));
    assert_eq!(distances(&any, "SORTBY near DESC"), (names(), vec![d1.clone(), d3.clone(), d2.clone()]));
    let turned = format!("@v:[VECTOR_RANGE 9 $q]=>{{$YIELD_DISTANCE_AS: any}} | {near}");
    let by_second = distances(&turned, "SORTBY near DESC").1.into_iter().map(|(key, _)| key);
    assert_eq!(by_second.collect::<Vec<_>>(), ["d1", "d3", "d2"]);
    let nearest = distances(&format!("({near})=>[KNN 2 @v $q AS k]"), "SORTBY near DESC");
    assert_eq!(nearest, ("k near".to_owned(), vec![d1, d3]));
}

/// The score of a document among the nearest is that which the filter gives it, without a filter none;
/// results without SORTBY stand by it. Beside a vector no distance of terms counts. As in RediSearch.
#[test]
fn the_nearest_have_the_scores_of_their_filter() {
    let index = index();
    let scores = |query: &str, options: &str| {
        let found = search(&index, query, options).unwrap();
        let row = |hit: &Hit| (String::from_utf8_lossy(&hit.key).into_owned(), hit.score, hit.distance());
        found.hits.iter().map(row).collect::<Vec<_>>()
    };
    let row = |key: &str, score: f64, distance: f32| (key.to_owned(), score, Some(distance));
    let among = "(hello | world)=>[KNN 3 @v $q AS d]";
    let far = |key: &str| match key {
        "d1" => 1.0,
        "d2" => 4.0,
        _ => 0.0,
    };
    for scorer in ["TFIDF", "BM25STD", "DOCSCORE"] {
        let options = format!("SCORER {scorer}");
        let wanted: Vec<_> = scores("hello | world", &options)
            .into_iter()
            .map(|(key, score, _)| row(&key, score, far(&key)))
            .collect();
        assert_eq!(scores(among, &options), wanted, "{scorer}");
        let two = among.replace('3', "2");
        let least: Vec<_> = wanted.into_iter().filter(|(key, ..)| key != "d2").collect();
        assert_eq!(scores(&two, &options), least, "{scorer}");
    }
    // By the distance nothing is scored.
    let by_distance = [row("d3", 0.0, 0.0), row("d1", 0.0, 1.0), row("d2", 0.0, 4.0)];
    assert_eq!(scores(among, "SORTBY d WITHSCORES"), by_distance);
    let none = [row("d1", 0.0, 1.0), row("d2", 0.0, 4.0), row("d3", 0.0, 0.0)];
    assert_eq!(scores("*=>[KNN 3 @v $q AS d]", "WITHSCORES SCORER TFIDF"), none);
    let own = [row("d1", 1.0, 1.0), row("d2", 1.0, 4.0), row("d3", 1.0, 0.0)];
    assert_eq!(scores("*=>[KNN 3 @v $q AS d]", "WITHSCORES SCORER DOCSCORE"), own);
}

#[test]
fn scores_and_sort_keys_come_with_the_results() {
    let index = index();
    let found = search(&index, "hello", "SORTBY ns WITHSCORES EXPLAINSCORE").unwrap();
    let values: Vec<_> = found.hits.iter().map(|hit| (hit.score, hit.sortable.clone().unwrap())).collect();
    let number = |score, number| (score, Sortable::Number(number));
    assert_eq!(values, [number(0.5, 1.0), number(0.5, 3.0), number(2.0 / 3.0, 10.0)]);
    assert!(found.hits.iter().all(|hit| hit.explanation.is_some()));
    let scores = |options: &str| -> Vec<f64> {
        search(&index, "hello", options).unwrap().hits.iter().map(|hit| hit.score).collect()
    };
    let (plain, parts) = (scores("WITHSCORES SCORER BM25STD"), scores("WITHSCORES SCORER BM25STD.NORM"));
    assert!(
        plain.iter().zip(&parts).all(|(score, part)| (score / plain[0] - part).abs() < 1e-12),
        "{parts:?}"
    );
    assert_eq!(scores("WITHSCORES SCORER BM25STD.NORM SORTBY n LIMIT 0 1")[0], parts[0]);
    let found = search(&index, "hello", "SORTBY s").unwrap();
    assert_eq!(found.hits[0].sortable, Some(Sortable::Text(b"aa".as_slice().into())));
}

#[test]
fn the_first_error_is_redisearchs() {
    let index = index();
    for (query, options, wanted) in [
        ("hello", "SORTBY nope", "Property `nope` not loaded nor in schema"),
        ("hello", "LANGUAGE nope", "No such language"),
        ("hello (", "SCORER nope LANGUAGE nope", "No such language"),
        ("hello (", "SCORER nope", "No such scorer nope"),
        ("hello (", "SORTBY nope", "Syntax error at offset 6 near hello"),
        ("hello", "FORMAT EXPAND", "EXPAND format is only supported with RESP3"),
        ("hello", "GEOFILTER n 999 1 1 km", "Invalid GeoFilter lat/lon"),
        ("hello", "LIMIT 0 2000000", "LIMIT exceeds maximum of 1000000"),
    ] {
        let found = search(&index, query, options);
        assert_eq!(found.err().map(|error| error.to_string()).as_deref(), Some(wanted), "{query} {options}");
    }
}

#[test]
fn keys_that_are_not_admitted_are_not_there() {
    let index = index();
    let found = |query: &str, options: &str| {
        let mut arguments: Vec<&[u8]> = vec![query.as_bytes()];
        arguments.extend(options.split_whitespace().map(str::as_bytes));
        arguments.extend([b"PARAMS".as_slice(), b"2", b"q", &[0; 4], b"DIALECT", b"2"]);
        let request = Search::parse(&arguments, &Limits::default()).unwrap();
        let key_filter = Some(KeyFilter::new(|key| key != b"d3"));
        let context = Context { results_max: 1_000_000, key_filter, ..Context::default() };
        let mut searching = Searching::new(Arc::clone(&index), &request, context).unwrap();
        while !searching.step() {}
        keys(&searching.into_found())
    };
    assert_eq!(found("*", ""), "2 d1 d2");
    assert_eq!(found("hello", "SORTBY ns ASC"), "2 d1 d2");
    assert_eq!(found("hello", "LIMIT 0 0"), "2");
    // d3 is the nearest of all.
    assert_eq!(found("*=>[KNN 1 @v $q]", "SORTBY __v_score"), "1 d1");
    assert_eq!(found("hello=>[KNN 2 @v $q]", "SORTBY __v_score"), "2 d1 d2");
    assert_eq!(found("@v:[VECTOR_RANGE 10 $q]", ""), "2 d1 d2");
}
