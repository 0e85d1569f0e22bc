//! The data set on disk, of whole processes: the next one has the data that one saved, a save in the
//! background is of one instant, and a damaged file is refused.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use martlet_testkit::small_disk::SmallDisk;

fn start(directory: &Path, arguments: &[&str]) -> std::io::Result<Server> {
    let mut all = vec!["server", "--enable-debug-command", "yes"];
    all.extend(arguments);
    Server::start_in(directory, Path::new(env!("CARGO_BIN_EXE_martlet")), &all)
}

/// A reply's text, or its number.
fn text(reply: &Reply) -> String {
    match (reply, reply.integer()) {
        (Reply::Error(text), _) => format!("Error {}", String::from_utf8_lossy(text)),
        (_, Some(number)) => number.to_string(),
        _ => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

fn run(server: &Server, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    text(&Client::connect(server.address()).unwrap().command(&words).unwrap())
}

/// A field of INFO.
fn info(server: &Server, field: &str) -> String {
    let text = run(server, "INFO everything");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

/// Saves in the background and waits for the end of it; whether that was good.
fn save_in_background(server: &Server) -> bool {
    assert!(run(server, "BGSAVE").contains("started"), "{}", server.log());
    while info(server, "rdb_bgsave_in_progress") == "1" {}
    info(server, "rdb_last_bgsave_status") == "ok"
}

/// Fills some databases with all types in all encodings; returns the digest.
fn fill(server: &Server) -> String {
    let mut client = Client::connect(server.address()).unwrap();
    for (count, db) in [(3, 0), (700, 0), (40, 3), (10, 9)] {
        client.command(&["SELECT", &db.to_string()]).unwrap();
        for i in 0..count {
            let (i, value) = (i.to_string(), "v".repeat(i * 2));
            for words in [
                ["SET", &format!("s{count}:{i}"), &value].as_slice(),
                &["RPUSH", &format!("l{count}"), &i, &value],
                &["SADD", &format!("i{count}"), &i],
                &["SADD", &format!("t{count}"), &value],
                &["ZADD", &format!("z{count}"), &i, &value],
                &["HSET", &format!("h{count}"), &i, &value],
                &["HSET", &format!("hx{count}"), &i, &value],
                &["HPEXPIREAT", &format!("hx{count}"), "4000000000000", "FIELDS", "1", &i],
            ] {
                let reply = client.command(words).unwrap();
                assert!(!reply.is_error(), "{words:?}: {reply:?}");
            }
        }
        client.command(&["PEXPIREAT", &format!("l{count}"), "4000000000000"]).unwrap();
    }
    run(server, "DEBUG DIGEST")
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--rdbcompression", "no"]).unwrap();
    let digest = fill(&server);
    assert_eq!((run(&server, "SAVE"), run(&server, "DEBUG RELOAD")), ("OK".into(), "OK".into()));
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());

    let server = start(directory.path(), &["--save", ""]).unwrap();
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN", "SAVE"]);
    assert!(server.wait().unwrap());

    let server = start(directory.path(), &["--save", ""]).unwrap();
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);
    run(&server, "FLUSHALL");
    let _ = Client::connect(server.address()).unwrap().command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());

    let server = start(directory.path(), &["--save", ""]).unwrap();
    assert_eq!(run(&server, "DEBUG DIGEST"), digest, "nothing was to be saved");
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// What `martlet check-rdb` prints for a file, and whether it found it whole.
fn check(file: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_martlet")).arg("check-rdb").arg(file).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_file_that_cannot_be_read_refuses_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump.rdb");
    let server = start(directory.path(), &[]).unwrap();
    fill(&server);
    run(&server, "SAVE");
    drop(server);
    let whole = fs::read(&file).unwrap();
    let (is_whole, report) = check(&file);
    assert!(is_whole && report.contains("RDB looks OK!") && report.contains("AUX FIELD ctime"), "{report}");
    assert!(report.contains("Selecting DB ID 9") && report.contains("\n[info] 4 expires\n"), "{report}");
    for (damaged, reason) in [
        (&b"REDIS0010"[..], "unexpected end, at offset 9"),
        (&whole[..whole.len() / 2], "unexpected end, at offset"),
        (&whole[..whole.len() - 1], "unexpected end, at offset"),
        (b"", "unexpected end, at offset 0"),
        (b"REDIS0010\xfe\x20\0\x01k\x01v\xff\0\0\0\0\0\0\0\0", "directive databases, at offset 16"),
        // An empty collection before it is no key and hides none.
        (
            b"REDIS0010\xfe\x20\x02\x01e\0\0\x01k\x01v\xff\0\0\0\0\0\0\0\0",
            "directive databases, at offset 20",
        ),
        (b"REDIS0010\0\x01k\x01v\0\x01k\x01v\xff\0\0\0\0\0\0\0\0", "a key that is there already, at offset"),
        // Of two faults in different shards the first in the file, whichever shard is read first.
        (
            b"REDIS0010\0\x01a\x01v\0\x01a\x01v\0\x01b\x01v\0\x01b\x01v\xff\0\0\0\0\0\0\0\0",
            "a key that is there already, at offset 19",
        ),
        (
            b"REDIS0010\0\x01b\x01v\0\x01b\x01v\0\x01a\x01v\0\x01a\x01v\xff\0\0\0\0\0\0\0\0",
            "a key that is there already, at offset 19",
        ),
        (b"REDIS0010\xf5\x05#!lua", "a library of functions that cannot be loaded, at offset 16"),
        (b"REDIS0013\x1a\x01k", "unexpected end, at offset 12"),
        (b"REDIS0015\x1d\x01k", "unexpected end, at offset 12"),
        (b"REDIS0015\x20\x01k\x05\x01v", "hash template that is not there, at offset 13"),
        (b"REDIS0015\x21\x01k", "values of type rate limit cannot be held, at offset 10"),
        (b"VALKEY081\x17\x01k\x01\x01p\0", "Path hash path with empty payload, at offset"),
        (b"VALKEY081\x18\x01k", "unknown type of value: 24, at offset 10"),
        (b"VALKEY081\xf2*1", "a command within the file, which was saved without a fork, at offset 10"),
        (b"REDIS0013\xf3\x01", "values of type module cannot be held, at offset 10"),
        (b"REDIS0017\xf1", "values of type protection from eviction cannot be held, at offset 10"),
        (b"REDIS0018\0\x01k\x01v\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 18, at offset 9"),
        (b"REDIS0079\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 79, at offset 9"),
        (b"VALKEY082\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 82, at offset 9"),
        (b"REDIS0000\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 0, at offset 9"),
        (b"REDIS00a1\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 0, at offset 9"),
        (b"REDIS0012\x00\x01k\x01v\xf7\x81", "unexpected end, at offset 16"),
        (b"REDIS0010\x07\x01k", "unexpected end, at offset 12"),
    ] {
        fs::write(&file, damaged).unwrap();
        let error = start(directory.path(), &[]).err().expect("refused").to_string();
        assert!(error.contains(reason), "{error}");
        let is_header = reason.ends_with("offset 9") || reason.ends_with("offset 0");
        let is_told = error.contains("# Terminating server after rdb file reading failure.");
        assert_eq!(is_told, !is_header, "{error}");
        let (is_whole, report) = check(&file);
        // How many databases and which keys there are is the server's affair.
        let is_shape = !reason.contains("database") && !reason.contains("already");
        assert_eq!(is_whole, !is_shape, "{report}");
        assert!(!is_shape || report.contains("--- RDB ERROR DETECTED ---\n[offset "), "{report}");
        assert_eq!(fs::read(&file).unwrap(), damaged);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(start(directory.path(), &[]).is_err());
}

#[test]
fn reloading_takes_options() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]).unwrap();
    run(&server, "SET k 1");
    run(&server, "SAVE");
    run(&server, "SET k 2");
    assert!(run(&server, "DEBUG RELOAD NOSAVE NOFLUSH").starts_with("Error"));
    run(&server, "SET other 1");
    run(&server, "DEBUG RELOAD NOSAVE NOFLUSH MERGE");
    assert_eq!((run(&server, "GET k"), run(&server, "GET other")), ("1".into(), "1".into()));
    run(&server, "DEBUG RELOAD NOSAVE");
    assert!(run(&server, "DBSIZE") == "1");
}

