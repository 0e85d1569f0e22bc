//! A definition as FT.INFO shows it, and as the arguments that define it again.

use super::vector::{element_name, metric_name};
use crate::schema::{
    Algorithm, Compression, Coordinates, Definition, Field, FieldKind, Language, Phonetic, Source, Vector,
};
use martlet_base::number::{NumberBuffer, format_f64};
use std::borrow::Cow;

/// A value in FT.INFO.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown<'a> {
    /// Text.
    Text(Cow<'a, [u8]>),
    /// A number that RESP3 has as a double.
    Number(f64),
    /// An integer.
    Integer(i64),
    /// Several texts.
    List(Vec<&'a [u8]>),
}

impl<'a> From<&'a [u8]> for Shown<'a> {
    fn from(text: &'a [u8]) -> Self {
        Shown::Text(Cow::Borrowed(text))
    }
}

impl From<&'static str> for Shown<'_> {
    fn from(text: &'static str) -> Self {
        Shown::Text(Cow::Borrowed(text.as_bytes()))
    }
}

/// `index_options`
pub fn options(definition: &Definition) -> Vec<&'static str> {
    let options = &definition.options;
    let shown = [
        (options.no_freqs, "NOFREQS"),
        (options.no_fields, "NOFIELDS"),
        (options.no_offsets, "NOOFFSETS"),
        (options.no_highlight || options.no_offsets, "NOHL"),
        (options.max_text_fields, "MAXTEXTFIELDS"),
    ];
    shown.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}

/// `index_definition`
pub fn rule(definition: &Definition) -> Vec<(&'static str, Shown<'_>)> {
    let source = match definition.source {
        Source::Hash => "HASH",
        Source::Json => "JSON",
    };
    let prefixes = definition.prefixes.iter().map(|prefix| &**prefix).collect();
    let mut shown: Vec<(&'static str, Shown<'_>)> =
        vec![("key_type", source.into()), ("prefixes", Shown::List(prefixes))];
    fn text<'a>(
        shown: &mut Vec<(&'static str, Shown<'a>)>,
        name: &'static str,
        value: &'a Option<Box<[u8]>>,
    ) {
        shown.extend(value.as_deref().map(|value| (name, value.into())));
    }
    text(&mut shown, "filter", &definition.filter);
    if let Some(language) = definition.language.filter(|language| *language != Language::English) {
        shown.push(("default_language", language.name().into()));
    }
    text(&mut shown, "language_field", &definition.language_field);
    if definition.score != 0.0 {
        shown.push(("default_score", Shown::Number(definition.score)));
    }
    text(&mut shown, "score_field", &definition.score_field);
    text(&mut shown, "payload_field", &definition.payload_field);
    if definition.options.index_all {
        shown.push(("indexes_all", "true".into()));
    }
    shown
}

/// A field as FT.INFO shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute<'a> {
    /// Names and values.
    pub values: Vec<(&'static str, Shown<'a>)>,
    /// Words; in RESP3 the value of `flags`, in RESP2 at the end.
    pub flags: Vec<&'static str>,
}

/// One of `attributes`
pub fn attribute(field: &Field) -> Attribute<'_> {
    let mut values: Vec<(&'static str, Shown<'_>)> = vec![
        ("identifier", (&*field.identifier).into()),
        ("attribute", (&*field.name).into()),
        ("type", field.kind.name().into()),
    ];
    let (mut case_sensitive, mut no_stem, mut suffixes) = (false, false, false);
    match &field.kind {
        FieldKind::Text(text) => {
            values.push(("WEIGHT", Shown::Number(text.weight)));
            (no_stem, suffixes) = (text.no_stem, text.suffixes);
        }
        FieldKind::Tag(tag) => {
            let separator = tag.separator.map_or_else(Vec::new, |byte| vec![byte]);
            values.push(("SEPARATOR", Shown::Text(Cow::Owned(separator))));
            (case_sensitive, suffixes) = (tag.case_sensitive, tag.suffixes);
        }
        FieldKind::GeoShape(coordinates) => {
            values.push(("coord_system", coordinates_name(*coordinates).into()))
        }
        FieldKind::Vector(vector) => vector_values(vector, &mut values),
        FieldKind::Numeric | FieldKind::Geo => {}
    }
    let flags = [
        (case_sensitive, "CASESENSITIVE"),
        (field.sortable, "SORTABLE"),
        (field.unf, "UNF"),
        (no_stem, "NOSTEM"),
        (field.no_index, "NOINDEX"),
        (suffixes, "WITHSUFFIXTRIE"),
        (field.index_empty, "INDEXEMPTY"),
        (field.index_missing, "INDEXMISSING"),
    ];
    Attribute { values, flags: flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1).collect() }
}

