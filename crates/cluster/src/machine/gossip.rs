//! PING, PONG and MEET: the gossip about other nodes, and the part of it that is believed.

use super::links::LinkId;
use super::{Cluster, Node, NodeKey, Time};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::{Address, Announced};
use crate::packet::{Body, Extension, Gossip, PingKind, Secret};

/// Fewest nodes in a ping's gossip, if there are that many.
const GOSSIP_MIN: usize = 3;
/// How far in the future another's time may be, in milliseconds.
const CLOCK_TOLERANCE_MS: i64 = 500;
/// Flags that are believed about a node that is new here.
const BELIEVED: NodeFlags = NodeFlags::PRIMARY
    .with(NodeFlags::REPLICA)
    .with(NodeFlags::PFAIL)
    .with(NodeFlags::FAIL)
    .with(NodeFlags::MIGRATE_TO)
    .with(NodeFlags::NO_FAILOVER);
/// Flags that say that a node is not well.
pub(super) const UNWELL: NodeFlags = NodeFlags::PFAIL.with(NodeFlags::FAIL);

impl Cluster {
    /// Sends a ping, pong or MEET with gossip.
    pub(super) fn send_ping(&mut self, id: LinkId, kind: PingKind) {
        let Some((receiver, is_inbound)) = self.links.get(&id).map(|link| (link.node, link.is_inbound))
        else {
            return;
        };
        if let Some(key) = receiver.filter(|_| !is_inbound && kind == PingKind::Ping) {
            self.table[key].ping_sent = Some(self.now);
        }
        let gossip = self.choose_gossip(receiver).into_iter().map(|key| self.gossip_of(key)).collect();
        let understands = receiver.is_some_and(|key| self.table[key].flags.has(NodeFlags::EXTENSIONS));
        let mut extensions = if understands { self.extensions() } else { Vec::new() };
        // Valkey's nodes would take it for an address, and Redis 7's complain of it in their logs.
        if receiver.is_some_and(|key| understands && self.table[key].shares_secret) {
            extensions.push(Extension::Secret(self.secret));
        }
        let mut header = self.header();
        header.knows_extensions = true;
        self.send(id, header, Body::Ping { kind, gossip, extensions });
    }

    /// Nodes for the gossip: a tenth of the nodes and at least three, by chance, and all that cannot be
    /// reached from here, so that enough primaries hear of them while their reports count.
    fn choose_gossip(&mut self, receiver: Option<NodeKey>) -> Vec<NodeKey> {
        let keys = self.table.keys();
        let mut fresh = keys.len().saturating_sub(2);
        let wanted = (keys.len() / 10).max(GOSSIP_MIN).min(fresh);
        let mut chosen = Vec::new();
        let mut tries = wanted * 3;
        while fresh > 0 && chosen.len() < wanted && tries > 0 {
            tries -= 1;
            let key = keys[self.random.below(keys.len() as u64) as usize];
            let node = &self.table[key];
            if key == self.myself || Some(key) == receiver || node.is_suspected() {
                continue;
            }
            let is_unknown = node.flags.has(NodeFlags::HANDSHAKE.with(NodeFlags::NO_ADDRESS));
            if is_unknown || (node.link.is_none() && node.slot_count() == 0) {
                fresh -= 1;
            } else if !chosen.contains(&key) {
                chosen.push(key);
                fresh -= 1;
            }
        }
        let unknown = NodeFlags::HANDSHAKE.with(NodeFlags::NO_ADDRESS);
        let suspected = self.table.iter().filter(|(_, node)| node.is_suspected() && !node.flags.has(unknown));
        chosen.extend(suspected.map(|(key, _)| key));
        chosen
    }

