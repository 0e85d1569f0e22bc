//! What is marked in the results of queries, and its equality with a naive evaluation.

use std::borrow::Cow;
use std::collections::BTreeSet;

use martlet_base::hash::hash_bytes;
use martlet_base::random::Random;

use super::*;
use crate::analysis::{self, Analysis, Value};
use crate::definition::{self, create};
use crate::index::whole::Index;
use crate::request::Limits;
use crate::searching::{Context, Searching};
use crate::text::stem::stem_of;

struct Fields(Vec<(&'static str, String)>);

impl analysis::Document for Fields {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(Value::Missing, |(_, value)| Value::Text(Cow::Borrowed(value.as_bytes())))
    }
}

fn index(schema: &str, synonyms: &[&[u8]], documents: &[Fields]) -> Arc<Index> {
    let schema = format!("i {schema}");
    let arguments: Vec<&[u8]> = schema.split_whitespace().map(str::as_bytes).collect();
    let context = definition::Context { memory_bytes: 1 << 30, is_path: |_| true };
    let index = Index::new(create(&arguments, context).unwrap(), 2);
    if !synonyms.is_empty() {
        index.add_synonyms(b"g", synonyms).unwrap();
    }
    let rules = index.rules();
    for (at, document) in documents.iter().enumerate() {
        let key = at.to_string().into_bytes();
        let mut analysis = Analysis::default();
        let (definition, stopwords, synonyms) = (&rules.definition, &rules.stopwords, &rules.synonyms);
        let content = analysis.with_synonyms(definition, stopwords, synonyms, &key, document).unwrap();
        index.put(hash_bytes(&key), content).unwrap();
    }
    Arc::new(index)
}

/// The results in the order of their keys, each with its number and the texts that it shows.
fn shown(index: &Arc<Index>, query: &str, options: &str, documents: &[Fields]) -> Vec<(usize, Vec<String>)> {
    let options = options.split_whitespace();
    let arguments: Vec<&[u8]> = std::iter::once(query).chain(options).map(str::as_bytes).collect();
    let request = Search::parse(&arguments, &Limits { dialect: 2, ..Limits::default() }).unwrap();
    let context = Context { results_max: 1_000, ..Context::default() };
    let mut searching = Searching::new(Arc::clone(index), &request, context).unwrap();
    while !searching.step() {}
    let found = searching.into_found();
    let language = index.rules().definition.language.unwrap_or_default();
    let mut highlighter = Highlighter::new(index.rules(), found.matched_terms);
    let mut results: Vec<_> = found
        .hits
        .iter()
        .map(|hit| {
            let number: usize = String::from_utf8_lossy(&hit.key).parse().unwrap();
            highlighter.begin(hit, language);
            let texts = documents[number].0.iter().map(|(name, text)| {
                let shaped = highlighter.shape(&request.returned, name.as_bytes(), text.as_bytes(), true);
                shaped.map_or_else(|| text.clone(), |shaped| String::from_utf8(shaped).unwrap())
            });
            (number, texts.collect())
        })
        .collect();
    results.sort_unstable();
    results
}

#[test]
fn terms_are_marked_as_redisearch_marks_them() {
    let text = |t: &str, b: &str| Fields(vec![("t", t.to_owned()), ("b", b.to_owned()), ("o", t.to_owned())]);
    let documents = [text("hello to\\-day running run", "a car, the drive and running")];
    let index = index("SCHEMA t TEXT b TEXT NOSTEM", &[b"car", b"drive"], &documents);
    let marked = |query: &str, options: &str| {
        let results = shown(&index, query, &format!("{options} HIGHLIGHT TAGS [ ]"), &documents);
        results.into_iter().map(|(_, texts)| texts.join(" | ")).collect::<String>()
    };
    let plain = "hello to\\-day running run";
    let body = "a car, the drive and running";
    assert_eq!(marked("@t:runs", ""), format!("hello to\\-day [running] [run] | {body} | {plain}"));
    assert_eq!(
        marked("@t:running", ""),
        format!("hello to\\-day [running] [run] | a car, the drive and [running] | {plain}")
    );
    assert_eq!(marked("drive", ""), format!("{plain} | a [car], the [drive] and running | {plain}"));
    assert_eq!(marked("drive", "VERBATIM"), format!("{plain} | a car, the [drive] and running | {plain}"));
    assert_eq!(marked("to\\-day", ""), format!("hello [to\\]-day running run | {body} | {plain}"));
    assert_eq!(marked("hel*|nothing", ""), format!("[hello] to\\-day running run | {body} | {plain}"));
    assert_eq!(marked("hello -car", ""), "");
    assert_eq!(marked("*", ""), format!("{plain} | {body} | {plain}"));
}

#[test]
fn ideographs_are_marked_one_by_one() {
    let documents = [Fields(vec![("t", "中华人民 hello".to_owned())])];
    let index = index("LANGUAGE chinese SCHEMA t TEXT", &[], &documents);
    let texts = shown(&index, "人民|hello", "HIGHLIGHT TAGS [ ]", &documents);
    assert_eq!(texts, [(0, vec!["中华[人][民] [hello]".to_owned()])]);
}

#[test]
fn a_document_that_the_query_finds_no_more_is_shown_without_marks() {
    let documents = [Fields(vec![("t", "hello world".to_owned())])];
    let index = index("SCHEMA t TEXT", &[], &documents);
    let request = Search::parse(&[b"hello"], &Limits::default()).unwrap();
    let context = Context { results_max: 1_000, ..Context::default() };
    let mut searching = Searching::new(Arc::clone(&index), &request, context).unwrap();
    while !searching.step() {}
    let mut found = searching.into_found();
    let names = |terms: Vec<MatchedTerm>| terms.into_iter().map(|term| term.name).collect::<Vec<_>>();
    assert_eq!(names(found.matched_terms.of(found.hits[0].partition, b"0")), [b"hello".as_slice().into()]);
    let rules = index.rules();
    let mut analysis = Analysis::default();
    let other = Fields(vec![("t", "other".to_owned())]);
    let content = analysis.of(&rules.definition, &rules.stopwords, b"0", &other).unwrap();
    index.put(hash_bytes(b"0"), content).unwrap();
    assert_eq!(found.matched_terms.of(found.hits[0].partition, b"0"), []);
    assert_eq!(found.matched_terms.of(found.hits[0].partition, b"nosuch"), []);
    assert_eq!(found.matched_terms.of(9, b"0"), []);
}

/// A query as a tree, evaluated by looking at every word.
enum Naive {
    Word(&'static str),
    Prefix(&'static str),
    Phrase(&'static str, &'static str),
    And(Box<Naive>, Box<Naive>),
    Or(Box<Naive>, Box<Naive>),
    Not(Box<Naive>, &'static str),
    Optional(Box<Naive>, &'static str),
}

const WORDS: &[&str] = &["run", "runs", "running", "cat", "cats", "dog", "house", "houses"];

impl Naive {
    fn random(random: &mut Random, depth: usize) -> Naive {
        let word = |random: &mut Random| WORDS[random.below(WORDS.len() as u64) as usize];
        let below = |random: &mut Random| Box::new(Naive::random(random, depth + 1));
        match random.below(if depth < 3 { 7 } else { 3 }) {
            0 => Naive::Word(word(random)),
            1 => Naive::Prefix(&word(random)[..2]),
            // As in RediSearch, a phrase of one word twice is found where the word stands once.
            2 => match word(random) {
                "dog" => Naive::Word("dog"),
                other => Naive::Phrase(other, "dog"),
            },
            3 => Naive::And(below(random), below(random)),
            4 => Naive::Or(below(random), below(random)),
            5 => Naive::Not(below(random), word(random)),
            _ => Naive::Optional(below(random), word(random)),
        }
    }

    fn text(&self) -> String {
        match self {
            Naive::Word(word) => (*word).to_owned(),
            Naive::Prefix(prefix) => format!("{prefix}*"),
            Naive::Phrase(a, b) => format!("\"{a} {b}\""),
            Naive::And(a, b) => format!("({} {})", a.text(), b.text()),
            Naive::Or(a, b) => format!("({}|{})", a.text(), b.text()),
            Naive::Not(a, word) => format!("({} -\"{word}\")", a.text()),
            Naive::Optional(a, word) => format!("({} ~\"{word}\")", a.text()),
        }
    }

    /// The terms of the query that a document has, whose stems are those of its first text; `None` if the
    /// query does not find it.
    fn terms(&self, texts: &[Vec<&str>; 2]) -> Option<BTreeSet<String>> {
        let has = |term: &str| match term.strip_prefix('+') {
            Some(stem) => texts[0].iter().any(|word| *word != stem && stem_text(word) == stem),
            None => texts.iter().flatten().any(|word| *word == term),
        };
        let all =
            |terms: &[&str]| -> BTreeSet<String> { terms.iter().map(|term| (*term).to_owned()).collect() };
        match self {
            Naive::Word(word) => {
                let stem = stem_text(word);
                let forms = [(*word).to_owned(), format!("+{stem}"), stem];
                let found: BTreeSet<String> = forms.into_iter().filter(|form| has(form)).collect();
                (!found.is_empty()).then_some(found)
            }
            Naive::Prefix(prefix) => {
                let words = texts.iter().flatten().filter(|word| word.starts_with(prefix));
                words.min().map(|word| all(&[word]))
            }
            Naive::Phrase(a, b) => {
                let is_there = |text: &Vec<&str>| text.windows(2).any(|pair| pair == [*a, *b]);
                texts.iter().any(is_there).then(|| all(&[a, b]))
            }
            Naive::And(a, b) => Some(&a.terms(texts)? | &b.terms(texts)?),
            Naive::Or(a, b) => match (a.terms(texts), b.terms(texts)) {
                (Some(a), Some(b)) => Some(&a | &b),
                (a, b) => a.or(b),
            },
            Naive::Not(a, word) => a.terms(texts).filter(|_| !has(word)),
            Naive::Optional(a, word) => {
                let mut terms = a.terms(texts)?;
                terms.extend(has(word).then(|| (*word).to_owned()));
                Some(terms)
            }
        }
    }
}

fn stem_text(word: &str) -> String {
    stem_of(Language::English, word.as_bytes()).map_or_else(
        || word.to_owned(),
        |stem| String::from_utf8_lossy(&stem).trim_start_matches('+').to_owned(),
    )
}

#[test]
fn every_search_marks_what_a_look_at_every_word_marks() {
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let text = |random: &mut Random| {
        let words = (0..1 + random.below(6)).map(|_| WORDS[random.below(WORDS.len() as u64) as usize]);
        // The last word keeps phrases from going over to the other field.
        words.chain(["end"]).collect::<Vec<_>>().join(" ")
    };
    let documents: Vec<Fields> =
        (0..200).map(|_| Fields(vec![("t", text(&mut random)), ("b", text(&mut random))])).collect();
    let index = index("SCHEMA t TEXT b TEXT NOSTEM", &[], &documents);
    let mut marked = 0;
    for _ in 0..300 {
        let query = Naive::random(&mut random, 0);
        let wanted = documents.iter().enumerate().filter_map(|(number, Fields(fields))| {
            let texts = [0, 1].map(|at| fields[at].1.split(' ').collect::<Vec<_>>());
            let terms = query.terms(&texts)?;
            let is_marked = |field: usize, word: &str| {
                let stem = stem_text(word);
                terms.contains(word) || field == 0 && stem != word && terms.contains(&format!("+{stem}"))
            };
            let shown = [0, 1].map(|field| {
                let words = texts[field].iter().map(|word| match is_marked(field, word) {
                    true => format!("[{word}]"),
                    false => (*word).to_owned(),
                });
                words.collect::<Vec<_>>().join(" ")
            });
            Some((number, shown.to_vec()))
        });
        let wanted: Vec<_> = wanted.collect();
        let options = "HIGHLIGHT TAGS [ ] LIMIT 0 1000";
        assert_eq!(
            shown(&index, &query.text(), options, &documents),
            wanted,
            "seed {seed}: {}",
            query.text()
        );
        marked += wanted.len();
    }
    assert!(marked > 1_000, "{marked}");
}
