//! The result of a comparison of two servers: the rounds, per-pair ratios with intervals, the verdict. Every
//! ratio is so turned that above 1 the first server is better.

use crate::stats::{Ratio, ratio};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One server's figures in one round.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Requests answered per second.
    pub rate: f64,
    /// Median latency, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of latency, milliseconds.
    pub p99_ms: f64,
    /// 99.9th percentile of latency, milliseconds.
    pub p999_ms: f64,
    /// Server CPU, microseconds per request; 0 when unknown.
    pub cpu_us: f64,
}

/// One round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// The first server's.
    pub a: Figures,
    /// The second server's.
    pub b: Figures,
}

/// A whole comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The first server.
    pub a_name: String,
    /// The second server.
    pub b_name: String,
    /// The rounds.
    pub pairs: Vec<Pair>,
    /// Ratios by name, see [`RATIOS`].
    pub ratios: BTreeMap<String, Ratio>,
    /// The verdict in words.
    pub verdict: String,
    /// The conditions of `--require`.
    #[serde(default)]
    pub requirements: Vec<Requirement>,
}

/// A condition that a comparison had to meet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Requirement {
    /// As `--require` has it.
    pub condition: String,
    /// Whether it was met.
    pub holds: bool,
}

/// Where there is no verdict: one pair has no interval.
const NO_VERDICT: &str = "none: fewer than two pairs of runs were finished";

/// One figure of a round.
pub type Read = fn(&Figures) -> f64;

/// Names of ratios, the compared figures, and whether less is better.
pub const RATIOS: [(&str, Read, bool); 5] = [
    ("throughput_ratio", |f| f.rate, false),
    ("p50_ratio", |f| f.p50_ms, true),
    ("p99_ratio", |f| f.p99_ms, true),
    ("p999_ratio", |f| f.p999_ms, true),
    ("cpu_ratio", |f| f.cpu_us, true),
];

impl Comparison {
    /// Computes ratios and verdict.
    pub fn new(a_name: String, b_name: String, pairs: Vec<Pair>) -> Comparison {
        let mut ratios = BTreeMap::new();
        for (name, read, less_is_better) in RATIOS {
            let values: Vec<(f64, f64)> = pairs
                .iter()
                .map(|p| if less_is_better { (read(&p.b), read(&p.a)) } else { (read(&p.a), read(&p.b)) })
                .collect();
            if let Some(r) = ratio(&values) {
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
        Comparison { a_name, b_name, pairs, ratios, verdict, requirements: Vec::new() }
    }

    /// The comparison as a table, its ratios, its verdict and its conditions.
    pub fn text(&self) -> String {
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
        let verdict = if self.verdict.is_empty() { NO_VERDICT } else { &self.verdict };
        let _ = writeln!(out, "verdict: {verdict}");
        for Requirement { condition, holds } in &self.requirements {
            let _ = writeln!(out, "require {condition}: {}", if *holds { "holds" } else { "FAILS" });
        }
        out
    }
}
