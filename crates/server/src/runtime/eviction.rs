//! Memory at its limit: which thread evicts, when, and for how long.
//!
//! A thread reads the memory in use again once it may itself have added [`Memory::slack_bytes`], before a
//! command that may grow memory, with nothing locked. So being at the limit costs other commands nothing.
//! Eviction leaves the thread's slack free, and memory is above the limit by at most the others' slack and
//! one command. Eviction that does not finish in its time continues in the next loops.

use std::sync::atomic::Ordering;

use martlet_base::alloc;
use martlet_engine::{EvictFirst, EvictionPolicy, Evictor, in_view};

use super::Worker;
use crate::config::{Config, MaxmemoryPolicy};

/// Keys evicted between two looks at the memory in use.
const BATCH_KEYS: usize = 16;
/// The most that one thread may add before it looks again.
const SLACK_MAX_BYTES: u64 = 64 << 10;
/// Part of the limit that one thread may add before it looks again, while that is less.
const SLACK_PART: u64 = 4096;
/// Part of the limit that large blocks may leave resident once they are freed, and the least such room.
const UNPURGED_PART: u64 = 16;
const UNPURGED_MIN_BYTES: u64 = 4 << 20;

/// One thread's view of the limit.
pub(crate) struct Memory {
    limit_bytes: u64,
    /// What all clients may hold; 0 for no limit.
    pub clients_limit_bytes: u64,
    /// `None`: nothing may be evicted, and commands that may grow memory are refused.
    policy: Option<EvictionPolicy>,
    /// How long one go may take.
    budget_ns: u64,
    slack_bytes: i64,
    /// The thread looks again once [`alloc::thread_bytes`] is this much.
    look_at_bytes: i64,
    evictor: Evictor,
    /// The last go ended before memory was within its limit.
    pub is_unfinished: bool,
}

impl Memory {
    /// No limit.
    pub fn new() -> Memory {
        Memory {
            limit_bytes: 0,
            clients_limit_bytes: 0,
            policy: None,
            budget_ns: 0,
            slack_bytes: 0,
            look_at_bytes: i64::MAX,
            evictor: Evictor::default(),
            is_unfinished: false,
        }
    }

    /// Takes up a configuration. The next command, or loop, looks at the memory in use.
    pub fn configure(&mut self, config: &Config) {
        // A replica's data is its primary's affair.
        let is_exempt = config.replicaof.0.is_some() && config.replica_ignore_maxmemory;
        self.limit_bytes = if is_exempt { 0 } else { config.maxmemory_bytes };
        self.clients_limit_bytes = config.maxmemory_clients.bytes(config.maxmemory_bytes);
        self.policy = policy(config);
        self.budget_ns = budget_ns(config.maxmemory_eviction_tenacity);
        self.slack_bytes = (self.limit_bytes / SLACK_PART).min(SLACK_MAX_BYTES) as i64;
        self.look_at_bytes = if self.limit_bytes == 0 { i64::MAX } else { i64::MIN };
        self.is_unfinished = self.limit_bytes > 0;
    }

    /// Whether the thread may have added its slack since it last looked.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.look_at_bytes != i64::MAX && alloc::thread_bytes() >= self.look_at_bytes
    }
}

/// The policy of a name; `None` for `noeviction`, and while data is imported.
fn policy(config: &Config) -> Option<EvictionPolicy> {
    use EvictFirst::{
        LeastFrequentlyUsed, LeastRecentlyAndFrequentlyUsed, LeastRecentlyModified, LeastRecentlyUsed,
        Random, SoonestExpiry,
    };
    if config.import_mode && config.replicaof.0.is_none() {
        return None;
    }
    let (first, volatile_only) = match config.maxmemory_policy {
        MaxmemoryPolicy::VolatileLru => (LeastRecentlyUsed, true),
        MaxmemoryPolicy::VolatileLfu => (LeastFrequentlyUsed, true),
        MaxmemoryPolicy::VolatileRandom => (Random, true),
        MaxmemoryPolicy::VolatileTtl => (SoonestExpiry, true),
        MaxmemoryPolicy::VolatileLrfu => (LeastRecentlyAndFrequentlyUsed, true),
        MaxmemoryPolicy::AllkeysLrfu => (LeastRecentlyAndFrequentlyUsed, false),
        MaxmemoryPolicy::VolatileLrm => (LeastRecentlyModified, true),
        MaxmemoryPolicy::AllkeysLrm => (LeastRecentlyModified, false),
        MaxmemoryPolicy::AllkeysLru => (LeastRecentlyUsed, false),
        MaxmemoryPolicy::AllkeysLfu => (LeastFrequentlyUsed, false),
        MaxmemoryPolicy::AllkeysRandom => (Random, false),
        MaxmemoryPolicy::Noeviction => return None,
    };
    Some(EvictionPolicy { first, volatile_only, samples: config.maxmemory_samples as usize })
}

