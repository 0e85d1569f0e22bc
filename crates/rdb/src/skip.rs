//! How long an encoded value is, without building it: only lengths are looked at.

use crate::Error;
use crate::array;
use crate::encode::VERSION_VALKEY;
use crate::input::Input;
use crate::kind::Kind;
use crate::string::{Length, read_count, read_length, read_plain_length};

/// Passes over a string.
///
/// # Errors
/// [`Error`]; [`Error::Truncated`] if the slice ends within it.
#[inline]
pub(crate) fn skip_bytes(input: &mut &[u8]) -> Result<(), Error> {
    let len = match read_length(input)? {
        Length::Plain(len) => len,
        Length::Special(0) => 1,
        Length::Special(1) => 2,
        Length::Special(2) => 4,
        Length::Special(3) => {
            let packed = read_plain_length(input)?;
            read_plain_length(input)?;
            packed
        }
        Length::Special(_) => return Err(Error::Corrupt("unknown string encoding")),
    };
    let len = input.count(len)?;
    input.take(len).map(|_| ())
}

fn skip_score(input: &mut &[u8]) -> Result<(), Error> {
    match input.byte()? {
        253..=255 => Ok(()),
        len => input.take(usize::from(len)).map(|_| ()),
    }
}

/// Passes over a value of `kind` that `version` of the format has written.
///
/// # Errors
/// [`Error`]; [`Error::Truncated`] if the slice ends within it.
#[inline]
pub(crate) fn skip_value(input: &mut &[u8], kind: Kind, version: u16) -> Result<(), Error> {
    match kind {
        Kind::String => skip_bytes(input),
        _ => skip_collection(input, kind, version),
    }
}

fn skip_collection(input: &mut &[u8], kind: Kind, version: u16) -> Result<(), Error> {
    match kind {
        Kind::HashZipmap
        | Kind::ListZiplist
        | Kind::SetIntset
        | Kind::ZSetZiplist
        | Kind::HashZiplist
        | Kind::HashListpack
        | Kind::ZSetListpack
        | Kind::SetListpack
        | Kind::HashListpackTimedOld => return skip_bytes(input),
        Kind::HashListpackTimed => {
            input.take(8)?;
            return skip_bytes(input);
        }
        Kind::Stream | Kind::Stream2 | Kind::Stream3 | Kind::Stream4 | Kind::Stream5 => {
            return skip_stream(input, kind);
        }
        Kind::Array => return skip_array(input),
        Kind::HashTimed => {
            input.take(8)?;
        }
        _ => {}
    }
    for _ in 0..read_count(input)? {
        match kind {
            Kind::ZSet => {
                skip_bytes(input)?;
                skip_score(input)?;
            }
            Kind::ZSet2 => {
                skip_bytes(input)?;
                input.take(8)?;
            }
            Kind::Hash => {
                skip_bytes(input)?;
                skip_bytes(input)?;
            }
            Kind::ListQuicklist2 => {
                read_plain_length(input)?;
                skip_bytes(input)?;
            }
            Kind::HashTimedOld if version >= VERSION_VALKEY => {
                skip_bytes(input)?;
                skip_bytes(input)?;
                input.take(8)?;
            }
            Kind::HashTimed | Kind::HashTimedOld => {
                read_plain_length(input)?;
                skip_bytes(input)?;
                skip_bytes(input)?;
            }
            _ => skip_bytes(input)?,
        }
    }
    Ok(())
}

fn skip_array(input: &mut &[u8]) -> Result<(), Error> {
    let count = read_count(input)?;
    if read_plain_length(input)? != 0 {
        read_plain_length(input)?;
    }
    for _ in 0..count {
        read_plain_length(input)?;
        match read_plain_length(input)? {
            array::INTEGER | array::DOUBLE => {
                input.take(8)?;
            }
            _ => skip_bytes(input)?,
        }
    }
    Ok(())
}

/// Passes over a stream that was written as `kind`.
fn skip_stream(input: &mut &[u8], kind: Kind) -> Result<(), Error> {
    let lengths = |input: &mut &[u8], count: usize| -> Result<(), Error> {
        (0..count).try_for_each(|_| read_plain_length(input).map(|_| ()))
    };
    for _ in 0..read_count(input)? {
        skip_bytes(input)?;
        skip_bytes(input)?;
    }
    lengths(input, if kind == Kind::Stream { 3 } else { 8 })?;
    for _ in 0..read_count(input)? {
        skip_bytes(input)?;
        lengths(input, if kind == Kind::Stream { 2 } else { 3 })?;
        for _ in 0..read_count(input)? {
            input.take(16 + 8)?;
            lengths(input, 1)?;
        }
        for _ in 0..read_count(input)? {
            skip_bytes(input)?;
            input.take(if kind.has_all_of(Kind::Stream3) { 16 } else { 8 })?;
            for _ in 0..read_count(input)? {
                input.take(16)?;
            }
        }
        if kind.has_all_of(Kind::Stream5) {
            for _ in 0..read_count(input)? {
                input.take(16)?;
            }
        }
    }
    if kind.has_all_of(Kind::Stream4) {
        lengths(input, 2)?;
        for _ in 0..read_count(input)? {
            skip_bytes(input)?;
            for _ in 0..read_count(input)? {
                skip_bytes(input)?;
                lengths(input, 2)?;
            }
        }
        lengths(input, 2)?;
    }
    Ok(())
}
