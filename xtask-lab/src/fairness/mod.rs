//! `./x fairness`: how long polite clients wait while others take all that they can get.
//!
//! Polite clients send one GET at a time; beside them runs one kind of hog. Servers take turns in each row:
//! redis-server, and ours with each backend and several numbers of threads. All share the machine's cores
//! with the load, as they do where there are few, so the figures compare only within one run.

mod hogs;
mod polite;
mod table;

use hogs::{HOGS, Hog};
use martlet_client::blocking::Client;
use martlet_testkit::server::Server;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use xtask::run::{Outcome, built, in_root};

/// Where results are kept, without the ending.
const RESULTS: &str = "results/fairness";

/// The measurements to take and their length.
#[derive(clap::Args)]
pub struct Options {
    /// Rows by prefix of their names, separated by commas; all when absent.
    #[arg(long, default_value = "")]
    rows: String,
    /// Threads of our server, each number a column for each backend.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    threads: Vec<usize>,
    /// Rounds: in each, every server has its turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 0.7)]
    seconds: f64,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peer's program.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// Results are written here with the endings `.json` and `.md`.
    #[arg(long, default_value_os_t = in_root(RESULTS))]
    output: PathBuf,
}

/// Waits of one server's polite clients beside one hog.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct Reading {
    /// The hog.
    pub row: String,
    /// The server: the peer is `redis`.
    pub server: String,
    /// GETs of the polite clients, in all rounds.
    pub gets: usize,
    /// The wait that one GET in two, and in a hundred, exceeded, in microseconds.
    pub p50_us: u32,
    /// 99th percentile of the waits, microseconds.
    pub p99_us: u32,
    /// The longest wait of each round, in microseconds.
    pub longest_us: Vec<u32>,
    /// Commands that the server ran for the hog, each second.
    pub hog_commands_per_s: f64,
    /// TCP segments that had to be sent again, in all rounds: the machine's network queues were full.
    pub sent_again: u64,
}

/// A server that takes part.
struct Contestant {
    name: String,
    server: Server,
}

/// Measures and writes the results.
pub fn run(options: &Options) -> Outcome {
    crate::cost::process::raise_open_files();
    let contestants = start(options)?;
    let prefixes: Vec<&str> = options.rows.split(',').filter(|name| !name.is_empty()).collect();
    let mut readings = Vec::new();
    for hog in HOGS {
        if prefixes.is_empty() || prefixes.iter().any(|prefix| hog.name.starts_with(prefix)) {
            readings.extend(row(hog, &contestants, options)?);
        }
    }
    let page = table::page(&readings, options.rounds, options.seconds);
    println!("{page}");
    if let Some(folder) = options.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(options.output.with_extension("json"), serde_json::to_string_pretty(&readings)? + "\n")?;
    Ok(std::fs::write(options.output.with_extension("md"), page)?)
}

fn start(options: &Options) -> Result<Vec<Contestant>, Box<dyn Error>> {
    let ours = built(&options.ours)?;
    let peer = Server::start(&options.peer, &[] as &[&str])?;
    let mut all = vec![Contestant { name: table::PEER.into(), server: peer }];
    for backend in ["uring", "epoll"] {
        for threads in &options.threads {
            let threads = threads.to_string();
            let arguments = ["server", "--io-threads", &threads, "--io-backend", backend];
            let name = format!("{backend} {threads}");
            all.push(Contestant { name, server: Server::start(&ours, &arguments)? });
        }
    }
    Ok(all)
}

/// One row: each server's turn in each round.
fn row(hog: &Hog, contestants: &[Contestant], options: &Options) -> Result<Vec<Reading>, Box<dyn Error>> {
    let mut waits = vec![Vec::new(); contestants.len()];
    let mut readings: Vec<Reading> = contestants
        .iter()
        .map(|of| Reading { row: hog.name.into(), server: of.name.clone(), ..Reading::default() })
        .collect();
    for contestant in contestants {
        let mut client = Client::connect(contestant.server.address())?;
        client.command(&["FLUSHALL"])?;
        polite::prepare(&mut client)?;
        (hog.prepare)(&mut client)?;
    }
    let span = Duration::from_secs_f64(options.seconds);
    for _ in 0..options.rounds {
        for (at, contestant) in contestants.iter().enumerate() {
            let address = contestant.server.address();
            let mut client = Client::connect(address)?;
            let (before, began) = (commands(&mut client)?, Instant::now());
            let sent_again = retransmissions();
            let turn = hogs::beside(hog, address, || polite::waits_within(address, span))??;
            let ran = commands(&mut client)?.saturating_sub(before + turn.len() as u64);
            readings[at].sent_again += retransmissions().saturating_sub(sent_again);
            let per_s = ran as f64 / began.elapsed().as_secs_f64();
            readings[at].hog_commands_per_s += per_s / options.rounds as f64;
            readings[at].longest_us.push(turn.iter().max().copied().unwrap_or(u32::MAX));
            waits[at].extend(turn);
        }
    }
    for (reading, mut waits) in readings.iter_mut().zip(waits) {
        waits.sort_unstable();
        let share = |part: f64| waits.get((waits.len() as f64 * part) as usize).copied().unwrap_or(u32::MAX);
        (reading.gets, reading.p50_us, reading.p99_us) = (waits.len(), share(0.5), share(0.99));
        eprintln!(
            "{:16} {:12} {:>8} GETs, p50 {:>7} µs, p99 {:>8} µs, longest {:?} µs, hog {:>10.1}/s, {} sent again",
            reading.row,
            reading.server,
            reading.gets,
            reading.p50_us,
            reading.p99_us,
            reading.longest_us,
            reading.hog_commands_per_s,
            reading.sent_again
        );
    }
    Ok(readings)
}

/// TCP segments that the machine has sent again so far.
fn retransmissions() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split_whitespace());
    let Some((mut names, mut values)) = lines.next().zip(lines.next()) else { return 0 };
    let value = names.position(|name| name == "RetransSegs").and_then(|at| values.nth(at));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Commands that the server has run.
fn commands(client: &mut Client) -> Result<u64, Box<dyn Error>> {
    let info = client.command(&["INFO", "stats"])?;
    let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
    let count = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(count.ok_or("INFO without total_commands_processed")?.trim().parse()?)
}
