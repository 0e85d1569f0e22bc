//! The known nodes, their replication, and the owner of each slot.
//!
//! Invariant: a key that is stored anywhere in the table is a node's of the table; [`Table::remove`] removes
//! it everywhere. A slot's owner has it in its set, and no other node has.

use super::{LinkId, Time};
use crate::conf::Entry;
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::{Address, Announced};
use crate::slots::{SLOTS, SlotSet};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// A node of a table. Keys are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey(u64);

/// Facts about a node. Times are monotonic, in milliseconds; `None` is never.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id; a made up one before it has answered.
    pub id: NodeId,
    /// Its shard.
    pub shard: NodeId,
    /// Its flags.
    pub flags: NodeFlags,
    /// Epoch of its slots, when it is a primary.
    pub config_epoch: u64,
    /// Where it is.
    pub address: Address,
    /// The facts that it announces.
    pub announced: Announced,
    /// Whose replica it is, if that one is known.
    pub primary: Option<NodeKey>,
    /// Its replicas, by their ids.
    pub replicas: Vec<NodeKey>,
    /// When it became known.
    pub created_ms: i64,
    /// When the ping was sent that it has not answered.
    pub ping_sent: Option<Time>,
    /// When it last answered.
    pub pong_received: Option<Time>,
    /// When anything was received of it.
    pub data_received_ms: Option<i64>,
    /// It takes part in the secret of Redis 8's nodes and Martlet's.
    pub(super) shares_secret: bool,
    /// Its replication offset, in bytes.
    pub offset: u64,
    /// Connection to it.
    pub link: Option<LinkId>,
    /// Connection from it.
    pub inbound: Option<LinkId>,
    /// When it was flagged as failing.
    pub(super) failed_ms: Option<i64>,
    /// When a vote was last given to a replica of it.
    pub(super) voted_ms: Option<i64>,
    /// Since when it has had no replica that works.
    pub(super) orphaned_ms: Option<i64>,
    /// Primaries that cannot reach it, and when they last said so.
    pub(super) reports: Vec<(NodeKey, i64)>,
    slots: SlotSet,
    slot_count: usize,
}

impl Node {
    pub(super) fn new(id: NodeId, shard: NodeId, now: Time) -> Node {
        Node {
            id,
            shard,
            flags: NodeFlags::default(),
            config_epoch: 0,
            address: Address::default(),
            announced: Announced::default(),
            primary: None,
            replicas: Vec::new(),
            created_ms: now.mono_ms,
            ping_sent: None,
            pong_received: None,
            data_received_ms: None,
            shares_secret: false,
            offset: 0,
            link: None,
            inbound: None,
            failed_ms: None,
            voted_ms: None,
            orphaned_ms: None,
            reports: Vec::new(),
            slots: SlotSet::default(),
            slot_count: 0,
        }
    }

    /// Takes up a line of the file, slots and primary apart. Times count from now, as they do in Redis.
    pub(super) fn load(&mut self, entry: &Entry, now: Time) {
        self.flags = entry.flags;
        self.address = entry.address.clone();
        self.announced = entry.announced.clone();
        self.ping_sent = (entry.ping_sent_ms != 0).then_some(now);
        self.pong_received = (entry.pong_received_ms != 0).then_some(now);
        self.failed_ms = self.is_failed().then_some(now.mono_ms);
        // A replica's line has its primary's.
        self.config_epoch = if entry.primary.is_some() { 0 } else { entry.config_epoch };
    }

    /// Whether it is a primary.
    pub fn is_primary(&self) -> bool {
        self.flags.has(NodeFlags::PRIMARY)
    }

    /// Whether it is a replica.
    pub fn is_replica(&self) -> bool {
        self.flags.has(NodeFlags::REPLICA)
    }

    /// Whether most primaries say that it fails.
    pub fn is_failed(&self) -> bool {
        self.flags.has(NodeFlags::FAIL)
    }

    /// Whether it cannot be reached from here.
    pub fn is_suspected(&self) -> bool {
        self.flags.has(NodeFlags::PFAIL)
    }

    /// Whether nothing was heard of it yet.
    pub fn is_in_handshake(&self) -> bool {
        self.flags.has(NodeFlags::HANDSHAKE)
    }

    /// Whether it votes: a primary with slots.
    pub fn is_voter(&self) -> bool {
        self.is_primary() && self.slot_count > 0
    }

    /// Its slots.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// How many.
    pub fn slot_count(&self) -> usize {
        self.slot_count
    }
}

/// See the [module docs](self).
#[derive(Debug)]
pub(super) struct Table {
    nodes: BTreeMap<NodeKey, Node>,
    by_id: BTreeMap<NodeId, NodeKey>,
    owners: Vec<Option<NodeKey>>,
    /// Slots whose owner has stopped to claim them; no packet names it as their owner.
    pub unclaimed: SlotSet,
    /// Slots whose owner has changed, or may serve another shard than this node's now.
    moved: SlotSet,
    next_key: u64,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            nodes: BTreeMap::new(),
            by_id: BTreeMap::new(),
            owners: vec![None; usize::from(SLOTS)],
            unclaimed: SlotSet::default(),
            moved: SlotSet::default(),
            next_key: 0,
        }
    }
}

