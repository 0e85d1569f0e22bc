//! Saving in the background: a thread of its own writes a snapshot to the RDB file while clients are served.
//!
//! What always holds: there is one such save at a time, and once it was cancelled it does not touch the RDB
//! file any more.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};

use super::file::NewFile;
use super::leftovers::Kind;
use super::save::{Cut, Header, create, totals, write_cut};
use crate::config::error_text;
use crate::shared::{Shared, lock};
use crate::worker::Worker;

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
    pub fn start_thread(&self, shared: &'static Shared) -> std::io::Result<()> {
        let (sender, jobs) = channel::<Job>();
        *lock(&self.jobs) = Some(sender);
        let body = move || {
            martlet_base::thread::use_batch_scheduling();
            crate::process::guard_thread();
            jobs.iter().for_each(|job| run(shared, job));
        };
        std::thread::Builder::new().name("snapshot".into()).spawn(body)?;
        Ok(())
    }
}

impl Worker {
    /// Begins a save in the background with what the keyspace holds now, unless one is under way, or a
    /// rewrite, which may have begun since whoever asks has looked: there is one snapshot at a time. All
    /// shards are held. False if nothing was begun; if the disk refuses already, that is noted as for a save
    /// that fails later.
    pub fn start_background_save(&mut self) -> bool {
        let (shared, config) = (self.shared, self.config().clone());
        if shared.persistence.background.running().is_some() || shared.persistence.log.is_rewriting() {
            return false;
        }
        let totals = totals(&self.keys, config.databases as usize);
        let changes = self.changes();
        shared.persistence.background_began(self.now_ms);
        let begun = Header::of_file(&config, &totals)
            .and_then(|header| Ok((header, create(shared, &config, Kind::BackgroundSave)?)));
        let (header, file) = match begun {
            Ok(begun) => begun,
            Err(message) => {
                tracing::warn!("{message}");
                end(shared, Outcome::Failed, self.now_ms, changes);
                return true;
            }
        };
        let running = Running { changes, cut: Cut::make(shared, &self.keys, header, totals, false) };
        let background = &shared.persistence.background;
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
fn run(shared: &'static Shared, job: Job) {
    let Job { running, file } = job;
    let finished = write_cut(shared, file, &running.cut).and_then(NewFile::sync);
    let is_wanted = || running.cut.is_wanted();
    let cancelled = || io::Error::from(io::ErrorKind::Interrupted);
    let background = &shared.persistence.background;
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
    end(shared, outcome, running.cut.began_ms(), running.changes);
    *lock(&background.running) = None;
    drop(publishing);
    background.ended.notify_all();
}

/// Notes how a save ended that began then, with so many changes done.
fn end(shared: &Shared, outcome: Outcome, began_ms: i64, changes: u64) {
    let now_ms = shared.clock.unix_ms();
    match outcome {
        Outcome::Saved => {
            tracing::info!("DB saved on disk");
            tracing::info!("Background saving terminated with success");
            shared.persistence.saved(now_ms, changes);
        }
        Outcome::Cancelled => tracing::warn!("Background saving cancelled"),
        Outcome::Failed => tracing::warn!("Background saving error"),
    }
    if !matches!(outcome, Outcome::Cancelled) {
        let seconds = (now_ms - began_ms) / 1000;
        shared.persistence.background_ended(matches!(outcome, Outcome::Saved), seconds);
    }
    shared.note_disk_state();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use martlet_base::disk::faults::{FaultyDisk, Operation};
    use martlet_keyspace::{ExpiryChange, Key};

    use crate::config::{Config, ConfigStore};
    use crate::persistence::load::{Source, load, path};
    use crate::registry::Registry;
    use crate::shared::Shared;
    use crate::worker::Worker;

    const KEYS: u64 = 5000;

    fn server(config: Config, disk: &FaultyDisk) -> (&'static Shared, Worker) {
        let registry = Box::leak(Box::new(Registry::new(&[]).unwrap()));
        let mut shared = Shared::new(ConfigStore::new(config), registry, 1, None).unwrap();
        shared.persistence.disk = Arc::new(disk.clone());
        let shared: &'static Shared = Box::leak(Box::new(shared));
        (shared, Worker::new(shared, 0))
    }

    /// A rule and a client may ask at once: whoever comes second finds the first's save under way.
    #[test]
    fn saves_that_are_asked_for_at_once_are_one() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { dir: directory.path().into(), rdb_key_save_delay_us: 100, ..Config::default() };
        let disk = FaultyDisk::new(|_, _, _| None);
        let (shared, mut worker) = server(config.clone(), &disk);
        let background = &shared.persistence.background;
        background.start_thread(shared).unwrap();
        worker.alone(|worker| {
            for i in 0..KEYS {
                worker.keys.set_str(&Key::new(&i.to_le_bytes()), b"x", ExpiryChange::Clear);
            }
        });
        assert!(worker.alone(Worker::start_background_save));
        while background.running().is_some_and(|running| running.cut.written.load(Ordering::Relaxed) == 0) {
            std::thread::yield_now();
        }
        assert!(!worker.alone(Worker::start_background_save));
        worker.leave();
        background.wait();
        let (reader, mut reads) = server(config.clone(), &disk);
        reads.alone(|reads| {
            let source = Source::open(&path(&config)).unwrap();
            let loaded = load(reader, &mut reads.keys, &config, source, false).unwrap();
            assert_eq!(loaded.keys, KEYS);
        });
        assert_eq!(shared.persistence.facts().saves, 1);
    }

    /// Threads that serve clients look at it all the time.
    #[test]
    fn who_looks_for_a_save_does_not_wait_for_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(|_, _, _| None);
        let config = Config { dir: directory.path().into(), ..Config::default() };
        let (shared, mut worker) = server(config, &disk);
        let background = &shared.persistence.background;
        background.start_thread(shared).unwrap();
        let has_looked: Arc<AtomicBool> = Arc::default();
        let looks = has_looked.clone();
        disk.plan(move |_, operation, _| {
            if matches!(operation, Operation::Rename | Operation::SyncDirectory) {
                assert!(background.running().is_some());
                looks.store(true, Ordering::SeqCst);
            }
            None
        });
        assert!(worker.alone(Worker::start_background_save));
        worker.leave();
        background.wait();
        assert!(has_looked.load(Ordering::SeqCst));
    }
}