/// How long one go may take under `maxmemory-eviction-tenacity`, as Redis has it: 50 us a step up to 10, from
/// there on 15 % more each, and no end at 100.
fn budget_ns(tenacity: u32) -> u64 {
    match tenacity {
        0..=10 => 50_000 * u64::from(tenacity),
        11..=99 => (500_000.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

impl Worker {
    /// Looks at the memory in use and evicts until it is within its limit, or this go's time is over; notes
    /// whether commands that may grow memory must be refused. No shard may be locked.
    #[cold]
    pub(crate) fn make_room(&mut self) {
        self.memory.is_unfinished = false;
        if self.memory.limit_bytes == 0 {
            self.memory.look_at_bytes = i64::MAX;
            return self.shared.set_memory_full(false);
        }
        self.get_within_limit();
        // Only now: the freed bytes are not the thread's to use before it looks again.
        self.memory.look_at_bytes = alloc::thread_bytes().saturating_add(self.memory.slack_bytes);
        let unpurged_bytes = (self.memory.limit_bytes / UNPURGED_PART).max(UNPURGED_MIN_BYTES);
        self.shared.engine.lazy_free.purge_beyond(unpurged_bytes);
        if !self.keys.ready.is_empty() {
            self.serve_ready();
        }
    }

    fn get_within_limit(&mut self) {
        let shared = self.shared;
        let excess = self.excess_bytes();
        shared.stats.note_eviction(excess > 0, shared.clock.unix_us());
        let Some(policy) = self.memory.policy else { return shared.set_memory_full(excess > 0) };
        let may_delete = shared.postpones(self.now_ms).is_none()
            && !shared.persistence.log.refuses_writes.load(Ordering::Relaxed)
            && !shared.persistence.is_loading();
        if excess == 0 || !may_delete {
            return shared.set_memory_full(false);
        }
        let found_none = !self.evict(policy);
        // Values on their way to be freed make room in a moment: no more keys are evicted for them, and no
        // write is refused.
        let is_full = found_none && shared.engine.lazy_free.pending() == 0 && self.excess_bytes() > 0;
        shared.set_memory_full(is_full);
    }

    /// Evicts within the time of one go; false if there was nothing left to evict.
    fn evict(&mut self, policy: EvictionPolicy) -> bool {
        let shared = self.shared;
        let began = shared.clock.raw();
        let recorded = self.keys.recorded;
        let mut evictor = std::mem::take(&mut self.memory.evictor);
        let mut found = true;
        // Invalidations of what is evicted take memory, too, which must not make it evict more in the same
        // go.
        let mut left = self.bytes_to_evict() as i64;
        while found && left > 0 && self.bytes_to_evict() > 0 {
            let is_over = shared.clock.elapsed_ns(began, shared.clock.raw()) >= self.memory.budget_ns;
            if is_over || shared.engine.lazy_free.pending() > 0 {
                self.memory.is_unfinished = true;
                break;
            }
            for _ in 0..BATCH_KEYS {
                let before = self.counted_bytes();
                found = in_view(&mut self.keys, self.base_view, |keys| keys.evict_one(&mut evictor, policy));
                if !found {
                    break;
                }
                left = left.saturating_sub(before.saturating_sub(self.counted_bytes()));
                self.release_keys();
                // No more go than are needed, however large they are.
                if left <= 0 || shared.engine.lazy_free.pending() > 0 {
                    break;
                }
            }
        }
        self.memory.evictor = evictor;
        // It is no client's own write.
        self.keys.recorded = recorded;
        found
    }

    /// Bytes above the limit, without what replicas are behind by and what only a snapshot keeps: no key is
    /// evicted for them.
    fn excess_bytes(&self) -> u64 {
        self.bytes_to_evict().saturating_sub(self.memory.slack_bytes as u64)
    }

    /// What this thread has allocated, less what only a snapshot keeps.
    fn counted_bytes(&self) -> i64 {
        alloc::thread_bytes().saturating_sub_unsigned(self.shared.engine.snapshot.held_bytes())
    }

    /// Bytes that are to be evicted, so that this thread may use its slack before it looks again.
    fn bytes_to_evict(&self) -> u64 {
        let used = alloc::used_bytes() as u64 + self.memory.slack_bytes as u64;
        let gathered = self.shared.replication.replica.gathered_bytes();
        let snapshot = self.shared.engine.snapshot.held_bytes();
        // Clients beyond their own limit are about to be disconnected, in place of keys.
        let clients_beyond = match self.memory.clients_limit_bytes {
            0 => 0,
            limit_bytes => self.shared.client_bytes().saturating_sub(limit_bytes),
        };
        let not_counted = self.stream_bytes_beyond_backlog() + gathered + snapshot + clients_beyond;
        used.saturating_sub(not_counted).saturating_sub(self.memory.limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::budget_ns;

    #[test]
    fn a_go_takes_as_long_as_in_redis() {
        assert_eq!([0, 1, 10].map(budget_ns), [0, 50_000, 500_000]);
        assert_eq!(budget_ns(11), 575_000);
        assert_eq!(budget_ns(99) / 1_000_000_000, 126);
        assert_eq!(budget_ns(100), u64::MAX);
    }
}
