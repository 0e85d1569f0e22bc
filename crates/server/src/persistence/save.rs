//! Writing all keys to the RDB file at once, behind the closed gate: SAVE, SHUTDOWN, DEBUG RELOAD.

use std::sync::Arc;

use martlet_base::disk::Disk;
use martlet_base::limits::SHARD_COUNT;
use martlet_command::generic::encodable;
use martlet_engine::Keys;
use martlet_keyspace::Entry;
use martlet_snapshot::file::{Access, FileWriter, Record};

use super::file::NewFile;
use crate::config::{Config, MaxmemoryPolicy, REDIS_VERSION, error_text};
use crate::worker::Worker;

/// The version that all values fit but hashes with expiring fields; Redis 7.0 reads it.
const VERSION: u16 = 10;
/// The first version with expiring fields.
const VERSION_TIMED: u16 = 12;

/// What of a key's use is written: as much as the policy for eviction goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptAccess {
    /// Nothing.
    Nothing,
    /// When it was.
    Idle,
    /// How often.
    Frequency,
}

impl KeptAccess {
    /// What the configured policy goes by.
    pub fn of(config: &Config) -> KeptAccess {
        match config.maxmemory_policy {
            MaxmemoryPolicy::AllkeysLru | MaxmemoryPolicy::VolatileLru => KeptAccess::Idle,
            MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => KeptAccess::Frequency,
            _ => KeptAccess::Nothing,
        }
    }

    /// A key's 24 bits as a file has them.
    pub fn encode(self, lru: u32, now_ms: i64) -> Option<Access> {
        match self {
            KeptAccess::Nothing => None,
            KeptAccess::Idle => {
                let idle_s = ((now_ms / 1000) as u32).wrapping_sub(lru) & 0xff_ffff;
                Some(Access::IdleSeconds(u64::from(idle_s)))
            }
            KeptAccess::Frequency => Some(Access::Frequency(lru as u8)),
        }
    }
}

/// The disk has refused; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveFailed;

/// How many keys of a database a file will hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// All.
    pub keys: usize,
    /// Those that expire.
    pub expiring: usize,
    /// Hashes with expiring fields.
    pub timed: usize,
}

/// The totals of each database; all shards are held.
pub fn totals(keys: &Keys, databases: usize) -> Vec<Totals> {
    let mut totals = vec![Totals::default(); databases];
    for shard in 0..SHARD_COUNT {
        let shard = &keys.shard(shard).keys;
        for index in shard.used() {
            if let Some(total) = totals.get_mut(index) {
                let db = shard.db(index);
                total.keys += db.len();
                total.expiring += db.expiring_len();
                total.timed += db.field_expiring_len();
            }
        }
    }
    totals
}

/// Begins a file, which may be the base of the append-only file: what wrote it, and when.
pub fn begin(
    file: NewFile,
    config: &Config,
    totals: &[Totals],
    now_ms: i64,
    is_base: bool,
) -> FileWriter<NewFile> {
    let version = if totals.iter().any(|total| total.timed > 0) { VERSION_TIMED } else { VERSION };
    let bits = usize::BITS.to_string();
    let created_s = (now_ms / 1000).to_string();
    let memory = martlet_base::alloc::used_bytes().to_string();
    let aux = [
        ("redis-ver", REDIS_VERSION),
        ("redis-bits", &bits),
        ("ctime", &created_s),
        ("used-mem", &memory),
        ("aof-base", if is_base { "1" } else { "0" }),
    ];
    FileWriter::new(file, version, &aux, config.rdbcompression, config.rdbchecksum)
}

/// Writes one entry of a database.
fn write(file: &mut FileWriter<NewFile>, db: usize, entry: &Entry<'_>, access: KeptAccess, now_ms: i64) {
    if let Some(value) = encodable(entry) {
        file.record(&Record {
            db: db as u64,
            key: entry.key(),
            expiry_ms: entry.expiry_ms(),
            access: access.encode(entry.lru(), now_ms),
            value,
        });
    }
}

/// Creates a new version of the file; why not, as a line for the log.
pub fn create(disk: &Arc<dyn Disk>, config: &Config, tag: &str) -> Result<NewFile, String> {
    let (directory, name) = (&config.dir, &config.dbfilename);
    let temporary = format!("temp-{tag}.rdb");
    let new = NewFile::create(disk.clone(), directory, name, &temporary, config.rdb_save_incremental_fsync);
    new.map_err(|error| {
        let (name, directory) = (config.dbfilename.display(), config.dir.display());
        format!(
            "Failed opening the temp RDB file for {name} (in server root dir {directory}) for saving: {}",
            error_text(&error)
        )
    })
}

fn write_all(
    disk: &Arc<dyn Disk>,
    keys: &Keys,
    config: &Config,
    now_ms: i64,
    tag: &str,
) -> Result<(), String> {
    let new = create(disk, config, tag)?;
    let access = KeptAccess::of(config);
    let totals = totals(keys, config.databases as usize);
    let mut file = begin(new, config, &totals, now_ms, false);
    for (db, total) in totals.iter().enumerate().filter(|(_, total)| total.keys > 0) {
        file.database(db as u64, total.keys as u64, total.expiring as u64);
        for shard in 0..SHARD_COUNT {
            for entry in keys.shard(shard).keys.db(db).iter() {
                write(&mut file, db, &entry, access, now_ms);
                super::delay(config.rdb_key_save_delay_us, 1, || true);
            }
            if !file.is_sound() {
                break;
            }
        }
    }
    let published = file.finish().and_then(NewFile::sync).and_then(NewFile::publish);
    published.map_err(|error| format!("Write error saving DB on disk: {}", error_text(&error)))
}

impl Worker {
    /// Writes the RDB file while everything stands still: all shards are held.
    ///
    /// # Errors
    /// The disk's refusal, which has been logged; the old file is still there.
    pub fn save(&mut self) -> Result<(), SaveFailed> {
        let config = self.config().clone();
        let tag = std::process::id().to_string();
        let disk = &self.shared.persistence.disk;
        if let Err(message) = write_all(disk, &self.keys, &config, self.now_ms, &tag) {
            tracing::warn!("{message}");
            return Err(SaveFailed);
        }
        tracing::info!("DB saved on disk");
        let now_ms = self.shared.clock.unix_ms();
        self.shared.persistence.saved(now_ms, self.changes());
        self.shared.note_disk_state();
        Ok(())
    }
}
