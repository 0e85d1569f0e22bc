//! Rules on one source file: its opening, its length and that of its functions, forbidden calls.

/// Lines of a source file, tests apart; a family that outgrows them becomes a folder.
const FILE_LINES_MAX: usize = 800;
/// Lines of a function, tests apart: control flow in the parent, work in the leaves.
const FUNCTION_LINES_MAX: usize = 70;
/// Width of a line with nothing but a comment, tables and drawings apart.
const COMMENT_WIDTH_MAX: usize = 110;
/// Lines above an `unsafe` block in which its SAFETY line may stand.
const SAFETY_REACH_LINES: usize = 6;

/// Crates that run in a simulation: the time comes from `base`.
const SIMULATED: &[&str] = &[
    "spec",
    "types",
    "keyspace",
    "engine",
    "command",
    "protocol",
    "journal",
    "rdb",
    "values",
    "net",
    "persistence",
    "server",
];
/// Calls that are forbidden there.
const CLOCKS: &[&str] = &["Instant::now()", "SystemTime::now()"];

/// Fields that hold a command's name.
const COMMAND_NAMES: &[&str] = &["spec.name", "full_name"];
/// What asks for one: each before or after a literal.
const COMPARISONS: &[&str] =
    &["== \"", "!= \"", "== b\"", "!= b\"", "with(\"", "with(b\"", "case(\"", "case(b\"", "\" ==", "\" !="];

/// Findings in a file, `path` below the root.
pub fn findings(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    // A crate root may begin with attributes (fuzz targets must).
    let opening = lines.iter().find(|line| !line.starts_with("#!["));
    if !opening.is_some_and(|line| line.starts_with("//!")) {
        findings.push(format!("{path}:1: a source file opens with //!: its purpose and its invariants"));
    }
    for (index, line) in lines.iter().enumerate() {
        if opens_unsafe(line) && !safety_near(&lines, index) {
            findings.push(format!("{path}:{}: unsafe without a SAFETY line above it", index + 1));
        }
    }
    findings.extend(wide_comments(path, &lines));
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("testing.rs");
    if !is_test {
        let end = lines.iter().position(|line| *line == "mod tests {").unwrap_or(lines.len());
        findings.extend(product_findings(path, &lines[..end]));
        findings.extend(super::disk::findings(path, &lines[..end]));
    }
    findings
}

/// Examples in comments of a crate whose manifest keeps cargo from running them: `doctest = false` saves the
/// build of a program for each crate, and holds while there is no example.
pub fn untested_examples(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//").and_then(|rest| rest.strip_prefix(['/', '!']));
        let Some(kind) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else {
            continue;
        };
        is_inside = !is_inside;
        if is_inside && !["text", "ignore", "sh", "toml"].contains(&kind) {
            let number = index + 1;
            findings.push(format!("{path}:{number}: cargo does not run this example (doctest = false)"));
        }
    }
    findings
}

/// What holds outside tests.
fn product_findings(path: &str, lines: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let length = lines.len();
    if length > FILE_LINES_MAX {
        findings.push(format!("{path}: {length} lines; a file has at most {FILE_LINES_MAX}, tests apart"));
    }
    for (index, line) in lines.iter().enumerate() {
        let number = index + 1;
        if let Some(name) = function_name(line)
            && let Some(length) = function_length(lines, index)
            && length > FUNCTION_LINES_MAX
        {
            findings.push(format!(
                "{path}:{number}: {name} has {length} lines; a function has at most {FUNCTION_LINES_MAX}"
            ));
        }
        let code = line.split("//").next().unwrap_or_default();
        let mut folders = path.split('/');
        let is_source = folders.next() == Some("crates") && path.contains("/src/");
        let crate_name = folders.next().unwrap_or_default();
        let clock = CLOCKS.iter().find(|clock| code.contains(**clock));
        if let Some(clock) = clock.filter(|_| is_source && SIMULATED.contains(&crate_name)) {
            findings.push(format!("{path}:{number}: {clock}; the time comes from base's clock"));
        }
        if is_source && asks_for_a_command(code) {
            findings.push(format!(
                "{path}:{number}: asks for a command's name; a command's peculiarities stand in its entry"
            ));
        }
        if is_source && crate_name != "testkit" && code.contains(".unwrap()") {
            findings.push(format!("{path}:{number}: unwrap outside a test"));
        }
    }
    findings
}

/// Whether a line compares a command's name with a literal, matches on it, or looks one up by a literal.
fn asks_for_a_command(code: &str) -> bool {
    let names = COMMAND_NAMES.iter().any(|name| code.contains(name));
    let compares = COMPARISONS.iter().any(|comparison| code.contains(comparison));
    let subject = code.split_once("match ").map_or("", |(_, rest)| rest.trim_end_matches(" {"));
    let subject = subject.trim_end_matches(".as_bytes()");
    let matches = COMMAND_NAMES.iter().any(|name| subject.ends_with(name)) || code.contains("matches!(");
    let looks_up = ["registry.find(b\"", "find_full(b\""].iter().any(|call| code.contains(call));
    names && (compares || matches) || looks_up
}

