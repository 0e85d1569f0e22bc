//! The append-only file: its writer, its rewrites, and INFO's facts about it.
//!
//! Threads that serve clients only append to the journal. One thread ([`writer`]) writes its content to the
//! file; another, while there is one ([`rewrite`]), writes a new base. Invariant: the manifest on disk lists
//! files that together, in order, have every write that a synchronisation has covered.

pub(crate) mod commands;
pub(crate) mod files;
pub mod load;
pub mod replay;
pub mod rewrite;
pub(crate) mod start;
mod writer;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};

use martlet_base::disk::{DiskFile, error_text};
use martlet_base::sync::{Outside, lock, wait_while};
use martlet_journal::aof::{Manifest, SyncPolicy};
use martlet_journal::stream::Cut;
use martlet_journal::{Follower, Journal, Position};

use crate::save::SaveFailed;
use crate::settings::Settings;
use crate::{Condition, Storage};

/// Milliseconds until the next attempt at a first base that could not be written; writes are refused until it
/// succeeds.
const FIRST_BASE_RETRY_MS: i64 = 5000;

/// A flush that was asked for: the thread that writes answers once it has tried. Where the file has ended, a
/// rewrite that was cancelled with it ends, too.
#[must_use]
pub struct PendingFlush {
    flushed: Option<Receiver<bool>>,
    /// The file whose rewrite has been cancelled.
    cancelled: Option<&'static AppendLog>,
}

impl PendingFlush {
    /// Waits for its end; whether all is on disk.
    pub fn wait(self, _: &Outside) -> bool {
        let is_on_disk = self.flushed.is_none_or(|done| done.recv().unwrap_or(false));
        if let Some(log) = self.cancelled {
            log.wait_for_rewrite();
        }
        is_on_disk
    }
}

/// Whether there is an append-only file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No.
    #[default]
    Off,
    /// It was switched on: writes are recorded, and its first base is being written.
    Starting,
    /// Yes.
    On,
}

/// A rewrite under way.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// When it began, Unix milliseconds.
    pub began_ms: i64,
    /// Ends it.
    is_cancelled: Arc<AtomicBool>,
    /// Another is to follow at once: it was asked for after this one was cancelled.
    is_followed: bool,
}

/// Facts about the append-only file and its rewrites.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether there is one.
    pub phase: Phase,
    /// The rewrite under way.
    pub rewrite: Option<Rewrite>,
    /// A rewrite is to begin as soon as it can.
    pub is_scheduled: bool,
    /// Seconds that the last rewrite took.
    pub last_s: Option<i64>,
    /// Whether the last rewrite ended well.
    pub is_sound: bool,
    /// Rewrites begun.
    pub rewrites: u64,
    /// How many have failed since the last that ended well.
    pub failures: u64,
    /// When the last one ended, Unix milliseconds.
    ended_ms: i64,
}

/// The files as they are listed on disk.
#[derive(Debug, Default)]
struct Listed {
    manifest: Manifest,
    last: Option<LastIncrement>,
}

/// Facts about a file of commands that was listed while it was empty.
#[derive(Debug)]
struct LastIncrement {
    number: u64,
    /// Where in the journal it begins, once records go to it.
    begins: Option<Position>,
}

/// An order to the writer's thread.
enum Order {
    /// From this cut on, records go to this file, which has `bytes` bytes; see [`Writer::switch`].
    ///
    /// [`Writer::switch`]: martlet_journal::aof::Writer::switch
    Switch { from: Cut, file: Box<dyn DiskFile>, bytes: u64, earlier_bytes: Option<u64> },
    /// From this cut on, records go nowhere.
    Stop { from: Cut, is_listed: bool },
    /// Everything up to this position is on disk, in a new base; the size of the base, and of all files.
    Rewritten { position: Position, base_bytes: u64, all_bytes: u64 },
    /// Write everything, force it to disk, and report whether that went well; later orders wait until then.
    Flush(Sender<bool>),
}

