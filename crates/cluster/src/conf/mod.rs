//! `nodes.conf`, the file in which a node remembers its cluster, and CLUSTER NODES, which is almost the same.
//!
//! Each line is a node: id, `host:port@bus-port,host-name,field=value…`, flags, its primary or `-`, time of
//! the last unanswered ping and of the last pong in milliseconds, config epoch, `connected` or
//! `disconnected`, slots; the node's own line also has `[slot->-id]` and `[slot-<-id]` of slots that it gives
//! away and takes. The line `vars` has the epochs. Files of Redis 7.0 (no fields) to Valkey 9.1 are read.

mod parse;
mod save;
#[cfg(test)]
mod tests;

pub use parse::{ConfError, Fault};
pub use save::{LoadError, load, lock, save};

use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::{Address, Announced};
use crate::slots::SlotSet;
use std::fmt::Write;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    /// Its nodes, one of them flagged as the node itself.
    pub nodes: Vec<Entry>,
    /// Newest epoch that is known.
    pub current_epoch: u64,
    /// Epoch of the last vote that was given.
    pub last_vote_epoch: u64,
}

/// A line of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: NodeId,
    /// Where it is.
    pub address: Address,
    /// The facts that it announces.
    pub announced: Announced,
    /// Its shard; `None` in files of Redis 7.0.
    pub shard: Option<NodeId>,
    /// Its flags.
    pub flags: NodeFlags,
    /// Its primary.
    pub primary: Option<NodeId>,
    /// When the last ping that has no answer was sent, in milliseconds since the epoch of Unix; 0 for none.
    pub ping_sent_ms: i64,
    /// When the last pong was received; 0 for never.
    pub pong_received_ms: i64,
    /// Epoch of its slots; of a replica, its primary's.
    pub config_epoch: u64,
    /// Whether there is a connection to it.
    pub is_connected: bool,
    /// Its slots.
    pub slots: SlotSet,
    /// Slots that are under way, by slot; only of the node itself.
    pub open: Vec<(u16, Open)>,
}

/// A slot that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To another node.
    Migrating(NodeId),
    /// From another node.
    Importing(NodeId),
}

/// The reader of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// For the file: with all fields.
    File,
    /// For a client, with its ports and addresses.
    Client {
        /// Whether it came by TLS.
        has_tls: bool,
        /// Whether it came by IPv6.
        is_ipv6: bool,
    },
}

impl Conf {
    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text: String = self.nodes.iter().map(|entry| entry.line(Reader::File)).collect();
        let _ =
            writeln!(text, "vars currentEpoch {} lastVoteEpoch {}", self.current_epoch, self.last_vote_epoch);
        text
    }
}

impl Entry {
    /// Its line, with the line's end.
    pub fn line(&self, reader: Reader) -> String {
        let mut line = format!("{} ", self.id);
        self.put_address(&mut line, reader);
        let _ = write!(line, " {} ", self.flags.names());
        line.push_str(self.primary.as_ref().map_or("-", NodeId::as_str));
        let link = if self.is_connected { "connected" } else { "disconnected" };
        let (ping, pong) = (self.ping_sent_ms, self.pong_received_ms);
        let _ = write!(line, " {ping} {pong} {} {link}", self.config_epoch);
        for (first, last) in self.slots.ranges() {
            let _ = match first == last {
                true => write!(line, " {first}"),
                false => write!(line, " {first}-{last}"),
            };
        }
        for (slot, open) in &self.open {
            let _ = match open {
                Open::Migrating(to) => write!(line, " [{slot}->-{to}]"),
                Open::Importing(from) => write!(line, " [{slot}-<-{from}]"),
            };
        }
        line.push('\n');
        line
    }

    fn put_address(&self, line: &mut String, reader: Reader) {
        let (address, announced) = (&self.address, &self.announced);
        let (host, port) = match reader {
            Reader::File => (address.host.as_str(), address.tcp_port),
            Reader::Client { has_tls, is_ipv6 } => {
                (announced.client_host(address, is_ipv6), announced.client_port(address, has_tls))
            }
        };
        let _ = write!(line, "{host}:{port}@{}", address.bus_port);
        if reader == Reader::File || !announced.host_name.is_empty() {
            let _ = write!(line, ",{}", announced.host_name);
        }
        if reader != Reader::File {
            return;
        }
        let mut field = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = write!(line, ",{name}={value}");
            }
        };
        let number = |port: u16| if port == 0 { String::new() } else { port.to_string() };
        field("availability-zone", &announced.availability_zone);
        field("client-tls-port", &number(announced.client_tls_port));
        field("client-tcp-port", &number(announced.client_port));
        field("client-ipv6", &announced.client_ipv6);
        field("client-ipv4", &announced.client_ipv4);
        field("tls-port", &address.tls_port.to_string());
        field("nodename", &announced.node_name);
        field("shard-id", self.shard.as_ref().map_or("", NodeId::as_str));
    }
}
