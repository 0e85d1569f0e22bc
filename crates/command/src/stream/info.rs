//! XINFO: facts about a stream, its groups and their consumers.

use martlet_protocol::reply::Reply;
use martlet_spec::{
    self as spec, Acl, Command, Error, Flags, KeyFlags, KeyPart, Outcome, Presentation, Tip, command,
    container,
};
use martlet_types::stream::{Group, Id, Idempotency, Log, Pending, Stream};

use super::{write_entries, write_entry, write_id};
use crate::Handler;
use crate::context::Context;

pub(super) static XINFO: Command<Handler> = container("xinfo", -2, &[&CONSUMERS, &GROUPS, &HELP, &STREAM])
    .doc(spec::Group::Stream, "5.0.0", "Depends on the subcommand", "Inspects streams and their groups.");

const KEYS: &[KeyPart] = &[KeyPart::one(2, KeyFlags::RO.with(KeyFlags::ACCESS))];
/// Entries that FULL shows of a stream, a group and a consumer, by default.
const FULL_COUNT: u64 = 10;

/// The stream that is asked about.
fn stream_of<'a>(ctx: &'a mut Context<'_>) -> Result<(&'a Stream, &'a mut Reply), Error> {
    let key = ctx.key(2);
    let Context { keys, reply, .. } = ctx;
    let stream = keys.read::<Stream>(&key)?.ok_or(Error::NoSuchKey)?;
    Ok((stream, reply))
}

static STREAM: Command<Handler> =
    command("xinfo|stream", -3, stream as Handler).flags(Flags::READONLY).keys(KEYS).acl(Acl::STREAM)
    .syntax("key:k0 ?full-block(FULL ?count:i=COUNT)").doc(
        spec::Group::Stream,
        "5.0.0",
        "O(1); with FULL O(N), N being the number of entries shown",
        "Returns the properties of a stream.",
    )
    .history(&[("6.0.0", "Modifier `FULL`."),
            (
                "7.0.0",
                "Fields `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`.",
            ),
            ("7.2.0", "Field `active-time`."),
            (
                "8.6.0",
                "Fields `idmp-duration`, `idmp-maxsize`, `pids-tracked`, `iids-tracked`, `iids-added` and \
                 `iids-duplicates`.",
            ),
            ("8.8.0", "Field `nacked-count`.")]);

/// How many entries FULL is to show, if it is asked for.
fn parse_full(ctx: &Context<'_>) -> Result<Option<u64>, Error> {
    let (mut rest, mut full) = (ctx.rest(3), None);
    if rest.word("FULL") {
        full = Some(FULL_COUNT);
        if rest.option("COUNT", 1) {
            full = Some(u64::try_from(rest.int()?).unwrap_or(FULL_COUNT));
        }
    }
    rest.finish().map_err(|_| Error::subcommand_syntax(&ctx.args))?;
    Ok(full)
}

fn stream(ctx: &mut Context<'_>) -> Outcome {
    let full = parse_full(ctx);
    let presentation = ctx.settings.presentation;
    let (stream, reply) = stream_of(ctx)?;
    // A wrong option is reported only where there is a stream.
    let full = full?;
    let log = stream.log();
    let shows_producers = !presentation.is_valkey();
    reply.map(if full.is_some() { 9 } else { 10 } + if shows_producers { PRODUCER_FIELDS } else { 0 });
    pair(reply, "length", log.len());
    pair(reply, "radix-tree-keys", log.node_count() as u64);
    // One for each node besides the root: where ids part is not counted.
    pair(reply, "radix-tree-nodes", log.node_count() as u64 + 1);
    id_pair(reply, "last-generated-id", log.last_id());
    id_pair(reply, "max-deleted-entry-id", log.max_deleted_id());
    pair(reply, "entries-added", log.entries_added());
    id_pair(reply, "recorded-first-entry-id", log.first_id());
    if shows_producers {
        write_idempotency(reply, stream);
    }
    match full {
        None => {
            pair(reply, "groups", stream.group_count() as u64);
            for (name, entry) in
                [("first-entry", log.range(Id::MIN, Id::MAX).next()), ("last-entry", log.last_entry())]
            {
                reply.bulk(name.as_bytes());
                match entry {
                    Some(entry) => write_entry(reply, entry),
                    None => reply.null(),
                }
            }
        }
        Some(count) => {
            let count = Some(count).filter(|&count| count > 0);
            reply.bulk(b"entries");
            write_entries(reply, log.range(Id::MIN, Id::MAX), count);
            reply.bulk(b"groups");
            reply.array(stream.group_count());
            for (name, group) in stream.groups() {
                write_full_group(
                    reply,
                    name,
                    group,
                    log,
                    count.map_or(usize::MAX, |count| count as usize),
                    presentation,
                );
            }
        }
    }
    Ok(())
}

