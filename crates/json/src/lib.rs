//! JSON documents: values, their text, paths in Redis' two dialects, the operations of the JSON commands,
//! serialised forms. The crate knows neither keys nor clients, starts no thread and reads no clock.
//!
//! [`document::Document`] is what a key holds; [`ops`] are the commands' work on it, with paths that
//! [`path::Path`] has parsed and values that [`text::parse`] has. `docs/internals/json.md` describes the
//! layouts.

pub mod cbor;
pub mod document;
pub mod error;
pub mod limits;
pub mod ops;
pub mod path;
mod rewrite;
pub mod serialised;
pub mod text;
pub mod value;
