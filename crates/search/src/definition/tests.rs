//! Definitions from arguments, beside what RediSearch 2.10.5 answers.

use super::*;
use crate::schema::FieldKind;

fn context() -> Context {
    // The oracle's machine.
    Context { memory_bytes: 25_276_518_400, is_path: |path| path != b"$.[" }
}

/// Words between blanks; `_` is the empty one.
fn words(text: &str) -> Vec<Vec<u8>> {
    let words =
        text.split(' ').map(|word| if word == "_" { "" } else { word }.replace('~', " ").into_bytes());
    words.collect()
}

fn created(text: &str) -> Result<Definition, Error> {
    let words = words(&format!("z {text}"));
    create(&words.iter().map(|word| &**word).collect::<Vec<_>>(), context())
}

fn shown(value: &Shown<'_>) -> String {
    match value {
        Shown::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Shown::Number(number) => number.to_string(),
        Shown::Integer(integer) => integer.to_string(),
        Shown::List(texts) => {
            format!(
                "[{}]",
                texts.iter().map(|text| String::from_utf8_lossy(text)).collect::<Vec<_>>().join("|")
            )
        }
    }
}

/// Options, rule and attributes, or the error.
fn described(text: &str) -> String {
    let definition = match created(text) {
        Ok(definition) => definition,
        Err(error) => return error.text().to_owned(),
    };
    let again = arguments(&definition);
    let again = create(&again.iter().map(|word| &**word).collect::<Vec<_>>(), context());
    assert_eq!(again.as_ref(), Ok(&definition), "{text}");
    let pairs = |pairs: &[(&str, Shown<'_>)]| {
        pairs.iter().map(|(name, value)| format!("{name} {}", shown(value))).collect::<Vec<_>>().join(" ")
    };
    let attributes = definition.fields.iter().map(|field| {
        let attribute = attribute(field);
        format!("{} {}", pairs(&attribute.values), attribute.flags.join(" ")).trim_end().to_owned()
    });
    format!(
        "{}; {}; {}",
        options(&definition).join(" "),
        pairs(&rule(&definition)),
        attributes.collect::<Vec<_>>().join(", ")
    )
}

const PLAIN: &str = "; key_type HASH prefixes [] default_score 1; ";

#[test]
fn fields_are_described_as_they_were_defined() {
    for (text, expected) in [
        ("SCHEMA t TEXT", "identifier t attribute t type TEXT WEIGHT 1"),
        (
            "SCHEMA t TEXT WEIGHT 2.5 NOSTEM PHONETIC dm:en SORTABLE",
            "identifier t attribute t type TEXT WEIGHT 2.5 SORTABLE NOSTEM",
        ),
        (
            "SCHEMA t TAG SEPARATOR ; CASESENSITIVE SORTABLE",
            "identifier t attribute t type TAG SEPARATOR ; CASESENSITIVE SORTABLE UNF",
        ),
        (
            "SCHEMA t AS u TAG SORTABLE UNF NOINDEX",
            "identifier t attribute u type TAG SEPARATOR , SORTABLE UNF NOINDEX",
        ),
        (
            "SCHEMA n NUMERIC SORTABLE g GEO s GEOSHAPE s2 GEOSHAPE FLAT",
            "identifier n attribute n type NUMERIC SORTABLE UNF, identifier g attribute g type GEO, \
             identifier s attribute s type GEOSHAPE coord_system SPHERICAL, \
             identifier s2 attribute s2 type GEOSHAPE coord_system FLAT",
        ),
        (
            "SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 INDEXMISSING t TEXT",
            "identifier v attribute v type VECTOR algorithm FLAT data_type FLOAT32 dim 4 distance_metric L2 \
             INDEXMISSING, identifier t attribute t type TEXT WEIGHT 1",
        ),
        (
            "SCHEMA v VECTOR HNSW 14 TYPE FLOAT16 DIM 4 DISTANCE_METRIC COSINE M 4 EF_CONSTRUCTION 5 EF_RUNTIME 6 \
             EPSILON 0.5",
            "identifier v attribute v type VECTOR algorithm HNSW data_type FLOAT16 dim 4 distance_metric COSINE M 4 \
             ef_construction 5",
        ),
        (
            "SCHEMA v VECTOR svs-vamana 6 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2",
            "identifier v attribute v type VECTOR algorithm SVS-VAMANA data_type FLOAT32 dim 4 distance_metric L2 \
             graph_max_degree 32 construction_window_size 200 compression NO_COMPRESSION",
        ),
        (
            "SCHEMA v VECTOR SVS-VAMANA 20 TYPE FLOAT16 DIM 8 DISTANCE_METRIC IP COMPRESSION leanvec4x8 REDUCE 3 \
             TRAINING_THRESHOLD 2048 GRAPH_MAX_DEGREE 40 CONSTRUCTION_WINDOW_SIZE 250 SEARCH_WINDOW_SIZE 20 EPSILON 0.5",
            "identifier v attribute v type VECTOR algorithm SVS-VAMANA data_type FLOAT16 dim 8 distance_metric IP \
             graph_max_degree 40 construction_window_size 250 compression LeanVec4x8 training_threshold 2048 \
             reduced_dim 3",
        ),
        (
            "SCHEMA t TEXT WITHSUFFIXTRIE INDEXEMPTY INDEXMISSING SORTABLE UNF",
            "identifier t attribute t type TEXT WEIGHT 1 SORTABLE UNF WITHSUFFIXTRIE INDEXEMPTY INDEXMISSING",
        ),
        ("SCHEMA t GEO SORTABLE UNF NOINDEX", "identifier t attribute t type GEO SORTABLE UNF NOINDEX"),
        ("NOSCOREIDX ASYNC SCHEMA t TEXT WEIGHT -1", "identifier t attribute t type TEXT WEIGHT -1"),
    ] {
        assert_eq!(described(text), format!("{PLAIN}{expected}"), "{text}");
    }
}

#[test]
fn rules_are_described_as_they_were_defined() {
    let text = "identifier t attribute t type TEXT WEIGHT 1";
    for (input, expected) in [
        (
            "NOOFFSETS NOFIELDS NOFREQS MAXTEXTFIELDS TEMPORARY 100 STOPWORDS 2 A b SKIPINITIALSCAN SCHEMA t TEXT",
            format!(
                "NOFREQS NOFIELDS NOOFFSETS NOHL MAXTEXTFIELDS; key_type HASH prefixes [] default_score 1; {text}"
            ),
        ),
        ("NOHL SCHEMA t TEXT", format!("NOHL; key_type HASH prefixes [] default_score 1; {text}")),
        (
            "ON JSON PREFIX 2 a: b: FILTER @x~>~3 LANGUAGE french LANGUAGE_FIELD lf SCORE 0.5 SCORE_FIELD sf \
             PAYLOAD_FIELD pf SCHEMA $.t AS t TAG $.x AS x TEXT SORTABLE",
            "; key_type JSON prefixes [a:|b:] filter @x > 3 default_language french language_field lf \
             default_score 0.5 score_field sf payload_field pf; identifier $.t attribute t type TAG SEPARATOR, \
             identifier $.x attribute x type TEXT WEIGHT 1 SORTABLE UNF"
                .to_owned(),
        ),
        ("SCORE 0 SCHEMA t TEXT", format!("; key_type HASH prefixes []; {text}")),
        ("PREFIX 0 SCHEMA t TEXT", format!("{PLAIN}{text}")),
        ("FILTER 1~+~inf SCHEMA t TEXT", PLAIN.replace("default", "filter 1 + inf default") + text),
        ("TEMPORARY -1 SCHEMA t TEXT", format!("{PLAIN}{text}")),
    ] {
        assert_eq!(described(input), expected, "{input}");
    }
    assert_eq!(
        created("STOPWORDS 0 SCHEMA t TEXT").map(|definition| definition.stopwords),
        Ok(Some(Vec::new()))
    );
}

#[test]
fn arguments_are_refused_in_redisearchs_words() {
    for (input, expected) in [
        ("SCHEMA", "Fields arguments are missing"),
        ("SCHEMA t", "Field `t` does not have a type"),
        ("SCHEMA t FOO", "Invalid field type for field `t`"),
        ("SCHEMA t TEXT WEIGHT", "Bad arguments for weight: Could not convert argument to expected type"),
        ("SCHEMA t TEXT WEIGHT abc", "Bad arguments for weight: Could not convert argument to expected type"),
        ("SCHEMA t TEXT PHONETIC", "PHONETIC requires an argument"),
        (
            "SCHEMA t TEXT PHONETIC xx",
            "Matcher Format: <2 chars algorithm>:<2 chars language>. Support algorithms: double metaphone (dm). \
             Supported languages: English (en), French (fr), Portuguese (pt) and Spanish (es)",
        ),
        ("SCHEMA t TEXT t TEXT", "Duplicate field in schema - t"),
        ("SCHEMA t TEXT SORTABLE NOSTEM", "Field `NOSTEM` does not have a type"),
        ("SCHEMA t AS", "AS requires an argument"),
        (
            "SCHEMA t TEXT INDEXMISSING NOINDEX",
            "'Field `t` cannot be defined with both `NOINDEX` and `INDEXMISSING`'",
        ),
        ("SCHEMA t TAG SEPARATOR", "SEPARATOR requires an argument"),
        ("SCHEMA t TAG SEPARATOR ab", "Tag separator must be a single character. Got `ab`"),
        ("SCHEMA t TAG SEPARATOR _", "Tag separator must be a single character. Got ``"),
        ("ON FOO SCHEMA t TEXT", "Invalid rule type: FOO"),
        ("PREFIX 1 SCHEMA", "No schema found"),
        ("PREFIX 2 a SCHEMA t TEXT", "Unknown argument `t`"),
        ("PREFIX x a SCHEMA t TEXT", "Bad arguments for PREFIX: Could not convert argument to expected type"),
        ("PREFIX -1 a SCHEMA t TEXT", "Bad arguments for PREFIX: Value is outside acceptable bounds"),
        ("PREFIX 9 a SCHEMA t TEXT", "Bad arguments for PREFIX: Expected an argument, but none provided"),
        ("FILTER @x~> SCHEMA t TEXT", "Syntax error at offset 3 near 'x'"),
        ("FILTER _ SCHEMA t TEXT", "Syntax error at offset 0 near ''"),
        ("LANGUAGE xx SCHEMA t TEXT", "Invalid language"),
        ("SCORE 2 SCHEMA t TEXT", "Invalid score"),
        ("SCORE nan SCHEMA t TEXT", "Invalid score"),
        (
            "TEMPORARY x SCHEMA t TEXT",
            "Bad arguments for TEMPORARY: Could not convert argument to expected type",
        ),
        ("FOO SCHEMA t TEXT", "Unknown argument `FOO`"),
        ("INDEXALL x SCHEMA t TEXT", "Invalid argument for `INDEXALL`, use ENABLE/DISABLE"),
        ("ON JSON SCHEMA $.[ AS t TEXT", "Invalid JSONPath '$.[' in attribute 't' in index 'z'"),
    ] {
        assert_eq!(described(input), expected, "{input}");
    }
}

#[test]
fn vectors_are_refused_in_redisearchs_words() {
    const INDEX: &str = "Bad arguments for vector similarity FLAT index";
    for (input, expected) in [
        ("_", "Bad arguments for vector similarity algorithm: Unknown argument".to_owned()),
        (
            "FLAT",
            "Bad arguments for vector similarity number of parameters: Expected an argument, but none provided".into(),
        ),
        (
            "FLAT 3 TYPE FLOAT32 DIM",
            "Bad number of arguments for vector similarity index: got 3 but expected even number as algorithm \
             parameters (should be submitted as named arguments)"
                .into(),
        ),
        (
            "FLAT 6 TYPE FLOAT32 DIM 4 DISTANCE_METRIC",
            format!("{INDEX} metric: Expected an argument, but none provided"),
        ),
        ("FLAT 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2", "Expected 8 parameters but got 6".into()),
        ("FLAT 6 TYPE X DIM 4 DISTANCE_METRIC L2", format!("{INDEX} type: Unknown argument")),
        (
            "FLAT 6 TYPE FLOAT32 DIM 0 DISTANCE_METRIC L2",
            format!("{INDEX} dim: Value is outside acceptable bounds"),
        ),
        ("FLAT 6 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L3", format!("{INDEX} metric: Unknown argument")),
        (
            "FLAT 4 TYPE FLOAT32 DIM 4",
            "Missing mandatory parameter: cannot create FLAT index without specifying DISTANCE_METRIC argument".into(),
        ),
        (
            "HNSW 8 TYPE FLOAT16 DIM 4 DISTANCE_METRIC COSINE BLOCK_SIZE 4",
            "Bad arguments for algorithm HNSW: BLOCK_SIZE".into(),
        ),
        (
            "HNSW 8 TYPE FLOAT16 DIM 4 DISTANCE_METRIC COSINE EPSILON -1",
            "Bad arguments for vector similarity HNSW index epsilon: Value is outside acceptable bounds".into(),
        ),
        (
            "SVS-VAMANA 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 EF_RUNTIME 10",
            "Bad arguments for algorithm SVS-VAMANA: EF_RUNTIME".into(),
        ),
        (
            "SVS-VAMANA 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 COMPRESSION LVQ5",
            "Bad arguments for vector similarity SVS-VAMANA index compression: Unknown argument".into(),
        ),
        (
            "SVS-VAMANA 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 GRAPH_MAX_DEGREE 0",
            "Bad arguments for vector similarity SVS-VAMANA index graph max degree: Value is outside acceptable \
             bounds"
                .into(),
        ),
        (
            "SVS-VAMANA 6 TYPE FLOAT64 DIM 4 DISTANCE_METRIC L2",
            "Not supported data type is given. Expected: FLOAT16, FLOAT32".into(),
        ),
        (
            "SVS-VAMANA 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 TRAINING_THRESHOLD 2000",
            "TRAINING_THRESHOLD is irrelevant when compression was not requested".into(),
        ),
        (
            "SVS-VAMANA 10 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 COMPRESSION LVQ8 TRAINING_THRESHOLD 1000",
            "Invalid TRAINING_THRESHOLD: cannot be lower than DEFAULT_BLOCK_SIZE (1024)".into(),
        ),
        (
            "SVS-VAMANA 10 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 COMPRESSION LVQ8 REDUCE 2",
            "REDUCE is irrelevant when compression is not of type LeanVec".into(),
        ),
        (
            "SVS-VAMANA 10 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 COMPRESSION LeanVec8x8 REDUCE 4",
            "Invalid REDUCE: must be lower than DIM".into(),
        ),
        (
            "HNSW 10 TYPE FLOAT16 DIM 4 DISTANCE_METRIC COSINE M 100 INITIAL_CAP 1000000000000",
            "Vector index initial capacity 1000000000000 exceeded server limit (2811626 with the given parameters)"
                .into(),
        ),
        (
            "FLAT 8 TYPE FLOAT16 DIM 4 DISTANCE_METRIC COSINE INITIAL_CAP 1000000000000",
            "Vector index initial capacity 1000000000000 exceeded server limit (105318826 with the given parameters)"
                .into(),
        ),
        (
            "FLAT 6 TYPE FLOAT16 DIM 9000000000000000000 DISTANCE_METRIC COSINE",
            "Vector index initial capacity 1 exceeded server limit (0 with the given parameters)".into(),
        ),
    ] {
        assert_eq!(described(&format!("SCHEMA v VECTOR {input}")), expected, "{input}");
    }
}

#[test]
fn alterations_add_fields_or_change_nothing() {
    let definition = created("SCHEMA t TEXT").expect("a definition");
    let altered = |text: &str| {
        let words = words(text);
        alter(&definition, &words.iter().map(|word| &**word).collect::<Vec<_>>(), context())
    };
    for (input, expected) in [
        ("FOO ADD t TEXT", "ALTER must be followed by SCHEMA"),
        ("SCHEMA FOO t TEXT", "Unknown action passed to ALTER SCHEMA"),
        ("SCHEMA ADD t TEXT", "Duplicate field in schema - t"),
        ("SCHEMA ADD u TEXT v FOO", "Invalid field type for field `v`"),
        ("SKIPINITIALSCAN SCHEMA ADD", "No fields provided"),
    ] {
        assert_eq!(altered(input).expect_err(input).text(), expected);
    }
    let made = altered("SKIPINITIALSCAN SCHEMA ADD n NUMERIC u TAG").expect("two fields");
    assert!(made.skip_initial_scan);
    let kinds: Vec<_> = made.definition.fields.iter().map(|field| field.kind.name()).collect();
    assert_eq!(kinds, ["TEXT", "NUMERIC", "TAG"]);
}

#[test]
fn the_number_of_fields_is_limited() {
    let many = |count: usize, kind: &str| {
        let fields: Vec<_> = (0..count).map(|field| format!("f{field} {kind}")).collect();
        format!("SCHEMA {}", fields.join(" "))
    };
    assert_eq!(described(&many(129, "TEXT")), "Schema is limited to 128 TEXT fields");
    assert_eq!(described(&many(1025, "TAG")), "Schema is limited to 1024 fields");
    let wide = created(&many(33, "TEXT")).expect("33 fields");
    assert!(wide.options.max_text_fields);
    let narrow = created(&many(32, "TEXT")).expect("32 fields");
    let added = alter(&narrow, &[b"SCHEMA", b"ADD", b"x", b"TEXT"], context());
    assert!(added.expect_err("a 33rd field").text().starts_with("Cannot add more fields."));
    let hidden = alter(&narrow, &[b"SCHEMA", b"ADD", b"x", b"TEXT", b"NOINDEX"], context());
    assert!(matches!(hidden.expect("it has no bit").definition.fields[32].kind, FieldKind::Text(_)));
}
