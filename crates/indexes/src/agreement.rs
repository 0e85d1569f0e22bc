//! The version of the definitions that all nodes of a cluster have; `agreed.rs` has how they change.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use martlet_base::sync::lock;

/// The command that changes definitions as the cluster has agreed:
/// - `_FT.DEFINE version ONE base command…`: a change of the definitions of version `base`;
/// - `_FT.DEFINE version ALL (count command…)…`: these instead of all others;
/// - `_FT.DEFINE version SET`: the present ones.
pub const DEFINE: &[u8] = b"_FT.DEFINE";

/// The digest of no definitions.
pub const DIGEST_OF_NONE: u64 = 0xcbf2_9ce4_8422_2325;

/// The version of the definitions.
#[derive(Debug, Default)]
pub(crate) struct Version {
    pub(crate) number: u64,
    /// All indexes went with the keys since.
    pub(crate) is_flushed: bool,
}

/// A catalogue's knowledge of its cluster.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// Locked while definitions of another version are taken.
    pub(crate) version: Mutex<Version>,
    /// How often the catalogue has changed.
    changes: AtomicU64,
    /// The digest of the definitions after this many changes.
    digest: Mutex<Option<(u64, u64)>>,
}

impl Agreement {
    /// The catalogue has changed.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// All indexes have gone with the keys.
    pub(crate) fn note_flush(&self) {
        let mut version = lock(&self.version);
        version.is_flushed = version.number > 0;
    }

    /// The definitions are those of a file.
    pub(crate) fn reset(&self) {
        *lock(&self.version) = Version::default();
    }

    /// The digest of the definitions, which `count` makes if they have changed since it was last asked for.
    pub(crate) fn digest(&self, count: impl FnOnce() -> u64) -> u64 {
        let changes = self.changes.load(Ordering::Acquire);
        let mut known = lock(&self.digest);
        match *known {
            Some((at, digest)) if at == changes => digest,
            _ => known.insert((changes, count())).1,
        }
    }
}

impl Version {
    pub(crate) fn shown(&self) -> u64 {
        if self.is_flushed { 0 } else { self.number }
    }
}
