//! INFO's sections on the server's activity: counts and times.

use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_base::sync::waits::{GATE, LOCKS};
use martlet_engine::Counters;

use super::Text;
use crate::pubsub::hub::Kind;
use crate::runtime::Worker;
use crate::stats::{ThreadStats, command_totals, expiry_lag, percentile};

pub(super) fn stats(worker: &mut Worker, text: &mut Text) {
    let shared = worker.shared;
    let stats = &shared.stats;
    let thread = |counter: fn(&ThreadStats) -> u64| shared.threads.iter().map(|t| counter(t)).sum::<u64>();
    let engine = |counter: fn(&Counters) -> u64| shared.engine.sum(counter);
    let rates = lock(&stats.rates).per_second();
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    let is_valkey = worker.presentation().is_valkey();
    text.title("Stats");
    text.field("total_connections_received", thread(|t| t.connections_received.get()));
    text.field("total_commands_processed", thread(|t| t.total_commands.get()));
    text.field("instantaneous_ops_per_sec", rates.commands);
    text.field("total_net_input_bytes", thread(|t| t.net_input_bytes.get()));
    text.field("total_net_output_bytes", thread(|t| t.net_output_bytes.get()));
    text.field("total_net_repl_input_bytes", 0);
    text.field("total_net_repl_output_bytes", shared.replication.primary.sent_bytes.load(Ordering::Relaxed));
    if let Some(node) = shared.cluster() {
        let migrations = &node.migrations;
        text.field("total_net_cluster_slot_import_bytes", migrations.imported_bytes());
        let exported = migrations.exported_bytes.load(Ordering::Relaxed);
        text.field("total_net_cluster_slot_export_bytes", exported);
    } else if is_valkey {
        text.field("total_net_cluster_slot_import_bytes", 0);
        text.field("total_net_cluster_slot_export_bytes", 0);
    }
    text.field("instantaneous_input_kbps", kbps(rates.input_bytes));
    text.field("instantaneous_output_kbps", kbps(rates.output_bytes));
    text.field("instantaneous_input_repl_kbps", "0.00");
    text.field("instantaneous_output_repl_kbps", "0.00");
    text.field("rejected_connections", stats.rejected_connections.load(Ordering::Relaxed));
    if !worker.config().priority_subnets.is_empty() {
        text.field("rejected_priority_connections", stats.rejected_prioritized.load(Ordering::Relaxed));
    }
    text.field("sync_full", stats.sync_full.load(Ordering::Relaxed));
    text.field("sync_partial_ok", stats.sync_partial.load(Ordering::Relaxed));
    text.field("sync_partial_err", stats.sync_partial_refused.load(Ordering::Relaxed));
    expiry(worker, text);
    text.field("evicted_keys", engine(|c| c.evicted_keys.get()));
    text.field("evicted_clients", stats.evicted_clients.load(Ordering::Relaxed));
    text.field("evicted_scripts", shared.scripts.evicted.load(Ordering::Relaxed));
    let (total_us, current_us) = stats.eviction_us(shared.clock.unix_us());
    text.field("total_eviction_exceeded_time", total_us / 1000);
    text.field("current_eviction_exceeded_time", current_us / 1000);
    text.field("keyspace_hits", engine(|c| c.keyspace_hits.get()));
    text.field("keyspace_misses", engine(|c| c.keyspace_misses.get()));
    text.field("pubsub_channels", shared.hub.count(Kind::Channel));
    text.field("pubsub_patterns", shared.hub.count(Kind::Pattern));
    text.field("pubsubshard_channels", shared.hub.count(Kind::Shard));
    text.field("latest_fork_usec", 0);
    text.field("total_forks", 0);
    text.field("migrate_cached_sockets", shared.migrations.kept.count());
    text.field("slave_expires_tracked_keys", shared.replication.replica.own_keys.count());
    text.field("active_defrag_hits", 0);
    text.field("active_defrag_misses", 0);
    text.field("active_defrag_key_hits", 0);
    text.field("active_defrag_key_misses", 0);
    text.field("total_active_defrag_time", 0);
    text.field("current_active_defrag_time", 0);
    tracking_and_traffic(worker, text);
}

