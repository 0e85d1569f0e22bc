//! Whole databases: emptying and exchanging them. These run alone, with all shards locked; removed values are
//! freed in the background, for which SYNC waits without any lock.

use martlet_base::slot::SLOT_COUNT;
use martlet_base::slot_ranges::parse_slot_ranges;

use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};
use martlet_spec::{Acl, Command, Databases, Error, Flags, Group, Outcome, Tip, command};

const ACL: Acl = Acl::KEYSPACE.with(Acl::DANGEROUS);
const COMPLEXITY: &str = "O(1); the keys are freed in the background";

pub(super) static FLUSHDB: Command<Handler> = command("flushdb", -1, flushdb as Handler)
    .flags(Flags::WRITE.with(Flags::EXCLUSIVE))
    .acl(ACL)
    .syntax("?flush-type(ASYNC^4.0.0|SYNC^6.2.0)")
    .doc(Group::Server, "1.0.0", COMPLEXITY, "Removes all keys of the database.")
    .history(&[("4.0.0", "Modifier `ASYNC`."), ("6.2.0", "Modifier `SYNC`.")])
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ALL_SUCCEEDED]);

fn flushdb(ctx: &mut Context<'_>) -> Outcome {
    flush(ctx, Some(ctx.keys.db()))
}

pub(super) static FLUSHALL: Command<Handler> = command("flushall", -1, flushall as Handler)
    .flags(Flags::WRITE.with(Flags::EXCLUSIVE))
    .databases(Databases::All)
    .acl(ACL)
    .syntax("?flush-type(ASYNC^4.0.0|SYNC^6.2.0)")
    .doc(Group::Server, "1.0.0", COMPLEXITY, "Removes all keys of all databases.")
    .history(&[("4.0.0", "Modifier `ASYNC`."), ("6.2.0", "Modifier `SYNC`.")])
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ALL_SUCCEEDED]);

fn flushall(ctx: &mut Context<'_>) -> Outcome {
    flush(ctx, None)?;
    ctx.keys.flushed_all = true;
    Ok(())
}

pub(super) static TRIMSLOTS: Command<Handler> = command("trimslots", -5, trimslots as Handler)
    .flags(Flags::WRITE.with(Flags::EXCLUSIVE))
    .databases(Databases::All)
    .acl(ACL)
    .syntax("ranges=RANGES(numranges:i *slots(startslot:i endslot:i))")
    .doc(
        Group::Server,
        "8.4.0",
        "O(N) where N is the total number of keys in all databases",
        "Deletes the keys of slots, as a primary does whose slots have moved.",
    );

/// Followers get the deletion of each key, which every version of them knows.
fn trimslots(ctx: &mut Context<'_>) -> Outcome {
    if !ctx.settings.is_clustered {
        return Err(Error::Fixed("ERR This instance has cluster support disabled"));
    }
    if !ctx.arg(1).eq_ignore_ascii_case(b"ranges") {
        return Err(Error::Fixed("ERR missing ranges argument"));
    }
    let count = usize::try_from(ctx.int(2)?).ok().filter(|count| (1..=SLOT_COUNT).contains(count));
    let words: Vec<&[u8]> = (3..ctx.argc()).map(|at| ctx.arg(at)).collect();
    if count.is_none_or(|count| words.len() != 2 * count) {
        return Err(Error::Fixed("ERR invalid number of ranges"));
    }
    let ranges = parse_slot_ranges(&words).map_err(|text| Error::Text(format!("ERR {text}")))?;
    for slot in ranges.into_iter().flatten().flat_map(|(first, last)| first..=last) {
        ctx.keys.delete_slot(slot);
    }
    ctx.reply.ok();
    Ok(())
}

fn flush(ctx: &mut Context<'_>, db: Option<usize>) -> Outcome {
    let mut rest = ctx.rest(1);
    let waits = rest.one_of(&[("sync", true), ("async", false)]).unwrap_or(!ctx.settings.lazy_user_flush);
    rest.finish()?;
    // A client that may not wait is answered first all the same; in Redis that is not lazy, and does not
    // count as such.
    let removed = ctx.keys.flush(db, !(waits && ctx.deny_blocking));
    // Followers flush even if there was nothing here.
    ctx.keys.dirty += removed.max(1) as u64;
    if waits {
        return ctx.block_on(Block::new(Wait::Freed, None, TimeoutReply::Ok));
    }
    ctx.reply.ok();
    Ok(())
}

pub(super) static SWAPDB: Command<Handler> = command("swapdb", 3, swapdb as Handler)
    .flags(Flags::WRITE.with(Flags::FAST).with(Flags::EXCLUSIVE))
    .databases(Databases::Named(|_| vec![1, 2]))
    .acl(ACL)
    .syntax("index1:i index2:i")
    .doc(
        Group::Server,
        "4.0.0",
        "O(N), N being the number of clients that watch or wait for keys of the two",
        "Exchanges two databases.",
    );

fn swapdb(ctx: &mut Context<'_>) -> Outcome {
    if ctx.settings.is_clustered {
        return Err(Error::Fixed("ERR SWAPDB is not allowed in cluster mode"));
    }
    let index = |at: usize, text: &'static str| {
        ctx.int(at).ok().and_then(|number| i32::try_from(number).ok()).ok_or(Error::Fixed(text))
    };
    let a = index(1, "ERR invalid first DB index")?;
    let b = index(2, "ERR invalid second DB index")?;
    let databases = ctx.settings.databases;
    let within = |db: i32| usize::try_from(db).ok().filter(|db| *db < databases);
    let (Some(a), Some(b)) = (within(a), within(b)) else {
        return Err(Error::Fixed("ERR DB index is out of range"));
    };
    ctx.count_incompatible();
    if a != b {
        ctx.keys.swap_databases(a, b);
    }
    ctx.keys.dirty += 1;
    ctx.reply.ok();
    Ok(())
}
