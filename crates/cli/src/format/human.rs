//! `--human`: a note behind a number that is a duration, a size or a time.
//!
//! Invariants: a note only adds; the output of the other form stays unchanged. Names have units only in
//! replies in which the server has chosen them: a field `age` of a user's hash is a number like any other.

use super::Printer;
use martlet_client::parts::{Aggregate, Part};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest name or number that is looked at.
const WORD_MAX_BYTES: usize = 64;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Seconds,
    Milliseconds,
    Microseconds,
    /// Seconds since 1970.
    Time,
    /// Milliseconds since 1970.
    TimeMs,
}

/// Fields whose names do not tell.
const NAMED: Units = &[
    ("age", Unit::Seconds),
    ("idle", Unit::Seconds),
    ("idle_time", Unit::Milliseconds),
    ("avg_ttl", Unit::Milliseconds),
    ("inactive", Unit::Milliseconds),
    ("qbuf", Unit::Bytes),
    ("qbuf_free", Unit::Bytes),
    ("rbs", Unit::Bytes),
    ("rbp", Unit::Bytes),
    ("omem", Unit::Bytes),
    ("argv_mem", Unit::Bytes),
    ("multi_mem", Unit::Bytes),
    ("tot_mem", Unit::Bytes),
    ("maxmemory", Unit::Bytes),
    ("overhead_total", Unit::Bytes),
    ("replication_backlog", Unit::Bytes),
    ("aof_current_size", Unit::Bytes),
    ("aof_base_size", Unit::Bytes),
    ("repl_backlog_size", Unit::Bytes),
    ("repl_backlog_histlen", Unit::Bytes),
    ("rdb_last_cow_size", Unit::Bytes),
    ("aof_last_cow_size", Unit::Bytes),
    ("module_fork_last_cow_size", Unit::Bytes),
    ("rdb_last_save_time", Unit::Time),
];

/// Endings of names, by unit.
const ENDINGS: Units = &[
    ("_bytes", Unit::Bytes),
    ("_allocated", Unit::Bytes),
    ("_memory", Unit::Bytes),
    ("_seconds", Unit::Seconds),
    ("_sec", Unit::Seconds),
    ("_ms", Unit::Milliseconds),
    ("_milliseconds", Unit::Milliseconds),
    ("usec", Unit::Microseconds),
    ("_us", Unit::Microseconds),
];

/// Commands whose reply, or each number in it, has a unit.
const COMMANDS: &[(&str, &str, Unit)] = &[
    ("ttl", "", Unit::Seconds),
    ("pttl", "", Unit::Milliseconds),
    ("httl", "", Unit::Seconds),
    ("hpttl", "", Unit::Milliseconds),
    ("expiretime", "", Unit::Time),
    ("pexpiretime", "", Unit::TimeMs),
    ("hexpiretime", "", Unit::Time),
    ("hpexpiretime", "", Unit::TimeMs),
    ("sttl", "", Unit::Seconds),
    ("spttl", "", Unit::Milliseconds),
    ("sexpiretime", "", Unit::Time),
    ("spexpiretime", "", Unit::TimeMs),
    ("lastsave", "", Unit::Time),
    ("strlen", "", Unit::Bytes),
    ("memory", "usage", Unit::Bytes),
    ("object", "idletime", Unit::Seconds),
];

/// The unit of a field with this name.
fn unit_of(name: &[u8]) -> Option<Unit> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase().replace(['-', '.'], "_");
    let name = name.strip_suffix("_ago").unwrap_or(&name);
    let named = NAMED.iter().find(|(known, _)| *known == name);
    let by_ending = || ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
    let memory = || (name.starts_with("used_memory") || name.starts_with("mem_")).then_some(Unit::Bytes);
    named.or_else(by_ending).map(|(_, unit)| *unit).or_else(memory)
}

/// Names of numbers, with their units.
type Units = &'static [(&'static str, Unit)];

/// What the numbers of a reply are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Data, or nothing that has a unit.
    #[default]
    Plain,
    /// All have this unit.
    Of(Unit),
    /// The server names each; these names tell another unit here than elsewhere.
    Named(Units),
}

