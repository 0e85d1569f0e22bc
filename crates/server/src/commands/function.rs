//! Functions: FCALL and its kin, FUNCTION.

use martlet_base::glob;
use martlet_command::{
    Acl, Control, Error, Flags, Group, LibraryChange, Outcome, ScriptSource, Tip, command, container,
};
use martlet_script::{Engine, ScriptFlags};
use martlet_values::payload;

use super::scripting::{KEYS, KEYS_RO, RUNS, kill_running};
use super::{Call, ServerCommand, ServerHandler};
use crate::scripting::facts::busy;
use crate::scripting::functions::fcall as run_function;
use crate::scripting::libraries::Library;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&FCALL, &FCALL_RO, &FUNCTION];

const DEPENDS: &str = "Depends on the function that is executed.";
/// It runs alone, so that it has one place in the records and saves.
const CHANGES: Flags = Flags::WRITE.with(Flags::NOSCRIPT).with(Flags::EXCLUSIVE);

static FCALL: ServerCommand = command("fcall", -3, fcall as ServerHandler)
    .flags(RUNS.with(Flags::MAY_REPLICATE))
    .control(Control::RunScript(ScriptSource::Function))
    .keys(KEYS)
    .acl(Acl::SCRIPTING)
    .syntax("function numkeys:i ?*key:k0 ?*arg")
    .doc(Group::Scripting, "7.0.0", DEPENDS, "Calls a function.");

fn fcall(call: &mut Call<'_>) -> Outcome {
    run_function(call, false)
}

static FCALL_RO: ServerCommand = command("fcall_ro", -3, fcall_ro as ServerHandler)
    .flags(RUNS.with(Flags::READONLY))
    .control(Control::RunScript(ScriptSource::Function))
    .keys(KEYS_RO)
    .acl(Acl::SCRIPTING)
    .syntax("function numkeys:i ?*key:k0 ?*arg")
    .doc(Group::Scripting, "7.0.0", DEPENDS, "Calls a function that changes nothing.");

fn fcall_ro(call: &mut Call<'_>) -> Outcome {
    run_function(call, true)
}

static FUNCTION: ServerCommand =
    container("function", -2, &[&DELETE, &DUMP, &FLUSH, &HELP, &KILL, &LIST, &LOAD, &RESTORE, &STATS]).doc(
        Group::Scripting,
        "7.0.0",
        "Depends on subcommand.",
        "A container for commands on libraries of functions.",
    );

const EVERYWHERE: &[Tip] = &[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ALL_SUCCEEDED];

static DELETE: ServerCommand = command("function|delete", 3, change as ServerHandler)
    .flags(CHANGES)
    .control(Control::ChangeLibraries(LibraryChange::Delete))
    .acl(Acl::SCRIPTING)
    .syntax("library-name")
    .doc(Group::Scripting, "7.0.0", "O(1)", "Deletes a library and its functions.")
    .tips(EVERYWHERE);

static FLUSH: ServerCommand = command("function|flush", -2, change as ServerHandler)
    .flags(CHANGES)
    .control(Control::ChangeLibraries(LibraryChange::Flush))
    .acl(Acl::SCRIPTING)
    .syntax("?flush-type(ASYNC|SYNC)")
    .doc(
        Group::Scripting,
        "7.0.0",
        "O(N) where N is the number of functions deleted",
        "Deletes all libraries and functions.",
    )
    .tips(EVERYWHERE);

static LOAD: ServerCommand = command("function|load", -3, change as ServerHandler)
    .flags(CHANGES.with(Flags::DENYOOM))
    .control(Control::ChangeLibraries(LibraryChange::Load))
    .acl(Acl::SCRIPTING)
    .syntax("?REPLACE function-code")
    .doc(
        Group::Scripting,
        "7.0.0",
        "O(1) (considering compilation time is redundant)",
        "Adds a library, or replaces it.",
    )
    .tips(EVERYWHERE);

static RESTORE: ServerCommand = command("function|restore", -3, change as ServerHandler)
    .flags(CHANGES.with(Flags::DENYOOM))
    .control(Control::ChangeLibraries(LibraryChange::Restore))
    .acl(Acl::SCRIPTING)
    .syntax("serialized-value ?policy(FLUSH|APPEND|REPLACE)")
    .doc(
        Group::Scripting,
        "7.0.0",
        "O(N) where N is the number of functions on the payload",
        "Adds the libraries of a payload.",
    )
    .tips(EVERYWHERE);

