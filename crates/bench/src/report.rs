//! Reports: text, JSON, CSV, HdrHistogram's distribution file and one HTML page; merging of several.
//! The JSON form holds everything, histograms included, so that every other form is made from it.

pub mod comparison;
pub mod html;
mod merge;

use crate::cli::classic;
use crate::cli::options::Settings;
use crate::cost::Cost;
use crate::engine::SecondRow;
use crate::environment::{Environment, without_passwords};
use crate::job::Measured;
use crate::latency::Latencies;
use crate::plan::{Pacing, Plan};
use crate::{errln, out};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

/// Version of the JSON schema, as `docs/bench.md` describes it.
pub const SCHEMA: u32 = 1;

/// One result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Version of the schema, [`SCHEMA`].
    pub schema: u32,
    /// The program that measured, and its version.
    pub tool: String,
    /// When the report was made, seconds since 1970.
    pub time_unix_s: u64,
    /// The machine and the server.
    pub environment: Environment,
    /// The command line, its passwords replaced.
    pub command_line: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Connections over all threads.
    pub connections: usize,
    /// Threads of the load.
    pub threads: usize,
    /// Requests in flight per connection.
    pub pipeline: usize,
    /// Requests per second that were asked for, in open loop; a replay's is its capture's mean.
    pub asked_rate: Option<f64>,
    /// The requests were a capture's; in open loop they were due when they are in it.
    #[serde(default)]
    pub replay: bool,
    /// `io_uring` or `epoll`.
    pub io: String,
    /// Measured time, seconds.
    pub elapsed_s: f64,
    /// Requests answered.
    pub requests: u64,
    /// Error replies.
    pub errors: u64,
    /// Requests answered after the end of the measured time: in the latencies, in no rate.
    #[serde(default)]
    pub late: u64,
    /// Requests without a reply when the run ended.
    pub lost: u64,
    /// Connections that broke during the run.
    pub disconnects: u64,
    /// Replies that named another node of a cluster.
    #[serde(default)]
    pub redirects: u64,
    /// Requests per second that were answered within the measured time.
    pub rate: f64,
    /// Why the run ended early.
    pub partial: Option<String>,
    /// What limits the meaning of the figures.
    pub warning: Option<String>,
    /// The server's cost of a request.
    pub cost: Option<Cost>,
    /// Figures per command.
    pub commands: Vec<CommandReport>,
    /// Figures per second and command.
    pub seconds: Vec<SecondRow>,
    /// Texts of error replies, with their numbers.
    pub error_texts: Vec<(String, u64)>,
    /// The comparison with a second server.
    #[serde(default)]
    pub comparison: Option<comparison::Comparison>,
    /// The points of a sweep or search.
    #[serde(default)]
    pub sweep: Vec<Point>,
    /// The findings of a check under load.
    #[serde(default)]
    pub check: Option<Check>,
}

/// One point of a sweep.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Requests answered per second.
    pub rate: f64,
    /// Median latency, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of latency, milliseconds.
    pub p99_ms: f64,
    /// Server CPU, microseconds per request; 0 when unknown.
    pub cpu_us: f64,
}

impl Point {
    /// The heading of the table of points with this parameter.
    pub fn heading(name: &str) -> String {
        let name = if name == "rate" { "asked" } else { name };
        format!("{name:>12} {:>12} {:>9} {:>9} {:>12}", "requests/s", "p50 ms", "p99 ms", "server us/req")
    }

    /// Its line there.
    pub fn line(&self) -> String {
        let Point { value, rate, p50_ms, p99_ms, cpu_us, .. } = self;
        format!("{value:>12.0} {rate:>12.0} {p50_ms:>9.3} {p99_ms:>9.3} {cpu_us:>12.2}")
    }
}

/// The findings of a check under load: `--verify` or `--hot-key`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Check {
    /// `verify` or `hot-key`.
    pub kind: String,
    /// Replies that were compared; for the hot key, increments that were answered.
    pub expected: u64,
    /// Correct replies; for the hot key, the growth of its value.
    pub found: i64,
    /// The first reply that was not.
    pub first_wrong: Option<String>,
    /// The result in words.
    #[serde(default)]
    pub verdict: String,
}

impl Check {
    /// Whether everything was as it must be.
    pub fn is_right(&self) -> bool {
        i64::try_from(self.expected) == Ok(self.found)
    }

    /// The verdict, and the first reply that was wrong, as lines.
    pub fn text(&self) -> String {
        let mut out = match self.verdict.is_empty() {
            true => format!("{}: {} expected, {} found\n", self.kind, self.expected, self.found),
            false => format!("{}\n", self.verdict),
        };
        if let Some(first) = &self.first_wrong {
            let _ = writeln!(out, "first wrong reply: {first}");
        }
        out
    }
}

