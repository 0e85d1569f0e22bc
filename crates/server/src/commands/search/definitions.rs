//! FT.CREATE and its kin: which indexes there are.

use martlet_command::{Acl, Control, Error, Flags, Outcome, command};
use martlet_indexes::Changed;
use martlet_protocol::reply::Reply;

use super::{CHANGES, DENIED, GROUP, may_use};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::refusal::Refusal;
use crate::registry::Entry;
use crate::runtime::request_flags::is_from_primary;
use crate::search::agreement;
use crate::search::nodes::{self, Nodes};
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
    &DEFINE,
    &DEFINITIONS,
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

/// The categories of a command that drops an index, as in Redis 8.
const DROPS: Acl = Acl::WRITE.with(Acl::SEARCH).with(Acl::SLOW).with(Acl::DANGEROUS);

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
static DROP_INDEX: ServerCommand = change_command("ft.dropindex", -2, "index ?DD").acl(DROPS).doc(
    GROUP,
    "2.0.0",
    "O(1), or O(N) for N documents that are deleted",
    "Drops an index, and with DD its documents.",
);
static DROP_INDEX_IFX: ServerCommand = change_command("ft._dropindexifx", -2, "index ?DD").acl(DROPS).doc(
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
    .acl(Acl::READ.with(Acl::SEARCH).with(Acl::ADMIN).with(Acl::SLOW))
    .doc(GROUP, "2.0.0", "O(1)", "Returns the names of all indexes.");

fn list(call: &mut Call<'_>) -> Outcome {
    let indexes = call.worker.shared.indexes.indexes();
    call.reply.set(indexes.len());
    indexes.iter().for_each(|index| call.reply.bulk(index.name()));
    Ok(())
}

/// A change that another node has ordered; see [`DEFINE`](martlet_indexes::DEFINE).
static DEFINE: ServerCommand = command("_ft.define", -3, define as ServerHandler)
    .syntax("version:i form ?*argument")
    .flags(CHANGES)
    .control(Control::ChangeIndexes)
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .doc(
        GROUP,
        "8.0.0",
        "O(N) where N is the number of indexes",
        "Changes a node's indexes, for another node.",
    );

static DEFINITIONS: ServerCommand = command("_ft.definitions", -1, definitions as ServerHandler)
    .syntax("?WHOLE")
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .doc(
        GROUP,
        "8.0.0",
        "O(N) where N is the number of indexes",
        "Returns a node's indexes, for another node.",
    );

/// The node that orders a change.
enum Order {
    /// None: the server is no node of a cluster that has slots, or the change comes from the primary.
    None,
    /// This one.
    Own(Option<Nodes>),
    /// Another one.
    Others(Nodes),
}

fn order(call: &Call<'_>) -> Result<Order, Error> {
    let (routes, is_replica) = (call.worker.routes.as_ref(), call.worker.shared.is_replica());
    let Some(routes) = routes.filter(|_| !is_from_primary(call.connection)) else { return Ok(Order::None) };
    if !routes.has_owners() {
        // The check of the role has left that to the order.
        return if is_replica { Err(read_only(call)) } else { Ok(Order::None) };
    }
    if routes.leads() && !is_replica {
        return Ok(Order::Own(Nodes::beside(call)?));
    }
    if call.connection.session.peer.is_some() {
        return Err(nodes::OTHER_LEADER);
    }
    Nodes::all(call).map(Order::Others)
}

/// Runs a command that changes which indexes there are. In a cluster one node orders the changes, and has all
/// others make them too.
fn change(call: &mut Call<'_>) -> Outcome {
    if call.worker.keys.db() != 0 {
        return Err(Error::Fixed("Cannot create index on db != 0"));
    }
    let words: Vec<&[u8]> = call.args.iter().collect();
    if is_drop(call.entry) && words.len() > 3 {
        return Err(Error::Arity(call.entry.spec.name));
    }
    let named = call.worker.shared.indexes.find(words[1]).filter(|_| drops_documents(call, &words));
    if named.is_some_and(|index| !may_use(call, &index, true)) {
        return Err(DENIED);
    }
    change_definitions(call)
}

/// Makes the change of definitions that a request asks for: in a cluster at all nodes.
pub(super) fn change_definitions(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    match order(call)? {
        Order::None => {
            let made = make(call, &words, 0)?;
            made.write(call.reply);
            Ok(())
        }
        Order::Own(others) => {
            let indexes = call.worker.shared.indexes;
            let [version, base] =
                [indexes.next_version(), indexes.version()].map(|number| number.to_string());
            let own = [martlet_indexes::DEFINE, version.as_bytes(), b"ONE", base.as_bytes()];
            let words = [own.as_slice(), &words].concat();
            let made = make(call, &words, own.len())?;
            match others.filter(|_| made != Made::Nothing) {
                None => made.write(call.reply),
                Some(others) => {
                    let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
                    others.answer(call, move |has_thread, reply| {
                        match agreement::publish(others, has_thread, &words) {
                            None => made.write(reply),
                            Some(error) => reply.error(error),
                        }
                    });
                }
            }
            Ok(())
        }
        Order::Others(nodes) => {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
            nodes.answer(call, move |has_thread, reply| agreement::forward(nodes, has_thread, &words, reply));
            Ok(())
        }
    }
}

/// The outcome of a change.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Made {
    /// Nothing was to do.
    Nothing,
    /// It was made.
    Change,
    /// As many terms of a dictionary were added or deleted.
    Terms(usize),
}

