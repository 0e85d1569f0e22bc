//! User-defined workloads: mixes from the command line, and TOML files with mixes, sessions and load phases.

use crate::cli::options::is_possible_rate;
use crate::plan::{MAX_CONNECTIONS, MAX_PIPELINE, MAX_THREADS, Step, Unit, Workload};
use crate::replay::Capture;
use crate::template::{Field, MAX_VARIABLES, Template, parse_field};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A workload file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Templates run once over their sequence before the measured time.
    #[serde(default)]
    pub load: Vec<LoadPhase>,
    /// Single requests with weights.
    #[serde(default)]
    pub command: Vec<CommandEntry>,
    /// Sessions of several requests in order.
    #[serde(default)]
    pub session: Vec<SessionEntry>,
    /// Connections over all threads.
    pub connections: Option<usize>,
    /// Threads of the load.
    pub threads: Option<usize>,
    /// Requests in flight per connection.
    pub pipeline: Option<usize>,
    /// Requests after which the run ends.
    pub requests: Option<u64>,
    /// Time after which the run ends, such as `10s`.
    pub duration: Option<String>,
    /// Time at the start that is not measured.
    pub warmup: Option<String>,
    /// Requests per second in open loop.
    pub rate: Option<f64>,
    /// Exponential gaps in open loop.
    pub poisson: Option<bool>,
    /// Requests after which a connection is opened again.
    pub churn: Option<u64>,
    /// Seed of every random choice.
    pub seed: Option<u64>,
}

/// One load phase.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPhase {
    /// The request.
    pub template: String,
    /// Their number.
    pub requests: u64,
    /// Requests in flight per connection.
    #[serde(default = "sixteen")]
    pub pipeline: usize,
}

fn sixteen() -> usize {
    16
}

fn one() -> u64 {
    1
}

/// One request of a mix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandEntry {
    /// The request.
    pub template: String,
    /// Share among all entries.
    #[serde(default = "one")]
    pub weight: u64,
    /// Name in the report; the command's own if absent.
    pub name: Option<String>,
}

/// One session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionEntry {
    /// Name in the report.
    pub name: String,
    /// Share among all entries.
    #[serde(default = "one")]
    pub weight: u64,
    /// Variables drawn at its start: name to distribution, as `user = "zipfian 1000"`.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The requests, in order.
    pub steps: Vec<String>,
}

/// Reads a file's text.
pub fn parse_file(text: &str) -> Result<WorkloadFile, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim_end().to_string())
}

impl WorkloadFile {
    /// Refuses numbers that no run could have, by their names.
    pub fn check(&self) -> Result<(), String> {
        let between = |name: &str, value: Option<u64>, low: u64, high: usize| match value {
            Some(value) if value < low || value > high as u64 => {
                Err(format!("{name}: {value} is not a number from {low} to {high}"))
            }
            _ => Ok(()),
        };
        between("connections", self.connections.map(|n| n as u64), 1, MAX_CONNECTIONS)?;
        between("threads", self.threads.map(|n| n as u64), 1, MAX_THREADS)?;
        between("pipeline", self.pipeline.map(|n| n as u64), 1, MAX_PIPELINE)?;
        between("requests", self.requests, 1, usize::MAX)?;
        for load in &self.load {
            between("load: requests", Some(load.requests), 1, usize::MAX)?;
            between("load: pipeline", Some(load.pipeline as u64), 1, MAX_PIPELINE)?;
        }
        match self.rate {
            Some(rate) if !is_possible_rate(rate) => Err(format!(
                "rate: {rate} is no rate that can be kept: above 0 and at most 100,000,000 requests/s"
            )),
            _ => Ok(()),
        }
    }
}

/// The first word of a template, in capitals.
pub fn command_name(template: impl AsRef<[u8]>) -> String {
    let text = String::from_utf8_lossy(template.as_ref());
    text.split_whitespace().next().unwrap_or("?").to_ascii_uppercase()
}

/// Collects units and gives each command its place.
#[derive(Default)]
struct Builder {
    units: Vec<Unit>,
    commands: Vec<String>,
}

impl Builder {
    fn command(&mut self, name: &str) -> usize {
        match self.commands.iter().position(|c| c == name) {
            Some(at) => at,
            None => {
                self.commands.push(name.into());
                self.commands.len() - 1
            }
        }
    }

    fn single(&mut self, template: &[u8], name: Option<&str>, weight: u64) -> Result<(), String> {
        let shown = String::from_utf8_lossy(template);
        let compiled = Template::parse(template, &[]).map_err(|e| format!("template '{shown}': {e}"))?;
        let command = self.command(name.unwrap_or(&command_name(template)));
        self.units.push(Unit {
            steps: vec![Step { template: compiled, command }],
            weight,
            variables: Vec::new(),
            begun: AtomicU64::new(0),
        });
        Ok(())
    }

