//! `./x persistence-cost`: the cost of saving and loading, Martlet against a peer, in one run.
//!
//! Four rows. `small-keys`: SAVE and the load at the start of many keys of 20 bytes with values of 1 byte, A
//! B A B. `bgsave`: memory, latency and the slow log during a save in the background under load, beside the
//! same load without one. `big-key`: the same for one key of each type with many members, which its own
//! readers wait for, then with a rewrite, and the time of its DEL; `big-list` and so on are one type each.
//! `always`: writes of 50 clients with `appendfsync always`, beside the disk's limit if only a file of groups
//! of 50 is written, and (`always-not`) the servers' rate without waiting for it. Every reading is a line of
//! `results/persistence.jsonl`.

use crate::cost::measure::{machine, version};
use crate::cost::process::{CpuTime, Measured};
use martlet_client::blocking::Client;
use martlet_testkit::load::{Load, Template, Until};
use serde::Serialize;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use xtask::run::{Outcome, append_line, built, in_root};

mod always;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The measurements to take.
#[derive(clap::Args)]
pub struct Options {
    /// Rows by name, separated by commas; all when absent: small-keys, bgsave, big-key (or big-string,
    /// big-list, big-set, big-hash, big-timed, big-zset), always.
    #[arg(long, default_value = "small-keys,bgsave,big-key,always")]
    rows: String,
    /// Readings of each server in `small-keys`, `bgsave` and `always`.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Keys of `small-keys` and `bgsave`, members of `big-key`, in thousands.
    #[arg(long)]
    thousands: Option<u64>,
    /// Requests per second of the load during a save.
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// Seconds of load.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Our program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peer's program.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// Where the readings are appended.
    #[arg(long, default_value_os_t = in_root("results/persistence.jsonl"))]
    output: PathBuf,
}

/// One line of the results; absent figures are not measured by the row.
#[derive(Serialize, Default)]
struct Reading {
    run: u64,
    row: String,
    server: String,
    round: usize,
    /// Keys or members.
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_s: Option<f64>,
    /// CPU time of the server in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_s: Option<f64>,
    /// Resident, without and at most with a save; a second process' private pages included.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<[u64; 2]>,
    /// 99.9th percentile and maximum of latency, without and with a save.
    #[serde(skip_serializing_if = "Option::is_none")]
    p999_ms: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<[f64; 2]>,
    /// The longest entry of the slow log, without and with.
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest_us: Option<[i64; 2]>,
    /// Entries of the slow log beyond 2 ms, without and with.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_2_ms: Option<[usize; 2]>,
    /// The longest time for which the save held a shard: as it passed, and of processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_hold_us: Option<[i64; 2]>,
    /// Requests in a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<usize>,
    /// What each synchronisation took longer than the disk needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    /// Writes per second; of `disk`, synchronisations.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    /// INFO's `latest_fork_usec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fork_us: Option<i64>,
    /// Runnable processes over a minute, before the reading: above the cores, others took part of the time.
    load_average: f64,
    version: String,
    machine: String,
}

struct Setup<'o> {
    options: &'o Options,
    run: u64,
    ours: PathBuf,
}

/// Measures the rows.
pub fn run(options: &Options) -> Outcome {
    let ours = built(&options.ours)?;
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let setup = Setup { options, run, ours };
    for row in options.rows.split(',') {
        match row {
            "small-keys" => small_keys(&setup)?,
            "bgsave" => bgsave(&setup)?,
            "big-key" => BIG.iter().try_for_each(|kind| big_key(&setup, kind))?,
            "always" => always::measure(&setup)?,
            _ => match BIG.iter().find(|kind| row.strip_prefix("big-") == Some(kind.name)) {
                Some(kind) => big_key(&setup, kind)?,
                None => return Err(format!("no row {row}").into()),
            },
        }
    }
    Ok(())
}

