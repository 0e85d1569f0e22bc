//! Connection: PING, ECHO, SELECT, AUTH, HELLO, QUIT, RESET. (CLIENT has its own file.)

use std::sync::atomic::Ordering;

use martlet_acl::{DEFAULT_USER, Origin, Reason};
use martlet_base::number::parse_i64;
use martlet_base::sync::lock;
use martlet_command::generic::database;
use martlet_command::{Acl, Control, Databases, Error, Fieldsets, Flags, Group, Outcome, Tip, command};
use martlet_protocol::request::Args;
use martlet_spec::handshake::{self, Hello};

use super::{Call, ServerCommand, ServerHandler};
use crate::clients::flag;
use crate::cluster::slot_migration::import::INTERNAL_USER;
use crate::connection::ReplyMode;
use crate::runtime::transaction::end_transaction;
use crate::slow_path::SessionFlags;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&PING, &ECHO, &SELECT, &AUTH, &HELLO, &QUIT, &RESET];

static PING: ServerCommand = command("ping", -1, ping as ServerHandler)
    .flags(Flags::FAST.with(Flags::SUBSCRIBED).with(Flags::NEEDS_DISK))
    .acl(Acl::CONNECTION)
    .syntax("?message")
    .doc(Group::Connection, "1.0.0", "O(1)", "Answers PONG, or the given message.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ALL_SUCCEEDED]);

fn ping(call: &mut Call<'_>) -> Outcome {
    let is_subscriber = call.connection.is_subscriber() && !call.connection.session.resp3;
    match call.argc() {
        1 | 2 if is_subscriber => {
            // It expects messages only.
            call.reply.array(2);
            call.reply.bulk(b"pong");
            call.reply.bulk(call.arg(1));
        }
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.args.at(1)),
        _ => return Err(Error::Arity("ping")),
    }
    Ok(())
}

static ECHO: ServerCommand = command("echo", 2, echo as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::CONNECTION)
    .syntax("message")
    .doc(Group::Connection, "1.0.0", "O(1)", "Answers the given message.");

fn echo(call: &mut Call<'_>) -> Outcome {
    call.reply.bulk(call.args.at(1));
    Ok(())
}

static SELECT: ServerCommand = command("select", 2, select as ServerHandler)
    .in_valkey(Flags::ALLOW_BUSY, &[])
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::FAST))
    .databases(Databases::Named(|_| vec![1]))
    .control(Control::SelectDatabase)
    .acl(Acl::CONNECTION)
    .syntax("index:i")
    .doc(Group::Connection, "1.0.0", "O(1)", "Changes the database of the connection.");

