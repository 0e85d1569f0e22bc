//! Whether the client, not the server, was the limit of a run, and whose fault that was: the client's own
//! work, or a machine that had no core for it. More threads help against the first only.

use super::{RunResult, ThreadTime};
use crate::plan::{Pacing, Plan};

/// From this share of its time on, a thread that runs has no room left.
const FULL: f64 = 0.9;
/// From this share on, waiting for a core explains lateness.
const STARVED: f64 = 0.01;
/// A client that sends this many of a hundred requests late by [`LATE_MS`] does not hold its schedule.
const LATE_PERCENT: f64 = 1.0;
const LATE_MS: f64 = 1.0;

/// Share of the requests that were due, or of the rate, from which on a rate counts as kept.
pub const KEPT: f64 = 0.98;

/// From this multiple of the least latency on, being behind the schedule is a backlog.
const BACKLOG: f64 = 5.0;

/// What limits the meaning of a run's figures, in sentences.
pub fn warnings(plan: &Plan, result: &RunResult) -> Option<String> {
    joined([client_limit(plan, result), server_warnings(plan, result)])
}

/// The warnings about the server, without those about the client.
pub fn server_warnings(plan: &Plan, result: &RunResult) -> Option<String> {
    joined([rate_not_kept(plan, result), nothing_found(result)])
}

fn joined(warnings: [Option<String>; 2]) -> Option<String> {
    warnings.into_iter().flatten().reduce(|all, next| format!("{all}; {next}"))
}

/// A warning where a server, or the client, could not keep the rate that was asked for.
fn rate_not_kept(plan: &Plan, result: &RunResult) -> Option<String> {
    let Pacing::Open { rate, poisson } = plan.pacing else { return None };
    let (late, due) = (result.late() + result.lost, result.due());
    // How far the replies were behind the schedule at its end: with a time, by the requests without a reply;
    // with a number of requests, by the time that they took beyond it.
    let (is_near, behind_s) = match plan.duration {
        Some(_) => (result.in_time_share() >= KEPT, late as f64 / rate),
        None => (result.rate() >= rate * KEPT, result.elapsed.as_secs_f64() - due as f64 / rate),
    };
    // The latency of every request puts all replies behind, and keeps the rate; random gaps add up.
    let least_s = result.all_latencies().min_ms() / 1e3;
    let random_s = if poisson { 3.0 * (due as f64).sqrt() / rate } else { 0.0 };
    let is_kept = is_near || behind_s <= BACKLOG * least_s + random_s;
    (!is_kept && result.partial.is_none()).then(|| {
        format!(
            "the rate was not kept: {:.0} of {rate:.0} requests/s were answered in time, {} of {due} requests after the \
             end or not at all",
            result.rate(),
            late
        )
    })
}

/// A warning where requests of a command found nothing at all: a miss does not cost as much as a hit.
fn nothing_found(result: &RunResult) -> Option<String> {
    let empty: Vec<String> = result
        .commands
        .iter()
        .filter(|command| command.nulls > 0 && command.nulls == command.latencies.count())
        .map(|command| format!("{} ({})", command.name, command.nulls))
        .collect();
    (!empty.is_empty()).then(|| {
        format!(
            "every reply was null, as of keys that do not exist: {}; load the data first",
            empty.join(", ")
        )
    })
}

