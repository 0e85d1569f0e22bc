//! The commands that describe a vector set and its elements.

use std::collections::HashSet;
use std::ops::Bound;

use martlet_base::number::parse_i64;
use martlet_base::random::Random;
use martlet_protocol::reply::Reply;
use martlet_spec::{Command, Error, Flags, Outcome, Tip, command};
use martlet_vector::quantise::Encoding;
use martlet_vector::set::VectorSet;

use super::{GROUP, KEY, READS_FAST, read};
use crate::Handler;
use crate::context::Context;
use crate::set::REPEATS_MAX;

pub(super) static VCARD: Command<Handler> = command("vcard", 2, vcard as Handler)
    .flags(READS_FAST)
    .keys(KEY)
    .syntax("key:k0")
    .doc(GROUP, "8.0.0", "O(1)", "Returns the number of elements in a vector set.");

fn vcard(ctx: &mut Context<'_>) -> Outcome {
    let count = read(ctx)?.map_or(0, |set| set.len());
    ctx.reply.count(count);
    Ok(())
}

pub(super) static VDIM: Command<Handler> = command("vdim", 2, vdim as Handler)
    .flags(READS_FAST)
    .keys(KEY)
    .syntax("key:k0")
    .doc(GROUP, "8.0.0", "O(1)", "Returns the dimension of the vectors in a vector set.");

fn vdim(ctx: &mut Context<'_>) -> Outcome {
    let dimension = read(ctx)?.map(|set| set.config().dimension);
    ctx.reply.count(dimension.ok_or(Error::Fixed("ERR key does not exist"))?);
    Ok(())
}

pub(super) static VEMB: Command<Handler> = command("vemb", -3, vemb as Handler)
    .flags(READS_FAST)
    .keys(KEY)
    .syntax("key:k0 element ?RAW")
    .doc(GROUP, "8.0.0", "O(1)", "Returns the vector of an element.");

fn vemb(ctx: &mut Context<'_>) -> Outcome {
    let mut rest = ctx.rest(3);
    let mut is_raw = false;
    while rest.left() > 0 {
        if !rest.word("RAW") {
            return Err(Error::Fixed("ERR invalid option"));
        }
        is_raw = true;
    }
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    let found = keys.read::<martlet_values::Vectors>(&key)?.and_then(|set| Some((set, set.get(name)?.0)));
    let Some((set, slot)) = found else {
        reply.null();
        return Ok(());
    };
    if !is_raw {
        let components = set.graph().components(slot).unwrap_or_default();
        reply.array(components.len());
        components.iter().for_each(|component| reply.double(f64::from(*component)));
        return Ok(());
    }
    let (bytes, range, length) = set.graph().stored(slot).unwrap_or_default();
    let encoding = set.config().encoding;
    reply.array(if encoding == Encoding::Q8 { 4 } else { 3 });
    reply.simple(encoding.name());
    reply.bulk(&bytes);
    reply.double(f64::from(length));
    if encoding == Encoding::Q8 {
        reply.double(f64::from(range));
    }
    Ok(())
}

pub(super) static VGETATTR: Command<Handler> = command("vgetattr", 3, vgetattr as Handler)
    .flags(READS_FAST)
    .keys(KEY)
    .syntax("key:k0 element")
    .doc(GROUP, "8.0.0", "O(1)", "Returns the attribute of an element.");

fn vgetattr(ctx: &mut Context<'_>) -> Outcome {
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    let element = keys.read::<martlet_values::Vectors>(&key)?.and_then(|set| set.get(name));
    reply.bulk_or_null(element.and_then(|(_, element)| element.attribute.as_deref()));
    Ok(())
}

pub(super) static VINFO: Command<Handler> = command("vinfo", 2, vinfo as Handler)
    .flags(READS_FAST)
    .keys(KEY)
    .syntax("key:k0")
    .doc(GROUP, "8.0.0", "O(1)", "Describes a vector set.");

fn vinfo(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let Some(set) = keys.read::<martlet_values::Vectors>(&key)? else {
        reply.null_array();
        return Ok(());
    };
    let (config, graph) = (set.config(), set.graph());
    let numbers = [
        ("hnsw-m", config.m as u64),
        ("vector-dim", config.dimension as u64),
        ("projection-input-dim", set.projection().map_or(0, |projection| projection.input()) as u64),
        ("size", set.len() as u64),
        ("max-level", u64::from(graph.level_max())),
        ("attributes-count", set.attributes() as u64),
        ("vset-uid", set.uid()),
        ("hnsw-max-node-uid", graph.last_id()),
    ];
    reply.map(1 + numbers.len());
    reply.simple("quant-type");
    reply.simple(config.encoding.name());
    for (name, number) in numbers {
        reply.simple(name);
        reply.unsigned(number);
    }
    Ok(())
}

pub(super) static VISMEMBER: Command<Handler> = command("vismember", 3, vismember as Handler)
    .flags(Flags::READONLY)
    .keys(KEY)
    .syntax("key:k0 element")
    .doc(GROUP, "8.2.0", "O(1)", "Tells whether an element is in a vector set.");

fn vismember(ctx: &mut Context<'_>) -> Outcome {
    let name = ctx.arg(2);
    let is_member = read(ctx)?.is_some_and(|set| set.get(name).is_some());
    ctx.reply.bool(is_member);
    Ok(())
}

pub(super) static VLINKS: Command<Handler> = command("vlinks", -3, vlinks as Handler)
    .flags(READS_FAST)
    .keys(KEY)
    .syntax("key:k0 element ?WITHSCORES")
    .doc(GROUP, "8.0.0", "O(1)", "Returns the neighbours of an element on each layer of the graph.");

