//! TDIGEST.*: quantiles and ranks.
//!
//! A query merges the values that were added since the last merge, and the key keeps that, as in Redis: the
//! next query is cheap, and later answers are Redis' to the digit. It is no change of the data: nothing is
//! recorded, and a replica merges when it is asked.

use martlet_base::number::parse_f64;
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_sketch::TDigest;
use martlet_sketch::tdigest::TDigestError;
use martlet_spec::{Acl, Command, Error, Flags, KeyPart, Outcome, command};
use martlet_values::Sketch;

use super::{
    CREATES, FILLS, GROUP, READS, READS_FAST, RO, SOURCES, UPDATES, WRITES, WRITES_FAST, changed, facts,
    find_word, float, int, merged_keys, store,
};
use super::{refuse_present, refused};
use crate::Handler;
use crate::context::Context;

type Values = Sketch<TDigest>;

const ABSENT: Error = Error::Fixed("ERR T-Digest: key does not exist");
const PRESENT: Error = Error::Fixed("ERR T-Digest: key already exists");
const WRONG_KEYWORD: Error = Error::Fixed("ERR T-Digest: wrong keyword");
const NO_COMPRESSION: &str = "ERR T-Digest: error parsing compression parameter";

/// Asks a digest, and keeps what it has merged to answer.
fn ask<R>(
    ctx: &mut Context<'_>,
    key: &Key<'_>,
    query: impl FnOnce(&mut TDigest) -> Result<R, TDigestError>,
) -> Result<R, Error> {
    // A clone shares the centroids unless it merges them.
    let mut digest = ctx.keys.read::<Values>(key)?.ok_or(ABSENT)?.0.clone();
    let merged = digest.total_compressions();
    let answer = query(&mut digest).map_err(refused)?;
    if digest.total_compressions() != merged
        && let Some(mut values) = ctx.keys.write::<Values>(key)?
    {
        **values = digest;
    }
    Ok(answer)
}

/// Refuses a key without a digest before the other arguments are read.
fn check_key(ctx: &mut Context<'_>, key: &Key<'_>) -> Outcome {
    match ctx.keys.get(key) {
        None => Err(ABSENT),
        Some(entry) if entry.object::<Values>().is_none() => Err(Error::WrongType),
        Some(_) => Ok(()),
    }
}

/// The arguments from 2 on as numbers.
fn numbers(args: &Args<'_>, error: &'static str) -> Result<Vec<f64>, Error> {
    (2..args.len()).map(|index| float(args, index, error)).collect()
}

pub(super) static CREATE: Command<Handler> = command("tdigest.create", -2, create as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES)])
    .acl(WRITES_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 ?compression:i=COMPRESSION")
    .doc(GROUP, "2.4.0", "O(1)", "Creates an empty t-digest.");

fn create(ctx: &mut Context<'_>) -> Outcome {
    if !matches!(ctx.argc(), 2 | 4) {
        return Err(Error::Arity("tdigest.create"));
    }
    let key = ctx.key(1);
    refuse_present::<Values>(ctx.keys, &key, PRESENT, Error::WrongType)?;
    let mut compression = TDigest::COMPRESSION;
    if ctx.argc() == 4 {
        find_word(&ctx.args, 2, "COMPRESSION").ok_or(WRONG_KEYWORD)?;
        compression = int(&ctx.args, 3, NO_COMPRESSION)?;
    }
    let digest = TDigest::new(compression).map_err(refused)?;
    store(ctx.keys, &key, Sketch(digest));
    ctx.reply.ok();
    Ok(())
}

pub(super) static RESET: Command<Handler> = command("tdigest.reset", 2, reset as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, UPDATES)])
    .acl(WRITES_FAST.with(Acl::TDIGEST))
    .syntax("key:k0")
    .doc(GROUP, "2.4.0", "O(1)", "Removes all values from a t-digest.");

fn reset(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    ctx.keys.write::<Values>(&key)?.ok_or(ABSENT)?.reset();
    changed(ctx.keys, &key);
    ctx.reply.ok();
    Ok(())
}

