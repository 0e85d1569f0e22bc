//! Exactly-once adding: XADD's IDMP and IDMPAUTO, XCFGSET, and XIDMPRECORD, by which files restore records.
//!
//! A primary, or a file, sends each entry with its name and id: it is added whatever is recorded here.
//! Duplicates come as they were sent, with `*`.

use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::stream::{Id, IdempotencyLimits, Stream};
use xxhash_rust::xxh3::Xxh3;

use super::parse_id;
use crate::Handler;
use crate::context::Context;

/// Records forgotten for their age at most when one comes: more than come, so that they do not pile up.
const EXPIRED_AT_ONCE: usize = 16;

/// The producer of an entry, and the entry's name, if given: else it is made of the fields.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    producer: &'a [u8],
    name: Option<&'a [u8]>,
}

impl<'a> Named<'a> {
    /// Takes IDMP or IDMPAUTO, if one comes next; whether it did.
    pub fn take(named: &mut Option<Named<'a>>, rest: &mut Cursor<'a>) -> Result<bool, Error> {
        const TWICE: Error = Error::Fixed("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
        let has_name = rest.option("IDMP", 2);
        if !has_name && !rest.option("IDMPAUTO", 1) {
            return Ok(false);
        }
        if named.is_some() {
            return Err(TWICE);
        }
        let producer = rest.value()?;
        let name = if has_name { Some(rest.value()?) } else { None };
        if producer.is_empty() {
            return Err(Error::Fixed(match name {
                Some(_) => "ERR syntax error, IDMP requires a non-empty producer ID",
                None => "ERR syntax error, IDMPAUTO requires a non-empty producer ID",
            }));
        }
        if name.is_some_and(<[u8]>::is_empty) {
            return Err(Error::Fixed("ERR syntax error, IDMP requires a non-empty idempotent ID"));
        }
        *named = Some(Named { producer, name });
        Ok(true)
    }

    /// The name, of which one that is made of the fields, from argument `from` on, is put into `made`.
    pub fn resolve(self, args: Args<'a>, from: usize, made: &'a mut [u8; 16]) -> Record<'a> {
        let name = self.name.unwrap_or_else(|| {
            *made = name_of_fields(args, from);
            made
        });
        Record { producer: self.producer, name }
    }
}

/// A producer, and the name under which it adds an entry.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    producer: &'a [u8],
    name: &'a [u8],
}

impl Record<'_> {
    /// The entry that was added under this name, unless that is too long ago. The time is 0 where a primary
    /// or a file decides.
    pub fn find(self, stream: &Stream, now_ms: i64) -> Option<Id> {
        let id = stream.idempotency()?.get(self.producer, self.name)?;
        let is_too_old = stream.records_expired_until(now_ms).is_some_and(|until_ms| id.ms <= until_ms);
        (!is_too_old).then_some(id)
    }

    /// Remembers the entry.
    pub fn insert(self, stream: &mut Stream, id: Id, now_ms: i64) {
        let now_ms = if now_ms == 0 { i64::try_from(id.ms).unwrap_or(i64::MAX) } else { now_ms };
        let (limits, until_ms) = (stream.idempotency_limits(), stream.records_expired_until(now_ms));
        let table = stream.idempotency_mut();
        if let Some(until_ms) = until_ms {
            table.expire(until_ms, EXPIRED_AT_ONCE);
        }
        table.insert(self.producer, self.name, id, limits.max_records);
    }
}

/// Counts a request that was answered from a record, which is recorded as it came.
pub(super) fn count_duplicate(keys: &mut Keys, key: &Key<'_>) -> Outcome {
    if let Some(mut stream) = keys.write::<Stream>(key)? {
        stream.idempotency_mut().duplicates += 1;
    }
    keys.dirty += 1;
    Ok(())
}

/// The name that stands for the fields from argument `from` on, whatever their order: for each pair the 128
/// bits of XXH3 over field, its length and value; of their sums and exclusive ors both halves.
fn name_of_fields(args: Args<'_>, from: usize) -> [u8; 16] {
    let (mut low, mut high) = ((0_u64, 0_u64), (0_u64, 0_u64));
    for at in (from..args.len()).step_by(2) {
        let (field, value) = (args.at(at), args.at(at + 1));
        let mut pair = Xxh3::new();
        pair.update(field);
        pair.update(&(field.len() as u64).to_le_bytes());
        pair.update(value);
        let hash = pair.digest128();
        let (pair_low, pair_high) = (hash as u64, (hash >> 64) as u64);
        low = (low.0.wrapping_add(pair_low), low.1 ^ pair_low);
        high = (high.0.wrapping_add(pair_high), high.1 ^ pair_high);
    }
    let halves = [low.0 ^ high.1.rotate_left(1), high.0 ^ low.1.rotate_left(1)];
    (u128::from(halves[1]) << 64 | u128::from(halves[0])).to_le_bytes()
}

