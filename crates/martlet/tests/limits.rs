//! Data that a client may make the server keep: limits that hold wherever the bytes come from.

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

fn start(backend: &str) -> Server {
    let arguments = ["server", "--io-threads", "2", "--io-backend", backend];
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap()
}

/// A server with a parameter set, and a client of it.
fn start_with(backend: &str, parameter: &str, value: &str) -> (Server, Client) {
    let server = start(backend);
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["CONFIG", "SET", parameter, value]).unwrap();
    (server, client)
}

/// A field of INFO.
fn info(client: &mut Client, field: &str) -> u64 {
    let reply = client.command(&["INFO"]).unwrap();
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {field} in {text}"))
}

#[test]
fn a_reply_to_a_blocked_client_counts_against_its_output_limit() {
    for backend in ["auto", "epoll"] {
        let (server, mut other) = start_with(backend, "client-output-buffer-limit", "normal 1mb 0 0");
        let mut blocked = TcpStream::connect(server.address()).unwrap();
        blocked.write_all(b"BLPOP queue 0\r\n").unwrap();
        while info(&mut other, "blocked_clients") == 0 {}
        other.command(&["RPUSH", "queue", &"x".repeat(2 << 20)]).unwrap();
        let mut received = Vec::new();
        // Closed with nothing sent, or reset.
        let _ = blocked.read_to_end(&mut received);
        assert!(received.is_empty(), "{backend}: {} bytes", received.len());
        assert_eq!(info(&mut other, "client_output_buffer_limit_disconnections"), 1, "{backend}");
    }
}

/// Bytes that the server's process has had resident at most.
fn most_resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Of a reply that will not be sent nothing is kept: not within a command, nor within a transaction.
#[test]
fn a_reply_above_the_output_limit_is_not_made() {
    let value = "x".repeat(1 << 20);
    let many = ["MGET"].into_iter().chain(std::iter::repeat_n("k", 500)).collect::<Vec<_>>().join(" ");
    let transaction = format!("MULTI\r\n{}EXEC", "GET k\r\n".repeat(500));
    for request in [many, transaction] {
        let (server, mut other) = start_with("auto", "client-output-buffer-limit", "normal 4mb 0 0");
        other.command(&["SET", "k", &value]).unwrap();
        let before = most_resident(&server);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.write_all(b"\r\n").unwrap();
        let mut received = Vec::new();
        // Closed, or reset.
        let _ = stream.read_to_end(&mut received);
        assert!(received.len() < 1 << 20, "{} bytes", received.len());
        assert_eq!(info(&mut other, "client_output_buffer_limit_disconnections"), 1);
        let grown = most_resident(&server) - before;
        assert!(grown < 64 << 20, "{grown} bytes for {:.20}", request);
    }
}

/// One client with many patterns, and a message that all of them match, are no more than its own limit.
#[test]
fn a_message_for_many_patterns_is_not_there_as_many_times() {
    for backend in ["auto", "epoll"] {
        let (server, mut other) = start_with(backend, "client-output-buffer-limit", "pubsub 4mb 0 0");
        let mut subscriber = TcpStream::connect(server.address()).unwrap();
        let patterns: Vec<String> = (1..=400).map(|stars| "*".repeat(stars)).collect();
        subscriber.write_all(format!("PSUBSCRIBE {}\r\n", patterns.join(" ")).as_bytes()).unwrap();
        while info(&mut other, "pubsub_patterns") < 400 {}
        let before = most_resident(&server);
        other.command(&["PUBLISH", "news", &"x".repeat(1 << 20)]).unwrap();
        while info(&mut other, "client_output_buffer_limit_disconnections") == 0 {}
        let grown = most_resident(&server) - before;
        assert!(grown < 64 << 20, "{backend}: {grown} bytes");
    }
}

/// Processor time that the server has used, in seconds.
fn cpu_s(client: &mut Client) -> f64 {
    let reply = client.command(&["INFO", "cpu"]).unwrap();
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    let used = |field: &str| text.lines().find_map(|line| line.strip_prefix(field)?.parse::<f64>().ok());
    used("used_cpu_user:").unwrap() + used("used_cpu_sys:").unwrap()
}

