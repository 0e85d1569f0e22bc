//! `./x failovers`: replicas of a cluster take over under load, again and again.

use crate::crash::repeat;
use crate::run::Outcome;

/// How often, and from which seed.
#[derive(clap::Args)]
pub struct Options {
    /// Failovers of one cluster with `martlet-sync-replicas 1`, which may lose nothing, and as many without.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Drawn when absent.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the checker of acknowledged writes with this number of failovers.
pub fn run(options: &Options) -> Outcome {
    repeat("cluster::losses", "FAILOVER", options.rounds, options.seed)
}
