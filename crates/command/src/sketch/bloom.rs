//! BF.*: Bloom filters.
//!
//! A filter that an item is added to is created with the parameters `bf-*`. Reads of a key that is not there
//! find nothing; BF.EXISTS and BF.MEXISTS do so for other types as well, as in Redis.

use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_sketch::Bloom;
use martlet_sketch::bloom::{BloomError, Options};
use martlet_spec::{Acl, Command, Error, KeyPart, Outcome, command};
use martlet_values::Sketch;

use super::{
    ANSWERS_AND_UPDATES, ASKS, CREATES, EXISTS as PRESENT, FILLS, GROUP, NOT_FOUND, READS, READS_FAST, RO,
    WRITES, WRITES_FAST, change, changed, find_word, float, int, items, record_with_creation, refuse_present,
    refused, store,
};
use crate::Handler;
use crate::context::Context;

type Filter = Sketch<Bloom>;

const NOT_NUMERIC: &str = "ERR Second argument must be numeric";

/// The filter of a command that reads.
fn read<'a>(ctx: &'a mut Context<'_>) -> Result<(&'a Filter, &'a mut Reply, Args<'a>), Error> {
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    Ok((keys.read::<Filter>(&key)?.ok_or(NOT_FOUND)?, reply, *args))
}

pub(super) static RESERVE: Command<Handler> = command("bf.reserve", -4, reserve as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES)])
    .acl(WRITES_FAST.with(Acl::BLOOM))
    .syntax("key:k0 error_rate:d capacity:i ?expansion:i=EXPANSION ?NONSCALING")
    .doc(GROUP, "1.0.0", "O(1)", "Creates an empty Bloom filter.");

fn reserve(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 7 {
        return Err(Error::Arity("bf.reserve"));
    }
    let options = reserve_options(&ctx.args, ctx.settings.sketch.bloom)?;
    let key = ctx.key(1);
    refuse_present::<Filter>(ctx.keys, &key, PRESENT, Error::WrongType)?;
    let filter = Bloom::new(options).map_err(refused)?;
    store(ctx.keys, &key, Sketch(filter));
    ctx.reply.ok();
    Ok(())
}

/// The options behind the key. Words that mean nothing are passed over, as in Redis.
fn reserve_options(args: &Args<'_>, defaults: Options) -> Result<Options, Error> {
    let sound = Options::default();
    let error_rate = float(args, 2, "ERR bad error rate")?;
    let error_rate = Options { error_rate, ..sound }.checked().map_err(refused)?.error_rate;
    let capacity = int(args, 3, "ERR bad capacity")?;
    let capacity = u64::try_from(capacity).unwrap_or(0);
    Options { capacity, ..sound }.checked().map_err(refused)?;
    let is_scaling = defaults.expansion > 0 && find_word(args, 4, "NONSCALING").is_none();
    let Some(place) = find_word(args, 4, "EXPANSION") else {
        return Ok(Options { error_rate, capacity, expansion: defaults.expansion, is_scaling });
    };
    if place + 1 == args.len() {
        return Err(Error::Fixed("ERR no expansion"));
    }
    let expansion = int(args, place + 1, "ERR bad expansion")?;
    if expansion != 0 && !is_scaling {
        return Err(refused(BloomError::NonScalingExpansion));
    }
    let expansion = u32::try_from(expansion).unwrap_or(u32::MAX);
    Options { error_rate, capacity, expansion, is_scaling }.checked().map_err(refused)
}

/// BF.RESERVE of these options.
fn creation(key: &[u8], options: Options) -> Vec<Vec<u8>> {
    let (error, capacity) = (options.error_rate.to_string(), options.capacity.to_string());
    let mut words: Vec<Vec<u8>> =
        [b"BF.RESERVE", key, error.as_bytes(), capacity.as_bytes()].into_iter().map(<[u8]>::to_vec).collect();
    if options.is_scaling || options.expansion == 0 {
        words.extend([b"EXPANSION".to_vec(), options.expansion.to_string().into_bytes()]);
    } else {
        words.push(b"NONSCALING".to_vec());
    }
    words
}

