//! Each form of output, and what scripts read, to the byte as redis-cli has it.

use super::{ours, responder, run};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use std::path::Path;
use std::process::Command;

/// Runs both, and fails where they differ.
fn compare(arguments: &[&str], input: &[u8]) {
    let expected = run(Command::new("redis-cli"), arguments, input);
    let got = run(ours(), arguments, input);
    let shown = String::from_utf8_lossy(input);
    assert_eq!(
        (got.text(), got.errors(), got.status),
        (expected.text(), expected.errors(), expected.status),
        "{arguments:?} with {shown:?}"
    );
    assert_eq!(got.out, expected.out, "{arguments:?}");
}

const FORMS: &[&[&str]] =
    &[&[], &["--no-raw"], &["--csv"], &["--json"], &["-d", ", ", "-D", ";"], &["-e", "--no-raw"]];

const REPLIES: &[&str] = &[
    "+OK\r\n",
    "-ERR \"no\"\r\n",
    ":-5\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "_\r\n",
    "$0\r\n\r\n",
    "$11\r\n\u{1}\t\"é\\\u{7}\u{7f}\r\n.\r\n",
    "*0\r\n",
    "%0\r\n",
    "~0\r\n",
    "#t\r\n",
    ",-1.50\r\n",
    ",inf\r\n",
    "=7\r\ntxt:a\nb\r\n",
    "*3\r\n*2\r\n+a\r\n:1\r\n$-1\r\n*1\r\n*1\r\n*0\r\n",
    "%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n:7\r\n#t\r\n",
    "%2\r\n+a\r\n*1\r\n%1\r\n+b\r\n*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n*2\r\n:1\r\n:2\r\n",
    "%1\r\n%1\r\n:1\r\n:2\r\n%1\r\n*2\r\n+x\r\n+y\r\n%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
    "%1\r\n+k\r\n*1\r\n*1\r\n*2\r\n:1\r\n:2\r\n",
    "~2\r\n$1\r\na\r\n~1\r\n,3\r\n",
    "*2\r\n-ERR a\r\n_\r\n",
    "*1\r\n=4\r\ntxt:\r\n",
    ">2\r\n+a\r\n+b\r\n:1\r\n",
    "?garbage\r\n",
];

#[test]
fn every_reply_in_every_form() {
    if !is_installed("redis-cli") {
        return;
    }
    let port = responder::start();
    // Wide numbers, and an array of a hundred.
    let many = format!("*100\r\n{}", "%1\r\n:1\r\n*2\r\n:1\r\n:2\r\n".repeat(100));
    for reply in REPLIES.iter().copied().chain([many.as_str()]) {
        let word = responder::hex(reply.as_bytes());
        for form in FORMS {
            for protocol in ["-2", "-3"] {
                // Over RESP2 redis-cli 7.0 turns JSON's maps into arrays.
                if protocol == "-2" && form.contains(&"--json") {
                    continue;
                }
                compare(&[&["-p", &port, protocol], *form, &["REPLY", &word]].concat(), b"");
            }
        }
    }
}

#[test]
fn commands_of_a_pipe_and_what_goes_wrong_in_it() {
    if !is_installed("redis-cli") {
        return;
    }
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &["server"]).unwrap();
    let port = server.address().port().to_string();
    let script = b"flushall\nset key \"a\\x00b\"\n\nget key\n  get  'key' \nget \"key\nget \"\"key\n3 incr n\n0 incr n\nnosuch\n\
        select 3\nset here 1\nmulti\nset here 2\nget here\nexec\nexec\nrpush l a b\nlrange l 0 -1\nselect 99\n\
        get here\nobject help\nclient reply on\nhgetall nothing\nset k v px\nreset\nping\n";
    for form in [&[][..], &["--no-raw"], &["--csv"]] {
        for before in [&[][..], &["-n", "5"], &["-3"]] {
            compare(&[&["-p", &port], before, form].concat(), script);
        }
    }
    for arguments in [
        &["-r", "3", "LLEN", "l"][..],
        &["-e", "NOSUCH"],
        &["-n", "99", "PING"],
        &["-a", "wrong", "PING"],
        &["-a", "wrong", "--no-auth-warning", "PING"],
        &["--user", "nobody", "--pass", "wrong", "PING"],
        &["-x", "SET", "key"],
        &["-X", "here", "SET", "here", "value"],
        &["--quoted-input", "SET", "\"a\\x00\"", "\"\\xff\""],
        &["--quoted-input", "SET", "\"open", "x"],
        &["--quoted-input", "GET", "\"one\" \"two\""],
        &["GET", "here"],
        &["-D", "", "--raw", "DUMP", "key"],
        &["CLUSTER", "INFO"],
        &["--no-raw", "MEMORY", "DOCTOR"],
        &["--no-raw", "LOLWUT", "VERSION", "5", "1", "1", "1"],
    ] {
        compare(&[&["-p", &port], arguments].concat(), b"from\0standard input\n");
    }
}

/// Debugging sessions over a pipe; redis-cli shows their colours by the terminal's name alone.
#[test]
fn scripts_are_debugged_as_by_redis_cli() {
    if !is_installed("redis-cli") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let script = file("script.lua", "local x = ARGV[1]\nredis.call('SET', KEYS[1], x)\nreturn {x, 1}\n");
    let broken = file("broken.lua", "retrun 1\n");
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &["server"]).unwrap();
    let port = server.address().port().to_string();
    let sessions: &[&[u8]] = &[
        b"s\ns\nprint x\nc\nget k\n",
        b"help\nlist\nw\ne  1 + 1\neval 'a b\nb 3\nc\np\n2 s\nget k\n",
        b"a\nping\n",
        b"s\nrestart\ns\nc\nquit\nget k\n",
        b"\"open\nexit\n",
        b"x\n",
    ];
    for mode in ["--ldb", "--ldb-sync-mode"] {
        // With SYNC, a session that its client leaves open may have the next one find the server busy.
        let count = if mode == "--ldb" { sessions.len() } else { 3 };
        for session in &sessions[..count] {
            compare(&["-p", &port, mode, "--eval", &script, "k", ",", "v"], session);
        }
        compare(&["-p", &port, mode, "--eval", &broken], b"s\nget k\n");
        compare(&["-p", &port, mode], b"");
    }
    let missing = run(ours(), &["-p", &port, "--ldb", "--eval", "/nowhere/file"], b"");
    assert!(missing.status == Some(1) && missing.errors().contains("Can't open file '/nowhere/file'"));
    let typed = b"script debug yes\neval \"local a = 1\\nreturn a\" 0\nhelp\ns\ns\nping\n";
    let typed = run(ours(), &["-p", &port], typed);
    let shown = typed.text();
    for text in [
        "* Stopped at 1",
        "Redis Lua debugger help:",
        "* Stopped at 2",
        "dataset changes rolled back",
        "PONG",
    ] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
}
