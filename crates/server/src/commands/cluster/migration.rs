//! CLUSTER MIGRATION, with which a node asks for slots of another, as in Redis 8.4; and the messages of
//! SYNCSLOTS by which two nodes carry that out.

use std::sync::Arc;

use martlet_base::slot_ranges::{SlotRanges, parse_slot_ranges};
use martlet_cluster::id::{ID_BYTES, NodeId};
use martlet_cluster::machine::CommandError;
use martlet_cluster::slot_migration::{JobId, Operation, Step, Task};
use martlet_command::{Error, Group, Outcome, command};
use martlet_protocol::reply::Reply;

use super::super::{Call, ServerCommand, ServerHandler};
use super::{CHANGE, node, reply_error, text, words};
use crate::cluster::slot_migration::state::NodePeer;
use crate::replication::feed::{Feed, FeedWriter};
use crate::replication::source::Taker;
use crate::runtime::request_flags::is_from_primary;

const UNKNOWN: Error = Error::Fixed("ERR unknown argument");
const NODES_ONLY: Error =
    Error::Fixed("ERR CLUSTER SYNCSLOTS subcommands are only allowed for internal clients");

pub(super) static MIGRATION: ServerCommand = command("cluster|migration", -4, migration as ServerHandler)
    .flags(CHANGE)
    .syntax(
        "subcommand(*import=IMPORT(start-slot:i end-slot:i)|cancel=CANCEL(task-id=ID|all:x=ALL)|\
     status=STATUS(?task-id=ID|?all:x=ALL))",
    )
    .doc(
        Group::Cluster,
        "8.4.0",
        "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
        "Brings slots of another node here, all at once; lists and ends that.",
    );

fn migration(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let word = call.arg(2);
    let is = |other: &[u8]| word.eq_ignore_ascii_case(other);
    if is(b"import") {
        import(call)
    } else if is(b"status") {
        status(call)
    } else if is(b"cancel") {
        cancel(call)
    } else {
        Err(UNKNOWN)
    }
}

fn arity<T>(call: &Call<'_>) -> Result<T, Error> {
    Err(Error::Arity(call.entry.spec.full_name))
}

/// The ranges from an argument on.
fn slot_ranges(call: &Call<'_>, first: usize) -> Result<SlotRanges, Error> {
    let ranges = parse_slot_ranges(&words(call, first)).map_err(|text| reply_error(CommandError(text)))?;
    ranges.filter(|ranges| !ranges.is_empty()).map_or_else(|| arity(call), Ok)
}

fn import(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let ranges = slot_ranges(call, 3)?;
    let begun = node.read(|cluster| node.migrate(|machine, now| machine.import_slots(now, cluster, ranges)));
    let id = begun.map_err(reply_error)?;
    call.worker.follow_migrations();
    call.reply.bulk(id.as_bytes());
    Ok(())
}

/// The task that CANCEL or STATUS names: `None` for all.
fn named<'a>(call: &Call<'a>) -> Result<Option<&'a [u8]>, Error> {
    let argc = call.argc();
    if argc != 4 && argc != 5 {
        return arity(call);
    }
    let is = |word: &[u8]| call.arg(3).eq_ignore_ascii_case(word);
    match (is(b"id"), is(b"all"), argc) {
        (true, _, 5) => Ok(Some(call.arg(4))),
        (_, true, 4) => Ok(None),
        (true, ..) | (_, true, _) => arity(call),
        _ => Err(UNKNOWN),
    }
}

fn cancel(call: &mut Call<'_>) -> Outcome {
    let (node, id) = (node(call)?, named(call)?);
    let count = node.migrate(|machine, now| machine.cancel_tasks(now, id));
    call.worker.follow_migrations();
    call.reply.int(count as i64);
    Ok(())
}

fn status(call: &mut Call<'_>) -> Outcome {
    let (node, id) = (node(call)?, named(call)?);
    let is_meant = |task: &&Task| id.is_none_or(|id| task.id.as_bytes() == id);
    let tasks: Vec<Task> = node.migrate(|machine, _| machine.tasks().filter(is_meant).cloned().collect());
    call.reply.array(tasks.len());
    tasks.iter().for_each(|task| write_task(call.reply, task));
    Ok(())
}

fn write_task(reply: &mut Reply, task: &Task) {
    reply.map(12);
    text(reply, "id", task.id.as_str());
    text(reply, "slots", &task.ranges_text());
    text(reply, "source", task.source.as_str());
    text(reply, "dest", task.target.as_str());
    text(reply, "operation", if task.operation == Operation::Import { "import" } else { "migrate" });
    text(reply, "state", task.step.name());
    text(reply, "last_error", &task.error);
    text(reply, "retries", &task.retries.to_string());
    text(reply, "create_time", &task.created_ms.to_string());
    text(reply, "start_time", &task.started_ms.to_string());
    text(reply, "end_time", &task.ended_ms.to_string());
    text(reply, "write_pause_ms", &task.write_pause_ms().to_string());
}

