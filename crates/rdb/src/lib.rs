//! Serialised values: the encoding of RDB files and of DUMP, with its checksum and compression.
//!
//! It knows values, as `types` and `keyspace` have them, and bytes, neither keys' places nor clients.
//!
//! Invariant: reading trusts no length; a damaged input gives an [`Error`], never a panic, and never more
//! memory than a fixed multiple of its own size.

mod array;
pub mod crc64;
mod decode;
mod encode;
pub mod file;
pub mod input;
mod intset;
mod kind;
mod listpack;
mod lzf;
pub mod payload;
mod sink;
mod skip;
mod stored;
mod stream;
mod string;
#[cfg(test)]
mod tests;
mod together;
mod ziplist;

pub use decode::{Limits, Value, read_value};
pub use encode::{
    Form, Source, VERSION_ARRAYS, VERSION_IDEMPOTENCY, VERSION_OLDEST, VERSION_RELEASED, VERSION_STREAMS,
    VERSION_TIMED, VERSION_VALKEY, encoded_kind, encoded_len, lowest_version, write_value,
};
pub use kind::Kind;
pub use sink::Sink;
pub use stored::source_of;
pub use string::{Length, read_bytes, read_length, read_plain_length, write_bytes, write_length};

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
    /// The receiver of the bytes wants no more.
    #[error("interrupted")]
    Interrupted,
    /// Reading the file failed.
    #[error("read error: {0}")]
    Io(std::io::ErrorKind),
}
