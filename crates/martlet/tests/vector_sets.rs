//! Vector sets in whole processes: they survive restarts, reach replicas and other nodes; searches that take
//! long leave their client's thread to others.
//!
//! Where `MARTLET_VECTOR_ORACLE` has an address (host:port, Redis 8.6 or later), payloads go both ways with
//! that server, and `MARTLET_VECTOR_COMMANDS` generated commands get equal replies, scores of floats nearly
//! so; else with another process of Martlet. Seeds are printed, and taken from `MARTLET_VECTOR_SEED`.

use std::net::SocketAddr;

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::fill_vectors;

use crate::module_types::{ask, ask_ok, connect, content, start, until};

/// All keys are equal; a difference shows the first key that is not.
fn assert_same(left: &[String], right: &[String]) {
    let differs = left.iter().zip(right).find(|(left, right)| left != right);
    assert!(differs.is_none() && left.len() == right.len(), "{differs:?}");
}

#[test]
fn vector_sets_survive_restarts_and_reach_replicas() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    fill_vectors(&mut client, 3).unwrap();
    fill_vectors(&mut client, 200).unwrap();
    let (lines, digest) = (content(&server), ask(&mut client, "DEBUG DIGEST"));
    assert_eq!(lines.len(), 8);
    let links = ask(&mut client, "VLINKS float:200 e17 WITHSCORES");
    ask_ok(&mut client, "DEBUG RELOAD");
    assert_same(&content(&server), &lines);
    assert_eq!(ask(&mut client, "DEBUG DIGEST"), digest);
    assert_eq!(ask(&mut client, "VLINKS float:200 e17 WITHSCORES"), links, "links are saved");

    // A base of commands, and the commands behind it.
    // Nothing is lost when the process is killed.
    let settings = ["aof-use-rdb-preamble no", "appendfsync always", "appendonly yes"];
    for line in settings.map(|setting| format!("CONFIG SET {setting}")) {
        ask_ok(&mut client, &line);
    }
    until("the base is written", || {
        let info = ask(&mut client, "INFO persistence");
        let info = String::from_utf8_lossy(info.text().unwrap()).into_owned();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
    for number in 0..50 {
        ask_ok(&mut client, &format!("VREM int8:200 e{}", number * 3));
        ask_ok(&mut client, &format!("VADD int8:200 VALUES 4 1 2 3 {number} new{number}"));
        ask_ok(&mut client, &format!("VSETATTR int8:200 new{number} [{number}]"));
    }
    let (lines, digest) = (content(&server), ask(&mut client, "DEBUG DIGEST"));
    drop(client);
    drop(server);
    let server = start(directory.path(), &["--appendonly", "yes"]);
    let mut client = connect(&server);
    assert_same(&content(&server), &lines);
    assert_eq!(ask(&mut client, "DEBUG DIGEST"), digest);

    let other = tempfile::tempdir().unwrap();
    let replica = start(other.path(), &["--repl-diskless-sync-delay", "0"]);
    let mut follower = connect(&replica);
    ask_ok(&mut follower, &format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
    let digests = |client: &mut Client, follower: &mut Client| {
        ask(client, "DEBUG DIGEST") == ask(follower, "DEBUG DIGEST")
    };
    until("the replica has the keys", || digests(&mut client, &mut follower));
    for number in 0..50 {
        ask_ok(&mut client, &format!("VADD float:200 VALUES 4 1 1 3 {number} later{number} NOQUANT M 6"));
        ask_ok(&mut client, &format!("VREM binary:200 e{number}"));
    }
    until("the replica follows", || digests(&mut client, &mut follower));
    assert_same(&content(&server), &content(&replica));

    let port = replica.address().port();
    ask_ok(&mut follower, "REPLICAOF NO ONE");
    ask_ok(&mut follower, "FLUSHALL");
    let keys = ["binary:3", "float:3", "binary:200", "reduced:200"];
    let before = content(&server);
    ask_ok(&mut client, &format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {}", keys.join(" ")));
    let moved = content(&replica);
    assert_eq!(moved.len(), 4);
    assert!(moved.iter().all(|line| before.contains(line)));
}

#[test]
fn a_long_search_waits_on_another_thread() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--io-threads", "1"]);
    let (mut client, mut other) = (connect(&server), connect(&server));
    let mut random = Random::seeded(1);
    // 1,000 components make an exact search long.
    for number in 0..12_000 {
        let vector: Vec<u8> = (0..256).flat_map(|_| (random.unit_f64() as f32 - 0.5).to_le_bytes()).collect();
        let name = format!("e{number}");
        let words: [&[u8]; 8] = [b"VADD", b"k", b"FP32", &vector, name.as_bytes(), b"NOQUANT", b"EF", b"1"];
        assert!(!client.command(&words).unwrap().is_error());
    }
    let inline = ask(&mut client, "VSIM k ELE e5 TRUTH NOTHREAD COUNT 20 WITHSCORES");
    assert_eq!(ask(&mut client, "VSIM k ELE e5 TRUTH COUNT 20 WITHSCORES"), inline);
    for line in ["MULTI", "VSIM k ELE e5 TRUTH COUNT 20 WITHSCORES"] {
        ask_ok(&mut client, line);
    }
    assert_eq!(ask(&mut client, "EXEC").items().unwrap(), std::slice::from_ref(&inline));
    ask_ok(&mut client, "CONFIG SET vset-force-single-threaded-execution yes");
    assert_eq!(ask(&mut client, "VSIM k ELE e5 TRUTH COUNT 20 WITHSCORES"), inline);
    ask_ok(&mut client, "CONFIG SET vset-force-single-threaded-execution no");

    // The reply keeps its place among those of its client, and its key is tracked.
    ask_ok(&mut client, "HELLO 3");
    ask_ok(&mut client, "CLIENT TRACKING ON");
    for words in [["VSIM", "k", "ELE", "e5", "TRUTH", "COUNT", "1"].as_slice(), &["ECHO", "after"]] {
        client.send(words).unwrap();
    }
    assert_eq!(client.read_reply().unwrap().items().unwrap()[0].text(), Some(b"e5".as_slice()));
    assert_eq!(client.read_reply().unwrap().text(), Some(b"after".as_slice()));
    ask_ok(&mut other, "VREM k e7");
    let push = client.read_reply().unwrap();
    assert!(format!("{push:?}").contains("invalidate") || matches!(push, Reply::Push(_)), "{push:?}");
    let stats = ask(&mut other, "INFO commandstats");
    let stats = String::from_utf8_lossy(stats.text().unwrap()).into_owned();
    let calls = stats.lines().find(|line| line.starts_with("cmdstat_vsim:calls=5,"));
    assert!(calls.is_some(), "{stats}");
}

#[test]
fn clients_of_several_threads_add_to_one_set() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 250;
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--io-threads", "3", "--appendonly", "yes"]);
    let add = |client: &mut Client, random: &mut Random, name: &str| {
        let vector: Vec<u8> = (0..16).flat_map(|_| (random.unit_f64() as f32 - 0.5).to_le_bytes()).collect();
        let words: [&[u8]; 5] = [b"VADD", b"set", b"FP32", &vector, name.as_bytes()];
        client.command(&words).unwrap()
    };
    std::thread::scope(|scope| {
        for thread in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = connect(server);
                let mut random = Random::seeded(thread as u64);
                for round in 0..ROUNDS {
                    let name = format!("e{thread}:{round}");
                    assert_eq!(add(&mut client, &mut random, &name), Reply::Int(1));
                    // Replaced, found, and now and then removed: each client sees its own changes in order.
                    assert_eq!(add(&mut client, &mut random, &name), Reply::Int(0));
                    let nearest = ask(&mut client, &format!("VSIM set ELE {name} TRUTH COUNT 1"));
                    assert_eq!(nearest.items().unwrap()[0].text(), Some(name.as_bytes()));
                    if round % 5 == 0 {
                        assert_eq!(ask(&mut client, &format!("VREM set {name}")), Reply::Int(1));
                    }
                }
            });
        }
    });
    let mut client = connect(&server);
    assert_eq!(ask(&mut client, "VCARD set"), Reply::Int((CLIENTS * ROUNDS * 4 / 5) as i64));
    let names = ask(&mut client, "VRANGE set - +");
    let names: Vec<String> = names
        .items()
        .unwrap()
        .iter()
        .map(|name| String::from_utf8_lossy(name.text().unwrap()).into())
        .collect();
    let finds_itself = |name: &&String| {
        let found = ask(&mut client, &format!("VSIM set ELE {name} COUNT 1"));
        found.items().unwrap()[0].text() == Some(name.as_bytes())
    };
    let found = names.iter().filter(finds_itself).count();
    assert!(found * 100 >= names.len() * 99, "{found} of {} are reached by walks", names.len());

    // Another client takes the key away again and again while neighbours are looked for.
    std::thread::scope(|scope| {
        for thread in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = connect(server);
                let mut random = Random::seeded(100 + thread as u64);
                for round in 0..2 * ROUNDS {
                    let reply = add(&mut client, &mut random, &format!("e{thread}:{round}"));
                    assert!(reply.integer().is_some() || reply.is_error(), "{reply:?}");
                }
            });
        }
        let mut client = connect(&server);
        for round in 0..20 {
            ask_ok(&mut client, "RENAME set hidden");
            let line = if round % 2 == 0 { "SET set text" } else { "VADD set VALUES 2 1 2 few" };
            ask(&mut client, line);
            ask_ok(&mut client, "RENAME hidden set");
        }
    });
    ask_ok(&mut client, "DEBUG RELOAD");
    let digest = ask(&mut client, "DEBUG DIGEST");
    drop(client);
    drop(server);
    let server = start(directory.path(), &["--appendonly", "yes"]);
    assert_eq!(ask(&mut connect(&server), "DEBUG DIGEST"), digest, "effects are recorded in their order");
}