/// One command's figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CommandReport {
    /// Its name.
    pub name: String,
    /// Requests answered.
    pub requests: u64,
    /// Error replies.
    pub errors: u64,
    /// Null replies.
    pub nulls: u64,
    /// Requests answered after the end of the measured time.
    #[serde(default)]
    pub late: u64,
    /// Nanoseconds and number of requests, ascending.
    pub histogram: Vec<(u64, u64)>,
}

impl CommandReport {
    /// The histogram.
    pub fn latencies(&self) -> Latencies {
        Latencies::from_pairs(&self.histogram)
    }

    /// Requests per second that were answered within the measured time.
    fn rate(&self, elapsed_s: f64) -> f64 {
        self.requests.saturating_sub(self.late) as f64 / elapsed_s.max(1e-9)
    }
}

/// This program and its version.
pub fn tool() -> String {
    format!("martlet bench {}", env!("CARGO_PKG_VERSION"))
}

impl Report {
    /// The report of one run.
    pub fn of(plan: &Plan, measured: &Measured) -> Report {
        let result = &measured.result;
        let commands = result
            .commands
            .iter()
            .map(|c| CommandReport {
                name: c.name.clone(),
                requests: c.latencies.count(),
                errors: c.errors,
                nulls: c.nulls,
                late: c.late,
                histogram: c.latencies.pairs(),
            })
            .collect();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Report {
            schema: SCHEMA,
            tool: tool(),
            time_unix_s: now.as_secs(),
            environment: measured.environment.clone(),
            command_line: without_passwords(
                std::env::args_os().map(|word| word.to_string_lossy().into_owned()),
            ),
            seed: plan.seed,
            connections: plan.connections,
            threads: plan.threads.max(result.threads.len()),
            pipeline: plan.pipeline,
            asked_rate: match plan.pacing {
                Pacing::Open { rate, .. } => Some(rate),
                Pacing::Closed => None,
            },
            replay: plan.workload.replay.is_some(),
            io: result.io.into(),
            elapsed_s: result.elapsed.as_secs_f64(),
            requests: result.requests(),
            errors: result.errors(),
            late: result.late(),
            lost: result.lost,
            disconnects: result.disconnects,
            redirects: result.redirects,
            rate: result.rate(),
            partial: result.partial.clone(),
            warning: measured.warning.clone(),
            cost: measured.cost,
            commands,
            seconds: result.seconds.clone(),
            error_texts: result.error_texts.clone(),
            comparison: None,
            sweep: Vec::new(),
            check: None,
        }
    }

    /// One line per command, as redis-benchmark's `-q` or `--csv`.
    pub fn brief(&self, csv: bool) -> String {
        let mut out = if csv { format!("{}\n", classic::CSV_HEADER) } else { String::new() };
        for command in &self.commands {
            let l = command.latencies();
            let p = |percent| l.percentile_ms(percent);
            let rate = command.rate(self.elapsed_s);
            let latencies = [l.mean_ms(), l.min_ms(), p(50.0), p(95.0), p(99.0), l.max_ms()];
            out += &match csv {
                true => classic::csv_line(&command.name, rate, latencies),
                false => classic::quiet_line(&command.name, rate, p(50.0)),
            };
        }
        out
    }

