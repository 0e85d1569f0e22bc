//! Tests of the configuration, by file.

mod change;
mod load;
mod reference;
mod rewrite;
mod table;

use super::*;

/// Loads a text as a configuration file would be loaded, and options after it.
fn load_text(text: &str, options: &str) -> Result<Loaded, LoadError> {
    let sources = Sources { file: None, stdin: Some(text.into()), options: options.into() };
    crate::load(&sources, &Commands)
}

/// Surroundings with two commands and no users.
struct Commands;

impl Surroundings for Commands {
    fn command_exists(&self, name: &[u8]) -> Option<bool> {
        Some(name.eq_ignore_ascii_case(b"get") || name.eq_ignore_ascii_case(b"set"))
    }

    fn check_user(&self, words: &[Vec<u8>]) -> Result<(), (usize, String)> {
        if words.len() > 1 { Err((0, "Syntax error".into())) } else { Ok(()) }
    }

    fn check_role(&self, words: &[Vec<u8>]) -> Result<(), (usize, String)> {
        if words.len() > 2 { Err((2, "Syntax error".into())) } else { Ok(()) }
    }
}

/// A value other than the default for every parameter, as a list of words for a configuration file.
fn other_value(parameter: &Parameter) -> String {
    let is_default = |text: &str| parameter.get(&Config::default()) == text.as_bytes();
    let choose =
        |texts: &[&str]| texts.iter().find(|text| !is_default(text)).copied().unwrap_or_default().to_string();
    match parameter.kind {
        Kind::YesNo => choose(&["yes", "no"]),
        // A value below two background steps is raised.
        Kind::Integer(..) if parameter.name == "watchdog-period" => "1007".into(),
        // Multiples of 8 only.
        Kind::Integer(..) if parameter.name == "ts-chunk-size-bytes" => "512".into(),
        // Powers of two only.
        Kind::Integer(..) if parameter.name == "array-slice-size" => "512".into(),
        Kind::Integer(min, max) => choose(&[&(min + 7).min(max).to_string(), &(min + 1).to_string()]),
        Kind::Octal(..) => "640".into(),
        // A value below 16 KB is raised.
        Kind::Memory(..) if parameter.name == "repl-backlog-size" => "16387".into(),
        Kind::Memory(min, _) => (min + 3).to_string(),
        Kind::MemoryOrPercent(_) => "12%".into(),
        Kind::OneOf(words) => choose(words),
        Kind::AnyOf(words) => format!("{} {}", words[2], words[4]),
        Kind::Text(_) => match parameter.name {
            "proc-title-template" => "{title} {{x} {port}".into(),
            "cluster-announce-client-ipv4" => "1.2.3.4".into(),
            "priority-subnets" => "127.0.0.1/8, ::1".into(),
            "preload-file" => "aof:/a b.manifest".into(),
            "tls-expected-peer-name" => "a.example b.example".into(),
            "cluster-announce-client-ipv6" => "::1".into(),
            "ts-compaction-policy" => "max:1M:1h;avg:10s:0d:500m".into(),
            "ts-ignore-max-val-diff" => "0.500000".into(),
            "appendfilename" | "appenddirname" | "dbfilename" => "other name.x".into(),
            "cluster-announce-hostname"
            | "cluster-announce-human-nodename"
            | "cluster-announce-ip"
            | "availability-zone" => "host-1.example".into(),
            _ => "a b\"c\\d\té".into(),
        },
        Kind::Directory => "/".into(),
        Kind::SaveList => "10 1 20 2".into(),
        Kind::OutputLimits => "normal 1 2 3 slave 0 0 0 pubsub 33554432 8388608 61".into(),
        Kind::OomScores => "1 2 3".into(),
        Kind::Events => "gKE".into(),
        Kind::Addresses => "127.0.0.2 -::1".into(),
        Kind::HostPort => "example.org 6380".into(),
        Kind::Percentiles => "0 12.5 99.999".into(),
        Kind::Share => "0.125".into(),
        Kind::SlotMetrics => "cpu net".into(),
    }
}
