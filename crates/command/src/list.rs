//! Lists: pushing, reading, changing in place. Popping is in `pop`, moving between lists in `transfer` and
//! `batch`.

mod batch;
mod pop;
#[cfg(test)]
mod tests;
mod transfer;

use martlet_base::number::parse_i64;
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::element::Element;
use martlet_types::list::{Debris, End, List};

use crate::Handler;
use crate::context::Context;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &LPUSH,
    &RPUSH,
    &LPUSHX,
    &RPUSHX,
    &LLEN,
    &LINDEX,
    &LSET,
    &LRANGE,
    &LTRIM,
    &LREM,
    &LINSERT,
    &LPOS,
    &pop::LPOP,
    &pop::RPOP,
    &pop::LMPOP,
    &pop::BLPOP,
    &pop::BRPOP,
    &pop::BLMPOP,
    &transfer::LMOVE,
    &transfer::RPOPLPUSH,
    &transfer::BLMOVE,
    &transfer::BRPOPLPUSH,
    &batch::LMOVEM,
    &batch::BLMOVEM,
];

const RW_INSERT: KeyFlags = KeyFlags::RW.with(KeyFlags::INSERT);
const RW_DELETE: KeyFlags = KeyFlags::RW.with(KeyFlags::DELETE);
const RO_ACCESS: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const PUSHES: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);

/// Writes an element as a bulk string.
#[inline]
pub(crate) fn bulk(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Int(int) => reply.bulk_int(int),
        Element::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Writes elements as an array of bulk strings.
fn array<'a>(reply: &mut Reply, elements: impl ExactSizeIterator<Item = Element<'a>>) {
    reply.array(elements.len());
    elements.for_each(|element| bulk(reply, element));
}

/// Says that a list was changed, without counting the change.
#[inline]
fn note(keys: &mut Keys, key: &Key<'_>, event: &'static str) {
    keys.signal(key);
    keys.effects.event(EventClass::LIST, event, keys.db(), key.bytes);
}

/// The consequences of a removal of `removed` elements: the event, and the deletion of a list without
/// elements.
fn after_removal(keys: &mut Keys, key: &Key<'_>, event: &'static str, removed: usize) {
    note(keys, key, event);
    keys.dirty += removed as u64;
    if keys.delete_if_empty::<List>(key) {
        keys.effects.event(EventClass::GENERIC, "del", keys.db(), key.bytes);
    }
}

/// Leaves the part that was cut off a long list to the background.
fn discard(keys: &Keys, debris: Option<Debris>) {
    if let Some(debris) = debris {
        keys.engine().lazy_free.free(1, Box::new(debris));
    }
}

/// The part of a list of `len` elements that Redis' inclusive indexes, negative ones from the end, stand for:
/// where it starts and how many elements it has.
fn range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |index: i64| if index < 0 { len.saturating_add(index) } else { index };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    if start > stop { (0, 0) } else { (start as usize, (stop - start + 1) as usize) }
}

/// The place of Redis' index, negative ones from the end, in a list of `len` elements.
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// A number from `least` to the largest, with one text for every fault.
pub(crate) fn at_least(least: i64, text: &[u8], error: &'static str) -> Result<i64, Error> {
    parse_i64(text).filter(|&number| number >= least).ok_or(Error::Fixed(error))
}

