//! The parsers of search on any bytes: expressions, and the arguments of FT.CREATE, FT.SEARCH and
//! FT.AGGREGATE.

use martlet_search::aggregate::expression::{Expression, Row, Scratch, Slot};
use martlet_search::aggregate::request::Aggregate;
use martlet_search::aggregate::value::Value;
use martlet_search::definition::{self, Context};
use martlet_search::hybrid::Hybrid;
use martlet_search::request::{Limits, Search};

/// A row whose slots are numbers, texts, arrays, null and nothing, in turn.
struct Values([Option<Value>; 5]);

impl Row for Values {
    fn get(&self, slot: Slot) -> Option<&Value> {
        self.0.get(slot)?.as_ref()
    }
}

/// An accepted expression has one value for a row, however often it is evaluated.
pub fn check_expression(data: &[u8]) {
    let Ok(expression) = Expression::parse(data) else { return };
    let mut next = 0;
    let Ok(program) = expression.bind(&mut |_| {
        next += 1;
        Some(next % 5)
    }) else {
        return;
    };
    let array = vec![Value::Number(1.5), Value::from("b")].into();
    let row =
        Values([Some(Value::Number(7.0)), Some("Hello, World".into()), Some(array), Some(Value::Null), None]);
    let mut scratch = Scratch::default();
    let first = format!("{:?}", program.evaluate(&row, &mut scratch));
    assert_eq!(format!("{:?}", program.evaluate(&row, &mut scratch)), first);
}

/// The lines of the input.
fn lines(data: &[u8]) -> Vec<&[u8]> {
    data.split(|byte| *byte == b'\n').collect()
}

/// An accepted definition is that of the arguments that are made of it.
pub fn check_create(data: &[u8]) {
    let context = Context { memory_bytes: 1 << 34, is_path: |path| path.starts_with(b"$") };
    let Ok(made) = definition::create(&lines(data), context) else { return };
    let arguments = definition::arguments(&made);
    let arguments: Vec<&[u8]> = arguments.iter().map(|argument| &**argument).collect();
    let again = definition::create(&arguments, context).expect("arguments of a definition");
    assert_eq!(again, made);
    definition::rule(&made);
    made.fields.iter().for_each(|field| assert!(definition::attribute(field).values.len() >= 3));
}

/// FT.SEARCH
pub fn check_search(data: &[u8]) {
    if let Ok(search) = Search::parse(&lines(data), &Limits::default()) {
        assert!((1..=4).contains(&search.query.dialect));
    }
}

/// FT.AGGREGATE
pub fn check_aggregate(data: &[u8]) {
    if let Ok(request) = Aggregate::parse(&lines(data), &Limits::default()) {
        assert!(request.steps.len() <= 1002);
    }
}

/// FT.HYBRID
pub fn check_hybrid(data: &[u8]) {
    if let Ok(request) = Hybrid::parse(&lines(data), &Limits::default()) {
        assert!(request.tail.steps.len() <= 1002);
        assert!((1..=request.combine.window).contains(&request.nearest_max()));
    }
}

/// Texts whose blanks are the ends of lines.
fn worded(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.replace(' ', "\n").into_bytes()).collect()
}

/// Expressions of every kind, right and wrong.
pub fn expression_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "@a + 2 * (3 - @b) ^ 2 % 5 / 0",
        "!(@a == 'x') && @b != \"y\" || @c >= -1.5e3",
        "case(exists(@d), upper(@d), format('%s %%', split(@b, ',', ' ')))",
        "substr(@b, -3, 2) == 'ld' && contains(@b, 'o') > 1 && startswith(@b, 'H')",
        "timefmt(parsetime('2020-01-02', '%Y-%m-%d'), '%c') + day(1e9) + dayofyear(@a)",
        "geodistance('1,2', 3, 4) + log2(abs(floor(@a))) + to_number('0x10')",
        "\"a\\\"b\\\\\" 'c\\' foo(1) + inf",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Arguments of FT.CREATE.
pub fn create_seeds() -> Vec<Vec<u8>> {
    worded(&[
        "i ON JSON PREFIX 2 a: b: FILTER @x>3 LANGUAGE french SCORE 0.5 SCHEMA $.t AS t TAG SEPARATOR ; SORTABLE",
        "i NOOFFSETS STOPWORDS 2 a b TEMPORARY 9 SCHEMA t TEXT WEIGHT 2 PHONETIC dm:en NOSTEM n NUMERIC NOINDEX",
        "i SCHEMA v VECTOR HNSW 8 TYPE FLOAT16 DIM 4 DISTANCE_METRIC COSINE M 4 INDEXMISSING g GEOSHAPE FLAT",
        "i SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 BLOCK_SIZE 9",
    ])
}

/// Arguments of FT.SEARCH.
pub fn search_seeds() -> Vec<Vec<u8>> {
    worded(&[
        "* SUMMARIZE FIELDS 1 t LEN 5 HIGHLIGHT TAGS < > RETURN 3 t AS u SORTBY n DESC LIMIT 0 5",
        "* FILTER n (1 +inf GEOFILTER g 1 2 3 km INKEYS 1 a INFIELDS 1 t SLOP 1.5 PARAMS 2 a b DIALECT 2",
        "* WITHSCORES EXPLAINSCORE WITHCURSOR COUNT 3 MAXIDLE 5 TIMEOUT 9 FORMAT EXPAND",
    ])
}

/// Arguments of FT.AGGREGATE.
pub fn aggregate_seeds() -> Vec<Vec<u8>> {
    worded(&[
        "* LOAD 3 @t AS u GROUPBY 1 @u REDUCE SUM 1 @n AS s REDUCE QUANTILE 2 @n 0.5 SORTBY 2 @s DESC MAX 3",
        "* LOAD * APPLY @n+1 AS m FILTER @m>3 LIMIT 1 2 SORTBY 1 @m WITHCURSOR COUNT 3",
    ])
}

/// Requests of FT.HYBRID.
pub fn hybrid_seeds() -> Vec<Vec<u8>> {
    worded(&[
        "SEARCH red SCORER TFIDF YIELD_SCORE_AS s VSIM @v $b KNN 4 K 50 EF_RUNTIME 7 YIELD_SCORE_AS d FILTER 3 @g:{x} \
         POLICY ADHOC COMBINE LINEAR 6 ALPHA .5 BETA 2 WINDOW 30 LOAD 3 @a AS b SORTBY 3 @b DESC @c LIMIT 1 2",
        "2 SEARCH a VSIM @v $b RANGE 4 RADIUS .5 EPSILON 2 FILTER x COMBINE RRF 2 CONSTANT 1 YIELD_SCORE_AS f NOSORT \
         GROUPBY 1 @t REDUCE COUNT 0 AS n APPLY @n+1 AS m FILTER @m>1 PARAMS 2 b v TIMEOUT 9 FORMAT STRING LOAD *",
    ])
}
