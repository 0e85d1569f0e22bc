//! MULTI, EXEC, WATCH: a queue of commands that run as one, holding all their keys.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use martlet_acl::Origin;
use martlet_base::number::parse_i64;
use martlet_command::{Acl, Control, Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_engine::in_view;
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_script::ScriptFlags;

use super::call::{Call, ServerCommand, ServerHandler};
use crate::clients::flag;
use crate::connection::{Connection, Transaction, Watched};
use crate::registry::Entry;
use crate::runtime::Worker;
use crate::runtime::demands::Demands;
use crate::scripting::facts::{flags_of, promises_no_writes};
use crate::slow_path::SessionFlags;

/// The answer to MULTI in a transaction.
pub(crate) const NESTED: Error = Error::Fixed("ERR MULTI calls can not be nested");

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&MULTI, &EXEC, &DISCARD, &WATCH, &UNWATCH];

const CONTROL: Flags =
    Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE).with(Flags::FAST).with(Flags::ALLOW_BUSY);

static MULTI: ServerCommand = command("multi", 1, multi as ServerHandler)
    .in_valkey(Flags::NO_MULTI, &[])
    .flags(CONTROL.with(Flags::NOT_QUEUED))
    .control(Control::BeginTransaction)
    .acl(Acl::TRANSACTION)
    .doc(Group::Transactions, "1.2.0", "O(1)", "Starts a transaction.");

fn multi(call: &mut Call<'_>) -> Outcome {
    if call.connection.session.transaction.is_some() {
        return Err(NESTED);
    }
    let session = &mut call.connection.session;
    session.transaction = Some(Transaction { db: session.db, ..Transaction::default() });
    session.flags.set(SessionFlags::MULTI, true);
    call.connection.info.flags.fetch_or(flag::MULTI, Ordering::Relaxed);
    call.connection.info.multi.store(0, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

static EXEC: ServerCommand = command("exec", 1, exec as ServerHandler)
    .flags(
        Flags::NOSCRIPT
            .with(Flags::LOADING)
            .with(Flags::STALE)
            .with(Flags::SKIP_SLOWLOG)
            .with(Flags::NOT_QUEUED),
    )
    .control(Control::ExecuteTransaction)
    .acl(Acl::TRANSACTION)
    .doc(
        Group::Transactions,
        "1.2.0",
        "Depends on commands in the transaction",
        "Executes all commands in a transaction.",
    );

fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(transaction) = end_transaction(call.connection) else {
        return Err(Error::Fixed("ERR EXEC without MULTI"));
    };
    count_for_first(call, &transaction);
    let outcome = if transaction.aborted {
        Err(Error::Fixed("EXECABORT Transaction discarded because of previous errors."))
    } else {
        let began = call.worker.mark;
        let view = call.worker.freeze_time();
        let has_run = in_view(call, view, |call| run_held(call, &transaction));
        // EXEC takes as long as all that it runs.
        call.worker.mark = began;
        if has_run { Ok(()) } else { Err(discarded_because(&call.worker.busy_error())) }
    };
    call.worker.unwatch_all(call.connection);
    outcome
}

/// EXEC's cost counts for the slot of its commands.
fn count_for_first(call: &mut Call<'_>, transaction: &Transaction) {
    let first = transaction.queue.iter().find(|(entry, _)| !entry.spec.keys.is_empty());
    call.worker.exec_counts_for(first.as_ref().map(|(entry, args)| (*entry, args)));
}

/// The answer to EXEC when it is refused.
pub(crate) fn discarded_because(error: &Error) -> Error {
    let text = error.to_bytes();
    let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
    Error::Bytes([b"EXECABORT Transaction discarded because of: ", reason].concat())
}

/// Runs a transaction with all its keys and all watched keys held; alone if not all of them are known. False
/// if it would have to wait for a busy script.
fn run_held(call: &mut Call<'_>, transaction: &Transaction) -> bool {
    match shards_of(call, transaction) {
        None if call.worker.keys.has_all_shards() => run_unless_changed(call, transaction),
        None => return run_alone(call, transaction),
        Some(shards) => {
            if !call.worker.keys.lock_shards_unless_busy(shards) {
                return false;
            }
            if reaches_beyond(call, transaction) {
                // Their data names keys of other shards.
                call.worker.release_keys();
                return run_alone(call, transaction);
            }
            run_unless_changed(call, transaction);
            call.worker.release_keys();
        }
    }
    true
}

/// Runs the transaction with all shards; false if a busy script has them.
fn run_alone(call: &mut Call<'_>, transaction: &Transaction) -> bool {
    let Call { worker, connection, reply, args, entry, deny_blocking } = call;
    let (args, entry, deny_blocking) = (*args, *entry, *deny_blocking);
    worker.alone_for(connection, |worker, connection| {
        let mut inner = Call { worker, connection, reply, args, entry, deny_blocking };
        run_unless_changed(&mut inner, transaction);
    })
}

/// Whether queued commands, whose keys are locked, may need further shards.
fn reaches_beyond(call: &mut Call<'_>, transaction: &Transaction) -> bool {
    let (worker, db) = (&mut *call.worker, call.connection.session.db);
    let follows = |entry: &Entry| entry.spec.follows_links.is_some();
    if !transaction.queue.iter().any(|(entry, _)| follows(entry)) {
        return false;
    }
    let selects = |entry: &Entry| entry.spec.control == Control::SelectDatabase;
    transaction
        .queue
        .iter()
        .any(|(entry, args)| selects(entry) || follows(entry) && worker.reaches_beyond(db, entry, &args))
}

/// The shards of all queued commands' keys and of the watched keys; `None` if a command's keys are not known.
fn shards_of(call: &Call<'_>, transaction: &Transaction) -> Option<Vec<usize>> {
    let mut shards = transaction.queue.shards()?;
    shards.extend(call.connection.session.watched.iter().map(|watched| Key::new(&watched.key).shard()));
    Some(shards)
}

/// The end of EXEC, with all keys held: a null if a watched key has changed, else the replies.
fn run_unless_changed(call: &mut Call<'_>, transaction: &Transaction) {
    if call.connection.session.watch_flag.is_raised() || watched_key_has_expired(call) {
        call.reply.null_array();
        return;
    }
    let Call { worker, connection, reply, args, entry, .. } = call;
    if let Err(error) = worker.check_locked_route(connection, entry, args, Some(transaction)) {
        return worker.fail(reply, entry, &error);
    }
    reply.array(transaction.queue.len());
    let was_nested = worker.meter.slot_use.begin_nested();
    for (entry, args) in transaction.queue.iter() {
        if let Err(denial) = worker.check_access(connection, entry, &args, Origin::Multi) {
            let text = format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {}",
                denial.at_exec()
            );
            reply.error(&text);
            worker.count_error(&text);
            continue;
        }
        worker.run_nested(connection, reply, entry, &args, None);
        worker.feed_monitors(connection, entry, &args);
    }
    worker.meter.slot_use.end_nested(was_nested);
    worker.note_stream_bytes();
}