/// Requests; a letter after `$` is drawn: `k` a key, `e` an element, `v` a vector, `n` a small number.
const REQUESTS: &[&str] = &[
    "VADD $k VALUES 3 $v $e",
    "VADD $k VALUES 3 $v $e",
    "VADD $k VALUES 3 $v $e NOQUANT",
    "VADD $k VALUES 3 $v $e BIN",
    "VADD $k VALUES 3 $v $e M 5",
    "VADD $k VALUES 3 $v $e CAS EF $n",
    "VADD $k REDUCE 2 VALUES 3 $v $e",
    "VADD $k REDUCE $n VALUES 3 $v $e",
    "VADD $k VALUES $n $v $e",
    "VADD $k VALUES 3 $v $e SETATTR {\"n\":$n,\"t\":\"x$n\"}",
    "VADD $k VALUES 3 $v $e SETATTR $n",
    "VSETATTR $k $e {\"n\":$n}",
    "VGETATTR $k $e",
    "VREM $k $e",
    "VREM $k $e",
    "VCARD $k",
    "VDIM $k",
    "VEMB $k $e",
    "VEMB $k $e RAW",
    "VISMEMBER $k $e",
    "VRANGE $k [$e +",
    "VRANGE $k - ($e $n",
    "VRANGE $k [$e [$e",
    "VRANGE $k $e +",
    "VRANGE $k + [$e",
    "VRANGE $k $e - x",
    "VLINKS $k nobody WITHSCORES",
    "VRANDMEMBER $k 0",
    "VSIM $k ELE $e TRUTH COUNT 100 WITHSCORES",
    "VSIM $k VALUES 3 $v TRUTH WITHSCORES COUNT $n",
    "VSIM $k VALUES 2 $n 1 TRUTH WITHSCORES COUNT 30",
    "VSIM $k ELE $e TRUTH COUNT 100 WITHSCORES FILTER .n>$n",
    "VSIM $k ELE $e TRUTH COUNT 100 WITHSCORES EPSILON 0.$n",
    "VSIM $k ELE $e TRUTH COUNT 100 WITHSCORES WITHATTRIBS",
    "VSIM $k VALUES 3 $v COUNT 100 WITHSCORES FILTER .t==\"x$n\"||.n<$n",
    "VSIM $k ELE $e COUNT x",
    "VSIM $k ELE $e FILTER .n>",
    "VSIM $k ELE $e EF 0",
    "DEL $k",
];

