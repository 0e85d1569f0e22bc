//! Counters: per thread and command without locks, global ones where they are rare.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use martlet_base::sync::lock;
use martlet_engine::Counter;

/// Buckets of a latency histogram: 32 per power of two (error below 3 %), up to 2^40 ns.
const SUB_BITS: u32 = 5;
const BUCKETS: usize = (41 - SUB_BITS as usize) << SUB_BITS;

/// A histogram of nanoseconds that one thread fills.
pub struct Histogram(Box<[Counter]>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram((0..BUCKETS).map(|_| Counter::default()).collect())
    }
}

/// The bucket of a number of nanoseconds.
#[inline]
fn bucket(ns: u64) -> usize {
    let exponent = (63 - (ns | 1).leading_zeros()).saturating_sub(SUB_BITS);
    let at = ((exponent as usize) << SUB_BITS) + (ns >> exponent) as usize;
    at.min(BUCKETS - 1)
}

/// The largest number of nanoseconds in a bucket.
pub fn bucket_top_ns(bucket: usize) -> u64 {
    let exponent = (bucket >> SUB_BITS).saturating_sub(1);
    let base = bucket - (exponent << SUB_BITS);
    ((base as u64 + 1) << exponent) - 1
}

impl Histogram {
    #[inline]
    fn record(&self, ns: u64) {
        self.0[bucket(ns)].add(1);
    }
}

/// Counts of one command on one thread.
#[derive(Default)]
pub struct CommandStats {
    /// Times it ran.
    pub calls: Counter,
    /// Nanoseconds that it took in all.
    pub ns: Counter,
    /// Times it was refused before it ran.
    pub rejected: Counter,
    /// Times it ran and answered an error.
    pub failed: Counter,
    histogram: OnceLock<Histogram>,
}

impl CommandStats {
    /// Notes a run.
    #[inline]
    pub fn record(&self, ns: u64, histogram: bool) {
        self.calls.add(1);
        self.ns.add(ns);
        if histogram {
            self.histogram.get_or_init(Histogram::default).record(ns);
        }
    }
}

/// Counts of one I/O thread. Only that thread writes.
pub struct ThreadStats {
    /// By command id.
    pub commands: Box<[CommandStats]>,
    /// Requests run.
    pub total_commands: Counter,
    /// Connections accepted.
    pub connections_received: Counter,
    /// Connections given to other threads, as the load has changed.
    pub moved_connections: Counter,
    /// Bytes received.
    pub net_input_bytes: Counter,
    /// Bytes sent.
    pub net_output_bytes: Counter,
    /// Rises whenever it begins something that may take long, or has ended it: odd while it is busy.
    pub turns: AtomicU64,
    /// The kernel's number of the thread; 0 until it begins.
    pub kernel_id: AtomicI32,
    /// Turns of its loop.
    pub loops: Counter,
    /// Nanoseconds of them, without the sleep.
    pub loop_ns: Counter,
    /// The most of one turn.
    pub loop_ns_max: Counter,
    /// The most requests that ran in one turn.
    pub loop_commands_max: Counter,
    /// Nanoseconds for what happens by time, expiry included.
    pub tick_ns: Counter,
    /// Nanoseconds of requests within an EXEC, which counts them as well.
    pub nested_ns: Counter,
    /// Runs of scripts and functions without Lua.
    pub scripts_native: Counter,
    /// Runs by Lua.
    pub scripts_in_lua: Counter,
    /// Runs that began without Lua, and that Lua had to do from their beginning.
    pub scripts_left_to_lua: Counter,
    /// How often the memory of several requests' keys was asked for together, and of how many.
    pub prefetch_batches: Counter,
    /// Requests in those batches.
    pub prefetch_entries: Counter,
    /// Reads and writes that were processed.
    pub reads_processed: Counter,
    /// Bytes of its connections; of one thread alone it may wrap below 0, the sum does not.
    pub client_bytes: Counter,
    /// Writes that were processed.
    pub writes_processed: Counter,
    /// Error replies.
    pub error_replies: Counter,
    /// Keys that the active expiry deleted, and how late they were: sum in milliseconds.
    pub expired_active: Counter,
    /// Delays of expirations, milliseconds.
    pub expired_lag_ms: Histogram,
}

