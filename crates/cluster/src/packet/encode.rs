//! Packets as bytes.

use super::{
    Body, Extension, Gossip, HEADER_BYTES, Header, LIGHT, MARTLET, Packet, Published, SIGNATURE, VERSION,
};
use crate::text::ADDRESS_BYTES;

/// Bits of the first byte of message flags.
pub(super) const PAUSED: u8 = 1;
pub(super) const FORCES_VOTE: u8 = 1 << 1;
pub(super) const HAS_EXTENSIONS: u8 = 1 << 2;

impl Packet {
    /// Its bytes. Unused ones are zero.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        match self {
            Packet::Full(header, body) => {
                put_header(&mut bytes, header, body);
                put_body(&mut bytes, body);
            }
            Packet::Light(published) => {
                bytes.extend_from_slice(SIGNATURE);
                bytes.extend_from_slice(&[0; 4]);
                put_u16(&mut bytes, VERSION);
                put_u16(&mut bytes, 0);
                put_u16(&mut bytes, published.kind() as u16 | LIGHT);
                put_u16(&mut bytes, 0);
                put_published(&mut bytes, published);
            }
        }
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        bytes
    }
}

fn put_header(bytes: &mut Vec<u8>, header: &Header, body: &Body) {
    let (gossip, extensions) = match body {
        Body::Ping { gossip, extensions, .. } => (gossip.len(), extensions.len()),
        _ => (0, 0),
    };
    bytes.extend_from_slice(SIGNATURE);
    bytes.extend_from_slice(&[0; 4]);
    put_u16(bytes, VERSION);
    put_u16(bytes, header.port);
    put_u16(bytes, body.kind() as u16);
    put_u16(bytes, gossip as u16);
    put_u64(bytes, header.current_epoch);
    put_u64(bytes, header.config_epoch);
    put_u64(bytes, header.offset);
    bytes.extend_from_slice(header.sender.as_bytes());
    bytes.extend_from_slice(header.slots.as_bytes());
    bytes.extend_from_slice(header.primary.as_ref().map_or(&[0; 40], |primary| primary.as_bytes()));
    put_address(bytes, &header.address);
    put_u16(bytes, extensions as u16);
    bytes.extend_from_slice(&[0; 28]);
    bytes.extend_from_slice(if header.is_martlet { &MARTLET } else { &[0; 2] });
    put_u16(bytes, header.other_port);
    put_u16(bytes, header.bus_port);
    put_u16(bytes, header.flags.0);
    bytes.push(u8::from(header.is_down));
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    bytes.push(
        flag(header.is_paused, PAUSED)
            | flag(header.forces_vote, FORCES_VOTE)
            | flag(header.knows_extensions, HAS_EXTENSIONS),
    );
    bytes.extend_from_slice(&[0; 2]);
}

fn put_body(bytes: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Ping { gossip, extensions, .. } => {
            gossip.iter().for_each(|gossip| put_gossip(bytes, gossip));
            extensions.iter().for_each(|extension| put_extension(bytes, extension));
        }
        Body::Fail(node) => bytes.extend_from_slice(node.as_bytes()),
        Body::Publish(published) => put_published(bytes, published),
        Body::Update { node, config_epoch, slots } => {
            put_u64(bytes, *config_epoch);
            bytes.extend_from_slice(node.as_bytes());
            bytes.extend_from_slice(slots.as_bytes());
        }
        // Martlet never sends one; this is a message of no bytes for no module.
        Body::Module => bytes.extend_from_slice(&[0; 13]),
        Body::VoteRequest | Body::Vote | Body::ManualFailover => {}
    }
}

fn put_gossip(bytes: &mut Vec<u8>, gossip: &Gossip) {
    bytes.extend_from_slice(gossip.node.as_bytes());
    bytes.extend_from_slice(&gossip.ping_sent_s.to_be_bytes());
    bytes.extend_from_slice(&gossip.pong_received_s.to_be_bytes());
    put_address(bytes, &gossip.address);
    put_u16(bytes, gossip.port);
    put_u16(bytes, gossip.bus_port);
    put_u16(bytes, gossip.flags.0);
    put_u16(bytes, gossip.other_port);
    put_u16(bytes, 0);
}

fn put_published(bytes: &mut Vec<u8>, published: &Published) {
    bytes.extend_from_slice(&(published.channel.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&(published.message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&published.channel);
    bytes.extend_from_slice(&published.message);
}

/// An extension: its length with these eight bytes, its number, and its value filled up to eight bytes.
fn put_extension(bytes: &mut Vec<u8>, extension: &Extension) {
    let text = |text: &String| [text.as_bytes(), &[0]].concat();
    let (number, mut value) = match extension {
        Extension::HostName(name) => (0, text(name)),
        Extension::NodeName(name) => (1, text(name)),
        Extension::Forgotten(node, seconds) => (2, [&node.as_bytes()[..], &seconds.to_be_bytes()].concat()),
        Extension::ShardId(shard) => (3, shard.as_bytes().to_vec()),
        Extension::ClientIpv4(ip) => (4, text(ip)),
        Extension::Secret(secret) => (4, secret.to_vec()),
        Extension::ClientIpv6(ip) => (5, text(ip)),
        Extension::ClientPort(port) => (6, port.to_be_bytes().to_vec()),
        Extension::ClientTlsPort(port) => (7, port.to_be_bytes().to_vec()),
        Extension::AvailabilityZone(zone) => (8, text(zone)),
        Extension::Other(number, value) => (*number, value.clone()),
    };
    value.resize(value.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&(value.len() as u32 + 8).to_be_bytes());
    put_u16(bytes, number);
    put_u16(bytes, 0);
    bytes.extend_from_slice(&value);
}

/// An address in its room, to which a longer one (none is made) would be cut.
fn put_address(bytes: &mut Vec<u8>, address: &str) {
    let mut room = [0; ADDRESS_BYTES];
    room.iter_mut().zip(address.bytes().take(ADDRESS_BYTES - 1)).for_each(|(to, from)| *to = from);
    bytes.extend_from_slice(&room);
}

fn put_u16(bytes: &mut Vec<u8>, number: u16) {
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes());
}
