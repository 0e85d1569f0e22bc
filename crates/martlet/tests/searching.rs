//! Indexes in whole processes. On every path by which keys change an index has exactly the documents that
//! the keys hold, also after restarts, on replicas, after evictions, and beside writers and a process that is
//! killed. Seeds are printed, and taken from `MARTLET_SEARCH_SEED`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

use crate::module_types::{ask, ask_ok, connect, start, until};

/// The fields of the index, and one of JSON documents beside it.
const INDEXES: [&str; 2] = [
    "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT n NUMERIC g TAG",
    "FT.CREATE j ON JSON PREFIX 1 d: SCHEMA $.t AS t TEXT $.n AS n NUMERIC $.g AS g TAG",
];
const WORDS: [&str; 4] = ["red", "green", "blue", "car"];

fn seed() -> u64 {
    let given = std::env::var("MARTLET_SEARCH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| Random::from_entropy().next_u64());
    println!("MARTLET_SEARCH_SEED={seed}");
    seed
}

fn texts(reply: &Reply) -> Vec<String> {
    let items = reply.items().unwrap_or_else(|| panic!("{reply:?}"));
    items.iter().filter_map(|item| Some(String::from_utf8_lossy(item.text()?).into_owned())).collect()
}

/// The keys of a query's results; their number is the total.
fn found(client: &mut Client, index: &str, query: &str) -> BTreeSet<String> {
    let reply = client
        .command(&["FT.SEARCH", index, query, "NOCONTENT", "LIMIT", "0", "100000", "TIMEOUT", "0"])
        .unwrap();
    let keys: BTreeSet<String> = texts(&reply).into_iter().collect();
    let total = reply.items().and_then(|items| items[0].integer());
    assert_eq!(total, Some(keys.len() as i64), "{query} in {index}: {reply:?}");
    keys
}

/// The documents as the keys hold them: name, text, number, tag.
fn documents(client: &mut Client, index: &str) -> Vec<[String; 4]> {
    let mut documents = Vec::new();
    for key in texts(&ask(client, "KEYS d:*")) {
        let kind = ask(client, &format!("TYPE {key}"));
        let fields: Vec<Option<String>> = match (kind.text().unwrap_or_default(), index) {
            (b"hash", "i") => {
                let values = ask(client, &format!("HMGET {key} t n g"));
                let value = |item: &Reply| item.text().map(|text| String::from_utf8_lossy(text).into_owned());
                values.items().unwrap().iter().map(value).collect()
            }
            (b"ReJSON-RL", "j") => ["$.t", "$.n", "$.g"]
                .map(|path| {
                    let reply = ask(client, &format!("JSON.GET {key} {path}"));
                    let text = String::from_utf8_lossy(reply.text().unwrap()).into_owned();
                    Some(text.trim_matches(['[', ']', '"']).to_owned()).filter(|text| !text.is_empty())
                })
                .into(),
            _ => continue,
        };
        let [text, number, tag] = &fields[..] else { panic!("{fields:?}") };
        let or_none = |field: &Option<String>| field.clone().unwrap_or_default();
        documents.push([key, or_none(text), or_none(number), or_none(tag)]);
    }
    documents
}

/// Each query and a walk over the keys find the same documents. No other client writes.
fn assert_consistent(client: &mut Client, after: &str) {
    for index in ["i", "j"] {
        let documents = documents(client, index);
        let mut check = |query: &str, is_match: &dyn Fn(&[String; 4]) -> bool| {
            let expected: BTreeSet<String> =
                documents.iter().filter(|one| is_match(one)).map(|[key, ..]| key.clone()).collect();
            assert_eq!(found(client, index, query), expected, "{query} in {index} after {after}");
        };
        check("*", &|_| true);
        for word in WORDS {
            check(word, &|[_, text, ..]| text.split(' ').any(|own| own == word));
            check(&format!("@g:{{{word}}}"), &|[.., tag]| tag == word);
        }
        for number in 0..4 {
            check(&format!("@n:[{number} {number}]"), &|[_, _, own, _]| *own == number.to_string());
        }
    }
}

fn document(random: &mut Random) -> (String, String) {
    let mut word = || WORDS[random.below(4) as usize];
    let (text, tag) = (format!("{} {}", word(), word()), word());
    let number = random.below(4);
    (format!("t|{text}|n|{number}|g|{tag}"), format!(r#"{{"t":"{text}","n":{number},"g":"{tag}"}}"#))
}

/// A request that changes keys, its words separated by `|`.
fn change(random: &mut Random) -> String {
    let mut key = || match random.below(8) {
        0 => format!("x:{}", random.below(4)),
        _ => format!("d:{}", random.below(12)),
    };
    let (a, b) = (key(), key());
    let (hash, json) = document(random);
    match random.below(32) {
        0..=7 => format!("HSET|{a}|{hash}"),
        8..=11 => format!("JSON.SET|{a}|$|{json}"),
        12 => format!("JSON.NUMINCRBY|{a}|$.n|1"),
        13 => format!("HDEL|{a}|g|n"),
        14 => format!("DEL|{a}"),
        15 => format!("RENAME|{a}|{b}"),
        16 => format!("COPY|{a}|{b}|REPLACE"),
        17 => format!("MOVE|{a}|1"),
        18 => format!("SET|{a}|text"),
        19 => format!("PEXPIREAT|{a}|1"),
        20 => format!("HPEXPIREAT|{a}|1|FIELDS|1|t"),
        21 => format!("HSETEX|{a}|PXAT|1|FIELDS|1|g|blue"),
        22 => format!("HINCRBY|{a}|n|1"),
        23 => format!("EVAL|redis.call('HSET',KEYS[1],'g','red') redis.call('DEL',KEYS[2])|2|{a}|{b}"),
        24 => format!("UNLINK|{a}|{b}"),
        25 => "SWAPDB|0|1".to_owned(),
        26 => format!("SORT|x:list|STORE|{a}"),
        27 => format!("JSON.DEL|{a}|$.g"),
        28 => format!("GETDEL|{a}"),
        29 => format!("RENAMENX|{a}|{b}"),
        30 => format!("JSON.MERGE|{a}|$.t|\"car\""),
        _ if random.below(6) == 0 => "FLUSHDB|SYNC".to_owned(),
        _ => format!("HSET|{a}|t|blue car"),
    }
}

/// Creates the indexes unless FLUSHDB has left them.
fn create(client: &mut Client) {
    let there = texts(&ask(client, "FT._LIST"));
    for line in INDEXES {
        if !there.iter().any(|name| line.starts_with(&format!("FT.CREATE {name} "))) {
            ask_ok(client, line);
        }
    }
    until_scanned(client);
}

/// Waits for the scans of keys that were there before.
fn until_scanned(client: &mut Client) {
    for index in ["i", "j"] {
        until("the keys are scanned", || {
            let info = ask(client, &format!("FT.INFO {index}"));
            let items = info.items().unwrap_or_else(|| panic!("{info:?}"));
            let at = items.iter().position(|item| item.text() == Some(b"indexing")).unwrap();
            items[at + 1].integer() == Some(0) || items[at + 1].text() == Some(b"0")
        });
    }
}

fn run(client: &mut Client, request: &str) {
    client.command(&request.split('|').collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_write_is_searchable_when_its_reply_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--io-threads", "2"]);
    let mut client = connect(&server);
    let mut random = Random::seeded(seed());
    for round in 0..600 {
        create(&mut client);
        let request = match random.below(10) {
            0 => {
                ask_ok(&mut client, "MULTI");
                let requests: Vec<String> = (0..3).map(|_| change(&mut random)).collect();
                requests.iter().for_each(|request| run(&mut client, request));
                ask(&mut client, "EXEC");
                requests.join(" ; ")
            }
            1 => {
                let key = format!("d:{}", random.below(12));
                let payload = ask(&mut client, &format!("DUMP {key}"));
                if let Some(payload) = payload.text() {
                    let words: [&[u8]; 5] = [b"RESTORE", b"d:11", b"0", payload, b"REPLACE"];
                    client.command(&words).unwrap();
                }
                format!("RESTORE of {key}")
            }
            _ => {
                let request = change(&mut random);
                run(&mut client, &request);
                request
            }
        };
        create(&mut client);
        assert_consistent(&mut client, &format!("{request} in round {round}"));
    }
}

#[test]
fn what_expires_is_found_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    create(&mut client);
    for number in 0..100 {
        run(&mut client, &format!("HSET|d:{number}|t|red|n|1|g|car"));
        let request = match number % 2 {
            0 => format!("PEXPIRE|d:{number}|20"),
            _ => format!("HPEXPIRE|d:{number}|20|FIELDS|1|g"),
        };
        run(&mut client, &request);
    }
    until("half of the keys have expired", || found(&mut client, "i", "*").len() == 50);
    until("the fields have expired", || found(&mut client, "i", "@g:{car}").is_empty());
    assert_eq!(found(&mut client, "i", "red").len(), 50);
    assert_consistent(&mut client, "expiry");
}

#[test]
fn evicted_keys_are_found_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--maxmemory-policy", "allkeys-random"]);
    let mut client = connect(&server);
    create(&mut client);
    let info = ask(&mut client, "INFO memory");
    let info = String::from_utf8_lossy(info.text().unwrap()).into_owned();
    let used: u64 = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().parse().unwrap();
    ask_ok(&mut client, &format!("CONFIG SET maxmemory {}", used + (3 << 20)));
    let mut random = Random::seeded(seed());
    for number in 0..20_000 {
        let (hash, _) = document(&mut random);
        run(&mut client, &format!("HSET|d:{number}|{hash}"));
    }
    let left = ask(&mut client, "DBSIZE").integer().unwrap();
    assert!((10..19_000).contains(&left), "{left} keys are left");
    ask_ok(&mut client, "CONFIG SET maxmemory 0");
    assert_consistent(&mut client, "evictions");
}

fn fill(client: &mut Client, random: &mut Random, count: usize) {
    for number in 0..count {
        let (hash, json) = document(random);
        match number % 3 {
            0 => run(client, &format!("JSON.SET|d:{number}|$|{json}")),
            _ => run(client, &format!("HSET|d:{number}|{hash}")),
        }
    }
}

/// Changes dictionaries and synonyms.
fn change_words(client: &mut Client) {
    assert_eq!(ask(client, "FT.DICTADD d one two three").integer(), Some(3));
    assert_eq!(ask(client, "FT.DICTDEL d two four").integer(), Some(1));
    ask_ok(client, "FT.SYNUPDATE alias g Red crimson");
    ask_ok(client, "FT.SYNUPDATE i h red scarlet");
    ask_ok(client, "FT.SYNUPDATE j g SKIPINITIALSCAN green skipinitialscan");
}

/// The dictionaries and synonyms are those of [`change_words`], and the documents are indexed with them.
fn assert_has_words(client: &mut Client) {
    assert_eq!(texts(&ask(client, "FT.DICTDUMP d")), ["one", "three"]);
    assert!(ask(client, "FT.DICTDUMP own").items().is_none());
    let dump = ask(client, "FT.SYNDUMP i");
    let dump = dump.items().unwrap();
    assert_eq!([0, 2, 4].map(|at| dump[at].text().unwrap()), [b"crimson".as_slice(), b"red", b"scarlet"]);
    assert_eq!([1, 3, 5].map(|at| texts(&dump[at]).join(" ")), ["g", "g h", "h"]);
    for (index, synonym, word) in
        [("i", "crimson", "red"), ("i", "scarlet", "red"), ("j", "skipinitialscan", "green")]
    {
        assert_eq!(found(client, index, synonym), found(client, index, word), "{synonym} in {index}");
    }
}

#[test]
fn synonyms_reach_documents_that_were_there() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--io-threads", "2"]);
    let mut client = connect(&server);
    let mut random = Random::seeded(seed());
    create(&mut client);
    fill(&mut client, &mut random, 300);
    let red = found(&mut client, "i", "red");
    ask_ok(&mut client, "FT.SYNUPDATE i g SKIPINITIALSCAN red crimson");
    assert!(found(&mut client, "i", "crimson").is_empty());
    // A document that is written again has them, though its fields are equal.
    let one = red.first().unwrap();
    run(&mut client, &format!("HSET|{one}|x|y"));
    assert!(found(&mut client, "i", "crimson").iter().eq([one]));
    // An update has the keys scanned, though its terms are there.
    ask_ok(&mut client, "FT.SYNUPDATE i g red");
    until_scanned(&mut client);
    assert_eq!(found(&mut client, "i", "crimson"), red);
    for number in 0..500 {
        ask_ok(&mut client, &format!("FT.SYNUPDATE i g{number} red w{number}"));
    }
    until_scanned(&mut client);
    assert_eq!(found(&mut client, "i", "w499"), red);
    assert_consistent(&mut client, "updates of synonyms");
}

#[test]
fn files_carry_indexes() {
    let mut random = Random::seeded(seed());
    for settings in [
        &["--appendonly", "no"][..],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "yes"],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let server = start(directory.path(), settings);
        let mut client = connect(&server);
        create(&mut client);
        fill(&mut client, &mut random, 300);
        ask_ok(&mut client, "FT.ALIASADD alias i");
        change_words(&mut client);
        ask_ok(&mut client, "FT.CREATE gone SCHEMA t TEXT");
        ask_ok(&mut client, "FT.DROPINDEX gone");
        let reload = if settings[1] == "yes" { "DEBUG LOADAOF" } else { "DEBUG RELOAD" };
        ask_ok(&mut client, reload);
        until_scanned(&mut client);
        assert_consistent(&mut client, reload);
        if settings[1] == "yes" {
            ask_ok(&mut client, "BGREWRITEAOF");
            until("the file is rewritten", || {
                let info = ask(&mut client, "INFO persistence");
                String::from_utf8_lossy(info.text().unwrap()).contains("aof_rewrite_in_progress:0")
            });
        } else {
            ask_ok(&mut client, "SAVE");
        }
        let before = found(&mut client, "alias", "red");
        assert!(!before.is_empty());
        assert!(client.command(&["SHUTDOWN"]).is_err(), "the connection ends");
        assert!(server.wait().unwrap());
        let server = start(directory.path(), settings);
        let mut client = connect(&server);
        until_scanned(&mut client);
        assert_consistent(&mut client, "a restart");
        assert_eq!(found(&mut client, "alias", "red"), before);
        assert_has_words(&mut client);
        assert!(!found(&mut client, "j", "skipinitialscan").is_empty());
        let mut names = texts(&ask(&mut client, "FT._LIST"));
        names.sort();
        assert_eq!(names, ["i", "j"]);
    }
}