pub(super) static ADD: Command<Handler> = command("tdigest.add", -3, add as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, UPDATES)])
    .acl(WRITES.with(Acl::TDIGEST))
    .syntax("key:k0 *value:d")
    .doc(GROUP, "2.4.0", "O(N), N being the number of values", "Adds values to a t-digest.");

fn add(ctx: &mut Context<'_>) -> Outcome {
    let (key, args) = (ctx.key(1), ctx.args);
    let mut values = ctx.keys.write::<Values>(&key)?.ok_or(ABSENT)?;
    let added = if args.len() == 3 {
        values.add_all(&[parse_f64(args.at(2)).unwrap_or(f64::NAN)])
    } else {
        let parsed: Vec<f64> = args.from(2).iter().map(|text| parse_f64(text).unwrap_or(f64::NAN)).collect();
        values.add_all(&parsed)
    };
    drop(values);
    match added {
        Ok(()) => ctx.reply.ok(),
        // The values before the one that is too much stay.
        Err(error @ TDigestError::Overflow) => ctx.reply.error(error.to_string()),
        Err(error) => return Err(refused(error)),
    }
    changed(ctx.keys, &key);
    Ok(())
}

pub(super) static MERGE: Command<Handler> = command("tdigest.merge", -4, merge as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES.with(UPDATES)), SOURCES])
    .find_keys(merged_keys)
    .acl(WRITES.with(Acl::TDIGEST))
    .syntax("destination-key:k0 numkeys:i *source-key:k1 ?compression:i=COMPRESSION ?OVERRIDE")
    .doc(
        GROUP,
        "2.4.0",
        "O(N * K), N being the number of centroids and K that of sources",
        "Adds the values of t-digests to another one, which is created if it is not there.",
    );

fn merge(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let present = ctx.keys.read::<Values>(&key)?.map(|values| values.compression());
    let options = MergeOptions::parse(&ctx.args)?;
    let kept = present.filter(|_| !options.is_override);
    // Each digest once, with the argument that names it, and where those of the sources are: merging a source
    // merges its own centroids first, which its second turn finds done.
    let mut digests: Vec<(usize, TDigest)> = Vec::with_capacity(options.count + 1);
    let mut order = Vec::with_capacity(options.count + 1);
    for argument in kept.map(|_| 1).into_iter().chain(3..3 + options.count) {
        let name = ctx.arg(argument);
        if let Some(known) = digests.iter().position(|(known, _)| ctx.arg(*known) == name) {
            order.push(known);
            continue;
        }
        let key = ctx.key(argument);
        let digest = ctx.keys.read::<Values>(&key)?.ok_or(ABSENT)?.0.clone();
        order.push(digests.len());
        digests.push((argument, digest));
    }
    let sources = order.iter().skip(usize::from(kept.is_some()));
    let highest = sources.filter_map(|at| digests.get(*at)).map(|(_, digest)| digest.compression()).max();
    let compression = options.compression.or(kept).or(highest).unwrap_or(TDigest::COMPRESSION);
    const NO_MEMORY: Error = Error::Fixed("ERR T-Digest: allocation of destination digest failed");
    let mut merged = TDigest::new(compression).map_err(|_| NO_MEMORY)?;
    for (turn, at) in order.into_iter().enumerate() {
        let Some((_, digest)) = digests.get_mut(at) else { continue };
        let absorbed = merged.absorb(digest);
        // Redis passes over an overflow of the destination's own values.
        if turn > 0 || kept.is_none() {
            absorbed.map_err(refused)?;
        }
    }
    for (argument, digest) in digests {
        keep_merged(ctx, argument, digest)?;
    }
    store(ctx.keys, &key, Sketch(merged));
    ctx.reply.ok();
    Ok(())
}

/// Keeps a source as merging has left it.
fn keep_merged(ctx: &mut Context<'_>, argument: usize, digest: TDigest) -> Outcome {
    let key = ctx.key(argument);
    let present = ctx.keys.get(&key).and_then(|entry| entry.object::<Values>());
    let merges = digest.total_compressions();
    if present.is_some_and(|values| values.total_compressions() != merges)
        && let Some(mut values) = ctx.keys.write::<Values>(&key)?
    {
        **values = digest;
    }
    Ok(())
}

