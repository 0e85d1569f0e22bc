//! `./x hit-rates`: how often a read-through cache at its limit hits, by eviction policy.
//!
//! Real servers, a load from a seed, the same for each of them. A limit is set that a fifth of the keys fits
//! under; then each key that is wanted is read, and stored if it was not there. Hits count in the second
//! half. The servers' LRU clocks tell seconds, so a run must not be shorter than some of them.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_testkit::server::Server;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use xtask::run::{Outcome, in_root};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads under way at once.
const PIPELINE: u64 = 16;
/// Bytes of a value.
const VALUE: [u8; 64] = [b'v'; 64];
/// The exponent of the popularity.
const EXPONENT: f64 = 0.99;
/// Our policies; the peer has the first two.
const POLICIES: &[&str] = &["allkeys-lru", "allkeys-lfu", "allkeys-lrfu"];
const PEER_POLICIES: usize = 2;

/// The measurements to take.
#[derive(clap::Args)]
pub struct Options {
    /// Keys that are popular.
    #[arg(long, default_value_t = 50_000)]
    keys: u64,
    /// Requests of a run.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peer's program.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// The table is written here.
    #[arg(long, default_value_os_t = in_root("results/eviction.md"))]
    output: PathBuf,
}

/// The requested keys and their order.
#[derive(Copy, Clone, PartialEq)]
enum Trace {
    /// The same keys are popular all the time.
    Stationary,
    /// Of the most popular tenth, each key changes places with another, ten times in a run.
    Shifting,
    /// One request in five walks through eight times as many other keys.
    Scanned,
    /// A quarter of the time, only keys are wanted that are never wanted again.
    Bursts,
}

const TRACES: &[(Trace, &str)] = &[
    (Trace::Stationary, "Zipf 0.99"),
    (Trace::Shifting, "shifting Zipf"),
    (Trace::Scanned, "Zipf beside a scan"),
    (Trace::Bursts, "Zipf with bursts of one-time keys"),
];

/// A trace under way.
struct Popularity {
    trace: Trace,
    random: Random,
    /// The keys by their rank.
    ranked: Vec<u64>,
    /// How probable it is that a key of this rank, or one before it, is wanted.
    cumulative: Vec<f64>,
    requests: u64,
    done: u64,
    others: u64,
}

impl Popularity {
    fn new(trace: Trace, options: &Options) -> Popularity {
        let mut random = Random::seeded(17);
        let mut ranked: Vec<u64> = (0..options.keys).collect();
        for at in (1..ranked.len()).rev() {
            ranked.swap(at, random.below(at as u64 + 1) as usize);
        }
        let cumulative = cumulative(options.keys);
        Popularity { trace, random, ranked, cumulative, requests: options.requests, done: 0, others: 0 }
    }

    /// The next key, and whether its hits count.
    fn next(&mut self) -> (u64, bool) {
        let (keys, at) = (self.ranked.len() as u64, self.done);
        self.done += 1;
        let shift = (self.requests / 10).max(1);
        if self.trace == Trace::Shifting && at % shift == shift - 1 {
            for rank in 0..self.ranked.len() / 10 {
                self.ranked.swap(rank, self.random.below(keys) as usize);
            }
        }
        let burst = (self.requests / 40).max(1);
        let is_other = match self.trace {
            Trace::Stationary | Trace::Shifting => false,
            Trace::Scanned => at.is_multiple_of(5),
            Trace::Bursts => at / burst % 4 == 3,
        };
        if is_other {
            self.others += 1;
            let round = if self.trace == Trace::Scanned { 8 * keys } else { u64::MAX };
            return (keys + self.others % round, false);
        }
        let point = self.random.unit_f64();
        let rank = self.cumulative.partition_point(|below| *below < point).min(self.ranked.len() - 1);
        (self.ranked[rank], at >= self.requests / 2)
    }
}

fn cumulative(keys: u64) -> Vec<f64> {
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            total += (rank as f64).powf(-EXPONENT);
            total
        })
        .collect();
    sums.into_iter().map(|sum| sum / total).collect()
}

