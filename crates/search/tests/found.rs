//! Whole queries beside RediSearch: the documents that are found, their scores and their order.
//!
//! With `MARTLET_SEARCH_ORACLE=HOST:PORT`, a server that may be flushed, generated documents and queries are
//! compared (`MARTLET_SEARCH_QUERIES` many). Without it there is nothing to compare.

mod support;

use std::borrow::Cow;
use std::sync::Arc;

use martlet_base::hash::hash_bytes;
use martlet_base::random::Random;
use martlet_search::analysis::{Analysis, Document, Value};
use martlet_search::definition::{Context, create};
use martlet_search::exec::{Best, Bounds, Evaluation, Planner, Ranking, Scorer, Scores};
use martlet_search::index::whole::{Index, Rules};
use martlet_search::query::{Options, Params, parse};
use support::client::Client;

const SCHEMA: &str = "i SCHEMA t TEXT b TEXT WEIGHT 2 g TAG n NUMERIC SORTABLE l GEO";
const WORDS: &[&str] = &[
    "house", "houses", "running", "runs", "run", "quick", "quickly", "fox", "foxes", "dog", "red", "blue",
    "green", "world", "word", "words", "hello", "help", "helping", "car", "cart", "carts", "art", "one",
    "two", "three", "the", "and", "music", "musical", "nation", "national", "day", "daily", "sun",
];
const TAGS: &[&str] = &["red", "blue", "green", "Dark Red", "a", "b"];

struct Hash(Vec<(&'static str, String)>);

impl Document for Hash {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(Value::Missing, |(_, value)| Value::Text(Cow::Borrowed(value.as_bytes())))
    }
}

fn word(random: &mut Random) -> &'static str {
    // Some words are frequent.
    let at = random.below(WORDS.len() as u64).min(random.below(WORDS.len() as u64));
    WORDS[at as usize]
}

fn hash(random: &mut Random) -> Hash {
    let mut fields = Vec::new();
    for name in ["t", "b"] {
        if random.below(5) > 0 {
            let words: Vec<&str> = (0..1 + random.below(12)).map(|_| word(random)).collect();
            fields.push((name, words.join(" ")));
        }
    }
    if random.below(4) > 0 {
        let tags: Vec<&str> = (0..1 + random.below(3)).map(|_| TAGS[random.below(6) as usize]).collect();
        fields.push(("g", tags.join(",")));
    }
    if random.below(4) > 0 {
        fields.push(("n", (random.below(200) as f64 / 4.0).to_string()));
    }
    if random.below(4) > 0 || fields.is_empty() {
        fields.push((
            "l",
            format!("{},{}", random.below(100) as f64 / 100.0, random.below(100) as f64 / 100.0),
        ));
    }
    Hash(fields)
}

/// A query, and what there is in it.
#[derive(Default)]
struct Generated {
    text: String,
    has_and: bool,
    has_union: bool,
    /// Whether it asks how near terms are.
    has_order: bool,
    /// Whether it has a range or a circle.
    has_numbers: bool,
}

impl Generated {
    fn leaf(text: impl Into<String>) -> Generated {
        Generated { text: text.into(), ..Generated::default() }
    }

    fn joined(a: Generated, between: &str, b: Generated) -> Generated {
        Generated {
            text: format!("{}{between}{}", a.text, b.text),
            has_and: a.has_and || b.has_and,
            has_union: a.has_union || b.has_union,
            has_order: a.has_order || b.has_order,
            has_numbers: a.has_numbers || b.has_numbers,
        }
    }

    /// Whether RediSearch's scores depend on the query alone. In an intersection they do not: a union that
    /// was moved to a document which it did not have reports one of its terms, whichever others it has. Where
    /// a range is several nodes of a tree, the distance of terms counts it as a term before the first.
    fn has_exact_scores(&self, verbatim: bool) -> bool {
        let is_plain = !self.has_and || verbatim && !self.has_union;
        is_plain && !(self.has_numbers && (self.has_and || self.has_union))
    }

    /// The same of the documents that it finds.
    fn has_exact_results(&self, verbatim: bool) -> bool {
        !self.has_order || verbatim
    }
}