/// See the module's page. One per server.
pub struct AppendLog {
    facts: Mutex<Facts>,
    /// Held while the disk works on the list; no serving thread waits for it.
    listed: Mutex<Listed>,
    rewrite_ended: Condvar,
    /// To the thread that rewrites, once there is one.
    rewriter: Mutex<Option<Sender<rewrite::Begun>>>,
    orders: Mutex<VecDeque<Order>>,
    has_writer: AtomicBool,
    /// Bytes of all files.
    pub current_bytes: AtomicU64,
    /// Bytes after the last rewrite.
    pub base_bytes: AtomicU64,
    /// Bytes of commands that wait for the disk.
    pub buffered_bytes: AtomicU64,
    /// DEBUG AOF-FLUSH-SLEEP: microseconds to wait before each write, for tests.
    pub flush_sleep_us: AtomicU64,
    /// The log says last that writes wait for the disk.
    has_logged_fullness: AtomicBool,
    /// Synchronisations under way: 0 or 1.
    pub syncing: AtomicU64,
    /// The disk refuses, and so writes are refused.
    pub refuses_writes: AtomicBool,
    /// The file was switched on and its first base could not be written: nothing would load the records.
    lacks_base: AtomicBool,
    /// Why.
    refusal: Mutex<String>,
}

impl Default for AppendLog {
    fn default() -> AppendLog {
        let facts = Facts {
            phase: Phase::Off,
            rewrite: None,
            is_scheduled: false,
            last_s: None,
            is_sound: true,
            rewrites: 0,
            failures: 0,
            ended_ms: 0,
        };
        AppendLog {
            facts: Mutex::new(facts),
            listed: Mutex::default(),
            rewrite_ended: Condvar::new(),
            rewriter: Mutex::default(),
            orders: Mutex::default(),
            has_writer: AtomicBool::new(false),
            current_bytes: AtomicU64::new(0),
            base_bytes: AtomicU64::new(0),
            buffered_bytes: AtomicU64::new(0),
            flush_sleep_us: AtomicU64::new(0),
            has_logged_fullness: AtomicBool::new(false),
            syncing: AtomicU64::new(0),
            refuses_writes: AtomicBool::new(false),
            lacks_base: AtomicBool::new(false),
            refusal: Mutex::default(),
        }
    }
}

impl AppendLog {
    /// The facts.
    pub fn facts(&self) -> Facts {
        lock(&self.facts).clone()
    }

    /// Whether a rewrite is under way.
    pub fn is_rewriting(&self) -> bool {
        lock(&self.facts).rewrite.is_some()
    }

    /// Has a rewrite begin as soon as it can.
    pub fn schedule_rewrite(&self) {
        lock(&self.facts).is_scheduled = true;
    }

    /// The same at a client's request: earlier failures no longer count.
    pub fn ask_for_rewrite(&self) {
        let mut facts = lock(&self.facts);
        (facts.is_scheduled, facts.failures) = (true, 0);
    }

    /// The text for clients whose writes are refused.
    pub fn refusal(&self) -> String {
        format!("MISCONF Errors writing to the AOF file: {}", lock(&self.refusal))
    }

    /// Cancels the rewrite under way, which ends soon; whether there was one.
    pub fn cancel_rewrite(&self) -> bool {
        let facts = lock(&self.facts);
        facts.rewrite.iter().for_each(|rewrite| rewrite.is_cancelled.store(true, Ordering::Relaxed));
        facts.rewrite.is_some()
    }

    /// If the rewrite under way was cancelled, has another follow it; whether it was.
    pub fn follow_cancelled(&self) -> bool {
        let mut facts = lock(&self.facts);
        let cancelled = facts.rewrite.as_mut().filter(|rewrite| rewrite.is_cancelled.load(Ordering::Relaxed));
        cancelled.map(|rewrite| rewrite.is_followed = true).is_some()
    }

    /// Waits until no rewrite is under way. The gate must be open: a rewrite passes it.
    pub fn wait_for_rewrite(&self) {
        drop(wait_while(&self.rewrite_ended, lock(&self.facts), |facts| facts.rewrite.is_some()));
    }

    fn order(&self, order: Order) {
        let mut orders = lock(&self.orders);
        if !self.has_writer.load(Ordering::SeqCst) {
            // Rewrites of a log that is off: the last one counts.
            orders.retain(|order| !matches!(order, Order::Rewritten { .. }));
        }
        orders.push_back(order);
    }
}

/// Has the journal recorded for the append-only file, as this configuration wants it. The gate is closed.
fn follow_journal(journal: &Journal, settings: &Settings) {
    journal.follow(Follower::File, true);
    journal.hold_replies(settings.appendfsync == SyncPolicy::Always);
}

