//! An index that both sides have, and queries that are generated for it.

use martlet_base::random::Random;
use martlet_search::Error;
use martlet_search::query::{Options, Params, explain, parse};
use martlet_search::schema::{
    Algorithm, Coordinates, Definition, Element, Field, FieldKind, Metric, Phonetic, Source, Tag, Text,
    Vector,
};
use martlet_search::synonyms::Synonyms;
use martlet_search::text::stopwords::Stopwords;

/// The commands that make the index `i` (`p`: with a phonetic field) at the oracle.
pub const SETUP: &[&str] = &[
    "FT.CREATE i SCHEMA t TEXT u TEXT e TEXT INDEXEMPTY x TEXT NOINDEX SORTABLE g TAG c TAG CASESENSITIVE \
     n NUMERIC l GEO s GEOSHAPE FLAT m TAG INDEXMISSING v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 \
     h VECTOR HNSW 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2",
    "FT.CREATE p SCHEMA t TEXT u TEXT PHONETIC dm:en g TAG n NUMERIC",
    "HSET d t hello u world g Foo c Foo n 5 v 8bytes!! h 8bytes!!",
    "FT.SYNUPDATE i grp hello world",
    "FT.SYNUPDATE i grp2 hello Fox",
];

/// The parameters of every query.
pub const PARAMS: &[(&str, &str)] = &[
    ("a", "hello"),
    ("b", "abcdefgh"),
    ("k", "3"),
    ("w", "2.5"),
    ("q", "Foo"),
    ("f", "-inf"),
    ("u", "km"),
    ("s", "POLYGON ((0 0, 0 1, 1 1, 0 0))"),
    ("y", "true"),
];

fn field(name: &str, kind: FieldKind) -> Field {
    Field {
        identifier: name.as_bytes().into(),
        name: name.as_bytes().into(),
        kind,
        sortable: false,
        unf: false,
        no_index: false,
        index_empty: name == "e",
        index_missing: name == "m",
    }
}

fn text(name: &str, phonetic: bool) -> Field {
    let phonetic = phonetic.then_some(Phonetic::English);
    let mut field =
        field(name, FieldKind::Text(Text { weight: 1.0, no_stem: false, phonetic, suffixes: false }));
    field.no_index = name == "x";
    field
}

fn tag(name: &str) -> Field {
    field(name, FieldKind::Tag(Tag { separator: Some(b','), case_sensitive: name == "c", suffixes: false }))
}

/// The definitions of the oracle's indexes.
pub fn definition(index: &str) -> Definition {
    let vector = Vector {
        algorithm: Algorithm::Flat { block_size: None },
        element: Element::Float32,
        dimension: 2,
        metric: Metric::L2,
        initial_capacity: None,
    };
    let graph = Algorithm::Hnsw { m: 16, ef_construction: 200, ef_runtime: 10, epsilon: 0.01 };
    let fields = match index {
        "i" => vec![
            text("t", false),
            text("u", false),
            text("e", false),
            text("x", false),
            tag("g"),
            tag("c"),
            field("n", FieldKind::Numeric),
            field("l", FieldKind::Geo),
            field("s", FieldKind::GeoShape(Coordinates::Flat)),
            tag("m"),
            field("v", FieldKind::Vector(vector.clone())),
            field("h", FieldKind::Vector(Vector { algorithm: graph, ..vector })),
        ],
        _ => vec![text("t", false), text("u", true), tag("g"), field("n", FieldKind::Numeric)],
    };
    Definition {
        name: index.as_bytes().into(),
        source: Source::Hash,
        prefixes: vec![[].into()],
        filter: None,
        language: None,
        language_field: None,
        score: 1.0,
        score_field: None,
        payload_field: None,
        options: martlet_search::schema::Options::default(),
        stopwords: None,
        fields,
    }
}

/// The synonyms of the index `i`.
fn groups() -> Synonyms {
    let mut groups = Synonyms::default();
    groups.add(b"grp", &[b"hello", b"world"]).expect("there are few");
    groups.add(b"grp2", &[b"hello", b"Fox"]).expect("there are few");
    groups
}

/// A query and how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub index: &'static str,
    pub dialect: u8,
    /// VERBATIM, NOSTOPWORDS
    pub verbatim: bool,
    pub no_stopwords: bool,
    pub query: Vec<u8>,
}

