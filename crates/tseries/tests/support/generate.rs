//! Operations by chance, within what RedisTimeSeries 1.12 answers as later versions do.
//!
//! Left out, since 1.12 differs from 8.10 or errs there: NaN; EMPTY over a part of a series except for
//! `twa`, and in reverse, where 1.12 overwrites what it has not read yet; EMPTY with an end before the
//! start, and with an alignment after it, which end the server; `first` and `last` in reverse; `twa` with
//! filters; deletions from a compressed destination.

use martlet_base::random::Random;

pub type Command = Vec<Vec<u8>>;

/// A command from words.
pub fn command(text: &str) -> Command {
    text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

const AGGREGATORS: &[&str] = &[
    "avg", "sum", "min", "max", "range", "count", "first", "last", "std.p", "std.s", "var.p", "var.s", "twa",
];
/// A refused sample splits its chunk in RedisTimeSeries, and does not here.
const POLICIES: &[&str] = &["LAST", "FIRST", "MIN", "MAX", "SUM"];

pub struct Scenario {
    random: Random,
    /// The last timestamp of the source.
    last: u64,
    reach: u64,
    kind: u64,
    destinations: usize,
    has_retention: bool,
    deletes: bool,
}

impl Scenario {
    /// A scenario and the commands with which it begins.
    pub fn new(seed: u64) -> (Scenario, Vec<Command>) {
        let mut random = Random::seeded(seed);
        let encoding = ["COMPRESSED", "UNCOMPRESSED"][random.below(2) as usize];
        let chunk = [48, 64, 128, 256, 4096][random.below(5) as usize];
        let has_retention = random.below(4) == 0;
        let retention = if has_retention { 200 + random.below(5000) } else { 0 };
        let policy = POLICIES[random.below(5) as usize];
        let mut commands = vec![
            command("FLUSHALL"),
            command(&format!(
                "TS.CREATE s RETENTION {retention} CHUNK_SIZE {chunk} ENCODING {encoding} DUPLICATE_POLICY {policy} \
                 LABELS group g kind source"
            )),
        ];
        let deletes = random.below(2) == 0;
        let destinations = random.below(4) as usize;
        for index in 0..destinations {
            // A deletion within a bucket of `twa` sets wrong edges in 1.12.
            let aggregators = AGGREGATORS.len() as u64 - u64::from(deletes);
            let aggregator = AGGREGATORS[random.below(aggregators) as usize];
            let bucket = [7, 10, 50, 100, 1000][random.below(5) as usize];
            let align = if random.below(2) == 0 { 0 } else { random.below(bucket) };
            let encoding = if deletes { "UNCOMPRESSED" } else { "COMPRESSED" };
            commands.push(command(&format!(
                "TS.CREATE d{index} CHUNK_SIZE 128 ENCODING {encoding} LABELS group g kind d{index}"
            )));
            commands.push(command(&format!(
                "TS.CREATERULE s d{index} AGGREGATION {aggregator} {bucket} {align}"
            )));
        }
        let reach = 1 << random.below(8);
        let kind = random.below(4);
        let last = 1000 + random.below(1000);
        (Scenario { random, last, reach, kind, destinations, has_retention, deletes }, commands)
    }

    fn value(&mut self) -> String {
        let random = &mut self.random;
        match self.kind {
            0 => random.below(100).to_string(),
            1 => format!("{}", random.below(1000) as f64 / 10.0 - 50.0),
            2 => format!("{:?}", random.unit_f64() * 1000.0),
            _ => format!("{:?}", f64::from_bits(random.next_u64() >> 2 | 1 << 61).clamp(-1e100, 1e100)),
        }
    }

    fn time(&mut self) -> u64 {
        let reach = self.reach * 30;
        let back = self.random.below(reach);
        (self.last + 2).saturating_sub(back)
    }

    /// The next command.
    pub fn next(&mut self) -> Command {
        match self.random.below(100) {
            0..60 => self.add(),
            60..63 => {
                let (value, verb) = (self.value(), ["TS.INCRBY", "TS.DECRBY"][self.random.below(2) as usize]);
                self.last += self.random.below(3) / 2;
                command(&format!("{verb} s {value} TIMESTAMP {}", self.last))
            }
            63..66 if self.deletes => {
                let from = self.time();
                let to = from + self.random.below(self.reach * 4);
                command(&format!("TS.DEL s {from} {to}"))
            }
            66..72 => {
                let key = self.key();
                let latest = if self.random.below(2) == 0 { "LATEST" } else { "" };
                command(&format!("TS.GET {key} {latest}"))
            }
            72..76 => command(&format!("TS.INFO {}", self.key())),
            76..80 => command(&format!("DUMP {}", self.key())),
            80..83 => self.group(),
            _ => self.range(),
        }
    }

    fn key(&mut self) -> String {
        match self.random.below(self.destinations as u64 * 2 + 1) {
            0 => "s".to_owned(),
            index => format!("d{}", (index - 1) / 2),
        }
    }

    fn add(&mut self) -> Command {
        let value = self.value();
        if self.random.below(6) == 0 {
            let time = self.time();
            let policy = POLICIES[self.random.below(5) as usize];
            let given =
                if self.random.below(2) == 0 { format!("ON_DUPLICATE {policy}") } else { String::new() };
            self.last = self.last.max(time);
            return command(&format!("TS.ADD s {time} {value} {given}"));
        }
        let far = if self.random.below(30) == 0 { 40 } else { 1 };
        self.last += 1 + self.random.below(self.reach * far);
        command(&format!("TS.ADD s {} {value}", self.last))
    }

    fn range(&mut self) -> Command {
        let key = self.key();
        let is_reverse = self.random.below(2) == 0;
        let verb = if is_reverse { "TS.REVRANGE" } else { "TS.RANGE" };
        let is_whole = self.random.below(3) == 0;
        let (from, to) = (self.time(), self.time());
        let is_ordered = from <= to;
        let (from, to) =
            if is_whole { ("-".to_owned(), "+".to_owned()) } else { (from.to_string(), to.to_string()) };
        let mut text = format!("{verb} {key} {from} {to}");
        let chance = |random: &mut Random, of: u64| random.below(of) == 0;
        // A range that ends before the open bucket is empty there, from the end on and with a filter or
        // buckets.
        if key != "s" && (is_whole || !is_reverse) && chance(&mut self.random, 2) {
            text += " LATEST";
        }
        let has_filter = chance(&mut self.random, 4);
        if has_filter && chance(&mut self.random, 2) {
            let times: Vec<String> = (0..20).map(|_| self.time().to_string()).collect();
            text += &format!(" FILTER_BY_TS {}", times.join(" "));
        }
        if has_filter {
            text += " FILTER_BY_VALUE -20 60";
        }
        if chance(&mut self.random, 3) {
            text += &format!(" COUNT {}", 1 + self.random.below(12));
        }
        if !chance(&mut self.random, 3) {
            let align = match self.random.below(4) {
                0 if !is_whole => "ALIGN -".to_owned(),
                1 if !is_whole => "ALIGN +".to_owned(),
                2 => format!("ALIGN {}", self.random.below(50)),
                _ => String::new(),
            };
            let aggregator = loop {
                let aggregator = AGGREGATORS[self.random.below(AGGREGATORS.len() as u64) as usize];
                let is_picked = ["first", "last"].contains(&aggregator);
                if !(is_reverse && is_picked || aggregator == "twa" && (has_filter || self.has_retention)) {
                    break aggregator;
                }
            };
            let bucket = [1, 5, 10, 33, 100, 1000, 100_000][self.random.below(7) as usize];
            text += &format!(" {align} AGGREGATION {aggregator} {bucket}");
            // 1.12 tells the last bucket of `twa` twice under EMPTY with another timestamp than the start.
            if aggregator != "twa" && chance(&mut self.random, 3) {
                text += &format!(" BUCKETTIMESTAMP {}", ["-", "~", "+"][self.random.below(3) as usize]);
            }
            let has_latest = text.contains("LATEST");
            let is_part = aggregator == "twa" && is_ordered && align.is_empty();
            if !is_reverse
                && (is_whole || is_part)
                && !(aggregator == "twa" && has_latest)
                && bucket >= 5
                && chance(&mut self.random, 2)
            {
                text += " EMPTY";
            }
        }
        command(&text)
    }

    /// Sums of several series depend on their order in the last bits; small integers do not.
    fn group(&mut self) -> Command {
        let reducers: &[&str] = if self.kind == 0 {
            &["sum", "avg", "min", "max", "count", "range"]
        } else {
            &["min", "max", "count"]
        };
        let reducer = reducers[self.random.below(reducers.len() as u64) as usize];
        let verb = ["TS.MRANGE", "TS.MREVRANGE"][self.random.below(2) as usize];
        let (from, to) = (self.time(), self.time());
        let label = ["group", "kind"][self.random.below(2) as usize];
        let count = if self.random.below(2) == 0 { "COUNT 5" } else { "" };
        command(&format!(
            "{verb} {from} {to} {count} AGGREGATION max 20 FILTER group=g GROUPBY {label} REDUCE {reducer}"
        ))
    }
}

/// Scripts with what chance does not reach: errors, filters, rules that may not be.
pub const SCRIPTS: &[&str] = &[
    "FLUSHALL
     TS.CREATE a CHUNK_SIZE 47
     TS.CREATE a CHUNK_SIZE 56
     TS.CREATE a
     TS.ADD a 1000 1 ON_DUPLICATE LAST
     TS.ADD a 1000 2
     TS.ADD a 1000 2 ON_DUPLICATE SUM
     TS.INCRBY a 5 TIMESTAMP 999
     TS.INCRBY a 5 TIMESTAMP 1000
     TS.DECRBY a 0.1 TIMESTAMP 1001
     TS.GET a
     TS.CREATERULE a a AGGREGATION avg 10
     TS.CREATERULE a b AGGREGATION avg 10
     TS.CREATE b
     TS.CREATE c
     TS.CREATERULE a b AGGREGATION mean 10
     TS.CREATERULE a b AGGREGATION avg 0
     TS.CREATERULE a b AGGREGATION avg 10 3
     TS.CREATERULE a b AGGREGATION avg 10
     TS.CREATERULE b c AGGREGATION avg 10
     TS.CREATERULE c a AGGREGATION avg 10
     TS.GET b LATEST
     TS.ADD a 1002 7
     TS.ADD a 1015 7
     TS.GET b LATEST
     TS.GET b
     TS.DELETERULE a c
     TS.DELETERULE a b
     TS.DELETERULE a b
     TS.RANGE a x +
     TS.RANGE a - + AGGREGATION avg 0
     TS.RANGE a - + AGGREGATION none 5
     TS.RANGE a - + ALIGN x AGGREGATION avg 5
     TS.RANGE a - + AGGREGATION avg 5 BUCKETTIMESTAMP x
     TS.DEL a 1000 1001
     TS.INFO a
     TS.ALTER a RETENTION 10
     TS.ADD a 1000 1
     TS.INFO a",
    "FLUSHALL
     TS.CREATE a LABELS x 1 y 1
     TS.CREATE b LABELS x 1 y 2
     TS.CREATE c LABELS x 2
     TS.CREATE d LABELS y 2 z 1
     TS.QUERYINDEX x=1
     TS.QUERYINDEX x=1 y!=1
     TS.QUERYINDEX x=1 y=2
     TS.QUERYINDEX x=(1,2)
     TS.QUERYINDEX x=(1,2) y=
     TS.QUERYINDEX x=(1,2) y!=
     TS.QUERYINDEX y=2 x=
     TS.QUERYINDEX y=2 x!=(2,3)
     TS.QUERYINDEX y=2 z!=(1)
     TS.QUERYINDEX x=()
     TS.QUERYINDEX x!=1
     TS.QUERYINDEX x=
     TS.QUERYINDEX x
     TS.QUERYINDEX x=(1
     TS.QUERYINDEX x=(1,,2)
     TS.QUERYINDEX x=(1,)
     TS.QUERYINDEX x=1=2
     TS.QUERYINDEX x==1
     TS.QUERYINDEX =x y=2
     TS.QUERYINDEX x=1 nolabel
     TS.ALTER a LABELS x 3
     TS.QUERYINDEX x=1
     TS.QUERYINDEX x=3",
    "FLUSHALL
     TS.CREATE a LABELS x (1
     TS.CREATE a IGNORE 10 2 DUPLICATE_POLICY LAST
     TS.ADD a 1000 1
     TS.ADD a 1005 2
     TS.ADD a 1005 4
     TS.ADD a 1016 4
     TS.ADD a 1026 6.5
     TS.RANGE a - +
     DUMP a
     TS.CREATE u ENCODING UNCOMPRESSED CHUNK_SIZE 64
     TS.ADD u 1 1
     TS.ADD u 2 2
     TS.ADD u 4 4
     TS.ADD u 5 5
     TS.ADD u 3 3
     TS.ADD u 6 6
     DUMP u
     TS.INFO u",
];
