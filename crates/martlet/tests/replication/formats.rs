//! Full syncs between servers that do not read the same versions of the RDB format: each replica gets one
//! that it reads, waits while none holds the data, and keeps its own data if it cannot read the primary's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;

use super::channels_replica::{peers, start};
use super::diskless::FOREIGN;
use super::replica::{ask, ours};
use super::{OURS, PATIENCE, info, run, start_ours, text, wait_until};

const TIMED: [&str; 3] = ["HSET h a 1 b 2", "HPEXPIREAT h 4000000000000 FIELDS 1 a", "SET s x"];

/// Servers with fields that expire, each with the parameter for a second connection.
fn peers_with_times() -> Vec<(String, &'static str)> {
    let mut all = peers();
    let has_valkey = all.iter().any(|(_, parameter)| parameter.starts_with("--dual"));
    if !has_valkey && is_installed("valkey-server") {
        all.push(("valkey-server".into(), "--dual-channel-replication-enabled"));
    }
    let has_times = |(path, parameter): &(String, &'static str)| {
        let (server, _) = start(path, parameter, &[]);
        !run(&server, "HPEXPIREAT none 1 FIELDS 1 f").is_error()
    };
    all.retain(has_times);
    all
}

fn assert_timed(primary: &Server, replica: &Server, what: &str) {
    wait_until("the link is up", || info(replica, "master_link_status") == "up");
    let both = [primary, replica].map(|server| {
        let fields = text(&run(server, "HGETALL h")).split(' ').map(str::to_owned).collect::<Vec<_>>();
        (fields, text(&run(server, "HPEXPIRETIME h FIELDS 2 a b")), text(&run(server, "GET s")))
    });
    assert_eq!(both[0].1, "4000000000000 -1", "{what}");
    assert_eq!(both[0], both[1], "{what}");
    assert_eq!(info(primary, "sync_full"), "1", "{what}: {}", primary.log());
}

/// Redis 7.4 to 8 and Valkey 9 write such hashes in forms that the other refuses.
#[test]
fn fields_that_expire_cross_to_each_peer_and_back() {
    for (path, parameter) in peers_with_times() {
        for (diskless, channel) in [("yes", "no"), ("no", "no"), ("yes", "yes")] {
            let what = format!("{path} {diskless} {channel}");
            let shared = ["--repl-diskless-sync", diskless, "--save", ""];
            let theirs = |server: &Server| {
                let name = parameter.trim_start_matches('-');
                assert_eq!(text(&run(server, &format!("CONFIG SET {name} {channel}"))), "OK");
            };
            let own = || start_ours(&[&["--repl-rdb-channel", channel][..], &shared].concat());
            let (primary, (replica, _)) = (own(), start(&path, parameter, &shared));
            theirs(&replica);
            TIMED.iter().for_each(|line| assert!(!run(&primary, line).is_error()));
            super::follow(&replica, primary.address());
            assert_timed(&primary, &replica, &what);

            let ((primary, _), replica) = (start(&path, parameter, &shared), own());
            theirs(&primary);
            TIMED.iter().for_each(|line| assert!(!run(&primary, line).is_error()));
            super::follow(&replica, primary.address());
            assert_timed(&primary, &replica, &what);
        }
    }
}