const ACCOUNTS: u64 = 500;

/// Moves amounts between accounts until the end is signalled; each transaction leaves the sum unchanged.
fn move_amounts(address: std::net::SocketAddr, seed: u64, stop: &AtomicBool) {
    let mut client = Client::connect(address).unwrap();
    let mut state = seed;
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (from, to) = ((state >> 40) % ACCOUNTS, (state >> 20) % ACCOUNTS);
        let (from, to) = (from.to_string(), to.to_string());
        for words in [
            ["MULTI"].as_slice(),
            &["DECRBY", &format!("s{from}"), "3"],
            &["INCRBY", &format!("s{to}"), "3"],
            &["HINCRBY", &format!("h{}", to.len()), &from, "-7"],
            &["HINCRBY", "h", &to, "7"],
            &["LMOVE", "l1", "l2", "LEFT", "RIGHT"],
            &["LMOVE", "l2", "l1", "LEFT", "RIGHT"],
            &["RPOPLPUSH", "l1", "l2"],
            &["RENAME", "l1", "x"],
            &["RENAME", "l2", "l1"],
            &["RENAME", "x", "l2"],
            &["EXEC"],
        ] {
            let reply = client.command(words).unwrap();
            assert!(!reply.is_error(), "{words:?}: {reply:?}");
        }
    }
}

