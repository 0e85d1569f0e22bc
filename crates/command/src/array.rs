//! Arrays: setting, getting and deleting by index, and facts about the whole. Walking over ranges is in
//! `search` and `aggregate`, appending in `ring`.

mod aggregate;
mod ring;
mod search;
#[cfg(test)]
mod tests;

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, Value};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::array::{Array, INDEX_MAX, Range, RangeBack};
use martlet_types::element::Element;

use crate::Handler;
use crate::context::Context;
use crate::list::bulk;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &ARSET,
    &ARMSET,
    &ARGET,
    &ARMGET,
    &ARGETRANGE,
    &ARDEL,
    &ARDELRANGE,
    &ARLEN,
    &ARCOUNT,
    &ARINFO,
    &search::ARSCAN,
    &search::ARGREP,
    &aggregate::AROP,
    &ring::ARINSERT,
    &ring::ARRING,
    &ring::ARNEXT,
    &ring::ARSEEK,
    &ring::ARLASTITEMS,
];

const RW_UPDATE: KeyFlags = KeyFlags::RW.with(KeyFlags::UPDATE);
const RW_DELETE: KeyFlags = KeyFlags::RW.with(KeyFlags::DELETE);
const RO_ACCESS: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const FILLS: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);
const READS_FAST: Flags = Flags::READONLY.with(Flags::FAST);

/// Places that a reply may have which are not each an element (Redis: `AR_MAX_REPLY_ITEMS`).
const PLACES_MAX: u64 = 1_000_000;

const INVALID_INDEX: Error = Error::Fixed("ERR invalid array index");

/// A number from 0 to the largest of 64 bits, in its canonical form.
fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] => text.iter().try_fold(0_u64, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            let number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
            (digit <= 9).then_some(number)
        }),
        _ => None,
    }
}

/// An index.
fn index(text: &[u8]) -> Result<u64, Error> {
    parse_u64(text).filter(|&index| index <= INDEX_MAX).ok_or(INVALID_INDEX)
}

/// Each `step`-th argument from `from` on is an index.
fn check_indexes(ctx: &Context<'_>, from: usize, step: usize) -> Outcome {
    (from..ctx.argc()).step_by(step).try_for_each(|at| index(ctx.arg(at)).map(|_| ()))
}

/// The index in an argument that [`check_indexes`] has seen.
fn checked_index(args: &Args<'_>, at: usize) -> u64 {
    parse_u64(args.at(at)).unwrap_or(INDEX_MAX)
}

/// A range: its lower and its higher end, and whether it is to be walked downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    low: u64,
    high: u64,
    is_reverse: bool,
}

impl Bounds {
    fn new(start: u64, end: u64) -> Bounds {
        Bounds { low: start.min(end), high: start.max(end), is_reverse: start > end }
    }

    /// The arguments at `at` and behind it.
    fn parse(ctx: &Context<'_>, at: usize) -> Result<Bounds, Error> {
        Ok(Bounds::new(index(ctx.arg(at))?, index(ctx.arg(at + 1))?))
    }

    /// The elements in this range, in its direction.
    fn elements(self, array: &Array) -> Elements<'_> {
        let Bounds { low, high, is_reverse } = self;
        if is_reverse {
            Elements::Back(array.range_back(low, high))
        } else {
            Elements::On(array.range(low, high))
        }
    }

    /// Writes the element at each index of the range, in its direction; nulls for empty ones.
    fn write(self, reply: &mut Reply, array: &Array) {
        let mut next = Some(if self.is_reverse { self.high } else { self.low });
        let after = |index: u64| if self.is_reverse { index.checked_sub(1) } else { index.checked_add(1) };
        for (index, element) in self.elements(array) {
            while let Some(hole) = next.filter(|&next| next != index) {
                reply.null();
                next = after(hole);
            }
            bulk(reply, element);
            next = after(index);
        }
        while let Some(hole) = next.filter(|next| (self.low..=self.high).contains(next)) {
            reply.null();
            next = after(hole);
        }
    }
}

/// Elements with their indexes, in either direction.
enum Elements<'a> {
    On(Range<'a>),
    Back(RangeBack<'a>),
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u64, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Elements::On(range) => range.next(),
            Elements::Back(range) => range.next(),
        }
    }
}

/// Says that an array was changed, without counting the change.
fn note(keys: &mut Keys, key: &Key<'_>, event: &'static str) {
    keys.signal(key);
    keys.effects.event(EventClass::ARRAY, event, keys.db(), key.bytes);
}

