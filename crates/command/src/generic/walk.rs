//! Walks over all keys of a database: KEYS, SCAN, RANDOMKEY, DBSIZE.
//!
//! Each reply is the state at one moment, beside the other threads. What takes some microseconds runs with
//! the shards that it looks at locked; a longer walk makes a cut of the names
//! ([`martlet_engine::NameCut`]) and locks a shard for a bounded number of keys at a time, so that other
//! requests wait briefly.

use martlet_base::glob;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::slot::SLOT_COUNT;
use martlet_engine::{Contended, HiddenSlots, Keys, NamedKey};
use martlet_keyspace::{Entry, Key, Kind, ORDERS, SCAN_POSITION_BITS, Shard, order_at, position_at};
use martlet_spec::data_type::DATA_TYPES;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, Outcome, Presentation, Tip, command};

use crate::Handler;
use crate::context::Context;

/// Most keys, about, that a walk visits with all of its shards locked.
const HELD_KEYS_MAX: usize = 1024;

/// Longest pattern that keys are matched with while all shards are locked.
const BRIEF_PATTERN_MAX_BYTES: usize = 256;

/// Which keys a walk is after.
pub(super) struct Filter<'a> {
    /// `None` for all.
    pub(super) pattern: Option<&'a [u8]>,
    kind: KindFilter<'a>,
}

/// Which types of value a walk is after.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum KindFilter<'a> {
    Any,
    Only(Kind),
    /// The type of this name, if any key holds it: a module's.
    Module(&'a [u8]),
}

impl<'a> KindFilter<'a> {
    fn named(name: &'a [u8]) -> KindFilter<'a> {
        Kind::from_name(name).map_or(KindFilter::Module(name), KindFilter::Only)
    }

    fn passes(self, key: &NamedKey<'_>) -> bool {
        match self {
            KindFilter::Any => true,
            KindFilter::Only(wanted) => key.kind == wanted,
            KindFilter::Module(name) => {
                key.module_type.is_some_and(|of| of.as_bytes().eq_ignore_ascii_case(name))
            }
        }
    }
}

impl<'a> Filter<'a> {
    fn by_pattern(pattern: &'a [u8]) -> Filter<'a> {
        Filter { pattern: (pattern != b"*").then_some(pattern), kind: KindFilter::Any }
    }

    /// Whether it takes little time to judge some thousand keys.
    fn is_brief(&self) -> bool {
        self.pattern.is_none_or(|pattern| pattern.len() <= BRIEF_PATTERN_MAX_BYTES)
    }

    /// Judges a key; keys that expire at `due_ms` or before have expired.
    fn judge(&self, key: &NamedKey<'_>, hidden: &HiddenSlots, due_ms: i64) -> Judged {
        let matches = |pattern| glob::matches(pattern, key.name, false);
        if hidden.has_key(key.name) || !self.pattern.is_none_or(matches) {
            return Judged::Other;
        }
        match key.expiry_ms.is_some_and(|at_ms| at_ms <= due_ms) {
            true => Judged::Expired,
            false if self.kind.passes(key) => Judged::Found,
            false => Judged::Other,
        }
    }
}

/// The judgement of a filter on a key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Judged {
    /// One of those that it is after.
    Found,
    /// One whose time has come, to be deleted.
    Expired,
    /// Another.
    Other,
}

/// Where a walk is: a shard, and a position within it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Place {
    shard: usize,
    position: u64,
}

impl Place {
    const START: Place = Place { shard: 0, position: 0 };

    /// The place that a cursor stands for; `None` when it is past the end.
    fn from_cursor(cursor: u64) -> Option<Place> {
        let shard =
            usize::try_from(cursor >> SCAN_POSITION_BITS).ok().filter(|shard| *shard < SHARD_COUNT)?;
        Some(Place { shard, position: cursor & ((1 << SCAN_POSITION_BITS) - 1) })
    }

    fn cursor(self) -> u64 {
        (self.shard as u64) << SCAN_POSITION_BITS | self.position
    }

    /// The beginning of the next shard, if there is one.
    fn next_shard(self) -> Option<Place> {
        let shard = self.shard + 1;
        (shard < SHARD_COUNT).then_some(Place { shard, position: 0 })
    }
}

