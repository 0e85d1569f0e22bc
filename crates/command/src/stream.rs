//! Streams: entries by id. Adding and trimming is in `add`, exactly once in `idempotency`, deleting with
//! regard to groups in `delete`, blocking reads in `read`, consumer groups in `group`, `claim` and `release`,
//! XINFO in `info`.

mod add;
mod claim;
mod delete;
mod group;
mod idempotency;
mod info;
mod read;
mod release;
#[cfg(test)]
mod tests;

use martlet_base::number::{NumberBuffer, format_u64, parse_i64};
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::stream::{self as types, Entry, Id, Stream};

use crate::Handler;
use crate::context::Context;
use crate::list::bulk;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &add::XADD,
    &add::XTRIM,
    &claim::XAUTOCLAIM,
    &claim::XCLAIM,
    &delete::XACKDEL,
    &delete::XDELEX,
    &group::XACK,
    &group::XGROUP,
    &group::XPENDING,
    &idempotency::XCFGSET,
    &idempotency::XIDMPRECORD,
    &info::XINFO,
    &read::XREAD,
    &read::XREADGROUP,
    &release::XNACK,
    &XDEL,
    &XLEN,
    &XRANGE,
    &XREVRANGE,
    &XSETID,
];

const READS: KeyPart = KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS));

const INVALID_ID: Error = Error::Fixed("ERR Invalid stream ID specified as stream command argument");

/// A group that is not there.
fn no_group(group: &[u8], key: &[u8]) -> Error {
    Error::of_parts(&[b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"])
}

/// The name of the consumer that has an entry; empty without one.
fn owner_name<'a>(group: &'a types::Group, pending: &types::Pending) -> &'a [u8] {
    let owner = pending.consumer.and_then(|number| group.consumer(number));
    owner.map_or(b"", |consumer| consumer.name())
}

fn write_help(ctx: &mut Context<'_>, lines: &[&str]) -> Outcome {
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line));
    Ok(())
}

/// The last id of a stream that is to be changed, if it is there.
fn last_id(keys: &mut Keys, key: &Key<'_>) -> Result<Option<Id>, Error> {
    let stream = keys.lookup_write(key).map(|entry| entry.object::<Stream>().ok_or(Error::WrongType));
    Ok(stream.transpose()?.map(|stream| stream.log().last_id()))
}

/// Whether the request comes from a primary or a file, which have decided what becomes of it: they are obeyed
/// at time 0.
fn is_from_primary(keys: &Keys) -> bool {
    keys.now_ms() == 0
}

/// A change of a stream.
fn note(keys: &mut Keys, key: &Key<'_>, event: &'static str) {
    keys.changed(key, EventClass::STREAM, event);
}

/// A change of what surrounds the entries: groups, counters. Neither watchers of the key nor clients that
/// wait for its entries see it.
fn note_unwatched(keys: &mut Keys, key: &Key<'_>, event: &'static str) {
    keys.dirty += 1;
    keys.effects.event(EventClass::STREAM, event, keys.db(), key.bytes);
}

/// One half of an id, as `strtoull` reads it where it is no plain number.
fn parse_half(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    // A sign alone, or two of them, is no number.
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// Longer texts are no ids.
const ID_TEXT_MAX: usize = 127;

/// An id as text; its second half may be left out, or be `*`, which gives `None`.
fn parse_id_or_star(text: &[u8], missing_seq: u64) -> Result<(u64, Option<u64>), Error> {
    if text.len() > ID_TEXT_MAX {
        return Err(INVALID_ID);
    }
    // As where strings end with a zero.
    let text = text.split(|&byte| byte == 0).next().unwrap_or(text);
    let mut halves = text.splitn(2, |&byte| byte == b'-');
    let ms = halves.next().and_then(parse_half).ok_or(INVALID_ID)?;
    let seq = match halves.next() {
        None => Some(missing_seq),
        Some(b"*") => None,
        Some(half) => Some(parse_half(half).ok_or(INVALID_ID)?),
    };
    Ok((ms, seq))
}

/// An id, no `-` or `+`.
fn parse_id(text: &[u8], missing_seq: u64) -> Result<Id, Error> {
    let (ms, seq) = parse_id_or_star(text, missing_seq)?;
    Ok(Id { ms, seq: seq.ok_or(INVALID_ID)? })
}

/// An id, or `-` or `+` for the lowest and the highest.
fn parse_bound(text: &[u8], missing_seq: u64) -> Result<Id, Error> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => parse_id(text, missing_seq),
    }
}

