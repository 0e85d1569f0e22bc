//! Generated commands beside a server that has RedisTimeSeries, byte by byte, in both protocols.
//!
//! `MARTLET_TSERIES_ORACLE=HOST:PORT` names the server, which is flushed, `MARTLET_TSERIES_COMMANDS` says how
//! many (10,000). Without it a few run against the fixture alone: nothing may panic, and the index must have
//! the series that a look at every key finds.
//!
//! Left out is what RedisTimeSeries 1.12 answers otherwise than Redis 8.10, or wrongly: NaN, EMPTY, `first`
//! and `last` in reverse, `twa` in ranges, late samples of sources and deletions there, retention and IGNORE
//! of destinations (it replies twice), sums of fractions over several series, RENAME and COPY over a series
//! (its labels stay in the index), wrong times of TS.INCRBY, and TS.ALTER CHUNK_SIZE, after which it splits a
//! chunk whose last sample is replaced.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::random::Random;
use martlet_values::time_series::{SeriesIndex, TimeSeries};

use crate::testing::{Fixture, show};

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "text"];
/// Their samples come in order.
const SOURCES: [&str; 2] = ["a", "b"];
/// Only rules write them.
const DESTINATIONS: [&str; 2] = ["c", "d"];
/// Everything is done with them but rules.
const OTHERS: [&str; 4] = ["e", "f", "g", "text"];
const AGGREGATORS: [&str; 13] = [
    "avg", "sum", "min", "max", "range", "count", "first", "last", "std.p", "std.s", "var.p", "var.s", "twa",
];

struct Peer(BufReader<TcpStream>);

impl Peer {
    fn connect(address: &str) -> Peer {
        Peer(BufReader::new(TcpStream::connect(address).expect("the oracle")))
    }

    fn ask(&mut self, words: &[String]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
        self.0.get_mut().write_all(&request).expect("the oracle reads");
        let mut reply = Vec::new();
        self.read(&mut reply);
        reply
    }

    /// Appends one reply as it comes.
    fn read(&mut self, reply: &mut Vec<u8>) {
        let begin = reply.len();
        self.0.read_until(b'\n', reply).expect("the oracle answers");
        let line = String::from_utf8_lossy(&reply[begin..]).into_owned();
        let number = || line[1..].trim().parse::<i64>().expect("a length");
        let count = match line.as_bytes().first() {
            Some(b'$') => {
                if let Ok(len) = usize::try_from(number()) {
                    let begin = reply.len();
                    reply.resize(begin + len + 2, 0);
                    self.0.read_exact(&mut reply[begin..]).expect("the oracle's text");
                }
                0
            }
            Some(b'*' | b'~') => number().max(0),
            Some(b'%') => number() * 2,
            Some(_) => 0,
            None => panic!("the oracle has gone"),
        };
        (0..count).for_each(|_| self.read(reply));
    }
}