fn watched_key_has_expired(call: &Call<'_>) -> bool {
    let keys = &call.worker.keys;
    call.connection.session.watched.iter().any(|watched| {
        let key = Key::new(&watched.key);
        let shard = keys.shard(key.shard());
        let flag = &call.connection.session.watch_flag;
        if shard.hooks.was_expired(watched.db, key.bytes, flag) {
            return false;
        }
        let entry = shard.keys.db(watched.db).get(&key);
        entry.and_then(|e| e.expiry_ms()).is_some_and(|at_ms| at_ms <= keys.due_ms())
    })
}

static DISCARD: ServerCommand = command("discard", 1, discard as ServerHandler)
    .flags(CONTROL.with(Flags::NOT_QUEUED))
    .control(Control::DiscardTransaction)
    .acl(Acl::TRANSACTION)
    .doc(Group::Transactions, "2.0.0", "O(N) for N queued commands", "Discards a transaction.");

fn discard(call: &mut Call<'_>) -> Outcome {
    if end_transaction(call.connection).is_none() {
        return Err(Error::Fixed("ERR DISCARD without MULTI"));
    }
    call.worker.unwatch_all(call.connection);
    call.reply.ok();
    Ok(())
}

static WATCH: ServerCommand = command("watch", -2, watch as ServerHandler)
    .in_valkey(Flags::NO_MULTI, &[])
    .flags(CONTROL.with(Flags::NOT_QUEUED))
    .keys(&[KeyPart::range(1, -1, 1, KeyFlags::RO)])
    .acl(Acl::TRANSACTION)
    .syntax("*key:k0")
    .doc(
        Group::Transactions,
        "2.2.0",
        "O(1) for every key",
        "Makes EXEC depend on keys staying as they are.",
    );

