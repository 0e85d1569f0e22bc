//! `martlet bench persistence`: the cost of each way to persist for a server that writes, and its time to
//! come back.
//!
//! Each row is a separate server, started with an empty directory, written to, stopped and started again.
//! Invariant: a row's directory is removed with it, and a server that cannot be started, or comes back with
//! other keys than it had, ends the run.

use crate::cli::options::Settings;
use crate::control::{Control, info_field, reply_text};
use crate::interrupt::interruption;
use crate::job::Job;
use crate::live::Line;
use crate::plan::Target;
use crate::process::process_bytes;
use crate::servers::{Directory, Started, await_end, free_port, launch};
use crate::{errln, outln};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HELP: &str = "\
Usage: martlet bench persistence [OPTIONS] [SERVER...]

Writes to a server under each way to persist, then stops it and measures how long it takes to come back.
SERVER is a command line, such as 'redis-server' or 'martlet server --io-threads 1'; several are measured in turn
for each row. Without one, this program's own server is measured.

  -n N           Writes per row (default 400000): keys of 20 bytes, values of 1 byte
  -c N           Connections (default 50)
  -P N           Pipeline of the rows that have one (default 1000)
  --dir PATH     Where the servers' directories are made (default: the system's place for temporary files)
  --only TEXT    Only rows whose name contains this
  --json FILE    Writes the rows there as well
  --help         This text";

/// The place where a mode keeps the writes.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    Nowhere,
    /// In an RDB file, which SHUTDOWN saves.
    Snapshot,
    AppendOnlyFile,
    /// By a second server of the same command line.
    Replica,
}

/// A way to persist.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    kept: Kept,
    options: &'static [&'static str],
}