/// The arguments of TDIGEST.MERGE behind its destination.
struct MergeOptions {
    count: usize,
    compression: Option<i64>,
    is_override: bool,
}

impl MergeOptions {
    fn parse(args: &Args<'_>) -> Result<MergeOptions, Error> {
        const WRONG_ARITY: Error = Error::Arity("tdigest.merge");
        let count = int(args, 2, "ERR T-Digest: error parsing numkeys")?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0);
        let count = count.ok_or(Error::Fixed("ERR T-Digest: numkeys needs to be a positive integer"))?;
        if count > args.len() - 3 {
            return Err(WRONG_ARITY);
        }
        let behind = 3 + count;
        let place = find_word(args, behind, "COMPRESSION");
        let compression = match place {
            None => None,
            Some(place) if place + 1 >= args.len() => return Err(WRONG_ARITY),
            Some(place) => Some(int(args, place + 1, NO_COMPRESSION)?),
        };
        if compression.is_some_and(|compression| compression <= 0) {
            return Err(refused(TDigestError::Compression));
        }
        let is_override = find_word(args, behind, "OVERRIDE").is_some();
        // Beside a known word, others are passed over, as in Redis.
        if behind < args.len() && compression.is_none() && !is_override {
            return Err(WRONG_KEYWORD);
        }
        Ok(MergeOptions { count, compression, is_override })
    }
}