/// How a command adds items.
struct Adding {
    /// The first item's argument.
    from: usize,
    /// Options of a filter that is created; `None` if none is.
    options: Option<Options>,
    /// Whether they are those that every server has.
    are_known: bool,
}

/// Adds the items to a filter, which is created if need be.
fn add_items(ctx: &mut Context<'_>, adding: &Adding) -> Outcome {
    let (key, items) = (ctx.key(1), items(&ctx.args, adding.from));
    let results = match change(ctx.keys, &key, |filter: &mut Filter| filter.add_all(&items))? {
        Some(results) => results,
        None => create_with(ctx, &key, &items, adding)?,
    };
    // An item that was new has changed the filter; a fresh filter always takes its first.
    if results.contains(&Ok(true)) {
        changed(ctx.keys, &key);
    }
    let reply = &mut *ctx.reply;
    reply.array(results.len());
    for result in results {
        match result {
            Ok(is_new) => reply.bool(is_new),
            Err(error) => reply.error(error.to_string()),
        }
    }
    Ok(())
}

/// Creates a filter that has the items.
fn create_with(
    ctx: &mut Context<'_>,
    key: &Key<'_>,
    items: &[&[u8]],
    adding: &Adding,
) -> Result<Vec<Result<bool, BloomError>>, Error> {
    let options = adding.options.ok_or(NOT_FOUND)?;
    let mut filter = Bloom::new(options).map_err(refused)?;
    let results = filter.add_all(items);
    super::put(ctx.keys, key, Sketch(filter));
    if !adding.are_known {
        record_with_creation(ctx, creation(key.bytes, options));
    }
    Ok(results)
}

pub(super) static ADD: Command<Handler> = command("bf.add", 3, add as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::BLOOM))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K), K being the number of hashes of the newest link",
        "Adds an item to a Bloom filter, which is created if it is not there.",
    );

fn add(ctx: &mut Context<'_>) -> Outcome {
    let (key, item) = (ctx.key(1), ctx.arg(2));
    let is_new = match change(ctx.keys, &key, |filter: &mut Filter| filter.add(item))? {
        Some(added) => added.map_err(refused)?,
        None => {
            let adding = by_parameters(ctx, 2);
            create_with(ctx, &key, &[item], &adding)?.contains(&Ok(true))
        }
    };
    if is_new {
        changed(ctx.keys, &key);
    }
    ctx.reply.bool(is_new);
    Ok(())
}

/// Adding that creates a filter by the server's parameters.
fn by_parameters(ctx: &Context<'_>, from: usize) -> Adding {
    let options = ctx.settings.sketch.bloom;
    let are_known = options == Options::default();
    let options = Options { is_scaling: options.expansion > 0, ..options };
    Adding { from, options: Some(options), are_known }
}

pub(super) static MADD: Command<Handler> = command("bf.madd", -3, madd as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::BLOOM))
    .syntax("key:k0 *item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K * N), K being the number of hashes and N that of items",
        "Adds items to a Bloom filter, which is created if it is not there.",
    );

fn madd(ctx: &mut Context<'_>) -> Outcome {
    let adding = by_parameters(ctx, 2);
    add_items(ctx, &adding)
}

pub(super) static INSERT: Command<Handler> = command("bf.insert", -4, insert as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::BLOOM))
    .syntax(
        "key:k0 ?capacity:i=CAPACITY ?error:d=ERROR ?expansion:i=EXPANSION ?NOCREATE ?NONSCALING ITEMS *item",
    )
    .doc(
        GROUP,
        "1.0.0",
        "O(K * N), K being the number of hashes and N that of items",
        "Adds items to a Bloom filter, which is created with the options given if it is not there.",
    );

fn insert(ctx: &mut Context<'_>) -> Outcome {
    let adding = insert_options(ctx)?;
    add_items(ctx, &adding)
}

