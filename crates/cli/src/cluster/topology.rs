//! All nodes of a cluster, as one of them names them and as each describes itself.

use super::node::Node;
use super::slots::SlotSet;
use super::{Failed, Manager, Outcome, node, nodes_reply};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it is asked whether nodes agree.
const AGREEMENT_INTERVAL: Duration = Duration::from_millis(100);
/// Seconds until missing links are printed, and seconds that each node adds.
const LINK_CHECK_SECONDS: f32 = 20.0;
const LINK_CHECK_SECONDS_PER_NODE: f32 = 0.15;

/// The nodes that can be reached; the first is the one that named the others.
#[derive(Default)]
pub struct Cluster {
    pub nodes: Vec<Node>,
    /// Primaries that cannot be reached, or that have failed.
    pub unreachable_primaries: usize,
    /// How many problems a check has found.
    pub problems: usize,
}

impl Cluster {
    /// Where a node stands by its id, whatever its letters' case.
    pub fn by_id(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.id.eq_ignore_ascii_case(id))
    }

    /// The first node whose id begins so.
    pub fn by_prefix(&self, prefix: &str) -> Option<usize> {
        let prefix = prefix.to_ascii_lowercase();
        self.nodes.iter().position(|node| node.id.starts_with(&prefix))
    }

    /// Where the primaries stand.
    pub fn primaries(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| !self.nodes[*index].is_replica).collect()
    }

    /// The primary with the fewest replicas, the first of several; `except` is left out.
    pub fn with_fewest_replicas(&self, except: Option<usize>) -> Option<usize> {
        let others = self.primaries().into_iter().filter(|index| Some(*index) != except);
        others.min_by_key(|index| self.nodes[*index].replicas)
    }

    /// The slots that some node has.
    pub fn covered(&self) -> SlotSet {
        self.nodes.iter().flat_map(|node| node.slots.iter()).collect()
    }

    /// Whether all nodes say the same of slots, and some node has one.
    pub fn agrees(&mut self) -> bool {
        if self.nodes.len() <= 1 {
            return true;
        }
        let mut first = None;
        for node in &mut self.nodes {
            let lines = node.lines().unwrap_or_default();
            let Some(signature) = nodes_reply::signature(&lines) else { return false };
            match &first {
                None => first = Some(format!("{signature:?}")),
                Some(first) if *first != format!("{signature:?}") => return false,
                Some(_) => {}
            }
        }
        true
    }

    /// Whether each node knows each other one, by an address that is settled.
    fn are_acquainted(&mut self) -> bool {
        let ids: Vec<String> = self.nodes.iter().map(|node| node.id.clone()).collect();
        self.nodes.iter_mut().all(|node| {
            let lines = node.lines().unwrap_or_default();
            ids.iter().all(|id| lines.iter().any(|line| line.id == *id && !line.has_flag("handshake")))
        })
    }

    /// Nodes that others do not reach, and which those are.
    fn broken_links(&mut self) -> BTreeMap<String, Vec<String>> {
        let mut broken: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in &mut self.nodes {
            let from = node.to_string();
            let lines = node.lines().unwrap_or_default().into_iter();
            for line in lines.filter(|line| !line.has_flag("myself")) {
                if !line.is_connected || line.has_flag("handshake") {
                    broken.entry(line.address).or_default().push(from.clone());
                }
            }
        }
        broken
    }

    /// Counts each primary's replicas.
    fn count_replicas(&mut self, manager: &Manager) {
        for index in 0..self.nodes.len() {
            let Some(primary) = self.nodes[index].primary.clone() else { continue };
            match self.by_id(&primary) {
                Some(primary) => self.nodes[primary].replicas += 1,
                None => manager.log.warning(format_args!(
                    "*** WARNING: {} claims to be {} of unknown node ID {primary}.\n",
                    self.nodes[index], manager.words.replica
                )),
            }
        }
    }
}

