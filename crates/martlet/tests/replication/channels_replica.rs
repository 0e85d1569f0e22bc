//! This server takes a full sync over two connections (`repl-rdb-channel`), in Redis' dialect and Valkey's:
//! from false primaries, from its own kind, and from the servers that `MARTLET_REPLICATION_PEERS` names.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

use super::diskless::FOREIGN;
use super::replica::{ask, assert_equal, field, ours, with_client, write_something};
use super::{PATIENCE, info, wait_until};

const MARK: &str = "aabbccddeeffaabbccddeeffaabbccddeeffaabb";
/// A data set with the key `k`, whose value is `v`.
const DATA_SET: &[u8] = b"REDIS0010\xfe\x00\xfb\x01\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
const STREAM: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$6\r\nduring\r\n$1\r\n1\r\n";

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Dialect {
    Redis,
    Valkey,
}

/// A primary's messages on its two connections, in their order.
struct Script {
    handshake: Vec<u8>,
    announcement: Vec<u8>,
    stream: Vec<u8>,
    data_set: Vec<u8>,
}

impl Script {
    fn new(dialect: Dialect) -> Script {
        let (sync, announcement, answers) = match dialect {
            Dialect::Redis => ("+RDBCHANNELSYNC 17", format!("+FULLRESYNC {FOREIGN} 10"), String::new()),
            Dialect::Valkey => (
                "+DUALCHANNELSYNC",
                format!("$ENDOFF:10 {FOREIGN} 0 99"),
                format!("+OK\r\n+CONTINUE {FOREIGN}\r\n"),
            ),
        };
        Script {
            handshake: format!("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n{sync}\r\n").into(),
            announcement: format!("+OK\r\n\n{announcement}\r\n").into(),
            stream: [answers.as_bytes(), STREAM].concat(),
            data_set: [format!("$EOF:{MARK}\r\n").as_bytes(), DATA_SET, MARK.as_bytes()].concat(),
        }
    }
}

/// A primary's end of a replica's connections.
struct FalsePrimary {
    listener: TcpListener,
    main: TcpStream,
}

