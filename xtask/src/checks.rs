//! `./x check`: checks of the sources that need no run.

use crate::lab;
use crate::run::{Outcome, cargo, is_installed};

/// Format, clippy, licences; and whether it compiles for the other targets of a release.
pub fn check() -> Outcome {
    sources()?;
    lab::run(&["check-targets"])
}

/// Format, clippy, licences.
pub fn sources() -> Outcome {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    if is_installed("cargo-deny", "--version") {
        cargo(&["deny", "check", "licenses", "bans", "sources"])
    } else {
        eprintln!("x: cargo-deny is not installed; licences are NOT checked (cargo install cargo-deny)");
        Ok(())
    }
}
