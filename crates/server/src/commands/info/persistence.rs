//! INFO's section on the data set on disk.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Text;
use crate::runtime::Worker;
use martlet_persistence::aof::{Phase, Rewrite};

pub(super) fn persistence(worker: &mut Worker, text: &mut Text) {
    let shared = worker.shared;
    let facts = shared.persistence.facts();
    let load = &shared.persistence.load;
    let is_loading = shared.persistence.is_loading();
    let changes = worker.changes().wrapping_sub(facts.saved_changes);
    let running = shared.persistence.background.running();
    let written = running.as_ref().map_or(0, |running| running.cut.written.load(Ordering::Relaxed));
    let total = running.as_ref().map_or(0, |running| running.cut.keys());
    let running_s =
        running.as_ref().map_or(-1, |running| (shared.clock.unix_ms() - running.cut.began_ms()) / 1000);
    text.title("Persistence");
    let is_async = shared.persistence.is_loading_async();
    text.field("loading", u8::from(is_loading && !is_async));
    text.field("async_loading", u8::from(is_async));
    text.field("current_cow_peak", shared.engine.snapshot.held_peak_bytes());
    text.field("current_cow_size", shared.engine.snapshot.held_bytes());
    text.field("current_cow_size_age", 0);
    text.field("current_fork_perc", format_args!("{:.2}", percent(written, total)));
    text.field("current_save_keys_processed", written);
    text.field("current_save_keys_total", total);
    text.field("rdb_changes_since_last_save", changes);
    text.field("rdb_bgsave_in_progress", u8::from(running.is_some()));
    text.field("rdb_last_save_time", facts.saved_at_s);
    text.field("rdb_last_bgsave_status", if facts.is_background_sound { "ok" } else { "err" });
    text.field("rdb_last_bgsave_time_sec", facts.background_s.unwrap_or(-1));
    text.field("rdb_current_bgsave_time_sec", running_s);
    text.field("rdb_saves", facts.saves);
    text.field("rdb_saves_consecutive_failures", facts.failures);
    text.field("rdb_last_cow_size", 0);
    let [hold_ns, hold_cpu_ns] = shared.engine.snapshot.longest_hold_ns();
    text.field("rdb_longest_hold_usec", hold_ns / 1000);
    text.field("rdb_longest_hold_cpu_usec", hold_cpu_ns / 1000);
    text.field("rdb_last_load_keys_expired", load.expired.load(Ordering::Relaxed));
    text.field("rdb_last_load_keys_loaded", load.keys.load(Ordering::Relaxed));
    let log = &shared.persistence.log;
    let facts = log.facts();
    let status = |is_sound| if is_sound { "ok" } else { "err" };
    let rewriting_s = |rewrite: &Rewrite| (shared.clock.unix_ms() - rewrite.began_ms) / 1000;
    text.field("aof_enabled", u8::from(facts.phase != Phase::Off));
    text.field("aof_rewrite_in_progress", u8::from(facts.rewrite.is_some()));
    text.field("aof_rewrite_scheduled", u8::from(facts.is_scheduled));
    text.field("aof_last_rewrite_time_sec", facts.last_s.unwrap_or(-1));
    text.field("aof_current_rewrite_time_sec", facts.rewrite.as_ref().map_or(-1, rewriting_s));
    text.field("aof_last_bgrewrite_status", status(facts.is_sound));
    text.field("aof_rewrites", facts.rewrites);
    text.field("aof_rewrites_consecutive_failures", facts.failures);
    text.field("aof_last_write_status", status(!log.refuses_writes.load(Ordering::Relaxed)));
    text.field("aof_last_cow_size", 0);
    text.field("module_fork_in_progress", 0);
    text.field("module_fork_last_cow_size", 0);
    if facts.phase != Phase::Off {
        let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.field("aof_current_size", bytes(&log.current_bytes));
        text.field("aof_base_size", bytes(&log.base_bytes));
        text.field("aof_pending_rewrite", 0);
        text.field("aof_buffer_length", bytes(&log.buffered_bytes) + shared.engine.journal.backlog());
        text.field("aof_pending_bio_fsync", bytes(&log.syncing));
        text.field("aof_delayed_fsync", 0);
    }
    if is_loading {
        loading(worker, text);
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// How far loading has come, and how long it will take at that speed.
fn loading(worker: &Worker, text: &mut Text) {
    let load = &worker.shared.persistence.load;
    let began_ms = load.began_ms.load(Ordering::Relaxed);
    let total = load.total_bytes.load(Ordering::Relaxed);
    let read = load.read_bytes.load(Ordering::Relaxed);
    let memory = load.memory_bytes.load(Ordering::Relaxed);
    // A transfer over the network may be of unknown length: its estimated memory is the next best.
    let whole = if total > 0 { total } else { memory.max(read) };
    let elapsed_s = ((worker.shared.clock.unix_ms() - began_ms) / 1000).max(0) as u64;
    let left = whole.saturating_sub(read);
    let eta_s = if elapsed_s == 0 { 1 } else { elapsed_s.saturating_mul(left) / read.max(1) };
    text.field("loading_start_time", began_ms / 1000);
    text.field("loading_total_bytes", total);
    text.field("loading_rdb_used_mem", memory);
    text.field("loading_loaded_bytes", read);
    text.field("loading_loaded_perc", format_args!("{:.2}", percent(read.min(whole), whole)));
    text.field("loading_eta_seconds", eta_s);
}