/// Has a client wait for `count` keys and another change all of them; returns the server's processor time for
/// that.
fn change_waiting_keys(count: usize) -> f64 {
    let server = start("auto");
    let mut other = Client::connect(server.address()).unwrap();
    let keys: Vec<String> = (0..count).map(|number| format!("k{number}")).collect();
    let mut blocked = TcpStream::connect(server.address()).unwrap();
    let bulk = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let request: String = keys.iter().map(|key| bulk(key)).collect();
    blocked.write_all(format!("*{}\r\n$5\r\nBLPOP\r\n{request}$1\r\n0\r\n", count + 2).as_bytes()).unwrap();
    while info(&mut other, "blocked_clients") == 0 {}
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    let request: Vec<&str> = ["MSET"].into_iter().chain(pairs).collect();
    let before = cpu_s(&mut other);
    other.command(&request).unwrap();
    let cost = cpu_s(&mut other) - before;
    assert_eq!(info(&mut other, "blocked_clients"), 1);
    other.command(&["DEL", "k7"]).unwrap();
    other.command(&["RPUSH", "k7", "x"]).unwrap();
    let mut reply = [0; b"*2\r\n$2\r\nk7\r\n$1\r\nx\r\n".len()];
    blocked.read_exact(&mut reply).unwrap();
    cost
}

/// The cost of many waiting keys for a writer that changes them grows with their number, not with its square,
/// which is 400 times as much.
#[test]
fn many_keys_that_a_client_waits_for_are_changed_in_proportion() {
    let (few, many) = (change_waiting_keys(1000), change_waiting_keys(20_000));
    assert!(many < few * 60.0, "20 times the keys took {many} s of processor time instead of {few} s");
}

#[test]
fn who_has_not_authenticated_and_reads_no_replies_is_disconnected() {
    for backend in ["auto", "epoll"] {
        let (server, mut other) = start_with(backend, "requirepass", "secret");
        let mut stranger = TcpStream::connect(server.address()).unwrap();
        // Until the connection is reset: sockets hold some megabytes of replies.
        while stranger.write_all(&b"SET x 5\r\n".repeat(1000)).is_ok() {}
        assert_eq!(info(&mut other, "client_output_buffer_limit_disconnections"), 1, "{backend}");
    }
}

#[test]
fn a_length_that_is_announced_costs_nothing_until_it_is_sent() {
    for backend in ["auto", "epoll"] {
        let server = start(backend);
        let mut other = Client::connect(server.address()).unwrap();
        let before = info(&mut other, "used_memory");
        let mut streams = Vec::new();
        for _ in 0..10 {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(b"*2\r\n$4\r\nECHO\r\n$536870912\r\nbegun").unwrap();
            streams.push(stream);
        }
        // Each was received before this thread's client asks again, or soon after.
        while !has_received(&mut other, 10) {}
        let grown = info(&mut other, "used_memory").saturating_sub(before);
        assert!(grown < 64 << 20, "{backend}: {grown} bytes more");
    }
}

/// Whether this number of clients has an unfinished request in its query buffer.
fn has_received(client: &mut Client, count: usize) -> bool {
    let reply = client.command(&["CLIENT", "LIST"]).unwrap();
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    text.lines().filter(|line| !line.contains(" qbuf=0 ")).count() >= count
}

#[test]
fn a_long_argument_arrives_whole_in_small_pieces() {
    let server = start("auto");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let value: Vec<u8> = (0..9_000_000u32).map(|i| (i % 251) as u8).collect();
    stream.write_all(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", value.len()).as_bytes()).unwrap();
    for piece in value.chunks(300_001) {
        stream.write_all(piece).unwrap();
    }
    stream.write_all(b"\r\n").unwrap();
    let head = format!("${}\r\n", value.len());
    let mut reply = vec![0; head.len() + value.len() + 2];
    stream.read_exact(&mut reply).unwrap();
    assert!(reply.starts_with(head.as_bytes()) && reply[head.len()..].starts_with(&value));
}

#[test]
fn what_multi_queues_counts_as_input() {
    for backend in ["auto", "epoll"] {
        let (server, mut other) = start_with(backend, "client-query-buffer-limit", "1mb");
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"MULTI\r\n").unwrap();
        let request = format!("SET x {}\r\n", "x".repeat(1000));
        // Until the connection is reset.
        while stream.write_all(request.as_bytes()).is_ok() {}
        assert_eq!(info(&mut other, "client_query_buffer_limit_disconnections"), 1, "{backend}");
    }
}

