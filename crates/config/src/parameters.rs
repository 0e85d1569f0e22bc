//! The parameters that act, or will act once the feature that they tune is there.
//!
//! An entry reads: field, type, default, name, aliases, kind, flags, effect. Names, bounds and defaults are
//! those of Redis 8.0, and Valkey 8's for what only Valkey has; where the two differ in a default, Redis'
//! stands.

use std::path::PathBuf;

use super::accepted::Accepted;
use super::enumerations::*;
use super::search::SearchParameters;
use super::special::*;
use super::table::Effect::{Absent, Honoured, Moot};
use super::table::{Section, parameter_table};
use super::value::Kind::*;
use super::value::{MemoryLimit, TEXT};

const TLS_DH: super::Effect = Moot("key exchange uses elliptic curves only");
const TLS_TIME: super::Effect = Moot("sessions are kept until others need their place");

const INT_MIN: i128 = i32::MIN as i128;
const INT_MAX: i128 = i32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;
/// Redis: `CONFIG_REPL_BACKLOG_MIN_SIZE`.
const REPL_BACKLOG_MIN_BYTES: u64 = 16 * 1024;

/// The default number of I/O threads: one for each core that the process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

parameter_table! {
    /// A whole configuration. A published one never changes: see [`super::ConfigStore`].
    struct Config;

    also {
        /// Parameters that have nothing to act on here.
        accepted: Accepted,
        /// Parameters of search.
        search: SearchParameters,
    }

    // Time series.

    /// Rules of series that TS.ADD, TS.INCRBY and TS.DECRBY create, as `max:1M:1h;avg:10s:0`: aggregator,
    /// bucket and retention, each time in `m` (milliseconds), `s`, `M` (minutes), `h` or `d`, and perhaps an
    /// alignment
    ts_compaction_policy: SeriesPolicies = SeriesPolicies::default()
        => "ts-compaction-policy", TEXT, MODIFIABLE, Honoured;
    /// How a sample is treated whose timestamp is taken, in series that do not say so themselves
    ts_duplicate_policy: SeriesDuplicates = SeriesDuplicates::Block
        => "ts-duplicate-policy", SeriesDuplicates::KIND, MODIFIABLE, Honoured;
    /// Milliseconds that new series keep samples before their last one; 0 keeps all
    ts_retention_policy_ms: u64 = 0 => "ts-retention-policy", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// How new series save their samples
    ts_encoding: SeriesEncoding = SeriesEncoding::Compressed
        => "ts-encoding", SeriesEncoding::KIND, MODIFIABLE, Honoured;
    /// Bytes of a chunk of a new series, a multiple of 8
    ts_chunk_size_bytes: ChunkBytes = ChunkBytes(4096)
        => "ts-chunk-size-bytes", Integer(48, 1 << 20), MODIFIABLE, Honoured;
    /// New series drop samples at most so many milliseconds after the last one, under the policy `last`
    ts_ignore_max_time_diff_ms: u64 = 0 => "ts-ignore-max-time-diff", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// New series drop samples that differ by at most so much from the last one, under the policy `last`
    ts_ignore_max_val_diff: Difference = Difference(0.0) => "ts-ignore-max-val-diff", TEXT, MODIFIABLE, Honoured;

    // Network.

    /// Addresses to listen on; `-` before one allows that it is not there
    bind: Vec<String> = all_addresses() => "bind", Addresses, MODIFIABLE|MULTI, Honoured;
    /// TCP port; 0 listens on none
    port: u16 = 6379 => "port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// Refuse clients of other machines while the default user has no password
    protected_mode: bool = true => "protected-mode", YesNo, MODIFIABLE, Honoured;
    /// Port that serves metrics, and a page about the server, over HTTP; 0 serves none
    metrics_port: u16 = 0 => "metrics-port", Integer(0, 65535), IMMUTABLE, Honoured;
    /// Addresses that the metrics' port listens on
    metrics_bind: Vec<String> = loopback_addresses() => "metrics-bind", Addresses, IMMUTABLE|MULTI, Honoured;
    /// Let the page about the server send commands that change something
    metrics_allow_writes: bool = false => "metrics-allow-writes", YesNo, MODIFIABLE, Honoured;
    /// Connections that may wait to be accepted
    tcp_backlog: u32 = 511 => "tcp-backlog", Integer(0, INT_MAX), IMMUTABLE, Honoured;
    /// Seconds between TCP keepalive probes; 0 sends none
    tcp_keepalive_s: u32 = 300 => "tcp-keepalive", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Seconds after which an idle client is disconnected; 0 never
    timeout_s: u32 = 0 => "timeout", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Path of a Unix socket to listen on
    unixsocket: Option<PathBuf> = None => "unixsocket", TEXT, IMMUTABLE, Honoured;
    /// Mode of the Unix socket; 0 leaves it to the umask
    unixsocketperm: u32 = 0 => "unixsocketperm", Octal(0, 0o777), IMMUTABLE, Honoured;
    /// Group of the Unix socket
    unixsocketgroup: Option<String> = None => "unixsocketgroup", TEXT, IMMUTABLE, Honoured;
    /// The product as which the server presents itself: names, versions, and the replies that differ
    presents_as: PresentsAs = PresentsAs::Redis => "martlet-presents-as", PresentsAs::KIND, IMMUTABLE, Honoured;
    /// Where the server presents itself as Valkey: keep the name Redis in HELLO, LOLWUT and errors
    extended_redis_compatibility: bool = false
        => "extended-redis-compatibility", YesNo, MODIFIABLE, Honoured;
    /// Clients that may be connected at once
    maxclients: u32 = 10_000 => "maxclients", Integer(1, u32::MAX as i128), MODIFIABLE, Honoured;
    /// Of `maxclients`, connections that only clients in `priority-subnets` get (Valkey 9.2)
    maxclients_reserved: u32 = 0 => "maxclients-reserved", Integer(0, u32::MAX as i128), MODIFIABLE, Honoured;
    /// Addresses and subnets (CIDR), separated by spaces or commas, whose clients may use these connections
    priority_subnets: Subnets = Subnets::default() => "priority-subnets", TEXT, MODIFIABLE, Honoured;
    /// Longest string, and bulk string in a request; never above 4 GB less 16 MB
    proto_max_bulk_len_bytes: u64 = 512 << 20
        => "proto-max-bulk-len", Memory(1 << 20, LONG_MAX), MODIFIABLE, Honoured;
    /// Most bytes of unprocessed requests that a client may have
    client_query_buffer_limit_bytes: u64 = 1 << 30
        => "client-query-buffer-limit", Memory(1 << 20, LONG_MAX), MODIFIABLE, Honoured;
    /// Per client class: hard limit, soft limit and its seconds for replies that are not read
    client_output_buffer_limits: [OutputLimit; 3] = OUTPUT_LIMITS
        => "client-output-buffer-limit", OutputLimits, MODIFIABLE|MULTI, Honoured;
    /// Firewall mark of the listening sockets; 0 sets none
    socket_mark_id: u32 = 0
        => "socket-mark-id", Integer(0, u32::MAX as i128), IMMUTABLE|SWITCH, Absent("this version does not mark its sockets");

    // Threads and process.

    /// Threads that serve clients; each owns its connections
    io_threads: usize = cores() => "io-threads", Integer(1, 1024), IMMUTABLE, Honoured;
    /// How many of the threads serve clients: the first ones, as many; 0 follows the load
    active_threads: usize = 0 => "martlet-active-threads", Integer(0, 1024), MODIFIABLE|SWITCH, Honoured;
    /// How the threads talk to the kernel; `auto` probes for io_uring
    io_backend: IoBackend = IoBackend::Auto => "io-backend", IoBackend::KIND, IMMUTABLE, Honoured;
    /// Run in the background
    daemonize: bool = false => "daemonize", YesNo, IMMUTABLE, Honoured;
    /// The supervisor to notify when the server is ready
    supervised: Supervised = Supervised::No => "supervised", Supervised::KIND, IMMUTABLE, Honoured;
    /// File that holds the process id while the server runs
    pidfile: Option<PathBuf> = None => "pidfile", TEXT, IMMUTABLE, Honoured;
    /// Working directory: data files and relative paths are found from it
    dir: PathBuf = working_directory() => "dir", Directory, MODIFIABLE|PROTECTED|DENY_LOADING, Honoured;
    /// Show the server's state in the process title
    set_proc_title: bool = true => "set-proc-title", YesNo, IMMUTABLE, Honoured;
    /// Form of the process title
    proc_title_template: String = "{title} {listen-addr} {server-mode}".into()
        => "proc-title-template", Text(proc_title_template), MODIFIABLE, Honoured;
    /// Adjust the kernel's OOM score
    oom_score_adj: OomScoreAdj = OomScoreAdj::No => "oom-score-adj", OomScoreAdj::KIND, MODIFIABLE, Honoured;
    /// Have no transparent huge pages: filling one takes milliseconds
    disable_thp: bool = true => "disable-thp", YesNo, IMMUTABLE, Honoured;
    /// OOM scores of a primary, a replica and a background child
    oom_score_adj_values: [i32; 3] = [0, 200, 800] => "oom-score-adj-values", OomScores, MODIFIABLE|MULTI, Honoured;
    /// What SIGINT does besides stopping the server
    shutdown_on_sigint: ShutdownFlags = ShutdownFlags::default()
        => "shutdown-on-sigint", ShutdownFlags::KIND, MODIFIABLE|MULTI, Honoured;
    /// What SIGTERM does besides stopping the server
    shutdown_on_sigterm: ShutdownFlags = ShutdownFlags::default()
        => "shutdown-on-sigterm", ShutdownFlags::KIND, MODIFIABLE|MULTI, Honoured;
    /// Seconds that a shutdown waits for lagging replicas
    shutdown_timeout_s: u32 = 10 => "shutdown-timeout", Integer(0, INT_MAX), MODIFIABLE, Honoured;

    // Log.

    /// How much is logged
    loglevel: LogLevel = LogLevel::Notice => "loglevel", LogLevel::KIND, MODIFIABLE, Honoured;
    /// File to log to; empty is standard output
    logfile: PathBuf = PathBuf::new() => "logfile", TEXT, IMMUTABLE, Honoured;
    /// Log where all threads are, INFO and the configuration when the server crashes
    crash_log_enabled: bool = true => "crash-log-enabled", YesNo, MODIFIABLE, Honoured;
    /// Text that a crash report shows
    debug_context: String = String::new() => "debug-context", TEXT, MODIFIABLE|HIDDEN, Honoured;
    /// Exit instead of abort on a panic
    use_exit_on_panic: bool = false => "use-exit-on-panic", YesNo, MODIFIABLE|HIDDEN, Honoured;
    /// Form of a log line
    log_format: LogFormat = LogFormat::Legacy => "log-format", LogFormat::KIND, MODIFIABLE, Honoured;
    /// Form of a log line's time
    log_timestamp_format: LogTimestampFormat = LogTimestampFormat::Legacy
        => "log-timestamp-format", LogTimestampFormat::KIND, MODIFIABLE, Honoured;
    /// Log to syslog too
    syslog_enabled: bool = false => "syslog-enabled", YesNo, IMMUTABLE, Honoured;
    /// Name of the server in syslog
    syslog_ident: String = "redis".into() => "syslog-ident", TEXT, IMMUTABLE, Honoured;
    /// Facility of the messages in syslog
    syslog_facility: SyslogFacility = SyslogFacility::Local0
        => "syslog-facility", SyslogFacility::KIND, IMMUTABLE, Honoured;
    /// Keep keys and values out of the log
    hide_user_data_from_log: bool = false => "hide-user-data-from-log", YesNo, MODIFIABLE,
        Moot("the log never holds keys or values");

    // Security.

    /// Password of the default user; empty asks for none
    requirepass: Option<Vec<u8>> = None => "requirepass", TEXT, MODIFIABLE|SENSITIVE, Honoured;
    /// Clients that may CONFIG SET protected parameters
    enable_protected_configs: ProtectedAction = ProtectedAction::No
        => "enable-protected-configs", ProtectedAction::KIND, IMMUTABLE, Honoured;
    /// Clients that may use MODULE
    enable_module_command: ProtectedAction = ProtectedAction::No
        => "enable-module-command", ProtectedAction::KIND, IMMUTABLE, Honoured;
    /// Clients that may use DEBUG
    enable_debug_command: ProtectedAction = ProtectedAction::No
        => "enable-debug-command", ProtectedAction::KIND, IMMUTABLE, Honoured;
    /// File of ACL users
    aclfile: PathBuf = PathBuf::new() => "aclfile", TEXT, IMMUTABLE|SWITCH, Honoured;
    /// Entries that ACL LOG keeps
    acllog_max_len: u64 = 128 => "acllog-max-len", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Channels of a new ACL user
    acl_pubsub_default: AclPubsubDefault = AclPubsubDefault::Resetchannels
        => "acl-pubsub-default", AclPubsubDefault::KIND, MODIFIABLE, Honoured;

    // Data.

    /// Number of databases
    databases: u32 = 16 => "databases", Integer(1, INT_MAX), IMMUTABLE, Honoured;
    /// Fields up to which a hash is a listpack
    hash_max_listpack_entries: usize = 512
        => "hash-max-listpack-entries" | "hash-max-ziplist-entries", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Longest field or value of a hash that is a listpack
    hash_max_listpack_value: usize = 64
        => "hash-max-listpack-value" | "hash-max-ziplist-value", Memory(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Elements of a list node, or, negative, its size class from 4 kB (-1) to 64 kB (-5)
    list_max_listpack_size: i32 = -2 => "list-max-listpack-size" | "list-max-ziplist-size",
        Integer(i32::MIN as i128, INT_MAX), MODIFIABLE, Honoured;
    /// Members up to which a set of integers is an intset
    set_max_intset_entries: usize = 512 => "set-max-intset-entries", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Members up to which a set is a listpack
    set_max_listpack_entries: usize = 128 => "set-max-listpack-entries", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Longest member of a set that is a listpack
    set_max_listpack_value: usize = 64 => "set-max-listpack-value", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Members up to which a sorted set is a listpack
    zset_max_listpack_entries: usize = 128
        => "zset-max-listpack-entries" | "zset-max-ziplist-entries", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Longest member of a sorted set that is a listpack
    zset_max_listpack_value: usize = 64
        => "zset-max-listpack-value" | "zset-max-ziplist-value", Memory(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Bytes up to which a HyperLogLog stays sparse
    hll_sparse_max_bytes: usize = 3000 => "hll-sparse-max-bytes", Memory(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Bytes of a stream node
    stream_node_max_bytes: usize = 4096 => "stream-node-max-bytes", Memory(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Entries of a stream node
    stream_node_max_entries: u64 = 100 => "stream-node-max-entries", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Indexes of a slice of an array that is created
    array_slice_size: SliceSize = SliceSize(4096)
        => "array-slice-size", Integer(256, 65536), MODIFIABLE, Honoured;
    /// Elements up to which a slice of an array is sparse; 0 makes all dense
    array_sparse_kmax: u32 = 10 => "array-sparse-kmax", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Elements down to which a slice of an array becomes sparse again
    array_sparse_kmin: u32 = 5 => "array-sparse-kmin", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Seconds for which a stream remembers the names of producers (XADD IDMP), by default
    stream_idmp_duration_s: u32 = 100 => "stream-idmp-duration", Integer(1, 86400), MODIFIABLE, Honoured;
    /// Names of one producer that a stream remembers at most, by default
    stream_idmp_maxsize: u32 = 100 => "stream-idmp-maxsize", Integer(1, 10000), MODIFIABLE, Honoured;
    /// Whether the thread of its client runs every search of a vector set; else long ones are left to others
    vset_force_single_threaded_execution: bool = false
        => "vset-force-single-threaded-execution", YesNo, MODIFIABLE, Honoured;
    /// Share of absent items that a Bloom filter which BF.ADD creates reports as present
    bf_error_rate: ErrorRate = ErrorRate(0.01) => "bf-error-rate", Share, MODIFIABLE, Honoured;
    /// Items that such a filter has room for before it grows
    bf_initial_size: u64 = 100 => "bf-initial-size", Integer(1, 1 << 30), MODIFIABLE, Honoured;
    /// The growth of such a filter: the room of each further link beside the one before it; 0 for none
    bf_expansion_factor: u32 = 2 => "bf-expansion-factor", Integer(0, 32768), MODIFIABLE, Honoured;
    /// Items of a bucket of a cuckoo filter that CF.ADD creates; at most half of `cf-initial-size`
    cf_bucket_size: u16 = 2 => "cf-bucket-size", Integer(1, 255), MODIFIABLE, Honoured;
    /// Items that such a filter has room for before it grows; at least twice `cf-bucket-size`
    cf_initial_size: i64 = 1024 => "cf-initial-size", Integer(2, 1 << 30), MODIFIABLE, Honoured;
    /// Items that CF.ADD moves to make room before it lets such a filter grow
    cf_max_iterations: u16 = 20 => "cf-max-iterations", Integer(1, 65535), MODIFIABLE, Honoured;
    /// The growth of such a filter: the room of each further filter beside the one before it; 0 for none
    cf_expansion_factor: u16 = 1 => "cf-expansion-factor", Integer(0, 32768), MODIFIABLE, Honoured;
    /// Filters from which number on a cuckoo filter takes no more items
    cf_max_expansions: usize = 32 => "cf-max-expansions", Integer(1, 65536), MODIFIABLE, Honoured;
    /// Classes of keyspace events that are published
    notify_keyspace_events: KeyspaceEvents = KeyspaceEvents::default()
        => "notify-keyspace-events", Events, MODIFIABLE|SWITCH, Honoured;
    /// When RESTORE checks a payload in depth
    sanitize_dump_payload: SanitizeDumpPayload = SanitizeDumpPayload::No
        => "sanitize-dump-payload", SanitizeDumpPayload::KIND, MODIFIABLE, Moot("RESTORE checks every payload in depth");

    // Time and statistics.

    /// Background steps per second, kept between 1 and 500
    hz: u32 = 10 => "hz", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Milliseconds for which a thread may be busy before the log shows where all are, two background steps
    /// at least; 0 for ever
    watchdog_period_ms: u32 = 0 => "watchdog-period", Integer(0, INT_MAX), MODIFIABLE|HIDDEN, Honoured;
    /// Microseconds above which a command enters the slow log; negative logs none
    slowlog_log_slower_than_us: i64 = 10_000 => "slowlog-log-slower-than" | "commandlog-execution-slower-than",
        Integer(-1, LONG_MAX), MODIFIABLE, Honoured;
    /// Entries that the slow log keeps
    slowlog_max_len: u64 = 128 => "slowlog-max-len" | "commandlog-slow-execution-max-len",
        Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Arguments of a logged command that are kept; the last then says how many are not
    slowlog_entry_max_argc: u32 = 32 => "slowlog-entry-max-argc", Integer(2, INT_MAX), MODIFIABLE, Honoured;
    /// Bytes of each of them that are kept
    slowlog_entry_max_string_bytes: u64 = 128
        => "slowlog-entry-max-string-len", Integer(1, LONG_MAX), MODIFIABLE, Honoured;
    /// Bytes from which on a request enters the command log; negative logs none
    commandlog_request_larger_than_bytes: i64 = 1 << 20
        => "commandlog-request-larger-than", Integer(-1, LONG_MAX), MODIFIABLE, Honoured;
    /// Large requests that the command log keeps
    commandlog_large_request_max_len: u64 = 128
        => "commandlog-large-request-max-len", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Bytes from which on a reply enters the command log; negative logs none
    commandlog_reply_larger_than_bytes: i64 = 1 << 20
        => "commandlog-reply-larger-than", Integer(-1, LONG_MAX), MODIFIABLE, Honoured;
    /// Large replies that the command log keeps
    commandlog_large_reply_max_len: u64 = 128
        => "commandlog-large-reply-max-len", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Milliseconds above which LATENCY records an event; 0 records none
    latency_monitor_threshold_ms: u64 = 0
        => "latency-monitor-threshold", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Keep a histogram of each command's latency
    latency_tracking: bool = true => "latency-tracking", YesNo, MODIFIABLE, Honoured;
    /// Percentiles that INFO latencystats shows
    latency_tracking_info_percentiles: Vec<f64> = vec![50.0, 99.0, 99.9]
        => "latency-tracking-info-percentiles", Percentiles, MODIFIABLE|MULTI, Honoured;
    /// Keys that client-side caching remembers
    tracking_table_max_keys: u64 = 1_000_000
        => "tracking-table-max-keys", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Milliseconds after which a script lets other clients learn that the server is busy
    busy_reply_threshold_ms: u64 = 5000
        => "busy-reply-threshold" | "lua-time-limit", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Run scripts of which the server knows all parts without a Lua state
    native_scripts: bool = true => "martlet-native-scripts", YesNo, MODIFIABLE, Honoured;

    // Memory.

    /// Bytes of data above which room is made; 0 sets no limit
    maxmemory_bytes: u64 = 0 => "maxmemory", Memory(0, ULONG_MAX), MODIFIABLE|SWITCH, Honoured;
    /// The choice of keys to evict; `lrfu`, which only this server has, weighs how often and how lately a
    /// key was used, as LFU does, but follows changes of the hot keys: its counts age as the cache turns
    /// over, not by the minute
    maxmemory_policy: MaxmemoryPolicy = MaxmemoryPolicy::Noeviction
        => "maxmemory-policy", MaxmemoryPolicy::KIND, MODIFIABLE, Honoured;
    /// Keys that are looked at to find one to evict
    maxmemory_samples: u32 = 5 => "maxmemory-samples", Integer(1, 64), MODIFIABLE, Honoured;
    /// How hard one command tries to make room
    maxmemory_eviction_tenacity: u32 = 10
        => "maxmemory-eviction-tenacity", Integer(0, 100), MODIFIABLE, Honoured;
    /// Memory of all clients above which the largest are disconnected
    maxmemory_clients: MemoryLimit = MemoryLimit::Bytes(0)
        => "maxmemory-clients", MemoryOrPercent(LONG_MAX), MODIFIABLE|SWITCH, Honoured;
    /// How slowly the counter of a key's accesses rises
    lfu_log_factor: u32 = 10 => "lfu-log-factor", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Minutes after which a key's access counter is halved
    lfu_decay_time_minutes: u32 = 1 => "lfu-decay-time", Integer(0, INT_MAX), MODIFIABLE, Honoured;

    /// Let FLUSHALL and FLUSHDB answer before the removed values are freed, unless SYNC is given
    lazyfree_lazy_user_flush: bool = false => "lazyfree-lazy-user-flush", YesNo, MODIFIABLE, Honoured;
    /// Have replicas and replays free evicted values in the background
    lazyfree_lazy_eviction: bool = false => "lazyfree-lazy-eviction", YesNo, MODIFIABLE, Honoured;
    /// Have replicas and replays free expired values in the background
    lazyfree_lazy_expire: bool = false => "lazyfree-lazy-expire", YesNo, MODIFIABLE, Honoured;
    /// Have replicas and replays free emptied values in the background
    lazyfree_lazy_server_del: bool = false => "lazyfree-lazy-server-del", YesNo, MODIFIABLE, Honoured;

    // RDB files.

    /// Save points: seconds and changes
    save: SavePoints = SavePoints::standard() => "save", SaveList, MODIFIABLE|SWITCH|MULTI, Honoured;
    /// Name of the RDB file in `dir`
    dbfilename: PathBuf = "dump.rdb".into() => "dbfilename", Text(dbfilename), MODIFIABLE|PROTECTED, Honoured;
    /// Compress long strings in RDB files, each by itself, or with `lz4` or `zstd` the RDB file as a whole,
    /// as Valkey 9.2 does; the base of the append-only file is never compressed so
    rdbcompression: RdbCompression = RdbCompression::Yes
        => "rdbcompression", RdbCompression::KIND, MODIFIABLE, Honoured;
    /// Write and check the RDB file's checksum
    rdbchecksum: bool = true => "rdbchecksum", YesNo, IMMUTABLE, Honoured;
    /// Remove RDB files made for a full sync
    rdb_del_sync_files: bool = false => "rdb-del-sync-files", YesNo, MODIFIABLE, Honoured;
    /// Force an RDB file to disk while it is written
    rdb_save_incremental_fsync: bool = true => "rdb-save-incremental-fsync", YesNo, MODIFIABLE, Honoured;
    /// How strictly an RDB file's version is checked
    rdb_version_check: RdbVersionCheck = RdbVersionCheck::Strict
        => "rdb-version-check", RdbVersionCheck::KIND, MODIFIABLE, Honoured;
    /// Version of the RDB format that is written; `lowest` is 10, or 12 if fields of hashes expire, 13 or 14
    /// with what streams have since Redis 8.6 and 8.8, 14 with arrays, 17 if members of sets expire, 81
    /// with path hashes; 80 is Valkey 9.0's, 81 that of 9.2
    rdb_version: RdbVersion = RdbVersion::Lowest => "rdb-version", RdbVersion::KIND, MODIFIABLE, Honoured;
    /// Refuse writes after a failed background save
    stop_writes_on_bgsave_error: bool = true => "stop-writes-on-bgsave-error", YesNo, MODIFIABLE, Honoured;

    /// Microseconds to wait per key of a save; for tests
    rdb_key_save_delay_us: i32 = 0 => "rdb-key-save-delay", Integer(INT_MIN, INT_MAX), MODIFIABLE|HIDDEN, Honoured;
    /// Microseconds to wait per key of a load; for tests
    key_load_delay_us: i32 = 0 => "key-load-delay", Integer(INT_MIN, INT_MAX), MODIFIABLE|HIDDEN, Honoured;
    /// A smaller file is loaded before clients are accepted
    loading_process_events_interval_bytes: u32 = 2 << 20 => "loading-process-events-interval-bytes",
        Integer(1024, INT_MAX), MODIFIABLE|HIDDEN, Honoured;

    // Append-only file.

    /// Log every write to disk
    appendonly: bool = false => "appendonly", YesNo, MODIFIABLE|SWITCH, Honoured;
    /// Base name of the files
    appendfilename: PathBuf = "appendonly.aof".into() => "appendfilename", Text(appendfilename), IMMUTABLE, Honoured;
    /// Directory of the files in `dir`
    appenddirname: PathBuf = "appendonlydir".into() => "appenddirname", Text(appenddirname), IMMUTABLE, Honoured;
    /// When writes are forced to disk
    appendfsync: AppendFsync = AppendFsync::Everysec => "appendfsync", AppendFsync::KIND, MODIFIABLE, Honoured;
    /// Do not force to disk while a rewrite or save runs
    no_appendfsync_on_rewrite: bool = false => "no-appendfsync-on-rewrite", YesNo, MODIFIABLE, Honoured;
    /// Growth in percent that starts a rewrite; 0 starts none
    auto_aof_rewrite_percentage: u32 = 100
        => "auto-aof-rewrite-percentage", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Size below which no rewrite starts
    auto_aof_rewrite_min_size_bytes: u64 = 64 << 20
        => "auto-aof-rewrite-min-size", Memory(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Load a file whose end is missing
    aof_load_truncated: bool = true => "aof-load-truncated", YesNo, MODIFIABLE, Honoured;
    /// Cut off an end that is no command and shorter than this; bytes
    aof_load_corrupt_tail_max_size_bytes: u64 = 0
        => "aof-load-corrupt-tail-max-size", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Write the base file as RDB
    aof_use_rdb_preamble: bool = true => "aof-use-rdb-preamble", YesNo, MODIFIABLE, Honoured;
    /// Write the time into the files
    aof_timestamp_enabled: bool = false => "aof-timestamp-enabled", YesNo, MODIFIABLE, Honoured;
    /// Force a rewrite to disk while it is written
    aof_rewrite_incremental_fsync: bool = true => "aof-rewrite-incremental-fsync", YesNo, MODIFIABLE, Honoured;
    /// Keep files that a rewrite made superfluous
    aof_disable_auto_gc: bool = false => "aof-disable-auto-gc", YesNo, MODIFIABLE|HIDDEN, Honoured;

    // Replication.

    /// The server to copy
    replicaof: ReplicaOf = ReplicaOf::default() => "replicaof" | "slaveof", HostPort, IMMUTABLE|SWITCH|MULTI, Honoured;
    /// User for the primary
    masteruser: Option<String> = None => "masteruser" | "primaryuser", TEXT, MODIFIABLE|SENSITIVE, Honoured;
    /// Password for the primary
    masterauth: Option<Vec<u8>> = None => "masterauth" | "primaryauth", TEXT, MODIFIABLE|SENSITIVE, Honoured;
    /// Answer reads while the link to the primary is down
    replica_serve_stale_data: bool = true
        => "replica-serve-stale-data" | "slave-serve-stale-data", YesNo, MODIFIABLE, Honoured;
    /// Delete and evict nothing by itself while data is imported; CLIENT IMPORT-SOURCE sees expired keys
    import_mode: bool = false => "import-mode", YesNo, MODIFIABLE, Honoured;
    /// Refuse writes on a replica
    replica_read_only: bool = true => "replica-read-only" | "slave-read-only", YesNo, MODIFIABLE, Honoured;
    /// A replica evicts nothing by itself
    replica_ignore_maxmemory: bool = true
        => "replica-ignore-maxmemory" | "slave-ignore-maxmemory", YesNo, MODIFIABLE, Honoured;
    /// Continue when a replica's disk refuses writes
    replica_ignore_disk_write_errors: bool = false
        => "replica-ignore-disk-write-errors", YesNo, MODIFIABLE, Honoured;
    /// Count the data that a full sync removes as freed in the background, where it is freed anyhow
    replica_lazy_flush: bool = false => "replica-lazy-flush" | "slave-lazy-flush", YesNo, MODIFIABLE, Honoured;
    /// Rank in a failover; 0 is never promoted
    replica_priority: u32 = 100 => "replica-priority" | "slave-priority", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Show the replica in INFO of its primary
    replica_announced: bool = true => "replica-announced", YesNo, MODIFIABLE, Honoured;
    /// Address that the replica announces to its primary
    replica_announce_ip: Option<String> = None
        => "replica-announce-ip" | "slave-announce-ip", TEXT, MODIFIABLE, Honoured;
    /// Port that the replica announces to its primary
    replica_announce_port: u16 = 0
        => "replica-announce-port" | "slave-announce-port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// Bytes of the stream that a replica keeps during a full sync; 0 takes the replica's output limit
    replica_full_sync_buffer_limit_bytes: u64 = 0
        => "replica-full-sync-buffer-limit", Memory(0, ULONG_MAX), MODIFIABLE, Honoured;
    /// Replicas without which writes are refused
    min_replicas_to_write: u32 = 0
        => "min-replicas-to-write" | "min-slaves-to-write", Integer(0, INT_MAX), MODIFIABLE|SWITCH, Honoured;
    /// Replicas that must have the data of a reply before it leaves; 0 waits for none
    sync_replicas: u32 = 0
        => "martlet-sync-replicas", Integer(0, 1000), MODIFIABLE|SWITCH, Honoured;
    /// Seconds of lag after which a replica does not count
    min_replicas_max_lag_s: u32 = 10
        => "min-replicas-max-lag" | "min-slaves-max-lag", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Bytes of the replication backlog; CONFIG SET makes it 16 KB at least
    repl_backlog_size_bytes: u64 = 1 << 20 => "repl-backlog-size", Memory(1, LONG_MAX), MODIFIABLE, Honoured;
    /// Seconds that the backlog outlives the last replica
    repl_backlog_ttl_s: u64 = 3600 => "repl-backlog-ttl", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Seconds without data after which a link is broken
    repl_timeout_s: u32 = 60 => "repl-timeout", Integer(1, INT_MAX), MODIFIABLE, Honoured;
    /// Seconds between pings to replicas
    repl_ping_replica_period_s: u32 = 10
        => "repl-ping-replica-period" | "repl-ping-slave-period", Integer(1, INT_MAX), MODIFIABLE, Honoured;
    /// Let the kernel gather small packets to replicas
    repl_disable_tcp_nodelay: bool = false => "repl-disable-tcp-nodelay", YesNo, MODIFIABLE, Honoured;
    /// Send a full sync over the socket
    repl_diskless_sync: bool = true => "repl-diskless-sync", YesNo, MODIFIABLE, Honoured;
    /// Seconds that a full sync waits for further replicas
    repl_diskless_sync_delay_s: u32 = 5
        => "repl-diskless-sync-delay", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Replicas that start a full sync before the delay is over; 0 waits
    repl_diskless_sync_max_replicas: u32 = 0
        => "repl-diskless-sync-max-replicas", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Compress full syncs, and the stream behind them, between servers of this kind: `lz4` (or `yes`) or
    /// `zstd`, as both ends had it when the link began (Valkey 9.2); a number, Redis 8.10's level, compresses
    /// nothing
    repl_compression: String = "no".into() => "repl-compression", TEXT, MODIFIABLE, Honoured;
    /// How a replica loads a full sync from the socket
    repl_diskless_load: ReplDisklessLoad = ReplDisklessLoad::Disabled
        => "repl-diskless-load", ReplDisklessLoad::KIND, MODIFIABLE|DENY_LOADING, Honoured;
    /// Send or take a full sync over two connections
    repl_rdb_channel: bool = false
        => "repl-rdb-channel" | "dual-channel-replication-enabled", YesNo, MODIFIABLE, Honoured;
    /// What happens when a replicated or loaded command fails
    propagation_error_behavior: PropagationErrorBehavior = PropagationErrorBehavior::Ignore
        => "propagation-error-behavior", PropagationErrorBehavior::KIND, MODIFIABLE, Honoured;
    /// Local address of connections that the server opens
    bind_source_addr: Option<String> = None => "bind-source-addr", TEXT, MODIFIABLE, Honoured;

    // Cluster.

    /// Be a node of a cluster
    cluster_enabled: bool = false => "cluster-enabled", YesNo, IMMUTABLE|SWITCH, Honoured;
    /// File of the node's state, written by the node
    cluster_config_file: PathBuf = "nodes.conf".into()
        => "cluster-config-file", Text(cluster_config_file), IMMUTABLE, Honoured;
    /// Milliseconds after which a silent node is failing
    cluster_node_timeout_ms: u64 = 15_000 => "cluster-node-timeout", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Milliseconds between pings to random nodes
    cluster_ping_interval_ms: u64 = 0 => "cluster-ping-interval", Integer(0, LONG_MAX), MODIFIABLE|HIDDEN, Honoured;
    /// Port of the cluster bus; 0 is `port` + 10000
    cluster_port: u16 = 0 => "cluster-port", Integer(0, 65535), IMMUTABLE, Honoured;
    /// Staleness up to which a replica may be promoted
    cluster_replica_validity_factor: u32 = 10 => "cluster-replica-validity-factor" | "cluster-slave-validity-factor",
        Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Replicas that a primary keeps before one migrates
    cluster_migration_barrier: u32 = 1 => "cluster-migration-barrier", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Replicas may migrate to orphaned primaries
    cluster_allow_replica_migration: bool = true => "cluster-allow-replica-migration", YesNo, MODIFIABLE, Honoured;
    /// Refuse everything while a slot is uncovered
    cluster_require_full_coverage: bool = true => "cluster-require-full-coverage", YesNo, MODIFIABLE, Honoured;
    /// A replica never starts a failover
    cluster_replica_no_failover: bool = false
        => "cluster-replica-no-failover" | "cluster-slave-no-failover", YesNo, MODIFIABLE, Honoured;
    /// Answer reads while the cluster is down
    cluster_allow_reads_when_down: bool = false => "cluster-allow-reads-when-down", YesNo, MODIFIABLE, Honoured;
    /// Serve shard channels while the cluster is down
    cluster_allow_pubsubshard_when_down: bool = true
        => "cluster-allow-pubsubshard-when-down", YesNo, MODIFIABLE, Honoured;
    /// Bytes that a bus link may queue; 0 sets no limit
    cluster_link_sendbuf_limit_bytes: u64 = 0 => "cluster-link-sendbuf-limit", Memory(0, ULONG_MAX), MODIFIABLE, Honoured;
    /// Address that the node announces to others
    cluster_announce_ip: Option<String> = None
        => "cluster-announce-ip", Text(announced_address), MODIFIABLE, Honoured;
    /// IPv4 address that the node announces to clients
    cluster_announce_client_ipv4: Option<String> = None
        => "cluster-announce-client-ipv4", Text(ipv4), MODIFIABLE, Honoured;
    /// IPv6 address that the node announces to clients
    cluster_announce_client_ipv6: Option<String> = None
        => "cluster-announce-client-ipv6", Text(ipv6), MODIFIABLE, Honoured;
    /// Port that the node announces to others
    cluster_announce_port: u16 = 0 => "cluster-announce-port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// TLS port that the node announces to others
    cluster_announce_tls_port: u16 = 0 => "cluster-announce-tls-port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// Port that the node announces to clients; 0 is the one that other nodes get
    cluster_announce_client_port: u16 = 0 => "cluster-announce-client-port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// TLS port that the node announces to clients; 0 is the one that other nodes get
    cluster_announce_client_tls_port: u16 = 0
        => "cluster-announce-client-tls-port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// Bus port that the node announces to others
    cluster_announce_bus_port: u16 = 0 => "cluster-announce-bus-port", Integer(0, 65535), MODIFIABLE, Honoured;
    /// Host name that the node announces to others
    cluster_announce_hostname: Option<String> = None
        => "cluster-announce-hostname", Text(hostname), MODIFIABLE, Honoured;
    /// Name of the node for people
    cluster_announce_human_nodename: Option<String> = None
        => "cluster-announce-human-nodename", Text(nodename), MODIFIABLE, Honoured;
    /// Zone of the server, announced to clients and other nodes
    availability_zone: String = String::new() => "availability-zone", Text(zone), MODIFIABLE, Honoured;
    /// Behaviour of a node whose `cluster-config-file` cannot be written
    cluster_config_save_behavior: ClusterConfigSaveBehavior = ClusterConfigSaveBehavior::Sync
        => "cluster-config-save-behavior", ClusterConfigSaveBehavior::KIND, MODIFIABLE, Honoured;
    /// Address that redirections name
    cluster_preferred_endpoint_type: ClusterPreferredEndpointType = ClusterPreferredEndpointType::Ip
        => "cluster-preferred-endpoint-type", ClusterPreferredEndpointType::KIND, MODIFIABLE, Honoured;
    /// Count the use of each slot
    cluster_slot_stats_enabled: super::SlotMetrics = super::SlotMetrics::NONE
        => "cluster-slot-stats-enabled", SlotMetrics, MODIFIABLE|MULTI, Honoured;
    /// Number of databases of a node
    cluster_databases: u32 = 1 => "cluster-databases", Integer(1, INT_MAX), IMMUTABLE, Honoured;
    /// Seconds that a forgotten node stays forgotten
    cluster_blacklist_ttl_s: u64 = 60 => "cluster-blacklist-ttl", Integer(0, ULONG_MAX), MODIFIABLE, Honoured;
    /// Milliseconds that a manual failover may take
    cluster_manual_failover_timeout_ms: u32 = 5000
        => "cluster-manual-failover-timeout", Integer(1, INT_MAX), MODIFIABLE, Honoured;
    /// Finished slot migrations that GETSLOTMIGRATIONS lists
    cluster_slot_migration_log_max_len: u32 = 1000
        => "cluster-slot-migration-log-max-len", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Bytes that the target of a slot migration may be behind when writes begin to wait (CLUSTER MIGRATION)
    cluster_slot_migration_handoff_max_lag_bytes: u64 = 1 << 20
        => "cluster-slot-migration-handoff-max-lag-bytes", Memory(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Milliseconds for which such a migration may have writes wait
    cluster_slot_migration_write_pause_timeout_ms: u64 = 10_000
        => "cluster-slot-migration-write-pause-timeout", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Milliseconds after which a target that falls behind is given up
    cluster_slot_migration_sync_buffer_drain_timeout_ms: u64 = 60_000
        => "cluster-slot-migration-sync-buffer-drain-timeout", Integer(0, LONG_MAX), MODIFIABLE|HIDDEN, Honoured;
    /// Finished migrations that CLUSTER MIGRATION STATUS lists
    cluster_slot_migration_max_archived_tasks: u32 = 32
        => "cluster-slot-migration-max-archived-tasks", Integer(1, INT_MAX), MODIFIABLE|HIDDEN, Honoured;
    /// Bytes of changes that may be unsent when a slot migration has writes wait
    slot_migration_max_failover_repl_bytes: i64 = 0
        => "slot-migration-max-failover-repl-bytes", Integer(-1, LONG_MAX), MODIFIABLE, Honoured;
    /// Percentage of commands that are checked for whether a cluster could run them
    cluster_compatibility_sample_ratio: u32 = 0
        => "cluster-compatibility-sample-ratio", Integer(0, 100), MODIFIABLE, Honoured;

    // TLS.

    /// TLS port; 0 listens on none
    tls_port: u16 = 0 => "tls-port", Integer(0, 65535), MODIFIABLE|SWITCH, Honoured;
    /// Certificate of the server
    tls_cert_file: Option<PathBuf> = None => "tls-cert-file", TEXT, MODIFIABLE|REREAD, Honoured;
    /// Key of the certificate
    tls_key_file: Option<PathBuf> = None => "tls-key-file", TEXT, MODIFIABLE|REREAD, Honoured;
    /// Password of the key, if that is encrypted (PKCS #8)
    tls_key_file_pass: Option<Vec<u8>> = None => "tls-key-file-pass", TEXT, MODIFIABLE|SENSITIVE, Honoured;
    /// Second certificate of the server, for clients that cannot verify the first (Valkey 9.2)
    tls_alt_cert_file: Option<PathBuf> = None => "tls-alt-cert-file", TEXT, MODIFIABLE|REREAD, Honoured;
    /// Key of the second certificate
    tls_alt_key_file: Option<PathBuf> = None => "tls-alt-key-file", TEXT, MODIFIABLE|REREAD, Honoured;
    /// Password of the second key, if that is encrypted (PKCS #8)
    tls_alt_key_file_pass: Option<Vec<u8>> = None => "tls-alt-key-file-pass", TEXT, MODIFIABLE|SENSITIVE, Honoured;
    /// Names, with spaces between, of which the certificate of a primary, a node or a MIGRATE's target must
    /// have one; none: any will do (Redis 8.10)
    tls_expected_peer_name: Option<String> = None
        => "tls-expected-peer-name", Text(peer_names), MODIFIABLE, Honoured;
    /// Groups for the exchange of keys, the preferred first, with colons between (Redis 8.10)
    tls_groups: Option<String> = None => "tls-groups", TEXT, MODIFIABLE, Honoured;
    /// Certificate for outgoing connections
    tls_client_cert_file: Option<PathBuf> = None => "tls-client-cert-file", TEXT, MODIFIABLE, Honoured;
    /// Key for outgoing connections
    tls_client_key_file: Option<PathBuf> = None => "tls-client-key-file", TEXT, MODIFIABLE, Honoured;
    /// Password of the key for outgoing connections
    tls_client_key_file_pass: Option<Vec<u8>> = None => "tls-client-key-file-pass", TEXT, MODIFIABLE|SENSITIVE, Honoured;
    /// Diffie-Hellman parameters
    tls_dh_params_file: Option<PathBuf> = None => "tls-dh-params-file", TEXT, MODIFIABLE, TLS_DH;
    /// Certificates of trusted authorities
    tls_ca_cert_file: Option<PathBuf> = None => "tls-ca-cert-file", TEXT, MODIFIABLE|REREAD, Honoured;
    /// Directory of trusted authorities
    tls_ca_cert_dir: Option<PathBuf> = None => "tls-ca-cert-dir", TEXT, MODIFIABLE|REREAD, Honoured;
    /// Whether clients must show a certificate
    tls_auth_clients: TlsAuthClients = TlsAuthClients::Yes
        => "tls-auth-clients", TlsAuthClients::KIND, MODIFIABLE, Honoured;
    /// What in a client's certificate names the user that it is logged in as
    tls_auth_clients_user: TlsAuthClientsUser = TlsAuthClientsUser::Off
        => "tls-auth-clients-user", TlsAuthClientsUser::KIND, MODIFIABLE, Honoured;
    /// Seconds between looks at whether the files of TLS have changed; 0 never looks
    tls_auto_reload_interval_s: u32 = 0 => "tls-auto-reload-interval", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Replicate over TLS
    tls_replication: bool = false => "tls-replication", YesNo, MODIFIABLE, Honoured;
    /// Use TLS on the cluster bus
    tls_cluster: bool = false => "tls-cluster", YesNo, MODIFIABLE|SWITCH, Honoured;
    /// Versions of TLS that are allowed
    tls_protocols: Option<String> = None => "tls-protocols", TEXT, MODIFIABLE, Honoured;
    /// Ciphers up to TLS 1.2
    tls_ciphers: Option<String> = None => "tls-ciphers", TEXT, MODIFIABLE, Honoured;
    /// Ciphers of TLS 1.3
    tls_ciphersuites: Option<String> = None => "tls-ciphersuites", TEXT, MODIFIABLE, Honoured;
    /// Prefer the server's order of ciphers
    tls_prefer_server_ciphers: bool = false => "tls-prefer-server-ciphers", YesNo, MODIFIABLE, Honoured;
    /// Let clients resume sessions
    tls_session_caching: bool = true => "tls-session-caching", YesNo, MODIFIABLE, Honoured;
    /// Sessions that are kept
    tls_session_cache_size: u32 = 20_480 => "tls-session-cache-size", Integer(0, INT_MAX), MODIFIABLE, Honoured;
    /// Seconds that a session is kept
    tls_session_cache_timeout_s: u32 = 300 => "tls-session-cache-timeout", Integer(0, INT_MAX), MODIFIABLE, TLS_TIME;
}

impl Config {
    /// How many databases there are.
    pub fn database_count(&self) -> usize {
        (if self.cluster_enabled { self.cluster_databases } else { self.databases }) as usize
    }

    /// Whether the data is to be found on disk after the end of the process.
    pub fn has_persistence(&self) -> bool {
        self.appendonly || !self.save.0.is_empty()
    }

    /// Brings values that are only hints into their range.
    pub(super) fn normalise(&mut self) {
        self.hz = self.hz.clamp(1, 500);
        if self.watchdog_period_ms > 0 {
            self.watchdog_period_ms = self.watchdog_period_ms.max(2 * (1000 / self.hz));
        }
    }

    /// Raises what CONFIG SET has changed to the least that is of use; the start takes any, as in Redis.
    pub(super) fn raise_changed(&mut self, old: &Config) {
        if self.repl_backlog_size_bytes != old.repl_backlog_size_bytes {
            self.repl_backlog_size_bytes = self.repl_backlog_size_bytes.max(REPL_BACKLOG_MIN_BYTES);
        }
    }
}

impl Section for Config {
    fn of(config: &Config) -> &Self {
        config
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        config
    }
}