/// Says that `count` elements were filled or replaced.
fn filled(keys: &mut Keys, key: &Key<'_>, event: &'static str, count: u64) {
    note(keys, key, event);
    keys.dirty += count;
}

/// The consequences of a removal of `removed` elements: the event, and the deletion of an array without
/// elements.
fn after_removal(keys: &mut Keys, key: &Key<'_>, event: &'static str, removed: u64) {
    if removed == 0 {
        return;
    }
    note(keys, key, event);
    keys.dirty += removed;
    if keys.delete_if_empty::<Array>(key) {
        keys.effects.event(EventClass::GENERIC, "del", keys.db(), key.bytes);
    }
}

static ARSET: Command<Handler> = command("arset", -4, arset as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, RW_UPDATE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 index:i *value")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of values",
        "Puts values at an index of an array and those behind it.",
    );

fn arset(ctx: &mut Context<'_>) -> Outcome {
    let start = index(ctx.arg(2))?;
    let values = ctx.args.from(3);
    let count = values.len() as u64;
    if start.checked_add(count - 1).is_none_or(|last| last > INDEX_MAX) {
        return Err(Error::Fixed("ERR array index overflow"));
    }
    let (key, limits) = (ctx.key(1), ctx.settings.array_limits);
    let mut array = ctx.keys.create::<Array>(&key)?;
    let fresh = array.set_run(start, count, values.iter().map(Element::parse), limits);
    drop(array);
    filled(ctx.keys, &key, "arset", count);
    ctx.reply.unsigned(fresh);
    Ok(())
}

static ARMSET: Command<Handler> = command("armset", -4, armset as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, RW_UPDATE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 *data(index:i value)")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of pairs",
        "Puts values at several indexes of an array.",
    );

fn armset(ctx: &mut Context<'_>) -> Outcome {
    if !ctx.argc().is_multiple_of(2) {
        return Err(Error::Arity("armset"));
    }
    check_indexes(ctx, 2, 2)?;
    let (key, limits) = (ctx.key(1), ctx.settings.array_limits);
    let mut array = ctx.keys.create::<Array>(&key)?;
    let mut fresh = 0;
    for at in (2..ctx.args.len()).step_by(2) {
        fresh +=
            u64::from(array.set(checked_index(&ctx.args, at), Element::parse(ctx.args.at(at + 1)), limits));
    }
    drop(array);
    filled(ctx.keys, &key, "armset", (ctx.argc() / 2 - 1) as u64);
    ctx.reply.unsigned(fresh);
    Ok(())
}