/// The sums that [`move_amounts`] does not change.
fn sums(server: &Server) -> [i64; 3] {
    let mut client = Client::connect(server.address()).unwrap();
    let mut int = |words: &[&str]| text(&client.command(words).unwrap()).parse().unwrap_or(0);
    let strings = (0..ACCOUNTS).map(|i| int(&["GET", &format!("s{i}")])).sum();
    let mut hashes = 0;
    for key in ["h", "h1", "h2", "h3"] {
        hashes += (0..ACCOUNTS).map(|i| int(&["HGET", key, &i.to_string()])).sum::<i64>();
    }
    let lists = int(&["LLEN", "l1"]) + int(&["LLEN", "l2"]);
    [strings, hashes, lists]
}

#[test]
fn a_save_in_the_background_is_of_one_instant() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--io-threads", "2", "--save", ""]).unwrap();
    for i in 0..ACCOUNTS {
        run(&server, &format!("SET s{i} 1000"));
        run(&server, &format!("RPUSH l{} {i}", 1 + i % 2));
    }
    // Something to walk, so that writers get in between.
    run(&server, "DEBUG POPULATE 30000 filler 100");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (address, stop) = (server.address(), &stop);
            scope.spawn(move || move_amounts(address, seed, stop));
        }
        for round in 0..4 {
            assert!(save_in_background(&server), "{}", server.log());
            let copy = tempfile::tempdir().unwrap();
            fs::copy(directory.path().join("dump.rdb"), copy.path().join("dump.rdb")).unwrap();
            let restored = start(copy.path(), &["--save", ""]).unwrap();
            assert_eq!(sums(&restored), [1000 * ACCOUNTS as i64, 0, ACCOUNTS as i64], "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(info(&server, "rdb_saves"), "4");
}

#[test]
fn rules_save_and_a_flush_takes_the_file_along() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--save", "1 2"]).unwrap();
    run(&server, "MSET a 1 b 2");
    while info(&server, "rdb_saves") == "0" {}
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "0");
    run(&server, "FLUSHALL");
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "0");
    drop(server);
    let server = start(directory.path(), &[]).unwrap();
    assert!(run(&server, "DBSIZE") == "0");
}

