//! The parameters of search, with the names that Redis 8 gives them. FT.CONFIG knows them by older names.
//!
//! Defaults and bounds are those of RediSearch 8, as its documentation and tests give them. Where FT.CONFIG
//! of RediSearch 2.10 takes 0, so does the parameter. The dialect stays 1 unless it is set.

use super::Config;
use super::enumerations::{DefaultScorer, OnTimeout};
use super::table::Effect::{Absent, Honoured, Moot};
use super::table::{Section, parameter_table};
use super::value::Kind::*;
use super::value::TEXT;

const UINT_MAX: i128 = u32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
/// The most results; a limit of so many is shown as none by FT.CONFIG.
pub const RESULTS_MAX: u64 = 1 << 31;
const RESULTS: super::Kind = Integer(0, RESULTS_MAX as i128);

const OWN_COLLECTION: super::Effect =
    Moot("indexes drop what gone documents have left by small steps, and never fork");
const OWN_INDEX: super::Effect = Moot("indexes have data structures of this server's own");
const OWN_THREADS: super::Effect = Moot("long searches run on computing threads of this server's own");
const OWN_SCAN: super::Effect = Moot("scans hold a shard for microseconds at a time");
const FIXED_TERMS: super::Effect =
    Moot("terms of documents and of queries are made by the same fixed rules, so that they agree");
const NO_EXTENSIONS: super::Effect = Moot("this server loads no libraries");
const OWN_NODES: super::Effect = Moot("nodes of a cluster talk to each other by this server's own rules");