/// Commands in whose replies the server names each number, and names that mean something else there.
const NAMING: &[(&str, &str, Units)] = &[
    ("config", "get", &[]),
    ("memory", "stats", &[]),
    ("acl", "log", &[]),
    ("cluster", "links", &[]),
    ("cluster", "slot-stats", &[]),
    ("function", "stats", &[]),
    ("sentinel", "", &[]),
    ("xinfo", "consumers", &[("idle", Unit::Milliseconds)]),
];

impl Numbers {
    /// What the numbers in the reply to a command are.
    pub fn of_reply(words: &[&[u8]]) -> Numbers {
        let is = |index: usize, name: &str| {
            name.is_empty() || words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        let naming = NAMING.iter().find(|(name, sub, _)| is(0, name) && is(1, sub));
        let uniform = || COMMANDS.iter().find(|(name, sub, _)| is(0, name) && is(1, sub));
        match naming {
            Some((_, _, own)) => Numbers::Named(own),
            None => uniform().map_or(Numbers::Plain, |(_, _, unit)| Numbers::Of(*unit)),
        }
    }

    /// The unit of a number behind this name.
    fn unit(self, name: &[u8]) -> Option<Unit> {
        match self {
            Numbers::Plain => None,
            Numbers::Of(unit) => Some(unit),
            Numbers::Named(own) => {
                let own = own.iter().find(|(known, _)| known.as_bytes() == name);
                own.map(|(_, unit)| *unit).or_else(|| unit_of(name))
            }
        }
    }

    /// The note for the number in a field with this name.
    pub fn noted(self, name: &[u8], number: f64) -> Option<String> {
        note(number, self.unit(name)?, now())
    }
}

/// How many bytes, with the unit that leaves few digits.
pub fn readable_bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    for unit in ["K", "M", "G"] {
        size /= 1024.0;
        if size < 1024.0 {
            return format!("{size:.2}{unit}");
        }
    }
    format!("{:.2}T", size / 1024.0)
}

