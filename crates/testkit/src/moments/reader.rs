//! What reads say: the replies of commands that report on all keys, in terms of a history's elements.

use std::collections::{HashMap, HashSet};
use std::io;

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

use super::stopwatch::Stopwatch;
use super::{DATABASES, Element, Elements, Read, Seen};

/// Keys that a call of SCAN is to visit, in an iteration.
const SCAN_COUNTS: [usize; 3] = [10, 100, 1_000];

/// The elements, and which names are whose.
pub(super) struct Index<'a> {
    elements: &'a [Element],
    of: HashMap<&'a [u8], usize>,
}

/// Which elements a list of names has.
#[derive(Default)]
struct Found {
    whole: Elements,
    some: Elements,
}

impl<'a> Index<'a> {
    pub fn new(elements: &'a [Element]) -> Index<'a> {
        let pairs = elements.iter().enumerate();
        let of = pairs
            .flat_map(|(at, element)| element.names.iter().map(move |name| (name.as_bytes(), at)))
            .collect();
        Index { elements, of }
    }

    fn find<'n>(&self, names: impl IntoIterator<Item = &'n [u8]>) -> Result<Found, String> {
        let mut counts = vec![0; self.elements.len()];
        for name in names {
            let unknown = || format!("{} is a key that nobody makes", String::from_utf8_lossy(name));
            counts[*self.of.get(name).ok_or_else(unknown)?] += 1;
        }
        let mut found = Found::default();
        for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            found.some |= 1 << at;
            found.whole |= Elements::from(count == self.elements[at].names.len()) << at;
        }
        Ok(found)
    }

    /// Elements whose names begin so.
    fn beginning_with(&self, prefix: &str) -> Elements {
        let fitting =
            self.elements.iter().enumerate().filter(|(_, element)| element.label.starts_with(prefix));
        fitting.fold(0, |all, (at, _)| all | 1 << at)
    }
}

/// A client that reads one database.
pub(super) struct Reader<'a> {
    index: &'a Index<'a>,
    clock: &'a Stopwatch,
    client: Client,
    db: usize,
    has_digests: bool,
    pub reads: Vec<Read>,
}

fn unexpected(reply: &Reply) -> io::Error {
    io::Error::other(format!("unexpected reply: {reply:?}"))
}

fn texts(reply: &Reply) -> io::Result<Vec<&[u8]>> {
    let items = reply.items().ok_or_else(|| unexpected(reply))?;
    items.iter().map(|item| item.text().ok_or_else(|| unexpected(item))).collect()
}

impl<'a> Reader<'a> {
    /// One of database `db`.
    pub fn new(
        index: &'a Index<'a>,
        clock: &'a Stopwatch,
        (mut client, db): (Client, usize),
        has_digests: bool,
    ) -> io::Result<Reader<'a>> {
        client.command(&["SELECT", &db.to_string()])?;
        Ok(Reader { index, clock, client, db, has_digests, reads: Vec::new() })
    }

    /// Sends a request, and notes what `says` has made of the reply.
    fn read(
        &mut self,
        line: &str,
        says: impl FnOnce(&Self, &Reply) -> io::Result<Seen>,
    ) -> io::Result<Reply> {
        let request: Vec<&str> = line.split(' ').collect();
        let began_ns = self.clock.now_ns();
        let reply = self.client.command(&request)?;
        let span = self.clock.span_since(began_ns);
        let seen = says(self, &reply)?;
        self.reads.push(Read { span, request: format!("db{} {line}", self.db), seen });
        Ok(reply)
    }

    /// One read of a random kind.
    pub fn read_any(&mut self, random: &mut Random) -> io::Result<()> {
        let db = self.db;
        match random.below(if self.has_digests { 11 } else { 10 }) {
            0 | 1 => self.read("DBSIZE", |_, reply| Ok(Seen::Count(db, number(reply)?))).map(drop),
            2 => self.read("RANDOMKEY", Self::random_key).map(drop),
            3 => self.keys(""),
            4 => {
                let labels = self.index.elements.iter().map(|element| element.label.as_str());
                let prefixes: Vec<String> = labels
                    .map(|label| label[..label.find([':', '-']).unwrap_or(label.len())].to_owned())
                    .collect();
                let prefix = &prefixes[random.below(prefixes.len() as u64) as usize];
                self.keys(prefix)
            }
            5 => self.read("INFO keyspace", |_, reply| Ok(Seen::Counts(keyspace(reply)?))).map(drop),
            6 => self.read("INFO keyspace keysizes", |_, reply| sizes(reply)).map(drop),
            7 => self.read("MEMORY STATS", |_, reply| Ok(Seen::Total(keys_count(reply)?))).map(drop),
            8 => self.read("SCAN 0 COUNT 1000000", Self::scanned_at_once).map(drop),
            9 => self.iterate(SCAN_COUNTS[random.below(SCAN_COUNTS.len() as u64) as usize]),
            _ => self.read("DEBUG DIGEST", |_, reply| digest(reply)).map(drop),
        }
    }

    fn random_key(&self, reply: &Reply) -> io::Result<Seen> {
        let name = match reply {
            Reply::NullBulk | Reply::Null => return Ok(Seen::Random(self.db, None)),
            reply => reply.text().ok_or_else(|| unexpected(reply))?,
        };
        Ok(match self.index.find([name]) {
            Ok(found) => Seen::Random(self.db, Some(found.some)),
            Err(why) => Seen::Impossible(why),
        })
    }

    fn keys(&mut self, prefix: &str) -> io::Result<()> {
        let says = |reader: &Self, reply: &Reply| {
            let asked = reader.index.beginning_with(prefix);
            Ok(reader.names(&texts(reply)?, asked))
        };
        self.read(&format!("KEYS {prefix}*"), says).map(drop)
    }

    fn scanned_at_once(&self, reply: &Reply) -> io::Result<Seen> {
        let (cursor, names) = call_of_scan(reply)?;
        if cursor != "0" {
            return Ok(Seen::Impossible(format!(
                "the cursor is {cursor}, though more than all keys were asked for"
            )));
        }
        Ok(self.names(&names, Elements::MAX))
    }

    fn names(&self, names: &[&[u8]], asked: Elements) -> Seen {
        let distinct: HashSet<&[u8]> = names.iter().copied().collect();
        if distinct.len() < names.len() {
            return Seen::Impossible(format!(
                "{} names, of which {} are distinct",
                names.len(),
                distinct.len()
            ));
        }
        match self.index.find(distinct) {
            Ok(Found { whole, some }) => Seen::Names { db: self.db, asked, whole, some },
            Err(why) => Seen::Impossible(why),
        }
    }

    /// A whole iteration, each call of which is a read, too.
    fn iterate(&mut self, count: usize) -> io::Result<()> {
        let (db, began_ns) = (self.db, self.clock.now_ns());
        let (mut cursor, mut all) = ("0".to_owned(), HashSet::new());
        loop {
            let says = |reader: &Self, reply: &Reply| {
                let found = reader.index.find(call_of_scan(reply)?.1);
                Ok(found.map_or_else(Seen::Impossible, |found| Seen::Among(db, found.some)))
            };
            let reply = self.read(&format!("SCAN {cursor} COUNT {count}"), says)?;
            let (next, names) = call_of_scan(&reply)?;
            all.extend(names.into_iter().map(<[u8]>::to_vec));
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        let found = self.index.find(all.iter().map(Vec::as_slice));
        let seen = match found {
            Ok(Found { whole, some }) => Seen::Iteration { db, whole, some },
            Err(why) => Seen::Impossible(why),
        };
        let request = format!("db{db} SCAN, all calls, COUNT {count}");
        self.reads.push(Read { span: self.clock.span_since(began_ns), request, seen });
        Ok(())
    }
}

