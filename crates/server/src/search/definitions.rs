//! Definitions of indexes in files: each is a command that makes one.

use martlet_indexes::Catalogue;
use martlet_journal::aof::{CommandReader, Item};
use martlet_persistence::Definition;
use martlet_protocol::request::Args;

/// The machine's memory, or `maxmemory` if that is set: the limit of blocks of vectors.
pub fn memory_bytes(maxmemory_bytes: u64) -> u64 {
    match maxmemory_bytes {
        0 => crate::process::system_memory_bytes(),
        limit => limit,
    }
}

/// The commands that make the present indexes.
pub fn texts(catalogue: &Catalogue) -> Vec<Definition> {
    let encoded = |command: martlet_indexes::Command| {
        let mut text = Vec::new();
        martlet_journal::encode(&mut text, command.iter().map(|argument| &**argument));
        text.into()
    };
    catalogue.commands_with_version().into_iter().map(encoded).collect()
}

/// Makes the indexes of a data set that was loaded, and no others.
pub fn take(catalogue: &Catalogue, definitions: &[Definition], memory_bytes: u64) {
    let mut commands: Vec<Vec<Box<[u8]>>> = Vec::with_capacity(definitions.len());
    for definition in definitions {
        match CommandReader::new(&**definition, 0).read() {
            Ok(Some(Item::Command(args))) => commands.push(args.iter().map(Box::from).collect()),
            _ => tracing::warn!("A definition of an index in the file is no command, and is left out."),
        }
    }
    let words: Vec<Vec<&[u8]>> =
        commands.iter().map(|command| command.iter().map(|word| &**word).collect()).collect();
    for error in catalogue.replace(&words, memory_bytes) {
        tracing::warn!("An index of the file is left out: {error}");
    }
}

/// Runs a command of a file that changes indexes.
///
/// # Errors
/// Its reply.
pub fn replay(catalogue: &Catalogue, args: &Args<'_>, memory_bytes: u64) -> Result<(), String> {
    let words: Vec<&[u8]> = args.iter().collect();
    catalogue.change(&words, memory_bytes).map(|_| ()).map_err(|error| error.to_string())
}
