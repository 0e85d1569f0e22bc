//! Comparison of two servers: A B A B in one run, per-pair ratios with confidence intervals, a verdict,
//! conditions. Every ratio is so turned that above 1 the first server, the one of -h and -p, is better.

use crate::engine::Silent;
use crate::own::{Job, Measured};
use crate::plan::{Plan, Target};
use crate::report::Report;
use crate::stats::{Ratio, ratio};
use martlet_client::address::Address;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One server's figures in one round.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    pub rate: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    /// Server CPU, microseconds per request; 0 when unknown.
    pub cpu_us: f64,
}

/// One round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pair {
    pub a: Figures,
    pub b: Figures,
}

/// A whole comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub a_name: String,
    pub b_name: String,
    pub pairs: Vec<Pair>,
    pub ratios: BTreeMap<String, Ratio>,
    pub verdict: String,
}

fn figures(measured: &Measured) -> Figures {
    let all = measured.result.all_latencies();
    Figures {
        rate: measured.result.rate(),
        p50_ms: all.percentile_ms(50.0),
        p99_ms: all.percentile_ms(99.0),
        p999_ms: all.percentile_ms(99.9),
        cpu_us: measured.cost.map_or(0.0, |c| c.user_us + c.system_us),
    }
}

type Read = fn(&Figures) -> f64;

/// Pairs of runs, unless `--rounds` says otherwise.
const DEFAULT_ROUNDS: usize = 5;
/// Names of ratios, what they compare, and whether less is better.
const RATIOS: [(&str, Read, bool); 5] = [
    ("throughput_ratio", |f| f.rate, false),
    ("p50_ratio", |f| f.p50_ms, true),
    ("p99_ratio", |f| f.p99_ms, true),
    ("p999_ratio", |f| f.p999_ms, true),
    ("cpu_ratio", |f| f.cpu_us, true),
];

impl Comparison {
    /// Computes ratios and verdict.
    pub fn new(a_name: String, b_name: String, pairs: Vec<Pair>, seed: u64) -> Comparison {
        let mut ratios = BTreeMap::new();
        for (name, read, less_is_better) in RATIOS {
            let values: Vec<(f64, f64)> = pairs
                .iter()
                .map(|p| if less_is_better { (read(&p.b), read(&p.a)) } else { (read(&p.a), read(&p.b)) })
                .collect();
            if let Some(r) = ratio(&values, seed) {
                ratios.insert(name.to_string(), r);
            }
        }
        let mut verdict = String::new();
        for (name, what) in [
            ("throughput_ratio", "throughput"),
            ("p99_ratio", "p99 latency"),
            ("cpu_ratio", "CPU per request"),
        ] {
            let Some(r) = ratios.get(name) else { continue };
            let text = match () {
                () if r.low > 1.0 => format!("{what}: A is better by {:.2}x", r.value),
                () if r.high < 1.0 => format!("{what}: B is better by {:.2}x", 1.0 / r.value),
                () => format!("{what}: no difference shown"),
            };
            let _ = write!(verdict, "{}{text}", if verdict.is_empty() { "" } else { "; " });
        }
        Comparison { a_name, b_name, pairs, ratios, verdict }
    }

    fn text(&self) -> String {
        let mut out = format!("A: {}\nB: {}\n\n", self.a_name, self.b_name);
        let _ = writeln!(
            out,
            "pair {:>12} {:>12} {:>9} {:>9} {:>9} {:>9}",
            "A requests/s", "B", "A p99 ms", "B", "A CPU us", "B"
        );
        for (n, p) in self.pairs.iter().enumerate() {
            let _ = writeln!(
                out,
                "{:>4} {:>12.0} {:>12.0} {:>9.3} {:>9.3} {:>9.2} {:>9.2}",
                n + 1,
                p.a.rate,
                p.b.rate,
                p.a.p99_ms,
                p.b.p99_ms,
                p.a.cpu_us,
                p.b.cpu_us
            );
        }
        let _ = writeln!(out, "\nratios, above 1: A is better (95 % interval)");
        for (name, r) in &self.ratios {
            let _ = writeln!(out, "{name:<18} {:.3} ({:.3} - {:.3})", r.value, r.low, r.high);
        }
        let _ = writeln!(out, "verdict: {}", self.verdict);
        out
    }
}

/// A condition such as `cpu_ratio>=1.4`, or `cpu_ratio.low>=1.2` on an end of the interval.
#[derive(Debug)]
struct Condition {
    name: String,
    end: String,
    operator: String,
    value: f64,
}

