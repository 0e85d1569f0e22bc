//! HRANDFIELD.

use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, Outcome, Tip, command};
use martlet_types::hash::{Field, Hash};

use super::RO_ACCESS;
use crate::Handler;
use crate::context::Context;
use crate::list::{bulk, symmetric};

/// Most fields that are returned with repetitions: more than memory could hold.
const REPEATS_MAX: i64 = 1 << 30;

pub(super) static HRANDFIELD: Command<Handler> = command("hrandfield", -2, hrandfield as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::HASH)
    .syntax("key:k0 ?options(count:i ?WITHVALUES)")
    .doc(
        Group::Hash,
        "6.2.0",
        "O(N), N being the number of fields returned",
        "Returns random fields of a hash, with their values if asked for.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn hrandfield(ctx: &mut Context<'_>) -> Outcome {
    let count = if ctx.argc() > 2 { Some(parse_count(ctx)?) } else { None };
    let with_values = ctx.argc() == 4;
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let due = keys.read::<Hash>(&key)?.is_some_and(|hash| hash.next_expiry_ms() <= due_ms);
    if due {
        keys.expire_all_parts::<Hash>(&key);
    }
    let mut random = keys.random.clone();
    let hash = keys.get(&key).and_then(|entry| entry.object::<Hash>());
    let hash = hash.filter(|hash| !due || hash.live_len(due_ms) > 0);
    match (hash, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(hash), None) => match hash.random(due_ms, &mut random) {
            Some(field) => bulk(reply, field.name),
            None => reply.null(),
        },
        (Some(hash), Some(count @ ..0)) => {
            header(reply, count.unsigned_abs() as usize, with_values);
            for _ in 0..count.unsigned_abs() {
                if let Some(field) = hash.random(due_ms, &mut random) {
                    one(reply, field, with_values);
                }
                if reply.is_full() {
                    break;
                }
            }
        }
        (Some(hash), Some(count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(hash.live_len(due_ms));
            header(reply, count, with_values);
            hash.sample(count, due_ms, &mut random, |field| one(reply, field, with_values));
        }
    }
    keys.random = random;
    Ok(())
}

fn parse_count(ctx: &Context<'_>) -> Result<i64, Error> {
    let mut rest = ctx.rest(2);
    let count = symmetric(rest.value()?)?;
    let with_values = rest.word("withvalues");
    rest.finish()?;
    let halved = with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count);
    if halved || count < -REPEATS_MAX {
        return Err(Error::OutOfRange);
    }
    Ok(count)
}

/// Pairs are flat in RESP2, arrays in RESP3.
fn header(reply: &mut Reply, count: usize, with_values: bool) {
    reply.array(if with_values && !reply.is_resp3() { 2 * count } else { count });
}

fn one(reply: &mut Reply, field: Field<'_>, with_values: bool) {
    if with_values && reply.is_resp3() {
        reply.array(2);
    }
    bulk(reply, field.name);
    if with_values {
        bulk(reply, field.value);
    }
}