    /// Latencies of all commands together.
    pub fn all_latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        for command in &self.commands {
            all.add(&command.latencies());
        }
        all
    }

    /// When requests were sent.
    fn pacing(&self) -> String {
        match (self.asked_rate, self.replay) {
            (Some(rate), false) => format!("open loop at {rate:.0} requests/s"),
            (Some(rate), true) => format!("open loop at the capture's instants (mean {rate:.0} requests/s)"),
            (None, false) => "closed loop".into(),
            (None, true) => "closed loop over a capture".into(),
        }
    }

    /// The text form.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{} connections, {} thread{}, pipeline {}, {:.2} s against {}\n{}",
            self.connections,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.pipeline,
            self.elapsed_s,
            self.environment.server,
            self.pacing(),
        );
        let _ = writeln!(
            out,
            "\n{:<13} {:>10} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
            "command", "requests/s", "avg ms", "p50", "p95", "p99", "p99.9", "max", "errors"
        );
        let mut row = |name: &str, rate: f64, l: &Latencies, errors: u64| {
            let p = |percent| milliseconds(l.percentile_ms(percent));
            let _ = writeln!(
                out,
                "{name:<13} {rate:>10.1} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {errors:>7}",
                milliseconds(l.mean_ms()),
                p(50.0),
                p(95.0),
                p(99.0),
                p(99.9),
                milliseconds(l.max_ms())
            );
        };
        for command in &self.commands {
            row(&command.name, command.rate(self.elapsed_s), &command.latencies(), command.errors);
        }
        if self.commands.len() > 1 {
            row("all", self.rate, &self.all_latencies(), self.errors);
        }
        self.text_cost(&mut out);
        if !self.partial_names_all_errors() {
            for (text, count) in &self.error_texts {
                let _ = writeln!(out, "error replies: {count} x {text}");
            }
        }
        if self.late > 0 {
            let late = self.late;
            let _ = writeln!(out, "late: {late} requests, answered after the end: in latencies, in no rate");
        }
        if self.lost > 0 {
            let _ = writeln!(out, "lost: {} requests had no reply when the run ended", self.lost);
        }
        if self.disconnects > 0 {
            let _ = writeln!(out, "disconnects: {}", self.disconnects);
        }
        if self.redirects > 0 {
            let _ = writeln!(out, "redirects: {} replies pointed to another node", self.redirects);
        }
        if let Some(warning) = &self.warning {
            let _ = writeln!(out, "WARNING: {warning}");
        }
        if let Some(reason) = &self.partial {
            let _ = writeln!(out, "PARTIAL RESULT: {reason}");
        }
        out
    }

    /// The text form with the comparison, the sweep and the check: everything that the page shows.
    pub fn whole_text(&self) -> String {
        let mut out = String::new();
        if let Some(comparison) = &self.comparison {
            out = format!("{}\nA alone, in the last pair:\n", comparison.text());
        }
        out += &self.text();
        let mut before = "";
        for point in &self.sweep {
            if point.name != before {
                let _ = write!(out, "\n{}\n", Point::heading(&point.name));
            }
            before = &point.name;
            let _ = writeln!(out, "{}", point.line());
        }
        out + &self.check.as_ref().map(Check::text).unwrap_or_default()
    }

    /// Whether the reason for being partial says all that there is to say about error replies.
    fn partial_names_all_errors(&self) -> bool {
        match (self.error_texts.as_slice(), &self.partial) {
            ([(text, _)], Some(reason)) => reason.contains(text),
            _ => false,
        }
    }

    fn text_cost(&self, out: &mut String) {
        let Some(cost) = self.cost else {
            let _ = writeln!(
                out,
                "\nserver cost: unknown (neither its process nor INFO could be read,\n\
                 {:13}or several clients shared it)",
                ""
            );
            return;
        };
        let _ = writeln!(
            out,
            "\nper request: server CPU {:.2} us (user {:.2}, system {:.2}),\n\
             {:13}client CPU {:.2} us, memory {:+.1} bytes,\n\
             {:13}{:.0} bytes sent, {:.0} received\n\
             server:      {:.2} cores, resident {:.1} MB (CPU from {})",
            cost.user_us + cost.system_us,
            cost.user_us,
            cost.system_us,
            "",
            cost.client_us,
            cost.memory_bytes,
            "",
            cost.sent_bytes,
            cost.received_bytes,
            cost.cores,
            cost.resident_bytes as f64 / 1e6,
            if cost.from_process { "its process" } else { "INFO" },
        );
    }

    /// The JSON form.
    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map_err(|e| e.to_string())
    }

    /// Seconds, then commands, as CSV.
    pub fn csv(&self) -> String {
        let mut out =
            String::from("kind,second,command,requests,errors,avg_ms,p50_ms,p95_ms,p99_ms,p999_ms,max_ms\n");
        for row in &self.seconds {
            let name = self.commands.get(row.command as usize).map_or("?", |c| c.name.as_str());
            let [p50, p95, p99, p999, max] = row.percentiles_ms;
            let _ = writeln!(
                out,
                "second,{},{},{},{},{:.6},{p50:.6},{p95:.6},{p99:.6},{p999:.6},{max:.6}",
                row.second,
                quoted(name),
                row.requests,
                row.errors,
                row.mean_ms
            );
        }
        for command in &self.commands {
            let l = command.latencies();
            let p = |percent| l.percentile_ms(percent);
            let _ = writeln!(
                out,
                "total,,{},{},{},{:.6},{:.6},{:.6},{:.6},{:.6},{:.6}",
                quoted(&command.name),
                command.requests,
                command.errors,
                l.mean_ms(),
                p(50.0),
                p(95.0),
                p(99.0),
                p(99.9),
                l.max_ms()
            );
        }
        if let Some(reason) = &self.partial {
            let _ = writeln!(out, "partial,,{},,,,,,,,", quoted(reason));
        }
        out
    }

    /// The distribution in HdrHistogram's text form, milliseconds.
    pub fn hgrm(&self) -> String {
        let all = self.all_latencies();
        let total = all.count();
        let mut out = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut cumulative = 0;
        for step in all.histogram().iter_quantiles(5) {
            cumulative += step.count_since_last_iteration();
            let quantile = step.quantile_iterated_to();
            let value = step.value_iterated_to() as f64 / 1e6;
            let _ = match quantile < 1.0 {
                true => writeln!(
                    out,
                    "{value:12.6} {quantile:2.12} {cumulative:10} {:14.2}",
                    1.0 / (1.0 - quantile)
                ),
                false => writeln!(out, "{value:12.6} {quantile:2.12} {cumulative:10}"),
            };
        }
        let _ =
            writeln!(out, "#[Mean    = {:12.6}, StdDeviation   = {:12.6}]", all.mean_ms(), all.stdev_ms());
        let _ = writeln!(out, "#[Max     = {:12.6}, Total count    = {total:12}]", all.max_ms());
        if let Some(reason) = &self.partial {
            let _ = writeln!(out, "#[Partial = {}]", reason.replace('\n', " "));
        }
        out
    }

    /// The page.
    pub fn html(&self) -> Result<String, String> {
        html::page(self)
    }

    /// Writes the files that the settings name.
    pub fn write_files(&self, settings: &Settings) -> Result<(), String> {
        let write = |path: &Option<std::path::PathBuf>, text: &dyn Fn() -> Result<String, String>| match path
        {
            None => Ok(()),
            Some(path) => std::fs::write(path, text()?).map_err(|e| format!("{}: {e}", path.display())),
        };
        write(&settings.json, &|| self.json())?;
        write(&settings.csv_file, &|| Ok(self.csv()))?;
        write(&settings.hgrm, &|| Ok(self.hgrm()))?;
        write(&settings.html, &|| self.html())
    }
}

