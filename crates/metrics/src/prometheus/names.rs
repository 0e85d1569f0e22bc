//! What INFO's fields are called as metrics: as redis_exporter (v1.80 and later) calls them where it knows
//! them, so that boards made for it work; all others by the name that they have.

/// Whether a metric only grows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It goes up and down.
    Gauge,
    /// It only grows, until the server starts again.
    Counter,
}

/// The name without `redis_`, and the kind, of a field whose value is a number, `ok` or `err`.
pub(super) fn of_field(field: &str) -> (&str, Kind) {
    let find = |table: &'static [(&'static str, &'static str)]| {
        let at = table.binary_search_by_key(&field, |(name, _)| name).ok()?;
        table.get(at).map(|(_, metric)| *metric)
    };
    match (find(GAUGES), find(COUNTERS)) {
        (Some(metric), _) => (metric, Kind::Gauge),
        (_, Some(metric)) => (metric, Kind::Counter),
        _ => (field, Kind::Gauge),
    }
}

/// Divisor that turns a field's number into its metric's unit.
pub(super) fn divisor(field: &str) -> f64 {
    match field {
        "latest_fork_usec" => 1e6,
        "expired_lag_max_ms" | "expired_lag_p50_ms" | "expired_lag_p99_ms" => 1e3,
        _ => 1.0,
    }
}

/// Whether a field's number names something, or says what another field says in its metric's unit.
pub(super) fn is_left_out(field: &str) -> bool {
    matches!(field, "arch_bits" | "tcp_port" | "master_port" | "run_id" | "uptime_in_days")
        || field.starts_with("redis_")
}

/// Fields and metrics, in the order of fields.
const GAUGES: &[(&str, &str)] = &[
    ("active_defrag_hits", "defrag_hits"),
    ("active_defrag_key_hits", "defrag_key_hits"),
    ("active_defrag_key_misses", "defrag_key_misses"),
    ("active_defrag_misses", "defrag_misses"),
    ("allocator_active", "allocator_active_bytes"),
    ("allocator_allocated", "allocator_allocated_bytes"),
    ("allocator_muzzy", "allocator_muzzy_bytes"),
    ("allocator_resident", "allocator_resident_bytes"),
    ("aof_base_size", "aof_base_size_bytes"),
    ("aof_current_rewrite_time_sec", "aof_current_rewrite_duration_sec"),
    ("aof_current_size", "aof_current_size_bytes"),
    ("aof_last_cow_size", "aof_last_cow_size_bytes"),
    ("aof_last_rewrite_time_sec", "aof_last_rewrite_duration_sec"),
    ("client_recent_max_input_buffer", "client_recent_max_input_buffer_bytes"),
    ("client_recent_max_output_buffer", "client_recent_max_output_buffer_bytes"),
    ("cluster_stats_messages_received", "cluster_messages_received_total"),
    ("cluster_stats_messages_sent", "cluster_messages_sent_total"),
    ("current_eviction_exceeded_time", "current_eviction_exceeded_time_ms"),
    ("current_save_keys_total", "current_save_keys"),
    ("expired_lag_max_ms", "expired_lag_max_seconds"),
    ("expired_lag_p50_ms", "expired_lag_p50_seconds"),
    ("expired_lag_p99_ms", "expired_lag_p99_seconds"),
    ("expired_stale_perc", "expired_stale_percentage"),
    ("instantaneous_ops_per_sec", "instantaneous_ops_per_second"),
    ("latest_fork_usec", "latest_fork_seconds"),
    ("loading", "loading_dump_file"),
    ("maxclients", "max_clients"),
    ("maxmemory", "memory_max_bytes"),
    ("mem_aof_buffer", "mem_aof_buffer_bytes"),
    ("mem_cluster_links", "mem_cluster_links_bytes"),
    ("mem_not_counted_for_evict", "mem_not_counted_for_eviction_bytes"),
    ("mem_overhead_db_hashtable_rehashing", "mem_overhead_db_hashtable_rehashing_bytes"),
    ("mem_replication_backlog", "mem_replication_backlog_bytes"),
    ("mem_total_replication_buffers", "mem_total_replication_buffers_bytes"),
    ("migrate_cached_sockets", "migrate_cached_sockets_total"),
    ("rdb_current_bgsave_time_sec", "rdb_current_bgsave_duration_sec"),
    ("rdb_last_bgsave_time_sec", "rdb_last_bgsave_duration_sec"),
    ("rdb_last_cow_size", "rdb_last_cow_size_bytes"),
    ("rdb_last_load_keys_expired", "rdb_last_load_expired_keys"),
    ("rdb_last_load_keys_loaded", "rdb_last_load_loaded_keys"),
    ("rdb_last_save_time", "rdb_last_save_timestamp_seconds"),
    ("rdb_saves", "rdb_saves_total"),
    ("repl_backlog_active", "repl_backlog_is_active"),
    ("repl_backlog_histlen", "repl_backlog_history_bytes"),
    ("repl_backlog_size", "replication_backlog_bytes"),
    ("sync_full", "replica_resyncs_full"),
    ("sync_partial_err", "replica_partial_resync_denied"),
    ("sync_partial_ok", "replica_partial_resync_accepted"),
    ("total_system_memory", "total_system_memory_bytes"),
    ("used_memory", "memory_used_bytes"),
    ("used_memory_dataset", "memory_used_dataset_bytes"),
    ("used_memory_functions", "memory_used_functions_bytes"),
    ("used_memory_lua", "memory_used_lua_bytes"),
    ("used_memory_overhead", "memory_used_overhead_bytes"),
    ("used_memory_peak", "memory_used_peak_bytes"),
    ("used_memory_rss", "memory_used_rss_bytes"),
    ("used_memory_scripts", "memory_used_scripts_bytes"),
    ("used_memory_scripts_eval", "memory_used_scripts_eval_bytes"),
    ("used_memory_startup", "memory_used_startup_bytes"),
    ("used_memory_vm_eval", "memory_used_vm_eval_bytes"),
    ("used_memory_vm_functions", "memory_used_vm_functions_bytes"),
    ("used_memory_vm_total", "memory_used_vm_total"),
];

