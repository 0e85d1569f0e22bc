//! Parts of a string: appending, overwriting and reading ranges.

use martlet_base::number::NumberBuffer;
use martlet_engine::EventClass;
use martlet_keyspace::ExpiryChange;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use super::READS;
use crate::Handler;
use crate::context::Context;

pub(super) static APPEND: Command<Handler> = command("append", 3, append as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::INSERT))])
    .acl(Acl::STRING)
    .syntax("key:k0 value")
    .doc(
        Group::String,
        "2.0.0",
        "O(1) amortized, for short additions",
        "Appends to the string value of a key, which is created if it does not exist.",
    );

fn append(ctx: &mut Context<'_>) -> Outcome {
    let (key, addition) = (ctx.key(1), ctx.arg(2));
    let old_len = ctx.keys.read_str_for_write(&key)?.map(|value| value.len());
    let len = match old_len {
        None => {
            ctx.set_str(&key, 2, ExpiryChange::Clear);
            addition.len()
        }
        Some(old_len) => {
            check_len(ctx, old_len, addition.len())?;
            ctx.keys.update_str(&key, old_len..old_len + addition.len(), |bytes| {
                martlet_base::copy::extend(bytes, addition);
                bytes.len()
            })
        }
    };
    ctx.keys.changed(&key, EventClass::STRING, "append");
    ctx.reply.count(len);
    Ok(())
}

fn check_len(ctx: &Context<'_>, a: usize, b: usize) -> Outcome {
    let fits = a.checked_add(b).is_some_and(|len| len <= ctx.settings.string_max_bytes);
    if fits { Ok(()) } else { Err(Error::StringTooLong) }
}

pub(super) static STRLEN: Command<Handler> = command("strlen", 2, strlen as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::STRING)
    .syntax("key:k0")
    .doc(Group::String, "2.2.0", "O(1)", "Returns the length of a string value.");

fn strlen(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let len = ctx.keys.read_str(&key)?.map_or(0, |value| value.len());
    ctx.reply.count(len);
    Ok(())
}

pub(super) static SETRANGE: Command<Handler> = command("setrange", 4, setrange as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::STRING)
    .syntax("key:k0 offset:i value")
    .doc(
        Group::String,
        "2.2.0",
        "O(M), M being the length of the written value",
        "Overwrites a part of a string value from an offset on; the key is created if it does not exist.",
    );

fn setrange(ctx: &mut Context<'_>) -> Outcome {
    let offset = ctx.int(2)?;
    let offset = usize::try_from(offset).map_err(|_| Error::Fixed("ERR offset is out of range"))?;
    let (key, patch) = (ctx.key(1), ctx.arg(3));
    let old_len = ctx.keys.read_str_for_write(&key)?.map_or(0, |value| value.len());
    if patch.is_empty() {
        ctx.reply.count(old_len);
        return Ok(());
    }
    check_len(ctx, offset, patch.len())?;
    let end = offset + patch.len();
    let write = |bytes: &mut [u8]| bytes[offset..end].copy_from_slice(patch);
    let in_place = end <= old_len && ctx.keys.change_bytes(&key, offset..end, write).is_some();
    if !in_place {
        ctx.keys.update_str(&key, offset..end, |bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            write(bytes);
        });
    }
    ctx.keys.changed(&key, EventClass::STRING, "setrange");
    ctx.reply.count(old_len.max(end));
    Ok(())
}

const GETRANGE_COMPLEXITY: &str = "O(N), N being the length of the returned text";

pub(super) static GETRANGE: Command<Handler> = command("getrange", 4, getrange as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(Acl::STRING)
    .syntax("key:k0 start:i end:i")
    .doc(Group::String, "2.4.0", GETRANGE_COMPLEXITY, "Returns a part of a string value.");

fn getrange(ctx: &mut Context<'_>) -> Outcome {
    let (start, end) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let mut buffer = NumberBuffer::new();
    let value = ctx.keys.read_str(&key)?;
    let bytes = value.map_or(&[][..], |value| value.bytes(&mut buffer));
    let len = bytes.len() as i64;
    let from_end = |at: i64| if at < 0 { (at + len).max(0) } else { at };
    // An end before the first byte counts as this one, unless start is behind it.
    let covered = match start < 0 && end < 0 && start > end {
        true => None,
        false => bytes.get(from_end(start) as usize..=from_end(end).min(len - 1) as usize),
    };
    ctx.reply.bulk(covered.unwrap_or(&[]));
    Ok(())
}

pub(super) static SUBSTR: Command<Handler> = command("substr", 4, getrange as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(Acl::STRING)
    .syntax("key:k0 start:i end:i")
    .doc(
        Group::String,
        "1.0.0",
        GETRANGE_COMPLEXITY,
        "Returns a part of a string value: GETRANGE's old name.",
    )
    .deprecated("2.0.0", "`GETRANGE`");
