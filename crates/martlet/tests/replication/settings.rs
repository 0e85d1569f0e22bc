//! Settings of primaries and replicas beside the data.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::encode_request;
use martlet_testkit::server::Server;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::diskless::{FOREIGN, false_primary};
use super::replica::{ask, assert_equal, field, follow, ours, ours_in};
use super::{OURS, info, wait_until};

/// A snapshot without keys, of a known length.
const EMPTY: &[u8] = b"$18\r\nREDIS0010\xff\0\0\0\0\0\0\0\0";

fn directory(client: &mut Client) -> PathBuf {
    ask(client, "CONFIG GET dir").strip_prefix("dir ").unwrap().into()
}

#[test]
fn what_a_full_sync_removes_counts_as_freed_in_the_background_if_asked_for() {
    let (server, _primary) = ours(&[]);
    for load in ["disabled", "swapdb", "flush-before-load"] {
        for (lazy, freed) in [("no", "0"), ("yes", "1000")] {
            let (own, mut replica) = ours(&["--repl-diskless-load", load, "--replica-lazy-flush", lazy]);
            ask(&mut replica, "DEBUG POPULATE 1000");
            follow(&mut replica, server.address().port());
            assert_eq!(ask(&mut replica, "DBSIZE"), "0");
            wait_until("all is freed", || info(&own, "lazyfree_pending_objects") == "0");
            assert_eq!(info(&own, "lazyfreed_objects"), freed, "{load} {lazy}");
        }
    }
}

#[test]
fn files_of_a_sync_go_where_nothing_is_to_be_on_disk() {
    const OF_PRIMARY: &str = "Removing the RDB file used to feed replicas in a persistence-less instance";
    const OF_REPLICA: &str =
        "Removing the RDB file obtained from the master. This replica has persistence disabled";
    let options = ["--rdb-del-sync-files", "yes", "--repl-diskless-sync", "no"];
    let (server, mut primary) = ours(&options);
    ask(&mut primary, "DEBUG POPULATE 1000");
    let file_of = |client: &mut Client| directory(client).join("dump.rdb");
    let (keeps, mut keeping) = ours(&[&options[..], &["--appendonly", "yes"]].concat());
    follow(&mut keeping, server.address().port());
    let (goes, mut losing) = ours(&options);
    follow(&mut losing, server.address().port());
    assert_equal(&mut primary, &mut losing);
    wait_until("the end of the files", || {
        server.log().contains(OF_PRIMARY) && goes.log().contains(OF_REPLICA)
    });
    wait_until("no file", || !file_of(&mut primary).exists() && !file_of(&mut losing).exists());
    assert!(file_of(&mut keeping).exists() && !keeps.log().contains(OF_REPLICA));
    // A file that was saved otherwise stays, and so does a file of a sync where that is not requested.
    assert_eq!(ask(&mut primary, "SAVE"), "OK");
    ask(&mut primary, "CONFIG SET rdb-del-sync-files no");
    let (_other, mut other) = ours(&[]);
    follow(&mut other, server.address().port());
    assert!(file_of(&mut primary).exists() && file_of(&mut other).exists());
}

/// Whether the kernel of a process sends small pieces at once over its connection to `peer`.
fn sends_at_once(server: &Server, peer: SocketAddr) -> bool {
    let process = pidfd_open(Pid::from_raw(server.pid() as i32).unwrap(), PidfdFlags::empty()).unwrap();
    let found = (3..200).find_map(|number| {
        let socket = TcpStream::from(pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()?);
        (socket.peer_addr().ok()? == peer).then(|| socket.nodelay().unwrap())
    });
    found.unwrap()
}

#[test]
fn packets_to_replicas_are_gathered_if_asked_for() {
    for io in ["epoll", "uring"] {
        for (disables, at_once) in [("yes", false), ("no", true)] {
            let options = ["--repl-disable-tcp-nodelay", disables, "--io-backend", io];
            let (server, _primary) = ours(&options);
            let mut replica = Client::connect(server.address()).unwrap();
            assert_eq!(ask(&mut replica, "REPLCONF capa eof"), "OK");
            let here = replica.stream().local_addr().unwrap();
            assert!(sends_at_once(&server, here));
            replica.send_raw(b"PSYNC ? -1\r\n").unwrap();
            assert!(super::text(&replica.read_reply().unwrap()).starts_with("FULLRESYNC"));
            wait_until("data", || replica.read_raw(1).is_ok());
            assert_eq!(sends_at_once(&server, here), at_once, "{io}");
        }
    }
}

#[test]
fn a_replica_whose_disk_refuses_ends_or_goes_on_as_asked_for() {
    for ignores in ["yes", "no"] {
        let (server, mut primary) = ours(&[]);
        let dir = tempfile::tempdir().unwrap();
        let options = ["--save", "900 1", "--replica-ignore-disk-write-errors", ignores];
        let (own, mut replica) =
            ours_in(dir.path(), &[&options[..], &["--enable-protected-configs", "yes"]].concat());
        follow(&mut replica, server.address().port());
        std::fs::create_dir(dir.path().join("taken")).unwrap();
        assert_eq!(ask(&mut replica, "CONFIG SET dbfilename taken"), "OK");
        ask(&mut replica, "BGSAVE");
        wait_until("the failure", || info(&own, "rdb_last_bgsave_status") == "err");
        ask(&mut primary, "SET k v");
        if ignores == "yes" {
            assert_equal(&mut primary, &mut replica);
            let line = "Replica is applying a command even though it is unable to write to disk.";
            assert_eq!(own.logged(line, 1), 1);
            assert!(ask(&mut replica, "CONFIG SET replica-read-only no; SET a b").starts_with("ERR"));
        } else {
            let (status, log) = own.end().unwrap();
            assert!(!status.success());
            assert!(log.contains("Replica was unable to write command to disk."), "{log}");
        }
    }
}

