//! Tests the tool itself: against a responder of known delays its percentiles must be right, and a known
//! stall must appear at its true size in open loop. The truth is not the delay that the responder was given,
//! since a machine may wake it late, but its real one: it records when the kernel had each request and when
//! the reply left. The rest, the way there and back, is measured by a plain blocking client that shares no
//! code with the engine.

use crate::{errln, outln};
use martlet_base::sync::lock;

use crate::engine::{self, RunResult, Silent};
use crate::interrupt::interruption;
use crate::latency::Latencies;
use crate::null::{self, Behaviour, Log, Served};
use crate::plan::{Node, Pacing, Plan, Target};
use crate::template::{Template, Words};
use martlet_client::address::Address;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tolerance: the larger of both.
const RELATIVE: f64 = 0.02;
const ABSOLUTE_MS: f64 = 0.020;
/// The known stall, and the rate that runs into it.
const STALL: Duration = Duration::from_millis(200);
const STALL_RATE: f64 = 2000.0;
const DELAYS_RATE: f64 = 300.0;
const DELAYS_REQUESTS: u64 = 2000;
const OPEN_CONNECTIONS: usize = 10;
/// Delay of the replies by which the path is measured, and its rate as a share of the run's: the two drift
/// past each other.
const PATH_DELAY: Duration = Duration::from_millis(1);
const PATH_RATE_SHARE: f64 = 0.97;
const LOW_MS: f64 = 1.0;
const HIGH_MS: f64 = 5.0;

struct Check {
    name: String,
    /// The delay that the responder was given.
    nominal_ms: f64,
    /// Its real delay, with the way there and back.
    true_ms: f64,
    measured_ms: f64,
}

impl Check {
    fn holds(&self) -> bool {
        (self.measured_ms - self.true_ms).abs() <= (self.true_ms * RELATIVE).max(ABSOLUTE_MS)
    }
}

/// A responder and its record of requests.
struct Responder {
    port: u16,
    log: Log,
}

impl Responder {
    fn start(delays: Vec<Duration>, stall: Option<(Duration, Duration)>) -> Result<Responder, String> {
        let log = Log::default();
        let behaviour = Behaviour { delays, stall, log: Some(log.clone()) };
        let port = null::serve(0, behaviour).map_err(|e| format!("the responder cannot listen: {e}"))?;
        Ok(Responder { port, log })
    }

    fn plan(&self) -> Plan {
        let address = Address::Tcp(([127, 0, 0, 1], self.port).into());
        let node = Node { address, tags: Arc::new([]), slots: Arc::new([]) };
        let target = Target { nodes: vec![node], prelude: Vec::new(), prelude_replies: 0, tls: None };
        Plan::single(target, "PING", Template::classic(&["PING"], &Words::default()))
    }

    /// All that it has answered, in the order of arrival.
    fn served(&self) -> Vec<Served> {
        let mut served = std::mem::take(&mut *lock(&self.log));
        served.sort_by_key(|s| s.arrived);
        served
    }

    /// Time from each request's arrival to its reply.
    fn service(&self) -> Vec<Duration> {
        self.served().iter().map(|served| served.replied.saturating_duration_since(served.arrived)).collect()
    }

    /// Time from the instants at which the requests were due to their replies. Requests leave in the order in
    /// which they are due, so the k-th that arrives is the k-th that was due.
    fn since_due(&self, result: &RunResult, rate: f64) -> Vec<Duration> {
        let Some(began) = result.began else { return Vec::new() };
        let due = |number: usize| began + Duration::from_secs_f64(number as f64 / rate);
        let served = self.served();
        served
            .iter()
            .enumerate()
            .map(|(number, s)| s.replied.saturating_duration_since(due(number)))
            .collect()
    }
}

fn record(latencies: &mut Latencies, time: Duration) {
    latencies.record(time.as_nanos() as u64, 1);
}

fn run(plan: &Plan) -> Result<RunResult, String> {
    let result = engine::run(plan, &mut Silent)?;
    match &result.partial {
        None => Ok(result),
        Some(reason) => Err(reason.clone()),
    }
}