parameter_table! {
    /// The parameters of search.
    struct SearchParameters;

    /// The dialect of queries that do not name one
    default_dialect: u32 = 1 => "search-default-dialect", Integer(1, 4), MODIFIABLE, Honoured;
    /// Milliseconds that a search may take; 0 is unlimited
    timeout_ms: u64 = 500 => "search-timeout", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// What a search gives that takes longer: the results so far, or an error
    on_timeout: OnTimeout = OnTimeout::Return => "search-on-timeout", OnTimeout::KIND, MODIFIABLE, Honoured;
    /// How documents are scored whose query names no scorer
    default_scorer: DefaultScorer = DefaultScorer::Bm25Std
        => "search-default-scorer", DefaultScorer::KIND, MODIFIABLE, Honoured;
    /// The most results of FT.SEARCH
    max_search_results: u64 = 1_000_000 => "search-max-search-results", RESULTS, MODIFIABLE, Honoured;
    /// The most results of FT.AGGREGATE
    max_aggregate_results: u64 = RESULTS_MAX => "search-max-aggregate-results", RESULTS, MODIFIABLE, Honoured;
    /// The most terms that a prefix or another pattern of a query stands for
    max_prefix_expansions: u64 = 200
        => "search-max-prefix-expansions", Integer(1, LONG_MAX), MODIFIABLE, Honoured;
    /// The fewest bytes of a prefix in a query
    min_prefix: u64 = 2 => "search-min-prefix", Integer(1, LONG_MAX), MODIFIABLE, Honoured;
    /// The longest time, milliseconds, that a cursor may be idle
    cursor_max_idle_ms: u64 = 300_000 => "search-cursor-max-idle", Integer(1, LONG_MAX), MODIFIABLE, Honoured;
    /// The most cursors of an index
    index_cursor_limit: u64 = 128 => "search-index-cursor-limit", Integer(0, LONG_MAX), MODIFIABLE, Honoured;
    /// Show times in the reply of FT.PROFILE
    print_profile_clock: bool = true => "search-_print-profile-clock", YesNo, MODIFIABLE, Honoured;

    /// The divisor of scores in BM25STD.TANH
    bm25std_tanh_factor: u32 = 4
        => "search-bm25std-tanh-factor", Integer(1, 10_000), MODIFIABLE, Absent("another divisor than 4 in BM25STD.TANH");
    /// The shortest word that has a stem
    min_stem_len: u32 = 4 => "search-min-stem-len", Integer(2, UINT_MAX), MODIFIABLE, FIXED_TERMS;
    /// The shortest word that has a sound
    min_phonetic_term_len: u64 = 3
        => "search-min-phonetic-term-len", Integer(1, LONG_MAX), MODIFIABLE, FIXED_TERMS;
    /// Places between the texts of an array
    multi_text_slop: u32 = 100 => "search-multi-text-slop", Integer(1, UINT_MAX), IMMUTABLE, FIXED_TERMS;
    /// Threads for searches
    workers: u32 = 0 => "search-workers", Integer(0, 16), MODIFIABLE, OWN_THREADS;
    /// Threads for searches while indexes are built
    min_operation_workers: u32 = 4
        => "search-min-operation-workers", Integer(1, 16), MODIFIABLE, OWN_THREADS;
    /// Urgent work that goes before other work
    workers_priority_bias_threshold: u64 = 1
        => "search-workers-priority-bias-threshold", Integer(0, LONG_MAX), IMMUTABLE, OWN_THREADS;
    /// Threads for searches over a cluster
    threads: u64 = 20 => "search-threads", Integer(1, LONG_MAX), IMMUTABLE, OWN_NODES;
    /// Connections to each node of a cluster; 0 chooses
    conn_per_shard: u32 = 0 => "search-conn-per-shard", Integer(0, UINT_MAX), MODIFIABLE, OWN_NODES;
    /// Results that are left of a node's reply when the next one is asked for
    cursor_reply_threshold: u64 = 1
        => "search-cursor-reply-threshold", Integer(1, LONG_MAX), MODIFIABLE, OWN_NODES;
    /// Milliseconds that a search waits for a cluster that is whole
    topology_validation_timeout_ms: u64 = 30_000
        => "search-topology-validation-timeout", Integer(0, LONG_MAX), MODIFIABLE, OWN_NODES;
    /// The most documents of a table
    max_doctablesize: u64 = 1_000_000 => "search-max-doctablesize", Integer(1, 100_000_000), IMMUTABLE, OWN_INDEX;
    /// From how many parts on a union is merged by a heap
    union_iterator_heap: u64 = 20
        => "search-union-iterator-heap", Integer(1, LONG_MAX), MODIFIABLE, OWN_INDEX;
    /// The most bytes by which an index of vectors grows at once; 0 chooses
    vss_max_resize: u64 = 0 => "search-vss-max-resize", Integer(0, LONG_MAX), MODIFIABLE, OWN_INDEX;
    /// Vectors that wait for their place in a graph
    tiered_hnsw_buffer_limit: u64 = 1024
        => "search-tiered-hnsw-buffer-limit", Integer(0, LONG_MAX), IMMUTABLE, OWN_INDEX;
    /// Keep ids of documents uncompressed
    raw_docid_encoding: bool = false => "search-raw-docid-encoding", YesNo, IMMUTABLE, OWN_INDEX;
    /// Allocate nodes of queries one by one
    no_mem_pools: bool = false => "search-no-mem-pools", YesNo, IMMUTABLE, OWN_INDEX;
    /// Pass over writes that change no field of an index
    partial_indexed_docs: bool = false
        => "search-partial-indexed-docs", YesNo, IMMUTABLE, Moot("an unchanged document is always passed over");
    /// Keep numbers in single precision
    numeric_compress: bool = false => "search-_numeric-compress", YesNo, MODIFIABLE, OWN_INDEX;
    /// Levels of a numeric tree that keep ranges above its leaves
    numeric_ranges_parents: u32 = 0 => "search-_numeric-ranges-parents", Integer(0, 2), MODIFIABLE, OWN_INDEX;
    /// Free indexes on a thread of their own
    free_resource_on_thread: bool = true
        => "search-_free-resource-on-thread", YesNo, MODIFIABLE, Moot("values are always freed in the background");
    /// Weigh unions by their parts where an intersection orders its parts
    prioritize_intersect_union_children: bool = false
        => "search-_prioritize-intersect-union-children", YesNo, MODIFIABLE, OWN_INDEX;
    /// Switch off the collection of what gone documents have left
    no_gc: bool = false => "search-no-gc", YesNo, IMMUTABLE, OWN_COLLECTION;
    /// Documents that a collection looks at in one go
    gc_scan_size: u64 = 100 => "search-gc-scan-size", Integer(1, LONG_MAX), MODIFIABLE, OWN_COLLECTION;
    /// Gone documents that begin a collection
    fork_gc_clean_threshold: u64 = 100
        => "search-fork-gc-clean-threshold", Integer(0, LONG_MAX), MODIFIABLE, OWN_COLLECTION;
    /// Seconds between two collections
    fork_gc_run_interval_s: u64 = 30
        => "search-fork-gc-run-interval", Integer(1, LONG_MAX), MODIFIABLE, OWN_COLLECTION;
    /// Seconds after a collection that has failed
    fork_gc_retry_interval_s: u64 = 5
        => "search-fork-gc-retry-interval", Integer(1, LONG_MAX), MODIFIABLE, OWN_COLLECTION;
    /// Seconds that a collection waits at its end
    fork_gc_sleep_before_exit_s: u64 = 0
        => "search-fork-gc-sleep-before-exit", Integer(0, LONG_MAX), MODIFIABLE, OWN_COLLECTION;
    /// Keys that a scan takes up before it gives way
    bg_index_sleep_gap: u32 = 100 => "search-bg-index-sleep-gap", Integer(1, UINT_MAX), IMMUTABLE, OWN_SCAN;
    /// Documents that are indexed while a file is loaded before others have their turn
    indexer_yield_every_ops: u32 = 1000
        => "search-indexer-yield-every-ops", Integer(1, UINT_MAX), MODIFIABLE, OWN_SCAN;
    /// The part of the memory, per cent, at which a scan stops
    bg_index_mem_pct_thr: u32 = 100 => "search-_bg-index-mem-pct-thr", Integer(0, 100), MODIFIABLE, OWN_SCAN;
    /// Seconds that a scan waits which finds no memory
    bg_index_oom_pause_time_s: u32 = 0
        => "search-_bg-index-oom-pause-time", Integer(0, UINT_MAX), MODIFIABLE, OWN_SCAN;
    /// Allow what RediSearch has for trial
    enable_unstable_features: bool = false
        => "search-enable-unstable-features", YesNo, MODIFIABLE, Moot("there are no features for trial");
    /// A library with scorers and expanders
    ext_load: Vec<u8> = Vec::new() => "search-ext-load", TEXT, IMMUTABLE, NO_EXTENSIONS;
    /// The file that configures the dictionary of Chinese words
    friso_ini: Vec<u8> = Vec::new()
        => "search-friso-ini", TEXT, IMMUTABLE, Moot("Chinese text is segmented without a dictionary");
}

impl Section for SearchParameters {
    fn of(config: &Config) -> &Self {
        &config.search
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        &mut config.search
    }
}