impl Made {
    fn write(self, reply: &mut Reply) {
        match self {
            Made::Nothing | Made::Change => reply.ok(),
            Made::Terms(count) => reply.count(count),
        }
    }
}

fn define(call: &mut Call<'_>) -> Outcome {
    check_node(call)?;
    if call.worker.shared.is_replica() && !is_from_primary(call.connection) {
        return Err(read_only(call));
    }
    let words: Vec<&[u8]> = call.args.iter().collect();
    // Where the change of one index begins.
    let inner = 4.min(words.len());
    make(call, &words, inner)?;
    call.reply.ok();
    Ok(())
}

fn read_only(call: &Call<'_>) -> Error {
    Refusal::ReadOnlyReplica.of_command(call.worker)
}

/// Only nodes of the cluster send this command: a server does not know it otherwise.
fn check_node(call: &Call<'_>) -> Outcome {
    let is_node = call.connection.session.peer.is_some() || is_from_primary(call.connection);
    if is_node { Ok(()) } else { Err(Error::unknown_command(&call.args)) }
}

fn definitions(call: &mut Call<'_>) -> Outcome {
    check_node(call)?;
    let indexes = call.worker.shared.indexes;
    if call.argc() == 1 {
        let (version, digest) = indexes.digest();
        call.reply.array(2);
        call.reply.unsigned(version);
        call.reply.int(digest.cast_signed());
        return Ok(());
    }
    let (version, commands) = indexes.definitions();
    let words = martlet_indexes::join(&commands);
    call.reply.array(1 + words.len());
    call.reply.bulk(version.to_string().as_bytes());
    words.iter().for_each(|word| call.reply.bulk(word));
    Ok(())
}

/// Makes a change, and records it. A request of `words` is recorded, in which the
/// command itself stands at `inner`. With DD the deletion of each document comes before it, and it is
/// recorded without DD.
fn make(call: &mut Call<'_>, words: &[&[u8]], inner: usize) -> Result<Made, Error> {
    let with_documents = drops_documents(call, &words[inner..]);
    let worker = &mut *call.worker;
    let memory_bytes = worker.shared.index_memory_bytes();
    let changed = worker.shared.indexes.change(words, memory_bytes);
    let (mut recorded, mut made) = (words, Made::Change);
    match changed.map_err(|error| Error::Text(error.to_string()))? {
        Changed::No => return Ok(Made::Nothing),
        Changed::Dropped(index) if with_documents => {
            delete_documents(&mut worker.keys, &index, |keys, key| {
                keys.effects.replace(0, || [b"DEL".as_slice(), key.bytes]);
            });
            recorded = &words[..words.len() - 1];
        }
        Changed::Terms(count) => made = Made::Terms(count),
        Changed::Yes | Changed::Dropped(_) => {}
    }
    worker.shared.cursors.end_due(worker.shared.indexes, worker.now_ms);
    worker.keys.effects.replace(0, || recorded.iter().copied());
    worker.keys.dirty += 1;
    worker.keys.effects.request_ended(0, &call.args, true);
    Ok(made)
}

fn is_drop(entry: &Entry) -> bool {
    [DROP_INDEX.spec.name, DROP_INDEX_IFX.spec.name].contains(&entry.spec.name)
}

/// Whether a command deletes the documents of its index.
fn drops_documents(call: &Call<'_>, words: &[&[u8]]) -> bool {
    let [name, _, option] = words else { return false };
    option.eq_ignore_ascii_case(b"DD") && call.worker.shared.registry.find(name).is_some_and(is_drop)
}
