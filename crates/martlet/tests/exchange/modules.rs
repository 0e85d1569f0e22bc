//! Values of Redis 8's module types that go from server to server: by files of both kinds, by payloads, and
//! by replication, each way. A server that has the data must answer as the one that it came from, and go on
//! from there alike.
//!
//! Only a peer of `MARTLET_PEERS` with such commands takes part (Redis Stack, Redis 8); without one, two
//! processes of Martlet do.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::content::{fill_documents, fill_series, fill_sketches, fill_suggestions, fill_vectors};
use martlet_testkit::server::Server;

use super::{Program, assert_same, connect, content, peers, run, stop, wait_for};
use crate::module_types::until;

/// Changes that leave each family's values different, and questions about them. Their effects are certain.
/// VADD adds new elements alone: Redis 8.6 does not propagate the replacement of a vector.
const CHANGES: &[(&str, &[&str])] = &[
    (
        "BF.ADD",
        &[
            "BF.ADD bloom12 new",
            "BF.MADD bloom12 1 2 more and still more",
            "BF.INSERT inserted CAPACITY 3 EXPANSION 4 ITEMS a b c d e f g",
            "BF.ADD bloom_large12 new",
            "CF.ADD cuckoo12 7",
            "CF.DEL cuckoo12 3",
            "CF.INSERT inserted_too CAPACITY 8 ITEMS a b c d e f g h i j",
            "CMS.INCRBY cms12 3 7 none 9",
            "CMS.MERGE cms12 2 cms12 cms12 WEIGHTS 2 1",
            "TOPK.ADD topk12 3 4 5",
            "TOPK.INCRBY topk12 11 100",
            "TDIGEST.ADD tdigest12 1 2.5 1000",
            "TDIGEST.MERGE merged 2 tdigest12 tdigest12 COMPRESSION 50",
            "TDIGEST.QUANTILE merged 0.1 0.5 0.99",
            "BF.EXISTS bloom12 5",
            "BF.MEXISTS bloom_large12 5 new none",
            "BF.INFO bloom12",
            "BF.INFO inserted",
            "CF.INFO cuckoo12",
            "CF.COUNT cuckoo12 7",
            "CMS.INFO cms12",
            "TOPK.INFO topk12",
            "TDIGEST.CDF tdigest12 3 700",
        ],
    ),
    (
        "JSON.SET",
        &[
            "SELECT 3",
            "JSON.SET json:0 $.new [1,2,3]",
            "JSON.MERGE json:0 $ {\"b\":null,\"m\":{\"x\":1}}",
            "JSON.NUMINCRBY json:0 $.a 1.5",
            "JSON.STRAPPEND json:0 $.text \"more\"",
            "JSON.ARRAPPEND json:1 $ 1 2 null",
            "JSON.ARRPOP json:2 $ 0",
            "JSON.ARRTRIM json:1 $ 1 -2",
            "JSON.DEL json:6 $..y",
            "JSON.GET json:0 $.m",
            "JSON.GET json:0 .a",
            "JSON.TYPE json:0 $.*",
            "JSON.OBJKEYS json:0",
            "JSON.ARRLEN json:1 $",
            "SELECT 0",
        ],
    ),
    (
        "TS.ADD",
        &[
            "TS.MADD s0 2000 1 s1 2000 2 s2 2100 3",
            "TS.ADD s0 3 9 ON_DUPLICATE LAST",
            "TS.DEL s1 100 300",
            "TS.INCRBY counter 5 TIMESTAMP 100",
            "TS.INCRBY counter 5 TIMESTAMP 200",
            "TS.ADD s3 1500 2.25",
            "TS.ALTER s4 LABELS kind raw n 4 more labels",
            "TS.DELETERULE s5 s5:first",
            "TS.CREATERULE s5 late AGGREGATION max 40",
            "TS.ADD s5 5000 1",
            "TS.ADD s5 5100 1",
            "TS.QUERYINDEX kind=raw",
            "TS.QUERYINDEX kind=(avg,twa)",
            "TS.QUERYINDEX more=labels",
            "TS.RANGE s0 - + AGGREGATION twa 100",
            "TS.MGET LATEST WITHLABELS FILTER kind=(avg,twa,std.p,first)",
            "TS.MRANGE - + LATEST WITHLABELS FILTER kind=raw GROUPBY kind REDUCE max",
            "TS.RANGE late - + LATEST",
        ],
    ),
    (
        "FT.SUGADD",
        &[
            "FT.SUGADD suggestions200 Martlet-new 7 PAYLOAD more",
            "FT.SUGADD suggestions200 martin-1 1.5 INCR",
            "FT.SUGDEL suggestions200 swift-7",
            "FT.SUGADD empty200 first 3",
            "FT.SUGLEN suggestions200",
            "FT.SUGGET suggestions200 mart MAX 7 WITHSCORES WITHPAYLOADS",
            "FT.SUGGET suggestions200 mxrtin FUZZY MAX 3 WITHPAYLOADS",
            "FT.SUGGET plain200 mär MAX 1000",
            "FT.SUGGET empty200 f",
        ],
    ),
    (
        "VADD",
        &[
            "VADD int8:200 VALUES 4 1 2 3 4 new SETATTR {\"n\":1}",
            "VADD float:200 VALUES 4 3 1 2 9 e777 NOQUANT M 6",
            "VREM binary:200 e5",
            "VSETATTR float:200 e9 {\"n\":1000}",
            "VREM reduced:200 e8",
            "VADD reduced:200 REDUCE 3 VALUES 4 3 1 2 9 later",
            "VCARD int8:200",
            "VDIM reduced:200",
            "VSIM float:200 ELE e3 TRUTH COUNT 7 WITHSCORES FILTER .n>50",
            "VSIM int8:200 VALUES 4 1 2 3 4 TRUTH COUNT 7 WITHSCORES",
        ],
    ),
];

