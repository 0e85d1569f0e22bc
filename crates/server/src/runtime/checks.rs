//! The checks before a command runs: small functions in Redis' order, the first error is the answer.

use std::sync::atomic::Ordering;

use martlet_acl::Origin;
use martlet_command::{Error, Flags, Outcome};
use martlet_protocol::request::{Args, OwnedArgs};
use martlet_script::ScriptFlags;

use crate::clients::flag;
use crate::config::ProtectedAction;
use crate::connection::Connection;
use crate::refusal::Refusal;
use crate::registry::{Entry, names_command};
use crate::runtime::Worker;
use crate::runtime::demands::{self, Demands};
use crate::runtime::request_flags::{all_have, any_has, is_from_primary};
use crate::scripting::facts::flags_of;
use crate::slow_path::SessionFlags;

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
    may_write,
    allowed_while_subscribed,
    not_stale,
    not_loading,
    not_busy,
    not_monitoring,
];

/// All checks in order. Valkey says nothing about a request before its client is authenticated.
pub fn before(worker: &Worker, connection: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    if worker.presentation().is_valkey() {
        authenticated(worker, connection, entry, args)?;
    }
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
        return Err(NOT_AUTHENTICATED);
    }
    Ok(())
}

/// The error for a request of a client that must authenticate first.
pub const NOT_AUTHENTICATED: Error = Error::Fixed("NOAUTH Authentication required.");

fn allowed_in_multi(worker: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    let presentation = worker.presentation();
    if connection.session.transaction.is_none() || !presentation.flags(entry.spec).has(Flags::NO_MULTI) {
        return Ok(());
    }
    Err(if presentation.is_valkey() {
        Error::Text(format!("ERR Command '{}' not allowed inside a transaction", entry.spec.full_name))
    } else {
        Error::Fixed("ERR Command not allowed inside a transaction")
    })
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

/// Memory, disk, replicas and role allow the request, and all that EXEC would run.
fn may_write(worker: &Worker, connection: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
    if connection.session.transaction.is_some()
        && let Some(flags) = flags_of(worker.shared, entry, args)
        && !flags.has(ScriptFlags::COMPATIBLE)
    {
        // A script with flags is refused when it is queued, as a command with such flags.
        let demands = Demands::of_script(flags, is_from_primary(connection));
        let why = demands::refusal(worker, demands, demands::OF_WRITE);
        return why.map_or(Ok(()), |why| Err(why.of_command(worker)));
    }
    refuse_for(worker, connection, entry, demands::OF_WRITE)
}

/// The server is no replica without a link to its primary, or the command takes stale data.
fn not_stale(worker: &Worker, connection: &Connection, entry: &Entry, _: &Args<'_>) -> Outcome {
    refuse_for(worker, connection, entry, demands::OF_STALE)
}

fn refuse_for(worker: &Worker, connection: &Connection, entry: &Entry, reasons: &[Refusal]) -> Outcome {
    let demands = Demands::of_request(connection, entry, worker.routes.is_some());
    demands::refusal(worker, demands, reasons).map_or(Ok(()), |why| Err(why.of_command(worker)))
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
    if is_busy && !may_run_beside_script(worker, entry) { Err(worker.busy_error()) } else { Ok(()) }
}

fn may_run_beside_script(worker: &Worker, entry: &Entry) -> bool {
    let flags = worker.presentation().flags(entry.spec);
    flags.has(Flags::ALLOW_BUSY) && !(worker.is_excluded() && entry.has_keys())
}

/// Whether a request waits until its thread has returned to the gate: the busy script that kept the thread
/// from it has ended, so that BUSY would be wrong.
pub fn must_wait_for_gate(worker: &Worker, entry: &Entry) -> bool {
    let is_left = worker.is_excluded() && worker.shared.scripts.busy_engine().is_none();
    is_left && !may_run_beside_script(worker, entry)
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
