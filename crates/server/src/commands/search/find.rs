//! FT.SEARCH.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, Outcome, command};
use martlet_indexes::{Access, KeyIndex, Run};
use martlet_protocol::reply::Reply;
use martlet_search::request::Search;

use super::{GROUP, context, limits, readable_index, time_limit};
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::search::job::{self, Job, TimeLimit};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&SEARCH];

static SEARCH: ServerCommand = command("ft.search", -3, search as ServerHandler)
    .flags(Flags::READONLY.with(Flags::WALK))
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax(
        "index query ?NOCONTENT ?VERBATIM ?NOSTOPWORDS ?WITHSCORES ?WITHPAYLOADS ?WITHSORTKEYS \
         ?*+filter=FILTER(numeric_field min:d max:d) \
         ?geo_filter=GEOFILTER(geo_field lon:d lat:d radius:d radius_type(m|km|mi|ft)) \
         ?in_keys=INKEYS(count *key) ?in_fields=INFIELDS(count *field) \
         ?return=RETURN(count *identifier(identifier ?property=AS)) \
         ?summarize=SUMMARIZE(?fields=FIELDS(count *field) ?num:i=FRAGS ?fragsize:i=LEN ?separator=SEPARATOR) \
         ?highlight=HIGHLIGHT(?fields=FIELDS(count *field) ?tags=TAGS(open close)) ?slop:i=SLOP \
         ?timeout:i=TIMEOUT ?INORDER ?language=LANGUAGE ?expander=EXPANDER ?scorer=SCORER ?EXPLAINSCORE \
         ?payload=PAYLOAD ?sortby=SORTBY(sortby ?order(ASC|DESC)) ?limit=LIMIT(offset:i num:i) \
         ?params=PARAMS(nargs:i *values(name value)) ?dialect:i=DIALECT",
    )
    .doc(GROUP, "1.0.0", "O(N)", "Searches an index.");

fn search(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let (index, request) = parse(call, words[1], &words[2..])?;
    let (run, limit) = plan(call, index, request)?;
    job::run(call, run, limit)
}

/// The index of a name, and the request of the words from the query on.
///
/// # Errors
/// RediSearch's, for the words and for an index that is not there.
pub(super) fn parse(
    call: &mut Call<'_>,
    name: &[u8],
    words: &[&[u8]],
) -> Result<(Arc<KeyIndex>, Search), Error> {
    let index = readable_index(call, name)?;
    let request = Search::parse(words, &limits(call)).map_err(error)?;
    let name = String::from_utf8_lossy(name);
    let index = index.ok_or_else(|| Error::Text(format!("{name}: no such index")))?;
    index.count_dialect(request.query.dialect);
    Ok((index, request))
}

/// The run of a request, and its time limit.
///
/// # Errors
/// RediSearch's, for the query.
pub(super) fn plan(
    call: &Call<'_>,
    index: Arc<KeyIndex>,
    request: Search,
) -> Result<(Run, TimeLimit), Error> {
    let limit = time_limit(call, request.query.timeout_ms);
    Ok((Run::new(index, request, context(call)).map_err(error)?, limit))
}

fn error(error: martlet_search::Error) -> Error {
    Error::Text(error.to_string())
}

impl Job for Run {
    fn step(&mut self, access: &mut Access<'_>, now_ms: i64) -> bool {
        Run::step(self, access, now_ms)
    }

    fn end_early(&mut self) {
        Run::end_early(self);
    }

    fn finish(self, reply: &mut Reply) {
        let request = self.request().clone();
        let results = self.into_results();
        crate::search::reply::write(&request, &results, reply);
    }
}
