//! INCREX: a counter that stays between bounds and may expire.
//!
//! Invariant: an increment that is refused leaves the key alone, its expiry included.

use martlet_base::number::{LongDouble, NumberBuffer, format_i64, parse_i64};
use martlet_engine::EventClass;
use martlet_keyspace::{ExpiryChange, Key, StrValue};
use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, Outcome, command};

use super::UPDATES;
use super::value::{Expiry, expires_relatively};
use crate::Handler;
use crate::context::Context;

pub(super) static INCREX: Command<Handler> = command("increx", -2, increx as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST))
    .keys(UPDATES)
    .relative_time_if(expires_relatively)
    .acl(Acl::STRING)
    .syntax(
        "key:k0 ?increment(float:d=BYFLOAT|integer:i=BYINT) ?SATURATE ?lowerbound=LBOUND ?upperbound=UBOUND \
         ?expiration(seconds:i=EX|milliseconds:i=PX|unix-time-seconds:t=EXAT|unix-time-milliseconds:t=PXAT|PERSIST) \
         ?ENX",
    )
    .doc(
        Group::String,
        "8.8.0",
        "O(1)",
        "Adds to the numeric value of a key, within bounds, and changes when it expires.",
    );

/// How much is added, as yet unread.
#[derive(Copy, Clone, Default)]
enum Increment<'a> {
    #[default]
    One,
    Integer(&'a [u8]),
    Float(&'a [u8]),
}

/// What INCREX's options say; the numbers are as yet unread.
#[derive(Default)]
struct Options<'a> {
    increment: Option<Increment<'a>>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturate: bool,
    expiry: Option<Expiry<'a>>,
    persist: bool,
    only_without_expiry: bool,
}

