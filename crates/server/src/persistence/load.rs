//! Reading the RDB file into the keyspace: at the start, while clients are told to wait, and for DEBUG RELOAD.
//!
//! What always holds: a file that cannot be read to its end is refused, naming the offset and what is wrong there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use martlet_base::random::Random;
use martlet_command::Settings;
use martlet_command::generic::{decoding_limits, into_value};
use martlet_engine::{Keys, Touch};
use martlet_journal::aof::Manifest;
use martlet_keyspace::{ExpiryChange, Key};
use martlet_snapshot::file::{Access, FileError, Item, ReadOptions, Record, read_file};
use martlet_snapshot::{Error, Value};

use super::LoadProgress;
use super::aof::Phase;
use super::aof::load::LoadedLog;
use crate::config::{Config, RdbVersionCheck, error_text};
use crate::shared::Shared;

/// Records after which a thread that loads lets others close the gate.
const SLICE_RECORDS: u64 = 256;

/// Why nothing, or not all, was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened.
    #[error("{}", error_text(.0))]
    Open(#[from] io::Error),
    /// It cannot be read to its end.
    #[error("{0}")]
    Damaged(#[from] FileError),
}

impl LoadError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, LoadError::Open(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Keys.
    pub keys: u64,
    /// Keys left out, since their time had come.
    pub expired: u64,
}

/// Where records go.
struct Loader<'a> {
    keys: &'a mut Keys,
    settings: &'a Settings,
    progress: &'a LoadProgress,
    /// A key that is there already is replaced; else the file is refused.
    replaces: bool,
    loaded: Loaded,
}

impl Loader<'_> {
    fn item(&mut self, item: Item, offset: u64) -> Result<(), Error> {
        match item {
            Item::Aux { name, text } => {
                self.note(&name, &text);
                Ok(())
            }
            Item::Record(record) => {
                self.progress.read_bytes.store(offset, Ordering::Relaxed);
                self.record(record)
            }
        }
    }

    /// Logs what the file says of itself.
    fn note(&self, name: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let number = || text.parse::<i64>().unwrap_or(0);
        match name {
            b"redis-ver" | b"valkey-ver" => tracing::info!("Loading RDB produced by version {text}"),
            b"ctime" => tracing::info!("RDB age {} seconds", (self.keys.now_ms / 1000 - number()).max(0)),
            b"used-mem" => {
                tracing::info!("RDB memory usage when created {:.2} Mb", number() as f64 / (1 << 20) as f64);
                self.progress.memory_bytes.store(number().max(0) as u64, Ordering::Relaxed);
            }
            b"aof-preamble" if number() != 0 => tracing::info!("RDB has an AOF tail"),
            _ => {}
        }
    }

    fn record(&mut self, record: Record<Value>) -> Result<(), Error> {
        if record.expiry_ms.is_some_and(|at_ms| at_ms <= self.keys.now_ms) {
            self.loaded.expired += 1;
            return Ok(());
        }
        let db = usize::try_from(record.db).ok().filter(|&db| db < self.settings.databases);
        let db = db.ok_or(Error::Corrupt("a database beyond what the directive databases allows"))?;
        self.loaded.keys += 1;
        let key = Key::new(&record.key);
        let shard = key.shard();
        self.keys.db = db;
        let replaces = self.replaces;
        let is_alone = self.keys.with_shard(shard, |keys| {
            let before = keys.shard(shard).keys.db(db).len();
            store(keys, &key, record.value, record.expiry_ms);
            if let Some(lru) = access_bits(keys, record.access) {
                keys.set_lru(&key, lru);
            }
            replaces || keys.shard(shard).keys.db(db).len() > before
        });
        if is_alone { Ok(()) } else { Err(Error::Corrupt("a key that is there already")) }
    }
}

fn store(keys: &mut Keys, key: &Key<'_>, value: Value, expiry_ms: Option<i64>) {
    match value {
        Value::String(bytes) => {
            keys.set_str(key, &bytes, expiry_ms.map_or(ExpiryChange::Clear, ExpiryChange::At));
        }
        value => keys.set_value(key, into_value(value), expiry_ms),
    }
}