/// Fields that [`write_idempotency`] writes. Valkey has no such records.
const PRODUCER_FIELDS: usize = 6;

/// The stream's records of its producers.
fn write_idempotency(reply: &mut Reply, stream: &Stream) {
    let (limits, table) = (stream.idempotency_limits(), stream.idempotency());
    let count = |of: fn(&Idempotency) -> u64| table.map_or(0, of);
    pair(reply, "idmp-duration", u64::from(limits.duration_s));
    pair(reply, "idmp-maxsize", u64::from(limits.max_records));
    pair(reply, "pids-tracked", count(|table| table.producer_count() as u64));
    pair(reply, "iids-tracked", count(|table| table.record_count() as u64));
    pair(reply, "iids-added", count(|table| table.added));
    pair(reply, "iids-duplicates", count(|table| table.duplicates));
}

fn pair(reply: &mut Reply, name: &str, value: u64) {
    reply.bulk(name.as_bytes());
    reply.int(value as i64);
}

fn id_pair(reply: &mut Reply, name: &str, id: Id) {
    reply.bulk(name.as_bytes());
    write_id(reply, id);
}

fn name_pair(reply: &mut Reply, name: &[u8]) {
    reply.bulk(b"name");
    reply.bulk(name);
}

/// How far a group has read, and how much is left.
fn write_progress(reply: &mut Reply, group: &Group, log: &Log, presentation: Presentation) {
    for (name, value) in [("entries-read", group.entries_read), ("lag", lag(group, log, presentation))] {
        reply.bulk(name.as_bytes());
        match value {
            Some(value) => reply.int(value as i64),
            None => reply.null(),
        }
    }
}

/// How many entries a group has still to read, where that is known. Redis sees before all else that none of
/// those that are there was read.
fn lag(group: &Group, log: &Log, presentation: Presentation) -> Option<u64> {
    if log.entries_added() == 0 || log.is_empty() {
        return Some(0);
    }
    let first = log.first_id();
    if !presentation.is_valkey() && group.last_id < first && log.max_deleted_id() < first {
        return Some(log.len());
    }
    // Valkey looks at deleted entries alone, Redis at trimmed ones, too.
    let max_deleted = log.max_deleted_id();
    let is_known = match presentation {
        Presentation::Redis => log.is_whole_from(group.last_id),
        Presentation::Valkey { .. } => max_deleted == Id::MIN || group.last_id > max_deleted,
    };
    let known = group.entries_read.filter(|_| is_known);
    let read = known.or_else(|| log.entries_up_to(group.last_id))?;
    Some(log.entries_added().wrapping_sub(read))
}

