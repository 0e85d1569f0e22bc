//! Takes the readings of one row and appends them to the results.

use super::process::Measured;
use super::rows::{Fill, Kind, Row};
use martlet_client::blocking::Client;
use martlet_testkit::load::{Load, Template, Until};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use xtask::run::append_line;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Load before a reading that is not counted.
const WARM_UP: Duration = Duration::from_millis(200);
/// Pipeline of a fill, which has one connection, so that its requests are run in order.
const FILL_PIPELINE: u64 = 640;
/// Keys and span of the expiry row.
const EXPIRY_KEYS: u64 = 100_000;
const EXPIRY_SPAN: Duration = Duration::from_secs(60);
/// By how much a quick run shrinks its data sets.
const QUICK_DIVISOR: u64 = 100;

/// Settings that are the same for every row.
pub struct Setup {
    /// Our program.
    pub ours: PathBuf,
    /// The peer's.
    pub peer: PathBuf,
    /// The peer's for the rows of modules' commands.
    pub module_peer: PathBuf,
    /// Core of the servers.
    pub server_core: usize,
    /// Readings of each server.
    pub rounds: usize,
    /// Length of a reading.
    pub span: Duration,
    /// Small data sets.
    pub quick: bool,
    /// The file of readings.
    pub output: PathBuf,
}

/// One line of the results. `value` is nanoseconds of server CPU per request, bytes, entries or milliseconds,
/// as the row says.
#[derive(Serialize, Deserialize)]
pub struct Reading {
    /// Seconds since 1970, one for all readings of a row.
    pub run: u64,
    /// The row's name.
    pub row: String,
    /// `peer` or `ours`.
    pub server: String,
    /// From 0.
    pub round: usize,
    /// The measurement.
    pub value: f64,
    /// Requests answered in the reading.
    pub requests: u64,
    /// Its length in seconds.
    pub elapsed_s: f64,
    /// CPU time of the server by utime+stime, in nanoseconds.
    pub stat_cpu_ns: u64,
    /// Version of the server.
    pub version: String,
    /// Kernel and processor.
    pub machine: String,
    /// Not to be published.
    pub quick: bool,
}

/// The findings of a single reading.
#[derive(Default)]
struct Found {
    value: f64,
    requests: u64,
    elapsed_s: f64,
    stat_cpu_ns: u64,
}

/// Takes every reading of a row.
pub fn row(setup: &Setup, row: &Row) -> Result<()> {
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    eprintln!("{}: {}", row.name, row.template);
    if row.is_of_module
        && let Err(why) = check_module_peer(setup, row)
    {
        eprintln!("{}: left out: {why}; --module-peer names a server that has it", row.name);
        return Ok(());
    }
    if row.kind == Kind::Cpu || matches!(row.kind, Kind::ManyConnections(_)) {
        let servers = [start(setup, row, "peer")?, start(setup, row, "ours")?];
        for server in &servers {
            fill(setup, row, server)?;
        }
        let _subscribers = servers
            .iter()
            .map(|server| Subscribers::new(server, row.subscribers))
            .collect::<Result<Vec<_>>>()?;
        let _beside = servers.iter().map(|server| beside(setup, row, server)).collect::<Result<Vec<_>>>()?;
        for round in 0..setup.rounds {
            for server in &servers {
                let found = match row.kind {
                    Kind::ManyConnections(many) => many_connections(setup, row, server, many)?,
                    _ => cpu(setup, row, server, row.connections)?,
                };
                append(setup, row, server, run, round, &found)?;
            }
        }
        return Ok(());
    }
    let rounds = if row.kind.is_slow_log() { setup.rounds } else { 1 };
    for round in 0..rounds {
        for name in ["peer", "ours"] {
            let server = start(setup, row, name)?;
            let found = match row.kind {
                Kind::BytesPerKey(keys) | Kind::Memory(keys) => memory(setup, row, &server, keys)?,
                Kind::EmptyServer => empty_server(&server)?,
                Kind::IdleConnections(count) => idle_connections(setup, &server, count)?,
                Kind::SlowFill | Kind::SlowRequest => slow_log(setup, row, &server)?,
                Kind::ExpiryLag => expiry_lag(setup, &server)?,
                Kind::Cpu | Kind::ManyConnections(_) => Found::default(),
            };
            append(setup, row, &server, run, round, &found)?;
        }
    }
    Ok(())
}

/// Clients that read messages of `channel`, each with a thread, until they are dropped.
struct Subscribers(Vec<(TcpStream, JoinHandle<()>)>);

