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
    /// Sentinels, the servers that they watch and their clients: the same faults, elections, failovers.
    Sentinel(SentinelSeeds),
    /// The same, for what `martlet-sync-replicas` promises: with none of them, with one replica and with all;
    /// all faults, all but those in which a server forgets, and kills of servers.
    Replication(ReplicationSeeds),
}

/// Which runs of Sentinels.
#[derive(clap::Args)]
struct SentinelSeeds {
    /// Sentinels and servers; 3 and 3, and 5 and 5, when absent.
    #[arg(long, num_args = 2, value_parser = clap::value_parser!(u64).range(2..=100))]
    sizes: Option<Vec<u64>>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Duration of the faults in each, in milliseconds of simulated time.
    #[arg(long, default_value_t = 120_000)]
    faults_ms: u64,
    /// An operator asks for failovers, among the faults.
    #[arg(long)]
    operator: bool,
}

/// Which runs of servers that replicate.
#[derive(clap::Args)]
struct ReplicationSeeds {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many, for each of the settings.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Duration of the faults in each, in milliseconds of simulated time.
    #[arg(long, default_value_t = 120_000)]
    faults_ms: u64,
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
    /// Duration of the faults in each, in milliseconds of simulated time.
    #[arg(long, default_value_t = 60_000)]
    faults_ms: u64,
    /// Slots are moved, and primaries taken over without votes, among the faults.
    #[arg(long)]
    operator: bool,
}

/// Runs the simulations.
pub fn run(options: &Options) -> Outcome {
    match &options.subject {
        Subject::Cluster(seeds) => run_cluster(seeds),
        Subject::Sentinel(seeds) => run_sentinel(seeds),
        Subject::Replication(seeds) => run_replication(seeds),
    }
}

fn run_sentinel(seeds: &SentinelSeeds) -> Outcome {
    let sizes = match seeds.sizes.as_deref() {
        Some(&[sentinels, servers]) => vec![[sentinels, servers]],
        _ => vec![[3, 3], [5, 5]],
    };
    for [sentinels, servers] in sizes {
        let numbers = [sentinels, servers, seeds.first, seeds.seeds, seeds.faults_ms, 0];
        let words: &[&str] = if seeds.operator { &["operator"] } else { &[] };
        simulate("martlet-sentinel", &numbers, words)?;
    }
    Ok(())
}

/// Sentinels, servers, replicas that replies wait for, and which faults.
const REPLICATION: &[([u64; 3], &[&str])] = &[
    ([3, 3, 0], &[]),
    ([3, 3, 0], &["failovers"]),
    ([3, 3, 1], &["failovers"]),
    ([3, 3, 2], &["failovers"]),
    ([3, 3, 2], &["gentle", "failovers"]),
    ([5, 4, 3], &["gentle", "failovers"]),
    ([3, 3, 1], &["kills"]),
    ([3, 4, 2], &["kills"]),
];

fn run_replication(seeds: &ReplicationSeeds) -> Outcome {
    for ([sentinels, servers, sync_replicas], words) in REPLICATION {
        let numbers = [*sentinels, *servers, seeds.first, seeds.seeds, seeds.faults_ms, *sync_replicas];
        simulate("martlet-sentinel", &numbers, words)?;
    }
    Ok(())
}

/// Runs a crate's example `simulate`.
fn simulate(package: &str, numbers: &[u64], words: &[&str]) -> Outcome {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let program = ["run", "-q", "--release", "-p", package, "--features", "simulation", "--example"];
    let arguments = ["simulate", "--"].into_iter().chain(numbers.iter().map(String::as_str));
    let arguments = arguments.chain(words.iter().copied());
    cargo(&program.into_iter().chain(arguments).collect::<Vec<_>>())
}

fn run_cluster(seeds: &Seeds) -> Outcome {
    let sizes = match seeds.nodes {
        Some(nodes) => vec![(nodes, seeds.seeds)],
        None => [(7, 1), (12, 1), (30, 10), (100, 100)]
            .map(|(nodes, part)| (nodes, seeds.seeds.div_ceil(part)))
            .to_vec(),
    };
    for (nodes, count) in sizes {
        let words: &[&str] = if seeds.operator { &["operator"] } else { &[] };
        simulate("martlet-cluster", &[nodes, seeds.first, count, seeds.faults_ms], words)?;
    }
    Ok(())
}
