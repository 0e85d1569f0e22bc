//! The commands that rules name.
//!
//! Invariant: made once of the command table, renames not applied, so that rules mean the same under any
//! renaming; a command's place is that of its entry.

use hashbrown::HashMap;
use martlet_spec::{Acl, Spec};

/// An entry of the command table.
#[derive(Copy, Clone, Debug)]
pub struct Listed {
    /// Its specification.
    pub spec: &'static Spec,
    /// The place of its container.
    pub parent: Option<usize>,
    /// Rules cannot name it: it is allowed where its container is.
    pub is_hidden: bool,
}

/// A command as rules see it.
pub(crate) struct Known {
    /// With the container's.
    pub name: &'static str,
    pub categories: Acl,
    pub is_subcommand: bool,
    /// Places of its subcommands that rules can name.
    pub subcommands: Vec<usize>,
    is_hidden: bool,
}

/// See the [module docs](self).
pub struct Table {
    commands: Vec<Known>,
    names: HashMap<&'static str, usize>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} commands)", self.commands.len())
    }
}

impl Table {
    /// The table of all entries in the order of their places.
    pub fn new(entries: impl IntoIterator<Item = Listed>) -> Table {
        let mut table = Table { commands: Vec::new(), names: HashMap::new() };
        for (place, Listed { spec, parent, is_hidden }) in entries.into_iter().enumerate() {
            table.commands.push(Known {
                name: spec.full_name,
                categories: spec.acl(),
                is_subcommand: parent.is_some(),
                subcommands: Vec::new(),
                is_hidden,
            });
            if is_hidden {
                continue;
            }
            table.names.insert(spec.full_name, place);
            if let Some(container) = parent.and_then(|parent| table.commands.get_mut(parent)) {
                container.subcommands.push(place);
            }
        }
        table
    }

    /// Number of places.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The place of the command with this full name (`config|get`), in any case of letters.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.names.get(name.as_str()).copied()
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Known> {
        self.commands.get(place)
    }

    /// The category of this name, in any case of letters.
    pub fn category(name: &[u8]) -> Option<Acl> {
        let is_it = |(_, known): &&(Acl, &str)| known.as_bytes().eq_ignore_ascii_case(name);
        Acl::NAMES.iter().find(is_it).map(|(category, _)| *category)
    }

    /// Places and names of the commands in a category.
    pub fn in_category(&self, category: Acl) -> impl Iterator<Item = (usize, &'static str)> {
        let is_in =
            move |(_, command): &(usize, &Known)| !command.is_hidden && command.categories.has(category);
        self.commands.iter().enumerate().filter(is_in).map(|(place, command)| (place, command.name))
    }
}
