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
mod load;
mod parameters;
mod rewrite;
mod special;
mod store;
mod table;
impl Config {
    /// How many databases there are.
    pub fn database_count(&self) -> usize {
        (if self.cluster_enabled { self.cluster_databases } else { self.databases }) as usize
    }
}

#[cfg(test)]
mod tests;
mod value;
pub(crate) mod words;

pub use accepted::Accepted;
pub use change::{Changed, Hook, Prepared, SetError, Setter, get, is_sensitive, parameters_set};
pub use command_line::{CommandLine, CommandLineError, Invocation, USAGE, parse_command_line, version_text};
pub use enumerations::*;
pub use load::{
    AnySurroundings, LoadError, Loaded, REDIS_VERSION, REDIS_VERSION_NUMBER, Sources, Surroundings, load,
};
pub(crate) use martlet_base::disk::error_text;
pub use parameters::Config;
pub use rewrite::{Extent, UserLines, rewrite, rewrite_file};
pub use special::{
    KeyspaceEvents, OutputClass, OutputLimit, Primary, ReplicaOf, SavePoint, SavePoints, SlotMetrics,
};
pub(crate) use special::{TitlePart, title_parts};
pub use store::{ConfigReader, ConfigStore};
pub use table::{Effect, Parameter, find, parameters};
pub(crate) use value::memory;
pub use value::{Kind, MemoryLimit};
pub use words::split as split_words;
