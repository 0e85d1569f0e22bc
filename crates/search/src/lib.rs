//! Search as Redis has it: what an index is defined by, how text becomes terms, the query language,
//! the structures of an index, and aggregation. This crate knows no server, no keys and no protocol:
//! a document is a name and the values of its fields, a result is typed values.

pub mod aggregate;
pub mod aggregating;
pub mod analysis;
pub mod arguments;
pub mod definition;
pub mod dictionaries;
pub mod error;
pub mod exec;
pub mod geometry;
pub mod highlighting;
pub mod hybrid;
pub mod index;
pub mod merging;
pub mod number;
pub mod query;
pub mod request;
pub mod schema;
pub mod searching;
pub mod snippets;
pub mod spelling;
pub mod synonyms;
pub mod text;

pub use error::Error;
