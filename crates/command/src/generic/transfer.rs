//! Keys that change their name or database: RENAME, COPY, MOVE.

use martlet_base::number::parse_i64;
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, Kind, Value};
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Databases, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use crate::Handler;
use crate::context::Context;

const SAME_OBJECT: Error = Error::Fixed("ERR source and destination objects are the same");
const MOVES: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);

pub(super) static RENAME: Command<Handler> = command("rename", 3, rename as Handler)
    .follows_links()
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, MOVES), KeyPart::one(2, KeyFlags::OW.with(KeyFlags::UPDATE))])
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 newkey:k1")
    .doc(Group::Generic, "1.0.0", "O(1)", "Gives a key another name, which may be in use.");

fn rename(ctx: &mut Context<'_>) -> Outcome {
    rename_if(ctx, false)?;
    ctx.reply.ok();
    Ok(())
}

pub(super) static RENAMENX: Command<Handler> = command("renamenx", 3, renamenx as Handler)
    .follows_links()
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, MOVES), KeyPart::one(2, KeyFlags::OW.with(KeyFlags::INSERT))])
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 newkey:k1")
    .doc(Group::Generic, "1.0.0", "O(1)", "Gives a key another name if that is not in use.")
    .history(&[("3.2.0", "The same name twice is no error any more.")]);

fn renamenx(ctx: &mut Context<'_>) -> Outcome {
    let renamed = rename_if(ctx, true)?;
    ctx.reply.int(i64::from(renamed));
    Ok(())
}

/// Renames the first key to the second, with `absent` only if there is no such key; whether it did.
fn rename_if(ctx: &mut Context<'_>, absent: bool) -> Result<bool, Error> {
    let (from, to) = (ctx.key(1), ctx.key(2));
    let keys = &mut *ctx.keys;
    let kind = keys.lookup_write(&from).ok_or(Error::NoSuchKey)?.kind();
    if from.bytes == to.bytes {
        return Ok(false);
    }
    if kind == Kind::Module {
        crate::tseries::lock_renamed(keys, &from)?;
    }
    let replaced = keys.lookup_write(&to).map(|entry| entry.kind());
    if replaced.is_some() {
        if absent {
            return Ok(false);
        }
        keys.delete(&to);
    }
    let db = keys.db();
    if kind == Kind::Module {
        crate::tseries::renamed(keys, &from, &to);
    }
    transfer(keys, &from, &to, db);
    keys.dirty += 1;
    keys.signal(&from);
    keys.signal(&to);
    keys.effects.event(EventClass::GENERIC, "rename_from", db, from.bytes);
    keys.effects.event(EventClass::GENERIC, "rename_to", db, to.bytes);
    if let Some(replaced) = replaced {
        keys.note_overwritten(&to, replaced, kind);
    }
    Ok(true)
}

/// Moves what `from` holds to the absent key `to` of a database, with its expiry and access information.
fn transfer(keys: &mut Keys, from: &Key<'_>, to: &Key<'_>, db: usize) {
    let Some(lru) = keys.get(from).map(|entry| entry.lru()) else { return };
    let Some((value, expiry_ms)) = keys.take(from) else { return };
    keys.in_db(db, |keys| {
        keys.set_value(to, value, expiry_ms);
        keys.set_lru(to, lru);
    });
}

pub(super) static MOVE: Command<Handler> = command("move", 3, move_key as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))])
    .databases(Databases::Named(|_| vec![2]))
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 db:i")
    .doc(Group::Generic, "1.0.0", "O(1)", "Moves a key to another database if it does not exist there.");