/// Has `scan` visit some keys of a shard's database and return the next position; the shard is locked for
/// it, and stays locked. Passes matching ones to `found`; returns the number of visited keys, too.
///
/// # Errors
/// The shard is not free.
pub(super) fn visit_slice(
    keys: &mut Keys,
    shard: usize,
    filter: &Filter<'_>,
    mut found: impl FnMut(&[u8]),
    scan: impl FnOnce(&Shard, usize, &mut dyn FnMut(Entry<'_>)) -> Option<u64>,
) -> Result<(usize, Option<u64>), Contended> {
    keys.lock_also(shard)?;
    let mut visited = 0;
    let mut expired: Vec<Vec<u8>> = Vec::new();
    let (db, due_ms, hidden) = (keys.db(), keys.due_ms(), &keys.engine().hidden);
    let next = scan(&keys.shard(shard).keys, db, &mut |entry| {
        visited += 1;
        match filter.judge(&NamedKey::of(&entry), hidden, due_ms) {
            Judged::Expired => expired.push(entry.key().to_vec()),
            Judged::Found => found(entry.key()),
            Judged::Other => {}
        }
    });
    delete_expired(keys, &expired);
    Ok((visited, next))
}

fn delete_expired(keys: &mut Keys, names: &[Vec<u8>]) {
    for name in names {
        keys.delete_if_expired(&Key::new(name));
    }
}

/// Walks from a place on until `count` keys have been visited, with all shards that it visits locked.
/// Returns the next place.
///
/// # Errors
/// A shard is not free.
fn walk_held(
    keys: &mut Keys,
    from: Place,
    count: usize,
    filter: &Filter<'_>,
    mut found: impl FnMut(&[u8]),
) -> Result<Option<Place>, Contended> {
    let (mut place, mut visited) = (Some(from), 0);
    // Empty shards are passed over in one call: their number is bounded.
    while let Some(here) = place.filter(|_| visited < count) {
        let want = count - visited;
        let (more, next) = visit_slice(keys, here.shard, filter, &mut found, |shard, db, visit| {
            shard.scan(db, here.position, want, visit)
        })?;
        visited += more;
        place = match next {
            Some(position) => Some(Place { position, ..here }),
            None => here.next_shard(),
        };
    }
    Ok(place)
}

/// Walks from a place on until `count` keys have been visited: with all shards locked if there are few
/// keys, else by a cut. Returns the next place.
fn walk_at_one_moment(
    keys: &mut Keys,
    from: Place,
    count: usize,
    filter: &Filter<'_>,
    mut found: impl FnMut(&[u8]),
) -> Option<Place> {
    let held = keys.at_one_moment(|keys| {
        let db = keys.db();
        let len: usize = (from.shard..SHARD_COUNT).map(|shard| keys.shard(shard).keys.db(db).len()).sum();
        let is_brief = keys.has_all_shards() || len <= HELD_KEYS_MAX && filter.is_brief();
        is_brief.then(|| walk_held(keys, from, count, filter, &mut found))
    })?;
    match held {
        // All shards are locked: none is missing.
        Some(next) => next.ok().flatten(),
        None => walk_cut(keys, from, count, filter, found),
    }
}

/// As [`walk_at_one_moment`], by a cut. A walk that ends within a shard may find some keys behind its end.
fn walk_cut(
    keys: &mut Keys,
    from: Place,
    count: usize,
    filter: &Filter<'_>,
    mut found: impl FnMut(&[u8]),
) -> Option<Place> {
    let cut = keys.cut_names(from.shard)?;
    let (due_ms, hidden) = (keys.due_ms(), &keys.engine().hidden);
    let (mut visited, mut expired): (usize, Vec<Vec<u8>>) = (0, Vec::new());
    let (mut place, mut order) = (from, order_at(from.position));
    loop {
        let mut visit = |key: NamedKey<'_>| {
            visited += 1;
            match filter.judge(&key, hidden, due_ms) {
                Judged::Expired => expired.push(key.name.to_vec()),
                Judged::Found => found(key.name),
                Judged::Other => {}
            }
        };
        order = keys.visit_names(&cut, (place.shard, order), &mut visit)?;
        let is_enough = visited >= count;
        let mut visit = |key: NamedKey<'_>| {
            if filter.judge(&key, hidden, due_ms) == Judged::Found {
                found(key.name);
            }
        };
        if order < ORDERS && is_enough {
            keys.visit_changed_names(&cut, place.shard, &mut visit);
        }
        if !expired.is_empty() {
            keys.visit_shard(place.shard, |keys| delete_expired(keys, &expired));
            expired.clear();
        }
        let next = match order {
            ORDERS => place.next_shard()?,
            _ => Place { position: position_at(order), ..place },
        };
        if is_enough {
            return Some(next);
        }
        (place, order) = (next, order_at(next.position));
    }
}

