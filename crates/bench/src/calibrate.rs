//! Tests the tool itself: against a responder of known delays its percentiles must be right, and a known stall must
//! appear at its true size in open loop.
//! What is right is not what the responder was told to do, since a machine may wake it late, but what it really did: it keeps
//! when the kernel had each request and when the reply left. What lies outside of it, the way there and back, is
//! measured by a plain blocking client that shares no code with the engine.

use crate::engine::{self, RunResult, Silent};
use crate::latency::Latencies;
use crate::null::{self, Behaviour, Log, Served};
use crate::plan::{Node, Pacing, Plan, Target};
use crate::template::Template;
use martlet_client::address::Address;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Tolerance: the larger of both.
const RELATIVE: f64 = 0.02;
const ABSOLUTE_MS: f64 = 0.020;
/// The known stall, and the rate that runs into it.
const STALL: Duration = Duration::from_millis(200);
const STALL_RATE: f64 = 2000.0;
const DELAYS_RATE: f64 = 300.0;
/// Delay of the replies by which the path is measured, and their number.
const PATH_DELAY: Duration = Duration::from_millis(1);
const PATH_REQUESTS: usize = 1000;
const LOW_MS: f64 = 1.0;
const HIGH_MS: f64 = 5.0;

struct Check {
    name: String,
    /// What the responder was told.
    nominal_ms: f64,
    /// What it did, and the path.
    true_ms: f64,
    measured_ms: f64,
}

impl Check {
    fn holds(&self) -> bool {
        (self.measured_ms - self.true_ms).abs() <= (self.true_ms * RELATIVE).max(ABSOLUTE_MS)
    }
}

/// A responder and what it has done.
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
        Plan::single(target, "PING", Template::classic(&["PING"], None, false))
    }

    /// All that it has answered, in the order of arrival.
    fn served(&self) -> Vec<Served> {
        let mut served = std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner));
        served.sort_by_key(|s| s.arrived);
        served
    }

    /// What its replies took from the request's arrival: what a closed loop sees, but for the path.
    fn service(&self) -> Latencies {
        let mut latencies = Latencies::new();
        for served in self.served() {
            record(&mut latencies, served.replied.saturating_duration_since(served.arrived));
        }
        latencies
    }

    /// What its replies took from the instants at which the requests were due. Requests leave in the order in which they are
    /// due, so the k-th that arrives is the k-th that was due.
    fn since_due(&self, result: &RunResult, rate: f64) -> Latencies {
        let mut latencies = Latencies::new();
        let Some(began) = result.began else { return latencies };
        for (number, served) in self.served().iter().enumerate() {
            let due = began + Duration::from_secs_f64(number as f64 / rate);
            record(&mut latencies, served.replied.saturating_duration_since(due));
        }
        latencies
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

/// Runs all checks; gives the exit code.
pub fn main(arguments: &[String]) -> i32 {
    if !arguments.is_empty() {
        println!("Usage: martlet bench calibrate\n\nTests the tool against responders of known behaviour.");
        return i32::from(arguments.first().is_none_or(|a| a != "--help"));
    }
    match checks() {
        Err(error) => {
            eprintln!("{error}");
            1
        }
        Ok(checks) => {
            println!("{:<34} {:>10} {:>10} {:>12}", "check", "asked ms", "true ms", "measured ms");
            let mut failed = 0;
            for check in &checks {
                let holds = check.holds();
                failed += usize::from(!holds);
                println!(
                    "{:<34} {:>10.3} {:>10.3} {:>12.3}  {}",
                    check.name,
                    check.nominal_ms,
                    check.true_ms,
                    check.measured_ms,
                    if holds { "ok" } else { "OUT OF TOLERANCE" }
                );
            }
            println!("{} of {} within 2 % or 20 us", checks.len() - failed, checks.len());
            i32::from(failed > 0)
        }
    }
}

/// How late a thread is woken that sleeps for a millisecond: the machine's own error, which no tool can be without.
fn wake_up_lag() -> Latencies {
    let mut lag = Latencies::new();
    for _ in 0..300 {
        let due = Instant::now() + Duration::from_millis(1);
        std::thread::sleep(Duration::from_millis(1));
        record(&mut lag, due.elapsed());
    }
    lag
}

/// The median cost of the way there and back: what a plain blocking client sees beyond the responder's delay.
fn path_ms() -> Result<f64, String> {
    let responder = Responder::start(vec![PATH_DELAY], None)?;
    let mut seen = Latencies::new();
    let mut measure = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", responder.port))?;
        stream.set_nodelay(true)?;
        let mut reply = [0; 5];
        for _ in 0..PATH_REQUESTS {
            let sent = Instant::now();
            stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
            stream.read_exact(&mut reply)?;
            record(&mut seen, sent.elapsed());
        }
        Ok(())
    };
    measure().map_err(|error| format!("the path cannot be measured: {error}"))?;
    Ok((seen.percentile_ms(50.0) - responder.service().percentile_ms(50.0)).max(0.0))
}

fn checks() -> Result<Vec<Check>, String> {
    let lag = wake_up_lag();
    println!(
        "this machine wakes a sleeping thread late by {:.0} us (p50), {:.0} us (p90), {:.0} us (p99)",
        lag.percentile_ms(50.0) * 1e3,
        lag.percentile_ms(90.0) * 1e3,
        lag.percentile_ms(99.0) * 1e3
    );
    let path_ms = path_ms()?;
    println!("there and back, by a plain blocking client: {:.0} us (p50)", path_ms * 1e3);
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
                true_ms: truth.percentile_ms(*percent) + path_ms,
                measured_ms: all.percentile_ms(*percent),
            });
        }
    };
    let expected = [(50.0, LOW_MS), (80.0, LOW_MS), (95.0, HIGH_MS), (99.0, HIGH_MS)];
    let responder = Responder::start(delays.clone(), None)?;
    let mut slow = responder.plan();
    (slow.connections, slow.requests) = (2, 3000);
    let result = run(&slow)?;
    compare("closed loop, delays 1 and 5 ms,", &result, &responder.service(), &expected);

    let responder = Responder::start(delays, None)?;
    let mut slow = responder.plan();
    slow.pacing = Pacing::Open { rate: DELAYS_RATE, poisson: false };
    (slow.connections, slow.duration) = (20, Some(Duration::from_secs(5)));
    let result = run(&slow)?;
    compare("open loop, delays 1 and 5 ms,", &result, &responder.since_due(&result, DELAYS_RATE), &expected);
    println!(
        "open loop: requests left {:.0} us after they were due (p50)",
        result.send_lag.percentile_ms(50.0) * 1e3
    );

    // A stall of 200 ms in 4 s at 2,000/s: 400 of 8,000 requests were due in it and waited 200 ms … 0, so that the
    // 97.5th percentile is about its middle; how fast the rest drains is in the responder's own account.
    let responder = Responder::start(Vec::new(), Some((Duration::from_secs(1), STALL)))?;
    let mut stalled = responder.plan();
    stalled.pacing = Pacing::Open { rate: STALL_RATE, poisson: false };
    (stalled.connections, stalled.duration) = (10, Some(Duration::from_secs(4)));
    let result = run(&stalled)?;
    let stall_ms = STALL.as_secs_f64() * 1e3;
    let expected = [(97.5, stall_ms / 2.0), (100.0, stall_ms)];
    compare("stall of 200 ms,", &result, &responder.since_due(&result, STALL_RATE), &expected);
    Ok(checks)
}
