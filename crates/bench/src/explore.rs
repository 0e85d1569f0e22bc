//! Sweeps over a parameter, and the search for the highest rate that holds a target.

use crate::engine::{KEPT, Silent};
use crate::job::{Job, Measured};
use crate::outln;
use crate::plan::{MAX_CONNECTIONS, MAX_DATA_BYTES, MAX_PIPELINE, MAX_THREADS, Pacing, Plan};
use crate::report::{Point, Report};
use crate::template::split_once;
use std::time::Duration;

/// How long one step of a search takes, unless `--duration` says otherwise.
const STEP: Duration = Duration::from_secs(2);
/// Lowest and highest rate that are tried.
const FIRST_RATE: f64 = 1000.0;
const HIGHEST_RATE: f64 = 5e7;
/// The search ends when its bounds are this close.
const CLOSE: f64 = 1.03;
/// How often a step is tried whose latencies hold while too little was answered in time.
const TRIES: u32 = 3;

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
        _ => return Err(format!("--sweep: '{name}' is not one of connections, pipeline, payload, threads")),
    };
    let values: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
    match values {
        Ok(values) if values.iter().all(|v| (1..=most).contains(v)) => Ok((name.into(), values)),
        _ => Err(format!("--sweep: '{list}' is not a list of numbers from 1 to {most}")),
    }
}

/// Runs all sweeps, one after the other; gives the exit code. What ends a run early ends all; the points so
/// far are kept.
pub fn sweep(job: &Job) -> Result<i32, String> {
    let sweeps = job.settings.sweeps.iter().map(|s| parse(s)).collect::<Result<Vec<_>, _>>()?;
    job.load(&job.target)?;
    let (mut points, mut last, mut broken) = (Vec::new(), None, None);
    'all: for (name, values) in &sweeps {
        outln!("{}", Point::heading(name));
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
            outln!("{}", p.line());
            if let Some(warning) = &measured.warning {
                outln!("{:>12} WARNING: {warning}", "");
            }
            points.push(p);
            broken = measured.result.partial.as_ref().map(|reason| format!("{name} {value}: {reason}"));
            last = Some((plan, measured));
            if broken.is_some() {
                break 'all;
            }
        }
    }
    let Some((plan, measured)) = last else { return Err("--sweep: there is no value to try".into()) };
    let mut report = Report::of(&plan, &measured);
    (report.sweep, report.partial) = (points, broken);
    report.write_files(&job.settings)?;
    if let Some(reason) = &report.partial {
        outln!("PARTIAL RESULT: {reason}");
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
    for text in job.settings.templates.iter_mut().chain(job.settings.command.iter_mut()) {
        *text = with_payload(text, bytes);
    }
    let file = job.file.command.iter_mut().map(|entry| &mut entry.template);
    let sessions = job.file.session.iter_mut().flat_map(|entry| entry.steps.iter_mut());
    for text in file.chain(sessions) {
        *text = String::from_utf8_lossy(&with_payload(text.as_bytes(), bytes)).into_owned();
    }
}

/// A template with each `{value …}` of this size.
fn with_payload(text: &[u8], bytes: usize) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = split_once(rest, "{value ") {
        out.extend_from_slice(before);
        out.extend_from_slice(format!("{{value {bytes}}}").as_bytes());
        rest = split_once(after, "}").map_or(&[], |(_, tail)| tail);
    }
    out.extend_from_slice(rest);
    out
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
    let limit = limit.trim_start_matches('=').trim();
    if crate::cli::options::lacks_unit(limit) {
        return Err(format!("--slo: '{text}' needs a unit, as in '{text}ms'"));
    }
    let limit = crate::cli::options::duration(limit).map_err(|_| bad())?;
    if limit.is_zero() {
        return Err(format!("--slo: '{text}' is held by no request"));
    }
    Ok(Target { percentile, limit_ms: limit.as_secs_f64() * 1e3 })
}

/// Measures at a rate; whether it holds. It has to be kept, too: in open loop all that a slow server leaves
/// behind is answered after the end, and may still be within a target.
fn step(job: &Job, rate: f64, targets: &[Target]) -> Result<(Plan, Measured, bool), String> {
    let mut tries = 0;
    loop {
        let mut plan = job.plan(&job.target)?;
        plan.pacing = Pacing::Open { rate, poisson: job.settings.poisson };
        plan.requests = 0;
        plan.duration = Some(job.settings.duration.unwrap_or(STEP));
        let measured = job.measure(&plan, &mut Silent)?;
        let (result, all) = (&measured.result, measured.result.all_latencies());
        let is_fast = targets.iter().all(|t| all.percentile_ms(t.percentile) < t.limit_ms);
        let is_whole = result.errors() == 0 && result.lost == 0 && result.partial.is_none();
        let is_kept = result.in_time_share() >= KEPT;
        tries += 1;
        // A pause of the machine at the very end leaves replies late as well, but not each time.
        if is_kept || !is_fast || !is_whole || tries == TRIES {
            return Ok((plan, measured, is_kept && is_fast && is_whole));
        }
    }
}

