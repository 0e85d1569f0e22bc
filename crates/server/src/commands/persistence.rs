//! Saving and loading on request: SAVE, LASTSAVE, DEBUG RELOAD.

use martlet_command::{Acl, Error, Flags, Group, Outcome, Tip, command};
use martlet_engine::Keys;

use super::{Call, ServerCommand, ServerHandler};
use crate::persistence::settings::settings;
use martlet_persistence::aof;
use martlet_persistence::load::{self, LoadError, Source};
use martlet_persistence::save::SaveFailed;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&BGREWRITEAOF, &BGSAVE, &LASTSAVE, &SAVE];

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
    .doc(Group::Server, "1.0.0", "O(1)", "Rewrites the append-only file while clients are served.");

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

/// The answer to subcommands of DEBUG that would save or load data during a load.
const LOADING: Error = Error::Fixed("LOADING Redis is loading the dataset in memory");

/// A subcommand of DEBUG.
pub(super) static LOADAOF: ServerCommand = command("debug|loadaof", 2, loadaof as ServerHandler)
    .flags(super::debug_flags::FLAGS.with(Flags::EXCLUSIVE))
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
    let outside = worker.keys.standstill();
    if shared.storage().finish_log(&outside).is_err() {
        return Err(Error::Fixed("ERR Error trying to load the AOF files, check server logs."));
    }
    let effects = &mut worker.keys.effects;
    let (recording, events) =
        (std::mem::take(&mut effects.recording), std::mem::take(&mut effects.wanted_events));
    worker.keys.flush(None, false);
    shared.libraries.clear();
    let mut alone = |keys: &mut Keys, work: &mut dyn FnMut(&mut Keys)| work(keys);
    let loaded =
        aof::load::load(shared.storage(), &outside, &mut worker.keys, &settings, &mut alone, &mut || true);
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
    .doc(Group::Server, "1.0.0", "O(1)", "Returns the time of the last save.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn lastsave(call: &mut Call<'_>) -> Outcome {
    call.reply.int(call.worker.shared.persistence.facts().saved_at_s);
    Ok(())
}

/// A subcommand of DEBUG.
pub(super) static RELOAD: ServerCommand = command("debug|reload", -2, reload as ServerHandler)
    .flags(super::debug_flags::FLAGS.with(Flags::EXCLUSIVE))
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
    // Its file would be older than the next changes.
    worker.shared.persistence.background.cancel();
    if saves {
        worker.save().map_err(|SaveFailed| Error::Fixed("ERR"))?;
    }
    if flushes {
        worker.keys.flush(None, false);
        worker.shared.libraries.clear();
    }
    let (shared, settings) = (worker.shared, settings(worker.config()));
    let source = Source::configured(&worker.keys.standstill(), &settings).map_err(LoadError::Open);
    let loaded = source.and_then(|source| {
        source.announce(&shared.persistence.load, worker.keys.now_ms());
        Ok(load::load(shared.storage(), &mut worker.keys, &settings, source, merges)?)
    });
    match loaded {
        Ok(loaded) => shared.storage().host.take_definitions(&loaded.definitions),
        Err(error) => {
            tracing::warn!("The RDB file {} cannot be loaded: {error}", settings.rdb_path().display());
            return Err(Error::Fixed("ERR Error trying to load the RDB dump, check server logs."));
        }
    }
    tracing::warn!("DB reloaded by DEBUG RELOAD");
    call.reply.ok();
    Ok(())
}
