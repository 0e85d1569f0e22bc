//! Takes the readings of a row.

use super::rows::{Before, Kind, Row};
use crate::cost::process::Measured;
use martlet_client::blocking::Client;
use martlet_testkit::load::Template;
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What ECHO returns at the end of a payload.
const END: &str = "this-is-the-end-of-the-payload";
/// How long a reply may take.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
/// The time that clients beside the measured one get to be served or to wait.
const SETTLING: Duration = Duration::from_millis(40);
/// What a server is given to fall asleep after its last reply: the clock does not have the time that a thread
/// has run since its last switch.
const FALLING_ASLEEP: Duration = Duration::from_millis(2);
/// Bytes read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// The servers of a group, which take turns, the peer first.
pub struct Pair {
    servers: Vec<(Measured, Connection)>,
}

impl Pair {
    /// Connects to each.
    pub fn new(servers: Vec<Measured>) -> Result<Pair> {
        let connected = servers.into_iter().map(|server| {
            let connection = Connection::open(&server)?;
            Ok((server, connection))
        });
        Ok(Pair { servers: connected.collect::<Result<_>>()? })
    }

    /// Builds the data; both servers get the same.
    pub fn fill(&mut self, fill: &[Before], settling_ms: u64) -> Result<()> {
        for (_, connection) in &mut self.servers {
            connection.prepare(fill)?;
        }
        std::thread::sleep(Duration::from_millis(settling_ms));
        Ok(())
    }

    /// Microseconds of CPU time, by server: `rounds` readings each.
    pub fn measure(&mut self, row: &Row, rounds: usize) -> Result<Vec<Vec<f64>>> {
        let restored = self.restored(row)?;
        let mut readings = vec![Vec::new(); self.servers.len()];
        for round in 0..rounds {
            for ((server, connection), readings) in self.servers.iter_mut().zip(&mut readings) {
                connection.prepare(row.before)?;
                let payload = payload(row, round as u64, restored.as_deref())?;
                let spent_ns = spent(row, server, connection, &payload)
                    .map_err(|why| format!("{}: {why}", server.name))?;
                readings.push(spent_ns as f64 / 1_000.0 / row.per as f64);
            }
        }
        Ok(readings)
    }

    /// What is restored by such a row: both servers get the peer's payload.
    fn restored(&mut self, row: &Row) -> Result<Option<Vec<u8>>> {
        let request: &[&str] = match row.kind {
            Kind::Restore(key) => &["DUMP", key],
            Kind::RestoreFunctions => &["FUNCTION", "DUMP"],
            _ => return Ok(None),
        };
        let Some((peer, connection)) = self.servers.first_mut() else { return Ok(None) };
        connection.prepare(row.before)?;
        let reply = peer.client()?.command(request)?;
        Ok(Some(reply.text().ok_or("nothing to restore")?.to_vec()))
    }
}

/// The requests of a reading, without the ECHO.
fn payload(row: &Row, seed: u64, restored: Option<&[u8]>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let Some(restored) = restored else {
        let mut template = Template::parse(&expand(row.template)?, seed + 1)?;
        (0..row.times).for_each(|_| template.append(&mut out));
        return Ok(out);
    };
    let words: Vec<&[u8]> = row.template.split(' ').map(str::as_bytes).collect();
    let mut request = words.clone();
    if let Kind::Restore(_) = row.kind {
        request.push(b"0");
    }
    request.extend([restored, b"REPLACE"]);
    (0..row.times).for_each(|_| martlet_client::resp::encode_request(&request, &mut out));
    Ok(out)
}

/// CPU time that the server spends on the row's payload, in nanoseconds.
fn spent(row: &Row, server: &Measured, connection: &mut Connection, payload: &[u8]) -> Result<u64> {
    let mut crowd = match row.kind {
        Kind::Beside(count, template) => {
            let mut crowd = Crowd::open(server, count)?;
            crowd.send(template)?;
            crowd
        }
        Kind::OfEach(count) => Crowd::open(server, count)?,
        _ => Crowd::default(),
    };
    let before_ns = server.process_clock_ns()?;
    match row.kind {
        Kind::OfEach(_) => {
            crowd.send(row.template)?;
            connection.exchange(&[])?;
        }
        Kind::Connect => {
            for _ in 0..row.times {
                server.client()?.command(&row.template.split(' ').collect::<Vec<_>>())?;
            }
            connection.exchange(&[])?;
        }
        _ => {
            let is_error = connection.exchange(payload)?;
            if is_error != row.fails {
                return Err(format!("unexpected reply: {}", connection.first_line()).into());
            }
        }
    }
    std::thread::sleep(FALLING_ASLEEP + Duration::from_millis(row.idle_ms));
    let spent_ns = server.process_clock_ns()? - before_ns;
    if !crowd.0.is_empty() {
        // Their disconnections count for no reading.
        drop(crowd);
        std::thread::sleep(SETTLING);
    }
    Ok(spent_ns)
}

