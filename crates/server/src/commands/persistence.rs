//! Saving and loading on request: SAVE, LASTSAVE, DEBUG RELOAD.

use martlet_command::{Acl, Error, Flags, Group, Outcome, command};

use super::{Call, ServerCommand, ServerHandler};
use crate::persistence::load;
use crate::persistence::save::SaveFailed;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&BGSAVE, &LASTSAVE, &SAVE];

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
    .doc(Group::Server, "1.0.0", "O(1)", "Writes the RDB file while clients are served.");

fn bgsave(call: &mut Call<'_>) -> Outcome {
    let background = &call.worker.shared.persistence.background;
    match call.argc() {
        1 => {}
        2 if call.is(1, "schedule") => {}
        2 if call.is(1, "cancel") => {
            if !background.cancel() {
                return Err(Error::Fixed("ERR Background saving is currently not in progress or scheduled"));
            }
            call.reply.simple("Background saving cancelled");
            return Ok(());
        }
        _ => return Err(Error::Syntax),
    }
    if background.running().is_some() {
        return Err(UNDER_WAY);
    }
    call.worker.start_background_save();
    call.reply.simple("Background saving started");
    Ok(())
}

static LASTSAVE: ServerCommand = command("lastsave", 1, lastsave as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::ADMIN.with(Acl::DANGEROUS))
    .doc(Group::Server, "1.0.0", "O(1)", "Tells when the data was last saved.");

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
    // Its file would be older than what follows.
    worker.shared.persistence.background.cancel();
    if saves {
        worker.save().map_err(|SaveFailed| Error::Fixed("ERR"))?;
    }
    if flushes {
        worker.keys.flush(None, true);
    }
    let (shared, config) = (worker.shared, worker.config().clone());
    let path = load::path(&config);
    if let Err(error) = load::load(shared, &mut worker.keys, &config, &path, merges, || true) {
        tracing::warn!("The RDB file {} cannot be loaded: {error}", path.display());
        return Err(Error::Fixed("ERR Error trying to load the RDB dump, check server logs."));
    }
    tracing::warn!("DB reloaded by DEBUG RELOAD");
    call.reply.ok();
    Ok(())
}