impl Asked {
    /// The arguments of FT.EXPLAIN.
    pub fn command(&self) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = vec![b"FT.EXPLAIN".to_vec(), self.index.into(), self.query.clone()];
        if self.verbatim {
            words.push(b"VERBATIM".to_vec());
        }
        if self.no_stopwords {
            words.push(b"NOSTOPWORDS".to_vec());
        }
        words.extend([b"PARAMS".to_vec(), (PARAMS.len() * 2).to_string().into_bytes()]);
        words.extend(
            PARAMS.iter().flat_map(|(name, value)| [name.as_bytes().to_vec(), value.as_bytes().to_vec()]),
        );
        words.extend([b"DIALECT".to_vec(), self.dialect.to_string().into_bytes()]);
        words
    }

    /// The crate's answer, in the client's form.
    pub fn explained(&self) -> Vec<u8> {
        let definition = definition(self.index);
        let stopwords = Stopwords::of(None);
        let mut params = Params::new();
        PARAMS
            .iter()
            .for_each(|(name, value)| params.insert(name.as_bytes(), value.as_bytes()).expect("a new name"));
        let synonyms = groups();
        let mut options = Options::new(&definition, &stopwords, &params);
        options.dialect = self.dialect;
        options.verbatim = self.verbatim;
        if self.no_stopwords {
            options.stopwords = None;
        }
        if self.index == "i" {
            options.synonyms = Some(&synonyms);
        }
        match parse(&self.query, &options) {
            Ok(node) => explain(&node, &definition),
            Err(error) => [b"-", shown(&error).as_bytes()].concat(),
        }
    }

    /// One line.
    pub fn show(&self) -> String {
        let flags = format!("{}{}", u8::from(self.verbatim), u8::from(self.no_stopwords));
        format!("{} {} {flags} {}", self.index, self.dialect, self.query.escape_ascii())
    }
}

/// An error as its reply's line has it.
fn shown(error: &Error) -> String {
    error.text().replace(['\r', '\n'], " ")
}

/// Generates queries.
pub struct Generator {
    random: Random,
    dialect: u8,
    /// Whether stopwords may occur, which RediSearch cannot have in unions.
    stopwords: bool,
}

