//! MEMORY: what takes how much.

use std::sync::atomic::Ordering;

use martlet_command::generic::memory_usage;
use martlet_command::{Acl, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command, container};
use martlet_engine::in_view;
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;

use super::survey::Survey;
use super::{Call, ServerCommand, ServerHandler};
use crate::process::resident_bytes;
use crate::runtime::Worker;

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
    .syntax("key:k0 ?count:i=SAMPLES")
    .doc(Group::Server, "4.0.0", "O(N) for N samples", "Estimates the memory that a key takes.");

fn usage(call: &mut Call<'_>) -> Outcome {
    let mut rest = call.rest(3);
    while rest.option("samples", 1) {
        if rest.int()? < 0 {
            return Err(Error::Syntax);
        }
    }
    rest.finish()?;
    // As in Redis, a key whose time is over takes its memory until it is deleted.
    let view = call.worker.keys.view().seeing_expired();
    let key = Key::new(call.arg(2));
    let bytes = in_view(&mut call.worker.keys, view, |keys| memory_usage(keys, &key));
    match bytes {
        Some(bytes) => call.reply.count(bytes),
        None => call.reply.null(),
    }
    Ok(())
}

static DOCTOR: ServerCommand = command("memory|doctor", 2, doctor as ServerHandler)
    .flags(Flags::NONE)
    .doc(Group::Server, "4.0.0", "O(1)", "Reports in words unusual use of memory.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_SPECIAL]);

fn doctor(call: &mut Call<'_>) -> Outcome {
    let used = martlet_base::alloc::used_bytes() as u64;
    let resident = resident_bytes();
    let peak = call.worker.shared.stats.memory_peak.load(Ordering::Relaxed).max(used);
    let text = if used < 5 << 20 {
        "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n".to_owned()
    } else if peak > used * 3 / 2 {
        format!(
            "Peak memory was {peak} bytes, half as much again as the {used} in use now: the allocator may keep freed memory.\n"
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

static MALLOC_STATS: ServerCommand = command("memory|malloc-stats", 2, malloc_stats as ServerHandler)
    .flags(Flags::NONE)
    .doc(
        Group::Server,
        "4.0.0",
        "Depends on how much memory is allocated",
        "Returns the allocator's figures.",
    )
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_SPECIAL]);

fn malloc_stats(call: &mut Call<'_>) -> Outcome {
    let used = martlet_base::alloc::used_bytes();
    let text =
        format!("allocator: mimalloc\nrequested bytes: {used}\nresident bytes: {}\n", resident_bytes());
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

static PURGE: ServerCommand = command("memory|purge", 2, purge as ServerHandler)
    .flags(Flags::NONE)
    .doc(
        Group::Server,
        "4.0.0",
        "Depends on how much memory is to be released",
        "Gives freed memory back to the system.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ALL_SUCCEEDED]);

fn purge(call: &mut Call<'_>) -> Outcome {
    martlet_base::alloc::purge();
    call.reply.ok();
    Ok(())
}

static STATS: ServerCommand = command("memory|stats", 2, stats as ServerHandler)
    .flags(Flags::WALK)
    .doc(Group::Server, "4.0.0", "O(1)", "Returns figures on memory use.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_SPECIAL]);

/// What takes how much, as MEMORY STATS and INFO tell it, in bytes.
pub(super) struct Figures {
    /// Allocated now, counted by the allocator.
    pub used: u64,
    /// The most that was allocated at any time.
    pub peak: u64,
    /// Allocated when the start was over.
    pub startup: u64,
    /// Resident, as the system counts it.
    pub resident: u64,
    /// The part of it that the allocator has, with threads' stacks and the rings shared with the kernel.
    pub allocator_resident: u64,
    /// The most of that which freed large blocks may have left there until it is given back.
    pub unpurged: u64,
    /// What connections hold.
    pub clients: u64,
    /// Bytes that wait to be written to the append-only file.
    pub log_buffer: u64,
    /// The replication stream for returning replicas.
    pub backlog: u64,
    /// The rest of it, which replicas are behind by.
    pub replicas: u64,
    /// The rest of it, whether there are replicas or not: no key is evicted for it.
    pub beyond_backlog: u64,
    /// The stream that waits for a full sync's data set.
    pub gathered: u64,
    /// Keys and bytes of the table of each database that was ever used, by index.
    pub databases: Vec<(usize, usize, usize)>,
}

impl Figures {
    /// The figures, with the numbers of keys that a survey has found.
    pub fn of(worker: &Worker, survey: &Survey) -> Figures {
        let shared = worker.shared;
        let used = martlet_base::alloc::used_bytes() as u64;
        let log_buffer = &shared.persistence.log.buffered_bytes;
        let (stream, beyond) = (shared.engine.journal.stream_bytes(), worker.stream_bytes_beyond_backlog());
        let resident = martlet_process::resident();
        let replicas = if shared.replication.primary.count() > 0 { beyond } else { 0 };
        Figures {
            used,
            peak: shared.stats.memory_peak.load(Ordering::Relaxed).max(used),
            startup: shared.memory_at_start.load(Ordering::Relaxed),
            resident: resident.bytes,
            allocator_resident: resident.anonymous_bytes,
            unpurged: shared.engine.lazy_free.unpurged_bytes(),
            clients: shared
                .clients
                .all()
                .iter()
                .map(|c| c.counted_bytes.load(Ordering::Relaxed))
                .sum::<usize>() as u64,
            backlog: stream - replicas.min(stream),
            replicas,
            beyond_backlog: beyond,
            gathered: shared.replication.replica.gathered_bytes(),
            log_buffer: log_buffer.load(Ordering::Relaxed) + shared.engine.journal.backlog(),
            databases: survey.databases.iter().map(|(db, held)| (*db, held.keys, held.table_bytes)).collect(),
        }
    }

    /// Memory besides the data: the start's, clients', tables' and the replication stream's.
    pub fn overhead(&self) -> u64 {
        let tables: usize = self.databases.iter().map(|db| db.2).sum();
        (self.startup + self.clients + self.backlog + self.replicas + self.gathered + tables as u64)
            .min(self.used)
    }

    /// Memory of pages that have a block in use, at least: resident memory of the allocator but what freed
    /// large blocks may have left.
    pub fn active(&self) -> u64 {
        let least = self.allocator_resident.saturating_sub(self.unpurged);
        least.max(self.used.min(self.allocator_resident))
    }

    /// Memory of the data.
    pub fn dataset(&self) -> u64 {
        self.used - self.overhead()
    }
}

/// A value in the reply of MEMORY STATS.
enum Figure {
    Int(i64),
    Double(f64),
    /// The bytes of a database's table.
    Table(usize),
}

fn stats(call: &mut Call<'_>) -> Outcome {
    use Figure::{Double, Int, Table};
    let survey = Survey::of(&mut call.worker.keys, false);
    let figures = Figures::of(call.worker, &survey);
    let int = |bytes: u64| Int(bytes as i64);
    let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let difference = |bytes: u64, other: u64| Int(bytes as i64 - other as i64);
    let Figures { used, peak, startup, resident, allocator_resident, .. } = figures;
    let active = figures.active();
    let keys: usize = figures.databases.iter().map(|db| db.1).sum();
    let beyond_start = used.saturating_sub(startup);
    let unused = Int(resident as i64 - used as i64);
    let mut all = vec![
        ("peak.allocated", int(peak)),
        ("total.allocated", int(used)),
        ("startup.allocated", int(startup)),
        ("replication.backlog", int(figures.backlog)),
        ("replica.fullsync.buffer", int(figures.gathered)),
        ("clients.slaves", int(figures.replicas)),
        ("clients.normal", int(figures.clients)),
        ("cluster.links", Int(0)),
        ("aof.buffer", int(figures.log_buffer)),
        ("lua.caches", Int(0)),
        ("functions.caches", Int(0)),
        ("script.VMs", Int(0)),
    ];
    let names: Vec<String> = figures.databases.iter().map(|db| format!("db.{}", db.0)).collect();
    all.extend(names.iter().zip(&figures.databases).map(|(name, db)| (name.as_str(), Table(db.2))));
    all.extend([
        ("overhead.db.hashtable.lut", Int(0)),
        ("overhead.db.hashtable.rehashing", Int(0)),
        ("overhead.total", int(figures.overhead())),
        ("db.dict.rehashing.count", Int(0)),
        ("keys.count", Int(keys as i64)),
        ("keys.bytes-per-key", int(beyond_start.checked_div(keys as u64).unwrap_or(0))),
        ("dataset.bytes", int(figures.dataset())),
        ("dataset.percentage", Double(ratio(figures.dataset() * 100, beyond_start))),
        ("peak.percentage", Double(ratio(used * 100, peak))),
        ("allocator.allocated", int(used)),
        ("allocator.active", int(active)),
        ("allocator.resident", int(allocator_resident)),
        ("allocator.muzzy", Int(0)),
        ("allocator-fragmentation.ratio", Double(ratio(active, used))),
        ("allocator-fragmentation.bytes", difference(active, used)),
        ("allocator-rss.ratio", Double(ratio(allocator_resident, active))),
        ("allocator-rss.bytes", difference(allocator_resident, active)),
        ("rss-overhead.ratio", Double(ratio(resident, allocator_resident))),
        ("rss-overhead.bytes", difference(resident, allocator_resident)),
        ("fragmentation", Double(ratio(resident, used))),
        ("fragmentation.bytes", unused),
    ]);
    call.reply.map(all.len());
    all.iter().for_each(|(name, figure)| write_figure(call.reply, name, figure));
    Ok(())
}

fn write_figure(reply: &mut Reply, name: &str, figure: &Figure) {
    reply.bulk(name.as_bytes());
    match figure {
        Figure::Int(value) => reply.int(*value),
        Figure::Double(value) => reply.double(*value),
        Figure::Table(bytes) => {
            reply.map(2);
            write_figure(reply, "overhead.hashtable.main", &Figure::Int(*bytes as i64));
            write_figure(reply, "overhead.hashtable.expires", &Figure::Int(0));
        }
    }
}

static HELP: ServerCommand = command("memory|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "4.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "MEMORY");
    Ok(())
}