/// Fields that only grow.
const COUNTERS: &[(&str, &str)] = &[
    ("acl_access_denied_auth", "acl_access_denied_auth_total"),
    ("acl_access_denied_channel", "acl_access_denied_channel_total"),
    ("acl_access_denied_cmd", "acl_access_denied_cmd_total"),
    ("acl_access_denied_key", "acl_access_denied_key_total"),
    ("client_output_buffer_limit_disconnections", "client_output_buffer_limit_disconnections_total"),
    ("client_query_buffer_limit_disconnections", "client_query_buffer_limit_disconnections_total"),
    ("dump_payload_sanitizations", "dump_payload_sanitizations"),
    ("eventloop_cycles", "eventloop_cycles_total"),
    ("eventloop_duration_cmd_sum", "eventloop_duration_cmd_sum_usec_total"),
    ("eventloop_duration_sum", "eventloop_duration_sum_usec_total"),
    ("evicted_clients", "evicted_clients_total"),
    ("evicted_keys", "evicted_keys_total"),
    ("evicted_scripts", "evicted_scripts_total"),
    ("expire_cycle_cpu_milliseconds", "expire_cycle_cpu_time_ms_total"),
    ("expired_keys", "expired_keys_total"),
    ("expired_subkeys", "expired_subkeys_total"),
    ("expired_time_cap_reached_count", "expired_time_cap_reached_total"),
    ("gate_failed_tries", "gate_failed_tries_total"),
    ("gate_wait_usec", "gate_wait_usec_total"),
    ("gate_waits", "gate_waits_total"),
    ("io_threaded_reads_processed", "io_threaded_reads_processed"),
    ("io_threaded_writes_processed", "io_threaded_writes_processed"),
    ("keyspace_hits", "keyspace_hits_total"),
    ("keyspace_misses", "keyspace_misses_total"),
    ("messages_between_threads", "messages_between_threads_total"),
    ("moved_connections", "moved_connections_total"),
    ("rejected_connections", "rejected_connections_total"),
    ("reply_buffer_expands", "reply_buffer_expands_total"),
    ("reply_buffer_shrinks", "reply_buffer_shrinks_total"),
    ("scripts_in_lua", "scripts_in_lua_total"),
    ("scripts_left_to_lua", "scripts_left_to_lua_total"),
    ("scripts_native", "scripts_native_total"),
    ("shard_lock_failed_tries", "shard_lock_failed_tries_total"),
    ("shard_lock_wait_usec", "shard_lock_wait_usec_total"),
    ("shard_lock_waits", "shard_lock_waits_total"),
    ("total_commands_processed", "commands_processed_total"),
    ("total_connections_received", "connections_received_total"),
    ("total_error_replies", "total_error_replies"),
    ("total_eviction_exceeded_time", "eviction_exceeded_time_ms_total"),
    ("total_forks", "forks_total"),
    ("total_net_input_bytes", "net_input_bytes_total"),
    ("total_net_output_bytes", "net_output_bytes_total"),
    ("total_net_repl_input_bytes", "net_repl_input_bytes_total"),
    ("total_net_repl_output_bytes", "net_repl_output_bytes_total"),
    ("total_reads_processed", "total_reads_processed"),
    ("total_writes_processed", "total_writes_processed"),
    ("unexpected_error_replies", "unexpected_error_replies"),
    ("used_active_time_main_thread", "active_time_main_thread_seconds_total"),
    ("used_cpu_sys", "cpu_sys_seconds_total"),
    ("used_cpu_sys_children", "cpu_sys_children_seconds_total"),
    ("used_cpu_sys_main_thread", "cpu_sys_main_thread_seconds_total"),
    ("used_cpu_user", "cpu_user_seconds_total"),
    ("used_cpu_user_children", "cpu_user_children_seconds_total"),
    ("used_cpu_user_main_thread", "cpu_user_main_thread_seconds_total"),
];
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_order_and_in_one_table() {
        for table in [GAUGES, COUNTERS] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
        }
        assert!(GAUGES.iter().all(|(field, _)| COUNTERS.binary_search_by_key(field, |(f, _)| f).is_err()));
        assert_eq!(of_field("used_memory"), ("memory_used_bytes", Kind::Gauge));
        assert_eq!(of_field("evicted_keys"), ("evicted_keys_total", Kind::Counter));
        assert_eq!(of_field("blocked_clients"), ("blocked_clients", Kind::Gauge));
        assert_eq!(of_field("expired_lag_p99_ms"), ("expired_lag_p99_seconds", Kind::Gauge));
        assert_eq!((divisor("expired_lag_p99_ms"), divisor("used_memory")), (1000.0, 1.0));
        assert!(is_left_out("uptime_in_days") && !is_left_out("uptime_in_seconds"));
    }
}
