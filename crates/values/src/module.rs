//! Values of modules: of types that are known by name ([`ModuleType`]), and of all others ([`Carried`]).
//!
//! ```text
//! 7  id: a length | items, see `martlet_rdb::module`
//! ```

use std::sync::OnceLock;

use martlet_keyspace::{ModuleObject, ModuleValue, Object, Value};
use martlet_rdb::input::Input;
use martlet_rdb::module::{ItemReader, ItemWriter, ModuleId, NAME_CHARACTERS, read_id, skip_items};
use martlet_rdb::{Error, Owner, Writer, read_plain_length};
use martlet_spec::data_type::TypeView;

use crate::carried::Carried;
use crate::commands::Commands;
use crate::descriptor::{DataType, Descriptor, Encoded, RdbType, Requirement};
use crate::digest::Digest;
use crate::export::Export;
use crate::form::{MODULE, VERSION_MODULES};
use crate::{MODULE_TYPES, path_hash, payload};

/// A type that Redis has as a module's: what [`DataType`] is for the others.
pub trait ModuleType: ModuleObject + Clone {
    /// The name in the type's id.
    const NAME: &'static [u8; NAME_CHARACTERS];
    /// Versions of the encoding that are read and written, from the oldest to the latest; a value of another
    /// version is [`Carried`].
    const ENCODING_VERSIONS: std::ops::RangeInclusive<u16>;
    /// See [`DataType::VIEW`]; without one, tools show such values as they show those of unknown types.
    const VIEW: Option<&'static TypeView> = None;

    /// The version of the encoding in which [`ModuleType::save`] writes this value.
    fn written_version(&self) -> u16 {
        *Self::ENCODING_VERSIONS.end()
    }
    /// Writes the value's items.
    fn save(&self, items: &mut ItemWriter<'_, '_>);
    /// Reads a value's items, up to their end.
    ///
    /// # Errors
    /// [`Error`].
    fn load(items: &mut ItemReader<'_>, version: u16) -> Result<Self, Error>;
    /// The commands that make the key; RESTORE does for every type.
    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        restore(&ModuleValue::new(self.clone()), key, out);
    }
    /// See [`DataType::digest`].
    fn digest(&self, digest: &mut Digest);
    /// See [`DataType::export`].
    fn export(&self, out: &mut Export<'_>);
}

/// A [`ModuleType`] behind pointers to functions.
pub struct ModuleDescriptor {
    /// See [`ModuleType::VIEW`].
    pub view: Option<&'static TypeView>,
    reads: fn(u16) -> bool,
    id: ModuleId,
    version: fn(&ModuleValue) -> u16,
    is: fn(&ModuleValue) -> bool,
    save: fn(&ModuleValue, &mut ItemWriter<'_, '_>),
    load: fn(&mut ItemReader<'_>, u16) -> Result<ModuleValue, Error>,
    commands: fn(&ModuleValue, &[u8], &mut Commands<'_>),
    digest: fn(&ModuleValue, &mut Digest),
    export: fn(&ModuleValue, &mut Export<'_>),
}

impl ModuleDescriptor {
    /// The descriptor of `T`.
    pub const fn of<T: ModuleType>() -> ModuleDescriptor {
        ModuleDescriptor {
            view: T::VIEW,
            reads: |version| T::ENCODING_VERSIONS.contains(&version),
            id: ModuleId::new(T::NAME, *T::ENCODING_VERSIONS.end()),
            version: |value| value.get::<T>().map_or(*T::ENCODING_VERSIONS.end(), T::written_version),
            is: |value| value.get::<T>().is_some(),
            save: |value, items| {
                if let Some(object) = value.get::<T>() {
                    object.save(items);
                }
            },
            load: |items, version| T::load(items, version).map(ModuleValue::new),
            commands: |value, key, out| {
                if let Some(object) = value.get::<T>() {
                    T::commands(object, key, out);
                }
            },
            digest: |value, digest| {
                if let Some(object) = value.get::<T>() {
                    T::digest(object, digest);
                }
            },
            export: |value, out| {
                if let Some(object) = value.get::<T>() {
                    T::export(object, out);
                }
            },
        }
    }
}

static INSTALLED: OnceLock<&'static [&'static ModuleDescriptor]> = OnceLock::new();

/// Adds types of modules, once and before any value is read; whether none were added before.
pub fn install(types: &'static [&'static ModuleDescriptor]) -> bool {
    INSTALLED.set(types).is_ok()
}

/// The views that tools have of the data types of this server.
pub fn built_in_views() -> impl Iterator<Item = &'static TypeView> {
    let of_modules = MODULE_TYPES.iter().filter_map(|known| known.view);
    crate::TYPES.iter().filter_map(|known| known.view).chain(of_modules)
}

fn known() -> impl Iterator<Item = &'static ModuleDescriptor> {
    MODULE_TYPES.iter().chain(INSTALLED.get().copied().unwrap_or_default()).copied()
}

