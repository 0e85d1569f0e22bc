//! The type bytes of encoded values.

use crate::Error;

/// In place of a kind: a library of functions follows.
pub const LIBRARY: u8 = 245;
/// The same as release candidates of Redis 7.0 wrote it.
pub const LIBRARY_PRE_GA: u8 = 246;

macro_rules! kinds {
    ($($variant:ident = $byte:literal, $doc:literal;)*) => {
        /// How a value is encoded. The numbers are Redis' (`RDB_TYPE_*`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $doc] $variant = $byte,)*
        }

        impl Kind {
            fn known(byte: u8) -> Option<Kind> {
                match byte {
                    $($byte => Some(Kind::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    String = 0, "A string.";
    List = 1, "A list as strings.";
    Set = 2, "A set as strings.";
    ZSet = 3, "A sorted set with scores as text.";
    Hash = 4, "A hash as strings.";
    ZSet2 = 5, "A sorted set with binary scores.";
    HashZipmap = 9, "A zipmap (Redis 2.4 and older).";
    ListZiplist = 10, "A list as one ziplist.";
    SetIntset = 11, "A set as an intset.";
    ZSetZiplist = 12, "A sorted set as a ziplist.";
    HashZiplist = 13, "A hash as a ziplist.";
    ListQuicklist = 14, "A list as ziplists.";
    Stream = 15, "A stream of Redis 5.";
    HashListpack = 16, "A hash as a listpack.";
    ZSetListpack = 17, "A sorted set as a listpack.";
    ListQuicklist2 = 18, "A list as listpacks and plain strings.";
    Stream2 = 19, "A stream with its counters.";
    SetListpack = 20, "A set as a listpack.";
    Stream3 = 21, "A stream with the times at which consumers were active.";
    HashTimedOld = 22, "A hash with field expiry: of Redis 7.4's candidates, or of Valkey 9.";
    HashListpackTimedOld = 23, "A listpack with field expiry, of Redis 7.4's candidates.";
    HashTimed = 24, "A hash with field expiry, relative to the earliest.";
    HashListpackTimed = 25, "A listpack with field expiry.";
    Stream4 = 26, "A stream with its idempotency records.";
    Stream5 = 27, "A stream with entries that are pending with nobody.";
    Array = 28, "An array.";
}

impl Kind {
    /// The kind of a type byte.
    ///
    /// # Errors
    /// [`Error::Unknown`] for types of Redis that this server does not hold, [`Error::Corrupt`] for others.
    pub fn from_byte(byte: u8) -> Result<Kind, Error> {
        match byte {
            6 | 7 => Err(Error::Unknown("module")),
            29..=32 => Err(Error::Unknown("hash with a template")),
            33 => Err(Error::Unknown("rate limit")),
            _ => Kind::known(byte).ok_or(Error::Corrupt("unknown type of value")),
        }
    }

    /// Whether this kind of stream has what that one has.
    pub(crate) fn has_all_of(self, other: Kind) -> bool {
        self as u8 >= other as u8
    }

    /// The lowest version of the format that has this kind.
    pub fn since_version(self) -> u16 {
        match self as u8 {
            0..=4 | 9..=13 => 6,
            5..=8 => 8,
            14 => 7,
            15 => 9,
            16..=19 => 10,
            20 | 21 => 11,
            22..=25 => 12,
            26 => 13,
            _ => 14,
        }
    }
}
