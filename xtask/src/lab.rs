//! The chores of `xtask-lab`, which `./x` builds and runs when one of them is asked for.

use crate::run::{Outcome, root, step, target_dir};
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The names of its chores, with a line about each.
pub const CHORES: &[(&str, &str)] = &[
    ("clients", "Client libraries tour a server's commands: ours in every configuration, or a running one"),
    ("apps", "Applications that run on Redis (job queues, locks, caches) on redis-server and on ours"),
    ("tools", "redis-cli, redis-benchmark and resp-benchmark in all modes, on redis-server and on Martlet"),
    ("valkey", "Valkey's or Redis' own Tcl suite against a running server, or one that it starts"),
    ("wire", "The raw-wire suite against a running server, or the recording of a server's replies"),
    ("bench-smoke", "Checks that the server takes load and the measuring tools run"),
    ("bench-cost", "Server CPU per request and memory, against a peer"),
    ("commands-beside-redis", "Server CPU per request of every command that a peer has too"),
    ("bench-report", "The load tester's HTML report, in headless Chromium"),
    (
        "bench-python",
        "The load tester's Python wheel: built, installed, compared with resp-benchmark's class",
    ),
    ("bench-client", "The load tester's own cost of a request, against other testers and the kernel's share"),
    ("dashboard", "The page about a server, in headless Chromium"),
    ("persistence-cost", "Saving and loading RDB files against a peer: time, CPU, memory, latency of others"),
    ("fairness", "Waits of polite clients beside greedy ones, against a peer"),
    ("hit-rates", "Hit rates of a cache at its limit, by eviction policy, against a peer"),
    ("memory-limit", "Resident memory of a cache at its limit, with large values, against a peer"),
    ("memory-shapes", "Resident memory per element by shape of the data, against peers"),
    ("search-cost", "Indexes and queries, against a peer with RediSearch's commands"),
    ("scaling", "Lines of memory that threads share, a model of them on many cores, more threads than cores"),
    ("dist", "A release: archives of programs for each machine, the Debian package, the source, checksums"),
    ("deb-test", "The Debian package installed, started, upgraded and removed in a clean root"),
    ("packaging", "The unit, the rotation of logs and the chart, checked by the programs that read them"),
    ("arm", "The core's tests and the raw-wire suite on emulated aarch64"),
];

/// Whether a chore is one of the lab's.
pub fn has(chore: &str) -> bool {
    CHORES.iter().any(|(name, _)| *name == chore)
}

/// The list of its chores, as `./x help` shows it.
pub fn list() -> String {
    let lines = CHORES.iter().map(|(name, about)| format!("  {name:<16} {about}\n"));
    format!("Measuring, peers, packages:\n{}", lines.collect::<String>())
}

/// The built program: with the features that all crates together ask for, so that other builds share the
/// dependencies.
fn program() -> Result<PathBuf, Box<dyn Error>> {
    let words = ["build", "-q", "--workspace", "--bin", "xtask-lab"];
    let status = Command::new("cargo").args(words).current_dir(root()).status()?;
    match status.success() {
        true => Ok(target_dir().join("debug/xtask-lab")),
        false => Err(format!("xtask-lab cannot be built: {status}").into()),
    }
}

/// Runs a chore of the lab as a step of another one.
///
/// # Errors
/// When the chore fails.
pub fn run(words: &[&str]) -> Outcome {
    step(Command::new(program()?).args(words))
}

/// Puts a chore of the lab in this process' place.
///
/// # Errors
/// Where the lab cannot be built or started: on success the call does not return.
pub fn become_chore(words: &[OsString]) -> Outcome {
    use std::os::unix::process::CommandExt;
    Err(Command::new(program()?).args(words).exec().into())
}