/// Runs a change of the list of libraries; the request itself is recorded.
fn change(call: &mut Call<'_>) -> Outcome {
    let Control::ChangeLibraries(change) = call.entry.spec.control else { return Err(Error::Syntax) };
    let args_max = match change {
        LibraryChange::Flush => 3,
        LibraryChange::Restore => 4,
        LibraryChange::Load | LibraryChange::Delete => usize::MAX,
    };
    if call.argc() > args_max {
        return Err(Error::subcommand_syntax(&call.args));
    }
    let (worker, args) = (&mut *call.worker, call.args);
    let libraries = &worker.shared.libraries;
    let loaded = match crate::runtime::request_flags::is_from_primary(call.connection) {
        true => libraries.change_again(change, &args)?,
        false => libraries.change(change, &args)?,
    };
    worker.keys.dirty += 1;
    worker.keys.effects.request_ended(worker.keys.db(), &args, true);
    match loaded {
        Some(name) => call.reply.bulk(&name),
        None => call.reply.ok(),
    }
    Ok(())
}

static DUMP: ServerCommand =
    command("function|dump", 2, dump as ServerHandler).flags(Flags::NOSCRIPT).acl(Acl::SCRIPTING).doc(
        Group::Scripting,
        "7.0.0",
        "O(N) where N is the number of functions",
        "Returns all libraries as one payload.",
    );

fn dump(call: &mut Call<'_>) -> Outcome {
    let list = call.worker.shared.libraries.list();
    let codes = list.libraries.iter().map(|library| &*library.code);
    call.reply.bulk(&payload::dump_libraries(codes, call.worker.config().rdbcompression.is_on()));
    Ok(())
}

static HELP: ServerCommand = command("function|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .acl(Acl::SCRIPTING)
    .doc(Group::Scripting, "7.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "FUNCTION");
    Ok(())
}

static KILL: ServerCommand = command("function|kill", 2, kill as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY))
    .acl(Acl::SCRIPTING)
    .doc(Group::Scripting, "7.0.0", "O(1)", "Ends the function that runs.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_ONE_SUCCEEDED]);

fn kill(call: &mut Call<'_>) -> Outcome {
    kill_running(call, Engine::Functions)
}

static LIST: ServerCommand = command("function|list", -2, list as ServerHandler)
    .flags(Flags::NOSCRIPT)
    .acl(Acl::SCRIPTING)
    .syntax("?library-name-pattern=LIBRARYNAME ?WITHCODE")
    .doc(Group::Scripting, "7.0.0", "O(N) where N is the number of functions", "Lists libraries.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn list(call: &mut Call<'_>) -> Outcome {
    let mut rest = call.rest(2);
    let (mut pattern, mut shows_code) = (None, false);
    while let Some(option) = rest.peek() {
        if !shows_code && rest.word("WITHCODE") {
            shows_code = true;
        } else if pattern.is_none() && rest.word("LIBRARYNAME") {
            let name = rest.value().map_err(|_| Error::Fixed("ERR library name argument was not given"))?;
            pattern = Some(name);
        } else {
            return Err(Error::Bytes([b"ERR Unknown argument ", option].concat()));
        }
    }
    let list = call.worker.shared.libraries.list();
    let is_wanted =
        |library: &&std::sync::Arc<Library>| pattern.is_none_or(|p| glob::matches(p, &library.name, true));
    let wanted: Vec<_> = list.libraries.iter().filter(is_wanted).collect();
    call.reply.array(wanted.len());
    for library in wanted {
        write_library(call, library, shows_code);
    }
    Ok(())
}

fn write_library(call: &mut Call<'_>, library: &Library, shows_code: bool) {
    let reply = &mut *call.reply;
    reply.map(if shows_code { 4 } else { 3 });
    reply.bulk(b"library_name");
    reply.bulk(&library.name);
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        reply.bulk_or_null(function.description.as_deref());
        reply.bulk(b"flags");
        let named = ScriptFlags::NAMES.iter().filter(|(flag, _)| function.flags.has(*flag));
        reply.set(named.clone().count());
        named.for_each(|(_, name)| reply.simple(name));
    }
    if shows_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

static STATS: ServerCommand = command("function|stats", 2, stats as ServerHandler)
    .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY))
    .acl(Acl::SCRIPTING)
    .doc(Group::Scripting, "7.0.0", "O(1)", "Returns the running function, and the engines.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT, Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_SPECIAL]);

fn stats(call: &mut Call<'_>) -> Outcome {
    let shared = call.worker.shared;
    if shared.scripts.busy_engine() == Some(Engine::Eval) {
        return Err(busy(Engine::Eval));
    }
    let list = shared.libraries.list();
    let running = shared.scripts.shown_function();
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(running) => {
            let ns = shared.clock.elapsed_ns(running.began, shared.clock.raw());
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.request.view().len());
            running.request.view().iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.int((ns / 1_000_000) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.int(list.libraries.len() as i64);
    reply.bulk(b"functions_count");
    reply.int(list.function_count() as i64);
    Ok(())
}
