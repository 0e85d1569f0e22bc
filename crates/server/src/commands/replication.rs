//! Primaries and replicas, and waits for them: PSYNC, SYNC, REPLCONF, ROLE, WAIT, WAITAOF.

use std::sync::atomic::Ordering;

use martlet_base::number::parse_i64;
use martlet_base::sync::lock;
use martlet_command::{Acl, Block, Copies, Error, Flags, Group, Outcome, TimeoutReply, Tip, Wait, command};
use martlet_journal::stream::Audience;
use martlet_journal::{Follower, Position, REPLICAS};

use super::{Call, ServerCommand, ServerHandler, client_line};
use crate::clients::flag;
use crate::replication::failover_state::{GETACK, State};
use crate::replication::source::Source;
use martlet_persistence::aof::Phase as LogPhase;
use martlet_persistence::save::Contents;

use crate::config::split_words;
use crate::replication::primary::{Phase, capability};
use crate::runtime::Mail;
use crate::runtime::Worker;
use crate::waits::WITHOUT_LOG;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&PSYNC, &REPLCONF, &ROLE, &SYNC, &WAIT, &WAITAOF];

const SYNCS: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING).with(Flags::NO_MULTI);

static SYNC: ServerCommand = command("sync", 1, sync as ServerHandler).flags(SYNCS).doc(
    Group::Server,
    "1.0.0",
    "O(N) for N keys",
    "Makes the connection a replica's, which gets the data set and then all changes.",
);

fn sync(call: &mut Call<'_>) -> Outcome {
    if may_sync(call)? {
        call.worker.replica_link(call.connection).replica.has_said_sync.store(true, Ordering::Relaxed);
        full_sync(call);
    }
    Ok(())
}

static PSYNC: ServerCommand =
    // A failover changes the role.
    command("psync", -3, psync as ServerHandler)
        .flags(SYNCS.with(Flags::EXCLUSIVE))
        .syntax("replicationid offset:i")
        .doc(
            Group::Server,
            "2.8.0",
            "O(1), or O(N) for N keys if all of them are sent",
            "Makes the connection a replica's, which continues at its offset if the backlog reaches back to it.",
        );

fn psync(call: &mut Call<'_>) -> Outcome {
    if call.argc() > 3 && call.arg(3).eq_ignore_ascii_case(b"failover") && !call.connection.is_replica() {
        take_over(call)?;
    }
    if !may_sync(call)? {
        return Ok(());
    }
    let Some(offset) = parse_i64(call.arg(2)) else {
        let name = call.worker.replica_link(call.connection).replica.name();
        tracing::warn!("Replica {name} asks for synchronization but with a wrong offset");
        return Err(Error::NotInteger);
    };
    let stats = &call.worker.shared.stats;
    if partial_sync(call, offset) {
        stats.sync_partial.fetch_add(1, Ordering::Relaxed);
    } else {
        if call.arg(1) != b"?" {
            stats.sync_partial_refused.fetch_add(1, Ordering::Relaxed);
        }
        full_sync(call);
    }
    Ok(())
}

