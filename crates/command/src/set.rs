//! Sets: adding, removing, asking for members. Random choice is in `random`, set algebra in `algebra`, expiry
//! times in `expiry`.

mod algebra;
mod expiry;
mod random;
#[cfg(test)]
mod tests;

pub(crate) use random::REPEATS_MAX;

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_spec::{Acl, Command, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::set::Set;

use crate::Handler;
use crate::collection_scan::{self, ScanOptions};
use crate::context::Context;
use crate::list::bulk;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &SADD,
    &SREM,
    &SMEMBERS,
    &SISMEMBER,
    &SMISMEMBER,
    &SCARD,
    &SMOVE,
    &SSCAN,
    &random::SPOP,
    &random::SRANDMEMBER,
    &algebra::SINTER,
    &algebra::SINTERCARD,
    &algebra::SINTERSTORE,
    &algebra::SUNION,
    &algebra::SUNIONCARD,
    &algebra::SUNIONSTORE,
    &algebra::SDIFF,
    &algebra::SDIFFCARD,
    &algebra::SDIFFSTORE,
    &expiry::SADDEX,
    &expiry::SEXPIRE,
    &expiry::SEXPIREAT,
    &expiry::SEXPIRETIME,
    &expiry::SPERSIST,
    &expiry::SPEXPIRE,
    &expiry::SPEXPIREAT,
    &expiry::SPEXPIRETIME,
    &expiry::SPTTL,
    &expiry::STTL,
];

const RW_INSERT: KeyFlags = KeyFlags::RW.with(KeyFlags::INSERT);
const RW_ACCESS_DELETE: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);
const RO_ACCESS: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const READS_FAST: Flags = Flags::READONLY.with(Flags::FAST);

/// Says that a set was changed, without counting the change.
#[inline]
fn note(keys: &mut Keys, key: &Key<'_>, event: &'static str) {
    keys.signal(key);
    keys.effects.event(EventClass::SET, event, keys.db(), key.bytes);
}

/// As [`note`], of members that subscribers may want to know.
fn note_members<'m>(
    keys: &mut Keys,
    key: &Key<'_>,
    event: &'static str,
    members: impl IntoIterator<Item = &'m [u8]>,
) {
    keys.signal(key);
    keys.effects.event_of_subkeys(EventClass::SET, event, keys.db(), key.bytes, members);
}

/// Deletes the expired members of these sets, before a command stores a result of them. Replicas do not
/// decide which members have expired; without those the command has the same result there.
pub(crate) fn expire_operands(keys: &mut Keys, operands: &[Key<'_>]) {
    let due_ms = keys.due_ms();
    for key in operands {
        let set = keys.get(key).and_then(|entry| entry.object::<Set>());
        if set.is_some_and(|set| set.next_expiry_ms() <= due_ms) {
            keys.expire_all_parts::<Set>(key);
        }
    }
}

/// Deletes the expired ones of the members that a command is about to add; the set stays, even without
/// members. Replicas do not decide which members have expired; once these are deleted the command adds them
/// there too.
#[cold]
fn expire_before_adding<'m>(keys: &mut Keys, key: &Key<'_>, members: impl IntoIterator<Item = &'m [u8]>) {
    keys.expire_parts_only::<Set>(key, members);
}

/// Deletes a set that has lost its last member.
fn delete_if_empty(keys: &mut Keys, key: &Key<'_>) {
    if keys.delete_if_empty::<Set>(key) {
        keys.effects.event(EventClass::GENERIC, "del", keys.db(), key.bytes);
    }
}

static SADD: Command<Handler> = command("sadd", -3, sadd as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .member(2)
    .keys(&[KeyPart::one(1, RW_INSERT)])
    .acl(Acl::SET)
    .syntax("key:k0 *member")
    .doc(
        Group::Set,
        "1.0.0",
        "O(N), N being the number of members added",
        "Adds members to a set. Creates the key if it is not there.",
    )
    .history(&[("2.4.0", "Takes several members.")]);

fn sadd(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let members = ctx.args.from(2);
    let limits = ctx.settings.set_limits;
    let due_ms = ctx.keys.due_ms();
    let mut set = ctx.keys.create::<Set>(&key)?;
    if set.next_expiry_ms() <= due_ms {
        drop(set);
        expire_before_adding(ctx.keys, &key, members.iter());
        set = ctx.keys.create::<Set>(&key)?;
    }
    set.prepare(members.at(0), members.len(), limits);
    let added = members.iter().filter(|member| set.add(Element::Bytes(member), limits, due_ms)).count();
    drop(set);
    if added > 0 {
        ctx.keys.dirty += added as u64;
        note(ctx.keys, &key, "sadd");
    }
    ctx.reply.count(added);
    Ok(())
}

static SREM: Command<Handler> = command("srem", -3, srem as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .member(2)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::SET)
    .syntax("key:k0 *member")
    .doc(
        Group::Set,
        "1.0.0",
        "O(N), N being the number of members given",
        "Removes members from a set. Deletes the key with the last one.",
    )
    .history(&[("2.4.0", "Takes several members.")]);

fn srem(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let (mut removed, mut is_due) = (0, false);
    let due_ms = ctx.keys.due_ms();
    if let Some(mut set) = ctx.keys.write::<Set>(&key)? {
        is_due = set.next_expiry_ms() <= due_ms;
        removed = ctx.args.from(2).iter().filter(|member| set.remove(Element::Bytes(member), due_ms)).count();
    }
    if removed > 0 {
        ctx.keys.dirty += removed as u64;
        note(ctx.keys, &key, "srem");
        delete_if_empty(ctx.keys, &key);
    }
    if is_due {
        ctx.keys.expire_parts::<Set>(&key, ctx.args.from(2).iter());
    }
    ctx.reply.count(removed);
    Ok(())
}

static SMEMBERS: Command<Handler> = command("smembers", 2, smembers as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0")
    .doc(Group::Set, "1.0.0", "O(N), N being the number of members", "Returns all members of a set.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn smembers(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    match keys.read::<Set>(&key)? {
        Some(set) => {
            reply.set(set.live_len(due_ms));
            set.live(due_ms).for_each(|member| bulk(reply, member));
        }
        None => reply.set(0),
    }
    Ok(())
}

static SISMEMBER: Command<Handler> = command("sismember", 3, sismember as Handler)
    .flags(READS_FAST)
    .member(2)
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::SET)
    .syntax("key:k0 member")
    .doc(Group::Set, "1.0.0", "O(1)", "Checks whether a value is a member of a set.");

