//! INFO's sections on the server and its data.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::sync::lock;
use martlet_journal::Follower;
use martlet_spec::Module;
use martlet_spec::presentation::VALKEY_VERSION;

use super::{Text, human};
use crate::cluster::node::Waiting;
use crate::cluster::slot_migration::state::Migrations;
use crate::commands::memory::Figures;
use crate::commands::module::modules_of;
use crate::commands::survey::Held;
use crate::process::{Whose, cpu_time, system_memory_bytes};
use crate::replication::primary::Phase;
use crate::runtime::Worker;
use crate::scripting::cache::ScriptFigures;
use crate::scripting::libraries::LibraryList;

pub(super) fn server(worker: &mut Worker, text: &mut Text) {
    let shared = worker.shared;
    let now_us = shared.clock.unix_us();
    let uptime_s = (now_us / 1000 - shared.started_ms) / 1000;
    let config = worker.config();
    let system = rustix::system::uname();
    let os =
        [system.sysname(), system.release(), system.machine()].map(|part| part.to_string_lossy()).join(" ");
    text.title("Server");
    names(worker, text);
    text.field("os", os);
    text.field("arch_bits", usize::BITS);
    text.field("monotonic_clock", shared.clock.describe());
    text.field("multiplexing_api", shared.backend.get().copied().unwrap_or("none"));
    text.field("atomicvar_api", "rust-std");
    text.field("gcc_version", "0.0.0");
    text.field("process_id", std::process::id());
    text.field("process_supervised", shared.supervisor.get().copied().unwrap_or("no"));
    text.field("run_id", &shared.run_id);
    text.field("tcp_port", shared.port.load(Ordering::Relaxed));
    text.field("server_time_usec", now_us);
    text.field("uptime_in_seconds", uptime_s);
    text.field("uptime_in_days", uptime_s / 86_400);
    text.field("hz", config.hz);
    text.field("configured_hz", config.hz);
    text.field("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    text.field("executable", std::env::current_exe().unwrap_or_default().display());
    text.field("config_file", shared.config_file.as_deref().unwrap_or(std::path::Path::new("")).display());
    listeners(worker, text);
    text.field("io_threads_active", u8::from(shared.thread_count() > 1));
    text.field("io_threads", shared.thread_count());
    if let Some(until_ms) = shared.pending_shutdown.until_ms() {
        text.field("shutdown_in_milliseconds", (until_ms - worker.now_ms).max(0));
    }
}

/// What the server says it is. By `martlet_version` alone it is always known as what it is.
fn names(worker: &Worker, text: &mut Text) {
    let (config, presentation) = (worker.config(), worker.presentation());
    text.field("redis_version", presentation.redis_version());
    text.field("redis_git_sha1", "00000000");
    text.field("redis_git_dirty", 0);
    text.field("redis_build_id", "0");
    let mode = if presentation.names_valkey() { "server_mode" } else { "redis_mode" };
    text.field(mode, if config.cluster_enabled { "cluster" } else { "standalone" });
    if presentation.is_valkey() {
        text.field("server_name", "valkey");
        text.field("valkey_version", VALKEY_VERSION);
        text.field("valkey_release_stage", "ga");
    } else {
        text.field("server_name", "martlet");
    }
    text.field("martlet_version", env!("CARGO_PKG_VERSION"));
    if presentation.is_valkey() || !config.availability_zone.is_empty() {
        text.field("availability_zone", &config.availability_zone);
    }
}

/// The server's listeners, by kind.
fn listeners(worker: &Worker, text: &mut Text) {
    let config = worker.config();
    let binds = || config.bind.iter().map(|address| format!(",bind={address}")).collect::<String>();
    if config.port > 0 {
        text.field("listener0", format!("name=tcp{},port={}", binds(), config.port));
    }
    if let Some(path) = &config.unixsocket {
        text.field("listener1", format!("name=unix,bind={}", path.display()));
    }
    if config.tls_port > 0 {
        text.field("listener2", format!("name=tls{},port={}", binds(), config.tls_port));
    }
}

pub(super) fn clients(worker: &mut Worker, text: &mut Text) {
    let shared = worker.shared;
    let stats = &shared.stats;
    let all = shared.clients.all();
    let largest =
        |size: fn(&crate::clients::ClientInfo) -> usize| all.iter().map(|c| size(c)).max().unwrap_or(0);
    let blocked = shared.blocked_clients.load(Ordering::Relaxed);
    let survey = text.survey(worker);
    let watching = all.iter().filter(|c| c.watching.load(Ordering::Relaxed) > 0).count();
    text.title("Clients");
    let replicas = worker.shared.replication.primary.count();
    text.field("connected_clients", all.len().saturating_sub(replicas));
    text.field("cluster_connections", bus_links(worker).len());
    text.field("maxclients", worker.config().maxclients);
    if !worker.config().priority_subnets.is_empty() {
        text.field("connected_priority_clients", shared.clients.prioritized_count());
    }
    let recent_input = stats.recent_max_input.load(Ordering::Relaxed) as usize;
    let recent_output = stats.recent_max_output.load(Ordering::Relaxed) as usize;
    text.field(
        "client_recent_max_input_buffer",
        recent_input.max(largest(|c| c.query_capacity.load(Ordering::Relaxed))),
    );
    text.field(
        "client_recent_max_output_buffer",
        recent_output.max(largest(|c| c.output_bytes.load(Ordering::Relaxed))),
    );
    text.field("blocked_clients", blocked);
    text.field("tracking_clients", shared.tracking.count.load(Ordering::Relaxed));
    text.field("pubsub_clients", shared.hub.clients.load(Ordering::Relaxed));
    text.field("watching_clients", watching);
    text.field("clients_in_timeout_table", blocked);
    text.field("total_watched_keys", survey.watched_keys);
    text.field("total_blocking_keys", survey.blocking_keys);
    text.field("total_blocking_keys_on_nokey", survey.until_removed);
    if worker.presentation().is_valkey() {
        let left_ms = (shared.pause.until_ms.load(Ordering::Acquire) - worker.now_ms).max(0);
        let actions = match (left_ms, shared.pause.all.load(Ordering::Acquire)) {
            (0, _) => "none",
            (_, true) => "all",
            (_, false) => "write",
        };
        text.field("paused_reason", if left_ms == 0 { "none" } else { "client_pause" });
        text.field("paused_actions", actions);
        text.field("paused_timeout_milliseconds", left_ms);
    }
}

pub(super) fn memory(worker: &mut Worker, text: &mut Text) {
    let survey = text.survey(worker);
    let mut figures = Figures::of(worker, &survey);
    figures.used = figures.used.saturating_sub(text.heap_bytes());
    let Figures { used, peak, startup, resident, allocator_resident, clients, .. } = figures;
    let active = figures.active();
    let (overhead, dataset) = (figures.overhead(), figures.dataset());
    let share = |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    let ratio = |a: u64, b: u64| format!("{:.2}", a as f64 / b.max(1) as f64);
    let shared = worker.shared;
    let config = worker.config();
    let total = system_memory_bytes();
    text.title("Memory");
    text.field("used_memory", used);
    text.field("used_memory_human", human(used));
    text.field("used_memory_rss", resident);
    text.field("used_memory_rss_human", human(resident));
    text.field("used_memory_peak", peak);
    text.field("used_memory_peak_human", human(peak));
    text.field("used_memory_peak_time", shared.stats.memory_peak_at.load(Ordering::Relaxed));
    text.field("used_memory_peak_perc", share(used, peak));
    text.field("used_memory_overhead", overhead);
    text.field("used_memory_startup", startup);
    text.field("used_memory_dataset", dataset);
    text.field("used_memory_dataset_perc", share(dataset, used.saturating_sub(startup)));
    text.field("allocator_allocated", used);
    text.field("allocator_active", active);
    text.field("allocator_resident", allocator_resident);
    text.field("allocator_muzzy", 0);
    text.field("total_system_memory", total);
    text.field("total_system_memory_human", human(total));
    scripts_memory(text, &shared.scripts.figures(), &shared.libraries.list());
    text.field("maxmemory", config.maxmemory_bytes);
    text.field("maxmemory_human", human(config.maxmemory_bytes));
    let policy = crate::config::find(b"maxmemory-policy").map(|p| p.get(config)).unwrap_or_default();
    text.field("maxmemory_policy", String::from_utf8_lossy(&policy));
    text.field("allocator_frag_ratio", ratio(active, used));
    text.field("allocator_frag_bytes", active as i64 - used as i64);
    text.field("allocator_rss_ratio", ratio(allocator_resident, active));
    text.field("allocator_rss_bytes", allocator_resident as i64 - active as i64);
    text.field("rss_overhead_ratio", ratio(resident, allocator_resident));
    text.field("rss_overhead_bytes", resident as i64 - allocator_resident as i64);
    text.field("mem_fragmentation_ratio", ratio(resident, used));
    text.field("mem_fragmentation_bytes", resident as i64 - used as i64);
    let snapshot = shared.engine.snapshot.held_bytes();
    let not_counted = figures.beyond_backlog + figures.gathered + snapshot;
    text.field("mem_not_counted_for_evict", not_counted);
    text.field("mem_replication_backlog", figures.backlog);
    text.field("mem_total_replication_buffers", figures.backlog + figures.replicas);
    text.field("mem_replica_full_sync_buffer", figures.gathered);
    text.field("mem_clients_slaves", figures.replicas);
    text.field("mem_clients_normal", clients);
    let migrations = shared.cluster().map(|node| &node.migrations);
    let (kept, kept_peak) = migrations.map(Migrations::kept_bytes).unwrap_or_default();
    let waiting = migrations.map(Migrations::waiting_bytes).unwrap_or_default();
    text.field("mem_cluster_slot_migration_output_buffer", waiting);
    text.field("mem_cluster_slot_migration_input_buffer", kept);
    text.field("mem_cluster_slot_migration_input_buffer_peak", kept_peak);
    text.field("mem_cluster_links", bus_links(worker).iter().map(|link| link.allocated).sum::<usize>());
    text.field("mem_aof_buffer", figures.log_buffer);
    text.field("mem_allocator", "mimalloc");
    text.field("mem_overhead_db_hashtable_rehashing", 0);
    text.field("active_defrag_running", 0);
    text.field("lazyfree_pending_objects", shared.engine.lazy_free.pending());
    text.field("lazyfreed_objects", shared.engine.lazy_free.freed());
}

/// What scripts and functions take.
fn scripts_memory(text: &mut Text, scripts: &ScriptFigures, libraries: &LibraryList) {
    let (vm_bytes, function_vm_bytes) = (scripts.vm_bytes as u64, scripts.function_vm_bytes as u64);
    let function_bytes = libraries.bytes();
    text.field("used_memory_lua", vm_bytes);
    text.field("used_memory_vm_eval", vm_bytes);
    text.field("used_memory_lua_human", human(vm_bytes));
    text.field("used_memory_scripts_eval", scripts.bytes);
    text.field("number_of_cached_scripts", scripts.count);
    text.field("number_of_functions", libraries.function_count());
    text.field("number_of_libraries", libraries.libraries.len());
    text.field("used_memory_vm_functions", function_vm_bytes);
    text.field("used_memory_vm_total", vm_bytes + function_vm_bytes);
    text.field("used_memory_vm_total_human", human(vm_bytes + function_vm_bytes));
    text.field("used_memory_functions", function_bytes);
    text.field("used_memory_scripts", scripts.bytes + function_bytes);
    text.field("used_memory_scripts_human", human((scripts.bytes + function_bytes) as u64));
}

pub(super) fn replication(worker: &mut Worker, text: &mut Text) {
    let shared = worker.shared;
    let (journal, config) = (&shared.engine.journal, worker.config());
    text.title("Replication");
    let of_replica = crate::replication::replica::info(worker);
    text.field("role", if of_replica.is_empty() { "master" } else { "slave" });
    of_replica.into_iter().for_each(|(name, value)| text.field(name, value));
    let mut replicas = shared.replication.primary.replicas();
    replicas.retain(|replica| !replica.is_rdb_channel());
    text.field("connected_slaves", replicas.len());
    if config.sync_replicas > 0 {
        text.field("sync_replicas", config.sync_replicas);
    }
    if config.min_replicas_to_write > 0 && config.min_replicas_max_lag_s > 0 || config.sync_replicas > 0 {
        text.field("min_slaves_good_slaves", shared.replication.primary.good.load(Ordering::Relaxed));
    }
    for (number, replica) in replicas.iter().enumerate() {
        let lag_s = if replica.phase() == Phase::Online { replica.lag_s(worker.now_ms) } else { 0 };
        text.field(
            &format!("slave{number}"),
            format!(
                "ip={},port={},state={},offset={},lag={lag_s}",
                replica.host(),
                replica.port.load(Ordering::Relaxed),
                replica.phase().name(),
                replica.acked.load(Ordering::Relaxed)
            ),
        );
    }
    let unreadable = replicas.iter().find_map(|replica| lock(&replica.unreadable).why.clone());
    unreadable.iter().for_each(|why| text.field("replica_full_sync_error", why));
    text.field("replicas_waiting_psync", shared.replication.primary.reserved_count());
    text.field("master_failover_state", shared.replication.failover.state().name());
    let history = shared.replication.history().clone();
    let end = shared.replication_offset();
    text.field("master_replid", history.id());
    let second = history.second();
    text.field("master_replid2", second.map_or_else(|| "0".repeat(40), |(id, _)| id.to_owned()));
    text.field("master_repl_offset", end);
    text.field("second_repl_offset", second.map_or(-1, |(_, first)| first as i64));
    let is_kept = journal.is_followed_by(Follower::Replicas) || journal.relays();
    let begin = if is_kept { journal.backlog_offsets().start } else { end };
    text.field("repl_backlog_active", u8::from(is_kept));
    text.field("repl_backlog_size", config.repl_backlog_size_bytes);
    text.field("repl_backlog_first_byte_offset", if is_kept { begin + 1 } else { 0 });
    text.field("repl_backlog_histlen", end.saturating_sub(begin));
}

pub(super) fn cpu(worker: &mut Worker, text: &mut Text) {
    let (process, children, thread) =
        (cpu_time(Whose::Process), cpu_time(Whose::Children), cpu_time(Whose::Thread));
    let seconds = |s: f64| format!("{s:.6}");
    text.title("CPU");
    text.field("used_cpu_sys", seconds(process.system_s));
    text.field("used_cpu_user", seconds(process.user_s));
    text.field("used_cpu_sys_children", seconds(children.system_s));
    text.field("used_cpu_user_children", seconds(children.user_s));
    text.field("used_cpu_sys_main_thread", seconds(thread.system_s));
    text.field("used_cpu_user_main_thread", seconds(thread.user_s));
    for (number, stats) in worker.shared.threads.iter().enumerate() {
        let thread = if number == 0 { "main_thread".into() } else { format!("io_thread_{number}") };
        text.field(&format!("used_active_time_{thread}"), seconds(stats.loop_ns.get() as f64 / 1e9));
    }
}

pub(super) fn modules(worker: &mut Worker, text: &mut Text) {
    text.title("Modules");
    for Module { name, version, options } in modules_of(worker.presentation(), worker.shared.registry) {
        let properties = format!("ver={version},api=1,filters=0,usedby=[],using=[],options=[{options}]");
        text.field("module", format_args!("name={name},{properties}"));
    }
}

/// What runs scripts, as Valkey shows it.
pub(super) fn scripting_engines(worker: &mut Worker, text: &mut Text) {
    if !worker.presentation().is_valkey() {
        return;
    }
    let scripts = worker.shared.scripts.figures();
    let used = scripts.vm_bytes + scripts.function_vm_bytes;
    text.title("Scripting Engines");
    text.field("engines_count", 1);
    text.field("engines_total_used_memory", used);
    text.field("engines_total_memory_overhead", 0);
    text.field("engine_0", format!("name=LUA,module=lua,abi_version=4,used_memory={used},memory_overhead=0"));
}

/// The connections of the cluster bus, if there are any.
fn bus_links(worker: &Worker) -> Vec<Waiting> {
    let node = worker.shared.cluster();
    node.map_or_else(Vec::new, |node| node.waiting().into_values().collect())
}

pub(super) fn cluster(worker: &mut Worker, text: &mut Text) {
    text.title("Cluster");
    text.field("cluster_enabled", u8::from(worker.config().cluster_enabled));
}

/// Expiring keys per shard and database that the average of the remaining times is taken over.
const TTL_SAMPLE: usize = 16;
/// Keys that are enough for the average.
const TTL_SAMPLES_MAX: usize = 1024;

pub(super) fn keyspace(worker: &mut Worker, text: &mut Text) {
    let survey = text.survey(worker);
    let expiring = survey.databases.iter().filter(|(_, held)| held.expiring > 0);
    let averages_ms: BTreeMap<usize, u128> =
        expiring.map(|(index, _)| (*index, average_ttl_ms(worker, *index))).collect();
    let parts = if worker.presentation().is_valkey() { "keys_with_volatile_items" } else { "subexpiry" };
    text.title("Keyspace");
    for (index, held) in survey.databases.iter().filter(|(_, held)| held.visible > 0) {
        let average_ms = averages_ms.get(index).copied().unwrap_or(0);
        let Held { visible, expiring, with_parts_that_expire, .. } = held;
        text.field(
            &format!("db{index}"),
            format!(
                "keys={visible},expires={expiring},avg_ttl={average_ms},{parts}={with_parts_that_expire}"
            ),
        );
    }
}

/// The average remaining time of some keys of a database: an estimate, for which shards are locked one by
/// one, from a random one on.
fn average_ttl_ms(worker: &mut Worker, index: usize) -> u128 {
    let (now_ms, mut sum_ms, mut count) = (worker.now_ms, 0, 0);
    let first = worker.keys.random.below(SHARD_COUNT as u64) as usize;
    for at in first..first + SHARD_COUNT {
        let shard = at % SHARD_COUNT;
        worker.keys.visit_shard(shard, |keys| {
            let of_shard = keys.shard(shard).keys.db(index).ttl_sum_ms(now_ms, TTL_SAMPLE);
            (sum_ms, count) = (sum_ms + of_shard.0, count + of_shard.1);
        });
        if count >= TTL_SAMPLES_MAX {
            break;
        }
    }
    sum_ms.checked_div(count as u128).unwrap_or(0)
}
