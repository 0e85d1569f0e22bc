//! Contents of CLUSTER's replies, as data and texts for the code that renders them.
//!
//! Invariant: nothing here changes anything, and the same node and reader give the same view.

use crate::conf::Reader;
use crate::id::NodeId;
use crate::machine::{Cluster, CommandError, Node, NodeKey};
use crate::packet::Kind;
use crate::slots::{SLOTS, SlotSet};
use std::collections::BTreeMap;
use std::fmt::Write;

/// `cluster-preferred-endpoint-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointKind {
    /// The address.
    #[default]
    Ip,
    /// The host name, `?` if absent.
    HostName,
    /// Nothing: clients use the address that they came by.
    Unknown,
}

/// The client that asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    /// Whether it came by TLS.
    pub has_tls: bool,
    /// Whether it came by IPv6.
    pub is_ipv6: bool,
    /// What endpoints are.
    pub endpoint: EndpointKind,
}

impl Viewer {
    fn reader(self) -> Reader {
        Reader::Client { has_tls: self.has_tls, is_ipv6: self.is_ipv6 }
    }

    fn host(self, node: &Node) -> &str {
        node.announced.client_host(&node.address, self.is_ipv6)
    }

    fn port(self, node: &Node) -> u16 {
        node.announced.client_port(&node.address, self.has_tls)
    }
}

/// A range of CLUSTER SLOTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// First slot.
    pub first: u16,
    /// Last slot.
    pub last: u16,
    /// The owner, then its replicas that can be read.
    pub nodes: Vec<SlotNode>,
}

/// A node of CLUSTER SLOTS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotNode {
    /// Where to connect; `None` is sent as null.
    pub endpoint: Option<String>,
    /// Port for such clients.
    pub port: u16,
    /// Its id.
    pub id: NodeId,
    /// What else is known of its address, by name.
    pub metadata: Vec<(&'static str, String)>,
}

/// A shard of CLUSTER SHARDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its id.
    pub id: NodeId,
    /// Its slots, first and last.
    pub slots: Vec<(u16, u16)>,
    /// Its nodes.
    pub nodes: Vec<ShardNode>,
}

/// A node of CLUSTER SHARDS, its fields in the order in which they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardNode {
    /// Its id.
    pub id: NodeId,
    /// `port`, absent if 0.
    pub port: Option<u16>,
    /// `tls-port`, absent if 0.
    pub tls_port: Option<u16>,
    /// `ip`.
    pub ip: String,
    /// `endpoint`; empty for the unknown one.
    pub endpoint: String,
    /// `hostname`, absent if empty.
    pub host_name: Option<String>,
    /// `role`: `master` or `replica`.
    pub role: &'static str,
    /// `replication-offset`, in bytes.
    pub offset: u64,
    /// `health`: `online`, `loading` or `fail`.
    pub health: &'static str,
    /// `availability-zone`, absent if empty.
    pub zone: Option<String>,
}

/// A connection of CLUSTER LINKS; its unsent bytes are known to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// `direction`: `to` or `from`.
    pub direction: &'static str,
    /// `node`.
    pub node: NodeId,
    /// `create-time`, in milliseconds since the epoch of Unix.
    pub created_ms: i64,
}

/// CLUSTER NODES.
pub fn nodes(cluster: &Cluster, viewer: Viewer) -> String {
    cluster.nodes().map(|(key, _)| cluster.entry(key).line(viewer.reader())).collect()
}

/// CLUSTER REPLICAS: a line for each, without its end.
///
/// # Errors
/// When the node is not known, or is no primary.
pub fn replicas(cluster: &Cluster, viewer: Viewer, id: &[u8]) -> Result<Vec<String>, CommandError> {
    let node = cluster.node(find(cluster, id)?);
    if node.is_replica() {
        return Err(CommandError("The specified node is not a master".into()));
    }
    let line = |key: &NodeKey| cluster.entry(*key).line(viewer.reader()).trim_end().to_owned();
    Ok(node.replicas.iter().map(line).collect())
}

