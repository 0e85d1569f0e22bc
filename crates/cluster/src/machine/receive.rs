//! Packets that arrive.

use super::links::LinkId;
use super::{Action, Cluster, Node, NodeKey, Time};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::Address;
use crate::packet::{Body, Extension, Gossip, Header, Packet, PingKind};

/// What becomes of a connection.
#[derive(PartialEq, Eq)]
enum Next {
    /// It stays.
    Keep,
    /// The connection was closed since, or is to be.
    Close,
}

impl Cluster {
    /// A whole packet has arrived ([`crate::packet::Frames`] cuts them). A malformed one is counted, and
    /// changes nothing else.
    pub fn received(&mut self, now: Time, id: LinkId, bytes: &[u8]) {
        self.now = now;
        if !self.links.contains_key(&id) {
            return;
        }
        let next = match Packet::decode(bytes) {
            Err(_) => {
                self.counters.refused += 1;
                return;
            }
            Ok(packet) => {
                self.count_received(packet.kind());
                match packet {
                    packet if self.drops.has(packet.kind()) => {
                        if self.drops.closes_link() {
                            Next::Close
                        } else {
                            return;
                        }
                    }
                    Packet::Full(header, body) => self.hear(id, &header, body),
                    Packet::Light(published) => match self.sender_on(id) {
                        Some(sender) => {
                            self.table[sender].data_received_ms = Some(now.mono_ms);
                            self.actions.push(Action::Deliver(published));
                            Next::Keep
                        }
                        // A light header does not name its sender.
                        None => Next::Close,
                    },
                }
            }
        };
        if next == Next::Close {
            self.close_link(id);
        }
        self.finish();
    }

    /// The node that a connection is known to be of, once it has been heard of.
    fn sender_on(&self, id: LinkId) -> Option<NodeKey> {
        let key = self.links.get(&id)?.node?;
        (!self.table[key].is_in_handshake()).then_some(key)
    }

    fn hear(&mut self, id: LinkId, header: &Header, body: Body) -> Next {
        let is_inbound = self.links.get(&id).is_some_and(|link| link.is_inbound);
        if header.sender == self.table[self.myself].id {
            return self.hear_myself(id, is_inbound, &body);
        }
        let sender = match self.sender_on(id) {
            Some(key) if self.table[key].id == header.sender => Some(key),
            // The other end has become another node: a new connection is made.
            Some(_) if is_inbound => return Next::Close,
            Some(key) => {
                self.lose_address(key);
                return Next::Close;
            }
            None => self.table.find(&header.sender),
        };
        if let Some(key) = sender {
            if is_inbound && self.links.get(&id).is_some_and(|link| link.node.is_none()) {
                self.bind_inbound(key, id);
            }
            self.hear_header(key, header);
        }
        match (body, sender) {
            (Body::Ping { kind, gossip, extensions }, _) => {
                return self.hear_ping(id, header, sender, kind, &gossip, &extensions);
            }
            // Nothing else is believed of those that are not known.
            (_, None) => {}
            (Body::Fail(failing), Some(_)) => self.hear_fail(&failing),
            (Body::Publish(published), Some(_)) => self.actions.push(Action::Deliver(published)),
            (Body::VoteRequest, Some(sender)) => self.consider_vote(id, sender, header),
            (Body::Vote, Some(sender)) => self.count_vote(sender, header.current_epoch),
            (Body::ManualFailover, Some(sender)) => self.start_pause(sender),
            (Body::Update { node, config_epoch, slots }, Some(_)) => {
                self.hear_update(&node, config_epoch, &slots)
            }
            (Body::Module, Some(_)) => {}
        }
        Next::Keep
    }

    /// This node was asked to meet itself: the inbound connection is answered, and the expected one is
    /// dropped.
    fn hear_myself(&mut self, id: LinkId, is_inbound: bool, body: &Body) -> Next {
        if !is_inbound {
            let hoped = self.links.get(&id).and_then(|link| link.node);
            match hoped.filter(|key| *key != self.myself) {
                Some(key) if self.table[key].is_in_handshake() => drop(self.remove_node(key)),
                Some(key) => self.lose_address(key),
                None => {}
            }
            return Next::Close;
        }
        if matches!(body, Body::Ping { kind: PingKind::Ping | PingKind::Meet, .. }) {
            self.send_ping(id, PingKind::Pong);
        }
        Next::Keep
    }

    /// At a node's address is another one.
    fn lose_address(&mut self, key: NodeKey) {
        let node = &mut self.table[key];
        node.flags.set(NodeFlags::NO_ADDRESS, true);
        node.address = Address::default();
        self.save(false);
    }

    /// Applies a header, whatever the packet is for.
    fn hear_header(&mut self, sender: NodeKey, header: &Header) {
        let now = self.now.mono_ms;
        let node = &mut self.table[sender];
        if header.knows_extensions {
            node.flags.set(NodeFlags::EXTENSIONS, true);
        }
        node.flags.set(NodeFlags::LIGHT_HEADER, header.flags.has(NodeFlags::LIGHT_HEADER));
        node.shares_secret |= header.is_martlet;
        node.data_received_ms = Some(now);
        if node.is_in_handshake() {
            return;
        }
        node.offset = header.offset;
        let is_newer = header.primary.is_none() && header.config_epoch > node.config_epoch;
        if is_newer {
            node.config_epoch = header.config_epoch;
            self.save(true);
        }
        self.current_epoch = self.current_epoch.max(header.current_epoch);
        if header.is_paused && self.table[self.myself].primary == Some(sender) {
            self.hear_paused_offset(header.offset);
        }
    }