#[test]
fn replicas_have_the_indexes() {
    let (primary_directory, replica_directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let primary = start(primary_directory.path(), &["--repl-diskless-sync-delay", "0"]);
    let replica = start(replica_directory.path(), &[]);
    let (mut client, mut follower) = (connect(&primary), connect(&replica));
    let mut random = Random::seeded(seed());
    ask_ok(&mut follower, "FT.CREATE own SCHEMA t TEXT");
    create(&mut client);
    fill(&mut client, &mut random, 200);
    ask_ok(&mut client, "FT.ALIASADD alias i");
    change_words(&mut client);
    assert_eq!(ask(&mut follower, "FT.DICTADD own x").integer(), Some(1));
    ask_ok(&mut follower, &format!("REPLICAOF 127.0.0.1 {}", primary.address().port()));
    ask_ok(&mut client, "FT.ALIASADD later j");
    for _ in 0..200 {
        let request = change(&mut random);
        if !request.starts_with("FLUSHDB") {
            run(&mut client, &request);
        }
    }
    run(&mut client, "SET|last|1");
    until("the replica follows", || ask(&mut follower, "GET last").text() == Some(b"1"));
    let mut names = texts(&ask(&mut follower, "FT._LIST"));
    names.sort();
    assert_eq!(names, ["i", "j"]);
    until_scanned(&mut follower);
    assert_consistent(&mut follower, "replication");
    assert_has_words(&mut follower);
    ask_ok(&mut client, "FT.SYNUPDATE i later green lawn");
    assert_eq!(ask(&mut client, "FT.DICTADD late x").integer(), Some(1));
    assert_eq!(found(&mut follower, "alias", "*"), found(&mut client, "i", "*"));
    ask_ok(&mut client, "FT.DROPINDEX i DD");
    run(&mut client, "SET|last|2");
    until("the replica follows", || ask(&mut follower, "GET last").text() == Some(b"2"));
    assert_eq!(texts(&ask(&mut follower, "FT._LIST")), ["j"]);
    assert_eq!(texts(&ask(&mut follower, "FT.DICTDUMP late")), ["x"]);
    ask_ok(&mut client, "FLUSHALL");
    until("the replica follows", || ask(&mut follower, "FT.DICTDUMP late").items().is_none());
    let of_kind = |client: &mut Client| texts(&ask(client, "SCAN 0 COUNT 100000 TYPE hash MATCH d:*"));
    assert_eq!(of_kind(&mut follower), of_kind(&mut client));
}

/// A writer sends changes of keys of its own, until the flag is set or the connection breaks.
fn write(address: SocketAddr, writer: u64, seed: u64, stops: &AtomicBool) {
    let Ok(mut client) = Client::connect(address) else { return };
    let mut random = Random::seeded(seed ^ writer);
    while !stops.load(Ordering::Relaxed) {
        let request = change(&mut random).replace("d:", &format!("d:{writer}:"));
        let is_about_all = ["SWAPDB", "FLUSHDB", "SORT"].iter().any(|name| request.starts_with(name));
        if !is_about_all && client.command(&request.split('|').collect::<Vec<_>>()).is_err() {
            return;
        }
    }
}

#[test]
fn scans_beside_writers_and_a_killed_process_lose_nothing() {
    let seed = seed();
    let directory = tempfile::tempdir().unwrap();
    let settings = ["--appendonly", "yes", "--appendfsync", "always", "--io-threads", "2"];
    for round in 0..4_u64 {
        let mut server = start(directory.path(), &settings);
        let (mut client, address) = (connect(&server), server.address());
        let stops = AtomicBool::new(false);
        let mut random = Random::seeded(seed ^ round);
        create(&mut client);
        assert_consistent(&mut client, &format!("the start of round {round}"));
        fill(&mut client, &mut random, 500);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let stops = &stops;
                    scope.spawn(move || write(address, writer, seed ^ (round << 8), stops))
                })
                .collect();
            // Indexes come and go beside the writers.
            let began = Instant::now();
            while began.elapsed().as_millis() < 300 {
                ask_ok(&mut client, "FT.DROPINDEX j");
                ask_ok(&mut client, INDEXES[1]);
                ask_ok(&mut client, "FT.DROPINDEX i");
                ask_ok(&mut client, INDEXES[0]);
            }
            stops.store(true, Ordering::Relaxed);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        until_scanned(&mut client);
        assert_consistent(&mut client, &format!("writers of round {round}"));
        // Once more, until the process is killed.
        stops.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let stops = &stops;
                scope.spawn(move || write(address, writer, seed ^ (round << 9), stops));
            }
            let began = Instant::now();
            while began.elapsed().as_millis() < 100 {
                ask_ok(&mut client, "FT.DROPINDEX j");
                ask_ok(&mut client, INDEXES[1]);
            }
            server.kill();
        });
    }
}

