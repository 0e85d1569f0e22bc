//! Indexes and searches in clusters of processes: each node answers for all documents of the cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

use super::slot_migration::{field, is_over, migrate};
use super::{Node, attach, form, introduce, take_over, told, until, until_up};

const SCHEMA: &[&str] =
    &["FT.CREATE", "i", "PREFIX", "1", "d:", "SCHEMA", "t", "TEXT", "n", "NUMERIC", "SORTABLE", "g", "TAG"];

/// Sends a request to the node that has the key.
fn at_owner(clients: &mut [Client], words: &[&str]) -> String {
    for client in clients {
        let answer = told(&client.command(words).unwrap());
        if !answer.starts_with("-MOVED") {
            return answer;
        }
    }
    panic!("no node has {words:?}");
}

fn write_documents(nodes: &[&Node], count: u64) {
    let mut clients: Vec<Client> = nodes.iter().map(|node| node.connect()).collect();
    for number in 0..count {
        let (key, n, tag) = (format!("d:{number}"), number.to_string(), format!("g{}", number % 3));
        let answer =
            at_owner(&mut clients, &["HSET", &key, "t", "hello world", "n", &n, "g", &tag, "v", "abcd"]);
        assert_eq!(answer, "4");
    }
}

/// The total of a search, and the keys in order.
fn found(node: &Node, words: &[&str]) -> (String, Vec<String>) {
    let request: Vec<&str> = ["FT.SEARCH", "i"].iter().chain(words).chain(&["NOCONTENT"]).copied().collect();
    let reply = node.connect().command(&request).unwrap();
    let Reply::Array(parts) = &reply else { panic!("{request:?}: {}", told(&reply)) };
    (told(&parts[0]), parts[1..].iter().map(told).collect())
}

#[test]
fn any_node_answers_for_all() {
    let nodes: Vec<Node> = (0..3).map(|_| Node::ours(&[])).collect();
    let all: Vec<&Node> = nodes.iter().collect();
    form(&all);
    // The last one orders no changes.
    assert_eq!(nodes[2].ask(SCHEMA), "OK");
    for node in &nodes {
        assert_eq!(node.ask(&["FT._LIST"]), "i");
        assert_eq!(node.ask(SCHEMA), "-Index already exists");
    }
    assert_eq!(nodes[1].ask(&["FT.ALIASADD", "x", "i"]), "OK");
    write_documents(&all, 300);
    let mut replies = BTreeSet::new();
    for node in &nodes {
        assert_eq!(node.ask(&["FT.SEARCH", "x", "*", "LIMIT", "0", "0"]), "300");
        let (total, keys) = found(node, &["@g:{g1}", "SORTBY", "n", "DESC", "LIMIT", "5", "20"]);
        let expected: Vec<String> = (0..300).rev().filter(|n| n % 3 == 1).map(|n| format!("d:{n}")).collect();
        assert_eq!((total.as_str(), keys.as_slice()), ("100", &expected[5..25]));
        replies.insert(node.ask(&["FT.SEARCH", "i", "hello", "WITHSCORES", "LIMIT", "40", "60"]));
        replies.insert(node.ask(&["FT.SEARCH", "i", "@n:[7 7]", "WITHSORTKEYS", "SORTBY", "n"]));
    }
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert!(replies.iter().any(|reply| reply == "1 d:7 #7 n 7 t hello world g g1 v abcd"), "{replies:?}");
    assert!(nodes.iter().all(|node| node.ask(&["FT.TAGVALS", "i", "g"]) == "g0 g1 g2"));
    assert_eq!(nodes[0].ask(&["FT.TAGVALS", "i", "t"]), "-Not a tag field");
    // Terms of documents that have changed would count still.
    spellings(&nodes);
    words_are_everywhere(&nodes);
    aggregations(&nodes);
    figures(&nodes);
    profiles(&nodes);
    // Pages make the whole.
    let page = |at: u64| found(&nodes[(at % 3) as usize], &["*", "LIMIT", &(at * 30).to_string(), "30"]).1;
    let keys: Vec<String> = (0..10).flat_map(page).collect();
    assert_eq!((keys.len(), keys.iter().collect::<BTreeSet<_>>().len()), (300, 300));
    // Errors are one node's.
    assert_eq!(nodes[1].ask(&["FT.SEARCH", "nope", "*"]), "-nope: no such index");
    assert!(nodes[1].ask(&["FT.SEARCH", "i", "@n:["]).starts_with('-'));
    let mut client = nodes[1].connect();
    client.command(&["MULTI"]).unwrap();
    client.command(&["FT.SEARCH", "i", "*"]).unwrap();
    assert_eq!(told(&client.command(&["EXEC"]).unwrap()), "-Cannot perform `FT.SEARCH`: Cannot block");
    assert!(nodes[1].ask(&["_FT.SEARCH", "0", "2", "10", "i", "*"]).starts_with("-ERR unknown command"));
    assert!(nodes[1].ask(&["_FT.DEFINE", "99", "SET"]).starts_with("-ERR unknown command"));
    resp3(&nodes);
    assert_eq!(nodes[1].ask(&["FT.DROPINDEX", "i", "DD"]), "OK");
    for node in &nodes {
        assert_eq!((node.ask(&["FT._LIST"]), node.ask(&["DBSIZE"])), (String::new(), "0".into()));
    }
}