impl ThreadStats {
    /// Zeroes for this many commands.
    pub fn new(commands: usize) -> ThreadStats {
        ThreadStats {
            commands: (0..commands).map(|_| CommandStats::default()).collect(),
            total_commands: Counter::default(),
            connections_received: Counter::default(),
            moved_connections: Counter::default(),
            net_input_bytes: Counter::default(),
            net_output_bytes: Counter::default(),
            turns: AtomicU64::new(0),
            kernel_id: AtomicI32::new(0),
            loops: Counter::default(),
            loop_ns: Counter::default(),
            loop_ns_max: Counter::default(),
            loop_commands_max: Counter::default(),
            tick_ns: Counter::default(),
            nested_ns: Counter::default(),
            scripts_native: Counter::default(),
            scripts_in_lua: Counter::default(),
            scripts_left_to_lua: Counter::default(),
            prefetch_batches: Counter::default(),
            prefetch_entries: Counter::default(),
            reads_processed: Counter::default(),
            client_bytes: Counter::default(),
            writes_processed: Counter::default(),
            error_replies: Counter::default(),
            expired_active: Counter::default(),
            expired_lag_ms: Histogram::default(),
        }
    }

    /// The thread is busy from now on: with something else, if it was.
    #[inline]
    pub fn begin(&self) {
        self.turns.store((self.turns.load(Ordering::Relaxed) + 1) | 1, Ordering::Relaxed);
    }

    /// The thread rests.
    #[inline]
    pub fn rest(&self) {
        self.turns.store((self.turns.load(Ordering::Relaxed) + 1) & !1, Ordering::Relaxed);
    }

    /// Records a turn of the loop that took `ns` and ran `commands` requests.
    #[inline]
    pub fn record_loop(&self, ns: u64, commands: u64) {
        self.loops.add(1);
        self.loop_ns.add(ns);
        if ns > self.loop_ns_max.get() {
            self.loop_ns_max.set(ns);
        }
        if commands > self.loop_commands_max.get() {
            self.loop_commands_max.set(commands);
        }
    }

    /// Nanoseconds of all requests, each once.
    pub fn command_ns(&self) -> u64 {
        let all: u64 = self.commands.iter().map(|command| command.ns.get()).sum();
        all.saturating_sub(self.nested_ns.get())
    }

    /// Notes that a key was deleted `lag_ms` after its time.
    pub fn record_expiry(&self, lag_ms: i64) {
        self.expired_active.add(1);
        self.expired_lag_ms.record(lag_ms.max(0) as u64);
    }

    /// Sets everything to 0 (CONFIG RESETSTAT, behind the gate).
    pub fn reset(&self) {
        for command in &self.commands {
            for counter in [&command.calls, &command.ns, &command.rejected, &command.failed] {
                counter.set(0);
            }
            if let Some(histogram) = command.histogram.get() {
                histogram.0.iter().for_each(|c| c.set(0));
            }
        }
        for counter in [
            &self.total_commands,
            &self.connections_received,
            &self.net_input_bytes,
            &self.net_output_bytes,
            &self.loops,
            &self.loop_ns,
            &self.loop_ns_max,
            &self.loop_commands_max,
            &self.tick_ns,
            &self.nested_ns,
            &self.scripts_native,
            &self.scripts_in_lua,
            &self.scripts_left_to_lua,
            &self.prefetch_batches,
            &self.prefetch_entries,
            &self.reads_processed,
            &self.writes_processed,
            &self.error_replies,
            &self.expired_active,
        ] {
            counter.set(0);
        }
        self.expired_lag_ms.0.iter().for_each(|c| c.set(0));
    }
}

/// One command's counts over all threads.
#[derive(Clone, Debug, Default)]
pub struct CommandTotals {
    /// See [`CommandStats`].
    pub calls: u64,
    /// See [`CommandStats`].
    pub ns: u64,
    /// See [`CommandStats`].
    pub rejected: u64,
    /// See [`CommandStats`].
    pub failed: u64,
    /// Counts by bucket; empty if nothing was recorded.
    pub histogram: Vec<u64>,
}

/// Sums histograms bucket by bucket.
fn merge<'h>(histograms: impl Iterator<Item = &'h Histogram>) -> Vec<u64> {
    let mut sum = Vec::new();
    for histogram in histograms {
        sum.resize(BUCKETS, 0);
        for (total, counter) in sum.iter_mut().zip(histogram.0.iter()) {
            *total += counter.get();
        }
    }
    sum
}

/// The value (top of its bucket) below which `percentile` percent of a merged histogram's counts lie.
pub fn percentile(histogram: &[u64], percentile: f64) -> u64 {
    let total: u64 = histogram.iter().sum();
    if total == 0 {
        return 0;
    }
    let wanted = ((percentile / 100.0 * total as f64).ceil() as u64).clamp(1, total);
    let mut seen = 0;
    for (at, count) in histogram.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return bucket_top_ns(at);
        }
    }
    0
}