/// The descriptor of the value's type, if it has one.
fn of_value(value: &ModuleValue) -> Option<&'static ModuleDescriptor> {
    known().find(|known| (known.is)(value))
}

/// RESTORE of the value.
pub(crate) fn restore(value: &ModuleValue, key: &[u8], out: &mut Commands<'_>) {
    let payload = payload::dump_of(Owner { key, has_links: true }, value.view(), true);
    out.put(&[b"RESTORE", key, b"0", &payload]);
}

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    read_slice: |input, encoded| read_value(input, encoded),
    read: |input, encoded| read_value(input, encoded),
    ..Descriptor::of::<ModuleValue>()
};

/// Reads a value in the form of a module's, which is of another kind if Redis' versions have no form for
/// that.
fn read_value(input: &mut (impl Input + ?Sized), encoded: Encoded<'_>) -> Result<Value, Error> {
    let id = read_id(input)?;
    if path_hash::is_meant_by(id) {
        return path_hash::read_items(input, encoded.limits.hash).map(Object::into_value);
    }
    read_of_module(input, id).map(Object::into_value)
}

fn read_of_module(input: &mut (impl Input + ?Sized), id: ModuleId) -> Result<ModuleValue, Error> {
    let is_meant = |known: &&ModuleDescriptor| known.id.is_same_type(id) && (known.reads)(id.version());
    let Some(known) = known().find(is_meant) else {
        return Carried::read(input, id).map(ModuleValue::new);
    };
    let mut input = input;
    let mut items = ItemReader::new(&mut input);
    let value = (known.load)(&mut items, id.version())?;
    items.end()?;
    Ok(value)
}

impl DataType for ModuleValue {
    const RDB_TYPES: &'static [RdbType] = &[RdbType { byte: MODULE, since: VERSION_MODULES }];
    const REQUIREMENTS: &'static [Requirement] =
        &[Requirement { version: VERSION_MODULES, in_valkey: true, values: "values of modules" }];
    // Redis has none.
    const KEYSIZES: Option<&'static str> = None;
    const VIEW: Option<&'static TypeView> = None;

    fn rdb_type(&self, _version: u16) -> u8 {
        MODULE
    }

    fn write(&self, out: &mut Writer<'_>, _byte: u8, compress: bool) {
        if let Some(carried) = self.get::<Carried>() {
            carried.write(out);
        } else if let Some(known) = of_value(self) {
            let mut items = ItemWriter::new(out, known.id.of_version((known.version)(self)), compress);
            (known.save)(self, &mut items);
            items.end();
        }
    }

    fn read(input: &mut (impl Input + ?Sized), _encoded: Encoded<'_>) -> Result<ModuleValue, Error> {
        let id = read_id(input)?;
        read_of_module(input, id)
    }

    fn skip(input: &mut &[u8], _byte: u8, _version: u16) -> Result<(), Error> {
        read_plain_length(input)?;
        skip_items(input)
    }

    fn commands(&self, key: &[u8], out: &mut Commands<'_>) {
        match of_value(self) {
            Some(known) => (known.commands)(self, key, out),
            None => restore(self, key, out),
        }
    }

    fn digest(&self, digest: &mut Digest) {
        if let Some(carried) = self.get::<Carried>() {
            digest.mix(self.object().type_name().as_bytes());
            digest.mix(carried.items());
        } else if let Some(known) = of_value(self) {
            // As Redis does it: the type's own digest, added as a whole.
            let mut own = Digest::default();
            (known.digest)(self, &mut own);
            digest.xor_digest(&own);
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        if let Some(carried) = self.get::<Carried>() {
            out.text(carried.items());
        } else if let Some(known) = of_value(self) {
            (known.export)(self, out);
        }
    }
}
