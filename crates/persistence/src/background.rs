//! Saving in the background: a separate thread writes a snapshot to the RDB file while clients are served.
//!
//! Invariants: there is one such save at a time; a file never replaces that of a later cut; and a save that
//! was cancelled, and has not begun to give its file the name, does not touch the RDB file any more.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use martlet_base::disk::error_text;
use martlet_base::sync::{lock, wait_while};
use martlet_engine::{Keys, Outside};

use crate::Storage;
use crate::file::NewFile;
use crate::save::{Contents, Cut, Header, create, totals, write_cut};
use crate::settings::Settings;
use crate::temp_files::{self, Kind};

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
    /// The RDB file as these settings want it; and a receiver that gets it.
    File(Box<Settings>, Option<Box<dyn Receiver>>),
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
    /// The number of the cut whose file has the name. Locked while a file takes it: the disk works in that
    /// time, so only threads that may wait for that lock it. Before `running`.
    publishing: Mutex<u64>,
    /// Numbers of cuts that were given out.
    cuts: AtomicU64,
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

    /// Cancels the save under way, which ends soon; whether there was one. If its file is about to take the
    /// name, it may do so: that of any later cut replaces it.
    pub fn cancel(&self) -> bool {
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
        drop(wait_while(&self.ended, lock(&self.running), |running| running.is_some()));
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
            let outside = Outside::of_background_thread();
            jobs.iter().for_each(|job| run(storage, &outside, job));
        };
        std::thread::Builder::new().name("snapshot".into()).spawn(body)?;
        Ok(())
    }
}

