//! Packets of the cluster bus, byte for byte as Redis and Valkey send them (protocol version 1).
//!
//! A packet is a header of 2,256 bytes with the body of its kind, or Valkey's light header of 16 bytes for a
//! published message. All numbers are big endian. Facts: the layouts that `cluster_legacy.h` asserts, and
//! captures of Valkey 9.1, Redis 8.2 and 7.0 in `testdata/`.
//!
//! Invariant: the result of [`Packet::decode`] is complete and valid; it took room for no more than the given
//! bytes.

mod decode;
mod encode;
mod frame;
#[cfg(test)]
mod tests;

pub use decode::PacketError;
pub use frame::{FrameError, Frames, PACKET_MAX_BYTES};

use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::slots::SlotSet;

/// Length of the full header.
pub const HEADER_BYTES: usize = 2256;
/// Length of the light header.
pub const LIGHT_HEADER_BYTES: usize = 16;
/// Length of one node's gossip.
pub const GOSSIP_BYTES: usize = 104;
/// Length of a [`Secret`].
pub const SECRET_BYTES: usize = 40;
/// Martlet's nodes put this into the last of the header's unused bytes, which others leave zero and do not
/// read.
const MARTLET: [u8; 2] = *b"ML";
/// The bit of a kind which says that the header is a light one.
const LIGHT: u16 = 0x8000;
/// The protocol's version.
const VERSION: u16 = 1;
/// What every packet begins with.
const SIGNATURE: &[u8; 4] = b"RCmb";

/// The kind of a packet; its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Are you there?
    Ping = 0,
    /// Yes; or news that was not requested.
    Pong = 1,
    /// A ping whose sender wants to be let in.
    Meet = 2,
    /// A node fails, say most primaries.
    Fail = 3,
    /// A message for a channel's subscribers.
    Publish = 4,
    /// A replica asks for a vote.
    VoteRequest = 5,
    /// A primary gives its vote.
    Vote = 6,
    /// The slots of a node and their epoch.
    Update = 7,
    /// A replica asks its primary to stop writes.
    ManualFailover = 8,
    /// A module's message.
    Module = 9,
    /// A message for a shard channel's subscribers.
    PublishShard = 10,
}

impl Kind {
    /// All, by their numbers.
    pub const ALL: [Kind; 11] = [
        Kind::Ping,
        Kind::Pong,
        Kind::Meet,
        Kind::Fail,
        Kind::Publish,
        Kind::VoteRequest,
        Kind::Vote,
        Kind::Update,
        Kind::ManualFailover,
        Kind::Module,
        Kind::PublishShard,
    ];

    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Kind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its name in CLUSTER INFO.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ping => "ping",
            Kind::Pong => "pong",
            Kind::Meet => "meet",
            Kind::Fail => "fail",
            Kind::Publish => "publish",
            Kind::VoteRequest => "auth-req",
            Kind::Vote => "auth-ack",
            Kind::Update => "update",
            Kind::ManualFailover => "mfstart",
            Kind::Module => "module",
            Kind::PublishShard => "publishshard",
        }
    }
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// With the full header.
    Full(Box<Header>, Body),
    /// With the light one, which says nothing of its sender.
    Light(Published),
}

/// What every full packet says of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender.
    pub sender: NodeId,
    /// Port of its clients: the one with TLS when the bus uses TLS.
    pub port: u16,
    /// The other port of its clients; 0 for none.
    pub other_port: u16,
    /// Port of its bus.
    pub bus_port: u16,
    /// Newest epoch that it knows.
    pub current_epoch: u64,
    /// Epoch of its slots; a replica sends its primary's.
    pub config_epoch: u64,
    /// Its replication offset, in bytes.
    pub offset: u64,
    /// Its slots; a replica sends its primary's.
    pub slots: SlotSet,
    /// Whose replica it is.
    pub primary: Option<NodeId>,
    /// Its address, empty when the receiver may take it from the connection.
    pub address: String,
    /// Its flags.
    pub flags: NodeFlags,
    /// Whether the cluster is down, as it sees it.
    pub is_down: bool,
    /// Whether it has stopped writes for a manual failover.
    pub is_paused: bool,
    /// Whether a vote is asked for even though the primary works.
    pub forces_vote: bool,
    /// Whether the sender understands extensions (this packet need not have any).
    pub knows_extensions: bool,
    /// Whether the sender is a node of Martlet.
    pub is_martlet: bool,
}

