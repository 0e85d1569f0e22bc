//! TOPK.*: the most frequent items.
//!
//! Chance is part of the sketch itself, which has the generator's state: a request that is run again on a
//! replica, or from a file, does the same.

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_sketch::TopK;
use martlet_sketch::topk::Options;
use martlet_spec::{Acl, Command, Error, Flags, KeyPart, Outcome, command};
use martlet_values::Sketch;

use super::{
    ANSWERS_AND_UPDATES, CREATES, FILLS, GROUP, READS, READS_FAST, RO, WRITES, WRITES_FAST, changed, float,
    int, refuse_present, refused, store,
};
use crate::Handler;
use crate::context::Context;

type Listed = Sketch<TopK>;

const ABSENT: Error = Error::Fixed("TopK: key does not exist");
const PRESENT: Error = Error::Fixed("TopK: key already exists");

/// The sketch of a command that reads.
fn read<'a>(ctx: &'a mut Context<'_>) -> Result<(&'a Listed, &'a mut Reply, Args<'a>), Error> {
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    Ok((keys.read::<Listed>(&key)?.ok_or(ABSENT)?, reply, *args))
}

pub(super) static RESERVE: Command<Handler> = command("topk.reserve", -3, reserve as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES)])
    .acl(WRITES_FAST.with(Acl::TOPK))
    .syntax("key:k0 topk:i ?params(width:i depth:i decay:d)")
    .doc(GROUP, "2.0.0", "O(1)", "Creates an empty Top-K sketch.");

fn reserve(ctx: &mut Context<'_>) -> Outcome {
    if !matches!(ctx.argc(), 3 | 6) {
        return Err(Error::Arity("topk.reserve"));
    }
    let key = ctx.key(1);
    refuse_present::<Listed>(ctx.keys, &key, PRESENT, PRESENT)?;
    // A text that is no number has the words of one that is too low.
    let number = |index| int(&ctx.args, index, "").unwrap_or(0);
    let mut options = Options::with_k(number(2));
    if ctx.argc() == 6 {
        let decay = float(&ctx.args, 5, "").unwrap_or(0.0);
        options = Options { width: number(3), depth: number(4), decay, ..options };
    }
    let listed = TopK::new(options).map_err(refused)?;
    store(ctx.keys, &key, Sketch(listed));
    ctx.reply.ok();
    Ok(())
}

pub(super) static ADD: Command<Handler> = command("topk.add", -3, add as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::TOPK))
    .syntax("key:k0 *items")
    .doc(
        GROUP,
        "2.0.0",
        "O(N * (D + K)), N being the number of items, D the depth and K that of items listed",
        "Counts items in a Top-K sketch, and returns those that left the list.",
    );

fn add(ctx: &mut Context<'_>) -> Outcome {
    let (key, args) = (ctx.key(1), ctx.args);
    let mut listed = ctx.keys.write::<Listed>(&key)?.ok_or(ABSENT)?;
    if args.len() == 3 {
        let expelled = listed.add(args.at(2), 1);
        drop(listed);
        ctx.reply.array(1);
        ctx.reply.bulk_or_null(expelled.as_deref());
    } else {
        let counted: Vec<(&[u8], u32)> = args.from(2).iter().map(|item| (item, 1)).collect();
        let expelled = listed.add_all(&counted);
        drop(listed);
        ctx.reply.array(expelled.len());
        expelled.iter().for_each(|item| ctx.reply.bulk_or_null(item.as_deref()));
    }
    changed(ctx.keys, &key);
    Ok(())
}

pub(super) static INCRBY: Command<Handler> = command("topk.incrby", -4, incrby as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::TOPK))
    .syntax("key:k0 *data(item increment:i)")
    .doc(
        GROUP,
        "2.0.0",
        "O(N * (D + K)), N being the number of items, D the depth and K that of items listed",
        "Counts items in a Top-K sketch, each as often as its increment says, and returns those that left \
         the list.",
    );