static ARGET: Command<Handler> = command("arget", 3, arget as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 index:i")
    .doc(Group::Array, "8.8.0", "O(1)", "Returns the value at an index of an array.");

fn arget(ctx: &mut Context<'_>) -> Outcome {
    let (index, key) = (index(ctx.arg(2))?, ctx.key(1));
    let Context { keys, reply, .. } = ctx;
    match keys.read::<Array>(&key)?.and_then(|array| array.get(index)) {
        Some(element) => bulk(reply, element),
        None => reply.null(),
    }
    Ok(())
}

static ARMGET: Command<Handler> = command("armget", -3, armget as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 *index:i")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of indexes",
        "Returns the values at several indexes of an array.",
    );

fn armget(ctx: &mut Context<'_>) -> Outcome {
    check_indexes(ctx, 2, 1)?;
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let array = keys.read::<Array>(&key)?;
    reply.array(args.len() - 2);
    for at in 2..args.len() {
        match array.and_then(|array| array.get(checked_index(args, at))) {
            Some(element) => bulk(reply, element),
            None => reply.null(),
        }
    }
    Ok(())
}

static ARGETRANGE: Command<Handler> = command("argetrange", 4, argetrange as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 start:i end:i")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the length of the range",
        "Returns the element at each index of a range, nulls for empty ones included.",
    );

fn argetrange(ctx: &mut Context<'_>) -> Outcome {
    let (bounds, key) = (Bounds::parse(ctx, 2)?, ctx.key(1));
    let Context { keys, reply, .. } = ctx;
    let array = keys.read::<Array>(&key)?;
    let len = bounds.high - bounds.low + 1;
    if len > PLACES_MAX {
        return Err(Error::Text(format!("ERR range exceeds maximum of {PLACES_MAX} items")));
    }
    reply.array(len as usize);
    match array {
        Some(array) => bounds.write(reply, array),
        None => (0..len).for_each(|_| reply.null()),
    }
    Ok(())
}

static ARDEL: Command<Handler> = command("ardel", -3, ardel as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, RW_DELETE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 *index:i")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of indexes",
        "Deletes the elements at these indexes of an array.",
    );

fn ardel(ctx: &mut Context<'_>) -> Outcome {
    check_indexes(ctx, 2, 1)?;
    let (key, limits) = (ctx.key(1), ctx.settings.array_limits);
    let mut removed = 0;
    if let Some(mut array) = ctx.keys.write::<Array>(&key)? {
        for at in 2..ctx.args.len() {
            removed += u64::from(array.remove(checked_index(&ctx.args, at), limits));
        }
    }
    after_removal(ctx.keys, &key, "ardel", removed);
    ctx.reply.unsigned(removed);
    Ok(())
}

static ARDELRANGE: Command<Handler> = command("ardelrange", -4, ardelrange as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, RW_DELETE)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 *range(start:i end:i)")
    .doc(
        Group::Array,
        "8.8.0",
        "O(N), N being the number of elements in the ranges and of the slices that they touch",
        "Deletes the elements of an array in one or more ranges.",
    );

fn ardelrange(ctx: &mut Context<'_>) -> Outcome {
    if !ctx.argc().is_multiple_of(2) {
        return Err(Error::Arity("ardelrange"));
    }
    let ranges: Vec<Bounds> =
        (2..ctx.argc()).step_by(2).map(|at| Bounds::parse(ctx, at)).collect::<Result<_, Error>>()?;
    let (key, limits) = (ctx.key(1), ctx.settings.array_limits);
    let (mut removed, mut whole) = (0, None);
    if let Some(mut array) = ctx.keys.write::<Array>(&key)? {
        for Bounds { low, high, .. } in ranges {
            if array.lies_within(low, high) && !array.is_empty() {
                // All of it is left to the background.
                removed += array.len() as u64;
                whole = Some(std::mem::take(&mut *array));
            } else {
                removed += array.remove_range(low, high, limits);
            }
        }
    }
    ctx.keys.discard(whole.map(Value::Array));
    after_removal(ctx.keys, &key, "ardelrange", removed);
    ctx.reply.unsigned(removed);
    Ok(())
}

static ARLEN: Command<Handler> = command("arlen", 2, arlen as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0")
    .doc(
        Group::Array,
        "8.8.0",
        "O(1)",
        "Returns the highest index of an array that holds an element, plus one.",
    );

fn arlen(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let extent = ctx.keys.read::<Array>(&key)?.map_or(0, Array::extent);
    ctx.reply.unsigned(extent);
    Ok(())
}

static ARCOUNT: Command<Handler> = command("arcount", 2, arcount as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0")
    .doc(Group::Array, "8.8.0", "O(1)", "Returns the number of elements of an array.");

fn arcount(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let count = ctx.keys.read::<Array>(&key)?.map_or(0, Array::len);
    ctx.reply.count(count);
    Ok(())
}

static ARINFO: Command<Handler> = command("arinfo", -2, arinfo as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::ARRAY)
    .syntax("key:k0 ?FULL")
    .doc(
        Group::Array,
        "8.8.0",
        "O(1), or O(N) with FULL, N being the number of slices",
        "Returns how an array is held.",
    );

fn arinfo(ctx: &mut Context<'_>) -> Outcome {
    let mut rest = ctx.rest(2);
    let is_full = rest.word("FULL");
    rest.finish()?;
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let array = keys.read::<Array>(&key)?.ok_or(Error::NoSuchKey)?;
    let (info, next) = (array.info(), array.next_index());
    reply.map(if is_full { 12 } else { 7 });
    for (name, value) in [
        ("count", array.len() as u64),
        ("len", array.extent()),
        ("next-insert-index", if next > INDEX_MAX { 0 } else { next }),
        ("slices", info.slices),
        ("directory-size", info.directory_size),
        ("super-dir-entries", info.blocks),
        ("slice-size", u64::from(info.slice_size)),
    ] {
        reply.bulk(name.as_bytes());
        reply.unsigned(value);
    }
    if is_full {
        let totals = array.slice_totals();
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        for (name, value) in [("dense-slices", totals.dense), ("sparse-slices", totals.sparse)] {
            reply.bulk(name.as_bytes());
            reply.unsigned(value);
        }
        for (name, value) in [
            ("avg-dense-size", share(totals.dense_places, totals.dense)),
            ("avg-dense-fill", share(totals.dense_elements, totals.dense_places)),
            ("avg-sparse-size", share(totals.sparse_capacity, totals.sparse)),
        ] {
            reply.bulk(name.as_bytes());
            reply.double(value);
        }
    }
    Ok(())
}