/// The measuring connection.
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    fn open(server: &Measured) -> Result<Connection> {
        let stream = TcpStream::connect(server.address())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        Ok(Connection { stream, received: Vec::new() })
    }

    /// Sends what comes before a reading, and waits until it is done.
    fn prepare(&mut self, before: &[Before]) -> Result<()> {
        for before in before {
            let mut template = Template::parse(&expand(before.template)?, 7)?;
            let mut out = Vec::new();
            (0..before.times).for_each(|_| template.append(&mut out));
            let _is_error = self.exchange(&out)?;
        }
        Ok(())
    }

    /// Sends a payload and ECHO, and reads up to its reply. Whether the first reply is an error.
    fn exchange(&mut self, payload: &[u8]) -> Result<bool> {
        let mut echo = Vec::new();
        martlet_client::resp::encode_request(&["ECHO", END], &mut echo);
        let end = format!("${}\r\n{END}\r\n", END.len()).into_bytes();
        let (mut first, mut tail) = (Vec::new(), Vec::new());
        let mut chunk = vec![0; CHUNK_BYTES];
        std::thread::scope(|scope| {
            let mut stream = &self.stream;
            let writer =
                scope.spawn(move || stream.write_all(payload).and_then(|()| stream.write_all(&echo)));
            while !tail.ends_with(&end) {
                let read = (&self.stream).read(&mut chunk)?;
                if read == 0 {
                    return Err("the server closed the connection".into());
                }
                let room = FIRST_BYTES.saturating_sub(first.len());
                first.extend_from_slice(&chunk[..read.min(room)]);
                tail.extend_from_slice(&chunk[read.saturating_sub(end.len())..read]);
                tail.drain(..tail.len().saturating_sub(end.len()));
            }
            writer.join().map_err(|_| "the writer panicked")?.map_err(Box::<dyn Error>::from)
        })?;
        self.received = first;
        Ok(self.received.first() == Some(&b'-'))
    }

    fn first_line(&self) -> String {
        String::from_utf8_lossy(&self.received).lines().next().unwrap_or_default().to_owned()
    }
}

/// Bytes of a reply that are kept for a message.
const FIRST_BYTES: usize = 120;

/// Connections beside the measured one; closed when dropped.
#[derive(Default)]
struct Crowd(Vec<Client>);

impl Crowd {
    fn open(server: &Measured, count: usize) -> Result<Crowd> {
        let mut crowd = Crowd::default();
        for _ in 0..count {
            crowd.0.push(server.client()?);
        }
        std::thread::sleep(SETTLING);
        Ok(crowd)
    }

    /// Each sends the requests of a template, and the servers get time for them.
    fn send(&mut self, text: &str) -> Result<()> {
        let mut template = Template::parse(&expand(text)?, 7)?;
        let each = text.split(" ; ").count();
        for client in &mut self.0 {
            let mut out = Vec::new();
            (0..each).for_each(|_| template.append(&mut out));
            client.send_raw(&out)?;
        }
        std::thread::sleep(SETTLING);
        Ok(())
    }
}

/// Names of all commands and subcommands of a server.
pub fn command_names(server: &Measured) -> Result<BTreeSet<String>> {
    let reply = server.client()?.command(&["COMMAND"])?;
    let mut names = BTreeSet::new();
    for entry in reply.items().ok_or("COMMAND is no array")? {
        let fields = entry.items().unwrap_or_default();
        let text = |field: &martlet_client::resp::Reply| {
            String::from_utf8_lossy(field.text().unwrap_or_default()).into_owned()
        };
        names.extend(fields.first().map(text));
        let subcommands = fields.get(9).and_then(|field| field.items()).unwrap_or_default();
        let of_each = subcommands.iter().filter_map(|entry| entry.items()?.first());
        names.extend(of_each.map(text));
    }
    Ok(names)
}

/// A template whose `N*(…)` are written out.
fn expand(text: &str) -> Result<String> {
    let Some(open) = text.find("*(") else { return Ok(text.to_owned()) };
    let digits = text[..open].bytes().rev().take_while(u8::is_ascii_digit).count();
    let times: usize = text[open - digits..open].parse().map_err(|_| format!("{text}: how often?"))?;
    // A script has parentheses too.
    let close = open + text[open..].find(')').ok_or_else(|| format!("{text}: no end"))?;
    let inner = &text[open + 2..close];
    let mut out = text[..open - digits].to_owned();
    for at in 0..times {
        if at > 0 {
            out.push(' ');
        }
        out.push_str(&inner.replace('#', &at.to_string()));
    }
    out.push_str(&expand(&text[close + 1..])?);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::rows::GROUPS;
    use super::*;

    #[test]
    fn repetitions_are_written_out() {
        assert_eq!(expand("MSET 3*(k# v)").unwrap(), "MSET k0 v k1 v k2 v");
        assert_eq!(expand("A 2*(x{rand 5}) ; B 1*(#)").unwrap(), "A x{rand 5} x{rand 5} ; B 0");
        assert_eq!(expand("EVAL return(1) 0").unwrap(), "EVAL return(1) 0");
        assert!(expand("MSET *(k)").is_err());
    }

    #[test]
    fn templates_can_be_read_and_names_are_unique() {
        let mut names = BTreeSet::new();
        let check = |before: &[Before]| {
            for before in before {
                let text = expand(before.template).expect(before.template);
                assert!(Template::parse(&text, 1).is_ok(), "{}", before.template);
            }
        };
        for group in GROUPS {
            check(group.fill);
            for row in group.rows {
                assert!(names.insert(row.name), "{} twice", row.name);
                let requests = payload(row, 0, None).unwrap_or_else(|why| panic!("{}: {why}", row.name));
                assert!(!requests.is_empty());
                check(row.before);
            }
        }
    }
}
