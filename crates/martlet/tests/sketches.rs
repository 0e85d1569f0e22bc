//! Sketches in whole processes: they survive restarts, reach replicas and other nodes, and answer as another
//! server does to generated commands.
//!
//! That server is the one whose address `MARTLET_SKETCH_ORACLE` has (host:port, Redis Stack 7.4 or Redis 8),
//! for
//! `MARTLET_SKETCH_COMMANDS` commands of each family; without it, another process of Martlet and a few
//! hundred commands. Seeds are printed, and taken from `MARTLET_SKETCH_SEED`.

use std::net::SocketAddr;

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::fill_sketches;

use crate::module_types::{ask, ask_ok, connect, content, start, until};

#[test]
fn sketches_survive_restarts_and_reach_replicas() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    fill_sketches(&mut client, 12).unwrap();
    fill_sketches(&mut client, 700).unwrap();
    ask_ok(&mut client, "TOPK.RESERVE chance 5 8 3 0.8");
    for number in 0..500 {
        ask_ok(&mut client, &format!("TOPK.INCRBY chance {} {}", number % 97, 1 + number % 4));
    }
    let (lines, digest) = (content(&server), ask(&mut client, "DEBUG DIGEST"));
    assert_eq!(lines.len(), 17);
    ask_ok(&mut client, "DEBUG RELOAD");
    assert_eq!((content(&server), ask(&mut client, "DEBUG DIGEST")), (lines.clone(), digest.clone()));

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
    for number in 0..300 {
        ask_ok(&mut client, &format!("TOPK.ADD chance {} {}", number % 41, number % 7));
        ask_ok(&mut client, &format!("BF.ADD bloom12 new{number}"));
    }
    let (lines, digest) = (content(&server), ask(&mut client, "DEBUG DIGEST"));
    drop(client);
    drop(server);
    let server = start(directory.path(), &["--appendonly", "yes"]);
    let mut client = connect(&server);
    assert_eq!((content(&server), ask(&mut client, "DEBUG DIGEST")), (lines, digest));

    let other = tempfile::tempdir().unwrap();
    let replica = start(other.path(), &["--repl-diskless-sync-delay", "0"]);
    let mut follower = connect(&replica);
    ask_ok(&mut follower, &format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
    let digests = |client: &mut Client, follower: &mut Client| {
        ask(client, "DEBUG DIGEST") == ask(follower, "DEBUG DIGEST")
    };
    until("the replica has the keys", || digests(&mut client, &mut follower));
    for number in 0..300 {
        ask_ok(&mut client, &format!("TOPK.ADD chance {} {}", number % 61, number % 5));
        ask_ok(&mut client, &format!("CF.ADD grows {number}"));
        ask_ok(&mut client, &format!("TDIGEST.ADD tdigest12 {number}"));
    }
    ask_ok(&mut client, "TDIGEST.MERGE merged 1 tdigest12");
    ask_ok(&mut client, "CMS.MERGE cms12 2 cms12 cms700 WEIGHTS 2 1");
    until("the replica follows", || digests(&mut client, &mut follower));
    assert_eq!(content(&server), content(&replica));
}

