//! `martlet cli` as a process: beside redis-cli where that is installed, and against servers of the test's
//! own.

mod beside;
mod cluster;
mod modes;
mod responder;
mod streams;
mod terminal;
mod typed;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The output of a run, and its exit status.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    status: Option<i32>,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Run {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    fn errors(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }
}

/// Our tool.
fn ours() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_martlet"));
    command.arg("cli");
    command
}

/// Runs with an input; the environment of the test's own process does not reach it.
fn run(mut command: Command, arguments: &[&str], input: &[u8]) -> Run {
    for name in ["REDISCLI_AUTH", "FAKETTY", "TERM"] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The program may end without reading it.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    Run { status: status.code(), out: stdout, err: stderr }
}

#[test]
fn what_goes_wrong_is_said_and_has_a_status() {
    let refused = martlet_testkit::server::ReservedPort::take().unwrap();
    let port = refused.number().to_string();
    let got = run(ours(), &["-p", &port, "PING"], b"");
    let message = format!("Could not connect to Redis at 127.0.0.1:{port}: Connection refused\n");
    assert_eq!((got.status, got.errors()), (Some(1), message));
    for (arguments, expected) in [
        (&["--nonsense"][..], "Unrecognized option or bad number of args for: '--nonsense'\n"),
        (&["-x", "-X", "tag"], "Options -x and -X are mutually exclusive.\n"),
        (&["-X", "tag", "SET", "key", "other"], "Using -X option but stdin tag not match.\n"),
    ] {
        let got = run(ours(), arguments, b"");
        assert_eq!((got.status, got.errors().as_str()), (Some(1), expected), "{arguments:?}");
    }
    let version = run(ours(), &["--version"], b"");
    assert!(version.status == Some(0) && version.text().starts_with("redis-cli "), "{version:?}");
}
