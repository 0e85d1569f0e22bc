//! `./x quick`: the loop of a developer between two commits: format, tidy, and the unit tests of the crates
//! that have changed and of those that build on them.

use crate::run::{Outcome, cargo, root};
use crate::tidy;
use clap::Args;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What counts as changed.
#[derive(Args)]
pub struct Options {
    /// A revision; files that differ from it, or are not tracked, count as changed.
    #[arg(long, default_value = "HEAD")]
    base: String,
}

/// Runs the chore.
pub fn run(options: &Options) -> Outcome {
    cargo(&["fmt", "--all", "--check"])?;
    tidy::run()?;
    let packages = packages()?;
    let files = changed(&options.base)?;
    // A file of the workspace itself may change every crate.
    let is_everywhere = files.iter().any(|file| ["Cargo.toml", "Cargo.lock"].contains(&file.as_str()));
    let own: BTreeSet<&str> = packages
        .iter()
        .filter(|(_, package)| {
            is_everywhere || files.iter().any(|file| Path::new(file).starts_with(&package.folder))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    if own.is_empty() {
        eprintln!("x: no crate has changed since {}", options.base);
        return Ok(());
    }
    let tested = with_dependents(&packages, &own);
    let mut words = vec!["test", "--bins"];
    // Cargo refuses it where no package has one.
    if tested.iter().any(|name| packages.get(*name).is_some_and(|package| package.has_library)) {
        words.push("--lib");
    }
    words.extend(tested.iter().flat_map(|name| ["-p", name]));
    cargo(&words)
}

/// A package of the workspace.
struct Package {
    /// Relative to the root.
    folder: String,
    /// Its dependencies within the workspace, those of its tests included.
    dependencies: BTreeSet<String>,
    has_library: bool,
}

fn packages() -> Result<BTreeMap<String, Package>, Box<dyn std::error::Error>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]).into_iter().map(|package| {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().unwrap_or(Path::new(""));
        let folder = folder.strip_prefix(root()).unwrap_or(folder).to_string_lossy().into_owned();
        let dependencies = list(&package["dependencies"]).iter().map(|one| text(&one["name"])).collect();
        let is_library =
            |target: &Value| list(&target["kind"]).iter().any(|kind| text(kind).ends_with("lib"));
        let has_library = list(&package["targets"]).iter().any(is_library);
        (text(&package["name"]), Package { folder, dependencies, has_library })
    });
    Ok(packages.collect())
}

/// Files that differ from a revision or are not tracked, relative to the root.
fn changed(base: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for words in [&["diff", "--name-only", base][..], &["ls-files", "--others", "--exclude-standard"]] {
        let output = Command::new("git").args(words).current_dir(root()).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        files.extend(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned));
    }
    Ok(files)
}

/// The packages of `own` and all that build on them, directly and through others.
fn with_dependents<'a>(
    packages: &'a BTreeMap<String, Package>,
    own: &BTreeSet<&'a str>,
) -> BTreeSet<&'a str> {
    let mut found = own.clone();
    loop {
        let further: Vec<&str> = packages
            .iter()
            .filter(|(name, _)| !found.contains(name.as_str()))
            .filter(|(_, package)| package.dependencies.iter().any(|one| found.contains(one.as_str())))
            .map(|(name, _)| name.as_str())
            .collect();
        if further.is_empty() {
            return found;
        }
        found.extend(further);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_build_on_a_changed_one_are_tested() {
        let package = |dependencies: &[&str]| Package {
            folder: String::new(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
            has_library: true,
        };
        let packages: BTreeMap<String, Package> = [
            ("base", package(&["libc"])),
            ("types", package(&["base"])),
            ("server", package(&["types"])),
            ("cli", package(&["base"])),
        ]
        .map(|(name, package)| (name.to_owned(), package))
        .into();
        let tested =
            |own: &'static str| with_dependents(&packages, &[own].into()).into_iter().collect::<Vec<_>>();
        assert_eq!(tested("types"), ["server", "types"]);
        assert_eq!(tested("base").len(), 4);
        assert_eq!(tested("cli"), ["cli"]);
    }

    #[test]
    fn the_workspace_has_its_crates() {
        let packages = packages().expect("cargo metadata");
        assert_eq!(packages["martlet-types"].folder, "crates/types");
        assert!(packages["martlet-types"].dependencies.contains("martlet-base"));
        assert!(packages["martlet-types"].has_library && !packages["xtask-lab"].has_library);
    }
}
