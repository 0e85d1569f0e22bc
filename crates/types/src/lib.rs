//! Value types: strings apart, the encodings of list, set, hash, sorted set, stream, array, path hash and
//! dictionary of suggestions; no keys, no clients.

pub mod array;
pub mod element;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod intset;
pub mod list;
pub mod ordered;
pub mod packed;
pub mod path_hash;
pub mod set;
pub mod size_class;
pub mod stream;
pub mod suggestions;
pub mod table;
mod tagged;
mod timed;
pub mod zset;