impl Subscribers {
    fn new(server: &Measured, count: usize) -> Result<Subscribers> {
        if count > 0 {
            // However far they fall behind, none is to be disconnected.
            server.client()?.command(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"])?;
        }
        let mut subscribers = Subscribers(Vec::new());
        for _ in 0..count {
            let mut client = server.client()?;
            client.command(&["SUBSCRIBE", "channel"])?;
            let mut stream = client.stream().try_clone()?;
            stream.set_read_timeout(None)?;
            let reader = stream.try_clone()?;
            let read = move || {
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            };
            subscribers.0.push((reader, std::thread::spawn(read)));
        }
        Ok(subscribers)
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        for (stream, thread) in self.0.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

/// Whether the peer of a row of a module's command knows that command.
fn check_module_peer(setup: &Setup, row: &Row) -> Result<()> {
    let command = row.template.split(' ').next().unwrap_or_default();
    let program = setup.module_peer.display();
    let server = start(setup, row, "peer").map_err(|why| format!("{program} does not start ({why})"))?;
    let known = server.client()?.command(&["COMMAND", "INFO", command])?;
    match known.items().and_then(|items| items.first()).is_some_and(|entry| entry.items().is_some()) {
        true => Ok(()),
        false => Err(format!("{program} has no {command}").into()),
    }
}

fn start(setup: &Setup, row: &Row, name: &'static str) -> Result<Measured> {
    if name == "peer" {
        let arguments = ["--io-threads", "1", "--appendonly", "no", "--maxclients", "20000"];
        let program = if row.is_of_module { &setup.module_peer } else { &setup.peer };
        return Measured::start(name, program, &arguments, setup.server_core);
    }
    let threads = row.threads.to_string();
    let arguments =
        ["server", "--io-threads", &threads, "--io-backend", row.backend, "--maxclients", "20000"];
    Measured::start(name, &setup.ours, &arguments, setup.server_core)
}

fn fill(setup: &Setup, row: &Row, server: &Measured) -> Result<()> {
    for fill in row.fill {
        let mut load = Load::connect(server.address(), 1, FILL_PIPELINE)?;
        send(setup, &mut load, fill)?;
    }
    Ok(())
}

/// The other clients of a row, connected as long as the value is kept.
fn beside(setup: &Setup, row: &Row, server: &Measured) -> Result<Option<Load>> {
    let Some(beside) = &row.beside else { return Ok(None) };
    let mut load = Load::connect(server.address(), beside.connections, 1)?;
    for requests in beside.sends {
        send(setup, &mut load, requests)?;
    }
    Ok(Some(load))
}

/// Sends what builds data, or a state of the clients.
fn send(setup: &Setup, load: &mut Load, fill: &Fill) -> Result<()> {
    let requests = if setup.quick { fill.requests.div_ceil(QUICK_DIVISOR) } else { fill.requests };
    let done = load.run(&mut Template::parse(fill.template, 1)?, Until::Requests(requests))?;
    if done.errors > 0 {
        return Err(
            format!("{}: {} of {} answered with errors", fill.template, done.errors, done.requests).into()
        );
    }
    Ok(())
}

fn cpu(setup: &Setup, row: &Row, server: &Measured, connections: usize) -> Result<Found> {
    if row.refill {
        server.client()?.command(&["FLUSHALL", "SYNC"])?;
        fill(setup, row, server)?;
    }
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let mut template = Template::parse(row.template, seed)?;
    let mut load = Load::connect(server.address(), connections, row.pipeline)?;
    load.run(&mut template, Until::Elapsed(WARM_UP.min(setup.span)))?;
    let before = server.cpu_time()?;
    let done = load.run(&mut template, Until::Elapsed(setup.span))?;
    let after = server.cpu_time()?;
    if done.errors > 0 {
        return Err(
            format!("{}: {} of {} answered with errors", row.template, done.errors, done.requests).into()
        );
    }
    Ok(Found {
        value: after.since(before) as f64 / done.requests.max(1) as f64,
        requests: done.requests,
        elapsed_s: done.elapsed.as_secs_f64(),
        stat_cpu_ns: after.stat_ns - before.stat_ns,
    })
}

/// CPU with 50 connections divided by CPU with many, each busy.
fn many_connections(setup: &Setup, row: &Row, server: &Measured, many: usize) -> Result<Found> {
    let few = cpu(setup, row, server, row.connections)?;
    let found = cpu(setup, row, server, many)?;
    Ok(Found { value: few.value / found.value, ..found })
}

/// Allocators give freed memory back after a while.
const SETTLING: Duration = Duration::from_secs(3);

fn memory(setup: &Setup, row: &Row, server: &Measured, keys: u64) -> Result<Found> {
    let before = server.resident_bytes()?;
    fill(setup, row, server)?;
    std::thread::sleep(SETTLING);
    let grown = server.resident_bytes()?.saturating_sub(before);
    let keys = if setup.quick { keys / QUICK_DIVISOR } else { keys };
    Ok(Found { value: grown as f64 / keys as f64, requests: keys, ..Found::default() })
}

fn empty_server(server: &Measured) -> Result<Found> {
    server.client()?.command(&["PING"])?;
    std::thread::sleep(SETTLING);
    Ok(Found { value: server.resident_bytes()? as f64, requests: 1, ..Found::default() })
}

fn idle_connections(setup: &Setup, server: &Measured, count: usize) -> Result<Found> {
    let count = if setup.quick { count / 10 } else { count };
    let mut clients: Vec<Client> = Vec::with_capacity(count);
    server.client()?.command(&["PING"])?;
    let before = server.resident_bytes()?;
    for _ in 0..count {
        let mut client = server.client()?;
        if client.command(&["PING"])?.is_error() {
            return Err("a connection was refused".into());
        }
        clients.push(client);
    }
    let grown = server.resident_bytes()?.saturating_sub(before);
    Ok(Found { value: grown as f64 / count as f64, requests: count as u64, ..Found::default() })
}

fn slow_log(setup: &Setup, row: &Row, server: &Measured) -> Result<Found> {
    let mut client = server.client()?;
    client.command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"])?;
    client.command(&["SLOWLOG", "RESET"])?;
    fill(setup, row, server)?;
    if row.kind == Kind::SlowRequest {
        client.command(&["SLOWLOG", "RESET"])?;
    }
    let words: Vec<&str> = row.template.split(' ').collect();
    let start = Instant::now();
    client.command(&words)?;
    let elapsed_s = start.elapsed().as_secs_f64();
    let entries = client.command(&["SLOWLOG", "LEN"])?.integer().ok_or("SLOWLOG LEN is no number")?;
    Ok(Found {
        value: entries as f64,
        requests: row.fill.iter().map(|fill| fill.requests).sum(),
        elapsed_s,
        ..Found::default()
    })
}

/// Sets keys that expire evenly over a span and watches `expired_keys` grow: how late is each?
fn expiry_lag(setup: &Setup, server: &Measured) -> Result<Found> {
    let (keys, span) =
        if setup.quick { (EXPIRY_KEYS / 20, EXPIRY_SPAN / 20) } else { (EXPIRY_KEYS, EXPIRY_SPAN) };
    let mut client = server.client()?;
    // The first key's time comes after the last was set.
    let first_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64 + 3_000;
    let due_ms = |key: u64| first_ms + key * span.as_millis() as u64 / keys;
    for key in 0..keys {
        client.send(&["SET", &format!("lag:{key}"), "v", "PXAT", &due_ms(key).to_string()])?;
        if key % 100 == 99 {
            for _ in 0..100 {
                client.read_reply()?;
            }
        }
    }
    let mut lags_ms: Vec<u64> = Vec::with_capacity(keys as usize);
    while (lags_ms.len() as u64) < keys {
        let expired = expired_keys(&mut client)?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        while (lags_ms.len() as u64) < expired.min(keys) {
            lags_ms.push(now_ms.saturating_sub(due_ms(lags_ms.len() as u64)));
        }
        if now_ms > due_ms(keys) + 60_000 {
            return Err(format!("only {expired} of {keys} keys have expired a minute after the last").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    lags_ms.sort_unstable();
    let p99 = lags_ms[lags_ms.len() * 99 / 100];
    Ok(Found { value: p99 as f64, requests: keys, elapsed_s: span.as_secs_f64(), ..Found::default() })
}

fn expired_keys(client: &mut Client) -> Result<u64> {
    let info = client.command(&["INFO", "stats"])?;
    let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
    let field =
        info.lines().find_map(|line| line.strip_prefix("expired_keys:")).ok_or("no expired_keys in INFO")?;
    Ok(field.trim().parse()?)
}

fn append(setup: &Setup, row: &Row, server: &Measured, run: u64, round: usize, found: &Found) -> Result<()> {
    let reading = Reading {
        run,
        row: row.name.into(),
        server: server.name.into(),
        round,
        value: found.value,
        requests: found.requests,
        elapsed_s: found.elapsed_s,
        stat_cpu_ns: found.stat_cpu_ns,
        version: version(server)?,
        machine: machine(),
        quick: setup.quick,
    };
    eprintln!("  {} {:.1}", server.name, found.value);
    append_line(&setup.output, &serde_json::to_string(&reading)?)
}

/// Name and version of a server.
pub fn version(server: &Measured) -> Result<String> {
    let info = server.client()?.command(&["INFO", "server"])?;
    let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_string);
    let martlet = field("martlet_version:").map(|version| format!("martlet {version}"));
    let redis = field("redis_version:").map(|version| format!("redis {version}"));
    Ok(martlet.or(redis).unwrap_or_default())
}

/// Kernel and processor.
pub fn machine() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    format!("{cores} × {}, Linux {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim())
}
