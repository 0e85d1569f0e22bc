//! Saving and loading on request: SAVE, LASTSAVE, DEBUG RELOAD.

use martlet_base::number::parse_i64;
use martlet_command::{Acl, Block, Error, Flags, Group, Outcome, TimeoutReply, Tip, Wait, command};
use martlet_engine::Keys;
use martlet_journal::Position;

use super::{Call, ServerCommand, ServerHandler};
use crate::persistence::aof::{self, Phase};
use crate::persistence::load::{self, LoadError, Source};
use crate::persistence::settings;
use martlet_persistence::save::SaveFailed;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&BGREWRITEAOF, &BGSAVE, &LASTSAVE, &SAVE, &WAITAOF];

static SAVE: ServerCommand = command("save", 1, save as ServerHandler)
    .flags(
        Flags::ADMIN
            .with(Flags::NOSCRIPT)
            .with(Flags::NO_ASYNC_LOADING)
            .with(Flags::NO_MULTI)
            .with(Flags::EXCLUSIVE),
    )
    .doc(
        Group::Server,
        "1.0.0",
        "O(N) for N keys in all databases",
        "Writes the RDB file while everything else waits.",
    );

const UNDER_WAY: Error = Error::Fixed("ERR Background save already in progress");

fn save(call: &mut Call<'_>) -> Outcome {
    if call.worker.shared.persistence.background.running().is_some() {
        return Err(UNDER_WAY);
    }
    call.worker.save().map_err(|SaveFailed| Error::Fixed("ERR"))?;
    call.reply.ok();
    Ok(())
}

static BGSAVE: ServerCommand = command("bgsave", -1, bgsave as ServerHandler)
    .flags(Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING).with(Flags::EXCLUSIVE))
    .syntax("?operation(SCHEDULE^3.2.2|CANCEL^8.1.0)")
    .doc(Group::Server, "1.0.0", "O(1)", "Writes the RDB file while clients are served.")
    .history(&[("3.2.2", "Option `SCHEDULE`.")]);

fn bgsave(call: &mut Call<'_>) -> Outcome {
    let background = &call.worker.shared.persistence.background;
    let mut rest = call.rest(1);
    let cancels = rest.one_of(&[("schedule", false), ("cancel", true)]) == Some(true);
    rest.finish()?;
    if cancels {
        if background.schedule(false) {
            call.reply.simple("Scheduled background saving cancelled");
            return Ok(());
        }
        if !background.cancel() {
            return Err(Error::Fixed("ERR Background saving is currently not in progress or scheduled"));
        }
        call.reply.simple("Background saving cancelled");
        return Ok(());
    }
    if background.running().is_some() {
        return Err(UNDER_WAY);
    }
    let is_rewriting = call.worker.shared.persistence.log.is_rewriting();
    if is_rewriting || call.deny_blocking {
        // In a transaction it waits for the end of it.
        if call.argc() == 1 && !call.deny_blocking {
            return Err(Error::Fixed(
                "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.",
            ));
        }
        background.schedule(true);
        call.reply.simple("Background saving scheduled");
        return Ok(());
    }
    call.worker.start_background_save();
    call.reply.simple("Background saving started");
    Ok(())
}

static BGREWRITEAOF: ServerCommand = command("bgrewriteaof", 1, bgrewriteaof as ServerHandler)
    .flags(Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING))
    .doc(Group::Server, "1.0.0", "O(1)", "Writes the append-only file anew while clients are served.");

fn bgrewriteaof(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    let log = &shared.persistence.log;
    if log.follow_cancelled() {
        call.reply.simple("Background append only file rewriting started");
        return Ok(());
    }
    if log.is_rewriting() {
        return Err(Error::Fixed("ERR Background append only file rewriting already in progress"));
    }
    // In a transaction it waits for the end of it.
    if shared.persistence.background.running().is_some() || call.deny_blocking {
        log.ask_for_rewrite();
        call.reply.simple("Background append only file rewriting scheduled");
        return Ok(());
    }
    aof::rewrite::begin(shared.storage()).map_err(|why| Error::Text(format!("ERR {why}")))?;
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}

/// The answer to WAITAOF that waits for this server's disk, also if the file is switched off meanwhile.
pub(crate) const WITHOUT_LOG: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