/// Runs a plan and takes a sample of the path at the same time, so that the machine treats both alike.
fn run_beside(
    plan: &Plan,
    path: impl FnOnce() -> Result<Path, String> + Send,
) -> Result<(RunResult, Path), String> {
    std::thread::scope(|scope| {
        let path = scope.spawn(path);
        let result = run(plan)?;
        let path = path.join().map_err(|_| "the thread that measures the path panicked")??;
        Ok((result, path))
    })
}

/// Runs all checks; gives the exit code.
pub fn main(arguments: &[String]) -> i32 {
    if !arguments.is_empty() {
        return crate::cli::help::answer_help(
            arguments,
            "Usage: martlet bench calibrate\n\nTests the tool against responders of known behaviour.",
        );
    }
    match checks() {
        Err(error) => {
            errln!("{error}");
            1
        }
        Ok(checks) => {
            outln!("{:<34} {:>10} {:>10} {:>12}", "check", "asked ms", "true ms", "measured ms");
            let mut failed = 0;
            for check in &checks {
                let holds = check.holds();
                failed += usize::from(!holds);
                outln!(
                    "{:<34} {:>10.3} {:>10.3} {:>12.3}  {}",
                    check.name,
                    check.nominal_ms,
                    check.true_ms,
                    check.measured_ms,
                    if holds { "ok" } else { "OUT OF TOLERANCE" }
                );
            }
            outln!("{} of {} within 2 % or 20 us", checks.len() - failed, checks.len());
            i32::from(failed > 0)
        }
    }
}

/// How late a thread is woken that sleeps for a millisecond: the machine's own error, which no tool can be
/// without.
fn wake_up_lag() -> Latencies {
    let mut lag = Latencies::new();
    for _ in 0..300 {
        let due = Instant::now() + Duration::from_millis(1);
        std::thread::sleep(Duration::from_millis(1));
        record(&mut lag, due.elapsed());
    }
    lag
}

/// What lies between a client and the responder, as a plain blocking client sees it: a sample of the ways
/// there and back.
struct Path {
    there: Vec<Duration>,
    back: Vec<Duration>,
}

impl Path {
    /// Takes the sample over as many connections in turn as the run has, one request after the other or at
    /// `rate`: a thread that has slept longer takes longer to wake.
    fn measure(
        connections: usize,
        rate: Option<f64>,
        delays: Vec<Duration>,
        requests: u64,
    ) -> Result<Path, String> {
        let responder = Responder::start(delays, None)?;
        let mut seen = Vec::new();
        let mut measure = || -> std::io::Result<()> {
            let mut streams = Vec::new();
            for _ in 0..connections {
                let stream = TcpStream::connect(("127.0.0.1", responder.port))?;
                stream.set_nodelay(true)?;
                streams.push(stream);
            }
            let (mut reply, began) = ([0; 5], Instant::now());
            for number in 0..requests {
                let Some(stream) = streams.get_mut(number as usize % connections) else { break };
                if interruption().is_some() {
                    break;
                }
                if let Some(rate) = rate {
                    null::pause_until(began + Duration::from_secs_f64(number as f64 / rate));
                }
                let sent = Instant::now();
                stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
                stream.read_exact(&mut reply)?;
                seen.push((sent, Instant::now()));
            }
            Ok(())
        };
        measure().map_err(|error| format!("the path cannot be measured: {error}"))?;
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for (served, (sent, read)) in responder.served().iter().zip(seen) {
            there.push(served.arrived.saturating_duration_since(sent));
            back.push(read.saturating_duration_since(served.replied));
        }
        if back.is_empty() {
            return Err("the path cannot be measured: no replies".into());
        }
        Ok(Path { there, back })
    }

    /// Latencies that a client must see where the responder took `times`: each of them with a way back of the
    /// sample, and with `both` a way there.
    fn seen_from(&self, times: &[Duration], both: bool) -> Latencies {
        let mut latencies = Latencies::new();
        let ways = self.there.iter().zip(&self.back).cycle();
        for (time, (there, back)) in times.iter().zip(ways) {
            record(&mut latencies, *time + *back + if both { *there } else { Duration::ZERO });
        }
        latencies
    }

