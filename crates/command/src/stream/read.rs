//! XREAD and XREADGROUP: new entries of several streams, for which a client may wait.
//!
//! A client that waits has its request run anew when one of the keys has changed, so `$` is replaced by the
//! id that it stands for as soon as it waits. What XREADGROUP does is recorded as XCLAIM and XGROUP.

use martlet_base::number::parse_i64;
use martlet_engine::Awaited;
use martlet_keyspace::{Key, Object};
use martlet_protocol::reply::Reply;
use martlet_types::stream::{Entry, Id, Log, Pending, Stream};

use super::claim::{Claimed, record_claims, record_consumer, record_progress};
use super::group::{no_key_or_group, note_group};
use super::{IdText, parse_id, write_entries, write_entry, write_id};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};
use crate::cursor::Cursor;
use crate::error::{Error, Outcome};
use crate::spec::{Acl, Begin, Command, Find, Flags, Group, KeyFlags, KeyPart, command};

const COMPLEXITY: &str = "O(M) for each stream, M being the number of entries returned";

/// From which entry on a stream is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Behind this one.
    After(Id),
    /// Behind the last one that the group has got.
    New,
}

/// What is asked for.
struct Request<'a> {
    count: Option<u64>,
    /// When to give up waiting; `None` not to wait.
    deadline_ms: Option<Option<i64>>,
    /// Group and consumer.
    reader: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// The argument that is the first key.
    first: usize,
    streams: usize,
}

/// A timeout in milliseconds as a deadline.
fn deadline_ms(timeout: &[u8], now_ms: i64) -> Result<Option<i64>, Error> {
    const BAD: Error = Error::Fixed("ERR timeout is not an integer or out of range");
    let timeout_ms = parse_i64(timeout).ok_or(BAD)?;
    if timeout_ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let deadline = timeout_ms.checked_add(now_ms);
    let deadline = deadline.ok_or(Error::Fixed("ERR timeout is out of range"))?;
    Ok((timeout_ms > 0).then_some(deadline))
}

