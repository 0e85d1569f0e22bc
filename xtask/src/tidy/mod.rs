//! Checks beyond the compiler's: sizes of files and functions, openings, SAFETY lines, widths of comments,
//! edges between crates and between files. `./x tidy` and `cargo test` run it; a finding names its file and
//! line.

mod disk;
mod language;
mod modules;
mod source;

use crate::run::{Outcome, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which crate may depend on which, by the names of the folders below `crates/`. Edges not listed are not
/// allowed.
const EDGES: &[(&str, &[&str])] = &[
    ("mimalloc", &[]),
    ("base", &["mimalloc"]),
    ("protocol", &["base"]),
    ("net", &["base"]),
    ("types", &["base"]),
    ("sketch", &["base"]),
    ("vector", &["base"]),
    ("search", &["base", "types", "vector"]),
    ("json", &["base", "types"]),
    ("keyspace", &["base", "types"]),
    ("rdb", &["base", "types"]),
    ("values", &["base", "keyspace", "rdb", "spec", "types", "json", "sketch", "tseries", "vector"]),
    ("lua", &[]),
    ("bytecode", &["base", "protocol"]),
    ("script", &["base", "bytecode", "lua", "protocol"]),
    ("history", &[]),
    ("tseries", &["base", "types"]),
    ("spec", &["base", "protocol"]),
    ("engine", &["base", "journal", "keyspace", "protocol", "spec", "types"]),
    ("journal", &["base", "protocol"]),
    ("indexes", &["base", "types", "keyspace", "engine", "json", "values", "search"]),
    (
        "command",
        &[
            "base", "types", "keyspace", "engine", "protocol", "values", "journal", "spec", "json", "sketch",
            "tseries", "vector",
        ],
    ),
    (
        "persistence",
        &["base", "types", "keyspace", "engine", "command", "protocol", "rdb", "values", "journal"],
    ),
    ("acl", &["base", "protocol", "spec"]),
    (
        "server",
        &[
            "base",
            "types",
            "keyspace",
            "engine",
            "command",
            "acl",
            "protocol",
            "spec",
            "net",
            "values",
            "journal",
            "client",
            "cluster",
            "config",
            "process",
            "script",
            "persistence",
            "metrics",
            "replication",
            "tls",
            "tseries",
            "indexes",
            "search",
            "json",
        ],
    ),
    ("replication", &[]),
    ("cluster", &["base"]),
    ("config", &["base", "cluster", "spec", "tseries"]),
    ("process", &["base", "config"]),
    ("sentinel", &["base", "protocol", "spec", "acl", "client", "replication", "tls"]),
    ("tls", &[]),
    ("client", &["base", "protocol", "tls"]),
    ("testkit", &["base", "client", "protocol"]),
    ("bench", &["base", "client", "protocol", "tls"]),
    ("reproduce", &["base", "bench", "client"]),
    ("cli", &["base", "client", "protocol", "spec", "tls"]),
    ("metrics", &["base", "client", "protocol", "spec", "tls"]),
    (
        "martlet",
        &[
            "base",
            "keyspace",
            "server",
            "values",
            "journal",
            "bench",
            "reproduce",
            "cli",
            "metrics",
            "sentinel",
        ],
    ),
];

/// Crates that may not link others, not even through a third: access control and Sentinel judge commands by
/// their entries, and have no data.
const UNLINKED: &[(&str, &[&str])] = &[("acl", DATA), ("sentinel", DATA)];

/// The crates that hold or change data.
const DATA: &[&str] = &["command", "engine", "journal", "keyspace", "persistence", "rdb", "server", "types"];

/// Prints every finding and fails when there is one.
pub fn run() -> Outcome {
    let findings = findings(&root())?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings", findings.len()).into()) }
}

fn findings(root: &Path) -> Result<Vec<String>, std::io::Error> {
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for folder in ["crates", "xtask", "xtask-lab", "fuzz"] {
        collect_sources(&root.join(folder), &mut sources)?;
    }
    for path in &sources {
        let text = std::fs::read_to_string(path)?;
        let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
        findings.extend(source::findings(&shown, &text));
        if !has_doctests(&root.join(&shown)) {
            findings.extend(source::untested_examples(&shown, &text));
        }
    }
    findings.extend(language::findings(root, &sources)?);
    findings.extend(linked_findings(EDGES, UNLINKED));
    for entry in std::fs::read_dir(root.join("crates"))? {
        let manifest = entry?.path().join("Cargo.toml");
        if let Ok(text) = std::fs::read_to_string(&manifest) {
            let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
            let crate_name = folder.to_string_lossy();
            findings.extend(edge_findings(&crate_name, &text));
            findings.extend(modules::findings(&root.join("crates").join(&*crate_name), &crate_name)?);
        }
    }
    Ok(findings)
}

/// Whether cargo runs the examples in the comments of a file's crate.
fn has_doctests(path: &Path) -> bool {
    let folder = path.ancestors().find(|folder| folder.ends_with("src")).and_then(Path::parent);
    let manifest = folder.and_then(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok());
    !manifest.unwrap_or_default().lines().any(|line| line == "doctest = false")
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

fn edge_findings(folder: &str, manifest: &str) -> Vec<String> {
    let dependencies = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let Some(dependencies) = dependencies else { return Vec::new() };
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == folder) else {
        return vec![format!(
            "crates/{folder}: not in the list of crates and their edges (xtask/src/tidy/mod.rs)"
        )];
    };
    let named = dependencies.lines().filter_map(|line| line.strip_prefix("martlet-"));
    let named = named.filter_map(|line| line.split(['.', ' ', '=']).next());
    let unknown = named.filter(|name| !allowed.contains(name));
    unknown.map(|name| format!("crates/{folder}/Cargo.toml: {folder} may not know {name}")).collect()
}

/// The crates that `folder` links, directly or through others.
fn linked<'a>(edges: &[(&'a str, &'a [&'a str])], folder: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), vec![folder]);
    while let Some(next) = open.pop() {
        let known = edges.iter().filter(|(name, _)| *name == next).flat_map(|(_, known)| known.iter());
        open.extend(known.filter(|one| found.insert(**one)));
    }
    found
}

fn linked_findings(edges: &[(&str, &[&str])], unlinked: &[(&str, &[&str])]) -> Vec<String> {
    let broken = unlinked.iter().flat_map(|(folder, others)| {
        let linked = linked(edges, folder);
        let found: Vec<_> = others.iter().filter(|other| linked.contains(**other)).collect();
        found
            .into_iter()
            .map(move |other| format!("crates/{folder}: it may not link {other}, also through others"))
    });
    broken.collect()
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
    fn crates_that_are_linked_through_others_are_found() {
        let edges: &[(&str, &[&str])] = &[("a", &["b"]), ("b", &["c"]), ("c", &["b"]), ("d", &["a"])];
        assert_eq!(linked_findings(edges, &[("a", &["c", "d"])]).len(), 1);
        assert_eq!(linked_findings(edges, &[("a", &["d"]), ("c", &["a"])]), [""; 0]);
    }

    #[test]
    fn edges_that_are_not_listed_are_found() {
        assert_eq!(edge_findings("net", "[dependencies]\nmartlet-server.workspace = true\n").len(), 0);
        assert_eq!(edge_findings("net", "\n[dependencies]\nmartlet-server.workspace = true\n").len(), 1);
    }
}
