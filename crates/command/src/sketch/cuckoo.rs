//! CF.*: cuckoo filters.
//!
//! A filter that an item is added to is created with the parameters `cf-*`. Reads of a key that is not there,
//! or holds another type, find nothing, as in Redis.

use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_sketch::Cuckoo;
use martlet_sketch::cuckoo::{CuckooError, Options};
use martlet_spec::{Acl, Command, Error, Flags, KeyPart, Outcome, command};
use martlet_values::Sketch;

use super::{
    ANSWERS_AND_UPDATES, ASKS, CREATES, EXISTS as PRESENT, FILLS, GROUP, NOT_FOUND, READS, READS_FAST, RO,
    UPDATES, WRITES, WRITES_FAST, change, changed, facts, find_word, int, items, put, record_with_creation,
    refuse_present, refused, store,
};
use crate::Handler;
use crate::context::Context;

type Filter = Sketch<Cuckoo>;

const INVALID_POSITION: &str = "Invalid position";

/// The filter of a command that reads.
fn read<'a>(ctx: &'a mut Context<'_>) -> Result<(&'a Filter, &'a mut Reply, Args<'a>), Error> {
    let key = ctx.key(1);
    let Context { keys, reply, args, .. } = ctx;
    Ok((keys.read::<Filter>(&key)?.ok_or(NOT_FOUND)?, reply, *args))
}

pub(super) static RESERVE: Command<Handler> = command("cf.reserve", -3, reserve as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, CREATES)])
    .acl(WRITES_FAST.with(Acl::CUCKOO))
    .syntax(
        "key:k0 capacity:i ?bucketsize:i=BUCKETSIZE ?maxiterations:i=MAXITERATIONS ?expansion:i=EXPANSION",
    )
    .doc(GROUP, "1.0.0", "O(1)", "Creates an empty cuckoo filter.");

fn reserve(ctx: &mut Context<'_>) -> Outcome {
    if ctx.argc().is_multiple_of(2) {
        return Err(Error::Arity("cf.reserve"));
    }
    let options = reserve_options(&ctx.args, ctx.settings.sketch.cuckoo)?;
    let key = ctx.key(1);
    // No option that is accepted makes a table that is too large.
    let filter = Cuckoo::new(options).map_err(refused)?;
    refuse_present::<Filter>(ctx.keys, &key, PRESENT, Error::WrongType)?;
    store(ctx.keys, &key, Sketch(filter));
    ctx.reply.ok();
    Ok(())
}

/// The options behind the key. Words that mean nothing are passed over, as in Redis; each option is checked
/// before the next one is read.
fn reserve_options(args: &Args<'_>, defaults: Options) -> Result<Options, Error> {
    let mut options = Options { capacity: int(args, 2, "Bad capacity")?, ..defaults };
    let checked = |options: Options| Cuckoo::new(Options { capacity: Options::CAPACITY_MAX, ..options });
    let option = |word: &str, error: &'static str| match find_word(args, 3, word) {
        None => Ok(None),
        Some(place) if place + 1 == args.len() => Err(Error::Arity("cf.reserve")),
        Some(place) => int(args, place + 1, error).map(Some),
    };
    if let Some(count) = option("MAXITERATIONS", "Couldn't parse MAXITERATIONS")? {
        options.max_iterations = count;
        checked(options).map_err(refused)?;
    }
    if let Some(size) = option("BUCKETSIZE", "Couldn't parse BUCKETSIZE")? {
        options.bucket_size = size;
        checked(options).map_err(refused)?;
    }
    if let Some(factor) = option("EXPANSION", "Couldn't parse EXPANSION")? {
        options.expansion = factor;
        checked(options).map_err(refused)?;
    }
    Ok(options)
}

/// CF.RESERVE of these options.
fn creation(key: &[u8], options: Options) -> Vec<Vec<u8>> {
    let numbers = [
        ("BUCKETSIZE", options.bucket_size),
        ("MAXITERATIONS", options.max_iterations),
        ("EXPANSION", options.expansion),
    ];
    let mut words = vec![b"CF.RESERVE".to_vec(), key.to_vec(), options.capacity.to_string().into_bytes()];
    words.extend(
        numbers.iter().flat_map(|(name, value)| [name.as_bytes().to_vec(), value.to_string().into()]),
    );
    words
}

