//! DEBUG: the part that test suites and operators use. Only where `enable-debug-command` allows it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_base::glob;
use martlet_base::limits::SHARD_COUNT;
use martlet_base::number::{parse_f64, parse_i64};
use martlet_client::resp::encode_request;
use martlet_command::generic::IGNORES_CHECKSUMS;
use martlet_command::{Acl, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command, container};
use martlet_engine::in_view;
use martlet_journal::{Follower, REPLICAS};
use martlet_keyspace::{ExpiryChange, Key};

use super::cluster::{
    CLOSE_CLUSTER_LINK_ON_PACKET_DROP, CLUSTERLINK, DROP_CLUSTER_PACKET_FILTER, INTERNAL_SECRET,
    SLOTMIGRATION,
};
use super::debug_flags::FLAGS;
use super::debug_memory::{DICT_RESIZING, HTSTATS_KEY, LEAK, SDSLEN, STRUCTSIZE};
use super::digest::{DIGEST, DIGEST_VALUE};
use super::persistence::{LOADAOF, RELOAD};
use super::{Call, ServerCommand, ServerHandler};
use crate::config::memory;
use crate::replication::pause::PausePoint;
use crate::runtime::Worker;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&DEBUG];

static DEBUG: ServerCommand = container(
    "debug",
    -2,
    &[
        &AOF_FLUSH_SLEEP,
        &ASSERT,
        &CHANGE_REPL_ID,
        &CLOSE_CLUSTER_LINK_ON_PACKET_DROP,
        &CLUSTERLINK,
        &DICT_RESIZING,
        &DIGEST,
        &DIGEST_VALUE,
        &DROP_CLUSTER_PACKET_FILTER,
        &ERROR,
        &HELP,
        &HTSTATS,
        &HTSTATS_KEY,
        &INTERNAL_SECRET,
        &LEAK,
        &LISTPACK,
        &LOADAOF,
        &LOG,
        &OBJECT,
        &PANIC,
        &PANIC_AT,
        &PAUSE_CRON,
        &POPULATE,
        &PROTOCOL,
        &QUICKLIST_PACKED_THRESHOLD,
        &RELOAD,
        &REPLICATE,
        &REPLYBUFFER,
        &REPL_PAUSE,
        &SDSLEN,
        &SEGFAULT,
        &SET_ACTIVE_EXPIRE,
        &SET_DISABLE_DENY_SCRIPTS,
        &SET_SKIP_CHECKSUM_VALIDATION,
        &SLEEP,
        &SLOTMIGRATION,
        &STRINGMATCH_LEN,
        &STRUCTSIZE,
    ],
)
.flags(FLAGS.with(Flags::SYSTEM))
.doc(Group::Server, "1.0.0", "Depends on subcommand", "A container for debugging commands.");

static AOF_FLUSH_SLEEP: ServerCommand =
    command("debug|aof-flush-sleep", 3, aof_flush_sleep as ServerHandler).flags(FLAGS).doc(
        Group::Server,
        "7.0.0",
        "O(1)",
        "Waits some microseconds before each write to the append-only file.",
    );

