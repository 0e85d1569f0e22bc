//! Union, intersection and difference of sorted sets and sets, answered, counted or stored.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_spec::{Acl, Change, Command, Cursor, Error, Flags, Group, KeyPart, Outcome, command};
use martlet_types::element::{Element, IntBuffer};
use martlet_types::set::Set;
use martlet_types::zset::{Entry, ZSet};

use super::{OW_UPDATE, RO_ACCESS, entries, store};
use crate::Handler;
use crate::context::Context;
use crate::set::expire_operands;

const READS: Flags = Flags::READONLY.with(Flags::MOVABLE_KEYS);
const STORES: Flags = Flags::WRITE.with(Flags::DENYOOM).with(Flags::MOVABLE_KEYS);
const KEYS: &[KeyPart] = &[KeyPart::counted(1, RO_ACCESS)];
const STORE_KEYS: &[KeyPart] = &[KeyPart::one(1, OW_UPDATE), KeyPart::counted(2, RO_ACCESS)];
const SUM_OF_SIZES: &str =
    "O(N + M * log M), N being the number of members of all sets and M that of the result";
const SMALLEST_TIMES_SETS: &str = "O(N * K + M * log M), N being the size of the smallest set, K the number of sets, M the size of the result";
const AGGREGATES_COUNT: &[Change] = &[("8.8.0", "Aggregate `COUNT`.")];

/// The operation on the sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The use of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Answer,
    Store,
    Count,
}

/// How scores of one member become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// The sum of the weights of the sets that have the member, whatever its scores.
    Count,
}

impl Aggregate {
    const WORDS: &'static [(&'static str, Aggregate)] = &[
        ("SUM", Aggregate::Sum),
        ("MIN", Aggregate::Min),
        ("MAX", Aggregate::Max),
        ("COUNT", Aggregate::Count),
    ];

    /// The contribution of a set of this weight that has the member with this score.
    fn contribution(self, weight: f64, score: f64) -> f64 {
        if self == Aggregate::Count { weight } else { weight * score }
    }

    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            // Infinity and its negative sum up to zero, by Redis' convention.
            Aggregate::Sum | Aggregate::Count => not_nan(left + right),
            Aggregate::Min if right < left => right,
            Aggregate::Max if right > left => right,
            Aggregate::Min | Aggregate::Max => left,
        }
    }
}

fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The set at one of the keys. Members of a plain set have a score of 1, if they have not expired by the time
/// beside it.
#[derive(Clone, Copy)]
enum Source<'a> {
    Nothing,
    Set(&'a Set, i64),
    ZSet(&'a ZSet),
}

impl<'a> Source<'a> {
    fn at(keys: &'a Keys, key: &Key<'_>) -> Source<'a> {
        let Some(entry) = keys.get(key) else { return Source::Nothing };
        match (entry.object::<ZSet>(), entry.object::<Set>()) {
            (Some(set), _) => Source::ZSet(set),
            (None, Some(set)) => Source::Set(set, keys.due_ms()),
            (None, None) => Source::Nothing,
        }
    }

    /// Number of members, those that have expired included.
    fn len(self) -> usize {
        match self {
            Source::Nothing => 0,
            Source::Set(set, _) => set.len(),
            Source::ZSet(set) => set.len(),
        }
    }

    fn score(self, member: Element<'_>) -> Option<f64> {
        match self {
            Source::Nothing => None,
            Source::Set(set, due_ms) => set.contains(member, due_ms).then_some(1.0),
            Source::ZSet(set) => set.score(member.as_bytes(&mut IntBuffer::new())),
        }
    }

    fn is(self, other: Source<'_>) -> bool {
        match (self, other) {
            (Source::Set(left, _), Source::Set(right, _)) => std::ptr::eq(left, right),
            (Source::ZSet(left), Source::ZSet(right)) => std::ptr::eq(left, right),
            _ => false,
        }
    }

    /// Hands each entry to `f`, until `f` answers false.
    fn each(self, mut f: impl FnMut(Entry<'a>) -> bool) {
        match self {
            Source::Nothing => {}
            Source::Set(set, due_ms) => {
                let _ = set.live(due_ms).all(|member| f(Entry { member, score: 1.0 }));
            }
            Source::ZSet(set) => {
                let _ = set.iter().all(f);
            }
        }
    }
}

/// The arguments from the number of keys on.
struct Request<'a> {
    keys: Vec<Key<'a>>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// How many members to count at most; 0: all.
    limit: usize,
}

