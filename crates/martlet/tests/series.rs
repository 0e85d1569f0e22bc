//! Time series in whole servers: restarts from either file, replicas, transactions, scripts, blocked readers,
//! and rules whose keys lie in many shards, written by many threads at once.

use std::path::Path;
use std::thread;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::{dump, fill_series};
use martlet_testkit::server::Server;

use crate::module_types::until;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

fn start(directory: &Path, arguments: &[&str]) -> Server {
    let all = [&["server", "--enable-debug-command", "yes", "--io-threads", "4"], arguments].concat();
    Server::start_in(directory, Path::new(OURS), &all).unwrap()
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

fn ask(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    let reply = client.command(&words).unwrap();
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    reply
}

/// Sources with rules, labels, chunks of both kinds, open buckets, and one key that expires.
fn fill(client: &mut Client) {
    fill_series(client, 200).unwrap();
    ask(client, "TS.CREATE gone LABELS kind raw");
    ask(client, "PEXPIRE gone 1");
    ask(client, "SELECT 3");
    ask(client, "TS.CREATE other LABELS kind raw");
    ask(client, "SELECT 0");
}

/// All that two servers must have in common: samples, labels, rules, open buckets, the index.
fn facts(client: &mut Client) -> Vec<Reply> {
    let mut facts = Vec::new();
    for line in [
        "TS.QUERYINDEX kind=raw",
        "TS.QUERYINDEX kind=(avg,twa) n=",
        "TS.QUERYLABELS VALUES kind",
        "TS.MRANGE - + LATEST WITHLABELS FILTER kind!=none kind=(raw,avg,twa,std.p,first)",
        "TS.MGET LATEST FILTER kind=(avg,twa,std.p,first)",
        "DEBUG DIGEST",
    ] {
        facts.push(ask(client, line));
    }
    for number in 0..6 {
        facts.push(ask(client, &format!("TS.INFO s{number}")));
    }
    facts
}

#[test]
fn series_survive_restarts_and_reach_replicas() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    fill(&mut client);
    until("the key has expired", || ask(&mut client, "EXISTS gone").integer() == Some(0));
    let before = facts(&mut client);
    assert_eq!(before[0].items().map(<[Reply]>::len), Some(6), "{:?}", before[0]);
    ask(&mut client, "DEBUG RELOAD");
    assert!(facts(&mut client) == before, "after a reload");

    // A base of commands, then one in the form of files; samples in the log behind them.
    for preamble in ["no", "yes"] {
        ask(&mut client, &format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        ask(&mut client, "CONFIG SET appendonly yes");
        until("the append-only file is there", || {
            let info = ask(&mut client, "INFO persistence");
            let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
        ask(&mut client, "TS.MADD s0 2000 1 s1 2000 2 s2 2100 3");
        ask(&mut client, "TS.ADD s0 3 9 ON_DUPLICATE LAST");
        ask(&mut client, "TS.DEL s1 100 300");
        ask(&mut client, "TS.INCRBY counter 1");
        let last = facts(&mut client);
        ask(&mut client, "DEBUG LOADAOF");
        assert!(facts(&mut client) == last, "from the log, preamble {preamble}");
        ask(&mut client, "CONFIG SET appendonly no");
    }
    let last = facts(&mut client);
    ask(&mut client, "SAVE");
    drop(client);
    drop(server);
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    assert!(facts(&mut client) == last, "after a restart");

    let other = tempfile::tempdir().unwrap();
    let replica = start(other.path(), &["--repl-diskless-sync-delay", "0"]);
    let mut follower = connect(&replica);
    ask(&mut follower, &format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
    until("the replica is in sync", || {
        String::from_utf8_lossy(ask(&mut follower, "INFO replication").text().unwrap_or_default())
            .contains("master_link_status:up")
    });
    for time in 0..300 {
        ask(&mut client, &format!("TS.ADD s{} {} {time}", time % 6, 5000 + time));
    }
    ask(&mut client, "RENAME s3 s3b");
    ask(&mut client, "RENAME s3b s3");
    let last = facts(&mut client);
    until("the replica has the same", || facts(&mut follower) == last);
    assert_eq!(dump(&mut client).unwrap(), dump(&mut follower).unwrap());
}

#[test]
fn transactions_and_scripts_reach_destinations() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    for number in 0..20 {
        ask(&mut client, &format!("TS.CREATE d{number} LABELS d {number}"));
    }
    ask(&mut client, "TS.CREATE s LABELS s 1");
    for number in 0..20 {
        ask(&mut client, &format!("TS.CREATERULE s d{number} AGGREGATION sum 10"));
    }
    ask(&mut client, "MULTI");
    for time in [1, 2, 11] {
        ask(&mut client, &format!("TS.ADD s {time} 1"));
    }
    ask(&mut client, "TS.MGET FILTER d=(0,19)");
    let replies = ask(&mut client, "EXEC");
    assert_eq!(replies.items().map(<[Reply]>::len), Some(4), "{replies:?}");
    let get = |client: &mut Client, key: &str| format!("{:?}", ask(client, &format!("TS.GET {key}")));
    let first = get(&mut client, "d0");
    for number in 1..20 {
        assert_eq!(get(&mut client, &format!("d{number}")), first);
    }
    let script = "redis.call('TS.ADD', KEYS[1], 21, 5); return redis.call('TS.RANGE', 'd7', '-', '+')";
    let reply = client.command(&["EVAL", script, "1", "s"]).unwrap();
    assert_eq!(reply.items().map(<[Reply]>::len), Some(2), "{reply:?}");
    assert_eq!(ask(&mut client, "SCAN 0 COUNT 1000 TYPE TSDB-TYPE").items().map(<[Reply]>::len), Some(2));
    assert!(ask(&mut client, "MEMORY USAGE s").integer() > Some(100));
}

#[test]
fn many_threads_write_to_tied_series_of_all_shards() {
    const CLIENTS: usize = 4;
    const SAMPLES: usize = 1500;
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    // Pairs whose shards are in every order, so that locks are wanted in every order.
    for number in 0..CLIENTS * 8 {
        for name in ["s", "d", "e"] {
            ask(&mut client, &format!("TS.CREATE {name}{number}"));
        }
        ask(&mut client, &format!("TS.CREATERULE s{number} d{number} AGGREGATION count 10"));
        ask(&mut client, &format!("TS.CREATERULE s{number} e{number} AGGREGATION sum 10"));
    }
    thread::scope(|scope| {
        for of in 0..CLIENTS {
            let mut client = connect(&server);
            scope.spawn(move || {
                for time in 0..SAMPLES {
                    let number = of * 8 + time % 8;
                    let next = of * 8 + (time + 3) % 8;
                    match time % 3 {
                        0 => ask(&mut client, &format!("TS.MADD s{number} {time} 1 s{next} {time} 1")),
                        1 => ask(&mut client, &format!("TS.RANGE d{next} - + LATEST")),
                        _ => ask(&mut client, &format!("TS.ADD s{number} {time} 1")),
                    };
                }
            });
        }
    });
    for number in 0..CLIENTS * 8 {
        let total = |client: &mut Client, key: &str, options: &str| {
            let rows = ask(client, &format!("TS.RANGE {key} - + {options}"));
            let value = |row: &Reply| {
                let text = row.items()?.get(1)?.text()?.to_vec();
                String::from_utf8(text).ok()?.parse::<f64>().ok()
            };
            rows.items().unwrap_or_default().iter().filter_map(value).sum::<f64>()
        };
        let samples = total(&mut client, &format!("s{number}"), "AGGREGATION count 100000");
        assert!(samples > 0.0);
        for name in ["d", "e"] {
            assert_eq!(total(&mut client, &format!("{name}{number}"), "LATEST"), samples, "{name}{number}");
        }
    }
}

#[test]
fn readers_wait_for_samples_of_rules() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    let mut client = connect(&server);
    ask(&mut client, "TS.CREATE s");
    ask(&mut client, "TS.CREATE d");
    ask(&mut client, "TS.CREATERULE s d AGGREGATION sum 10");
    let mut reader = connect(&server);
    let waiting = thread::spawn(move || ask(&mut reader, "TS.READ d $ BLOCK 20000 2"));
    let blocked = |client: &mut Client| {
        let info = ask(client, "INFO clients");
        String::from_utf8_lossy(info.text().unwrap_or_default()).contains("blocked_clients:1")
    };
    until("the reader waits", || blocked(&mut client));
    ask(&mut client, "TS.MADD s 1 1 s 11 1 s 21 1");
    let reply = waiting.join().unwrap();
    assert_eq!(reply.items().map(<[Reply]>::len), Some(2), "{reply:?}");
    let mut reader = connect(&server);
    let late = ask(&mut reader, "TS.READ d $ BLOCK 50 1");
    assert_eq!(late.items().map(<[Reply]>::len), Some(0), "{late:?}");
}
