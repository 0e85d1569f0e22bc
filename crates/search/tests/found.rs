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
use martlet_search::index::whole::Index;
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

fn query(random: &mut Random, depth: u64) -> String {
    match random.below(if depth == 0 { 9 } else { 16 }) {
        0..=2 => word(random).to_owned(),
        3 => format!("@{}:{}", ["t", "b", "t|b"][random.below(3) as usize], word(random)),
        4 => {
            let word = word(random);
            format!("{}*", &word[..word.len().min(2 + random.below(2) as usize)])
        }
        5 => format!("@g:{{{}}}", ["red", "blue|green", "dark red", "a|b|re*"][random.below(4) as usize]),
        6 => {
            let low = random.below(50);
            format!("@n:[{low} {}{}]", ["", "("][random.below(2) as usize], low + random.below(20))
        }
        7 => format!("%{}%", word(random)),
        8 => format!("@l:[0.5 0.5 {} km]", 5 + random.below(60)),
        9 => format!("({})", query(random, depth - 1)),
        10 => format!("{} | {}", query(random, depth - 1), query(random, depth - 1)),
        11 => format!("-{}", query(random, 0)),
        12 => format!("~{}", query(random, 0)),
        13 => format!("\"{} {}\"", word(random), word(random)),
        14 => {
            let terms = format!("{} {}", word(random), word(random));
            format!("({terms})=>{{$slop: {}; $inorder: {}}}", random.below(4), random.below(2) == 0)
        }
        _ => format!("{} {}", query(random, depth - 1), query(random, depth - 1)),
    }
}

/// The items of a reply, an error among them with its `-`.
fn items(reply: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(reply).lines().map(str::to_owned).collect()
}

fn ours(
    index: &Arc<Index>,
    text: &str,
    dialect: u8,
    scorer: Scorer,
) -> Result<(usize, Vec<(String, f64)>), String> {
    let rules = index.rules();
    let params = Params::new();
    let options = Options { dialect, ..Options::new(&rules.definition, &rules.stopwords, &params) };
    let root = parse(text.as_bytes(), &options).map_err(|error| error.to_string())?;
    let planner = Planner::new(&rules.definition, Bounds::default(), None, false);
    let planned = planner.plan(&root).map_err(|error| error.to_string())?;
    let scores = Scores { scorer, ..Scores::default() };
    let mut evaluation =
        Evaluation::new(Arc::clone(index), planned, Some(scores)).map_err(|e| e.to_string())?;
    let mut best = Best::new(Ranking::Score, 1_000, false);
    while !evaluation.is_done() {
        evaluation.step(&mut |found| best.add(found));
    }
    let total = best.total();
    let hits = best.into_hits(0);
    Ok((
        total,
        hits.into_iter().map(|hit| (String::from_utf8_lossy(&hit.key).into_owned(), hit.score)).collect(),
    ))
}

/// Prints how both come to the score of the first document whose score differs.
fn explain(
    client: &mut Client,
    index: &Arc<Index>,
    text: &str,
    dialect: u8,
    name: &str,
    theirs: &[(String, f64)],
) {
    let scorer = Scorer::parse(name.as_bytes()).unwrap();
    let Ok((_, found)) = ours(index, text, dialect, scorer) else { return };
    let score = |list: &[(String, f64)], key: &str| list.iter().find(|one| one.0 == key).map(|one| one.1);
    let keys = theirs.iter().chain(&found).map(|one| &one.0);
    let differs = |key: &&String| match (score(theirs, key), score(&found, key)) {
        (Some(a), Some(b)) => (a - b).abs() > 1e-9,
        (a, b) => a.is_some() != b.is_some(),
    };
    let Some(key) = keys.into_iter().find(differs) else { return println!("  order") };
    let version = dialect.to_string();
    let reply = client.call(&[
        "FT.SEARCH",
        "i",
        text,
        "NOCONTENT",
        "WITHSCORES",
        "EXPLAINSCORE",
        "SCORER",
        name,
        "DIALECT",
        &version,
        "INKEYS",
        "1",
        key,
    ]);
    let fields = String::from_utf8_lossy(&client.call(&["HGETALL", key])).replace('\n', " ");
    println!("  {key} {fields}\n{}", String::from_utf8_lossy(&reply));
    println!("  ours {:?}", score(&found, key));
}