fn draw(request: &str, random: &mut Random) -> Vec<String> {
    let mut words = Vec::new();
    for word in request.split(' ') {
        if word == "$v" {
            words.extend((0..3).map(|_| (random.below(19) as i64 - 9).to_string()));
            continue;
        }
        let word = word.replace("$k", &format!("k{}", random.below(6)));
        let word = word.replace("$e", &format!("e{}", random.below(40)));
        words.push(word.replace("$n", &random.below(12).to_string()));
    }
    words
}

/// The types of a reply's parts, in their order, and the numbers in it.
fn dissect(reply: &Reply, types: &mut String, numbers: &mut Vec<f64>) {
    let mut each = |type_byte: char, parts: &mut dyn Iterator<Item = &Reply>| {
        types.push(type_byte);
        parts.for_each(|part| dissect(part, types, numbers));
    };
    match reply {
        Reply::Array(items) => each('*', &mut items.iter()),
        Reply::Map(pairs) => each('%', &mut pairs.iter().flat_map(|(key, value)| [key, value])),
        Reply::Double(text) => {
            types.push(',');
            numbers.extend(String::from_utf8_lossy(text).parse::<f64>());
        }
        Reply::Bulk(text) => {
            types.push('$');
            numbers.extend(String::from_utf8_lossy(text).parse::<f64>());
        }
        // An attribute, or none.
        Reply::Null | Reply::NullBulk => types.push('$'),
        other => types.push_str(&format!("{other:?}")),
    }
}