impl Manager<'_> {
    /// Connects to a node that is to be one of a cluster; prints an error if it is not.
    pub fn open(&self, host: &str, port: u16) -> Result<Node, Failed> {
        let mut node = Node::new(host, port);
        node.connect(self.settings, self.log)?;
        self.require_cluster(&mut node)?;
        Ok(node)
    }

    /// Refuses a node that is not in cluster mode.
    pub fn require_cluster(&self, node: &mut Node) -> Outcome {
        match node.info_number("cluster_enabled") {
            Ok(0) => self.unfit(node, "is not configured as a cluster node."),
            Err(refusal) => self.unfit(node, refusal.text()),
            Ok(_) => Ok(()),
        }
    }

    /// Refuses a node that has keys, or knows other nodes. Asks for its state.
    pub fn require_empty(&self, node: &mut Node) -> Outcome {
        if let Err(refusal) = node.load() {
            refusal.report(self.log, node);
            return Err(Failed);
        }
        match node.is_empty() {
            Ok(true) => Ok(()),
            Ok(false) => self.unfit(
                node,
                "is not empty. Either the node already knows other nodes (check with CLUSTER NODES) or contains \
                some key in database 0.",
            ),
            Err(refusal) => self.unfit(node, refusal.text()),
        }
    }

    fn unfit(&self, node: &Node, why: &str) -> Outcome {
        self.log.error(format_args!("[ERR] Node {node} {why}\n"));
        Err(Failed)
    }

    /// Finds all nodes of the cluster of which one is given.
    pub fn load(&self, host: &str, port: u16) -> Result<Cluster, Failed> {
        let mut first = self.open(host, port)?;
        let others = match first.load() {
            Ok(others) => others,
            Err(refusal) => {
                refusal.report(self.log, &first);
                return Err(Failed);
            }
        };
        let mut cluster = Cluster { nodes: vec![first], ..Cluster::default() };
        for line in others {
            let mut other = Node::named(&line);
            let is_gone = line.has_flag("noaddr") || line.has_flag("fail") || line.port == 0;
            match is_gone.then_some(Failed).map_or_else(|| self.load_other(&mut other), Err) {
                Ok(()) => cluster.nodes.push(other),
                Err(Failed) => cluster.unreachable_primaries += usize::from(!other.is_replica),
            }
        }
        cluster.count_replicas(self);
        Ok(cluster)
    }

    fn load_other(&self, other: &mut Node) -> Outcome {
        other.connect(self.settings, self.log)?;
        if let Err(refusal) = other.load() {
            if let node::Refusal::Lost(text) = refusal {
                eprintln!("Error: {other}: {text}");
            }
            self.log.error(format_args!("[ERR] Unable to load info for node {other}\n"));
            return Err(Failed);
        }
        Ok(())
    }

    /// Waits until all nodes say the same of slots, and, if asked for, know each other.
    pub fn wait_until_joined(&self, cluster: &mut Cluster, acquainted: bool) {
        println!("Waiting for the cluster to join");
        let limit = LINK_CHECK_SECONDS + cluster.nodes.len() as f32 * LINK_CHECK_SECONDS_PER_NODE;
        let (mut since, mut dots) = (Instant::now(), 0);
        while !(cluster.agrees() && (!acquainted || cluster.are_acquainted())) {
            let waited = since.elapsed().as_secs_f32();
            if waited > limit {
                self.show_broken_links(cluster);
                (since, dots) = (Instant::now(), 0);
            } else if waited > (dots + 1) as f32 {
                print!(".");
                super::log::flush();
                dots += 1;
            }
            std::thread::sleep(AGREEMENT_INTERVAL);
        }
        println!();
    }

    fn show_broken_links(&self, cluster: &mut Cluster) {
        let broken = cluster.broken_links();
        if broken.is_empty() {
            return;
        }
        println!();
        self.log.error(format_args!("Warning: {} node(s) may be unreachable\n", broken.len()));
        for (address, from) in broken {
            let parts = address.rsplit_once('@').and_then(|(place, bus)| {
                let bus = bus.split(',').next().filter(|bus| *bus != "0")?;
                Some((place.rsplit_once(':')?.0, bus))
            });
            match parts {
                Some((host, bus)) => self
                    .log
                    .error(format_args!(" - The port {bus} of node {host} may be unreachable from:\n")),
                None => self.log.error(format_args!(" - Node {address} may be unreachable from:\n")),
            }
            for place in from {
                self.log.error(format_args!("   {place}\n"));
                self.log.error(format_args!(
                    "Cluster bus ports must be reachable by every node.\nRemember that cluster bus ports are \
                    different from standard instance ports.\n"
                ));
            }
        }
    }
}
