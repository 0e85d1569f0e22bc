//! Expiry times of members: setting, reading, removing; adding members with a time. Replies, errors, events
//! and what is recorded are those of Redis' change #15938.

#[cfg(test)]
mod tests;

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::Element;
use martlet_types::set::{NO_EXPIRY, Set};

use super::{READS_FAST, RO_ACCESS, delete_if_empty, note_members};
use crate::Handler;
use crate::context::Context;
use crate::string::expires_relatively_around;
use crate::times::{CONDITION_NOT_MET, Condition, DELETED, DONE, NO_PART, NO_TIME, TimeUnit};

const BY_MEMBERS: &str = "O(N), N being the number of members given";
const RW_UPDATE: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))];
/// Setting or removing a time is not refused for want of memory.
const WRITES: Flags = Flags::WRITE.with(Flags::FAST);

/// Redis' bound on a number of members, an `int`.
const MEMBERS_MAX: i64 = i32::MAX as i64;

/// Takes `count member…`, as many as there are to be; `bad_count` is the error for an invalid count.
fn take_members<'a>(rest: &mut Cursor<'a>, bad_count: &'static str) -> Result<Args<'a>, Error> {
    let count = rest.at_least(1, bad_count)?;
    if count > MEMBERS_MAX {
        return Err(Error::Fixed(bad_count));
    }
    let members = rest.args();
    rest.span(count).map_err(|_| Error::Fixed("ERR wrong number of arguments"))?;
    Ok(members.first(count as usize))
}

/// The error for an option that the command does not have.
fn unknown(rest: &Cursor<'_>) -> Error {
    Error::quoting("ERR unknown argument: ", rest.peek().unwrap_or_default(), "")
}

const REPEATED_MEMBERS: Error = Error::Fixed("ERR MEMBERS keyword specified multiple times");
const NO_MEMBERS: Error = Error::Fixed("ERR missing MEMBERS argument");

/// The arguments of SEXPIRE and its like behind the time, in any order.
struct ExpireArgs<'a> {
    condition: Condition,
    /// The condition's word, if there is one.
    word: Option<&'a [u8]>,
    members: Args<'a>,
}

impl<'a> ExpireArgs<'a> {
    fn parse(mut rest: Cursor<'a>) -> Result<ExpireArgs<'a>, Error> {
        let (mut members, mut condition, mut is_ambiguous) = (None, None, false);
        while let Some(word) = rest.peek() {
            if rest.word("members") {
                if members.is_some() {
                    return Err(REPEATED_MEMBERS);
                }
                if rest.left() < 2 {
                    return Err(Error::Fixed(
                        "ERR MEMBERS requires at least nummembers and one member argument",
                    ));
                }
                let bad_count = "ERR Parameter `numMembers` should be greater than 0";
                members = Some(take_members(&mut rest, bad_count)?);
            } else if let Some(new) = rest.one_of(Condition::WORDS) {
                is_ambiguous |= condition.is_some_and(|(old, _)| old != new);
                condition = Some((new, word));
            } else {
                return Err(unknown(&rest));
            }
        }
        let members = members.ok_or(NO_MEMBERS)?;
        if is_ambiguous {
            return Err(Error::Fixed("ERR Multiple condition flags specified"));
        }
        let (condition, word) = match condition {
            Some((condition, word)) => (condition, Some(word)),
            None => (Condition::Always, None),
        };
        Ok(ExpireArgs { condition, word, members })
    }
}

pub(super) static SEXPIRE: Command<Handler> = command("sexpire", -6, sexpire as Handler)
    .flags(WRITES)
    .keys(RW_UPDATE)
    .relative_time_if(|_| true)
    .acl(Acl::SET)
    .syntax("key:k0 seconds:i ?condition(NX|XX|GT|LT) members=MEMBERS(nummembers:i *member)")
    .doc(Group::Set, "8.12.0", BY_MEMBERS, "Sets after how many seconds members of a set expire.");

fn sexpire(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::EX, "sexpire")
}