/// A duration in its two largest units.
fn duration(seconds: f64) -> String {
    const UNITS: &[(u64, &str)] = &[(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    if seconds < 0.001 {
        return format!("{:.0}us", seconds * 1e6);
    }
    if seconds < 1.0 {
        return format!("{:.3}ms", seconds * 1e3);
    }
    if seconds < 60.0 {
        return format!("{seconds:.2}s");
    }
    let mut left = seconds as u64;
    let mut out = String::new();
    let mut shown = 0;
    for (unit, name) in UNITS {
        let count = left / unit;
        left %= unit;
        if (count > 0 || shown == 1) && shown < 2 {
            if count > 0 {
                out.push_str(&format!("{count}{name}"));
            }
            shown += 1;
        }
    }
    out
}

/// The note for a number; `None` where it would repeat the number.
fn note(number: f64, unit: Unit, now: f64) -> Option<String> {
    let time = |at: f64| {
        let away = at - now;
        let far = away.abs() >= 1.0 && at > 0.0;
        let text = duration(away.abs());
        far.then(|| if away < 0.0 { format!("{text} ago") } else { format!("in {text}") })
    };
    match unit {
        Unit::Bytes => (number >= 1024.0).then(|| readable_bytes(number as u64)),
        Unit::Seconds => (number >= 60.0).then(|| duration(number)),
        Unit::Milliseconds => (number >= 1000.0).then(|| duration(number / 1e3)),
        Unit::Microseconds => (number >= 1000.0).then(|| duration(number / 1e6)),
        Unit::Time => time(number),
        Unit::TimeMs => time(number / 1e3),
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Prints as another printer does, with notes behind its numbers.
pub struct Human<'a> {
    inner: Box<dyn Printer + 'a>,
    numbers: Numbers,
    /// The string before, which may name a number.
    name: Vec<u8>,
    text: Option<Vec<u8>>,
    now: f64,
}

impl<'a> Human<'a> {
    /// Over the form that prints the numbers without notes.
    pub fn new(inner: Box<dyn Printer + 'a>, numbers: Numbers) -> Human<'a> {
        Human { inner, numbers, name: Vec::new(), text: None, now: now() }
    }

    fn note(&mut self, value: Option<f64>, out: &mut Vec<u8>) -> bool {
        let unit = self.numbers.unit(&std::mem::take(&mut self.name));
        let note = value.zip(unit).and_then(|(value, unit)| note(value, unit, self.now));
        let is_noted = note.is_some();
        if let Some(note) = note {
            out.extend_from_slice(format!(" ({note})").as_bytes());
        }
        is_noted
    }
}

impl Printer for Human<'_> {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        if let (Part::Bytes(bytes), Some(text)) = (part, &mut self.text) {
            let room = (WORD_MAX_BYTES + 1).saturating_sub(text.len());
            text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        self.inner.part(part, out);
        match part {
            Part::Int(number) => drop(self.note(Some(number as f64), out)),
            Part::Text(..) => self.text = Some(Vec::new()),
            Part::EndText => {
                let text = self.text.take().unwrap_or_default();
                let is_named = matches!(self.numbers, Numbers::Named(_));
                if !(is_named && self.note(number(&text), out)) {
                    self.name = text;
                }
            }
            Part::Simple(text) => self.name = text.to_vec(),
            Part::Open(Aggregate::Map, _) | Part::Bytes(_) | Part::Close(_) => {}
            _ => self.name.clear(),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.inner.end(out);
    }
}

/// Prints a text of fields (`name:value` lines as INFO's, `name=value` words as CLIENT LIST's) with notes.
pub struct HumanText<'a> {
    inner: Box<dyn Printer + 'a>,
    /// The end of the output so far: a field that may continue.
    word: Vec<u8>,
    now: f64,
}

impl<'a> HumanText<'a> {
    /// Over the form that prints the text as it is.
    pub fn new(inner: Box<dyn Printer + 'a>) -> HumanText<'a> {
        HumanText { inner, word: Vec::new(), now: now() }
    }

    /// After a whole field: the note that belongs to it.
    fn note(&mut self) -> Option<String> {
        let word = std::mem::take(&mut self.word);
        let at = word.iter().position(|byte| matches!(byte, b':' | b'='))?;
        let (name, value) = (word.get(..at)?, word.get(at + 1..)?);
        // An inner field: `db0:keys=1`.
        let (name, value) = match value.iter().position(|byte| *byte == b'=') {
            Some(inner) => (value.get(..inner)?, value.get(inner + 1..)?),
            None => (name, value),
        };
        note(number(value)?, unit_of(name)?, self.now)
    }
}

impl Printer for HumanText<'_> {
    fn part(&mut self, part: Part, out: &mut Vec<u8>) {
        let Part::Bytes(bytes) = part else {
            if let (Part::EndText, Some(note)) = (part, self.note()) {
                out.extend_from_slice(format!("({note})").as_bytes());
            }
            return self.inner.part(part, out);
        };
        let mut noted = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if matches!(byte, b' ' | b',' | b'\r' | b'\n') {
                if let Some(note) = self.note() {
                    noted.extend_from_slice(format!("({note})").as_bytes());
                }
            } else if self.word.len() <= WORD_MAX_BYTES {
                self.word.push(*byte);
            }
            noted.push(*byte);
        }
        self.inner.part(Part::Bytes(&noted), out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.inner.end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Expected, Output, Style, parts_of};
    use martlet_client::resp::Reply;

    fn printed(reply: &Reply, words: &[&[u8]], is_text: bool) -> String {
        let style = Style { is_human: true, ..Style::new(Output::Standard) };
        let expected = Expected { is_verbatim: is_text, numbers: Numbers::of_reply(words), results: None };
        let (mut printer, mut out) = (style.printer(expected), Vec::new());
        parts_of(reply, &mut |part| printer.part(part, &mut out));
        printer.end(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn sizes_and_durations_have_units() {
        for (bytes, expected) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_572_864, "1.50M"),
            (5 << 30, "5.00G"),
            (1 << 50, "1024.00T"),
        ] {
            assert_eq!(readable_bytes(bytes), expected);
        }
        for (seconds, expected) in [
            (0.000_25, "250us"),
            (0.25, "250.000ms"),
            (1.5, "1.50s"),
            (60.0, "1m"),
            (61.0, "1m1s"),
            (3_600.0, "1h"),
            (3_725.0, "1h2m"),
            (90_061.0, "1d1h"),
            (86_460.0, "1d"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }

    #[test]
    fn a_time_is_as_far_away_as_it_is() {
        assert_eq!(note(900.0, Unit::Time, 1_000.0).as_deref(), Some("1m40s ago"));
        assert_eq!(note(4_600_000.0, Unit::TimeMs, 1_000.0).as_deref(), Some("in 1h"));
        assert_eq!(note(-1.0, Unit::Time, 1_000.0), None);
    }

    #[test]
    fn replies_of_commands_have_notes() {
        assert_eq!(printed(&Reply::Int(7200), &[b"TTL", b"k"], false), "(integer) 7200 (2h)\n");
        assert_eq!(printed(&Reply::Int(-1), &[b"ttl", b"k"], false), "(integer) -1\n");
        assert_eq!(
            printed(&Reply::Int(2048), &[b"memory", b"usage", b"k"], false),
            "(integer) 2048 (2.00K)\n"
        );
        assert_eq!(printed(&Reply::Int(2048), &[b"llen", b"k"], false), "(integer) 2048\n");
    }

    #[test]
    fn numbers_behind_their_names_have_notes() {
        let text = |text: &str| Reply::Bulk(text.into());
        let list = Reply::Array(vec![
            text("total.allocated"),
            Reply::Int(4096),
            text("keys.count"),
            Reply::Int(4096),
        ]);
        let expected =
            "1) \"total.allocated\"\n2) (integer) 4096 (4.00K)\n3) \"keys.count\"\n4) (integer) 4096\n";
        assert_eq!(printed(&list, &[b"memory", b"stats"], false), expected);
        let map = Reply::Map(vec![(text("maxmemory"), text("1048576")), (text("save"), text("3600 1"))]);
        let expected = "1# \"maxmemory\" => \"1048576\" (1.00M)\n2# \"save\" => \"3600 1\"\n";
        assert_eq!(printed(&map, &[b"config", b"get", b"*"], false), expected);
    }

    #[test]
    fn data_has_no_notes_whatever_its_names() {
        let text = |text: &str| Reply::Bulk(text.into());
        let user = Reply::Array(vec![text("age"), text("79000"), text("used_memory"), text("79000")]);
        let plain = "1) \"age\"\n2) \"79000\"\n3) \"used_memory\"\n4) \"79000\"\n";
        for command in [[&b"hgetall"[..], b"user:1"], [b"XRANGE", b"s"], [b"eval", b"return 1"]] {
            assert_eq!(printed(&user, &command, false), plain);
        }
        let fields = Reply::Map(vec![(text("age"), Reply::Int(79_000))]);
        assert_eq!(printed(&fields, &[b"HGETALL", b"user:1"], false), "1# \"age\" => (integer) 79000\n");
        let consumers =
            Reply::Array(vec![text("idle"), Reply::Int(79_000), text("inactive"), Reply::Int(90_000)]);
        assert_eq!(
            printed(&consumers, &[b"xinfo", b"consumers", b"s", b"g"], false),
            "1) \"idle\"\n2) (integer) 79000 (1m19s)\n3) \"inactive\"\n4) (integer) 90000 (1m30s)\n"
        );
    }

    #[test]
    fn fields_of_a_text_have_notes() {
        let info = Reply::Bulk(
            b"# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nuptime_in_seconds:59\r\n\
              db0:keys=70000,expires=0,avg_ttl=90000\r\n"
                .to_vec(),
        );
        let expected = "# Memory\r\nused_memory:1048576(1.00M)\r\nused_memory_human:1.00M\r\nuptime_in_seconds:59\r\n\
              db0:keys=70000,expires=0,avg_ttl=90000(1m30s)\r\n";
        assert_eq!(printed(&info, &[b"info"], true), expected);
        let clients = Reply::Bulk(b"id=3 age=3600 idle=0 tot-mem=22512 cmd=ping\n".to_vec());
        let expected = "id=3 age=3600(1h) idle=0 tot-mem=22512(21.98K) cmd=ping\n";
        assert_eq!(printed(&clients, &[b"client", b"list"], true), expected);
    }
}
