//! Expiry times of fields: setting, reading, removing.

use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, Outcome, Tip, command};
use martlet_types::hash::{Hash, NO_EXPIRY};

use super::valkey;
use super::{BY_FIELDS, READS_FAST, RO_ACCESS, RW_UPDATE, delete_if_empty, event_of_past, note};
use crate::Handler;
use crate::context::Context;
use crate::times::{CONDITION_NOT_MET, Condition, DELETED, DONE, NO_PART, NO_TIME, TimeUnit};

const POSITIVE_FIELDS: &str = "ERR Number of fields must be a positive integer";

/// The names in `FIELDS count name…` to the end; `bad_count` is the error for an invalid count.
pub(super) fn parse_fields<'a>(mut rest: Cursor<'a>, bad_count: &'static str) -> Result<Args<'a>, Error> {
    if !rest.word("fields") {
        return Err(Error::Fixed("ERR Mandatory argument FIELDS is missing or not at the right position"));
    }
    let count = rest.at_least(1, bad_count).map_err(|_| Error::Fixed(bad_count))?;
    let names = rest.args();
    if usize::try_from(count) != Ok(names.len()) {
        return Err(Error::Fixed("ERR The `numfields` parameter must match the number of arguments"));
    }
    Ok(names)
}

/// As [`parse_fields`] with the error text that most commands have.
pub(super) fn parse_some_fields(rest: Cursor<'_>) -> Result<Args<'_>, Error> {
    parse_fields(rest, POSITIVE_FIELDS)
}

/// Setting a time is not refused for want of memory.
const EXPIRES: Flags = Flags::WRITE.with(Flags::FAST);

pub(super) static HEXPIRE: Command<Handler> = command("hexpire", -6, hexpire as Handler)
    .in_valkey(Flags::NONE, valkey::SETS_TIMES)
    .flags(EXPIRES)
    .keys(RW_UPDATE)
    .relative_time_if(|_| true)
    .acl(Acl::HASH)
    .syntax("key:k0 seconds:i ?condition(NX|XX|GT|LT) fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Sets after how many seconds fields of a hash expire.");

fn hexpire(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::EX, "hexpire")
}

pub(super) static HPEXPIRE: Command<Handler> = command("hpexpire", -6, hpexpire as Handler)
    .in_valkey(Flags::NONE, valkey::SETS_TIMES)
    .flags(EXPIRES)
    .keys(RW_UPDATE)
    .relative_time_if(|_| true)
    .acl(Acl::HASH)
    .syntax("key:k0 milliseconds:i ?condition(NX|XX|GT|LT) fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Sets after how many milliseconds fields of a hash expire.");

fn hpexpire(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::PX, "hpexpire")
}

pub(super) static HEXPIREAT: Command<Handler> = command("hexpireat", -6, hexpireat as Handler)
    .in_valkey(Flags::NONE, valkey::SETS_TIMES)
    .flags(EXPIRES)
    .keys(RW_UPDATE)
    .acl(Acl::HASH)
    .syntax("key:k0 unix-time-seconds:t ?condition(NX|XX|GT|LT) fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Sets at which Unix time, in seconds, fields of a hash expire.");

fn hexpireat(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::EXAT, "hexpireat")
}

pub(super) static HPEXPIREAT: Command<Handler> = command("hpexpireat", -6, hpexpireat as Handler)
    .in_valkey(Flags::NONE, valkey::SETS_TIMES)
    .flags(EXPIRES)
    .keys(RW_UPDATE)
    .acl(Acl::HASH)
    .syntax(
        "key:k0 unix-time-milliseconds:t ?condition(NX|XX|GT|LT) fields=FIELDS(numfields:i \
         *field)",
    )
    .doc(
        Group::Hash,
        "7.4.0",
        BY_FIELDS,
        "Sets at which Unix time, in milliseconds, fields of a hash expire.",
    );

fn hpexpireat(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::PXAT, "hpexpireat")
}

