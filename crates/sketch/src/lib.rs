//! Redis 8's probabilistic types: Bloom filter, cuckoo filter, Count-Min sketch, Top-K and t-digest.
//!
//! Pure values: no keys, no clients, no clock; the one generator of random numbers comes in as a parameter.
//! Hashing, sizing and layout are those of RedisBloom, so that equal histories give equal answers and equal
//! saved forms.
//! `docs/internals/sketch.md` has the formats.
//!
//! What always holds: an operation that fails has changed nothing, errors print Redis 8's own words, and no
//! size that came from outside is allocated before it was checked.

pub mod bloom;
pub mod cms;
pub mod cuckoo;
mod debris;
pub mod field;
pub mod hash;
mod packed;
mod pages;
pub mod tdigest;
pub mod topk;

pub use bloom::Bloom;
pub use cms::CountMin;
pub use cuckoo::Cuckoo;
pub use debris::Debris;
pub use packed::Chunk;
pub use tdigest::TDigest;
pub use topk::TopK;

/// The largest table of a sketch, in bytes. Redis asks its allocator and refuses when that does; a fixed
/// limit does not depend on how much memory the machine happens to lend.
pub const TABLE_MAX_BYTES: u64 = 1 << 36;
/// The most rows of a Count-Min or Top-K sketch that is created: every item has a counter in each. The error
/// halves with each row, so that a hundredth of them is more than any use has.
pub const ROWS_MAX: u64 = 1 << 16;
/// The longest piece that SCANDUMP gives, in bytes (RedisBloom: `MAX_SCANDUMP_SIZE`).
pub const CHUNK_MAX_BYTES: u64 = 16 << 20;
