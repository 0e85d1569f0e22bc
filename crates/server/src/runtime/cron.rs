//! What happens by time: expiry every 10 ms or when something is due, timeouts of blocked clients, idle
//! clients, samples of rates.

use std::sync::atomic::Ordering;

use martlet_base::limits::SHARD_COUNT;
use martlet_base::sync::lock;

use super::Worker;
use crate::connection::Connection;
use crate::slow_path::SlowPathReason;
use crate::stats::{ThreadStats, Totals};
use martlet_engine::in_view;

/// How soon a client is looked at again that would be closed for its idleness if it did not subscribe,
/// monitor or wait.
const IDLE_LOOK_MS: i64 = 1000;
/// Keys expired per hold of a shard: some tens of microseconds.
const EXPIRE_SLICE: usize = 64;
/// Most time that one tick spends on expiring before requests get their turn, in nanoseconds.
const EXPIRE_BUDGET_NS: u64 = 2_000_000;

impl Worker {
    /// Does the due work.
    pub(super) fn tick(&mut self) {
        if self.shared.engine.has_busy_script() {
            // All of it can wait for the script's end, and some of it would.
            return;
        }
        if self.timers.look(self.shared.clock.unix_ms()) {
            self.enter();
            if self.is_excluded() {
                return;
            }
            self.refresh_time();
            self.time_out_blocked();
        }
        if self.must_relocate() {
            self.begin_relocation();
            self.relocate();
        }
        let (is_tick_due, is_cron_due) = self.timers.due();
        if !is_tick_due && !is_cron_due {
            return;
        }
        let began = self.shared.clock.raw();
        if is_tick_due {
            let had_worked = std::mem::take(&mut self.timers.has_worked);
            // Keys that others give an expiry are looked after by them as well: they have worked.
            let due_ms = self.expire();
            self.timers.tick_done(due_ms, had_worked);
            self.follow_load();
            if had_worked {
                self.relocate();
            }
        }
        if is_cron_due {
            self.timers.cron_begins(self.thread > 0 && self.connections.is_empty());
            let has_worked = self.timers.has_worked;
            self.enter();
            self.refresh_time();
            if !self.is_excluded() {
                self.cron();
            }
            self.timers.has_worked = has_worked;
        }
        let clock = &self.shared.clock;
        self.stats().tick_ns.add(clock.elapsed_ns(began, clock.raw()));
    }

    /// Deletes due keys; returns when the next one will be due, as far as known. Any awake thread does it for
    /// any shard.
    fn expire(&mut self) -> i64 {
        let now_ms = self.timers.looked_ms;
        let engine = self.shared.engine;
        if !self.shared.active_expire.load(Ordering::Relaxed) {
            return i64::MAX;
        }
        if self.shared.postpones(now_ms).is_some()
            || self.shared.persistence.log.refuses_writes.load(Ordering::Relaxed)
            // Due keys are deleted when the file that is being loaded says so.
            || self.shared.persistence.is_loading()
            || self.shared.slow_path_reasons.has(SlowPathReason::Replica)
            || self.shared.slow_path_reasons.has(SlowPathReason::Importing)
        {
            return now_ms + super::timers::TICK_MS;
        }
        let clock = &self.shared.clock;
        let began = clock.raw();
        let stats = self.stats();
        let mut next_ms = i64::MAX;
        // Threads begin at different places, so that they do not queue at the same shards.
        let first = self.thread * SHARD_COUNT / self.shared.thread_count();
        for i in 0..SHARD_COUNT {
            let shard = (first + i) % SHARD_COUNT;
            let due_ms = engine.due_ms(shard);
            if due_ms <= now_ms && engine.hidden.in_shard(shard).next().is_some() {
                // Incoming keys expire at their source; the shard's other keys wait.
                continue;
            }
            if due_ms > now_ms {
                next_ms = next_ms.min(due_ms);
                continue;
            }
            self.enter();
            self.refresh_time();
            loop {
                if self.is_excluded() || !self.keys.lock_shard_unless_busy(shard) {
                    return now_ms + super::timers::TICK_MS;
                }
                let more = in_view(&mut self.keys, self.base_view, |keys| {
                    keys.expire_due(shard, EXPIRE_SLICE, |lag_ms| stats.record_expiry(lag_ms))
                });
                self.release_keys();
                // It is no client's own write.
                self.keys.recorded = 0;
                if !more || clock.elapsed_ns(began, clock.raw()) > EXPIRE_BUDGET_NS {
                    break;
                }
            }
            if clock.elapsed_ns(began, clock.raw()) > EXPIRE_BUDGET_NS {
                next_ms = 0;
                break;
            }
        }
        self.serve_ready();
        next_ms
    }

    fn cron(&mut self) {
        if self.shared.is_cron_paused.load(Ordering::Relaxed) {
            return;
        }
        self.follow_load();
        self.keep_away();
        self.close_idle();
        let is_second_over = self.timers.is_second_over();
        (self.hooks.every_100_ms)(self, is_second_over);
        if self.thread == 0 {
            self.shared.end_pause(Some(self.now_ms));
            self.end_hot_keys_session();
            self.follow_tls_files();
            self.shared.migrations.kept.close_old(self.now_ms);
            self.make_room();
            self.save_by_rule();
            self.rewrite_by_rule();
            self.shared.storage().log_fullness();
            self.sample();
            if is_second_over {
                self.release_pages_when_idle();
            }
        }
    }

