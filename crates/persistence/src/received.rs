//! Taking over the data set that another server sends: the old one is removed, the new one is loaded, and no
//! client sees anything in between.
//!
//! Data from the network is loaded into a separate engine without other users: a thread that waits for the
//! next bytes has no shard that clients need and is inside no gate that another thread closes. It takes the
//! keyspace's place as a whole.
//!
//! Invariant: from the moment at which the old data is removed until all of the new is there, clients get
//! LOADING. Data that is loaded beside the old and is not whole changes nothing.

use std::io;
use std::sync::atomic::Ordering;

use martlet_base::random::Random;
use martlet_engine::{Engine, Keys, Outside, View, in_view};
use martlet_values::file::FileError;

pub use crate::file::NewFile;
use crate::load::{Loaded, Source, load, load_beside, load_with_pool};
use crate::settings::Settings;
use crate::temp_files::{self, Kind};
use crate::{Condition, NUMBERS_PER_THREAD, Publish, Storage};

/// A data set that is whole, beside the one that clients see. It goes when it is dropped.
pub struct Beside {
    /// The loaded data.
    pub loaded: Loaded,
    engine: &'static Engine,
    libraries: Option<Publish>,
}

impl Drop for Beside {
    fn drop(&mut self) {
        discard(self.engine);
    }
}

/// Removes the content of an engine without users.
fn discard(engine: &'static Engine) {
    Keys::new(engine, 0, Random::from_entropy()).alone(|keys| keys.flush(None, false));
}

impl Storage {
    /// Begins a file for a snapshot that is received; it becomes the RDB file when it is published.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new_received_file(self, outside: &Outside, settings: &Settings) -> io::Result<NewFile> {
        let temporary = temp_files::name(Kind::Received, std::process::id());
        let disk = self.persistence.disk.get(outside).clone();
        NewFile::create(disk, &settings.dir, &settings.dbfilename, &temporary, true)
    }

    /// Empties the keyspace for the data set to come, and marks it as loading. The append-only file ends: it
    /// restarts with the received data. All shards are locked.
    pub fn begin_replacing(self, keys: &mut Keys, settings: &Settings) {
        self.end_files(settings);
        keys.flush(None, settings.replica_lazy_flush);
        self.host.libraries().clear();
        self.begin_loading(false);
    }

    /// Marks the data as loading, and that an older state of it is served in that time if `is_async`.
    pub fn begin_loading(self, is_async: bool) {
        self.persistence.load.is_async.store(is_async, Ordering::SeqCst);
        self.persistence.load.is_on.store(true, Ordering::SeqCst);
        self.host.note(Condition::Loading, true);
    }

    /// Ends the files of a data set that is removed.
    fn end_files(self, settings: &Settings) {
        if self.persistence.background.cancel() {
            tracing::info!(
                "Replica is about to load the RDB file received from the master, but there is a save in the background. It is ended."
            );
        }
        let without_log = Settings { appendonly: false, ..settings.clone() };
        if let Err(why) = self.follow_appendonly(&without_log) {
            tracing::warn!("{why}");
        }
    }

    /// Loads the received data beside the data set. The calling thread and others wait for the source.
    ///
    /// # Errors
    /// Why it cannot be loaded, as a line for the log; there is nothing beside the data set then.
    pub fn load_beside(self, settings: &Settings, source: Source) -> Result<Beside, String> {
        let engine =
            self.engine_beside().map_err(|error| format!("No room to load beside the data: {error}"))?;
        source.announce(&self.persistence.load, self.now_ms());
        let loaded = load_beside(Storage { engine, ..self }, settings, source);
        let (loaded, codes) = loaded.map_err(|error| {
            discard(engine);
            error.to_string()
        })?;
        let mut beside = Beside { loaded, engine, libraries: None };
        let prepared = self.host.libraries().prepare(&codes);
        beside.libraries = Some(prepared.map_err(|why| format!("Failed creating the library: {why}"))?);
        Ok(beside)
    }

    /// The engine that data is loaded into beside the data set; there is one once it was needed.
    fn engine_beside(self) -> io::Result<&'static Engine> {
        if let Some(engine) = self.persistence.beside.get() {
            return Ok(engine);
        }
        let engine = Box::new(Engine::new(self.persistence.threads * NUMBERS_PER_THREAD)?);
        Ok(self.persistence.beside.get_or_init(|| Box::leak(engine)))
    }

    /// Lets clients see the data that was loaded beside the old set, which is freed in the background; or
    /// continues with the old set, if nothing was. All shards are locked.
    pub fn end_beside(self, keys: &mut Keys, settings: &Settings, beside: Option<Beside>) {
        self.persistence.load.is_on.store(false, Ordering::SeqCst);
        if let Some(mut beside) = beside {
            self.end_files(settings);
            let mut theirs = Keys::new(beside.engine, 0, Random::from_entropy());
            theirs.alone(|theirs| keys.replace_all(theirs, settings.replica_lazy_flush));
            beside.libraries.take().into_iter().for_each(|publish| publish());
        }
        self.end_loading();
    }

    fn end_loading(self) {
        self.persistence.load.is_on.store(false, Ordering::SeqCst);
        self.host.note(Condition::Loading, false);
        if let Err(why) = self.follow_appendonly(&self.host.settings()) {
            tracing::warn!("{why}");
        }
    }

    /// Loads the received data, with all threads that load. Expired keys are loaded, too: the sender deletes
    /// them.
    ///
    /// # Errors
    /// [`FileError`]; a part may have been loaded.
    pub fn load_received(self, settings: &Settings, source: Source) -> Result<Loaded, FileError> {
        source.announce(&self.persistence.load, self.now_ms());
        load_with_pool(self, settings, source, 0)
    }

    /// Replaces the data set at once by a small one that has been received. All shards are held.
    ///
    /// # Errors
    /// [`FileError`]; the keyspace is empty then.
    pub fn replace(self, keys: &mut Keys, settings: &Settings, source: Source) -> Result<Loaded, FileError> {
        self.begin_replacing(keys, settings);
        source.announce(&self.persistence.load, self.now_ms());
        // The sender decides when a key expires.
        let view = View { now_ms: 0, ..keys.view() };
        let loaded = in_view(keys, view, |keys| load(self, keys, settings, source, false));
        self.end_replacing(keys, settings, loaded.is_ok());
        loaded
    }

    /// Serves clients again, or empties the keyspace if the received data is not whole. All shards are
    /// locked.
    pub fn end_replacing(self, keys: &mut Keys, settings: &Settings, is_whole: bool) {
        if !is_whole {
            keys.flush(None, settings.replica_lazy_flush);
        }
        self.end_loading();
    }
}