fn query(random: &mut Random, depth: u64) -> Generated {
    match random.below(if depth == 0 { 9 } else { 16 }) {
        0..=2 => Generated::leaf(word(random)),
        3 => Generated::leaf(format!("@{}:{}", ["t", "b", "t|b"][random.below(3) as usize], word(random))),
        4 => {
            let word = word(random);
            Generated::leaf(format!("{}*", &word[..word.len().min(2 + random.below(2) as usize)]))
        }
        5 => {
            let at = random.below(4) as usize;
            let text = format!("@g:{{{}}}", ["red", "blue|green", "dark red", "a|b|re*"][at]);
            Generated { has_union: at % 2 == 1, ..Generated::leaf(text) }
        }
        6 => {
            let low = random.below(50);
            let text =
                format!("@n:[{low} {}{}]", ["", "("][random.below(2) as usize], low + random.below(20));
            Generated { has_numbers: true, ..Generated::leaf(text) }
        }
        7 => Generated::leaf(format!("%{}%", word(random))),
        8 => {
            let text = format!("@l:[0.5 0.5 {} km]", 5 + random.below(60));
            Generated { has_numbers: true, ..Generated::leaf(text) }
        }
        9 => {
            let below = query(random, depth - 1);
            Generated { text: format!("({})", below.text), ..below }
        }
        10 => {
            let (a, b) = (query(random, depth - 1), query(random, depth - 1));
            Generated { has_union: true, ..Generated::joined(a, " | ", b) }
        }
        11 => {
            let negated = Generated::joined(Generated::leaf("-"), "", query(random, 0));
            Generated { has_union: true, ..negated }
        }
        12 => Generated::joined(Generated::leaf("~"), "", query(random, 0)),
        13 => {
            let text = format!("\"{} {}\"", word(random), word(random));
            Generated { has_and: true, ..Generated::leaf(text) }
        }
        14 => {
            let terms = format!("{} {}", word(random), word(random));
            let (slop, in_order) = (random.below(4), random.below(2) == 0);
            let text = format!("({terms})=>{{$slop: {slop}; $inorder: {in_order}}}");
            Generated { has_and: true, has_order: true, ..Generated::leaf(text) }
        }
        _ => {
            let (a, b) = (query(random, depth - 1), query(random, depth - 1));
            Generated { has_and: true, ..Generated::joined(a, " ", b) }
        }
    }
}

/// The items of a reply, an error among them with its `-`.
fn items(reply: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(reply).lines().map(str::to_owned).collect()
}

/// The found keys with their scores, and how many there are.
type Found = (usize, Vec<(String, f64)>);

/// A query with the way in which it is asked.
struct Asked {
    query: Generated,
    dialect: u8,
    verbatim: bool,
    scorer: &'static str,
}

const SCORERS: &[&str] = &["TFIDF", "TFIDF.DOCNORM", "BM25", "BM25STD", "DISMAX", "DOCSCORE"];

impl Asked {
    fn new(random: &mut Random) -> Asked {
        Asked {
            query: query(random, 2),
            dialect: 1 + random.below(2) as u8,
            verbatim: random.below(2) == 0,
            scorer: SCORERS[random.below(SCORERS.len() as u64) as usize],
        }
    }

    fn theirs(&self, client: &mut Client) -> Vec<String> {
        let dialect = self.dialect.to_string();
        let text = self.query.text.as_str();
        let mut command = vec!["FT.SEARCH", "i", text, "NOCONTENT", "WITHSCORES", "LIMIT", "0", "1000"];
        command.extend(["SCORER", self.scorer, "DIALECT", &dialect]);
        command.extend(self.verbatim.then_some("VERBATIM"));
        items(&client.call(&command))
    }

