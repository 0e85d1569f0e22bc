//! Arguments that are received into separate buffers: every command finds them whole, wherever the request is
//! cut, and later input does not change a stored one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

const BACKENDS: [&str; 2] = ["auto", "epoll"];

fn start(backend: &str) -> Server {
    let arguments = [
        "server",
        "--io-backend",
        backend,
        "--appendonly",
        "yes",
        "--auto-aof-rewrite-percentage",
        "0",
        "--enable-debug-command",
        "yes",
    ];
    Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &arguments).unwrap()
}

/// Bytes that differ from place to place, and from `seed` to `seed`.
fn long(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + seed) % 251) as u8).collect()
}

fn encoded(request: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", request.len()).into_bytes();
    for argument in request {
        out.extend(format!("${}\r\n", argument.len()).bytes());
        out.extend_from_slice(argument);
        out.extend(b"\r\n");
    }
    out
}

/// A client that cuts its requests.
struct Cutter {
    stream: TcpStream,
    /// Bytes that it has sent.
    sent: usize,
    other: Client,
}

impl Cutter {
    fn new(server: &Server) -> Cutter {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Cutter { stream, sent: 0, other: Client::connect(server.address()).unwrap() }
    }

    /// Sends `bytes` in parts that end at `cuts`; the first part has been received before the next is sent.
    fn send(&mut self, bytes: &[u8], cuts: &[usize]) {
        let mut begin = 0;
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            self.stream.write_all(&bytes[begin..cut]).unwrap();
            self.sent += cut - begin;
            while begin == 0 && !self.has_received() {}
            begin = cut;
        }
    }

    /// Whether the server has received all that was sent.
    fn has_received(&mut self) -> bool {
        let sent = format!(" tot-net-in={} ", self.sent);
        self.list().contains(&sent)
    }

    /// Whether a client has this many bytes of input that wait.
    fn has_input(&mut self, bytes: usize) -> bool {
        self.list().contains(&format!(" qbuf={bytes} "))
    }

    fn list(&mut self) -> String {
        let reply = self.other.command(&["CLIENT", "LIST"]).unwrap();
        String::from_utf8_lossy(reply.text().unwrap()).into_owned()
    }

    fn expect(&mut self, reply: &[u8]) {
        let mut received = vec![0; reply.len()];
        self.stream.read_exact(&mut received).unwrap();
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
        assert!(received == reply, "{} is not {}", shown(&received), shown(reply));
    }

    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        let reply = self.other.command(&[b"GET", key]).unwrap();
        reply.text().unwrap().to_vec()
    }
}

#[test]
fn a_value_is_stored_whole_wherever_it_is_cut() {
    for backend in BACKENDS {
        let server = start(backend);
        let mut cutter = Cutter::new(&server);
        for (round, len) in [128 << 10, 200_000, 1_000_003].into_iter().enumerate() {
            let value = long(len, round);
            let mut bytes = encoded(&[b"SET", b"key", &value]);
            let begin = bytes.len() - len - 2;
            bytes.extend(b"PING\r\n");
            let end = begin + len;
            let cuts = [begin - 1, begin, begin + 1, begin + 70_000, end - 1, end, end + 1, end + 2, end + 3];
            for cut in cuts {
                cutter.send(&bytes, &[cut.min(end - 1), cut.max(end - 1)]);
                cutter.expect(b"+OK\r\n+PONG\r\n");
                assert!(cutter.value(b"key") == value, "{backend}: {len} cut at {cut}");
                cutter.other.command(&["DEL", "key"]).unwrap();
            }
        }
    }
}

