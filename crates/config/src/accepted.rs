//! Parameters that a configuration may set, and that are shown as set, but that have nothing to act on in
//! this server's design, or tune a feature that it lacks.
//!
//! They are listed in a note at start, each with its reason.

use super::Config;
use super::enumerations::SaveMethod;
use super::table::Effect::{Absent, Moot};
use super::table::{Section, parameter_table};
use super::value::Kind::*;
use super::value::TEXT;

const BACKGROUND_FREE: super::Effect = Moot("values are always freed in the background");
const CPU_LISTS: super::Effect = Moot("threads are placed by the kernel; use taskset or cgroups");
const DEBUGGING: super::Effect = Moot("it exists for Redis' own debugging");
const DEFRAGMENTATION: super::Effect = Moot("the allocator does not need active defragmentation");
const COPIES: super::Effect = Moot("replies are copied or not by a rule of this server's own");
const MULTIPATH: super::Effect =
    Moot("connections are plain TCP, to which peers with multipath TCP fall back");
const RDMA: super::Effect = Moot("connections are TCP or unix sockets");
const FAIR_ACCEPT: super::Effect = Moot("the I/O threads accept in fair slices");
const NO_REHASH: super::Effect = Moot("tables grow a segment at a time and are never rehashed as a whole");
const TEMPLATES: super::Effect = Moot("hashes keep their own field names");
const FORKLESS: super::Effect = Moot("a background save never forks");
const REPLICATION_COMPRESSION: super::Effect = Absent("compression of the replication stream");
const BACKUPS: super::Effect = Absent("BACKUP");
const HOT_KEYS: super::Effect =
    Absent("HOTKEYS as in Valkey 9.2; HOTKEYS START counts on request, as in Redis");
const THREADS: super::Effect = Moot("every I/O thread reads, runs and writes for its own connections");

const INT_MAX: i128 = i32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;

