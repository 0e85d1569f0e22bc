//! One node's part in the cluster: its knowledge of the others, and its reactions to their messages.
//!
//! The driver calls an input ([`Cluster::tick`] ten times a second, [`Cluster::accepted`],
//! [`Cluster::connected`], [`Cluster::received`], [`Cluster::closed`], the operations of `commands`) with the
//! time, and then carries out the actions of [`Cluster::take_actions`], in their order, before anything else.
//!
//! Invariant: a write of `nodes.conf` precedes the packets of the same input, so that no packet leaves whose
//! content a crash could undo. A refused packet changes nothing but a counter.

mod commands;
mod debug;
mod election;
mod epochs;
mod failure;
mod gossip;
mod links;
mod migration;
mod open_slots;
mod receive;
mod roles;
mod slots;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use commands::{CommandError, Failover, SetSlot, SlotChange, parse_slot};
pub use debug::Direction;
pub use links::LinkId;
pub use table::{Node, NodeKey};

use crate::conf::{Conf, Entry, Open};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::{Address, Announced};
use crate::packet::{Kind, Published, Secret};
use crate::slots::SlotSet;
use debug::Drops;
use election::{Election, ManualFailover};
use links::Link;
use martlet_base::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::Table;

/// The time, twice. Delays are measured by the one that never jumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Monotonic, in milliseconds; its zero does not matter.
    pub mono_ms: i64,
    /// Since the epoch of Unix, in milliseconds.
    pub unix_ms: i64,
}

/// The configuration; the names are the directives' without `cluster-`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `node-timeout`.
    pub node_timeout_ms: i64,
    /// `ping-interval`; 0 for half the timeout.
    pub ping_interval_ms: i64,
    /// `require-full-coverage`.
    pub requires_full_coverage: bool,
    /// `replica-validity-factor`.
    pub replica_validity_factor: i64,
    /// `repl-ping-replica-period`.
    pub replication_ping_ms: i64,
    /// `migration-barrier`.
    pub migration_barrier: usize,
    /// `allow-replica-migration`.
    pub allows_replica_migration: bool,
    /// `replica-no-failover`.
    pub has_no_failover: bool,
    /// `manual-failover-timeout`.
    pub manual_failover_timeout_ms: i64,
    /// `blacklist-ttl`.
    pub blacklist_ms: i64,
    /// `announce-ip`; when empty, the others' connections tell the address.
    pub announced_host: String,
    /// Ports that are announced.
    pub tcp_port: u16,
    /// The port with TLS; 0 for none.
    pub tls_port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Whether the bus uses TLS: then the first port of a packet is the one with TLS.
    pub has_tls_bus: bool,
    /// Whether replication uses TLS.
    pub has_tls_replication: bool,
    /// What else is announced.
    pub announced: Announced,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_timeout_ms: 15_000,
            ping_interval_ms: 0,
            requires_full_coverage: true,
            replica_validity_factor: 10,
            replication_ping_ms: 10_000,
            migration_barrier: 1,
            allows_replica_migration: true,
            has_no_failover: false,
            manual_failover_timeout_ms: 5_000,
            blacklist_ms: 60_000,
            announced_host: String::new(),
            tcp_port: 6379,
            tls_port: 0,
            bus_port: 16_379,
            has_tls_bus: false,
            has_tls_replication: false,
            announced: Announced::default(),
        }
    }
}

/// The state of replication, set before each tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    /// Own offset, in bytes: written on a primary, applied on a replica.
    pub offset: u64,
    /// How long nothing was heard of the primary, in milliseconds.
    pub silent_ms: i64,
}

/// An action for the driver, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put this text in place of `nodes.conf`; if that fails, the node must stop.
    SaveConf {
        /// All of it.
        text: String,
        /// Whether it must have reached the disk before the next action.
        is_synced: bool,
    },
    /// Connect; then [`Cluster::connected`] or [`Cluster::closed`].
    Connect {
        /// By which the connection is known from now on.
        link: LinkId,
        /// Where to.
        host: String,
        /// Port of the bus.
        port: u16,
    },
    /// Send a packet.
    Send {
        /// Where.
        link: LinkId,
        /// All of it.
        packet: Arc<[u8]>,
    },
    /// Close a connection, which is forgotten already.
    Close(LinkId),
    /// Be a replica of the server at this address.
    Replicate {
        /// Its address.
        host: String,
        /// Its port for replication.
        port: u16,
        /// Whether the data here belongs to another history.
        is_full_sync: bool,
    },
    /// Be a primary.
    StopReplicating,
    /// Delete everything.
    FlushData,
    /// Delete the keys of slots that others own now.
    DeleteKeys(SlotSet),
    /// Unsubscribe all from shard channels of those of these slots that are another shard's now.
    DropShardChannels(SlotSet),
    /// Pause writes for at most this number of milliseconds, then call [`Cluster::writes_paused`].
    PauseWrites(i64),
    /// End the pause.
    ResumeWrites,
    /// Give a message to the subscribers here.
    Deliver(Published),
    /// A line for the log.
    Log(String),
}

