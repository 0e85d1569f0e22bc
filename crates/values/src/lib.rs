//! The data types, a descriptor each, and what is made of their values: payloads and files.
//!
//! A data type is its structure (in `types`, or a crate of its own), its descriptor, which is a file here,
//! and its commands. Whatever the server asks of values in general (saving, loading, the append-only base,
//! DEBUG DIGEST, INFO, tools) goes through [`descriptor()`]; nothing else lists types.
//!
//! Invariant: reading trusts no length; a damaged input gives an [`Error`], never a panic, and never more
//! memory than a fixed multiple of its own size.

mod array;
mod batched_insert;
mod carried;
mod commands;
mod descriptor;
mod digest;
mod export;
pub mod file;
mod form;
mod hash;
mod json;
mod list;
mod module;
mod packed_pairs;
mod path_hash;
pub mod payload;
mod set;
mod sketch;
mod stream;
mod string;
mod suggestions;
#[cfg(test)]
mod tests;
pub mod time_series;
mod times;
mod vector_set;
mod zset;

use martlet_keyspace::{Entry, Kind, Value, ValueRef};
use martlet_rdb::input::Input;
use martlet_rdb::{Counter, Sink, Writer, write_element};

pub use carried::Carried;
pub use commands::Commands;
pub use descriptor::{DataType, Descriptor, Encoded, Limits, RdbType, Requirement, lowest_version};
pub use digest::Digest;
pub use export::Export;
pub use form::{
    Form, Readable, VERSION_ARRAYS, VERSION_IDEMPOTENCY, VERSION_MODULES, VERSION_NEWEST, VERSION_OLDEST,
    VERSION_PATH_HASHES, VERSION_RELEASED, VERSION_STREAMS, VERSION_TIMED, VERSION_TIMED_MEMBERS,
    VERSION_VALKEY,
};
pub use json::Json;
pub use martlet_rdb::{Error, Owner};
pub use module::{ModuleDescriptor, ModuleType, built_in_views, install};
pub use sketch::Sketch;
pub use suggestions::SuggestionDictionary;
pub use vector_set::Vectors;

/// All descriptors.
pub static TYPES: [&Descriptor; 9] = [
    &string::DESCRIPTOR,
    &list::DESCRIPTOR,
    &set::DESCRIPTOR,
    &zset::DESCRIPTOR,
    &hash::DESCRIPTOR,
    &module::DESCRIPTOR,
    &stream::DESCRIPTOR,
    &array::DESCRIPTOR,
    &path_hash::DESCRIPTOR,
];

/// Types that Redis has as modules'.
static MODULE_TYPES: [&ModuleDescriptor; 9] = [
    &json::DESCRIPTOR,
    &sketch::BLOOM,
    &sketch::CUCKOO,
    &sketch::COUNT_MIN,
    &sketch::TOP_K,
    &sketch::T_DIGEST,
    &vector_set::DESCRIPTOR,
    &time_series::DESCRIPTOR,
    &suggestions::DESCRIPTOR,
];

/// The descriptor of a kind.
#[inline]
pub fn descriptor(kind: Kind) -> &'static Descriptor {
    match kind {
        Kind::String => &string::DESCRIPTOR,
        Kind::List => &list::DESCRIPTOR,
        Kind::Set => &set::DESCRIPTOR,
        Kind::ZSet => &zset::DESCRIPTOR,
        Kind::Hash => &hash::DESCRIPTOR,
        Kind::Module => &module::DESCRIPTOR,
        Kind::Stream => &stream::DESCRIPTOR,
        Kind::Array => &array::DESCRIPTOR,
        Kind::PathHash => &path_hash::DESCRIPTOR,
    }
}

/// The form of a value that is to be read: what the byte in front of it says.
#[derive(Copy, Clone)]
pub struct ValueType {
    byte: u8,
    descriptor: &'static Descriptor,
}

/// Values of the format have bytes below this.
const BYTES: usize = 64;

/// The descriptor for each byte in Redis' versions, and in Valkey's.
static BY_BYTE: [[Option<&Descriptor>; BYTES]; 2] = {
    let mut by_byte: [[Option<&Descriptor>; BYTES]; 2] = [[None; BYTES]; 2];
    let mut at = 0;
    while at < TYPES.len() {
        let forms = TYPES[at].rdb_types;
        let mut form = 0;
        while form < forms.len() {
            let RdbType { byte, since } = forms[form];
            if since < VERSION_VALKEY {
                by_byte[0][byte as usize] = Some(TYPES[at]);
            }
            if since >= VERSION_VALKEY || byte <= hash::TIMED_OF_VALKEY {
                by_byte[1][byte as usize] = Some(TYPES[at]);
            }
            form += 1;
        }
        at += 1;
    }
    by_byte
};

