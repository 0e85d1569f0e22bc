//! `./x bench-client`: the load tester's own cost of a request, A B A B in one run: redis-benchmark or
//! resp-benchmark, Martlet's with the same command line, and the kernel's share of it (`floor`) by read and
//! write and by io_uring. Clients run on one core, the server on the other. The figure is user and system
//! time of the client's process over its requests, start and end included. Every reading is a line of JSON
//! under `results/`.

pub mod floor;

use crate::cost::measure::{machine, version};
use crate::cost::process::Measured;
use crate::tools::{prepare_resp_benchmark, tools_environment};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use xtask::run::{Outcome, append_line, built, in_root, is_installed, text_of};

/// The measurements to take.
#[derive(clap::Args)]
pub struct Options {
    /// Rows by prefix of their names; all when absent.
    #[arg(long, default_value = "")]
    rows: String,
    /// Rounds of all clients in a row.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Our program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// Core of the server.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the clients.
    #[arg(long, default_value_t = 1)]
    load_core: usize,
    /// Where the readings are appended.
    #[arg(long, default_value_os_t = in_root("results/bench/client-cpu.jsonl"))]
    output: PathBuf,
    /// Only show the table of the readings already there.
    #[arg(long)]
    table: bool,
}

/// One comparison: `server` is `redis` or `martlet`; `line` is what both tools are given after the port.
struct Row {
    name: &'static str,
    server: &'static str,
    tool: &'static str,
    line: &'static [&'static str],
    pipeline: usize,
    requests: usize,
    /// Over a unix socket instead of TCP.
    unix: bool,
}

const fn classic(name: &'static str, server: &'static str, test: &'static str, pipeline: usize) -> Row {
    let line: &[&str] = match test.as_bytes() {
        b"set" => &["-t", "set", "-d", "64", "-r", "100000", "-q"],
        _ => &["-t", "get", "-d", "64", "-r", "100000", "-q"],
    };
    let requests = if pipeline == 1 { 150_000 } else { 1_500_000 };
    Row { name, server, tool: "redis-benchmark", line, pipeline, requests, unix: false }
}

const fn unix(name: &'static str, pipeline: usize) -> Row {
    Row { unix: true, ..classic(name, "redis", "set", pipeline) }
}

const SET: &[&str] = &["-c", "50", "--cores", "1", "SET {key uniform 100000} {value 64}"];
const GET: &[&str] = &["-c", "50", "--cores", "1", "GET {key uniform 100000}"];

const ROWS: &[Row] = &[
    classic("set-p1-redis", "redis", "set", 1),
    classic("get-p1-redis", "redis", "get", 1),
    classic("set-p16-redis", "redis", "set", 16),
    classic("get-p16-redis", "redis", "get", 16),
    unix("set-p1-unix", 1),
    unix("set-p16-unix", 16),
    classic("set-p1-martlet", "martlet", "set", 1),
    classic("get-p1-martlet", "martlet", "get", 1),
    classic("set-p16-martlet", "martlet", "set", 16),
    classic("get-p16-martlet", "martlet", "get", 16),
    Row {
        name: "resp-set-redis",
        server: "redis",
        tool: "resp-benchmark",
        line: SET,
        pipeline: 1,
        requests: 150_000,
        unix: false,
    },
    Row {
        name: "resp-get-redis",
        server: "redis",
        tool: "resp-benchmark",
        line: GET,
        pipeline: 1,
        requests: 150_000,
        unix: false,
    },
    Row {
        name: "resp-set-p16-redis",
        server: "redis",
        tool: "resp-benchmark",
        line: SET,
        pipeline: 16,
        requests: 1_000_000,
        unix: false,
    },
];

/// The kernel's share, by read and write and by io_uring.
const FLOORS: [&str; 2] = ["floor", "floor-io-uring"];
/// Name of the redis-server's other listener.
const UNIX_SOCKET: &str = "redis.sock";

/// One line of the results; times are microseconds of client CPU per request.
#[derive(Serialize, Deserialize)]
struct Reading {
    /// Seconds since 1970, one for all readings of a row.
    run: u64,
    row: String,
    client: String,
    round: usize,
    user_us: f64,
    system_us: f64,
    requests: usize,
    server: String,
    machine: String,
    command: String,
}