#[test]
fn writes_are_refused_while_the_disk_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--save", "3600 1"]).unwrap();
    let refused = |line: &str| run(&server, line).starts_with("Error");
    run(&server, "SET k 1");
    let file = directory.path().join("dump.rdb");
    fs::create_dir(&file).unwrap();
    assert!(!save_in_background(&server));
    assert!(refused("SET k 2") && refused("PING") && !refused("GET k"));
    assert!(refused("SAVE") && refused("SHUTDOWN"));
    run(&server, "CONFIG SET stop-writes-on-bgsave-error no");
    assert!(!refused("SET k 2") && !refused("PING"));
    run(&server, "CONFIG SET stop-writes-on-bgsave-error yes");
    assert!(refused("SET k 3"));
    fs::remove_dir(&file).unwrap();
    assert!(save_in_background(&server));
    assert!(!refused("SET k 3"));
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_full_file_system_refuses_a_save_and_keeps_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), 32 << 20) else { return };
    let options = ["--save", "3600 1", "--rdbcompression", "no"];
    let refused = |server: &Server, line: &str| {
        let reply = run(server, line);
        let begin = "Error MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.";
        assert!(reply.starts_with(begin) || !reply.starts_with("Error"), "{reply}");
        reply.starts_with("Error")
    };
    let server = start(directory.path(), &options).unwrap();
    run(&server, "SET before 1");
    assert!(save_in_background(&server));
    disk.leave(4 << 20).unwrap();
    let value = "v".repeat(250_000);
    for i in 0..40 {
        run(&server, &format!("SET k{i} {value}"));
    }
    for _ in 0..2 {
        assert!(!save_in_background(&server));
        assert!(refused(&server, "SET before 2") && refused(&server, "PING") && !refused(&server, "GET k39"));
        assert!(run(&server, "SAVE").starts_with("Error") && run(&server, "SHUTDOWN").starts_with("Error"));
        assert!(names(directory.path(), "temp-").is_empty());
    }
    drop(server);
    // The last save that went well is whole.
    let server = start(directory.path(), &options).unwrap();
    assert_eq!((run(&server, "DBSIZE"), run(&server, "GET before")), ("1".into(), "1".into()));
    for i in 0..40 {
        run(&server, &format!("SET k{i} {value}"));
    }
    assert!(!save_in_background(&server) && refused(&server, "SET before 2"));
    disk.free().unwrap();
    assert!(save_in_background(&server) && !refused(&server, "SET before 2"));
    assert_eq!(run(&server, "SAVE"), "OK");
    drop(server);
    let server = start(directory.path(), &options).unwrap();
    assert_eq!((run(&server, "DBSIZE"), run(&server, "GET before")), ("41".into(), "2".into()));
    assert!((0..40).all(|i| run(&server, &format!("GET k{i}")) == value));
}

#[test]
fn the_version_that_is_asked_for_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]).unwrap();
    let file = directory.path().join("dump.rdb");
    let header = || String::from_utf8(fs::read(&file).unwrap()[..9].to_vec()).unwrap();
    fill(&server);
    run(&server, "SAVE");
    assert_eq!(header(), "REDIS0012");
    run(&server, "CONFIG SET rdb-version 80");
    let digest = run(&server, "DEBUG DIGEST");
    assert_eq!((run(&server, "DEBUG RELOAD"), run(&server, "DEBUG DIGEST")), ("OK".into(), digest));
    assert_eq!(header(), "VALKEY080");
    run(&server, "CONFIG SET rdb-version 11");
    assert!(run(&server, "SAVE").starts_with("Error") && !save_in_background(&server));
    assert!(server.logged("database 0 has hashes whose fields expire", 1) > 0, "{}", server.log());
    run(&server, "CONFIG SET stop-writes-on-bgsave-error no");
    for (count, db) in [(3, 0), (700, 0), (40, 3), (10, 9)] {
        let mut client = Client::connect(server.address()).unwrap();
        client.command(&["SELECT", &db.to_string()]).unwrap();
        client.command(&["DEL", &format!("hx{count}")]).unwrap();
    }
    let digest = run(&server, "DEBUG DIGEST");
    for (version, written) in
        [("6", "0006"), ("7", "0007"), ("9", "0009"), ("11", "0011"), ("lowest", "0010")]
    {
        run(&server, &format!("CONFIG SET rdb-version {version}"));
        assert_eq!(run(&server, "DEBUG RELOAD"), "OK", "{version}");
        assert_eq!((header(), run(&server, "DEBUG DIGEST")), (format!("REDIS{written}"), digest.clone()));
        assert!(save_in_background(&server) && check(&file).0, "{version}");
    }
    assert!(run(&server, "CONFIG SET rdb-version 5").starts_with("Error"));
}

