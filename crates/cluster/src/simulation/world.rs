//! Nodes, the connections between them, their disks and clocks, and their faults.

use super::{NODE_TIMEOUT_MS, Options, Summary};
use crate::conf::Conf;
use crate::id::NodeId;
use crate::machine::{Action, Cluster, Failover, LinkId, Replication, SetSlot, Settings, Time};
use crate::packet::Kind;
use crate::slots::SLOTS;
use martlet_base::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

const TICK_MS: i64 = 100;
const BUS_PORT: u16 = 16_379;
/// Bytes that clients write in each tick.
const WRITTEN_BYTES: u64 = 10;
const START_UNIX_MS: i64 = 1_700_000_000_000;

/// A node with its disk and its clock.
pub(super) struct SimNode {
    pub cluster: Option<Cluster>,
    life: u64,
    host: String,
    /// Content of the disk that is certain, and content that may be there.
    synced: String,
    written: String,
    /// How far its wall clock is off, in milliseconds.
    skew_ms: i64,
    paused_until_ms: i64,
    offset: u64,
    silent_ms: i64,
    primary_host: Option<String>,
    is_write_paused: bool,
    /// Side of the partition.
    side: u8,
    conns: BTreeMap<LinkId, usize>,
}

/// A connection between two nodes; it ends when one closes it, or when packets cannot get through.
struct Conn {
    ends: [(usize, u64, Option<LinkId>); 2],
    is_open: bool,
    /// When the last packet to each end arrives: they stay in order.
    last_ms: [i64; 2],
}

#[derive(Debug)]
enum Event {
    Tick(usize, u64),
    Connect(usize, u64, LinkId, String),
    Packet(usize, usize, Arc<[u8]>),
    Closed(usize, u64, LinkId),
    Restart(usize),
}

/// See the [module docs](self).
pub(super) struct World {
    pub nodes: Vec<SimNode>,
    pub summary: Summary,
    pub violation: Option<String>,
    pub options: Options,
    now_ms: i64,
    random: Random,
    events: BTreeMap<(i64, u64), Event>,
    next_event: u64,
    conns: Vec<Conn>,
    max_delay_ms: u64,
    votes: BTreeMap<(NodeId, u64), NodeId>,
}

impl World {
    pub fn new(options: &Options, seed: u64) -> World {
        let mut world = World {
            nodes: Vec::new(),
            summary: Summary::default(),
            violation: None,
            options: options.clone(),
            now_ms: 0,
            random: Random::seeded(seed),
            events: BTreeMap::new(),
            next_event: 0,
            conns: Vec::new(),
            max_delay_ms: 5,
            votes: BTreeMap::new(),
        };
        for index in 0..options.nodes {
            world.nodes.push(SimNode {
                cluster: None,
                life: 0,
                host: format!("10.0.{}.{}", index / 250, index % 250 + 1),
                synced: String::new(),
                written: String::new(),
                skew_ms: 0,
                paused_until_ms: 0,
                offset: 0,
                silent_ms: 0,
                primary_host: None,
                is_write_paused: false,
                side: 0,
                conns: BTreeMap::new(),
            });
            world.start(index);
        }
        world
    }

    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn time(&self, index: usize) -> Time {
        Time { mono_ms: self.now_ms, unix_ms: START_UNIX_MS + self.now_ms + self.nodes[index].skew_ms }
    }

    fn at(&mut self, ms: i64, event: Event) {
        self.next_event += 1;
        self.events.insert((ms, self.next_event), event);
    }

    fn delay_ms(&mut self) -> i64 {
        1 + self.random.below(self.max_delay_ms) as i64
    }

