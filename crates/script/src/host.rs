//! A script's needs of the server that runs it.

pub use martlet_bytecode::{Called, LogLevel};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

/// What becomes of a script that has run for a while.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It continues.
    Continue,
    /// It ends with this error, whatever it would catch.
    Kill(&'static str),
}

/// What `redis.set_repl` may ask for, as bits.
pub mod propagate {
    /// Effects go to the append-only file.
    pub const LOG: i64 = 1;
    /// Effects go to replicas.
    pub const REPLICAS: i64 = 2;
}

/// Input of a debugger's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugInput {
    /// A command of the debugger, which has a word at least.
    Command(Vec<Vec<u8>>),
    /// Something else: the script ends with this error.
    Unreadable(&'static str),
    /// Nothing any more.
    Gone,
}

/// See the [module docs](self).
pub trait Host {
    /// Runs a command as the script's client and writes its reply in the script's protocol version.
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called;

    /// Whether the script's user may run a command; `None` if there is no such command.
    fn may_call(&mut self, args: &Args<'_>) -> Option<bool>;

    /// The script has run many instructions since it began or since this was asked last.
    fn interrupt(&mut self) -> Verdict;

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Where effects go from here on; see [`propagate`].
    fn set_propagation(&mut self, targets: i64);

    /// Sends lines to the client that debugs the script.
    fn debug_send(&mut self, _lines: &[Vec<u8>]) {}

    /// Waits for that client's next command. Without a client a script does not stop.
    fn debug_receive(&mut self) -> DebugInput {
        DebugInput::Gone
    }

    /// Whether the script has run for longer than `busy-reply-threshold` since its client was asked last.
    fn is_debug_overdue(&mut self) -> bool {
        false
    }
}