fn vector_values(vector: &Vector, values: &mut Vec<(&'static str, Shown<'_>)>) {
    let integer = |value: usize| Shown::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let algorithm = match vector.algorithm {
        Algorithm::Flat { .. } => "FLAT",
        Algorithm::Hnsw { .. } => "HNSW",
        Algorithm::Vamana { .. } => "SVS-VAMANA",
    };
    values.push(("algorithm", algorithm.into()));
    values.push(("data_type", element_name(vector.element).into()));
    values.push(("dim", integer(vector.dimension)));
    values.push(("distance_metric", metric_name(vector.metric).into()));
    match vector.algorithm {
        Algorithm::Flat { .. } => {}
        Algorithm::Hnsw { m, ef_construction, .. } => {
            values.push(("M", integer(m)));
            values.push(("ef_construction", integer(ef_construction)));
        }
        Algorithm::Vamana { degree, construction_window, compression, .. } => {
            values.push(("graph_max_degree", integer(degree)));
            values.push(("construction_window_size", integer(construction_window)));
            values.push(("compression", compression.map_or("NO_COMPRESSION", |known| known.name).into()));
            if let Some(Compression { training_threshold, reduce, .. }) = compression {
                values.push(("training_threshold", integer(training_threshold)));
                values.extend(reduce.map(|reduce| ("reduced_dim", integer(reduce))));
            }
        }
    }
}

fn coordinates_name(coordinates: Coordinates) -> &'static str {
    match coordinates {
        Coordinates::Spherical => "SPHERICAL",
        Coordinates::Flat => "FLAT",
    }
}

/// The arguments of FT.CREATE, from the index's name on, that give an equal definition.
pub fn arguments(definition: &Definition) -> Vec<Vec<u8>> {
    let mut made = Words(vec![definition.name.to_vec()]);
    made.word("ON").word(match definition.source {
        Source::Hash => "HASH",
        Source::Json => "JSON",
    });
    made.list("PREFIX", &definition.prefixes);
    made.option("FILTER", &definition.filter);
    if let Some(language) = definition.language {
        made.word("LANGUAGE").word(language.name());
    }
    made.option("LANGUAGE_FIELD", &definition.language_field);
    made.word("SCORE").number(definition.score);
    made.option("SCORE_FIELD", &definition.score_field);
    made.option("PAYLOAD_FIELD", &definition.payload_field);
    let options = &definition.options;
    made.flag(options.max_text_fields, "MAXTEXTFIELDS");
    if let Some(seconds) = options.temporary {
        made.word("TEMPORARY").number(seconds);
    }
    made.flag(options.no_offsets, "NOOFFSETS")
        .flag(options.no_highlight, "NOHL")
        .flag(options.no_fields, "NOFIELDS")
        .flag(options.no_freqs, "NOFREQS")
        .flag(options.skip_initial_scan, "SKIPINITIALSCAN");
    if options.index_all {
        made.word("INDEXALL").word("ENABLE");
    }
    if let Some(words) = &definition.stopwords {
        made.list("STOPWORDS", words);
    }
    made.word("SCHEMA");
    for field in &definition.fields {
        made.field(field);
    }
    made.0
}

/// Arguments in the making.
struct Words(Vec<Vec<u8>>);

