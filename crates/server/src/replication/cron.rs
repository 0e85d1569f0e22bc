//! A primary's periodic work for its replicas: PING, timeouts, the backlog's end, `min-replicas-to-write`.
//!
//! Invariant: the first thread alone does it; any thread may count the replicas.

use std::sync::atomic::Ordering;

use martlet_engine::Outside;
use martlet_journal::{Follower, REPLICAS};

use super::primary::Phase;
use crate::runtime::Worker;

impl Worker {
    /// Does the due work, some times a second; more once a second is over.
    pub(crate) fn replication_cron(&mut self, is_second_over: bool) {
        let shared = self.shared;
        let primary = &shared.replication.primary;
        if !primary.is_active.load(Ordering::Relaxed) {
            return;
        }
        let journal = &shared.engine.journal;
        let config = self.config.current().clone();
        if is_second_over {
            self.remove_sync_file();
        }
        journal.set_backlog(config.repl_backlog_size_bytes);
        self.follow_failover();
        self.follow_shutdown();
        primary.release_late(shared, self.now_ms);
        if primary.count() == 0 && primary.reserved_count() == 0 {
            return self.end_backlog(config.repl_backlog_ttl_s);
        }
        self.begin_full_sync();
        let since_ms = self.now_ms - primary.pinged_ms.load(Ordering::Relaxed);
        let is_due = since_ms >= i64::from(config.repl_ping_replica_period_s) * 1000 || since_ms < 0;
        let is_own = journal.is_followed_by(Follower::Replicas) && !journal.relays();
        if is_due && is_own && shared.postpones(self.now_ms).is_none() {
            primary.pinged_ms.store(self.now_ms, Ordering::Relaxed);
            journal.append(REPLICAS, b"*1\r\n$4\r\nPING\r\n");
        }
        if is_second_over {
            self.note_replicas();
            self.end_silent_replicas(config.repl_timeout_s);
        }
    }

    /// Removes the RDB file that was written for replicas only, once none of them needs it.
    fn remove_sync_file(&self) {
        let (config, shared) = (self.config.current(), self.shared);
        let has_file = &shared.replication.primary.has_sync_file;
        if !has_file.load(Ordering::Relaxed) {
            return;
        }
        if !config.rdb_del_sync_files {
            return has_file.store(false, Ordering::Relaxed);
        }
        let is_needed = move || {
            let primary = &shared.replication.primary;
            primary.replicas().iter().any(|replica| replica.phase() < Phase::Online)
        };
        if config.has_persistence() || is_needed() {
            return;
        }
        has_file.store(false, Ordering::Relaxed);
        tracing::info!("Removing the RDB file used to feed replicas in a persistence-less instance");
        let settings = crate::persistence::settings::settings(config);
        let remove = move || {
            let outside = Outside::of_background_thread();
            shared.storage().remove_rdb_file(&outside, &settings, || !is_needed());
        };
        let started = std::thread::Builder::new().name("unlink".into()).spawn(remove);
        // It is tried again.
        started.err().into_iter().for_each(|error| {
            tracing::warn!("No thread removes the RDB file: {error}");
            has_file.store(true, Ordering::Relaxed);
        });
    }

    fn end_silent_replicas(&self, timeout_s: u32) {
        for replica in self.shared.replication.primary.replicas() {
            let is_online = replica.phase() == Phase::Online;
            // One that has said SYNC does not say how far it is.
            let is_silent = is_online && replica.has_said_sync.load(Ordering::Relaxed);
            if is_silent || replica.lag_s(self.now_ms) <= i64::from(timeout_s) {
                continue;
            }
            let what = if is_online { "streaming" } else { "full" };
            tracing::warn!("Disconnecting timedout replica ({what} sync): {}", replica.name());
            replica.disconnect(self.shared);
        }
    }

    /// Ends the stream for replicas that have not come back in this time.
    fn end_backlog(&mut self, ttl_s: u64) {
        let shared = self.shared;
        let (journal, primary) = (&shared.engine.journal, &shared.replication.primary);
        let since_ms = self.now_ms - primary.alone_since_ms.load(Ordering::Relaxed);
        let is_due = ttl_s > 0 && since_ms / 1000 > ttl_s as i64;
        // A replica keeps it as long as it is one: it may become the primary of replicas that follow the same
        // stream.
        let has_exports = shared.cluster().is_some_and(|node| node.migrations.has_exports());
        if !is_due || has_exports || !journal.is_followed_by(Follower::Replicas) || journal.relays() {
            return;
        }
        self.alone(|worker| {
            if primary.count() > 0 || journal.relays() {
                return;
            }
            journal.follow(Follower::Replicas, false);
            journal.set_backlog(0);
            shared.replication.change_id(&mut worker.keys.random);
            primary.is_active.store(false, Ordering::Release);
            tracing::info!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
        });
    }
}
