//! Rules on the modules of one crate: none knows one that knows it, neither directly nor through others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates in which some still do. A crate whose last circle is gone leaves the list.
const CIRCULAR: &[&str] = &["bench", "engine", "keyspace", "server"];

/// Which module of a crate's root names which others.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Findings in the crate at `folder`.
pub fn findings(folder: &Path, crate_name: &str) -> std::io::Result<Vec<String>> {
    let mut uses = Uses::new();
    let source = folder.join("src");
    if source.is_dir() {
        collect(&source, None, &mut uses)?;
    }
    let circle = circle(&uses);
    Ok(match (circle.is_empty(), CIRCULAR.contains(&crate_name)) {
        (false, false) => {
            vec![format!("crates/{crate_name}: modules in a circle: {}", circle.join(", "))]
        }
        (true, true) => {
            vec![format!(
                "crates/{crate_name}: no circle is left; it leaves the list in xtask/src/tidy/modules.rs"
            )]
        }
        _ => Vec::new(),
    })
}

/// Adds what the files below `folder` use, all for the module `top` if it is one.
fn collect(folder: &Path, top: Option<&str>, uses: &mut Uses) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let top = top.unwrap_or(&name);
        if path.is_dir() {
            if name != "tests" {
                collect(&path, Some(top), uses)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !name.ends_with("tests")
            && !["lib", "main"].contains(&top)
        {
            let text = std::fs::read_to_string(&path)?;
            uses.entry(top.to_owned()).or_default().extend(used(&text));
        }
    }
    Ok(())
}

/// The modules of the root that a text names outside its tests: `crate::a::…` and `crate::{a::…, b}`.
fn used(text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    for rest in product.split("crate::").skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => rest,
        };
        let parts = if rest.starts_with('{') { names.split(',').collect() } else { vec![names] };
        for part in parts {
            let part = part.trim_start();
            let end = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
            found.insert(part[..end].to_owned());
        }
    }
    found
}

/// The modules that remain once those that use none of the others, or are used by none, are taken away again
/// and again.
fn circle(uses: &Uses) -> Vec<String> {
    let mut left: BTreeSet<&str> = uses.keys().map(String::as_str).collect();
    loop {
        let others = |name: &str, left: &BTreeSet<&str>| {
            uses[name].iter().any(|used| used != name && left.contains(used.as_str()))
        };
        let is_used =
            |name: &str, left: &BTreeSet<&str>| left.iter().any(|by| *by != name && uses[*by].contains(name));
        let kept: BTreeSet<&str> =
            left.iter().copied().filter(|name| others(name, &left) && is_used(name, &left)).collect();
        if kept.len() == left.len() {
            return left.into_iter().map(str::to_owned).collect();
        }
        left = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(edges: &[(&str, &[&str])]) -> Uses {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        edges.iter().map(|(name, used)| ((*name).to_owned(), owned(used))).collect()
    }

    #[test]
    fn circles_are_found() {
        assert_eq!(circle(&uses(&[("a", &["b", "a"]), ("b", &["c"]), ("c", &[])])), [""; 0]);
        let all = uses(&[("top", &["a"]), ("a", &["b"]), ("b", &["c"]), ("c", &["a", "low"]), ("low", &[])]);
        assert_eq!(circle(&all), ["a", "b", "c"]);
    }

    #[test]
    fn what_a_text_names_is_found() {
        let text =
            "use crate::one::Two;\nuse crate::{three::Four, five};\n#[cfg(test)]\nmod tests { crate::six }";
        assert_eq!(used(text).into_iter().collect::<Vec<_>>(), ["five", "one", "three"]);
    }
}
