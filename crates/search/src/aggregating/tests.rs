//! Rows of an index through a pipeline, beside what a walk over the documents gives.

use std::borrow::Cow;
use std::collections::BTreeMap;

use martlet_base::number::NumberBuffer;
use martlet_base::random::Random;

use super::*;
use crate::aggregate::pipeline::{Progress, Source as Rows};
use crate::analysis::{self, Analysis};
use crate::definition::{self, create};
use crate::request::Limits;

const SCHEMA: &str = "i SCHEMA t TEXT NOSTEM n NUMERIC SORTABLE g TAG SORTABLE p NUMERIC v VECTOR FLAT 6 TYPE FLOAT32 DIM 1 \
                      DISTANCE_METRIC L2";

struct Fields(Vec<(&'static str, Vec<u8>)>);

impl analysis::Document for Fields {
    fn value(&self, identifier: &[u8]) -> analysis::Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(analysis::Value::Missing, |(_, value)| analysis::Value::Text(Cow::Borrowed(value)))
    }
}

/// A document of a test: its text, number and tag.
type Model = BTreeMap<String, (String, Option<u64>, Option<&'static str>)>;

fn index() -> Arc<Index> {
    let arguments: Vec<&[u8]> = SCHEMA.split_whitespace().map(str::as_bytes).collect();
    let context = definition::Context { memory_bytes: 1 << 30, is_path: |_| true };
    Arc::new(Index::new(create(&arguments, context).unwrap(), 4))
}

fn put(index: &Index, key: &str, text: &str, number: Option<u64>, tag: Option<&str>) {
    let vector = (number.unwrap_or(0) as f32).to_le_bytes().to_vec();
    let mut fields = vec![("t", text.as_bytes().to_vec()), ("v", vector)];
    for name in ["n", "p"] {
        fields.extend(number.map(|number| (name, number.to_string().into_bytes())));
    }
    fields.extend(tag.map(|tag| ("g", tag.as_bytes().to_vec())));
    let (mut analysis, rules) = (Analysis::default(), index.rules());
    let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), &Fields(fields)).unwrap();
    index.put(hash_bytes(key.as_bytes()), content).unwrap();
}

/// Rows whose documents are not looked at, but for their keys.
struct Keys<'a>(&'a mut Aggregating);

impl Rows for Keys<'_> {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        let before = batch.len();
        let has_more = self.0.fill(batch, most);
        assert!(batch.len() - before <= most);
        Ok(has_more)
    }

    fn load(
        &mut self,
        inputs: &[Input],
        _: Option<crate::aggregate::pipeline::SlotOf<'_>>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let documents: Vec<u64> = (0..batch.len()).map(|row| batch.document(row)).collect();
        let mut keys = Vec::new();
        self.0.keys(&documents, |key| keys.push(key.map(Value::from)));
        for (row, key) in keys.into_iter().enumerate() {
            for input in inputs {
                batch.row_mut(row)[input.slot] = key.clone();
            }
        }
        Ok(())
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Array(values) => values.iter().map(show).collect::<Vec<_>>().join("|"),
        value => String::from_utf8_lossy(value.to_text(&mut NumberBuffer::new())).into_owned(),
    }
}

fn rows(index: &Arc<Index>, query: &str, options: &str) -> Result<Vec<String>, Error> {
    let mut words: Vec<&[u8]> = vec![query.as_bytes()];
    words.extend(options.split_whitespace().map(str::as_bytes));
    words.extend([b"DIALECT".as_slice(), b"2", b"PARAMS", b"2", b"q", &[0; 4]]);
    let request = Aggregate::parse(&words, &Limits::default())?;
    let means = Means { results_max: u64::MAX, memory_max_bytes: 1 << 24, seed: 1 };
    let (mut aggregating, mut pipeline) =
        Aggregating::new(Arc::clone(index), &request, Context::default(), means, Role::Whole)?;
    let mut rows = Vec::new();
    for step in 0.. {
        assert!(step < 100_000, "{query} {options}");
        if pipeline.step(&mut Keys(&mut aggregating), usize::MAX, 37)? == Progress::Done {
            break;
        }
    }
    pipeline.take(usize::MAX, |row| {
        let pairs = row
            .properties()
            .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), show(value)));
        rows.push(pairs.collect::<Vec<_>>().join(" "));
    });
    Ok(rows)
}

#[test]
fn few_rows_come_in_the_order_in_which_documents_came() {
    let index = index();
    for at in 0..300 {
        put(&index, &format!("d{at}"), "red car", Some(at % 7), None);
    }
    let keys: Vec<String> = (0..300).map(|at| format!("__key=d{at}")).collect();
    assert_eq!(rows(&index, "*", "LOAD 1 @__key").unwrap(), keys);
    assert_eq!(rows(&index, "red", "LOAD 1 @__key LIMIT 10 5").unwrap(), keys[10..15]);
}