#[test]
fn temporary_indexes_end_with_their_documents() {
    let (primary_directory, replica_directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
    let primary = start(primary_directory.path(), &settings);
    let replica = start(replica_directory.path(), &[]);
    let (mut client, mut follower) = (connect(&primary), connect(&replica));
    ask_ok(&mut client, "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT");
    ask_ok(&mut follower, &format!("REPLICAOF 127.0.0.1 {}", primary.address().port()));
    ask_ok(&mut client, "FT.CREATE used TEMPORARY 3600 PREFIX 1 d: SCHEMA t TEXT");
    for number in 0..10 {
        run(&mut client, &format!("HSET|d:{number}|t|red"));
        run(&mut client, &format!("HSET|e:{number}|t|red"));
    }
    ask_ok(&mut client, "FT.CREATE gone TEMPORARY 1 PREFIX 1 d: SCHEMA t TEXT");
    until("the index is dropped", || texts(&ask(&mut client, "FT._LIST")).len() == 2);
    assert_eq!(ask(&mut client, "DBSIZE").integer(), Some(10));
    assert!(found(&mut client, "i", "red").is_empty() && found(&mut client, "used", "red").is_empty());
    run(&mut client, "SET|last|1");
    until("the replica follows", || ask(&mut follower, "GET last").text() == Some(b"1"));
    let mut names = texts(&ask(&mut follower, "FT._LIST"));
    names.sort();
    assert_eq!(names, ["i", "used"]);
    assert_eq!(ask(&mut follower, "DBSIZE").integer(), Some(11));
    ask_ok(&mut client, "DEBUG LOADAOF");
    let mut names = texts(&ask(&mut client, "FT._LIST"));
    names.sort();
    assert_eq!((names, ask(&mut client, "DBSIZE").integer()), (vec!["i".into(), "used".into()], Some(11)));
}
