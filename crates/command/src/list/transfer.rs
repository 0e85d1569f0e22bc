//! Moving an element from one list to another, or within one.

use martlet_engine::WrongType;
use martlet_keyspace::Key;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::list::{End, List};

use super::pop::{event, side};
use super::{after_removal, note};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};

pub(super) const SOURCE: KeyPart =
    KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE));
pub(super) const DESTINATION: KeyPart = KeyPart::one(2, KeyFlags::RW.with(KeyFlags::INSERT));
pub(super) const MOVES: Flags = Flags::WRITE.with(Flags::DENYOOM);

pub(super) static LMOVE: Command<Handler> = command("lmove", 5, lmove as Handler)
    .flags(MOVES)
    .keys(&[SOURCE, DESTINATION])
    .acl(Acl::LIST)
    .syntax("source:k0 destination:k1 wherefrom(LEFT|RIGHT) whereto(LEFT|RIGHT)")
    .doc(
        Group::List,
        "6.2.0",
        "O(1)",
        "Removes an element at one list's end, puts it at another's, and returns it.",
    );

fn lmove(ctx: &mut Context<'_>) -> Outcome {
    let mut ends = ctx.rest(3);
    let (from, to) = (side(&mut ends)?, side(&mut ends)?);
    if !transfer(ctx, from, to)? {
        ctx.reply.null();
    }
    Ok(())
}

pub(super) static RPOPLPUSH: Command<Handler> = command("rpoplpush", 3, rpoplpush as Handler)
    .flags(MOVES)
    .keys(&[SOURCE, DESTINATION])
    .acl(Acl::LIST)
    .syntax("source:k0 destination:k1")
    .doc(
        Group::List,
        "1.2.0",
        "O(1)",
        "Removes a list's last element, puts it at another's head, and returns it.",
    )
    .deprecated("6.2.0", "`LMOVE` with `RIGHT` and `LEFT`");

fn rpoplpush(ctx: &mut Context<'_>) -> Outcome {
    if !transfer(ctx, End::Tail, End::Head)? {
        ctx.reply.null();
    }
    Ok(())
}

pub(super) static BLMOVE: Command<Handler> = command("blmove", 6, blmove as Handler)
    .flags(MOVES.with(Flags::BLOCKING))
    .keys(&[SOURCE, DESTINATION])
    .acl(Acl::LIST)
    .syntax("source:k0 destination:k1 wherefrom(LEFT|RIGHT) whereto(LEFT|RIGHT) timeout:d")
    .doc(
        Group::List,
        "6.2.0",
        "O(1)",
        "Removes an element at one list's end, puts it at another's, and returns it; waits while the list is empty.",
    );

fn blmove(ctx: &mut Context<'_>) -> Outcome {
    let mut ends = ctx.rest(3);
    let (from, to) = (side(&mut ends)?, side(&mut ends)?);
    let deadline_ms = ctx.deadline_ms(5)?;
    if !transfer(ctx, from, to)? {
        return wait(ctx, deadline_ms);
    }
    let args = ctx.args;
    ctx.keys.effects.replace(ctx.keys.db(), || {
        std::iter::once(b"LMOVE".as_slice()).chain((1..5).map(move |index| args.at(index)))
    });
    Ok(())
}

pub(super) static BRPOPLPUSH: Command<Handler> = command("brpoplpush", 4, brpoplpush as Handler)
    .flags(MOVES.with(Flags::BLOCKING))
    .keys(&[SOURCE, DESTINATION])
    .acl(Acl::LIST)
    .syntax("source:k0 destination:k1 timeout:d")
    .doc(
        Group::List,
        "2.2.0",
        "O(1)",
        "Removes a list's last element, puts it at another's head, and returns it; waits while the list is empty.",
    )
    .history(&[("6.0.0", "`timeout` may have a fraction.")])
    .deprecated("6.2.0", "`BLMOVE` with `RIGHT` and `LEFT`");

fn brpoplpush(ctx: &mut Context<'_>) -> Outcome {
    let deadline_ms = ctx.deadline_ms(3)?;
    if !transfer(ctx, End::Tail, End::Head)? {
        return wait(ctx, deadline_ms);
    }
    let args = ctx.args;
    ctx.keys.effects.replace(ctx.keys.db(), || [b"RPOPLPUSH", args.at(1), args.at(2)]);
    Ok(())
}

/// Waits for the source. Where that is not allowed the answer is a null, but a null array when time is up.
fn wait(ctx: &mut Context<'_>, deadline_ms: Option<i64>) -> Outcome {
    let on_timeout = if ctx.deny_blocking { TimeoutReply::Null } else { TimeoutReply::NullArray };
    ctx.block_on(Block::new(Wait::value::<List>([1]), deadline_ms, on_timeout))
}

/// Moves an element and answers it; false if the source is not there.
fn transfer(ctx: &mut Context<'_>, from: End, to: End) -> Result<bool, Error> {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let limit = ctx.settings.list_limit;
    if ctx.keys.write::<List>(&source)?.is_none() {
        return Ok(false);
    }
    // The destination's type counts before anything is changed.
    ctx.keys.write::<List>(&destination)?;
    let Some(mut list) = ctx.keys.write::<List>(&source)? else { return Ok(false) };
    let Some(value) = list.pop(from) else { return Ok(false) };
    drop(list);
    ctx.reply.bulk(&value);
    put(ctx, &destination, to, &value)?;
    if let Some(mut list) = ctx.keys.write::<List>(&source)? {
        list.after_shrink(limit);
    }
    after_removal(ctx.keys, &source, event(from), 1);
    Ok(true)
}

fn put(ctx: &mut Context<'_>, key: &Key<'_>, end: End, value: &[u8]) -> Result<(), WrongType> {
    let mut list = ctx.keys.create::<List>(key)?;
    list.before_growth(ctx.settings.list_limit, 1, value.len());
    list.push(end, value);
    drop(list);
    note(ctx.keys, key, push_event(end));
    Ok(())
}

/// The event of an addition at this end.
pub(super) fn push_event(end: End) -> &'static str {
    if end == End::Head { "lpush" } else { "rpush" }
}
