//! Strings: whole values ([`value`]), several ([`many`]), conditions on them ([`condition`]), parts of them
//! ([`range`]), numbers ([`number`], [`bounded`]), and LCS.

use martlet_base::limits::SHARED_REPLY_MIN_BYTES;
use martlet_base::number::NumberBuffer;
use martlet_engine::{Deletion, EventClass, Keys, WrongType};
use martlet_keyspace::{Entry, Key, StrValue};
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use crate::Handler;
use crate::context::Context;

mod bounded;
mod condition;
mod lcs;
mod many;
mod number;
mod range;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use value::{expire_at, expires_relatively_around};

/// Deletes a key on request; that is recorded as DEL, whatever the settings for deletions by the way.
pub(crate) fn delete_as_asked(keys: &mut Keys, key: &Key<'_>) {
    if keys.delete(key) {
        keys.changed(key, EventClass::GENERIC, "del");
        keys.effects.replace(keys.db(), || [Deletion::Del.command(), key.bytes]);
    }
}

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
    &condition::DIGEST,
    &condition::DELEX,
    &condition::DELIFEQ,
    &many::MGET,
    &many::MSET,
    &many::MSETNX,
    &many::MSETEX,
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
    &bounded::INCREX,
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
