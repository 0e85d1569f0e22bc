//! FT.SYNUPDATE and FT.SYNDUMP: groups of terms of which each finds the others.

use martlet_command::{Acl, Control, Error, Flags, Outcome, command};

use super::definitions::change_definitions;
use super::{CHANGES, GROUP, readable_index};
use crate::commands::{Call, ServerCommand, ServerHandler};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&UPDATE, &DUMP];

static UPDATE: ServerCommand = command("ft.synupdate", -4, update as ServerHandler)
    .flags(CHANGES.with(Flags::DENYOOM))
    .control(Control::ChangeIndexes)
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .syntax("index synonym_group_id ?SKIPINITIALSCAN *term")
    .doc(GROUP, "1.2.0", "O(1)", "Creates or updates a synonym group with additional terms");
static DUMP: ServerCommand = command("ft.syndump", 2, dump as ServerHandler)
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index")
    .doc(GROUP, "1.2.0", "O(1)", "Dumps the contents of a synonym group");

const UNKNOWN: Error = Error::Fixed("Unknown index name");

fn update(call: &mut Call<'_>) -> Outcome {
    let name = call.args.get(1).unwrap_or_default().to_vec();
    readable_index(call, &name)?.ok_or(UNKNOWN)?;
    change_definitions(call)
}

fn dump(call: &mut Call<'_>) -> Outcome {
    let name = call.args.get(1).unwrap_or_default().to_vec();
    let index = readable_index(call, &name)?.ok_or(UNKNOWN)?;
    let rules = index.index().rules();
    let terms = rules.synonyms.dump();
    call.reply.map(terms.len());
    for (term, groups) in terms {
        call.reply.bulk(term);
        call.reply.array(groups.len());
        groups.into_iter().for_each(|group| call.reply.bulk(group));
    }
    Ok(())
}
