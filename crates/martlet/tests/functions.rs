//! Libraries of functions of whole processes: they are in RDB files and in the append-only file, whichever
//! way their changes came, every thread runs them, and one that does not end can be killed.

use std::path::Path;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const COUNTER: &str = "#!lua name=counter\nredis.register_function('count', function(keys) return redis.call('INCR', keys[1]) end)";
const READER: &str = "#!lua name=reader\nredis.register_function{function_name='read', flags={'no-writes'}, callback=function(keys) return redis.call('GET', keys[1]) end}";

fn start(directory: &Path, arguments: &[&str]) -> Server {
    let arguments = [&["server", "--io-threads", "2", "--enable-debug-command", "yes"], arguments].concat();
    Server::start_in(directory, Path::new(OURS), &arguments).unwrap()
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

fn text(client: &mut Client, command: &[&str]) -> String {
    match client.command(command).unwrap() {
        Reply::Int(number) => number.to_string(),
        reply => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

/// FUNCTION LIST's reply, code included.
fn list(server: &Server) -> String {
    format!("{:?}", connect(server).command(&["FUNCTION", "LIST", "WITHCODE"]).unwrap())
}

fn stop(server: Server) {
    let _ = connect(&server).command(&["SHUTDOWN"]);
    assert!(server.wait().unwrap());
}

/// Fills a server by every command that changes libraries; `reader` stays, and `counter`.
fn fill(server: &Server) {
    let mut client = connect(server);
    assert_eq!(text(&mut client, &["FUNCTION", "LOAD", COUNTER]), "counter");
    let payload = client.command(&["FUNCTION", "DUMP"]).unwrap();
    let payload = payload.text().unwrap().to_vec();
    assert_eq!(text(&mut client, &["FUNCTION", "FLUSH"]), "OK");
    assert_eq!(text(&mut client, &["FUNCTION", "LOAD", READER]), "reader");
    assert_eq!(text(&mut client, &["FUNCTION", "LOAD", "REPLACE", READER]), "reader");
    let restored = client.command(&[b"FUNCTION".as_slice(), b"RESTORE", &payload]).unwrap();
    assert_eq!(restored.text(), Some(b"OK".as_slice()));
    let gone = COUNTER.replace("count", "gone");
    assert_eq!(text(&mut client, &["FUNCTION", "LOAD", &gone]), "goneer");
    assert_eq!(text(&mut client, &["FUNCTION", "DELETE", "goneer"]), "OK");
    assert_eq!(text(&mut client, &["FCALL", "count", "1", "n"]), "1");
}

/// Stops the server and starts it again: nothing has changed, and each of its threads runs the functions.
fn restart(server: Server, directory: &Path, arguments: &[&str]) -> Server {
    let before = list(&server);
    stop(server);
    let server = start(directory, arguments);
    assert_eq!(list(&server), before);
    let count = |client: &mut Client| text(client, &["FCALL", "count", "1", "n"]).parse::<i64>().unwrap();
    let (mut first, mut second) = (connect(&server), connect(&server));
    let reached = count(&mut first);
    assert_eq!(count(&mut second), reached + 1);
    for client in [&mut first, &mut second] {
        assert_eq!(text(client, &["FCALL_RO", "READ", "1", "n"]), (reached + 1).to_string());
    }
    server
}

#[test]
fn libraries_are_in_rdb_files() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--save", "3600 1"];
    let server = start(directory.path(), &arguments);
    fill(&server);
    let server = restart(server, directory.path(), &arguments);
    let before = list(&server);
    let mut client = connect(&server);
    assert_eq!(text(&mut client, &["FLUSHALL"]), "OK");
    assert_eq!(list(&server), before);
    assert_eq!(text(&mut client, &["DEBUG", "RELOAD"]), "OK");
    assert_eq!(list(&server), before);
}

#[test]
fn libraries_are_in_the_append_only_file_and_its_base() {
    for preamble in ["yes", "no"] {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["--save", "", "--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
        let server = start(directory.path(), &arguments);
        fill(&server);
        let server = restart(server, directory.path(), &arguments);
        let mut client = connect(&server);
        client.command(&["BGREWRITEAOF"]).unwrap();
        while text(&mut client, &["INFO", "persistence"]).contains("aof_rewrite_in_progress:1") {}
        assert_eq!(text(&mut client, &["FUNCTION", "LOAD", "REPLACE", COUNTER]), "counter");
        let before = list(&server);
        assert_eq!(text(&mut client, &["DEBUG", "LOADAOF"]), "OK");
        assert_eq!(list(&server), before);
        restart(server, directory.path(), &arguments);
    }
}

#[test]
fn a_file_with_a_library_that_cannot_be_loaded_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--save", "3600 1"]);
    assert_eq!(text(&mut connect(&server), &["FUNCTION", "LOAD", COUNTER]), "counter");
    stop(server);
    let path = directory.path().join("dump.rdb");
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(7).position(|window| window == b"#!lua n").unwrap();
    file[at] = b'x';
    std::fs::write(&path, file).unwrap();
    let arguments = ["server", "--rdbchecksum", "no"];
    assert!(Server::start_in(directory.path(), Path::new(OURS), &arguments).is_err());
}

fn is_error(reply: &Reply, code: &str) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(code.as_bytes()))
}

#[test]
fn a_function_that_does_not_end_is_told_of_and_killed_by_its_own_command() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--save", "", "--busy-reply-threshold", "1"]);
    // The second connection belongs to the other thread.
    let (mut looping, mut other) = (connect(&server), connect(&server));
    let code = "#!lua name=a\nredis.register_function('loop', function() while true do end end)";
    assert_eq!(text(&mut looping, &["FUNCTION", "LOAD", code]), "a");
    looping.send(&["FCALL", "loop", "1", "k"]).unwrap();
    let busy = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    while !is_error(&other.command(&["GET", "other"]).unwrap(), busy) {}
    assert!(is_error(&other.command(&["SCRIPT", "KILL"]).unwrap(), busy));
    let stats = other.command(&["FUNCTION", "STATS"]).unwrap();
    let running = stats.items().unwrap()[1].items().unwrap();
    assert_eq!(running[1].text(), Some(b"loop".as_slice()));
    let called: Vec<_> = running[3].items().unwrap().iter().filter_map(Reply::text).collect();
    assert_eq!(called, [b"FCALL".as_slice(), b"loop", b"1", b"k"]);
    assert!(running[5].integer().is_some());
    assert!(!is_error(&other.command(&["FUNCTION", "KILL"]).unwrap(), ""));
    let killed = looping.read_reply().unwrap();
    assert!(is_error(&killed, "ERR Script killed by user with SCRIPT KILL..."), "{killed:?}");
    assert!(is_error(&other.command(&["FUNCTION", "KILL"]).unwrap(), "NOTBUSY "));
}
