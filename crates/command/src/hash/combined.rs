//! Commands that do two things to fields at once: HGETDEL, HGETEX, HSETEX.

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_types::element::Element;
use martlet_types::hash::{FieldExpiry, Hash};

use super::expiry::{done, parse_some_fields, persist, record_times, set_times_always};
use super::valkey;
use super::{
    BY_FIELDS, RW_UPDATE, WRITES_FAST, delete_if_empty, event_of_past, longest, names_of, note, value_or_null,
};
use crate::Handler;
use crate::context::Context;
use crate::string::expires_relatively_around;
use crate::times::TimeUnit;

/// Deletes those of the fields that have expired.
fn expire_first(keys: &mut Keys, key: &Key<'_>, names: &Args<'_>) -> Outcome {
    let due_ms = keys.due_ms();
    if keys.write::<Hash>(key)?.is_some_and(|hash| hash.next_expiry_ms() <= due_ms) {
        keys.expire_parts::<Hash>(key, names.iter());
    }
    Ok(())
}

/// Writes the values of fields.
fn answer_values(keys: &Keys, reply: &mut Reply, key: &Key<'_>, names: &Args<'_>) {
    let hash = keys.get(key).and_then(|entry| entry.object::<Hash>());
    reply.array(names.len());
    for name in names.iter() {
        value_or_null(reply, hash.and_then(|hash| hash.get(name, keys.due_ms())));
    }
}

pub(super) static HGETDEL: Command<Handler> = command("hgetdel", -5, hgetdel as Handler)
    .in_valkey(Flags::NONE, valkey::NAMES_FIELDS)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))])
    .acl(Acl::HASH)
    .syntax("key:k0 fields=FIELDS(numfields:i *field)")
    .doc(Group::Hash, "8.0.0", BY_FIELDS, "Returns the values of fields and deletes them.");

fn hgetdel(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let names = parse_some_fields(ctx.rest(2));
    let Context { keys, reply, .. } = ctx;
    keys.write::<Hash>(&key)?;
    let names = names?;
    expire_first(keys, &key, &names)?;
    let due_ms = keys.due_ms();
    reply.array(names.len());
    let mut deleted: Vec<&[u8]> = Vec::new();
    match keys.write::<Hash>(&key)? {
        None => names.iter().for_each(|_| reply.null()),
        Some(mut hash) => {
            for name in names.iter() {
                value_or_null(reply, hash.get(name, due_ms));
                if hash.remove(name, due_ms) {
                    deleted.push(name);
                }
            }
        }
    }
    if !deleted.is_empty() {
        keys.dirty += deleted.len() as u64;
        keys.effects.replace(keys.db(), || {
            [b"HDEL".as_slice(), key.bytes].into_iter().chain(deleted.iter().copied())
        });
        note(keys, &key, "hdel", deleted);
        delete_if_empty(keys, &key);
    }
    Ok(())
}

/// What HGETEX does to the fields' times.
enum NewTime {
    Unchanged,
    Removed,
    At(i64),
}

pub(super) static HGETEX: Command<Handler> = command("hgetex", -5, hgetex as Handler)
    .in_valkey(Flags::NONE, valkey::NAMES_FIELDS)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::UPDATED.notes("It is written, too, because the expiry of fields may change.")])
    .relative_time_if(|args| expires_relatively_around(args, "fields", 1))
    .acl(Acl::HASH)
    .syntax("key:k0 \
         ?expiration(seconds:i=EX|milliseconds:i=PX|unix-time-seconds:t=EXAT|unix-time-milliseconds:t=PXAT|PERSIST) \
         fields=FIELDS(numfields:i *field)")
    .doc(
        Group::Hash,
        "8.0.0",
        BY_FIELDS,
        "Returns the values of fields and sets or removes their expiry times.",
    );

fn hgetex(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    ctx.keys.write::<Hash>(&key)?;
    let mut rest = ctx.rest(2);
    let new_time = parse_new_time(&mut rest, ctx.keys.now_ms())?;
    if rest.left() < 2 {
        return Err(Error::Arity("hgetex"));
    }
    let names = parse_some_fields(rest)?;
    let Context { keys, reply, .. } = ctx;
    expire_first(keys, &key, &names)?;
    answer_values(keys, reply, &key, &names);
    match new_time {
        NewTime::Unchanged => {}
        NewTime::Removed => {
            let (results, changed) = persist(keys, &key, names)?;
            if changed > 0 {
                let count = names.len().to_string();
                keys.dirty += changed as u64;
                keys.effects.replace(keys.db(), || {
                    let head = [b"HPERSIST".as_slice(), key.bytes, b"FIELDS", count.as_bytes()];
                    head.into_iter().chain(names.iter())
                });
                note(keys, &key, "hpersist", done(names, &results));
            }
        }
        NewTime::At(at_ms) => {
            let changed = set_times_always(keys, &key, names, at_ms)?;
            record_times(keys, &key, &changed, at_ms, None);
            if !changed.updated.is_empty() {
                note(keys, &key, "hexpire", changed.updated);
            } else if !changed.deleted.is_empty() {
                let event = event_of_past(keys);
                note(keys, &key, event, changed.deleted);
                delete_if_empty(keys, &key);
            }
        }
    }
    Ok(())
}

