//! How values are written, and what several types write alike.
//!
//! A value is written in the form of the format's version that is nearest to its encoding. A value without
//! such a form, as a set that is a listpack before version 11, is written as strings, and becomes a listpack
//! again where it is read.

pub use martlet_keyspace::{
    VERSION_ARRAYS, VERSION_IDEMPOTENCY, VERSION_MODULES, VERSION_OLDEST, VERSION_RELEASED, VERSION_STREAMS,
    VERSION_TIMED, VERSION_TIMED_MEMBERS, VERSION_VALKEY,
};
use martlet_rdb::{Writer, listpack, write_bytes};
use martlet_types::element::Element;
use martlet_types::packed::Packed;

/// The first version with listpacks: Redis 7.0's.
pub(crate) const VERSION_LISTPACKS: u16 = 10;
/// The first with sets that are listpacks, and times at which consumers were active: Redis 7.2's.
pub(crate) const VERSION_SET_LISTPACKS: u16 = 11;

/// The newest of Redis that is written: Redis 8.12's.
pub const VERSION_NEWEST: u16 = 17;

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
