//! The RDB format's primitives: lengths, strings, the blocks that collections lie in, compression and
//! checksum.
//!
//! The crate knows bytes and elements; which type is made of which primitives is in `values`.
//!
//! Invariant: reading trusts no length; a damaged input gives an [`Error`], never a panic, and never more
//! memory than a fixed multiple of its own size.

pub mod crc64;
pub mod envelope;
pub mod frames;
pub mod input;
pub mod intset;
pub mod listpack;
mod lzf;
pub mod module;
pub mod pack;
mod sink;
mod string;
pub mod ziplist;

pub use sink::{Counter, Owner, Sink, Writer};
pub use string::{
    Length, read_bytes, read_count, read_length, read_plain_length, skip_bytes, take_bytes, write_bytes,
    write_element, write_length,
};

/// Why an encoded value was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input ends too early.
    #[error("unexpected end")]
    Truncated,
    /// The bytes contradict themselves; the text says where.
    #[error("{0}")]
    Corrupt(&'static str),
    /// A file of a version that is not known, as Redis says it.
    #[error("Can't handle RDB format version {0}")]
    Version(u16),
    /// A collection without elements, which Redis never keeps.
    #[error("empty {0}")]
    Empty(&'static str),
    /// A type that this server does not hold; the text names it.
    #[error("values of type {0} cannot be held")]
    Unknown(&'static str),
    /// A type, or an opcode, of which nothing is known but its number.
    #[error("unknown type of value: {0}")]
    UnknownType(u8),
    /// The receiver of the bytes wants no more.
    #[error("interrupted")]
    Interrupted,
    /// Reading the file failed.
    #[error("read error: {0}")]
    Io(std::io::ErrorKind),
}
