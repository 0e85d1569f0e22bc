//! Saving in the background: a thread of its own writes a snapshot to the RDB file while clients are served.
//!
//! What always holds: there is one such save at a time, and once it was cancelled it does not touch the RDB
//! file any more.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};

use martlet_base::disk::error_text;
use martlet_engine::Keys;

use crate::file::NewFile;
use crate::save::{Cut, Header, create, totals, write_cut};
use crate::settings::Settings;
use crate::temp_files::Kind;
use crate::{Storage, lock};

/// A save under way.
#[derive(Clone, Debug)]
pub struct Running {
    /// Changes counted at the cut.
    changes: u64,
    /// Its way to the file.
    pub cut: Cut,
}

/// What the thread gets.
struct Job {
    running: Running,
    file: NewFile,
}

/// See the module's page.
#[derive(Default)]
pub struct Background {
    running: Mutex<Option<Running>>,
    /// Held while one takes the file's name: the disk works meanwhile, so nobody waits for this but who
    /// cancels. Before `running`.
    publishing: Mutex<()>,
    ended: Condvar,
    /// One is to begin when the rewrite of the append-only file has ended.
    is_scheduled: AtomicBool,
    jobs: Mutex<Option<Sender<Job>>>,
}

impl Background {
    /// The save under way, if there is one.
    pub fn running(&self) -> Option<Running> {
        lock(&self.running).clone()
    }

    /// Cancels the save under way, which ends soon; whether there was one.
    pub fn cancel(&self) -> bool {
        let _publishing = lock(&self.publishing);
        let running = lock(&self.running);
        running.iter().for_each(|running| running.cut.is_cancelled.store(true, Ordering::Relaxed));
        running.is_some()
    }

    /// Says whether one is to begin when the rewrite of the append-only file has ended; what was said before.
    pub fn schedule(&self, on: bool) -> bool {
        self.is_scheduled.swap(on, Ordering::Relaxed)
    }

