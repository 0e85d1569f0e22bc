//! Configuration: one table of parameters, an immutable `Config` published by generation, and what reads and
//! writes it.
//!
//! Invariant: a published `Config` never changes; a change is a clone that is validated whole and
//! then published. Every parameter that Redis 7.2/8.0 and Valkey 8 know has an entry in the table, so a
//! configuration file written for them loads; an entry's [`Effect`] says whether it does anything here.

mod accepted;
mod change;
mod command_line;
mod enumerations;
mod index;
mod load;
mod parameters;
mod rewrite;
mod search;
mod special;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod value;
pub mod words;

pub use accepted::Accepted;
pub use change::{Acquired, Changed, Hook, Prepared, SetError, Setter, get, is_sensitive, parameters_set};
pub use command_line::{CommandLine, CommandLineError, Invocation, USAGE, parse_command_line, version_text};
pub use enumerations::*;
pub use index::{find, parameters};
pub use load::{
    AnySurroundings, Declarations, LoadError, Loaded, REDIS_VERSION, REDIS_VERSION_NUMBER, Sources,
    Surroundings, load,
};
pub use parameters::Config;
pub use rewrite::{AccessLines, Extent, rewrite, rewrite_file};
pub use search::{RESULTS_MAX, SearchParameters};
pub use special::{
    ErrorRate, KeyspaceEvents, OutputClass, OutputLimit, Primary, ReplicaOf, SavePoint, SavePoints,
    SlotMetrics, TitlePart, title_parts,
};
pub use store::{ConfigReader, ConfigStore};
pub use table::{Effect, Parameter};
pub use value::{Kind, MemoryLimit, memory};
pub use words::split as split_words;