impl Setup<'_> {
    fn size(&self, usual: u64) -> u64 {
        self.options.thousands.map_or(usual, |thousands| thousands * 1000)
    }

    fn start(&self, name: &'static str, directory: &Path) -> Result<Measured> {
        self.start_with(name, directory, &["--save", "", "--appendonly", "no"])
    }

    fn start_with(&self, name: &'static str, directory: &Path, common: &[&str]) -> Result<Measured> {
        match name {
            "peer" => Measured::start_in(name, &self.options.peer, common, directory),
            _ => {
                let arguments = [&["server", "--io-threads", "2"], common].concat();
                Measured::start_in(name, &self.ours, &arguments, directory)
            }
        }
    }

    fn append(&self, server: &Measured, reading: Reading) -> Result<()> {
        self.append_of(server.name, version(server)?, reading)
    }

    fn append_of(&self, server: &str, version: String, reading: Reading) -> Result<()> {
        let (server, load_average, machine) = (server.into(), load_average(), machine());
        let reading = Reading { run: self.run, server, load_average, version, machine, ..reading };
        let line = serde_json::to_string(&reading)?;
        eprintln!("{line}");
        append_line(&self.options.output, &line)
    }
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn fill(server: &Measured, template: &str, requests: u64) -> Result<()> {
    let mut load = Load::connect(server.address(), 10, 64)?;
    let done = load.run(&mut Template::parse(template, 1)?, Until::Requests(requests))?;
    if done.errors > 0 {
        return Err(format!("{template}: {} of {} answered with errors", done.errors, done.requests).into());
    }
    Ok(())
}

fn small_keys(setup: &Setup<'_>) -> Result<()> {
    let size = setup.size(4_000_000);
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let mut servers = Vec::new();
    for (name, directory) in ["peer", "ours"].into_iter().zip(&directories) {
        let server = setup.start(name, directory.path())?;
        fill(&server, &format!("SET record{{key sequence {size}}} x"), size)?;
        servers.push(server);
    }
    for round in 0..setup.options.rounds {
        for server in &servers {
            let (began, before) = (Instant::now(), server.cpu_time()?);
            if server.client()?.command(&["SAVE"])?.is_error() {
                return Err("SAVE has failed".into());
            }
            let (wall_s, cpu_s) =
                (Some(began.elapsed().as_secs_f64()), Some(server.cpu_time()?.since(before) as f64 / 1e9));
            let row = "save".into();
            setup.append(server, Reading { row, round, size, wall_s, cpu_s, ..Reading::default() })?;
        }
    }
    drop(servers);
    for round in 0..setup.options.rounds {
        for (name, directory) in ["peer", "ours"].into_iter().zip(&directories) {
            let server = setup.start(name, directory.path())?;
            let cpu_s = Some(server.cpu_time()?.since(CpuTime::ZERO) as f64 / 1e9);
            let log = server.log();
            let seconds = log.lines().find_map(|line| line.split_once("DB loaded from disk: "));
            let wall_s = seconds.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            let row = "load".into();
            setup.append(&server, Reading { row, round, size, wall_s, cpu_s, ..Reading::default() })?;
        }
    }
    Ok(())
}

/// The findings of a span of load.
struct Span {
    p999_ms: f64,
    max_ms: f64,
    slowest_us: i64,
    over_2_ms: usize,
    resident_bytes: u64,
}

/// Work that begins in a span, and INFO's field that shows it under way.
type Work = (&'static str, &'static str);

const SAVE: Work = ("BGSAVE", "rdb_bgsave_in_progress:");
const REWRITE: Work = ("BGREWRITEAOF", "aof_rewrite_in_progress:");

