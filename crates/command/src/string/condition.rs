//! Conditions on a key's value, and DIGEST and the deletions that depend on them.
//!
//! Invariant: a digest to compare is read only once the key is there and holds a string, so that a wrong one
//! is no error for a missing key.

use martlet_base::number::NumberBuffer;
use martlet_keyspace::{Entry, StrValue};
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use xxhash_rust::xxh3::xxh3_64;

use super::{READS, delete_as_asked};
use crate::Handler;
use crate::context::Context;

/// Hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 16;

/// On which condition a value is set or deleted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    #[default]
    Always,
    /// `NX`
    Absent,
    /// `XX`
    Present,
    /// `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`
    Compared(Comparison, &'a [u8]),
}

/// The comparison with a key's value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// It is this string.
    Equal,
    /// It is another string.
    Differs,
    /// It has this digest.
    DigestEqual,
    /// It has another digest.
    DigestDiffers,
}

impl Comparison {
    const WORDS: &'static [(&'static str, Comparison)] = &[
        ("ifeq", Comparison::Equal),
        ("ifne", Comparison::Differs),
        ("ifdeq", Comparison::DigestEqual),
        ("ifdne", Comparison::DigestDiffers),
    ];

    /// Whether it holds of this string.
    fn holds(self, value: StrValue<'_>, operand: &[u8]) -> Result<bool, Error> {
        let mut buffer = NumberBuffer::new();
        let bytes = value.bytes(&mut buffer);
        let is_equal = match self {
            Comparison::Equal | Comparison::Differs => bytes == operand,
            _ if operand.len() != DIGEST_DIGITS => {
                return Err(Error::Fixed("ERR must be exactly 16 hexadecimal characters"));
            }
            _ => digest(bytes).eq_ignore_ascii_case(operand),
        };
        Ok(is_equal == matches!(self, Comparison::Equal | Comparison::DigestEqual))
    }
}

impl<'a> Condition<'a> {
    /// Takes NX or XX, if it comes next and does not contradict this condition; the same may come again.
    pub(super) fn take_presence(self, rest: &mut Cursor<'_>) -> Option<Condition<'a>> {
        if matches!(self, Condition::Always | Condition::Absent) && rest.word("nx") {
            Some(Condition::Absent)
        } else if matches!(self, Condition::Always | Condition::Present) && rest.word("xx") {
            Some(Condition::Present)
        } else {
            None
        }
    }

    /// Takes a condition, if one comes next that does not contradict this one; returns the combined one.
    pub(super) fn take(self, rest: &mut Cursor<'a>) -> Result<Option<Condition<'a>>, Error> {
        if let Some(presence) = self.take_presence(rest) {
            return Ok(Some(presence));
        }
        if self != Condition::Always || rest.left() < 2 {
            return Ok(None);
        }
        let Some(comparison) = rest.one_of(Comparison::WORDS) else { return Ok(None) };
        Ok(Some(Condition::Compared(comparison, rest.value()?)))
    }

    /// Whether it holds for a key's value.
    ///
    /// # Errors
    /// The value is not a string, and would be compared with one; or the digest to compare with is malformed.
    pub(super) fn holds(self, entry: Option<Entry<'_>>) -> Result<bool, Error> {
        match (entry, self) {
            (_, Condition::Always) => Ok(true),
            (entry, Condition::Absent) => Ok(entry.is_none()),
            (entry, Condition::Present) => Ok(entry.is_some()),
            (None, Condition::Compared(comparison, _)) => {
                Ok(matches!(comparison, Comparison::Differs | Comparison::DigestDiffers))
            }
            (Some(entry), Condition::Compared(comparison, operand)) => {
                comparison.holds(entry.str().ok_or(Error::WrongType)?, operand)
            }
        }
    }
}

/// XXH3 of a string, with 64 bits and no seed, as hexadecimal digits.
fn digest(bytes: &[u8]) -> [u8; DIGEST_DIGITS] {
    let hash = xxh3_64(bytes);
    std::array::from_fn(|at| b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15])
}

pub(super) static DIGEST: Command<Handler> = command("digest", 2, digest_command as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(READS)
    .acl(Acl::STRING)
    .syntax("key:k0")
    .doc(
        Group::String,
        "8.4.0",
        "O(N), N being the length of the string",
        "Returns a hash of the string value of a key, as hexadecimal digits.",
    );

fn digest_command(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let digest = ctx.keys.read_str(&key)?.map(|value| digest(value.bytes(&mut NumberBuffer::new())));
    ctx.reply.bulk_or_null(digest.as_ref().map(|digits| digits.as_slice()));
    Ok(())
}

pub(super) static DELEX: Command<Handler> = command("delex", -2, delex as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE).with(KeyFlags::VARIABLE_FLAGS))])
    .acl(Acl::STRING)
    .syntax(
        "key:k0 \
         ?condition(ifeq-value=IFEQ|ifne-value=IFNE|ifdeq-digest:i=IFDEQ|ifdne-digest:i=IFDNE)",
    )
    .doc(
        Group::String,
        "8.4.0",
        "O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE, N being the length of the string",
        "Deletes a key if its string value, or the digest of it, equals the given one or differs from it.",
    );

fn delex(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() != 2 && ctx.argc() != 4 {
        return Err(Error::Arity("delex"));
    }
    let (key, mut rest) = (ctx.key(1), ctx.rest(2));
    let Some(entry) = ctx.keys.lookup_write(&key) else {
        ctx.reply.int(0);
        return Ok(());
    };
    if rest.left() > 0 {
        let text = "ERR Key should be of string type if conditions are specified";
        let value = entry.str().ok_or(Error::Fixed(text))?;
        let text = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
        let comparison = rest.one_of(Comparison::WORDS).ok_or(Error::Fixed(text))?;
        if !comparison.holds(value, rest.value()?)? {
            ctx.reply.int(0);
            return Ok(());
        }
    }
    delete_as_asked(ctx.keys, &key);
    ctx.reply.int(1);
    Ok(())
}

pub(super) static DELIFEQ: Command<Handler> = command("delifeq", 3, delifeq as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RM.with(KeyFlags::DELETE))])
    .acl(Acl::STRING)
    .syntax("key:k0 value")
    .doc(
        Group::String,
        "9.0.0",
        "O(1)",
        "Deletes a key if it holds this string (of Valkey; `DELEX` in Redis).",
    );

fn delifeq(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let is_equal = match ctx.keys.read_str_for_write(&key)? {
        Some(value) => Comparison::Equal.holds(value, ctx.args.at(2))?,
        None => false,
    };
    if is_equal {
        delete_as_asked(ctx.keys, &key);
    }
    ctx.reply.int(i64::from(is_equal));
    Ok(())
}
