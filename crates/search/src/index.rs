//! The structures of an index.
//!
//! Ids of documents only rise; a document that changes gets a new one, and its old id is dead. Postings, sets
//! and columns are appended to. They lose their dead entries when a collection passes over them; until then
//! queries leave these out by the set of live ids.

pub mod bits;
pub mod census;
pub mod content;
pub mod dictionary;
pub mod documents;
pub mod names;
pub mod numbers;
pub mod partition;
pub mod postings;
pub mod shapes;
pub mod sortables;
pub mod sorted;
pub mod statistics;
mod varint;
pub mod vectors;
pub mod whole;

/// The number of a document in its partition. It is never given twice.
pub type DocId = u64;
