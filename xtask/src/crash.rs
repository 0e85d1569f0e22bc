//! `./x crash`: the server is killed under load, again and again.

use crate::run::{Outcome, root, step};
use std::process::Command;

/// How often, and from which seed on.
#[derive(clap::Args)]
pub struct Options {
    /// Rounds; each starts a server two to five times, and kills it under load.
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Seed of the first round; the following ones count on. Drawn when absent.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the test `crash` with so many rounds.
pub fn run(options: &Options) -> Outcome {
    let mut command = Command::new("cargo");
    command.args(["test", "-p", "martlet", "--test", "crash", "--", "--nocapture"]).current_dir(root());
    command.env("MARTLET_CRASH_ROUNDS", options.rounds.to_string());
    if let Some(seed) = options.seed {
        command.env("MARTLET_CRASH_SEED", seed.to_string());
    }
    step(&mut command)
}
