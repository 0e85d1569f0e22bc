//! What the server asks of a data type, once for each: [`DataType`] is implemented by the type's structure,
//! and a [`Descriptor`] is the same behind pointers to functions.
//!
//! Invariant: each kind of the keyspace has a descriptor, and each byte of the format at most one.

use martlet_keyspace::{Kind, Object, Value, ValueRef};
use martlet_rdb::input::Input;
use martlet_rdb::{Error, Writer};
use martlet_spec::data_type::TypeView;
use martlet_types::array::ArrayLimits;
use martlet_types::hash::HashLimits;
use martlet_types::list::ListLimit;
use martlet_types::set::SetLimits;
use martlet_types::stream::IdempotencyLimits;
use martlet_types::zset::ZSetLimits;

use crate::commands::Commands;
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{
    Readable, VERSION_MODULES, VERSION_NEWEST, VERSION_OLDEST, VERSION_PATH_HASHES, VERSION_VALKEY,
};

/// When collections change their encoding, and what streams remember.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// For lists.
    pub list: ListLimit,
    /// For sets.
    pub set: SetLimits,
    /// For hashes.
    pub hash: HashLimits,
    /// For sorted sets.
    pub zset: ZSetLimits,
    /// For arrays.
    pub array: ArrayLimits,
    /// Limits of a stream's producers where the stream itself has none.
    pub idempotency: IdempotencyLimits,
}

/// A form of a data type in the RDB format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdbType {
    /// The byte in front of the value (Redis: `RDB_TYPE_*`).
    pub byte: u8,
    /// The lowest version of the format that has it.
    pub since: u16,
}

/// How a value lies in its input.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// See [`RdbType::byte`].
    pub byte: u8,
    /// The version of the format that wrote it.
    pub version: u16,
    /// What the new value goes by.
    pub limits: &'a Limits,
}

/// What some values of a type have that not every version of the format holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The lowest version that holds it; the value's [`Object::lowest_version`].
    pub version: u16,
    /// Valkey's version holds it, too.
    pub in_valkey: bool,
    /// Such values, for messages: `hashes whose fields expire`.
    pub values: &'static str,
}

impl Requirement {
    /// Whether files of this version hold such values.
    pub fn is_met_by(&self, version: u16) -> bool {
        version >= self.version && (version < VERSION_VALKEY || self.in_valkey)
    }

    /// Whether these receivers read a version that holds such values.
    pub fn is_read_by(&self, readable: Readable) -> bool {
        let versions = (VERSION_OLDEST..=VERSION_NEWEST).chain([VERSION_VALKEY, VERSION_PATH_HASHES]);
        versions.into_iter().any(|version| readable.reads(version) && self.is_met_by(version))
    }
}

/// The lowest version, at least `least`, that holds values with these requirements. Path hashes are in
/// Valkey's version 81 alone: beside values that this one does not hold they count as values of modules, the
/// form that they then have.
pub fn lowest_version<'a>(least: u16, required: impl Iterator<Item = &'a Requirement> + Clone) -> u16 {
    let versions = required.clone().map(|requirement| requirement.version);
    let of_valkey = versions.clone().filter(|version| *version >= VERSION_VALKEY).max();
    let of_redis = || versions.filter(|version| *version < VERSION_VALKEY).fold(least, u16::max);
    match of_valkey {
        Some(version) if required.clone().all(|requirement| requirement.is_met_by(version)) => version,
        Some(_) => of_redis().max(VERSION_MODULES),
        None => of_redis(),
    }
}

/// What the server asks of a data type. Its structure implements it, in a file of this crate.
pub trait DataType: Object {
    /// Its forms.
    const RDB_TYPES: &'static [RdbType];
    /// What not every version holds.
    const REQUIREMENTS: &'static [Requirement] = &[];
    /// INFO's field with the number of keys by size.
    const KEYSIZES: Option<&'static str>;
    /// What tools know of it; `None` for modules' values, whose types have views of their own.
    const VIEW: Option<&'static TypeView>;

    /// The byte of the form that readers of `version` get; of its lowest version if no older one holds the
    /// value.
    fn rdb_type(&self, version: u16) -> u8;
    /// Writes the value in the form of that byte, which is not written.
    fn write(&self, out: &mut Writer<'_>, byte: u8, compress: bool);
    /// Reads a value, behind its byte.
    ///
    /// # Errors
    /// [`Error`]; the number of bytes taken is unknown then.
    fn read(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Self, Error>;
    /// Passes over a value that `version` of the format has written, behind its byte: only lengths are looked
    /// at.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Truncated`] if the slice ends within it.
    fn skip(input: &mut &[u8], byte: u8, version: u16) -> Result<(), Error>;
    /// The commands that make the key.
    fn commands(&self, key: &[u8], out: &mut Commands<'_>);
    /// Adds the content in a way that does not depend on the encoding, as Redis does it.
    fn digest(&self, digest: &mut Digest);
    /// Writes the content as JSON.
    fn export(&self, out: &mut Export<'_>);
}

/// See the [module docs](self).
pub struct Descriptor {
    /// The number that entries have for it.
    pub kind: Kind,
    /// See [`DataType::RDB_TYPES`].
    pub rdb_types: &'static [RdbType],
    /// See [`DataType::REQUIREMENTS`].
    pub requirements: &'static [Requirement],
    /// See [`DataType::KEYSIZES`].
    pub keysizes: Option<&'static str>,
    /// See [`DataType::VIEW`].
    pub view: Option<&'static TypeView>,
    pub(crate) rdb_type: fn(ValueRef<'_>, u16) -> u8,
    pub(crate) write: fn(ValueRef<'_>, &mut Writer<'_>, u8, bool),
    pub(crate) read_slice: fn(&mut &[u8], Encoded<'_>) -> Result<Value, Error>,
    pub(crate) read: fn(&mut dyn Input, Encoded<'_>) -> Result<Value, Error>,
    pub(crate) skip: fn(&mut &[u8], u8, u16) -> Result<(), Error>,
    pub(crate) commands: fn(ValueRef<'_>, &[u8], &mut Commands<'_>),
    pub(crate) digest: fn(ValueRef<'_>, &mut Digest),
    pub(crate) export: fn(ValueRef<'_>, &mut Export<'_>),
}

/// The object in a value of its type's kind.
fn object<T: Object>(value: ValueRef<'_>) -> Option<&T> {
    match value {
        ValueRef::Object(object) => object.get(),
        ValueRef::Str(_) => None,
    }
}

impl Descriptor {
    /// The descriptor of a type other than strings.
    pub(crate) const fn of<T: DataType>() -> Descriptor {
        Descriptor {
            kind: T::KIND,
            rdb_types: T::RDB_TYPES,
            requirements: T::REQUIREMENTS,
            keysizes: T::KEYSIZES,
            view: T::VIEW,
            rdb_type: |value, version| object::<T>(value).map_or(0, |object| object.rdb_type(version)),
            write: |value, out, byte, compress| {
                if let Some(object) = object::<T>(value) {
                    object.write(out, byte, compress);
                }
            },
            read_slice: |input, encoded| T::read(input, encoded).map(T::into_value),
            read: |input, encoded| T::read(input, encoded).map(T::into_value),
            skip: T::skip,
            commands: |value, key, out| {
                if let Some(object) = object::<T>(value) {
                    object.commands(key, out);
                }
            },
            digest: |value, digest| {
                if let Some(object) = object::<T>(value) {
                    object.digest(digest);
                }
            },
            export: |value, out| {
                if let Some(object) = object::<T>(value) {
                    object.export(out);
                }
            },
        }
    }

    /// The name of the type; values of modules have their own.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }
}
