//! The checks before a command runs: small functions in Redis' order, the first error is the answer.

use std::sync::atomic::Ordering;

use martlet_acl::Origin;
use martlet_command::{Control, Error, Flags, NO_REPLICAS, Outcome};
use martlet_protocol::request::{Args, OwnedArgs};

use crate::clients::flag;
use crate::config::ProtectedAction;
use crate::connection::{Connection, Transaction};
use crate::registry::{Entry, names_command};
use crate::runtime::Worker;
use crate::slow_path::{SessionFlags, SlowPathReason};

/// A check.
type Check = fn(&Worker, &Connection, &Entry, &Args<'_>) -> Outcome;

const CHECKS: &[Check] = &[
    subcommand_exists,
    arity,
    is_unprotected,
    authenticated,
    allowed_in_multi,
    permitted,
    redirected_to_primary,
    for_this_node,
    within_memory,
    disk_accepts_writes,
    enough_replicas,
    may_write_to_replica,
    allowed_while_subscribed,
    not_stale,
    not_loading,
    not_busy,
    not_monitoring,
];

/// All checks in order.
pub fn before(worker: &Worker, connection: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    CHECKS.iter().try_for_each(|check| check(worker, connection, entry, args))
}

/// The error for a container's subcommand that does not exist. In Redis, DEBUG's are not in the table: an
/// unknown one and a wrong number of arguments get the same error.
pub fn unknown_subcommand(entry: &Entry, args: &Args<'_>) -> Error {
    match entry.spec.flags.has(Flags::DEBUG) {
        true => Error::subcommand_syntax(args),
        false => Error::unknown_subcommand(args),
    }
}

fn subcommand_exists(_: &Worker, _: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    if names_command(entry, args) { Ok(()) } else { Err(unknown_subcommand(entry, args)) }
}

fn arity(_: &Worker, _: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    match entry.spec.takes(args.len()) {
        true => Ok(()),
        false if entry.parent.is_some() && entry.spec.flags.has(Flags::DEBUG) => {
            Err(Error::subcommand_syntax(args))
        }
        false => Err(Error::Arity(entry.spec.full_name)),
    }
}

fn is_unprotected(worker: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let config = worker.config();
    let (permission, error) = if entry.spec.flags.has(Flags::DEBUG) {
        (config.enable_debug_command, NO_DEBUG)
    } else if entry.spec.flags.has(Flags::LOADS_MODULES) {
        (config.enable_module_command, NO_MODULE)
    } else {
        return Ok(());
    };
    let is_allowed = match permission {
        ProtectedAction::Yes => true,
        ProtectedAction::No => false,
        ProtectedAction::Local => connection.is_local(),
    };
    if is_allowed { Ok(()) } else { Err(error) }
}

const NO_DEBUG: Error = Error::Fixed(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);
const NO_MODULE: Error = Error::Fixed(
    "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
);

fn authenticated(_: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    if connection.session.flags.has(SessionFlags::UNAUTHENTICATED) && !entry.spec.flags.has(Flags::NO_AUTH) {
        return Err(Error::Fixed("NOAUTH Authentication required."));
    }
    Ok(())
}

fn allowed_in_multi(_: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    if connection.session.transaction.is_some() && entry.spec.flags.has(Flags::NO_MULTI) {
        return Err(Error::Fixed("ERR Command not allowed inside a transaction"));
    }
    Ok(())
}

/// The user may run the command, with these keys and channels.
fn permitted(worker: &Worker, connection: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    let origin = if connection.session.transaction.is_some() { Origin::Multi } else { Origin::Toplevel };
    worker.check_access(connection, entry, args, origin).map_err(|denial| {
        let text = denial.text(&connection.session.user.name, worker.public_name(entry));
        Error::Bytes([b"NOPERM ", &text[..]].concat())
    })
}

/// No other node of the cluster answers for its keys.
fn for_this_node(worker: &Worker, connection: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    worker.check_route(connection, entry, args)
}

/// Whether the client is this server's primary, which is obeyed.
pub(crate) fn is_from_primary(connection: &Connection) -> bool {
    connection.info.flags.load(Ordering::Relaxed) & flag::PRIMARY != 0
}

/// The transaction that the command would execute.
pub fn executed<'a>(connection: &'a Connection, entry: &Entry) -> Option<&'a Transaction> {
    let transaction = connection.session.transaction.as_ref();
    transaction.filter(|_| entry.spec.control == Control::ExecuteTransaction)
}