/// Totals of the command with this id.
pub fn command_totals(threads: &[crossbeam_utils::CachePadded<ThreadStats>], id: usize) -> CommandTotals {
    let mut totals = CommandTotals::default();
    for stats in threads.iter().map(|t| &t.commands[id]) {
        totals.calls += stats.calls.get();
        totals.ns += stats.ns.get();
        totals.rejected += stats.rejected.get();
        totals.failed += stats.failed.get();
    }
    totals.histogram = merge(threads.iter().filter_map(|t| t.commands[id].histogram.get()));
    totals
}

/// The merged histogram of how late expired keys were deleted, in milliseconds.
pub fn expiry_lag(threads: &[crossbeam_utils::CachePadded<ThreadStats>]) -> Vec<u64> {
    merge(threads.iter().map(|t| &t.expired_lag_ms))
}

/// Counts that are rare enough for shared cells.
#[derive(Default)]
pub struct ServerStats {
    /// Error replies by code (`ERR`, `WRONGTYPE` …).
    errors: Mutex<BTreeMap<String, u64>>,
    /// Connections refused for `maxclients`.
    pub rejected_connections: AtomicU64,
    /// Those of them that came from `priority-subnets`.
    pub rejected_prioritized: AtomicU64,
    /// Full syncs of replicas.
    pub sync_full: AtomicU64,
    /// Partial ones.
    pub sync_partial: AtomicU64,
    /// Those that were asked for and could not be.
    pub sync_partial_refused: AtomicU64,
    /// Commands of the primary's stream that have failed here.
    pub unexpected_errors: AtomicU64,
    /// Clients closed because of their query buffer.
    pub query_buffer_disconnections: AtomicU64,
    /// Clients disconnected for `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Clients closed because of their output buffer.
    pub output_buffer_disconnections: AtomicU64,
    /// Authentication failures.
    pub auth_failures: AtomicU64,
    /// TLS clients whose certificate names no active user (`tls-auth-clients-user`).
    pub refused_certificates: AtomicU64,
    /// Commands that a user may not run, keys and channels that it may not access.
    pub refused_commands: AtomicU64,
    /// Refusals of keys.
    pub refused_keys: AtomicU64,
    /// Refusals of channels.
    pub refused_channels: AtomicU64,
    /// Requests refused for a database.
    pub refused_databases: AtomicU64,
    /// Largest memory use seen, in bytes.
    pub memory_peak: AtomicU64,
    /// When the peak was seen, Unix seconds.
    pub memory_peak_at: AtomicU64,
    /// Microseconds for which memory was above its limit, in all, and since when it is now; 0 for not.
    eviction_us: AtomicU64,
    eviction_since_us: AtomicU64,
    /// Rates, sampled ten times a second.
    pub rates: Mutex<Rates>,
    /// Largest query and output buffers of recent clients.
    pub recent_max_input: AtomicU64,
    /// Largest recent output buffer.
    pub recent_max_output: AtomicU64,
}

/// Distinct error codes that are counted (Redis: `ERROR_STATS_NUMBER`).
const ERROR_CODES_MAX: usize = 128;
/// The only code that is shown once there were more.
const ERRORS_DISABLED: &str = "ERRORSTATS_DISABLED";

impl ServerStats {
    /// Notes whether memory is above its limit at this time.
    pub fn note_eviction(&self, is_above: bool, now_us: i64) {
        let now_us = now_us.max(1) as u64;
        let since_us = self.eviction_since_us.load(Ordering::Relaxed);
        if is_above && since_us == 0 {
            self.eviction_since_us.store(now_us, Ordering::Relaxed);
        } else if !is_above && since_us > 0 && self.eviction_since_us.swap(0, Ordering::Relaxed) > 0 {
            self.eviction_us.fetch_add(now_us.saturating_sub(since_us), Ordering::Relaxed);
        }
    }

    /// For how long memory was above its limit, in all and now, in microseconds.
    pub fn eviction_us(&self, now_us: i64) -> (u64, u64) {
        let now = match self.eviction_since_us.load(Ordering::Relaxed) {
            0 => 0,
            since_us => (now_us.max(0) as u64).saturating_sub(since_us),
        };
        (self.eviction_us.load(Ordering::Relaxed) + now, now)
    }

