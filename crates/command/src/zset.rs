//! Sorted sets: adding, removing, asking for members and counts. Ranges are in `range`, popping in `pop`,
//! random choice in `random`, set algebra in `algebra`.

mod algebra;
mod bounds;
mod pop;
mod random;
mod range;
#[cfg(test)]
mod tests;

use martlet_base::number::{NumberBuffer, format_f64_seventeen};
use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_types::element::IntBuffer;
use martlet_types::zset::{AddOptions, Added, Entry, ZSet, ZSetLimits};

use crate::Handler;
use crate::collection_scan::{self, ScanOptions};
use crate::context::Context;
use crate::list::bulk;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &ZADD,
    &ZINCRBY,
    &ZREM,
    &ZSCORE,
    &ZMSCORE,
    &ZCARD,
    &ZCOUNT,
    &ZLEXCOUNT,
    &ZRANK,
    &ZREVRANK,
    &ZSCAN,
    &range::ZRANGE,
    &range::ZRANGESTORE,
    &range::ZREVRANGE,
    &range::ZRANGEBYSCORE,
    &range::ZREVRANGEBYSCORE,
    &range::ZRANGEBYLEX,
    &range::ZREVRANGEBYLEX,
    &range::ZREMRANGEBYRANK,
    &range::ZREMRANGEBYSCORE,
    &range::ZREMRANGEBYLEX,
    &pop::ZPOPMIN,
    &pop::ZPOPMAX,
    &pop::ZMPOP,
    &pop::BZPOPMIN,
    &pop::BZPOPMAX,
    &pop::BZMPOP,
    &random::ZRANDMEMBER,
    &algebra::ZUNION,
    &algebra::ZINTER,
    &algebra::ZDIFF,
    &algebra::ZINTERCARD,
    &algebra::ZUNIONSTORE,
    &algebra::ZINTERSTORE,
    &algebra::ZDIFFSTORE,
];

const RO_ACCESS: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);
const RW_DELETE: KeyFlags = KeyFlags::RW.with(KeyFlags::DELETE);
const OW_UPDATE: KeyFlags = KeyFlags::OW.with(KeyFlags::UPDATE);
const ONE_TO_READ: &[KeyPart] = &[KeyPart::one(1, RO_ACCESS)];
const READS_FAST: Flags = Flags::READONLY.with(Flags::FAST);
const ADDS: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST);
const LOG_N: &str = "O(log N), N being the number of members";

/// Says that a sorted set was changed, without counting the change.
#[inline]
fn note(keys: &mut Keys, key: &Key<'_>, event: &'static str) {
    keys.signal(key);
    keys.effects.event(EventClass::ZSET, event, keys.db(), key.bytes);
}

/// Deletes a sorted set that has lost its last member.
fn delete_if_empty(keys: &mut Keys, key: &Key<'_>) {
    if keys.delete_if_empty::<ZSet>(key) {
        keys.effects.event(EventClass::GENERIC, "del", keys.db(), key.bytes);
    }
}

/// Writes entries as an array of members, or of members and scores: one after the other in RESP2, in pairs in
/// RESP3.
fn entries<'a>(reply: &mut Reply, entries: impl ExactSizeIterator<Item = Entry<'a>>, with_scores: bool) {
    let in_pairs = with_scores && reply.is_resp3();
    reply.array(entries.len() * if with_scores && !in_pairs { 2 } else { 1 });
    for entry in entries {
        if in_pairs {
            reply.array(2);
        }
        bulk(reply, entry.member);
        if with_scores {
            reply.double(entry.score);
        }
        if reply.is_full() {
            break;
        }
    }
}

/// Stores a result in place of whatever the destination held, or deletes that if the result is empty; answers
/// how many members there are.
pub(crate) fn store(ctx: &mut Context<'_>, destination: &Key<'_>, result: ZSet, event: &'static str) {
    let Context { keys, reply, .. } = ctx;
    reply.count(result.len());
    if !result.is_empty() {
        keys.set_value(destination, martlet_keyspace::Value::ZSet(result), None);
        keys.changed(destination, EventClass::ZSET, event);
    } else if keys.delete(destination) {
        keys.changed(destination, EventClass::GENERIC, "del");
    }
}