fn expire(ctx: &mut Context<'_>, unit: TimeUnit, command: &str) -> Outcome {
    let key = ctx.key(1);
    let exists = ctx.keys.write::<Hash>(&key)?.is_some();
    let at_ms = unit.parse(ctx.arg(2), ctx.keys.now_ms(), command)?;
    let mut rest = ctx.rest(3);
    let condition = rest.one_of(Condition::WORDS);
    let names = parse_fields(rest, "ERR Parameter `numFields` should be greater than 0")?;
    ctx.reply.array(names.len());
    if !exists {
        names.iter().for_each(|_| ctx.reply.int(NO_PART));
        return Ok(());
    }
    let changed = set_times(ctx.keys, &key, names, at_ms, condition.unwrap_or(Condition::Always))?;
    changed.results.iter().for_each(|result| ctx.reply.int(*result));
    let word = condition.map(|_| ctx.arg(3));
    record_times(ctx.keys, &key, &changed, at_ms, word);
    if !changed.deleted.is_empty() {
        let event = event_of_past(ctx.keys);
        note(ctx.keys, &key, event, changed.deleted);
        delete_if_empty(ctx.keys, &key);
    } else if !changed.updated.is_empty() {
        note(ctx.keys, &key, "hexpire", changed.updated);
    }
    Ok(())
}

/// What setting a time did to fields.
pub(super) struct Changed<'a> {
    /// An answer for each field, as HEXPIRE gives it.
    pub results: Vec<i64>,
    /// Fields that have the time now.
    pub updated: Vec<&'a [u8]>,
    /// Fields deleted because the time has passed.
    pub deleted: Vec<&'a [u8]>,
}

/// Sets the time of fields of a hash that is there, or deletes them if it has passed. Counts the changes.
pub(super) fn set_times_always<'a>(
    keys: &mut Keys,
    key: &Key<'_>,
    names: Args<'a>,
    at_ms: i64,
) -> Result<Changed<'a>, Error> {
    set_times(keys, key, names, at_ms, Condition::Always)
}

fn set_times<'a>(
    keys: &mut Keys,
    key: &Key<'_>,
    names: Args<'a>,
    at_ms: i64,
    condition: Condition,
) -> Result<Changed<'a>, Error> {
    let mut changed = Changed { results: Vec::new(), updated: Vec::new(), deleted: Vec::new() };
    let due_ms = keys.due_ms();
    let has_passed = keys.deletes_at_once(at_ms);
    let Some(mut hash) = keys.write::<Hash>(key)? else { return Ok(changed) };
    for name in names.iter() {
        let result = match hash.get(name, due_ms).map(|field| field.expire_at_ms) {
            None => NO_PART,
            Some(old_ms) if !condition.is_met(old_ms, at_ms) => CONDITION_NOT_MET,
            Some(_) if has_passed => {
                hash.remove(name, due_ms);
                changed.deleted.push(name);
                DELETED
            }
            Some(_) => {
                hash.set_expiry(name, at_ms);
                changed.updated.push(name);
                DONE
            }
        };
        changed.results.push(result);
    }
    drop(hash);
    keys.dirty += (changed.updated.len() + changed.deleted.len()) as u64;
    keys.counters().expired_fields.add(changed.deleted.len() as u64);
    Ok(changed)
}

/// Records times as absolute ones, and the deletion of fields whose time has passed.
pub(super) fn record_times(
    keys: &mut Keys,
    key: &Key<'_>,
    changed: &Changed<'_>,
    at_ms: i64,
    condition: Option<&[u8]>,
) {
    for name in &changed.deleted {
        keys.effects.replace(keys.db(), || [b"HDEL", key.bytes, name]);
    }
    if changed.updated.is_empty() {
        return;
    }
    let (time, count) = (at_ms.to_string(), changed.updated.len().to_string());
    keys.effects.replace(keys.db(), || {
        let head = [b"HPEXPIREAT".as_slice(), key.bytes, time.as_bytes()].into_iter().chain(condition);
        head.chain([b"FIELDS".as_slice(), count.as_bytes()]).chain(changed.updated.iter().copied())
    });
}