fn watch(call: &mut Call<'_>) -> Outcome {
    if call.connection.session.transaction.is_some() {
        return Err(Error::Fixed("ERR WATCH inside MULTI is not allowed"));
    }
    let session = &mut call.connection.session;
    let db = session.db;
    for name in call.args.iter().skip(1) {
        if session.watch_flag.is_raised() {
            // EXEC will fail anyway.
            break;
        }
        let key = Key::new(name);
        let keys = &mut call.worker.keys;
        let due_ms = keys.due_ms();
        let entry = keys.shard(key.shard()).keys.db(db).get(&key);
        let was_expired = entry.and_then(|e| e.expiry_ms()).is_some_and(|at_ms| at_ms <= due_ms);
        if keys.hooks_mut(&key).watch(db, name, &session.watch_flag, was_expired) {
            session.watched.push(Watched { db, key: name.to_vec() });
        }
    }
    call.connection.info.watching.store(call.connection.session.watched.len(), Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

static UNWATCH: ServerCommand = command("unwatch", 1, unwatch as ServerHandler)
    .flags(CONTROL)
    .acl(Acl::TRANSACTION)
    .doc(Group::Transactions, "2.2.0", "O(1)", "Forgets all watched keys.");

fn unwatch(call: &mut Call<'_>) -> Outcome {
    call.worker.unwatch_all(call.connection);
    call.reply.ok();
    Ok(())
}

/// Takes the transaction out of the session; the connection is outside MULTI then.
pub(crate) fn end_transaction(connection: &mut Connection) -> Option<Transaction> {
    let transaction = connection.session.transaction.take()?;
    connection.session.flags.set(SessionFlags::MULTI, false);
    let info = &connection.info;
    info.flags.fetch_and(!flag::MULTI, Ordering::Relaxed);
    info.multi.store(-1, Ordering::Relaxed);
    info.multi_bytes.store(0, Ordering::Relaxed);
    Some(transaction)
}

impl Worker {
    /// Adds a command to MULTI's queue.
    pub(crate) fn enqueue(&mut self, connection: &mut Connection, entry: &'static Entry, args: &Args<'_>) {
        let Some(transaction) = &mut connection.session.transaction else { return };
        if transaction.aborted {
            // EXEC will refuse, so there is no need to keep it.
            return;
        }
        transaction.db = self.database_after(transaction.db, entry, args);
        let info = &connection.info;
        info.multi_bytes.fetch_add(transaction.queue.push(entry, args), Ordering::Relaxed);
        let may_write = entry.spec.flags.has(Flags::WRITE) || entry.spec.flags.has(Flags::MAY_REPLICATE);
        transaction.writes |= may_write && !promises_no_writes(self.shared, entry, args);
        let script = flags_of(self.shared, entry, args).filter(|flags| !flags.has(ScriptFlags::COMPATIBLE));
        transaction.grows |= entry.spec.flags.has(Flags::DENYOOM)
            || script.is_some_and(|flags| Demands::of_script(flags, false).memory);
        transaction.runs_scripts |= matches!(entry.spec.control, Control::RunScript(_));
        info.multi.store(transaction.queue.len() as i64, Ordering::Relaxed);
    }

    /// The database that is selected after a request on `db`.
    pub(crate) fn database_after(&self, db: usize, entry: &Entry, args: &Args<'_>) -> usize {
        if entry.spec.control != Control::SelectDatabase {
            return db;
        }
        let selected = args.get(1).and_then(parse_i64).and_then(|number| usize::try_from(number).ok());
        selected.filter(|number| *number < self.settings.databases).unwrap_or(db)
    }

    /// Drops a session's watched keys. EXEC, within which UNWATCH may run, has locked all of them.
    pub(crate) fn unwatch_all(&mut self, connection: &mut Connection) {
        let session = &mut connection.session;
        let mut is_done = true;
        for watched in std::mem::take(&mut session.watched) {
            is_done &= self.remove_hook_of_watch(watched, &session.watch_flag);
        }
        if is_done {
            session.watch_flag.clear();
        } else {
            // Other holders may still raise it.
            session.watch_flag = Arc::default();
        }
        connection.info.watching.store(0, Ordering::Relaxed);
    }
}
