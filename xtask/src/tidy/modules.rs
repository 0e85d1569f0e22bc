//! Rules on the files of one crate: their uses of each other form no circle.
//!
//! A file uses the files that its paths name (`crate::…`, `super::…`) and those it declares by `mod`. Uses of
//! an enclosing module do not count: a folder's files share the parent's declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates in which some files still do. A crate whose last circle is gone leaves the list.
const CIRCULAR: &[&str] = &["server"];

/// Which file, by its module path, uses which others.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Findings in the crate at `folder`.
pub fn findings(folder: &Path, crate_name: &str) -> std::io::Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    let source = folder.join("src");
    if source.is_dir() {
        collect(&source, "", &mut texts)?;
    }
    let circles = circles(&uses(&texts));
    Ok(match (circles.is_empty(), CIRCULAR.contains(&crate_name)) {
        (false, false) => circles
            .iter()
            .map(|circle| format!("crates/{crate_name}: files in a circle: {}", circle.join(", ")))
            .collect(),
        (true, true) => {
            vec![format!(
                "crates/{crate_name}: no circle is left; it leaves the list in xtask/src/tidy/modules.rs"
            )]
        }
        _ => Vec::new(),
    })
}

/// Adds the product text of each file below `folder` by its module path; `parent` is the folder's own.
fn collect(folder: &Path, parent: &str, texts: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with("tests") {
            continue;
        }
        let module = if parent.is_empty() { name.clone() } else { format!("{parent}::{name}") };
        if path.is_dir() {
            collect(&path, &module, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !(parent.is_empty() && ["lib", "main"].contains(&name.as_str()))
        {
            let module = if name == "mod" { parent.to_owned() } else { module };
            let text = std::fs::read_to_string(&path)?;
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            texts.insert(module, product.to_owned());
        }
    }
    Ok(())
}

fn uses(texts: &BTreeMap<String, String>) -> Uses {
    let file_of = |path: &[String]| {
        (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|name| texts.contains_key(name))
    };
    let encloses = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let files = texts.iter().map(|(module, text)| {
        let named = paths(text, module).into_iter().filter_map(|path| file_of(&path));
        (module.clone(), named.filter(|used| !encloses(used, module)).collect())
    });
    files.collect()
}

/// The paths from the crate's root that the text of `module` names, also in groups, and the modules that it
/// declares.
fn paths(text: &str, module: &str) -> Vec<Vec<String>> {
    let own: Vec<String> = module.split("::").map(str::to_owned).collect();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let mut found = Vec::new();
    for (keyword, prefix) in [("crate::", &own[..0]), ("super::", &own[..own.len() - 1])] {
        for (start, _) in code.match_indices(keyword) {
            let before = code[..start].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                let mut prefix = prefix.to_vec();
                let mut rest = &code[start + keyword.len()..];
                while let Some(higher) = rest.strip_prefix("super::") {
                    (_, rest) = (prefix.pop(), higher);
                }
                tree(rest, &prefix, &mut found);
            }
        }
    }
    for line in code.lines() {
        let line = line.trim_start();
        let declared = ["pub mod ", "pub(crate) mod ", "pub(super) mod ", "mod "];
        let name =
            declared.iter().find_map(|start| line.strip_prefix(start)).and_then(|l| l.strip_suffix(';'));
        found.extend(name.map(|name| [own.as_slice(), &[name.to_owned()]].concat()));
    }
    found
}

/// Adds the paths of one use tree, `a::b` or `{a::{b, c}, d}`, below `prefix`; returns the rest of the text.
fn tree<'a>(text: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = tree(rest, prefix, found).trim_start();
            match rest.strip_prefix(',') {
                Some(after) if !after.trim_start().starts_with('}') => rest = after,
                Some(after) => return after.trim_start().strip_prefix('}').unwrap_or(after),
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let path = [prefix, &[name.to_owned()]].concat();
    match rest.strip_prefix("::") {
        Some(deeper) => tree(deeper, &path, found),
        None => {
            found.push(path);
            // A new name (`as b`) is not part of the path.
            rest.trim_start().strip_prefix("as ").map_or(rest, |rest| {
                rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ' ')
            })
        }
    }
}

/// Groups of files each of which reaches every other of its group.
fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (file.as_str(), reachable(uses, file))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (file, others) in &reached {
        let circle: Vec<String> = others
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)))
            .map(|other| (*other).to_owned())
            .collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// The files that a file uses, directly and through others; itself only if a circle leads back.
fn reachable<'a>(uses: &'a Uses, file: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![file];
    while let Some(next) = open.pop() {
        for used in uses.get(next).into_iter().flatten() {
            if found.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn circles_are_found_between_files() {
        let straight = texts(&[
            ("tool", "mod options;\nuse crate::null::main;"),
            ("tool::options", "use super::Tool;\nuse crate::limits::{MOST, LEAST as B, deep::{X, Y}};"),
            ("null", "use crate::tool::options::help;\n// crate::tool::run is not used"),
            ("limits", ""),
        ]);
        assert_eq!(circles(&uses(&straight)), [[""; 0]; 0]);
        let mut round = straight;
        round.insert("limits".into(), "fn f() { crate::null::main() }".into());
        assert_eq!(circles(&uses(&round)), [["limits", "null", "tool::options"]]);
    }

    #[test]
    fn paths_are_read_in_groups_and_from_enclosing_modules() {
        let found = paths("use crate::{a::{b, c as d}, e};\nuse super::super::f;\npub mod g;", "x::y::z");
        let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a::b", "a::c", "e", "x::f", "x::y::z::g"]);
    }
}