/// Whether the command has these flags, and all that EXEC would run.
fn all_have(connection: &Connection, entry: &Entry, flags: Flags) -> bool {
    entry.spec.flags.has(flags) && executed(connection, entry).is_none_or(|of| of.queue.all_have(flags))
}

/// Whether the command has these flags, or one of those that EXEC would run.
fn any_has(connection: &Connection, entry: &Entry, flags: Flags) -> bool {
    entry.spec.flags.has(flags) || executed(connection, entry).is_some_and(|of| of.queue.any_has(flags))
}

/// Whether the command runs a script, or executes a transaction that does.
pub fn runs_script(connection: &Connection, entry: &Entry) -> bool {
    matches!(entry.spec.control, Control::RunScript(_))
        || executed(connection, entry).is_some_and(|transaction| transaction.runs_scripts)
}

/// The answer to a request that needs more memory than there is.
pub(crate) const OUT_OF_MEMORY: Error =
    Error::Fixed("OOM command not allowed when used memory > 'maxmemory'.");

/// Memory is above `maxmemory` and the command, or one that EXEC would run, may need more.
pub(crate) fn within_memory(
    worker: &Worker,
    connection: &Connection,
    entry: &Entry,
    _: &Args<'_>,
) -> Outcome {
    let grows =
        executed(connection, entry).is_some_and(|queue| queue.grows) || entry.spec.flags.has(Flags::DENYOOM);
    if grows && worker.shared.slow_path_reasons.has(SlowPathReason::MemoryFull) {
        return Err(OUT_OF_MEMORY);
    }
    Ok(())
}

/// Whether as many replicas follow as `min-replicas-to-write` asks for.
pub(crate) fn enough_replicas(
    worker: &Worker,
    connection: &Connection,
    entry: &Entry,
    _: &Args<'_>,
) -> Outcome {
    let writes = entry.spec.flags.has(Flags::WRITE)
        || executed(connection, entry).is_some_and(|transaction| transaction.writes);
    if writes && worker.shared.slow_path_reasons.has(SlowPathReason::FewReplicas) {
        return Err(Error::Fixed(NO_REPLICAS));
    }
    Ok(())
}

/// A client with subscriptions has few commands left, unless it can tell messages from replies.
fn allowed_while_subscribed(_: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    if !connection.session.flags.has(SessionFlags::SUBSCRIBED) || connection.session.resp3 {
        return Ok(());
    }
    if entry.spec.flags.has(Flags::SUBSCRIBED) {
        return Ok(());
    }
    Err(Error::quoting(
        "ERR Can't execute '",
        entry.spec.full_name.as_bytes(),
        "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
    ))
}

/// Whether the disk takes appended records, and the last save in the background has not failed: no further
/// writes may be lost.
pub(crate) fn disk_accepts_writes(
    worker: &Worker,
    connection: &Connection,
    entry: &Entry,
    _: &Args<'_>,
) -> Outcome {
    let needs_disk = entry.spec.flags.has(Flags::WRITE) || entry.spec.flags.has(Flags::NEEDS_DISK);
    if needs_disk || executed(connection, entry).is_some_and(|queue| queue.writes) {
        disk_accepts(worker)
    } else {
        Ok(())
    }
}