    fn ours(&self, index: &Arc<Index>) -> Result<Found, String> {
        let rules = index.rules();
        let params = Params::new();
        let options = Options {
            dialect: self.dialect,
            verbatim: self.verbatim,
            synonyms: Some(&rules.synonyms),
            ..Options::new(&rules.definition, &rules.stopwords, &params)
        };
        let root = parse(self.query.text.as_bytes(), &options).map_err(|error| error.to_string())?;
        let planner = Planner::new(&rules.definition, Bounds::default(), None, false);
        let planned = planner.plan(&root).map_err(|error| error.to_string())?;
        let scorer = Scorer::parse(self.scorer.as_bytes()).expect("a scorer");
        let scores = Some(Scores { scorer, ..Scores::default() });
        let mut evaluation =
            Evaluation::new(Arc::clone(index), planned, scores).map_err(|error| error.to_string())?;
        let mut best = Best::new(Ranking::Score, 1_000, false);
        while !evaluation.is_done() {
            evaluation.step(&mut |found| best.add(found));
        }
        let total = best.total();
        let hits = best.into_hits(0).into_iter();
        let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        Ok((total, hits.map(|hit| (key(&hit.key), hit.score)).collect()))
    }

    /// Whether both say the same, as far as what RediSearch says follows from the query.
    fn agree(&self, ours: &Result<Found, String>, theirs: &[String]) -> bool {
        let (total, found) = match ours {
            Err(error) => return theirs[0] == format!("-{error}"),
            Ok(found) => found,
        };
        if !self.query.has_exact_results(self.verbatim) {
            return true;
        }
        let pairs: Vec<(String, f64)> = scored(theirs);
        let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        let mut keys: [Vec<&str>; 2] = [found, &pairs].map(|list| list.iter().map(|one| &*one.0).collect());
        keys.iter_mut().for_each(|keys| keys.sort_unstable());
        theirs[0] == total.to_string()
            && keys[0] == keys[1]
            && (!self.query.has_exact_scores(self.verbatim)
                || pairs.iter().any(|pair| pair.1.is_nan())
                || found.iter().zip(&pairs).all(|(a, b)| a.0 == b.0 && near(a.1, b.1)))
    }
}

/// Pairs of a key and a score behind the number of results.
fn scored(reply: &[String]) -> Vec<(String, f64)> {
    let pairs = reply.get(1..).unwrap_or_default().chunks_exact(2);
    pairs.map(|pair| (pair[0].clone(), pair[1].parse().unwrap_or(f64::NAN))).collect()
}

const SYNONYMS: &[(&str, &[&str])] =
    &[("g1", &["fox", "dog", "music"]), ("g2", &["DOG", "car"]), ("G1", &["nothing", "sun"])];

fn add_synonyms(indexes: &[Arc<Index>], group: &str, terms: &[&str]) {
    let terms: Vec<&[u8]> = terms.iter().map(|term| term.as_bytes()).collect();
    for index in indexes {
        index.add_synonyms(group.as_bytes(), &terms).unwrap();
    }
}

fn new_indexes() -> Vec<Arc<Index>> {
    let schema: Vec<&[u8]> = SCHEMA.split(' ').map(str::as_bytes).collect();
    let context = Context { memory_bytes: 1 << 30, is_path: |_| true };
    [1, 4].map(|partitions| Arc::new(Index::new(create(&schema, context).unwrap(), partitions))).into()
}

fn put(indexes: &[Arc<Index>], analysis: &mut Analysis, key: &str, hash: &Hash) {
    for index in indexes {
        let Rules { definition, stopwords, synonyms, .. } = &*index.rules();
        let content = analysis.with_synonyms(definition, stopwords, synonyms, key.as_bytes(), hash).unwrap();
        index.put(hash_bytes(key.as_bytes()), content).unwrap();
    }
}

