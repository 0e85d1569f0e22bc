//! Intersection, union and difference of sets, answered or stored.

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, Object};
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hyperloglog::{Observation, Registers};
use martlet_types::set::{Set, SetLimits};

use super::{RO_ACCESS, expire_operands};
use crate::Handler;
use crate::context::Context;
use crate::list::bulk;

const STORES: Flags = Flags::WRITE.with(Flags::DENYOOM);
const STORE_KEYS: &[KeyPart] =
    &[KeyPart::one(1, KeyFlags::OW.with(KeyFlags::UPDATE)), KeyPart::range(2, -1, 1, RO_ACCESS)];
const READ_KEYS: &[KeyPart] = &[KeyPart::range(1, -1, 1, RO_ACCESS)];
const SUM_OF_SIZES: &str = "O(N), N being the number of members of all sets";
const SMALLEST_TIMES_SETS: &str =
    "O(N * M) at worst, N being the number of members of the smallest set and M the number of sets";

/// Notes accesses to the keys in order and checks that none holds another type.
fn look_up(keys: &mut Keys, operands: &[Key<'_>]) -> Outcome {
    for key in operands {
        keys.read::<Set>(key)?;
    }
    Ok(())
}

/// The sets that were looked up; `None` where there is no key.
fn sets<'a>(keys: &'a Keys, operands: &[Key<'_>]) -> Vec<Option<&'a Set>> {
    operands.iter().map(|key| keys.get(key).and_then(|entry| entry.object::<Set>())).collect()
}

/// The keys at arguments `first` up to and without `end`.
fn operands<'a>(ctx: &Context<'a>, first: usize, end: usize) -> Vec<Key<'a>> {
    (first..end).map(|index| ctx.key(index)).collect()
}

/// Hands each member of all sets to `f`, until `f` answers false.
fn intersect<'a>(sets: &[Option<&'a Set>], due_ms: i64, mut f: impl FnMut(Element<'a>) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    for member in smallest.live(due_ms) {
        let has = |set: &Set| std::ptr::eq(set, *smallest) || set.contains(member, due_ms);
        let in_all = others.iter().all(|set| has(set));
        if in_all && !f(member) {
            return;
        }
    }
}

/// Hands each member of any set to `f`, once, until `f` answers false.
fn unite<'a>(
    sets: &[Option<&'a Set>],
    due_ms: i64,
    limits: SetLimits,
    mut f: impl FnMut(Element<'a>) -> bool,
) {
    let sets: Vec<&Set> = sets.iter().copied().flatten().collect();
    let Some(largest) = sets.iter().max_by_key(|set| set.len()) else { return };
    if !largest.live(due_ms).all(&mut f) || sets.len() == 1 {
        return;
    }
    // A clone of a large set shares its blocks: only the others' additions are copied.
    let mut seen = (*largest).clone();
    for set in sets.iter().filter(|set| !std::ptr::eq(**set, *largest)) {
        for member in set.live(due_ms) {
            if seen.add(member, limits, due_ms) && !f(member) {
                return;
            }
        }
    }
}

/// Hands each member of the first set that is in no other to `f`, until `f` answers false.
fn subtract<'a>(sets: &[Option<&'a Set>], due_ms: i64, f: impl FnMut(Element<'a>) -> bool) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: Vec<&Set> = others.iter().copied().flatten().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return;
    }
    // Looking up each member in every other set, or removing every other member from a copy: the cheaper one,
    // by Redis' estimate.
    let by_lookup = first.len() * (others.len() + 1) / 2;
    let by_removal = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if by_lookup <= by_removal {
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let in_other = |member| others.iter().any(|set| set.contains(member, due_ms));
        let _ = first.live(due_ms).filter(|member| !in_other(*member)).all(f);
        return;
    }
    let mut left = (*first).clone();
    others.iter().flat_map(|set| set.live(due_ms)).for_each(|member| {
        left.remove(member, due_ms);
    });
    let _ = first.live(due_ms).filter(|member| left.contains(*member, due_ms)).all(f);
}

/// Puts the result in place of whatever the destination held, or deletes it if the result is empty.
fn store(ctx: &mut Context<'_>, result: Set, event: &'static str) {
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    reply.count(result.len());
    if result.is_empty() {
        if keys.delete(&key) {
            keys.changed(&key, EventClass::GENERIC, "del");
        }
        return;
    }
    keys.set_value(&key, result.into_value(), None);
    keys.changed(&key, EventClass::SET, event);
}

