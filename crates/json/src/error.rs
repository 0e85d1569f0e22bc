//! The crate's one error. Its text is ReJSON's where ReJSON has one.
//!
//! The source of the texts is ReJSON 2.8.3 (Redis Stack 7.4), or RedisJSON 8 for checks that 2.8 lacks; a
//! comment marks texts of our own. Some of ReJSON's have no error code, and clients compare them, so ours
//! have none either.

use crate::value::Kind;
use std::fmt;

/// See the module's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Malformed JSON: the parser's message with line and column.
    Syntax(String),
    /// Malformed JSON in an argument of NUMINCRBY, STRAPPEND or ARRINDEX.
    ArgumentSyntax(String),
    /// A number argument is JSON of another type.
    NotANumberArgument,
    /// An argument is not UTF-8.
    NotUtf8,
    /// A malformed path.
    Path {
        /// The path, a legacy one in its `$` form.
        path: String,
        /// Bytes before the error.
        position: usize,
        /// The tokens that the grammar allows there.
        expected: &'static str,
    },
    /// A path beyond the named limit. Ours.
    PathLimit(&'static str),
    /// The evaluation of a path visited more places than its limit. Ours.
    TooMuchWork,
    /// Nothing stands at the path.
    NoPath(String),
    /// Nothing of the right type stands at the path; the end of the sentence.
    NoPathOr(String, &'static str),
    /// A legacy path leads to a value of another type: the expected type, the type found.
    WrongType(Kind, String),
    /// A value can be added only at a path that leads to one place.
    NotStatic,
    /// A value can be added only under a name.
    NoLastKey,
    /// A new element cannot be set by its index.
    ArrayIndex,
    /// JSON.ARRINSERT's index lies outside of the array.
    IndexOutOfBounds,
    /// An arithmetic result that is no finite number.
    ResultNotANumber,
    /// An integer result beyond 64 bits.
    NumericOverflow,
    /// A value would nest too deeply.
    TooDeep,
    /// An element that FPHA's type cannot hold.
    OutOfRange,
    /// An expression where only a path can stand.
    Expression,
    /// A value at another place than the root of a document that does not exist.
    NewAtRoot,
    /// A damaged serialised value, with the reason. Ours.
    Damaged(&'static str),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error of a parser for an argument that is not the value to be stored: ReJSON words it otherwise.
    pub fn for_argument(self) -> Error {
        match self {
            Error::Syntax(message) => Error::ArgumentSyntax(message),
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax(message) => f.write_str(message),
            Error::ArgumentSyntax(message) => write!(f, "ERR {message}"),
            Error::NotANumberArgument => f.write_str("bad input number"),
            Error::NotUtf8 => f.write_str("Couldn't parse as UTF-8 string"),
            Error::Path { path, position, expected } => {
                let (before, after) = path.split_at_checked(*position).unwrap_or((path, ""));
                let arrow = if after.is_empty() { " <<<<----" } else { " ---->>>> " };
                write!(
                    f,
                    "Error occurred on position {position}, \"{before}{arrow}{after}\", \
                     expected one of the following: {expected}."
                )
            }
            Error::PathLimit(limit) => write!(f, "ERR JSONPath is beyond its limit: {limit}"),
            Error::TooMuchWork => f.write_str("ERR JSONPath visits too many values"),
            Error::NoPath(path) => write!(f, "ERR Path '{path}' does not exist"),
            Error::NoPathOr(path, or) => write!(f, "ERR Path '{path}' does not exist or {or}"),
            Error::WrongType(expected, found) => {
                write!(
                    f,
                    "WRONGTYPE wrong type of path value - expected {} but found {found}",
                    expected.name()
                )
            }
            Error::NotStatic => f.write_str("Err wrong static path"),
            Error::NoLastKey => f.write_str("Err path must end with object key to set"),
            Error::ArrayIndex => f.write_str("ERR array index out of range"),
            Error::IndexOutOfBounds => f.write_str("ERR index out of bounds"),
            Error::ResultNotANumber => f.write_str("ERR result is not a number"),
            Error::NumericOverflow => f.write_str("ERR numeric overflow"),
            Error::TooDeep => f.write_str("ERR recursion limit exceeded"),
            Error::OutOfRange => f.write_str("ERR value out of range"),
            Error::Expression => f.write_str(
                "ERR computed/projection expressions are only supported by JSON.GET/JSON.MGET/JSON.RESP",
            ),
            Error::NewAtRoot => f.write_str("ERR new objects must be created at the root"),
            Error::Damaged(why) => write!(f, "ERR damaged JSON value: {why}"),
        }
    }
}

impl std::error::Error for Error {}
