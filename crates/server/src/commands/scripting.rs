//! Scripts: EVAL and its kin, SCRIPT.

use martlet_command::{
    Acl, Control, Error, Flags, Group, KeyFlags, KeyPart, Outcome, ScriptSource, Tip, command, container,
};

use super::{Call, ServerCommand, ServerHandler};
use martlet_script::Engine;

use crate::runtime::Mail;
use crate::scripting::cache::{NotKilled, parse_digest};
use crate::scripting::debugging::state::DebugMode;
use crate::scripting::facts::busy;
use crate::scripting::{Source, eval as run_script};

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&EVAL, &EVALSHA, &EVAL_RO, &EVALSHA_RO, &SCRIPT];

/// Of what runs scripts and functions.
pub(super) const RUNS: Flags = Flags::NOSCRIPT
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLE_KEYS);
const DEPENDS: &str = "Depends on the script that is executed.";

/// Keys of scripts that may write.
pub(super) const KEYS: &[KeyPart] =
    &[KeyPart::counted(2, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))
        .notes("We cannot tell how the keys will be used so we assume the worst, RW and UPDATE")];
/// Keys of scripts that may not.
pub(super) const KEYS_RO: &[KeyPart] = &[KeyPart::counted(2, KeyFlags::RO.with(KeyFlags::ACCESS))
    .notes("We cannot tell how the keys will be used so we assume the worst, RO and ACCESS")];

static EVAL: ServerCommand = command("eval", -3, eval as ServerHandler)
    .flags(RUNS.with(Flags::MAY_REPLICATE))
    .control(Control::RunScript(ScriptSource::Text))
    .keys(KEYS)
    .acl(Acl::SCRIPTING)
    .syntax("script numkeys:i ?*key:k0 ?*arg")
    .doc(Group::Scripting, "2.6.0", DEPENDS, "Runs a Lua script.");

fn eval(call: &mut Call<'_>) -> Outcome {
    run_script(call, Source::Text(call.arg(1)), false)
}

static EVALSHA: ServerCommand = command("evalsha", -3, evalsha as ServerHandler)
    .flags(RUNS.with(Flags::MAY_REPLICATE))
    .control(Control::RunScript(ScriptSource::Digest))
    .keys(KEYS)
    .acl(Acl::SCRIPTING)
    .syntax("sha1 numkeys:i ?*key:k0 ?*arg")
    .doc(Group::Scripting, "2.6.0", DEPENDS, "Runs a Lua script that the server knows by its SHA1.");

fn evalsha(call: &mut Call<'_>) -> Outcome {
    run_script(call, Source::Digest(call.arg(1)), false)
}

static EVAL_RO: ServerCommand = command("eval_ro", -3, eval_ro as ServerHandler)
    .flags(RUNS.with(Flags::READONLY))
    .control(Control::RunScript(ScriptSource::Text))
    .keys(KEYS_RO)
    .acl(Acl::SCRIPTING)
    .syntax("script numkeys:i ?*key:k0 ?*arg")
    .doc(Group::Scripting, "7.0.0", DEPENDS, "Runs a Lua script that changes nothing.");

fn eval_ro(call: &mut Call<'_>) -> Outcome {
    run_script(call, Source::Text(call.arg(1)), true)
}

static EVALSHA_RO: ServerCommand = command("evalsha_ro", -3, evalsha_ro as ServerHandler)
    .flags(RUNS.with(Flags::READONLY))
    .control(Control::RunScript(ScriptSource::Digest))
    .keys(KEYS_RO)
    .acl(Acl::SCRIPTING)
    .syntax("sha1 numkeys:i ?*key:k0 ?*arg")
    .doc(
        Group::Scripting,
        "7.0.0",
        DEPENDS,
        "Runs a Lua script that changes nothing and that the server knows by its SHA1.",
    );

fn evalsha_ro(call: &mut Call<'_>) -> Outcome {
    run_script(call, Source::Digest(call.arg(1)), true)
}

static SCRIPT: ServerCommand =
    container("script", -2, &[&DEBUG, &EXISTS, &FLUSH, &HELP, &KILL, &LOAD, &SHOW]).doc(
        Group::Scripting,
        "2.6.0",
        "Depends on subcommand.",
        "A container for commands on the scripts that the server knows.",
    );

static DEBUG: ServerCommand = command("script|debug", 3, debug as ServerHandler)
    .flags(Flags::NOSCRIPT)
    .acl(Acl::SCRIPTING)
    .syntax("mode(YES|SYNC|NO)")
    .doc(Group::Scripting, "3.2.0", "O(1)", "Sets the debug mode of the client's scripts.");