impl Storage {
    /// Records whether the disk takes written bytes, and if not, why.
    fn note_log_state(self, refusal: Option<String>) {
        let log = &self.persistence.log;
        let refuses = refusal.is_some();
        // Held until it is recorded: of two threads that look at once the later has the last word.
        let mut noted = lock(&log.refusal);
        if let Some(text) = refusal {
            *noted = text;
        }
        if log.refuses_writes.swap(refuses, Ordering::SeqCst) != refuses {
            self.host.note(Condition::LogRefused, refuses);
        }
    }

    /// Logs that writes wait for the disk, or resume.
    pub fn log_fullness(self) {
        let is_full = self.engine.journal.is_full();
        if self.persistence.log.has_logged_fullness.swap(is_full, Ordering::Relaxed) == is_full {
            return;
        }
        if is_full {
            tracing::warn!("The disk does not keep up with the AOF: commands that write wait until it does.");
        } else {
            tracing::info!("The disk has caught up with the AOF: commands that write resume.");
        }
    }

    /// How far the disk has come with what would be loaded: without a first base nothing would be.
    pub fn durable_in(self, phase: Phase) -> Option<Position> {
        (phase == Phase::On).then(|| self.engine.journal.durable())
    }

    /// Has everything that was recorded written and forced to disk.
    pub fn begin_flush(self) -> PendingFlush {
        let log = &self.persistence.log;
        if !log.has_writer.load(Ordering::SeqCst) {
            return PendingFlush { flushed: None, cancelled: None };
        }
        let (sender, done) = std::sync::mpsc::channel();
        log.order(Order::Flush(sender));
        self.engine.journal.nudge();
        PendingFlush { flushed: Some(done), cancelled: None }
    }

    /// Writes everything that was recorded and forces it to disk; whether that went well.
    pub fn flush_log(self, outside: &Outside) -> bool {
        self.begin_flush().wait(outside)
    }

    /// Checks, before the new configuration is published, that the file can be switched on: its threads run,
    /// its directory exists and takes a file with bytes in it. Only the directory remains.
    ///
    /// # Errors
    /// For the client, in Redis' words; the log has the operating system's refusal.
    pub fn prepare_log(self, outside: &Outside, settings: &Settings) -> Result<(), String> {
        let log = &self.persistence.log;
        if log.facts().phase != Phase::Off {
            return Ok(());
        }
        let refused = |what: &str, error: &std::io::Error| {
            tracing::warn!("{what}: {}", error_text(error));
            "Unable to turn on AOF. Check server logs.".to_owned()
        };
        writer::start(self)
            .and_then(|()| rewrite::ensure_thread(self))
            .map_err(|error| refused("Can't start the threads for the AOF", &error))?;
        let (disk, directory) = (self.persistence.disk.get(outside), settings.aof_directory());
        let name = settings.appenddirname.display();
        disk.create_directory(&directory)
            .map_err(|error| refused(&format!("Can't open or create append-only dir {name}"), &error))?;
        files::try_directory(disk, settings)
            .map_err(|error| refused(&format!("Can't write a file in the append-only dir {name}"), &error))
    }