#[test]
fn an_emptied_database_has_a_small_table() {
    let server = start("auto");
    let mut client = Client::connect(server.address()).unwrap();
    client.command(&["SELECT", "9"]).unwrap();
    let table_bytes = |client: &mut Client| {
        let stats = client.command(&["MEMORY", "STATS"]).unwrap();
        let stats = stats.items().unwrap();
        let at = stats
            .iter()
            .position(|name| name.text() == Some(b"db.9".as_slice()))
            .expect("the database is told of");
        let Some([_, main, ..]) = stats[at + 1].items() else { panic!("no figures") };
        main.integer().expect("a number")
    };
    for key in 0..128 {
        client.command(&["SET", &key.to_string(), "a"]).unwrap();
    }
    assert!(table_bytes(&mut client) > 400);
    for key in 0..128 {
        client.command(&["DEL", &key.to_string()]).unwrap();
    }
    assert!(table_bytes(&mut client) < 400);
}

/// A kind of client that does not read, and how others fill its output.
struct Unread {
    name: &'static str,
    /// Its class of `client-output-buffer-limit`.
    class: &'static str,
    /// Sent first, after its name.
    requests: &'static str,
    /// Makes some megabyte of output for it, the number counts the calls.
    fill: fn(&mut Client, &mut TcpStream, u64),
}

fn command(client: &mut Client, words: &[&str]) {
    client.command(words).unwrap();
}

const MEGABYTE: usize = 1 << 20;

/// Has a client ask for a value of a megabyte, whose reply it does not read.
fn ask(other: &mut Client, stream: &mut TcpStream, number: u64) {
    if number == 0 {
        command(other, &["SET", "k", &"x".repeat(MEGABYTE)]);
    }
    // It may have been disconnected.
    let _ = stream.write_all(b"GET k\r\n");
}

fn set(other: &mut Client, _: &mut TcpStream, number: u64) {
    command(other, &["SET", &format!("k{}", number % 2), &"x".repeat(MEGABYTE)]);
}

/// The stream of commands counts for a replica once its snapshot is on the way.
fn stream(other: &mut Client, stream: &mut TcpStream, number: u64) {
    let is_waiting = |client: &mut Client| {
        let reply = client.command(&["INFO", "replication"]).unwrap();
        String::from_utf8_lossy(reply.text().unwrap_or_default()).contains("state=wait_bgsave")
    };
    while number == 0 && is_waiting(other) {}
    set(other, stream, number);
}

fn set_long_key(other: &mut Client, _: &mut TcpStream, number: u64) {
    command(other, &["SET", &format!("{number}{}", "k".repeat(MEGABYTE)), "v"]);
}