pub(super) static SPEXPIRE: Command<Handler> = command("spexpire", -6, spexpire as Handler)
    .flags(WRITES)
    .keys(RW_UPDATE)
    .relative_time_if(|_| true)
    .acl(Acl::SET)
    .syntax("key:k0 milliseconds:i ?condition(NX|XX|GT|LT) members=MEMBERS(nummembers:i *member)")
    .doc(Group::Set, "8.12.0", BY_MEMBERS, "Sets after how many milliseconds members of a set expire.");

fn spexpire(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::PX, "spexpire")
}

pub(super) static SEXPIREAT: Command<Handler> = command("sexpireat", -6, sexpireat as Handler)
    .flags(WRITES)
    .keys(RW_UPDATE)
    .acl(Acl::SET)
    .syntax("key:k0 unix-time-seconds:t ?condition(NX|XX|GT|LT) members=MEMBERS(nummembers:i *member)")
    .doc(Group::Set, "8.12.0", BY_MEMBERS, "Sets at which Unix time, in seconds, members of a set expire.");

fn sexpireat(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::EXAT, "sexpireat")
}

pub(super) static SPEXPIREAT: Command<Handler> = command("spexpireat", -6, spexpireat as Handler)
    .flags(WRITES)
    .keys(RW_UPDATE)
    .acl(Acl::SET)
    .syntax("key:k0 unix-time-milliseconds:t ?condition(NX|XX|GT|LT) members=MEMBERS(nummembers:i *member)")
    .doc(
        Group::Set,
        "8.12.0",
        BY_MEMBERS,
        "Sets at which Unix time, in milliseconds, members of a set expire.",
    );

fn spexpireat(ctx: &mut Context<'_>) -> Outcome {
    expire(ctx, TimeUnit::PXAT, "spexpireat")
}

fn expire(ctx: &mut Context<'_>, unit: TimeUnit, name: &str) -> Outcome {
    let key = ctx.key(1);
    ctx.keys.write::<Set>(&key)?;
    let at_ms = unit.parse(ctx.arg(2), ctx.keys.now_ms(), name)?;
    let arguments = ExpireArgs::parse(ctx.rest(3))?;
    let limits = ctx.settings.set_limits;
    let Context { keys, reply, .. } = ctx;
    let (due_ms, has_passed) = (keys.due_ms(), keys.deletes_at_once(at_ms));
    let (mut updated, mut deleted): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    reply.array(arguments.members.len());
    let Some(mut set) = keys.write::<Set>(&key)? else {
        arguments.members.iter().for_each(|_| reply.int(NO_PART));
        return Ok(());
    };
    for member in arguments.members.iter() {
        let element = Element::Bytes(member);
        reply.int(match set.expiry(element, due_ms) {
            None => NO_PART,
            Some(old_ms) if !arguments.condition.is_met(old_ms, at_ms) => CONDITION_NOT_MET,
            Some(_) if has_passed => {
                set.remove(element, due_ms);
                deleted.push(member);
                DELETED
            }
            Some(_) => {
                set.set_expiry(element, at_ms, limits);
                updated.push(member);
                DONE
            }
        });
    }
    drop(set);
    keys.dirty += (updated.len() + deleted.len()) as u64;
    record_removals(keys, &key, &deleted);
    if !updated.is_empty() {
        let (time, count) = (at_ms.to_string(), updated.len().to_string());
        keys.effects.replace(keys.db(), || {
            let head = [b"SPEXPIREAT".as_slice(), key.bytes, time.as_bytes()].into_iter();
            let head = head.chain(arguments.word).chain([b"MEMBERS".as_slice(), count.as_bytes()]);
            head.chain(updated.iter().copied())
        });
        note_members(keys, &key, "sexpire", updated);
    }
    if !deleted.is_empty() {
        note_members(keys, &key, "srem", deleted);
        delete_if_empty(keys, &key);
    }
    Ok(())
}