impl Storage {
    /// Begins a save in the background with the keyspace's present content, unless one is under way, or a
    /// rewrite, which may have begun since the caller has looked: there is one snapshot at a time. `keys`
    /// hold all shards. False if nothing was begun. The thread that saves makes the file.
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
        match Header::of_file(self, settings, &totals) {
            Ok(header) => {
                let header = Header { is_for_replicas: receiver.is_some(), ..header };
                let cut = Cut::make(self, keys, header, totals, false);
                self.start(keys, cut, Output::File(Box::new(settings.clone()), receiver));
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
    pub fn remove_rdb_file(self, outside: &Outside, settings: &Settings, is_wanted: impl FnOnce() -> bool) {
        // While this is held no other file takes its name.
        let _publishing = lock(&self.persistence.background.publishing);
        if is_wanted() {
            let removed = self.persistence.disk.get(outside).remove(&settings.rdb_path());
            let refused = removed.err().filter(|error| error.kind() != io::ErrorKind::NotFound);
            refused
                .iter()
                .for_each(|error| tracing::warn!("Cannot remove the RDB file: {}", error_text(error)));
        }
    }

    /// Removes the files that this process is writing, which ends without finishing them: no other is begun
    /// before that.
    pub fn remove_own_files(self, outside: &Outside) {
        // To the end.
        std::mem::forget(temp_files::remove_own(
            &**self.persistence.disk.get(outside),
            &self.host.settings(),
        ));
    }

    /// Whether a snapshot is under way, or about to be.
    pub fn has_snapshot(self) -> bool {
        self.persistence.background.running().is_some() || self.persistence.log.is_rewriting()
    }

    /// The number of a cut that is made now.
    pub(crate) fn number_cut(self) -> u64 {
        self.persistence.background.cuts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// While this is held no other file takes the RDB file's name. The number of the cut whose file has it.
    pub(crate) fn lock_name(self, _: &Outside) -> MutexGuard<'static, u64> {
        lock(&self.persistence.background.publishing)
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
fn run(storage: Storage, outside: &Outside, job: Job) {
    let Job { running, output } = job;
    let begin = |receiver: &mut dyn Receiver| {
        if let Some(offset) = running.cut.offset(storage) {
            receiver.begin(offset, &running.cut.is_cancelled);
        }
    };
    match output {
        Output::File(settings, mut receiver) => {
            let file = create(storage, outside, &settings, Kind::BackgroundSave);
            // It hears nothing but the end of a save that cannot begin.
            if file.is_ok() {
                receiver.iter_mut().for_each(|receiver| begin(&mut **receiver));
            }
            save(storage, &running, file, receiver);
        }
        Output::Stream(mut receiver) => {
            begin(&mut *receiver);
            send(storage, "RDB", receiver, |out| {
                write_cut(storage, out, &running.cut).and_then(|mut out| out.flush())
            });
        }
        Output::Other(mut receiver, write) => {
            begin(&mut *receiver);
            send(storage, "SLOT MIGRATION", receiver, |out| write(storage, out, &running.cut));
        }
    }
    storage.persistence.background.ended.notify_all();
}

/// Writes it to the RDB file.
fn save(
    storage: Storage,
    running: &Running,
    file: Result<NewFile, String>,
    receiver: Option<Box<dyn Receiver>>,
) {
    let cut = &running.cut;
    let finished = match file {
        Ok(file) => write_cut(storage, file, cut).and_then(NewFile::sync),
        Err(message) => {
            give_up(storage, cut);
            Err(io::Error::other(message))
        }
    };
    let background = &storage.persistence.background;
    let mut newest = lock(&background.publishing);
    let published = finished.and_then(|new| match cut.is_wanted() && cut.number > *newest {
        true => {
            *newest = cut.number;
            new.publish()
        }
        false => Err(io::ErrorKind::Interrupted.into()),
    });
    let outcome = match &published {
        Ok(()) => Outcome::Saved,
        Err(error) if !cut.is_wanted() || error.kind() == io::ErrorKind::Interrupted => Outcome::Cancelled,
        Err(error) => {
            tracing::warn!("Write error saving DB on disk: {}", error_text(error));
            Outcome::Failed
        }
    };
    end(storage, outcome, cut.began_ms(), running.changes);
    receiver.into_iter().for_each(|receiver| receiver.end(published.as_ref().map(|&()| ()).map_err(copy_of)));
    *lock(&background.running) = None;
    drop(newest);
}

/// Ends the walk of a cut that nothing takes.
fn give_up(storage: Storage, cut: &Cut) {
    // It says that it was cancelled.
    let _ = write_cut(storage, io::sink(), &cut.unwanted());
}

/// The RDB file of an empty data set, before it is written.
pub struct EmptyFile {
    cut: Cut,
    changes: u64,
    settings: Settings,
}

impl EmptyFile {
    /// Of the data set, which is empty. All shards are locked.
    pub(crate) fn begin(storage: Storage, keys: &Keys, settings: &Settings) -> Option<EmptyFile> {
        let totals = totals(keys, settings.handlers.databases);
        match Header::of_file(storage, settings, &totals) {
            Ok(header) => Some(EmptyFile {
                cut: Cut::without_keys(storage, header, totals),
                changes: storage.changes(keys),
                settings: settings.clone(),
            }),
            Err(message) => {
                tracing::warn!("{message}");
                None
            }
        }
    }

    /// Writes it, unless a later file is there; the log has the disk's refusal.
    pub fn write(self, storage: Storage, outside: &Outside) {
        let EmptyFile { cut, changes, settings } = self;
        let mut newest = lock(&storage.persistence.background.publishing);
        if cut.number <= *newest {
            return;
        }
        *newest = cut.number;
        let written = create(storage, outside, &settings, Kind::Save).and_then(|file| {
            let written = write_cut(storage, file, &cut).and_then(NewFile::sync).and_then(NewFile::publish);
            written.map_err(|error| format!("Write error saving DB on disk: {}", error_text(&error)))
        });
        match written {
            Ok(()) => {
                tracing::info!("DB saved on disk");
                storage.persistence.saved(storage.now_ms(), changes);
                storage.note_disk_state();
            }
            Err(message) => tracing::warn!("{message}"),
        }
    }
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
            let source = Source::open(&keys.standstill(), &settings.rdb_path()).unwrap();
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
