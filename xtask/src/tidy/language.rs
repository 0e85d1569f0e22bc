//! How much of the prose has to be decoded: the share of comment blocks, per crate, and of the pages'
//! sentences that carry a habit which makes a reader search for the noun. Ceilings may only fall.

use regex::Regex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Pronouns as subjects, noun clauses in place of nouns, archaisms.
const MARKERS: &[&str] = &[
    r"\bwho(ever|m)?\b",
    r"\b(nobody|somebody|everybody)\b",
    r"\b(told|tells)\b",
    r"\b(anew|likewise)\b",
    r"\bso (many|long|often)\b",
    r"\bwhat (it|is|was|they|comes|has|have|does|goes|waits|follows|came|can|may|must|needs|belongs|stands|a |the |one |clients?|others?)",
    r"\b(is|are|as) none\b",
    r"\b(goes|go) on\b|\bcomes by\b",
    r"\bof (ours|theirs|its own|one's own)\b",
    r"\b(see|as) above\b",
    r"\b(meanwhile|by then)\b",
];

/// Most marked blocks of a crate, in percent; [`OTHER_CRATES`] where none is named.
const CEILINGS: &[(&str, f64)] = &[];
/// Ceiling of all other crates.
const OTHER_CRATES: f64 = 3.0;
/// Ceiling of the pages' sentences, in percent.
const PAGES: f64 = 2.0;
/// A ceiling this far above the figure, in percent, is to be lowered.
const SLACK: f64 = 1.5;
/// Shorter sentences are headings and labels.
const SENTENCE_MIN_LEN: usize = 20;
/// Files that quote others, or are a record of the past.
const LEFT_OUT: &[&str] = &["results", "CHANGELOG.md", "xtask/src/tidy/language.rs"];

/// Blocks or sentences, and the marked ones among them.
#[derive(Clone, Copy, Default)]
struct Share {
    all: usize,
    marked: usize,
}

impl Share {
    fn count(&mut self, text: &str, markers: &Regex) {
        self.all += 1;
        self.marked += usize::from(markers.is_match(text));
    }

    fn percent(self) -> f64 {
        100.0 * self.marked as f64 / self.all.max(1) as f64
    }

    /// The finding of a share against its ceiling.
    fn finding(self, of: &str, ceiling: f64, may_fall: bool) -> Option<String> {
        let percent = self.percent();
        if percent > ceiling {
            return Some(format!("{of}: {percent:.1} % of the prose has to be decoded; {ceiling} % at most"));
        }
        (may_fall && percent < ceiling - SLACK)
            .then(|| format!("{of}: {percent:.1} % of the prose has to be decoded; lower its ceiling"))
    }
}

/// Findings in the sources and pages below `root`; `sources` are its Rust files.
pub fn findings(root: &Path, sources: &[PathBuf]) -> std::io::Result<Vec<String>> {
    let markers = Regex::new(&format!("(?i){}", MARKERS.join("|"))).map_err(std::io::Error::other)?;
    let mut crates = BTreeMap::<String, Share>::new();
    for path in sources {
        let shown = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        if LEFT_OUT.contains(&shown.as_str()) {
            continue;
        }
        let name = shown.trim_start_matches("crates/").split('/').next().unwrap_or_default().to_owned();
        let share = crates.entry(name).or_default();
        blocks(&std::fs::read_to_string(path)?).iter().for_each(|block| share.count(block, &markers));
    }
    let mut findings: Vec<String> = crates
        .iter()
        .filter_map(|(name, share)| {
            let own = CEILINGS.iter().find(|(of, _)| of == name);
            share.finding(name, own.map_or(OTHER_CRATES, |(_, ceiling)| *ceiling), own.is_some())
        })
        .collect();
    let mut pages = Share::default();
    for path in markdown(root)? {
        sentences(&std::fs::read_to_string(path)?).iter().for_each(|one| pages.count(one, &markers));
    }
    findings.extend(pages.finding("pages", PAGES, PAGES > OTHER_CRATES));
    Ok(findings)
}

/// The Markdown files that describe the present state.
fn markdown(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || name == "node_modules" || LEFT_OUT.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            found.extend(markdown(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The text of each run of comment lines.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("//"), blocks.last_mut()) {
            (Some(comment), Some(block)) => {
                block.push_str(comment.trim_start_matches(['/', '!']).trim());
                block.push(' ');
            }
            _ => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| !block.trim().is_empty());
    blocks
}

/// The sentences of a page, without code, tables and headings.
fn sentences(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2).flat_map(|part| part.lines().chain([""]));
    let mut paragraphs = vec![String::new()];
    for line in prose.map(str::trim).filter(|line| !line.starts_with(['|', '#'])) {
        match paragraphs.last_mut() {
            Some(paragraph) if !line.is_empty() => paragraph.extend([line, " "]),
            _ => paragraphs.push(String::new()),
        }
    }
    let ends = [". ", ": ", "; ", "! ", "? "];
    let mut found = Vec::new();
    for mut rest in paragraphs.iter().map(String::as_str) {
        while !rest.is_empty() {
            let end = ends.iter().filter_map(|end| rest.find(end)).min().map_or(rest.len(), |at| at + 2);
            let (sentence, after) = rest.split_at(end);
            (rest, _) = (after, found.push(sentence.trim().to_owned()));
        }
    }
    found.retain(|sentence| sentence.len() > SENTENCE_MIN_LEN);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_comments_are_blocks() {
        let text = "//! One\n//! block.\n\nfn f() {\n    // Another.\n}\n";
        assert_eq!(blocks(text), ["One block. ", "Another. "]);
    }

    #[test]
    fn code_tables_and_headings_are_no_sentences() {
        let text = "# A heading of the page itself\nThe first sentence of it. The second one,\nlonger; of two parts.\n\n\
                    ```sh\nnobody in any of this code\n```\n| a table | of several columns |\n";
        assert_eq!(sentences(text), ["The first sentence of it.", "The second one, longer;"]);
    }

    #[test]
    fn shares_are_held_against_their_ceilings() {
        let share = Share { all: 100, marked: 5 };
        assert!(share.finding("a", 4.0, true).is_some_and(|text| text.contains("4 % at most")));
        assert_eq!(share.finding("a", 5.5, true), None);
        assert!(share.finding("a", 9.0, true).is_some_and(|text| text.contains("lower")));
        assert_eq!(share.finding("a", 9.0, false), None);
    }
}