struct Generator(Random, u64);

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn time(&mut self) -> String {
        match self.below(40) {
            0 => "-5".into(),
            1 => "x".into(),
            2 => "0".into(),
            _ => (self.below(60) * 5 + self.below(3)).to_string(),
        }
    }

    fn value(&mut self) -> String {
        match self.below(20) {
            0 => self.one(&["x", "+1", "01", ".5", "-", "", "1e5", "-0", "1e-7", "inf", "5."]).into(),
            1 => format!("{}e{}", self.below(1000), self.below(40)),
            2..8 => format!("{}.{}", self.below(100), self.below(1000)),
            _ => self.below(20).to_string(),
        }
    }

    /// A key that samples are written to, and the time of one.
    fn place(&mut self) -> [String; 2] {
        if self.chance(50) {
            self.1 += self.0.below(15);
            return [self.one(&SOURCES).to_owned(), self.1.to_string()];
        }
        [self.one(&OTHERS).to_owned(), self.time()]
    }

    fn settings(&mut self, key: &str, out: &mut Vec<String>) {
        let is_free = !DESTINATIONS.contains(&key);
        let add =
            |out: &mut Vec<String>, words: &[&str]| out.extend(words.iter().map(|word| (*word).to_owned()));
        if is_free && self.chance(20) {
            let time = self.one(&["0", "40", "100", "-1", "x"]);
            add(out, &["RETENTION", time]);
        }
        if self.chance(20) {
            let size = self.one(&["48", "64", "128", "50", "x"]);
            add(out, &["CHUNK_SIZE", size]);
        }
        if self.chance(20) {
            let encoding = self.one(&["COMPRESSED", "UNCOMPRESSED", "other"]);
            add(out, &["ENCODING", encoding]);
        }
        if self.chance(30) {
            let policy = self.one(&["BLOCK", "LAST", "first", "MIN", "MAX", "SUM", "other"]);
            add(out, &["DUPLICATE_POLICY", policy]);
        }
        if is_free && self.chance(10) {
            let (time, value) = (self.one(&["5", "0", "-1", "x"]), self.one(&["1", "0.5", "-1", "x"]));
            add(out, &["IGNORE", time, value]);
        }
        if self.chance(40) {
            out.push("LABELS".into());
            for _ in 0..self.below(4) {
                let (name, value) = (self.one(&["x", "y", "z", ""]), self.one(&["1", "2", "3", "a(b"]));
                if !(name.is_empty() && self.chance(80)) {
                    add(out, &[name, value]);
                }
            }
        }
    }

    fn span(&mut self) -> [String; 2] {
        let from = if self.chance(50) { "-".into() } else { self.time() };
        [from, if self.chance(50) { "+".into() } else { self.time() }]
    }

    fn range(&mut self, is_reverse: bool, out: &mut Vec<String>) {
        out.extend(self.span());
        if self.chance(10) {
            out.push("FILTER_BY_TS".into());
            for _ in 0..self.below(4) {
                out.push(self.time());
            }
        }
        if self.chance(10) {
            out.extend(["FILTER_BY_VALUE".into(), self.value(), self.value()]);
        }
        if self.chance(20) {
            out.extend(["COUNT".to_owned(), self.one(&["1", "3", "0", "x", "100"]).to_owned()]);
        }
        if self.chance(50) {
            if self.chance(30) {
                out.extend(["ALIGN".to_owned(), self.one(&["-", "+", "start", "7", "x", "0"]).to_owned()]);
            }
            let aggregator = loop {
                let aggregator = if self.chance(3) { "other" } else { self.one(&AGGREGATORS) };
                if aggregator != "twa" && !(is_reverse && ["first", "last"].contains(&aggregator)) {
                    break aggregator;
                }
            };
            let duration = self.one(&["10", "25", "7", "1", "0", "x", "1000"]);
            out.extend(["AGGREGATION", aggregator, duration].map(str::to_owned));
            if self.chance(20) {
                let moment = self.one(&["-", "+", "~", "start", "mid", "end", "x"]);
                out.extend(["BUCKETTIMESTAMP", moment].map(str::to_owned));
            }
        }
    }

    fn filter(&mut self, out: &mut Vec<String>) {
        for _ in 0..1 + self.below(2) {
            let filters = [
                "x=1",
                "y=2",
                "x=(1,2)",
                "x!=1",
                "y=",
                "y!=",
                "z=(1,2,3)",
                "x",
                "y!=(2,3)",
                "z=3",
                "aggregation=AVG",
            ];
            out.push(self.one(&filters).to_owned());
        }
    }

    fn command(&mut self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let key = self.one(&KEYS).to_owned();
        match self.below(32) {
            0 => {
                out.extend(["TS.CREATE".into(), key.clone()]);
                self.settings(&key, &mut out);
            }
            1 => {
                out.extend(["TS.ALTER".into(), key.clone()]);
                self.settings(&key, &mut out);
                if let Some(place) = out.iter().position(|word| word == "CHUNK_SIZE") {
                    out.drain(place..place + 2);
                }
            }
            2..12 => {
                let [key, time] = self.place();
                out.extend(["TS.ADD".into(), key.clone(), time, self.value()]);
                if self.chance(20) {
                    let policy = self.one(&["LAST", "FIRST", "MIN", "MAX", "SUM", "BLOCK", "other"]);
                    out.extend(["ON_DUPLICATE", policy].map(str::to_owned));
                }
                if self.chance(10) {
                    self.settings(&key, &mut out);
                }
            }
            12..14 => {
                out.push("TS.MADD".into());
                for _ in 0..1 + self.below(4) {
                    let [key, time] = self.place();
                    out.extend([key, time, self.value()]);
                }
                if self.chance(3) {
                    out.push("1".into());
                }
            }
            14 => {
                let name = self.one(&["TS.INCRBY", "TS.DECRBY"]).to_owned();
                let [key, time] = self.place();
                let time = time.parse::<u64>().unwrap_or(7).to_string();
                out.extend([name, key, self.below(50).to_string(), "TIMESTAMP".into(), time]);
            }
            15 => {
                let [from, to] = self.span();
                out.extend(["TS.DEL".into(), self.one(&OTHERS).to_owned(), from, to]);
            }
            16..18 => {
                let is_free = self.chance(70);
                let [key, other] = if is_free {
                    [self.one(&SOURCES), self.one(&DESTINATIONS)].map(str::to_owned)
                } else {
                    let key = self.one(&["none", "text", "c"]);
                    [key, if key == "c" { "c" } else { self.one(&DESTINATIONS) }].map(str::to_owned)
                };
                let aggregator = self.one(&AGGREGATORS[..12]).to_owned();
                let duration = self.one(&["10", "25", "0", "x", "50"]).to_owned();
                out.extend(["TS.CREATERULE".into(), key, other, "AGGREGATION".into(), aggregator, duration]);
                if self.chance(20) {
                    out.push(self.one(&["3", "x", "-1"]).to_owned());
                }
            }
            18 => {
                let other = self.one(&KEYS).to_owned();
                out.extend(["TS.DELETERULE".into(), key, other]);
            }
            19..21 => out.extend(["TS.GET".into(), key]),
            21..25 => {
                let name = self.one(&["TS.RANGE", "TS.REVRANGE"]).to_owned();
                out.extend([name.clone(), key]);
                self.range(name == "TS.REVRANGE", &mut out);
            }
            25..27 => {
                out.push(self.one(&["TS.MRANGE", "TS.MREVRANGE"]).to_owned());
                let is_reverse = out[0] == "TS.MREVRANGE";
                self.range(is_reverse, &mut out);
                match self.below(4) {
                    0 => out.push("WITHLABELS".into()),
                    1 => out.extend(["SELECTED_LABELS", "x", "Y"].map(str::to_owned)),
                    _ => {}
                }
                out.push("FILTER".into());
                self.filter(&mut out);
                if self.chance(40) {
                    let reducer = self.one(&["max", "min", "count", "twa", "x"]);
                    let label = self.one(&["x", "y", "none"]);
                    out.extend(["GROUPBY", label, "REDUCE", reducer].map(str::to_owned));
                }
            }
            27 => {
                out.push("TS.MGET".into());
                match self.below(4) {
                    0 => out.push("WITHLABELS".into()),
                    1 => out.extend(["SELECTED_LABELS", "x", "Y"].map(str::to_owned)),
                    _ => {}
                }
                out.push("FILTER".into());
                self.filter(&mut out);
            }
            28 => {
                out.push("TS.QUERYINDEX".into());
                self.filter(&mut out);
            }
            29 => out.extend(["TS.INFO".into(), key]),
            30 => match self.below(3) {
                0 => {
                    let other = self.one(&OTHERS[..3]).to_owned();
                    out.extend(["RENAMENX".into(), self.one(&OTHERS[..3]).to_owned(), other]);
                }
                1 => {
                    let other = self.one(&OTHERS[..3]).to_owned();
                    out.extend(["COPY".into(), self.one(&OTHERS[..3]).to_owned(), other]);
                }
                _ => out.extend(["DEL".into(), self.one(&KEYS[..7]).to_owned()]),
            },
            _ => out.extend(["TYPE".into(), key]),
        }
        out
    }
}

