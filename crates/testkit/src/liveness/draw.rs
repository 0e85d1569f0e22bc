//! Requests drawn from a command's own grammar, and then bent: an argument at the end of its type, one too
//! few, one too many.

use martlet_base::random::Random;

use super::table::{Argument, Command, Kind};
use super::values::{self, Pools, once_in, pick};

/// Most that is repeated of an argument, but seldom.
const REPEATS: u64 = 4;
/// Words of a request, at most.
const WORDS_MAX: usize = 400;

/// A command that ends the process, stops it, or makes it unreachable, on purpose. Its bounds are here and
/// nowhere else.
enum Purpose {
    /// Must not be sent.
    Never,
    /// Leaves little to work on: most are not sent.
    Seldom,
    /// The argument at this place becomes one of these values.
    Bounded(usize, &'static [&'static str]),
    /// These values of the argument at this place must not be sent.
    NotWith(usize, &'static [&'static str]),
    /// From this place on the arguments are hosts and ports of loopback, so that no name is looked up.
    Loopback(usize),
}

const ON_PURPOSE: &[(&[&str], Purpose)] = &[
    (&["shutdown"], Purpose::Never),
    (&["flushall"], Purpose::Seldom),
    (&["flushdb"], Purpose::Seldom),
    (&["swapdb"], Purpose::Seldom),
    (&["cluster", "reset"], Purpose::Seldom),
    (&["function", "flush"], Purpose::Seldom),
    (&["debug", "segfault"], Purpose::Never),
    (&["debug", "assert"], Purpose::Never),
    (&["debug", "panic"], Purpose::Never),
    (&["debug", "panic-at"], Purpose::Never),
    (&["debug", "sleep"], Purpose::Bounded(2, &["0", "0.01", "-1", "x"])),
    (&["debug", "aof-flush-sleep"], Purpose::Bounded(2, &["0", "100", "-1", "x"])),
    (&["debug", "populate"], Purpose::Bounded(2, &["0", "100", "-1", "x"])),
    (&["debug", "stringmatch-len"], Purpose::Bounded(2, &["0", "1000", "-1"])),
    (&["client", "pause"], Purpose::Bounded(2, &["0", "1", "20", "-1", "x", "9223372036854775808"])),
    (&["wait"], Purpose::Bounded(2, &["1", "20", "-1", "x"])),
    (&["waitaof"], Purpose::Bounded(3, &["1", "20", "-1", "x"])),
    (&["config", "set"], Purpose::NotWith(2, UNREACHABLE)),
    (&["replicaof"], Purpose::Loopback(1)),
    (&["slaveof"], Purpose::Loopback(1)),
    (&["migrate"], Purpose::Loopback(1)),
    (&["cluster", "meet"], Purpose::Loopback(2)),
    (&["failover"], Purpose::Bounded(1, &["ABORT", "TIMEOUT", "FORCE", "TO"])),
];

/// Parameters that move the server's door, its files, or what bounds a request's memory.
const UNREACHABLE: &[&str] = &[
    "port",
    "bind",
    "tls-port",
    "unixsocket",
    "dir",
    "proto-max-bulk-len",
    "client-output-buffer-limit",
    "metrics-port",
    "metrics-bind",
    "maxclients",
    "requirepass",
    "logfile",
    "bind-source-addr",
    "cluster-port",
    "timeout",
    "maxmemory-clients",
];

fn words_begin(words: &[Vec<u8>], name: &[&str]) -> bool {
    words.len() >= name.len()
        && name.iter().zip(words).all(|(name, word)| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether a request may be sent; bounds it where it would stop the server on purpose.
pub fn bound(words: &mut [Vec<u8>], random: &mut Random) -> bool {
    for (name, purpose) in ON_PURPOSE {
        // A script's or a transaction's request may stand anywhere in its words.
        for at in 0..words.len() {
            let Some(words) = words.get_mut(at..).filter(|words| words_begin(words, name)) else { continue };
            let is_known =
                |word: &[u8], list: &[&str]| list.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()));
            match purpose {
                Purpose::Never => return false,
                Purpose::Seldom => {
                    if !once_in(random, 12) {
                        return false;
                    }
                }
                Purpose::Bounded(place, values) => {
                    if let Some(word) = words.get_mut(*place)
                        && !is_known(word, values)
                    {
                        *word = pick(random, values).as_bytes().to_vec();
                    }
                }
                Purpose::NotWith(place, values) => {
                    if words.iter().skip(*place).any(|word| is_known(word, values) || word.contains(&b'/')) {
                        return false;
                    }
                }
                Purpose::Loopback(place) => {
                    let values = ["127.0.0.1", "1", "0", "NO", "ONE"];
                    if let Some(word) = words.get_mut(*place)
                        && !is_known(word, &values)
                    {
                        *word = b"127.0.0.1".to_vec();
                    }
                    if let Some(word) = words.get_mut(place + 1)
                        && !is_known(word, &values)
                        && !values::EXTREMES.contains(&String::from_utf8_lossy(word).as_ref())
                    {
                        *word = b"1".to_vec();
                    }
                }
            }
        }
    }
    true
}

