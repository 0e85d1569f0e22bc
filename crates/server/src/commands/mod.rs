//! Commands that work on the server or the connection rather than on keys, one file per family.

mod acl;
mod client;
mod cluster;
mod command;
mod commandlog;
mod config;
mod connection;
mod debug;
mod debug_flags;
mod debug_memory;
mod digest;
mod function;
mod hotkeys;
pub(crate) mod info;
mod lolwut;
mod memory;
pub(crate) mod migrate;
mod module;
mod observe;
pub(crate) mod persistence;
mod pubsub;
mod replicaof;
pub(crate) mod replication;
mod scripting;
mod search;
mod server;
mod survey;

pub use client::{client_line, close_client};

use martlet_command::Outcome;

use crate::registry::Registry;
use crate::runtime::call::{Call, ServerCommand, ServerHandler};

/// Answers a container's HELP subcommand from the table: a line for each subcommand and one for its
/// description.
pub fn write_help(call: &mut Call<'_>, container: &str) {
    let entries = call.worker.shared.registry.entries();
    let Some(parent) = call.entry.parent else { return };
    let mut lines = vec![format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for &id in &entries[parent].subcommands {
        let spec = entries[id].spec;
        lines.push(spec.name.to_uppercase());
        lines.push(format!("    {}", spec.summary));
    }
    call.reply.array(lines.len());
    for line in &lines {
        call.reply.simple(line);
    }
}

/// The merged table; see [`Registry::new`].
///
/// # Errors
/// Those of [`Registry::new`].
pub fn registry(renames: &[(String, String)]) -> Result<Registry, String> {
    Registry::new(FAMILIES, renames)
}

/// The handlers of all server commands by the places that [`Run::Server`](crate::registry::Run::Server) has.
pub(crate) static HANDLERS: [ServerHandler; handlers::<0>().1] = handlers().0;

/// The first `N` handlers in the order in which [`Registry::new`] meets them, and the number of all.
const fn handlers<const N: usize>() -> ([ServerHandler; N], usize) {
    const fn add<const N: usize>(
        found: &mut [ServerHandler; N],
        count: &mut usize,
        handler: Option<ServerHandler>,
    ) {
        let Some(handler) = handler else { return };
        if *count < N {
            found[*count] = handler;
        }
        *count += 1;
    }
    let (mut found, mut count, mut family) = ([absent as ServerHandler; N], 0, 0);
    while family < FAMILIES.len() {
        let mut index = 0;
        while index < FAMILIES[family].len() {
            let command = FAMILIES[family][index];
            add(&mut found, &mut count, command.handler);
            let mut sub = 0;
            while sub < command.subcommands.len() {
                add(&mut found, &mut count, command.subcommands[sub].handler);
                sub += 1;
            }
            index += 1;
        }
        family += 1;
    }
    (found, count)
}

/// Fills the table until the handlers are in it.
fn absent(_: &mut Call<'_>) -> Outcome {
    Ok(())
}

/// All server commands, family by family.
pub static FAMILIES: &[&[&ServerCommand]] = &[
    acl::COMMANDS,
    client::COMMANDS,
    cluster::COMMANDS,
    command::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    function::COMMANDS,
    info::COMMANDS,
    lolwut::COMMANDS,
    memory::COMMANDS,
    migrate::COMMANDS,
    module::COMMANDS,
    commandlog::COMMANDS,
    hotkeys::COMMANDS,
    observe::COMMANDS,
    pubsub::COMMANDS,
    persistence::COMMANDS,
    replication::COMMANDS,
    replicaof::COMMANDS,
    scripting::COMMANDS,
    search::aggregate::COMMANDS,
    search::definitions::COMMANDS,
    search::config::COMMANDS,
    search::dictionaries::COMMANDS,
    search::documents::COMMANDS,
    search::explain::COMMANDS,
    search::find::COMMANDS,
    search::info::COMMANDS,
    search::spelling::COMMANDS,
    search::synonyms::COMMANDS,
    search::profile::COMMANDS,
    search::tags::COMMANDS,
    search::hybrid::COMMANDS,
    server::COMMANDS,
    crate::runtime::transaction::COMMANDS,
];