/// A number whose negation is one too.
pub(crate) fn symmetric(text: &[u8]) -> Result<i64, Error> {
    match parse_i64(text) {
        None => Err(Error::NotInteger),
        Some(i64::MIN) => Err(Error::Fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        Some(number) => Ok(number),
    }
}

static LPUSH: Command<Handler> = command("lpush", -3, lpush as Handler)
    .flags(PUSHES)
    .keys(&[KeyPart::one(1, RW_INSERT)])
    .acl(Acl::LIST)
    .syntax("key:k0 *element")
    .doc(
        Group::List,
        "1.0.0",
        "O(N), N being the number of elements pushed",
        "Puts elements at the head of a list.",
    )
    .history(&[("2.4.0", "Takes several elements.")]);

fn lpush(ctx: &mut Context<'_>) -> Outcome {
    push(ctx, End::Head, false)
}

static RPUSH: Command<Handler> = command("rpush", -3, rpush as Handler)
    .flags(PUSHES)
    .keys(&[KeyPart::one(1, RW_INSERT)])
    .acl(Acl::LIST)
    .syntax("key:k0 *element")
    .doc(
        Group::List,
        "1.0.0",
        "O(N), N being the number of elements pushed",
        "Puts elements at the tail of a list.",
    )
    .history(&[("2.4.0", "Takes several elements.")]);

fn rpush(ctx: &mut Context<'_>) -> Outcome {
    push(ctx, End::Tail, false)
}

static LPUSHX: Command<Handler> = command("lpushx", -3, lpushx as Handler)
    .flags(PUSHES)
    .keys(&[KeyPart::one(1, RW_INSERT)])
    .acl(Acl::LIST)
    .syntax("key:k0 *element")
    .doc(
        Group::List,
        "2.2.0",
        "O(N), N being the number of elements pushed",
        "Puts elements at the head of a list that exists.",
    )
    .history(&[("4.0.0", "Takes several elements.")]);

fn lpushx(ctx: &mut Context<'_>) -> Outcome {
    push(ctx, End::Head, true)
}

static RPUSHX: Command<Handler> = command("rpushx", -3, rpushx as Handler)
    .flags(PUSHES)
    .keys(&[KeyPart::one(1, RW_INSERT)])
    .acl(Acl::LIST)
    .syntax("key:k0 *element")
    .doc(
        Group::List,
        "2.2.0",
        "O(N), N being the number of elements pushed",
        "Puts elements at the tail of a list that exists.",
    )
    .history(&[("4.0.0", "Takes several elements.")]);

fn rpushx(ctx: &mut Context<'_>) -> Outcome {
    push(ctx, End::Tail, true)
}

fn push(ctx: &mut Context<'_>, end: End, only_existing: bool) -> Outcome {
    let key = ctx.key(1);
    let limit = ctx.settings.list_limit;
    let elements = ctx.args.from(2);
    let mut list = if only_existing {
        match ctx.keys.write::<List>(&key)? {
            Some(list) => list,
            None => {
                ctx.reply.int(0);
                return Ok(());
            }
        }
    } else {
        ctx.keys.create::<List>(&key)?
    };
    list.before_growth(limit, elements.len(), elements.iter().map(<[u8]>::len).sum());
    elements.iter().for_each(|element| list.push(end, element));
    ctx.reply.count(list.len());
    drop(list);
    ctx.keys.dirty += elements.len() as u64;
    note(ctx.keys, &key, transfer::push_event(end));
    Ok(())
}

static LLEN: Command<Handler> = command("llen", 2, llen as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::LIST)
    .syntax("key:k0")
    .doc(Group::List, "1.0.0", "O(1)", "Returns the number of elements of a list.");

fn llen(ctx: &mut Context<'_>) -> Outcome {
    let len = ctx.keys.read::<List>(&ctx.key(1))?.map_or(0, List::len);
    ctx.reply.count(len);
    Ok(())
}

static LINDEX: Command<Handler> = command("lindex", 3, lindex as Handler)
    .member(2)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::LIST)
    .syntax("key:k0 index:i")
    .doc(
        Group::List,
        "1.0.0",
        "O(log N), N being the length of the list",
        "Returns the element at an index.",
    );

fn lindex(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let index = ctx.int(2);
    let Some(list) = ctx.keys.read::<List>(&key)? else {
        ctx.reply.null();
        return Ok(());
    };
    match place(index?, list.len()).and_then(|at| list.get(at)) {
        Some(element) => bulk(ctx.reply, element),
        None => ctx.reply.null(),
    }
    Ok(())
}