impl<'a> Request<'a> {
    /// Looks the keys up, too: as in Redis, a key of another type is reported before a wrong option.
    fn parse(
        ctx: &mut Context<'a>,
        number: usize,
        operation: Operation,
        purpose: Purpose,
        name: &str,
    ) -> Result<Request<'a>, Error> {
        let mut rest = ctx.rest(number);
        let count = rest.int()?;
        if count < 1 {
            return Err(Error::Text(format!("ERR at least 1 input key is needed for '{name}' command")));
        }
        let keys: Vec<Key<'a>> = rest.span(count)?.map(|index| ctx.key(index)).collect();
        for key in &keys {
            if let Some(entry) = ctx.keys.lookup(key)
                && entry.object::<ZSet>().is_none()
                && entry.object::<Set>().is_none()
            {
                return Err(Error::WrongType);
            }
        }
        let weights = vec![1.0; keys.len()];
        let mut request = Request { keys, weights, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        while request.take_option(&mut rest, operation, purpose)? {}
        rest.finish()?;
        Ok(request)
    }

    /// Takes an option, if one comes next.
    fn take_option(
        &mut self,
        rest: &mut Cursor<'_>,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<bool, Error> {
        let weighs = operation != Operation::Difference && purpose != Purpose::Count;
        if weighs && rest.option("WEIGHTS", self.weights.len()) {
            for weight in &mut self.weights {
                *weight = rest.float().map_err(|_| Error::Fixed("ERR weight value is not a float"))?;
            }
        } else if weighs && rest.option("AGGREGATE", 1) {
            self.aggregate = rest.one_of(Aggregate::WORDS).ok_or(Error::Syntax)?;
        } else if purpose == Purpose::Answer && rest.word("WITHSCORES") {
            self.with_scores = true;
        } else if purpose == Purpose::Count && rest.option("LIMIT", 1) {
            self.limit = rest.at_least(0, "ERR LIMIT can't be negative")? as usize;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The sources with their weights, in the order given.
    fn sources<'k>(&self, keys: &'k Keys) -> Vec<(Source<'k>, f64)> {
        self.keys.iter().zip(&self.weights).map(|(key, weight)| (Source::at(keys, key), *weight)).collect()
    }
}

/// Hands each member that all sources have to `f`, until `f` answers false.
fn intersect<'a>(
    mut sources: Vec<(Source<'a>, f64)>,
    aggregate: Aggregate,
    mut f: impl FnMut(Entry<'a>) -> bool,
) {
    sources.sort_by_key(|(source, _)| source.len());
    let Some(((smallest, weight), others)) = sources.split_first() else { return };
    smallest.each(|entry| {
        let mut score = not_nan(aggregate.contribution(*weight, entry.score));
        for (source, weight) in others {
            let found = if source.is(*smallest) { Some(entry.score) } else { source.score(entry.member) };
            let Some(found) = found else { return true };
            score = aggregate.of(score, aggregate.contribution(*weight, found));
        }
        f(Entry { member: entry.member, score })
    });
}

/// All members of any source.
fn unite<'a>(mut sources: Vec<(Source<'a>, f64)>, aggregate: Aggregate) -> Vec<Entry<'a>> {
    sources.sort_by_key(|(source, _)| source.len());
    let largest = sources.last().map_or(0, |(source, _)| source.len());
    let mut places: HashMap<Cow<'a, [u8]>, usize> = HashMap::with_capacity(largest);
    let mut united: Vec<Entry<'a>> = Vec::with_capacity(largest);
    for (source, weight) in sources {
        source.each(|entry| {
            let score = not_nan(aggregate.contribution(weight, entry.score));
            let member = match entry.member {
                Element::Bytes(bytes) => Cow::Borrowed(bytes),
                integer => Cow::Owned(integer.to_vec()),
            };
            let place = *places.entry(member).or_insert(united.len());
            match united.get_mut(place) {
                Some(there) => there.score = aggregate.of(there.score, score),
                None => united.push(Entry { member: entry.member, score }),
            }
            true
        });
    }
    united
}

/// The members of the first source that no other has.
fn subtract<'a>(sources: &[(Source<'a>, f64)]) -> Vec<Entry<'a>> {
    let mut left = Vec::new();
    let Some(((first, _), others)) = sources.split_first() else { return left };
    let mut others: Vec<Source<'_>> = others.iter().map(|(source, _)| *source).collect();
    if others.iter().any(|source| source.is(*first)) {
        return left;
    }
    // The larger a set, the likelier it has a member.
    others.sort_by_key(|source| std::cmp::Reverse(source.len()));
    first.each(|entry| {
        if others.iter().all(|source| source.score(entry.member).is_none()) {
            left.push(entry);
        }
        true
    });
    left
}

