//! Several strings at once: MGET, MSET, MSETNX and MSETEX.

use martlet_base::number::{NumberBuffer, format_i64};
use martlet_engine::EventClass;
use martlet_keyspace::ExpiryChange;
use martlet_protocol::request::Args;
use martlet_spec::{
    Acl, Begin, Command, Cursor, Error, Find, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command,
};

use super::condition::Condition;
use super::value::NewExpiry;
use super::write_str;
use crate::Handler;
use crate::context::Context;

pub(super) static MGET: Command<Handler> = command("mget", -2, mget as Handler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::range(1, -1, 1, KeyFlags::RO.with(KeyFlags::ACCESS))])
    .acl(Acl::STRING)
    .syntax("*key:k0")
    .doc(
        Group::String,
        "1.0.0",
        "O(N), N being the number of keys",
        "Returns the string values of several keys.",
    )
    .tips(&[Tip::REQUEST_MULTI_SHARD]);

fn mget(ctx: &mut Context<'_>) -> Outcome {
    ctx.reply.array(ctx.argc() - 1);
    for index in 1..ctx.argc() {
        let key = ctx.key(index);
        match ctx.keys.lookup(&key).and_then(|entry| Some((entry, entry.str()?))) {
            Some((entry, value)) => write_str(ctx.reply, &entry, value),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

pub(super) static MSET: Command<Handler> = command("mset", -3, mset as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::range(1, -1, 2, KeyFlags::OW.with(KeyFlags::UPDATE))])
    .acl(Acl::STRING)
    .syntax("*data(key:k0 value)")
    .doc(
        Group::String,
        "1.0.1",
        "O(N), N being the number of keys",
        "Sets several keys to string values at once.",
    )
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_ALL_SUCCEEDED]);

fn mset(ctx: &mut Context<'_>) -> Outcome {
    require_pairs(ctx, "mset")?;
    set_pairs(ctx, 1..ctx.argc(), ExpiryChange::Clear);
    ctx.reply.ok();
    Ok(())
}

pub(super) static MSETNX: Command<Handler> = command("msetnx", -3, msetnx as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::range(1, -1, 2, KeyFlags::OW.with(KeyFlags::INSERT))])
    .acl(Acl::STRING)
    .syntax("*data(key:k0 value)")
    .doc(
        Group::String,
        "1.0.1",
        "O(N), N being the number of keys",
        "Sets several keys to string values if none of them exists.",
    );

fn msetnx(ctx: &mut Context<'_>) -> Outcome {
    require_pairs(ctx, "msetnx")?;
    let pairs = 1..ctx.argc();
    let may = holds_of_all(ctx, pairs.clone(), Condition::Absent)?;
    if may {
        set_pairs(ctx, pairs, ExpiryChange::Clear);
    }
    ctx.reply.int(i64::from(may));
    Ok(())
}

fn require_pairs(ctx: &Context<'_>, name: &'static str) -> Outcome {
    if ctx.argc().is_multiple_of(2) { Err(Error::Arity(name)) } else { Ok(()) }
}

/// Whether the condition holds of each key in these arguments, every other of which is one.
fn holds_of_all(
    ctx: &mut Context<'_>,
    pairs: std::ops::Range<usize>,
    condition: Condition<'_>,
) -> Result<bool, Error> {
    for index in pairs.step_by(2) {
        let key = ctx.key(index);
        if !condition.holds(ctx.keys.lookup_write(&key))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sets the keys in these arguments to the values behind them.
fn set_pairs(ctx: &mut Context<'_>, pairs: std::ops::Range<usize>, expiry: ExpiryChange) {
    for index in pairs.step_by(2) {
        let key = ctx.key(index);
        ctx.set_str(&key, index + 1, expiry);
        ctx.keys.changed(&key, EventClass::STRING, "set");
        if let ExpiryChange::At(_) = expiry {
            ctx.keys.effects.event(EventClass::GENERIC, "expire", ctx.keys.db(), key.bytes);
        }
    }
}

pub(super) static MSETEX: Command<Handler> = command("msetex", -4, msetex as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLE_KEYS))
    .keys(&[KeyPart::new(
        Begin::Index(1),
        Find::Count { count: 0, first: 1, step: 2 },
        KeyFlags::OW.with(KeyFlags::UPDATE),
    )])
    .relative_time_if(|args| MsetexOptions::parse(args).is_ok_and(|options| options.is_relative()))
    .acl(Acl::STRING)
    .syntax(
        "numkeys:i *data(key:k0 value) ?condition(NX|XX) \
         ?expiration(seconds:i=EX|milliseconds:i=PX|unix-time-seconds:t=EXAT|unix-time-milliseconds:t=PXAT|KEEPTTL)",
    )
    .doc(
        Group::String,
        "8.4.0",
        "O(N), N being the number of keys",
        "Sets several keys to string values at once, to expire at the same time.",
    )
    .tips(&[Tip::REQUEST_MULTI_SHARD, Tip::RESPONSE_ALL_SUCCEEDED]);

/// What MSETEX's arguments say.
struct MsetexOptions<'a> {
    pairs: std::ops::Range<usize>,
    condition: Condition<'a>,
    expiry: NewExpiry<'a>,
}

impl<'a> MsetexOptions<'a> {
    fn parse(args: &Args<'a>) -> Result<MsetexOptions<'a>, Error> {
        let mut rest = Cursor::new(*args, 1);
        let number = rest.at_least(1, "ERR invalid numkeys value")?;
        if number > i64::from(i32::MAX) {
            return Err(Error::Fixed("ERR invalid numkeys value"));
        }
        let pairs = rest.span(2 * number);
        let pairs = pairs.map_err(|_| Error::Fixed("ERR wrong number of key-value pairs"))?;
        let condition = Condition::Always;
        let mut options = MsetexOptions { pairs, condition, expiry: NewExpiry::default() };
        while rest.peek().is_some() {
            if let Some(condition) = options.condition.take_presence(&mut rest) {
                options.condition = condition;
            } else if !options.expiry.take(&mut rest)? {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }

    fn is_relative(&self) -> bool {
        self.expiry.at.is_some_and(|expiry| !expiry.is_absolute())
    }
}

fn msetex(ctx: &mut Context<'_>) -> Outcome {
    let MsetexOptions { pairs, condition, expiry } = MsetexOptions::parse(&ctx.args)?;
    let at_ms = expiry.at.map(|e| e.at_ms(ctx.keys.now_ms(), "msetex")).transpose()?;
    let may = holds_of_all(ctx, pairs.clone(), condition)?;
    ctx.reply.int(i64::from(may));
    if !may {
        return Ok(());
    }
    let Some(at_ms) = at_ms else {
        set_pairs(ctx, pairs, expiry.change());
        return Ok(());
    };
    if ctx.keys.deletes_at_once(at_ms) {
        for index in pairs.step_by(2) {
            let key = ctx.key(index);
            ctx.keys.delete_for_past_time(&key);
        }
        return Ok(());
    }
    set_pairs(ctx, pairs.clone(), ExpiryChange::At(at_ms));
    let args = ctx.args;
    ctx.keys.effects.replace(ctx.keys.db(), || {
        let mut command: Vec<Vec<u8>> = vec![b"MSETEX".to_vec()];
        command.extend((1..pairs.end).map(|index| args.at(index).to_vec()));
        command.push(b"PXAT".to_vec());
        command.push(format_i64(at_ms, &mut NumberBuffer::new()).to_vec());
        command
    });
    Ok(())
}