#[test]
fn sketches_move_in_transactions_scripts_and_between_servers() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let other = tempfile::tempdir().unwrap();
    let target = start(other.path(), &[]);
    let mut client = connect(&server);
    fill_sketches(&mut client, 12).unwrap();
    for line in ["MULTI", "BF.ADD bloom12 queued", "CF.ADD cuckoo12 queued", "TDIGEST.ADD tdigest12 5"] {
        ask_ok(&mut client, line);
    }
    let replies = ask(&mut client, "EXEC");
    assert_eq!(replies, Reply::Array(vec![Reply::Int(1), Reply::Int(1), Reply::Simple(b"OK".to_vec())]));
    let script = "return {redis.call('BF.EXISTS', KEYS[1], 'queued'), redis.call('TOPK.LIST', KEYS[2])[1], \
                  redis.call('TDIGEST.MAX', KEYS[3])}";
    let reply = client.command(&["EVAL", script, "3", "bloom12", "topk12", "tdigest12"]).unwrap();
    let item = ask(&mut client, "TOPK.LIST topk12").items().unwrap()[0].clone();
    assert_eq!(reply, Reply::Array(vec![Reply::Int(1), item, Reply::Bulk(b"11.5".to_vec())]));
    let read_only =
        client.command(&["EVAL_RO", "return redis.call('TDIGEST.QUANTILE', KEYS[1], 0.5)", "1", "tdigest12"]);
    assert!(!read_only.unwrap().is_error());

    // WATCH sees a change, and none where nothing changes.
    let mut rival = connect(&server);
    for (change, is_refused) in [("BF.ADD bloom12 fresh", true), ("BF.ADD bloom12 fresh", false)] {
        ask_ok(&mut client, "WATCH bloom12");
        ask_ok(&mut rival, change);
        ask_ok(&mut client, "MULTI");
        ask_ok(&mut client, "PING");
        assert_eq!(ask(&mut client, "EXEC").items().is_none(), is_refused, "{change}");
    }

    // The remaining time to live goes to the other server, and may end a millisecond later there.
    ask_ok(&mut client, "PERSIST bloom12");
    let lines = content(&server);
    let port = target.address().port();
    let keys: Vec<String> = lines.iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(keys.len(), 8);
    // The empty word is the key, in place of which KEYS names them.
    ask_ok(&mut client, &format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {}", keys.join(" ")));
    assert_eq!(content(&target), lines);
    assert_eq!(ask(&mut client, "DBSIZE"), Reply::Int(0));
}

/// The families' requests; a letter after `$` is drawn: `k` a key, `s` several, `i` an item, `m` several
/// items, `c` a small number, `n` a number, `q` a share, `p` pairs of item and count.
const FAMILIES: [(&str, &[&str]); 5] = [
    (
        "bloom",
        &[
            "BF.RESERVE $k 0.01 $c",
            "BF.RESERVE $k 0.001 $c NONSCALING",
            "BF.RESERVE $k 0.1 $c EXPANSION 3",
            "BF.ADD $k $i",
            "BF.ADD $k $i",
            "BF.MADD $k $m",
            "BF.INSERT $k CAPACITY 7 ITEMS $m",
            "BF.INSERT $k NOCREATE ITEMS $m",
            "BF.EXISTS $k $i",
            "BF.MEXISTS $k $m",
            "BF.CARD $k",
            "BF.INFO $k",
            "BF.INFO $k ITEMS",
            "BF.DEBUG $k",
            "BF.SCANDUMP $k 0",
            "BF.SCANDUMP $k $c",
            "BF.ADD $k",
            "BF.INSERT $k ITEMS",
        ],
    ),
    (
        "cuckoo",
        &[
            "CF.RESERVE $k 64",
            "CF.RESERVE $k 300 BUCKETSIZE 4 EXPANSION 2",
            "CF.RESERVE $k 16 MAXITERATIONS 3",
            "CF.RESERVE $k 8 EXPANSION 0",
            "CF.ADD $k $i",
            "CF.ADD $k $i",
            "CF.ADDNX $k $i",
            "CF.INSERT $k ITEMS $m",
            "CF.INSERTNX $k NOCREATE ITEMS $m",
            "CF.EXISTS $k $i",
            "CF.MEXISTS $k $m",
            "CF.DEL $k $i",
            "CF.DEL $k $i",
            "CF.COUNT $k $i",
            "CF.INFO $k",
            "CF.DEBUG $k",
            "CF.COMPACT $k",
            "CF.SCANDUMP $k $c",
            "CF.ADD $k",
        ],
    ),
    (
        "cms",
        &[
            "CMS.INITBYDIM $k 20 4",
            "CMS.INITBYDIM $k 20 4",
            "CMS.INITBYPROB $k 0.01 0.05",
            "CMS.INCRBY $k $p",
            "CMS.INCRBY $k $p",
            "CMS.INCRBY $k $i 4294967295",
            "CMS.INCRBY $k $i -1",
            "CMS.QUERY $k $m",
            "CMS.MERGE $k 2 $k $k",
            "CMS.MERGE $k 2 $k $k WEIGHTS 1 2",
            "CMS.MERGE $k 1 $k WEIGHTS -1",
            "CMS.MERGE $k 3 $k $k",
            "CMS.MERGE $k 0 $k",
            "CMS.INFO $k",
        ],
    ),
    (
        "topk",
        &[
            "TOPK.RESERVE $k 5 20 3 1",
            "TOPK.RESERVE $k 2 3 2 1",
            "TOPK.RESERVE $k 0",
            "TOPK.ADD $k $i",
            "TOPK.ADD $k $m",
            "TOPK.INCRBY $k $p",
            "TOPK.QUERY $k $m",
            "TOPK.COUNT $k $m",
            "TOPK.LIST $k",
            "TOPK.LIST $k WITHCOUNT",
            "TOPK.LIST $k other",
            "TOPK.INFO $k",
        ],
    ),
    (
        "tdigest",
        &[
            "TDIGEST.CREATE $k",
            "TDIGEST.CREATE $k COMPRESSION 20",
            "TDIGEST.ADD $k $n",
            "TDIGEST.ADD $k $n $n $n $n",
            "TDIGEST.ADD $k $c $c $c $c $n $n $c",
            "TDIGEST.ADD $k x",
            "TDIGEST.MERGE $k 1 $k",
            "TDIGEST.MERGE $k 2 $k $k",
            "TDIGEST.MERGE $k 2 $k $k COMPRESSION 30 OVERRIDE",
            "TDIGEST.MIN $k",
            "TDIGEST.MAX $k",
            "TDIGEST.QUANTILE $k $q $q $q",
            "TDIGEST.CDF $k $n $c",
            "TDIGEST.RANK $k $n $c",
            "TDIGEST.REVRANK $k $n",
            "TDIGEST.BYRANK $k $c $c",
            "TDIGEST.BYREVRANK $k $c",
            "TDIGEST.TRIMMED_MEAN $k $q $q",
        ],
    ),
];

