//! HELP: a command's description, or the commands of a group, from the server's documentation, in redis-cli's
//! form.

use crate::docs::{Docs, Entry};
use crate::hint::all_arguments;
use crate::settings::AS_REDIS_CLI;
use std::fmt::Write;

/// What HELP says without words.
pub fn general() -> String {
    format!(
        "redis-cli {AS_REDIS_CLI}
To get help about Redis commands type:
      \"help @<group>\" to get a list of commands in <group>
      \"help <command>\" for help on <command>
      \"help <tab>\" to get a list of possible help topics
      \"quit\" to exit

To set redis-cli preferences:
      \":set hints\" enable online hints
      \":set nohints\" disable online hints
      \":set nopager\" show long replies without a pager, \":set pager\" with one
      \":set human\" show what durations and sizes come to
      \":set table\" show lists of maps as tables, over RESP3
Set your preferences in ~/.redisclirc
"
    )
}

/// What HELP says of a group (`@string`), or of all commands that begin with these words.
pub fn about(docs: &Docs, words: &[Vec<u8>]) -> String {
    let mut out = String::new();
    let group = words.first().and_then(|word| word.strip_prefix(b"@"));
    for entry in &docs.entries {
        let is_meant = match group {
            Some(group) => entry.group.as_bytes().eq_ignore_ascii_case(group),
            None => {
                words.len() <= entry.words.len()
                    && words
                        .iter()
                        .zip(&entry.words)
                        .all(|(w, known)| w.eq_ignore_ascii_case(known.as_bytes()))
            }
        };
        if is_meant {
            describe(entry, group.is_none(), &mut out);
        }
    }
    out.push_str("\r\n");
    out
}

fn describe(entry: &Entry, with_group: bool, out: &mut String) {
    let (name, arguments) = (entry.name(), all_arguments(entry));
    let _ = write!(out, "\r\n  \x1b[1m{name}\x1b[0m \x1b[90m{arguments}\x1b[0m\r\n");
    let mut field = |name: &str, value: &str| {
        let _ = write!(out, "  \x1b[33m{name}:\x1b[0m {value}\r\n");
    };
    field("summary", &entry.summary);
    if let Some(since) = &entry.since {
        field("since", since);
    }
    if with_group {
        field("group", &entry.group);
    }
}

/// The same for a terminal without colours.
pub fn without_colors(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split("\x1b[").enumerate() {
        out.push_str(if index == 0 { part } else { part.split_once('m').map_or(part, |(_, rest)| rest) });
    }
    out
}