impl FalsePrimary {
    /// Has the replica follow it, and answers the handshake so far.
    fn begin(replica: &mut Client, said: &[u8]) -> FalsePrimary {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(ask(replica, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
        let main = accept(&listener);
        (&main).write_all(said).unwrap();
        FalsePrimary { listener, main }
    }
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Reads until the input contains `end`; returns all of it.
fn read_until(socket: &TcpStream, end: &str) -> String {
    let mut all = String::new();
    while !all.contains(end) {
        let mut bytes = [0; 4096];
        let count = match (&*socket).read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            count => count.unwrap(),
        };
        assert_ne!(count, 0, "{all}");
        all.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    all
}

/// The words of requests, without their lengths.
fn words(requests: &str) -> String {
    let words: Vec<&str> = requests.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
    words.join(" ").trim().to_owned()
}

/// Waits until the other end has closed a connection.
fn await_end(mut socket: &TcpStream) {
    // It may also end with a reset.
    let _ = socket.read_to_end(&mut Vec::new());
}

#[test]
fn a_primary_hears_of_both_connections_what_its_dialect_wants() {
    for dialect in [Dialect::Redis, Dialect::Valkey] {
        for load in ["disabled", "swapdb", "flush-before-load"] {
            let options = ["--repl-rdb-channel", "yes", "--repl-diskless-load", load, "--masterauth", "pw"];
            let (own, mut replica) = ours(&options);
            ask(&mut replica, "SET mine 1");
            let script = Script::new(dialect);
            let handshake = [b"+PONG\r\n+OK\r\n".as_slice(), &script.handshake[7..]].concat();
            let FalsePrimary { listener, main } = FalsePrimary::begin(&mut replica, &handshake);
            let said = words(&read_until(&main, "\r\n$1\r\n1\r\n"));
            assert!(said.contains("capa eof capa psync2 capa rdb-channel-repl capa dual-channel "), "{said}");
            let channel = accept(&listener);
            (&channel).write_all(&[b"+OK\r\n".as_slice(), &script.announcement].concat()).unwrap();
            let port = own.address().port();
            let (id, request, end) = match dialect {
                Dialect::Redis => ("main-ch-client-id 17 ", "PSYNC ? -1", "-1\r\n"),
                Dialect::Valkey => ("", "version 9.1.0 capa martlet SYNC", "SYNC\r\n"),
            };
            assert_eq!(
                words(&read_until(&channel, end)),
                format!(
                    "AUTH pw REPLCONF capa eof rdb-only 1 rdb-channel 1 {id}listening-port {port} {request}"
                )
            );
            let mut stream = script.stream.as_slice();
            if dialect == Dialect::Valkey {
                assert_eq!(words(&read_until(&main, "\r\n99\r\n")), "REPLCONF set-rdb-client-id 99");
                let accepted;
                (accepted, stream) = stream.split_at(b"+OK\r\n".len());
                (&main).write_all(accepted).unwrap();
                let asked = words(&read_until(&main, "\r\n11\r\n"));
                assert_eq!(asked, format!("PSYNC {FOREIGN} 11"));
            }
            (&main).write_all(stream).unwrap();
            wait_until("it has the stream", || info(&own, "replica_full_sync_buffer_size") != "0");
            assert_eq!(info(&own, "replicas_repl_buffer_size"), info(&own, "replica_full_sync_buffer_size"));
            assert_eq!(info(&own, "master_sync_in_progress"), "1");
            (&channel).write_all(&script.data_set).unwrap();
            // The end of the data set is the end of its connection, and nothing of the stream is lost.
            await_end(&channel);
            let offset = (10 + STREAM.len()).to_string();
            read_until(&main, &format!("ACK\r\n${}\r\n{offset}\r\n", offset.len()));
            assert_eq!(ask(&mut replica, "MGET k during mine"), "v 1 nil", "{}", own.log());
            assert_eq!(field(&mut replica, "master_link_status"), "up");
            let figures = [info(&own, "replica_full_sync_buffer_size"), info(&own, "slave_repl_offset")];
            assert_eq!(figures, ["0", offset.as_str()]);
            assert_ne!(info(&own, "replicas_repl_buffer_peak"), "0");
        }
    }
}

/// Either connection ends at any byte: the other does not outlive it, and the old data set stays.
#[test]
fn a_cut_of_either_connection_leaves_the_old_data() {
    for dialect in [Dialect::Redis, Dialect::Valkey] {
        for load in ["disabled", "swapdb"] {
            let (own, mut replica) = ours(&["--repl-rdb-channel", "yes", "--repl-diskless-load", load]);
            ask(&mut replica, "SET mine 1");
            let script = Script::new(dialect);
            let (first, second) = (script.handshake.len(), script.announcement.len());
            for at in (0..first + script.stream.len()).step_by(5) {
                let begun = &script.handshake[..at.min(first)];
                let FalsePrimary { listener, main } = FalsePrimary::begin(&mut replica, begun);
                if at < first {
                    main.shutdown(Shutdown::Both).unwrap();
                    continue;
                }
                let channel = accept(&listener);
                (&channel).write_all(&script.announcement).unwrap();
                (&main).write_all(&script.stream[..at - first]).unwrap();
                // All but the mark's last character.
                (&channel).write_all(&script.data_set[..script.data_set.len() - 1]).unwrap();
                main.shutdown(Shutdown::Write).unwrap();
                await_end(&channel);
                assert_eq!(ask(&mut replica, "MGET k mine"), "nil 1", "{at}\n{}", own.log());
            }
            for at in (0..second + script.data_set.len()).step_by(5) {
                let FalsePrimary { listener, main } = FalsePrimary::begin(&mut replica, &script.handshake);
                let channel = accept(&listener);
                (&channel).write_all(&script.announcement[..at.min(second)]).unwrap();
                if at >= second {
                    (&main).write_all(&script.stream).unwrap();
                    (&channel).write_all(&script.data_set[..at - second]).unwrap();
                }
                channel.shutdown(Shutdown::Write).unwrap();
                await_end(&main);
                assert_eq!(ask(&mut replica, "MGET k mine"), "nil 1", "{at}\n{}", own.log());
                assert_eq!(info(&own, "replica_full_sync_buffer_size"), "0");
            }
            // A new one is whole.
            let FalsePrimary { listener, main } = FalsePrimary::begin(&mut replica, &script.handshake);
            let channel = accept(&listener);
            (&channel).write_all(&script.announcement).unwrap();
            (&main).write_all(&script.stream).unwrap();
            (&channel).write_all(&script.data_set).unwrap();
            wait_until("the link", || field(&mut replica, "master_link_status") == "up");
            wait_until("the stream", || ask(&mut replica, "MGET k during mine") == "v 1 nil");
        }
    }
}

/// The first connection ends once all of the data set has come: the received part of the stream is applied,
/// and the replica asks for the rest.
#[test]
fn what_came_whole_is_kept_when_the_stream_breaks_off() {
    for load in ["disabled", "swapdb"] {
        let (own, mut replica) = ours(&["--repl-rdb-channel", "yes", "--repl-diskless-load", load]);
        let script = Script::new(Dialect::Redis);
        let FalsePrimary { listener, main } = FalsePrimary::begin(&mut replica, &script.handshake);
        let channel = accept(&listener);
        (&channel).write_all(&script.announcement).unwrap();
        (&main).write_all(&script.stream).unwrap();
        wait_until("it has the stream", || info(&own, "replica_full_sync_buffer_size") != "0");
        (&channel).write_all(&script.data_set).unwrap();
        await_end(&channel);
        main.shutdown(Shutdown::Both).unwrap();
        let again = accept(&listener);
        (&again).write_all(&script.handshake[..22]).unwrap();
        let next = 11 + STREAM.len();
        let asked = words(&read_until(&again, &format!("\r\n{next}\r\n")));
        assert!(asked.ends_with(&format!("PSYNC {FOREIGN} {next}")), "{asked}");
        assert_eq!(ask(&mut replica, "MGET k during"), "v 1");
    }
}

#[test]
fn garbage_by_either_connection_gets_a_line_in_the_log() {
    let (own, mut replica) = ours(&["--repl-rdb-channel", "yes", "--repl-diskless-load", "swapdb"]);
    ask(&mut replica, "SET mine 1");
    let (redis, valkey) = (Script::new(Dialect::Redis), Script::new(Dialect::Valkey));
    let announced = |script: &Script, said: &str| [&script.announcement[..], said.as_bytes()].concat();
    let cases: [(&Script, Vec<u8>, &[u8], &str); 7] = [
        (&redis, b"-ERR no\r\n".to_vec(), b"", "Master replied error to replconf: -ERR no"),
        (&redis, b"+OK\r\n+CONTINUE x\r\n".to_vec(), b"", "failed with error: +CONTINUE x"),
        (&redis, vec![b'x'; 200_000], b"", "is no line"),
        (&redis, announced(&redis, "garbage\r\n"), b"", "Bad protocol from MASTER"),
        (&valkey, b"+OK\r\n$ENDOFF:x\r\n".to_vec(), b"", "failed with error: $ENDOFF:x"),
        (&valkey, announced(&valkey, ""), b"-ERR who\r\n", "does not understand REPLCONF identify: -ERR who"),
        (&valkey, announced(&valkey, ""), b"+OK\r\n+FULLRESYNC x 1\r\n", "Main channel psync result +FULL"),
    ];
    for (script, by_channel, by_main, line) in cases {
        let FalsePrimary { listener, main } = FalsePrimary::begin(&mut replica, &script.handshake);
        let channel = accept(&listener);
        // The replica may have heard enough before all is sent.
        let _ = (&channel).write_all(&by_channel);
        (&main).write_all(by_main).unwrap();
        await_end(&channel);
        wait_until(line, || own.log().contains(line));
        assert_eq!(ask(&mut replica, "GET mine"), "1");
    }
}

/// Starts the second server with a second connection to the first for a data set that comes slowly, and
/// writes `bytes` to the first in that time.
fn sync_under_writes(primary: &mut Client, server: &Server, replica: &mut Client, bytes: usize) {
    ask(primary, "CONFIG SET rdbcompression no");
    ask(replica, &format!("REPLICAOF 127.0.0.1 {}", server.address().port()));
    wait_until("the sync", || field(replica, "master_sync_in_progress") == "1");
    let value = "x".repeat(100_000);
    for round in 0..bytes / value.len() {
        primary.command(&["SET", &format!("during:{round}"), &value]).unwrap();
    }
    for round in 50..60 {
        write_something(primary, round);
    }
}

fn fill(primary: &mut Client) {
    for round in 0..40 {
        write_something(primary, round);
    }
    ask(primary, "DEBUG POPULATE 2000 key 1000");
}

#[test]
fn the_stream_is_kept_while_the_data_set_comes() {
    for load in ["disabled", "on-empty-db", "flush-before-load", "swapdb"] {
        let (server, mut primary) = ours(&["--repl-rdb-channel", "yes"]);
        fill(&mut primary);
        let (own, mut replica) = ours(&["--repl-rdb-channel", "yes", "--repl-diskless-load", load]);
        ask(&mut primary, "CONFIG SET rdb-key-save-delay 50000");
        sync_under_writes(&mut primary, &server, &mut replica, 3_000_000);
        wait_until("the stream", || {
            info(&own, "replica_full_sync_buffer_size").parse::<u64>().unwrap() >= 3_000_000
        });
        assert_eq!(info(&own, "mem_replica_full_sync_buffer"), info(&own, "replica_full_sync_buffer_size"));
        ask(&mut primary, "CONFIG SET rdb-key-save-delay 0");
        assert_equal(&mut primary, &mut replica);
        assert_eq!(info(&server, "sync_full"), "1");
        assert_eq!(info(&own, "replica_full_sync_buffer_size"), "0");
        assert!(own.logged("Starting to stream replication buffer into the db", 1) > 0, "{}", own.log());
        // And later, as ever.
        write_something(&mut primary, 70);
        assert_equal(&mut primary, &mut replica);
        assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    }
}

/// Beyond the limit the stream is not read: the primary keeps it.
#[test]
fn no_more_of_the_stream_is_kept_than_the_limit_says() {
    for (name, value) in [
        ("--replica-full-sync-buffer-limit", "1mb"),
        ("--client-output-buffer-limit", "replica 1mb 0 0"),
        ("--replica-full-sync-buffer-limit", "1"),
    ] {
        let (server, mut primary) = ours(&["--repl-rdb-channel", "yes", "--repl-backlog-size", "100kb"]);
        fill(&mut primary);
        let (own, mut replica) = ours(&["--repl-rdb-channel", "yes", name, value]);
        ask(&mut primary, "CONFIG SET rdb-key-save-delay 50000");
        sync_under_writes(&mut primary, &server, &mut replica, 30_000_000);
        wait_until("the limit", || own.log().contains("Replication buffer limit has been reached"));
        ask(&mut primary, "CONFIG SET rdb-key-save-delay 0");
        assert_equal(&mut primary, &mut replica);
        let peak: u64 = info(&own, "replica_full_sync_buffer_peak").parse().unwrap();
        assert!(peak <= 1 << 20, "{peak}");
        assert_eq!(info(&server, "sync_full"), "1");
    }
}

/// A promotion while kept input waits: all of it is applied first. Input that the primary still has is not.
#[test]
fn what_was_kept_is_applied_before_a_promotion() {
    const KEPT: u64 = 20_000_000;
    let (server, mut primary) = ours(&["--repl-rdb-channel", "yes"]);
    fill(&mut primary);
    let (_own, mut replica) = ours(&["--repl-rdb-channel", "yes"]);
    ask(&mut primary, "CONFIG SET rdb-key-save-delay 50000");
    sync_under_writes(&mut primary, &server, &mut replica, KEPT as usize);
    wait_until("the stream", || {
        field(&mut replica, "replica_full_sync_buffer_size").parse::<u64>().unwrap() >= KEPT
    });
    ask(&mut primary, "CONFIG SET rdb-key-save-delay 0");
    wait_until("the link", || field(&mut replica, "master_link_status") == "up");
    assert_eq!(ask(&mut replica, "REPLICAOF NO ONE"), "OK");
    // Blocks of memory are at least 60 % full.
    let least = KEPT / 100_100 * 6 / 10;
    let there: Vec<bool> = (0..KEPT / 100_000)
        .map(|round| ask(&mut replica, &format!("EXISTS during:{round}")) == "1")
        .collect();
    let count = there.iter().filter(|is_there| **is_there).count();
    assert!(there[..count].iter().all(|is_there| *is_there), "{count}");
    assert!(count as u64 >= least, "{count} of {least}");
}

/// The servers of Redis 8 and Valkey 8 or later that `MARTLET_REPLICATION_PEERS` names, each with the name of
/// its parameter.
pub fn peers() -> Vec<(String, &'static str)> {
    let Some(paths) = std::env::var_os("MARTLET_REPLICATION_PEERS").filter(|paths| !paths.is_empty()) else {
        println!("MARTLET_REPLICATION_PEERS names no server");
        return Vec::new();
    };
    let found = std::env::split_paths(&paths).map(|path| {
        let version = std::process::Command::new(&path).arg("--version").output().unwrap().stdout;
        let is_valkey = String::from_utf8_lossy(&version).contains("Valkey");
        let name = if is_valkey { "--dual-channel-replication-enabled" } else { "--repl-rdb-channel" };
        (path.into_os_string().into_string().unwrap(), name)
    });
    found.collect()
}

/// Starts one of [`peers`] with its parameter on.
pub fn start(path: &str, parameter: &str, options: &[&str]) -> (Server, Client) {
    let mut all = vec!["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", parameter, "yes"];
    all.extend(options);
    with_client(Server::start(Path::new(path), &all).unwrap())
}

#[test]
fn real_primaries_send_by_two_connections() {
    for (path, parameter) in peers() {
        for load in ["disabled", "swapdb"] {
            let (server, mut primary) = start(&path, parameter, &[]);
            fill(&mut primary);
            let (own, mut replica) = ours(&["--repl-rdb-channel", "yes", "--repl-diskless-load", load]);
            // Its save continues at this pace to the end.
            ask(&mut primary, "CONFIG SET rdb-key-save-delay 3000");
            sync_under_writes(&mut primary, &server, &mut replica, 3_000_000);
            ask(&mut primary, "CONFIG SET rdb-key-save-delay 0");
            assert_equal(&mut primary, &mut replica);
            assert_ne!(info(&own, "replica_full_sync_buffer_peak"), "0", "{}", own.log());
            assert_eq!(info(&server, "sync_full"), "1", "{}", server.log());
            write_something(&mut primary, 70);
            assert_equal(&mut primary, &mut replica);
            // A broken link continues where it was.
            ask(&mut primary, "CLIENT KILL TYPE replica");
            write_something(&mut primary, 71);
            assert_equal(&mut primary, &mut replica);
            assert_eq!(info(&server, "sync_full"), "1");
        }
    }
}
