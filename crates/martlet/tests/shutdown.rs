//! SHUTDOWN of whole processes, with an append-only file, with saves that fail, and while something is being
//! written, signals that ask for it, and saves that a transaction asks for: the replies, the exit and the
//! files that are left are redis-server's, which is asked too if it is installed.

use std::fs;
use std::path::Path;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const SYNTAX: &str = "ERR syntax error";
const NONE: &str = "ERR No shutdown in progress.";
const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";
/// The server ends instead of an answer.
const ENDS: &str = "";
/// In place of a command: no RDB file can take its name from here on.
const BLOCK: &str = "block";

const SAVES: &[&str] = &["--save", "3600 1"];
const BOTH: &[&str] = &["--save", "3600 1", "--appendonly", "yes"];
const SLOW_LOG: &[&str] = &["--save", "", "--appendonly", "yes", "--rdb-key-save-delay", "10000000"];
const SLOW: &[&str] = &["--save", "3600 1", "--rdb-key-save-delay", "10000000"];
const REWRITES: &str = "Background append only file rewriting started";

/// A server's options, and its commands, each on a separate connection, with the reply.
type Case = (&'static [&'static str], &'static [(&'static str, &'static str)]);

const CASES: &[Case] = &[
    (
        &["--save", ""],
        &[
            ("SHUTDOWN ABORT", NONE),
            ("SHUTDOWN ABORT ABORT", NONE),
            ("SHUTDOWN ABORT NOW", SYNTAX),
            ("SHUTDOWN SAVE NOSAVE", SYNTAX),
            ("SHUTDOWN LATER", SYNTAX),
            ("SHUTDOWN NOW FORCE NOW", ENDS),
        ],
    ),
    (
        SAVES,
        &[
            (BLOCK, ""),
            ("SHUTDOWN", FAILED),
            ("SHUTDOWN NOW", FAILED),
            ("SHUTDOWN SAVE", FAILED),
            ("SHUTDOWN ABORT", NONE),
            ("SET k 2", "OK"),
            ("SHUTDOWN FORCE", ENDS),
        ],
    ),
    (SAVES, &[(BLOCK, ""), ("SHUTDOWN", FAILED), ("SHUTDOWN NOSAVE", ENDS)]),
    (&["--save", ""], &[(BLOCK, ""), ("SHUTDOWN SAVE", FAILED), ("SHUTDOWN", ENDS)]),
    (BOTH, &[(BLOCK, ""), ("SHUTDOWN", FAILED), ("SET k 2", "OK"), ("SHUTDOWN SAVE FORCE", ENDS)]),
    (BOTH, &[("SHUTDOWN NOSAVE", ENDS)]),
    (BOTH, &[("SHUTDOWN", ENDS)]),
    (SLOW, &[("BGSAVE", "Background saving started"), ("SHUTDOWN NOSAVE", ENDS)]),
    (SLOW_LOG, &[("BGREWRITEAOF", REWRITES), ("SHUTDOWN", ENDS)]),
    (
        SLOW,
        &[
            ("CONFIG SET appendonly yes", "OK"),
            ("SHUTDOWN", FAILED),
            ("SHUTDOWN NOSAVE", FAILED),
            ("SHUTDOWN NOW", FAILED),
            ("SET k 2", "OK"),
            ("SHUTDOWN NOSAVE FORCE", ENDS),
        ],
    ),
];

/// Ours, and redis-server if it is installed.
fn programs() -> Vec<&'static str> {
    if is_installed("redis-server") { vec![OURS, "redis-server"] } else { vec![OURS] }
}

/// The files below a directory that are not the test's, without what only one server removes at its end.
fn files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for place in [directory.to_path_buf(), directory.join("appendonlydir")] {
        for entry in fs::read_dir(place).into_iter().flatten() {
            names.push(entry.unwrap().file_name().into_string().unwrap());
        }
    }
    names.retain(|name| name != "server.log" && !name.starts_with("temp-"));
    names.sort();
    names
}

