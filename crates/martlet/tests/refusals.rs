//! Whether a write may run: one question for commands, scripts and functions, by themselves and in EXEC, in
//! the words that Redis 7.0 and 8.2 have for each.

use std::path::Path;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

const FLAGGED: &[&str] = &["EVAL", "#!lua\nreturn redis.call('SET','a','1')", "0"];
const FLAGGED_RO: &[&str] = &["EVAL_RO", "#!lua\nreturn redis.call('SET','a','1')", "0"];
const READS: &[&str] = &["EVAL", "#!lua flags=no-writes\nreturn redis.call('GET','a')", "0"];
const TAKES_STALE: &[&str] =
    &["EVAL", "#!lua flags=no-writes,allow-stale\nreturn redis.call('GET','a')", "0"];
const PLAIN: &[&str] = &["EVAL", "return redis.call('SET','a','1')", "0"];
const CONSTANT: &[&str] = &["EVAL", "return 'one'", "0"];
const FUNCTION: &[&str] = &["FCALL", "w", "0"];
const SET: &[&str] = &["SET", "a", "1"];

const FEW: &str = "NOREPLICAS Not enough good replicas to write.";
const NOT_RO: &str = "ERR Can not execute a script with write flag using *_ro command.";
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const DOWN: &str = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
const DOWN_IN_EXEC: &str = "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set on the script.";
const READONLY: &str = "READONLY You can't write against a read only replica.";
const READONLY_IN_EXEC: &str = "READONLY Can not run script with write flag on readonly replica";
const STALE_CALL: &str = "ERR Can not execute the command on a stale replica";

/// A state, how it is left, and the beginning of each answer: by itself, and in an EXEC that enters the
/// state.
type Case = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [(&'static [&'static str], &'static str, &'static str)],
);

const CASES: &[Case] = &[
    (
        &["CONFIG SET min-replicas-to-write 1"],
        &["CONFIG SET min-replicas-to-write 0"],
        &[
            (SET, FEW, "OK"),
            (FLAGGED, FEW, FEW),
            (FLAGGED_RO, FEW, NOT_RO),
            (READS, "1", "1"),
            (PLAIN, FEW, FEW),
            (CONSTANT, "one", "one"),
            (FUNCTION, FEW, FEW),
        ],
    ),
    (
        &["REPLICAOF 127.0.0.1 1"],
        &["REPLICAOF NO ONE"],
        &[
            (SET, READONLY, "OK"),
            (FLAGGED, READONLY, READONLY_IN_EXEC),
            (FLAGGED_RO, READONLY, READONLY_IN_EXEC),
            (READS, "1", "1"),
            (PLAIN, READONLY, READONLY),
            (FUNCTION, READONLY, READONLY_IN_EXEC),
        ],
    ),
    (
        &["CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1"],
        &["REPLICAOF NO ONE", "CONFIG SET replica-serve-stale-data yes"],
        &[
            (FLAGGED, READONLY, DOWN_IN_EXEC),
            (FLAGGED_RO, READONLY, DOWN_IN_EXEC),
            (READS, DOWN, DOWN_IN_EXEC),
            (TAKES_STALE, STALE_CALL, STALE_CALL),
            (PLAIN, DOWN, DOWN),
            (CONSTANT, DOWN, DOWN),
            (FUNCTION, READONLY, DOWN_IN_EXEC),
        ],
    ),
];

fn said(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned(),
    }
}

fn ask(client: &mut Client, words: &[&str]) -> String {
    said(&client.command(words).unwrap())
}

fn lines(client: &mut Client, lines: &[&str]) {
    for line in lines {
        let answer = ask(client, &line.split(' ').collect::<Vec<_>>());
        assert!(answer.starts_with("OK") || answer == "QUEUED", "{line}: {answer}");
    }
}

#[test]
fn a_write_is_refused_in_the_words_of_its_caller() {
    let server = Server::start(Path::new(OURS), &["server", "--save", ""]).unwrap();
    let client = &mut Client::connect(server.address()).unwrap();
    let library =
        "#!lua name=l\nredis.register_function('w', function() return redis.call('SET','a','1') end)";
    assert_eq!(ask(client, &["FUNCTION", "LOAD", library]), "l");
    lines(client, &["SET a 1"]);
    for (enter, leave, requests) in CASES {
        for (words, alone, in_exec) in *requests {
            lines(client, enter);
            let answer = ask(client, words);
            assert!(answer.starts_with(alone), "{enter:?} {words:?}: {answer}");
            lines(client, leave);
            lines(client, &["MULTI"]);
            lines(client, enter);
            assert_eq!(ask(client, words), "QUEUED");
            let replies = client.command(&["EXEC"]).unwrap();
            let answer = said(replies.items().unwrap().last().unwrap());
            assert!(answer.starts_with(in_exec), "{enter:?} EXEC {words:?}: {answer}");
            lines(client, leave);
        }
    }
    lines(client, &["CONFIG SET maxmemory 1"]);
    for (words, right) in [(SET, OOM), (FLAGGED, OOM), (READS, "1"), (PLAIN, OOM), (FUNCTION, OOM)] {
        let answer = ask(client, words);
        assert!(answer.starts_with(right), "{words:?}: {answer}");
    }
}
