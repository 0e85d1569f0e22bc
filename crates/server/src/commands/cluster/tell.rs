//! CLUSTER's subcommands that tell of the cluster, and of the slots here.

use martlet_base::hash::shard_of_slot;
use martlet_base::slot::slot_of;
use martlet_cluster::machine::Cluster;
use martlet_cluster::slots::SLOTS as SLOT_COUNT;
use martlet_cluster::views::{self, EndpointKind, ShardNode, Viewer};
use martlet_command::{Error, Flags, Group, Outcome, Tip, command};

use super::super::{Call, ServerCommand, ServerHandler};
use super::{node, reply_error, settled};
use crate::config::{ClusterPreferredEndpointType, PresentsAs};

const TELL: Flags = Flags::STALE;
const ALWAYS: Flags = Flags::LOADING.with(Flags::STALE);
const ADMIN: Flags = Flags::ADMIN.with(Flags::STALE);
/// It locks shards itself, which its arguments do not tell.
const LOOK: Flags = TELL.with(Flags::WALK);

/// The client that asks.
fn viewer(call: &Call<'_>) -> Viewer {
    let client = call.worker.cluster_client(call.connection);
    Viewer {
        has_tls: client.has_tls,
        is_ipv6: client.is_ipv6,
        endpoint: match call.worker.config().cluster_preferred_endpoint_type {
            ClusterPreferredEndpointType::Ip => EndpointKind::Ip,
            ClusterPreferredEndpointType::Hostname => EndpointKind::HostName,
            ClusterPreferredEndpointType::UnknownEndpoint => EndpointKind::Unknown,
        },
    }
}

/// Answers with a text of the machine.
fn text(call: &mut Call<'_>, tell: impl FnOnce(&Cluster, Viewer) -> String) -> Outcome {
    let viewer = viewer(call);
    let text = settled(call)?.read(|cluster| tell(cluster, viewer));
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) static INFO: ServerCommand = command("cluster|info", 2, info as ServerHandler)
    .flags(TELL)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Returns the state of the cluster as the node sees it.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn info(call: &mut Call<'_>) -> Outcome {
    let active = node(call)?.migrate(|machine, _| machine.active_tasks());
    text(call, |cluster, _| views::info(cluster, active))
}

pub(super) static NODES: ServerCommand = command("cluster|nodes", 2, nodes as ServerHandler)
    .flags(TELL)
    .doc(Group::Cluster, "3.0.0", "O(N) for N nodes", "Lists the nodes as the node's file does.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn nodes(call: &mut Call<'_>) -> Outcome {
    text(call, views::nodes)
}

pub(super) static MYID: ServerCommand = command("cluster|myid", 2, myid as ServerHandler).flags(TELL).doc(
    Group::Cluster,
    "3.0.0",
    "O(1)",
    "Returns the id of the node.",
);

