//! The replica's side of replication: the primary, this server's offset, and its reports.
//!
//! A separate thread (`link.rs`) talks to the primary and sees no key. One I/O thread applies the received
//! bytes (`apply.rs`), as whole commands and transactions, each with the bytes of the stream that it came
//! from: so the replication offset and the data set belong together whenever the gate is closed.
//!
//! Invariant: the server is a replica if and only if the published configuration names a primary. A change of
//! that happens behind the closed gate and raises the generation; work for an older one is dropped.

mod apply;
mod change;
pub mod channel;
mod diskless;
pub mod gather;
pub mod handshake;
mod link;
mod load;
mod own_keys;
pub mod parallel_apply;
mod runner;
pub mod transfer;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use martlet_base::sync::lock;
use martlet_protocol::reply::Reply;

pub use change::{begin, prepare};

use crate::config::Primary;
use crate::shared::Shared;
use crate::worker::Worker;

/// How far the link to the primary has come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Not connected, or no longer.
    #[default]
    Connect,
    /// A connection is being opened.
    Connecting,
    /// The handshake.
    Handshake,
    /// A snapshot is being received or loaded.
    Sync,
    /// The stream is being received.
    Connected,
}

impl LinkState {
    /// The word that ROLE has for it.
    fn word(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// A snapshot that is being received.
#[derive(Copy, Clone, Debug, Default)]
pub struct Receiving {
    /// Its length, if that was announced.
    pub total_bytes: Option<u64>,
    /// Bytes that have come.
    pub read_bytes: u64,
}

/// What INFO and ROLE tell of the link.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// How far it has come.
    pub state: LinkState,
    /// The primary.
    pub primary: Option<Primary>,
    /// Of which generation that is.
    generation: u64,
    /// When the primary was last heard of, Unix milliseconds.
    heard_ms: i64,
    /// Since when the link has been down, Unix seconds; `None` if it never was up.
    down_since_s: Option<i64>,
    receiving: Receiving,
}

/// See the [module docs](self). One per server.
#[derive(Default)]
pub struct Replica {
    status: Mutex<Status>,
    /// Notified when the status' primary changes.
    changed: Condvar,
    generation: AtomicU64,
    /// See [`Replica::db`].
    db: AtomicUsize,
    /// Bytes received of the stream, in its own count.
    read_offset: AtomicU64,
    /// The primary wants to know at once how far this server has come.
    owes_answer: AtomicBool,
    link: link::Wakeup,
    /// Received bytes of the stream, while the link is up.
    received: Mutex<Option<Arc<apply::ApplyQueue>>>,
    /// INFO's figures on the stream that waits for a full sync's data set.
    pub gathered: gather::GatheredFigures,
    /// Threads that are called to apply together.
    pub parallel_apply: parallel_apply::ParallelApply,
    /// Commands that were applied by all threads.
    applied_by_all: AtomicU64,
    /// Keys that clients have written here and that have a time to live.
    pub own_keys: own_keys::OwnKeys,
}

impl Replica {
    /// What INFO and ROLE tell of the link.
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// The database that is selected where the stream has been applied to.
    pub fn db(&self) -> usize {
        self.db.load(Ordering::Relaxed)
    }

    /// Takes note of a REPLCONF GETACK of the primary.
    pub fn note_question(&self) {
        self.owes_answer.store(true, Ordering::SeqCst);
    }

    /// Sends the primary this server's offset, if it has asked: earlier bytes have been applied.
    fn answer(&self) {
        if self.owes_answer.load(Ordering::SeqCst) {
            self.link.wake();
        }
    }

    /// This database is selected where the data set is in the stream.
    pub(super) fn resume(&self, db: usize) {
        self.db.store(db, Ordering::Relaxed);
    }

    /// How long nothing has been heard of the primary, in milliseconds; very long if never anything was.
    pub fn silent_ms(&self, now_ms: i64) -> i64 {
        let status = lock(&self.status);
        match (status.state, status.down_since_s) {
            (LinkState::Connected, _) => (now_ms - status.heard_ms).max(0),
            (_, Some(since_s)) => (now_ms - since_s * 1_000).max(0),
            (_, None) => i64::MAX / 8,
        }
    }

    /// Rises whenever the primary becomes another, or none.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
    }

    /// The primary to copy, and its generation; `None` while that is about to change.
    fn task(&self) -> (u64, Option<Primary>) {
        let status = lock(&self.status);
        let is_current = status.generation == self.generation();
        (status.generation, status.primary.clone().filter(|_| is_current))
    }

    /// Sleeps until the primary of this generation is replaced; at most for this time.
    fn sleep(&self, generation: u64, most: Duration) {
        let status = lock(&self.status);
        // The generation itself rises before the primary is another.
        let same = |status: &mut Status| status.generation == generation;
        let _ = self.changed.wait_timeout_while(status, most, same).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Shared {
    /// Whether this server copies another one.
    pub fn is_replica(&self) -> bool {
        lock(&self.replication.replica.status).primary.is_some()
    }

    /// Whether the link to the primary is up, if there is one.
    pub fn is_linked(&self) -> bool {
        lock(&self.replication.replica.status).state == LinkState::Connected
    }

    /// The data set's offset in the primary's stream; 0 if it does not belong to that stream.
    pub(crate) fn replica_offset(&self) -> u64 {
        if self.replication.history().has_place() { self.applied_offset() } else { 0 }
    }

    /// How far the stream has been applied.
    fn applied_offset(&self) -> u64 {
        self.engine.journal.stream_end().offset
    }
}

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
    let config = worker.config();
    let applied_by_all = replica.applied_by_all.load(Ordering::Relaxed);
    add("slave_commands_applied_by_all_threads", applied_by_all.to_string());
    add("slave_priority", config.replica_priority.to_string());
    add("slave_read_only", i32::from(config.replica_read_only).to_string());
    add("replica_announced", i32::from(config.replica_announced).to_string());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace_primary(replica: &Replica, generation: u64, port: u16) {
        replica.update(|status| {
            status.primary = Some(Primary { host: "127.0.0.1".into(), port });
            status.generation = generation;
        });
        replica.changed.notify_all();
    }

    /// The generation rises first, so that work for an older one ends; a look between the two steps neither
    /// copies the old primary in the name of the new generation, nor misses the new one.
    #[test]
    fn who_looks_in_the_middle_of_a_change_learns_of_the_primary() {
        let replica = Replica::default();
        replace_primary(&replica, 0, 1);
        assert_eq!(replica.task().1.map(|primary| primary.port), Some(1));
        replica.generation.fetch_add(1, Ordering::SeqCst);
        let (generation, primary) = replica.task();
        assert_eq!((generation, primary), (0, None));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                replica.sleep(generation, Duration::MAX);
                replica.task()
            });
            replace_primary(&replica, 1, 2);
            let (generation, primary) = waits.join().unwrap();
            assert_eq!((generation, primary.map(|primary| primary.port)), (1, Some(2)));
        });
    }
}