/// The words for a letter of a template.
fn drawn(letter: char, random: &mut Random) -> String {
    let item = |random: &mut Random| {
        let items = if random.below(2) == 0 { 40 } else { 2000 };
        format!("item{}", random.below(items))
    };
    let many = |random: &mut Random, one: &dyn Fn(&mut Random) -> String| {
        (0..1 + random.below(9)).map(|_| one(random)).collect::<Vec<_>>().join(" ")
    };
    match letter {
        'k' => format!("key{}", random.below(4)),
        'i' => item(random),
        'm' => many(random, &item),
        'p' => many(random, &|random| format!("{} {}", item(random), 1 + random.below(50))),
        'c' => (1 + random.below(60)).to_string(),
        'n' => ((random.unit_f64() - 0.5) * 1000.0).to_string(),
        _ => (random.below(101) as f64 / 100.0).to_string(),
    }
}

fn request(templates: &[&str], random: &mut Random) -> String {
    if random.below(150) == 0 {
        return format!("DEL {}", drawn('k', random));
    }
    let template = templates[random.below(templates.len() as u64) as usize];
    let words = template.split(' ').map(|word| match word.strip_prefix('$') {
        Some(letter) => drawn(letter.chars().next().unwrap(), random),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A reply that can be compared: Redis 8's ranges and words are others than those of Redis Stack, and some of
/// its numbers have a digit more than distinguishes them.
fn comparable(reply: &Reply, is_ours: bool) -> String {
    match reply {
        Reply::Error(_) if !is_ours => "an error".into(),
        Reply::Double(text) | Reply::Bulk(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
            number.map_or_else(|| format!("{reply:?}"), |number| number.to_string())
        }
        Reply::Array(items) => {
            format!("{:?}", items.iter().map(|item| comparable(item, is_ours)).collect::<Vec<_>>())
        }
        _ => format!("{reply:?}"),
    }
}

/// Deletes digests whose weights have grown so large, merged with themselves again and again, that sums lose
/// digits or overflow: which of equal values comes first is then each server's own.
fn forget_heavy_digests(clients: &mut [Client; 2]) {
    const HEAVY: i64 = 1 << 40;
    for number in 0..4 {
        let info = ask(&mut clients[0], &format!("TDIGEST.INFO key{number}"));
        let is_heavy = info.items().unwrap_or_default().iter().any(|fact| fact.integer() > Some(HEAVY));
        if is_heavy {
            clients.iter_mut().for_each(|client| ask_ok(client, &format!("DEL key{number}")));
        }
    }
}

/// Runs generated commands on both servers, in both protocols; how many were equal.
fn compare(family: &str, templates: &[&str], seed: u64, count: u64, peer: SocketAddr, is_ours: bool) -> u64 {
    println!("{family}: MARTLET_SKETCH_SEED={seed}");
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--io-threads", "2"]);
    let mut random = Random::seeded(seed);
    let mut pairs: Vec<[Client; 2]> = Vec::new();
    for protocol in ["2", "3"] {
        pairs.push([server.address(), peer].map(|address| {
            let mut client = Client::connect(address).unwrap();
            ask_ok(&mut client, &format!("HELLO {protocol}"));
            ask_ok(&mut client, "SELECT 7");
            client
        }));
    }
    for client in &mut pairs[0] {
        ask_ok(client, "FLUSHDB");
        ask_ok(client, "CONFIG SET rdbcompression no");
    }
    for number in 0..count {
        let line = request(templates, &mut random);
        let [ours, theirs] = &mut pairs[random.below(2) as usize];
        let replies = [ask(ours, &line), ask(theirs, &line)];
        let [our, their] = replies.each_ref().map(|reply| comparable(reply, is_ours));
        assert_eq!(our, their, "{number}: {line}");
        if family == "tdigest" && number % 16 == 0 {
            forget_heavy_digests(&mut pairs[0]);
        }
        // Top-K's payload has pointers in Redis; a digest's is that of its merged values.
        if number % 64 == 0 && family != "topk" {
            let key = drawn('k', &mut random);
            let [ours, theirs] = &mut pairs[0];
            let payloads = [ours, theirs].map(|client| {
                if family == "tdigest" {
                    ask(client, &format!("TDIGEST.QUANTILE {key} 0.5"));
                }
                let reply = ask(client, &format!("DUMP {key}"));
                // The version and the checksum differ.
                reply.text().map(|bytes| bytes[..bytes.len() - 10].to_vec())
            });
            let [our, their] = payloads.map(|bytes| bytes.map(|bytes| bytes.escape_ascii().to_string()));
            assert_eq!(our, their, "{number}: DUMP {key}");
        }
    }
    count
}

#[test]
fn generated_commands_have_the_answers_of_another_server() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let oracle = std::env::var("MARTLET_SKETCH_ORACLE").ok();
    let directory = tempfile::tempdir().unwrap();
    let second = oracle.is_none().then(|| start(directory.path(), &["--io-threads", "1"]));
    let peer: SocketAddr = match (&oracle, &second) {
        (Some(address), _) => address.parse().unwrap(),
        (None, Some(server)) => {
            println!("MARTLET_SKETCH_ORACLE is not set: two processes of Martlet are compared");
            server.address()
        }
        (None, None) => unreachable!("one of the two is there"),
    };
    let seed = number("MARTLET_SKETCH_SEED").unwrap_or(1);
    let wanted = number("MARTLET_SKETCH_COMMANDS").unwrap_or(if oracle.is_some() { 20_000 } else { 400 });
    for (family, templates) in FAMILIES {
        let (mut done, mut seed) = (0, seed);
        while done < wanted {
            let count = (wanted - done).min(5_000);
            done += compare(family, templates, seed, count, peer, oracle.is_none());
            seed += 1;
        }
        println!("{family}: {done} commands were equal");
    }
}