fn select(call: &mut Call<'_>) -> Outcome {
    let settings = &call.worker.settings;
    let is_only_one = settings.is_clustered && settings.databases == 1;
    if is_only_one && parse_i64(call.arg(1)).is_some_and(|index| index != 0) {
        return Err(Error::Fixed("ERR SELECT is not allowed in cluster mode"));
    }
    if parse_i64(call.arg(1)).is_some_and(|index| index != 0) {
        call.worker.count_incompatible();
    }
    let index = database(call.arg(1), call.worker.settings.databases)?;
    call.connection.session.db = index;
    call.connection.info.db.store(index, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

const OPEN: Flags = Flags::NOSCRIPT
    .with(Flags::LOADING)
    .with(Flags::STALE)
    .with(Flags::FAST)
    .with(Flags::NO_AUTH)
    .with(Flags::ALLOW_BUSY);

static AUTH: ServerCommand = command("auth", -2, auth as ServerHandler)
    .flags(OPEN)
    .secrets(|args| (1..args.len()).collect())
    .acl(Acl::CONNECTION)
    .syntax("?username^6.0.0 password")
    .doc(Group::Connection, "1.0.0", "O(N) for N passwords of the user", "Authenticates the connection.")
    .history(&[("6.0.0", "Takes a user's name before the password.")]);

fn auth(call: &mut Call<'_>) -> Outcome {
    let needs_none = call.worker.users.default_user().needs_no_password;
    let (user, password) = handshake::credentials(&call.args, needs_none)?;
    if user == Some(INTERNAL_USER) && become_node(call, password) {
        call.reply.ok();
        return Ok(());
    }
    authenticate(call, user.unwrap_or(DEFAULT_USER), password)?;
    call.reply.ok();
    Ok(())
}

/// Makes the connection another node's, if it knows the cluster's secret.
fn become_node(call: &mut Call<'_>, secret: &[u8]) -> bool {
    let shared = call.worker.shared;
    let Some(node) = shared.cluster() else { return false };
    if !node.read(|cluster| is_equal(cluster.secret(), secret)) {
        return false;
    }
    let user = shared.access.superuser(&call.worker.config().clone());
    call.worker.log_in(call.connection, user);
    call.connection.session.peer.get_or_insert_default();
    true
}

/// Whether two secrets are equal, in a time that does not depend on where they differ.
fn is_equal(known: &[u8], given: &[u8]) -> bool {
    known.len() == given.len() && known.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn authenticate(call: &mut Call<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let Some(user) = call.worker.users.authenticate(name, password).cloned() else {
        let origin = if call.deny_blocking { Origin::Multi } else { Origin::Toplevel };
        call.worker.note_refusal(call.connection, Reason::Auth, origin, call.arg(0), name);
        return Err(handshake::WRONG_PASSWORD);
    };
    call.worker.log_in(call.connection, user);
    Ok(())
}

/// The user and the password behind AUTH.
fn hello_credentials(args: &Args<'_>) -> Vec<usize> {
    let auth = (1..args.len()).find(|&at| args.at(at).eq_ignore_ascii_case(b"auth"));
    auth.into_iter().flat_map(|at| [at + 1, at + 2]).collect()
}

static HELLO: ServerCommand = command("hello", -1, hello as ServerHandler)
    .flags(OPEN)
    .secrets(hello_credentials)
    .acl(Acl::CONNECTION)
    .syntax("?arguments(protover:i ?auth=AUTH(username password) ?clientname=SETNAME)")
    .doc(
        Group::Connection,
        "6.0.0",
        "O(1)",
        "Chooses the protocol version and returns the server's properties.",
    )
    .history(&[("6.2.0", "`protover` may be left out: then it only returns the connection's properties.")]);

fn hello(call: &mut Call<'_>) -> Outcome {
    let Hello { is_resp3, credentials, name } = Hello::parse(&call.args)?;
    let resp3 = is_resp3.unwrap_or(call.connection.session.resp3);
    if let Some((user, password)) = credentials {
        authenticate(call, user, password)?;
    }
    if call.connection.session.flags.has(SessionFlags::UNAUTHENTICATED) {
        return Err(handshake::NOT_AUTHENTICATED);
    }
    if let Some(name) = name {
        lock(&call.connection.info.details).name = name.to_vec();
    }
    call.connection.session.resp3 = resp3;
    call.connection.info.resp.store(if resp3 { 3 } else { 2 }, Ordering::Relaxed);
    call.reply.set_resp3(resp3);
    write_hello(call);
    Ok(())
}

fn write_hello(call: &mut Call<'_>) {
    let (zone, presentation) = (&call.worker.config().availability_zone, call.worker.presentation());
    let reply = &mut *call.reply;
    reply.map(7 + usize::from(!zone.is_empty()));
    for (field, value) in [("server", presentation.server()), ("version", presentation.version())] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(if call.connection.session.resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(call.connection.info.id as i64);
    let mode = if call.worker.config().cluster_enabled { "cluster" } else { "standalone" };
    let role = if call.worker.shared.is_replica() { "replica" } else { "master" };
    for (field, value) in [("mode", mode), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    super::module::write_list(reply, call.worker.shared.registry, presentation);
    // As in Valkey 9.
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone.as_bytes());
    }
}

static QUIT: ServerCommand = command("quit", -1, quit as ServerHandler)
    .flags(OPEN.with(Flags::SUBSCRIBED).with(Flags::NOT_QUEUED))
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "1.0.0", "O(1)", "Closes the connection.")
    .deprecated("7.2.0", "closing the connection");

fn quit(call: &mut Call<'_>) -> Outcome {
    call.reply.ok();
    call.connection.closing = true;
    Ok(())
}

static RESET: ServerCommand = command("reset", 1, reset as ServerHandler)
    .flags(OPEN.with(Flags::SUBSCRIBED).with(Flags::NOT_QUEUED))
    .acl(Acl::CONNECTION)
    .doc(Group::Connection, "6.2.0", "O(1)", "Brings the connection back to the state of a new one.");

fn reset(call: &mut Call<'_>) -> Outcome {
    end_transaction(call.connection);
    call.worker.unwatch_all(call.connection);
    call.worker.unsubscribe_all(call.connection);
    call.worker.stop_tracking(call.connection);
    call.worker.stop_monitoring(call.connection);
    let user = call.worker.users.default_user().clone();
    let session = &mut call.connection.session;
    session.db = 0;
    session.resp3 = false;
    session.authenticated = user.is_open();
    session.reply_mode = ReplyMode::On;
    session.fieldsets = Fieldsets::default();
    session.flags = if user.is_open() { SessionFlags::default() } else { SessionFlags::UNAUTHENTICATED };
    session.become_user(user);
    let info = &call.connection.info;
    info.db.store(0, Ordering::Relaxed);
    info.resp.store(2, Ordering::Relaxed);
    // The client's capabilities stay.
    info.flags.fetch_and(flag::FOLLOWS_REDIRECTS, Ordering::Relaxed);
    let mut details = lock(&info.details);
    details.name.clear();
    details.user = DEFAULT_USER.into();
    drop(details);
    call.reply.set_resp3(false);
    call.reply.simple("RESET");
    Ok(())
}
