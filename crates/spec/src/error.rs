//! Errors that handlers answer; their texts are Redis', since clients match on them.

use thiserror::Error;

/// A handler's result. On an error, its output is removed from the reply.
pub type Outcome = Result<(), Error>;

/// An error reply, its code included.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// Options that do not fit.
    #[error("ERR syntax error")]
    Syntax,
    /// Text that is no 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// Text that is no number.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// A number that must not be negative.
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    /// A number outside its range.
    #[error("ERR value is out of range")]
    OutOfRange,
    /// An index outside its collection.
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// A key that must be there.
    #[error("ERR no such key")]
    NoSuchKey,
    /// The wrong number of arguments, for the command of this full name (`config|get`).
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    /// A string that would become too long.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// A fixed text, code included.
    #[error("{0}")]
    Fixed(&'static str),
    /// A composed text, code included.
    #[error("{0}")]
    Text(String),
    /// Not for this node of the cluster: where to go, or why nowhere.
    #[error("{0}")]
    Redirect(String),
    /// A text, code included, that repeats bytes of the request as they came.
    #[error("{}", String::from_utf8_lossy(.0))]
    Bytes(Vec<u8>),
}

impl Error {
    /// `before`, an argument as it came, `after`.
    pub fn quoting(before: &str, argument: &[u8], after: &str) -> Error {
        Error::Bytes([before.as_bytes(), argument, after.as_bytes()].concat())
    }

    /// The reply's text.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Error::Bytes(bytes) => bytes.clone(),
            other => other.to_string().into_bytes(),
        }
    }
}