/// Makes sure, before anything is measured, that the files that the settings name can be written. None is
/// left behind: a run that fails has no report.
pub fn check_files(settings: &Settings) -> Result<(), String> {
    for path in [&settings.json, &settings.csv_file, &settings.hgrm, &settings.html].into_iter().flatten() {
        check_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn check_file(path: &std::path::Path) -> std::io::Result<()> {
    match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::OpenOptions::new().append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Milliseconds in at most seven places, with as many digits as there is room for.
fn milliseconds(value: f64) -> String {
    match value {
        ..99.9995 => format!("{value:.3}"),
        ..999.995 => format!("{value:.2}"),
        ..9999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

const HELP: &str =
    "Usage: martlet bench report [--json FILE] [--html FILE] [--csv-file FILE] [--hgrm FILE] FILE…

Reads results written with --json, merges them into one and prints it; the options write other forms.
";

/// `martlet bench report`: renders and merges; gives the exit code.
pub fn main(arguments: &[OsString]) -> i32 {
    match render(arguments) {
        Ok(()) => 0,
        Err(error) => {
            errln!("{error}");
            1
        }
    }
}

fn render(arguments: &[OsString]) -> Result<(), String> {
    if arguments.is_empty() || arguments.iter().any(|a| a == "--help") {
        out!("{HELP}");
        return if arguments.is_empty() { Err("no file is named".into()) } else { Ok(()) };
    }
    let (mut settings, mut reports, mut rest) = (Settings::default(), Vec::new(), arguments.iter());
    let mut files: Vec<(String, &OsStr)> = Vec::new();
    while let Some(argument) = rest.next() {
        let mut file = || {
            rest.next().map(|f| Some(f.into())).ok_or_else(|| format!("{} needs a file", argument.display()))
        };
        match argument.to_string_lossy().as_ref() {
            "--json" => settings.json = file()?,
            "--html" => settings.html = file()?,
            "--csv-file" => settings.csv_file = file()?,
            "--hgrm" => settings.hgrm = file()?,
            option if option.starts_with("--") => {
                return Err(format!("Invalid option \"{option}\"\n\n{HELP}"));
            }
            path => {
                let text = std::fs::read_to_string(argument).map_err(|e| format!("{path}: {e}"))?;
                let report: Report = serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))?;
                if report.schema != SCHEMA {
                    return Err(format!("{path}: schema {} is not {SCHEMA}", report.schema));
                }
                // A run that counts twice would look like two load machines.
                if let Some((_, other)) = files.iter().find(|(known, _)| *known == text) {
                    return Err(format!("{} and {path} are the same run: give it once", other.display()));
                }
                files.push((text, argument));
                reports.push(report);
            }
        }
    }
    let merged = Report::merge(&reports)?;
    out!("{}", merged.whole_text());
    merged.write_files(&settings)
}

#[cfg(test)]
mod tests;
