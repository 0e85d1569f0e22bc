//! SCRIPT DEBUG: whole sessions beside Redis', and other clients beside them.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;

const OURS: &str = env!("CARGO_BIN_EXE_martlet");
const TRANSCRIPTS: &str = include_str!("transcripts.txt");
const CONFIGURATIONS: [[&str; 4]; 3] = [
    ["--io-backend", "uring", "--io-threads", "1"],
    ["--io-backend", "epoll", "--io-threads", "1"],
    ["--io-backend", "uring", "--io-threads", "2"],
];

fn start(arguments: &[&str]) -> Server {
    Server::start(Path::new(OURS), &[&["server", "--save", ""], arguments].concat()).unwrap()
}

fn connect(server: &Server) -> Client {
    let client = Client::connect(server.address()).unwrap();
    client.stream().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

fn run(client: &mut Client, words: &[&str]) -> Reply {
    client.command(words).unwrap()
}

fn text(reply: &Reply) -> String {
    if let Some(number) = reply.integer() {
        return number.to_string();
    }
    match reply {
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Array(all) => all.iter().map(text).collect::<Vec<_>>().join("|"),
        other => String::from_utf8_lossy(other.text().unwrap_or_default()).into_owned(),
    }
}

fn say(client: &mut Client, words: &[&str]) -> String {
    text(&run(client, words))
}

/// A session that has stopped at its first line.
fn debug(server: &Server, mode: &str, script: &str, keys: &[&str]) -> Client {
    let mut client = connect(server);
    assert_eq!(say(&mut client, &["SCRIPT", "DEBUG", mode]), "OK");
    let count = keys.len().to_string();
    let stopped = say(&mut client, &[&["EVAL", script, count.as_str()], keys].concat());
    assert!(stopped.starts_with("* Stopped at 1, stop reason = step over|-> 1"), "{stopped}");
    client
}

/// The rest of a session.
fn finish(client: &mut Client) -> Vec<String> {
    let mut rest = Vec::new();
    client.send(&["c"]).unwrap();
    while let Ok(reply) = client.read_reply() {
        rest.push(text(&reply));
    }
    rest
}

/// Whether the server has ended the connection.
fn is_closed(client: &Client) -> bool {
    matches!(client.stream().read(&mut [0; 1]), Ok(0))
}

fn unescape(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
        } else if let Some((digits, behind)) = behind.split_at_checked(2) {
            let digits = std::str::from_utf8(digits).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = behind;
        }
    }
    bytes
}

fn encoded(words: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let words: Vec<Vec<u8>> = words.collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

#[track_caller]
fn expect(client: &Client, expected: &[u8], place: &str) {
    let mut got = vec![0; expected.len()];
    let mut len = 0;
    while len < got.len() {
        match client.stream().read(&mut got[len..]) {
            Ok(0) | Err(_) => break,
            Ok(more) => len += more,
        }
    }
    got.truncate(len);
    assert_eq!(got.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{place}");
}

#[test]
fn sessions_are_redis_to_the_byte() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration);
        let mut other = connect(&server);
        for case in TRANSCRIPTS.split("case ").skip(1) {
            let name = case.lines().next().unwrap();
            assert_eq!(say(&mut other, &["FLUSHALL"]), "OK");
            let mut client = connect(&server);
            for (number, line) in case.lines().enumerate().skip(1) {
                let (what, rest) = line.split_once(' ').unwrap_or_default();
                let place = format!("{name}, line {number}: {line}");
                let words: Vec<String> = rest
                    .split(' ')
                    .map(|word| String::from_utf8_lossy(&unescape(word)).into_owned())
                    .collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let send = |bytes: Vec<u8>| client.stream().write_all(&bytes).unwrap();
                match what {
                    "first" => drop(run(&mut other, &words)),
                    "hello" => drop(run(&mut client, &["HELLO", "3"])),
                    "debug" => assert_eq!(say(&mut client, &["SCRIPT", "DEBUG", words[0]]), "OK"),
                    "eval" => {
                        send(encoded(["EVAL"].iter().chain(&words).map(|word| word.as_bytes().to_vec())))
                    }
                    "send" => send(encoded(rest.split(' ').map(unescape))),
                    "raw" => send(unescape(rest)),
                    "recv" => expect(&client, &unescape(rest), &place),
                    "then" => {
                        assert!(is_closed(&client), "{place}");
                        other.send(&words[1..]).unwrap();
                        expect(&other, words[0].as_bytes(), &place);
                    }
                    _ => assert!(line.is_empty(), "{place}"),
                }
            }
        }
    }
}