/// Runs the load tester in open loop, with work in the background beginning in it if there is any.
fn span(setup: &Setup<'_>, server: &Measured, commands: &[String], work: Option<Work>) -> Result<Span> {
    let mut client = server.client()?;
    let setting = ["CONFIG", "SET", "slowlog-log-slower-than", "500", "slowlog-max-len", "100000"];
    for words in [setting.as_slice(), &["SLOWLOG", "RESET"]] {
        client.command(words)?;
    }
    let report = tempfile::NamedTempFile::new()?;
    let mut load = start_load(setup, server, commands, report.path())?;
    std::thread::sleep(Duration::from_secs(1));
    if let Some((command, _)) = work {
        client.command(&[command])?;
    }
    let mut resident_bytes = 0;
    while load.try_wait()?.is_none() {
        resident_bytes = resident_bytes.max(server.resident_with_children()?);
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some((_, field)) = work {
        while info(&mut client, field)? == 1 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let (p999_ms, max_ms) = latencies(&std::fs::read_to_string(report.path())?)?;
    let (slowest_us, over_2_ms) = slow_entries(&mut client)?;
    Ok(Span { p999_ms, max_ms, slowest_us, over_2_ms, resident_bytes })
}

fn start_load(setup: &Setup<'_>, server: &Measured, commands: &[String], report: &Path) -> Result<Child> {
    let mut command = Command::new(&setup.ours);
    command.args(["bench", "-p", &server.address().port().to_string(), "-c", "20"]);
    command.args(["--rate", &setup.options.rate.to_string()]);
    command.args(["--duration", &format!("{}s", setup.options.seconds), "--json"]).arg(report);
    command.args(commands.iter().flat_map(|text| ["--command", text]));
    Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
}

/// The 99.9th percentile and the maximum over all commands of a report, in milliseconds.
fn latencies(report: &str) -> Result<(f64, f64)> {
    let (high, max, _) = quantile(report, 1000)?;
    Ok((high, max))
}

/// All but one in `fold` requests of a report were answered within the first figure, all within the second,
/// in milliseconds; and how many there were.
fn quantile(report: &str, fold: u64) -> Result<(f64, f64, u64)> {
    let report: serde_json::Value = serde_json::from_str(report)?;
    let mut counts: Vec<(u64, u64)> = Vec::new();
    for command in report["commands"].as_array().ok_or("a report without commands")? {
        let pairs = command["histogram"].as_array().into_iter().flatten();
        counts.extend(pairs.filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?))));
    }
    counts.sort_unstable();
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut left = total - total / fold;
    let at = counts.iter().find(|(_, count)| {
        left = left.saturating_sub(*count);
        left == 0
    });
    let ms = |pair: Option<&(u64, u64)>| pair.map_or(0.0, |(ns, _)| *ns as f64 / 1e6);
    Ok((ms(at), ms(counts.last()), total))
}

fn info(client: &mut Client, field: &str) -> Result<i64> {
    let text = client.command(&["INFO", "everything"])?;
    let text = String::from_utf8_lossy(text.text().unwrap_or_default()).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(field)).ok_or("a field is missing in INFO")?;
    Ok(found.trim().parse()?)
}

/// The longest entry of the slow log but for what this asked for itself, and how many exceed 2 ms.
fn slow_entries(client: &mut Client) -> Result<(i64, usize)> {
    use martlet_client::resp::Reply;
    let Reply::Array(entries) = client.command(&["SLOWLOG", "GET", "-1"])? else { return Ok((0, 0)) };
    let asked: &[&[u8]] = &[b"BGSAVE", b"BGREWRITEAOF", b"INFO", b"SLOWLOG", b"CONFIG", b"PING"];
    let slow = entries.iter().filter_map(|entry| {
        let Reply::Array(fields) = entry else { return None };
        let Reply::Array(words) = fields.get(3)? else { return None };
        let name = words.first()?.text()?.to_ascii_uppercase();
        (!asked.contains(&name.as_slice())).then(|| fields.get(2)?.integer())?
    });
    let slow: Vec<i64> = slow.collect();
    Ok((slow.iter().copied().max().unwrap_or(0), slow.iter().filter(|&&us| us > 2000).count()))
}