impl<'a> Options<'a> {
    /// Each option may come once.
    fn parse(mut rest: Cursor<'a>) -> Result<Options<'a>, Error> {
        let mut options = Options::default();
        while rest.peek().is_some() {
            let sets_expiry = options.expiry.is_some() || options.persist;
            if options.increment.is_none() && rest.option("BYINT", 1) {
                options.increment = Some(Increment::Integer(rest.value()?));
            } else if options.increment.is_none() && rest.option("BYFLOAT", 1) {
                options.increment = Some(Increment::Float(rest.value()?));
            } else if options.lower.is_none() && rest.option("LBOUND", 1) {
                options.lower = Some(rest.value()?);
            } else if options.upper.is_none() && rest.option("UBOUND", 1) {
                options.upper = Some(rest.value()?);
            } else if !options.saturate && rest.word("SATURATE") {
                options.saturate = true;
            } else if !options.only_without_expiry && !options.persist && rest.word("ENX") {
                options.only_without_expiry = true;
            } else if !sets_expiry && !options.only_without_expiry && rest.word("PERSIST") {
                options.persist = true;
            } else if !sets_expiry && let Some(expiry) = Expiry::take(&mut rest, None)? {
                options.expiry = Some(expiry);
            } else {
                return Err(Error::Syntax);
            }
        }
        if options.only_without_expiry && options.expiry.is_none() {
            return Err(Error::Fixed("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }
}

/// A number between two others.
struct Bounded<N> {
    increment: N,
    lower: N,
    upper: N,
    saturate: bool,
}

/// The new value, and the added amount; `None` if it would be out of bounds.
type Sum<N> = Option<(N, N)>;

const BOUNDS_CROSS: Error = Error::Fixed("ERR LBOUND can't be greater than UBOUND");

impl Bounded<i64> {
    fn parse(increment: i64, options: &Options<'_>) -> Result<Bounded<i64>, Error> {
        let bound = |text: Option<&[u8]>, default, error| {
            text.map_or(Ok(default), |text| parse_i64(text).ok_or(Error::Fixed(error)))
        };
        let lower = bound(options.lower, i64::MIN, "ERR LBOUND is not an integer or out of range")?;
        let upper = bound(options.upper, i64::MAX, "ERR UBOUND is not an integer or out of range")?;
        if lower > upper {
            return Err(BOUNDS_CROSS);
        }
        Ok(Bounded { increment, lower, upper, saturate: options.saturate })
    }

    fn add_to(&self, old: i64) -> Result<Sum<i64>, Error> {
        let sum = i128::from(old) + i128::from(self.increment);
        let within = sum.clamp(i128::from(self.lower), i128::from(self.upper));
        if sum != within && !self.saturate {
            return Ok(None);
        }
        // Between two bounds of 64 bits, so it has 64 bits itself.
        let new = within as i64;
        let added = new.checked_sub(old).ok_or(Error::Fixed("ERR applied increment would overflow"))?;
        Ok(Some((new, added)))
    }
}

impl Bounded<LongDouble> {
    fn parse(increment: &[u8], options: &Options<'_>) -> Result<Bounded<LongDouble>, Error> {
        fn number(text: &[u8], error: &'static str) -> Result<LongDouble, Error> {
            LongDouble::parse(text).ok_or(Error::Fixed(error))
        }
        let bound =
            |text: Option<&[u8]>, default, error| text.map_or(Ok(default), |text| number(text, error));
        let increment = number(increment, "ERR Increment is not a valid float")?;
        if increment.is_infinite() {
            return Err(Error::Fixed("ERR BYFLOAT increment cannot be Infinity"));
        }
        let lower = bound(options.lower, LongDouble::MAX.negated(), "ERR LBOUND is not a valid float")?;
        let upper = bound(options.upper, LongDouble::MAX, "ERR UBOUND is not a valid float")?;
        if lower.compare(&upper).is_gt() {
            return Err(BOUNDS_CROSS);
        }
        Ok(Bounded { increment, lower, upper, saturate: options.saturate })
    }

    fn add_to(&self, old: LongDouble) -> Result<Sum<LongDouble>, Error> {
        let sum = old.checked_add(self.increment);
        let is_above = sum.map_or(!self.increment.is_negative(), |sum| sum.compare(&self.upper).is_gt());
        let is_below = sum.map_or(self.increment.is_negative(), |sum| sum.compare(&self.lower).is_lt());
        let new = match sum {
            Some(sum) if !is_above && !is_below => sum,
            _ if !self.saturate => return Ok(None),
            _ if is_above => self.upper,
            _ => self.lower,
        };
        let added = new.checked_add(old.negated());
        let added = added.ok_or(Error::Fixed("ERR applied increment would be Infinity"))?;
        Ok(Some((new, added)))
    }
}

fn increx(ctx: &mut Context<'_>) -> Outcome {
    let options = Options::parse(ctx.rest(2))?;
    match options.increment.unwrap_or_default() {
        Increment::One => by_integer(ctx, 1, &options),
        Increment::Integer(text) => {
            let error = Error::Fixed("ERR Increment is not an integer or out of range");
            by_integer(ctx, parse_i64(text).ok_or(error)?, &options)
        }
        Increment::Float(text) => by_float(ctx, text, &options),
    }
}

fn by_integer(ctx: &mut Context<'_>, increment: i64, options: &Options<'_>) -> Outcome {
    let bounded = Bounded::<i64>::parse(increment, options)?;
    let change = Change::parse(ctx, options)?;
    let key = ctx.key(1);
    let old = match ctx.keys.read_str_for_write(&key)? {
        None => 0,
        Some(StrValue::Int(number)) => number,
        Some(StrValue::Bytes(bytes)) => parse_i64(bytes).ok_or(Error::NotInteger)?,
    };
    let sum = bounded.add_to(old)?;
    let (new, added) = sum.unwrap_or((old, 0));
    ctx.reply.array(2);
    ctx.reply.int(new);
    ctx.reply.int(added);
    if sum.is_some() {
        let mut buffer = NumberBuffer::new();
        change.apply(ctx, &key, format_i64(new, &mut buffer), "incrby", |ctx, expiry| {
            ctx.keys.set_int(&key, new, expiry);
        });
    }
    Ok(())
}

fn by_float(ctx: &mut Context<'_>, increment: &[u8], options: &Options<'_>) -> Outcome {
    let bounded = Bounded::<LongDouble>::parse(increment, options)?;
    let change = Change::parse(ctx, options)?;
    let key = ctx.key(1);
    let old = match ctx.keys.read_str_for_write(&key)? {
        None => LongDouble::ZERO,
        Some(StrValue::Int(number)) => LongDouble::from(number),
        Some(StrValue::Bytes(bytes)) => LongDouble::parse(bytes).ok_or(Error::NotFloat)?,
    };
    if old.is_infinite() {
        return Err(Error::Fixed("ERR value cannot be Infinity"));
    }
    let sum = bounded.add_to(old)?;
    let (new, added) = sum.unwrap_or((old, LongDouble::ZERO));
    let text = new.to_text();
    ctx.reply.array(2);
    ctx.reply.double_text(&text);
    ctx.reply.double_text(&added.to_text());
    if sum.is_some() {
        change.apply(ctx, &key, &text, "incrbyfloat", |ctx, expiry| {
            ctx.keys.set_bytes(&key, &text, false, expiry);
        });
    }
    Ok(())
}

/// What becomes of the key's expiry.
struct Change {
    at_ms: Option<i64>,
    persist: bool,
    only_without_expiry: bool,
}

impl Change {
    fn parse(ctx: &Context<'_>, options: &Options<'_>) -> Result<Change, Error> {
        let at_ms = options.expiry.map(|e| e.at_ms(ctx.keys.now_ms(), "increx")).transpose()?;
        let Options { persist, only_without_expiry, .. } = *options;
        Ok(Change { at_ms, persist, only_without_expiry })
    }

    /// Stores the new value, which `text` spells, with its expiry; one in the past deletes the key. The
    /// record is the result, which depends on no arithmetic or clock.
    fn apply(
        self,
        ctx: &mut Context<'_>,
        key: &Key<'_>,
        text: &[u8],
        event: &'static str,
        set: impl FnOnce(&mut Context<'_>, ExpiryChange),
    ) {
        let expires = ctx.keys.expiry_ms(key).is_some();
        let at_ms = self.at_ms.filter(|_| !(self.only_without_expiry && expires));
        if at_ms.is_some_and(|at_ms| ctx.keys.deletes_at_once(at_ms)) {
            ctx.keys.delete_for_past_time(key);
            return;
        }
        let expiry = match at_ms {
            Some(at_ms) => ExpiryChange::At(at_ms),
            None if self.persist => ExpiryChange::Clear,
            None => ExpiryChange::Keep,
        };
        set(ctx, expiry);
        let keys = &mut *ctx.keys;
        keys.changed(key, EventClass::STRING, event);
        let mut buffer = NumberBuffer::new();
        let words: &[&[u8]] = match expiry {
            ExpiryChange::At(at_ms) => &[b"PXAT", format_i64(at_ms, &mut buffer)],
            ExpiryChange::Clear => &[],
            ExpiryChange::Keep => &[b"KEEPTTL"],
        };
        match expiry {
            ExpiryChange::At(_) => keys.effects.event(EventClass::GENERIC, "expire", keys.db(), key.bytes),
            ExpiryChange::Clear if expires => {
                keys.effects.event(EventClass::GENERIC, "persist", keys.db(), key.bytes);
            }
            _ => {}
        }
        keys.effects.replace(keys.db(), || [&[b"SET", key.bytes, text], words].concat());
    }
}
