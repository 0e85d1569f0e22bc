//! A conversation with RedisBloom, live or recorded, and RDB's module values.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::{Reply, decode};
use martlet_rdb::crc64::crc64;
use martlet_sketch::field::{Field, ModuleType};
use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Commands that are sent before their replies are read.
const BATCH: usize = 64;

/// The oracle's address, if there is one.
pub fn oracle() -> Option<String> {
    std::env::var("MARTLET_SKETCH_ORACLE").ok().filter(|address| !address.is_empty())
}

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Says, past the capture of test output, that a test has not run.
pub fn skip(name: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED {count}: {name} beside the oracle, which MARTLET_SKETCH_ORACLE does not name"
    );
}

/// An answer that is expected.
#[derive(Clone, Debug)]
pub enum Expected {
    Reply(Reply),
    /// Doubles as texts, compared as numbers.
    Doubles(Vec<f64>),
    /// A DUMP payload without version and checksum.
    Dump(Vec<u8>),
    /// The same of Top-K, whose pointers are not compared: ours have the state of its generator.
    TopKDump(ModuleType, Vec<Field>),
}

enum Peer {
    Live(Client),
    Recording(Client, Vec<u8>),
    Recorded(VecDeque<(String, Reply)>),
}

pub struct Session {
    name: String,
    peer: Peer,
    queue: Vec<(Vec<Vec<u8>>, Expected)>,
    commands: u64,
    /// Whether the peer is Redis 8's module, whose ranges are others than those of 2.8.2.
    pub is_redis_8: bool,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.txt"))
}

/// Each family has a database of its own.
fn connect(address: &str, name: &str) -> Client {
    let mut connection = Client::connect(address).expect("the oracle answers");
    let database =
        ["bloom", "cuckoo", "cms", "topk", "tdigest", "words"].iter().position(|family| *family == name);
    let database = database.expect("a family").to_string();
    for command in [&["SELECT", &database][..], &["FLUSHDB"], &["CONFIG", "SET", "rdbcompression", "no"]] {
        assert!(!connection.command(command).unwrap().is_error(), "{command:?}");
    }
    connection
}

/// Whether a list of modules has `bf` in a version from 8.0.0 on.
fn is_redis_8(modules: &Reply) -> bool {
    let version = |module: &Reply| {
        let fields = module.items()?;
        let value = |name: &[u8]| fields.iter().skip_while(|field| field.text() != Some(name)).nth(1);
        (value(b"name")?.text()? == b"bf").then_some(value(b"ver")?.integer()?)
    };
    modules.items().into_iter().flatten().filter_map(version).any(|version| version >= 80_000)
}

impl Session {
    pub fn live(address: &str, name: &str) -> Session {
        let mut connection = connect(address, name);
        let is_redis_8 = is_redis_8(&connection.command(&["MODULE", "LIST"]).unwrap());
        Session { is_redis_8, ..Session::new(name, Peer::Live(connection)) }
    }

    /// The recorded session, or one that is recorded.
    pub fn recorded(name: &str) -> Session {
        if std::env::var_os("MARTLET_WRITE_FIXTURES").is_some() {
            let address = oracle().expect("MARTLET_SKETCH_ORACLE");
            return Session::new(name, Peer::Recording(connect(&address, name), Vec::new()));
        }
        let text = std::fs::read_to_string(fixture(name)).expect("a recorded session");
        let parse = |line: &str| {
            let (command, reply) = line.split_once('\t').expect("a command and a reply");
            let (reply, _) = decode(&unescape(reply)).expect("a reply").expect("a whole reply");
            (command.to_owned(), reply)
        };
        Session::new(name, Peer::Recorded(text.lines().map(parse).collect()))
    }

    fn new(name: &str, peer: Peer) -> Session {
        Session { name: name.to_owned(), peer, queue: Vec::new(), commands: 0, is_redis_8: false }
    }

