//! Appending: ARINSERT, ARRING, and the cursor that they move. ARLASTITEMS looks back from it.

use martlet_base::number::parse_i64;
use martlet_keyspace::Value;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyPart, Outcome, command};
use martlet_types::array::{Array, INDEX_MAX};
use martlet_types::element::Element;

use super::{Bounds, FILLS, PLACES_MAX, READS_FAST, RO_ACCESS, RW_UPDATE, filled, note, parse_u64};
use crate::Handler;
use crate::context::Context;

pub(super) static ARINSERT: Command<Handler> = command("arinsert", -3, arinsert as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, RW_UPDATE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 *value")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of values",
        "Puts values behind the one of an array that was last appended.",
    );

fn arinsert(ctx: &mut Context<'_>) -> Outcome {
    let (key, limits) = (ctx.key(1), ctx.settings.array_limits);
    let values = ctx.args.from(2);
    let start = ctx.keys.write::<Array>(&key)?.map_or(0, |array| array.next_index());
    let count = values.len() as u64;
    let Some(last) = start.checked_add(count - 1).filter(|&last| last <= INDEX_MAX) else {
        return Err(Error::Fixed("ERR insert index overflow"));
    };
    let mut array = ctx.keys.create::<Array>(&key)?;
    array.set_run(start, count, values.iter().map(Element::parse), limits);
    array.set_cursor(Some(last));
    drop(array);
    filled(ctx.keys, &key, "arinsert", count);
    ctx.reply.unsigned(last);
    Ok(())
}

pub(super) static ARRING: Command<Handler> = command("arring", -4, arring as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, RW_UPDATE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 size:i *value")
    .doc(
        Group::Array,
        "8.8.0",
        "O(M), M being the number of values, or O(N+M) where the ring gets another size, N being the larger one",
        "Appends values to an array of a fixed size, in which the earliest ones are overwritten.",
    );

fn arring(ctx: &mut Context<'_>) -> Outcome {
    let size = parse_i64(ctx.arg(2)).ok_or(Error::Fixed("ERR invalid size"))?;
    let size = u64::try_from(size).ok().filter(|&size| size > 0);
    let size = size.ok_or(Error::Fixed("ERR size must be positive"))?;
    let (key, limits) = (ctx.key(1), ctx.settings.array_limits);
    let mut array = ctx.keys.create::<Array>(&key)?;
    let old = array.reshape_ring(size, limits);
    let mut last = 0;
    for value in ctx.args.from(3).iter() {
        last = array.next_index() % size;
        array.set(last, Element::parse(value), limits);
        array.set_cursor(Some(last));
    }
    drop(array);
    ctx.keys.discard(old.map(Value::Array));
    filled(ctx.keys, &key, "arring", (ctx.argc() - 3) as u64);
    ctx.reply.unsigned(last);
    Ok(())
}

pub(super) static ARNEXT: Command<Handler> = command("arnext", 2, arnext as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0")
    .doc(Group::Array, "8.8.0", "O(1)", "Returns the index at which ARINSERT puts its next value.");

fn arnext(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let next = ctx.keys.read::<Array>(&key)?.map_or(0, Array::next_index);
    if next > INDEX_MAX {
        ctx.reply.null()
    } else {
        ctx.reply.unsigned(next)
    }
    Ok(())
}

pub(super) static ARSEEK: Command<Handler> = command("arseek", 3, arseek as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, RW_UPDATE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 index:i")
    .doc(Group::Array, "8.8.0", "O(1)", "Sets the index at which ARINSERT and ARRING put their next value.");

fn arseek(ctx: &mut Context<'_>) -> Outcome {
    // The one above the last index means that there is no further one.
    let next = parse_u64(ctx.arg(2)).ok_or(super::INVALID_INDEX)?;
    let key = ctx.key(1);
    let Some(mut array) = ctx.keys.write::<Array>(&key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    array.set_cursor(next.checked_sub(1));
    drop(array);
    note(ctx.keys, &key, "arseek");
    ctx.keys.dirty += 1;
    ctx.reply.int(1);
    Ok(())
}

pub(super) static ARLASTITEMS: Command<Handler> = command("arlastitems", -3, arlastitems as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 count:i ?REV")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the count",
        "Returns the elements of an array up to the one that was last appended.",
    );

fn arlastitems(ctx: &mut Context<'_>) -> Outcome {
    let count = parse_i64(ctx.arg(2)).ok_or(Error::Fixed("ERR invalid COUNT"))?;
    let Some(count) = u64::try_from(count).ok().filter(|&count| count > 0) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let is_reverse = match ctx.argc() {
        3 => false,
        4 if ctx.arg(3).eq_ignore_ascii_case(b"REV") => true,
        4 => return Err(Error::Syntax),
        _ => return Err(Error::Arity("arlastitems")),
    };
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let Some(array) = keys.read::<Array>(&key)? else {
        reply.array(0);
        return Ok(());
    };
    let extent = array.extent();
    let count = count.min(extent);
    if count > array.len() as u64 && count > PLACES_MAX {
        return Err(Error::Text(format!("ERR count exceeds maximum of {PLACES_MAX} items")));
    }
    reply.array(count as usize);
    if count == 0 {
        return Ok(());
    }
    let last = array.cursor().filter(|&cursor| cursor < extent).unwrap_or(extent - 1);
    // Up to the last one, and before the first of those from the highest index down.
    let near = Bounds { low: (last + 1).saturating_sub(count), high: last, is_reverse };
    let wrapped = count.saturating_sub(last + 1);
    let far = (wrapped > 0).then(|| Bounds { low: extent - wrapped, high: extent - 1, is_reverse });
    if is_reverse {
        near.write(reply, array);
    }
    if let Some(far) = far {
        far.write(reply, array);
    }
    if !is_reverse {
        near.write(reply, array);
    }
    Ok(())
}
