//! A walk through all keys with SCAN, which asks about each key: its type, memory, length, frequency.
//!
//! Requests of three steps travel together: the lengths of one batch, the types of the next, and SCAN for the
//! one after that. So a batch costs one round trip.
//!
//! Invariant: replies are read in the order of the requests; a batch has at most `BATCH_MAX` keys, whatever
//! SCAN returns.

use super::lost;
use crate::connection::{Connection, Lost};
use crate::interrupt;
use crate::settings::{ScanSettings, Settings};
use martlet_client::resp::{Reply, encode_request};
use martlet_protocol::quote::append_quoted;
use martlet_spec::data_type::{DATA_TYPES, Length, TypeView};
use std::collections::VecDeque;

/// Most keys that are asked about at once.
const BATCH_MAX: usize = 1024;
/// Number of SCANs after which the walk sleeps, if a pause is set.
const SCANS_BETWEEN_SLEEPS: u64 = 100;

/// A type of values: one that the program knows, or one that TYPE has named.
#[derive(Clone, Debug)]
pub struct Kind {
    pub name: String,
    /// How long its values are, if a command says so.
    pub length: Option<&'static Length>,
    /// Whether it is reported also without a key.
    pub is_always_listed: bool,
}

impl Kind {
    fn known(view: &'static TypeView) -> Kind {
        let length = view.length.as_ref();
        Kind { name: view.name.into(), length, is_always_listed: view.is_always_listed }
    }

    /// A type that only the server knows: its keys are counted and their memory is measured.
    fn other(name: &str) -> Kind {
        Kind { name: name.into(), length: None, is_always_listed: false }
    }

    /// The unit of its lengths.
    pub fn unit(&self) -> &'static str {
        self.length.map_or("?", |length| length.unit)
    }
}

/// The questions about each key.
#[derive(Clone, Copy, Default)]
pub struct Wanted {
    pub kind: bool,
    pub length: bool,
    pub memory: bool,
    pub frequency: bool,
}

/// A key and the server's answers about it.
#[derive(Default)]
pub struct Sample {
    pub key: Vec<u8>,
    /// `None`: the key is gone.
    pub kind: Option<usize>,
    /// `None`: no command measures values of its type, or it was not asked.
    pub length: Option<u64>,
    pub memory: u64,
    pub frequency: u64,
}

/// A key as it is shown.
pub fn quoted(key: &[u8]) -> String {
    let mut out = Vec::new();
    append_quoted(&mut out, key);
    String::from_utf8_lossy(&out).into_owned()
}

/// A walk.
pub struct Walk<'s> {
    connection: Connection,
    settings: &'s Settings,
    wanted: Wanted,
    pub kinds: Vec<Kind>,
    /// Keys when the walk began.
    pub total_keys: u64,
    /// The next cursor of SCAN; `None` after its end.
    cursor: Option<u64>,
    scans: u64,
    found: VecDeque<Vec<u8>>,
    /// A batch whose lengths are asked for next.
    typed: Vec<Sample>,
    /// The walk was interrupted.
    pub is_interrupted: bool,
}

/// Appends a SCAN.
pub fn encode_scan(settings: &ScanSettings, cursor: u64, out: &mut Vec<u8>) {
    let (cursor, count) = (cursor.to_string(), settings.count.to_string());
    let mut words: Vec<&[u8]> = vec![b"SCAN", cursor.as_bytes()];
    if let Some(pattern) = &settings.pattern {
        words.extend([&b"MATCH"[..], pattern]);
    }
    words.extend([&b"COUNT"[..], count.as_bytes()]);
    if let Some(kind) = &settings.kind {
        words.extend([&b"TYPE"[..], kind]);
    }
    encode_request(&words, out);
}

/// A SCAN's reply: the next cursor, unless it was the end, and keys.
pub fn scanned(reply: Reply) -> Result<(Option<u64>, Vec<Vec<u8>>), String> {
    if let Reply::Error(text) = &reply {
        return Err(format!("SCAN error: {}", String::from_utf8_lossy(text)));
    }
    let malformed = || "Invalid element count from SCAN!".to_string();
    let Reply::Array(items) = reply else { return Err("Non ARRAY response from SCAN!".into()) };
    let [cursor, Reply::Array(keys)] = items.as_slice() else { return Err(malformed()) };
    let cursor = cursor.text().and_then(|text| std::str::from_utf8(text).ok());
    let cursor: u64 = cursor.and_then(|cursor| cursor.parse().ok()).ok_or_else(malformed)?;
    let keys = keys.iter().filter_map(Reply::text).map(<[u8]>::to_vec).collect();
    Ok((Some(cursor).filter(|cursor| *cursor != 0), keys))
}

