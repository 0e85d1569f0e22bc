//! The cost of each slot's commands, for CLUSTER SLOT-STATS.
//!
//! Each thread counts for itself; a query adds up. A request is counted once, when it has run: EXEC and
//! scripts with all their commands, for the slot of those. Bytes of the stream count once for each replica.
//!
//! Invariant: while nothing is counted no request comes here, and there are no counters.

use std::sync::OnceLock;

use martlet_cluster::slots::SLOTS;
use martlet_engine::Counter;

use crate::config::{Config, SlotMetrics};

/// The cost of a slot's commands on one thread.
#[derive(Default)]
struct Part {
    ns: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
}

/// The cost of a slot's commands.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Their time.
    pub ns: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Those of their replies, of messages to subscribers of shard channels, and of what replicas are sent.
    pub bytes_out: u64,
}

/// See the [module docs](self).
pub struct SlotUse {
    /// Of each thread, once it has counted something.
    threads: Box<[OnceLock<Box<[Part]>>]>,
}

impl SlotUse {
    /// Nothing, of `threads` threads.
    pub fn new(threads: usize) -> SlotUse {
        SlotUse { threads: (0..threads).map(|_| OnceLock::new()).collect() }
    }

    /// Adds the thread's counts to a slot.
    pub fn add(&self, thread: usize, slot: u16, usage: Usage) {
        // Workers that serve no clients have no part.
        let Some(parts) = self.threads.get(thread) else { return };
        let parts = parts.get_or_init(|| (0..SLOTS).map(|_| Part::default()).collect());
        if let Some(part) = parts.get(usize::from(slot)) {
            part.ns.add(usage.ns);
            part.bytes_in.add(usage.bytes_in);
            part.bytes_out.add(usage.bytes_out);
        }
    }

    /// The counts of a slot.
    pub fn of(&self, slot: u16) -> Usage {
        let parts = self.threads.iter().filter_map(|parts| parts.get()?.get(usize::from(slot)));
        parts.fold(Usage::default(), |sum, part| Usage {
            ns: sum.ns + part.ns.get(),
            bytes_in: sum.bytes_in + part.bytes_in.get(),
            bytes_out: sum.bytes_out + part.bytes_out.get(),
        })
    }

    /// Resets a slot's counts. Behind the closed gate only.
    pub fn reset(&self, slot: u16) {
        for part in self.threads.iter().filter_map(|parts| parts.get()?.get(usize::from(slot))) {
            [&part.ns, &part.bytes_in, &part.bytes_out].into_iter().for_each(|counter| counter.set(0));
        }
    }

    /// Forgets everything. Behind the closed gate only.
    pub fn reset_all(&self) {
        (0..SLOTS).for_each(|slot| self.reset(slot));
    }
}

/// For which slot a request counts.
#[derive(Copy, Clone, Debug, Default)]
pub enum SlotOf {
    /// That of its keys.
    #[default]
    Keys,
    /// This, or none.
    Given(Option<u16>),
}

/// A worker's counters for slots, and the facts of its present request.
#[derive(Copy, Clone, Debug, Default)]
pub struct RequestUse {
    pub(crate) metrics: SlotMetrics,
    /// What runs is part of the request.
    pub(crate) is_nested: bool,
    pub(crate) slot: SlotOf,
    /// Bytes that it has added to the stream and that are no longer pending.
    pub(crate) stream_bytes: u64,
}

impl RequestUse {
    /// Takes up a changed configuration.
    pub fn configure(&mut self, config: &Config) {
        self.metrics =
            if config.cluster_enabled { config.cluster_slot_stats_enabled } else { SlotMetrics::NONE };
    }

    /// Whether requests are to be counted.
    pub fn is_counted(&self) -> bool {
        self.metrics.cpu || self.metrics.net
    }

    /// Counts nothing, as what runs is part of a request, until [`RequestUse::end_nested`] gets what this
    /// returns.
    pub fn begin_nested(&mut self) -> bool {
        std::mem::replace(&mut self.is_nested, true)
    }

    /// Counts again, if it did before.
    pub fn end_nested(&mut self, was_nested: bool) {
        self.is_nested = was_nested;
    }

    /// The slot for which the request counts, whatever its own keys are.
    pub fn set_slot(&mut self, slot: Option<u16>) {
        if self.is_counted() && !self.is_nested {
            self.slot = SlotOf::Given(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_a_slot_that_is_reset_begins_at_zero() {
        let slots = SlotUse::new(2);
        let usage = Usage { ns: 1, bytes_in: 2, bytes_out: 3 };
        slots.add(0, 7, usage);
        slots.add(1, 7, usage);
        slots.add(1, 8, usage);
        // A thread that there is not.
        slots.add(2, 7, usage);
        assert_eq!(slots.of(7), Usage { ns: 2, bytes_in: 4, bytes_out: 6 });
        slots.reset(7);
        assert_eq!((slots.of(7), slots.of(8)), (Usage::default(), usage));
        slots.reset_all();
        assert_eq!(slots.of(8), Usage::default());
    }
}
