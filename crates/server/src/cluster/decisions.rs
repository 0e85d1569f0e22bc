//! The bus' decisions about the data set, carried out by a worker with exclusive access to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_base::sync::lock;
use martlet_cluster::machine::{Action, SetSlot};
use martlet_cluster::slots::{SLOTS, SlotSet};

use super::node::ClusterNode;
use super::routes::Routes;
use crate::config::Primary;
use crate::pubsub::hub::Kind;
use crate::runtime::Mail;
use crate::runtime::Worker;

/// Decisions taken from the machine's queue at once.
pub(super) struct Taken {
    pub(super) decisions: Vec<Action>,
    /// Present if they may differ from the published ones.
    pub(super) routes: Option<Routes>,
}

impl ClusterNode {
    pub(super) fn take_decisions(&self) -> Taken {
        let mut machine = lock(&self.machine);
        let revision = machine.cluster.revision();
        let is_changed = std::mem::replace(&mut machine.seen_revision, revision) != revision;
        Taken {
            decisions: std::mem::take(&mut machine.decisions),
            routes: is_changed.then(|| Routes::new(&machine.cluster)),
        }
    }

    /// Whether the machine has decisions that need the closed gate.
    pub(crate) fn needs_gate(&self) -> bool {
        if !self.is_loaded.load(Ordering::SeqCst) {
            return false;
        }
        let mut machine = lock(&self.machine);
        let revision = machine.cluster.revision();
        if !machine.decisions.is_empty() {
            return true;
        }
        if machine.seen_revision == revision {
            return false;
        }
        let is_other = Routes::new(&machine.cluster) != *self.routes.snapshot();
        if !is_other {
            machine.seen_revision = revision;
        }
        is_other
    }
}

impl Worker {
    /// Carries out one decision.
    pub(super) fn carry_out(&mut self, node: &ClusterNode, decision: Action) {
        let shared = self.shared;
        match decision {
            Action::Replicate { host, port, is_full_sync } => {
                let primary = Primary { host, port };
                if is_full_sync {
                    self.follow_other_history(primary);
                } else if shared.replication.replica.status().primary.as_ref() != Some(&primary) {
                    self.follow_primary(Some(primary));
                }
            }
            Action::StopReplicating if shared.is_replica() => self.follow_primary(None),
            Action::FlushData => self.delete_all_keys(),
            Action::DeleteKeys(slots) => slots.iter().for_each(|slot| {
                self.keys.delete_slot(slot);
            }),
            Action::DropShardChannels(slots) => self.drop_shard_channels(slots),
            Action::PauseWrites(_) => {
                if !node.holds_writes.swap(true, Ordering::SeqCst) {
                    shared.hold_writes();
                }
                // All that ran before has ended, as the gate is closed.
                let offset = shared.replication_offset();
                node.with(|cluster, now| cluster.writes_paused(now, offset));
            }
            Action::ResumeWrites if node.holds_writes.swap(false, Ordering::SeqCst) => {
                shared.release_writes();
            }
            _ => {}
        }
    }

    fn delete_all_keys(&mut self) {
        self.keys.flush(None, false);
        self.keys.flushed_all = true;
        self.keys.effects.flushed_by_server();
    }

    /// Ends subscriptions to shard channels whose slot is another shard's now, and notifies their clients.
    fn drop_shard_channels(&mut self, slots: SlotSet) {
        let Some(routes) = &self.routes else { return };
        let lost: SlotSet = slots.iter().filter(|slot| !routes.is_shards(*slot)).collect();
        if lost.is_empty() {
            return;
        }
        let lost = Arc::new(lost);
        for thread in 0..self.shared.thread_count() {
            let lost = lost.clone();
            let drop_lost = move |worker: &mut Worker| {
                worker.drop_subscriptions(Kind::Shard, b"sunsubscribe", |name| {
                    lost.contains(martlet_base::slot::slot_of(name))
                });
            };
            self.shared.send(thread, Mail::Run(Box::new(drop_lost)));
        }
    }

    /// Assigns the slots of keys that the files had, as Redis does: unowned ones become this node's, others
    /// are imported. All shards are locked.
    pub(super) fn claim_found_slots(&mut self) {
        let Some(node) = self.shared.cluster() else { return };
        if node.read(|cluster| cluster.myself().is_replica()) {
            return;
        }
        for slot in (0..SLOTS).filter(|slot| self.keys.count_slot(*slot) > 0) {
            node.with(|cluster, now| {
                let (owner, me) = (cluster.owner(slot), cluster.my_key());
                let claimed = match owner {
                    Some(owner) if owner == me || cluster.importing_from(slot).is_some() => Ok(()),
                    Some(owner) => {
                        tracing::info!(
                            "I have keys for slot {slot}, but the slot is assigned to another node. Setting it to importing state."
                        );
                        let id = cluster.node(owner).id;
                        cluster.set_slot(now, slot, SetSlot::Importing(id.as_bytes()), false, true)
                    }
                    None => {
                        tracing::info!("I have keys for unassigned slot {slot}. Taking responsibility for it.");
                        cluster.add_slots(now, &[(slot, slot)])
                    }
                };
                if let Err(error) = claimed {
                    tracing::warn!("Slot {slot}: {error}");
                }
            });
        }
    }
}