fn myid(call: &mut Call<'_>) -> Outcome {
    let id = node(call)?.read(|cluster| cluster.myself().id);
    call.reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) static MYSHARDID: ServerCommand = command("cluster|myshardid", 2, myshardid as ServerHandler)
    .flags(TELL)
    .doc(Group::Cluster, "7.2.0", "O(1)", "Returns the id of the node's shard.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn myshardid(call: &mut Call<'_>) -> Outcome {
    let id = node(call)?.read(|cluster| cluster.myself().shard);
    call.reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) static SLOTS: ServerCommand = command("cluster|slots", 2, slots as ServerHandler)
    .flags(ALWAYS)
    .doc(Group::Cluster, "3.0.0", "O(N) for N nodes", "Lists ranges of slots with their nodes.")
    .history(&[("4.0.0", "Returns ids of nodes."), ("7.0.0", "Returns further parts of a node's address.")])
    .deprecated("7.0.0", "`CLUSTER SHARDS`")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn slots(call: &mut Call<'_>) -> Outcome {
    let viewer = viewer(call);
    let ranges = settled(call)?.read(|cluster| views::slots(cluster, viewer));
    let reply = &mut *call.reply;
    reply.array(ranges.len());
    for range in ranges {
        reply.array(2 + range.nodes.len());
        reply.int(i64::from(range.first));
        reply.int(i64::from(range.last));
        for node in range.nodes {
            reply.array(4);
            reply.bulk_or_null(node.endpoint.as_ref().map(String::as_bytes));
            reply.int(i64::from(node.port));
            reply.bulk(node.id.as_bytes());
            reply.map(node.metadata.len());
            for (name, value) in &node.metadata {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
    }
    Ok(())
}

pub(super) static SHARDS: ServerCommand = command("cluster|shards", 2, shards as ServerHandler)
    .flags(ALWAYS)
    .doc(Group::Cluster, "7.0.0", "O(N) for N nodes", "Lists shards with their slots and nodes.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn shards(call: &mut Call<'_>) -> Outcome {
    let viewer = viewer(call);
    let shards = settled(call)?.read(|cluster| views::shards(cluster, viewer));
    let has_id = call.worker.config().presents_as == PresentsAs::Valkey;
    call.reply.array(shards.len());
    for shard in shards {
        let reply = &mut *call.reply;
        reply.map(2 + usize::from(has_id));
        reply.bulk(b"slots");
        reply.array(shard.slots.len() * 2);
        for (first, last) in shard.slots {
            reply.int(i64::from(first));
            reply.int(i64::from(last));
        }
        reply.bulk(b"nodes");
        reply.array(shard.nodes.len());
        shard.nodes.iter().for_each(|node| write_shard_node(call, node));
        if has_id {
            call.reply.bulk(b"id");
            call.reply.bulk(shard.id.as_bytes());
        }
    }
    Ok(())
}

fn write_shard_node(call: &mut Call<'_>, node: &ShardNode) {
    let reply = &mut *call.reply;
    let [has_name, has_zone] = [&node.host_name, &node.zone].map(Option::is_some);
    let optional = [node.port.is_some(), node.tls_port.is_some(), has_name, has_zone];
    reply.map(6 + optional.iter().filter(|is_there| **is_there).count());
    let mut text = |name: &str, value: &[u8]| {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    };
    text("id", node.id.as_bytes());
    for (name, port) in [("port", node.port), ("tls-port", node.tls_port)] {
        if let Some(port) = port {
            call.reply.bulk(name.as_bytes());
            call.reply.int(i64::from(port));
        }
    }
    let reply = &mut *call.reply;
    let mut text = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("ip", &node.ip);
    text("endpoint", &node.endpoint);
    if let Some(name) = &node.host_name {
        text("hostname", name);
    }
    text("role", node.role);
    call.reply.bulk(b"replication-offset");
    call.reply.int(node.offset as i64);
    call.reply.bulk(b"health");
    call.reply.bulk(node.health.as_bytes());
    if let Some(zone) = &node.zone {
        call.reply.bulk(b"availability-zone");
        call.reply.bulk(zone.as_bytes());
    }
}

pub(super) static LINKS: ServerCommand = command("cluster|links", 2, links as ServerHandler)
    .flags(TELL)
    .doc(Group::Cluster, "7.0.0", "O(N) for N nodes", "Lists the connections to and from other nodes.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn links(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let waiting = node.waiting();
    let links = node.read(|cluster| {
        let ids = cluster.links().map(|(id, ..)| id);
        ids.zip(views::links(cluster)).collect::<Vec<_>>()
    });
    call.reply.array(links.len());
    for (id, link) in links {
        let waiting = waiting.get(&id).copied().unwrap_or_default();
        let reply = &mut *call.reply;
        reply.map(6);
        let events = if waiting.used > 0 { "rw" } else { "r" };
        for (name, value) in [("direction", link.direction), ("node", link.node.as_str())] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"create-time");
        reply.int(link.created_ms);
        reply.bulk(b"events");
        reply.bulk(events.as_bytes());
        for (name, bytes) in
            [("send-buffer-allocated", waiting.allocated), ("send-buffer-used", waiting.used)]
        {
            reply.bulk(name.as_bytes());
            reply.count(bytes);
        }
    }
    Ok(())
}

pub(super) static REPLICAS: ServerCommand = command("cluster|replicas", 3, replicas as ServerHandler)
    .flags(ADMIN)
    .syntax("node-id")
    .doc(Group::Cluster, "5.0.0", "O(N) for N replicas", "Lists the replicas of a primary.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

pub(super) static SLAVES: ServerCommand = command("cluster|slaves", 3, replicas as ServerHandler)
    .flags(ADMIN)
    .syntax("node-id")
    .doc(Group::Cluster, "3.0.0", "O(N) for N replicas", "Lists the replicas of a primary.")
    .deprecated("5.0.0", "`CLUSTER REPLICAS`")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn replicas(call: &mut Call<'_>) -> Outcome {
    let viewer = viewer(call);
    let lines =
        settled(call)?.read(|cluster| views::replicas(cluster, viewer, call.arg(2))).map_err(reply_error)?;
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.bulk(line.as_bytes()));
    Ok(())
}

pub(super) static COUNT_FAILURE_REPORTS: ServerCommand =
    command("cluster|count-failure-reports", 3, count_failure_reports as ServerHandler)
        .flags(ADMIN)
        .syntax("node-id")
        .doc(
            Group::Cluster,
            "3.0.0",
            "O(N) for N reports",
            "Counts the nodes that say that they cannot reach a node.",
        )
        .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn count_failure_reports(call: &mut Call<'_>) -> Outcome {
    let count =
        node(call)?.read(|cluster| views::failure_reports(cluster, call.arg(2))).map_err(reply_error)?;
    call.reply.count(count);
    Ok(())
}

pub(super) static KEYSLOT: ServerCommand = command("cluster|keyslot", 3, keyslot as ServerHandler)
    .flags(TELL)
    .syntax("key")
    .doc(Group::Cluster, "3.0.0", "O(N) for N bytes of the key", "Returns the slot of a key.");

fn keyslot(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    call.reply.int(i64::from(slot_of(call.arg(2))));
    Ok(())
}

/// A slot's number of an argument, for those that look at its keys.
fn slot_at(call: &Call<'_>, index: usize) -> Result<Option<u16>, Error> {
    Ok(u16::try_from(call.int(index)?).ok().filter(|slot| *slot < SLOT_COUNT))
}

pub(super) static COUNTKEYSINSLOT: ServerCommand =
    command("cluster|countkeysinslot", 3, countkeysinslot as ServerHandler).flags(LOOK).syntax("slot:i").doc(
        Group::Cluster,
        "3.0.0",
        "O(N) for N keys of the slot",
        "Counts the keys of a slot here.",
    );

fn countkeysinslot(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let slot = slot_at(call, 2)?.ok_or(Error::Fixed("ERR Invalid slot"))?;
    let db = call.connection.session.db;
    let count = call.worker.keys.visit_shard(shard_of_slot(slot), |keys| keys.count_slot_in(db, slot));
    call.reply.count(count.unwrap_or(0));
    Ok(())
}

pub(super) fn keys_in_slot(call: &mut Call<'_>, slot: u16) -> usize {
    call.worker.keys.visit_shard(shard_of_slot(slot), |keys| keys.count_slot(slot)).unwrap_or(0)
}

pub(super) static GETKEYSINSLOT: ServerCommand =
    command("cluster|getkeysinslot", 4, getkeysinslot as ServerHandler)
        .flags(LOOK)
        .syntax("slot:i count:i")
        .doc(Group::Cluster, "3.0.0", "O(N) for N keys that are asked for", "Names keys of a slot here.")
        .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn getkeysinslot(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let (slot, most) = (slot_at(call, 2)?, usize::try_from(call.int(3)?).ok());
    let (slot, most) = slot.zip(most).ok_or(Error::Fixed("ERR Invalid slot or number of keys"))?;
    let names = call.worker.keys.visit_shard(shard_of_slot(slot), |keys| keys.names_in_slot(slot, most));
    let names = names.unwrap_or_default();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}
