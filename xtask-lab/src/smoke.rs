//! `./x bench-smoke`: the server takes load, and the tools that measure it run to their ends. No figure of it
//! counts, so it runs on any build of the program.

use crate::{browser, cost, dashboard, report_page, tools};
use clap::Parser;
use martlet_testkit::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::run::{Outcome, built, in_root, is_installed, root};

/// Which program, and how much of it.
#[derive(clap::Args)]
pub struct Options {
    /// The program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// Open no pages in a browser.
    #[arg(long)]
    without_pages: bool,
}

/// Runs every tool once.
pub fn run(options: &Options) -> Outcome {
    let program = built(&options.ours)?;
    let server = Server::start(&program, &["server", "--enable-debug-command", "yes"])?;
    let port = server.address().port().to_string();
    if is_installed("redis-benchmark", "--version") {
        tools::quick(&port)?;
    } else {
        eprintln!("x: redis-benchmark is NOT installed; the run of Redis' tools is left out");
    }
    drop(server);
    calibrate(&program)?;
    if !options.without_pages {
        let pages = browser::Options { ours: program.clone(), keep: None };
        report_page::run(&pages)?;
        dashboard::run(&pages)?;
    }
    cost(&program)
}

/// A few rows of the cost table.
fn cost(program: &Path) -> Outcome {
    if !is_installed("redis-server", "--version") {
        eprintln!("x: redis-server is NOT installed; the cost measurement is left out");
        return Ok(());
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("x: one core only; the cost measurement is left out");
        return Ok(());
    }
    let output = root().join("target/cost-smoke.jsonl");
    let _ = std::fs::remove_file(&output);
    let (output, program) = (output.to_string_lossy(), program.to_string_lossy());
    let words =
        ["bench-cost", "--quick", "--rows", "set-p16,get-p16,memory-20", "--output", &output, "--ours"];
    cost::run(&parse(&words.into_iter().chain([&*program]).collect::<Vec<_>>()))
}

/// The load tester against responders of known delays. It must run to its end; its readings are shown but
/// decide nothing: with several times more work than cores, two samples of the same waits taken at the same
/// time differ by more than the tolerance.
fn calibrate(program: &Path) -> Outcome {
    let status = Command::new(program).args(["bench", "calibrate"]).status()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => {
            eprintln!("x: calibrate was out of tolerance; its readings count on a quiet machine");
            Ok(())
        }
        _ => Err(format!("bench calibrate: {status}").into()),
    }
}

/// The options of a chore, as its command line gives them.
fn parse<O: clap::Args>(arguments: &[&str]) -> O {
    #[derive(Parser)]
    struct Of<O: clap::Args> {
        #[command(flatten)]
        options: O,
    }
    Of::parse_from(arguments).options
}