/// Records the removal of members whose new time has passed.
fn record_removals(keys: &mut Keys, key: &Key<'_>, members: &[&[u8]]) {
    for member in members {
        keys.effects.replace(keys.db(), || [b"SREM", key.bytes, member]);
    }
}

/// The members in `MEMBERS count member…` to the end.
fn parse_members(mut rest: Cursor<'_>) -> Result<Args<'_>, Error> {
    if !rest.word("members") {
        return Err(Error::Fixed("ERR Mandatory argument MEMBERS is missing or not at the right position"));
    }
    let count = rest.at_least(1, "ERR Number of members must be a positive integer")?;
    let members = rest.args();
    if usize::try_from(count) != Ok(members.len()) {
        return Err(Error::Fixed("ERR The `nummembers` parameter must match the number of arguments"));
    }
    Ok(members)
}

pub(super) static STTL: Command<Handler> = command("sttl", -5, sttl as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 members=MEMBERS(nummembers:i *member)")
    .doc(Group::Set, "8.12.0", BY_MEMBERS, "Returns in how many seconds members of a set expire.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn sttl(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::EX)
}

pub(super) static SPTTL: Command<Handler> = command("spttl", -5, spttl as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 members=MEMBERS(nummembers:i *member)")
    .doc(Group::Set, "8.12.0", BY_MEMBERS, "Returns in how many milliseconds members of a set expire.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn spttl(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::PX)
}

pub(super) static SEXPIRETIME: Command<Handler> = command("sexpiretime", -5, sexpiretime as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 members=MEMBERS(nummembers:i *member)")
    .doc(
        Group::Set,
        "8.12.0",
        BY_MEMBERS,
        "Returns at which Unix time, in seconds, members of a set expire.",
    );

fn sexpiretime(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::EXAT)
}

pub(super) static SPEXPIRETIME: Command<Handler> = command("spexpiretime", -5, spexpiretime as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("key:k0 members=MEMBERS(nummembers:i *member)")
    .doc(
        Group::Set,
        "8.12.0",
        BY_MEMBERS,
        "Returns at which Unix time, in milliseconds, members of a set expire.",
    );

fn spexpiretime(ctx: &mut Context<'_>) -> Outcome {
    time_left(ctx, TimeUnit::PXAT)
}

fn time_left(ctx: &mut Context<'_>, unit: TimeUnit) -> Outcome {
    let key = ctx.key(1);
    let members = parse_members(ctx.rest(2));
    let Context { keys, reply, .. } = ctx;
    let (now_ms, due_ms) = (keys.now_ms(), keys.due_ms());
    let set = keys.read::<Set>(&key)?;
    let members = members?;
    reply.array(members.len());
    for member in members.iter() {
        let expiry = set.and_then(|set| set.expiry(Element::Bytes(member), due_ms));
        reply.int(unit.answer(expiry, now_ms));
    }
    Ok(())
}

pub(super) static SPERSIST: Command<Handler> = command("spersist", -5, spersist as Handler)
    .flags(WRITES)
    .keys(RW_UPDATE)
    .acl(Acl::SET)
    .syntax("key:k0 members=MEMBERS(nummembers:i *member)")
    .doc(Group::Set, "8.12.0", BY_MEMBERS, "Removes the expiry times of members of a set.");

fn spersist(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let members = parse_members(ctx.rest(2));
    let limits = ctx.settings.set_limits;
    let Context { keys, reply, .. } = ctx;
    let due_ms = keys.due_ms();
    let is_due = keys.write::<Set>(&key)?.is_some_and(|set| set.next_expiry_ms() <= due_ms);
    let members = members?;
    if is_due {
        keys.expire_parts::<Set>(&key, members.iter());
    }
    reply.array(members.len());
    let mut persisted: Vec<&[u8]> = Vec::new();
    let Some(mut set) = keys.write::<Set>(&key)? else {
        members.iter().for_each(|_| reply.int(NO_PART));
        return Ok(());
    };
    for member in members.iter() {
        reply.int(match set.expiry(Element::Bytes(member), due_ms) {
            None => NO_PART,
            Some(NO_EXPIRY) => NO_TIME,
            Some(_) => {
                set.set_expiry(Element::Bytes(member), NO_EXPIRY, limits);
                persisted.push(member);
                DONE
            }
        });
    }
    drop(set);
    if !persisted.is_empty() {
        keys.dirty += persisted.len() as u64;
        note_members(keys, &key, "spersist", persisted);
    }
    Ok(())
}

/// What SADDEX does to the members' times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewTime {
    /// They expire at a time, Unix milliseconds.
    At(i64),
    /// Members that are there keep theirs.
    Kept,
    /// They do not expire.
    None,
}

/// SADDEX' arguments, in any order.
struct AddArgs<'a> {
    /// Add only if all members exist (true) or none does (false).
    if_exist: Option<bool>,
    time: NewTime,
    /// The index of the time's option, if it has to be recorded as another one.
    rewritten: Option<usize>,
    members: Args<'a>,
}

impl<'a> AddArgs<'a> {
    fn parse(ctx: &Context<'a>) -> Result<AddArgs<'a>, Error> {
        let (mut members, mut if_exist, mut time, mut rewritten) = (None, None, None, None);
        let mut rest = ctx.rest(2);
        while rest.peek().is_some() {
            let index = rest.index();
            if rest.word("members") {
                if members.is_some() {
                    return Err(REPEATED_MEMBERS);
                }
                if rest.left() == 0 {
                    return Err(Error::Arity("saddex"));
                }
                members = Some(take_members(&mut rest, "ERR invalid number of members")?);
            } else if let Some(new) = take_time(&mut rest, ctx.keys.now_ms(), time.is_some())? {
                let is_canonical = ctx.arg(index).eq_ignore_ascii_case(b"pxat");
                rewritten = matches!(new, NewTime::At(_)).then_some(index).filter(|_| !is_canonical);
                time = Some(new);
            } else if let Some(exist) = rest.one_of(&[("mxx", true), ("mnx", false)]) {
                if if_exist.replace(exist).is_some() {
                    return Err(Error::Fixed("ERR Only one of MXX or MNX arguments can be specified"));
                }
            } else {
                return Err(unknown(&rest));
            }
        }
        let members = members.ok_or(NO_MEMBERS)?;
        Ok(AddArgs { if_exist, time: time.unwrap_or(NewTime::None), rewritten, members })
    }
}

/// Takes an option that says when the members expire, of which there may be one.
fn take_time(rest: &mut Cursor<'_>, now_ms: i64, has_one: bool) -> Result<Option<NewTime>, Error> {
    let unit = rest.one_of(TimeUnit::WORDS);
    if unit.is_none() && !rest.word("keepttl") {
        return Ok(None);
    }
    if has_one {
        return Err(Error::Fixed("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"));
    }
    let Some(unit) = unit else { return Ok(Some(NewTime::Kept)) };
    let text = rest.value().map_err(|_| Error::Fixed("ERR missing expire time"))?;
    Ok(Some(NewTime::At(unit.parse(text, now_ms, "saddex")?)))
}

pub(super) static SADDEX: Command<Handler> = command("saddex", -5, saddex as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(RW_UPDATE)
    .relative_time_if(|args| expires_relatively_around(args, "members", 1))
    .acl(Acl::SET)
    .syntax("key:k0 ?condition(MNX|MXX) \
         ?expiration(seconds:i=EX|milliseconds:i=PX|unix-time-seconds:t=EXAT|unix-time-milliseconds:t=PXAT|KEEPTTL) \
         members=MEMBERS(nummembers:i *member)")
    .doc(
        Group::Set,
        "8.12.0",
        "O(N), N being the number of members added",
        "Adds members to a set with their expiry times. Creates the key if it is not there.",
    );

fn saddex(ctx: &mut Context<'_>) -> Outcome {
    let arguments = AddArgs::parse(ctx)?;
    let key = ctx.key(1);
    let due_ms = ctx.keys.due_ms();
    let is_due = match ctx.keys.write::<Set>(&key)? {
        Some(set) => set.next_expiry_ms() <= due_ms,
        None if arguments.if_exist == Some(true) => {
            ctx.reply.int(0);
            return Ok(());
        }
        None => false,
    };
    if is_due {
        ctx.keys.expire_parts_only::<Set>(&key, arguments.members.iter());
    }
    if let Some(if_exist) = arguments.if_exist {
        let set = ctx.keys.get(&key).and_then(|entry| entry.object::<Set>());
        let exists = |member| set.is_some_and(|set| set.contains(Element::Bytes(member), due_ms));
        if !arguments.members.iter().all(|member| exists(member) == if_exist) {
            ctx.keys.delete_without_parts::<Set>(&key);
            ctx.reply.int(0);
            return Ok(());
        }
    }
    match arguments.time {
        NewTime::At(at_ms) if ctx.keys.deletes_at_once(at_ms) => {
            remove_instead(ctx.keys, &key, arguments.members)?
        }
        _ => add(ctx, &key, &arguments)?,
    }
    ctx.reply.int(1);
    Ok(())
}

/// Removes the members, since the time has passed at which they would expire.
fn remove_instead(keys: &mut Keys, key: &Key<'_>, members: Args<'_>) -> Outcome {
    let due_ms = keys.due_ms();
    let Some(mut set) = keys.write::<Set>(key)? else { return Ok(()) };
    let removed: Vec<&[u8]> =
        members.iter().filter(|member| set.remove(Element::Bytes(member), due_ms)).collect();
    drop(set);
    if removed.is_empty() {
        keys.delete_without_parts::<Set>(key);
        return Ok(());
    }
    keys.dirty += removed.len() as u64;
    record_removals(keys, key, &removed);
    note_members(keys, key, "srem", removed);
    delete_if_empty(keys, key);
    Ok(())
}

/// Adds the members; those that are there get the time too.
fn add(ctx: &mut Context<'_>, key: &Key<'_>, arguments: &AddArgs<'_>) -> Outcome {
    let AddArgs { members, time, rewritten, .. } = *arguments;
    let limits = ctx.settings.set_limits;
    let Context { keys, args, .. } = ctx;
    let due_ms = keys.due_ms();
    let expire_at_ms = if let NewTime::At(at_ms) = time { at_ms } else { NO_EXPIRY };
    let mut set = keys.create::<Set>(key)?;
    set.prepare(members.at(0), members.len(), limits);
    if expire_at_ms != NO_EXPIRY {
        set.prepare_expiry(limits);
    }
    for member in members.iter().map(Element::Bytes) {
        if !set.insert(member, expire_at_ms, limits, due_ms) && time != NewTime::Kept {
            set.set_expiry(member, expire_at_ms, limits);
        }
    }
    drop(set);
    keys.dirty += members.len() as u64;
    if let Some(option) = rewritten {
        let text = expire_at_ms.to_string();
        keys.effects.replace(keys.db(), || {
            args.iter().enumerate().map(|(index, argument)| match index {
                _ if index == option => b"PXAT".as_slice(),
                _ if index == option + 1 => text.as_bytes(),
                _ => argument,
            })
        });
    }
    note_members(keys, key, "sadd", members.iter());
    if expire_at_ms != NO_EXPIRY {
        keys.effects.event_of_subkeys(EventClass::SET, "sexpire", keys.db(), key.bytes, members.iter());
    }
    Ok(())
}
