//! Spell checking beside RediSearch: a fixture always, generated queries with
//! `MARTLET_SEARCH_ORACLE=HOST:PORT`, a server that may be flushed.

mod support;

use std::borrow::Cow;
use std::sync::Arc;

use martlet_base::hash::hash_bytes;
use martlet_base::random::Random;
use martlet_search::analysis::{Analysis, Document, Value};
use martlet_search::definition::{Context, create};
use martlet_search::dictionaries::Dictionaries;
use martlet_search::index::whole::Index;
use martlet_search::query::pattern::Fuzzy;
use martlet_search::spelling::{Check, Found, Request};
use martlet_search::text::fold::folded;
use support::client::Client;

const SCHEMA: &str = "i SCHEMA t TEXT u TEXT NOSTEM g TAG p TEXT PHONETIC dm:en";
/// The documents and dictionaries of the fixture, as commands.
const SETUP: &[&[&str]] = &[
    &["HSET", "d1", "t", "hello world help", "u", "held running", "g", "hellx"],
    &["HSET", "d2", "t", "hello runs runner", "u", "hemp hellos", "p", "smith"],
    &["HSET", "d3", "t", "hallo jello \u{c4}pfel cello"],
    &["HSET", "d4", "t", "hello"],
    &["FT.DICTADD", "a", "hello", "HELP", "zelo", "HELQ"],
    &["FT.DICTADD", "b", "HELO", "hello"],
];

struct Hash<'a>(&'a [&'a str]);

impl Document for Hash<'_> {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.chunks_exact(2).find(|pair| pair[0].as_bytes() == identifier);
        found.map_or(Value::Missing, |pair| Value::Text(Cow::Borrowed(pair[1].as_bytes())))
    }
}

fn new_index(partitions: usize) -> Arc<Index> {
    let schema: Vec<&[u8]> = SCHEMA.split(' ').map(str::as_bytes).collect();
    let context = Context { memory_bytes: 1 << 30, is_path: |_| true };
    Arc::new(Index::new(create(&schema, context).expect("a definition"), partitions))
}

fn put(index: &Index, key: &str, fields: &[&str]) {
    let rules = index.rules();
    let mut analysis = Analysis::default();
    let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), &Hash(fields));
    index.put(hash_bytes(key.as_bytes()), content.expect("a document")).expect("it is indexed");
}

fn set_up(partitions: usize) -> (Arc<Index>, Dictionaries) {
    let (index, mut dictionaries) = (new_index(partitions), Dictionaries::default());
    for command in SETUP {
        if command[0] == "HSET" {
            put(&index, command[1], &command[2..]);
        } else {
            let terms: Vec<&[u8]> = command[2..].iter().map(|term| term.as_bytes()).collect();
            dictionaries.add(command[1].as_bytes(), &terms).unwrap();
        }
    }
    (index, dictionaries)
}

/// Words with scores and suggestions in the order of [`Found`], or an error.
type Answer = Result<Vec<(String, Vec<(String, String)>)>, String>;

