//! Popping: the lowest or highest members of one sorted set, or of the first of several that has any, waiting
//! for one or not.

use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::zset::ZSet;

use super::{delete_if_empty, entries, note};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};
use crate::list::{at_least, bulk};

const POPS: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);
const FAST: Flags = Flags::WRITE.with(Flags::FAST);
const BLOCKS: Flags = Flags::WRITE.with(Flags::BLOCKING);
const LOG_N_EACH: &str = "O(M * log N), N being the number of members and M that of those popped";
const KEYS_AND_LOG_N: &str =
    "O(K + M * log N), K being the number of keys, N that of members and M that of those popped";

/// Which end members are popped from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Min,
    Max,
}

impl Side {
    fn event(self) -> &'static str {
        if self == Side::Min { "zpopmin" } else { "zpopmax" }
    }

    /// The command that pops at this side, as it is journalled.
    fn effect(self) -> &'static [u8] {
        if self == Side::Min { b"ZPOPMIN" } else { b"ZPOPMAX" }
    }
}

/// Removes up to `count` entries of a sorted set that is there, after `write` got them: the set, their ranks,
/// and whether the highest comes first. Returns their number.
fn pop(
    keys: &mut Keys,
    reply: &mut Reply,
    key: &Key<'_>,
    side: Side,
    count: usize,
    write: impl FnOnce(&mut Reply, martlet_types::zset::Entries<'_>),
) -> Result<usize, Error> {
    let Some(mut set) = keys.write::<ZSet>(key)? else { return Ok(0) };
    let count = count.min(set.len());
    let ranks = match side {
        Side::Min => 0..count,
        Side::Max => set.len() - count..set.len(),
    };
    write(reply, set.range(ranks.clone(), side == Side::Max));
    set.remove_range(ranks, |_| ());
    drop(set);
    keys.dirty += count as u64;
    note(keys, key, side.event());
    delete_if_empty(keys, key);
    Ok(count)
}

pub(super) static ZPOPMIN: Command<Handler> = command("zpopmin", -2, zpopmin as Handler)
    .flags(FAST)
    .keys(&[KeyPart::one(1, POPS)])
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 ?count:i")
    .doc(
        Group::SortedSet,
        "5.0.0",
        LOG_N_EACH,
        "Removes and returns the members of a sorted set with the lowest scores.",
    );

fn zpopmin(ctx: &mut Context<'_>) -> Outcome {
    pop_from_one(ctx, Side::Min)
}

pub(super) static ZPOPMAX: Command<Handler> = command("zpopmax", -2, zpopmax as Handler)
    .flags(FAST)
    .keys(&[KeyPart::one(1, POPS)])
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 ?count:i")
    .doc(
        Group::SortedSet,
        "5.0.0",
        LOG_N_EACH,
        "Removes and returns the members of a sorted set with the highest scores.",
    );

fn zpopmax(ctx: &mut Context<'_>) -> Outcome {
    pop_from_one(ctx, Side::Max)
}

fn pop_from_one(ctx: &mut Context<'_>, side: Side) -> Outcome {
    if ctx.argc() > 3 {
        return Err(Error::Syntax);
    }
    let count = ctx.args.get(2).map(|text| at_least(0, text, "ERR value is out of range, must be positive"));
    let count = count.transpose()?.map(|count| count as usize);
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    if keys.write::<ZSet>(&key)?.is_none() || count == Some(0) {
        reply.array(0);
        return Ok(());
    }
    pop(keys, reply, &key, side, count.unwrap_or(1), |reply, mut popped| match count {
        Some(_) => entries(reply, popped, true),
        // One member is not put into a pair, not even in RESP3.
        None => {
            reply.array(2);
            if let Some(entry) = popped.next() {
                bulk(reply, entry.member);
                reply.double(entry.score);
            }
        }
    })?;
    Ok(())
}

/// The first of these arguments that is a key with a sorted set.
///
/// # Errors
/// A key before it holds another type.
fn first_set(ctx: &mut Context<'_>, keys: std::ops::Range<usize>) -> Result<Option<usize>, Error> {
    for index in keys {
        if ctx.keys.write::<ZSet>(&ctx.key(index))?.is_some() {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Pops up to `count` members of the sorted set at argument `index`, answered with its key, in pairs.
fn pop_with_key(ctx: &mut Context<'_>, index: usize, side: Side, count: usize) -> Outcome {
    let key = ctx.key(index);
    let Context { keys, reply, .. } = ctx;
    let popped = pop(keys, reply, &key, side, count, |reply, popped| {
        reply.array(2);
        reply.bulk(key.bytes);
        reply.array(popped.len());
        for entry in popped {
            reply.array(2);
            bulk(reply, entry.member);
            reply.double(entry.score);
        }
    })?;
    keys.effects
        .replace(keys.db(), || [side.effect().to_vec(), key.bytes.to_vec(), popped.to_string().into_bytes()]);
    Ok(())
}

/// The arguments of ZMPOP and BZMPOP from the number of keys on.
struct Multi {
    keys: std::ops::Range<usize>,
    side: Side,
    count: usize,
}

impl Multi {
    fn parse(ctx: &Context<'_>, number_index: usize) -> Result<Multi, Error> {
        let mut rest = ctx.rest(number_index);
        let number = rest.at_least(1, "ERR numkeys should be greater than 0")?;
        let keys = rest.span(number)?;
        let side = rest.one_of(&[("MIN", Side::Min), ("MAX", Side::Max)]).ok_or(Error::Syntax)?;
        let mut count = 1;
        if rest.option("COUNT", 1) {
            count = rest.at_least(1, "ERR count should be greater than 0")? as usize;
        }
        rest.finish()?;
        Ok(Multi { keys, side, count })
    }
}

pub(super) static ZMPOP: Command<Handler> = command("zmpop", -4, zmpop as Handler)
    .flags(Flags::WRITE.with(Flags::MOVABLE_KEYS))
    .keys(&[KeyPart::counted(1, POPS)])
    .acl(Acl::SORTED_SET)
    .syntax("numkeys:i *key:k0 where(MIN|MAX) ?count:i=COUNT")
    .doc(
        Group::SortedSet,
        "7.0.0",
        KEYS_AND_LOG_N,
        "Removes and returns the lowest or highest members of the first sorted set that has any.",
    );

fn zmpop(ctx: &mut Context<'_>) -> Outcome {
    let Multi { keys, side, count } = Multi::parse(ctx, 1)?;
    match first_set(ctx, keys)? {
        Some(index) => pop_with_key(ctx, index, side, count),
        None => {
            ctx.reply.null_array();
            Ok(())
        }
    }
}

pub(super) static BZMPOP: Command<Handler> = command("bzmpop", -5, bzmpop as Handler)
    .flags(BLOCKS.with(Flags::MOVABLE_KEYS))
    .keys(&[KeyPart::counted(2, POPS)])
    .acl(Acl::SORTED_SET)
    .syntax("timeout:d numkeys:i *key:k0 where(MIN|MAX) ?count:i=COUNT")
    .doc(
        Group::SortedSet,
        "7.0.0",
        KEYS_AND_LOG_N,
        "Removes and returns the lowest or highest members of the first sorted set that has any; waits for one if none has.",
    );

fn bzmpop(ctx: &mut Context<'_>) -> Outcome {
    let Multi { keys, side, count } = Multi::parse(ctx, 2)?;
    let deadline_ms = ctx.deadline_ms(1)?;
    match first_set(ctx, keys.clone())? {
        Some(index) => pop_with_key(ctx, index, side, count),
        None => ctx.block_on(Block::new(Wait::value::<ZSet>(keys), deadline_ms, TimeoutReply::NullArray)),
    }
}

pub(super) static BZPOPMIN: Command<Handler> = command("bzpopmin", -3, bzpopmin as Handler)
    .flags(BLOCKS.with(Flags::FAST))
    .keys(&[KeyPart::range(1, -2, 1, POPS)])
    .acl(Acl::SORTED_SET)
    .syntax("*key:k0 timeout:d")
    .doc(
        Group::SortedSet,
        "5.0.0",
        KEYS_AND_LOG_N,
        "Removes and returns the lowest member of the first sorted set that has any; waits for one if none has.",
    )
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

fn bzpopmin(ctx: &mut Context<'_>) -> Outcome {
    blocking_pop(ctx, Side::Min)
}

pub(super) static BZPOPMAX: Command<Handler> = command("bzpopmax", -3, bzpopmax as Handler)
    .flags(BLOCKS.with(Flags::FAST))
    .keys(&[KeyPart::range(1, -2, 1, POPS)])
    .acl(Acl::SORTED_SET)
    .syntax("*key:k0 timeout:d")
    .doc(
        Group::SortedSet,
        "5.0.0",
        KEYS_AND_LOG_N,
        "Removes and returns the highest member of the first sorted set that has any; waits for one if none has.",
    )
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

fn bzpopmax(ctx: &mut Context<'_>) -> Outcome {
    blocking_pop(ctx, Side::Max)
}

fn blocking_pop(ctx: &mut Context<'_>, side: Side) -> Outcome {
    let last = ctx.argc() - 1;
    let deadline_ms = ctx.deadline_ms(last)?;
    let Some(index) = first_set(ctx, 1..last)? else {
        return ctx.block_on(Block::new(Wait::value::<ZSet>(1..last), deadline_ms, TimeoutReply::NullArray));
    };
    let key = ctx.key(index);
    let Context { keys, reply, .. } = ctx;
    pop(keys, reply, &key, side, 1, |reply, popped| {
        reply.array(3);
        reply.bulk(key.bytes);
        for entry in popped {
            bulk(reply, entry.member);
            reply.double(entry.score);
        }
    })?;
    keys.effects.replace(keys.db(), || [side.effect(), key.bytes]);
    Ok(())
}