/// What the file tells of a key's use, as far as the policy goes by it.
fn access_bits(keys: &Keys, access: Option<Access>) -> Option<u32> {
    match (access?, keys.touch) {
        (Access::Frequency(count), Touch::Lfu { minutes, .. }) => {
            Some(u32::from(minutes) << 8 | u32::from(count))
        }
        (Access::IdleSeconds(idle_s), Touch::Lru(clock)) => {
            Some(u64::from(clock).wrapping_sub(idle_s) as u32 & 0xff_ffff)
        }
        _ => None,
    }
}

/// The RDB file's path under this configuration.
pub fn path(config: &Config) -> PathBuf {
    config.dir.join(&config.dbfilename)
}

/// Loads the file at `path`. `keys` holds all shards, or none; `pause` is called after each [`SLICE_RECORDS`] records, and may end it.
///
/// # Errors
/// [`LoadError`]; what came before the damage has been loaded.
pub fn load(
    shared: &Shared,
    keys: &mut Keys,
    config: &Config,
    path: &Path,
    replaces: bool,
    mut pause: impl FnMut() -> bool,
) -> Result<Loaded, LoadError> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let settings = crate::settings::from_config(config);
    let progress = &shared.persistence.load;
    progress.began_ms.store(keys.now_ms, Ordering::Relaxed);
    progress.total_bytes.store(len, Ordering::Relaxed);
    progress.read_bytes.store(0, Ordering::Relaxed);
    let (db, touched) =
        (keys.db, std::mem::replace(&mut keys.touch, crate::settings::touch(config, keys.now_ms)));
    let events = std::mem::take(&mut keys.effects.wanted_events);
    let options = ReadOptions {
        verify: config.rdbchecksum,
        any_version: config.rdb_version_check == RdbVersionCheck::Relaxed,
        limits: decoding_limits(&settings),
    };
    let mut loader = Loader { keys, settings: &settings, progress, replaces, loaded: Loaded::default() };
    let mut records = 0;
    let result = read_file(file, len, &options, |item, offset| {
        records += 1;
        if records % SLICE_RECORDS == 0 && !pause() {
            return Err(Error::Interrupted);
        }
        loader.item(item, offset)
    });
    let loaded = loader.loaded;
    (keys.db, keys.touch, keys.effects.wanted_events) = (db, touched, events);
    progress.keys.store(loaded.keys, Ordering::Relaxed);
    progress.expired.store(loaded.expired, Ordering::Relaxed);
    result?;
    tracing::info!("Done loading RDB, keys loaded: {}, keys expired: {}.", loaded.keys, loaded.expired);
    Ok(loaded)
}