/// The load without work in the background, then with it.
fn pair(
    setup: &Setup<'_>,
    server: &Measured,
    (row, round): (&str, usize),
    size: u64,
    commands: &[String],
    work: Work,
) -> Result<()> {
    std::thread::sleep(Duration::from_secs(2));
    let without = span(setup, server, commands, None)?;
    let with = span(setup, server, commands, Some(work))?;
    let mut client = server.client()?;
    let hold =
        ["rdb_longest_hold_usec:", "rdb_longest_hold_cpu_usec:"].map(|field| info(&mut client, field).ok());
    let reading = Reading {
        row: row.into(),
        round,
        size,
        over_2_ms: Some([without.over_2_ms, with.over_2_ms]),
        longest_hold_us: hold[0].zip(hold[1]).map(|(wall, cpu)| [wall, cpu]),
        resident_bytes: Some([without.resident_bytes, with.resident_bytes]),
        p999_ms: Some([without.p999_ms, with.p999_ms]),
        max_ms: Some([without.max_ms, with.max_ms]),
        slowest_us: Some([without.slowest_us, with.slowest_us]),
        fork_us: Some(info(&mut client, "latest_fork_usec:")?),
        ..Reading::default()
    };
    setup.append(server, reading)
}

fn bgsave(setup: &Setup<'_>) -> Result<()> {
    let size = setup.size(5_000_000);
    let commands =
        [format!("1:SET {{key uniform {size}}} {{value 64}}"), format!("1:GET {{key uniform {size}}}")];
    for name in ["peer", "ours"] {
        let directory = tempfile::tempdir()?;
        let server = setup.start(name, directory.path())?;
        fill(&server, &format!("SET {{key sequence {size}}} {{value 64}}"), size)?;
        for round in 0..setup.options.rounds {
            pair(setup, &server, ("bgsave", round), size, &commands, SAVE)?;
        }
    }
    Ok(())
}

/// A big key's type, and what fills it, asks for its length and changes it, each with the key `big` and `#`
/// members.
struct Big {
    name: &'static str,
    fills: &'static str,
    reads: &'static str,
    writes: &'static str,
    /// Requests that fill it, if not as many as it has members.
    requests: Option<u64>,
    /// The peer has it too.
    is_peers: bool,
}

const BIG: &[Big] = &[
    Big {
        requests: Some(1),
        ..big("string", "SETRANGE big # x", "STRLEN big", "SETRANGE big {rand 1000000} {value 8}")
    },
    big("list", "RPUSH big {value 8}", "LLEN big", "LSET big 0 {value 8}"),
    big("set", "SADD big {key sequence #}", "SCARD big", "SADD big {key uniform #}"),
    big("hash", "HSET big {key sequence #} {value 8}", "HLEN big", "HSET big {key uniform #} {value 8}"),
    Big {
        is_peers: false,
        ..big(
            "timed",
            "HSETEX big EX 100000 FIELDS 1 {key sequence #} {value 8}",
            "HLEN big",
            "HSETEX big EX 100000 FIELDS 1 {key uniform #} {value 8}",
        )
    },
    big(
        "zset",
        "ZADD big {rand 1000000} {key sequence #}",
        "ZCARD big",
        "ZADD big {rand 1000000} {key uniform #}",
    ),
];

const fn big(name: &'static str, fills: &'static str, reads: &'static str, writes: &'static str) -> Big {
    Big { name, fills, reads, writes, requests: None, is_peers: true }
}

fn big_key(setup: &Setup<'_>, kind: &Big) -> Result<()> {
    let size = setup.size(10_000_000);
    let with_size = |text: &str| text.replace('#', &size.to_string());
    for name in ["peer", "ours"].into_iter().filter(|name| kind.is_peers || *name == "ours") {
        let directory = tempfile::tempdir()?;
        let server = setup.start(name, directory.path())?;
        fill(&server, &with_size(kind.fills), kind.requests.unwrap_or(size))?;
        let commands = [format!("1:{}", kind.reads), format!("1:{}", with_size(kind.writes))];
        for (row, work) in [("big", SAVE), ("rewrite", REWRITE)] {
            pair(setup, &server, (&format!("{row}-{}", kind.name), 0), size, &commands, work)?;
        }
        let mut client = server.client()?;
        client.command(&["SLOWLOG", "RESET"])?;
        let began = Instant::now();
        client.command(&["DEL", "big"])?;
        let (row, wall_s) = (format!("del-{}", kind.name), Some(began.elapsed().as_secs_f64()));
        let slowest_us = Some([0, slow_entries(&mut client)?.0]);
        setup.append(&server, Reading { row, size, wall_s, slowest_us, ..Reading::default() })?;
    }
    Ok(())
}
