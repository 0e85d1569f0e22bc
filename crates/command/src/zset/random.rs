//! ZRANDMEMBER.

use std::collections::HashSet;

use martlet_base::random::Random;
use martlet_protocol::reply::Reply;
use martlet_spec::{Acl, Command, Error, Flags, Group, Outcome, Tip, command};
use martlet_types::zset::{Entry, ZSet};

use super::{ONE_TO_READ, entries};
use crate::Handler;
use crate::context::Context;
use crate::list::{bulk, symmetric};

/// Most members that are returned with repetitions: more than memory could hold.
const REPEATS_MAX: i64 = 1 << 30;

pub(super) static ZRANDMEMBER: Command<Handler> = command("zrandmember", -2, zrandmember as Handler)
    .flags(Flags::READONLY)
    .keys(ONE_TO_READ)
    .acl(Acl::SORTED_SET)
    .syntax("key:k0 ?options(count:i ?WITHSCORES)")
    .doc(
        Group::SortedSet,
        "6.2.0",
        "O(N), N being the number of members returned",
        "Returns random members of a sorted set.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn zrandmember(ctx: &mut Context<'_>) -> Outcome {
    let mut rest = ctx.rest(2);
    let count = rest.value().ok().map(symmetric).transpose()?;
    let with_scores = rest.word("WITHSCORES");
    rest.finish()?;
    let limit = if with_scores { i64::MAX / 2 } else { i64::MAX };
    if count.is_some_and(|count| count < -REPEATS_MAX || count > limit) {
        return Err(Error::OutOfRange);
    }
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let mut random = keys.random.clone();
    match (keys.read::<ZSet>(&key)?, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => {
            if let Some(entry) = set.random(&mut random) {
                bulk(reply, entry.member);
            }
        }
        (Some(set), Some(count @ ..0)) => {
            let chosen = (0..count.unsigned_abs() as usize).map(|_| pick(set, &mut random));
            entries(reply, chosen, with_scores);
        }
        (Some(set), Some(count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            sample(reply, set, count, &mut random, with_scores);
        }
    }
    keys.random = random;
    Ok(())
}

/// A random entry; a sorted set in the keyspace has at least one.
fn pick<'a>(set: &'a ZSet, random: &mut Random) -> Entry<'a> {
    let nothing = Entry { member: martlet_types::element::Element::Bytes(b""), score: 0.0 };
    set.random(random).unwrap_or(nothing)
}

/// Writes up to `count` different entries, each as likely as any other.
fn sample(reply: &mut Reply, set: &ZSet, count: usize, random: &mut Random, with_scores: bool) {
    let len = set.len();
    if count >= len {
        return entries(reply, set.iter(), with_scores);
    }
    if count * 3 > len {
        // Most are wanted: each is taken with the chance that is left to it.
        let mut missing = count;
        let chosen = set.iter().enumerate().filter(move |(rank, _)| {
            let take = random.below((len - rank) as u64) < missing as u64;
            missing -= usize::from(take);
            take
        });
        let chosen: Vec<Entry<'_>> = chosen.map(|(_, entry)| entry).collect();
        return entries(reply, chosen.into_iter(), with_scores);
    }
    let mut ranks = HashSet::with_capacity(count);
    while ranks.len() < count {
        ranks.insert(random.below(len as u64) as usize);
    }
    let chosen: Vec<Entry<'_>> = ranks.into_iter().filter_map(|rank| set.at_rank(rank)).collect();
    entries(reply, chosen.into_iter(), with_scores);
}
