//! Reports: text, JSON, CSV, HdrHistogram's distribution file and one HTML page; merging of several.
//! The JSON form holds everything, histograms included, so that every other form is made from it.

pub mod comparison;
pub mod html;

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

    /// The first part that belongs to one run alone and has no sum over several.
    fn of_one_run(&self) -> Option<&'static str> {
        let found = [
            (self.comparison.is_some(), "a comparison"),
            (!self.sweep.is_empty(), "a sweep"),
            (self.check.is_some(), "a check"),
        ];
        found.into_iter().find_map(|(holds, what)| holds.then_some(what))
    }

    /// One result of several that ran at the same time, as from several load machines.
    pub fn merge(reports: &[Report]) -> Result<Report, String> {
        let Some((first, rest)) = reports.split_first() else { return Err("no report to merge".into()) };
        if !rest.is_empty()
            && let Some((report, what)) =
                reports.iter().find_map(|report| Some((report, report.of_one_run()?)))
        {
            return Err(format!(
                "{what} is of one run alone, it cannot be merged: {}",
                report.command_line.join(" ")
            ));
        }
        let kind = |report: &Report| (report.asked_rate.is_some(), report.replay);
        if let Some(other) = rest.iter().find(|other| kind(other) != kind(first)) {
            return Err(format!(
                "latencies of {} and of {} are not the same thing, they cannot be merged: {}",
                first.pacing(),
                other.pacing(),
                other.command_line.join(" ")
            ));
        }
        let mut merged = first.clone();
        for other in rest {
            merged.command_line.push("+".into());
            merged.command_line.extend(other.command_line.iter().cloned());
            merged.connections += other.connections;
            merged.threads += other.threads;
            merged.elapsed_s = merged.elapsed_s.max(other.elapsed_s);
            merged.requests += other.requests;
            merged.errors += other.errors;
            merged.late += other.late;
            merged.lost += other.lost;
            merged.disconnects += other.disconnects;
            merged.redirects += other.redirects;
            merged.asked_rate = merged.asked_rate.zip(other.asked_rate).map(|(a, b)| a + b);
            merged.partial = merged.partial.take().or_else(|| other.partial.clone());
            merged.warning = merged.warning.take().or_else(|| other.warning.clone());
            for (text, count) in &other.error_texts {
                match merged.error_texts.iter_mut().find(|(known, _)| known == text) {
                    Some((_, known)) => *known += count,
                    None => merged.error_texts.push((text.clone(), *count)),
                }
            }
            // CPU of one server would be counted twice: with several clients the share of each is unknown.
            merged.cost = None;
            for command in &other.commands {
                merged.add_command(command);
            }
            merged.add_seconds(other);
        }
        merged.rate = merged.requests.saturating_sub(merged.late) as f64 / merged.elapsed_s.max(1e-9);
        merged.seconds.sort_by_key(|row| (row.second, row.command));
        Ok(merged)
    }

    fn add_command(&mut self, other: &CommandReport) {
        match self.commands.iter_mut().find(|c| c.name == other.name) {
            None => self.commands.push(other.clone()),
            Some(own) => {
                let mut latencies = own.latencies();
                latencies.add(&other.latencies());
                own.histogram = latencies.pairs();
                own.requests += other.requests;
                own.errors += other.errors;
                own.nulls += other.nulls;
                own.late += other.late;
            }
        }
    }

    /// Adds another's seconds: numbers add up; percentiles, whose histograms are gone, take the larger one.
    fn add_seconds(&mut self, other: &Report) {
        for row in &other.seconds {
            let Some(name) = other.commands.get(row.command as usize).map(|c| &c.name) else { continue };
            let Some(command) = self.commands.iter().position(|c| c.name == *name).map(|c| c as u32) else {
                continue;
            };
            match self.seconds.iter_mut().find(|r| r.second == row.second && r.command == command) {
                None => self.seconds.push(SecondRow { command, ..row.clone() }),
                Some(own) => {
                    let total = (own.requests + row.requests).max(1) as f64;
                    own.mean_ms =
                        (own.mean_ms * own.requests as f64 + row.mean_ms * row.requests as f64) / total;
                    own.requests += row.requests;
                    own.errors += row.errors;
                    for (own, other) in own.percentiles_ms.iter_mut().zip(row.percentiles_ms) {
                        *own = own.max(other);
                    }
                }
            }
        }
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
mod tests {
    use super::*;

    pub(super) fn sample(requests: u64) -> Report {
        let mut latencies = Latencies::new();
        (1..=requests).for_each(|n| latencies.record(n * 10_000, 1));
        let command = CommandReport {
            name: "GET".into(),
            requests,
            histogram: latencies.pairs(),
            ..Default::default()
        };
        let row = SecondRow {
            requests,
            mean_ms: 1.0,
            percentiles_ms: [1.0, 2.0, 3.0, 4.0, 5.0],
            ..Default::default()
        };
        Report {
            schema: SCHEMA,
            elapsed_s: 1.0,
            requests,
            rate: requests as f64,
            commands: vec![command],
            seconds: vec![row],
            ..Default::default()
        }
    }

    #[test]
    fn json_keeps_everything_and_merging_adds() {
        let one = sample(100);
        let copy: Report = serde_json::from_str(&one.json().expect("writes")).expect("reads");
        assert_eq!(copy.commands[0].histogram, one.commands[0].histogram);
        let merged = Report::merge(&[one, sample(300)]).expect("two");
        assert_eq!((merged.requests, merged.rate, merged.seconds[0].requests), (400, 400.0, 400));
        assert_eq!(merged.all_latencies().count(), 400);
    }

    #[test]
    fn late_replies_are_in_no_rate_of_any_form() {
        let late = |requests, late| {
            let mut report = sample(requests);
            (report.late, report.commands[0].late, report.rate) = (late, late, (requests - late) as f64);
            report
        };
        let merged = Report::merge(&[late(100, 25), late(300, 75)]).expect("two");
        assert_eq!((merged.requests, merged.late, merged.rate), (400, 100, 300.0));
        assert_eq!((merged.commands[0].late, merged.all_latencies().count()), (100, 400));
        let text = merged.text();
        assert!(text.contains("GET                300.0 "), "{text}");
        assert!(text.contains("late: 100 requests, answered after the end"), "{text}");
        assert!(
            merged.brief(false).starts_with("GET: 300.00 requests per second"),
            "{}",
            merged.brief(false)
        );
        // A file of an earlier version has no such field.
        let mut old = serde_json::to_value(sample(10)).expect("JSON");
        old.as_object_mut().expect("fields").remove("late");
        old["commands"][0].as_object_mut().expect("fields").remove("late");
        assert_eq!(serde_json::from_value::<Report>(old).map(|report| report.late).ok(), Some(0));
    }

    /// Of latencies from microseconds to an hour, beside rates of millions and a cost.
    #[test]
    fn the_text_fits_eighty_columns() {
        let mut report = sample(10);
        report.environment.server = "martlet 0.1.0".into();
        (report.connections, report.threads, report.lost, report.late) = (1000, 16, 1_000_000, 5);
        report.asked_rate = Some(50_000.0);
        let mut latencies = Latencies::new();
        (0..36u32).for_each(|n| latencies.record(100 * 2u64.pow(n), 1_000_000));
        report.commands = ["GET", "cart/2 HSET"]
            .map(|name| CommandReport {
                name: name.into(),
                requests: 3_000_000,
                errors: 1_234_567,
                histogram: latencies.pairs(),
                ..Default::default()
            })
            .into();
        for cost in
            [None, Some(Cost { user_us: 1234.5, system_us: 1234.5, client_us: 99.9, ..Cost::default() })]
        {
            report.cost = cost;
            let text = report.text();
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.contains("requests/s") && text.contains(" 1234567\n"), "{text}");
        }
        let forms = [0.0005, 99.999, 100.0, 999.99, 1000.0, 9999.9, 3_600_000.0].map(milliseconds);
        assert_eq!(forms, ["0.001", "99.999", "100.00", "999.99", "1000.0", "9999.9", "3600000"]);
    }

    /// The text shows the same parts as the page.
    #[test]
    fn a_report_as_text_has_comparison_sweep_and_check() {
        let figures = |rate| comparison::Figures { rate, p99_ms: 1.0, ..Default::default() };
        let pairs = vec![comparison::Pair { a: figures(2000.0), b: figures(1000.0) }; 3];
        let mut report = sample(10);
        let mut comparison = comparison::Comparison::new("one".into(), "two".into(), pairs);
        comparison.requirements = [("throughput_ratio>=9", false), ("throughput_ratio>1", true)]
            .map(|(condition, holds)| comparison::Requirement { condition: condition.into(), holds })
            .into();
        report.comparison = Some(comparison);
        report.sweep = [("pipeline", 8.0), ("pipeline", 16.0), ("rate", 500.0)]
            .map(|(name, value)| Point { name: name.into(), value, rate: 7.0 * value, ..Default::default() })
            .into();
        let verdict = "verified 5 writes and 6 reads over 2 connections in 1.0 s: 0 wrong";
        report.check = Some(Check {
            kind: "verify".into(),
            expected: 11,
            found: 11,
            verdict: verdict.into(),
            first_wrong: None,
        });
        // Read back from its file, as `martlet bench report` does.
        let report: Report = serde_json::from_str(&report.json().expect("writes")).expect("reads");
        let text = report.whole_text();
        for expected in [
            "A: one\nB: two\n",
            "throughput_ratio   2.000 (2.000 - 2.000)",
            "verdict: throughput: A is better by 2.00x",
            "require throughput_ratio>=9: FAILS",
            "require throughput_ratio>1: holds",
            "A alone, in the last pair:",
            "GET ",
            "    pipeline   requests/s",
            "          16          112",
            "       asked   requests/s",
            "         500         3500",
            verdict,
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let page = report.html().expect("renders");
        for expected in [verdict, "throughput_ratio>=9", "\"holds\":false"] {
            assert!(page.contains(expected), "{expected}");
        }
        // Of a file without words, the figures.
        let wordless = Check { kind: "hot-key".into(), expected: 5, found: 4, ..Check::default() };
        assert_eq!(wordless.text(), "hot-key: 5 expected, 4 found\n");
        let wrong = Check { first_wrong: Some("k: got x".into()), verdict: "1 wrong".into(), ..wordless };
        assert_eq!(wrong.text(), "1 wrong\nfirst wrong reply: k: got x\n");
    }

    /// A comparison that broke off after one pair has no interval; its file can be read again.
    #[test]
    fn one_pair_makes_no_verdict() {
        let figures = comparison::Figures { rate: 1.0, ..Default::default() };
        let pairs = vec![comparison::Pair { a: figures, b: figures }];
        let mut report = sample(10);
        report.comparison = Some(comparison::Comparison::new("a".into(), "b".into(), pairs));
        let report: Report = serde_json::from_str(&report.json().expect("writes")).expect("reads");
        let text = report.whole_text();
        assert!(text.contains("verdict: none: fewer than two pairs of runs were finished"), "{text}");
    }

    /// A run of `seconds` with one command, every second alike.
    fn run_of(seconds: u32, name: &str, per_second: u64, error: &str) -> Report {
        let mut report = sample(per_second * u64::from(seconds));
        report.elapsed_s = f64::from(seconds);
        report.commands[0].name = name.into();
        let row = SecondRow { requests: per_second, ..report.seconds[0].clone() };
        report.seconds = (0..seconds).map(|second| SecondRow { second, ..row.clone() }).collect();
        report.error_texts = vec![(error.into(), 1)];
        report
    }

    #[test]
    fn runs_of_different_lengths_merge() {
        let runs =
            [run_of(2, "GET", 50, "ERR a"), run_of(5, "SET", 10, "ERR b"), run_of(3, "GET", 100, "ERR a")];
        let merged = Report::merge(&runs).expect("three");
        assert_eq!((merged.elapsed_s, merged.requests, merged.rate), (5.0, 450, 90.0));
        let rows: Vec<_> = merged
            .seconds
            .iter()
            .map(|row| {
                let name = merged.commands[row.command as usize].name.as_str();
                (row.second, name, row.requests)
            })
            .collect();
        let expected = [
            (0, "GET", 150),
            (0, "SET", 10),
            (1, "GET", 150),
            (1, "SET", 10),
            (2, "GET", 100),
            (2, "SET", 10),
            (3, "SET", 10),
            (4, "SET", 10),
        ];
        assert_eq!(rows, expected);
        assert_eq!(merged.error_texts, [("ERR a".to_string(), 2), ("ERR b".to_string(), 1)]);
        // As if one histogram had taken everything: GET has 10 µs, 20 µs, … to 1 ms and to 3 ms.
        let mut all = Latencies::new();
        [100, 300].iter().for_each(|count| (1..=*count).for_each(|n: u64| all.record(n * 10_000, 1)));
        let get = merged.commands.iter().find(|c| c.name == "GET").expect("GET").latencies();
        for percent in [1.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0] {
            assert_eq!(get.percentile_ms(percent), all.percentile_ms(percent), "p{percent}");
        }
        assert_eq!(merged.commands.iter().map(|c| c.requests).sum::<u64>(), 450);
    }

    #[test]
    fn what_is_of_one_run_alone_is_not_lost_in_a_merge() {
        let plain = sample(10);
        let mut checked = sample(10);
        checked.command_line = vec!["bench".into(), "--verify".into()];
        checked.check = Some(Check::default());
        assert!(Report::merge(std::slice::from_ref(&checked)).is_ok());
        let refusal = Report::merge(&[plain, checked]).err();
        let expected = "a check is of one run alone, it cannot be merged: bench --verify";
        assert_eq!(refusal.as_deref(), Some(expected));
    }

    #[test]
    fn a_run_is_not_counted_twice() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str, report: Report| {
            let path = directory.path().join(name);
            std::fs::write(&path, report.json().expect("writes")).expect("written");
            path.into_os_string()
        };
        let (one, copy, other) =
            (file("one", sample(10)), file("copy", sample(10)), file("other", sample(20)));
        for again in [&one, &copy] {
            let expected = format!("{} and {}", one.display(), again.display());
            let error = render(&[one.clone(), other.clone(), again.clone()]).expect_err("twice");
            assert_eq!(error, format!("{expected} are the same run: give it once"));
        }
        assert_eq!(render(&[one, other]), Ok(()));
    }

    #[test]
    fn open_and_closed_loop_are_not_merged() {
        let asking = |rate, replay| Report {
            asked_rate: rate,
            replay,
            command_line: vec!["bench".into()],
            ..sample(10)
        };
        let merged = Report::merge(&[asking(Some(5.0), false), asking(Some(7.0), false)]).expect("alike");
        assert_eq!(merged.asked_rate, Some(12.0));
        for (one, other, message) in [
            (
                asking(None, false),
                asking(Some(5.0), false),
                "closed loop and of open loop at 5 requests/s are",
            ),
            (
                asking(Some(5.0), false),
                asking(None, false),
                "open loop at 5 requests/s and of closed loop are",
            ),
            (asking(None, false), asking(None, true), "closed loop and of closed loop over a capture are"),
        ] {
            let error = Report::merge(&[one, other]).expect_err(message);
            assert!(error.contains(message) && error.ends_with("cannot be merged: bench"), "{error}");
        }
    }

    /// The paths of all values below `value`, as docs/bench.md writes them.
    fn paths(value: &serde_json::Value, at: &str, out: &mut std::collections::BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, inner) in fields {
                    let name = if at.ends_with("ratios") { "*" } else { name };
                    paths(inner, &format!("{at}{}{name}", if at.is_empty() { "" } else { "." }), out);
                }
            }
            serde_json::Value::Array(elements) => {
                assert!(!elements.is_empty(), "{at} has no element to look at");
                elements.iter().for_each(|inner| paths(inner, &format!("{at}[]"), out));
            }
            _ => drop(out.insert(at.into())),
        }
    }

    #[test]
    fn every_field_is_documented_and_no_other() {
        let mut report = sample(10);
        report.cost = Some(Cost::default());
        report.command_line = vec!["bench".into()];
        report.error_texts = vec![("ERR".into(), 1)];
        report.sweep = vec![Default::default()];
        report.check = Some(Check::default());
        let figures = comparison::Figures { rate: 1.0, ..Default::default() };
        let pairs = vec![comparison::Pair { a: figures, b: figures }; 3];
        let mut comparison = comparison::Comparison::new("a".into(), "b".into(), pairs);
        comparison.requirements =
            vec![comparison::Requirement { condition: "p99_ratio>1".into(), holds: true }];
        report.comparison = Some(comparison);
        let mut written = std::collections::BTreeSet::new();
        paths(&serde_json::to_value(&report).expect("JSON"), "", &mut written);
        let page = include_str!("../../../docs/bench.md");
        let table = page.split("### The JSON form").nth(1).and_then(|rest| rest.split("## ").next());
        let documented: std::collections::BTreeSet<String> = table
            .expect("the page has the table")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
            .flat_map(|cell| cell.split(", ").map(|path| path.trim_matches(['`', ' ', '|']).to_string()))
            .collect();
        assert_eq!(written, documented);
    }

    #[test]
    fn other_forms_hold_the_figures() {
        let report = sample(1000);
        assert!(report.csv().contains("total,,GET,1000,0,"));
        assert!(report.hgrm().contains("Total count    =         1000"));
        assert!(report.text().contains("GET"));
        assert!(render(&["/nonexistent.json".into()]).expect_err("missing").contains("/nonexistent.json"));
    }
}
