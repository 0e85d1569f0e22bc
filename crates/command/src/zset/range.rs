//! Ranges by rank, score or member: answered, stored, removed.

use std::ops::Range;

use martlet_engine::EventClass;
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyPart, Outcome, command};
use martlet_types::zset::{LexBound, ScoreBound, ZSet};

use super::{ONE_TO_READ, OW_UPDATE, RO_ACCESS, RW_DELETE, bounds, delete_if_empty, entries, note, store};
use crate::Handler;
use crate::context::Context;

const LOG_N_AND_M: &str = "O(log N + M), N being the number of members and M that of those in the range";

/// The unit of a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// The two ends of a range.
#[derive(Clone, Copy)]
enum Ends<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

impl<'a> Ends<'a> {
    /// The ends at two arguments, the lower one first.
    fn parse(ctx: &Context<'a>, by: By, min: usize, max: usize) -> Result<Ends<'a>, Error> {
        Ok(match by {
            By::Rank => Ends::Rank(ctx.int(min)?, ctx.int(max)?),
            By::Score => {
                let (min, max) = bounds::scores(ctx.arg(min), ctx.arg(max))?;
                Ends::Score(min, max)
            }
            By::Lex => {
                let (min, max) = bounds::members(ctx.arg(min), ctx.arg(max))?;
                Ends::Lex(min, max)
            }
        })
    }

    /// The ranks, from the lowest score on, that the range has in a set. With `reverse`, ranks that were
    /// given count from the highest.
    fn ranks(self, set: &ZSet, reverse: bool) -> Range<usize> {
        match self {
            Ends::Rank(start, stop) => {
                let len = set.len();
                let ranks = clamp(start, stop, len);
                if reverse { len - ranks.end..len - ranks.start } else { ranks }
            }
            Ends::Score(min, max) => set.ranks_by_score(min, max),
            Ends::Lex(min, max) => set.ranks_by_lex(min, max),
        }
    }
}

/// The part of `len` entries that Redis' inclusive ranks, negative ones from the end, stand for.
fn clamp(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_end = |rank: i64| if rank < 0 { len.saturating_add(rank) } else { rank };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// A request of the family.
struct Query<'a> {
    ends: Ends<'a>,
    reverse: bool,
    with_scores: bool,
    /// How many entries to leave out, and how many to take at most; negative: all.
    limit: (i64, i64),
}

impl<'a> Query<'a> {
    /// Parses the arguments behind the key at `key`. `by` and `reverse` are `None` where options may say
    /// them.
    fn parse(
        ctx: &Context<'a>,
        key: usize,
        mut by: Option<By>,
        mut reverse: Option<bool>,
        stores: bool,
    ) -> Result<Query<'a>, Error> {
        let (mut with_scores, mut limit) = (false, (0, -1));
        let mut rest = ctx.rest(key + 3);
        loop {
            if !stores && rest.word("WITHSCORES") {
                with_scores = true;
            } else if rest.option("LIMIT", 2) {
                limit = (rest.int()?, rest.int()?);
            } else if reverse.is_none() && rest.word("REV") {
                // A word may not be repeated.
                reverse = Some(true);
            } else if by.is_none() && rest.word("BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && rest.word("BYSCORE") {
                by = Some(By::Score);
            } else {
                break rest.finish()?;
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit.1 != -1 && by == By::Rank {
            return Err(Error::Fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(Error::Fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let swapped = reverse && by != By::Rank;
        let (min, max) = if swapped { (key + 2, key + 1) } else { (key + 1, key + 2) };
        let ends = Ends::parse(ctx, by, min, max)?;
        Ok(Query { ends, reverse, with_scores, limit })
    }

    /// The ranks of the entries wanted.
    fn ranks(&self, set: &ZSet) -> Range<usize> {
        let Range { start, end } = self.ends.ranks(set, self.reverse);
        if matches!(self.ends, Ends::Rank(..)) {
            return start..end;
        }
        // A negative offset leaves out everything.
        let left_out = usize::try_from(self.limit.0).unwrap_or(usize::MAX).min(end - start);
        let taken = usize::try_from(self.limit.1).unwrap_or(usize::MAX).min(end - start - left_out);
        if self.reverse {
            end - left_out - taken..end - left_out
        } else {
            start + left_out..start + left_out + taken
        }
    }
}

fn answer(ctx: &mut Context<'_>, by: Option<By>, reverse: Option<bool>) -> Outcome {
    let query = Query::parse(ctx, 1, by, reverse, false)?;
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    match keys.read::<ZSet>(&key)? {
        Some(set) => entries(reply, set.range(query.ranks(set), query.reverse), query.with_scores),
        None => reply.array(0),
    }
    Ok(())
}

pub(super) static ZRANGE: Command<Handler> = command("zrange", -4, zrange as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax(
        "key:k0 start stop ?sortby(BYSCORE|BYLEX)^6.2.0 ?REV^6.2.0 ?limit=LIMIT(offset:i \
         count:i)^6.2.0 ?WITHSCORES",
    )
    .doc(
        Group::SortedSet,
        "1.2.0",
        LOG_N_AND_M,
        "Returns the members in a range of ranks, scores or members of a sorted set.",
    )
    .history(&[("6.2.0", "Options `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")]);

fn zrange(ctx: &mut Context<'_>) -> Outcome {
    answer(ctx, None, None)
}

pub(super) static ZREVRANGE: Command<Handler> = command("zrevrange", -4, zrevrange as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 start:i stop:i ?WITHSCORES")
    .doc(
        Group::SortedSet,
        "1.2.0",
        LOG_N_AND_M,
        "Returns the members in a range of ranks of a sorted set, counted from the highest score.",
    )
    .deprecated("6.2.0", "`ZRANGE` with `REV`");

fn zrevrange(ctx: &mut Context<'_>) -> Outcome {
    answer(ctx, Some(By::Rank), Some(true))
}

pub(super) static ZRANGEBYSCORE: Command<Handler> = command("zrangebyscore", -4, zrangebyscore as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 min:d max:d ?WITHSCORES^2.0.0 ?limit=LIMIT(offset:i count:i)")
    .doc(
        Group::SortedSet,
        "1.0.5",
        LOG_N_AND_M,
        "Returns the members of a sorted set with a score in a range.",
    )
    .history(&[("2.0.0", "Modifier `WITHSCORES`.")])
    .deprecated("6.2.0", "`ZRANGE` with `BYSCORE`");

fn zrangebyscore(ctx: &mut Context<'_>) -> Outcome {
    answer(ctx, Some(By::Score), Some(false))
}

pub(super) static ZREVRANGEBYSCORE: Command<Handler> =
    command("zrevrangebyscore", -4, zrevrangebyscore as Handler)
        .flags(Flags::READONLY)
        .keys(ONE_TO_READ)
        .acl(Acl::SORTED_SET)
        .syntax("key:k0 max:d min:d ?WITHSCORES ?limit=LIMIT(offset:i count:i)")
        .doc(
            Group::SortedSet,
            "2.2.0",
            LOG_N_AND_M,
            "Returns the members of a sorted set with a score in a range, from the highest score.",
        )
        .history(&[("2.1.6", "`min` and `max` may be exclusive.")])
        .deprecated("6.2.0", "`ZRANGE` with `REV` and `BYSCORE`");

fn zrevrangebyscore(ctx: &mut Context<'_>) -> Outcome {
    answer(ctx, Some(By::Score), Some(true))
}

pub(super) static ZRANGEBYLEX: Command<Handler> = command("zrangebylex", -4, zrangebylex as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 min max ?limit=LIMIT(offset:i count:i)")
    .doc(
        Group::SortedSet,
        "2.8.9",
        LOG_N_AND_M,
        "Returns the members in a range of members of a sorted set whose scores are equal.",
    )
    .deprecated("6.2.0", "`ZRANGE` with `BYLEX`");

fn zrangebylex(ctx: &mut Context<'_>) -> Outcome {
    answer(ctx, Some(By::Lex), Some(false))
}

pub(super) static ZREVRANGEBYLEX: Command<Handler> = command("zrevrangebylex", -4, zrevrangebylex as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 max min ?limit=LIMIT(offset:i count:i)")
    .doc(
        Group::SortedSet,
        "2.8.9",
        LOG_N_AND_M,
        "Returns the members in a range of members of a sorted set whose scores are equal, from the last.",
    )
    .deprecated("6.2.0", "`ZRANGE` with `REV` and `BYLEX`");

fn zrevrangebylex(ctx: &mut Context<'_>) -> Outcome {
    answer(ctx, Some(By::Lex), Some(true))
}

pub(super) static ZRANGESTORE: Command<Handler> = command("zrangestore", -5, zrangestore as Handler)
    .flags(Flags::WRITE.with(Flags::DENYOOM))
    .keys(&[KeyPart::one(1, OW_UPDATE), KeyPart::one(2, RO_ACCESS)])
    .acl(Acl::SORTED_SET)
    .syntax("dst:k0 src:k1 min max ?sortby(BYSCORE|BYLEX) ?REV ?limit=LIMIT(offset:i count:i)")
    .doc(Group::SortedSet, "6.2.0", LOG_N_AND_M, "Stores the members in a range of a sorted set in a key.");

fn zrangestore(ctx: &mut Context<'_>) -> Outcome {
    let query = Query::parse(ctx, 2, None, None, true)?;
    let (destination, source) = (ctx.key(1), ctx.key(2));
    let limits = ctx.settings.zset_limits;
    let mut result = ZSet::new();
    if let Some(set) = ctx.keys.read::<ZSet>(&source)? {
        let ranks = query.ranks(set);
        // As in Redis, only a range of ranks is known to be long beforehand.
        if matches!(query.ends, Ends::Rank(..)) {
            result.prepare(ranks.len(), 0, limits);
        }
        result.extend_sorted(set.range(ranks, false), limits);
    }
    store(ctx, &destination, result, "zrangestore");
    Ok(())
}

fn remove(ctx: &mut Context<'_>, by: By, event: &'static str) -> Outcome {
    let ends = Ends::parse(ctx, by, 2, 3)?;
    let key = ctx.key(1);
    let Some(mut set) = ctx.keys.write::<ZSet>(&key)? else {
        ctx.reply.int(0);
        return Ok(());
    };
    let ranks = ends.ranks(&set, false);
    let removed = ranks.len();
    if removed == set.len() {
        drop(set);
        // The key goes as a whole, and a large set is freed in the background.
        ctx.keys.delete(&key);
        note(ctx.keys, &key, event);
        ctx.keys.effects.event(EventClass::GENERIC, "del", ctx.keys.db(), key.bytes);
    } else if removed > 0 {
        set.remove_range(ranks, |_| ());
        drop(set);
        note(ctx.keys, &key, event);
        delete_if_empty(ctx.keys, &key);
    } else {
        drop(set);
    }
    ctx.keys.dirty += removed as u64;
    ctx.reply.count(removed);
    Ok(())
}

pub(super) static ZREMRANGEBYRANK: Command<Handler> =
    command("zremrangebyrank", 4, zremrangebyrank as Handler)
        .flags(Flags::WRITE)
        .keys(&[KeyPart::one(1, RW_DELETE)])
        .acl(Acl::SORTED_SET)
        .syntax("key:k0 start:i stop:i")
        .doc(
            Group::SortedSet,
            "2.0.0",
            LOG_N_AND_M,
            "Removes the members in a range of ranks from a sorted set.",
        );

fn zremrangebyrank(ctx: &mut Context<'_>) -> Outcome {
    remove(ctx, By::Rank, "zremrangebyrank")
}

pub(super) static ZREMRANGEBYSCORE: Command<Handler> =
    command("zremrangebyscore", 4, zremrangebyscore as Handler)
        .flags(Flags::WRITE)
        .keys(&[KeyPart::one(1, RW_DELETE)])
        .acl(Acl::SORTED_SET)
        .syntax("key:k0 min:d max:d")
        .doc(
            Group::SortedSet,
            "1.2.0",
            LOG_N_AND_M,
            "Removes the members with a score in a range from a sorted set.",
        );

fn zremrangebyscore(ctx: &mut Context<'_>) -> Outcome {
    remove(ctx, By::Score, "zremrangebyscore")
}

pub(super) static ZREMRANGEBYLEX: Command<Handler> = command("zremrangebylex", 4, zremrangebylex as Handler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(1, RW_DELETE)])
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 min max")
    .doc(
        Group::SortedSet,
        "2.8.9",
        LOG_N_AND_M,
        "Removes the members in a range of members from a sorted set whose scores are equal.",
    );

fn zremrangebylex(ctx: &mut Context<'_>) -> Outcome {
    remove(ctx, By::Lex, "zremrangebylex")
}