impl Words {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.push(bytes.to_vec());
        self
    }

    fn word(&mut self, word: &str) -> &mut Self {
        self.bytes(word.as_bytes())
    }

    fn number(&mut self, number: f64) -> &mut Self {
        self.bytes(format_f64(number, &mut NumberBuffer::new()))
    }

    fn size(&mut self, size: usize) -> &mut Self {
        self.word(&size.to_string())
    }

    fn flag(&mut self, is_set: bool, word: &str) -> &mut Self {
        if is_set { self.word(word) } else { self }
    }

    fn option(&mut self, name: &str, value: &Option<Box<[u8]>>) {
        if let Some(value) = value {
            self.word(name).bytes(value);
        }
    }

    fn list(&mut self, name: &str, values: &[Box<[u8]>]) {
        self.word(name).size(values.len());
        for value in values {
            self.bytes(value);
        }
    }

    fn field(&mut self, field: &Field) {
        self.bytes(&field.identifier).word("AS").bytes(&field.name).word(field.kind.name());
        match &field.kind {
            FieldKind::Text(text) => {
                self.word("WEIGHT").number(text.weight).flag(text.no_stem, "NOSTEM");
                if let Some(phonetic) = text.phonetic {
                    self.word("PHONETIC").word(match phonetic {
                        Phonetic::English => "dm:en",
                        Phonetic::French => "dm:fr",
                        Phonetic::Portuguese => "dm:pt",
                        Phonetic::Spanish => "dm:es",
                    });
                }
                self.flag(text.suffixes, "WITHSUFFIXTRIE");
            }
            FieldKind::Tag(tag) => {
                if let Some(separator) = tag.separator {
                    self.word("SEPARATOR").bytes(&[separator]);
                }
                self.flag(tag.case_sensitive, "CASESENSITIVE").flag(tag.suffixes, "WITHSUFFIXTRIE");
            }
            FieldKind::GeoShape(coordinates) => {
                self.word(coordinates_name(*coordinates));
            }
            FieldKind::Vector(vector) => self.vector(vector),
            FieldKind::Numeric | FieldKind::Geo => {}
        }
        self.flag(field.index_empty, "INDEXEMPTY").flag(field.index_missing, "INDEXMISSING");
        self.flag(field.sortable, "SORTABLE").flag(field.unf, "UNF").flag(field.no_index, "NOINDEX");
    }

    fn vector(&mut self, vector: &Vector) {
        let mut made = Words(Vec::new());
        made.word("TYPE").word(element_name(vector.element)).word("DIM").size(vector.dimension);
        made.word("DISTANCE_METRIC").word(metric_name(vector.metric));
        if let Some(capacity) = vector.initial_capacity {
            made.word("INITIAL_CAP").size(capacity);
        }
        let algorithm = match vector.algorithm {
            Algorithm::Flat { block_size } => {
                if let Some(size) = block_size {
                    made.word("BLOCK_SIZE").size(size);
                }
                "FLAT"
            }
            Algorithm::Hnsw { m, ef_construction, ef_runtime, epsilon } => {
                made.word("M").size(m).word("EF_CONSTRUCTION").size(ef_construction);
                made.word("EF_RUNTIME").size(ef_runtime).word("EPSILON").number(epsilon);
                "HNSW"
            }
            Algorithm::Vamana { degree, construction_window, search_window, epsilon, compression } => {
                made.word("GRAPH_MAX_DEGREE").size(degree);
                made.word("CONSTRUCTION_WINDOW_SIZE").size(construction_window);
                made.word("SEARCH_WINDOW_SIZE").size(search_window).word("EPSILON").number(epsilon);
                if let Some(Compression { name, training_threshold, reduce }) = compression {
                    made.word("COMPRESSION").word(name).word("TRAINING_THRESHOLD").size(training_threshold);
                    reduce.into_iter().for_each(|reduce| {
                        made.word("REDUCE").size(reduce);
                    });
                }
                "SVS-VAMANA"
            }
        };
        self.word(algorithm).size(made.0.len());
        self.0.append(&mut made.0);
    }
}
