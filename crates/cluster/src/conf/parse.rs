//! `nodes.conf` as text, read.

use super::{Conf, Entry, Open};
use crate::flags::NodeFlags;
use crate::id::NodeId;
use crate::node::{Address, Announced};
use crate::slots::{SLOTS, SlotSet};
use crate::text;

/// What Redis adds to the port of clients when the file has no port of the bus.
const BUS_PORT_OFFSET: u16 = 10_000;

/// Where a file is malformed, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct ConfError {
    /// Its line, from 1; 0 when the file as a whole is at fault.
    pub line: usize,
    /// The fault.
    pub fault: Fault,
}

/// A fault of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A node has eight fields and more.
    #[error("a node's line has at least eight fields")]
    FewFields,
    /// No id.
    #[error("'{0}' is no node id")]
    Id(String),
    /// No address.
    #[error("'{0}' is no address (host:port@bus-port)")]
    Address(String),
    /// No auxiliary field that is known, or not a value of it.
    #[error("'{0}' is no auxiliary field")]
    Auxiliary(String),
    /// No flags.
    #[error("'{0}' are no flags")]
    Flags(String),
    /// No number.
    #[error("'{0}' is no number")]
    Number(String),
    /// No slot, range or slot that is under way.
    #[error("'{0}' is no slot, range of slots or slot under way")]
    Slot(String),
    /// A slot of two nodes.
    #[error("slot {0} has two owners")]
    TwoOwners(u16),
    /// Two lines of one node.
    #[error("node {0} has two lines")]
    TwoLines(NodeId),
    /// A name without its value.
    #[error("a variable has no value")]
    Variable,
    /// The file ends within a line; the rest of the line is unknown.
    #[error("the file ends within a line")]
    Torn,
    /// None of the nodes, or more than one, is the one whose file it is.
    #[error("{0} nodes are flagged as myself")]
    Myself(usize),
}

impl Conf {
    /// Reads a file's text. NULs at its end, and lines that begin with one, are skipped, as by Redis: a file
    /// whose end did not reach the disk may have them.
    ///
    /// # Errors
    /// At the first line that is malformed.
    pub fn parse(text: &str) -> Result<Conf, ConfError> {
        let text = text.trim_end_matches('\0');
        let mut conf = Conf::default();
        let mut owned = SlotSet::default();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let outcome = match words.split_first() {
                None => Ok(()),
                Some((first, _)) if first.starts_with('\0') => Ok(()),
                Some((first, rest)) if first.eq_ignore_ascii_case("vars") => conf.parse_variables(rest),
                Some(_) => conf.parse_node(&words, &mut owned),
            };
            outcome.map_err(|fault| ConfError { line: number, fault })?;
        }
        // A list of slots that was cut is a valid list. The line of variables has no list, and many editors
        // leave out the end of the last line.
        let last = text.lines().next_back().unwrap_or_default();
        if !last.is_empty()
            && !text.ends_with('\n')
            && !last.trim_ascii_start().to_ascii_lowercase().starts_with("vars")
        {
            return Err(ConfError { line: text.lines().count(), fault: Fault::Torn });
        }
        let own = conf.nodes.iter().filter(|entry| entry.flags.has(NodeFlags::MYSELF)).count();
        match own {
            1 => Ok(conf),
            _ => Err(ConfError { line: 0, fault: Fault::Myself(own) }),
        }
    }

    fn parse_variables(&mut self, words: &[&str]) -> Result<(), Fault> {
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(Fault::Variable) };
            match name.to_ascii_lowercase().as_str() {
                "currentepoch" => self.current_epoch = number(value)?,
                "lastvoteepoch" => self.last_vote_epoch = number(value)?,
                // As Redis, ignores words that a later version may have written.
                _ => {}
            }
        }
        Ok(())
    }

    fn parse_node(&mut self, words: &[&str], owned: &mut SlotSet) -> Result<(), Fault> {
        let [name, place, flags, primary, ping, pong, epoch, link, slots @ ..] = words else {
            return Err(Fault::FewFields);
        };
        let id = node_id(name)?;
        if self.nodes.iter().any(|entry| entry.id == id) {
            return Err(Fault::TwoLines(id));
        }
        let (address, announced, shard) = parse_place(place)?;
        let mut entry = Entry {
            id,
            address,
            announced,
            shard,
            flags: NodeFlags::parse(flags).ok_or_else(|| Fault::Flags((*flags).into()))?,
            primary: if *primary == "-" { None } else { Some(node_id(primary)?) },
            ping_sent_ms: number(ping)?,
            pong_received_ms: number(pong)?,
            config_epoch: number(epoch)?,
            is_connected: *link == "connected",
            slots: SlotSet::default(),
            open: Vec::new(),
        };
        for word in slots {
            entry.parse_slots(word, owned)?;
        }
        self.nodes.push(entry);
        Ok(())
    }
}