impl ValueType {
    /// The form of a byte in `version` of the format: Valkey's and Redis' mean different types by the same
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Unknown`] for types that this server does not hold, [`Error::UnknownType`] for others.
    #[inline]
    pub fn from_byte(byte: u8, version: u16) -> Result<ValueType, Error> {
        match BY_BYTE[usize::from(version >= VERSION_VALKEY)].get(usize::from(byte)) {
            Some(Some(descriptor)) => Ok(ValueType { byte, descriptor }),
            _ => Err(unknown(byte, version)),
        }
    }

    /// Whether this is a string.
    #[inline]
    pub fn is_string(self) -> bool {
        self.byte == string::STRING
    }

    /// Passes over a value that `version` of the format has written.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Truncated`] if the slice ends within it.
    #[inline]
    pub fn skip(self, input: &mut &[u8], version: u16) -> Result<(), Error> {
        if self.is_string() {
            return martlet_rdb::skip_bytes(input);
        }
        (self.descriptor.skip)(input, self.byte, version)
    }

    /// Reads a value that `version` of the format has written.
    ///
    /// # Errors
    /// [`Error`]; the number of bytes taken is unknown then.
    pub fn read(self, input: &mut dyn Input, version: u16, limits: &Limits) -> Result<Value, Error> {
        (self.descriptor.read)(input, Encoded { byte: self.byte, version, limits })
    }

    /// As [`ValueType::read`], from a slice.
    ///
    /// # Errors
    /// As [`ValueType::read`].
    pub fn read_slice(self, input: &mut &[u8], version: u16, limits: &Limits) -> Result<Value, Error> {
        (self.descriptor.read_slice)(input, Encoded { byte: self.byte, version, limits })
    }
}

/// Why no value of this type is held.
#[cold]
fn unknown(byte: u8, version: u16) -> Error {
    match (byte, version >= VERSION_VALKEY) {
        (6, _) => Error::Unknown("module of a Redis before 4.0's release"),
        (33, false) => Error::Unknown("rate limit"),
        (byte, _) => Error::UnknownType(byte),
    }
}

/// The byte of the form in which [`write_value`] writes the value for readers of `version`.
#[inline]
pub fn encoded_byte(value: ValueRef<'_>, version: u16) -> u8 {
    match value {
        ValueRef::Str(_) => string::STRING,
        ValueRef::Object(object) => (descriptor(object.kind()).rdb_type)(value, version),
    }
}

/// The lowest version of the format that has the form of this byte, which is one of the value's.
pub fn since_version(value: ValueRef<'_>, byte: u8) -> u16 {
    let forms = descriptor(value.kind()).rdb_types;
    forms.iter().find(|form| form.byte == byte).map_or(VERSION_OLDEST, |form| form.since)
}

/// Writes the value in the form of [`encoded_byte`], which is not written.
pub fn write_value(out: &mut impl Sink, value: ValueRef<'_>, form: Form) {
    write_value_of(Owner::default(), out, value, form);
}

/// As [`write_value`] for the value of a key.
pub fn write_value_of(owner: Owner<'_>, out: &mut impl Sink, value: ValueRef<'_>, form: Form) {
    match value {
        ValueRef::Str(text) => write_element(out, string::element(text), form.compress),
        ValueRef::Object(object) => {
            let (descriptor, byte) = (descriptor(object.kind()), encoded_byte(value, form.version));
            (descriptor.write)(value, &mut Writer::of(out, owner), byte, form.compress);
        }
    }
}

/// Bytes that [`write_value`] would write.
pub fn encoded_len(value: ValueRef<'_>, form: Form) -> usize {
    let mut counter = Counter::default();
    write_value(&mut counter, value, form);
    counter.0
}

/// The commands that make the key.
pub fn write_commands(value: ValueRef<'_>, key: &[u8], out: &mut Commands<'_>) {
    (descriptor(value.kind()).commands)(value, key, out);
}

/// The number that the server which has the type gives it.
fn type_number(kind: Kind) -> u32 {
    match kind {
        // Valkey's next number behind streams is Redis' of rate limits.
        Kind::PathHash => 7,
        kind => kind as u32,
    }
}

/// Adds an entry's value to a digest, and that it expires, if it does.
pub fn digest(entry: &Entry<'_>, digest: &mut Digest) {
    let value = entry.view();
    digest.mix(&type_number(value.kind()).to_be_bytes());
    (descriptor(value.kind()).digest)(value, digest);
    if entry.expiry_ms().is_some() {
        digest.xor(b"!!expire!!");
    }
}

/// What of the value not every version of the format holds, if there is anything.
pub fn requirement(value: ValueRef<'_>) -> Option<&'static Requirement> {
    let lowest = value.lowest_version();
    descriptor(value.kind()).requirements.iter().find(|requirement| requirement.version == lowest)
}

/// Writes the value as JSON.
pub fn export(value: ValueRef<'_>, out: &mut Export<'_>) {
    (descriptor(value.kind()).export)(value, out);
}