fn write_full_group(
    reply: &mut Reply,
    name: &[u8],
    group: &Group,
    log: &Log,
    count: usize,
    presentation: Presentation,
) {
    reply.map(7 + usize::from(!presentation.is_valkey()));
    name_pair(reply, name);
    id_pair(reply, "last-delivered-id", group.last_id);
    write_progress(reply, group, log, presentation);
    pair(reply, "pel-count", group.pending_count() as u64);
    if !presentation.is_valkey() {
        pair(reply, "nacked-count", group.released_count() as u64);
    }
    reply.bulk(b"pending");
    reply.array(group.pending_count().min(count));
    for (id, pending) in group.pending_from(Id::MIN).take(count) {
        reply.array(4);
        write_id(reply, id);
        reply.bulk(super::owner_name(group, pending));
        write_delivery(reply, pending);
    }
    reply.bulk(b"consumers");
    reply.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        reply.map(5);
        name_pair(reply, consumer.name());
        pair(reply, "seen-time", consumer.seen_ms as u64);
        pair(reply, "active-time", consumer.active_ms as u64);
        pair(reply, "pel-count", consumer.pending_count() as u64);
        reply.bulk(b"pending");
        reply.array(consumer.pending_count().min(count));
        for id in consumer.pending_from(Id::MIN).take(count) {
            reply.array(3);
            write_id(reply, id);
            if let Some(pending) = group.pending(id) {
                write_delivery(reply, pending);
            }
        }
    }
}

fn write_delivery(reply: &mut Reply, pending: &Pending) {
    reply.int(pending.delivered_ms);
    reply.int(pending.deliveries as i64);
}

static GROUPS: Command<Handler> = command("xinfo|groups", 3, groups as Handler)
    .flags(Flags::READONLY)
    .keys(KEYS)
    .acl(Acl::STREAM)
    .syntax("key:k0")
    .doc(spec::Group::Stream, "5.0.0", "O(N), N being the number of groups", "Lists a stream's groups.")
    .history(&[("7.0.0", "Fields `entries-read` and `lag`.")]);

fn groups(ctx: &mut Context<'_>) -> Outcome {
    let presentation = ctx.settings.presentation;
    let (stream, reply) = stream_of(ctx)?;
    reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        reply.map(6);
        name_pair(reply, name);
        pair(reply, "consumers", group.consumer_count() as u64);
        pair(reply, "pending", group.pending_count() as u64);
        id_pair(reply, "last-delivered-id", group.last_id);
        write_progress(reply, group, stream.log(), presentation);
    }
    Ok(())
}

static CONSUMERS: Command<Handler> = command("xinfo|consumers", 4, consumers as Handler)
    .flags(Flags::READONLY)
    .keys(KEYS)
    .acl(Acl::STREAM)
    .syntax("key:k0 group")
    .doc(spec::Group::Stream, "5.0.0", "O(N), N being the number of consumers", "Lists a group's consumers.")
    .history(&[("7.2.0", "Field `inactive`.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn consumers(ctx: &mut Context<'_>) -> Outcome {
    let (now_ms, args) = (ctx.keys.now_ms(), ctx.args);
    let (stream, reply) = stream_of(ctx)?;
    let group = stream.group(args.at(3)).ok_or_else(|| super::no_group(args.at(3), args.at(2)))?;
    reply.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        reply.map(4);
        name_pair(reply, consumer.name());
        pair(reply, "pending", consumer.pending_count() as u64);
        pair(reply, "idle", now_ms.saturating_sub(consumer.seen_ms).max(0) as u64);
        reply.bulk(b"inactive");
        reply.int(if consumer.active_ms == -1 { -1 } else { now_ms.saturating_sub(consumer.active_ms) });
    }
    Ok(())
}

static HELP: Command<Handler> = command("xinfo|help", 2, help as Handler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .acl(Acl::STREAM)
    .doc(spec::Group::Stream, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(ctx: &mut Context<'_>) -> Outcome {
    super::write_help(
        ctx,
        &[
            "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CONSUMERS <key> <groupname>",
            "    List the consumers of a group.",
            "GROUPS <key>",
            "    List the groups of a stream.",
            "STREAM <key> [FULL [COUNT <count>]]",
            "    Tell about a stream; with FULL about its groups and some entries, too.",
            "HELP",
            "    Print this help.",
        ],
    )
}