/// The name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_modifier =
        |word: &str| ["const", "unsafe", "extern", "\"C\""].contains(&word) || word.starts_with("pub");
    if !before.split_whitespace().all(is_modifier) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// Lines from a function's first to the brace that closes it, which stands below the beginning of the first.
fn function_length(lines: &[&str], first: usize) -> Option<usize> {
    let indentation = lines[first].len() - lines[first].trim_start().len();
    if lines[first].ends_with('}') || lines[first].ends_with(';') {
        return Some(1);
    }
    let closes = |line: &&str| line.len() == indentation + 1 && line.ends_with('}');
    lines[first..].iter().position(closes).map(|length| length + 1)
}

fn wide_comments(path: &str, lines: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut is_fenced = false;
    for (index, line) in lines.iter().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= text.starts_with("```");
        let is_drawn = is_fenced || text.starts_with('|') || text.contains(" | ") || text.contains("://");
        if !is_drawn && line.chars().count() > COMMENT_WIDTH_MAX {
            findings
                .push(format!("{path}:{}: a comment is at most {COMMENT_WIDTH_MAX} columns wide", index + 1));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, body: &str) -> usize {
        findings(path, &format!("//! x\n{body}\n")).len()
    }

    #[test]
    fn examples_that_no_test_runs_are_found() {
        let example =
            |kind: &str| untested_examples("a.rs", &format!("/// ```{kind}\n/// f();\n/// ```\n")).len();
        assert_eq!([example(""), example("no_run"), example("text")], [1, 1, 0]);
        assert_eq!(untested_examples("a.rs", "let text = \"```\";\n").len(), 0);
    }

    #[test]
    fn every_rule_finds_something_and_not_too_much() {
        assert_eq!(findings("a.rs", "fn main() {}\n").len(), 1);
        assert_eq!(count("a.rs", &"\n".repeat(FILE_LINES_MAX)), 1);
        assert_eq!(count("a/tests/b.rs", &"\n".repeat(FILE_LINES_MAX)), 0);
        let block = ["un", "safe { f() }"].concat();
        assert_eq!(count("a.rs", &block), 1);
        assert_eq!(count("a.rs", &format!("// SAFETY: y\n{block}")), 0);
        let function = |lines: usize| format!("    pub(crate) fn f() {{\n{}    }}", "x;\n".repeat(lines - 2));
        assert_eq!(count("a.rs", &function(FUNCTION_LINES_MAX)), 0);
        assert_eq!(count("a.rs", &function(FUNCTION_LINES_MAX + 1)), 1);
        assert_eq!(count("a.rs", &format!("mod tests {{\n{}", function(FUNCTION_LINES_MAX + 1))), 0);
        assert_eq!(count("crates/net/src/a.rs", "let now = Instant::now();"), 1);
        assert_eq!(count("crates/bench/src/a.rs", "let now = Instant::now();"), 0);
        assert_eq!(count("crates/bench/src/a.rs", "let it = x.unwrap();"), 1);
        assert_eq!(count("crates/bench/tests/a.rs", "let it = x.unwrap();"), 0);
        for asks in [
            "if entry.spec.name == \"get\" {",
            "let is = \"get\" != entry.spec.full_name;",
            "match entry.spec.name {",
            "matches!(spec.full_name, A | B)",
            "if spec.full_name.starts_with(\"config|\") {",
            "if spec.name.as_bytes().eq_ignore_ascii_case(b\"get\") {",
            "let get = registry.find(b\"get\");",
        ] {
            assert_eq!(count("crates/server/src/a.rs", asks), 1, "{asks}");
            assert_eq!(count("crates/server/tests/a.rs", asks), 0, "{asks}");
        }
        assert_eq!(count("crates/server/src/a.rs", "if entry.spec.name.as_bytes() == name {"), 0);
        assert_eq!(count("crates/server/src/a.rs", "match full_name.iter().position(is_bar) {"), 0);
        assert_eq!(count("crates/server/src/a.rs", "let field = (\"name\", spec.full_name);"), 0);
        let comment = |width: usize| format!("// {}", "x".repeat(width - 3));
        assert_eq!(count("a.rs", &comment(COMMENT_WIDTH_MAX)), 0);
        assert_eq!(count("a.rs", &comment(COMMENT_WIDTH_MAX + 1)), 1);
        assert_eq!(count("a.rs", &format!("//! ```text\n{}\n//! ```", comment(COMMENT_WIDTH_MAX + 1))), 0);
    }
}
