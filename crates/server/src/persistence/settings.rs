//! Settings of files, from the configuration.

use std::sync::{Arc, Mutex};

use martlet_journal::aof::SyncPolicy;
use martlet_persistence::{Codec, KeptAccess, Settings};

use crate::config::PropagationErrorBehavior;
use crate::config::{
    AppendFsync, Config, MaxmemoryPolicy, REDIS_VERSION, RdbCompression, RdbVersionCheck, SavePoint,
};

/// The settings of the last configuration that the files asked for.
#[derive(Default)]
pub struct LastSettings(pub(super) Mutex<Option<(Arc<Config>, Arc<Settings>)>>);

fn save_point(SavePoint { seconds, changes }: SavePoint) -> martlet_persistence::SavePoint {
    martlet_persistence::SavePoint { seconds, changes }
}

/// The codec of `repl-compression`; other words are Redis' levels, by which nothing is compressed.
pub fn repl_codec(config: &Config) -> Option<Codec> {
    match config.repl_compression.to_ascii_lowercase().as_str() {
        "yes" | "lz4" => Some(Codec::Lz4),
        "zstd" => Some(Codec::Zstd),
        _ => None,
    }
}

/// What of a configuration matters to files.
pub fn settings(config: &Config) -> Settings {
    Settings {
        server_version: REDIS_VERSION,
        handlers: crate::settings::from_config(config),
        dir: config.dir.clone(),
        dbfilename: config.dbfilename.clone(),
        save: config.save.0.iter().map(|&point| save_point(point)).collect(),
        stop_writes_on_bgsave_error: config.stop_writes_on_bgsave_error,
        rdbcompression: config.rdbcompression.is_on(),
        codec: match config.rdbcompression {
            RdbCompression::No | RdbCompression::Yes => None,
            RdbCompression::Lz4 => Some(Codec::Lz4),
            RdbCompression::Zstd => Some(Codec::Zstd),
        },
        rdbchecksum: config.rdbchecksum,
        rdb_version: config.rdb_version.number(),
        reads_any_version: config.rdb_version_check == RdbVersionCheck::Relaxed,
        kept_access: match config.maxmemory_policy {
            MaxmemoryPolicy::AllkeysLru
            | MaxmemoryPolicy::VolatileLru
            | MaxmemoryPolicy::AllkeysLrm
            | MaxmemoryPolicy::VolatileLrm => KeptAccess::Idle,
            MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => KeptAccess::Frequency,
            _ => KeptAccess::Nothing,
        },
        panics_on_failed_command: config.propagation_error_behavior == PropagationErrorBehavior::Panic,
        replica_lazy_flush: config.replica_lazy_flush,
        rdb_save_incremental_fsync: config.rdb_save_incremental_fsync,
        rdb_key_save_delay_us: config.rdb_key_save_delay_us,
        key_load_delay_us: config.key_load_delay_us,
        appendonly: config.appendonly,
        appendfsync: match config.appendfsync {
            AppendFsync::Always => SyncPolicy::Always,
            AppendFsync::Everysec => SyncPolicy::EverySecond,
            AppendFsync::No => SyncPolicy::Never,
        },
        no_appendfsync_on_rewrite: config.no_appendfsync_on_rewrite,
        appenddirname: config.appenddirname.clone(),
        appendfilename: config.appendfilename.clone(),
        aof_timestamp_enabled: config.aof_timestamp_enabled,
        aof_use_rdb_preamble: config.aof_use_rdb_preamble,
        aof_load_truncated: config.aof_load_truncated,
        aof_corrupt_tail_max_bytes: config.aof_load_corrupt_tail_max_size_bytes,
        aof_disable_auto_gc: config.aof_disable_auto_gc,
        aof_rewrite_incremental_fsync: config.aof_rewrite_incremental_fsync,
        auto_aof_rewrite_percentage: config.auto_aof_rewrite_percentage,
        auto_aof_rewrite_min_size_bytes: config.auto_aof_rewrite_min_size_bytes,
    }
}