fn incrby(ctx: &mut Context<'_>) -> Outcome {
    if !ctx.argc().is_multiple_of(2) {
        return Err(Error::Arity("topk.incrby"));
    }
    let (key, args) = (ctx.key(1), ctx.args);
    let mut listed = ctx.keys.write::<Listed>(&key)?.ok_or(ABSENT)?;
    let increment = |at| TopK::check_increment(int(&args, at, "").unwrap_or(-1)).map_err(refused);
    let counted = (2..args.len()).step_by(2).map(|at| Ok((args.at(at), increment(at + 1)?)));
    let counted: Vec<(&[u8], u32)> = counted.collect::<Result<_, Error>>()?;
    let expelled = listed.add_all(&counted);
    drop(listed);
    changed(ctx.keys, &key);
    ctx.reply.array(expelled.len());
    expelled.iter().for_each(|item| ctx.reply.bulk_or_null(item.as_deref()));
    Ok(())
}

pub(super) static QUERY: Command<Handler> = command("topk.query", -3, query as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::TOPK))
    .syntax("key:k0 *item")
    .doc(
        GROUP,
        "2.0.0",
        "O(N * K), N being the number of items and K that of items listed",
        "Returns which items a Top-K sketch lists.",
    );

fn query(ctx: &mut Context<'_>) -> Outcome {
    let (listed, reply, args) = read(ctx)?;
    reply.array(args.len() - 2);
    args.from(2).iter().for_each(|item| reply.bool(listed.contains(item)));
    Ok(())
}

pub(super) static COUNT: Command<Handler> = command("topk.count", -3, count as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::TOPK))
    .syntax("key:k0 *item")
    .doc(
        GROUP,
        "2.0.0",
        "O(N * (D + K)), N being the number of items, D the depth and K that of items listed",
        "Returns the counts of items in a Top-K sketch, which may be far below the real ones.",
    )
    .deprecated("2.4.0", "`TOPK.LIST` with `WITHCOUNT`");

fn count(ctx: &mut Context<'_>) -> Outcome {
    let (listed, reply, args) = read(ctx)?;
    reply.array(args.len() - 2);
    args.from(2).iter().for_each(|item| reply.int(i64::from(listed.count(item))));
    Ok(())
}

pub(super) static LIST: Command<Handler> = command("topk.list", -2, list as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::TOPK))
    .syntax("key:k0 ?WITHCOUNT")
    .doc(
        GROUP,
        "2.0.0",
        "O(K * log(K)), K being the number of items listed",
        "Returns the items that a Top-K sketch lists, the most frequent first.",
    );

fn list(ctx: &mut Context<'_>) -> Outcome {
    let with_count = match ctx.args.get(2) {
        None => false,
        // A beginning of the word is enough for Redis.
        Some(word) if ctx.argc() == 3 && is_beginning_of(word, b"WITHCOUNT") => true,
        Some(_) if ctx.argc() == 3 => return Err(Error::Fixed("WITHCOUNT keyword expected")),
        Some(_) => return Err(Error::Arity("topk.list")),
    };
    let (listed, reply, _) = read(ctx)?;
    let list = listed.list();
    reply.array(list.len() * (1 + usize::from(with_count)));
    for (item, count) in list {
        reply.bulk(&item);
        if with_count {
            reply.int(i64::from(count));
        }
    }
    Ok(())
}

fn is_beginning_of(text: &[u8], word: &[u8]) -> bool {
    word.get(..text.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(text))
}

pub(super) static INFO: Command<Handler> = command("topk.info", 2, info as Handler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::TOPK))
    .syntax("key:k0")
    .doc(GROUP, "2.0.0", "O(1)", "Returns facts about a Top-K sketch.");

fn info(ctx: &mut Context<'_>) -> Outcome {
    let (listed, reply, _) = read(ctx)?;
    reply.map(4);
    for (name, value) in [("k", listed.k()), ("width", listed.width()), ("depth", listed.depth())] {
        reply.simple(name);
        reply.int(i64::from(value));
    }
    reply.simple("decay");
    reply.double(listed.decay_rate());
    Ok(())
}
