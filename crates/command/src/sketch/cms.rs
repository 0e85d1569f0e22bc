//! CMS.*: Count-Min sketches.
//!
//! A sketch is created before anything is counted in it.

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_sketch::CountMin;
use martlet_sketch::cms::CmsError;
use martlet_spec::{Acl, Command, Error, Flags, KeyPart, Outcome, command};
use martlet_values::Sketch;

use super::{
    ANSWERS_AND_UPDATES, CREATES, FILLS, GROUP, READS, READS_FAST, RO, SOURCES, UPDATES, WRITES, WRITES_FAST,
    changed, facts, find_word, int, items, merged_keys, refuse_present, refused, store,
};
use crate::Handler;
use crate::context::Context;

type Counts = Sketch<CountMin>;

const ABSENT: Error = Error::Fixed("CMS: key does not exist");
const PRESENT: Error = Error::Fixed("CMS: key already exists");

pub(super) static INITBYDIM: Command<Handler> = command("cms.initbydim", 4, initbydim as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES)])
    .acl(WRITES_FAST.with(Acl::CMS))
    .syntax("key:k0 width:i depth:i")
    .doc(GROUP, "2.0.0", "O(1)", "Creates an empty Count-Min sketch of this width and depth.");

fn initbydim(ctx: &mut Context<'_>) -> Outcome {
    create(ctx, |args| {
        // A text that is no number has the words of one that is too low.
        let number = |index| int(args, index, "").unwrap_or(0);
        CountMin::by_dimensions(number(2), number(3))
    })
}

pub(super) static INITBYPROB: Command<Handler> = command("cms.initbyprob", 4, initbyprob as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES)])
    .acl(WRITES_FAST.with(Acl::CMS))
    .syntax("key:k0 error:d probability:d")
    .doc(
        GROUP,
        "2.0.0",
        "O(1)",
        "Creates an empty Count-Min sketch whose counts are too high by at most a share of all that was \
         counted, except with this probability.",
    );

fn initbyprob(ctx: &mut Context<'_>) -> Outcome {
    create(ctx, |args| {
        let number = |index| super::float(args, index, "").unwrap_or(0.0);
        CountMin::by_probability(number(2), number(3))
    })
}

fn create(ctx: &mut Context<'_>, make: impl FnOnce(&Args<'_>) -> Result<CountMin, CmsError>) -> Outcome {
    let key = ctx.key(1);
    refuse_present::<Counts>(ctx.keys, &key, PRESENT, PRESENT)?;
    let counts = make(&ctx.args).map_err(refused)?;
    store(ctx.keys, &key, Sketch(counts));
    ctx.reply.ok();
    Ok(())
}

pub(super) static INCRBY: Command<Handler> = command("cms.incrby", -4, incrby as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::CMS))
    .syntax("key:k0 *data(item increment:i)")
    .doc(
        GROUP,
        "2.0.0",
        "O(N), N being the number of items",
        "Counts items in a Count-Min sketch, each as often as its increment says.",
    );

fn incrby(ctx: &mut Context<'_>) -> Outcome {
    if !ctx.argc().is_multiple_of(2) {
        return Err(Error::Arity("cms.incrby"));
    }
    let (key, args) = (ctx.key(1), ctx.args);
    let mut counts = ctx.keys.write::<Counts>(&key)?.ok_or(ABSENT)?;
    if args.len() == 4 {
        let result = counts.incr_by(args.at(2), increment(&args, 3)?);
        drop(counts);
        ctx.reply.array(1);
        answer(ctx.reply, result);
    } else {
        let pairs = (2..args.len()).step_by(2).map(|at| Ok((args.at(at), increment(&args, at + 1)?)));
        let pairs: Vec<(&[u8], u64)> = pairs.collect::<Result<_, Error>>()?;
        let results = counts.incr_all(&pairs);
        drop(counts);
        ctx.reply.array(results.len());
        results.into_iter().for_each(|result| answer(ctx.reply, result));
    }
    // An increment that overflows is counted all the same.
    changed(ctx.keys, &key);
    Ok(())
}

fn answer(reply: &mut Reply, result: Result<u32, CmsError>) {
    match result {
        Ok(count) => reply.int(i64::from(count)),
        Err(error) => reply.error(error.to_string()),
    }
}

