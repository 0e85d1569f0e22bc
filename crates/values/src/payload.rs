//! DUMP's form of a value, and FUNCTION DUMP's of libraries.
//!
//! ```text
//! type: 1 | value | version of the format: 2 | CRC-64 of all before: 8      little-endian
//! (F5 | code)…    | version of the format: 2 | CRC-64 of all before: 8
//! ```

use martlet_keyspace::{Value, ValueRef};
use martlet_rdb::crc64::crc64;
use martlet_rdb::input::InputExt;
use martlet_rdb::{Error, Owner, read_bytes, write_bytes};

use crate::{Form, Limits, VERSION_VALKEY, ValueType, encoded_byte, since_version, write_value_of};

/// In place of a value's byte: a library of functions follows.
pub(crate) const LIBRARY: u8 = 245;
/// The same as release candidates of Redis 7.0 wrote it.
pub(crate) const LIBRARY_PRE_GA: u8 = 246;

/// The version of the format that Redis 7.0 writes and reads.
pub const VERSION_MIN: u16 = 10;
/// The latest of Redis that is read: 15 is Redis 8.10's, 17 that of 8.12. A value of an unknown type in them
/// is refused.
pub const VERSION_MAX: u16 = 17;
/// The latest of Valkey that is read: Valkey 9.2's.
pub const VERSION_VALKEY_MAX: u16 = 81;

const FOOTER_BYTES: usize = 10;

/// Why RESTORE refuses a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too short, of an unknown version, or with another checksum.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// The value in it.
    #[error("Bad data format")]
    Value(Error),
}

/// Whether values of a version of the format are read.
pub fn reads_version(version: u16) -> bool {
    version <= VERSION_MAX || (VERSION_VALKEY..=VERSION_VALKEY_MAX).contains(&version)
}

/// How DUMP writes: for Redis 7.0, if that can hold the value.
pub fn dump_form(compress: bool) -> Form {
    Form { version: VERSION_MIN, compress }
}

/// A payload of a value whose key does not matter.
pub fn dump(value: ValueRef<'_>, compress: bool) -> Vec<u8> {
    dump_of(Owner::default(), value, compress)
}

/// What DUMP answers for a key.
pub fn dump_of(owner: Owner<'_>, value: ValueRef<'_>, compress: bool) -> Vec<u8> {
    let mut form = dump_form(compress);
    if let lowest @ VERSION_VALKEY.. = value.lowest_version() {
        form.version = lowest;
    }
    let byte = encoded_byte(value, form.version);
    let mut out = vec![byte];
    write_value_of(owner, &mut out, value, form);
    finish(out, since_version(value, byte).max(VERSION_MIN))
}

/// Adds what ends a payload.
fn finish(mut out: Vec<u8>, version: u16) -> Vec<u8> {
    out.extend(version.to_le_bytes());
    let sum = crc64(0, &out);
    out.extend(sum.to_le_bytes());
    out
}

/// What FUNCTION DUMP answers for libraries of this code.
pub fn dump_libraries<'a>(codes: impl IntoIterator<Item = &'a [u8]>, compress: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        out.push(LIBRARY);
        write_bytes(&mut out, code, compress);
    }
    finish(out, VERSION_MIN)
}

/// Why FUNCTION RESTORE refuses a payload's next item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLibrary {
    /// A release candidate of Redis 7.0 wrote it.
    #[error("Pre-GA function format not supported")]
    PreGa,
    /// It is something else.
    #[error("given type is not a function")]
    Other,
    /// It is not whole.
    #[error("failed loading the given functions payload")]
    Damaged,
}

/// The code of each library in a payload, up to the first item of another kind.
///
/// # Errors
/// [`Refused::Footer`].
pub fn libraries(
    payload: &[u8],
) -> Result<impl Iterator<Item = Result<Vec<u8>, NoLibrary>> + use<'_>, Refused> {
    verify(payload)?;
    let (mut body, _) = split(payload)?;
    Ok(std::iter::from_fn(move || {
        let kind = body.byte().ok()?;
        let code = match kind {
            LIBRARY => read_bytes(&mut body, &mut Vec::new()).map(<[u8]>::to_vec),
            LIBRARY_PRE_GA => return Some(Err(NoLibrary::PreGa)),
            _ => return Some(Err(NoLibrary::Other)),
        };
        Some(code.map_err(|_| NoLibrary::Damaged))
    }))
}

/// The value in a payload.
///
/// # Errors
/// [`Refused`]; bytes between value and footer are refused too.
pub fn restore(payload: &[u8], limits: &Limits) -> Result<Value, Refused> {
    verify(payload)?;
    restore_unsummed(payload, limits)
}

/// Compares the checksum; 0 stands for none, as in files. Redis 8.10 sends its replicas payloads without one.
fn verify(payload: &[u8]) -> Result<(), Refused> {
    let summed = payload.get(..payload.len().saturating_sub(8)).unwrap_or(&[]);
    let sum = payload.get(summed.len()..).unwrap_or(&[]);
    let is_right = sum == [0; 8] || sum == crc64(0, summed).to_le_bytes();
    if is_right { Ok(()) } else { Err(Refused::Footer) }
}

/// The part before the footer, and the version of the format.
fn split(payload: &[u8]) -> Result<(&[u8], u16), Refused> {
    let (body, mut footer) = payload
        .len()
        .checked_sub(FOOTER_BYTES)
        .and_then(|at| payload.split_at_checked(at))
        .ok_or(Refused::Footer)?;
    let version = u16::from_le_bytes(footer.array().map_err(|_| Refused::Footer)?);
    if reads_version(version) { Ok((body, version)) } else { Err(Refused::Footer) }
}

/// The value in a payload, whatever its checksum: to show that the value itself is looked at.
///
/// # Errors
/// As [`restore`].
pub fn restore_unsummed(payload: &[u8], limits: &Limits) -> Result<Value, Refused> {
    let (mut body, version) = split(payload)?;
    read_body(&mut body, version, limits).map_err(Refused::Value)
}

fn read_body(body: &mut &[u8], version: u16, limits: &Limits) -> Result<Value, Error> {
    let value_type = ValueType::from_byte(body.byte()?, version)?;
    let value = value_type.read_slice(body, version, limits)?;
    if body.is_empty() { Ok(value) } else { Err(Error::Corrupt("bytes behind the value")) }
}