/// The primary asks this replica to become the primary, and will be its replica.
fn take_over(call: &mut Call<'_>) -> Outcome {
    let (shared, id) = (call.worker.shared, String::from_utf8_lossy(call.arg(1)).into_owned());
    tracing::info!("Failover request received for replid {id}.");
    if !shared.is_replica() {
        return Err(Error::Fixed("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if !shared.replication.history().may_take_over(&id) {
        return Err(Error::Fixed("ERR PSYNC FAILOVER replid must match my replid."));
    }
    call.worker.follow_primary(None);
    let who = String::from_utf8_lossy(&client_line(call.worker, &call.connection.info)).into_owned();
    tracing::info!("MASTER MODE enabled (failover request from '{who}')");
    Ok(())
}

/// Whether the client may become a replica; not again if it is one.
fn may_sync(call: &Call<'_>) -> Result<bool, Error> {
    if call.connection.is_replica() {
        return Ok(false);
    }
    if call.worker.shared.replication.failover.state() != State::None {
        return Err(Error::Fixed("NOMASTERLINK Can't SYNC while failing over"));
    }
    if call.worker.shared.is_replica() && !call.worker.shared.is_linked() {
        return Err(Error::Fixed("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    if !call.reply.is_empty() || call.connection.output_bytes() > 0 {
        return Err(Error::Fixed("ERR SYNC and PSYNC are invalid with pending output"));
    }
    if let Some(link) = &call.connection.replica
        && link.replica.contents() != Contents::ALL
        && !link.replica.can(capability::EOF)
    {
        return Err(Error::Fixed("ERR Filtered replica requires EOF capability"));
    }
    Ok(true)
}

/// Lets a replica continue behind `offset - 1` bytes of the stream that it names; false if that is not there.
fn partial_sync(call: &mut Call<'_>, offset: i64) -> bool {
    let shared = call.worker.shared;
    let (journal, asked) = (&shared.engine.journal, call.arg(1));
    let history = shared.replication.history().clone();
    let Some(at) = history.place_of(asked, offset) else {
        if asked != b"?" && offset > 0 {
            tracing::info!(
                "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{}', my replication IDs are '{}' and '{}')",
                String::from_utf8_lossy(asked),
                history.id(),
                history.second().map_or_else(|| "0".repeat(40), |(id, _)| id.to_owned())
            );
        }
        return false;
    };
    let is_kept = journal.is_followed_by(Follower::Replicas) || journal.relays();
    journal.pump(journal.end());
    let most_behind = call.worker.most_behind();
    let reader = journal.attach(Audience::Replicas, Some(at), Some(most_behind));
    let (Ok(reader), true) = (reader, is_kept) else {
        tracing::info!(
            "Unable to partial resync with replica {} for lack of backlog (Replica request was: {offset}).",
            call.worker.replica_link(call.connection).replica.name()
        );
        return false;
    };
    let link = call.worker.replica_link(call.connection);
    tracing::info!(
        "Partial resynchronization request from {} accepted. Sending {} bytes of backlog starting from offset {offset}.",
        link.replica.name(),
        reader.behind()
    );
    // The client has the stream's beginning: it need not wait for its reply.
    match link.replica.can(capability::PSYNC2) {
        true => call.reply.simple(&format!("CONTINUE {}", history.id())),
        false => call.reply.simple("CONTINUE"),
    }
    // The data set that the client gets by another connection is of a place before or at this.
    let channel = link.replica.channel_client.load(Ordering::Relaxed);
    let has_channel = shared.replication.primary.release(channel);
    let phase = if has_channel { Phase::BulkAndStream } else { Phase::Online };
    call.worker.become_replica(call.connection, Source::Stream(reader), phase);
    true
}

/// Has a full sync begin for the client, if need be with others.
fn full_sync(call: &mut Call<'_>) {
    let shared = call.worker.shared;
    if announce_channel(call) {
        return;
    }
    shared.stats.sync_full.fetch_add(1, Ordering::Relaxed);
    call.worker.become_replica(call.connection, Source::Nothing, Phase::Waits);
    if let Some(link) = &call.connection.replica {
        let channel = if link.replica.is_rdb_channel() { " (rdb-channel)" } else { "" };
        tracing::info!("Full resync requested by replica {}{channel}", link.replica.name());
    }
    shared.send(0, Mail::Run(Box::new(Worker::begin_full_sync)));
}

/// Has the client open a second connection for its data set, if it can and this server is to.
fn announce_channel(call: &mut Call<'_>) -> bool {
    let replica = call.worker.replica_link(call.connection).replica.clone();
    let config = call.worker.config();
    let is_wanted = config.repl_rdb_channel && config.repl_diskless_sync && !replica.is_rdb_channel();
    let in_redis_dialect = replica.can(capability::RDB_CHANNEL);
    // Only the answer to PSYNC says so.
    let in_valkeys = replica.can(capability::DUAL_CHANNEL) && !replica.has_said_sync.load(Ordering::Relaxed);
    if !is_wanted || !in_redis_dialect && !in_valkeys {
        return false;
    }
    if !in_redis_dialect {
        tracing::info!(
            "Replica {} is capable of dual channel synchronization, and partial sync isn't possible. Full sync will continue with dedicated RDB channel.",
            replica.name()
        );
        call.reply.simple("DUALCHANNELSYNC");
        return true;
    }
    tracing::info!("Full resync requested by replica {}", replica.name());
    tracing::info!(
        "Replica {} is capable of rdb channel synchronization, and partial sync isn't possible. Full sync will continue with dedicated rdb channel.",
        replica.name()
    );
    call.reply.simple(&format!("RDBCHANNELSYNC {}", replica.client.id));
    call.worker.become_replica(call.connection, Source::Nothing, Phase::AwaitsChannel);
    true
}

static REPLCONF: ServerCommand = command("replconf", -1, replconf as ServerHandler)
    .flags(
        Flags::ADMIN
            .with(Flags::NOSCRIPT)
            .with(Flags::LOADING)
            .with(Flags::STALE)
            .with(Flags::ALLOW_BUSY)
            .with(Flags::SYSTEM),
    )
    .doc(Group::Server, "3.0.0", "O(1)", "Announces a replica's properties and its offset.");

fn replconf(call: &mut Call<'_>) -> Outcome {
    if call.argc().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    for index in (1..call.argc()).step_by(2) {
        let value = call.arg(index + 1);
        match call.arg(index).to_ascii_lowercase().as_slice() {
            b"ack" => {
                acknowledge(call);
                return Ok(());
            }
            b"getack" => {
                note_question(call);
                return Ok(());
            }
            b"listening-port" => {
                let port = call.int(index + 1)?;
                let link = call.worker.replica_link(call.connection);
                link.replica.port.store(port as u32, Ordering::Relaxed);
            }
            b"ip-address" => {
                if value.len() >= HOST_MAX_BYTES {
                    return Err(Error::Text(format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                        value.len()
                    )));
                }
                let host = String::from_utf8_lossy(value).into_owned();
                let link = call.worker.replica_link(call.connection);
                *lock(&link.replica.address) = Some(host).filter(|host| !host.is_empty());
            }
            b"capa" => {
                let capability = capability_of(value);
                let link = call.worker.replica_link(call.connection);
                link.replica.capabilities.fetch_or(capability, Ordering::Relaxed);
            }
            b"rdb-only" => {
                let is_rdb_only = call.int(index + 1)? == 1;
                let link = call.worker.replica_link(call.connection);
                link.replica.is_rdb_only.store(is_rdb_only, Ordering::Relaxed);
            }
            // In Redis' dialect `main-ch-client-id` names the replica whose data set it takes.
            b"rdb-channel" => {
                let is_channel = call.int(index + 1)?;
                if !(0..=1).contains(&is_channel) {
                    return Err(Error::Fixed("ERR value is out of range, value must between 0 and 1"));
                }
                let link = call.worker.replica_link(call.connection);
                link.replica.is_channel.store(is_channel == 1, Ordering::Relaxed);
            }
            b"set-rdb-client-id" => {
                let channel = call.int(index + 1)?;
                name_channel(call, channel)?;
            }
            b"main-ch-client-id" => {
                let client = call.int(index + 1)?;
                become_channel_of(call, client)?;
            }
            b"rdb-filter-only" => {
                let contents = wanted_contents(value)?;
                call.worker.replica_link(call.connection).replica.set_contents(contents);
            }
            b"version" => note_version(call, value)?,
            _ => return Err(Error::quoting("ERR Unrecognized REPLCONF option: ", call.arg(index), "")),
        }
    }
    call.reply.ok();
    Ok(())
}

/// If the primary asks for this replica's offset, the answer is due soon.
fn note_question(call: &Call<'_>) {
    if call.connection.info.flags.load(Ordering::Relaxed) & flag::PRIMARY != 0 {
        call.worker.shared.replication.replica.note_question();
    }
}

/// The replica's version is this.
fn note_version(call: &mut Call<'_>, text: &[u8]) -> Outcome {
    let version = parse_version(text).ok_or(Error::quoting("ERR Unrecognized version format: ", text, ""))?;
    call.worker.replica_link(call.connection).replica.version.store(version, Ordering::Relaxed);
    Ok(())
}

/// `MAJOR.MINOR.PATCH` as `0xMMmmpp`.
fn parse_version(text: &[u8]) -> Option<u32> {
    let mut parts = std::str::from_utf8(text).ok()?.split('.').map(|part| part.parse::<u8>().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then(|| u32::from_be_bytes([0, version[0], version[1], version[2]]))
}

/// The capability of a replica's word; 0 for an unknown one.
fn capability_of(name: &[u8]) -> u32 {
    match name.to_ascii_lowercase().as_slice() {
        b"eof" => capability::EOF,
        b"psync2" => capability::PSYNC2,
        b"rdb-channel-repl" => capability::RDB_CHANNEL,
        b"dual-channel" => capability::DUAL_CHANNEL,
        b"martlet" => capability::MARTLET,
        // Valkey's replicas take a plain stream behind either.
        b"lz4" | b"martlet-lz4" => capability::LZ4,
        b"zstd" | b"martlet-zstd" => capability::ZSTD,
        b"martlet-frames" => capability::FRAMES,
        _ => 0,
    }
}

/// Makes the connection the one for the data set of the replica that has this client id.
fn become_channel_of(call: &mut Call<'_>, client: i64) -> Outcome {
    let main = u64::try_from(client).unwrap_or(0);
    let Some(of) = call.worker.shared.replication.primary.main_channel(main) else {
        return Err(Error::Text(format!("ERR Unrecognized RDB client id: {client}")));
    };
    let replica = &call.worker.replica_link(call.connection).replica;
    replica.main_client.store(main, Ordering::Relaxed);
    // It reads the same versions of the RDB format.
    replica.version.store(of.version.load(Ordering::Relaxed), Ordering::Relaxed);
    let capabilities = of.capabilities.load(Ordering::Relaxed) & capability::OF_SERVER;
    replica.capabilities.fetch_or(capabilities, Ordering::Relaxed);
    Ok(())
}

/// The connection's data set comes by the one with this client id.
fn name_channel(call: &mut Call<'_>, channel: i64) -> Outcome {
    let client = u64::try_from(channel).unwrap_or(0);
    if !call.worker.shared.replication.primary.has_reserved(client) {
        return Err(Error::Text(format!("ERR Unrecognized RDB client id {channel}")));
    }
    call.worker.replica_link(call.connection).replica.channel_client.store(client, Ordering::Relaxed);
    Ok(())
}

/// What of the data set a replica wants that names these parts.
fn wanted_contents(names: &[u8]) -> Result<Contents, Error> {
    let names = split_words(names).ok_or(Error::Fixed("ERR Missing rdb-filter-only values"))?;
    let other = names.iter().find(|name| !name.eq_ignore_ascii_case(b"functions"));
    match other {
        Some(other) => Err(Error::quoting("ERR Unsupported rdb-filter-only option: ", other, "")),
        None => Ok(Contents { keys: false, libraries: !names.is_empty() }),
    }
}

/// Names of hosts that replicas announce are shorter, in bytes.
const HOST_MAX_BYTES: usize = 255;

/// REPLCONF ACK offset [FACK offset], which has no answer.
fn acknowledge(call: &mut Call<'_>) {
    let offset_at = |index: usize| parse_i64(call.arg(index)).and_then(|offset| u64::try_from(offset).ok());
    let on_disk = if call.arg(3).eq_ignore_ascii_case(b"fack") { offset_at(4) } else { None };
    if let Some(offset) = offset_at(2)
        && call.connection.is_replica()
    {
        call.worker.acked(call.connection, offset, on_disk);
    }
}

static ROLE: ServerCommand = command("role", 1, role as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::ADMIN.with(Acl::DANGEROUS))
    .doc(Group::Server, "2.8.12", "O(1)", "Returns the replication role, and the peers.");

fn role(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    if crate::replication::replica::role(shared, call.reply) {
        return Ok(());
    }
    let mut replicas = shared.replication.primary.replicas();
    replicas.retain(|replica| replica.phase() == Phase::Online);
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.int(shared.replication_offset() as i64);
    call.reply.array(replicas.len());
    for replica in replicas {
        call.reply.array(3);
        call.reply.bulk(replica.host().as_bytes());
        call.reply.bulk_int(i64::from(replica.port.load(Ordering::Relaxed)));
        call.reply.bulk_int(replica.acked.load(Ordering::Relaxed) as i64);
    }
    Ok(())
}

/// The replication offset behind all of the client's writes. It keeps its first value: later it is known to
/// some kilobytes only.
fn recorded_offset(call: &mut Call<'_>) -> Option<u64> {
    let position = call.connection.recorded;
    let (known, offset) = call.connection.replicated;
    if known != position || offset.is_none() {
        call.connection.replicated = (position, call.worker.shared.offset_of(position));
    }
    call.connection.replicated.1
}

/// How long a wait may last, in milliseconds, and when that is over.
pub(super) fn timeout(call: &Call<'_>, index: usize) -> Result<Option<i64>, Error> {
    let not_int = Error::Fixed("ERR timeout is not an integer or out of range");
    let timeout_ms = parse_i64(call.arg(index)).ok_or(not_int)?;
    if timeout_ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let deadline_ms = call.worker.now_ms.checked_add(timeout_ms);
    let deadline_ms = deadline_ms.ok_or(Error::Fixed("ERR timeout is out of range"))?;
    Ok((timeout_ms > 0).then_some(deadline_ms))
}

static WAIT: ServerCommand = command("wait", 3, wait as ServerHandler)
    .flags(Flags::BLOCKING)
    .acl(Acl::CONNECTION)
    .syntax("numreplicas:i timeout:i")
    .doc(Group::Generic, "3.0.0", "O(1)", "Waits until replicas have taken over the connection's writes.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_AGG_MIN]);

/// The answer to WAIT and WAITAOF on a replica.
fn is_primary(call: &Call<'_>, error: &'static str) -> Outcome {
    if call.worker.config().replicaof.0.is_some() { Err(Error::Fixed(error)) } else { Ok(()) }
}

fn wait(call: &mut Call<'_>) -> Outcome {
    is_primary(
        call,
        "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
    )?;
    let replicas = call.int(1)?;
    let deadline_ms = timeout(call, 2)?;
    let shared = call.worker.shared;
    let offset = recorded_offset(call);
    let has = shared.replication.primary.count_with(offset, false) as i64;
    if has >= replicas || call.deny_blocking {
        call.reply.int(has);
        return Ok(());
    }
    let copies = Copies {
        position: call.connection.recorded,
        offset,
        local: false,
        replicas: replicas as u64,
        on_disk: false,
    };
    block_for(call, copies, deadline_ms);
    Ok(())
}

/// Blocks the client, and asks replicas how far they are.
fn block_for(call: &mut Call<'_>, copies: Copies, deadline_ms: Option<i64>) {
    let block = Block::new(Wait::Copies(copies), deadline_ms, TimeoutReply::Copies(copies));
    call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    let journal = &call.worker.shared.engine.journal;
    if copies.replicas > 0 && journal.is_followed_by(Follower::Replicas) {
        journal.append(REPLICAS, GETACK);
    }
}

static WAITAOF: ServerCommand = command("waitaof", 4, waitaof as ServerHandler)
    .flags(Flags::BLOCKING)
    .acl(Acl::CONNECTION)
    .syntax("numlocal:i numreplicas:i timeout:i")
    .doc(
        Group::Generic,
        "7.2.0",
        "O(1)",
        "Waits until the client's writes are in the append-only file on disk, here or with replicas.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_AGG_MIN]);

fn waitaof(call: &mut Call<'_>) -> Outcome {
    let local = parse_i64(call.arg(1)).ok_or(Error::NotInteger)?;
    if !(0..=1).contains(&local) {
        return Err(Error::Fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = parse_i64(call.arg(2)).filter(|&count| count >= 0);
    let replicas = replicas.ok_or(Error::Fixed("ERR value is out of range, must be positive"))?;
    let deadline_ms = timeout(call, 3)?;
    is_primary(
        call,
        "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.",
    )?;
    let shared = call.worker.shared;
    let phase = shared.persistence.log.facts().phase;
    if local > 0 && phase == LogPhase::Off {
        return Err(Error::Fixed(WITHOUT_LOG));
    }
    let position = match phase {
        // Without a file nothing comes to be on disk.
        LogPhase::Off => Position::MAX,
        // Writes of the client before it was switched on are in the base that is being written.
        LogPhase::Starting => shared.engine.journal.end(),
        LogPhase::On => call.connection.recorded,
    };
    let offset = recorded_offset(call);
    let copies = Copies { position, offset, local: local > 0, replicas: replicas as u64, on_disk: true };
    let (is_on_disk, has) = call.worker.copies(&copies);
    let is_met = i64::from(is_on_disk) >= local && has >= replicas;
    if is_met || call.deny_blocking {
        TimeoutReply::Copies(copies).write(call.reply, |_| (is_on_disk, has));
        return Ok(());
    }
    block_for(call, copies, deadline_ms);
    Ok(())
}
