//! Pipelines over rows that a test makes up.

use super::*;
use crate::request::Limits;
use martlet_base::number::NumberBuffer;
use std::collections::BTreeMap;

type Fields = BTreeMap<&'static str, Value>;

/// Documents, and the index over them: `n` and `s` are sortable, `t`, `tags` and `v` are not.
struct Documents {
    documents: Vec<Fields>,
    at: usize,
    scanned: Vec<Input>,
    terms_slot: Option<Slot>,
    loads: usize,
}

impl Schema for Documents {
    fn property(&self, name: &[u8]) -> Option<Property> {
        let is_sortable = matches!(name, b"n" | b"s");
        let is_known = is_sortable || matches!(name, b"t" | b"tags" | b"v");
        is_known.then(|| Property { path: name.into(), is_sortable, has_numbers: false })
    }
}

impl Documents {
    fn new(documents: Vec<Fields>) -> Self {
        Documents { documents, at: 0, scanned: Vec::new(), terms_slot: None, loads: 0 }
    }

    fn value(&self, document: usize, path: &[u8]) -> Option<Value> {
        match path {
            b"__key" => Some(format!("d{document}").as_str().into()),
            b"__score" => Some(Value::Number(0.5)),
            _ => self.documents.get(document)?.get(std::str::from_utf8(path).ok()?).cloned(),
        }
    }
}

impl Source for Documents {
    fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool, Error> {
        let end = self.documents.len().min(self.at + most);
        for document in self.at..end {
            let inputs = self.scanned.iter();
            let values: Vec<_> =
                inputs.map(|input| (input.slot, self.value(document, &input.path))).collect();
            let row = batch.push(document as u64);
            for (slot, value) in values {
                row[slot] = value;
            }
            if let Some(slot) = self.terms_slot {
                row[slot] = Some(vec![Value::from("a"), Value::from("b")].into());
            }
        }
        self.at = end;
        Ok(end < self.documents.len())
    }

    fn load(&mut self, inputs: &[Input], all: Option<SlotOf<'_>>, batch: &mut Batch) -> Result<(), Error> {
        self.loads += batch.len();
        for row in 0..batch.len() {
            let document = batch.document(row) as usize;
            for input in inputs {
                batch.row_mut(row)[input.slot] = self.value(document, &input.path);
            }
            let Some(slot_of) = all else { continue };
            for (name, value) in self.documents[document].clone() {
                match slot_of(name.as_bytes()) {
                    Some(slot) => batch.row_mut(row)[slot] = Some(value),
                    None => batch.push_extra(row, name.as_bytes().into(), value),
                }
            }
        }
        Ok(())
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Array(values) => format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join("|")),
        value => String::from_utf8_lossy(value.to_text(&mut NumberBuffer::new())).into_owned(),
    }
}

fn options() -> Options {
    Options {
        loads_names: true,
        yielded: Vec::new(),
        results_max: u64::MAX,
        memory_max_bytes: 8 << 20,
        seed: 7,
    }
}

/// The rows, or the error; in steps of a few rows.
fn run_with(source: &mut Documents, text: &str, options: &Options) -> Result<Vec<String>, String> {
    let words = format!("* {text}").split_whitespace().map(|word| word.replace('~', " ")).collect::<Vec<_>>();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let request = Aggregate::parse(&words, &Limits::default()).map_err(|error| error.to_string())?;
    let mut pipeline = Pipeline::new(&request, source, options).map_err(|error| error.to_string())?;
    source.scanned = pipeline.scanned().to_vec();
    source.terms_slot = pipeline.terms_slot();
    let mut rows = Vec::new();
    for step in 0.. {
        assert!(step < 100_000, "{text}");
        let progress = pipeline.step(source, 3, 7).map_err(|error| error.to_string())?;
        assert_eq!(progress == Progress::Ready, progress != Progress::Done && pipeline.ready() >= 3);
        pipeline.take(usize::MAX, |row| {
            let pairs = row
                .properties()
                .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(name), show(value)));
            rows.push(pairs.collect::<Vec<_>>().join(" "));
        });
        if progress == Progress::Done {
            break;
        }
    }
    Ok(rows)
}

fn documents(count: usize) -> Documents {
    let document = |number: usize| {
        let mut fields = Fields::from([
            ("n", Value::Number(number as f64)),
            ("t", Value::from(format!("T{}", number % 3).as_str())),
            ("x", Value::from(format!("{}", number * 10).as_str())),
        ]);
        if number.is_multiple_of(2) {
            fields.insert("s", Value::from("even"));
        }
        let tags = ["a", "b", "c"].iter().take(number % 4).map(|tag| Value::from(*tag)).collect::<Vec<_>>();
        fields.insert("tags", tags.into());
        fields
    };
    Documents::new((0..count).map(document).collect())
}