/// CLUSTER COUNT-FAILURE-REPORTS.
///
/// # Errors
/// When the node is not known.
pub fn failure_reports(cluster: &Cluster, id: &[u8]) -> Result<usize, CommandError> {
    Ok(cluster.failure_reports(find(cluster, id)?))
}

fn find(cluster: &Cluster, id: &[u8]) -> Result<NodeKey, CommandError> {
    let unknown = || CommandError(format!("Unknown node {}", String::from_utf8_lossy(id)));
    cluster.find(id).ok_or_else(unknown)
}

/// CLUSTER SLOTS.
pub fn slots(cluster: &Cluster, viewer: Viewer) -> Vec<SlotRange> {
    let mut ranges: Vec<(u16, u16, NodeKey)> = Vec::new();
    for slot in 0..SLOTS {
        let Some(owner) = cluster.owner(slot) else { continue };
        match ranges.last_mut() {
            Some((_, last, of)) if *of == owner && *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot, owner)),
        }
    }
    let range = |(first, last, owner): (u16, u16, NodeKey)| {
        let replicas = cluster.node(owner).replicas.iter().copied();
        let readable = replicas.filter(|key| !cluster.node(*key).is_failed() && cluster.offset(*key) != 0);
        let nodes = std::iter::once(owner).chain(readable);
        SlotRange { first, last, nodes: nodes.map(|key| slot_node(cluster.node(key), viewer)).collect() }
    };
    ranges.into_iter().map(range).collect()
}

fn slot_node(node: &Node, viewer: Viewer) -> SlotNode {
    let (host, host_name) = (viewer.host(node).to_owned(), node.announced.host_name.clone());
    let endpoint = match viewer.endpoint {
        EndpointKind::Ip => Some(host.clone()),
        EndpointKind::HostName => Some(if host_name.is_empty() { "?".into() } else { host_name.clone() }),
        EndpointKind::Unknown => None,
    };
    let mut metadata = Vec::new();
    if viewer.endpoint != EndpointKind::Ip {
        metadata.push(("ip", host));
    }
    if viewer.endpoint != EndpointKind::HostName && !host_name.is_empty() {
        metadata.push(("hostname", host_name));
    }
    let zone = &node.announced.availability_zone;
    if !zone.is_empty() {
        metadata.push(("availability-zone", zone.clone()));
    }
    SlotNode { endpoint, port: viewer.port(node), id: node.id, metadata }
}

/// CLUSTER SHARDS, by their ids.
pub fn shards(cluster: &Cluster, viewer: Viewer) -> Vec<Shard> {
    let mut by_id: BTreeMap<NodeId, Vec<NodeKey>> = BTreeMap::new();
    for (key, node) in cluster.nodes().filter(|(_, node)| !node.is_in_handshake()) {
        by_id.entry(node.shard).or_default().push(key);
    }
    let shard = |(id, keys): (NodeId, Vec<NodeKey>)| {
        let owner = keys.iter().find(|key| cluster.node(**key).slot_count() > 0);
        Shard {
            id,
            slots: owner.map_or_else(Vec::new, |owner| cluster.node(*owner).slots().ranges()),
            nodes: keys.iter().map(|key| shard_node(cluster, *key, viewer)).collect(),
        }
    };
    by_id.into_iter().map(shard).collect()
}

fn shard_node(cluster: &Cluster, key: NodeKey, viewer: Viewer) -> ShardNode {
    let (node, offset) = (cluster.node(key), cluster.offset(key));
    let ip = viewer.host(node).to_owned();
    let host_name = Some(node.announced.host_name.clone()).filter(|name| !name.is_empty());
    let health = match node.is_failed() {
        true => "fail",
        false if node.is_replica() && offset == 0 => "loading",
        false => "online",
    };
    let port =
        |has_tls: bool| Some(node.announced.client_port(&node.address, has_tls)).filter(|port| *port != 0);
    ShardNode {
        id: node.id,
        port: port(false),
        tls_port: port(true),
        endpoint: match viewer.endpoint {
            EndpointKind::Ip => ip.clone(),
            EndpointKind::HostName => host_name.clone().unwrap_or_else(|| "?".into()),
            EndpointKind::Unknown => String::new(),
        },
        ip,
        host_name,
        role: if node.is_replica() { "replica" } else { "master" },
        offset,
        health,
        zone: Some(node.announced.availability_zone.clone()).filter(|zone| !zone.is_empty()),
    }
}