/// A reply without what differs by design: the bytes of memory, the policy of a series that has none of its
/// own, and the words of an error that has gained some.
fn comparable(words: &[String], reply: &[u8]) -> String {
    let mut shown = show(reply);
    if words[0] == "TS.INFO" {
        for (name, end) in [("+memoryUsage ", " +firstTimestamp"), ("+duplicatePolicy ", " +labels")] {
            if let (Some(from), Some(to)) = (shown.find(name), shown.find(end)) {
                let is_policy = name.starts_with("+duplicate");
                let is_given =
                    is_policy && !shown[from..to].ends_with("nil") && !shown[from..to].ends_with("+block");
                if !is_given {
                    shown.replace_range(from..to, name);
                }
            }
        }
    }
    // Redis' digits may be more than are needed.
    let double = |word: &str| {
        let number = word.strip_prefix([','])?.trim_end_matches([']', '}']).parse::<f64>().ok()?;
        let end = &word[word.trim_end_matches([']', '}']).len()..];
        Some(format!(",{number:?}{end}"))
    };
    let words: Vec<String> =
        shown.split(' ').map(|word| double(word).unwrap_or_else(|| word.to_owned())).collect();
    words.join(" ").replace(", or either current or new value is NaN and DUPLICATE_POLICY is MAX/MIN/SUM", "")
}