pub(super) static MIN: Command<Handler> = command("tdigest.min", 2, min as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0")
    .doc(GROUP, "2.4.0", "O(1)", "Returns the lowest value of a t-digest.");

fn min(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let min = ctx.keys.read::<Values>(&key)?.ok_or(ABSENT)?.min();
    ctx.reply.double(min);
    Ok(())
}

pub(super) static MAX: Command<Handler> = command("tdigest.max", 2, max as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0")
    .doc(GROUP, "2.4.0", "O(1)", "Returns the highest value of a t-digest.");

fn max(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let max = ctx.keys.read::<Values>(&key)?.ok_or(ABSENT)?.max();
    ctx.reply.double(max);
    Ok(())
}

/// Writes a list of numbers.
fn doubles(ctx: &mut Context<'_>, values: &[f64]) {
    ctx.reply.array(values.len());
    values.iter().for_each(|value| ctx.reply.double(*value));
}

pub(super) static QUANTILE: Command<Handler> = command("tdigest.quantile", -3, quantile as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 *quantile:d")
    .doc(
        GROUP,
        "2.4.0",
        "O(N + C), N being the number of quantiles and C that of centroids",
        "Returns the values below which these shares of all values are.",
    );

fn quantile(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    check_key(ctx, &key)?;
    let mut quantiles = Vec::with_capacity(ctx.argc() - 2);
    for index in 2..ctx.argc() {
        let share = float(&ctx.args, index, "ERR T-Digest: error parsing quantile")?;
        if !(0.0..=1.0).contains(&share) {
            return Err(refused(TDigestError::Quantile));
        }
        quantiles.push(share);
    }
    let values = ask(ctx, &key, |digest| digest.quantiles(&quantiles))?;
    doubles(ctx, &values);
    Ok(())
}

pub(super) static CDF: Command<Handler> = command("tdigest.cdf", -3, cdf as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 *value:d")
    .doc(
        GROUP,
        "2.4.0",
        "O(N * C), N being the number of values and C that of centroids",
        "Returns the shares of all values that are below these, and half of those that equal them.",
    );

fn cdf(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    check_key(ctx, &key)?;
    let values = numbers(&ctx.args, "ERR T-Digest: error parsing cdf")?;
    let shares = ask(ctx, &key, |digest| Ok(digest.cdf(&values)))?;
    doubles(ctx, &shares);
    Ok(())
}

pub(super) static TRIMMED_MEAN: Command<Handler> =
    command("tdigest.trimmed_mean", 4, trimmed_mean as Handler)
        .flags(Flags::READONLY)
        .keys(&[KeyPart::one(1, RO)])
        .acl(READS.with(Acl::TDIGEST))
        .syntax("key:k0 low_cut_quantile:d high_cut_quantile:d")
        .doc(
            GROUP,
            "2.4.0",
            "O(C), C being the number of centroids",
            "Returns the mean of the values between two quantiles of a t-digest.",
        );

fn trimmed_mean(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    check_key(ctx, &key)?;
    let low = float(&ctx.args, 2, "ERR T-Digest: error parsing low_cut_percentile")?;
    let high = float(&ctx.args, 3, "ERR T-Digest: error parsing high_cut_percentile")?;
    let mean = ask(ctx, &key, |digest| digest.trimmed_mean(low, high))?;
    ctx.reply.double(mean);
    Ok(())
}

pub(super) static RANK: Command<Handler> = command("tdigest.rank", -3, rank as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 *value:d")
    .doc(
        GROUP,
        "2.4.0",
        "O(N * C), N being the number of values and C that of centroids",
        "Returns how many values of a t-digest are below each of these, and half of those that equal it.",
    );

fn rank(ctx: &mut Context<'_>) -> Outcome {
    ranks(ctx, false)
}

pub(super) static REVRANK: Command<Handler> = command("tdigest.revrank", -3, revrank as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 *value:d")
    .doc(
        GROUP,
        "2.4.0",
        "O(N * C), N being the number of values and C that of centroids",
        "Returns how many values of a t-digest are above each of these, and half of those that equal it.",
    );

fn revrank(ctx: &mut Context<'_>) -> Outcome {
    ranks(ctx, true)
}

fn ranks(ctx: &mut Context<'_>, is_reverse: bool) -> Outcome {
    let key = ctx.key(1);
    check_key(ctx, &key)?;
    let values = numbers(&ctx.args, "ERR T-Digest: error parsing value")?;
    let ranks = ask(ctx, &key, |digest| Ok(digest.ranks(&values, is_reverse)))?;
    ctx.reply.array(ranks.len());
    ranks.iter().for_each(|rank| ctx.reply.int(*rank));
    Ok(())
}

pub(super) static BYRANK: Command<Handler> = command("tdigest.byrank", -3, byrank as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 *rank:i")
    .doc(
        GROUP,
        "2.4.0",
        "O(N * C), N being the number of ranks and C that of centroids",
        "Returns the values of a t-digest at these ranks, from the lowest.",
    );

fn byrank(ctx: &mut Context<'_>) -> Outcome {
    by_ranks(ctx, false)
}

pub(super) static BYREVRANK: Command<Handler> = command("tdigest.byrevrank", -3, byrevrank as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0 *reverse_rank:i")
    .doc(
        GROUP,
        "2.4.0",
        "O(N * C), N being the number of ranks and C that of centroids",
        "Returns the values of a t-digest at these ranks, from the highest.",
    );

fn byrevrank(ctx: &mut Context<'_>) -> Outcome {
    by_ranks(ctx, true)
}

fn by_ranks(ctx: &mut Context<'_>, is_reverse: bool) -> Outcome {
    let key = ctx.key(1);
    check_key(ctx, &key)?;
    let mut ranks = Vec::with_capacity(ctx.argc() - 2);
    for index in 2..ctx.argc() {
        let rank = int(&ctx.args, index, "ERR T-Digest: error parsing rank")?;
        if rank < 0 {
            return Err(refused(TDigestError::Rank));
        }
        ranks.push(rank);
    }
    let values = ask(ctx, &key, |digest| digest.by_ranks(&ranks, is_reverse))?;
    doubles(ctx, &values);
    Ok(())
}

pub(super) static INFO: Command<Handler> = command("tdigest.info", 2, info as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TDIGEST))
    .syntax("key:k0")
    .doc(GROUP, "2.4.0", "O(1)", "Returns facts about a t-digest.");

fn info(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let info = ctx.keys.read::<Values>(&key)?.ok_or(ABSENT)?.info();
    facts(
        ctx.reply,
        &[
            ("Compression", info.compression),
            ("Capacity", info.capacity),
            ("Merged nodes", info.merged_nodes),
            ("Unmerged nodes", info.unmerged_nodes),
            ("Merged weight", info.merged_weight),
            ("Unmerged weight", info.unmerged_weight),
            ("Observations", info.observations),
            ("Total compressions", info.total_compressions),
            ("Memory usage", info.redis_bytes),
        ],
    );
    Ok(())
}