/// A message of a node of the cluster, if it is one of Redis'; `None` for one of Valkey's.
pub(super) fn message(call: &mut Call<'_>) -> Option<Outcome> {
    let word = call.arg(2);
    let is = |other: &[u8]| word.eq_ignore_ascii_case(other);
    let argc = call.argc();
    if call.connection.session.import.is_some() {
        return match () {
            () if is(b"applied") && argc == 4 => Some(note_applied(call)),
            // A source says how many keys a slot has: nothing is made room for.
            () if is(b"conf") || is(b"fail") => Some(Ok(())),
            () => None,
        };
    }
    let is_ours = ["sync", "rdbchannel", "conf", "fail"].iter().any(|word| is(word.as_bytes()));
    if !(is_ours || is(b"ack") && argc == 5) {
        return None;
    }
    if is_from_primary(call.connection) {
        // What a primary of Redis says of its own migrations: its keys come as all others do.
        return Some(Ok(()));
    }
    if call.connection.session.peer.is_none() {
        call.connection.closing = true;
        return Some(Err(NODES_ONLY));
    }
    Some(match () {
        () if is(b"sync") && argc >= 6 => sync(call),
        () if is(b"rdbchannel") && argc == 4 => open_channel(call),
        () if is(b"ack") => acknowledge(call),
        () if is(b"conf") && argc >= 5 => introduce(call),
        () if is(b"fail") && argc == 4 => Ok(()),
        () => Err(Error::Syntax),
    })
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Changes up to a byte have been applied: the thread which handed them on marks that place so.
fn note_applied(call: &mut Call<'_>) -> Outcome {
    let (import, bytes) = (call.connection.session.import, number(call.arg(3)));
    if let (Some(import), Some(bytes)) = (import, bytes)
        && let Some(pull) = node(call)?.migrations.pull(import.job)
    {
        pull.note_applied(bytes);
    }
    Ok(())
}

/// CONF NODE-ID: the other end names itself.
fn introduce(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let words = words(call, 3);
    for pair in words.chunks(2) {
        let [option, value] = pair else { return arity(call) };
        if option.eq_ignore_ascii_case(b"node-id") {
            let shown = String::from_utf8_lossy(value);
            if value.len() != ID_BYTES {
                return Err(Error::Text(format!("ERR Invalid node id length {}", value.len())));
            }
            let id =
                NodeId::parse(value).filter(|id| node.read(|cluster| cluster.find(id.as_bytes())).is_some());
            let Some(id) = id else {
                return Err(Error::Text(format!("ERR Node {shown} not found in cluster")));
            };
            call.connection.session.peer.get_or_insert_default().id = Some(id);
        } else if !option.eq_ignore_ascii_case(b"capa") {
            return Err(Error::Text(format!("ERR Unknown option {}", String::from_utf8_lossy(option))));
        }
    }
    call.reply.ok();
    Ok(())
}

/// SYNC: the other end asks for slots.
fn sync(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let ranges = slot_ranges(call, 4)?;
    let Some(id) = NodeId::parse(call.arg(3)) else { return Err(Error::Fixed("ERR Invalid task id")) };
    let peer = call.connection.session.peer.as_deref().copied().unwrap_or_default();
    let Some(target) = peer.id.filter(|_| peer.export.is_none()) else { return Err(Error::Syntax) };
    let given = node
        .read(|cluster| node.migrate(|machine, now| machine.give_slots(now, cluster, id, target, ranges)));
    let job = given.map_err(reply_error)?;
    let shared = call.worker.shared;
    let feed = Arc::new(Feed::new(1, shared.engine.snapshot.hold(0), || shared.wake_feeders()));
    let writer = FeedWriter::new(feed.clone());
    if let Err(error) = node.migrations.add_export(job, call.connection.info.clone(), writer) {
        node.migrate(|machine, now| machine.fail(now, job, &error.to_string()));
    }
    bind(call, NodePeer { export: Some(job), ..peer });
    call.worker.feed_slots_to(call.connection, Taker::new(feed, 0));
    call.worker.follow_migrations();
    call.reply.simple("RDBCHANNELSYNCSLOTS");
    Ok(())
}

fn bind(call: &mut Call<'_>, peer: NodePeer) {
    call.connection.session.peer = Some(Box::new(peer));
}

/// RDBCHANNEL: this connection gets the snapshot. Its first line comes once that begins.
fn open_channel(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let Some(id) = NodeId::parse(call.arg(3)) else { return Err(Error::Fixed("ERR Invalid task id")) };
    let peer = call.connection.session.peer.as_deref().copied().unwrap_or_default();
    if peer.export.is_some() {
        return Err(Error::Syntax);
    }
    let job: JobId = node.migrate(|machine, now| machine.open_channel(now, id)).map_err(reply_error)?;
    if let Some(link) = node.migrations.export(job) {
        link.set_channel(call.connection.info.clone());
    }
    bind(call, NodePeer { export: Some(job), is_channel: true, ..peer });
    call.worker.follow_migrations();
    Ok(())
}

/// ACK: how far the other end is. It is not answered.
fn acknowledge(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let job = call.connection.session.peer.as_deref().and_then(|peer| peer.export);
    let (Some(job), Some(applied)) = (job, number(call.arg(4))) else { return Ok(()) };
    let is = |step: Step| call.arg(3).eq_ignore_ascii_case(step.name().as_bytes());
    if let Some(link) = node.migrations.export(job) {
        link.note_applied(applied);
    }
    match (is(Step::StreamingBuffer), is(Step::WaitStreamEof)) {
        (false, false) => node.migrate(|machine, now| machine.target_lives(now, job)),
        (_, has_drained) => node.migrate(|machine, now| machine.target_acked(now, job, has_drained)),
    }
    call.worker.follow_migrations();
    Ok(())
}
