//! CLUSTER's subcommands that change the cluster, or this node. They run alone: the consequences for the data
//! set, and the routes that requests are checked against, are there before the reply.

use martlet_base::hash::shard_of_slot;
use martlet_base::number::parse_i64;
use martlet_cluster::machine::{Cluster, CommandError, Failover, SetSlot, Time, parse_slot};
use martlet_command::{
    Acl, Block, Copies, Databases, Error, Flags, Group, Outcome, TimeoutReply, Tip, Wait, command,
};
use martlet_journal::REPLICAS;

use super::super::replication::timeout;
use super::super::{Call, ServerCommand, ServerHandler};
use super::{node, reply_error};
use crate::cluster::node::ClusterNode;
use crate::replication::failover_state::GETACK;
use crate::runtime::request_flags::is_from_primary;

const CHANGE: Flags = Flags::NO_ASYNC_LOADING.with(Flags::ADMIN).with(Flags::STALE).with(Flags::EXCLUSIVE);

/// Has the machine do something, with all that follows.
fn change(
    call: &mut Call<'_>,
    input: impl FnOnce(&mut Cluster, Time) -> Result<(), CommandError>,
) -> Outcome {
    node(call)?.with(input).map_err(reply_error)?;
    call.worker.follow_cluster();
    answer_once_saved(call)
}

/// Answers OK once the file has the change; at once where nothing can wait.
fn answer_once_saved(call: &mut Call<'_>) -> Outcome {
    if call.deny_blocking || !node(call)?.must_save() {
        call.reply.ok();
        return Ok(());
    }
    let block = Block::new(Wait::ClusterSaved, None, TimeoutReply::Ok);
    call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    Ok(())
}

/// Whether any database has keys.
fn has_keys(call: &mut Call<'_>) -> bool {
    !call.worker.keys.is_empty()
}