    /// Counts an error reply of this code. Beyond [`ERROR_CODES_MAX`] none is counted by its code until the
    /// next reset, as in Redis; the codes until then are returned.
    pub fn count_error(&self, code: &str) -> Option<BTreeMap<String, u64>> {
        let mut errors = lock(&self.errors);
        if let Some(count) = errors.get_mut(code).filter(|_| code != ERRORS_DISABLED) {
            *count += 1;
        } else if errors.contains_key(ERRORS_DISABLED) {
            return None;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_owned(), 1);
        } else {
            let disabled = BTreeMap::from([(ERRORS_DISABLED.to_owned(), 1)]);
            return Some(std::mem::replace(&mut *errors, disabled));
        }
        None
    }

    /// Error codes with their counts.
    pub fn errors(&self) -> Vec<(String, u64)> {
        lock(&self.errors).iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// Sets everything to 0 but the peak, which becomes `memory_now`.
    pub fn reset(&self, memory_now: u64) {
        lock(&self.errors).clear();
        for counter in [
            &self.rejected_connections,
            &self.rejected_prioritized,
            &self.sync_full,
            &self.sync_partial,
            &self.sync_partial_refused,
            &self.unexpected_errors,
            &self.query_buffer_disconnections,
            &self.evicted_clients,
            &self.output_buffer_disconnections,
            &self.auth_failures,
            &self.refused_certificates,
            &self.refused_commands,
            &self.refused_keys,
            &self.refused_channels,
            &self.refused_databases,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        self.eviction_us.store(0, Ordering::Relaxed);
        self.memory_peak.store(memory_now, Ordering::Relaxed);
        *lock(&self.rates) = Rates::default();
    }
}

const RATE_SAMPLES: usize = 16;

/// What there are rates of.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests run.
    pub commands: u64,
    /// Bytes received.
    pub input_bytes: u64,
    /// Bytes sent.
    pub output_bytes: u64,
    /// Turns of the threads' loops.
    pub loops: u64,
    /// Nanoseconds of them.
    pub loop_ns: u64,
}

impl Totals {
    /// Each of the counts of two, combined.
    fn with(self, other: Totals, combine: impl Fn(u64, u64) -> u64) -> Totals {
        Totals {
            commands: combine(self.commands, other.commands),
            input_bytes: combine(self.input_bytes, other.input_bytes),
            output_bytes: combine(self.output_bytes, other.output_bytes),
            loops: combine(self.loops, other.loops),
            loop_ns: combine(self.loop_ns, other.loop_ns),
        }
    }
}

/// Averages over the last 16 samples of counts that only grow, as Redis keeps its `instantaneous_*`.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    last: Option<(i64, Totals)>,
    samples: [Totals; RATE_SAMPLES],
    next: usize,
}

impl Rates {
    /// Adds a sample: the counts so far.
    pub fn sample(&mut self, now_us: i64, totals: Totals) {
        if let Some((before_us, before)) = self.last {
            let elapsed_us = (now_us - before_us).max(1) as u64;
            let rate =
                |now: u64, before: u64| now.saturating_sub(before).saturating_mul(1_000_000) / elapsed_us;
            self.samples[self.next] = totals.with(before, rate);
            self.next = (self.next + 1) % RATE_SAMPLES;
        }
        self.last = Some((now_us, totals));
    }

    /// All of it per second.
    pub fn per_second(&self) -> Totals {
        let sum = self.samples.iter().fold(Totals::default(), |sum, one| sum.with(*one, |a, b| a + b));
        sum.with(Totals::default(), |sum, _| sum / RATE_SAMPLES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_and_order_all_numbers() {
        let mut last = 0;
        for ns in (0..2000).chain((11..45).map(|e| 1u64 << e)) {
            let at = bucket(ns);
            assert!(at >= last || ns < 2, "{ns} went down");
            last = at;
            if at < BUCKETS - 1 {
                let top = bucket_top_ns(at);
                assert!(top >= ns && top - ns <= ns / 16, "{ns} lies in the bucket up to {top}");
            }
        }
    }

    #[test]
    fn percentiles() {
        let histogram = Histogram::default();
        for ns in 1..=1000u64 {
            histogram.record(ns * 1000);
        }
        let merged = merge([histogram].iter());
        let p50 = percentile(&merged, 50.0);
        assert!((490_000..520_000).contains(&p50), "{p50}");
        assert_eq!(percentile(&[], 50.0), 0);
    }

    #[test]
    fn rates_average() {
        let mut rates = Rates::default();
        for i in 0..40u64 {
            let totals = Totals { commands: i * 100, input_bytes: i * 1000, loops: i, ..Totals::default() };
            rates.sample(i as i64 * 100_000, totals);
        }
        let expected = Totals { commands: 1000, input_bytes: 10_000, loops: 10, ..Totals::default() };
        assert_eq!(rates.per_second(), expected);
    }
}