static WAITAOF: ServerCommand = command("waitaof", 4, waitaof as ServerHandler)
    .flags(Flags::BLOCKING)
    .acl(Acl::CONNECTION)
    .syntax("numlocal:i numreplicas:i timeout:i")
    .doc(
        Group::Generic,
        "7.2.0",
        "O(1)",
        "Waits until what was written is in the append-only file on disk, here or with replicas.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_AGG_MIN]);

fn waitaof(call: &mut Call<'_>) -> Outcome {
    let local = parse_i64(call.arg(1)).ok_or(Error::NotInteger)?;
    if !(0..=1).contains(&local) {
        return Err(Error::Fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = parse_i64(call.arg(2)).filter(|&count| count >= 0);
    let replicas = replicas.ok_or(Error::Fixed("ERR value is out of range, must be positive"))?;
    let not_int = Error::Fixed("ERR timeout is not an integer or out of range");
    let timeout_ms = parse_i64(call.arg(3)).ok_or(not_int)?;
    if timeout_ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let deadline_ms = call.worker.now_ms.checked_add(timeout_ms);
    let deadline_ms = deadline_ms.ok_or(Error::Fixed("ERR timeout is out of range"))?;
    let shared = call.worker.shared;
    let phase = shared.persistence.log.facts().phase;
    if local > 0 && phase == Phase::Off {
        return Err(Error::Fixed(WITHOUT_LOG));
    }
    let end = match phase {
        // Without a file nothing comes to be on disk.
        Phase::Off => Position::MAX,
        // What the client wrote before it was switched on is in the base that is being written.
        Phase::Starting => shared.engine.journal.end(),
        Phase::On => call.connection.recorded,
    };
    let durable = shared.storage().durable_in(phase);
    let is_on_disk = durable.is_some_and(|durable| end <= durable);
    let is_met = i64::from(is_on_disk) >= local && replicas == 0;
    if is_met || call.deny_blocking {
        TimeoutReply::OnDisk(end).write(call.reply, durable);
        return Ok(());
    }
    let deadline_ms = (timeout_ms > 0).then_some(deadline_ms);
    let wait = match local {
        0 => Wait::Replicas,
        _ => Wait::Disk { position: end, and_replicas: replicas > 0 },
    };
    let block = Block::new(wait, deadline_ms, TimeoutReply::OnDisk(end));
    call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    Ok(())
}

/// The answer to subcommands of DEBUG that would save or load what is being loaded.
const LOADING: Error = Error::Fixed("LOADING Redis is loading the dataset in memory");

/// A subcommand of DEBUG.
pub(super) static LOADAOF: ServerCommand = command("debug|loadaof", 2, loadaof as ServerHandler)
    .flags(super::debug::FLAGS.with(Flags::EXCLUSIVE))
    .doc(
        Group::Server,
        "2.6.0",
        "O(N) for N commands",
        "Forces the append-only file to disk, empties the data and loads it from there.",
    );

fn loadaof(call: &mut Call<'_>) -> Outcome {
    let worker = &mut *call.worker;
    let (shared, settings) = (worker.shared, settings(worker.config()));
    if shared.persistence.is_loading() {
        return Err(LOADING);
    }
    if shared.storage().finish_log().is_err() {
        return Err(Error::Fixed("ERR Error trying to load the AOF files, check server logs."));
    }
    let effects = &mut worker.keys.effects;
    let (recording, events) =
        (std::mem::take(&mut effects.recording), std::mem::take(&mut effects.wanted_events));
    let (db, now_ms) = (worker.keys.db, worker.keys.now_ms);
    worker.keys.flush(None, false);
    let mut alone = |keys: &mut Keys, work: &mut dyn FnMut(&mut Keys)| work(keys);
    let loaded = aof::load::load(shared.storage(), &mut worker.keys, &settings, &mut alone, &mut || true);
    (worker.keys.db, worker.keys.now_ms) = (db, now_ms);
    (worker.keys.effects.recording, worker.keys.effects.wanted_events) = (recording, events);
    worker.keys.dirty = 0;
    if let Err(why) = loaded {
        tracing::warn!("{why}");
        return Err(Error::Fixed("ERR Error trying to load the AOF files, check server logs."));
    }
    tracing::warn!("Append Only File loaded by DEBUG LOADAOF");
    call.reply.ok();
    Ok(())
}

static LASTSAVE: ServerCommand = command("lastsave", 1, lastsave as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::ADMIN.with(Acl::DANGEROUS))
    .doc(Group::Server, "1.0.0", "O(1)", "Tells when the data was last saved.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn lastsave(call: &mut Call<'_>) -> Outcome {
    call.reply.int(call.worker.shared.persistence.facts().saved_at_s);
    Ok(())
}

/// A subcommand of DEBUG.
pub(super) static RELOAD: ServerCommand = command("debug|reload", -2, reload as ServerHandler)
    .flags(super::debug::FLAGS.with(Flags::EXCLUSIVE))
    .doc(
        Group::Server,
        "2.6.0",
        "O(N) for N keys",
        "Saves the data and loads it again; NOSAVE, NOFLUSH and MERGE leave out parts of that.",
    );

fn reload(call: &mut Call<'_>) -> Outcome {
    let (mut saves, mut flushes, mut merges) = (true, true, false);
    for index in 2..call.argc() {
        match call.arg(index).to_ascii_lowercase().as_slice() {
            b"merge" => merges = true,
            b"noflush" => flushes = false,
            b"nosave" => saves = false,
            _ => {
                return Err(Error::Fixed(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                ));
            }
        }
    }
    let worker = &mut *call.worker;
    if worker.shared.persistence.is_loading() {
        return Err(LOADING);
    }
    // Its file would be older than what follows.
    worker.shared.persistence.background.cancel();
    if saves {
        worker.save().map_err(|SaveFailed| Error::Fixed("ERR"))?;
    }
    if flushes {
        worker.keys.flush(None, false);
    }
    let (shared, settings) = (worker.shared, settings(worker.config()));
    let path = settings.rdb_path();
    let source = Source::open(&path).map_err(LoadError::Open);
    let loaded = source.and_then(|source| {
        source.announce(&shared.persistence.load, worker.keys.now_ms);
        Ok(load::load(shared.storage(), &mut worker.keys, &settings, source, merges)?)
    });
    if let Err(error) = loaded {
        tracing::warn!("The RDB file {} cannot be loaded: {error}", path.display());
        return Err(Error::Fixed("ERR Error trying to load the RDB dump, check server logs."));
    }
    tracing::warn!("DB reloaded by DEBUG RELOAD");
    call.reply.ok();
    Ok(())
}