    /// Unmaps the program's code once the start is over: the server would keep megabytes resident that only
    /// its start has used.
    fn release_pages_when_idle(&mut self) {
        let commands = self.shared.threads.iter().map(|thread| thread.total_commands.get()).sum();
        if !self.shared.persistence.is_loading() && self.timers.idle.has_begun(commands) {
            martlet_process::release_program_pages();
        }
    }

    fn end_hot_keys_session(&mut self) {
        if self.shared.hotkeys.stop_if_due(self.now_ms) {
            self.shared.slow_path_reasons.release(SlowPathReason::HotKeys);
        }
    }

    /// Checks whether certificates have changed.
    fn follow_tls_files(&mut self) {
        if self.shared.tls.is_look_due(self.config.current(), self.now_ms) {
            let config = self.config.current().clone();
            let tls = &self.shared.tls;
            self.outside(|outside| tls.follow_files(outside, &config));
        }
    }

    fn sample(&mut self) {
        let threads = &self.shared.threads;
        let total = |counter: fn(&ThreadStats) -> u64| threads.iter().map(|t| counter(t)).sum::<u64>();
        let totals = Totals {
            commands: total(|t| t.total_commands.get()),
            input_bytes: total(|t| t.net_input_bytes.get()),
            output_bytes: total(|t| t.net_output_bytes.get()),
            loops: total(|t| t.loops.get()),
            loop_ns: total(|t| t.loop_ns.get()),
        };
        let stats = &self.shared.stats;
        lock(&stats.rates).sample(self.shared.clock.unix_us(), totals);
        let used = martlet_base::alloc::used_bytes() as u64;
        if used > stats.memory_peak.load(Ordering::Relaxed) {
            stats.memory_peak.store(used, Ordering::Relaxed);
            stats.memory_peak_at.store((self.now_ms / 1000) as u64, Ordering::Relaxed);
        }
    }

    /// Closes clients that were idle for `timeout`, and those above their soft output limit for too long.
    /// Walks the connections only where one of these can be due.
    fn close_idle(&mut self) {
        let timeout_ms = i64::from(self.config.current().timeout_s) * 1000;
        // A time further off than that was reckoned before the clock was set back, or under another timeout.
        let is_due = self.now_ms >= self.timers.next_idle_ms
            || self.timers.next_idle_ms > self.now_ms + timeout_ms + 1;
        if timeout_ms > 0 && is_due {
            self.close_idle_for(timeout_ms);
        }
        // A connection that is still above the limit sets it again.
        if std::mem::take(&mut self.outbox.has_soft_limited) {
            let over = self.connections.iter().filter(|one| one.soft_limit_since_ms.is_some());
            for token in over.map(|one| one.token).collect::<Vec<_>>() {
                let Some(mut connection) = self.take(token) else { continue };
                self.check_output_limit(&mut connection);
                self.finish(connection);
            }
        }
    }

    /// Notes when a client that still receives a long reply last read of it: its buffer comes back from the
    /// backend only once all of it is written.
    fn note_reading(&mut self, connection: &mut Connection) {
        if connection.output_bytes() == 0 {
            return;
        }
        let token = connection.token;
        let looked = self.with_backend(|_, backend| match backend.output_idle(token) {
            Some(idle) => (Some(idle), None),
            None => (None, backend.output_mark(token)),
        });
        match looked {
            Some((Some(idle), _)) => {
                let active_ms = self.now_ms - idle.as_millis() as i64;
                connection.last_active_ms = connection.last_active_ms.max(active_ms);
            }
            Some((None, Some(mark))) if mark != connection.output_mark => {
                connection.output_mark = mark;
                connection.last_active_ms = self.now_ms;
            }
            _ => {}
        }
    }

    /// Closes clients that have neither sent nor received anything for longer than `timeout_ms`, and notes
    /// when the next one may have been idle for so long.
    fn close_idle_for(&mut self, timeout_ms: i64) {
        let now_ms = self.now_ms;
        // Of a Unix socket the kernel says how far its peer is, not since when: that takes several looks.
        let is_read_slowly = |one: &Connection| one.is_unix && one.output_bytes() > 0;
        let due_ms = |one: &Connection| one.last_active_ms.max(one.info.created_ms) + timeout_ms + 1;
        let mut next_ms = now_ms + timeout_ms + 1;
        let mut looked_at = Vec::new();
        for connection in self.connections.iter() {
            let is_due = due_ms(connection) <= now_ms;
            let is_exempt = connection.is_monitor
                || connection.is_replica()
                || connection.moves_slots()
                || connection.is_subscriber()
                || connection.awaits_reply();
            if is_due && is_exempt {
                // Is idle as soon as it does none of these any more.
                next_ms = next_ms.min(now_ms + IDLE_LOOK_MS);
            } else if is_due || is_read_slowly(connection) {
                looked_at.push(connection.token);
            } else {
                next_ms = next_ms.min(due_ms(connection));
            }
        }
        for token in looked_at {
            let Some(mut connection) = self.take(token) else { continue };
            self.note_reading(&mut connection);
            if due_ms(&connection) <= now_ms {
                tracing::debug!("Closing idle client");
                self.drop_connection(connection);
                continue;
            }
            let is_watched = is_read_slowly(&connection);
            next_ms = next_ms.min(if is_watched { now_ms + IDLE_LOOK_MS } else { due_ms(&connection) });
            self.put(connection);
        }
        self.timers.next_idle_ms = next_ms;
    }
}

#[cfg(test)]
mod tests;