parameter_table! {
    /// Parameters that have nothing to act on here; kept so that CONFIG GET and REWRITE show the values set.
    struct Accepted;

    /// Threads for commands over the nodes of a cluster
    ts_num_threads: u32 = 3 => "ts-num-threads", Integer(1, 16), MODIFIABLE, THREADS;
    /// Rehash tables in idle time
    activerehashing: bool = true => "activerehashing", YesNo, MODIFIABLE, NO_REHASH;
    /// How hard expired keys are looked for
    active_expire_effort: u32 = 1
        => "active-expire-effort", Integer(1, 10), MODIFIABLE, Moot("a timing wheel finds every expired key in its tick");
    /// Reclaim fragmented memory
    activedefrag: bool = false => "activedefrag", YesNo, MODIFIABLE, DEFRAGMENTATION;
    /// Least CPU percentage of defragmentation
    active_defrag_cycle_min: u32 = 1 => "active-defrag-cycle-min", Integer(1, 99), MODIFIABLE, DEFRAGMENTATION;
    /// Most CPU percentage of defragmentation
    active_defrag_cycle_max: u32 = 25 => "active-defrag-cycle-max", Integer(1, 99), MODIFIABLE, DEFRAGMENTATION;
    /// Fragmentation that starts it
    active_defrag_threshold_lower: u32 = 10
        => "active-defrag-threshold-lower", Integer(0, 1000), MODIFIABLE, DEFRAGMENTATION;
    /// Fragmentation that calls for the most of it
    active_defrag_threshold_upper: u32 = 100
        => "active-defrag-threshold-upper", Integer(0, 1000), MODIFIABLE, DEFRAGMENTATION;
    /// Wasted bytes that start it
    active_defrag_ignore_bytes: u64 = 100 << 20
        => "active-defrag-ignore-bytes", Memory(1, LONG_MAX), MODIFIABLE, DEFRAGMENTATION;
    /// Microseconds of one step
    active_defrag_cycle_us: u32 = 500
        => "active-defrag-cycle-us", Integer(0, 100_000), MODIFIABLE, DEFRAGMENTATION;
    /// Elements of a value that is handled in one step
    active_defrag_max_scan_fields: u64 = 1000
        => "active-defrag-max-scan-fields", Integer(1, LONG_MAX), MODIFIABLE, DEFRAGMENTATION;
    /// Show the logo at start
    always_show_logo: bool = false => "always-show-logo", YesNo, IMMUTABLE, Moot("there is no logo");
    /// How a background save is made (Valkey 9.2)
    bgsave_default_method: SaveMethod = SaveMethod::Fork
        => "bgsave-default-method", SaveMethod::KIND, MODIFIABLE, FORKLESS;
    /// Be ready for background saves without a fork (Valkey 9.2)
    forkless_infrastructure_enabled: bool = false
        => "forkless-infrastructure-enabled", YesNo, IMMUTABLE, FORKLESS;
    /// Keep new bitmaps compressed (Redis 8.12)
    bitmap_default_roaring: bool = false => "bitmap-default-roaring", YesNo, MODIFIABLE,
        Moot("bitmaps are strings");
    /// Least fields of a hash that shares its field names with others (Redis 8.10); 0 shares none
    hash_min_template_entries: u64 = 0
        => "hash-min-template-entries", Integer(0, LONG_MAX), MODIFIABLE, TEMPLATES;
    /// Most fields of such a hash; 0 is no bound
    hash_max_template_entries: u64 = 0
        => "hash-max-template-entries", Integer(0, LONG_MAX), MODIFIABLE, TEMPLATES;
    /// Least fields of a hash that shares its names from its load on
    hash_rdb_load_min_template_entries: u64 = 0
        => "hash-rdb-load-min-template-entries", Integer(0, LONG_MAX), MODIFIABLE, TEMPLATES;
    /// Most fields of such a hash; 0 is no bound
    hash_rdb_load_max_template_entries: u64 = 0
        => "hash-rdb-load-max-template-entries", Integer(0, LONG_MAX), MODIFIABLE, TEMPLATES;
    /// Hashes that must share names for them to stay shared after a load
    hash_rdb_load_template_disassembly_threshold: u64 = 0
        => "hash-rdb-load-template-disassembly-threshold", Integer(0, LONG_MAX), MODIFIABLE, TEMPLATES;
    /// Histograms of the memory of keys (Redis 8.6)
    key_memory_histograms: bool = false => "key-memory-histograms", YesNo, MODIFIABLE,
        Absent("histograms of the memory of keys");
    /// Commands of a client that are read ahead (Redis 8.4)
    lookahead: u32 = 16 => "lookahead", Integer(1, INT_MAX), MODIFIABLE,
        Moot("all that a client has sent is read ahead");
    /// Let an I/O thread compress what replicas are sent (Redis 8.10)
    repl_compression_io_thread: bool = false => "repl-compression-io-thread", YesNo, IMMUTABLE,
        REPLICATION_COMPRESSION;
    /// Slow writers down while replicas are behind (Valkey 9.2)
    repl_throttling_enabled: bool = false => "repl-throttling-enabled", YesNo, MODIFIABLE|SWITCH,
        Absent("slowing writers down for replicas");
    /// Directory of BACKUP's files in `dir` (Redis 8.10)
    backupdirname: String = "backupdir".into() => "backupdirname", TEXT, IMMUTABLE, BACKUPS;
    /// Seconds after which a sealed backup is removed; 0 never (Redis 8.10)
    backup_sealed_ttl_s: u64 = 0 => "backup-sealed-ttl", Integer(0, LONG_MAX), MODIFIABLE, BACKUPS;
    /// The one file to load at start: `rdb:` or `aof:` and a path (Redis 8.10)
    preload_file: Option<String> = None => "preload-file", Text(preload_file), IMMUTABLE|SWITCH,
        Absent("loading of another file than the configured ones");
    /// Keys that Valkey 9.2's HOTKEYS GET shows; 0 counts none
    hotkeys_top_k: u32 = 0 => "hotkeys-top-k", Integer(0, INT_MAX), MODIFIABLE, HOT_KEYS;
    /// Percentage of accesses that it counts
    hotkeys_sampling_percentage: u32 = 100
        => "hotkeys-sampling-percentage", Integer(0, 100), MODIFIABLE, HOT_KEYS;
    /// Seconds that it counts for
    hotkeys_window_s: u32 = 10 => "hotkeys-window-seconds", Integer(1, INT_MAX), MODIFIABLE, HOT_KEYS;
    /// Microseconds between looks at the system's own connections (Valkey 9.2)
    priority_preemptive_poll_interval_us: u32 = 0
        => "priority-preemptive-poll-interval-us", Integer(0, INT_MAX), MODIFIABLE, THREADS;
    /// Milliseconds after which what is compressed is sent (Redis 8.10)
    repl_compression_max_latency_ms: u32 = 100 => "repl-compression-max-latency", Integer(0, INT_MAX), MODIFIABLE,
        REPLICATION_COMPRESSION;
    /// CPUs of the threads that serve clients
    server_cpulist: Option<String> = None => "server-cpulist" | "server_cpulist", TEXT, IMMUTABLE, CPU_LISTS;
    /// CPUs of the background threads
    bio_cpulist: Option<String> = None => "bio-cpulist" | "bio_cpulist", TEXT, IMMUTABLE, CPU_LISTS;
    /// CPUs of a rewrite
    aof_rewrite_cpulist: Option<String> = None
        => "aof-rewrite-cpulist" | "aof_rewrite_cpulist", TEXT, IMMUTABLE, CPU_LISTS;
    /// CPUs of a background save
    bgsave_cpulist: Option<String> = None => "bgsave-cpulist" | "bgsave_cpulist", TEXT, IMMUTABLE, CPU_LISTS;
    /// Test memory after a crash
    crash_memcheck_enabled: bool = true => "crash-memcheck-enabled", YesNo, MODIFIABLE,
        Moot("a crash report does not test the memory");
    /// Raise hz with the number of clients
    dynamic_hz: bool = true
        => "dynamic-hz", YesNo, MODIFIABLE, Moot("each I/O thread looks after its own clients");
    /// Assertions that cost time
    enable_debug_assert: bool = false => "enable-debug-assert", YesNo, IMMUTABLE|HIDDEN, DEBUGGING;
    /// Events for which one more of Valkey's I/O threads is used
    events_per_io_thread: u32 = 2 => "events-per-io-thread", Integer(0, INT_MAX), MODIFIABLE, THREADS;
    /// Text that the hashes of keys follow from
    hash_seed: String = String::new() => "hash-seed", Text(hash_seed), IMMUTABLE,
        Moot("each process draws the seed of its hashes, so that no client can make keys collide");
    /// Warnings that do not stop the start
    ignore_warnings: String = String::new()
        => "ignore-warnings", TEXT, MODIFIABLE, Moot("no warning stops the start");
    /// Let I/O threads read
    io_threads_do_reads: bool = false => "io-threads-do-reads", YesNo, IMMUTABLE, THREADS;
    /// Keys whose memory one batch of commands prefetches
    prefetch_batch_max_size: u32 = 16
        => "prefetch-batch-max-size", Integer(0, 128), MODIFIABLE, Moot("a batch of requests is always prefetched");
    /// Let the allocator free in the background
    jemalloc_bg_thread: bool = true
        => "jemalloc-bg-thread", YesNo, MODIFIABLE, Moot("the allocator is not jemalloc");
    /// Let DEL free in the background
    lazyfree_lazy_user_del: bool = false => "lazyfree-lazy-user-del", YesNo, MODIFIABLE, BACKGROUND_FREE;
    /// Delete expired keys that a nested command meets
    lazyexpire_nested_arbitrary_keys: bool = true => "lazyexpire-nested-arbitrary-keys", YesNo, MODIFIABLE|HIDDEN,
        Moot("every command sees an expired key as gone");
    /// Nodes of a list, from each end, that stay uncompressed
    list_compress_depth: u32 = 0 => "list-compress-depth", Integer(0, INT_MAX), MODIFIABLE,
        Moot("list nodes are kept uncompressed");
    /// Offer scripts functions of Lua that Valkey removed
    lua_enable_insecure_api: bool = false => "lua-enable-insecure-api" | "lua-enable-deprecated-api", YesNo,
        MODIFIABLE|HIDDEN|PROTECTED, Moot("scripts have Redis' functions");
    /// Order of strings in SORT ALPHA
    locale_collate: String = String::new()
        => "locale-collate", TEXT, MODIFIABLE, Moot("strings are ordered by their bytes in every locale");
    /// Connections accepted before commands run again
    max_new_connections_per_cycle: u32 = 10
        => "max-new-connections-per-cycle", Integer(1, 1000), MODIFIABLE, FAIR_ACCEPT;
    /// TLS connections accepted before commands run again
    max_new_tls_connections_per_cycle: u32 = 1
        => "max-new-tls-connections-per-cycle", Integer(1, 1000), MODIFIABLE, FAIR_ACCEPT;
    /// Valkey's I/O threads from which on replies are not copied
    min_io_threads_avoid_copy_reply: u32 = 7
        => "min-io-threads-avoid-copy-reply", Integer(0, INT_MAX), MODIFIABLE|HIDDEN, COPIES;
    /// Bytes of a string from which on it is not copied
    min_string_size_avoid_copy_reply: u32 = 16_384
        => "min-string-size-avoid-copy-reply", Integer(0, INT_MAX), MODIFIABLE|HIDDEN, COPIES;
    /// The same, with I/O threads
    min_string_size_avoid_copy_reply_threaded: u32 = 65_536
        => "min-string-size-avoid-copy-reply-threaded", Integer(0, INT_MAX), MODIFIABLE|HIDDEN, COPIES;
    /// Take connections by multipath TCP
    mptcp: bool = false => "mptcp", YesNo, IMMUTABLE, MULTIPATH;
    /// Connect to the primary by multipath TCP
    repl_mptcp: bool = false => "repl-mptcp", YesNo, IMMUTABLE, MULTIPATH;
    /// Addresses for RDMA
    rdma_bind: Vec<String> = Vec::new() => "rdma-bind", Addresses, MODIFIABLE|MULTI, RDMA;
    /// Port for RDMA
    rdma_port: u16 = 0 => "rdma-port", Integer(0, 65535), MODIFIABLE, RDMA;
    /// Bytes of an RDMA connection's receive buffer
    rdma_rx_bytes: u32 = 1 << 20 => "rdma-rx-size", Integer(65_536, 16 << 20), IMMUTABLE, RDMA;
    /// Queue of a device's completions
    rdma_completion_vector: i32 = -1 => "rdma-completion-vector", Integer(-1, 1024), IMMUTABLE, RDMA;
}

fn preload_file(text: &[u8]) -> Result<(), &'static str> {
    let is_path = text.is_empty() || text.starts_with(b"aof:/") || text.starts_with(b"rdb:/");
    if is_path { Ok(()) } else { Err("argument must be in the format '[aof|rdb]:[filename]'") }
}

fn hash_seed(text: &[u8]) -> Result<(), &'static str> {
    if text.len() > 256 { Err("hash-seed must be less than or equal to 256 characters") } else { Ok(()) }
}

impl Section for Accepted {
    fn of(config: &Config) -> &Self {
        &config.accepted
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        &mut config.accepted
    }
}
