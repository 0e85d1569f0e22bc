//! Chores behind `./x`: each is a subcommand, and `./x ci` is what `.ci/run` runs.

mod checks;
mod cost;
mod run;
mod tidy;
mod wire;

use clap::{Parser, Subcommand};

/// The project's chores.
#[derive(Parser)]
#[command(name = "x")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Format, clippy with warnings denied, licences when cargo-deny is installed.
    Check,
    /// All tests, as the README says it: cargo test --workspace.
    Test,
    /// Server CPU per request and memory, against a peer.
    BenchCost(cost::Options),
    /// Sizes, openings, SAFETY lines, edges between crates.
    Tidy,
    /// The raw-wire suite against a running server, or the recording of a server's replies.
    Wire(wire::Options),
}

fn main() {
    let outcome = match Arguments::parse().chore {
        Chore::Check => checks::check(),
        Chore::Test => run::cargo(&["test", "--workspace"]),
        Chore::BenchCost(options) => cost::run(&options),
        Chore::Tidy => tidy::run(),
        Chore::Wire(options) => wire::run(&options),
    };
    if let Err(error) = outcome {
        eprintln!("x: {error}");
        std::process::exit(1);
    }
}
