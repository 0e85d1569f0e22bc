//! Findings of the tool itself: a server that loses or garbles its data, the rate that a server can keep, and
//! the cost of a request where only INFO reports it. The servers are the test's, so that the right finding is
//! known exactly.

use martlet_client::resp::{Reply, decode};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers requests, its arguments and the number of its connection given.
trait Server: Send + 'static {
    fn answer(&mut self, arguments: &[&[u8]], connection: usize) -> Answer;
}

/// A reply, and how long the connection waits before it leaves.
struct Answer {
    bytes: Vec<u8>,
    held: Duration,
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer { bytes: text.as_bytes().to_vec(), held: Duration::ZERO }
    }
}

fn bulk(value: &[u8]) -> Answer {
    let mut answer = Answer::from(format!("${}\r\n", value.len()).as_str());
    answer.bytes.extend_from_slice(value);
    answer.bytes.extend_from_slice(b"\r\n");
    answer
}

/// Serves on a port of the loopback address as long as the test runs; gives the port.
fn start(server: impl Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    std::thread::spawn(move || serve_all(listener.incoming().flatten(), server));
    port
}

fn serve_all<S: Read + Write + Send + 'static>(streams: impl Iterator<Item = S>, server: impl Server) {
    let server = Arc::new(Mutex::new(server));
    for (number, stream) in streams.enumerate() {
        let server = server.clone();
        std::thread::spawn(move || serve(stream, number, &server));
    }
}