fn aggregations(nodes: &[Node]) {
    for node in nodes {
        let ask = |words: &str| node.ask(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(
            ask("FT.AGGREGATE x * GROUPBY 1 @g REDUCE COUNT 0 AS c REDUCE AVG 1 @n AS a SORTBY 2 @g ASC"),
            "3 g g0 c 100 a 148.5 g g1 c 100 a 149.5 g g2 c 100 a 150.5"
        );
        assert_eq!(
            ask("FT.AGGREGATE i @g:{g1} SORTBY 2 @n DESC LIMIT 1 2 LOAD 2 @__key @v APPLY upper(@v) AS u"),
            "100 n 295 __key d:295 v abcd u ABCD n 292 __key d:292 v abcd u ABCD"
        );
        assert_eq!(ask("FT.AGGREGATE i * LIMIT 0 0"), "300");
        assert!(ask("FT.AGGREGATE i * APPLY @nope AS x").starts_with("-Property `nope`"));
        // All rows of a cursor, in order.
        let mut client = node.connect();
        let mut reply = client
            .command(&[
                "FT.AGGREGATE",
                "i",
                "*",
                "SORTBY",
                "1",
                "@n",
                "MAX",
                "300",
                "WITHCURSOR",
                "COUNT",
                "70",
            ])
            .unwrap();
        let (mut rows, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let Reply::Array(parts) = &reply else { panic!("{}", told(&reply)) };
            let Reply::Array(some) = &parts[0] else { panic!("{}", told(&reply)) };
            sizes.push(some.len() - 1);
            rows.extend(some[1..].iter().map(told));
            let cursor = told(&parts[1]);
            if cursor == "0" {
                break;
            }
            reply = client.command(&["FT.CURSOR", "READ", "i", &cursor]).unwrap();
        }
        assert_eq!(sizes, [70, 70, 70, 70, 20]);
        assert!(rows.into_iter().eq((0..300).map(|n| format!("n {n}"))));
    }
    let mut client = nodes[2].connect();
    client.command(&["MULTI"]).unwrap();
    client.command(&["FT.AGGREGATE", "i", "*"]).unwrap();
    assert_eq!(told(&client.command(&["EXEC"]).unwrap()), "-Cannot perform `FT.AGGREGATE`: Cannot block");
    assert!(nodes[1].ask(&["_FT.AGGREGATE", "0", "2", "i", "*"]).starts_with("-ERR unknown command"));
}

/// The value of a pair in a list of pairs.
fn of(list: &Reply, name: &str) -> Reply {
    let Reply::Array(pairs) = list else { panic!("{list:?}") };
    let pair = pairs.chunks(2).find(|pair| told(&pair[0]) == name);
    pair.unwrap_or_else(|| panic!("{name}: {}", told(list)))[1].clone()
}

/// FT.INFO counts the documents of all nodes.
fn figures(nodes: &[Node]) {
    let mut clients: Vec<Client> = nodes.iter().map(Node::connect).collect();
    assert_eq!(at_owner(&mut clients, &["HSET", "d:bad", "n", "none"]), "1");
    let infos: Vec<Reply> =
        clients.iter_mut().map(|client| client.command(&["FT.INFO", "x"]).unwrap()).collect();
    for info in &infos {
        let number = |name: &str| told(&of(info, name)).parse::<f64>().unwrap();
        assert_eq!((number("num_docs"), number("percent_indexed"), number("indexing")), (300.0, 1.0, 0.0));
        assert_eq!(number("records_per_doc_avg"), number("num_records") / 300.0);
        assert_eq!((number("hash_indexing_failures"), number("max_doc_id") < 300.0), (1.0, true));
        assert!(
            (number("bytes_per_record_avg") * number("num_records") / f64::from(1 << 20)
                - number("inverted_sz_mb"))
            .abs()
                < 1e-6
        );
        assert_eq!(told(&of(&of(info, "Index Errors"), "last indexing error key")), "d:bad");
        assert_eq!(told(&of(&of(info, "cursor_stats"), "index_capacity")), "384");
        let Reply::Array(fields) = of(info, "field statistics") else { panic!("{info:?}") };
        assert_eq!(told(&of(&of(&fields[1], "Index Errors"), "indexing failures")), "1");
        assert_eq!(told(&of(info, "index_name")), "i");
    }
    // All nodes tell the same, but for what asking changes.
    let sizes: BTreeSet<String> =
        infos.iter().map(|info| told(&of(info, "total_index_memory_sz_mb"))).collect();
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    assert_eq!(nodes[0].ask(&["FT.INFO", "nope"]), "-Unknown index name");
    let mut client = nodes[0].connect();
    client.command(&["MULTI"]).unwrap();
    client.command(&["FT.INFO", "i"]).unwrap();
    assert_eq!(told(&client.command(&["EXEC"]).unwrap()), "-Cannot perform `FT.INFO`: Cannot block");
    assert!(nodes[1].ask(&["_FT.INFO", "0", "i"]).starts_with("-ERR unknown command"));
    assert_eq!(at_owner(&mut clients, &["DEL", "d:bad"]), "1");
}

/// FT.PROFILE has the results of all nodes, and the profile of each.
fn profiles(nodes: &[Node]) {
    const QUERY: &str = "@g:{g1} SORTBY n NOCONTENT LIMIT 1 2";
    let words = |options: &str| format!("FT.PROFILE i SEARCH {options}QUERY {QUERY}");
    let names = ["Shard #1", "Shard #2", "Shard #3", "Coordinator"];
    for node in nodes {
        let mut client = node.connect();
        for options in ["", "LIMITED "] {
            let request = words(options);
            let reply = client.command(&request.split(' ').collect::<Vec<_>>()).unwrap();
            let Reply::Array(parts) = &reply else { panic!("{}", told(&reply)) };
            let [results, Reply::Array(shards)] = &parts[..] else { panic!("{}", told(&reply)) };
            assert_eq!(told(results), "100 d:4 d:7");
            let found: Vec<String> =
                shards.iter().filter(|one| matches!(one, Reply::Simple(_))).map(told).collect();
            assert_eq!((found.as_slice(), shards.len()), (&names.map(String::from)[..], 3 * 7 + 2));
            let counters = shards.iter().filter_map(|list| match list {
                Reply::Array(pair) if told(&pair[0]) == "Iterators profile" => Some(of(&pair[1], "Counter")),
                _ => None,
            });
            assert_eq!(counters.map(|one| told(&one).parse::<u64>().unwrap()).sum::<u64>(), 100);
            assert!(told(&shards[22]).starts_with("Total Coordinator time "), "{}", told(&shards[22]));
        }
        client.command(&["HELLO", "3"]).unwrap();
        let request = words("");
        let reply = client.command(&request.split(' ').collect::<Vec<_>>()).unwrap();
        let Reply::Map(pairs) = &reply else { panic!("{}", told(&reply)) };
        let Reply::Map(shards) = &pairs[5].1 else { panic!("{}", told(&reply)) };
        assert_eq!((told(&pairs[1].1), told(&pairs[5].0)), ("100".into(), "shards".into()));
        assert!(shards.iter().map(|(name, _)| told(name)).eq(names));
        for (name, profile) in &shards[..3] {
            let Reply::Map(profile) = profile else { panic!("{}: {}", told(name), told(profile)) };
            assert_eq!((told(&profile[0].0), profile.len()), ("Total profile time".into(), 6));
        }
    }
    let mut client = nodes[0].connect();
    client.command(&["MULTI"]).unwrap();
    client.command(&["FT.PROFILE", "i", "SEARCH", "QUERY", "*"]).unwrap();
    assert_eq!(told(&client.command(&["EXEC"]).unwrap()), "-Cannot perform `FT.PROFILE`: Cannot block");
    assert!(nodes[1].ask(&["_FT.PROFILE", "0", "2", "9", "0", "i", "*"]).starts_with("-ERR unknown command"));
}

/// FT.SPELLCHECK knows the terms of all nodes, and how many documents have them.
fn spellings(nodes: &[Node]) {
    let mut clients: Vec<Client> = nodes.iter().map(Node::connect).collect();
    assert_eq!(at_owner(&mut clients, &["HSET", "d:only", "t", "zebra help", "n", "1", "g", "g1"]), "3");
    for node in nodes {
        let ask = |words: &str| node.ask(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(ask("FT.SPELLCHECK x zebra"), "");
        // One document has the one, and 300 of 301 the other.
        let scores = [300.0 / 301.0, 1.0 / 301.0].map(|score: f64| score.to_string());
        let expected = format!("TERM helo {} hello {} help", scores[0], scores[1]);
        assert_eq!(ask("FT.SPELLCHECK i helo"), expected);
        assert_eq!(
            ask("FT.SPELLCHECK i zebra|hell FULLSCOREINFO"),
            "301 TERM zebra term exists in index TERM hell 300 hello 1 help"
        );
        assert_eq!(ask("FT.SPELLCHECK i zebr TERMS INCLUDE nope"), "-Dict does not exist: nope");
    }
    assert!(nodes[1].ask(&["_FT.SPELLCHECK", "0", "i", "a"]).starts_with("-ERR unknown command"));
    assert_eq!(at_owner(&mut clients, &["DEL", "d:only"]), "1");
}

/// Dictionaries and synonyms are definitions, too.
fn words_are_everywhere(nodes: &[Node]) {
    assert_eq!(nodes[2].ask(&["FT.DICTADD", "d", "b", "a"]), "2");
    assert_eq!(nodes[0].ask(&["FT.DICTADD", "d", "b", "c"]), "1");
    assert_eq!(nodes[1].ask(&["FT.SYNUPDATE", "i", "g", "greeting", "hello"]), "OK");
    for node in nodes {
        assert_eq!(node.ask(&["FT.DICTDUMP", "d"]), "a b c");
        until("all documents have the synonym", || {
            node.ask(&["FT.SEARCH", "i", "greeting", "LIMIT", "0", "0"]) == "300"
        });
    }
    assert_eq!(nodes[1].ask(&["FT.DICTDEL", "d", "a", "b", "c"]), "3");
}

fn resp3(nodes: &[Node]) {
    for node in nodes {
        let mut client = node.connect();
        client.command(&["HELLO", "3"]).unwrap();
        let reply =
            client.command(&["FT.SEARCH", "i", "@n:[7 8]", "SORTBY", "n", "RETURN", "1", "n"]).unwrap();
        let Reply::Map(fields) = reply else { panic!("{reply:?}") };
        let names: Vec<String> = fields.iter().map(|(name, _)| told(name)).collect();
        assert_eq!(names, ["attributes", "total_results", "format", "results", "warning"]);
        assert_eq!(told(&fields[1].1), "2");
        let Reply::Array(rows) = &fields[3].1 else { panic!("{fields:?}") };
        let ids: Vec<String> = rows
            .iter()
            .map(|row| match row {
                Reply::Map(row) => told(&row[0].1),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids, ["d:7", "d:8"]);
    }
}

#[test]
fn the_nearest_vectors_are_those_of_all_nodes() {
    let nodes: Vec<Node> = (0..3).map(|_| Node::ours(&[])).collect();
    let all: Vec<&Node> = nodes.iter().collect();
    form(&all);
    let create = "FT.CREATE i SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2 n NUMERIC";
    assert_eq!(nodes[1].ask(&create.split(' ').collect::<Vec<_>>()), "OK");
    let mut clients: Vec<Client> = nodes.iter().map(Node::connect).collect();
    for number in 0..60u8 {
        let (key, vector) = (format!("k{number}"), f32::from(number).to_le_bytes());
        let order = (100 - number).to_string();
        let words = [b"HSET".as_slice(), key.as_bytes(), b"v", &vector, b"n", order.as_bytes()];
        let is_written = |client: &mut Client| matches!(client.command(&words).unwrap(), Reply::Int(2));
        assert!(clients.iter_mut().any(is_written));
    }
    for node in &nodes {
        let search = |sort: &[&str]| {
            let query = ["FT.SEARCH", "i", "*=>[KNN 7 @v $q AS d]", "NOCONTENT"];
            let end = ["DIALECT", "2", "PARAMS", "2", "q"];
            let mut words: Vec<&[u8]> =
                query.iter().chain(sort).chain(&end).map(|word| word.as_bytes()).collect();
            words.push(&[0; 4]);
            told(&node.connect().command(&words).unwrap())
        };
        assert_eq!(search(&["SORTBY", "d"]), "7 k0 k1 k2 k3 k4 k5 k6");
        // The nearest are chosen before they are sorted by another field.
        assert_eq!(search(&["SORTBY", "n", "ASC", "LIMIT", "0", "3"]), "7 k6 k5 k4");
        assert_eq!(search(&["LIMIT", "0", "0"]), "7");
        fused(node);
    }
}

/// FT.HYBRID fuses the lists of all nodes: here of three numbers, which have one score, and of the vectors
/// near 0.
fn fused(node: &Node) {
    let hybrid = |search: &str, end: &str| {
        let words = format!("FT.HYBRID i SEARCH {search} SCORER DOCSCORE VSIM @v $q {end} PARAMS 2 q");
        let mut words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        words.push(&[0; 4]);
        node.connect().command(&words).unwrap()
    };
    let reply = hybrid("@n:[41,43]", "KNN 2 K 4 LOAD 2 @__key @n SORTBY 2 @n DESC LIMIT 0 20");
    let rows = "__key k0 n 100 __key k1 n 99 __key k2 n 98 __key k3 n 97 __key k57 n 43 __key k58 n 42 __key k59 n 41";
    assert_eq!((told(&of(&reply, "total_results")), told(&of(&reply, "results"))), ("7".into(), rows.into()));
    assert_eq!(told(&of(&reply, "warnings")), "");
    // A document of both lists is first.
    let reply = hybrid("@n:[99,99]", "KNN 2 K 3 COMBINE RRF 2 CONSTANT 1 LIMIT 0 2");
    let expected = "__key k1 __score 0.833333333333 __key k0 __score 0.5";
    assert_eq!(told(&of(&reply, "results")), expected);
    assert_eq!(told(&hybrid("@n:[", "KNN 2 K 3")).as_bytes()[0], b'-');
    assert!(node.ask(&["_FT.HYBRID", "0", "2", "i", "SEARCH"]).starts_with("-ERR unknown command"));
}

#[test]
fn a_node_that_joins_or_was_away_learns_the_indexes() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Node::ours(&[]), Node::ours_in(directory.path(), &["--appendonly", "yes"]));
    form(&[&first, &second]);
    assert_eq!(first.ask(SCHEMA), "OK");
    write_documents(&[&first, &second], 60);
    // A node with an index of its own, which the cluster gets.
    let third = Node::ours(&[]);
    assert_eq!(third.ask(&["FT.CREATE", "own", "SCHEMA", "t", "TEXT"]), "OK");
    introduce(&[&first, &second, &third]);
    let lists =
        |nodes: &[&Node], expected: &str| nodes.iter().all(|node| node.ask(&["FT._LIST"]) == expected);
    until("all nodes have both indexes", || lists(&[&first, &second, &third], "i own"));
    until_up(&[&first, &second, &third]);
    assert_eq!(third.ask(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]), "60");
    // A node is away while the indexes change: the client learns that.
    let mut second = second;
    second.server.kill();
    let later = ["FT.CREATE", "later", "SCHEMA", "t", "TEXT"];
    let answer = first.ask(&later);
    assert!(answer.starts_with("-ERRCLUSTER The indexes have changed, but not yet at all nodes"), "{answer}");
    assert_eq!(first.ask(&later), "-Index already exists");
    let answer = third.ask(&["FT.SEARCH", "i", "*"]);
    assert!(answer.starts_with("-ERRCLUSTER The node at 127.0.0.1:"), "{answer}");
    let second = second.restart(directory.path(), &["--appendonly", "yes"]);
    until("the node has what it has missed", || lists(&[&first, &second, &third], "i later own"));
    until("all documents are found", || {
        [&first, &second, &third]
            .iter()
            .all(|node| node.ask(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]) == "60")
    });
    // FLUSHALL at a node leaves the cluster its indexes; FLUSHALL at the node that orders changes does
    // not.
    assert_eq!(second.ask(&["FLUSHALL"]), "OK");
    until("it has them again", || lists(&[&first, &second, &third], "i later own"));
    assert_eq!(first.ask(&["FLUSHALL"]), "OK");
    until("no node has any", || lists(&[&first, &second, &third], ""));
}

