//! DEBUG's subcommands for test suites of clusters, which are Valkey's.

use martlet_base::slot::crc16;
use martlet_cluster::flags::NodeFlags;
use martlet_cluster::id::ID_BYTES;
use martlet_cluster::machine::Direction;
use martlet_command::{Error, Group, Outcome, command};

use super::super::debug_flags::FLAGS;
use super::super::{Call, ServerCommand, ServerHandler};
use super::reply_error;
use crate::runtime::checks::unknown_subcommand;

pub(in super::super) static CLUSTERLINK: ServerCommand =
    command("debug|clusterlink", 5, clusterlink as ServerHandler)
        .flags(FLAGS)
        .syntax("operation direction node-id")
        .doc(
            Group::Server,
            "7.2.0",
            "O(1)",
            "Closes (KILL) the connection to or from a node of the cluster, or both (ALL).",
        );

fn clusterlink(call: &mut Call<'_>) -> Outcome {
    if !call.arg(2).eq_ignore_ascii_case(b"kill") {
        let container = call.entry.parent.map(|id| &call.worker.shared.registry.entries()[id]);
        return Err(unknown_subcommand(container.unwrap_or(call.entry), &call.args));
    }
    let Some(node) = call.worker.shared.cluster() else {
        return Err(Error::Fixed("ERR Debug option only available for cluster mode enabled setup!"));
    };
    let directions = [("to", Direction::To), ("from", Direction::From), ("all", Direction::Both)];
    let direction = call.rest(3).one_of(&directions);
    node.with(|cluster, now| cluster.kill_links(now, call.arg(4), direction)).map_err(reply_error)?;
    if direction.is_none() {
        let text = String::from_utf8_lossy(call.arg(3));
        return Err(Error::Text(format!("ERR Unknown direction {text}")));
    }
    call.reply.ok();
    Ok(())
}

pub(in super::super) static INTERNAL_SECRET: ServerCommand =
    command("debug|internal_secret", 2, internal_secret as ServerHandler).flags(FLAGS).doc(
        Group::Server,
        "8.0.0",
        "O(N) for N nodes of the cluster",
        "Returns a number that nodes have in common once they know the same nodes.",
    );

/// In Redis a checksum of the secret that the nodes have agreed on by combining their own. Nothing here is
/// admitted by such a secret, so it is that of their ids, combined likewise: it agrees when Redis' would.
fn internal_secret(call: &mut Call<'_>) -> Outcome {
    let Some(node) = call.worker.shared.cluster() else {
        return Err(Error::Fixed("ERR Internal secret is missing"));
    };
    let secret = node.with(|cluster, _| {
        let known = cluster.nodes().filter(|(_, node)| !node.flags.has(NodeFlags::HANDSHAKE));
        known.fold([0u8; ID_BYTES], |mut all, (_, node)| {
            all.iter_mut().zip(node.id.as_bytes()).for_each(|(all, byte)| *all ^= byte);
            all
        })
    });
    call.reply.int(i64::from(crc16(&secret)));
    Ok(())
}

pub(in super::super) static DROP_CLUSTER_PACKET_FILTER: ServerCommand =
    command("debug|drop-cluster-packet-filter", 3, drop_cluster_packet_filter as ServerHandler)
        .flags(FLAGS)
        .syntax("packet-type:i")
        .doc(
            Group::Server,
            "7.0.0",
            "O(1)",
            "Does not hear packets of a type on the cluster bus; -1 hears all, -2 none.",
        );

fn drop_cluster_packet_filter(call: &mut Call<'_>) -> Outcome {
    let kind = call.int(2)?;
    if let Some(node) = call.worker.shared.cluster() {
        node.with(|cluster, _| cluster.drop_packets(kind));
    }
    call.reply.ok();
    Ok(())
}

pub(in super::super) static CLOSE_CLUSTER_LINK_ON_PACKET_DROP: ServerCommand =
    command("debug|close-cluster-link-on-packet-drop", 3, close_on_drop as ServerHandler)
        .flags(FLAGS)
        .syntax("flag:i")
        .doc(
            Group::Server,
            "8.0.0",
            "O(1)",
            "Has a connection of the cluster bus closed when a packet of it is not heard.",
        );

fn close_on_drop(call: &mut Call<'_>) -> Outcome {
    let closes_link = martlet_base::number::parse_i64(call.arg(2)).is_some_and(|number| number != 0);
    if let Some(node) = call.worker.shared.cluster() {
        node.with(|cluster, _| cluster.close_on_drop(closes_link));
    }
    call.reply.ok();
    Ok(())
}

pub(in super::super) static SLOTMIGRATION: ServerCommand =
    command("debug|slotmigration", 4, slotmigration as ServerHandler).flags(FLAGS).syntax("step flag:i").doc(
        Group::Server,
        "9.0.0",
        "O(1)",
        "Holds slot migrations up before writers wait (PREVENT-PAUSE) or slots are taken (PREVENT-FAILOVER).",
    );

fn slotmigration(call: &mut Call<'_>) -> Outcome {
    let is_on = martlet_base::number::parse_i64(call.arg(3)).is_some_and(|number| number != 0);
    let holds_pause = match call.arg(2).to_ascii_lowercase().as_slice() {
        b"prevent-pause" => true,
        b"prevent-failover" => false,
        _ => return Err(Error::subcommand_syntax(&call.args)),
    };
    if let Some(node) = call.worker.shared.cluster() {
        node.migrate(|machine, _| {
            machine.hold_up(|steps| match holds_pause {
                true => steps.pause = is_on,
                false => steps.takeover = is_on,
            });
        });
    }
    call.reply.ok();
    Ok(())
}