/// How a command adds items.
struct Adding {
    /// The first item's argument.
    from: usize,
    /// Only items that are not there.
    only_new: bool,
    /// Options of a filter that is created; `None` if none is.
    options: Option<Options>,
}

/// Adds the items to a filter, which is created if need be; whether each was added.
fn add_items(ctx: &mut Context<'_>, adding: &Adding) -> Result<Vec<Result<bool, CuckooError>>, Error> {
    let (key, items) = (ctx.key(1), items(&ctx.args, adding.from));
    let filters_max = ctx.settings.sketch.cuckoo_max_expansions;
    let add = |filter: &mut Filter| {
        filter.check_expansions(filters_max).map(|()| filter.add_all(&items, adding.only_new))
    };
    let results = match change(ctx.keys, &key, add)? {
        Some(results) => results.map_err(refused)?,
        None => create_with(ctx, &key, &items, adding)?,
    };
    if results.contains(&Ok(true)) {
        changed(ctx.keys, &key);
    }
    Ok(results)
}

/// Creates a filter that has the items.
fn create_with(
    ctx: &mut Context<'_>,
    key: &Key<'_>,
    items: &[&[u8]],
    adding: &Adding,
) -> Result<Vec<Result<bool, CuckooError>>, Error> {
    let options = adding.options.ok_or(NOT_FOUND)?;
    let mut filter = Cuckoo::new(options).map_err(refused)?;
    filter.check_expansions(ctx.settings.sketch.cuckoo_max_expansions).map_err(refused)?;
    let results = filter.add_all(items, adding.only_new);
    put(ctx.keys, key, Sketch(filter));
    if ctx.settings.sketch.cuckoo != Options::default() {
        record_with_creation(ctx, creation(key.bytes, options));
    }
    Ok(results)
}

/// Adds one item; a reply of one value.
fn add_one(ctx: &mut Context<'_>, only_new: bool) -> Outcome {
    let adding = Adding { from: 2, only_new, options: Some(ctx.settings.sketch.cuckoo) };
    let is_added = add_items(ctx, &adding)?.into_iter().next().unwrap_or(Ok(false)).map_err(refused)?;
    ctx.reply.bool(is_added);
    Ok(())
}

pub(super) static ADD: Command<Handler> = command("cf.add", 3, add as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K + I), K being the number of filters and I that of iterations",
        "Adds an item to a cuckoo filter, once more if it is there. The filter is created if it is not there.",
    );

fn add(ctx: &mut Context<'_>) -> Outcome {
    add_one(ctx, false)
}

pub(super) static ADDNX: Command<Handler> = command("cf.addnx", 3, addnx as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K + I), K being the number of filters and I that of iterations",
        "Adds an item to a cuckoo filter unless it may be there. The filter is created if it is not there.",
    );

fn addnx(ctx: &mut Context<'_>) -> Outcome {
    add_one(ctx, true)
}

const INSERT_SYNTAX: &str = "key:k0 ?capacity:i=CAPACITY ?NOCREATE ITEMS *item";