impl Index<NodeKey> for Table {
    type Output = Node;

    fn index(&self, key: NodeKey) -> &Node {
        // A key is made by `insert` only, and `Cluster::remove_node` takes it out of all that has it.
        &self.nodes[&key]
    }
}

impl IndexMut<NodeKey> for Table {
    fn index_mut(&mut self, key: NodeKey) -> &mut Node {
        self.nodes.get_mut(&key).expect("a key of the table")
    }
}

impl Table {
    pub fn insert(&mut self, node: Node) -> NodeKey {
        let key = NodeKey(self.next_key);
        self.next_key += 1;
        self.by_id.insert(node.id, key);
        self.nodes.insert(key, node);
        key
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn contains(&self, key: NodeKey) -> bool {
        self.nodes.contains_key(&key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.nodes.iter().map(|(key, node)| (*key, node))
    }

    pub fn keys(&self) -> Vec<NodeKey> {
        self.nodes.keys().copied().collect()
    }

    pub fn find(&self, id: &NodeId) -> Option<NodeKey> {
        self.by_id.get(id).copied()
    }

    /// Gives a node another id.
    pub fn rename(&mut self, key: NodeKey, id: NodeId) {
        let old = std::mem::replace(&mut self[key].id, id);
        self.by_id.remove(&old);
        self.by_id.insert(id, key);
    }

    /// Takes a node out, and out of all that mentions it.
    pub fn remove(&mut self, key: NodeKey) -> Option<Node> {
        self.unassign_all(key);
        self.detach(key);
        let node = self.nodes.remove(&key)?;
        self.by_id.remove(&node.id);
        for other in self.nodes.values_mut() {
            other.reports.retain(|(reporter, _)| *reporter != key);
            other.primary = other.primary.filter(|primary| *primary != key);
        }
        Some(node)
    }

    pub fn owner(&self, slot: u16) -> Option<NodeKey> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    /// Whether a slot is unclaimed.
    pub fn is_unclaimed(&self, slot: u16) -> bool {
        self.owner(slot).is_none() || self.unclaimed.contains(slot)
    }

    /// Gives a slot to a node, whatever its owner was.
    pub fn assign(&mut self, slot: u16, key: NodeKey) {
        if slot >= SLOTS || self.owner(slot) == Some(key) {
            return;
        }
        self.unassign(slot);
        self.owners[usize::from(slot)] = Some(key);
        // A primary with its first slot is one that replicas may migrate to, if others have any.
        let has_replicas = self.nodes.values().any(|node| !node.is_replica() && !node.replicas.is_empty());
        let node = &mut self[key];
        node.slots.insert(slot);
        node.slot_count += 1;
        if node.slot_count == 1 && has_replicas {
            node.flags.set(NodeFlags::MIGRATE_TO, true);
        }
    }

    /// Takes a slot from its owner; returns whether it had one.
    pub fn unassign(&mut self, slot: u16) -> bool {
        let Some(owner) = self.owner(slot) else { return false };
        self.owners[usize::from(slot)] = None;
        self.unclaimed.remove(slot);
        self.moved.insert(slot);
        let node = &mut self[owner];
        node.slots.remove(slot);
        node.slot_count -= 1;
        true
    }

    /// Takes all slots from a node; how many it had.
    pub fn unassign_all(&mut self, key: NodeKey) -> usize {
        let slots: Vec<u16> = self[key].slots.iter().collect();
        for slot in &slots {
            self.unassign(*slot);
        }
        slots.len()
    }

    /// Has every slot count as one whose owner has changed.
    pub fn note_all_moved(&mut self) {
        self.moved = (0..SLOTS).collect();
    }

    /// The slots whose owner has changed since the last call.
    pub fn take_moved(&mut self) -> SlotSet {
        if self.moved.is_empty() { SlotSet::default() } else { std::mem::take(&mut self.moved) }
    }

    /// Makes a node a replica of another in the list of that one's.
    pub fn attach(&mut self, replica: NodeKey, primary: NodeKey) {
        self.detach(replica);
        self[replica].primary = Some(primary);
        let id = self[replica].id;
        let replicas = &self[primary].replicas;
        let at = replicas.partition_point(|key| self[*key].id < id);
        let node = &mut self[primary];
        node.replicas.insert(at, replica);
        node.flags.set(NodeFlags::MIGRATE_TO, true);
    }

    /// Ends a node's replication.
    pub fn detach(&mut self, replica: NodeKey) {
        let Some(primary) = self[replica].primary.take() else { return };
        let node = &mut self[primary];
        node.replicas.retain(|key| *key != replica);
        if node.replicas.is_empty() {
            node.flags.set(NodeFlags::MIGRATE_TO, false);
        }
    }
}
