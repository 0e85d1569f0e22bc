//! Samples: TS.ADD, TS.MADD, TS.INCRBY, TS.DECRBY, TS.DEL.
//!
//! Followers get timestamps, never `*`. They compute the buckets of rules themselves: the destinations'
//! changes belong to the record of the sample.

use martlet_base::slot::slot_of;
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::{Key, ModuleValue, Value};
use martlet_protocol::request::Args;
use martlet_spec::module::TIME_SERIES;
use martlet_spec::{Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_tseries::policy::CompactionPolicy;
use martlet_tseries::rule::Rule;
use martlet_tseries::sample::{DuplicatePolicy, Sample};
use martlet_tseries::series::{Added, Label, Series, Settings};
use martlet_tseries::store::Encoding;
use martlet_values::time_series::TimeSeries;

use super::options::{self, Created, Options};
use super::{CHANGES, GROWS, INSERTS, NO_SERIES, SERIES, WRITES, WRONG_TYPE, arity, links, refused};
use crate::Handler;
use crate::context::{Context, SeriesSettings};

const INVALID_VALUE: Error = Error::Fixed("ERR TSDB: invalid value");
const INVALID_TIME: Error = Error::Fixed("ERR TSDB: invalid timestamp");
const NEGATIVE_TIME: Error = Error::Fixed("ERR TSDB: invalid timestamp, must be a nonnegative integer");

pub(super) static ADD: Command<Handler> = command("ts.add", -4, add as Handler)
    .flags(GROWS)
    .keys(INSERTS)
    .member(SERIES)
    .acl(WRITES)
    .follows_links()
    .relative_time_if(|args| args.at(2) == b"*")
    .syntax(
        "key:k0 timestamp value:d ?retentionPeriod:i=RETENTION ?enc=ENCODING(COMPRESSED|UNCOMPRESSED) ?size:i=CHUNK_SIZE ?policy=DUPLICATE_POLICY(BLOCK|FIRST|LAST|MIN|MAX|SUM) \
         ?on-duplicate=ON_DUPLICATE(BLOCK|FIRST|LAST|MIN|MAX|SUM) \
         ?ignore=IGNORE(ignoreMaxTimediff:i ignoreMaxValDiff:d) ?labels=LABELS(*label-value(label value))",
    )
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(M) with M compaction rules, else O(1)",
        "Appends a sample to a time series, which is created if it does not exist.",
    );

fn add(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let added = add_sample(ctx, &key);
    ctx.keys.effects.event(EventClass::MODULE, "ts.add", ctx.keys.db(), key.bytes);
    ctx.reply.int(added?.timestamp as i64);
    Ok(())
}

fn add_sample(ctx: &mut Context<'_>, key: &Key<'_>) -> Result<Added, Error> {
    let sample = parse_sample(ctx.keys, ctx.arg(2), ctx.arg(3))?;
    let options = Options::new(ctx.args, 4);
    let has_options = ctx.argc() > 4;
    let given = if has_options { options::policy(options, "ON_DUPLICATE") } else { Ok(None) };
    let added = match append(ctx.keys, ctx.settings.series.policy, key, sample, given)? {
        Some(added) => added,
        None => {
            let created = options::created(options, &ctx.settings.series)?;
            create(ctx, key, created)?;
            let added = append(ctx.keys, ctx.settings.series.policy, key, sample, Ok(None))?;
            added.ok_or(NO_SERIES)?
        }
    };
    if added.is_stored {
        note_change(ctx.keys, key);
        if ctx.arg(2) == b"*" {
            let args = ctx.args;
            ctx.keys.effects.replace(ctx.keys.db(), || {
                let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
                words[2] = sample.timestamp.to_string().into_bytes();
                words
            });
        }
    }
    Ok(added)
}

/// Counts a change of the key, whose events are notified apart.
fn note_change(keys: &mut Keys, key: &Key<'_>) {
    keys.dirty += 1;
    keys.signal(key);
}

