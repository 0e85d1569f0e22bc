//! Hashes: setting, reading, deleting, counting with fields. Random choice is in `random`, expiry of fields
//! in `expiry`, commands that combine expiry with reading or writing in `combined`, hashes of prepared
//! fields in `import`.
//!
//! A field whose time has come reads as absent; a command that meets it deletes it, as in Redis.

mod combined;
mod expiry;
mod import;
mod random;
#[cfg(test)]
mod tests;
mod valkey;

use martlet_base::number::LongDouble;
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::{Field, FieldExpiry, Hash, NO_EXPIRY};

use crate::Handler;
use crate::collection_scan::{self, ScanOptions};
use crate::context::Context;
use crate::list::bulk;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &HSET,
    &HMSET,
    &HSETNX,
    &HGET,
    &HMGET,
    &HDEL,
    &HLEN,
    &HSTRLEN,
    &HEXISTS,
    &HGETALL,
    &HKEYS,
    &HVALS,
    &HINCRBY,
    &HINCRBYFLOAT,
    &HSCAN,
    &random::HRANDFIELD,
    &expiry::HEXPIRE,
    &expiry::HPEXPIRE,
    &expiry::HEXPIREAT,
    &expiry::HPEXPIREAT,
    &expiry::HTTL,
    &expiry::HPTTL,
    &expiry::HEXPIRETIME,
    &expiry::HPEXPIRETIME,
    &expiry::HPERSIST,
    &combined::HGETDEL,
    &combined::HGETEX,
    &combined::HSETEX,
    &import::HIMPORT,
];

const WRITES_FAST: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);
const READS_FAST: Flags = Flags::READONLY.with(Flags::FAST);
const RW_UPDATE: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))];
const RW_ACCESS_UPDATE: &[KeyPart] = &[KeyPart::UPDATED];
const RO_ACCESS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))];
const RO: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO)];
const BY_FIELDS: &str = "O(N), N being the number of fields given";
const BY_SIZE: &str = "O(N), N being the number of fields of the hash";

/// Says that fields of a hash were changed, without counting the change.
#[inline]
fn note<'f>(keys: &mut Keys, key: &Key<'_>, event: &'static str, fields: impl IntoIterator<Item = &'f [u8]>) {
    keys.signal(key);
    keys.effects.event_of_subkeys(EventClass::HASH, event, keys.db(), key.bytes, fields);
}

/// The event of fields that are given a time in the past: to Redis' clients they are deleted, to Valkey's
/// they have expired.
fn event_of_past(keys: &Keys) -> &'static str {
    if keys.effects.deletions.past_times_expire { "hexpired" } else { "hdel" }
}

/// Deletes a hash that has lost its last field.
fn delete_if_empty(keys: &mut Keys, key: &Key<'_>) {
    if keys.delete_if_empty::<Hash>(key) {
        keys.effects.event(EventClass::GENERIC, "del", keys.db(), key.bytes);
    }
}

/// Writes a field's value, or null.
#[inline]
fn value_or_null(reply: &mut Reply, field: Option<Field<'_>>) {
    match field {
        Some(field) => bulk(reply, field.value),
        None => reply.null(),
    }
}

/// Hands one field to `f` for a command that reads, and deletes it if it has expired.
#[inline]
fn read_field(ctx: &mut Context<'_>, f: impl FnOnce(&mut Reply, Option<Field<'_>>)) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let Some(hash) = keys.read::<Hash>(&key)? else {
        f(reply, None);
        return Ok(());
    };
    let field = hash.get(name, due_ms);
    let may_have_expired = field.is_none() && hash.next_expiry_ms() <= due_ms;
    f(reply, field);
    if may_have_expired {
        keys.expire_parts::<Hash>(&key, [name]);
    }
    Ok(())
}

static HSET: Command<Handler> = command("hset", -4, hset as Handler)
    .flags(WRITES_FAST)
    .member(2)
    .keys(RW_UPDATE)
    .acl(Acl::HASH)
    .syntax("key:k0 *data(field value)")
    .doc(Group::Hash, "2.0.0", BY_FIELDS, "Sets fields of a hash. Creates the key if it is not there.")
    .history(&[("4.0.0", "Takes several fields with their values.")]);

fn hset(ctx: &mut Context<'_>) -> Outcome {
    let created = set_pairs(ctx, "hset")?;
    ctx.reply.count(created);
    Ok(())
}

