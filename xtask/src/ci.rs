//! `./x ci`: everything that a change must pass, from a clean clone; `.ci/run` installs its needs and runs
//! this. One build serves all: the tests' own.

use crate::changes::Changes;
use crate::run::{Outcome, cargo, root, step};
use crate::{checks, docs, man};
use std::process::Command;

/// Files that can change a manual page or a completion.
const MAN: &[&str] = &[
    "crates/bench/",
    "crates/cli/",
    "crates/martlet/",
    "crates/metrics/",
    "crates/reproduce/",
    "crates/sentinel/",
    "docs/configuration.md",
    "xtask/src/man/",
];
/// Files that can change the load tester's Python class.
const PYTHON: &[&str] = &[
    "crates/base/",
    "crates/bench/",
    "crates/client/",
    "crates/protocol/",
    "python/",
    "xtask-lab/src/python.rs",
];
/// Files that can change the pages that a browser shows.
const PAGES: &[&str] = &[
    "crates/bench/",
    "crates/metrics/",
    "xtask-lab/src/browser.rs",
    "xtask-lab/src/dashboard.rs",
    "xtask-lab/src/report_page.rs",
];

/// In this order: what fails fastest comes first.
pub fn run() -> Outcome {
    let changes = Changes::of_branch();
    checks::sources()?;
    docs::check()?;
    cargo(&["test", "--workspace"])?;
    let program = root().join("target/debug/martlet");
    if wanted(&changes, MAN, "manual pages and completions") {
        man::make(&program)?;
    }
    if wanted(&changes, PYTHON, "the Python class") {
        lab(&["bench-python"])?;
    }
    let program = program.to_string_lossy();
    let smoke = ["bench-smoke", "--ours", &program];
    match wanted(&changes, PAGES, "pages in a browser") {
        true => lab(&smoke),
        false => lab(&[&smoke[..], &["--without-pages"]].concat()),
    }
}

/// Whether a chore can have another outcome than on the main branch; the log says when it is left out.
fn wanted(changes: &Changes, paths: &[&str], chore: &str) -> bool {
    let is_wanted = changes.touch(paths);
    if !is_wanted {
        eprintln!("x: nothing that {chore} depend on has changed since the main branch; left out");
    }
    is_wanted
}

/// A chore of the lab, by the program that its own tests have built.
fn lab(words: &[&str]) -> Outcome {
    step(Command::new(root().join("target/debug/xtask-lab")).args(words))
}