    fn show(&self, rhythm: &str) {
        let median_us = |ways: &[Duration]| {
            let mut sorted = ways.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).map_or(0.0, |way| way.as_secs_f64() * 1e6)
        };
        outln!(
            "a plain blocking client, {rhythm}: {:.0} us there, {:.0} us back (p50)",
            median_us(&self.there),
            median_us(&self.back)
        );
    }
}

fn checks() -> Result<Vec<Check>, String> {
    let lag = wake_up_lag();
    outln!(
        "this machine wakes a sleeping thread late by {:.0} us (p50), {:.0} us (p90), {:.0} us (p99)",
        lag.percentile_ms(50.0) * 1e3,
        lag.percentile_ms(90.0) * 1e3,
        lag.percentile_ms(99.0) * 1e3
    );
    let mut checks = Vec::new();

    // Nine replies of 1 ms, one of 5 ms.
    let mut delays = vec![Duration::from_secs_f64(LOW_MS / 1e3); 9];
    delays.push(Duration::from_secs_f64(HIGH_MS / 1e3));
    let mut compare = |name: &str, result: &RunResult, truth: &Latencies, percentiles: &[(f64, f64)]| {
        let all = result.all_latencies();
        for (percent, nominal_ms) in percentiles {
            checks.push(Check {
                name: format!("{name} p{percent}"),
                nominal_ms: *nominal_ms,
                true_ms: truth.percentile_ms(*percent),
                measured_ms: all.percentile_ms(*percent),
            });
        }
    };
    let expected = [(50.0, LOW_MS), (80.0, LOW_MS), (95.0, HIGH_MS), (99.0, HIGH_MS)];
    let responder = Responder::start(delays.clone(), None)?;
    let mut slow = responder.plan();
    (slow.connections, slow.requests) = (1, DELAYS_REQUESTS);
    let (result, path) = run_beside(&slow, || Path::measure(1, None, delays.clone(), DELAYS_REQUESTS))?;
    path.show("one request after the other");
    let truth = path.seen_from(&responder.service(), true);
    compare("closed loop, delays 1 and 5 ms,", &result, &truth, &expected);

    let paced = |seconds: f64| {
        let rate = DELAYS_RATE * PATH_RATE_SHARE;
        Path::measure(OPEN_CONNECTIONS, Some(rate), vec![PATH_DELAY], (rate * seconds) as u64)
    };
    let responder = Responder::start(delays.clone(), None)?;
    let mut slow = responder.plan();
    slow.pacing = Pacing::Open { rate: DELAYS_RATE, poisson: false };
    (slow.connections, slow.duration) = (OPEN_CONNECTIONS, Some(Duration::from_secs(5)));
    let (result, path) = run_beside(&slow, || paced(5.0))?;
    path.show("at the open loop's rate");
    outln!(
        "open loop: requests left {:.0} us after they were due (p50)",
        result.send_lag.percentile_ms(50.0) * 1e3
    );
    let truth = path.seen_from(&responder.since_due(&result, DELAYS_RATE), false);
    compare("open loop, delays 1 and 5 ms,", &result, &truth, &expected);

    // A stall of 200 ms in 4 s at 2,000/s: 400 of 8,000 requests were due in it and waited 200 ms … 0, so
    // that the 97.5th percentile is about its middle; how fast the rest drains is in the responder's own
    // account.
    let responder = Responder::start(Vec::new(), Some((Duration::from_secs(1), STALL)))?;
    let mut stalled = responder.plan();
    stalled.pacing = Pacing::Open { rate: STALL_RATE, poisson: false };
    (stalled.connections, stalled.duration) = (OPEN_CONNECTIONS, Some(Duration::from_secs(4)));
    let (result, path) = run_beside(&stalled, || paced(4.0))?;
    let stall_ms = STALL.as_secs_f64() * 1e3;
    let truth = path.seen_from(&responder.since_due(&result, STALL_RATE), false);
    compare("stall of 200 ms,", &result, &truth, &[(97.5, stall_ms / 2.0), (100.0, stall_ms)]);
    Ok(checks)
}