static HMSET: Command<Handler> = command("hmset", -4, hmset as Handler)
    .flags(WRITES_FAST)
    .keys(RW_UPDATE)
    .acl(Acl::HASH)
    .syntax("key:k0 *data(field value)")
    .doc(Group::Hash, "2.0.0", BY_FIELDS, "Sets fields of a hash; HSET does the same.")
    .deprecated("4.0.0", "`HSET` with several pairs");

fn hmset(ctx: &mut Context<'_>) -> Outcome {
    set_pairs(ctx, "hmset")?;
    ctx.reply.ok();
    Ok(())
}

/// Sets the fields and values from argument 2 on; gives how many fields are new.
fn set_pairs(ctx: &mut Context<'_>, command: &'static str) -> Result<usize, Error> {
    let pairs = ctx.args.from(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(Error::Arity(command));
    }
    let key = ctx.key(1);
    let limits = ctx.settings.hash_limits;
    let due_ms = ctx.keys.due_ms();
    let mut hash = ctx.keys.create::<Hash>(&key)?;
    hash.before_growth(pairs.len() / 2, longest(&pairs), limits);
    let mut created = 0;
    for at in (0..pairs.len()).step_by(2) {
        let value = Element::Bytes(pairs.at(at + 1));
        created += usize::from(hash.set(pairs.at(at), value, FieldExpiry::Clear, limits, due_ms));
    }
    drop(hash);
    ctx.keys.dirty += (pairs.len() / 2) as u64;
    note(ctx.keys, &key, "hset", names_of(pairs));
    Ok(created)
}

/// The fields of alternating fields and values.
#[inline]
fn names_of<'a>(pairs: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    (0..pairs.len()).step_by(2).map(move |at| pairs.at(at))
}

/// Length of the longest argument.
#[inline]
fn longest(args: &Args<'_>) -> usize {
    args.iter().map(<[u8]>::len).max().unwrap_or(0)
}

static HSETNX: Command<Handler> = command("hsetnx", 4, hsetnx as Handler)
    .flags(WRITES_FAST)
    .member(2)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::INSERT))])
    .acl(Acl::HASH)
    .syntax("key:k0 field value")
    .doc(Group::Hash, "2.0.0", "O(1)", "Sets a field of a hash that does not exist yet.");

fn hsetnx(ctx: &mut Context<'_>) -> Outcome {
    let (key, name, value) = (ctx.key(1), ctx.arg(2), ctx.arg(3));
    let limits = ctx.settings.hash_limits;
    if find_for_write(ctx.keys, &key, name)?.is_some() {
        ctx.reply.int(0);
        return Ok(());
    }
    let due_ms = ctx.keys.due_ms();
    let mut hash = ctx.keys.create::<Hash>(&key)?;
    hash.before_growth(1, name.len().max(value.len()), limits);
    hash.set(name, Element::Bytes(value), FieldExpiry::Clear, limits, due_ms);
    drop(hash);
    ctx.keys.dirty += 1;
    note(ctx.keys, &key, "hset", [name]);
    ctx.reply.int(1);
    Ok(())
}

/// The field for a command that will change it; an expired one is deleted first.
fn find_for_write<'k>(keys: &'k mut Keys, key: &Key<'_>, name: &[u8]) -> Result<Option<Field<'k>>, Error> {
    let due_ms = keys.due_ms();
    let due = keys.write::<Hash>(key)?.is_some_and(|hash| hash.next_expiry_ms() <= due_ms);
    if due {
        keys.expire_parts::<Hash>(key, [name]);
    }
    Ok(keys.get(key).and_then(|entry| entry.object::<Hash>()).and_then(|hash| hash.get(name, due_ms)))
}

static HGET: Command<Handler> = command("hget", 3, hget as Handler)
    .flags(READS_FAST)
    .member(2)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 field")
    .doc(Group::Hash, "2.0.0", "O(1)", "Returns the value of a field.");

fn hget(ctx: &mut Context<'_>) -> Outcome {
    read_field(ctx, value_or_null)
}

static HMGET: Command<Handler> = command("hmget", -3, hmget as Handler)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 *field")
    .doc(Group::Hash, "2.0.0", BY_FIELDS, "Returns the values of fields.");

fn hmget(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let names = ctx.args.from(2);
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let hash = keys.read::<Hash>(&key)?;
    reply.array(names.len());
    for name in names.iter() {
        value_or_null(reply, hash.and_then(|hash| hash.get(name, due_ms)));
    }
    if hash.is_some_and(|hash| hash.next_expiry_ms() <= due_ms) {
        keys.expire_parts::<Hash>(&key, names.iter());
    }
    Ok(())
}

