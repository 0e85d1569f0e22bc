//! Requests that are answered later than they came (a wait for a key) run as every other request does: what
//! they read is tracked, and the checks that they meet are those of the moment in which they run.

use std::path::Path;
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");

fn start() -> Server {
    Server::start(Path::new(OURS), &["server", "--save", "", "--io-threads", "2"]).unwrap()
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address()).unwrap()
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Runs these lines; none may fail.
fn run(client: &mut Client, lines: &[&str]) {
    for line in lines {
        let reply = client.command(&words(line)).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
}

/// Sends a request that has to wait, and returns once it does.
fn send_and_wait(server: &Server, client: &mut Client, line: &str) {
    client.send(&words(line)).unwrap();
    let (mut other, end) = (connect(server), Instant::now() + Duration::from_secs(10));
    loop {
        let info = other.command(&["INFO", "clients"]).unwrap();
        if String::from_utf8_lossy(info.text().unwrap()).contains("\r\nblocked_clients:1\r\n") {
            return;
        }
        assert!(Instant::now() < end, "{line} does not wait");
    }
}

/// The keys of which the client has been notified, and its other replies, up to that of a PING which it
/// sends.
fn read_all(client: &mut Client) -> (Vec<String>, Vec<Reply>) {
    client.send(&["PING"]).unwrap();
    let (mut keys, mut replies) = (Vec::new(), Vec::new());
    loop {
        match client.read_reply().unwrap() {
            Reply::Push(items) => {
                assert_eq!(items[0].text(), Some(b"invalidate".as_slice()));
                let name = |key: &Reply| String::from_utf8_lossy(key.text().unwrap()).into_owned();
                keys.extend(items[1].items().unwrap().iter().map(name));
            }
            Reply::Simple(text) if text == b"PONG" => return (keys, replies),
            reply => replies.push(reply),
        }
    }
}

/// The options of CLIENT TRACKING, the argument of CLIENT CACHING (empty without), the request that waits,
/// the requests that serve it, later changes of its keys, and the keys of the invalidations that follow.
type Tracked<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

/// As Redis 8.2 and Valkey 9.1 do it.
#[test]
fn what_a_request_has_read_after_its_wait_is_tracked() {
    const READ: &str = "XREAD BLOCK 0 STREAMS k $";
    const ADD: &str = "XADD k * a b";
    let cases: &[Tracked<'_>] = &[
        ("", "", READ, &[ADD], &[ADD], &["k"]),
        ("", "", "XREAD BLOCK 0 STREAMS j k $ $", &[ADD], &[ADD, "XADD j * a b"], &["k", "j"]),
        ("", "", "XREAD BLOCK 100 STREAMS k $", &[], &[ADD], &["k"]),
        ("OPTIN", "", READ, &[ADD], &[ADD], &[]),
        ("OPTIN", "YES", READ, &[ADD], &[ADD], &["k"]),
        ("OPTOUT", "", READ, &[ADD], &[ADD], &["k"]),
        ("OPTOUT", "NO", READ, &[ADD], &[ADD], &[]),
        ("BCAST", "", READ, &[ADD], &[ADD], &["k"]),
        ("", "", "BLPOP k 0", &["RPUSH k a b"], &["RPUSH k c"], &[]),
        ("", "", "BLMOVE k d LEFT LEFT 0", &["RPUSH k a b"], &["RPUSH d c", "RPUSH k c"], &[]),
        ("", "", "BZPOPMIN k 0", &["ZADD k 1 a 2 b"], &["ZADD k 3 c"], &[]),
        ("", "", "WAIT 1 100", &[], &["SET k v"], &[]),
    ];
    let server = start();
    let mut writer = connect(&server);
    for (options, caching, request, serves, changes, heard) in cases {
        let mut reader = connect(&server);
        run(&mut reader, &["HELLO 3", format!("CLIENT TRACKING ON {options}").trim_end()]);
        if !caching.is_empty() {
            run(&mut reader, &[&format!("CLIENT CACHING {caching}")]);
        }
        send_and_wait(&server, &mut reader, request);
        run(&mut writer, serves);
        assert_eq!(read_all(&mut reader).1.len(), 1, "{options} {request}");
        run(&mut writer, changes);
        assert_eq!(read_all(&mut reader).0, *heard, "{options} {caching} {request}");
        drop(reader);
        run(&mut writer, &["FLUSHALL"]);
    }
    // Keys that it read before the wait, and within a transaction.
    let mut reader = connect(&server);
    run(&mut reader, &["HELLO 3", "CLIENT TRACKING ON", "GET before"]);
    send_and_wait(&server, &mut reader, "BLPOP list 0");
    run(&mut writer, &["SET before v", "RPUSH list a"]);
    assert_eq!(read_all(&mut reader).0, ["before"]);
    run(&mut reader, &["MULTI", "XREAD BLOCK 0 STREAMS k $", "EXEC"]);
    run(&mut writer, &[ADD]);
    assert_eq!(read_all(&mut reader).0, ["k"]);
}

/// What serves the request also makes the server one that refuses it. As Redis 8.2 does it.
#[test]
fn a_request_that_has_waited_meets_the_checks_of_its_moment() {
    let server = start();
    let mut writer = connect(&server);
    for (request, setting, word) in [
        ("BLPOP k 0", "min-replicas-to-write", "NOREPLICAS"),
        ("BLMOVE k d LEFT LEFT 0", "maxmemory", "OOM"),
        ("BLMOVE k d LEFT LEFT 0", "min-replicas-to-write", "NOREPLICAS"),
    ] {
        let mut waiting = connect(&server);
        send_and_wait(&server, &mut waiting, request);
        run(&mut writer, &["MULTI", &format!("CONFIG SET {setting} 1"), "RPUSH k a", "EXEC"]);
        let answer = waiting.read_reply().unwrap();
        let Reply::Error(text) = &answer else { panic!("{request}: {answer:?}") };
        assert!(text.starts_with(word.as_bytes()), "{request}: {answer:?}");
        run(&mut writer, &[&format!("CONFIG SET {setting} 0")]);
        assert_eq!(writer.command(&["LPOP", "k"]).unwrap().text(), Some(b"a".as_slice()));
        // The request may run, and waits again.
        send_and_wait(&server, &mut waiting, request);
        run(&mut writer, &["RPUSH k b"]);
        assert!(!matches!(waiting.read_reply().unwrap(), Reply::Error(_)));
        run(&mut writer, &["FLUSHALL"]);
    }
    let stats = writer.command(&["INFO", "commandstats"]).unwrap();
    let stats = String::from_utf8_lossy(stats.text().unwrap()).into_owned();
    for (command, rejected) in [("blpop", 1), ("blmove", 2)] {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).unwrap();
        assert!(line.contains(&format!("calls={rejected},")), "{line}");
        assert!(line.contains(&format!("rejected_calls={rejected},failed_calls=0")), "{line}");
    }
}
