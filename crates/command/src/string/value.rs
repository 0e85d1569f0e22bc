//! Whole values: SET and its older forms, and the GET forms that change something.

use martlet_base::number::{NumberBuffer, format_i64, parse_i64};
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{ExpiryChange, Key};
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};

use super::condition::Condition;
use super::{UPDATES, delete_as_asked};
use crate::Handler;
use crate::context::Context;

/// The key of a command that overwrites its value.
const OVERWRITES: &[KeyPart] = &[KeyPart::one(1, KeyFlags::OW.with(KeyFlags::UPDATE))];

/// Whether EX or PX is among the options: a time relative to now.
pub(crate) fn expires_relatively(args: &Args<'_>) -> bool {
    args.has_word(2, b"ex") || args.has_word(2, b"px")
}

/// As [`expires_relatively`], of options around `block count item…` with `width` arguments an item: those are
/// no options, whatever they spell.
pub(crate) fn expires_relatively_around(args: &Args<'_>, block: &str, width: usize) -> bool {
    let mut rest = Cursor::new(*args, 2);
    while rest.left() > 0 {
        if rest.word(block) {
            let count = rest.int().ok().and_then(|count| usize::try_from(count).ok());
            rest.skip(count.unwrap_or(usize::MAX).saturating_mul(width));
        } else if rest.one_of(&[("ex", ()), ("px", ())]).is_some() {
            return true;
        } else {
            rest.skip(1);
        }
    }
    false
}

