//! The replica's side of replication: the primary, this server's offset, and its reports.
//!
//! A separate thread (`thread.rs`) talks to the primary and sees no key. One I/O thread applies the received
//! bytes (`apply.rs`), as whole commands and transactions, each with the bytes of the stream that it came
//! from: so the replication offset and the data set belong together whenever the gate is closed.
//!
//! Invariant: the server is a replica if and only if the published configuration names a primary. A change of
//! that happens behind the closed gate and raises the generation; work for an older one is dropped.

mod apply;
mod change;
pub mod channel;
mod diskless;
mod full_sync;
pub mod gather;
pub mod gathered;
pub mod handshake;
mod incoming;
mod link;
mod load;
mod own_keys;
pub mod parallel_apply;
mod runner;
pub mod state;
mod streaming;
pub mod thread;
pub mod transfer;

use std::sync::atomic::Ordering;

use martlet_protocol::reply::Reply;

pub use change::prepare;
pub use thread::begin;

use crate::runtime::{Shared, Worker};
use state::{LinkState, Receiving};

/// Answers ROLE, if this server is a replica; whether it is.
pub fn role(shared: &Shared, reply: &mut Reply) -> bool {
    let status = shared.replication.replica.status();
    let Some(primary) = &status.primary else { return false };
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(primary.host.as_bytes());
    reply.int(i64::from(primary.port));
    reply.bulk(status.state.word().as_bytes());
    let has_place = shared.replication.history().has_place();
    reply.int(if has_place { shared.applied_offset() as i64 } else { -1 });
    true
}

/// INFO's fields of a replica, behind its role; empty on a primary.
pub fn info(worker: &Worker) -> Vec<(&'static str, String)> {
    let shared = worker.shared;
    let replica = &shared.replication.replica;
    let status = replica.status();
    let Some(primary) = &status.primary else { return Vec::new() };
    let is_up = status.state == LinkState::Connected;
    let now_ms = shared.clock.unix_ms();
    let ago_s = |since_ms: i64| (now_ms - since_ms).max(0) / 1000;
    let offset = shared.replica_offset();
    let read = if is_up { replica.read_offset.load(Ordering::Relaxed).max(offset) } else { offset };
    let mut fields: Vec<(&'static str, String)> = Vec::new();
    let mut add = |name, value: String| fields.push((name, value));
    add("master_host", primary.host.clone());
    add("master_port", primary.port.to_string());
    add("master_link_status", if is_up { "up" } else { "down" }.into());
    add("master_last_io_seconds_ago", if is_up { ago_s(status.heard_ms) } else { -1 }.to_string());
    add("master_sync_in_progress", i32::from(status.state == LinkState::Sync).to_string());
    add("slave_read_repl_offset", read.to_string());
    add("slave_repl_offset", offset.to_string());
    let gathered = [&replica.gathered.bytes, &replica.gathered.peak_bytes];
    let [bytes, peak_bytes] = gathered.map(|of| of.load(Ordering::Relaxed).to_string());
    add("replica_full_sync_buffer_size", bytes.clone());
    add("replica_full_sync_buffer_peak", peak_bytes.clone());
    // As Valkey names them.
    add("replicas_repl_buffer_size", bytes);
    add("replicas_repl_buffer_peak", peak_bytes);
    if status.state == LinkState::Sync {
        let Receiving { total_bytes, read_bytes } = status.receiving;
        let total = total_bytes.unwrap_or(0);
        let percent = if total > 0 { read_bytes as f64 / total as f64 * 100.0 } else { 0.0 };
        add("master_sync_total_bytes", total.to_string());
        add("master_sync_read_bytes", read_bytes.to_string());
        add("master_sync_left_bytes", (total as i64 - read_bytes as i64).to_string());
        add("master_sync_perc", format!("{percent:.2}"));
        add("master_sync_last_io_seconds_ago", ago_s(status.heard_ms).to_string());
    }
    if !is_up {
        let since_s = status.down_since_s.map_or(-1, |since_s| (now_ms / 1000 - since_s).max(0));
        add("master_link_down_since_seconds", since_s.to_string());
    }
    if let Some(why) = status.unloadable.why {
        add("master_full_sync_error", why);
    }
    let config = worker.config();
    let applied_by_all = replica.applied_by_all.load(Ordering::Relaxed);
    add("slave_commands_applied_by_all_threads", applied_by_all.to_string());
    add("slave_priority", config.replica_priority.to_string());
    add("slave_read_only", i32::from(config.replica_read_only).to_string());
    add("replica_announced", i32::from(config.replica_announced).to_string());
    fields
}
