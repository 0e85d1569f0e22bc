//! Saving in the background: a separate thread writes a snapshot to the RDB file while clients are served.
//!
//! Invariant: there is one such save at a time, and once it was cancelled it does not touch the RDB file any
//! more.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use martlet_base::disk::error_text;
use martlet_base::sync::lock;
use martlet_engine::Keys;

use crate::Storage;
use crate::file::NewFile;
use crate::save::{Contents, Cut, Header, create, totals, write_cut};
use crate::settings::Settings;
use crate::temp_files::Kind;

/// A save under way.
#[derive(Clone, Debug)]
pub struct Running {
    /// Changes counted at the cut.
    changes: u64,
    /// Its way to the file.
    pub cut: Cut,
}

/// The receiver of a save's data set. Called by the thread that saves.
pub trait Receiver: Send {
    /// The data set is that of this replication offset. It ends soon once `is_cancelled` is set.
    fn begin(&mut self, offset: u64, is_cancelled: &Arc<AtomicBool>);

    /// Where it goes, if not to the RDB file.
    fn writer(&mut self) -> Box<dyn Write + Send>;

    /// It is whole and has gone there, or is the RDB file, which is still of that name; or why not.
    fn end(self: Box<Self>, result: io::Result<()>);
}

/// Writes a cut to where it goes, and ends its walk.
pub(crate) type WriteCut = Box<dyn FnOnce(Storage, Box<dyn Write + Send>, &Cut) -> io::Result<()> + Send>;

/// Where a save goes.
pub(crate) enum Output {
    /// The RDB file; and a receiver that gets it.
    File(NewFile, Option<Box<dyn Receiver>>),
    /// To a receiver.
    Stream(Box<dyn Receiver>),
    /// To a receiver, written in another way.
    Other(Box<dyn Receiver>, WriteCut),
}

/// The thread's job.
struct Job {
    running: Running,
    output: Output,
}

/// See the module's page.
#[derive(Default)]
pub struct Background {
    running: Mutex<Option<Running>>,
    /// Held while a save takes the file's name: the disk works in that time, so only a thread that cancels
    /// waits for this. Before `running`.
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

    /// Sets whether a save is to begin when the rewrite of the append-only file has ended; returns the
    /// earlier value.
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
    /// Begins a save in the background with the keyspace's present content, unless one is under way, or a
    /// rewrite, which may have begun since the caller has looked: there is one snapshot at a time. `keys`
    /// hold all shards. False if nothing was begun; if the disk refuses already, that is recorded as for a
    /// save that fails later.
    pub fn start_background_save(self, keys: &Keys, settings: &Settings) -> bool {
        self.start_save_for(keys, settings, None).is_ok()
    }

    /// As [`Storage::start_background_save`]; `receiver` gets the file, or the reason of a failure.
    ///
    /// # Errors
    /// Nothing was begun; the receiver.
    pub fn start_save_for(
        self,
        keys: &Keys,
        settings: &Settings,
        receiver: Option<Box<dyn Receiver>>,
    ) -> Result<(), Option<Box<dyn Receiver>>> {
        if self.has_snapshot() {
            return Err(receiver);
        }
        let began_ms = self.now_ms();
        let totals = totals(keys, settings.handlers.databases);
        self.persistence.background_began(began_ms);
        let begun = Header::of_file(self, settings, &totals)
            .and_then(|header| Ok((header, create(self, settings, Kind::BackgroundSave)?)));
        match begun {
            Ok((header, file)) => {
                let header = Header { is_for_replicas: receiver.is_some(), ..header };
                let cut = Cut::make(self, keys, header, totals, false);
                self.start(keys, cut, Output::File(file, receiver));
                tracing::info!("Background saving started by pid {}", std::process::id());
            }
            Err(message) => {
                tracing::warn!("{message}");
                end(self, Outcome::Failed, began_ms, self.changes(keys));
                receiver
                    .into_iter()
                    .for_each(|receiver| receiver.end(Err(io::Error::other(message.clone()))));
            }
        }
        Ok(())
    }

