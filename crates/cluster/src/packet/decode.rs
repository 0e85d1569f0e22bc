//! Bytes as packets: every length, id and address is checked before anything is believed.

use super::encode::{FORCES_VOTE, HAS_EXTENSIONS, PAUSED};
use super::{
    Body, Extension, Gossip, HEADER_BYTES, Header, Kind, LIGHT, LIGHT_HEADER_BYTES, MARTLET, Packet,
    PingKind, Published, SIGNATURE, VERSION,
};
use crate::flags::NodeFlags;
use crate::id::{ID_BYTES, NodeId};
use crate::slots::{SET_BYTES, SlotSet};
use crate::text::{self, ADDRESS_BYTES};

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// It does not begin as every packet does.
    #[error("no signature of the cluster bus")]
    Signature,
    /// Its length contradicts its header or its kind.
    #[error("a packet of the wrong length")]
    Length,
    /// Of another protocol.
    #[error("protocol version {0} instead of 1")]
    Version(u16),
    /// Of a kind that is not known.
    #[error("packet kind {0} is not known")]
    Kind(u16),
    /// A light header for a kind that has none.
    #[error("packets of kind {} have no light header", .0.name())]
    Light(Kind),
    /// A node's or a shard's id has a wrong character.
    #[error("an invalid id")]
    Id,
    /// An address or a text has a character that it may not have.
    #[error("an invalid address or name")]
    Text,
    /// An extension does not fit, or is not padded to eight bytes.
    #[error("an invalid extension")]
    Extension,
}

impl Packet {
    /// Reads a packet that fills `bytes`.
    ///
    /// # Errors
    /// The packet's fault.
    pub fn decode(bytes: &[u8]) -> Result<Packet, PacketError> {
        let mut input = Input(bytes);
        if input.array::<4>()? != *SIGNATURE {
            return Err(PacketError::Signature);
        }
        if input.u32()? as usize != bytes.len() {
            return Err(PacketError::Length);
        }
        let version = input.u16()?;
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        let port = input.u16()?;
        let number = input.u16()?;
        let kind = Kind::from_number(number & !LIGHT).ok_or(PacketError::Kind(number))?;
        let gossip_count = input.u16()?;
        let packet = if number & LIGHT == 0 {
            let (header, extension_count) = input.header(port)?;
            let body = input.body(kind, gossip_count, extension_count)?;
            Packet::Full(Box::new(header), body)
        } else if matches!(kind, Kind::Publish | Kind::PublishShard) {
            Packet::Light(input.published(kind)?)
        } else {
            return Err(PacketError::Light(kind));
        };
        if input.0.is_empty() { Ok(packet) } else { Err(PacketError::Length) }
    }
}

/// Least length of a packet whose kind has this number.
pub(super) fn least_bytes(number: u16) -> usize {
    if number & LIGHT == 0 { HEADER_BYTES } else { LIGHT_HEADER_BYTES }
}