fn increment(args: &Args<'_>, index: usize) -> Result<u64, Error> {
    let by = int(args, index, "CMS: Cannot parse number")?;
    u64::try_from(by).map_err(|_| Error::Fixed("CMS: Number cannot be negative"))
}

pub(super) static QUERY: Command<Handler> = command("cms.query", -3, query as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::CMS))
    .syntax("key:k0 *item")
    .doc(
        GROUP,
        "2.0.0",
        "O(N), N being the number of items",
        "Returns the counts of items in a Count-Min sketch.",
    );

fn query(ctx: &mut Context<'_>) -> Outcome {
    let (key, items) = (ctx.key(1), items(&ctx.args, 2));
    let counts = ctx.keys.read::<Counts>(&key)?.ok_or(ABSENT)?.query_all(&items);
    ctx.reply.array(counts.len());
    counts.into_iter().for_each(|count| ctx.reply.int(i64::from(count)));
    Ok(())
}

pub(super) static MERGE: Command<Handler> = command("cms.merge", -4, merge as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, UPDATES), SOURCES])
    .find_keys(merged_keys)
    .acl(WRITES.with(Acl::CMS))
    .syntax("destination:k0 numkeys:i *source:k1 ?weights(WEIGHTS *weight:i)")
    .doc(
        GROUP,
        "2.0.0",
        "O(N * K), N being the number of counters and K that of sources",
        "Replaces the counts of a Count-Min sketch by the sums of others', each times its weight.",
    );

fn merge(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let Some(destination) = ctx.keys.read::<Counts>(&key)? else { return Err(ABSENT) };
    let dimensions = (destination.width(), destination.depth());
    let sources = Sources::parse(&ctx.args)?;
    let mut counts: Vec<(CountMin, i64)> = Vec::with_capacity(sources.count);
    for at in 0..sources.count {
        let weight = sources.weight(&ctx.args, at)?;
        let source = ctx.key(3 + at);
        // A clone shares the counters.
        let source = ctx.keys.read::<Counts>(&source)?.ok_or(ABSENT)?.0.clone();
        if (source.width(), source.depth()) != dimensions {
            return Err(refused(CmsError::Unequal));
        }
        counts.push((source, weight));
    }
    let mut destination = ctx.keys.write::<Counts>(&key)?.ok_or(ABSENT)?;
    destination.merge(&counts).map_err(refused)?;
    drop(destination);
    changed(ctx.keys, &key);
    ctx.reply.ok();
    Ok(())
}

/// The sources of CMS.MERGE.
struct Sources {
    count: usize,
    has_weights: bool,
}

impl Sources {
    fn parse(args: &Args<'_>) -> Result<Sources, Error> {
        let count = int(args, 2, "CMS: invalid numkeys")?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0);
        let count = count.ok_or(Error::Fixed("CMS: Number of keys must be positive"))?;
        let behind = args.len() - 3;
        match find_word(args, 3, "WEIGHTS") {
            None if count == behind => Ok(Sources { count, has_weights: false }),
            None => Err(Error::Fixed("CMS: wrong number of keys")),
            Some(at) if at - 3 == count && behind == 1 + 2 * count => {
                Ok(Sources { count, has_weights: true })
            }
            Some(_) => Err(Error::Fixed("CMS: wrong number of keys/weights")),
        }
    }

    fn weight(&self, args: &Args<'_>, at: usize) -> Result<i64, Error> {
        if self.has_weights { int(args, 4 + self.count + at, "CMS: invalid weight value") } else { Ok(1) }
    }
}

pub(super) static INFO: Command<Handler> = command("cms.info", 2, info as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::CMS))
    .syntax("key:k0")
    .doc(GROUP, "2.0.0", "O(1)", "Returns facts about a Count-Min sketch.");

fn info(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let counts = ctx.keys.read::<Counts>(&key)?.ok_or(ABSENT)?;
    let (width, depth, count) = (counts.width() as i64, counts.depth() as i64, counts.count() as i64);
    facts(ctx.reply, &[("width", width), ("depth", depth), ("count", count)]);
    Ok(())
}
