//! Sweeps over a parameter, and the search for the highest rate that holds a target.

use crate::engine::Silent;
use crate::own::{Job, Measured};
use crate::plan::{MAX_CONNECTIONS, MAX_DATA_BYTES, MAX_PIPELINE, MAX_THREADS, Pacing, Plan};
use crate::report::Report;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long one step of a search takes, unless `--duration` says otherwise.
const STEP: Duration = Duration::from_secs(2);
/// Lowest and highest rate that are tried.
const FIRST_RATE: f64 = 1000.0;
const HIGHEST_RATE: f64 = 5e7;
/// The search ends when its bounds are this close.
const CLOSE: f64 = 1.03;

/// One point of a sweep.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// The parameter.
    pub name: String,
    pub value: f64,
    pub rate: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Server CPU, microseconds per request; 0 when unknown.
    pub cpu_us: f64,
}

fn point(name: &str, value: f64, measured: &Measured) -> Point {
    let all = measured.result.all_latencies();
    Point {
        name: name.into(),
        value,
        rate: measured.result.rate(),
        p50_ms: all.percentile_ms(50.0),
        p99_ms: all.percentile_ms(99.0),
        cpu_us: measured.cost.map_or(0.0, |c| c.user_us + c.system_us),
    }
}

/// `pipeline=1,8,16` as name and values.
fn parse(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, list) = text.split_once('=').ok_or_else(|| format!("--sweep: '{text}' is not NAME=LIST"))?;
    let most = match name {
        "connections" => MAX_CONNECTIONS,
        "pipeline" => MAX_PIPELINE,
        "payload" => MAX_DATA_BYTES,
        "threads" => MAX_THREADS,
        _ => return Err(format!("--sweep: '{name}' is none of connections, pipeline, payload, threads")),
    };
    let values: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
    match values {
        Ok(values) if values.iter().all(|v| (1..=most).contains(v)) => Ok((name.into(), values)),
        _ => Err(format!("--sweep: '{list}' is not a list of numbers from 1 to {most}")),
    }
}

/// Runs all sweeps, one after the other; gives the exit code. What ends a run early ends all; the points so far are kept.
pub fn sweep(job: &Job) -> Result<i32, String> {
    let sweeps = job.settings.sweeps.iter().map(|s| parse(s)).collect::<Result<Vec<_>, _>>()?;
    job.load(&job.target)?;
    let (mut points, mut last, mut broken) = (Vec::new(), None, None);
    'all: for (name, values) in &sweeps {
        println!("{:>12} {:>12} {:>9} {:>9} {:>12}", name, "requests/s", "p50 ms", "p99 ms", "server us/req");
        for &value in values {
            let one = job_at(job, name, value);
            let plan = one.plan(&one.target)?;
            let measured = match one.measure(&plan, &mut Silent) {
                Ok(measured) => measured,
                Err(error) if points.is_empty() => return Err(error),
                Err(error) => {
                    broken = Some(error);
                    break 'all;
                }
            };
            let p = point(name, value as f64, &measured);
            println!("{value:>12} {:>12.0} {:>9.3} {:>9.3} {:>12.2}", p.rate, p.p50_ms, p.p99_ms, p.cpu_us);
            points.push(p);
            broken = measured.result.partial.as_ref().map(|reason| format!("{name} {value}: {reason}"));
            last = Some((plan, measured));
            if broken.is_some() {
                break 'all;
            }
        }
    }
    let Some((plan, measured)) = last else { return Err("--sweep: there is no value to try".into()) };
    let mut report = Report::of(job, &plan, &measured);
    (report.sweep, report.partial) = (points, broken);
    report.write_files(&job.settings)?;
    if let Some(reason) = &report.partial {
        println!("PARTIAL RESULT: {reason}");
    }
    Ok(i32::from(report.partial.is_some()))
}

/// The job with one parameter at a value of its sweep.
fn job_at(job: &Job, name: &str, value: usize) -> Job {
    let mut one = job.clone();
    one.settings.duration = one.settings.duration.or(one.settings.requests.is_none().then_some(STEP));
    match name {
        "connections" => one.settings.clients = value,
        "pipeline" => one.settings.pipeline = value,
        "threads" => one.settings.threads = Some(value),
        _ => set_payload(&mut one, value),
    }
    one
}

/// Sets the size of values: of the built-in request, and of each `{value …}`.
fn set_payload(job: &mut Job, bytes: usize) {
    job.settings.data_bytes = bytes;
    let given = job.settings.templates.iter_mut().chain(job.settings.command.iter_mut());
    let file = job.file.command.iter_mut().map(|entry| &mut entry.template);
    let sessions = job.file.session.iter_mut().flat_map(|entry| entry.steps.iter_mut());
    for text in given.chain(file).chain(sessions) {
        let (mut out, mut rest) = (String::new(), text.as_str());
        while let Some((before, after)) = rest.split_once("{value ") {
            let tail = after.split_once('}').map_or("", |(_, tail)| tail);
            out.push_str(&format!("{before}{{value {bytes}}}"));
            rest = tail;
        }
        out.push_str(rest);
        *text = out;
    }
}

