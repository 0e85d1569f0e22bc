//! A script's needs of the server that runs it.

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

/// How a script's call of a command went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// There is a reply, an error perhaps.
    Replied,
    /// The script cannot continue: it ends here, whatever it would catch, and has no reply.
    Abandon,
}

/// What becomes of a script that has run for a while.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It continues.
    Continue,
    /// It ends with this error, whatever it would catch.
    Kill(&'static str),
}

/// How important a line of `redis.log` is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// What `redis.set_repl` may ask for, as bits.
pub mod propagate {
    /// Effects go to the append-only file.
    pub const LOG: i64 = 1;
    /// Effects go to replicas.
    pub const REPLICAS: i64 = 2;
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
}
