//! Shortening a finding: the end of its round that reproduces it, without the steps that it does not need.

use std::path::Path;
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::trial::{self, Finding, Limits};

/// Time for shortening one finding.
const TIME: Duration = Duration::from_secs(180);

/// Shortens a round to steps that show the same. All that was sent stays where it does not show again.
pub fn shorten(program: &Path, plan: &Plan, finding: &Finding, limits: Limits) -> Plan {
    let deadline = Instant::now() + TIME;
    let mut best = Plan { profile: plan.profile, steps: plan.steps[..finding.sent].to_vec() };
    let shows = |plan: &Plan| {
        let found = trial::run(program, plan, limits).ok().and_then(|ran| ran.finding);
        found.is_some_and(|found| found.kind() == finding.kind())
    };
    let mut len = 4;
    while len < best.steps.len() && Instant::now() < deadline {
        let tail = Plan { profile: plan.profile, steps: best.steps[best.steps.len() - len..].to_vec() };
        if shows(&tail) {
            best = tail;
            break;
        }
        len *= 4;
    }
    let mut size = (best.steps.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < best.steps.len() && Instant::now() < deadline {
            let mut without = best.clone();
            without.steps.drain(at..(at + size).min(best.steps.len()));
            if !without.steps.is_empty() && shows(&without) {
                best = without;
            } else {
                at += size;
            }
        }
        if size == 1 || Instant::now() >= deadline {
            return best;
        }
        size /= 2;
    }
}