/// A sample from its texts; `*` is now.
fn parse_sample(keys: &Keys, timestamp: &[u8], value: &[u8]) -> Result<Sample, Error> {
    let value = options::sample_value(value).ok_or(INVALID_VALUE)?;
    if timestamp == b"*" {
        return Ok(Sample::new(now(keys), value));
    }
    match martlet_base::number::parse_i64(timestamp).map(u64::try_from) {
        Some(Ok(timestamp)) => Ok(Sample::new(timestamp, value)),
        Some(Err(_)) => Err(NEGATIVE_TIME),
        None => Err(INVALID_TIME),
    }
}

/// The time of the request, Unix milliseconds.
fn now(keys: &Keys) -> u64 {
    u64::try_from(keys.now_ms()).unwrap_or(0)
}

/// Adds a sample to the series at a key, under the request's own policy if it has one; `None` if there is no
/// such key.
fn append(
    keys: &mut Keys,
    fallback: DuplicatePolicy,
    key: &Key<'_>,
    sample: Sample,
    given: Result<Option<DuplicatePolicy>, Error>,
) -> Result<Option<Added>, Error> {
    change(keys, key, |series, effects| series.add(sample, given?, fallback, effects).map_err(refused))
}

/// Changes the series at a key, and the destinations of its rules; `None` if there is no such key.
fn change<R>(
    keys: &mut Keys,
    key: &Key<'_>,
    with: impl FnOnce(&mut Series, &mut Vec<martlet_tseries::rule::Effect>) -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    let Some(mut series) = keys.write::<TimeSeries>(key).map_err(|_| NO_SERIES)? else { return Ok(None) };
    let mut effects = Vec::new();
    if series.rules().is_empty() {
        return with(&mut series, &mut effects).map(Some);
    }
    drop(series);
    links::lock(keys, [key])?;
    let Some(mut series) = keys.write::<TimeSeries>(key).map_err(|_| NO_SERIES)? else { return Ok(None) };
    let changed = with(&mut series, &mut effects)?;
    drop(series);
    links::apply(keys, key, &effects);
    Ok(Some(changed))
}

/// Creates the series at an absent key, and those that `ts-compaction-policy` asks for.
///
/// # Errors
/// [`Error::NeedsShards`], before anything has changed.
fn create(ctx: &mut Context<'_>, key: &Key<'_>, created: Created) -> Outcome {
    let Context { keys, settings, .. } = ctx;
    let Created { settings: own, encoding } = created;
    let policies = &settings.series.compactions;
    let names: Vec<Vec<u8>> = policies.iter().map(|policy| destination_name(key.bytes, policy)).collect();
    let shards: Vec<usize> =
        names.iter().map(|name| Key::new(name).shard()).filter(|shard| !keys.covers(*shard)).collect();
    links::lock_shards(keys, &shards)?;
    let mut series = Series::new(encoding, own.clone()).map_err(refused)?;
    for (name, policy) in names.iter().zip(policies) {
        let destination = Key::new(name);
        let is_elsewhere = settings.is_clustered && slot_of(name) != slot_of(key.bytes);
        if is_elsewhere || keys.lookup_write(&destination).is_some() {
            let why = if is_elsewhere { "keys are in different slots" } else { "key already exists" };
            keys.effects.warn(format!("Cannot create compacted key, {why}"));
            continue;
        }
        series.add_rule(Rule::new(name, policy.aggregator, policy.buckets));
        store(keys, &destination, compacted(key.bytes, &own, policy, &settings.series)?);
        keys.signal(&destination);
    }
    store(keys, key, series);
    Ok(())
}

/// Stores a series at an absent key.
pub(super) fn store(keys: &mut Keys, key: &Key<'_>, series: Series) {
    keys.set_value(key, Value::Module(ModuleValue::new(TimeSeries(series))), None);
}

/// The key of the series that a compaction policy fills.
fn destination_name(source: &[u8], policy: &CompactionPolicy) -> Vec<u8> {
    let (aggregator, buckets) = (policy.aggregator.name().to_uppercase(), policy.buckets);
    let alignment = match buckets.alignment() {
        0 => String::new(),
        alignment => format!("_{alignment}"),
    };
    [source, format!("_{aggregator}_{}{alignment}", buckets.duration()).as_bytes()].concat()
}

