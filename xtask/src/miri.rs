//! `./x miri`: the tests of the crates with unsafe code under Miri, which finds undefined behaviour that no
//! test notices.
//!
//! Tests are some thousand times slower there: those with many steps take few of them under `cfg(miri)`,
//! those that need many, or call C, are ignored.

use crate::run::{Outcome, root, step};
use std::process::Command;

/// A crate, and what of it is run.
struct Tested {
    package: &'static str,
    targets: &'static [&'static str],
    flags: &'static str,
}

/// The crates whose unsafe code works on memory of their own, and calls nothing that Miri does not know.
/// Clocks, files and randomness are the machine's.
const CRATES: &[Tested] = &[
    Tested { package: "martlet-base", targets: &["--lib"], flags: "-Zmiri-disable-isolation" },
    Tested { package: "martlet-types", targets: &["--lib"], flags: "-Zmiri-disable-isolation" },
    Tested {
        package: "martlet-keyspace",
        targets: &["--lib", "--test", "model"],
        // A segment's slots are numbers: an entry's address below 16 bits of its key's hash.
        flags: "-Zmiri-disable-isolation -Zmiri-permissive-provenance",
    },
];
/// Cases of a property that does not say how many.
const PROPERTY_CASES: &str = "1";

/// The tests to run.
#[derive(clap::Args)]
pub struct Options {
    /// One crate; all in turn when absent.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(CRATES.iter().map(|c| c.package)))]
    package: Option<String>,
    /// Only the tests whose names contain this.
    test: Option<String>,
}

/// Runs them; needs a nightly toolchain with Miri.
pub fn run(options: &Options) -> Outcome {
    let miri = || {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "miri"]).current_dir(root()).env_remove("RUSTUP_TOOLCHAIN");
        command
    };
    if !miri().arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Err("Miri is not installed: rustup component add --toolchain nightly miri rust-src".into());
    }
    let is_meant =
        |tested: &&Tested| options.package.as_deref().is_none_or(|chosen| chosen == tested.package);
    for Tested { package, targets, flags } in CRATES.iter().filter(is_meant) {
        let mut command = miri();
        command.args(["test", "-p", package]).args(*targets).arg("--").args(&options.test);
        step(command.env("MIRIFLAGS", flags).env("PROPTEST_CASES", PROPERTY_CASES))?;
    }
    Ok(())
}