/// What series have in common with what was restored of their payloads.
const RESTORED: &[&str] = &[
    "SELECT 0",
    "TS.MRANGE - + WITHLABELS FILTER kind=raw",
    "TS.MRANGE - + WITHLABELS FILTER kind=(avg,twa,std.p,first,late,counter)",
    "TS.QUERYINDEX kind=raw",
    "TS.QUERYINDEX kind=(avg,twa,std.p,first,late,counter)",
    "TS.QUERYINDEX n=3",
    "TS.ADD s0 3 9 ON_DUPLICATE MAX",
    "TS.ADD s1 5000 9",
    "TS.ADD late 70 9",
    "TS.ADD late 70 8",
    "TS.RANGE late - +",
    "TS.DEL s1 100 300",
    "TS.MRANGE - + AGGREGATION std.s 77 FILTER kind=raw",
];

/// Fills a server with values of a family, which is known by one of its commands; whether it has them.
fn fill_family(client: &mut Client, command: &str) -> bool {
    let reply = client.command(&[command]).unwrap();
    if matches!(&reply, Reply::Error(text) if String::from_utf8_lossy(text).contains("unknown command")) {
        return false;
    }
    match command {
        "BF.ADD" => fill_sketches(client, 12).unwrap(),
        "JSON.SET" => assert!(fill_documents(client).unwrap()),
        "FT.SUGADD" => fill_suggestions(client, 200).unwrap(),
        "VADD" => fill_vectors(client, 200).unwrap(),
        _ => {
            fill_series(client, 200).unwrap();
            for line in [
                "TS.CREATE late RETENTION 90000 DUPLICATE_POLICY MAX IGNORE 5 0.5 LABELS kind late",
                "TS.CREATE counter UNCOMPRESSED LABELS kind counter",
            ] {
                ask(client, line);
            }
        }
    }
    ask(client, "SELECT 0");
    true
}

fn ask(client: &mut Client, line: &str) -> Reply {
    let reply = client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    assert!(!reply.is_error(), "{line}: {reply:?}");
    reply
}

/// A reply that can be compared. Fields of TS.INFO and others on memory are each server's own; scores differ
/// in their last digits.
fn comparable(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => format!("{:?}", items.iter().map(comparable).collect::<Vec<_>>()),
        Reply::Simple(text) | Reply::Bulk(text) | Reply::Double(text) => {
            let text = String::from_utf8_lossy(text);
            match text.parse::<f64>().ok().filter(|_| text.contains('.')) {
                Some(number) => format!("{number:.5}"),
                None => text.into_owned(),
            }
        }
        other => format!("{other:?}"),
    }
}

