//! SHUTDOWN of whole processes, with an append-only file, with saves that fail, and while something is being written: the replies, the exit
//! and the files that are left are redis-server's, which is asked too if it is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

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

/// What a server is started with, and the commands that it gets, each on a connection of its own, with the reply.
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

/// Has a server go through a case; what is left on disk.
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
    let is_installed = Command::new("redis-server").arg("--version").output().is_ok();
    for case in CASES {
        let left = go_through(OURS, case);
        if is_installed {
            assert_eq!(left, go_through("redis-server", case), "{case:?}");
        }
    }
}
