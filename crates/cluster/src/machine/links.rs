//! Connections: one to each node, made from here, and one from each, made there.

use super::{Action, Cluster, Node, NodeKey, Time};
use crate::flags::NodeFlags;
use crate::packet::{Body, Header, Kind, Packet, PingKind, Published};
use std::sync::Arc;

/// Shortest life of a node of which nothing was heard, in milliseconds (Redis: the same).
const HANDSHAKE_MIN_MS: i64 = 1_000;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Facts about a connection.
#[derive(Debug)]
pub(super) struct Link {
    /// Whose it is; of one that was accepted, once it has said so.
    pub node: Option<NodeKey>,
    pub is_inbound: bool,
    pub is_connected: bool,
    pub created_ms: i64,
    /// The same on the clock of Unix, as it was then.
    pub created_unix_ms: i64,
    /// Address of its other end.
    pub peer_host: String,
    /// Address of its end here.
    pub own_host: String,
}

impl Cluster {
    /// A node has connected: the addresses of both ends. Returns the connection's name.
    pub fn accepted(&mut self, now: Time, peer_host: &str, own_host: &str) -> LinkId {
        self.now = now;
        self.new_link(Link {
            node: None,
            is_inbound: true,
            is_connected: true,
            created_ms: now.mono_ms,
            created_unix_ms: now.unix_ms,
            peer_host: peer_host.into(),
            own_host: own_host.into(),
        })
    }

    /// A connection that was asked for is there.
    pub fn connected(&mut self, now: Time, id: LinkId, peer_host: &str, own_host: &str) {
        self.now = now;
        let Some(link) = self.links.get_mut(&id) else { return };
        link.is_connected = true;
        link.peer_host = peer_host.into();
        link.own_host = own_host.into();
        let Some(key) = link.node else { return };
        // The time of a ping that was sent before the connection was lost stays.
        let ping_sent = self.table[key].ping_sent;
        let is_meeting = self.table[key].flags.has(NodeFlags::MEET);
        self.send_ping(id, if is_meeting { PingKind::Meet } else { PingKind::Ping });
        let node = &mut self.table[key];
        node.ping_sent = ping_sent.or(node.ping_sent);
        self.finish();
    }

    /// A connection is gone, or could not be made.
    pub fn closed(&mut self, now: Time, id: LinkId) {
        self.now = now;
        let Some(link) = self.forget_link(id) else { return };
        if let Some(key) = link.node.filter(|_| !link.is_inbound && !link.is_connected) {
            // A ping that could not be sent is one that is not answered.
            self.table[key].ping_sent.get_or_insert(now);
        }
        self.finish();
    }

    /// The driver closed a connection because too much waited to be sent.
    pub fn closed_over_limit(&mut self, now: Time, id: LinkId) {
        self.counters.buffer_limit_exceeded += 1;
        self.closed(now, id);
    }

