//! Settings and rules: TS.CREATE, TS.ALTER, TS.CREATERULE, TS.DELETERULE.

use martlet_engine::EventClass;
use martlet_spec::module::TIME_SERIES;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_tseries::rule::Rule;
use martlet_tseries::series::Series;
use martlet_values::time_series::TimeSeries;

use super::options::{self, Created, Options};
use super::{CHANGES, GROWS, INSERTS, NO_KEY, WRITES, add, arity, links, peek, read_for_write, refused};
use crate::Handler;
use crate::context::Context;

pub(super) static CREATE: Command<Handler> = command("ts.create", -2, create as Handler)
    .flags(GROWS)
    .keys(INSERTS)
    .acl(WRITES.with(Acl::FAST))
    .syntax(
        "key:k0 ?retentionPeriod:i=RETENTION ?enc=ENCODING(COMPRESSED|UNCOMPRESSED) ?size:i=CHUNK_SIZE ?policy=DUPLICATE_POLICY(BLOCK|FIRST|LAST|MIN|MAX|SUM) \
         ?ignore=IGNORE(ignoreMaxTimediff:i ignoreMaxValDiff:d) ?labels=LABELS(*label-value(label value))",
    )
    .doc(Group::Module(&TIME_SERIES), "1.0.0", "O(1)", "Creates a time series.");

fn create(ctx: &mut Context<'_>) -> Outcome {
    let Created { settings, encoding } = options::created(Options::new(ctx.args, 2), &ctx.settings.series)?;
    let key = ctx.key(1);
    if ctx.keys.lookup_write(&key).is_some() {
        return Err(Error::Fixed("ERR TSDB: key already exists"));
    }
    let series = Series::new(encoding, settings).map_err(refused)?;
    add::store(ctx.keys, &key, series);
    ctx.keys.changed(&key, EventClass::MODULE, "ts.create");
    ctx.reply.ok();
    Ok(())
}

pub(super) static ALTER: Command<Handler> = command("ts.alter", -2, alter as Handler)
    .flags(GROWS)
    .keys(CHANGES)
    .acl(WRITES)
    .syntax(
        "key:k0 ?retentionPeriod:i=RETENTION ?size:i=CHUNK_SIZE ?policy=DUPLICATE_POLICY(BLOCK|FIRST|LAST|MIN|MAX|SUM) \
         ?ignore=IGNORE(ignoreMaxTimediff:i ignoreMaxValDiff:d) ?labels=LABELS(*label-value(label value))",
    )
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(N) for N labels",
        "Changes the retention, chunk size, duplicate policy, ignored samples or labels of a time series.",
    );

fn alter(ctx: &mut Context<'_>) -> Outcome {
    let options = Options::new(ctx.args, 2);
    let key = ctx.key(1);
    options::created(options, &ctx.settings.series)?;
    read_for_write(ctx.keys, &key)?;
    if let Some(mut series) = ctx.keys.write::<TimeSeries>(&key)? {
        let settings = options::altered(options, &ctx.settings.series, series.settings().clone())?;
        series.alter(settings).map_err(refused)?;
    }
    ctx.keys.changed(&key, EventClass::MODULE, "ts.alter");
    ctx.reply.ok();
    Ok(())
}

const OF_RULE: &[KeyPart] = &[
    KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS)),
    KeyPart::one(2, KeyFlags::RW.with(KeyFlags::UPDATE)),
];

pub(super) static CREATERULE: Command<Handler> = command("ts.createrule", -6, createrule as Handler)
    .flags(GROWS)
    .keys(OF_RULE)
    .acl(WRITES)
    .follows_links()
    .syntax("sourceKey:k0 destKey:k1 aggregator=AGGREGATION bucketDuration:i ?alignTimestamp:i")
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(1)",
        "Has the aggregated samples of a time series written into another one.",
    );

fn createrule(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 7 {
        return Err(arity(ctx));
    }
    let Some((aggregator, buckets)) = options::rule(Options::new(ctx.args, 1))? else {
        return Err(arity(ctx));
    };
    let (source, destination) = (ctx.key(1), ctx.key(2));
    if source.bytes == destination.bytes {
        return Err(refused(martlet_tseries::error::Error::RuleToItself));
    }
    read_for_write(ctx.keys, &source)?;
    links::lock(ctx.keys, [&source, &destination])?;
    use martlet_tseries::error::Error as Refusal;
    if links::source(ctx.keys, &source).is_some() {
        return Err(refused(Refusal::SourceIsDestination));
    }
    read_for_write(ctx.keys, &destination)?;
    if !links::destinations(ctx.keys, &destination).is_empty() {
        return Err(refused(Refusal::DestinationIsSource));
    }
    if links::source(ctx.keys, &destination).is_some() {
        return Err(refused(Refusal::DestinationIsTaken));
    }
    links::prune(ctx.keys, &source);
    links::prune(ctx.keys, &destination);
    if let Some(mut series) = ctx.keys.write::<TimeSeries>(&source)? {
        series.add_rule(Rule::new(destination.bytes, aggregator, buckets));
    }
    if let Some(mut series) = ctx.keys.write::<TimeSeries>(&destination)? {
        series.set_source(Some(source.bytes));
    }
    ctx.keys.changed(&source, EventClass::MODULE, "ts.createrule:src");
    note_destination(ctx, "ts.createrule:dest");
    ctx.reply.ok();
    Ok(())
}

/// Notes the change of a rule's destination, the second key.
fn note_destination(ctx: &mut Context<'_>, event: &'static str) {
    let destination = ctx.key(2);
    ctx.keys.signal(&destination);
    ctx.keys.effects.event(EventClass::MODULE, event, ctx.keys.db(), destination.bytes);
}

pub(super) static DELETERULE: Command<Handler> = command("ts.deleterule", 3, deleterule as Handler)
    .flags(Flags::WRITE)
    .keys(OF_RULE)
    .acl(WRITES.with(Acl::FAST))
    .follows_links()
    .syntax("sourceKey:k0 destKey:k1")
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(1)",
        "Ends the compaction of a time series into another one.",
    );

fn deleterule(ctx: &mut Context<'_>) -> Outcome {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    read_for_write(ctx.keys, &source)?;
    links::lock(ctx.keys, [&source, &destination])?;
    if !links::destinations(ctx.keys, &source).iter().any(|name| **name == *destination.bytes) {
        return Err(refused(martlet_tseries::error::Error::NoSuchRule));
    }
    peek(ctx.keys, &destination).ok_or(NO_KEY)?;
    links::prune(ctx.keys, &source);
    if let Some(mut series) = ctx.keys.write::<TimeSeries>(&source)? {
        series.remove_rule(destination.bytes).map_err(refused)?;
    }
    if let Some(mut series) = ctx.keys.write::<TimeSeries>(&destination)? {
        series.set_source(None);
    }
    ctx.keys.changed(&source, EventClass::MODULE, "ts.deleterule:src");
    note_destination(ctx, "ts.deleterule:dest");
    ctx.reply.ok();
    Ok(())
}
