//! The commands that change which indexes there are; and those that make the present ones, for files.
//!
//! What is made by [`Catalogue::commands`] is equal to what was there: FT.ALTER's fields are among
//! FT.CREATE's. Dictionaries and synonyms are there, too; documents that SKIPINITIALSCAN has left as they
//! were are indexed with all synonyms.

use std::sync::Arc;

use martlet_json::path::Path;
use martlet_search::Error;
use martlet_search::definition::{Context, alter, arguments, create};
use martlet_search::synonyms::Update;

use crate::catalogue::{Catalogue, Named};
use crate::index::KeyIndex;

/// The most terms of one command.
const PART: usize = 4096;

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
    /// As many terms were added to a dictionary, or deleted from it.
    Terms(usize),
}

fn context(memory_bytes: u64) -> Context {
    Context { memory_bytes, is_path: |text| Path::parse(text).is_ok() }
}

impl Catalogue {
    /// Runs a command that changes indexes, aliases, synonyms or dictionaries; see [`Catalogue::change`].
    pub(crate) fn change_one(&self, command: &[&[u8]], memory_bytes: u64) -> Result<Changed, Error> {
        let changed = self.run_change(command, memory_bytes);
        self.agreement.note_change();
        changed
    }

    fn run_change(&self, command: &[&[u8]], memory_bytes: u64) -> Result<Changed, Error> {
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
            (b"FT.SYNUPDATE", arguments) => self.update_synonyms(&Update::parse(arguments)?),
            (b"FT.DICTADD", [dictionary, terms @ ..]) => {
                return self.change_dictionaries(|all| all.add(dictionary, terms)).map(Changed::Terms);
            }
            (b"FT.DICTDEL", [dictionary, terms @ ..]) => {
                return Ok(Changed::Terms(self.change_dictionaries(|all| all.delete(dictionary, terms))));
            }
            _ => return Err(unknown()),
        };
        changed.map(|()| Changed::Yes)
    }

    /// The commands that make the indexes, aliases, synonyms and dictionaries that there are.
    pub fn commands(&self) -> Vec<Command> {
        let Named { indexes, aliases } = self.named();
        let mut commands: Vec<Command> = Vec::with_capacity(indexes.len() + aliases.len());
        for index in indexes {
            let rules = index.index().rules();
            let own = arguments(&rules.definition);
            commands.push(command(b"FT.CREATE", own.iter().map(AsRef::as_ref)));
            for (group, mut terms) in rules.synonyms.updates() {
                // Equal definitions have equal commands.
                terms.sort_unstable();
                let heads: [&[u8]; 4] = [b"FT.SYNUPDATE", index.name(), group, b"SKIPINITIALSCAN"];
                in_parts(&heads, &terms, &mut commands);
            }
        }
        for (alias, index) in aliases {
            commands.push(vec![Box::from(b"FT.ALIASADD".as_slice()), alias, index]);
        }
        self.with_dictionaries(|dictionaries| {
            for (name, dictionary) in dictionaries.iter() {
                // The empty text is no term, but makes the dictionary.
                let none: [&[u8]; 1] = [b""];
                let terms = dictionary.terms();
                let terms = if terms.is_empty() { &none[..] } else { &terms };
                in_parts(&[b"FT.DICTADD", name], terms, &mut commands);
            }
        });
        commands
    }

    /// Creates the index of FT.CREATE's arguments, without a scan.
    ///
    /// # Errors
    /// RediSearch's.
    pub(crate) fn create_unscanned(&self, arguments: &[&[u8]], memory_bytes: u64) -> Result<(), Error> {
        self.add(create(arguments, context(memory_bytes))?, false)
    }
}

fn command<'a>(name: &'a [u8], arguments: impl Iterator<Item = &'a [u8]>) -> Command {
    std::iter::once(name).chain(arguments).map(Box::from).collect()
}

/// The commands that begin with `heads`, and have some of the last arguments each.
fn in_parts(heads: &[&[u8]], last: &[&[u8]], commands: &mut Vec<Command>) {
    let part = |last: &[&[u8]]| heads.iter().chain(last).map(|word| Box::from(*word)).collect();
    commands.extend(last.chunks(PART).map(part));
}

fn unknown() -> Error {
    Error::new("unknown command")
}

#[cfg(test)]
mod tests;