/// A request under construction.
struct Draft<'a> {
    words: Vec<Vec<u8>>,
    /// The place of the count of the arguments that follow.
    count_at: Option<usize>,
    group: &'a str,
}

/// Draws a request of a command.
pub fn request(pools: &Pools<'_>, random: &mut Random, command: &Command) -> Vec<Vec<u8>> {
    let words = command.words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut draft = Draft { words, count_at: None, group: &command.group };
    if command.arguments.is_empty() {
        draft.unspecified(pools, random, command.arity);
    } else {
        draft.sequence(pools, random, &command.arguments);
    }
    if words_begin(&draft.words, &["config", "set"]) {
        let (name, value) = pools.parameter(random);
        draft.words.truncate(2);
        draft.words.push(name);
        draft.words.push(if once_in(random, 2) { value } else { values::integer(random) });
    }
    let mut words = draft.words;
    if once_in(random, 4) {
        bend(pools, random, command, &mut words);
    }
    words.truncate(WORDS_MAX);
    words
}

impl Draft<'_> {
    /// Arguments in order; those that may be left out in any.
    fn sequence(&mut self, pools: &Pools<'_>, random: &mut Random, arguments: &[Argument]) {
        let mut order: Vec<&Argument> = arguments.iter().collect();
        if once_in(random, 6)
            && let Some(first) = order.iter().position(|argument| argument.is_optional)
        {
            let last = order.len() - 1;
            order.swap(first, first + random.below((last - first + 1) as u64) as usize);
        }
        for argument in order {
            if !argument.is_optional || random.below(5) < 2 {
                self.argument(pools, random, argument);
            }
        }
    }

    fn argument(&mut self, pools: &Pools<'_>, random: &mut Random, argument: &Argument) {
        let times = match argument.is_multiple {
            false => 1,
            true if once_in(random, 50) => 40,
            true => 1 + random.below(REPEATS),
        };
        if argument.is_multiple
            && let Some(at) = self.count_at.take()
        {
            self.words[at] = times.to_string().into_bytes();
        }
        for time in 0..times {
            if self.words.len() >= WORDS_MAX {
                return;
            }
            if let Some(token) = &argument.token
                && (time == 0 || argument.repeats_token)
            {
                self.words.push(token.as_bytes().to_vec());
            }
            self.value(pools, random, argument);
        }
    }

    fn value(&mut self, pools: &Pools<'_>, random: &mut Random, argument: &Argument) {
        let word = match &argument.kind {
            Kind::Word => return,
            Kind::OneOf(choices) if choices.is_empty() => return,
            Kind::OneOf(choices) => {
                let choice = &choices[random.below(choices.len() as u64) as usize];
                return self.argument(pools, random, choice);
            }
            Kind::Block(members) => return self.sequence(pools, random, members),
            Kind::Key => values::key(random, self.group),
            Kind::Integer if argument.name.starts_with("num") => {
                self.count_at = Some(self.words.len());
                b"1".to_vec()
            }
            Kind::Integer if argument.name.contains("slot") => random.below(16_400).to_string().into_bytes(),
            Kind::Integer => values::integer(random),
            Kind::Double => values::double(random),
            Kind::UnixTime => values::time(random),
            Kind::Pattern => values::pattern(random),
            Kind::Text => pools.text(random, &argument.name, self.group),
        };
        self.words.push(word);
    }

    /// Arguments of a command without a documented syntax.
    fn unspecified(&mut self, pools: &Pools<'_>, random: &mut Random, arity: i64) {
        let least = arity.unsigned_abs() as usize;
        let most = if arity < 0 { least + random.below(4) as usize } else { least };
        while self.words.len() < most {
            let word = any(pools, random, self.group);
            self.words.push(word);
        }
    }
}

/// An argument of any kind.
fn any(pools: &Pools<'_>, random: &mut Random, group: &str) -> Vec<u8> {
    match random.below(6) {
        0 => values::integer(random),
        1 => values::key(random, group),
        2 => values::extreme(random),
        3 => values::pattern(random),
        4 => pools.text(random, "", group),
        _ => values::double(random),
    }
}

/// Makes a request that fits its grammar one that may not.
fn bend(pools: &Pools<'_>, random: &mut Random, command: &Command, words: &mut Vec<Vec<u8>>) {
    let first = command.words.len();
    for _ in 0..=random.below(2) {
        let count = words.len() - first;
        let at = first + random.below(count.max(1) as u64) as usize;
        match random.below(6) {
            0 | 1 if count > 0 => words[at] = values::extreme(random),
            2 if count > 0 => drop(words.remove(at)),
            3 => words.insert(at.min(words.len()), any(pools, random, &command.group)),
            4 if count > 0 => words.push(words[at].clone()),
            5 if count > 0 => words[at] = values::pick(random, values::EXTREMES).as_bytes().to_vec(),
            _ => words.push(any(pools, random, &command.group)),
        }
    }
}
