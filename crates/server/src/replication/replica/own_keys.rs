//! Keys with a time to live that clients have written on a replica which lets them: the primary knows nothing
//! of them, and so this server deletes them itself when they are due.
//!
//! Invariant: each such key is in the list from its write on, at its time or an earlier one.

use martlet_command::Flags;
use martlet_engine::{Expired, View, in_view};
use martlet_keyspace::Key;
use martlet_protocol::request::Args;

use crate::registry::Entry;
use crate::runtime::Worker;

/// Keys that are looked at in each turn of the cron.
const TURN_KEYS: usize = 1000;

impl Worker {
    /// Notes the keys that a client's command has given a time to live, if this is a replica; they are held.
    pub(crate) fn remember_own_keys(&self, entry: &Entry, args: &Args<'_>) {
        let config = self.config.current();
        let writes = entry.spec.flags.has(Flags::WRITE) && !config.replica_read_only;
        let mut indexes = Vec::new();
        if config.replicaof.0.is_none() || !writes || !entry.spec.data_keys(args, &mut indexes) {
            return;
        }
        for index in indexes {
            let key = Key::new(args.at(index));
            if let Some(at_ms) = self.keys.expiry_ms(&key) {
                self.shared.replication.replica.own_keys.add(at_ms, self.keys.db(), key.bytes);
            }
        }
    }

    /// Deletes those of them that are due.
    pub(crate) fn expire_own_keys(&mut self) {
        let own_keys = &self.shared.replication.replica.own_keys;
        for _ in 0..TURN_KEYS {
            let Some((db, name)) = own_keys.pop_due(self.now_ms) else { return };
            let key = Key::new(&name);
            if !self.keys.lock_shard_unless_busy(key.shard()) {
                return own_keys.add(self.now_ms, db, &name);
            }
            let view = View { db, expired: Expired::Hide, ..self.base_view };
            let at_ms = in_view(&mut self.keys, view, |keys| {
                keys.delete_if_expired(&key);
                keys.expiry_ms(&key)
            });
            self.release_keys();
            self.keys.recorded = 0;
            // It has been given another time since.
            at_ms.into_iter().for_each(|at_ms| own_keys.add(at_ms, db, &name));
        }
    }
}
