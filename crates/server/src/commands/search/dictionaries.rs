//! FT.DICTADD, FT.DICTDEL and FT.DICTDUMP: the words of spell checking, which belong to no index.

use martlet_command::{Acl, Control, Error, Flags, Outcome, command};

use super::definitions::change_definitions;
use super::{CHANGES, GROUP};
use crate::commands::{Call, ServerCommand, ServerHandler};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&ADD, &DELETE, &DUMP];

static ADD: ServerCommand = command("ft.dictadd", -3, change as ServerHandler)
    .flags(CHANGES.with(Flags::DENYOOM))
    .control(Control::ChangeIndexes)
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .syntax("dict *term")
    .doc(GROUP, "1.4.0", "O(1)", "Adds terms to a dictionary");
static DELETE: ServerCommand = command("ft.dictdel", -3, change as ServerHandler)
    .flags(CHANGES)
    .control(Control::ChangeIndexes)
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .syntax("dict *term")
    .doc(GROUP, "1.4.0", "O(1)", "Deletes terms from a dictionary");
static DUMP: ServerCommand = command("ft.dictdump", 2, dump as ServerHandler)
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("dict")
    .doc(
        GROUP,
        "1.4.0",
        "O(N), where N is the size of the dictionary",
        "Dumps all terms in the given dictionary",
    );

fn change(call: &mut Call<'_>) -> Outcome {
    // Dictionaries belong to no database.
    change_definitions(call)
}

fn dump(call: &mut Call<'_>) -> Outcome {
    let name = call.args.get(1).unwrap_or_default();
    let dictionary = call.worker.shared.indexes.with_dictionaries(|all| all.dump(name));
    let dictionary = dictionary.map_err(|error| Error::Text(error.to_string()))?;
    let terms = dictionary.terms();
    call.reply.set(terms.len());
    terms.into_iter().for_each(|term| call.reply.bulk(term));
    Ok(())
}
