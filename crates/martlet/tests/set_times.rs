//! Expiry times of set members, in whole processes: they survive every kind of file, and a replica deletes
//! what its primary does.

use std::path::Path;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use martlet_testkit::wait::until;

fn start(directory: &Path, arguments: &[&str]) -> Server {
    let mut all = vec!["server", "--enable-debug-command", "yes", "--save", ""];
    all.extend(arguments);
    Server::start_in(directory, Path::new(env!("CARGO_BIN_EXE_martlet")), &all).unwrap()
}

fn command(client: &mut Client, line: &str) -> Reply {
    client.command(&line.split(' ').collect::<Vec<_>>()).unwrap()
}

fn run(client: &mut Client, line: &str) -> String {
    let reply = command(client, line);
    match (&reply, reply.integer()) {
        (Reply::Error(text), _) => format!("Error {}", String::from_utf8_lossy(text)),
        (_, Some(number)) => number.to_string(),
        _ => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

fn numbers(client: &mut Client, line: &str) -> Vec<i64> {
    let reply = command(client, line);
    reply.items().unwrap_or_else(|| panic!("{line}: {reply:?}")).iter().filter_map(Reply::integer).collect()
}

/// Small, large and integer sets, of which members expire.
fn fill(client: &mut Client) {
    for i in 0..400 {
        run(client, &format!("SADD plain m{i}"));
        run(client, &format!("SADDEX large PXAT {} MEMBERS 1 m{i}", 4_000_000_000_000_i64 + i));
    }
    run(client, "SADD large lasting");
    run(client, "SADD small a b c");
    run(client, "SPEXPIREAT small 4000000000123 MEMBERS 2 a b");
    run(client, "SADD ints 1 2 3");
    run(client, "SEXPIREAT ints 4000000000 MEMBERS 1 2");
}

fn check(client: &mut Client, after: &str) {
    for (line, times) in [
        ("SPEXPIRETIME small MEMBERS 3 a b c", vec![4_000_000_000_123, 4_000_000_000_123, -1]),
        ("SPEXPIRETIME large MEMBERS 3 m0 m399 lasting", vec![4_000_000_000_000, 4_000_000_000_399, -1]),
        ("SPEXPIRETIME ints MEMBERS 2 2 3", vec![4_000_000_000_000, -1]),
        ("SPEXPIRETIME plain MEMBERS 1 m7", vec![-1]),
    ] {
        assert_eq!(numbers(client, line), times, "{after}: {line}");
    }
    for (key, encoding) in [("small", "listpackex"), ("ints", "listpackex"), ("large", "hashtable")] {
        assert_eq!(run(client, &format!("OBJECT ENCODING {key}")), encoding, "{after}");
    }
    assert_eq!(run(client, "SCARD large"), "401", "{after}");
    assert!(run(client, "INFO keyspace").contains("subexpiry=3"), "{after}");
}

#[test]
fn times_survive_every_file() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
    let mut server = start(directory.path(), &arguments);
    let mut client = Client::connect(server.address()).unwrap();
    fill(&mut client);
    check(&mut client, "commands");
    for preamble in ["none", "yes", "no"] {
        if preamble != "none" {
            run(&mut client, &format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
            assert!(run(&mut client, "BGREWRITEAOF").contains("ewriting"));
            until("the rewrite ends", || {
                run(&mut client, "INFO persistence").contains("aof_rewrite_in_progress:0")
            });
            assert!(run(&mut client, "INFO persistence").contains("aof_last_bgrewrite_status:ok"));
        }
        let _ = client.command(&["SHUTDOWN"]);
        assert!(server.wait().unwrap());
        server = start(directory.path(), &arguments);
        client = Client::connect(server.address()).unwrap();
        check(&mut client, &format!("append-only file, preamble {preamble}"));
    }
    assert_eq!(run(&mut client, "DEBUG RELOAD"), "OK");
    check(&mut client, "RDB file");
    let file = std::fs::read(directory.path().join("dump.rdb")).unwrap();
    assert_eq!(&file[..9], b"REDIS0017");
    run(&mut client, "CONFIG SET rdb-version 14");
    assert!(run(&mut client, "SAVE").starts_with("Error"));
    assert!(server.logged("database 0 has sets whose members expire", 1) > 0, "{}", server.log());
    run(&mut client, "DEL small large ints");
    assert_eq!(run(&mut client, "SAVE"), "OK");
}

#[test]
fn a_replica_deletes_what_its_primary_does() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let primary = start(directories[0].path(), &["--repl-diskless-sync-delay", "0"]);
    let mut client = Client::connect(primary.address()).unwrap();
    fill(&mut client);
    let of = format!("127.0.0.1 {}", primary.address().port());
    let replica = start(directories[1].path(), &["--replicaof", &of]);
    let mut reader = Client::connect(replica.address()).unwrap();
    until("the link is up", || run(&mut reader, "INFO replication").contains("master_link_status:up"));
    check(&mut reader, "full sync");
    run(&mut client, "SPERSIST small MEMBERS 1 b");
    run(&mut client, "SADDEX short PX 30 MEMBERS 2 x y");
    run(&mut client, "SADD short stays");
    until("the replica has it", || run(&mut client, "WAIT 1 1000") == "1");
    assert_eq!(numbers(&mut reader, "SPEXPIRETIME small MEMBERS 2 a b"), [4_000_000_000_123, -1]);
    until("the replica deletes the members", || run(&mut reader, "INFO keyspace").contains("subexpiry=3"));
    assert_eq!(run(&mut reader, "SCARD short"), "1");
    let stats = run(&mut client, "INFO stats");
    assert!(stats.contains("expired_subkeys:2\r\n") && stats.contains("expired_subkeys_active:"), "{stats}");
}

/// A replay keeps absolute times, also where a value or a member spells a relative time's option. Requests
/// from before such a time run as they did then.
#[test]
fn absolute_times_are_replayed_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--appendonly", "yes"];
    let server = start(directory.path(), &arguments);
    let mut client = Client::connect(server.address()).unwrap();
    run(&mut client, "SET marker v PX 500");
    let at_ms = run(&mut client, "PEXPIRETIME marker");
    for line in ["SET k px PXAT", "SADDEX s PXAT", "HSETEX h PXAT"] {
        let rest = match line.as_bytes()[1] {
            b'A' => " MEMBERS 1 ex",
            b'S' => " FIELDS 1 px ex",
            _ => "",
        };
        let reply = run(&mut client, &format!("{line} {at_ms}{rest}"));
        assert!(!reply.starts_with("Error"), "{line}: {reply}");
    }
    for (line, done) in [("PERSIST k", "1"), ("SMOVE s d ex", "1")] {
        assert_eq!(run(&mut client, line), done, "{line}");
    }
    assert_eq!(numbers(&mut client, "HPERSIST h FIELDS 1 px"), [1]);
    until("the time passes", || run(&mut client, "EXISTS marker") == "0");
    let _ = client.command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());
    let server = start(directory.path(), &arguments);
    let mut client = Client::connect(server.address()).unwrap();
    for (line, reply) in [("GET k", "px"), ("SISMEMBER d ex", "1"), ("HGET h px", "ex"), ("DBSIZE", "3")] {
        assert_eq!(run(&mut client, line), reply, "{line}");
    }
}