fn condition(text: &str) -> Result<Condition, String> {
    let bad = || format!("--require: '{text}' is not of the form 'cpu_ratio>=1.4'");
    let at = text.find(['<', '>']).ok_or_else(bad)?;
    let (name, rest) = text.split_at(at);
    let digits = rest.find(|c: char| c.is_ascii_digit() || c == '.').ok_or_else(bad)?;
    let (operator, value) = rest.split_at(digits);
    let (name, end) = name.trim().split_once('.').unwrap_or((name.trim(), "value"));
    if !RATIOS.iter().any(|r| r.0 == name) || !["value", "low", "high"].contains(&end) {
        return Err(format!(
            "--require: '{name}.{end}' is no ratio; there are {}",
            RATIOS.map(|r| r.0).join(", ")
        ));
    }
    let operator = operator.trim();
    if ![">=", ">", "<=", "<"].contains(&operator) {
        return Err(bad());
    }
    let value = value.trim().parse().map_err(|_| bad())?;
    Ok(Condition { name: name.into(), end: end.into(), operator: operator.into(), value })
}

impl Condition {
    fn holds(&self, comparison: &Comparison) -> bool {
        let Some(r) = comparison.ratios.get(&self.name) else { return false };
        let actual = match self.end.as_str() {
            "low" => r.low,
            "high" => r.high,
            _ => r.value,
        };
        match self.operator.as_str() {
            ">=" => actual >= self.value,
            ">" => actual > self.value,
            "<=" => actual <= self.value,
            _ => actual < self.value,
        }
    }
}

/// A server process that ends with this value.
pub struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // A server that is gone already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that is removed with this value.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Makes it inside of `parent`.
    pub fn create(parent: &Path, port: u16) -> Result<Directory, String> {
        let path = parent.join(format!("martlet-bench-{}-{port}", std::process::id()));
        std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind is in a place for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port of this machine that nobody listens on.
pub fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}