fn run(ctx: &mut Context<'_>, operation: Operation, purpose: Purpose, name: &'static str) -> Outcome {
    let number = if purpose == Purpose::Store { 2 } else { 1 };
    let request = Request::parse(ctx, number, operation, purpose, name)?;
    let Context { keys, reply, .. } = ctx;
    if purpose == Purpose::Store {
        expire_operands(keys, &request.keys);
    }
    let sources = request.sources(keys);
    let mut result = match operation {
        Operation::Union => unite(sources, request.aggregate),
        Operation::Difference => subtract(&sources),
        Operation::Intersection => {
            let mut common = Vec::new();
            intersect(sources, request.aggregate, |entry| {
                common.push(entry);
                common.len() != request.limit
            });
            common
        }
    };
    if purpose == Purpose::Count {
        reply.count(result.len());
        return Ok(());
    }
    result.sort_by(|left, right| {
        let by_score = left.score.partial_cmp(&right.score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| left.member.cmp(&right.member))
    });
    if purpose == Purpose::Answer {
        entries(reply, result.into_iter(), request.with_scores);
        return Ok(());
    }
    let limits = ctx.settings.zset_limits;
    let mut stored = ZSet::with_hint(result.len(), longest(&result), limits);
    stored.extend_sorted(result, limits);
    store(ctx, &ctx.key(1), stored, name);
    Ok(())
}

fn longest(entries: &[Entry<'_>]) -> usize {
    entries.iter().map(|entry| entry.member.byte_len()).max().unwrap_or(0)
}

pub(super) static ZUNION: Command<Handler> = command("zunion", -3, zunion as Handler)
    .flags(READS)
    .keys(KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("numkeys:i *key:k0 ?*weight:i=WEIGHTS ?aggregate=AGGREGATE(SUM|MIN|MAX|COUNT) ?WITHSCORES")
    .doc(Group::SortedSet, "6.2.0", SUM_OF_SIZES, "Returns the members that any of the sorted sets has.")
    .history(AGGREGATES_COUNT);

fn zunion(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Union, Purpose::Answer, "zunion")
}

pub(super) static ZINTER: Command<Handler> = command("zinter", -3, zinter as Handler)
    .flags(READS)
    .keys(KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("numkeys:i *key:k0 ?*weight:i=WEIGHTS ?aggregate=AGGREGATE(SUM|MIN|MAX|COUNT) ?WITHSCORES")
    .doc(Group::SortedSet, "6.2.0", SMALLEST_TIMES_SETS, "Returns the members that all sorted sets have.")
    .history(AGGREGATES_COUNT);

fn zinter(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Intersection, Purpose::Answer, "zinter")
}

pub(super) static ZDIFF: Command<Handler> = command("zdiff", -3, zdiff as Handler)
    .flags(READS)
    .keys(KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("numkeys:i *key:k0 ?WITHSCORES")
    .doc(
        Group::SortedSet,
        "6.2.0",
        SMALLEST_TIMES_SETS,
        "Returns the members of the first sorted set that no other has.",
    );

fn zdiff(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Difference, Purpose::Answer, "zdiff")
}

pub(super) static ZINTERCARD: Command<Handler> = command("zintercard", -3, zintercard as Handler)
    .flags(READS)
    .keys(KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("numkeys:i *key:k0 ?limit:i=LIMIT")
    .doc(
        Group::SortedSet,
        "7.0.0",
        "O(N * K) at worst, N being the number of members of the smallest set and K the number of sets",
        "Returns the number of members that all sorted sets have.",
    );

fn zintercard(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Intersection, Purpose::Count, "zintercard")
}

pub(super) static ZUNIONSTORE: Command<Handler> = command("zunionstore", -4, zunionstore as Handler)
    .flags(STORES)
    .keys(STORE_KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("destination:k0 numkeys:i *key:k1 ?*weight:i=WEIGHTS ?aggregate=AGGREGATE(SUM|MIN|MAX|COUNT)")
    .doc(
        Group::SortedSet,
        "2.0.0",
        SUM_OF_SIZES,
        "Stores the members that any of the sorted sets has in a key.",
    )
    .history(AGGREGATES_COUNT);

fn zunionstore(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Union, Purpose::Store, "zunionstore")
}

pub(super) static ZINTERSTORE: Command<Handler> = command("zinterstore", -4, zinterstore as Handler)
    .flags(STORES)
    .keys(STORE_KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("destination:k0 numkeys:i *key:k1 ?*weight:i=WEIGHTS ?aggregate=AGGREGATE(SUM|MIN|MAX|COUNT)")
    .doc(
        Group::SortedSet,
        "2.0.0",
        SMALLEST_TIMES_SETS,
        "Stores the members that all sorted sets have in a key.",
    )
    .history(AGGREGATES_COUNT);

fn zinterstore(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Intersection, Purpose::Store, "zinterstore")
}

pub(super) static ZDIFFSTORE: Command<Handler> = command("zdiffstore", -4, zdiffstore as Handler)
    .flags(STORES)
    .keys(STORE_KEYS)
    .acl(Acl::SORTED_SET)
    .syntax("destination:k0 numkeys:i *key:k1")
    .doc(
        Group::SortedSet,
        "6.2.0",
        SMALLEST_TIMES_SETS,
        "Stores the members of the first sorted set that no other has in a key.",
    );

fn zdiffstore(ctx: &mut Context<'_>) -> Outcome {
    run(ctx, Operation::Difference, Purpose::Store, "zdiffstore")
}
