//! Vectors for nearest-neighbour search, as Redis' vector sets and search have them: distance kernels,
//! quantisation, one HNSW graph that many threads insert into and search, filter expressions, and the saved
//! form. This crate knows no server, no keys and no protocol.

pub mod convert;
pub mod element;
pub mod filter;
pub mod graph;
pub mod kernels;
pub mod quantise;
pub mod saved;
pub mod set;
