//! What a request amounts to: the command's flags, and those of the transaction that it ends.

use std::sync::atomic::Ordering;

use martlet_command::{Control, Flags};

use crate::clients::flag;
use crate::connection::{Connection, Transaction};
use crate::registry::Entry;

/// Whether the client is this server's primary, which is obeyed.
pub(crate) fn is_from_primary(connection: &Connection) -> bool {
    connection.info.flags.load(Ordering::Relaxed) & flag::PRIMARY != 0
}

/// The transaction that the command would execute.
pub(crate) fn executed<'a>(connection: &'a Connection, entry: &Entry) -> Option<&'a Transaction> {
    let transaction = connection.session.transaction.as_ref();
    transaction.filter(|_| entry.spec.control == Control::ExecuteTransaction)
}

/// Whether the command has these flags, and all that EXEC would run.
pub(crate) fn all_have(connection: &Connection, entry: &Entry, flags: Flags) -> bool {
    entry.spec.flags.has(flags) && executed(connection, entry).is_none_or(|of| of.queue.all_have(flags))
}

/// Whether the command has these flags, or one of those that EXEC would run.
pub(crate) fn any_has(connection: &Connection, entry: &Entry, flags: Flags) -> bool {
    entry.spec.flags.has(flags) || executed(connection, entry).is_some_and(|of| of.queue.any_has(flags))
}

/// Whether the command runs a script, or executes a transaction that does.
pub(crate) fn runs_script(connection: &Connection, entry: &Entry) -> bool {
    matches!(entry.spec.control, Control::RunScript(_))
        || executed(connection, entry).is_some_and(|transaction| transaction.runs_scripts)
}
