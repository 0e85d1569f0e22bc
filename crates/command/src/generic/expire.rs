//! When keys expire: setting, asking, taking it back.

use martlet_engine::EventClass;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};

use crate::Handler;
use crate::context::Context;
use crate::string::expire_at;

const CHANGES: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))];
const ASKS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))];
const FAST_WRITE: Flags = Flags::WRITE.with(Flags::FAST);
const FAST_READ: Flags = Flags::READONLY.with(Flags::FAST);

/// How a number stands for a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Scale {
    seconds: bool,
    absolute: bool,
}

pub(super) static EXPIRE: Command<Handler> = command("expire", -3, expire as Handler)
    .flags(FAST_WRITE)
    .keys(CHANGES)
    .relative_time_if(|_| true)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 seconds:i ?condition(NX|XX|GT|LT)^7.0.0")
    .doc(Group::Generic, "1.0.0", "O(1)", "Lets a key expire after some seconds.")
    .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]);

fn expire(ctx: &mut Context<'_>) -> Outcome {
    set_expiry(ctx, Scale { seconds: true, absolute: false }, "expire")
}

pub(super) static PEXPIRE: Command<Handler> = command("pexpire", -3, pexpire as Handler)
    .flags(FAST_WRITE)
    .keys(CHANGES)
    .relative_time_if(|_| true)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 milliseconds:i ?condition(NX|XX|GT|LT)^7.0.0")
    .doc(Group::Generic, "2.6.0", "O(1)", "Lets a key expire after some milliseconds.")
    .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]);

fn pexpire(ctx: &mut Context<'_>) -> Outcome {
    set_expiry(ctx, Scale { seconds: false, absolute: false }, "pexpire")
}

pub(super) static EXPIREAT: Command<Handler> = command("expireat", -3, expireat as Handler)
    .flags(FAST_WRITE)
    .keys(CHANGES)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 unix-time-seconds:t ?condition(NX|XX|GT|LT)^7.0.0")
    .doc(Group::Generic, "1.2.0", "O(1)", "Lets a key expire at a Unix time in seconds.")
    .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]);

fn expireat(ctx: &mut Context<'_>) -> Outcome {
    set_expiry(ctx, Scale { seconds: true, absolute: true }, "expireat")
}

pub(super) static PEXPIREAT: Command<Handler> = command("pexpireat", -3, pexpireat as Handler)
    .flags(FAST_WRITE)
    .keys(CHANGES)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0 unix-time-milliseconds:t ?condition(NX|XX|GT|LT)^7.0.0")
    .doc(Group::Generic, "2.6.0", "O(1)", "Lets a key expire at a Unix time in milliseconds.")
    .history(&[("7.0.0", "Options `NX`, `XX`, `GT` and `LT`.")]);

fn pexpireat(ctx: &mut Context<'_>) -> Outcome {
    set_expiry(ctx, Scale { seconds: false, absolute: true }, "pexpireat")
}

/// Which expiries EXPIRE may replace.
#[derive(Copy, Clone, Debug, Default)]
struct Conditions {
    /// `NX`: none is set.
    none: bool,
    /// `XX`: one is set.
    some: bool,
    /// `GT`: the one set is earlier; none counts as never.
    later: bool,
    /// `LT`: the one set is later, or none is.
    earlier: bool,
}

