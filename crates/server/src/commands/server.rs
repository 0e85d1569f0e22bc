//! The server as a whole: TIME, ROLE, SHUTDOWN.

use martlet_command::{Acl, Error, Flags, Group, Outcome, Tip, command};

use super::{Call, ServerCommand, ServerHandler};
use crate::config::ShutdownFlags;
use martlet_persistence::save::SaveFailed;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&TIME, &SHUTDOWN];

static TIME: ServerCommand = command("time", 1, time as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::NONE)
    .doc(Group::Server, "2.6.0", "O(1)", "Tells the server's time.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn time(call: &mut Call<'_>) -> Outcome {
    let now_us = call.worker.shared.clock.unix_us();
    call.reply.array(2);
    call.reply.bulk_int(now_us / 1_000_000);
    call.reply.bulk_int(now_us % 1_000_000);
    Ok(())
}

static SHUTDOWN: ServerCommand = command("shutdown", -1, shutdown as ServerHandler)
    .flags(
        Flags::ADMIN
            .with(Flags::NOSCRIPT)
            .with(Flags::LOADING)
            .with(Flags::STALE)
            .with(Flags::NO_MULTI)
            .with(Flags::ALLOW_BUSY),
    )
    .acl(Acl::NONE)
    .syntax("?save-selector(NOSAVE|SAVE) ?NOW^7.0.0 ?FORCE^7.0.0 ?ABORT^7.0.0")
    .doc(
        Group::Server,
        "1.0.0",
        "O(1)",
        "Saves the data if that is configured or asked for, and ends the server.",
    )
    .history(&[("7.0.0", "Modifiers `NOW`, `FORCE` and `ABORT`.")]);

fn shutdown(call: &mut Call<'_>) -> Outcome {
    let mut flags = ShutdownFlags::default();
    let mut abort = false;
    for index in 1..call.argc() {
        match call.arg(index).to_ascii_lowercase().as_slice() {
            b"save" => flags.save = true,
            b"nosave" => flags.nosave = true,
            b"now" => flags.now = true,
            b"force" => flags.force = true,
            b"abort" => abort = true,
            _ => return Err(Error::Syntax),
        }
    }
    if (flags.save && flags.nosave) || (abort && flags != ShutdownFlags::default()) {
        return Err(Error::Syntax);
    }
    if abort {
        return Err(Error::Fixed("ERR No shutdown in progress."));
    }
    let failed = Error::Fixed("ERR Errors trying to SHUTDOWN. Check logs.");
    call.worker.shut_down(flags).map_err(|SaveFailed| failed)?;
    call.connection.closing = true;
    Ok(())
}
