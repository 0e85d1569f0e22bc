//! Configuration: one table of parameters, an immutable `Config` published by generation, and what reads and writes it.
//!
//! What always holds: a published `Config` never changes; a change is a clone that is validated whole and then published.
//! Every parameter that Redis 7.2/8.0 and Valkey 8 know has an entry in the table, so a configuration file written for
//! them loads; an entry's [`Effect`] says whether it does anything here.

mod accepted;
mod enumerations;
mod parameters;
mod special;
mod store;
mod table;
mod value;

pub use accepted::Accepted;
pub use enumerations::*;
pub use parameters::Config;
pub use special::*;
pub use store::{ConfigReader, ConfigStore};
pub use table::{Effect, Parameter, find, parameters};
pub use value::{Kind, MemoryLimit};