fn debug(call: &mut Call<'_>) -> Outcome {
    if call.reply.total_bytes() > 0 {
        return Err(Error::Fixed("ERR SCRIPT DEBUG must be called outside a pipeline"));
    }
    let modes = [("no", DebugMode::Off), ("yes", DebugMode::Copy), ("sync", DebugMode::Sync)];
    let mode = call.rest(2).one_of(&modes).ok_or(Error::Fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO"))?;
    // As in Redis, YES after SYNC stays SYNC.
    let session = &mut call.connection.session;
    if (session.debug_mode, mode) != (DebugMode::Sync, DebugMode::Copy) {
        session.debug_mode = mode;
    }
    call.reply.ok();
    Ok(())
}

static EXISTS: ServerCommand = command("script|exists", -3, exists as ServerHandler)
    .flags(Flags::NOSCRIPT)
    .acl(Acl::SCRIPTING)
    .syntax("*sha1")
    .doc(
        Group::Scripting,
        "2.6.0",
        "O(N) with N being the number of scripts to check",
        "Checks which scripts the server knows.",
    )
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_AGG_LOGICAL_AND]);

fn exists(call: &mut Call<'_>) -> Outcome {
    call.reply.array(call.argc() - 2);
    for name in call.args.iter().skip(2) {
        let script = parse_digest(name).and_then(|digest| call.worker.shared.scripts.find(&digest));
        call.reply.int(i64::from(script.is_some()));
    }
    Ok(())
}

static FLUSH: ServerCommand = command("script|flush", -2, flush as ServerHandler)
    .flags(Flags::NOSCRIPT)
    .acl(Acl::SCRIPTING)
    .syntax("?flush-type(ASYNC|SYNC)^6.2.0")
    .doc(
        Group::Scripting,
        "2.6.0",
        "O(N) with N being the number of scripts in cache",
        "Forgets all scripts.",
    )
    .history(&[("6.2.0", "Modifiers `ASYNC` and `SYNC`.")])
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn flush(call: &mut Call<'_>) -> Outcome {
    let mut rest = call.rest(2);
    rest.one_of(&[("sync", ()), ("async", ())]);
    rest.finish().map_err(|_| Error::Fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"))?;
    let shared = call.worker.shared;
    shared.scripts.flush();
    call.worker.drop_scripting();
    // The other threads drop theirs when they get to it: a script that has left the cache does not run.
    for thread in (0..shared.thread_count()).filter(|thread| *thread != call.worker.thread) {
        shared.send(thread, Mail::Run(Box::new(crate::runtime::Worker::drop_scripting)));
    }
    call.reply.ok();
    Ok(())
}

static HELP: ServerCommand = command("script|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .acl(Acl::SCRIPTING)
    .doc(Group::Scripting, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "SCRIPT");
    Ok(())
}

static KILL: ServerCommand = command("script|kill", 2, kill as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY))
    .acl(Acl::SCRIPTING)
    .doc(Group::Scripting, "2.6.0", "O(1)", "Ends the script that runs.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ONE_SUCCEEDED]);

fn kill(call: &mut Call<'_>) -> Outcome {
    kill_running(call, Engine::Eval)
}

/// Ends what an engine runs.
pub(super) fn kill_running(call: &mut Call<'_>, engine: Engine) -> Outcome {
    match call.worker.shared.scripts.kill(engine) {
        Ok(()) => call.reply.ok(),
        Err(NotKilled::Idle) => {
            return Err(Error::Fixed("NOTBUSY No scripts in execution right now."));
        }
        Err(NotKilled::Other) => {
            return Err(busy(if engine == Engine::Eval { Engine::Functions } else { Engine::Eval }));
        }
        Err(NotKilled::Writing) => {
            return Err(Error::Fixed(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
    }
    Ok(())
}

static LOAD: ServerCommand = command("script|load", 3, load as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::STALE))
    .acl(Acl::SCRIPTING)
    .syntax("script")
    .doc(
        Group::Scripting,
        "2.6.0",
        "O(N) with N being the length in bytes of the script body.",
        "Makes a script known without running it.",
    )
    .tips(&[Tip::REQUEST_ALL_NODES, Tip::RESPONSE_ALL_SUCCEEDED]);

fn load(call: &mut Call<'_>) -> Outcome {
    let script = call.worker.load_script(call.arg(2))?;
    call.reply.bulk(script.name.as_bytes());
    Ok(())
}

static SHOW: ServerCommand = command("script|show", 3, show as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::STALE))
    .acl(Acl::SCRIPTING)
    .syntax("sha1")
    .doc(Group::Scripting, "8.0.0", "O(1)", "Returns the text of a script that the server knows (Valkey).");

fn show(call: &mut Call<'_>) -> Outcome {
    let script = parse_digest(call.arg(2)).and_then(|digest| call.worker.shared.scripts.find(&digest));
    let script = script.ok_or(Error::Fixed("NOSCRIPT No matching script."))?;
    call.reply.bulk(&script.source);
    Ok(())
}