static ZADD: Command<Handler> = command("zadd", -4, zadd as Handler)
    .member(3)
    .flags(ADDS)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))])
    .acl(Acl::SORTED_SET)
    .syntax(
        "key:k0 ?condition(NX|XX)^3.0.2 ?comparison(GT|LT)^6.2.0 ?change:x=CH^3.0.2 \
         ?increment:x=INCR^3.0.2 *data(score:d member)",
    )
    .doc(
        Group::SortedSet,
        "1.2.0",
        "O(log N) for each member, N being the number of members",
        "Adds members to a sorted set, or changes their scores. Creates the key if it is not there.",
    )
    .history(&[
        ("2.4.0", "Takes several members with their scores."),
        ("3.0.2", "Options `XX`, `NX`, `CH` and `INCR`."),
        ("6.2.0", "Options `GT` and `LT`."),
    ]);

fn zadd(ctx: &mut Context<'_>) -> Outcome {
    add(ctx, AddOptions::default())
}

static ZINCRBY: Command<Handler> = command("zincrby", 4, zincrby as Handler)
    .member(3)
    .flags(ADDS)
    .keys(&[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))])
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 increment:i member")
    .doc(Group::SortedSet, "1.2.0", LOG_N, "Adds to the score of a member of a sorted set.");

fn zincrby(ctx: &mut Context<'_>) -> Outcome {
    add(ctx, AddOptions { incr: true, ..AddOptions::default() })
}

/// The arguments of ZADD behind the key.
struct Addition {
    options: AddOptions,
    /// Changed members count in the answer, not only new ones.
    count_changed: bool,
    /// The index of the first score.
    first: usize,
}

impl Addition {
    fn parse(ctx: &Context<'_>, mut options: AddOptions) -> Result<Addition, Error> {
        let (mut rest, mut count_changed) = (ctx.rest(2), false);
        // A score begins with no letter but that of `inf`.
        while let Some([b'a'..=b'z' | b'A'..=b'Z', ..]) = rest.peek() {
            if rest.word("NX") {
                options.nx = true;
            } else if rest.word("XX") {
                options.xx = true;
            } else if rest.word("CH") {
                count_changed = true;
            } else if rest.word("INCR") {
                options.incr = true;
            } else if rest.word("GT") {
                options.gt = true;
            } else if rest.word("LT") {
                options.lt = true;
            } else {
                break;
            }
        }
        let (first, words) = (rest.index(), rest.left());
        if words == 0 || !words.is_multiple_of(2) {
            return Err(Error::Syntax);
        }
        let AddOptions { nx, xx, gt, lt, incr } = options;
        if nx && xx {
            return Err(Error::Fixed("ERR XX and NX options at the same time are not compatible"));
        }
        if (nx && (gt || lt)) || (gt && lt) {
            return Err(Error::Fixed("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if incr && words > 2 {
            return Err(Error::Fixed("ERR INCR option supports a single increment-element pair"));
        }
        Ok(Addition { options, count_changed, first })
    }
}

fn add(ctx: &mut Context<'_>, options: AddOptions) -> Outcome {
    let Addition { options, count_changed, first } = Addition::parse(ctx, options)?;
    let first_score = ctx.float(first)?;
    let mut more_scores = Vec::new();
    for index in (first + 2..ctx.argc()).step_by(2) {
        more_scores.push(ctx.float(index)?);
    }
    let (key, limits) = (ctx.key(1), ctx.settings.zset_limits);
    let Context { keys, reply, args, .. } = ctx;
    let scores = [first_score].into_iter().chain(more_scores);
    let members =
        scores.zip((first + 1..args.len()).step_by(2)).map(|(score, index)| (score, args.at(index)));
    let Additions { added, updated, score } = add_members(keys, &key, options, limits, members)?;
    match (options.incr, score) {
        (true, Some(score)) => reply.double(score),
        (true, None) => reply.null(),
        (false, _) => reply.count(if count_changed { added + updated } else { added }),
    }
    Ok(())
}

/// What [`add_members`] did.
#[derive(Default)]
pub(crate) struct Additions {
    /// Members that are new.
    pub added: usize,
    /// Members whose score has changed.
    pub updated: usize,
    /// The last member's score, unless the conditions forbade its addition.
    pub score: Option<f64>,
}

/// Adds members, one at least, each with a score, to a sorted set that is created if need be.
pub(crate) fn add_members<'a>(
    keys: &mut Keys,
    key: &Key<'_>,
    options: AddOptions,
    limits: ZSetLimits,
    members: impl Iterator<Item = (f64, &'a [u8])>,
) -> Result<Additions, Error> {
    let mut set = match options.xx {
        true => keys.write::<ZSet>(key)?,
        false => Some(keys.create::<ZSet>(key)?),
    };
    let mut done = Additions::default();
    if let Some(set) = &mut set {
        let mut members = members.peekable();
        let first_len = members.peek().map_or(0, |(_, member)| member.len());
        set.prepare(members.size_hint().0, first_len, limits);
        for (score, member) in members {
            let outcome = set.add(member, score, options, limits);
            done.score = match outcome {
                Added::Added => Some(score),
                Added::Updated(score) | Added::Unchanged(score) => Some(score),
                Added::Skipped => None,
                Added::NotANumber => {
                    return Err(Error::Fixed("ERR resulting score is not a number (NaN)"));
                }
            };
            done.added += usize::from(outcome == Added::Added);
            done.updated += usize::from(matches!(outcome, Added::Updated(_)));
        }
    }
    drop(set);
    if done.added + done.updated > 0 {
        keys.dirty += (done.added + done.updated) as u64;
        note(keys, key, if options.incr { "zincr" } else { "zadd" });
    }
    Ok(done)
}

static ZREM: Command<Handler> = command("zrem", -3, zrem as Handler)
    .member(2)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, RW_DELETE)])
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 *member")
    .doc(
        Group::SortedSet,
        "1.2.0",
        "O(M * log N), N being the number of members and M that of those given",
        "Removes members from a sorted set. Deletes the key with the last one.",
    )
    .history(&[("2.4.0", "Takes several members.")]);

