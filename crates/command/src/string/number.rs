//! Strings that spell numbers: counters.

use martlet_base::number::{LongDouble, parse_i64};
use martlet_engine::EventClass;
use martlet_keyspace::{ExpiryChange, StrValue};
use martlet_spec::{Acl, Command, Error, Flags, Group, Outcome, command};

use super::UPDATES;
use crate::Handler;
use crate::context::Context;

const FLAGS: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);

pub(super) static INCR: Command<Handler> =
    command("incr", 2, incr as Handler).flags(FLAGS).keys(UPDATES).acl(Acl::STRING).syntax("key:k0").doc(
        Group::String,
        "1.0.0",
        "O(1)",
        "Adds one to the integer value of a key, which is 0 if it does not exist.",
    );

fn incr(ctx: &mut Context<'_>) -> Outcome {
    increment(ctx, 1)
}

pub(super) static DECR: Command<Handler> =
    command("decr", 2, decr as Handler).flags(FLAGS).keys(UPDATES).acl(Acl::STRING).syntax("key:k0").doc(
        Group::String,
        "1.0.0",
        "O(1)",
        "Subtracts one from the integer value of a key, which is 0 if it does not exist.",
    );

fn decr(ctx: &mut Context<'_>) -> Outcome {
    increment(ctx, -1)
}

pub(super) static INCRBY: Command<Handler> = command("incrby", 3, incrby as Handler)
    .flags(FLAGS)
    .keys(UPDATES)
    .acl(Acl::STRING)
    .syntax("key:k0 increment:i")
    .doc(
        Group::String,
        "1.0.0",
        "O(1)",
        "Adds to the integer value of a key, which is 0 if it does not exist.",
    );

fn incrby(ctx: &mut Context<'_>) -> Outcome {
    let increase = ctx.int(2)?;
    increment(ctx, increase)
}

pub(super) static DECRBY: Command<Handler> = command("decrby", 3, decrby as Handler)
    .flags(FLAGS)
    .keys(UPDATES)
    .acl(Acl::STRING)
    .syntax("key:k0 decrement:i")
    .doc(
        Group::String,
        "1.0.0",
        "O(1)",
        "Subtracts from the integer value of a key, which is 0 if it does not exist.",
    );

fn decrby(ctx: &mut Context<'_>) -> Outcome {
    let decrease = ctx.int(2)?;
    let increase = decrease.checked_neg().ok_or(Error::Fixed("ERR decrement would overflow"))?;
    increment(ctx, increase)
}

fn increment(ctx: &mut Context<'_>, increase: i64) -> Outcome {
    let key = ctx.key(1);
    let old = match ctx.keys.read_str_for_write(&key)? {
        None => 0,
        Some(StrValue::Int(number)) => number,
        Some(StrValue::Bytes(bytes)) => parse_i64(bytes).ok_or(Error::NotInteger)?,
    };
    let overflow = Error::Fixed("ERR increment or decrement would overflow");
    let new = old.checked_add(increase).ok_or(overflow)?;
    ctx.keys.set_int(&key, new, ExpiryChange::Keep);
    ctx.keys.changed(&key, EventClass::STRING, "incrby");
    ctx.reply.int(new);
    Ok(())
}

pub(super) static INCRBYFLOAT: Command<Handler> = command("incrbyfloat", 3, incrbyfloat as Handler)
    .flags(FLAGS)
    .keys(UPDATES)
    .acl(Acl::STRING)
    .syntax("key:k0 increment:d")
    .doc(
        Group::String,
        "2.6.0",
        "O(1)",
        "Adds to the floating-point value of a key, which is 0 if it does not exist.",
    );

fn incrbyfloat(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let old = match ctx.keys.read_str_for_write(&key)? {
        None => LongDouble::ZERO,
        Some(StrValue::Int(number)) => LongDouble::from(number),
        Some(StrValue::Bytes(bytes)) => LongDouble::parse(bytes).ok_or(Error::NotFloat)?,
    };
    let increase = LongDouble::parse(ctx.arg(2)).ok_or(Error::NotFloat)?;
    let sum = old.checked_add(increase).ok_or(Error::Fixed("ERR increment would produce NaN or Infinity"))?;
    let text = sum.to_text();
    ctx.keys.set_bytes(&key, &text, false, ExpiryChange::Keep);
    ctx.keys.changed(&key, EventClass::STRING, "incrbyfloat");
    // Replaying a sum would depend on the reader's arithmetic; its result does not.
    ctx.keys.effects.replace(ctx.keys.db(), || [b"SET", key.bytes, &text, b"KEEPTTL"]);
    ctx.reply.bulk(&text);
    Ok(())
}
