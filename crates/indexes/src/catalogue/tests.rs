//! Names; indexes and keys that agree, beside threads that change them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_engine::{Keys, View};
use martlet_keyspace::{ExpiryChange, Key};
use martlet_search::definition::{Context, alter};
use martlet_search::exec::{Bounds, Evaluation, Planner};
use martlet_search::query::{self, Options, Params};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};

use super::*;
use crate::testing::definition;

/// An engine for this number of threads with its catalogue.
fn followed(threads: usize) -> (&'static Engine, &'static Catalogue) {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(threads).unwrap()));
    let catalogue: &'static Catalogue = Box::leak(Box::new(Catalogue::new(engine, 2)));
    assert!(engine.set_follower(catalogue));
    (engine, catalogue)
}

/// The keys that a query finds.
fn found(index: &KeyIndex, text: &str) -> BTreeSet<String> {
    let index = index.index();
    let rules = index.rules();
    let params = Params::default();
    let options = Options { dialect: 2, ..Options::new(&rules.definition, &rules.stopwords, &params) };
    let root = query::parse(text.as_bytes(), &options).unwrap();
    let planned = Planner::new(&rules.definition, Bounds::default(), None, false).plan(&root).unwrap();
    let mut evaluation = Evaluation::new(Arc::clone(index), planned, None).unwrap();
    let mut keys = BTreeSet::new();
    while !evaluation.is_done() {
        evaluation.step(&mut |one| {
            assert!(
                keys.insert(String::from_utf8(one.document().unwrap().key.to_vec()).unwrap()),
                "found twice"
            );
        });
    }
    keys
}

fn scan_all(catalogue: &Catalogue, keys: &mut Keys, thread: usize) {
    while catalogue.work(&mut Access { keys, outside: Some(thread) }, &|| 1) {}
}