fn number(reply: &Reply) -> io::Result<usize> {
    reply.integer().and_then(|number| usize::try_from(number).ok()).ok_or_else(|| unexpected(reply))
}

fn call_of_scan(reply: &Reply) -> io::Result<(String, Vec<&[u8]>)> {
    match reply.items() {
        Some([cursor, names]) => {
            let cursor = cursor.text().ok_or_else(|| unexpected(reply))?;
            Ok((String::from_utf8_lossy(cursor).into_owned(), texts(names)?))
        }
        _ => Err(unexpected(reply)),
    }
}

fn info(reply: &Reply) -> io::Result<String> {
    let text = reply.text().ok_or_else(|| unexpected(reply))?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Keys by database, of INFO's section Keyspace.
fn keyspace(reply: &Reply) -> io::Result<[usize; DATABASES]> {
    let text = info(reply)?;
    Ok(std::array::from_fn(|db| {
        let begin = format!("db{db}:keys=");
        let rest = text.lines().find_map(|line| line.strip_prefix(&begin));
        rest.and_then(|rest| rest.split(',').next()).and_then(|number| number.parse().ok()).unwrap_or(0)
    }))
}

/// The same, if the section Keysizes has as many.
fn sizes(reply: &Reply) -> io::Result<Seen> {
    let (keys, text) = (keyspace(reply)?, info(reply)?);
    let sized: [usize; DATABASES] = std::array::from_fn(|db| {
        let begin = format!("db{db}_distrib_");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&begin)?.split_once(':'));
        let bins = lines.flat_map(|(_, bins)| bins.split(',').filter_map(|bin| bin.split_once('=')));
        bins.filter_map(|(_, count)| count.parse::<usize>().ok()).sum()
    });
    if keys == sized {
        return Ok(Seen::Counts(keys));
    }
    Ok(Seen::Impossible(format!("the keyspace has {keys:?} keys, and sizes of {sized:?}")))
}

/// Keys of all databases, by MEMORY STATS.
fn keys_count(reply: &Reply) -> io::Result<usize> {
    let items = reply.items().ok_or_else(|| unexpected(reply))?;
    let pair = items.windows(2).find(|pair| pair[0].text() == Some(b"keys.count"));
    pair.map_or_else(|| Err(unexpected(reply)), |pair| number(&pair[1]))
}

/// A digest.
pub(super) fn digest(reply: &Reply) -> io::Result<Seen> {
    let text = reply.text().ok_or_else(|| unexpected(reply))?;
    Ok(Seen::Digest(String::from_utf8_lossy(text).into_owned()))
}
