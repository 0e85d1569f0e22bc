//! Modes: walks through keys beside redis-cli, transfers of data against a Martlet server and a real one.

use super::{ours, run};
use martlet_client::blocking::Client;
use martlet_client::resp::{Reply, encode_request};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::Server;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const KEYS: usize = 2_500;

fn start() -> (Server, String) {
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &["server"]).unwrap();
    let port = server.address().port().to_string();
    (server, port)
}

/// Requests that make keys of each type.
fn requests() -> Vec<u8> {
    let mut out = Vec::new();
    for index in 0..KEYS {
        let (key, value) = (format!("key:{index}"), "v".repeat(index % 97));
        match index % 7 {
            0 => encode_request(&["RPUSH", &key, "a", &value], &mut out),
            1 => encode_request(&["SADD", &key, "a", "b", &value], &mut out),
            2 => encode_request(&["HSET", &key, "field", &value], &mut out),
            3 => encode_request(&["ZADD", &key, "1", "a", "2", "b"], &mut out),
            4 => encode_request(&["XADD", &key, "1-1", "field", &value], &mut out),
            _ => encode_request(&["SET", &key, &value], &mut out),
        }
    }
    encode_request(&["SET", "big \"key\"\n", &"x".repeat(5_000)], &mut out);
    out
}

fn fill(port: &str) {
    let got = run(ours(), &["-p", port, "--pipe"], &requests());
    assert_eq!(got.status, Some(0), "{}", got.errors());
    let expected = format!(
        "All data transferred. Waiting for the last reply...\nLast reply received from server.\n\
         errors: 0, replies: {}\n",
        KEYS + 1
    );
    assert_eq!(got.text(), expected);
}

#[test]
fn a_pipe_counts_replies_and_errors() {
    let (_server, port) = start();
    fill(&port);
    let got = run(ours(), &["-p", &port, "--pipe"], b"PING\r\nNOSUCH\r\n*1\r\n$4\r\nPING\r\n");
    assert_eq!(got.status, Some(1));
    assert!(got.text().ends_with("errors: 1, replies: 3\n"), "{}", got.text());
    assert!(got.errors().starts_with("ERR unknown command 'NOSUCH'"), "{}", got.errors());
}