/// Keys and parts of them that have expired, and how late.
fn expiry(worker: &Worker, text: &mut Text) {
    let shared = worker.shared;
    let engine = |counter: fn(&Counters) -> u64| shared.engine.sum(counter);
    let is_valkey = worker.presentation().is_valkey();
    let expired_parts = if is_valkey { "expired_fields" } else { "expired_subkeys" };
    text.field(expired_parts, engine(|c| c.expired_fields.get()));
    text.field("expired_subkeys_active", engine(|c| c.expired_fields_unmet.get()));
    text.field("expired_keys", engine(|c| c.expired_keys.get()));
    text.field("expired_keys_active", engine(|c| c.expired_keys_unmet.get()));
    text.field("expired_stale_perc", "0.00");
    text.field("expired_time_cap_reached_count", 0);
    text.field("expire_cycle_cpu_milliseconds", 0);
    let lag = expiry_lag(&shared.threads);
    text.field("expired_active", shared.threads.iter().map(|t| t.expired_active.get()).sum::<u64>());
    text.field("expired_lag_p50_ms", percentile(&lag, 50.0));
    text.field("expired_lag_p99_ms", percentile(&lag, 99.0));
    text.field("expired_lag_max_ms", percentile(&lag, 100.0));
}

/// The second half of the section: tracking, errors, reads and writes, and the threads' loops.
fn tracking_and_traffic(worker: &mut Worker, text: &mut Text) {
    let shared = worker.shared;
    let stats = &shared.stats;
    let thread = |counter: fn(&ThreadStats) -> u64| shared.threads.iter().map(|t| counter(t)).sum::<u64>();
    let beyond_first =
        |counter: fn(&ThreadStats) -> u64| shared.threads.iter().skip(1).map(|t| counter(t)).sum::<u64>();
    let rates = lock(&stats.rates).per_second();
    text.field("tracking_total_keys", shared.engine.tracking.keys.load(Ordering::Relaxed));
    text.field("tracking_total_items", shared.engine.tracking.items.load(Ordering::Relaxed));
    text.field("tracking_total_prefixes", shared.tracking.prefix_count());
    let of_files = shared.persistence.load.failed_commands.load(Ordering::Relaxed);
    let unexpected = stats.unexpected_errors.load(Ordering::Relaxed) + of_files;
    text.field("unexpected_error_replies", unexpected);
    text.field("total_error_replies", thread(|t| t.error_replies.get()));
    text.field("dump_payload_sanitizations", 0);
    text.field("scripts_native", thread(|t| t.scripts_native.get()));
    text.field("scripts_in_lua", thread(|t| t.scripts_in_lua.get()));
    text.field("scripts_left_to_lua", thread(|t| t.scripts_left_to_lua.get()));
    text.field("total_reads_processed", thread(|t| t.reads_processed.get()));
    text.field("total_writes_processed", thread(|t| t.writes_processed.get()));
    text.field("io_threaded_reads_processed", beyond_first(|t| t.reads_processed.get()));
    text.field("io_threaded_writes_processed", beyond_first(|t| t.writes_processed.get()));
    text.field("io_threaded_total_prefetch_batches", thread(|t| t.prefetch_batches.get()));
    text.field("io_threaded_total_prefetch_entries", thread(|t| t.prefetch_entries.get()));
    text.field(
        "client_query_buffer_limit_disconnections",
        stats.query_buffer_disconnections.load(Ordering::Relaxed),
    );
    text.field(
        "client_output_buffer_limit_disconnections",
        stats.output_buffer_disconnections.load(Ordering::Relaxed),
    );
    text.field("reply_buffer_shrinks", 0);
    text.field("reply_buffer_expands", 0);
    text.field("eventloop_cycles", thread(|t| t.loops.get()));
    text.field("eventloop_duration_sum", thread(|t| t.loop_ns.get()) / 1000);
    text.field("eventloop_duration_cmd_sum", thread(ThreadStats::command_ns) / 1000);
    text.field("instantaneous_eventloop_cycles_per_sec", rates.loops);
    let loop_us = rates.loop_ns.checked_div(rates.loops).unwrap_or(0) / 1000;
    text.field("instantaneous_eventloop_duration_usec", loop_us);
    text.field("acl_access_denied_auth", stats.auth_failures.load(Ordering::Relaxed));
    text.field("acl_access_denied_cmd", stats.refused_commands.load(Ordering::Relaxed));
    text.field("acl_access_denied_key", stats.refused_keys.load(Ordering::Relaxed));
    text.field("acl_access_denied_channel", stats.refused_channels.load(Ordering::Relaxed));
    text.field("acl_access_denied_tls_cert", stats.refused_certificates.load(Ordering::Relaxed));
    if worker.checks_compatibility() {
        text.field("cluster_incompatible_ops", shared.engine.sum(|c| c.incompatible.get()));
    }
    if worker.presentation().is_valkey() {
        text.field("acl_access_denied_db", stats.refused_databases.load(Ordering::Relaxed));
    }
}

