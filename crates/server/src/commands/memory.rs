//! MEMORY: what takes how much.

use martlet_base::limits::SHARD_COUNT;
use martlet_base::number::parse_i64;
use martlet_command::generic::memory_usage;
use martlet_command::{Acl, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command, container};
use martlet_keyspace::Key;

use super::{Call, ServerCommand, ServerHandler};
use crate::process::resident_bytes;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&MEMORY];

static MEMORY: ServerCommand = container(
    "memory",
    -2,
    &[&DOCTOR, &HELP, &MALLOC_STATS, &PURGE, &STATS, &USAGE],
)
.doc(Group::Server, "4.0.0", "Depends on subcommand", "A container for memory diagnostics commands.");

static USAGE: ServerCommand = command("memory|usage", -3, usage as ServerHandler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(2, KeyFlags::RO)])
    .acl(Acl::NONE)
    .doc(Group::Server, "4.0.0", "O(N) for N samples", "Estimates the memory that a key takes.");

fn usage(call: &mut Call<'_>) -> Outcome {
    let mut at = 3;
    while at < call.argc() {
        if !call.is(at, "samples") || at + 1 >= call.argc() {
            return Err(Error::Syntax);
        }
        if parse_i64(call.arg(at + 1)).ok_or(Error::NotInteger)? < 0 {
            return Err(Error::Syntax);
        }
        at += 2;
    }
    match memory_usage(&call.worker.keys, &Key::new(call.arg(2))) {
        Some(bytes) => call.reply.count(bytes),
        None => call.reply.null(),
    }
    Ok(())
}

static DOCTOR: ServerCommand = command("memory|doctor", 2, doctor as ServerHandler).flags(Flags::NONE).doc(
    Group::Server,
    "4.0.0",
    "O(1)",
    "Tells in words what is odd about memory use.",
);

fn doctor(call: &mut Call<'_>) -> Outcome {
    let used = martlet_base::alloc::used_bytes() as u64;
    let resident = resident_bytes();
    let peak = call.worker.shared.stats.memory_peak.load(std::sync::atomic::Ordering::Relaxed).max(used);
    let text = if used < 5 << 20 {
        "Hi Sam, this instance is empty or is using very little memory, my issue detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n".to_owned()
    } else if peak > used * 3 / 2 {
        format!(
            "Peak memory was {peak} bytes, half as much again as the {used} in use now: the allocator may keep what was freed.\n"
        )
    } else if resident > used * 7 / 5 {
        format!(
            "{resident} bytes are resident for {used} in use: fragmentation, or memory freed a moment ago.\n"
        )
    } else {
        "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n".to_owned()
    };
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

static MALLOC_STATS: ServerCommand =
    command("memory|malloc-stats", 2, malloc_stats as ServerHandler).flags(Flags::NONE).doc(
        Group::Server,
        "4.0.0",
        "Depends on how much memory is allocated",
        "Returns the allocator's figures.",
    );

fn malloc_stats(call: &mut Call<'_>) -> Outcome {
    let used = martlet_base::alloc::used_bytes();
    let text =
        format!("allocator: mimalloc\nrequested bytes: {used}\nresident bytes: {}\n", resident_bytes());
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

static PURGE: ServerCommand = command("memory|purge", 2, purge as ServerHandler).flags(Flags::NONE).doc(
    Group::Server,
    "4.0.0",
    "Depends on how much memory is to be released",
    "Gives freed memory back to the system.",
);

fn purge(call: &mut Call<'_>) -> Outcome {
    martlet_base::alloc::purge();
    call.reply.ok();
    Ok(())
}

static STATS: ServerCommand = command("memory|stats", 2, stats as ServerHandler).flags(Flags::WALK).doc(
    Group::Server,
    "4.0.0",
    "O(1)",
    "Returns figures on memory use.",
);

fn stats(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    let used = martlet_base::alloc::used_bytes() as i64;
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let peak = (shared.stats.memory_peak.load(relaxed) as i64).max(used);
    let startup = shared.memory_at_start.load(relaxed) as i64;
    let resident = resident_bytes() as i64;
    let clients: usize = shared.clients.all().iter().map(|c| c.heap_bytes()).sum();
    let mut dbs = vec![(0usize, 0usize); call.worker.settings.databases];
    for shard in 0..SHARD_COUNT {
        call.worker.keys.with_shard(shard, |keys| {
            let keys = &keys.shard(shard).keys;
            for db in keys.used() {
                dbs[db].0 += keys.db(db).len();
                dbs[db].1 += keys.db(db).table_heap_bytes();
            }
        });
    }
    let keys: usize = dbs.iter().map(|db| db.0).sum();
    let tables: usize = dbs.iter().map(|db| db.1).sum();
    let shared = call.worker.shared;
    let log_buffer = shared.persistence.log.buffered_bytes.load(std::sync::atomic::Ordering::Relaxed)
        + shared.engine.journal.backlog();
    let overhead = startup + clients as i64 + tables as i64;
    let dataset = (used - overhead).max(0);
    let used_dbs: Vec<(usize, usize)> =
        dbs.iter().enumerate().filter(|(_, db)| db.0 > 0).map(|(i, db)| (i, db.1)).collect();
    let reply = &mut *call.reply;
    let ints = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", startup),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients as i64),
        ("cluster.links", 0),
        ("aof.buffer", log_buffer as i64),
        ("lua.caches", 0),
        ("functions.caches", 0),
    ];
    let more = [
        ("overhead.total", overhead),
        ("keys.count", keys as i64),
        ("keys.bytes-per-key", (used - startup).max(0) / keys.max(1) as i64),
        ("dataset.bytes", dataset),
    ];
    reply.map(ints.len() + used_dbs.len() + more.len() + 6);
    let int = |reply: &mut martlet_protocol::reply::Reply, name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.int(value);
    };
    ints.iter().for_each(|(name, value)| int(reply, name, *value));
    for (index, bytes) in used_dbs {
        reply.bulk(format!("db.{index}").as_bytes());
        reply.map(2);
        int(reply, "overhead.hashtable.main", bytes as i64);
        int(reply, "overhead.hashtable.expires", 0);
    }
    more.iter().for_each(|(name, value)| int(reply, name, *value));
    let share = |part: i64, whole: i64| part as f64 * 100.0 / whole.max(1) as f64;
    reply.bulk(b"dataset.percentage");
    reply.double(share(dataset, used - startup));
    reply.bulk(b"peak.percentage");
    reply.double(share(used, peak));
    int(reply, "allocator.allocated", used);
    int(reply, "allocator.resident", resident);
    reply.bulk(b"fragmentation");
    reply.double(resident as f64 / used.max(1) as f64);
    int(reply, "fragmentation.bytes", resident - used);
    Ok(())
}

static HELP: ServerCommand = command("memory|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "4.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "MEMORY");
    Ok(())
}
