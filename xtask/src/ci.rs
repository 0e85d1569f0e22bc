//! `./x ci`: everything that a change must pass, from a clean clone; `.ci/run` installs its needs and runs
//! this. One build serves all: the tests' own.

use crate::changes::Changes;
use crate::run::{Outcome, root, step};
use crate::{checks, docs, man};
use std::collections::BTreeSet;
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
    tests()?;
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

/// Where tests without their peer leave a line each (`peers` of the crate `testkit`).
const SKIPPED: &str = "target/skipped-tests.txt";
/// Tests at a time for each core: many wait for servers most of their time.
const TESTS_FOR_EACH_CORE: usize = 2;

/// All tests, and how many of them have compared with nothing.
fn tests() -> Outcome {
    let notes = root().join(SKIPPED);
    let _ = std::fs::remove_file(&notes);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace"]).current_dir(root());
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", (TESTS_FOR_EACH_CORE * cores).to_string());
    }
    let outcome = step(&mut command);
    let notes = std::fs::read_to_string(notes).unwrap_or_default();
    let notes: BTreeSet<&str> = notes.lines().collect();
    let tests: BTreeSet<&str> =
        notes.iter().filter_map(|note| note.split_once(": ")).map(|(test, _)| test).collect();
    eprintln!("x: {} tests skipped, as a whole or in part", tests.len());
    notes.iter().for_each(|note| eprintln!("x:   {note}"));
    outcome
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
