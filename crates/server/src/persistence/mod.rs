//! The data set on disk: the RDB file that is written and loaded, and what INFO tells of that.
//!
//! What always holds: a file of that name is either the last whole one or not there. It is written beside it,
//! forced to disk, and only then takes its name.

pub mod aof;
pub mod background;
pub mod crew;
pub mod file;
pub mod leftovers;
pub mod load;
pub mod save;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use martlet_base::disk::{Disk, RealDisk};

use crate::config::{Config, SavePoint};
use crate::shared::{Shared, lock};
use crate::slow_path::SlowPathReason;
use crate::worker::Worker;
use aof::AppendLog;
use background::Background;
use crew::Crew;

/// How far loading has come.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Data is being loaded: commands that are not allowed then are refused.
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
    /// When the last in the background began, Unix milliseconds.
    pub background_began_ms: i64,
}

/// See the module's page. One per server.
pub struct Persistence {
    /// Where files are changed.
    pub disk: Arc<dyn Disk>,
    /// Loading.
    pub load: LoadProgress,
    /// Saving in the background.
    pub background: Background,
    /// The append-only file.
    pub log: AppendLog,
    /// Who helps.
    pub crew: Crew,
    /// Writes are refused since the last save in the background failed.
    pub refuses_writes: AtomicBool,
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
            background_began_ms: 0,
        };
        Persistence {
            disk: Arc::new(RealDisk),
            load: LoadProgress::default(),
            background: Background::default(),
            log: AppendLog::default(),
            crew: Crew::default(),
            refuses_writes: AtomicBool::new(false),
            facts: Mutex::new(facts),
        }
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

    fn background_began(&self, now_ms: i64) {
        lock(&self.facts).background_began_ms = now_ms;
    }

    fn background_ended(&self, is_sound: bool, seconds: i64) {
        let mut facts = lock(&self.facts);
        facts.is_background_sound = is_sound;
        facts.background_s = Some(seconds);
    }

    /// Whether data is being loaded.
    pub fn is_loading(&self) -> bool {
        self.load.is_on.load(Ordering::Relaxed)
    }
}

/// Waits so many microseconds for each of so many keys, or one for each `-us` keys, as long as `is_wanted`:
/// tests see a save or a load under way. Nothing that others need may be held, unless everything is.
pub(crate) fn delay(us: i32, keys: usize, is_wanted: impl Fn() -> bool) {
    const STEP_US: u64 = 10_000;
    let keys = keys as u64;
    let factor = u64::from(us.unsigned_abs());
    let mut left_us = if us < 0 { keys / factor } else { keys * factor };
    while left_us > 0 && is_wanted() {
        let step_us = left_us.min(STEP_US);
        std::thread::sleep(std::time::Duration::from_micros(step_us));
        left_us -= step_us;
    }
}

/// A save in the background that failed is tried again after this.
const RETRY_MS: i64 = 5000;

impl Facts {
    /// The rule of the directive `save` that asks for a save now, if there is one.
    fn due(&self, config: &Config, changes: u64, now_ms: i64) -> Option<SavePoint> {
        // A clock that was set back must not put it off: writes may be refused until then.
        if !self.is_background_sound && (0..=RETRY_MS).contains(&(now_ms - self.background_began_ms)) {
            return None;
        }
        let elapsed_s = (now_ms / 1000 - self.saved_at_s).max(0) as u64;
        let is_met = |point: &&SavePoint| changes >= point.changes && elapsed_s > point.seconds;
        config.save.0.iter().find(is_met).copied()
    }
}

impl Shared {
    /// Looks whether writes must be refused, after a save in the background or a change of the configuration.
    pub fn note_disk_state(&self) {
        // Held until it is noted: of two who look at once the later has the last word.
        let facts = lock(&self.persistence.facts);
        let config = self.config.snapshot();
        let refuses =
            !facts.is_background_sound && config.stop_writes_on_bgsave_error && !config.save.0.is_empty();
        if self.persistence.refuses_writes.swap(refuses, Ordering::SeqCst) != refuses {
            self.slow_path_reasons.set(SlowPathReason::SaveFailed, refuses);
        }
    }
}

impl Worker {
    /// Changes of the data set since the start, those of the command that runs now included.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.engine.sum(|counters| counters.dirty.get()).wrapping_add(self.keys.dirty)
    }

    /// After FLUSHALL, behind the closed gate: no file may bring back what was there, now or later.
    pub(crate) fn save_nothing(&mut self) {
        self.shared.persistence.background.cancel();
        if !self.config().save.0.is_empty() {
            // It has logged what went wrong, and FLUSHALL has done its work.
            let _ = self.save();
        }
    }

    /// Saves in the background if a rule asks for it.
    pub(crate) fn save_by_rule(&mut self) {
        let persistence = &self.shared.persistence;
        let config = self.config().clone();
        let is_free = persistence.background.running().is_none() && !persistence.log.is_rewriting();
        if is_free && persistence.background.schedule(false) {
            if !self.alone(Worker::start_background_save) {
                // Another was faster.
                persistence.background.schedule(true);
            }
            return;
        }
        if config.save.0.is_empty()
            || persistence.is_loading()
            || persistence.background.running().is_some()
            || persistence.log.is_rewriting()
        {
            return;
        }
        let facts = persistence.facts();
        let changes = self.changes().wrapping_sub(facts.saved_changes);
        if let Some(point) = facts.due(&config, changes, self.now_ms) {
            tracing::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
            self.alone(Worker::start_background_save);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SavePoints;

    #[test]
    fn rules_ask_for_saves() {
        let point = |seconds, changes| SavePoint { seconds, changes };
        let config = Config { save: SavePoints(vec![point(60, 100), point(10, 1000)]), ..Config::default() };
        let mut facts = Persistence::new(0).facts();
        assert_eq!(facts.due(&config, 99, 1_000_000), None);
        assert_eq!(facts.due(&config, 100, 60_999), None);
        assert_eq!(facts.due(&config, 100, 61_000), Some(point(60, 100)));
        assert_eq!(facts.due(&config, 1000, 11_000), Some(point(10, 1000)));
        facts.is_background_sound = false;
        facts.background_began_ms = 10_000;
        assert_eq!(facts.due(&config, 1000, 15_000), None);
        assert_eq!(facts.due(&config, 1000, 15_001), Some(point(10, 1000)));
        facts.background_began_ms = 3_600_000;
        assert_eq!(facts.due(&config, 1000, 15_001), Some(point(10, 1000)));
    }
}