/// A target such as `p99<1ms`.
struct Target {
    percentile: f64,
    limit_ms: f64,
}

fn target(text: &str) -> Result<Target, String> {
    let bad = || format!("--slo: '{text}' is not of the form 'p99<1ms'");
    let (name, limit) = text.split_once('<').ok_or_else(bad)?;
    let percentile = match name.trim() {
        "max" => 100.0,
        name => name
            .strip_prefix('p')
            .and_then(|p| p.parse::<f64>().ok())
            .filter(|p| (0.0..=100.0).contains(p))
            .ok_or_else(bad)?,
    };
    let limit = crate::cli::options::duration(limit.trim_start_matches('=').trim()).map_err(|_| bad())?;
    Ok(Target { percentile, limit_ms: limit.as_secs_f64() * 1e3 })
}

/// Climbs, then bisects; gives the exit code.
pub fn slo(job: &Job) -> Result<i32, String> {
    let targets = job.settings.slo.iter().map(|t| target(t)).collect::<Result<Vec<_>, _>>()?;
    job.load(&job.target)?;
    let (mut good, mut bad, mut rate) = (0.0, f64::INFINITY, job.settings.rate.unwrap_or(FIRST_RATE));
    let (mut points, mut best) = (Vec::new(), None);
    println!("{:>12} {:>12} {:>9} {:>9}  target", "asked", "achieved", "p50 ms", "p99 ms");
    while bad / f64::max(good, 1.0) > CLOSE && (1.0..HIGHEST_RATE).contains(&rate) {
        let mut plan = job.plan(&job.target)?;
        plan.pacing = Pacing::Open { rate, poisson: job.settings.poisson };
        plan.requests = 0;
        plan.duration = Some(job.settings.duration.unwrap_or(STEP));
        let measured = match job.measure(&plan, &mut Silent) {
            Ok(measured) => measured,
            Err(error) => return broken(job, best, points, error),
        };
        let all = measured.result.all_latencies();
        let kept = measured.result.rate() >= rate * 0.98
            && measured.result.errors() == 0
            && measured.result.lost == 0;
        let holds = kept && targets.iter().all(|t| all.percentile_ms(t.percentile) < t.limit_ms);
        let p = point("rate", rate, &measured);
        println!(
            "{rate:>12.0} {:>12.0} {:>9.3} {:>9.3}  {}",
            p.rate,
            p.p50_ms,
            p.p99_ms,
            if holds { "holds" } else { "broken" }
        );
        points.push(p);
        if let Some(reason) = measured.result.partial.clone() {
            return broken(job, Some((plan, measured)), points, format!("at {rate:.0} requests/s: {reason}"));
        }
        if holds {
            good = rate;
            best = Some((plan, measured));
        } else {
            bad = rate;
        }
        rate = match (good > 0.0, bad.is_finite()) {
            (_, false) => rate * 2.0,
            (false, true) => rate / 2.0,
            (true, true) => (good * bad).sqrt(),
        };
    }
    let Some((plan, measured)) = best else {
        println!("no rate holds {}", job.settings.slo.join(" and "));
        return Ok(1);
    };
    println!("highest rate that holds {}: {good:.0} requests/s", job.settings.slo.join(" and "));
    let mut report = Report::of(job, &plan, &measured);
    report.sweep = points;
    report.write_files(&job.settings)?;
    Ok(0)
}

/// Ends a search whose last step broke off: what it found so far is written.
fn broken(
    job: &Job,
    last: Option<(Plan, Measured)>,
    points: Vec<Point>,
    reason: String,
) -> Result<i32, String> {
    let Some((plan, measured)) = last else { return Err(reason) };
    println!("PARTIAL RESULT: {reason}");
    let mut report = Report::of(job, &plan, &measured);
    (report.sweep, report.partial) = (points, Some(reason));
    report.write_files(&job.settings)?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_and_targets_are_parsed() {
        assert_eq!(parse("pipeline=1,8"), Ok(("pipeline".into(), vec![1, 8])));
        for text in ["pipeline", "foo=1", "pipeline=a", "pipeline=0", "pipeline=9999999999"] {
            assert!(parse(text).expect_err(text).contains("--sweep"));
        }
        let t = target("p99.9<1ms").expect("valid");
        assert_eq!((t.percentile, t.limit_ms), (99.9, 1.0));
        for text in ["p99", "x<1ms", "p101<1ms", "p99<1y"] {
            assert!(target(text).err().expect(text).contains("--slo"));
        }
    }
}
