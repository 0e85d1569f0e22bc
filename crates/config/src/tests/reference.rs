//! Writes `docs/configuration.md` from the table, and checks that the file is what would be written.

use std::fmt::Write as _;
use std::path::Path;

use super::super::table::{HIDDEN, IMMUTABLE, PROTECTED};
use super::*;

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by a test from the table of parameters (crates/config): change the table, then run
     MARTLET_WRITE_DOCS=1 cargo test -p martlet-config reference -->

Martlet reads redis.conf as Redis does: `martlet server /etc/redis/redis.conf --port 7000 --save \"\"`. Quoting,
`include` with patterns, `-` for standard input and options after the file are Redis 7's; a later directive wins.
`--check-config` reads everything and exits. Errors are in Redis' words, with the file's name.

Every parameter of Redis 7.2 to 8.6 and of Valkey 8 and 9.1 is accepted, and some of later ones; all are shown by CONFIG
GET, checked and rewritten. The first table has those with the effect that Redis documents. The others are kept and
shown, but have no effect: a line at start names those that were set, and warns of those whose effect an operator may
rely on.

Parameters marked *start* can only be set at start, *protected* ones at run time only with `enable-protected-configs`.
Hidden ones are shown by their exact name only. Sizes take `b`, `k` (1000), `kb` (1024), `m`, `mb`, `g` and `gb`.

Beside parameters, `include`, `rename-command` and `user` are directives; `loadmodule` and other parameters of modules
(`name.parameter`, `search-…`, `ts-…`, `bf-…`, `cf-…`) are accepted without effect, since this server loads no modules.
FT.CONFIG knows those of search by the names of RediSearch 2.10.
";

/// The type of a parameter.
fn type_text(kind: Kind) -> String {
    let upper = |max: i128| match max {
        _ if max == i128::from(i32::MAX) => "2³¹-1".into(),
        _ if max == i128::from(u32::MAX) => "2³²-1".into(),
        _ if max == i128::from(i64::MAX) => "2⁶³-1".into(),
        _ if max == i128::from(u64::MAX) => "2⁶⁴-1".into(),
        _ => max.to_string(),
    };
    let lower = |min: i128| if min == i128::from(i32::MIN) { "-2³¹".into() } else { min.to_string() };
    match kind {
        Kind::YesNo => "yes, no".into(),
        Kind::Integer(min, max) => format!("{} to {}", lower(min), upper(max)),
        Kind::Octal(min, max) => format!("octal, {min:o} to {max:o}"),
        Kind::Memory(min, max) => {
            format!(
                "bytes, {} to {}",
                super::super::value::memory_text(min.try_into().unwrap_or(0)),
                upper(max)
            )
        }
        Kind::MemoryOrPercent(_) => "bytes or percentage".into(),
        Kind::OneOf(words) => words.join(", "),
        Kind::AnyOf(words) => format!("any of {}", words.join(", ")),
        Kind::Text(_) => "text".into(),
        Kind::Directory => "directory".into(),
        Kind::SaveList => "pairs: seconds, changes".into(),
        Kind::OutputLimits => "class (normal, replica, pubsub), hard, soft, seconds".into(),
        Kind::OomScores => "three numbers, -2000 to 2000".into(),
        Kind::Events => format!("letters of A{}", KeyspaceEvents::all_letters()),
        Kind::Addresses => "up to 16 addresses".into(),
        Kind::HostPort => "host, port".into(),
        Kind::Percentiles => "numbers, 0 to 100".into(),
        Kind::Share => "above 0 and below 1".into(),
        Kind::SlotMetrics => "`yes`, `no`, or some of `cpu`, `net`, `mem`".into(),
    }
}

fn default_text(parameter: &Parameter) -> String {
    match (parameter.name, parameter.kind) {
        ("io-threads", _) => "the number of cores".into(),
        ("dir", _) => "where the server was started".into(),
        (_, Kind::Memory(..)) => {
            let bytes = String::from_utf8(parameter.get(&Config::default())).unwrap();
            format!("`{}`", super::super::value::memory_text(bytes.parse().unwrap()))
        }
        _ => match String::from_utf8(parameter.get(&Config::default())).unwrap().as_str() {
            "" => "none".into(),
            text => format!("`{text}`"),
        },
    }
}

/// A parameter's row: name with aliases, type, default, its description or why it does nothing.
fn row(parameter: &Parameter) -> String {
    let mut name = format!("`{}`", parameter.name);
    parameter.aliases.iter().for_each(|alias| write!(name, "<br>`{alias}`").unwrap());
    let marks = [(IMMUTABLE, "start"), (PROTECTED, "protected"), (HIDDEN, "hidden")];
    let marks: Vec<_> =
        marks.iter().filter(|(flag, _)| parameter.has(*flag)).map(|(_, mark)| *mark).collect();
    let marks = if marks.is_empty() { String::new() } else { format!(" *({})*", marks.join(", ")) };
    let doc = parameter.doc.trim();
    let kind = type_text(parameter.kind);
    format!("| {name} | {kind} | {} | {doc}{marks} |\n", default_text(parameter))
}

fn reference() -> String {
    let mut text = INTRODUCTION.to_string();
    let header = "\n| parameter | takes | default | |\n|---|---|---|---|\n";
    text.push_str("\n## In effect\n");
    text.push_str(header);
    parameters().filter(|p| p.effect == Effect::Honoured).for_each(|p| text.push_str(&row(p)));
    let reasons = |absent: bool| {
        let mut reasons: Vec<&str> = Vec::new();
        for parameter in parameters() {
            let reason = match (absent, parameter.effect) {
                (true, Effect::Absent(reason)) | (false, Effect::Moot(reason)) => reason,
                _ => continue,
            };
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    };
    for (absent, heading) in [
        (true, "\n## Without effect: this version lacks the feature\n"),
        (false, "\n## Without effect: there is nothing to tune\n"),
    ] {
        text.push_str(heading);
        for reason in reasons(absent) {
            let (first, rest) = reason.split_at(1);
            write!(text, "\n**{}{rest}.**\n{header}", first.to_uppercase()).unwrap();
            let effect = if absent { Effect::Absent(reason) } else { Effect::Moot(reason) };
            parameters().filter(|p| p.effect == effect).for_each(|p| text.push_str(&row(p)));
        }
    }
    text
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("MARTLET_WRITE_DOCS").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let is_current = std::fs::read_to_string(&path).is_ok_and(|text| text == reference());
    assert!(is_current, "run: MARTLET_WRITE_DOCS=1 cargo test -p martlet-config reference");
}
