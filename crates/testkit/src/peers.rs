//! Programs that tests compare with. A test without its peer passes, but its absence is not silent: each is a
//! line in a file below `target/`, which `./x ci` counts, and an error where the peer was to be there.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names, separated by spaces, of programs whose absence fails a test: `.ci/run` sets it to those that it has
/// installed.
pub const REQUIRED: &str = "MARTLET_REQUIRED_PEERS";

/// Where skipped comparisons are noted, a line each: the test's name and its reason. `./x ci` empties it.
pub fn notes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/skipped-tests.txt")
}

/// Whether a program is installed. If it is not, the calling test is noted as skipped.
///
/// # Panics
/// Where the program is missing although [`REQUIRED`] names it.
pub fn is_installed(program: &str) -> bool {
    // Programs differ in how they show their version; starting at all is what counts.
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    let found = quiet(Command::new(program).arg("--version"));
    if !found {
        require(program, &std::env::var(REQUIRED).unwrap_or_default());
        skip(&format!("{program} is not installed"));
    }
    found
}

/// Notes that the calling test, or a part of it, is skipped, and why.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    println!("SKIPPED {test}: {reason}");
    let written = OpenOptions::new().create(true).append(true).open(notes());
    if let Err(error) = written.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()))
    {
        println!("this is not noted in {}: {error}", notes().display());
    }
}

fn require(program: &str, required: &str) {
    let is_required = required.split_whitespace().any(|name| name == program);
    assert!(!is_required, "{program} is not installed, although {REQUIRED} names it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_program_may_not_be_missing() {
        require("redis-server", "redis-cli redis-benchmark");
        require("redis-server", "");
        let refused = std::panic::catch_unwind(|| require("redis-cli", "redis-server redis-cli"));
        assert!(refused.is_err());
    }

    #[test]
    fn the_shell_is_installed() {
        assert!(is_installed("true"));
    }
}