#[test]
fn a_session_on_a_copy_holds_up_no_other_client_and_leaves_nothing() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration);
        let (mut other, mut subscriber, mut watcher) = (connect(&server), connect(&server), connect(&server));
        say(&mut other, &["MSET", "k", "old", "untouched", "1"]);
        say(&mut other, &["RPUSH", "list", "a", "b", "c"]);
        say(&mut other, &["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
        say(&mut subscriber, &["PSUBSCRIBE", "*"]);
        say(&mut watcher, &["WATCH", "k", "list"]);
        let script = "redis.call('SET', KEYS[1], 'new') \n redis.call('DEL', 'list') \n \
            redis.call('PUBLISH', 'c', 'm') \n redis.call('LPUSH', 'made', 'x') \n \
            local n = redis.call('GET', 'untouched') \n return redis.call('GET', 'k')";
        let mut session = debug(&server, "YES", script, &["k"]);
        for _ in 0..4 {
            run(&mut session, &["s"]);
        }
        // All has run but the last two lines.
        assert_eq!(say(&mut other, &["GET", "k"]), "old");
        assert_eq!(say(&mut other, &["LRANGE", "list", "0", "-1"]), "a|b|c");
        assert_eq!(say(&mut other, &["EXISTS", "made"]), "0");
        assert_eq!(say(&mut other, &["DBSIZE"]), "3");
        assert_eq!(say(&mut other, &["EVAL", "return redis.call('GET', 'k')", "0"]), "old");
        // The session keeps the values that it has read; a key that it reads for the first time has its
        // present value.
        say(&mut session, &["r", "get", "k"]);
        assert_eq!(say(&mut watcher, &["MULTI"]), "OK");
        assert_eq!(say(&mut watcher, &["SET", "k", "theirs"]), "QUEUED");
        assert_eq!(say(&mut watcher, &["EXEC"]), "OK", "the watched keys were not touched");
        assert_eq!(say(&mut session, &["r", "get", "k"]), "<redis> get k|<reply> \"new\"");
        assert_eq!(finish(&mut session), ["<endsession>", "new"]);
        assert_eq!(say(&mut other, &["GET", "k"]), "theirs");
        assert_eq!(say(&mut other, &["KEYS", "made"]), "");
        // The subscriber has got the other clients' messages, and none of the session's.
        say(&mut other, &["PUBLISH", "end", ""]);
        let mut seen = Vec::new();
        loop {
            let message = text(&subscriber.read_reply().unwrap());
            if message.contains("|end|") {
                break;
            }
            seen.push(message);
        }
        assert_eq!(seen, ["pmessage|*|__keyspace@0__:k|set", "pmessage|*|__keyevent@0__:set|k"]);
    }
}

#[test]
fn commands_on_all_keys_see_the_copy_whole() {
    let server = start(&["--io-threads", "2"]);
    let mut other = connect(&server);
    let script = "redis.call('SET', 'k1', 'x') \n redis.call('DEL', 'k2') \n local a = redis.call('DBSIZE') \n \
        redis.call('FLUSHDB') \n redis.call('SET', 'only', 1) \n local b = redis.call('KEYS', '*') \n \
        return {a, b, redis.call('GET', 'k1'), redis.call('RANDOMKEY')}";
    for _ in 0..20 {
        for number in 0..100 {
            say(&mut other, &["SET", &format!("k{number}"), "v"]);
        }
        // A copy that was used before has nothing of the earlier session.
        let mut session = debug(&server, "YES", script, &[]);
        assert_eq!(finish(&mut session), ["<endsession>", "99|only||only"]);
        assert_eq!(say(&mut other, &["DBSIZE"]), "100");
        assert_eq!(say(&mut other, &["MGET", "k1", "k2", "only"]), "v|v|");
    }
}