/// HGETEX' option.
fn parse_new_time(rest: &mut Cursor<'_>, now_ms: i64) -> Result<NewTime, Error> {
    if rest.word("persist") {
        return Ok(NewTime::Removed);
    }
    match rest.one_of(TimeUnit::WORDS) {
        None => Ok(NewTime::Unchanged),
        Some(unit) => Ok(NewTime::At(unit.parse(rest.value()?, now_ms, "hgetex")?)),
    }
}

/// HSETEX' arguments.
struct SetOptions<'a> {
    /// Set only if the key exists (true) or does not.
    if_key_exists: Option<bool>,
    /// Set only if all fields exist (true) or none does (false).
    if_exist: Option<bool>,
    expiry: FieldExpiry,
    /// Fields and values, alternating.
    pairs: Args<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(ctx: &Context<'a>) -> Result<SetOptions<'a>, Error> {
        let arity = Error::Arity("hsetex");
        let (mut if_key_exists, mut if_exist, mut expiry, mut rest) = (None, None, None, ctx.rest(2));
        while !rest.word("fields") {
            let word = rest.peek();
            if let Some(new) = Self::take_expiry(&mut rest, ctx.keys.now_ms(), expiry.is_some())? {
                expiry = Some(new);
            } else if let Some(exists) = rest.one_of(&[("fxx", true), ("fnx", false)]) {
                if if_exist.is_some() {
                    return Err(Error::Fixed("ERR Only one of FXX or FNX arguments can be specified"));
                }
                if_exist = Some(exists);
            } else if let Some(exists) = rest.one_of(&[("xx", true), ("nx", false)]) {
                if if_key_exists.is_some_and(|before| before != exists) {
                    return Err(Error::Syntax);
                }
                if_key_exists = Some(exists);
            } else {
                return Err(word.map_or(arity, |word| Error::quoting("ERR unknown argument: ", word, "")));
            }
        }
        if rest.left() < 3 {
            return Err(arity);
        }
        const BAD_COUNT: &str = "ERR invalid number of fields";
        let count = rest.at_least(1, BAD_COUNT)?;
        if count > i64::from(i32::MAX) {
            return Err(Error::Fixed(BAD_COUNT));
        }
        let pairs = rest.args();
        if usize::try_from(count * 2) != Ok(pairs.len()) {
            return Err(arity);
        }
        Ok(SetOptions { if_key_exists, if_exist, expiry: expiry.unwrap_or(FieldExpiry::Clear), pairs })
    }

    /// Takes an option that says when the fields expire, of which there may be one.
    fn take_expiry(rest: &mut Cursor<'a>, now_ms: i64, has_one: bool) -> Result<Option<FieldExpiry>, Error> {
        let unit = rest.one_of(TimeUnit::WORDS);
        if unit.is_none() && !rest.word("keepttl") {
            return Ok(None);
        }
        if has_one {
            return Err(Error::Fixed(
                "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
            ));
        }
        let Some(unit) = unit else { return Ok(Some(FieldExpiry::Keep)) };
        let text = rest.value().map_err(|_| Error::Fixed("ERR missing expire time"))?;
        Ok(Some(FieldExpiry::At(unit.parse(text, now_ms, "hsetex")?)))
    }

    fn names(&self) -> impl Iterator<Item = &'a [u8]> {
        names_of(self.pairs)
    }
}

pub(super) static HSETEX: Command<Handler> = command("hsetex", -6, hsetex as Handler)
    .in_valkey(Flags::NONE, valkey::NAMES_FIELDS)
    .flags(WRITES_FAST)
    .keys(RW_UPDATE)
    .relative_time_if(|args| expires_relatively_around(args, "fields", 2))
    .acl(Acl::HASH)
    .syntax("key:k0 ?key-condition(NX|XX) ?condition(FNX|FXX) \
         ?expiration(seconds:i=EX|milliseconds:i=PX|unix-time-seconds:t=EXAT|unix-time-milliseconds:t=PXAT|KEEPTTL) \
         fields=FIELDS(numfields:i *data(field value))")
    .doc(Group::Hash, "8.0.0", BY_FIELDS, "Sets fields of a hash with their expiry times.");

