//! Path hashes, the type of Valkey 9.2: setting, reading and deleting by exact path. What goes by prefix is
//! in `prefix`, the scan in `scan`.
//!
//! A path hash stays when its last path goes, unlike every other collection but a stream.

mod prefix;
mod scan;
#[cfg(test)]
mod tests;

use martlet_base::number::parse_i64;
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, Value};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash, HashLimits};
use martlet_types::path_hash::PathHash;

use crate::Handler;
use crate::context::Context;
use crate::list::bulk;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &PHSET,
    &PHMSET,
    &PHGET,
    &PHMGET,
    &PHGETALL,
    &PHEXISTS,
    &PHDEL,
    &PHCARD,
    &prefix::PHLONGEST,
    &prefix::PHPREFIXES,
    &prefix::PHDELPREFIX,
    &scan::PHSCAN,
];

const WRITES_FAST: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);
const READS_FAST: Flags = Flags::READONLY.with(Flags::FAST);
const RW_UPDATE: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))];
const RW_DELETE: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))];
const RO_ACCESS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))];

/// No field of a path hash expires.
const NO_TIME_MS: i64 = 0;

/// A number from `min` on.
fn number_from(text: &[u8], min: i64) -> Result<usize, Error> {
    let number = parse_i64(text).ok_or(Error::Fixed("ERR value is not an integer or out of range"))?;
    if number < min {
        let text = format!("ERR value is out of range, value must between {min} and {}", i64::MAX);
        return Err(Error::Text(text));
    }
    usize::try_from(number).map_err(|_| Error::Fixed("ERR value is not an integer or out of range"))
}

/// Says that a path hash was changed in so many places.
fn changed(keys: &mut Keys, key: &Key<'_>, event: &'static str, count: u64) {
    keys.signal(key);
    keys.effects.event(EventClass::PATH_HASH, event, keys.db(), key.bytes);
    keys.dirty += count;
}

/// Writes a field's value, or null.
fn value_or_null(reply: &mut Reply, hash: Option<&Hash>, field: &[u8]) {
    match hash.and_then(|hash| hash.get(field, NO_TIME_MS)) {
        Some(field) => bulk(reply, field.value),
        None => reply.null(),
    }
}

/// Writes all fields with their values.
fn all_fields(reply: &mut Reply, hash: &Hash) {
    reply.map(hash.len());
    for field in hash.iter() {
        bulk(reply, field.name);
        bulk(reply, field.value);
    }
}

/// Sets fields of a path; `pairs` are field, value, field, value…
fn set_pairs(paths: &mut PathHash, path: &[u8], pairs: &Args<'_>, limits: HashLimits) {
    paths.create(path, |hash| {
        for at in (0..pairs.len()).step_by(2) {
            let value = Element::parse(pairs.at(at + 1));
            hash.set(pairs.at(at), value, FieldExpiry::Clear, limits, NO_TIME_MS);
        }
    });
}

/// Groups of arguments `path FIELDS count field…`, each field with a value if `step` is 2.
struct Groups<'c, 'a> {
    args: &'c Args<'a>,
    at: usize,
    step: usize,
}

/// A group: where its path is, and where its fields begin and end.
struct FieldGroup {
    path: usize,
    fields: std::ops::Range<usize>,
}

impl Iterator for Groups<'_, '_> {
    type Item = Result<FieldGroup, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.args.len()).then(|| self.group())
    }
}

impl Groups<'_, '_> {
    fn group(&mut self) -> Result<FieldGroup, Error> {
        let (path, len) = (self.at, self.args.len());
        // What follows an error is no group.
        self.at = len;
        if path + 2 >= len || !self.args.at(path + 1).eq_ignore_ascii_case(b"FIELDS") {
            return Err(Error::Syntax);
        }
        let (count, begin) = (number_from(self.args.at(path + 2), 1)?, path + 3);
        if count > (len - begin) / self.step {
            return Err(Error::Syntax);
        }
        self.at = begin + count * self.step;
        Ok(FieldGroup { path, fields: begin..self.at })
    }
}

