//! Whether keys are there, and deleting them.

use martlet_engine::EventClass;
use martlet_spec::{Acl, Command, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};

use crate::Handler;
use crate::context::Context;

const MANY_TO_DELETE: &[KeyPart] = &[KeyPart::range(1, -1, 1, KeyFlags::RM.with(KeyFlags::DELETE))];
const MANY_TO_ASK: &[KeyPart] = &[KeyPart::range(1, -1, 1, KeyFlags::RO)];
const PER_KEY: &str = "O(N), N being the number of keys";

pub(super) static DEL: Command<Handler> = command("del", -2, del as Handler)
    .flags(Flags::WRITE)
    .keys(MANY_TO_DELETE)
    .acl(Acl::KEYSPACE)
    .syntax("*key:k0")
    .doc(Group::Generic, "1.0.0", PER_KEY, "Deletes keys; large values are freed in the background.")
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_AGG_SUM]);

fn del(ctx: &mut Context<'_>) -> Outcome {
    let mut deleted = 0;
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        if ctx.keys.delete(&key) {
            ctx.keys.changed(&key, EventClass::GENERIC, "del");
            deleted += 1;
        }
    }
    ctx.reply.int(deleted);
    Ok(())
}

pub(super) static UNLINK: Command<Handler> = command("unlink", -2, del as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(MANY_TO_DELETE)
    .acl(Acl::KEYSPACE)
    .syntax("*key:k0")
    .doc(Group::Generic, "4.0.0", PER_KEY, "Deletes keys and frees their values in the background.")
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_AGG_SUM]);

pub(super) static EXISTS: Command<Handler> = command("exists", -2, exists as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(MANY_TO_ASK)
    .acl(Acl::KEYSPACE)
    .syntax("*key:k0")
    .doc(Group::Generic, "1.0.0", PER_KEY, "Counts how many of the given keys exist.")
    .history(&[("3.0.3", "Takes several keys.")])
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_AGG_SUM]);

fn exists(ctx: &mut Context<'_>) -> Outcome {
    let mut found = 0;
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        found += i64::from(ctx.keys.lookup_quietly(&key).is_some());
    }
    ctx.reply.int(found);
    Ok(())
}

pub(super) static TYPE: Command<Handler> = command("type", 2, type_of as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "1.0.0", "O(1)", "Returns the type of a key's value.");

fn type_of(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let name = ctx.keys.lookup_quietly(&key).map_or("none", |entry| entry.type_name());
    ctx.reply.simple(name);
    Ok(())
}

pub(super) static TOUCH: Command<Handler> = command("touch", -2, touch as Handler)
    .flags(Flags::READONLY.with(Flags::FAST).with(Flags::IGNORES_NO_TOUCH))
    .keys(MANY_TO_ASK)
    .acl(Acl::KEYSPACE)
    .syntax("*key:k0")
    .doc(Group::Generic, "3.2.1", PER_KEY, "Notes an access to keys and counts how many of them exist.")
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_AGG_SUM]);

fn touch(ctx: &mut Context<'_>) -> Outcome {
    let mut found = 0;
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        found += i64::from(ctx.keys.lookup(&key).is_some());
    }
    ctx.reply.int(found);
    Ok(())
}