/// The series that a compaction policy fills: the source's labels, and two that say what is in it.
fn compacted(
    source: &[u8],
    own: &Settings,
    policy: &CompactionPolicy,
    defaults: &SeriesSettings,
) -> Result<Series, Error> {
    let text = |text: &str| Box::<[u8]>::from(text.as_bytes());
    let mut labels: Vec<Label> = own.labels.to_vec();
    labels.push((text("aggregation"), text(&policy.aggregator.name().to_uppercase())));
    labels.push((text("time_bucket"), text(&policy.buckets.duration().to_string())));
    let settings = Settings {
        retention_ms: policy.retention_ms,
        chunk_bytes: defaults.chunk_bytes,
        labels: labels.into(),
        ..Settings::default()
    };
    let mut series = Series::new(Encoding::Compressed, settings).map_err(refused)?;
    series.set_source(Some(source));
    Ok(series)
}

pub(super) static MADD: Command<Handler> = command("ts.madd", -4, madd as Handler)
    .flags(GROWS)
    .keys(&[KeyPart::range(1, -1, 3, KeyFlags::RW.with(KeyFlags::INSERT))])
    .acl(WRITES)
    .follows_links()
    .relative_time_if(|args| args.iter().skip(2).step_by(3).any(|text| text == b"*"))
    .syntax("*ktv(key:k0 timestamp value:d)")
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(N*M) for N samples of series with M compaction rules",
        "Appends samples to time series.",
    );

fn madd(ctx: &mut Context<'_>) -> Outcome {
    if !(ctx.argc() - 1).is_multiple_of(3) {
        return Err(arity(ctx));
    }
    let places: Vec<usize> = (1..ctx.argc()).step_by(3).collect();
    let of_request: Vec<Key<'_>> = places.iter().map(|place| ctx.key(*place)).collect();
    links::lock(ctx.keys, &of_request)?;
    let mut recorded: Vec<usize> = Vec::new();
    let fallback = ctx.settings.series.policy;
    ctx.reply.array(places.len());
    for (place, key) in places.iter().zip(&of_request) {
        let sample = parse_sample(ctx.keys, ctx.arg(place + 1), ctx.arg(place + 2));
        let added = sample.and_then(|sample| append(ctx.keys, fallback, key, sample, Ok(None)));
        match added.and_then(|added| added.ok_or(NO_SERIES)) {
            Ok(added) => {
                ctx.reply.int(added.timestamp as i64);
                if added.is_stored {
                    recorded.push(*place);
                    note_change(ctx.keys, key);
                }
            }
            Err(error) => ctx.reply.error(error.to_bytes()),
        }
    }
    for key in &of_request {
        ctx.keys.effects.event(EventClass::MODULE, "ts.add", ctx.keys.db(), key.bytes);
    }
    let has_now = recorded.iter().any(|place| ctx.arg(place + 1) == b"*");
    if !recorded.is_empty() && (has_now || recorded.len() < places.len()) {
        let (args, now) = (ctx.args, now(ctx.keys).to_string());
        ctx.keys.effects.replace(ctx.keys.db(), || {
            let mut words = vec![b"TS.MADD".to_vec()];
            for place in recorded {
                let time = if args.at(place + 1) == b"*" { now.as_bytes() } else { args.at(place + 1) };
                words.extend([args.at(place), time, args.at(place + 2)].map(<[u8]>::to_vec));
            }
            words
        });
    }
    Ok(())
}

const INCREMENT_SYNTAX: &str = "key:k0 addend:d ?timestamp=TIMESTAMP \
    ?retentionPeriod:i=RETENTION ?enc=ENCODING(COMPRESSED|UNCOMPRESSED) \
    ?size:i=CHUNK_SIZE ?policy=DUPLICATE_POLICY(BLOCK|FIRST|LAST|MIN|MAX|SUM) \
    ?ignore=IGNORE(ignoreMaxTimediff:i ignoreMaxValDiff:d) ?labels=LABELS(*label-value(label value))";

/// Whether an increment is at the time of the request, as RedisTimeSeries 1.12 records it.
fn increments_now(args: &Args<'_>) -> bool {
    let place = Options::new(*args, 3).find("TIMESTAMP");
    place.is_none_or(|place| args.at(place + 1) == b"*")
}

