//! The FT family: indexes, searches, aggregations.

pub mod aggregate;
pub mod config;
pub mod definitions;
pub mod dictionaries;
pub mod documents;
pub mod explain;
pub mod find;
pub mod hybrid;
pub mod info;
pub mod profile;
mod shards;
pub mod spelling;
pub mod synonyms;
pub mod tags;

use std::sync::Arc;

use martlet_command::{Error, Flags, Group};
use martlet_indexes::KeyIndex;
use martlet_protocol::reply::Reply;
use martlet_search::request::Limits;
use martlet_search::searching::Context;
use martlet_spec::module;

use crate::search::job::TimeLimit;
use crate::search::{nodes, settings};

use super::Call;

const GROUP: Group = Group::Module(&module::SEARCH);
/// A command that changes definitions runs alone, so that it has one place in the records and saves.
const CHANGES: Flags = Flags::WRITE.with(Flags::EXCLUSIVE);
/// RediSearch's words since 8.0.
const DENIED: Error = Error::Fixed("NOPERM User does not have the required permissions to query the index");

/// The index of this name or alias, whose documents the client may read; `None` if there is none. It has what
/// the transaction or script has changed so far.
///
/// # Errors
/// The client may not read all keys with the index's prefixes.
fn readable_index(call: &mut Call<'_>, name: &[u8]) -> Result<Option<Arc<KeyIndex>>, Error> {
    call.worker.keys.report_changes();
    let index = call.worker.shared.indexes.find(name);
    match index {
        Some(index) if !may_use(call, &index, false) => Err(DENIED),
        index => {
            index.iter().for_each(|index| index.count_use());
            Ok(index)
        }
    }
}

/// What a request may ask for.
fn limits(call: &Call<'_>) -> Limits {
    settings::limits(call.worker.config())
}

/// The server's part in a search.
fn context(call: &Call<'_>) -> Context {
    let results_max = limits(call).search_results;
    let bounds = settings::bounds(call.worker.config());
    let key_filter = nodes::key_filter(call.worker.shared.engine);
    let scorer = settings::scorer(call.worker.config());
    Context { results_max, scorer, is_resp3: call.reply.is_resp3(), bounds, key_filter }
}

/// The time limit of a request with this TIMEOUT.
fn time_limit(call: &Call<'_>, timeout_ms: u64) -> TimeLimit {
    TimeLimit::new(timeout_ms, settings::fails_late(call.worker.config()))
}

/// Whether the client may read all keys with an index's prefixes; with `writes`, change them too.
fn may_use(call: &Call<'_>, index: &KeyIndex, writes: bool) -> bool {
    let (user, rules) = (&call.connection.session.user, index.index().rules());
    let prefixes = &rules.definition.prefixes;
    let own = prefixes.iter().all(|prefix| user.may_use_prefix(prefix, writes));
    own && (!prefixes.is_empty() || user.may_use_prefix(b"", writes))
}

/// Text that RediSearch sends as a simple string, which cannot hold a line break.
fn text_line(reply: &mut Reply, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(line) if !line.contains(['\r', '\n']) => reply.simple(line),
        _ => reply.bulk(text),
    }
}