/// The start of an interval, which `(` excludes.
fn parse_start(text: &[u8]) -> Result<Id, Error> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            parse_id(id, 0)?.next().ok_or(Error::Fixed("ERR invalid start ID for the interval"))
        }
        _ => parse_bound(text, 0),
    }
}

/// The end of an interval.
fn parse_end(text: &[u8]) -> Result<Id, Error> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            parse_id(id, u64::MAX)?.previous().ok_or(Error::Fixed("ERR invalid end ID for the interval"))
        }
        _ => parse_bound(text, u64::MAX),
    }
}

/// Ids in arguments from one on.
fn parse_ids(ctx: &Context<'_>, from: usize) -> Result<Vec<Id>, Error> {
    ctx.args.from(from).iter().map(|text| parse_id(text, 0)).collect()
}

/// An id as bytes, for replies and effects.
struct IdText {
    bytes: [u8; 41],
    len: usize,
}

impl IdText {
    fn new(id: Id) -> IdText {
        let mut text = IdText { bytes: [0; 41], len: 0 };
        let mut buffer = NumberBuffer::new();
        text.push(format_u64(id.ms, &mut buffer));
        text.push(b"-");
        text.push(format_u64(id.seq, &mut buffer));
        text
    }

    /// Two numbers of 20 digits at most with their separator fit.
    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }
}

impl AsRef<[u8]> for IdText {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn write_id(reply: &mut Reply, id: Id) {
    reply.bulk(IdText::new(id).as_ref());
}

fn write_entry(reply: &mut Reply, entry: Entry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    write_fields(reply, entry);
}

fn write_fields(reply: &mut Reply, entry: Entry<'_>) {
    reply.array(entry.fields.len() * 2);
    for (name, value) in entry.fields {
        bulk(reply, name);
        bulk(reply, value);
    }
}

/// Writes as many entries as are asked for, all if that is `None`; how many these were.
fn write_entries<'a>(
    reply: &mut Reply,
    entries: impl Iterator<Item = Entry<'a>>,
    count: Option<u64>,
) -> usize {
    let place = reply.defer();
    let mut written = 0;
    for entry in entries.take(count.map_or(usize::MAX, |count| count as usize)) {
        write_entry(reply, entry);
        written += 1;
        if reply.is_full() {
            break;
        }
    }
    reply.close_array(place, written);
    written
}

static XLEN: Command<Handler> = command("xlen", 2, xlen as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::STREAM)
    .syntax("key:k0")
    .doc(Group::Stream, "5.0.0", "O(1)", "Returns the number of a stream's entries.");

fn xlen(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let len = ctx.keys.read::<Stream>(&key)?.map_or(0, Stream::len);
    ctx.reply.count(len);
    Ok(())
}

static XRANGE: Command<Handler> = command("xrange", -4, xrange as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::STREAM)
    .syntax("key:k0 start end ?count:i=COUNT")
    .doc(
        Group::Stream,
        "5.0.0",
        "O(log N + M), N being the number of entries and M that of those returned",
        "Returns a stream's entries between two ids.",
    )
    .history(&[("6.2.0", "Bounds may be exclusive.")]);

fn xrange(ctx: &mut Context<'_>) -> Outcome {
    range(ctx, 2, 3, false)
}

static XREVRANGE: Command<Handler> = command("xrevrange", -4, xrevrange as Handler)
    .flags(Flags::READONLY)
    .keys(&[READS])
    .acl(Acl::STREAM)
    .syntax("key:k0 end start ?count:i=COUNT")
    .doc(
        Group::Stream,
        "5.0.0",
        "O(log N + M), N being the number of entries and M that of those returned",
        "Returns a stream's entries between two ids, from the last one on.",
    )
    .history(&[("6.2.0", "Bounds may be exclusive.")]);