/// Climbs, then bisects; gives the exit code.
pub fn slo(job: &Job) -> Result<i32, String> {
    let targets = job.settings.slo.iter().map(|t| target(t)).collect::<Result<Vec<_>, _>>()?;
    job.load(&job.target)?;
    let mut search = Search::from(job.settings.rate.unwrap_or(FIRST_RATE));
    let (mut points, mut best, mut last) = (Vec::new(), None, None);
    outln!("{:>12} {:>12} {:>9} {:>9}  target", "asked", "achieved", "p50 ms", "p99 ms");
    while let Some(rate) = search.next_rate() {
        let (plan, measured, holds) = match step(job, rate, &targets) {
            Ok(step) => step,
            Err(error) => return broken(job, best.or(last), points, error),
        };
        let p = point("rate", rate, &measured);
        outln!(
            "{rate:>12.0} {:>12.0} {:>9.3} {:>9.3}  {}",
            p.rate,
            p.p50_ms,
            p.p99_ms,
            if holds { "holds" } else { "broken" }
        );
        if let Some(warning) = measured.warning.as_ref().filter(|_| !holds) {
            outln!("{:>12} WARNING: {warning}", "");
        }
        points.push(p);
        if let Some(reason) = measured.result.partial.clone() {
            return broken(job, Some((plan, measured)), points, format!("at {rate:.0} requests/s: {reason}"));
        }
        search.learn(holds);
        *(if holds { &mut best } else { &mut last }) = Some((plan, measured));
    }
    let conditions = job.settings.slo.join(" and ");
    match best {
        Some(_) => outln!("highest rate that holds {conditions}: {:.0} requests/s", search.good),
        None => outln!("no rate holds {conditions}"),
    }
    let code = i32::from(best.is_none());
    let Some((plan, measured)) = best.or(last) else { return Err("--slo: there is no rate to try".into()) };
    let mut report = Report::of(&plan, &measured);
    report.sweep = points;
    report.write_files(&job.settings)?;
    Ok(code)
}

/// The search for the highest rate that holds: it climbs, or descends, by doubling until it has a bound on
/// each side, then halves the interval on a logarithmic scale.
struct Search {
    /// Highest rate that held; 0 if none has.
    good: f64,
    /// Lowest rate that did not.
    bad: f64,
    rate: f64,
}

impl Search {
    fn from(rate: f64) -> Search {
        Search { good: 0.0, bad: f64::INFINITY, rate }
    }

    /// The rate to try next; `None` when the bounds are close, or nothing sensible is left.
    fn next_rate(&self) -> Option<f64> {
        let is_open = self.bad / f64::max(self.good, 1.0) > CLOSE;
        (is_open && (1.0..HIGHEST_RATE).contains(&self.rate)).then_some(self.rate)
    }

    /// Whether the rate that was tried held.
    fn learn(&mut self, holds: bool) {
        *(if holds { &mut self.good } else { &mut self.bad }) = self.rate;
        self.rate = match (self.good > 0.0, self.bad.is_finite()) {
            (_, false) => self.rate * 2.0,
            (false, true) => self.rate / 2.0,
            (true, true) => (self.good * self.bad).sqrt(),
        };
    }
}

/// Ends a search whose last step broke off: its findings so far are written.
fn broken(
    job: &Job,
    last: Option<(Plan, Measured)>,
    points: Vec<Point>,
    reason: String,
) -> Result<i32, String> {
    let Some((plan, measured)) = last else { return Err(reason) };
    outln!("PARTIAL RESULT: {reason}");
    let mut report = Report::of(&plan, &measured);
    (report.sweep, report.partial) = (points, Some(reason));
    report.write_files(&job.settings)?;
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers that hold every rate below theirs, 2 to 17 million requests per second, and none above.
    #[test]
    fn the_search_ends_within_its_margin_below_the_limit() {
        for start in [1.0, 1000.0, 4e7] {
            for step in 0..370 {
                let limit = 2.1 * 1.044f64.powi(step);
                let (mut search, mut tries) = (Search::from(start), 0);
                while let Some(rate) = search.next_rate() {
                    search.learn(rate < limit);
                    tries += 1;
                }
                let found = search.good;
                assert!(found < limit && limit <= found * CLOSE, "from {start}, {limit}: {found}");
                assert!(tries < 40, "from {start}, {limit}: {tries} tries");
            }
        }
        let mut nothing_holds = Search::from(1000.0);
        while nothing_holds.next_rate().is_some() {
            nothing_holds.learn(false);
        }
        assert_eq!(nothing_holds.good, 0.0);
    }

    #[test]
    fn sweeps_and_targets_are_parsed() {
        assert_eq!(parse("pipeline=1,8"), Ok(("pipeline".into(), vec![1, 8])));
        for text in ["pipeline", "foo=1", "pipeline=a", "pipeline=0", "pipeline=9999999999"] {
            assert!(parse(text).expect_err(text).contains("--sweep"));
        }
        let t = target("p99.9<1ms").expect("valid");
        assert_eq!((t.percentile, t.limit_ms), (99.9, 1.0));
        for (text, message) in [
            ("p99", "is not of the form"),
            ("x<1ms", "is not of the form"),
            ("p101<1ms", "is not of the form"),
            ("p99<1y", "is not of the form"),
            ("p99<1", "--slo: 'p99<1' needs a unit, as in 'p99<1ms'"),
            ("p99<0ms", "--slo: 'p99<0ms' is held by no request"),
        ] {
            let error = target(text).err().expect(text);
            assert!(error.contains("--slo") && error.contains(message), "{error}");
        }
    }
}