/// Slots of the arguments, each alone or, in pairs, as ranges.
fn ranges(call: &Call<'_>, in_pairs: bool) -> Result<Vec<(u16, u16)>, Error> {
    let slots: Result<Vec<u16>, _> = call.args.iter().skip(2).map(parse_slot).collect();
    let slots = slots.map_err(reply_error)?;
    if !in_pairs {
        return Ok(slots.into_iter().map(|slot| (slot, slot)).collect());
    }
    if slots.len() % 2 == 1 {
        return Err(Error::Arity(call.entry.spec.full_name));
    }
    Ok(slots.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

pub(super) static ADDSLOTS: ServerCommand = command("cluster|addslots", -3, addslots as ServerHandler)
    .flags(CHANGE)
    .syntax("*slot:i")
    .doc(Group::Cluster, "3.0.0", "O(N) for N slots", "Takes slots that no node has.");

fn addslots(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let slots = ranges(call, false)?;
    change(call, |cluster, now| cluster.add_slots(now, &slots))
}

pub(super) static ADDSLOTSRANGE: ServerCommand =
    command("cluster|addslotsrange", -4, addslotsrange as ServerHandler)
        .flags(CHANGE)
        .syntax("*range(start-slot:i end-slot:i)")
        .doc(Group::Cluster, "7.0.0", "O(N) for N slots", "Takes ranges of slots that no node has.");

fn addslotsrange(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let slots = ranges(call, true)?;
    change(call, |cluster, now| cluster.add_slots(now, &slots))
}

pub(super) static DELSLOTS: ServerCommand = command("cluster|delslots", -3, delslots as ServerHandler)
    .flags(CHANGE)
    .syntax("*slot:i")
    .doc(Group::Cluster, "3.0.0", "O(N) for N slots", "Unassigns slots.");

fn delslots(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let slots = ranges(call, false)?;
    change(call, |cluster, now| cluster.delete_slots(now, &slots))
}

pub(super) static DELSLOTSRANGE: ServerCommand =
    command("cluster|delslotsrange", -4, delslotsrange as ServerHandler)
        .flags(CHANGE)
        .syntax("*range(start-slot:i end-slot:i)")
        .doc(Group::Cluster, "7.0.0", "O(N) for N slots", "Unassigns ranges of slots.");

fn delslotsrange(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let slots = ranges(call, true)?;
    change(call, |cluster, now| cluster.delete_slots(now, &slots))
}

pub(super) static FLUSHSLOTS: ServerCommand = command("cluster|flushslots", 2, flushslots as ServerHandler)
    .flags(CHANGE)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Gives up all slots of the node, which must have no keys.");

fn flushslots(call: &mut Call<'_>) -> Outcome {
    let has_keys = has_keys(call);
    change(call, |cluster, now| cluster.flush_slots(now, has_keys))
}

// Deleted values are freed by the thread that frees all large ones, with either word.
pub(super) static FLUSHSLOT: ServerCommand = command("cluster|flushslot", -3, flushslot as ServerHandler)
    .flags(Flags::WRITE.with(Flags::ADMIN).with(Flags::NO_ASYNC_LOADING).with(Flags::WALK))
    .databases(Databases::All)
    .acl(Acl::KEYSPACE)
    .syntax("slot:i ?flush-type(ASYNC|SYNC)")
    .doc(Group::Cluster, "9.0.0", "O(N) for N keys of the slot", "Deletes the keys of a slot here.");

fn flushslot(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let slot = parse_slot(call.arg(2)).map_err(reply_error)?;
    match call.argc() {
        3 => {}
        4 if [b"async".as_slice(), b"sync"].iter().any(|word| call.arg(3).eq_ignore_ascii_case(word)) => {}
        4 => return Err(Error::Syntax),
        _ => return Err(Error::subcommand_syntax(&call.args)),
    }
    let worker = &mut *call.worker;
    if worker.keys.has_all_shards() {
        worker.keys.delete_slot(slot);
    } else if worker.keys.lock_shard_unless_busy(shard_of_slot(slot)) {
        worker.keys.delete_slot(slot);
        worker.release_keys();
    } else {
        return Err(worker.busy_error());
    }
    call.reply.ok();
    Ok(())
}

pub(super) static BUMPEPOCH: ServerCommand = command("cluster|bumpepoch", 2, bumpepoch as ServerHandler)
    .flags(CHANGE)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Gives the node the newest epoch, without a vote.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn bumpepoch(call: &mut Call<'_>) -> Outcome {
    let (is_bumped, epoch) = node(call)?.with(|cluster, now| cluster.bump(now));
    call.worker.follow_cluster();
    call.reply.simple(&format!("{} {epoch}", if is_bumped { "BUMPED" } else { "STILL" }));
    Ok(())
}

pub(super) static FAILOVER: ServerCommand = command("cluster|failover", -2, failover as ServerHandler)
    .flags(CHANGE)
    .syntax("?options(FORCE|TAKEOVER)")
    .doc(Group::Cluster, "3.0.0", "O(1)", "Has a replica take over from its primary.");

fn failover(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let mut words = call.rest(2);
    let how = words.one_of(&[("force", Failover::Forced), ("takeover", Failover::Takeover)]);
    words.finish()?;
    change(call, |cluster, now| cluster.failover(now, how.unwrap_or(Failover::Agreed)))
}

pub(super) static FORGET: ServerCommand = command("cluster|forget", 3, forget as ServerHandler)
    .flags(CHANGE)
    .syntax("node-id")
    .doc(Group::Cluster, "3.0.0", "O(1)", "Takes a node out of the list.");

fn forget(call: &mut Call<'_>) -> Outcome {
    let id = call.arg(2);
    change(call, |cluster, now| cluster.forget(now, id))
}

pub(super) static MEET: ServerCommand = command("cluster|meet", -4, meet as ServerHandler)
    .flags(CHANGE)
    .syntax("ip port:i ?cluster-bus-port:i^4.0.0")
    .doc(Group::Cluster, "3.0.0", "O(1)", "Begins a handshake with another node.")
    .history(&[("4.0.0", "Takes the bus' port, too.")]);

fn meet(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    if call.argc() > 5 {
        return Err(Error::subcommand_syntax(&call.args));
    }
    let port = |index: usize, what: &str| {
        let text = format!("ERR Invalid {what} port specified: {}", String::from_utf8_lossy(call.arg(index)));
        parse_i64(call.arg(index)).ok_or(Error::Text(text))
    };
    let client_port = port(3, "base")?;
    let bus_port = if call.argc() == 5 { port(4, "bus")? } else { client_port.saturating_add(10_000) };
    let host = String::from_utf8_lossy(call.arg(2)).into_owned();
    change(call, |cluster, now| cluster.meet(now, &host, client_port, bus_port))
}

pub(super) static REPLICATE: ServerCommand = command("cluster|replicate", -3, replicate as ServerHandler)
    .flags(CHANGE)
    .syntax("args(node-id|no-one(NO ONE)^9.0.0)")
    .doc(Group::Cluster, "3.0.0", "O(1)", "Makes the node a replica of another, or of none.")
    .history(&[("9.0.0", "Takes NO ONE, which makes a replica an empty primary, as Valkey does.")]);

fn replicate(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let id = call.arg(2);
    if call.argc() > 3 {
        let is_detached =
            call.argc() == 4 && id.eq_ignore_ascii_case(b"no") && call.arg(3).eq_ignore_ascii_case(b"one");
        if !is_detached {
            return Err(Error::subcommand_syntax(&call.args));
        }
        return change(call, |cluster, now| {
            cluster.detach(now);
            Ok(())
        });
    }
    let has_keys = has_keys(call);
    change(call, |cluster, now| cluster.replicate(now, id, has_keys))
}

pub(super) static RESET: ServerCommand = command("cluster|reset", -2, reset as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::ADMIN).with(Flags::STALE).with(Flags::EXCLUSIVE))
    .syntax("?reset-type(HARD|SOFT)")
    .doc(
        Group::Cluster,
        "3.0.0",
        "O(N) for N nodes, and for N keys of a replica",
        "Makes the node one that knows no other.",
    );

fn reset(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let mut words = call.rest(2);
    let is_hard = words.one_of(&[("hard", true), ("soft", false)]).unwrap_or(false);
    words.finish()?;
    let has_keys = has_keys(call);
    change(call, |cluster, now| cluster.reset(now, is_hard, has_keys))
}

pub(super) static SAVECONFIG: ServerCommand = command("cluster|saveconfig", 2, saveconfig as ServerHandler)
    .flags(CHANGE)
    .doc(Group::Cluster, "3.0.0", "O(1)", "Has the node's file written.");

fn saveconfig(call: &mut Call<'_>) -> Outcome {
    change(call, |cluster, now| {
        cluster.save_conf(now);
        Ok(())
    })
}

pub(super) static SET_CONFIG_EPOCH: ServerCommand =
    command("cluster|set-config-epoch", 3, set_config_epoch as ServerHandler)
        .flags(CHANGE)
        .syntax("config-epoch:i")
        .doc(Group::Cluster, "3.0.0", "O(1)", "Gives an epoch to a node that knows no other.");

fn set_config_epoch(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let epoch = call.int(2)?;
    change(call, |cluster, now| cluster.set_config_epoch(now, epoch))
}

pub(super) static SETSLOT: ServerCommand = command("cluster|setslot", -4, setslot as ServerHandler)
    .flags(CHANGE)
    .syntax("slot:i subcommand(importing=IMPORTING|migrating=MIGRATING|node=NODE|STABLE) ?timeout:i=TIMEOUT^8.0.0")
    .doc(Group::Cluster, "3.0.0", "O(1)", "Says where a slot comes from, goes to, or is.")
    .history(&[("8.0.0", "Replicas get it first; takes TIMEOUT, as Valkey does.")]);

/// Longest wait for replicas, in milliseconds.
const REPLICATION_TIMEOUT_MS: i64 = 2_000;

fn setslot(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let slot = parse_slot(call.arg(2)).map_err(reply_error)?;
    let id = call.arg(4);
    let (state, end) = match call.arg(3).to_ascii_lowercase().as_slice() {
        b"migrating" if call.argc() > 4 => (SetSlot::Migrating(id), 5),
        b"importing" if call.argc() > 4 => (SetSlot::Importing(id), 5),
        b"stable" => (SetSlot::Stable, 4),
        b"node" if call.argc() > 4 => (SetSlot::Node(id), 5),
        _ => return Err(INVALID_SETSLOT),
    };
    let has_keys = call.worker.keys.count_slot(slot) > 0;
    let is_told = is_from_primary(call.connection);
    if is_told || node.read(|cluster| cluster.myself().is_primary()) {
        node.migrate(|machine, _| machine.check_idle()).map_err(reply_error)?;
    }
    node.read(|cluster| cluster.check_slot_change(slot, state, is_told, has_keys).map(drop))
        .map_err(reply_error)?;
    let deadline_ms = replication_deadline(call, end)?;
    if is_told {
        // The thread `cluster` carries out the consequences: the node may stop following this stream.
        node.with(|cluster, now| cluster.set_slot(now, slot, state, true, has_keys)).map_err(reply_error)?;
        call.reply.ok();
        return Ok(());
    }
    if !call.connection.session.is_replicated && ask_replicas_first(call, node, deadline_ms) {
        return Ok(());
    }
    change(call, |cluster, now| cluster.set_slot(now, slot, state, false, has_keys))
}

const INVALID_SETSLOT: Error =
    Error::Fixed("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");

/// Until when SETSLOT waits for replicas, Unix milliseconds: its option TIMEOUT, if there is one at `index`.
fn replication_deadline(call: &Call<'_>, index: usize) -> Result<Option<i64>, Error> {
    let given = call.argc().saturating_sub(index);
    if given == 0 {
        return Ok(Some(call.worker.now_ms + REPLICATION_TIMEOUT_MS));
    }
    match call.arg(index).eq_ignore_ascii_case(b"timeout") {
        true if given == 1 => Err(Error::Fixed("ERR Missing timeout value")),
        true if given == 2 => timeout(call, index + 1),
        _ => Err(INVALID_SETSLOT),
    }
}

/// Has replicas run the request before this node does, so that its statements to the cluster stay true when
/// one of them takes over; returns whether the client waits for them. Where nothing can wait they get it even
/// so.
fn ask_replicas_first(call: &mut Call<'_>, node: &ClusterNode, deadline_ms: Option<i64>) -> bool {
    let shared = call.worker.shared;
    let count = shared.replication.primary.count_slot_changers();
    if count == 0 || !node.read(|cluster| cluster.replicas_take_slot_changes(count)) {
        return false;
    }
    let words: Vec<&[u8]> = call.args.iter().collect();
    call.worker.tell_replicas(&words);
    if call.deny_blocking {
        return false;
    }
    let position = shared.engine.journal.end();
    let offset = shared.offset_of(position);
    let copies = Copies { position, offset, local: false, replicas: count as u64, on_disk: false };
    let block = Block::new(Wait::Replicated(copies), deadline_ms, TimeoutReply::NoReplicas);
    call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    shared.engine.journal.append(REPLICAS, GETACK);
    true
}
