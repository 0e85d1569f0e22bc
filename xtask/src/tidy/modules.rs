//! Rules on the files of one crate: their uses of each other form no circle.
//!
//! A file uses the files that its paths name (`crate::…`, `super::…`) and those it declares by `mod`. Uses of
//! an enclosing module do not count: a folder's files share the parent's declarations. But a name that the
//! enclosing module, or the crate's root, has only imported stands for the file that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates in which some files still do. A crate whose last circle is gone leaves the list.
const CIRCULAR: &[&str] = &[];

/// Re-exports of re-exports that are followed.
const IMPORTS_MAX: usize = 8;

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
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = parent.is_empty() && ["lib", "main"].contains(&name.as_str());
            let module = if name == "mod" || is_root { parent.to_owned() } else { module };
            let text = std::fs::read_to_string(&path)?;
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            texts.insert(module, product.to_owned());
        }
    }
    Ok(())
}

/// The crate's root, if it is among the texts, has the empty name; it is no file that counts.
fn uses(texts: &BTreeMap<String, String>) -> Uses {
    let imports: BTreeMap<&str, Vec<(String, Vec<String>)>> =
        texts.iter().map(|(module, text)| (module.as_str(), imports(text, module))).collect();
    let added = added_methods(texts);
    let files = texts.iter().filter(|(module, _)| !module.is_empty()).map(|(module, text)| {
        let named = paths(text, module).into_iter().flat_map(|path| files_of(&path, module, texts, &imports));
        let called = added.iter().filter(|(_, file, _)| !is_within(module, file));
        let called = called.filter(|(name, _, of)| calls(text, name, of)).map(|(_, file, _)| file.clone());
        (module.clone(), named.chain(called).filter(|used| used != module).collect())
    });
    files.collect()
}

/// Whether a module is `outer`, or inside it.
fn is_within(module: &str, outer: &str) -> bool {
    outer.is_empty()
        || module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Methods that a file adds to a type which neither it nor an enclosing module defines: the name, the file,
/// and the type; those of a name that no other function of the crate has.
fn added_methods(texts: &BTreeMap<String, String>) -> Vec<(String, String, String)> {
    let word =
        |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut defined: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (module, text) in texts {
        text.match_indices("fn ").for_each(|(at, _)| *counts.entry(word(&text[at + 3..])).or_default() += 1);
        for line in text.lines() {
            let kinds = ["struct ", "enum ", "type ", "trait "];
            let line =
                line.strip_prefix("pub").map_or(line, |rest| rest.split_once(' ').unwrap_or_default().1);
            if let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) {
                defined.entry(word(rest)).or_default().push(module);
            }
        }
    }
    let mut added = Vec::new();
    for (module, text) in texts {
        let mut of = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("impl").filter(|_| line.ends_with('{')) {
                let rest =
                    rest.strip_prefix('<').map_or(rest, |rest| rest.split_once("> ").unwrap_or_default().1);
                let name = word(rest.trim_start());
                let is_own = |name: &String| {
                    defined.get(name).is_none_or(|files| files.iter().any(|file| is_within(module, file)))
                };
                of = Some(name).filter(|name| !line.contains(" for ") && !is_own(name));
            } else if line.starts_with('}') {
                of = None;
            } else if let Some((of, (before, rest))) = of.as_ref().zip(line.split_once("fn ")) {
                let is_method =
                    before.starts_with("    ") && !before.starts_with("     ") && !before.contains("//");
                let name = word(rest);
                if is_method && counts.get(&name) == Some(&1) {
                    added.push((name, module.clone(), of.clone()));
                }
            }
        }
    }
    added
}

/// Whether a text calls a method of this name, or names it as one of the type `of`.
fn calls(text: &str, name: &str, of: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_call = before.ends_with('.') && after.starts_with(['(', ':']);
        let is_named = before.strip_suffix("::").is_some_and(|before| before.ends_with(of));
        let is_code = !before.rsplit('\n').next().unwrap_or_default().trim_start().starts_with("//");
        is_whole && is_code && (is_call || is_named)
    })
}

/// The files that a path stands for which `module` names: none for what an enclosing module has itself.
fn files_of(
    path: &[String],
    module: &str,
    texts: &BTreeMap<String, String>,
    imports: &BTreeMap<&str, Vec<(String, Vec<String>)>>,
) -> BTreeSet<String> {
    let encloses = |outer: &str| is_within(module, outer);
    let mut found = BTreeSet::new();
    let mut open = vec![(path.to_vec(), 0)];
    while let Some((path, depth)) = open.pop() {
        let file = (0..=path.len()).rev().map(|length| (length, path[..length].join("::")));
        let Some((length, file)) = file.into_iter().find(|(_, name)| texts.contains_key(name)) else {
            continue;
        };
        if !encloses(&file) {
            found.insert(file);
            continue;
        }
        let Some(name) = path.get(length).filter(|_| depth < IMPORTS_MAX && file != module) else { continue };
        let of_file = imports.get(file.as_str()).into_iter().flatten();
        let meant = of_file.filter(|(known_as, _)| known_as == name || known_as == "*");
        open.extend(meant.map(|(known_as, from)| {
            let from = if known_as == "*" {
                [from.as_slice(), std::slice::from_ref(name)].concat()
            } else {
                from.clone()
            };
            (from, depth + 1)
        }));
    }
    found
}