/// What remains to be done at the end of an input.
#[derive(Clone, Copy, Debug, Default)]
struct Todo {
    save: bool,
    sync: bool,
    state: bool,
    failover: bool,
    manual_failover: bool,
    broadcast: bool,
}

/// Counters of packets.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Sent, by [`Kind`].
    pub sent: [u64; Kind::ALL.len()],
    /// Received, by [`Kind`].
    pub received: [u64; Kind::ALL.len()],
    /// Refused: malformed, or of an unknown kind.
    pub refused: u64,
    /// Connections closed as more waited to be sent than `link-sendbuf-limit` allows.
    pub buffer_limit_exceeded: u64,
}

/// A node of a cluster. See the [module docs](self).
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    random: Random,
    /// The cluster's secret, as far as it is known here.
    secret: Secret,
    now: Time,
    table: Table,
    myself: NodeKey,
    current_epoch: u64,
    last_vote_epoch: u64,
    links: BTreeMap<LinkId, Link>,
    next_link: u64,
    /// Ids that gossip does not bring back, and until when.
    blacklist: BTreeMap<NodeId, i64>,
    migrating: BTreeMap<u16, NodeKey>,
    importing: BTreeMap<u16, NodeKey>,
    /// Open slots that the primary has sent with its data set, of nodes that are not known yet.
    told_open: Vec<(u16, Open)>,
    is_down: bool,
    size: usize,
    first_evaluation_ms: Option<i64>,
    minority_ms: Option<i64>,
    election: Election,
    manual: Option<ManualFailover>,
    replication: Replication,
    /// The address that replication last followed.
    replicated: Option<(String, u16)>,
    needs_full_sync: bool,
    ticks: u64,
    drops: Drops,
    counters: Counters,
    revision: u64,
    todo: Todo,
    actions: Vec<Action>,
}

impl Cluster {
    /// A node that has never been in a cluster.
    pub fn new(settings: Settings, mut random: Random, now: Time) -> Cluster {
        let mut node = Node::new(NodeId::random(&mut random), NodeId::random(&mut random), now);
        node.flags = NodeFlags::MYSELF.with(NodeFlags::PRIMARY);
        let mut table = Table::default();
        let myself = table.insert(node);
        let mut cluster = Cluster::with(settings, random, now, table, myself);
        cluster.save(true);
        cluster.finish();
        cluster
    }

    /// The node whose file this is.
    pub fn from_conf(settings: Settings, random: Random, now: Time, conf: &Conf) -> Cluster {
        let (mut random, mut table) = (random, Table::default());
        let mut keys = BTreeMap::new();
        let mut myself = None;
        for entry in &conf.nodes {
            let mut node =
                Node::new(entry.id, entry.shard.unwrap_or_else(|| NodeId::random(&mut random)), now);
            node.load(entry, now);
            let key = table.insert(node);
            keys.insert(entry.id, key);
            if entry.flags.has(NodeFlags::MYSELF) {
                myself = Some((key, &entry.open));
            }
        }
        let Some((myself, open)) = myself else { return Cluster::new(settings, random, now) };
        let mut key_of = |table: &mut Table, random: &mut Random, id: NodeId| {
            *keys.entry(id).or_insert_with(|| {
                let mut node = Node::new(id, NodeId::random(random), now);
                node.flags = NodeFlags::NO_ADDRESS;
                table.insert(node)
            })
        };
        for entry in &conf.nodes {
            let key = key_of(&mut table, &mut random, entry.id);
            entry.slots.iter().for_each(|slot| table.assign(slot, key));
            if let Some(primary) = entry.primary.filter(|primary| *primary != entry.id) {
                let primary = key_of(&mut table, &mut random, primary);
                table.attach(key, primary);
                table[key].shard = table[primary].shard;
            }
        }
        let (mut migrating, mut importing) = (BTreeMap::new(), BTreeMap::new());
        for (slot, open) in open {
            match open {
                Open::Migrating(to) => migrating.insert(*slot, key_of(&mut table, &mut random, *to)),
                Open::Importing(from) => importing.insert(*slot, key_of(&mut table, &mut random, *from)),
            };
        }
        table.take_moved();
        let mut cluster = Cluster::with(settings, random, now, table, myself);
        (cluster.migrating, cluster.importing) = (migrating, importing);
        cluster.last_vote_epoch = conf.last_vote_epoch;
        cluster.current_epoch = conf.current_epoch;
        cluster.current_epoch = cluster.max_epoch();
        cluster.finish();
        cluster
    }