#[test]
fn rows_have_scores_distances_and_terms() {
    let index = index();
    put(&index, "a", "red car", Some(3), Some("x"));
    put(&index, "b", "blue", Some(1), None);
    let all = |query: &str, options: &str| rows(&index, query, options).unwrap();
    assert_eq!(all("red|blue", "ADDSCORES LOAD 1 @__key"), ["__score=1 __key=a", "__score=1 __key=b"]);
    let parts = all("red|blue", "SCORER BM25STD.NORM ADDSCORES LOAD 1 @__key SORTBY 2 @__score DESC");
    assert_eq!(parts[0], "__score=1 __key=b");
    // The parts of an intersection come in the order in which they are looked for.
    let both = all("(red|blue) car", "APPLY matched_terms() AS m");
    assert!(both == ["m=car|red"] || both == ["m=red|car"], "{both:?}");
    assert_eq!(all("bl*|red", "APPLY matched_terms() AS m"), ["m=red", "m=blue"]);
    let nearest = all("*=>[KNN 2 @v $q AS far]", "LOAD 1 @__key SORTBY 1 @far");
    assert_eq!(nearest, ["far=1 __key=b", "far=9 __key=a"]);
    assert_eq!(all("@v:[VECTOR_RANGE 2 $q]=>{$yield_distance_as:d}", "LOAD 1 @__key"), ["d=1 __key=b"]);
    let two =
        "@v:[VECTOR_RANGE 2 $q]=>{$yield_distance_as:d} | @v:[VECTOR_RANGE 9 $q]=>{$yield_distance_as:e}";
    assert_eq!(all(two, "LOAD 1 @__key SORTBY 1 @e"), ["d=1 e=1 __key=b", "e=9 __key=a"]);
    assert_eq!(all("*", "APPLY exists(@g) AS e APPLY @n*2 AS m"), ["g=x e=1 n=3 m=6", "e=0 n=1 m=2"]);
    let error = rows(&index, "red", "SORTBY 1 @nope").unwrap_err();
    assert_eq!(error.text(), "Property `nope` not loaded nor in schema");
}

#[test]
fn groups_are_those_of_a_walk_over_all_documents() {
    const WORDS: [&str; 4] = ["red", "blue", "car", "house"];
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let index = index();
    let mut model = Model::new();
    // More documents than are put into order.
    for _ in 0..30_000 {
        let key = format!("d{}", random.below(20_000));
        if random.below(8) == 0 {
            index.remove(hash_bytes(key.as_bytes()), key.as_bytes());
            model.remove(&key);
            continue;
        }
        let text = format!("{} {}", WORDS[random.below(4) as usize], WORDS[random.below(4) as usize]);
        let number = (random.below(5) > 0).then(|| random.below(50));
        let tag = (random.below(5) > 0).then(|| WORDS[random.below(4) as usize]);
        put(&index, &key, &text, number, tag);
        model.insert(key, (text, number, tag));
    }
    for query in ["*", "red", "-car", "@g:{blue|car}", "@n:[10 20]"] {
        let is_wanted = |(text, number, tag): &(String, Option<u64>, Option<&str>)| match query {
            "*" => true,
            "red" => text.contains("red"),
            "-car" => !text.contains("car"),
            "@g:{blue|car}" => matches!(tag, Some("blue" | "car")),
            _ => number.is_some_and(|number| (10..=20).contains(&number)),
        };
        let mut groups: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (_, number, tag) in model.values().filter(|document| is_wanted(document)) {
            let group = groups.entry(tag.unwrap_or("null").into()).or_default();
            (group.0, group.1) = (group.0 + 1, group.1 + number.unwrap_or(0));
        }
        let wanted: Vec<String> =
            groups.iter().map(|(tag, (count, sum))| format!("g={tag} c={count} s={sum}")).collect();
        let mut found = rows(&index, query, "GROUPBY 1 @g REDUCE COUNT 0 AS c REDUCE SUM 1 @n AS s").unwrap();
        found.sort();
        assert_eq!(found, wanted, "{query}");
        let mut pairs: BTreeMap<String, u64> = BTreeMap::new();
        for (_, number, tag) in model.values().filter(|document| is_wanted(document)) {
            let number = number.map_or("null".into(), |number| number.to_string());
            *pairs.entry(format!("g={} n={number}", tag.unwrap_or("null"))).or_default() += 1;
        }
        let mut found = rows(&index, query, "GROUPBY 2 @g @n REDUCE COUNT 0 AS c").unwrap();
        found.sort();
        assert!(
            found.into_iter().eq(pairs.iter().map(|(pair, count)| format!("{pair} c={count}"))),
            "{query}"
        );
        let mut numbers: Vec<u64> =
            model.values().filter(|document| is_wanted(document)).filter_map(|document| document.1).collect();
        numbers.sort_unstable();
        let wanted: Vec<String> = numbers.iter().rev().take(25).map(|number| format!("n={number}")).collect();
        assert_eq!(rows(&index, query, "SORTBY 2 @n DESC LIMIT 0 25").unwrap(), wanted, "{query}");
    }
}

