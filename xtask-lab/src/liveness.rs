//! `./x fuzz liveness`: any request in any context, against real processes, on the stable toolchain.

use martlet_testkit::liveness::{self, Limits};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xtask::run::{Outcome, built, cargo, root};

/// Steps of a round.
const STEPS: usize = 1500;

/// How long, and on which program.
#[derive(clap::Args)]
pub struct Options {
    /// Seconds of rounds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The first round's seed; by the clock when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// The server, in place of a fresh build with assertions and checked arithmetic.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Runs rounds until the time is over.
pub fn run(options: &Options) -> Outcome {
    let (seconds, seed) = (options.seconds, options.seed);
    let program = match &options.program {
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
