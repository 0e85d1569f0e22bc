//! HIMPORT: hashes of the same fields, which a client names once.
//!
//! Invariant: a client's field sets are its connection's alone. Nothing of them is journalled: what HIMPORT
//! SET has made is recorded as a whole value.

use martlet_keyspace::Object;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command, container};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash};
use martlet_values::payload;

use super::note;
use crate::Handler;
use crate::context::Context;
use crate::fieldset::Fieldset;

pub(super) static HIMPORT: Command<Handler> =
    container("himport", -2, &[&PREPARE, &SET, &DISCARD, &DISCARDALL]).acl(Acl::HASH).doc(
        Group::Hash,
        "8.10.0",
        "Depends on the subcommand",
        "Makes hashes of the same fields, which are named once.",
    );

static PREPARE: Command<Handler> = command("himport|prepare", -4, prepare as Handler)
    .flags(Flags::DENYOOM)
    .acl(Acl::HASH)
    .syntax("fieldset-name *field")
    .doc(
        Group::Hash,
        "8.10.0",
        "O(N * log N), N being the number of fields",
        "Names the fields that hashes will have, for this connection.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn prepare(ctx: &mut Context<'_>) -> Outcome {
    let name = ctx.arg(2);
    let set = Fieldset::new(name, ctx.args.from(3).iter());
    let set = set.ok_or(Error::Fixed("ERR duplicate field name in fieldset"))?;
    ctx.fieldsets.insert(name, set);
    ctx.reply.ok();
    Ok(())
}

static SET: Command<Handler> = command("himport|set", -5, set as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(2, KeyFlags::OW.with(KeyFlags::UPDATE))])
    .acl(Acl::HASH)
    .syntax("key:k0 fieldset-name *value")
    .doc(
        Group::Hash,
        "8.10.0",
        "O(N), N being the number of fields",
        "Makes a hash of prepared fields and these values, in place of the key's earlier hash.",
    );

fn set(ctx: &mut Context<'_>) -> Outcome {
    let (key, values) = (ctx.key(2), ctx.args.from(4));
    ctx.keys.write::<Hash>(&key)?;
    let set = ctx.fieldsets.get(ctx.args.at(3)).ok_or(Error::Fixed("ERR no such fieldset"))?;
    if values.len() != set.fields().len() {
        return Err(Error::Fixed("ERR value count does not match fieldset field count"));
    }
    let (limits, now_ms) = (ctx.settings.hash_limits, ctx.keys.now_ms());
    let mut hash = Hash::new();
    let longest_value = values.iter().map(<[u8]>::len).max().unwrap_or(0);
    hash.before_growth(set.fields().len(), set.longest_bytes().max(longest_value), limits);
    for (name, place) in set.fields() {
        let value = Element::parse(values.at(*place));
        hash.set(name, value, FieldExpiry::Clear, limits, now_ms);
    }
    let compress = ctx.settings.rdb_compression;
    let value = hash.into_value();
    let payload = ctx.keys.effects.recording.then(|| payload::dump(value.view(), compress));
    ctx.keys.set_value(&key, value, None);
    let names = set.fields().iter().map(|(name, _)| name.as_ref());
    ctx.keys.dirty += 1;
    note(ctx.keys, &key, "hset", names);
    if let Some(payload) = payload {
        ctx.keys
            .effects
            .replace(ctx.keys.db(), || [b"RESTORE".as_slice(), key.bytes, b"0", &payload, b"REPLACE"]);
    }
    ctx.reply.ok();
    Ok(())
}

static DISCARD: Command<Handler> = command("himport|discard", 3, discard as Handler)
    .acl(Acl::HASH)
    .syntax("fieldset-name")
    .doc(Group::Hash, "8.10.0", "O(N), N being the number of fields", "Forgets prepared fields.")
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn discard(ctx: &mut Context<'_>) -> Outcome {
    let was_there = ctx.fieldsets.remove(ctx.args.at(2));
    ctx.reply.int(i64::from(was_there));
    Ok(())
}

static DISCARDALL: Command<Handler> = command("himport|discardall", 2, discard_all as Handler)
    .acl(Acl::HASH)
    .doc(
        Group::Hash,
        "8.10.0",
        "O(N), N being the number of sets of fields",
        "Forgets all prepared fields of this connection.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn discard_all(ctx: &mut Context<'_>) -> Outcome {
    let were_there = ctx.fieldsets.clear();
    ctx.reply.count(were_there);
    Ok(())
}