    /// Starts a node, from its file if it has one.
    fn start(&mut self, index: usize) {
        let settings =
            Settings { node_timeout_ms: NODE_TIMEOUT_MS, replica_validity_factor: 0, ..Settings::default() };
        let (random, now) = (Random::seeded(self.random.next_u64()), self.time(index));
        let node = &mut self.nodes[index];
        node.life += 1;
        node.cluster = Some(match Conf::parse(&node.synced) {
            Ok(conf) => Cluster::from_conf(settings, random, now, &conf),
            Err(_) => Cluster::new(settings, random, now),
        });
        let (life, first_ms) = (node.life, self.now_ms + 1 + self.random.below(TICK_MS as u64) as i64);
        self.at(first_ms, Event::Tick(index, life));
        self.carry_out(index);
    }

    /// Has the first node meet all others, and gives out roles.
    pub fn form(&mut self) -> Result<(), String> {
        let hosts: Vec<String> = self.nodes.iter().map(|node| node.host.clone()).collect();
        for host in hosts.iter().skip(1) {
            let met = self.with(0, |cluster, now| cluster.meet(now, host, 6379, BUS_PORT.into()));
            met.transpose().map_err(|error| error.to_string())?;
            // As redis-cli does, so that no node is met by hundreds at once.
            self.run_until(self.now_ms + 20);
        }
        let primaries = self.options.primaries;
        for index in 0..primaries {
            let bound = |part: usize| (part * usize::from(SLOTS) / primaries) as u16;
            let range = (bound(index), bound(index + 1) - 1);
            let added = self.with(index, |cluster, now| cluster.add_slots(now, &[range]));
            added.transpose().map_err(|error| error.to_string())?;
        }
        let all = self.nodes.len();
        let is_known = |world: &World| {
            world.nodes.iter().all(|node| {
                node.cluster
                    .as_ref()
                    .is_some_and(|own| own.nodes().filter(|(_, n)| !n.is_in_handshake()).count() == all)
            })
        };
        let end_ms = self.now_ms + self.options.heal_ms;
        while !is_known(self) && self.now_ms < end_ms {
            self.run_until(self.now_ms + 100);
        }
        for index in primaries..all {
            let id = self.nodes[index % primaries].cluster.as_ref().map(|own| own.myself().id);
            let Some(id) = id else { continue };
            let replicated = self.with(index, |cluster, now| cluster.replicate(now, id.as_bytes(), false));
            replicated.transpose().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Has a node do something, if it runs, and carries out its actions.
    fn with<T>(&mut self, index: usize, work: impl FnOnce(&mut Cluster, Time) -> T) -> Option<T> {
        let now = self.time(index);
        let outcome = self.nodes[index].cluster.as_mut().map(|cluster| work(cluster, now));
        self.carry_out(index);
        outcome
    }

    pub fn run_until(&mut self, end_ms: i64) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end_ms) {
            self.now_ms = self.now_ms.max(entry.key().0);
            let event = entry.remove();
            self.happen(event);
        }
        self.now_ms = end_ms;
    }

    fn happen(&mut self, event: Event) {
        let index = match &event {
            Event::Tick(index, _)
            | Event::Connect(index, ..)
            | Event::Closed(index, ..)
            | Event::Restart(index) => *index,
            Event::Packet(conn, end, _) => self.conns[*conn].ends[*end].0,
        };
        let paused_until_ms = self.nodes[index].paused_until_ms;
        if paused_until_ms > self.now_ms && !matches!(event, Event::Restart(_)) {
            self.at(paused_until_ms, event);
            return;
        }
        match event {
            Event::Tick(index, life) if self.nodes[index].life == life => self.tick(index, life),
            Event::Connect(index, life, link, host) if self.nodes[index].life == life => {
                self.connect(index, link, &host);
            }
            Event::Closed(index, life, link) if self.nodes[index].life == life => {
                self.hear_closed(index, link)
            }
            Event::Packet(conn, end, packet) => self.arrive(conn, end, &packet),
            Event::Restart(index) if self.nodes[index].cluster.is_none() => self.start(index),
            _ => {}
        }
    }

    fn tick(&mut self, index: usize, life: u64) {
        if self.nodes[index].cluster.is_none() {
            return;
        }
        self.at(self.now_ms + TICK_MS, Event::Tick(index, life));
        self.replicate(index);
        let node = &self.nodes[index];
        let replication = Replication { offset: node.offset, silent_ms: node.silent_ms };
        self.with(index, |cluster, now| {
            cluster.set_replication(replication);
            cluster.tick(now);
        });
    }