fn hsetex(ctx: &mut Context<'_>) -> Outcome {
    let options = SetOptions::parse(ctx)?;
    let key = ctx.key(1);
    let keys = &mut *ctx.keys;
    let due_ms = keys.due_ms();
    if let Some(if_exists) = options.if_key_exists {
        let exists = keys.write::<Hash>(&key)?.is_some_and(|hash| hash.live_len(due_ms) > 0);
        if exists != if_exists {
            ctx.reply.int(0);
            return Ok(());
        }
    }
    // Expired fields are absent. Followers, for which they are still there, must not keep their times for the
    // new ones.
    let depends_on_fields = options.if_exist.is_some() || matches!(options.expiry, FieldExpiry::Keep);
    if depends_on_fields && keys.write::<Hash>(&key)?.is_some_and(|hash| hash.next_expiry_ms() <= due_ms) {
        keys.expire_parts_only::<Hash>(&key, options.names());
    }
    if let Some(if_exist) = options.if_exist {
        let hash = keys.get(&key).and_then(|entry| entry.object::<Hash>());
        let exists = |name: &[u8]| hash.is_some_and(|hash| hash.contains(name, due_ms));
        if !options.names().all(|name| exists(name) == if_exist) {
            keys.delete_without_parts::<Hash>(&key);
            ctx.reply.int(0);
            return Ok(());
        }
    }
    match options.expiry {
        FieldExpiry::At(at_ms) if keys.deletes_at_once(at_ms) => delete_instead(keys, &key, &options)?,
        _ => set_fields(ctx, &key, &options)?,
    }
    ctx.reply.int(1);
    Ok(())
}

fn set_fields(ctx: &mut Context<'_>, key: &Key<'_>, options: &SetOptions<'_>) -> Outcome {
    let limits = ctx.settings.hash_limits;
    let keys = &mut *ctx.keys;
    let due_ms = keys.due_ms();
    let pairs = options.pairs;
    let mut hash = keys.create::<Hash>(key)?;
    hash.before_growth(pairs.len() / 2, longest(&pairs), limits);
    for at in (0..pairs.len()).step_by(2) {
        hash.set(pairs.at(at), Element::Bytes(pairs.at(at + 1)), options.expiry, limits, due_ms);
    }
    drop(hash);
    keys.dirty += (pairs.len() / 2) as u64;
    note(keys, key, "hset", options.names());
    if let FieldExpiry::At(_) = options.expiry {
        let (db, class) = (keys.db(), EventClass::HASH);
        keys.effects.event_of_subkeys(class, "hexpire", db, key.bytes, options.names());
        record_set(keys, key, options);
    } else if options.if_key_exists.is_some() {
        record_set(keys, key, options);
    }
    Ok(())
}

/// Records the request with an absolute time, and without the condition that not every reader knows.
fn record_set(keys: &mut Keys, key: &Key<'_>, options: &SetOptions<'_>) {
    let count = (options.pairs.len() / 2).to_string();
    let expiry = match options.expiry {
        FieldExpiry::At(at_ms) => vec![b"PXAT".to_vec(), at_ms.to_string().into_bytes()],
        FieldExpiry::Keep => vec![b"KEEPTTL".to_vec()],
        FieldExpiry::Clear => Vec::new(),
    };
    let condition = options.if_exist.map(|if_exist| if if_exist { b"FXX".as_slice() } else { b"FNX" });
    keys.effects.replace(keys.db(), || {
        let head = [b"HSETEX".as_slice(), key.bytes].into_iter().chain(condition);
        let fields = [b"FIELDS".as_slice(), count.as_bytes()].into_iter().chain(options.pairs.iter());
        head.chain(expiry.iter().map(Vec::as_slice)).chain(fields)
    });
}

/// Fields set with a time that has passed are gone at once.
fn delete_instead(keys: &mut Keys, key: &Key<'_>, options: &SetOptions<'_>) -> Outcome {
    let mut hash = keys.create::<Hash>(key)?;
    for name in options.names() {
        hash.remove(name, i64::MIN);
    }
    drop(hash);
    let fields = options.pairs.len() as u64 / 2;
    keys.dirty += fields;
    keys.counters().expired_fields.add(fields);
    for name in options.names() {
        keys.effects.replace(keys.db(), || [b"HDEL", key.bytes, name]);
    }
    note(keys, key, "hset", options.names());
    if keys.effects.deletions.past_times_expire {
        let (db, class) = (keys.db(), EventClass::HASH);
        keys.effects.event_of_subkeys(class, "hexpire", db, key.bytes, options.names());
    }
    let event = event_of_past(keys);
    note(keys, key, event, options.names());
    delete_if_empty(keys, key);
    Ok(())
}