#[test]
fn a_replica_answers_and_takes_over() {
    let nodes: Vec<Node> = (0..4).map(|_| Node::ours(&[])).collect();
    let [first, second, third, replica] = nodes.iter().collect::<Vec<_>>()[..] else { unreachable!() };
    form(&[first, second, third]);
    first.meet(replica);
    attach(replica, first);
    let all = [first, second, third, replica];
    // A replica passes changes on.
    assert_eq!(replica.ask(SCHEMA), "OK");
    until("the replica has it", || replica.ask(&["FT._LIST"]) == "i");
    write_documents(&[first, second, third], 90);
    assert_eq!(replica.ask(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]), "90");
    take_over(replica, &all);
    until("all nodes ask the new primary", || {
        all.iter().all(|node| node.ask(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0"]) == "90")
    });
    // It orders the changes now.
    until("the old primary passes changes on", || {
        first.ask(&["FT.ALTER", "i", "SCHEMA", "ADD", "m", "NUMERIC"]) != "-Index already exists"
    });
    for node in [second, third, replica] {
        assert_eq!(
            node.ask(&["FT.ALTER", "i", "SCHEMA", "ADD", "m", "NUMERIC"]),
            "-Duplicate field in schema - m"
        );
    }
}

/// Writes its own documents until the end, and counts them in `done`.
fn write(number: usize, nodes: [SocketAddr; 2], ends: &AtomicBool, done: &AtomicU64) {
    let mut clients = nodes.map(|node| Client::connect(node).unwrap());
    let (mut at, mut count) = (0, 0);
    while !ends.load(Ordering::SeqCst) {
        let (key, n) = (format!("d:{number}:{count}"), count.to_string());
        let answer = told(&clients[at].command(&["HSET", &key, "t", "hello", "n", &n, "g", "live"]).unwrap());
        if answer.starts_with("-MOVED") {
            at = 1 - at;
            continue;
        }
        assert_eq!(answer, "3");
        count += 1;
        done.store(count, Ordering::SeqCst);
    }
}

#[test]
fn slots_move_while_documents_are_written_and_searched() {
    const FIXED: u64 = 200;
    let (first, second) = (Node::ours(&[]), Node::ours(&[]));
    super::slot_migration::pair(&first, &second);
    assert_eq!(first.ask(SCHEMA), "OK");
    write_documents(&[&first, &second], FIXED);
    let (ends, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let addresses = [first.address(), second.address()];
    std::thread::scope(|scope| {
        for (number, done) in done.iter().enumerate() {
            let ends = &ends;
            scope.spawn(move || write(number, addresses, ends, done));
        }
        let searchers = addresses.map(|address| {
            let (ends, done) = (&ends, &done);
            scope.spawn(move || search_meanwhile(address, FIXED, ends, done))
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (from, to) in [(&first, &second), (&second, &first), (&first, &second)] {
                let before = done[0].load(Ordering::SeqCst);
                until("more is written", || done[0].load(Ordering::SeqCst) > before + 20);
                assert_eq!(migrate(from, to), "OK");
                until("both ends have ended", || is_over(from) && is_over(to));
                assert_eq!([from, to].map(|node| field(node, "state")), ["success", "success"]);
            }
        }));
        ends.store(true, Ordering::SeqCst);
        let searches: Vec<u64> = searchers.into_iter().map(|searcher| searcher.join().unwrap()).collect();
        assert!(searches.iter().all(|count| *count > 3), "{searches:?}");
        outcome.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
    let written: u64 = done.iter().map(|done| done.load(Ordering::SeqCst)).sum();
    for node in [&first, &second] {
        let total = node.ask(&["FT.SEARCH", "i", "*", "LIMIT", "0", "0", "TIMEOUT", "0"]);
        assert_eq!(total, (FIXED + written).to_string());
    }
    // Each node's index has what the node has: nothing is left of slots that have gone.
    for (node, other) in [(&first, &second), (&second, &first)] {
        let sizes = [node, other].map(|node| node.ask(&["DBSIZE"]).parse::<u64>().unwrap());
        assert_eq!(sizes.iter().sum::<u64>(), FIXED + written);
    }
}

/// Searches until the end; how often. Documents that were there all the time are found, each once, and none
/// that has been acknowledged before is missed.
fn search_meanwhile(node: SocketAddr, fixed: u64, ends: &AtomicBool, done: &[AtomicU64; 2]) -> u64 {
    let (mut client, mut random, mut count) = (Client::connect(node).unwrap(), Random::seeded(7), 0);
    while !ends.load(Ordering::SeqCst) {
        let tag = random.below(3);
        let words = format!("FT.SEARCH i @g:{{g{tag}}} SORTBY n NOCONTENT LIMIT 0 1000 TIMEOUT 0");
        let answer = told(&client.command(&words.split(' ').collect::<Vec<_>>()).unwrap());
        let keys: Vec<String> = (0..fixed).filter(|n| n % 3 == tag).map(|n| format!("d:{n}")).collect();
        assert_eq!(answer, format!("{} {}", keys.len(), keys.join(" ")));
        let words = format!("FT.AGGREGATE i @g:{{g{tag}}} GROUPBY 0 REDUCE COUNT 0 AS c TIMEOUT 0");
        let answer = told(&client.command(&words.split(' ').collect::<Vec<_>>()).unwrap());
        assert_eq!(answer, format!("1 c {}", keys.len()));
        let sum = || done.iter().map(|done| done.load(Ordering::SeqCst)).sum::<u64>();
        let before = sum();
        let words = "FT.SEARCH i @g:{live} LIMIT 0 0 TIMEOUT 0";
        let answer = told(&client.command(&words.split(' ').collect::<Vec<_>>()).unwrap());
        let total: u64 = answer.parse().unwrap_or_else(|_| panic!("{answer}"));
        // A writer may have one document more than it has counted.
        let after = sum() + 2;
        assert!((before..=after).contains(&total), "{before} {total} {after}");
        count += 1;
    }
    count
}