pub(super) static INCRBY: Command<Handler> = command("ts.incrby", -3, incrby as Handler)
    .flags(GROWS)
    .keys(CHANGES)
    .member(SERIES)
    .acl(WRITES)
    .follows_links()
    .relative_time_if(increments_now)
    .syntax(INCREMENT_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(M) with M compaction rules, else O(1)",
        "Adds a sample that is greater than the latest one, which it may replace.",
    );

fn incrby(ctx: &mut Context<'_>) -> Outcome {
    increment(ctx, "ts.incrby", 1.0)
}

pub(super) static DECRBY: Command<Handler> = command("ts.decrby", -3, decrby as Handler)
    .flags(GROWS)
    .keys(CHANGES)
    .member(SERIES)
    .acl(WRITES)
    .follows_links()
    .relative_time_if(increments_now)
    .syntax(INCREMENT_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(M) with M compaction rules, else O(1)",
        "Adds a sample that is smaller than the latest one, which it may replace.",
    );

fn decrby(ctx: &mut Context<'_>) -> Outcome {
    increment(ctx, "ts.decrby", -1.0)
}

fn increment(ctx: &mut Context<'_>, event: &'static str, sign: f64) -> Outcome {
    let key = ctx.key(1);
    let is_there = match ctx.keys.lookup_write(&key) {
        None => false,
        Some(entry) if entry.object::<TimeSeries>().is_none() => return Err(WRONG_TYPE),
        Some(_) => true,
    };
    let by = options::number(ctx.arg(2)).ok_or(Error::Fixed("ERR TSDB: invalid increase/decrease value"))?;
    let options = Options::new(ctx.args, 3);
    let place = options.find("TIMESTAMP");
    let text = place.map(|place| ctx.arg(place + 1)).filter(|text| *text != b"*");
    let timestamp = match text {
        None => now(ctx.keys),
        Some(text) => options::time(text).ok_or(INVALID_TIME)?,
    };
    if !is_there {
        let created = options::created(options, &ctx.settings.series)?;
        create(ctx, &key, created)?;
    }
    let added = change(ctx.keys, &key, |series, effects| {
        series.increment(timestamp, by * sign, effects).map_err(refused)
    })?;
    let added = added.ok_or(NO_SERIES)?;
    ctx.keys.effects.event(EventClass::GENERIC, event, ctx.keys.db(), key.bytes);
    ctx.reply.int(added.timestamp as i64);
    if !added.is_stored {
        return Ok(());
    }
    note_change(ctx.keys, &key);
    if text.is_none() {
        let args = ctx.args;
        ctx.keys.effects.replace(ctx.keys.db(), || {
            let mut words: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
            let timestamp = timestamp.to_string().into_bytes();
            match place {
                Some(place) => words[place + 1] = timestamp,
                // Behind the number: labels take all that follows them.
                None => {
                    words.splice(3..3, [b"TIMESTAMP".to_vec(), timestamp]);
                }
            }
            words
        });
    }
    Ok(())
}

pub(super) static DEL: Command<Handler> = command("ts.del", 4, del as Handler)
    .flags(Flags::WRITE)
    .keys(CHANGES)
    .acl(WRITES)
    .follows_links()
    .syntax("key:k0 fromTimestamp toTimestamp")
    .doc(
        Group::Module(&TIME_SERIES),
        "1.6.0",
        "O(N) for N samples of the chunks in the span",
        "Deletes the samples between two timestamps.",
    );

fn del(ctx: &mut Context<'_>) -> Outcome {
    let (from, to) = options::span(ctx.arg(2), ctx.arg(3))?;
    let key = ctx.key(1);
    super::read_for_write(ctx.keys, &key)?;
    let deleted =
        change(ctx.keys, &key, |series, effects| series.delete(from, to, effects).map_err(refused))?;
    let deleted = deleted.unwrap_or(0);
    if deleted > 0 {
        note_change(ctx.keys, &key);
    }
    ctx.keys.effects.event(EventClass::MODULE, "ts.del", ctx.keys.db(), key.bytes);
    ctx.reply.int(deleted as i64);
    Ok(())
}
