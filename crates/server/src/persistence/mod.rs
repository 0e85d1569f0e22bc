//! The data set on disk: the RDB file that is written and loaded, and what INFO tells of that.
//!
//! What always holds: a file of that name is either the last whole one or not there. It is written beside it, forced to disk, and only
//! then takes its name.

pub mod file;
pub mod load;
pub mod save;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::shared::lock;

/// How far loading has come.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Data is being loaded: commands that are not allowed then are refused. Counts in `Shared::detour`.
    pub is_on: AtomicBool,
    /// Since when, Unix milliseconds.
    pub began_ms: AtomicI64,
    /// Bytes of the file.
    pub total_bytes: AtomicU64,
    /// Bytes read so far.
    pub read_bytes: AtomicU64,
    /// Bytes in use when the file was written, as it says.
    pub memory_bytes: AtomicU64,
    /// Keys loaded by the last load.
    pub keys: AtomicU64,
    /// Keys that the last load left out, since their time had come.
    pub expired: AtomicU64,
}

/// What is known of saves.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When the last one ended well, or the start, Unix seconds.
    pub saved_at_s: i64,
    /// Changes counted up to then.
    pub saved_changes: u64,
    /// How many ended well.
    pub saves: u64,
    /// Whether the last in the background ended well.
    pub is_background_sound: bool,
    /// Seconds that the last in the background took.
    pub background_s: Option<i64>,
}

/// See the module's page. One per server.
#[derive(Debug)]
pub struct Persistence {
    /// Loading.
    pub load: LoadProgress,
    facts: Mutex<Facts>,
}

impl Persistence {
    /// Nothing saved since the start, at this time.
    pub fn new(now_ms: i64) -> Persistence {
        let facts = Facts {
            saved_at_s: now_ms / 1000,
            saved_changes: 0,
            saves: 0,
            is_background_sound: true,
            background_s: None,
        };
        Persistence { load: LoadProgress::default(), facts: Mutex::new(facts) }
    }

    /// What is known of saves.
    pub fn facts(&self) -> Facts {
        lock(&self.facts).clone()
    }

    /// Notes a save that ended well, of a data set that `changes` changes had led to.
    pub fn saved(&self, now_ms: i64, changes: u64) {
        let mut facts = lock(&self.facts);
        facts.saved_at_s = now_ms / 1000;
        facts.saved_changes = changes;
        facts.saves += 1;
        facts.is_background_sound = true;
    }

    /// Whether data is being loaded.
    pub fn is_loading(&self) -> bool {
        self.load.is_on.load(Ordering::Relaxed)
    }
}