fn found(index: &Arc<Index>, dictionaries: &Dictionaries, arguments: &[&str]) -> Result<Found, String> {
    let arguments: Vec<&[u8]> = arguments.iter().map(|word| word.as_bytes()).collect();
    let request = Request::parse(&arguments, 1).map_err(|error| error.to_string())?;
    let check = Check::new(Arc::clone(index), &request, dictionaries);
    let mut check = check.map_err(|error| error.to_string())?;
    while check.step() {}
    Ok(check.into_found())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(found: &Found) -> Answer {
    let of = |word: &martlet_search::spelling::Misspelled| {
        let pairs = word.suggestions.iter().map(|one| (found.score(one).to_string(), text(&one.text)));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_by(order);
        (text(&word.word), pairs)
    };
    Ok(found.words.iter().map(of).collect())
}

/// Descending by the score; those that are equal have no order in RediSearch.
fn order(one: &(String, String), other: &(String, String)) -> std::cmp::Ordering {
    let score = |pair: &(String, String)| pair.0.parse::<f64>().unwrap_or(f64::NAN);
    score(other).total_cmp(&score(one)).then_with(|| one.1.cmp(&other.1))
}

/// The oracle's reply, item by item: `TERM`, a word, then pairs, or an empty line.
fn theirs(reply: &str) -> Answer {
    if let Some(error) = reply.strip_prefix('-') {
        return Err(error.to_owned());
    }
    let mut answer = Vec::new();
    let mut lines = reply.lines();
    while let Some(line) = lines.next() {
        match line {
            "TERM" => answer.push((lines.next().unwrap_or_default().to_owned(), Vec::new())),
            "" => {}
            score => {
                let pair = (score.to_owned(), lines.next().unwrap_or_default().to_owned());
                answer.last_mut().expect("a word").1.push(pair);
            }
        }
    }
    answer.iter_mut().for_each(|(_, pairs)| pairs.sort_by(order));
    Ok(answer)
}

/// The queries of the fixture, a command a line; `|` separates arguments.
fn fixture() -> impl Iterator<Item = (Vec<&'static str>, Answer)> {
    let lines = include_str!("fixtures/spelling.txt").lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    let pairs: Vec<_> = lines.chunks_exact(2).map(|pair| (pair[0], pair[1].replace("\\n", "\n"))).collect();
    pairs.into_iter().map(|(asked, reply)| (asked.split('|').collect(), theirs(&reply)))
}

#[test]
fn written_queries_are_answered_as_by_the_oracle() {
    let mut count = 0;
    for partitions in [1, 3] {
        let (index, dictionaries) = set_up(partitions);
        for (arguments, expected) in fixture() {
            let ours = found(&index, &dictionaries, &arguments).and_then(|found| shown(&found));
            assert_eq!(ours, expected, "{arguments:?} {partitions}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}

#[test]
fn parts_of_a_cluster_are_joined() {
    let (whole, dictionaries) = set_up(1);
    let parts = [new_index(1), new_index(2)];
    for (number, command) in SETUP.iter().filter(|command| command[0] == "HSET").enumerate() {
        put(&parts[number % 2], command[1], &command[2..]);
    }
    for query in ["helo wrld hello runs smith zzz", "@u:helo", "@u:hallo jallo"] {
        let arguments = ["i", query, "DISTANCE", "2", "TERMS", "INCLUDE", "a"];
        let [mut one, other] = [0, 1].map(|at| found(&parts[at], &dictionaries, &arguments).expect("found"));
        one.merge(other);
        assert_eq!(one, found(&whole, &dictionaries, &arguments).expect("found"), "{query}");
    }
}

#[test]
fn many_names_are_looked_at_in_steps() {
    let index = new_index(1);
    for at in 0..300 {
        let words: Vec<String> = (0..100).map(|word| format!("w{at}x{word}")).collect();
        put(&index, &at.to_string(), &["t", &words.join(" ")]);
    }
    let mut dictionaries = Dictionaries::default();
    let names: Vec<String> = (0..20_000).map(|name| format!("w{name}")).collect();
    assert!(dictionaries.add(b"d", &names.iter().map(String::as_bytes).collect::<Vec<_>>()).is_ok());
    let arguments: [&[u8]; 7] = [b"i", b"w7x77y w7", b"DISTANCE", b"4", b"TERMS", b"INCLUDE", b"d"];
    let request = Request::parse(&arguments, 1).expect("a request");
    let mut check = Check::new(Arc::clone(&index), &request, &dictionaries).expect("a check");
    let mut steps = 0;
    while check.step() {
        steps += 1;
    }
    let found = check.into_found();
    assert!(steps > 4, "{steps}");
    assert_eq!(found.words.len(), 2);
    let suggestions = &found.words[0].suggestions;
    assert!(suggestions.iter().any(|one| *one.text == *b"w7x77" && one.documents == 1));
    assert!(suggestions.iter().any(|one| *one.text == *b"w77" && one.documents == 0));
}

const LETTERS: &[char] = &['a', 'b', 'e', 'l', 'o', '\u{e4}', '\u{c4}', 'H'];

fn word(random: &mut Random) -> String {
    (0..2 + random.below(4)).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]).collect()
}

/// Whether a name is as near as was asked for. RediSearch takes some whose last character is one too many.
fn is_near(word: &str, name: &str, distance: &str) -> bool {
    let distance = distance.parse().expect("a distance");
    let mut fuzzy = Fuzzy::new(&folded(word.as_bytes()), distance);
    let mut is_near = |name: &str| fuzzy.matches(&folded(name.as_bytes()));
    let shorter: String = name.chars().take(name.chars().count() - 1).collect();
    let is_exact = is_near(name);
    assert!(is_exact || is_near(&shorter), "{word} {name} {distance}");
    is_exact
}

/// What of one answer the other lacks.
fn missing(one: &Answer, other: &Answer) -> Vec<String> {
    let lines = |answer: &Answer| match answer {
        Err(error) => vec![error.clone()],
        Ok(words) => words
            .iter()
            .flat_map(|(word, pairs)| {
                let pairs = pairs.iter().map(move |(score, text)| format!("{word}: {text} {score}"));
                std::iter::once(word.clone()).chain(pairs)
            })
            .collect::<Vec<_>>(),
    };
    let other = lines(other);
    lines(one).into_iter().filter(|line| !other.contains(line)).take(8).collect()
}

#[test]
fn generated_words_are_checked_as_by_the_oracle() {
    let Ok(address) = std::env::var("MARTLET_SEARCH_ORACLE") else {
        println!("MARTLET_SEARCH_ORACLE is not set: nothing to compare with");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("MARTLET_SEARCH_SEED").unwrap_or_else(|| Random::from_entropy().next_u64());
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut client = Client::connect(&address);
    client.call(&["FLUSHALL"]);
    let schema: Vec<&str> = ["FT.CREATE"].into_iter().chain(SCHEMA.split(' ')).collect();
    assert_eq!(client.call(&schema), b"OK");
    let (index, mut dictionaries) = (new_index(2), Dictionaries::default());
    for at in 0..60 {
        let texts = [0, 1].map(|_| (0..8).map(|_| word(&mut random)).collect::<Vec<_>>().join(" "));
        let (key, fields) = (format!("k{at}"), ["t", &texts[0], "u", &texts[1]]);
        client.call(&[&["HSET", &key], &fields[..]].concat());
        put(&index, &key, &fields);
    }
    for name in ["g1", "g2"] {
        let old = client.call(&["FT.DICTDUMP", name]);
        let old: Vec<String> = text(&old).lines().map(str::to_owned).collect();
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        client.call(&[&["FT.DICTDEL", name, "x"], &old[..]].concat());
        let terms: Vec<String> = (0..8).map(|_| word(&mut random).to_lowercase()).collect();
        let added =
            client.call(&[vec!["FT.DICTADD", name], terms.iter().map(String::as_str).collect()].concat());
        let ours = dictionaries.add(name.as_bytes(), &terms.iter().map(String::as_bytes).collect::<Vec<_>>());
        assert_eq!(text(&added), ours.unwrap().to_string());
    }
    for _ in 0..number("MARTLET_SEARCH_QUERIES").unwrap_or(500) {
        let field = ["", "@t:", "@u:", "-"][random.below(4) as usize];
        let query = format!("{field}{} {}", word(&mut random), word(&mut random));
        let distance = (1 + random.below(4)).to_string();
        let mut arguments = vec!["i", &query, "DISTANCE", &distance];
        for (name, side) in [("g1", "INCLUDE"), ("g2", "EXCLUDE"), ("g2", "INCLUDE")] {
            if random.below(3) == 0 {
                arguments.extend(["TERMS", side, name]);
            }
        }
        let reply = client.call(&[vec!["FT.SPELLCHECK"], arguments.clone()].concat());
        let ours = found(&index, &dictionaries, &arguments).and_then(|found| shown(&found));
        let mut theirs = theirs(&text(&reply));
        theirs.iter_mut().flatten().for_each(|(word, pairs)| {
            pairs.retain(|(_, name)| is_near(word, name, &distance));
        });
        let (more, less) = (missing(&ours, &theirs), missing(&theirs, &ours));
        assert!(ours == theirs, "{arguments:?} seed {seed}: ours only {more:?}, theirs only {less:?}");
    }
}