fn run(count: usize, text: &str) -> Vec<String> {
    run_with(&mut documents(count), text, &options()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    run_with(&mut documents(20), text, &options()).expect_err(text)
}

#[test]
fn rows_are_loaded_applied_filtered_and_limited() {
    assert_eq!(run(2, "LOAD 4 @t x AS y"), ["t=T0 y=0", "t=T1 y=10"]);
    assert_eq!(run(2, "APPLY @n+1 AS m"), ["n=0 m=1", "n=1 m=2"]);
    assert_eq!(run(9, "FILTER @n>6"), ["n=7", "n=8"]);
    assert_eq!(run(20, "APPLY @n*2 AS n LIMIT 3 2 APPLY @n+1 AS m"), ["n=6 m=7", "n=8 m=9"]);
    assert_eq!(run(2, "LOAD * APPLY @t AS u")[1], "t=T1 u=T1 n=1 tags=[a] x=10");
    assert_eq!(run(1, "ADDSCORES LOAD 1 @__key"), ["__score=0.5 __key=d0"]);
    assert_eq!(run(1, "APPLY matched_terms(1) AS m"), ["m=[a]"]);
    assert!(run(9, "LIMIT 0 0").is_empty());
}

#[test]
fn fields_are_loaded_where_they_are_needed() {
    let mut source = documents(1000);
    let rows = run_with(&mut source, "SORTBY 2 @n DESC MAX 2 LOAD 1 @t", &options()).expect("rows");
    assert_eq!(rows, ["n=999 t=T0", "n=998 t=T2"]);
    assert_eq!(source.loads, 2);
    let rows = run_with(&mut documents(5), "SORTBY 2 @t DESC", &options()).expect("rows");
    assert_eq!(rows, ["t=T2", "t=T1", "t=T1", "t=T0", "t=T0"]);
    let mut source = documents(1000);
    assert_eq!(run_with(&mut source, "LIMIT 0 5", &options()).expect("rows").len(), 5);
    assert!(source.at < 100, "the source is not read to its end: {}", source.at);
}

#[test]
fn groups_are_reduced() {
    let rows = run(
        100,
        "GROUPBY 1 @t REDUCE COUNT 0 AS c REDUCE SUM 1 @n AS s REDUCE MIN 1 @n AS lo REDUCE MAX 1 @n AS hi \
         REDUCE AVG 1 @n AS avg REDUCE STDDEV 1 @n AS dev REDUCE COUNT_DISTINCT 1 @s AS d SORTBY 1 @t",
    );
    assert_eq!(
        rows,
        [
            "t=T0 c=34 s=1683 lo=0 hi=99 avg=49.5 dev=29.8747384926 d=1",
            "t=T1 c=33 s=1617 lo=1 hi=97 avg=49 dev=29.0086194087 d=1",
            "t=T2 c=33 s=1650 lo=2 hi=98 avg=50 dev=29.0086194087 d=1",
        ]
    );
    assert_eq!(run(0, "GROUPBY 0 REDUCE COUNT 0 AS c"), Vec::<String>::new());
    assert_eq!(run(5, "GROUPBY 1 @s REDUCE COUNT 0 AS c"), ["s=even c=3", "s=null c=2"]);
    assert_eq!(run(40, "GROUPBY 1 @t GROUPBY 0 REDUCE COUNT 0 AS c APPLY @c+1 AS d"), ["c=3 d=4"]);
    assert_eq!(
        run(9, "GROUPBY 1 @t REDUCE FIRST_VALUE 1 @n AS f REDUCE FIRST_VALUE 4 @n BY @n DESC AS l"),
        ["t=T0 f=0 l=6", "t=T1 f=1 l=7", "t=T2 f=2 l=8"]
    );
    assert_eq!(
        run(101, "GROUPBY 0 REDUCE QUANTILE 2 @n 0.5 AS q REDUCE COUNT_DISTINCTISH 1 @n AS d"),
        ["q=50 d=7"]
    );
    let sample = run(50, "GROUPBY 0 REDUCE RANDOM_SAMPLE 2 @n 3 AS r APPLY exists(@r) AS e");
    assert_eq!((sample[0].matches('|').count(), sample[0].ends_with("e=1")), (2, true));
    assert_eq!(
        run(50, "GROUPBY 1 @t REDUCE HLL 1 @n AS h GROUPBY 0 REDUCE HLL_SUM 1 @h AS n"),
        run(50, "GROUPBY 0 REDUCE COUNT_DISTINCTISH 1 @n AS n")
    );
}

#[test]
fn arrays_are_groups_for_each_element() {
    assert_eq!(
        run(8, "GROUPBY 1 @tags REDUCE COUNT 0 AS c"),
        ["tags=null c=2", "tags=a c=6", "tags=b c=4", "tags=c c=2"]
    );
    assert_eq!(run(3, "GROUPBY 0 REDUCE TOLIST 1 @tags AS l"), ["l=[a|b]"]);
    assert_eq!(run(3, "LOAD 1 @tags APPLY split('x,y') AS z GROUPBY 2 @tags @z").len(), 6);
    let wide = vec![Value::Null; 2000];
    let mut source = Documents::new(vec![Fields::from([("tags", wide.clone().into()), ("v", wide.into())])]);
    let error = run_with(&mut source, "GROUPBY 2 @tags @v", &options()).expect_err("four million");
    assert_eq!(error, "GROUPBY: the arrays of a row have too many combinations");
}

#[test]
fn requests_are_refused_in_redisearchs_words() {
    for (text, expected) in [
        ("APPLY @t AS r", "Property `t` not loaded nor in pipeline"),
        ("LOAD * APPLY @x AS r", "Property `x` not loaded nor in pipeline"),
        ("FILTER 3-2", "Syntax error at offset 1 near '-2'"),
        ("SORTBY 1 @zz", "Property `zz` not loaded nor in schema"),
        ("GROUPBY 1 @zz", "No such property `zz`"),
        ("GROUPBY 2 @n @n", "Property `n` specified more than once"),
        ("GROUPBY 1 @n REDUCE COUNT 0 AS n", "Property `n` specified more than once"),
        ("GROUPBY 0 REDUCE COUNT 1 a", "Count accepts 0 values only"),
        ("GROUPBY 0 REDUCE FOO 0", "No such reducer: FOO"),
        ("GROUPBY 0 REDUCE SUM 0", "Missing arguments for SUM"),
        ("GROUPBY 0 REDUCE SUM 1 @zz", "Property `zz` not present in document or pipeline"),
        ("GROUPBY 0 REDUCE QUANTILE 2 @n 2", "Percentage must be between 0.0 and 1.0"),
        ("GROUPBY 0 REDUCE QUANTILE 3 @n 0.5 0", "Invalid resolution"),
        ("GROUPBY 0 REDUCE QUANTILE 4 @n 0.5 5 6", "Unknown argument `6` at position 3 for QUANTILE"),
        ("GROUPBY 0 REDUCE FIRST_VALUE 2 @n FOO", "Unknown argument `FOO` at position 1 for FIRST_VALUE"),
        ("GROUPBY 0 REDUCE FIRST_VALUE 2 @n BY", "Missing arguments for FIRST_VALUE"),
        ("GROUPBY 0 REDUCE RANDOM_SAMPLE 2 @n 1001", "Sample size too large"),
        ("GROUPBY 1 @n LOAD 1 @t", "LOAD cannot be applied after projectors or reducers"),
        ("LOAD 1 @t APPLY @t+1 AS r", "Could not convert value to a number"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn memory_is_limited() {
    const TEXT: &str = "The aggregation needs more memory than it may take";
    let mut doubling = String::from("LOAD 1 @t");
    for _ in 0..40 {
        doubling += " APPLY format('%s%s',@t,@t) AS t";
    }
    assert_eq!(error(&doubling), TEXT);
    let few = Options { memory_max_bytes: 20_000, ..options() };
    for text in [
        "GROUPBY 1 @n REDUCE TOLIST 1 @n",
        "SORTBY 1 @n MAX 100000",
        "GROUPBY 0 REDUCE TOLIST 1 @n",
        "GROUPBY 0 REDUCE COUNT_DISTINCT 1 @n",
    ] {
        assert_eq!(run_with(&mut documents(3000), text, &few).expect_err(text), TEXT);
    }
}

#[test]
fn each_stage_counts_the_rows_that_it_hands_on() {
    let measured = |text: &str| {
        let mut source = documents(2_000);
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let request = Aggregate::parse(&words, &Limits::default()).unwrap();
        let mut pipeline = Pipeline::new(&request, &source, &options()).unwrap();
        assert_eq!(pipeline.processors(&[]), [], "nothing is measured unasked");
        pipeline.measure();
        source.scanned = pipeline.scanned().to_vec();
        while pipeline.step(&mut source, usize::MAX, 300).unwrap() != Progress::Done {}
        let steps = pipeline.processors(&["Scorer"]).into_iter();
        steps.map(|step| format!("{} {}", step.name, step.rows)).collect::<Vec<_>>().join(", ")
    };
    for (text, wanted) in [
        ("*", "Index 2000, Scorer 2000"),
        (
            "* LOAD 1 @x APPLY @n*2 AS m FILTER @m>1998 SORTBY 1 @m LIMIT 5 10",
            "Index 2000, Scorer 2000, Loader 2000, Projector - Operator * 2000, Filter - Predicate > 1000, \
             Sorter 15, Pager/Limiter 10",
        ),
        (
            "* GROUPBY 1 @t FILTER @t=='T1'",
            "Index 2000, Scorer 2000, Loader 2000, Grouper 3, Filter - Predicate == 1",
        ),
        ("* LIMIT 0 0", "Index 2000, Scorer 2000, Counter 1"),
    ] {
        assert_eq!(measured(text), wanted, "{text}");
    }
}
