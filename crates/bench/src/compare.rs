//! Comparison of two servers: A B A B in one run, per-pair ratios with confidence intervals, a verdict,
//! conditions. Every ratio is so turned that above 1 the first server, the one of -h and -p, is better.

use crate::engine::Silent;
use crate::job::{Job, Measured};
use crate::plan::{Plan, Target};
use crate::report::Report;
use crate::report::comparison::{Comparison, Figures, Pair, RATIOS, Requirement};
use crate::servers::{Directory, Started, free_port, start};
use crate::{errln, out, outln};
use martlet_client::address::Address;

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

/// Pairs of runs, unless `--rounds` says otherwise.
const DEFAULT_ROUNDS: usize = 5;
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

/// Parameters of the first server that a server started for the comparison also gets. (`io-threads` means
/// another thing in each server, as does Redis' spinning: the command sets them where they matter.)
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
            (
                crate::control::resolve(host, port).map_err(|e| format!("--vs: {text}: {e}"))?,
                None,
                text.clone(),
            )
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
            // Its files, at the start and later, are its alone.
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
    let mut comparison = Comparison::new(a_name, other_name, pairs);
    for (text, condition) in job.settings.require.iter().zip(&conditions) {
        let holds = condition.holds(&comparison);
        comparison.requirements.push(Requirement { condition: text.clone(), holds });
    }
    out!("{}", comparison.text());
    let code = i32::from(broken.is_some() || comparison.requirements.iter().any(|required| !required.holds));
    if let Some(reason) = &broken {
        outln!("PARTIAL RESULT: {reason}");
    }
    let [plan_a, _] = &plans;
    let mut report = Report::of(plan_a, &last);
    report.comparison = Some(comparison);
    report.partial = broken;
    report.write_files(&job.settings)?;
    Ok(code)
}

/// The rounds until their end.
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
        errln!("WARNING ({server}): {warning}");
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
        let c = Comparison::new("a".into(), "b".into(), pairs(2000.0, 1000.0));
        assert!((c.ratios["throughput_ratio"].value - 2.0).abs() < 0.01);
        assert!((c.ratios["cpu_ratio"].value - 2.0).abs() < 0.01);
        assert!(c.verdict.contains("throughput: A is better by 2.00x"), "{}", c.verdict);
        assert!(condition("cpu_ratio>=1.4").expect("valid").holds(&c));
        assert!(!condition("throughput_ratio.low > 2.5").expect("valid").holds(&c));
        let same = Comparison::new("a".into(), "b".into(), pairs(1000.0, 1000.0));
        assert!(same.verdict.contains("no difference"));
    }

    #[test]
    fn bad_conditions_are_named() {
        for text in ["cpu_ratio", "foo>=1", "cpu_ratio>=x", "cpu_ratio.mid>1", "cpu_ratio<>1"] {
            assert!(condition(text).expect_err(text).contains("--require"));
        }
    }
}