/// Starts a server and waits until it answers.
pub fn start(program: &std::ffi::OsStr, arguments: &[String], port: u16) -> Result<Started, String> {
    let shown = program.to_string_lossy().into_owned();
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("{shown}: {e}"))?;
    let mut started = Started(child);
    let limit = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Ok(Some(status)) = started.0.try_wait() {
            return Err(format!("{shown} ended at once: {status}"));
        }
        if Instant::now() > limit {
            return Err(format!("{shown} does not listen on port {port}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(started)
}

/// Parameters of the first server that a server started for the comparison gets, too. (`io-threads` means
/// another thing in each server, and Redis' spin: who wants them says so in the command.)
const SHARED_CONFIG: [&str; 5] = ["save", "appendonly", "appendfsync", "maxmemory", "maxmemory-policy"];

/// A server that was started for a comparison, and then its directory.
type OwnServer = (Started, Directory);

fn second(job: &Job) -> Result<(Target, Option<OwnServer>, String), String> {
    let mut target = job.target.clone();
    let (address, started, name) = match (&job.settings.vs, &job.settings.vs_start) {
        (Some(text), _) => {
            let (host, port) = text.rsplit_once(':').unwrap_or((text, "6379"));
            let port = port.parse().map_err(|_| format!("--vs: '{text}' is not HOST:PORT"))?;
            let host = if host.is_empty() { "127.0.0.1" } else { host };
            (Address::resolve(host, port).map_err(|e| format!("--vs: {text}: {e}"))?, None, text.clone())
        }
        (None, Some(line)) => {
            let mut words = line.split_whitespace().map(String::from);
            let program = words.next().ok_or("--vs-start names no program")?;
            let (port, mut arguments) = (free_port()?, words.collect::<Vec<_>>());
            arguments.extend(["--port".into(), port.to_string()]);
            let mut control = crate::cli::target::control(&job.target)?;
            for name in SHARED_CONFIG {
                if let Ok(Ok(value)) = control.config(name)
                    && !arguments.iter().any(|a| a.strip_prefix("--") == Some(name))
                {
                    arguments.extend([format!("--{name}"), value]);
                }
            }
            // What it writes, and what it finds when it starts, is nobody else's.
            let directory = Directory::create(&std::env::temp_dir(), port)?;
            if !arguments.iter().any(|a| a == "--dir") {
                arguments.extend(["--dir".into(), directory.0.display().to_string()]);
            }
            let started = (start(program.as_ref(), &arguments, port)?, directory);
            (Address::resolve("127.0.0.1", port).map_err(|e| e.to_string())?, Some(started), line.clone())
        }
        (None, None) => return Err("no second server is named".into()),
    };
    if let Some(node) = target.nodes.first_mut() {
        node.address = address;
    }
    target.nodes.truncate(1);
    Ok((target, started, name))
}

/// Runs the comparison; gives the exit code.
pub fn main(job: &Job) -> Result<i32, String> {
    let conditions = job.settings.require.iter().map(|t| condition(t)).collect::<Result<Vec<_>, _>>()?;
    let (other, _started, other_name) = second(job)?;
    let plans = [job.plan(&job.target)?, job.plan(&other)?];
    // Both are reachable before anything is loaded.
    for plan in &plans {
        crate::cli::target::control(&plan.target)?;
        job.load(&plan.target)?;
    }
    let Rounds { pairs, last, broken } = rounds(job, &plans)?;
    let a_name = job.target.nodes.first().map_or(String::new(), |n| n.address.to_string());
    let comparison = Comparison::new(a_name, other_name, pairs, job.settings.seed.unwrap_or(1));
    print!("{}", comparison.text());
    let mut code = i32::from(broken.is_some());
    for (text, condition) in job.settings.require.iter().zip(&conditions) {
        let holds = condition.holds(&comparison);
        println!("require {text}: {}", if holds { "holds" } else { "FAILS" });
        code |= i32::from(!holds);
    }
    if let Some(reason) = &broken {
        println!("PARTIAL RESULT: {reason}");
    }
    let [plan_a, _] = &plans;
    let mut report = Report::of(job, plan_a, &last);
    report.comparison = Some(comparison);
    report.partial = broken;
    report.write_files(&job.settings)?;
    Ok(code)
}

/// What the rounds gave until they ended.
struct Rounds {
    /// Whole pairs only.
    pairs: Vec<Pair>,
    /// The first server's last run.
    last: Measured,
    /// Why they ended early.
    broken: Option<String>,
}

/// Measures A B A B. What ends a round early ends all; an error means that not even the first run began.
fn rounds(job: &Job, [plan_a, plan_b]: &[Plan; 2]) -> Result<Rounds, String> {
    let mut rounds = Rounds { pairs: Vec::new(), last: job.measure(plan_a, &mut Silent)?, broken: None };
    for round in 0..job.settings.rounds.unwrap_or(DEFAULT_ROUNDS) {
        if round > 0 {
            match job.measure(plan_a, &mut Silent) {
                Ok(a) => rounds.last = a,
                Err(error) => rounds.broken = Some(error),
            }
        }
        rounds.broken = rounds.broken.or_else(|| rounds.last.result.partial.clone());
        let mut server = "A";
        if rounds.broken.is_none() {
            server = "B";
            match job.measure(plan_b, &mut Silent) {
                Ok(b) => {
                    if round == 0 {
                        warn("A", &rounds.last);
                        warn("B", &b);
                    }
                    rounds.broken = b.result.partial.clone();
                    if rounds.broken.is_none() {
                        rounds.pairs.push(Pair { a: figures(&rounds.last), b: figures(&b) });
                    }
                }
                Err(error) => rounds.broken = Some(error),
            }
        }
        if let Some(reason) = rounds.broken.take() {
            rounds.broken = Some(format!("pair {}, server {server}: {reason}", round + 1));
            break;
        }
    }
    Ok(rounds)
}

fn warn(server: &str, measured: &Measured) {
    if let Some(warning) = &measured.warning {
        eprintln!("WARNING ({server}): {warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(rate_a: f64, rate_b: f64) -> Vec<Pair> {
        let figures =
            |rate: f64| Figures { rate, p50_ms: 1.0, p99_ms: 2.0, p999_ms: 3.0, cpu_us: 1e6 / rate };
        (0..5)
            .map(|n| Pair { a: figures(rate_a + f64::from(n)), b: figures(rate_b + f64::from(n)) })
            .collect()
    }

    #[test]
    fn ratios_above_one_favour_the_first() {
        let c = Comparison::new("a".into(), "b".into(), pairs(2000.0, 1000.0), 3);
        assert!((c.ratios["throughput_ratio"].value - 2.0).abs() < 0.01);
        assert!((c.ratios["cpu_ratio"].value - 2.0).abs() < 0.01);
        assert!(c.verdict.contains("throughput: A is better by 2.00x"), "{}", c.verdict);
        assert!(condition("cpu_ratio>=1.4").expect("valid").holds(&c));
        assert!(!condition("throughput_ratio.low > 2.5").expect("valid").holds(&c));
        let same = Comparison::new("a".into(), "b".into(), pairs(1000.0, 1000.0), 3);
        assert!(same.verdict.contains("no difference"));
    }

    #[test]
    fn bad_conditions_are_named() {
        for text in ["cpu_ratio", "foo>=1", "cpu_ratio>=x", "cpu_ratio.mid>1", "cpu_ratio<>1"] {
            assert!(condition(text).expect_err(text).contains("--require"));
        }
    }
}