#[test]
fn what_reaches_beyond_keys_is_refused_on_a_copy() {
    let server = start(&[]);
    let mut session = debug(&server, "YES", "return 1", &[]);
    let answer = say(&mut session, &["r", "slowlog", "reset"]);
    assert!(
        answer.contains("<error> This Redis command is not allowed from a script that is debugged"),
        "{answer}"
    );
    let answer = say(&mut session, &["r", "config", "get", "port"]);
    assert!(answer.contains("<error> This Redis command is not allowed from script"), "{answer}");
}

#[test]
fn others_are_busy_beside_a_session_with_sync_and_see_its_changes_afterwards() {
    for configuration in CONFIGURATIONS {
        let server = start(&configuration);
        let mut others: Vec<Client> = (0..4).map(|_| connect(&server)).collect();
        let script = "redis.call('SET', KEYS[1], 'new') \n return redis.call('GET', KEYS[1])";
        let mut session = debug(&server, "SYNC", script, &["k"]);
        for other in &mut others {
            while !say(other, &["GET", "k"]).starts_with("-BUSY ") {}
        }
        assert!(say(&mut session, &["s"]).contains("Stopped at 2"));
        // A script that has written is not killed.
        assert!(say(&mut others[0], &["SCRIPT", "KILL"]).starts_with("-UNKILLABLE "));
        assert_eq!(finish(&mut session), ["<endsession>", "new"]);
        for other in &mut others {
            assert_eq!(say(other, &["GET", "k"]), "new");
        }
        let mut session = debug(&server, "SYNC", "local a = 1 \n return 1", &[]);
        while say(&mut others[0], &["SCRIPT", "KILL"]) != "OK" {}
        let ended = text(&session.read_reply().unwrap());
        assert!(ended.ends_with("<endsession>"), "{ended}");
        assert_eq!(say(&mut others[1], &["GET", "k"]), "new");
    }
}

/// Waits for a reply that holds.
#[track_caller]
fn await_reply(client: &mut Client, words: &[&str], holds: impl Fn(&str) -> bool) {
    let since = Instant::now();
    while !holds(&say(client, words)) {
        assert!(since.elapsed() < Duration::from_secs(60), "{words:?}: {}", say(client, words));
    }
}

#[test]
fn a_client_that_goes_ends_its_session() {
    for configuration in CONFIGURATIONS {
        let server = start(&[&configuration[..], &["--busy-reply-threshold", "50"]].concat());
        let mut other = connect(&server);
        // Writes of a SYNC session stay, and the script runs to its end.
        let script = "redis.call('INCR', 'n') \n redis.call('INCR', 'n') \n return 1";
        drop(debug(&server, "SYNC", script, &[]));
        await_reply(&mut other, &["GET", "n"], |n| n == "2");
        // One without an end is ended.
        let mut session = debug(&server, "SYNC", "redis.call('INCR', 'n') \n while true do end", &[]);
        session.send(&["c"]).unwrap();
        drop(session);
        await_reply(&mut other, &["GET", "n"], |n| n == "3");
        // More sessions than there can be at a time, one after the other, and some that never end.
        for round in 0..30 {
            let mut session = debug(&server, "YES", "redis.call('INCR', 'n') \n while true do end", &[]);
            match round % 3 {
                0 => session.send(&["c"]).unwrap(),
                1 => session.send(&["e", "while true do end"]).unwrap(),
                _ => {}
            }
            await_room(&server, session, round);
        }
        assert_eq!(say(&mut other, &["GET", "n"]), "3");
    }
}

/// As `restart` of redis-cli with `--ldb-sync-mode`: the next session begins as soon as the client has closed
/// the last one, whose script still has to run to its end.
#[test]
fn a_session_with_sync_begins_again_as_soon_as_its_client_has_gone() {
    for configuration in &CONFIGURATIONS[..2] {
        let server = start(configuration);
        let script = "redis.call('INCR', 'n') \n for i = 1, 20000 do redis.call('GET', 'n') end \n return 1";
        for round in 0..10 {
            drop(debug(&server, "SYNC", script, &[]));
            assert_eq!(
                say(&mut connect(&server), &["GET", "n"]),
                (round + 1).to_string(),
                "{configuration:?}"
            );
        }
        // A script without an end that has lost its client is busy after a while, as any.
        let mut session = debug(&server, "SYNC", "while true do end", &[]);
        let mut other = connect(&server);
        assert_eq!(say(&mut other, &["CONFIG", "GET", "port"]).get(..5), Some("-BUSY"));
        session.send(&["c"]).unwrap();
        drop(session);
        await_reply(&mut other, &["GET", "n"], |n| n == "10");
    }
}