fn serve(mut stream: impl Read + Write, number: usize, server: &Mutex<impl Server>) {
    let (mut received, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
        let mut out = Vec::new();
        while let Some((request, used)) = decode(&received).expect("the tool sends requests") {
            let arguments: Vec<&[u8]> =
                request.items().unwrap_or_default().iter().filter_map(Reply::text).collect();
            let answer = server.lock().expect("no test panics there").answer(&arguments, number);
            std::thread::sleep(answer.held);
            out.extend_from_slice(&answer.bytes);
            received.drain(..used);
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn bench(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_martlet-bench"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

/// Runs with `--json`; returns exit code, text and the written file.
fn report(arguments: &[&str]) -> (Option<i32>, String, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.json");
    let (output, text) = bench(&[&["--json", &file.to_string_lossy()], arguments].concat());
    let written = std::fs::read(file).unwrap_or_else(|error| panic!("{error}: {text}"));
    (output.status.code(), text, serde_json::from_slice(&written).expect("JSON"))
}

/// A store's fault, at every n-th request; the first of these is right.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// A SET is acknowledged but not done.
    LosesWrite,
    /// One letter of a value that is read is another.
    GarblesRead,
    /// A read finds nothing.
    LosesKey,
    /// A read gives the value of another key.
    MixesUp,
    /// A write is refused.
    RefusesWrite,
    /// An INCR is answered but not kept.
    LosesIncrement,
}

/// Keys and values.
struct Store {
    fault: Fault,
    each: usize,
    values: HashMap<Vec<u8>, Vec<u8>>,
    reads: usize,
    writes: usize,
}

impl Store {
    fn new(fault: Fault, each: usize) -> Store {
        Store { fault, each, values: HashMap::new(), reads: 0, writes: 0 }
    }

    fn get(&mut self, key: &[u8]) -> Answer {
        self.reads += 1;
        let mut value = self.values.get(key).cloned();
        if self.reads.is_multiple_of(self.each) {
            match (self.fault, &mut value) {
                (Fault::GarblesRead, Some(value)) => value[10] ^= 1,
                (Fault::LosesKey, value) => *value = None,
                (Fault::MixesUp, value) => {
                    *value = self.values.iter().find(|(other, _)| *other != key).map(|(_, v)| v.clone());
                }
                _ => {}
            }
        }
        value.map_or("$-1\r\n".into(), |value| bulk(&value))
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Answer {
        self.writes += 1;
        match self.fault {
            Fault::RefusesWrite if self.writes.is_multiple_of(self.each) => {
                return "-MISCONF disk\r\n".into();
            }
            Fault::LosesWrite if self.writes.is_multiple_of(self.each) => {}
            _ => drop(self.values.insert(key.to_vec(), value.to_vec())),
        }
        "+OK\r\n".into()
    }

    fn increment(&mut self, key: &[u8]) -> Answer {
        self.writes += 1;
        let text =
            self.values.get(key).map_or("0".into(), |value| String::from_utf8_lossy(value).into_owned());
        let value = text.parse::<u64>().expect("a number") + 1;
        if self.fault != Fault::LosesIncrement || !self.writes.is_multiple_of(self.each) {
            self.values.insert(key.to_vec(), value.to_string().into_bytes());
        }
        format!(":{value}\r\n").as_str().into()
    }
}

impl Server for Store {
    fn answer(&mut self, arguments: &[&[u8]], _: usize) -> Answer {
        match arguments {
            [b"GET", key] => self.get(key),
            [b"SET", key, value] => self.set(key, value),
            [b"INCR", key] => self.increment(key),
            _ => "-ERR unknown command\r\n".into(),
        }
    }
}

#[test]
fn a_verification_finds_what_was_lost_or_garbled() {
    for (fault, told) in [
        (Fault::Nothing, ": 0 wrong"),
        (Fault::LosesWrite, "first wrong reply: martlet:verify:"),
        (Fault::GarblesRead, "first wrong reply: martlet:verify:"),
        (Fault::LosesKey, "got Null"),
        (Fault::MixesUp, "first wrong reply: martlet:verify:"),
        (Fault::RefusesWrite, "MISCONF disk"),
    ] {
        let port = start(Store::new(fault, 100));
        let (code, text, json) =
            report(&["-p", &port, "--verify", "-c", "4", "-P", "8", "-n", "4000", "-d", "40", "--seed", "3"]);
        assert!(text.contains(told), "{told}: {text}");
        let (expected, found) = (json["check"]["expected"].as_u64(), json["check"]["found"].as_u64());
        assert!(expected.is_some_and(|n| n >= 4000), "{text}");
        if fault == Fault::Nothing {
            assert_eq!(
                (code, found, &json["check"]["first_wrong"]),
                (Some(0), expected, &Value::Null),
                "{text}"
            );
        } else {
            assert_eq!(code, Some(1), "{text}");
            assert!(found < expected && json["check"]["first_wrong"].is_string(), "{}", json["check"]);
        }
        // Each wrong reply is found, no more and no less: a refused write leaves the old value.
        let wrong = expected.zip(found).map_or(0, |(expected, found)| expected - found);
        match fault {
            Fault::GarblesRead => assert!((10..=25).contains(&wrong), "{wrong} of some 2,000 reads"),
            Fault::RefusesWrite => assert_eq!(Some(wrong), json["errors"].as_u64(), "{text}"),
            _ => {}
        }
    }
}

#[test]
fn a_lost_increment_of_the_hot_key_is_found() {
    for (fault, code, told) in [
        (Fault::Nothing, Some(0), "sum: 2000 increments answered, value grew by 2000: equal"),
        (Fault::LosesIncrement, Some(1), "sum: 2000 increments answered, value grew by 1980: NOT EQUAL"),
    ] {
        let port = start(Store::new(fault, 100));
        let (found, text, json) = report(&["-p", &port, "--hot-key", "-c", "10", "-n", "2000"]);
        assert!(text.contains(told), "{text}");
        assert_eq!(found, code, "{text}");
        assert_eq!(json["check"]["expected"], 2000);
    }
}

/// A server that keeps up to this number of requests of a run, and stalls each connection once beyond that:
/// by more than any pause of the machine, so that the finding does not depend on the machine's speed.
struct Limited {
    most: u64,
    /// The connections of requests, in order of their first; each run has `CONNECTIONS`.
    seen: Vec<usize>,
    /// Requests of each run, and the connections that were held up.
    runs: Vec<(u64, Vec<usize>)>,
}

const CONNECTIONS: usize = 4;

impl Server for Limited {
    fn answer(&mut self, arguments: &[&[u8]], connection: usize) -> Answer {
        if arguments != [b"PING"] {
            return "-ERR unknown command\r\n".into();
        }
        let place = self.seen.iter().position(|seen| *seen == connection).unwrap_or_else(|| {
            self.seen.push(connection);
            self.seen.len() - 1
        });
        let run = place / CONNECTIONS;
        self.runs.resize_with(self.runs.len().max(run + 1), Default::default);
        let (requests, held) = &mut self.runs[run];
        *requests += 1;
        let mut answer = Answer::from("+PONG\r\n");
        if *requests > self.most && !held.contains(&connection) {
            held.push(connection);
            answer.held = Duration::from_millis(1500);
        }
        answer
    }
}

/// 800 requests in half a second: 1,600 per second, and up to 1 % more, which the 99th percentile does not
/// see.
#[test]
fn the_highest_rate_is_found_within_its_margin() {
    let port = start(Limited { most: 800, seen: Vec::new(), runs: Vec::new() });
    let (code, text, json) = report(&[
        "-p",
        &port,
        "-c",
        &CONNECTIONS.to_string(),
        "-P",
        "1000",
        "--slo",
        "p99<1s",
        "--duration",
        "500ms",
        "PING",
    ]);
    assert_eq!(code, Some(0), "{text}");
    let found: f64 = text
        .split_once("highest rate that holds p99<1s: ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{text}"));
    assert!((1600.0 / 1.03..1620.0).contains(&found), "{text}");
    // The report is of the best run, and has all steps.
    assert!(
        json["asked_rate"].as_f64().is_some_and(|rate| (rate - found).abs() < 1.0),
        "{}",
        json["asked_rate"]
    );
    assert!(json["sweep"].as_array().is_some_and(|steps| steps.len() >= 5), "{}", json["sweep"]);

    let port = start(Limited { most: 0, seen: Vec::new(), runs: Vec::new() });
    let (code, text, json) = report(&[
        "-p",
        &port,
        "-c",
        &CONNECTIONS.to_string(),
        "--rate",
        "8",
        "--slo",
        "p50<1s",
        "--duration",
        "500ms",
        "PING",
    ]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no rate holds p50<1s"), "{text}");
    assert!(json["sweep"].as_array().is_some_and(|steps| !steps.is_empty()), "{}", json["sweep"]);
}

/// A server whose process cannot be seen: each INFO says that it has used one second of user and two of
/// system time more.
struct Remote {
    told: u64,
}

impl Server for Remote {
    fn answer(&mut self, arguments: &[&[u8]], _: usize) -> Answer {
        match arguments {
            [b"PING"] => "+PONG\r\n".into(),
            [b"INFO"] => {
                self.told += 1;
                let text = format!(
                    "process_id:999999999\r\nused_memory:{}\r\nused_memory_rss:5000000\r\nused_cpu_sys:{}.000000\r\n\
                     used_cpu_user:{}.000000\r\n",
                    self.told * 10_000,
                    self.told * 2,
                    self.told
                );
                bulk(text.as_bytes())
            }
            [b"INFO", _] => bulk(b"redis_version:7.0.15\r\nprocess_id:999999999\r\n"),
            _ => "-ERR unknown command\r\n".into(),
        }
    }
}

#[test]
fn where_only_info_tells_the_cost_is_taken_from_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        serve_all(listener.incoming().flatten(), Remote { told: 0 });
    });
    let socket = socket.to_string_lossy().into_owned();
    let (code, text, json) = report(&["-s", &socket, "-c", "2", "-n", "1000", "--command", "PING"]);
    assert_eq!(code, Some(0), "{text}");
    let cost = &json["cost"];
    assert_eq!(
        (&cost["from_process"], &cost["user_us"], &cost["system_us"], &cost["memory_bytes"]),
        (&Value::from(false), &Value::from(1000.0), &Value::from(2000.0), &Value::from(10.0)),
        "one INFO before and one after 1,000 requests: {cost}\n{text}"
    );
    assert_eq!(cost["resident_bytes"], 5_000_000);
    assert!(text.contains("INFO"), "it says where the figures are from: {text}");
}

/// A server without INFO, and whose process cannot be seen, has no cost; all else is reported.
#[test]
fn where_nothing_tells_there_is_no_cost() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    std::thread::spawn(move || {
        serve_all(listener.incoming().flatten(), Store::new(Fault::Nothing, 1));
    });
    let socket = socket.to_string_lossy().into_owned();
    let (code, text, json) = report(&["-s", &socket, "-c", "2", "-n", "1000", "--command", "INCR k"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!((&json["cost"], json["requests"].as_u64()), (&Value::Null, Some(1000)), "{text}");
}

/// Records the source addresses of connections that sent a PING, and ends each after a number of them.
#[derive(Clone, Default)]
struct Seen {
    addresses: Arc<Mutex<Vec<String>>>,
}

/// Serves `most` PINGs on each connection, and records the address of each client that sends one.
fn short_tempered(most: usize) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let seen = Seen::default();
    let addresses = seen.addresses.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let addresses = addresses.clone();
            std::thread::spawn(move || answer_some(&mut stream, most, &addresses));
        }
    });
    (port, seen)
}