fn xrevrange(ctx: &mut Context<'_>) -> Outcome {
    range(ctx, 3, 2, true)
}

fn range(ctx: &mut Context<'_>, start: usize, end: usize, backwards: bool) -> Outcome {
    let (start, end) = (parse_start(ctx.arg(start))?, parse_end(ctx.arg(end))?);
    let (mut count, mut rest) = (None, ctx.rest(4));
    while rest.option("COUNT", 1) {
        // -1 is what there is without the option, whatever was said before.
        count = Some(rest.int()?.max(0) as u64);
    }
    rest.finish()?;
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    match keys.read::<Stream>(&key)? {
        None => reply.array(0),
        Some(_) if count == Some(0) => reply.null_array(),
        Some(stream) if backwards => {
            write_entries(reply, stream.log().range_back(start, end), count);
        }
        Some(stream) => {
            write_entries(reply, stream.log().range(start, end), count);
        }
    }
    Ok(())
}

static XDEL: Command<Handler> = command("xdel", -3, xdel as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 *id")
    .doc(
        Group::Stream,
        "5.0.0",
        "O(log N) for each entry, N being the number of entries",
        "Deletes entries from a stream and returns how many there were.",
    );

fn xdel(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let ids = parse_ids(ctx, 2);
    let Context { keys, reply, .. } = ctx;
    let Some(mut stream) = keys.write::<Stream>(&key)? else {
        reply.int(0);
        return Ok(());
    };
    let ids = ids?;
    let deleted =
        ids.into_iter().filter(|&id| stream.log().contains(id) && stream.log_mut().delete(id)).count();
    drop(stream);
    if deleted > 0 {
        note(keys, &key, "xdel");
        keys.dirty += deleted as u64 - 1;
    }
    reply.count(deleted);
    Ok(())
}

static XSETID: Command<Handler> = command("xsetid", -3, xsetid as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 last-id ?entries-added:i=ENTRIESADDED^7.0.0 ?max-deleted-id=MAXDELETEDID^7.0.0")
    .doc(
        Group::Stream,
        "5.0.0",
        "O(1)",
        "Sets a stream's last id and counters, as a replica or a file needs it.",
    )
    .history(&[("7.0.0", "Arguments `ENTRIESADDED` and `MAXDELETEDID`.")]);

fn xsetid(ctx: &mut Context<'_>) -> Outcome {
    let id = parse_id(ctx.arg(2), 0)?;
    let (mut added, mut max_deleted_id, mut rest) = (None, Id::MIN, ctx.rest(3));
    loop {
        if rest.option("ENTRIESADDED", 1) {
            let count = u64::try_from(rest.int()?);
            added = Some(count.map_err(|_| Error::Fixed("ERR entries_added must be positive"))?);
        } else if rest.option("MAXDELETEDID", 1) {
            max_deleted_id = parse_id(rest.value()?, 0)?;
            if id < max_deleted_id {
                return Err(Error::Fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            break rest.finish()?;
        }
    }
    let key = ctx.key(1);
    let mut stream = ctx.keys.write::<Stream>(&key)?.ok_or(Error::NoSuchKey)?;
    let log = stream.log();
    if id < log.max_deleted_id() {
        return Err(Error::Fixed(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if log.last_entry().is_some_and(|last| id < last.id) {
        return Err(Error::Fixed(
            "ERR The ID specified in XSETID is smaller than the target stream top item",
        ));
    }
    if !log.is_empty() && added.is_some_and(|added| added < log.len()) {
        return Err(Error::Fixed(
            "ERR The entries_added specified in XSETID is smaller than the target stream length",
        ));
    }
    let log = stream.log_mut();
    log.set_last_id(id);
    if let Some(added) = added {
        log.set_entries_added(added);
    }
    if max_deleted_id != Id::MIN {
        log.set_max_deleted_id(max_deleted_id);
    }
    drop(stream);
    ctx.reply.ok();
    note_unwatched(ctx.keys, &key, "xsetid");
    Ok(())
}
