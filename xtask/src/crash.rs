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

/// Runs the test `crash` with this number of rounds.
pub fn run(options: &Options) -> Outcome {
    repeat("crash::", "CRASH", options.rounds, options.seed)
}

/// Runs the tests that `filter` names, with their settings from `MARTLET_{name}_…`.
pub fn repeat(filter: &str, name: &str, rounds: u64, seed: Option<u64>) -> Outcome {
    let mut command = Command::new("cargo");
    command.args(["test", "-p", "martlet", "--test", "all", filter, "--", "--nocapture"]).current_dir(root());
    command.env(format!("MARTLET_{name}_ROUNDS"), rounds.to_string());
    if let Some(seed) = seed {
        command.env(format!("MARTLET_{name}_SEED"), seed.to_string());
    }
    step(&mut command)
}