fn zrem(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let mut removed = 0;
    if let Some(mut set) = ctx.keys.write::<ZSet>(&key)? {
        removed = ctx.args.from(2).iter().filter(|member| set.remove(member).is_some()).count();
    }
    if removed > 0 {
        ctx.keys.dirty += removed as u64;
        note(ctx.keys, &key, "zrem");
        delete_if_empty(ctx.keys, &key);
    }
    ctx.reply.count(removed);
    Ok(())
}

static ZSCORE: Command<Handler> = command("zscore", 3, zscore as Handler)
    .member(2)
    .flags(READS_FAST)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 member")
    .doc(Group::SortedSet, "1.2.0", "O(1)", "Returns the score of a member of a sorted set.");

fn zscore(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    match ctx.keys.read::<ZSet>(&key)?.and_then(|set| set.score(ctx.args.at(2))) {
        Some(score) => ctx.reply.double(score),
        None => ctx.reply.null(),
    }
    Ok(())
}

static ZMSCORE: Command<Handler> = command("zmscore", -3, zmscore as Handler)
    .flags(READS_FAST)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 *member")
    .doc(
        Group::SortedSet,
        "6.2.0",
        "O(N), N being the number of members given",
        "Returns the scores of members of a sorted set.",
    );

fn zmscore(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let set = keys.read::<ZSet>(&key)?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members.iter() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    Ok(())
}

static ZCARD: Command<Handler> = command("zcard", 2, zcard as Handler)
    .flags(READS_FAST)
    .keys(&[KeyPart::one(1, KeyFlags::RO)])
    .acl(Acl::SORTED_SET)
    .syntax("key:k0")
    .doc(Group::SortedSet, "1.2.0", "O(1)", "Returns the number of members of a sorted set.");

fn zcard(ctx: &mut Context<'_>) -> Outcome {
    let len = ctx.keys.read::<ZSet>(&ctx.key(1))?.map_or(0, ZSet::len);
    ctx.reply.count(len);
    Ok(())
}

static ZCOUNT: Command<Handler> = command("zcount", 4, zcount as Handler)
    .flags(READS_FAST)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 min:d max:d")
    .doc(Group::SortedSet, "2.0.0", LOG_N, "Returns the number of members with a score in a range.");