/// A stream with a command that fails.
fn damaged_stream() -> Vec<u8> {
    let mut out = Vec::new();
    for words in [&["SET", "s", "text"][..], &["LPUSH", "s", "1"], &["SET", "after", "1"]] {
        encode_request(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(), &mut out);
    }
    out
}

#[test]
fn a_failed_command_of_the_primary_ends_the_process_if_asked_for() {
    for behavior in ["ignore", "panic-on-replicas", "panic"] {
        let (own, mut replica) = ours(&["--propagation-error-behavior", behavior]);
        let start = format!("+FULLRESYNC {FOREIGN} 0\r\n").into_bytes();
        let mut socket = false_primary(&mut replica, &[&start, EMPTY].concat());
        wait_until("the link", || field(&mut replica, "master_link_status") == "up");
        socket.write_all(&damaged_stream()).unwrap();
        let said = "sending an error to its master: 'WRONGTYPE";
        if behavior == "ignore" {
            wait_until("what follows", || ask(&mut replica, "EXISTS after") == "1");
            assert_eq!(info(&own, "unexpected_error_replies"), "1");
            assert!(own.logged(said, 1) > 0);
        } else {
            let (status, log) = own.end().unwrap();
            let panic =
                "This replica panicked sending an error to its master after processing the command 'LPUSH'";
            assert!(!status.success() && log.contains(said) && log.contains(panic), "{log}");
        }
    }
}

#[test]
fn a_failed_command_of_the_append_only_file_likewise() {
    for behavior in ["ignore", "panic-on-replicas", "panic"] {
        let (own, mut client) = ours(&["--appendonly", "yes", "--propagation-error-behavior", behavior]);
        let path = directory(&mut client).join("appendonlydir").join("appendonly.aof.1.incr.aof");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n").unwrap();
        file.write_all(&damaged_stream()).unwrap();
        if behavior == "panic" {
            client.send_raw(b"DEBUG LOADAOF\r\n").unwrap();
            let (status, log) = own.end().unwrap();
            let panic = "This AOF-loading-client panicked sending an error to its server after processing the command 'lpush'";
            assert!(!status.success() && log.contains(panic), "{log}");
        } else {
            assert_eq!(ask(&mut client, "DEBUG LOADAOF"), "OK");
            assert_eq!(ask(&mut client, "EXISTS after"), "1");
            assert_eq!(info(&own, "unexpected_error_replies"), "1");
        }
    }
}

#[test]
fn who_asks_for_functions_only_gets_nothing_else() {
    for diskless in ["yes", "no"] {
        let (server, mut primary) = ours(&["--repl-diskless-sync", diskless]);
        ask(&mut primary, "DEBUG POPULATE 1000");
        let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
        primary.command(&["FUNCTION", "LOAD", library]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dump.rdb");
        let port = server.address().port().to_string();
        let programs: &[&[&str]] = &[&[OURS, "cli"], &["redis-cli"]];
        for program in programs {
            let mut command = Command::new(program[0]);
            command.args(&program[1..]).args(["-p", &port, "--functions-rdb"]).arg(&file);
            let Ok(out) = command.output() else { continue };
            assert!(out.status.success(), "{out:?}");
            let (_loaded, mut loaded) = ours_in(dir.path(), &[]);
            assert_eq!(ask(&mut loaded, "DBSIZE"), "0");
            assert_eq!(ask(&mut loaded, "FCALL f 0"), "1");
        }
        // Not even functions, and beside a replica that wants all.
        let mut client = Client::connect(server.address()).unwrap();
        for line in ["REPLCONF capa eof", "REPLCONF rdb-only 1", "REPLCONF rdb-filter-only \"\""] {
            client.send_raw(format!("{line}\r\n").as_bytes()).unwrap();
            assert_eq!(super::text(&client.read_reply().unwrap()), "OK");
        }
        client.send_raw(b"SYNC\r\n").unwrap();
        let (_own, mut replica) = ours(&[]);
        follow(&mut replica, server.address().port());
        assert_equal(&mut primary, &mut replica);
        let sent = client.read_to_end().unwrap();
        assert!(sent.len() < 500 && sent.windows(5).any(|bytes| bytes == b"REDIS"), "{}", sent.len());
        let mut client = Client::connect(server.address()).unwrap();
        for (line, answer) in [
            ("REPLCONF rdb-filter-only keys", "ERR Unsupported rdb-filter-only option: keys"),
            ("REPLCONF rdb-filter-only 'a\"b'", "ERR Missing rdb-filter-only values"),
            ("REPLCONF rdb-filter-only functions", "OK"),
            ("SYNC", "ERR Filtered replica requires EOF capability"),
        ] {
            client.send_raw(format!("{line}\r\n").as_bytes()).unwrap();
            assert_eq!(super::text(&client.read_reply().unwrap()), answer);
        }
    }
}

/// `oom-score-adj-values` has one for primaries and one for replicas: the score follows REPLICAOF.
#[test]
fn the_kernels_score_follows_the_role() {
    let values = ["--oom-score-adj", "absolute", "--oom-score-adj-values", "600", "700", "800"];
    let (server, mut client) = ours(&values);
    let pid = info(&server, "process_id");
    let score = || std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().to_owned();
    assert_eq!(score(), "600");
    assert_eq!(ask(&mut client, "REPLICAOF 127.0.0.1 1"), "OK");
    assert_eq!(score(), "700");
    assert_eq!(ask(&mut client, "REPLICAOF NO ONE"), "OK");
    assert_eq!(score(), "600");
}
