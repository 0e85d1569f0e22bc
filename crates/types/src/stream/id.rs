//! An entry's id: milliseconds, and a number among those of one millisecond.

use std::fmt;

/// An entry's id. Ids are compared by their milliseconds first.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Unix milliseconds, mostly.
    pub ms: u64,
    /// Which one of that millisecond.
    pub seq: u64,
}

impl Id {
    /// The lowest, which no entry has.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    /// The highest.
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The next id, unless this is the highest.
    pub fn next(self) -> Option<Id> {
        match (self.ms, self.seq) {
            (u64::MAX, u64::MAX) => None,
            (ms, u64::MAX) => Some(Id { ms: ms + 1, seq: 0 }),
            (ms, seq) => Some(Id { ms, seq: seq + 1 }),
        }
    }

    /// The id before, unless this is the lowest.
    pub fn previous(self) -> Option<Id> {
        match (self.ms, self.seq) {
            (0, 0) => None,
            (ms, 0) => Some(Id { ms: ms - 1, seq: u64::MAX }),
            (ms, seq) => Some(Id { ms, seq: seq - 1 }),
        }
    }

    /// Both numbers, big-endian, so that bytes compare as ids.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The inverse of [`Id::to_bytes`].
    pub fn from_bytes(bytes: [u8; 16]) -> Id {
        let both = u128::from_be_bytes(bytes);
        Id { ms: (both >> 64) as u64, seq: both as u64 }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}