impl<'a> Request<'a> {
    fn parse(ctx: &Context<'a>, for_group: bool) -> Result<Request<'a>, Error> {
        let none =
            Request { count: None, deadline_ms: None, reader: None, no_ack: false, first: 0, streams: 0 };
        let (mut request, mut rest) = (none, ctx.rest(1));
        loop {
            if rest.option("BLOCK", 1) {
                request.deadline_ms = Some(deadline_ms(rest.value()?, ctx.keys.now_ms)?);
            } else if rest.option("COUNT", 1) {
                request.count = u64::try_from(rest.int()?).ok().filter(|&count| count > 0);
            } else if rest.option("STREAMS", 1) {
                if rest.left() % 2 == 1 {
                    return Err(unbalanced(for_group));
                }
                (request.first, request.streams) = (rest.index(), rest.left() / 2);
                break;
            } else if rest.option("GROUP", 2) {
                if !for_group {
                    return Err(only_for_groups("GROUP"));
                }
                request.reader = Some((rest.value()?, rest.value()?));
            } else if rest.word("NOACK") {
                if !for_group {
                    return Err(only_for_groups("NOACK"));
                }
                request.no_ack = true;
            } else {
                break rest.finish()?;
            }
        }
        if request.streams == 0 {
            return Err(Error::Syntax);
        }
        if for_group && request.reader.is_none() {
            return Err(Error::Fixed("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(request)
    }

    /// Where each stream is to be read from; its key and type, and its group, are looked at before the id.
    fn positions(&self, ctx: &mut Context<'a>) -> Result<Vec<Position>, Error> {
        let keys = self.first..self.first + self.streams;
        keys.map(|at| {
            let (key, text) = (ctx.key(at), ctx.arg(at + self.streams));
            let stream = ctx.keys.read::<Stream>(&key)?;
            if let Some((group, _)) = self.reader
                && stream.is_none_or(|stream| stream.group(group).is_none())
            {
                return Err(no_key_or_group(key.bytes, group, " in XREADGROUP with GROUP option"));
            }
            position(text, stream.map(Stream::log), self.reader.is_some())
        })
        .collect()
    }
}

fn unbalanced(for_group: bool) -> Error {
    let (command, what) = if for_group { ("xreadgroup", "ID or '>'") } else { ("xread", "ID, '+', or '$'") };
    Error::Text(format!(
        "ERR Unbalanced '{command}' list of streams: for each stream key an {what} must be specified."
    ))
}

fn only_for_groups(option: &str) -> Error {
    Error::Text(format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."))
}

fn position(text: &[u8], log: Option<&Log>, for_group: bool) -> Result<Position, Error> {
    let meaningless = |id: &str| {
        Err(Error::Text(format!(
            "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history of this \
             consumer by specifying a proper ID, or use the > ID to get new messages. The {id} ID would just return \
             an empty result set."
        )))
    };
    let last_id = log.map_or(Id::MIN, Log::last_id);
    match text {
        b"$" if for_group => meaningless("$"),
        b"+" if for_group => meaningless("+"),
        b"$" => Ok(Position::After(last_id)),
        b"+" => {
            let last = log.and_then(Log::last_entry).and_then(|entry| entry.id.previous());
            Ok(Position::After(last.unwrap_or(last_id)))
        }
        b">" if for_group => Ok(Position::New),
        b">" => Err(Error::Fixed(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> \
             option.",
        )),
        _ => parse_id(text, 0).map(Position::After),
    }
}

/// The entries behind an id, if there are any.
fn entries_after(log: &Log, id: Id) -> Option<impl Iterator<Item = Entry<'_>>> {
    let start = id.next().filter(|_| id < log.last_id())?;
    let mut entries = log.range(start, Id::MAX).peekable();
    entries.peek().is_some().then_some(entries)
}

pub(super) static XREAD: Command<Handler> = command("xread", -4, xread as Handler)
    .flags(Flags::READONLY.with(Flags::BLOCKING))
    .keys(&[KeyPart::new(
        Begin::FirstKeyword("STREAMS", 1),
        Find::Range { last: -1, step: 1, limit: 2 },
        KeyFlags::RO.with(KeyFlags::ACCESS),
    )])
    .find_keys(find_keys)
    .acl(Acl::STREAM)
    .syntax("?count:i=COUNT ?milliseconds:i=BLOCK streams=STREAMS(*key:k0 *id)")
    .doc(
        Group::Stream,
        "5.0.0",
        COMPLEXITY,
        "Returns the entries of several streams behind an id each, or waits until there is one.",
    );

fn xread(ctx: &mut Context<'_>) -> Outcome {
    let request = Request::parse(ctx, false)?;
    let positions = request.positions(ctx)?;
    let mut answer = Answer::default();
    for (index, &position) in positions.iter().enumerate() {
        let key = ctx.key(request.first + index);
        let Some(stream) = ctx.keys.get(&key).and_then(|entry| entry.object::<Stream>()) else { continue };
        let Position::After(id) = position else { continue };
        if let Some(entries) = entries_after(stream.log(), id) {
            answer.begin(ctx.reply, &key);
            write_entries(ctx.reply, entries, request.count);
        }
    }
    if answer.finish(ctx.reply) {
        return Ok(());
    }
    let resolved = positions.iter().enumerate().filter_map(|(index, &position)| {
        let at = request.first + request.streams + index;
        match position {
            Position::After(id) if ctx.arg(at) == b"$" => Some((at, IdText::new(id).as_ref().to_vec())),
            _ => None,
        }
    });
    let resolved = resolved.collect();
    wait(ctx, &request, resolved, false)
}

/// Streams and their entries as they are answered: pairs in an array, or a map.
#[derive(Default)]
struct Answer {
    place: Option<martlet_protocol::reply::Deferred>,
    streams: usize,
}

impl Answer {
    fn begin(&mut self, reply: &mut Reply, key: &Key<'_>) {
        if self.place.is_none() {
            self.place = Some(reply.defer());
        }
        self.streams += 1;
        if !reply.is_resp3() {
            reply.array(2);
        }
        reply.bulk(key.bytes);
    }

    /// Whether there was anything to answer.
    fn finish(self, reply: &mut Reply) -> bool {
        let Some(place) = self.place else { return false };
        if reply.is_resp3() {
            reply.close_map(place, self.streams);
        } else {
            reply.close_array(place, self.streams);
        }
        true
    }
}

/// Waits for a change of the keys, if that was asked for, or answers that there is nothing.
fn wait(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    resolved: Vec<(usize, Vec<u8>)>,
    until_removed: bool,
) -> Outcome {
    let on_timeout = TimeoutReply::NullArray;
    let Some(deadline_ms) = request.deadline_ms else {
        on_timeout.write(ctx.reply, |_| (false, 0));
        return Ok(());
    };
    let key_indexes = (request.first..request.first + request.streams).collect();
    let wait = Wait::Keys(key_indexes, Awaited { kind: Stream::KIND, until_removed });
    ctx.block_on(Block { wait, resolved, deadline_ms, on_timeout })
}

/// The keys behind STREAMS: the first half of what follows.
fn find_keys(args: &martlet_protocol::request::Args<'_>, out: &mut Vec<usize>) -> bool {
    let mut rest = Cursor::new(*args, 1);
    while let Some(operands) = rest.one_of(&[("BLOCK", 1), ("COUNT", 1), ("GROUP", 2), ("NOACK", 0)]) {
        rest.skip(operands);
    }
    if !rest.word("STREAMS") {
        return false;
    }
    let words = rest.left();
    out.extend(rest.index()..rest.index() + words / 2);
    words > 0 && words.is_multiple_of(2)
}

pub(super) static XREADGROUP: Command<Handler> = command("xreadgroup", -7, xreadgroup as Handler)
    .flags(Flags::WRITE.with(Flags::BLOCKING))
    .keys(&[KeyPart::new(
        Begin::FirstKeyword("STREAMS", 4),
        Find::Range { last: -1, step: 1, limit: 2 },
        KeyFlags::RO.with(KeyFlags::ACCESS),
    )])
    .find_keys(find_keys)
    .acl(Acl::STREAM)
    .syntax(
        "group-block=GROUP(group consumer) ?count:i=COUNT ?milliseconds:i=BLOCK ?NOACK \
         streams=STREAMS(*key:k0 *id)",
    )
    .doc(
        Group::Stream,
        "5.0.0",
        COMPLEXITY,
        "Returns the entries of several streams that a group has not got, or those that a consumer has not \
         acknowledged.",
    );

fn xreadgroup(ctx: &mut Context<'_>) -> Outcome {
    let request = Request::parse(ctx, true)?;
    let positions = request.positions(ctx)?;
    let mut answer = Answer::default();
    for (index, &position) in positions.iter().enumerate() {
        let key = ctx.key(request.first + index);
        read_group(ctx, &request, &key, position, &mut answer)?;
    }
    if !answer.finish(ctx.reply) {
        return wait(ctx, &request, Vec::new(), true);
    }
    Ok(())
}

/// Reads one stream for a consumer, which is added if need be.
fn read_group(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    key: &Key<'_>,
    position: Position,
    answer: &mut Answer,
) -> Outcome {
    let Some((name, consumer_name)) = request.reader else { return Ok(()) };
    let now_ms = ctx.keys.now_ms;
    let records = ctx.keys.effects.recording;
    let Some(mut stream) = ctx.keys.write::<Stream>(key)? else { return Ok(()) };
    let Some((log, group)) = stream.group_mut(name) else { return Ok(()) };
    let is_new = group.number_of(consumer_name).is_none();
    let number = group.add_consumer(consumer_name, now_ms);
    if let Some(consumer) = group.consumer_mut(number) {
        consumer.seen_ms = now_ms;
    }
    let (mut claims, mut progress, mut delivered) = (Vec::new(), None, 0);
    match position {
        Position::After(id) => {
            answer.begin(ctx.reply, key);
            write_history(ctx.reply, log, group, number, id, request.count, now_ms);
        }
        Position::New => {
            if let Some(entries) = entries_after(log, group.last_id) {
                answer.begin(ctx.reply, key);
                let place = ctx.reply.defer();
                for entry in entries.take(request.count.map_or(usize::MAX, |count| count as usize)) {
                    let id = entry.id;
                    write_entry(ctx.reply, entry);
                    group.advance(log, id);
                    delivered += 1;
                    if !request.no_ack {
                        let pending = Pending { consumer: number, delivered_ms: now_ms, deliveries: 1 };
                        group.set_pending(id, pending);
                        if records {
                            claims.push((consumer_name.to_vec(), Claimed { id, pending, last_id: id }));
                        }
                    }
                    if ctx.reply.is_full() {
                        break;
                    }
                }
                ctx.reply.close_array(place, delivered);
                progress = Some((group.last_id, group.entries_read));
                if !request.no_ack
                    && let Some(consumer) = group.consumer_mut(number)
                {
                    consumer.active_ms = now_ms;
                }
            }
        }
    }
    drop(stream);
    if is_new {
        record_consumer(ctx.keys, key.bytes, name, consumer_name);
        note_group(ctx.keys, key, "xgroup-createconsumer");
    }
    if let Some((last_id, read)) = progress {
        ctx.keys.dirty += 1;
        record_claims(ctx.keys, key.bytes, name, claims);
        record_progress(ctx.keys, key.bytes, name, last_id, read);
    }
    Ok(())
}

/// Writes what a consumer has got and not acknowledged; of entries that are gone only the ids. Each counts as
/// delivered again.
fn write_history(
    reply: &mut Reply,
    log: &Log,
    group: &mut martlet_types::stream::Group,
    number: u32,
    after: Id,
    count: Option<u64>,
    now_ms: i64,
) {
    let pending = after.next().and_then(|start| Some(group.consumer(number)?.pending_from(start)));
    let count = count.map_or(usize::MAX, |count| count as usize);
    let ids: Vec<Id> = pending.into_iter().flatten().take(count).collect();
    let place = reply.defer();
    let mut written = 0;
    for id in ids {
        match log.range(id, id).next() {
            Some(entry) => {
                write_entry(reply, entry);
                if let Some(pending) = group.pending(id).copied() {
                    let deliveries = pending.deliveries.saturating_add(1);
                    group.set_pending(id, Pending { delivered_ms: now_ms, deliveries, ..pending });
                }
            }
            None => {
                reply.array(2);
                write_id(reply, id);
                reply.null_array();
            }
        }
        written += 1;
        if reply.is_full() {
            break;
        }
    }
    reply.close_array(place, written);
}