    /// The connections that belong to a node: name, node, whether it came from there, when it was made (in
    /// milliseconds since the epoch of Unix). A node's are together, that made from here first.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, NodeKey, bool, i64)> {
        let mut links: Vec<_> = (self.links.iter())
            .filter_map(|(id, link)| Some((*id, link.node?, link.is_inbound, link.created_unix_ms)))
            .collect();
        links.sort_by_key(|(id, key, is_inbound, _)| (*key, *is_inbound, *id));
        links.into_iter()
    }

    fn new_link(&mut self, link: Link) -> LinkId {
        let id = LinkId(self.next_link);
        self.next_link += 1;
        self.links.insert(id, link);
        id
    }

    /// Whether there is a connection to a node, or one under way.
    pub(super) fn is_linked(&self, key: NodeKey) -> bool {
        self.table[key].link.is_some()
    }

    /// Closes a connection from here.
    pub(super) fn close_link(&mut self, id: LinkId) {
        if self.forget_link(id).is_some() {
            self.actions.push(Action::Close(id));
        }
    }

    fn forget_link(&mut self, id: LinkId) -> Option<Link> {
        let link = self.links.remove(&id)?;
        if let Some(key) = link.node.filter(|key| self.table.contains(*key)) {
            let node = &mut self.table[key];
            node.link = node.link.filter(|own| *own != id);
            node.inbound = node.inbound.filter(|own| *own != id);
        }
        Some(link)
    }

    /// Says whose a connection is that was accepted. An older one of that node is closed.
    pub(super) fn bind_inbound(&mut self, key: NodeKey, id: LinkId) {
        if let Some(old) = self.table[key].inbound.replace(id).filter(|old| *old != id) {
            self.table[key].inbound = None;
            self.close_link(old);
            self.table[key].inbound = Some(id);
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.node = Some(key);
        }
    }

    /// Connects to all that there is no connection to, and gives up those that never answered.
    pub(super) fn reconnect(&mut self) {
        let now = self.now.mono_ms;
        let patience_ms = self.settings.node_timeout_ms.max(HANDSHAKE_MIN_MS);
        let lacks = |node: &Node| node.link.is_none() && !node.flags.has(NodeFlags::NO_ADDRESS);
        let others = self.table.iter().filter(|(key, _)| *key != self.myself);
        let due = others.filter(|(_, node)| lacks(node) || node.is_in_handshake());
        let due: Vec<NodeKey> = due.map(|(key, _)| key).collect();
        for key in due {
            let node = &self.table[key];
            if node.is_in_handshake() && now - node.created_ms > patience_ms {
                self.remove_node(key);
                continue;
            }
            if lacks(node) {
                let (host, port) = (node.address.host.clone(), node.address.bus_port);
                let link = self.new_link(Link {
                    node: Some(key),
                    is_inbound: false,
                    is_connected: false,
                    created_ms: now,
                    created_unix_ms: self.now.unix_ms,
                    peer_host: String::new(),
                    own_host: String::new(),
                });
                self.table[key].link = Some(link);
                self.actions.push(Action::Connect { link, host, port });
            }
        }
    }

    /// What every full packet says.
    pub(super) fn header(&self) -> Header {
        let own = &self.table[self.myself];
        let shown = own.primary.filter(|_| own.is_replica()).unwrap_or(self.myself);
        let (port, other_port) = self.ports(own.address.tcp_port, own.address.tls_port);
        Header {
            sender: own.id,
            port,
            other_port,
            bus_port: own.address.bus_port,
            current_epoch: self.current_epoch,
            config_epoch: self.table[shown].config_epoch,
            offset: self.replication.offset,
            slots: self.table[shown].slots().clone(),
            primary: own.primary.map(|primary| self.table[primary].id),
            address: self.settings.announced_host.clone(),
            flags: own.flags,
            is_down: self.is_down,
            is_paused: own.is_primary() && self.manual.as_ref().is_some_and(|manual| manual.is_paused),
            forces_vote: false,
            knows_extensions: false,
            is_martlet: true,
        }
    }

    /// Ports in the order of the wire, or back: the bus' own kind first.
    pub(super) fn ports(&self, tcp_port: u16, tls_port: u16) -> (u16, u16) {
        if self.settings.has_tls_bus { (tls_port, tcp_port) } else { (tcp_port, tls_port) }
    }

    /// Sends to a connection, if it is one.
    pub(super) fn send(&mut self, id: LinkId, header: Header, body: Body) {
        self.send_packet(&[id], &Packet::Full(Box::new(header), body));
    }

    /// Sends to a node, if there is a connection.
    pub(super) fn send_to(&mut self, key: NodeKey, body: Body) {
        if let Some(link) = self.table[key].link {
            self.send(link, self.header(), body);
        }
    }

    /// Whether a connection's output is sent.
    pub(super) fn is_connected(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| link.is_connected)
    }

    fn send_packet(&mut self, links: &[LinkId], packet: &Packet) {
        let ready: Vec<LinkId> = links.iter().copied().filter(|id| self.is_connected(*id)).collect();
        if ready.is_empty() {
            return;
        }
        let bytes: Arc<[u8]> = packet.encode().into();
        self.counters.sent[packet.kind() as usize] += ready.len() as u64;
        self.actions.extend(ready.into_iter().map(|link| Action::Send { link, packet: bytes.clone() }));
    }

    /// The connections to all that have been heard of.
    fn known_links(&self, of: impl Fn(NodeKey) -> bool) -> Vec<LinkId> {
        let known = self
            .table
            .iter()
            .filter(|(key, node)| *key != self.myself && !node.is_in_handshake() && of(*key));
        known.filter_map(|(_, node)| node.link).collect()
    }

    /// Sends to all that have been heard of.
    pub(super) fn broadcast(&mut self, header: Header, body: Body) {
        let links = self.known_links(|_| true);
        self.send_packet(&links, &Packet::Full(Box::new(header), body));
    }

    /// Sends the node's state to all, unasked.
    pub(super) fn broadcast_pong(&mut self) {
        for link in self.known_links(|_| true) {
            self.send_ping(link, PingKind::Pong);
        }
    }

    /// Sends the node's state to the replicas of the same primary.
    pub(super) fn pong_to_siblings(&mut self) {
        let primary = self.table[self.myself].primary;
        let is_sibling = |key: NodeKey| {
            let of = self.table[key].primary;
            self.table[key].is_replica() && of.is_some() && (of == Some(self.myself) || of == primary)
        };
        for link in self.known_links(is_sibling) {
            self.send_ping(link, PingKind::Pong);
        }
    }

    /// Sends a published message to all nodes, or to those of the own shard.
    pub fn publish(&mut self, now: Time, published: Published) {
        self.now = now;
        let shard = self.table[self.myself].shard;
        let is_light = |key: NodeKey| self.table[key].flags.has(NodeFlags::LIGHT_HEADER);
        let is_meant = |key: NodeKey| !published.is_sharded || self.table[key].shard == shard;
        let light = self.known_links(|key| is_meant(key) && is_light(key));
        let full = self.known_links(|key| is_meant(key) && !is_light(key));
        self.send_packet(&full, &Packet::Full(Box::new(self.header()), Body::Publish(published.clone())));
        self.send_packet(&light, &Packet::Light(published));
    }

    /// Counts a packet that arrived.
    pub(super) fn count_received(&mut self, kind: Kind) {
        self.counters.received[kind as usize] += 1;
    }
}
