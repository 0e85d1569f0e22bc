//! REPLICAOF, also by its old name: which server this one copies.

use martlet_command::{Acl, Error, Flags, Group, Outcome, command};

use super::{Call, ServerCommand, ServerHandler, client_line};
use crate::config::Primary;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&REPLICAOF, &SLAVEOF];

const FLAGS: Flags = Flags::ADMIN
    .with(Flags::NOSCRIPT)
    .with(Flags::STALE)
    .with(Flags::NO_ASYNC_LOADING)
    .with(Flags::EXCLUSIVE);

static REPLICAOF: ServerCommand = command("replicaof", 3, replicaof as ServerHandler)
    .flags(FLAGS)
    .acl(Acl::NONE)
    .syntax("args(host_port(host port:i)|no_one(NO ONE))")
    .doc(Group::Server, "5.0.0", "O(1)", "Makes the server a replica of another, or a primary.");

static SLAVEOF: ServerCommand = command("slaveof", 3, replicaof as ServerHandler)
    .flags(FLAGS)
    .acl(Acl::NONE)
    .syntax("args(host_port(host port:i)|no_one(NO ONE))")
    .doc(Group::Server, "1.0.0", "O(1)", "Makes the server a replica of another, or a primary.")
    .deprecated("5.0.0", "`REPLICAOF`");

fn replicaof(call: &mut Call<'_>) -> Outcome {
    if call.worker.config().cluster_enabled {
        return Err(Error::Fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    let who = String::from_utf8_lossy(&client_line(call.worker, &call.connection.info)).into_owned();
    let current = call.worker.shared.replication.replica.status().primary;
    if call.arg(1).eq_ignore_ascii_case(b"no") && call.arg(2).eq_ignore_ascii_case(b"one") {
        if current.is_some() {
            call.worker.follow_primary(None);
            tracing::info!("MASTER MODE enabled (user request from '{who}')");
        }
        call.reply.ok();
        return Ok(());
    }
    let port = call.int(2).ok().and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Error::Fixed("ERR Invalid master port"))?;
    let host = String::from_utf8_lossy(call.arg(1)).into_owned();
    let primary = Primary { host, port };
    if current.as_ref().is_some_and(|now| now.port == port && now.host.eq_ignore_ascii_case(&primary.host)) {
        tracing::info!(
            "REPLICAOF would result into synchronization with the master we are already connected with. No operation performed."
        );
        call.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    let Primary { host, port } = &primary;
    tracing::info!("REPLICAOF {host}:{port} enabled (user request from '{who}')");
    call.worker.follow_primary(Some(primary));
    call.reply.ok();
    Ok(())
}