static LSET: Command<Handler> = command("lset", 4, lset as Handler)
    .member(2)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::LIST)
    .syntax("key:k0 index:i element")
    .doc(
        Group::List,
        "1.0.0",
        "O(log N), N being the length of the list",
        "Replaces the element at an index.",
    );

fn lset(ctx: &mut Context<'_>) -> Outcome {
    let (key, value) = (ctx.key(1), ctx.arg(3));
    let index = ctx.int(2);
    let limit = ctx.settings.list_limit;
    let mut list = ctx.keys.write::<List>(&key)?.ok_or(Error::NoSuchKey)?;
    let index = index?;
    list.before_growth(limit, 1, value.len());
    let place = place(index, list.len()).ok_or(Error::IndexOutOfRange)?;
    list.set(place, value);
    list.after_shrink(limit);
    drop(list);
    ctx.reply.ok();
    ctx.keys.changed(&key, EventClass::LIST, "lset");
    Ok(())
}

static LRANGE: Command<Handler> = command("lrange", 4, lrange as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::LIST)
    .syntax("key:k0 start:i stop:i")
    .doc(
        Group::List,
        "1.0.0",
        "O(log N + M), N being the length of the list and M that of the range",
        "Returns the elements in a range of indexes.",
    );

fn lrange(ctx: &mut Context<'_>) -> Outcome {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let Some(list) = ctx.keys.read::<List>(&ctx.key(1))? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let (start, count) = range(start, stop, list.len());
    array(ctx.reply, list.iter_from(start).take(count));
    Ok(())
}

static LTRIM: Command<Handler> = command("ltrim", 4, ltrim as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, RW_DELETE)])
    .acl(Acl::LIST)
    .syntax("key:k0 start:i stop:i")
    .doc(
        Group::List,
        "1.0.0",
        "O(log N), N being the length of the list; removed elements are freed in the background",
        "Removes the elements outside a range of indexes.",
    );

fn ltrim(ctx: &mut Context<'_>) -> Outcome {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let Some(mut list) = ctx.keys.write::<List>(&key)? else {
        ctx.reply.ok();
        return Ok(());
    };
    let (start, count) = range(start, stop, list.len());
    let removed = list.len() - count;
    let debris = list.trim(start, count);
    list.after_shrink(ctx.settings.list_limit);
    drop(list);
    discard(ctx.keys, debris);
    after_removal(ctx.keys, &key, "ltrim", removed);
    ctx.reply.ok();
    Ok(())
}

static LREM: Command<Handler> = command("lrem", 4, lrem as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, RW_DELETE)])
    .acl(Acl::LIST)
    .syntax("key:k0 count:i element")
    .doc(
        Group::List,
        "1.0.0",
        "O(N), N being the length of the list",
        "Removes elements equal to a value, counted from the head or, if negative, from the tail.",
    );

fn lrem(ctx: &mut Context<'_>) -> Outcome {
    let count = symmetric(ctx.arg(2))?;
    let (key, value) = (ctx.key(1), ctx.arg(3));
    let mut removed = 0;
    if let Some(mut list) = ctx.keys.write::<List>(&key)? {
        let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
        removed = list.remove_matches(value, most, if count < 0 { End::Tail } else { End::Head });
        if removed > 0 {
            list.after_shrink(ctx.settings.list_limit);
        }
    }
    if removed > 0 {
        after_removal(ctx.keys, &key, "lrem", removed);
    }
    ctx.reply.count(removed);
    Ok(())
}

static LINSERT: Command<Handler> = command("linsert", 5, linsert as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, RW_INSERT)])
    .acl(Acl::LIST)
    .syntax("key:k0 where(BEFORE|AFTER) pivot element")
    .doc(
        Group::List,
        "2.2.0",
        "O(N), N being the number of elements up to the pivot",
        "Inserts an element before or after the first one equal to a pivot.",
    );