/// The options up to ITEMS. Redis tells them by their first letters, and so does this.
fn insert_options(ctx: &Context<'_>) -> Result<Adding, Error> {
    const WRONG_ARITY: Error = Error::Arity("bf.insert");
    let (args, sound) = (&ctx.args, Options::default());
    let mut adding = by_parameters(ctx, 0);
    let mut options = Options { is_scaling: true, ..ctx.settings.sketch.bloom };
    let (mut creates, mut is_scaling, mut at) = (true, options.expansion > 0, 2);
    while at < args.len() && adding.from == 0 {
        let letter = |index: usize| args.at(at).get(index).map_or(0, u8::to_ascii_lowercase);
        let takes_value = matches!(letter(0), b'e' | b'c');
        let value = at + 1;
        if takes_value && value == args.len() {
            return Err(WRONG_ARITY);
        }
        match (letter(0), letter(1), letter(2)) {
            (b'i', ..) => adding.from = value,
            (b'e', b'r', _) => {
                options.error_rate = float(args, value, "Bad error rate")?;
                let checked = Options { error_rate: options.error_rate, ..sound }.checked();
                options.error_rate = checked.map_err(|_| Error::Fixed("Bad error rate"))?.error_rate;
            }
            (b'e', ..) => {
                let expansion = int(args, value, "Bad expansion")?;
                options.expansion = u32::try_from(expansion)
                    .ok()
                    .filter(|expansion| *expansion <= Options::EXPANSION_MAX)
                    .ok_or(Error::Fixed("Bad expansion"))?;
            }
            (b'c', ..) => {
                let capacity = int(args, value, "Bad capacity")?;
                options.capacity = u64::try_from(capacity).unwrap_or(0);
                let checked = Options { capacity: options.capacity, ..sound }.checked();
                checked.map_err(|_| Error::Fixed("Bad capacity"))?;
            }
            (b'n', _, b'c') => creates = false,
            (b'n', ..) => is_scaling = false,
            _ => return Err(Error::Fixed("Unknown argument received")),
        }
        at = value + usize::from(takes_value);
    }
    if adding.from == 0 || adding.from == args.len() {
        return Err(WRONG_ARITY);
    }
    options.is_scaling = is_scaling && options.expansion > 0;
    adding.options = creates.then_some(options);
    Ok(adding)
}

pub(super) static EXISTS: Command<Handler> = command("bf.exists", 3, exists as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::BLOOM))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K), K being the number of hashes of a link",
        "Returns whether an item may be in a Bloom filter.",
    );

fn exists(ctx: &mut Context<'_>) -> Outcome {
    let (key, item) = (ctx.key(1), ctx.arg(2));
    let filter = ctx.keys.lookup(&key).and_then(|entry| entry.object::<Filter>());
    ctx.reply.bool(filter.is_some_and(|filter| filter.contains(item)));
    Ok(())
}

pub(super) static MEXISTS: Command<Handler> = command("bf.mexists", -3, mexists as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::BLOOM))
    .syntax("key:k0 *item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K * N), K being the number of hashes and N that of items",
        "Returns which items may be in a Bloom filter.",
    );

fn mexists(ctx: &mut Context<'_>) -> Outcome {
    let (key, items) = (ctx.key(1), items(&ctx.args, 2));
    let filter = ctx.keys.lookup(&key).and_then(|entry| entry.object::<Filter>());
    ctx.reply.array(items.len());
    match filter {
        Some(filter) => filter.contains_all(&items).into_iter().for_each(|is| ctx.reply.bool(is)),
        None => items.iter().for_each(|_| ctx.reply.bool(false)),
    }
    Ok(())
}

pub(super) static SCANDUMP: Command<Handler> = command("bf.scandump", 3, scandump as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::BLOOM))
    .syntax("key:k0 iterator:i")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the length of a piece, 16 MB at most",
        "Returns a piece of a Bloom filter and the position behind it.",
    );

