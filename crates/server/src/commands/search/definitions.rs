//! FT.CREATE and its kin: which indexes there are.

use martlet_command::{Acl, Control, Error, Flags, Outcome, command};
use martlet_indexes::Changed;

use super::{CHANGES, DENIED, GROUP, changed, may_use, recorded};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::temporary::delete_documents;

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

/// FT.CREATE's arguments.
const CREATE_SYNTAX: &str = "index ?data_type=ON(HASH|JSON) ?prefix=PREFIX(count:i *prefix) ?filter=FILTER \
    ?default_lang=LANGUAGE ?lang_attribute=LANGUAGE_FIELD ?default_score:d=SCORE \
    ?score_attribute=SCORE_FIELD ?payload_attribute=PAYLOAD_FIELD ?MAXTEXTFIELDS ?seconds:d=TEMPORARY \
    ?NOOFFSETS ?NOHL ?NOFIELDS ?NOFREQS ?stopwords=STOPWORDS(count:i ?*stopword) ?SKIPINITIALSCAN \
    *field=SCHEMA(field_name ?alias=AS field_type(TEXT|TAG|NUMERIC|GEO|VECTOR|GEOSHAPE) ?WITHSUFFIXTRIE \
    ?INDEXEMPTY ?INDEXMISSING ?sortable=SORTABLE(?UNF) ?NOINDEX)";

const fn change_command(name: &'static str, arity: i32, syntax: &'static str) -> ServerCommand {
    command(name, arity, change as ServerHandler)
        .syntax(syntax)
        .flags(CHANGES)
        .control(Control::ChangeIndexes)
        .acl(Acl::WRITE.with(Acl::SEARCH))
}

static CREATE: ServerCommand =
    change_command("ft.create", -5, CREATE_SYNTAX).flags(CHANGES.with(Flags::DENYOOM)).doc(
        GROUP,
        "1.0.0",
        "O(K) where K is the number of fields in the document, O(N) for keys in the keyspace",
        "Creates an index.",
    );
static CREATE_IFNX: ServerCommand = change_command("ft._createifnx", -5, CREATE_SYNTAX)
    .flags(CHANGES.with(Flags::DENYOOM))
    .doc(GROUP, "1.0.0", "As FT.CREATE", "Creates an index unless it is there.");
static ALTER: ServerCommand =
    change_command("ft.alter", -6, "index ?SKIPINITIALSCAN SCHEMA add=ADD(attribute options *more)")
        .flags(CHANGES.with(Flags::DENYOOM))
        .doc(
            GROUP,
            "1.0.0",
            "O(N) where N is the number of keys in the keyspace",
            "Adds a field to an index.",
        );
static DROP_INDEX: ServerCommand = change_command("ft.dropindex", -2, "index ?DD").doc(
    GROUP,
    "2.0.0",
    "O(1), or O(N) for N documents that are deleted",
    "Drops an index, and with DD its documents.",
);
static DROP_INDEX_IFX: ServerCommand = change_command("ft._dropindexifx", -2, "index ?DD").doc(
    GROUP,
    "2.0.0",
    "As FT.DROPINDEX",
    "Drops an index if it is there.",
);
static ALIAS_ADD: ServerCommand =
    change_command("ft.aliasadd", 3, "alias index").doc(GROUP, "1.0.0", "O(1)", "Gives an index an alias.");
static ALIAS_ADD_IFNX: ServerCommand = change_command("ft._aliasaddifnx", 3, "alias index").doc(
    GROUP,
    "1.0.0",
    "O(1)",
    "Gives an index an alias unless the alias is there.",
);
static ALIAS_UPDATE: ServerCommand = change_command("ft.aliasupdate", 3, "alias index").doc(
    GROUP,
    "1.0.0",
    "O(1)",
    "Gives an index an alias, which another index may have had.",
);
static ALIAS_DEL: ServerCommand =
    change_command("ft.aliasdel", 2, "alias").doc(GROUP, "1.0.0", "O(1)", "Removes an alias.");
static ALIAS_DEL_IFX: ServerCommand = change_command("ft._aliasdelifx", 2, "alias").doc(
    GROUP,
    "1.0.0",
    "O(1)",
    "Removes an alias if it is there.",
);

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

/// Runs a command that changes which indexes there are; the request itself is recorded. With DD the deletion
/// of each document comes before it, and it is recorded without DD.
fn change(call: &mut Call<'_>) -> Outcome {
    let args = call.args;
    if call.worker.keys.db() != 0 {
        return Err(Error::Fixed("Cannot create index on db != 0"));
    }
    let words: Vec<&[u8]> = args.iter().collect();
    let with_documents = is_drop(call) && words.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"DD"));
    if is_drop(call) && words.len() > 3 {
        return Err(Error::Arity(call.entry.spec.name));
    }
    let named = call.worker.shared.indexes.find(words[1]).filter(|_| with_documents);
    if named.is_some_and(|index| !may_use(call, &index, true)) {
        return Err(DENIED);
    }
    match changed(call)? {
        Changed::No => {
            call.reply.ok();
            return Ok(());
        }
        Changed::Dropped(index) if with_documents => {
            let worker = &mut *call.worker;
            delete_documents(&mut worker.keys, &index, |keys, key| {
                keys.effects.replace(0, || [b"DEL".as_slice(), key.bytes]);
            });
            worker.keys.effects.replace(0, || [words[0], words[1]]);
        }
        Changed::Yes | Changed::Dropped(_) | Changed::Terms(_) => {}
    }
    recorded(call);
    call.reply.ok();
    Ok(())
}

fn is_drop(call: &Call<'_>) -> bool {
    [DROP_INDEX.spec.name, DROP_INDEX_IFX.spec.name].contains(&call.entry.spec.name)
}
