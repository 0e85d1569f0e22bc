//! Consumer groups: XGROUP, XACK and XPENDING.

use martlet_protocol::reply::Reply;
use martlet_spec::{
    self as spec, Acl, Command, Error, Flags, KeyFlags, KeyPart, Outcome, Presentation, Tip, command,
    container,
};
use martlet_types::stream::{Group, Id, Log, Stream};

use super::{no_group, note_unwatched, parse_bound, parse_end, parse_id, parse_ids, parse_start, write_id};
use crate::Handler;
use crate::context::Context;

pub(super) static XGROUP: Command<Handler> =
    container("xgroup", -2, &[&CREATE, &CREATECONSUMER, &DELCONSUMER, &DESTROY, &HELP, &SETID]).doc(
        spec::Group::Stream,
        "5.0.0",
        "Depends on the subcommand",
        "Creates, changes and removes consumer groups.",
    );

const INSERTS: &[KeyPart] = &[KeyPart::one(2, KeyFlags::RW.with(KeyFlags::INSERT))];
const UPDATES: &[KeyPart] = &[KeyPart::one(2, KeyFlags::RW.with(KeyFlags::UPDATE))];
const DELETES: &[KeyPart] = &[KeyPart::one(2, KeyFlags::RW.with(KeyFlags::DELETE))];

const NO_KEY: Error = Error::Fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
     MKSTREAM option to create an empty stream automatically.",
);