/// The same of anything that writes.
pub(crate) fn disk_accepts(worker: &Worker) -> Outcome {
    use std::sync::atomic::Ordering::Relaxed;
    let persistence = &worker.shared.persistence;
    if persistence.refuses_writes.load(Relaxed) {
        return Err(Error::Fixed(
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.",
        ));
    }
    if persistence.log.refuses_writes.load(Relaxed) {
        return Err(Error::Text(persistence.log.refusal()));
    }
    Ok(())
}

/// The server is a replica that only its primary writes to.
pub(crate) fn may_write_to_replica(
    worker: &Worker,
    connection: &Connection,
    entry: &Entry,
    _: &Args<'_>,
) -> Outcome {
    let config = worker.config();
    if config.replicaof.0.is_none() || !config.replica_read_only || is_from_primary(connection) {
        return Ok(());
    }
    if any_has(connection, entry, Flags::WRITE) {
        return Err(Error::Fixed("READONLY You can't write against a read only replica."));
    }
    Ok(())
}

/// Whether the server is a replica, and the client asks to be redirected.
fn redirected_to_primary(worker: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let flags = connection.info.flags.load(Ordering::Relaxed);
    let Some(primary) = &worker.config().replicaof.0 else { return Ok(()) };
    if flags & flag::FOLLOWS_REDIRECTS == 0 || flags & flag::PRIMARY != 0 {
        return Ok(());
    }
    let concerns = |flag: Flags| any_has(connection, entry, flag);
    let may_read = flags & flag::READONLY != 0;
    if concerns(Flags::WRITE) || !may_read && concerns(Flags::READONLY) {
        return Err(Error::Redirect(format!("REDIRECT {}:{}", primary.host, primary.port)));
    }
    Ok(())
}

/// The server is a replica without a link to its primary, and the command needs data that is not stale.
pub(crate) fn not_stale(worker: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let config = worker.config();
    let may_be_stale = config.replicaof.0.is_none() || config.replica_serve_stale_data;
    if may_be_stale || all_have(connection, entry, Flags::STALE) || worker.shared.is_linked() {
        return Ok(());
    }
    Err(Error::Fixed("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."))
}

/// Data is being loaded and the command needs all of it.
fn not_loading(worker: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let persistence = &worker.shared.persistence;
    let may_run = if persistence.is_loading_async() {
        // An older state of the data is there.
        !any_has(connection, entry, Flags::NO_ASYNC_LOADING)
    } else {
        !persistence.is_loading() || all_have(connection, entry, Flags::LOADING)
    };
    if may_run { Ok(()) } else { Err(Error::Fixed("LOADING Redis is loading the dataset in memory")) }
}

/// A script has run for longer than `busy-reply-threshold`.
fn not_busy(worker: &Worker, _: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let is_busy = worker.is_excluded() || worker.shared.scripts.busy_engine().is_some();
    let may_run = entry.spec.flags.has(Flags::ALLOW_BUSY) && !(worker.is_excluded() && entry.has_keys());
    if is_busy && !may_run { Err(worker.busy_error()) } else { Ok(()) }
}

/// A client that MONITORs has become a kind of replica; it may still leave that state.
fn not_monitoring(_: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let monitors = connection.session.flags.has(SessionFlags::MONITOR);
    let data = entry.spec.flags.has(Flags::WRITE) || entry.spec.flags.has(Flags::READONLY);
    if monitors && data {
        return Err(Error::Fixed("ERR Replica can't interact with the keyspace"));
    }
    Ok(())
}

/// The arguments as logs may show them, if some must not be shown.
pub fn redacted(entry: &Entry, args: &Args<'_>) -> Option<OwnedArgs> {
    let hidden = entry.spec.secrets?(args);
    if hidden.is_empty() {
        return None;
    }
    let is_hidden = |i: usize| hidden.binary_search(&i).is_ok();
    let shown = args.iter().enumerate().map(|(i, arg)| if is_hidden(i) { b"(redacted)" } else { arg });
    Some(OwnedArgs::from_slices(shown))
}
