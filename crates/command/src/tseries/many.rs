//! The series that a filter admits: TS.MGET, TS.MRANGE, TS.MREVRANGE, TS.QUERYINDEX, TS.QUERYLABELS.
//!
//! The series are looked at in one moment, with every shard locked for as long as it takes to share them (a
//! clone is a count), or shard by shard if they are many; samples are decoded with nothing locked, so that no
//! writer waits for the answer.

use std::collections::{BTreeMap, BTreeSet};

use martlet_base::limits::SHARD_COUNT;
use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_spec::module::TIME_SERIES;
use martlet_spec::{Command, Error, Flags, Group, Outcome, Tip, command};
use martlet_tseries::aggregate::Aggregator;
use martlet_tseries::filter::Filter;
use martlet_tseries::query::merge::Reduce;
use martlet_tseries::query::{RangeOptions, Rows};
use martlet_tseries::sample::Sample;
use martlet_tseries::series::Series;
use martlet_values::time_series::{SeriesIndex, TimeSeries};

use super::options::{self, Grouping, Options};
use super::range::{STEP_SAMPLES, run, run_steps};
use super::reply::Shown;
use super::{READ_ONLY, arity, reply};
use crate::Handler;
use crate::context::Context;

const WALKS: Flags = Flags::READONLY.with(Flags::WALK);
const NO_PERMISSION: Error = Error::Fixed(
    "NOPERM TSDB: current user doesn't have read permission to one or more keys that match the specified filter",
);

/// A series that a filter admits, as it was when its shard was looked at.
struct Found {
    key: Vec<u8>,
    series: TimeSeries,
    latest: Option<Sample>,
}

/// Most series that are looked at with every shard locked.
const AT_ONCE: usize = 4096;

/// The results of `make` for each series of the database that a filter admits, or for all that have labels.
/// They are looked at in one moment; more than [`AT_ONCE`] of them shard by shard.
fn each_match<T>(
    keys: &mut Keys,
    filter: Option<&Filter>,
    make: impl Fn(&Keys, &[u8], &TimeSeries) -> T,
) -> Vec<T> {
    let at_once = keys.at_one_moment(|keys| {
        let mut made = Vec::new();
        let is_whole =
            (0..SHARD_COUNT).all(|shard| match_shard(keys, shard, filter, AT_ONCE, &make, &mut made));
        is_whole.then_some(made)
    });
    let Some(at_once) = at_once else { return Vec::new() };
    at_once.unwrap_or_else(|| {
        let mut made = Vec::new();
        for shard in 0..SHARD_COUNT {
            keys.visit_shard(shard, |keys| match_shard(keys, shard, filter, usize::MAX, &make, &mut made));
        }
        made
    })
}

/// Appends what `make` makes of the series of one shard; false, and not all of them, if there are more than
/// `most` then.
fn match_shard<T>(
    keys: &Keys,
    shard: usize,
    filter: Option<&Filter>,
    most: usize,
    make: impl Fn(&Keys, &[u8], &TimeSeries) -> T,
    made: &mut Vec<T>,
) -> bool {
    let db = keys.shard(shard).keys.db(keys.db());
    let Some(index) = db.index::<SeriesIndex>() else { return true };
    let found: Vec<(u64, u64)> = match filter {
        Some(filter) => index.matching(filter).collect(),
        None => index.all().collect(),
    };
    if made.len() + found.len() > most {
        return false;
    }
    let (due_ms, hidden) = (keys.due_ms(), &keys.engine().hidden);
    for entry in found.into_iter().filter_map(|(key_hash, id)| db.indexed(key_hash, id)) {
        let is_shown = entry.expiry_ms().is_none_or(|at_ms| at_ms > due_ms) && !hidden.has_key(entry.key());
        if let Some(series) = entry.object::<TimeSeries>().filter(|_| is_shown) {
            made.push(make(keys, entry.key(), series));
        }
    }
    true
}

/// The series that a filter admits, by their keys.
fn gather(ctx: &mut Context<'_>, filter: &Filter, is_latest: bool) -> Result<Vec<Found>, Error> {
    let mut found = each_match(ctx.keys, Some(filter), |keys, key, series| {
        let source = series.source().filter(|_| is_latest).map(Key::new);
        let source = source.filter(|source| keys.covers(source.shard()));
        let latest = source.and_then(|source| super::peek(keys, &source)?.latest(key));
        Found { key: key.to_vec(), series: series.clone(), latest }
    });
    if !ctx.may_read(found.iter().map(|found| &*found.key)) {
        return Err(NO_PERMISSION);
    }
    found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    // Where they were looked at shard by shard, sources were elsewhere.
    for found in found.iter_mut().filter(|found| is_latest && found.latest.is_none()) {
        let Some(source) = found.series.source().map(Key::new) else { continue };
        let latest = ctx.keys.visit_shard(source.shard(), |keys| {
            super::peek(keys, &source).and_then(|series| series.latest(&found.key))
        });
        found.latest = latest.flatten();
    }
    Ok(found)
}

