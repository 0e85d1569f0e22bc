//! Whether there are enough replicas that have been heard of lately.

use crate::runtime::Worker;
use crate::slow_path::SlowPathReason;

/// A replica of which nothing was heard for longer does not count, where the configuration says nothing.
const MOST_LAG_S: u32 = 10;

impl Worker {
    /// Counts the replicas that can be relied on; while there are fewer than `min-replicas-to-write` or
    /// `martlet-sync-replicas`, writes are refused.
    pub(crate) fn note_replicas(&self) {
        let (config, shared) = (self.config.current(), self.shared);
        let most_lag_s = match config.min_replicas_max_lag_s {
            0 => MOST_LAG_S,
            lag_s => lag_s,
        };
        let good = shared.replication.primary.count_good(most_lag_s, self.now_ms);
        let is_primary = config.replicaof.0.is_none();
        let to_write = if config.min_replicas_max_lag_s > 0 { config.min_replicas_to_write } else { 0 };
        let wanted = to_write.max(config.sync_replicas) as usize;
        let has_changed =
            shared.slow_path_reasons.switch(SlowPathReason::FewReplicas, is_primary && good < wanted);
        let waits_for = if is_primary { config.sync_replicas as usize } else { 0 };
        let waits_otherwise = shared.replication.sync_replicas.set_wanted(waits_for);
        if waits_otherwise || has_changed && waits_for > 0 {
            shared.wake_unconfirmed_output();
        }
    }
}
