//! Scripts without Lua: the chunk that Lua's compiler makes of a script is translated into a [`Program`],
//! which a [`Machine`] runs over the bytes of the request and of replies, without a Lua state.
//!
//! Invariant: a run has the same reply, effects, errors and lines of the log as in Lua, or it ends with
//! [`Outcome::Left`] and Lua runs the script from its beginning. The calls that it has made until then are
//! not made again: Lua is given their replies, see [`Machine::answer`].

mod arguments;
mod builtins;
mod calls;
mod chunk;
mod closures;
mod functions;
mod json;
mod library;
mod machine;
pub mod number;
mod operations;
mod pack;
mod program;
mod returned;
mod server;
mod stop;
mod strings;
mod table;
mod translate;
mod value;

use martlet_protocol::reply::Reply;

pub use calls::error_reply_text;
pub use library::LuaFunction;
pub use machine::{INTERRUPT_OPERATIONS, Machine};
pub use program::Program;
pub use returned::Failure;
pub use server::{Called, LogLevel, Scalar, Server};
pub use stop::Reason;
pub use translate::{Unsupported, translate};

use machine::Run;
use stop::Stop;

/// The inputs of a run.
#[derive(Copy, Clone, Debug)]
pub struct Inputs<'r> {
    /// `KEYS`
    pub keys: &'r [&'r [u8]],
    /// `ARGV`
    pub args: &'r [&'r [u8]],
    /// Bytes that a command's reply may have.
    pub reply_max_bytes: usize,
    /// Whether `cjson` has the settings that it begins with.
    pub has_plain_json: bool,
}

/// How a run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The script's reply has been written.
    Replied,
    /// With an error.
    Failed(Failure),
    /// The server could not continue it.
    Abandoned,
    /// Lua is to run the script; nothing has been written.
    Left(Reason),
}

/// The answer to a call of a command.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Answer<'m> {
    /// How it went.
    pub called: Called,
    /// The reply, in RESP2.
    pub reply: &'m [u8],
    /// The reply would have taken more memory than scripts have.
    pub is_full: bool,
    /// Number of the command's arguments.
    pub arguments: usize,
    /// Bytes of the command's arguments together.
    pub argument_bytes: usize,
}

impl Machine {
    /// The answer to a call of the last run, by the call's number.
    pub fn answer(&self, number: usize) -> Option<Answer<'_>> {
        let recorded = self.recorded.get(number)?;
        Some(Answer {
            called: recorded.called,
            reply: self.arena().get(recorded.start as usize..recorded.end as usize)?,
            is_full: recorded.is_full,
            arguments: recorded.arguments as usize,
            argument_bytes: recorded.argument_bytes as usize,
        })
    }

    /// Lines that the last run has written to the log.
    pub fn logged(&self) -> usize {
        self.logged
    }

    /// Forgets the last run.
    pub fn forget(&mut self) {
        self.clear();
    }
}

impl Program {
    /// Runs the program, and writes the script's reply. The machine keeps the answers to its calls until it
    /// forgets them.
    pub fn run(
        &self,
        machine: &mut Machine,
        inputs: Inputs<'_>,
        server: &mut dyn Server,
        reply: &mut Reply,
    ) -> Outcome {
        machine.clear();
        let begin = reply.len();
        let mut run = Run::new(self, machine, inputs, server);
        let outcome = match run.script().and_then(|value| run.write_returned(value, reply)) {
            Ok(None) => Outcome::Replied,
            Ok(Some(failure)) => Outcome::Failed(failure),
            Err(Stop::Raised) => Outcome::Failed(run.raised()),
            Err(Stop::Abandoned) => Outcome::Abandoned,
            Err(Stop::Leave(reason)) => {
                reply.truncate(begin);
                Outcome::Left(reason)
            }
        };
        run.end();
        outcome
    }
}
