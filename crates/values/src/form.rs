//! How values are written, and what several types write alike.
//!
//! A value is written in the form of the format's version that is nearest to its encoding. A value without
//! such a form, as a set that is a listpack before version 11, is written as strings, and becomes a listpack
//! again where it is read.

pub use martlet_keyspace::{
    VERSION_ARRAYS, VERSION_IDEMPOTENCY, VERSION_MODULES, VERSION_OLDEST, VERSION_PATH_HASHES,
    VERSION_REDIS_LAST, VERSION_RELEASED, VERSION_STREAMS, VERSION_TIMED, VERSION_TIMED_MEMBERS,
    VERSION_VALKEY,
};
use martlet_rdb::{Writer, listpack, write_bytes};
use martlet_types::element::Element;
use martlet_types::packed::Packed;

/// The byte of values of modules.
pub(crate) const MODULE: u8 = 7;

/// The first version with listpacks: Redis 7.0's.
pub(crate) const VERSION_LISTPACKS: u16 = 10;
/// The first with sets that are listpacks, and times at which consumers were active: Redis 7.2's.
pub(crate) const VERSION_SET_LISTPACKS: u16 = 11;

/// The first with hashes whose names of fields are a template: Redis 8.10's.
pub(crate) const VERSION_TEMPLATES: u16 = 15;

/// The newest of Redis that is written: Redis 8.12's.
pub const VERSION_NEWEST: u16 = 17;

/// The versions of the format that a receiver reads, as its own version shows.
///
/// Valkey refuses Redis' versions from 12 on (`RDB_FOREIGN_VERSION_MIN`), and has a map from its releases to
/// the versions that they read (`RDB_VERSION_MAP`): 11 from 7.2 on, 80 from 9.0 on, 81 from 9.2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// Unknown, or all that are written.
    Any,
    /// Redis' up to 11: Valkey 8.
    Redis7,
    /// The same and [`VERSION_VALKEY`]: Valkey 9.0 and 9.1.
    Valkey,
    /// The same and [`VERSION_PATH_HASHES`]: Valkey 9.2.
    NewestValkey,
}

impl Readable {
    /// By the version in a replica's `REPLCONF version`, `0xMMmmpp`, which Redis' replicas do not send; 0 if
    /// it has sent none.
    pub fn of_release(version: u32) -> Readable {
        match version {
            0x9_0200.. => Readable::NewestValkey,
            0x9_0000.. => Readable::Valkey,
            0x7_0200.. => Readable::Redis7,
            _ => Readable::Any,
        }
    }

    /// Whether it reads this version.
    pub fn reads(self, version: u16) -> bool {
        match self {
            Readable::Any => true,
            Readable::Redis7 => version <= VERSION_SET_LISTPACKS,
            Readable::Valkey => Readable::Redis7.reads(version) || version == VERSION_VALKEY,
            Readable::NewestValkey => Readable::Valkey.reads(version) || version == VERSION_PATH_HASHES,
        }
    }

    /// What reads these, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Readable::Any => "any",
            Readable::Redis7 => "up to 11",
            Readable::Valkey => "up to 11 and 80",
            Readable::NewestValkey => "up to 11, 80 and 81",
        }
    }
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// For readers of this version of the format, at least [`VERSION_OLDEST`].
    pub version: u16,
    /// Compress strings where that pays.
    pub compress: bool,
}

/// A listpack of the elements, which are those of the block if there is one: they are all but listpack's
/// entries there.
pub(crate) fn write_packed<'a>(
    out: &mut Writer<'_>,
    packed: Option<&Packed>,
    elements: impl Iterator<Item = Element<'a>>,
    compress: bool,
) {
    let mut listpack = listpack::Writer::new();
    match packed {
        Some(packed) => listpack.extend(packed.len(), |bytes| packed.write_listpack(bytes)),
        None => elements.for_each(|element| listpack.push(element)),
    }
    listpack.finish(|bytes| write_bytes(out, bytes, compress));
}