static HDEL: Command<Handler> = command("hdel", -3, hdel as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .member(2)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::HASH)
    .syntax("key:k0 *field")
    .doc(Group::Hash, "2.0.0", BY_FIELDS, "Deletes fields of a hash. Deletes the key with the last one.")
    .history(&[("2.4.0", "Takes several fields.")]);

fn hdel(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let mut deleted = 0;
    let wants_names = ctx.keys.effects.wants_subkeys(EventClass::HASH);
    let mut names = Vec::new();
    if let Some(mut hash) = ctx.keys.write::<Hash>(&key)? {
        for name in ctx.args.from(2).iter() {
            // Expired fields count too, as in Redis.
            if hash.remove(name, i64::MIN) {
                deleted += 1;
                if wants_names {
                    names.push(name);
                }
            }
        }
    }
    if deleted > 0 {
        ctx.keys.dirty += deleted as u64;
        note(ctx.keys, &key, "hdel", names);
        delete_if_empty(ctx.keys, &key);
    }
    ctx.reply.count(deleted);
    Ok(())
}

static HLEN: Command<Handler> =
    command("hlen", 2, hlen as Handler).flags(READS_FAST).keys(RO).acl(Acl::HASH).syntax("key:k0").doc(
        Group::Hash,
        "2.0.0",
        "O(1)",
        "Returns the number of fields of a hash, expired ones that are not deleted yet included.",
    );

fn hlen(ctx: &mut Context<'_>) -> Outcome {
    let len = ctx.keys.read::<Hash>(&ctx.key(1))?.map_or(0, Hash::len);
    ctx.reply.count(len);
    Ok(())
}

static HSTRLEN: Command<Handler> = command("hstrlen", 3, hstrlen as Handler)
    .flags(READS_FAST)
    .member(2)
    .keys(RO)
    .acl(Acl::HASH)
    .syntax("key:k0 field")
    .doc(Group::Hash, "3.2.0", "O(1)", "Returns the length of a field's value.");

fn hstrlen(ctx: &mut Context<'_>) -> Outcome {
    read_field(ctx, |reply, field| reply.count(field.map_or(0, |field| field.value.byte_len())))
}

static HEXISTS: Command<Handler> = command("hexists", 3, hexists as Handler)
    .flags(READS_FAST)
    .member(2)
    .keys(RO)
    .acl(Acl::HASH)
    .syntax("key:k0 field")
    .doc(Group::Hash, "2.0.0", "O(1)", "Checks whether a hash has a field.");

fn hexists(ctx: &mut Context<'_>) -> Outcome {
    read_field(ctx, |reply, field| reply.int(i64::from(field.is_some())))
}