    /// As [`Storage::start_save_for`], but nothing comes to the disk: the receiver's writer gets it, with
    /// these contents only.
    ///
    /// # Errors
    /// Nothing was begun; the receiver.
    pub fn start_stream_for(
        self,
        keys: &Keys,
        settings: &Settings,
        contents: Contents,
        receiver: Box<dyn Receiver>,
    ) -> Result<(), Box<dyn Receiver>> {
        if self.has_snapshot() {
            return Err(receiver);
        }
        let totals = if contents.keys { totals(keys, settings.handlers.databases) } else { Vec::new() };
        let header = Header::of_stream(self, settings, &totals);
        let cut = Cut::make_of(self, keys, header, totals, contents);
        self.start(keys, cut, Output::Stream(receiver));
        Ok(())
    }

    /// Removes the RDB file, unless a save is about to replace it or `is_wanted` has become false. It waits
    /// for the disk.
    pub fn remove_rdb_file(self, settings: &Settings, is_wanted: impl FnOnce() -> bool) {
        // While this is held no other file takes its name.
        let _publishing = lock(&self.persistence.background.publishing);
        if is_wanted() {
            let removed = self.persistence.disk.remove(&settings.rdb_path());
            let refused = removed.err().filter(|error| error.kind() != io::ErrorKind::NotFound);
            refused
                .iter()
                .for_each(|error| tracing::warn!("Cannot remove the RDB file: {}", error_text(error)));
        }
    }

    /// Whether a snapshot is under way, or about to be.
    pub fn has_snapshot(self) -> bool {
        self.persistence.background.running().is_some() || self.persistence.log.is_rewriting()
    }

    pub(crate) fn start(self, keys: &Keys, cut: Cut, output: Output) {
        let background = &self.persistence.background;
        let running = Running { changes: self.changes(keys), cut };
        *lock(&background.running) = Some(running.clone());
        // The thread lives as long as the process.
        if let Some(jobs) = &*lock(&background.jobs) {
            let _ = jobs.send(Job { running, output });
        }
    }
}

enum Outcome {
    Saved,
    Cancelled,
    Failed,
}

/// Writes a snapshot, on the thread.
fn run(storage: Storage, job: Job) {
    let Job { running, mut output } = job;
    if let Output::File(_, Some(receiver)) | Output::Stream(receiver) | Output::Other(receiver, _) =
        &mut output
        && let Some(offset) = running.cut.offset(storage)
    {
        receiver.begin(offset, &running.cut.is_cancelled);
    }
    match output {
        Output::File(file, receiver) => save(storage, &running, file, receiver),
        Output::Stream(receiver) => send(storage, "RDB", receiver, |out| {
            write_cut(storage, out, &running.cut).and_then(|mut out| out.flush())
        }),
        Output::Other(receiver, write) => {
            send(storage, "SLOT MIGRATION", receiver, |out| write(storage, out, &running.cut))
        }
    }
    storage.persistence.background.ended.notify_all();
}

/// Writes it to the RDB file.
fn save(storage: Storage, running: &Running, file: NewFile, receiver: Option<Box<dyn Receiver>>) {
    let finished = write_cut(storage, file, &running.cut).and_then(NewFile::sync);
    let is_wanted = || running.cut.is_wanted();
    let cancelled = || io::Error::from(io::ErrorKind::Interrupted);
    let background = &storage.persistence.background;
    // While this is held no other thread can cancel.
    let publishing = lock(&background.publishing);
    let published = finished.and_then(|new| if is_wanted() { new.publish() } else { Err(cancelled()) });
    let outcome = match &published {
        Ok(()) => Outcome::Saved,
        Err(_) if !is_wanted() => Outcome::Cancelled,
        Err(error) => {
            tracing::warn!("Write error saving DB on disk: {}", error_text(error));
            Outcome::Failed
        }
    };
    end(storage, outcome, running.cut.began_ms(), running.changes);
    receiver.into_iter().for_each(|receiver| receiver.end(published.as_ref().map(|&()| ()).map_err(copy_of)));
    *lock(&background.running) = None;
    drop(publishing);
}

fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// Writes it to its receiver.
fn send(
    storage: Storage,
    what: &str,
    mut receiver: Box<dyn Receiver>,
    write: impl FnOnce(Box<dyn Write + Send>) -> io::Result<()>,
) {
    let result = write(receiver.writer());
    match &result {
        Ok(()) => tracing::info!("Background {what} transfer terminated with success"),
        Err(error) => tracing::warn!("Background transfer error: {}", error_text(error)),
    }
    // A thread that hears of the end may ask for the next one.
    *lock(&storage.persistence.background.running) = None;
    receiver.end(result);
}

/// Records the end of a save that began then, after this many changes.
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

    /// A rule and a client may ask at once: the second finds the first's save under way.
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