    fn hear_ping(
        &mut self,
        id: LinkId,
        header: &Header,
        sender: Option<NodeKey>,
        kind: PingKind,
        gossip: &[Gossip],
        extensions: &[Extension],
    ) -> Next {
        if kind != PingKind::Pong {
            self.learn_own_address(id, kind);
            if sender.is_none() && kind == PingKind::Meet {
                self.meet_back(id, header, gossip);
            }
            self.send_ping(id, PingKind::Pong);
        }
        let Some(sender) = (match self.hear_answer(id, header, sender, kind) {
            Ok(sender) => sender,
            Err(next) => return next,
        }) else {
            return Next::Keep;
        };
        let was_replica = self.table[sender].is_replica();
        self.hear_role(sender, header);
        if header.primary.is_none() && (was_replica || self.table[sender].slots() != &header.slots) {
            self.hear_slots(sender, header.config_epoch, &header.slots);
            self.correct_sender(sender, header);
        }
        let is_collision = self.table[self.myself].config_epoch == header.config_epoch;
        if is_collision && self.table[self.myself].is_primary() && self.table[sender].is_primary() {
            self.resolve_collision(sender);
        }
        self.hear_gossip(sender, gossip);
        let is_inbound = self.links.get(&id).is_none_or(|link| link.is_inbound);
        self.hear_secret(sender, extensions, is_inbound);
        self.hear_extensions(sender, extensions);
        Next::Keep
    }

    /// Learns the own address of an inbound connection.
    fn learn_own_address(&mut self, id: LinkId, kind: PingKind) {
        let own = &mut self.table[self.myself];
        let is_asked = kind == PingKind::Meet || own.address.host.is_empty();
        let Some(link) = self.links.get(&id).filter(|link| !link.own_host.is_empty()) else { return };
        if is_asked && self.settings.announced_host.is_empty() && own.address.host != link.own_host {
            own.address.host = link.own_host.clone();
            let text = format!("IP address for this node updated to {}", link.own_host);
            self.log(text);
            self.save(false);
        }
    }

    /// Lets a node in that asked for it: it is connected to, and its name is learned of its answer.
    fn meet_back(&mut self, id: LinkId, header: &Header, gossip: &[Gossip]) {
        let address = self.address_on(id, header);
        let is_bound = self.links.get(&id).is_some_and(|link| link.node.is_some());
        if is_bound || self.is_meeting(&address) {
            return;
        }
        let mut node =
            Node::new(NodeId::random(&mut self.random), NodeId::random(&mut self.random), self.now);
        node.flags = NodeFlags::HANDSHAKE;
        node.flags.set(NodeFlags::EXTENSIONS, header.knows_extensions);
        node.address = address;
        let key = self.table.insert(node);
        self.bind_inbound(key, id);
        self.hear_gossip(key, gossip);
    }

    /// Whether a handshake with a node at this address is under way.
    pub(super) fn is_meeting(&self, address: &Address) -> bool {
        self.table.iter().any(|(_, node)| node.is_in_handshake() && node.address == *address)
    }

    /// The address of a packet's sender: the announced one, or the connection's.
    fn address_on(&self, id: LinkId, header: &Header) -> Address {
        let peer = || self.links.get(&id).map(|link| link.peer_host.clone()).unwrap_or_default();
        let host = if header.address.is_empty() { peer() } else { header.address.clone() };
        let (tcp_port, tls_port) = self.ports(header.port, header.other_port);
        Address { host, tcp_port, tls_port, bus_port: header.bus_port }
    }

    /// Applies a ping, pong or MEET to its connection and its sender's address. Returns the sender, which may
    /// have become known by this.
    fn hear_answer(
        &mut self,
        id: LinkId,
        header: &Header,
        sender: Option<NodeKey>,
        kind: PingKind,
    ) -> Result<Option<NodeKey>, Next> {
        let mut sender = sender;
        if let Some(key) = sender {
            self.table[key].flags.set(NodeFlags::MEET, false);
        }
        let bound = self.links.get(&id).filter(|link| !link.is_inbound).and_then(|link| link.node);
        if let Some(hoped) = bound.filter(|key| self.table[*key].is_in_handshake()) {
            if let Some(known) = sender {
                self.update_address(known, id, header);
                self.remove_node(hoped);
                return Err(Next::Close);
            }
            self.table.rename(hoped, header.sender);
            let node = &mut self.table[hoped];
            node.flags.set(NodeFlags::HANDSHAKE.with(NodeFlags::MEET), false);
            let role = header.flags.0 & NodeFlags::PRIMARY.with(NodeFlags::REPLICA).0;
            node.flags = node.flags.with(NodeFlags(role));
            self.log(format!("Handshake with node {} completed.", header.sender));
            self.save(false);
            self.hear_header(hoped, header);
            sender = Some(hoped);
        }
        if let Some(key) = sender {
            let is_refusing = header.flags.has(NodeFlags::NO_FAILOVER);
            self.table[key].flags.set(NodeFlags::NO_FAILOVER, is_refusing);
            if kind == PingKind::Ping && !self.table[key].is_in_handshake() {
                self.update_address(key, id, header);
            }
        }
        if let Some(key) = bound.filter(|_| kind == PingKind::Pong) {
            self.answered(key);
        }
        Ok(sender)
    }

    /// Takes up another address of a node, unless the packet came on the connection to the old one.
    fn update_address(&mut self, key: NodeKey, id: LinkId, header: &Header) {
        let address = self.address_on(id, header);
        if self.table[key].link != Some(id) && !address.host.is_empty() && self.table[key].address != address
        {
            self.move_node(key, address);
        }
    }

    fn hear_fail(&mut self, failing: &NodeId) {
        let Some(key) = self.table.find(failing).filter(|key| *key != self.myself) else { return };
        if !self.table[key].is_failed() {
            self.log(format!("FAIL message received about {failing}"));
            self.mark_failed(key);
        }
    }
}