const WORDS: &[&str] = &[
    "hello",
    "world",
    "fox",
    "Running",
    "dogs",
    "x",
    "foo_bar",
    "12",
    "3.5",
    "Äpfel",
    "a\\-b",
    "as",
    "inf",
    "+5",
    "-7",
    "1e3",
    "happiness",
    "b\\\\c",
    "nation's",
];
const STOPWORDS: &[&str] = &["the", "and", "The", "to"];
const FIELDS: &[&str] = &["t", "u", "e", "zz", "n", "g", "x"];

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { random: Random::seeded(seed), dialect: 1, stopwords: false }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn one(&mut self, of: &[&str]) -> String {
        of[self.below(of.len())].to_owned()
    }

    /// A query of some kind.
    pub fn asked(&mut self) -> Asked {
        self.dialect = 1 + self.below(4) as u8;
        self.stopwords = self.below(4) == 0;
        let mut parts = Vec::new();
        let depth = self.below(4);
        self.expression(&mut parts, depth);
        if self.dialect > 1 && self.below(12) == 0 {
            self.nearest(&mut parts);
        }
        let mut no_stopwords = !self.stopwords;
        if self.below(4) == 0 {
            self.mutate(&mut parts);
            no_stopwords = true;
        }
        Asked {
            // RediSearch does not look at a filter whose vector field it does not know.
            index: if self.below(5) == 0 && !parts.iter().any(|part| part.contains("KNN")) {
                "p"
            } else {
                "i"
            },
            dialect: self.dialect,
            verbatim: self.below(2) == 0,
            no_stopwords,
            query: parts.concat().into_bytes(),
        }
    }

    fn word(&mut self) -> String {
        match self.below(if self.stopwords { 5 } else { 6 }) {
            0 if self.stopwords => self.one(STOPWORDS),
            1 if self.dialect > 1 => self.one(&["$a", "$k", "$q", "$zz"]),
            _ => self.one(WORDS),
        }
    }

    fn expression(&mut self, parts: &mut Vec<String>, depth: usize) {
        for place in 0..1 + self.below(3) {
            if place > 0 {
                let is_union = !self.stopwords && self.below(3) == 0;
                parts.push(if is_union { "|".into() } else { " ".into() });
            }
            self.operand(parts, depth);
            if self.below(10) == 0 {
                self.attributes(parts);
            }
        }
    }

    fn operand(&mut self, parts: &mut Vec<String>, depth: usize) {
        let choices = if depth == 0 { 8 } else { 17 };
        match self.below(choices) {
            0..=2 => {
                let word = self.word();
                parts.push(word);
            }
            3 => {
                let count = 1 + self.below(3);
                let words: Vec<String> = (0..count).map(|_| self.one(WORDS)).collect();
                parts.push(format!("\"{}\"", words.join(" ")));
            }
            4 => {
                let pattern = self.one(&["ab*", "*ab", "*ab*", "Ab*", "12*", "a\\*b*", "*x-y"]);
                parts.push(pattern);
            }
            5 => {
                let signs = "%".repeat(1 + self.below(3));
                let word = self.one(&["hello", "Fox", "12", "the"]);
                parts.push(format!("{signs}{word}{signs}"));
            }
            6 => self.field(parts),
            7 if self.dialect > 1 => {
                let text = self.one(&["w'a?b*'", "w'$a'", "ismissing(@m)", "$a*", "*$a"]);
                parts.push(text);
            }
            7 => parts.push("hello".into()),
            8..=10 => self.inner(parts, "(", ")", depth),
            11 | 12 => {
                let sign = self.one(&["-", "~"]);
                parts.push(sign);
                self.operand(parts, depth - 1);
            }
            _ => {
                let name = self.one(FIELDS);
                let more = if self.below(4) == 0 { "|u" } else { "" };
                parts.push(format!("@{name}{more}:"));
                match self.below(3) {
                    0 => self.inner(parts, "(", ")", depth),
                    _ => {
                        let word = self.word();
                        parts.push(word);
                    }
                }
            }
        }
    }

    fn inner(&mut self, parts: &mut Vec<String>, open: &str, close: &str, depth: usize) {
        parts.push(open.into());
        self.expression(parts, depth - 1);
        parts.push(close.into());
    }

    fn number(&mut self) -> String {
        let all = ["1", "-5", "2.5", "inf", "-inf", "+inf", "(3", "1e3", "-$k", "$w", "($w", "$f", "$a"];
        let count = if self.dialect > 1 { all.len() } else { 8 };
        self.one(&all[..count])
    }

    fn field(&mut self, parts: &mut Vec<String>) {
        let choices = if self.dialect > 1 { 8 } else { 3 };
        let text = match self.below(choices) {
            0 => {
                let (min, max) = (self.number(), self.number());
                format!("@n:[{min} {max}]")
            }
            1 => {
                let unit = self.one(&["km", "M", "ft", "mi"]);
                let numbers = self.one(&["1 2 3", "1.5 -2.5 10", "-1 -90 4"]);
                format!("@l:[{numbers} {unit}]")
            }
            2 => {
                let count = 1 + self.below(3);
                let tags: Vec<String> = (0..count).map(|_| self.tag()).collect();
                // Words of a tag whose case counts keep it; in RediSearch they lose it, and are never found.
                let has_words = tags.iter().any(|tag| tag == "d E");
                let name = self.one(if has_words { &["g", "zz"] } else { &["g", "c", "zz", "t"] });
                format!("@{name}:{{{}}} ", tags.join("|"))
            }
            3 => {
                let operator = self.one(&["==", "!=", ">", ">=", "<", "<=", " == ", "> "]);
                let number = self.one(&["5", "-2.5", "inf", "-inf", "$w ", "-$k ", "1e2"]);
                format!("@n{operator}{number}")
            }
            4 => {
                let (lon, unit) = (self.one(&["1", "$w", "-$k"]), self.one(&["km", "$u", "5"]));
                format!("@l:[{lon} 2 $k {unit}]")
            }
            5 => {
                let relation = self.one(&["WITHIN", "contains", "DISJOINT", "Intersects", "NEAR"]);
                format!("@s:[{relation} $s]")
            }
            6 => {
                let radius = self.one(&["5", "0.5", "$w", "$a"]);
                format!("@v:[VECTOR_RANGE {radius} $b]")
            }
            _ => {
                let number = self.number();
                format!("@n:[{number}]")
            }
        };
        parts.push(text);
    }

    fn tag(&mut self) -> String {
        let all =
            ["Foo", "bar", "a b", "d E", "x\\-y", "f*", "*o", "*o*", "12", "w'f?'", "\"x Y\"", "$q", "$q*"];
        let count = if self.dialect > 1 { all.len() } else { 9 };
        self.one(&all[..count])
    }

    fn attributes(&mut self, parts: &mut Vec<String>) {
        let one = self.one(&[
            "$weight: 2",
            "$weight: 0.25",
            "$slop: 1",
            "$slop:-1",
            "$inorder: true",
            "$inorder: false",
            "$phonetic: true",
            "$phonetic: false",
            "$weight: foo",
            "$foo: 1",
            "$slop: -3",
            "$Weight:3",
        ]);
        let other = self.one(&["", ";", "; $slop: 2", "; $inorder: true;", ";$weight:1e6"]);
        parts.push(format!("=>{{{one}{other}}}"));
    }

    fn nearest(&mut self, parts: &mut Vec<String>) {
        match self.below(3) {
            0 => *parts = vec!["*".into()],
            _ => {
                parts.insert(0, "(".into());
                parts.push(")".into());
            }
        }
        let count = self.one(&["5", "$k", "$a", "2.5"]);
        let options = self.one(&["", " EF_RUNTIME 5", " EF_RUNTIME $k BATCH_SIZE 3", " $k"]);
        let name = self.one(&["", " AS d", " as $q", " AS"]);
        let attributes = self.one(&["", "=>{$yield_distance_as: dd}", "=>{$HYBRID_POLICY: BATCHES}"]);
        parts.push(format!("=>[KNN {count} @h $b{options}{name}]{attributes}"));
    }

    /// Takes a part away, doubles one, or puts a sign between two.
    fn mutate(&mut self, parts: &mut Vec<String>) {
        let place = self.below(parts.len());
        match self.below(4) {
            0 => {
                parts.remove(place);
            }
            1 => parts.insert(place, parts[place].clone()),
            _ => {
                let sign =
                    self.one(&["|", "(", ")", "-", "~", "*", "%", ":", "@t:", "{", "}", "[", "]", ";", "=>"]);
                parts.insert(place, sign);
            }
        }
    }
}
