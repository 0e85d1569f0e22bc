//! The structures of an index. Documents have ids that only rise; a document that changes gets a new one, and
//! its old id is dead. What is kept by id (postings, sets, columns) is appended to, and loses its dead entries
//! when a collection passes over it; a query leaves them out by the set of live ids.

pub mod bits;
pub mod content;
pub mod dictionary;
pub mod documents;
pub mod numbers;
pub mod partition;
pub mod postings;
pub mod sorted;
mod varint;

/// The number of a document in its partition. It is never given twice.
pub type DocId = u64;
