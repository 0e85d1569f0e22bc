//! Replay of a MONITOR capture: its requests, encoded once, with their instants and clients.

use martlet_client::resp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A parsed capture.
pub struct Capture {
    requests: Vec<Entry>,
    bytes: Vec<u8>,
    /// Names of the commands that occur.
    pub commands: Vec<String>,
    /// Number of different clients.
    pub clients: usize,
}

struct Entry {
    due_ns: u64,
    client: usize,
    command: u16,
    start: usize,
    len: usize,
}

/// One request to replay.
pub struct Request<'a> {
    /// When it is due, from the run's start.
    pub due_ns: u64,
    /// Number of the client that sent it.
    pub client: usize,
    /// Its command's index.
    pub command: u16,
    /// Encoded.
    pub bytes: &'a [u8],
}

/// A thread's place in a capture. Clients are dealt out to threads, so that the order within each is kept.
pub struct Cursor {
    capture: Arc<Capture>,
    at: usize,
    thread: usize,
    threads: usize,
}

impl Cursor {
    fn skip(&mut self) {
        while self.capture.requests.get(self.at).is_some_and(|r| r.client % self.threads != self.thread) {
            self.at += 1;
        }
    }

    /// The next request of this thread.
    pub fn peek(&self) -> Option<Request<'_>> {
        self.request(self.at)
    }

    /// Where the next request lies in the capture.
    pub fn place(&self) -> usize {
        self.at
    }

    /// The request at a place where this cursor has been.
    pub fn request(&self, place: usize) -> Option<Request<'_>> {
        let entry = self.capture.requests.get(place)?;
        let bytes = self.capture.bytes.get(entry.start..entry.start + entry.len)?;
        Some(Request {
            due_ns: entry.due_ns,
            client: entry.client / self.threads,
            command: entry.command,
            bytes,
        })
    }

    /// Advances to the next request.
    pub fn advance(&mut self) {
        self.at += 1;
        self.skip();
    }
}

impl Capture {
    /// Parses MONITOR's lines; `speed` divides the time between them. Lines that are no requests, such as the
    /// first `OK`, are left out.
    pub fn parse(text: &[u8], speed: f64) -> Result<Capture, String> {
        let mut capture =
            Capture { requests: Vec::new(), bytes: Vec::new(), commands: Vec::new(), clients: 0 };
        let (mut clients, mut commands, mut first) = (HashMap::new(), HashMap::new(), None);
        for (number, line) in text.split(|b| *b == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = line.strip_prefix(b"+").unwrap_or(line);
            if line.is_empty() || line == b"OK" {
                continue;
            }
            let (seconds, client, arguments) =
                parse_line(line).ok_or_else(|| format!("line {} is not of a MONITOR capture", number + 1))?;
            let Some(name) = arguments.first().map(|n| String::from_utf8_lossy(n).to_ascii_uppercase())
            else {
                continue;
            };
            let begin = *first.get_or_insert(seconds);
            let count = clients.len();
            let client = *clients.entry(client).or_insert(count);
            let command = *commands.entry(name.clone()).or_insert_with(|| {
                capture.commands.push(name);
                capture.commands.len() - 1
            });
            let start = capture.bytes.len();
            resp::encode_request(&arguments, &mut capture.bytes);
            capture.requests.push(Entry {
                due_ns: ((seconds - begin).max(0.0) / speed * 1e9) as u64,
                client,
                command: u16::try_from(command).map_err(|_| "too many different commands")?,
                start,
                len: capture.bytes.len() - start,
            });
        }
        capture.clients = clients.len();
        if capture.requests.is_empty() { Err("the capture holds no request".into()) } else { Ok(capture) }
    }

    /// Mean time between two requests.
    pub fn mean_gap(&self) -> Duration {
        let span_ns = self.requests.iter().map(|r| r.due_ns).max().unwrap_or(0);
        Duration::from_nanos(span_ns / (self.requests.len() as u64).max(1))
    }

    /// The place where a thread begins.
    pub fn cursor(self: Arc<Self>, thread: usize, threads: usize) -> Cursor {
        let mut cursor = Cursor { capture: self, at: 0, thread, threads };
        cursor.skip();
        cursor
    }
}

type Line = (f64, Vec<u8>, Vec<Vec<u8>>);

/// `1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`: time, client, arguments.
fn parse_line(line: &[u8]) -> Option<Line> {
    let space = memchr::memchr(b' ', line)?;
    let (time, rest) = line.split_at(space);
    let seconds = std::str::from_utf8(time).ok()?.parse::<f64>().ok()?;
    let rest = rest.strip_prefix(b" [")?;
    let close = memchr::memmem::find(rest, b"] ")?;
    let client = rest.get(..close)?.to_vec();
    let mut rest = rest.get(close + 2..)?;
    let mut arguments = Vec::new();
    while let Some(tail) = rest.strip_prefix(b"\"") {
        let (argument, after) = unquote(tail)?;
        arguments.push(argument);
        rest = after.strip_prefix(b" ").unwrap_or(after);
    }
    rest.is_empty().then_some((seconds, client, arguments))
}

/// The text up to the closing quote, escapes undone, and the rest behind it.
fn unquote(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((out, after)),
            [b'\\', b'x', high, low, after @ ..] => {
                let digit = |b: &u8| (*b as char).to_digit(16);
                out.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    other => *other,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                out.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_keeps_times_clients_and_bytes() {
        let text = b"OK\n100.5 [0 127.0.0.1:1] \"SET\" \"a \\\"b\\\"\" \"\\x00\\n\"\n101.5 [0 127.0.0.1:2] \"get\" \"k\"\n";
        let capture = Arc::new(Capture::parse(text, 2.0).expect("valid"));
        assert_eq!((capture.clients, capture.requests.len()), (2, 2));
        assert_eq!(capture.commands, ["SET", "GET"]);
        let mut cursor = capture.cursor(0, 1);
        let first = cursor.peek().expect("two requests");
        assert_eq!(first.bytes, b"*3\r\n$3\r\nSET\r\n$5\r\na \"b\"\r\n$2\r\n\0\n\r\n");
        cursor.advance();
        let second = cursor.peek().expect("one more");
        assert_eq!((second.due_ns, second.client), (500_000_000, 1));
        cursor.advance();
        assert!(cursor.peek().is_none());
    }

    #[test]
    fn what_is_no_capture_is_named_by_line() {
        assert!(Capture::parse(b"OK\nhello world\n", 1.0).err().expect("bad").contains("line 2"));
        assert!(Capture::parse(b"OK\n", 1.0).err().expect("bad").contains("no request"));
    }
}
