//! What happens by time: expiry every 10 ms, timeouts of blocked clients, idle clients, samples of rates.

use std::sync::atomic::Ordering;

use martlet_base::limits::SHARD_COUNT;

use super::Worker;
use crate::connection::Hold;
use crate::shared::lock;

/// How often due keys are looked for.
const TICK_MS: i64 = 10;
/// How often the rest is done.
const CRON_MS: i64 = 100;
/// Keys expired per hold of a shard: some tens of microseconds.
const EXPIRE_SLICE: usize = 64;
/// Most time that one tick spends on expiring before requests get their turn, in nanoseconds.
const EXPIRE_BUDGET_NS: u64 = 2_000_000;

impl Worker {
    /// Does what is due.
    pub(super) fn tick(&mut self) {
        let now_ms = self.shared.clock.unix_ms();
        self.looked_ms = now_ms;
        if self.deadlines.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms) {
            self.enter();
            self.refresh_time();
            self.time_out_blocked();
        }
        if now_ms >= self.next_tick_ms {
            self.next_tick_ms = now_ms + TICK_MS;
            self.expire();
        }
        if now_ms >= self.next_cron_ms {
            self.next_cron_ms = now_ms + CRON_MS;
            self.enter();
            self.refresh_time();
            self.cron();
        }
    }

    /// Deletes the keys that are due. Any thread does it for any shard: whoever is awake.
    fn expire(&mut self) {
        let engine = self.shared.engine;
        if !self.shared.active_expire.load(Ordering::Relaxed)
            || self.shared.paused(self.now_ms).is_some()
            || self.shared.persistence.log.refuses_writes.load(Ordering::Relaxed)
            // What is due is deleted when the file that is being loaded says so.
            || self.shared.persistence.is_loading()
        {
            return;
        }
        let clock = &self.shared.clock;
        let began = clock.raw();
        let stats = self.stats();
        // Threads begin at different places, so that they do not queue at the same shards.
        let first = self.thread * SHARD_COUNT / self.shared.thread_count();
        for i in 0..SHARD_COUNT {
            let shard = (first + i) % SHARD_COUNT;
            if !engine.is_due(shard, clock_now(self)) {
                continue;
            }
            self.enter();
            self.refresh_time();
            loop {
                self.keys.hold_one(shard);
                let more = self.keys.expire_due(shard, EXPIRE_SLICE, |lag_ms| stats.record_expiry(lag_ms));
                self.release_keys();
                if !more || clock.elapsed_ns(began, clock.raw()) > EXPIRE_BUDGET_NS {
                    break;
                }
            }
            if clock.elapsed_ns(began, clock.raw()) > EXPIRE_BUDGET_NS {
                self.next_tick_ms = 0;
                break;
            }
        }
        self.serve_ready();
    }

    fn cron(&mut self) {
        self.close_idle();
        if self.thread == 0 {
            self.shared.end_pause(Some(self.now_ms));
            self.limit_tracking();
            self.end_broadcasting();
            self.note_memory_limit();
            self.save_by_rule();
            self.rewrite_by_rule();
            self.sample();
        }
    }

    fn sample(&mut self) {
        let threads = &self.shared.threads;
        let total =
            |counter: fn(&crate::stats::ThreadStats) -> u64| threads.iter().map(|t| counter(t)).sum::<u64>();
        let totals = [
            total(|t| t.total_commands.get()),
            total(|t| t.net_input_bytes.get()),
            total(|t| t.net_output_bytes.get()),
        ];
        let stats = &self.shared.stats;
        lock(&stats.rates).sample(self.shared.clock.unix_us(), totals);
        let used = martlet_base::alloc::used_bytes() as u64;
        if used > stats.memory_peak.load(Ordering::Relaxed) {
            stats.memory_peak.store(used, Ordering::Relaxed);
            stats.memory_peak_at.store((self.now_ms / 1000) as u64, Ordering::Relaxed);
        }
    }

    /// Closes clients that were idle for `timeout`, and those above their soft output limit for too long.
    fn close_idle(&mut self) {
        let timeout_ms = i64::from(self.config.current().timeout_s) * 1000;
        let mut ends = Vec::new();
        for connection in self.connections.iter().flatten() {
            let waits = matches!(connection.hold, Some(Hold::Blocked(_)));
            let idle_ms = self.now_ms - connection.last_active_ms.max(connection.info.created_ms);
            if timeout_ms > 0
                && idle_ms > timeout_ms
                && !connection.is_monitor
                && !connection.is_subscriber()
                && !waits
            {
                tracing::debug!("Closing idle client");
                ends.push((connection.token, true));
            } else if connection.soft_limit_since_ms.is_some() {
                ends.push((connection.token, false));
            }
        }
        for (token, idle) in ends {
            let Some(mut connection) = self.take(token) else { continue };
            if idle {
                self.drop_connection(connection);
            } else {
                self.check_output_limit(&mut connection);
                self.finish(connection);
            }
        }
    }
}

fn clock_now(worker: &Worker) -> i64 {
    worker.now_ms.max(worker.shared.clock.unix_ms())
}
