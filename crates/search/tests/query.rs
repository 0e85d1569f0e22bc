//! The query language beside RediSearch.
//!
//! `fixtures/query.txt` has queries and what FT.EXPLAIN of RediSearch 2.10.5 answered; it is compared always.
//! With `MARTLET_SEARCH_ORACLE=HOST:PORT`, a server that may be flushed, generated queries are compared as
//! well (`MARTLET_SEARCH_QUERIES` many); `MARTLET_SEARCH_RECORD=FILE` writes the fixture.

mod support;

use std::fmt::Write as _;
use support::client::Client;
use support::queries::{Asked, Generator, SETUP};

const FIXTURE: &str = include_str!("fixtures/query.txt");
/// Queries of the fixture that are generated.
const RECORDED: u64 = 600;

/// The bytes that a line of escapes stands for.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&kind, after) = rest.split_first().expect("an escape");
        rest = after;
        match kind {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'x' => {
                let digits = std::str::from_utf8(&rest[..2]).expect("digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("digits"));
                rest = &rest[2..];
            }
            other => bytes.push(other),
        }
    }
    bytes
}

fn asked(line: &str) -> Asked {
    let mut words = line.splitn(4, ' ');
    let index = if words.next() == Some("p") { "p" } else { "i" };
    let dialect = words.next().and_then(|word| word.parse().ok()).expect("a dialect");
    let flags = words.next().expect("flags");
    let query = unescape(words.next().unwrap_or_default());
    Asked { index, dialect, verbatim: flags.starts_with('1'), no_stopwords: flags.ends_with('1'), query }
}

#[test]
fn the_oracles_recorded_explanations_are_ours() {
    let lines: Vec<&str> = FIXTURE.lines().collect();
    let mut compared = 0;
    for pair in lines.chunks_exact(2) {
        let (ours, theirs) = (asked(&pair[0][2..]).explained(), unescape(&pair[1][2..]));
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs), "{}", pair[0]);
        compared += 1;
    }
    assert!(compared > 1000, "{compared}");
}

/// Queries that no generator would find, in each dialect.
const WRITTEN: &str = include_str!("fixtures/query_written.txt");

fn written() -> impl Iterator<Item = Asked> {
    let queries = WRITTEN.lines().filter(|line| !line.starts_with('#'));
    queries.flat_map(|line| {
        [1, 2].map(|dialect| Asked {
            index: "i",
            dialect,
            verbatim: true,
            no_stopwords: false,
            query: line.as_bytes().to_vec(),
        })
    })
}

#[test]
fn generated_queries_are_explained_as_the_oracle_explains_them() {
    let Ok(address) = std::env::var("MARTLET_SEARCH_ORACLE") else {
        println!("skipped: 1 (MARTLET_SEARCH_ORACLE is not set)");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let record = std::env::var("MARTLET_SEARCH_RECORD").ok();
    let count = if record.is_some() { RECORDED } else { number("MARTLET_SEARCH_QUERIES").unwrap_or(10_000) };
    let seed = number("MARTLET_SEARCH_SEED").unwrap_or(1);
    println!("MARTLET_SEARCH_SEED={seed}");
    let mut client = Client::connect(&address);
    client.call(&["FLUSHALL"]);
    for line in SETUP {
        let words: Vec<&str> = line.split_whitespace().collect();
        let reply = client.call(&words);
        assert!(!reply.starts_with(b"-"), "{line}: {}", reply.escape_ascii());
    }
    let mut generator = Generator::new(seed);
    let generated = (0..count).map(|_| generator.asked());
    let (mut recorded, mut different, mut compared) = (String::new(), 0, 0);
    for asked in written().chain(generated) {
        let ours = asked.explained();
        let theirs = client.call(&asked.command());
        let _ = writeln!(recorded, "> {}\n< {}", asked.show(), theirs.escape_ascii());
        compared += 1;
        // An error may show a part of a character.
        let (ours, theirs) = (String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs));
        if ours != theirs {
            different += 1;
            println!("{}\nours: {ours}\ntheirs: {theirs}\n", asked.show());
        }
    }
    println!("compared: {compared}, different: {different}");
    assert_eq!(different, 0);
    if let Some(path) = record {
        std::fs::write(path, recorded).expect("the fixture is written");
    }
}