/// The lines' replies. Those of TS.QUERYINDEX have no order in RedisTimeSeries.
fn replies(client: &mut Client, lines: &[&str]) -> Vec<String> {
    let answered = |line: &&str| {
        let mut reply = ask(client, line);
        if let (Reply::Array(items), true) =
            (&mut reply, ["TS.Q", "TS.M"].iter().any(|start| line.starts_with(start)))
        {
            items.sort_by_key(|item| format!("{item:?}"));
        }
        format!("{line}: {}", comparable(&reply))
    };
    lines.iter().map(answered).collect()
}

/// What TS.INFO has of each series that two servers share.
fn series(server: &Server) -> Vec<String> {
    const SHARED: [&str; 9] = [
        "totalSamples",
        "firstTimestamp",
        "lastTimestamp",
        "retentionTime",
        "chunkType",
        "duplicatePolicy",
        "labels",
        "sourceKey",
        "rules",
    ];
    let mut client = connect(server);
    let keys = client.command(&["SCAN", "0", "COUNT", "1000", "TYPE", "TSDB-TYPE"]).unwrap();
    let mut lines = Vec::new();
    for key in keys.items().unwrap()[1].items().unwrap() {
        let info = client.command(&[b"TS.INFO".as_slice(), key.text().unwrap()]).unwrap();
        let fields = info.items().unwrap().chunks(2);
        let is_shared = |field: &&[Reply]| {
            field[0].text().is_some_and(|name| SHARED.iter().any(|shared| shared.as_bytes() == name))
        };
        let shown: Vec<_> =
            fields.filter(is_shared).map(|field| comparable(&Reply::Array(field.to_vec()))).collect();
        lines.push(format!("{} {}", comparable(key), shown.join(" ")));
    }
    lines.sort();
    lines
}

/// All that two servers must have in common.
fn facts(server: &Server) -> Vec<String> {
    let lines = content(server).into_iter().map(|line| rounded(&line));
    lines.chain(series(server)).collect()
}

/// A line of content with the components of vectors cut, which servers write with more digits or fewer.
fn rounded(line: &str) -> String {
    if !line.contains(" vectorset ") {
        return line.to_owned();
    }
    let shown = |word: &str| match word.parse::<f64>() {
        // No zero has a sign.
        Ok(number) => format!("{:.4}", (number * 1e4).round() / 1e4 + 0.0),
        Err(_) => word.to_owned(),
    };
    let words: Vec<String> = line.split([' ', ',', '=']).map(shown).collect();
    words.join(" ")
}

/// Pairs of programs that have a family: each way with each peer, or ours with itself.
fn pairs(command: &str) -> Vec<(Program, Program)> {
    let ours = Program::ours();
    let has_family = |program: &Program| {
        let directory = tempfile::tempdir().unwrap();
        let server = program.start(directory.path());
        fill_family(&mut connect(&server), command)
    };
    let mut pairs = Vec::new();
    for peer in peers().into_iter().filter(has_family) {
        let ours = ours.with(&["--rdb-version", peer.rdb_version()]);
        pairs.extend([(peer.clone(), ours.clone()), (ours, peer)]);
    }
    if pairs.is_empty() {
        println!("no program of MARTLET_PEERS has {command}: two processes of Martlet exchange values");
        pairs.push((ours.clone(), ours));
    }
    pairs
}

/// Both servers have the same, and the same again after the same changes.
fn go_on_alike(servers: [&Server; 2], changes: &[&str], what: &str) {
    let [left, right] = servers.map(facts);
    assert_same(&right, &left, what);
    let [left, right] = servers.map(|server| replies(&mut connect(server), changes));
    assert_same(&right, &left, &format!("{what}, replies"));
    let [left, right] = servers.map(facts);
    assert_same(&right, &left, &format!("{what}, changed"));
}

