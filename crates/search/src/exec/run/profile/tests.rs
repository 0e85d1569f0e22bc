//! Counters of the parts against what their queries find.

use std::borrow::Cow;

use martlet_base::hash::hash_bytes;

use super::*;
use crate::analysis::{Analysis, Document, Value};
use crate::definition::{Context, create};
use crate::request::{Limits, Search};
use crate::searching::{self, Searching};

struct Fields([(&'static str, String); 3]);

impl Document for Fields {
    fn value(&self, identifier: &[u8]) -> Value<'_> {
        let found = self.0.iter().find(|(name, _)| name.as_bytes() == identifier);
        found.map_or(Value::Missing, |(_, value)| Value::Text(Cow::Borrowed(value.as_bytes())))
    }
}

fn index() -> Arc<Index> {
    let words: Vec<&[u8]> = "i SCHEMA t TEXT g TAG n NUMERIC".split(' ').map(str::as_bytes).collect();
    let definition = create(&words, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap();
    let index = Index::new(definition, 4);
    for at in 0..200 {
        let key = format!("k{at}");
        let text = format!("{} word{at}", if at % 2 == 0 { "even" } else { "odd" });
        let fields = Fields([("t", text), ("g", format!("g{}", at % 5)), ("n", at.to_string())]);
        let mut analysis = Analysis::default();
        let rules = index.rules();
        let content = analysis.of(&rules.definition, &rules.stopwords, key.as_bytes(), &fields).unwrap();
        index.put(hash_bytes(key.as_bytes()), content).unwrap();
    }
    Arc::new(index)
}

/// The parts of a query, a line each, indented by their depth.
fn profile(index: &Arc<Index>, query: &str, limited: bool) -> String {
    let request = Search::parse(&[query.as_bytes(), b"VERBATIM"], &Limits::default()).unwrap();
    let mut searching = Searching::new(Arc::clone(index), &request, searching::Context::default()).unwrap();
    while !searching.step() {}
    let mut profile = searching.profile(limited, Duration::ZERO);
    while !profile.step() {}
    let parts = profile.into_parts();
    let mut lines = String::new();
    write(&parts, 0, 0, &mut lines);
    lines
}

fn write(parts: &[Part], at: usize, depth: usize, lines: &mut String) {
    let part = &parts[at];
    let detail = part.detail.as_ref().map_or(Cow::Borrowed(""), |one| String::from_utf8_lossy(&one.1));
    lines.push_str(&format!("{:1$}{2} {detail} {3}", "", depth, part.kind, part.counter));
    lines.push_str(&part.size.map_or_else(String::new, |size| format!(" of {size}")));
    match &part.parts {
        Parts::Many(count) => lines.push_str(&format!(" ({count})\n")),
        _ => lines.push('\n'),
    }
    match &part.parts {
        Parts::One(child) => write(parts, *child, depth + 1, lines),
        Parts::Several(children) => children.iter().for_each(|child| write(parts, *child, depth + 1, lines)),
        Parts::None | Parts::Many(_) => {}
    }
}

#[test]
fn each_part_counts_its_documents() {
    let index = index();
    for (query, wanted) in [
        ("even", "TEXT even 100 of 100\n"),
        ("even|nosuch", "TEXT even 100 of 100\n"),
        ("even nosuch", "EMPTY  0\n"),
        ("*", "WILDCARD  200\n"),
        (
            "even @g:{g1|g2} -@n:[0 (50]",
            "INTERSECT  30\n TEXT even 100 of 100\n UNION TAG 80\n  TAG g1 40 of 40\n  TAG g2 40 of 40\n \
             NOT  150\n  NUMERIC 0 - 50 50 of 50\n",
        ),
        ("word19*", "UNION PREFIX - word19 11\n TEXT word19 1 of 1\n"),
    ] {
        let lines = profile(&index, query, false);
        assert!(lines.starts_with(wanted), "{query}:\n{lines}");
    }
    assert_eq!(profile(&index, "word19*", true), "UNION PREFIX - word19 11 (11)\n");
    let many = profile(&index, &vec!["even"; 5_000].join("|"), false);
    assert_eq!(many, "UNION UNION 100 (5000)\n");
}