    fn with(settings: Settings, mut random: Random, now: Time, table: Table, myself: NodeKey) -> Cluster {
        let secret = *NodeId::random(&mut random).as_bytes();
        let mut cluster = Cluster {
            settings: Settings::default(),
            random,
            secret,
            now,
            table,
            myself,
            current_epoch: 0,
            last_vote_epoch: 0,
            links: BTreeMap::new(),
            next_link: 0,
            blacklist: BTreeMap::new(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            told_open: Vec::new(),
            is_down: true,
            size: 0,
            first_evaluation_ms: None,
            minority_ms: None,
            election: Election::default(),
            manual: None,
            replication: Replication::default(),
            replicated: None,
            needs_full_sync: false,
            ticks: 0,
            drops: Drops::default(),
            counters: Counters::default(),
            revision: 0,
            todo: Todo::default(),
            actions: Vec::new(),
        };
        cluster.apply_settings(settings);
        cluster
    }

    /// Takes up settings, at the start and when they change.
    pub fn set_settings(&mut self, now: Time, settings: Settings) {
        self.now = now;
        self.apply_settings(settings);
        self.save(false);
        self.todo.state = true;
        self.finish();
    }

    fn apply_settings(&mut self, settings: Settings) {
        let had_host = !self.settings.announced_host.is_empty();
        let own = &mut self.table[self.myself];
        own.flags.set(NodeFlags::NO_FAILOVER, settings.has_no_failover);
        own.flags.set(NodeFlags::LIGHT_HEADER.with(NodeFlags::EXTENSIONS), true);
        own.announced = settings.announced.clone();
        // Without an announced one, the address is found again by the next MEET or ping.
        let host = match settings.announced_host.as_str() {
            "" if had_host => String::new(),
            "" => std::mem::take(&mut own.address.host),
            host => host.to_owned(),
        };
        own.address = Address {
            host,
            tcp_port: settings.tcp_port,
            tls_port: settings.tls_port,
            bus_port: settings.bus_port,
        };
        self.settings = settings;
    }

    /// Sets the state of replication.
    pub fn set_replication(&mut self, replication: Replication) {
        self.replication = replication;
    }

    /// Ten times a second: connects, pings, finds failing nodes, continues elections.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        self.ticks += 1;
        self.reconnect();
        if self.ticks.is_multiple_of(10) {
            self.ping_oldest();
        }
        let orphans = self.check_nodes();
        self.check_manual_failover_time();
        if !self.told_open.is_empty() {
            self.open_told_slots();
        }
        if self.table[self.myself].is_replica() {
            self.avoid_chain();
            self.ask_for_pause_again();
            self.go_on_with_manual_failover();
            self.go_on_with_election();
            self.consider_migration(&orphans);
        }
        if self.is_down {
            self.todo.state = true;
        }
        self.finish();
    }

    /// Ends an input: its actions, and the file.
    fn finish(&mut self) {
        if self.todo.manual_failover && self.table[self.myself].is_replica() {
            self.todo.manual_failover = false;
            self.go_on_with_manual_failover();
            self.todo.failover = true;
        }
        if self.todo.failover {
            self.todo.failover = false;
            self.go_on_with_election();
        }
        if self.todo.state {
            self.evaluate_state();
        }
        if self.todo.broadcast {
            self.broadcast_pong();
        }
        self.follow_primary();
        let moved = self.table.take_moved();
        if !moved.is_empty() {
            self.actions.push(Action::DropShardChannels(moved));
        }
        if self.todo.save {
            self.revision += 1;
            let save = Action::SaveConf { text: self.conf().to_text(), is_synced: self.todo.sync };
            // Inputs whose actions were not yet taken must not have theirs behind a later state.
            self.actions.insert(0, save);
        }
        // A manual failover whose offset is not reached is looked at by the next tick.
        self.todo = Todo::default();
    }

