//! `./x ci`: everything that a change must pass, from a clean clone; `.ci/run` installs its needs and runs
//! this. One build serves all: the tests' own. Tests wait for servers half of their time, so chores that only
//! compute run beside them, at the lowest priority.

use crate::changes::Changes;
use crate::run::{Beside, Outcome, cargo, root, step, target_dir};
use crate::{checks, docs, man};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// Files that can change a manual page or a completion.
const MAN: &[&str] = &[
    "crates/bench/",
    "crates/cli/",
    "crates/martlet/",
    "crates/metrics/",
    "crates/spec/src/data_type.rs",
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
    "crates/spec/src/data_type.rs",
    "xtask-lab/src/browser.rs",
    "xtask-lab/src/dashboard.rs",
    "xtask-lab/src/report_page.rs",
];

/// Runs all of it; the quickest come first.
pub fn run() -> Outcome {
    let changes = Changes::of_branch();
    checks::form()?;
    docs::check()?;
    cargo(&["test", "--workspace", "--no-run"])?;
    tests_and_checks(&changes)?;
    let program = target_dir().join("debug/martlet");
    if wanted(&changes, MAN, "manual pages and completions") {
        man::make(&program)?;
    }
    let program = program.to_string_lossy();
    let pages = ["bench-report", "dashboard"].into_iter().filter(|_| changes.touch(PAGES));
    let pages: Vec<Beside> =
        pages.map(|chore| Beside::start(chore, lab(&[chore, "--ours", &program]))).collect();
    if pages.is_empty() {
        left_out("pages in a browser");
    }
    let smoke = step(&mut lab(&["bench-smoke", "--without-pages", "--ours", &program]));
    // All of them end before one that failed is named.
    let pages: Vec<Outcome> = pages.into_iter().map(Beside::join).collect();
    std::iter::once(smoke).chain(pages).collect()
}

/// Until the tests' cargo has seen that all is built: it would wait for clippy's build otherwise.
const HEAD_START: Duration = Duration::from_secs(5);

/// All tests, and beside them clippy and the Python class. All of them end before one that failed is named.
fn tests_and_checks(changes: &Changes) -> Outcome {
    let python = wanted(changes, PYTHON, "the Python class").then(|| lab(&["bench-python"]));
    let beside = std::thread::spawn(|| {
        std::thread::sleep(HEAD_START);
        let clippy = Beside::start("clippy", checks::clippy());
        (clippy, python.map(|python| Beside::start("python", python)))
    });
    let tests = tests();
    let (clippy, python) = beside.join().map_err(|_| "the thread that starts clippy panicked")?;
    let outcomes = [tests, clippy.join(), python.map_or(Ok(()), Beside::join)];
    outcomes.into_iter().collect()
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
        left_out(chore);
    }
    is_wanted
}

fn left_out(chore: &str) {
    eprintln!("x: {chore}: left out, since the branch changes nothing that they depend on");
}

/// A chore of the lab, by the program that its own tests have built.
fn lab(words: &[&str]) -> Command {
    let mut command = Command::new(target_dir().join("debug/xtask-lab"));
    command.args(words);
    command
}