    /// Commands that a generator runs in this session.
    pub fn budget(&self) -> usize {
        match self.peer {
            Peer::Live(_) => 5000,
            _ => super::RECORDED,
        }
    }

    /// Whether the next sketch takes many pages: some do, but none of a recorded session.
    pub fn wants_large(&self, random: &mut Random) -> bool {
        matches!(self.peer, Peer::Live(_)) && random.below(4) == 0
    }

    /// A command whose answer must be this.
    pub fn expect(&mut self, command: &[&[u8]], expected: Expected) {
        self.queue.push((command.iter().map(|argument| argument.to_vec()).collect(), expected));
        if self.queue.len() >= BATCH {
            self.flush();
        }
    }

    /// A command whose answer must be this.
    pub fn reply(&mut self, command: &[&[u8]], reply: Reply) {
        self.expect(command, Expected::Reply(reply));
    }

    /// DUMP of a key must be these fields.
    pub fn dump(&mut self, key: &[u8], module: ModuleType, fields: &[Field]) {
        self.expect(&[b"DUMP", key], Expected::Dump(payload(module, fields)));
    }

    /// RESTORE of these fields must work.
    pub fn restore(&mut self, key: &[u8], module: ModuleType, fields: &[Field]) {
        let mut payload = payload(module, fields);
        payload.extend(11_u16.to_le_bytes());
        payload.extend(crc64(0, &payload).to_le_bytes());
        self.reply(&[b"RESTORE", key, b"0", &payload, b"REPLACE"], ok());
    }

    fn flush(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        if let Peer::Live(connection) | Peer::Recording(connection, _) = &mut self.peer {
            queue.iter().for_each(|(command, _)| connection.send(command).unwrap());
        }
        for (command, expected) in queue {
            let shown = command.iter().map(|argument| escape(argument)).collect::<Vec<_>>().join(" ");
            let reply = match &mut self.peer {
                Peer::Live(connection) => connection.read_reply().unwrap(),
                Peer::Recording(connection, file) => {
                    let reply = connection.read_reply().unwrap();
                    let mut raw = Vec::new();
                    encode(&reply, &mut raw);
                    writeln!(file, "{shown}\t{}", escape(&raw)).unwrap();
                    reply
                }
                Peer::Recorded(lines) => {
                    let (recorded, reply) = lines.pop_front().expect("a recorded command");
                    assert_eq!(recorded, shown, "{} was recorded with another generator", self.name);
                    reply
                }
            };
            assert_equal(&shown, &reply, &expected);
            self.commands += 1;
        }
    }

    /// Compares the queued commands; returns how many there were in all.
    pub fn finish(mut self) -> u64 {
        self.flush();
        match &self.peer {
            Peer::Recording(_, file) => std::fs::write(fixture(&self.name), file).unwrap(),
            Peer::Recorded(lines) => assert!(lines.is_empty(), "{} recorded commands are left", lines.len()),
            Peer::Live(_) => {}
        }
        self.commands
    }
}

fn assert_equal(command: &str, reply: &Reply, expected: &Expected) {
    match expected {
        Expected::Reply(expected) => assert_eq!(reply, expected, "{command}"),
        Expected::Doubles(expected) => {
            let found: Vec<f64> = match reply {
                Reply::Array(items) => items.iter().map(double).collect(),
                single => vec![double(single)],
            };
            let bits =
                |values: &[f64]| values.iter().map(|value| (value + 0.0).to_bits()).collect::<Vec<_>>();
            let is_nan = found.iter().zip(expected).all(|(left, right)| left.is_nan() == right.is_nan());
            let hide =
                |values: &[f64]| values.iter().map(|v| if v.is_nan() { 0.0 } else { *v }).collect::<Vec<_>>();
            let equal = is_nan && bits(&hide(&found)) == bits(&hide(expected));
            assert!(equal, "{command}: the oracle {found:?}, here {expected:?}");
        }
        Expected::Dump(expected) => {
            let Reply::Bulk(found) = reply else { panic!("{command}: {reply:?}") };
            assert!(found.len() > 10, "{command}");
            if found[..found.len() - 10] != expected[..] {
                let (found, here) = (fields_of(found), fields_of(&[expected, &[0; 10][..]].concat()));
                let first = found.iter().zip(&here).position(|(left, right)| left != right);
                panic!("{command}: field {first:?}\noracle {found:?}\nhere   {here:?}");
            }
        }
        Expected::TopKDump(module, expected) => {
            let Reply::Bulk(found) = reply else { panic!("{command}: {reply:?}") };
            let without_pointers = |mut fields: Vec<Field>| {
                if let Some(Field::String(heap)) = fields.get_mut(5) {
                    heap.chunks_exact_mut(24).for_each(|slot| slot[8..16].fill(0));
                }
                fields
            };
            let found = without_pointers(fields_of(found));
            assert_eq!(found, without_pointers(expected.clone()), "{command}");
            let _ = payload(*module, expected);
        }
    }
}

