//! Taking over the data set that another server sends: what is here goes, what comes is loaded, and nobody
//! sees anything in between.
//!
//! Invariant: from the moment at which the old data goes until all of the new is there, clients are told that
//! data is being loaded.

use std::io;
use std::sync::atomic::Ordering;

use martlet_engine::Keys;
use martlet_rdb::file::FileError;

pub use crate::file::NewFile;
use crate::load::{Loaded, Source, load, load_with_pool};
use crate::settings::Settings;
use crate::temp_files::{self, Kind};
use crate::{Condition, Storage};

impl Storage {
    /// Begins a file for a snapshot that is received; it becomes the RDB file when it is published.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new_received_file(self, settings: &Settings) -> io::Result<NewFile> {
        let temporary = temp_files::name(Kind::Received, std::process::id());
        let disk = self.persistence.disk.clone();
        NewFile::create(disk, &settings.dir, &settings.dbfilename, &temporary, true)
    }

    /// Empties the keyspace for what is about to be received, and says that it is being loaded. The
    /// append-only file ends: it begins anew with what is received. All shards are held.
    pub fn begin_replacing(self, keys: &mut Keys, settings: &Settings) {
        if self.persistence.background.cancel() {
            tracing::info!(
                "Replica is about to load the RDB file received from the master, but there is a save in the background. It is ended."
            );
        }
        let without_log = Settings { appendonly: false, ..settings.clone() };
        if let Err(why) = self.follow_appendonly(&without_log) {
            tracing::warn!("{why}");
        }
        keys.flush(None, false);
        self.host.libraries().clear();
        self.persistence.load.is_on.store(true, Ordering::SeqCst);
        self.host.note(Condition::Loading, true);
    }

    /// Loads what is received, with all threads that load. What has expired is loaded, too: whoever sent it
    /// says when it is to be deleted.
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
        // Whoever sent it says when something expires.
        let now_ms = keys.now_ms;
        keys.set_time(0);
        let loaded = load(self, keys, settings, source, false);
        keys.set_time(now_ms);
        self.end_replacing(keys, loaded.is_ok());
        loaded
    }

    /// Lets clients in again, or empties the keyspace if what was received is not whole. All shards are held.
    pub fn end_replacing(self, keys: &mut Keys, is_whole: bool) {
        if !is_whole {
            keys.flush(None, false);
        }
        self.persistence.load.is_on.store(false, Ordering::SeqCst);
        self.host.note(Condition::Loading, false);
        if let Err(why) = self.follow_appendonly(&self.host.settings()) {
            tracing::warn!("{why}");
        }
    }
}