    /// Waits until none is under way. The gate must be open: a save passes it.
    pub fn wait(&self) {
        let mut running = lock(&self.running);
        while running.is_some() {
            running = self.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system refuses it.
    pub(crate) fn start_thread(&self, storage: Storage) -> std::io::Result<()> {
        let (sender, jobs) = channel::<Job>();
        *lock(&self.jobs) = Some(sender);
        let body = move || {
            martlet_base::thread::use_batch_scheduling();
            storage.host.begin_thread();
            jobs.iter().for_each(|job| run(storage, job));
        };
        std::thread::Builder::new().name("snapshot".into()).spawn(body)?;
        Ok(())
    }
}

impl Storage {
    /// Begins a save in the background with what the keyspace holds now, unless one is under way, or a
    /// rewrite, which may have begun since whoever asks has looked: there is one snapshot at a time. `keys`
    /// hold all shards. False if nothing was begun; if the disk refuses already, that is noted as for a save
    /// that fails later.
    pub fn start_background_save(self, keys: &Keys, settings: &Settings) -> bool {
        let (storage, began_ms) = (self, self.now_ms());
        if storage.persistence.background.running().is_some() || storage.persistence.log.is_rewriting() {
            return false;
        }
        let totals = totals(keys, settings.handlers.databases);
        let changes = self.changes(keys);
        storage.persistence.background_began(began_ms);
        let begun = Header::of_file(settings, &totals)
            .and_then(|header| Ok((header, create(storage, settings, Kind::BackgroundSave)?)));
        let (header, file) = match begun {
            Ok(begun) => begun,
            Err(message) => {
                tracing::warn!("{message}");
                end(storage, Outcome::Failed, began_ms, changes);
                return true;
            }
        };
        let running = Running { changes, cut: Cut::make(storage, keys, header, totals, false) };
        let background = &storage.persistence.background;
        *lock(&background.running) = Some(running.clone());
        tracing::info!("Background saving started by pid {}", std::process::id());
        let job = Job { running, file };
        // The thread lives as long as the process.
        if let Some(jobs) = &*lock(&background.jobs) {
            let _ = jobs.send(job);
        }
        true
    }
}

enum Outcome {
    Saved,
    Cancelled,
    Failed,
}

/// Writes a snapshot, on the thread.
fn run(storage: Storage, job: Job) {
    let Job { running, file } = job;
    let finished = write_cut(storage, file, &running.cut).and_then(NewFile::sync);
    let is_wanted = || running.cut.is_wanted();
    let cancelled = || io::Error::from(io::ErrorKind::Interrupted);
    let background = &storage.persistence.background;
    // While this is held nobody can cancel.
    let publishing = lock(&background.publishing);
    let outcome = match finished.and_then(|new| if is_wanted() { new.publish() } else { Err(cancelled()) }) {
        Ok(()) => Outcome::Saved,
        Err(_) if !is_wanted() => Outcome::Cancelled,
        Err(error) => {
            tracing::warn!("Write error saving DB on disk: {}", error_text(&error));
            Outcome::Failed
        }
    };
    end(storage, outcome, running.cut.began_ms(), running.changes);
    *lock(&background.running) = None;
    drop(publishing);
    background.ended.notify_all();
}

/// Notes how a save ended that began then, with so many changes done.
fn end(storage: Storage, outcome: Outcome, began_ms: i64, changes: u64) {
    let now_ms = storage.now_ms();
    match outcome {
        Outcome::Saved => {
            tracing::info!("DB saved on disk");
            tracing::info!("Background saving terminated with success");
            storage.persistence.saved(now_ms, changes);
        }
        Outcome::Cancelled => tracing::warn!("Background saving cancelled"),
        Outcome::Failed => tracing::warn!("Background saving error"),
    }
    if !matches!(outcome, Outcome::Cancelled) {
        let seconds = (now_ms - began_ms) / 1000;
        storage.persistence.background_ended(matches!(outcome, Outcome::Saved), seconds);
    }
    storage.note_disk_state();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use martlet_base::disk::faults::{FaultyDisk, Operation};
    use martlet_keyspace::{ExpiryChange, Key};

    use super::*;
    use crate::load::{Source, load};
    use crate::testing::{self, keys, server};

    const KEYS: u64 = 5000;

    /// A rule and a client may ask at once: whoever comes second finds the first's save under way.
    #[test]
    fn saves_that_are_asked_for_at_once_are_one() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { rdb_key_save_delay_us: 100, ..testing::settings(directory.path()) };
        let disk = FaultyDisk::new(|_, _, _| None);
        let (storage, _) = server(settings.clone(), 1, Arc::new(disk.clone()));
        let background = &storage.persistence.background;
        background.start_thread(storage).unwrap();
        let mut writer = keys(storage);
        writer.alone(|keys| {
            for i in 0..KEYS {
                keys.set_str(&Key::new(&i.to_le_bytes()), b"x", ExpiryChange::Clear);
            }
        });
        assert!(writer.alone(|keys| storage.start_background_save(keys, &settings)));
        while background.running().is_some_and(|running| running.cut.written.load(Ordering::Relaxed) == 0) {
            std::thread::yield_now();
        }
        assert!(!writer.alone(|keys| storage.start_background_save(keys, &settings)));
        background.wait();
        let (reader, _) = server(settings.clone(), 1, Arc::new(disk));
        keys(reader).alone(|keys| {
            let source = Source::open(&settings.rdb_path()).unwrap();
            let loaded = load(reader, keys, &settings, source, false).unwrap();
            assert_eq!(loaded.keys, KEYS);
        });
        assert_eq!(storage.persistence.facts().saves, 1);
    }

    /// Threads that serve clients look at it all the time.
    #[test]
    fn who_looks_for_a_save_does_not_wait_for_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(|_, _, _| None);
        let settings = testing::settings(directory.path());
        let (storage, _) = server(settings.clone(), 1, Arc::new(disk.clone()));
        let background = &storage.persistence.background;
        background.start_thread(storage).unwrap();
        let has_looked: Arc<AtomicBool> = Arc::default();
        let looks = has_looked.clone();
        disk.plan(move |_, operation, _| {
            if matches!(operation, Operation::Rename | Operation::SyncDirectory) {
                assert!(background.running().is_some());
                looks.store(true, Ordering::SeqCst);
            }
            None
        });
        assert!(keys(storage).alone(|keys| storage.start_background_save(keys, &settings)));
        background.wait();
        assert!(has_looked.load(Ordering::SeqCst));
    }
}
