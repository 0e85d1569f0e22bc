//! A server's command table, read over the wire from COMMAND, COMMAND DOCS and DEBUG HELP.

use std::collections::HashMap;
use std::io;

use martlet_client::blocking::Client;
use martlet_client::resp::Reply;

/// An argument's type in COMMAND DOCS.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// A key's name.
    Key,
    /// A glob.
    Pattern,
    /// A Unix time.
    UnixTime,
    /// Nothing but its word.
    Word,
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these.
    Block(Vec<Argument>),
}

/// An argument, or a group of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// The word before it.
    pub token: Option<String>,
    /// May be left out.
    pub is_optional: bool,
    /// May come several times.
    pub is_multiple: bool,
    /// Its word then comes each time.
    pub repeats_token: bool,
}

/// A command, or a container's subcommand.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its name, in one word or two.
    pub words: Vec<String>,
    /// Its arity, as in COMMAND.
    pub arity: i64,
    /// The group in COMMAND DOCS: which type it works on.
    pub group: String,
    /// Its ACL categories, with their `@`.
    pub categories: Vec<String>,
    /// Its arguments; empty where the server documents none.
    pub arguments: Vec<Argument>,
}

/// All that requests are drawn from.
#[derive(Debug)]
pub struct Table {
    /// The commands, subcommands included.
    pub commands: Vec<Command>,
    /// The configuration's parameters and their values.
    pub parameters: Vec<(Vec<u8>, Vec<u8>)>,
    /// Values as DUMP gives them.
    pub payloads: Vec<Vec<u8>>,
}

fn text(reply: &Reply) -> String {
    reply.text().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
}

/// A flat array as pairs.
fn pairs(reply: &Reply) -> impl Iterator<Item = (String, &Reply)> {
    reply.items().unwrap_or_default().chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1]))
}

impl Table {
    /// Asks a server that [`setup`](super::setup) has filled, under RESP2.
    ///
    /// # Errors
    /// The connection's; `InvalidData` when there is no command in the answer.
    pub fn read(client: &mut Client) -> io::Result<Table> {
        let mut docs = HashMap::new();
        collect_docs(&client.command(&["COMMAND", "DOCS"])?, &mut docs);
        let mut commands = Vec::new();
        for entry in client.command(&["COMMAND"])?.items().unwrap_or_default() {
            collect(entry, &docs, &mut commands);
        }
        if commands.len() < 50 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "COMMAND tells no table"));
        }
        let help = client.command(&["DEBUG", "HELP"])?;
        for line in help.items().unwrap_or_default().iter().map(text) {
            let name = line.split([' ', '<', '[']).next().unwrap_or_default();
            if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
                let words = vec!["debug".into(), name.to_ascii_lowercase()];
                let (group, categories) = (String::new(), vec!["@admin".into()]);
                commands.push(Command { words, arity: -2, group, categories, arguments: Vec::new() });
            }
        }
        let parameters = client.command(&["CONFIG", "GET", "*"])?;
        let parameters = pairs(&parameters)
            .map(|(name, value)| (name.into_bytes(), value.text().unwrap_or_default().to_vec()))
            .collect();
        let mut payloads = Vec::new();
        for key in super::setup::keys() {
            if let Reply::Bulk(payload) = client.command(&[b"DUMP".as_slice(), &key])? {
                payloads.push(payload);
            }
        }
        Ok(Table { commands, parameters, payloads })
    }
}

fn collect_docs(docs: &Reply, out: &mut HashMap<String, (String, Vec<Argument>)>) {
    for (name, entry) in pairs(docs) {
        let (mut group, mut arguments) = (String::new(), Vec::new());
        for (field, value) in pairs(entry) {
            match field.as_str() {
                "group" => group = text(value),
                "arguments" => arguments = read_arguments(value),
                "subcommands" => collect_docs(value, out),
                _ => {}
            }
        }
        out.insert(name, (group, arguments));
    }
}

fn read_arguments(list: &Reply) -> Vec<Argument> {
    list.items().unwrap_or_default().iter().map(read_argument).collect()
}

fn read_argument(entry: &Reply) -> Argument {
    let mut argument = Argument {
        name: String::new(),
        kind: Kind::Text,
        token: None,
        is_optional: false,
        is_multiple: false,
        repeats_token: false,
    };
    let mut members = Vec::new();
    let mut kind = String::new();
    for (field, value) in pairs(entry) {
        match field.as_str() {
            "name" => argument.name = text(value),
            "type" => kind = text(value),
            "token" => argument.token = Some(text(value)),
            "arguments" => members = read_arguments(value),
            "flags" => {
                let flags: Vec<String> = value.items().unwrap_or_default().iter().map(text).collect();
                let has = |flag: &str| flags.iter().any(|one| one == flag);
                argument.is_optional = has("optional");
                argument.is_multiple = has("multiple");
                argument.repeats_token = has("multiple_token");
            }
            _ => {}
        }
    }
    argument.kind = match kind.as_str() {
        "integer" => Kind::Integer,
        "double" => Kind::Double,
        "key" => Kind::Key,
        "pattern" => Kind::Pattern,
        "unix-time" => Kind::UnixTime,
        "pure-token" => Kind::Word,
        "oneof" => Kind::OneOf(members),
        "block" => Kind::Block(members),
        _ => Kind::Text,
    };
    argument
}

/// Adds an entry of COMMAND and its subcommands.
fn collect(entry: &Reply, docs: &HashMap<String, (String, Vec<Argument>)>, out: &mut Vec<Command>) {
    let Some([name, arity, _, _, _, _, categories, rest @ ..]) = entry.items() else { return };
    let name = text(name);
    let (group, arguments) = docs.get(&name).cloned().unwrap_or_default();
    out.push(Command {
        words: name.split('|').map(str::to_owned).collect(),
        arity: arity.integer().unwrap_or(-1),
        group,
        categories: categories.items().unwrap_or_default().iter().map(text).collect(),
        arguments,
    });
    for subcommand in rest.last().and_then(Reply::items).unwrap_or_default() {
        collect(subcommand, docs, out);
    }
}
