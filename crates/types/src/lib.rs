//! Value types: strings apart, the encodings of list, set, hash and sorted set; no keys, no clients.

pub mod element;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod intset;
pub mod list;
pub mod packed;
pub mod set;
pub mod size_class;
pub mod table;
mod tagged;
pub mod zset;
