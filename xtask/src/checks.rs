//! `./x check`: checks of the sources that need no run.

use crate::lab;
use crate::run::{Outcome, cargo, is_installed, root, step};
use std::process::Command;

/// Format, clippy, licences; and whether it compiles for the other targets of a release.
pub fn check() -> Outcome {
    sources()?;
    lab::run(&["check-targets"])
}

/// Format, clippy, licences.
fn sources() -> Outcome {
    form()?;
    step(&mut clippy())
}

/// Clippy, with warnings denied.
pub fn clippy() -> Command {
    let mut command = Command::new("cargo");
    command.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).current_dir(root());
    command
}

/// Format and licences, which need no build.
pub fn form() -> Outcome {
    cargo(&["fmt", "--all", "--check"])?;
    if is_installed("cargo-deny", "--version") {
        cargo(&["deny", "check", "licenses", "bans", "sources"])
    } else {
        eprintln!("x: cargo-deny is not installed; licences are NOT checked (cargo install cargo-deny)");
        Ok(())
    }
}
