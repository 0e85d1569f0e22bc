//! Owners of slots: claims with a newer epoch win, and old ones are corrected.

use super::{Action, Cluster, NodeKey};
use crate::id::NodeId;
use crate::packet::{Body, Header};
use crate::slots::{SLOTS, SlotSet};

impl Cluster {
    /// A node claims slots with an epoch: it gets unclaimed slots, and those of older epochs.
    pub(super) fn hear_slots(&mut self, claimer: NodeKey, epoch: u64, slots: &SlotSet) {
        if claimer == self.myself {
            return;
        }
        let own = &self.table[self.myself];
        let current = if own.is_primary() { Some(self.myself) } else { own.primary };
        let is_sibling = self.are_in_same_shard(claimer, self.myself);
        let (mut lost, mut is_current_losing) = (SlotSet::default(), false);
        for slot in 0..SLOTS {
            let owner = self.table.owner(slot);
            if !slots.contains(slot) {
                self.hear_not_claimed(claimer, epoch, slot);
            } else if owner == Some(claimer) {
                self.table.unclaimed.remove(slot);
            } else if self.table.is_unclaimed(slot) || owner.is_some_and(|owner| self.gives_way(owner, epoch))
            {
                if owner == Some(self.myself) {
                    lost.insert(slot);
                }
                is_current_losing |= owner.is_some() && owner == current;
                self.close_slot_for(claimer, is_sibling, slot);
                self.table.assign(slot, claimer);
                self.table.unclaimed.remove(slot);
                self.save(true);
                self.todo.state = true;
            }
        }
        self.after_claim(claimer, epoch, slots.is_empty(), current.filter(|_| is_current_losing), lost);
    }

    /// Whether an owner's slots go to a claim: to a newer epoch, and to any when the owner has become a
    /// replica, as it claims nothing any more. (In Redis one whose own epoch was newer keeps them for ever.)
    fn gives_way(&self, owner: NodeKey, epoch: u64) -> bool {
        self.table[owner].config_epoch < epoch || self.table[owner].is_replica()
    }

    /// Draws conclusions for slots that are under way when a claim succeeds.
    fn close_slot_for(&mut self, claimer: NodeKey, is_sibling: bool, slot: u16) {
        // A failover in the own shard leaves outgoing moves; another shard's claim is an operator's will.
        if !is_sibling {
            self.migrating.remove(&slot);
        }
        if let Some(from) = self.importing.get(&slot).copied().filter(|from| *from != claimer) {
            if self.are_in_same_shard(claimer, from) {
                self.importing.insert(slot, claimer);
            } else {
                self.importing.remove(&slot);
            }
        }
    }

    /// A claim that does not mention a slot.
    fn hear_not_claimed(&mut self, claimer: NodeKey, epoch: u64, slot: u16) {
        if self.table.owner(slot) == Some(claimer) {
            // The slot keeps its owner, so that clients are redirected; but no packet claims it.
            self.table.unclaimed.insert(slot);
        }
        // The node that a slot moves to may have been failed over by the claimer.
        if let Some(to) = self.migrating.get(&slot).copied().filter(|to| *to != claimer) {
            let node = &self.table[to];
            if (node.config_epoch < epoch || node.is_replica()) && self.are_in_same_shard(to, claimer) {
                self.migrating.insert(slot, claimer);
                self.save(true);
                self.todo.state = true;
            }
        }
        // The one that a slot comes from has let it go: this node missed the end, or has been promoted since.
        if self.table[self.myself].is_primary() && self.importing.get(&slot) == Some(&claimer) {
            self.importing.remove(&slot);
            if self.table.owner(slot) != Some(self.myself) {
                self.table.assign(slot, self.myself);
                self.bump_epoch();
            }
            self.save(true);
            self.todo.state = true;
        }
    }

    /// Consequences of a claim for this node's own role, and for its keys.
    fn after_claim(
        &mut self,
        claimer: NodeKey,
        epoch: u64,
        is_empty: bool,
        losing: Option<NodeKey>,
        lost: SlotSet,
    ) {
        let is_sibling = self.are_in_same_shard(claimer, self.myself);
        let own = &self.table[self.myself];
        let is_idle_sibling = is_sibling
            && is_empty
            && own.slot_count() == 0
            && own.primary != Some(claimer)
            && self.shard_epoch(self.myself) < epoch;
        let has_lost_all = losing.is_some_and(|losing| self.table[losing].slot_count() == 0);
        let follows = (has_lost_all && (self.settings.allows_replica_migration || is_sibling))
            || (losing.is_none() && is_idle_sibling);
        if follows && own.slot_count() == 0 {
            self.log(format!(
                "Configuration change detected. Reconfiguring myself as a replica of node {}",
                self.table[claimer].id
            ));
            self.set_primary(claimer, !is_sibling, !is_sibling);
            self.save(true);
            self.todo.state = true;
        } else if !lost.is_empty() && self.table[self.myself].is_primary() {
            if has_lost_all && !is_sibling {
                self.log_left_empty(claimer);
            }
            self.actions.push(Action::DeleteKeys(lost));
        }
    }

    /// Sends the present owner to a sender that claims slots with an old epoch.
    pub(super) fn correct_sender(&mut self, sender: NodeKey, header: &Header) {
        let newer = header.slots.iter().find_map(|slot| {
            let owner =
                self.table.owner(slot).filter(|owner| *owner != sender && !self.table.is_unclaimed(slot))?;
            let node = &self.table[owner];
            (node.is_primary() && node.config_epoch > header.config_epoch).then_some(owner)
        });
        if let Some(owner) = newer {
            let node = &self.table[owner];
            let update = Body::Update {
                node: node.id,
                config_epoch: node.config_epoch,
                slots: node.slots().without(&self.table.unclaimed),
            };
            self.send_to(sender, update);
        }
    }

    /// A node reports a third one's slots.
    pub(super) fn hear_update(&mut self, id: &NodeId, epoch: u64, slots: &SlotSet) {
        let Some(key) = self.table.find(id).filter(|key| *key != self.myself) else { return };
        if self.table[key].config_epoch >= epoch {
            return;
        }
        self.set_as_primary(key);
        self.table[key].config_epoch = epoch;
        self.save(true);
        self.hear_slots(key, epoch, slots);
    }
}