fn convert(arguments: &[&std::ffi::OsStr]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_martlet")).arg("convert").args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn files_are_converted_between_versions_and_to_json() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]).unwrap();
    let digest = fill(&server);
    run(&server, "SET text naïve\\n\"");
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&[b"ZADD".as_slice(), b"bytes\xff", b"-inf", b"\xfe\x00"]).unwrap();
    client.command(&["SET", "short", "1", "PXAT", "4000000000001"]).unwrap();
    run(&server, "SAVE");
    let path = directory.path();
    let (from, to) = (path.join("dump.rdb"), path.join("other"));
    let (_, json) = convert(&[from.as_ref(), "-".as_ref(), "--json-lines".as_ref()]);
    for line in [
        r#"{"db":0,"key":"text","type":"string","expiry_ms":null,"value":"naïve\\n\""}"#,
        r#"{"db":0,"key":{"hex":"6279746573ff"},"type":"zset","expiry_ms":null,"value":[[{"hex":"fe00"},"-inf"]]}"#,
        r#"{"db":0,"key":"short","type":"string","expiry_ms":4000000000001,"value":"1"}"#,
        r#"{"db":0,"key":"i3","type":"set","expiry_ms":null,"value":["0","1","2"]}"#,
        r#"{"db":0,"key":"hx3","type":"hash","expiry_ms":null,"value":[["0","",4000000000000],["1","vv",4000000000000],["2","vvvv",4000000000000]]}"#,
    ] {
        assert!(json.lines().any(|found| found == line), "{line}\n{json}");
    }
    assert_ne!(digest, run(&server, "DEBUG DIGEST"));
    let digest = run(&server, "DEBUG DIGEST");
    let (is_done, message) = convert(&[from.as_ref(), to.as_ref(), "--rdb-version".as_ref(), "10".as_ref()]);
    assert!(!is_done && message.contains("that takes version 12") && !to.exists(), "{message}");
    assert_eq!(convert(&[from.as_ref(), to.as_ref()]), (true, String::new()));
    assert_eq!(&fs::read(&to).unwrap()[..9], b"REDIS0012");
    fs::rename(&to, &from).unwrap();
    run(&server, "DEBUG RELOAD NOSAVE");
    assert_eq!(run(&server, "DEBUG DIGEST"), digest);

    let file = fs::read(&from).unwrap();
    fs::write(&from, &file[..file.len() / 2]).unwrap();
    let (is_done, message) = convert(&[from.as_ref(), to.as_ref()]);
    assert!(!is_done && message.contains("unexpected end, at offset"), "{message}");
    let (is_done, message) = convert(&[to.as_ref(), "--rdb-version".as_ref(), "5".as_ref()]);
    assert!(!is_done && message.contains("Usage:"), "{message}");
    assert!(convert(&["--help".as_ref()]).0);
    let names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Names in a directory that begin with this.
fn names(directory: &Path, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(begin)).collect()
}

#[test]
fn what_a_killed_save_or_rewrite_has_left_is_removed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let log = path.join("appendonlydir");
    // Every answered write is in the file, so that the kill loses none.
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--rdb-key-save-delay", "100000000"];
    for (command, place, begin) in
        [("BGSAVE", path, "temp-bg-"), ("BGREWRITEAOF", &log, "temp-rewriteaof-bg-")]
    {
        let server = start(path, &options).unwrap();
        run(&server, "MSET a 1 b 2 c 3");
        assert!(run(&server, command).contains("started"), "{}", server.log());
        while names(place, begin).is_empty() {}
        let theirs = names(place, "temp-");
        let other = start(path, &[]).unwrap();
        assert_eq!(names(place, "temp-"), theirs, "they are being written: {}", other.log());
        drop(other);
        drop(server);
        assert_eq!(names(place, "temp-"), theirs);
        let server = start(path, &options).unwrap();
        assert_eq!(run(&server, "DBSIZE"), "3", "{}", server.log());
        assert!(names(path, "temp-").is_empty() && names(&log, "temp-").is_empty(), "{}", server.log());
    }
}

