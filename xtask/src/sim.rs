//! `./x sim SUBJECT`: seeded simulations of many nodes, built with optimisation. A failing seed is printed
//! and fails the chore; `--first SEED --seeds 1` runs it again.

use crate::run::{Outcome, cargo};

/// What to simulate, and how much.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand)]
enum Subject {
    /// The cluster bus: partitions, crashes, pauses, clocks that jump, failovers.
    Cluster(Seeds),
}

/// Which runs.
#[derive(clap::Args)]
struct Seeds {
    /// Nodes of the cluster; 7, 12, 30 and 100 in turn when absent, the larger ones with fewer seeds.
    #[arg(long, value_parser = clap::value_parser!(u64).range(3..=1000))]
    nodes: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// How long faults go on in each, in milliseconds of simulated time.
    #[arg(long, default_value_t = 60_000)]
    faults_ms: u64,
    /// Slots are moved, and primaries taken over without votes, among the faults.
    #[arg(long)]
    operator: bool,
}

/// Runs the simulations.
pub fn run(options: &Options) -> Outcome {
    let Subject::Cluster(seeds) = &options.subject;
    let sizes = match seeds.nodes {
        Some(nodes) => vec![(nodes, seeds.seeds)],
        None => [(7, 1), (12, 1), (30, 10), (100, 100)]
            .map(|(nodes, part)| (nodes, seeds.seeds.div_ceil(part)))
            .to_vec(),
    };
    for (nodes, count) in sizes {
        let numbers = [nodes, seeds.first, count, seeds.faults_ms].map(|number| number.to_string());
        let program =
            ["run", "-q", "--release", "-p", "martlet-cluster", "--features", "simulation", "--example"];
        let arguments = ["simulate", "--"].into_iter().chain(numbers.iter().map(String::as_str));
        let arguments = arguments.chain(seeds.operator.then_some("operator"));
        cargo(&program.into_iter().chain(arguments).collect::<Vec<_>>())?;
    }
    Ok(())
}
