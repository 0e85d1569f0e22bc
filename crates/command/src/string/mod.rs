//! Strings: whole values ([`value`]), parts of them ([`range`]), numbers ([`number`]), and LCS.

use martlet_base::limits::SHARED_REPLY_MIN_BYTES;
use martlet_base::number::NumberBuffer;
use martlet_engine::{EventClass, WrongType};
use martlet_keyspace::{Entry, StrValue};
use martlet_protocol::reply::Reply;

use crate::Handler;
use crate::context::Context;
use crate::error::Outcome;
use crate::spec::{Acl, Command, Flags, Group, KeyFlags, KeyPart, Tip, command};

mod lcs;
mod number;
mod range;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use value::{expire_at, expires_relatively};

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &GET,
    &value::SET,
    &value::SETNX,
    &value::SETEX,
    &value::PSETEX,
    &value::GETSET,
    &value::GETDEL,
    &value::GETEX,
    &MGET,
    &MSET,
    &MSETNX,
    &range::APPEND,
    &range::STRLEN,
    &range::SETRANGE,
    &range::GETRANGE,
    &range::SUBSTR,
    &number::INCR,
    &number::DECR,
    &number::INCRBY,
    &number::DECRBY,
    &number::INCRBYFLOAT,
    &lcs::LCS,
];

/// The key of a command that returns its value.
const READS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))];
/// The key of a command that returns its value and changes it.
const UPDATES: &[KeyPart] = &[KeyPart::UPDATED];

static GET: Command<Handler> = command("get", 2, get as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(READS)
    .acl(Acl::STRING)
    .syntax("key:k0")
    .doc(Group::String, "1.0.0", "O(1)", "Returns the string value of a key.");

fn get(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    match ctx.keys.lookup(&key) {
        Some(entry) => write_str(ctx.reply, &entry, entry.str().ok_or(WrongType)?),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// Answers with an entry's string. A long one is not copied while its shard is locked.
#[inline]
fn write_str(reply: &mut Reply, entry: &Entry<'_>, value: StrValue<'_>) {
    let mut buffer = NumberBuffer::new();
    let bytes = value.bytes(&mut buffer);
    if bytes.len() >= SHARED_REPLY_MIN_BYTES
        && let Some(shared) = entry.shared_str()
    {
        reply.bulk_shared(&shared);
    } else {
        reply.bulk(bytes);
    }
}

static MGET: Command<Handler> = command("mget", -2, mget as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::range(1, -1, 1, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::STRING)
    .syntax("*key:k0")
    .doc(
        Group::String,
        "1.0.0",
        "O(N), N being the number of keys",
        "Returns the string values of several keys.",
    )
    .tips(&[Tip::REQUEST_MULTI_SHARD]);

fn mget(ctx: &mut Context<'_>) -> Outcome {
    ctx.reply.array(ctx.argc() - 1);
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        match ctx.keys.lookup(&key).and_then(|entry| Some((entry, entry.str()?))) {
            Some((entry, value)) => write_str(ctx.reply, &entry, value),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

static MSET: Command<Handler> = command("mset", -3, mset as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::range(1, -1, 2, KeyFlags::OW.with(KeyFlags::UPDATE))])
    .acl(Acl::STRING)
    .syntax("*data(key:k0 value)")
    .doc(
        Group::String,
        "1.0.1",
        "O(N), N being the number of keys",
        "Sets several keys to string values at once.",
    )
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_ALL_SUCCEEDED]);

fn mset(ctx: &mut Context<'_>) -> Outcome {
    require_pairs(ctx, "mset")?;
    set_pairs(ctx);
    ctx.reply.ok();
    Ok(())
}

static MSETNX: Command<Handler> = command("msetnx", -3, msetnx as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::range(1, -1, 2, KeyFlags::OW.with(KeyFlags::INSERT))])
    .acl(Acl::STRING)
    .syntax("*data(key:k0 value)")
    .doc(
        Group::String,
        "1.0.1",
        "O(N), N being the number of keys",
        "Sets several keys to string values if none of them exists.",
    );

fn msetnx(ctx: &mut Context<'_>) -> Outcome {
    require_pairs(ctx, "msetnx")?;
    for index in (1..ctx.argc()).step_by(2) {
        let key = ctx.key(index);
        if ctx.keys.lookup_write(&key).is_some() {
            ctx.reply.int(0);
            return Ok(());
        }
    }
    set_pairs(ctx);
    ctx.reply.int(1);
    Ok(())
}

fn require_pairs(ctx: &Context<'_>, name: &'static str) -> Outcome {
    if ctx.argc().is_multiple_of(2) { Err(crate::Error::Arity(name)) } else { Ok(()) }
}

fn set_pairs(ctx: &mut Context<'_>) {
    for index in (1..ctx.argc()).step_by(2) {
        let key = ctx.key(index);
        ctx.set_str(&key, index + 1, martlet_keyspace::ExpiryChange::Clear);
        ctx.keys.changed(&key, EventClass::STRING, "set");
    }
}
