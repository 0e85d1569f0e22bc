//! OBJECT: how a value is stored and when it was last used.

use martlet_engine::{Keys, Touch};
use martlet_keyspace::{Key, PLACE_BYTES, StrValue};
use martlet_spec::{Acl, Command, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command, container};

use crate::Handler;
use crate::context::Context;

/// Bytes that a key costs: its entry, all that its value has allocated, and its share of the table. `None` if
/// there is no such key. The shard must be held; no access is noted.
pub fn memory_usage(keys: &Keys, key: &Key<'_>) -> Option<usize> {
    keys.get(key).map(|entry| entry.heap_bytes() + PLACE_BYTES)
}

/// OBJECT never counts as an access.
const FLAGS: Flags = Flags::IGNORES_NO_TOUCH;

pub(super) static OBJECT: Command<Handler> = container(
    "object",
    -2,
    &[&ENCODING, &FREQ, &IDLETIME, &REFCOUNT, &HELP],
)
.flags(FLAGS)
.doc(Group::Generic, "2.2.3", "Depends on the subcommand", "Inspects how values are stored.");

const KEYS: &[KeyPart] = &[KeyPart::one(2, KeyFlags::RO)];

static ENCODING: Command<Handler> = command("object|encoding", 3, encoding as Handler)
    .flags(FLAGS.with(Flags::READONLY))
    .keys(KEYS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "2.2.3", "O(1)", "Returns the encoding of a key's value.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn encoding(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(2);
    let is_valkey = ctx.settings.presentation.is_valkey();
    let encoding = ctx.keys.inspect(&key).map(|entry| match entry.encoding() {
        // Valkey has no listpack of fields with times.
        "listpackex" if is_valkey => "hashtable",
        encoding => encoding,
    });
    ctx.reply.bulk_or_null(encoding.map(str::as_bytes));
    Ok(())
}

static FREQ: Command<Handler> = command("object|freq", 3, freq as Handler)
    .flags(FLAGS.with(Flags::READONLY))
    .keys(KEYS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "4.0.0", "O(1)", "Returns a logarithmic count of the accesses to a key.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn freq(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(2);
    let touch = ctx.keys.touch();
    let Some(lru) = ctx.keys.inspect(&key).map(|entry| entry.lru()) else {
        ctx.reply.null();
        return Ok(());
    };
    let frequency = match touch {
        Touch::Lfu { minutes, decay_minutes, .. } => i64::from(Touch::frequency(lru, minutes, decay_minutes)),
        Touch::Lrfu(lrfu) => lrfu.value(lru) as i64,
        _ => {
            return Err(Error::Fixed(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    };
    ctx.reply.int(frequency);
    Ok(())
}

static IDLETIME: Command<Handler> = command("object|idletime", 3, idletime as Handler)
    .flags(FLAGS.with(Flags::READONLY))
    .keys(KEYS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "2.2.3", "O(1)", "Returns the seconds since the last access to a key.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn idletime(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(2);
    let (touch, now_ms) = (ctx.keys.touch(), ctx.keys.now_ms());
    let Some(lru) = ctx.keys.inspect(&key).map(|entry| entry.lru()) else {
        ctx.reply.null();
        return Ok(());
    };
    if matches!(touch, Touch::Lfu { .. } | Touch::Lrfu(_)) {
        return Err(Error::Fixed(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
             policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    // The clock has 24 bits and turns over every 194 days.
    let clock = (now_ms / 1000) as u32;
    ctx.reply.int(i64::from(clock.wrapping_sub(lru) & 0xff_ffff));
    Ok(())
}

static REFCOUNT: Command<Handler> = command("object|refcount", 3, refcount as Handler)
    .flags(FLAGS.with(Flags::READONLY))
    .keys(KEYS)
    .acl(Acl::KEYSPACE)
    .syntax("key:k0")
    .doc(Group::Generic, "2.2.3", "O(1)", "Returns how many references to the value of a key there are.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// Numbers from 0 below this are one object each, of which all keys share references, in the answers about
/// them (Redis: `OBJ_SHARED_INTEGERS`); their count is [`SHARED_REFERENCES`].
const SHARED_INTEGERS: i64 = 10_000;
const SHARED_REFERENCES: i64 = i32::MAX as i64;

fn refcount(ctx: &mut Context<'_>) -> Outcome {
    let key = ctx.key(2);
    match ctx.keys.inspect(&key).map(|entry| entry.str()) {
        None => ctx.reply.null(),
        Some(Some(StrValue::Int(0..SHARED_INTEGERS))) if ctx.settings.shared_integers => {
            ctx.reply.int(SHARED_REFERENCES)
        }
        Some(_) => ctx.reply.int(1),
    }
    Ok(())
}

static HELP: Command<Handler> = command("object|help", 2, help as Handler)
    .flags(FLAGS.with(Flags::LOADING).with(Flags::STALE))
    .acl(Acl::KEYSPACE)
    .doc(Group::Generic, "6.2.0", "O(1)", "Lists the subcommands.");

fn help(ctx: &mut Context<'_>) -> Outcome {
    let lines = [
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Tell how the value of a <key> is encoded.",
        "FREQ <key>",
        "    Tell how often a <key> is used: a count that grows with the logarithm of the accesses.",
        "IDLETIME <key>",
        "    Tell how many seconds ago a <key> was last used.",
        "REFCOUNT <key>",
        "    Tell how many references to the value of a <key> there are.",
        "HELP",
        "    Print this help.",
    ];
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line));
    Ok(())
}