/// The threads that run commands, each with its share of the connections.
pub(super) fn threads(worker: &mut Worker, text: &mut Text) {
    text.title("Threads");
    for (number, stats) in worker.shared.threads.iter().enumerate() {
        text.field(
            &format!("io_thread_{number}"),
            format!(
                "clients={},reads={},writes={}",
                worker.shared.clients.of_thread(number),
                stats.reads_processed.get(),
                stats.writes_processed.get()
            ),
        );
    }
    let shared = worker.shared;
    text.field("active_threads", shared.scaling.active());
    let moved = shared.threads.iter().map(|thread| thread.moved_connections.get()).sum::<u64>();
    text.field("moved_connections", moved);
    text.field("messages_between_threads", shared.message_count());
    for (name, waits) in [("shard_lock", &LOCKS), ("gate", &GATE)] {
        text.field(&format!("{name}_failed_tries"), waits.failed_tries());
        text.field(&format!("{name}_waits"), waits.total());
        text.field(&format!("{name}_wait_usec"), waits.ns() / 1000);
    }
}

/// HOTKEYS' session, if there is one.
pub(super) fn hotkeys(worker: &mut Worker, text: &mut Text) {
    text.title("Hotkeys");
    if worker.shared.hotkeys.has_session() {
        text.field("hotkeys-tracking-active", u8::from(worker.shared.hotkeys.is_active()));
    }
}

/// Times of the threads' loops, beyond `stats`.
pub(super) fn debug(worker: &mut Worker, text: &mut Text) {
    let threads = &worker.shared.threads;
    let most = |counter: fn(&ThreadStats) -> u64| threads.iter().map(|t| counter(t)).max().unwrap_or(0);
    text.title("Debug");
    // The append-only file has a separate thread: no loop waits for it.
    text.field("eventloop_duration_aof_sum", 0);
    text.field("eventloop_duration_cron_sum", threads.iter().map(|t| t.tick_ns.get()).sum::<u64>() / 1000);
    text.field("eventloop_duration_max", most(|t| t.loop_ns_max.get()) / 1000);
    text.field("eventloop_cmd_per_cycle_max", most(|t| t.loop_commands_max.get()));
}

pub(super) fn commandstats(worker: &mut Worker, text: &mut Text) {
    text.title("Commandstats");
    for entry in worker.shared.registry.entries() {
        let totals = command_totals(&worker.shared.threads, entry.id);
        if totals.calls == 0 && totals.failed == 0 && totals.rejected == 0 {
            continue;
        }
        let us = totals.ns / 1000;
        let per_call = if totals.calls == 0 { 0.0 } else { totals.ns as f64 / 1000.0 / totals.calls as f64 };
        text.field(
            &format!("cmdstat_{}", entry.spec.full_name),
            format!(
                "calls={},usec={us},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                totals.calls, totals.rejected, totals.failed
            ),
        );
    }
}

pub(super) fn errorstats(worker: &mut Worker, text: &mut Text) {
    text.title("Errorstats");
    for (code, count) in worker.shared.stats.errors() {
        text.field(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

pub(super) fn latencystats(worker: &mut Worker, text: &mut Text) {
    text.title("Latencystats");
    let percentiles = worker.config().latency_tracking_info_percentiles.clone();
    for entry in worker.shared.registry.entries() {
        let totals = command_totals(&worker.shared.threads, entry.id);
        if totals.histogram.iter().all(|count| *count == 0) {
            continue;
        }
        let parts: Vec<String> = percentiles
            .iter()
            .map(|p| format!("p{p}={:.3}", percentile(&totals.histogram, *p) as f64 / 1000.0))
            .collect();
        text.field(&format!("latency_percentiles_usec_{}", entry.spec.full_name), parts.join(","));
    }
}