impl Reading {
    fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Measures, then prints the table of the last run of each row.
pub fn run(options: &Options) -> Outcome {
    if !options.table {
        let ours = built(&options.ours)?;
        for tool in ["redis-server", "redis-benchmark"] {
            if !is_installed(tool, "--version") {
                return Err(format!("{tool} is not installed").into());
            }
        }
        let resp = prepare_resp_benchmark()?;
        for row in ROWS.iter().filter(|row| row.name.starts_with(&options.rows)) {
            if resp || row.tool != "resp-benchmark" {
                measure(options, &ours, row)?;
            }
        }
    }
    print!("{}", table(&text_of(&options.output)?)?);
    Ok(())
}

fn measure(options: &Options, ours: &Path, row: &Row) -> Outcome {
    // Clients run in it, so that the name alone leads them to the socket.
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join(UNIX_SOCKET).to_string_lossy().into_owned();
    let server = match row.server {
        "redis" => Measured::start(
            "peer",
            Path::new("redis-server"),
            &["--appendonly", "no", "--unixsocket", &socket],
            options.server_core,
        )?,
        _ => Measured::start("ours", ours, &["server", "--io-threads", "1"], options.server_core)?,
    };
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (version, port) = (version(&server)?, server.address().port().to_string());
    let (requests, pipeline) = (row.requests.to_string(), row.pipeline.to_string());
    let target = if row.unix { UNIX_SOCKET } else { &port };
    let mut same = vec![if row.unix { "-s" } else { "-p" }, target, "-n", &requests, "-P", &pipeline];
    same.extend(row.line);
    let own = ours.to_string_lossy().into_owned();
    let myself = std::env::current_exe()?.to_string_lossy().into_owned();
    let resp = tools_environment().join("bin/resp-benchmark").to_string_lossy().into_owned();
    let mut clients: Vec<(&str, Vec<&str>)> = Vec::new();
    if row.tool == "resp-benchmark" {
        clients.push(("resp-benchmark", [&[resp.as_str()], &same[..]].concat()));
        clients.push(("martlet", [&[own.as_str(), "bench", "resp"], &same[..]].concat()));
    } else {
        clients.push(("redis-benchmark", [&["redis-benchmark"], &same[..]].concat()));
        clients.push(("martlet", [&[own.as_str(), "bench"], &same[..]].concat()));
        if row.name.starts_with("set") {
            let floor = vec![myself.as_str(), "bench-floor", target, &pipeline, &requests];
            clients.push((FLOORS[1], [&floor[..], &["--io-uring"]].concat()));
            clients.push((FLOORS[0], floor));
        }
    }
    for round in 0..options.rounds {
        for (client, line) in &clients {
            // resp-benchmark pins itself, and panics where it may not use every core.
            let core = (row.tool == "redis-benchmark").then_some(options.load_core);
            let (user_s, system_s) = cpu_of(line, core, directory.path())?;
            let per_request = |seconds: f64| seconds * 1e6 / row.requests as f64;
            let reading = Reading {
                run,
                row: row.name.into(),
                client: (*client).into(),
                round,
                user_us: per_request(user_s),
                system_us: per_request(system_s),
                requests: row.requests,
                server: version.clone(),
                machine: machine(),
                command: same.join(" "),
            };
            eprintln!("{} {client} {:.3} us", row.name, reading.total_us());
            append_line(&options.output, &serde_json::to_string(&reading)?)?;
        }
    }
    Ok(())
}

/// Runs a client in `directory` to its end, on `core` if one is given; gives its user and system seconds.
fn cpu_of(line: &[&str], core: Option<usize>, directory: &Path) -> Result<(f64, f64), Box<dyn Error>> {
    let before = children_cpu();
    let mut command = match core {
        Some(_) => Command::new("taskset"),
        None => Command::new("env"),
    };
    if let Some(core) = core {
        command.args(["-c", &core.to_string()]);
    }
    command.args(line).current_dir(directory).stdin(Stdio::null());
    let done = command.output()?;
    if !done.status.success() {
        return Err(format!("{}: {}", line.join(" "), String::from_utf8_lossy(&done.stderr)).into());
    }
    let after = children_cpu();
    Ok((after.0 - before.0, after.1 - before.1))
}

/// User and system seconds of all children that have ended.
fn children_cpu() -> (f64, f64) {
    // SAFETY: rusage is plain data, zeroes are valid; getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Medians of the last run of each row, and ours as a share of the other tool's. The kernel's share is the
/// lower of the two ways.
fn table(readings: &str) -> Result<String, Box<dyn Error>> {
    let readings: Vec<Reading> = readings.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut text = format!(
        "{:<20} {:>10} {:>10} {:>10} {:>8} {:>16} {:>12}\n",
        "row", "theirs us", "ours us", "kernel us", "ratio", "ratios of rounds", "kernel/theirs"
    );
    for row in ROWS {
        let of_row = || readings.iter().filter(|reading| reading.row == row.name);
        let Some(last) = of_row().map(|reading| reading.run).max() else { continue };
        let of = |client: &str| -> Vec<f64> {
            of_row().filter(|r| r.run == last && r.client == client).map(Reading::total_us).collect()
        };
        let (theirs, ours) = (of(row.tool), of("martlet"));
        let floor = FLOORS.iter().filter_map(|client| median(&of(client))).min_by(f64::total_cmp);
        let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios.first().copied().unwrap_or(0.0), ratios.last().copied().unwrap_or(0.0));
        let shown = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.2}"));
        text.push_str(&format!(
            "{:<20} {:>10} {:>10} {:>10} {:>8} {:>16} {:>12}\n",
            row.name,
            shown(median(&theirs)),
            shown(median(&ours)),
            shown(floor),
            shown(median(&ratios)),
            format!("{low:.2}-{high:.2}"),
            shown(floor.zip(median(&theirs)).map(|(floor, theirs)| floor / theirs)),
        ));
    }
    Ok(text)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_the_last_run_and_medians() {
        let reading = |run: u64, client: &str, us: f64| {
            let reading = Reading {
                run,
                row: "set-p1-redis".into(),
                client: client.into(),
                round: 0,
                user_us: us / 2.0,
                system_us: us / 2.0,
                requests: 1,
                server: String::new(),
                machine: String::new(),
                command: String::new(),
            };
            serde_json::to_string(&reading).expect("serializes")
        };
        let lines: Vec<String> = [
            (1, "martlet", 90.0),
            (2, "redis-benchmark", 10.0),
            (2, "redis-benchmark", 12.0),
            (2, "redis-benchmark", 40.0),
        ]
        .into_iter()
        .chain([
            (2, "martlet", 5.0),
            (2, "martlet", 6.0),
            (2, "martlet", 10.0),
            (2, "floor", 3.0),
            (2, "floor-io-uring", 4.0),
        ])
        .map(|(run, client, us)| reading(run, client, us))
        .collect();
        let table = table(&lines.join("\n")).expect("readable");
        let row: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(row, ["set-p1-redis", "12.00", "6.00", "3.00", "0.50", "0.25-0.50", "0.25"]);
    }
}