impl<'s> Walk<'s> {
    /// Connects, and asks how many keys there are.
    pub fn begin(settings: &'s Settings, wanted: Wanted) -> Result<Walk<'s>, String> {
        let mut connection = super::open(settings)?;
        interrupt::catch();
        let size = connection.command(&["DBSIZE"]).map_err(|error| lost(&error))?;
        if let Reply::Error(text) = &size {
            return Err(format!("Couldn't determine DBSIZE: {}", String::from_utf8_lossy(text)));
        }
        // A replica of a cluster answers then; other servers refuse it.
        connection.command(&["READONLY"]).map_err(|error| lost(&error))?;
        Ok(Walk {
            connection,
            settings,
            wanted,
            kinds: DATA_TYPES.iter().copied().map(Kind::known).collect(),
            total_keys: size.integer().and_then(|keys| u64::try_from(keys).ok()).unwrap_or(0),
            cursor: Some(settings.scan.cursor),
            scans: 0,
            found: VecDeque::new(),
            typed: Vec::new(),
            is_interrupted: false,
        })
    }

    /// The cursor at which an interrupted walk would continue; 0 at its end.
    pub fn cursor(&self) -> u64 {
        self.cursor.unwrap_or(0)
    }

    /// The next keys that are there; `None` after the last ones. A batch may be empty.
    pub fn next(&mut self) -> Result<Option<Vec<Sample>>, String> {
        self.is_interrupted |= interrupt::take();
        let scans = self.cursor.is_some() && self.found.len() < BATCH_MAX && !self.is_interrupted;
        if !scans && self.found.is_empty() && self.typed.is_empty() {
            return Ok(None);
        }
        let mut sized = std::mem::take(&mut self.typed);
        let batch = self.found.len().min(BATCH_MAX);
        let mut fresh: Vec<Sample> =
            self.found.drain(..batch).map(|key| Sample { key, ..Sample::default() }).collect();
        let mut requests = Vec::new();
        sized.iter().for_each(|sample| self.encode_length(sample, &mut requests));
        fresh.iter().for_each(|sample| self.encode_first(sample, &mut requests));
        if let (true, Some(cursor)) = (scans, self.cursor) {
            encode_scan(&self.settings.scan, cursor, &mut requests);
        }
        self.connection.send_raw(&requests).map_err(|error| lost(&error))?;
        for sample in &mut sized {
            self.read_length(sample)?;
        }
        for sample in &mut fresh {
            self.read_first(sample)?;
        }
        if scans {
            let (cursor, keys) = scanned(self.reply()?)?;
            self.cursor = cursor;
            self.found.extend(keys);
            self.scans += 1;
            if self.scans.is_multiple_of(SCANS_BETWEEN_SLEEPS) {
                std::thread::sleep(self.settings.interval);
            }
        }
        self.typed = fresh;
        sized.retain(|sample| sample.kind.is_some() || !self.wanted.kind);
        Ok(Some(sized))
    }

    fn reply(&mut self) -> Result<Reply, String> {
        loop {
            match self.connection.whole_reply().map_err(|error: Lost| lost(&error))? {
                Reply::Push(_) => {}
                reply => return Ok(reply),
            }
        }
    }

    fn encode_first(&self, sample: &Sample, out: &mut Vec<u8>) {
        let key = sample.key.as_slice();
        if self.wanted.kind {
            encode_request(&[&b"TYPE"[..], key], out);
        }
        if self.wanted.memory {
            match self.settings.scan.samples.map(|samples| samples.to_string()) {
                None => encode_request(&[&b"MEMORY"[..], b"USAGE", key], out),
                Some(samples) => {
                    encode_request(&[&b"MEMORY"[..], b"USAGE", key, b"SAMPLES", samples.as_bytes()], out);
                }
            }
        }
        if self.wanted.frequency {
            encode_request(&[&b"OBJECT"[..], b"FREQ", key], out);
        }
    }

    fn read_first(&mut self, sample: &mut Sample) -> Result<(), String> {
        if self.wanted.kind {
            sample.kind = match self.reply()? {
                Reply::Simple(name) => self.kind(&String::from_utf8_lossy(&name)),
                Reply::Error(text) => {
                    return Err(format!("TYPE returned an error: {}", String::from_utf8_lossy(&text)));
                }
                _ => return Err(format!("Invalid reply type for TYPE on key {}!", quoted(&sample.key))),
            };
        }
        if self.wanted.memory {
            let reply = self.reply()?;
            sample.memory = self.size(sample, &reply, "MEMORY USAGE");
        }
        if self.wanted.frequency {
            sample.frequency = match self.reply()? {
                Reply::Int(frequency) => u64::try_from(frequency).unwrap_or(0),
                Reply::Error(text) => return Err(format!("Error: {}", String::from_utf8_lossy(&text))),
                _ => 0,
            };
        }
        Ok(())
    }

    fn length_command(&self, sample: &Sample) -> Option<&'static str> {
        let kind = self.kinds.get(sample.kind?)?;
        kind.length.filter(|_| self.wanted.length).map(|length| length.command)
    }