    fn session(&mut self, entry: &SessionEntry) -> Result<(), String> {
        if entry.variables.len() > MAX_VARIABLES {
            return Err(format!("session '{}': more than {MAX_VARIABLES} variables", entry.name));
        }
        let names: Vec<String> = entry.variables.keys().cloned().collect();
        let mut variables = Vec::new();
        for (name, text) in &entry.variables {
            let words: Vec<&str> = std::iter::once("number").chain(text.split_whitespace()).collect();
            let field = parse_field(&words, &[])
                .map_err(|e| format!("session '{}', variable {name}: {e}", entry.name))?;
            variables.extend(field.into_iter().filter(|f| matches!(f, Field::Number(..))));
        }
        let mut steps = Vec::new();
        for (number, text) in entry.steps.iter().enumerate() {
            let template = Template::parse(text, &names)
                .map_err(|e| format!("session '{}', step {}: '{text}': {e}", entry.name, number + 1))?;
            let command = self.command(&format!("{}/{} {}", entry.name, number + 1, command_name(text)));
            steps.push(Step { template, command });
        }
        if steps.is_empty() {
            return Err(format!("session '{}' has no steps", entry.name));
        }
        self.units.push(Unit { steps, weight: entry.weight, variables, begun: AtomicU64::new(0) });
        Ok(())
    }

    fn build(self) -> Result<Workload, String> {
        if self.units.iter().map(|u| u.weight).sum::<u64>() == 0 {
            return Err("the workload has no request with a weight above 0".into());
        }
        Ok(Workload { units: self.units, commands: self.commands, replay: None })
    }
}

/// A mix from templates, each with an optional `WEIGHT:` before it.
pub fn from_templates<T: AsRef<[u8]>>(templates: &[T]) -> Result<Workload, String> {
    let mut builder = Builder::default();
    for text in templates {
        let text = text.as_ref();
        let weighted = memchr::memchr(b':', text).and_then(|at| {
            let weight = std::str::from_utf8(text.get(..at)?).ok()?.trim().parse::<u64>().ok()?;
            Some((weight, text.get(at + 1..)?))
        });
        let (weight, template) = weighted.unwrap_or((1, text));
        builder.single(template.trim_ascii(), None, weight)?;
    }
    builder.build()
}

/// The workload of a file.
pub fn from_file(file: &WorkloadFile) -> Result<Workload, String> {
    let mut builder = Builder::default();
    for entry in &file.command {
        builder.single(entry.template.as_bytes(), entry.name.as_deref(), entry.weight)?;
    }
    for entry in &file.session {
        builder.session(entry)?;
    }
    builder.build()
}

/// The workload of a capture.
pub fn from_capture(capture: Capture) -> Workload {
    let commands = capture.commands.clone();
    Workload { units: Vec::new(), commands, replay: Some(Arc::new(capture)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_everything() {
        let text = r#"
            connections = 10
            duration = "5s"
            [[load]]
            template = "SET {key sequence 100} {value 8}"
            requests = 100
            [[command]]
            template = "GET {key zipfian 100 1.2}"
            weight = 9
            [[session]]
            name = "cart"
            variables = { user = "uniform 50" }
            steps = ["GET user:{user}", "HSET cart:{user} {rand 10} {value 5-9}"]
        "#;
        let file = parse_file(text).expect("valid");
        let workload = from_file(&file).expect("valid");
        assert_eq!(workload.commands, ["GET", "cart/1 GET", "cart/2 HSET"]);
        assert_eq!((workload.units.len(), file.load.len(), file.connections), (2, 1, Some(10)));
    }

    #[test]
    fn malformed_files_are_named() {
        for (text, message) in [
            ("conections = 1", "unknown field"),
            ("[[command]]\ntemplate = \"GET {key foo 1}\"", "unknown distribution 'foo'"),
            ("[[session]]\nname = \"a\"\nsteps = []", "session 'a' has no steps"),
            ("[[session]]\nname = \"a\"\nsteps = [\"GET {x y z}\"]", "step 1"),
            ("", "no request"),
            ("x = ", "expected"),
            ("rate = -5.0", "rate: -5 is no rate"),
            ("rate = nan", "rate: NaN is no rate"),
            ("connections = 0", "connections: 0 is not a number from 1"),
            ("pipeline = 10000000", "pipeline: 10000000 is not"),
            ("threads = 9999", "threads: 9999 is not"),
            ("requests = 0", "requests: 0 is not"),
            ("[[load]]\ntemplate = \"GET a\"\nrequests = 0", "load: requests: 0 is not"),
        ] {
            let error = parse_file(text)
                .and_then(|f| f.check().and_then(|()| from_file(&f).map(|_| ())))
                .expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn weights_before_templates() {
        let mix = from_templates(&["9:GET {key uniform 5}", "SET a:b c"]).expect("valid");
        assert_eq!((mix.units[0].weight, mix.units[1].weight), (9, 1));
    }
}