    /// Writes of clients, or the primary's stream since the last tick.
    fn replicate(&mut self, index: usize) {
        let source = self.nodes[index].primary_host.clone().and_then(|host| self.find(&host));
        let side = self.nodes[index].side;
        let sent = source.map(|source| &self.nodes[source]);
        let sent = sent.filter(|sent| sent.cluster.is_some() && sent.side == side).map(|sent| sent.offset);
        let is_replica = self.nodes[index].primary_host.is_some();
        let node = &mut self.nodes[index];
        match sent {
            Some(offset) => (node.offset, node.silent_ms) = (offset, 0),
            None if is_replica => node.silent_ms += TICK_MS,
            None if !node.is_write_paused => node.offset += WRITTEN_BYTES,
            None => {}
        }
    }

    fn find(&self, host: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.host == host)
    }

    fn connect(&mut self, index: usize, link: LinkId, host: &str) {
        let to = self.find(host).filter(|to| {
            let (from, to) = (&self.nodes[index], &self.nodes[*to]);
            to.cluster.is_some() && from.side == to.side
        });
        let Some(to) = to else {
            self.with(index, |cluster, now| cluster.closed(now, link));
            return;
        };
        let (own_host, peer_host) = (self.nodes[index].host.clone(), self.nodes[to].host.clone());
        let accepted = self.with(to, |cluster, now| cluster.accepted(now, &own_host, &peer_host));
        let (life, other_life) = (self.nodes[index].life, self.nodes[to].life);
        let conn = self.conns.len();
        let last_ms = [self.now_ms; 2];
        self.conns.push(Conn {
            ends: [(index, life, Some(link)), (to, other_life, accepted)],
            is_open: true,
            last_ms,
        });
        self.nodes[index].conns.insert(link, conn);
        if let Some(accepted) = accepted {
            self.nodes[to].conns.insert(accepted, conn);
        }
        self.with(index, |cluster, now| cluster.connected(now, link, &peer_host, &own_host));
    }

    fn hear_closed(&mut self, index: usize, link: LinkId) {
        if self.nodes[index].conns.remove(&link).is_some() {
            self.with(index, |cluster, now| cluster.closed(now, link));
        }
    }

    fn arrive(&mut self, conn: usize, end: usize, packet: &[u8]) {
        let (index, life, link) = self.conns[conn].ends[end];
        let other = self.conns[conn].ends[1 - end].0;
        let is_cut = self.nodes[index].side != self.nodes[other].side;
        let Some(link) =
            link.filter(|_| self.conns[conn].is_open && self.nodes[index].life == life && !is_cut)
        else {
            return;
        };
        self.summary.packets += 1;
        self.with(index, |cluster, now| cluster.received(now, link, packet));
    }

    /// Ends a connection; the ends marked in `tells` learn of it after a while.
    fn close(&mut self, conn: usize, tells: [bool; 2]) {
        self.conns[conn].is_open = false;
        for end in [0, 1] {
            let (index, life, link) = self.conns[conn].ends[end];
            if let Some(link) = link.filter(|_| tells[end]) {
                let at_ms = self.now_ms + self.delay_ms();
                self.at(at_ms, Event::Closed(index, life, link));
            }
        }
    }

    fn carry_out(&mut self, index: usize) {
        let was_primary = self.nodes[index].primary_host.is_none();
        let Some(cluster) = self.nodes[index].cluster.as_mut() else { return };
        let actions = cluster.take_actions();
        let (life, mut is_paused) = (self.nodes[index].life, false);
        for action in actions {
            let node = &mut self.nodes[index];
            match action {
                Action::SaveConf { text, is_synced } => {
                    if is_synced {
                        node.synced.clone_from(&text);
                    }
                    node.written = text;
                }
                Action::Connect { link, host, .. } => {
                    let at_ms = self.now_ms + self.delay_ms();
                    self.at(at_ms, Event::Connect(index, life, link, host));
                }
                Action::Send { link, packet } => self.send(index, link, packet),
                Action::Close(link) => {
                    if let Some(conn) = node.conns.remove(&link) {
                        let is_first =
                            self.conns[conn].ends[0].2 == Some(link) && self.conns[conn].ends[0].0 == index;
                        self.close(conn, [!is_first, is_first]);
                    }
                }
                Action::Replicate { host, .. } => node.primary_host = Some(host),
                Action::StopReplicating => {
                    node.primary_host = None;
                    self.summary.promotions += u64::from(!was_primary);
                }
                Action::PauseWrites(_) => {
                    node.is_write_paused = true;
                    is_paused = true;
                }
                Action::ResumeWrites => node.is_write_paused = false,
                Action::FlushData
                | Action::DeleteKeys(_)
                | Action::DropShardChannels(_)
                | Action::Deliver(_)
                | Action::Log(_) => {}
            }
        }
        if is_paused {
            let offset = self.nodes[index].offset;
            self.with(index, |cluster, now| cluster.writes_paused(now, offset));
        }
    }

    fn send(&mut self, index: usize, link: LinkId, packet: Arc<[u8]>) {
        self.watch_votes(index, link, &packet);
        let Some(conn) = self.nodes[index].conns.get(&link).copied().filter(|conn| self.conns[*conn].is_open)
        else {
            return;
        };
        let to = usize::from(self.conns[conn].ends[0].0 == index && self.conns[conn].ends[0].2 == Some(link));
        let at_ms = (self.now_ms + self.delay_ms()).max(self.conns[conn].last_ms[to]);
        self.conns[conn].last_ms[to] = at_ms;
        self.at(at_ms, Event::Packet(conn, to, packet));
    }

    /// Records a vote that leaves, and checks that no node gives two in one epoch.
    fn watch_votes(&mut self, index: usize, link: LinkId, packet: &[u8]) {
        let is_vote = packet.get(12..14) == Some(&(Kind::Vote as u16).to_be_bytes());
        let Some(cluster) = self.nodes[index].cluster.as_ref().filter(|_| is_vote) else { return };
        let to = cluster.links().find(|(id, ..)| *id == link).map(|(_, key, ..)| cluster.node(key).id);
        let epoch = packet.get(16..24).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let (Some(to), Some(epoch)) = (to, epoch) else { return };
        self.summary.votes += 1;
        if let Some(other) = self.votes.insert((cluster.myself().id, epoch), to).filter(|other| *other != to)
        {
            self.violation = Some(format!("node {index} voted for {other} and for {to} in epoch {epoch}"));
        }
        if !self.nodes[index].synced.contains(&format!("lastVoteEpoch {epoch}\n")) {
            self.violation = Some(format!("node {index} voted in epoch {epoch} before that was on its disk"));
        }
    }

    /// Something goes wrong, or ends.
    pub fn fault(&mut self, random: &mut Random) {
        if self.options.has_operator && random.below(4) == 0 {
            self.operate(random);
            return;
        }
        let index = random.below(self.nodes.len() as u64) as usize;
        match random.below(10) {
            0 | 1 => self.crash(index, random),
            2 => {
                self.nodes[index].paused_until_ms =
                    self.now_ms + random.below(4 * NODE_TIMEOUT_MS as u64) as i64
            }
            3 => {
                // A part of the nodes sees only itself.
                for node in &mut self.nodes {
                    node.side = u8::from(random.below(3) == 0);
                }
            }
            4 => self.nodes.iter_mut().for_each(|node| node.side = 0),
            5 => self.nodes[index].side = 2,
            6 => self.max_delay_ms = [2, 20, 200, 1_000][random.below(4) as usize],
            7 => self.nodes[index].skew_ms = random.below(7_200_000) as i64 - 3_600_000,
            8 => {
                for conn in 0..self.conns.len() {
                    if self.conns[conn].is_open && random.below(4) == 0 {
                        self.close(conn, [true, random.below(2) == 0]);
                    }
                }
            }
            _ => {
                let how = if random.below(2) == 0 { Failover::Agreed } else { Failover::Forced };
                // It is refused by primaries, which is as well.
                let _ = self.with(index, |cluster, now| cluster.failover(now, how));
            }
        }
    }

    /// An operator takes over a primary without votes, or gives a slot to another primary.
    fn operate(&mut self, random: &mut Random) {
        let mut any = || random.below(self.nodes.len() as u64) as usize;
        let (from, to) = (any(), any());
        if random.below(3) == 0 {
            // It is refused by primaries.
            let _ = self.with(to, |cluster, now| cluster.failover(now, Failover::Takeover));
            return;
        }
        let running = |index: usize| self.nodes[index].cluster.as_ref().map(Cluster::myself);
        let (Some(source), Some(target)) = (running(from), running(to)) else { return };
        let slot = source.slots().iter().nth(random.below(1 + source.slot_count() as u64) as usize);
        let Some(slot) = slot.filter(|_| from != to && target.is_primary()) else { return };
        let (from_id, to_id) = (source.id, target.id);
        let steps = [
            (to, SetSlot::Importing(from_id.as_bytes())),
            (from, SetSlot::Migrating(to_id.as_bytes())),
            (to, SetSlot::Node(to_id.as_bytes())),
            (from, SetSlot::Node(to_id.as_bytes())),
        ];
        // Now and then the operator does not get to the end.
        let count = if random.below(3) == 0 { random.below(4) as usize } else { steps.len() };
        for (index, state) in steps.into_iter().take(count) {
            let _ = self.with(index, |cluster, now| cluster.set_slot(now, slot, state, false, false));
        }
    }

    /// Gives slots that no running node claims to the first primary, as `redis-cli --cluster fix` does.
    pub fn fix_slots(&mut self) {
        let of = |node: &SimNode| node.cluster.as_ref().map(|own| own.myself().slots().clone());
        let claimed: Vec<_> = self.nodes.iter().filter_map(of).collect();
        let lost: Vec<u16> =
            (0..SLOTS).filter(|slot| !claimed.iter().any(|slots| slots.contains(*slot))).collect();
        let is_voter = |node: &SimNode| node.cluster.as_ref().is_some_and(|own| own.myself().is_voter());
        let Some(primary) = self.nodes.iter().position(is_voter).filter(|_| !lost.is_empty()) else { return };
        self.with(primary, |cluster, now| {
            for slot in lost {
                let _ = cluster.delete_slots(now, &[(slot, slot)]);
                let _ = cluster.add_slots(now, &[(slot, slot)]);
            }
            cluster.bump(now);
        });
    }

    /// A node dies; what had not reached its disk may be lost. It comes back later.
    fn crash(&mut self, index: usize, random: &mut Random) {
        if self.nodes[index].cluster.take().is_none() {
            return;
        }
        self.summary.restarts += 1;
        let node = &mut self.nodes[index];
        node.life += 1;
        (node.primary_host, node.is_write_paused) = (None, false);
        if random.below(2) == 0 {
            node.synced.clone_from(&node.written);
        }
        let conns = std::mem::take(&mut node.conns);
        for (link, conn) in conns {
            let is_first = self.conns[conn].ends[0].0 == index && self.conns[conn].ends[0].2 == Some(link);
            let is_noticed = random.below(2) == 0;
            self.close(conn, [!is_first && is_noticed, is_first && is_noticed]);
        }
        let back_ms = self.now_ms + random.below(6 * NODE_TIMEOUT_MS as u64) as i64;
        self.at(back_ms, Event::Restart(index));
    }

    /// Ends all that went wrong.
    pub fn end_faults(&mut self) {
        self.max_delay_ms = 5;
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            (node.side, node.paused_until_ms) = (0, 0);
            if node.cluster.is_none() {
                self.start(index);
            }
        }
    }
}
