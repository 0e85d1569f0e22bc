//! One series, or several that are named: TS.GET, TS.RANGE, TS.REVRANGE, TS.NRANGE, TS.NREVRANGE, TS.READ.

use martlet_base::number::parse_i64;
use martlet_engine::Awaited;
use martlet_keyspace::{Key, Kind};
use martlet_protocol::request::Args;
use martlet_spec::module::TIME_SERIES;
use martlet_spec::{Acl, Command, Error, Find, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_tseries::query::merge::Pivot;
use martlet_tseries::query::{RangeOptions, RangeQuery, Rows};
use martlet_tseries::sample::{Sample, TIMESTAMP_MAX};
use martlet_tseries::series::Series;

use super::options::{self, Options};
use super::{NO_KEY, READ_ONLY, READS, SERIES, arity, links, peek, read, reply};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};
use martlet_values::time_series::TimeSeries;

/// Whether LATEST is among the arguments, which may need the series' source.
fn has_latest(args: &Args<'_>) -> bool {
    Options::new(*args, 2).has_latest()
}

/// The open bucket of the rule that fills a series, if LATEST asks for it.
fn latest(ctx: &mut Context<'_>, key: &Key<'_>, is_asked: bool) -> Result<Option<Sample>, Error> {
    if !is_asked {
        return Ok(None);
    }
    links::lock(ctx.keys, [key])?;
    Ok(links::latest(ctx.keys, key))
}

pub(super) static GET: Command<Handler> = command("ts.get", -2, get as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .member(SERIES)
    .acl(READ_ONLY.with(Acl::FAST))
    .follows_links_if(has_latest)
    .syntax("key:k0 ?LATEST")
    .doc(Group::Module(&TIME_SERIES), "1.0.0", "O(1)", "Returns the latest sample of a time series.");

fn get(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 3 {
        return Err(arity(ctx));
    }
    let key = ctx.key(1);
    let last = read(ctx.keys, &key)?.last();
    let is_latest = ctx.argc() == 3;
    if is_latest && !has_latest(&ctx.args) {
        return Err(Error::Fixed("ERR TSDB: wrong 3rd argument"));
    }
    let latest = latest(ctx, &key, is_latest)?;
    reply::sample(ctx.reply, latest.or(last));
    Ok(())
}

const RANGE_SYNTAX: &str = "key:k0 fromTimestamp toTimestamp ?LATEST ?*ts:i=FILTER_BY_TS ?filter-by-value=FILTER_BY_VALUE(min:d max:d) \
     ?count:i=COUNT ?aggregation(?align=ALIGN aggregator=AGGREGATION bucketDuration:i ?bucketTimestamp=BUCKETTIMESTAMP ?EMPTY)";
const RANGE_COST: &str =
    "O(N/M+K) for N samples in chunks of M samples, and K samples in the span and its buckets";

pub(super) static RANGE: Command<Handler> = command("ts.range", -4, range as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(READ_ONLY)
    .follows_links_if(has_latest)
    .syntax(RANGE_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        RANGE_COST,
        "Returns the samples of a time series in a span of time.",
    );

fn range(ctx: &mut Context<'_>) -> Outcome {
    range_of_one(ctx, false)
}

pub(super) static REVRANGE: Command<Handler> = command("ts.revrange", -4, revrange as Handler)
    .flags(Flags::READONLY)
    .keys(READS)
    .acl(READ_ONLY)
    .follows_links_if(has_latest)
    .syntax(RANGE_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "1.4.0",
        RANGE_COST,
        "Returns the samples of a time series in a span of time, the latest first.",
    );

fn revrange(ctx: &mut Context<'_>) -> Outcome {
    range_of_one(ctx, true)
}

fn range_of_one(ctx: &mut Context<'_>, is_reverse: bool) -> Outcome {
    let key = ctx.key(1);
    let options = options::range(ctx.args, 2, is_reverse);
    read(ctx.keys, &key)?;
    let (options, is_latest) = (options?, Options::new(ctx.args, 4).has_latest());
    let latest = latest(ctx, &key, is_latest)?;
    let Some(series) = peek(ctx.keys, &key) else { return Err(NO_KEY) };
    let width = options.width();
    let rows = run(options, series, latest)?;
    reply::rows(ctx.reply, &rows, width);
    Ok(())
}

const NUMBERED: &[KeyPart] = &[KeyPart {
    find: Find::Count { count: 0, first: 1, step: 1 },
    ..KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))
}];
const NRANGE_SYNTAX: &str = "numkeys:i *key:k0 fromTimestamp toTimestamp ?LATEST ?*ts:i=FILTER_BY_TS ?filter-by-value=FILTER_BY_VALUE(min:d max:d) \
     ?count:i=COUNT ?aggregation(?align=ALIGN aggregator=AGGREGATION bucketDuration:i ?bucketTimestamp=BUCKETTIMESTAMP ?EMPTY)";
