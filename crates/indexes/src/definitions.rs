//! The commands that change which indexes there are; and those that make the present ones, for files.
//!
//! What is made by [`Catalogue::commands`] is equal to what was there: FT.ALTER's fields are among
//! FT.CREATE's.

use std::sync::Arc;

use martlet_json::path::Path;
use martlet_search::Error;
use martlet_search::definition::{Context, alter, arguments, create};

use crate::catalogue::{Catalogue, Named};
use crate::index::KeyIndex;

/// The arguments of a command, its name first.
pub type Command = Vec<Box<[u8]>>;

/// The outcome of a command that changes the catalogue.
#[derive(Debug)]
pub enum Changed {
    /// It has.
    Yes,
    /// Nothing was to do.
    No,
    /// An index was dropped.
    Dropped(Arc<KeyIndex>),
}

fn context(memory_bytes: u64) -> Context {
    Context { memory_bytes, is_path: |text| Path::parse(text).is_ok() }
}

impl Catalogue {
    /// Runs a command that changes which indexes there are; `memory_bytes` is the server's limit. Options of
    /// FT.DROPINDEX about documents are the caller's.
    ///
    /// # Errors
    /// RediSearch's; nothing has changed.
    pub fn change(&self, command: &[&[u8]], memory_bytes: u64) -> Result<Changed, Error> {
        let [name, arguments @ ..] = command else { return Err(unknown()) };
        let context = context(memory_bytes);
        let changed = match (name.to_ascii_uppercase().as_slice(), arguments) {
            (b"FT.CREATE", arguments) => self.create(create(arguments, context)?),
            (b"FT._CREATEIFNX", [index, ..]) if self.has_index(index) => return Ok(Changed::No),
            (b"FT._CREATEIFNX", arguments) => self.create(create(arguments, context)?),
            (b"FT.ALTER", [index, rest @ ..]) => self.alter(index, |before| alter(before, rest, context)),
            (b"FT.DROPINDEX", [index, ..]) => return self.drop_index(index).map(Changed::Dropped),
            (b"FT._DROPINDEXIFX", [index, ..]) if self.find(index).is_none() => return Ok(Changed::No),
            (b"FT._DROPINDEXIFX", [index, ..]) => return self.drop_index(index).map(Changed::Dropped),
            (b"FT.ALIASADD", [alias, index]) => self.add_alias(alias, index, false),
            (b"FT._ALIASADDIFNX", [alias, _]) if self.has_alias(alias) => return Ok(Changed::No),
            (b"FT._ALIASADDIFNX", [alias, index]) => self.add_alias(alias, index, false),
            (b"FT.ALIASUPDATE", [alias, index]) => self.add_alias(alias, index, true),
            (b"FT.ALIASDEL", [alias]) => self.remove_alias(alias),
            (b"FT._ALIASDELIFX", [alias]) if !self.has_alias(alias) => return Ok(Changed::No),
            (b"FT._ALIASDELIFX", [alias]) => self.remove_alias(alias),
            _ => return Err(unknown()),
        };
        changed.map(|()| Changed::Yes)
    }

    /// The commands that make the indexes and aliases that there are.
    pub fn commands(&self) -> Vec<Command> {
        let Named { indexes, aliases } = self.named();
        let mut commands: Vec<Command> = Vec::with_capacity(indexes.len() + aliases.len());
        for index in indexes {
            let mut command: Command = vec![Box::from(b"FT.CREATE".as_slice())];
            let own = arguments(&index.index().rules().definition);
            command.extend(own.into_iter().map(|argument| Box::from(argument.as_ref())));
            commands.push(command);
        }
        for (alias, index) in aliases {
            commands.push(vec![Box::from(b"FT.ALIASADD".as_slice()), alias, index]);
        }
        commands
    }

    /// Makes the indexes and aliases of these commands, instead of all that there are, and scans all keys for
    /// them. One that cannot be made is left out, and its error returned.
    pub fn replace(&self, commands: &[Vec<&[u8]>], memory_bytes: u64) -> Vec<Error> {
        self.clear();
        let make = |command: &Vec<&[u8]>| match command.as_slice() {
            [b"FT.CREATE", arguments @ ..] => self.add(create(arguments, context(memory_bytes))?, true),
            other => self.change(other, memory_bytes).map(|_| ()),
        };
        commands.iter().filter_map(|command| make(command).err()).collect()
    }
}

fn unknown() -> Error {
    Error::new("unknown command")
}

#[cfg(test)]
mod tests;