/// A group or key that must be there and is not.
pub(super) fn no_key_or_group(key: &[u8], group: &[u8], after: &str) -> Error {
    Error::of_parts(&[b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'", after.as_bytes()])
}

/// Changes a group that there must be.
fn change_group<R>(ctx: &mut Context<'_>, change: impl FnOnce(&Log, &mut Group) -> R) -> Result<R, Error> {
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let mut stream = ctx.keys.write::<Stream>(&key)?.ok_or(NO_KEY)?;
    let (log, group) = stream.group_mut(name).ok_or_else(|| no_group(name, key.bytes))?;
    Ok(change(log, group))
}

/// Options of CREATE and SETID.
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

fn options(ctx: &Context<'_>, may_make_stream: bool) -> Result<Options, Error> {
    let mut options = Options { makes_stream: false, entries_read: None };
    let mut rest = ctx.rest(5);
    loop {
        if may_make_stream && rest.word("MKSTREAM") {
            options.makes_stream = true;
        } else if rest.option("ENTRIESREAD", 1) {
            options.entries_read = match rest.int()? {
                -1 => None,
                count => Some(
                    u64::try_from(count)
                        .map_err(|_| Error::Fixed("ERR value for ENTRIESREAD must be positive or -1"))?,
                ),
            };
        } else {
            rest.finish().map_err(|_| Error::subcommand_syntax(&ctx.args))?;
            return Ok(options);
        }
    }
}

/// No group has read more than was added; Valkey takes any number.
fn counted(log: &Log, entries_read: Option<u64>, presentation: Presentation) -> Option<u64> {
    let most = if presentation.is_valkey() { u64::MAX } else { log.entries_added() };
    entries_read.map(|read| read.min(most))
}

static CREATE: Command<Handler> = command("xgroup|create", -5, create as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(INSERTS)
    .acl(Acl::STREAM)
    .syntax(
        "key:k0 group id-selector(id|new-id:x=$) ?MKSTREAM \
         ?entriesread:i/entries-read=ENTRIESREAD",
    )
    .doc(spec::Group::Stream, "5.0.0", "O(1)", "Creates a consumer group.")
    .history(&[("7.0.0", "Argument `ENTRIESREAD`.")]);

fn create(ctx: &mut Context<'_>) -> Outcome {
    let Options { makes_stream, entries_read } = options(ctx, true)?;
    let (key, name, id) = (ctx.key(2), ctx.arg(3), ctx.arg(4));
    let argc = ctx.argc();
    let last_id = super::last_id(ctx.keys, &key)?;
    if last_id.is_none() && !makes_stream {
        return Err(NO_KEY);
    }
    if argc > 8 {
        return Err(Error::subcommand_syntax(&ctx.args));
    }
    let id = if id == b"$" { last_id.unwrap_or(Id::MIN) } else { parse_id(id, 0)? };
    let mut stream = ctx.keys.create::<Stream>(&key)?;
    let entries_read = counted(stream.log(), entries_read, ctx.settings.presentation);
    if last_id.is_none() {
        stream.set_default_idempotency_limits(ctx.settings.idempotency_limits);
    }
    if !stream.add_group(name, Group::new(id, entries_read)) {
        return Err(Error::Fixed("BUSYGROUP Consumer Group name already exists"));
    }
    drop(stream);
    ctx.reply.ok();
    if last_id.is_none() {
        ctx.keys.signal(&key);
    }
    note_unwatched(ctx.keys, &key, "xgroup-create");
    Ok(())
}

static SETID: Command<Handler> = command("xgroup|setid", -5, setid as Handler)
    .flags(Flags::WRITE)
    .keys(UPDATES)
    .acl(Acl::STREAM)
    .syntax("key:k0 group id-selector(id|new-id:x=$) ?entriesread:i/entries-read=ENTRIESREAD")
    .doc(spec::Group::Stream, "5.0.0", "O(1)", "Sets the last entry that a group has got.")
    .history(&[("7.0.0", "Argument `ENTRIESREAD`.")]);

fn setid(ctx: &mut Context<'_>) -> Outcome {
    let Options { entries_read, .. } = options(ctx, false)?;
    let (key, text, argc) = (ctx.key(2), ctx.arg(4), ctx.argc());
    let presentation = ctx.settings.presentation;
    let outcome = change_group(ctx, |log, group| {
        if argc > 7 {
            return Ok(false);
        }
        group.last_id = if text == b"$" { log.last_id() } else { parse_bound(text, 0)? };
        group.entries_read = counted(log, entries_read, presentation);
        Ok::<bool, Error>(true)
    })??;
    if !outcome {
        return Err(Error::subcommand_syntax(&ctx.args));
    }
    ctx.reply.ok();
    note_unwatched(ctx.keys, &key, "xgroup-setid");
    Ok(())
}

static DESTROY: Command<Handler> = command("xgroup|destroy", 4, destroy as Handler)
    .flags(Flags::WRITE)
    .keys(DELETES)
    .acl(Acl::STREAM)
    .syntax("key:k0 group")
    .doc(
        spec::Group::Stream,
        "5.0.0",
        "O(N), N being the number of entries that are not acknowledged",
        "Removes a consumer group.",
    );

fn destroy(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let mut stream = ctx.keys.write::<Stream>(&key)?.ok_or(NO_KEY)?;
    let removed = stream.remove_group(name);
    drop(stream);
    ctx.reply.int(i64::from(removed));
    if removed {
        // Its consumers wait in vain.
        ctx.keys.wake_waiters(&key);
        note_unwatched(ctx.keys, &key, "xgroup-destroy");
    }
    Ok(())
}

static CREATECONSUMER: Command<Handler> = command("xgroup|createconsumer", 5, createconsumer as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(INSERTS)
    // It has been seen when it comes.
    .relative_time_if(|_| true)
    .acl(Acl::STREAM)
    .syntax("key:k0 group consumer")
    .doc(spec::Group::Stream, "6.2.0", "O(1)", "Adds a consumer to a group.");

fn createconsumer(ctx: &mut Context<'_>) -> Outcome {
    let (key, consumer, now_ms) = (ctx.key(2), ctx.arg(4), ctx.keys.now_ms());
    let is_new = change_group(ctx, |_, group| {
        let is_new = group.number_of(consumer).is_none();
        group.add_consumer(consumer, now_ms);
        is_new
    })?;
    ctx.reply.int(i64::from(is_new));
    if is_new {
        note_unwatched(ctx.keys, &key, "xgroup-createconsumer");
    }
    Ok(())
}

static DELCONSUMER: Command<Handler> = command("xgroup|delconsumer", 5, delconsumer as Handler)
    .flags(Flags::WRITE)
    .keys(DELETES)
    .acl(Acl::STREAM)
    .syntax("key:k0 group consumer")
    .doc(
        spec::Group::Stream,
        "5.0.0",
        "O(N), N being the number of its entries that are not acknowledged",
        "Removes a consumer from a group, and with it the entries that it has not acknowledged.",
    );

fn delconsumer(ctx: &mut Context<'_>) -> Outcome {
    let (key, consumer) = (ctx.key(2), ctx.arg(4));
    let pending = change_group(ctx, |_, group| group.remove_consumer(consumer))?;
    ctx.reply.count(pending.unwrap_or(0));
    if pending.is_some() {
        note_unwatched(ctx.keys, &key, "xgroup-delconsumer");
    }
    Ok(())
}

static HELP: Command<Handler> = command("xgroup|help", 2, help as Handler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .acl(Acl::STREAM)
    .doc(spec::Group::Stream, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(ctx: &mut Context<'_>) -> Outcome {
    super::write_help(
        ctx,
        &[
            "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a consumer group. Options are:",
            "    * MKSTREAM",
            "      Create an empty stream if there is none.",
            "    * ENTRIESREAD entries_read",
            "      How many entries the group has read (for files and replicas).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Add a consumer to a group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove a consumer.",
            "DESTROY <key> <groupname>",
            "    Remove a group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the last entry that a group has got.",
            "HELP",
            "    Print this help.",
        ],
    )
}

pub(super) static XACK: Command<Handler> = command("xack", -4, xack as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 group *id")
    .doc(
        spec::Group::Stream,
        "5.0.0",
        "O(log N) for each entry, N being the number of those not acknowledged",
        "Acknowledges entries that a group's consumers have got, and returns how many these were.",
    );

fn xack(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    if ctx.keys.read::<Stream>(&key)?.and_then(|stream| stream.group(name)).is_none() {
        ctx.reply.int(0);
        return Ok(());
    }
    let ids = parse_ids(ctx, 3)?;
    let stream = ctx.keys.write::<Stream>(&key)?;
    let acknowledged = stream.map_or(0, |mut stream| acknowledge(&mut stream, name, &ids));
    ctx.keys.dirty += acknowledged as u64;
    ctx.reply.count(acknowledged);
    Ok(())
}

/// Acknowledges entries; how many were pending. Nothing is copied if none was.
pub(super) fn acknowledge(stream: &mut Stream, name: &[u8], ids: &[Id]) -> usize {
    let is_pending = |group: &Group| ids.iter().any(|&id| group.pending(id).is_some());
    if !stream.group(name).is_some_and(is_pending) {
        return 0;
    }
    let group = stream.group_mut(name);
    group.map_or(0, |(_, group)| ids.iter().filter(|&&id| group.acknowledge(id).is_some()).count())
}

pub(super) static XPENDING: Command<Handler> = command("xpending", -3, xpending as Handler)
    .flags(Flags::READONLY)
    .keys(&[super::READS])
    .acl(Acl::STREAM)
    .syntax("key:k0 group ?filters(?min-idle-time:i=IDLE^6.2.0 start end count:i ?consumer)")
    .doc(
        spec::Group::Stream,
        "5.0.0",
        "O(N), N being the number of consumers, or that of entries looked at",
        "Lists the entries that a group's consumers have received and not acknowledged.",
    )
    .history(&[("6.2.0", "Option `IDLE`, and exclusive bounds.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// What of the pending entries is asked for.
struct Filter<'a> {
    idle_min_ms: i64,
    start: Id,
    end: Id,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(ctx: &Context<'a>) -> Result<Option<Filter<'a>>, Error> {
        let argc = ctx.argc();
        if argc == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&argc) {
            return Err(Error::Syntax);
        }
        let (mut rest, mut idle_min_ms) = (ctx.rest(3), 0);
        if rest.word("IDLE") {
            idle_min_ms = rest.int()?;
            if rest.left() < 3 {
                return Err(Error::Syntax);
            }
        }
        let (start, end) = (rest.value()?, rest.value()?);
        let count = usize::try_from(rest.int()?).unwrap_or(0);
        let (start, end) = (parse_start(start)?, parse_end(end)?);
        let consumer = rest.peek();
        Ok(Some(Filter { idle_min_ms, start, end, count, consumer }))
    }

    fn write(&self, reply: &mut Reply, group: &Group, now_ms: i64) {
        let number = self.consumer.map(|name| group.number_of(name));
        let Some(number) = number.map_or(Some(None), |number| number.map(Some)) else {
            // No consumer has this name.
            return reply.array(0);
        };
        let ids: Box<dyn Iterator<Item = Id>> = match number.and_then(|number| group.consumer(number)) {
            Some(consumer) => Box::new(consumer.pending_from(self.start)),
            None => Box::new(group.pending_from(self.start).map(|(id, _)| id)),
        };
        let place = reply.defer();
        let mut written = 0;
        for id in ids.take_while(|id| *id <= self.end) {
            if written == self.count || reply.is_full() {
                break;
            }
            let Some(pending) = group.pending(id) else { continue };
            let idle_ms = pending.idle_ms(now_ms);
            if self.idle_min_ms != 0 && idle_ms.is_some_and(|idle_ms| idle_ms < self.idle_min_ms) {
                continue;
            }
            reply.array(4);
            write_id(reply, id);
            reply.bulk(super::owner_name(group, pending));
            reply.int(idle_ms.map_or(-1, |idle_ms| idle_ms.max(0)));
            reply.int(pending.deliveries as i64);
            written += 1;
        }
        reply.close_array(place, written);
    }
}

fn xpending(ctx: &mut Context<'_>) -> Outcome {
    let filter = Filter::parse(ctx)?;
    let (key, name, now_ms) = (ctx.key(1), ctx.arg(2), ctx.keys.now_ms());
    let Context { keys, reply, .. } = ctx;
    let group = keys.read::<Stream>(&key)?.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key.bytes, name, ""))?;
    match filter {
        Some(filter) => filter.write(reply, group, now_ms),
        None => write_summary(reply, group),
    }
    Ok(())
}

fn write_summary(reply: &mut Reply, group: &Group) {
    reply.array(4);
    reply.count(group.pending_count());
    let (first, last) = (group.pending_from(Id::MIN).next(), group.last_pending());
    let (Some((first, _)), Some(last)) = (first, last) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    write_id(reply, first);
    write_id(reply, last);
    let place = reply.defer();
    let mut written = 0;
    for (_, consumer) in group.consumers().filter(|(_, consumer)| consumer.pending_count() > 0) {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_int(consumer.pending_count() as i64);
        written += 1;
    }
    reply.close_array(place, written);
}
