//! Requests of a Sentinel's clients: the command table, the checks before a command runs, and the sessions.
//!
//! Invariant: nothing here touches a socket. A request comes as arguments and leaves its reply in the
//! session's output; entries stand above their handlers, and no other code knows a command by name.

mod acl;
mod client;
mod command;
mod connection;
mod core;
mod info;
mod instance_reply;
mod pubsub;
mod registry;
mod sentinel;
mod settings;
#[cfg(test)]
mod tests;
mod tracking;

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Acl, Command, Error, Flags, Group, Outcome};

pub use self::core::{Access, Core, Facts, ReplyMode, Session, Stats};
pub use registry::{Entry, Registry, registry};

pub use martlet_spec::handshake::REDIS_VERSION;

/// A request that runs.
pub struct Call<'a> {
    /// All that there is.
    pub core: &'a mut Core,
    /// The session's number.
    pub id: u64,
    /// The arguments, the command's name first.
    pub args: Args<'a>,
    /// Where the reply goes.
    pub reply: &'a mut Reply,
    /// The command.
    pub entry: &'static Entry,
}

impl<'a> Call<'a> {
    /// An argument; empty if absent.
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.at(index)
    }

    /// How many arguments there are.
    pub fn argc(&self) -> usize {
        self.args.len()
    }

    /// The session that asks.
    pub fn session(&mut self) -> &mut Session {
        self.core.sessions.get_mut(&self.id).expect("a session is there while its request runs")
    }

    /// An argument as an integer, or the error with this text.
    pub fn int(&self, index: usize, error: &'static str) -> Result<i64, Error> {
        martlet_base::number::parse_i64(self.arg(index)).ok_or(Error::Fixed(error))
    }
}

/// What runs a command.
pub type Handler = fn(&mut Call<'_>) -> Outcome;
/// An entry of the table.
pub type SentinelCommand = Command<Handler>;

/// Flags of commands about the connection at hand.
const OPEN: Flags = Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE).with(Flags::KEEPS_CACHING);

/// A command about connections.
const fn about(command: SentinelCommand, since: &'static str, summary: &'static str) -> SentinelCommand {
    command.acl(Acl::CONNECTION).doc(Group::Connection, since, "O(1)", summary)
}

/// All commands, family by family.
static FAMILIES: &[&[&SentinelCommand]] = &[
    acl::COMMANDS,
    client::COMMANDS,
    command::COMMANDS,
    connection::COMMANDS,
    info::COMMANDS,
    pubsub::COMMANDS,
    sentinel::COMMANDS,
];

/// Writes a container's help: its subcommands with what each does.
fn write_help(call: &mut Call<'_>, container: &str) -> Outcome {
    let Some(parent) = call.entry.parent else { return Ok(()) };
    let mut lines = vec![format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for id in &registry().entries()[parent].subcommands {
        let spec = registry().entries()[*id].spec;
        lines.push(spec.name.to_uppercase());
        lines.push(format!("    {}", spec.summary));
    }
    call.reply.array(lines.len());
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
