//! `./x docs`: that every crate has a page, and that the pages which are made from figures agree with them.

use crate::run::{Outcome, cargo, root};

/// The tests that compare generated tables of pages with their source.
const TABLES: &str = "pages_show_the_figures";

/// Fails with the names of missing or outdated pages.
pub fn run() -> Outcome {
    check()?;
    cargo(&["test", "-q", "-p", "xtask-lab", "--bin", "xtask-lab", TABLES])
}

/// Fails with the names of missing pages.
pub fn check() -> Outcome {
    let root = root();
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !root.join("docs/internals").join(format!("{name}.md")).exists() {
            findings.push(format!("docs/internals/{name}.md: every crate has a page"));
        }
    }
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len()).into()) }
}
