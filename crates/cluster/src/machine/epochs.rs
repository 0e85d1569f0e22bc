//! Config epochs: each primary's is another one.

use super::{Cluster, NodeKey};

impl Cluster {
    /// The newest epoch that is known.
    pub(super) fn max_epoch(&self) -> u64 {
        self.table.iter().map(|(_, node)| node.config_epoch).max().unwrap_or_default().max(self.current_epoch)
    }

    /// Takes a new epoch without asking anybody, unless the own is the newest already; whether it did. Two
    /// nodes may take the same one; then [`Cluster::resolve_collision`] parts them.
    pub(super) fn bump_epoch(&mut self) -> bool {
        let own = self.table[self.myself].config_epoch;
        if own != 0 && own == self.max_epoch() {
            return false;
        }
        self.take_next_epoch();
        true
    }

    /// Another primary has the same epoch: the one with the smaller id takes the next.
    pub(super) fn resolve_collision(&mut self, other: NodeKey) {
        let (own, other) = (&self.table[self.myself], &self.table[other]);
        if own.config_epoch != other.config_epoch || other.id <= own.id {
            return;
        }
        let id = other.id;
        self.take_next_epoch();
        self.log(format!("configEpoch collision with node {id}. configEpoch set to {}", self.current_epoch));
    }

    fn take_next_epoch(&mut self) {
        self.current_epoch = self.current_epoch.saturating_add(1);
        self.table[self.myself].config_epoch = self.current_epoch;
        self.save(true);
    }
}