/// Drops a session, by its client's end or by CLIENT KILL.
fn await_room(server: &Server, session: Client, round: usize) {
    let mut other = connect(server);
    let port = session.stream().local_addr().unwrap().to_string();
    if round.is_multiple_of(2) {
        say(&mut other, &["CLIENT", "KILL", "ADDR", &port]);
    }
    drop(session);
    await_reply(&mut other, &["CLIENT", "LIST"], |list| !list.contains(&format!(" addr={port} ")));
}

#[test]
fn there_are_not_any_number_of_sessions() {
    let server = start(&[]);
    let mut sessions: Vec<Client> = (0..8).map(|_| debug(&server, "YES", "return 1", &[])).collect();
    let mut more = connect(&server);
    run(&mut more, &["SCRIPT", "DEBUG", "YES"]);
    assert_eq!(say(&mut more, &["EVAL", "return 1", "0"]), "<endsession>");
    assert_eq!(text(&more.read_reply().unwrap()), "-ERR too many debugging sessions: can't run EVAL");
    assert!(is_closed(&more));
    assert_eq!(finish(&mut sessions[3]), ["<endsession>", "1"]);
    finish(&mut debug(&server, "YES", "return 1", &[]));
}

#[test]
fn modes_are_refused_where_redis_refuses_them() {
    let server = start(&[]);
    let mut client = connect(&server);
    assert_eq!(say(&mut client, &["SCRIPT", "DEBUG", "perhaps"]), "-ERR Use SCRIPT DEBUG YES/SYNC/NO");
    run(&mut client, &["MULTI"]);
    run(&mut client, &["PING"]);
    run(&mut client, &["SCRIPT", "DEBUG", "YES"]);
    let outside = "ERR SCRIPT DEBUG must be called outside a pipeline";
    assert_eq!(say(&mut client, &["EXEC"]), format!("PONG|-{outside}"));
    client.send_raw(b"PING\r\nSCRIPT DEBUG YES\r\n").unwrap();
    let replies = [(); 2].map(|()| text(&client.read_reply().unwrap()));
    assert_eq!(replies, ["PONG".into(), format!("-{outside}")]);
    assert_eq!(say(&mut client, &["SCRIPT", "DEBUG", "YES"]), "OK");
    assert_eq!(
        say(&mut client, &["EVALSHA", &"a".repeat(40), "0"]),
        "-ERR Please use EVAL instead of EVALSHA for debugging"
    );
    run(&mut client, &["MULTI"]);
    run(&mut client, &["EVAL", "return 1", "0"]);
    let refused = say(&mut client, &["EXEC"]);
    assert!(refused.contains("ERR a script in a transaction cannot be debugged"), "{refused}");
    let mut client = connect(&server);
    run(&mut client, &["SCRIPT", "DEBUG", "SYNC"]);
    assert_eq!(say(&mut client, &["SCRIPT", "DEBUG", "NO"]), "OK");
    assert_eq!(say(&mut client, &["EVAL", "return {redis.breakpoint(), redis.debug('x')}", "0"]), "");
}

#[test]
fn what_a_session_shows_has_an_end() {
    let server = start(&[]);
    let script = "local t = {} for i = 1, 8 do t[i] = t end\nlocal s = string.rep('x', 50000000)\nlocal q = 1\nreturn 1";
    let mut session = debug(&server, "YES", script, &[]);
    run(&mut session, &["b", "4"]);
    assert!(say(&mut session, &["c"]).contains("Stopped at 4"));
    run(&mut session, &["m", "0"]);
    for name in ["t", "s"] {
        let shown = say(&mut session, &["p", name]);
        assert!((1 << 20..17 << 20).contains(&shown.len()), "{} bytes", shown.len());
    }
    assert_eq!(finish(&mut session), ["<endsession>", "1"]);
}
