//! What an index is defined by: which keys it has, their fields, and how each is indexed.
//!
//! A definition never refers to contents: two indexes of equal definitions over equal keys are equal.

/// The most fields of an index, and the most of them that are text (RediSearch: 1024, 128).
pub const MAX_FIELDS: usize = 1024;
/// The most fields of an index that are text: a posting says by a bit for each in which its term stands.
pub const MAX_TEXT_FIELDS: usize = 128;

/// An index as FT.CREATE and FT.ALTER define it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The index's name.
    pub name: Box<[u8]>,
    /// Which type of key it indexes.
    pub source: Source,
    /// Keys that begin with one of these are documents. One empty prefix: all keys.
    pub prefixes: Vec<Box<[u8]>>,
    /// An expression that a document's fields must satisfy.
    pub filter: Option<Box<[u8]>>,
    /// The language of documents that do not name one; none is English.
    pub language: Option<Language>,
    /// The field of a document that names its language.
    pub language_field: Option<Box<[u8]>>,
    /// The score of documents that do not give one, between 0 and 1.
    pub score: f64,
    /// The field of a document that has its score.
    pub score_field: Option<Box<[u8]>>,
    /// The field of a document that has its payload.
    pub payload_field: Option<Box<[u8]>>,
    /// The options of the whole index.
    pub options: Options,
    /// The words that are not indexed; none is RediSearch's own list.
    pub stopwords: Option<Vec<Box<[u8]>>>,
    /// The fields, in the order in which they were added.
    pub fields: Vec<Field>,
}

/// Which type of key an index has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Hashes: a field of the schema is a field of the hash.
    Hash,
    /// JSON documents: a field of the schema is a path.
    Json,
}

/// The options of a whole index.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// MAXTEXTFIELDS.
    pub max_text_fields: bool,
    /// TEMPORARY: seconds without use after which the index goes.
    pub temporary: Option<f64>,
    /// NOOFFSETS: the places of terms are not kept.
    pub no_offsets: bool,
    /// NOHL: what highlighting needs is not kept.
    pub no_highlight: bool,
    /// NOFIELDS: in which fields a term stands is not kept.
    pub no_fields: bool,
    /// NOFREQS: how often a term stands in a document is not kept.
    pub no_freqs: bool,
    /// SKIPINITIALSCAN: keys that are there already are not indexed.
    pub skip_initial_scan: bool,
    /// INDEXALL ENABLE: the set of all documents is kept.
    pub index_all: bool,
}

/// One field of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field of a hash, or the path in a JSON document.
    pub identifier: Box<[u8]>,
    /// The name by which queries know it (AS).
    pub name: Box<[u8]>,
    /// How it is indexed.
    pub kind: FieldKind,
    /// SORTABLE: its value is kept with the document.
    pub sortable: bool,
    /// UNF: the value that is kept is not normalised.
    pub unf: bool,
    /// NOINDEX: it is only kept, not indexed.
    pub no_index: bool,
    /// INDEXEMPTY: empty values are indexed.
    pub index_empty: bool,
    /// INDEXMISSING: documents without the field are indexed as such.
    pub index_missing: bool,
}

/// How a field is indexed.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// Text, by its terms.
    Text(Text),
    /// Whole values, several between separators.
    Tag(Tag),
    /// Numbers.
    Numeric,
    /// Points on the globe.
    Geo,
    /// Shapes.
    GeoShape(Coordinates),
    /// Vectors.
    Vector(Vector),
}

impl FieldKind {
    /// The type's name in a definition and in FT.INFO.
    pub fn name(&self) -> &'static str {
        match self {
            FieldKind::Text(_) => "TEXT",
            FieldKind::Tag(_) => "TAG",
            FieldKind::Numeric => "NUMERIC",
            FieldKind::Geo => "GEO",
            FieldKind::GeoShape(_) => "GEOSHAPE",
            FieldKind::Vector(_) => "VECTOR",
        }
    }
}

/// A text field.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Text {
    /// The factor of its terms in scores.
    pub weight: f64,
    /// NOSTEM: terms are not stemmed.
    pub no_stem: bool,
    /// PHONETIC: terms are also indexed by their sound, in this language.
    pub phonetic: Option<Phonetic>,
    /// WITHSUFFIXTRIE: suffixes of terms are kept for queries by suffix and infix.
    pub suffixes: bool,
}

/// The language whose sounds a phonetic field goes by (`dm:en` and its kin; one algorithm for all).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Phonetic {
    /// `dm:en`
    English,
    /// `dm:fr`
    French,
    /// `dm:pt`
    Portuguese,
    /// `dm:es`
    Spanish,
}

/// A tag field.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The byte between two tags of a value; without one a value is one tag, as in JSON.
    pub separator: Option<u8>,
    /// CASESENSITIVE: tags keep their case.
    pub case_sensitive: bool,
    /// WITHSUFFIXTRIE: suffixes of tags are kept.
    pub suffixes: bool,
}

/// The coordinates of shapes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// Degrees of longitude and latitude.
    Spherical,
    /// A plane.
    Flat,
}

/// A vector field.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// FLAT, HNSW or SVS-VAMANA.
    pub algorithm: Algorithm,
    /// The type of an element in a document and in a query.
    pub element: Element,
    /// Elements of a vector.
    pub dimension: usize,
    /// How the distance of two vectors is measured.
    pub metric: Metric,
    /// INITIAL_CAP, as it was given.
    pub initial_capacity: Option<usize>,
}

