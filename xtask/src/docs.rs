//! `./x docs`: that the pages which are made from something still agree with it.

use crate::cost;
use crate::run::{Outcome, root};

/// Fails with the names of missing or outdated pages.
pub fn check() -> Outcome {
    let root = root();
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !root.join("docs/internals").join(format!("{name}.md")).exists() {
            findings.push(format!("docs/internals/{name}.md: every crate has a page"));
        }
    }
    for page in cost::outdated_pages(&root)? {
        findings.push(format!(
            "{page}: its cost table is not the one of results/cost.jsonl (./x bench-cost --table)"
        ));
    }
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len()).into()) }
}