    /// Brings the append-only file in line with the configuration after it was changed: begins or ends it.
    /// The gate is closed. If the file has ended, the flush of what was recorded for it.
    ///
    /// # Errors
    /// The disk's refusal, for the client; nothing has changed then.
    pub fn follow_appendonly(self, settings: &Settings) -> Result<Option<PendingFlush>, String> {
        let (log, journal) = (&self.persistence.log, &self.engine.journal);
        if self.persistence.is_loading() {
            // Looked at again once the data is there.
            return Ok(None);
        }
        let phase = log.facts().phase;
        match (settings.appendonly, phase) {
            (true, Phase::Off) => {
                writer::start(self).map_err(|error| error.to_string())?;
                lock(&log.facts).phase = Phase::Starting;
                if self.persistence.background.running().is_some() || log.is_rewriting() {
                    tracing::warn!(
                        "AOF was enabled but there is already another background operation. An AOF background was scheduled to start when possible."
                    );
                    log.schedule_rewrite();
                    return Ok(None);
                }
                rewrite::begin(self).map(|()| None)
            }
            (false, Phase::Starting | Phase::On) => Ok(self.end_log(phase)),
            (true, _) => {
                if journal.is_followed_by(Follower::File) {
                    follow_journal(journal, settings);
                    journal.nudge();
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Ends the append-only file, which is in this phase.
    fn end_log(self, phase: Phase) -> Option<PendingFlush> {
        let (log, journal) = (&self.persistence.log, &self.engine.journal);
        let cancelled = log.cancel_rewrite().then_some(log);
        if cancelled.is_some() {
            tracing::info!("Killing the running AOF rewrite, a thread rather than a child");
        }
        // Before the disk's progress is reported once more: waiting clients learn that there is no file now.
        lock(&log.facts).phase = Phase::Off;
        let flush = match phase {
            Phase::On => Some(PendingFlush { cancelled, ..self.begin_flush() }),
            _ => cancelled.map(|_| PendingFlush { flushed: None, cancelled }),
        };
        log.order(Order::Stop { from: journal.cut_file(), is_listed: phase == Phase::On });
        journal.follow(Follower::File, false);
        journal.hold_replies(false);
        lock(&log.facts).is_scheduled = false;
        log.lacks_base.store(false, Ordering::SeqCst);
        self.note_log_state(None);
        journal.nudge();
        self.host.disk_went_on();
        flush
    }

    /// Starts rewrites that are due: requested, or needed by the file's growth or the disk's failure. True if
    /// the file is not in the configured state: the caller has to close the gate and call
    /// [`Storage::follow_appendonly`].
    pub fn rewrite_by_rule(self) -> bool {
        let (log, settings, now_ms) = (&self.persistence.log, self.host.settings(), self.now_ms());
        let facts = log.facts();
        if self.persistence.is_loading() {
            return false;
        }
        if settings.appendonly != (facts.phase != Phase::Off) {
            return true;
        }
        if facts.phase == Phase::Off && !facts.is_scheduled
            || facts.rewrite.is_some()
            || self.persistence.background.running().is_some()
        {
            return false;
        }
        let grown = facts.phase == Phase::On && has_grown(log, &settings) && !is_held_back(&facts, now_ms);
        if grown {
            tracing::info!("Starting automatic rewriting of AOF");
        }
        let is_held_back = match log.lacks_base.load(Ordering::SeqCst) {
            true => (0..FIRST_BASE_RETRY_MS).contains(&(now_ms - facts.ended_ms)),
            false => is_held_back(&facts, now_ms),
        };
        let is_retry = facts.phase == Phase::Starting && !is_held_back;
        if (facts.is_scheduled && !is_held_back) || grown || is_retry {
            // It has logged what went wrong, and is tried again.
            let _ = rewrite::begin(self);
        }
        false
    }

    /// Forces everything recorded to disk before the end.
    ///
    /// # Errors
    /// The disk refuses; the log says why.
    pub fn finish_log(self, outside: &Outside) -> Result<(), SaveFailed> {
        match self.persistence.log.facts().phase {
            Phase::Off => Ok(()),
            _ if self.flush_log(outside) => Ok(()),
            _ => Err(SaveFailed),
        }
    }
}

/// Whether the files have grown by as much as the configuration wants rewritten.
fn has_grown(log: &AppendLog, settings: &Settings) -> bool {
    let (current, base) = (log.current_bytes.load(Ordering::Relaxed), log.base_bytes.load(Ordering::Relaxed));
    let percentage = u128::from(settings.auto_aof_rewrite_percentage);
    percentage > 0
        // A rewrite may have ended whose sizes are not known yet.
        && lock(&log.orders).is_empty()
        && current > settings.auto_aof_rewrite_min_size_bytes
        && u128::from(current.saturating_sub(base)) * 100 >= percentage * u128::from(base.max(1))
}

/// For how many minutes after this many failures no rewrite begins by itself: 1, 2, 4 and so on from the
/// third on.
fn held_back_minutes(failures: u64) -> i64 {
    /// Failures from which on it has to wait (Redis: `AOF_REWRITE_LIMITE_THRESHOLD`).
    const THRESHOLD: u64 = 3;
    /// Longest delay, in minutes (Redis: `AOF_REWRITE_LIMITE_MAX_MINUTES`).
    const MOST_MINUTES: i64 = 60;
    failures.checked_sub(THRESHOLD).map_or(0, |more| MOST_MINUTES.min(1 << more.min(6)))
}

/// Rewrites that keep failing are tried less and less often.
fn is_held_back(facts: &Facts, now_ms: i64) -> bool {
    let minutes = held_back_minutes(facts.failures);
    // Even the first that fails is not tried again in every round.
    let most_ms = if minutes > 0 { minutes * 60_000 } else { 1000 };
    // A clock that was set back must not put it off: while the disk is in doubt writes are refused.
    facts.failures > 0 && (0..most_ms).contains(&(now_ms - facts.ended_ms))
}

#[cfg(test)]
mod tests;