    /// The actions since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Has the file written, before anything of this input is sent.
    fn save(&mut self, is_synced: bool) {
        self.todo.save = true;
        self.todo.sync |= is_synced;
    }

    fn log(&mut self, text: String) {
        self.actions.push(Action::Log(text));
    }

    /// The content of the file: all nodes but those of which nothing was heard yet.
    pub fn conf(&self) -> Conf {
        let known = self.table.iter().filter(|(_, node)| !node.is_in_handshake());
        Conf {
            nodes: known.map(|(key, _)| self.entry(key)).collect(),
            current_epoch: self.current_epoch,
            last_vote_epoch: self.last_vote_epoch,
        }
    }

    /// A node's line.
    pub fn entry(&self, key: NodeKey) -> Entry {
        let node = &self.table[key];
        // A time that happened is told as it was, however the clock has been set since.
        let unix = |time: Option<Time>| time.map_or(0, |time| time.unix_ms);
        let open = if key == self.myself { self.open_slots() } else { Vec::new() };
        Entry {
            id: node.id,
            address: node.address.clone(),
            announced: node.announced.clone(),
            shard: Some(node.shard),
            flags: node.flags,
            primary: node.primary.map(|primary| self.table[primary].id),
            ping_sent_ms: unix(node.ping_sent),
            pong_received_ms: unix(node.pong_received),
            config_epoch: self.shard_epoch(key),
            is_connected: key == self.myself || self.is_linked(key),
            slots: node.slots().clone(),
            open,
        }
    }

    fn open_slots(&self) -> Vec<(u16, Open)> {
        let migrating = self.migrating.iter().map(|(slot, to)| (*slot, Open::Migrating(self.table[*to].id)));
        let importing = self.importing.iter().filter(|(slot, _)| !self.migrating.contains_key(slot));
        let importing = importing.map(|(slot, from)| (*slot, Open::Importing(self.table[*from].id)));
        let mut open: Vec<(u16, Open)> = migrating.chain(importing).collect();
        open.sort_by_key(|(slot, _)| *slot);
        open
    }
}

/// Facts that the views of `views` read.
impl Cluster {
    /// The node itself.
    pub fn myself(&self) -> &Node {
        &self.table[self.myself]
    }

    /// Its key.
    pub fn my_key(&self) -> NodeKey {
        self.myself
    }

    /// All nodes, in the order in which they were first heard of.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.table.iter()
    }

    /// A node.
    pub fn node(&self, key: NodeKey) -> &Node {
        &self.table[key]
    }

    /// The node with this id.
    pub fn find(&self, id: &[u8]) -> Option<NodeKey> {
        self.table.find(&NodeId::parse(id)?)
    }

    /// A slot's owner.
    pub fn owner(&self, slot: u16) -> Option<NodeKey> {
        self.table.owner(slot)
    }

    /// Where a slot of this node is moving to.
    pub fn migrating_to(&self, slot: u16) -> Option<NodeKey> {
        self.migrating.get(&slot).copied()
    }

    /// Where a slot comes from that this node is taking.
    pub fn importing_from(&self, slot: u16) -> Option<NodeKey> {
        self.importing.get(&slot).copied()
    }

    /// All slots of this node that are moving, and where to.
    pub fn migrating(&self) -> impl Iterator<Item = (u16, NodeKey)> {
        self.migrating.iter().map(|(slot, to)| (*slot, *to))
    }

    /// All slots that this node is taking, and where from.
    pub fn importing(&self) -> impl Iterator<Item = (u16, NodeKey)> {
        self.importing.iter().map(|(slot, from)| (*slot, *from))
    }

    /// Whether the cluster is down, as this node sees it.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// Primaries with slots.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Newest epoch that is known.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Epoch of the last vote that was given.
    pub fn last_vote_epoch(&self) -> u64 {
        self.last_vote_epoch
    }

    /// Epoch of a node's slots; of a replica, its primary's.
    pub fn shard_epoch(&self, key: NodeKey) -> u64 {
        let node = &self.table[key];
        self.table[node.primary.unwrap_or(key)].config_epoch
    }

    /// Counters of packets.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A number that changes whenever a part of the table does that clients see.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A node's replication offset, in bytes.
    pub fn offset(&self, key: NodeKey) -> u64 {
        if key == self.myself { self.replication.offset } else { self.table[key].offset }
    }
}