pub(super) static SET: Command<Handler> = command("set", -3, set as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(
        1,
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
    )
    .notes("With GET the key is read, too.")])
    .key_flags(set_key_flags)
    // The value is no option, whatever it spells.
    .relative_time_if(|args| expires_relatively(&args.from(1)))
    .acl(Acl::STRING)
    .syntax("key:k0 value ?condition(NX|XX|ifeq-value=IFEQ^8.4.0|ifne-value=IFNE^8.4.0|ifdeq-digest:i=IFDEQ^8.4.0|ifdne-digest:i=IFDNE^8.4.0)^2.6.12 \
         ?GET^6.2.0 \
         ?expiration(seconds:i=EX^2.6.12|milliseconds:i=PX^2.6.12|unix-time-seconds:t=EXAT^6.2.0|unix-time-milliseconds:t=PXAT^6.2.0|KEEPTTL^6.0.0)")
    .doc(Group::String, "1.0.0", "O(1)", "Sets a key to a string value, whatever it held.")
    .history(&[("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Option `KEEPTTL`."),
            ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` go together."),
            ("8.4.0", "Options `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`.")]);

/// Whether SET reads the old value.
fn set_key_flags(args: &Args<'_>) -> KeyFlags {
    let reads = args.iter().skip(3).any(|option| option.eq_ignore_ascii_case(b"get"));
    if reads {
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE)
    } else {
        KeyFlags::OW.with(KeyFlags::UPDATE)
    }
}

fn set(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 3 {
        return set_with_options(ctx);
    }
    let key = ctx.key(1);
    ctx.set_str(&key, 2, ExpiryChange::Clear);
    ctx.keys.changed(&key, EventClass::STRING, "set");
    ctx.reply.ok();
    Ok(())
}

/// When a value is to expire, as the options said it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Expiry<'a> {
    option: ExpiryOption,
    /// The number, as yet unread.
    text: &'a [u8],
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ExpiryOption {
    Ex,
    Px,
    ExAt,
    PxAt,
}

impl ExpiryOption {
    const WORDS: &'static [(&'static str, ExpiryOption)] = &[
        ("ex", ExpiryOption::Ex),
        ("px", ExpiryOption::Px),
        ("exat", ExpiryOption::ExAt),
        ("pxat", ExpiryOption::PxAt),
    ];

    fn is_absolute(self) -> bool {
        matches!(self, ExpiryOption::ExAt | ExpiryOption::PxAt)
    }
}

impl<'a> Expiry<'a> {
    /// Takes an option, if one comes next. The same one may come again, another one may not.
    pub(super) fn take(
        rest: &mut Cursor<'a>,
        before: Option<Expiry<'_>>,
    ) -> Result<Option<Expiry<'a>>, Error> {
        let Some(option) = rest.one_of(ExpiryOption::WORDS) else { return Ok(None) };
        if before.is_some_and(|before| before.option != option) {
            return Err(Error::Syntax);
        }
        Ok(Some(Expiry { option, text: rest.value()? }))
    }

    /// Whether it is a time that does not depend on when it is read.
    pub(super) fn is_absolute(self) -> bool {
        self.option.is_absolute()
    }

    /// The time in Unix milliseconds; `name` is the command's, for the error.
    pub(super) fn at_ms(self, now_ms: i64, name: &str) -> Result<i64, Error> {
        let number = parse_i64(self.text).ok_or(Error::NotInteger)?;
        let ms = match self.option {
            ExpiryOption::Ex | ExpiryOption::ExAt => number.checked_mul(1000),
            ExpiryOption::Px | ExpiryOption::PxAt => Some(number),
        };
        let at_ms = match ms {
            Some(ms) if number > 0 && self.option.is_absolute() => Some(ms),
            Some(ms) if number > 0 => ms.checked_add(now_ms),
            _ => None,
        };
        at_ms.ok_or_else(|| Error::Text(format!("ERR invalid expire time in '{name}' command")))
    }
}

/// The new expiry of a value, from the options.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct NewExpiry<'a> {
    /// It stays (`KEEPTTL`).
    pub(super) kept: bool,
    /// The value is to expire then.
    pub(super) at: Option<Expiry<'a>>,
}

impl<'a> NewExpiry<'a> {
    /// Takes an option, if one comes next that does not contradict the earlier ones.
    pub(super) fn take(&mut self, rest: &mut Cursor<'a>) -> Result<bool, Error> {
        if self.at.is_none() && rest.word("keepttl") {
            self.kept = true;
        } else if !self.kept
            && let Some(expiry) = Expiry::take(rest, self.at)?
        {
            self.at = Some(expiry);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// For a value that does not expire at a certain time.
    pub(super) fn change(self) -> ExpiryChange {
        if self.kept { ExpiryChange::Keep } else { ExpiryChange::Clear }
    }
}

#[derive(Default)]
struct SetOptions<'a> {
    condition: Condition<'a>,
    get: bool,
    expiry: NewExpiry<'a>,
}

impl<'a> SetOptions<'a> {
    fn parse(mut rest: Cursor<'a>) -> Result<SetOptions<'a>, Error> {
        let mut options = SetOptions::default();
        while rest.peek().is_some() {
            if let Some(condition) = options.condition.take(&mut rest)? {
                options.condition = condition;
            } else if rest.word("get") {
                options.get = true;
            } else if !options.expiry.take(&mut rest)? {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

#[inline(never)]
fn set_with_options(ctx: &mut Context<'_>) -> Outcome {
    let options = SetOptions::parse(ctx.rest(3))?;
    let at_ms = options.expiry.at.map(|e| e.at_ms(ctx.keys.now_ms(), "set")).transpose()?;
    let (key, value) = (ctx.key(1), ctx.arg(2));
    if options.get {
        get_old(ctx, &key)?;
    }
    let may = options.condition.holds(ctx.keys.lookup_write(&key))?;
    if !may {
        if !options.get {
            ctx.reply.null();
        }
        return Ok(());
    }
    if !options.get {
        ctx.reply.ok();
    }
    match at_ms {
        Some(at_ms) => set_until(ctx, &key, 2, at_ms),
        None => {
            ctx.set_str(&key, 2, options.expiry.change());
            ctx.keys.changed(&key, EventClass::STRING, "set");
            if options.get || matches!(options.condition, Condition::Compared(..)) {
                let keep: &[&[u8]] = if options.expiry.kept { &[b"KEEPTTL"] } else { &[] };
                ctx.keys.effects.replace(ctx.keys.db(), || [&[b"SET", key.bytes, value], keep].concat());
            }
        }
    }
    Ok(())
}

/// Replies with the key's value, for a command that changes it then.
fn get_old(ctx: &mut Context<'_>, key: &Key<'_>) -> Outcome {
    match ctx.keys.read_str(key)? {
        Some(value) => ctx.reply.bulk(value.bytes(&mut NumberBuffer::new())),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// Sets the argument at `index` as a value that expires. One whose time has passed already is not stored: the
/// old value is removed.
fn set_until(ctx: &mut Context<'_>, key: &Key<'_>, index: usize, at_ms: i64) {
    if ctx.keys.deletes_at_once(at_ms) {
        ctx.keys.delete_for_past_time(key);
        return;
    }
    ctx.set_str(key, index, ExpiryChange::At(at_ms));
    let (keys, value) = (&mut *ctx.keys, ctx.args.at(index));
    keys.changed(key, EventClass::STRING, "set");
    keys.effects.event(EventClass::GENERIC, "expire", keys.db(), key.bytes);
    keys.effects.replace(keys.db(), || {
        let mut buffer = NumberBuffer::new();
        [b"SET", key.bytes, value, b"PXAT", format_i64(at_ms, &mut buffer)].map(<[u8]>::to_vec)
    });
}

pub(super) static SETNX: Command<Handler> = command("setnx", 3, setnx as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::OW.with(KeyFlags::INSERT))])
    .acl(Acl::STRING)
    .syntax("key:k0 value")
    .doc(Group::String, "1.0.0", "O(1)", "Sets a key to a string value if it does not exist.")
    .deprecated("2.6.12", "`SET` with `NX`");

fn setnx(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let absent = ctx.keys.lookup_write(&key).is_none();
    if absent {
        ctx.set_str(&key, 2, ExpiryChange::Clear);
        ctx.keys.changed(&key, EventClass::STRING, "set");
    }
    ctx.reply.int(i64::from(absent));
    Ok(())
}

pub(super) static SETEX: Command<Handler> = command("setex", 4, setex as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(OVERWRITES)
    .relative_time_if(|_| true)
    .acl(Acl::STRING)
    .syntax("key:k0 seconds:i value")
    .doc(Group::String, "2.0.0", "O(1)", "Sets a key to a string value that expires after some seconds.")
    .deprecated("2.6.12", "`SET` with `EX`");

fn setex(ctx: &mut Context<'_>) -> Outcome {
    set_expiring(ctx, ExpiryOption::Ex, "setex")
}

pub(super) static PSETEX: Command<Handler> = command("psetex", 4, psetex as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(OVERWRITES)
    .relative_time_if(|_| true)
    .acl(Acl::STRING)
    .syntax("key:k0 milliseconds:i value")
    .doc(Group::String, "2.6.0", "O(1)", "Sets a key to a string value that expires after some milliseconds.")
    .deprecated("2.6.12", "`SET` with `PX`");

fn psetex(ctx: &mut Context<'_>) -> Outcome {
    set_expiring(ctx, ExpiryOption::Px, "psetex")
}

fn set_expiring(ctx: &mut Context<'_>, option: ExpiryOption, name: &str) -> Outcome {
    let at_ms = Expiry { option, text: ctx.arg(2) }.at_ms(ctx.keys.now_ms(), name)?;
    let key = ctx.key(1);
    set_until(ctx, &key, 3, at_ms);
    ctx.reply.ok();
    Ok(())
}

pub(super) static GETSET: Command<Handler> = command("getset", 3, getset as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(UPDATES)
    .acl(Acl::STRING)
    .syntax("key:k0 value")
    .doc(Group::String, "1.0.0", "O(1)", "Sets a key to a string value and returns the one before.")
    .deprecated("6.2.0", "`SET` with `GET`");

fn getset(ctx: &mut Context<'_>) -> Outcome {
    let (key, value) = (ctx.key(1), ctx.arg(2));
    get_old(ctx, &key)?;
    ctx.set_str(&key, 2, ExpiryChange::Clear);
    ctx.keys.changed(&key, EventClass::STRING, "set");
    ctx.keys.effects.replace(ctx.keys.db(), || [b"SET", key.bytes, value]);
    Ok(())
}

pub(super) static GETDEL: Command<Handler> = command("getdel", 2, getdel as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))])
    .acl(Acl::STRING)
    .syntax("key:k0")
    .doc(Group::String, "6.2.0", "O(1)", "Returns the string value of a key and deletes the key.");

fn getdel(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    get_old(ctx, &key)?;
    delete_as_asked(ctx.keys, &key);
    Ok(())
}

pub(super) static GETEX: Command<Handler> = command("getex", -2, getex as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::UPDATED.notes("It is written, too, because its expiry may change.")])
    .relative_time_if(expires_relatively)
    .acl(Acl::STRING)
    .syntax("key:k0 \
         ?expiration(seconds:i=EX|milliseconds:i=PX|unix-time-seconds:t=EXAT|unix-time-milliseconds:t=PXAT|PERSIST)")
    .doc(Group::String, "6.2.0", "O(1)", "Returns the string value of a key and changes when it expires.");

fn getex(ctx: &mut Context<'_>) -> Outcome {
    let (mut persists, mut expires, mut rest) = (false, None, ctx.rest(2));
    loop {
        if expires.is_none() && rest.word("persist") {
            persists = true;
        } else if !persists && let Some(expiry) = Expiry::take(&mut rest, expires)? {
            expires = Some(expiry);
        } else {
            break rest.finish()?;
        }
    }
    let key = ctx.key(1);
    let now_ms = ctx.keys.now_ms();
    if ctx.settings.presentation.is_valkey()
        && let Some(expiry) = &expires
    {
        // Valkey looks at the time also where there is no key.
        expiry.at_ms(now_ms, "getex")?;
    }
    let Some(value) = ctx.keys.read_str(&key)? else {
        ctx.reply.null();
        return Ok(());
    };
    ctx.reply.bulk(value.bytes(&mut NumberBuffer::new()));
    if let Some(expiry) = expires {
        let at_ms = expiry.at_ms(now_ms, "getex")?;
        expire_at(ctx.keys, &key, at_ms);
    } else if persists && ctx.keys.expiry_ms(&key).is_some() {
        ctx.keys.set_expiry(&key, None);
        ctx.keys.changed(&key, EventClass::GENERIC, "persist");
        ctx.keys.effects.replace(ctx.keys.db(), || [b"PERSIST", key.bytes]);
    }
    Ok(())
}

/// Gives a key that is there a time at which it expires; one in the past deletes it.
pub(crate) fn expire_at(keys: &mut Keys, key: &Key<'_>, at_ms: i64) {
    if keys.deletes_at_once(at_ms) {
        keys.delete_for_past_time(key);
        return;
    }
    keys.set_expiry(key, Some(at_ms));
    keys.changed(key, EventClass::GENERIC, "expire");
    keys.effects.replace(keys.db(), || {
        let mut buffer = NumberBuffer::new();
        [b"PEXPIREAT", key.bytes, format_i64(at_ms, &mut buffer)].map(<[u8]>::to_vec)
    });
}
