//! Walks over all keys of a database. They lock one shard at a time and for a bounded number of keys only, so
//! other requests wait briefly; hence they do not see the database at one instant, but every key that is
//! there throughout.

use martlet_base::glob;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::slot::SLOT_COUNT;
use martlet_engine::Keys;
use martlet_keyspace::{Entry, Key, Kind, SCAN_POSITION_BITS, Shard};
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, Outcome, Tip, command};

use crate::Handler;
use crate::context::Context;

/// Most keys visited while a shard is held.
pub(super) const SLICE_KEYS: usize = 256;

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

    fn passes(self, entry: &Entry<'_>) -> bool {
        match self {
            KindFilter::Any => true,
            KindFilter::Only(wanted) => entry.kind() == wanted,
            KindFilter::Module(name) => {
                entry.kind() == Kind::Module && entry.type_name().as_bytes().eq_ignore_ascii_case(name)
            }
        }
    }
}

impl<'a> Filter<'a> {
    fn by_pattern(pattern: &'a [u8]) -> Filter<'a> {
        Filter { pattern: (pattern != b"*").then_some(pattern), kind: KindFilter::Any }
    }
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

/// Visits some keys from a position on, at most about [`SLICE_KEYS`] and at least `want` if that many are
/// left in the shard. Passes matching ones to `found`; returns the number of visited keys and the next
/// position.
fn walk_slice(
    keys: &mut Keys,
    place: Place,
    want: usize,
    filter: &Filter<'_>,
    found: impl FnMut(&[u8]),
) -> (usize, Option<Place>) {
    let (visited, next) = visit_slice(keys, place.shard, filter, found, |shard, db, visit| {
        shard.scan(db, place.position, want.min(SLICE_KEYS), visit)
    });
    match next {
        Some(position) => (visited, Some(Place { position, ..place })),
        None => (visited, place.next_shard()),
    }
}

/// Has `scan` visit some keys of a shard's database and return the next position. Passes matching ones to
/// `found`; returns the number of visited keys, too.
pub(super) fn visit_slice(
    keys: &mut Keys,
    shard: usize,
    filter: &Filter<'_>,
    mut found: impl FnMut(&[u8]),
    scan: impl FnOnce(&Shard, usize, &mut dyn FnMut(Entry<'_>)) -> Option<u64>,
) -> (usize, Option<u64>) {
    let mut visited = 0;
    let mut expired: Vec<Vec<u8>> = Vec::new();
    let next = keys.visit_shard(shard, |keys| {
        let (db, due_ms, hidden) = (keys.db(), keys.due_ms(), &keys.engine().hidden);
        let next = scan(&keys.shard(shard).keys, db, &mut |entry| {
            visited += 1;
            if hidden.has_key(entry.key()) {
                return;
            }
            if filter.pattern.is_some_and(|pattern| !glob::matches(pattern, entry.key(), false)) {
                return;
            }
            if entry.expiry_ms().is_some_and(|at_ms| at_ms <= due_ms) {
                expired.push(entry.key().to_vec());
            } else if filter.kind.passes(&entry) {
                found(entry.key());
            }
        });
        for name in &expired {
            keys.delete_if_expired(&Key::new(name));
        }
        next
    });
    (visited, next.flatten())
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
    let mut place = Some(Place::START);
    while let Some(here) = place {
        let (_, next) = walk_slice(keys, here, SLICE_KEYS, &filter, |name| {
            reply.bulk(name);
            count += 1;
        });
        place = next;
    }
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
    let (filter, count) = parse_scan_options(ctx.rest(2), None)?;
    let Context { keys, reply, .. } = ctx;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut place = Place::from_cursor(cursor);
    let mut visited = 0;
    // Empty shards are passed over in one call: their number is bounded.
    while let Some(here) = place.filter(|_| visited < count) {
        let (more, next) = walk_slice(keys, here, count - visited, &filter, |name| names.push(name.to_vec()));
        visited += more;
        place = next;
    }
    reply.array(2);
    reply.bulk_int(place.map_or(0, |place| place.cursor() as i64));
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// Which keys a scan is after and about how many of them, by the options from the cursor on. One of slots may
/// say which slot, and must know the type.
pub(super) fn parse_scan_options<'a>(
    mut rest: Cursor<'a>,
    mut slot: Option<&mut Option<u16>>,
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
            if slot.is_some() && matches!(filter.kind, KindFilter::Module(_)) {
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

/// How often RANDOMKEY looks for a key that has not expired.
const RANDOM_ATTEMPTS: usize = 100;
/// Shards of this many keys or more hold about equally many, so that one chosen at random will do. A smaller
/// one is chosen with the probability of its number of keys among this many.
const EVEN_SHARD_KEYS: usize = 256;
/// Shards that are tried before all are counted.
const SHARD_ATTEMPTS: usize = 32;

/// Where expired keys are kept and no other is found, one of these is the answer, as in Redis.
fn randomkey(ctx: &mut Context<'_>) -> Outcome {
    let mut kept = None;
    for _ in 0..RANDOM_ATTEMPTS {
        let Some(shard) = random_shard(ctx.keys) else { break };
        match ctx.keys.visit_shard(shard, |keys| random_key_in(keys, shard)).flatten() {
            Some((name, false)) => {
                ctx.reply.bulk(&name);
                return Ok(());
            }
            Some((name, true)) if ctx.keys.keeps_expired() => kept = Some(name),
            _ => {}
        }
    }
    match kept {
        Some(name) => ctx.reply.bulk(&name),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// A shard that holds keys of the selected database, chosen in proportion to their number.
fn random_shard(keys: &mut Keys) -> Option<usize> {
    let len = |keys: &mut Keys, shard: usize| {
        keys.visit_shard(shard, |keys| keys.visible_len(shard, keys.db())).unwrap_or(0)
    };
    for _ in 0..SHARD_ATTEMPTS {
        let shard = keys.random.below(SHARD_COUNT as u64) as usize;
        if (keys.random.below(EVEN_SHARD_KEYS as u64) as usize) < len(keys, shard) {
            return Some(shard);
        }
    }
    let lens: Vec<usize> = (0..SHARD_COUNT).map(|shard| len(keys, shard)).collect();
    let mut left = keys.random.below(lens.iter().sum::<usize>() as u64) as usize;
    lens.iter().position(|&len| {
        let here = left < len;
        left = left.saturating_sub(len);
        here
    })
}

/// A random key of a held shard, and whether it has expired; such a one is deleted, unless those are kept.
fn random_key_in(keys: &mut Keys, shard: usize) -> Option<(Vec<u8>, bool)> {
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
    name.map(|name| {
        let expired = keys.delete_if_expired(&Key::new(&name));
        (name, expired)
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