pub(super) static KEYS: Command<Handler> = command("keys", 2, keys as Handler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::KEYSPACE.with(Acl::DANGEROUS))
    .syntax("pattern:p")
    .doc(
        Group::Generic,
        "1.0.0",
        "O(N), N being the number of keys in the database",
        "Returns all keys whose names match a pattern.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn keys(ctx: &mut Context<'_>) -> Outcome {
    let filter = Filter::by_pattern(ctx.arg(1));
    let Context { keys, reply, .. } = ctx;
    let header = reply.defer();
    let mut count = 0;
    walk_at_one_moment(keys, Place::START, usize::MAX, &filter, |name| {
        reply.bulk(name);
        count += 1;
    });
    reply.close_array(header, count);
    Ok(())
}

pub(super) static SCAN: Command<Handler> = command("scan", -2, scan as Handler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::KEYSPACE)
    .syntax("cursor:i ?pattern:p=MATCH ?count:i=COUNT ?type=TYPE^6.0.0")
    .doc(
        Group::Generic,
        "2.8.0",
        "O(1) for every call, O(N) for all of them, N being the number of keys in the database",
        "Returns some keys and a cursor for the next call.",
    )
    .history(&[("6.0.0", "Filter `TYPE`.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_SPECIAL, Tip::RESPONSE_SPECIAL]);

fn scan(ctx: &mut Context<'_>) -> Outcome {
    let cursor = parse_cursor(ctx.arg(1)).ok_or(Error::Fixed("ERR invalid cursor"))?;
    let (filter, count) = parse_scan_options(ctx.rest(2), None, ctx.settings.presentation)?;
    let Context { keys, reply, .. } = ctx;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let place = match Place::from_cursor(cursor) {
        None => None,
        Some(from) if count <= HELD_KEYS_MAX && filter.is_brief() => {
            let next = keys.holding(|keys| {
                names.clear();
                walk_held(keys, from, count, &filter, |name| names.push(name.to_vec()))
            });
            next.flatten()
        }
        Some(from) => walk_at_one_moment(keys, from, count, &filter, |name| names.push(name.to_vec())),
    };
    reply.array(2);
    reply.bulk_int(place.map_or(0, |place| place.cursor() as i64));
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// Whether a type of this server has the name.
fn is_built_in(name: &[u8]) -> bool {
    DATA_TYPES.iter().any(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Which keys a scan is after and about how many of them, by the options from the cursor on. One of slots may
/// say which slot, and must know the type, as every scan must in Valkey.
pub(super) fn parse_scan_options<'a>(
    mut rest: Cursor<'a>,
    mut slot: Option<&mut Option<u16>>,
    presentation: Presentation,
) -> Result<(Filter<'a>, usize), Error> {
    let mut filter = Filter { pattern: None, kind: KindFilter::Any };
    let mut count = 10;
    loop {
        if let Some(slot) = &mut slot
            && parse_slot_option(&mut rest, slot)?
        {
            continue;
        }
        if rest.option("count", 1) {
            count = usize::try_from(rest.int()?).ok().filter(|n| *n >= 1).ok_or(Error::Syntax)?;
        } else if rest.option("match", 1) {
            filter.pattern = Filter::by_pattern(rest.value()?).pattern;
        } else if rest.option("type", 1) {
            let name = rest.value()?;
            filter.kind = KindFilter::named(name);
            let must_be_known = slot.is_some() || presentation.is_valkey();
            if must_be_known && matches!(filter.kind, KindFilter::Module(_)) && !is_built_in(name) {
                return Err(Error::Text(format!(
                    "ERR unknown type name '{}'",
                    String::from_utf8_lossy(name)
                )));
            }
        } else if rest.word("novalues") {
            return Err(Error::Fixed("ERR NOVALUES option can only be used in HSCAN"));
        } else {
            rest.finish()?;
            return Ok((filter, count));
        }
    }
}

/// Reads what only a scan of slots may say, if that is next.
fn parse_slot_option(rest: &mut Cursor<'_>, slot: &mut Option<u16>) -> Result<bool, Error> {
    if rest.word("noscores") {
        return Err(Error::Fixed("ERR NOSCORES option can only be used in ZSCAN"));
    }
    if !rest.option("slot", 1) {
        return Ok(false);
    }
    if slot.is_some() {
        return Err(Error::Fixed("ERR SLOT option can only be specified once"));
    }
    let number = martlet_base::number::parse_i64(rest.value()?).and_then(|number| u16::try_from(number).ok());
    let valid = number.filter(|number| usize::from(*number) < SLOT_COUNT);
    *slot = Some(valid.ok_or(Error::Fixed("ERR Invalid or out of range slot"))?);
    Ok(true)
}

/// A cursor as C's `strtoull` reads it: blanks and a sign may precede the digits, which must not go past 64
/// bits.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    if let Some(number) = martlet_base::number::parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let blanks = text.iter().take_while(|byte| martlet_protocol::quote::is_space(**byte)).count();
    let unsigned = text.get(blanks..)?;
    let (negative, digits) = match unsigned {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

pub(super) static RANDOMKEY: Command<Handler> = command("randomkey", 1, randomkey as Handler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::KEYSPACE)
    .doc(Group::Generic, "1.0.0", "O(1)", "Returns the name of a random key.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_SPECIAL, Tip::NONDETERMINISTIC_OUTPUT]);

/// Shards of this many keys or more hold about equally many, so that one chosen at random will do. A smaller
/// one is chosen with the probability of its number of keys among this many.
const EVEN_SHARD_KEYS: usize = 256;
/// Shards that are tried before all are locked.
const SHARD_ATTEMPTS: usize = 32;
/// Keys that are tried, whether they have expired, while all shards are locked.
const HELD_ATTEMPTS: usize = 100;

/// A key that RANDOMKEY has come upon.
enum Picked {
    Live(Vec<u8>),
    /// It has expired, and is deleted unless such keys are kept.
    Expired(Vec<u8>),
}

/// Where expired keys are kept and no other is found, one of these is the answer, as in Redis. A null is
/// the answer at a moment in which there is no key.
fn randomkey(ctx: &mut Context<'_>) -> Outcome {
    for _ in 0..SHARD_ATTEMPTS {
        let shard = ctx.keys.random.below(SHARD_COUNT as u64) as usize;
        if let Some(Picked::Live(name)) =
            ctx.keys.visit_shard(shard, |keys| pick_evenly(keys, shard)).flatten()
        {
            ctx.reply.bulk(&name);
            return Ok(());
        }
    }
    let found = loop {
        match ctx.keys.at_one_moment(pick_of_all).flatten() {
            Some(Picked::Expired(name)) if ctx.keys.keeps_expired() => break Some(name),
            // Those that were met are deleted: there are fewer each time.
            Some(Picked::Expired(_)) => {}
            Some(Picked::Live(name)) => break Some(name),
            None => break None,
        }
    };
    match found {
        Some(name) => ctx.reply.bulk(&name),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// A random key of a locked shard, with a probability that is higher the more it holds.
fn pick_evenly(keys: &mut Keys, shard: usize) -> Option<Picked> {
    let bound = keys.random.below(EVEN_SHARD_KEYS as u64) as usize;
    if bound < keys.visible_len(shard, keys.db()) { random_key_in(keys, shard) } else { None }
}

/// A random key; all shards are locked. `None` if there is no key; one that has expired only if some have
/// been tried.
fn pick_of_all(keys: &mut Keys) -> Option<Picked> {
    let mut lens: Vec<usize> = (0..SHARD_COUNT).map(|shard| keys.visible_len(shard, keys.db())).collect();
    let mut expired = None;
    for _ in 0..HELD_ATTEMPTS {
        let mut left = keys.random.below(lens.iter().sum::<usize>() as u64) as usize;
        let shard = lens.iter().position(|&len| {
            let here = left < len;
            left = left.saturating_sub(len);
            here
        });
        match shard.and_then(|shard| random_key_in(keys, shard)) {
            Some(Picked::Live(name)) => return Some(Picked::Live(name)),
            None => return None,
            met => expired = met,
        }
        if let Some(shard) = shard {
            lens[shard] = keys.visible_len(shard, keys.db());
        }
    }
    expired
}

/// A random key of a locked shard; one that has expired is deleted, unless those are kept.
fn random_key_in(keys: &mut Keys, shard: usize) -> Option<Picked> {
    let mut random = keys.random.clone();
    let db = keys.shard(shard).keys.db(keys.db());
    let hidden = &keys.engine().hidden;
    let picked = db.random(|bound| random.below(bound as u64) as usize);
    // Where most are hidden, any other will do.
    let visible = picked
        .filter(|entry| !hidden.has_key(entry.key()))
        .or_else(|| db.iter().find(|entry| hidden.is_any() && !hidden.has_key(entry.key())));
    let name = visible.map(|entry| entry.key().to_vec());
    keys.random = random;
    name.map(|name| match keys.delete_if_expired(&Key::new(&name)) {
        true => Picked::Expired(name),
        false => Picked::Live(name),
    })
}

pub(super) static DBSIZE: Command<Handler> = command("dbsize", 1, dbsize as Handler)
    .flags(Flags::READONLY.with(Flags::FAST).with(Flags::WALK))
    .acl(Acl::KEYSPACE)
    .doc(Group::Server, "1.0.0", "O(1)", "Counts the keys of the database.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_AGG_SUM]);

fn dbsize(ctx: &mut Context<'_>) -> Outcome {
    let count = ctx.keys.count(ctx.keys.db());
    ctx.reply.count(count);
    Ok(())
}