pub(super) static MGET: Command<Handler> = command("ts.mget", -3, mget as Handler)
    .flags(WALKS)
    .acl(READ_ONLY)
    .syntax("?LATEST ?labels(WITHLABELS|*label=SELECTED_LABELS) *filterExpr=FILTER")
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(N) for N series that the filter admits",
        "Returns the latest sample of each time series that a filter admits.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn mget(ctx: &mut Context<'_>) -> Outcome {
    let options = Options::new(ctx.args, 1);
    let at = options.find("FILTER").ok_or_else(|| arity(ctx))?;
    let shown = options::shown(options)?;
    let filter = options::filter(ctx.args, at + 1, ctx.argc())?;
    let found = gather(ctx, &filter, options.has_latest())?;
    reply::map(ctx.reply, found.len());
    for Found { key, series, latest } in &found {
        begin(ctx.reply, key, 2);
        reply::labels(ctx.reply, &reply::pairs(&series.settings().labels), &shown);
        reply::sample(ctx.reply, latest.or(series.last()));
    }
    Ok(())
}

/// Begins a series' answer, of this many parts behind the key.
fn begin(reply: &mut Reply, key: &[u8], parts: usize) {
    if reply.is_resp3() {
        reply.bulk(key);
        reply.array(parts);
    } else {
        reply.array(3);
        reply.bulk(key);
    }
}

const MRANGE_SYNTAX: &str = "fromTimestamp toTimestamp ?LATEST ?*ts:i=FILTER_BY_TS ?filter-by-value=FILTER_BY_VALUE(min:d max:d) \
     ?labels(WITHLABELS|*label=SELECTED_LABELS) ?count:i=COUNT ?aggregation(?align=ALIGN aggregator=AGGREGATION bucketDuration:i ?bucketTimestamp=BUCKETTIMESTAMP ?EMPTY) ?EXCLUDEEMPTY \
     *filterExpr=FILTER ?groupby=GROUPBY(label reducer=REDUCE)";
const MRANGE_COST: &str =
    "O(N/M+K) for N samples in chunks of M samples, and K samples in the span and its buckets";

pub(super) static MRANGE: Command<Handler> = command("ts.mrange", -4, mrange as Handler)
    .flags(WALKS)
    .acl(READ_ONLY)
    .syntax(MRANGE_SYNTAX)
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        MRANGE_COST,
        "Returns the samples in a span of time of each time series that a filter admits, or of groups of them.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn mrange(ctx: &mut Context<'_>) -> Outcome {
    range_of_many(ctx, false)
}

pub(super) static MREVRANGE: Command<Handler> = command("ts.mrevrange", -4, mrevrange as Handler)
    .flags(WALKS)
    .acl(READ_ONLY)
    .syntax(MRANGE_SYNTAX)
    .doc(Group::Module(&TIME_SERIES), "1.4.0", MRANGE_COST, "As TS.MRANGE, the latest samples first.")
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn mrevrange(ctx: &mut Context<'_>) -> Outcome {
    range_of_many(ctx, true)
}

fn range_of_many(ctx: &mut Context<'_>, is_reverse: bool) -> Outcome {
    let range = options::range(ctx.args, 1, is_reverse)?;
    let selection =
        options::selection(ctx.args, range.aggregation.as_ref().map_or(0, |asked| asked.aggregators.len()))?;
    let is_latest = Options::new(ctx.args, 3).has_latest();
    let found = gather(ctx, &selection.filter, is_latest)?;
    match &selection.grouping {
        Some(grouping) => write_groups(ctx.reply, found, &range, grouping, &selection.shown),
        None => write_each(ctx.reply, found, &range, &selection.shown, selection.is_dense),
    }
}

fn write_each(
    reply: &mut Reply,
    found: Vec<Found>,
    range: &RangeOptions,
    shown: &Shown<'_>,
    is_dense: bool,
) -> Outcome {
    let width = range.width();
    let mut count = 0;
    let header = reply.defer();
    for Found { key, series, latest } in found {
        let rows = run(range.clone(), &series, latest)?;
        if is_dense && rows.is_empty() {
            continue;
        }
        count += 1;
        begin(reply, &key, 3);
        reply::labels(reply, &reply::pairs(&series.settings().labels), shown);
        if reply.is_resp3() {
            reply.map(1);
            reply.bulk(b"aggregators");
            let aggregators = range.aggregation.as_ref().map_or(&[][..], |asked| &asked.aggregators);
            reply.array(aggregators.len());
            aggregators.iter().for_each(|aggregator| reply.bulk(aggregator.name().as_bytes()));
        }
        reply::rows(reply, &rows, width);
    }
    if reply.is_resp3() {
        reply.close_map(header, count)
    } else {
        reply.close_array(header, count)
    }
    Ok(())
}

