//! The command table: each command's entry, and its work on keys. One file or folder per family; a command's
//! entry stands directly above its handler.
//!
//! Handlers know no threads, files or sockets. A handler parses all its arguments into typed values before it
//! touches data, never blocks, and finds the shards of its keys locked.

pub mod array;
pub mod bitmap;
mod collection_scan;
pub mod context;
pub mod fieldset;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod json;
pub mod list;
pub mod path_hash;
pub mod run;
pub mod set;
pub mod sketch;
pub mod sort;
pub mod stream;
pub mod string;
pub mod suggestions;
#[cfg(test)]
mod syntax_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod times;
pub mod transaction;
pub mod tseries;
pub mod vector_set;
pub mod zset;

pub use context::{
    Block, Computation, Computing, Context, Copies, KeyReader, NO_REPLICAS, SeriesSettings, Settings,
    TimeoutReply, Wait,
};
pub use fieldset::Fieldsets;
pub use martlet_spec::{
    Acl, Begin, Channels, Command, Control, Cursor, Databases, Deprecation, Error, Find, Flags, Group,
    KeyFlags, KeyPart, LibraryChange, Outcome, Presentation, ScriptSource, Spec, Tip, Words, command,
    container,
};
pub use run::{Request, key_hashes, reaches_beyond, run, shards};

/// What runs a data command.
pub type Handler = fn(&mut Context<'_>) -> Outcome;

/// All data commands, family by family.
pub static FAMILIES: &[&[&Command<Handler>]] = &[
    array::COMMANDS,
    bitmap::COMMANDS,
    generic::COMMANDS,
    geo::COMMANDS,
    hash::COMMANDS,
    hyperloglog::COMMANDS,
    json::COMMANDS,
    list::COMMANDS,
    path_hash::COMMANDS,
    set::COMMANDS,
    sketch::COMMANDS,
    sort::COMMANDS,
    stream::COMMANDS,
    string::COMMANDS,
    suggestions::COMMANDS,
    tseries::COMMANDS,
    vector_set::COMMANDS,
    zset::COMMANDS,
];