#[test]
fn generated_queries_find_what_the_oracle_finds() {
    let Ok(address) = std::env::var("MARTLET_SEARCH_ORACLE") else {
        println!("MARTLET_SEARCH_ORACLE is not set: nothing to compare with");
        return;
    };
    let queries: u64 =
        std::env::var("MARTLET_SEARCH_QUERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let seed = std::env::var("MARTLET_SEARCH_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| Random::from_entropy().next_u64());
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut client = Client::connect(&address);
    client.call(&["FLUSHALL"]);
    let arguments: Vec<&str> = ["FT.CREATE"].into_iter().chain(SCHEMA.split(' ')).collect();
    assert_eq!(client.call(&arguments), b"OK");
    let schema: Vec<&[u8]> = SCHEMA.split(' ').map(str::as_bytes).collect();
    let context = Context { memory_bytes: 1 << 30, is_path: |_| true };
    let indexes: Vec<Arc<Index>> =
        [1, 4].map(|partitions| Arc::new(Index::new(create(&schema, context).unwrap(), partitions))).into();
    let mut analysis = Analysis::default();
    for at in 0..400 {
        let (key, hash) = (format!("k{at}"), hash(&mut random));
        let fields = hash.0.iter().flat_map(|(name, value)| [*name, value]);
        let command: Vec<&str> = ["HSET", &key].into_iter().chain(fields).collect();
        client.call(&command);
        for index in &indexes {
            let rules = index.rules();
            let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), &hash).unwrap();
            index.put(hash_bytes(key.as_bytes()), content).unwrap();
        }
    }
    let scorers = ["TFIDF", "TFIDF.DOCNORM", "BM25", "BM25STD", "DISMAX", "DOCSCORE"];
    let mut differ = 0;
    for _ in 0..queries {
        let text = query(&mut random, 2);
        let dialect = 1 + random.below(2) as u8;
        let name = scorers[random.below(6) as usize];
        let scorer = Scorer::parse(name.as_bytes()).unwrap();
        let version = dialect.to_string();
        let reply = items(&client.call(&[
            "FT.SEARCH",
            "i",
            &text,
            "NOCONTENT",
            "WITHSCORES",
            "LIMIT",
            "0",
            "1000",
            "SCORER",
            name,
            "DIALECT",
            &version,
        ]));
        let theirs: Vec<(String, f64)> = reply
            .get(1..)
            .unwrap_or_default()
            .chunks_exact(2)
            .map(|pair| (pair[0].clone(), pair[1].parse().unwrap_or(f64::NAN)))
            .collect();
        for index in &indexes {
            let found = ours(index, &text, dialect, scorer);
            let is_equal = match &found {
                Err(error) => reply[0] == format!("-{error}"),
                Ok((total, found)) => {
                    let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
                    reply[0] == total.to_string()
                        && found.len() == theirs.len()
                        && found.iter().zip(&theirs).all(|(a, b)| a.0 == b.0 && near(a.1, b.1))
                }
            };
            if !is_equal {
                differ += 1;
                if differ < 12 {
                    let cut = |list: &[(String, f64)]| format!("{:?}", &list[..list.len().min(6)]);
                    let mine = found.map(|(total, list)| format!("{total} {}", cut(&list)));
                    println!(
                        "{dialect} {name} {text}\n  ours   {mine:?}\n  theirs {} {}",
                        reply[0],
                        cut(&theirs)
                    );
                    explain(&mut client, index, &text, dialect, name, &theirs);
                }
                break;
            }
        }
    }
    assert_eq!(differ, 0, "of {queries}, seed {seed}");
}