pub(super) static SINTER: Command<Handler> = command("sinter", -2, sinter as Handler)
    .flags(Flags::READONLY)
    .keys(READ_KEYS)
    .acl(Acl::SET)
    .syntax("*key:k0")
    .doc(Group::Set, "1.0.0", SMALLEST_TIMES_SETS, "Returns the members that all sets have.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn sinter(ctx: &mut Context<'_>) -> Outcome {
    let operands = operands(ctx, 1, ctx.argc());
    let Context { keys, reply, .. } = ctx;
    look_up(keys, &operands)?;
    let due_ms = keys.due_ms();
    let header = reply.defer();
    let mut count = 0;
    intersect(&sets(keys, &operands), due_ms, |member| {
        bulk(reply, member);
        count += 1;
        true
    });
    reply.close_set(header, count);
    Ok(())
}

pub(super) static SINTERCARD: Command<Handler> = command("sintercard", -3, sintercard as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::counted(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("numkeys:i *key:k0 ?limit:i=LIMIT")
    .doc(Group::Set, "7.0.0", SMALLEST_TIMES_SETS, "Returns the number of members that all sets have.");

fn sintercard(ctx: &mut Context<'_>) -> Outcome {
    let counted = Counted::parse(ctx, false)?;
    let mut count = counted.counter();
    intersect(&sets(ctx.keys, &counted.operands), ctx.keys.due_ms(), |_| count.one_more());
    ctx.reply.count(count.found);
    Ok(())
}

/// The arguments of a command that counts the members of a result.
struct Counted<'a> {
    operands: Vec<Key<'a>>,
    /// How many to count at most; 0: all.
    limit: usize,
    approximate: bool,
}

/// Counts members up to a limit.
struct Counter {
    found: usize,
    limit: usize,
}

impl Counter {
    /// Counts one; whether more are to be counted.
    fn one_more(&mut self) -> bool {
        self.found += 1;
        self.found != self.limit
    }
}

impl<'a> Counted<'a> {
    /// Looks the keys up, too.
    fn parse(ctx: &mut Context<'a>, may_approximate: bool) -> Result<Counted<'a>, Error> {
        let count = ctx.int(1).ok().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        let count = count.ok_or(Error::Fixed("ERR numkeys should be greater than 0"))?;
        if count > ctx.argc() - 2 {
            return Err(Error::Fixed("ERR Number of keys can't be greater than number of args"));
        }
        let (mut limit, mut approximate, mut rest) = (0, false, ctx.rest(2 + count));
        loop {
            if rest.option("limit", 1) {
                limit = rest.at_least(0, "ERR LIMIT can't be negative")? as usize;
            } else if may_approximate && rest.word("approx") {
                approximate = true;
            } else {
                break rest.finish()?;
            }
        }
        let operands = operands(ctx, 2, 2 + count);
        look_up(ctx.keys, &operands)?;
        Ok(Counted { operands, limit, approximate })
    }

    fn counter(&self) -> Counter {
        Counter { found: 0, limit: self.limit }
    }
}

pub(super) static SUNIONCARD: Command<Handler> = command("sunioncard", -3, sunioncard as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::counted(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("numkeys:i *key:k0 ?APPROX ?limit:i=LIMIT")
    .doc(Group::Set, "8.10.0", SUM_OF_SIZES, "Returns the number of members that any of the sets has.");

fn sunioncard(ctx: &mut Context<'_>) -> Outcome {
    let counted = Counted::parse(ctx, true)?;
    let (sets, due_ms) = (sets(ctx.keys, &counted.operands), ctx.keys.due_ms());
    let found = if counted.approximate {
        let estimate = usize::try_from(estimate_union(&sets, due_ms)).unwrap_or(usize::MAX);
        if counted.limit > 0 { estimate.min(counted.limit) } else { estimate }
    } else {
        let mut count = counted.counter();
        unite(&sets, due_ms, ctx.settings.set_limits, |_| count.one_more());
        count.found
    };
    ctx.reply.count(found);
    Ok(())
}

/// How many members any of the sets has, as PFCOUNT would say if PFADD had been given them all.
fn estimate_union(sets: &[Option<&Set>], due_ms: i64) -> u64 {
    let mut registers = Box::<Registers>::default();
    let mut buffer = IntBuffer::new();
    for member in sets.iter().flatten().flat_map(|set| set.live(due_ms)) {
        registers.observe(Observation::of(member.as_bytes(&mut buffer)));
    }
    registers.count()
}

pub(super) static SDIFFCARD: Command<Handler> = command("sdiffcard", -3, sdiffcard as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::counted(1, RO_ACCESS)])
    .acl(Acl::SET)
    .syntax("numkeys:i *key:k0 ?limit:i=LIMIT")
    .doc(
        Group::Set,
        "8.10.0",
        SUM_OF_SIZES,
        "Returns the number of members of the first set that no other has.",
    );

fn sdiffcard(ctx: &mut Context<'_>) -> Outcome {
    let counted = Counted::parse(ctx, false)?;
    let mut count = counted.counter();
    subtract(&sets(ctx.keys, &counted.operands), ctx.keys.due_ms(), |_| count.one_more());
    ctx.reply.count(count.found);
    Ok(())
}

pub(super) static SINTERSTORE: Command<Handler> = command("sinterstore", -3, sinterstore as Handler)
    .flags(STORES)
    .keys(STORE_KEYS)
    .acl(Acl::SET)
    .syntax("destination:k0 *key:k1")
    .doc(Group::Set, "1.0.0", SMALLEST_TIMES_SETS, "Stores the members that all sets have in a key.");

fn sinterstore(ctx: &mut Context<'_>) -> Outcome {
    let operands = operands(ctx, 2, ctx.argc());
    let limits = ctx.settings.set_limits;
    look_up(ctx.keys, &operands)?;
    expire_operands(ctx.keys, &operands);
    let due_ms = ctx.keys.due_ms();
    let mut result = Set::new_listpack();
    intersect(&sets(ctx.keys, &operands), due_ms, |member| {
        result.add(member, limits, due_ms);
        true
    });
    result.convert_to_intset_if_all_ints(limits);
    store(ctx, result, "sinterstore");
    Ok(())
}

pub(super) static SUNION: Command<Handler> = command("sunion", -2, sunion as Handler)
    .flags(Flags::READONLY)
    .keys(READ_KEYS)
    .acl(Acl::SET)
    .syntax("*key:k0")
    .doc(Group::Set, "1.0.0", SUM_OF_SIZES, "Returns the members that any of the sets has.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn sunion(ctx: &mut Context<'_>) -> Outcome {
    let operands = operands(ctx, 1, ctx.argc());
    let limits = ctx.settings.set_limits;
    let Context { keys, reply, .. } = ctx;
    look_up(keys, &operands)?;
    let due_ms = keys.due_ms();
    let header = reply.defer();
    let mut count = 0;
    unite(&sets(keys, &operands), due_ms, limits, |member| {
        bulk(reply, member);
        count += 1;
        true
    });
    reply.close_set(header, count);
    Ok(())
}

pub(super) static SUNIONSTORE: Command<Handler> = command("sunionstore", -3, sunionstore as Handler)
    .flags(STORES)
    .keys(STORE_KEYS)
    .acl(Acl::SET)
    .syntax("destination:k0 *key:k1")
    .doc(Group::Set, "1.0.0", SUM_OF_SIZES, "Stores the members that any of the sets has in a key.");

fn sunionstore(ctx: &mut Context<'_>) -> Outcome {
    let operands = operands(ctx, 2, ctx.argc());
    let limits = ctx.settings.set_limits;
    look_up(ctx.keys, &operands)?;
    expire_operands(ctx.keys, &operands);
    let due_ms = ctx.keys.due_ms();
    let mut result = Set::new();
    for set in sets(ctx.keys, &operands).into_iter().flatten() {
        for member in set.live(due_ms) {
            result.add(member, limits, due_ms);
        }
    }
    store(ctx, result, "sunionstore");
    Ok(())
}

pub(super) static SDIFF: Command<Handler> = command("sdiff", -2, sdiff as Handler)
    .flags(Flags::READONLY)
    .keys(READ_KEYS)
    .acl(Acl::SET)
    .syntax("*key:k0")
    .doc(Group::Set, "1.0.0", SUM_OF_SIZES, "Returns the members of the first set that no other has.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn sdiff(ctx: &mut Context<'_>) -> Outcome {
    let operands = operands(ctx, 1, ctx.argc());
    let Context { keys, reply, .. } = ctx;
    look_up(keys, &operands)?;
    let due_ms = keys.due_ms();
    let header = reply.defer();
    let mut count = 0;
    subtract(&sets(keys, &operands), due_ms, |member| {
        bulk(reply, member);
        count += 1;
        true
    });
    reply.close_set(header, count);
    Ok(())
}

pub(super) static SDIFFSTORE: Command<Handler> = command("sdiffstore", -3, sdiffstore as Handler)
    .flags(STORES)
    .keys(STORE_KEYS)
    .acl(Acl::SET)
    .syntax("destination:k0 *key:k1")
    .doc(
        Group::Set,
        "1.0.0",
        SUM_OF_SIZES,
        "Stores the members of the first set that no other has in a key.",
    );

fn sdiffstore(ctx: &mut Context<'_>) -> Outcome {
    let operands = operands(ctx, 2, ctx.argc());
    let limits = ctx.settings.set_limits;
    look_up(ctx.keys, &operands)?;
    expire_operands(ctx.keys, &operands);
    let due_ms = ctx.keys.due_ms();
    let mut result = Set::new();
    subtract(&sets(ctx.keys, &operands), due_ms, |member| {
        result.add(member, limits, due_ms);
        true
    });
    store(ctx, result, "sdiffstore");
    Ok(())
}