fn double(reply: &Reply) -> f64 {
    let text = String::from_utf8_lossy(reply.text().expect("a double")).into_owned();
    match text.as_str() {
        "nan" | "-nan" => f64::NAN,
        text => text.parse().expect("a double"),
    }
}

pub fn ok() -> Reply {
    Reply::Simple(b"OK".to_vec())
}

pub fn integers(values: impl IntoIterator<Item = i64>) -> Reply {
    Reply::Array(values.into_iter().map(Reply::Int).collect())
}

pub fn error(error: impl std::fmt::Display) -> Reply {
    Reply::Error(error.to_string().into_bytes())
}

/// An item: most from a small set, some of any bytes.
pub fn item(random: &mut Random, distinct: u64) -> Vec<u8> {
    match random.below(12) {
        0 => (0..random.below(24)).map(|_| random.below(255) as u8 + 1).collect(),
        1 => random.below(distinct).to_string().into_bytes(),
        _ => format!("item:{}", random.below(distinct)).into_bytes(),
    }
}

/// A number below one of these.
pub fn below_one_of(random: &mut Random, bounds: &[u64]) -> u64 {
    let bound = bounds[random.below(bounds.len() as u64) as usize];
    random.below(bound)
}

/// Bytes as a line of a fixture has them; `\z9;` is nine zeros.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for run in bytes.chunk_by(|left, right| *left == 0 && *right == 0) {
        match run {
            [0, 0, 0, ..] => text.push_str(&format!("\\z{};", run.len())),
            run => run.iter().for_each(|byte| match byte {
                b'\\' | 0..=32 | 127.. => text.push_str(&format!("\\{byte:02x}")),
                byte => text.push(char::from(*byte)),
            }),
        }
    }
    text
}

fn unescape(text: &str) -> Vec<u8> {
    let mut pieces = text.split('\\');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        if let Some(run) = piece.strip_prefix('z') {
            let (count, rest) = run.split_once(';').expect("a run of zeros");
            bytes.resize(bytes.len() + count.parse::<usize>().expect("a count"), 0);
            bytes.extend(rest.as_bytes());
        } else {
            let (code, rest) = piece.split_at(2);
            bytes.push(u8::from_str_radix(code, 16).expect("two digits"));
            bytes.extend(rest.as_bytes());
        }
    }
    bytes
}

/// A reply as RESP2 has it.
fn encode(reply: &Reply, out: &mut Vec<u8>) {
    let line = |mark: char, text: &[u8], out: &mut Vec<u8>| {
        out.extend(mark.to_string().as_bytes());
        out.extend(text);
        out.extend(b"\r\n");
    };
    match reply {
        Reply::Simple(text) => line('+', text, out),
        Reply::Error(text) => line('-', text, out),
        Reply::Int(value) => line(':', value.to_string().as_bytes(), out),
        Reply::NullBulk => out.extend(b"$-1\r\n"),
        Reply::Bulk(bytes) => {
            line('$', bytes.len().to_string().as_bytes(), out);
            out.extend(bytes);
            out.extend(b"\r\n");
        }
        Reply::Array(items) => {
            line('*', items.len().to_string().as_bytes(), out);
            items.iter().for_each(|item| encode(item, out));
        }
        other => panic!("{other:?}"),
    }
}