impl Conditions {
    fn parse(ctx: &Context<'_>) -> Result<Conditions, Error> {
        let (mut conditions, mut rest) = (Conditions::default(), ctx.rest(3));
        while let Some(word) = rest.peek() {
            if rest.word("nx") {
                conditions.none = true;
            } else if rest.word("xx") {
                conditions.some = true;
            } else if rest.word("gt") {
                conditions.later = true;
            } else if rest.word("lt") {
                conditions.earlier = true;
            } else {
                return Err(Error::quoting("ERR Unsupported option ", word, ""));
            }
        }
        if conditions.none && (conditions.some || conditions.later || conditions.earlier) {
            let text = "ERR NX and XX, GT or LT options at the same time are not compatible";
            return Err(Error::Fixed(text));
        }
        if conditions.later && conditions.earlier {
            return Err(Error::Fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    fn allow(self, old_ms: Option<i64>, new_ms: i64) -> bool {
        let forbidden = (self.none && old_ms.is_some())
            || (self.some && old_ms.is_none())
            || (self.later && old_ms.is_none_or(|old| new_ms <= old))
            || (self.earlier && old_ms.is_some_and(|old| new_ms >= old));
        !forbidden
    }
}

fn set_expiry(ctx: &mut Context<'_>, scale: Scale, name: &str) -> Outcome {
    let conditions = Conditions::parse(ctx)?;
    let number = ctx.int(2)?;
    let ms = if scale.seconds { number.checked_mul(1000) } else { Some(number) };
    let at_ms = if scale.absolute { ms } else { ms.and_then(|ms| ms.checked_add(ctx.keys.now_ms())) };
    let at_ms = at_ms.ok_or_else(|| Error::Text(format!("ERR invalid expire time in '{name}' command")))?;
    let key = ctx.key(1);
    let may = match ctx.keys.lookup_write(&key) {
        Some(entry) => conditions.allow(entry.expiry_ms(), at_ms),
        None => false,
    };
    if may {
        expire_at(ctx.keys, &key, at_ms);
    }
    ctx.reply.int(i64::from(may));
    Ok(())
}

pub(super) static TTL: Command<Handler> = command("ttl", 2, ttl as Handler)
    .flags(FAST_READ)
    .keys(ASKS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "1.0.0", "O(1)", "Returns the seconds until a key expires.")
    .history(&[("2.8.0", "Answers -2 when there is no key.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn ttl(ctx: &mut Context<'_>) -> Outcome {
    tell_expiry(ctx, Scale { seconds: true, absolute: false })
}

pub(super) static PTTL: Command<Handler> = command("pttl", 2, pttl as Handler)
    .flags(FAST_READ)
    .keys(ASKS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "2.6.0", "O(1)", "Returns the milliseconds until a key expires.")
    .history(&[("2.8.0", "Answers -2 when there is no key.")])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn pttl(ctx: &mut Context<'_>) -> Outcome {
    tell_expiry(ctx, Scale { seconds: false, absolute: false })
}

pub(super) static EXPIRETIME: Command<Handler> = command("expiretime", 2, expiretime as Handler)
    .flags(FAST_READ)
    .keys(ASKS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "7.0.0", "O(1)", "Returns the Unix time in seconds at which a key expires.");

fn expiretime(ctx: &mut Context<'_>) -> Outcome {
    tell_expiry(ctx, Scale { seconds: true, absolute: true })
}

pub(super) static PEXPIRETIME: Command<Handler> = command("pexpiretime", 2, pexpiretime as Handler)
    .flags(FAST_READ)
    .keys(ASKS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "7.0.0", "O(1)", "Returns the Unix time in milliseconds at which a key expires.");

fn pexpiretime(ctx: &mut Context<'_>) -> Outcome {
    tell_expiry(ctx, Scale { seconds: false, absolute: true })
}

/// Answers -2 for no key and -1 for no expiry; seconds are rounded to the nearest.
fn tell_expiry(ctx: &mut Context<'_>, scale: Scale) -> Outcome {
    let key = ctx.key(1);
    let now_ms = ctx.keys.now_ms();
    let answer = match ctx.keys.lookup_quietly(&key).map(|entry| entry.expiry_ms()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => {
            let ms = if scale.absolute { at_ms } else { at_ms.saturating_sub(now_ms) }.max(0);
            if scale.seconds { ((ms as u64 + 500) / 1000) as i64 } else { ms }
        }
    };
    ctx.reply.int(answer);
    Ok(())
}

pub(super) static PERSIST: Command<Handler> = command("persist", 2, persist as Handler)
    .flags(FAST_WRITE)
    .keys(CHANGES)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "2.2.0", "O(1)", "Lets a key not expire any more.");

fn persist(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let expires = ctx.keys.lookup_write(&key).is_some_and(|entry| entry.expiry_ms().is_some());
    if expires {
        ctx.keys.set_expiry(&key, None);
        ctx.keys.changed(&key, EventClass::GENERIC, "persist");
    }
    ctx.reply.int(i64::from(expires));
    Ok(())
}
