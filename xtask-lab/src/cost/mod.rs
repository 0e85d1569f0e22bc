//! `./x bench-cost`: server CPU per request and memory, ours against a peer, in one run.
//!
//! Both servers are pinned to core 0 with one I/O thread and take turns (A B A B…); the load runs on core 1.
//! The figure is CPU time from the kernel's accounts, divided by the requests answered: unlike throughput it
//! hardly moves with what else the machine does. Every reading is a line of JSON under `results/`, and the
//! table is made from those lines.

pub mod measure;
pub mod process;
mod rows;
mod table;

use measure::Setup;
use std::path::PathBuf;
use std::time::Duration;
use xtask::run::{Outcome, built, in_root, root, text_of};

/// The readings that the repository keeps.
const READINGS: &str = "results/cost.jsonl";

/// The measurements to take and their length.
#[derive(clap::Args)]
pub struct Options {
    /// Rows by prefix of their names, separated by commas; all when absent. `list` prints them.
    #[arg(long, default_value = "")]
    rows: String,
    /// Readings of each server in a row; the median counts.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of load in a reading.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Three short readings, smaller data sets: to see that everything runs, not to be published.
    #[arg(long)]
    quick: bool,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peer's program.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// The peer's program in the rows of modules' commands. A row of a command that it does not have is left
    /// out.
    #[arg(long, default_value = "redis-stack-server")]
    module_peer: PathBuf,
    /// Core of the servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the load.
    #[arg(long, default_value_t = 1)]
    load_core: usize,
    /// Where the readings are appended.
    #[arg(long, default_value_os_t = in_root(READINGS))]
    output: PathBuf,
    /// Only make the table from readings already there.
    #[arg(long)]
    table: bool,
}

/// Measures, then prints the table.
pub fn run(options: &Options) -> Outcome {
    if options.rows == "list" {
        rows::ROWS.iter().for_each(|row| println!("{:18} {}", row.name, row.template));
        return Ok(());
    }
    if !options.table {
        let setup = Setup {
            ours: built(&options.ours)?,
            peer: options.peer.clone(),
            module_peer: options.module_peer.clone(),
            server_core: options.server_core,
            rounds: if options.quick { 3 } else { options.rounds },
            span: Duration::from_secs_f64(if options.quick { 0.25 } else { options.seconds }),
            quick: options.quick,
            output: options.output.clone(),
        };
        process::raise_open_files();
        process::pin_load(options.load_core)?;
        let chosen: Vec<&str> = options.rows.split(',').filter(|name| !name.is_empty()).collect();
        for row in rows::ROWS {
            if chosen.is_empty() || chosen.iter().any(|prefix| row.name.starts_with(prefix)) {
                measure::row(&setup, row)?;
            }
        }
    }
    let readings = text_of(&options.output)?;
    println!("{}", table::from_readings(&readings, &[])?);
    // Pages show the readings that the repository keeps.
    if !options.quick && std::path::absolute(&options.output)? == in_root(READINGS) {
        table::put_into_pages(&root(), &readings)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `./x docs` runs this test by its name.
    #[test]
    fn pages_show_the_figures_that_the_repository_keeps() {
        let readings = text_of(&in_root(READINGS)).expect("the readings");
        let outdated = table::outdated_pages(&root(), &readings).expect("the pages");
        assert_eq!(outdated, [""; 0], "their tables are not of {READINGS}: ./x bench-cost --table");
    }
}