#[test]
fn synonyms_are_found_as_by_the_oracle() {
    let (indexes, mut analysis) = (new_indexes(), Analysis::default());
    add_synonyms(&indexes, "g1", &["boy", "Child"]);
    add_synonyms(&indexes, "g2", &["child", "BABY"]);
    let hash = |name, value: &str| Hash(vec![(name, value.to_owned())]);
    let documents = [
        ("d1", hash("t", "the boy runs")),
        ("d2", hash("t", "a child")),
        ("d3", hash("b", "babies and Baby")),
        ("d4", hash("t", "girl")),
        ("d5", Hash(vec![("t", "boy boy child".into()), ("b", "child".into())])),
    ];
    documents.iter().for_each(|(key, hash)| put(&indexes, &mut analysis, key, hash));
    let mut count = 0;
    let mut lines = include_str!("fixtures/synonyms.txt").lines().filter(|line| !line.starts_with('#'));
    while let (Some(asked), Some(reply)) = (lines.next(), lines.next()) {
        let mut parts = asked.split('&');
        let scorer = SCORERS.iter().find(|scorer| parts.clone().next() == Some(scorer)).expect("a scorer");
        let verbatim = parts.nth(1) == Some("VERBATIM");
        let query = Generated::leaf(parts.next().expect("a query"));
        let asked = Asked { query, dialect: 2, verbatim, scorer };
        let theirs: Vec<String> = reply.split(' ').map(str::to_owned).collect();
        for index in &indexes {
            let ours = asked.ours(index);
            assert!(asked.agree(&ours, &theirs), "{scorer} {} {ours:?} {reply}", asked.query.text);
        }
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn a_document_that_is_written_again_gains_new_synonyms() {
    let (indexes, mut analysis) = (new_indexes(), Analysis::default());
    let girl = Hash(vec![("t", "girl".to_owned())]);
    let asked = Asked { query: Generated::leaf("lady"), dialect: 2, verbatim: false, scorer: "TFIDF" };
    let count = |indexes: &[Arc<Index>]| asked.ours(&indexes[1]).expect("results").0;
    put(&indexes, &mut analysis, "k", &girl);
    add_synonyms(&indexes, "g", &["girl", "lady"]);
    assert_eq!(count(&indexes), 0);
    put(&indexes, &mut analysis, "k", &girl);
    assert_eq!(count(&indexes), 1);
}

#[test]
fn generated_queries_find_what_the_oracle_finds() {
    let Ok(address) = std::env::var("MARTLET_SEARCH_ORACLE") else {
        println!("MARTLET_SEARCH_ORACLE is not set: nothing to compare with");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let queries = number("MARTLET_SEARCH_QUERIES").unwrap_or(2_000);
    let seed = number("MARTLET_SEARCH_SEED").unwrap_or_else(|| Random::from_entropy().next_u64());
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut client = Client::connect(&address);
    client.call(&["FLUSHALL"]);
    let arguments: Vec<&str> = ["FT.CREATE"].into_iter().chain(SCHEMA.split(' ')).collect();
    assert_eq!(client.call(&arguments), b"OK");
    let indexes = new_indexes();
    for (group, terms) in SYNONYMS {
        client.call(&[&["FT.SYNUPDATE", "i", group], *terms].concat());
        add_synonyms(&indexes, group, terms);
    }
    let mut analysis = Analysis::default();
    for at in 0..400 {
        let (key, hash) = (format!("k{at}"), hash(&mut random));
        let fields = hash.0.iter().flat_map(|(name, value)| [*name, value]);
        let command: Vec<&str> = ["HSET", &key].into_iter().chain(fields).collect();
        client.call(&command);
        put(&indexes, &mut analysis, &key, &hash);
    }
    let (mut differ, mut exact) = (0, 0);
    for _ in 0..queries {
        let asked = Asked::new(&mut random);
        exact += u64::from(asked.query.has_exact_scores(asked.verbatim));
        let theirs = asked.theirs(&mut client);
        let ours = indexes.iter().map(|index| asked.ours(index)).find(|ours| !asked.agree(ours, &theirs));
        if let Some(ours) = ours {
            differ += 1;
            if differ < 12 {
                let Asked { query, dialect, verbatim, scorer } = &asked;
                let cut = |list: &[(String, f64)]| format!("{:?}", &list[..list.len().min(6)]);
                let ours = ours.map(|(total, list)| format!("{total} {}", cut(&list)));
                println!("{dialect} {verbatim} {scorer} {}\n  ours   {ours:?}", query.text);
                println!("  theirs {} {}", theirs[0], cut(&scored(&theirs)));
                let ours = asked.ours(&indexes[0]).map_or(Vec::new(), |found| found.1);
                let first = ours.iter().zip(scored(&theirs)).position(|(a, b)| *a != b).unwrap_or(0);
                let show = |list: &[(String, f64)]| {
                    format!("{:?}", &list[first.min(list.len())..(first + 3).min(list.len())])
                };
                println!("  from {first} {} {}", show(&ours), show(&scored(&theirs)));
            }
        }
    }
    assert_eq!(differ, 0, "of {queries}, seed {seed}");
    assert!(exact > queries / 3, "{exact}");
}
