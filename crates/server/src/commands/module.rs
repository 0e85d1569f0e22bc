//! MODULE: this server lists the modules of Redis 8 that it has built in, and loads none: it answers as Redis
//! does for a file that is none, once the configuration allows the command.

use martlet_command::{Acl, Error, Flags, Group, Outcome, Presentation, Tip, command, container};
use martlet_protocol::reply::Reply;
use martlet_spec::Module;
use martlet_spec::module::LUA;

use super::{Call, ServerCommand, ServerHandler};
use crate::registry::Registry;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&MODULE];

static MODULE: ServerCommand = container("module", -2, &[&HELP, &LIST, &LOAD, &LOADEX, &UNLOAD]).doc(
    Group::Server,
    "4.0.0",
    "Depends on subcommand.",
    "A container for module commands.",
);

const CHANGES: Flags =
    Flags::NO_ASYNC_LOADING.with(Flags::ADMIN).with(Flags::NOSCRIPT).with(Flags::LOADS_MODULES);

static LIST: ServerCommand = command("module|list", 2, list as ServerHandler)
    .flags(Flags::ADMIN.with(Flags::NOSCRIPT))
    .acl(Acl::NONE)
    .doc(Group::Server, "4.0.0", "O(1)", "Lists the modules of Redis whose commands are there.")
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT_ORDER]);

fn list(call: &mut Call<'_>) -> Outcome {
    write_list(call.reply, call.worker.shared.registry, call.worker.presentation());
    Ok(())
}

/// The modules that clients see: those whose commands the table has, and Lua, which is one in Valkey.
pub(super) fn modules_of(
    presentation: Presentation,
    registry: &'static Registry,
) -> impl ExactSizeIterator<Item = &'static Module> {
    let first = presentation.module();
    let modules: Vec<_> = first.into_iter().chain(registry.modules().iter().copied()).collect();
    modules.into_iter()
}

/// The modules as MODULE LIST and HELLO show them: what is built in has neither a path nor arguments.
pub(super) fn write_list(reply: &mut Reply, registry: &'static Registry, presentation: Presentation) {
    let modules = modules_of(presentation, registry);
    reply.array(modules.len());
    for module in modules {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(module.name.as_bytes());
        reply.bulk(b"ver");
        reply.int(i64::from(module.version));
        reply.bulk(b"path");
        reply.bulk(if *module == LUA { LUA.name.as_bytes() } else { b"" });
        reply.bulk(b"args");
        reply.array(0);
    }
}

static LOAD: ServerCommand = command("module|load", -3, load as ServerHandler)
    .flags(CHANGES)
    .acl(Acl::NONE)
    .syntax("path ?*arg")
    .doc(Group::Server, "4.0.0", "O(1)", "Loads a module: refused.");

static LOADEX: ServerCommand = command("module|loadex", -3, load as ServerHandler)
    .flags(CHANGES)
    .acl(Acl::NONE)
    .syntax("path ?*+configs=CONFIG(name value) ?*args=ARGS")
    .doc(Group::Server, "7.0.0", "O(1)", "Loads a module with its configuration: refused.");

static UNLOAD: ServerCommand = command("module|unload", 3, unload as ServerHandler)
    .flags(CHANGES)
    .acl(Acl::NONE)
    .syntax("name")
    .doc(Group::Server, "4.0.0", "O(1)", "Unloads a module: refused.");

fn load(call: &mut Call<'_>) -> Outcome {
    tracing::warn!("Module {} is not loaded: this server loads none", String::from_utf8_lossy(call.arg(2)));
    Err(Error::Fixed("ERR Error loading the extension. Please check the server logs."))
}

fn unload(_: &mut Call<'_>) -> Outcome {
    Err(Error::Fixed("ERR Error unloading module: no such module with that name"))
}

static HELP: ServerCommand = command("module|help", 2, help as ServerHandler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .acl(Acl::NONE)
    .doc(Group::Server, "5.0.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "MODULE");
    Ok(())
}
