//! SPOP and SRANDMEMBER.

use martlet_base::random::Random;
use martlet_engine::{EventClass, Keys};
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyPart, Outcome, Tip, command};
use martlet_types::set::Set;

use super::{RO_ACCESS, RW_ACCESS_DELETE, delete_if_empty, note};
use crate::Handler;
use crate::context::Context;
use crate::list::{bulk, symmetric};

/// SPOP with a count is journalled as SREM of at most this many members at a time, as in Redis.
const SREM_BATCH: usize = 1024;

/// Most members that SRANDMEMBER returns with repetitions: more than memory could hold.
pub(crate) const REPEATS_MAX: i64 = 1 << 30;

pub(super) static SPOP: Command<Handler> = command("spop", -2, spop as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, RW_ACCESS_DELETE)])
    .acl(Acl::SET)
    .syntax("key:k0 ?count:i^3.2.0")
    .doc(
        Group::Set,
        "1.0.0",
        "O(N), N being the number of members popped",
        "Removes and returns random members of a set. Deletes the key with the last one.",
    )
    .history(&[("3.2.0", "Argument `count`.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn spop(ctx: &mut Context<'_>) -> Outcome {
    match ctx.argc() {
        2 => spop_one(ctx),
        3 => spop_many(ctx),
        _ => Err(Error::Syntax),
    }
}

fn spop_one(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let (recording, due_ms) = (keys.effects.recording, keys.due_ms());
    let popped = with_random(keys, |keys, random| {
        let Some(mut set) = keys.write::<Set>(&key)? else { return Ok(None) };
        if set.next_expiry_ms() <= due_ms {
            drop(set);
            keys.expire_all_parts::<Set>(&key);
            let Some(live) = keys.write::<Set>(&key)? else { return Ok(None) };
            set = live;
        }
        Ok::<_, Error>(set.pop(due_ms, random, |member| {
            bulk(reply, member);
            recording.then(|| member.to_vec())
        }))
    })?;
    let Some(member) = popped else {
        ctx.reply.null();
        return Ok(());
    };
    let keys = &mut *ctx.keys;
    keys.dirty += 1;
    keys.effects.replace(keys.db(), || [b"SREM".to_vec(), key.bytes.to_vec(), member.unwrap_or_default()]);
    note(keys, &key, "spop");
    delete_if_empty(keys, &key);
    Ok(())
}

/// Runs `work` with the thread's generator apart from the keys, which otherwise own it.
fn with_random<R>(keys: &mut Keys, work: impl FnOnce(&mut Keys, &mut Random) -> R) -> R {
    let mut random = keys.random.clone();
    let result = work(keys, &mut random);
    keys.random = random;
    result
}

fn spop_many(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let limits = ctx.settings.set_limits;
    let count = ctx.int(2).ok().and_then(|count| usize::try_from(count).ok()).ok_or(Error::NotPositive)?;
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    if keys.write::<Set>(&key)?.is_some_and(|set| set.next_expiry_ms() <= due_ms) {
        keys.expire_all_parts::<Set>(&key);
    }
    let len = keys.get(&key).and_then(|entry| entry.object::<Set>()).map_or(0, |set| set.live_len(due_ms));
    let count = count.min(len);
    reply.set(count);
    if count == 0 {
        return Ok(());
    }
    keys.dirty += count as u64;
    note(keys, &key, "spop");
    if count == len {
        if let Some(set) = keys.write::<Set>(&key)? {
            set.live(due_ms).for_each(|member| bulk(reply, member));
        }
        let word = keys.effects.deletions.removal.command();
        keys.effects.replace(keys.db(), || [word, key.bytes]);
        keys.delete(&key);
        keys.effects.event(EventClass::GENERIC, "del", keys.db(), key.bytes);
        return Ok(());
    }
    let recording = keys.effects.recording;
    let mut popped: Vec<Vec<u8>> = Vec::new();
    with_random(keys, |keys, random| {
        if let Some(mut set) = keys.write::<Set>(&key)? {
            set.pop_many(count, due_ms, limits, random, |member| {
                bulk(reply, member);
                if recording {
                    popped.push(member.to_vec());
                }
            });
        }
        Ok::<_, Error>(())
    })?;
    for batch in popped.chunks(SREM_BATCH) {
        let command = [b"SREM".as_slice(), key.bytes];
        keys.effects.replace(keys.db(), || command.into_iter().chain(batch.iter().map(Vec::as_slice)));
    }
    Ok(())
}

pub(super) static SRANDMEMBER: Command<Handler> = command("srandmember", -2, srandmember as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 ?count:i^2.6.0")
    .doc(
        Group::Set,
        "1.0.0",
        "O(N), N being the number of members returned",
        "Returns random members of a set.",
    )
    .history(&[("2.6.0", "Argument `count`, which may be left out.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn srandmember(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let mut rest = ctx.rest(2);
    let count = rest.value().ok();
    rest.finish()?;
    let count = count.map(symmetric).transpose()?;
    if count.is_some_and(|count| count < -REPEATS_MAX) {
        return Err(Error::OutOfRange);
    }
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let mut random = keys.random.clone();
    let mut set = keys.read::<Set>(&key)?;
    if set.is_some_and(|set| set.next_expiry_ms() <= due_ms) {
        keys.expire_all_parts::<Set>(&key);
        set = keys.get(&key).and_then(|entry| entry.object::<Set>());
    }
    match (set, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => match set.random(due_ms, &mut random) {
            Some(member) => bulk(reply, member),
            None => reply.null(),
        },
        (Some(set), Some(count @ ..0)) => {
            let count = if set.live_len(due_ms) > 0 { count.unsigned_abs() } else { 0 };
            reply.array(count as usize);
            for _ in 0..count {
                set.random(due_ms, &mut random).into_iter().for_each(|member| bulk(reply, member));
                if reply.is_full() {
                    break;
                }
            }
        }
        (Some(set), Some(count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(set.live_len(due_ms));
            reply.array(count);
            set.sample(count, due_ms, &mut random, |member| bulk(reply, member));
        }
    }
    keys.random = random;
    Ok(())
}
