//! Tests the tool itself: against a responder of known delays its percentiles must be right, and a known stall must
//! appear at its true size in open loop.

use crate::engine::{self, RunResult, Silent};
use crate::latency::Latencies;
use crate::null::{self, Behaviour};
use crate::plan::{Node, Pacing, Plan, Target};
use crate::template::Template;
use martlet_client::address::Address;
use std::sync::Arc;
use std::time::Duration;

/// Tolerance: the larger of both.
const RELATIVE: f64 = 0.02;
const ABSOLUTE_MS: f64 = 0.020;
/// The known stall, and the rate that runs into it.
const STALL: Duration = Duration::from_millis(200);
const STALL_RATE: f64 = 2000.0;

fn plan(port: u16) -> Plan {
    let address = Address::Tcp(([127, 0, 0, 1], port).into());
    let node = Node { address, tags: Arc::new([]), slots: Arc::new([]) };
    let target = Target { nodes: vec![node], prelude: Vec::new(), prelude_replies: 0, tls: None };
    Plan::single(target, "PING", Template::classic(&["PING"], None, false))
}

struct Check {
    name: String,
    expected_ms: f64,
    measured_ms: f64,
}

impl Check {
    fn holds(&self) -> bool {
        (self.measured_ms - self.expected_ms).abs() <= (self.expected_ms * RELATIVE).max(ABSOLUTE_MS)
    }
}

fn serve(behaviour: Behaviour) -> Result<u16, String> {
    null::serve(0, behaviour).map_err(|e| format!("the responder cannot listen: {e}"))
}

fn percentiles(
    checks: &mut Vec<Check>,
    name: &str,
    latencies: &Latencies,
    expected: &[(f64, f64)],
    floor_ms: f64,
) {
    for (percent, delay_ms) in expected {
        checks.push(Check {
            name: format!("{name} p{percent}"),
            expected_ms: delay_ms + floor_ms,
            measured_ms: latencies.percentile_ms(*percent),
        });
    }
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
            println!("{:<34} {:>12} {:>12}", "check", "expected ms", "measured ms");
            let mut failed = 0;
            for check in &checks {
                let holds = check.holds();
                failed += usize::from(!holds);
                let mark = if holds { "ok" } else { "OUT OF TOLERANCE" };
                println!(
                    "{:<34} {:>12.3} {:>12.3}  {mark}",
                    check.name, check.expected_ms, check.measured_ms
                );
            }
            println!("{} of {} within 2 % or 20 us", checks.len() - failed, checks.len());
            i32::from(failed > 0)
        }
    }
}

fn checks() -> Result<Vec<Check>, String> {
    let mut checks = Vec::new();
    // What the path itself costs, so that the delays can be told from it.
    let port = serve(Behaviour { delays: vec![Duration::from_micros(500)], stall: None })?;
    let mut base = plan(port);
    (base.connections, base.requests) = (1, 2000);
    let closed = run(&base)?;
    println!("client CPU per request against the null responder: {:.2} us", {
        let cpu = closed.client_cpu.0 + closed.client_cpu.1;
        cpu.as_secs_f64() * 1e6 / closed.requests().max(1) as f64
    });
    let floor_ms = (closed.all_latencies().percentile_ms(50.0) - 0.5).max(0.0);
    println!("cost of the path: {floor_ms:.3} ms");

    // Nine replies of 1 ms, one of 5 ms.
    let mut delays = vec![Duration::from_millis(1); 9];
    delays.push(Duration::from_millis(5));
    let expected = [(50.0, 1.0), (89.0, 1.0), (95.0, 5.0), (99.0, 5.0)];
    let port = serve(Behaviour { delays, stall: None })?;
    let mut slow = plan(port);
    (slow.connections, slow.requests) = (2, 3000);
    percentiles(
        &mut checks,
        "closed loop, delays 1 and 5 ms,",
        &run(&slow)?.all_latencies(),
        &expected,
        floor_ms,
    );
    slow.pacing = Pacing::Open { rate: 300.0, poisson: false };
    (slow.connections, slow.requests, slow.duration) = (20, 0, Some(Duration::from_secs(5)));
    percentiles(
        &mut checks,
        "open loop, delays 1 and 5 ms,",
        &run(&slow)?.all_latencies(),
        &expected,
        floor_ms,
    );

    // A stall of 200 ms in 4 s at 2,000/s: 400 of 8,000 requests were due in it and waited 200 ms … 0.
    let port = serve(Behaviour { delays: Vec::new(), stall: Some((Duration::from_secs(1), STALL)) })?;
    let mut stalled = plan(port);
    stalled.pacing = Pacing::Open { rate: STALL_RATE, poisson: false };
    (stalled.connections, stalled.duration) = (10, Some(Duration::from_secs(4)));
    let result = run(&stalled)?;
    let all = result.all_latencies();
    let stall_ms = STALL.as_secs_f64() * 1e3;
    checks.push(Check {
        name: "stall of 200 ms, maximum".into(),
        expected_ms: stall_ms,
        measured_ms: all.max_ms(),
    });
    // 5 % of all requests were due in the stall: the 97.5th percentile is its middle.
    checks.push(Check {
        name: "stall of 200 ms, p97.5".into(),
        expected_ms: stall_ms / 2.0,
        measured_ms: all.percentile_ms(97.5),
    });
    Ok(checks)
}