#[test]
fn scan_lists_keys_by_pattern_and_type() {
    let (_server, port) = start();
    fill(&port);
    let list = |arguments: &[&str]| {
        let text = run(ours(), &[&["-p", &port, "--scan"], arguments].concat(), b"").text();
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    };
    assert_eq!(list(&["--pattern", "key:*"]).len(), KEYS);
    assert_eq!(list(&["--pattern", "key:249?", "--type", "hash"]), ["key:2494"]);
    assert_eq!(list(&["--quoted-pattern", r#""key:\x31\x32""#, "--count", "1000"]), ["key:12"]);
    assert_eq!(list(&["--no-raw", "--pattern", "big*"]), [r#""big \"key\"\n""#]);
    let refused = run(ours(), &["-p", &port, "--count", "0", "--scan"], b"");
    assert_eq!((refused.status, refused.errors()), (Some(1), "--count should be greater than 0.\n".into()));
}

/// The lines that do not depend on the order of a walk, sorted; redis-cli 7.0 quotes keys twice.
fn summary(text: &str) -> Vec<String> {
    let (_, summary) = text.split_once("-------- summary -------").unwrap();
    let once = |line: &str| line.replace("'\"", "\"").replace("\"'", "\"");
    let mut lines: Vec<String> = summary.lines().map(once).collect();
    lines.sort();
    lines
}

#[test]
fn big_keys_are_those_that_redis_cli_finds() {
    let (_server, port) = start();
    fill(&port);
    let walk = |mode: &str, command: Command| {
        let got = run(command, &["-p", &port, mode], b"");
        assert_eq!((got.status, got.errors()), (Some(0), String::new()));
        got.text()
    };
    let text = walk("--bigkeys", ours());
    let lines = summary(&text);
    assert!(lines.contains(&format!("Sampled {} keys in the keyspace!", KEYS + 1)));
    let biggest = r#"Biggest string found "big \"key\"\n" has 5000 bytes"#;
    assert!(lines.iter().any(|line| line == biggest), "{lines:?}");
    assert!(text.contains("% of keys, avg size 3.00)"), "{text}");
    if !is_installed("redis-cli") {
        return;
    }
    for mode in ["--bigkeys", "--memkeys"] {
        let (text, expected) = (walk(mode, ours()), walk(mode, Command::new("redis-cli")));
        let (lines, expected) = (summary(&text), summary(&expected));
        assert_eq!(lines, expected, "{mode}");
    }
}

/// Types that the program does not know are counted and their memory is measured; values without elements are
/// values.
#[test]
fn walks_find_every_type_and_the_empty_values() {
    let (server, port) = start();
    let mut client = Client::connect(server.address()).unwrap();
    // DUMP of a value of the type `test-type` of a module: the id, an integer, the version and the checksum.
    let payload =
        b"\x07\x81\xb5\xeb\x2d\xfa\xdc\xa9\x78\x05\x02\x07\x00\x0a\x00\x1a\x63\x66\x50\x0a\x70\xae\xe6";
    for request in [
        vec![&b"SET"[..], b"empty", b""],
        vec![b"ARSET", b"array", b"3", b"x", b"y"],
        vec![b"RESTORE", b"module", b"0", payload],
    ] {
        let reply = client.command(&request).unwrap();
        assert!(!reply.is_error(), "{reply:?}");
    }
    let walk = |mode: &str| {
        let got = run(ours(), &["-p", &port, mode], b"");
        assert_eq!((got.status, got.errors()), (Some(0), String::new()));
        got.text()
    };
    let text = walk("--bigkeys");
    for line in [
        "Biggest string found \"empty\" has 0 bytes",
        "Biggest  array found \"array\" has 2 elements",
        "1 arrays with 2 elements (33.33% of keys, avg size 2.00)",
        "1 test-types with 0 ? (33.33% of keys, avg size 0.00)",
        "0 lists with 0 items (00.00% of keys, avg size 0.00)",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(!text.contains("Biggest test-type"), "{text}");
    let text = walk("--memkeys");
    assert!(text.contains("Biggest test-type found \"module\" has "), "{text}");
    let text = walk("--keystats");
    let (_, lengths) = text.split_once("--- Top length and cardinality per type ---\n").unwrap();
    for line in ["string     \"empty\" has 0B", "array      \"array\" has 2 elements"] {
        assert!(lengths.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(text.contains("test-type            1  33.33%"), "{text}");
}

#[test]
fn key_statistics_add_up() {
    let (_server, port) = start();
    fill(&port);
    let got = run(ours(), &["-p", &port, "--keystats", "--top", "2"], b"");
    let text = got.text();
    assert_eq!((got.status, got.errors()), (Some(0), String::new()));
    assert!(text.contains(&format!("100.00% keys scanned\nKeys sampled: {}\n", KEYS + 1)), "{text}");
    let (_, top) = text.split_once("--- Top 2 key sizes ---\n").unwrap();
    assert!(top.lines().next().unwrap().ends_with(r#" string     "big \"key\"\n""#), "{text}");
    assert_eq!(top.lines().position(str::is_empty), Some(2));
    assert!(text.contains(&format!(" 100.0000% {:11}\nNote: 0.01% size precision", KEYS + 1)), "{text}");
    assert!(text.contains("\nzset               357  14.27% "), "{text}");
}

#[test]
fn hot_keys_need_an_lfu_policy() {
    let (server, port) = start();
    fill(&port);
    let refused = run(ours(), &["-p", &port, "--hotkeys"], b"");
    assert_eq!(refused.status, Some(1));
    assert!(refused.errors().starts_with("Error: ERR An LFU maxmemory policy is not selected"));
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]).unwrap();
    let got = run(ours(), &["-p", &port, "--hotkeys"], b"");
    assert_eq!((got.status, got.errors()), (Some(0), String::new()));
    assert!(got.text().contains(&format!("Sampled {} keys in the keyspace!\n", KEYS + 1)), "{}", got.text());
}

#[test]
fn latency_is_one_line_for_a_pipe() {
    let (_server, port) = start();
    for (form, separator) in [("--raw", ' '), ("--csv", ',')] {
        let got = run(ours(), &["-p", &port, "--latency", "-i", "0.05", form], b"");
        assert_eq!((got.status, got.text().lines().count()), (Some(0), 1));
        assert_eq!(got.text().split(separator).count(), 4, "{}", got.text());
    }
    let got = run(ours(), &["--intrinsic-latency", "0"], b"");
    assert!(got.text().contains("Max latency so far: ") && got.text().contains(" total runs ("));
}

#[test]
fn figures_are_printed_each_interval() {
    let (_server, port) = start();
    fill(&port);
    let mut command = ours();
    command.args(["-p", &port, "--stat", "-i", "0.01"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().take(23).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines[0].starts_with("------- data ------ ") && lines[22].starts_with("------- data ------ "));
    assert!(lines[1].starts_with("keys       mem      clients blocked requests"));
    assert!(lines[2].starts_with(&format!("{:<11}", KEYS + 1)), "{}", lines[2]);
}

/// A real server, whose snapshots and stream replicas get.
fn real() -> Option<(Server, String)> {
    if !is_installed("redis-server") {
        return None;
    }
    let server = Server::start(Path::new("redis-server"), &["--save", ""]).unwrap();
    let port = server.address().port().to_string();
    Some((server, port))
}

#[test]
fn a_snapshot_is_saved_as_a_replica_gets_it() {
    let Some((server, port)) = real() else { return };
    fill(&port);
    let directory = tempfile::tempdir().unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    for diskless in ["no", "yes"] {
        client.command(&["CONFIG", "SET", "repl-diskless-sync", diskless]).unwrap();
        client.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).unwrap();
        let file = directory.path().join(diskless);
        let got = run(ours(), &["-p", &port, "--rdb", file.to_str().unwrap()], b"");
        assert_eq!(got.status, Some(0), "{}", got.errors());
        assert!(got.errors().contains("Transfer finished with success"), "{}", got.errors());
        let mut check = Command::new(env!("CARGO_BIN_EXE_martlet"));
        check.arg("check-rdb").arg(&file);
        let checked = run(check, &[], b"");
        assert_eq!(checked.status, Some(0), "{}", checked.text());
        let piped = run(ours(), &["-p", &port, "--functions-rdb", "-"], b"");
        assert!(piped.out.starts_with(b"REDIS") && piped.out.len() < 1_000, "{}", piped.errors());
    }
}

#[test]
fn a_replica_prints_what_follows() {
    let Some((server, port)) = real() else { return };
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).unwrap();
    let mut command = ours();
    command.args(["-p", &port, "--replica"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.ends_with("Logging commands from master.")));
    client.command(&["SET", "key", "a\0b"]).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == r#""SET","key","a\x00b""#));
    assert_eq!(client.command(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap(), Reply::Int(1));
    assert!(errors.any(|line| line == "Error: Server closed the connection"));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn tables_notes_and_watched_values_over_a_pipe() {
    let (_server, port) = start();
    let run = |words: &[&str]| run(ours(), &[&["-p", &port], words].concat(), b"");
    assert_eq!(run(&["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"]).text(), "OK\n");
    let expected = "name | consumers | pending | last-delivered-id | entries-read | lag\n\
        -----+-----------+---------+-------------------+--------------+----\n\
        g    |         0 |       0 | 0-0               | (nil)        |   0\n(1 row)\n";
    assert_eq!(run(&["--table", "XINFO", "GROUPS", "s"]).text(), expected);
    run(&["SETRANGE", "k", "2047", "x"]);
    assert_eq!(run(&["--human", "STRLEN", "k"]).text(), "(integer) 2048 (2.00K)\n");
    assert_eq!(run(&["STRLEN", "k"]).text(), "2048\n");
    let missing = run(&["--watch", "info:nothing"]);
    assert_eq!((missing.status, missing.errors().as_str()), (Some(1), "INFO has no field 'nothing'.\n"));

    let mut command = ours();
    command.args(["-p", &port, "--watch", "info:db0.keys", "-i", "0.01"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(3).map(Result::unwrap).collect();
    assert!(lines.iter().all(|line| line.ends_with(" 2")), "{lines:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn results_of_searches_are_tables_where_they_are_asked_for() {
    let (_server, port) = start();
    let run = |words: &[&str]| run(ours(), &[&["-p", &port], words].concat(), b"").text();
    run(&["FT.CREATE", "i", "SCHEMA", "t", "TEXT", "n", "NUMERIC", "SORTABLE"]);
    run(&["HSET", "a", "t", "two\nlines", "n", "7"]);
    run(&["HSET", "b", "t", "zwei \u{65e5}\u{672c}", "n", "12", "more", "x"]);
    let search = ["FT.SEARCH", "i", "*", "SORTBY", "n"];
    let table = "id |  n | t          | more\n---+----+------------+-----\n\
        a  |  7 | two\\nlines |\nb  | 12 | zwei \u{65e5}\u{672c}  | x\n(2 rows)\n";
    let piped = ["2\n", "a\n", "n\n", "7\n", "t\n", "two\nlines\n"].concat();
    for version in ["-2", "-3"] {
        assert_eq!(run(&[&[version, "--table"], &search[..]].concat()), table, "{version}");
        let plain = run(&[&[version], &search[..]].concat());
        assert_eq!(plain.starts_with(&piped), version == "-2", "{plain}");
        let rows = ["FT.AGGREGATE", "i", "*", "LOAD", "1", "@n", "WITHCURSOR", "COUNT", "1"];
        let page = run(&[&[version, "--table"], &rows[..]].concat());
        let page = page.strip_prefix("n\n-\n7\n(1 row)\n(cursor ").unwrap_or_else(|| panic!("{page}"));
        let cursor = page.strip_suffix(")\n").unwrap();
        let last = run(&[version, "--table", "FT.CURSOR", "READ", "i", cursor, "COUNT", "5"]);
        assert_eq!(last, " n\n--\n12\n(1 row)\n(no further rows)\n");
        assert_eq!(run(&[version, "--table", "FT.SEARCH", "i", "none"]), "(0 rows)\n");
        assert_eq!(run(&[version, "--table", "FT.SEARCH", "i", "*", "LIMIT", "0", "0"]), "(0 rows of 2)\n");
        assert_eq!(
            run(&[version, "--table", "FT.SEARCH", "j", "*"]),
            run(&["--no-raw", "FT.SEARCH", "j", "*"])
        );
    }
}
