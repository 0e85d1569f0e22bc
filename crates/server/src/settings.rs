//! What command handlers need of the configuration.

use martlet_base::limits::ELEMENT_MAX_BYTES;
use martlet_command::sketch::{BloomOptions, CuckooOptions, SketchSettings};
use martlet_command::{Presentation, SeriesSettings, Settings};
use martlet_engine::{Engine, EventClass, Lrfu, Touch};
use martlet_tseries::sample::DuplicatePolicy;
use martlet_tseries::store::Encoding;
use martlet_types::array::ArrayLimits;
use martlet_types::hash::HashLimits;
use martlet_types::list::ListLimit;
use martlet_types::set::SetLimits;
use martlet_types::stream::{IdempotencyLimits, StreamLimits};
use martlet_types::zset::ZSetLimits;

use crate::config::{Config, MaxmemoryPolicy, PresentsAs, SeriesDuplicates, SeriesEncoding};

/// The handlers' settings under `config`.
pub fn from_config(config: &Config) -> Settings {
    Settings {
        string_max_bytes: config.proto_max_bulk_len_bytes.min(ELEMENT_MAX_BYTES) as usize,
        is_clustered: config.cluster_enabled,
        compatibility_sample_percent: compatibility_sample_percent(config),
        databases: config.database_count(),
        list_limit: ListLimit::from_directive(config.list_max_listpack_size),
        set_limits: SetLimits {
            intset_max_entries: config.set_max_intset_entries,
            listpack_max_entries: config.set_max_listpack_entries,
            listpack_max_value_bytes: config.set_max_listpack_value,
        },
        hash_limits: HashLimits {
            listpack_max_entries: config.hash_max_listpack_entries,
            listpack_max_value_bytes: config.hash_max_listpack_value,
        },
        zset_limits: ZSetLimits {
            listpack_max_entries: config.zset_max_listpack_entries,
            listpack_max_value_bytes: config.zset_max_listpack_value,
        },
        stream_limits: StreamLimits {
            node_max_bytes: config.stream_node_max_bytes,
            node_max_entries: config.stream_node_max_entries,
        },
        array_limits: ArrayLimits {
            slice_size: config.array_slice_size.0,
            sparse_max: config.array_sparse_kmax,
            sparse_min: config.array_sparse_kmin,
        },
        idempotency_limits: IdempotencyLimits {
            duration_s: config.stream_idmp_duration_s,
            max_records: config.stream_idmp_maxsize,
        },
        hll_sparse_max_bytes: config.hll_sparse_max_bytes,
        rdb_compression: config.rdbcompression.is_on(),
        lazy_user_flush: config.lazyfree_lazy_user_flush,
        sketch: sketch_settings(config),
        vector_sets_inline: config.vset_force_single_threaded_execution,
        inserts_beside_others: config.io_threads > 1 && !config.vset_force_single_threaded_execution,
        shared_integers: config.presents_as == PresentsAs::Redis
            && (config.maxmemory_bytes == 0 || !has_clocks(config.maxmemory_policy)),
        presentation: presentation(config),
        series: SeriesSettings {
            retention_ms: config.ts_retention_policy_ms,
            chunk_bytes: config.ts_chunk_size_bytes.0,
            encoding: match config.ts_encoding {
                SeriesEncoding::Compressed => Encoding::Compressed,
                SeriesEncoding::Uncompressed => Encoding::Uncompressed,
            },
            policy: match config.ts_duplicate_policy {
                SeriesDuplicates::Block => DuplicatePolicy::Block,
                SeriesDuplicates::Last => DuplicatePolicy::Last,
                SeriesDuplicates::First => DuplicatePolicy::First,
                SeriesDuplicates::Min => DuplicatePolicy::Min,
                SeriesDuplicates::Max => DuplicatePolicy::Max,
                SeriesDuplicates::Sum => DuplicatePolicy::Sum,
            },
            ignore_time_ms: config.ts_ignore_max_time_diff_ms,
            ignore_value: config.ts_ignore_max_val_diff.0,
            compactions: config.ts_compaction_policy.0.clone(),
        },
    }
}

/// The product that the server presents itself as.
pub fn presentation(config: &Config) -> Presentation {
    match config.presents_as {
        PresentsAs::Redis => Presentation::Redis,
        PresentsAs::Valkey => Presentation::Valkey { names_redis: config.extended_redis_compatibility },
    }
}

/// The options of filters that commands create.
fn sketch_settings(config: &Config) -> SketchSettings {
    SketchSettings {
        bloom: BloomOptions {
            error_rate: config.bf_error_rate.0,
            capacity: config.bf_initial_size,
            expansion: config.bf_expansion_factor,
            is_scaling: config.bf_expansion_factor > 0,
        },
        cuckoo: CuckooOptions {
            capacity: config.cf_initial_size,
            bucket_size: i64::from(config.cf_bucket_size),
            max_iterations: i64::from(config.cf_max_iterations),
            expansion: i64::from(config.cf_expansion_factor),
        },
        cuckoo_max_expansions: config.cf_max_expansions,
    }
}

/// Whether keys are evicted by when, or how often, each was used or changed.
fn has_clocks(policy: MaxmemoryPolicy) -> bool {
    use MaxmemoryPolicy::{AllkeysRandom, Noeviction, VolatileRandom, VolatileTtl};
    !matches!(policy, Noeviction | AllkeysRandom | VolatileRandom | VolatileTtl)
}

/// How accesses to keys are noted under the configured policy.
pub fn touch(config: &Config, now_ms: i64, engine: &Engine) -> Touch {
    let clock = (now_ms / 1000) as u32 & 0xff_ffff;
    match config.maxmemory_policy {
        MaxmemoryPolicy::AllkeysLfu | MaxmemoryPolicy::VolatileLfu => Touch::Lfu {
            minutes: (now_ms / 60_000) as u16,
            log_factor: config.lfu_log_factor,
            decay_minutes: config.lfu_decay_time_minutes,
        },
        MaxmemoryPolicy::AllkeysLrfu | MaxmemoryPolicy::VolatileLrfu => {
            Touch::Lrfu(Lrfu { tick: engine.eviction_tick() })
        }
        MaxmemoryPolicy::AllkeysLrm | MaxmemoryPolicy::VolatileLrm => Touch::Lrm(clock),
        _ => Touch::Lru(clock),
    }
}

/// The classes of key events that are published; 0 when there is no channel to publish them to.
pub fn wanted_events(config: &Config) -> u32 {
    let events = config.notify_keyspace_events.0;
    if events & EventClass::CHANNELS.0 == 0 { 0 } else { events }
}

/// Percentage of the operations that a cluster could not run which are counted: none in a cluster.
pub fn compatibility_sample_percent(config: &Config) -> u32 {
    if config.cluster_enabled { 0 } else { config.cluster_compatibility_sample_ratio }
}