#[test]
fn an_empty_name_is_that_of_no_file_and_of_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--dbfilename", "", "--enable-protected-configs", "yes"]).unwrap();
    assert_eq!(run(&server, "SET k v"), "OK");
    assert_eq!(run(&server, "SAVE"), "Error ERR");
    let mut client = Client::connect(server.address()).unwrap();
    let before = run(&server, "CONFIG GET dir");
    let refused = client.command(&["CONFIG", "SET", "dir", ""]).unwrap();
    let error = "ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory";
    assert_eq!(refused, Reply::Error(error.into()));
    assert_eq!(run(&server, "CONFIG GET dir"), before);
    assert_eq!(run(&server, "GET k"), "v");
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".rdb")).collect();
    assert!(left.is_empty(), "{left:?}");
    let refused = start(directory.path(), &["--dir", ""]).err().unwrap().to_string();
    assert!(refused.contains("No such file or directory"), "{refused}");
}

#[test]
fn what_listens_follows_bind_also_where_old_and_new_addresses_overlap() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--bind", "* -::*", "--protected-mode", "no"]).unwrap();
    let port = server.address().port();
    let open = || {
        let hosts = ["127.0.0.1", "127.0.0.2"];
        hosts.map(|host| std::net::TcpStream::connect((host, port)).is_ok())
    };
    let mut client = Client::connect(("127.0.0.1", port)).unwrap();
    for (bind, expected) in [
        ("127.0.0.1", [true, false]),
        ("127.0.0.1 127.0.0.2", [true, true]),
        ("127.0.0.2", [false, true]),
        ("* -::*", [true, true]),
        ("127.0.0.1 -::1", [true, false]),
    ] {
        let reply = client.command(&["CONFIG", "SET", "bind", bind]).unwrap();
        assert!(!reply.is_error(), "{bind}: {reply:?}");
        assert_eq!(open(), expected, "{bind}");
    }
}

/// A file as Valkey 9.2 compresses it with LZ4, in blocks that are stored as they are.
fn packed(file: &[u8]) -> Vec<u8> {
    let blocks = file.chunks(1 << 20).flat_map(|block| {
        let len = block.len() as u32 | 1 << 31;
        [&len.to_le_bytes()[..], block].concat()
    });
    let head = b"VCS\x01\x01\x00\x01\x04\x22\x4d\x18\x60\x70\x73".iter().copied();
    head.chain(blocks).chain([0; 4]).collect()
}

#[test]
fn a_compressed_file_is_loaded_also_as_the_base_of_an_append_only_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let server = start(path, &[]).unwrap();
    assert_eq!(run(&server, "MSET a 1 b 2"), "OK");
    assert_eq!(run(&server, "SAVE"), "OK");
    drop(server);
    let file = packed(&fs::read(path.join("dump.rdb")).unwrap());
    fs::write(path.join("dump.rdb"), &file).unwrap();
    let server = start(path, &[]).unwrap();
    assert_eq!(run(&server, "DBSIZE"), "2", "{}", server.log());
    drop(server);
    let (is_whole, report) = check(&path.join("dump.rdb"));
    assert!(is_whole, "{report}");
    // A preamble with commands behind it, as one file.
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$1\r\n3\r\n";
    fs::write(path.join("appendonly.aof"), [&file[..], set].concat()).unwrap();
    let server = start(path, &["--appendonly", "yes"]).unwrap();
    assert_eq!((run(&server, "DBSIZE"), run(&server, "GET c")), ("3".into(), "3".into()), "{}", server.log());
    drop(server);
    fs::remove_dir_all(path.join("appendonlydir")).unwrap();
    fs::write(path.join("dump.rdb"), &file[..file.len() - 30]).unwrap();
    let refused = start(path, &[]).err().expect("refused").to_string();
    assert!(refused.contains("unexpected end, at offset"), "{refused}");
}