pub(super) static HTTL: Command<Handler> = command("httl", -5, httl as Handler)
    .in_valkey(Flags::NONE, valkey::READS_TIMES)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Returns in how many seconds fields of a hash expire.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn httl(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::EX)
}

pub(super) static HPTTL: Command<Handler> = command("hpttl", -5, hpttl as Handler)
    .in_valkey(Flags::NONE, valkey::READS_TIMES)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Returns in how many milliseconds fields of a hash expire.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn hpttl(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::PX)
}

pub(super) static HEXPIRETIME: Command<Handler> = command("hexpiretime", -5, hexpiretime as Handler)
    .in_valkey(Flags::NONE, valkey::READS_TIMES)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Returns at which Unix time, in seconds, fields of a hash expire.");

fn hexpiretime(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::EXAT)
}

pub(super) static HPEXPIRETIME: Command<Handler> = command("hpexpiretime", -5, hpexpiretime as Handler)
    .in_valkey(Flags::NONE, valkey::READS_TIMES)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 fields=FIELDS(numfields:i *field)")
    .doc(
        Group::Hash,
        "7.4.0",
        BY_FIELDS,
        "Returns at which Unix time, in milliseconds, fields of a hash expire.",
    );

fn hpexpiretime(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::PXAT)
}

fn time_left(ctx: &mut Context<'_>, unit: TimeUnit) -> Outcome {
    let key = ctx.key(1);
    let names = parse_some_fields(ctx.rest(2));
    let Context { keys, reply, .. } = ctx;
    let (now_ms, due_ms) = (keys.now_ms(), keys.due_ms());
    let hash = keys.read::<Hash>(&key)?;
    let names = names?;
    reply.array(names.len());
    for name in names.iter() {
        let expiry = hash.and_then(|hash| hash.get(name, due_ms)).map(|field| field.expire_at_ms);
        reply.int(unit.answer(expiry, now_ms));
    }
    Ok(())
}

pub(super) static HPERSIST: Command<Handler> = command("hpersist", -5, hpersist as Handler)
    .in_valkey(Flags::NONE, valkey::NAMES_FIELDS)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(RW_UPDATE)
    .acl(Acl::HASH)
    .syntax("key:k0 fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "7.4.0", BY_FIELDS, "Removes the expiry times of fields of a hash.");

fn hpersist(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let names = parse_some_fields(ctx.rest(2));
    let Context { keys, reply, .. } = ctx;
    keys.write::<Hash>(&key)?;
    let names = names?;
    let (results, changed) = persist(keys, &key, names)?;
    reply.array(results.len());
    results.iter().for_each(|result| reply.int(*result));
    if changed > 0 {
        keys.dirty += 1;
        note(keys, &key, "hpersist", done(names, &results));
    }
    Ok(())
}

/// Those of the fields for which the answer is that it was done.
pub(super) fn done<'a>(names: Args<'a>, results: &[i64]) -> impl Iterator<Item = &'a [u8]> {
    (0..names.len()).filter(|at| results.get(*at) == Some(&DONE)).map(move |at| names.at(at))
}

/// Removes the times of fields: an answer for each, and how many had one.
pub(super) fn persist(keys: &mut Keys, key: &Key<'_>, names: Args<'_>) -> Result<(Vec<i64>, usize), Error> {
    let due_ms = keys.due_ms();
    let Some(mut hash) = keys.write::<Hash>(key)? else { return Ok((vec![NO_PART; names.len()], 0)) };
    let mut remove = |name: &[u8]| match hash.get(name, due_ms).map(|field| field.expire_at_ms) {
        None => NO_PART,
        Some(NO_EXPIRY) => NO_TIME,
        Some(_) => {
            hash.set_expiry(name, NO_EXPIRY);
            DONE
        }
    };
    let results: Vec<i64> = names.iter().map(&mut remove).collect();
    drop(hash);
    let changed = results.iter().filter(|result| **result == DONE).count();
    Ok((results, changed))
}