fn aof_flush_sleep(call: &mut Call<'_>) -> Outcome {
    let sleep_us = parse_i64(call.arg(2)).and_then(|us| u64::try_from(us).ok()).ok_or(Error::NotInteger)?;
    call.worker.shared.persistence.log.flush_sleep_us.store(sleep_us, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

static ASSERT: ServerCommand = command("debug|assert", 2, assert as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "5.0.0",
    "O(1)",
    "Ends the server as a failed assertion does.",
);

fn assert(_: &mut Call<'_>) -> Outcome {
    assert!(std::hint::black_box(false), "assertion failed: asked for by DEBUG ASSERT");
    Ok(())
}

static PANIC: ServerCommand = command("debug|panic", 2, panic as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "5.0.0",
    "O(1)",
    "Ends the server as a defect does.",
);

fn panic(_: &mut Call<'_>) -> Outcome {
    panic!("asked for by DEBUG PANIC");
}

/// READONLY, so that only its change of the key decides the server's fate.
static PANIC_AT: ServerCommand = command("debug|panic-at", 4, panic_at as ServerHandler)
    .flags(FLAGS.with(Flags::READONLY))
    .keys(&[KeyPart::one(3, KeyFlags::RO)])
    .doc(
        Group::Server,
        "0.1.0",
        "O(1)",
        "Panics with a key locked that was read (READ), which ends the client, or is half changed (CHANGE), which \
         ends the server.",
    );

fn panic_at(call: &mut Call<'_>) -> Outcome {
    let changes = match call.arg(2) {
        word if word.eq_ignore_ascii_case(b"read") => false,
        word if word.eq_ignore_ascii_case(b"change") => true,
        _ => return Err(Error::Syntax),
    };
    let key = Key::new(call.args.at(3));
    let keys = &mut call.worker.keys;
    keys.lookup(&key);
    if changes {
        keys.shard_mut(key.shard());
    }
    panic!("asked for by DEBUG PANIC-AT");
}

static SEGFAULT: ServerCommand = command("debug|segfault", 2, segfault as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "1.0.0",
    "O(1)",
    "Ends the server by an access to memory that it may not write.",
);

fn segfault(_: &mut Call<'_>) -> Outcome {
    crate::process::segfault();
    Ok(())
}

static SLEEP: ServerCommand = command("debug|sleep", 3, sleep as ServerHandler)
    .flags(FLAGS.with(Flags::EXCLUSIVE))
    .doc(Group::Server, "1.0.0", "O(1)", "Stops the server for some seconds.");

fn sleep(call: &mut Call<'_>) -> Outcome {
    let seconds = parse_f64(call.arg(2)).filter(|s| s.is_finite() && *s >= 0.0).unwrap_or(0.0);
    std::thread::sleep(Duration::from_secs_f64(seconds.min(86_400.0)));
    call.reply.ok();
    Ok(())
}

static SET_ACTIVE_EXPIRE: ServerCommand = command(
    "debug|set-active-expire",
    3,
    set_active_expire as ServerHandler,
)
.flags(FLAGS)
.doc(Group::Server, "1.0.0", "O(1)", "Turns the deletion of expired keys by time on or off.");

fn set_active_expire(call: &mut Call<'_>) -> Outcome {
    let on = parse_i64(call.arg(2)).unwrap_or(0) != 0;
    call.worker.shared.active_expire.store(on, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

static SET_SKIP_CHECKSUM_VALIDATION: ServerCommand =
    command("debug|set-skip-checksum-validation", 3, set_skip_checksum_validation as ServerHandler)
        .flags(FLAGS)
        .doc(Group::Server, "7.0.0", "O(1)", "Lets RESTORE take payloads with wrong checksums, or not.");

fn set_skip_checksum_validation(call: &mut Call<'_>) -> Outcome {
    let on = parse_i64(call.arg(2)).unwrap_or(0) != 0;
    IGNORES_CHECKSUMS.store(on, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

static SET_DISABLE_DENY_SCRIPTS: ServerCommand = command(
    "debug|set-disable-deny-scripts",
    3,
    set_disable_deny_scripts as ServerHandler,
)
.flags(FLAGS)
.doc(Group::Server, "7.0.0", "O(1)", "Lets scripts call forbidden commands, or not.");

fn set_disable_deny_scripts(call: &mut Call<'_>) -> Outcome {
    let on = parse_i64(call.arg(2)).unwrap_or(0) != 0;
    call.worker.shared.scripts.allows_all.store(on, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

static PAUSE_CRON: ServerCommand =
    command("debug|pause-cron", 3, pause_cron as ServerHandler).flags(FLAGS).doc(
        Group::Server,
        "7.0.0",
        "O(1)",
        "Stops what the server does by time, but for expiry and blocked clients' timeouts, or resumes it.",
    );

fn pause_cron(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    let is_paused = parse_i64(call.arg(2)).unwrap_or(0) != 0;
    shared.is_cron_paused.store(is_paused, Ordering::SeqCst);
    if !is_paused {
        crate::shutdown::act_on_signal(shared);
    }
    call.reply.ok();
    Ok(())
}

/// Elements are packed by their own size alone: no setting here decides which are large.
static QUICKLIST_PACKED_THRESHOLD: ServerCommand =
    command("debug|quicklist-packed-threshold", 3, quicklist_packed_threshold as ServerHandler)
        .flags(FLAGS)
        .doc(Group::Server, "7.0.0", "O(1)", "Accepted; large list elements are always stored apart.");

fn quicklist_packed_threshold(call: &mut Call<'_>) -> Outcome {
    match memory(call.arg(2)) {
        Some(0..=0xFFF0_0000) => call.reply.ok(),
        _ => {
            return Err(Error::Fixed(
                "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
            ));
        }
    }
    Ok(())
}

static REPLICATE: ServerCommand = command("debug|replicate", -3, replicate as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "7.0.0", "O(1)", "Sends replicas a command that is not run here.");

fn replicate(call: &mut Call<'_>) -> Outcome {
    let words: Vec<_> = (2..call.argc()).map(|index| call.arg(index)).collect();
    let journal = &call.worker.shared.engine.journal;
    if journal.is_followed_by(Follower::Replicas) && !journal.relays() {
        let mut command = Vec::new();
        encode_request(&words, &mut command);
        journal.append(REPLICAS, &command);
    }
    call.reply.ok();
    Ok(())
}

/// Replies leave in buffers that a thread's connections share: there is no single one to resize.
static REPLYBUFFER: ServerCommand = command("debug|replybuffer", 4, replybuffer as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "7.0.0", "O(1)", "Accepted; connections have no reply buffers of their own.");

fn replybuffer(call: &mut Call<'_>) -> Outcome {
    let (option, value) = (call.arg(2), call.arg(3));
    let is_word = [&b"never"[..], b"reset"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let is_known = option.eq_ignore_ascii_case(b"resizing")
        || option.eq_ignore_ascii_case(b"peak-reset-time") && (is_word || parse_i64(value).is_some());
    if !is_known {
        return Err(Error::Syntax);
    }
    call.reply.ok();
    Ok(())
}

static LISTPACK: ServerCommand = command("debug|listpack", 3, listpack as ServerHandler)
    .flags(FLAGS)
    .keys(&[KeyPart::one(2, KeyFlags::RO)])
    .doc(Group::Server, "7.0.0", "O(1)", "Says whether a value is in the encoding for small collections.");

fn listpack(call: &mut Call<'_>) -> Outcome {
    let Some(entry) = call.worker.keys.get(&Key::new(call.args.at(2))) else { return Err(Error::NoSuchKey) };
    if !entry.encoding().starts_with("listpack") {
        return Err(Error::Fixed("ERR Not a listpack encoded object."));
    }
    tracing::info!("DEBUG LISTPACK: {} bytes", entry.heap_bytes());
    call.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

static LOG: ServerCommand = command("debug|log", 3, log as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "5.0.0",
    "O(1)",
    "Writes a message to the log.",
);

fn log(call: &mut Call<'_>) -> Outcome {
    tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(call.arg(2)));
    call.reply.ok();
    Ok(())
}

static ERROR: ServerCommand = command("debug|error", 3, error as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "1.0.0",
    "O(1)",
    "Answers the given text as an error.",
);

fn error(call: &mut Call<'_>) -> Outcome {
    Err(Error::Bytes(call.arg(2).to_vec()))
}

static STRINGMATCH_LEN: ServerCommand = command("debug|stringmatch-len", 4, stringmatch_len as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "5.0.0", "O(N * M)", "Matches a pattern against a string of that many times A.");

fn stringmatch_len(call: &mut Call<'_>) -> Outcome {
    let text = vec![b'A'; call.int(2)?.clamp(0, 1 << 30) as usize];
    call.reply.int(i64::from(glob::matches(call.arg(3), &text, false)));
    Ok(())
}

static CHANGE_REPL_ID: ServerCommand = command("debug|change-repl-id", 2, change_repl_id as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "4.0.0", "O(1)", "Draws a new replication id.");

fn change_repl_id(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    shared.replication.change_id(&mut call.worker.keys.random);
    call.reply.ok();
    Ok(())
}

static REPL_PAUSE: ServerCommand = command("debug|repl-pause", 3, repl_pause as ServerHandler)
    .flags(FLAGS)
    .syntax("point(CLEAR|AFTER-FORK|BEFORE-RDB-CHANNEL|ON-STREAMING-REPL-BUF)")
    .doc(Group::Server, "8.0.0", "O(1)", "Stops the process at this step of each full sync, until SIGCONT.");

fn repl_pause(call: &mut Call<'_>) -> Outcome {
    let point = PausePoint::named(call.arg(2)).ok_or_else(|| Error::subcommand_syntax(&call.args))?;
    call.worker.shared.replication.pause.set(point);
    call.reply.ok();
    Ok(())
}

static OBJECT: ServerCommand = command("debug|object", -3, object as ServerHandler)
    .flags(FLAGS)
    .keys(&[KeyPart::one(2, KeyFlags::RO)])
    .doc(Group::Server, "1.0.0", "O(1)", "Shows how a key's value is stored.");

fn object(call: &mut Call<'_>) -> Outcome {
    // Also one that has expired and that no other command sees any more.
    let view = call.worker.keys.view().seeing_expired();
    let facts = in_view(call.worker, view, |worker| describe(worker, call.args.at(2)))?;
    call.reply.simple(&facts);
    Ok(())
}

/// DEBUG OBJECT's facts about its key.
fn describe(worker: &Worker, key: &[u8]) -> Result<String, Error> {
    let Some(entry) = worker.keys.get(&Key::new(key)) else { return Err(Error::NoSuchKey) };
    let encoding = entry.encoding();
    let lru = entry.lru();
    let compress = worker.settings.rdb_compression;
    let form = martlet_values::payload::dump_form(compress);
    let bytes = martlet_values::encoded_len(entry.view(), form);
    let idle_s = ((worker.now_ms / 1000) as u32 & 0xff_ffff).saturating_sub(lru);
    Ok(format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:{lru} lru_seconds_idle:{idle_s}"
    ))
}

static POPULATE: ServerCommand = command("debug|populate", -3, populate as ServerHandler)
    .flags(FLAGS.with(Flags::EXCLUSIVE).with(Flags::WRITE).with(Flags::DENYOOM))
    .doc(Group::Server, "1.0.0", "O(N) for N keys", "Creates keys.");

fn populate(call: &mut Call<'_>) -> Outcome {
    let count = call.int(2)?;
    let prefix = if call.argc() > 3 { call.arg(3) } else { b"key" };
    let size = if call.argc() > 4 { Some(call.int(4)?) } else { None };
    if count < 0 || size.is_some_and(|s| s < 0) {
        return Err(Error::NotPositive);
    }
    if size.is_some_and(|s| s as usize > call.worker.settings.string_max_bytes) {
        return Err(Error::Fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    for i in 0..count {
        let name = [prefix, b":", i.to_string().as_bytes()].concat();
        let mut value = format!("value:{i}").into_bytes();
        if let Some(size) = size {
            value.resize(size as usize, 0);
        }
        let key = Key::new(&name);
        if call.worker.keys.get(&key).is_none() {
            call.worker.keys.set_str(&key, &value, ExpiryChange::Clear);
            call.worker.keys.dirty += 1;
        }
    }
    call.reply.ok();
    Ok(())
}

static HTSTATS: ServerCommand =
    command("debug|htstats", -3, htstats as ServerHandler).flags(FLAGS.with(Flags::WALK)).doc(
        Group::Server,
        "3.2.0",
        "O(N) for N shards",
        "Shows how a database's keys lie in the shards' tables.",
    );

fn htstats(call: &mut Call<'_>) -> Outcome {
    let db = call.int(2)?;
    let Some(db) = usize::try_from(db).ok().filter(|db| *db < call.worker.settings.databases) else {
        return Err(Error::Fixed("ERR Out of range database"));
    };
    let mut lens = Vec::with_capacity(SHARD_COUNT);
    let mut bytes = 0;
    call.worker.keys.at_one_moment(|keys| {
        for db in (0..SHARD_COUNT).map(|shard| keys.shard(shard).keys.db(db)) {
            lens.push(db.len());
            bytes += db.table_heap_bytes();
        }
    });
    let keys: usize = lens.iter().sum();
    let text = format!(
        "[Dictionary HT]\nshards: {SHARD_COUNT}\nnumber of elements: {keys}\nlargest shard: {}\nsmallest shard: {}\ntable bytes: {bytes}\n",
        lens.iter().max().unwrap_or(&0),
        lens.iter().min().unwrap_or(&0),
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

static PROTOCOL: ServerCommand = command("debug|protocol", 3, protocol as ServerHandler)
    .flags(FLAGS)
    .acl(Acl::NONE)
    .doc(Group::Server, "6.0.0", "O(1)", "Answers one example of a protocol type.");

// The example double is the real server's, not pi.
#[allow(clippy::approx_constant)]
fn protocol(call: &mut Call<'_>) -> Outcome {
    let reply = &mut *call.reply;
    match call.args.at(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(3.141),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|i| reply.int(i));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|i| reply.int(i));
        }
        b"map" => {
            reply.map(3);
            for i in 0..3 {
                reply.int(i);
                reply.bool(i == 1);
            }
        }
        b"attrib" => {
            if reply.is_resp3() {
                reply.attribute(1);
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        b"true" => reply.bool(true),
        b"false" => reply.bool(false),
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => {
            return Err(Error::Fixed(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

static HELP: ServerCommand = command("debug|help", 2, help as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "1.0.0",
    "O(1)",
    "Lists the subcommands.",
);

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "DEBUG");
    Ok(())
}