/// The groups from the second argument on, with the number of all fields.
fn groups(ctx: &Context<'_>, step: usize) -> Result<(Vec<FieldGroup>, usize), Error> {
    let all: Vec<FieldGroup> = Groups { args: &ctx.args, at: 2, step }.collect::<Result<_, Error>>()?;
    let count = all.iter().map(|group| group.fields.len() / step).sum();
    Ok((all, count))
}

/// Which fields have to be there already, for all to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Always,
    NoneThere,
    AllThere,
}

static PHSET: Command<Handler> = command("phset", -7, phset as Handler)
    .flags(WRITES_FAST)
    .keys(RW_UPDATE)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 path ?condition(FNX|FXX) fields=FIELDS(numfields:i *data(field value))")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+F), L being the length of the path and F the number of fields",
        "Sets fields at a path of a path hash, all or none.",
    );

fn phset(ctx: &mut Context<'_>) -> Outcome {
    let word = |at: usize, word: &[u8]| ctx.arg(at).eq_ignore_ascii_case(word);
    let (condition, at) = match () {
        () if word(3, b"FNX") => (Condition::NoneThere, 4),
        () if word(3, b"FXX") => (Condition::AllThere, 4),
        () => (Condition::Always, 3),
    };
    if !word(at, b"FIELDS") {
        return Err(Error::Syntax);
    }
    let count = number_from(ctx.arg(at + 1), 1)?;
    let pairs = ctx.args.from(at + 2);
    if !pairs.len().is_multiple_of(2) || pairs.len() / 2 != count {
        return Err(Error::Syntax);
    }
    let (key, path, limits) = (ctx.key(1), ctx.arg(2), ctx.settings.hash_limits);
    if condition != Condition::Always {
        let hash = ctx.keys.write::<PathHash>(&key)?;
        let hash = hash.as_ref().and_then(|paths| paths.get(path));
        let is_there = |at: usize| hash.is_some_and(|hash| hash.contains(pairs.at(at), NO_TIME_MS));
        let wanted = condition == Condition::AllThere;
        if (0..pairs.len()).step_by(2).any(|at| is_there(at) != wanted) {
            ctx.reply.null();
            return Ok(());
        }
    }
    let mut paths = ctx.keys.create::<PathHash>(&key)?;
    set_pairs(&mut paths, path, &pairs, limits);
    drop(paths);
    changed(ctx.keys, &key, "phset", count as u64);
    ctx.reply.ok();
    Ok(())
}

static PHMSET: Command<Handler> = command("phmset", -7, phmset as Handler)
    .flags(WRITES_FAST)
    .keys(RW_UPDATE)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 *data(path fields=FIELDS(numfields:i *data(field value)))")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+F), L being the length of all paths and F the number of all fields",
        "Sets fields at several paths of a path hash.",
    );

fn phmset(ctx: &mut Context<'_>) -> Outcome {
    let (groups, count) = groups(ctx, 2)?;
    let (key, limits) = (ctx.key(1), ctx.settings.hash_limits);
    let mut paths = ctx.keys.create::<PathHash>(&key)?;
    for FieldGroup { path, fields } in groups {
        set_pairs(&mut paths, ctx.args.at(path), &ctx.args.from(fields.start).first(fields.len()), limits);
    }
    drop(paths);
    changed(ctx.keys, &key, "phmset", count as u64);
    ctx.reply.ok();
    Ok(())
}

static PHGET: Command<Handler> = command("phget", -4, phget as Handler)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 path *field")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+F), L being the length of the path and F the number of fields",
        "Returns the values of fields at a path of a path hash.",
    );

fn phget(ctx: &mut Context<'_>) -> Outcome {
    let (key, path, fields) = (ctx.key(1), ctx.arg(2), ctx.args.from(3));
    let Context { keys, reply, .. } = ctx;
    let hash = keys.read::<PathHash>(&key)?.and_then(|paths| paths.get(path));
    reply.array(fields.len());
    fields.iter().for_each(|field| value_or_null(reply, hash, field));
    Ok(())
}

