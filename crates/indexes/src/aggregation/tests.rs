//! Aggregations over keys: what rows have of hashes and of JSON documents.

use martlet_base::number::NumberBuffer;
use martlet_base::random::Random;
use martlet_search::aggregate::value::Value;
use martlet_search::request::Limits;

use super::*;
use crate::testing::Store;

impl Store {
    fn begin(&self, text: &str) -> Result<Aggregation, Error> {
        let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        let request = Aggregate::parse(&words, &Limits { dialect: 2, ..Limits::default() })?;
        let means = Means { results_max: u64::MAX, memory_max_bytes: 1 << 24, seed: 1 };
        Aggregation::new(self.catalogue.find(b"i").unwrap(), request, Context::default(), means, Role::Whole)
    }

    fn go_on(&mut self, aggregation: &mut Aggregation, wanted: usize) {
        let mut access = Access { keys: &mut self.keys, outside: Some(0) };
        while !aggregation.step(&mut access, 1, wanted) {}
    }

    fn rows(&mut self, text: &str) -> Vec<String> {
        let mut aggregation = self.begin(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.go_on(&mut aggregation, usize::MAX);
        assert_eq!(aggregation.take_failure(), None, "{text}");
        shown(&mut aggregation, usize::MAX)
    }
}

fn shown(aggregation: &mut Aggregation, most: usize) -> Vec<String> {
    let mut rows = Vec::new();
    aggregation.take(most, |row| {
        let value = |value: &Value| match value {
            Value::Null => "null".into(),
            // Sums depend on their order in the last digits.
            Value::Number(number) => format!("#{}", (number * 1e6).round() / 1e6),
            value => String::from_utf8_lossy(value.to_text(&mut NumberBuffer::new())).into_owned(),
        };
        let pairs =
            row.properties().map(|(name, own)| format!("{}={}", String::from_utf8_lossy(name), value(own)));
        rows.push(pairs.collect::<Vec<_>>().join(" "));
    });
    rows
}

#[test]
fn fields_of_hashes_are_numbers_where_the_schema_has_them() {
    let mut store = Store::new("i SCHEMA t TEXT SORTABLE n NUMERIC m NUMERIC SORTABLE");
    store.set("a", &[("t", "Hello"), ("n", "2.50"), ("m", "1"), ("x", "7")]);
    store.set("b", &[("x", "y"), ("z", "w"), ("n", "3")]);
    let mut rows = |text: &str| store.rows(text).join("; ");
    assert_eq!(rows("* LOAD 5 t n m x __key"), "t=Hello n=#2.5 m=#1 x=7 __key=a; n=#3 x=y __key=b");
    assert_eq!(rows("* APPLY exists(@t) AS e FILTER @e"), "t=hello e=#1");
    assert_eq!(rows("* LOAD 3 n AS k APPLY @k*2 AS d"), "k=#2.5 d=#5; k=#3 d=#6");
    assert_eq!(rows("* LOAD 1 nope"), "; ");
    // Names come in the order in which they first appeared.
    let all = rows("* LOAD *");
    assert!(all.ends_with("; n=3 x=y z=w"), "{all}");
    assert_eq!(rows("* GROUPBY 0 REDUCE SUM 1 @n AS s REDUCE COUNT 0 AS c"), "s=#5.5 c=#2");
}

#[test]
fn paths_have_one_value_or_several_by_dialect() {
    let mut store = Store::new("i ON JSON SCHEMA $.t AS t TEXT $.g[*] AS g TAG $.n AS n NUMERIC SORTABLE");
    store.set_json("a", r#"{"t":"Hello","g":["x","y"],"n":1.5,"b":true,"z":null,"e":[],"o":{"k":[1,2]}}"#);
    let mut rows = |text: &str| store.rows(text).join("; ");
    assert_eq!(rows("* LOAD 3 t g n"), "t=Hello g=x n=#1.5");
    assert_eq!(rows("* LOAD 3 t g n DIALECT 3"), r#"t=["Hello"] g=["x","y"] n=#1.5"#);
    assert_eq!(rows("* LOAD 9 $.b AS b $.z AS z $.o AS o"), r#"b=#1 z=null o={"k":[1,2]}"#);
    assert_eq!(rows("* LOAD 9 $.b AS b $.z AS z $.o.k AS o DIALECT 3"), "b=[true] z=[null] o=[[1,2]]");
    assert_eq!(rows("* LOAD 3 $.e AS e"), "e=[]");
    assert_eq!(rows("* LOAD 3 $.e AS e DIALECT 3"), "");
    assert_eq!(
        rows("* LOAD 1 g APPLY upper(@g) AS u APPLY @g AS c DIALECT 4"),
        r#"g=["x","y"] u=X c=["x","y"]"#
    );
    assert_eq!(rows("* LOAD 3 t.x $[ ."), "");
    assert!(rows("* LOAD *").starts_with(r#"$={"t":"Hello""#));
    assert_eq!(
        store.begin("* LOAD * APPLY @t AS u").err().unwrap().text(),
        "Property `t` not loaded nor in pipeline"
    );
}

#[test]
fn rows_of_keys_that_have_gone_or_expired_are_left_out() {
    let mut store = Store::new("i SCHEMA n NUMERIC SORTABLE");
    for at in 0..6 {
        store.set(&format!("d{at}"), &[("n", &at.to_string())]);
    }
    store.with_key("d1", |keys, key| {
        keys.set_expiry(key, Some(1));
    });
    let mut aggregation = store.begin("* SORTBY 1 @n LOAD 1 @__key").unwrap();
    assert!(aggregation.looks_at_keys());
    store.go_on(&mut aggregation, 0);
    store.with_key("d3", |keys, key| {
        keys.delete(key);
    });
    store.go_on(&mut aggregation, usize::MAX);
    let rows = shown(&mut aggregation, usize::MAX);
    assert_eq!(rows.join("; "), "n=#0 __key=d0; n=#2 __key=d2; n=#4 __key=d4; n=#5 __key=d5");
}

#[test]
fn an_error_leaves_the_rows_before_it() {
    let mut store = Store::new("i SCHEMA n NUMERIC SORTABLE");
    store.set("a", &[("n", "1"), ("x", "1")]);
    store.set("b", &[("n", "2")]);
    let error = "x: has no value, consider using EXISTS if applicable";
    let mut aggregation = store.begin("* LOAD 1 x APPLY @x AS y").unwrap();
    store.go_on(&mut aggregation, usize::MAX);
    assert_eq!(aggregation.take_failure().unwrap().text(), error);
    assert_eq!((aggregation.take_total(9), shown(&mut aggregation, 9)), (1, vec!["x=1 y=1".to_owned()]));
    let mut aggregation = store.begin("* LOAD 1 x APPLY @x AS y LIMIT 0 1").unwrap();
    store.go_on(&mut aggregation, usize::MAX);
    assert_eq!(aggregation.take_failure(), None);
    let mut aggregation = store.begin("* LOAD 1 x APPLY @x AS y GROUPBY 0 REDUCE COUNT 0").unwrap();
    store.go_on(&mut aggregation, usize::MAX);
    assert_eq!((aggregation.ready(), aggregation.take_failure().unwrap().text()), (0, error));
}

#[test]
fn rows_are_taken_in_parts_and_totals_count_what_was_read_for_each() {
    let mut store = Store::new("i SCHEMA n NUMERIC SORTABLE");
    for at in 0..7 {
        store.set(&format!("d{at}"), &[("n", &at.to_string())]);
    }
    for (text, wanted) in [
        ("* APPLY @n AS m", vec![(1, 3), (1, 3), (1, 1)]),
        ("* FILTER @n>1", vec![(3, 3), (1, 2)]),
        ("* SORTBY 1 @n", vec![(7, 3), (0, 3), (0, 1)]),
        ("* SORTBY 1 @n LIMIT 1 6", vec![(7, 3), (0, 3), (0, 0)]),
        ("* LIMIT 0 0", vec![(7, 0)]),
    ] {
        let (mut aggregation, mut parts) = (store.begin(text).unwrap(), Vec::new());
        loop {
            store.go_on(&mut aggregation, 3);
            let goes_on = aggregation.ready() >= 3;
            parts.push((aggregation.take_total(3), shown(&mut aggregation, 3).len()));
            if !goes_on {
                break;
            }
        }
        assert_eq!(parts, wanted, "{text}");
    }
}

impl Store {
    fn request(text: &str) -> Aggregate {
        let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        Aggregate::parse(&words, &Limits { dialect: 2, ..Limits::default() }).unwrap()
    }

    /// The bytes of this store's part, or the error.
    fn part(&mut self, text: &str) -> Result<Vec<u8>, Error> {
        let index = self.catalogue.find(b"i").unwrap();
        let mut part = Aggregation::new(index, Store::request(text), Context::default(), MEANS, Role::Part)?;
        self.go_on(&mut part, usize::MAX);
        part.take_failure().map_or_else(|| part.encode(), Err)
    }

    /// The rows and the total of an aggregation over the parts.
    fn of_parts(&self, text: &str, parts: Vec<Vec<u8>>) -> Result<(Vec<String>, u64), Error> {
        let index = self.catalogue.find(b"i").unwrap();
        let mut whole = Aggregation::new(index, Store::request(text), Context::default(), MEANS, Role::Rest)?;
        whole.take_parts(parts.into_iter().map(|bytes| Reading::new(bytes).unwrap()).collect());
        while !whole.step_of_parts(usize::MAX) {}
        whole.take_failure().map_or(Ok(()), Err)?;
        let total = whole.take_total(usize::MAX);
        Ok((shown(&mut whole, usize::MAX), total))
    }
}

const MEANS: Means = Means { results_max: u64::MAX, memory_max_bytes: 1 << 24, seed: 1 };

#[test]
fn an_aggregation_over_parts_is_one_over_all_documents() {
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let schema = "i SCHEMA t TEXT SORTABLE n NUMERIC SORTABLE p NUMERIC g TAG SORTABLE";
    let mut all = Store::new(schema);
    let mut parts: Vec<Store> = (0..3).map(|_| Store::new(schema)).collect();
    for at in 0..400 {
        let (key, number) = (format!("d{at}"), at.to_string());
        let price = random.below(50).to_string();
        let tag = format!("g{}", random.below(6));
        let mut fields =
            vec![("t", ["Red Car", "blue", "Blue red"][random.below(3) as usize]), ("n", &number)];
        for (name, value) in [("p", &price), ("g", &tag), ("x", &number)] {
            fields.extend((random.below(5) > 0).then_some((name, value.as_str())));
        }
        all.set(&key, &fields);
        parts[random.below(3) as usize].set(&key, &fields);
    }
    for text in [
        "* GROUPBY 1 @g REDUCE COUNT 0 AS c REDUCE SUM 1 @n AS s REDUCE AVG 1 @p AS a REDUCE MIN 1 @n AS l REDUCE \
         MAX 1 @p AS h SORTBY 2 @g ASC",
        "red GROUPBY 2 @g @t REDUCE COUNT 0 AS c FILTER @c>3 APPLY @c*2 AS d",
        "* LOAD 1 @y GROUPBY 0 REDUCE MIN 1 @y AS l",
        "* LOAD 1 @x GROUPBY 0 REDUCE MIN 1 @x AS l REDUCE MAX 1 @x AS h REDUCE AVG 1 @x AS a",
        "* GROUPBY 1 @g REDUCE COUNT_DISTINCTISH 1 @p AS d",
        "* GROUPBY 1 @g REDUCE COUNT_DISTINCT 1 @p AS d REDUCE QUANTILE 2 @n 0.5 AS q",
        "* GROUPBY 1 @p REDUCE FIRST_VALUE 4 @t BY @n DESC AS f",
        "* GROUPBY 1 @g REDUCE COUNT 0 AS c GROUPBY 0 REDUCE SUM 1 @c AS s REDUCE MAX 1 @c AS m",
        "* APPLY @n%7 AS m GROUPBY 1 @m REDUCE COUNT 0 AS c REDUCE STDDEV 1 @n AS s SORTBY 2 @m DESC LIMIT 1 3",
        "* SORTBY 2 @n DESC LIMIT 3 20",
        "* SORTBY 2 @n DESC MAX 10 LOAD 2 @x @__key APPLY upper(@__key) AS u",
        "* FILTER @n>100 SORTBY 4 @g ASC @n DESC LIMIT 0 50",
        "@g:{g2} LOAD * APPLY @n+1 AS m",
        "@g:{g1} LOAD 1 @__key",
        // Loaded values are others than those by which rows are sorted, and than those between.
        "* SORTBY 4 @t ASC @n ASC LOAD 1 @t LIMIT 0 90",
        "* SORTBY 2 @n ASC LIMIT 5 300 LOAD *",
        "* SORTBY 2 @n DESC LIMIT 0 120 APPLY upper(@t) AS u APPLY @n+1 AS m LOAD 2 @t @x LOAD * FILTER @m>300",
        "* LOAD * SORTBY 2 @n ASC LIMIT 0 300 APPLY lower(@t) AS u LOAD 1 @p",
        "* LIMIT 0 0",
        "-car SORTBY 2 @n ASC LIMIT 0 9 LOAD 1 @p FILTER exists(@p)",
    ] {
        let expected = {
            let mut aggregation = all.begin(text).unwrap();
            all.go_on(&mut aggregation, usize::MAX);
            (aggregation.take_total(usize::MAX), shown(&mut aggregation, usize::MAX))
        };
        let sent = parts.iter_mut().map(|part| part.part(text)).collect::<Result<Vec<_>, _>>();
        let sent = sent.unwrap_or_else(|error| panic!("{text}: {error}"));
        if text.contains("AVG 1 @p") {
            assert!(sent.iter().all(|bytes| bytes.len() < 1000), "groups go, not rows");
        }
        let (mut rows, total) = all.of_parts(text, sent).unwrap();
        let (expected_total, mut expected) = expected;
        if text.contains("LOAD *") {
            // The order of names is that in which they appear.
            for row in rows.iter_mut().chain(&mut expected) {
                let mut pairs: Vec<&str> = row.split(' ').collect();
                pairs.sort_unstable();
                *row = pairs.join(" ");
            }
        }
        if !text.contains("SORTBY") {
            rows.sort();
            expected.sort();
        }
        assert_eq!(rows, expected, "seed {seed}: {text}");
        if text.contains("SORTBY") || text.contains("GROUPBY") || text.ends_with("LIMIT 0 0") {
            assert_eq!(total, expected_total, "{text}");
        }
    }
    // LIMIT without an order: some documents, as many as wanted.
    let sent: Vec<_> =
        parts.iter_mut().map(|part| part.part("* LOAD 1 @__key LIMIT 100 50").unwrap()).collect();
    let (rows, _) = all.of_parts("* LOAD 1 @__key LIMIT 100 50", sent).unwrap();
    assert_eq!(rows.iter().collect::<std::collections::HashSet<_>>().len(), 50);
    // TOLIST has the values of all parts, each once.
    let text = "* GROUPBY 0 REDUCE TOLIST 1 @g AS l APPLY format(\"%s\",@l) AS s";
    let sent: Vec<_> = parts.iter_mut().map(|part| part.part(text).unwrap()).collect();
    assert_eq!(all.of_parts(text, sent).unwrap().0.len(), 1);
    // An error of a row is an error of its part.
    let error = parts[0].part("* LOAD 1 @x APPLY @x+1 AS y").unwrap_err();
    assert!(error.text().contains("EXISTS"), "{error}");
}