/// The index of database 0 has the labelled series that its keys are.
fn check_index(t: &mut Fixture) {
    for shard in 0..SHARD_COUNT {
        t.keys.with_shard(shard, |keys| {
            let db = keys.shard(shard).keys.db(0);
            let labelled = |entry: &martlet_keyspace::Entry<'_>| {
                entry.object::<TimeSeries>().is_some_and(|series| !series.settings().labels.is_empty())
            };
            let expected = db.iter().filter(labelled).count();
            assert_eq!(db.index::<SeriesIndex>().map_or(0, SeriesIndex::len), expected);
        });
    }
}

#[test]
fn generated_commands_are_answered_as_by_redis() {
    let address = std::env::var("MARTLET_TSERIES_ORACLE").ok().filter(|address| !address.is_empty());
    let commands = std::env::var("MARTLET_TSERIES_COMMANDS").ok().and_then(|count| count.parse().ok());
    let commands: usize = commands.unwrap_or(if address.is_some() { 10_000 } else { 1_500 });
    let seed = std::env::var("MARTLET_TSERIES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    let mut generator = Generator(Random::seeded(seed), 0);
    let mut peers = address.map(|address| {
        let (mut two, mut three) = (Peer::connect(&address), Peer::connect(&address));
        two.ask(&["FLUSHALL".to_owned()]);
        three.ask(&["HELLO", "3"].map(str::to_owned));
        (two, three)
    });
    let mut t = Fixture::new();
    let mut recent: Vec<String> = Vec::new();
    let start = ["SET".to_owned(), "text".to_owned(), "x".to_owned()];
    t.run_args(&start);
    if let Some((two, _)) = &mut peers {
        two.ask(&start);
    }
    for number in 0..commands {
        // A world of its own now and then, so that not all keys end up alike.
        let words = if number % 400 == 399 {
            ["DEL"].iter().chain(&KEYS[..7]).map(|word| (*word).to_owned()).collect()
        } else {
            generator.command()
        };
        t.resp3 = generator.chance(50);
        let own = t.run_args(&words);
        recent.push(format!("{words:?}"));
        if let Some((two, three)) = &mut peers {
            let theirs = if t.resp3 { three.ask(&words) } else { two.ask(&words) };
            let (own, theirs) = (comparable(&words, &own), comparable(&words, &theirs));
            let begin = recent.len().saturating_sub(400);
            assert_eq!(own, theirs, "command {number}: {words:?}\n{}", recent[begin..].join("\n"));
        }
        if number % 100 == 0 {
            check_index(&mut t);
        }
    }
}
