//! Strings.
use martlet_engine::EventClass;
use martlet_keyspace::ExpiryChange;

use crate::Handler;
use crate::context::Context;
use crate::error::Outcome;
use crate::spec::{Acl, Command, Flags, Group, KeyFlags, KeyPart, command};

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[&GET];

static GET: Command<Handler> = command("get", 2, get as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::STRING)
    .doc(Group::String, "1.0.0", "O(1)", "Returns the string value of a key.");

fn get(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let _ = (EventClass::STRING, ExpiryChange::Keep);
    match ctx.keys.read_str(&key)? {
        Some(value) => ctx.reply.bulk(value.bytes(&mut Default::default())),
        None => ctx.reply.null(),
    }
    Ok(())
}