/// How neighbours are found.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Algorithm {
    /// By looking at all; BLOCK_SIZE as it was given.
    Flat {
        /// BLOCK_SIZE
        block_size: Option<usize>,
    },
    /// By a graph.
    Hnsw {
        /// M: links of a node at each level above 0; 16 unless given.
        m: usize,
        /// EF_CONSTRUCTION: candidates of an insertion; 200 unless given.
        ef_construction: usize,
        /// EF_RUNTIME: candidates of a search; 10 unless given.
        ef_runtime: usize,
        /// EPSILON: by how much a range is exceeded on the way, as a part of it; 0.01 unless given.
        epsilon: f64,
    },
    /// By a graph, as SVS-VAMANA.
    Vamana {
        /// GRAPH_MAX_DEGREE: links of a node at level 0; 32 unless given.
        degree: usize,
        /// CONSTRUCTION_WINDOW_SIZE: candidates of an insertion; 200 unless given.
        construction_window: usize,
        /// SEARCH_WINDOW_SIZE: candidates of a search; 10 unless given.
        search_window: usize,
        /// EPSILON
        epsilon: f64,
        /// COMPRESSION, if it was given.
        compression: Option<Compression>,
    },
}

/// How the vectors of a graph are made smaller. The kinds are Intel's; each is one byte a component here, as
/// in Redis where that company's library is not built in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// LVQ8, LVQ4, LVQ4x4, LVQ4x8, LeanVec4x8 or LeanVec8x8.
    pub name: &'static str,
    /// TRAINING_THRESHOLD: vectors from which Redis learns; 10,240 unless given.
    pub training_threshold: usize,
    /// REDUCE: dimensions that LeanVec keeps.
    pub reduce: Option<usize>,
}

impl Algorithm {
    /// Candidates of an insertion into a graph, and of a search.
    pub fn windows(&self) -> Option<(usize, usize)> {
        match *self {
            Algorithm::Flat { .. } => None,
            Algorithm::Hnsw { ef_construction, ef_runtime, .. } => Some((ef_construction, ef_runtime)),
            Algorithm::Vamana { construction_window, search_window, .. } => {
                Some((construction_window, search_window))
            }
        }
    }
}

/// The type of a vector's element.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32 bits
    Float32,
    /// 64 bits
    Float64,
    /// IEEE 754's 16 bits
    Float16,
    /// the upper 16 of 32 bits
    Bfloat16,
    /// 8 bits with a sign
    Int8,
    /// 8 bits without one
    Uint8,
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Element::Float64 => 8,
            Element::Float32 => 4,
            Element::Float16 | Element::Bfloat16 => 2,
            Element::Int8 | Element::Uint8 => 1,
        }
    }
}

/// How the distance of two vectors is measured.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The square of the Euclidean distance.
    L2,
    /// One less the inner product.
    InnerProduct,
    /// One less the cosine of their angle.
    Cosine,
}

/// The languages that RediSearch 2.10 stems, and Chinese, which it segments.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "names of languages")]
pub enum Language {
    Arabic,
    Armenian,
    Basque,
    Catalan,
    Danish,
    Dutch,
    #[default]
    English,
    Finnish,
    French,
    German,
    Greek,
    Hindi,
    Hungarian,
    Indonesian,
    Irish,
    Italian,
    Lithuanian,
    Nepali,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Serbian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
    Yiddish,
    Chinese,
}

impl Language {
    const NAMES: &[(Language, &'static str)] = &[
        (Language::Arabic, "arabic"),
        (Language::Armenian, "armenian"),
        (Language::Basque, "basque"),
        (Language::Catalan, "catalan"),
        (Language::Danish, "danish"),
        (Language::Dutch, "dutch"),
        (Language::English, "english"),
        (Language::Finnish, "finnish"),
        (Language::French, "french"),
        (Language::German, "german"),
        (Language::Greek, "greek"),
        (Language::Hindi, "hindi"),
        (Language::Hungarian, "hungarian"),
        (Language::Indonesian, "indonesian"),
        (Language::Irish, "irish"),
        (Language::Italian, "italian"),
        (Language::Lithuanian, "lithuanian"),
        (Language::Nepali, "nepali"),
        (Language::Norwegian, "norwegian"),
        (Language::Portuguese, "portuguese"),
        (Language::Romanian, "romanian"),
        (Language::Russian, "russian"),
        (Language::Serbian, "serbian"),
        (Language::Spanish, "spanish"),
        (Language::Swedish, "swedish"),
        (Language::Tamil, "tamil"),
        (Language::Turkish, "turkish"),
        (Language::Yiddish, "yiddish"),
        (Language::Chinese, "chinese"),
    ];

    /// The language of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<Language> {
        Self::NAMES
            .iter()
            .find(|(_, n)| n.as_bytes().eq_ignore_ascii_case(name))
            .map(|&(language, _)| language)
    }

    /// The language's name as RediSearch writes it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(language, _)| *language == self).map_or("english", |&(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_found_by_their_names() {
        for &(language, name) in Language::NAMES {
            assert_eq!(Language::parse(name.to_uppercase().as_bytes()), Some(language));
            assert_eq!(language.name(), name);
        }
        assert_eq!(Language::parse(b"klingon"), None);
        assert_eq!(Language::default(), Language::English);
    }
}