#[test]
fn every_command_finds_long_arguments_whole() {
    let (a, b) = (long(300_000, 1), long(150_000, 2));
    let both = [a.as_slice(), &b].concat();
    for backend in BACKENDS {
        let server = start(backend);
        let mut cutter = Cutter::new(&server);
        let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        let steps: [(&[&[u8]], Vec<u8>); 16] = [
            (&[b"MSET", b"1", &a, b"2", &b], b"+OK\r\n".to_vec()),
            (&[b"SETEX", b"3", b"1000", &a], b"+OK\r\n".to_vec()),
            (&[b"GETSET", b"3", &b], bulk(&a)),
            (&[b"SET", b"3", &a, b"EX", b"1000", b"GET"], bulk(&b)),
            (&[b"SETNX", b"3", &b], b":0\r\n".to_vec()),
            (&[b"SETNX", b"4", &b], b":1\r\n".to_vec()),
            (&[b"APPEND", b"5", &a], b":300000\r\n".to_vec()),
            (&[b"APPEND", b"5", &b], b":450000\r\n".to_vec()),
            (&[b"SET", &a, &b], b"+OK\r\n".to_vec()),
            (&[b"STRLEN", &a], b":150000\r\n".to_vec()),
            (&[b"HSET", b"h", &a, &b], b":1\r\n".to_vec()),
            (&[b"HGET", b"h", &a], bulk(&b)),
            (&[b"RPUSH", b"l", b"first", &a, &b], b":3\r\n".to_vec()),
            (&[b"LPOS", b"l", &b], b":2\r\n".to_vec()),
            (&[b"SADD", b"s", &a, &b, &a], b":2\r\n".to_vec()),
            (&[b"SMISMEMBER", b"s", &a, b"none", &b], b"*3\r\n:1\r\n:0\r\n:1\r\n".to_vec()),
        ];
        for (request, reply) in &steps {
            cutter.send(&encoded(request), &[100]);
            cutter.expect(reply);
        }
        for (key, value) in [("1", &a), ("2", &b), ("3", &a), ("4", &b), ("5", &both)] {
            assert!(cutter.value(key.as_bytes()) == *value, "{backend}: {key}");
        }
        // As the file has it.
        let reply = cutter.other.command(&["DEBUG", "LOADAOF"]).unwrap();
        assert_eq!(reply.text(), Some(b"OK".as_slice()), "{backend}");
        for (key, value) in [("1", &a), ("2", &b), ("3", &a), ("4", &b), ("5", &both)] {
            assert!(cutter.value(key.as_bytes()) == *value, "{backend}: {key} after loading");
        }
        assert!(cutter.value(&a) == b, "{backend}: a long key after loading");
    }
}

#[test]
fn what_was_stored_is_not_changed_by_what_comes_behind_it() {
    let value = long(400_000, 3);
    for backend in BACKENDS {
        let server = start(backend);
        let mut cutter = Cutter::new(&server);
        let requests: [&[&[u8]]; 5] = [
            &[b"SET", b"a", &value],
            &[b"COPY", b"a", b"b"],
            &[b"APPEND", b"a", b"tail"],
            &[b"SETRANGE", b"a", b"0", b"head"],
            &[b"STRLEN", b"b"],
        ];
        let bytes: Vec<u8> = requests.into_iter().flat_map(encoded).collect();
        cutter.send(&bytes, &[200]);
        cutter.expect(b"+OK\r\n:1\r\n:400004\r\n:400004\r\n:400000\r\n");
        assert!(cutter.value(b"b") == value, "{backend}");
        assert!(cutter.value(b"a") == [b"head", &value[4..], b"tail"].concat(), "{backend}");
    }
}

#[test]
fn a_request_that_a_pause_holds_up_is_run_whole_afterwards() {
    let (a, b) = (long(300_000, 4), long(200_000, 5));
    for backend in BACKENDS {
        let server = start(backend);
        let mut cutter = Cutter::new(&server);
        cutter.other.command(&["CLIENT", "PAUSE", "1000000", "WRITE"]).unwrap();
        let mut bytes = encoded(&[b"MSET", b"1", &a, b"2", &b, b"3", b"short"]);
        bytes.extend(b"GET 3\r\n");
        cutter.send(&bytes, &[150]);
        // The whole request waits: it is unfolded.
        let length = bytes.len();
        while !cutter.has_input(length) {}
        cutter.other.command(&["CLIENT", "UNPAUSE"]).unwrap();
        cutter.expect(b"+OK\r\n$5\r\nshort\r\n");
        assert!(cutter.value(b"1") == a && cutter.value(b"2") == b, "{backend}");
    }
}

#[test]
fn long_arguments_count_against_the_limit_of_input() {
    for backend in BACKENDS {
        let server = start(backend);
        let mut cutter = Cutter::new(&server);
        cutter.other.command(&["CONFIG", "SET", "client-query-buffer-limit", "1mb"]).unwrap();
        let bytes = encoded(&[b"SET", b"key", &long(4 << 20, 6)]);
        // Closed before it is whole: the write or the read fails, or the stream ends.
        let _ = cutter.stream.write_all(&bytes);
        assert!(!matches!(cutter.stream.read(&mut [0; 5]), Ok(1..)), "{backend}");
        let reply = cutter.other.command(&["EXISTS", "key"]).unwrap();
        assert_eq!(reply, martlet_client::resp::Reply::Int(0), "{backend}");
    }
}