/// Has a server go through a case; returns the files on disk.
fn go_through(program: &str, (options, steps): &Case) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let mut all = if program == OURS { vec!["server"] } else { vec![] };
    all.extend(*options);
    let server = Server::start_in(directory.path(), Path::new(program), &all).unwrap();
    let run = |line: &str| {
        let reply = Client::connect(server.address())?.command(&line.split(' ').collect::<Vec<_>>())?;
        std::io::Result::Ok(match &reply {
            Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
            other => String::from_utf8_lossy(other.text().unwrap_or_default()).into_owned(),
        })
    };
    assert_eq!(run("SET k 1").unwrap(), "OK");
    for (line, expected) in *steps {
        if *line == BLOCK {
            fs::create_dir(directory.path().join("dump.rdb")).unwrap();
            continue;
        }
        match run(line) {
            Ok(reply) => assert_eq!(reply, *expected, "{program} {options:?}: {line}"),
            Err(error) => assert_eq!(*expected, ENDS, "{program} {options:?}: {line}: {error}"),
        }
    }
    assert!(server.wait().unwrap(), "{program} {options:?} {steps:?}");
    files(directory.path())
}

#[test]
fn a_server_ends_as_redis_does() {
    for case in CASES {
        let left: Vec<_> = programs().into_iter().map(|program| go_through(program, case)).collect();
        assert!(left.iter().all(|files| *files == left[0]), "{case:?}: {left:?}");
    }
}

/// Has a server get signals, the next when the log has the message of the one before the given number of
/// times; returns its exit status.
fn signal(program: &str, options: &[&str], blocks: bool, steps: &[(Signal, &str, usize)]) -> Option<i32> {
    let directory = tempfile::tempdir().unwrap();
    let mut all = if program == OURS { vec!["server"] } else { vec![] };
    all.extend(options);
    let mut server = Server::start_in(directory.path(), Path::new(program), &all).unwrap();
    Client::connect(server.address()).unwrap().command(&["MSET", "k", "1", "l", "1"]).unwrap();
    if blocks {
        fs::create_dir(directory.path().join("dump.rdb")).unwrap();
    }
    for (signal, sign, count) in steps {
        assert!(!server.has_exited(), "{program}: {}", server.log());
        kill_process(Pid::from_raw(server.pid() as i32).unwrap(), *signal).unwrap();
        while server.log().matches(sign).count() < *count && !server.has_exited() {}
        assert_eq!(server.log().matches(sign).count(), *count, "{program} {signal:?}: {}", server.log());
    }
    if blocks {
        assert!(!server.has_exited());
        Client::connect(server.address()).unwrap().command(&["SET", "k", "2"]).unwrap();
        fs::remove_dir(directory.path().join("dump.rdb")).unwrap();
        kill_process(Pid::from_raw(server.pid() as i32).unwrap(), Signal::TERM).unwrap();
    }
    let (status, log) = server.end().unwrap();
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), if blocks { 2 } else { 1 }, "{program}: {names:?}, {log}");
    status.code()
}

#[test]
fn an_interrupt_ends_at_once_what_a_signal_has_begun_to_end() {
    const SAVING: &str = "Saving the final RDB snapshot";
    const INSISTING: &str = "You insist... exiting now.";
    const REFUSED: &str = "Errors trying to shut down the server";
    for program in programs() {
        for steps in [
            [(Signal::INT, SAVING, 1), (Signal::TERM, "Received SIGTERM", 1), (Signal::INT, INSISTING, 1)]
                .as_slice(),
            &[(Signal::TERM, SAVING, 1), (Signal::TERM, "Received SIGTERM", 2), (Signal::INT, INSISTING, 1)],
        ] {
            assert_eq!(signal(program, SLOW, false, steps), Some(1), "{program} {steps:?}");
        }
        // Each restarts if the one before could not end it.
        let steps = [(Signal::INT, REFUSED, 1), (Signal::INT, REFUSED, 2), (Signal::TERM, REFUSED, 3)];
        assert_eq!(signal(program, SAVES, true, &steps), Some(0), "{program}");
    }
}

