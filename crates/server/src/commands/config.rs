//! CONFIG: GET, SET, REWRITE, RESETSTAT, HELP.

use std::sync::atomic::Ordering;

use martlet_command::{Error, Flags, Group, Outcome, Tip, command, container};
use martlet_engine::Outside;
use martlet_persistence::aof::PendingFlush;
use martlet_protocol::request::Args;

use super::{Call, ServerCommand, ServerHandler};
use crate::config::{Extent, Setter};
use crate::connection::Connection;
use crate::runtime::Worker;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&CONFIG];

const SUMMARY: &str = "Reads and changes the server's configuration.";
const FLAGS: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE);

static CONFIG: ServerCommand = container("config", -2, &[&GET, &SET, &REWRITE, &RESETSTAT, &HELP]).doc(
    Group::Server,
    "2.0.0",
    "Depends on subcommand.",
    SUMMARY,
);

static GET: ServerCommand = command("config|get", -3, get as ServerHandler)
    .flags(FLAGS)
    .syntax("*parameter")
    .doc(
        Group::Server,
        "2.0.0",
        "O(N) for N parameters",
        "Answers the parameters that match the patterns, with their values.",
    )
    .history(&[("7.0.0", "Takes several patterns.")]);

fn get(call: &mut Call<'_>) -> Outcome {
    let patterns: Vec<&[u8]> = (2..call.argc()).map(|index| call.arg(index)).collect();
    let mut found = call.worker.shared.config.get(&patterns);
    if call.worker.presentation().is_valkey() {
        found.sort();
    }
    call.reply.map(found.len());
    for (name, value) in &found {
        call.reply.bulk(name);
        call.reply.bulk(value);
    }
    Ok(())
}

// Alone: changed settings, the append-only file among them, take effect for all threads at once. The values
// of parameters that hold secrets.
fn sensitive_values(args: &Args<'_>) -> Vec<usize> {
    let is_sensitive = |at: &usize| crate::config::is_sensitive(args.at(*at));
    (2..args.len()).step_by(2).filter(is_sensitive).map(|at| at + 1).collect()
}

static SET: ServerCommand = command("config|set", -4, set as ServerHandler)
    .flags(FLAGS.with(Flags::EXCLUSIVE))
    .secrets(sensitive_values)
    .syntax("*data(parameter value)")
    .doc(Group::Server, "2.0.0", "O(N) for N parameters", "Sets parameters, all of them or none.")
    .history(&[("7.0.0", "Sets several parameters at once.")])
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn set(call: &mut Call<'_>) -> Outcome {
    if call.argc() % 2 == 1 {
        return Err(Error::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (2..call.argc()).step_by(2).map(|index| (call.arg(index), call.arg(index + 1))).collect();
    let setter = Setter {
        is_local: call.connection.is_local(),
        is_loading: call.worker.shared.persistence.is_loading(),
    };
    let config = &call.worker.shared.config;
    if config.reads_disk(pairs.iter().map(|(name, _)| *name)) {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        call.answer_outside(move |worker, connection| set_by_disk(worker, connection, &pairs, setter));
        return Ok(());
    }
    config.set(&pairs, setter).map_err(|error| Error::Bytes(error.reply()))?;
    let flush = follow(call.worker)?;
    debug_assert!(flush.is_none(), "appendonly was changed without the disk");
    call.reply.ok();
    Ok(())
}

/// How often a change is prepared again because another came between.
const TRIES: usize = 100;

/// CONFIG SET of parameters that need something of the disk: that is read outside the gate.
fn set_by_disk(
    worker: &mut Worker,
    connection: &mut Connection,
    pairs: &[(Vec<u8>, Vec<u8>)],
    setter: Setter,
) -> Outcome {
    let shared = worker.shared;
    for _ in 0..TRIES {
        let prepared = worker.outside(|outside| shared.config.prepare(outside, pairs, setter));
        let change = prepared.map_err(|error| Error::Bytes(error.reply()))?;
        // A connection that is to be closed without an answer has done nothing.
        let mut outcome = Some(Ok(None));
        let has_run = worker.alone_for(connection, |worker, _| {
            outcome = shared.config.commit(change).map(|committed| match committed {
                Ok(_) => follow(worker),
                Err(error) => Err(Error::Bytes(error.reply())),
            });
        });
        if !has_run {
            return Err(worker.busy_error());
        }
        if let Some(outcome) = outcome {
            worker.await_flush(outcome?);
            return Ok(());
        }
    }
    Err(Error::Fixed("ERR CONFIG SET failed - other clients keep changing the configuration"))
}

/// What this client sends next runs under the new configuration, even within this batch.
fn follow(worker: &mut Worker) -> Result<Option<PendingFlush>, Error> {
    worker.follow_config();
    worker.follow_appendonly().map_err(|why| {
        Error::Text(format!("ERR CONFIG SET failed (possibly related to argument 'appendonly') - {why}"))
    })
}

static REWRITE: ServerCommand = command("config|rewrite", 2, rewrite as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "2.8.0", "O(1)", "Brings the configuration file up to date.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn rewrite(call: &mut Call<'_>) -> Outcome {
    call.answer_outside(|worker, _| {
        let shared = worker.shared;
        let lines = shared.access.config_lines(worker.config());
        let rewrite = |outside: &Outside| shared.config.rewrite(outside, Some(&lines), Extent::Needed);
        worker.outside(rewrite).map_err(Error::Text)
    });
    Ok(())
}

// Counters belong to their threads: none counts while the gate is closed.
static RESETSTAT: ServerCommand = command("config|resetstat", 2, resetstat as ServerHandler)
    .flags(FLAGS.with(Flags::EXCLUSIVE))
    .doc(Group::Server, "2.0.0", "O(1)", "Sets the statistics of INFO to zero.")
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn resetstat(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    shared.threads.iter().for_each(|thread| thread.reset());
    shared.engine.counters.iter().for_each(|counters| counters.reset());
    shared.engine.lazy_free.reset_freed();
    shared.scripts.evicted.store(0, Ordering::Relaxed);
    shared.persistence.load.failed_commands.store(0, Ordering::Relaxed);
    if let Some(node) = shared.cluster() {
        node.usage.reset_all();
    }
    shared.stats.reset(martlet_base::alloc::used_bytes() as u64);
    call.reply.ok();
    Ok(())
}

static HELP: ServerCommand = command("config|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "5.0.0", "O(1)", "Describes the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "CONFIG");
    Ok(())
}