/// The types and numbers of a search's or a vector's reply; of any other reply everything. Names of equal
/// scores come in any order, and servers write the same number with more digits or fewer.
fn comparable(words: &[String], reply: &Reply) -> (String, Vec<f64>) {
    let is_numeric = ["VSIM", "VEMB"].contains(&&*words[0]) && !reply.is_error();
    let (mut types, mut numbers) = (String::new(), Vec::new());
    match is_numeric {
        true => dissect(reply, &mut types, &mut numbers),
        false => types = format!("{reply:?}"),
    }
    (types, numbers)
}

#[test]
fn generated_commands_get_equal_replies() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("MARTLET_VECTOR_SEED").unwrap_or_else(|| Random::from_entropy().below(1 << 40));
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let oracle: Option<SocketAddr> =
        std::env::var("MARTLET_VECTOR_ORACLE").ok().map(|address| address.parse().unwrap());
    let second = tempfile::tempdir().unwrap();
    let (mut peer, _twin) = match oracle {
        Some(address) => (Client::connect(address).unwrap(), None),
        None => {
            println!("MARTLET_VECTOR_ORACLE is not set: two processes of Martlet are compared");
            let twin = start(second.path(), &[]);
            (connect(&twin), Some(twin))
        }
    };
    let mut client = connect(&server);
    ask_ok(&mut peer, "FLUSHALL");
    let mut random = Random::seeded(seed);
    let count = number("MARTLET_VECTOR_COMMANDS").unwrap_or(2_000);
    for step in 0..count {
        if step % 500 == 0 {
            let hello = ["HELLO", if step % 1000 == 0 { "2" } else { "3" }];
            assert!(!client.command(&hello).unwrap().is_error() && !peer.command(&hello).unwrap().is_error());
        }
        let request = REQUESTS[random.below(REQUESTS.len() as u64) as usize];
        let words = draw(request, &mut random);
        let (ours, theirs) = (client.command(&words).unwrap(), peer.command(&words).unwrap());
        let (ours, theirs) = (comparable(&words, &ours), comparable(&words, &theirs));
        let is_near =
            ours.1.len() == theirs.1.len() && ours.1.iter().zip(&theirs.1).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(ours.0 == theirs.0 && is_near, "{step}: {words:?}\n{ours:?}\n{theirs:?}");
        if step % 100 == 99 {
            // Payloads go both ways.
            for from in [true, false] {
                let key = format!("k{}", random.below(6));
                let (source, target) = if from { (&mut client, &mut peer) } else { (&mut peer, &mut client) };
                let payload = source.command(&["DUMP", &key]).unwrap();
                let Some(payload) = payload.text() else { continue };
                let restored: [&[u8]; 5] = [b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"];
                assert_eq!(target.command(&restored).unwrap(), Reply::Simple(b"OK".to_vec()), "{step} {key}");
            }
        }
    }
}