impl Entry {
    /// A slot, a range, or a slot under way.
    fn parse_slots(&mut self, word: &str, owned: &mut SlotSet) -> Result<(), Fault> {
        let fault = || Fault::Slot(word.into());
        if let Some(open) = word.strip_prefix('[') {
            let open = open.strip_suffix(']').ok_or_else(fault)?;
            let (slot, open) = if let Some((slot, to)) = open.split_once("->-") {
                (slot, Open::Migrating(node_id(to)?))
            } else {
                let (slot, from) = open.split_once("-<-").ok_or_else(fault)?;
                (slot, Open::Importing(node_id(from)?))
            };
            self.open.push((slot_number(slot).ok_or_else(fault)?, open));
            return Ok(());
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (slot_number(first).ok_or_else(fault)?, slot_number(last).ok_or_else(fault)?);
        if first > last {
            return Err(fault());
        }
        for slot in first..=last {
            if !owned.insert(slot) {
                return Err(Fault::TwoOwners(slot));
            }
            self.slots.insert(slot);
        }
        Ok(())
    }
}

/// `host:port[@bus-port][,host-name[,field=value]*]`.
fn parse_place(place: &str) -> Result<(Address, Announced, Option<NodeId>), Fault> {
    let fault = || Fault::Address(place.into());
    let mut parts = place.split(',');
    let (host, ports) = parts.next().and_then(|address| address.rsplit_once(':')).ok_or_else(fault)?;
    let (port, bus_port) = match ports.split_once('@') {
        Some((port, bus_port)) => (port, Some(bus_port)),
        None => (ports, None),
    };
    let port: u16 = port.parse().map_err(|_| fault())?;
    let bus_port = match bus_port {
        Some(bus_port) => bus_port.parse().map_err(|_| fault())?,
        None => port.checked_add(BUS_PORT_OFFSET).ok_or_else(fault)?,
    };
    if !text::is_address(host) {
        return Err(fault());
    }
    let mut address = Address { host: host.into(), tcp_port: port, tls_port: 0, bus_port };
    let mut announced =
        Announced { host_name: parts.next().unwrap_or_default().into(), ..Announced::default() };
    if !text::is_host_name(&announced.host_name) {
        return Err(fault());
    }
    let mut shard = None;
    for part in parts {
        let fault = || Fault::Auxiliary(part.into());
        let (name, value) = part.split_once('=').ok_or_else(fault)?;
        let port = || value.parse::<u16>().map_err(|_| fault());
        let text =
            |is_valid: fn(&str) -> bool| if is_valid(value) { Ok(value.to_owned()) } else { Err(fault()) };
        match name {
            "shard-id" => shard = Some(node_id(value)?),
            "nodename" => announced.node_name = text(text::is_auxiliary)?,
            // If this node's own TLS port is set, the port before is the other one.
            "tcp-port" => {
                address.tls_port = address.tcp_port;
                address.tcp_port = port()?;
            }
            "tls-port" => address.tls_port = port()?,
            "client-ipv4" => announced.client_ipv4 = text(text::is_ipv4)?,
            "client-ipv6" => announced.client_ipv6 = text(text::is_ipv6)?,
            "client-tcp-port" => announced.client_port = port()?,
            "client-tls-port" => announced.client_tls_port = port()?,
            "availability-zone" => announced.availability_zone = text(text::is_auxiliary)?,
            _ => return Err(fault()),
        }
    }
    Ok((address, announced, shard))
}

fn node_id(text: &str) -> Result<NodeId, Fault> {
    NodeId::parse(text.as_bytes()).ok_or_else(|| Fault::Id(text.into()))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::Number(text.into()))
}

fn slot_number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|slot| *slot < SLOTS)
}
