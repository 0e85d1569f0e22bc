//! The data set on disk: RDB files, the append-only file, and loading.
//!
//! It knows keys, commands and the journal, neither clients nor connections: its needs of the server are
//! [`Host`]. Invariant: an RDB file of its name is either the last whole one or not there. It is written
//! beside it, forced to disk, and only then takes its name.

pub mod aof;
pub mod background;
mod file;
mod host;
pub mod load;
mod received;
pub mod save;
mod saver_pool;
mod settings;
mod slots;
pub mod start;
pub mod temp_files;
#[cfg(test)]
mod testing;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use martlet_base::clock::Clock;
use martlet_base::disk::{GatedDisk, RealDisk};
use martlet_base::sync::lock;
use martlet_engine::{Engine, Keys};

use aof::AppendLog;
use background::Background;
pub use background::EmptyFile;
pub use host::{
    Commands, Condition, Definition, Host, Libraries, Publish, Resolved, StreamName, StreamPlace,
};
pub use martlet_rdb::frames;
pub use martlet_rdb::pack::Codec;
pub use received::{Beside, NewFile};
use saver_pool::SaverPool;
pub use settings::{KeptAccess, SavePoint, Settings};

/// Numbers to the engine for each thread that serves: its own, one that loads and one that saves.
pub const NUMBERS_PER_THREAD: usize = 3;

/// The keys, their files, and the server around both.
#[derive(Clone, Copy)]
pub struct Storage {
    /// The keyspace.
    pub engine: &'static Engine,
    /// The state of the files.
    pub persistence: &'static Persistence,
    /// The server.
    pub host: &'static dyn Host,
}

/// How far loading has come.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Data is being loaded: commands that are not allowed then are refused.
    pub is_on: AtomicBool,
    /// It is loaded beside an older state of the same data, which is served in that time.
    pub is_async: AtomicBool,
    /// Commands of append-only files that have failed since the start.
    pub failed_commands: AtomicU64,
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

/// Facts about saves.
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
    /// How many saves in the background have failed since the last one that ended well.
    pub failures: u64,
    /// Seconds that the last in the background took.
    pub background_s: Option<i64>,
    /// When the last in the background began, Unix milliseconds.
    pub background_began_ms: i64,
}

/// The state of the files; one per server.
pub struct Persistence {
    clock: Clock,
    /// Threads that serve.
    threads: usize,
    /// Where files are changed.
    pub disk: GatedDisk,
    /// Loading.
    pub load: LoadProgress,
    /// Where data is loaded beside the data set: empty unless that is so.
    beside: OnceLock<&'static Engine>,
    /// Saving in the background.
    pub background: Background,
    /// The append-only file.
    pub log: AppendLog,
    /// The helping threads.
    pool: SaverPool,
    /// Writes are refused since the last save in the background failed.
    pub refuses_writes: AtomicBool,
    facts: Mutex<Facts>,
}

impl Persistence {
    /// Nothing saved since the start, which is now, beside this many threads that serve.
    pub fn new(clock: Clock, threads: usize) -> Persistence {
        let facts = Facts {
            saved_at_s: clock.unix_ms() / 1000,
            saved_changes: 0,
            saves: 0,
            is_background_sound: true,
            failures: 0,
            background_s: None,
            background_began_ms: 0,
        };
        Persistence {
            clock,
            threads,
            disk: GatedDisk::new(Arc::new(RealDisk)),
            load: LoadProgress::default(),
            beside: OnceLock::new(),
            background: Background::default(),
            log: AppendLog::default(),
            pool: SaverPool::default(),
            refuses_writes: AtomicBool::new(false),
            facts: Mutex::new(facts),
        }
    }

    /// Facts about saves.
    pub fn facts(&self) -> Facts {
        lock(&self.facts).clone()
    }

    /// Notes a save that ended well, of a data set that `changes` changes had led to.
    pub fn saved(&self, now_ms: i64, changes: u64) {
        let mut facts = lock(&self.facts);
        facts.saved_at_s = now_ms / 1000;
        facts.saved_changes = changes;
        facts.saves += 1;
        (facts.is_background_sound, facts.failures) = (true, 0);
    }

    fn background_began(&self, now_ms: i64) {
        lock(&self.facts).background_began_ms = now_ms;
    }

    fn background_ended(&self, is_sound: bool, seconds: i64) {
        let mut facts = lock(&self.facts);
        facts.is_background_sound = is_sound;
        facts.failures = if is_sound { 0 } else { facts.failures + 1 };
        facts.background_s = Some(seconds);
    }

    /// Whether data is being loaded.
    pub fn is_loading(&self) -> bool {
        self.load.is_on.load(Ordering::Relaxed)
    }

    /// Whether clients see an older state of the data during the load.
    pub fn is_loading_async(&self) -> bool {
        self.is_loading() && self.load.is_async.load(Ordering::Relaxed)
    }
}

/// Waits the configured microseconds for each of `keys` keys, or one for each `-us` keys, as long as
/// `is_wanted`: tests see a save or a load under way. No lock that others need may be held, unless all are.
fn delay(us: impl Fn() -> i32, keys: usize, is_wanted: impl Fn() -> bool) {
    const STEP_US: u64 = 10_000;
    let keys = keys as u64;
    let total_us = || match us() {
        us @ ..0 => keys / u64::from(us.unsigned_abs()),
        us => keys * u64::from(us.unsigned_abs()),
    };
    let mut waited_us = 0;
    // It may be changed in this time.
    while let Some(left_us) = total_us().checked_sub(waited_us).filter(|left_us| *left_us > 0)
        && is_wanted()
    {
        let step_us = left_us.min(STEP_US);
        std::thread::sleep(std::time::Duration::from_micros(step_us));
        waited_us += step_us;
    }
}

