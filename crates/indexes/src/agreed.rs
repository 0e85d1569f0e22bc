//! The definitions that all nodes of a cluster have: a version counts their changes.
//!
//! One node orders the changes. Each has the version that it leads to and the one that it was made of; a node
//! of another version refuses it, and gets all definitions instead. Version 0 is that of definitions which
//! the cluster has not agreed on: of a node that is new to it, or whose keys were all deleted.

use std::collections::HashSet;

use martlet_base::number::parse_i64;
use martlet_base::sync::lock;
use martlet_search::Error;

use crate::agreement::{DEFINE, DIGEST_OF_NONE, Version};
use crate::catalogue::Catalogue;
use crate::definitions::{Changed, Command};

/// The error of a node whose definitions are not those that a change was made of.
const OTHER_BASE: &str = "TRYAGAIN The definitions of this node have another version";

impl Catalogue {
    /// Runs a command that changes which indexes there are; `memory_bytes` is the server's limit. Options of
    /// FT.DROPINDEX about documents are the caller's.
    ///
    /// # Errors
    /// RediSearch's; nothing has changed.
    pub fn change(&self, command: &[&[u8]], memory_bytes: u64) -> Result<Changed, Error> {
        match command {
            [name, arguments @ ..] if name.eq_ignore_ascii_case(DEFINE) => {
                self.define(arguments, memory_bytes)
            }
            command => self.change_one(command, memory_bytes),
        }
    }

    /// Does what these commands say, instead of all that there is, and scans all keys for the indexes. One
    /// that cannot be run is left out, and its error returned.
    pub fn replace(&self, commands: &[Vec<&[u8]>], memory_bytes: u64) -> Vec<Error> {
        self.clear();
        self.agreement.reset();
        let make = |command: &Vec<&[u8]>| match command.as_slice() {
            [b"FT.CREATE", arguments @ ..] => self.create_unscanned(arguments, memory_bytes),
            command => self.change(command, memory_bytes).map(drop),
        };
        let errors = commands.iter().filter_map(|command| make(command).err()).collect();
        self.scan_all();
        errors
    }

    /// The version of the definitions.
    pub fn version(&self) -> u64 {
        lock(&self.agreement.version).shown()
    }

    /// The version of the next change.
    pub fn next_version(&self) -> u64 {
        lock(&self.agreement.version).number.saturating_add(1)
    }

    /// Whether all indexes have gone with the keys since the cluster last agreed.
    pub fn is_flushed(&self) -> bool {
        lock(&self.agreement.version).is_flushed
    }

    /// The version, and the commands that make the indexes and aliases.
    pub fn definitions(&self) -> (u64, Vec<Command>) {
        let version = lock(&self.agreement.version);
        (version.shown(), self.commands())
    }

    /// As [`Catalogue::commands`], with the one that sets the version.
    pub fn commands_with_version(&self) -> Vec<Command> {
        let (version, mut commands) = self.definitions();
        if version > 0 {
            let words = [DEFINE, version.to_string().as_bytes(), b"SET"].map(Box::from);
            commands.push(words.into());
        }
        commands
    }

    /// The version, and a number that equal definitions have in common.
    pub fn digest(&self) -> (u64, u64) {
        let digest = self.agreement.digest(|| {
            // FNV-1a over the words and their lengths.
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            self.commands().iter().flatten().fold(DIGEST_OF_NONE, |digest, word| {
                let length = (word.len() as u64).to_le_bytes();
                length.into_iter().chain(word.iter().copied()).fold(digest, mix)
            })
        });
        (self.version(), digest)
    }

    /// Runs [`DEFINE`] with these arguments.
    ///
    /// # Errors
    /// That the change was made of other definitions, or its own; nothing has changed.
    pub(crate) fn define(&self, arguments: &[&[u8]], memory_bytes: u64) -> Result<Changed, Error> {
        let malformed = || Error::new("syntax error");
        let [version, form, rest @ ..] = arguments else { return Err(malformed()) };
        let number = parse_number(version).ok_or_else(malformed)?;
        let mut version = lock(&self.agreement.version);
        if number <= version.shown() {
            return Ok(Changed::No);
        }
        let changed = match (*form, rest) {
            (b"ONE", [base, command @ ..]) => {
                if parse_number(base) != Some(version.shown()) {
                    return Err(Error::new(OTHER_BASE));
                }
                match self.change_one(command, memory_bytes)? {
                    Changed::No => return Ok(Changed::No),
                    changed => changed,
                }
            }
            (b"ALL", words) => {
                self.converge(&split(words).ok_or_else(malformed)?, memory_bytes);
                Changed::Yes
            }
            (b"SET", []) => Changed::Yes,
            _ => return Err(malformed()),
        };
        *version = Version { number, is_flushed: false };
        Ok(changed)
    }

    /// Makes the definitions of these commands, and drops all others. Indexes that are equal stay as they
    /// are. Commands that fail are left out.
    fn converge(&self, commands: &[&[&[u8]]], memory_bytes: u64) {
        let wanted: HashSet<&[&[u8]]> = commands.iter().copied().collect();
        for command in self.commands() {
            let words: Vec<&[u8]> = command.iter().map(|word| &**word).collect();
            if !wanted.contains(words.as_slice()) {
                self.undo(&words);
            }
        }
        let there = self.commands();
        let there: HashSet<Vec<&[u8]>> =
            there.iter().map(|command| command.iter().map(|word| &**word).collect()).collect();
        let mut scanned = HashSet::new();
        for command in commands.iter().filter(|command| !there.contains(**command)) {
            let _ = match command {
                [b"FT.CREATE", arguments @ ..] => self.create_unscanned(arguments, memory_bytes),
                command => self.change_one(command, memory_bytes).map(drop),
            };
            if let [b"FT.CREATE" | b"FT.SYNUPDATE", name, ..] = command {
                scanned.insert(*name);
            }
        }
        self.scan_named(&scanned);
    }

    /// Undoes a command. Synonyms go with their index only.
    fn undo(&self, command: &[&[u8]]) {
        let _ = match command {
            [b"FT.CREATE" | b"FT.SYNUPDATE", name, ..] => self.drop_index(name).map(drop),
            [b"FT.ALIASADD", alias, ..] => self.remove_alias(alias),
            [b"FT.DICTADD", name, ..] => {
                self.change_dictionaries(|all| all.drop(name));
                Ok(())
            }
            _ => Ok(()),
        };
    }
}

fn parse_number(text: &[u8]) -> Option<u64> {
    u64::try_from(parse_i64(text)?).ok()
}

/// The commands of `(count command…)…`.
pub fn split<'a, 'w>(mut words: &'a [&'w [u8]]) -> Option<Vec<&'a [&'w [u8]]>> {
    let mut commands = Vec::new();
    while let [count, rest @ ..] = words {
        let count = usize::try_from(parse_number(count)?).ok()?;
        commands.push(rest.get(..count)?);
        words = &rest[count..];
    }
    Some(commands)
}

/// The words of `ALL` for these commands.
pub fn join(commands: &[Command]) -> Vec<Box<[u8]>> {
    let mut words: Vec<Box<[u8]>> = Vec::new();
    for command in commands {
        words.push(command.len().to_string().into_bytes().into());
        words.extend(command.iter().cloned());
    }
    words
}

#[cfg(test)]
mod tests;