pub(super) static INSERT: Command<Handler> = command("cf.insert", -4, insert as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax(INSERT_SYNTAX)
    .doc(
        GROUP,
        "1.0.0",
        "O(N * (K + I)), N being the number of items, K that of filters and I that of iterations",
        "Adds items to a cuckoo filter, which is created with the capacity given if it is not there.",
    );

fn insert(ctx: &mut Context<'_>) -> Outcome {
    insert_items(ctx, false, "cf.insert")
}

pub(super) static INSERTNX: Command<Handler> = command("cf.insertnx", -4, insertnx as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax(INSERT_SYNTAX)
    .doc(
        GROUP,
        "1.0.0",
        "O(N * (K + I)), N being the number of items, K that of filters and I that of iterations",
        "Adds the items that may not be there to a cuckoo filter, which is created if it is not there.",
    );

fn insertnx(ctx: &mut Context<'_>) -> Outcome {
    insert_items(ctx, true, "cf.insertnx")
}

/// Adds several items; an item without room is -1, or false where the others are booleans.
fn insert_items(ctx: &mut Context<'_>, only_new: bool, name: &'static str) -> Outcome {
    let adding = insert_options(ctx, only_new, name)?;
    let results = add_items(ctx, &adding)?;
    let reply = &mut *ctx.reply;
    let has_booleans = reply.is_resp3() && !only_new;
    reply.array(results.len());
    for result in results {
        match result {
            Ok(is_added) if has_booleans => reply.bool(is_added),
            Ok(is_added) => reply.int(i64::from(is_added)),
            Err(_) if has_booleans => reply.bool(false),
            Err(_) => reply.int(-1),
        }
    }
    Ok(())
}

/// The options up to ITEMS. Redis tells them by their first letters, and so does this.
fn insert_options(ctx: &Context<'_>, only_new: bool, name: &'static str) -> Result<Adding, Error> {
    let (args, mut options) = (&ctx.args, ctx.settings.sketch.cuckoo);
    let (mut from, mut creates, mut at) = (0, true, 2);
    while at < args.len() && from == 0 {
        at += 1;
        match args.at(at - 1).first().map(u8::to_ascii_lowercase) {
            Some(b'c') if at == args.len() => return Err(Error::Arity(name)),
            Some(b'c') => {
                options.capacity = int(args, at, "Bad capacity")?;
                at += 1;
                if !(2 * options.bucket_size..=Options::CAPACITY_MAX).contains(&options.capacity) {
                    return Err(Error::Text(format!(
                        "Capacity must be in the range [cf-bucket-size * 2, {}]",
                        Options::CAPACITY_MAX
                    )));
                }
            }
            Some(b'i') => from = at,
            Some(b'n') => creates = false,
            _ => return Err(Error::Fixed("Unknown argument received")),
        }
    }
    if from == 0 || from == args.len() {
        return Err(Error::Arity(name));
    }
    Ok(Adding { from, only_new, options: creates.then_some(options) })
}

pub(super) static EXISTS: Command<Handler> = command("cf.exists", 3, exists as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::CUCKOO))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K), K being the number of filters",
        "Returns whether an item may be in a cuckoo filter.",
    );

fn exists(ctx: &mut Context<'_>) -> Outcome {
    let (key, item) = (ctx.key(1), ctx.arg(2));
    let filter = ctx.keys.lookup(&key).and_then(|entry| entry.object::<Filter>());
    ctx.reply.bool(filter.is_some_and(|filter| filter.contains(item)));
    Ok(())
}

pub(super) static MEXISTS: Command<Handler> = command("cf.mexists", -3, mexists as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::CUCKOO))
    .syntax("key:k0 *item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K * N), K being the number of filters and N that of items",
        "Returns which items may be in a cuckoo filter.",
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

pub(super) static COUNT: Command<Handler> = command("cf.count", 3, count as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::CUCKOO))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K), K being the number of filters",
        "Returns how often an item may have been added to a cuckoo filter.",
    );

fn count(ctx: &mut Context<'_>) -> Outcome {
    let (key, item) = (ctx.key(1), ctx.arg(2));
    let filter = ctx.keys.lookup(&key).and_then(|entry| entry.object::<Filter>());
    ctx.reply.unsigned(filter.map_or(0, |filter| filter.count(item)));
    Ok(())
}