/// A save in the background that failed is tried again after this.
const RETRY_MS: i64 = 5000;

impl Facts {
    /// The rule of the directive `save` that asks for a save now, if there is one.
    fn due(&self, settings: &Settings, changes: u64, now_ms: i64) -> Option<SavePoint> {
        // A clock that was set back must not put it off: writes may be refused until then.
        if !self.is_background_sound && (0..=RETRY_MS).contains(&(now_ms - self.background_began_ms)) {
            return None;
        }
        let elapsed_s = (now_ms / 1000 - self.saved_at_s).max(0) as u64;
        let is_met = |point: &&SavePoint| changes >= point.changes && elapsed_s > point.seconds;
        settings.save.iter().find(is_met).copied()
    }
}

/// Why a save in the background is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It was put off until now.
    Scheduled,
    /// A rule asks for it.
    Rule,
}

impl Storage {
    /// Starts the threads that save and load beside those that serve.
    ///
    /// # Errors
    /// When the operating system refuses one.
    pub fn start_threads(self) -> std::io::Result<()> {
        self.persistence.background.start_thread(self)?;
        self.persistence.pool.start(self.persistence.threads, move || self.host.begin_thread())
    }

    fn now_ms(self) -> i64 {
        self.persistence.clock.unix_ms()
    }

    fn now_us(self) -> i64 {
        self.persistence.clock.unix_us()
    }

    /// The number, to the engine, of the thread that loads; there are as many of them as of those that serve.
    pub fn loader(self, index: usize) -> usize {
        self.persistence.threads + index
    }

    /// The number, to the engine, of the thread that saves.
    pub fn saver(self, index: usize) -> usize {
        2 * self.persistence.threads + index
    }

    /// Changes of the data set since the start, those of the command that runs now on `keys` included.
    pub fn changes(self, keys: &Keys) -> u64 {
        self.engine.sum(|counters| counters.dirty.get()).wrapping_add(keys.dirty)
    }

    /// Looks whether writes must be refused, after a save in the background or a change of the configuration.
    pub fn note_disk_state(self) {
        // Held until it is recorded: of two threads that look at once the later has the last word.
        let facts = lock(&self.persistence.facts);
        let settings = self.host.settings();
        let refuses =
            !facts.is_background_sound && settings.stop_writes_on_bgsave_error && !settings.save.is_empty();
        if self.persistence.refuses_writes.swap(refuses, Ordering::SeqCst) != refuses {
            self.host.note(Condition::SaveFailed, refuses);
        }
    }

    /// After FLUSHALL, behind the closed gate: no file may bring back the old data, now or later. The file of
    /// the empty data set, which is to be written once the gate is open, if there are rules.
    pub fn begin_saving_nothing(self, keys: &Keys, settings: &Settings) -> Option<EmptyFile> {
        self.persistence.background.cancel();
        if settings.save.is_empty() { None } else { EmptyFile::begin(self, keys, settings) }
    }

    /// Whether a save in the background is to begin, after this many changes.
    pub fn due_save(self, changes: u64) -> Option<Due> {
        let persistence = self.persistence;
        if persistence.background.running().is_some() || persistence.log.is_rewriting() {
            return None;
        }
        if persistence.background.schedule(false) {
            return Some(Due::Scheduled);
        }
        let settings = self.host.settings();
        if settings.save.is_empty() || persistence.is_loading() {
            return None;
        }
        let facts = persistence.facts();
        let changes = changes.wrapping_sub(facts.saved_changes);
        let point = facts.due(&settings, changes, self.now_ms())?;
        tracing::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
        Some(Due::Rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_ask_for_saves() {
        let point = |seconds, changes| SavePoint { seconds, changes };
        let settings = Settings {
            save: vec![point(60, 100), point(10, 1000)],
            ..testing::settings(std::path::Path::new("/"))
        };
        let mut facts = Persistence::new(Clock::manual(Arc::default()), 1).facts();
        assert_eq!(facts.due(&settings, 99, 1_000_000), None);
        assert_eq!(facts.due(&settings, 100, 60_999), None);
        assert_eq!(facts.due(&settings, 100, 61_000), Some(point(60, 100)));
        assert_eq!(facts.due(&settings, 1000, 11_000), Some(point(10, 1000)));
        facts.is_background_sound = false;
        facts.background_began_ms = 10_000;
        assert_eq!(facts.due(&settings, 1000, 15_000), None);
        assert_eq!(facts.due(&settings, 1000, 15_001), Some(point(10, 1000)));
        facts.background_began_ms = 3_600_000;
        assert_eq!(facts.due(&settings, 1000, 15_001), Some(point(10, 1000)));
    }

    #[test]
    fn failures_count_until_a_save_ends_well() {
        let persistence = Persistence::new(Clock::manual(Arc::default()), 1);
        let failures = || persistence.facts().failures;
        persistence.background_ended(false, 1);
        persistence.background_ended(false, 1);
        assert_eq!(failures(), 2);
        persistence.background_ended(true, 1);
        assert_eq!(failures(), 0);
        persistence.background_ended(false, 1);
        persistence.saved(0, 0);
        assert_eq!(failures(), 0);
    }
}