    fn gossip_of(&self, key: NodeKey) -> Gossip {
        let node = &self.table[key];
        let seconds = |time: Option<Time>| {
            time.map_or(0, |time| u32::try_from(time.unix_ms / 1000).unwrap_or_default())
        };
        let (port, other_port) = self.ports(node.address.tcp_port, node.address.tls_port);
        Gossip {
            node: node.id,
            ping_sent_s: seconds(node.ping_sent),
            pong_received_s: seconds(node.pong_received),
            address: node.address.host.clone(),
            port,
            other_port,
            bus_port: node.address.bus_port,
            flags: node.flags,
        }
    }

    /// Announcements besides the header.
    fn extensions(&mut self) -> Vec<Extension> {
        self.clean_blacklist();
        let own = &self.table[self.myself];
        let announced = &own.announced;
        let mut extensions = Vec::new();
        let mut text = |value: &String, extension: fn(String) -> Extension| {
            if !value.is_empty() {
                extensions.push(extension(value.clone()));
            }
        };
        text(&announced.host_name, Extension::HostName);
        text(&announced.node_name, Extension::NodeName);
        text(&announced.client_ipv4, Extension::ClientIpv4);
        text(&announced.client_ipv6, Extension::ClientIpv6);
        let ports = [
            (announced.client_port, Extension::ClientPort as fn(u16) -> Extension),
            (announced.client_tls_port, Extension::ClientTlsPort),
        ];
        extensions.extend(ports.into_iter().filter(|(port, _)| *port != 0).map(|(port, of)| of(port)));
        if !announced.availability_zone.is_empty() {
            extensions.push(Extension::AvailabilityZone(announced.availability_zone.clone()));
        }
        let seconds = |until: i64| u64::try_from((until - self.now.mono_ms) / 1000).unwrap_or_default();
        extensions
            .extend(self.blacklist.iter().map(|(id, until)| Extension::Forgotten(*id, seconds(*until))));
        extensions.push(Extension::ShardId(own.shard));
        extensions
    }

    /// Forgets that nodes were forgotten, once their time is over.
    pub(super) fn clean_blacklist(&mut self) {
        let now = self.now.mono_ms;
        self.blacklist.retain(|_, until| *until >= now);
    }

    /// Whether gossip may not bring a node back.
    pub(super) fn is_blacklisted(&mut self, id: &NodeId) -> bool {
        self.clean_blacklist();
        self.blacklist.contains_key(id)
    }

    /// Takes up what `sender` says of others.
    pub(super) fn hear_gossip(&mut self, sender: NodeKey, gossip: &[Gossip]) {
        for news in gossip {
            match self.table.find(&news.node) {
                Some(key) if key == self.myself => {}
                Some(key) => self.hear_of_known(sender, key, news),
                None => self.hear_of_new(news),
            }
        }
    }

    fn hear_of_known(&mut self, sender: NodeKey, key: NodeKey, news: &Gossip) {
        let is_unwell = news.flags.has(UNWELL);
        if self.table[sender].is_voter() {
            if is_unwell {
                self.report_failure(key, sender);
            } else {
                self.withdraw_report(key, sender);
            }
        }
        let unix_ms = i64::from(news.pong_received_s) * 1000;
        self.clean_reports(key);
        let now = self.now;
        let address = self.address_of(news);
        let node = &mut self.table[key];
        // If the node is well, another node's pong spares the ping from here.
        if !is_unwell && node.ping_sent.is_none() && node.reports.is_empty() {
            let mono_ms = now.mono_ms - (now.unix_ms - unix_ms);
            if unix_ms <= now.unix_ms + CLOCK_TOLERANCE_MS
                && node.pong_received.is_none_or(|at| mono_ms > at.mono_ms)
            {
                node.pong_received = Some(Time { mono_ms, unix_ms });
            }
        }
        // It cannot be reached from here, but the sender reaches it elsewhere.
        let is_elsewhere = node.flags.has(UNWELL)
            && !is_unwell
            && !news.flags.has(NodeFlags::NO_ADDRESS)
            && node.address != address;
        if is_elsewhere {
            self.move_node(key, address);
        }
    }