fn write_groups(
    reply: &mut Reply,
    found: Vec<Found>,
    range: &RangeOptions,
    grouping: &Grouping<'_>,
    shown: &Shown<'_>,
) -> Outcome {
    let mut groups: BTreeMap<Vec<u8>, Vec<Found>> = BTreeMap::new();
    for found in found {
        let labels = &found.series.settings().labels;
        let value =
            labels.iter().find(|(name, _)| **name == *grouping.label).map(|(_, value)| value.to_vec());
        if let Some(value) = value {
            groups.entry(value).or_default().push(found);
        }
    }
    reply::map(reply, groups.len());
    for (value, members) in groups {
        let rows = reduce(&members, range, grouping.reducer)?;
        let name = [grouping.label, b"=", &value].concat();
        let sources: Vec<&[u8]> = members.iter().map(|found| &*found.key).collect();
        begin(reply, &name, 4);
        let joined = sources.join(&b","[..]);
        let reducer = grouping.reducer.name().as_bytes();
        let mut labels: Vec<(&[u8], &[u8])> = vec![(grouping.label, &value)];
        if !reply.is_resp3() || matches!(shown, Shown::Selected(_)) {
            labels.extend([(&b"__reducer__"[..], reducer), (&b"__source__"[..], &joined)]);
        }
        reply::labels(reply, &labels, shown);
        if reply.is_resp3() {
            reply.map(1);
            reply.bulk(b"reducers");
            reply.array(1);
            reply.bulk(reducer);
            reply.map(1);
            reply.bulk(b"sources");
            reply.array(sources.len());
            sources.iter().for_each(|source| reply.bulk(source));
        }
        reply::rows(reply, &rows, 1);
    }
    Ok(())
}

/// The rows of one group.
fn reduce(members: &[Found], range: &RangeOptions, reducer: Aggregator) -> Result<Rows, Error> {
    let series: Vec<&Series> = members.iter().map(|found| &found.series.0).collect();
    let latest = members.iter().map(|found| found.latest).collect();
    let mut reduce = Reduce::new(range, latest, reducer);
    let mut rows = run_steps(|rows| reduce.step(&series, STEP_SAMPLES, rows))?;
    if range.is_reverse {
        rows.timestamps.reverse();
        rows.values.reverse();
        let count = range.count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        rows.timestamps.truncate(count);
        rows.values.truncate(count);
    }
    Ok(rows)
}

pub(super) static QUERYINDEX: Command<Handler> = command("ts.queryindex", -2, queryindex as Handler)
    .flags(WALKS)
    .acl(READ_ONLY)
    .syntax("*filterExpr")
    .doc(
        Group::Module(&TIME_SERIES),
        "1.0.0",
        "O(N) for N series that the filter admits",
        "Returns the keys of the time series that a filter admits.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn queryindex(ctx: &mut Context<'_>) -> Outcome {
    let filter = options::filter(ctx.args, 1, ctx.argc())?;
    let names = each_match(ctx.keys, Some(&filter), |_, key, _| key.to_vec());
    write_set(ctx.reply, &names.into_iter().collect());
    Ok(())
}

fn write_set(reply: &mut Reply, texts: &BTreeSet<Vec<u8>>) {
    reply.set(texts.len());
    texts.iter().for_each(|text| reply.bulk(text));
}

pub(super) static QUERYLABELS: Command<Handler> = command("ts.querylabels", -2, querylabels as Handler)
    .flags(WALKS)
    .acl(READ_ONLY)
    .syntax("subtype(LABELS|label=VALUES) ?*filterExpr=FILTER")
    .doc(
        Group::Module(&TIME_SERIES),
        "8.10.0",
        "O(N) for N series that the filter admits",
        "Returns the names of labels, or the values of one, that time series have.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS]);

fn querylabels(ctx: &mut Context<'_>) -> Outcome {
    let is = |word: &str| ctx.arg(1).eq_ignore_ascii_case(word.as_bytes());
    let label = match () {
        () if is("LABELS") => None,
        () if is("VALUES") && ctx.argc() < 3 => return Err(arity(ctx)),
        () if is("VALUES") => Some(ctx.arg(2)),
        () => return Err(Error::Fixed("ERR TSDB: unknown subtype, must be one of LABELS|VALUES")),
    };
    let at = if label.is_some() { 3 } else { 2 };
    let filter = match ctx.argc() - at {
        0 => None,
        _ if !ctx.arg(at).eq_ignore_ascii_case(b"FILTER") => {
            return Err(Error::Fixed("ERR TSDB: unknown argument, expected FILTER"));
        }
        1 => return Err(Error::Fixed("ERR TSDB: FILTER given with no filter expressions")),
        _ => Some(options::filter(ctx.args, at + 1, ctx.argc())?),
    };
    let found = each_match(ctx.keys, filter.as_ref(), |_, key, series| {
        (key.to_vec(), series.settings().labels.clone())
    });
    let mut texts = BTreeSet::new();
    for (_, labels) in found.iter().filter(|(key, _)| ctx.may_read([&**key].into_iter())) {
        for (name, value) in labels.iter() {
            match label {
                None => texts.insert(name.to_vec()),
                Some(wanted) => **name == *wanted && texts.insert(value.to_vec()),
            };
        }
    }
    write_set(ctx.reply, &texts);
    Ok(())
}