#[test]
fn numbers_that_only_reducers_see_are_the_columns() {
    let index = index();
    for at in 0..20 {
        put(&index, &format!("d{at}"), "x", (at != 3).then_some(at), Some("g"));
    }
    let all = |options: &str| rows(&index, "*", options).unwrap().join(" ");
    assert_eq!(all("LOAD 1 @p GROUPBY 1 @g REDUCE SUM 1 @p AS s"), "g=g s=187");
    let several = "GROUPBY 1 @g REDUCE AVG 1 @p AS a REDUCE MAX 1 @p AS b REDUCE QUANTILE 2 @p 0 AS q";
    assert_eq!(all(several), "g=g a=9.35 b=19 q=0");
    // Others see what the document has: here every field is the key.
    assert_eq!(all("LOAD 1 @p GROUPBY 1 @g REDUCE FIRST_VALUE 1 @p AS f"), "g=g f=d0");
    assert_eq!(all("GROUPBY 1 @g REDUCE FIRST_VALUE 3 @g BY @p AS f REDUCE SUM 1 @p AS s"), "g=g f=g s=0");
    assert!(all("LOAD 1 @p GROUPBY 1 @p REDUCE SUM 1 @p AS s").starts_with("p=d0 s=0 p=d1"));
    assert_eq!(all("LOAD 1 @p APPLY 1 AS x GROUPBY 1 @g REDUCE SUM 1 @p AS s"), "g=g s=0");
}

#[test]
fn texts_that_come_and_go_between_steps_stay_with_their_documents() {
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let index = index();
    let tag_of = |number: u64| format!("t{}", number * 7 % 1501);
    for number in 0..4000 {
        put(&index, &number.to_string(), "x", Some(number), Some(&tag_of(number)));
    }
    let words: Vec<&[u8]> = "* GROUPBY 1 @g REDUCE TOLIST 1 @n AS n".split(' ').map(str::as_bytes).collect();
    let request = Aggregate::parse(&words, &Limits::default()).unwrap();
    let means = Means { results_max: u64::MAX, memory_max_bytes: 1 << 24, seed: 1 };
    let (mut aggregating, mut pipeline) =
        Aggregating::new(Arc::clone(&index), &request, Context::default(), means, Role::Whole).unwrap();
    let mut stays = vec![true; 4000];
    let mut next = 4000;
    while pipeline.step(&mut Keys(&mut aggregating), usize::MAX, 97).unwrap() != Progress::Done {
        for _ in 0..random.below(40) {
            let gone = random.below(4000);
            stays[gone as usize] = false;
            let key = gone.to_string();
            index.remove(hash_bytes(key.as_bytes()), key.as_bytes());
            put(&index, &next.to_string(), "x", Some(next), Some(&format!("new{}", next % 997)));
            next += 1;
        }
    }
    let mut found = BTreeMap::new();
    pipeline.take(usize::MAX, |row| {
        let mut properties = row.properties().map(|(_, value)| show(value));
        let (tag, numbers) = (properties.next().unwrap(), properties.next().unwrap());
        for number in numbers.split('|') {
            assert!(found.insert(number.parse::<u64>().unwrap(), tag.clone()).is_none(), "{number}");
        }
    });
    for (number, tag) in &found {
        let expected = if *number < 4000 { tag_of(*number) } else { format!("new{}", number % 997) };
        assert_eq!(*tag, expected, "{number}");
    }
    let missing = (0..4000).find(|number| stays[*number as usize] && !found.contains_key(number));
    assert_eq!(missing, None);
}

#[test]
fn a_document_that_changes_between_steps_is_gone() {
    let index = index();
    for at in 0..10 {
        put(&index, &format!("d{at}"), "red", Some(at), None);
    }
    let words: Vec<&[u8]> = vec![b"*", b"LOAD", b"1", b"@__key"];
    let request = Aggregate::parse(&words, &Limits::default()).unwrap();
    let means = Means { results_max: u64::MAX, memory_max_bytes: 1 << 24, seed: 1 };
    let (mut aggregating, _) =
        Aggregating::new(Arc::clone(&index), &request, Context::default(), means, Role::Whole).unwrap();
    let mut batch = Batch::new(1);
    while batch.len() < 4 {
        aggregating.fill(&mut batch, 4);
    }
    put(&index, "d1", "blue", Some(100), None);
    index.remove(hash_bytes(b"d7"), b"d7");
    let documents: Vec<u64> = (0..batch.len()).map(|row| batch.document(row)).collect();
    let mut there = Vec::new();
    aggregating.keys(&documents, |key| there.push(key.is_some()));
    assert_eq!(there, [true, false, true, true]);
    while aggregating.fill(&mut batch, 100) {}
    assert_eq!(batch.len(), 9);
}

#[test]
fn equal_short_texts_are_shared() {
    let mut texts = Texts::default();
    let (Value::Text(one), Value::Text(two)) = (texts.value(b"red"), texts.value(b"red")) else { panic!() };
    assert!(Arc::ptr_eq(&one, &two));
    let long = [b'x'; KEPT_TEXT_BYTES + 1];
    assert_eq!(texts.value(&long).as_text(), Some(&long[..]));
    assert_eq!(texts.number_or_text(b"1.5").to_number(), Some(1.5));
}
