//! `./x check`: what can be said of the sources without running them.

use crate::packages;
use crate::run::{Outcome, cargo, is_installed};

/// Format, clippy, the other targets of a release, licences.
pub fn check() -> Outcome {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    packages::check_targets()?;
    if is_installed("cargo-deny", "--version") {
        cargo(&["deny", "check", "licenses", "bans", "sources"])
    } else {
        eprintln!("x: cargo-deny is not installed; licences are NOT checked (cargo install cargo-deny)");
        Ok(())
    }
}
