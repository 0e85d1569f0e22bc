//! Fused searches over keys that go and change between the steps.

use martlet_base::number::NumberBuffer;
use martlet_base::random::Random;
use martlet_search::aggregate::rows::Reading;
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
    text_of(run.into_results())
}

fn text_of(results: HybridResults) -> String {
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

impl Store {
    fn run_of(&self, options: &str, vector: f32) -> HybridRun {
        let mut words: Vec<&[u8]> = vec![b"SEARCH", b"red", b"SCORER", b"DOCSCORE", b"VSIM", b"@v", b"$b"];
        words.extend(options.split_whitespace().map(str::as_bytes));
        let bytes = vector.to_le_bytes();
        words.extend([&b"PARAMS"[..], b"2", b"b", &bytes]);
        let request = Hybrid::parse(&words, &Limits::default()).unwrap();
        let context = Context { results_max: 1_000_000, ..Context::default() };
        HybridRun::new(self.catalogue.find(b"i").unwrap(), request, context).unwrap()
    }

    /// The bytes of this store's part.
    fn part_of(&mut self, options: &str, vector: f32) -> Vec<u8> {
        let mut part = HybridPart::new(self.run_of(options, vector));
        let mut access = Access { keys: &mut self.keys, outside: Some(0) };
        while !part.step(&mut access, 1) {}
        part.encode().unwrap()
    }

    fn bytes_set(&mut self, name: &str, text: &str, number: u64, vector: f32) {
        let digits = number.to_string();
        let bytes = vector.to_le_bytes();
        let vector = std::str::from_utf8(&bytes).unwrap();
        let mut fields = vec![("t", text), ("v", vector), ("x", &digits)];
        fields.extend((!number.is_multiple_of(3)).then_some(("n", digits.as_str())));
        self.set(name, &fields);
    }
}

#[test]
fn the_parts_of_several_servers_are_one_run() {
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut all = Store::new(SCHEMA);
    let mut parts: Vec<Store> = (0..3).map(|_| Store::new(SCHEMA)).collect();
    for at in 0..200u16 {
        let (key, text) = (format!("d{at:03}"), if random.below(2) == 0 { "red" } else { "blue" });
        // Vectors whose bytes are text, no two alike.
        let number = random.below(9);
        let vector = f32::from_le_bytes([0, (at * 37 % 128) as u8, (at * 37 / 128 % 128) as u8, b'A']);
        all.bytes_set(&key, text, number, vector);
        parts[random.below(3) as usize].bytes_set(&key, text, number, vector);
    }
    for options in [
        "LOAD 1 @__key",
        "KNN 2 K 7 COMBINE RRF 4 CONSTANT 3 WINDOW 15 YIELD_SCORE_AS s LOAD 3 @__key @x @t LIMIT 0 30",
        "YIELD_SCORE_AS near COMBINE LINEAR 6 ALPHA 0.4 BETA 0.6 WINDOW 40 LOAD 2 @__key @n SORTBY 4 @n DESC @__key ASC LIMIT 3 40",
        "COMBINE RRF 2 WINDOW 50 GROUPBY 1 @n REDUCE COUNT 0 AS c REDUCE SUM 1 @n AS sum SORTBY 2 @n ASC",
        "COMBINE RRF 2 WINDOW 50 LOAD 6 @__key AS k @__score AS f FILTER exists(@n) APPLY @n*2 AS m LIMIT 0 60",
        "LIMIT 0 0",
        "NOSORT LOAD *",
    ] {
        let run = all.run_of(options, 8.0);
        let expected = end(&mut all, run);
        let sent: Vec<Reading> =
            parts.iter_mut().map(|part| Reading::new(part.part_of(options, 8.0)).unwrap()).collect();
        let mut run = all.run_of(options, 8.0);
        run.take_parts(sent, false).unwrap();
        while !run.step_of_parts().unwrap() {}
        assert_eq!(run.results.ended_in, None);
        // The order of names is that in which they appear.
        let sorted = |text: String| {
            let rows = text.split(' ').map(|row| {
                let mut pairs: Vec<&str> = row.split(',').collect();
                pairs.sort_unstable();
                pairs.join(",")
            });
            rows.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted(text_of(run.into_results())), sorted(expected), "seed {seed}: {options}");
    }
    // A part that ends early, one that does not come, and bytes of another request.
    let part = HybridPart::new(parts[0].run_of("LOAD 1 @__key", 8.0));
    let mut late = part;
    late.end_early();
    let sent = vec![Reading::new(late.encode().unwrap()).unwrap()];
    let mut run = all.run_of("LOAD 1 @__key", 8.0);
    run.take_parts(sent, false).unwrap();
    assert_eq!(run.results.ended_in, Some(EndedIn::Search));
    let mut run = all.run_of("LOAD 1 @__key", 8.0);
    run.take_parts(Vec::new(), true).unwrap();
    assert_eq!((run.step_of_parts(), run.results.ended_in), (Ok(true), Some(EndedIn::Search)));
    let other = Reading::new(parts[0].part_of("LOAD 1 @t", 8.0)).unwrap();
    let error = all.run_of("LOAD 2 @t @x", 8.0).take_parts(vec![other], false).expect_err("another width");
    assert_eq!(error.text(), "ERRCLUSTER A node's answer cannot be read");
}
