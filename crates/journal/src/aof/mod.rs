//! The append-only file: a directory with a base, which holds everything up to some moment, and files of
//! commands since then. A manifest names them in order. Layout and names are those of Redis 7.
//!
//! ```text
//! appendonlydir/
//!   appendonly.aof.manifest       the list: names, numbers, types
//!   appendonly.aof.3.base.rdb     everything at the last rewrite (or .aof: as commands)
//!   appendonly.aof.3.incr.aof     commands since then
//!   appendonly.aof.4.incr.aof     … and since a rewrite began that has not ended
//! ```

mod commands;
mod gather;
mod manifest;
mod torn;
mod writer;

pub use commands::{CommandError, CommandReader, Item};
pub use gather::Gather;
pub use manifest::{FileInfo, FileKind, Manifest, ManifestError};
pub use writer::{StepError, SyncPolicy, Terms, Writer};