pub(super) static DEL: Command<Handler> = command("cf.del", 3, del as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, ANSWERS_AND_UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax("key:k0 item")
    .doc(
        GROUP,
        "1.0.0",
        "O(K), K being the number of filters; at times O(N), N being the number of their buckets",
        "Deletes an item once from a cuckoo filter.",
    );

fn del(ctx: &mut Context<'_>) -> Outcome {
    const NOT_FOUND: Error = Error::Fixed("Not found");
    let (key, item) = (ctx.key(1), ctx.arg(2));
    let filter = ctx.keys.write::<Filter>(&key).map_err(|_| NOT_FOUND)?;
    let is_deleted = filter.ok_or(NOT_FOUND)?.delete(item);
    if is_deleted {
        changed(ctx.keys, &key);
    }
    ctx.reply.bool(is_deleted);
    Ok(())
}

pub(super) static COMPACT: Command<Handler> = command("cf.compact", 2, compact as Handler)
    .flags(Flags::WRITE.with(Flags::FAST))
    .keys(&[KeyPart::one(1, UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax("key:k0")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the number of buckets",
        "Moves the items of a cuckoo filter to its oldest filters that have room.",
    );

fn compact(ctx: &mut Context<'_>) -> Outcome {
    const NOT_FOUND: Error = Error::Fixed("Cuckoo filter was not found");
    let key = ctx.key(1);
    let filter = ctx.keys.write::<Filter>(&key).map_err(|_| NOT_FOUND)?;
    filter.ok_or(NOT_FOUND)?.compact();
    changed(ctx.keys, &key);
    ctx.reply.ok();
    Ok(())
}

pub(super) static SCANDUMP: Command<Handler> = command("cf.scandump", 3, scandump as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::CUCKOO))
    .syntax("key:k0 iterator:i")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the length of a piece, 16 MB at most",
        "Returns a piece of a cuckoo filter and the position behind it.",
    );

fn scandump(ctx: &mut Context<'_>) -> Outcome {
    let position = int(&ctx.args, 2, INVALID_POSITION)?;
    if position < 0 {
        return Err(Error::Fixed(INVALID_POSITION));
    }
    let (filter, reply, _) = read(ctx)?;
    reply.array(2);
    match filter.scan_dump(position) {
        Some(chunk) => {
            reply.int(chunk.next);
            reply.bulk(&chunk.bytes);
        }
        None => {
            reply.int(0);
            reply.null();
        }
    }
    Ok(())
}

pub(super) static LOADCHUNK: Command<Handler> = command("cf.loadchunk", 4, loadchunk as Handler)
    .flags(FILLS)
    .keys(&[KeyPart::one(1, UPDATES)])
    .acl(WRITES.with(Acl::CUCKOO))
    .syntax("key:k0 iterator:i data")
    .doc(
        GROUP,
        "1.0.0",
        "O(N), N being the length of the piece",
        "Loads a piece of a cuckoo filter that CF.SCANDUMP gave.",
    );

fn loadchunk(ctx: &mut Context<'_>) -> Outcome {
    let (position, piece, key) = (int(&ctx.args, 2, INVALID_POSITION)?, ctx.arg(3), ctx.key(1));
    if position == 0 {
        return Err(Error::Fixed(INVALID_POSITION));
    }
    if position == 1 {
        refuse_present::<Filter>(ctx.keys, &key, PRESENT, Error::WrongType)?;
        let filter = Cuckoo::from_header(piece).map_err(refused)?;
        put(ctx.keys, &key, Sketch(filter));
    } else {
        let filter = ctx.keys.write::<Filter>(&key)?;
        filter.ok_or(NOT_FOUND)?.load_chunk(position, piece).map_err(refused)?;
    }
    changed(ctx.keys, &key);
    ctx.reply.ok();
    Ok(())
}

pub(super) static INFO: Command<Handler> = command("cf.info", 2, info as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS_FAST.with(Acl::CUCKOO))
    .syntax("key:k0")
    .doc(GROUP, "1.0.0", "O(1)", "Returns facts about a cuckoo filter.");

fn info(ctx: &mut Context<'_>) -> Outcome {
    let (filter, reply, _) = read(ctx)?;
    let info = filter.info();
    facts(
        reply,
        &[
            ("Size", info.redis_bytes as i64),
            ("Number of buckets", info.buckets as i64),
            ("Number of filters", info.filters as i64),
            ("Number of items inserted", info.items as i64),
            ("Number of items deleted", info.deletes as i64),
            ("Bucket size", i64::from(info.bucket_size)),
            ("Expansion rate", i64::from(info.expansion)),
            ("Max iterations", i64::from(info.max_iterations)),
        ],
    );
    Ok(())
}

pub(super) static DEBUG: Command<Handler> = command("cf.debug", 2, debug as Handler)
    .flags(ASKS)
    .keys(&[KeyPart::one(1, RO)])
    .acl(READS.with(Acl::CUCKOO))
    .syntax("key:k0")
    .doc(GROUP, "1.0.0", "O(1)", "Returns facts about a cuckoo filter in one line.");

fn debug(ctx: &mut Context<'_>) -> Outcome {
    let (filter, reply, _) = read(ctx)?;
    let info = filter.info();
    let line = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        info.bucket_size,
        info.buckets,
        info.items,
        info.deletes,
        info.filters,
        info.max_iterations,
        info.expansion
    );
    reply.bulk(line.as_bytes());
    Ok(())
}