fn move_key(ctx: &mut Context<'_>) -> Outcome {
    if ctx.settings.is_clustered && ctx.settings.databases == 1 {
        return Err(Error::Fixed("ERR MOVE is not allowed in cluster mode"));
    }
    let to_db = database(ctx.arg(2), ctx.settings.databases)?;
    let from_db = ctx.keys.db();
    if to_db == from_db {
        return Err(SAME_OBJECT);
    }
    ctx.count_incompatible();
    let key = ctx.key(1);
    let there = |keys: &mut Keys| keys.lookup_write(&key).is_some();
    let moves = there(ctx.keys) && !ctx.keys.in_db(to_db, there);
    if moves {
        transfer(ctx.keys, &key, &key, to_db);
        ctx.keys.changed(&key, EventClass::GENERIC, "move_from");
        ctx.keys.in_db(to_db, |keys| {
            keys.signal(&key);
            keys.effects.event(EventClass::GENERIC, "move_to", to_db, key.bytes);
        });
    }
    ctx.reply.int(i64::from(moves));
    Ok(())
}

/// A database's number, below `databases`.
///
/// # Errors
/// Redis' three texts for a text that is not an integer, not of 32 bits, or not a database.
pub fn database(text: &[u8], databases: usize) -> Result<usize, Error> {
    let number = parse_i64(text).ok_or(Error::NotInteger)?;
    if i32::try_from(number).is_err() {
        let text = format!("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX);
        return Err(Error::Text(text));
    }
    let db = usize::try_from(number).ok().filter(|db| *db < databases);
    db.ok_or(Error::Fixed("ERR DB index is out of range"))
}

pub(super) static COPY: Command<Handler> = command("copy", -3, copy as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[
        KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS)),
        KeyPart::one(2, KeyFlags::OW.with(KeyFlags::UPDATE)),
    ])
    .databases(Databases::Named(copy_databases))
    .acl(Acl::KEYSPACE)
    .syntax("source:k0 destination:k1 ?destination-db:i=DB ?REPLACE")
    .doc(
        Group::Generic,
        "6.2.0",
        "O(1): long strings and collections are shared until one of the keys is changed",
        "Copies the value of a key to another key or database.",
    );

/// The arguments that follow DB.
fn copy_databases(args: &Args<'_>) -> Vec<usize> {
    let is_named = |index: &usize| args.at(index - 1).eq_ignore_ascii_case(b"db");
    (4..args.len()).filter(is_named).collect()
}

fn copy(ctx: &mut Context<'_>) -> Outcome {
    let mut to_db = ctx.keys.db();
    let (mut replace, mut rest) = (false, ctx.rest(3));
    loop {
        if rest.word("replace") {
            replace = true;
        } else if rest.option("db", 1) {
            to_db = database(rest.value()?, ctx.settings.databases)?;
        } else {
            break rest.finish()?;
        }
    }
    let (from, to) = (ctx.key(1), ctx.key(2));
    if to_db == ctx.keys.db() && from.bytes == to.bytes {
        return Err(SAME_OBJECT);
    }
    if (to_db, ctx.keys.db()) != (0, 0) {
        ctx.count_incompatible();
    }
    let copied = copy_key(ctx.keys, &from, &to, to_db, replace);
    ctx.reply.int(i64::from(copied));
    Ok(())
}

fn copy_key(keys: &mut Keys, from: &Key<'_>, to: &Key<'_>, to_db: usize, replace: bool) -> bool {
    let Some((value, expiry_ms)) = keys.lookup(from).map(|entry| (entry.value(), entry.expiry_ms())) else {
        return false;
    };
    keys.in_db(to_db, |keys| {
        let replaced = keys.lookup_write(to).map(|entry| entry.kind());
        if replaced.is_some() {
            if !replace {
                return false;
            }
            keys.delete(to);
        }
        let kind = value.kind();
        let mut value = value;
        if let Value::Module(module) = &mut value {
            module.object_mut().cut_links();
        }
        keys.set_value(to, value, expiry_ms);
        keys.changed(to, EventClass::GENERIC, "copy_to");
        if let Some(replaced) = replaced {
            keys.note_overwritten(to, replaced, kind);
        }
        true
    })
}