const NRANGE_COST: &str = "O(S*(N/M+K)) for S series of N samples in chunks of M, and K samples in the span";

pub(super) static NRANGE: Command<Handler> = command("ts.nrange", -5, nrange as Handler)
    .flags(Flags::READONLY.with(Flags::MOVABLE_KEYS))
    .keys(NUMBERED)
    .acl(READ_ONLY)
    .follows_links_if(has_latest)
    .syntax(NRANGE_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "8.10.0",
        NRANGE_COST,
        "Returns the samples of several time series, a row for each timestamp.",
    );

fn nrange(ctx: &mut Context<'_>) -> Outcome {
    range_of_several(ctx, false)
}

pub(super) static NREVRANGE: Command<Handler> = command("ts.nrevrange", -5, nrevrange as Handler)
    .flags(Flags::READONLY.with(Flags::MOVABLE_KEYS))
    .keys(NUMBERED)
    .acl(READ_ONLY)
    .follows_links_if(has_latest)
    .syntax(NRANGE_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "8.10.0",
        NRANGE_COST,
        "Returns the samples of several time series, a row for each timestamp, the latest first.",
    );

fn nrevrange(ctx: &mut Context<'_>) -> Outcome {
    range_of_several(ctx, true)
}

/// Samples that a step of a query reads.
pub(super) const STEP_SAMPLES: usize = 1 << 16;
/// Most rows of an answer: EMPTY makes as many as a span has buckets.
const ROWS_MAX: usize = 1 << 24;

/// Runs the steps of a query until it is done.
///
/// # Errors
/// That there would be too many rows.
pub(super) fn run_steps(mut step: impl FnMut(&mut Rows) -> bool) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    while !step(&mut rows) {
        if rows.len() > ROWS_MAX {
            return Err(Error::Fixed("ERR TSDB: the range has too many buckets, use COUNT or longer ones"));
        }
    }
    Ok(rows)
}

/// The rows of one series.
///
/// # Errors
/// As [`run_steps`].
pub(super) fn run(options: RangeOptions, series: &Series, latest: Option<Sample>) -> Result<Rows, Error> {
    let mut query = RangeQuery::new(options, latest);
    run_steps(|rows| query.step(series, STEP_SAMPLES, rows))
}