fn linsert(ctx: &mut Context<'_>) -> Outcome {
    let after = ctx.rest(2).one_of(&[("after", 1), ("before", 0)]).ok_or(Error::Syntax)?;
    let (key, pivot, value) = (ctx.key(1), ctx.arg(3), ctx.arg(4));
    let Some(mut list) = ctx.keys.write::<List>(&key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    // Before the pivot is looked for, as in Redis: OBJECT ENCODING may change although nothing is inserted.
    list.before_growth(ctx.settings.list_limit, 1, value.len());
    let Some(at) = list.find(pivot, 0..list.len()) else {
        ctx.reply.int(-1);
        return Ok(());
    };
    list.insert(at + after, value);
    ctx.reply.count(list.len());
    drop(list);
    ctx.keys.changed(&key, EventClass::LIST, "linsert");
    Ok(())
}

static LPOS: Command<Handler> = command("lpos", -3, lpos as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO_ACCESS)])
    .acl(Acl::LIST)
    .syntax("key:k0 element ?rank:i=RANK ?num-matches:i=COUNT ?len:i=MAXLEN")
    .doc(
        Group::List,
        "6.0.6",
        "O(N), N being the number of elements looked at",
        "Returns the indexes of elements equal to a value.",
    );

/// What LPOS looks for.
struct Search {
    /// The first match that counts, from 1.
    rank: u64,
    /// Matches are counted from the tail.
    backwards: bool,
    /// How many matches to return, 0 for all; `None`: one, and not as an array.
    count: Option<i64>,
    /// How many elements to look at.
    most: usize,
}

impl Search {
    fn parse(ctx: &Context<'_>) -> Result<Search, Error> {
        let (mut rank, mut count, mut most) = (1, None, usize::MAX);
        let mut rest = ctx.rest(3);
        loop {
            if rest.option("RANK", 1) {
                rank = symmetric(rest.value()?)?;
                if rank == 0 {
                    return Err(Error::Fixed(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                         or use negative to start from the end of the list",
                    ));
                }
            } else if rest.option("COUNT", 1) {
                count = Some(rest.at_least(0, "ERR COUNT can't be negative")?);
            } else if rest.option("MAXLEN", 1) {
                let len = rest.at_least(0, "ERR MAXLEN can't be negative")?;
                most = if len == 0 { usize::MAX } else { len as usize };
            } else {
                break rest.finish()?;
            }
        }
        Ok(Search { rank: rank.unsigned_abs(), backwards: rank < 0, count, most })
    }

    /// Calls `found` with the index of each match that counts, until it says that it is enough.
    fn run(&self, list: &List, value: &[u8], mut found: impl FnMut(usize) -> bool) {
        let len = list.len();
        let most = self.most.min(len);
        let mut scope = if self.backwards { len - most..len } else { 0..most };
        let mut skip = self.rank - 1;
        loop {
            let at = if self.backwards {
                list.rfind(value, scope.clone())
            } else {
                list.find(value, scope.clone())
            };
            let Some(at) = at else { return };
            scope = if self.backwards { scope.start..at } else { at + 1..scope.end };
            if skip > 0 {
                skip -= 1;
            } else if !found(at) {
                return;
            }
        }
    }
}

fn lpos(ctx: &mut Context<'_>) -> Outcome {
    let search = Search::parse(ctx)?;
    let value = ctx.arg(2);
    let list = ctx.keys.read::<List>(&ctx.key(1))?;
    let reply = &mut *ctx.reply;
    match (list, search.count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(list), None) => {
            let mut first = None;
            search.run(list, value, |at| {
                first = Some(at);
                false
            });
            match first {
                Some(at) => reply.count(at),
                None => reply.null(),
            }
        }
        (Some(list), Some(count)) => {
            let mut matches = 0;
            let place = reply.defer();
            search.run(list, value, |at| {
                reply.count(at);
                matches += 1;
                count == 0 || matches < count as usize
            });
            reply.close_array(place, matches);
        }
    }
    Ok(())
}
