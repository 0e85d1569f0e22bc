//! What CLUSTER's subcommands change, with Redis' error texts (without the `ERR ` before them).

use super::{Action, Cluster, Node, NodeKey, Time};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::Address;
use crate::slots::SlotSet;
use crate::text::normal_ip;

/// The text of an error for a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommandError(pub String);

pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError(text.into()))
}

/// How a failover is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// With the primary's help, without loss.
    Agreed,
    /// By votes, whatever the primary does.
    Forced,
    /// Without anybody's consent.
    Takeover,
}

/// What becomes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetSlot<'a> {
    /// It goes to this node.
    Migrating(&'a [u8]),
    /// It comes from this node.
    Importing(&'a [u8]),
    /// It stays.
    Stable,
    /// It is this node's.
    Node(&'a [u8]),
}

/// What becomes of a slot, with the node that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotChange {
    /// See [`SetSlot::Migrating`].
    Migrates(NodeKey),
    /// See [`SetSlot::Importing`].
    Imports(NodeKey),
    /// See [`SetSlot::Stable`].
    Stable,
    /// See [`SetSlot::Node`].
    Given(NodeKey),
}

/// The slot number of a client's argument.
///
/// # Errors
/// The argument is not a slot.
pub fn parse_slot(argument: &[u8]) -> Result<u16, CommandError> {
    martlet_base::slot_ranges::parse_slot(argument).map_err(CommandError)
}

/// The operations. Those that fail change nothing.
impl Cluster {
    /// MEET: begins a handshake. Port and bus' port are as the client gave them.
    ///
    /// # Errors
    /// When that is no address.
    pub fn meet(&mut self, now: Time, host: &str, port: i64, bus_port: i64) -> Result<(), CommandError> {
        let valid = |port: i64| u16::try_from(port).ok().filter(|port| *port != 0);
        let (Some(host), Some(client_port), Some(bus_port)) = (normal_ip(host), valid(port), valid(bus_port))
        else {
            return refuse(format!("Invalid node address specified: {host}:{port}"));
        };
        self.now = now;
        let (tcp_port, tls_port) = self.ports(client_port, 0);
        let address = Address { host, tcp_port, tls_port, bus_port };
        if !self.is_meeting(&address) {
            let mut node = Node::new(NodeId::random(&mut self.random), NodeId::random(&mut self.random), now);
            node.flags = NodeFlags::HANDSHAKE.with(NodeFlags::MEET);
            node.address = address;
            self.table.insert(node);
        }
        self.finish();
        Ok(())
    }

    /// ADDSLOTS and ADDSLOTSRANGE: ranges of slots, first and last.
    ///
    /// # Errors
    /// When one has an owner, or is named twice, or a range goes backwards.
    pub fn add_slots(&mut self, now: Time, ranges: &[(u16, u16)]) -> Result<(), CommandError> {
        let slots = self.check_slots(ranges, false)?;
        self.change_slots(now, |cluster| {
            slots.iter().for_each(|slot| cluster.table.assign(slot, cluster.myself));
            cluster.importing.retain(|slot, _| !slots.contains(*slot));
        });
        Ok(())
    }

    /// DELSLOTS and DELSLOTSRANGE.
    ///
    /// # Errors
    /// A slot has no owner, or is named twice, or a range goes backwards.
    pub fn delete_slots(&mut self, now: Time, ranges: &[(u16, u16)]) -> Result<(), CommandError> {
        let slots = self.check_slots(ranges, true)?;
        self.change_slots(now, |cluster| {
            for slot in slots.iter() {
                cluster.table.unassign(slot);
            }
            cluster.importing.retain(|slot, _| !slots.contains(*slot));
        });
        Ok(())
    }

    /// Takes slots of another node, which has consented (atomic slot migration), with an epoch that is newer
    /// than all.
    pub fn claim_slots(&mut self, now: Time, slots: impl IntoIterator<Item = u16>) {
        self.change_slots(now, |cluster| {
            cluster.bump_epoch();
            for slot in slots {
                cluster.table.assign(slot, cluster.myself);
                cluster.table.unclaimed.remove(slot);
            }
            cluster.save(true);
            cluster.todo.broadcast = true;
        });
    }

    fn check_slots(&self, ranges: &[(u16, u16)], is_owned: bool) -> Result<SlotSet, CommandError> {
        let mut slots = SlotSet::default();
        for (first, last) in ranges {
            if first > last {
                return refuse(format!("start slot number {first} is greater than end slot number {last}"));
            }
            for slot in *first..=*last {
                match (self.table.owner(slot), is_owned) {
                    (None, true) => return refuse(format!("Slot {slot} is already unassigned")),
                    (Some(_), false) => return refuse(format!("Slot {slot} is already busy")),
                    _ if !slots.insert(slot) => {
                        return refuse(format!("Slot {slot} specified multiple times"));
                    }
                    _ => {}
                }
            }
        }
        Ok(slots)
    }

    fn change_slots(&mut self, now: Time, change: impl FnOnce(&mut Cluster)) {
        self.now = now;
        change(self);
        self.save(false);
        self.todo.state = true;
        self.finish();
    }

    /// FLUSHSLOTS. `has_keys` says whether database 0 has any.
    ///
    /// # Errors
    /// When it has.
    pub fn flush_slots(&mut self, now: Time, has_keys: bool) -> Result<(), CommandError> {
        if has_keys {
            return refuse("DB must be empty to perform CLUSTER FLUSHSLOTS.");
        }
        self.change_slots(now, |cluster| {
            cluster.table.unassign_all(cluster.myself);
        });
        Ok(())
    }

    /// What SETSLOT would change, if it may.
    ///
    /// # Errors
    /// See [`Cluster::set_slot`].
    pub fn check_slot_change(
        &self,
        slot: u16,
        state: SetSlot,
        is_replicated: bool,
        has_keys: bool,
    ) -> Result<SlotChange, CommandError> {
        let own = &self.table[self.myself];
        if own.is_replica() && !is_replicated {
            return refuse("Please use SETSLOT only with masters.");
        }
        let (is_primary, owner) = (own.is_primary(), self.table.owner(slot));
        let is_own = owner == Some(self.myself);
        match state {
            SetSlot::Migrating(_) if is_primary && !is_own => {
                refuse(format!("I'm not the owner of hash slot {slot}"))
            }
            SetSlot::Migrating(id) => self.find_other_primary(id).map(SlotChange::Migrates),
            SetSlot::Importing(_) if is_own => refuse(format!("I'm already the owner of hash slot {slot}")),
            SetSlot::Importing(id) => self.find_other_primary(id).map(SlotChange::Imports),
            SetSlot::Stable => Ok(SlotChange::Stable),
            SetSlot::Node(id) => {
                let to = self.find_primary(id, "Unknown node")?;
                if is_own && to != self.myself && has_keys {
                    return refuse(format!(
                        "Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
                    ));
                }
                Ok(SlotChange::Given(to))
            }
        }
    }

    /// SETSLOT. `is_replicated` means that the primary sent it, `has_keys` that the slot has keys here.
    ///
    /// # Errors
    /// The request contradicts the slot's owner, or the node is unknown or a replica.
    pub fn set_slot(
        &mut self,
        now: Time,
        slot: u16,
        state: SetSlot,
        is_replicated: bool,
        has_keys: bool,
    ) -> Result<(), CommandError> {
        let change = self.check_slot_change(slot, state, is_replicated, has_keys)?;
        self.told_open.retain(|(told, _)| *told != slot);
        self.change_slots(now, |cluster| match change {
            SlotChange::Migrates(to) => {
                cluster.migrating.insert(slot, to);
            }
            SlotChange::Imports(from) => {
                cluster.importing.insert(slot, from);
            }
            SlotChange::Stable => {
                cluster.importing.remove(&slot);
                cluster.migrating.remove(&slot);
            }
            SlotChange::Given(to) => cluster.give_slot(slot, to, has_keys),
        });
        Ok(())
    }

    /// Whether the replicas that follow the stream, `count` of them, all take SETSLOT from it, as those of
    /// Valkey 8 and later do. (Their light headers distinguish them from Redis', whose versions have none.)
    /// The bus may not yet have named these nodes: then all nodes must take it.
    pub fn replicas_take_slot_changes(&self, count: usize) -> bool {
        let is_own = |node: &Node| node.primary == Some(self.myself);
        let are_known = self.table.iter().filter(|(_, node)| is_own(node)).count() >= count;
        let others = self.table.iter().filter(|&(key, _)| key != self.myself);
        let mut possible = others.filter(|(_, node)| is_own(node) || !are_known);
        possible.all(|(_, node)| node.flags.has(NodeFlags::LIGHT_HEADER))
    }

    fn find_primary(&self, id: &[u8], unknown: &str) -> Result<NodeKey, CommandError> {
        match self.find(id) {
            None => refuse(format!("{unknown} {}", String::from_utf8_lossy(id))),
            Some(key) if self.table[key].is_replica() => refuse("Target node is not a master"),
            Some(key) => Ok(key),
        }
    }

    /// The other end of a slot's move.
    fn find_other_primary(&self, id: &[u8]) -> Result<NodeKey, CommandError> {
        match self.find_primary(id, "I don't know about node")? {
            key if key == self.myself => refuse("Target node is myself"),
            key => Ok(key),
        }
    }

    /// The end of a slot's move, at either node and at those that look on.
    fn give_slot(&mut self, slot: u16, to: NodeKey, has_keys: bool) {
        if !has_keys {
            self.migrating.remove(&slot);
        }
        let shards_primary = self.table[self.myself].primary.unwrap_or(self.myself);
        let was_own = self.table.owner(slot) == Some(shards_primary);
        self.table.assign(slot, to);
        let is_left_empty = was_own && self.table[shards_primary].slot_count() == 0;
        if is_left_empty && to != shards_primary {
            if self.settings.allows_replica_migration {
                let id = self.table[to].id;
                self.log(format!("Lost my last slot. Reconfiguring myself as a replica of {id}"));
                self.set_primary(to, true, true);
                self.save(true);
            } else if self.table[self.myself].is_primary() {
                self.log_left_empty(to);
            }
        }
        let is_for_shard = to == self.myself || self.table[self.myself].primary == Some(to);
        if is_for_shard && self.importing.remove(&slot).is_some() && to == self.myself {
            // A newer epoch makes all others believe it. Should it be another's too, they part again.
            self.bump_epoch();
            self.todo.broadcast = true;
        }
    }

    /// Logs the new owner of the last slot, which no replica is to follow.
    pub(super) fn log_left_empty(&mut self, to: NodeKey) {
        let id = self.table[to].id;
        self.log(format!("My last slot went to node {id}. I am now an empty primary."));
    }

    /// BUMPEPOCH: whether there is a new epoch, and which it is.
    pub fn bump(&mut self, now: Time) -> (bool, u64) {
        self.now = now;
        let is_bumped = self.bump_epoch();
        self.finish();
        (is_bumped, self.table[self.myself].config_epoch)
    }

    /// SET-CONFIG-EPOCH, of a node that knows no other.
    ///
    /// # Errors
    /// When it does, or has an epoch.
    pub fn set_config_epoch(&mut self, now: Time, epoch: i64) -> Result<(), CommandError> {
        let Ok(epoch) = u64::try_from(epoch) else {
            return refuse(format!("Invalid config epoch specified: {epoch}"));
        };
        if self.table.len() > 1 {
            return refuse(
                "The user can assign a config epoch only when the node does not know any other node.",
            );
        }
        if self.table[self.myself].config_epoch != 0 {
            return refuse("Node config epoch is already non-zero");
        }
        self.change_slots(now, |cluster| {
            cluster.table[cluster.myself].config_epoch = epoch;
            cluster.current_epoch = cluster.current_epoch.max(epoch);
        });
        Ok(())
    }

    /// SAVECONFIG.
    pub fn save_conf(&mut self, now: Time) {
        self.now = now;
        self.save(true);
        self.finish();
    }

    /// FORGET.
    ///
    /// # Errors
    /// When it is not known, this node itself, or its primary.
    pub fn forget(&mut self, now: Time, id: &[u8]) -> Result<(), CommandError> {
        self.now = now;
        let Some(key) = self.find(id) else {
            // Another node's message may have been faster.
            let is_forgotten = NodeId::parse(id).is_some_and(|id| self.is_blacklisted(&id));
            let unknown = || format!("Unknown node {}", String::from_utf8_lossy(id));
            return if is_forgotten { Ok(()) } else { refuse(unknown()) };
        };
        if key == self.myself {
            return refuse("I tried hard but I can't forget myself...");
        }
        if self.table[self.myself].primary == Some(key) {
            return refuse("Can't forget my master!");
        }
        self.clean_blacklist();
        self.blacklist.insert(self.table[key].id, now.mono_ms + self.settings.blacklist_ms);
        self.change_slots(now, |cluster| drop(cluster.remove_node(key)));
        Ok(())
    }

    /// REPLICATE. `has_keys` says whether database 0 has any.
    ///
    /// # Errors
    /// When the node is not known, this one, or a replica; or this one has slots or keys.
    pub fn replicate(&mut self, now: Time, id: &[u8], has_keys: bool) -> Result<(), CommandError> {
        let Some(key) = self.find(id) else {
            return refuse(format!("Unknown node {}", String::from_utf8_lossy(id)));
        };
        if key == self.myself {
            return refuse("Can't replicate myself");
        }
        if self.table[key].is_replica() {
            return refuse("I can only replicate a master, not a replica.");
        }
        let own = &self.table[self.myself];
        if own.is_primary() && (own.slot_count() != 0 || has_keys) {
            return refuse("To set a master the node must be empty and without assigned slots.");
        }
        if own.primary != Some(key) {
            self.change_slots(now, |cluster| {
                cluster.set_primary(key, true, true);
                cluster.todo.broadcast = true;
            });
        }
        Ok(())
    }

    /// REPLICATE NO ONE: makes a replica a primary without slots and keys, in a shard of its own.
    pub fn detach(&mut self, now: Time) {
        if self.table[self.myself].is_primary() {
            return;
        }
        self.log("Stop replication and turning myself into empty primary.".into());
        self.change_slots(now, |cluster| {
            cluster.set_as_primary(cluster.myself);
            cluster.actions.push(Action::FlushData);
            cluster.end_manual_failover();
            cluster.election.forget_plan();
            cluster.leave_shard();
            cluster.table.note_all_moved();
            cluster.todo.broadcast = true;
        });
    }

    /// Gives this node a shard of its own.
    fn leave_shard(&mut self) {
        self.table[self.myself].shard = NodeId::random(&mut self.random);
        self.save(true);
    }

    /// FAILOVER.
    ///
    /// # Errors
    /// When this node is no replica, or its primary is not known, or fails and nothing was forced.
    pub fn failover(&mut self, now: Time, how: Failover) -> Result<(), CommandError> {
        let own = &self.table[self.myself];
        if own.is_primary() {
            return refuse("You should send CLUSTER FAILOVER to a replica");
        }
        let Some(primary) = own.primary else {
            return refuse("I'm a replica but my master is unknown to me");
        };
        let of = &self.table[primary];
        if how == Failover::Agreed && (of.is_failed() || of.link.is_none()) {
            return refuse("Master is down or failed, please use CLUSTER FAILOVER FORCE");
        }
        self.now = now;
        self.begin_manual_failover().can_start = how == Failover::Forced;
        match how {
            Failover::Agreed => self.ask_for_pause(),
            Failover::Forced => self.todo.manual_failover = true,
            Failover::Takeover => {
                self.bump_epoch();
                self.take_over();
            }
        }
        self.finish();
        Ok(())
    }

    /// RESET. `has_keys` says whether the client's database has any.
    ///
    /// # Errors
    /// When this is a primary with keys.
    pub fn reset(&mut self, now: Time, is_hard: bool, has_keys: bool) -> Result<(), CommandError> {
        if self.table[self.myself].is_primary() && has_keys {
            return refuse("CLUSTER RESET can't be called with master nodes containing keys");
        }
        self.now = now;
        if self.table[self.myself].is_replica() {
            self.set_as_primary(self.myself);
            self.actions.push(Action::FlushData);
        }
        self.migrating.clear();
        self.importing.clear();
        self.end_manual_failover();
        self.election.forget_plan();
        for key in self.table.keys() {
            self.table.unassign_all(key);
            if key != self.myself {
                self.remove_node(key);
            }
        }
        // Connections whose node is still unknown close too.
        let links: Vec<_> = self.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.close_link(link));
        self.blacklist.clear();
        if is_hard {
            (self.current_epoch, self.last_vote_epoch) = (0, 0);
            self.table.rename(self.myself, NodeId::random(&mut self.random));
            self.table[self.myself].config_epoch = 0;
        }
        self.leave_shard();
        self.todo.state = true;
        self.finish();
        Ok(())
    }
}