fn answer_some(stream: &mut TcpStream, most: usize, addresses: &Mutex<Vec<String>>) {
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    let mut request = [0; PING.len()];
    for number in 0..most {
        if stream.read_exact(&mut request).is_err() || request != PING {
            // The control connection's questions: it ends.
            return;
        }
        if number == 0 {
            let peer = stream.peer_addr().expect("connected").ip().to_string();
            addresses.lock().expect("no test panics there").push(peer);
        }
        if stream.write_all(b"+PONG\r\n").is_err() {
            return;
        }
    }
    // The client's next request may be here already: to close with it unread would reset the connection.
    let _ = stream.shutdown(Shutdown::Write).and_then(|()| std::io::copy(stream, &mut std::io::sink()));
}

#[test]
fn broken_connections_are_opened_anew_and_counted() {
    for io in [&[][..], &["--epoll"]] {
        let (port, seen) = short_tempered(10);
        let line = ["-p", &port, "-c", "3", "-n", "600", "--reconnect", "--command", "PING"];
        let (code, text, json) = report(&[&line[..], io].concat());
        assert_eq!(code, Some(0), "{text}");
        let broken = json["disconnects"].as_u64().unwrap_or(0);
        // Ten answers for each connection, and three that may be cut short by the end.
        let (requests, lost) = (json["requests"].as_u64(), json["lost"].as_u64().unwrap_or(0));
        assert_eq!(requests.map(|n| n + lost), Some(600), "{text}");
        assert!((50..=63).contains(&broken), "{text}");
        assert!(text.contains(&format!("disconnects: {broken}")), "{text}");
        let connections = seen.addresses.lock().expect("no test panics there").len() as u64;
        assert!((broken..=broken + 3).contains(&connections), "{connections} connections, {broken} broken");

        // Without it the first one ends the run.
        let (port, _) = short_tempered(10);
        let (code, text, json) =
            report(&[&["-p", &port, "-c", "3", "-n", "600", "--command", "PING"][..], io].concat());
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("PARTIAL RESULT: Error: Server closed the connection"), "{text}");
        assert!(json["requests"].as_u64().is_some_and(|n| (10..=30).contains(&n)), "{text}");
    }
}

#[test]
fn connections_come_from_the_addresses_that_are_named() {
    for (io, reconnecting) in [(&[][..], 0), (&["--epoll"], 0), (&[], 10), (&["--epoll"], 10)] {
        let (port, seen) = short_tempered(1000);
        let churn = ["--churn".to_string(), reconnecting.to_string()];
        let line =
            ["-p", &port, "-c", "6", "-n", "600", "--source", "127.0.0.3,127.0.0.7", "--command", "PING"];
        let (code, text, _) = report(&[&line[..], io, &[&churn[0], &churn[1]]].concat());
        assert_eq!(code, Some(0), "{text}");
        let addresses = seen.addresses.lock().expect("no test panics there");
        let of = |ip: &str| addresses.iter().filter(|address| *address == ip).count();
        let (one, other) = (of("127.0.0.3"), of("127.0.0.7"));
        assert_eq!(one + other, addresses.len(), "{addresses:?}");
        match reconnecting {
            0 => assert_eq!((one, other), (3, 3)),
            _ => assert!(one + other >= 60 && one >= 15 && other >= 15, "{one} and {other}"),
        }
    }
}
