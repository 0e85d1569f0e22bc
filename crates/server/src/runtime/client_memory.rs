//! Memory of clients' connections: counted by thread, and limited by `maxmemory-clients`.
//!
//! A connection's bytes are counted whenever its thread puts it back. Once all together are above the limit,
//! the largest are disconnected, before a reply leaves that would show it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;

use super::Worker;
use crate::clients::Disconnects as _;
use crate::clients::{ClientInfo, flag};
use crate::connection::Connection;

impl Worker {
    /// Counts a connection's present memory, with `reply_bytes` of replies that it does not have yet.
    #[inline]
    pub(super) fn count_memory(&self, connection: &Connection, reply_bytes: usize) {
        self.recount(connection, connection.heap_bytes() + reply_bytes + connection.reply_bytes_elsewhere());
    }

    /// Counts a connection that ends.
    pub(super) fn uncount_memory(&self, connection: &Connection) {
        self.recount(connection, 0);
    }

    #[inline]
    fn recount(&self, connection: &Connection, bytes: usize) {
        let counted = &connection.info.counted_bytes;
        let before = counted.load(Ordering::Relaxed);
        if bytes != before {
            self.stats().client_bytes.add((bytes as u64).wrapping_sub(before as u64));
            counted.store(bytes, Ordering::Relaxed);
        }
    }

    /// Disconnects the largest clients until all together are within `maxmemory-clients`. No shard may be
    /// locked, and no connection taken.
    #[inline]
    pub(super) fn limit_clients(&mut self) {
        let limit_bytes = self.memory.clients_limit_bytes;
        if limit_bytes > 0 && self.shared.client_bytes() > limit_bytes {
            self.evict_clients(limit_bytes);
        }
    }

    #[cold]
    fn evict_clients(&mut self, limit_bytes: u64) {
        // Two threads that choose at once would choose twice as many.
        let _alone = lock(&self.shared.client_eviction);
        let bytes = |client: &Arc<ClientInfo>| client.counted_bytes.load(Ordering::Relaxed);
        // Those that were evicted, and have not gone yet, are on the list no more.
        let mut clients = self.shared.clients.all();
        let mut all_bytes = clients.iter().map(|client| bytes(client) as u64).sum::<u64>();
        clients.retain(|client| client.flags.load(Ordering::Relaxed) & (flag::NO_EVICT | flag::REPLICA) == 0);
        clients.sort_unstable_by_key(bytes);
        while all_bytes > limit_bytes
            && let Some(client) = clients.pop()
        {
            all_bytes = all_bytes.saturating_sub(bytes(&client) as u64);
            if client.killed.swap(true, Ordering::AcqRel) {
                continue;
            }
            tracing::info!(
                "Evicting client: id={} addr={} tot-mem={}",
                client.id,
                client.peer,
                bytes(&client)
            );
            self.shared.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            self.shared.disconnect(&client);
        }
    }
}