fn sismember(ctx: &mut Context<'_>) -> Outcome {
    let (key, member) = (ctx.key(1), Element::Bytes(ctx.arg(2)));
    let due_ms = ctx.keys.due_ms();
    let set = ctx.keys.read::<Set>(&key)?;
    let found = set.is_some_and(|set| set.contains(member, due_ms));
    let may_have_expired = !found && set.is_some_and(|set| set.next_expiry_ms() <= due_ms);
    ctx.reply.int(i64::from(found));
    if may_have_expired {
        ctx.keys.expire_parts::<Set>(&key, [ctx.arg(2)]);
    }
    Ok(())
}

static SMISMEMBER: Command<Handler> = command("smismember", -3, smismember as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 *member")
    .doc(
        Group::Set,
        "6.2.0",
        "O(N), N being the number of values",
        "Checks of each value whether it is a member of a set.",
    );

fn smismember(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let due_ms = keys.due_ms();
    let set = keys.read::<Set>(&key)?;
    let values = args.from(2);
    reply.array(values.len());
    for value in values.iter() {
        let found = set.is_some_and(|set| set.contains(Element::Bytes(value), due_ms));
        reply.int(i64::from(found));
    }
    if set.is_some_and(|set| set.next_expiry_ms() <= due_ms) {
        keys.expire_parts::<Set>(&key, values.iter());
    }
    Ok(())
}

static SCARD: Command<Handler> = command("scard", 2, scard as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::SET)
    .syntax("key:k0")
    .doc(Group::Set, "1.0.0", "O(1)", "Returns the number of members of a set.");

fn scard(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let due_ms = ctx.keys.due_ms();
    let mut set = ctx.keys.read::<Set>(&key)?;
    if set.is_some_and(|set| set.next_expiry_ms() <= due_ms) {
        // Deleting them takes as long as they are many; not counting them, as the set is large.
        ctx.keys.expire_all_parts::<Set>(&key);
        set = ctx.keys.get(&key).and_then(|entry| entry.object::<Set>());
    }
    let len = set.map_or(0, |set| set.live_len(due_ms));
    ctx.reply.count(len);
    Ok(())
}

static SMOVE: Command<Handler> = command("smove", 4, smove as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, RW_ACCESS_DELETE), KeyPart::one(2, RW_INSERT)])
    .acl(Acl::SET)
    .syntax("source:k0 destination:k1 member")
    .doc(Group::Set, "1.0.0", "O(1)", "Moves a member from one set to another.");

fn smove(ctx: &mut Context<'_>) -> Outcome {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let (text, member) = (ctx.arg(3), Element::Bytes(ctx.arg(3)));
    let limits = ctx.settings.set_limits;
    let due_ms = ctx.keys.due_ms();
    let has_member = match ctx.keys.write::<Set>(&source)? {
        Some(set) => set.contains(member, due_ms),
        None => {
            ctx.reply.int(0);
            return Ok(());
        }
    };
    ctx.keys.write::<Set>(&destination)?;
    ctx.reply.int(i64::from(has_member));
    if !has_member || source.bytes == destination.bytes {
        return Ok(());
    }
    if let Some(mut set) = ctx.keys.write::<Set>(&source)? {
        set.remove(member, due_ms);
    }
    ctx.keys.dirty += 1;
    note(ctx.keys, &source, "srem");
    delete_if_empty(ctx.keys, &source);
    let mut set = ctx.keys.create::<Set>(&destination)?;
    if set.next_expiry_ms() <= due_ms {
        drop(set);
        expire_before_adding(ctx.keys, &destination, [text]);
        set = ctx.keys.create::<Set>(&destination)?;
    }
    set.prepare(text, 1, limits);
    let added = set.add(member, limits, due_ms);
    drop(set);
    if added {
        ctx.keys.dirty += 1;
        note(ctx.keys, &destination, "sadd");
    }
    Ok(())
}

static SSCAN: Command<Handler> = command("sscan", -3, sscan as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 cursor:i ?pattern:p=MATCH ?count:i=COUNT")
    .doc(
        Group::Set,
        "2.8.0",
        "O(1) for every call, O(N) for all of them, N being the number of members",
        "Returns some members of a set and a cursor for the next call.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn sscan(ctx: &mut Context<'_>) -> Outcome {
    let cursor = collection_scan::cursor(ctx)?;
    let key = ctx.key(1);
    let options = ScanOptions::parse(ctx, None);
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let Some(set) = keys.read::<Set>(&key)? else {
        collection_scan::answer_empty(reply);
        return Ok(());
    };
    let options = options?;
    collection_scan::answer(reply, |reply| {
        let mut count = 0;
        let next = set.scan(cursor, options.count, due_ms, |member| {
            if options.takes(member.as_bytes(&mut IntBuffer::new())) {
                bulk(reply, member);
                count += 1;
            }
        });
        (next, count)
    });
    Ok(())
}
