//! The part of the configuration that matters to files.
//!
//! Invariant: work on a file uses one value from its beginning to its end; a later change concerns the next.

use std::path::PathBuf;

use martlet_command::Settings as HandlerSettings;
use martlet_journal::aof::SyncPolicy;
use martlet_rdb::pack::Codec;
use martlet_values::file::Access;

/// When the data is saved by itself: a number of changes, and of seconds since the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// At least one.
    pub seconds: u64,
    /// How many changes it takes.
    pub changes: u64,
}

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

/// See the [module docs](self). Fields have the names of their directives.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What files say that wrote them.
    pub server_version: &'static str,
    /// The settings of a file's commands.
    pub handlers: HandlerSettings,
    /// Where files are.
    pub dir: PathBuf,
    /// The RDB file.
    pub dbfilename: PathBuf,
    /// When it is written by itself.
    pub save: Vec<SavePoint>,
    /// Writes are refused after a save in the background that failed.
    pub stop_writes_on_bgsave_error: bool,
    /// Strings are compressed, unless the whole file is.
    pub rdbcompression: bool,
    /// The whole RDB file is compressed, or the whole data set on its way to replicas.
    pub codec: Option<Codec>,
    /// Files end with a checksum, which is compared.
    pub rdbchecksum: bool,
    /// The version that is written; `None`: the lowest that holds the data.
    pub rdb_version: Option<u16>,
    /// Versions that are not known are read, too.
    pub reads_any_version: bool,
    /// What of keys' use is written.
    pub kept_access: KeptAccess,
    /// Written bytes go to the disk as they come.
    pub rdb_save_incremental_fsync: bool,
    /// A command of the append-only file that fails ends the process.
    pub panics_on_failed_command: bool,
    /// Values that a full sync removes count as freed in the background.
    pub replica_lazy_flush: bool,
    /// Microseconds to wait for each key that is written; negative: keys for each microsecond.
    pub rdb_key_save_delay_us: i32,
    /// The same for each key that is loaded.
    pub key_load_delay_us: i32,
    /// Whether there is an append-only file.
    pub appendonly: bool,
    /// When it is forced to disk.
    pub appendfsync: SyncPolicy,
    /// It is left to the operating system while something else is written.
    pub no_appendfsync_on_rewrite: bool,
    /// Its directory in `dir`.
    pub appenddirname: PathBuf,
    /// The begin of its files' names.
    pub appendfilename: PathBuf,
    /// It has the time between commands.
    pub aof_timestamp_enabled: bool,
    /// Its base is an RDB file.
    pub aof_use_rdb_preamble: bool,
    /// An incomplete end is cut off.
    pub aof_load_truncated: bool,
    /// An end that is no command is cut off if it is shorter.
    pub aof_corrupt_tail_max_bytes: u64,
    /// Files that are history stay.
    pub aof_disable_auto_gc: bool,
    /// A rewrite's bytes go to the disk as they come.
    pub aof_rewrite_incremental_fsync: bool,
    /// Growth after which it is rewritten by itself; 0: never.
    pub auto_aof_rewrite_percentage: u32,
    /// Smaller files are not, in bytes.
    pub auto_aof_rewrite_min_size_bytes: u64,
}

impl Settings {
    /// The RDB file's path.
    pub fn rdb_path(&self) -> PathBuf {
        self.dir.join(&self.dbfilename)
    }

    /// The directory of the append-only file.
    pub fn aof_directory(&self) -> PathBuf {
        self.dir.join(&self.appenddirname)
    }

    /// The begin of its files' names.
    pub fn aof_name(&self) -> String {
        self.appendfilename.to_string_lossy().into_owned()
    }

    /// The name of a file of commands until the first base is there.
    pub fn temporary_increment(&self) -> String {
        format!("temp-{}.incr", self.aof_name())
    }

    /// The name of a manifest until it is whole and on disk.
    pub fn temporary_manifest(&self) -> String {
        format!("temp-{}.manifest", self.aof_name())
    }
}
