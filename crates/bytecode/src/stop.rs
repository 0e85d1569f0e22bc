//! Why a run ends before its script does.

/// The case for which a run leaves the script to Lua.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An error of the script's, or of a command that it has called.
    Error,
    /// A value of a type that an operation or function does not take here.
    Type,
    /// A key of a table whose place depends on an address, or that no table can have.
    Key,
    /// A text that is a number in a way that only C reads, or a number written as C does.
    Number,
    /// A function was called in a way that is beyond the subset.
    Argument,
    /// Memory: tables, texts, depth of calls.
    Memory,
    /// A reply beyond the subset.
    Reply,
}

/// See the [module docs](self).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Lua runs the script instead.
    Leave(Reason),
    /// The server cannot continue the script.
    Abandoned,
    /// A command's error ends the script.
    Raised,
}
