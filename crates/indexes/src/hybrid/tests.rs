//! Fused searches over keys that go and change between the steps.

use martlet_base::number::NumberBuffer;
use martlet_search::request::Limits;

use super::*;
use crate::testing::Store;

const SCHEMA: &str =
    "i SCHEMA t TEXT n NUMERIC SORTABLE v VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2";

fn store() -> Store {
    let mut store = Store::new(SCHEMA);
    for (name, text, number, vector) in [
        ("a", "red", "3", "\0\0\0\0"),
        ("b", "red and more", "2", "\0\0\0@"),
        ("c", "blue", "1", "\0\0\u{40}@"),
    ] {
        store.set(name, &[("t", text), ("n", number), ("v", vector)]);
    }
    store
}

fn begin(store: &Store, options: &str) -> Result<HybridRun, Error> {
    let mut words: Vec<&[u8]> = vec![b"SEARCH", b"red", b"VSIM", b"@v", b"$b"];
    words.extend(options.split_whitespace().map(str::as_bytes));
    words.extend([&b"PARAMS"[..], b"2", b"b", &[0; 4]]);
    let request = Hybrid::parse(&words, &Limits::default())?;
    let context = Context { results_max: 1_000_000, ..Context::default() };
    HybridRun::new(store.catalogue.find(b"i").unwrap(), request, context)
}

/// The rest of a run: the total, then the properties of each row.
fn end(store: &mut Store, mut run: HybridRun) -> String {
    let mut access = Access { keys: &mut store.keys, outside: Some(0) };
    while !run.step(&mut access, 1).unwrap() {}
    let results = run.into_results();
    let rows = results.rows.iter().map(|row| {
        let properties = row.iter().map(|(name, value)| {
            let mut buffer = NumberBuffer::new();
            let text = String::from_utf8_lossy(value.to_text(&mut buffer)).into_owned();
            format!("{}={text}", String::from_utf8_lossy(name))
        });
        properties.collect::<Vec<_>>().join(",")
    });
    std::iter::once(results.total.to_string()).chain(rows).collect::<Vec<_>>().join(" ")
}

#[test]
fn rows_have_what_the_request_names() {
    let mut store = store();
    for (options, wanted) in [
        ("LOAD 1 @__key", "3 __key=a __key=b __key=c"),
        ("LOAD 2 @n @t LIMIT 1 1", "3 n=2,t=red and more"),
        ("LOAD 3 @__key AS k LIMIT 2 5", "3 k=c"),
        ("SORTBY 1 @n LOAD 1 @__key", "3 __key=c,n=1 __key=b,n=2 __key=a,n=3"),
        ("COMBINE LINEAR 4 ALPHA 0 BETA 1 YIELD_SCORE_AS s LIMIT 0 1", "3 __key=a,s=1"),
        ("COMBINE LINEAR 4 ALPHA 0 BETA 1 LOAD 3 @__score AS s LIMIT 0 1", "3 s=1"),
        ("YIELD_SCORE_AS near LOAD 1 @__key LIMIT 0 1", "3 __key=a,near=1"),
        ("GROUPBY 1 @n REDUCE COUNT 0 AS c SORTBY 2 @n DESC LIMIT 0 1", "3 n=3,c=1"),
        ("KNN 2 K 1 LOAD 1 @__key APPLY @n*2 AS m FILTER @m>5", "2 __key=a,n=3,m=6"),
        ("LIMIT 0 0", "3"),
        ("NOSORT LOAD 1 @n", "3 n=3 n=2 n=1"),
    ] {
        let run = begin(&store, options).unwrap_or_else(|error| panic!("{options}: {error}"));
        assert_eq!(end(&mut store, run), wanted, "{options}");
    }
    for (options, wanted) in [
        ("APPLY @x AS y", "Property `x` not loaded nor in pipeline"),
        ("SORTBY 1 @x", "Property `x` not loaded nor in schema"),
        ("FORMAT EXPAND", "EXPAND format is only supported with RESP3"),
    ] {
        assert_eq!(begin(&store, options).expect_err(options).text(), wanted);
    }
}

#[test]
fn keys_that_go_after_the_search_are_left_out() {
    let mut store = store();
    let mut run = begin(&store, "LOAD 2 @__key @t").unwrap();
    while run.searching.is_some() {
        let mut access = Access { keys: &mut store.keys, outside: Some(0) };
        assert_eq!(run.step(&mut access, 1), Ok(false));
    }
    store.with_key("b", |keys, key| assert!(keys.delete(key)));
    store.set("a", &[("t", "changed")]);
    assert_eq!(end(&mut store, run), "3 __key=a,t=changed __key=c,t=blue");
}

#[test]
fn a_run_that_is_ended_early_has_what_it_has_found() {
    let mut store = store();
    let mut run = begin(&store, "LOAD 1 @__key").unwrap();
    run.end_early();
    assert_eq!(run.results.ended_in, Some(EndedIn::Search));
    assert_eq!(end(&mut store, run), "0");
    let mut run = begin(&store, "LOAD 1 @__key").unwrap();
    while !run.searching.as_ref().is_some_and(|searching| searching.is_at_vectors()) {
        let mut access = Access { keys: &mut store.keys, outside: Some(0) };
        run.step(&mut access, 1).unwrap();
    }
    run.end_early();
    assert_eq!(run.results.ended_in, Some(EndedIn::Vectors));
    assert_eq!(end(&mut store, run), "2 __key=a __key=b");
    let mut run = begin(&store, "LOAD 1 @__key").unwrap();
    while run.searching.is_some() {
        let mut access = Access { keys: &mut store.keys, outside: Some(0) };
        run.step(&mut access, 1).unwrap();
    }
    run.end_early();
    assert_eq!((run.results.ended_in, run.results.total), (Some(EndedIn::Pipeline), 3));
    assert_eq!(end(&mut store, run), "3");
}