static HGETALL: Command<Handler> = command("hgetall", 2, hgetall as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0")
    .doc(Group::Hash, "2.0.0", BY_SIZE, "Returns all fields and values of a hash.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn hgetall(ctx: &mut Context<'_>) -> Outcome {
    read_all(ctx, Reply::map, |reply, field| {
        bulk(reply, field.name);
        bulk(reply, field.value);
    })
}

static HKEYS: Command<Handler> = command("hkeys", 2, hkeys as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0")
    .doc(Group::Hash, "2.0.0", BY_SIZE, "Returns all fields of a hash.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn hkeys(ctx: &mut Context<'_>) -> Outcome {
    read_all(ctx, Reply::array, |reply, field| bulk(reply, field.name))
}

static HVALS: Command<Handler> = command("hvals", 2, hvals as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0")
    .doc(Group::Hash, "2.0.0", BY_SIZE, "Returns all values of a hash.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn hvals(ctx: &mut Context<'_>) -> Outcome {
    read_all(ctx, Reply::array, |reply, field| bulk(reply, field.value))
}

/// Writes a header for all fields that have not expired, then each.
fn read_all(
    ctx: &mut Context<'_>,
    header: impl FnOnce(&mut Reply, usize),
    mut each: impl FnMut(&mut Reply, Field<'_>),
) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let Some(hash) = keys.read::<Hash>(&key)? else {
        header(reply, 0);
        return Ok(());
    };
    header(reply, hash.live_len(due_ms));
    hash.iter().filter(|field| field.is_live(due_ms)).for_each(|field| each(reply, field));
    Ok(())
}

static HINCRBY: Command<Handler> = command("hincrby", 4, hincrby as Handler)
    .flags(WRITES_FAST)
    .member(2)
    .keys(RW_ACCESS_UPDATE)
    .acl(Acl::HASH)
    .syntax("key:k0 field increment:i")
    .doc(
        Group::Hash,
        "2.0.0",
        "O(1)",
        "Adds to the integer value of a field, which is 0 if it does not exist.",
    );

fn hincrby(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let increase = ctx.int(3)?;
    let old = match find_for_write(ctx.keys, &key, name)? {
        None => 0,
        Some(field) => field.value.as_int().ok_or(Error::Fixed("ERR hash value is not an integer"))?,
    };
    let overflow = Error::Fixed("ERR increment or decrement would overflow");
    let sum = old.checked_add(increase).ok_or(overflow)?;
    store_sum(ctx, &key, name, Element::Int(sum))?;
    note(ctx.keys, &key, "hincrby", [name]);
    ctx.reply.int(sum);
    Ok(())
}

/// Sets a field without touching its expiry time, which is given back.
fn store_sum(ctx: &mut Context<'_>, key: &Key<'_>, name: &[u8], sum: Element<'_>) -> Result<i64, Error> {
    let limits = ctx.settings.hash_limits;
    let due_ms = ctx.keys.due_ms();
    let mut hash = ctx.keys.create::<Hash>(key)?;
    hash.set(name, sum, FieldExpiry::Keep, limits, due_ms);
    let expire_at_ms = hash.get(name, due_ms).map_or(NO_EXPIRY, |field| field.expire_at_ms);
    drop(hash);
    ctx.keys.dirty += 1;
    Ok(expire_at_ms)
}

static HINCRBYFLOAT: Command<Handler> = command("hincrbyfloat", 4, hincrbyfloat as Handler)
    .flags(WRITES_FAST)
    .keys(RW_ACCESS_UPDATE)
    .acl(Acl::HASH)
    .syntax("key:k0 field increment:d")
    .doc(
        Group::Hash,
        "2.6.0",
        "O(1)",
        "Adds to the floating point value of a field, which is 0 if it does not exist.",
    );

fn hincrbyfloat(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let increase = LongDouble::parse(ctx.arg(3)).ok_or(Error::NotFloat)?;
    if increase.is_infinite() {
        return Err(Error::Fixed("ERR value is NaN or Infinity"));
    }
    let old = match find_for_write(ctx.keys, &key, name)?.map(|field| field.value) {
        None => LongDouble::ZERO,
        Some(Element::Int(int)) => LongDouble::from(int),
        Some(Element::Bytes(text)) => {
            LongDouble::parse(text).ok_or(Error::Fixed("ERR hash value is not a float"))?
        }
    };
    let too_large = Error::Fixed("ERR increment would produce NaN or Infinity");
    let sum = old.checked_add(increase).ok_or(too_large)?.to_text();
    let expire_at_ms = store_sum(ctx, &key, name, Element::Bytes(&sum))?;
    // Recorded as its result, so that a replica's arithmetic does not matter.
    let (db, effects) = (ctx.keys.db(), &mut ctx.keys.effects);
    if expire_at_ms == NO_EXPIRY {
        effects.replace(db, || [b"HSET", key.bytes, name, &sum]);
    } else {
        effects.replace(db, || [b"HSETEX", key.bytes, b"KEEPTTL", b"FIELDS", b"1", name, &sum]);
    }
    note(ctx.keys, &key, "hincrbyfloat", [name]);
    ctx.reply.bulk(&sum);
    Ok(())
}

static HSCAN: Command<Handler> =
    command("hscan", -3, hscan as Handler).flags(Flags::READONLY).keys(RO_ACCESS).acl(Acl::HASH)
    .syntax("key:k0 cursor:i ?pattern:p=MATCH ?count:i=COUNT ?NOVALUES").doc(
        Group::Hash,
        "2.8.0",
        "O(1) for every call, O(N) for all of them, N being the number of fields",
        "Returns some fields of a hash, with their values unless asked not to, and a cursor for the next call.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn hscan(ctx: &mut Context<'_>) -> Outcome {
    let cursor = collection_scan::cursor(ctx)?;
    let key = ctx.key(1);
    let options = ScanOptions::parse(ctx, Some("novalues"));
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let Some(hash) = keys.read::<Hash>(&key)? else {
        collection_scan::answer_empty(reply);
        return Ok(());
    };
    let options = options?;
    collection_scan::answer(reply, |reply| {
        let mut count = 0;
        let next = hash.scan(cursor, options.count, due_ms, |field| {
            if !options.takes(field.name.as_bytes(&mut IntBuffer::new())) {
                return;
            }
            bulk(reply, field.name);
            count += 1;
            if !options.names_only {
                bulk(reply, field.value);
                count += 1;
            }
        });
        (next, count)
    });
    Ok(())
}
