//! The cost of each slot's commands, for CLUSTER SLOT-STATS.
//!
//! Each thread counts for itself; a query adds up. A request is counted once, when it has run: EXEC and
//! scripts with all their commands, for the slot of those. Bytes of the stream count once for each replica.
//!
//! Invariant: while nothing is counted no request comes here, and there are no counters.

use std::sync::OnceLock;

use martlet_base::slot::slot_of;
use martlet_cluster::slots::SLOTS;
use martlet_engine::Counter;
use martlet_protocol::request::Args;

use super::check::slot_of_keys;
use crate::config::{Config, SlotMetrics};
use crate::connection::Connection;
use crate::dispatch::Cost;
use crate::registry::Entry;
use crate::slow_path::SessionFlags;
use crate::worker::Worker;

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
    fn add(&self, thread: usize, slot: u16, usage: Usage) {
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
enum SlotOf {
    /// That of its keys.
    #[default]
    Keys,
    /// This, or none.
    Given(Option<u16>),
}

/// A worker's counters for slots, and the facts of its present request.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct RequestUse {
    metrics: SlotMetrics,
    /// What runs is part of the request.
    is_nested: bool,
    slot: SlotOf,
    /// Bytes that it has added to the stream and that are no longer pending.
    stream_bytes: u64,
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

impl Worker {
    fn add_slot_use(&self, slot: u16, usage: Usage) {
        let Some(node) = self.shared.cluster() else { return };
        let metrics = self.slot_use.metrics;
        let bytes = |bytes: u64| if metrics.net { bytes } else { 0 };
        let ns = if metrics.cpu { usage.ns } else { 0 };
        let usage = Usage { ns, bytes_in: bytes(usage.bytes_in), bytes_out: bytes(usage.bytes_out) };
        node.usage.add(self.thread, slot, usage);
    }

    /// Counts a request that has run.
    pub(crate) fn count_for_slot(
        &mut self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        cost: Cost,
    ) {
        if !self.slot_use.is_counted() || self.slot_use.is_nested {
            return;
        }
        self.note_stream_bytes();
        let stream_bytes = std::mem::take(&mut self.slot_use.stream_bytes);
        let slot = match std::mem::take(&mut self.slot_use.slot) {
            SlotOf::Keys => slot_of_keys(entry, args),
            SlotOf::Given(slot) => slot,
        };
        let Some(slot) = slot else { return };
        let is_told = !connection.session.flags.has(SessionFlags::REPLY_MODE)
            && !crate::checks::is_from_primary(connection);
        let reply_bytes = if is_told { cost.reply_bytes as u64 } else { 0 };
        let bytes_in = args.encoded_bytes() as u64;
        self.add_slot_use(slot, Usage { ns: cost.ns, bytes_in, bytes_out: reply_bytes + stream_bytes });
    }

    /// Counts a request that MULTI has queued, which has arrived, but not run.
    pub(crate) fn count_queued_for_slot(&mut self, entry: &Entry, args: &Args<'_>) {
        if self.slot_use.metrics.net
            && let Some(slot) = slot_of_keys(entry, args)
        {
            let bytes_in = args.encoded_bytes() as u64;
            self.add_slot_use(slot, Usage { bytes_in, ..Usage::default() });
        }
    }

    /// EXEC counts for the slot of the first command of its queue; with it MULTI.
    pub(crate) fn exec_counts_for(&mut self, first: Option<(&Entry, &Args<'_>)>) {
        /// `*1\r\n$5\r\nmulti\r\n`.
        const MULTI_BYTES: u64 = 15;
        if !self.slot_use.is_counted() {
            return;
        }
        let slot = first.and_then(|(entry, args)| slot_of_keys(entry, args));
        self.slot_use.set_slot(slot);
        if let Some(slot) = slot {
            self.add_slot_use(slot, Usage { bytes_in: MULTI_BYTES, ..Usage::default() });
        }
    }

    /// Records the bytes that the request adds to the stream, before its keys are released.
    pub(crate) fn note_stream_bytes(&mut self) {
        if self.slot_use.metrics.net {
            let replicas = self.shared.replication.primary.count() as u64;
            self.slot_use.stream_bytes += self.keys.effects.pending().stream_bytes() as u64 * replicas;
        }
    }

    /// Counts the bytes that a waiter's request adds to the stream, which its own thread does not see.
    pub(crate) fn count_stream_for_slot(&mut self, entry: &Entry, args: &Args<'_>) {
        self.note_stream_bytes();
        let bytes_out = std::mem::take(&mut self.slot_use.stream_bytes);
        if bytes_out > 0
            && let Some(slot) = slot_of_keys(entry, args)
        {
            self.add_slot_use(slot, Usage { bytes_out, ..Usage::default() });
        }
    }

    /// Counts a message that subscribers of a shard channel have got.
    pub(crate) fn count_messages_for_slot(&mut self, channel: &[u8], bytes: usize) {
        if self.slot_use.metrics.net {
            self.add_slot_use(slot_of(channel), Usage { bytes_out: bytes as u64, ..Usage::default() });
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
