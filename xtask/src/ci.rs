//! `./x ci`: everything that a change must pass, from a clean clone; `.ci/run` installs its needs and runs
//! this.

use crate::run::{Outcome, cargo, is_installed, root};
use crate::{checks, cost, dashboard, docs, man, python, report_page, tools};
use clap::Parser;
use martlet_testkit::server::Server;
use std::process::Command;

/// In this order: what fails fastest comes first.
pub fn run() -> Outcome {
    checks::sources()?;
    docs::check()?;
    cargo(&["build", "--workspace"])?;
    man::make(&root().join("target/debug/martlet"))?;
    cargo(&["test", "--workspace"])?;
    python::run(&parse(&["bench-python"]))?;
    bench_smoke()
}

/// That the server takes load and the tools that measure it run; no figure of it counts.
pub fn bench_smoke() -> Outcome {
    cargo(&["build", "--release"])?;
    let program = root().join("target/release/martlet");
    let server = Server::start(&program, &["server", "--enable-debug-command", "yes"])?;
    let port = server.address().port().to_string();
    if is_installed("redis-benchmark", "--version") {
        tools::quick(&port)?;
    } else {
        eprintln!("x: redis-benchmark is NOT installed; the run of Redis' tools is left out");
    }
    drop(server);
    calibrate(&program)?;
    report_page::run(&parse(&["bench-report"]))?;
    dashboard::run(&parse(&["dashboard"]))?;
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
    let output = output.to_string_lossy().into_owned();
    cost::run(&parse(&["bench-cost", "--quick", "--rows", "set-p16,get-p16,memory-20", "--output", &output]))
}

/// How often calibrate may try until all of its readings are good.
const CALIBRATE_TRIES: usize = 3;

/// The load tester against responders of known delays. It must run to its end; its readings are shown but
/// decide nothing: with several times more work than cores, two samples of the same waits taken at the same
/// time differ by more than the tolerance.
fn calibrate(program: &std::path::Path) -> Outcome {
    for _ in 0..CALIBRATE_TRIES {
        let status = Command::new(program).args(["bench", "calibrate"]).status()?;
        match status.code() {
            Some(0) => return Ok(()),
            Some(1) => eprintln!("x: calibrate was out of tolerance"),
            _ => return Err(format!("bench calibrate: {status}").into()),
        }
    }
    eprintln!(
        "x: calibrate was out of tolerance {CALIBRATE_TRIES} times; it counts on a machine of one's own"
    );
    Ok(())
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
