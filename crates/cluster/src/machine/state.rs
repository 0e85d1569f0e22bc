//! Whether the cluster is up, as this node sees it.

use super::Cluster;
use super::gossip::UNWELL;
use crate::slots::SLOTS;

/// After a start a primary waits this time before it takes writes, so that it can hear of a failover.
const WRITABLE_DELAY_MS: i64 = 2_000;
/// Bounds of the same after it was with a minority, which is the node timeout.
const REJOIN_MS: std::ops::RangeInclusive<i64> = 500..=5_000;

impl Cluster {
    /// Counts the primaries, and finds whether all slots are served and most primaries are in reach.
    pub(super) fn evaluate_state(&mut self) {
        let now = self.now.mono_ms;
        let first_ms = *self.first_evaluation_ms.get_or_insert(now);
        let is_primary = self.table[self.myself].is_primary();
        if is_primary && self.is_down && now - first_ms < WRITABLE_DELAY_MS {
            return;
        }
        let voters = self.table.iter().filter(|(_, node)| node.is_voter());
        let (size, reachable) = voters.fold((0, 0), |(size, reachable), (_, node)| {
            (size + 1, reachable + usize::from(!node.flags.has(UNWELL)))
        });
        self.size = size;
        let is_minority = reachable < self.quorum();
        if is_minority {
            self.minority_ms = Some(now);
        }
        let is_down = is_minority || (self.settings.requires_full_coverage && !self.is_covered());
        if is_down == self.is_down {
            return;
        }
        let rejoin_ms = self.settings.node_timeout_ms.clamp(*REJOIN_MS.start(), *REJOIN_MS.end());
        if !is_down && is_primary && self.minority_ms.is_some_and(|since| now - since < rejoin_ms) {
            return;
        }
        self.is_down = is_down;
        self.revision += 1;
        self.log(format!("Cluster state changed: {}", if is_down { "fail" } else { "ok" }));
    }

    fn is_covered(&self) -> bool {
        let served =
            self.table.iter().filter(|(_, node)| !node.is_failed()).map(|(_, node)| node.slot_count());
        served.sum::<usize>() == usize::from(SLOTS)
    }
}
