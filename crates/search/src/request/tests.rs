//! Requests from arguments, beside what RediSearch 2.10.5 answers.

use super::*;

fn parsed(text: &str) -> Result<Search, Error> {
    let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
    Search::parse(&words, &Limits::default())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn arguments_are_refused_in_redisearchs_words() {
    const MISSING: &str = "Expected an argument, but none provided";
    const PARSE: &str = "Could not convert argument to expected type";
    const DIALECT: &str = "DIALECT requires a non negative integer >=1 and <= 4";
    for (input, expected) in [
        ("", "No query string provided".to_owned()),
        ("* FOO", "Unknown argument `FOO` at position 1 for <main>".into()),
        ("* VERBATIM FOO 1 2", "Unknown argument `FOO` at position 2 for <main>".into()),
        ("* LANGUAGE", format!("Bad arguments for LANGUAGE: {MISSING}")),
        ("* SLOP x", format!("Bad arguments for SLOP: {PARSE}")),
        ("* SLOP 3000000000", "Bad arguments for SLOP: Value is outside acceptable bounds".into()),
        ("* RETURN", format!("Bad arguments for RETURN: {MISSING}")),
        ("* RETURN 2 t", format!("Bad arguments for RETURN: {MISSING}")),
        ("* RETURN 2 t AS", "RETURN path AS name - must be accompanied with NAME".into()),
        ("* RETURN 3 t AS as", "Alias for RETURN cannot be `AS`".into()),
        ("* LIMIT 1", "LIMIT requires two arguments".into()),
        ("* LIMIT -1 1", "LIMIT needs two numeric arguments".into()),
        ("* LIMIT 0 1000001", "LIMIT exceeds maximum of 1000000".into()),
        ("* LIMIT 1000001 1", "OFFSET exceeds maximum of 1000000".into()),
        ("* SORTBY", "Bad SORTBY arguments".into()),
        ("* SORTBY n DESC MAX", "SORTBY MAX is not supported by FT.SEARCH".into()),
        ("* SORTBY n SORTBY t", "Multiple SORTBY steps are not allowed".into()),
        ("* TIMEOUT", "Need argument for TIMEOUT".into()),
        ("* TIMEOUT -1", "TIMEOUT requires a non negative integer".into()),
        ("* DIALECT", "Need an argument for DIALECT".into()),
        ("* DIALECT 5", DIALECT.into()),
        ("* DIALECT 0", DIALECT.into()),
        ("* FORMAT", "Need an argument for FORMAT".into()),
        ("* FORMAT XX", "FORMAT XX is not supported".into()),
        ("* PARAMS", format!("Bad arguments for PARAMS: {MISSING}")),
        ("* PARAMS 1 a", "Parameters must be specified in PARAM VALUE pairs".into()),
        ("* PARAMS 0", "Parameters must be specified in PARAM VALUE pairs".into()),
        (
            "* PARAMS 2 a b PARAMS 2 c d",
            "Multiple PARAMS are not allowed. Parameters can be defined only once".into(),
        ),
        ("* PARAMS 4 a b a d", "Duplicate parameter `a`".into()),
        ("* FILTER", "FILTER requires 3 arguments".into()),
        ("* FILTER n (a 1", "Bad lower range: a".into()),
        ("* FILTER n 1 b", "Bad upper range: b".into()),
        ("* FILTER n inf 1", "Bad lower range: inf".into()),
        ("* GEOFILTER", "GEOFILTER requires 5 arguments".into()),
        ("* GEOFILTER g a b c d", format!("Bad arguments for <lon>: {PARSE}")),
        ("* GEOFILTER g 1 2 3 d", "Unknown distance unit d".into()),
        ("* EXPLAINSCORE", "EXPLAINSCORE must be accompanied with WITHSCORES".into()),
        ("* ADDSCORES", "ADDSCORES is not supported on FT.SEARCH".into()),
        ("* SUMMARIZE FIELDS 2 t", "Bad arguments for SUMMARIZE".into()),
        ("* SUMMARIZE LEN x", "Bad arguments for SUMMARIZE".into()),
        ("* HIGHLIGHT TAGS a", "Bad arguments for HIGHLIGHT".into()),
        ("* HIGHLIGHT LEN 3", "Unknown argument `LEN` at position 2 for <main>".into()),
        ("* GROUPBY 0", "option `GROUPBY` is mutually exclusive with simple (i.e. search) options".into()),
        ("* INKEYS 2 a", format!("Bad arguments for INKEYS: {MISSING}")),
        ("* WITHCURSOR COUNT 0", "Bad arguments for COUNT: Value is outside acceptable bounds".into()),
    ] {
        assert_eq!(parsed(input).expect_err(input).text(), expected, "{input}");
    }
}

#[test]
fn what_an_index_decides_is_checked_later() {
    let search = parsed("* LANGUAGE xx SCORER yy FORMAT EXPAND GEOFILTER g 1000 2 3 km").expect("a request");
    assert_eq!(search.query.language().expect_err("no language").text(), "No such language");
    assert_eq!(search.query.scorer(|_| None::<()>).expect_err("no scorer").text(), "No such scorer yy");
    assert_eq!(search.query.scorer(|name| Some(name.len())), Ok(Some(2)));
    let error = search.query.check_format(false, true).expect_err("RESP2");
    assert_eq!(error.text(), "EXPAND format is only supported with RESP3");
    let error = search.geo_filter.expect("it was given").check().expect_err("no longitude");
    assert_eq!(error.text(), "Invalid GeoFilter lat/lon");
}

#[test]
fn options_are_read_in_any_order_and_case() {
    let search = parsed(
        "@t:x limit 5 7 VERBATIM nostopwords INORDER SLOP 1.5 WITHSCORES WITHPAYLOADS WITHSORTKEYS INKEYS 2 a b \
         INFIELDS 1 t LANGUAGE french EXPANDER e SCORER BM25 PAYLOAD p SORTBY n DESC PARAMS 2 a b DIALECT 2 \
         FILTER n (-inf 5 FILTER m 1 (+inf TIMEOUT 9 WITHOUTCOUNT NOCONTENT",
    )
    .expect("a request");
    let query = &search.query;
    assert_eq!((text(&query.text), query.dialect, query.timeout_ms, query.slop), ("@t:x", 2, 9, Some(1)));
    assert!(query.verbatim && query.no_stopwords && query.in_order && !query.with_count && search.no_content);
    assert!(search.with_scores && search.with_payloads && search.with_sort_keys && !search.explain_score);
    assert_eq!(query.keys.as_deref().map(<[_]>::len), Some(2));
    assert_eq!(search.arrange.sort.as_deref().map(|keys| keys[0].descending), Some(true));
    assert_eq!((search.arrange.offset, search.arrange.count), (5, 7));
    let [one, two] = &search.filters[..] else { panic!("two filters") };
    assert_eq!(one.min, Bound { number: f64::NEG_INFINITY, inclusive: false });
    assert_eq!(one.max, Bound { number: 5.0, inclusive: true });
    assert_eq!(two.max, Bound { number: f64::INFINITY, inclusive: false });
    assert!(parsed("* LIMIT 3 0").expect("a request").count_only);
    assert!(!parsed("* DIALECT 4").expect("a request").query.with_count);
}

#[test]
fn returned_fields_are_shaped_by_name() {
    let search = parsed(
        "* SUMMARIZE FIELDS 1 t LEN 5 FRAGS 2 SEPARATOR | HIGHLIGHT FIELDS 2 t u TAGS < > RETURN 5 t p AS q t",
    )
    .expect("a request");
    let [t, q] = &search.returned.fields[..] else { panic!("two fields: {:?}", search.returned.fields) };
    assert_eq!((text(&t.name), text(&q.name), text(&q.path)), ("t", "q", "p"));
    assert_eq!(t.summarize, Some(Summarize { fragments: 2, words: 5, separator: Box::from(&b"|"[..]) }));
    assert_eq!(t.highlight.as_ref().map(|tags| text(&tags.open)), Some("<"));
    assert!(search.returned.is_highlighted() && q.summarize.is_none());
    assert_eq!(search.returned.shape_of(b"q"), (None, None));
    assert_eq!(search.returned.shape_of(b"t").0.map(|shape| shape.words), Some(5));
    let search = parsed("* HIGHLIGHT RETURN 0").expect("a request");
    assert!(search.no_content && search.returned.highlight == Some(Highlight::default()));
}