/// The unread rest.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], PacketError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(PacketError::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(PacketError::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, PacketError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, PacketError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, PacketError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn id(&mut self) -> Result<NodeId, PacketError> {
        NodeId::parse(self.take(ID_BYTES)?).ok_or(PacketError::Id)
    }

    fn slots(&mut self) -> Result<SlotSet, PacketError> {
        SlotSet::from_bytes(self.take(SET_BYTES)?).ok_or(PacketError::Length)
    }

    fn address(&mut self) -> Result<String, PacketError> {
        let address = text_of(self.take(ADDRESS_BYTES)?).ok_or(PacketError::Text)?;
        if text::is_address(address) { Ok(address.into()) } else { Err(PacketError::Text) }
    }

    /// The header after its first sixteen bytes, and the number of extensions.
    fn header(&mut self, port: u16) -> Result<(Header, u16), PacketError> {
        let (current_epoch, config_epoch, offset) = (self.u64()?, self.u64()?, self.u64()?);
        let (sender, slots) = (self.id()?, self.slots()?);
        let primary = match self.take(ID_BYTES)? {
            zeros if zeros.iter().all(|byte| *byte == 0) => None,
            id => Some(NodeId::parse(id).ok_or(PacketError::Id)?),
        };
        let address = self.address()?;
        let extensions = self.u16()?;
        self.take(28)?;
        let mark: [u8; 2] = self.array()?;
        let (other_port, bus_port, flags) = (self.u16()?, self.u16()?, NodeFlags(self.u16()?));
        let [state, message_flags, _, _] = self.array()?;
        let header = Header {
            sender,
            port,
            other_port,
            bus_port,
            current_epoch,
            config_epoch,
            offset,
            slots,
            primary,
            address,
            flags,
            is_down: state != 0,
            is_paused: message_flags & PAUSED != 0,
            forces_vote: message_flags & FORCES_VOTE != 0,
            knows_extensions: message_flags & HAS_EXTENSIONS != 0,
            is_martlet: mark == MARTLET,
        };
        Ok((header, if message_flags & HAS_EXTENSIONS != 0 { extensions } else { 0 }))
    }

    fn body(&mut self, kind: Kind, gossip: u16, extensions: u16) -> Result<Body, PacketError> {
        Ok(match kind {
            Kind::Ping => self.ping(PingKind::Ping, gossip, extensions)?,
            Kind::Pong => self.ping(PingKind::Pong, gossip, extensions)?,
            Kind::Meet => self.ping(PingKind::Meet, gossip, extensions)?,
            Kind::Fail => Body::Fail(self.id()?),
            Kind::Publish | Kind::PublishShard => Body::Publish(self.published(kind)?),
            Kind::VoteRequest => Body::VoteRequest,
            Kind::Vote => Body::Vote,
            Kind::Update => {
                let (config_epoch, node) = (self.u64()?, self.id()?);
                Body::Update { node, config_epoch, slots: self.slots()? }
            }
            Kind::ManualFailover => Body::ManualFailover,
            Kind::Module => {
                self.u64()?;
                let length = self.u32()?;
                self.take(1)?;
                self.take(length as usize)?;
                Body::Module
            }
        })
    }

    fn ping(&mut self, kind: PingKind, gossip: u16, extensions: u16) -> Result<Body, PacketError> {
        let gossip = (0..gossip).map(|_| self.gossip()).collect::<Result<_, _>>()?;
        let extensions = (0..extensions).map(|_| self.extension()).collect::<Result<_, _>>()?;
        Ok(Body::Ping { kind, gossip, extensions })
    }

    fn gossip(&mut self) -> Result<Gossip, PacketError> {
        let (node, ping_sent_s, pong_received_s) = (self.id()?, self.u32()?, self.u32()?);
        let (address, port, bus_port) = (self.address()?, self.u16()?, self.u16()?);
        let (flags, other_port) = (NodeFlags(self.u16()?), self.u16()?);
        self.u16()?;
        Ok(Gossip { node, ping_sent_s, pong_received_s, address, port, other_port, bus_port, flags })
    }

    fn published(&mut self, kind: Kind) -> Result<Published, PacketError> {
        let (channel, message) = (self.u32()?, self.u32()?);
        let channel = self.take(channel as usize)?.to_vec();
        let message = self.take(message as usize)?.to_vec();
        Ok(Published { channel, message, is_sharded: kind == Kind::PublishShard })
    }

    fn extension(&mut self) -> Result<Extension, PacketError> {
        let length = self.u32()? as usize;
        let number = self.u16()?;
        self.u16()?;
        if length < 8 || !length.is_multiple_of(8) {
            return Err(PacketError::Extension);
        }
        let value = self.take(length - 8).map_err(|_| PacketError::Extension)?;
        Ok(known(number, value)?.unwrap_or_else(|| Extension::Other(number, value.to_vec())))
    }
}

/// The extension that this number has; `None` when the value is not one of it.
fn known(number: u16, value: &[u8]) -> Result<Option<Extension>, PacketError> {
    let text = |is_valid: fn(&str) -> bool| text_of(value).filter(|text| is_valid(text)).map(str::to_owned);
    let port = || value.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let mut input = Input(value);
    Ok(match number {
        0 => Some(Extension::HostName(text(text::is_host_name).ok_or(PacketError::Text)?)),
        1 => Some(Extension::NodeName(text(text::is_auxiliary).ok_or(PacketError::Text)?)),
        2 => {
            let node = input.id()?;
            Some(Extension::Forgotten(node, input.u64()?))
        }
        3 => Some(Extension::ShardId(input.id()?)),
        4 => match value.try_into() {
            Ok(secret) => Some(Extension::Secret(secret)),
            Err(_) => text(text::is_ipv4).map(Extension::ClientIpv4),
        },
        5 => text(text::is_ipv6).map(Extension::ClientIpv6),
        6 => port().map(Extension::ClientPort),
        7 => port().map(Extension::ClientTlsPort),
        8 => text(text::is_auxiliary).map(Extension::AvailabilityZone),
        _ => None,
    })
}

/// The text before the first zero, which there must be.
fn text_of(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}
