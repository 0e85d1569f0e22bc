//! aarch64 on another machine: cross-built, and run under qemu's emulation of processes.

use super::trial::Program;
use crate::wire;
use martlet_testkit::server::Server;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::run::{Outcome, is_installed, root, step};

/// The target's name.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Compiles and links C for it.
const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Runs its programs.
const EMULATOR: &str = "qemu-aarch64";
/// Where its C library is.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// The words before a program's path.
pub const LAUNCHER: [&str; 3] = [EMULATOR, "-L", LIBRARIES];

/// The crates whose tests are run: those with unsafe code, and their dependencies.
const CRATES: &[&str] = &[
    "martlet-base",
    "martlet-types",
    "martlet-keyspace",
    "martlet-engine",
    "martlet-protocol",
    "martlet-journal",
    "martlet-rdb",
    "martlet-script",
];

/// Left out: models that loom explores exhaustively are the same on every machine, and take ten times as
/// long here.
const SKIPPED: &str = "no_interleaving";

/// The tests to run.
#[derive(clap::Args)]
pub struct Options {
    /// Only the raw-wire suite, not the crates' tests.
    #[arg(long)]
    wire_only: bool,
}

/// cargo for that target.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {LIBRARIES}"));
    command
}

/// Whether the needs of a build are there.
///
/// # Errors
/// Names the missing ones.
pub fn check() -> Outcome {
    for (program, package) in [(COMPILER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")] {
        if !is_installed(program, "--version") {
            return Err(format!("{program} is not installed (in Debian: {package})").into());
        }
    }
    Ok(())
}

/// Runs the crates' unit tests, tries the program, then runs the raw-wire suite against an emulated server.
pub fn run(options: &Options) -> Outcome {
    check()?;
    if !options.wire_only {
        let packages = CRATES.iter().flat_map(|package| ["--package", package]);
        let mut tests = cargo();
        tests.args(["test", "--target", TARGET, "--lib", "--no-fail-fast"]).args(packages);
        step(tests.args(["--", "--skip", SKIPPED]).env("PROPTEST_CASES", "8"))?;
    }
    step(cargo().args(["build", "--target", TARGET, "--package", "martlet"]))?;
    let program: PathBuf = root().join("target").join(TARGET).join("debug/martlet");
    Program::new(&LAUNCHER, &program).try_out(&tempfile::tempdir()?.path().join("data"))?;
    let program = program.to_string_lossy();
    let server = ["server", "--io-threads", "2", "--enable-debug-command", "yes"];
    let arguments = [&LAUNCHER[1..], &[&program], &server].concat();
    let server = Server::start(Path::new(EMULATOR), &arguments)?;
    wire::suite(server.address())
}