pub(super) static XCFGSET: Command<Handler> = command("xcfgset", -2, xcfgset as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax(
        "key:k0 ?idmp-duration-block(idmp-duration-token:x=IDMP-DURATION duration:i) \
         ?idmp-maxsize-block(idmp-maxsize-token:x=IDMP-MAXSIZE maxsize:i)",
    )
    .doc(
        Group::Stream,
        "8.6.0",
        "O(1)",
        "Sets for how long, and how much of each producer a stream remembers.",
    );

fn xcfgset(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let mut limits = match ctx.keys.write::<Stream>(&key)? {
        Some(stream) => stream.idempotency_limits(),
        None => return Err(Error::NoSuchKey),
    };
    let (mut duration_s, mut max_records, mut rest) = (None, None, ctx.rest(2));
    loop {
        if rest.option("IDMP-DURATION", 1) {
            const RANGE: &str = "ERR IDMP-DURATION must be between 1 and 86400 seconds";
            take_limit(
                &mut duration_s,
                &mut rest,
                86_400,
                "ERR IDMP-DURATION specified multiple times",
                RANGE,
            )?;
        } else if rest.option("IDMP-MAXSIZE", 1) {
            const RANGE: &str = "ERR IDMP-MAXSIZE must be between 1 and 10000 entries";
            take_limit(
                &mut max_records,
                &mut rest,
                10_000,
                "ERR IDMP-MAXSIZE specified multiple times",
                RANGE,
            )?;
        } else {
            break rest.finish()?;
        }
    }
    if duration_s.is_none() && max_records.is_none() {
        return Err(Error::Fixed("ERR At least one parameter must be specified"));
    }
    limits = IdempotencyLimits {
        duration_s: duration_s.unwrap_or(limits.duration_s),
        max_records: max_records.unwrap_or(limits.max_records),
    };
    let Some(mut stream) = ctx.keys.write::<Stream>(&key)? else { return Err(Error::NoSuchKey) };
    let has_changed = stream.set_idempotency_limits(limits);
    drop(stream);
    if has_changed {
        ctx.keys.dirty += 1;
    }
    ctx.reply.ok();
    Ok(())
}

/// Takes the value of a limit, which comes once.
fn take_limit(
    limit: &mut Option<u32>,
    rest: &mut Cursor<'_>,
    max: i64,
    twice: &'static str,
    range: &'static str,
) -> Outcome {
    if limit.is_some() {
        return Err(Error::Fixed(twice));
    }
    let value = rest.int()?;
    if !(1..=max).contains(&value) {
        return Err(Error::Fixed(range));
    }
    *limit = u32::try_from(value).ok();
    Ok(())
}

pub(super) static XIDMPRECORD: Command<Handler> = command("xidmprecord", 5, xidmprecord as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STREAM)
    .syntax("key:k0 pid iid stream-id")
    .doc(
        Group::Stream,
        "8.6.2",
        "O(log N), N being the number of entries",
        "Remembers under which name a producer has added an entry, as a file needs it.",
    );

fn xidmprecord(ctx: &mut Context<'_>) -> Outcome {
    let id = parse_id(ctx.arg(4), 0)?;
    let record = Record { producer: ctx.arg(2), name: ctx.arg(3) };
    if record.producer.is_empty() {
        return Err(Error::Fixed("ERR producer ID must be non-empty"));
    }
    if record.name.is_empty() {
        return Err(Error::Fixed("ERR idempotent ID must be non-empty"));
    }
    let (key, now_ms) = (ctx.key(1), ctx.keys.now_ms());
    let mut stream = ctx.keys.write::<Stream>(&key)?.ok_or(Error::NoSuchKey)?;
    if !stream.log().contains(id) {
        return Err(Error::Fixed("ERR No such message in stream"));
    }
    match record.find(&stream, now_ms) {
        Some(known) if known != id => {
            return Err(Error::Fixed("ERR IID already exists for this producer with a different stream ID"));
        }
        Some(_) => {}
        None => {
            record.insert(&mut stream, id, now_ms);
            drop(stream);
            ctx.keys.dirty += 1;
        }
    }
    ctx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests;