/// What `use` brings into a module: each name, and the path from the crate's root that it stands for.
fn imports(text: &str, module: &str) -> Vec<(String, Vec<String>)> {
    let own: Vec<String> = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let declared: BTreeSet<String> = declared(&code).map(str::to_owned).collect();
    let mut found = Vec::new();
    for start in ["use ", "pub use ", "pub(crate) use ", "pub(super) use "] {
        for (at, _) in code.match_indices(start).filter(|(at, _)| *at == 0 || code[..*at].ends_with('\n')) {
            let rest = &code[at + start.len()..];
            let (prefix, rest) = match (rest.strip_prefix("crate::"), rest.strip_prefix("self::")) {
                (Some(rest), _) => (Vec::new(), rest),
                (_, Some(rest)) => (own.clone(), rest),
                _ => match rest.strip_prefix("super::") {
                    Some(rest) => (own[..own.len().saturating_sub(1)].to_vec(), rest),
                    None => (own.clone(), rest),
                },
            };
            let first = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            // Another crate's otherwise.
            if prefix != own || own.is_empty() || declared.contains(first) {
                tree(rest, &prefix, &mut |path: Vec<String>, known_as: Option<&str>| {
                    let last = path.last().map(String::as_str).unwrap_or_default();
                    let (name, path) = match last {
                        "" => ("*".to_owned(), path[..path.len() - 1].to_vec()),
                        "self" => {
                            let path = path[..path.len() - 1].to_vec();
                            (path.last().cloned().unwrap_or_default(), path)
                        }
                        last => (last.to_owned(), path.clone()),
                    };
                    found.push((known_as.map_or(name, str::to_owned), path));
                });
            }
        }
    }
    found
}

/// The modules that a file declares.
fn declared(code: &str) -> impl Iterator<Item = &str> {
    let starts = ["pub mod ", "pub(crate) mod ", "pub(super) mod ", "mod "];
    code.lines().filter_map(move |line| {
        let line = line.trim_start();
        starts.iter().find_map(|start| line.strip_prefix(start)).and_then(|rest| rest.strip_suffix(';'))
    })
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
                tree(rest, &prefix, &mut |path, _| found.push(path));
            }
        }
    }
    found.extend(declared(&code).map(|name| [own.as_slice(), &[name.to_owned()]].concat()));
    found
}

/// Hands out the paths of one use tree, `a::b` or `{a::{b, c as d}, e}`, below `prefix`, with the new names
/// that they get; returns the rest of the text. A glob ends in an empty name.
fn tree<'a>(
    text: &'a str,
    prefix: &[String],
    found: &mut dyn FnMut(Vec<String>, Option<&'a str>),
) -> &'a str {
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
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let path = [prefix, &[name.to_owned()]].concat();
    match rest.strip_prefix("::") {
        Some(deeper) => tree(deeper, &path, found),
        None => match rest.trim_start().strip_prefix("as ") {
            Some(rest) => {
                let rest = rest.trim_start();
                let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
                found(path, Some(&rest[..end]));
                &rest[end..]
            }
            None => {
                found(path, None);
                rest.strip_prefix('*').unwrap_or(rest)
            }
        },
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
    fn a_name_that_an_enclosing_module_imports_is_the_file_it_comes_from() {
        let through = |import: &str| {
            texts(&[
                ("", import),
                ("a", "mod inner;\nuse crate::b::Thing;\npub use inner::*;"),
                ("a::inner", "use super::Thing;\nuse crate::Shown;"),
                ("b", "use crate::a::Own;"),
                ("c", "fn f() { crate::a::inner::g() }"),
            ])
        };
        assert_eq!(circles(&uses(&through("mod a;"))), [["a", "a::inner", "b"]]);
        let shown = through("mod c;\npub use c::{Other, Deep as Shown};");
        assert_eq!(circles(&uses(&shown)), [["a", "a::inner", "b", "c"]]);
    }

    #[test]
    fn a_call_of_an_added_method_uses_the_file_that_adds_it() {
        let round = texts(&[
            (
                "loop",
                "pub struct Worker {\n}\nimpl Worker {\n    fn turn(&mut self) {\n        self.feed();\n    }\n}",
            ),
            ("feeder", "use crate::loop::Worker;\nimpl Worker {\n    pub(crate) fn feed(&mut self) {}\n}"),
            ("top", "static HOOK: fn(&mut Worker) = Worker::feed;\n// worker.feed()"),
        ]);
        assert_eq!(circles(&uses(&round)), [["feeder", "loop"]]);
        assert!(uses(&round)["top"].contains("feeder"));
        let mut straight = round;
        straight.insert(
            "loop".into(),
            "pub struct Worker {\n}\n// self.feed()\nfn f() { (hooks.feed)(); }".into(),
        );
        assert_eq!(circles(&uses(&straight)), [[""; 0]; 0]);
    }

    #[test]
    fn paths_are_read_in_groups_and_from_enclosing_modules() {
        let found = paths("use crate::{a::{b, c as d}, e};\nuse super::super::f;\npub mod g;", "x::y::z");
        let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a::b", "a::c", "e", "x::f", "x::y::z::g"]);
    }
}