#[test]
fn what_is_asked_for_in_a_transaction_begins_after_it() {
    const AOF: &str = "Background append only file rewriting scheduled";
    const RDB: &str = "Background saving scheduled";
    for program in programs() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = if program == OURS { vec!["server"] } else { vec![] };
        all.extend(BOTH);
        let server = Server::start_in(directory.path(), Path::new(program), &all).unwrap();
        let mut client = Client::connect(server.address()).unwrap();
        for line in [
            &["MULTI"][..],
            &["BGREWRITEAOF"],
            &["BGSAVE"],
            &["SET", "k", "1"],
            &["BGREWRITEAOF"],
            &["BGSAVE", "SCHEDULE"],
        ] {
            client.command(line).unwrap();
        }
        let replies = client.command(&["EXEC"]).unwrap();
        let texts: Vec<_> =
            replies.items().unwrap().iter().map(|reply| reply.text().unwrap_or_default()).collect();
        assert_eq!(texts, [AOF, RDB, "OK", AOF, RDB].map(str::as_bytes), "{program}");
        let mut report = || {
            let reply = client.command(&["INFO", "persistence"]).unwrap();
            String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
        };
        let signs = [
            "aof_rewrites:1\r\n",
            "rdb_saves:1\r\n",
            "aof_rewrite_in_progress:0",
            "rdb_bgsave_in_progress:0",
        ];
        while !signs.iter().all(|sign| report().contains(sign)) {}
    }
}

/// The text of a reply.
fn ask(client: &mut Client, words: &str) -> String {
    let reply = client.command(&words.split(' ').collect::<Vec<_>>()).unwrap();
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        reply => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

#[test]
fn a_signal_that_no_thread_has_acted_on_can_be_taken_back() {
    for program in programs() {
        let mut words = if program == OURS { vec!["server"] } else { vec![] };
        words.extend(["--save", "", "--enable-debug-command", "yes"]);
        let mut server = Server::start(Path::new(program), &words).unwrap();
        let mut client = Client::connect(server.address()).unwrap();
        let mut ask = |words: &str| ask(&mut client, words);
        let terminate = |server: &Server, times: usize| {
            kill_process(Pid::from_raw(server.pid() as i32).unwrap(), Signal::TERM).unwrap();
            while server.log().matches("Received SIGTERM").count() < times {}
        };
        for times in 1..=2 {
            assert_eq!(ask("DEBUG PAUSE-CRON 1"), "OK");
            terminate(&server, times);
            assert_eq!(ask("SHUTDOWN ABORT"), "OK", "{program}");
            assert_eq!(ask("SHUTDOWN ABORT"), NONE);
            assert_eq!(ask("DEBUG PAUSE-CRON 0"), "OK");
            assert_eq!(ask("SET k v"), "OK");
        }
        assert_eq!(server.log().matches("Shutdown manually aborted").count(), 2);
        assert!(!server.has_exited());
        // A signal that is not taken back waits for periodic work only.
        assert_eq!(ask("DEBUG PAUSE-CRON 1"), "OK");
        terminate(&server, 3);
        assert_eq!(ask("DEBUG PAUSE-CRON 0"), "OK");
        assert!(server.end().unwrap().0.success(), "{program}");
    }
}

#[test]
fn an_append_only_file_that_is_switched_off_leaves_no_rewrite_in_the_way() {
    let words = ["server", "--save", "", "--appendonly", "yes", "--rdb-key-save-delay", "10000000"];
    let server = Server::start(Path::new(OURS), &words).unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(ask(&mut client, "SET k v"), "OK");
    for round in 0..5 {
        assert_eq!(ask(&mut client, "BGREWRITEAOF"), REWRITES, "{round}");
        assert_eq!(ask(&mut client, "CONFIG SET appendonly no"), "OK");
        assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
        // Postponed until the save is over.
        assert_eq!(ask(&mut client, "CONFIG SET appendonly yes"), "OK");
        assert!(ask(&mut client, "INFO persistence").contains("aof_rewrite_scheduled:1"));
        assert_eq!(ask(&mut client, "SET k w"), "OK");
        assert_eq!(ask(&mut client, "CONFIG SET rdb-key-save-delay 0"), "OK");
        let waited = client.command(&["WAITAOF", "1", "0", "10000"]).unwrap();
        assert_eq!(waited, Reply::Array(vec![Reply::Int(1), Reply::Int(0)]), "{round}");
        let persistence = ask(&mut client, "INFO persistence");
        assert!(persistence.contains("aof_rewrite_scheduled:0"), "{persistence}");
        assert_eq!(ask(&mut client, "CONFIG SET rdb-key-save-delay 10000000"), "OK");
    }
}