fn zcount(ctx: &mut Context<'_>) -> Outcome {
    let (min, max) = bounds::scores(ctx.arg(2), ctx.arg(3))?;
    let set = ctx.keys.read::<ZSet>(&ctx.key(1))?;
    let count = set.map_or(0, |set| set.ranks_by_score(min, max).len());
    ctx.reply.count(count);
    Ok(())
}

static ZLEXCOUNT: Command<Handler> = command("zlexcount", 4, zlexcount as Handler)
    .flags(READS_FAST)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 min max")
    .doc(
        Group::SortedSet,
        "2.8.9",
        LOG_N,
        "Returns the number of members in a range of members, where all have the same score.",
    );

fn zlexcount(ctx: &mut Context<'_>) -> Outcome {
    let (min, max) = bounds::members(ctx.arg(2), ctx.arg(3))?;
    let set = ctx.keys.read::<ZSet>(&ctx.key(1))?;
    let count = set.map_or(0, |set| set.ranks_by_lex(min, max).len());
    ctx.reply.count(count);
    Ok(())
}

static ZRANK: Command<Handler> = command("zrank", -3, zrank as Handler)
    .member(2)
    .flags(READS_FAST)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 member ?WITHSCORE")
    .doc(Group::SortedSet, "2.0.0", LOG_N, "Returns the rank of a member, counted from the lowest score.")
    .history(&[("7.2.0", "Argument `WITHSCORE`.")]);

fn zrank(ctx: &mut Context<'_>) -> Outcome {
    rank(ctx, false, "zrank")
}

static ZREVRANK: Command<Handler> = command("zrevrank", -3, zrevrank as Handler)
    .member(2)
    .flags(READS_FAST)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 member ?WITHSCORE")
    .doc(Group::SortedSet, "2.0.0", LOG_N, "Returns the rank of a member, counted from the highest score.")
    .history(&[("7.2.0", "Argument `WITHSCORE`.")]);

fn zrevrank(ctx: &mut Context<'_>) -> Outcome {
    rank(ctx, true, "zrevrank")
}

fn rank(ctx: &mut Context<'_>, from_highest: bool, name: &'static str) -> Outcome {
    if ctx.argc() > 4 {
        return Err(Error::Arity(name));
    }
    let mut rest = ctx.rest(3);
    let with_score = rest.word("WITHSCORE");
    rest.finish()?;
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    let found = keys.read::<ZSet>(&key)?.and_then(|set| set.rank(args.at(2)).zip(Some(set.len())));
    match found {
        Some(((rank, score), len)) => {
            if with_score {
                reply.array(2);
            }
            reply.count(if from_highest { len - 1 - rank } else { rank });
            if with_score {
                reply.double(score);
            }
        }
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}

static ZSCAN: Command<Handler> = command("zscan", -3, zscan as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 cursor:i ?pattern:p=MATCH ?count:i=COUNT ?NOSCORES")
    .doc(
        Group::SortedSet,
        "2.8.0",
        "O(1) for every call, O(N) for all of them, N being the number of members",
        "Returns some members of a sorted set, with their scores unless asked not to, and a cursor for the next call.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn zscan(ctx: &mut Context<'_>) -> Outcome {
    let cursor = collection_scan::cursor(ctx)?;
    let key = ctx.key(1);
    let options = ScanOptions::parse(ctx, Some("noscores"));
    let Context { keys, reply, .. } = ctx;
    let Some(set) = keys.read::<ZSet>(&key)? else {
        collection_scan::answer_empty(reply);
        return Ok(());
    };
    let options = options?;
    // As in Redis, where a large set writes its scores with seventeen digits here, and a small one as it
    // holds them.
    let large = set.encoding() == "skiplist";
    collection_scan::answer(reply, |reply| {
        let mut count = 0;
        let next = set.scan(cursor, options.count, |entry| {
            if options.takes(entry.member.as_bytes(&mut IntBuffer::new())) {
                bulk(reply, entry.member);
                count += 1;
                if options.names_only {
                    return;
                }
                let mut buffer = NumberBuffer::new();
                reply.bulk(if large {
                    format_f64_seventeen(entry.score, &mut buffer)
                } else {
                    martlet_base::number::format_f64(entry.score, &mut buffer)
                });
                count += 1;
            }
        });
        (next, count)
    });
    Ok(())
}