/// A replica's connection that says `line` and asks for the data set.
fn ask_for_data(primary: &Server, line: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(primary.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    reader.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    reader.read_line(&mut answer).unwrap();
    assert_eq!(answer, "+OK\r\n");
    reader.get_mut().write_all(b"PSYNC ? -1\r\n").unwrap();
    reader
}

/// The first bytes of the data set.
fn signature(replica: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    while !line.starts_with('$') {
        line.clear();
        assert_ne!(replica.read_line(&mut line).unwrap(), 0);
    }
    let mut start = [0; 9];
    replica.read_exact(&mut start).unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

#[test]
fn each_replica_gets_a_version_that_it_reads_or_waits_for_one() {
    let primary = start_ours(&["--save", ""]);
    TIMED.iter().for_each(|line| assert!(!run(&primary, line).is_error()));
    let introduction = |more: &str| format!("REPLCONF capa eof capa psync2 {more}");
    // All at once: each kind gets a snapshot of its own.
    let mut valkey_8 = ask_for_data(&primary, &introduction("version 8.1.4"));
    let mut replicas: Vec<_> = [
        ("", "REDIS0012"),
        ("version 9.1.2", "VALKEY080"),
        ("version 9.1.0 capa martlet", "REDIS0012"),
        ("version 9.0.0", "VALKEY080"),
        ("version 7.1.0", "REDIS0012"),
    ]
    .map(|(more, expected)| (ask_for_data(&primary, &introduction(more)), expected))
    .into();
    for (replica, expected) in &mut replicas {
        assert_eq!(signature(replica), *expected);
    }
    let why = "it reads RDB versions up to 11, and none of them holds hashes whose fields expire";
    wait_until("it waits", || info(&primary, "replica_full_sync_error") == why);
    assert!(info(&primary, "slave0").contains("state=wait_bgsave"));
    // It is kept alive, and gets the data as soon as it can be sent.
    wait_until("another try", || {
        let line = format!("{why}\n");
        primary.log().matches(&line).count() == 1
    });
    let mut newline = [0];
    valkey_8.read_exact(&mut newline).unwrap();
    assert_eq!(&newline, b"\n");
    assert_eq!(text(&run(&primary, "HPERSIST h FIELDS 1 a")), "1");
    assert_eq!(text(&run(&primary, "COPY h g")), "1");
    assert_eq!(text(&run(&primary, "DEL h")), "1");
    assert_eq!(signature(&mut valkey_8), "REDIS0010");
    assert_eq!(info(&primary, "replica_full_sync_error"), "");
    assert_eq!(primary.log().matches(why).count(), 1, "the log has it once");

    // No version of Valkey's holds this.
    assert!(!run(&primary, "XADD x IDMP p i * f v").is_error());
    let _valkey_9 = ask_for_data(&primary, &introduction("version 9.1.2"));
    let why =
        "it reads RDB versions up to 11 and 80, and none of them holds streams with idempotency records";
    wait_until("it waits", || info(&primary, "replica_full_sync_error") == why);
    // The others are served.
    let mut redis = ask_for_data(&primary, &introduction(""));
    assert_eq!(signature(&mut redis), "REDIS0013");
}

/// A primary that sends each replica the same data set; counts the syncs.
fn false_primary(data_set: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, syncs) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counter = syncs.clone();
    let serve = move |stream: TcpStream| -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            let word = line.trim_end().to_owned();
            line.clear();
            let answer = match word.as_str() {
                "PING" => "+PONG\r\n".to_owned(),
                "REPLCONF" => "+OK\r\n".to_owned(),
                "PSYNC" => {
                    counter.fetch_add(1, Ordering::SeqCst);
                    format!("+FULLRESYNC {FOREIGN} 0\r\n${}\r\n", data_set.len())
                }
                _ => continue,
            };
            reader.get_mut().write_all(answer.as_bytes())?;
            if word == "PSYNC" {
                reader.get_mut().write_all(&data_set)?;
            }
        }
        Ok(())
    };
    // It ends with the test's process.
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(serve(stream))));
    (port, syncs)
}

/// A data set that cannot be read costs a replica neither its data nor its file.
#[test]
fn a_replica_keeps_its_data_if_it_cannot_read_the_primarys() {
    for load in ["disabled", "on-empty-db", "swapdb", "flush-before-load"] {
        for (data_set, why) in [
            (b"REDIS9999\xff\0\0\0\0\0\0\0\0".to_vec(), "Can't handle RDB format version 9999"),
            (b"VALKEY999\xff\0\0\0\0\0\0\0\0".to_vec(), "Can't handle RDB format version 999"),
            (b"PICKLE001\xff\0\0\0\0\0\0\0\0".to_vec(), "wrong signature"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let options = ["server", "--enable-debug-command", "yes", "--repl-diskless-load", load];
            let replica = Server::start_in(directory.path(), Path::new(OURS), &options).unwrap();
            assert_eq!(text(&run(&replica, "SET mine 1")), "OK");
            assert_eq!(text(&run(&replica, "SAVE")), "OK");
            let file = std::fs::read(directory.path().join("dump.rdb")).unwrap();
            let (port, syncs) = false_primary(data_set);
            assert_eq!(text(&run(&replica, &format!("REPLICAOF 127.0.0.1 {port}"))), "OK");
            wait_until("a second try", || syncs.load(Ordering::SeqCst) > 1);
            wait_until("INFO says why", || info(&replica, "master_full_sync_error").starts_with(why));
            assert_eq!(text(&run(&replica, "GET mine")), "1", "{load} {why}");
            assert_eq!(std::fs::read(directory.path().join("dump.rdb")).unwrap(), file, "{load} {why}");
            assert_eq!(replica.logged(why, 1), 1, "{load}: {}", replica.log());
            assert_eq!(text(&run(&replica, "REPLICAOF NO ONE")), "OK");
            assert_eq!(info(&replica, "master_full_sync_error"), "");
        }
    }
}

/// As soon as the data set can be read, nothing is left of the error.
#[test]
fn a_data_set_that_can_be_read_ends_the_error() {
    let (port, _) = false_primary(b"REDIS0099\xff\0\0\0\0\0\0\0\0".to_vec());
    let (replica, mut client) = ours(&[]);
    assert_eq!(ask(&mut client, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    wait_until("INFO says why", || !info(&replica, "master_full_sync_error").is_empty());
    let primary = start_ours(&[]);
    assert_eq!(text(&run(&primary, "SET there 1")), "OK");
    super::follow(&replica, primary.address());
    super::wait_for_link(&replica);
    assert_eq!(info(&replica, "master_full_sync_error"), "");
    assert_eq!(ask(&mut client, "GET there"), "1");
}