const UNREAD: &[Unread] = &[
    Unread { name: "plain", class: "normal", requests: "", fill: ask },
    Unread {
        name: "blocked",
        class: "normal",
        requests: "BLPOP queue 0\r\n",
        fill: |other, stream, number| {
            if number == 0 {
                command(other, &["RPUSH", "queue", &"x".repeat(24 * MEGABYTE)]);
            } else {
                ask(other, stream, number - 1);
            }
        },
    },
    Unread { name: "monitor", class: "normal", requests: "MONITOR\r\n", fill: set },
    Unread {
        name: "tracking",
        class: "normal",
        requests: "HELLO 3\r\nCLIENT TRACKING ON BCAST\r\n",
        fill: set_long_key,
    },
    Unread {
        name: "subscriber",
        class: "pubsub",
        requests: "SUBSCRIBE news\r\n",
        fill: |other, _, _| command(other, &["PUBLISH", "news", &"x".repeat(MEGABYTE)]),
    },
    Unread {
        name: "pattern",
        class: "pubsub",
        requests: "HELLO 3\r\nPSUBSCRIBE new*\r\n",
        fill: |other, _, _| command(other, &["PUBLISH", "news", &"x".repeat(MEGABYTE)]),
    },
    Unread {
        name: "shard",
        class: "pubsub",
        requests: "SSUBSCRIBE news\r\n",
        fill: |other, _, _| command(other, &["SPUBLISH", "news", &"x".repeat(MEGABYTE)]),
    },
    Unread {
        name: "invalidated",
        class: "pubsub",
        requests: "HELLO 3\r\nSUBSCRIBE __redis__:invalidate\r\nCLIENT TRACKING ON BCAST\r\n",
        fill: set_long_key,
    },
    Unread {
        name: "monitor-and-subscriber",
        class: "pubsub",
        requests: "HELLO 3\r\nSUBSCRIBE news\r\nMONITOR\r\n",
        fill: set,
    },
    Unread {
        name: "replica",
        class: "replica",
        requests: "REPLCONF capa eof capa psync2\r\nPSYNC ? -1\r\n",
        fill: stream,
    },
];

/// Whether a client of that name is connected.
fn is_connected(client: &mut Client, name: &str) -> bool {
    let reply = client.command(&["CLIENT", "LIST"]).unwrap();
    let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
    text.split_whitespace().any(|word| word.strip_prefix("name=") == Some(name))
}

