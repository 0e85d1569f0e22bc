//! The server as a whole: TIME, ROLE, SHUTDOWN.

use martlet_command::{Acl, Block, Error, Flags, Group, Outcome, TimeoutReply, Tip, Wait, command};

use super::{Call, ServerCommand, ServerHandler};
use crate::config::ShutdownFlags;
use crate::scripting::facts::busy;
use crate::shutdown::pending::FAILED;
use martlet_persistence::save::SaveFailed;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&TIME, &SHUTDOWN];

static TIME: ServerCommand = command("time", 1, time as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE).with(Flags::FAST))
    .acl(Acl::NONE)
    .doc(Group::Server, "2.6.0", "O(1)", "Returns the server's time.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

fn time(call: &mut Call<'_>) -> Outcome {
    let now_us = match call.deny_blocking {
        // In a transaction or a script the time stands still; in a busy script it goes on from turn to turn.
        true => call.worker.turn.frozen_us(),
        false => call.worker.shared.clock.unix_us(),
    };
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
        if !call.worker.abort_shutdown() {
            return Err(Error::Fixed("ERR No shutdown in progress."));
        }
        call.reply.ok();
        return Ok(());
    }
    if let Some(engine) = call.worker.shared.scripts.busy_engine()
        && !flags.nosave
    {
        return Err(busy(engine));
    }
    if call.worker.begin_shut_down(flags).map_err(|SaveFailed| Error::Fixed(FAILED))? {
        let block = Block::new(Wait::Shutdown, None, TimeoutReply::Null);
        call.worker.block(call.connection, call.entry, &call.args, Box::new(block));
    } else {
        call.connection.closing = true;
    }
    Ok(())
}
