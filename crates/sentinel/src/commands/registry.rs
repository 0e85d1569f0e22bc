//! The command table: entries with their places, found by name in any case of letters.

use std::collections::HashMap;
use std::sync::LazyLock;

use martlet_acl::{Listed, Table};
use martlet_protocol::request::Args;
use martlet_spec::Spec;

use super::{FAMILIES, Handler, SentinelCommand};

/// A command or a subcommand.
pub struct Entry {
    /// Its place in the table.
    pub id: usize,
    /// Its specification.
    pub spec: &'static Spec,
    /// What runs it; containers have nothing.
    pub handler: Option<Handler>,
    /// The container's place.
    pub parent: Option<usize>,
    /// Places of its subcommands.
    pub subcommands: Vec<usize>,
}

/// See the [module docs](self).
pub struct Registry {
    entries: Vec<Entry>,
    names: HashMap<&'static str, usize>,
}

/// The one table.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::new);
    &REGISTRY
}

impl Registry {
    fn new() -> Registry {
        let mut registry = Registry { entries: Vec::new(), names: HashMap::new() };
        FAMILIES.iter().copied().flatten().for_each(|command| registry.add(command, None));
        registry
    }

    fn add(&mut self, command: &'static SentinelCommand, parent: Option<usize>) {
        let id = self.entries.len();
        let (spec, handler) = (&command.spec, command.handler);
        self.entries.push(Entry { id, spec, handler, parent, subcommands: Vec::new() });
        self.names.insert(spec.full_name, id);
        for subcommand in command.subcommands {
            let place = self.entries.len();
            self.entries[id].subcommands.push(place);
            self.add(subcommand, Some(id));
        }
    }

    /// All entries in the order of their places.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Commands without their subcommands.
    pub fn commands(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.parent.is_none())
    }

    /// The entry of a full name (`client|list`).
    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.names.get(name.as_str()).map(|id| &self.entries[*id])
    }

    /// The entry that arguments name: a subcommand, if the command has such a one.
    pub fn resolve(&self, args: &Args<'_>) -> Option<&Entry> {
        let entry = self.find(args.at(0)).filter(|entry| entry.parent.is_none())?;
        if entry.subcommands.is_empty() || args.len() < 2 {
            return Some(entry);
        }
        let name = [entry.spec.name.as_bytes(), b"|", args.at(1)].concat();
        Some(self.find(&name).unwrap_or(entry))
    }

    /// The commands that rules may name.
    pub fn acl_table(&self) -> Table {
        Table::new(self.entries.iter().map(|entry| Listed {
            spec: entry.spec,
            parent: entry.parent,
            is_hidden: false,
        }))
    }
}