/// A warning where the client may have been the limit.
fn client_limit(plan: &Plan, result: &RunResult) -> Option<String> {
    let most = |share: fn(&ThreadTime) -> f64| result.threads.iter().map(share).fold(0.0, f64::max);
    let (busy, waited, wanted) = (most(|t| t.busy), most(|t| t.waited), most(|t| t.busy + t.waited));
    // Polling fills a core on purpose.
    let polls = plan.spin.is_some_and(|spin| !spin.is_zero());
    if busy > FULL && !polls {
        return Some(format!(
            "a client thread was on the CPU {:.0} % of the time: the client may be the limit, not the server; use more --threads",
            busy * 100.0
        ));
    }
    if wanted > FULL && waited > STARVED && !polls {
        return Some(format!(
            "a client thread had work {:.0} % of the time, but waited {:.0} % of it for a core: this machine was the limit, \
             neither client nor server; give the client a separate core (--cores)",
            wanted * 100.0,
            waited * 100.0
        ));
    }
    let Pacing::Open { rate, .. } = plan.pacing else { return None };
    let lag_ms = result.send_lag.percentile_ms(100.0 - LATE_PERCENT);
    if lag_ms <= LATE_MS {
        return None;
    }
    let late = format!(
        "{LATE_PERCENT} % of requests left the client {lag_ms:.3} ms or more after they were due although a connection was free"
    );
    Some(match () {
        () if waited > STARVED => format!(
            "{late}: other work on this machine kept the client waiting for a core {:.0} % of the time, and the latencies \
             contain that; neither client nor server was the limit",
            waited * 100.0
        ),
        () if busy > FULL / 2.0 => {
            format!("{late}: the client cannot hold {rate:.0} requests/s; use more --threads")
        }
        () => format!(
            "{late}: the client was idle, so this machine wakes it late (martlet bench calibrate shows how late); \
             the latencies contain that"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latencies;
    use crate::plan::Target;
    use crate::template::Template;
    use std::time::Duration;

    fn warning(busy: f64, waited: f64, lag_ms: u64, rate: Option<f64>) -> Option<String> {
        let target = Target { nodes: Vec::new(), prelude: Vec::new(), prelude_replies: 0, tls: None };
        let mut plan = Plan::single(target, "GET", Template::raw(b""));
        if let Some(rate) = rate {
            plan.pacing = Pacing::Open { rate, poisson: false };
        }
        let mut send_lag = Latencies::new();
        send_lag.record(lag_ms * 1_000_000, 100);
        let threads = vec![ThreadTime { busy: 0.1, waited: 0.0 }, ThreadTime { busy, waited }];
        let result =
            RunResult { send_lag, threads, elapsed: Duration::from_secs(10), ..RunResult::default() };
        client_limit(&plan, &result)
    }

    /// A run of open loop at 1,000 requests/s: seconds, requests in time, late and lost; milliseconds of the
    /// quickest request and of the others.
    fn kept(
        time: Option<u64>,
        elapsed_s: f64,
        [in_time, late, lost]: [u64; 3],
        quickest_ms: u64,
        usual_ms: u64,
    ) -> bool {
        let target = Target { nodes: Vec::new(), prelude: Vec::new(), prelude_replies: 0, tls: None };
        let mut plan = Plan::single(target, "GET", Template::raw(b""));
        (plan.pacing, plan.duration) =
            (Pacing::Open { rate: 1000.0, poisson: false }, time.map(Duration::from_secs));
        let mut command = crate::engine::CommandResult { late, ..Default::default() };
        command.latencies.record(quickest_ms * 1_000_000, (in_time + late) / 10);
        command.latencies.record(usual_ms * 1_000_000, in_time + late - (in_time + late) / 10);
        let result = RunResult {
            commands: vec![command],
            lost,
            elapsed: Duration::from_secs_f64(elapsed_s),
            ..RunResult::default()
        };
        let warning = server_warnings(&plan, &result);
        assert!(
            warning
                .as_ref()
                .is_none_or(|text| text.contains(&format!("{in_time} of 1000")) || elapsed_s != 1.0)
        );
        warning.is_none()
    }

    #[test]
    fn a_rate_that_is_not_kept_is_named() {
        // With a time: nearly all in time; half of them late, by a backlog; lost instead of late.
        assert!(kept(Some(1), 1.0, [995, 5, 0], 1, 1));
        assert!(!kept(Some(1), 1.0, [500, 500, 0], 1, 400));
        assert!(!kept(Some(1), 1.0, [500, 0, 500], 1, 400));
        // Fewer were due than the mean says, as random gaps have it.
        assert!(kept(Some(1), 1.0, [900, 1, 0], 1, 1));
        // A server that takes 100 ms for each, and keeps the rate.
        assert!(kept(Some(1), 1.0, [900, 100, 0], 100, 100));
        // With a number of requests: in the time that they have, or in twice that.
        assert!(kept(None, 1.0, [1000, 0, 0], 1, 1));
        assert!(kept(None, 1.1, [1000, 0, 0], 100, 100));
        assert!(!kept(None, 2.0, [1000, 0, 0], 1, 500));
    }

    #[test]
    fn misses_alone_are_named_by_their_commands() {
        let command = |name: &str, requests, nulls| {
            let mut command = crate::engine::CommandResult { name: name.into(), nulls, ..Default::default() };
            command.latencies.record(1000, requests);
            command
        };
        let found = |commands| nothing_found(&RunResult { commands, ..RunResult::default() });
        let text = found(vec![command("GET", 5, 5), command("SET", 5, 0), command("LPOP", 7, 7)]);
        assert!(text.is_some_and(|text| text.contains("keys that do not exist: GET (5), LPOP (7);")));
        assert_eq!(found(vec![command("GET", 5, 4), command("SET", 0, 0)]), None);
    }

    #[test]
    fn the_one_at_fault_is_named() {
        for (busy, waited, lag_ms, rate, expected) in [
            (0.5, 0.3, 0, None, None),
            (0.95, 0.0, 0, None, Some("use more --threads")),
            // Half a core each for two: more threads would not help.
            (0.5, 0.48, 0, None, Some("this machine was the limit")),
            (0.2, 0.0, 0, Some(1000.0), None),
            (0.8, 0.0, 5, Some(1000.0), Some("cannot hold 1000 requests/s; use more --threads")),
            (0.2, 0.2, 5, Some(1000.0), Some("kept the client waiting for a core 20 %")),
            (0.2, 0.0, 5, Some(1000.0), Some("wakes it late")),
        ] {
            let got = warning(busy, waited, lag_ms, rate);
            assert_eq!(got.is_some(), expected.is_some(), "{busy} {waited} {lag_ms}: {got:?}");
            assert!(expected.is_none_or(|e| got.clone().unwrap_or_default().contains(e)), "{got:?}");
        }
    }
}
