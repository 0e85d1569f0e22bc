//! A data set, the stream of commands that changes it, and an observer's knowledge of both.

use std::collections::{BTreeMap, HashMap, VecDeque};

use martlet_replication::history::History;

/// A command of the stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The write of this number.
    Write(usize),
    Ping,
    /// REPLCONF GETACK.
    Ask,
}

/// A command with its end in the stream.
#[derive(Copy, Clone, Debug)]
pub(super) struct Entry {
    pub end: u64,
    pub command: Command,
}

impl Command {
    /// Its length in the stream.
    pub fn bytes(self) -> u64 {
        match self {
            Command::Write(number) => 30 + number as u64 % 40,
            Command::Ping => 14,
            Command::Ask => 37,
        }
    }
}

/// A data set, with the writes that it is made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub writes: Vec<usize>,
    pub values: BTreeMap<u64, usize>,
    /// Identifies the whole history up to here.
    sum: u64,
}

impl Data {
    pub fn apply(&mut self, command: Command, truth: &Truth) {
        let tag = match command {
            Command::Write(number) => {
                self.writes.push(number);
                self.values.insert(truth.writes[number].key, number);
                number as u64 + 2
            }
            Command::Ping => 0,
            Command::Ask => 1,
        };
        self.sum = (self.sum ^ tag).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.sum ^= self.sum >> 29;
    }
}

/// The kept part of the stream.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pub begin: u64,
    pub end: u64,
    entries: VecDeque<Entry>,
}

/// Bytes that are kept.
const BACKLOG_BYTES: u64 = 6_000;

impl Backlog {
    /// Nothing, at this offset.
    pub fn at(offset: u64) -> Backlog {
        Backlog { begin: offset, end: offset, entries: VecDeque::new() }
    }

    pub fn append(&mut self, command: Command) {
        self.end += command.bytes();
        self.entries.push_back(Entry { end: self.end, command });
        while self.end - self.begin > BACKLOG_BYTES
            && let Some(entry) = self.entries.pop_front()
        {
            self.begin = entry.end;
        }
    }

    /// What ends in these bytes.
    pub fn between(&self, from: u64, to: u64) -> Vec<Entry> {
        self.entries.iter().filter(|entry| entry.end > from && entry.end <= to).copied().collect()
    }
}

/// A write that a client asked for.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub key: u64,
    pub asked_ms: i64,
    pub acked_ms: Option<i64>,
    /// A bit for each server that has ever had it.
    pub had_by: u64,
}

/// A read that was answered, of data that enough replicas had.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub key: u64,
    pub found: Option<usize>,
    pub asked_ms: i64,
}

/// Facts that no participant of the simulation knows.
#[derive(Default)]
pub(super) struct Truth {
    pub writes: Vec<Write>,
    pub reads: Vec<Read>,
    /// The state that an id and an offset name.
    names: HashMap<(String, u64), u64>,
    pub violation: Option<String>,
}

impl Truth {
    /// A server is in this state, which its history names.
    pub fn note_name(&mut self, who: &str, history: &History, offset: u64, data: &Data) {
        let known = *self.names.entry((history.id().to_owned(), offset)).or_insert(data.sum);
        if known != data.sum {
            self.violate(format!("{}:{offset} is two states, one of them that of {who}", history.id()));
        }
    }

    /// A server has this write.
    pub fn note_had(&mut self, server: usize, write: usize) {
        self.writes[write].had_by |= 1 << server;
    }

    pub fn violate(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    /// How many servers beside this one have had a write.
    pub fn copies(&self, write: usize, primary: usize) -> usize {
        (self.writes[write].had_by & !(1 << primary)).count_ones() as usize
    }

    /// Acknowledged writes that a data set lacks.
    pub fn lost(&self, data: &Data) -> Vec<usize> {
        let has: std::collections::HashSet<usize> = data.writes.iter().copied().collect();
        let acked = (0..self.writes.len()).filter(|number| self.writes[*number].acked_ms.is_some());
        acked.filter(|number| !has.contains(number)).collect()
    }

    /// Reads that were answered with older data than what had been acknowledged before they were asked for,
    /// by the order of a data set; an error if a read was of a write that is not there, or if writes to one
    /// key are in an order that their clients' clocks exclude.
    pub fn stale(&self, data: &Data) -> Result<u64, String> {
        let place: HashMap<usize, usize> =
            data.writes.iter().enumerate().map(|(at, number)| (*number, at)).collect();
        // Per key, the latest that anything up to here was asked for.
        let mut asked: HashMap<u64, i64> = HashMap::new();
        for number in &data.writes {
            let Write { key, asked_ms, acked_ms, .. } = self.writes[*number];
            let latest = asked.entry(key).or_insert(asked_ms);
            if acked_ms.is_some_and(|acked_ms| acked_ms < *latest) {
                return Err(format!("write {number} comes after one that was asked for when it was done"));
            }
            *latest = asked_ms.max(*latest);
        }
        let mut stale = 0;
        for read in &self.reads {
            let found = match read.found {
                None => None,
                Some(number) => match place.get(&number) {
                    Some(at) => Some(*at),
                    None => return Err(format!("write {number} was read and is lost")),
                },
            };
            let later = &data.writes[found.map_or(0, |at| at + 1)..];
            let is_missed = |number: &usize| {
                let write = &self.writes[*number];
                write.key == read.key && write.acked_ms.is_some_and(|acked_ms| acked_ms < read.asked_ms)
            };
            stale += u64::from(later.iter().any(is_missed));
        }
        Ok(stale)
    }
}
