//! Primaries and replicas: roles of the other nodes and of this node itself.

use super::{Action, Cluster, Node, NodeKey};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::packet::Header;

impl Cluster {
    /// Takes a node out, with all that mentions it.
    pub(super) fn remove_node(&mut self, key: NodeKey) -> Option<Node> {
        for link in [self.table[key].link, self.table[key].inbound].into_iter().flatten() {
            self.close_link(link);
        }
        self.migrating.retain(|_, to| *to != key);
        self.importing.retain(|_, from| *from != key);
        self.election.forget(key);
        if let Some(manual) = &mut self.manual {
            manual.replica = manual.replica.filter(|replica| *replica != key);
        }
        self.table.remove(key)
    }

    /// Applies the role in a sender's header.
    pub(super) fn hear_role(&mut self, sender: NodeKey, header: &Header) {
        let Some(primary_id) = header.primary else {
            self.set_as_primary(sender);
            return;
        };
        let claimed = self.table.find(&primary_id).filter(|claimed| *claimed != sender);
        if !self.table[sender].is_replica() {
            self.demote_sender(sender, claimed, header.config_epoch);
        }
        let Some(claimed) = claimed.filter(|claimed| self.table[sender].primary != Some(*claimed)) else {
            return;
        };
        self.table.attach(sender, claimed);
        self.avoid_chain();
        let shard = self.table[claimed].shard;
        self.set_shard(sender, shard);
        self.save(false);
    }

    /// A primary says that it is a replica now.
    fn demote_sender(&mut self, sender: NodeKey, claimed: Option<NodeKey>, config_epoch: u64) {
        let is_failover = claimed.is_some_and(|claimed| self.are_in_same_shard(claimed, sender));
        if let Some(claimed) = claimed.filter(|_| is_failover) {
            if claimed == self.myself && self.table[claimed].is_primary() {
                // Only its primary can claim its slots.
                let left: Vec<u16> = self.table[sender].slots().iter().collect();
                left.into_iter().for_each(|slot| self.table.assign(slot, claimed));
            } else if claimed != self.myself && self.table[sender].config_epoch <= config_epoch {
                // Its new primary may not have said so here yet. Its slots follow by what that one claims.
                self.set_as_primary(claimed);
                self.table[claimed].config_epoch = config_epoch;
            }
        } else {
            self.table.unassign_all(sender);
        }
        let flags = &mut self.table[sender].flags;
        flags.set(NodeFlags::PRIMARY.with(NodeFlags::MIGRATE_TO), false);
        flags.set(NodeFlags::REPLICA, true);
        self.save(false);
        self.todo.state = true;
    }

    /// A replica's primary can itself become a replica; then this one follows that one's primary. Looked at
    /// in every tick, too: packets of two connections may tell of it in the wrong order.
    pub(super) fn avoid_chain(&mut self) {
        let Some(primary) = self.table[self.myself].primary else { return };
        let Some(above) = self.table[primary].primary.filter(|above| self.table[*above].is_primary()) else {
            return;
        };
        self.log(format!("I'm a sub-replica! Reconfiguring myself as a replica of {}", self.table[above].id));
        let is_full_sync = !self.are_in_same_shard(above, self.myself);
        self.set_primary(above, true, is_full_sync);
        self.save(true);
        self.todo.state = true;
    }

    /// Makes a node a primary, in the table.
    pub(super) fn set_as_primary(&mut self, key: NodeKey) {
        if self.table[key].is_primary() {
            return;
        }
        let was_attached = self.table[key].primary.is_some();
        self.table.detach(key);
        let is_target = was_attached && key != self.myself;
        let flags = &mut self.table[key].flags;
        flags.set(NodeFlags::REPLICA, false);
        flags.set(NodeFlags::PRIMARY, true);
        if is_target {
            flags.set(NodeFlags::MIGRATE_TO, true);
        }
        self.save(false);
        self.todo.state = true;
    }

    /// Makes this node, which has no slots, a replica of another.
    pub(super) fn set_primary(&mut self, primary: NodeKey, closes_slots: bool, is_full_sync: bool) {
        self.table.unassign_all(self.myself);
        let flags = &mut self.table[self.myself].flags;
        flags.set(NodeFlags::PRIMARY.with(NodeFlags::MIGRATE_TO), false);
        flags.set(NodeFlags::REPLICA, true);
        if closes_slots {
            self.migrating.clear();
            self.importing.clear();
        }
        self.told_open.clear();
        self.table.attach(self.myself, primary);
        let shard = self.table[primary].shard;
        self.set_shard(self.myself, shard);
        // Slots stay with their owners, but it is another shard's that are served here now.
        self.table.note_all_moved();
        if is_full_sync {
            self.needs_full_sync = true;
            // The data here belongs to another primary: a replica with some of that primary's data has
            // priority in an election.
            self.replication.offset = 0;
        }
        // Even to the same address: the data here may be of another history.
        self.replicated = None;
        self.end_manual_failover();
        self.election.forget_plan();
    }

    /// Has replication follow the primary that this node has, at the address that it has.
    pub(super) fn follow_primary(&mut self) {
        let own = &self.table[self.myself];
        let target = match own.primary {
            Some(primary) => {
                let address = &self.table[primary].address;
                let port =
                    if self.settings.has_tls_replication { address.tls_port } else { address.tcp_port };
                // Until the address is known again, the old one is as good.
                if address.host.is_empty() {
                    return;
                }
                Some((address.host.clone(), port))
            }
            None if own.is_replica() => return,
            None => None,
        };
        if target == self.replicated {
            return;
        }
        self.actions.push(match &target {
            Some((host, port)) => {
                let is_full_sync = std::mem::take(&mut self.needs_full_sync);
                Action::Replicate { host: host.clone(), port: *port, is_full_sync }
            }
            None => Action::StopReplicating,
        });
        self.replicated = target;
    }

    /// Whether two nodes are of one shard.
    pub(super) fn are_in_same_shard(&self, a: NodeKey, b: NodeKey) -> bool {
        self.table[a].shard == self.table[b].shard
    }

    /// Gives a node a shard; this one follows its primary's.
    pub(super) fn set_shard(&mut self, key: NodeKey, shard: NodeId) {
        if self.table[key].shard != shard {
            self.table[key].shard = shard;
            self.save(false);
        }
        let own = &self.table[self.myself];
        if own.primary == Some(key) && own.shard != shard {
            self.table[self.myself].shard = shard;
            self.save(true);
        }
    }
}