/// Loads the base of the append-only file at `path`, as [`load`]; where it ends, or `None` when `pause` has ended it. What has expired is loaded:
/// it is deleted when the commands that follow say so.
///
/// # Errors
/// [`LoadError`].
pub fn load_base(
    shared: &Shared,
    keys: &mut Keys,
    config: &Config,
    path: &Path,
    pause: &mut dyn FnMut() -> bool,
) -> Result<Option<u64>, LoadError> {
    let now_ms = std::mem::replace(&mut keys.now_ms, 0);
    let loaded = load(shared, keys, config, path, false, pause);
    keys.now_ms = now_ms;
    match loaded {
        Ok(_) => Ok(Some(std::fs::metadata(path)?.len())),
        Err(LoadError::Damaged(FileError { error: Error::Interrupted, .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes of the files that will be loaded at the start; 0 if there are none.
pub fn size_at_start(config: &Config) -> u64 {
    let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |facts| facts.len());
    let log = if config.appendonly {
        super::aof::files::read_manifest(config).unwrap_or_default()
    } else {
        Manifest::default()
    };
    let bytes: u64 = log.files().map(|file| size(super::aof::files::path(config, file))).sum();
    if bytes > 0 { bytes } else { size(path(config)) }
}

/// Says that loading begins, so that commands are refused; to be called before the first client can connect.
pub fn announce(shared: &Shared) {
    shared.persistence.load.is_on.store(true, Ordering::SeqCst);
    shared.detour.fetch_add(1, Ordering::SeqCst);
}

/// Loads the RDB file at the start, on a thread of its own beside those that serve; [`announce`] came before. A server that was told to
/// stop meanwhile has loaded a part, which it will not serve.
///
/// # Errors
/// Why the server must not start, as a line for the log.
pub fn load_at_start(shared: &'static Shared, config: &Config) -> Result<(), String> {
    let thread = shared.helper();
    let gate = &shared.engine.gate;
    let mut keys = Keys::new(shared.engine, thread, Random::from_entropy());
    keys.now_ms = shared.clock.unix_ms();
    if config.appendonly && !load_log_at_start(shared, &mut keys, config)? {
        return Ok(());
    }
    if config.appendonly && shared.persistence.log.facts().phase == Phase::On {
        return end_of_start(shared);
    }
    let began_us = shared.clock.unix_us();
    gate.enter(thread);
    let loaded = load(shared, &mut keys, config, &path(config), false, || {
        gate.leave(thread);
        let is_wanted = || !shared.stopping.load(Ordering::Relaxed);
        super::delay(shared.config.snapshot().key_load_delay_us, SLICE_RECORDS as usize, is_wanted);
        gate.enter(thread);
        !shared.stopping.load(Ordering::Relaxed)
    });
    gate.leave(thread);
    match loaded {
        Ok(_) => {
            let seconds = (shared.clock.unix_us() - began_us) as f64 / 1e6;
            tracing::info!("DB loaded from disk: {seconds:.3} seconds");
        }
        Err(error) if error.is_missing() => {}
        Err(LoadError::Damaged(FileError { error: Error::Interrupted, .. })) => return Ok(()),
        Err(LoadError::Open(error)) => {
            return Err(format!(
                "Fatal error: can't open the RDB file {} for reading: {}",
                path(config).display(),
                error_text(&error)
            ));
        }
        Err(LoadError::Damaged(error)) => {
            tracing::warn!("The RDB file {} cannot be loaded: {error}", path(config).display());
            return Err("Fatal error loading the DB, check server logs. Exiting.".into());
        }
    }
    if config.appendonly {
        super::aof::start::open(shared, &mut keys, config)?;
    }
    end_of_start(shared)
}

/// Lets clients in.
fn end_of_start(shared: &Shared) -> Result<(), String> {
    shared.persistence.load.is_on.store(false, Ordering::SeqCst);
    shared.detour.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

/// Loads the append-only file, if there is one, and goes on writing it; false if the server was told to stop meanwhile.
fn load_log_at_start(shared: &'static Shared, keys: &mut Keys, config: &Config) -> Result<bool, String> {
    let (thread, gate) = (shared.helper(), &shared.engine.gate);
    let began_us = shared.clock.unix_us();
    shared.persistence.load.began_ms.store(keys.now_ms, Ordering::Relaxed);
    gate.enter(thread);
    let mut alone = |keys: &mut Keys, work: &mut dyn FnMut(&mut Keys)| {
        gate.leave(thread);
        gate.closed(|| {
            keys.hold_all();
            work(keys);
            keys.release();
        });
        gate.enter(thread);
    };
    let mut pause = || {
        gate.leave(thread);
        let is_wanted = || !shared.stopping.load(Ordering::Relaxed);
        super::delay(shared.config.snapshot().key_load_delay_us, SLICE_RECORDS as usize, is_wanted);
        gate.enter(thread);
        is_wanted()
    };
    let loaded = super::aof::load::load(shared, keys, config, &mut alone, &mut pause);
    gate.leave(thread);
    match loaded? {
        LoadedLog::Whole => {
            let seconds = (shared.clock.unix_us() - began_us) as f64 / 1e6;
            tracing::info!("DB loaded from append only file: {seconds:.3} seconds");
            super::aof::start::open(shared, keys, config)?;
            Ok(true)
        }
        LoadedLog::Missing => Ok(true),
        LoadedLog::Interrupted => Ok(false),
    }
}
