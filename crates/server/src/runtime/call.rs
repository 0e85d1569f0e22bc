//! The context that a server command's handler gets.

use martlet_command::{Command, Cursor, Outcome};
use martlet_engine::Keys;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use super::Worker;
use crate::connection::Connection;
use crate::registry::Entry;

/// The context of a server command's handler. The keys in its spec are locked.
pub struct Call<'a> {
    /// The thread's worker.
    pub worker: &'a mut Worker,
    /// The client's connection.
    pub connection: &'a mut Connection,
    /// Where the answer goes.
    pub reply: &'a mut Reply,
    /// The request; argument 0 is the command's name.
    pub args: Args<'a>,
    /// The command.
    pub entry: &'static Entry,
    /// Inside MULTI or a script.
    pub deny_blocking: bool,
}

impl AsMut<Keys> for Call<'_> {
    fn as_mut(&mut self) -> &mut Keys {
        &mut self.worker.keys
    }
}

impl<'a> Call<'a> {
    /// The argument at `index`; empty if absent.
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.at(index)
    }

    /// Number of arguments, the command's name included.
    pub fn argc(&self) -> usize {
        self.args.len()
    }

    /// A cursor at the argument at `index`.
    pub fn rest(&self, index: usize) -> Cursor<'a> {
        Cursor::new(self.args, index)
    }

    /// The argument at `index` as an integer.
    ///
    /// # Errors
    /// Redis' text.
    pub fn int(&self, index: usize) -> Result<i64, martlet_command::Error> {
        martlet_base::number::parse_i64(self.arg(index)).ok_or(martlet_command::Error::NotInteger)
    }
}

/// What runs a server command.
pub type ServerHandler = fn(&mut Call<'_>) -> Outcome;

/// An entry of the table for a server command.
pub type ServerCommand = Command<ServerHandler>;
