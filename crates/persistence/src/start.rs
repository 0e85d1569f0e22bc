//! Loading when the server starts, while clients get LOADING.
//!
//! Invariant: no client is served before the data is there and later effects are recorded as the
//! configuration wants it.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use martlet_base::disk::error_text;
use martlet_base::random::Random;
use martlet_engine::{Keys, Outside, View};
use martlet_journal::aof::Manifest;
use martlet_values::Error;
use martlet_values::file::FileError;

use crate::aof::load::{self as log, LoadedLog};
use crate::aof::{Phase, files, start as open};
use crate::host::StreamPlace;
use crate::load::{LoadError, SLICE_RECORDS, Source, load_with_pool};
use crate::settings::Settings;
use crate::{Condition, Storage, delay, temp_files};

/// Bytes of the signature and the version that an RDB file begins with.
const HEADER_BYTES: u64 = 9;

/// Bytes of the files that will be loaded at the start; 0 without any.
pub fn size_at_start(settings: &Settings) -> u64 {
    let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |facts| facts.len());
    let log = if settings.appendonly {
        files::read_manifest(settings).unwrap_or_default()
    } else {
        Manifest::default()
    };
    let bytes: u64 = log.files().map(|file| size(files::path(settings, file))).sum();
    if bytes > 0 { bytes } else { size(settings.rdb_path()) }
}

/// Says that loading begins, so that commands are refused; to be called before the first client can connect.
pub fn announce(storage: Storage) {
    storage.begin_loading(false);
}

/// Loads the RDB file at the start, on a separate thread and the pool's, beside those that serve;
/// [`announce`] came before. A server that was stopped in that time has loaded a part, which it will not
/// serve.
///
/// # Errors
/// Why the server must not start, as a line for the log.
pub fn load_at_start(storage: Storage, settings: &Settings) -> Result<(), String> {
    let outside = Outside::of_background_thread();
    let mut keys = Keys::new(storage.engine, storage.loader(0), Random::from_entropy());
    keys.see(View { now_ms: storage.now_ms(), ..View::default() });
    if settings.appendonly && !load_log_at_start(storage, &outside, &mut keys, settings)? {
        return Ok(());
    }
    if settings.appendonly && storage.persistence.log.facts().phase == Phase::On {
        end_of_start(storage, &outside, settings, None);
        return Ok(());
    }
    let began_us = storage.now_us();
    let source = Source::configured(&outside, settings).map_err(LoadError::Open);
    let loaded = source.and_then(|source| {
        source.announce(&storage.persistence.load, keys.now_ms());
        Ok(load_with_pool(storage, settings, source, keys.now_ms())?)
    });
    let mut place = None;
    match loaded {
        Ok(loaded) => {
            storage.host.take_imports(&loaded.imports);
            storage.host.take_definitions(&loaded.definitions);
            place = loaded.place;
            let seconds = (storage.now_us() - began_us) as f64 / 1e6;
            tracing::info!("DB loaded from disk: {seconds:.3} seconds");
        }
        Err(error) if error.is_missing() => {}
        Err(LoadError::Damaged(FileError { error: Error::Interrupted, .. })) => return Ok(()),
        Err(LoadError::Open(error)) => {
            return Err(format!(
                "Fatal error: can't open the RDB file {} for reading: {}",
                settings.rdb_path().display(),
                error_text(&error)
            ));
        }
        Err(LoadError::Damaged(error)) => {
            tracing::warn!("The RDB file {} cannot be loaded: {error}", settings.rdb_path().display());
            if error.offset > HEADER_BYTES {
                // Monitors of Redis' logs look for this.
                tracing::warn!("Terminating server after rdb file reading failure.");
            }
            return Err("Fatal error loading the DB, check server logs. Exiting.".into());
        }
    }
    if settings.appendonly {
        open::open(storage, &outside, &mut keys, settings)?;
    }
    end_of_start(storage, &outside, settings, place);
    Ok(())
}

/// Lets clients in; the data is that at `place` of a stream, if it is of any.
fn end_of_start(storage: Storage, outside: &Outside, settings: &Settings, place: Option<StreamPlace>) {
    // Before anything can be saved: a file of this process' own id is not its own yet.
    temp_files::remove(&**storage.persistence.disk.get(outside), settings);
    // No client sees the end of loading without the effect of CONFIG SET in that time.
    let followed = storage.engine.gate.closed(|_| {
        place.into_iter().for_each(|place| storage.host.take_place(place));
        storage.persistence.load.is_on.store(false, Ordering::SeqCst);
        storage.host.note(Condition::Loading, false);
        storage.follow_appendonly(&storage.host.settings())
    });
    if let Err(why) = followed {
        tracing::warn!("{why}");
    }
}

/// Loads the append-only file, if there is one, and continues it; false if the server was stopped in that
/// time.
fn load_log_at_start(
    storage: Storage,
    outside: &Outside,
    keys: &mut Keys,
    settings: &Settings,
) -> Result<bool, String> {
    let (thread, gate) = (storage.loader(0), &storage.engine.gate);
    let began_us = storage.now_us();
    storage.persistence.load.began_ms.store(keys.now_ms(), Ordering::Relaxed);
    let mut alone = |keys: &mut Keys, work: &mut dyn FnMut(&mut Keys)| {
        gate.leave(thread);
        keys.alone(work);
        gate.enter(thread);
    };
    let mut pause = || {
        gate.leave(thread);
        let is_wanted = || !storage.host.is_stopping();
        delay(|| storage.host.settings().key_load_delay_us, SLICE_RECORDS as usize, is_wanted);
        gate.enter(thread);
        is_wanted()
    };
    let loaded = log::load(storage, outside, keys, settings, &mut alone, &mut pause);
    match loaded? {
        LoadedLog::Whole => {
            let seconds = (storage.now_us() - began_us) as f64 / 1e6;
            tracing::info!("DB loaded from append only file: {seconds:.3} seconds");
            open::open(storage, outside, keys, settings)?;
            Ok(true)
        }
        LoadedLog::Missing => Ok(true),
        LoadedLog::Interrupted => Ok(false),
    }
}
