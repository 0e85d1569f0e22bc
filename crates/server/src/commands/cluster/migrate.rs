//! CLUSTER's subcommands of atomic slot migration, as in Valkey 9: MIGRATESLOTS and its kin for operators,
//! SYNCSLOTS for nodes.

use martlet_cluster::slot_migration::{Message, Operation, parse_establish, parse_finish, parse_requests};
use martlet_command::{Control, Databases, Error, Flags, Group, Outcome, Tip, command};
use martlet_protocol::reply::Reply;

use super::super::{Call, ServerCommand, ServerHandler};
use super::{ADMIN, CHANGE, migration, node, reply_error, text, words};
use crate::runtime::request_flags::is_from_primary;

pub(super) static MIGRATESLOTS: ServerCommand = command(
    "cluster|migrateslots",
    -4,
    migrateslots as ServerHandler,
)
.flags(CHANGE)
.databases(Databases::All)
.syntax(
    "*migration-group(slotsrange-token:x=SLOTSRANGE *range(start-slot:i end-slot:i) node-token:x=NODE \
             node-id)",
)
.doc(
    Group::Cluster,
    "9.0.0",
    "O(N) where N is the total number of the slots between all start slot and end slot arguments.",
    "Moves slots of this node to others, each group at once.",
);

fn migrateslots(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let words = words(call, 2);
    let requests = node.read(|cluster| {
        let me = cluster.myself().id;
        node.migrate(|machine, now| {
            let requests = parse_requests(cluster, machine, &words)?;
            for request in requests {
                machine.export(now, (me, request.target), request.ranges);
            }
            Ok(())
        })
    });
    requests.map_err(reply_error)?;
    call.worker.follow_migrations();
    call.reply.ok();
    Ok(())
}

pub(super) static CANCELSLOTMIGRATIONS: ServerCommand =
    command("cluster|cancelslotmigrations", 2, cancelslotmigrations as ServerHandler)
        .flags(CHANGE)
        .databases(Databases::All)
        .doc(
            Group::Cluster,
            "9.0.0",
            "O(N), where N is the number of slot migration operations being cancelled.",
            "Ends all slot migrations from this node.",
        );

fn cancelslotmigrations(call: &mut Call<'_>) -> Outcome {
    if !node(call)?.migrate(|machine, now| machine.cancel(now)) {
        return Err(Error::Fixed("ERR No migrations ongoing"));
    }
    call.worker.follow_migrations();
    call.reply.ok();
    Ok(())
}

pub(super) static GETSLOTMIGRATIONS: ServerCommand =
    command("cluster|getslotmigrations", 2, getslotmigrations as ServerHandler).flags(ADMIN).doc(
        Group::Cluster,
        "9.0.0",
        "O(N), where N is the number of active slot import and export jobs.",
        "Lists slot migrations that are under way or ended lately.",
    );

fn getslotmigrations(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let jobs: Vec<_> =
        node.migrate(|machine, _| machine.jobs().filter(|job| !job.is_attempt).cloned().collect());
    let end = call.worker.shared.engine.journal.stream_end().offset;
    call.reply.array(jobs.len());
    for job in jobs {
        let reply = &mut *call.reply;
        reply.map(if job.is_tracking_only() { 10 } else { 12 });
        text(reply, "name", job.name.as_str());
        text(reply, "operation", if job.operation == Operation::Import { "IMPORT" } else { "EXPORT" });
        text(reply, "slot_ranges", &job.ranges_text());
        if let Some((source, target)) = job.nodes {
            text(reply, "target_node", target.as_str());
            text(reply, "source_node", source.as_str());
        }
        number(reply, "create_time", job.created_s);
        number(reply, "last_update_time", job.updated_s);
        number(reply, "last_ack_time", job.acked_s);
        text(reply, "state", job.state.name());
        text(reply, "message", job.message.as_deref().unwrap_or_default());
        // Nothing is forked, and so nothing is copied.
        number(reply, "cow_size", 0);
        number(reply, "remaining_repl_size", node.migrations.unsent_bytes(job.id, end) as i64);
    }
    Ok(())
}

fn number(reply: &mut Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}

pub(super) static SYNCSLOTS: ServerCommand = command("cluster|syncslots", -3, syncslots as ServerHandler)
    .flags(CHANGE.with(Flags::SYSTEM))
    .control(Control::TrackSlots)
    .syntax("message ?*argument")
    .doc(Group::Cluster, "8.4.0", "Depends on subcommand.", "Messages between the ends of a slot migration.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn syncslots(call: &mut Call<'_>) -> Outcome {
    node(call)?;
    let word = call.arg(2);
    let is = |other: &[u8]| word.eq_ignore_ascii_case(other);
    if is(b"establish") {
        return establish(call);
    }
    if is(b"finish") {
        return finish(call);
    }
    if let Some(done) = migration::message(call) {
        return done;
    }
    // The rest concerns a primary alone.
    if is_from_primary(call.connection) || is(b"capa") {
        return Ok(());
    }
    let message = Message::named(call.arg(2));
    let Some(import) = call.connection.session.import else {
        return Err(match message {
            Message::Unknown => Error::Syntax,
            _ => Error::Text(format!(
                "ERR CLUSTER SYNCSLOTS {} should only be used by slot migration clients",
                message.name()
            )),
        });
    };
    node(call)?.migrate(|machine, now| machine.hear(now, import.job, message));
    call.worker.follow_migrations();
    Ok(())
}

fn establish(call: &mut Call<'_>) -> Outcome {
    let node = node(call)?;
    let (is_told, words) = (is_from_primary(call.connection), words(call, 3));
    let job = node.read(|cluster| {
        node.migrate(|machine, now| {
            let asked = parse_establish(cluster, machine, &words, is_told)?;
            if is_told && machine.knows_import(asked.name) {
                return Ok(None);
            }
            let nodes = asked.source.map(|source| (source, cluster.myself().id));
            Ok(Some(machine.import(now, asked.name, nodes, asked.ranges)))
        })
    });
    if let Some(job) = job.map_err(reply_error)? {
        if !is_told {
            call.worker.become_import(call.connection, job);
        }
        let all: Vec<&[u8]> = call.args.iter().collect();
        call.worker.record_import(&all);
    }
    call.worker.follow_migrations();
    call.reply.ok();
    Ok(())
}

fn finish(call: &mut Call<'_>) -> Outcome {
    let words = words(call, 3);
    let told_end = node(call)?.migrate(|machine, now| {
        let finish = parse_finish(&words, |name| machine.jobs().any(|job| job.name == name))?;
        machine.end_told(now, &finish);
        Ok(())
    });
    told_end.map_err(reply_error)?;
    if is_from_primary(call.connection) {
        let all: Vec<&[u8]> = call.args.iter().collect();
        call.worker.record_import(&all);
    }
    call.worker.follow_migrations();
    call.reply.ok();
    Ok(())
}
