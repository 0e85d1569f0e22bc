//! Searches over keys, and their equality with a walk over all keys.

use std::collections::BTreeSet;

use martlet_base::random::Random;
use martlet_engine::View;
use martlet_search::request::Limits;

use super::*;
use crate::loading::Loaded;
use crate::testing::Store;

/// The text, number and tag of a document.
type Fields = (String, u64, &'static str);
/// Which documents a query is to find.
type Condition = dyn Fn(&Fields) -> bool;

impl Store {
    fn search(&mut self, query: &str, options: &str, now_ms: i64) -> Result<Results, Error> {
        let options = options.split_whitespace();
        let arguments: Vec<&[u8]> = std::iter::once(query).chain(options).map(str::as_bytes).collect();
        let request = Search::parse(&arguments, &Limits { dialect: 2, ..Limits::default() })?;
        let context = Context { results_max: 1_000_000, ..Context::default() };
        let mut run = Run::new(self.catalogue.find(b"i").unwrap(), request, context)?;
        let mut access = Access { keys: &mut self.keys, outside: Some(0) };
        while !run.step(&mut access, now_ms) {}
        Ok(run.into_results())
    }
}

fn shown(results: &Results) -> String {
    let rows = results.rows.iter().map(|row| {
        let fields = row.fields.iter().flatten().map(|(name, value)| match value {
            Loaded::Text(text) => {
                format!("{}:{}", String::from_utf8_lossy(name), String::from_utf8_lossy(text))
            }
            other => panic!("{other:?}"),
        });
        let is_there = if row.fields.is_some() { "" } else { "?" };
        let key = String::from_utf8_lossy(&row.hit.key);
        format!("{key}{is_there}({})", fields.collect::<Vec<_>>().join(","))
    });
    std::iter::once(results.total.to_string()).chain(rows).collect::<Vec<_>>().join(" ")
}

#[test]
fn results_have_their_fields_in_the_order_of_the_request() {
    let mut store = Store::new("i SCHEMA t TEXT n NUMERIC g TAG");
    store.set("a", &[("t", "hello world"), ("n", "5"), ("g", "x")]);
    store.set("b", &[("t", "hello"), ("n", "3"), ("g", "y")]);
    store.set("c", &[("t", "hello"), ("g", "z")]);
    let mut search = |query: &str, options: &str| shown(&store.search(query, options, 1).unwrap());
    assert_eq!(search("hello", "RETURN 1 n SORTBY n"), "3 b(n:3) a(n:5) c()");
    assert_eq!(search("hello", "RETURN 1 n SORTBY n DESC LIMIT 0 1"), "3 a(n:5)");
    assert_eq!(search("world", ""), "1 a(t:hello world,n:5,g:x)");
    assert_eq!(search("hello", "SORTBY g DESC NOCONTENT"), "3 c?() b?() a?()");
    assert_eq!(search("hello @g:{x|z}", "RETURN 2 t g SORTBY g"), "2 a(g:x,t:hello world) c(g:z,t:hello)");
    assert_eq!(store.search("hello (", "", 1).unwrap_err().text(), "Syntax error at offset 6 near hello");
}

#[test]
fn a_field_keeps_the_place_that_its_first_result_gave_it() {
    let mut store = Store::new("i SCHEMA a TEXT b TEXT n NUMERIC SORTABLE c TEXT");
    store.set("d1", &[("a", "x"), ("b", "y"), ("n", "1")]);
    store.set("d2", &[("b", "y"), ("c", "z"), ("a", "x"), ("n", "2"), ("zz", "5")]);
    store.set("d3", &[("n", "0"), ("c", "z"), ("q", "1"), ("a", "x")]);
    let mut search = |options: &str| shown(&store.search("x", options, 1).unwrap());
    let by_number = "3 d3(n:0,c:z,q:1,a:x) d1(n:1,a:x,b:y) d2(n:2,c:z,a:x,b:y,zz:5)";
    assert_eq!(search("SORTBY n"), by_number);
    let descending = "3 d2(n:2,b:y,c:z,a:x,zz:5) d1(n:1,b:y,a:x) d3(n:0,c:z,a:x,q:1)";
    assert_eq!(search("SORTBY n DESC"), descending);
    assert_eq!(search("SORTBY n LIMIT 1 2"), "3 d1(n:1,a:x,b:y) d2(n:2,a:x,b:y,c:z,zz:5)");
    assert_eq!(search("SORTBY n LIMIT 1 1 HIGHLIGHT FIELDS 1 b"), "3 d1(n:1,b:y,a:x)");
    assert_eq!(search("SORTBY n RETURN 3 c zz a"), "3 d3(c:z,a:x) d1(a:x) d2(c:z,zz:5,a:x)");
}

#[test]
fn texts_of_results_are_shaped_by_steps() {
    let mut store = Store::new("i LANGUAGE_FIELD l SCHEMA t TEXT n NUMERIC g TAG");
    let long = format!("{}last", "hello ".repeat(SHAPED_BYTES / 6));
    for name in ["a", "b", "c"] {
        store.set(name, &[("t", &long), ("n", "5"), ("g", "hello there")]);
    }
    let results = store.search("last", "HIGHLIGHT SUMMARIZE LEN 1 FRAGS 1 SEPARATOR |", 1).unwrap();
    let row = "(t:<b>last</b>|,n:5,g:hello there)";
    assert_eq!(shown(&results), format!("3 a{row} b{row} c{row}"));
    store.set("d", &[("l", "german"), ("t", "die Häuser"), ("n", "7")]);
    let results = store.search("häuser", "LANGUAGE german RETURN 2 t n HIGHLIGHT TAGS [ ]", 1).unwrap();
    assert_eq!(shown(&results), "1 d(t:die [Häuser],n:7)");
}

#[test]
fn a_key_that_has_expired_is_a_result_without_fields_until_it_is_deleted() {
    let mut store = Store::new("i SCHEMA t TEXT");
    store.set("a", &[("t", "hello")]);
    store.with_key("a", |keys, key| {
        keys.set_expiry(key, Some(100));
    });
    assert_eq!(shown(&store.search("hello", "", 99).unwrap()), "1 a(t:hello)");
    assert_eq!(shown(&store.search("hello", "", 100).unwrap()), "1 a?()");
    store.with_key("a", |keys, key| {
        keys.see(View { now_ms: 100, ..keys.view() });
        assert!(keys.lookup(key).is_none());
    });
    assert_eq!(shown(&store.search("hello", "", 100).unwrap()), "0");
}

#[test]
fn every_search_finds_what_a_walk_over_all_keys_finds() {
    const WORDS: &[&str] = &["red", "blue", "green", "car", "house"];
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    let mut store = Store::new("i PREFIX 1 d SCHEMA t TEXT NOSTEM n NUMERIC g TAG");
    let mut model = std::collections::BTreeMap::new();
    for _ in 0..2000 {
        let name = format!("d{}", random.below(300));
        let [a, b, tag] = [0; 3].map(|_| WORDS[random.below(5) as usize]);
        let number = random.below(20);
        if random.below(4) == 0 {
            store.with_key(&name, |keys, key| {
                keys.delete(key);
            });
            model.remove(&name);
        } else {
            let text = format!("{a} {b}");
            store.set(&name, &[("t", &text), ("n", &number.to_string()), ("g", tag)]);
            model.insert(name, (text, number, tag));
        }
        if random.below(20) > 0 {
            continue;
        }
        let (word, low) = (WORDS[random.below(5) as usize], random.below(20));
        let (query, is_wanted): (String, Box<Condition>) = match random.below(4) {
            0 => (word.into(), Box::new(move |d| d.0.contains(word))),
            1 => (format!("@n:[{low} +inf] -{word}"), Box::new(move |d| d.1 >= low && !d.0.contains(word))),
            2 => (format!("@g:{{{word}}} | @n:[0 (3]"), Box::new(move |d| d.2 == word || d.1 < 3)),
            _ => (format!("@g:{{{word}}} {word}"), Box::new(move |d| d.2 == word && d.0.contains(word))),
        };
        let wanted: BTreeSet<String> =
            model.iter().filter(|(_, document)| is_wanted(document)).map(|(name, _)| name.clone()).collect();
        let results = store.search(&query, "SORTBY n LIMIT 0 1000 RETURN 1 n", 1).unwrap();
        let key = |row: &Row| String::from_utf8(row.hit.key.to_vec()).unwrap();
        assert_eq!(results.rows.iter().map(key).collect::<BTreeSet<_>>(), wanted, "{query}");
        assert_eq!((results.total, results.rows.len()), (wanted.len(), wanted.len()), "{query}");
        let numbers: Vec<u64> = results.rows.iter().map(|row| model[&key(row)].1).collect();
        assert!(numbers.is_sorted(), "{query}");
    }
}