    fn encode_length(&self, sample: &Sample, out: &mut Vec<u8>) {
        if let Some(command) = self.length_command(sample) {
            encode_request(&[command.as_bytes(), &sample.key], out);
        }
    }

    fn read_length(&mut self, sample: &mut Sample) -> Result<(), String> {
        if let Some(command) = self.length_command(sample) {
            let reply = self.reply()?;
            sample.length = Some(self.size(sample, &reply, command));
        }
        Ok(())
    }

    /// A size; a key that went or changed since it was found has none.
    fn size(&self, sample: &Sample, reply: &Reply, command: &str) -> u64 {
        if let Reply::Int(size) = reply {
            return u64::try_from(*size).unwrap_or(0);
        }
        if sample.kind.is_some() {
            let key = quoted(&sample.key);
            eprintln!("Warning:  {command} on {key} failed (may have changed type)");
        }
        0
    }

    /// The number of the type of this name; an unknown one is added.
    fn kind(&mut self, name: &str) -> Option<usize> {
        if name == "none" {
            return None;
        }
        let known = self.kinds.iter().position(|kind| kind.name == name);
        known.or_else(|| {
            self.kinds.push(Kind::other(name));
            Some(self.kinds.len() - 1)
        })
    }
}

/// The sums of one type's keys.
#[derive(Clone, Default)]
pub struct Totals {
    pub count: u64,
    pub total: u64,
    pub biggest: u64,
    pub biggest_key: Option<Vec<u8>>,
}

impl Totals {
    /// Adds a key, whose size is `None` where no command says it; returns whether it is the biggest so far.
    pub fn add(&mut self, key: &[u8], size: Option<u64>) -> bool {
        self.count += 1;
        let Some(size) = size else { return false };
        self.total += size;
        let is_biggest = self.biggest_key.is_none() || size > self.biggest;
        if is_biggest {
            (self.biggest, self.biggest_key) = (size, Some(key.to_vec()));
        }
        is_biggest
    }

    /// The mean; 0 without keys.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

/// Totals by the number of a kind, with room for it.
pub fn of_kind(totals: &mut Vec<Totals>, kind: usize) -> &mut Totals {
    if totals.len() <= kind {
        totals.resize(kind + 1, Totals::default());
    }
    &mut totals[kind]
}

/// The part in per cent; 0 of nothing.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scan_gives_is_checked() {
        let bulk = |text: &str| Reply::Bulk(text.into());
        let page = |cursor: &str| Reply::Array(vec![bulk(cursor), Reply::Array(vec![bulk("a"), bulk("b")])]);
        let keys = vec![b"a".to_vec(), b"b".to_vec()];
        assert_eq!(scanned(page("18446744073709551615")), Ok((Some(u64::MAX), keys.clone())));
        assert_eq!(scanned(page("0")), Ok((None, keys)));
        assert_eq!(scanned(Reply::Error(b"ERR no".to_vec())), Err("SCAN error: ERR no".into()));
        assert_eq!(scanned(bulk("x")), Err("Non ARRAY response from SCAN!".into()));
        for bad in [page("x"), Reply::Array(vec![bulk("0")]), Reply::Array(vec![bulk("0"), bulk("1")])] {
            assert_eq!(scanned(bad), Err("Invalid element count from SCAN!".into()));
        }
    }

    #[test]
    fn the_biggest_of_a_kind_is_the_first_of_its_size() {
        let mut totals = Vec::new();
        let zero = Some(0);
        for (key, size, is_biggest) in [
            ("unknown", None, false),
            ("a", zero, true),
            ("z", zero, false),
            ("b", Some(3), true),
            ("c", Some(3), false),
            ("d", Some(4), true),
        ] {
            assert_eq!(of_kind(&mut totals, 2).add(key.as_bytes(), size), is_biggest, "{key}");
        }
        assert_eq!((totals[2].count, totals[2].total, totals[2].biggest), (6, 10, 4));
        assert_eq!((totals[2].biggest_key.as_deref(), totals[2].mean()), (Some(&b"d"[..]), 10.0 / 6.0));
        assert_eq!((totals[0].mean(), percent(1, 0)), (0.0, 0.0));
    }
}