fn scandump(ctx: &mut Context<'_>) -> Outcome {
    let (filter, reply, args) = read(ctx)?;
    let position = int(&args, 2, "Second argument must be numeric")?;
    let chunk = filter.scan_dump(position);
    reply.array(2);
    reply.int(chunk.next);
    reply.bulk(&chunk.bytes);
    Ok(())
}

pub(super) static LOADCHUNK: Command<Handler> = command("bf.loadchunk", 4, loadchunk as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, super::UPDATES)])
    .acl(WRITES.with(Acl::BLOOM))
    .syntax("key:k0 iterator:i data")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the length of the piece",
        "Loads a piece of a Bloom filter that BF.SCANDUMP gave.",
    );

fn loadchunk(ctx: &mut Context<'_>) -> Outcome {
    let (position, piece, key) = (int(&ctx.args, 2, NOT_NUMERIC)?, ctx.arg(3), ctx.key(1));
    match change(ctx.keys, &key, |filter: &mut Filter| filter.load_chunk(position, piece))? {
        Some(loaded) => loaded.map_err(refused)?,
        None if position == 1 => {
            let filter = Bloom::from_header(piece).map_err(refused)?;
            super::put(ctx.keys, &key, Sketch(filter));
        }
        None => return Err(NOT_FOUND),
    }
    changed(ctx.keys, &key);
    ctx.reply.ok();
    Ok(())
}

pub(super) static INFO: Command<Handler> = command("bf.info", -2, info as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::BLOOM))
    .syntax("key:k0 ?single_value(CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION)")
    .doc(GROUP, "1.0.0", "O(1)", "Returns facts about a Bloom filter.");

fn info(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc() > 3 {
        return Err(Error::Arity("bf.info"));
    }
    let (filter, reply, args) = read(ctx)?;
    let facts = [
        ("CAPACITY", "Capacity", Some(filter.capacity() as i64)),
        ("SIZE", "Size", Some(filter.redis_bytes() as i64)),
        ("FILTERS", "Number of filters", Some(filter.links().len() as i64)),
        ("ITEMS", "Number of items inserted", Some(filter.len() as i64)),
        ("EXPANSION", "Expansion rate", filter.expansion().map(i64::from)),
    ];
    let write = |reply: &mut Reply, value: Option<i64>| match value {
        Some(value) => reply.int(value),
        None => reply.null(),
    };
    let Some(word) = args.get(2) else {
        reply.map(facts.len());
        for (_, name, value) in facts {
            reply.simple(name);
            write(reply, value);
        }
        return Ok(());
    };
    let wanted = facts.iter().find(|(known, ..)| word.eq_ignore_ascii_case(known.as_bytes()));
    let (_, name, value) = wanted.ok_or(Error::Fixed("Invalid information value"))?;
    if reply.is_resp3() {
        reply.map(1);
        reply.simple(name);
    } else {
        reply.array(1);
    }
    write(reply, *value);
    Ok(())
}

pub(super) static CARD: Command<Handler> = command("bf.card", 2, card as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::BLOOM))
    .syntax("key:k0")
    .doc(GROUP, "2.4.4", "O(1)", "Returns how many items were added to a Bloom filter.");

fn card(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(1);
    let count = ctx.keys.read::<Filter>(&key)?.map_or(0, |filter| filter.len());
    ctx.reply.unsigned(count);
    Ok(())
}

pub(super) static DEBUG: Command<Handler> = command("bf.debug", 2, debug as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::BLOOM))
    .syntax("key:k0")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the number of links",
        "Returns how the links of a Bloom filter are made.",
    );

fn debug(ctx: &mut Context<'_>) -> Outcome {
    let (filter, reply, _) = read(ctx)?;
    let links = filter.links();
    reply.array(1 + links.len());
    reply.bulk(format!("size:{}", filter.len()).as_bytes());
    for link in links {
        let line = format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{} capacity:{} size:{} ratio:{}",
            link.bytes,
            link.bits,
            link.hashes,
            link.hash_width,
            link.capacity,
            link.size,
            super::six_digits(link.error_rate)
        );
        reply.bulk(line.as_bytes());
    }
    Ok(())
}