/// CLUSTER INFO, as Redis 8.6 has it, with as many slot migrations under way. Slots that have left are
/// emptied at once, so that no trimming is ever under way.
pub fn info(cluster: &Cluster, slot_migrations: usize) -> String {
    let (mut assigned, mut suspected, mut failed) = (0, 0, 0);
    for owner in (0..SLOTS).filter_map(|slot| cluster.owner(slot)) {
        let node = cluster.node(owner);
        assigned += 1;
        failed += usize::from(node.is_failed());
        suspected += usize::from(!node.is_failed() && node.is_suspected());
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(text, "{name}:{value}\r\n");
    };
    line("cluster_state", &if cluster.is_down() { "fail" } else { "ok" });
    line("cluster_slots_assigned", &assigned);
    line("cluster_slots_ok", &(assigned - suspected - failed));
    line("cluster_slots_pfail", &suspected);
    line("cluster_slots_fail", &failed);
    line("cluster_known_nodes", &cluster.nodes().count());
    line("cluster_size", &cluster.size());
    line("cluster_current_epoch", &cluster.current_epoch());
    line("cluster_my_epoch", &cluster.shard_epoch(cluster.my_key()));
    let counters = cluster.counters();
    for (counts, way) in [(&counters.sent, "sent"), (&counters.received, "received")] {
        for (kind, count) in Kind::ALL.iter().zip(counts).filter(|(_, count)| **count > 0) {
            line(&format!("cluster_stats_messages_{}_{way}", kind.name()), count);
        }
        line(&format!("cluster_stats_messages_{way}"), &counts.iter().sum::<u64>());
    }
    line("total_cluster_links_buffer_limit_exceeded", &counters.buffer_limit_exceeded);
    line("cluster_slot_migration_active_tasks", &slot_migrations);
    for name in ["running", "current_job_keys", "current_job_trimmed"] {
        line(&format!("cluster_slot_migration_active_trim_{name}"), &0);
    }
    for name in ["started", "completed", "cancelled"] {
        line(&format!("cluster_slot_migration_stats_active_trim_{name}"), &0);
    }
    text
}

/// CLUSTER LINKS.
pub fn links(cluster: &Cluster) -> Vec<LinkView> {
    let view = |(_, key, is_inbound, created_ms)| LinkView {
        direction: if is_inbound { "from" } else { "to" },
        node: cluster.node(key).id,
        created_ms,
    };
    cluster.links().map(view).collect()
}

/// The slots that CLUSTER SLOT-STATS shows: those of the own shard.
pub fn own_slots(cluster: &Cluster) -> &SlotSet {
    let own = cluster.myself();
    own.primary.map_or(own, |primary| cluster.node(primary)).slots()
}