/// The body of a kind, after the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// PING, PONG or MEET.
    Ping {
        /// Which of the three.
        kind: PingKind,
        /// Facts about other nodes.
        gossip: Vec<Gossip>,
        /// Facts about itself besides the header.
        extensions: Vec<Extension>,
    },
    /// This node fails.
    Fail(NodeId),
    /// A published message.
    Publish(Published),
    /// May I take my primary's slots?
    VoteRequest,
    /// You may.
    Vote,
    /// The slots of a node.
    Update {
        /// The owner.
        node: NodeId,
        /// Since when.
        config_epoch: u64,
        /// All of its slots.
        slots: SlotSet,
    },
    /// Stop writes, as I shall take over.
    ManualFailover,
    /// A module's message; there are no modules here.
    Module,
}

/// The packets with gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingKind {
    /// Wants a pong.
    Ping,
    /// Wants nothing.
    Pong,
    /// Wants a pong, and to be let in.
    Meet,
}

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its channel.
    pub channel: Vec<u8>,
    /// Itself.
    pub message: Vec<u8>,
    /// Whether the channel is a shard's.
    pub is_sharded: bool,
}

/// A node's report about another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gossip {
    /// The node that it is about.
    pub node: NodeId,
    /// When the sender sent its last ping that has no answer yet, in seconds; 0 for none.
    pub ping_sent_s: u32,
    /// When the teller last received a pong, in seconds since the epoch of Unix.
    pub pong_received_s: u32,
    /// Its address.
    pub address: String,
    /// As in [`Header::port`].
    pub port: u16,
    /// As in [`Header::other_port`].
    pub other_port: u16,
    /// Port of its bus.
    pub bus_port: u16,
    /// Its flags, as the teller sees them.
    pub flags: NodeFlags,
}

/// A node's proof that it is one of its cluster (Redis 8).
pub type Secret = [u8; SECRET_BYTES];

/// Extensions after the gossip of a ping; 4 to 8 with Valkey's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// 0: the sender's host name.
    HostName(String),
    /// 1: the sender's name for people.
    NodeName(String),
    /// 2: a node that may not be let in again for this number of seconds.
    Forgotten(NodeId, u64),
    /// 3: the sender's shard.
    ShardId(NodeId),
    /// 4: address for clients.
    ClientIpv4(String),
    /// 4 as well, with 40 bytes: the secret of Redis 8's nodes among each other.
    Secret(Secret),
    /// 5: address for clients.
    ClientIpv6(String),
    /// 6: port for clients.
    ClientPort(u16),
    /// 7: port for clients with TLS.
    ClientTlsPort(u16),
    /// 8: availability zone.
    AvailabilityZone(String),
    /// One that is not understood: its number, its bytes (a multiple of eight).
    Other(u16, Vec<u8>),
}

impl Body {
    /// The kind of packet that it makes.
    pub fn kind(&self) -> Kind {
        match self {
            Body::Ping { kind: PingKind::Ping, .. } => Kind::Ping,
            Body::Ping { kind: PingKind::Pong, .. } => Kind::Pong,
            Body::Ping { kind: PingKind::Meet, .. } => Kind::Meet,
            Body::Fail(_) => Kind::Fail,
            Body::Publish(published) => published.kind(),
            Body::VoteRequest => Kind::VoteRequest,
            Body::Vote => Kind::Vote,
            Body::Update { .. } => Kind::Update,
            Body::ManualFailover => Kind::ManualFailover,
            Body::Module => Kind::Module,
        }
    }
}

impl Published {
    /// The kind of packet that carries it.
    pub fn kind(&self) -> Kind {
        if self.is_sharded { Kind::PublishShard } else { Kind::Publish }
    }
}

impl Packet {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Packet::Full(_, body) => body.kind(),
            Packet::Light(published) => published.kind(),
        }
    }
}