#[test]
fn values_of_modules_go_by_files() {
    let ways: [&[&str]; 3] = [
        &["--appendonly", "no"],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "yes"],
        &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"],
    ];
    for (family, changes) in CHANGES {
        for (writer, reader) in pairs(family) {
            for options in ways {
                let what = format!("{family}: {} to {}, {options:?}", writer.name(), reader.name());
                if [&writer, &reader].iter().any(|program| refuses_base_of_commands(program, options)) {
                    println!("{what}: RediSearch takes no base of commands");
                    continue;
                }
                println!("{what}");
                let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
                let first = writer.with(options).start(directories[0].path());
                assert!(fill_family(&mut connect(&first), family));
                if options[1] == "yes" {
                    assert!(!run(&first, "BGREWRITEAOF").is_error());
                    wait_for(&first, "aof_rewrite_scheduled:0");
                    wait_for(&first, "aof_rewrite_in_progress:0");
                } else {
                    assert!(!run(&first, "SAVE").is_error());
                }
                copy_files(directories[0].path(), directories[1].path());
                let second = reader.with(options).start(directories[1].path());
                go_on_alike([&first, &second], changes, &what);
                // The changes as they were recorded, behind the base, and a file of what was read.
                if options[1] == "yes" {
                    stop(first);
                    let again = tempfile::tempdir().unwrap();
                    copy_files(directories[0].path(), again.path());
                    let third = reader.with(options).start(again.path());
                    assert_same(&facts(&third), &facts(&second), &format!("{what}, recorded"));
                } else {
                    assert!(!run(&second, "SAVE").is_error());
                    copy_files(directories[1].path(), directories[0].path());
                    drop(first);
                    let back = writer.with(options).start(directories[0].path());
                    assert_same(&facts(&back), &facts(&second), &format!("{what} and back"));
                }
            }
        }
    }
}

/// Whether the options ask for an append-only base of commands, with which a server that has RediSearch does
/// not start.
fn refuses_base_of_commands(program: &Program, options: &[&str]) -> bool {
    let directory = tempfile::tempdir().unwrap();
    options.ends_with(&["--aof-use-rdb-preamble", "no"])
        && Server::start_in(directory.path(), &program.path, &program.with(options).arguments)
            .is_err_and(|error| error.to_string().contains("aof-use-rdb-preamble required"))
}

/// Copies a server's data as it is on the disk.
fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else if entry.file_name() != "server.log" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn values_of_modules_go_by_payloads() {
    for (family, changes) in CHANGES {
        for (from, to) in pairs(family) {
            let what = format!("{family}: payloads from {} to {}", from.name(), to.name());
            println!("{what}");
            let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let servers = [from.start(directories[0].path()), to.start(directories[1].path())];
            let [mut source, mut target] = servers.each_ref().map(connect);
            assert!(fill_family(&mut source, family));
            for db in ["SELECT 0", "SELECT 3"] {
                ask(&mut source, db);
                ask(&mut target, db);
                for key in ask(&mut source, "KEYS *").items().unwrap() {
                    let key = key.text().unwrap();
                    let payload = source.command(&[b"DUMP", key]).unwrap();
                    let at = source.command(&[b"PEXPIRETIME", key]).unwrap().integer().unwrap().max(0);
                    let at = at.to_string();
                    let words = [b"RESTORE", key, at.as_bytes(), payload.text().unwrap(), b"ABSTTL"];
                    let reply = target.command(&words).unwrap();
                    assert!(!reply.is_error(), "{what}, {}: {reply:?}", key.escape_ascii());
                }
            }
            if *family != "TS.ADD" {
                go_on_alike([&servers[0], &servers[1]], changes, &what);
                continue;
            }
            // A restored series has no rules, and so no open buckets.
            let [left, right] = [&mut source, &mut target].map(|client| replies(client, RESTORED));
            assert_same(&right, &left, &what);
        }
    }
}

#[test]
fn values_of_modules_reach_replicas() {
    for (family, changes) in CHANGES {
        for (primary, replica) in pairs(family) {
            let what = format!("{family}: {} to its replica {}", primary.name(), replica.name());
            println!("{what}");
            let options = ["--repl-diskless-sync-delay", "0"];
            let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let first = primary.with(&options).start(directories[0].path());
            let second = replica.with(&options).start(directories[1].path());
            assert!(fill_family(&mut connect(&first), family));
            let before = facts(&first);
            run(&second, &format!("REPLICAOF 127.0.0.1 {}", first.address().port()));
            let info =
                |server: &Server| String::from_utf8_lossy(run(server, "INFO").text().unwrap()).into_owned();
            until(&format!("{what}: the link is up"), || info(&second).contains("master_link_status:up"));
            assert_same(&facts(&second), &before, &what);
            replies(&mut connect(&first), changes);
            run(&first, "SET last 1");
            until(&format!("{what}: the last change is there"), || {
                run(&second, "EXISTS last").integer() == Some(1)
            });
            assert_same(&facts(&second), &facts(&first), &format!("{what}, changed"));
        }
    }
}
