//! Requests, and the words in which RediSearch 8.4 refuses them.

use super::*;
use crate::aggregate::request::{Load, LoadField};

fn parsed(text: &str) -> Result<Hybrid, Error> {
    let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
    Hybrid::parse(&words, &Limits::default())
}

fn request(text: &str) -> Hybrid {
    parsed(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn parts_have_their_defaults() {
    let hybrid = request("SEARCH red VSIM @v $blob");
    assert_eq!((&*hybrid.query.text, hybrid.query.dialect), (&b"red"[..], 2));
    assert_eq!((&*hybrid.vector.field, &*hybrid.vector.parameter), (&b"v"[..], &b"blob"[..]));
    assert_eq!(hybrid.vector.near, Near::Nearest(10));
    assert_eq!((hybrid.combine, hybrid.tail), (Combine::default(), Tail::default()));
    assert_eq!(request("2 search red vsim @v $blob").query.text, hybrid.query.text);
}

#[test]
fn everything_that_a_request_may_have() {
    let hybrid = request(
        "SEARCH red SCORER TFIDF YIELD_SCORE_AS s VSIM @v $b KNN 4 K 50 EF_RUNTIME 7 YIELD_SCORE_AS d \
         FILTER 5 @g:{x} POLICY BATCHES BATCH_SIZE 9 COMBINE LINEAR 6 ALPHA .5 BETA 2 WINDOW 30 \
         YIELD_SCORE_AS f LOAD 3 @a AS b SORTBY 3 @b DESC @c LIMIT 1 2 APPLY @b AS e PARAMS 2 b 8bytes!! \
         TIMEOUT 9 FORMAT STRING WITHCURSOR COUNT 3",
    );
    let vector = &hybrid.vector;
    assert_eq!((vector.near, vector.ef_runtime), (Near::Nearest(50), Some(7)));
    assert_eq!((vector.policy, vector.batch_size), (Some(Policy::Batches), Some(9)));
    assert_eq!(vector.filter.as_deref(), Some(&b"@g:{x}"[..]));
    let names = [&hybrid.search_score_name, &vector.score_name, &hybrid.combine.score_name];
    assert_eq!(names.map(|name| name.as_deref()), [Some(&b"s"[..]), Some(b"d"), Some(b"f")]);
    assert_eq!(hybrid.combine.method, Method::Linear { alpha: 0.5, beta: 2.0 });
    assert_eq!((hybrid.combine.window, hybrid.nearest_max()), (30, 30));
    assert_eq!((hybrid.query.timeout_ms, hybrid.query.parameters.len()), (9, 1));
    assert_eq!(hybrid.tail.cursor.map(|cursor| cursor.count), Some(3));
    let [Step::Load(Load::Fields(fields)), Step::Arrange(arrange), Step::Apply { .. }] = &*hybrid.tail.steps
    else {
        panic!("{:?}", hybrid.tail.steps)
    };
    assert_eq!(**fields, [LoadField { path: b"a"[..].into(), name: b"b"[..].into() }]);
    assert_eq!((arrange.offset, arrange.count), (1, 2));
    let keys = arrange.sort.as_ref().expect("two keys");
    assert_eq!(
        keys.iter().map(|key| (&*key.name, key.descending)).collect::<Vec<_>>(),
        [(&b"b"[..], true), (b"c", false)]
    );
    let range = request("SEARCH a VSIM @v $b RANGE 4 RADIUS .5 EPSILON 2 FILTER @n:[1(2] NOSORT FILTER @n>1");
    assert_eq!((range.vector.near, range.vector.epsilon), (Near::Within(0.5), Some(2.0)));
    assert_eq!(range.vector.filter.as_deref(), Some(&b"@n:[1(2]"[..]));
    assert!(range.tail.no_sort && matches!(&*range.tail.steps, [Step::Filter(_)]));
    assert_eq!(
        request("SEARCH a VSIM @v $b COMBINE RRF 2 CONSTANT 1.5").combine.method,
        Method::Rrf { constant: 1.5 }
    );
}

#[test]
fn arguments_are_refused_in_redisearchs_words() {
    let pairs = "(must be a positive even number for key/value pairs)";
    let subqueries = "Invalid subqueries count: expected an unsigned integer";
    let even = "expects pairs of key value arguments, argument count must be an even number";
    let below = "WINDOW: Value below minimum";
    for (text, wanted) in [
        ("", "Missing subqueries count for FT.HYBRID".to_owned()),
        ("VSIM @v $b", subqueries.to_owned()),
        ("-1 SEARCH a", subqueries.to_owned()),
        ("3 SEARCH a", "FT.HYBRID currently supports only two subqueries".to_owned()),
        ("2 VSIM", "SEARCH keyword is required".to_owned()),
        ("SEARCH", "No query string provided for SEARCH".to_owned()),
        ("SEARCH a", "VSIM argument is required".to_owned()),
        ("SEARCH a SEARCH b", "Unknown argument `SEARCH` in SEARCH".to_owned()),
        ("SEARCH a DIALECT 2", DIALECT.to_owned()),
        ("SEARCH a VSIM", "Missing vector field name".to_owned()),
        ("SEARCH a VSIM v", "Missing @ prefix for vector field name".to_owned()),
        ("SEARCH a VSIM @v", "Missing vector argument".to_owned()),
        (
            "SEARCH a VSIM @v b",
            "Invalid vector argument, expected a parameter name starting with $".to_owned(),
        ),
    ] {
        assert_eq!(parsed(text).expect_err(text).text(), wanted, "{text}");
    }
    for (rest, wanted) in [
        ("KNN", "Missing argument count".to_owned()),
        ("KNN x", "Invalid argument count: expected an unsigned integer".to_owned()),
        ("KNN 1 K", format!("Invalid argument count: 1 {pairs}")),
        ("KNN 0", format!("Invalid argument count: 0 {pairs}")),
        ("KNN 2 EF_RUNTIME 5", "Missing required argument K".to_owned()),
        ("KNN 2 K 0", "Invalid K value".to_owned()),
        ("KNN 2 K", "Missing argument value for K".to_owned()),
        ("KNN 4 K 1 K 2", "Duplicate K argument".to_owned()),
        ("KNN 4 K 1", "Expected arguments 4, but 2 were provided".to_owned()),
        ("KNN 4 K 1 EF_RUNTIME x", "Invalid EF_RUNTIME value".to_owned()),
        ("KNN 4 K 1 EPSILON 2", "Unknown argument `EPSILON` in KNN".to_owned()),
        ("KNN 4 K 1 DIALECT 2", "Unknown argument `DIALECT` in KNN".to_owned()),
        ("RANGE 2 RADIUS -1", "Invalid RADIUS value".to_owned()),
        ("RANGE 2 EPSILON 1", "Missing required argument RADIUS".to_owned()),
        ("RANGE 4 RADIUS 1 EPSILON 0", "Invalid EPSILON value".to_owned()),
        ("RANGE 4 RADIUS 1 EF_RUNTIME 1", "Unknown argument `EF_RUNTIME` in RANGE".to_owned()),
        ("YIELD_SCORE_AS", "Missing argument value for YIELD_SCORE_AS".to_owned()),
        ("YIELD_SCORE_AS a YIELD_SCORE_AS b", "Duplicate YIELD_SCORE_AS argument".to_owned()),
        ("FILTER", "Missing argument count for FILTER".to_owned()),
        ("FILTER 0", "Missing filter-expression for FILTER".to_owned()),
        ("FILTER 3 a", "Not enough arguments in FILTER, specified 3 but provided only 1".to_owned()),
        ("DIALECT 2", DIALECT.to_owned()),
        ("LIMIT 0 5 DIALECT 2", DIALECT.to_owned()),
        ("COMBINE", "COMBINE: Expected an argument, but none provided".to_owned()),
        ("COMBINE x", "COMBINE: Invalid value for argument".to_owned()),
        ("COMBINE RRF", "Missing RRF argument count".to_owned()),
        ("COMBINE RRF 1 WINDOW", format!("RRF {even}")),
        ("COMBINE RRF 2 WINDOW 0", below.to_owned()),
        ("COMBINE LINEAR 2 WINDOW -5", below.to_owned()),
        ("COMBINE RRF 2 CONSTANT x", "CONSTANT: Could not convert argument to expected type".to_owned()),
        ("COMBINE LINEAR 2 ALPHA 1", "Missing value for BETA".to_owned()),
        ("COMBINE LINEAR 2 BETA 1", "Missing value for ALPHA".to_owned()),
        (
            "COMBINE LINEAR 4 ALPHA 1",
            "Not enough arguments in LINEAR, specified 4 but provided only 2".to_owned(),
        ),
        (
            "COMBINE LINEAR -2 ALPHA 1",
            "Invalid LINEAR argument count, error: Value is outside acceptable bounds".to_owned(),
        ),
        (
            "COMBINE RRF 2 YIELD_SCORE_AS a YIELD_SCORE_AS b",
            "YIELD_SCORE_AS specified more than once".to_owned(),
        ),
        ("LIMIT 0", "LIMIT: Not enough arguments were provided".to_owned()),
        ("LIMIT -1 1", "LIMIT offset must be a non-negative integer".to_owned()),
        ("LIMIT 0 x", "LIMIT count must be a non-negative integer".to_owned()),
        ("LIMIT 5 0", "The `offset` of the LIMIT must be 0 when `num` is 0".to_owned()),
        ("LIMIT 0 1000001", "LIMIT exceeds maximum of 1000000".to_owned()),
        ("SORTBY", "SORTBY: Failed to parse the argument count".to_owned()),
        ("SORTBY 0", "SORTBY: Invalid argument count".to_owned()),
        ("SORTBY 2 @a", "SORTBY: Not enough arguments were provided based on argument count".to_owned()),
        (
            "SORTBY 1 price",
            "Missing prefix: name requires '@' prefix, JSON path require '$' prefix, got: price in SORTBY"
                .to_owned(),
        ),
        ("SORTBY 1 @a NOSORT", "NOSORT is not allowed with SORTBY".to_owned()),
        ("NOSORT SORTBY 1 @a", "NOSORT is not allowed with SORTBY".to_owned()),
        ("PARAMS 0", "PARAMS: Invalid argument count".to_owned()),
        ("PARAMS 1 a", "Parameters must be specified in PARAM VALUE pairs".to_owned()),
        ("PARAMS 2 a b PARAMS 2 a b", "PARAMS: Argument specified multiple times".to_owned()),
        ("WITHCURSOR MAXIDLE 0", "Bad arguments for MAXIDLE: Value is outside acceptable bounds".to_owned()),
        ("GROUPBY", "GROUPBY: Failed to parse the argument count".to_owned()),
        ("GROUPBY 0", "GROUPBY: Invalid argument count".to_owned()),
        ("GROUPBY 1 a", "Bad arguments for GROUPBY: Unknown property `a`. Did you mean `@a`?".to_owned()),
        ("APPLY 1 AS", "AS needs argument".to_owned()),
        ("LOAD x", "Bad arguments for LOAD: Expected number of fields or `*`".to_owned()),
        ("LOAD 2 @a", "Not enough arguments for LOAD".to_owned()),
        (
            "LOAD 1 a",
            "Missing prefix: name requires '@' prefix, JSON path require '$' prefix, got: a in LOAD"
                .to_owned(),
        ),
        ("EXPLAINSCORE", "EXPLAINSCORE is not yet supported by FT.HYBRID".to_owned()),
        ("EXTRA", "EXTRA: Unknown argument".to_owned()),
    ] {
        let text = format!("SEARCH a VSIM @v $b {rest}");
        assert_eq!(parsed(&text).expect_err(&text).text(), wanted, "{text}");
    }
}
