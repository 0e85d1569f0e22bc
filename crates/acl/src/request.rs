//! What rules are understood by, and the requests that they are put to.
//!
//! Invariant: plain data; nothing here decides anything.

use martlet_protocol::request::Args;
use martlet_spec::Spec;

use crate::table::Table;

/// What rules are understood by.
#[derive(Copy, Clone, Debug)]
pub struct Rules<'a> {
    /// The commands.
    pub table: &'a Table,
    /// Whether a user may use all channels until a rule says otherwise (`acl-pubsub-default`).
    pub all_channels: bool,
}

/// A request that a user wants to run.
#[derive(Copy, Clone, Debug)]
pub struct Request<'a> {
    /// The command's place in the table.
    pub place: usize,
    /// The command.
    pub spec: &'static Spec,
    /// Its arguments, the command's name first.
    pub args: Args<'a>,
    /// The selected database.
    pub db: usize,
    /// Number of databases that the server has.
    pub databases: usize,
}

/// Whether a user may be called so.
pub fn is_valid_name(name: &[u8]) -> bool {
    !has_spaces(name)
}

/// Whether a text has what separates rules in a file.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0))
}