const MODES: [Mode; 6] = [
    Mode { name: "none", kept: Kept::Nowhere, options: &NO_FILE },
    Mode {
        name: "RDB rules",
        kept: Kept::Snapshot,
        options: &["--save", "900 1 300 10 60 10000", "--appendonly", "no"],
    },
    Mode {
        name: "one replica",
        kept: Kept::Replica,
        options: &["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"],
    },
    append_only("AOF no", &["--save", "", "--appendonly", "yes", "--appendfsync", "no"]),
    append_only("AOF everysec", &["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]),
    append_only("AOF always", &["--save", "", "--appendonly", "yes", "--appendfsync", "always"]),
];

const NO_FILE: [&str; 4] = ["--save", "", "--appendonly", "no"];

const fn append_only(name: &'static str, options: &'static [&'static str]) -> Mode {
    Mode { name, kept: Kept::AppendOnlyFile, options }
}

/// The measurements of a row.
#[derive(Debug, Serialize)]
struct Row {
    server: String,
    mode: &'static str,
    pipeline: usize,
    writes: u64,
    seconds: f64,
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Server CPU per write.
    server_us: f64,
    /// The most that was resident, bytes.
    peak_bytes: u64,
    /// INFO's `latest_fork_usec`.
    fork_us: u64,
    /// Keys at the end.
    keys: u64,
    /// From the start of the process until it serves them again, or from the end of the primary until its
    /// replica, promoted, does; none where nothing is kept.
    recovery_s: Option<f64>,
}

struct Options {
    servers: Vec<String>,
    writes: u64,
    clients: usize,
    pipeline: usize,
    directory: PathBuf,
    only: String,
    json: Option<PathBuf>,
}

fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options {
        servers: Vec::new(),
        writes: 400_000,
        clients: 50,
        pipeline: 1000,
        directory: std::env::temp_dir(),
        only: String::new(),
        json: None,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        let number = |text: &String| match text.parse::<u64>() {
            Ok(number @ 1..) => Ok(number),
            _ => Err(format!("{argument}: '{text}' is not a number above 0")),
        };
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "-n" => options.writes = number(value()?)?,
            "-c" => options.clients = number(value()?)? as usize,
            "-P" => options.pipeline = number(value()?)? as usize,
            "--dir" => options.directory = value()?.into(),
            "--only" => options.only = value()?.clone(),
            "--json" => options.json = Some(value()?.into()),
            other if other.starts_with('-') => return Err(format!("unknown option '{other}'")),
            server => options.servers.push(server.to_owned()),
        }
    }
    Ok(Some(options))
}

/// Runs the matrix; gives the exit code.
pub fn main(arguments: &[String]) -> i32 {
    let result = match parse(arguments) {
        Ok(None) => {
            outln!("{HELP}");
            Ok(())
        }
        Ok(Some(options)) => run(&options),
        Err(error) => Err(format!("{error}\n\n{HELP}")),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let servers = match options.servers.as_slice() {
        [] => vec![format!("{} server", own.display())],
        some => some.to_vec(),
    };
    outln!(
        "{:<22} {:<14} {:>6} {:>9} {:>11} {:>9} {:>9} {:>10} {:>9} {:>8} {:>10}",
        "server",
        "mode",
        "P",
        "seconds",
        "writes/s",
        "p50 ms",
        "p99 ms",
        "server us",
        "peak MB",
        "fork us",
        "recovery s"
    );
    let mut rows = Vec::new();
    for pipeline in [1, options.pipeline] {
        for mode in MODES {
            if !mode.name.contains(&options.only) {
                continue;
            }
            for server in &servers {
                let row = measure(options, server, mode, pipeline)?;
                outln!("{}", text(&row));
                rows.push(row);
            }
        }
    }
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(&rows).map_err(|e| e.to_string())?;
        std::fs::write(path, json + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn text(row: &Row) -> String {
    let name = row.server.rsplit('/').next().unwrap_or(&row.server);
    let recovery = row.recovery_s.map_or("-".into(), |seconds| format!("{seconds:.3}"));
    format!(
        "{:<22.22} {:<14} {:>6} {:>9.3} {:>11.0} {:>9.3} {:>9.3} {:>10.2} {:>9.1} {:>8} {:>10}",
        name,
        row.mode,
        row.pipeline,
        row.seconds,
        row.rate,
        row.p50_ms,
        row.p99_ms,
        row.server_us,
        row.peak_bytes as f64 / 1e6,
        row.fork_us,
        recovery
    )
}

/// The number that a command answers.
fn number(control: &mut Control, command: &[&str]) -> Result<u64, String> {
    let reply = control.command(command).map_err(|e| e.to_string())?;
    reply
        .integer()
        .map(|value| value as u64)
        .ok_or_else(|| format!("{}: {}", command.join(" "), reply_text(&reply)))
}

fn measure(options: &Options, server: &str, mode: Mode, pipeline: usize) -> Result<Row, String> {
    let port = free_port()?;
    let directory = Directory::create(&options.directory, port)?;
    let started = launch(server, mode.options, &directory, port)?;
    let replica = (mode.kept == Kept::Replica).then(|| Replica::of(options, server, port)).transpose()?;
    let mut settings = Settings { port, pipeline, clients: options.clients, ..Settings::default() };
    settings.requests = Some(options.writes);
    // Such a key has 14 bytes.
    settings.templates = vec![format!("SET bench:{{key sequence {}}} x", options.writes).into_bytes()];
    let job = Job::new(&settings)?;
    let plan = job.plan(&job.target)?;
    let measured = job.measure(&plan, &mut Line::new(mode.name, &plan))?;
    if let Some(reason) = measured.result.partial {
        return Err(format!("{server}, {}: PARTIAL RESULT: {reason}", mode.name));
    }
    let pid = crate::cost::Meter::new(&job.target, None).pid();
    let mut control = crate::cli::target::control(&job.target)?;
    let info = control.text(&["INFO"]).map_err(|e| e.to_string())?.unwrap_or_default();
    let keys = number(&mut control, &["DBSIZE"])?;
    let all = measured.result.all_latencies();
    let cost = measured.cost.unwrap_or_default();
    let mut row = Row {
        server: server.to_owned(),
        mode: mode.name,
        pipeline,
        writes: measured.result.requests(),
        seconds: measured.result.elapsed.as_secs_f64(),
        rate: measured.result.rate(),
        p50_ms: all.percentile_ms(50.0),
        p99_ms: all.percentile_ms(99.0),
        server_us: cost.user_us + cost.system_us,
        peak_bytes: pid.map_or(0, |pid| process_bytes(pid, "VmHWM:")),
        fork_us: info_field(&info, "latest_fork_usec").and_then(|text| text.parse().ok()).unwrap_or(0),
        keys,
        recovery_s: None,
    };
    if mode.kept == Kept::Nowhere {
        return Ok(row);
    }
    if mode.kept == Kept::Replica && number(&mut control, &["WAIT", "1", "60000"])? != 1 {
        return Err(format!("{server}: its replica does not have all writes after a minute"));
    }
    let how = if mode.kept == Kept::Snapshot { "SAVE" } else { "NOSAVE" };
    // It answers with the end of the connection.
    let _ = control.command(&["SHUTDOWN", how]);
    await_end(port)?;
    drop(started);
    row.recovery_s = Some(match replica {
        Some(replica) => replica.promote(server, keys)?,
        None => recover(server, mode.options, &directory, &job, port, keys)?,
    });
    Ok(row)
}

/// A replica that has all of its primary's data.
struct Replica {
    target: Target,
    _started: Started,
    _directory: Directory,
}

impl Replica {
    fn of(options: &Options, server: &str, primary: u16) -> Result<Replica, String> {
        let port = free_port()?;
        let directory = Directory::create(&options.directory, port)?;
        let primary = format!("127.0.0.1 {primary}");
        let words = [&NO_FILE[..], &["--replicaof", &primary]].concat();
        let started = launch(server, &words, &directory, port)?;
        let target = Job::new(&Settings { port, ..Settings::default() })?.target;
        let replica = Replica { target, _started: started, _directory: directory };
        replica.until("has no link to its primary", |control| {
            let info = control.text(&["INFO", "replication"]).map_err(|e| e.to_string())?;
            Ok(info_field(&info.unwrap_or_default(), "master_link_status") == Some("up"))
        })?;
        Ok(replica)
    }

    /// Makes it a primary; seconds until it serves all keys.
    fn promote(self, server: &str, keys: u64) -> Result<f64, String> {
        let began = Instant::now();
        let mut control = crate::cli::target::control(&self.target)?;
        control.command(&["REPLICAOF", "NO", "ONE"]).map_err(|e| e.to_string())?;
        match number(&mut control, &["DBSIZE"])? {
            found if found == keys => Ok(began.elapsed().as_secs_f64()),
            found => Err(format!("the replica of {server} has {found} keys instead of {keys}")),
        }
    }

    fn until(&self, not: &str, holds: impl Fn(&mut Control) -> Result<bool, String>) -> Result<(), String> {
        let limit = Instant::now() + Duration::from_secs(120);
        while !crate::cli::target::control(&self.target).and_then(|mut control| holds(&mut control))? {
            if Instant::now() > limit {
                return Err(format!("the replica {not} after two minutes"));
            }
            interruption().map_or(Ok(()), Err)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Starts the server again; seconds until it serves all its keys.
fn recover(
    server: &str,
    options: &[&str],
    directory: &Directory,
    job: &Job,
    port: u16,
    keys: u64,
) -> Result<f64, String> {
    let began = Instant::now();
    let _started = launch(server, options, directory, port)?;
    let limit = began + Duration::from_secs(600);
    loop {
        // A server that loads may refuse every command.
        let found = crate::cli::target::control(&job.target)
            .and_then(|mut control| number(&mut control, &["DBSIZE"]));
        match found {
            Ok(found) if found == keys => return Ok(began.elapsed().as_secs_f64()),
            Ok(found) => return Err(format!("{server} came back with {found} keys instead of {keys}")),
            Err(error) if Instant::now() > limit || interruption().is_some() => {
                return Err(format!("{server}: {error}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let parse = |line: &str| parse(&line.split(' ').map(String::from).collect::<Vec<_>>());
        let options = parse("-n 5 -c 2 redis-server --only AOF").unwrap().unwrap();
        assert_eq!((options.writes, options.clients, options.pipeline), (5, 2, 1000));
        assert_eq!((options.servers, options.only.as_str()), (vec!["redis-server".to_string()], "AOF"));
        assert!(parse("--help").unwrap().is_none());
        for (line, error) in [
            ("-n 0", "-n: '0' is not a number above 0"),
            ("-n", "-n needs a value"),
            ("--nope", "unknown option '--nope'"),
        ] {
            assert_eq!(parse(line).err().unwrap(), error);
        }
    }
}