/// The order of SLOT-STATS ORDERBY: slots by a number of their usage, then by slot, ascending; at most
/// `limit`.
pub fn order_usage(usage: &mut Vec<(u16, u64)>, is_descending: bool, limit: usize) {
    usage.sort_by(|(slot, usage), (other_slot, other)| {
        let order = usage.cmp(other);
        let order = if is_descending { order.reverse() } else { order };
        order.then(slot.cmp(other_slot))
    });
    usage.truncate(limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::Conf;
    use crate::machine::{Settings, Time};
    use martlet_base::random::Random;

    const VALKEY_91: &str = include_str!("../testdata/valkey91.conf");
    const REDIS_82: &str = include_str!("../testdata/redis82.conf");

    fn loaded(file: &str) -> Cluster {
        let conf = Conf::parse(file).unwrap();
        let own = conf.nodes.iter().find(|entry| entry.line(Reader::File).contains("myself")).unwrap();
        let settings = Settings {
            tcp_port: own.address.tcp_port,
            bus_port: own.address.bus_port,
            announced: own.announced.clone(),
            ..Settings::default()
        };
        let now = Time { mono_ms: 5_000, unix_ms: 1_700_000_000_000 };
        let mut cluster = Cluster::from_conf(settings, Random::seeded(1), now, &conf);
        cluster.tick(now);
        cluster
    }

    #[test]
    fn nodes_are_told_without_the_files_fields() {
        let cluster = loaded(REDIS_82);
        let own = cluster.entry(cluster.my_key()).line(Viewer::default().reader());
        assert!(own.contains(
            " 127.0.0.1:24101@34601,host-1.example.com myself,master - 0 0 3 connected 5001-10000 ["
        ));
        assert_eq!(nodes(&cluster, Viewer::default()).lines().count(), 4);
        let valkey = nodes(&loaded(VALKEY_91), Viewer { is_ipv6: true, has_tls: true, ..Viewer::default() });
        assert!(valkey.contains(" ::2:7101@34501,host-1.example.com myself,master"), "{valkey}");
    }

    #[test]
    fn slots_have_their_owner_and_replicas_that_can_be_read() {
        let cluster = loaded(REDIS_82);
        let ranges = slots(&cluster, Viewer::default());
        let shown: Vec<_> = ranges.iter().map(|range| (range.first, range.last, range.nodes.len())).collect();
        assert_eq!(shown, [(0, 5000, 1), (5001, 10000, 1), (10001, 16383, 1)]);
        let node = &ranges[1].nodes[0];
        assert_eq!((node.endpoint.as_deref(), node.port), (Some("127.0.0.1"), 24101));
        assert_eq!(node.metadata, [("hostname", "host-1.example.com".to_owned())]);
        let by_name = slots(&cluster, Viewer { endpoint: EndpointKind::HostName, ..Viewer::default() });
        assert_eq!(by_name[1].nodes[0].endpoint.as_deref(), Some("host-1.example.com"));
        assert_eq!(by_name[1].nodes[0].metadata, [("ip", "127.0.0.1".to_owned())]);
        let unknown = slots(&cluster, Viewer { endpoint: EndpointKind::Unknown, ..Viewer::default() });
        assert_eq!((&unknown[1].nodes[0].endpoint, unknown[1].nodes[0].metadata.len()), (&None, 2));
    }

    #[test]
    fn shards_have_all_their_nodes() {
        let cluster = loaded(REDIS_82);
        let shards = shards(&cluster, Viewer::default());
        assert_eq!(shards.len(), 3);
        let shard = shards.iter().find(|shard| shard.nodes.len() == 2).unwrap();
        assert_eq!(shard.slots, [(0, 5000)]);
        let replica = shard.nodes.iter().find(|node| node.role == "replica").unwrap();
        assert_eq!((replica.health, replica.port, replica.tls_port), ("loading", Some(24100), None));
        let text = info(&cluster, 0);
        assert!(
            text.starts_with(
                "cluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n"
            )
        );
        assert!(
            text.contains("cluster_known_nodes:4\r\ncluster_size:0\r\ncluster_current_epoch:4\r\n"),
            "{text}"
        );
    }

    #[test]
    fn replicas_and_reports_ask_for_a_node_that_is_known() {
        let cluster = loaded(REDIS_82);
        let primary = b"4c4bddf9868559494989be823d7cae989652400d";
        let lines = replicas(&cluster, Viewer::default(), primary).unwrap();
        assert!(lines.len() == 1 && lines[0].contains(" slave 4c4bddf9") && !lines[0].ends_with('\n'));
        let replica = b"51555dc9ea92292800a5042cf4542c3d38f970b9";
        let refused = replicas(&cluster, Viewer::default(), replica).unwrap_err();
        assert_eq!(refused.0, "The specified node is not a master");
        assert_eq!(failure_reports(&cluster, primary), Ok(0));
        assert_eq!(failure_reports(&cluster, b"x").unwrap_err().0, "Unknown node x");
        assert_eq!(own_slots(&cluster).len(), 5000);
        assert!(
            links(&cluster).iter().all(|link| link.direction == "to" && link.node != cluster.myself().id)
        );
    }

    #[test]
    fn usage_is_ordered_by_number_and_slot() {
        let mut usage = vec![(3, 1), (1, 5), (2, 5)];
        order_usage(&mut usage, true, 2);
        assert_eq!(usage.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [1, 2]);
    }
}
