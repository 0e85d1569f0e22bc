//! A replica that its primary can spare moves to a primary that has lost all of its replicas.

use super::failure::Orphans;
use super::gossip::UNWELL;
use super::{Cluster, NodeKey};
use crate::flags::NodeFlags;

/// A primary must be without replicas for this time, since after a failover they take a while to follow.
const ORPHAN_MS: i64 = 5_000;

impl Cluster {
    /// On a replica: migrates, if there is need and no other replica is to.
    pub(super) fn consider_migration(&mut self, orphans: &Orphans) {
        let is_spare = orphans.max_replicas >= 2 && orphans.own_replicas == orphans.max_replicas;
        if orphans.count == 0 || !is_spare || !self.settings.allows_replica_migration || self.is_down {
            return;
        }
        let Some(primary) = self.table[self.myself].primary else { return };
        let is_well = |replica: &&NodeKey| !self.table[**replica].flags.has(UNWELL);
        let well = self.table[primary].replicas.iter().filter(is_well).count();
        if well <= self.settings.migration_barrier {
            return;
        }
        let now = self.now.mono_ms;
        let (mut target, mut candidate) = (None, self.table[self.myself].id);
        for key in self.table.keys() {
            let node = &self.table[key];
            let working = if node.is_primary() { self.working_replicas(key) } else { 0 };
            let is_eligible =
                !node.is_replica() && !node.is_failed() && node.flags.has(NodeFlags::MIGRATE_TO);
            if working == orphans.max_replicas {
                let smallest = node.replicas.iter().map(|replica| self.table[*replica].id).min();
                candidate = smallest.map_or(candidate, |id| id.min(candidate));
            }
            let is_orphan = is_eligible && working == 0;
            if is_orphan && node.slot_count() > 0 {
                target = target.or(Some(key));
            }
            let node = &mut self.table[key];
            node.orphaned_ms = if is_orphan { node.orphaned_ms.or(Some(now)) } else { None };
        }
        let Some(target) = target.filter(|_| candidate == self.table[self.myself].id) else { return };
        if self.table[target].orphaned_ms.is_some_and(|since| now - since > ORPHAN_MS) {
            self.log(format!("Migrating to orphaned primary {}", self.table[target].id));
            self.set_primary(target, true, true);
            self.save(true);
            self.todo.state = true;
        }
    }
}
