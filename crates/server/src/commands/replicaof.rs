//! REPLICAOF, also by its old name: which server this one copies; and FAILOVER, which has it change roles
//! with a replica.

use martlet_command::{Acl, Error, Flags, Group, Outcome, command};

use super::{Call, ServerCommand, ServerHandler, client_line};
use crate::config::Primary;
use crate::replication::failover_state::{Request, State};
use crate::replication::primary::Phase;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&FAILOVER, &REPLICAOF, &SLAVEOF];

const FLAGS: Flags = Flags::ADMIN
    .with(Flags::NOSCRIPT)
    .with(Flags::STALE)
    .with(Flags::NO_ASYNC_LOADING)
    .with(Flags::EXCLUSIVE);

static REPLICAOF: ServerCommand = command("replicaof", 3, replicaof as ServerHandler)
    .flags(FLAGS)
    .acl(Acl::NONE)
    .syntax("args(host-port(host port:i)|no-one(NO ONE))")
    .doc(Group::Server, "5.0.0", "O(1)", "Makes the server a replica of another, or a primary.");

static SLAVEOF: ServerCommand = command("slaveof", 3, replicaof as ServerHandler)
    .flags(FLAGS)
    .acl(Acl::NONE)
    .syntax("args(host-port(host port:i)|no-one(NO ONE))")
    .doc(Group::Server, "1.0.0", "O(1)", "Makes the server a replica of another, or a primary.")
    .deprecated("5.0.0", "`REPLICAOF`");

fn replicaof(call: &mut Call<'_>) -> Outcome {
    if call.worker.config().cluster_enabled {
        return Err(Error::Fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    if call.worker.shared.replication.failover.state() != State::None {
        return Err(Error::Fixed("ERR REPLICAOF not allowed while failing over."));
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

static FAILOVER: ServerCommand = command("failover", -1, failover as ServerHandler)
    .flags(Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::STALE).with(Flags::EXCLUSIVE))
    .acl(Acl::NONE)
    .syntax("?target=TO(host port:i ?FORCE) ?ABORT ?milliseconds:i=TIMEOUT")
    .doc(Group::Server, "6.2.0", "O(1)", "Changes roles with a replica once that has all data.");

fn failover(call: &mut Call<'_>) -> Outcome {
    if call.worker.config().cluster_enabled {
        return Err(Error::Fixed(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    if call.argc() == 2 && call.arg(1).eq_ignore_ascii_case(b"abort") {
        if call.worker.shared.replication.failover.state() == State::None {
            return Err(Error::Fixed("ERR No failover in progress."));
        }
        call.worker.abort_failover("Failover manually aborted");
        call.reply.ok();
        return Ok(());
    }
    let request = requested(call)?;
    let shared = call.worker.shared;
    let replicas = shared.replication.primary.replicas();
    if shared.replication.failover.state() != State::None {
        return Err(Error::Fixed("ERR FAILOVER already in progress."));
    }
    if shared.is_replica() {
        return Err(Error::Fixed("ERR FAILOVER is not valid when server is a replica."));
    }
    if replicas.is_empty() {
        return Err(Error::Fixed("ERR FAILOVER requires connected replicas."));
    }
    if request.force && (request.until_ms.is_none() || request.target.is_none()) {
        return Err(Error::Fixed(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    match &request.target {
        Some(Primary { host, port }) => {
            let found = replicas.iter().find(|replica| replica.is_at(host, *port));
            let found = found.ok_or(Error::Fixed("ERR FAILOVER target HOST and PORT is not a replica."))?;
            if found.phase() != Phase::Online {
                return Err(Error::Fixed("ERR FAILOVER target replica is not online."));
            }
            tracing::info!("FAILOVER requested to {host}:{port}.");
        }
        None => tracing::info!("FAILOVER requested to any replica."),
    }
    call.worker.begin_failover(request);
    call.reply.ok();
    Ok(())
}

/// What FAILOVER's arguments ask for.
fn requested(call: &Call<'_>) -> Result<Request, Error> {
    let mut request = Request::default();
    let mut words = call.rest(1);
    while words.left() > 0 {
        if request.until_ms.is_none() && words.option("timeout", 1) {
            let timeout_ms = words.int()?;
            if timeout_ms <= 0 {
                return Err(Error::Fixed("ERR FAILOVER timeout must be greater than 0"));
            }
            request.until_ms = Some(call.worker.now_ms.saturating_add(timeout_ms));
        } else if request.target.is_none() && words.option("to", 2) {
            let host = String::from_utf8_lossy(words.value()?).into_owned();
            // No replica is at a port that there cannot be.
            let port = u16::try_from(words.int()?).unwrap_or(0);
            request.target = Some(Primary { host, port });
        } else if !request.force && words.option("force", 0) {
            request.force = true;
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok(request)
}
