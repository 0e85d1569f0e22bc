//! DUMP's form of a value.
//!
//! ```text
//! type: 1 | value | version of the format: 2 | CRC-64 of all before: 8      little-endian
//! ```

use crate::crc64::crc64;
use crate::decode::{Limits, Value, read_value};
use crate::encode::{Form, Source, VERSION_VALKEY, encoded_kind, write_value};
use crate::input::Input;
use crate::kind::Kind;

/// The version of the format that Redis 7.0 writes and reads.
pub const VERSION_MIN: u16 = 10;
/// The latest of Redis that is read, that of Redis 8.6: as the one before, and more for streams and modules.
pub const VERSION_MAX: u16 = 13;

const FOOTER_BYTES: usize = 10;

/// Why RESTORE refuses a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too short, of an unknown version, or with another checksum.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// The value in it.
    #[error("Bad data format")]
    Value,
}

/// Whether values of a version of the format are read.
pub fn reads_version(version: u16) -> bool {
    version <= VERSION_MAX || version == VERSION_VALKEY
}

/// How DUMP writes: for Redis 7.0, if that can hold the value.
pub fn dump_form(compress: bool) -> Form {
    Form { version: VERSION_MIN, compress }
}

/// What DUMP answers.
pub fn dump(value: Source<'_>, compress: bool) -> Vec<u8> {
    let form = dump_form(compress);
    let kind = encoded_kind(value, form.version);
    let mut out = vec![kind as u8];
    write_value(&mut out, value, form);
    out.extend(kind.since_version().max(VERSION_MIN).to_le_bytes());
    let sum = crc64(0, &out);
    out.extend(sum.to_le_bytes());
    out
}

/// The value in a payload.
///
/// # Errors
/// [`Refused`]; bytes between value and footer are refused too.
pub fn restore(payload: &[u8], limits: &Limits) -> Result<Value, Refused> {
    let summed = payload.get(..payload.len().saturating_sub(8)).unwrap_or(&[]);
    let sum = payload.get(summed.len()..).unwrap_or(&[]);
    if sum != crc64(0, summed).to_le_bytes() {
        return Err(Refused::Footer);
    }
    restore_unsummed(payload, limits)
}

/// The value in a payload, whatever its checksum: to show that the value itself is looked at.
///
/// # Errors
/// As [`restore`].
pub fn restore_unsummed(payload: &[u8], limits: &Limits) -> Result<Value, Refused> {
    let (mut body, footer) = payload
        .len()
        .checked_sub(FOOTER_BYTES)
        .and_then(|at| payload.split_at_checked(at))
        .ok_or(Refused::Footer)?;
    let mut fields = footer;
    let version = u16::from_le_bytes(fields.array().map_err(|_| Refused::Footer)?);
    if !reads_version(version) {
        return Err(Refused::Footer);
    }
    read_body(&mut body, version, limits).ok_or(Refused::Value)
}

fn read_body(body: &mut &[u8], version: u16, limits: &Limits) -> Option<Value> {
    let kind = Kind::from_byte(body.byte().ok()?).ok()?;
    let value = read_value(body, kind, version, limits).ok()?;
    body.is_empty().then_some(value)
}
