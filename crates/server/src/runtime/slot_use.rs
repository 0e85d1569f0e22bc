//! Counting the cost of a request for its slot, for CLUSTER SLOT-STATS.

use martlet_base::slot::slot_of;
use martlet_protocol::request::Args;

use super::Worker;
use super::dispatch::Cost;
use super::request_flags::is_from_primary;
use crate::cluster::usage::{SlotOf, Usage};
use crate::connection::Connection;
use crate::registry::{Entry, slot_of_keys};
use crate::slow_path::SessionFlags;

impl Worker {
    fn add_slot_use(&self, slot: u16, usage: Usage) {
        let Some(node) = self.shared.cluster() else { return };
        let metrics = self.meter.slot_use.metrics;
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
        if !self.meter.slot_use.is_counted() || self.meter.slot_use.is_nested {
            return;
        }
        self.note_stream_bytes();
        let stream_bytes = std::mem::take(&mut self.meter.slot_use.stream_bytes);
        let slot = match std::mem::take(&mut self.meter.slot_use.slot) {
            SlotOf::Keys => slot_of_keys(entry, args),
            SlotOf::Given(slot) => slot,
        };
        let Some(slot) = slot else { return };
        let is_told = !connection.session.flags.has(SessionFlags::REPLY_MODE) && !is_from_primary(connection);
        let reply_bytes = if is_told { cost.reply_bytes as u64 } else { 0 };
        let bytes_in = args.encoded_bytes() as u64;
        self.add_slot_use(slot, Usage { ns: cost.ns, bytes_in, bytes_out: reply_bytes + stream_bytes });
    }

    /// Counts a request that MULTI has queued, which has arrived, but not run.
    pub(crate) fn count_queued_for_slot(&mut self, entry: &Entry, args: &Args<'_>) {
        if self.meter.slot_use.metrics.net
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
        if !self.meter.slot_use.is_counted() {
            return;
        }
        let slot = first.and_then(|(entry, args)| slot_of_keys(entry, args));
        self.meter.slot_use.set_slot(slot);
        if let Some(slot) = slot {
            self.add_slot_use(slot, Usage { bytes_in: MULTI_BYTES, ..Usage::default() });
        }
    }

    /// Records the bytes that the request adds to the stream, before its keys are released.
    pub(crate) fn note_stream_bytes(&mut self) {
        if self.meter.slot_use.metrics.net {
            let replicas = self.shared.replication.primary.count() as u64;
            self.meter.slot_use.stream_bytes += self.keys.effects.pending().stream_bytes() as u64 * replicas;
        }
    }

    /// Counts the bytes that a waiter's request adds to the stream, which its own thread does not see.
    pub(crate) fn count_stream_for_slot(&mut self, entry: &Entry, args: &Args<'_>) {
        self.note_stream_bytes();
        let bytes_out = std::mem::take(&mut self.meter.slot_use.stream_bytes);
        if bytes_out > 0
            && let Some(slot) = slot_of_keys(entry, args)
        {
            self.add_slot_use(slot, Usage { bytes_out, ..Usage::default() });
        }
    }

    /// Counts a message that subscribers of a shard channel have got.
    pub(crate) fn count_messages_for_slot(&mut self, channel: &[u8], bytes: usize) {
        if self.meter.slot_use.metrics.net {
            self.add_slot_use(slot_of(channel), Usage { bytes_out: bytes as u64, ..Usage::default() });
        }
    }
}
