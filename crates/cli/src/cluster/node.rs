//! A node as the cluster manager knows it: its address, its statements about itself, a connection to it.

use super::Failed;
use super::log::Log;
use super::nodes_reply::{self, NodeLine};
use super::slots::SlotSet;
use crate::connection::{Connection, Lost};
use crate::settings::Settings;
use martlet_client::resp::Reply;
use std::fmt;

/// Default distance of a bus port from the port.
pub const BUS_PORT_OFFSET: u16 = 10_000;

/// Why a node has not carried out a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It says so.
    Error(String),
    /// There is no reply.
    Lost(String),
}

impl Refusal {
    pub fn text(&self) -> &str {
        match self {
            Refusal::Error(text) | Refusal::Lost(text) => text,
        }
    }

    /// Reports that `node` has not carried out a request.
    pub fn report(&self, log: Log, node: &Node) {
        match self {
            Refusal::Error(text) => log.error(format_args!("Node {node} replied with error:\n{text}\n")),
            Refusal::Lost(text) => eprintln!("Error: {node}: {text}"),
        }
    }
}

impl From<Lost> for Refusal {
    fn from(lost: Lost) -> Refusal {
        Refusal::Lost(lost.to_string())
    }
}

/// A node; shown as `host:port`.
pub struct Node {
    pub host: String,
    pub port: u16,
    /// As the node says; the usual one before it is asked.
    pub bus_port: u16,
    connection: Option<Connection>,
    pub id: String,
    pub flags: Vec<String>,
    /// It, or the node that named it, says that it is a replica.
    pub is_replica: bool,
    /// Whose replica it is.
    pub primary: Option<String>,
    pub epoch: u64,
    pub slots: SlotSet,
    pub migrating: Vec<(u16, String)>,
    pub importing: Vec<(u16, String)>,
    /// How many replicas it has.
    pub replicas: usize,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Node {
    /// A node that is only known by its address.
    pub fn new(host: &str, port: u16) -> Node {
        Node {
            host: host.into(),
            port,
            bus_port: port.wrapping_add(BUS_PORT_OFFSET),
            connection: None,
            id: String::new(),
            flags: Vec::new(),
            is_replica: false,
            primary: None,
            epoch: 0,
            slots: SlotSet::new(),
            migrating: Vec::new(),
            importing: Vec::new(),
            replicas: 0,
        }
    }

    /// A node that another one names.
    pub fn named(line: &NodeLine) -> Node {
        let mut node = Node::new(&line.host, line.port);
        node.describe(line);
        node
    }

    /// Takes a line's statements about the node itself, but for its slots and address.
    fn describe(&mut self, line: &NodeLine) {
        self.bus_port = line.bus_port;
        self.id.clone_from(&line.id);
        self.flags.clone_from(&line.flags);
        self.is_replica |= line.primary.is_some();
        self.primary = line.primary.clone().or(self.primary.take());
        self.epoch = line.epoch;
    }

    /// Connects and authenticates; says why it cannot.
    pub fn connect(&mut self, settings: &Settings, log: Log) -> Result<(), Failed> {
        let opened = Connection::open(settings, None, &self.host, self.port);
        self.connection = Some(opened.map_err(|message| {
            eprintln!("{message}");
            Failed
        })?);
        let Some(password) = &settings.password else { return Ok(()) };
        let mut words: Vec<&[u8]> = vec![b"AUTH"];
        words.extend(settings.user.as_deref());
        words.push(password);
        self.demand(log, &words).map(drop)
    }

    /// Gives the connection away, for uses beyond commands.
    pub fn take_connection(&mut self) -> Option<Connection> {
        self.connection.take()
    }

    /// Sends a command and waits for its reply.
    pub fn command<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply, Refusal> {
        let Some(connection) = &mut self.connection else { return Err(Lost::Closed.into()) };
        match connection.command(words)? {
            Reply::Error(text) => Err(Refusal::Error(String::from_utf8_lossy(&text).into_owned())),
            reply => Ok(reply),
        }
    }

    /// The same for a command whose words are all text, with blanks between.
    pub fn ask(&mut self, line: impl AsRef<str>) -> Result<Reply, Refusal> {
        self.command(&line.as_ref().split(' ').collect::<Vec<_>>())
    }

    /// The same; a refusal is said.
    pub fn demand<A: AsRef<[u8]>>(&mut self, log: Log, words: &[A]) -> Result<Reply, Failed> {
        self.command(words).map_err(|refusal| {
            refusal.report(log, self);
            Failed
        })
    }

    /// The same; a refusal is said.
    pub fn demand_line(&mut self, log: Log, line: impl AsRef<str>) -> Result<Reply, Failed> {
        self.demand(log, &line.as_ref().split(' ').collect::<Vec<_>>())
    }

    /// How many keys of a slot it has; a refusal is said.
    pub fn count_keys(&mut self, log: Log, slot: u16) -> Result<i64, Failed> {
        let reply = self.demand_line(log, format!("CLUSTER COUNTKEYSINSLOT {slot}"))?;
        Ok(reply.integer().unwrap_or(0))
    }

    /// A field of INFO.
    pub fn info_number(&mut self, name: &str) -> Result<u64, Refusal> {
        let reply = self.ask("INFO")?;
        Ok(number_in(&text_of(&reply), name))
    }

    /// Whether it has no keys, and knows no other node.
    pub fn is_empty(&mut self) -> Result<bool, Refusal> {
        if text_of(&self.ask("INFO")?).contains("db0:") {
            return Ok(false);
        }
        let reply = self.ask("CLUSTER INFO")?;
        Ok(number_in(&text_of(&reply), "cluster_known_nodes") == 1)
    }

    /// Its statements about all nodes.
    pub fn lines(&mut self) -> Result<Vec<NodeLine>, Refusal> {
        let reply = self.ask("CLUSTER NODES")?;
        nodes_reply::parse(&text_of(&reply))
            .ok_or_else(|| Refusal::Lost("invalid CLUSTER NODES reply".into()))
    }

    /// Asks for its state; returns its statements about the others.
    pub fn load(&mut self) -> Result<Vec<NodeLine>, Refusal> {
        let (own, others): (Vec<_>, Vec<_>) =
            self.lines()?.into_iter().partition(|line| line.has_flag("myself"));
        for line in own {
            self.describe(&line);
            self.slots = line.slot_set();
            (self.migrating, self.importing) = (line.migrating, line.importing);
        }
        Ok(others)
    }

    /// Its flags as CLUSTER NODES has them, without `myself`.
    pub fn flags_text(&self) -> String {
        let flags: Vec<&str> =
            self.flags.iter().map(String::as_str).filter(|flag| *flag != "myself").collect();
        flags.join(",")
    }

    /// Two or three lines about it, without the last one's end.
    pub fn description(&self, indent: usize) -> String {
        let margin = " ".repeat(indent);
        let role = if self.is_replica { "S" } else { "M" };
        let mut text = format!(
            "{margin}{role}: {} {self}\n{margin}   slots:{} ({} slots) {}",
            self.id,
            self.slots,
            self.slots.len(),
            self.flags_text()
        );
        if let Some(primary) = &self.primary {
            text += &format!("\n{margin}   replicates {primary}");
        } else if self.replicas > 0 {
            text += &format!("\n{margin}   {} additional replica(s)", self.replicas);
        }
        text
    }
}

/// A reply's text, whatever bytes it has.
pub fn text_of(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned()
}

/// The number of a field in INFO's form; 0 if absent.
pub fn number_in(info: &str, name: &str) -> u64 {
    let field = |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok();
    info.lines().find_map(field).unwrap_or(0)
}
