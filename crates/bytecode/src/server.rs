//! The interface between a running program, the server and Lua's own state.

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::library::LuaFunction;

/// How a script's call of a command went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// There is a reply, an error perhaps.
    Replied,
    /// The command was refused before it ran: the reply is the error.
    Refused,
    /// The script cannot continue: it ends here, whatever it would catch, and has no reply.
    Abandon,
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

impl LogLevel {
    /// The level of a number.
    pub fn of(number: i64) -> Option<LogLevel> {
        Some(match number {
            0 => LogLevel::Debug,
            1 => LogLevel::Verbose,
            2 => LogLevel::Notice,
            3 => LogLevel::Warning,
            _ => return None,
        })
    }
}

/// A value that passes between a program and a function of Lua's.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `nil`
    Nil,
    /// A boolean.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string's bytes.
    Text(Vec<u8>),
}

/// See the [module docs](self).
pub trait Server {
    /// Runs a command as the script's client and appends its reply, in RESP2.
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called;

    /// Whether the script may continue; asked each [`crate::INTERRUPT_OPERATIONS`].
    fn may_continue(&mut self) -> bool;

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Runs a function of Lua's; `None` if that fails, or returns other values.
    fn lua_function(&mut self, function: LuaFunction, args: &[Scalar]) -> Option<Vec<Scalar>>;
}
