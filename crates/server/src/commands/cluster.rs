//! CLUSTER, CLUSTERSCAN, and a session's read modes: ASKING, READONLY, READWRITE.

mod change;
mod debug;
mod migrate;
mod migration;
mod scan;
mod slot_stats;
mod tell;

use std::sync::atomic::Ordering;

use martlet_cluster::machine::CommandError;
use martlet_command::{Acl, Error, Flags, Group, Outcome, command, container};
use martlet_protocol::reply::Reply;

use super::{Call, ServerCommand, ServerHandler};
use crate::clients::flag;
use crate::cluster::node::ClusterNode;
use crate::runtime::Worker;
use crate::slow_path::SessionFlags;

pub(super) use debug::{
    CLOSE_CLUSTER_LINK_ON_PACKET_DROP, CLUSTERLINK, DROP_CLUSTER_PACKET_FILTER, INTERNAL_SECRET,
    SLOTMIGRATION,
};

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&READONLY, &READWRITE, &ASKING, &CLUSTER, &scan::CLUSTERSCAN];

/// This node.
fn node(call: &Call<'_>) -> Result<&'static ClusterNode, Error> {
    let disabled = Error::Fixed("ERR This instance has cluster support disabled");
    call.worker.shared.cluster().ok_or(disabled)
}

/// This node, once requests are checked against all that it knows: a client that learns that the cluster is
/// up, or the owner of a slot, finds it so.
fn settled(call: &mut Call<'_>) -> Result<&'static ClusterNode, Error> {
    let node = node(call)?;
    if !call.deny_blocking && node.needs_gate() {
        call.worker.alone(Worker::follow_cluster);
    }
    Ok(node)
}

/// A refusal of the machine, as a reply.
fn reply_error(error: CommandError) -> Error {
    Error::Text(format!("ERR {error}"))
}

/// It reads slot migrations.
const ADMIN: Flags = Flags::NO_ASYNC_LOADING.with(Flags::ADMIN).with(Flags::STALE);
/// It changes slot migrations, and so runs alone.
const CHANGE: Flags = ADMIN.with(Flags::EXCLUSIVE);

/// The arguments from one on.
fn words<'a>(call: &Call<'a>, first: usize) -> Vec<&'a [u8]> {
    call.args.iter().skip(first).collect()
}

/// A field of a map and its text.
fn text(reply: &mut Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

const SESSION: Flags = Flags::LOADING.with(Flags::STALE).with(Flags::FAST);

static READONLY: ServerCommand = command("readonly", 1, readonly as ServerHandler)
    .flags(SESSION)
    .acl(Acl::CONNECTION)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Lets the connection read from a cluster's replica.");

fn readonly(call: &mut Call<'_>) -> Outcome {
    read_from_replica(call, true)
}

static READWRITE: ServerCommand = command("readwrite", 1, readwrite as ServerHandler)
    .flags(SESSION)
    .acl(Acl::CONNECTION)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Ends READONLY.");

fn readwrite(call: &mut Call<'_>) -> Outcome {
    read_from_replica(call, false)
}

static ASKING: ServerCommand = command("asking", 1, asking as ServerHandler)
    .flags(Flags::FAST)
    .acl(Acl::CONNECTION)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Follows an ASK redirection of a cluster.");

fn asking(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    set_flag(call, SessionFlags::ASKING, true)?;
    call.connection.session.has_just_asked = true;
    Ok(())
}

/// Sets whether the client reads from a replica, which outside clusters has a meaning to those only that
/// follow redirections, and which Valkey takes from all.
fn read_from_replica(call: &mut Call<'_>, reads: bool) -> Outcome {
    let flags = &call.connection.info.flags;
    let follows_redirects = flags.load(Ordering::Relaxed) & flag::FOLLOWS_REDIRECTS != 0;
    if !follows_redirects && !call.worker.presentation().is_valkey() {
        node(call)?;
    }
    let flags = &call.connection.info.flags;
    if reads {
        flags.fetch_or(flag::READONLY, Ordering::Relaxed);
    } else {
        flags.fetch_and(!flag::READONLY, Ordering::Relaxed);
    }
    set_flag(call, SessionFlags::READS_REPLICA, reads)
}

fn set_flag(call: &mut Call<'_>, flag: SessionFlags, is_set: bool) -> Outcome {
    call.connection.session.flags.set(flag, is_set);
    call.reply.ok();
    Ok(())
}

static CLUSTER: ServerCommand = container(
    "cluster",
    -2,
    &[
        &change::ADDSLOTS,
        &change::ADDSLOTSRANGE,
        &change::BUMPEPOCH,
        &migrate::CANCELSLOTMIGRATIONS,
        &tell::COUNT_FAILURE_REPORTS,
        &tell::COUNTKEYSINSLOT,
        &change::DELSLOTS,
        &change::DELSLOTSRANGE,
        &change::FAILOVER,
        &change::FLUSHSLOT,
        &change::FLUSHSLOTS,
        &change::FORGET,
        &tell::GETKEYSINSLOT,
        &migrate::GETSLOTMIGRATIONS,
        &HELP,
        &tell::INFO,
        &tell::KEYSLOT,
        &tell::LINKS,
        &change::MEET,
        &migrate::MIGRATESLOTS,
        &migration::MIGRATION,
        &tell::MYID,
        &tell::MYSHARDID,
        &tell::NODES,
        &tell::REPLICAS,
        &change::REPLICATE,
        &change::RESET,
        &change::SAVECONFIG,
        &change::SET_CONFIG_EPOCH,
        &change::SETSLOT,
        &tell::SHARDS,
        &tell::SLAVES,
        &slot_stats::SLOT_STATS,
        &tell::SLOTS,
        &migrate::SYNCSLOTS,
    ],
)
.doc(Group::Cluster, "3.0.0", "Depends on subcommand", "A container for cluster commands.");

static HELP: ServerCommand = command("cluster|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Cluster, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    super::write_help(call, "CLUSTER");
    Ok(())
}
