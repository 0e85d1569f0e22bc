//! What the compiler does not check: sizes of files, openings, SAFETY lines, which crate may know which.
//! `./x tidy` and `cargo test` run it; a finding names its file and line.

use crate::run::{Outcome, root};
use std::path::{Path, PathBuf};

/// Lines of a source file; a family that outgrows them becomes a folder.
const MOST_LINES: usize = 900;
/// Lines above an `unsafe` block in which its SAFETY line may stand.
const SAFETY_REACH_LINES: usize = 6;

/// Which crate may depend on which, by the names of the folders below `crates/`. Edges not listed are not
/// allowed.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("protocol", &["base"]),
    ("net", &["base"]),
    ("types", &["base"]),
    ("keyspace", &["base", "types"]),
    ("rdb", &["base", "types"]),
    ("engine", &["base", "journal", "keyspace", "protocol", "types"]),
    ("journal", &["base", "protocol"]),
    ("command", &["base", "types", "keyspace", "engine", "protocol", "rdb", "journal"]),
    (
        "server",
        &["base", "types", "keyspace", "engine", "command", "protocol", "net", "rdb", "journal", "client"],
    ),
    ("client", &["base", "protocol"]),
    ("testkit", &["base", "client", "protocol"]),
    ("bench", &["base", "client", "protocol"]),
    ("cli", &["base", "client", "protocol"]),
    ("martlet", &["base", "types", "server", "rdb", "journal", "bench", "cli"]),
];

/// Prints every finding and fails when there is one.
pub fn run() -> Outcome {
    let findings = findings(&root())?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len()).into()) }
}

fn findings(root: &Path) -> Result<Vec<String>, std::io::Error> {
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for folder in ["crates", "xtask", "fuzz"] {
        collect_sources(&root.join(folder), &mut sources)?;
    }
    for path in &sources {
        let text = std::fs::read_to_string(path)?;
        let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
        findings.extend(source_findings(&shown, &text));
    }
    for entry in std::fs::read_dir(root.join("crates"))? {
        let manifest = entry?.path().join("Cargo.toml");
        if let Ok(text) = std::fs::read_to_string(&manifest) {
            let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
            findings.extend(edge_findings(&folder.to_string_lossy(), &text));
        }
    }
    Ok(findings)
}

fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) -> Result<(), std::io::Error> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "corpus", "artifacts"].contains(&name.as_str()) {
            collect_sources(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    Ok(())
}

fn source_findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    // A crate root may begin with attributes (fuzz targets must).
    let opening = lines.iter().find(|line| !line.starts_with("#!["));
    if !opening.is_some_and(|line| line.starts_with("//!")) {
        findings
            .push(format!("{path}:1: a source file opens with //!, what it is and what always holds in it"));
    }
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
    let length = lines.iter().position(|line| *line == "mod tests {").unwrap_or(lines.len());
    if length > MOST_LINES && !is_test {
        findings.push(format!("{path}: {length} lines; a file has at most {MOST_LINES}, tests apart"));
    }
    for (index, line) in lines.iter().enumerate() {
        if opens_unsafe(line) && !safety_near(&lines, index) {
            findings.push(format!("{path}:{}: unsafe without a SAFETY line above it", index + 1));
        }
    }
    findings
}

fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let quoted = code.split('"').step_by(2);
    quoted.into_iter().any(|code| code.contains("unsafe {") || code.contains("unsafe impl"))
}

fn safety_near(lines: &[&str], index: usize) -> bool {
    let from = index.saturating_sub(SAFETY_REACH_LINES);
    lines[from..=index].iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

fn edge_findings(folder: &str, manifest: &str) -> Vec<String> {
    let dependencies = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let Some(dependencies) = dependencies else { return Vec::new() };
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == folder) else {
        return vec![format!(
            "crates/{folder}: not in the list of crates and their edges (xtask/src/tidy.rs)"
        )];
    };
    let named = dependencies.lines().filter_map(|line| line.strip_prefix("martlet-"));
    let named = named.filter_map(|line| line.split(['.', ' ', '=']).next());
    let unknown = named.filter(|name| !allowed.contains(name));
    unknown.map(|name| format!("crates/{folder}/Cargo.toml: {folder} may not know {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_are_tidy() {
        let findings = findings(&root()).unwrap();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    #[test]
    fn every_rule_finds_something() {
        assert_eq!(source_findings("a.rs", "fn main() {}\n").len(), 1);
        assert_eq!(source_findings("a.rs", &format!("//! x\n{}", "\n".repeat(MOST_LINES))).len(), 1);
        let block = ["un", "safe { f() }"].concat();
        assert_eq!(source_findings("a.rs", &format!("//! x\n{block}\n")).len(), 1);
        assert_eq!(source_findings("a.rs", &format!("//! x\n// SAFETY: y\n{block}\n")).len(), 0);
        assert_eq!(edge_findings("net", "[dependencies]\nmartlet-server.workspace = true\n").len(), 0);
        assert_eq!(edge_findings("net", "\n[dependencies]\nmartlet-server.workspace = true\n").len(), 1);
    }
}