/// RDB's length: two bits say how many bits follow.
fn put_length(value: u64, out: &mut Vec<u8>) {
    match value {
        0..64 => out.push(value as u8),
        64..16384 => out.extend([0x40 | (value >> 8) as u8, value as u8]),
        16384..=0xffff_ffff => {
            out.push(0x80);
            out.extend((value as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(value.to_be_bytes());
        }
    }
}

/// RDB's string, which is an integer of 1, 2 or 4 bytes where the text is one's.
fn put_string(bytes: &[u8], out: &mut Vec<u8>) {
    let value = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= 11);
    let value = value.and_then(|text| text.parse::<i32>().ok().filter(|value| value.to_string() == text));
    match value {
        Some(value) if i8::try_from(value).is_ok() => out.extend([0xc0, value as u8]),
        Some(value) if i16::try_from(value).is_ok() => {
            out.push(0xc1);
            out.extend((value as i16).to_le_bytes());
        }
        Some(value) => {
            out.push(0xc2);
            out.extend(value.to_le_bytes());
        }
        None => {
            put_length(bytes.len() as u64, out);
            out.extend(bytes);
        }
    }
}

/// A module's value as DUMP has it, without version and checksum.
pub fn payload(module: ModuleType, fields: &[Field]) -> Vec<u8> {
    let mut out = vec![7];
    put_length(module.id(), &mut out);
    for field in fields {
        match field {
            Field::Unsigned(value) => {
                out.push(2);
                put_length(*value, &mut out);
            }
            Field::Float(value) => {
                out.push(3);
                out.extend(value.to_le_bytes());
            }
            Field::Double(value) => {
                out.push(4);
                out.extend(value.to_le_bytes());
            }
            Field::String(bytes) => {
                out.push(5);
                put_string(bytes, &mut out);
            }
        }
    }
    out.push(0);
    out
}

/// The fields of a DUMP payload that is right.
pub fn fields_of(payload: &[u8]) -> Vec<Field> {
    let mut rest = &payload[1..payload.len() - 10];
    let mut fields = Vec::new();
    take_length(&mut rest);
    loop {
        match take_length(&mut rest) {
            0 => return fields,
            2 => fields.push(Field::Unsigned(take_length(&mut rest))),
            4 => fields.push(Field::Double(f64::from_le_bytes(take(&mut rest)))),
            5 => fields.push(Field::String(take_string(&mut rest))),
            other => panic!("opcode {other}"),
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (first, tail) = rest.split_first_chunk::<N>().expect("a whole payload");
    *rest = tail;
    *first
}

fn take_length(rest: &mut &[u8]) -> u64 {
    let [first] = take(rest);
    match (first >> 6, first) {
        (0, _) => u64::from(first),
        (1, _) => u64::from(first & 63) << 8 | u64::from(take::<1>(rest)[0]),
        (_, 0x80) => u64::from(u32::from_be_bytes(take(rest))),
        (_, 0x81) => u64::from_be_bytes(take(rest)),
        _ => panic!("length {first}"),
    }
}

fn take_string(rest: &mut &[u8]) -> Vec<u8> {
    let number = match rest[0] {
        0xc0 => i32::from(take::<2>(rest)[1] as i8),
        0xc1 => {
            take::<1>(rest);
            i32::from(i16::from_le_bytes(take(rest)))
        }
        0xc2 => {
            take::<1>(rest);
            i32::from_le_bytes(take(rest))
        }
        _ => {
            let len = take_length(rest) as usize;
            let (bytes, tail) = rest.split_at(len);
            *rest = tail;
            return bytes.to_vec();
        }
    };
    number.to_string().into_bytes()
}