/// Measures and writes the table.
pub fn run(options: &Options) -> Outcome {
    let most = cumulative(options.keys);
    let mut servers: Vec<(&str, &Path, &str)> = Vec::new();
    servers.extend(POLICIES[..PEER_POLICIES].iter().map(|policy| ("redis-server", &*options.peer, *policy)));
    servers.extend(POLICIES.iter().map(|policy| ("martlet", &*options.ours, *policy)));
    let mut text = title(options);
    for (server, program, policy) in servers {
        write!(text, "| {server} | `{policy}` |")?;
        let mut kept = Vec::new();
        for (trace, name) in TRACES {
            let (rate, keys) = hit_rate(options, program, server == "martlet", policy, *trace)?;
            eprintln!("{server} {policy} {name}: {rate:.4}, {keys} keys");
            write!(text, " {:.1}", rate * 100.0)?;
            let at_best = most.get(keys as usize - 1).filter(|_| *trace == Trace::Stationary);
            if let Some(at_best) = at_best {
                write!(text, " (at best {:.1})", at_best * 100.0)?;
            }
            text.push_str(" |");
            kept.push(keys.to_string());
        }
        writeln!(text, " {} |", kept.join(", "))?;
    }
    std::fs::write(&options.output, text)?;
    Ok(())
}

fn title(options: &Options) -> String {
    let names: Vec<&str> = TRACES.iter().map(|(_, name)| *name).collect();
    format!(
        "# Hit rates of a read-through cache at its limit\n\nWritten by `./x hit-rates --keys {} --requests {}`: \
         64-byte values and a limit that about a fifth of the keys\nfits under. Hits of the second half of the \
         requests, in percent; requests of the scan and of one-time keys do not count.\nAt best: as much as the most \
         popular keys get, if the cache held them, and as many, all the time.\n\n| server | policy | {} | keys at \
         the end |\n|---|---|---|---|---|---|---|\n",
        options.keys,
        options.requests,
        names.join(" | "),
    )
}

/// The part of requests that hit, and how many keys there are at the end.
fn hit_rate(
    options: &Options,
    program: &Path,
    is_ours: bool,
    policy: &str,
    trace: Trace,
) -> Result<(f64, u64)> {
    let first: &[&str] = if is_ours { &["server", "--io-threads", "1"] } else { &[] };
    let server = Server::start(program, &[first, &["--maxmemory-policy", policy, "--save", ""]].concat())?;
    let mut client = Client::connect(server.address())?;
    limit_to_a_fifth(&mut client, options.keys / 5)?;
    let mut popularity = Popularity::new(trace, options);
    let (mut hits, mut counted) = (0u64, 0u64);
    for _ in 0..options.requests / PIPELINE {
        let wanted: Vec<(u64, bool)> = (0..PIPELINE).map(|_| popularity.next()).collect();
        for (key, _) in &wanted {
            client.send(&[b"GET", key_name(*key).as_bytes()])?;
        }
        let mut missed = Vec::new();
        for (key, counts) in wanted {
            let is_hit = client.read_reply()?.text().is_some();
            counted += u64::from(counts);
            hits += u64::from(counts && is_hit);
            if !is_hit {
                missed.push(key);
            }
        }
        for key in &missed {
            client.send(&[b"SET".as_slice(), key_name(*key).as_bytes(), &VALUE])?;
        }
        for _ in &missed {
            expect_ok(&client.read_reply()?)?;
        }
    }
    let keys = client.command(&["DBSIZE"])?.integer().filter(|keys| *keys > 0).ok_or("no keys are left")?;
    Ok((hits as f64 / counted.max(1) as f64, keys as u64))
}

fn key_name(key: u64) -> String {
    format!("key:{key:012}")
}

fn expect_ok(reply: &Reply) -> Result<()> {
    if reply.is_error() { Err(format!("{reply:?}").into()) } else { Ok(()) }
}

/// Sets the limit to the server's memory with this number of keys, and begins with none.
fn limit_to_a_fifth(client: &mut Client, keys: u64) -> Result<()> {
    for key in 0..keys {
        expect_ok(&client.command(&[b"SET".as_slice(), key_name(key).as_bytes(), &VALUE])?)?;
    }
    let info = client.command(&["INFO", "memory"])?;
    let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
    let used =
        info.lines().find_map(|line| line.strip_prefix("used_memory:")).ok_or("no used_memory in INFO")?;
    expect_ok(&client.command(&["FLUSHALL"])?)?;
    expect_ok(&client.command(&["CONFIG", "SET", "maxmemory", used.trim()])?)
}
