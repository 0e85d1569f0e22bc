//! Files and full syncs that are compressed as a whole, and path hashes through every kind of file: whole
//! processes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers;
use martlet_testkit::server::Server;

/// Longest wait for a state that has to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// An envelope of either codec, and how its frame begins.
const CODECS: [(&str, &[u8]); 2] =
    [("lz4", b"VCS\x01\x01\x00\x01\x04\x22\x4d\x18"), ("zstd", b"VCS\x01\x02\x00\x01\x28\xb5\x2f\xfd")];

fn try_start(directory: &Path, arguments: &[&str]) -> std::io::Result<Server> {
    let mut all = vec!["server", "--enable-debug-command", "yes", "--save", ""];
    all.extend(arguments);
    Server::start_in(directory, Path::new(env!("CARGO_BIN_EXE_martlet")), &all)
}

fn start(directory: &Path, arguments: &[&str]) -> Server {
    try_start(directory, arguments).unwrap()
}

fn run(server: &Server, line: &str) -> String {
    let mut client = Client::connect(server.address()).unwrap();
    let reply = client.command(&line.split(' ').collect::<Vec<_>>()).unwrap();
    match (&reply, reply.integer()) {
        (Reply::Error(text), _) => format!("Error {}", String::from_utf8_lossy(text)),
        (_, Some(number)) => number.to_string(),
        _ => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn info(server: &Server, field: &str) -> String {
    let text = run(server, "INFO everything");
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap_or("").to_owned()
}

/// Text that codecs shorten, numbers, path hashes, and a value of a kind that only Redis has.
fn fill(server: &Server) -> String {
    let mut client = Client::connect(server.address()).unwrap();
    for i in 0..3_000 {
        let (key, value) = (format!("key:{i}"), format!("a text that repeats itself {} ", i % 7).repeat(9));
        client.command(&["SET", &key, &value]).unwrap();
        client.command(&["HSET", &format!("h{}", i % 5), &key, &i.to_string()]).unwrap();
    }
    fill_paths(server);
    run(server, "DEBUG DIGEST")
}

fn fill_paths(server: &Server) {
    let mut client = Client::connect(server.address()).unwrap();
    for i in 0..300 {
        let path = "block".repeat(i % 30) + &i.to_string();
        client.command(&["PHSET", "paths", &path, "FIELDS", "2", "worker", &i.to_string(), "f", ""]).unwrap();
    }
    client.command(&["PHMSET", "empty", "a", "FIELDS", "1", "f", "v"]).unwrap();
    client.command(&["PHDEL", "empty", "a"]).unwrap();
    client.command(&["PHSET", "paths", "", "FIELDS", "1", "root", "value"]).unwrap();
    client.command(&["PEXPIREAT", "paths", "4000000000000"]).unwrap();
}

#[test]
fn a_file_of_each_codec_is_written_and_loads_again() {
    for (codec, begin) in CODECS {
        for checksum in ["yes", "no"] {
            let directory = tempfile::tempdir().unwrap();
            let options = ["--rdbcompression", codec, "--rdbchecksum", checksum, "--dbfilename", "d"];
            let server = start(directory.path(), &options);
            let digest = fill(&server);
            let file = directory.path().join("d");
            assert_eq!(run(&server, "CONFIG SET rdbcompression no"), "OK");
            run(&server, "SAVE");
            let plain = fs::metadata(&file).unwrap().len();
            assert_eq!(run(&server, &format!("CONFIG SET rdbcompression {codec}")), "OK");
            assert!(run(&server, "BGSAVE").contains("started"));
            until("the end of the save", || info(&server, "rdb_bgsave_in_progress") == "0");
            let bytes = fs::read(&file).unwrap();
            assert!(bytes.starts_with(begin), "{codec}: {:?}", &bytes[..12]);
            assert!((bytes.len() as u64) < plain / 3, "{codec}: {} of {plain}", bytes.len());
            assert_eq!(run(&server, "DEBUG RELOAD"), "OK", "{}", server.log());
            assert_eq!(run(&server, "DEBUG DIGEST"), digest);
            drop(server);
            let server = start(directory.path(), &options);
            assert_eq!(run(&server, "DEBUG DIGEST"), digest);
            drop(server);
            torn_files_are_refused(directory.path(), &file, &bytes, &options);
        }
    }
}

fn torn_files_are_refused(directory: &Path, file: &Path, bytes: &[u8], options: &[&str]) {
    for (at, reason) in
        [(bytes.len() / 2, "unexpected end"), (bytes.len() - 2, "unexpected end"), (9, "unexpected end")]
    {
        fs::write(file, &bytes[..at]).unwrap();
        let error = try_start(directory, options).err().expect("refused").to_string();
        assert!(error.contains(reason), "{options:?} cut at {at}: {error}");
    }
    if options.contains(&"yes") {
        let mut spoilt = bytes.to_vec();
        let last = spoilt.len() - 1;
        spoilt[last] ^= 1;
        fs::write(file, &spoilt).unwrap();
        let error = try_start(directory, options).err().expect("refused").to_string();
        assert!(error.contains("damaged compressed data"), "{options:?}: {error}");
    }
}

fn follow(replica: &Server, primary: &Server) {
    follow_at(replica, primary.address());
}

fn follow_at(replica: &Server, primary: SocketAddr) {
    run(replica, &format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    until("the link", || info(replica, "master_link_status") == "up");
}

fn assert_follows(replica: &Server, primary: &Server, what: &str) {
    run(primary, &format!("SET mark:{what} 1"));
    until(what, || run(replica, &format!("GET mark:{what}")) == "1");
    assert_eq!(run(replica, "DEBUG DIGEST"), run(primary, "DEBUG DIGEST"), "{what}");
}

/// Each codec, to memory and to disk, in one connection and two, by file and without.
#[test]
fn a_full_sync_is_compressed_if_both_ends_want_that() {
    let [home, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let primary = start(home.path(), &["--repl-diskless-sync-delay", "0", "--rdbcompression", "no"]);
    fill(&primary);
    let mut plain = 0;
    for (primary_codec, replica_codec, is_packed) in [
        ("no", "zstd", false),
        ("lz4", "no", false),
        ("lz4", "lz4", true),
        ("yes", "zstd", true),
        ("zstd", "zstd", true),
        ("zstd", "lz4", true),
        ("2", "lz4", false),
    ] {
        run(&primary, &format!("CONFIG SET repl-compression {primary_codec}"));
        for (load, channel) in [("disabled", "no"), ("swapdb", "no"), ("swapdb", "yes")] {
            run(&primary, &format!("CONFIG SET repl-rdb-channel {channel}"));
            let options = ["--repl-compression", replica_codec, "--repl-diskless-load", load];
            let replica = start(other.path(), &[&options[..], &["--repl-rdb-channel", channel]].concat());
            let before: u64 = info(&primary, "total_net_repl_output_bytes").parse().unwrap();
            follow(&replica, &primary);
            let what = format!("{primary_codec}-{replica_codec}-{load}-{channel}");
            assert_follows(&replica, &primary, &what);
            let sent = info(&primary, "total_net_repl_output_bytes").parse::<u64>().unwrap() - before;
            if plain == 0 {
                plain = sent;
            }
            assert_eq!(sent < plain / 2, is_packed, "{what}: {sent} of {plain}");
        }
    }
    // The file of a sync by the disk is `rdbcompression`'s.
    run(&primary, "CONFIG SET repl-diskless-sync no rdbcompression zstd");
    let replica = start(other.path(), &["--repl-diskless-load", "disabled"]);
    follow(&replica, &primary);
    assert_follows(&replica, &primary, "by-disk");
    assert!(fs::read(home.path().join("dump.rdb")).unwrap().starts_with(CODECS[1].1));
}

/// A peer without an announced codec gets a plain data set under every parameter.
#[test]
fn older_peers_get_plain_data_sets() {
    let others = std::env::var_os("MARTLET_PEERS").unwrap_or_default();
    let installed = peers::is_installed("redis-server").then(|| "redis-server".into());
    let named = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    for peer in installed.into_iter().chain(named) {
        let [home, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let primary = start(home.path(), &["--repl-diskless-sync-delay", "0", "--repl-compression", "zstd"]);
        for i in 0..500 {
            run(&primary, &format!("SET key:{i} {}", "text".repeat(20)));
        }
        for diskless in ["yes", "no"] {
            run(&primary, &format!("CONFIG SET repl-diskless-sync {diskless} rdbcompression lz4"));
            let replica = Server::start_in(other.path(), &peer, &["--save", ""]).unwrap();
            follow(&replica, &primary);
            until("all keys", || run(&replica, "DBSIZE") == run(&primary, "DBSIZE"));
            let begin = fs::read(home.path().join("dump.rdb")).unwrap_or_default();
            assert!(!begin.starts_with(b"VCS"), "{peer:?} {diskless}");
            run(&primary, "INCR counter");
            until("the stream", || run(&replica, "GET counter") == run(&primary, "GET counter"));
        }
    }
}

/// Path hashes go through RDB files, append-only files of both kinds, replicas and the converter.
#[test]
fn path_hashes_survive_every_kind_of_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    let server = start(directory.path(), &["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    fill_paths(&server);
    let digest = run(&server, "DEBUG DIGEST");
    for preamble in ["no", "yes"] {
        run(&server, &format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        assert_eq!(run(&server, "DEBUG LOADAOF"), "OK", "{}", server.log());
        assert_eq!(run(&server, "DEBUG DIGEST"), digest);
        run(&server, "BGREWRITEAOF");
        until("a rewrite", || info(&server, "aof_rewrite_in_progress") == "0");
        assert_eq!(run(&server, "DEBUG LOADAOF"), "OK", "{}", server.log());
        assert_eq!(run(&server, "DEBUG DIGEST"), digest, "{preamble}");
    }
    assert_eq!((run(&server, "DEBUG RELOAD"), run(&server, "DEBUG DIGEST")), ("OK".into(), digest.clone()));
    assert!(fs::read(&file).unwrap().starts_with(b"VALKEY081"));
    assert_eq!((run(&server, "TYPE empty"), run(&server, "PHCARD empty")), ("pathhash".into(), "0".into()));
    // No version has path hashes and arrays.
    run(&server, "ARSET array 5 x");
    let digest = run(&server, "DEBUG DIGEST");
    assert_eq!((run(&server, "DEBUG RELOAD"), run(&server, "DEBUG DIGEST")), ("OK".into(), digest.clone()));
    assert!(fs::read(&file).unwrap().starts_with(b"REDIS0014"));
    let other = tempfile::tempdir().unwrap();
    let replica = start(other.path(), &[]);
    follow(&replica, &server);
    run(&server, "PHDELPREFIX paths blockblock");
    assert_follows(&replica, &server, "paths");
    run(&server, "SAVE");
    let martlet = |arguments: &[&str]| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_martlet")).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let name = file.to_str().unwrap();
    let (is_sound, text) = martlet(&["check-rdb", name]);
    assert!(is_sound, "{text}");
    let (_, json) = martlet(&["convert", name, "-", "--json-lines"]);
    let paths = r#""type":"pathhash","expiry_ms":4000000000000,"value":[["",[["root","value"]]],["0",[["worker","0"],["f",""]]]"#;
    assert!(json.contains(paths), "{json}");
}

fn number(server: &Server, field: &str) -> u64 {
    info(server, field).parse().unwrap()
}

/// Writes of one client, in transactions and without, large and small, and WAIT behind them.
fn write_and_wait(primary: &Server, round: usize) {
    let mut client = Client::connect(primary.address()).unwrap();
    for i in 0..1_000 {
        let (key, value) = (format!("r{round}:{i}"), format!("{{\"name\":\"user {i}\",\"round\":{round}}}"));
        client.command(&["SET", &key, &value]).unwrap();
    }
    client.command(&["MULTI"]).unwrap();
    client.command(&["INCR", "counter"]).unwrap();
    client.command(&["RPUSH", "list", &"a long element ".repeat(30_000)]).unwrap();
    client.command(&["EXEC"]).unwrap();
    let reply = client.command(&["WAIT", "1", "20000"]).unwrap();
    assert_eq!(reply.integer(), Some(1), "{}", primary.log());
}

/// Offsets, WAIT and partial syncs count plain bytes, whatever is on the wire.
#[test]
fn the_stream_is_compressed_if_both_ends_want_that() {
    let mut plain = 0;
    for (codec, channel) in [("no", "no"), ("lz4", "no"), ("lz4", "yes"), ("zstd", "no"), ("zstd", "yes")] {
        let [home, other, third] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let options =
            ["--repl-compression", codec, "--repl-diskless-sync-delay", "0", "--repl-rdb-channel", channel];
        let primary = start(home.path(), &options);
        let replica = start(other.path(), &options);
        follow(&replica, &primary);
        // Another one follows the replica, by a link of its own.
        let last = start(third.path(), &["--repl-compression", "no"]);
        follow(&last, &replica);
        let before = number(&primary, "total_net_repl_output_bytes");
        for round in 0..3 {
            write_and_wait(&primary, round);
        }
        let sent = number(&primary, "total_net_repl_output_bytes") - before;
        let offset = number(&primary, "master_repl_offset");
        println!("{codec}, {channel}: {sent} bytes on the wire, offset {offset}");
        if plain == 0 {
            plain = sent;
        }
        assert_eq!(sent < plain / 3, codec != "no", "{codec}: {sent} of {plain}");
        let full = number(&primary, "sync_full");
        for round in 3..6 {
            let before = number(&primary, "sync_partial_ok");
            assert_eq!(run(&primary, "CLIENT KILL TYPE replica"), "1");
            write_and_wait(&primary, round);
            assert_eq!(number(&primary, "sync_partial_ok"), before + 1, "{}", replica.log());
        }
        assert_eq!(number(&primary, "sync_full"), full);
        assert_follows(&replica, &primary, "primary");
        assert_follows(&last, &primary, "last");
        until("equal offsets", || {
            info(&replica, "slave_repl_offset") == info(&primary, "master_repl_offset")
        });
    }
}

/// Passes connections on to a server. Once `spoils` is set, one byte of the server's next output is another.
fn relay(to: SocketAddr, spoils: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(to) else { return };
            let (back, there) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let never = Arc::default();
            std::thread::spawn(move || pass(client, there, &never));
            let spoils = spoils.clone();
            std::thread::spawn(move || pass(server, back, &spoils));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, spoils: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if spoils.swap(false, Ordering::SeqCst) {
            bytes[len / 2] ^= 0x10;
        }
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_damaged_frame_ends_the_link_and_the_stream_goes_on_behind_the_last_whole_one() {
    let [home, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for codec in ["lz4", "zstd"] {
        let options = ["--repl-compression", codec, "--repl-diskless-sync-delay", "0"];
        let primary = start(home.path(), &options);
        let replica = start(other.path(), &options);
        let spoils = Arc::new(AtomicBool::new(false));
        follow_at(&replica, relay(primary.address(), spoils.clone()));
        write_and_wait(&primary, 0);
        let full = number(&primary, "sync_full");
        for round in 1..4 {
            spoils.store(true, Ordering::SeqCst);
            run(&primary, &format!("SET {round} {}", "a-value-damaged-on-its-way".repeat(1_000)));
            write_and_wait(&primary, round);
            assert!(!spoils.load(Ordering::SeqCst));
            assert_follows(&replica, &primary, "damaged");
            let times = replica.logged("I/O error reading from master: a frame", round);
            assert_eq!(times, round, "{}", replica.log());
        }
        assert_eq!(number(&primary, "sync_full"), full, "{}", replica.log());
    }
}