/// Fills the output of a client until it is disconnected, or has been sent far more than sockets hold;
/// whether it is there still.
fn outlasts(unread: &Unread, limited: &str) -> bool {
    let limit = format!("{limited} 4mb 0 0");
    let classes = ["normal", "replica", "pubsub"].map(|class| format!("{class} 0 0 0")).join(" ");
    let (server, mut other) = start_with("auto", "client-output-buffer-limit", &classes);
    let more = ["repl-backlog-size", "1mb", "repl-diskless-sync-delay", "0"];
    command(&mut other, &[&["CONFIG", "SET", "client-output-buffer-limit", &limit][..], &more].concat());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let name = format!("CLIENT SETNAME {}", unread.name);
    for request in std::iter::once(name.as_str()).chain(unread.requests.lines()) {
        stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        match request.starts_with("BLPOP") {
            true => while info(&mut other, "blocked_clients") == 0 {},
            // It is in force once its reply has begun.
            false => assert!(stream.read(&mut [0; 4096]).unwrap() > 0),
        }
    }
    for number in 0..40 {
        (unread.fill)(&mut other, &mut stream, number);
        if !is_connected(&mut other, unread.name) {
            return false;
        }
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(2);
    while limited == unread.class
        && is_connected(&mut other, unread.name)
        && std::time::Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    is_connected(&mut other, unread.name)
}

#[test]
fn each_kind_of_client_is_held_to_the_limit_of_its_class_alone() {
    for unread in UNREAD {
        for class in ["normal", "replica", "pubsub"] {
            let expected = class != unread.class;
            assert_eq!(outlasts(unread, class), expected, "{} under the limit of {class}", unread.name);
        }
    }
}

/// Connections with no request or half a request: other clients are served beside them, and `timeout` ends
/// them. As in Redis, each byte that arrives restarts the time.
#[test]
fn requests_that_are_never_whole_end_by_the_timeout_and_keep_nobody_waiting() {
    for backend in ["auto", "epoll"] {
        let (server, mut other) = start_with(backend, "maxclients", "101");
        let beginnings =
            ["", "PING", "*2\r\n$3\r\nGET\r\n$5\r\nab", "*100000\r\n", "SET k \"", "PROXY TCP4 "];
        let slow: Vec<TcpStream> = (0..100)
            .map(|number| {
                let mut stream = TcpStream::connect(server.address()).unwrap();
                stream.write_all(beginnings[number % beginnings.len()].as_bytes()).unwrap();
                stream
            })
            .collect();
        while info(&mut other, "connected_clients") < 101 {}
        assert!(
            Client::connect(server.address())
                .and_then(|mut one| one.command(&["PING"]))
                .map_or(true, |reply| reply.is_error())
        );
        command(&mut other, &["CONFIG", "SET", "timeout", "1"]);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while info(&mut other, "connected_clients") > 1 {
            assert!(std::time::Instant::now() < deadline, "{backend}: slow clients stay");
        }
        drop(slow);
        assert_eq!(
            Client::connect(server.address()).unwrap().command(&["PING"]).unwrap().text(),
            Some(&b"PONG"[..])
        );
    }
}

/// A client that reads a long reply slowly is active, also where the kernel keeps no time of it; one that has
/// stopped reading is not.
#[test]
fn a_slow_reader_of_a_unix_socket_outlives_the_timeout() {
    for backend in ["auto", "epoll"] {
        while !reads_slowly(backend) {}
    }
}

/// Runs that test on a backend; false if a busy machine has kept the reader or the server from a core until
/// the server was right to close the connection.
fn reads_slowly(backend: &str) -> bool {
    const READ_MS: u64 = 100;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let words = ["server", "--io-backend", backend, "--unixsocket", path.to_str().unwrap()];
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &words).unwrap();
    let mut other = Client::connect(server.address()).unwrap();
    let value = "x".repeat(8 << 20);
    command(&mut other, &["SET", "k", &value]);
    command(&mut other, &["CONFIG", "SET", "timeout", "2"]);
    let mut slow = UnixStream::connect(&path).unwrap();
    slow.write_all(b"GET k\r\n").unwrap();
    let mut piece = vec![0; 64 << 10];
    let began = std::time::Instant::now();
    let (mut last, mut longest) = (began, Duration::ZERO);
    while began.elapsed() < Duration::from_secs(6) {
        let read = slow.read_exact(&mut piece);
        longest = longest.max(last.elapsed());
        last = std::time::Instant::now();
        // The server's clients are asked for, so that the one that asks stays.
        if read.is_err() || info(&mut other, "connected_clients") != 2 {
            assert!(longest > Duration::from_secs(1), "{backend}: {read:?}");
            return false;
        }
        std::thread::sleep(Duration::from_millis(READ_MS));
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while info(&mut other, "connected_clients") > 1 {
        assert!(std::time::Instant::now() < deadline, "{backend}: a client stays that does not read");
    }
    drop(slow);
    true
}

#[test]
fn reserved_connections_are_for_priority_subnets() {
    let (server, mut client) = start_with("epoll", "maxclients-reserved", "2");
    let set = |client: &mut Client, name: &str, value: &str| {
        let reply = client.command(&["CONFIG", "SET", name, value]).unwrap();
        match reply {
            Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        }
    };
    let connects = || {
        let mut other = Client::connect(server.address()).ok()?;
        other.command(&["PING"]).ok().filter(|reply| reply.text() == Some(b"PONG")).map(|_| other)
    };
    set(&mut client, "maxclients", "4");
    // Without subnets nothing is reserved.
    let others: Vec<_> = (0..3).map_while(|_| connects()).collect();
    assert_eq!(others.len(), 3);
    drop(others);
    let refused = set(&mut client, "priority-subnets", "127.0.0.1/33");
    assert!(
        refused.ends_with(
            "(possibly related to argument 'priority-subnets') - Invalid IP address or CIDR subnet"
        ),
        "{refused}"
    );
    set(&mut client, "priority-subnets", "10.0.0.0/8, ::2");
    let began = std::time::Instant::now();
    while info(&mut client, "connected_clients") > 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "clients stay that have gone");
        std::thread::yield_now();
    }
    let one = connects();
    assert!(one.is_some() && connects().is_none());
    client.command(&["CONFIG", "SET", "priority-subnets", "127.0.0.0/8"]).unwrap();
    let (two, three) = (connects(), connects());
    assert!(two.is_some() && three.is_some() && connects().is_none());
    assert_eq!(info(&mut client, "connected_priority_clients"), 2);
    assert_eq!(info(&mut client, "rejected_priority_connections"), 1);
}
