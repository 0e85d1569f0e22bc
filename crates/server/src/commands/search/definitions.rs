//! FT.CREATE and its kin: which indexes there are.

use martlet_command::{Acl, Control, Error, Flags, Outcome, command};
use martlet_indexes::Changed;

use super::GROUP;
use crate::commands::{Call, ServerCommand, ServerHandler};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[
    &CREATE,
    &CREATE_IFNX,
    &ALTER,
    &DROP_INDEX,
    &DROP_INDEX_IFX,
    &LIST,
    &ALIAS_ADD,
    &ALIAS_ADD_IFNX,
    &ALIAS_UPDATE,
    &ALIAS_DEL,
    &ALIAS_DEL_IFX,
];

/// The command runs alone, so that it has one place in the records and saves.
const CHANGES: Flags = Flags::WRITE.with(Flags::EXCLUSIVE);

const fn change_command(name: &'static str, arity: i32) -> ServerCommand {
    command(name, arity, change as ServerHandler)
        .flags(CHANGES)
        .control(Control::ChangeIndexes)
        .acl(Acl::WRITE.with(Acl::SEARCH))
}

static CREATE: ServerCommand = change_command("ft.create", -5).flags(CHANGES.with(Flags::DENYOOM)).doc(
    GROUP,
    "1.0.0",
    "O(K) where K is the number of fields in the document, O(N) for keys in the keyspace",
    "Creates an index.",
);
static CREATE_IFNX: ServerCommand = change_command("ft._createifnx", -5)
    .flags(CHANGES.with(Flags::DENYOOM))
    .doc(GROUP, "1.0.0", "As FT.CREATE", "Creates an index unless it is there.");
static ALTER: ServerCommand = change_command("ft.alter", -6).flags(CHANGES.with(Flags::DENYOOM)).doc(
    GROUP,
    "1.0.0",
    "O(N) where N is the number of keys in the keyspace",
    "Adds a field to an index.",
);
static DROP_INDEX: ServerCommand = change_command("ft.dropindex", -2).doc(
    GROUP,
    "2.0.0",
    "O(1), or O(N) for N documents that are deleted",
    "Drops an index, and with DD its documents.",
);
static DROP_INDEX_IFX: ServerCommand = change_command("ft._dropindexifx", -2).doc(
    GROUP,
    "2.0.0",
    "As FT.DROPINDEX",
    "Drops an index if it is there.",
);
static ALIAS_ADD: ServerCommand =
    change_command("ft.aliasadd", 3).doc(GROUP, "1.0.0", "O(1)", "Gives an index an alias.");
static ALIAS_ADD_IFNX: ServerCommand = change_command("ft._aliasaddifnx", 3).doc(
    GROUP,
    "1.0.0",
    "O(1)",
    "Gives an index an alias unless the alias is there.",
);
static ALIAS_UPDATE: ServerCommand = change_command("ft.aliasupdate", 3).doc(
    GROUP,
    "1.0.0",
    "O(1)",
    "Gives an index an alias, which another index may have had.",
);
static ALIAS_DEL: ServerCommand =
    change_command("ft.aliasdel", 2).doc(GROUP, "1.0.0", "O(1)", "Removes an alias.");
static ALIAS_DEL_IFX: ServerCommand =
    change_command("ft._aliasdelifx", 2).doc(GROUP, "1.0.0", "O(1)", "Removes an alias if it is there.");

static LIST: ServerCommand = command("ft._list", 1, list as ServerHandler)
    .flags(Flags::READONLY.with(Flags::ADMIN))
    .acl(Acl::READ.with(Acl::SEARCH))
    .doc(GROUP, "2.0.0", "O(1)", "Returns the names of all indexes.");

fn list(call: &mut Call<'_>) -> Outcome {
    let indexes = call.worker.shared.indexes.indexes();
    call.reply.set(indexes.len());
    indexes.iter().for_each(|index| call.reply.bulk(index.name()));
    Ok(())
}

/// Runs a command that changes which indexes there are; the request itself is recorded, and with DD the
/// deletion of each document before it.
fn change(call: &mut Call<'_>) -> Outcome {
    let (worker, args) = (&mut *call.worker, call.args);
    if worker.keys.db() != 0 {
        return Err(Error::Fixed("Cannot create index on db != 0"));
    }
    let words: Vec<&[u8]> = args.iter().collect();
    let memory_bytes = worker.shared.index_memory_bytes();
    let changed = worker.shared.indexes.change(&words, memory_bytes);
    match changed.map_err(|error| Error::Text(error.to_string()))? {
        Changed::No => {}
        Changed::Yes | Changed::Dropped(_) => {
            worker.keys.dirty += 1;
            worker.keys.effects.request_ended(worker.keys.db(), &args, true);
        }
    }
    call.reply.ok();
    Ok(())
}
