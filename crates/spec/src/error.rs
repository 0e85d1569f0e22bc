//! Errors that handlers answer; their texts are Redis', since clients match on them.

use martlet_protocol::request::Args;
use thiserror::Error;

/// How much of a name or of arguments an error repeats, in bytes.
const ECHOED_BYTES: usize = 128;

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
    /// Keys that the data names are in other shards, which others have locked: nothing was changed, and the
    /// request is to be run again with them.
    #[error("TRYAGAIN Keys that are linked to the request's are in use")]
    NeedsShards,
    /// A busy script has locked the shard that the request had given up for a while: nothing was changed. The
    /// server answers as to any request that meets a busy script.
    #[error("BUSY A script is using the request's keys")]
    ShardBusy,
    /// Not for this node of the cluster: where to go, or why nowhere.
    #[error("{0}")]
    Redirect(String),
    /// A text, code included, that repeats bytes of the request as they came.
    #[error("{}", String::from_utf8_lossy(.0))]
    Bytes(Vec<u8>),
}

impl Error {
    /// `before`, an argument, `after`; see [`Error::of_parts`].
    pub fn quoting(before: &str, argument: &[u8], after: &str) -> Error {
        Error::of_parts(&[before.as_bytes(), argument, after.as_bytes()])
    }

    /// The parts one after the other, each up to its first zero byte: Redis composes such texts with C's
    /// `printf`.
    pub fn of_parts(parts: &[&[u8]]) -> Error {
        Error::Bytes(parts.iter().map(|part| until_zero(part)).collect::<Vec<_>>().concat())
    }

    /// The error for a command that does not exist.
    pub fn unknown_command(args: &Args<'_>) -> Error {
        let mut text = [b"ERR unknown command '", shortened(args.at(0), ECHOED_BYTES)].concat();
        text.extend_from_slice(b"', with args beginning with: ");
        let mut echoed = 0;
        for argument in args.iter().skip(1) {
            if echoed >= ECHOED_BYTES {
                break;
            }
            let part = shortened(argument, ECHOED_BYTES - echoed);
            echoed += part.len() + 3;
            text.extend_from_slice(&[b"'", part, b"' "].concat());
        }
        Error::Bytes(text)
    }

    /// The error for a container's subcommand that does not exist.
    pub fn unknown_subcommand(args: &Args<'_>) -> Error {
        Error::subcommand("unknown subcommand", args)
    }

    /// The error for a subcommand that does not exist or takes other arguments.
    pub fn subcommand_syntax(args: &Args<'_>) -> Error {
        Error::subcommand("unknown subcommand or wrong number of arguments for", args)
    }

    fn subcommand(what: &str, args: &Args<'_>) -> Error {
        let (container, name) = (args.at(0).to_ascii_uppercase(), shortened(args.at(1), ECHOED_BYTES));
        Error::of_parts(&[b"ERR ", what.as_bytes(), b" '", name, b"'. Try ", &container, b" HELP."])
    }

    /// The reply's text.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Error::Bytes(bytes) => bytes.clone(),
            other => other.to_string().into_bytes(),
        }
    }
}

/// C's view of a text: what precedes its first zero byte.
fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn shortened(text: &[u8], most: usize) -> &[u8] {
    let text = until_zero(text);
    text.get(..most).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use martlet_protocol::request::OwnedArgs;

    use super::*;

    #[test]
    fn texts_of_a_request_end_at_a_zero_byte_in_errors() {
        let is = |error: Error, text: &str| assert_eq!(String::from_utf8_lossy(&error.to_bytes()), text);
        let words = [&b"NO\0X"[..], b"a\0b", b"", b"c"];
        is(
            Error::unknown_command(&OwnedArgs::from_slices(words).view()),
            "ERR unknown command 'NO', with args beginning with: 'a' '' 'c' ",
        );
        let words = [&b"client"[..], b"a\0b"];
        is(
            Error::unknown_subcommand(&OwnedArgs::from_slices(words).view()),
            "ERR unknown subcommand 'a'. Try CLIENT HELP.",
        );
        is(
            Error::subcommand_syntax(&OwnedArgs::from_slices(words).view()),
            "ERR unknown subcommand or wrong number of arguments for 'a'. Try CLIENT HELP.",
        );
        is(Error::quoting("ERR User '", b"bob\0by", "' not found"), "ERR User 'bob' not found");
    }

    #[test]
    fn names_and_arguments_are_repeated_up_to_a_limit() {
        let long = [b'x'; 200];
        let words = [&long[..], &[b'a'; 100], &long, b"never"];
        let text = Error::unknown_command(&OwnedArgs::from_slices(words).view()).to_bytes();
        let parts: Vec<usize> = text.split(|byte| *byte == b'\'').map(<[u8]>::len).collect();
        assert_eq!(parts, [20, 128, 28, 100, 1, 25, 1]);
    }
}
