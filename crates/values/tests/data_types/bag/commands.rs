//! BAG.ADD key word count [until-ms] and BAG.COUNT key word.

use martlet_command::{Context, Handler, Outcome};
use martlet_engine::EventClass;
use martlet_keyspace::{ModuleValue, Value};
use martlet_spec::{Command, Error, Flags, KeyFlags, KeyPart, command};

use super::structure::Bag;

pub static COMMANDS: &[&Command<Handler>] = &[&ADD, &COUNT];

static ADD: Command<Handler> = command("bag.add", -4, add as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))]);

fn add(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let count = u64::try_from(ctx.int(3)?).map_err(|_| Error::NotInteger)?;
    let until_ms = if ctx.argc() > 4 { Some(ctx.int(4)?) } else { None };
    let word = ctx.arg(2);
    let present = ctx.keys.write::<Bag>(&key)?;
    let is_new = present.is_none();
    present.into_iter().for_each(|mut bag| bag.add(word, count, until_ms));
    if is_new {
        let mut bag = Bag::default();
        bag.add(word, count, until_ms);
        ctx.keys.set_value(&key, Value::Module(ModuleValue::new(bag)), None);
    }
    ctx.keys.changed(&key, EventClass::MODULE, "bag.add");
    ctx.reply.ok();
    Ok(())
}

static COUNT: Command<Handler> = command("bag.count", 3, count as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))]);

fn count(ctx: &mut Context<'_>) -> Outcome {
    let (key, now_ms, word) = (ctx.key(1), ctx.keys.now_ms(), ctx.arg(2));
    let count = ctx.keys.read::<Bag>(&key)?.map_or(0, |bag| bag.count(word, now_ms));
    ctx.reply.count(count as usize);
    Ok(())
}