static PHMGET: Command<Handler> = command("phmget", -6, phmget as Handler)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 *data(path fields=FIELDS(numfields:i *field))")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+F), L being the length of all paths and F the number of all fields",
        "Returns the values of fields at several paths of a path hash, as one list.",
    );

fn phmget(ctx: &mut Context<'_>) -> Outcome {
    let (groups, count) = groups(ctx, 1)?;
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let paths = keys.read::<PathHash>(&key)?;
    reply.array(count);
    for FieldGroup { path, fields } in groups {
        let hash = paths.and_then(|paths| paths.get(args.at(path)));
        fields.for_each(|at| value_or_null(reply, hash, args.at(at)));
    }
    Ok(())
}

static PHGETALL: Command<Handler> = command("phgetall", 3, phgetall as Handler)
    .flags(Flags::READONLY)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER])
    .syntax("key:k0 path")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+N), L being the length of the path and N the number of its fields",
        "Returns all fields with their values at a path of a path hash.",
    );

fn phgetall(ctx: &mut Context<'_>) -> Outcome {
    let (key, path) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    match keys.read::<PathHash>(&key)?.and_then(|paths| paths.get(path)) {
        Some(hash) => all_fields(reply, hash),
        None => reply.map(0),
    }
    Ok(())
}

static PHEXISTS: Command<Handler> = command("phexists", 3, phexists as Handler)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 path")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L), L being the length of the path",
        "Tells whether exactly this path is in a path hash.",
    );

fn phexists(ctx: &mut Context<'_>) -> Outcome {
    let (key, path) = (ctx.key(1), ctx.arg(2));
    let is_there = ctx.keys.read::<PathHash>(&key)?.is_some_and(|paths| paths.get(path).is_some());
    ctx.reply.count(usize::from(is_there));
    Ok(())
}

static PHDEL: Command<Handler> = command("phdel", -3, phdel as Handler)
    .flags(Flags::WRITE)
    .keys(RW_DELETE)
    .acl(Acl::PATHHASH)
    .syntax("key:k0 path [*field]")
    .doc(
        Group::PathHash,
        "9.2.0",
        "O(L+F), L being the length of the path and F the number of fields given, or of all if none is",
        "Deletes fields at a path of a path hash, or the path. It goes with its last field; the key stays.",
    );

fn phdel(ctx: &mut Context<'_>) -> Outcome {
    let (key, path, fields) = (ctx.key(1), ctx.arg(2), ctx.args.from(3));
    let (mut deleted, mut removed) = (0, None);
    if let Some(mut paths) = ctx.keys.write::<PathHash>(&key)? {
        deleted = if fields.is_empty() {
            removed = paths.remove(path);
            usize::from(removed.is_some())
        } else if fields.iter().any(|field| holds(&paths, path, field)) {
            let remove =
                |hash: &mut Hash| fields.iter().filter(|field| hash.remove(field, NO_TIME_MS)).count();
            paths.change(path, remove).unwrap_or(0)
        } else {
            0
        };
    }
    ctx.keys.discard(removed.map(Value::Hash));
    if deleted > 0 {
        changed(ctx.keys, &key, "phdel", deleted as u64);
    }
    ctx.reply.count(deleted);
    Ok(())
}

/// Whether a path has this field.
fn holds(paths: &PathHash, path: &[u8], field: &[u8]) -> bool {
    paths.get(path).is_some_and(|hash| hash.contains(field, NO_TIME_MS))
}

static PHCARD: Command<Handler> = command("phcard", 2, phcard as Handler)
    .flags(READS_FAST)
    .keys(RO_ACCESS)
    .acl(Acl::PATHHASH)
    .syntax("key:k0")
    .doc(Group::PathHash, "9.2.0", "O(1)", "Returns the number of paths in a path hash.");

fn phcard(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let count = ctx.keys.read::<PathHash>(&key)?.map_or(0, PathHash::len);
    ctx.reply.count(count);
    Ok(())
}
