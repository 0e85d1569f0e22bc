//! Popping: one element or several, from one list or the first of several that has any, waiting for one or
//! not.

use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::list::{End, List, ListLimit};

use super::{after_removal, array, at_least, bulk, discard};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};

const POPS: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);
const BLOCKS: Flags = Flags::WRITE.with(Flags::BLOCKING);

/// The event of a removal from this end.
pub(super) fn event(end: End) -> &'static str {
    if end == End::Head { "lpop" } else { "rpop" }
}

/// The command that pops at this end, as it is journalled.
fn effect(end: End) -> &'static [u8] {
    if end == End::Head { b"LPOP" } else { b"RPOP" }
}

/// The end that LEFT or RIGHT names.
pub(super) fn side(rest: &mut Cursor<'_>) -> Result<End, Error> {
    rest.one_of(&[("LEFT", End::Head), ("RIGHT", End::Tail)]).ok_or(Error::Syntax)
}

pub(super) static LPOP: Command<Handler> = command("lpop", -2, lpop as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, POPS)])
    .acl(Acl::LIST)
    .syntax("key:k0 ?count:i^6.2.0")
    .doc(
        Group::List,
        "1.0.0",
        "O(N), N being the number of elements returned",
        "Removes and returns the first elements of a list.",
    )
    .history(&[("6.2.0", "Argument `count`.")]);

fn lpop(ctx: &mut Context<'_>) -> Outcome {
    pop(ctx, End::Head, "lpop")
}

pub(super) static RPOP: Command<Handler> = command("rpop", -2, rpop as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, POPS)])
    .acl(Acl::LIST)
    .syntax("key:k0 ?count:i^6.2.0")
    .doc(
        Group::List,
        "1.0.0",
        "O(N), N being the number of elements returned",
        "Removes and returns the last elements of a list.",
    )
    .history(&[("6.2.0", "Argument `count`.")]);

fn rpop(ctx: &mut Context<'_>) -> Outcome {
    pop(ctx, End::Tail, "rpop")
}

