//! `./x fuzz liveness`: any request in any context, against real processes, on the stable toolchain.

use martlet_testkit::liveness::{self, Limits};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::run::{Outcome, built, cargo, root};

/// The target's name among those of `./x fuzz`.
pub const TARGET: &str = "liveness";
/// Steps of a round.
const STEPS: usize = 1500;

/// Runs rounds for so many seconds, from this seed or one of the clock's, on this program or a fresh build
/// with assertions and checked arithmetic.
pub fn run(seconds: u64, seed: Option<u64>, program: Option<&Path>) -> Outcome {
    let program = match program {
        Some(program) => built(program)?,
        None => {
            cargo(&["build", "-q", "-p", "martlet"])?;
            root().join("target/debug/martlet")
        }
    };
    let from_clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let options = liveness::Options {
        seed: seed.unwrap_or_else(from_clock),
        time: Duration::from_secs(seconds),
        steps: STEPS,
        limits: Limits::default(),
    };
    let outcome = liveness::run(&program, &options, |line| eprintln!("{line}"))?;
    let liveness::Outcome { rounds, steps, refused, .. } = outcome;
    let count = outcome.findings.len();
    eprintln!("x: liveness: {rounds} rounds, {steps} steps, {refused} of them refused, {count} findings");
    match count {
        0 => Ok(()),
        _ => Err(format!("liveness: {count} findings").into()),
    }
}