    fn hear_of_new(&mut self, news: &Gossip) {
        if news.flags.has(NodeFlags::NO_ADDRESS.with(NodeFlags::HANDSHAKE)) || self.is_blacklisted(&news.node)
        {
            return;
        }
        let shard = NodeId::random(&mut self.random);
        let mut node = Node::new(news.node, shard, self.now);
        node.flags = NodeFlags(news.flags.0 & BELIEVED.0);
        node.failed_ms = node.is_failed().then_some(self.now.mono_ms);
        node.address = self.address_of(news);
        self.table.insert(node);
    }

    fn address_of(&self, news: &Gossip) -> Address {
        let (tcp_port, tls_port) = self.ports(news.port, news.other_port);
        Address { host: news.address.clone(), tcp_port, tls_port, bus_port: news.bus_port }
    }

    /// Gives a node another address and connects to it there.
    pub(super) fn move_node(&mut self, key: NodeKey, address: Address) {
        if let Some(link) = self.table[key].link {
            self.close_link(link);
        }
        let node = &mut self.table[key];
        node.address = address;
        node.flags.set(NodeFlags::NO_ADDRESS, false);
        let text = format!(
            "Address updated for node {}, now {}:{}",
            node.id, node.address.host, node.address.bus_port
        );
        self.log(text);
        self.save(false);
        self.todo.state = true;
    }

    /// Takes part in the agreement on a secret: the smallest of all nodes' is that of the cluster. A
    /// connection that the other end made is no proof of who it is, and so changes nothing.
    pub(super) fn hear_secret(&mut self, sender: NodeKey, extensions: &[Extension], is_inbound: bool) {
        let heard = extensions.iter().find_map(|extension| match extension {
            Extension::Secret(secret) => Some(*secret),
            _ => None,
        });
        let Some(heard) = heard.filter(|_| self.table.contains(sender)) else { return };
        self.table[sender].shares_secret = true;
        if !is_inbound {
            self.secret = self.secret.min(heard);
        }
    }

    /// Has a secret that cannot be guessed from the node's id, before the first packet.
    pub fn set_secret(&mut self, secret: Secret) {
        self.secret = secret;
    }

    /// By which nodes of the cluster know each other's connections for clients, in hexadecimal digits.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Takes `sender`'s announcements of itself; facts that it leaves out, it has no more.
    pub(super) fn hear_extensions(&mut self, sender: NodeKey, extensions: &[Extension]) {
        let mut announced = Announced::default();
        let mut shard = None;
        for extension in extensions {
            match extension.clone() {
                Extension::HostName(name) => announced.host_name = name,
                Extension::NodeName(name) => announced.node_name = name,
                Extension::ClientIpv4(ip) => announced.client_ipv4 = ip,
                Extension::ClientIpv6(ip) => announced.client_ipv6 = ip,
                Extension::ClientPort(port) => announced.client_port = port,
                Extension::ClientTlsPort(port) => announced.client_tls_port = port,
                Extension::AvailabilityZone(zone) => announced.availability_zone = zone,
                Extension::ShardId(id) => shard = Some(id),
                Extension::Forgotten(id, seconds) => self.hear_forgotten(id, seconds),
                Extension::Secret(_) | Extension::Other(..) => {}
            }
        }
        if !self.table.contains(sender) {
            return;
        }
        if self.table[sender].announced != announced {
            self.table[sender].announced = announced;
            self.save(false);
        }
        // Redis 7.0 sends no shard: a replica has its primary's.
        let shard = shard.unwrap_or_else(|| self.table[self.table[sender].primary.unwrap_or(sender)].shard);
        self.set_shard(sender, shard);
    }

    fn hear_forgotten(&mut self, id: NodeId, seconds: u64) {
        let Some(key) = self.table.find(&id) else { return };
        if key == self.myself || self.table[self.myself].primary == Some(key) {
            return;
        }
        let ms = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
        self.blacklist.insert(id, self.now.mono_ms.saturating_add(ms));
        self.remove_node(key);
        self.save(false);
        self.todo.state = true;
    }
}
