//! The server's documentation of its commands: COMMAND DOCS, or only COMMAND's names and arities before Redis
//! 7.
//!
//! Invariant: entries are sorted by name, and arguments nest no deeper than `DEPTH_MAX`, whatever a server
//! sends.

use crate::connection::{Connection, Lost};
use martlet_client::resp::Reply;

/// How deep arguments nest in arguments.
const DEPTH_MAX: usize = 16;

/// All commands and subcommands.
#[derive(Debug, Default)]
pub struct Docs {
    pub entries: Vec<Entry>,
}

/// A command or a subcommand.
#[derive(Debug)]
pub struct Entry {
    /// One or two words, in capitals.
    pub words: Vec<String>,
    pub summary: String,
    pub since: Option<String>,
    pub group: String,
    pub arguments: Arguments,
}

/// Knowledge about a command's arguments.
#[derive(Debug)]
pub enum Arguments {
    Known(Vec<Argument>),
    /// A text that stands for them.
    Guessed(String),
}

/// An argument, or a group of them.
#[derive(Debug)]
pub struct Argument {
    /// Its displayed name.
    pub text: String,
    /// The word that comes before its value.
    pub token: Option<String>,
    pub kind: Kind,
    pub is_optional: bool,
    /// It can come again.
    pub is_multiple: bool,
    /// And its token with it.
    pub repeats_token: bool,
    /// Its parts.
    pub inner: Vec<Argument>,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Double,
    /// Any word.
    Word,
    /// The token and nothing else.
    Token,
    /// One of the inner arguments.
    OneOf,
    /// All inner arguments.
    Block,
}

impl Docs {
    /// Asks a server; `Err` where the connection is lost, empty where the server refuses to tell.
    pub fn ask(connection: &mut Connection) -> Result<Docs, Lost> {
        let docs = Docs::read(&connection.command(&["COMMAND", "DOCS"])?);
        if !docs.entries.is_empty() {
            return Ok(docs);
        }
        Ok(Docs::read_names(&connection.command(&["COMMAND"])?))
    }

    /// Reads the reply of COMMAND DOCS.
    pub fn read(reply: &Reply) -> Docs {
        let mut entries = Vec::new();
        for (name, fields) in pairs(reply) {
            add_entry(&[&text(name)], fields, &mut entries);
        }
        Docs::sorted(entries)
    }

    /// Reads the reply of COMMAND, from which only names and numbers of arguments are taken.
    pub fn read_names(reply: &Reply) -> Docs {
        let entries = items(reply).iter().filter_map(|command| {
            let [name, Reply::Int(arity), _, Reply::Int(first_key), ..] = items(command) else { return None };
            let mut left = arity.unsigned_abs().saturating_sub(1).min(64);
            let mut guessed = String::new();
            if *first_key == 1 {
                guessed.push_str("key ");
                left = left.saturating_sub(1);
            }
            guessed.push_str(&"arg ".repeat(left as usize));
            if *arity < 0 {
                guessed.push_str("...options...");
            }
            Some(Entry {
                words: vec![text(name).to_ascii_uppercase()],
                summary: "Help not available".into(),
                since: Some("Not known".into()),
                group: "generic".into(),
                arguments: Arguments::Guessed(guessed),
            })
        });
        Docs::sorted(entries.collect())
    }

    fn sorted(mut entries: Vec<Entry>) -> Docs {
        entries.sort_by(|one, other| one.words.cmp(&other.words));
        Docs { entries }
    }

    /// The command that a line's words begin with: the one of most words.
    pub fn find<A: AsRef<[u8]>>(&self, words: &[A]) -> Option<&Entry> {
        let begins = |entry: &&Entry| {
            entry.words.len() <= words.len()
                && entry
                    .words
                    .iter()
                    .zip(words)
                    .all(|(known, word)| known.as_bytes().eq_ignore_ascii_case(word.as_ref()))
        };
        self.entries.iter().filter(begins).max_by_key(|entry| entry.words.len())
    }

    /// The names of the groups, sorted.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.entries.iter().map(|entry| entry.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

impl Entry {
    /// The words with spaces between.
    pub fn name(&self) -> String {
        self.words.join(" ")
    }
}

fn add_entry(words: &[&str], fields: &Reply, entries: &mut Vec<Entry>) {
    // A subcommand comes as `config|set` or `set`.
    let last = |word: &str| word.rsplit('|').next().unwrap_or(word).to_ascii_uppercase();
    let mut entry = Entry {
        words: words.iter().map(|word| last(word)).collect(),
        summary: String::new(),
        since: None,
        group: String::new(),
        arguments: Arguments::Known(Vec::new()),
    };
    for (field, value) in pairs(fields) {
        match text(field).as_str() {
            "summary" => entry.summary = text(value),
            "since" => entry.since = Some(text(value)),
            "group" => entry.group = text(value),
            "arguments" => {
                let arguments = items(value).iter().map(|argument| read_argument(argument, 0)).collect();
                entry.arguments = Arguments::Known(arguments);
            }
            "subcommands" if words.len() == 1 => {
                for (name, fields) in pairs(value) {
                    add_entry(&[words[0], &text(name)], fields, entries);
                }
            }
            _ => {}
        }
    }
    entries.push(entry);
}

fn read_argument(reply: &Reply, depth: usize) -> Argument {
    let mut argument = Argument {
        text: String::new(),
        token: None,
        kind: Kind::Word,
        is_optional: false,
        is_multiple: false,
        repeats_token: false,
        inner: Vec::new(),
    };
    let mut name = String::new();
    for (field, value) in pairs(reply) {
        match text(field).as_str() {
            "name" => name = text(value),
            "display_text" => argument.text = text(value),
            "token" => argument.token = Some(text(value)),
            "type" => argument.kind = kind(&text(value)),
            "flags" => {
                for flag in items(value) {
                    match text(flag).as_str() {
                        "optional" => argument.is_optional = true,
                        "multiple" => argument.is_multiple = true,
                        "multiple_token" => argument.repeats_token = true,
                        _ => {}
                    }
                }
            }
            "arguments" if depth < DEPTH_MAX => {
                argument.inner = items(value).iter().map(|inner| read_argument(inner, depth + 1)).collect();
            }
            _ => {}
        }
    }
    if argument.text.is_empty() {
        argument.text = name;
    }
    argument
}

fn kind(name: &str) -> Kind {
    match name {
        "integer" | "unix-time" => Kind::Integer,
        "double" => Kind::Double,
        "pure-token" => Kind::Token,
        "oneof" => Kind::OneOf,
        "block" => Kind::Block,
        _ => Kind::Word,
    }
}

/// A map's pairs; RESP2 has an array instead.
fn pairs(reply: &Reply) -> Vec<(&Reply, &Reply)> {
    match reply {
        Reply::Map(pairs) => pairs.iter().map(|(field, value)| (field, value)).collect(),
        _ => items(reply).as_chunks().0.iter().map(|[field, value]| (field, value)).collect(),
    }
}

fn items(reply: &Reply) -> &[Reply] {
    match reply {
        Reply::Array(items) | Reply::Set(items) => items,
        _ => &[],
    }
}

/// A string without what could move a terminal's cursor.
fn text(reply: &Reply) -> String {
    let bytes = match reply {
        Reply::Simple(bytes) | Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => bytes.as_slice(),
        _ => b"",
    };
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