fn pop(ctx: &mut Context<'_>, end: End, name: &'static str) -> Outcome {
    let count = match ctx.argc() {
        2 => None,
        3 => Some(at_least(0, ctx.arg(2), "ERR value is out of range, must be positive")?),
        _ => return Err(Error::Arity(name)),
    };
    let key = ctx.key(1);
    let Some(mut list) = ctx.keys.write::<List>(&key)? else {
        match count {
            Some(_) => ctx.reply.null_array(),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    match count {
        Some(0) => {
            ctx.reply.array(0);
            Ok(())
        }
        Some(count) => {
            array(ctx.reply, elements_at(&list, end, count as usize));
            drop(list);
            remove_counted(ctx.keys, &key, end, count, ctx.settings.list_limit).map(drop)
        }
        None => {
            list.pop_with(end, |element| bulk(ctx.reply, element));
            list.after_shrink(ctx.settings.list_limit);
            drop(list);
            after_removal(ctx.keys, &key, event(end), 1);
            Ok(())
        }
    }
}

/// Up to `count` elements from an end on, in the order in which they would be popped.
pub(super) fn elements_at(
    list: &List,
    end: End,
    count: usize,
) -> impl ExactSizeIterator<Item = martlet_types::element::Element<'_>> {
    let all = match end {
        End::Head => list.iter(),
        End::Tail => list.iter_back_from(list.len().saturating_sub(1)),
    };
    all.take(count)
}

/// Removes up to `count` elements at an end of an existing list; how many.
fn remove_counted(
    keys: &mut Keys,
    key: &Key<'_>,
    end: End,
    count: i64,
    limit: ListLimit,
) -> Result<usize, Error> {
    let Some(mut list) = keys.write::<List>(key)? else { return Ok(0) };
    let removed = list.len().min(count as usize);
    let debris = list.cut(end, removed);
    list.after_shrink(limit);
    drop(list);
    discard(keys, debris);
    after_removal(keys, key, event(end), removed);
    Ok(removed)
}

/// The first of these arguments that is a key with a list.
///
/// # Errors
/// A key before it holds another type.
fn first_list(ctx: &mut Context<'_>, keys: std::ops::Range<usize>) -> Result<Option<usize>, Error> {
    for index in keys {
        if ctx.keys.write::<List>(&ctx.key(index))?.is_some() {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Pops up to `count` elements of the list at argument `index`, answered with its key.
fn pop_with_key(ctx: &mut Context<'_>, index: usize, end: End, count: i64) -> Outcome {
    let key = ctx.key(index);
    let Some(list) = ctx.keys.write::<List>(&key)? else { return Ok(()) };
    ctx.reply.array(2);
    ctx.reply.bulk(key.bytes);
    array(ctx.reply, elements_at(&list, end, count as usize));
    drop(list);
    let removed = remove_counted(ctx.keys, &key, end, count, ctx.settings.list_limit)?;
    ctx.keys.effects.replace(ctx.keys.db(), || {
        [effect(end).to_vec(), key.bytes.to_vec(), removed.to_string().into_bytes()]
    });
    Ok(())
}

/// The arguments of LMPOP and BLMPOP from the number of keys on.
struct Multi {
    keys: std::ops::Range<usize>,
    end: End,
    count: i64,
}

impl Multi {
    fn parse(ctx: &Context<'_>, number_index: usize) -> Result<Multi, Error> {
        let mut rest = ctx.rest(number_index);
        let number = rest.at_least(1, "ERR numkeys should be greater than 0")?;
        let keys = rest.span(number)?;
        let end = side(&mut rest)?;
        let mut count = 1;
        if rest.option("COUNT", 1) {
            count = rest.at_least(1, "ERR count should be greater than 0")?;
        }
        rest.finish()?;
        Ok(Multi { keys, end, count })
    }
}

pub(super) static LMPOP: Command<Handler> = command("lmpop", -4, lmpop as Handler)
    .flags(Flags::WRITE.with(Flags::MOVABLE_KEYS))
    .keys(&[KeyPart::counted(1, POPS)])
    .acl(Acl::LIST)
    .syntax("numkeys:i *key:k0 where(LEFT|RIGHT) ?count:i=COUNT")
    .doc(
        Group::List,
        "7.0.0",
        "O(N+M), N being the number of keys and M that of elements returned",
        "Removes and returns elements of the first list that has any.",
    );

fn lmpop(ctx: &mut Context<'_>) -> Outcome {
    let Multi { keys, end, count } = Multi::parse(ctx, 1)?;
    match first_list(ctx, keys)? {
        Some(index) => pop_with_key(ctx, index, end, count),
        None => {
            ctx.reply.null_array();
            Ok(())
        }
    }
}

pub(super) static BLMPOP: Command<Handler> = command("blmpop", -5, blmpop as Handler)
    .flags(BLOCKS.with(Flags::MOVABLE_KEYS))
    .keys(&[KeyPart::counted(2, POPS)])
    .acl(Acl::LIST)
    .syntax("timeout:d numkeys:i *key:k0 where(LEFT|RIGHT) ?count:i=COUNT")
    .doc(
        Group::List,
        "7.0.0",
        "O(N+M), N being the number of keys and M that of elements returned",
        "Removes and returns elements of the first list that has any; waits for one if none has.",
    );

fn blmpop(ctx: &mut Context<'_>) -> Outcome {
    let Multi { keys, end, count } = Multi::parse(ctx, 2)?;
    let deadline_ms = ctx.deadline_ms(1)?;
    match first_list(ctx, keys.clone())? {
        Some(index) => pop_with_key(ctx, index, end, count),
        None => ctx.block_on(Block::new(Wait::value::<List>(keys), deadline_ms, TimeoutReply::NullArray)),
    }
}

pub(super) static BLPOP: Command<Handler> = command("blpop", -3, blpop as Handler)
    .flags(BLOCKS)
    .keys(&[KeyPart::range(1, -2, 1, POPS)])
    .acl(Acl::LIST)
    .syntax("*key:k0 timeout:d")
    .doc(
        Group::List,
        "2.0.0",
        "O(N), N being the number of keys",
        "Removes and returns the first element of the first list that has any; waits for one if none has.",
    )
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

fn blpop(ctx: &mut Context<'_>) -> Outcome {
    blocking_pop(ctx, End::Head)
}

pub(super) static BRPOP: Command<Handler> = command("brpop", -3, brpop as Handler)
    .flags(BLOCKS)
    .keys(&[KeyPart::range(1, -2, 1, POPS)])
    .acl(Acl::LIST)
    .syntax("*key:k0 timeout:d")
    .doc(
        Group::List,
        "2.0.0",
        "O(N), N being the number of keys",
        "Removes and returns the last element of the first list that has any; waits for one if none has.",
    )
    .history(&[("6.0.0", "`timeout` may have a fraction.")]);

fn brpop(ctx: &mut Context<'_>) -> Outcome {
    blocking_pop(ctx, End::Tail)
}

fn blocking_pop(ctx: &mut Context<'_>, end: End) -> Outcome {
    let last = ctx.argc() - 1;
    let deadline_ms = ctx.deadline_ms(last)?;
    let Some(index) = first_list(ctx, 1..last)? else {
        return ctx.block_on(Block::new(Wait::value::<List>(1..last), deadline_ms, TimeoutReply::NullArray));
    };
    let key = ctx.key(index);
    let Some(mut list) = ctx.keys.write::<List>(&key)? else { return Ok(()) };
    ctx.reply.array(2);
    ctx.reply.bulk(key.bytes);
    list.pop_with(end, |element| bulk(ctx.reply, element));
    list.after_shrink(ctx.settings.list_limit);
    drop(list);
    after_removal(ctx.keys, &key, event(end), 1);
    ctx.keys.effects.replace(ctx.keys.db(), || [effect(end), key.bytes]);
    Ok(())
}