fn vlinks(ctx: &mut Context<'_>) -> Outcome {
    let mut rest = ctx.rest(3);
    let with_scores = rest.word("WITHSCORES");
    rest.finish().map_err(|_| Error::Arity("vlinks"))?;
    let (key, name) = (ctx.key(1), ctx.arg(2));
    let Context { keys, reply, .. } = ctx;
    let set = keys.read::<martlet_values::Vectors>(&key)?;
    let layers = set.and_then(|set| set.graph().links(set.get(name)?.0));
    let Some(layers) = layers else {
        reply.null();
        return Ok(());
    };
    reply.array(layers.len());
    for layer in layers.iter().rev() {
        match with_scores {
            true => reply.map(layer.len()),
            false => reply.array(layer.len()),
        }
        for hit in layer {
            reply.bulk(&hit.payload.name);
            if with_scores {
                reply.double(hit.link_score());
            }
        }
    }
    Ok(())
}

pub(super) static VRANDMEMBER: Command<Handler> = command("vrandmember", -2, vrandmember as Handler)
    .flags(Flags::READONLY)
    .keys(KEY)
    .syntax("key:k0 ?count:i")
    .doc(
        GROUP,
        "8.0.0",
        "O(N), N being the number of elements returned",
        "Returns random elements of a vector set.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn vrandmember(ctx: &mut Context<'_>) -> Outcome {
    let mut rest = ctx.rest(2);
    let count = rest.value().ok();
    rest.finish().map_err(|_| Error::Arity("vrandmember"))?;
    let count = count.map(|text| parse_i64(text).ok_or(Error::Fixed("ERR COUNT value is not an integer")));
    let count = count.transpose()?;
    if count.is_some_and(|count| count < -REPEATS_MAX) {
        return Err(Error::OutOfRange);
    }
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let mut random = keys.random.clone();
    match (keys.read::<martlet_values::Vectors>(&key)?, count) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => {
            let element = set.graph().random(|bound| random.below(bound));
            reply.bulk_or_null(element.as_ref().map(|(_, element)| &*element.name));
        }
        (Some(set), Some(count @ ..0)) => {
            reply.array(count.unsigned_abs() as usize);
            for _ in 0..count.unsigned_abs() {
                if let Some((_, element)) = set.graph().random(|bound| random.below(bound)) {
                    reply.bulk(&element.name);
                }
                if reply.is_full() {
                    break;
                }
            }
        }
        (Some(set), Some(count)) => {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(set.len());
            distinct(set, count, &mut random, reply);
        }
    }
    keys.random = random;
    Ok(())
}

/// Writes `count` different elements, each with the same chance; at most as many as there are.
fn distinct(set: &VectorSet, count: usize, random: &mut Random, reply: &mut Reply) {
    reply.array(count);
    if count <= set.len() / 2 {
        let mut seen = HashSet::with_capacity(count);
        while seen.len() < count {
            let Some((slot, element)) = set.graph().random(|bound| random.below(bound)) else { break };
            if seen.insert(slot) {
                reply.bulk(&element.name);
            }
        }
        return;
    }
    let mut elements: Vec<_> = set.range(Bound::Unbounded, Bound::Unbounded).collect();
    for place in 0..count {
        let left = (elements.len() - place) as u64;
        elements.swap(place, place + random.below(left) as usize);
        reply.bulk(&elements[place].name);
    }
}

pub(super) static VRANGE: Command<Handler> = command("vrange", -4, vrange as Handler)
    .flags(Flags::READONLY)
    .keys(KEY)
    .syntax("key:k0 start end ?count:i")
    .doc(
        GROUP,
        "8.4.0",
        "O(log(N)+M), N being the number of elements in the vector set and M the number returned",
        "Returns elements of a vector set in the order of their names.",
    );

/// An end of a range: `-` or `+`, `[name`, `(name`; `None` for anything else.
fn bound(text: &[u8]) -> Option<Bound<&[u8]>> {
    match text {
        b"-" | b"+" => Some(Bound::Unbounded),
        [b'[', name @ ..] if !name.is_empty() => Some(Bound::Included(name)),
        [b'(', name @ ..] if !name.is_empty() => Some(Bound::Excluded(name)),
        _ => None,
    }
}

fn vrange(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 5 {
        return Err(Error::Arity("vrange"));
    }
    let count = match ctx.argc() {
        5 => Some(parse_i64(ctx.arg(4)).ok_or(Error::Fixed("ERR invalid COUNT value"))?),
        _ => None,
    };
    let (start, end) = (ctx.arg(2), ctx.arg(3));
    let from = bound(start).ok_or(Error::Fixed("ERR invalid start range format"))?;
    let to = bound(end).ok_or(Error::Fixed("ERR invalid end range format"))?;
    if start == b"+" || end == b"-" {
        return Err(Error::Fixed("ERR '-' can only be used as first argument, '+' only as second"));
    }
    // A negative one is no limit.
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let key = ctx.key(1);
    let Context { keys, reply, .. } = ctx;
    let place = reply.defer();
    let mut written = 0;
    if let Some(set) = keys.read::<martlet_values::Vectors>(&key)? {
        for element in set.range(from, to).take(count) {
            reply.bulk(&element.name);
            written += 1;
            if reply.is_full() {
                break;
            }
        }
    }
    reply.close_array(place, written);
    Ok(())
}