/// Runs a request on one key.
fn with_key<R>(keys: &mut Keys, thread: usize, name: &str, work: impl FnOnce(&mut Keys, &Key<'_>) -> R) -> R {
    let key = Key::new(name.as_bytes());
    keys.engine().gate.enter(thread);
    keys.lock_shard(key.shard());
    let result = work(keys, &key);
    keys.release();
    keys.engine().gate.leave(thread);
    result
}

fn set_field(keys: &mut Keys, key: &Key<'_>, field: &str, value: &str) {
    if let Ok(mut hash) = keys.create::<Hash>(key) {
        let value = Element::parse(value.as_bytes());
        hash.set(field.as_bytes(), value, FieldExpiry::Keep, HashLimits::default(), 1);
    }
}

#[test]
fn names_and_aliases_are_as_in_redisearch() {
    let (engine, catalogue) = followed(1);
    let text = |result: Result<(), Error>| result.err().map_or("OK".into(), |error| error.to_string());
    let create = |name: &str| text(catalogue.create(definition(&format!("{name} SCHEMA t TEXT"))));
    let alias =
        |name: &str, index: &str, moves| text(catalogue.add_alias(name.as_bytes(), index.as_bytes(), moves));
    let drop = |name: &str| text(catalogue.drop_index(name.as_bytes()).map(|_| ()));
    const UNKNOWN: &str = "Unknown index name (or name is an alias itself)";
    assert!(!engine.snapshot.is_on());
    assert_eq!(create("i"), "OK");
    assert_eq!(create("i"), "Index already exists");
    assert_eq!(alias("a", "nope", false), UNKNOWN);
    assert_eq!(alias("a", "i", false), "OK");
    assert_eq!(alias("a", "i", false), "Alias already exists");
    assert_eq!(alias("b", "a", true), UNKNOWN);
    assert_eq!(text(catalogue.remove_alias(b"zz")), "Alias does not exist");
    assert_eq!(create("j"), "OK");
    assert_eq!(alias("a", "j", true), "OK");
    assert_eq!(catalogue.find(b"a").unwrap().name(), b"j");
    assert_eq!(catalogue.aliases_of(b"j"), [Box::from(b"a".as_slice())]);
    assert_eq!(create("a"), "OK");
    assert_eq!(catalogue.find(b"a").unwrap().name(), b"a");
    assert_eq!(drop("a"), "OK");
    assert_eq!(drop("a"), "OK");
    assert!(catalogue.find(b"a").is_none() && catalogue.find(b"j").is_none());
    assert_eq!(drop("a"), "Unknown Index name");
    assert_eq!(text(catalogue.alter(b"a", |_| unreachable!())), "Unknown index name");
    let names: Vec<_> = catalogue.indexes().iter().map(|index| index.name().to_vec()).collect();
    assert_eq!(names, [b"i"]);
}

#[test]
fn a_document_is_found_once_its_shard_is_unlocked() {
    let (engine, catalogue) = followed(1);
    let mut keys = Keys::new(engine, 0, Random::from_entropy());
    let keys = &mut keys;
    keys.see(View { now_ms: 1, ..keys.view() });
    with_key(keys, 0, "d:early", |keys, key| set_field(keys, key, "t", "hello early"));
    with_key(keys, 0, "other", |keys, key| set_field(keys, key, "t", "hello other"));
    catalogue.create(definition("i PREFIX 1 d: FILTER @n!=7 SCHEMA t TEXT n NUMERIC")).unwrap();
    let index = catalogue.find(b"i").unwrap();
    assert!(!index.progress().is_done());
    let is_found = |names: &str| {
        assert_eq!(found(&index, "hello"), names.split_terminator(' ').map(Into::into).collect())
    };
    with_key(keys, 0, "d:1", |keys, key| {
        set_field(keys, key, "t", "hello");
        set_field(keys, key, "n", "3");
        is_found("");
    });
    is_found("d:1");
    scan_all(catalogue, keys, 0);
    // A property without a value: the filter lets no such document pass.
    assert!(index.progress().is_done());
    is_found("d:1");
    with_key(keys, 0, "d:early", |keys, key| set_field(keys, key, "n", "4"));
    is_found("d:1 d:early");
    with_key(keys, 0, "d:early", |keys, key| set_field(keys, key, "n", "7"));
    is_found("d:1");
    with_key(keys, 0, "d:1", |keys, key| keys.set_str(key, b"no hash", ExpiryChange::Clear));
    is_found("");
    with_key(keys, 0, "d:1", |keys, key| keys.delete(key));
    with_key(keys, 0, "d:1", |keys, key| {
        set_field(keys, key, "t", "hello again");
        set_field(keys, key, "n", "no number");
    });
    is_found("");
    assert_eq!(index.index().failures().0.count, 1);
    assert_eq!(index.index().add_synonyms(b"greeting", &[b"hello", b"welcome"]), Ok(true));
    keys.alone(|keys| keys.swap_databases(0, 5));
    let index = catalogue.find(b"i").unwrap();
    scan_all(catalogue, keys, 0);
    assert!(found(&index, "*").is_empty());
    keys.alone(|keys| keys.swap_databases(5, 0));
    let index = catalogue.find(b"i").unwrap();
    with_key(keys, 0, "d:1", |keys, key| set_field(keys, key, "n", "1"));
    scan_all(catalogue, keys, 0);
    assert_eq!(found(&index, "hello").len(), 1);
    assert_eq!(index.index().rules().synonyms.dump().len(), 2, "synonyms outlive other keys");
    keys.alone(|keys| keys.flush(Some(3), false));
    assert!(catalogue.find(b"i").is_some());
    keys.alone(|keys| keys.flush(Some(0), false));
    assert!(catalogue.find(b"i").is_none());
}

/// The keys of hashes that begin so, and whose field `n` is this.
fn hashes(keys: &mut Keys, prefix: &str, n: Option<&str>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    keys.alone(|keys| {
        for shard in 0..SHARD_COUNT {
            for entry in keys.shard(shard).keys.db(0).iter() {
                let Some(hash) = entry.object::<Hash>() else { continue };
                let has =
                    n.is_none_or(|n| hash.get(b"n", 1).is_some_and(|f| f.value.to_vec() == n.as_bytes()));
                if has && entry.key().starts_with(prefix.as_bytes()) {
                    names.insert(String::from_utf8(entry.key().to_vec()).unwrap());
                }
            }
        }
    });
    names
}

#[test]
fn nothing_is_missed_or_counted_twice_beside_writers() {
    const WRITERS: usize = 3;
    const SCANNER: usize = WRITERS;
    let seed = Random::from_entropy().next_u64();
    println!("seed {seed}");
    let (engine, catalogue) = followed(WRITERS + 1);
    let (steps, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|thread| {
                let steps = &steps;
                scope.spawn(move || {
                    let mut random = Random::seeded(seed + thread as u64);
                    let mut keys = Keys::new(engine, thread, Random::seeded(seed));
                    keys.see(View { now_ms: 1, ..keys.view() });
                    for _ in 0..6000 {
                        let prefix = ["a:", "b:", "c"][random.below(3) as usize];
                        let name = format!("{prefix}{}", random.below(400));
                        let value = random.below(6).to_string();
                        with_key(&mut keys, thread, &name, |keys, key| match random.below(5) {
                            0 => drop(keys.delete(key)),
                            1 => set_field(keys, key, "m", &value),
                            _ => set_field(keys, key, "n", &value),
                        });
                        steps.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let (steps, is_over) = (&steps, &is_over);
        scope.spawn(move || {
            let mut keys = Keys::new(engine, SCANNER, Random::seeded(seed));
            while !is_over.load(Ordering::Acquire) {
                scan_all(catalogue, &mut keys, SCANNER);
                std::thread::yield_now();
            }
            scan_all(catalogue, &mut keys, SCANNER);
        });
        let after = |wanted: usize| {
            while steps.load(Ordering::Relaxed) < wanted {
                std::thread::yield_now();
            }
        };
        catalogue.create(definition("early PREFIX 1 a: SCHEMA n NUMERIC")).unwrap();
        after(4000);
        catalogue.create(definition("late PREFIX 2 a: b: SCHEMA n NUMERIC")).unwrap();
        catalogue.create(definition("gone SCHEMA n NUMERIC")).unwrap();
        after(8000);
        drop(catalogue.drop_index(b"gone").unwrap());
        let arguments: Vec<&[u8]> = ["SCHEMA", "ADD", "m", "NUMERIC"].map(str::as_bytes).to_vec();
        let context = Context { memory_bytes: 1 << 30, is_path: |_| true };
        catalogue.alter(b"early", |old| alter(old, &arguments, context)).unwrap();
        after(10_000);
        catalogue.begin_anew();
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
    let mut keys = Keys::new(engine, 0, Random::seeded(seed));
    for (name, prefixes) in [("early", vec!["a:"]), ("late", vec!["a:", "b:"])] {
        let index = catalogue.find(name.as_bytes()).unwrap();
        assert!(index.progress().is_done());
        let mut all = |n: Option<&str>| -> BTreeSet<String> {
            prefixes.iter().flat_map(|prefix| hashes(&mut keys, prefix, n)).collect()
        };
        assert_eq!(found(&index, "*"), all(None), "{name}");
        assert_eq!(found(&index, "@n:[3 3]"), all(Some("3")), "{name}");
    }
    assert!(!found(&catalogue.find(b"early").unwrap(), "@m:[0 5]").is_empty());
}

#[test]
fn there_is_a_limit_to_indexes() {
    let (_, catalogue) = followed(1);
    let mut full = Published::default();
    let index = Arc::new(KeyIndex::new(definition("i PREFIX 1 nothing SCHEMA t TEXT"), 1).unwrap());
    for at in 0..INDEXES_MAX {
        full.by_name.insert(at.to_string().as_bytes(), Arc::clone(&index));
    }
    catalogue.publish(full, None);
    let refused = catalogue.create(definition("more SCHEMA t TEXT")).unwrap_err();
    assert_eq!(refused.text(), "The server has 16384 indexes already");
}

/// Of many documents every hundredth stays. The terms of the others go, and their pages.
#[test]
fn gone_documents_leave_nothing() {
    const DOCUMENTS: usize = 20_000;
    let (engine, catalogue) = followed(1);
    let mut keys = Keys::new(engine, 0, Random::from_entropy());
    let keys = &mut keys;
    keys.see(View { now_ms: 1, ..keys.view() });
    catalogue.create(definition("i SCHEMA t TEXT g TAG")).unwrap();
    scan_all(catalogue, keys, 0);
    let index = catalogue.find(b"i").unwrap();
    for number in 0..DOCUMENTS {
        with_key(keys, 0, &format!("d:{number}"), |keys, key| {
            set_field(keys, key, "t", &format!("hello own{number}"));
            set_field(keys, key, "g", &format!("tag{number}"));
        });
    }
    let full = index.index().heap_bytes();
    for number in (0..DOCUMENTS).filter(|number| number % 100 > 0) {
        with_key(keys, 0, &format!("d:{number}"), |keys, key| assert!(keys.delete(key)));
        if number % 1000 == 1 {
            scan_all(catalogue, keys, 0);
        }
    }
    scan_all(catalogue, keys, 0);
    let (left, terms) =
        (index.index().heap_bytes(), |number| index.index().partition(number).unwrap().terms().len());
    // Room for names stays, for others.
    assert!(left < full / 4 * 3, "{left} bytes of {full}");
    assert!(terms(0) + terms(1) < DOCUMENTS / 4, "{} terms", terms(0) + terms(1));
    assert!(index.index().scattered(DOCUMENTS).len() < 64);
    let found = found(&index, "hello");
    assert!(found.len() == DOCUMENTS / 100 && found.contains("d:19900"));
}

#[test]
fn temporary_indexes_end_without_use() {
    let (engine, catalogue) = followed(1);
    let mut keys = Keys::new(engine, 0, Random::seeded(1));
    for (name, option) in [("a", " TEMPORARY 10"), ("b", " TEMPORARY 0"), ("c", ""), ("d", " TEMPORARY -1")] {
        let text = format!("{name}{option} PREFIX 1 {name}: SCHEMA t TEXT");
        catalogue.create(definition(&text)).unwrap();
    }
    scan_all(catalogue, &mut keys, 0);
    let overdue = |now_ms: i64, holds: bool| {
        let overdue = catalogue.overdue(now_ms, holds);
        overdue.iter().map(|index| String::from_utf8_lossy(index.name()).into_owned()).collect::<String>()
    };
    assert_eq!(overdue(1_000, false), "b");
    catalogue.drop_index(b"b").unwrap();
    assert_eq!((overdue(10_999, false), overdue(11_000, false)), (String::new(), "a".into()));
    // Each use begins the time anew: a search, a document, an alteration.
    catalogue.find(b"a").unwrap().count_use();
    assert_eq!((overdue(20_000, false), overdue(29_999, false)), (String::new(), String::new()));
    with_key(&mut keys, 0, "a:1", |keys, key| set_field(keys, key, "t", "x"));
    assert_eq!((overdue(30_000, false), overdue(39_999, false)), (String::new(), String::new()));
    with_key(&mut keys, 0, "c:1", |keys, key| set_field(keys, key, "t", "x"));
    assert_eq!(overdue(40_000, false), "a");
    let alteration: Vec<&[u8]> = b"FT.ALTER a SCHEMA ADD n NUMERIC".split(|byte| *byte == b' ').collect();
    assert!(catalogue.change(&alteration, 1 << 30).is_ok() && overdue(40_000, false).is_empty());
    // A replica's time does not pass, nor does that of a clock that is set back count.
    assert_eq!((overdue(60_000, true), overdue(69_999, false)), (String::new(), String::new()));
    assert_eq!((overdue(5_000, false), overdue(15_000, false)), (String::new(), "a".into()));
}