fn range_of_several(ctx: &mut Context<'_>, is_reverse: bool) -> Outcome {
    let count = parse_i64(ctx.arg(1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or(Error::Fixed("ERR TSDB: numkeys must be a positive integer"))?;
    if count > ctx.argc() - 4 {
        return Err(arity(ctx));
    }
    let ranges = options::ranges(ctx.args, 2 + count, count, is_reverse)?;
    let keys: Vec<Key<'_>> = (2..2 + count).map(|place| ctx.key(place)).collect();
    for key in &keys {
        read(ctx.keys, key)?;
    }
    let is_latest = Options::new(ctx.args, 4 + count).has_latest();
    if is_latest {
        links::lock(ctx.keys, &keys)?;
    }
    let latest = |key: &Key<'_>| if is_latest { links::latest(ctx.keys, key) } else { None };
    let queries: Vec<(RangeOptions, Option<Sample>)> =
        ranges.into_iter().zip(&keys).map(|(range, key)| (range, latest(key))).collect();
    let series: Option<Vec<&Series>> =
        keys.iter().map(|key| peek(ctx.keys, key).map(|found| &found.0)).collect();
    let series = series.ok_or(NO_KEY)?;
    let mut pivot = Pivot::new(queries);
    let width = pivot.width();
    let rows = run_steps(|rows| pivot.step(&series, STEP_SAMPLES, rows))?;
    ctx.reply.array(rows.len());
    for (timestamp, values) in rows.timestamps.iter().zip(rows.values.chunks_exact(width.max(1))) {
        ctx.reply.array(2);
        ctx.reply.int(*timestamp as i64);
        ctx.reply.array(width);
        values.iter().for_each(|number| reply::value(ctx.reply, *number));
    }
    Ok(())
}

pub(super) static READ: Command<Handler> = command("ts.read", -3, read_from as Handler)
    .flags(Flags::READONLY.with(Flags::BLOCKING))
    .keys(READS)
    .acl(READ_ONLY)
    .syntax("key:k0 timestamp ?block=BLOCK(milliseconds:i min_count:i) ?max_count:i=MAX_COUNT")
    .doc(
        Group::Module(&TIME_SERIES),
        "8.10.0",
        "O(log(N)+K) for N samples of the series and K that are returned",
        "Returns the samples from a timestamp on, and can wait for them.",
    );

/// The arguments of TS.READ.
struct Reading {
    wait: Option<BlockOption>,
    most: Option<u64>,
}

/// BLOCK.
struct BlockOption {
    /// The place of the milliseconds.
    place: usize,
    /// Unix milliseconds; `None` for never.
    deadline_ms: Option<i64>,
    /// How many samples the client waits for.
    least: u64,
    /// The client has waited: the request runs again.
    is_again: bool,
}

/// In front of the deadline that takes the place of BLOCK's milliseconds while a client waits.
const DEADLINE: u8 = 0;

fn reading(ctx: &Context<'_>) -> Result<Reading, Error> {
    let options = Options::new(ctx.args, 3);
    let (block, most) = (options.find("BLOCK"), options.find("MAX_COUNT"));
    let expected = 3 + if block.is_some() { 3 } else { 0 } + if most.is_some() { 2 } else { 0 };
    if ctx.argc() != expected {
        return Err(arity(ctx));
    }
    let wait = block.map(|at| block_option(ctx, at + 1)).transpose()?;
    let most = match most {
        Some(at) => {
            let count = parse_i64(ctx.arg(at + 1)).and_then(|count| u64::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            Some(count.ok_or(Error::Fixed("TSDB: MAX_COUNT must be a positive integer"))?)
        }
        None => None,
    };
    if wait.as_ref().is_some_and(|wait| most.is_some_and(|most| wait.least > most)) {
        return Err(Error::Fixed("TSDB: BLOCK min_count must be <= MAX_COUNT"));
    }
    Ok(Reading { wait, most })
}

fn block_option(ctx: &Context<'_>, place: usize) -> Result<BlockOption, Error> {
    const MS: Error = Error::Fixed("TSDB: BLOCK milliseconds must be a non-negative integer");
    let (is_again, text) = match ctx.arg(place) {
        [DEADLINE, text @ ..] => (true, text),
        text => (false, text),
    };
    let ms = parse_i64(text).filter(|ms| *ms >= 0).ok_or(MS)?;
    let least = parse_i64(ctx.arg(place + 1)).ok_or(MS)?;
    let least = u64::try_from(least).ok().filter(|least| *least > 0);
    let least = least.ok_or(Error::Fixed("TSDB: BLOCK min_count must be a positive integer"))?;
    let deadline_ms = match ms {
        0 => None,
        ms if is_again => Some(ms),
        ms => Some(ctx.keys.now_ms().saturating_add(ms)),
    };
    Ok(BlockOption { place, deadline_ms, least, is_again })
}

fn read_from(ctx: &mut Context<'_>) -> Outcome {
    let Reading { wait, most } = reading(ctx)?;
    let key = ctx.key(1);
    let found = ctx.keys.read::<TimeSeries>(&key)?;
    let is_there = found.is_some();
    let last = found.filter(|series| series.store().total() > 0).map(|series| series.last_timestamp());
    let from = match (ctx.arg(2), last) {
        (b"-", _) | (b"+" | b"$", None) => 0,
        (b"+", Some(last)) => last,
        (b"$", Some(last)) => last.saturating_add(1),
        (text, _) => options::time(text).ok_or(Error::Fixed("TSDB: invalid timestamp"))?,
    };
    let samples = |count: Option<u64>| {
        let mut range = RangeOptions::new(from, TIMESTAMP_MAX);
        range.count = count;
        peek(ctx.keys, &key).map_or(Rows::default(), |series| RangeQuery::run(range, series, None))
    };
    if let Some(wait) = wait
        && (samples(Some(wait.least)).len() as u64) < wait.least
    {
        // Woken by the key's removal, or by its time, the client gets what there is.
        let is_over = wait.is_again
            && (!is_there || wait.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= ctx.keys.now_ms()));
        if !is_over {
            return wait_for_samples(ctx, &wait, from);
        }
    }
    let rows = samples(most);
    reply::rows(ctx.reply, &rows, 1);
    Ok(())
}

/// Blocks the client until more samples from `from` on are there. At the deadline the request runs again, and
/// answers with what there is.
fn wait_for_samples(ctx: &mut Context<'_>, wait: &BlockOption, from: u64) -> Outcome {
    if ctx.deny_blocking {
        return Err(Error::Fixed(
            "TSDB: blocking TS.READ (with BLOCK) is not allowed inside MULTI, EVAL, or a deny-blocking context",
        ));
    }
    let awaited = Awaited { kind: Kind::Module, until_removed: true };
    let mut block = Block::new(Wait::Keys(vec![1], awaited), None, TimeoutReply::EmptyArray);
    block.again_ms = wait.deadline_ms;
    let deadline = [&[DEADLINE][..], wait.deadline_ms.unwrap_or(0).to_string().as_bytes()].concat();
    block.resolved = vec![(2, from.to_string().into_bytes()), (wait.place, deadline)];
    ctx.block_on(block)
}
